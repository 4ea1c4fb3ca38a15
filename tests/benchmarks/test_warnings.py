"""Warnings about predictions: each kind where it holds, none of honest models; no score changes by one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks.findings import Recomputed
from StaICC.benchmarks.task import Condition, Outcome
from StaICC.benchmarks.verify import verify
from StaICC.benchmarks.warnings import _association, _Unit, find_warnings
from StaICC.prompting.prompt_writer import Query
from StaICC.results.result import Result, load

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
    assert [len(find_warnings([outcome(rows[:number])])) for number in (28, 29)] == [0, 1]
    assert find_warnings([outcome([*rows[:39], [0.1, 0.9]])]) == ()


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_ties_and_ties_to_rounding(size: float) -> None:
    tied = rows_of(lambda draw, place: [x := -size * draw.uniform(1, 2), x * (1 + (5e-7 if place // 2 % 2 else -5e-7))])
    warning = "40 of 40 predictions have a tie"
    for rows, labels in ((tied, 2), ([[*row, 9 * min(row)] for row in tied], 3)):
        assert starting(find_warnings([outcome(rows, labels=labels)]))[0] == warning
    apart = rows_of(
        lambda draw, place: [x := -size * draw.uniform(1, 2), x * (1 + (2e-6 if place // 2 % 2 else -2e-6))]
    )
    assert [warning for warning in find_warnings([outcome(apart)]) if "have a tie" in warning] == []
    many = tied[:1] + apart * 3
    assert starting(find_warnings([outcome(many[:100])]))[0] == "1 of 100 predictions have a tie"
    assert [warning for warning in find_warnings([outcome(many[:101])]) if "have a tie" in warning] == []


def test_probabilities_that_are_one_to_rounding() -> None:
    def rows(saturated: int) -> list[list[float]]:
        ends = [2.0**-25] * saturated + [2.0**-24] * (29 - saturated)
        return [[1 - end, end][:: -1 if place % 2 else 1] for place, end in enumerate(ends)]

    assert starting(find_warnings([outcome(rows(27))])) == ["in 27 of 29 predictions the largest"]
    assert find_warnings([outcome(rows(26))]) == find_warnings([outcome(rows(28)[:28])]) == ()


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
    assert [finding for finding in verify(loaded) if finding.status != Recomputed()] == []
    assert [note for note in notes if note not in str(loaded)] == []


def test_a_warning_names_the_conditions_in_which_it_holds_and_counts_their_predictions() -> None:
    ordinary = [outcome(rows_of(scored), name=name) for name in ("plain", "last")]
    same = [outcome([[0.7, 0.3]] * 40, name=name) for name in ("noisy", "noisier")]
    assert find_warnings([ordinary[0], same[0], ordinary[1]]) == (f"{SAME} (condition noisy)",)
    both = SAME.replace("40", "80")
    assert find_warnings([ordinary[0], *same]) == (f"{both} (conditions noisy, noisier)",)
    assert find_warnings(same) == (both,)


# -- renamed labels, accuracies below chance, echoes and leaks: of broken models, not of honest ones


KINDS = {"may be exchanged": "renamed", "below the": "below", "last demonstration": "echo", "are right": "leak"}


def kinds(warnings: Sequence[str]) -> set[str]:
    return {kind for warning in warnings for text, kind in KINDS.items() if text in warning}


def predicted(
    predict: Callable[[Query, random.Random], int],
    shares: Sequence[int],
    rows: int = 256,
    last: Callable[[int, random.Random], int | None] | None = None,
) -> Outcome:
    """Return the predictions of a model, over two repeats of each row; `shares` are the frequencies of the labels."""
    draw = random.Random(str(shares))
    labels = [label for label, share in enumerate(shares) for _ in range(share)]
    space = tuple(f"label {label}" for label in range(len(shares)))
    queries = []
    for repeat in range(2):
        order = random.Random("truth")
        for row in range(rows):
            truth = order.choice(labels)
            shown = draw.choice(labels) if last is None else last(truth, draw)
            queries.append(Query(f"prompt {row} {repeat}", space, truth, row, repeat, shown))
    return Outcome(Condition("c", queries), [predict(query, draw) for query in queries], "auto")


def warned(*arguments: Any, **options: Any) -> tuple[str, ...]:
    return find_warnings([predicted(*arguments, **options)])


def skilled(accuracy: float, renaming: Sequence[int] | None = None) -> Callable[[Query, random.Random], int]:
    def predict(query: Query, draw: random.Random) -> int:
        width = len(query.label_space)
        label = query.label if draw.random() < accuracy else draw.randrange(width)
        return label if renaming is None else renaming[label]

    return predict


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("shares", [(1, 1), (9, 1), (3, 2, 1), (1,) * 6])
def test_honest_models_have_no_warning(shares: Sequence[int], accuracy: float) -> None:
    assert warned(skilled(accuracy), shares) == ()
    assert kinds(warned(lambda query, draw: len(shares) - 1, shares)) == set()  # one rare label, far below guessing
    assert warned(lambda query, draw: draw.choice((query.last_label or 0, query.label)), shares) == ()


def test_exchanged_labels_are_named_with_the_gain() -> None:
    (warning,) = warned(skilled(0.9, (1, 2, 0)), (1, 1, 1))
    for old, new in enumerate((2, 0, 1)):
        assert f"'label {old}' to 'label {new}'" in warning
    assert " 0.8" in warning or " 0.9" in warning
    (warning,) = warned(skilled(0.5, (0, 2, 1, 3)), (3, 1, 1, 1))
    assert "'label 1' to 'label 2'" in warning
    assert "'label 0'" not in warning
    assert kinds(warned(skilled(0.9, (1, 0)), (1, 1), rows=20)) == set()  # half of the rows are too few for a test
    half = [place // 100 ^ (place % 2 == 0) for place in range(200)]  # exchanged in the rows that choose the names
    assert kinds(find_warnings([outcome(half, [place // 100 for place in range(200)])])) == set()


def test_the_least_probable_label_is_below_chance() -> None:
    def wrong(query: Query, draw: random.Random) -> int:
        return (query.label + draw.randrange(1, 6)) % 6

    (warning,) = warned(wrong, (1,) * 6)
    assert "0.000" in warning
    assert "0.16" in warning
    assert kinds(warned(skilled(0.9, (1, 0)), (1, 1))) == {"renamed"}  # one cause, one warning


def test_an_echo_of_the_last_demonstration() -> None:
    def echo(query: Query, draw: random.Random) -> int:
        assert query.last_label is not None
        return query.last_label

    assert kinds(warned(echo, (2, 1, 1))) == {"echo"}
    assert kinds(warned(echo, (1, 1), last=lambda truth, draw: 0)) == set()  # nothing to tell it from one label
    assert kinds(warned(skilled(0.97), (1, 1), last=lambda truth, draw: truth)) == set()  # it is the true label
    assert kinds(warned(skilled(0.99), (1, 1), last=lambda truth, draw: truth ^ (draw.random() < 0.03))) == set()
    assert kinds(warned(lambda query, draw: 0, (1, 1), last=lambda truth, draw: None)) == set()


def test_a_leak_needs_many_rows_without_an_error() -> None:
    perfect = skilled(1.0)
    assert kinds(warned(perfect, (1, 1))) == {"leak"}
    assert kinds(warned(perfect, (1, 1), rows=255)) == set()
    assert kinds(warned(skilled(0.9), (1, 1))) == set()


def test_mean_and_variance_of_matches_under_permutation() -> None:
    """Against all permutations of a small sample."""
    from itertools import permutations
    from statistics import fmean, pvariance

    matches, labels = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 1, 1, 0, 0]
    means = [fmean(row[label] for row, label in zip(matches, order, strict=True)) for order in permutations(labels)]
    units = [_Unit(dict(enumerate(row)), label, 1) for row, label in zip(matches, labels, strict=True)]
    mean, excess, z = _association(units)
    observed = fmean(row[label] for row, label in zip(matches, labels, strict=True))
    assert mean == pytest.approx(fmean(means))
    assert excess == pytest.approx(observed - fmean(means))
    assert 0 < z <= excess / pvariance(means) ** 0.5 + 1e-12


def test_falsified_demonstrations_and_empty_queries_are_no_fault() -> None:
    """A model that follows wrong labels is below chance where all are wrong."""
    right, wrong = skilled(0.9), skilled(0.9, (1, 0))
    true, false = predicted(right, (1, 1)), predicted(wrong, (1, 1), last=lambda truth, draw: None)
    assert find_warnings([true, false]) == ()
    assert kinds(find_warnings([false])) == {"renamed"}  # without demonstrations
    assert find_warnings([false], content_free=True) == ()
