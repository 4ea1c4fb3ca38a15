"""Rate and time left: from invented reports, whose truth is known."""

from __future__ import annotations

import io
import re

import pytest

from StaICC import Normal
from StaICC.inference import Pace, Progress
from StaICC.progress import ProgressLine


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def report(done: int, total: int = 400, number: int = 0, parts: int = 1, stored: int = 0) -> Progress:
    return Progress(done, total, "Normal, TREC", number, parts, stored)


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
