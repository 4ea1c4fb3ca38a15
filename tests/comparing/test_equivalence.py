"""Two runs are called equivalent within a margin: when, in which words, and how often wrongly."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

import StaICC
from StaICC.comparing.benchmark_comparison import BenchmarkComparison
from StaICC.comparing.comparison import compare_all, compare_runs
from StaICC.comparing.comparison_results import Comparison
from StaICC.comparing.formats import format_comparisons
from StaICC.metrics import paired_tests
from StaICC.metrics.equivalence import interval_shows_equivalence, is_equivalent_within_margin
from StaICC.metrics.paired_tests import PairedDifference
from StaICC.metrics.statistics import Mean, Sample
from StaICC.results.result import Result

LEVEL = 0.025
"""The level of each of the two one-sided tests."""


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


def compared(runs: dict[str, Result], margin: float) -> tuple[BenchmarkComparison, Comparison]:
    """Return the comparison of the runs, and that of the first pair."""
    found = compare_runs(runs, margin=margin)
    return found, found.comparisons[0]


# -- the conclusion


def test_runs_are_equivalent_if_both_are_shown_to_be_not_worse() -> None:
    """Two runs with one error each, on different rows of 128: no difference above 0.1 is possible."""
    runs = {"a": run_with_errors(1), "b": run_with_errors(1, first_error=1)}
    _, pair = compared(runs, margin=0.1)
    (equivalence,) = pair.equivalences
    assert equivalence.shown
    assert equivalence.p_value == max(claim.p_value for claim in pair.non_inferiority if claim.p_value is not None)
    assert pair.conclusion()[-1].startswith("a and b are equivalent within the margin of 0.1 (two one-sided tests, p ")


def test_a_difference_can_be_significant_and_within_the_margin() -> None:
    """Equivalent does not mean equal: 12 more errors in 128 rows are a difference, but below 0.3."""
    _, pair = compared({"good": run_with_errors(0), "bad": run_with_errors(12)}, margin=0.3)
    assert pair.conclusion()[0].startswith("good is better")
    assert pair.equivalences[0].shown


@pytest.mark.parametrize(("errors_of_first", "errors_of_second", "shown"), [(0, 30, "a"), (30, 0, "b")])
def test_if_one_claim_is_shown_the_sentence_says_which(errors_of_first: int, errors_of_second: int, shown: str) -> None:
    runs = {"a": run_with_errors(errors_of_first), "b": run_with_errors(errors_of_second)}
    _, pair = compared(runs, margin=0.05)
    other = "b" if shown == "a" else "a"
    assert not pair.equivalences[0].shown
    assert pair.conclusion()[-1] == (
        "a and b are not shown to be equivalent within the margin of 0.05: "
        f"only {shown} is shown to be not worse than {other}"
    )


def test_if_no_claim_is_shown_the_sentence_says_so() -> None:
    runs = {"a": run_with_errors(6, limit=24), "b": run_with_errors(6, first_error=6, limit=24)}
    _, pair = compared(runs, margin=0.01)
    assert pair.conclusion()[-1] == (
        "a and b are not shown to be equivalent within the margin of 0.01: "
        "neither is shown to be not worse than the other"
    )


def test_nothing_is_said_of_equivalence_without_a_margin() -> None:
    found = compare_runs({"a": run_with_errors(1), "b": run_with_errors(2)})
    assert found.comparisons[0].equivalences == []
    assert "equivalent" not in str(found)


def test_every_pair_of_several_runs_has_its_own_conclusion() -> None:
    runs = {"a": run_with_errors(1), "b": run_with_errors(1, first_error=1), "c": run_with_errors(60)}
    found, _ = compared(runs, margin=0.15)
    shown = {(pair.first, pair.second): pair.equivalences[0].shown for pair in found.comparisons}
    assert shown == {("a", "b"): True, ("a", "c"): False, ("b", "c"): False}


def test_all_formats_have_the_same_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    found, _ = compare_all({"a": run_with_errors(1), "b": run_with_errors(1, first_error=1)}, margin=0.1)
    sentence = found[0].comparisons[0].conclusion()[-1]
    assert "a and b are equivalent within the margin of 0.1" in sentence

    for form in ("text", "markdown", "latex"):
        assert "a and b are equivalent within the margin of 0.1" in format_comparisons(found, form)

    last_line = list(csv.DictReader(io.StringIO(format_comparisons(found, "csv"))))[-1]
    assert sentence in last_line["note"]

    (document,) = json.loads(format_comparisons(found, "json"))
    (equivalence,) = document["comparisons"][0]["equivalence"]
    assert equivalence["shown"] is True
    assert equivalence["margin"] == 0.1
    assert equivalence["conclusion"] == sentence


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


@pytest.mark.parametrize("rows", [10, 20, 50, 128])
def test_runs_that_differ_by_the_margin_are_called_equivalent_with_at_most_the_level(rows: int) -> None:
    """The difference of a row has one of two values, with the mean at the margin; 0.028 is the size of each test."""
    rates = []
    for margin in (0.05, 0.2, 0.5):
        rates += [
            rate_of_wrong_equivalence(low=-1.0, high=0.0, margin=margin, rows=rows),
            rate_of_wrong_equivalence(low=-1.0, high=1.0, margin=margin, rows=rows),
            rate_of_wrong_equivalence(low=-1.0, high=0.1, margin=margin, rows=rows),
            rate_of_wrong_equivalence(low=-margin - 0.1, high=1.0, margin=margin, rows=rows),
            rate_of_wrong_equivalence(low=-margin - 0.05, high=margin, margin=margin, rows=rows),
        ]
    assert max(rates) <= 0.028
    if rows >= 20:
        assert max(rates) > 0.02  # the test is not valid only because it never concludes anything


def test_an_interval_shows_equivalence_if_both_ends_are_within_the_margin() -> None:
    assert interval_shows_equivalence(-0.01, 0.015, margin=0.02)
    assert not interval_shows_equivalence(-0.03, 0.015, margin=0.02)
    assert not interval_shows_equivalence(-0.01, 0.03, margin=0.02)
