"""Which pairs of runs count as tests: the same ones for compare, by subgroups, and by several metrics."""

from __future__ import annotations

import random
from typing import Any

import pytest

from StaICC import Dataset, Normal, compare_metrics, compare_runs, compare_subgroups, rank
from StaICC.comparing import alignment
from StaICC.metrics.paired_tests import directional_holm, holm
from StaICC.results.result import Result

LABELS = ("no", "yes", "maybe")
FIRST_DATA = Dataset.from_rows([(f"first {number}", LABELS[number % 3]) for number in range(200)], name="first")
SECOND_DATA = Dataset.from_rows([(f"second {number}", LABELS[number % 3]) for number in range(200)], name="second")


def run(datasets: list[Dataset], seed: int) -> Result:
    """Run a model of random probabilities on data sets."""

    def predict(prompt: Any, label_space: Any) -> list[float]:
        weights = [0.1 + random.Random(f"{seed} {label} {prompt}").random() for label in label_space]
        return [weight / sum(weights) for weight in weights]

    result: Result = Normal(datasets=datasets, limit=60)(predict)
    return result


@pytest.fixture(scope="module")
def partly_comparable() -> dict[str, Result]:
    """Three runs, of which the first and the last share no data set."""
    return {"a": run([FIRST_DATA], 1), "ab": run([FIRST_DATA, SECOND_DATA], 2), "b": run([SECOND_DATA], 3)}


def test_p_values_are_not_corrected_for_a_pair_without_a_common_data_set(partly_comparable: dict[str, Result]) -> None:
    a_and_ab, ab_and_b = compare_runs(partly_comparable).comparisons

    assert (a_and_ab.first, a_and_ab.second) == ("a", "ab")
    assert (ab_and_b.first, ab_and_b.second) == ("ab", "b")
    corrected_for_two_pairs = directional_holm([a_and_ab.overall.p_value, ab_and_b.overall.p_value])
    assert [a_and_ab.overall.holm, ab_and_b.overall.holm] == corrected_for_two_pairs


def test_a_run_without_a_common_data_set_is_ranked(partly_comparable: dict[str, Result]) -> None:
    assert len(rank(partly_comparable).runs) == 3


def test_subgroups_are_not_corrected_for_a_pair_without_a_common_data_set(
    partly_comparable: dict[str, Result],
) -> None:
    """Two pairs of three labels are six tests."""
    a_and_ab, ab_and_b = compare_subgroups(partly_comparable)

    lines = [subgroup.line for subgroup in [*a_and_ab.subgroups, *ab_and_b.subgroups]]
    assert [line.holm for line in lines] == holm([line.p_value for line in lines])
    assert a_and_ab.tests == 6
    assert ab_and_b.tests == 6


def test_metrics_are_not_corrected_for_a_pair_without_a_common_data_set(partly_comparable: dict[str, Result]) -> None:
    """Two pairs and two metrics are four tests."""
    compared = compare_metrics(partly_comparable, ["accuracy", "averaged_truelabel_likelihood"])

    lines = [comparison.line for comparison in compared.comparisons]
    assert [line.holm for line in lines] == directional_holm([line.p_value for line in lines])
    assert compared.tests == 4


@pytest.fixture(scope="module")
def five_runs() -> dict[str, Result]:
    return {str(seed): run([FIRST_DATA], seed) for seed in range(5)}


@pytest.fixture
def more_than_three_runs_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare only neighbours of the ranking where there are more than three runs."""
    monkeypatch.setattr(alignment, "MOST_RUNS", 3)


def assert_bonferroni(lines: list[Any], tests: int) -> None:
    """Check that p-values are corrected for so many tests."""
    for line in lines:
        assert line.p_value is not None
        assert line.holm == min(1.0, tests * line.p_value)


@pytest.mark.usefixtures("more_than_three_runs_are_many")
def test_neighbours_in_subgroups_are_corrected_for_all_pairs(five_runs: dict[str, Result]) -> None:
    """Four pairs of neighbours are compared. They were chosen by their values, so the correction is for all pairs."""
    pairs = compare_subgroups(five_runs)

    all_pairs, labels = 10, 3
    assert [pair.tests for pair in pairs] == [all_pairs * labels] * 4
    for pair in pairs:
        assert_bonferroni([subgroup.line for subgroup in pair.subgroups], tests=all_pairs * labels)


@pytest.mark.usefixtures("more_than_three_runs_are_many")
def test_neighbours_in_metrics_are_corrected_for_all_pairs(five_runs: dict[str, Result]) -> None:
    compared = compare_metrics(five_runs, ["accuracy", "averaged_truelabel_likelihood"])

    all_pairs, metrics = 10, 2
    assert compared.tests == all_pairs * metrics
    assert_bonferroni([comparison.line for comparison in compared.comparisons], tests=all_pairs * metrics)


@pytest.mark.usefixtures("more_than_three_runs_are_many")
def test_the_correction_of_neighbours_is_named(five_runs: dict[str, Result]) -> None:
    first_pair, *_ = compare_subgroups(five_runs)
    by_metric = compare_metrics(five_runs, ["accuracy", "averaged_truelabel_likelihood"])

    for compared in (first_pair, by_metric):
        assert compared.to_dict()["correction"] == "Bonferroni"
        assert "p (Bonferroni): corrected for" in str(compared)
        assert "Holm" not in str(compared)
