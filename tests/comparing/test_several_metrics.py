"""Comparisons by several metrics, with one correction for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from StaICC import GLER, Dataset, Normal, PosteriorBias, compare, compare_metrics
from StaICC.comparing.formats import format_tables
from StaICC.comparing.several_metrics import SeveralMetrics
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics.paired_tests import directional_holm
from StaICC.results.result import Result
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
    comparisons = compare_metrics(runs, METRICS).comparisons

    p_values_alone = []
    for comparison in comparisons:
        alone = compare(runs[comparison.first], runs[comparison.second], comparison.metric).overall
        p_values_alone.append(alone.p_value)
    assert [comparison.line.p_value for comparison in comparisons] == p_values_alone
    assert [comparison.line.holm for comparison in comparisons] == directional_holm(p_values_alone)


def test_there_is_a_test_for_each_pair_of_runs_and_each_metric(runs: dict[str, Result]) -> None:
    several = compare_metrics(runs, ["accuracy", "macro_F1", "averaged_truelabel_likelihood"])

    pairs_of_runs = 3  # of the runs "hash", "constant" and "other"
    assert several.tests == len(several.comparisons) == pairs_of_runs * 3
    assert "corrected for 9 tests" in str(several)


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


def compare_metrics_of_gler() -> SeveralMetrics:
    """Return the comparison of two models by accuracy and macro F1 in GLER, whose scores are slopes."""
    benchmark: Any = GLER(datasets=["mini"], limit=20)
    runs = {"a": benchmark(hash_model), "b": benchmark(other_hash_model)}
    return compare_metrics(runs, ["accuracy", "macro_F1"])


def test_texts_call_the_metrics_of_gler_slopes() -> None:
    several = compare_metrics_of_gler()

    _title, _note, _header, first_row, second_row, *_ = str(several).splitlines()
    assert first_row.startswith("slope of accuracy ")
    assert second_row.startswith("slope of macro F1 ")
    for comparison in several.comparisons:
        assert "slope of" in comparison.conclusion


def test_a_dictionary_has_the_keys_of_the_metrics_of_gler() -> None:
    several = compare_metrics_of_gler()

    assert [comparison["metric"] for comparison in several.to_dict()["comparisons"]] == ["accuracy", "macro_F1"]


def test_the_title_has_the_name_of_the_class_of_the_benchmark() -> None:
    benchmark: Any = PosteriorBias(datasets=["mini"], limit=20)
    runs = {"a": benchmark(hash_model), "b": benchmark(other_hash_model)}

    several = compare_metrics(runs, ["DL div.", "empirical_bias"])

    assert str(several).startswith("PosteriorBias: several metrics\n")


def test_p_values_are_corrected_for_metrics_that_cannot_be_compared_too() -> None:
    """The models predict bare labels, which have no likelihood: one test is made, but it is corrected for two."""
    benchmark: Any = Normal(datasets=["mini"], limit=60)
    first = benchmark(lambda prompt, label_space: len(prompt) // 2 % 3)
    second = benchmark(lambda prompt, label_space: len(prompt) % 3)

    several = compare_metrics({"a": first, "b": second}, ["accuracy", "averaged_truelabel_likelihood"])

    p_value = compare(first, second, "accuracy").overall.p_value
    corrected_for_two, _ = directional_holm([p_value, None])
    (accuracy,) = several.comparisons
    assert accuracy.line.holm == corrected_for_two
    assert accuracy.line.holm != p_value
    assert several.tests == 2
    assert any(reason.startswith("averaged_truelabel_likelihood (") for reason in several.left_out), several.left_out


@pytest.mark.parametrize("metrics", ["accuracy", ["accuracy"], ["accuracy", "accuracy"], []])
def test_two_different_metrics_are_needed(runs: dict[str, Result], metrics: Any) -> None:
    with pytest.raises(ArgumentError, match="expected two or more names, each once"):
        compare_metrics(runs, metrics)


def test_an_unknown_metric_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(UnknownNameError, match="acuracy"):
        compare_metrics(runs, ["accuracy", "acuracy"])


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_tables_have_the_short_names_of_all_metrics(runs: dict[str, Result], form: str) -> None:
    table = format_tables([compare_metrics(runs, ["accuracy", "macro_F1", "averaged_truelabel_likelihood"])], form)

    for short_name in ("accuracy", "macro F1", "likelihood"):
        assert short_name in table, short_name


def test_json_has_the_keys_of_all_metrics(runs: dict[str, Result]) -> None:
    text = format_tables([compare_metrics(runs, ["accuracy", "macro_F1", "averaged_truelabel_likelihood"])], "json")

    for key in ("accuracy", "macro_F1", "averaged_truelabel_likelihood"):
        assert f'"{key}"' in text, key
