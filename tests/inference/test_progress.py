"""Rate and time left: from invented reports, whose truth is known."""

from __future__ import annotations

import io
import random
import re

import pytest

from StaICC import Normal
from StaICC.cli.run import ProgressLine
from StaICC.inference import Pace, Progress


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
    pace.update(report(300, stored=300))
    clock.now += 10
    estimate = pace.update(report(320, stored=300))
    assert estimate == (2.0, 40.0)


def test_parts_that_were_stored_do_not_disturb_the_rate():
    clock = Clock()
    pace = Pace(clock)
    for number in range(5):
        assert pace.update(report(400, number=number, parts=10, stored=400)).rate is None
        clock.now += 0.01
    pace.update(report(0, number=5, parts=10))
    clock.now += 10
    assert pace.update(report(40, number=5, parts=10)).rate == pytest.approx(4, rel=0.01)


def test_the_rate_follows_a_change():
    clock = Clock()
    pace = Pace(clock)
    for done, seconds in enumerate([10.0] * 30 + [1.0] * 200):
        estimate = pace.update(report(done, total=1000))
        clock.now += seconds
    assert estimate.rate == pytest.approx(1, rel=0.05)


def test_long_chunks_keep_a_rate():
    clock = Clock()
    pace = Pace(clock)
    for done in range(0, 400, 20):
        estimate = pace.update(report(done))
        clock.now += 600
    assert estimate.rate == pytest.approx(20 / 600)


def test_a_million_reports_take_no_room():
    clock = Clock()
    pace = Pace(clock)
    for done in range(100_000):
        pace.update(report(done, total=100_000))
        clock.now += 0.001
    assert len(pace._seen) < 250


def test_any_sequence_gives_sensible_numbers():
    draw = random.Random(1)
    for _ in range(200):
        clock, done = Clock(), 0
        pace = Pace(clock)
        parts = draw.randint(1, 4)
        for number in range(parts):
            total = draw.randint(0, 50)
            stored = done = draw.randint(0, total)
            while True:
                rate, left = pace.update(report(done, total, number, parts, stored))
                assert (rate is None) == (left is None)
                assert rate is None or (rate > 0 and left is not None and left >= 0)
                clock.now += draw.choice([0, 0.1, 3, 100])
                if done == total:
                    break
                done = min(total, done + draw.randint(1, 9))


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
    now = [50.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal()
    line = ProgressLine(stream, quiet=False)
    line._pace = Pace(lambda: now[0])
    for done in range(0, 101, 10):
        line(Progress(done, 400, "Suite, TREC", 2, 10, 0, 3 if done > 50 else 0))
        now[0] += 10
    shown = stream.getvalue().split("\r")
    assert shown[1] == "[3/10] Suite, TREC: 0/400, 0 s"
    assert shown[-1].rstrip() == "[3/10] Suite, TREC: 100/400 (3 failed), 2 min, 1/s, 52 min left"
    line.close()
    assert re.fullmatch(r"\r *\r", stream.getvalue()[-len(shown[-1]) - 2 :])
    line.close()


def test_nothing_is_drawn_where_nobody_looks():
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        line = ProgressLine(stream, quiet)
        line(Progress(1, 2, "Normal, TREC", 0, 1))
        line.close()
        assert stream.getvalue() == ""
