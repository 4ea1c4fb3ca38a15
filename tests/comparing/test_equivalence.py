"""Two runs are called equivalent within a margin: when, in which words, and how often wrongly."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

import StaICC
from StaICC.comparing.benchmark_comparison import BenchmarkComparison
from StaICC.comparing.comparison import compare_runs
from StaICC.comparing.formats import format_comparisons
from StaICC.metrics import paired_tests
from StaICC.metrics.equivalence import interval_shows_equivalence, is_equivalent_within_margin
from StaICC.metrics.paired_tests import PairedDifference
from StaICC.metrics.statistics import Mean, Sample
from StaICC.results.result import Result

LEVEL = 0.025
"""The level of each of the two one-sided tests."""
SIZE_OF_A_TEST = 0.028
"""The rate at which each of these tests rejects a true hypothesis: slightly above its level."""


def run_with_errors(error_count: int, first_error: int = 0, limit: int = 128) -> Result:
    """Return a run that is wrong on some adjacent queries, and right on the others."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=limit)
    predictions = []
    for index, query in enumerate(benchmark.experimentor[0].all_queries()):
        is_wrong = first_error <= index < first_error + error_count
        predictions.append((query.label + 1) % 3 if is_wrong else query.label)
    result = benchmark(preentered_prediction=[predictions])
    assert isinstance(result, Result)
    return result


# -- the conclusion


def test_runs_are_equivalent_if_both_are_shown_to_be_not_worse() -> None:
    """Two runs with one error each, on different rows of 128: no difference above 0.1 is possible."""
    runs = {"a": run_with_errors(1), "b": run_with_errors(1, first_error=1)}

    (pair,) = compare_runs(runs, margin=0.1).comparisons

    a_not_worse_than_b, b_not_worse_than_a = pair.non_inferiority
    (equivalence,) = pair.equivalences
    assert a_not_worse_than_b.shown
    assert b_not_worse_than_a.shown
    assert equivalence.shown
    assert equivalence.p_value == max(a_not_worse_than_b.p_value, b_not_worse_than_a.p_value)  # type: ignore[type-var]
    assert pair.conclusion()[-1].startswith("a and b are equivalent within the margin of 0.1 (two one-sided tests, p ")


def test_a_difference_can_be_significant_and_within_the_margin() -> None:
    """Equivalent does not mean equal: 12 more errors in 128 rows are a difference, but below 0.3."""
    runs = {"good": run_with_errors(0), "bad": run_with_errors(12)}

    (pair,) = compare_runs(runs, margin=0.3).comparisons

    assert pair.conclusion()[0].startswith("good is better")
    assert pair.equivalences[0].shown


@pytest.mark.parametrize(
    ("errors_of_a", "errors_of_b", "shown", "other"),
    [(0, 30, "a", "b"), (30, 0, "b", "a")],
)
def test_if_one_claim_is_shown_the_conclusion_says_which(
    errors_of_a: int, errors_of_b: int, shown: str, other: str
) -> None:
    runs = {"a": run_with_errors(errors_of_a), "b": run_with_errors(errors_of_b)}

    (pair,) = compare_runs(runs, margin=0.05).comparisons

    assert not pair.equivalences[0].shown
    assert pair.conclusion()[-1] == (
        "a and b are not shown to be equivalent within the margin of 0.05: "
        f"only {shown} is shown to be not worse than {other}"
    )


def test_if_no_claim_is_shown_the_conclusion_says_so() -> None:
    """Six errors each, on different ones of 24 rows: too few rows for a margin of 0.01."""
    runs = {"a": run_with_errors(6, limit=24), "b": run_with_errors(6, first_error=6, limit=24)}

    (pair,) = compare_runs(runs, margin=0.01).comparisons

    assert pair.conclusion()[-1] == (
        "a and b are not shown to be equivalent within the margin of 0.01: "
        "neither is shown to be not worse than the other"
    )


def test_nothing_is_said_of_equivalence_without_a_margin() -> None:
    compared = compare_runs({"a": run_with_errors(1), "b": run_with_errors(2)})

    (pair,) = compared.comparisons
    assert pair.equivalences == []
    assert "equivalent" not in str(compared)


def test_every_pair_of_several_runs_has_its_own_conclusion() -> None:
    runs = {"a": run_with_errors(1), "b": run_with_errors(1, first_error=1), "c": run_with_errors(60)}

    compared = compare_runs(runs, margin=0.15)

    is_equivalent = {(pair.first, pair.second): pair.equivalences[0].shown for pair in compared.comparisons}
    assert is_equivalent == {("a", "b"): True, ("a", "c"): False, ("b", "c"): False}


SENTENCE = "a and b are equivalent within the margin of 0.1"


@pytest.fixture
def equivalent_runs(monkeypatch: pytest.MonkeyPatch) -> BenchmarkComparison:
    """The comparison of two runs with one error each, within the margin 0.1; no line of its text is wrapped."""
    monkeypatch.setenv("COLUMNS", "1000")
    return compare_runs({"a": run_with_errors(1), "b": run_with_errors(1, first_error=1)}, margin=0.1)


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_texts_and_tables_say_that_runs_are_equivalent(equivalent_runs: BenchmarkComparison, form: str) -> None:
    assert SENTENCE in format_comparisons([equivalent_runs], form)


def test_the_last_note_of_csv_says_that_runs_are_equivalent(equivalent_runs: BenchmarkComparison) -> None:
    *_, last_line = csv.DictReader(io.StringIO(format_comparisons([equivalent_runs], "csv")))

    conclusion = equivalent_runs.comparisons[0].conclusion()[-1]
    assert conclusion.startswith(SENTENCE)
    assert conclusion in last_line["note"]


def test_json_says_that_runs_are_equivalent(equivalent_runs: BenchmarkComparison) -> None:
    (document,) = json.loads(format_comparisons([equivalent_runs], "json"))

    (equivalence,) = document["comparisons"][0]["equivalence"]
    assert equivalence["shown"] is True
    assert equivalence["margin"] == 0.1
    assert equivalence["conclusion"] == equivalent_runs.comparisons[0].conclusion()[-1]


# -- the error rate


def two_point_difference(low: float, high: float, low_count: int, rows: int) -> PairedDifference:
    """Return the paired difference of two runs: `low` on the first `low_count` rows, and `high` on the others.

    The scores of a row are from 0 to 1: for a positive difference, the first run has it as its score, and the second
    run has 0; for a negative one, the second run has its amount, and the first run has 0.
    """
    row_differences = [low] * low_count + [high] * (rows - low_count)
    scores_of_first = [max(difference, 0.0) for difference in row_differences]
    scores_of_second = [max(-difference, 0.0) for difference in row_differences]
    sample = Sample(truth=[0] * rows, rows=list(range(rows)), n_rows=rows, n_labels=2)
    first = Mean().of_run(sample, scores_of_first)
    second = Mean().of_run(sample, scores_of_second)
    weight = 1.0  # of the only condition
    return paired_tests.paired_difference([(weight, first)], [(weight, second)])


def rate_of_wrong_equivalence(low: float, high: float, margin: float, rows: int) -> float:
    """Return the exact probability that runs are called equivalent, although their true difference is -margin.

    The difference of a row is `low` with the probability q, else `high`. The mean of a row is -margin, so
    q = (high + margin) / (high - low). The number of rows with the low amount is binomial.
    """
    q = (high + margin) / (high - low)
    rate = 0.0
    for low_count in range(rows + 1):
        difference = two_point_difference(low, high, low_count, rows)
        first_not_worse = paired_tests.upper_p_value(difference, -margin) <= LEVEL
        second_not_worse = paired_tests.upper_p_value(difference.negated, -margin) <= LEVEL
        if is_equivalent_within_margin(first_not_worse, second_not_worse):
            rate += math.comb(rows, low_count) * q**low_count * (1.0 - q) ** (rows - low_count)
    return rate


def rates_of_wrong_equivalence(margin: float, rows: int) -> list[float]:
    """Return the rates for five pairs of amounts that a row can differ by, each with the mean -margin."""
    return [
        rate_of_wrong_equivalence(low=-1.0, high=0.0, margin=margin, rows=rows),
        rate_of_wrong_equivalence(low=-1.0, high=1.0, margin=margin, rows=rows),
        rate_of_wrong_equivalence(low=-1.0, high=0.1, margin=margin, rows=rows),
        rate_of_wrong_equivalence(low=-margin - 0.1, high=1.0, margin=margin, rows=rows),
        rate_of_wrong_equivalence(low=-margin - 0.05, high=margin, margin=margin, rows=rows),
    ]


@pytest.mark.parametrize("margin", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("rows", [10, 20, 50, 128])
def test_runs_that_differ_by_the_margin_are_rarely_called_equivalent(rows: int, margin: float) -> None:
    assert max(rates_of_wrong_equivalence(margin, rows)) <= SIZE_OF_A_TEST


@pytest.mark.parametrize("rows", [20, 50, 128])
def test_runs_that_differ_by_the_margin_are_sometimes_called_equivalent(rows: int) -> None:
    """The test keeps its level, and not only because it never concludes anything."""
    rates = []
    for margin in (0.05, 0.2, 0.5):
        rates += rates_of_wrong_equivalence(margin, rows)

    assert max(rates) > 0.02


def test_an_interval_shows_equivalence_if_both_ends_are_within_the_margin() -> None:
    assert interval_shows_equivalence(-0.01, 0.015, margin=0.02)
    assert not interval_shows_equivalence(-0.03, 0.015, margin=0.02)
    assert not interval_shows_equivalence(-0.01, 0.03, margin=0.02)
