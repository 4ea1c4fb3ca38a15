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
from itertools import combinations, permutations
from typing import Any

import pytest

import StaICC
from StaICC.comparing import alignment, ranking
from StaICC.comparing.alignment import MOST_RUNS, align
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
COLOURS = ("red", "green", "blue")


def own_data(labels: tuple[str, ...] = ("no", "yes"), shift: int = 0, before: str = "") -> Dataset:
    rows = [(before + text, (row + shift * (row % 3 == 0)) % 2) for row, text in enumerate(TEXTS)]
    return Dataset.from_rows(rows, name="own", label_space=list(labels))


def scored(salt: str, skill: float = 0.0) -> Callable[..., list[float]]:
    """Logits from a hash; with skill, they lean towards the label that the row's number has."""

    def function(prompt: str, label_space: list[str]) -> list[float]:
        digests = [
            hashlib.sha256(f"{salt}\0{prompt}\0{number}".encode()).digest() for number, _ in enumerate(label_space)
        ]
        place = [digest[0] / 32 - 4 for digest in digests]
        numbers = [int(word) for word in prompt.split() if word.isdecimal()]
        if numbers and len(label_space) == 2:
            place[numbers[-2] % 2 if len(numbers) > 1 else 0] += skill
        return place

    return function


def run(function: Any, *sets: Any, limit: int = 30, **settings: Any) -> Result:
    result = StaICC.Normal(datasets=list(sets) or ["mini", own_data()], limit=limit)(function, **settings)
    assert isinstance(result, Result)
    return result


def given(datasets: list[Any], salt: str, right: float, **settings: Any) -> Result:
    """A run whose labels are right at a rate, whatever the prompts say."""
    benchmark = StaICC.Normal(datasets=datasets, limit=30, **settings)
    predictions = []
    for each in benchmark.experimentor:
        draw, labels = random.Random(f"{salt} {each.name}"), len(each.card.label_space)
        queries = each.all_queries()
        predictions.append([q.label if draw.random() < right else (q.label + 1) % labels for q in queries])
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
    plain = copy.deepcopy(result.to_dict())
    change(plain)
    return Result.from_dict(plain)


# -- the figures of the tables


def test_every_metric_of_every_benchmark_has_the_means_of_the_tables(suites: dict[str, ResultGroup]) -> None:
    compared_metrics = []
    for result, other in zip(suites["a"].results(), suites["b"].results(), strict=True):
        for metric in result.averaged.keys() - {"distribution"}:
            compared_metrics.append(metric)
            found = compare(result, other, metric)
            assert found.mean is not None, (metric, found.left_out)
            expected_means = (result.averaged[metric], other.averaged[metric])
            assert found.mean.values == pytest.approx(expected_means, abs=1e-12), (result.benchmark, metric)
            notes_of_other_values = [note for note in found.notes if "the table of" in note]
            assert notes_of_other_values == [], (result.benchmark, metric)
            for comparison in found.datasets:
                check_line(comparison, f"{result.benchmark}, {metric}, {comparison.dataset}")
    # Normal and template sensitivity have 4 scores, the other tasks 1 or 2.
    assert len(compared_metrics) == 16, compared_metrics


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
    for result in suites["a"].results():
        for metric in result.averaged.keys() - {"distribution"}:
            where = f"{result.benchmark}, {metric}"
            found = compare(result, result, metric, margin=0.01)
            for comparison in [*found.datasets, found.overall]:
                assert comparison.difference == 0.0, where
                assert comparison.outcome == WasTested(1.0, 1.0), where
                assert comparison.detectable is None, where
                assert comparison.interval is not None, where
                assert comparison.interval.low < 0.0 < comparison.interval.high, where
            # 24 rows show no difference below 0.01.
            assert not any(claim.shown for claim in found.non_inferiority), where


def test_lower_is_better_where_it_is(suites: dict[str, ResultGroup]) -> None:
    """A slope of label noise is better if it is small; that of an error, which falls, if it is large."""
    for benchmark, metric, higher in (
        ("Normal", "accuracy", True),
        ("Normal", "expected_calibration_error_1", False),
        ("Contextual_bias", "entropy", True),
        ("Contextual_bias", "contextual_bias", False),
        ("Post_bias", "DL div.", False),
        ("GLER", "averaged_truelabel_likelihood", False),
        ("GLER", "expected_calibration_error_1", True),
        ("Demo_sens", "consistency", True),
    ):
        found = compare_runs({name: suite[benchmark] for name, suite in suites.items()}, metric)
        assert found.comparisons[0].higher_is_better is higher
        values = [known_value(rank) for rank in found.ranking]
        assert values == sorted(values, reverse=higher)


def test_bare_labels_have_a_mean_prediction() -> None:
    benchmark = StaICC.PosteriorBias(datasets=["mini"], limit=20)
    runs = [benchmark(lambda prompt, label_space, n=n: len(prompt) % n) for n in (2, 3)]
    for metric in ("DL div.", "empirical_bias"):
        assert compare(*runs, metric).overall.values == pytest.approx([own.averaged[metric] for own in runs])
    assert runs[0].averaged["DL div."] != runs[1].averaged["DL div."]


# -- results that do not fit


def test_the_order_of_the_records_does_not_matter(pair: dict[str, Result]) -> None:
    def shuffle(plain: dict[str, Any]) -> None:
        for details in plain["details"].values():
            (record,) = details["conditions"]
            order = sorted(range(len(record["rows"])), key=lambda place: (place * 37 % 41, place))
            scores = unpack_scores(record["scores"], len(details["labels"]))
            record["scores"] = pack_scores([scores[place] for place in order])
            for key in ("truth", "predictions", "rows"):
                record[key] = [record[key][place] for place in order]

    for metric in pair["a"].averaged:
        plain = compare(pair["a"], pair["b"], metric)
        mixed = compare(edited(pair["a"], shuffle), pair["b"], metric)
        for one, two in zip(plain.datasets, mixed.datasets, strict=True):
            assert two.values == pytest.approx(one.values, abs=1e-12)
            assert two.p_value == (None if one.p_value is None else pytest.approx(one.p_value, rel=1e-6))


def test_other_limits_are_compared_on_the_shared_rows(pair: dict[str, Result]) -> None:
    small = run(scored("a", 2.0), limit=12)
    found = compare(pair["b"], small)
    assert [one.rows for one in found.datasets] == [12, 12]
    assert found.datasets[1].values[1] == small.divided["own"]["accuracy"]
    assert "each of mini, own: 36 of 60 queries of first are not compared" in found.left_out
    assert compare(run(scored("b"), limit=12), small).datasets == found.datasets


def test_failed_queries_are_compared_at_their_worst_and_values_are_those_of_the_tables() -> None:
    def failing(prompt: str, label_space: list[str]) -> Any:
        row = scored("a", 2.0)(prompt, label_space)
        return None if row[0] > 3.0 else row

    partial, whole = run(failing, own_data(), on_error="collect"), run(scored("b"), own_data())
    failed = partial.details["own"].failed
    assert 0 < failed < 60
    found = compare(partial, whole)
    (line,) = found.datasets
    assert (line.queries, line.missing) == ((60, 60), (failed, 0))
    assert f"own: {failed} of 60 queries of first have no score: {MEANING}" in found.left_out
    assert line.values == (partial.divided["own"]["accuracy"], whole.divided["own"]["accuracy"])
    correct = partial.divided["own"]["accuracy"] * (60 - failed)
    ends = [(correct + right) / 60 - line.values[1] for right in (0, failed)]
    assert line.interval.low < ends[0] <= line.difference <= ends[1] < line.interval.high
    assert "failed" in {one.field for one in found.differences}
    for metric, value in partial.divided["own"].items():
        assert compare(partial, whole, metric).datasets[0].values[0] == pytest.approx(value)
    templates = StaICC.TemplateSensitivity(datasets=["mini"], limit=20)
    incomplete, complete = (templates(model, on_error="collect") for model in (failing, scored("b")))
    of_all = compare(incomplete, complete, "consistency")  # queries that have a prediction with every template
    assert of_all.overall.values[0] == pytest.approx(incomplete.averaged["consistency"])


def test_a_reply_without_a_label_counts_as_wrong_in_its_own_condition_only() -> None:
    """Of a query that is right with one template, and has no label with another, one prediction of two is wrong."""
    benchmark = StaICC.Generalisation(datasets=["mini"], limit=20, draws=2, templates=2, unparsed="wrong")
    first_condition, *others = benchmark[0].conditions()
    truth_of_prompt = {
        str(query.prompt): query.label for condition in (first_condition, *others) for query in condition.queries
    }
    silent = {str(query.prompt) for query in first_condition.queries if query.row % 2 == 0}

    def right_or_silent(prompt: str, label_space: list[str]) -> str:
        return "I cannot tell." if prompt in silent else label_space[truth_of_prompt[prompt]]

    def right(prompt: str, label_space: list[str]) -> str:
        return label_space[truth_of_prompt[prompt]]

    first, second = benchmark(right_or_silent), benchmark(right)
    expected = 1 - len(silent) / len(truth_of_prompt)
    assert 0.8 < expected < 0.9
    (line,) = compare(first, second).datasets
    assert line.values == pytest.approx((expected, 1.0))
    assert line.values[0] == pytest.approx(first.averaged["accuracy"])
    assert line.missing == (0, 0)


@pytest.mark.parametrize("benchmark", [StaICC.Normal, StaICC.PosteriorBias])
@pytest.mark.parametrize("order", [("green", "blue", "red"), ("blue", "red", "green")])
def test_labels_in_another_order_are_found_by_name(benchmark: Any, order: tuple[str, ...]) -> None:
    """A cycle of three is not its own inverse, as an exchange of two labels is."""

    def coloured(labels: tuple[str, ...]) -> Dataset:
        rows = [(text, labels.index(COLOURS[row * 7919 % 101 % 3])) for row, text in enumerate(TEXTS)]
        return Dataset.from_rows(rows, name="own", label_space=list(labels))

    def by_name(salt: str) -> Callable[..., list[float]]:
        def function(prompt: str, label_space: list[str]) -> list[float]:
            text = prompt.rpartition("text ")[2]
            weights = [random.Random(f"{salt} {text} {label}").random() ** 3 for label in label_space]  # no ties
            return [weight / sum(weights) for weight in weights]

        return function

    first, second, same = (
        benchmark(datasets=[coloured(labels)], limit=60)(by_name(salt))
        for labels, salt in ((COLOURS, "a"), (order, "b"), (order, "a"))
    )
    metrics = first.averaged.keys() - {"distribution", "uniform", "majority"}
    assert len(metrics) >= 2
    for metric in metrics:
        for left, right in ((first, second), (second, first)):
            expected = pytest.approx((left.averaged[metric], right.averaged[metric]))
            assert compare(left, right, metric).datasets[0].values == expected
        assert compare(first, same, metric).datasets[0].difference == pytest.approx(0.0, abs=1e-12)
        assert first.averaged[metric] != pytest.approx(second.averaged[metric])


@pytest.mark.parametrize("more", [[], ["mini"]])
@pytest.mark.parametrize("labels", [("no", "yes"), ("bad", "good")])
@pytest.mark.parametrize("k", [4, 2])
def test_other_data_under_one_name_are_never_paired(more: list[str], labels: tuple[str, str], k: int) -> None:
    first = given([own_data()], "a", 0.9)
    for other, message in (
        (own_data(labels, before="other "), "other data under this name"),
        (own_data(labels, shift=1), r"other true labels \(test row \d+: label [01] and [01]\)"),
    ):
        with pytest.raises(ArgumentError, match=message):
            compare(first, given([other, *more], "b", 0.6, k=k))
    unknown = edited(first, lambda plain: plain["details"]["own"].update(data=None))
    with pytest.raises(ArgumentError, match="other data under this name"):
        compare(unknown, unknown)


def test_what_is_not_compared_is_named(pair: dict[str, Result]) -> None:
    def change(plain: dict[str, Any]) -> None:
        plain["Divided results"]["own"]["accuracy"] = 0.123

    def remove(plain: dict[str, Any]) -> None:
        plain["details"]["own"]["conditions"] = []

    lines = str(compare(pair["a"], run(StaICC.load_kernel("ppm")))).splitlines()
    assert "only the second has model: ppm; algorithm: ppm/1" in lines
    assert lines[-2:] == ["The signature of first:", str(pair["a"].signature)]
    compared = compare(pair["a"], edited(pair["b"], change))
    assert compared.left_out == ()  # what differs from its table is compared all the same
    notes = compared.notes
    assert any(note.startswith("own: the table of second has 0.1230 (metrics standard)") for note in notes), (
        f"got {notes}"
    )
    found = compare(pair["a"], edited(pair["b"], remove))
    assert ([one.dataset for one in found.datasets], found.mean) == (["mini"], None)
    assert "own (second: the file has no records of its queries)" in found.left_out
    alone = run(scored("c"), "mini")
    assert "own (second: not in this run)" in compare(pair["a"], alone).left_out
    assert "own (first: not in this run)" in compare(alone, pair["a"]).left_out
    with pytest.raises(ArgumentError, match=r"with first by accuracy: second \(its data sets are own, not mini\)$"):
        compare(alone, run(scored("c"), own_data()))
    bare = run(lambda prompt, label_space: 1)
    with pytest.raises(ArgumentError, match="have no probabilities"):
        compare(pair["a"], bare, "averaged_truelabel_likelihood")
    three = compare_runs({**pair, "bare": bare}, "averaged_truelabel_likelihood")
    assert [(one.first, one.second) for one in three.comparisons] == [("a", "b")]
    assert three.left_out[0].startswith("bare (mini, own: bare: ")
    custom = StaICC.Normal(datasets=["mini"], limit=6, metrics={"mine": lambda truth, rows: 0.5})
    with pytest.raises(ArgumentError, match="mine cannot be recomputed from a file"):
        compare(custom(scored("a")), custom(scored("b")))
    with pytest.raises(ArgumentError, match="other benchmarks: Normal, Mine"):
        compare(pair["a"], edited(pair["b"], lambda plain: plain.update(benchmark="Mine")))


# -- several runs


@pytest.mark.parametrize("count", [3, 6])
def test_ranking_and_corrections_of_several_runs(count: int) -> None:
    skills = (4.0, 4.0, 2.0, 2.0, 0.0, 0.0)[-count:]
    runs = {f"run {n}": run(scored(str(n), skill), limit=40) for n, skill in enumerate(skills)}
    found = compare_runs(runs, margin=0.05)
    assert [(one.first, one.second) for one in found.comparisons] == list(combinations(runs, 2))
    not_worse = [own for one in found.comparisons for own in one.non_inferiority]
    assert [own.shown for own in not_worse] == [own.p_value <= 0.025 for own in not_worse]
    assert count == 3 or any(0.025 < own.p_value < 0.05 for own in not_worse)
    same = compare_runs({"a": runs["run 0"], "b": runs["run 0"]}, margin=0.5).comparisons[0]
    assert [own.shown for own in same.non_inferiority] == [True, True]
    of_means = [one.overall.p_value for one in found.comparisons]
    assert [one.overall.holm for one in found.comparisons] == directional_holm(of_means)
    of_datasets = [each.p_value for one in found.comparisons for each in one.datasets]
    assert [each.holm for one in found.comparisons for each in one.datasets] == holm(of_datasets)
    values = {rank.run: known_value(rank) for rank in found.ranking}
    assert values == pytest.approx({name: own.averaged["accuracy"] for name, own in runs.items()})
    groups = {rank.run: set(rank.groups) for rank in found.ranking}
    outcomes = {frozenset((one.first, one.second)): one.overall.outcome for one in found.comparisons}
    for pair, outcome in outcomes.items():
        significant = isinstance(outcome, WasTested) and outcome.significant
        assert bool(set.intersection(*(groups[name] for name in pair))) is not significant
    best = found.ranking[0].run
    assert "a" in groups[best]
    for place in found.ranking:
        expected = Best() if place.value == values[best] else verdict_of(outcomes[frozenset((best, place.run))])
        assert place.verdict == expected
    assert [verdict_of(WasTested(0.01, p)) for p in (0.05, 0.051)] == [Worse(0.05), Tied(0.051)]


def test_of_many_runs_each_is_compared_with_the_best_which_is_corrected_for_its_choice() -> None:
    """The best run is known from the same rows: a correction for the runs next to it alone rejects too often."""
    count = MOST_RUNS + 5
    runs = {f"run {n}": given(["mini"], str(n), 0.95 - 0.025 * n) for n in range(count)}
    found = compare_runs(runs)
    best = {rank.run for rank in found.ranking if rank.value == found.ranking[0].value}
    # Both are compared with all others, so that the order of the runs decides nothing.
    assert ({one.first for one in found.comparisons}, len(best)) == (best, 2)
    values = [known_value(rank) for rank in found.ranking]
    assert values == sorted(values, reverse=True)
    assert {(rank.groups, rank.ranks) for rank in found.ranking} == {("", None)}
    assert isinstance(found.ranking[-1].verdict, Worse)
    assert "Bonferroni for all pairs, so it can be tied where rank" in " ".join(str(found).split())
    assert {rank.run: rank for rank in found.ranking} == standings(runs, "accuracy", True)
    assert len(found.comparisons) == count - 1 + count - 2
    tested = [outcome for one in found.comparisons if isinstance(outcome := one.overall.outcome, WasTested)]
    assert len(tested) > 15
    for outcome in tested:
        assert outcome.corrected_p_value == pytest.approx(min(1.0, outcome.p_value * count * (count - 1) / 2))
    for run in runs.values():  # of each of two data sets
        run.details, run.divided = dict.fromkeys("ab", run.details["mini"]), dict.fromkeys("ab", run.divided["mini"])
    of_sets = [own for one in compare_runs(runs).comparisons for own in one.datasets if own.p_value]
    expected = [min(1.0, (own.p_value or 0.0) * count * (count - 1)) for own in of_sets]
    assert [own.holm for own in of_sets] == pytest.approx(expected)


def test_a_run_that_leaves_replies_out_is_no_winner_and_changes_no_other_run() -> None:
    """Wrong answers that are not parsed would make a run the best one."""

    def model(unclear: float) -> Callable[..., str]:
        def answer(prompt: str, label_space: list[str]) -> str:
            draw = random.Random(prompt)
            return draw.choice(label_space) if draw.random() >= unclear else "I cannot tell."

        return answer

    benchmark = StaICC.Normal(datasets=["mini"], limit=30, unparsed="excluded")
    made = {name: benchmark(model(unclear)) for name, unclear in (("all", 0.0), ("some", 0.7), ("more", 0.0001))}
    assert made["some"].left_out_of("accuracy") > 0
    whole = compare_runs({name: made[name] for name in ("all", "more")})
    for partial in (made["some"], run(model(0.7), "mini", on_error="collect")):
        runs = {**made, "some": partial}
        for ranks in (standings(runs, "accuracy", True).values(), rank(runs).runs, compare_runs(runs).ranking):
            by_run = {place.run: place for place in ranks}
            assert isinstance(by_run["some"].verdict, Tied | Untested | Worse)
            assert by_run["some"].value == pytest.approx(partial.averaged["accuracy"])
            assert by_run["some"].missing == partial.left_out_of("accuracy")
            assert by_run["some"].at_worst < min(known_value(by_run[name]) for name in ("all", "more"))
        (pair,) = (pair for pair in compare_runs(runs).comparisons if "some" not in (pair.first, pair.second))
        assert pair.datasets[0].values == whole.comparisons[0].datasets[0].values
        assert pair.datasets[0].p_value == whole.comparisons[0].datasets[0].p_value
        found = compare_runs(runs, "macro_F1")  # no mean over queries
        assert any(reason.startswith("some (") for reason in found.left_out), f"got {found.left_out}"
        assert {place.run for place in found.ranking} == {"all", "more"}
        assert isinstance(standings(runs, "macro_F1", True)["some"].verdict, Untested)
        alone = compare_runs({"all": made["all"], "some": partial}, "macro_F1")
        assert {type(place.verdict) for place in alone.ranking} == {Untested}
        assert alone.comparisons[0].left_out


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


def test_json_has_the_figures_of_each_comparison_and_the_verdict_of_each_run(runs: dict[str, Result]) -> None:
    compared, _ = compare_all(runs)
    (document,) = json.loads(format_comparisons(compared, "json"))
    pairs = [(comparison["first"], comparison["second"]) for comparison in document["comparisons"]]
    assert pairs == [("hash", "first"), ("hash", "last"), ("first", "last")]

    for pair, comparison in zip(document["comparisons"], compared[0].comparisons, strict=True):
        line = comparison.datasets[0]
        expected = {
            "difference": line.difference,
            "outcome": "tested",
            "reason": None,
            "p_value": line.p_value,
            "holm": line.holm,
        }
        figures = {key: pair["datasets"][0][key] for key in expected}
        assert figures == expected, f"{pair['first']} and {pair['second']} on {line.dataset}"

    best, *others = document["ranking"]
    assert best["verdict"] == {"case": "best"}
    for run in others:
        assert run["verdict"]["case"] in {"tied", "worse", "untested"}, run["run"]


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
