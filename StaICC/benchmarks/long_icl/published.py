"""The published tables of LongICL, and comparisons of a result with them.

Tables 3 to 6 of the paper (BANKING77, TACRED, DialogRE, Discovery) are part of the library's published figures
(:mod:`StaICC.results.published`, ``long_icl.json``), as printed, in percent, with warnings about their errors.
This module shows the full tables. The figures of GoEmotions and Few-NERD (appendix of the paper) are not included.

A comparison lists what makes it unfair: another variant, another number of items, label scores instead of text, files
that are not verified.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.long_icl.aggregate import round_name
from StaICC.benchmarks.long_icl.data.cards import ROUNDS, card
from StaICC.errors import ArgumentError
from StaICC.results import Result
from StaICC.results.table import format_columns

__all__ = [
    "ComparedTable",
    "PublishedComparison",
    "PublishedRow",
    "PublishedTable",
    "compare_with_published",
    "published_tables",
]

_UNITS = {"": 1, "K": 1_000, "M": 1_000_000}


def _tokens(text: str | None) -> int | None:
    """Read a number of tokens such as ``32K``."""
    found = re.fullmatch(r"(\d+)([KM]?)", text or "")
    return int(found[1]) * _UNITS[found[2]] if found else None


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One model of a published table."""

    model: str
    params: str | None
    """Size as printed, such as ``7B``."""
    support: str | None
    """Context length of the model, as printed, such as ``32K``."""
    figures: tuple[float | None, ...]
    """Scores of rounds 1 to 5 in percent; None for an empty cell."""
    single: float | None
    """A single score of the row without a round."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One published table."""

    dataset: str
    source: str
    metric: str
    context_tokens: tuple[str, ...]
    """Length of the contexts of rounds 1 to 5, as printed."""
    warnings: tuple[str, ...]
    """Errors and ambiguities of the table."""
    rows: tuple[PublishedRow, ...]

    def too_long(self, row: PublishedRow, number: int) -> bool:
        """Return whether the context of a round exceeds the context length of the model, according to the table."""
        context, support = _tokens(self.context_tokens[number - 1]), _tokens(row.support)
        return context is not None and support is not None and context > support


@functools.cache
def _document() -> Mapping[str, Any]:
    text = (importlib.resources.files("StaICC.results.published") / "long_icl.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    return document


def published_tables() -> dict[str, PublishedTable]:
    """Return the published tables by data set.

    Example:
        >>> table = published_tables()["banking77"]
        >>> next(row for row in table.rows if row.model == "Mistral-7B-v0.2-base").figures
        (29.8, 43.6, 66.4, 67.8, 64.0)
    """
    return {
        one["dataset"]: PublishedTable(
            one["dataset"],
            one["source"],
            one["metric"],
            tuple(one["context_tokens"]),
            tuple(one["warnings"]),
            tuple(PublishedRow(**{**row, "figures": tuple(row["figures"])}) for row in one["rows"]),
        )
        for one in _document()["tables"]
    }


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A published table with a result's scores."""

    published: PublishedTable
    name: str
    """Name of the run."""
    figures: tuple[float | None, ...]
    """Scores of the run in percent, for rounds 1 to 5; None if undefined."""
    uniform: float | None
    """Expected score of uniform guessing, in percent."""
    caveats: tuple[str, ...]
    """Differences between the run and the published runs."""

    def __str__(self) -> str:
        table, rounds = self.published, range(1, ROUNDS + 1)
        head = [table.dataset, *map(round_name, rounds), "size", "supports"]
        rows = [["(context)", *table.context_tokens, "", ""]]
        for row in table.rows:
            cells = [_figure(value, table.too_long(row, i + 1)) for i, value in enumerate(row.figures)]
            model = row.model if row.single is None else f"{row.model}: {row.single}"
            rows.append([model, *(cells if row.single is None else [""] * ROUNDS), row.params or "", row.support or ""])
        if self.uniform is not None:
            rows.append(["(uniform guessing)", *[f"{self.uniform:.1f}"] * ROUNDS, "", ""])
        rows.append([self.name, *map(_figure, map(_rounded, self.figures)), "", ""])
        title = f"{card(table.dataset).title}, {table.metric} in percent; published: {table.source}"
        return "\n".join([title, format_columns(head, rows), *self.caveats, *table.warnings])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _figure(value: float | None, too_long: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:g}*" if value == 0 and too_long else str(value)


@dataclass(frozen=True, slots=True)
class PublishedComparison:
    """The comparison of a result with the published tables."""

    source: str
    warnings: tuple[str, ...]
    """Warnings about all tables."""
    tables: tuple[ComparedTable, ...]
    without: tuple[str, ...]
    """Data sets of the result without published figures."""

    def __str__(self) -> str:
        parts = [str(table) for table in self.tables]
        if self.without:
            listed = ", ".join(card(name).title for name in self.without)
            parts.append(f"No published figures are included for {listed}.")
        return "\n\n".join([*parts, "\n".join([f"Source: {self.source}", *self.warnings])])


def compare_with_published(result: Result, name: str = "this run") -> PublishedComparison:
    """Compare a result with the published tables.

    Args:
        result: A result of :class:`~StaICC.benchmarks.long_icl.LongICL`.
        name: Name of the result in the tables.

    Raises:
        ArgumentError: It is the result of another benchmark.
    """
    if result.benchmark != "LongICL":
        raise ArgumentError(
            f"only results of LongICL can be compared with its published tables: got one of {result.benchmark}"
        )
    tables = published_tables()
    ran = [dataset for dataset, details in result.details.items() if details.asked]
    compared = tuple(
        ComparedTable(
            tables[dataset],
            name,
            tuple(_percent(result.divided[dataset].get(round_name(number))) for number in range(1, ROUNDS + 1)),
            _percent(result.divided[dataset]["uniform"]),
            _caveats(result, dataset),
        )
        for dataset in ran
        if dataset in tables
    )
    document = _document()
    without = tuple(dataset for dataset in ran if dataset not in tables)
    return PublishedComparison(document["source"], tuple(document["warnings"]), compared, without)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _caveats(result: Result, dataset: str) -> tuple[str, ...]:
    """Return the differences between a run and the published runs."""
    settings, details = result.divided[dataset]["settings"], result.details[dataset]
    found = []
    if settings["variant"] != "published":
        found.append(f"was scored by the variant '{settings['variant']}'")
    if settings["test_number"] != 500:
        found.append(f"asked {settings['test_number'] or 'all'} test items, not 500")
    if settings["instruct"]:
        found.append("showed the label list in its prompts")
    if settings["arrangement"] != "interleaved":
        found.append(f"showed its demonstrations {settings['arrangement']}")
    if settings["made_up"]:
        found.append("used made-up rows")
    elif not all(file["verified"] for file in settings["files"].values()):
        found.append("used files that are not known to be the published ones")
    kinds = sorted({record.output for record in details.conditions} - {"text", "none"})
    if kinds:
        found.append(f"was answered by {' and '.join(kinds)}, a choice among the labels; the paper's were text")
    return tuple(f"NOT ALIKE: the run {one}." for one in found)
