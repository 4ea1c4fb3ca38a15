"""Progress of a run: the phase of loading, and lines in a log file."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC import progress as module
from StaICC.inference.contract import LoadsModel
from StaICC.inference.identity import Identity
from StaICC.progress import LOADING, Progress, ProgressLine, drawn_progress


class Late(LoadsModel):
    """A kernel whose model is loaded when it is first needed."""

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


def test_loading_is_a_phase_before_the_first_prediction(tmp_path: Any) -> None:
    reports: list[Progress] = []
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    kernel = Late()
    benchmark(kernel, progress=reports.append, store=tmp_path / "run.sqlite")
    phases = [report.phase for report in reports]
    assert phases.index(LOADING) < [report.done > 0 for report in reports].index(True)
    assert phases.count(LOADING) == kernel.loaded == 1


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


def test_after_the_loading_the_log_says_prediction(tmp_path: Path) -> None:
    reports: list[Progress] = []
    StaICC.Normal(datasets=["mini"], limit=2)(Late(), progress=reports.append)
    phases = [report.phase for report in reports]
    assert phases[phases.index(LOADING) + 1] == ""
    assert reports[phases.index(LOADING) + 1].done == 0


def test_the_loading_is_drawn_at_once_on_a_terminal() -> None:
    stream, now = io.StringIO(), 0.0
    line = ProgressLine(stream, clock=lambda: now)
    now = 2.0
    line(Progress(0, 8, "Normal, mini", 0, 1))
    line(Progress(0, 0, "Normal, mini", 0, 1, phase=LOADING))
    assert stream.getvalue().rstrip().endswith("Normal, mini, loading: 2 s")


def test_a_log_file_gets_a_line_each_minute_also_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.005)
    now = 0.0
    stream = io.StringIO()
    line = ProgressLine(stream, lines=True, clock=lambda: now)
    line(Progress(0, 0, "Normal, mini", 0, 1, phase=LOADING))
    time.sleep(0.05)
    assert stream.getvalue() == ""  # less than a minute
    for minute in (1, 2, 3):
        now = 60.0 * minute
        for _ in range(400):
            time.sleep(0.005)
            if stream.getvalue().count("\n") == minute:
                break
    line.close()
    assert stream.getvalue().splitlines() == [
        "Normal, mini, loading: 60 s",
        "Normal, mini, loading: 2 min",
        "Normal, mini, loading: 3 min",
    ]
    now = 1000.0
    time.sleep(0.05)
    assert stream.getvalue().count("\n") == 3  # nothing after the end


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
