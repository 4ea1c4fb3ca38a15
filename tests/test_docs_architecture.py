"""docs/architecture.md names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", PAGE))
    assert len(named) > 15
    for name in named:
        assert (ROOT / "StaICC" / name).exists() or (ROOT / name).exists() or list(ROOT.glob(f"StaICC/*/{name}")), name
