"""Paired comparison of runs by any metric: is one better on the same test rows, and could this sample have shown it?

Runs are compared on the test rows that all of them predicted, by the metric of the tables. The steps are in
:mod:`StaICC.metrics.metric_comparison`, the pairing of the records in :mod:`StaICC.results.paired_records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from StaICC.errors import ArgumentError, unknown_name
from StaICC.metrics.intervals import Interval
from StaICC.metrics.metric_comparison import (
    RowSteps,
    difference_interval,
    difference_p_value,
    mean_steps,
    non_inferiority_p_value,
)
from StaICC.metrics.power import detectable_difference
from StaICC.metrics.significance import holm
from StaICC.results.differences import Difference, list_differences
from StaICC.results.paired_records import (
    HEADLINE,
    PairedRecords,
    higher_is_better,
    metrics_of,
    pair_records,
    saved_value,
)
from StaICC.results.result import Result
from StaICC.results.table import format_columns

LEVEL = 0.95
LEAST_ROWS = 10
"""Test rows of each label below which a difference of macro F1 is not tested; their mean needs one row."""
_TABLE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """Two runs on one data set, or their means over the data sets."""

    dataset: str
    rows: int
    """Test rows that both runs predicted."""
    queries: int
    """Queries of each run on these rows."""
    values: tuple[float, float]
    """The metric of the first and of the second run."""
    difference: float
    """First minus second."""
    interval: Interval | None
    """Of the difference; ``None`` if undefined, see ``reason``."""
    p_value: float | None
    """Of the test over test rows; ``None`` if undefined, see ``reason``."""
    holm: float | None
    """The p-value, corrected by Holm's method: of a data set for all data sets and pairs of runs, of the mean for the
    pairs of runs."""
    detectable: float | None
    """The smallest true difference that the test finds with probability 0.8 at level 0.05; ``None`` if the runs differ
    on too few rows for any, or if it is undefined, see ``reason``."""
    reason: str | None = None
    """Why there is no interval, or no test either."""


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """Whether a run is not worse than another by more than a margin, in the mean over the data sets."""

    run: str
    than: str
    margin: float
    p_value: float | None
    """One-sided, corrected for the pairs of runs (Holm); ``None`` if undefined."""
    shown: bool
    """Whether it is shown at the one-sided level 0.025, that of a 95 % interval."""

    def __str__(self) -> str:
        p_value = "undefined" if self.p_value is None else f"{self.p_value:.3g}"
        shown = "shown" if self.shown else "not shown"
        return (
            f"{self.run} not worse than {self.than} by more than {self.margin:g}: {shown} "
            f"(one-sided p {p_value}, level 0.025)"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
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
    mean: DatasetComparison | None
    """The means over the data sets, if there are several."""
    non_inferiority: tuple[NonInferiority, ...]
    """In both directions, if a margin was given."""
    left_out: tuple[str, ...]
    """Data sets and queries that are not compared, with the reason."""
    signature: str
    """Of the first run; the fields in which that of the second differs are among the differences."""

    @property
    def overall(self) -> DatasetComparison:
        """The mean over the data sets, or the only data set."""
        return self.mean or self.datasets[0]

    @property
    def lines(self) -> list[DatasetComparison]:
        """The data sets, then their mean if there are several."""
        return [*self.datasets, *([self.mean] if self.mean else [])]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the head and the rows of the comparison, as text; the mean comes last."""
        head = ["data set", "rows", "first", "second", "difference", "interval", "p", "p (Holm)", "detectable"]
        head[5] = f"{100 * LEVEL:g} % interval"
        rows = [
            [
                one.dataset,
                str(one.rows),
                *(f"{value:.4f}" for value in one.values),
                f"{one.difference:+.4f}",
                "-" if one.interval is None else f"{one.interval.low:+.3f} .. {one.interval.high:+.3f}",
                "-" if one.p_value is None else f"{one.p_value:.3g}",
                "-" if one.holm is None else f"{one.holm:.3g}",
                "-" if one.detectable is None else f"{one.detectable:.3f}",
            ]
            for one in self.lines
        ]
        return head, rows

    def introduction(self) -> list[str]:
        """Return what a reader must know before the figures: metric, models, each difference, what is left out."""
        better = "higher" if self.higher_is_better else "lower"
        models = [f"{place}: {model}" for place, model in zip(("first", "second"), self.models, strict=True)]
        differ = [f"they differ in {one}" for one in self.differences]
        return [
            f"metric: {self.metric} ({better} is better)",
            *models,
            *differ,
            *map("note: {}".format, self.left_out),
        ]

    def conclusion(self) -> list[str]:
        """Return what belongs below the figures: missing intervals and tests, and non-inferiority."""
        reasons = [
            f"no interval{'' if one.p_value is not None else ' and no test'} for {one.dataset}: {one.reason}"
            for one in self.lines
            if one.reason
        ]
        return [*reasons, *map(str, self.non_inferiority)]

    def __str__(self) -> str:
        return "\n".join([*self.introduction(), format_columns(*self.table()), *self.conclusion(), self.signature])


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of one run among several."""

    run: str
    value: float
    """The metric, as the mean over the compared data sets."""
    groups: str
    """Letters; two runs that share a letter are not shown to differ (Holm, level 0.05)."""


@dataclass(frozen=True, slots=True)
class BenchmarkComparison:
    """All pairs of several runs, compared by one metric of one benchmark."""

    benchmark: str
    metric: str
    comparisons: tuple[Comparison, ...]
    ranking: tuple[Rank, ...]
    """The runs, the best first."""
    left_out: tuple[str, ...]
    """Runs and data sets that are not compared, with the reason."""


def compare(first: Result, second: Result, metric: str | None = None, *, margin: float | None = None) -> Comparison:
    """Compare two results of one benchmark by one metric.

    Args:
        first: A result.
        second: Another, on the same test rows; prompts, method and settings may differ.
        metric: A score with a mean over data sets, such as ``"macro_F1"``; by default the benchmark's main one.
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
        results: The results, by the names of their runs; two at least.
        metric: As for :func:`compare`.
        margin: As for :func:`compare`.
        reference: Compare this run with each other one, instead of all pairs; there is no ranking then.

    Returns:
        The comparisons, with one correction for all pairs, and the ranking.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    if margin is not None and (
        isinstance(margin, bool) or not isinstance(margin, (int, float)) or not 0.0 < margin < 1.0
    ):
        raise ArgumentError(f"margin: got {margin!r}, expected a number between 0 and 1, such as 0.01")
    left_out = [
        f"{name} (it stopped early, and these tests need a fixed number of rows: use race, or full runs)"
        for name, result in results.items()
        if result.stopping is not None
    ]
    results = {name: result for name, result in results.items() if result.stopping is None}
    if reference is not None:
        if reference not in results:
            raise unknown_name("run", reference, results)
        results = {reference: results[reference], **results}
    if len(results) < 2:
        listed = "; ".join(left_out) or "none"
        raise ArgumentError(f"at least two runs are needed: got {len(results)}. Left out: {listed}")
    (leader, first), *others = results.items()
    known = metrics_of(first)
    if metric is None:
        metric = HEADLINE.get(first.benchmark, "")
        metric = metric if metric in known else next(iter(known), "accuracy")
    if metric not in known:
        raise unknown_name("metric", metric, known)
    kept = {leader: first}
    for name, result in others:
        if result.benchmark != first.benchmark:
            left_out.append(f"{name} (its benchmark is {result.benchmark}, not {first.benchmark})")
            continue
        reasons: dict[str, list[str]] = {}
        for dataset in first.divided:
            paired = pair_records({leader: first, name: result}, dataset, metric)
            if isinstance(paired, PairedRecords):
                kept[name] = result
                break
            reasons.setdefault(paired, []).append(dataset)
        else:
            listed = "; ".join(f"{', '.join(datasets)}: {reason}" for reason, datasets in reasons.items())
            left_out.append(f"{name} ({listed})")
    if len(kept) < 2:
        raise ArgumentError(f"nothing can be compared by {metric}: {' '.join(left_out)}")
    pairs: dict[str, PairedRecords] = {}
    for dataset in dict.fromkeys(name for result in kept.values() for name in result.divided):
        paired = pair_records(kept, dataset, metric)
        if isinstance(paired, str):
            left_out.append(f"{dataset} ({paired})")
        else:
            pairs[dataset] = paired
    compared = []
    every = combinations(kept, 2)
    for one, two in (pair for pair in every if reference in (None, pair[0])):
        steps = {dataset: paired.difference(one, two) for dataset, paired in pairs.items()}
        for dataset, found_steps in list(steps.items()):
            if not abs(found_steps.difference) < float("inf"):
                left_out.append(f"{dataset} ({metric} is infinite on the compared rows)")
                del pairs[dataset]
        compared.append((one, two, steps))
    if not pairs:
        raise ArgumentError(f"nothing can be compared by {metric}: {' '.join(dict.fromkeys(left_out))}")
    notes = [f"{dataset}: {note}" for dataset, paired in pairs.items() for note in paired.notes]
    better = higher_is_better(first.benchmark, metric)
    made = []
    for one, two, steps in compared:
        a, b = kept[one], kept[two]
        tables = _table_notes((one, two), (a, b), {name: steps[name] for name in pairs}, pairs, metric)
        datasets = tuple(_dataset(name, steps[name], pairs[name]) for name in pairs)
        total = mean_steps([steps[name] for name in pairs])
        mean = None
        if len(pairs) > 1:
            queries = sum(paired.queries for paired in pairs.values())
            rare = [(name, _too_rare(paired, 1)) for name, paired in pairs.items()]
            reason = next((f"{name}: {why}" for name, why in rare if why), None)
            mean = _figures(f"mean of {len(pairs)} data sets", total, queries, reason, tested=reason is None)
        tested: tuple[NonInferiority, ...] = ()
        if margin is not None:
            undefined = (mean or datasets[0]).p_value is None
            tested = tuple(
                NonInferiority(
                    run, than, margin, None if undefined else non_inferiority_p_value(total, margin, up), False
                )
                for run, than, up in ((one, two, better), (two, one, not better))
            )
        made.append(
            Comparison(
                first.benchmark,
                metric,
                better,
                one,
                two,
                (a.model, b.model),
                (*_label_differences(a, b, pairs), *list_differences(a, b)),
                datasets,
                mean,
                tested,
                tuple(dict.fromkeys([*left_out, *notes, *tables])),
                str(a.signature),
            )
        )
    corrected = tuple(_corrected(made))
    return BenchmarkComparison(
        first.benchmark,
        metric,
        corrected,
        _ranking(list(kept), corrected, better) if reference is None else (),
        tuple(dict.fromkeys([*left_out, *notes])),
    )


def _figures(
    name: str, steps: RowSteps, queries: int, reason: str | None = None, *, tested: bool = True
) -> DatasetComparison:
    p_value = difference_p_value(steps) if tested else None
    return DatasetComparison(
        dataset=name,
        rows=len(steps.steps),
        queries=queries,
        values=(steps.first, steps.second),
        difference=steps.difference,
        interval=None if reason else difference_interval(steps, LEVEL),
        p_value=p_value,
        holm=p_value,
        detectable=detectable_difference(steps) if tested else None,
        reason=reason,
    )


def _dataset(name: str, steps: RowSteps, paired: PairedRecords) -> DatasetComparison:
    reason = "an interval needs two test rows at least" if len(steps.steps) < 2 else None
    rare = _too_rare(paired, LEAST_ROWS)
    return _figures(name, steps, paired.queries, rare or reason, tested=rare is None)


def _too_rare(paired: PairedRecords, least: int) -> str | None:
    """Return why macro F1 is not tested: a label has fewer test rows; ``None`` if it is, and for other metrics."""
    label, rows = paired.rarest_label()
    if paired.metric != "macro_F1" or rows >= least:
        return None
    named = next(iter(paired.runs.values())).labels
    return (
        f"{rows} test rows have the label {named[label] if label < len(named) else label!r}; a test of macro F1 needs "
        f"{least} of each label"
    )


def _table_notes(
    names: Sequence[str],
    results: Sequence[Result],
    steps: Mapping[str, RowSteps],
    pairs: Mapping[str, PairedRecords],
    metric: str,
) -> Iterator[str]:
    """Yield where a run's table has another value although all its queries are compared."""
    for dataset, found in steps.items():
        for name, result, value in zip(names, results, (found.first, found.second), strict=True):
            saved = saved_value(result.divided[dataset], metric)
            whole = pairs[dataset].runs[name].queries == pairs[dataset].queries
            if whole and saved is not None and abs(saved - value) > _TABLE_TOLERANCE:
                metrics = result.signature.fields.get("metrics") or "standard"
                yield (
                    f"{dataset}: the table of {name} has {saved:.4f} (metrics {metrics}); from its records it is "
                    f"{value:.4f}. Another version or another metric set has other definitions; otherwise the file "
                    "may have been changed: check it with verify"
                )


def _label_differences(first: Result, second: Result, pairs: Mapping[str, PairedRecords]) -> Iterator[Difference]:
    for dataset in pairs:
        labels = [result.details[dataset].labels for result in (first, second)]
        if labels[0] != labels[1]:
            yield Difference(f"labels of {dataset}", *("/".join(one) or None for one in labels))


def _corrected(made: Sequence[Comparison]) -> Iterator[Comparison]:
    """Correct the p-values of data sets over data sets and pairs, those of means over pairs."""
    of_datasets = iter(holm([one.p_value for each in made for one in each.datasets]))
    of_means = iter(holm([each.overall.p_value for each in made]))
    sides = zip(*(each.non_inferiority for each in made), strict=True)
    of_margins = [iter(holm([one.p_value for one in side])) for side in sides]
    for each in made:
        datasets = tuple(replace(one, holm=next(of_datasets)) for one in each.datasets)
        p_of_mean = next(of_means)
        tested = tuple(
            replace(one, p_value=p, shown=p is not None and p <= (1.0 - LEVEL) / 2.0)
            for one, p in zip(each.non_inferiority, map(next, of_margins), strict=True)
        )
        mean = None if each.mean is None else replace(each.mean, holm=p_of_mean)
        yield replace(each, datasets=datasets, mean=mean, non_inferiority=tested)


def _ranking(names: Sequence[str], compared: Sequence[Comparison], better: bool) -> tuple[Rank, ...]:
    """Rank runs by their mean; runs that no pair shows to differ share a letter."""
    values: dict[str, float] = {}
    tied = {name: {name} for name in names}
    for one in compared:
        values[one.first], values[one.second] = one.overall.values
        if one.overall.holm is None or one.overall.holm > 1.0 - LEVEL:
            tied[one.first].add(one.second)
            tied[one.second].add(one.first)
    order = sorted(names, key=lambda name: -values[name] if better else values[name])
    groups = _cliques(order, tied)
    return tuple(
        Rank(name, values[name], "".join(_letter(n) for n, group in enumerate(groups) if name in group))
        for name in order
    )


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"


def _cliques(order: Sequence[str], tied: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the largest groups of runs that are tied with each other (Bron and Kerbosch 1973), the best first."""
    found: list[set[str]] = []

    def grow(group: set[str], candidates: list[str], done: set[str]) -> None:
        if not candidates and not done:
            found.append(group)
        for name in list(candidates):
            grow(
                group | {name}, [one for one in candidates if one in tied[name] - {name}], done & (tied[name] - {name})
            )
            candidates = [one for one in candidates if one != name]
            done = done | {name}

    grow(set(), list(order), set())
    return sorted(found, key=lambda group: sorted(map(order.index, group)))
