"""Rate and time left: from invented reports, whose truth is known."""

from __future__ import annotations

import io
import re
import sys

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.inference import Pace, Progress
from StaICC.progress import ProgressLine, drawn_progress


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def report(done: int, total: int = 400, number: int = 0, parts: int = 1, stored: int = 0) -> Progress:
    return Progress(done, total, "Normal, TREC", number, parts, stored)


def test_nothing_is_known_before_the_first_answer():
    clock = Clock()
    pace = Pace(clock)
    for _ in range(3):
        assert pace.update(report(0)) == (None, None)
        clock.now += 5
    assert pace.update(report(0)).seconds_left is None


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_a_steady_run_is_foretold(parts):
    clock, pace = Clock(), None
    pace = Pace(clock)
    for number in range(parts):
        for done in range(0, 401, 4):
            estimate = pace.update(report(done, number=number, parts=parts))
            left = (parts - number) * 400 - done
            if estimate.rate is not None:
                assert estimate.rate == pytest.approx(8)
                assert estimate.seconds_left == pytest.approx(left / 8)
            if done < 400:
                clock.now += 0.5
    assert estimate.seconds_left == 0


def test_what_the_store_had_does_not_count_as_fast():
    clock = Clock()
    pace = Pace(clock)
    for number in range(5):
        assert pace.update(report(400, number=number, parts=10, stored=400)).rate is None
        clock.now += 0.01
    pace.update(report(300, number=5, parts=10, stored=300))
    clock.now += 10
    estimate = pace.update(report(320, number=5, parts=10, stored=300))
    assert estimate.rate == pytest.approx(2, rel=0.01)
    assert estimate.seconds_left == pytest.approx((80 + 4 * 400) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "size", "rate"), [([10.0] * 30 + [1.0] * 200, 1, 1.0), ([600.0] * 20, 20, 20 / 600)]
)
def test_the_rate_follows_a_change_and_long_chunks(seconds, size, rate):
    clock = Clock()
    pace = Pace(clock)
    for number, pause in enumerate(seconds):
        estimate = pace.update(report(number * size, total=1000))
        clock.now += pause
    assert estimate.rate == pytest.approx(rate, rel=0.05)


def test_a_run_reports_what_was_stored_and_what_failed(tmp_path):
    seen: list[Progress] = []

    def fails(prompt: str, label_space: list[str]) -> int:
        if len(prompt) % 5 == 0:
            raise ValueError
        return 0

    benchmark = Normal(datasets=["mini"], limit=20)
    settings = {"store": tmp_path / "s", "model_name": "f", "on_error": "collect"}
    result = benchmark(fails, progress=seen.append, **settings)
    failed = result.details["mini"].failed
    assert failed > 0
    assert (seen[0].stored, seen[-1].failed, seen[-1].done) == (0, failed, 40)
    seen.clear()
    benchmark(fails, progress=seen.append, **settings)
    assert (seen[0].done, seen[0].stored, seen[-1].done) == (40 - failed, 40 - failed, 40)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_shows_part_rate_and_time_left(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    clock, stream = Clock(), Terminal()
    line = ProgressLine(stream, clock=clock)
    for done in range(0, 101, 10):
        line(Progress(done, 400, "Suite, TREC", 2, 10, 0, 3 if done > 50 else 0))
        clock.now += 10
    shown = stream.getvalue().split("\r")
    assert shown[1] == "[3/10] Suite, TREC: 2 % |....................| 10/400, 10 s, 1/s, 53 min left"
    assert shown[-1] == "[3/10] Suite, TREC: 25 % |#####...............| 100/400, 3 failed, 2 min, 1/s, 52 min left"
    line.close()
    assert re.fullmatch(r"\r *\r", stream.getvalue()[-len(shown[-1]) - 2 :])
    line.close()


@pytest.mark.parametrize(
    ("columns", "part", "shown"),
    [
        (40, "Suite, " + "x" * 100 + "\x1b[2J", "[3/10] Suite, xxx"),
        (60, "Suite, TREC", "[3/10] Suite, TREC: 50 % 200/400, 20 s, 10/s, 5 min left"),
    ],
)
def test_a_line_never_wraps_and_a_narrow_terminal_shows_no_bar(monkeypatch, columns, part, shown):
    monkeypatch.setenv("COLUMNS", str(columns))
    clock, stream = Clock(), Terminal()
    line = ProgressLine(stream, clock=clock)
    for done in (0, 100, 200):
        line(Progress(done, 400, part, 2, 10))
        clock.now += 10
    last = stream.getvalue().split("\r")[-1]
    assert last.startswith(shown)
    assert len(last) < columns
    assert "\x1b" not in last


def test_a_short_run_draws_nothing_and_phases_have_names():
    clock, stream = Clock(), Terminal()
    line = ProgressLine(stream, clock=clock)
    for done in range(5):
        line(report(done))
        clock.now += 0.05
    assert stream.getvalue() == ""
    clock.now += 5
    line(Progress(64, 0, "k-NN: Normal, TREC", 0, 1, phase="training"))
    assert "k-NN: Normal, TREC, training: 64, 5 s" in stream.getvalue()
    clock.now += 5
    line(Progress(400, 400, "Normal, TREC", 0, 1, phase="statistics"))
    assert "Normal, TREC, statistics: 10 s" in stream.getvalue()


def test_lines_once_per_minute():
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(stream, lines=True, clock=clock)
    for done in range(0, 400):
        line(report(done))
        clock.now += 1
    line.close()
    assert len(stream.getvalue().splitlines()) == 6
    assert "\r" not in stream.getvalue()


class Notebook(io.StringIO):
    """As the stderr of a notebook: no terminal."""


Notebook.__module__ = "ipykernel.iostream"


@pytest.mark.parametrize(
    ("stream", "setting", "variable", "drawn"),
    [
        (Terminal, None, "", True),
        (Notebook, None, "", True),
        (io.StringIO, None, "", False),
        (Terminal, False, "", False),
        (Terminal, False, "1", False),
        (Terminal, None, "0", False),
        (Notebook, None, "off", False),
        (Terminal, True, "0", True),
        (io.StringIO, True, "", True),
        (io.StringIO, None, "1", True),
    ],
)
def test_where_it_draws(monkeypatch, stream, setting, variable, drawn):
    monkeypatch.setattr("sys.stderr", stream())
    monkeypatch.setenv("STAICC_PROGRESS", variable)
    with drawn_progress(setting) as line:
        assert isinstance(line, ProgressLine) is drawn


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_a_stderr_that_is_missing_or_closed_draws_nothing(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("STAICC_PROGRESS", raising=False)
    if stream is not None:
        stream.close()
    for setting in (None, True) if stream is not None else (None,):
        with drawn_progress(setting) as line:
            assert line is None


@pytest.mark.parametrize("setting", [5, "no", []])
def test_what_is_no_setting_is_refused(setting):
    with pytest.raises(ArgumentError, match="progress must be True, False or a function"):
        Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: 0, progress=setting)


def test_a_run_draws_on_a_terminal_and_erases(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.delenv("STAICC_PROGRESS", raising=False)
    monkeypatch.setattr("StaICC.progress._FIRST_SECONDS", 0.0)
    monkeypatch.setattr("StaICC.progress._REDRAW_SECONDS", 0.0)
    Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: 0)
    shown = stream.getvalue()
    assert "Normal, mini: 100 % |####################| 6/6" in shown
    assert "statistics" in shown
    assert shown.endswith(" \r")


class _Encoding:
    """A kernel with hidden states."""

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return [(0.5, 0.3, 0.2)[(len(prompt) + number) % 3] for number in range(len(label_space))]

    def hidden_states(self, prompts: list[str]) -> list[list[float]]:
        return [[float(len(prompt)), float(prompt.count("e"))] for prompt in prompts]


@pytest.mark.parametrize(
    ("name", "options", "phase"),
    [("temperature_scaling", {"calibration_number": 8}, "training"), ("topk", {}, "encoding")],
)
def test_methods_report_training_and_encoding(name, options, phase):
    from StaICC.methods.run import Method

    seen: list[Progress] = []
    Method(name, _Encoding(), **options).run(Normal(datasets=["mini"], limit=2), progress=seen.append)
    assert [one.phase for one in seen] == sorted((one.phase for one in seen), reverse=True), "first the phase"
    assert {one.phase for one in seen} == {"", phase}
    assert max(one.done for one in seen if one.phase == phase) > 0
    assert len({one.where for one in seen}) == 1
