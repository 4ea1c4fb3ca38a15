"""Comparisons of runs as records: what was found, with the tables that print it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.comparing.alignment import (
    MOST_RUNS,
)
from StaICC.comparing.ranking import Rank, rank_table
from StaICC.comparing.setting_differences import Difference, shown_value
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested, p_text
from StaICC.errors import ArgumentError
from StaICC.layout import Block, Displayed, Line, TextTable, shared_lines
from StaICC.metrics.intervals import Interval
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL
from StaICC.registry import import_reference

COVERAGE = 0.95
MISSING_HEAD = "no score"
"""Head of the column with the number of queries of each run without a score."""


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """Two runs on one data set, their means over the data sets, or their means in a condition of an experiment."""

    dataset: str
    """The data set, the mean, or the condition."""
    rows: int
    """Test rows that both runs have."""
    queries: int
    """Queries of each run on these rows."""
    missing: tuple[int, int]
    """Number of these queries without a score, of the first and of the second run."""
    values: tuple[float | None, float | None]
    """The metric of the first and of the second run on the queries that have a score, as in their tables; ``None`` if
    no query of a data set (or of a condition) has one."""
    difference: float | None
    """First minus second; ``None`` if a value is undefined."""
    ends: tuple[float, float] | None
    """The lowest and the highest difference, whatever the scores of missing queries are: both are the difference if no
    query is missing; ``None`` if they are not known."""
    interval: Interval | None
    """Of the difference, whatever the scores of missing queries are; ``None`` if it has no bound."""
    outcome: TestOutcome
    """Of the test over test rows, in which missing queries count at their worst for each direction. Holm's correction
    is for all data sets and pairs of runs; that of the mean, or of the only data set, for both directions of the pairs
    of runs; that of a condition also for all conditions (Bonferroni)."""
    detectable: float | None
    """The smallest true difference that the test finds with probability 0.8 at level 0.05; ``None`` if the runs differ
    on too few rows for any."""

    @property
    def p_value(self) -> float | None:
        """The p-value; ``None`` if untested."""
        return self.outcome.p_value if isinstance(self.outcome, Tested) else None

    @property
    def holm(self) -> float | None:
        """The corrected p-value; ``None`` if untested."""
        return self.outcome.holm if isinstance(self.outcome, Tested) else None


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """Whether a run is not worse than another by more than a margin, in the mean over the data sets, or a condition."""

    run: str
    than: str
    margin: float
    p_value: float | None
    """One-sided, corrected for the pairs of runs (Holm), and for the conditions (Bonferroni); ``None`` if undefined."""
    shown: bool
    """Whether it is shown at the one-sided level 0.025, that of a 95 % interval."""
    condition: str | None = None
    """The condition of an experiment; ``None`` without one."""

    def __str__(self) -> str:
        p_value = "undefined" if self.p_value is None else f"{self.p_value:.3g}"
        condition = "" if self.condition is None else f"{self.condition}: "
        return (
            f"{condition}{self.run} not worse than {self.than} by more than {self.margin:g}: "
            f"{'shown' if self.shown else 'not shown'} (one-sided p {p_value}, level 0.025)"
        )


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """Two runs, compared by one metric."""

    benchmark: str
    metric: str
    higher_is_better: bool
    first: str
    """Name of the first run."""
    second: str
    models: tuple[str, str]
    """Who predicted, by name and short identity."""
    differences: tuple[Difference, ...]
    """Settings and facts about the models in which the runs differ."""
    datasets: tuple[DatasetComparison, ...]
    """The data sets; of an experiment, its conditions."""
    mean: DatasetComparison | None
    """The means over the data sets, if there are several; ``None`` for an experiment."""
    non_inferiority: tuple[NonInferiority, ...]
    """In both directions, if a margin was given."""
    left_out: tuple[str, ...]
    """Data sets and queries that are not compared, and queries without a score, with the reason."""
    signature: str
    """Of the first run; the fields in which that of the second differs are among the differences."""
    by_condition: bool = False
    """Whether the lines are the conditions of an experiment, which have no common mean."""

    @property
    def overall(self) -> DatasetComparison:
        """The mean over the data sets, or the only data set.

        Raises:
            ArgumentError: The runs are experiments.
        """
        if self.by_condition:
            raise ArgumentError("an experiment has no overall difference: read claims, which has its conditions")
        return self.mean or self.datasets[0]

    @property
    def claims(self) -> list[DatasetComparison]:
        """The lines that say which run is better: the mean or the only data set; of an experiment, its conditions."""
        return list(self.datasets) if self.by_condition else [self.overall]

    @property
    def lines(self) -> list[DatasetComparison]:
        """The data sets, then their mean if there are several."""
        return [*self.datasets, *([self.mean] if self.mean else [])]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the comparison, as text; the mean comes last."""
        unit, corrected_p = ("condition", "p (corrected)") if self.by_condition else ("data set", "p (Holm)")
        head = [unit, "rows", "first", "second", "difference", f"{100 * COVERAGE:g} % interval"]
        head += ["p", corrected_p, "detectable"]
        with_missing = any(line.missing != (0, 0) for line in self.lines)
        if with_missing:
            head.insert(2, MISSING_HEAD)
        rows = []
        for line in self.lines:
            row = [
                line.dataset,
                str(line.rows),
                *("-" if value is None else f"{value:.4f}" for value in line.values),
                "-" if line.difference is None else f"{line.difference:+.4f}",
                "-" if line.interval is None else f"{line.interval.low:+.3f} .. {line.interval.high:+.3f}",
                *("-" if p is None else f"{p:.3g}" for p in (line.p_value, line.holm)),
                "-" if line.detectable is None else f"{line.detectable:.3f}",
            ]
            if with_missing:
                row.insert(2, f"{line.missing[0]}, {line.missing[1]}")
            rows.append(row)
        return head, rows

    def introduction(self) -> list[str]:
        """Return what a reader must know before the figures: metric, models, each difference, what is left out."""
        lone = [difference for difference in self.differences if None in difference]
        return [
            f"metric: {self.metric} ({'higher' if self.higher_is_better else 'lower'} is better)",
            *(f"{place}: {model}" for place, model in zip(("first", "second"), self.models, strict=True)),
            *(f"they differ in {difference}" for difference in self.differences if difference not in lone),
            *(
                f"only the {place} has {'; '.join(facts)}"
                for place in ("first", "second")
                if (
                    facts := [f"{one.field}: {shown_value(getattr(one, place))}" for one in lone if getattr(one, place)]
                )
            ),
            *(f"left out: {reason}" for reason in self.left_out),
        ]

    def conclusion(self) -> list[str]:
        """Return what belongs below the figures: the better run, what is not tested, and non-inferiority."""
        texts = [
            f"untested: {line.dataset} ({line.outcome.reason})"
            for line in self.lines
            if isinstance(line.outcome, Untested)
        ]
        answers = [self._claim(line, line.outcome) for line in self.claims if isinstance(line.outcome, Tested)]
        texts = [*answers, *texts]
        return [*texts, *map(str, self.non_inferiority)]

    def _claim(self, line: DatasetComparison, outcome: Tested) -> str:
        """Return which run is better, or that none is shown to be."""
        answer = "neither run is shown to be better"
        if outcome.significant and line.ends is not None:
            lowest, _ = line.ends
            first_is_better = (lowest > 0.0) is self.higher_is_better
            answer = f"{self.first if first_is_better else self.second} is better"
        condition = f"{line.dataset}: " if self.by_condition else ""
        return f"{condition}{answer} ({p_text(outcome.holm)})"

    def plot(self) -> Any:
        """Return a forest plot of the differences by data set, as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        return _plot([self])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = dataclasses.asdict(self)
        plain["differences"] = [difference._asdict() for difference in self.differences]
        for figures in filter(None, [*plain["datasets"], plain["mean"]]):
            outcome = figures["outcome"]
            figures |= {"outcome": outcome.pop("case"), "p_value": None, "holm": None, "reason": None, **outcome}
        return plain

    def display_blocks(self) -> list[Block]:
        """Return the table with what a reader must know before and after it."""
        return [
            Line(f"{self.benchmark}: first {self.first}, second {self.second}", "title"),
            *map(Line, self.introduction()),
            TextTable(*self.table()),
            *map(Line, self.conclusion()),
            Line(f"The signature of {self.first}:", "code"),
            Line(self.signature, "code"),
        ]


@dataclass(frozen=True, slots=True)
class BenchmarkComparison(Displayed):
    """Several runs, compared by one metric of one benchmark."""

    benchmark: str
    metric: str
    comparisons: tuple[Comparison, ...]
    ranking: tuple[Rank, ...]
    """The runs, the best first."""
    left_out: tuple[str, ...]
    """Runs and data sets that are not compared, with the reason."""

    def display_blocks(self) -> list[Block]:
        """Return the table of each pair, and the ranking."""
        return display_comparisons([self])

    def plot(self) -> Any:
        """Return a forest plot of the differences from the best run (all, if there is no ranking), as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        best = self.ranking[0].run if self.ranking else None
        return _plot([pair for pair in self.comparisons if best in (None, pair.first, pair.second)])


_PLOTTER = "StaICC.report.figures:differences"
"""Draws comparisons, loaded by name: comparisons know no figures."""


def _plot(compared: Sequence[Comparison]) -> Any:
    return import_reference(_PLOTTER)(compared).axes()[0]


_MEANING = (
    "difference: first minus second, with its interval over test rows; p: paired test over test rows (-: untested); p "
    "(Holm): of a data set, corrected for data sets and pairs of runs, of the mean, for pairs of runs and directions; "
    "detectable: if the true difference were this large, a test on such rows would be significant (level 0.05) with "
    "probability 0.8 (-: too few rows differ to state one)"
)

_MEANING_OF_MISSING = (
    f"{MISSING_HEAD}: queries of the first, and of the second run, that failed or whose reply has no label. The values "
    "are those of the other queries (-: a data set has none); in intervals and p, missing queries count at their worst "
    "for each direction"
)
_MEANING_OF_CONDITIONS = (
    "p (corrected): for pairs of runs and directions (Holm), and for the conditions (Bonferroni); the conditions of an "
    "experiment have no common mean"
)


def _ranking_blocks(comparison: BenchmarkComparison) -> list[Block]:
    correction = "Holm"
    if len(comparison.ranking) > MOST_RUNS:
        correction = "Bonferroni for all pairs, so it can be tied where rank, with Holm's correction, has worse"
    below = [f"The verdict is in comparison with the best run ({correction}; level {SIGNIFICANCE_LEVEL:g})."]
    if any(rank.groups for rank in comparison.ranking):
        below.append("Runs share a letter if they are not shown to differ in the mean.")
    title = Line(f"{comparison.benchmark}: ranking", "title")
    return [title, rank_table(comparison.ranking, comparison.metric), *map(Line, below)]


def groups_of_blocks(comparisons: Sequence[BenchmarkComparison]) -> Iterator[list[Block]]:
    """Yield the blocks of each pair of runs, then those of each ranking."""
    for comparison in comparisons:
        yield from (pair.display_blocks() for pair in comparison.comparisons)
        if len(comparison.ranking) > 2:
            yield _ranking_blocks(comparison)


def display_comparisons(comparisons: Sequence[BenchmarkComparison]) -> list[Block]:
    """Return comparisons and rankings as tables with what is known about them.

    Args:
        comparisons: The comparisons.
    """
    groups, shared = shared_lines(list(groups_of_blocks(comparisons)))
    spaced = [block for group in groups for block in (*group, Line(""))]
    pairs = [pair for comparison in comparisons for pair in comparison.comparisons]
    below = [Line(_MEANING)]
    if any(line.missing != (0, 0) for pair in pairs for line in pair.lines):
        below.append(Line(_MEANING_OF_MISSING))
    if any(pair.by_condition for pair in pairs):
        below.append(Line(_MEANING_OF_CONDITIONS))
    return [*shared, *spaced, *below]
