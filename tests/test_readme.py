"""The README's main job runs as it says, and its table names what there is (blocks: test_docs_blocks.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_commands_exist() -> None:
    """Every `run NAME` that the README names is a benchmark of the command line."""
    from StaICC.benchmarks.tasks import BENCHMARKS
    from StaICC.cli.options import LONG_ICL

    named = set(re.findall(r"`run ([a-z-]+)`", README))
    assert named
    assert named <= {*BENCHMARKS, LONG_ICL}


def test_main_job_runs_on_mini(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini", "--no-save"],
        cwd=tmp_path,
        env={
            "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
            "PYTHONPATH": str(ROOT),
            "STAICC_OFFLINE": "1",
            "STAICC_HOME": str(tmp_path / "home"),
            "PATH": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mini" in done.stdout
    assert "accuracy" in done.stdout
    assert done.stderr == ""  # not a terminal: no progress
