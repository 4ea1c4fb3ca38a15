"""Where a difference of two runs comes from: the same paired test on subgroups of the test rows.

A subgroup has the rows of one true label, or of one value of a column of a user's data set. On its rows, runs are
paired and tested as on a whole data set (:mod:`StaICC.comparing.pairing`): values, interval and test are those of a
data set with these rows only. P-values are corrected for all subgroups of all data sets and pairs of runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from StaICC.comparing.alignment import AlignedRuns, align, compared_pairs, corrected_in_groups
from StaICC.comparing.comparison import comparison_line
from StaICC.comparing.missing_queries import RunDifference, difference_outcome
from StaICC.comparing.pairing import PairedScores
from StaICC.comparing.row_groups import Rows, adds_up, row_groups, share_of_queries
from StaICC.comparing.run_pairs import RunPair
from StaICC.comparing.run_records import NotComparableError
from StaICC.comparing.subgroup_results import ALL_ROWS, SubgroupComparison, SubgroupDifference
from StaICC.comparing.verdicts import CorrectionMethod, TestOutcome
from StaICC.datasets.subgroups import BY_LABEL
from StaICC.errors import ArgumentError, StaICCError
from StaICC.metrics import paired_tests
from StaICC.results.interval_scope import demonstration_notes
from StaICC.results.result import Result


def compare_subgroups(
    results: Mapping[str, Result], by: str = BY_LABEL, metric: str | None = None
) -> tuple[SubgroupComparison, ...]:
    """Compare all pairs of several results of one benchmark on subgroups of their test rows.

    Args:
        results: The results, by the names of their runs; two at least.
        by: What the rows of a subgroup share: ``"label"`` for the true label, or the name of a column that a data set
            of your own was read with (``subgroups`` of :meth:`~StaICC.datasets.dataset.Dataset.from_file`).
        metric: As for :func:`~StaICC.comparing.comparison.compare`. By label, it must be a mean over queries. The
            accuracy of Normal on the rows of a label is the recall of this label.

    Returns:
        The comparison of each pair, with one correction for all of them.

    Raises:
        ArgumentError: Fewer than two runs can be compared, or no data set has such subgroups; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = {str(n): Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1)}
        >>> (found,) = compare_subgroups(runs)
        >>> found.subgroups[0].group, found.subgroups[0].line.values
        ('food', (1.0, 0.0))
    """
    if not isinstance(by, str) or not by:
        raise ArgumentError(f"by: got {by!r:.60}, expected {BY_LABEL!r} or the name of a column of subgroups")
    aligned = align(results, metric)
    compared = compared_pairs(aligned)
    divided_pairs = []
    reasons: dict[str, None] = {}
    for first, second in compared.comparable:
        divided = _divided_pair(aligned.pair(first, second), aligned.benchmark, by)
        reasons.update(dict.fromkeys(divided.left_out))
        if divided.subgroups:
            divided_pairs.append(divided)
    if not divided_pairs:
        raise ArgumentError(f"no data set can be compared by {by}: {'; '.join(reasons)}")

    tests_by_pair = []
    for divided in divided_pairs:
        tests_by_pair.append([difference_outcome(subgroup.difference) for subgroup in divided.subgroups])
    subgroup_counts = [len(tests) for tests in tests_by_pair]
    # If the pairs were chosen by the values of the runs, p-values are corrected for the subgroups of all pairs, of
    # which each may have as many as the pair with the most. Otherwise, chosen_from is 0.
    chosen_from = compared.chosen_from * max(subgroup_counts)
    test_count = sum(subgroup_counts)
    if chosen_from > 0:
        test_count = chosen_from
    outcomes_by_pair = corrected_in_groups(tests_by_pair, paired_tests.holm, chosen_from)

    comparisons = []
    for divided, outcomes in zip(divided_pairs, outcomes_by_pair, strict=True):
        comparisons.append(_comparison(aligned, divided, by, outcomes, test_count, compared.method))
    return tuple(comparisons)


@dataclass(frozen=True)
class _Subgroup:
    """The paired scores of two runs on a subgroup, or on all rows of a data set."""

    dataset: str
    group: str
    share: float | None
    """The share of its queries; ``None`` if it differs between conditions or between the runs."""
    difference: RunDifference
    queries: tuple[int, int]
    """Number of compared queries of each run."""
    adds_up: bool
    """Whether the score of all rows is the mean of those of subgroups, weighted by their shares."""


@dataclass(frozen=True)
class _DividedPair:
    """Two runs with their subgroups on each data set."""

    pair: RunPair
    subgroups: Sequence[_Subgroup]
    all_rows: Sequence[_Subgroup]
    """All compared rows of each data set that has subgroups."""
    left_out: Sequence[str]
    """The data sets without subgroups, with the reason."""


def _divided_pair(pair: RunPair, benchmark: str, by: str) -> _DividedPair:
    """Return two runs with their subgroups on each data set.

    Args:
        pair: The two runs.
        benchmark: The name of their benchmark.
        by: What the rows of a subgroup share (:func:`compare_subgroups`).
    """
    subgroups: list[_Subgroup] = []
    all_rows = []
    left_out = []
    for dataset, paired in pair.datasets.items():
        try:
            rows_by_group = row_groups(paired, benchmark, by)
        except NotComparableError as error:
            left_out.append(f"{dataset} ({error})")
            continue
        for group, rows in rows_by_group.items():
            subgroups.append(_subgroup(dataset, group, paired, rows))
        whole = _Subgroup(
            dataset=dataset,
            group=ALL_ROWS,
            share=1.0,
            difference=pair.differences[dataset],
            queries=paired.queries,
            adds_up=adds_up(paired),
        )
        all_rows.append(whole)
    return _DividedPair(pair, subgroups, all_rows, left_out)


def _subgroup(dataset: str, group: str, paired: PairedScores, rows: Rows) -> _Subgroup:
    """Return the paired scores of two runs on some test rows of a data set.

    Args:
        dataset: The data set.
        group: The name of the subgroup.
        paired: The runs on all rows of the data set.
        rows: The test rows of the subgroup by condition.
    """
    empty_conditions = [condition for condition, rows_of_condition in rows.items() if not rows_of_condition]
    if empty_conditions:
        queries = (0, 0)
        reason = f"no row of the subgroup is in {', '.join(empty_conditions)}"
        difference = _undefined_difference(rows, missing=(0, 0), reason=reason)
    else:
        on_rows = PairedScores(paired.first.on_rows(rows), paired.second.on_rows(rows), left_out=(0, 0))
        queries = on_rows.queries
        try:
            difference = on_rows.difference()
        except StaICCError as error:  # the score is undefined on these rows
            difference = _undefined_difference(rows, missing=on_rows.missing, reason=str(error))
    return _Subgroup(
        dataset=dataset,
        group=group,
        share=share_of_queries(paired, rows),
        difference=difference,
        queries=queries,
        adds_up=adds_up(paired),
    )


def _undefined_difference(rows: Rows, missing: tuple[int, int], reason: str) -> RunDifference:
    """Return the difference of two runs on test rows on which their scores are undefined."""
    row_count = len(frozenset().union(*rows.values()))
    return RunDifference(values=(None, None), rows=row_count, missing=missing, bounds=None, reason=reason)


def _comparison(
    aligned: AlignedRuns,
    divided: _DividedPair,
    by: str,
    outcomes: Sequence[TestOutcome],
    test_count: int,
    method: CorrectionMethod,
) -> SubgroupComparison:
    """Return the record of two runs with their subgroups and the corrected tests of these.

    Args:
        aligned: The runs, of which these are two.
        divided: The two runs with their subgroups.
        by: What the rows of a subgroup share (:func:`compare_subgroups`).
        outcomes: The corrected test of each subgroup.
        test_count: The number of tests for which they are corrected.
        method: The method of the correction.
    """
    pair = divided.pair
    first = aligned.runs[pair.first.name]
    second = aligned.runs[pair.second.name]
    subgroups = []
    for subgroup, outcome in zip(divided.subgroups, outcomes, strict=True):
        subgroups.append(_record(subgroup, outcome))
    all_rows = [_record(whole, difference_outcome(whole.difference)) for whole in divided.all_rows]
    return SubgroupComparison(
        benchmark=aligned.benchmark,
        metric=aligned.metric,
        higher_is_better=aligned.higher_is_better,
        by=by,
        first=pair.first.name,
        second=pair.second.name,
        models=(first.model, second.model),
        model_names=(first.provenance.label_without_digests, second.provenance.label_without_digests),
        subgroups=tuple(subgroups),
        all_rows=tuple(all_rows),
        tests=test_count,
        method=method,
        left_out=tuple(dict.fromkeys([*aligned.runs_left_out, *pair.left_out, *divided.left_out])),
        scope=(*demonstration_notes([first, second]), *pair.cluster_notes),
    )


def _record(subgroup: _Subgroup, outcome: TestOutcome) -> SubgroupDifference:
    """Return the record of a subgroup with its test."""
    line = comparison_line(subgroup.dataset, subgroup.difference, subgroup.queries, outcome)
    contribution = None
    if subgroup.adds_up and subgroup.share is not None and line.difference is not None:
        contribution = subgroup.share * line.difference
    return SubgroupDifference(group=subgroup.group, share=subgroup.share, contribution=contribution, line=line)
