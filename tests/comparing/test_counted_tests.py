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
METRICS = ["accuracy", "averaged_truelabel_likelihood"]
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


def test_a_pair_without_a_common_data_set_is_no_test(partly_comparable: dict[str, Result]) -> None:
    first_pair, second_pair = compare_runs(partly_comparable).comparisons
    assert (first_pair.first, first_pair.second) == ("a", "ab")
    assert (second_pair.first, second_pair.second) == ("ab", "b")
    corrected = directional_holm([first_pair.overall.p_value, second_pair.overall.p_value])
    assert [first_pair.overall.holm, second_pair.overall.holm] == corrected


def test_a_run_without_a_common_data_set_is_ranked(partly_comparable: dict[str, Result]) -> None:
    assert len(rank(partly_comparable).runs) == 3


def test_a_pair_without_a_common_data_set_is_no_test_of_subgroups(partly_comparable: dict[str, Result]) -> None:
    """Two pairs of three labels are six tests."""
    pairs = compare_subgroups(partly_comparable)
    lines = [subgroup.line for pair in pairs for subgroup in pair.subgroups]
    assert [line.holm for line in lines] == holm([line.p_value for line in lines])
    assert [pair.tests for pair in pairs] == [6, 6]


def test_a_pair_without_a_common_data_set_is_no_test_of_metrics(partly_comparable: dict[str, Result]) -> None:
    """Two pairs and two metrics are four tests."""
    compared = compare_metrics(partly_comparable, METRICS)
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
    """Four pairs of neighbours; but they were chosen by their values of ten pairs, each with three labels."""
    pairs = compare_subgroups(five_runs)
    assert [pair.tests for pair in pairs] == [30, 30, 30, 30]
    assert_bonferroni([subgroup.line for pair in pairs for subgroup in pair.subgroups], tests=30)


@pytest.mark.usefixtures("more_than_three_runs_are_many")
def test_neighbours_in_metrics_are_corrected_for_all_pairs(five_runs: dict[str, Result]) -> None:
    """Ten pairs, each with two metrics."""
    compared = compare_metrics(five_runs, METRICS)
    assert compared.tests == 20
    assert_bonferroni([comparison.line for comparison in compared.comparisons], tests=20)


@pytest.mark.usefixtures("more_than_three_runs_are_many")
def test_the_correction_of_neighbours_is_named(five_runs: dict[str, Result]) -> None:
    for compared in (compare_subgroups(five_runs)[0], compare_metrics(five_runs, METRICS)):
        assert compared.to_dict()["correction"] == "Bonferroni"
        assert "p (Bonferroni): corrected for" in str(compared)
        assert "Holm" not in str(compared)
