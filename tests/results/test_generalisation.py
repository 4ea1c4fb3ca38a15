"""The benchmark Generalisation, its variance components, comparison, figure and command."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from StaICC import Generalisation, Normal, Statistics
from StaICC.benchmarks.verify import Recomputed, verify
from StaICC.cli import main
from StaICC.errors import ArgumentError, UndefinedMetricError
from StaICC.metrics.paired_tests import holm
from StaICC.results import Result, compare, compare_generalising, load, variance_components
from StaICC.results.report import report_html, variance_chart

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


def test_another_number_of_conditions_is_refused(results: dict[str, Result]) -> None:
    result = Result.from_dict(results["guesses"].to_dict())
    result.arguments = {**result.arguments, "options": {"draws": 4, "templates": 2}}
    with pytest.raises(ArgumentError, match="12 conditions"):
        variance_components(result)


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


def test_figure_and_report_have_the_sources(results: dict[str, Result]) -> None:
    figure = variance_chart(results["one template"])
    assert figure.rows[0][2:] == ["rows", "0.0000", "-"]
    low, end = figure.rows[2].pop().split(" .. ")
    assert figure.rows[2][2:] == ["templates", end] == ["templates", "0.3333"]
    assert 0 < float(low) < 0.3
    assert "rows x draws" in figure.svg()
    assert "Sources of variance" in report_html({"guesses": results["guesses"]})
    assert len(variance_chart({name: results[name] for name in ("guesses", "others")}).rows) == 14


def test_command_prints_components_and_the_comparison(
    results: dict[str, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(tmp_path / f"{name}.json") for name in ("guesses", "others")]
    for path, name in zip(paths, ("guesses", "others"), strict=True):
        results[name].save(path)
    assert main(["components", paths[0]]) == 0
    printed = capsys.readouterr().out
    assert "over rows, draws, templates" in printed
    (line,) = variance_components(results["guesses"]).lines
    low, high = line.deviations[-1][1] or (0.0, 0.0)
    assert f"{low:.3f} .. {high:.3f}" in printed
    assert main(["components", paths[0], "--json"]) == 0
    (saved,) = json.loads(capsys.readouterr().out)["components"]["guesses"]
    of_rest = saved["component_intervals"]["rest"]
    assert of_rest == pytest.approx([end**2 * 30 * 12 for end in (low, high)])
    assert of_rest[0] < saved["components"]["rest"] < of_rest[1]
    assert main(["components", *paths]) == 0
    assert capsys.readouterr().out.count("over rows, draws and templates") >= 1
    Normal(datasets=["mini"], limit=5, statistics=Statistics(intervals=False))(guessing("a")).save(tmp_path / "n.json")
    assert main(["components", str(tmp_path / "n.json")]) == 2
    assert "run generalisation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"templates": 10}, "at most 9"), ({"draws": 1}, "draws"), ({"templates": 1}, "templates")],
)
def test_too_few_or_too_many_levels(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Generalisation(datasets=["mini"], **arguments)


def test_demonstrations_of_each_row_are_no_draws() -> None:
    with pytest.raises(ArgumentError, match="nested-shared"):
        Generalisation(datasets=["mini"], sampler="default")[0].conditions()
    manual = Generalisation(datasets=["mini"], limit=4)
    manual[0].set_demonstration_sampler([[0, 1, 2, 3]] * 96)
    with pytest.raises(ArgumentError, match="draw"):
        manual[0].conditions()


def test_means_over_data_sets_have_a_line() -> None:
    benchmark = Generalisation(datasets=["mini", "AGNews"], limit=20)
    truth = {query.prompt: query.label for part in benchmark for one in part.conditions() for query in one.queries}
    result = benchmark(guessing("a"))
    found = variance_components(result)
    assert [line.dataset for line in found.lines] == ["mini", "AGNews", "mean"]
    assert found.mean is not None
    assert found.mean.value == pytest.approx(result["Averaged results"]["accuracy"])
    assert found.mean.fixed == result.means.intervals["accuracy"]
    comparison = compare_generalising(result, benchmark(lambda prompt, label_space: truth[prompt]))
    assert [line.dataset for line in comparison.datasets] == ["mini", "AGNews"]
    p_values = [line.p_value for line in comparison.datasets]
    assert None not in p_values
    assert [line.holm for line in comparison.datasets] == holm(p_values)
    assert comparison.mean is not None
    assert comparison.mean.holm == comparison.mean.p_value
