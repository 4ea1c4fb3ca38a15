"""Tables of methods: scores and cost of each."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from StaICC.results import Result, ResultGroup
from StaICC.results.table import bracket_note, format_columns, html_table, result_rows

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
    value = result.timing.get(key)
    if value is None:
        return "-"
    return f"{value:.0f}" if key.endswith("prompts") else f"{value:.1f}"


def _figures(result: Result) -> dict[str, str]:
    """Return the last row of a result's own table (the mean, or the only data set) by column."""
    head, rows = result_rows(result)
    return {
        column: cell
        for column, cell in zip(head[1:], rows[-1][1:], strict=True)
        if cell and column not in _SAME_FOR_ALL
    }


def format_methods(found: Result | ResultGroup, titles: Mapping[str, str] | None = None) -> str:
    """Return the results of methods as text.

    Args:
        found: The results by method, or the result of one.
        titles: Display names of the methods.

    Returns:
        One row for each method, its figures (means over the data sets) and its cost; then the accuracies by data set.
        For the result of one method, its own table and its cost. A :class:`MethodTable` as it prints.
    """
    if titles is None and isinstance(found, MethodTable):
        return str(found)
    titles = titles or {}
    if isinstance(found, Result):
        costs = ", ".join(f"{head} {_cost(found, key)}" for key, head in _COSTS.items())
        return f"{found}\n{costs}"
    if len({part.benchmark if isinstance(part, Result) else part.name for part in found.values()}) > 1:
        return "\n\n".join(format_methods(part, titles) for part in found.values())  # one method on several benchmarks
    if not all(isinstance(part, Result) for part in found.values()):
        return _by_part(found, titles)
    return "\n\n".join(format_columns(head, rows) for _, head, rows in _tables(dict(found.items()), titles))


def _tables(found: Mapping[str, Result], titles: Mapping[str, str]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Captions, heads and rows: the methods with their figures and costs, and their accuracies by data set."""
    figures = {name: _figures(result) for name, result in found.items()}
    columns = list(dict.fromkeys(column for row in figures.values() for column in row))
    rows = [
        [
            titles.get(name, name),
            *(figures[name].get(column, "-") for column in columns),
            *(_cost(result, key) for key in _COSTS),
        ]
        for name, result in found.items()
    ]
    tables = [("Methods", ["method", *columns, *_COSTS.values()], rows)]
    datasets = list(dict.fromkeys(name for result in found.values() for name in result.divided))
    if len(datasets) > 1 and all("accuracy" in one for result in found.values() for one in result.divided.values()):
        lines = [
            [titles.get(name, name), *(_accuracy(result, dataset) for dataset in datasets)]
            for name, result in found.items()
        ]
        tables.append(("Accuracy by data set", ["accuracy", *datasets], lines))
    return tables


def _accuracy(result: Result, dataset: str) -> str:
    value = result.divided.get(dataset, {}).get("accuracy")
    return "-" if value is None else f"{value:.4f}"


def _by_part(found: ResultGroup, titles: Mapping[str, str]) -> str:
    """One table for each part of the groups that the methods ran on."""
    groups: dict[str, Any] = {name: part for name, part in found.items() if isinstance(part, ResultGroup)}
    parts = dict.fromkeys(name for group in groups.values() for name in group)
    return "\n\n".join(
        f"{part}\n"
        + format_methods(ResultGroup(part, {n: group[part] for n, group in groups.items() if part in group}), titles)
        for part in parts
    )


class MethodTable(ResultGroup):
    """Results of several methods on the same prompts, by method.

    Args:
        name: Name of the group.
        parts: The results by method.
        titles: Display names of the methods.
        skipped: The reasons of the methods that could not be run.
    """

    def __init__(
        self,
        name: str,
        parts: Mapping[str, Result | ResultGroup],
        titles: Mapping[str, str] | None = None,
        skipped: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, parts)
        self.titles = dict(titles or {})
        self.skipped = dict(skipped or {})
        self.shared: dict[str, float] = {}
        """Prompts that were computed for several methods together, and the seconds that this took."""

    def _repr_html_(self) -> str:
        found = {name: part for name, part in self.items() if isinstance(part, Result)}
        if len(found) < len(self) or len({part.benchmark for part in found.values()}) > 1:
            return super()._repr_html_()
        tables = "".join(html_table(*table) for table in _tables(found, self.titles))
        reasons = "".join(f"<p>left out: {html.escape(reason)}</p>" for reason in self.skipped.values())
        return tables + "".join(f"<p>{note}</p>" for note in bracket_note(found.values())) + reasons

    def __str__(self) -> str:
        reasons = [*bracket_note(self.results()), *(f"left out: {reason}" for reason in self.skipped.values())]
        if self.shared.get("prompts"):
            shared = "computed for several runs together: {prompts:.0f} prompts in {seconds:.1f} s"
            reasons.insert(0, shared.format(**self.shared))
        models = dict.fromkeys(f"model: {result.model}" for result in self.results())
        signatures = dict.fromkeys(str(result.signature) for result in self.results())
        return "\n".join([format_methods(self, self.titles), *reasons, *models, *signatures])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; a saved table is read back as a group of results."""
        return super().to_dict() | {"skipped": self.skipped, "shared": self.shared}
