"""The score of one run on one data set, as a sum over its test rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from StaICC.comparing.comparability import in_label_order
from StaICC.comparing.missing_queries import RunDifference, why_not_comparable
from StaICC.comparing.run_records import LabelLimits, RunRecords, is_undefined, metric_inputs
from StaICC.errors import UndefinedMetricError
from StaICC.metrics.paired_tests import paired_difference
from StaICC.metrics.statistics import (
    NOT_OVER_CLUSTERS,
    Contributions,
    Mean,
    MicroF1,
    OtherRun,
    RangeEnd,
    Sample,
    Statistic,
    lacks_score,
)
from StaICC.results.details import QueryPosition
from StaICC.results.score_names import column_head

WeightedContributions = list[tuple[float, Contributions]]
"""A score as a weighted sum over conditions: of each condition the weight, and the contributions of the test rows to
the metric in this condition."""

Positions = Mapping[str, Sequence[QueryPosition]]
"""Queries by condition. A query is given by its test row and its number among the queries of this row."""


class RunScore:
    """The score of a run on some queries of a data set. It depends on no other run.

    Args:
        metric: Name of the score.
        statistic: The definition of the score.
        records: The records of the run.
        positions: The queries, with or without a prediction; ``None`` for all queries of the run.
        saved_scores: Whether the predictions are saved scores of a metric of the user's own.
    """

    def __init__(
        self,
        metric: str,
        statistic: Statistic,
        records: RunRecords,
        positions: Positions | None = None,
        saved_scores: bool = False,
    ) -> None:
        """Collect the true labels and the predictions of the queries. The score is computed when it is first read."""
        self.metric = metric
        self.statistic = statistic
        if records.label_limits is not None:
            self.statistic = MicroF1((records.label_limits.true, records.label_limits.predicted))
        self.records = records
        if positions is None:
            positions = _all_positions(records, statistic)
        self.positions = positions
        self.saved_scores = saved_scores
        self.queries = sum(len(condition_positions) for condition_positions in positions.values())
        """Number of queries."""
        self.row_numbers: Mapping[int, int] = _row_numbers(positions)
        """The number of each test row: its place among the contributions."""
        self.rows = len(self.row_numbers)
        """Number of test rows."""

        self._in_label_orders: dict[tuple[str, ...], RunScore] = {}
        """This score with other orders of the labels (:meth:`in_label_order`), which several pairs of runs use."""
        self._samples = self._samples_of_conditions()
        """The true labels of the queries, by condition."""
        self._predictions: dict[str, list[Any]] = {}
        """The predictions of the queries, by condition."""
        for condition, condition_positions in positions.items():
            queries = records.conditions[condition]
            self._predictions[condition] = [queries[position].prediction for position in condition_positions]
        self.cluster_shares = _mean_shares([sample.cluster_shares for sample in self._samples.values()])
        """The share of each cluster of test rows in the queries; ``None`` if rows are independent."""
        missing_counts = [sum(map(lacks_score, predictions)) for predictions in self._predictions.values()]
        self.missing = sum(missing_counts)
        """Number of queries without a score."""

    def _samples_of_conditions(self) -> dict[str, Sample]:
        """Return the true labels of the queries by condition, with their test rows or the clusters of these."""
        clusters = None
        if self.records.clusters is not None:
            clusters = [self.records.clusters[row] for row in self.row_numbers]
        samples = {}
        for condition, positions in self.positions.items():
            sample = _sample(self.records, condition, positions, self.row_numbers, clusters)
            samples[condition] = sample.by_cluster()
        return samples

    # -- the same run on other queries, or with other labels

    @cached_property
    def rows_by_condition(self) -> dict[str, frozenset[int]]:
        """The test rows of each condition."""
        rows_by_condition = {}
        for condition, positions in self.positions.items():
            rows_by_condition[condition] = frozenset(row for row, _ in positions)
        return rows_by_condition

    @cached_property
    def rows_have_equal_weights(self) -> bool:
        """Whether all test rows of a condition have the same number of queries, and so the same weight in the score."""
        for positions in self.positions.values():
            query_counts = Counter(row for row, _ in positions)
            if len(set(query_counts.values())) > 1:
                return False
        return True

    def at(self, positions: Positions) -> RunScore:
        """Return the score on some of the queries."""
        return RunScore(self.metric, self.statistic, self.records, positions, self.saved_scores)

    def on_rows(self, rows_by_condition: Mapping[str, Collection[int]]) -> RunScore:
        """Return the score on some of the test rows, with all their queries."""
        if self.rows_by_condition == rows_by_condition:
            return self
        positions_on_rows: dict[str, list[QueryPosition]] = {}
        for condition, rows in rows_by_condition.items():
            positions = self.positions[condition]
            positions_on_rows[condition] = [(row, number) for row, number in positions if row in rows]
        return self.at(positions_on_rows)

    def in_label_order(self, labels: tuple[str, ...]) -> RunScore:
        """Return the score with the label indexes that belong to another order of the label names.

        Two runs may list the same labels in different orders. Label indexes can be compared in one order only.

        Args:
            labels: The label names in the wanted order.
        """
        if labels not in self._in_label_orders:
            records = in_label_order(self.records, labels, predictions_are_scores=self.saved_scores)
            if records is self.records:
                return self
            self._in_label_orders[labels] = self._with_records(records)
        return self._in_label_orders[labels]

    def with_clusters(self, clusters: tuple[int, ...] | None) -> RunScore:
        """Return the score over clusters of test rows that another run records, if this one records none."""
        if clusters is None or self.records.clusters is not None:
            return self
        return self._with_records(replace(self.records, clusters=clusters))

    def with_label_limits(self, limits: LabelLimits | None) -> RunScore:
        """Return the score with other largest numbers of labels, which the test of a micro F1 needs.

        Args:
            limits: The limits; ``None`` for other metrics, which have none.
        """
        if limits == self.records.label_limits:
            return self
        return self._with_records(replace(self.records, label_limits=limits))

    def _with_records(self, records: RunRecords) -> RunScore:
        """Return the score on the same queries, from other records of the run."""
        return RunScore(self.metric, self.statistic, records, self.positions, self.saved_scores)

    # -- the score

    def why_not_comparable(self) -> str | None:
        """Return the reason why clusters or missing queries make the run incomparable; ``None`` if it is comparable."""
        if self.cluster_shares is not None and not self.statistic.tested_over_clusters:
            return f"{column_head(self.metric)}: {NOT_OVER_CLUSTERS}"
        return why_not_comparable(self.metric, self.statistic, self.missing, self.queries)

    @cached_property
    def value(self) -> float | None:
        """The score on the queries that were predicted.

        It is the weighted sum of the values in the conditions. A pooled score weights each condition by its number of
        predicted queries. ``None`` if no query of a condition has a score, or of a pooled score no query at all.
        """
        if self.missing == 0:
            return math.fsum(weight * of_condition.value for weight, of_condition in self._own_contributions)
        if is_undefined(self._inputs, self.records.pooled):
            return None

        predicted_indexes: dict[str, list[int]] = {}
        for condition, inputs in self._inputs.items():
            predicted_indexes[condition] = [index for index, value in enumerate(inputs) if not lacks_score(value)]
        weights: Sequence[float] = self._weights
        if self.records.pooled:
            predicted_counts = [len(indexes) for indexes in predicted_indexes.values()]
            weights = [count / sum(predicted_counts) for count in predicted_counts]

        terms = []
        for weight, (condition, indexes) in zip(weights, predicted_indexes.items(), strict=True):
            if not indexes:
                continue  # without predictions, the weight is 0: the score is pooled, else it would be undefined
            sample = self._samples[condition].of_queries(indexes)
            predicted = [self._inputs[condition][index] for index in indexes]
            terms.append(weight * self.statistic.of_run(sample, predicted).value)
        return math.fsum(terms)

    @cached_property
    def from_zero(self) -> RunDifference:
        """The score as its difference from 0, with the lowest and the highest value as bounds.

        Without missing queries, both bounds are the same. If missing queries make the run incomparable, there are no
        bounds, and the difference has the reason.
        """
        values: tuple[float | None, float] = (self.value, 0.0)
        missing = (self.missing, 0)
        reason = self.why_not_comparable()
        if reason is not None:
            return RunDifference(values=values, rows=self.rows, missing=missing, bounds=None, reason=reason)
        lowest = paired_difference(self.contributions("lowest"), [], self.cluster_shares)
        if self.missing == 0:
            return RunDifference(values=values, rows=self.rows, missing=missing, bounds=(lowest, lowest))
        highest = paired_difference(self.contributions("highest"), [], self.cluster_shares)
        return RunDifference(values=values, rows=self.rows, missing=missing, bounds=(lowest, highest))

    @cached_property
    def condition_values(self) -> dict[str, float]:
        """The score by condition and repeat, such as ``{"names 0": 0.5, "names 1": 0.6}``.

        Repeat r of a condition has query number r of each test row, from 0. The values are empty if the score is not
        the mean over the conditions, if a query is missing, or if the score is undefined on the queries of a condition.
        """
        has_equal_weights = len(set(self.records.weights)) == 1
        is_mean_over_conditions = has_equal_weights and not self.statistic.compares_conditions
        if not is_mean_over_conditions or isinstance(self.statistic, MicroF1) or self.missing > 0:
            return {}
        values: dict[str, float] = {}
        for condition, positions in self.positions.items():
            positions_by_repeat: dict[int, list[QueryPosition]] = {}
            for position in positions:
                _, repeat = position
                positions_by_repeat.setdefault(repeat, []).append(position)
            for repeat, positions_of_repeat in sorted(positions_by_repeat.items()):
                try:
                    values[f"{condition} {repeat}"] = self._value_at(condition, positions_of_repeat)
                except UndefinedMetricError:
                    return {}
        return values

    def _value_at(self, condition: str, positions: Sequence[QueryPosition]) -> float:
        """Return the score on some queries of one condition, none of which is missing."""
        sample = _sample(self.records, condition, positions, _row_numbers({condition: positions}))
        queries = self.records.conditions[condition]
        return self.statistic.of_run(sample, [queries[position].prediction for position in positions]).value

    # -- contributions of the test rows

    def contributions(self, missing_at: RangeEnd) -> WeightedContributions:
        """Return the weighted contributions of the test rows.

        Args:
            missing_at: Whether missing queries make the score as low or as high as possible. They must not make the run
                incomparable (:meth:`why_not_comparable`).
        """
        if missing_at == "lowest":
            return self._lowest_contributions
        return self._highest_contributions

    def contributions_next_to(self, other: RunScore) -> WeightedContributions:
        """Return the weighted contributions of the test rows in a comparison with another run.

        The contributions to F1 depend on the other run. Neither run has missing queries.
        """
        if self.statistic.independent:
            return self._own_contributions
        weighted_contributions = []
        for weight, condition in zip(self._weights, self._inputs, strict=True):
            other_run = OtherRun(other._samples[condition], other._inputs[condition])
            contributions = self.statistic.of_run(self._samples[condition], self._inputs[condition], other_run)
            weighted_contributions.append((weight, contributions))
        return weighted_contributions

    @cached_property
    def _inputs(self) -> Mapping[str, list[Any]]:
        """The inputs of the metric by condition (:func:`metric_inputs`)."""
        return metric_inputs(self.statistic, self._predictions)

    @property
    def _weights(self) -> tuple[float, ...]:
        """The weight of each condition in the score, in the order of the inputs.

        The inputs of a score that compares conditions are listed under one condition, so it has one weight.
        """
        if self.statistic.compares_conditions:
            return (1.0,)
        return self.records.weights

    @cached_property
    def _own_contributions(self) -> WeightedContributions:
        """The weighted contributions of a run that has no missing queries, compared with itself."""
        weighted_contributions = []
        for weight, condition in zip(self._weights, self._inputs, strict=True):
            contributions = self.statistic.of_run(self._samples[condition], self._inputs[condition])
            weighted_contributions.append((weight, contributions))
        return weighted_contributions

    @cached_property
    def _lowest_contributions(self) -> WeightedContributions:
        """The weighted contributions if missing queries make the score as low as possible."""
        return self._contributions_with_missing("lowest")

    @cached_property
    def _highest_contributions(self) -> WeightedContributions:
        """The weighted contributions if missing queries make the score as high as possible."""
        return self._contributions_with_missing("highest")

    def _contributions_with_missing(self, end: RangeEnd) -> WeightedContributions:
        """Return the weighted contributions to a mean, if missing queries make it as low or high as possible.

        Args:
            end: Whether the mean over queries is as low or as high as possible.
        """
        if self.missing == 0:
            return self._own_contributions
        if not isinstance(self.statistic, Mean):
            raise TypeError(f"{self.metric} is no mean over queries")
        opposite_end: RangeEnd = "highest" if end == "lowest" else "lowest"
        weighted_contributions = []
        for weight, condition in zip(self._weights, self._inputs, strict=True):
            # In a condition with a negative weight, a high score makes the sum low.
            missing_at = end if weight > 0.0 else opposite_end
            sample = self._samples[condition]
            contributions = self.statistic.with_missing(sample, self._inputs[condition], missing_at)
            weighted_contributions.append((weight, contributions))
        return weighted_contributions


def _all_positions(records: RunRecords, statistic: Statistic) -> dict[str, list[QueryPosition]]:
    """Return the positions of all queries by condition, in the order of their test rows.

    A score may compare the predictions of a query in all conditions, so all conditions must have the query then.
    """
    positions = {condition: sorted(queries) for condition, queries in records.conditions.items()}
    if statistic.compares_conditions:
        in_all_conditions = set.intersection(*map(set, positions.values()))
        return dict.fromkeys(positions, sorted(in_all_conditions))
    return positions


def _mean_shares(shares_by_condition: Sequence[Sequence[float] | None]) -> list[float] | None:
    """Return the share of each cluster in the queries, as the mean over conditions; ``None`` without clusters.

    Args:
        shares_by_condition: For each condition the shares of the clusters.
    """
    known = [shares for shares in shares_by_condition if shares is not None]
    if not known:
        return None
    return [math.fsum(shares) / len(known) for shares in zip(*known, strict=True)]


def _row_numbers(positions: Positions) -> dict[int, int]:
    """Return consecutive numbers for the test rows, from 0: rows 3 and 7 have the numbers 0 and 1."""
    rows: set[int] = set()
    for condition_positions in positions.values():
        rows.update(row for row, _ in condition_positions)
    return {row: number for number, row in enumerate(sorted(rows))}


def _sample(
    records: RunRecords,
    condition: str,
    positions: Sequence[QueryPosition],
    row_numbers: Mapping[int, int],
    clusters: Sequence[int] | None = None,
) -> Sample:
    """Return some queries of a condition as a sample: their true labels, and the number of the test row of each.

    Args:
        records: The records of the run.
        condition: The condition.
        positions: The queries, each by its test row and its number among the queries of this row.
        row_numbers: The number of each test row in the sample, from 0. The rows 4 and 9 have the numbers 0 and 1.
        clusters: The cluster of each of these test rows; ``None`` if rows are independent.
    """
    queries = records.conditions[condition]
    truth: list[Any] = [queries[position].truth for position in positions]
    rows = [row_numbers[test_row] for test_row, _number_of_query in positions]
    return Sample(truth, rows, n_rows=len(row_numbers), n_labels=len(records.labels), clusters=clusters)
