"""Paired comparison of runs by any metric: is one better on the same test rows, could this sample have shown it?

Runs are compared on the test rows that all of them predicted, by the metric of the tables. The tests are in
:mod:`StaICC.metrics.paired_tests`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from StaICC.comparing.alignment import (
    TABLE_TOLERANCE,
    AlignedRuns,
    align,
    compared_pairs,
    corrected,
    corrected_for_conditions,
)
from StaICC.comparing.comparable_scores import is_experiment, metrics_of, saved_value
from StaICC.comparing.comparison_results import (
    COVERAGE,
    BenchmarkComparison,
    Comparison,
    DatasetComparison,
    NonInferiority,
)
from StaICC.comparing.missing_queries import (
    RunDifference,
    detectable_difference,
    difference_outcome,
    interval_of_difference,
    mean_of_differences,
    outcome_above,
)
from StaICC.comparing.ranking import ranks_of
from StaICC.comparing.setting_differences import label_differences, list_differences
from StaICC.comparing.verdicts import Tested, TestOutcome
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import bonferroni
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark, split_runs


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
