"""Progress as a bar of tqdm: what it shows, when it is silent, and that nothing needs it."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

import StaICC
from StaICC.inference import Progress
from StaICC.inference.tqdm_progress import TqdmProgress, tqdm_progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_it_shows_part_place_and_failures() -> None:
    pytest.importorskip("tqdm")
    stream = Terminal()
    bar = TqdmProgress(stream)
    bar(Progress(0, 4, "Normal, TREC", 0, 2))
    bar(Progress(4, 4, "Normal, TREC", 0, 2, failed=1))
    bar(Progress(1, 8, "Normal, SST5", 1, 2))
    bar.close()
    text = stream.getvalue()
    assert "[1/2] Normal, TREC:   0%" in text
    assert "[2/2] Normal, SST5:" in text
    assert text.endswith("\r")  # taken away again


def test_a_whole_run_goes_to_its_end() -> None:
    pytest.importorskip("tqdm")
    stream = Terminal()
    bar = TqdmProgress(stream)
    seen: list[Progress] = []

    def both(progress: Progress) -> None:
        seen.append(progress)
        bar(progress)
        assert bar._bar.n == progress.done
        assert bar._bar.total == progress.total

    StaICC.Suite(datasets=["mini"], limit=3)(lambda prompt, label_space: 0, progress=both)
    bar.close()
    assert seen[-1].done == seen[-1].total > 0


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_it_is_silent_where_nobody_looks(stream: io.StringIO, quiet: bool) -> None:
    pytest.importorskip("tqdm")
    bar = TqdmProgress(stream, quiet)
    bar(Progress(1, 2, "Normal, TREC", 0, 1))
    bar.close()
    assert stream.getvalue() == ""


def test_a_notebook_needs_no_stream(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    bar = TqdmProgress()
    bar(Progress(1, 2, "Normal, TREC", 0, 1))
    bar.close()
    assert "Normal, TREC" in capsys.readouterr().err


def test_without_tqdm_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert tqdm_progress() is None
    assert tqdm_progress(Terminal()) is None


def test_the_library_never_imports_it() -> None:
    code = (
        "import sys, StaICC\n"
        "StaICC.Normal(datasets=['mini'], limit=2)(lambda prompt, label_space: 0)\n"
        "assert 'tqdm' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
