"""Runs compared by several metrics, with one correction for all of them.

Who looks at four metrics and reports the one that differs has made four tests. So p-values are corrected for all
metrics and pairs of runs together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmark_names import class_name
from StaICC.comparing.alignment import AlignedRuns, align, compared_pairs, corrected
from StaICC.comparing.comparison import overall_line
from StaICC.comparing.comparison_results import (
    DatasetComparison,
    better_run,
    cells_of_test,
    cells_of_values,
    line_to_dict,
)
from StaICC.comparing.missing_queries import difference_outcome
from StaICC.comparing.run_pairs import RunPair
from StaICC.comparing.verdicts import CorrectionMethod, TestOutcome, Untested, corrected_column, p_text
from StaICC.errors import ArgumentError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.results.interval_scope import demonstration_notes
from StaICC.results.result import Result
from StaICC.results.score_names import name_of_mean


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """Two runs, compared by one of several metrics in the mean over the data sets."""

    benchmark: str
    metric: str
    higher_is_better: bool
    first: str
    """Name of the first run."""
    second: str
    line: DatasetComparison
    """Values, difference, interval and test. The p-value is corrected for all metrics and pairs of runs."""

    @property
    def score_name(self) -> str:
        """The name of the score in tables and sentences."""
        return name_of_mean(self.metric, self.benchmark)

    @property
    def conclusion(self) -> str:
        """The sentence that says which run is better, or that none is shown to be, or why it is untested."""
        outcome = self.line.outcome
        runs = f"{self.score_name}, {self.first} and {self.second}"
        if isinstance(outcome, Untested):
            return f"untested: {runs} ({outcome.reason})"
        better = better_run(self.line, outcome, self.first, self.second, self.higher_is_better)
        if better is None:
            return f"{runs}: neither run is shown to be better ({p_text(outcome.corrected_p_value)})"
        return f"{runs}: {better} is better ({p_text(outcome.corrected_p_value)})"


@dataclass(frozen=True, slots=True)
class SeveralMetrics(Displayed):
    """Runs of one benchmark, compared by several metrics."""

    benchmark: str
    comparisons: tuple[MetricComparison, ...]
    """The pairs of runs, metric by metric."""
    tests: int
    """The number of tests for which p-values are corrected."""
    method: CorrectionMethod
    """The method of the correction: Holm's, or Bonferroni's if the pairs of runs were chosen by their values."""
    left_out: tuple[str, ...]
    """Metrics, runs and queries that are not compared, with the reason."""
    scope: tuple[str, ...] = ()
    """What limits intervals and tests, as of :class:`~StaICC.comparing.comparison_results.Comparison`."""

    def display_blocks(self) -> list[Block]:
        """Return the title, the table, the conclusions, and the meaning of the columns."""
        column = corrected_column(self.method)
        cells_by_head = [self._cells(comparison) for comparison in self.comparisons]
        head = list(cells_by_head[0])
        rows = [list(cells.values()) for cells in cells_by_head]
        return [
            Line(f"{class_name(self.benchmark)}: several metrics", "title"),
            *[Line(f"left out: {reason}") for reason in self.left_out],
            TextTable(head, rows, texts=(0, 1, 2)),
            *[Line(comparison.conclusion) for comparison in self.comparisons],
            *[Line(text) for text in self.scope],
            Line(
                f"{column}: corrected for {self.tests} tests, one for each metric and pair of runs in both directions, "
                "untested ones included. Intervals are not corrected."
            ),
        ]

    def _cells(self, comparison: MetricComparison) -> dict[str, str]:
        """Return the cells of a line of the table, by column head."""
        return {
            "metric": comparison.score_name,
            "first run": comparison.first,
            "second run": comparison.second,
            "rows": str(comparison.line.rows),
            **cells_of_values(comparison.line),
            **cells_of_test(comparison.line, corrected_column(self.method)),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "benchmark": self.benchmark,
            "tests": self.tests,
            "correction": self.method,
            "comparisons": [_to_dict(comparison) for comparison in self.comparisons],
            "left_out": self.left_out,
            "scope": self.scope,
        }


def _to_dict(comparison: MetricComparison) -> dict[str, Any]:
    """Return a comparison by one metric as plain values for JSON."""
    return {
        "metric": comparison.metric,
        "higher_is_better": comparison.higher_is_better,
        "first": comparison.first,
        "second": comparison.second,
        **line_to_dict(comparison.line),
        "conclusion": comparison.conclusion,
    }


@dataclass(frozen=True)
class _MetricPair:
    """Two runs, aligned by one of the metrics."""

    aligned: AlignedRuns
    pair: RunPair

    @property
    def scope(self) -> tuple[str, ...]:
        """What limits their intervals and tests."""
        runs = [self.aligned.runs[self.pair.first.name], self.aligned.runs[self.pair.second.name]]
        return (*demonstration_notes(runs), *self.pair.cluster_notes)

    def comparison(self, outcome: TestOutcome) -> MetricComparison:
        """Return the record of the two runs in the mean over the data sets.

        Args:
            outcome: The corrected test.
        """
        return MetricComparison(
            benchmark=self.aligned.benchmark,
            metric=self.aligned.metric,
            higher_is_better=self.aligned.higher_is_better,
            first=self.pair.first.name,
            second=self.pair.second.name,
            line=overall_line(self.pair, outcome),
        )


def compare_metrics(results: Mapping[str, Result], metrics: Sequence[str]) -> SeveralMetrics:
    """Compare all pairs of several results of one benchmark by several metrics, with one correction for all of them.

    Args:
        results: The results, by the names of their runs; two at least.
        metrics: The scores, such as ``["accuracy", "macro_F1"]``; two at least.

    Returns:
        The comparison of each pair by each metric, in the mean over the data sets. The p-values are corrected by Holm's
        method for both directions of all metrics and pairs. A metric by which no runs can be compared is left out, and
        its tests are counted.

    Raises:
        ArgumentError: Fewer than two metrics are given, or nothing can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = {str(n): Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1)}
        >>> found = compare_metrics(runs, ["accuracy", "macro_F1"])
        >>> found.tests, [comparison.metric for comparison in found.comparisons]
        (2, ['accuracy', 'macro_F1'])
    """
    if isinstance(metrics, str) or len(metrics) < 2 or len(set(metrics)) < len(metrics):
        raise ArgumentError(f"metrics: got {metrics!r:.100}, expected two or more names, each once")
    aligned_by_metric: dict[str, AlignedRuns] = {}
    left_out: dict[str, None] = {}
    for metric in metrics:
        try:
            aligned_by_metric[metric] = align(results, metric)
        except ArgumentError as error:
            left_out[f"{metric} ({error})"] = None
    if not aligned_by_metric:
        raise ArgumentError(f"no metric can be compared: {'; '.join(left_out)}")

    compared: list[_MetricPair] = []
    pairs_of_runs: set[tuple[str, str]] = set()
    chosen_from = 0
    for aligned in aligned_by_metric.values():
        compared_by_metric = compared_pairs(aligned)
        for first, second in compared_by_metric.comparable:
            compared.append(_MetricPair(aligned, aligned.pair(first, second)))
            pairs_of_runs.add((first, second))
        chosen_from = max(chosen_from, compared_by_metric.chosen_from * len(metrics))
        left_out.update(dict.fromkeys(aligned.left_out))

    test_count = len(metrics) * len(pairs_of_runs)
    outcomes = _corrected_tests(compared, test_count, chosen_from)
    comparisons = []
    scope: dict[str, None] = {}
    for metric_pair, outcome in zip(compared, outcomes, strict=True):
        comparisons.append(metric_pair.comparison(outcome))
        scope.update(dict.fromkeys(metric_pair.scope))
    return SeveralMetrics(
        benchmark=compared[0].aligned.benchmark,
        comparisons=tuple(comparisons),
        tests=chosen_from or test_count,
        method="Bonferroni" if chosen_from > 0 else "Holm",
        left_out=tuple(left_out),
        scope=tuple(scope),
    )


def _corrected_tests(compared: Sequence[_MetricPair], test_count: int, chosen_from: int) -> list[TestOutcome]:
    """Return the test of each pair of runs by each metric, corrected for all tests.

    Each pair of runs that some metric compares is a test by each metric, also by one that cannot compare it. Such a
    test is counted as an untested one.

    Args:
        compared: The pairs, by the metrics that can compare them.
        test_count: The number of tests, with those that cannot be made.
        chosen_from: Number of tests from which these were chosen (see :func:`~StaICC.comparing.alignment.corrected`).
    """
    tests = [difference_outcome(metric_pair.pair.difference) for metric_pair in compared]
    tests_not_made = [Untested("not compared")] * (test_count - len(tests))
    outcomes = corrected([*tests, *tests_not_made], chosen_from=chosen_from)
    return outcomes[: len(tests)]
