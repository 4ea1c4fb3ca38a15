"""Importing the data sets costs nothing and does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ("subprocess", "sqlite3", "urllib.request", "zipfile", "pickle", "tempfile", "shutil", "importlib.resources")


def run(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{code}"],
        cwd=tmp_path,
        env={
            "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
            "HOME": str(tmp_path),
            "STAICC_HOME": str(tmp_path / "data"),
        },
        capture_output=True,
        text=True,
        check=True,
    )


def test_import_is_light_and_silent(tmp_path: Path) -> None:
    done = run(f"import StaICC.datasets; assert not set(sys.modules) & set({HEAVY!r}), sys.modules.keys()", tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_the_line_of_the_first_use_is_seen_without_any_logging_set_up(tmp_path: Path) -> None:
    code = """
import os; os.environ["STAICC_OFFLINE"] = "1"
from StaICC.datasets import load_dataset
from StaICC.errors import DataMissingError
try:
    load_dataset("TREC")
except DataMissingError as error:
    print(error)
"""
    done = run(code, tmp_path)
    assert done.stderr.count("\n") == 1
    assert "installing the benchmark's data into" in done.stderr
    assert "python -m StaICC data install StaICC-0.1.1-py3-none-any.whl" in done.stdout
