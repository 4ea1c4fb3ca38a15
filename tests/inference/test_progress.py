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
