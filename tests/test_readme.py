"""The README promises only what runs here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


def test_readme_has_examples() -> None:
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_block_runs(number: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BLOCKS[number]],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "STAICC_OFFLINE": "1", "STAICC_HOME": str(tmp_path / "home"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_commands_exist() -> None:
    """Every `run NAME` that the README names is a benchmark of the command line."""
    from StaICC.benchmarks.catalogue import BENCHMARKS
    from StaICC.cli import long_icl

    named = set(re.findall(r"`run ([a-z-]+)`", README))
    assert named
    assert named <= {*BENCHMARKS, long_icl.NAME}


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)h][^)]*)\)", README):
        assert (ROOT / target).exists(), target


def test_subcommands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from StaICC.cli import main

    for command in sorted(set(re.findall(r"python -m StaICC ([a-z]+)", README))):
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0, command
    capsys.readouterr()


def test_main_job_runs_on_mini(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "StaICC", "run", "normal", "--datasets", "mini"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "STAICC_OFFLINE": "1", "STAICC_HOME": str(tmp_path / "home"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mini" in done.stdout
    assert "accuracy" in done.stdout
    assert done.stderr == ""  # not a terminal: no progress
