"""Paired comparison of runs by any metric: is one better on the same test rows, could this sample have shown it?

Two runs are compared on the test rows that both have, by the metric of the tables. The tests are in
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
    corrected_in_groups,
)
from StaICC.comparing.benchmark_comparison import BenchmarkComparison
from StaICC.comparing.comparable_scores import metrics_of, saved_value
from StaICC.comparing.comparison_results import COVERAGE, ONE_SIDED_LEVEL, Comparison, DatasetComparison, NonInferiority
from StaICC.comparing.interactions import interactions_of
from StaICC.comparing.missing_queries import (
    RunDifference,
    detectable_difference,
    difference_outcome,
    interval_of_difference,
    outcome_above,
)
from StaICC.comparing.ranking import Rank, ranks_of
from StaICC.comparing.run_pairs import RunPair
from StaICC.comparing.run_scores import RunScore
from StaICC.comparing.setting_differences import Difference, dropped_differences, label_differences, list_differences
from StaICC.comparing.verdicts import Correction, Tested, TestOutcome
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.metrics import paired_tests
from StaICC.metrics.paired_tests import bonferroni
from StaICC.results.experiment_table import is_experiment
from StaICC.results.interval_scope import demonstration_notes
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark, check_result, split_runs


def compare(first: Result, second: Result, metric: str | None = None, *, margin: float | None = None) -> Comparison:
    """Compare two results of one benchmark by one metric.

    Args:
        first: A result.
        second: The other result, on the same test rows. Prompts, method and settings may differ.
        metric: A score with a mean over data sets, such as ``"macro_F1"``; by default the benchmark's main one.
            Experiments of LongICL are compared in each condition by default, or by one of them.
        margin: Also test for each run that it is not worse than the other by more than this margin, a number between 0
            and 1 (of logs: and the width of the range of the metric); ``None`` for no such test.

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
    check_result("first", first)
    check_result("second", second)
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
        results: The results, by the names of their runs; two at least. Of more than :data:`MOST_RUNS` runs, each is
            compared with the best one only.
        metric: As for :func:`compare`.
        margin: As for :func:`compare`.
        reference: Name of a run. Only this run is compared with each other one, and there is no ranking; ``None`` to
            compare all pairs. Experiments without a metric have no ranking either.

    Returns:
        The comparisons, with one correction for all of them, and the ranking.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric, or there is no such reference.
    """
    _check_margin(margin, largest=_largest_margin(results))
    if metric is None and _are_experiments(results):
        return _compare_conditions(results, margin, reference)

    return _compare_aligned(align(results, metric, reference), margin, reference)


def _compare_aligned(aligned: AlignedRuns, margin: float | None, reference: str | None) -> BenchmarkComparison:
    """Compare pairs of runs by the test of their means and the tests on their data sets, and rank the runs.

    The p-values of the means of all pairs are corrected together, and so are those of the data sets. Of many runs, each
    is compared with the best one only. These pairs are chosen by the values of the runs, so their p-values are
    corrected for all pairs of runs (``chosen_from`` is then not 0).

    Args:
        aligned: The runs, all of which can be compared with another one.
        margin: The margin of non-inferiority; ``None`` for no such claims.
        reference: The run with which each other one is compared; ``None`` for all pairs and a ranking.
    """
    compared = compared_pairs(aligned, reference)
    pairs = [aligned.pair(first, second) for first, second in compared.comparable]
    tests_of_means = [difference_outcome(pair.difference) for pair in pairs]
    mean_outcomes = corrected(tests_of_means, chosen_from=compared.chosen_from)
    dataset_outcomes = _dataset_outcomes(pairs, mean_outcomes, chosen_from=compared.chosen_from * len(aligned.datasets))
    claims_of_pairs: Sequence[tuple[NonInferiority, ...]] = [() for _ in pairs]
    if margin is not None:
        claims_of_pairs = _non_inferiority(pairs, margin, aligned.higher_is_better, compared.chosen_from)

    correction = Correction(compared.method, pairs=compared.test_count)
    comparisons = []
    left_out = list(aligned.left_out)
    for pair, of_datasets, of_mean, claims in zip(pairs, dataset_outcomes, mean_outcomes, claims_of_pairs, strict=True):
        comparisons.append(_comparison(aligned, pair, of_datasets, of_mean, claims, correction))
        left_out += pair.left_out

    ranking: tuple[Rank, ...] = ()
    if reference is None:
        outcome_by_pair = dict(zip(compared.comparable, mean_outcomes, strict=True))
        ranking = ranks_of(aligned, outcome_by_pair, compared.pairs)
    return BenchmarkComparison(
        benchmark=aligned.benchmark,
        metric=aligned.metric,
        comparisons=tuple(comparisons),
        ranking=ranking,
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _largest_margin(results: Mapping[str, Result]) -> float:
    """Return the number that a margin must be below: the largest possible difference of two scores.

    Scores of StaICC are between 0 and 1, so it is 1. Results that were read from logs of other tools can have scores
    of other ranges, from ``low`` to ``high``. If such a range is wider than 1, it is the width of the widest one.

    Args:
        results: The results as the user passed them. They are checked later
            (:func:`~StaICC.comparing.alignment.align`), so anything that is no result is skipped here.
    """
    largest = 1.0
    if not isinstance(results, Mapping):
        return largest
    for result in results.values():
        if not isinstance(result, Result) or not result.samples:
            continue
        for scores in result.query_scores.values():
            if scores.low is not None and scores.high is not None:
                largest = max(largest, scores.high - scores.low)
    return largest


def _check_margin(margin: float | None, largest: float) -> None:
    """Raise an error unless a margin of non-inferiority is ``None``, or a number between 0 and the largest one."""
    if margin is None:
        return
    is_number = isinstance(margin, (int, float)) and not isinstance(margin, bool)
    if not is_number or not 0.0 < margin < largest:
        raise ArgumentError(f"margin: got {margin!r}, expected a number between 0 and {largest:g}, such as 0.01")


# -- the steps of a comparison


def _dataset_outcomes(
    pairs: Sequence[RunPair], mean_outcomes: Sequence[TestOutcome], chosen_from: int
) -> list[list[TestOutcome]]:
    """Return for each pair of runs its tests, one for each data set, corrected for all data sets and pairs of runs.

    Of a pair that is compared on a single data set, this test is that of the mean.

    Args:
        pairs: The pairs.
        mean_outcomes: The corrected test of the mean of each pair.
        chosen_from: Number of tests from which these were chosen (see :func:`~StaICC.comparing.alignment.corrected`).
    """
    tests_by_pair: list[list[TestOutcome]] = []
    for pair in pairs:
        has_several_datasets = len(pair.datasets) > 1
        differences = pair.differences.values() if has_several_datasets else ()
        tests_by_pair.append([difference_outcome(difference) for difference in differences])
    corrected_by_pair = corrected_in_groups(tests_by_pair, paired_tests.holm, chosen_from)

    outcomes_by_pair = []
    for outcomes, mean_outcome in zip(corrected_by_pair, mean_outcomes, strict=True):
        outcomes_by_pair.append(outcomes or [mean_outcome])
    return outcomes_by_pair


def _non_inferiority(
    pairs: Sequence[RunPair], margin: float, higher_is_better: bool, chosen_from: int
) -> list[tuple[NonInferiority, ...]]:
    """Return for each pair of runs two claims of non-inferiority: one for the first run, and one for the second.

    The gain of a run is its mean minus that of the other run, with the sign changed if lower values are better. So it
    is positive if the run is better. The null hypothesis is that the gain is at most minus the margin.

    Args:
        pairs: The pairs of runs, for whose number the p-values are corrected.
        margin: The largest loss that still counts as not worse.
        higher_is_better: Whether higher values of the metric are better.
        chosen_from: Number of pairs from which these were chosen (see
            :func:`~StaICC.comparing.alignment.corrected`).
    """
    first_gains = []
    second_gains = []
    for pair in pairs:
        gain = pair.difference if higher_is_better else pair.difference.negated
        first_gains.append(gain)
        second_gains.append(gain.negated)
    first_tests = corrected([outcome_above(gain, -margin) for gain in first_gains], paired_tests.holm, chosen_from)
    second_tests = corrected([outcome_above(gain, -margin) for gain in second_gains], paired_tests.holm, chosen_from)

    claims: list[tuple[NonInferiority, ...]] = []
    for pair, of_first, of_second in zip(pairs, first_tests, second_tests, strict=True):
        first = pair.first.name
        second = pair.second.name
        first_claim = _non_inferiority_of(first, than=second, margin=margin, outcome=of_first)
        second_claim = _non_inferiority_of(second, than=first, margin=margin, outcome=of_second)
        claims.append((first_claim, second_claim))
    return claims


def _non_inferiority_of(run: str, than: str, margin: float, outcome: TestOutcome) -> NonInferiority:
    """Return the claim that a run is not worse than another by more than a margin, and whether its test shows it.

    Args:
        run: The run that is claimed to be not worse.
        than: The other run.
        margin: The margin.
        outcome: The one-sided test of the claim, with the corrected p-value; or why it is untested.
    """
    if not isinstance(outcome, Tested):
        return NonInferiority(run, than, margin, p_value=None, shown=False)
    return NonInferiority(
        run, than, margin, p_value=outcome.corrected_p_value, shown=outcome.corrected_p_value <= ONE_SIDED_LEVEL
    )


def _comparison(
    aligned: AlignedRuns,
    pair: RunPair,
    dataset_outcomes: Sequence[TestOutcome],
    mean_outcome: TestOutcome,
    non_inferiority: tuple[NonInferiority, ...],
    correction: Correction,
) -> Comparison:
    """Return the comparison of two runs: the figures, with models, settings and what is left out.

    Args:
        aligned: The runs, of which these are two.
        pair: The two runs.
        dataset_outcomes: The corrected test on each of their data sets.
        mean_outcome: The corrected test of the mean over these.
        non_inferiority: The claims of non-inferiority in both directions; empty without a margin.
        correction: How the p-values are corrected.
    """
    lines = []
    for (dataset, paired), outcome in zip(pair.datasets.items(), dataset_outcomes, strict=True):
        lines.append(comparison_line(dataset, pair.differences[dataset], paired.queries, outcome))
    mean = None
    if len(lines) > 1:
        mean = overall_line(pair, mean_outcome)

    first_name = pair.first.name
    second_name = pair.second.name
    first = aligned.runs[first_name]
    second = aligned.runs[second_name]
    of_labels = label_differences(first, second, pair.datasets)
    of_demonstrations = dropped_differences(first, second, pair.datasets)
    of_settings = list_differences(first, second)
    left_out = [*aligned.runs_left_out, *pair.left_out]
    return Comparison(
        benchmark=aligned.benchmark,
        metric=aligned.metric,
        higher_is_better=aligned.higher_is_better,
        first=first_name,
        second=second_name,
        models=(first.model, second.model),
        model_names=(first.provenance.label_without_digests, second.provenance.label_without_digests),
        differences=(*of_labels, *of_demonstrations, *of_settings),
        datasets=tuple(lines),
        mean=mean,
        non_inferiority=non_inferiority,
        left_out=tuple(dict.fromkeys(left_out)),
        notes=(*pair.notes, *_table_notes(pair, first, second)),
        signature=str(first.signature),
        log_notes=aligned.log_notes([first_name, second_name]),
        other_metrics=aligned.other_metrics,
        scope=(*demonstration_notes([first, second]), *pair.cluster_notes),
        cluster_notes=tuple(pair.cluster_notes),
        correction=correction,
    )


def overall_line(pair: RunPair, outcome: TestOutcome) -> DatasetComparison:
    """Return the line of a comparison for the mean over the data sets of two runs, or for their only data set.

    Args:
        pair: The two runs.
        outcome: The corrected test of the mean.
    """
    datasets = list(pair.datasets)
    name = datasets[0] if len(datasets) == 1 else f"mean of {len(datasets)} data sets"
    # PairedScores.queries has the number of queries of the first run, then that of the second.
    first_queries = sum(paired.queries[0] for paired in pair.datasets.values())
    second_queries = sum(paired.queries[1] for paired in pair.datasets.values())
    return comparison_line(name, pair.difference, (first_queries, second_queries), outcome)


def comparison_line(
    name: str, difference: RunDifference, queries: tuple[int, int], outcome: TestOutcome
) -> DatasetComparison:
    """Return the line of a comparison for a data set, or for the mean over the data sets.

    Args:
        name: The data set, or a name for the mean.
        difference: The difference of the two runs.
        queries: Number of compared queries of each run.
        outcome: The corrected test of the difference.
    """
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


def _table_notes(pair: RunPair, first: Result, second: Result) -> Iterator[str]:
    """Yield a note for each data set on which the table of a run has another value than its records.

    Data sets on which some queries of the run are not compared have no note: there the values may well differ.

    Args:
        pair: The two runs, with the scores from their records.
        first: The first run, with the values of its table.
        second: The second run.
    """
    for dataset, paired in pair.datasets.items():
        first_left_out, second_left_out = paired.left_out
        if first_left_out == 0:
            yield from _table_note(dataset, pair.first.name, first, paired.first)
        if second_left_out == 0:
            yield from _table_note(dataset, pair.second.name, second, paired.second)


def _table_note(dataset: str, name: str, result: Result, score: RunScore) -> Iterator[str]:
    """Yield the note that the table of a run has another value of a data set than its records; nothing if it has not.

    Args:
        dataset: The data set.
        name: Name of the run.
        result: The run, with the value of the table.
        score: The score from the records of all queries of the run.
    """
    saved = saved_value(result.divided[dataset], score.metric)
    if saved is None or score.value is None or abs(saved - score.value) <= TABLE_TOLERANCE:
        return
    metrics = result.signature.fields.get("metrics") or "standard"
    yield (
        f"{dataset}: the table of {name} has {saved:.4f} (metrics {metrics}); from its records, which are "
        f"compared here, it is {score.value:.4f}. Another version or another metric set has other definitions; "
        "otherwise the file may have been changed: check it with verify"
    )


# -- experiments of LongICL


def _are_experiments(results: Mapping[str, Result]) -> bool:
    """Return whether all results are experiments of LongICL; False if the argument is no mapping of names to results.

    The argument of the user is not checked yet at this point (:func:`~StaICC.comparing.alignment.align` checks it).
    """
    if not isinstance(results, Mapping) or not results:
        return False
    return all(isinstance(result, Result) and is_experiment(result) for result in results.values())


def _compare_conditions(
    results: Mapping[str, Result], margin: float | None, reference: str | None
) -> BenchmarkComparison:
    """Compare experiments of LongICL condition by condition.

    Conditions such as "zero shots" and "random labels" ask different questions, so their mean is no score. The p-values
    are corrected for the number of conditions (Bonferroni). Each pair of runs has its interactions, too: whether the
    change from one condition to another differs between the runs.

    Args:
        results: The results of the experiments, by the names of their runs.
        margin: The margin of non-inferiority; ``None`` for no such claims.
        reference: The run with which each other one is compared; ``None`` for all pairs.

    Raises:
        ArgumentError: No condition can be compared; the message says why.
    """
    conditions: dict[str, None] = {}  # each once, in the order of the runs
    for result in results.values():
        conditions |= dict.fromkeys(metrics_of(result))

    aligned: dict[str, AlignedRuns] = {}
    compared: dict[str, BenchmarkComparison] = {}
    conditions_by_reason: dict[str, list[str]] = {}  # the conditions that cannot be compared
    for condition in conditions:
        try:
            aligned[condition] = align(results, condition, reference)
            compared[condition] = _compare_aligned(aligned[condition], margin, reference)
        except (ArgumentError, UnknownNameError) as error:
            conditions_by_reason.setdefault(str(error), []).append(condition)
    if not compared:
        raise ArgumentError(f"no condition can be compared: {'; '.join(conditions_by_reason)}")

    pairs = _by_pair(compared)
    # Pairs that were chosen by their values are corrected for all pairs.
    chosen_from = max(compared_pairs(of_condition, reference).chosen_from for of_condition in aligned.values())
    interactions = interactions_of(aligned, list(pairs), COVERAGE, chosen_from * len(conditions))
    comparisons = []
    for pair, of_pair in pairs.items():
        left_out_of_pair = _left_out(of_pair, conditions_by_reason, len(conditions))
        joined = _joined_conditions(of_pair, len(conditions), left_out_of_pair)
        comparisons.append(replace(joined, interactions=interactions.get(pair, ())))
    return BenchmarkComparison(
        benchmark=comparisons[0].benchmark,
        metric=comparisons[0].metric,
        comparisons=tuple(comparisons),
        ranking=(),
        left_out=tuple(_left_out(compared, conditions_by_reason, len(conditions))),
    )


def _left_out(
    compared: Mapping[str, BenchmarkComparison | Comparison],
    conditions_by_reason: Mapping[str, Sequence[str]],
    condition_count: int,
) -> list[str]:
    """Return the sentences about what is left out of conditions, each once, after the names of its conditions.

    Args:
        compared: The comparison in each condition that can be compared, with the sentences about it.
        conditions_by_reason: The conditions that cannot be compared, by reason, which is a sentence too.
        condition_count: Number of all conditions. A sentence about all of them is listed without their names.
    """
    conditions_by_sentence = {reason: list(conditions) for reason, conditions in conditions_by_reason.items()}
    for condition, comparison in compared.items():
        for sentence in comparison.left_out:
            conditions_by_sentence.setdefault(sentence, []).append(condition)
    listed = []
    for sentence, conditions in conditions_by_sentence.items():
        if len(conditions) == condition_count:
            listed.append(sentence)
        else:
            listed.append(f"{', '.join(conditions)}: {sentence}")
    return listed


def _by_pair(compared: Mapping[str, BenchmarkComparison]) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Return the comparisons by pair of runs, then by condition.

    Args:
        compared: The comparisons of all pairs, by condition.
    """
    by_pair: dict[tuple[str, str], dict[str, Comparison]] = {}
    for condition, comparison in compared.items():
        for pair in comparison.comparisons:
            of_pair = by_pair.setdefault((pair.first, pair.second), {})
            of_pair[condition] = pair
    return by_pair


def _joined_conditions(of_pair: Mapping[str, Comparison], condition_count: int, left_out: Sequence[str]) -> Comparison:
    """Return one comparison of two runs, with a line for each condition, corrected for all conditions.

    Args:
        of_pair: The comparison of the two runs in each condition.
        condition_count: Number of conditions for which p-values are corrected (Bonferroni).
        left_out: Sentences about what is not compared.
    """
    lines = []
    for condition, comparison in of_pair.items():
        outcome = corrected_for_conditions(comparison.overall.outcome, condition_count)
        lines.append(replace(comparison.overall, dataset=condition, outcome=outcome))
    claims = []
    for condition, comparison in of_pair.items():
        for claim in comparison.non_inferiority:
            claims.append(_claim_of_condition(claim, condition, condition_count))

    # What several conditions have in common is listed once, in the order of its first condition.
    differences: dict[Difference, None] = {}
    notes: dict[str, None] = {}
    for comparison in of_pair.values():
        differences |= dict.fromkeys(comparison.differences)
        notes |= dict.fromkeys(comparison.notes)
    first_comparison = next(iter(of_pair.values()))
    return replace(
        first_comparison,
        metric="score of each condition",
        differences=tuple(differences),
        datasets=tuple(lines),
        mean=None,
        non_inferiority=tuple(claims),
        left_out=tuple(left_out),
        notes=tuple(notes),
        by_condition=True,
    )


def _claim_of_condition(claim: NonInferiority, condition: str, condition_count: int) -> NonInferiority:
    """Return a claim as one about a condition of an experiment, corrected for all conditions (Bonferroni)."""
    p_value = bonferroni(claim.p_value, condition_count)
    is_shown = p_value is not None and p_value <= ONE_SIDED_LEVEL
    return replace(claim, p_value=p_value, shown=is_shown, condition=condition)


# -- several benchmarks

_Compared = TypeVar("_Compared")


def of_benchmarks(
    results: Mapping[str, Result | ResultGroup], function: Callable[[dict[str, Result]], _Compared]
) -> tuple[list[_Compared], list[str]]:
    """Call a function with the runs of each benchmark that has two runs at least.

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
    compared: list[_Compared] = []
    first_error: ArgumentError | UnknownNameError | None = None
    for benchmark, runs_of_benchmark in by_benchmark(results).items():
        runs_without_it = [run for run in runs if run not in runs_of_benchmark]
        if runs_without_it:
            left_out.append(f"{benchmark} (not in {', '.join(runs_without_it)})")
        if len(runs_of_benchmark) < 2:
            continue
        try:
            compared.append(function(runs_of_benchmark))
        except (ArgumentError, UnknownNameError) as error:
            left_out.append(f"{benchmark} ({error})")
            if first_error is None:
                first_error = error
    if compared:
        return compared, left_out
    if first_error is not None:
        raise first_error
    runs_with_benchmarks = [f"{run} ({', '.join(benchmarks)})" for run, benchmarks in runs.items()]
    raise ArgumentError(f"{' and '.join(runs_with_benchmarks)} share no benchmark")


def compare_all(
    results: Mapping[str, Result | ResultGroup], metric: str | None = None, *, margin: float | None = None
) -> tuple[tuple[BenchmarkComparison, ...], tuple[str, ...]]:
    """Compare all pairs of results.

    Args:
        results: As for :func:`of_benchmarks`.
        metric: A score, such as ``"macro_F1"``; by default the main one of each benchmark.
        margin: Also test whether each run is not worse than the other by more than this.

    Returns:
        The comparison of each benchmark, and the runs and data sets that were left out, with the reason in brackets.
        Errors are those of :func:`of_benchmarks`.
    """

    def compare_benchmark(runs: dict[str, Result]) -> BenchmarkComparison:
        return compare_runs(runs, metric, margin=margin)

    compared, left_out = of_benchmarks(results, compare_benchmark)
    for comparison in compared:
        left_out += comparison.left_out
    return tuple(compared), tuple(left_out)
