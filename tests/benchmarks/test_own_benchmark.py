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
from StaICC.benchmarks.benchmark import classification_scores
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


@pytest.fixture
def page(module_of_page: Path) -> Any:
    """The module of the page, with the task ``SymbolLabelsTask`` and its benchmark ``SymbolLabels``.

    The task has the conditions "names" (the prompts of Normal) and "symbols" (with symbols for labels), and averages
    their accuracies and the loss from the first to the second.
    """
    return importlib.import_module(module_of_page.stem)


PPM = load_kernel("ppm")


def always_first_label(prompt: str, label_space: Sequence[str]) -> list[float]:
    return [0.6, 0.3, 0.1]


def test_the_table_shows_each_averaged_score_of_the_page(page: Any) -> None:
    result = page.SymbolLabels(datasets=["mini"])(PPM)

    assert list(result["Averaged results"]) == ["names.accuracy", "symbols.accuracy", "loss"]
    columns = []
    for line in str(result).splitlines():
        if line.startswith("data set"):
            columns += line.split()
    assert {"names.accuracy", "symbols.accuracy", "loss"} <= set(columns)


def test_a_benchmark_of_a_module_is_made_by_its_name(module_of_page: Path, page: Any) -> None:
    benchmark = make_benchmark(f"{module_of_page.stem}:SymbolLabels", datasets=["mini"])

    assert isinstance(benchmark, page.SymbolLabels)


def test_the_conditions_of_the_page_have_baselines_and_intervals(page: Any) -> None:
    result = page.SymbolLabels(datasets=["mini"])(PPM)

    details = result.details["mini"]
    assert set(details.baselines) == {"names", "symbols"}
    assert {"names.accuracy", "symbols.accuracy"} <= set(details.intervals)
    assert set(result.means.intervals) == {"names.accuracy", "symbols.accuracy"}


def test_the_page_passes_a_strict_type_check(module_of_page: Path) -> None:
    pytest.importorskip("mypy")
    cache = str(ROOT / ".mypy_cache")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(module_of_page)]

    check = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert check.stdout.startswith("Success"), check.stdout


def test_the_benchmark_of_a_file_is_run_saved_and_reported_by_commands(
    module_of_page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands need no other file."""
    name = f"{module_of_page.stem}:SymbolLabels"

    assert main(["run", name, "--model", "ppm", "--datasets", "mini", "--output", "results"]) == 0

    assert "names.accuracy" in capsys.readouterr().out
    (result,) = Path("results").glob("*.json")
    assert main(["report", str(result), "--output", "report"]) == 0


def test_runs_of_the_page_are_compared_on_one_condition_as_runs_of_normal_are(page: Any) -> None:
    """The condition "names" has the prompts of Normal: same difference, same p-value, same direction."""
    benchmark, normal = page.SymbolLabels(datasets=["mini"]), Normal(datasets=["mini"])

    comparison = compare(benchmark(PPM), benchmark(always_first_label), "names.accuracy")

    of_normal = compare(normal(PPM), normal(always_first_label), "accuracy")
    assert comparison.higher_is_better
    assert comparison.datasets == of_normal.datasets


def test_a_comparison_on_a_condition_has_the_scores_of_both_runs(page: Any) -> None:
    benchmark = page.SymbolLabels(datasets=["mini"])
    first, second = benchmark(PPM), benchmark(always_first_label)

    comparison = compare(first, second, "symbols.accuracy")

    expected = (first.averaged["symbols.accuracy"], second.averaged["symbols.accuracy"])
    assert comparison.overall.values == pytest.approx(expected)


FIRST_SCORE = "this is the first score of the benchmark, which has no main one; others (metric): symbols.accuracy, loss"
"""What is said where no score was chosen: the first one is no choice of anybody."""


def test_a_comparison_by_the_first_score_names_the_others(page: Any) -> None:
    benchmark = page.SymbolLabels(datasets=["mini"])

    comparison = compare(benchmark(PPM), benchmark(always_first_label))

    first_line, second_line, *_ = comparison.introduction()
    assert first_line == "metric: names.accuracy (higher is better)"
    assert second_line == FIRST_SCORE


def test_a_comparison_by_a_chosen_score_names_no_others(page: Any) -> None:
    benchmark = page.SymbolLabels(datasets=["mini"])

    comparison = compare(benchmark(PPM), benchmark(always_first_label), "names.accuracy")

    assert "first score" not in str(comparison)


def test_a_comparison_by_the_main_score_of_normal_names_no_others() -> None:
    benchmark = Normal(datasets=["mini"])

    comparison = compare(benchmark(PPM), benchmark(always_first_label))

    assert "first score" not in str(comparison)


def test_a_ranking_by_the_first_score_names_the_others(page: Any) -> None:
    benchmark = page.SymbolLabels(datasets=["mini"])

    ranking = rank({"ppm": benchmark(PPM), "first label": benchmark(always_first_label)})

    assert ranking.metric == "names.accuracy"
    text_in_one_line = " ".join(str(ranking).split())
    assert f"note: {FIRST_SCORE}" in text_in_one_line
    assert ranking.to_dict()["other_metrics"] == ("symbols.accuracy", "loss")


def test_a_ranking_by_a_chosen_score_names_no_others(page: Any) -> None:
    benchmark = page.SymbolLabels(datasets=["mini"])
    runs = {"ppm": benchmark(PPM), "first label": benchmark(always_first_label)}

    assert "first score" not in str(rank(runs, "names.accuracy"))


def test_a_ranking_by_the_main_score_of_normal_names_no_others() -> None:
    benchmark = Normal(datasets=["mini"])
    runs = {"ppm": benchmark(PPM), "first label": benchmark(always_first_label)}

    assert "first score" not in str(rank(runs))


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
    """The text would be scored as in the direct channel, with the noisy channel in the signature."""
    benchmark = SingleText(datasets=["mini"], limit=2, noisy_channel=True)

    message = "Single_text/mini, condition 'single', query 0: the prompt is a single text"
    with pytest.raises(ArgumentError, match=message):
        benchmark(PPM)


def test_a_single_text_is_a_prompt_in_the_direct_channel() -> None:
    _, single = SingleText(datasets=["mini"], limit=2)[0].conditions()

    assert single.queries[0].prompt == "one text"


def test_a_score_that_only_its_benchmark_computes_has_no_paired_test() -> None:
    benchmark = SingleText(datasets=["mini"], limit=2)

    with pytest.raises(ArgumentError, match="own is a score that only the benchmark Single_text computes"):
        compare(benchmark(PPM), benchmark(PPM))


def test_a_first_score_without_a_test_names_the_scores_that_have_one(page: Any) -> None:
    class LossFirst(page.SymbolLabelsTask):  # type: ignore[name-defined, misc]
        """Averages the loss first, which has no paired test."""

        def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
            scores: Scores = super().score(outcomes, scoring)
            loss = {"loss": scores.averaged["loss"]}
            return replace(scores, averaged=loss | dict(scores.averaged))

    class SymbolLabelsWithLossFirst(page.SymbolLabels):  # type: ignore[name-defined, misc]
        task_class = LossFirst

    benchmark = SymbolLabelsWithLossFirst(datasets=["mini"], limit=8)

    message = r"no paired test for it.*others \(metric\): names.accuracy, symbols.accuracy"
    with pytest.raises(ArgumentError, match=message):
        compare(benchmark(PPM), benchmark(PPM))


class Unchanged(Share):
    """The share of the queries with the same prediction in all conditions."""

    compares_conditions = True

    def scores(self, sample: Sample, predictions: Sequence[Any]) -> list[float]:
        return [float(len(set(labels)) == 1) for labels in predictions]


def benchmark_with_reversed_demonstrations() -> Any:
    """Return the benchmark ``Reversed`` of the page: its conditions have the demonstrations in two orders.

    It averages the share of the predictions that are unchanged.
    """
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    imports_and_task = blocks[0]
    (example,) = [block for block in blocks if "class ReversedTask" in block]
    definitions, _, _ = example.partition("forward, backward = Reversed")
    names: dict[str, Any] = {"__name__": "page"}
    exec(imports_and_task + definitions, names)
    return names["Reversed"](datasets=["mini"])


def test_a_score_over_conditions_is_compared_if_it_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of unchanged predictions is the mean over the 96 rows of whether a row's predictions are equal."""
    benchmark = benchmark_with_reversed_demonstrations()
    copies_first = benchmark(partial(label_of_demonstration, position=0))
    copies_second = benchmark(partial(label_of_demonstration, position=1))
    monkeypatch.setitem(scores.SCORES, "unchanged", ScoreRecord("unchanged", "unchanged", True, Unchanged()))

    comparison = compare(copies_first, copies_second, "unchanged").overall

    first_share, second_share = copies_first.averaged["unchanged"], copies_second.averaged["unchanged"]
    assert first_share != second_share
    assert comparison.values == pytest.approx((first_share, second_share))
    assert comparison.rows == 96
    assert comparison.interval.low < first_share - second_share < comparison.interval.high


def label_of_demonstration(prompt: str, label_space: Sequence[str], position: int) -> int:
    """Predict the label of the demonstration at a position of the prompt."""
    shown = prompt.split("topic: ")[position + 1].splitlines()[0]
    return label_space.index(shown)


def test_a_benchmark_of_this_library_may_have_an_option_that_is_a_text(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification contradicted its results: it made the benchmark again from integers only.

    The benchmark of the page is registered and signed as one of this library.
    """
    monkeypatch.setattr("StaICC.benchmarks.rebuilding.BENCHMARKS", {"symbol-labels": page.SymbolLabels})
    result = page.SymbolLabels(datasets=["mini"])(PPM)
    result.signature = Signature({**result.signature.fields, "benchmark": "Symbol_labels"})

    rebuilt = rebuild(result)

    assert result.arguments["options"]["symbols"].startswith("ABC")
    assert rebuilt.arguments() == result.arguments


def benchmark_that_averages(averaged_scores: Mapping[str, float]) -> TaskBenchmark:
    """Return a benchmark with the scores "total" and "only.share" of each data set, which averages the given scores."""

    class AveragingTask(Task):
        name: ClassVar[str] = "Averaging"

        def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
            return [Condition("only", task_input.queries())]

        def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
            values: dict[str, Any] = {"total": 1.0, "only": {"share": 0.5}}
            return Scores(values, averaged_scores)

    class Averaging(TaskBenchmark):
        task_name = AveragingTask.name
        task_class = AveragingTask

    return Averaging(datasets=["mini"], limit=2)


def test_nested_and_plain_scores_are_columns_of_the_table() -> None:
    benchmark = benchmark_that_averages({"only.share": 0.5, "total": 1.0})

    result = benchmark(lambda prompt, label_space: 0)

    lines = str(result).splitlines()
    (columns,) = [line.split() for line in lines if line.startswith("data set")]
    (row,) = [line.split() for line in lines if line.startswith("mini  ")]
    assert columns == ["data", "set", "total", "only.share"]
    assert row == ["mini", "1.0000", "0.5000"]


class AccuracyOfSecondTask(Task):
    """A task whose first condition has no queries. It averages the accuracy of the second one."""

    name: ClassVar[str] = "AccuracyOfSecond"

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        return [Condition("empty", ()), Condition("all", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        values, missing = classification_scores(outcomes[1], scoring.metric_set)
        accuracy = {"accuracy": values["accuracy"]}
        return Scores(accuracy, averaged=accuracy, missing=missing)


class AccuracyOfSecond(TaskBenchmark):
    task_name = AccuracyOfSecondTask.name
    task_class = AccuracyOfSecondTask


def test_a_task_may_have_a_condition_without_queries() -> None:
    result = AccuracyOfSecond(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)

    expected = Normal(datasets=["mini"], limit=6)(lambda prompt, label_space: 0)
    assert result.averaged["accuracy"] == expected.averaged["accuracy"]


@pytest.mark.parametrize("name", ["only", "share", "other"])
def test_an_averaged_score_that_a_data_set_does_not_have_is_refused(name: str) -> None:
    """Such a score was left out of the table silently before."""
    benchmark = benchmark_that_averages({name: 1.0})

    with pytest.raises(ArgumentError, match=f"averages '{name}'.*expected one of: only.share, total"):
        benchmark(lambda prompt, label_space: 0)
