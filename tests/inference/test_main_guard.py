"""A script without the guard that worker processes need gets an error that says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import StaICC

SCRIPT = """
from StaICC import Normal
from StaICC.inference.workers import worker_processes
def answer(prompt, label_space):
    return 0
Normal(datasets=["mini"], limit=8)(answer, executor=worker_processes(2))
"""


def test_a_script_without_the_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(StaICC.__file__).parents[1])}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].count('no `if __name__ == "__main__":`') == 1, done.stderr
    assert "memory" not in done.stderr
