"""Paired comparison of runs by any metric: is one better on the same test rows, could this sample have shown it?

Runs are compared on the test rows that all of them predicted, by the metric of the tables. The tests are in
:mod:`StaICC.metrics.paired_tests`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from StaICC.comparing.alignment import (
    MOST_RUNS,
    TABLE_TOLERANCE,
    AlignedRuns,
    align,
    compared_pairs,
    corrected,
    corrected_for_conditions,
)
from StaICC.comparing.missing_queries import (
    RunDifference,
    detectable_difference,
    difference_outcome,
    interval_of_difference,
    mean_of_differences,
    outcome_above,
)
from StaICC.comparing.pairing import (
    Difference,
    is_experiment,
    label_differences,
    list_differences,
    metrics_of,
    saved_value,
    shown_value,
)
from StaICC.comparing.ranking import Rank, rank_table, ranks_of
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested, p_text
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.layout import Block, Displayed, Line, TextTable, shared_lines
from StaICC.metrics import paired_tests
from StaICC.metrics.intervals import Interval
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL, bonferroni
from StaICC.registry import import_reference
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark, split_runs

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


def compare(first: Result, second: Result, metric: str | None = None, *, margin: float | None = None) -> Comparison:
    """Compare two results of one benchmark by one metric.

    Args:
        first: A result.
        second: Another, on the same test rows; prompts, method and settings may differ.
        metric: A score with a mean over data sets, such as ``"macro_F1"``; by default the benchmark's main one.
            Experiments of LongICL are compared in each condition by default, or by one of them.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison.

    Raises:
        ArgumentError: No data set can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = [Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1)]
        >>> found = compare(*runs, "macro_F1")
        >>> found.datasets[0].values == tuple(run["Averaged results"]["macro_F1"] for run in runs)
        True
    """
    return compare_runs({"first": first, "second": second}, metric, margin=margin).comparisons[0]


def compare_runs(
    results: Mapping[str, Result],
    metric: str | None = None,
    *,
    margin: float | None = None,
    reference: str | None = None,
) -> BenchmarkComparison:
    """Compare all pairs of several results of one benchmark by one metric.

    Args:
        results: The results, by the names of their runs; two at least. Of more than :data:`MOST_RUNS`, each is
            compared with the best one.
        metric: As for :func:`compare`.
        margin: As for :func:`compare`.
        reference: Compare this run with each other one, instead of all pairs; there is no ranking then, as there is
            none of experiments without a metric.

    Returns:
        The comparisons, with one correction for all of them, and the ranking.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    if margin is not None and (
        isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0.0 < margin < 1.0
    ):
        raise ArgumentError(f"margin: got {margin!r}, expected a number between 0 and 1, such as 0.01")
    if metric is None and _are_experiments(results):
        return _compare_conditions(results, margin, reference)
    aligned = align(results, metric, reference)
    datasets, better = aligned.datasets, aligned.higher_is_better
    pairs, chosen_from = compared_pairs(aligned, reference)
    steps = [[paired.difference(*pair) for paired in datasets.values()] for pair in pairs]
    means = [mean_of_differences(own) for own in steps]
    outcomes = of_datasets = corrected(list(map(difference_outcome, means)), chosen_from=chosen_from)
    if len(datasets) > 1:
        tests = [difference_outcome(step) for own in steps for step in own]
        of_datasets = corrected(tests, paired_tests.holm, chosen_from * len(datasets))
    lines, queries = iter(of_datasets), [paired.queries for paired in datasets.values()]
    not_worse: list[tuple[NonInferiority, ...]] = [() for _ in pairs]
    if margin is not None:
        gains = means if better else [mean.negated for mean in means]
        first_not_worse = _not_worse(gains, margin, chosen_from)
        second_not_worse = _not_worse([gain.negated for gain in gains], margin, chosen_from)
        not_worse = [
            (
                _non_inferiority(first, second, margin, outcome_of_first),
                _non_inferiority(second, first, margin, outcome_of_second),
            )
            for (first, second), outcome_of_first, outcome_of_second in zip(
                pairs, first_not_worse, second_not_worse, strict=True
            )
        ]
    notes = {run: list(_table_notes(run, aligned)) for run in aligned.runs}
    made = []
    for number, pair in enumerate(pairs):
        first, second = (aligned.runs[run] for run in pair)
        figures = map(_figures, datasets, steps[number], queries, lines)
        of_mean = _figures(f"mean of {len(datasets)} data sets", means[number], sum(queries), outcomes[number])
        made.append(
            Comparison(
                aligned.benchmark,
                aligned.metric,
                better,
                *pair,
                (first.model, second.model),
                (*label_differences(first, second, datasets), *list_differences(first, second)),
                tuple(figures),
                of_mean if len(datasets) > 1 else None,
                not_worse[number],
                tuple(dict.fromkeys([*aligned.left_out, *(note for run in pair for note in notes[run])])),
                str(first.signature),
            )
        )
    ranking = ranks_of(aligned, pairs, outcomes) if reference is None else ()
    return BenchmarkComparison(aligned.benchmark, aligned.metric, tuple(made), ranking, aligned.left_out)


def _compare_conditions(
    results: Mapping[str, Result], margin: float | None, reference: str | None
) -> BenchmarkComparison:
    """Compare experiments of LongICL condition by condition, with one correction for all conditions (Bonferroni).

    Conditions such as "zero shots" and "random labels" ask different questions, so their mean is no score.
    """
    conditions = list(dict.fromkeys(name for result in results.values() for name in metrics_of(result)))
    compared: dict[str, BenchmarkComparison] = {}
    reasons: dict[str, list[str]] = {}
    for condition in conditions:
        try:
            compared[condition] = compare_runs(results, condition, margin=margin, reference=reference)
        except (ArgumentError, UnknownNameError) as error:
            reasons.setdefault(str(error), []).append(condition)
    if not compared:
        raise ArgumentError(f"no condition can be compared: {'; '.join(reasons)}")
    by_pair: dict[tuple[str, str], dict[str, Comparison]] = {}
    for condition, own in compared.items():
        for reason in own.left_out:
            reasons.setdefault(reason, []).append(condition)
        for pair in own.comparisons:
            by_pair.setdefault((pair.first, pair.second), {})[condition] = pair
    left_out = [
        reason if len(own) == len(conditions) else f"{', '.join(own)}: {reason}" for reason, own in reasons.items()
    ]
    made = tuple(_of_conditions(of_pair, len(conditions), left_out) for of_pair in by_pair.values())
    return BenchmarkComparison(made[0].benchmark, made[0].metric, made, (), tuple(left_out))


def _are_experiments(results: Mapping[str, Result]) -> bool:
    """Return whether all results are experiments of LongICL."""
    if not isinstance(results, Mapping) or not results:
        return False
    return all(isinstance(result, Result) and is_experiment(result) for result in results.values())


def _of_conditions(of_pair: Mapping[str, Comparison], tests: int, left_out: Sequence[str]) -> Comparison:
    """Return the comparisons of two runs in each condition as one comparison, corrected for so many conditions."""
    lines = []
    not_worse = []
    for condition, pair in of_pair.items():
        outcome = corrected_for_conditions(pair.overall.outcome, tests)
        lines.append(replace(pair.overall, dataset=condition, outcome=outcome))
        for claim in pair.non_inferiority:
            p_value = bonferroni(claim.p_value, tests)
            shown = p_value is not None and p_value <= (1.0 - COVERAGE) / 2.0
            not_worse.append(replace(claim, p_value=p_value, shown=shown, condition=condition))
    first = next(iter(of_pair.values()))
    differences = dict.fromkeys(difference for pair in of_pair.values() for difference in pair.differences)
    return replace(
        first,
        metric="score of each condition",
        differences=tuple(differences),
        datasets=tuple(lines),
        mean=None,
        non_inferiority=tuple(not_worse),
        left_out=tuple(left_out),
        by_condition=True,
    )


def _not_worse(gains: Sequence[RunDifference], margin: float, chosen_from: int) -> list[TestOutcome]:
    """Return for each pair of runs the test of "the gain is at most minus the margin", corrected for the pairs."""
    return corrected([outcome_above(gain, -margin) for gain in gains], paired_tests.holm, chosen_from)


def _non_inferiority(run: str, than: str, margin: float, outcome: TestOutcome) -> NonInferiority:
    if not isinstance(outcome, Tested):
        return NonInferiority(run, than, margin, None, False)
    return NonInferiority(run, than, margin, outcome.holm, outcome.holm <= (1.0 - COVERAGE) / 2.0)


def _figures(name: str, difference: RunDifference, queries: int, outcome: TestOutcome) -> DatasetComparison:
    return DatasetComparison(
        dataset=name,
        rows=difference.rows,
        queries=queries,
        missing=difference.missing,
        values=difference.values,
        difference=difference.difference,
        ends=difference.ends,
        interval=interval_of_difference(difference, COVERAGE),
        outcome=outcome,
        detectable=detectable_difference(difference),
    )


def _table_notes(run: str, aligned: AlignedRuns) -> Iterator[str]:
    """Yield where a run's table has another value although all its queries are compared."""
    result = aligned.runs[run]
    for dataset, paired in aligned.datasets.items():
        saved, value = saved_value(result.divided[dataset], aligned.metric), paired.values[run]
        if paired.runs[run].queries != paired.queries or saved is None or value is None:
            continue
        if abs(saved - value) > TABLE_TOLERANCE:
            metrics = result.signature.fields.get("metrics") or "standard"
            yield (
                f"{dataset}: the table of {run} has {saved:.4f} (metrics {metrics}); from its records it is "
                f"{value:.4f}. Another version or another metric set has other definitions; otherwise the file "
                "may have been changed: check it with verify"
            )


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

_Made = TypeVar("_Made")


def of_benchmarks(
    results: Mapping[str, Result | ResultGroup], function: Callable[[dict[str, Result]], _Made]
) -> tuple[list[_Made], list[str]]:
    """Call a function with the runs of each benchmark that has two at least.

    Args:
        results: Results, or groups of results, by the name that tells them apart (see
            :func:`~StaICC.results.runs.split_runs`); two runs at least.
        function: Compares results of one benchmark.

    Returns:
        What the function returned, and what was left out, with the reason in brackets.

    Raises:
        ArgumentError: There are fewer than two runs, or nothing can be compared; the message says why.
        UnknownNameError: No benchmark has the metric.
    """
    runs = split_runs(results)
    if len(runs) < 2:
        raise ArgumentError(f"a comparison needs two results at least, {len(runs)} given")
    left_out: list[str] = []
    made: list[_Made] = []
    errors: list[ArgumentError | UnknownNameError] = []
    for benchmark, own in by_benchmark(results).items():
        if missing := [name for name in runs if name not in own]:
            left_out.append(f"{benchmark} (not in {', '.join(missing)})")
        try:
            made += [function(own)] if len(own) > 1 else []
        except (ArgumentError, UnknownNameError) as error:
            errors.append(error)
            left_out.append(f"{benchmark} ({error})")
    if not made:
        described = " and ".join(f"{name} ({', '.join(parts)})" for name, parts in runs.items())
        raise errors[0] if errors else ArgumentError(f"{described} share no benchmark")
    return made, left_out


def compare_all(
    results: Mapping[str, Result | ResultGroup], metric: str | None = None, *, margin: float | None = None
) -> tuple[tuple[BenchmarkComparison, ...], tuple[str, ...]]:
    """Compare all pairs of results.

    Args:
        results: As for :func:`of_benchmarks`.
        metric: A score, such as ``"macro_F1"``; by default the main one of each benchmark.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison of each benchmark, and what was left out, with the reason in brackets. Errors are those of
        :func:`of_benchmarks`.
    """
    compared, left_out = of_benchmarks(results, lambda own: compare_runs(own, metric, margin=margin))
    return tuple(compared), (*left_out, *(reason for comparison in compared for reason in comparison.left_out))


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
