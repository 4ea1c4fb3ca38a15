"""The pictures of the gallery: the curve is that of its program; the pages' pictures are there (tests/pictures.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.test_docs_blocks import PYTHON, ROOT, environment

PAGE = ROOT / "docs" / "gallery.md"


def test_the_curve_is_that_of_the_program(tmp_path: Path) -> None:
    (block,) = (block for block in PYTHON if block.page == PAGE)
    command = [sys.executable, "-c", block.code]
    subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), check=True, capture_output=True)
    assert (tmp_path / "shots.svg").read_bytes() == (ROOT / "docs" / "assets" / "shots.svg").read_bytes()


def test_every_picture_is_there_and_small() -> None:
    shown = re.findall(r"!\[[^]]+\]\((assets/[\w.]+)\)", PAGE.read_text("utf-8"))
    assert len(shown) == 4
    for name in shown:
        file = ROOT / "docs" / name
        assert file.stat().st_size < 100_000
