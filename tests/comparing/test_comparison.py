"""Paired comparisons of results: the same figures as the tables, and what happens to results that do not fit."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
import random
import re
from collections.abc import Callable
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


def scored(salt: str, skill: float = 0.0) -> Callable[..., list[float]]:
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


def given(datasets: list[Any], salt: str, right: float, **settings: Any) -> Result:
    """A run whose labels are right at a rate, whatever the prompts say."""
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
def suites(pack: None) -> dict[str, ResultGroup]:
    benchmark = StaICC.Suite(datasets=["mini", "AGNews"], limit=12)
    return {name: benchmark(scored(name, skill)) for name, skill in (("a", 2.0), ("b", 0.0))}


@pytest.fixture(scope="module")
def pair() -> dict[str, Result]:
    return {name: run(scored(name, skill)) for name, skill in (("a", 2.0), ("b", 0.0))}


def known_value(place: Rank) -> float:
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


def test_the_benchmarks_of_the_suite_have_fifteen_metrics(suites: dict[str, ResultGroup]) -> None:
    counts = {name: len(compared_metrics(result)) for name, result in suites["a"].items()}  # type: ignore[arg-type]

    assert counts == {
        **{"Normal": 4, "Contextual_bias": 2, "Domain_bias": 2, "Post_bias": 2},
        **{"GLER": 4, "Template_sens": 1, "Demo_sens": 1},
    }


def test_every_metric_of_every_benchmark_has_the_means_of_the_tables(suites: dict[str, ResultGroup]) -> None:
    for first, second in zip(suites["a"].results(), suites["b"].results(), strict=True):
        for metric in compared_metrics(first):
            where = f"{first.benchmark}, {metric}"

            found = compare(first, second, metric)

            assert found.mean is not None, f"{where}: {found.left_out}"
            of_tables = (first.averaged[metric], second.averaged[metric])
            assert found.mean.values == pytest.approx(of_tables, abs=1e-12), where
            assert not any("the table of" in note for note in found.notes), where
            for comparison in found.datasets:
                check_line(comparison, f"{where}, {comparison.dataset}")


def check_line(comparison: Any, where: str) -> None:
    """The difference of one data set is within its interval, and its p-values are in order."""
    assert comparison.interval is not None, where
    if isinstance(comparison.outcome, Untested):
        reason = "p would be above 0.05 even if all their differences had one direction"
        assert reason in comparison.outcome.reason, where
        return
    first, second = comparison.values
    assert comparison.difference == pytest.approx(first - second), where
    assert comparison.interval.low <= comparison.difference <= comparison.interval.high, where
    assert 0.0 <= comparison.outcome.p_value <= comparison.outcome.corrected_p_value <= 1.0, where


def test_a_run_compared_with_itself_has_no_difference_in_any_metric(suites: dict[str, ResultGroup]) -> None:
    """24 rows cannot show that no difference is above the margin of 0.01."""
    for result in suites["a"].results():
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
def test_the_ranking_begins_with_the_better_end_of_a_metric(
    suites: dict[str, ResultGroup], benchmark: str, metric: str, higher_is_better: bool
) -> None:
    """A slope of label noise (GLER) is better if it is small; that of an error, which falls, if it is large."""
    runs: Any = {name: suite[benchmark] for name, suite in suites.items()}

    found = compare_runs(runs, metric)

    assert found.comparisons[0].higher_is_better is higher_is_better
    values = [known_value(rank) for rank in found.ranking]
    assert values == sorted(values, reverse=higher_is_better)


@pytest.mark.parametrize("metric", ["DL div.", "empirical_bias"])
def test_bare_labels_have_a_mean_prediction(metric: str) -> None:
    """The posterior bias compares it with the frequencies of the labels."""
    benchmark = StaICC.PosteriorBias(datasets=["mini"], limit=20)
    first = benchmark(lambda prompt, label_space: len(prompt) % 2)
    second = benchmark(lambda prompt, label_space: len(prompt) % 3)
    assert first.averaged[metric] != second.averaged[metric]

    found = compare(first, second, metric)

    assert found.overall.values == pytest.approx((first.averaged[metric], second.averaged[metric]))


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


def test_the_order_of_the_records_does_not_matter(pair: dict[str, Result]) -> None:
    reordered = edited(pair["a"], reorder_records)
    for metric in pair["a"].averaged:
        expected = compare(pair["a"], pair["b"], metric).datasets

        found = compare(reordered, pair["b"], metric).datasets

        for found_line, expected_line in zip(found, expected, strict=True):
            assert found_line.values == pytest.approx(expected_line.values, abs=1e-12), metric
            assert found_line.p_value == pytest.approx(expected_line.p_value, rel=1e-6), metric


@pytest.fixture(scope="module")
def small() -> Result:
    """The run ``pair["a"]`` on 12 test rows of each data set, of 30."""
    return run(scored("a", 2.0), limit=12)


def test_runs_with_other_limits_are_compared_on_the_shared_rows(pair: dict[str, Result], small: Result) -> None:
    """18 of 30 rows of the larger run are not in the smaller one: 36 queries, in two repeats."""
    found = compare(pair["b"], small)

    assert [line.rows for line in found.datasets] == [12, 12]
    (_, on_own) = found.datasets
    assert on_own.values[1] == small.divided["own"]["accuracy"]
    assert "each of mini, own: 36 of 60 queries of first are not compared" in found.left_out


def test_a_comparison_on_the_shared_rows_is_that_of_runs_on_these_rows(pair: dict[str, Result], small: Result) -> None:
    both_small = compare(run(scored("b"), limit=12), small)

    assert compare(pair["b"], small).datasets == both_small.datasets


def sometimes_failing(prompt: str, label_space: list[str]) -> Any:
    """Return the logits of a model with skill, and no prediction where the first one is above 3."""
    logits = scored("a", 2.0)(prompt, label_space)
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
    return PartialAndComplete(partial, run(scored("b"), own_data()), failed)


def test_a_comparison_with_failed_queries_names_them(partial_and_complete: PartialAndComplete) -> None:
    partial, complete, failed = partial_and_complete

    found = compare(partial, complete)

    (line,) = found.datasets
    assert line.queries == (60, 60)
    assert line.missing == (failed, 0)
    assert f"own: {failed} of 60 queries of first have no score: {MEANING}" in found.left_out
    assert "failed" in {difference.field for difference in found.differences}


def test_the_interval_holds_the_differences_with_all_failed_queries_right_and_wrong(
    partial_and_complete: PartialAndComplete,
) -> None:
    partial, complete, failed = partial_and_complete
    correct = partial.divided["own"]["accuracy"] * (60 - failed)
    other_accuracy = complete.divided["own"]["accuracy"]
    least_difference = correct / 60 - other_accuracy
    largest_difference = (correct + failed) / 60 - other_accuracy

    (line,) = compare(partial, complete).datasets

    assert line.interval is not None
    assert line.interval.low < least_difference <= line.difference <= largest_difference < line.interval.high


def test_the_values_of_a_partial_run_are_those_of_its_table(partial_and_complete: PartialAndComplete) -> None:
    partial, complete, _ = partial_and_complete
    for metric, value in partial.divided["own"].items():
        (line,) = compare(partial, complete, metric).datasets
        assert line.values == pytest.approx((value, complete.divided["own"][metric])), metric


def test_the_consistency_of_a_partial_run_is_that_of_its_table() -> None:
    """It is over the queries that have a prediction with every template."""
    templates = StaICC.TemplateSensitivity(datasets=["mini"], limit=20)
    partial, complete = templates(sometimes_failing, on_error="collect"), templates(scored("b"))
    assert not partial.complete

    found = compare(partial, complete, "consistency")

    assert found.overall.values[0] == pytest.approx(partial.averaged["consistency"])


def test_a_reply_without_a_label_counts_as_wrong_in_its_own_condition_only() -> None:
    """The first run is right but in half of the queries of one of four conditions, where it names no label."""
    benchmark = StaICC.Generalisation(datasets=["mini"], limit=20, draws=2, templates=2, unparsed="wrong")
    first_condition, *_ = benchmark[0].conditions()
    true_labels = {str(query.prompt): query.label for query in benchmark[0].all_queries()}
    without_label = {str(query.prompt) for query in first_condition.queries if query.row % 2 == 0}

    def right_or_without_label(prompt: str, label_space: list[str]) -> str:
        return "I cannot tell." if prompt in without_label else label_space[true_labels[prompt]]

    def right(prompt: str, label_space: list[str]) -> str:
        return label_space[true_labels[prompt]]

    first, second = benchmark(right_or_without_label), benchmark(right)
    (line,) = compare(first, second).datasets

    accuracy = 1 - len(without_label) / len(true_labels)
    assert accuracy == 1 - 1 / 2 / 4
    assert line.values == pytest.approx((accuracy, 1.0))
    assert first.averaged["accuracy"] == pytest.approx(accuracy)
    assert line.missing == (0, 0)


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


@pytest.mark.parametrize("kind", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("order", [("green", "blue", "red"), ("blue", "red", "green")], ids=str)
def test_labels_in_another_order_are_found_by_name(kind: Any, order: tuple[str, ...]) -> None:
    """A cycle of three is not its own inverse, as an exchange of two labels is."""
    usual_order, other_order = (kind(datasets=[coloured(labels)], limit=60) for labels in (COLOURS, order))
    first, second = usual_order(by_name("a")), other_order(by_name("b"))
    metrics = first.averaged.keys() - {"distribution"}
    assert len(metrics) >= 2

    for metric in metrics:
        values = (first.averaged[metric], second.averaged[metric])
        assert values[0] != pytest.approx(values[1]), metric
        assert compare(first, second, metric).datasets[0].values == pytest.approx(values), metric
        assert compare(second, first, metric).datasets[0].values == pytest.approx(values[::-1]), metric


@pytest.mark.parametrize("kind", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("order", [("green", "blue", "red"), ("blue", "red", "green")], ids=str)
def test_the_same_predictions_with_labels_in_another_order_do_not_differ(kind: Any, order: tuple[str, ...]) -> None:
    usual_order, other_order = (kind(datasets=[coloured(labels)], limit=60) for labels in (COLOURS, order))
    first, same = usual_order(by_name("a")), other_order(by_name("a"))

    for metric in first.averaged.keys() - {"distribution"}:
        assert compare(first, same, metric).datasets[0].difference == pytest.approx(0.0, abs=1e-12), metric


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
    first = given([own_data()], "a", 0.9)
    second = given([own_data(labels, **change), *more_datasets], "b", 0.6, k=k)

    with pytest.raises(ArgumentError, match=message):
        compare(first, second)


def test_data_without_a_digest_are_never_paired() -> None:
    """Not even those of a run with itself: nothing says that they are the same."""

    def remove_digest(saved: dict[str, Any]) -> None:
        saved["details"]["own"]["data"] = None

    without_digest = edited(given([own_data()], "a", 0.9), remove_digest)

    with pytest.raises(ArgumentError, match="other data under this name"):
        compare(without_digest, without_digest)


def test_a_comparison_names_what_only_one_signature_has(pair: dict[str, Result]) -> None:
    lines = str(compare(pair["a"], run(StaICC.load_kernel("ppm")))).splitlines()

    assert "only the second has model: ppm; algorithm: ppm/1" in lines
    assert lines[-2:] == ["The signature of first:", str(pair["a"].signature)]


def test_a_score_that_differs_from_its_table_is_compared_with_a_note(pair: dict[str, Result]) -> None:
    def change_score(saved: dict[str, Any]) -> None:
        saved["Divided results"]["own"]["accuracy"] = 0.123

    found = compare(pair["a"], edited(pair["b"], change_score))

    assert found.left_out == ()
    assert any(note.startswith("own: the table of second has 0.1230 (metrics standard)") for note in found.notes), (
        f"got {found.notes}"
    )


def test_a_data_set_without_records_is_left_out(pair: dict[str, Result]) -> None:
    def remove_records(saved: dict[str, Any]) -> None:
        saved["details"]["own"]["conditions"] = []

    found = compare(pair["a"], edited(pair["b"], remove_records))

    assert [line.dataset for line in found.datasets] == ["mini"]
    assert found.mean is None
    assert "own (second: the file has no records of its queries)" in found.left_out


def test_a_data_set_of_one_run_only_is_left_out(pair: dict[str, Result]) -> None:
    on_mini = run(scored("c"), "mini")

    assert "own (second: not in this run)" in compare(pair["a"], on_mini).left_out
    assert "own (first: not in this run)" in compare(on_mini, pair["a"]).left_out


def test_runs_without_a_common_data_set_are_refused() -> None:
    on_mini, on_own = run(scored("c"), "mini"), run(scored("c"), own_data())

    with pytest.raises(ArgumentError, match=r"with first by accuracy: second \(its data sets are own, not mini\)$"):
        compare(on_mini, on_own)


def test_a_run_without_probabilities_is_refused_where_a_metric_needs_them(pair: dict[str, Result]) -> None:
    bare_labels = run(lambda prompt, label_space: 1)

    with pytest.raises(ArgumentError, match="have no probabilities"):
        compare(pair["a"], bare_labels, "averaged_truelabel_likelihood")


def test_of_several_runs_the_one_without_probabilities_is_left_out(pair: dict[str, Result]) -> None:
    bare_labels = run(lambda prompt, label_space: 1)

    found = compare_runs({**pair, "bare": bare_labels}, "averaged_truelabel_likelihood")

    assert [(comparison.first, comparison.second) for comparison in found.comparisons] == [("a", "b")]
    assert found.left_out[0].startswith("bare (mini, own: bare: ")


def test_a_metric_of_the_user_that_is_no_mean_over_queries_is_refused() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6, metrics={"mine": lambda truth, rows: 0.5})

    with pytest.raises(ArgumentError, match="mine cannot be recomputed from a file"):
        compare(benchmark(scored("a")), benchmark(scored("b")))


def test_runs_of_two_benchmarks_are_refused(pair: dict[str, Result]) -> None:
    of_another_benchmark = edited(pair["b"], lambda saved: saved.update(benchmark="Mine"))

    with pytest.raises(ArgumentError, match="other benchmarks: Normal, Mine"):
        compare(pair["a"], of_another_benchmark)


# -- several runs


class SeveralRuns(NamedTuple):
    """Runs of models with other skills, and their comparison with a margin."""

    runs: dict[str, Result]
    found: BenchmarkComparison


@pytest.fixture(scope="module", params=[(2.0, 0.0, 0.0), (4.0, 4.0, 2.0, 2.0, 0.0, 0.0)], ids=["3 runs", "6 runs"])
def several_runs(request: pytest.FixtureRequest) -> SeveralRuns:
    runs = {f"run {n}": run(scored(str(n), skill), limit=40) for n, skill in enumerate(request.param)}
    return SeveralRuns(runs, compare_runs(runs, margin=0.05))


def test_all_pairs_of_several_runs_are_compared(several_runs: SeveralRuns) -> None:
    runs, found = several_runs

    pairs = [(comparison.first, comparison.second) for comparison in found.comparisons]

    assert pairs == list(combinations(runs, 2))


def test_a_run_is_shown_to_be_not_worse_at_the_level_of_2_5_percent(several_runs: SeveralRuns) -> None:
    for comparison in several_runs.found.comparisons:
        for claim in comparison.non_inferiority:
            assert claim.p_value is not None
            assert claim.shown == (claim.p_value <= 0.025), claim


def test_of_six_runs_a_p_value_between_the_levels_shows_nothing() -> None:
    """It is significant at 5 %, but a claim of non-inferiority is one-sided."""
    skills = (4.0, 4.0, 2.0, 2.0, 0.0, 0.0)
    runs = {f"run {n}": run(scored(str(n), skill), limit=40) for n, skill in enumerate(skills)}

    claims = [claim for pair in compare_runs(runs, margin=0.05).comparisons for claim in pair.non_inferiority]

    between = [claim for claim in claims if claim.p_value is not None and 0.025 < claim.p_value < 0.05]
    assert between
    assert [claim for claim in between if claim.shown] == []


def test_a_run_is_not_worse_than_itself_within_a_wide_margin(several_runs: SeveralRuns) -> None:
    same = several_runs.runs["run 0"]

    (pair,) = compare_runs({"a": same, "b": same}, margin=0.5).comparisons

    assert [claim.shown for claim in pair.non_inferiority] == [True, True]


def test_p_values_of_means_are_corrected_for_both_directions_of_all_pairs(several_runs: SeveralRuns) -> None:
    lines = [comparison.overall for comparison in several_runs.found.comparisons]

    assert [line.holm for line in lines] == directional_holm([line.p_value for line in lines])


def test_p_values_of_data_sets_are_corrected_for_all_pairs_and_data_sets(several_runs: SeveralRuns) -> None:
    lines = [line for comparison in several_runs.found.comparisons for line in comparison.datasets]

    assert [line.holm for line in lines] == holm([line.p_value for line in lines])


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
    best, *others = several_runs.found.ranking
    outcomes = {
        frozenset((comparison.first, comparison.second)): comparison.overall.outcome
        for comparison in several_runs.found.comparisons
    }

    assert best.verdict == Best()
    for place in others:
        if place.value == best.value:
            assert place.verdict == Best(), place.run
        else:
            assert place.verdict == verdict_of(outcomes[frozenset((best.run, place.run))]), place.run


def test_a_run_is_worse_up_to_the_corrected_p_value_of_5_percent() -> None:
    assert verdict_of(WasTested(0.01, 0.05)) == Worse(0.05)
    assert verdict_of(WasTested(0.01, 0.051)) == Tied(0.051)


MANY = MOST_RUNS + 5
"""More runs than are compared in all pairs."""


@pytest.fixture(scope="module")
def many_runs() -> dict[str, Result]:
    """Runs with falling accuracies, of which the first two have the same one on these rows."""
    return {f"run {n}": given(["mini"], str(n), 0.95 - 0.025 * n) for n in range(MANY)}


def test_each_of_many_runs_is_compared_with_all_the_best_ones(many_runs: dict[str, Result]) -> None:
    """There are two, so that the order of the runs decides nothing: the first with all others, the second with all but
    the first."""
    found = compare_runs(many_runs)

    best = {rank.run for rank in found.ranking if rank.value == found.ranking[0].value}
    assert len(best) == 2
    assert {comparison.first for comparison in found.comparisons} == best
    assert len(found.comparisons) == (MANY - 1) + (MANY - 2)


def test_the_ranking_of_many_runs_has_verdicts_but_no_letters(many_runs: dict[str, Result]) -> None:
    found = compare_runs(many_runs)

    values = [known_value(rank) for rank in found.ranking]
    assert values == sorted(values, reverse=True)
    for place in found.ranking:
        assert (place.groups, place.ranks) == ("", None), place.run
    assert isinstance(found.ranking[-1].verdict, Worse)
    assert {rank.run: rank for rank in found.ranking} == standings(many_runs, "accuracy", True)


def test_comparisons_with_the_best_of_many_runs_are_corrected_for_all_pairs(many_runs: dict[str, Result]) -> None:
    """The best run is known from the same rows: a correction for the runs next to it alone rejects too often."""
    found = compare_runs(many_runs)

    pair_count = MANY * (MANY - 1) / 2
    outcomes = [comparison.overall.outcome for comparison in found.comparisons]
    tested = [outcome for outcome in outcomes if isinstance(outcome, WasTested)]
    assert len(tested) > 15
    for outcome in tested:
        assert outcome.corrected_p_value == pytest.approx(min(1.0, outcome.p_value * pair_count))
    assert "Bonferroni for all pairs, so it can be tied where rank" in " ".join(str(found).split())


def test_data_sets_of_many_runs_are_corrected_for_all_pairs_and_data_sets(many_runs: dict[str, Result]) -> None:
    on_two_datasets = {}
    for name, result in many_runs.items():
        details, scores = result.details["mini"], result.divided["mini"]
        on_two_datasets[name] = replace(
            result, details={"a": details, "b": details}, divided={"a": scores, "b": scores}
        )

    found = compare_runs(on_two_datasets)

    test_count = 2 * MANY * (MANY - 1) / 2
    lines = [line for comparison in found.comparisons for line in comparison.datasets]
    tested = [line for line in lines if line.p_value]
    assert tested
    for line in tested:
        assert line.holm == pytest.approx(min(1.0, line.p_value * test_count))  # type: ignore[operator]


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


def test_a_run_that_lacks_predictions_is_ranked_at_its_worst(with_one_partial: dict[str, Result]) -> None:
    """Wrong answers that are not parsed would make a run the best one."""
    partial = with_one_partial["some"]
    rankings = {
        "standings": standings(with_one_partial, "accuracy", True).values(),
        "rank": rank(with_one_partial).runs,
        "compare_runs": compare_runs(with_one_partial).ranking,
    }
    for function, places in rankings.items():
        by_run = {place.run: place for place in places}
        place = by_run["some"]
        assert isinstance(place.verdict, Tied | Untested | Worse), function
        assert place.value == pytest.approx(partial.averaged["accuracy"]), function
        assert place.missing == partial.left_out_of("accuracy"), function
        assert place.at_worst < min(known_value(by_run["all"]), known_value(by_run["more"])), function


def test_a_run_that_lacks_predictions_changes_no_comparison_of_others(with_one_partial: dict[str, Result]) -> None:
    complete = {name: with_one_partial[name] for name in ("all", "more")}
    (expected,) = compare_runs(complete).comparisons

    comparisons = compare_runs(with_one_partial).comparisons

    (found,) = [pair for pair in comparisons if "some" not in (pair.first, pair.second)]
    assert found.datasets[0].values == expected.datasets[0].values
    assert found.datasets[0].p_value == expected.datasets[0].p_value


def test_a_run_that_lacks_predictions_is_left_out_where_a_metric_is_no_mean_over_queries(
    with_one_partial: dict[str, Result],
) -> None:
    found = compare_runs(with_one_partial, "macro_F1")

    assert any(reason.startswith("some (") for reason in found.left_out), f"got {found.left_out}"
    assert {place.run for place in found.ranking} == {"all", "more"}
    assert isinstance(standings(with_one_partial, "macro_F1", True)["some"].verdict, Untested)


def test_two_runs_are_untested_where_one_lacks_predictions_and_a_metric_is_no_mean_over_queries(
    with_one_partial: dict[str, Result],
) -> None:
    found = compare_runs({name: with_one_partial[name] for name in ("all", "some")}, "macro_F1")

    for place in found.ranking:
        assert isinstance(place.verdict, Untested), place.run
    assert found.comparisons[0].left_out


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
def test_a_run_that_no_test_compares_is_untested_and_not_tied(metric: str) -> None:
    rows = TwelveRows()
    runs = {"right": rows.labels_off_by(0), "wrong": rows.labels_off_by(1)}
    found = compare_runs(runs, metric)
    assert isinstance(found.comparisons[0].overall.outcome, Untested)
    assert {place.run: type(place.verdict) for place in found.ranking} == {"right": Best, "wrong": Untested}
    assert verdicts_by_run(runs, metric) == {"right": Best, "wrong": Untested}
    for form in FORMATS:
        text = format_comparisons([found], form)
        assert "tied" not in text, form
        assert "untested" in text, form


def test_a_run_without_predictions_is_tied_and_has_no_value_at_its_worst() -> None:
    rows = TwelveRows()
    failed = run(lambda prompt, label_space: None, "mini", limit=4, on_error="collect")
    runs = {"right": rows.labels_off_by(0), "wrong": rows.labels_off_by(1), "failed": failed}
    assert verdicts_by_run(runs, "accuracy") == {"right": Best, "wrong": Untested, "failed": Tied}
    assert standings(runs, "accuracy", True)["failed"].at_worst == 0.0


def test_equal_values_of_a_metric_without_a_test_are_both_the_best() -> None:
    constant = StaICC.Normal(datasets=["mini"], limit=4, metrics={"mine": lambda truth, rows: 0.5})
    runs = {name: constant(scored(name)) for name in "ab"}
    assert verdicts_by_run(runs, "mine") == {"a": Best, "b": Best}


def test_different_values_of_a_metric_without_a_test_are_untested() -> None:
    def total(truth: list[int], rows: list[list[float]]) -> float:
        return sum(row[label] for label, row in zip(truth, rows, strict=True))

    rows = TwelveRows(metrics={"mine": total})
    runs = {"a": rows.labels_off_by(0), "b": rows.labels_off_by(1)}
    assert verdicts_by_run(runs, "mine") == {"a": Best, "b": Untested}


# -- comparisons of saved results: which are made, which refused, and how they are written


SCRIPT = '<script>document.title = "owned"</script>'


def own(name: str, ones: Callable[[int], bool] = lambda row: row % 2 == 1) -> Dataset:
    rows = [(f"text {n} {SCRIPT}", int(ones(n))) for n in range(60)]
    return Dataset.from_rows(rows, name=name, label_space=["a", "b"])


@pytest.fixture(scope="module")
def runs(make_model: Callable[..., Any]) -> dict[str, Result]:
    benchmark = StaICC.Normal(datasets=["mini"], limit=20)
    functions = {"hash": make_model, "first": lambda prompt, label_space: 0, "last": lambda prompt, label_space: 2}
    return {name: benchmark(function) for name, function in functions.items()}


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"k": 2}, "k"), ({"limit": 9}, "limit"), ({"metrics": "0.1.1"}, "metrics"), ({"noisy_channel": True}, "channel")],
)
def test_other_settings_are_listed(
    runs: dict[str, Result], make_model: Callable[..., Any], changed: dict[str, Any], field: str
) -> None:
    benchmark = StaICC.Normal(**{"datasets": ["mini"], "limit": 20, **changed})
    other = benchmark(lambda prompt, label_space: make_model(str(prompt), label_space))
    (found,), left_out = compare_all({"hash": runs["hash"], "other": other})
    assert field in {one.field for one in found.comparisons[0].differences}
    assert found.comparisons[0].datasets[0].rows == changed.get("limit", 20)
    assert bool(left_out) == (field == "limit")


# -- formats


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_json_has_everything(runs: dict[str, Result]) -> None:
    (document,) = json.loads(format_comparisons(compare_all(runs)[0], "json"))
    assert [one["second"] for one in document["comparisons"]] == ["first", "last", "last"]
    figures, expected = document["comparisons"][0]["datasets"][0], compare(runs["hash"], runs["first"]).datasets[0]
    assert figures["difference"] == expected.difference
    assert (figures["outcome"], figures["reason"], figures["p_value"]) == ("tested", None, expected.p_value)
    best, *others = document["ranking"]
    assert best["verdict"] == {"case": "best"}
    assert {one["verdict"]["case"] for one in others} <= {"tied", "worse", "untested"}


def test_csv_says_what_the_text_says_below_the_table(make_model: Callable[..., Any]) -> None:
    """Non-inferiority and reasons were left out of CSV files."""
    few = own("few", lambda row: row > 20)
    first, second = (StaICC.Normal(datasets=sets, limit=4)(make_model) for sets in (["mini"], ["mini", few]))
    (found,), _ = compare_all({"a": first, "b": second}, "macro_F1", margin=0.02)
    notes = "; ".join(line["note"] for line in csv.DictReader(io.StringIO(format_comparisons([found], "csv"))))
    (pair,) = found.comparisons
    assert (len(pair.left_out) > 0, len(pair.non_inferiority)) == (True, 2)
    assert [text for text in (*pair.left_out, *map(str, pair.non_inferiority)) if text not in notes] == []
    other = StaICC.Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
    ((untested,), _) = compare_all({"a": first, "b": other}, "macro_F1")
    outcome = untested.comparisons[0].datasets[0].outcome
    assert isinstance(outcome, Untested)
    assert outcome.reason in format_comparisons([untested], "csv")


def test_markdown_and_latex_are_tables(runs: dict[str, Result]) -> None:
    found, _ = compare_all(runs)
    lines = [line for line in format_comparisons(found, "markdown").splitlines() if line.startswith("|")]
    head, rows = found[0].comparisons[0].table()
    assert [cells(lines[0]), cells(lines[2])] == [head, rows[0]]
    assert set("".join(cells(lines[1]))) == {"-", ":"}
    text = format_comparisons(found, "latex")
    numbers = len(head) - 1
    columns = "l" + "r" * numbers
    assert text.count(rf"\begin{{tabular}}{{{columns}}}") == 3
    assert text.count(r"\end{tabular}") == 4  # and the ranking
    latex = [line for line in text.splitlines() if line.startswith("mini &")]
    assert [row for row in latex if not (row.count(" & ") == numbers and row.endswith(r"\\"))] == []
    assert re.search(r"\$[+-]\d\.\d{4}\$", latex[0])


@pytest.mark.parametrize("name", [f"a ` {SCRIPT} `` b", f"{SCRIPT}\n\n{SCRIPT}", f"{SCRIPT}\r`|"])
def test_markup_in_a_name_is_text_in_every_format(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendered as Markdown that lets HTML through, and read as LaTeX, no name of a data set becomes markup."""
    monkeypatch.setenv("COLUMNS", "1000")
    benchmark = StaICC.Normal(datasets=[own(name)], limit=12)
    both = {
        f"one {SCRIPT}": benchmark(lambda prompt, label_space: len(prompt) % 2),
        f"other ` {SCRIPT}": benchmark(lambda prompt, label_space: 1),
    }
    found, _ = compare_all(both)
    latex = format_comparisons(found, "latex")
    assert [line for line in latex.splitlines() if "<" in line and not line.startswith("% ")] == []
    text, compared = format_comparisons(found, "text").split("\n\n"), found[0].comparisons[0]
    assert len(text[0].splitlines()) == 4 + len(compared.introduction())  # title, head, rule, row
    assert len(text[1].splitlines()) == 2 + len(compared.conclusion())  # whose signature, signature
    markdown = format_comparisons(found, "markdown")
    code = markdown.splitlines()[-1]
    fence = re.match("`+", code)
    assert fence is not None
    assert [row for row in re.findall("`+", code) if len(row) >= len(fence[0])] == [fence[0]] * 2
    parser = pytest.importorskip("markdown_it", reason="the Markdown is rendered by markdown-it-py")
    tokens = parser.MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown)
    kinds = {child.type for token in tokens for child in [token, *(token.children or [])]}
    assert {"table_open", "code_inline"} <= kinds
    assert not {"html_inline", "html_block"} & kinds


@pytest.mark.parametrize(("metric", "higher"), [("accuracy", True), ("expected_calibration_error_1", False)])
def test_the_better_of_two_runs_is_named(metric: str, higher: bool) -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=64)
    right = iter([query.label for condition in benchmark[0].conditions() for query in condition.queries])
    good = benchmark(lambda prompt, label_space: [float(n == place) for place in [next(right)] for n in range(3)])
    bad = benchmark(lambda prompt, label_space: [1.0, 0.0, 0.0])
    for runs in ({"good": good, "bad": bad}, {"bad": bad, "good": good}):
        pair = compare_runs(runs, metric, margin=0.02).comparisons[0]
        assert {one.run for one in pair.non_inferiority if one.shown} == {"good"}
        assert (pair.overall.difference > 0) is ((pair.first == "good") is higher)
        assert [text for text in pair.conclusion() if "better" in text] == ["good is better (p < 0.0001)"]
        assert f"{metric} ({'higher' if higher else 'lower'} is better)" in str(rank(runs, metric))
    (tied,) = compare(bad, bad, metric).conclusion()
    assert {"neither", "(p", "1)"} <= {*tied.split()}


# -- ranking of runs: intervals of ranks against other computations


ROWS = [(f"number {row}", row % 2) for row in range(600)]


def predictor(name: str, skill: float, probabilities: bool = False) -> Any:
    """A model that is right with a probability between `skill` - 0.2 and `skill` + 0.2, which the row decides."""

    def predict(prompt: str, label_space: list[str]) -> Any:
        number = int(prompt.rsplit("number ", 1)[1].split()[0])
        chance = skill + 0.4 * random.Random(number).random() - 0.2
        right = random.Random(f"{name} {prompt[-400:]}").random() < chance
        label = number % 2 if right else 1 - number % 2
        confidence = 0.5 + 0.5 * random.Random(f"{number} {name}").random()
        return [confidence if place == label else 1.0 - confidence for place in (0, 1)] if probabilities else label

    return predict


def evaluate(skills: list[float], sets: int = 1, limit: int = 100, **options: Any) -> dict[str, Result]:
    data = [Dataset.from_rows(ROWS, name=f"own {n}", label_space=["no", "yes"]) for n in range(sets)]
    return {
        f"run {n}": StaICC.Normal(datasets=data, limit=limit, k=1)(predictor(str(n), skill, **options))
        for n, skill in enumerate(skills)
    }


def correct(result: Result) -> list[list[list[bool]]]:
    """Whether each run is correct, by data set, row and repeat."""
    found = []
    for details in result.details.values():
        (record,) = details.conditions
        rows: dict[int, list[bool]] = {}
        for row, truth, prediction in zip(record.rows, record.truth, record.predictions, strict=True):
            rows.setdefault(row, []).append(truth == prediction)
        found.append([rows[row] for row in sorted(rows)])
    return found


def test_both_directions_of_all_pairs_are_corrected_as_so_many_hypotheses() -> None:
    """Against the closed test of Bonferroni over the directions, of which the larger one has at least 1 - p."""
    generator = random.Random(1)
    for count in (1, 2, 3):
        for _ in range(20):
            p_values = [min(1.0, 2 * generator.random() ** 3) for _ in range(count)]
            sides = [*(p / 2 for p in p_values), *(1 - p / 2 for p in p_values)]
            for pair, adjusted in enumerate(directional_holm(p_values)):
                subsets = [
                    [sides[place] for place in range(2 * count) if number >> place & 1]
                    for number in range(4**count)
                    if number >> pair & 1
                ]
                expected = max(min(1.0, len(subset) * min(subset)) for subset in subsets)
                assert adjusted == pytest.approx(expected, abs=0.5 if p_values[pair] > 0.5 else 1e-12)


def test_an_interval_of_ranks_counts_the_runs_that_are_shown_to_be_better_and_worse() -> None:
    runs = evaluate([0.75, 0.5, 0.76, 0.6, 0.74], sets=2)
    found = rank(runs)
    pairs = list(permutations(runs, 2))
    p_values = [compare(runs[a], runs[b]).overall.p_value for a, b in combinations(runs, 2)]
    adjusted = dict(zip(combinations(runs, 2), directional_holm(p_values), strict=True))
    values = {run.run: known_value(run) for run in found.runs}
    better = {
        (a, b)
        for a, b in pairs
        if values[a] > values[b] and (adjusted.get((a, b)) or adjusted.get((b, a)) or 1.0) <= SIGNIFICANCE_LEVEL
    }
    assert better
    for place in found.runs:
        behind = sum((other, place.run) in better for other in runs)
        before = sum((place.run, other) in better for other in runs)
        assert place.ranks == (1 + behind, len(runs) - before)
        assert isinstance(place.verdict, Best | Tied) == ((found.runs[0].run, place.run) not in better)
        for other in found.runs:
            differ = (place.run, other.run) in better or (other.run, place.run) in better
            assert bool({*place.groups} & {*other.groups}) is not differ
    assert [known_value(place) for place in found.runs] == sorted(values.values(), reverse=True)


@pytest.mark.parametrize("metric", ["accuracy", "averaged_truelabel_likelihood", "macro_F1"])
def test_bounds_decide_as_the_tests_of_all_pairs(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = evaluate([0.4 + 0.02 * n for n in range(14)], limit=200, probabilities=True)
    exact = rank(runs, metric)
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)
    bounded = rank(runs, metric)
    of_bounded, of_exact = ([(own.ranks, type(own.verdict)) for own in found.runs] for found in (bounded, exact))
    assert of_bounded == of_exact
    assert len({*of_exact}) > 4
    aligned = align(runs, metric)
    bounds = p_value_bounds(aligned)
    assert bounds is not None
    for pair in combinations(aligned.order, 2):
        assert (bounds.of_pair(*pair) or 1.0) >= difference_outcome(
            aligned.pair(*pair).difference
        ).corrected_p_value - 1e-12


@pytest.mark.parametrize("most_runs", [2, 20])
def test_verdicts_do_not_depend_on_which_of_two_best_runs_comes_first(
    most_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third run is right on 60 of the 70 rows of the first, and with the second it shares 30."""
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", most_runs)
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = StaICC.Normal(datasets=[data], limit=100, k=0)
    rows = list(dict.fromkeys(query.prompt for query in benchmark[0].conditions()[0].queries))
    known = {"a": rows[:70], "b": rows[30:], "c": rows[:60]}

    def model(name: str) -> Any:
        right = set(known[name])

        def predict(prompt: str, label_space: list[str]) -> int:
            number = int(prompt.rsplit("number ", 1)[1].split()[0])
            return number % 2 if prompt in right else 1 - number % 2

        return predict

    runs = {name: benchmark(model(name)) for name in known}
    verdicts = []
    for names in permutations(runs):
        ranks = {run.run: run for run in rank({name: runs[name] for name in names}).runs}
        assert ranks["c"].ranks == (2, 3)
        compared = {run.run: run for run in compare_runs({name: runs[name] for name in names}).ranking}
        assert ranks["a"].verdict == ranks["b"].verdict == compared["a"].verdict == compared["b"].verdict == Best()
        verdicts += [ranks["c"].verdict, compared["c"].verdict]
    (verdict,) = set(verdicts)
    assert isinstance(verdict, Worse)
    observed_share = 1 - 0.0214 * 100**0.5  # of the probability that all of ten rows have one direction
    assert verdict.p_value == pytest.approx(3 * 2 * 0.5**10 * observed_share)


def test_ranks_over_templates_and_draws() -> None:
    runs = {
        name: StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)(model)
        for name, model in (("same", lambda prompt, label_space: 0), ("other", lambda prompt, label_space: 1))
    }
    assert {place.condition_ranks for place in rank(runs).runs} <= {(1, 1), (2, 2)}

    def changing(prompt: str, label_space: list[str]) -> int:
        return len(prompt) % 2

    runs["changing"] = StaICC.Generalisation(datasets=["mini"], limit=24, draws=2, templates=2)(changing)
    found = {place.run: place.condition_ranks for place in rank(runs).runs}
    accuracies = {
        name: [sum(map(int.__eq__, r.truth, r.predictions)) for r in result.details["mini"].conditions]
        for name, result in runs.items()
    }
    for name, own in accuracies.items():
        ranks = [1 + sum(other[n] > value for other in accuracies.values()) for n, value in enumerate(own)]
        assert found[name] == (min(ranks), max(ranks))
    repeated = evaluate([0.5, 0.55, 0.6])
    found = {place.run: place.condition_ranks for place in rank(repeated).runs}
    sums = {
        name: [sum(column) for column in zip(*correct(result)[0], strict=True)] for name, result in repeated.items()
    }
    for name, own in sums.items():  # two draws of demonstrations for each row
        ranks = [1 + sum(other[n] > value for other in sums.values()) for n, value in enumerate(own)]
        assert len(ranks) == 2
        assert found[name] == (min(ranks), max(ranks))


def test_the_limits_of_micro_f1_are_those_of_all_rounds_in_any_order() -> None:
    """An earlier round with more predicted labels was forgotten, so the limit was too small."""
    many = [(0, ["label"] * 3, ["label"] * 150, ["label"] * 2)]
    few = [(1, ["label"] * 5, ["label"] * 20, ["label"] * 2)]
    for rounds in ([many, few], [few, many]):
        limits = LabelLimits(1.0, 1.0)
        for items in rounds:
            limits = _larger_limits(limits, items, most_labels_of_reply=100.0)
        assert limits == LabelLimits(true=5.0, predicted=150.0)


# -- digests in captions


def caption_and_comments(text: str) -> tuple[str, list[str]]:
    """Return the caption of a table in LaTeX, and its comments."""
    (caption,) = re.findall(r"\\caption\{(.*)\}", text)
    return caption, [line for line in text.splitlines() if line.startswith("% ")]


@pytest.mark.parametrize("name", ["202411291234", "0a1b2c3d4e5f", "gpt [0a1b2c3d4e5f]"])
def test_a_name_of_a_run_that_looks_like_a_digest_is_in_the_caption(name: str) -> None:
    """What is a digest is decided where it is made, not by the form of a text that has names."""
    data = Dataset.from_rows([(text, row % 2) for row, text in enumerate(TEXTS)], name="c0ffee123456")
    runs = {name: given([data], "a", 0.95), "other": given([data], "b", 0.4)}
    (compared,) = compare_runs(runs).comparisons
    assert f"{name} is better (p < 0.0001)" in compared.conclusion()
    whole = format_comparisons([compare_runs(runs)], "latex")
    by_label = format_tables(compare_subgroups(runs, "label"), "latex")
    for text, title in ((whole, "Normal"), (by_label, "Normal by label")):
        caption, comments = caption_and_comments(text)
        assert f"{title}: first {name}, second other" in caption
        assert [comment for comment in comments if "signature" not in comment and name in comment] == []
    assert f"{name} is better (p " in caption_and_comments(whole)[0]


def test_digests_of_models_and_settings_are_comments() -> None:
    """The caption has the names of the models; the lines with their digests are comments."""
    named = {"ours": "0123456789ab", "theirs": "theirs"}  # the name of a model, too, may look like a digest
    runs = {}
    for run_name, model in named.items():
        benchmark = StaICC.Normal(datasets=["mini"], limit=12, k=2 if run_name == "ours" else 3)
        runs[run_name] = benchmark(scored(run_name), model_name=model)
    compared = compare_runs(runs)
    lines = compared.comparisons[0].introduction()
    digests = [run.provenance.predictors[0].identity[:12] for run in runs.values()]
    assert lines[1:3] == [f"first: 0123456789ab [{digests[0]}]", f"second: theirs [{digests[1]}]"]
    prompts = [run.signature.fields["prompts"] for run in runs.values()]
    with_prompts = f"they differ in prompts: {prompts[0]} and {prompts[1]}"
    assert with_prompts in lines
    caption, comments = caption_and_comments(format_comparisons([compared], "latex"))
    assert "first: 0123456789ab; second: theirs; " in caption
    assert "they differ in k: 2 and 3" in caption
    assert r"they differ in model\_name: 0123456789ab and theirs" in caption
    assert f"% {with_prompts}" in comments
    assert f"% {lines[1]}" in comments
    assert [digest for digest in [*digests, *prompts] if digest in caption] == []
