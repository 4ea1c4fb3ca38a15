"""Paired comparisons of results: the same figures as the tables, and what happens to results that do not fit."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, NamedTuple

import pytest

import StaICC
from StaICC.comparing import alignment, ranking
from StaICC.comparing.alignment import MOST_RUNS, align
from StaICC.comparing.benchmark_comparison import BenchmarkComparison
from StaICC.comparing.comparison import compare, compare_all, compare_runs
from StaICC.comparing.formats import FORMATS, format_comparisons, format_tables
from StaICC.comparing.missing_queries import MEANING, difference_outcome
from StaICC.comparing.rank_bounds import p_value_bounds
from StaICC.comparing.ranking import Rank, rank, standings
from StaICC.comparing.run_records import LabelLimits, _larger_limits
from StaICC.comparing.subgroups import compare_subgroups
from StaICC.comparing.verdicts import Best, Tied, Untested, Worse, verdict_of
from StaICC.comparing.verdicts import Tested as WasTested
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, directional_holm, holm
from StaICC.results.details import pack_scores, unpack_scores
from StaICC.results.result import Result, ResultGroup

TEXTS = [f"text {row} {row * 7919 % 101}" for row in range(400)]
"""Texts with the number of their row, whose parity is the label, and with a number that looks random."""
COLOURS = ("red", "green", "blue")


def own_data(
    labels: tuple[str, ...] = ("no", "yes"), every_third_label_changed: bool = False, before: str = ""
) -> Dataset:
    """Return a data set whose label is the parity of the row.

    Args:
        labels: The names of the two labels.
        every_third_label_changed: Whether every third row has the other label.
        before: What all texts begin with.
    """
    rows = []
    for row, text in enumerate(TEXTS):
        label = row % 2
        if every_third_label_changed and row % 3 == 0:
            label = 1 - label
        rows.append((before + text, label))
    return Dataset.from_rows(rows, name="own", label_space=list(labels))


def model_from_hash(salt: str, skill: float = 0.0) -> Callable[..., list[float]]:
    """Return a model with logits from a hash, to which, on two labels, the skill is added for the true label.

    The true label is the parity of the last but one number of the prompt (``text 7 42``).
    """

    def logit_of(prompt: str, label: int) -> float:
        return hashlib.sha256(f"{salt}\0{prompt}\0{label}".encode()).digest()[0] / 32 - 4

    def function(prompt: str, label_space: list[str]) -> list[float]:
        logits = [logit_of(prompt, label) for label in range(len(label_space))]
        numbers = [int(word) for word in prompt.split() if word.isdecimal()]
        if numbers and len(label_space) == 2:
            true_label = numbers[-2] % 2 if len(numbers) > 1 else 0
            logits[true_label] += skill
        return logits

    return function


def run(function: Any, *datasets: Any, limit: int = 30, **settings: Any) -> Result:
    """Return a run of Normal, by default on ``mini`` and on the data set of :func:`own_data`; 60 queries on each."""
    result = StaICC.Normal(datasets=list(datasets) or ["mini", own_data()], limit=limit)(function, **settings)
    assert isinstance(result, Result)
    return result


def run_right_at_rate(datasets: list[Any], salt: str, right: float, **settings: Any) -> Result:
    """Return a run whose labels are right at the rate ``right``, whatever the prompts say; the salt decides which."""
    benchmark = StaICC.Normal(datasets=datasets, limit=30, **settings)
    predictions = []
    for experimentor in benchmark.experimentor:
        draw = random.Random(f"{salt} {experimentor.name}")
        label_count = len(experimentor.card.label_space)
        of_dataset = []
        for query in experimentor.all_queries():
            is_right = draw.random() < right
            of_dataset.append(query.label if is_right else (query.label + 1) % label_count)
        predictions.append(of_dataset)
    return benchmark(preentered_prediction=predictions)


@pytest.fixture(scope="module")
def skilled_suite(pack: None) -> ResultGroup:
    """The results of all benchmarks for a model with skill, on 12 rows of two data sets."""
    return StaICC.Suite(datasets=["mini", "AGNews"], limit=12)(model_from_hash("a", skill=2.0))


@pytest.fixture(scope="module")
def unskilled_suite(pack: None) -> ResultGroup:
    """The results of all benchmarks for a model without skill, on 12 rows of two data sets."""
    return StaICC.Suite(datasets=["mini", "AGNews"], limit=12)(model_from_hash("b", skill=0.0))


@pytest.fixture(scope="module")
def skilled_run() -> Result:
    """A run of a model with skill, on 30 rows of each of the data sets ``mini`` and ``own``."""
    return run(model_from_hash("a", skill=2.0), limit=30)


@pytest.fixture(scope="module")
def unskilled_run() -> Result:
    """A run of a model without skill, on 30 rows of each of the data sets ``mini`` and ``own``."""
    return run(model_from_hash("b", skill=0.0), limit=30)


def known_value(place: Rank) -> float:
    """Return the value of a run in a ranking, which must have one."""
    assert place.value is not None
    return place.value


def edited(result: Result, change: Callable[[dict[str, Any]], None]) -> Result:
    """Return a result whose saved form is changed by a function."""
    saved = copy.deepcopy(result.to_dict())
    change(saved)
    return Result.from_dict(saved)


# -- the figures of the tables


def compared_metrics(result: Result) -> list[str]:
    """Return the averaged scores that are numbers."""
    return sorted(result.averaged.keys() - {"distribution"})


def test_the_benchmarks_of_the_suite_have_sixteen_metrics(skilled_suite: ResultGroup) -> None:
    metric_counts = {}
    for benchmark, result in skilled_suite.items():
        metric_counts[benchmark] = len(compared_metrics(result))  # type: ignore[arg-type]

    assert metric_counts == {
        "Normal": 4,
        "Contextual_bias": 2,
        "Domain_bias": 2,
        "Post_bias": 2,
        "GLER": 4,
        "Template_sens": 1,
        "Demo_sens": 1,
    }


def test_the_means_of_a_comparison_by_any_metric_are_those_of_the_tables(
    skilled_suite: ResultGroup, unskilled_suite: ResultGroup
) -> None:
    for skilled, unskilled in zip(skilled_suite.results(), unskilled_suite.results(), strict=True):
        for metric in compared_metrics(skilled):
            where = f"{skilled.benchmark}, {metric}"

            comparison = compare(skilled, unskilled, metric)

            means_of_tables = (skilled.averaged[metric], unskilled.averaged[metric])
            assert comparison.mean is not None, f"{where}: {comparison.left_out}"
            assert comparison.mean.values == pytest.approx(means_of_tables, abs=1e-12), where
            notes_about_tables = [note for note in comparison.notes if "the table of" in note]
            assert notes_about_tables == [], where


def test_a_difference_by_any_metric_is_within_its_interval(
    skilled_suite: ResultGroup, unskilled_suite: ResultGroup
) -> None:
    for skilled, unskilled in zip(skilled_suite.results(), unskilled_suite.results(), strict=True):
        for metric in compared_metrics(skilled):
            for comparison in compare(skilled, unskilled, metric).datasets:
                where = f"{skilled.benchmark}, {metric}, {comparison.dataset}"
                assert_difference_in_interval(comparison, where)
                assert_p_values_in_order(comparison, where)


def assert_difference_in_interval(comparison: Any, where: str) -> None:
    """The difference of one data set is that of its two values, and is within its interval."""
    first, second = comparison.values
    assert comparison.difference == pytest.approx(first - second), where
    assert comparison.interval is not None, where
    assert comparison.interval.low <= comparison.difference <= comparison.interval.high, where


def assert_p_values_in_order(comparison: Any, where: str) -> None:
    """A corrected p-value is at least the p-value; both are missing only where too few rows differ."""
    if isinstance(comparison.outcome, Untested):
        assert "even if all their differences had one direction" in comparison.outcome.reason, where
    else:
        assert 0.0 <= comparison.outcome.p_value <= comparison.outcome.corrected_p_value <= 1.0, where


def test_a_run_compared_with_itself_has_no_difference_in_any_metric(skilled_suite: ResultGroup) -> None:
    """24 rows cannot show that no difference is above the margin of 0.01."""
    for result in skilled_suite.results():
        for metric in compared_metrics(result):
            where = f"{result.benchmark}, {metric}"

            found = compare(result, result, metric, margin=0.01)

            for comparison in [*found.datasets, found.overall]:
                assert comparison.difference == 0.0, where
                assert comparison.outcome == WasTested(1.0, 1.0), where
                assert comparison.detectable is None, where
                assert comparison.interval is not None, where
                assert comparison.interval.low < 0.0 < comparison.interval.high, where
            for claim in found.non_inferiority:
                assert not claim.shown, where


@pytest.mark.parametrize(
    ("benchmark", "metric", "higher_is_better"),
    [
        ("Normal", "accuracy", True),
        ("Normal", "expected_calibration_error_1", False),
        ("Contextual_bias", "entropy", True),
        ("Contextual_bias", "contextual_bias", False),
        ("Post_bias", "DL div.", False),
        ("GLER", "averaged_truelabel_likelihood", False),
        ("GLER", "expected_calibration_error_1", True),
        ("Demo_sens", "consistency", True),
    ],
)
def test_the_ranking_begins_with_the_best_value_of_a_metric(
    skilled_suite: ResultGroup, unskilled_suite: ResultGroup, benchmark: str, metric: str, higher_is_better: bool
) -> None:
    """A score of GLER is a slope over label noise: a small one of the accuracy is good, a large one of an error."""
    runs: Any = {"skilled": skilled_suite[benchmark], "unskilled": unskilled_suite[benchmark]}

    compared = compare_runs(runs, metric)

    assert compared.comparisons[0].higher_is_better is higher_is_better
    values_in_order = [known_value(rank) for rank in compared.ranking]
    if higher_is_better:
        assert values_in_order[0] >= values_in_order[1]
    else:
        assert values_in_order[0] <= values_in_order[1]


@pytest.mark.parametrize("metric", ["DL div.", "empirical_bias"])
def test_the_posterior_bias_of_models_that_predict_labels_is_compared(metric: str) -> None:
    """A model without probabilities has a mean prediction, too: the frequencies of the labels that it predicts."""
    benchmark = StaICC.PosteriorBias(datasets=["mini"], limit=20)
    first = benchmark(lambda prompt, label_space: len(prompt) % 2)
    second = benchmark(lambda prompt, label_space: len(prompt) % 3)
    assert first.averaged[metric] != second.averaged[metric]

    comparison = compare(first, second, metric)

    values_of_tables = (first.averaged[metric], second.averaged[metric])
    assert comparison.overall.values == pytest.approx(values_of_tables)


# -- results that do not fit


def reorder_records(saved: dict[str, Any]) -> None:
    """Bring the queries of all data sets of a saved result into another order."""
    for details in saved["details"].values():
        (record,) = details["conditions"]
        order = list(range(len(record["rows"])))
        random.Random(0).shuffle(order)
        scores = unpack_scores(record["scores"], len(details["labels"]))
        record["scores"] = pack_scores([scores[index] for index in order])
        for key in ("truth", "predictions", "rows"):
            record[key] = [record[key][index] for index in order]


def test_the_order_of_the_records_does_not_matter(skilled_run: Result, unskilled_run: Result) -> None:
    reordered = edited(skilled_run, reorder_records)
    for metric in skilled_run.averaged:
        expected = compare(skilled_run, unskilled_run, metric).datasets

        found = compare(reordered, unskilled_run, metric).datasets

        for found_line, expected_line in zip(found, expected, strict=True):
            assert found_line.values == pytest.approx(expected_line.values, abs=1e-12), metric
            assert found_line.p_value == pytest.approx(expected_line.p_value, rel=1e-6), metric


@pytest.fixture(scope="module")
def skilled_run_on_12_rows() -> Result:
    """A run of the model of ``skilled_run`` on 12 of its 30 rows of each data set."""
    return run(model_from_hash("a", skill=2.0), limit=12)


def test_runs_with_other_limits_are_compared_on_the_shared_rows(
    unskilled_run: Result, skilled_run_on_12_rows: Result
) -> None:
    """The first run has 30 rows of each of two data sets, the second one 12; each row has two queries."""
    comparison = compare(unskilled_run, skilled_run_on_12_rows)

    on_mini, on_own = comparison.datasets
    assert on_mini.rows == 12
    assert on_own.rows == 12
    assert on_own.values[1] == skilled_run_on_12_rows.divided["own"]["accuracy"]
    queries_of_other_rows = 2 * (30 - 12)
    assert f"each of mini, own: {queries_of_other_rows} of 60 queries of first are not compared" in comparison.left_out


def test_a_comparison_on_the_shared_rows_is_that_of_runs_on_these_rows(
    unskilled_run: Result, skilled_run_on_12_rows: Result
) -> None:
    both_small = compare(run(model_from_hash("b"), limit=12), skilled_run_on_12_rows)

    assert compare(unskilled_run, skilled_run_on_12_rows).datasets == both_small.datasets


def sometimes_failing(prompt: str, label_space: list[str]) -> Any:
    """Return the logits of a model with skill, and no prediction where the first one is above 3."""
    logits = model_from_hash("a", 2.0)(prompt, label_space)
    return None if logits[0] > 3.0 else logits


class PartialAndComplete(NamedTuple):
    """A run on ``own`` with failed queries, of 60, and one without; the number of the failed ones."""

    partial: Result
    complete: Result
    failed: int


@pytest.fixture(scope="module")
def partial_and_complete() -> PartialAndComplete:
    partial = run(sometimes_failing, own_data(), on_error="collect")
    failed = partial.details["own"].failed
    assert 0 < failed < 60
    return PartialAndComplete(partial, run(model_from_hash("b"), own_data()), failed)


def test_a_comparison_states_how_many_queries_failed(partial_and_complete: PartialAndComplete) -> None:
    partial, complete, failed = partial_and_complete

    comparison = compare(partial, complete)

    (on_own,) = comparison.datasets
    assert on_own.queries == (60, 60)
    assert on_own.missing == (failed, 0)
    assert f"own: {failed} of 60 queries of first have no score: {MEANING}" in comparison.left_out
    assert "failed" in {difference.field for difference in comparison.differences}


def test_the_interval_holds_the_differences_with_all_failed_queries_right_and_wrong(
    partial_and_complete: PartialAndComplete,
) -> None:
    partial, complete, failed = partial_and_complete
    predicted = 60 - failed
    correct = partial.divided["own"]["accuracy"] * predicted
    accuracy_of_complete = complete.divided["own"]["accuracy"]
    difference_if_failed_are_wrong = correct / 60 - accuracy_of_complete
    difference_if_failed_are_right = (correct + failed) / 60 - accuracy_of_complete

    (on_own,) = compare(partial, complete).datasets

    assert on_own.interval is not None
    assert on_own.interval.low < difference_if_failed_are_wrong
    assert difference_if_failed_are_wrong <= on_own.difference <= difference_if_failed_are_right
    assert difference_if_failed_are_right < on_own.interval.high


def test_the_values_of_a_partial_run_are_those_of_its_table(partial_and_complete: PartialAndComplete) -> None:
    partial, complete, _ = partial_and_complete

    for metric, value_of_partial in partial.divided["own"].items():
        (on_own,) = compare(partial, complete, metric).datasets

        value_of_complete = complete.divided["own"][metric]
        assert on_own.values == pytest.approx((value_of_partial, value_of_complete)), metric


def test_the_consistency_of_a_partial_run_is_that_of_its_table() -> None:
    """The consistency is over the queries that have a prediction with every template."""
    templates = StaICC.TemplateSensitivity(datasets=["mini"], limit=20)
    partial, complete = templates(sometimes_failing, on_error="collect"), templates(model_from_hash("b"))
    assert not partial.complete

    found = compare(partial, complete, "consistency")

    assert found.overall.values[0] == pytest.approx(partial.averaged["consistency"])


def test_a_reply_without_a_label_counts_as_wrong_in_its_own_condition_only() -> None:
    """There are four conditions: two draws with two templates each.

    The first model names no label for half of the queries of the first condition. All its other replies are right.
    """
    benchmark = StaICC.Generalisation(datasets=["mini"], limit=20, draws=2, templates=2, unparsed="wrong")
    first_condition, *_ = benchmark[0].conditions()
    true_labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}
    prompts_without_label = {str(query.prompt) for query in first_condition.queries if query.row % 2 == 0}

    def right(prompt: str, label_space: list[str]) -> str:
        return label_space[true_labels[prompt]]

    def right_or_without_label(prompt: str, label_space: list[str]) -> str:
        if prompt in prompts_without_label:
            return "I cannot tell."
        return right(prompt, label_space)

    first = benchmark(right_or_without_label)
    second = benchmark(right)
    (comparison,) = compare(first, second).datasets

    share_without_label = 1 / 2 / 4  # half of one of four conditions
    assert len(prompts_without_label) / len(true_labels) == share_without_label
    assert comparison.values == pytest.approx((1 - share_without_label, 1.0))
    assert first.averaged["accuracy"] == pytest.approx(1 - share_without_label)
    assert comparison.missing == (0, 0)


def coloured(labels: tuple[str, ...]) -> Dataset:
    """Return the same rows with the same colours as labels, in any order of the label space."""
    rows = []
    for row, text in enumerate(TEXTS):
        colour = COLOURS[row * 7919 % 101 % 3]
        rows.append((text, labels.index(colour)))
    return Dataset.from_rows(rows, name="own", label_space=list(labels))


def by_name(salt: str) -> Callable[..., list[float]]:
    """Return a model whose probabilities depend on the text of the query and on the names of the labels, not on their
    order."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        text = prompt.rpartition("text ")[2]
        weights = [random.Random(f"{salt} {text} {label}").random() ** 3 for label in label_space]  # no ties
        return [weight / sum(weights) for weight in weights]

    return function


@pytest.mark.parametrize("benchmark_type", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("other_order", [("green", "blue", "red"), ("blue", "red", "green")], ids=str)
def test_labels_in_another_order_are_found_by_name(benchmark_type: Any, other_order: tuple[str, ...]) -> None:
    """Both orders of three labels differ in all places, so that an index of one order is a wrong label in the other."""
    benchmark = benchmark_type(datasets=[coloured(("red", "green", "blue"))], limit=60)
    reordered_benchmark = benchmark_type(datasets=[coloured(other_order)], limit=60)
    first = benchmark(by_name("a"))
    second = reordered_benchmark(by_name("b"))

    for metric in first.averaged.keys() - {"distribution"}:
        first_value = first.averaged[metric]
        second_value = second.averaged[metric]
        assert first_value != pytest.approx(second_value), metric

        (first_to_second,) = compare(first, second, metric).datasets
        (second_to_first,) = compare(second, first, metric).datasets

        assert first_to_second.values == pytest.approx((first_value, second_value)), metric
        assert second_to_first.values == pytest.approx((second_value, first_value)), metric


@pytest.mark.parametrize("benchmark_type", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("other_order", [("green", "blue", "red"), ("blue", "red", "green")], ids=str)
def test_the_same_predictions_with_labels_in_another_order_do_not_differ(
    benchmark_type: Any, other_order: tuple[str, ...]
) -> None:
    model = by_name("a")
    run_in_usual_order = benchmark_type(datasets=[coloured(("red", "green", "blue"))], limit=60)(model)
    run_in_other_order = benchmark_type(datasets=[coloured(other_order)], limit=60)(model)

    for metric in run_in_usual_order.averaged.keys() - {"distribution"}:
        (comparison,) = compare(run_in_usual_order, run_in_other_order, metric).datasets
        assert comparison.difference == pytest.approx(0.0, abs=1e-12), metric


@pytest.mark.parametrize("more_datasets", [[], ["mini"]], ids=["", "and mini"])
@pytest.mark.parametrize("labels", [("no", "yes"), ("bad", "good")], ids=["same names of labels", "other names"])
@pytest.mark.parametrize("k", [4, 2])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"before": "other "}, "other data under this name"),
        ({"every_third_label_changed": True}, r"other true labels \(test row \d+: label [01] and [01]\)"),
    ],
    ids=["other texts", "other true labels"],
)
def test_other_data_under_one_name_are_never_paired(
    change: dict[str, Any], message: str, k: int, labels: tuple[str, str], more_datasets: list[str]
) -> None:
    first = run_right_at_rate([own_data()], "a", 0.9)
    second = run_right_at_rate([own_data(labels, **change), *more_datasets], "b", 0.6, k=k)

    with pytest.raises(ArgumentError, match=message):
        compare(first, second)


def test_data_without_a_digest_are_never_paired() -> None:
    """Not even those of a run with itself: nothing says that they are the same."""

    def remove_digest(saved: dict[str, Any]) -> None:
        saved["details"]["own"]["data"] = None

    without_digest = edited(run_right_at_rate([own_data()], "a", 0.9), remove_digest)

    with pytest.raises(ArgumentError, match="other data under this name"):
        compare(without_digest, without_digest)


def test_a_comparison_names_what_only_one_signature_has(skilled_run: Result) -> None:
    run_of_kernel = run(StaICC.load_kernel("ppm"))

    lines = str(compare(skilled_run, run_of_kernel)).splitlines()

    assert "only the second has model: ppm; version of the kernel's computation: ppm/1" in lines
    assert lines[-2:] == ["The signature of first:", str(skilled_run.signature)]


def test_a_score_that_differs_from_its_table_is_compared_with_a_note(
    skilled_run: Result, unskilled_run: Result
) -> None:
    def change_score(saved: dict[str, Any]) -> None:
        saved["Divided results"]["own"]["accuracy"] = 0.123

    found = compare(skilled_run, edited(unskilled_run, change_score))

    assert found.left_out == ()
    assert any(note.startswith("own: the table of second has 0.1230 (metrics standard)") for note in found.notes), (
        f"got {found.notes}"
    )


def test_a_data_set_without_records_is_left_out(skilled_run: Result, unskilled_run: Result) -> None:
    def remove_records(saved: dict[str, Any]) -> None:
        saved["details"]["own"]["conditions"] = []

    found = compare(skilled_run, edited(unskilled_run, remove_records))

    assert [line.dataset for line in found.datasets] == ["mini"]
    assert found.mean is None
    assert "own (second: the file has no records of its queries)" in found.left_out


def test_a_data_set_of_one_run_only_is_left_out(skilled_run: Result) -> None:
    on_mini = run(model_from_hash("c"), "mini")

    assert "own (second: not in this run)" in compare(skilled_run, on_mini).left_out
    assert "own (first: not in this run)" in compare(on_mini, skilled_run).left_out


def test_runs_without_a_common_data_set_are_refused() -> None:
    on_mini, on_own = run(model_from_hash("c"), "mini"), run(model_from_hash("c"), own_data())

    with pytest.raises(ArgumentError, match=r"with first by accuracy: second \(its data sets are own, not mini\)$"):
        compare(on_mini, on_own)


@pytest.mark.parametrize("names", [("own", "a", "b"), ("a", "own", "b"), ("a", "b", "own")], ids=" ".join)
def test_of_several_runs_the_one_with_another_data_set_is_left_out_with_its_data_set(names: tuple[str, ...]) -> None:
    runs = {
        "a": run(model_from_hash("a"), "mini"),
        "b": run(model_from_hash("b"), "mini"),
        "own": run(model_from_hash("c"), own_data()),
    }

    found = compare_runs({name: runs[name] for name in names})

    assert found.left_out == ("own (its data sets are own, not mini)",)


def test_a_run_without_probabilities_is_refused_where_a_metric_needs_them(skilled_run: Result) -> None:
    bare_labels = run(lambda prompt, label_space: 1)

    with pytest.raises(ArgumentError, match="have no probabilities"):
        compare(skilled_run, bare_labels, "averaged_truelabel_likelihood")


def test_of_several_runs_the_one_without_probabilities_is_left_out(skilled_run: Result, unskilled_run: Result) -> None:
    bare_labels = run(lambda prompt, label_space: 1)

    found = compare_runs({"a": skilled_run, "b": unskilled_run, "bare": bare_labels}, "averaged_truelabel_likelihood")

    assert [(comparison.first, comparison.second) for comparison in found.comparisons] == [("a", "b")]
    assert found.left_out[0].startswith("bare (mini, own: bare: ")


def test_a_metric_of_the_user_that_is_no_mean_over_queries_is_refused() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6, metrics={"mine": lambda truth, rows: 0.5})

    with pytest.raises(ArgumentError, match="mine cannot be recomputed from a file"):
        compare(benchmark(model_from_hash("a")), benchmark(model_from_hash("b")))


def test_runs_of_two_benchmarks_are_refused(skilled_run: Result, unskilled_run: Result) -> None:
    of_another_benchmark = edited(unskilled_run, lambda saved: saved.update(benchmark="Mine"))

    with pytest.raises(ArgumentError, match="other benchmarks: Normal, Mine"):
        compare(skilled_run, of_another_benchmark)


# -- several runs


class SeveralRuns(NamedTuple):
    """Runs of models with other skills, and their comparison with a margin."""

    runs: dict[str, Result]
    found: BenchmarkComparison


@pytest.fixture(scope="module", params=[(2.0, 0.0, 0.0), (4.0, 4.0, 2.0, 2.0, 0.0, 0.0)], ids=["3 runs", "6 runs"])
def several_runs(request: pytest.FixtureRequest) -> SeveralRuns:
    runs = {f"run {n}": run(model_from_hash(str(n), skill), limit=40) for n, skill in enumerate(request.param)}
    return SeveralRuns(runs, compare_runs(runs, margin=0.05))


def test_all_pairs_of_several_runs_are_compared() -> None:
    runs = {
        "a": run(model_from_hash("a"), "mini"),
        "b": run(model_from_hash("b"), "mini"),
        "c": run(model_from_hash("c"), "mini"),
    }

    compared = compare_runs(runs)

    pairs = [(comparison.first, comparison.second) for comparison in compared.comparisons]
    assert pairs == [("a", "b"), ("a", "c"), ("b", "c")]


def test_a_run_is_shown_to_be_not_worse_at_the_level_of_2_5_percent(several_runs: SeveralRuns) -> None:
    for comparison in several_runs.found.comparisons:
        for claim in comparison.non_inferiority:
            assert claim.p_value is not None
            if claim.p_value <= 0.025:
                assert claim.shown, claim
            else:
                assert not claim.shown, claim


def test_of_six_runs_a_p_value_between_the_levels_shows_nothing() -> None:
    """A p-value between 2.5 % and 5 % shows nothing, because a claim of non-inferiority is one-sided."""
    runs = {
        "run 0": run(model_from_hash("0", skill=4.0), limit=40),
        "run 1": run(model_from_hash("1", skill=4.0), limit=40),
        "run 2": run(model_from_hash("2", skill=2.0), limit=40),
        "run 3": run(model_from_hash("3", skill=2.0), limit=40),
        "run 4": run(model_from_hash("4", skill=0.0), limit=40),
        "run 5": run(model_from_hash("5", skill=0.0), limit=40),
    }

    claims_between_the_levels = []
    for pair in compare_runs(runs, margin=0.05).comparisons:
        for claim in pair.non_inferiority:
            if claim.p_value is not None and 0.025 < claim.p_value < 0.05:
                claims_between_the_levels.append(claim)

    assert claims_between_the_levels
    for claim in claims_between_the_levels:
        assert not claim.shown


def test_a_run_is_not_worse_than_itself_within_a_wide_margin() -> None:
    same = run(model_from_hash("0", skill=2.0), limit=40)

    (pair,) = compare_runs({"a": same, "b": same}, margin=0.5).comparisons

    a_not_worse_than_b, b_not_worse_than_a = pair.non_inferiority
    assert a_not_worse_than_b.shown
    assert b_not_worse_than_a.shown


def test_p_values_of_means_are_corrected_for_both_directions_of_all_pairs(several_runs: SeveralRuns) -> None:
    means = [comparison.overall for comparison in several_runs.found.comparisons]

    corrected_p_values = [mean.holm for mean in means]

    assert corrected_p_values == directional_holm([mean.p_value for mean in means])


def test_p_values_of_data_sets_are_corrected_for_all_pairs_and_data_sets(several_runs: SeveralRuns) -> None:
    lines = []
    for comparison in several_runs.found.comparisons:
        lines += comparison.datasets

    corrected_p_values = [line.holm for line in lines]

    assert corrected_p_values == holm([line.p_value for line in lines])


def test_the_ranking_has_the_means_of_the_tables(several_runs: SeveralRuns) -> None:
    runs, found = several_runs

    values = {rank.run: known_value(rank) for rank in found.ranking}

    assert values == pytest.approx({name: result.averaged["accuracy"] for name, result in runs.items()})


def test_runs_share_a_letter_in_the_ranking_unless_they_differ_significantly(several_runs: SeveralRuns) -> None:
    letters = {rank.run: set(rank.groups) for rank in several_runs.found.ranking}

    for comparison in several_runs.found.comparisons:
        outcome = comparison.overall.outcome
        significant = isinstance(outcome, WasTested) and outcome.significant
        share_a_letter = bool(letters[comparison.first] & letters[comparison.second])
        assert share_a_letter is not significant, (comparison.first, comparison.second)
    best = several_runs.found.ranking[0].run
    assert "a" in letters[best]


def test_the_verdict_on_a_run_is_that_of_its_comparison_with_the_best(several_runs: SeveralRuns) -> None:
    best, *other_places = several_runs.found.ranking
    outcome_against_best = {}
    for comparison in several_runs.found.comparisons:
        if best.run == comparison.first:
            outcome_against_best[comparison.second] = comparison.overall.outcome
        if best.run == comparison.second:
            outcome_against_best[comparison.first] = comparison.overall.outcome

    assert best.verdict == Best()
    for place in other_places:
        if place.value == best.value:
            assert place.verdict == Best(), place.run
        else:
            assert place.verdict == verdict_of(outcome_against_best[place.run]), place.run


def test_a_run_is_worse_up_to_the_corrected_p_value_of_5_percent() -> None:
    at_the_level = WasTested(p_value=0.01, corrected_p_value=0.05)
    above_the_level = WasTested(p_value=0.01, corrected_p_value=0.051)

    assert verdict_of(at_the_level) == Worse(0.05)
    assert verdict_of(above_the_level) == Tied(0.051)


MANY = MOST_RUNS + 5
"""More runs than are compared in all pairs."""


@pytest.fixture(scope="module")
def many_runs() -> dict[str, Result]:
    """Runs with falling accuracies, of which the first two have the same one on these rows."""
    return {f"run {n}": run_right_at_rate(["mini"], str(n), 0.95 - 0.025 * n) for n in range(MANY)}


def test_each_of_many_runs_is_compared_with_all_the_best_ones(many_runs: dict[str, Result]) -> None:
    """Two runs are equally good: the first one is compared with all others, the second with all but the first."""
    compared = compare_runs(many_runs)

    best_value = compared.ranking[0].value
    best_runs = {rank.run for rank in compared.ranking if rank.value == best_value}
    assert len(best_runs) == 2
    assert {comparison.first for comparison in compared.comparisons} == best_runs
    assert len(compared.comparisons) == (MANY - 1) + (MANY - 2)


def test_the_ranking_of_many_runs_has_no_letters_and_no_intervals_of_ranks(many_runs: dict[str, Result]) -> None:
    for place in compare_runs(many_runs).ranking:
        assert place.groups == "", place.run
        assert place.ranks is None, place.run


def test_the_ranking_of_many_runs_has_verdicts(many_runs: dict[str, Result]) -> None:
    best, *_, last = compare_runs(many_runs).ranking

    assert isinstance(best.verdict, Best)
    assert isinstance(last.verdict, Worse)


def test_the_ranking_of_many_runs_has_the_places_of_the_standings(many_runs: dict[str, Result]) -> None:
    ranking = compare_runs(many_runs).ranking

    values = [known_value(place) for place in ranking]
    assert values == sorted(values, reverse=True)
    assert {place.run: place for place in ranking} == standings(many_runs, "accuracy", higher_is_better=True)


def test_comparisons_with_the_best_of_many_runs_are_corrected_for_all_pairs(many_runs: dict[str, Result]) -> None:
    """The best run is chosen by the same rows, so a correction for its own pairs alone would reject too often."""
    compared = compare_runs(many_runs)

    pair_count = MANY * (MANY - 1) / 2
    outcomes = [comparison.overall.outcome for comparison in compared.comparisons]
    tested_outcomes = [outcome for outcome in outcomes if isinstance(outcome, WasTested)]
    assert len(tested_outcomes) > 15
    for outcome in tested_outcomes:
        bonferroni_p_value = min(1.0, outcome.p_value * pair_count)
        assert outcome.corrected_p_value == pytest.approx(bonferroni_p_value)
    text_on_one_line = " ".join(str(compared).split())
    assert "Bonferroni for all pairs, so it can be tied where rank" in text_on_one_line


def test_data_sets_of_many_runs_are_corrected_for_all_pairs_and_data_sets(many_runs: dict[str, Result]) -> None:
    """Each run is on one data set, which is copied here to the data sets "a" and "b"."""
    on_two_datasets = {}
    for name, result in many_runs.items():
        details = result.details["mini"]
        scores = result.divided["mini"]
        on_two_datasets[name] = replace(
            result, details={"a": details, "b": details}, divided={"a": scores, "b": scores}
        )

    found = compare_runs(on_two_datasets)

    pair_count = MANY * (MANY - 1) / 2
    test_count = 2 * pair_count
    tested_lines = []
    for comparison in found.comparisons:
        tested_lines += [line for line in comparison.datasets if line.p_value]
    assert tested_lines
    for line in tested_lines:
        bonferroni_p_value = min(1.0, line.p_value * test_count)  # type: ignore[operator]
        assert line.holm == pytest.approx(bonferroni_p_value)


def random_labels(without_label: float) -> Callable[..., str]:
    """Return a model that guesses labels, and that names none in a share of the prompts."""

    def reply(prompt: str, label_space: list[str]) -> str:
        draw = random.Random(prompt)
        label = draw.choice(label_space)
        return label if draw.random() >= without_label else "I cannot tell."

    return reply


@pytest.fixture(scope="module", params=["replies left out", "failed queries"])
def with_one_partial(request: pytest.FixtureRequest) -> dict[str, Result]:
    """Runs of which ``some`` lacks most predictions, and ``all`` and ``more`` have them."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=30, unparsed="excluded")
    runs = {"all": benchmark(random_labels(0.0)), "some": benchmark(random_labels(0.7))}
    runs["more"] = benchmark(random_labels(0.0001))
    if request.param == "failed queries":
        runs["some"] = run(random_labels(0.7), "mini", on_error="collect")
    assert runs["some"].left_out_of("accuracy") > 0
    return runs


RANKING_FUNCTIONS: dict[str, Callable[[dict[str, Result]], Any]] = {
    "standings": lambda runs: standings(runs, "accuracy", True).values(),
    "rank": lambda runs: rank(runs).runs,
    "compare_runs": lambda runs: compare_runs(runs).ranking,
}


@pytest.mark.parametrize("function_name", RANKING_FUNCTIONS)
def test_a_run_that_lacks_predictions_is_ranked_at_its_worst(
    with_one_partial: dict[str, Result], function_name: str
) -> None:
    """If only its parsed replies counted, a run that leaves out hard queries would be the best one."""
    places = RANKING_FUNCTIONS[function_name](with_one_partial)

    place_by_run = {place.run: place for place in places}
    partial = place_by_run["some"]
    assert isinstance(partial.verdict, Tied | Untested | Worse)
    assert partial.value == pytest.approx(with_one_partial["some"].averaged["accuracy"])
    assert partial.missing == with_one_partial["some"].left_out_of("accuracy")
    assert partial.at_worst < known_value(place_by_run["all"])
    assert partial.at_worst < known_value(place_by_run["more"])


def test_a_run_that_lacks_predictions_changes_no_comparison_of_others(with_one_partial: dict[str, Result]) -> None:
    complete = {name: with_one_partial[name] for name in ("all", "more")}
    (expected,) = compare_runs(complete).comparisons

    comparisons = compare_runs(with_one_partial).comparisons

    (found,) = [pair for pair in comparisons if "some" not in (pair.first, pair.second)]
    assert found.datasets[0].values == expected.datasets[0].values
    assert found.datasets[0].p_value == expected.datasets[0].p_value


def test_a_run_that_lacks_predictions_is_left_out_of_a_ranking_by_macro_f1(
    with_one_partial: dict[str, Result],
) -> None:
    """Macro F1 is no mean over queries, so it has no bounds with the missing ones."""
    compared = compare_runs(with_one_partial, "macro_F1")

    (reason,) = compared.left_out
    assert reason.startswith("some (")
    assert {place.run for place in compared.ranking} == {"all", "more"}


def test_a_run_that_lacks_predictions_is_untested_in_the_standings_by_macro_f1(
    with_one_partial: dict[str, Result],
) -> None:
    place_by_run = standings(with_one_partial, "macro_F1", higher_is_better=True)

    assert isinstance(place_by_run["some"].verdict, Untested)


def test_two_runs_of_which_one_lacks_predictions_are_untested_by_macro_f1(
    with_one_partial: dict[str, Result],
) -> None:
    compared = compare_runs({"all": with_one_partial["all"], "some": with_one_partial["some"]}, "macro_F1")

    for place in compared.ranking:
        assert isinstance(place.verdict, Untested), place.run
    (pair,) = compared.comparisons
    assert pair.left_out


def verdicts_by_run(runs: dict[str, Result], metric: str) -> dict[str, type]:
    """The kind of verdict that each run gets in the standings."""
    return {name: type(place.verdict) for name, place in standings(runs, metric, True).items()}


class TwelveRows:
    """A benchmark of twelve rows, which cannot show any difference of macro F1."""

    def __init__(self, **settings: Any) -> None:
        self.benchmark = StaICC.Normal(datasets=["mini"], limit=4, **settings)
        self._truth = [query.label for query in self.benchmark.experimentor[0].all_queries()]

    def labels_off_by(self, shift: int) -> Result:
        """A run that predicts the true label, or always the same other one."""
        return self.benchmark(preentered_prediction=[[(label + shift) % 3 for label in self._truth]])


@pytest.mark.parametrize("metric", ["accuracy", "macro_F1"])
def test_a_run_with_too_few_rows_for_a_test_is_untested(metric: str) -> None:
    twelve_rows = TwelveRows()
    runs = {"right": twelve_rows.labels_off_by(0), "wrong": twelve_rows.labels_off_by(1)}

    compared = compare_runs(runs, metric)

    (pair,) = compared.comparisons
    assert isinstance(pair.overall.outcome, Untested)
    verdicts_of_ranking = {place.run: type(place.verdict) for place in compared.ranking}
    assert verdicts_of_ranking == {"right": Best, "wrong": Untested}
    assert verdicts_by_run(runs, metric) == {"right": Best, "wrong": Untested}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_says_untested_and_not_tied(form: str) -> None:
    twelve_rows = TwelveRows()
    compared = compare_runs({"right": twelve_rows.labels_off_by(0), "wrong": twelve_rows.labels_off_by(1)})

    text = format_comparisons([compared], form)

    assert "untested" in text
    assert "tied" not in text


def test_a_run_without_predictions_is_tied_because_it_may_be_right_everywhere() -> None:
    twelve_rows = TwelveRows()
    failed = run(lambda prompt, label_space: None, "mini", limit=4, on_error="collect")
    runs = {"right": twelve_rows.labels_off_by(0), "wrong": twelve_rows.labels_off_by(1), "failed": failed}

    place_by_run = standings(runs, "accuracy", higher_is_better=True)

    assert isinstance(place_by_run["right"].verdict, Best)
    assert isinstance(place_by_run["wrong"].verdict, Untested)
    assert isinstance(place_by_run["failed"].verdict, Tied)
    assert place_by_run["failed"].at_worst == 0.0


def test_equal_values_of_a_metric_without_a_test_are_both_the_best() -> None:
    constant_metric = {"mine": lambda truth, rows: 0.5}
    benchmark = StaICC.Normal(datasets=["mini"], limit=4, metrics=constant_metric)
    runs = {"a": benchmark(model_from_hash("a")), "b": benchmark(model_from_hash("b"))}

    assert verdicts_by_run(runs, "mine") == {"a": Best, "b": Best}


def test_different_values_of_a_metric_without_a_test_are_untested() -> None:
    def total_likelihood(truth: list[int], rows: list[list[float]]) -> float:
        return sum(row[label] for label, row in zip(truth, rows, strict=True))

    twelve_rows = TwelveRows(metrics={"mine": total_likelihood})
    runs = {"right": twelve_rows.labels_off_by(0), "wrong": twelve_rows.labels_off_by(1)}

    assert verdicts_by_run(runs, "mine") == {"right": Best, "wrong": Untested}


# -- comparisons of saved results: which are made, which refused, and how they are written


SCRIPT = '<script>document.title = "owned"</script>'


def dataset_with_markup(name: str, has_label_b: Callable[[int], bool] = lambda row: row % 2 == 1) -> Dataset:
    """Return a data set of 60 rows with markup in every text; a function of the row says which have the label b."""
    rows = [(f"text {row} {SCRIPT}", int(has_label_b(row))) for row in range(60)]
    return Dataset.from_rows(rows, name=name, label_space=["a", "b"])


@pytest.fixture(scope="module")
def runs_of_three_models(make_model: Callable[..., Any]) -> dict[str, Result]:
    """Runs on 20 rows of ``mini``: "hash" depends on the prompt, "first" and "last" always predict one of 3 labels."""

    def predict_first_label(prompt: str, label_space: list[str]) -> int:
        return 0

    def predict_last_label(prompt: str, label_space: list[str]) -> int:
        return 2

    benchmark = StaICC.Normal(datasets=["mini"], limit=20)
    return {
        "hash": benchmark(make_model),
        "first": benchmark(predict_first_label),
        "last": benchmark(predict_last_label),
    }


def run_of_hash_model(make_model: Callable[..., Any], limit: int = 20, **settings: Any) -> Result:
    """Return a run of the model from a hash on test rows of ``mini``, with settings of the benchmark."""

    def predict(prompt: Any, label_space: list[str]) -> Any:
        prompt_text = str(prompt)  # in the noisy channel, a prompt is a list of texts
        return make_model(prompt_text, label_space)

    return StaICC.Normal(datasets=["mini"], limit=limit, **settings)(predict)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"k": 2}, "k"), ({"metrics": "0.1.1"}, "metrics"), ({"noisy_channel": True}, "channel")],
    ids=["k", "metrics", "channel"],
)
def test_a_comparison_lists_the_setting_in_which_runs_differ(
    runs_of_three_models: dict[str, Result], make_model: Callable[..., Any], settings: dict[str, Any], field: str
) -> None:
    run_with_usual_settings = runs_of_three_models["hash"]
    run_with_other_setting = run_of_hash_model(make_model, **settings)

    comparison = compare(run_with_usual_settings, run_with_other_setting)

    assert field in {difference.field for difference in comparison.differences}
    assert comparison.datasets[0].rows == 20, "all rows are compared"
    assert comparison.left_out == ()


def test_a_comparison_lists_the_limit_in_which_runs_differ(
    runs_of_three_models: dict[str, Result], make_model: Callable[..., Any]
) -> None:
    run_on_20_rows = runs_of_three_models["hash"]
    run_on_9_rows = run_of_hash_model(make_model, limit=9)

    comparison = compare(run_on_20_rows, run_on_9_rows)

    assert "limit" in {difference.field for difference in comparison.differences}
    assert comparison.datasets[0].rows == 9, "the shared rows are compared"
    assert comparison.left_out


# -- formats


def cells(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_json_has_every_pair(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)

    (document,) = json.loads(format_comparisons(compared, "json"))

    pairs = [(pair["first"], pair["second"]) for pair in document["comparisons"]]
    assert pairs == [("hash", "first"), ("hash", "last"), ("first", "last")]


def test_json_has_the_figures_of_a_pair(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)
    (expected,) = compare(runs_of_three_models["hash"], runs_of_three_models["first"]).datasets

    (document,) = json.loads(format_comparisons(compared, "json"))

    hash_and_first, *_ = document["comparisons"]
    (figures,) = hash_and_first["datasets"]
    assert figures["difference"] == expected.difference
    assert figures["outcome"] == "tested"
    assert figures["reason"] is None
    assert figures["p_value"] == expected.p_value


def test_json_has_the_verdict_on_every_run(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)

    (document,) = json.loads(format_comparisons(compared, "json"))

    best, *others = document["ranking"]
    assert best["verdict"] == {"case": "best"}
    for place in others:
        assert place["verdict"]["case"] in ("tied", "worse", "untested"), place


def runs_of_which_one_has_another_data_set(make_model: Callable[..., Any]) -> dict[str, Result]:
    """Return two runs on ``mini``, of which the second one is also on the data set ``few``."""
    only_second_has = dataset_with_markup("few", has_label_b=lambda row: row > 20)
    return {
        "a": StaICC.Normal(datasets=["mini"], limit=4)(make_model),
        "b": StaICC.Normal(datasets=["mini", only_second_has], limit=4)(make_model),
    }


def notes_of_csv(compared: BenchmarkComparison) -> str:
    """Return all cells of the column ``note`` of a comparison as CSV."""
    lines = csv.DictReader(io.StringIO(format_comparisons([compared], "csv")))
    return "; ".join(line["note"] for line in lines)


def test_the_notes_of_csv_have_what_is_left_out(make_model: Callable[..., Any]) -> None:
    compared = compare_runs(runs_of_which_one_has_another_data_set(make_model))

    (pair,) = compared.comparisons
    assert pair.left_out
    for reason in pair.left_out:
        assert reason in notes_of_csv(compared)


def test_the_notes_of_csv_have_the_claims_of_non_inferiority(make_model: Callable[..., Any]) -> None:
    compared = compare_runs(runs_of_which_one_has_another_data_set(make_model), "macro_F1", margin=0.02)

    (pair,) = compared.comparisons
    assert len(pair.non_inferiority) == 2
    for claim in pair.non_inferiority:
        assert str(claim) in notes_of_csv(compared)


def test_compare_all_returns_what_is_left_out(make_model: Callable[..., Any]) -> None:
    _, left_out = compare_all(runs_of_which_one_has_another_data_set(make_model))

    assert any("few (a: not in this run)" in reason for reason in left_out), left_out


def test_csv_has_the_reason_why_a_pair_is_untested() -> None:
    twelve_rows = TwelveRows()
    runs = {"right": twelve_rows.labels_off_by(0), "wrong": twelve_rows.labels_off_by(1)}

    compared = compare_runs(runs, "macro_F1")

    outcome = compared.comparisons[0].datasets[0].outcome
    assert isinstance(outcome, Untested)
    assert outcome.reason in format_comparisons([compared], "csv")


def test_the_table_in_markdown_has_the_cells_of_the_comparison(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)
    expected_header, expected_rows = compared[0].comparisons[0].table()

    markdown = format_comparisons(compared, "markdown")

    lines_of_tables = [line for line in markdown.splitlines() if line.startswith("|")]
    header, rule, first_row, *_ = [cells(line) for line in lines_of_tables]
    assert header == expected_header
    assert set("".join(rule)) == {"-", ":"}
    assert first_row == expected_rows[0]


def test_latex_has_a_table_for_each_pair_and_one_for_the_ranking(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)
    header, _ = compared[0].comparisons[0].table()
    columns_of_pair = "l" + "r" * (len(header) - 1)

    latex = format_comparisons(compared, "latex")

    pair_count = 3
    assert latex.count(rf"\begin{{tabular}}{{{columns_of_pair}}}") == pair_count
    assert latex.count(r"\end{tabular}") == pair_count + 1


def test_a_row_of_latex_has_all_cells(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)
    header, _ = compared[0].comparisons[0].table()

    latex = format_comparisons(compared, "latex")

    rows_of_mini = [line for line in latex.splitlines() if line.startswith("mini &")]
    assert rows_of_mini
    for row in rows_of_mini:
        assert row.count(" & ") == len(header) - 1, row
        assert row.endswith(r"\\"), row


def test_differences_in_latex_are_in_mathematics(runs_of_three_models: dict[str, Result]) -> None:
    compared, _ = compare_all(runs_of_three_models)

    latex = format_comparisons(compared, "latex")

    first_row, *_ = [line for line in latex.splitlines() if line.startswith("mini &")]
    signed_number = r"\$[+-]\d\.\d{4}\$"
    assert re.search(signed_number, first_row)


@pytest.fixture(params=[f"a ` {SCRIPT} `` b", f"{SCRIPT}\n\n{SCRIPT}", f"{SCRIPT}\r`|"], ids=ascii)
def compared_with_markup(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BenchmarkComparison:
    """A comparison of two runs that have markup in their names, and in that of their data set."""
    monkeypatch.setenv("COLUMNS", "1000")
    benchmark = StaICC.Normal(datasets=[dataset_with_markup(request.param)], limit=12)
    runs = {
        f"one {SCRIPT}": benchmark(lambda prompt, label_space: len(prompt) % 2),
        f"other ` {SCRIPT}": benchmark(lambda prompt, label_space: 1),
    }
    (found,), _ = compare_all(runs)
    return found


def test_markup_in_a_name_is_only_in_comments_of_latex(compared_with_markup: BenchmarkComparison) -> None:
    latex = format_comparisons([compared_with_markup], "latex")

    lines_with_markup = [line for line in latex.splitlines() if "<" in line]
    for line in lines_with_markup:
        assert line.startswith("% "), line


def test_line_ends_in_a_name_add_no_line_to_the_text(compared_with_markup: BenchmarkComparison) -> None:
    """The text has a paragraph with the table, and one with the conclusion."""
    (pair,) = compared_with_markup.comparisons

    table, conclusion, *_ = format_comparisons([compared_with_markup], "text").split("\n\n")

    title, header, rule, row = 1, 1, 1, 1
    assert len(table.splitlines()) == title + len(pair.introduction()) + header + rule + row
    name_of_run, signature = 1, 1
    assert len(conclusion.splitlines()) == len(pair.conclusion()) + name_of_run + signature


def test_backticks_in_a_name_do_not_end_the_code_of_markdown(compared_with_markup: BenchmarkComparison) -> None:
    """The last line is code between two fences of backticks, which are longer than any backticks in between."""
    last_line = format_comparisons([compared_with_markup], "markdown").splitlines()[-1]

    fence, *backticks_of_names, last_fence = re.findall("`+", last_line)

    assert last_line.startswith(fence)
    assert last_fence == fence
    for backticks in backticks_of_names:
        assert len(backticks) < len(fence)


def test_markup_in_a_name_is_text_in_rendered_markdown(compared_with_markup: BenchmarkComparison) -> None:
    """Also where the renderer lets HTML through."""
    markdown_it = pytest.importorskip("markdown_it", reason="the Markdown is rendered by markdown-it-py")
    parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")

    tokens = parser.parse(format_comparisons([compared_with_markup], "markdown"))

    token_types = set()
    for token in tokens:
        token_types.add(token.type)
        for child in token.children or []:
            token_types.add(child.type)
    assert {"table_open", "code_inline"} <= token_types
    assert "html_inline" not in token_types
    assert "html_block" not in token_types


@pytest.fixture(scope="module")
def good_and_bad() -> dict[str, Result]:
    """A run that is certain and right, and one that is certain of the first label."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=64)
    one_hot = {0: [1.0, 0.0, 0.0], 1: [0.0, 1.0, 0.0], 2: [0.0, 0.0, 1.0]}
    right = [one_hot[query.label] for query in benchmark[0].all_queries()]
    first_label = [one_hot[0] for _ in right]
    return {
        "good": benchmark(preentered_prediction=[right]),
        "bad": benchmark(preentered_prediction=[first_label]),
    }


@pytest.mark.parametrize("metric", ["accuracy", "expected_calibration_error_1"])
@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids=str)
def test_the_better_of_two_runs_is_named(good_and_bad: dict[str, Result], order: tuple[str, str], metric: str) -> None:
    runs = {name: good_and_bad[name] for name in order}

    (pair,) = compare_runs(runs, metric).comparisons

    sentences_about_the_better_run = [sentence for sentence in pair.conclusion() if "better" in sentence]
    assert sentences_about_the_better_run == ["good is better (p < 0.0001)"]


@pytest.mark.parametrize("metric", ["accuracy", "expected_calibration_error_1"])
@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids=str)
def test_only_the_better_of_two_runs_is_shown_to_be_not_worse(
    good_and_bad: dict[str, Result], order: tuple[str, str], metric: str
) -> None:
    runs = {name: good_and_bad[name] for name in order}

    (pair,) = compare_runs(runs, metric, margin=0.02).comparisons

    assert [claim.run for claim in pair.non_inferiority if claim.shown] == ["good"]


def test_a_difference_is_that_of_the_first_run_minus_the_second(good_and_bad: dict[str, Result]) -> None:
    """The good run has a higher accuracy, and a lower calibration error."""
    good, bad = good_and_bad["good"], good_and_bad["bad"]

    assert known_difference(good, bad, "accuracy") > 0
    assert known_difference(bad, good, "accuracy") < 0
    assert known_difference(good, bad, "expected_calibration_error_1") < 0
    assert known_difference(bad, good, "expected_calibration_error_1") > 0


def known_difference(first: Result, second: Result, metric: str) -> float:
    difference = compare(first, second, metric).overall.difference
    assert difference is not None
    return difference


@pytest.mark.parametrize(
    ("metric", "key"),
    [("ECE-1", "expected_calibration_error_1"), ("macro F1", "macro_F1")],
)
def test_a_metric_has_the_name_of_its_column_too(good_and_bad: dict[str, Result], metric: str, key: str) -> None:
    """Tables say ECE-1, saved results expected_calibration_error_1."""
    assert rank(good_and_bad, metric) == rank(good_and_bad, key)
    assert rank(good_and_bad, metric).metric == key


@pytest.mark.parametrize(("metric", "direction"), [("accuracy", "higher"), ("ECE-1", "lower")])
def test_a_ranking_says_which_direction_is_better(good_and_bad: dict[str, Result], metric: str, direction: str) -> None:
    assert f"{metric} ({direction} is better)" in str(rank(good_and_bad, metric))


def test_neither_of_two_equal_runs_is_better(good_and_bad: dict[str, Result]) -> None:
    same = good_and_bad["bad"]

    assert compare(same, same).conclusion() == ["neither run is shown to be better (p = 1)"]


# -- ranking of runs: intervals of ranks against other computations


ROWS = [(f"number {row}", row % 2) for row in range(600)]


def predictor(name: str, skill: float, probabilities: bool = False) -> Any:
    """Return a model that is right with a probability between `skill` - 0.2 and `skill` + 0.2, which the row decides.

    Args:
        name: The seed.
        skill: The mean probability that the model is right. The true label is the parity of the row.
        probabilities: Whether it predicts probabilities (0.5 to 1 for its label), or the label alone.
    """

    def predict(prompt: str, label_space: list[str]) -> Any:
        row = int(prompt.rsplit("number ", 1)[1].split()[0])
        chance = skill + 0.4 * random.Random(row).random() - 0.2
        is_right = random.Random(f"{name} {prompt[-400:]}").random() < chance
        label = row % 2 if is_right else 1 - row % 2
        if not probabilities:
            return label
        confidence = 0.5 + 0.5 * random.Random(f"{row} {name}").random()
        return [confidence, 1.0 - confidence] if label == 0 else [1.0 - confidence, confidence]

    return predict


def runs_with_skills(skills: list[float], datasets: int = 1, limit: int = 100, **options: Any) -> dict[str, Result]:
    """Return a run for each skill (``run 0`` has the first), on so many data sets with the same rows."""
    data = [Dataset.from_rows(ROWS, name=f"own {n}", label_space=["no", "yes"]) for n in range(datasets)]
    benchmark = StaICC.Normal(datasets=data, limit=limit, k=1)
    return {f"run {n}": benchmark(predictor(str(n), skill, **options)) for n, skill in enumerate(skills)}


def correct_by_repeat(result: Result) -> list[int]:
    """Return the number of correct predictions in each repeat, on the only data set of a run.

    The n-th query of a test row in the record is that of the n-th repeat.
    """
    (details,) = result.details.values()
    (record,) = details.conditions
    queries_of_row: Counter[int] = Counter()
    correct: Counter[int] = Counter()
    for row, true_label, prediction in zip(record.rows, record.truth, record.predictions, strict=True):
        repeat = queries_of_row[row]
        queries_of_row[row] += 1
        if prediction == true_label:
            correct[repeat] += 1
    return [correct[repeat] for repeat in range(max(queries_of_row.values()))]


def closed_test_of_directions(p_values: Sequence[float], pair: int) -> float:
    """Return the corrected p-value of one direction of a pair by the closed test of Bonferroni over all directions.

    Of two directions, the one has the p-value p / 2 and the other at least 1 - p / 2. The corrected p-value of a
    direction is the largest one over all sets of directions with it: the size of the set times its least p-value.
    """
    p_value_of_direction = p_values[pair] / 2
    other_p_values = [1 - p / 2 for p in p_values]
    for other_pair, p in enumerate(p_values):
        if other_pair != pair:
            other_p_values.append(p / 2)

    largest = 0.0
    for other_count in range(len(other_p_values) + 1):
        for others_of_set in combinations(other_p_values, other_count):
            p_values_of_set = [p_value_of_direction, *others_of_set]
            p_value_of_set = min(1.0, len(p_values_of_set) * min(p_values_of_set))
            largest = max(largest, p_value_of_set)
    return largest


@pytest.mark.parametrize("pair_count", [1, 2, 3])
def test_directional_holm_is_the_closed_test_of_all_directions(pair_count: int) -> None:
    """Compared for p-values up to 0.5, of which many are small; above, no direction is shown in any way."""
    generator = random.Random(pair_count)
    for _ in range(20):
        p_values = [min(1.0, 2 * generator.random() ** 3) for _ in range(pair_count)]

        corrected = directional_holm(p_values)

        for pair, p_value in enumerate(p_values):
            if p_value <= 0.5:
                expected = closed_test_of_directions(p_values, pair)
                assert corrected[pair] == pytest.approx(expected, abs=1e-12), p_values


def test_directional_holm_shows_nothing_for_p_values_above_a_half() -> None:
    for corrected_p_value in directional_holm([0.51, 0.7, 1.0]):
        assert corrected_p_value is not None
        assert 0.5 < corrected_p_value <= 1.0


class Ranked(NamedTuple):
    """A ranking of five runs, and which pairs (better run, worse run) are significantly different."""

    found: Any
    shown_better: set[tuple[str, str]]


@pytest.fixture(scope="module")
def ranked() -> Ranked:
    """Compare all pairs of five runs of models with these accuracies, and rank the runs."""
    runs = runs_with_skills([0.75, 0.5, 0.76, 0.6, 0.74], datasets=2)
    pairs = list(combinations(runs, 2))
    lines = [compare(runs[first], runs[second]).overall for first, second in pairs]
    corrected_p_values = directional_holm([line.p_value for line in lines])

    shown_better = set()
    for (first, second), line, p_value in zip(pairs, lines, corrected_p_values, strict=True):
        assert line.difference is not None
        is_significant = p_value is not None and p_value <= SIGNIFICANCE_LEVEL
        if is_significant and line.difference > 0:
            shown_better.add((first, second))
        elif is_significant:
            shown_better.add((second, first))
    assert shown_better
    return Ranked(rank(runs), shown_better)


def test_an_interval_of_ranks_counts_the_runs_that_are_shown_to_be_better_and_worse(ranked: Ranked) -> None:
    run_count = len(ranked.found.runs)

    for place in ranked.found.runs:
        better_runs = [better for better, worse in ranked.shown_better if worse == place.run]
        worse_runs = [worse for better, worse in ranked.shown_better if better == place.run]
        best_possible_rank = 1 + len(better_runs)
        worst_possible_rank = run_count - len(worse_runs)
        assert place.ranks == (best_possible_rank, worst_possible_rank), place.run


def test_a_run_is_worse_if_the_best_one_is_shown_to_be_better(ranked: Ranked) -> None:
    best = ranked.found.runs[0].run

    for place in ranked.found.runs:
        if (best, place.run) in ranked.shown_better:
            assert isinstance(place.verdict, Worse), place.run
        else:
            assert isinstance(place.verdict, Best | Tied), place.run


def test_runs_share_a_letter_unless_one_is_shown_to_be_better(ranked: Ranked) -> None:
    letters = {place.run: set(place.groups) for place in ranked.found.runs}

    for first, second in combinations(letters, 2):
        differ = (first, second) in ranked.shown_better or (second, first) in ranked.shown_better
        assert bool(letters[first] & letters[second]) is not differ, (first, second)


def test_runs_are_ranked_by_their_values(ranked: Ranked) -> None:
    values = [known_value(place) for place in ranked.found.runs]

    assert values == sorted(values, reverse=True)


def bound_instead_of_testing_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank more than two runs as many runs are ranked: by bounds of p-values."""
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)


@pytest.fixture(scope="module")
def fourteen_runs() -> dict[str, Result]:
    """Runs whose skill rises from 0.4 to 0.66."""
    return runs_with_skills([0.4 + 0.02 * n for n in range(14)], limit=200, probabilities=True)


def places_in_ranking(runs: dict[str, Result], metric: str) -> dict[str, tuple[Any, type]]:
    """Return the interval of ranks and the kind of verdict of each run."""
    return {place.run: (place.ranks, type(place.verdict)) for place in rank(runs, metric).runs}


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood", "macro_F1"])
def test_bounds_of_p_values_rank_runs_as_the_tests_of_all_pairs(
    fourteen_runs: dict[str, Result], metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places_by_tests = places_in_ranking(fourteen_runs, metric)

    bound_instead_of_testing_pairs(monkeypatch)
    places_by_bounds = places_in_ranking(fourteen_runs, metric)

    assert places_by_bounds == places_by_tests
    assert list(places_by_bounds) == list(places_by_tests), "in the same order"
    assert len(set(places_by_tests.values())) > 4, "the runs are too similar to test anything"


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood", "macro_F1"])
def test_the_bound_of_a_pair_is_at_least_its_p_value(
    fourteen_runs: dict[str, Result], metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound_instead_of_testing_pairs(monkeypatch)
    aligned = align(fourteen_runs, metric)

    bounds = p_value_bounds(aligned)

    assert bounds is not None
    for first, second in combinations(aligned.order, 2):
        p_value = difference_outcome(aligned.pair(first, second).difference).corrected_p_value
        bound = bounds.of_pair(first, second)
        if bound is not None:
            rounding = 1e-12
            assert bound >= p_value - rounding, (first, second)


DIFFERING_ROWS = 10
"""The number of rows on which a is right and c is wrong; there is no row of the reverse."""
WEIGHT_OF_PSEUDO_ROW = 0.0214 * 100**0.5
"""The weight of the favourable pseudo-row in the paired test of 100 rows."""
P_VALUE_OF_C_AGAINST_A = (3 * 2) * 0.5**DIFFERING_ROWS * (1 - WEIGHT_OF_PSEUDO_ROW)
"""Corrected for both directions of three pairs."""


@pytest.fixture(scope="module")
def two_best_runs() -> dict[str, Result]:
    """Three runs on a hundred rows: a is right on the first 70, b on the last 70, and c on the first 60.

    So c is wrong on 10 rows where a is right, and never right where a is wrong.
    """
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = StaICC.Normal(datasets=[data], limit=100, k=0)
    true_labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}
    prompts = list(true_labels)
    right_prompts = {"a": prompts[:70], "b": prompts[30:], "c": prompts[:60]}

    def model(name: str) -> Any:
        def predict(prompt: str, label_space: list[str]) -> int:
            return true_labels[prompt] if prompt in right_prompts[name] else 1 - true_labels[prompt]

        return predict

    return {name: benchmark(model(name)) for name in right_prompts}


@pytest.mark.parametrize("most_runs", [2, 20], ids=["as many runs", "as few runs"])
@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_verdicts_do_not_depend_on_which_of_two_best_runs_comes_first(
    two_best_runs: dict[str, Result], order: tuple[str, ...], most_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs a and b are right on 70 rows each, and c on 60 of those of a, so that c is worse than a."""
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", most_runs)
    runs = {name: two_best_runs[name] for name in order}

    for places in (rank(runs).runs, compare_runs(runs).ranking):
        verdicts = {place.run: place.verdict for place in places}
        assert verdicts["a"] == Best()
        assert verdicts["b"] == Best()
        assert verdicts["c"] == Worse(pytest.approx(P_VALUE_OF_C_AGAINST_A))


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_a_run_that_is_worse_than_one_of_two_best_runs_has_the_ranks_2_to_3(
    two_best_runs: dict[str, Result], order: tuple[str, ...]
) -> None:
    ranks = {place.run: place.ranks for place in rank({name: two_best_runs[name] for name in order}).runs}

    assert ranks["c"] == (2, 3)


def ranks_in_each_condition(counts: Mapping[str, Sequence[int]], run_name: str) -> list[int]:
    """Return the rank of a run in each condition: one more than the number of runs with more correct predictions."""
    ranks = []
    for condition, count in enumerate(counts[run_name]):
        better = [other for other in counts.values() if other[condition] > count]
        ranks.append(1 + len(better))
    return ranks


def test_the_ranks_over_templates_and_draws_are_those_of_the_single_conditions() -> None:
    benchmark = StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)
    runs = {
        "first label": benchmark(lambda prompt, label_space: 0),
        "second label": benchmark(lambda prompt, label_space: 1),
        "by length": benchmark(lambda prompt, label_space: len(prompt) % 2),
    }
    correct_by_condition = {name: correct_in_each_condition(result) for name, result in runs.items()}

    for place in rank(runs).runs:
        ranks = ranks_in_each_condition(correct_by_condition, place.run)
        assert place.condition_ranks == (min(ranks), max(ranks)), place.run


def correct_in_each_condition(result: Result) -> list[int]:
    """Return the number of correct predictions on ``mini`` in each condition of a run."""
    counts = []
    for record in result.details["mini"].conditions:
        hits = [truth == prediction for truth, prediction in zip(record.truth, record.predictions, strict=True)]
        counts.append(sum(hits))
    return counts


def test_runs_that_do_not_depend_on_the_prompt_have_one_rank_over_templates_and_draws() -> None:
    benchmark = StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)
    runs = {
        "first label": benchmark(lambda prompt, label_space: 0),
        "second label": benchmark(lambda prompt, label_space: 1),
    }

    for place in rank(runs).runs:
        assert place.condition_ranks is not None
        best_rank, worst_rank = place.condition_ranks
        assert best_rank == worst_rank, place.run


def test_the_ranks_of_a_run_with_repeats_are_those_of_the_single_repeats() -> None:
    """Normal has two draws of demonstrations for each row."""
    runs = runs_with_skills([0.5, 0.55, 0.6])
    correct_counts = {name: correct_by_repeat(result) for name, result in runs.items()}

    places = rank(runs).runs

    for place in places:
        rank_in_first_repeat, rank_in_second_repeat = ranks_in_each_condition(correct_counts, place.run)
        best_rank = min(rank_in_first_repeat, rank_in_second_repeat)
        worst_rank = max(rank_in_first_repeat, rank_in_second_repeat)
        assert place.condition_ranks == (best_rank, worst_rank), place.run


@pytest.mark.parametrize("order", [("many", "few"), ("few", "many")], ids=str)
def test_the_limits_of_micro_f1_are_those_of_all_rounds_in_any_order(order: tuple[str, str]) -> None:
    """Before, an earlier round with more predicted labels was forgotten, so the limit was too small."""
    two_possible_labels = ["label"] * 2
    query_with_many_predictions = (0, ["true label"] * 3, ["predicted label"] * 150, two_possible_labels)
    query_with_few_predictions = (1, ["true label"] * 5, ["predicted label"] * 20, two_possible_labels)
    rounds = {"many": [query_with_many_predictions], "few": [query_with_few_predictions]}

    limits = LabelLimits(1.0, 1.0)
    for name in order:
        limits = _larger_limits(limits, rounds[name], most_labels_of_reply=100.0)

    assert limits == LabelLimits(true=5.0, predicted=150.0)


# -- digests in captions


def caption_and_comments(text: str) -> tuple[str, list[str]]:
    """Return the caption of a table in LaTeX, and its comments."""
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    return caption, [line for line in text.splitlines() if line.startswith("% ")]


LIKE_A_DIGEST = pytest.mark.parametrize("name", ["202411291234", "0a1b2c3d4e5f", "gpt [0a1b2c3d4e5f]"])
"""What is a digest is decided where it is made, not by the form of a text that has names."""


def runs_named(name: str) -> dict[str, Result]:
    """Return a good run with this name and a worse one, on data whose name looks like a digest, too."""
    data = Dataset.from_rows([(text, row % 2) for row, text in enumerate(TEXTS)], name="c0ffee123456")
    return {name: run_right_at_rate([data], "a", 0.95), "other": run_right_at_rate([data], "b", 0.4)}


@LIKE_A_DIGEST
def test_a_name_of_a_run_that_looks_like_a_digest_is_in_the_caption(name: str) -> None:
    compared = compare_runs(runs_named(name))

    caption, comments = caption_and_comments(format_comparisons([compared], "latex"))

    assert f"Normal: first {name}, second other" in caption
    assert f"{name} is better (p " in caption
    comments_with_name = [comment for comment in comments if name in comment]
    for comment in comments_with_name:
        assert "signature" in comment


@LIKE_A_DIGEST
def test_a_name_of_a_run_that_looks_like_a_digest_is_in_the_caption_of_subgroups(name: str) -> None:
    by_label = compare_subgroups(runs_named(name), "label")

    caption, comments = caption_and_comments(format_tables(by_label, "latex"))

    assert f"Normal by label: first {name}, second other" in caption
    comments_with_name = [comment for comment in comments if name in comment]
    for comment in comments_with_name:
        assert "signature" in comment


class WithDigests(NamedTuple):
    """A comparison of two runs with other models and prompts; the digests of both, which are in its introduction."""

    found: BenchmarkComparison
    model_digests: list[str]
    prompt_digests: list[str]


@pytest.fixture(scope="module")
def with_digests() -> WithDigests:
    """The name of the first model looks like a digest."""
    first = StaICC.Normal(datasets=["mini"], limit=12, k=2)(model_from_hash("first"), model_name="0123456789ab")
    second = StaICC.Normal(datasets=["mini"], limit=12, k=3)(model_from_hash("second"), model_name="theirs")
    return WithDigests(
        compare_runs({"ours": first, "theirs": second}),
        model_digests=[run.provenance.predictors[0].identity[:12] for run in (first, second)],
        prompt_digests=[run.signature.fields["prompts"] for run in (first, second)],
    )


def test_the_introduction_has_the_digests_of_models_and_prompts(with_digests: WithDigests) -> None:
    (pair,) = with_digests.found.comparisons

    lines = pair.introduction()

    first_model, second_model = with_digests.model_digests
    first_prompts, second_prompts = with_digests.prompt_digests
    assert lines[1:3] == [f"first: 0123456789ab [{first_model}]", f"second: theirs [{second_model}]"]
    assert f"they differ in texts of the prompts (digest): {first_prompts} and {second_prompts}" in lines


def run_with_instruction(instruction: str, k: int = 4) -> Result:
    """Return a run on own data, whose template begins with an instruction."""
    rows = [(f"text {row}", "ab"[row % 2]) for row in range(80)]
    dataset = Dataset.from_rows(rows, name="own", template={"instruction": instruction})
    return StaICC.Normal(k=k, datasets=[dataset], limit=8)(model_from_hash("first"))


def test_runs_that_differ_by_the_template_of_their_data_say_where_to_see_the_prompts() -> None:
    plain = run_with_instruction("")

    text = str(compare(plain, run_with_instruction("Classify. ")))

    assert "they differ in texts of the prompts (digest): " in text
    assert "note: the texts of the prompts differ, and no setting, such as k, says why" in text
    assert "result.queries(written_prompts)" in text
    assert "no setting, such as k, says why" not in str(compare(plain, run_with_instruction("", k=2)))


def test_the_caption_has_the_names_of_the_models_and_no_digest(with_digests: WithDigests) -> None:
    caption, _ = caption_and_comments(format_comparisons([with_digests.found], "latex"))

    assert "first: 0123456789ab; second: theirs; " in caption
    assert "they differ in k: 2 and 3" in caption
    assert r"they differ in name of the model: 0123456789ab and theirs" in caption
    for digest in [*with_digests.model_digests, *with_digests.prompt_digests]:
        assert digest not in caption


def test_the_lines_with_digests_are_comments(with_digests: WithDigests) -> None:
    _, comments = caption_and_comments(format_comparisons([with_digests.found], "latex"))

    first_prompts, second_prompts = with_digests.prompt_digests
    assert f"% first: 0123456789ab [{with_digests.model_digests[0]}]" in comments
    assert f"% they differ in texts of the prompts (digest): {first_prompts} and {second_prompts}" in comments
