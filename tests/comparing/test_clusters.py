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
from typing import Any, NamedTuple

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
from StaICC.comparing.comparison_results import Comparison
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
    """Return a model whose probability to be right depends on the letter of the row, which is its cluster.

    Args:
        strength: The mean logit of being right.
        seed: The seed of the effects of letters, which have the standard deviation 1.5, and of the predictions.
    """

    def predict(prompt: Any, label_space: Any) -> list[float]:
        first_letter, digits = re.findall(r"\b([a-z]) (\d+)\b", str(prompt))[-1]
        true_label = int(digits) // 26 % 2
        effect_of_letter = random.Random(f"{first_letter} {seed}").gauss(0.0, 1.5)
        chance = 1.0 / (1.0 + math.exp(-strength - effect_of_letter))
        is_right = random.Random(f"{first_letter} {digits} {seed}").random() < chance
        label = true_label if is_right else 1 - true_label
        return [0.9, 0.1] if label == 0 else [0.1, 0.9]

    return predict


def run(strength: float, seed: int, cluster: Any = letter, **settings: Any) -> Result:
    """Return a run of a model (see above) on rows that are in clusters, by default those of their first letter."""
    return Normal(datasets=[dataset(cluster)], **settings)(model(strength, seed))  # type: ignore[return-value]


NINE_CLUSTERS: Callable[[Any], int] = lambda row: ord(row.texts[0][0]) % 9  # noqa: E731
"""One cluster less than a test needs."""


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {"weak": run(0.2, seed=1), "middle": run(0.6, seed=2), "strong": run(3.0, seed=3)}


class ClusterDifference(NamedTuple):
    """The test rows of one cluster in a comparison of two runs."""

    difference: float
    """What the rows add to the difference of the accuracies."""
    share_of_rows: float


def differences_of_clusters(first: Result, second: Result) -> list[ClusterDifference]:
    """Return the differences of all clusters, which add up to the difference of the accuracies of two runs."""
    (first_run,) = first.details["letters"].conditions
    (second_run,) = second.details["letters"].conditions
    clusters = first.details["letters"].clusters
    assert clusters is not None

    differences: Counter[int] = Counter()
    rows: Counter[int] = Counter()
    for index, true_label in enumerate(first_run.truth):
        cluster = clusters[first_run.rows[index]]
        first_is_correct = first_run.predictions[index] == true_label
        second_is_correct = second_run.predictions[index] == true_label
        differences[cluster] += first_is_correct - second_is_correct
        rows[cluster] += 1
    row_count = len(first_run.truth)
    return [ClusterDifference(differences[cluster] / row_count, rows[cluster] / row_count) for cluster in sorted(rows)]


def test_a_difference_over_clusters_is_the_sum_of_their_differences(runs: dict[str, Result]) -> None:
    differences = [cluster.difference for cluster in differences_of_clusters(runs["weak"], runs["strong"])]

    comparison = compare(runs["weak"], runs["strong"])

    assert comparison.overall.difference == pytest.approx(math.fsum(differences))


def test_the_interval_of_a_difference_is_that_of_the_clusters(runs: dict[str, Result]) -> None:
    """Student's t with the variance and the degrees of freedom of the differences of clusters."""
    clusters = differences_of_clusters(runs["weak"], runs["strong"])
    variance, degrees_of_freedom = variance_of_sum(
        [cluster.difference for cluster in clusters], [cluster.share_of_rows for cluster in clusters]
    )
    half_width = stats.t.ppf(0.975, degrees_of_freedom) * math.sqrt(variance)  # of 95 %

    comparison = compare(runs["weak"], runs["strong"])

    assert width_of_interval(comparison) == pytest.approx(2.0 * half_width, rel=1e-6)


def test_an_interval_over_clusters_is_called_cluster_robust(runs: dict[str, Result]) -> None:
    comparison = compare(runs["weak"], runs["strong"]).overall

    assert comparison.interval is not None
    assert "cluster-robust" in comparison.interval.method
    assert isinstance(comparison.outcome, Tested)


@pytest.fixture(scope="module")
def over_rows() -> Comparison:
    """The comparison of the runs ``weak`` and ``strong`` without clusters."""
    return compare(run(0.2, seed=1, cluster=None), run(3.0, seed=3, cluster=None))


def width_of_interval(comparison: Comparison) -> float:
    interval = comparison.overall.interval
    assert interval is not None
    return interval.high - interval.low


def test_an_interval_over_clusters_is_wider_than_over_rows(runs: dict[str, Result], over_rows: Comparison) -> None:
    over_clusters = compare(runs["weak"], runs["strong"])

    assert width_of_interval(over_clusters) > 1.3 * width_of_interval(over_rows)


def test_a_comparison_says_that_it_is_over_clusters(runs: dict[str, Result]) -> None:
    over_clusters = compare(runs["weak"], runs["strong"])

    sentence = "letters: intervals and tests are over 26 clusters of 208 test rows"
    assert sentence in str(over_clusters)
    assert over_clusters.to_dict()["scope"][0].startswith(sentence)


def test_a_comparison_over_rows_says_nothing_of_clusters(over_rows: Comparison) -> None:
    assert "clusters" not in str(over_rows)
    assert "scope" not in over_rows.to_dict()


def test_a_run_without_clusters_is_compared_over_those_of_the_other(runs: dict[str, Result]) -> None:
    weak_without_clusters = run(0.2, seed=1, cluster=None)

    one_has_clusters = compare(weak_without_clusters, runs["strong"]).overall

    both_have_clusters = compare(runs["weak"], runs["strong"]).overall
    assert one_has_clusters.p_value == both_have_clusters.p_value


def outcomes_by_subgroup_and_metric(first: Result, second: Result) -> list[TestOutcome]:
    """Return the outcomes of the tests of two runs: for each of two labels, and for each of two metrics."""
    pair = {"first": first, "second": second}
    (by_label,) = compare_subgroups(pair, "label")
    by_metric = compare_metrics(pair, ["accuracy", "averaged_truelabel_likelihood"])
    outcomes = [subgroup.line.outcome for subgroup in by_label.subgroups]
    outcomes += [comparison.line.outcome for comparison in by_metric.comparisons]
    assert len(outcomes) == 2 + 2
    return outcomes


def test_subgroups_and_metrics_are_tested_over_the_clusters_of_one_run(runs: dict[str, Result]) -> None:
    weak_without_clusters = run(0.2, seed=1, cluster=None)

    one_has_clusters = outcomes_by_subgroup_and_metric(weak_without_clusters, runs["strong"])

    both_have_clusters = outcomes_by_subgroup_and_metric(runs["weak"], runs["strong"])
    assert one_has_clusters == both_have_clusters
    assert any(isinstance(outcome, Tested) for outcome in both_have_clusters), f"got {both_have_clusters}"


def test_subgroups_and_metrics_of_runs_without_clusters_have_other_outcomes(runs: dict[str, Result]) -> None:
    weak_without_clusters, strong_without_clusters = run(0.2, seed=1, cluster=None), run(3.0, seed=3, cluster=None)

    over_rows = outcomes_by_subgroup_and_metric(weak_without_clusters, strong_without_clusters)

    over_clusters = outcomes_by_subgroup_and_metric(runs["weak"], runs["strong"])
    assert over_rows != over_clusters


@pytest.mark.parametrize("few_rows_first", [True, False], ids=["few rows first", "few rows second"])
def test_the_sentence_about_clusters_counts_the_compared_rows(runs: dict[str, Result], few_rows_first: bool) -> None:
    """One run has 60 rows and no clusters, the other one has 208 rows in 26 clusters."""
    few_rows = run(0.2, seed=1, cluster=None, limit=60)
    with_clusters = runs["strong"]
    pair = (few_rows, with_clusters) if few_rows_first else (with_clusters, few_rows)

    (sentence,) = compare(*pair).scope

    clusters = with_clusters.details["letters"].clusters
    assert clusters is not None
    (record,) = few_rows.details["letters"].conditions
    compared_rows = set(record.rows)
    rows_by_cluster = Counter(clusters[row] for row in compared_rows)
    assert sentence == (
        f"letters: intervals and tests are over {len(rows_by_cluster)} clusters of 60 test rows "
        f"(the largest has {max(rows_by_cluster.values())})."
    )


def test_a_stopped_race_says_nothing_of_clusters() -> None:
    """The interval of a race is that of the score of the full benchmark, over rows in random order."""
    weak_model, strong_model = model(0.2, seed=1), model(3.0, seed=2)

    stopped = race(Normal(datasets=[dataset()]), weak_model, strong_model)

    assert "EARLY STOPPING" in str(stopped)
    assert "clusters of" not in str(stopped)


def test_runs_with_other_clusters_are_not_compared(runs: dict[str, Result]) -> None:
    by_number = run(0.2, seed=1, cluster=lambda row: int(row.texts[0].split()[1]) // 20)

    with pytest.raises(ArgumentError, match="other clusters of the test rows"):
        compare(by_number, runs["strong"])


def test_intervals_and_claims_of_non_inferiority_are_over_clusters(runs: dict[str, Result]) -> None:
    comparisons = compare_runs(runs, margin=0.3).comparisons

    assert comparisons
    for comparison in comparisons:
        pair = (comparison.first, comparison.second)
        assert comparison.overall.interval is not None, pair
        assert "clusters" in comparison.overall.interval.method, pair
        for claim in comparison.non_inferiority:
            assert claim.p_value is not None, claim


def test_runs_with_clusters_are_ranked(runs: dict[str, Result]) -> None:
    assert compare_runs(runs).ranking[0].run == "strong"
    assert rank(runs).runs[0].run == "strong"


def test_a_comparison_over_nine_clusters_is_untested() -> None:
    first, second = run(0.2, seed=1, cluster=NINE_CLUSTERS), run(3.0, seed=2, cluster=NINE_CLUSTERS)

    comparison = compare(first, second, margin=0.2)

    assert comparison.overall.outcome == Untested("the test rows are in 9 clusters, expected at least 10")
    assert comparison.overall.interval is None
    for claim in comparison.non_inferiority:
        assert claim.p_value is None
        assert not claim.shown


def test_a_run_on_nine_clusters_has_no_interval_and_no_test_of_a_baseline() -> None:
    details = run(0.2, seed=1, cluster=NINE_CLUSTERS).details["letters"]

    assert "accuracy" not in details.intervals
    assert details.missing["interval of accuracy"] == "the test rows are in 9 clusters, expected at least 10"
    assert details.baselines["normal"].p_value_majority is None


def test_the_calibration_error_is_untested_over_clusters(runs: dict[str, Result]) -> None:
    """No simulation has measured the coverage of its interval over clusters."""
    outcome = compare(runs["weak"], runs["strong"], "expected_calibration_error_1").overall.outcome

    assert isinstance(outcome, Untested)
    assert "coverage over clusters is not measured" in outcome.reason


def test_the_macro_f1_is_tested_over_clusters(runs: dict[str, Result]) -> None:
    assert isinstance(compare(runs["weak"], runs["strong"], "macro_F1").overall.outcome, Tested)


# -- draws and templates


def generalising_run(strength: float, seed: int, cluster: Any = letter) -> Result:
    """Return a run over 120 rows, in 25 clusters of letters, with three draws and three templates."""
    benchmark = Generalisation(datasets=[dataset(cluster)], limit=120, draws=3)
    return benchmark(model(strength, seed))  # type: ignore[return-value]


ROWS_OF_A_CLUSTER = 120 / 25


@pytest.fixture(scope="module")
def generalising() -> tuple[Result, Result]:
    return generalising_run(0.2, seed=1), generalising_run(1.5, seed=2)


def test_components_have_clusters_in_the_place_of_rows(generalising: tuple[Result, Result]) -> None:
    first_run, _ = generalising

    clusters, draws, templates = effects_of(first_run, None, ["letters"])["letters"].sizes

    assert (clusters, draws, templates) == (25, 3, 3)
    assert components_of(first_run).cluster_rows == pytest.approx(ROWS_OF_A_CLUSTER)
    assert "clusters" in str(variance_components(first_run))


def test_a_plan_states_the_clusters_and_the_rows_in_them(generalising: tuple[Result, Result]) -> None:
    first, _ = generalising

    design = plan(components_of(first), half_width=0.12, max_rows=512).designs[0]

    assert design.clusters is not None
    assert design.rows == math.ceil(design.clusters * ROWS_OF_A_CLUSTER)


def test_a_plan_of_a_difference_states_clusters(generalising: tuple[Result, Result]) -> None:
    design = plan(components_of(*generalising), difference=0.3, max_rows=512).designs[0]

    assert design.clusters is not None


def test_a_plan_with_too_few_rows_for_ten_clusters_is_refused(generalising: tuple[Result, Result]) -> None:
    """20 rows are in about 4 clusters, with 4.8 rows in each."""
    first, _ = generalising

    with pytest.raises(ArgumentError, match=r"about 4 clusters of 4\.8 rows, expected at least 10 clusters"):
        plan(components_of(first), half_width=0.12, max_rows=20)


@pytest.mark.parametrize("without_clusters", ["first", "second"])
def test_clusters_that_one_run_records_are_those_of_the_difference(
    generalising: tuple[Result, Result], without_clusters: str
) -> None:
    first, second = generalising
    if without_clusters == "first":
        pair = (generalising_run(0.2, seed=1, cluster=None), second)
    else:
        pair = (first, generalising_run(1.5, seed=2, cluster=None))

    one_has_clusters = compare_generalising(*pair)

    both_have_clusters = compare_generalising(first, second)
    assert one_has_clusters.overall.interval == both_have_clusters.overall.interval
    assert one_has_clusters.overall.p_value == both_have_clusters.overall.p_value
    assert one_has_clusters.scope == both_have_clusters.scope
    assert components_of(*pair) == components_of(first, second)


def test_plans_of_independent_rows_have_no_clusters() -> None:
    components = Components({"rows": 0.1, "draws": 0.002, "rest": 0.1}, 0.0, False, "an example")

    assert plan(components, half_width=0.06).designs[0].clusters is None


def test_a_comparison_over_draws_and_templates_is_limited_by_its_clusters_alone(
    generalising: tuple[Result, Result],
) -> None:
    first, second = generalising

    (limit,) = compare_generalising(first, second).scope

    assert "25 clusters" in limit


def test_a_comparison_over_rows_names_the_command_with_the_interval_over_draws(
    generalising: tuple[Result, Result],
) -> None:
    first, second = generalising

    limits = compare(first, second).scope

    assert any("The command components has the interval" in limit for limit in limits), f"got {limits}"


def test_the_interval_over_draws_and_templates_holds_that_over_rows(generalising: tuple[Result, Result]) -> None:
    first, second = generalising

    over_draws_and_templates = compare_generalising(first, second).overall.interval
    over_rows = compare(first, second).overall.interval

    assert over_draws_and_templates is not None
    assert over_rows is not None
    assert over_draws_and_templates.low <= over_rows.low
    assert over_draws_and_templates.high >= over_rows.high


def test_components_of_nine_clusters_are_undefined() -> None:
    nine_clusters = generalising_run(0.2, seed=1, cluster=NINE_CLUSTERS)

    with pytest.raises(UndefinedMetricError, match="letters: the test rows are in 9 clusters"):
        variance_components(nine_clusters)


# -- what an interval is conditional on


ABOUT_TWO_LISTS = "intervals and tests are over test rows and hold for these 2 lists only"


def run_with_sampler(sampler: str, seed: int, **settings: Any) -> Result:
    """Return a run whose rows share two lists of demonstrations (``nested-shared``), or have their own (``nested``)."""
    return run(0.2, seed, cluster=None, sampler=sampler, limit=30, **settings)


def test_tables_and_comparisons_say_that_all_rows_share_two_lists() -> None:
    first, second = run_with_sampler("nested-shared", 1), run_with_sampler("nested-shared", 2)

    compared = compare(first, second)

    assert ABOUT_TWO_LISTS in str(first)
    assert ABOUT_TWO_LISTS in str(compared)
    assert ABOUT_TWO_LISTS in json.dumps(compared.to_dict())


def test_nothing_is_said_of_lists_where_each_row_has_its_own() -> None:
    first, second = run_with_sampler("nested", 1), run_with_sampler("nested", 2)

    assert "lists only" not in str(first)
    assert "lists only" not in str(compare(first, second))


def test_a_comparison_says_that_the_rows_of_one_run_share_two_lists() -> None:
    found = compare(run_with_sampler("nested-shared", 1), run_with_sampler("nested", 1))

    assert ABOUT_TWO_LISTS in str(found)


def test_nothing_is_said_of_lists_without_demonstrations() -> None:
    assert "lists only" not in str(run_with_sampler("nested-shared", 1, k=0))


def interval_notes_of_card(result: Result) -> set[str]:
    """Return what a model card says of its intervals; an empty text where it says nothing."""
    (entry,) = model_index([result])
    return {evaluation["dataset"]["args"].get("intervals", "") for evaluation in entry["results"]}


def test_reports_and_model_cards_say_what_intervals_hold_for() -> None:
    result = run_with_sampler("nested-shared", 1)

    (note,) = scope_notes([result])

    assert interval_notes_of_card(result) == {note}
    assert note in html.unescape(report_html({"shared": result}))


def test_a_report_says_that_intervals_are_over_clusters(runs: dict[str, Result]) -> None:
    (note,) = scope_notes([runs["weak"]])

    assert note in html.unescape(report_html({"clusters": runs["weak"]}))


def test_intervals_over_rows_with_their_own_demonstrations_need_no_note() -> None:
    result = run(0.2, seed=1, cluster=None, limit=30)

    assert scope_notes([result]) == []
    assert interval_notes_of_card(result) == {""}
    assert "Each test row has demonstrations of its own" in html.unescape(report_html({"own": result}))


def test_an_interval_over_rows_that_share_two_lists_rarely_holds_the_accuracy_over_all_lists() -> None:
    """The reason for the sentence: the accuracy of a run depends on its lists, and its interval does not know it.

    Each of 128 rows is predicted with both lists. A list has a normal effect on the logit of being right, whose mean is
    0, so that the accuracy over all lists is 0.5.
    """
    rng = random.Random(0)
    samples, rows, accuracy_over_all_lists = 300, 128, 0.5
    intervals_with_accuracy = 0
    for _ in range(samples):
        correct = 0
        for _list in range(2):
            effect_of_list = rng.gauss(0.0, 0.8)
            probability_right = 1.0 / (1.0 + math.exp(-effect_of_list))
            correct += sum(rng.random() < probability_right for _ in range(rows))
        accuracy = correct / (2 * rows)
        half_width = 1.96 * math.sqrt(accuracy * (1.0 - accuracy) / (2 * rows))
        if abs(accuracy - accuracy_over_all_lists) <= half_width:
            intervals_with_accuracy += 1

    assert intervals_with_accuracy / samples < 0.5, "expected of an interval of 95 %: 0.95"


@pytest.fixture
def with_demonstrations_by_hand() -> Result:
    benchmark = Normal(datasets=[dataset(None)], k=1, limit=30)
    row_count = len(benchmark[0].triplet_dataset.test)
    benchmark[0].set_demonstration_sampler([[0]] * row_count)
    return benchmark(model(0.2, seed=1))  # type: ignore[return-value]


def test_demonstrations_that_were_set_by_hand_are_named(with_demonstrations_by_hand: Result) -> None:
    assert "Demonstrations were set by hand or by the method" in str(with_demonstrations_by_hand)


def test_demonstrations_that_were_drawn_in_different_ways_are_named(with_demonstrations_by_hand: Result) -> None:
    result = with_demonstrations_by_hand
    fields = {**result.signature.fields, "demonstrations": "mixed-123"}
    result.signature = replace(result.signature, fields=fields)

    assert "drawn in different ways" in str(result)
