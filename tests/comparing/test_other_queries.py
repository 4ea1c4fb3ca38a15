"""Runs with other queries of the same test rows: a pair depends on its two runs, and on no other run."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import StaICC
from StaICC.comparing import alignment, ranking
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.comparing.ranking import rank, standings
from StaICC.comparing.verdicts import Tested, Untested
from StaICC.datasets.dataset import Dataset
from StaICC.methods.run import run_all
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.results.result import Result

ROWS = [(f"text {row}", row * 7 % 11 % 2) for row in range(600)]
METRICS = ("accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1")


def dataset_of(name: str) -> Dataset:
    """Return a data set with two labels, whose texts begin with its name."""
    rows = [(f"{name} {text}", label) for text, label in ROWS]
    return Dataset.from_rows(rows, name=name, label_space=["no", "yes"])


def probabilities_for(label: int, confidence: float) -> list[float]:
    """Return the probabilities of both labels, of which one has the confidence."""
    return [confidence, 1 - confidence] if label == 0 else [1 - confidence, confidence]


def run_with_skill(
    name: str, skill: float, *, repeats: int = 2, limit: int = 40, sets: tuple[str, ...] = ("one", "two")
) -> Result:
    """Return a run that is right at the rate ``skill``, with ``repeats`` queries for each test row of its data sets."""
    benchmark = StaICC.Normal(datasets=[dataset_of(dataset) for dataset in sets], limit=limit, k=1)
    predictions = []
    for experimentor in benchmark.experimentor:
        experimentor._repeat_times = repeats
        probabilities = []
        for query in experimentor.all_queries():
            draw = random.Random(f"{name} {experimentor.name} {query.row} {query.repeat}")
            is_right = draw.random() < skill
            label = query.label if is_right else 1 - query.label
            probabilities.append(probabilities_for(label, confidence=0.5 + draw.random() / 2))
        predictions.append(probabilities)
    result = benchmark(preentered_prediction=predictions)
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    """Return runs of which some have one query for each test row, fewer rows, or one of two data sets."""
    return {
        "a": run_with_skill("a", 0.9),
        "b": run_with_skill("b", 0.7),
        "single": run_with_skill("single", 0.8, repeats=1),
        "other single": run_with_skill("other single", 0.55, repeats=1),
        "fewer rows": run_with_skill("fewer rows", 0.8, limit=25),
        "one data set": run_with_skill("one data set", 0.95, sets=("one",)),
    }


class LineFacts(NamedTuple):
    """What is said of two runs on a data set or in the mean, before the correction for several tests."""

    dataset: str
    rows: Any
    queries: Any
    values: Any
    interval: Any
    p_value: Any


class PairFacts(NamedTuple):
    lines: list[LineFacts]
    notes: Any


def facts_by_pair(compared: Any) -> dict[frozenset[str], PairFacts]:
    """Return what a comparison says of each pair, by the names of its runs."""
    facts = {}
    for pair in compared.comparisons:
        lines = []
        for line in pair.lines:
            lines.append(LineFacts(line.dataset, line.rows, line.queries, line.values, line.interval, line.p_value))
        facts[frozenset((pair.first, pair.second))] = PairFacts(lines, pair.notes)
    return facts


@pytest.fixture(scope="module")
def facts_alone(runs: dict[str, Result]) -> Callable[[frozenset[str], str], Any]:
    """A function of (two names, metric) with what a comparison of these two runs alone says; computed once for each."""

    @functools.cache
    def compared(names: frozenset[str], metric: str) -> Any:
        alone = compare_runs({name: runs[name] for name in runs if name in names}, metric)
        return facts_by_pair(alone)[names]

    return compared


NAMES = ("a", "b", "single", "other single", "fewer rows", "one data set")


@given(names=st.sets(st.sampled_from(NAMES), min_size=2), metric=st.sampled_from(METRICS))
@settings(max_examples=25, deadline=None)
def test_other_runs_change_nothing_of_a_pair(
    runs: dict[str, Result], facts_alone: Callable[[frozenset[str], str], Any], names: set[str], metric: str
) -> None:
    """What a comparison of several runs says of each pair is what a comparison of this pair alone says."""
    some_runs = {name: runs[name] for name in runs if name in names}  # in one order, so that differences have one sign

    facts_among_others = facts_by_pair(compare_runs(some_runs, metric))

    for names_of_pair, facts in facts_among_others.items():
        assert facts == facts_alone(names_of_pair, metric)


@given(names=st.sets(st.sampled_from(NAMES), min_size=2), metric=st.sampled_from(METRICS))
@settings(max_examples=25, deadline=None)
def test_a_ranking_of_some_runs_has_the_order_and_the_values_of_that_of_all(
    runs: dict[str, Result], names: set[str], metric: str
) -> None:
    some_runs = {name: runs[name] for name in runs if name in names}

    ranking_of_all = [(place.run, place.value) for place in rank(runs, metric).runs]
    ranking_of_some = [(place.run, place.value) for place in rank(some_runs, metric).runs]

    assert ranking_of_some == [(name, value) for name, value in ranking_of_all if name in names]


@given(names=st.sets(st.sampled_from(NAMES), min_size=2), metric=st.sampled_from(METRICS))
@settings(max_examples=25, deadline=None)
def test_the_standings_of_some_runs_have_the_values_of_their_ranking(
    runs: dict[str, Result], names: set[str], metric: str
) -> None:
    some_runs = {name: runs[name] for name in runs if name in names}

    places = standings(some_runs, metric, higher_is_better=metric != "expected_calibration_error_1")

    for place in rank(some_runs, metric).runs:
        assert places[place.run].value == pytest.approx(place.value)


@pytest.mark.parametrize("metric", METRICS)
def test_a_ranking_has_the_values_of_the_runs(runs: dict[str, Result], metric: str) -> None:
    for place in rank(runs, metric).runs:
        value_of_table = runs[place.run].averaged[metric]
        assert place.value == pytest.approx(value_of_table, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_standings_have_the_values_of_the_runs(runs: dict[str, Result], metric: str) -> None:
    places = standings(runs, metric, higher_is_better=metric != "expected_calibration_error_1")

    for name, place in places.items():
        assert place.value == pytest.approx(runs[name].averaged[metric])


def right_predictions_by_row(result: Result, dataset: str) -> dict[int, list[bool]]:
    """Return for each test row of a data set which of its queries have the right prediction."""
    (condition,) = result.details[dataset].conditions
    right: dict[int, list[bool]] = {}
    for row, truth, prediction in zip(condition.rows, condition.truth, condition.predictions, strict=True):
        right.setdefault(row, []).append(truth == prediction)
    return right


def test_means_of_rows_are_compared(runs: dict[str, Result]) -> None:
    """Of a run with two queries for each row, a row has the mean of two scores; of the other run, the single one."""
    right_of_two_queries = right_predictions_by_row(runs["a"], "one")
    right_of_one_query = right_predictions_by_row(runs["single"], "one")
    differences_of_rows = []
    for row in right_of_two_queries:
        first_query, second_query = right_of_two_queries[row]
        (only_query,) = right_of_one_query[row]
        differences_of_rows.append((first_query + second_query) / 2 - only_query)

    on_one, _ = compare(runs["a"], runs["single"], "accuracy").datasets

    assert on_one.difference == pytest.approx(sum(differences_of_rows) / 40)
    assert on_one.rows == 40
    assert on_one.queries == (80, 40)


def test_a_note_says_that_means_of_rows_are_compared(runs: dict[str, Result]) -> None:
    notes = compare(runs["a"], runs["single"]).notes

    assert any("paired by the mean of each test row" in note for note in notes), f"got {notes}"


def test_runs_with_as_many_queries_for_each_row_are_compared_without_a_note(runs: dict[str, Result]) -> None:
    assert not compare(runs["a"], runs["b"]).notes


def model_of_rows(name: str, skill: float) -> Any:
    """Return a model whose prediction depends on the test row alone, whatever its demonstrations are."""

    def predict(prompt: str, label_space: list[str]) -> list[float]:
        row_text = prompt.rpartition("text ")[2]
        draw = random.Random(f"{name} {row_text}")
        true_label = int(row_text.split()[0]) * 7 % 11 % 2  # as in ROWS
        label = true_label if draw.random() < skill else 1 - true_label
        confidence = 0.5 + draw.random() / 2
        return [confidence if index == label else 1 - confidence for index in (0, 1)]

    return predict


def result_with_repeats(model: Any, repeats: int) -> Result:
    """Run a model with so many queries for each of 60 test rows."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = StaICC.Normal(datasets=[data], limit=60, k=1)
    benchmark[0]._repeat_times = repeats
    result = benchmark(model)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("first_repeats", "second_repeats"), [(1, 2), (2, 1), (2, 2)])
def test_a_second_query_with_the_same_prediction_changes_no_test(
    metric: str, first_repeats: int, second_repeats: int
) -> None:
    """It adds nothing to the mean of a row."""
    strong, weak = model_of_rows("strong", 0.9), model_of_rows("weak", 0.7)

    with_one_query = compare(result_with_repeats(strong, 1), result_with_repeats(weak, 1), metric).overall
    with_second_query = compare(
        result_with_repeats(strong, first_repeats), result_with_repeats(weak, second_repeats), metric
    ).overall

    assert with_second_query.values == pytest.approx(with_one_query.values)
    if with_one_query.p_value is None:
        assert with_second_query.p_value is None
    else:
        assert with_second_query.p_value == pytest.approx(with_one_query.p_value, rel=0.02)


@pytest.mark.parametrize("metric", METRICS)
def test_a_difference_is_significant_where_its_interval_excludes_zero(metric: str) -> None:
    """A run with two queries for each of 60 rows, which is right at the rate 0.85, next to 12 runs with one query.

    These are right at the rates 0.5 and 0.75. Both outcomes are among the 12, but for the calibration error.
    """
    outcomes = set()
    for number in range(12):
        skill = 0.75 if number % 2 else 0.5
        two_queries = run_with_skill(f"{number} a", 0.85, limit=60, sets=("one",))
        one_query = run_with_skill(f"{number} b", skill, repeats=1, limit=60, sets=("one",))

        line = compare(two_queries, one_query, metric).overall

        if isinstance(line.outcome, Untested):
            continue
        assert line.interval is not None
        is_significant = line.outcome.p_value <= SIGNIFICANCE_LEVEL
        excludes_zero = line.interval.low > 0.0 or line.interval.high < 0.0
        assert is_significant is excludes_zero, f"pair {number}"
        outcomes.add(is_significant)
    if metric != "expected_calibration_error_1":
        assert outcomes == {True, False}


def test_macro_f1_counts_all_queries_of_both_runs(runs: dict[str, Result]) -> None:
    two_queries_of_a_row, one_query_of_a_row = runs["b"], runs["other single"]

    comparison = compare(two_queries_of_a_row, one_query_of_a_row, "macro_F1")

    for line in comparison.datasets:
        values_of_tables = [run.divided[line.dataset]["macro_F1"] for run in (two_queries_of_a_row, one_query_of_a_row)]
        assert line.values == pytest.approx(values_of_tables)
    assert isinstance(comparison.overall.outcome, Tested)


def without_last_query(result: Result) -> Result:
    """Return a run without the last query of each data set."""
    saved = copy.deepcopy(result.to_dict())
    for details in saved["details"].values():
        (condition,) = details["conditions"]
        for key in ("truth", "predictions", "rows"):
            condition[key] = condition[key][:-1]
        condition["scores"] = None
    return Result.from_dict(saved)


def test_rows_with_other_numbers_of_queries_are_compared_on_the_shared_queries(runs: dict[str, Result]) -> None:
    """If a run lacks a query of one row only, the mean of each row is not the score of its table."""
    lacks_a_query = without_last_query(runs["a"])

    comparison = compare(lacks_a_query, runs["b"], "accuracy")

    assert comparison.datasets[0].queries == (79, 79)
    assert "each of one, two: 1 of 80 queries of second are not compared" in comparison.left_out


def test_runs_over_other_data_sets_than_the_best_one_are_untested_in_a_ranking(runs: dict[str, Result]) -> None:
    """The best run has one of the two data sets of the others."""
    best, *others = rank({name: runs[name] for name in ("one data set", "a", "b")}).runs

    assert best.run == "one data set"
    for place in others:
        assert isinstance(place.verdict, Untested), place.run
        assert "over other data sets" in place.verdict.reason, place.run


def test_runs_over_other_data_sets_keep_their_values_in_a_ranking(runs: dict[str, Result]) -> None:
    for place in rank({name: runs[name] for name in ("one data set", "a", "b")}).runs:
        assert place.value == runs[place.run].averaged["accuracy"], place.run


def test_a_pair_with_other_data_sets_is_compared_on_the_shared_one(runs: dict[str, Result]) -> None:
    (pair,) = compare_runs({"a": runs["a"], "one data set": runs["one data set"]}).comparisons

    assert [line.dataset for line in pair.lines] == ["one"]
    assert "two (one data set: not in this run)" in pair.left_out


def run_with_easy_rows(name: str, limit: int, *, skill_of_easy: float, skill_of_hard: float) -> Result:
    """Return a run over so many rows, of which the first 30 are easy."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    benchmark = StaICC.Normal(datasets=[data], limit=limit, k=1)
    queries = benchmark[0].all_queries()
    easy_rows = list(dict.fromkeys(query.row for query in queries))[:30]
    labels = []
    for query in queries:
        skill = skill_of_easy if query.row in easy_rows else skill_of_hard
        right = random.Random(f"{name} {query.row} {query.repeat}").random() < skill
        labels.append(query.label if right else 1 - query.label)
    result = benchmark(preentered_prediction=[labels])
    assert isinstance(result, Result)
    return result


def better_run_has_more_hard_rows() -> dict[str, Result]:
    """Return two runs with the same 30 easy rows, on which "all rows" is better; it alone has 90 hard rows, too."""
    return {
        "all rows": run_with_easy_rows("all rows", 120, skill_of_easy=1.0, skill_of_hard=0.2),
        "easy rows": run_with_easy_rows("easy rows", 30, skill_of_easy=0.6, skill_of_hard=0.6),
    }


def test_the_better_run_on_the_shared_rows_is_called_better() -> None:
    runs = better_run_has_more_hard_rows()
    assert runs["all rows"].averaged["accuracy"] < runs["easy rows"].averaged["accuracy"]

    (pair,) = compare_runs(runs).comparisons

    assert pair.conclusion()[0].startswith("all rows is better")


def test_the_better_run_on_the_shared_rows_is_untested_in_a_ranking_by_all_rows() -> None:
    verdicts = {place.run: place.verdict for place in rank(better_run_has_more_hard_rows()).runs}

    verdict_on_better_run = verdicts["all rows"]
    assert isinstance(verdict_on_better_run, Untested)
    assert "the one with the worse value is better" in verdict_on_better_run.reason


@pytest.fixture(scope="module")
def runs_of_methods(pack: None) -> dict[str, Result]:
    """Return runs of three methods; ``ensemble`` has one query for each test row, the others have two."""
    kernel = StaICC.load_kernel("ppm")
    benchmark = StaICC.Normal(datasets=["TREC"], k=4, limit=64)
    methods = ["contextual_calibration", "ensemble"]
    return {"vanilla": benchmark(kernel), **run_all(kernel, benchmark, calibration_number=32, methods=methods)}


def test_a_method_that_sets_demonstrations_changes_no_other_method(runs_of_methods: dict[str, Result]) -> None:
    """The ensemble has one query for each test row. The other methods, with two, are compared with and without it."""
    two_methods = {name: runs_of_methods[name] for name in ("vanilla", "contextual_calibration")}
    (alone,) = compare_runs(two_methods).comparisons

    facts = facts_by_pair(compare_runs(runs_of_methods))[frozenset(two_methods)]

    *_, of_mean = facts.lines
    assert of_mean.values == alone.overall.values
    assert of_mean.p_value == alone.overall.p_value


def test_methods_with_other_numbers_of_queries_are_ranked_by_their_values(runs_of_methods: dict[str, Result]) -> None:
    """The ensemble has one query for each row, the other methods have two."""
    compared = compare_runs(runs_of_methods)

    numbers_of_queries = {number for pair in compared.comparisons for number in pair.overall.queries}
    assert len(numbers_of_queries) == 2
    values = {place.run: place.value for place in compared.ranking}
    assert values == pytest.approx({name: result.averaged["accuracy"] for name, result in runs_of_methods.items()})


def test_ranks_over_draws_are_among_the_runs_that_have_both_draws(runs: dict[str, Result]) -> None:
    two_draws = {"a": runs["a"], "b": runs["b"]}
    one_draw = {"single": runs["single"]}

    ranks_without_single = {place.run: place.condition_ranks for place in rank(two_draws).runs}
    ranks_with_single = {place.run: place.condition_ranks for place in rank({**two_draws, **one_draw}).runs}

    assert None not in ranks_without_single.values()
    assert ranks_with_single == {**ranks_without_single, "single": None}


def test_bounds_of_p_values_decide_as_the_tests_if_runs_have_other_numbers_of_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten runs, the odd ones with two queries for each test row, the even ones with one."""

    def ranks_and_verdicts(ranking: Any) -> dict[str, Any]:
        return {place.run: (place.ranks, place.verdict.case) for place in ranking.runs}

    runs = {}
    for number in range(10):
        name = f"run {number}"
        runs[name] = run_with_skill(name, skill=0.45 + 0.05 * number, repeats=1 + number % 2, limit=100, sets=("one",))

    by_tests = rank(runs)  # few enough runs: all pairs are tested
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)  # more runs than these are many
    by_bounds = rank(runs)

    assert [place.run for place in by_bounds.runs] == [place.run for place in by_tests.runs]
    assert ranks_and_verdicts(by_bounds) == ranks_and_verdicts(by_tests)
    different_intervals = {place.ranks for place in by_tests.runs}
    assert len(different_intervals) > 3, "the ranks of these runs are too similar to test anything"
