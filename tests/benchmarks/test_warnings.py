"""Warnings about predictions: each kind where it holds, none of honest models; no score changes by one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import pytest

from StaICC import Normal
from StaICC.benchmarks.findings import Recomputed, status_of
from StaICC.benchmarks.task import Condition, Outcome
from StaICC.benchmarks.verify import verify
from StaICC.benchmarks.warnings import _association, _Unit, find_warnings
from StaICC.prompting.prompt_writer import Query
from StaICC.results.result import Result, load

SAME = "all 40 predictions are the same: they do not depend on the query"


def outcome_of(
    predictions: Sequence[Any],
    true_labels: Sequence[int] | None = None,
    label_count: int = 2,
    name: str = "c",
    outputs: Any = "auto",
) -> Outcome:
    """Return the outcome of a condition with a query for each prediction.

    Args:
        predictions: The predictions.
        true_labels: The true labels; by default, all labels by turns.
        label_count: The number of labels, whose names are "label 0", "label 1", ...
        name: The name of the condition.
        outputs: What the predictions are.
    """
    label_space = tuple(f"label {label}" for label in range(label_count))
    if true_labels is None:
        true_labels = [row % label_count for row in range(len(predictions))]
    queries = []
    for row, true_label in enumerate(true_labels):
        queries.append(Query(f"prompt {row}", label_space, true_label, row, 0))
    return Outcome(Condition(name, tuple(queries)), list(predictions), outputs)


def warnings_of(predictions: Sequence[Any], **facts: Any) -> tuple[str, ...]:
    """Return the warnings about predictions, each of another query (the facts are those of :func:`outcome_of`)."""
    return find_warnings([outcome_of(predictions, **facts)])


def normal_logits(row_count: int = 40) -> list[list[float]]:
    """Return rows of two logits that are drawn from a normal distribution."""
    draw = random.Random("rows")
    return [[draw.gauss(0, 1), draw.gauss(0, 1)] for _ in range(row_count)]


def beginnings(warnings: Sequence[str]) -> list[str]:
    """Return the first seven words of each warning."""
    return [" ".join(warning.split()[:7]) for warning in warnings]


def about_ties(warnings: Sequence[str]) -> list[str]:
    return [warning for warning in warnings if "have a tie" in warning]


def softmax_of_two(row: Sequence[float]) -> list[float]:
    first, second = row
    probability = 1 / (1 + math.exp(second - first))
    return [probability, 1 - probability]


@pytest.mark.parametrize(
    "rows",
    [normal_logits(), [softmax_of_two(row) for row in normal_logits()], [0, 1] * 20, []],
    ids=["logits", "probabilities", "labels", "no query"],
)
def test_ordinary_predictions_get_no_warning(rows: Sequence[Any]) -> None:
    assert warnings_of(rows) == ()


@pytest.mark.parametrize(
    "rows", [[[0.7, 0.3]] * 40, [[0.7 + row * 1e-12, 0.3] for row in range(40)]], ids=["equal", "equal to rounding"]
)
def test_the_same_row_for_different_prompts(rows: list[list[float]]) -> None:
    assert warnings_of(rows) == (SAME,)


def test_two_equal_rows_of_many_digits_get_a_warning() -> None:
    """Two prompts rarely have the same five digits."""
    row = [0.71234, 0.28766]

    assert beginnings(warnings_of([row, row])) == ["all 2 predictions are the same: they"]
    assert warnings_of([row]) == ()


def test_coarse_rows_get_a_warning_from_twenty_on() -> None:
    """Scores with two digits are often equal."""
    row = [0.98, 0.02]

    assert warnings_of([row] * 19) == ()
    assert warnings_of([row] * 20) != ()


def test_one_test_row_with_other_demonstrations_may_have_the_same_prediction() -> None:
    query = Query("prompt", ("label 0", "label 1"), 0, 0, 0)
    repeats = Condition("c", (replace(query, prompt="0", repeat=0), replace(query, prompt="1", repeat=1)))

    assert find_warnings([Outcome(repeats, [[0.71234, 0.28766]] * 2, "auto")]) == ()


def test_one_prompt_may_have_the_same_prediction() -> None:
    one_prompt = Condition("c", (Query("prompt", ("a", "b"), 0, 0, 0),) * 40)

    assert find_warnings([Outcome(one_prompt, [[0.7, 0.3]] * 40, "auto")]) == ()


def forty_predictions_of_first_label() -> list[list[float]]:
    """Return probabilities of two labels, of which the first one has 0.6 to 0.9."""
    draw = random.Random("rows")
    rows = []
    for _ in range(40):
        probability = draw.uniform(0.6, 0.9)
        rows.append([probability, 1 - probability])
    return rows


FIRST_LABEL = forty_predictions_of_first_label()


def test_one_label_for_all_queries_is_named() -> None:
    second_label = [[second, first] for first, second in FIRST_LABEL]

    assert warnings_of(FIRST_LABEL) == ("all 40 predictions are one label, 'label 0' (the first label)",)
    assert warnings_of(second_label) == ("all 40 predictions are one label, 'label 1'",)


def test_one_label_is_no_fault_where_queries_have_no_content() -> None:
    assert find_warnings([outcome_of(FIRST_LABEL)], content_free=True) == ()


@pytest.mark.parametrize(("others", "is_warned"), [(9, False), (10, True)])
def test_one_label_is_a_fault_if_ten_rows_are_something_else(others: int, is_warned: bool) -> None:
    true_labels = [0] * (40 - others) + [1] * others

    assert (warnings_of(FIRST_LABEL, true_labels=true_labels) != ()) is is_warned


@pytest.mark.parametrize(("row_count", "is_warned"), [(28, False), (29, True)])
def test_one_label_is_a_fault_from_twenty_nine_rows_on(row_count: int, is_warned: bool) -> None:
    assert (warnings_of(FIRST_LABEL[:row_count]) != ()) is is_warned


def test_one_prediction_of_another_label_is_enough() -> None:
    assert warnings_of([*FIRST_LABEL[:39], [0.1, 0.9]]) == ()


def nearly_tied(size: float, relative_difference: float) -> list[list[float]]:
    """Return forty rows of two negative scores that differ by a part of their size.

    The first score is from -2 to -1 times the size. The second one is larger in two rows, smaller in the next two.
    """
    draw = random.Random("rows")
    rows = []
    for row in range(40):
        score = -size * draw.uniform(1, 2)
        sign = 1 if row // 2 % 2 == 1 else -1
        rows.append([score, score * (1 + sign * relative_difference)])
    return rows


SIZES = pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])


@SIZES
def test_scores_that_differ_in_the_seventh_digit_are_tied(size: float) -> None:
    tied = nearly_tied(size, relative_difference=5e-7)
    with_a_third_label = [[*row, 9 * min(row)] for row in tied]

    assert beginnings(warnings_of(tied))[0] == "40 of 40 predictions have a tie"
    assert beginnings(warnings_of(with_a_third_label, label_count=3))[0] == "40 of 40 predictions have a tie"


@SIZES
def test_scores_that_differ_in_the_sixth_digit_are_not_tied(size: float) -> None:
    assert about_ties(warnings_of(nearly_tied(size, relative_difference=2e-6))) == []


@SIZES
def test_one_tie_in_a_hundred_predictions_gets_a_warning(size: float) -> None:
    tied = nearly_tied(size, relative_difference=5e-7)[0]
    not_tied = nearly_tied(size, relative_difference=2e-6) * 3  # 120 rows

    assert beginnings(warnings_of([tied, *not_tied[:99]]))[0] == "1 of 100 predictions have a tie"
    assert about_ties(warnings_of([tied, *not_tied[:100]])) == [], "1 of 101"


def rows_with_saturated(saturated_count: int, row_count: int) -> list[list[float]]:
    """Return rows of two probabilities, of which the first so many are one to rounding in single precision.

    The smaller probability is 2^-25 there, and 2^-24 elsewhere: in single precision, 1 - 2^-25 is 1, and 1 - 2^-24 is
    not. The larger one is that of either label by turns.
    """
    rows = []
    for row in range(row_count):
        small = 2.0**-25 if row < saturated_count else 2.0**-24
        large = 1 - small
        rows.append([large, small] if row % 2 == 0 else [small, large])
    return rows


def test_probabilities_that_are_one_to_rounding_get_a_warning() -> None:
    """From nine tenths of the predictions on: 27 of 29 are 0.93."""
    assert beginnings(warnings_of(rows_with_saturated(27, row_count=29))) == ["in 27 of 29 predictions the largest"]


def test_probabilities_of_which_less_than_nine_tenths_are_one_get_no_warning() -> None:
    """26 of 29 are 0.897."""
    assert warnings_of(rows_with_saturated(26, row_count=29)) == ()


def test_fewer_than_29_probabilities_that_are_one_get_no_warning() -> None:
    assert warnings_of(rows_with_saturated(28, row_count=28)) == ()


def twenty_rows_of_rising_scores() -> list[list[float]]:
    """Return rows of four scores that rise from the first label to the last one."""
    draw = random.Random("rows")
    return [sorted(draw.gauss(0, 1) for _ in range(4)) for _ in range(20)]


RISING = twenty_rows_of_rising_scores()
FALLING = [row[::-1] for row in RISING]


@pytest.mark.parametrize("rows", [RISING, FALLING], ids=["rising", "falling"])
def test_scores_in_the_order_of_the_labels(rows: list[list[float]]) -> None:
    assert warnings_of(rows, label_count=4) == ("the scores of all 20 predictions follow the order of the labels",)


def test_scores_in_the_order_of_the_labels_need_one_order_and_four_labels() -> None:
    of_three_labels = [row[:3] for row in RISING]

    assert warnings_of([*RISING[:19], FALLING[19]], label_count=4) == ()
    assert warnings_of(of_three_labels, label_count=3) == ()


def test_scores_in_the_order_of_the_labels_are_no_fault_where_queries_have_no_content() -> None:
    assert find_warnings([outcome_of(RISING, label_count=4)], content_free=True) == ()


# -- in results


def constant(prompt: Any, label_space: Sequence[str]) -> list[float]:
    """Predict 1.0 for the first label, 0.9 for the second one, and so on, for every prompt."""
    return [1.0 - 0.1 * place for place in range(len(label_space))]


def test_warnings_survive_a_file_and_its_verification(tmp_path: Path) -> None:
    result = Normal(datasets=["mini"], limit=20)(constant)
    notes = result.details["mini"].notes
    assert notes != ()

    result.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")

    assert isinstance(loaded, Result)
    assert loaded.details["mini"].notes == notes
    assert status_of(verify(loaded)) == Recomputed()
    for note in notes:
        assert note in str(loaded)


def test_a_warning_names_the_conditions_in_which_it_holds_and_counts_their_predictions() -> None:
    plain, last = outcome_of(normal_logits(), name="plain"), outcome_of(normal_logits(), name="last")
    noisy, noisier = outcome_of([[0.7, 0.3]] * 40, name="noisy"), outcome_of([[0.7, 0.3]] * 40, name="noisier")
    of_both = SAME.replace("40", "80")

    assert find_warnings([plain, noisy, last]) == (f"{SAME} (condition noisy)",)
    assert find_warnings([plain, noisy, noisier]) == (f"{of_both} (conditions noisy, noisier)",)
    assert find_warnings([noisy, noisier]) == (of_both,), "it holds in all conditions"


# -- renamed labels, accuracies below chance, echoes and leaks: of broken models, not of honest ones


KIND_OF_WARNING = {
    "may be exchanged": "renamed",
    "below the": "below",
    "last demonstration": "echo",
    "are right": "leak",
}
"""By words of a warning: labels are exchanged, accuracy below chance, the last label is repeated, no errors at all."""


def kinds(warnings: Sequence[str]) -> set[str]:
    """Return the kinds of the warnings: ``renamed``, ``below``, ``echo``, ``leak``."""
    kinds_of_warnings = set()
    for warning in warnings:
        for words, kind in KIND_OF_WARNING.items():
            if words in warning:
                kinds_of_warnings.add(kind)
    return kinds_of_warnings


def outcome_of_model(
    predict: Callable[[Query, random.Random], int],
    shares: Sequence[int],
    rows: int = 256,
    last: Callable[[int, random.Random], int | None] | None = None,
) -> Outcome:
    """Return the predictions of a model for test rows with drawn labels, in two repeats.

    Args:
        predict: The model: a function of the query and of a generator of random numbers.
        shares: The relative frequencies of the labels; (9, 1) are two labels, of which the first is in nine tenths.
        rows: The number of test rows.
        last: The label of the last demonstration, from the true label; by default, it is drawn like the true labels.
    """
    draw = random.Random(str(shares))
    label_space = tuple(f"label {label}" for label in range(len(shares)))
    labels_by_frequency: list[int] = []
    for label, share in enumerate(shares):
        labels_by_frequency += [label] * share

    queries = []
    for repeat in range(2):
        draw_truth = random.Random("truth")  # both repeats have the same true labels
        for row in range(rows):
            true_label = draw_truth.choice(labels_by_frequency)
            last_label = draw.choice(labels_by_frequency) if last is None else last(true_label, draw)
            queries.append(Query(f"prompt {row} {repeat}", label_space, true_label, row, repeat, last_label))
    predictions = [predict(query, draw) for query in queries]
    return Outcome(Condition("c", queries), predictions, "auto")


def warnings_about_model(*arguments: Any, **options: Any) -> tuple[str, ...]:
    """Return the warnings about a model (the arguments are those of :func:`outcome_of_model`)."""
    return find_warnings([outcome_of_model(*arguments, **options)])


def skilled(accuracy: float, renaming: Sequence[int] | None = None) -> Callable[[Query, random.Random], int]:
    """Return a model that knows the true label with a probability, and else guesses; it may rename its labels."""

    def predict(query: Query, draw: random.Random) -> int:
        knows_label = draw.random() < accuracy
        label = query.label if knows_label else draw.randrange(len(query.label_space))
        return label if renaming is None else renaming[label]

    return predict


def echo(query: Query, draw: random.Random) -> int:
    """Predict the label of the last demonstration."""
    assert query.last_label is not None
    return query.last_label


SHARES = pytest.mark.parametrize("shares", [(1, 1), (9, 1), (3, 2, 1), (1,) * 6], ids=str)
"""Frequencies of the labels."""


@SHARES
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.9])
def test_a_model_with_any_skill_has_no_warning(shares: Sequence[int], accuracy: float) -> None:
    assert warnings_about_model(skilled(accuracy), shares) == ()


@SHARES
def test_always_the_last_label_is_no_renaming_and_not_below_chance(shares: Sequence[int]) -> None:
    """The last label may be a rare one, with an accuracy far below that of guessing."""
    assert kinds(warnings_about_model(lambda query, draw: len(shares) - 1, shares)) == set()


@SHARES
def test_a_model_that_often_follows_the_last_demonstration_has_no_warning(shares: Sequence[int]) -> None:
    def half_echo(query: Query, draw: random.Random) -> int:
        return draw.choice((query.last_label or 0, query.label))

    assert warnings_about_model(half_echo, shares) == ()


def test_a_cycle_of_renamed_labels_is_named_with_the_gain() -> None:
    """The model calls the label 0 "1", 1 "2" and 2 "0"; the accuracy after renaming is about 0.9."""
    (warning,) = warnings_about_model(skilled(0.9, renaming=(1, 2, 0)), (1, 1, 1))

    assert "'label 1' to 'label 0'" in warning
    assert "'label 2' to 'label 1'" in warning
    assert "'label 0' to 'label 2'" in warning
    assert " 0.8" in warning or " 0.9" in warning


def test_only_the_exchanged_labels_are_named() -> None:
    (warning,) = warnings_about_model(skilled(0.5, renaming=(0, 2, 1, 3)), (3, 1, 1, 1))

    assert "'label 1' to 'label 2'" in warning
    assert "'label 0'" not in warning


def test_twenty_rows_are_too_few_to_call_labels_exchanged() -> None:
    """Half of them choose the names, and the others are too few for a test."""
    assert kinds(warnings_about_model(skilled(0.9, renaming=(1, 0)), (1, 1), rows=20)) == set()


def test_labels_that_are_exchanged_only_in_the_rows_that_choose_the_names_are_not_exchanged() -> None:
    """The even rows choose the names. In the odd rows, all predictions are right."""
    true_labels = [0] * 100 + [1] * 100
    predictions = []
    for row, label in enumerate(true_labels):
        exchanged = 1 - label
        predictions.append(exchanged if row % 2 == 0 else label)

    assert kinds(warnings_of(predictions, true_labels=true_labels)) == set()


def test_always_wrong_is_below_chance() -> None:
    """Of six labels, guessing has the accuracy 1/6."""

    def wrong(query: Query, draw: random.Random) -> int:
        return (query.label + draw.randrange(1, 6)) % 6

    (warning,) = warnings_about_model(wrong, (1,) * 6)

    assert "0.000" in warning
    assert "0.16" in warning


def test_exchanged_labels_are_not_called_below_chance_in_addition() -> None:
    assert kinds(warnings_about_model(skilled(0.9, renaming=(1, 0)), (1, 1))) == {"renamed"}


def test_an_echo_of_the_last_demonstration() -> None:
    assert kinds(warnings_about_model(echo, (2, 1, 1))) == {"echo"}


def test_an_echo_of_one_label_is_not_told_from_this_label() -> None:
    assert kinds(warnings_about_model(echo, (1, 1), last=lambda truth, draw: 0)) == set()


@pytest.mark.parametrize("other_share", [0.0, 0.03])
def test_a_good_model_is_no_echo_where_the_last_label_is_the_true_one(other_share: float) -> None:
    def last_label(truth: int, draw: random.Random) -> int:
        return 1 - truth if draw.random() < other_share else truth

    accuracy = 0.99 if other_share else 0.97
    assert kinds(warnings_about_model(skilled(accuracy), (1, 1), last=last_label)) == set()


def test_no_echo_is_found_where_the_last_label_is_unknown() -> None:
    assert kinds(warnings_about_model(lambda query, draw: 0, (1, 1), last=lambda truth, draw: None)) == set()


@pytest.mark.parametrize(
    ("accuracy", "rows", "expected"),
    [(1.0, 256, {"leak"}), (1.0, 255, set()), (0.9, 256, set())],
    ids=["enough rows", "one row less", "with errors"],
)
def test_a_leak_needs_256_rows_without_an_error(accuracy: float, rows: int, expected: set[str]) -> None:
    assert kinds(warnings_about_model(skilled(accuracy), (1, 1), rows=rows)) == expected


def test_mean_and_variance_of_matches_under_permutation() -> None:
    """Against all permutations of the true labels of five rows; a match is the share of a row's predictions that are
    its true label."""
    shares_of_labels = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    true_labels = [0, 1, 1, 0, 0]

    def mean_match(labels: Sequence[int]) -> float:
        return fmean(shares[label] for shares, label in zip(shares_of_labels, labels, strict=True))

    units = [_Unit(dict(enumerate(shares)), true_labels[row], 1) for row, shares in enumerate(shares_of_labels)]
    mean, excess, z = _association(units)

    of_permutations = [mean_match(labels) for labels in permutations(true_labels)]
    assert mean == pytest.approx(fmean(of_permutations))
    assert excess == pytest.approx(mean_match(true_labels) - fmean(of_permutations))
    assert 0 < z <= excess / pvariance(of_permutations) ** 0.5 + 1e-12


def test_a_model_that_follows_false_demonstrations_has_no_fault() -> None:
    """The model is right where labels of demonstrations are true, and below chance where all are false."""
    with_true_labels = outcome_of_model(skilled(0.9), (1, 1))
    with_false_labels = outcome_of_model(skilled(0.9, renaming=(1, 0)), (1, 1), last=lambda truth, draw: None)

    assert find_warnings([with_true_labels, with_false_labels]) == ()
    assert kinds(find_warnings([with_false_labels])) == {"renamed"}, "alone it is a fault"


def test_exchanged_labels_are_no_fault_where_queries_have_no_content() -> None:
    exchanged = outcome_of_model(skilled(0.9, renaming=(1, 0)), (1, 1), last=lambda truth, draw: None)

    assert find_warnings([exchanged], content_free=True) == ()


def about_sums(rows: Sequence[Any], outputs: str = "probabilities") -> list[str]:
    return [warning for warning in warnings_of(rows, outputs=outputs) if "sum to more than 1" in warning]


def test_scores_with_different_sums_above_one_are_reported_if_they_are_stated_to_be_probabilities() -> None:
    rows = [[0.9, 0.05], *[[1.5, 1.2], [0.8, 0.9]] * 15]
    warning = (
        "the scores of 30 of 31 predictions sum to more than 1, the largest to 2.7: they are divided by their sum, as "
        "outputs='probabilities' says. For logits, set outputs='logits'"
    )

    assert about_sums(rows) == [warning]


@pytest.mark.parametrize(
    "rows",
    [
        [[0.09, 0.01], [0.2, 0.3]] * 15,
        [[97.5, 2.5], [30.0, 70.0]] * 15,
        [[3, 2], [7, 4]] * 15,
        [[0.6, 0.4], [0.505, 0.5]] * 15,
        [[0.34, 0.67], [0.2, 0.8]] * 15,
        [[60.5, 20.25], [50.0, 49.5]] * 15,
        [0, 1] * 15,
    ],
    ids=[
        "from a vocabulary",
        "percentages",
        "counts",
        "rounded",
        "rounded to two decimals",
        "percentages from a vocabulary",
        "labels",
    ],
)
def test_probabilities_shares_and_counts_are_not_reported_for_their_sums(rows: list[Any]) -> None:
    assert not about_sums(rows)


def test_scores_whose_sum_is_beyond_the_range_of_floats_end_no_run() -> None:
    assert not about_sums([[1e308, 1e308], [0.5, 0.5]] * 15)


def test_logits_are_not_reported_for_their_sums() -> None:
    assert not about_sums([[1.5, 1.2], [0.8, 0.9]] * 15, outputs="logits")
