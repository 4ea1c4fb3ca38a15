"""The table of several methods on the same benchmark, with their costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.layout import Block, Line, TextTable
from StaICC.methods.costs import (
    LABELLED_IN_TRAINING,
    LABELLED_PER_QUERY,
    PROMPTS,
    REUSED_PROMPTS,
    SECONDS,
    TOKENS_ALONE,
)
from StaICC.results.remarks import bracket_note
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import Sweep
from StaICC.results.table import result_rows, shared_warning_lines

OF_METHODS = Sweep(
    "Methods",
    lambda part, result: result.method == part or result.method.startswith((f"{part} ", f"{part}@")),
    ("method", "channel", "repeats", "demonstrations", "template", "scoring", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of several methods with one model (:func:`run_all`)."""
OF_SHOTS = Sweep(
    "Many-shot",
    lambda part, result: part == f"k={result.signature.fields.get('k')}",
    ("k", "demonstrations", "template", "prompts", "failed"),
    ("skipped", "shared"),
)
"""The results of a method at several ``k`` (:func:`run_many_shot`)."""

_SAME_FOR_ALL = ("random", "majority")
"""Columns of a result's own table that are equal for all methods."""


@dataclass(frozen=True)
class _CostColumn:
    """A column of the table of methods: a cost of ``result.timing``."""

    cost: str
    """Its name in ``timing``."""
    head: str
    """The head of the column."""
    decimals: int
    """How many decimals are shown."""

    def cell(self, result: Result) -> str:
        """Return the cost of a result as text, ``-`` if it is unknown."""
        value = result.timing.get(self.cost)
        return "-" if value is None else f"{value:.{self.decimals}f}"


COST_COLUMNS = (
    _CostColumn(PROMPTS["training"], "train prompts", 0),
    _CostColumn(SECONDS["training"], "train s", 1),
    _CostColumn(PROMPTS["test"], "test prompts", 0),
    _CostColumn(SECONDS["test"], "test s", 1),
    _CostColumn(REUSED_PROMPTS, "reused", 0),
    _CostColumn(SECONDS["loading"], "load s", 1),
    _CostColumn(LABELLED_PER_QUERY, "labelled/query", 1),
    _CostColumn(LABELLED_IN_TRAINING, "labelled train", 0),
)
"""The costs that the table of methods shows."""


def _figures(result: Result) -> dict[str, str]:
    """Return the scores of a result as texts, by column of its own table.

    They are in the last row of this table: the mean over data sets, or the only data set. Its first cell is the name.
    """
    columns, rows = result_rows(result)
    last_row = rows[-1]
    figures = {}
    for column, cell in zip(columns[1:], last_row[1:], strict=True):
        if cell and column not in _SAME_FOR_ALL:
            figures[column] = cell
    return figures


def display_methods(results: Result | ResultGroup) -> list[Block]:
    """Return what a run with methods prints: the tables of the results, and their costs.

    Args:
        results: A table of several methods; or the result of one method on a benchmark, or on a group of benchmarks.
    """
    blocks = results.display_blocks()
    if isinstance(results, MethodTable):
        return blocks  # its tables have a column for each cost
    for result in results.results():
        costs = ", ".join(f"{column.head} {column.cell(result)}" for column in COST_COLUMNS)
        if isinstance(results, ResultGroup):
            costs = f"{result.benchmark}: {costs}"
        blocks.append(Line(costs))
    return blocks


def _tables(results: Mapping[str, Result], titles: Mapping[str, str]) -> list[TextTable]:
    """Return the tables of methods on a benchmark: of their scores and costs, and of their accuracies by data set.

    Args:
        results: The result of each method.
        titles: Display names of the methods.
    """
    figures_by_method = {name: _figures(result) for name, result in results.items()}
    figure_columns: dict[str, None] = {}  # those of all methods, each once, in their order
    for figures in figures_by_method.values():
        figure_columns.update(dict.fromkeys(figures))

    rows = []
    for name, result in results.items():
        scores = [figures_by_method[name].get(column, "-") for column in figure_columns]
        costs = [column.cell(result) for column in COST_COLUMNS]
        rows.append([titles.get(name, name), *scores, *costs])
    cost_heads = [column.head for column in COST_COLUMNS]
    tables = [TextTable(["method", *figure_columns, *cost_heads], rows)]
    accuracies = _accuracy_table(results, titles)
    if accuracies is not None:
        tables.append(accuracies)
    return tables


def _accuracy_table(results: Mapping[str, Result], titles: Mapping[str, str]) -> TextTable | None:
    """Return the table of the accuracies of methods by data set.

    Args:
        results: The result of each method. ``result.divided`` has the scores of each data set.
        titles: Display names of the methods.

    Returns:
        A row for each method; ``None`` if there is one data set only, or a data set has no accuracy.
    """
    datasets: dict[str, None] = {}  # those of all results, each once, in their order
    for result in results.values():
        datasets.update(dict.fromkeys(result.divided))
        for scores in result.divided.values():
            if "accuracy" not in scores:
                return None
    if len(datasets) < 2:
        return None
    rows = []
    for name, result in results.items():
        row = [titles.get(name, name)]
        for dataset in datasets:
            accuracy = result.divided.get(dataset, {}).get("accuracy")
            row.append("-" if accuracy is None else f"{accuracy:.4f}")
        rows.append(row)
    return TextTable(["accuracy", *datasets], rows)


class MethodTable(ResultGroup):
    """Results of several methods on the same prompts, by method.

    Args:
        name: Name of the group.
        parts: The results by method.
        titles: Display names of the methods.
        skipped: The reasons of the methods that could not be run.
    """

    def __init__(self, name: str, parts: Mapping[str, Any], titles: dict[str, str], skipped: dict[str, str]) -> None:
        """Make a table of the results so far; the description of the class explains the arguments."""
        super().__init__(name, parts)
        self.titles = titles
        self.skipped = skipped
        self.shared: dict[str, float] = {}
        """Prompts that were computed for several methods together, and the seconds that this took."""

    def curve(self, score: str = "accuracy") -> list[dict[str, Any]]:
        """Return for each result a score and the tokens that it costs, as for a curve of both.

        Args:
            score: Name of the score; its mean over the data sets counts.

        Returns:
            A row for each result: ``method`` (its name in this table), ``title``, ``benchmark``, ``prompts`` (distinct
            ones, training and test), ``tokens`` (those that a run of the method alone reads, and generates at most;
            ``None`` where the kernel cannot count them), the score by its name, and the ends of its interval, ``low``
            and ``high`` (``None`` without one).
        """
        rows = []
        for name, result_or_group in self.items():
            for result in result_or_group.results():
                prompts = sum(result.timing.get(name_in_timing, 0) for name_in_timing in PROMPTS.values())
                interval = result.means.intervals.get(score)
                rows.append(
                    {
                        "method": name,
                        "title": self.titles.get(name, name),
                        "benchmark": result.benchmark,
                        "prompts": prompts,
                        "tokens": result.timing.get(TOKENS_ALONE),
                        score: result.averaged[score],
                        "low": None if interval is None else interval.low,
                        "high": None if interval is None else interval.high,
                    }
                )
        return rows

    def display_blocks(self) -> list[Block]:
        """Return the tables of each benchmark, the notes below them, the signatures and the warnings."""
        blocks: list[Block] = []
        results_by_benchmark = self._by_benchmark()
        for benchmark, results in results_by_benchmark.items():
            if len(results_by_benchmark) > 1:
                blocks.append(Line(benchmark, "title"))
            for table in _tables(results, self.titles):
                blocks += [table, Line("")]
        blocks = blocks[:-1]  # no empty line after the last table

        blocks += [Line(note) for note in self._notes()]
        signatures = dict.fromkeys(str(result.signature) for result in self.results())
        blocks += [Line(signature, "code") for signature in signatures]
        warnings_by_title = {self.titles.get(name, name): tuple(part.warnings) for name, part in self.items()}
        blocks += shared_warning_lines(warnings_by_title)
        return blocks

    def _notes(self) -> list[str]:
        """Return what the tables do not say: shared costs, what brackets mean, what was left out, the models."""
        notes = []
        if self.shared.get("prompts"):
            shared_prompts = self.shared["prompts"]
            shared_seconds = self.shared["seconds"]
            notes.append(f"computed for several runs together: {shared_prompts:.0f} prompts in {shared_seconds:.1f} s")
        notes += bracket_note(self.results())
        notes += [f"left out: {reason}" for reason in self._reasons()]
        notes += dict.fromkeys(f"model: {result.model}" for result in self.results())
        return notes

    def _reasons(self) -> list[str]:
        """Return why methods were left out of this table, and of the tables of groups in it."""
        reasons = list(self.skipped.values())
        for result_or_group in self.values():
            if isinstance(result_or_group, MethodTable):
                reasons += result_or_group.skipped.values()
        return reasons

    def _by_benchmark(self) -> dict[str, dict[str, Result]]:
        """Return the results by benchmark, then by method. On a group, a method has a result for each benchmark."""
        results: dict[str, dict[str, Result]] = {}
        for name, result_or_group in self.items():
            if isinstance(result_or_group, ResultGroup):
                for benchmark, result in result_or_group.items():
                    results.setdefault(benchmark, {})[name] = result
            else:
                results.setdefault(result_or_group.benchmark, {})[name] = result_or_group
        return results

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a saved table is read back as a group of results."""
        return super().to_dict() | {"skipped": self.skipped, "shared": self.shared}
