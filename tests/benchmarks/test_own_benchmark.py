"""A benchmark of one's own, written by docs/adding_a_benchmark.md: its scores, its table, its types, its commands."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
