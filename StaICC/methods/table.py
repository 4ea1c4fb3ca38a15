"""The table of several methods on the same benchmark, with their costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from StaICC.layout import Block, Line, TextTable
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

_COSTS = {
    "training_prompts": "train prompts",
    "training_seconds": "train s",
    "test_prompts": "test prompts",
    "seconds": "test s",
    "reused_prompts": "reused",
    "loading_seconds": "load s",
}


def _cost(result: Result, key: str) -> str:
    value, digits = result.timing.get(key), 0 if key.endswith("prompts") else 1
    return "-" if value is None else f"{value:.{digits}f}"


def _figures(result: Result) -> dict[str, str]:
    """Return the last row of a result's own table (the mean, or the only data set) by column."""
    head, rows = result_rows(result)
    figures = zip(head[1:], rows[-1][1:], strict=True)
    return {column: cell for column, cell in figures if cell and column not in _SAME_FOR_ALL}


def display_methods(results: Result | ResultGroup) -> list[Block]:
    """Return what a run with a method prints: its tables and its cost.

    Args:
        results: The results of several methods, or of one, on one benchmark or on a group.
    """
    if isinstance(results, MethodTable):
        return results.display_blocks()
    blocks = results.display_blocks()
    for result in results.results():
        costs = ", ".join(f"{head} {_cost(result, key)}" for key, head in _COSTS.items())
        blocks.append(Line(costs if isinstance(results, Result) else f"{result.benchmark}: {costs}"))
    return blocks


def _tables(results: Mapping[str, Result], titles: Mapping[str, str]) -> list[TextTable]:
    """Return the methods with their figures and costs, and their accuracies by data set."""
    figures = {name: _figures(result) for name, result in results.items()}
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    rows = []
    for name, result in results.items():
        cells = [figures[name].get(column, "-") for column in columns]
        rows.append([titles.get(name, name), *cells, *(_cost(result, key) for key in _COSTS)])
    tables = [TextTable(["method", *columns, *_COSTS.values()], rows)]
    scores = [scores for result in results.values() for scores in result.divided.values()]
    datasets = list(dict.fromkeys(dataset for result in results.values() for dataset in result.divided))
    if len(datasets) > 1 and all("accuracy" in own for own in scores):
        rows = []
        for name, result in results.items():
            values = [result.divided.get(dataset, {}).get("accuracy") for dataset in datasets]
            rows.append([titles.get(name, name), *("-" if value is None else f"{value:.4f}" for value in values)])
        tables.append(TextTable(["accuracy", *datasets], rows))
    return tables


class MethodTable(ResultGroup):
    """Results of several methods on the same prompts, by method.

    Args:
        name: Name of the group.
        parts: The results by method.
        titles: Display names of the methods.
        skipped: The reasons of the methods that could not be run.
    """

    def __init__(self, name: str, parts: Mapping[str, Any], titles: dict[str, str], skipped: dict[str, str]) -> None:
        super().__init__(name, parts)
        self.titles, self.skipped = titles, skipped
        self.shared: dict[str, float] = {}
        """Prompts that were computed for several methods together, and the seconds that this took."""

    def curve(self, score: str = "accuracy") -> list[dict[str, Any]]:
        """Return a score against the tokens that it costs.

        Args:
            score: Name of the score; its mean over the data sets counts.

        Returns:
            A row for each result: ``method``, ``benchmark``, ``prompts`` (distinct ones, training and test), ``tokens``
            (those that a run of the method alone reads, and generates at most; ``None`` where the kernel cannot count
            them), the score by its name, and the ends of its interval, ``low`` and ``high`` (``None`` without one).
        """
        rows = []
        for name, part in self.items():
            for result in part.results():
                interval = result.means.intervals.get(score)
                rows.append(
                    {
                        "method": self.titles.get(name, name),
                        "benchmark": result.benchmark,
                        "prompts": result.timing.get("training_prompts", 0) + result.timing.get("test_prompts", 0),
                        "tokens": result.timing.get("tokens_alone"),
                        score: result.averaged[score],
                        "low": None if interval is None else interval.low,
                        "high": None if interval is None else interval.high,
                    }
                )
        return rows

    def display_blocks(self) -> list[Block]:
        """Return the tables, what was left out, the models and the signatures."""
        tables = [self, *(part for part in self.values() if isinstance(part, MethodTable))]
        skipped = [f"left out: {reason}" for table in tables for reason in table.skipped.values()]
        notes = [*bracket_note(self.results()), *skipped]
        if self.shared.get("prompts"):
            shared = "computed for several runs together: {prompts:.0f} prompts in {seconds:.1f} s"
            notes.insert(0, shared.format(**self.shared))
        notes += dict.fromkeys(f"model: {result.model}" for result in self.results())
        warnings = shared_warning_lines(
            {self.titles.get(name, name): tuple(part.warnings) for name, part in self.items()}
        )
        signatures = dict.fromkeys(str(result.signature) for result in self.results())
        parts: dict[str, dict[str, Result]] = {}  # by benchmark
        for name, part in self.items():
            for member, result in part.items() if isinstance(part, ResultGroup) else [(part.benchmark, part)]:
                parts.setdefault(member, {})[name] = result
        blocks: list[Block] = []
        for member, results in parts.items():
            blocks += [Line(member, "title")] * (len(parts) > 1)
            blocks += [block for table in _tables(results, self.titles) for block in (table, Line(""))]
        signed = [Line(signature, "code") for signature in signatures]
        return [*blocks[:-1], *map(Line, notes), *signed, *warnings]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a saved table is read back as a group of results."""
        return super().to_dict() | {"skipped": self.skipped, "shared": self.shared}
