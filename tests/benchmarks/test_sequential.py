"""Early stopping: rows, order, durability, undefined cases, what marks a partial result, and its verification."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from StaICC import Normal, Statistics, load
from StaICC.benchmarks.findings import Contradicted, Recomputed, Unchecked, status_of
from StaICC.benchmarks.race import LOOK, StoppingRule, follow, race, row_order
from StaICC.benchmarks.verify import verify, verify_file
from StaICC.comparing.comparison import compare
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, OutputError
from StaICC.metrics.confidence_sequences import ConfidenceSequence
from StaICC.results.files import DIVIDED
from StaICC.results.result import Result, ResultGroup


def guesser(chance: float, seed: str = "") -> Callable[..., list[float]]:
    """A model that is right in a share of the queries, which depend on the prompt alone; the rows have their label."""

    def guess(prompt: str, label_space: list[str]) -> list[float]:
        rng = random.Random(f"{seed}{prompt}")
        truth = int(prompt.rsplit("row ", 1)[1].split()[1])
        label = truth if rng.random() < chance else rng.randrange(len(label_space))
        top = rng.uniform(0.6, 0.9)
        rest = (1 - top) / (len(label_space) - 1)
        return [top if place == label else rest for place in range(len(label_space))]

    return guess


def dataset(name: str, test: int, labels: int = 2) -> Dataset:
    rows = [(f"{name} row {number} {number * 7 % labels}", number * 7 % labels) for number in range(test + 40)]
    return Dataset.from_rows(
        rows,
        name=name,
        label_space=[f"label {number}" for number in range(labels)],
        split=SplitSizes(calibration=5, demonstration=30, test=test),
    )


@pytest.fixture(scope="module")
def data() -> list[Dataset]:
    return [dataset("large", 160), dataset("middle", 100, 3), dataset("small", 20, 4)]


def normal(data: list[Dataset], **settings: Any) -> Normal:
    return Normal(k=2, datasets=data, **settings)


@pytest.fixture(scope="module")
def early(data: list[Dataset]) -> Result:
    return normal(data)(guesser(0.7), precision=0.08, return_outputs=True)


@pytest.fixture(scope="module")
def full(data: list[Dataset]) -> Result:
    return normal(data)(guesser(0.7))


# -- order and rows


def test_the_order_is_a_random_order_of_the_data_set_alone(data: list[Dataset]) -> None:
    orders = [row_order(one) for one in normal(data)]
    assert [sorted(order) for order in orders] == [list(range(rows)) for rows in (160, 100, 20)]
    assert orders == [row_order(own) for own in Normal(k=0, datasets=data, noisy_channel=True)]
    assert [row for row in orders[0] if row < 20] != orders[2]  # data sets have different orders
    assert row_order(normal(data, limit=30)[0]) == [row for row in orders[0] if row < 30]
    assert row_order(Normal(datasets=["mini"])[0])[:4] == [29, 21, 12, 94], "frozen: needs a new version if it changes"


def test_data_sets_with_equal_rows_have_independent_orders() -> None:
    """The interval of six copies of one table is wrong in half of all cases if they have one order."""
    rows, size, copies = [(f"text {number}", number % 2) for number in range(140)], 100, 6
    split = SplitSizes(calibration=5, demonstration=30, test=size)
    same = [Dataset.from_rows(rows, name=f"c{n}", label_space=["a", "b"], split=split) for n in range(40 * copies)]
    assert len({one.table.digest for one in same}) == 1
    orders = [row_order(own) for own in Normal(k=0, datasets=same)]
    places = [[order.index(row) for order in orders] for row in range(5)]
    assert [
        of_row for of_row in places if abs(sum(of_row) / len(of_row) - (size - 1) / 2) >= 6
    ] == []  # three standard errors
    rng, wrong = random.Random("copies"), 0
    for first in range(0, len(orders), copies):
        values = [float(rng.random() < 0.6) for _ in range(size)]
        sequence = ConfidenceSequence([size] * copies)
        for place in range(size - 1):
            sequence.update([values[order[place]] for order in orders[first : first + copies]], 0.05)
        low, high = sequence.interval  # the intersection of all rounds
        wrong += not low - 1e-9 <= sum(values) / size <= high + 1e-9
    assert wrong <= 6  # of 40: 0.05 plus three standard errors


def test_a_partial_run_has_the_first_rows_of_the_order(data: list[Dataset], early: Result, full: Result) -> None:
    stopping = early.stopping
    assert stopping is not None
    assert stopping.rounds < stopping.all_rounds == 160
    assert stopping.rounds % LOOK == 0
    low, high = stopping.interval.low, stopping.interval.high
    assert (high - low) / 2 <= 0.08
    assert low <= full.averaged["accuracy"] <= high  # type: ignore[operator]
    for experimentor in normal(data):
        order, condition = row_order(experimentor), early.details[experimentor.name].conditions[0]
        chosen = sorted(order[: stopping.rounds])
        assert list(condition.rows) == chosen * 2  # both repeats, in the order of a full run
        whole = full.details[experimentor.name].conditions[0]
        rows = enumerate(zip(whole.rows, whole.predictions, strict=True))
        known = {(row, place // len(order)): label for place, (row, label) in rows}
        assert list(condition.predictions) == [known[row, repeat] for repeat in (0, 1) for row in chosen]
    assert stopping.queries == sum(details.asked for details in early.details.values())
    assert stopping.queries == sum(map(len, (early.outputs or {}).values()))
    assert stopping.all_queries == sum(details.asked for details in full.details.values()) == 560
    assert stopping.estimate == pytest.approx(early.averaged["accuracy"])


@pytest.mark.parametrize("score", ["accuracy", "likelihood"])
def test_when_all_rows_are_evaluated_the_interval_is_the_score(data: list[Dataset], full: Result, score: str) -> None:
    result = normal(data, outputs="probabilities")(guesser(0.7), precision=1e-6, score=score)
    stopping = result.stopping
    assert stopping is not None
    assert (stopping.reason, stopping.saved) == ("all rows are evaluated", 0)
    assert stopping.interval.low == stopping.interval.high == stopping.estimate
    assert stopping.estimate == pytest.approx(full.averaged[stopping.score], abs=1e-12)
    assert result[DIVIDED] == full[DIVIDED]
    assert "stopping" in result.signature.fields


# -- what is refused


def test_a_failed_query_ends_the_run_and_is_not_wrong(data: list[Dataset]) -> None:
    def failing(prompt: str, label_space: list[str]) -> list[float]:
        if random.Random(prompt).random() < 0.05:
            raise ValueError("no prediction")
        return guesser(0.7)(prompt, label_space)

    with pytest.raises(OutputError, match="no prediction"):
        normal(data)(failing, precision=0.08)
    with pytest.raises(OutputError, match="no prediction"):
        race(normal(data), guesser(0.7), failing)
    with pytest.raises(ArgumentError, match="on_error"):
        race(normal(data), guesser(0.7), failing, on_error="collect")


# -- what marks it


def test_a_partial_result_cannot_be_taken_for_a_full_one(early: Result, full: Result, data: list[Dataset]) -> None:
    assert early.signature.differences(full.signature).keys() == {"stopping", "statistics", "prompts"}
    assert "precision 0.08 of accuracy at level 0.95" in str(early.signature)
    assert early != full
    for text in (str(early), early._repr_html_()):
        assert "EARLY STOPPING: the precision of 0.08 is reached" in text
    assert "EARLY" not in str(full)
    assert "stopping" not in full.to_dict()
    for pair in ((early, full), (full, early), (early, early)):
        with pytest.raises(ArgumentError, match="stopped early"):
            compare(*pair)
    for details in early.details.values():
        assert not details.intervals
        assert not details.baselines  # their p-values assume a fixed number of rows


# -- verification


def assert_recomputed(result: Result | ResultGroup, benchmark: Normal | None = None) -> None:
    assert status_of(verify(result, benchmark)) == Recomputed()


def test_the_decision_is_verified(early: Result, data: list[Dataset], tmp_path: Path) -> None:
    assert_recomputed(early, normal(data))
    assert isinstance(status_of(verify(early)), Unchecked)  # without the user's data
    constant = lambda prompt, label_space: [0.7, 0.2, 0.1]  # noqa: E731
    for of_library in (
        Normal(datasets=["mini"])(constant, precision=0.1),
        Normal(datasets=["mini"], limit=40, outputs="probabilities")(constant, precision=0.1, score="likelihood"),
    ):
        of_library.save(tmp_path / "saved.json")
        assert status_of(verify_file(tmp_path / "saved.json")) == Recomputed()
    strict = normal(data, statistics=Statistics(level=0.99))
    result = strict(guesser(0.7), precision=0.1)
    assert result.stopping is not None
    assert result.stopping.interval.level == 0.99
    assert_recomputed(result, strict)
    assert status_of(verify(result, normal(data))) != Recomputed()  # the level is another


# -- races


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (0.9, 0.3, "the first model is better"),
        (0.3, 0.9, "the second model is better"),
        (0.9, 0.9, "the models are equivalent within the margin of 0.02"),
    ],
)
def test_races(data: list[Dataset], first: float, second: float, reason: str) -> None:
    result = race(normal(data), guesser(first), guesser(second))
    one, other = result.results()
    stopping = one.stopping
    assert stopping is not None
    assert stopping == other.stopping
    assert stopping.reason == reason
    assert stopping.rounds < 160
    for part in (one, other):
        rows = [len(details.conditions[0].rows) for details in part.details.values()]
        assert rows == [2 * min(stopping.rounds, size) for size in (160, 100, 20)]
    difference = one.averaged["accuracy"] - other.averaged["accuracy"]  # type: ignore[operator]
    assert stopping.estimate == pytest.approx(difference)
    whole = [normal(data)(guesser(chance)).averaged["accuracy"] for chance in (first, second)]
    for value in (difference, whole[0] - whole[1]):  # type: ignore[operator]
        assert stopping.interval.low <= value <= stopping.interval.high
    assert_recomputed(result, normal(data))


def test_a_race_of_nearly_equal_models_ends_with_the_exact_difference(data: list[Dataset]) -> None:
    benchmark = normal(data, limit=20)
    stopping = race(benchmark, guesser(0.7, "a"), guesser(0.7, "b"), margin=0.001)["first"].stopping
    exact = [benchmark(guesser(0.7, seed)).averaged["accuracy"] for seed in "ab"]
    assert stopping.rounds == stopping.all_rounds == 20
    assert stopping.interval.low == stopping.interval.high == pytest.approx(exact[0] - exact[1], abs=1e-12)  # type: ignore[operator]
    assert stopping.reason == f"the {'first' if exact[0] > exact[1] else 'second'} model is better"  # type: ignore[operator]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_race_goes_on_while_either_model_may_be_better_by_more_than_the_margin(sign: float) -> None:
    """The difference is -0.06 or 0.06: one end of its interval is soon within the margin, the other one is not."""
    rule = StoppingRule("race", "accuracy", 0.1, 0.95)
    draw = random.Random(5)
    differences = [sign * draw.choices([-1.0, 1.0, 0.0], [0.11, 0.05, 0.84])[0] for _ in range(2000)]
    sequence, reason = follow(rule, [len(differences)], lambda look: [[differences[place]] for place in look])
    low, high = sequence.interval
    assert reason != "all rows are evaluated"
    if reason == "the models are equivalent within the margin of 0.1":
        assert -0.1 < low <= high < 0.1
    for interval, is_equivalent in (((-0.3, 0.05), False), ((-0.05, 0.3), False), ((-0.05, 0.05), True)):
        known: Any = SimpleNamespace(interval=interval, rounds=8, all_rounds=100)
        found = rule.reason(known)
        assert (found is not None) is is_equivalent
        if is_equivalent:
            assert "equivalent within the margin" in str(found)


def test_an_exact_tie_is_no_win() -> None:
    """Three data sets of 7 rows, whose sums are not exact in floating point: a difference of 0 stays 0."""
    data = [dataset(name, 7) for name in "abc"]
    stopping = race(normal(data), guesser(1.0), guesser(1.0), margin=0.001)["first"].stopping
    assert stopping.reason == "the models are equivalent within the margin of 0.001"


def test_the_decision_of_a_race_is_verified(data: list[Dataset], tmp_path: Path) -> None:
    race(normal(data), guesser(0.9), guesser(0.3)).save(tmp_path / "race.json")
    saved = load(tmp_path / "race.json")
    assert isinstance(saved, ResultGroup)
    assert_recomputed(saved, normal(data))
    for parts in ({"first": saved["second"], "second": saved["first"]}, {"first": saved["first"]}):
        assert isinstance(status_of(verify(ResultGroup(saved.name, parts), normal(data))), Contradicted)
    half = status_of(verify(saved["first"], normal(data)))
    assert isinstance(half, Unchecked)
    assert "this is one" in half.reason
    unknown = verify(saved)
    assert isinstance(status_of(unknown), Unchecked)
    unchecked = [line for finding in unknown for line in finding.unchecked]
    assert any("stopping" in line for line in unchecked), f"got {unchecked}"
    with pytest.raises(ArgumentError, match="stopped early"):
        compare(saved["first"], saved["second"])
