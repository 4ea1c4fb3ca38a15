"""Comparisons of runs whose test rows are in clusters: tests, ranks, components, plans; what intervals hold for."""

from __future__ import annotations

import html
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from StaICC import (
    Dataset,
    Generalisation,
    Normal,
    compare,
    compare_metrics,
    compare_runs,
    compare_subgroups,
    race,
    rank,
)
from StaICC.comparing.generalisation import compare_generalising, effects_of, variance_components
from StaICC.comparing.planning import Components, components_of, plan
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.clusters import variance_of_sum
from StaICC.report.page import report_html
from StaICC.results.interval_scope import scope_notes
from StaICC.results.model_card import model_index
from StaICC.results.result import Result

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ROWS = [(f"{LETTERS[number % 26]} {number}", ("no", "yes")[number // 26 % 2]) for number in range(520)]


def letter(row: Any) -> str:
    """Return the cluster of a row: its first letter."""
    return str(row.texts[0][0])


def dataset(cluster: Any = letter) -> Dataset:
    return Dataset.from_rows(ROWS, name="letters", cluster=cluster)


def model(strength: float, seed: int) -> Callable[[Any, Any], list[float]]:
    """Return a model that is right with a probability that depends on the letter of the row, and on the seed."""

    def predict(prompt: Any, label_space: Any) -> list[float]:
        name, digits = re.findall(r"\b([a-z]) (\d+)\b", str(prompt))[-1]
        query = f"{name} {digits}"
        number = int(digits)
        truth = number // 26 % 2
        effect = random.Random(f"{query[0]} {seed}").gauss(0.0, 1.5)
        is_right = random.Random(f"{query} {seed}").random() < 1.0 / (1.0 + math.exp(-strength - effect))
        label = truth if is_right else 1 - truth
        return [0.1 + 0.8 * (index == label) for index in range(2)]

    return predict


def run(strength: float, seed: int, cluster: Any = letter, **settings: Any) -> Result:
    return Normal(datasets=[dataset(cluster)], **settings)(model(strength, seed))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {"weak": run(0.2, 1), "middle": run(0.6, 2), "strong": run(3.0, 3)}


def test_the_test_is_that_of_the_clusters(runs: dict[str, Result]) -> None:
    found = compare(runs["weak"], runs["strong"]).overall
    details = [runs[name].details["letters"] for name in ("weak", "strong")]
    steps = [0.0] * 26
    shares = [0.0] * 26
    assert details[0].clusters is not None
    (first,), (second,) = details[0].conditions, details[1].conditions
    n = len(first.rows)
    for row, truth, guess, other in zip(first.rows, first.truth, first.predictions, second.predictions, strict=True):
        cluster = details[0].clusters[row]
        steps[cluster] += ((guess == truth) - (other == truth)) / n
        shares[cluster] += 1 / n
    variance, freedom = variance_of_sum(steps, shares)
    assert found.difference == pytest.approx(math.fsum(steps))
    assert found.interval is not None
    assert "cluster-robust" in found.interval.method
    half_width = stats.t.isf(0.025, freedom) * math.sqrt(variance)
    assert found.interval.high - found.interval.low == pytest.approx(2.0 * half_width, rel=1e-6)
    assert isinstance(found.outcome, Tested)


def test_dependent_rows_make_intervals_wider_and_are_named(runs: dict[str, Result]) -> None:
    independent = {name: run(strength, seed, cluster=None) for name, strength, seed in (("a", 0.2, 1), ("b", 3.0, 3))}
    over_rows = compare(*independent.values())
    over_clusters = compare(runs["weak"], runs["strong"])
    widths = []
    for comparison in (over_rows, over_clusters):
        interval = comparison.overall.interval
        assert interval is not None
        widths.append(interval.high - interval.low)
    assert widths[1] > 1.3 * widths[0]
    sentence = "letters: intervals and tests are over 26 clusters of 208 test rows"
    assert sentence in str(over_clusters)
    assert "clusters" not in str(over_rows)
    assert "scope" not in over_rows.to_dict()
    assert over_clusters.to_dict()["scope"][0].startswith(sentence)


def test_a_run_without_clusters_is_compared_over_those_of_the_other(runs: dict[str, Result]) -> None:
    without = run(0.2, 1, cluster=None)
    assert compare(without, runs["strong"]).overall.p_value == compare(runs["weak"], runs["strong"]).overall.p_value


def test_clusters_of_one_run_are_those_of_subgroups_and_of_each_metric(runs: dict[str, Result]) -> None:
    without = run(0.2, 1, cluster=None)
    strong = runs["strong"]
    independent = run(3.0, 3, cluster=None)
    metrics = ["accuracy", "averaged_truelabel_likelihood"]

    def tests_of(first: Result, second: Result) -> list[TestOutcome]:
        pair = {"first": first, "second": second}
        (by_label,) = compare_subgroups(pair, "label")
        by_metric = compare_metrics(pair, metrics)
        lines = [subgroup.line for subgroup in by_label.subgroups]
        lines += [comparison.line for comparison in by_metric.comparisons]
        return [line.outcome for line in lines]

    of_both = tests_of(runs["weak"], strong)
    assert len(of_both) == 4
    assert any(isinstance(outcome, Tested) for outcome in of_both), f"got {of_both}"
    assert tests_of(without, strong) == of_both
    assert tests_of(without, independent) != of_both


def test_the_sentence_about_clusters_counts_the_compared_rows(runs: dict[str, Result]) -> None:
    few_rows = run(0.2, 1, cluster=None, limit=60)
    details = runs["strong"].details["letters"]
    assert details.clusters is not None
    rows = {row for record in few_rows.details["letters"].conditions for row in record.rows}
    sizes = Counter(details.clusters[row] for row in rows)
    expected = f"letters: intervals and tests are over {len(sizes)} clusters of 60 test rows (the largest has "
    for pair in ((few_rows, runs["strong"]), (runs["strong"], few_rows)):
        (sentence,) = compare(*pair).scope
        assert sentence == f"{expected}{max(sizes.values())})."


def test_a_stopped_race_says_nothing_of_clusters() -> None:
    """Its interval is that of the score of the full benchmark, over rows in random order."""
    found = race(Normal(datasets=[dataset()]), model(0.2, 1), model(3.0, 2))
    assert "EARLY STOPPING" in str(found)
    assert "clusters of" not in str(found)


def test_runs_with_other_clusters_are_not_compared(runs: dict[str, Result]) -> None:
    other = run(0.2, 1, cluster=lambda row: int(row.texts[0].split()[1]) // 20)
    with pytest.raises(ArgumentError, match="other clusters of the test rows"):
        compare(other, runs["strong"])


def test_ranks_and_margins_are_over_clusters(runs: dict[str, Result]) -> None:
    several = compare_runs(runs, margin=0.3)
    assert several.ranking[0].run == "strong"
    for comparison in several.comparisons:
        assert comparison.overall.interval is not None
        assert "clusters" in comparison.overall.interval.method
        claims = {claim.run: claim for claim in comparison.non_inferiority}
        assert [claim for claim in claims.values() if claim.p_value is None] == []
    assert rank(runs).runs[0].run == "strong"


def test_with_few_clusters_nothing_is_tested() -> None:
    few = [run(strength, seed, cluster=lambda row: ord(row.texts[0][0]) % 9) for strength, seed in ((0.2, 1), (3.0, 2))]
    found = compare(*few, margin=0.2)
    assert found.overall.outcome == Untested("the test rows are in 9 clusters, expected at least 10")
    assert found.overall.interval is None
    assert [claim for claim in found.non_inferiority if claim.p_value is not None or claim.shown] == []
    details = few[0].details["letters"]
    assert "accuracy" not in details.intervals
    assert details.missing["interval of accuracy"] == "the test rows are in 9 clusters, expected at least 10"
    assert details.baselines["normal"].p_value_majority is None


def test_scores_that_are_not_measured_over_clusters_are_untested(runs: dict[str, Result]) -> None:
    found = compare(runs["weak"], runs["strong"], "expected_calibration_error_1")
    assert isinstance(found.overall.outcome, Untested)
    assert "coverage over clusters is not measured" in found.overall.outcome.reason
    assert isinstance(compare(runs["weak"], runs["strong"], "macro_F1").overall.outcome, Tested)


# -- draws and templates


@pytest.fixture(scope="module")
def generalising() -> tuple[Result, Result]:
    first, second = (
        Generalisation(datasets=[dataset()], limit=120, draws=3)(model(strength, seed))
        for strength, seed in ((0.2, 1), (1.5, 2))
    )
    return first, second  # type: ignore[return-value]


def test_components_and_plans_have_clusters_in_the_place_of_rows(generalising: tuple[Result, Result]) -> None:
    first, second = generalising
    effects = effects_of(first, None, ["letters"])["letters"]
    assert effects.sizes == (25, 3, 3)
    components = components_of(first)
    assert components.cluster_rows == pytest.approx(120 / 25)
    designs = plan(components, half_width=0.12, max_rows=512).designs
    assert designs[0].clusters is not None
    assert designs[0].rows == math.ceil(designs[0].clusters * 120 / 25)
    assert "clusters" in str(variance_components(first))
    of_difference = components_of(first, second)
    assert plan(of_difference, difference=0.3, max_rows=512).designs[0].clusters is not None
    with pytest.raises(ArgumentError, match=r"about 4 clusters of 4\.8 rows, expected at least 10 clusters"):
        plan(components, half_width=0.12, max_rows=20)


def test_clusters_that_one_run_records_are_those_of_the_difference(generalising: tuple[Result, Result]) -> None:
    first, second = generalising
    unknown_first, unknown_second = (
        Generalisation(datasets=[dataset(None)], limit=120, draws=3)(model(strength, seed))
        for strength, seed in ((0.2, 1), (1.5, 2))
    )
    known = compare_generalising(first, second)
    components = components_of(first, second)
    for pair in ((unknown_first, second), (first, unknown_second)):
        found = compare_generalising(*pair)  # type: ignore[arg-type]
        assert found.overall.interval == known.overall.interval
        assert found.overall.p_value == known.overall.p_value
        assert found.scope == known.scope
        assert components_of(*pair) == components  # type: ignore[arg-type]


def test_plans_of_independent_rows_have_no_clusters() -> None:
    components = Components({"rows": 0.1, "draws": 0.002, "rest": 0.1}, 0.0, False, "an example")
    assert plan(components, half_width=0.06).designs[0].clusters is None


def test_a_comparison_over_draws_and_templates_is_not_limited_to_them(generalising: tuple[Result, Result]) -> None:
    first, second = generalising
    over_draws = compare_generalising(first, second)
    assert len(over_draws.scope) == 1
    assert "25 clusters" in over_draws.scope[0]
    over_rows = compare(first, second)
    assert any("The command components has the interval" in sentence for sentence in over_rows.scope), (
        f"got {over_rows.scope}"
    )
    interval, inner = over_draws.overall.interval, over_rows.overall.interval
    assert interval is not None
    assert inner is not None
    assert interval.low <= inner.low
    assert interval.high >= inner.high


def test_components_of_few_clusters_are_undefined() -> None:
    few = Generalisation(datasets=[dataset(lambda row: ord(row.texts[0][0]) % 9)], limit=60, draws=3)(model(0.2, 1))
    with pytest.raises(UndefinedMetricError, match="letters: the test rows are in 9 clusters"):
        variance_components(few)  # type: ignore[arg-type]


# -- what an interval is conditional on


def test_tables_and_comparisons_say_that_all_rows_share_two_lists(generalising: tuple[Result, Result]) -> None:
    shared = [run(0.2, seed, cluster=None, sampler="nested-shared", limit=30) for seed in (1, 2)]
    sentence = "intervals and tests are over test rows and hold for these 2 lists only"
    assert sentence in str(shared[0])
    assert sentence in str(compare(*shared))
    assert sentence in json.dumps(compare(*shared).to_dict())
    own = [run(0.2, seed, cluster=None, sampler="nested", limit=30) for seed in (1, 2)]
    assert "lists only" not in str(own[0])
    assert "lists only" not in str(compare(*own))
    mixed = compare(shared[0], own[0])
    assert sentence in str(mixed)
    no_demonstrations = run(0.2, 1, cluster=None, sampler="nested-shared", k=0, limit=30)
    assert "lists only" not in str(no_demonstrations)


def test_reports_and_model_cards_have_the_same_sentences(runs: dict[str, Result]) -> None:
    shared = run(0.2, 1, cluster=None, sampler="nested-shared", limit=30)
    (note,) = scope_notes([shared])
    (entry,) = model_index([shared])
    assert {evaluation["dataset"]["args"]["intervals"] for evaluation in entry["results"]} == {note}
    assert note in html.unescape(report_html({"shared": shared}))
    (note,) = scope_notes([runs["weak"]])
    assert note in html.unescape(report_html({"clusters": runs["weak"]}))
    own = run(0.2, 1, cluster=None, limit=30)
    assert scope_notes([own]) == []
    (entry,) = model_index([own])
    assert [evaluation for evaluation in entry["results"] if "intervals" in evaluation["dataset"]["args"]] == []
    assert "Each test row has demonstrations of its own" in html.unescape(report_html({"own": own}))


def test_two_lists_that_differ_call_equal_models_different_over_lists() -> None:
    """The reason for the sentence: the accuracy of a run depends on its lists, and its interval does not know it."""
    rng = random.Random(0)
    covered = 0
    n = 300
    for _ in range(n):
        effects = [rng.gauss(0.0, 0.8) for _ in range(2)]
        hits = 0
        for effect in effects:
            hits += sum(rng.random() < 1.0 / (1.0 + math.exp(-effect)) for _ in range(128))
        share = hits / 256
        half_width = 1.96 * math.sqrt(share * (1.0 - share) / 256)
        covered += abs(share - 0.5) <= half_width
    assert covered / n < 0.5


def test_models_and_lists_replaced_by_hand_are_named() -> None:
    benchmark = Normal(datasets=[dataset(None)], k=1, limit=30)
    benchmark[0].set_demonstration_sampler([[0]] * len(benchmark[0].triplet_dataset.test))
    result = benchmark(model(0.2, 1))
    assert "Demonstrations were set by hand or by the method" in str(result)
    fields = {**result.signature.fields, "demonstrations": "mixed-123"}
    result.signature = replace(result.signature, fields=fields)
    assert "drawn in different ways" in str(result)
