"""Progress of a run: the phase of loading, and lines in a log file."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import progress as module
from StaICC.inference.contract import LoadsModel
from StaICC.inference.identity import Identity
from StaICC.progress import LOADING, Progress, ProgressLine, drawn_progress


class Late(LoadsModel):
    """A kernel whose model is loaded when it is first needed; it counts how often."""

    def __init__(self) -> None:
        self.loaded = 0

    @property
    def is_loaded(self) -> bool:
        return self.loaded > 0

    def load_model(self) -> None:
        self.loaded += 1

    def identity(self) -> Identity:
        return Identity({"model": "late"})

    def __call__(self, prompt: str, label_space: list[str]) -> int:
        assert self.loaded
        return 0


@pytest.fixture
def reports() -> list[Progress]:
    """Return the progress reports of a run whose model is loaded late."""
    reports: list[Progress] = []
    StaICC.Normal(datasets=["mini"], limit=4)(Late(), progress=reports.append)
    return reports


def test_a_model_is_loaded_once(tmp_path: Path) -> None:
    kernel = Late()
    StaICC.Normal(datasets=["mini"], limit=4)(kernel, store=tmp_path / "run.sqlite")
    assert kernel.loaded == 1


def test_loading_is_reported_once_before_the_first_prediction(reports: list[Progress]) -> None:
    (loading,) = [number for number, report in enumerate(reports) if report.phase == LOADING]
    first_prediction = min(number for number, report in enumerate(reports) if report.done > 0)
    assert loading < first_prediction


def test_after_the_loading_the_prediction_is_reported(reports: list[Progress]) -> None:
    phases = [report.phase for report in reports]
    after_loading = reports[phases.index(LOADING) + 1]
    assert after_loading.phase == ""
    assert after_loading.done == 0


class Wrapper:
    """Calls another function, whose model is loaded before."""

    def __init__(self, kernel: Late) -> None:
        self.kernel = kernel

    def __call__(self, prompt: str, label_space: list[str]) -> int:
        return self.kernel(prompt, label_space)


def test_the_kernel_that_a_function_wraps_is_loaded() -> None:
    kernel = Late()
    StaICC.Normal(datasets=["mini"], limit=2)(Wrapper(kernel))
    assert kernel.loaded == 1


class Own:
    """A function of the user, whose attribute of that name means another thing."""

    def __init__(self, load_model: Any) -> None:
        self.load_model = load_model

    def __call__(self, prompt: str, label_space: list[str]) -> int:
        return 0


@pytest.mark.parametrize("load_model", [lambda path: path, "gpt", None, 3])
def test_the_users_own_load_model_is_not_called(load_model: Any) -> None:
    assert StaICC.Normal(datasets=["mini"], limit=2)(Own(load_model)).complete


def test_the_loading_is_drawn_at_once_on_a_terminal() -> None:
    stream, now = io.StringIO(), 0.0
    line = ProgressLine(stream, clock=lambda: now)
    now = 2.0
    line(Progress(0, 8, "Normal, mini", 0, 1))
    line(Progress(0, 0, "Normal, mini", 0, 1, phase=LOADING))
    assert stream.getvalue().rstrip().endswith("Normal, mini, loading: 2 s")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def wait_for_lines(stream: io.StringIO, count: int) -> None:
    """Wait until a stream has so many lines; a minute at most, for the test to fail."""
    end = time.monotonic() + 60
    while stream.getvalue().count("\n") < count and time.monotonic() < end:
        time.sleep(0.005)


@pytest.fixture
def loading_line(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ProgressLine, io.StringIO, Clock]]:
    """Return the progress of a run in a log file that reported once, at second 0, that it loads; its file and clock."""
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.005)
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, lines=True, clock=clock)
    line(Progress(0, 0, "Normal, mini", 0, 1, phase=LOADING))
    yield line, stream, clock
    line.close()


def test_a_log_file_gets_no_line_in_the_first_minute(loading_line: Any) -> None:
    _, stream, clock = loading_line
    clock.seconds = 59.0
    time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_log_file_gets_a_line_each_minute_also_without_a_report(loading_line: Any) -> None:
    _, stream, clock = loading_line
    for minute in (1, 2, 3):
        clock.seconds = 60.0 * minute
        wait_for_lines(stream, minute)
    assert stream.getvalue().splitlines() == [
        "Normal, mini, loading: 60 s",
        "Normal, mini, loading: 2 min",
        "Normal, mini, loading: 3 min",
    ]


def test_a_log_file_gets_no_line_after_the_end(loading_line: Any) -> None:
    line, stream, clock = loading_line
    line.close()
    clock.seconds = 1000.0
    time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_log_file_gets_no_line_if_the_line_is_closed_while_the_clock_is_read() -> None:
    """The thread that writes each minute may be about to write when the run ends: the end waits for its line."""
    stream = io.StringIO()
    line = ProgressLine(stream, lines=True, clock=Clock())
    line(Progress(0, 0, "Normal, mini", 0, 1, phase=LOADING))
    closing = threading.Thread(target=line.close)

    with line._drawing:
        closing.start()
        closing.join(timeout=0.05)
        closed_while_a_line_is_written = not closing.is_alive()
    closing.join()

    assert not closed_while_a_line_is_written


@pytest.mark.parametrize(
    ("setting", "variable", "drawn"), [(None, "", True), (None, "0", False), (False, "", False), (True, "0", True)]
)
def test_lines_are_written_by_default(
    setting: bool | None, variable: str, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAICC_PROGRESS", variable)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with drawn_progress(setting) as report:
        assert (report is not None) is drawn
