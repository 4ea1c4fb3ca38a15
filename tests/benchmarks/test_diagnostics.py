"""Warnings about predictions: each kind where it holds, none where it does not, and no score changes by one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks.evaluation import find_warnings
from StaICC.benchmarks.task import Condition, Outcome
from StaICC.benchmarks.verify import Recomputed, verify
from StaICC.prompting import Query
from StaICC.results import Result, load

SAME = "all 40 predictions are the same: they do not depend on the query"


def outcome(
    rows: Sequence[Any], truth: Sequence[int] | None = None, labels: int = 2, name: str = "c", outputs: Any = "auto"
) -> Outcome:
    space = tuple(f"label {number}" for number in range(labels))
    truth = truth or [number % labels for number in range(len(rows))]
    queries = [Query(f"prompt {number}", space, label, number, 0) for number, label in enumerate(truth)]
    return Outcome(Condition(name, tuple(queries)), list(rows), outputs)


def rows_of(make: Callable[[random.Random, int], list[float]], number: int = 40) -> list[list[float]]:
    draw = random.Random("rows")
    return [make(draw, place) for place in range(number)]


def scored(draw: random.Random, place: int) -> list[float]:
    return [draw.gauss(0, 1), draw.gauss(0, 1)]


def starting(warnings: Sequence[str]) -> list[str]:
    return [" ".join(warning.split()[:7]) for warning in warnings]


def test_ordinary_logits_and_probabilities_get_no_warning() -> None:
    logits = rows_of(scored)
    assert find_warnings([outcome(logits)]) == ()
    probabilities = [[1 / (1 + math.exp(a - b)), 1 - 1 / (1 + math.exp(a - b))] for a, b in logits]
    assert find_warnings([outcome(probabilities)]) == ()
    assert find_warnings([outcome([place % 2 for place in range(40)])]) == ()
    assert find_warnings([outcome([])]) == ()


def test_the_same_row_for_different_prompts() -> None:
    assert find_warnings([outcome([[0.7, 0.3]] * 40)]) == (SAME,)
    assert find_warnings([outcome([[0.7 + place * 1e-12, 0.3] for place in range(40)])]) == (SAME,)
    few = [[0.71234, 0.28766]] * 2
    assert starting(find_warnings([outcome(few)])) == ["all 2 predictions are the same: they"]
    assert find_warnings([outcome(few[:1])]) == ()
    query = outcome(few).queries[0]
    repeats = Condition("c", tuple(replace(query, prompt=str(number), repeat=number) for number in (0, 1)))
    assert find_warnings([Outcome(repeats, few, "auto")]) == ()  # one test row with other demonstrations
    assert find_warnings([outcome([[0.98, 0.02]] * 19)]) == ()  # coarse scores are often equal
    assert find_warnings([outcome([[0.98, 0.02]] * 20)]) != ()
    one_prompt = Condition("c", (Query("prompt", ("a", "b"), 0, 0, 0),) * 40)
    assert find_warnings([Outcome(one_prompt, [[0.7, 0.3]] * 40, "auto")]) == ()


def test_one_label_with_other_probabilities_each_time() -> None:
    rows = rows_of(lambda draw, place: [p := draw.uniform(0.6, 0.9), 1 - p])
    assert find_warnings([outcome(rows)]) == ("all 40 predictions are one label, 'label 0' (the first label)",)
    assert find_warnings([outcome([row[::-1] for row in rows])]) == ("all 40 predictions are one label, 'label 1'",)
    assert find_warnings([outcome(rows)], content_free=True) == ()
    assert find_warnings([outcome(rows, truth=[0] * 31 + [1] * 9)]) == ()  # too few rows that are something else
    assert find_warnings([outcome(rows, truth=[0] * 30 + [1] * 10)]) != ()
    assert find_warnings([outcome(rows[:28])]) == ()
    assert find_warnings([outcome([*rows[:39], [0.1, 0.9]])]) == ()


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_ties_and_ties_to_rounding(size: float) -> None:
    tied = rows_of(lambda draw, place: [x := -size * draw.uniform(1, 2), x * (1 + (1e-9 if place // 2 % 2 else -1e-9))])
    warning = "40 of 40 predictions have a tie"
    assert starting(find_warnings([outcome(tied)])) == [warning]
    apart = rows_of(lambda draw, place: [x := -size * draw.uniform(1, 2), x * (1.001 if place // 2 % 2 else 0.999)])
    assert not any("tie" in warning for warning in find_warnings([outcome(apart)]))
    assert starting(find_warnings([outcome([*tied[:1], *apart[1:]])]))[0] == "1 of 40 predictions have a tie"
    many = [*tied[:1], *apart[1:]] + apart * 3  # 1 of 160
    assert not any("tie" in warning for warning in find_warnings([outcome(many)]))


def test_scores_in_the_order_of_the_labels() -> None:
    rows = rows_of(lambda draw, place: sorted(draw.gauss(0, 1) for _ in range(4)), 20)
    expected = ("the scores of all 20 predictions follow the order of the labels",)
    assert find_warnings([outcome(rows, labels=4)]) == expected
    assert find_warnings([outcome([row[::-1] for row in rows], labels=4)]) == expected
    assert find_warnings([outcome([*rows[:19], rows[19][::-1]], labels=4)]) == ()
    assert find_warnings([outcome([row[:3] for row in rows], labels=3)]) == ()
    assert find_warnings([outcome(rows, labels=4)], content_free=True) == ()


# -- in results


def constant(prompt: Any, label_space: Sequence[str]) -> list[float]:
    return [1.0 - 0.1 * place for place in range(len(label_space))]


def test_warnings_survive_a_file_and_its_verification(tmp_path: Path) -> None:
    result = Normal(datasets=["mini"], limit=20)(constant)
    notes = result.details["mini"].notes
    result.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert isinstance(loaded, Result)
    assert loaded.details["mini"].notes == notes != ()
    assert all(finding.status == Recomputed() for finding in verify(loaded))
    assert all(note in str(loaded) for note in notes)
