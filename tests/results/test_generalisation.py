"""The benchmark Generalisation, its variance components, comparison, figure and command."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from StaICC import Generalisation
from StaICC.benchmarks.verify import Recomputed, verify
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.results import Result, compare, compare_generalising, load, variance_components
from StaICC.results.generalisation import components_of
from StaICC.results.report import variance_chart

Model = Callable[[Any, Sequence[str]], int]


def guessing(name: str) -> Model:
    """A model whose predictions are a digest of the prompt."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        return hashlib.sha256((name + prompt).encode()).digest()[0] % len(label_space)

    return predict


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    benchmark = Generalisation(datasets=["mini"], limit=30)
    truth = {query.prompt: query.label for part in benchmark[0].conditions() for query in part.queries}
    first = benchmark[0].conditions()[0].queries
    instruction = {query.prompt for part in benchmark[0].conditions()[::3] for query in part.queries}

    def one_template(prompt: Any, label_space: Sequence[str]) -> int:
        return (truth[prompt] + (prompt not in instruction)) % 3

    assert len(first) == 30
    return {
        "guesses": benchmark(guessing("a")),
        "others": benchmark(guessing("b")),
        "one template": benchmark(one_template),
        "right": benchmark(lambda prompt, label_space: truth[prompt]),
    }


def test_every_row_has_all_pairs_of_a_shared_list_and_a_template() -> None:
    experimentor = Generalisation(datasets=["mini"], limit=5, draws=3, templates=4)[0]
    conditions = experimentor.conditions()
    assert [len(condition.queries) for condition in conditions] == [5] * 12
    assert len({query.prompt for condition in conditions for query in condition.queries}) == 60
    lists = experimentor.demonstration_lists()
    assert len(set(lists)) == 3
    assert Counter(query.last_label for query in conditions[0].queries).total() == 5
    assert len({query.last_label for query in conditions[0].queries}) == 1
    texts = [condition.queries[0].prompt for condition in conditions[:4]]
    assert len({text.split("\n")[0] for text in texts}) > 1


def test_a_larger_limit_adds_test_rows_and_changes_no_prompt() -> None:
    prompts = []
    for limit in (None, 130):
        benchmark = Generalisation(datasets=["AGNews"], limit=limit, draws=2, templates=2)
        prompts.append([query.prompt for query in benchmark[0].conditions()[3].queries])
    assert [len(of_limit) for of_limit in prompts] == [128, 130]
    assert prompts[0] == prompts[1][:128]
    result = benchmark(guessing("a"))
    assert "rows=130" in str(result.signature)
    assert variance_components(result).lines[0].effects.sizes == (130, 2, 2)
    assert all(finding.status == Recomputed() for finding in verify(result))
    with pytest.raises(ArgumentError, match="limit"):
        Generalisation(datasets=["mini"], limit="many")  # type: ignore[arg-type]


def test_the_score_is_the_mean_accuracy_of_the_conditions(results: dict[str, Result]) -> None:
    result = results["guesses"]
    details = result.details["mini"]
    means = [
        fmean(truth == label for truth, label in zip(record.truth, record.predictions, strict=True))
        for record in details.conditions
    ]
    assert result["Averaged results"]["accuracy"] == pytest.approx(fmean(means))
    assert details.asked == details.distinct == 30 * 12
    (line,) = variance_components(result).lines
    assert line.fixed == details.intervals["accuracy"]
    assert line.generalising.low <= line.fixed.low < line.value < line.fixed.high <= line.generalising.high
    assert variance_components(result, 0.9).lines[0].fixed.high < line.fixed.high


def test_a_model_that_knows_one_template_only(results: dict[str, Result]) -> None:
    effects = variance_components(results["one template"]).lines[0].effects
    assert effects.components["templates"] == pytest.approx(1 / 3)
    assert effects.components["rows"] == pytest.approx(0)
    interval = variance_components(results["one template"]).lines[0].generalising
    assert interval.high - interval.low > 0.9
    both = copy.copy(results["one template"])
    both.details = dict.fromkeys(("one", "two"), both.details["mini"])
    assert components_of(both).shared == pytest.approx(1 / 3)  # equal data sets share all of it
    comparison = compare_generalising(results["right"], results["one template"])
    fixed = compare(results["right"], results["one template"]).overall
    assert fixed.p_value is not None
    assert fixed.p_value < 1e-4
    assert comparison.overall.p_value is not None
    assert comparison.overall.p_value > 0.05


def test_comparison_starts_from_that_with_fixed_levels(results: dict[str, Result]) -> None:
    comparison = compare_generalising(results["right"], results["guesses"])
    line, fixed = comparison.overall, compare(results["right"], results["guesses"]).overall
    assert (line.difference, line.rows, line.values) == (fixed.difference, fixed.rows, fixed.values)
    assert line.p_value is not None
    assert line.interval is not None
    assert fixed.interval is not None
    assert line.interval.low <= fixed.interval.low < fixed.interval.high <= line.interval.high
    assert fixed.p_value is not None
    assert fixed.p_value <= line.p_value < 0.001
    assert line.holm == line.p_value
    same = compare_generalising(results["right"], results["right"]).overall
    assert same.p_value in (None, 1.0)


def failing(queries: set[Any]) -> Model:
    """A model that fails for some prompts."""

    def predict(prompt: Any, label_space: Sequence[str]) -> int:
        if prompt in queries:
            raise ValueError("no reply")
        return len(prompt) % 3

    return predict


def test_rows_without_a_prediction_count_for_the_accuracy_only() -> None:
    benchmark = Generalisation(datasets=["mini"], limit=10)
    conditions = benchmark[0].conditions()
    result = benchmark(failing({conditions[4].queries[3].prompt}), on_error="collect")
    found = variance_components(result)
    (line,) = found.lines
    assert found.left_out == {"mini": 1}
    assert line.effects.sizes == (9, 4, 3)
    assert line.value == pytest.approx(result["Averaged results"]["accuracy"])
    assert line.fixed == result.details["mini"].intervals["accuracy"]
    of_row = {query.prompt for condition in conditions for query in condition.queries[:1]}
    assert variance_components(benchmark(failing(of_row), on_error="collect")).left_out == {"mini": 1}
    rows = {query.prompt for query in conditions[0].queries[1:]}
    with pytest.raises(UndefinedMetricError, match="mini: 1 of 10 test rows"):
        variance_components(benchmark(failing(rows), on_error="collect"))


def test_a_saved_result_is_verified_and_has_the_same_components(results: dict[str, Result], tmp_path: Path) -> None:
    results["guesses"].save(tmp_path / "a.json")
    loaded = load(tmp_path / "a.json")
    assert isinstance(loaded, Result)
    assert variance_components(loaded) == variance_components(results["guesses"])
    assert all(finding.status == Recomputed() for finding in verify(loaded))


def test_intervals_of_the_sources_in_table_json_and_figure(results: dict[str, Result]) -> None:
    components = variance_components(results["guesses"])
    (line,) = components.lines
    low, high = line.deviations[-1][1] or (0.0, 0.0)
    assert components.table()[1][1][-1] == f"{low:.3f} .. {high:.3f}"
    saved = line.to_dict()
    of_rest = saved["component_intervals"]["rest"]
    assert of_rest == pytest.approx([end**2 * 30 * 12 for end in (low, high)])
    assert of_rest[0] < saved["components"]["rest"] < of_rest[1]
    figure = variance_chart(results["one template"])
    assert figure.rows[0][2:] == ["rows", "0.0000", "-"]
    low_text, end = figure.rows[2][-1].split(" .. ")
    assert [*figure.rows[2][2:4], end] == ["templates", "0.3333", "0.333"]
    assert 0 < float(low_text) < 0.3
    assert variance_components(results["one template"]).table()[1][1][5] == "undefined"
    assert "rows x draws" in figure.svg()
    assert len(variance_chart({name: results[name] for name in ("guesses", "others")}).rows) == 14
