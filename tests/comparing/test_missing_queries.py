"""Queries without a score: what is said of two runs must hold whatever their scores would have been."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import StaICC
from StaICC.comparing import alignment, ranking
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.formats import FORMATS, format_comparisons
from StaICC.comparing.generalisation import compare_generalising
from StaICC.comparing.ranking import rank, standings
from StaICC.comparing.verdicts import Best, Tested, Tied, Untested, Worse
from StaICC.datasets.dataset import Dataset
from StaICC.report.latex_tables import latex_scores
from StaICC.report.page import report_html
from StaICC.results.result import Result

ROWS = [(f"text {row}", row % 2) for row in range(600)]


def benchmark(limit: int = 100, names: tuple[str, ...] = ("own",)) -> StaICC.Normal:
    """Return a benchmark of data sets with two labels, with so many test rows of each, and two queries of a row."""
    datasets = []
    for name in names:
        rows = [(f"{name} {text}", label) for text, label in ROWS]
        datasets.append(Dataset.from_rows(rows, name=name, label_space=["no", "yes"]))
    return StaICC.Normal(datasets=datasets, limit=limit, k=1)


def all_queries(benchmark: Any) -> list[Any]:
    """Return the queries of all data sets of a benchmark."""
    queries = []
    for experimentor in benchmark.experimentor:
        queries += experimentor.all_queries()
    return queries


def chance(text: str) -> float:
    """Return a number between 0 and 1 that looks random and is the same for the same text."""
    return random.Random(text).random()


Labels = dict[str, Any]
"""The prediction of each prompt; ``None`` for one that fails."""


def labels_of_model(benchmark: Any, accuracy: float, name: str) -> Labels:
    """Return the labels of a model with an accuracy; the difficulty of a test row is the same for all models."""
    labels = {}
    for query in all_queries(benchmark):
        accuracy_on_row = accuracy + 0.4 * chance(f"{query.row}") - 0.2
        right = chance(f"{name} {query.prompt}") < accuracy_on_row
        labels[str(query.prompt)] = query.label if right else 1 - query.label
    return labels


def with_failures(benchmark: Any, labels: Labels, fails: Callable[[Any, bool], bool]) -> Labels:
    """Return the labels with a failure where ``fails`` of the query, and of whether its label is right, is true."""
    partial = dict(labels)
    for query in all_queries(benchmark):
        prompt = str(query.prompt)
        if fails(query, labels[prompt] == query.label):
            partial[prompt] = None
    return partial


def with_random_failures(benchmark: Any, labels: Labels, rate: float, name: str) -> Labels:
    """Return the labels with failures at a rate."""
    return with_failures(benchmark, labels, lambda query, right: chance(f"{name} {query.prompt}") < rate)


def with_failures_replaced(benchmark: Any, partial: Labels, *, right: bool) -> Labels:
    """Return the labels with each failure replaced by a right prediction, or by a wrong one."""
    complete = dict(partial)
    for query in all_queries(benchmark):
        if partial[str(query.prompt)] is None:
            complete[str(query.prompt)] = query.label if right else 1 - query.label
    return complete


def result_of(benchmark: Any, labels: Labels) -> Result:
    """Run a benchmark with a model that predicts these labels, and fails where there is none."""
    result = benchmark(lambda prompt, label_space: labels[str(prompt)], on_error="collect")
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def two_runs() -> Any:
    """Return two runs with failures, and the same runs with a right, or a wrong prediction in the place of each."""
    own = benchmark(names=("own", "other"))
    first = with_random_failures(own, labels_of_model(own, 0.85, "a"), 0.1, "first")
    second = with_random_failures(own, labels_of_model(own, 0.6, "b"), 0.1, "second")
    return SimpleNamespace(
        first=result_of(own, first),
        first_wrong=result_of(own, with_failures_replaced(own, first, right=False)),
        first_right=result_of(own, with_failures_replaced(own, first, right=True)),
        second=result_of(own, second),
        second_wrong=result_of(own, with_failures_replaced(own, second, right=False)),
        second_right=result_of(own, with_failures_replaced(own, second, right=True)),
    )


@pytest.fixture(scope="module")
def comparison(two_runs: Any) -> Any:
    """Return the comparison of two runs with failures; each line is of a data set or of the mean."""
    return compare(two_runs.first, two_runs.second, margin=0.05)


@pytest.fixture(scope="module")
def lowest_comparison(two_runs: Any) -> Any:
    """Return the comparison with the lowest difference: failures are wrong in the first run, right in the second."""
    return compare(two_runs.first_wrong, two_runs.second_right, margin=0.05)


@pytest.fixture(scope="module")
def highest_comparison(two_runs: Any) -> Any:
    """Return the comparison with the highest difference: failures are right in the first run, wrong in the second."""
    return compare(two_runs.first_right, two_runs.second_wrong, margin=0.05)


def test_the_interval_reaches_from_the_lowest_to_the_highest_possible_interval(
    comparison: Any, lowest_comparison: Any, highest_comparison: Any
) -> None:
    """Failed queries may have been right or wrong: the ends are those of runs with the worst predictions for each."""
    for line, lowest, highest in zip(comparison.lines, lowest_comparison.lines, highest_comparison.lines, strict=True):
        assert min(line.missing) > 0
        assert lowest.difference < line.difference < highest.difference
        assert line.interval.low == pytest.approx(lowest.interval.low, abs=1e-6)
        assert line.interval.high == pytest.approx(highest.interval.high, abs=1e-6)


def test_the_p_value_of_a_better_run_is_that_of_the_lowest_possible_difference(
    comparison: Any, lowest_comparison: Any
) -> None:
    assert comparison.mean.difference > 0

    for line, lowest in zip(comparison.lines, lowest_comparison.lines, strict=True):
        assert line.p_value == pytest.approx(lowest.p_value, rel=1e-6)
    assert comparison.mean.p_value < 0.05


def test_the_detectable_difference_is_larger_by_what_the_failures_may_hide(
    comparison: Any, lowest_comparison: Any, highest_comparison: Any
) -> None:
    for line, lowest, highest in zip(comparison.lines, lowest_comparison.lines, highest_comparison.lines, strict=True):
        hidden_downwards = line.difference - lowest.difference
        hidden_upwards = highest.difference - line.difference

        larger = max(lowest.detectable + hidden_downwards, highest.detectable + hidden_upwards)
        assert line.detectable == pytest.approx(larger)


def test_a_claim_of_non_inferiority_has_the_p_value_of_the_worst_predictions(
    comparison: Any, lowest_comparison: Any, highest_comparison: Any
) -> None:
    first_not_worse, second_not_worse = comparison.non_inferiority
    first_not_worse_at_lowest, _ = lowest_comparison.non_inferiority
    _, second_not_worse_at_highest = highest_comparison.non_inferiority

    assert first_not_worse.p_value == pytest.approx(first_not_worse_at_lowest.p_value, rel=1e-6)
    assert second_not_worse.p_value == pytest.approx(second_not_worse_at_highest.p_value, rel=1e-6)


def test_exchanged_runs_have_the_same_test_and_the_mirrored_interval(two_runs: Any) -> None:
    first_minus_second = compare(two_runs.first, two_runs.second).mean
    second_minus_first = compare(two_runs.second, two_runs.first).mean

    assert first_minus_second is not None
    assert second_minus_first is not None
    assert second_minus_first.p_value == pytest.approx(first_minus_second.p_value)
    assert second_minus_first.detectable == pytest.approx(first_minus_second.detectable)
    assert second_minus_first.interval.low == pytest.approx(-first_minus_second.interval.high)  # type: ignore[union-attr]
    assert second_minus_first.interval.high == pytest.approx(-first_minus_second.interval.low)  # type: ignore[union-attr]


def rank_by_tests(runs: dict[str, Result], metric: str = "accuracy") -> dict[str, Any]:
    """Return the rank of each run, from a test of all pairs."""
    return {place.run: place for place in rank(runs, metric).runs}


def rank_for_leaderboard(runs: dict[str, Result], metric: str = "accuracy") -> dict[str, Any]:
    """Return the rank of each run as a leaderboard has it."""
    return standings(runs, metric, True)


def rank_for_comparison(runs: dict[str, Result]) -> dict[str, Any]:
    """Return the rank of each run as a comparison of runs has it."""
    return {place.run: place for place in compare_runs(runs).ranking}


@pytest.fixture(scope="module", params=range(6))
def equally_good_runs(request: pytest.FixtureRequest) -> dict[str, Result]:
    """Return two runs of accuracy 0.7, of which "partial" fails on 60 % of its errors.

    So about 0.7 / (0.7 + 0.4 * 0.3) = 85 % of its predictions are right. "worst" is "partial" with wrong predictions in
    the place of its failures.
    """
    seed = request.param
    benchmark_of_200_rows = benchmark(limit=200)
    labels_of_whole = labels_of_model(benchmark_of_200_rows, accuracy=0.7, name=f"{seed} b")
    complete_labels_of_partial = labels_of_model(benchmark_of_200_rows, accuracy=0.7, name=f"{seed} a")

    def fails(query: Any, right: bool) -> bool:
        return not right and chance(f"{seed} lost {query.prompt}") < 0.6

    labels_of_partial = with_failures(benchmark_of_200_rows, complete_labels_of_partial, fails)
    labels_of_worst = with_failures_replaced(benchmark_of_200_rows, labels_of_partial, right=False)
    partial = result_of(benchmark_of_200_rows, labels_of_partial)
    whole = result_of(benchmark_of_200_rows, labels_of_whole)
    worst = result_of(benchmark_of_200_rows, labels_of_worst)
    assert partial.averaged["accuracy"] > whole.averaged["accuracy"] + 0.08
    return {"partial": partial, "whole": whole, "worst": worst}


@pytest.mark.parametrize("order", [("partial", "whole"), ("whole", "partial")])
@pytest.mark.parametrize("reference", [None, "partial", "whole"])
def test_neither_of_two_equally_good_runs_is_shown_to_be_better(
    equally_good_runs: dict[str, Result], order: tuple[str, str], reference: str | None
) -> None:
    """The run "partial" fails on errors, so that its accuracy without them is higher than that of "whole"."""
    runs = {name: equally_good_runs[name] for name in order}

    (pair,) = compare_runs(runs, margin=0.02, reference=reference).comparisons

    assert pair.overall.p_value > 0.05
    assert [claim for claim in pair.non_inferiority if claim.shown] == []
    assert any("neither run" in sentence for sentence in pair.conclusion()), f"got {pair.conclusion()}"


@pytest.mark.parametrize("order", [("partial", "whole"), ("whole", "partial")])
@pytest.mark.parametrize("rank_runs", [rank_by_tests, rank_for_leaderboard])
def test_the_run_with_failures_is_ranked_by_its_worst_accuracy(
    equally_good_runs: dict[str, Result], order: tuple[str, str], rank_runs: Any
) -> None:
    worst_accuracy = equally_good_runs["worst"].averaged["accuracy"]
    accuracy_of_whole = equally_good_runs["whole"].averaged["accuracy"]

    ranks = rank_runs({name: equally_good_runs[name] for name in order})

    assert ranks["partial"].at_worst == pytest.approx(worst_accuracy)
    if worst_accuracy > accuracy_of_whole:
        assert isinstance(ranks["partial"].verdict, Best)
    else:
        assert isinstance(ranks["partial"].verdict, Tied | Untested)


@pytest.mark.parametrize("order", [("partial", "whole"), ("whole", "partial")])
@pytest.mark.parametrize("rank_runs", [rank_by_tests, rank_for_leaderboard])
def test_neither_of_two_equally_good_runs_is_ranked_as_worse(
    equally_good_runs: dict[str, Result], order: tuple[str, str], rank_runs: Any
) -> None:
    ranks = rank_runs({name: equally_good_runs[name] for name in order})

    assert not isinstance(ranks["partial"].verdict, Worse)
    assert not isinstance(ranks["whole"].verdict, Worse)
    assert ranks["partial"].ranks == (1, 2)


@pytest.fixture(scope="module")
def ten_runs_with_failures() -> dict[str, Result]:
    """Return ten runs of accuracies from 0.45 to 0.9: every third one is complete, has 2 % or has 10 % of failures."""
    own = benchmark(limit=200)
    runs = {}
    for number in range(10):
        labels = labels_of_model(own, 0.45 + 0.05 * number, f"{number}")
        failure_rate = (0.0, 0.02, 0.1)[number % 3]
        runs[f"run {number}"] = result_of(own, with_random_failures(own, labels, failure_rate, f"{number}"))
    return runs


def test_bounds_of_p_values_decide_as_the_tests_of_all_pairs(
    ten_runs_with_failures: dict[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many runs, most pairs are decided by a bound, which counts missing queries at their worst as well."""

    def ranks_and_verdicts(ranking: Any) -> list[Any]:
        return [(place.run, place.ranks, type(place.verdict)) for place in ranking.runs]

    by_tests = rank(ten_runs_with_failures)
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)  # more runs than these are many
    by_bounds = rank(ten_runs_with_failures)

    assert ranks_and_verdicts(by_bounds) == ranks_and_verdicts(by_tests)
    different_ranks = {place.ranks for place in by_tests.runs}
    assert len(different_ranks) > 3, "the runs are too similar to test anything"


def test_runs_are_ranked_by_their_worst_values(ten_runs_with_failures: dict[str, Result]) -> None:
    places = rank(ten_runs_with_failures).runs

    worst_values = [place.sorted_by for place in places]
    assert None not in worst_values
    assert worst_values == sorted(worst_values, reverse=True)  # type: ignore[type-var]
    values_without_failures = [place.value for place in places]
    assert values_without_failures != sorted(values_without_failures, reverse=True)  # type: ignore[type-var]


def test_generalising_counts_missing_queries_at_their_worst() -> None:
    """Of two models of accuracy 0.7, one fails on two of three of its errors."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    generalisation = StaICC.Generalisation(datasets=[data], limit=60, draws=2, templates=2, k=1)
    labels = labels_of_model(generalisation, 0.7, "partial")
    partial_labels = with_failures(generalisation, labels, lambda query, right: not right and query.row % 3 > 0)
    wrong_labels = with_failures_replaced(generalisation, partial_labels, right=False)
    right_labels = with_failures_replaced(generalisation, partial_labels, right=True)
    partial = result_of(generalisation, partial_labels)
    whole = result_of(generalisation, labels_of_model(generalisation, 0.7, "whole"))

    of_partial = compare_generalising(partial, whole).overall
    lowest = compare_generalising(result_of(generalisation, wrong_labels), whole).overall
    highest = compare_generalising(result_of(generalisation, right_labels), whole).overall

    assert of_partial.difference > 0.1
    assert of_partial.values[0] == pytest.approx(partial.averaged["accuracy"])
    assert of_partial.p_value > 0.05
    assert of_partial.interval.low == pytest.approx(lowest.interval.low)
    assert of_partial.interval.high == pytest.approx(highest.interval.high)


@pytest.fixture(scope="module")
def runs_with_one_failed_query() -> dict[str, Result]:
    """Return two runs over 100 rows with two queries each, which predict probabilities.

    "partial" is right on 90 % of the queries, and fails on the second query of row 3. "whole" is right on 60 %.
    """
    benchmark_of_100_rows = benchmark(limit=100)
    partial: Labels = {}
    whole: Labels = {}
    labels_of_partial = labels_of_model(benchmark_of_100_rows, accuracy=0.9, name="a")
    labels_of_whole = labels_of_model(benchmark_of_100_rows, accuracy=0.6, name="b")
    for query in all_queries(benchmark_of_100_rows):
        prompt = str(query.prompt)
        partial[prompt] = probabilities_of_label(labels_of_partial[prompt])
        whole[prompt] = probabilities_of_label(labels_of_whole[prompt])
        if query.row == 3 and query.repeat == 1:
            partial[prompt] = None
    return {"partial": result_of(benchmark_of_100_rows, partial), "whole": result_of(benchmark_of_100_rows, whole)}


def probabilities_of_label(label: int) -> list[float]:
    """Return the probabilities of two labels, with 0.9 for the predicted one."""
    return [0.9, 0.1] if label == 0 else [0.1, 0.9]


def test_a_mean_over_queries_is_tested_if_a_query_is_missing(runs_with_one_failed_query: dict[str, Result]) -> None:
    metric = "averaged_truelabel_likelihood"

    (pair,) = compare_runs(runs_with_one_failed_query, metric, margin=0.02).comparisons

    values_of_tables = [run.averaged[metric] for run in runs_with_one_failed_query.values()]
    assert pair.overall.values == pytest.approx(values_of_tables)
    assert pair.overall.outcome.significant


def test_macro_f1_is_untested_if_a_query_is_missing(runs_with_one_failed_query: dict[str, Result]) -> None:
    (pair,) = compare_runs(runs_with_one_failed_query, "macro_F1", margin=0.02).comparisons

    values_of_tables = [run.averaged["macro_F1"] for run in runs_with_one_failed_query.values()]
    assert pair.overall.values == pytest.approx(values_of_tables)
    assert pair.overall.outcome == Untested("1 of 200 queries have no score, and macro F1 is no mean over queries")
    assert pair.overall.interval is None
    assert pair.overall.detectable is None
    assert [claim.p_value for claim in pair.non_inferiority] == [None, None]


@pytest.mark.parametrize("rank_runs", [rank_by_tests, rank_for_leaderboard])
def test_runs_are_untested_in_a_ranking_by_macro_f1_if_a_query_is_missing(
    runs_with_one_failed_query: dict[str, Result], rank_runs: Any
) -> None:
    ranks = rank_runs(runs_with_one_failed_query, "macro_F1")

    assert isinstance(ranks["partial"].verdict, Untested)
    assert isinstance(ranks["whole"].verdict, Untested)
    assert ranks["partial"].at_worst is None


def test_the_table_of_ranks_by_macro_f1_has_no_worst_value(runs_with_one_failed_query: dict[str, Result]) -> None:
    table = str(rank(runs_with_one_failed_query, "macro_F1")).splitlines()

    row_of_partial, *_ = [line for line in table if "partial" in line]
    worst_value = row_of_partial.split()[-1]
    assert worst_value == "-"


@pytest.fixture(scope="module", params=range(4))
def failed_on_one_dataset(request: pytest.FixtureRequest) -> Any:
    """Return ``failing``, right on 90 % of one data set, failed on the other, and ``even``, right on 70 % of both.

    ``all_wrong`` is ``failing`` with wrong predictions in the place of its failures.
    """
    seed = request.param
    two_datasets = benchmark(names=("one", "two"))

    labels_of_failing = labels_of_model(two_datasets, accuracy=0.9, name=f"a {seed}")
    for prompt in labels_of_failing:
        if "two" in prompt:
            labels_of_failing[prompt] = None
    labels_of_even = labels_of_model(two_datasets, accuracy=0.7, name=f"b {seed}")
    labels_of_all_wrong = with_failures_replaced(two_datasets, labels_of_failing, right=False)

    return SimpleNamespace(
        failing=result_of(two_datasets, labels_of_failing),
        even=result_of(two_datasets, labels_of_even),
        all_wrong=result_of(two_datasets, labels_of_all_wrong),
    )


def test_the_mean_is_tested_although_a_data_set_failed_as_a_whole(failed_on_one_dataset: Any) -> None:
    comparison = compare(failed_on_one_dataset.failing, failed_on_one_dataset.even)

    assert [line.dataset for line in comparison.datasets] == ["one", "two"]
    value_of_failing, _ = comparison.overall.values
    assert value_of_failing is None
    all_queries_of_two = 100 * 2  # two queries of each row
    assert comparison.overall.missing == (all_queries_of_two, 0)
    assert isinstance(comparison.overall.outcome, Tested)


def test_a_run_that_failed_on_a_data_set_is_not_shown_to_be_better(failed_on_one_dataset: Any) -> None:
    comparison = compare(failed_on_one_dataset.failing, failed_on_one_dataset.even)

    lowest_difference, _ = comparison.overall.ends
    if comparison.overall.outcome.significant:
        assert lowest_difference <= 0.0
    assert "is better" not in "".join(comparison.conclusion())


def test_a_run_that_failed_on_a_data_set_is_compared_as_if_it_were_wrong_there(failed_on_one_dataset: Any) -> None:
    failing, even, all_wrong = (
        failed_on_one_dataset.failing,
        failed_on_one_dataset.even,
        failed_on_one_dataset.all_wrong,
    )

    of_failing = compare(failing, even, margin=0.05)
    of_all_wrong = compare(all_wrong, even, margin=0.05)

    assert of_failing.overall.interval.low == pytest.approx(of_all_wrong.overall.interval.low)
    failing_not_worse, _ = of_failing.non_inferiority
    all_wrong_not_worse, _ = of_all_wrong.non_inferiority
    assert failing_not_worse.p_value == pytest.approx(all_wrong_not_worse.p_value)


@pytest.mark.parametrize("rank_runs", [rank_by_tests, rank_for_leaderboard, rank_for_comparison])
def test_a_run_that_failed_on_a_data_set_is_ranked_by_its_worst_accuracy(
    failed_on_one_dataset: Any, rank_runs: Any
) -> None:
    runs = {"failing": failed_on_one_dataset.failing, "even": failed_on_one_dataset.even}

    ranks = rank_runs(runs)

    assert ranks["failing"].value is None
    assert ranks["failing"].at_worst == pytest.approx(failed_on_one_dataset.all_wrong.averaged["accuracy"])
    assert isinstance(ranks["even"].verdict, Best)
    assert isinstance(ranks["failing"].verdict, Tied)


def test_latex_says_that_a_run_failed_on_a_data_set(failed_on_one_dataset: Any) -> None:
    latex = latex_scores({"failing": failed_on_one_dataset.failing, "even": failed_on_one_dataset.even})

    assert r"\underline{--} (200 left out)" in latex


def test_a_report_has_the_accuracy_at_worst_of_a_run_that_failed_on_a_data_set(failed_on_one_dataset: Any) -> None:
    """The run is right on about 90 % of one data set and may be wrong on all of the other: 0.45 in the mean."""
    page = report_html({"failing": failed_on_one_dataset.failing, "even": failed_on_one_dataset.even})

    assert "with missing queries at their worst" in page
    assert "at worst 0.4" in page


@pytest.mark.parametrize("form", FORMATS)
def test_no_format_of_a_comparison_writes_nan(failed_on_one_dataset: Any, form: Any) -> None:
    compared = compare_runs({"failing": failed_on_one_dataset.failing, "even": failed_on_one_dataset.even})

    assert "NaN" not in format_comparisons([compared], form)


@pytest.mark.parametrize("predicted", [0, 1], ids=["no query predicted", "one query predicted"])
def test_a_run_that_failed_on_a_data_set_is_not_significantly_better(predicted: int) -> None:
    """The first run is right on 95 % of one data set, and predicts no query or one of the other.

    The second run is right on 60 % of both.
    """
    two_datasets = benchmark(names=("one", "two"))
    labels_of_first = labels_of_model(two_datasets, accuracy=0.95, name="a")
    labels_of_second = labels_of_model(two_datasets, accuracy=0.6, name="b")
    prompts_of_two = [prompt for prompt in labels_of_first if "two" in prompt]
    for prompt in prompts_of_two[predicted:]:
        labels_of_first[prompt] = None

    comparison = compare(result_of(two_datasets, labels_of_first), result_of(two_datasets, labels_of_second))

    assert not comparison.overall.outcome.significant


@pytest.fixture(scope="module")
def failed_on_one_dataset_and_low() -> dict[str, Result]:
    """Return two runs: "failing" is right on 95 % of one data set and fails on the other, "low" on 10 % of both.

    Wrong on all of one data set and right on most of the other is still better than wrong on nearly all.
    """
    own = benchmark(names=("one", "two"))
    failing = with_failures(own, labels_of_model(own, 0.95, "a"), lambda query, right: "two" in query.prompt)
    return {"low": result_of(own, labels_of_model(own, 0.1, "b")), "failing": result_of(own, failing)}


def test_a_run_can_be_better_although_it_failed_on_a_data_set(failed_on_one_dataset_and_low: dict[str, Result]) -> None:
    low, failing = failed_on_one_dataset_and_low["low"], failed_on_one_dataset_and_low["failing"]

    conclusion, *_ = compare(low, failing).conclusion()

    assert conclusion.startswith("second is better")


@pytest.mark.parametrize("rank_runs", [rank_by_tests, rank_for_leaderboard])
def test_a_run_can_lead_although_it_failed_on_a_data_set(
    failed_on_one_dataset_and_low: dict[str, Result], rank_runs: Any
) -> None:
    """Right on 95 % of one data set and failed on the other, next to right on 10 % of both."""
    place_by_run = rank_runs(failed_on_one_dataset_and_low)

    assert isinstance(place_by_run["failing"].verdict, Best)
    assert isinstance(place_by_run["low"].verdict, Worse)


def test_latex_says_that_the_best_run_failed_on_a_data_set(failed_on_one_dataset_and_low: dict[str, Result]) -> None:
    assert r"\textbf{--} (200 left out)" in latex_scores(failed_on_one_dataset_and_low)


def test_a_report_says_that_the_best_run_failed_on_a_data_set(failed_on_one_dataset_and_low: dict[str, Result]) -> None:
    page = report_html(failed_on_one_dataset_and_low)

    answer = page.split('class="answer"')[1].split("</p>")[0]
    text_of_answer = re.sub("<[^>]*>", "", answer)
    assert "failing leads with accuracy 0.4" in text_of_answer
    assert "a significant difference" in text_of_answer
    assert "It has no verdict in the mean" in text_of_answer


def test_macro_f1_is_untested_if_a_data_set_failed_as_a_whole() -> None:
    two_datasets = benchmark(names=("one", "two"))
    labels = labels_of_model(two_datasets, 0.9, "a")
    failing = result_of(two_datasets, with_failures(two_datasets, labels, lambda query, _: "two" in query.prompt))
    even = result_of(two_datasets, labels_of_model(two_datasets, 0.7, "b"))

    comparison = compare(failing, even, "macro_F1")

    assert isinstance(comparison.overall.outcome, Untested)
    assert comparison.overall.ends is None
    for place in rank({"failing": failing, "even": even}, "macro_F1").runs:
        assert isinstance(place.verdict, Untested), place.run


def random_probabilities(query: Any) -> list[float]:
    """Return probabilities of the labels of a query, the same in each run."""
    weights = [chance(f"{query.prompt} {label}") for label in range(len(query.label_space))]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("benchmark_type", [StaICC.GLER, StaICC.TemplateSensitivity, StaICC.ContextualBias])
def test_slopes_consistency_and_bias_of_a_data_set_that_failed_count_at_their_worst(benchmark_type: Any) -> None:
    mini_and_trec = benchmark_type(datasets=["mini", "TREC"], limit=30)
    complete: Labels = {}
    partial: Labels = {}
    for experimentor in mini_and_trec.experimentor:
        for query in experimentor.all_queries():
            prompt = str(query.prompt)
            complete[prompt] = random_probabilities(query)
            partial[prompt] = None if experimentor.name == "TREC" else complete[prompt]
    runs = {"partial": result_of(mini_and_trec, partial), "complete": result_of(mini_and_trec, complete)}

    comparison = compare(runs["partial"], runs["complete"])

    on_mini, on_trec = comparison.datasets
    assert on_mini.values[0] == on_mini.values[1]
    assert on_trec.values[0] is None
    assert on_trec.interval.low < 0.0 < on_trec.interval.high
    assert comparison.overall.values[0] is None
    assert comparison.conclusion()[0] == "neither run is shown to be better (p = 1)"
    assert rank(runs).runs[-1].at_worst is not None


def one_run_failed_as_a_whole() -> dict[str, Result]:
    """Return the runs "failed", without any prediction, and "whole", right on 80 %."""
    own = benchmark()
    labels = labels_of_model(own, accuracy=0.8, name="a")
    labels_of_failed = dict.fromkeys(labels)
    return {"failed": result_of(own, labels_of_failed), "whole": result_of(own, labels)}


def test_a_run_that_failed_as_a_whole_is_not_shown_to_be_worse() -> None:
    """Its model may have been right on every query."""
    runs = one_run_failed_as_a_whole()

    comparison = compare(runs["failed"], runs["whole"])

    assert comparison.conclusion() == ["neither run is shown to be better (p = 1)"]


def test_a_run_that_failed_as_a_whole_is_last_and_tied() -> None:
    runs = one_run_failed_as_a_whole()

    assert [place.run for place in rank(runs).runs] == ["whole", "failed"]
    places = standings(runs, "accuracy", higher_is_better=True)
    assert isinstance(places["whole"].verdict, Best)
    assert isinstance(places["failed"].verdict, Tied)


@pytest.mark.parametrize(
    ("benchmark_type", "metric"),
    [
        (StaICC.GLER, "accuracy"),
        (StaICC.TemplateSensitivity, "consistency"),
        (StaICC.ContextualBias, "contextual_bias"),
    ],
)
def test_slopes_consistency_and_entropies_count_missing_queries_at_their_worst(
    benchmark_type: Any, metric: str
) -> None:
    """Two runs have the same predictions, but 6 % of the queries of the first one fail: 0 must be in the interval."""
    own = benchmark_type(datasets=["mini"], limit=30)
    complete_labels: Labels = {}
    partial_labels: Labels = {}
    for query in all_queries(own):
        prompt = str(query.prompt)
        likely = chance(prompt)
        complete_labels[prompt] = [likely / 2, 1 - likely, likely / 2]
        fails = chance(f"lost {prompt}") < 0.06
        partial_labels[prompt] = None if fails else complete_labels[prompt]
    partial, complete = result_of(own, partial_labels), result_of(own, complete_labels)

    mean = compare(partial, complete, metric).overall

    assert partial.left_out_of(metric) > 0
    assert mean.missing[0] == partial.left_out_of(metric)
    assert mean.values == pytest.approx((partial.averaged[metric], complete.averaged[metric]))
    assert mean.interval.low < 0.0 < mean.interval.high
    assert mean.p_value is None or mean.p_value > 0.05


def test_the_worst_end_of_a_slope_depends_on_the_sign_of_the_weight_of_a_condition() -> None:
    """A slope is lowest if the missing tenth is wrong with clean labels, and right with noisy ones."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    label_noise = StaICC.GLER(datasets=[data], limit=40)
    complete: Labels = {}
    partial: Labels = {}
    lowest: Labels = {}
    conditions = label_noise.experimentor[0].conditions()  # from clean to noisy labels
    for number, condition in enumerate(conditions):
        is_clean = number < len(conditions) // 2
        for query in condition.queries:
            prompt = str(query.prompt)
            right_label = query.label
            wrong_label = 1 - query.label
            is_right = chance(prompt) < 0.7
            complete[prompt] = right_label if is_right else wrong_label

            is_missing = chance(f"lost {prompt}") < 0.1
            if is_missing:
                partial[prompt] = None
                lowest[prompt] = wrong_label if is_clean else right_label
            else:
                partial[prompt] = complete[prompt]
                lowest[prompt] = complete[prompt]

    of_partial = compare(result_of(label_noise, partial), result_of(label_noise, complete)).overall
    of_lowest = compare(result_of(label_noise, lowest), result_of(label_noise, complete)).overall
    assert of_partial.interval.low == pytest.approx(of_lowest.interval.low, abs=2e-3)
    assert of_lowest.difference < of_partial.difference - 0.02


def run_with_right_or_missing_predictions() -> tuple[Result, Result]:
    """Return a run that is right on half of its queries and fails on the others, and one that is wrong on these."""
    two_datasets = benchmark(limit=100, names=("own", "other"))
    labels = labels_of_model(two_datasets, accuracy=0.5, name="a")
    right_or_missing = with_failures(two_datasets, labels, fails=lambda query, right: not right)
    right_or_wrong = with_failures_replaced(two_datasets, right_or_missing, right=False)
    return result_of(two_datasets, right_or_missing), result_of(two_datasets, right_or_wrong)


def test_baselines_count_missing_queries_as_wrong() -> None:
    right_or_missing, right_or_wrong = run_with_right_or_missing_predictions()

    assert right_or_missing.averaged["accuracy"] == 1.0
    assert right_or_missing.means.baselines == right_or_wrong.means.baselines
    assert right_or_missing.details["own"].baselines == right_or_wrong.details["own"].baselines
    all_queries_of_run = 2 * 100 * 2  # data sets, rows, queries of a row
    assert right_or_missing.means.baselines["normal"].queries == all_queries_of_run


def test_a_run_that_misses_half_of_its_queries_is_not_better_than_a_baseline() -> None:
    right_or_missing, _ = run_with_right_or_missing_predictions()

    baselines = right_or_missing.means.baselines["normal"]

    for p_value in (baselines.p_value, baselines.p_value_majority, baselines.p_value_last_demonstration):
        assert p_value is not None
        assert p_value > 0.05
