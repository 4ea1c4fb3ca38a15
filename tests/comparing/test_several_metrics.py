"""Comparisons by several metrics, with one correction for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from StaICC import GLER, Dataset, Normal, PosteriorBias, compare, compare_metrics
from StaICC.comparing.formats import format_tables
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics.paired_tests import directional_holm
from StaICC.results.result import Result
from StaICC.results.score_names import column_head
from tests.results.conftest import model as hash_model

METRICS = ["accuracy", "macro_F1", "averaged_truelabel_likelihood"]


def other_hash_model(prompt: str, label_space: list[str]) -> list[float]:
    """Predict what the model of the other tests predicts for another prompt."""
    return hash_model(prompt + "x", label_space)


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    """Runs of three models on 60 rows of ``mini``: "hash", "constant" and "other"."""
    benchmark: Any = Normal(datasets=["mini"], limit=60)
    return {
        "hash": benchmark(hash_model),
        "constant": benchmark(lambda prompt, label_space: [0.5, 0.25, 0.25]),
        "other": benchmark(other_hash_model),
    }


def test_p_values_are_those_of_each_metric_corrected_for_all(runs: dict[str, Result]) -> None:
    found = compare_metrics(runs, METRICS)
    assert found.tests == len(found.comparisons) == 3 * 3  # pairs of runs, metrics
    p_values = []
    for comparison in found.comparisons:
        alone = compare(runs[comparison.first], runs[comparison.second], comparison.metric).overall
        assert comparison.line.p_value == alone.p_value
        assert comparison.line.interval == alone.interval
        assert comparison.line.values == alone.values
        p_values.append(alone.p_value)
    assert [comparison.line.holm for comparison in found.comparisons] == directional_holm(p_values)
    assert "corrected for 9 tests" in str(found)


def test_the_line_of_a_single_data_set_is_that_of_compare(runs: dict[str, Result]) -> None:
    for comparison in compare_metrics(runs, METRICS).comparisons:
        alone = compare(runs[comparison.first], runs[comparison.second], comparison.metric).overall
        assert comparison.line.dataset == "mini"
        assert replace(comparison.line, outcome=alone.outcome) == alone


def test_the_line_of_two_data_sets_is_their_mean() -> None:
    rows = [(f"text {number}", ("no", "yes", "maybe")[number % 3]) for number in range(100)]
    benchmark: Any = Normal(datasets=["mini", Dataset.from_rows(rows, name="own")], limit=20)
    runs = {"a": benchmark(hash_model), "b": benchmark(other_hash_model)}

    for comparison in compare_metrics(runs, METRICS).comparisons:
        mean = compare(runs["a"], runs["b"], comparison.metric).mean
        assert mean is not None
        assert comparison.line.dataset == "mean of 2 data sets"
        assert replace(comparison.line, outcome=mean.outcome) == mean


def test_metrics_of_gler_are_called_slopes() -> None:
    benchmark: Any = GLER(datasets=["mini"], limit=20)
    runs = {"a": benchmark(hash_model), "b": benchmark(other_hash_model)}

    found = compare_metrics(runs, ["accuracy", "macro_F1"])

    _title, _note, _header, first_row, second_row, *_ = str(found).splitlines()
    assert first_row.startswith("slope of accuracy ")
    assert second_row.startswith("slope of macro F1 ")
    for comparison in found.comparisons:
        assert "slope of" in comparison.conclusion
    assert [comparison["metric"] for comparison in found.to_dict()["comparisons"]] == ["accuracy", "macro_F1"]


def test_the_title_has_the_name_of_the_class_of_the_benchmark() -> None:
    benchmark: Any = PosteriorBias(datasets=["mini"], limit=20)
    runs = {"a": benchmark(hash_model), "b": benchmark(other_hash_model)}

    found = compare_metrics(runs, ["DL div.", "empirical_bias"])

    assert str(found).startswith("PosteriorBias: several metrics\n")


def test_a_metric_that_cannot_be_compared_is_counted() -> None:
    """The models predict bare labels, which have no likelihood: one test is made, but it is corrected for two."""
    benchmark: Any = Normal(datasets=["mini"], limit=60)
    first = benchmark(lambda prompt, label_space: len(prompt) // 2 % 3)
    second = benchmark(lambda prompt, label_space: len(prompt) % 3)

    found = compare_metrics({"a": first, "b": second}, ["accuracy", "averaged_truelabel_likelihood"])

    assert found.tests == 2
    (of_accuracy,) = found.comparisons
    assert any(reason.startswith("averaged_truelabel_likelihood (") for reason in found.left_out), found.left_out
    p_value = compare(first, second, "accuracy").overall.p_value
    corrected_for_two, _ = directional_holm([p_value, None])
    assert corrected_for_two != p_value
    assert of_accuracy.line.holm == corrected_for_two


@pytest.mark.parametrize("metrics", ["accuracy", ["accuracy"], ["accuracy", "accuracy"], []])
def test_two_different_metrics_are_needed(runs: dict[str, Result], metrics: Any) -> None:
    with pytest.raises(ArgumentError, match="expected two or more names, each once"):
        compare_metrics(runs, metrics)


def test_an_unknown_metric_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(UnknownNameError, match="acuracy"):
        compare_metrics(runs, ["accuracy", "acuracy"])


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "json"])
def test_every_format_has_all_metrics(runs: dict[str, Result], form: str) -> None:
    text = format_tables([compare_metrics(runs, METRICS)], form)
    for metric in METRICS:
        name = metric if form == "json" else column_head(metric)
        assert name in text, f"{form}: {name}"
