"""The record of measurements: what a script appends, and what the comparison of two entries prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "performance"


def run(code: str, file: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); sys.argv = ['compare']\n{code}"],
        env={**os.environ, "STAICC_PERFORMANCE_RECORDS": file},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_an_entry_says_where_its_figures_are_from(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    figures = {"a": 1.23456789, "b": {"c": [1, True, "text"]}, "d": None}
    run(
        f"from records import record; record('x/speed.py', {figures}, {{'k': 4, 'json': True, 'none': None}})",
        str(file),
    )
    entry = json.loads(file.read_text("utf-8"))
    assert entry["figures"] == {"a": 1.23457, "b / c [0]": 1, "b / c [1]": 1}
    assert (entry["script"], entry["options"]) == ("speed", {"k": 4})
    assert entry["version"]
    assert entry["machine"]["cpu"]
    assert entry["machine"]["cores"] >= 1
    assert entry["date"].endswith("Z")


def test_an_empty_variable_records_nothing(tmp_path: Path) -> None:
    before = (FOLDER / "records.jsonl").read_bytes()
    run("from records import record; record('speed.py', {'a': 1})", "")
    assert (FOLDER / "records.jsonl").read_bytes() == before
