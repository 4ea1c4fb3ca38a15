"""Two runs on one data set, paired by test row.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. The test rows that both runs have are compared:

- If both runs have the same queries, that is test rows with the same number of queries each, these are compared. A
  query is found again by its test row and its place among the queries of that row, so the order of the records does not
  matter.
- If one run has more queries for each test row than the other, all of them count: runs are paired by the mean of each
  row. A mean over queries is then the mean of these means. Any other metric is a function of means over queries, such
  as the shares of labels and predictions, so it is computed from all queries, and a test row with all its queries is
  one unit of the test.
- If a run has another number of queries for some of its rows, such means would have other weights than its score. Then
  the queries that both runs have are compared.

So a pair depends on its two runs only. Queries without a score stay among them
(:mod:`StaICC.comparing.missing_queries`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from StaICC.comparing.comparability import why_not_the_same_rows
from StaICC.comparing.missing_queries import MEANING, RunDifference
from StaICC.comparing.run_records import LabelLimits, NotComparableError
from StaICC.comparing.run_scores import RunScore, WeightedContributions
from StaICC.metrics.paired_tests import PairedDifference, paired_difference
from StaICC.results.interval_scope import cluster_note


@dataclass(frozen=True, slots=True)
class PairedScores:
    """The scores of two runs on the same test rows of one data set."""

    first: RunScore
    second: RunScore
    left_out: tuple[int, int]
    """Number of queries of each run that are not compared."""

    @property
    def rows(self) -> int:
        """Number of test rows."""
        return self.first.rows

    @property
    def queries(self) -> tuple[int, int]:
        """Number of compared queries of each run."""
        return (self.first.queries, self.second.queries)

    @property
    def values(self) -> tuple[float | None, float | None]:
        """The score of each run on the compared queries; ``None`` if too many are missing."""
        return (self.first.value, self.second.value)

    @property
    def missing(self) -> tuple[int, int]:
        """Number of compared queries of each run without a score."""
        return (self.first.missing, self.second.missing)

    @property
    def has_same_queries(self) -> bool:
        """Whether both runs have the same number of queries for each test row."""
        return self.first.positions == self.second.positions

    def why_not_comparable(self) -> str | None:
        """Return the reason why missing queries make the runs incomparable; ``None`` if they can be compared."""
        return self.first.why_not_comparable() or self.second.why_not_comparable()

    def difference(self) -> RunDifference:
        """Return the difference of the two runs, first minus second, as a sum over test rows.

        A missing query has no score, and may have any. So the difference is lowest if the missing queries of the first
        run have their lowest score, and those of the second run their highest one. The highest difference is the other
        way round. Both are returned, and tests use the one that is worse for their claim. Without missing queries, both
        are the same.

        If the runs cannot be compared, the difference has no such bounds, but the reason.
        """
        reason = self.why_not_comparable()
        if reason is not None:
            return RunDifference(values=self.values, rows=self.rows, missing=self.missing, bounds=None, reason=reason)
        if self.missing == (0, 0):
            lowest = self.weighted_difference(
                self.first.contributions_next_to(self.second), self.second.contributions_next_to(self.first)
            )
            highest = lowest
        else:
            lowest = self.weighted_difference(self.first.contributions("lowest"), self.second.contributions("highest"))
            highest = self.weighted_difference(self.first.contributions("highest"), self.second.contributions("lowest"))
        return RunDifference(values=self.values, rows=self.rows, missing=self.missing, bounds=(lowest, highest))

    def weighted_difference(self, first: WeightedContributions, second: WeightedContributions) -> PairedDifference:
        """Return the difference of two weighted sums of metrics over the test rows, or over their clusters.

        Args:
            first: The weighted contributions of the first run, such as :meth:`RunScore.contributions`.
            second: Those of the second run.
        """
        # The clusters have the same shares in both runs: each row has the same number of queries, its own in each run.
        return paired_difference(first, second, self.first.cluster_shares)

    def left_out_notes(self, first: str, second: str) -> Iterator[str]:
        """Yield sentences about each run: how many of its queries are not compared, and how many have no score.

        Args:
            first: Name of the first run.
            second: Name of the second run.
        """
        left_out_of_first, left_out_of_second = self.left_out
        yield from _left_out_notes_of_run(first, self.first, left_out_of_first)
        yield from _left_out_notes_of_run(second, self.second, left_out_of_second)

    def cluster_note(self, dataset: str) -> str | None:
        """Return the sentence about the clusters of the compared test rows; ``None`` if these are independent."""
        clusters = self.first.records.clusters
        if clusters is None:
            return None
        return cluster_note(dataset, clusters, self.first.row_numbers)

    def note(self, first: str, second: str) -> str | None:
        """Return how the runs are paired if their numbers of queries differ; ``None`` if they do not."""
        if self.has_same_queries:
            return None
        return (
            f"{first} has {self.first.queries} queries of these {self.rows} test rows, and {second} has "
            f"{self.second.queries}: runs are paired by the mean of each test row"
        )


def _left_out_notes_of_run(name: str, run: RunScore, left_out: int) -> Iterator[str]:
    """Yield sentences about the queries of a run that are not compared, and about those that have no score.

    Args:
        name: Name of the run.
        run: Its score on the compared queries.
        left_out: Number of its queries that are not compared.
    """
    if left_out > 0:
        yield f"{left_out} of {run.queries + left_out} queries of {name} are not compared"
    if run.missing > 0:
        yield missing_note(name, run)


def missing_note(name: str, run: RunScore) -> str:
    """Return the sentence about the queries of a run that have no score.

    Args:
        name: Name of the run.
        run: Its score, with missing queries.
    """
    consequence = MEANING
    if run.why_not_comparable() is not None:
        consequence = "the metric is untested"
    return f"{run.missing} of {run.queries} queries of {name} have no score: {consequence}"


def pair_scores(first: RunScore, second: RunScore) -> PairedScores:
    """Return the scores of two runs on one data set, each over the queries that are compared.

    These are all queries of the test rows that both runs have, or only the queries that both have
    (:func:`_compared_queries`). The records of the second run are put into the order of labels of the first. What a
    test needs and only one run records (clusters, limits of labels) holds for both.

    Args:
        first: The score of a run.
        second: The score of another run, with the same metric.

    Raises:
        NotComparableError: The runs cannot be compared on this data set; the message has the reason.
    """
    reordered_second = second.in_label_order(first.records.labels)
    reason = why_not_the_same_rows(first.records, reordered_second.records)
    if reason is not None:
        raise NotComparableError(f"the runs have {reason}")

    limits = _common_limits(first, reordered_second)  # of a micro F1 only
    complete_first = first.with_label_limits(limits)
    complete_second = reordered_second.with_label_limits(limits)
    # Clusters are a fact about the rows. So a run without them is compared over the clusters that the other records.
    complete_first = complete_first.with_clusters(second.records.clusters)
    complete_second = complete_second.with_clusters(first.records.clusters)

    compared_first, compared_second = _compared_queries(complete_first, complete_second)
    every_condition_has_queries = all(compared_first.positions.values())
    if not every_condition_has_queries:
        raise NotComparableError("the runs share no test row")
    for value in (compared_first.value, compared_second.value):
        if value is not None and math.isinf(value):
            raise NotComparableError(f"{first.metric} is infinite on the compared rows")
    left_out = (first.queries - compared_first.queries, second.queries - compared_second.queries)
    return PairedScores(compared_first, compared_second, left_out)


def _compared_queries(first: RunScore, second: RunScore) -> tuple[RunScore, RunScore]:
    """Return the scores of both runs on the queries that are compared.

    Runs are paired by the mean of each test row, so all queries of the rows that both runs have are compared, if each
    run has the same number of queries for all of its rows. Otherwise such means would have other weights than the score
    of the run. Then only the queries that both runs have are compared.
    """
    if first.positions == second.positions:
        return first, second
    shared_rows = {}
    for condition, rows in first.rows_by_condition.items():
        shared_rows[condition] = rows & second.rows_by_condition[condition]
    first_on_rows = first.on_rows(shared_rows)
    second_on_rows = second.on_rows(shared_rows)
    same_queries = first_on_rows.positions == second_on_rows.positions
    equal_weights = first_on_rows.rows_have_equal_weights and second_on_rows.rows_have_equal_weights
    if same_queries or equal_weights:
        return first_on_rows, second_on_rows

    shared_positions = {}
    for condition, positions in first_on_rows.positions.items():
        positions_of_second = set(second_on_rows.positions[condition])
        shared_positions[condition] = [position for position in positions if position in positions_of_second]
    return first_on_rows.at(shared_positions), second_on_rows.at(shared_positions)


def _common_limits(first: RunScore, second: RunScore) -> LabelLimits | None:
    """Return limits of a micro F1 that are valid for both runs: the larger ones; ``None`` for other metrics.

    The statistic needs the largest possible numbers of true and of predicted labels of a query.
    """
    known = [run.records.label_limits for run in (first, second) if run.records.label_limits is not None]
    if not known:
        return None
    most_true = max(limits.true for limits in known)
    most_predicted = max(limits.predicted for limits in known)
    return LabelLimits(most_true, most_predicted)
