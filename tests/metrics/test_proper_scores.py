"""Brier score and negative log-likelihood of runs: values, intervals, tests, and where they are shown."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import StaICC
from StaICC import GLER, Metric, Normal, compare, compare_runs, load_kernel
from StaICC.comparing.verdicts import Tested as WasTested
from StaICC.comparing.verdicts import Untested
from StaICC.metrics import paired_tests
from StaICC.metrics.classification import brier, nll
from StaICC.metrics.intervals import NoInterval, mean_interval, ratio_part
from StaICC.metrics.metric_set import metric_set
from StaICC.metrics.scores import STATISTICS
from StaICC.metrics.statistics import Mean, Sample
from StaICC.results.result import Result

METRICS = "standard+brier+nll"


def uniform(prompt: str, label_space: list[str]) -> list[float]:
    return [1 / len(label_space)] * len(label_space)


def run_on_two_datasets(function: Any) -> Result:
    """Return a run of Normal on 24 rows of ``mini`` and of ``AGNews``, with the Brier score and the NLL."""
    result = Normal(datasets=["mini", "AGNews"], limit=24, metrics=METRICS)(function)
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def runs(pack: None) -> dict[str, Result]:
    """The runs "ppm" (a language model) and "uniform" (guessing)."""
    return {"ppm": run_on_two_datasets(load_kernel("ppm")), "uniform": run_on_two_datasets(uniform)}


def test_the_scores_are_added_to_those_of_the_standard_set(runs: dict[str, Result]) -> None:
    published = [metric.name for metric in metric_set("standard").metrics]

    assert list(runs["ppm"].averaged) == [*published, "brier", "nll"]


def test_the_standard_set_has_no_brier_score_and_no_nll() -> None:
    result = Normal(datasets=["mini"], limit=4)(uniform)

    assert isinstance(result, Result)
    assert result.averaged.keys().isdisjoint({"brier", "nll"})


def test_uniform_guessing_has_known_values(runs: dict[str, Result]) -> None:
    """Of L labels, the Brier score is (1 - 1/L)^2 + (L - 1)/L^2 = 1 - 1/L, and the NLL log L."""
    values = runs["uniform"].divided["mini"]

    assert values["brier"] == pytest.approx(1 - 1 / 3)
    assert values["nll"] == pytest.approx(math.log(3))


def test_the_brier_score_has_an_interval_on_each_data_set(runs: dict[str, Result]) -> None:
    result = runs["ppm"]

    for name, details in result.details.items():
        interval = details.intervals["brier"]
        assert 0.0 <= interval.low < result.divided[name]["brier"] < interval.high <= 2.0, name


def test_the_mean_brier_score_has_an_interval(runs: dict[str, Result]) -> None:
    result = runs["ppm"]

    interval = result.means.intervals["brier"]

    assert 0.0 <= interval.low < result.averaged["brier"] < interval.high <= 2.0


def test_the_interval_of_the_mean_brier_score_is_that_of_its_range() -> None:
    """A model that is mostly certain and wrong has scores above 1, so the range must be 0 to 2 and not 0 to 1."""

    def certain_of_the_first(prompt: str, label_space: list[str]) -> list[float]:
        return [1.0] + [0.0] * (len(label_space) - 1)

    result = run_on_two_datasets(certain_of_the_first)

    values = [result.divided[name]["brier"] for name in ("mini", "AGNews")]
    intervals = [result.details[name].intervals["brier"] for name in ("mini", "AGNews")]
    assert min(values) > 1.0
    expected = mean_interval(values, intervals, [(0.0, 2.0), (0.0, 2.0)])
    assert result.means.intervals["brier"].low == pytest.approx(expected.low)
    assert result.means.intervals["brier"].high == pytest.approx(expected.high)


def test_a_result_says_why_nll_has_no_interval(runs: dict[str, Result]) -> None:
    result = runs["ppm"]

    assert "nll" not in result.details["mini"].intervals
    assert "interval of NLL is undefined: it has no largest value" in str(result)


def test_nll_has_no_approximate_interval_either() -> None:
    sample = Sample([0, 1], [0, 1], 2, 2)

    withheld = STATISTICS["nll"].interval(sample, [[0.5, 0.5], [0.5, 0.5]], 0.95)

    assert isinstance(withheld, NoInterval)
    assert withheld.approximate is None


def test_runs_are_tested_by_the_brier_score_with_lower_as_better(runs: dict[str, Result]) -> None:
    ppm, uniform_guessing = runs["ppm"], runs["uniform"]

    comparison = compare(ppm, uniform_guessing, "brier")

    assert not comparison.higher_is_better
    assert comparison.overall.values == pytest.approx((ppm.averaged["brier"], uniform_guessing.averaged["brier"]))
    assert isinstance(comparison.overall.outcome, WasTested)
    assert "second is better" in comparison.conclusion()[0]


def test_runs_are_untested_by_nll(runs: dict[str, Result]) -> None:
    comparison = compare(runs["ppm"], runs["uniform"], "nll", margin=0.5)

    for line in comparison.lines:
        assert isinstance(line.outcome, Untested)
        assert line.outcome.reason == "one more row could change the metric without limit"
        assert line.interval is None
    assert [claim for claim in comparison.non_inferiority if claim.shown] == []


def test_a_comparison_by_nll_has_the_values_of_both_runs(runs: dict[str, Result]) -> None:
    ppm, uniform_guessing = runs["ppm"], runs["uniform"]

    comparison = compare(ppm, uniform_guessing, "nll")

    assert comparison.overall.values == pytest.approx((ppm.averaged["nll"], uniform_guessing.averaged["nll"]))


def test_runs_are_ranked_by_nll(runs: dict[str, Result]) -> None:
    ranking = compare_runs(runs, "nll").ranking

    assert {place.run for place in ranking} == {"ppm", "uniform"}


def never_the_last(prompt: str, label_space: list[str]) -> list[float]:
    """Return the probability 0 for the last label, and equal ones for the others."""
    return [1 / (len(label_space) - 1)] * (len(label_space) - 1) + [0.0]


def test_a_run_with_a_probability_of_0_at_the_truth_has_no_nll() -> None:
    result = run_on_two_datasets(never_the_last)

    assert result.averaged["nll"] is None
    assert re.match(
        r"\d+ of 48 queries have the probability 0 for the true label", result.details["mini"].missing["nll"]
    )


def test_a_run_without_nll_is_not_compared_by_nll(runs: dict[str, Result]) -> None:
    without_nll = run_on_two_datasets(never_the_last)

    with pytest.raises(StaICC.StaICCError, match="have the probability 0 for the true label"):
        compare(without_nll, runs["ppm"], "nll")


def uniform_that_fails_on_some(prompt: str, label_space: list[str]) -> list[float]:
    """Guess uniformly, or fail on some prompts."""
    if sum(map(ord, prompt)) % 7 == 0:
        raise ValueError("no prediction")
    return uniform(prompt, label_space)


@pytest.fixture(scope="module")
def partial_and_complete() -> tuple[Result, Result]:
    """Two runs of uniform guessing on 48 queries of ``mini``, of which the first one fails on some."""
    benchmark = Normal(datasets=["mini"], limit=24, metrics=METRICS)
    return benchmark(uniform_that_fails_on_some, on_error="collect"), benchmark(uniform)  # type: ignore[return-value]


def test_a_missing_query_counts_with_a_brier_score_from_0_to_2(partial_and_complete: tuple[Result, Result]) -> None:
    """Uniform guessing of three labels has the score 2/3 in each query."""
    partial, complete = partial_and_complete

    comparison = compare(partial, complete, "brier").overall

    failed, _ = comparison.missing
    assert failed > 0
    lowest_difference = failed * (0 - 2 / 3) / 48
    highest_difference = failed * (2 - 2 / 3) / 48
    assert comparison.ends == pytest.approx((lowest_difference, highest_difference))


def test_runs_of_which_one_lacks_queries_are_untested_by_nll(partial_and_complete: tuple[Result, Result]) -> None:
    partial, complete = partial_and_complete

    outcome = compare(partial, complete, "nll").overall.outcome

    assert isinstance(outcome, Untested)
    assert "NLL has no largest value to count them at" in outcome.reason


class HalfBrier(Mean):
    """Half of the Brier score: from 0 to 1, as the other scores."""

    reads = "probabilities"
    of_classification = True

    def scores(self, sample: Sample, predictions: Any) -> list[float]:
        return [score / 2 for score in STATISTICS["brier"].scores(sample, predictions)]  # type: ignore[attr-defined]

    def part(self, sample: Sample, predictions: Any, level: float) -> Any:
        return ratio_part(sample.sums(self.scores(sample, predictions)), sample.sizes, level, continuous=True)


def test_the_slope_of_the_brier_score_has_twice_the_interval_of_that_of_its_half(
    pack: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = GLER(datasets=["mini"], limit=24, metrics=METRICS)

    of_brier = benchmark(load_kernel("ppm")).details["mini"].intervals["sensitivity.brier"]
    monkeypatch.setattr(Metric, "statistic", property(lambda metric: HalfBrier() if metric.name == "brier" else None))
    of_half_brier = benchmark(load_kernel("ppm")).details["mini"].intervals["sensitivity.brier"]

    assert of_brier.low == pytest.approx(2 * of_half_brier.low)
    assert of_brier.high == pytest.approx(2 * of_half_brier.high)


def test_the_report_shows_the_scores_of_a_run_that_has_them(runs: dict[str, Result]) -> None:
    page = StaICC.report_html(runs)

    assert "Brier" in page
    assert "NLL" in page


def test_the_report_of_a_run_without_the_scores_does_not_name_them() -> None:
    result = Normal(datasets=["mini"], limit=4)(uniform)
    assert isinstance(result, Result)

    assert "Brier" not in StaICC.report_html({"run": result})


# -- the size of the paired test


def p_value_of_two_confidences(rows: int, wrong: int, low: float, high: float) -> float:
    """Return the p-value of two runs that are wrong on the same rows, with the confidences `low` and `high`.

    It is 1 where too few rows differ for a test.
    """
    sample = Sample([0] * (rows - wrong) + [1] * wrong, range(rows), rows, 2)
    statistic = STATISTICS["brier"]
    of_low = statistic.of_run(sample, [[low, 1 - low]] * rows)
    of_high = statistic.of_run(sample, [[high, 1 - high]] * rows)
    difference = paired_tests.paired_difference([(1.0, of_low)], [(1.0, of_high)])
    if paired_tests.too_few_rows(difference) is not None:
        return 1.0
    return paired_tests.p_value(difference)


@pytest.mark.parametrize("rows", [20, 50, 128])
@pytest.mark.parametrize(("accuracy", "distance"), [(0.9, 0.09), (0.7, 0.29), (0.7, 0.1), (0.6, 0.05)])
def test_models_with_the_same_expected_brier_score_are_called_different_in_at_most_44_of_1000_samples(
    rows: int, accuracy: float, distance: float
) -> None:
    """The exact size of the test at the level 0.05, for skewed differences.

    The expected Brier score of a model with the accuracy a is smallest at the confidence a. So an underconfident model,
    which says a - d, and an overconfident one, which says a + d, have the same expected score.
    """
    underconfident, overconfident = accuracy - distance, accuracy + distance
    size = 0.0
    for wrong in range(rows + 1):
        probability = math.comb(rows, wrong) * (1 - accuracy) ** wrong * accuracy ** (rows - wrong)
        is_possible = probability >= 1e-12
        if is_possible and p_value_of_two_confidences(rows, wrong, underconfident, overconfident) <= 0.05:
            size += probability

    assert size <= 0.044


def test_the_statistics_have_the_values_of_the_functions() -> None:
    truth, rows = [0, 1, 1], [[0.75, 0.25], [0.25, 0.75], [0.625, 0.375]]
    sample = Sample(truth, [0, 1, 2], 3, 2)

    assert STATISTICS["brier"].value(sample, rows) == pytest.approx(brier(truth, rows))
    assert STATISTICS["nll"].value(sample, rows) == pytest.approx(nll(truth, rows))
