"""Comparisons of runs on subgroups of test rows as records, with the table that prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from StaICC.benchmark_names import class_name
from StaICC.comparing.cells import number_cell
from StaICC.comparing.comparison_results import (
    DatasetComparison,
    better_run,
    cells_of_test,
    cells_of_values,
    forest_plot,
    line_to_dict,
    names_in_title,
)
from StaICC.comparing.verdicts import CorrectionMethod, Tested, Untested, corrected_column, p_text
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.results.score_names import name_of_mean

ALL_ROWS = "all rows"
"""The name of the line with all compared rows of a data set."""


@dataclass(frozen=True, slots=True)
class SubgroupDifference:
    """Two runs on a subgroup of the test rows of a data set, or on all of its compared rows."""

    group: str
    """The label, the value of the column, or ``"all rows"``."""
    share: float | None
    """The share of the queries of the data set that are about the subgroup; ``None`` if it differs between conditions
    or between the runs."""
    contribution: float | None
    """What the subgroup adds to the difference on all rows: its share times its difference. These sum to that
    difference. ``None`` if the metric is no mean over queries, if a query is missing, or without a share."""
    line: DatasetComparison
    """Values, difference, interval and test, as on a whole data set."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: those of the line, with the subgroup, its share and its contribution."""
        of_subgroup = {"group": self.group, "share": self.share, "contribution": self.contribution}
        return {**line_to_dict(self.line), **of_subgroup}


@dataclass(frozen=True, slots=True)
class SubgroupComparison(Displayed):
    """Two runs, compared by one metric on subgroups of the test rows of each data set."""

    benchmark: str
    metric: str
    higher_is_better: bool
    by: str
    """What the rows of a subgroup share: ``"label"``, or the name of a column."""
    first: str
    """Name of the first run."""
    second: str
    models: tuple[str, str]
    """The models of the two runs, by name and short identity."""
    model_names: tuple[str, str]
    """The models of the two runs, without the identities."""
    subgroups: tuple[SubgroupDifference, ...]
    """The subgroups, data set by data set."""
    all_rows: tuple[SubgroupDifference, ...]
    """All compared rows of each data set. Its test is that of :func:`~StaICC.comparing.comparison.compare` before the
    correction, and is none of the corrected ones."""
    tests: int
    """The number of tests for which p-values are corrected: all subgroups of all data sets and pairs of runs."""
    method: CorrectionMethod
    """The method of the correction: Holm's, or Bonferroni's if the pairs of runs were chosen by their values."""
    left_out: tuple[str, ...]
    """Data sets and queries that are not compared, with the reason."""
    scope: tuple[str, ...] = ()
    """What limits intervals and tests, as of :class:`~StaICC.comparing.comparison_results.Comparison`."""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads and the table rows: for each data set its subgroups, then all rows."""
        cells_by_head = []
        for whole in self.all_rows:
            for subgroup in self.subgroups:
                if subgroup.line.dataset == whole.line.dataset:
                    cells_by_head.append(self._cells_of_subgroup(subgroup))
            cells_by_head.append(self._cells_of_all_rows(whole))
        head = list(cells_by_head[0])  # All table rows have the same heads, in the same order.
        return head, [list(cells.values()) for cells in cells_by_head]

    def _cells_of_subgroup(self, subgroup: SubgroupDifference) -> dict[str, str]:
        """Return the cells of the line of a subgroup, by column head."""
        return {f"data set, {self.by}": _place(subgroup), **self._cells(subgroup)}

    def _cells_of_all_rows(self, whole: SubgroupDifference) -> dict[str, str]:
        """Return the cells of the line of all rows of a data set, by column head. Its p-value is not corrected.

        The brackets distinguish the line from a subgroup whose name is "all rows".
        """
        return {
            f"data set, {self.by}": f"{whole.line.dataset} ({ALL_ROWS})",
            **self._cells(whole),
            corrected_column(self.method): "-",
        }

    def _cells(self, subgroup: SubgroupDifference) -> dict[str, str]:
        """Return the cells behind the name of a line of the table, by column head."""
        line = subgroup.line
        return {
            "rows": str(line.rows),
            "share": number_cell(subgroup.share, ".3f"),
            **cells_of_values(line),
            "contribution": number_cell(subgroup.contribution, "+.4f"),
            **cells_of_test(line, corrected_column(self.method)),
        }

    def conclusion(self) -> list[str]:
        """Return the sentences below the table: where a run is better, and what is untested."""
        texts = []
        for subgroup in self.subgroups:
            outcome = subgroup.line.outcome
            better = better_run(subgroup.line, outcome, self.first, self.second, self.higher_is_better)
            if better is not None and isinstance(outcome, Tested):
                texts.append(f"{_place(subgroup)}: {better} is better ({p_text(outcome.corrected_p_value)})")
        has_tests = any(isinstance(subgroup.line.outcome, Tested) for subgroup in self.subgroups)
        if has_tests and not texts:
            texts.append("no tested subgroup has a significant difference")
        for subgroup in self.subgroups:
            outcome = subgroup.line.outcome
            if isinstance(outcome, Untested):
                texts.append(f"untested: {_place(subgroup)} ({outcome.reason})")
        for whole in self.all_rows:
            outcome = whole.line.outcome
            if isinstance(outcome, Untested):
                texts.append(f"untested: {whole.line.dataset}, {ALL_ROWS} ({outcome.reason})")
        return texts

    def notes(self) -> list[str]:
        """Return the sentences about the columns, and about what must not be concluded."""
        column = corrected_column(self.method)
        texts = [
            f"{column}: corrected for {self.tests} tests, one for each subgroup of each data set and pair of runs, "
            f"untested ones included; lines with ({ALL_ROWS}) are not corrected (compare without subgroups does it)",
            "A significant difference in one subgroup and none in another is no evidence that the subgroups differ: "
            "compare their intervals",
        ]
        if all(subgroup.contribution is not None for subgroup in self.subgroups):
            texts.append("contribution: share times difference; those of a data set sum to its difference on all rows")
        else:
            texts.append(
                "contribution: share times difference, where these sum to the difference on all rows (-: the metric is "
                "no mean over queries, queries are missing, or shares differ between conditions)"
            )
        return texts

    def display_blocks(self) -> list[Block]:
        """Return the title, what is compared, the table, the conclusion, and the meaning of the columns."""
        direction = "higher" if self.higher_is_better else "lower"
        return [
            Line(f"{class_name(self.benchmark)} by {self.by}: {names_in_title(self.first, self.second)}", "title"),
            Line(f"metric: {name_of_mean(self.metric, self.benchmark)} ({direction} is better)"),
            Line(f"first: {self.models[0]}", caption=f"first: {self.model_names[0]}"),
            Line(f"second: {self.models[1]}", caption=f"second: {self.model_names[1]}"),
            *[Line(f"left out: {reason}") for reason in self.left_out],
            TextTable(*self.table()),
            *[Line(text) for text in self.conclusion()],
            *[Line(text) for text in self.scope],
            *[Line(text) for text in self.notes()],
        ]

    def plot(self) -> Any:
        """Return a forest plot of the differences by subgroup, as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        return forest_plot(self, plotter="subgroup_differences")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "benchmark": self.benchmark,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "by": self.by,
            "first": self.first,
            "second": self.second,
            "models": self.models,
            "tests": self.tests,
            "correction": self.method,
            "subgroups": [subgroup.to_dict() for subgroup in self.subgroups],
            "all_rows": [whole.to_dict() for whole in self.all_rows],
            "left_out": self.left_out,
            "scope": self.scope,
        }


def _place(subgroup: SubgroupDifference) -> str:
    """Return the data set and the subgroup."""
    return f"{subgroup.line.dataset}, {subgroup.group}"
