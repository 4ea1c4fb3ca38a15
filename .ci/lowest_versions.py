"""Prints the lowest supported version of each package of the given extras, as constraints for pip.

Usage: python .ci/lowest_versions.py test hf endpoint > constraints.txt
torch is left out: the version that is installed with it is fixed by the job.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

project = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
table = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
lowest: set[str] = set()
for extra in sys.argv[1:]:
    requirements = re.search(rf"^{re.escape(extra)} = \[(.*?\")\s*,?\s*\]", table, re.DOTALL | re.MULTILINE)
    if requirements is None:
        sys.exit(f"pyproject.toml has no extra {extra!r}")
    lowest.update(re.findall(r'"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)', requirements[1]))
for name, version in sorted(lowest):
    if name != "torch":
        print(f"{name}=={version}")
