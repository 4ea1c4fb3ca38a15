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
FIRST_DATA, SECOND_DATA = (
    Dataset.from_rows([(f"{name} {number}", LABELS[number % 3]) for number in range(200)], name=name)
    for name in ("first", "second")
)


def run(datasets: list[Dataset], seed: int) -> Result:
    def predict(prompt: Any, label_space: Any) -> list[float]:
        weights = [0.1 + random.Random(f"{seed} {label} {prompt}").random() for label in label_space]
        return [weight / sum(weights) for weight in weights]

    result: Result = Normal(datasets=datasets, limit=60)(predict)
    return result


@pytest.fixture(scope="module")
def partly_comparable() -> dict[str, Result]:
    """Three runs, of which the first and the last share no data set."""
    return {"a": run([FIRST_DATA], 1), "ab": run([FIRST_DATA, SECOND_DATA], 2), "b": run([SECOND_DATA], 3)}


def test_a_pair_without_a_common_data_set_is_no_test_anywhere(partly_comparable: dict[str, Result]) -> None:
    compared = compare_runs(partly_comparable).comparisons
    assert [(pair.first, pair.second) for pair in compared] == [("a", "ab"), ("ab", "b")]
    lines = [pair.overall for pair in compared]
    assert [line.holm for line in lines] == directional_holm([line.p_value for line in lines])
    assert len(rank(partly_comparable).runs) == 3

    by_label = compare_subgroups(partly_comparable)
    lines = [subgroup.line for pair in by_label for subgroup in pair.subgroups]
    assert [line.holm for line in lines] == holm([line.p_value for line in lines])
    assert {pair.tests for pair in by_label} == {2 * len(LABELS)}

    by_metric = compare_metrics(partly_comparable, METRICS)
    lines = [comparison.line for comparison in by_metric.comparisons]
    assert [line.holm for line in lines] == directional_holm([line.p_value for line in lines])
    assert by_metric.tests == 2 * len(METRICS)


def test_pairs_that_were_chosen_by_their_values_are_corrected_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_RUNS", 3)
    runs = {str(seed): run([FIRST_DATA], seed) for seed in range(5)}
    all_pairs = 10
    by_label = compare_subgroups(runs)
    assert len(by_label) == 4
    assert {pair.tests for pair in by_label} == {all_pairs * len(LABELS)}
    by_metric = compare_metrics(runs, METRICS)
    assert by_metric.tests == all_pairs * len(METRICS)
    assert by_label[0].to_dict()["correction"] == by_metric.to_dict()["correction"] == "Bonferroni"
    for shown in (str(by_label[0]), str(by_metric)):
        assert "p (Bonferroni): corrected for" in shown
        assert "Holm" not in shown
    lines = [subgroup.line for pair in by_label for subgroup in pair.subgroups]
    lines += [comparison.line for comparison in by_metric.comparisons]
    tests = [30] * (4 * len(LABELS)) + [20] * (len(lines) - 4 * len(LABELS))
    for line, count in zip(lines, tests, strict=True):
        assert line.p_value is not None
        assert line.holm == min(1.0, count * line.p_value)
