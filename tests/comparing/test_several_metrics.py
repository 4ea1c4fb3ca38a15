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

METRICS = ["accuracy", "macro_F1", "averaged_truelabel_likelihood"]


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    from tests.results.conftest import model

    def constant(prompt: Any, label_space: Any) -> list[float]:
        return [0.5, 0.25, 0.25]

    def other(prompt: Any, label_space: Any) -> list[float]:
        return model(prompt + "x", label_space)

    functions = {"hash": model, "constant": constant, "other": other}
    return {name: Normal(datasets=["mini"], limit=60)(function) for name, function in functions.items()}  # type: ignore[misc]


def test_p_values_are_those_of_each_metric_corrected_for_all(runs: dict[str, Result]) -> None:
    found = compare_metrics(runs, METRICS)
    assert found.tests == len(found.comparisons) == 9
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
    from tests.results.conftest import model

    pairs = [(f"text {number}", ("no", "yes", "maybe")[number % 3]) for number in range(100)]
    benchmark = Normal(datasets=["mini", Dataset.from_rows(pairs, name="own")], limit=20)
    runs = {"a": benchmark(model), "b": benchmark(lambda prompt, label_space: model(prompt + "x", label_space))}
    for comparison in compare_metrics(runs, METRICS).comparisons:
        mean = compare(runs["a"], runs["b"], comparison.metric).mean
        assert mean is not None
        assert comparison.line.dataset == "mean of 2 data sets"
        assert replace(comparison.line, outcome=mean.outcome) == mean


def test_scores_and_benchmarks_have_the_names_of_other_tables() -> None:
    from tests.results.conftest import model

    benchmark = GLER(datasets=["mini"], limit=20)
    runs = {"a": benchmark(model), "b": benchmark(lambda prompt, label_space: model(prompt + "x", label_space))}
    found = compare_metrics(runs, ["accuracy", "macro_F1"])
    assert [line.split()[:4] for line in str(found).splitlines()[3:5]] == [
        ["slope", "of", "accuracy", "a"],
        ["slope", "of", "macro", "F1"],
    ]
    assert [comparison for comparison in found.comparisons if "slope of" not in comparison.conclusion] == []
    assert [comparison["metric"] for comparison in found.to_dict()["comparisons"]] == ["accuracy", "macro_F1"]
    sensitivity = PosteriorBias(datasets=["mini"], limit=20)
    runs = {"a": sensitivity(model), "b": sensitivity(lambda prompt, label_space: model(prompt + "x", label_space))}
    assert str(compare_metrics(runs, ["DL div.", "empirical_bias"])).startswith("PosteriorBias: several metrics\n")


def test_a_metric_that_cannot_be_compared_is_counted(runs: dict[str, Result]) -> None:
    def label(prompt: Any, label_space: Any, shift: int = 1) -> int:
        return len(prompt) * shift // 2 % 3

    def another_label(prompt: Any, label_space: Any) -> int:
        return label(prompt, label_space, shift=2)

    labels_only = {"a": Normal(datasets=["mini"], limit=60)(label)}
    labels_only["b"] = Normal(datasets=["mini"], limit=60)(another_label)
    metrics = ["accuracy", "averaged_truelabel_likelihood"]
    both = compare_metrics(labels_only, metrics)  # type: ignore[arg-type]
    assert both.tests == 2
    (of_accuracy,) = both.comparisons
    assert any(reason.startswith("averaged_truelabel_likelihood (") for reason in both.left_out), f"got {both.left_out}"
    alone = compare(labels_only["a"], labels_only["b"], "accuracy").overall.p_value  # type: ignore[arg-type]
    assert of_accuracy.line.holm == directional_holm([alone, None])[0] != alone


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
