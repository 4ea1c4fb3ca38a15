"""Runs with other queries of the same test rows: a pair depends on its two runs, and on no other run."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any

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


def predicted(
    name: str, skill: float, *, repeats: int = 2, limit: int = 40, sets: tuple[str, ...] = ("one", "two")
) -> Result:
    """A run whose queries are right at a rate, with one or two queries for each test row."""
    datasets = [
        Dataset.from_rows([(f"{own} {text}", label) for text, label in ROWS], name=own, label_space=["no", "yes"])
        for own in sets
    ]
    benchmark = StaICC.Normal(datasets=datasets, limit=limit, k=1)
    predictions = []
    for experimentor in benchmark.experimentor:
        experimentor._repeat_times = repeats
        rows = []
        for query in experimentor.all_queries():
            draw = random.Random(f"{name} {experimentor.name} {query.row} {query.repeat}")
            label = query.label if draw.random() < skill else 1 - query.label
            confidence = 0.5 + draw.random() / 2
            rows.append([confidence if index == label else 1 - confidence for index in (0, 1)])
        predictions.append(rows)
    result = benchmark(preentered_prediction=predictions)
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {
        "a": predicted("a", 0.9),
        "b": predicted("b", 0.7),
        "single": predicted("single", 0.8, repeats=1),
        "other single": predicted("other single", 0.55, repeats=1),
        "fewer rows": predicted("fewer rows", 0.8, limit=25),
        "one data set": predicted("one data set", 0.95, sets=("one",)),
    }


def pair_facts(found: Any) -> dict[frozenset[str], Any]:
    """What is said of each pair before the correction for several tests, by the names of its runs."""
    facts = {}
    for pair in found.comparisons:
        lines = []
        for line in pair.lines:
            lines.append((line.dataset, line.rows, line.queries, line.values, line.interval, line.p_value))
        facts[frozenset((pair.first, pair.second))] = (lines, pair.notes)
    return facts


@pytest.fixture(scope="module")
def facts_alone(runs: dict[str, Result]) -> Callable[[frozenset[str], str], Any]:
    """A function of (two names, metric) with what a comparison of these two runs alone says; computed once for each."""

    @functools.cache
    def compared(names: frozenset[str], metric: str) -> Any:
        alone = compare_runs({name: runs[name] for name in runs if name in names}, metric)
        return pair_facts(alone)[names]

    return compared


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_other_runs_change_nothing_of_a_pair(
    runs: dict[str, Result], facts_alone: Callable[[frozenset[str], str], Any], data: Any
) -> None:
    names = data.draw(st.lists(st.sampled_from(list(runs)), min_size=2, unique=True))
    metric = data.draw(st.sampled_from(METRICS))
    chosen = {name: runs[name] for name in runs if name in names}  # in one order, so that differences have one sign
    found = compare_runs(chosen, metric)
    for names_of_pair, facts in pair_facts(found).items():
        assert facts_alone(names_of_pair, metric) == facts
    everything = rank(runs, metric)
    ranking = rank(chosen, metric)
    assert [(place.run, place.value) for place in ranking.runs] == [
        (place.run, place.value) for place in everything.runs if place.run in names
    ]
    for place in ranking.runs:
        assert place.value == pytest.approx(runs[place.run].averaged[metric], abs=1e-12)
        assert standings(chosen, metric, metric != "expected_calibration_error_1")[place.run].value == pytest.approx(
            place.value
        )


def test_means_of_rows_are_compared(runs: dict[str, Result]) -> None:
    """By hand: the step of a row is the mean of two scores minus the other run's single one."""
    found = compare(runs["a"], runs["single"], "accuracy").datasets[0]
    shares: list[dict[int, list[bool]]] = []
    for name in ("a", "single"):
        (record,) = runs[name].details["one"].conditions
        right: dict[int, list[bool]] = {}
        for row, truth, prediction in zip(record.rows, record.truth, record.predictions, strict=True):
            right.setdefault(row, []).append(truth == prediction)
        shares.append(right)
    first, second = shares
    assert {len(right) for right in first.values()} == {2}
    assert {len(right) for right in second.values()} == {1}
    steps = [sum(first[row]) / 2 - sum(second[row]) for row in sorted(first)]
    assert found.difference == pytest.approx(sum(steps) / len(steps))
    assert (found.rows, found.queries) == (40, (80, 40))
    notes = compare(runs["a"], runs["single"]).notes
    assert any("paired by the mean of each test row" in note for note in notes), f"got {notes}"
    assert not compare(runs["a"], runs["b"]).notes


def test_a_run_with_both_queries_equal_is_that_with_one() -> None:
    """A second query with the same prediction adds nothing to the mean of a row, so it changes no test."""

    def model(name: str, skill: float) -> Any:
        def predict(prompt: str, label_space: list[str]) -> list[float]:
            draw = random.Random(f"{name} {prompt.rpartition('text ')[2]}")
            number = int(prompt.rpartition("text ")[2].split()[0])
            label = number * 7 % 11 % 2
            if draw.random() >= skill:
                label = 1 - label
            confidence = 0.5 + draw.random() / 2
            return [confidence if index == label else 1 - confidence for index in (0, 1)]

        return predict

    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])

    def of_model(name: str, skill: float, repeats: int) -> Result:
        benchmark = StaICC.Normal(datasets=[data], limit=60, k=1)
        for experimentor in benchmark.experimentor:
            experimentor._repeat_times = repeats
        result = benchmark(model(name, skill))
        assert isinstance(result, Result)
        return result

    strong = {repeats: of_model("strong", 0.9, repeats) for repeats in (1, 2)}
    weak = {repeats: of_model("weak", 0.7, repeats) for repeats in (1, 2)}
    for metric in METRICS:
        lines = [compare(strong[first], weak[second], metric).overall for first in (1, 2) for second in (1, 2)]
        for line in lines[1:]:
            assert line.values == pytest.approx(lines[0].values)
            assert line.p_value == (None if lines[0].p_value is None else pytest.approx(lines[0].p_value, rel=0.02))


@pytest.mark.parametrize("metric", METRICS)
def test_interval_and_p_agree(metric: str) -> None:
    seen = set()
    for number in range(12):
        first = predicted(f"{number} a", 0.85, limit=60, sets=("one",))
        second = predicted(f"{number} b", 0.75 if number % 2 else 0.5, repeats=1, limit=60, sets=("one",))
        line = compare(first, second, metric).overall
        if isinstance(line.outcome, Untested):
            continue
        assert line.interval is not None
        contains_zero = line.interval.low <= 0.0 <= line.interval.high
        assert contains_zero is (line.outcome.p_value > SIGNIFICANCE_LEVEL)
        seen.add(contains_zero)
    assert len(seen) == 2 or metric == "expected_calibration_error_1"


def test_macro_f1_counts_all_queries_of_both_runs(runs: dict[str, Result]) -> None:
    found = compare(runs["b"], runs["other single"], "macro_F1")
    for line in found.datasets:
        expected = [runs[name].divided[line.dataset]["macro_F1"] for name in ("b", "other single")]
        assert line.values == pytest.approx(expected)
    assert isinstance(found.overall.outcome, Tested)


def test_rows_with_other_numbers_of_queries_are_compared_on_the_shared_queries(runs: dict[str, Result]) -> None:
    """If a run lacks a query of one row only, the mean of each row is not the score of its table."""
    plain = copy.deepcopy(runs["a"].to_dict())
    for details in plain["details"].values():
        (record,) = details["conditions"]
        for key in ("truth", "predictions", "rows"):
            record[key] = record[key][:-1]
        record["scores"] = None
    partial = Result.from_dict(plain)
    line = compare(partial, runs["b"], "accuracy").datasets[0]
    assert line.queries == (79, 79)
    assert (
        "each of one, two: 1 of 80 queries of second are not compared"
        in compare(partial, runs["b"], "accuracy").left_out
    )


def test_a_run_with_other_data_sets_keeps_its_value_and_is_untested_in_a_ranking(runs: dict[str, Result]) -> None:
    chosen = {name: runs[name] for name in ("a", "b", "one data set")}
    places = {place.run: place for place in rank(chosen).runs}
    assert places["one data set"].value == runs["one data set"].averaged["accuracy"]
    assert places["a"].value == runs["a"].averaged["accuracy"]
    verdicts = [place.verdict for name, place in places.items() if name != "one data set"]
    assert [
        verdict
        for verdict in verdicts
        if not (isinstance(verdict, Untested) and "over other data sets" in verdict.reason)
    ] == []
    (pair,) = (pair for pair in compare_runs(chosen).comparisons if {pair.first, pair.second} == {"a", "one data set"})
    assert [line.dataset for line in pair.lines] == ["one"]
    assert "two (one data set: not in this run)" in pair.left_out


def test_the_better_run_on_shared_rows_is_not_called_worse() -> None:
    """All rows are easy in the first 30, and hard in the others, which only the better run has predicted."""

    def of(name: str, limit: int, easy: float, hard: float) -> Result:
        data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
        benchmark = StaICC.Normal(datasets=[data], limit=limit, k=1)
        (experimentor,) = benchmark.experimentor
        position = {row: place for place, row in enumerate(dict.fromkeys(q.row for q in experimentor.all_queries()))}
        labels = []
        for query in experimentor.all_queries():
            chance = easy if position[query.row] < 30 else hard
            right = random.Random(f"{name} {query.row} {query.repeat}").random() < chance
            labels.append(query.label if right else 1 - query.label)
        result = benchmark(preentered_prediction=[labels])
        assert isinstance(result, Result)
        return result

    chosen = {"all rows": of("all rows", 120, 1.0, 0.2), "easy rows": of("easy rows", 30, 0.6, 0.6)}
    assert chosen["all rows"].averaged["accuracy"] < chosen["easy rows"].averaged["accuracy"]
    (pair,) = compare_runs(chosen).comparisons
    assert pair.conclusion()[0].startswith("all rows is better")
    places = {place.run: place.verdict for place in rank(chosen).runs}
    assert isinstance(places["all rows"], Untested)
    assert "the one with the worse value is better" in places["all rows"].reason


def test_methods_that_set_demonstrations_change_no_other_method(pack: None) -> None:
    """``ensemble`` has one query for each test row, the others two."""
    methods = ["contextual_calibration", "ensemble"]
    kernel = StaICC.load_kernel("ppm")
    benchmark = StaICC.Normal(datasets=["TREC"], k=4, limit=64)
    table = dict(run_all(kernel, benchmark, calibration_number=32, methods=methods))
    table["vanilla"] = benchmark(kernel)
    before = {name: table[name] for name in ("vanilla", "contextual_calibration")}
    alone = compare_runs(before)
    together = compare_runs({**before, **table})
    (pair,) = alone.comparisons
    (same,) = (own for own in together.comparisons if {own.first, own.second} == {pair.first, pair.second})
    assert (same.overall.values, same.overall.p_value) == (pair.overall.values, pair.overall.p_value)
    values = {place.run: place.value for place in together.ranking}
    for name, result in table.items():
        assert values[name] == pytest.approx(result.averaged["accuracy"])
    queries = {own.overall.queries for own in together.comparisons}
    assert len({count for counts in queries for count in counts}) == 2


def test_draws_are_ranked_among_the_runs_that_have_them(runs: dict[str, Result]) -> None:
    chosen = {name: runs[name] for name in ("a", "b")}
    before = {place.run: place.condition_ranks for place in rank(chosen).runs}
    after = {place.run: place.condition_ranks for place in rank({**chosen, "single": runs["single"]}).runs}
    assert None not in before.values()
    assert after == {**before, "single": None}


def test_bounds_of_p_values_decide_as_the_tests_if_runs_have_other_numbers_of_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten runs, the odd ones with two queries for each test row, the even ones with one."""
    runs = {}
    for number in range(10):
        name = f"run {number}"
        runs[name] = predicted(name, skill=0.45 + 0.05 * number, repeats=1 + number % 2, limit=100, sets=("one",))
    by_tests = rank(runs)  # few enough runs: all pairs are tested
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)
    by_bounds = rank(runs)

    assert [place.run for place in by_bounds.runs] == [place.run for place in by_tests.runs]
    for bounded, tested in zip(by_bounds.runs, by_tests.runs, strict=True):
        ranks_and_verdict = (bounded.ranks, bounded.verdict.case)
        expected = (tested.ranks, tested.verdict.case)
        assert ranks_and_verdict == expected, (
            f"{tested.run}: bounds of p-values give the ranks and the verdict {ranks_and_verdict}, "
            f"but the tests of all pairs give {expected}"
        )
    different_intervals = {place.ranks for place in by_tests.runs}
    assert len(different_intervals) > 3, "the ranks of these runs are too similar to test anything"
