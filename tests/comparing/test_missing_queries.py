"""Queries without a score: what is said of two runs must hold whatever their scores would have been."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
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


def benchmark(limit: int = 100, names: tuple[str, ...] = ("own",), **settings: Any) -> StaICC.Normal:
    datasets = [
        Dataset.from_rows([(f"{name} {text}", label) for text, label in ROWS], name=name, label_space=["no", "yes"])
        for name in names
    ]
    return StaICC.Normal(datasets=datasets, limit=limit, k=1, **settings)


Labels = dict[str, Any]
"""The prediction of each prompt; ``None`` for one that fails."""


def answers(of: Any, accuracy: float, salt: str) -> Labels:
    """Labels that are right at a rate; the difficulty of a test row is the same for all models."""
    given = {}
    for each in of.experimentor:
        for query in each.all_queries():
            chance = accuracy + 0.4 * random.Random(f"{query.row}").random() - 0.2
            right = random.Random(f"{salt} {query.prompt}").random() < chance
            given[str(query.prompt)] = query.label if right else 1 - query.label
    return given


def without(of: Any, given: Labels, lost: Callable[[Any, bool], bool]) -> Labels:
    """Failures in the place of the predictions that a function of the query, and of whether it is right, chooses."""
    partial = dict(given)
    for each in of.experimentor:
        for query in each.all_queries():
            if lost(query, given[str(query.prompt)] == query.label):
                partial[str(query.prompt)] = None
    return partial


def filled(of: Any, partial: Labels, right: bool) -> Labels:
    """The predictions with each failure replaced by a right, or a wrong one."""
    complete = dict(partial)
    for each in of.experimentor:
        for query in each.all_queries():
            if partial[str(query.prompt)] is None:
                complete[str(query.prompt)] = query.label if right else 1 - query.label
    return complete


def predicted(of: Any, given: Labels) -> Result:
    result = of(lambda prompt, label_space: given[str(prompt)], on_error="collect")
    assert isinstance(result, Result)
    return result


def chance(text: str) -> float:
    return random.Random(text).random()


def test_each_direction_is_that_of_the_worst_predictions() -> None:
    """Against runs whose failures were replaced by hand, in each of which every query has a prediction."""
    own = benchmark(names=("own", "other"))
    given = {"first": answers(own, 0.85, "a"), "second": answers(own, 0.6, "b")}
    partial = {}
    for name, labels in given.items():
        draws = {prompt: chance(f"{name} {prompt}") for prompt in labels}
        partial[name] = without(own, labels, lambda query, _, draws=draws: draws[str(query.prompt)] < 0.1)
    found = compare(*(predicted(own, labels) for labels in partial.values()), margin=0.05)
    low, high = (
        compare(*(predicted(own, filled(own, labels, right[name])) for name, labels in partial.items()), margin=0.05)
        for right in ({"first": False, "second": True}, {"first": True, "second": False})
    )
    for line, lowest, highest in zip(found.lines, low.lines, high.lines, strict=True):
        assert min(line.missing) > 0
        assert line.interval.low == pytest.approx(lowest.interval.low, abs=1e-6)
        assert line.interval.high == pytest.approx(highest.interval.high, abs=1e-6)
        assert lowest.difference < line.difference < highest.difference
        assert line.p_value == pytest.approx(lowest.p_value, rel=1e-6)
        assert line.detectable == pytest.approx(
            max(
                lowest.detectable + line.difference - lowest.difference,
                highest.detectable + highest.difference - line.difference,
            )
        )
    assert found.mean.p_value < 0.05
    for claim, of_low, of_high in zip(found.non_inferiority, low.non_inferiority, high.non_inferiority, strict=True):
        worst = of_low if claim.run == "first" else of_high
        assert claim.p_value == pytest.approx(worst.p_value, rel=1e-6)
    turned = compare(*(predicted(own, labels) for labels in reversed(partial.values())))
    assert turned.mean.p_value == pytest.approx(found.mean.p_value)
    assert turned.mean.detectable == pytest.approx(found.mean.detectable)
    assert (turned.mean.interval.low, turned.mean.interval.high) == pytest.approx(
        (-found.mean.interval.high, -found.mean.interval.low)
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_model_that_fails_on_its_errors_is_not_better_than_an_equal_one(seed: int) -> None:
    """Of accuracy 0.7, one without 60 % of its errors has 0.85 on the queries that it predicted."""
    own = benchmark(limit=200)

    def lost(query: Any, right: bool) -> bool:
        return not right and chance(f"{seed} lost {query.prompt}") < 0.6

    answered = without(own, answers(own, 0.7, f"{seed} a"), lost)
    partial, wrong = predicted(own, answered), filled(own, answered, right=False)
    whole = predicted(own, answers(own, 0.7, f"{seed} b"))
    assert partial.averaged["accuracy"] > whole.averaged["accuracy"] + 0.08
    for runs in ({"partial": partial, "whole": whole}, {"whole": whole, "partial": partial}):
        for reference in (None, *runs):
            (pair,) = compare_runs(runs, margin=0.02, reference=reference).comparisons
            assert pair.overall.p_value > 0.05
            assert [claim for claim in pair.non_inferiority if claim.shown] == []
            assert any("neither run" in text for text in pair.conclusion()), f"got {pair.conclusion()}"
        for ranks in (rank(runs).runs, standings(runs, "accuracy", True).values()):
            by_run = {place.run: place for place in ranks}
            assert [place for place in by_run.values() if isinstance(place.verdict, Worse)] == []
            assert by_run["partial"].at_worst == pytest.approx(compare(whole, predicted(own, wrong)).overall.values[1])
            leads = by_run["partial"].at_worst > whole.averaged["accuracy"]
            assert isinstance(by_run["partial"].verdict, Best) is leads
            assert by_run["partial"].ranks == (1, 2)


def test_bounds_of_p_values_decide_as_the_tests_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many runs most pairs are decided by a bound, which counts missing queries at their worst as well."""
    own = benchmark(limit=200)
    runs = {}
    for number in range(10):
        given = answers(own, 0.45 + 0.05 * number, f"{number}")
        share = (0.0, 0.02, 0.1)[number % 3]
        draws = {prompt: chance(f"{number} {prompt}") for prompt in given}
        runs[f"run {number}"] = predicted(
            own, without(own, given, lambda query, _, draws=draws, share=share: draws[str(query.prompt)] < share)
        )
    exact = rank(runs)
    for module in (alignment, ranking):
        monkeypatch.setattr(module, "MOST_RUNS", 2)
    bounded = rank(runs)
    assert [(run.run, run.ranks, type(run.verdict)) for run in bounded.runs] == [
        (run.run, run.ranks, type(run.verdict)) for run in exact.runs
    ]
    assert len({run.ranks for run in exact.runs}) > 3
    at_worst = [run.sorted_by for run in exact.runs if run.sorted_by is not None]
    assert len(at_worst) == len(exact.runs)
    assert at_worst == sorted(at_worst, reverse=True)
    values = [run.value for run in exact.runs if run.value is not None]
    assert values != sorted(values, reverse=True)


def test_generalising_counts_missing_queries_at_their_worst() -> None:
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    own = StaICC.Generalisation(datasets=[data], limit=60, draws=2, templates=2, k=1)
    whole = predicted(own, answers(own, 0.7, "whole"))
    partial = without(own, answers(own, 0.7, "partial"), lambda query, right: not right and query.row % 3 > 0)
    found = compare_generalising(predicted(own, partial), whole)
    low = compare_generalising(predicted(own, filled(own, partial, False)), whole)
    high = compare_generalising(predicted(own, filled(own, partial, True)), whole)
    assert found.overall.difference > 0.1
    accuracy = predicted(own, partial).averaged["accuracy"]  # of the queries of all conditions together
    assert found.overall.values[0] == pytest.approx(accuracy)
    assert found.overall.p_value > 0.05
    assert found.overall.interval.low == pytest.approx(low.overall.interval.low)
    assert found.overall.interval.high == pytest.approx(high.overall.interval.high)


@pytest.mark.parametrize("metric", ["macro_F1", "averaged_truelabel_likelihood"])
def test_only_means_over_queries_are_tested_if_a_query_is_missing(metric: str) -> None:
    own = benchmark()

    def scores(given: Labels) -> Labels:
        rows = {0: [0.9, 0.1], 1: [0.1, 0.9], None: None}
        return {prompt: rows[label] for prompt, label in given.items()}

    partial = without(own, answers(own, 0.9, "a"), lambda query, _: (query.row, query.repeat) == (3, 1))
    runs = {"partial": predicted(own, scores(partial)), "whole": predicted(own, scores(answers(own, 0.6, "b")))}
    (pair,) = compare_runs(runs, metric, margin=0.02).comparisons
    assert pair.overall.values == pytest.approx([run.averaged[metric] for run in runs.values()])
    if metric == "macro_F1":
        assert pair.overall.outcome == Untested("1 of 200 queries have no score, and macro_F1 is no mean over queries")
        assert (pair.overall.interval, pair.overall.detectable) == (None, None)
        assert {claim.p_value for claim in pair.non_inferiority} == {None}
        places = {place.run: place for place in rank(runs, metric).runs}
        assert {type(place.verdict) for place in places.values()} == {Untested}
        assert places["partial"].at_worst is None
        row_of_partial = next(line for line in str(rank(runs, metric)).splitlines() if "partial" in line)
        assert row_of_partial.split()[-1] == "-"
        assert {type(place.verdict) for place in standings(runs, metric, True).values()} == {Untested}
    else:
        assert not isinstance(pair.overall.outcome, Untested)
        assert pair.overall.outcome.significant


@pytest.mark.parametrize("seed", range(4))
def test_a_data_set_that_failed_as_a_whole_counts_at_its_worst(seed: int) -> None:
    """A model is right on 90 % of one data set and fails on the other; its equal is right on 70 % and on 70 %."""
    own = benchmark(names=("one", "two"))
    strong, even = answers(own, 0.9, f"a {seed}"), answers(own, 0.7, f"b {seed}")
    failing = without(own, strong, lambda query, _: "two" in query.prompt)
    all_wrong = filled(own, failing, right=False)
    runs = {"failing": predicted(own, failing), "even": predicted(own, even)}

    found = compare(*runs.values(), margin=0.05)
    of_wrong = compare(predicted(own, all_wrong), runs["even"], margin=0.05)
    assert [line.dataset for line in found.datasets] == ["one", "two"]
    assert found.overall.values[0] is None
    assert found.overall.missing == (200, 0)
    assert isinstance(found.overall.outcome, Tested)
    assert not (found.overall.outcome.significant and found.overall.ends[0] > 0.0)
    assert found.overall.interval.low == pytest.approx(of_wrong.overall.interval.low)
    assert found.non_inferiority[0].p_value == pytest.approx(of_wrong.non_inferiority[0].p_value)
    assert "is better" not in "".join(found.conclusion())

    for ranks in (rank(runs).runs, standings(runs, "accuracy", True).values(), compare_runs(runs).ranking):
        places = {place.run: place for place in ranks}
        assert places["failing"].value is None
        assert places["failing"].at_worst == pytest.approx(predicted(own, all_wrong).averaged["accuracy"])
        assert isinstance(places["even"].verdict, Best)
        assert isinstance(places["failing"].verdict, Tied)
    assert r"\underline{--} (200 left out)" in latex_scores(runs)
    summary = report_html(runs)
    assert "with missing queries at their worst" in summary
    assert "at worst 0.4" in summary
    for form in FORMATS:
        assert "NaN" not in format_comparisons([compare_runs(runs)], form)


def test_one_query_more_or_less_without_a_score_changes_no_verdict() -> None:
    own = benchmark(names=("one", "two"))
    strong, even = answers(own, 0.95, "a"), predicted(own, answers(own, 0.6, "b"))
    prompts = [prompt for prompt in strong if "two" in prompt]
    nearly = {prompt: None if prompt in prompts[1:] else label for prompt, label in strong.items()}
    wholly = {prompt: None if prompt in prompts else label for prompt, label in strong.items()}
    outcomes = [compare(predicted(own, partial), even).overall.outcome for partial in (nearly, wholly)]
    assert [outcome.significant for outcome in outcomes] == [False, False]


def test_a_run_can_lead_although_it_failed_on_a_data_set() -> None:
    """Wrong on all of one data set and right on most of the other is still better than wrong on nearly all."""
    own = benchmark(names=("one", "two"))
    failing = without(own, answers(own, 0.95, "a"), lambda query, _: "two" in query.prompt)
    runs = {"low": predicted(own, answers(own, 0.1, "b")), "failing": predicted(own, failing)}
    assert compare(*runs.values()).conclusion()[0].startswith("second is better")
    verdicts = {place.run: type(place.verdict) for place in rank(runs).runs}
    assert verdicts == {"failing": Best, "low": Worse}
    assert {name: type(place.verdict) for name, place in standings(runs, "accuracy", True).items()} == verdicts
    assert r"\textbf{--} (200 left out)" in latex_scores(runs)
    sentence = re.sub("<[^>]*>", "", report_html(runs).split('class="answer"')[1].split("</p>")[0])
    assert "failing leads with accuracy 0.4" in sentence
    assert "a significant difference" in sentence
    assert "It has no verdict in the mean" in sentence


def test_metrics_that_are_no_means_are_untested_if_a_data_set_failed_as_a_whole() -> None:
    own = benchmark(names=("one", "two"))
    failing = without(own, answers(own, 0.9, "a"), lambda query, _: "two" in query.prompt)
    runs = {"failing": predicted(own, failing), "even": predicted(own, answers(own, 0.7, "b"))}
    found = compare(*runs.values(), "macro_F1")
    assert isinstance(found.overall.outcome, Untested)
    assert found.overall.ends is None
    assert {type(place.verdict) for place in rank(runs, "macro_F1").runs} == {Untested}


@pytest.mark.parametrize("benchmark_type", [StaICC.GLER, StaICC.TemplateSensitivity, StaICC.ContextualBias])
def test_slopes_consistency_and_bias_of_a_data_set_that_failed_count_at_their_worst(benchmark_type: Any) -> None:
    own = benchmark_type(datasets=["mini", "TREC"], limit=30)
    full: Labels = {}
    lost: Labels = {}
    for each in own.experimentor:
        for query in each.all_queries():
            prompt = str(query.prompt)
            numbers = [chance(f"{prompt} {label}") for label in range(len(query.label_space))]
            full[prompt] = [number / sum(numbers) for number in numbers]
            lost[prompt] = None if each.name == "TREC" else full[prompt]
    complete, partial = predicted(own, full), predicted(own, lost)
    found = compare(partial, complete)
    assert [line.dataset for line in found.datasets] == ["mini", "TREC"]
    assert (found.datasets[1].values[0], found.overall.values[0]) == (None, None)
    assert found.datasets[1].interval.low < 0.0 < found.datasets[1].interval.high
    assert found.conclusion()[0] == "neither run is shown to be better (p = 1)"
    assert rank({"partial": partial, "complete": complete}).runs[-1].at_worst is not None


def test_a_run_that_failed_as_a_whole_is_last_and_not_shown_to_be_worse() -> None:
    """Its model may have been right on every query, so nothing is said against it."""
    own = benchmark()
    labels = answers(own, 0.8, "a")
    runs = {"failed": predicted(own, dict.fromkeys(labels)), "whole": predicted(own, labels)}
    found = compare(*runs.values())
    assert found.conclusion() == ["neither run is shown to be better (p = 1)"]
    assert [place.run for place in rank(runs).runs] == ["whole", "failed"]
    places = standings(runs, "accuracy", True)
    assert isinstance(places["whole"].verdict, Best)
    assert isinstance(places["failed"].verdict, Tied)


@pytest.mark.parametrize("benchmark_type", [StaICC.GLER, StaICC.TemplateSensitivity, StaICC.ContextualBias])
def test_slopes_consistency_and_entropies_count_missing_queries_at_their_worst(benchmark_type: Any) -> None:
    """A slope is a sum of means with positive and negative weights: each condition has its own worst end."""
    own = benchmark_type(datasets=["mini"], limit=30)
    full, lost = {}, {}
    for each in own.experimentor:
        for query in each.all_queries():
            prompt = str(query.prompt)
            likely = chance(prompt)
            full[prompt] = [likely / 2, 1 - likely, likely / 2]
            lost[prompt] = None if chance(f"lost {prompt}") < 0.06 else full[prompt]
    complete, partial = predicted(own, full), predicted(own, lost)
    metric = {"GLER": "accuracy", "Template_sens": "consistency", "Contextual_bias": "contextual_bias"}[
        complete.benchmark
    ]
    found = compare(partial, complete, metric).overall
    assert found.missing[0] == partial.left_out_of(metric) > 0
    assert found.values == pytest.approx((partial.averaged[metric], complete.averaged[metric]))
    assert found.interval.low < 0.0 < found.interval.high
    assert found.p_value is None or found.p_value > 0.05


def test_the_worst_end_of_a_slope_depends_on_the_sign_of_the_weight_of_a_condition() -> None:
    """A slope is lowest if missing queries are wrong with clean labels, and right with noisy ones."""
    data = Dataset.from_rows(ROWS, name="own", label_space=["no", "yes"])
    own = StaICC.GLER(datasets=[data], limit=40)
    full: dict[str, int] = {}
    low: dict[str, int] = {}
    lost: dict[str, int | None] = {}
    conditions = own.experimentor[0].conditions()
    for number, condition in enumerate(conditions):  # from clean to noisy labels
        clean = number < len(conditions) // 2
        for query in condition.queries:
            prompt = str(query.prompt)
            full[prompt] = query.label if chance(prompt) < 0.7 else 1 - query.label
            lost[prompt] = low[prompt] = full[prompt]
            is_lost = chance(f"lost {prompt}") < 0.1
            if is_lost:
                lost[prompt] = None
                wrong = 1 - query.label
                low[prompt] = wrong if clean else query.label
    complete, partial = predicted(own, full), predicted(own, lost)
    found, lowest = compare(partial, complete).overall, compare(predicted(own, low), complete).overall
    assert found.interval.low == pytest.approx(lowest.interval.low, abs=2e-3)
    assert lowest.difference < found.difference - 0.02


def test_baselines_are_those_of_all_queries_and_missing_ones_count_as_wrong() -> None:
    """Half of its predictions are right, all others are missing: it is no better than a constant label."""
    own = benchmark(names=("own", "other"))
    partial = without(own, answers(own, 0.5, "a"), lambda query, right: not right)
    some, wrong = predicted(own, partial), predicted(own, filled(own, partial, right=False))
    assert some.averaged["accuracy"] == 1.0
    assert some.means.baselines == wrong.means.baselines
    assert some.details["own"].baselines == wrong.details["own"].baselines
    baselines = some.means.baselines["normal"]
    assert baselines.queries == 400
    for p_value in (baselines.p_value, baselines.p_value_majority, baselines.p_value_last_demonstration):
        assert p_value is not None
        assert p_value > 0.05
