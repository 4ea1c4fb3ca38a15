"""A benchmark of one's own, written by docs/adding_a_benchmark.md: its scores, its table, its types, its commands."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from StaICC import Condition, Normal, Outcome, Scores, Scoring, Task, TaskBenchmark, TaskInput, load_kernel
from StaICC.benchmarks.builtin import make_benchmark
from StaICC.benchmarks.rebuilding import rebuild
from StaICC.cli import main
from StaICC.comparing.comparison import compare
from StaICC.comparing.ranking import rank
from StaICC.errors import ArgumentError
from StaICC.metrics import scores
from StaICC.metrics.scores import ScoreRecord
from StaICC.metrics.statistics import Sample, Share
from StaICC.results.signature import Signature

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding_a_benchmark.md"


@pytest.fixture
def module_of_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one file, the task and the benchmark of the page; it is on the search path of modules."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    task, benchmark, *_ = blocks
    file = tmp_path / "symbol_labels_of_page.py"
    file.write_text(task + benchmark, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, file.stem, raising=False)
    return file


def test_the_table_shows_each_averaged_score_of_the_page(module_of_page: Path) -> None:
    benchmark = make_benchmark(f"{module_of_page.stem}:SymbolLabels", datasets=["mini"])
    result = benchmark(load_kernel("ppm"))
    scores = list(result["Averaged results"])
    assert scores == ["names.accuracy", "symbols.accuracy", "loss"]
    table_heads = [line for line in str(result).splitlines() if line.startswith("data set")]
    assert [score for score in scores if not any(score in heads.split() for heads in table_heads)] == []


def test_the_conditions_of_the_page_have_baselines_and_intervals(module_of_page: Path) -> None:
    benchmark = make_benchmark(f"{module_of_page.stem}:SymbolLabels", datasets=["mini"])
    result = benchmark(load_kernel("ppm"))
    assert set(result.details["mini"].baselines) == {"names", "symbols"}
    assert {"names.accuracy", "symbols.accuracy"} <= set(result.details["mini"].intervals)
    assert set(result.means.intervals) == {"names.accuracy", "symbols.accuracy"}


def test_the_page_passes_a_strict_type_check(module_of_page: Path) -> None:
    pytest.importorskip("mypy")
    check = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(module_of_page)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.stdout.startswith("Success"), check.stdout


def test_the_commands_need_no_other_file(module_of_page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file on Python's path: it runs, its result is saved, shown and reported."""
    name = f"{module_of_page.stem}:SymbolLabels"
    assert main(["run", name, "--model", "ppm", "--datasets", "mini", "--output", "results"]) == 0
    assert "names.accuracy" in capsys.readouterr().out
    (result,) = Path("results").glob("*.json")
    assert main(["report", str(result), "--output", "report"]) == 0


def test_runs_of_the_page_are_compared_on_one_condition_as_runs_of_normal_are(module_of_page: Path) -> None:
    """The condition "names" has the prompts of Normal: same difference, same p-value, same direction."""
    page = importlib.import_module(module_of_page.stem)
    models = {"ppm": load_kernel("ppm"), "first label": lambda prompt, label_space: [0.6, 0.3, 0.1]}
    of_page = [page.SymbolLabels(datasets=["mini"])(model) for model in models.values()]
    of_normal = [Normal(datasets=["mini"])(model) for model in models.values()]
    own = compare(*of_page, "names.accuracy")
    expected = compare(*of_normal, "accuracy")
    assert own.higher_is_better
    assert own.datasets == expected.datasets
    on_symbols = compare(*of_page, "symbols.accuracy").overall
    saved = [result["Averaged results"]["symbols.accuracy"] for result in of_page]
    assert list(on_symbols.values) == pytest.approx(saved)


def test_a_comparison_by_the_first_score_names_the_others(module_of_page: Path) -> None:
    """A benchmark of one's own has no main score, so the first one is no choice of anybody."""
    page = importlib.import_module(module_of_page.stem)
    models = [load_kernel("ppm"), lambda prompt, label_space: [0.6, 0.3, 0.1]]
    runs = [page.SymbolLabels(datasets=["mini"])(model) for model in models]
    first_line, second_line, *_ = compare(*runs).introduction()
    assert first_line == "metric: names.accuracy (higher is better)"
    assert second_line == (
        "this is the first score of the benchmark, which has no main one; others (metric): symbols.accuracy, loss"
    )
    of_normal = [Normal(datasets=["mini"])(model) for model in models]
    for chosen in (compare(*runs, "names.accuracy"), compare(*of_normal)):
        assert "first score" not in str(chosen)


def test_a_ranking_by_the_first_score_names_the_others(module_of_page: Path) -> None:
    page = importlib.import_module(module_of_page.stem)
    models = {"ppm": load_kernel("ppm"), "first label": lambda prompt, label_space: [0.6, 0.3, 0.1]}
    runs = {name: page.SymbolLabels(datasets=["mini"])(model) for name, model in models.items()}
    note = "this is the first score of the benchmark, which has no main one; others (metric): "
    ranking = rank(runs)
    assert ranking.metric == "names.accuracy"
    assert f"note: {note}symbols.accuracy, loss" in " ".join(str(ranking).split())
    assert ranking.to_dict()["other_metrics"] == ("symbols.accuracy", "loss")
    of_normal = {name: Normal(datasets=["mini"])(model) for name, model in models.items()}
    for chosen in (rank(runs, "names.accuracy"), rank(of_normal)):
        assert "first score" not in str(chosen)


class SingleTextTask(Task):
    """Writes one text for each query, in both channels."""

    name: ClassVar[str] = "Single_text"

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        queries = [replace(query, prompt="one text") for query in task_input.queries()]
        return [Condition("written", task_input.queries()), Condition("single", queries)]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        return Scores({"own": 0.5}, {"own": 0.5})


class SingleText(TaskBenchmark):
    task_name: ClassVar[str] = SingleTextTask.name
    task_class: ClassVar[type[Task]] = SingleTextTask


def test_a_single_text_is_refused_in_the_noisy_channel() -> None:
    """It would be scored as in the direct channel, with the noisy channel in the signature."""
    assert SingleText(datasets=["mini"], limit=2)[0].conditions()[1].queries[0].prompt == "one text"
    with pytest.raises(
        ArgumentError, match="Single_text/mini, condition 'single', query 0: the prompt is a single text"
    ):
        SingleText(datasets=["mini"], limit=2, noisy_channel=True)(load_kernel("ppm"))


def test_a_first_score_without_a_test_names_the_scores_that_have_one(module_of_page: Path) -> None:
    runs = [SingleText(datasets=["mini"], limit=2)(load_kernel("ppm")) for _ in range(2)]
    with pytest.raises(ArgumentError, match="own is a score that only the benchmark Single_text computes"):
        compare(*runs)
    page = importlib.import_module(module_of_page.stem)

    class LossFirst(page.SymbolLabelsTask):  # type: ignore[name-defined, misc]
        def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
            scores: Scores = super().score(outcomes, scoring)
            loss = {"loss": scores.averaged["loss"]}
            return replace(scores, averaged=loss | dict(scores.averaged))

    class Reordered(page.SymbolLabels):  # type: ignore[name-defined, misc]
        task_class = LossFirst

    runs = [Reordered(datasets=["mini"], limit=8)(load_kernel("ppm")) for _ in range(2)]
    with pytest.raises(
        ArgumentError, match=r"no paired test for it.*others \(metric\): names.accuracy, symbols.accuracy"
    ):
        compare(*runs)


class Unchanged(Share):
    """The share of the queries with the same prediction in all conditions."""

    compares_conditions = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        return [float(len(set(labels)) == 1) for labels in predictions]


def test_a_score_over_conditions_is_compared_if_it_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of unchanged predictions, of the task of the page: its difference and the interval are computed."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    (example,) = [block for block in blocks if "class ReversedTask" in block]
    names: dict[str, Any] = {"__name__": "page"}
    exec(blocks[0] + example.partition("forward, backward = Reversed")[0], names)
    runs = []
    for position in (0, 1):  # the label of the first demonstration, or of the second one
        model = partial(label_of_demonstration, position=position)
        runs.append(names["Reversed"](datasets=["mini"])(model))
    monkeypatch.setitem(scores.SCORES, "unchanged", ScoreRecord("unchanged", "unchanged", True, Unchanged()))
    comparison = compare(*runs, "unchanged").overall
    values = [run.averaged["unchanged"] for run in runs]
    assert len(set(values)) == 2
    assert list(comparison.values) == pytest.approx(values)
    assert comparison.rows == 96
    assert comparison.interval.low < values[0] - values[1] < comparison.interval.high


def label_of_demonstration(prompt: str, label_space: Sequence[str], position: int) -> int:
    shown = prompt.split("topic: ")[position + 1].splitlines()[0]
    return label_space.index(shown)


def test_a_benchmark_of_this_library_may_have_an_option_that_is_a_text(
    module_of_page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification contradicted its results: it made the benchmark again from integers only."""
    page = importlib.import_module(module_of_page.stem)
    monkeypatch.setattr("StaICC.benchmarks.rebuilding.BENCHMARKS", {"symbol-labels": page.SymbolLabels})
    result = page.SymbolLabels(datasets=["mini"])(load_kernel("ppm"))
    result.signature = Signature({**result.signature.fields, "benchmark": "Symbol_labels"})  # as one of this library
    assert result.arguments["options"]["symbols"].startswith("ABC")
    assert rebuild(result).arguments() == result.arguments


class _AveragingTask(Task):
    """Averages the scores that a test names."""

    name: ClassVar[str] = "Averaging"
    averaged: ClassVar[Mapping[str, float]] = {}

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        return [Condition("only", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        values: dict[str, Any] = {"total": 1.0, "only": {"share": 0.5}}
        return Scores(values, self.averaged)


def averaging(**scores: float) -> TaskBenchmark:
    class Averaging(TaskBenchmark):
        task_name = _AveragingTask.name
        task_class = type("AveragingTask", (_AveragingTask,), {"averaged": scores})

    return Averaging(datasets=["mini"], limit=2)


def test_nested_and_plain_scores_are_columns_and_means() -> None:
    result = averaging(**{"only.share": 0.5, "total": 1.0})(lambda prompt, label_space: 0)
    heads, row = (line.split() for line in str(result).splitlines() if line.startswith(("data set", "mini  ")))
    assert heads == ["data", "set", "total", "only.share"]
    assert row == ["mini", "1.0000", "0.5000"]


def test_an_averaged_score_that_a_data_set_does_not_have_is_refused() -> None:
    """It was left out of the table without a word."""
    for name in ("only", "share", "other"):
        with pytest.raises(ArgumentError, match=f"averages '{name}'.*expected one of: only.share, total"):
            averaging(**{name: 1.0})(lambda prompt, label_space: 0)
