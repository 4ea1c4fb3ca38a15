"""The records of several runs on one data set, paired by test row.

Runs are comparable if they have the same test rows with the same true labels, whatever their prompts: method, k,
template and channel may differ. A query is found again by its test row and its place among the queries of that row, so
the order of the records does not matter. Queries without a score stay among them
(:mod:`StaICC.comparing.missing_queries`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from StaICC.comparing.missing_queries import MEANING, RunDifference, why_not_comparable
from StaICC.comparing.run_records import (
    LabelLimits,
    NotComparableError,
    Queries,
    RecordedQuery,
    RunRecords,
    is_undefined,
    metric_inputs,
    read_records,
)
from StaICC.errors import StaICCError
from StaICC.metrics.paired_tests import PairedDifference, paired_difference
from StaICC.metrics.scores import CONSISTENCY, score_record
from StaICC.metrics.statistics import (
    NOT_OVER_CLUSTERS,
    Contributions,
    Mean,
    MeanOfUnknownRange,
    MicroF1,
    RangeEnd,
    Sample,
    Statistic,
    lacks_score,
)
from StaICC.results.details import LoggedSamples, QueryPosition
from StaICC.results.result import Result

WeightedContributions = list[tuple[float, Contributions]]
"""A score as a weighted sum over conditions: of each condition the weight, and the contributions of the test rows to
the metric in this condition."""


class PairedRecords:
    """Several runs on the same queries of one data set.

    Args:
        metric: Name of the score by which the runs are compared.
        statistic: The definition of the score.
        runs: The records of each run, by its name. Label indexes have the same meaning in all runs.
        positions: The compared queries of each condition: those that all runs have, with or without a prediction. A
            query is given by its test row and its number among the queries of this row.
    """

    def __init__(
        self,
        metric: str,
        statistic: Statistic,
        runs: Mapping[str, RunRecords],
        positions: Mapping[str, Sequence[QueryPosition]],
    ) -> None:
        self.metric = metric
        self.statistic = statistic
        self.runs = runs
        self.positions = positions
        self.queries = sum(len(condition_positions) for condition_positions in positions.values())
        """Number of compared queries of a run; it is the same for all runs."""
        row_numbers = _row_numbers(positions)
        self.row_numbers: Mapping[int, int] = row_numbers
        """The number of each test row with a compared query: its place among the contributions."""
        self.rows = len(row_numbers)
        """Number of test rows with a compared query."""
        clusters = clusters_of(runs.values())
        if clusters is not None:
            clusters = [clusters[row] for row in row_numbers]

        # The true labels are the same in all runs, so those of the first run are taken.
        first_run = next(iter(runs.values()))
        self._samples: dict[str, Sample] = {}
        for condition, condition_positions in positions.items():
            sample = _sample(first_run, condition, condition_positions, row_numbers, clusters)
            self._samples[condition] = sample.by_cluster()
        self._cluster_shares = _mean_shares([sample.cluster_shares for sample in self._samples.values()])

        self._predictions: dict[str, dict[str, list[Any]]] = {}  # by run and condition
        self.missing: dict[str, int] = {}
        """Number of compared queries without a score, by run."""
        for run, records in runs.items():
            predictions_by_condition = _predictions_at(records, positions)
            self._predictions[run] = predictions_by_condition
            missing_counts = [_count_missing(predictions) for predictions in predictions_by_condition.values()]
            self.missing[run] = sum(missing_counts)

    def why_not_comparable(self, run: str) -> str | None:
        """Return the reason why missing queries make a run incomparable; ``None`` if the run can be compared."""
        if self._cluster_shares is not None and not self.statistic.tested_over_clusters:
            return f"{self.metric}: {NOT_OVER_CLUSTERS}"
        return why_not_comparable(self.metric, self.statistic, self.missing[run], self.queries)

    # -- differences

    def difference(self, first: str, second: str) -> RunDifference:
        """Return the difference of the metric between two runs, first minus second, on this data set."""
        values = (self.values[first], self.values[second])
        missing = (self.missing[first], self.missing[second])
        reason = self.why_not_comparable(first) or self.why_not_comparable(second)
        if reason is not None:
            return RunDifference(values, self.rows, missing, None, reason)
        if missing == (0, 0):
            difference = self._difference_of_complete(first, second)
            return RunDifference(values, self.rows, missing, (difference, difference))
        lowest = self.weighted_difference(self._lowest_contributions[first], self._highest_contributions[second])
        highest = self.weighted_difference(self._highest_contributions[first], self._lowest_contributions[second])
        return RunDifference(values, self.rows, missing, (lowest, highest))

    def _difference_of_complete(self, first: str, second: str) -> PairedDifference:
        """Return the difference of two runs, neither of which has missing queries."""
        if self.statistic.independent:
            return self.weighted_difference(self._own_contributions[first], self._own_contributions[second])
        # The contributions of a run to F1 depend on the other run, because F1 in their formula is that of both runs.
        return self.weighted_difference(
            self._weighted_contributions(first, second), self._weighted_contributions(second, first)
        )

    def weighted_difference(self, first: WeightedContributions, second: WeightedContributions) -> PairedDifference:
        """Return the difference of two weighted sums of metrics over the test rows, or over their clusters.

        Args:
            first: The weighted contributions of the first run, such as :meth:`contributions`.
            second: Those of the second run.
        """
        return paired_difference(first, second, self._cluster_shares)

    @cached_property
    def alone(self) -> dict[str, RunDifference]:
        """The metric of each run as a sum over test rows: a difference whose second value is 0."""
        return {run: self._difference_from_zero(run) for run in self.runs}

    def _difference_from_zero(self, run: str) -> RunDifference:
        """Return the metric of a run as its difference from 0, with the lowest and the highest value as bounds.

        Without missing queries, both bounds are the same. If missing queries make the run incomparable, there are no
        bounds, and the difference has the reason.
        """
        values: tuple[float | None, float] = (self.values[run], 0.0)
        missing = (self.missing[run], 0)
        reason = self.why_not_comparable(run)
        if reason is not None:
            return RunDifference(values, self.rows, missing, None, reason)
        if missing == (0, 0):
            difference = self.weighted_difference(self._own_contributions[run], [])
            return RunDifference(values, self.rows, missing, (difference, difference))
        lowest = self.weighted_difference(self._lowest_contributions[run], [])
        highest = self.weighted_difference(self._highest_contributions[run], [])
        return RunDifference(values, self.rows, missing, (lowest, highest))

    # -- values

    @cached_property
    def values(self) -> dict[str, float | None]:
        """The metric of each run on the compared queries that it predicted; ``None`` if too many are missing."""
        return {run: self._value_of_predicted(run) for run in self.runs}

    def _value_of_predicted(self, run: str) -> float | None:
        """Return the metric of a run on the queries that have a score.

        It is the weighted sum of the values in the conditions. A pooled score weights each condition by its number of
        predicted queries.

        Returns:
            The value; ``None`` if no query of a condition has a score, or of a pooled score no query at all.
        """
        if self.missing[run] == 0:
            return math.fsum(weight * of_condition.value for weight, of_condition in self._own_contributions[run])
        inputs = self._inputs(run)
        if is_undefined(inputs, self.runs[run].pooled):
            return None

        values: list[float] = []
        predicted_counts: list[int] = []
        for condition, predictions in inputs.items():
            indexes = [index for index, prediction in enumerate(predictions) if not lacks_score(prediction)]
            predicted_counts.append(len(indexes))
            if not indexes:
                # The score is pooled (see is_undefined), so a condition without predictions has weight 0.
                values.append(0.0)
                continue
            sample = self._samples[condition].of_queries(indexes)
            predicted = [predictions[index] for index in indexes]
            values.append(self.statistic.of_run(sample, predicted).value)

        weights: Sequence[float] = self._weights(run)
        if self.runs[run].pooled:
            total = sum(predicted_counts)
            weights = [count / total for count in predicted_counts]
        return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))

    @property
    def condition_values(self) -> dict[str, dict[str, float]]:
        """The metric of each run by condition and repeat, such as ``{"names 0": {"run": 0.5}}``.

        Repeat r of a condition has query number r of each test row, from 0. The values are empty if the metric is not
        the mean over the conditions, or if a query of any run is missing.
        """
        weights = {weight for records in self.runs.values() for weight in records.weights}
        is_mean_over_conditions = len(weights) == 1 and self.statistic is not CONSISTENCY
        if not is_mean_over_conditions or isinstance(self.statistic, MicroF1):
            return {}
        if any(self.missing.values()):
            return {}
        values: dict[str, dict[str, float]] = {}
        for condition, positions in self.positions.items():
            for repeat in sorted({repeat for _, repeat in positions}):
                positions_of_repeat = [position for position in positions if position[1] == repeat]
                values[f"{condition} {repeat}"] = self._values_at(condition, positions_of_repeat)
        return values

    def _values_at(self, condition: str, positions: Sequence[QueryPosition]) -> dict[str, float]:
        """Return the metric of each run, by its name, on some queries of one condition, none of which is missing."""
        row_numbers = _row_numbers({condition: positions})
        first_run = next(iter(self.runs.values()))
        sample = _sample(first_run, condition, positions, row_numbers)
        values = {}
        for run, records in self.runs.items():
            queries = records.conditions[condition]
            predictions = [queries[position].prediction for position in positions]
            values[run] = self.statistic.of_run(sample, predictions).value
        return values

    # -- contributions of the test rows

    def contributions(self, run: str, missing_at: RangeEnd) -> WeightedContributions:
        """Return the weighted contributions of a run to its score.

        Args:
            run: The run. Its missing queries must not make it incomparable (:meth:`why_not_comparable`).
            missing_at: Whether missing queries make the score as low or as high as possible.
        """
        if missing_at == "lowest":
            return self._lowest_contributions[run]
        return self._highest_contributions[run]

    def _inputs(self, run: str) -> Mapping[str, list[Any]]:
        """Return the inputs of the metric for the compared queries of a run, by condition (:func:`metric_inputs`)."""
        return metric_inputs(self.statistic, self._predictions[run])

    def _weights(self, run: str) -> tuple[float, ...]:
        """Return the weight of each condition in the score of a run, in the order of :meth:`_inputs`.

        The inputs of the consistency are listed under one condition, so it has one weight.
        """
        if self.statistic is CONSISTENCY:
            return (1.0,)
        return self.runs[run].weights

    def _weighted_contributions(self, run: str, other: str) -> WeightedContributions:
        """Return for each condition its weight in the score of a run, and the contribution of each test row.

        Args:
            run: The run.
            other: The run with which it is compared. The contributions to F1 depend on it.
        """
        inputs = self._inputs(run)
        other_inputs = self._inputs(other)
        weighted_contributions = []
        for weight, condition in zip(self._weights(run), inputs, strict=True):
            sample = self._samples[condition]
            contributions = self.statistic.of_run(sample, inputs[condition], other_inputs[condition])
            weighted_contributions.append((weight, contributions))
        return weighted_contributions

    @cached_property
    def _own_contributions(self) -> dict[str, WeightedContributions]:
        """The weighted contributions of each run that has no missing queries, compared with itself."""
        return {run: self._weighted_contributions(run, run) for run in self.runs if self.missing[run] == 0}

    @cached_property
    def _lowest_contributions(self) -> dict[str, WeightedContributions]:
        """The weighted contributions of each run if its missing queries make its score as low as possible."""
        return {run: self._contributions_with_missing(run, "lowest") for run in self.runs}

    @cached_property
    def _highest_contributions(self) -> dict[str, WeightedContributions]:
        """The weighted contributions of each run if its missing queries make its score as high as possible."""
        return {run: self._contributions_with_missing(run, "highest") for run in self.runs}

    def _contributions_with_missing(self, run: str, end: RangeEnd) -> WeightedContributions:
        """Return the weighted contributions of a run to a mean, if missing queries make it as low or high as possible.

        Args:
            run: The run.
            end: Whether the mean over queries is as low or as high as possible.
        """
        if self.missing[run] == 0:
            return self._own_contributions[run]
        if not isinstance(self.statistic, Mean):
            raise TypeError(f"{self.metric} is no mean over queries")
        opposite_end: RangeEnd = "highest" if end == "lowest" else "lowest"
        inputs = self._inputs(run)
        weighted_contributions = []
        for weight, condition in zip(self._weights(run), inputs, strict=True):
            # In a condition with a negative weight, a high score makes the sum low.
            missing_at = end if weight > 0.0 else opposite_end
            contributions = self.statistic.with_missing(self._samples[condition], inputs[condition], missing_at)
            weighted_contributions.append((weight, contributions))
        return weighted_contributions

    @property
    def notes(self) -> Iterator[str]:
        """Sentences about each run: how many of its queries are not compared, and how many have no score."""
        for run, records in self.runs.items():
            left_out = records.queries - self.queries
            if left_out > 0:
                yield f"{left_out} of {records.queries} queries of {run} are not compared"
            missing = self.missing[run]
            if missing > 0:
                consequence = "the metric is untested" if self.why_not_comparable(run) else MEANING
                yield f"{missing} of {self.queries} queries of {run} have no score: {consequence}"


def _row_numbers(positions: Mapping[str, Sequence[QueryPosition]]) -> dict[int, int]:
    """Return consecutive numbers for the test rows, from 0: rows 3 and 7 have the numbers 0 and 1."""
    rows: set[int] = set()
    for condition_positions in positions.values():
        rows.update(row for row, _ in condition_positions)
    return {row: number for number, row in enumerate(sorted(rows))}


def clusters_of(runs: Collection[RunRecords]) -> Sequence[int] | None:
    """Return the cluster of each test row of a data set, as recorded in a run; ``None`` if no run has clusters.

    Clusters are a fact about the rows. So a run without them is compared over the clusters that another run records.
    Runs with different clusters are not comparable (:func:`_why_not_the_same_rows`).
    """
    for records in runs:
        if records.clusters is not None:
            return records.clusters
    return None


def _mean_shares(shares_by_condition: Sequence[Sequence[float] | None]) -> list[float] | None:
    """Return the share of each cluster in the queries, as the mean over conditions; ``None`` without clusters.

    Args:
        shares_by_condition: For each condition the shares of the clusters.
    """
    known = [shares for shares in shares_by_condition if shares is not None]
    if not known:
        return None
    return [math.fsum(shares) / len(known) for shares in zip(*known, strict=True)]


def _sample(
    records: RunRecords,
    condition: str,
    positions: Sequence[QueryPosition],
    row_numbers: Mapping[int, int],
    clusters: Sequence[int] | None = None,
) -> Sample:
    """Return the true labels and the test rows of some queries of a condition.

    Args:
        records: The records of any run: all runs have the same true labels.
        condition: The condition.
        positions: The queries.
        row_numbers: The number of each test row in the sample, from 0.
        clusters: The cluster of each of these test rows; ``None`` if rows are independent.
    """
    queries = records.conditions[condition]
    truth: list[Any] = [queries[position].truth for position in positions]
    rows = [row_numbers[row] for row, _ in positions]
    return Sample(truth, rows, n_rows=len(row_numbers), n_labels=len(records.labels), clusters=clusters)


def _predictions_at(records: RunRecords, positions: Mapping[str, Sequence[QueryPosition]]) -> dict[str, list[Any]]:
    """Return the recorded predictions of some queries of a run, by condition; ``None`` for missing queries."""
    predictions = {}
    for condition, condition_positions in positions.items():
        queries = records.conditions[condition]
        predictions[condition] = [queries[position].prediction for position in condition_positions]
    return predictions


def _count_missing(predictions: Sequence[Any]) -> int:
    """Return the number of queries without a score."""
    return sum(lacks_score(prediction) for prediction in predictions)


# -- from results


def pair_records(results: Mapping[str, Result], dataset: str, metric: str) -> PairedRecords:
    """Return the records of several runs on one data set, restricted to the queries that all runs have.

    Args:
        results: The runs, by name, all of the same benchmark.
        dataset: The data set.
        metric: A score of the benchmark.

    Raises:
        NotComparableError: The runs cannot be compared on this data set; the message has the reason.
    """
    statistic = _statistic(results, metric)
    runs = _comparable_records(results, dataset, metric, statistic)
    metric_names = {result.divided[dataset].get("metric") for result in results.values()}
    if len(metric_names) > 1:
        raise NotComparableError(f"the runs have other metrics here: {', '.join(map(str, metric_names))}")

    positions = _shared_positions(runs)
    if statistic is CONSISTENCY:
        # The consistency of a query compares its predictions in all conditions, so all conditions must have it.
        position_sets = [set(condition_positions) for condition_positions in positions.values()]
        positions_in_all = set.intersection(*position_sets)
        positions = dict.fromkeys(positions, sorted(positions_in_all))
    if not all(positions.values()):
        raise NotComparableError("the runs share no test row")

    limits = [records.label_limits for records in runs.values() if records.label_limits is not None]
    if limits:
        statistic = _micro_f1_of_all(limits)
    paired = PairedRecords(metric, statistic, runs, positions)
    for value in paired.values.values():
        if value is not None and math.isinf(value):
            raise NotComparableError(f"{metric} is infinite on the compared rows")
    return paired


def _statistic(runs: Mapping[str, Result], metric: str) -> Statistic:
    """Return the definition of a score, which must be the same in all runs.

    Raises:
        NotComparableError: The runs are of several benchmarks, or the score cannot be recomputed from the records.
    """
    own_mean = _common_query_scores(runs, metric)
    if own_mean is not None:
        return own_mean

    benchmarks = list(dict.fromkeys(run.benchmark for run in runs.values()))
    if len(benchmarks) > 1:
        raise NotComparableError(f"the runs are of other benchmarks: {', '.join(benchmarks)}")
    statistics: list[Statistic] = []
    for run in runs.values():
        statistic = score_record(run.benchmark, metric, run.higher_is_better).statistic
        if statistic is None:
            raise NotComparableError(
                f"{metric} cannot be recomputed from a file: it is no metric of this library, and not in all runs a "
                "MeanOf with the same range and direction"
            )
        statistics.append(statistic)
    return statistics[0]


def _common_query_scores(runs: Mapping[str, Result], metric: str) -> Mean | None:
    """Return a metric of the user's own as a statistic: the mean of the query scores that are saved in the runs.

    Returns:
        The mean; ``None`` if a run has no saved query scores of this metric, or if range or direction of the metric
        differ between runs.

    Raises:
        NotComparableError: Range or direction differ between runs that were read from logs.
    """
    definitions = set()
    for run in runs.values():
        scores = run.query_scores.get(metric)
        if scores is None:
            return None
        direction = score_record(run.benchmark, metric, run.higher_is_better).higher_is_better
        definitions.add((scores.low, scores.high, direction))
    if len(definitions) > 1 and all(run.samples for run in runs.values()):
        raise NotComparableError(f"the logs have other ranges or directions of {metric}: state them for all runs")
    if len(definitions) > 1:
        return None
    low, high, _ = definitions.pop()
    if low is None or high is None:
        return MeanOfUnknownRange()
    return Mean(low, high)


def _comparable_records(
    results: Mapping[str, Result], dataset: str, metric: str, statistic: Statistic
) -> dict[str, RunRecords]:
    """Return the records of each run, with the labels in the order of the first run.

    Raises:
        NotComparableError: A run has no records, or its test rows or labels are not those of the first run.
    """
    runs: dict[str, RunRecords] = {}
    first_run = next(iter(results))
    for run, result in results.items():
        try:
            records = read_records(result, dataset, metric, statistic)
        except StaICCError as error:
            raise NotComparableError(f"{run}: {error}") from error
        if run == first_run:
            runs[run] = records
            continue
        reference = runs[first_run]
        are_scores = metric in result.query_scores
        records = _in_label_order(records, reference.labels, predictions_are_scores=are_scores)
        difference = _why_not_the_same_rows(reference, records)
        if difference is not None:
            raise NotComparableError(f"{first_run} and {run} have {difference}")
        runs[run] = records
    return runs


def _in_label_order(records: RunRecords, labels: tuple[str, ...], predictions_are_scores: bool = False) -> RunRecords:
    """Return the records of a run with the label indexes that belong to another order of its label names.

    If the first run has the labels "positive, negative" and this run has "negative, positive", its index 0 becomes 1.
    Records are unchanged if the names are other ones, or if two labels have the same name.

    Args:
        records: The records of the run.
        labels: The label names in the wanted order.
        predictions_are_scores: Whether predictions are scores of a metric of the user's own, which do not depend on the
            order of the labels.
    """
    has_other_names = sorted(records.labels) != sorted(labels)
    has_duplicates = len(set(labels)) < len(labels)
    if records.labels == labels or has_other_names or has_duplicates:
        return records
    new_index = [labels.index(name) for name in records.labels]
    old_index = [records.labels.index(name) for name in labels]
    conditions: dict[str, Queries] = {}
    for condition, queries in records.conditions.items():
        reordered = {}
        for position, query in queries.items():
            truth = query.truth
            if truth is not None:
                truth = new_index[truth]
            prediction = query.prediction
            if isinstance(prediction, (list, tuple)):  # the probability of each label
                prediction = [prediction[index] for index in old_index]
            elif prediction is not None and not predictions_are_scores:
                prediction = new_index[prediction]
            reordered[position] = RecordedQuery(truth, prediction)
        conditions[condition] = reordered
    return replace(records, conditions=conditions, labels=labels)


def _why_not_the_same_rows(reference: RunRecords, records: RunRecords) -> str | None:
    """Return the first difference of two runs that makes them incomparable; ``None`` if there is no such difference.

    Comparable runs have the same conditions, number of labels, true labels on shared queries, and test texts (known
    by their digest).
    """
    if reference.samples is not None and records.samples is not None:
        return _why_not_the_same_documents(reference.samples, records.samples)
    if list(reference.conditions) != list(records.conditions):
        return f"other conditions: {', '.join(reference.conditions)} and {', '.join(records.conditions)}"
    label_names_known = bool(reference.labels) and bool(records.labels)
    if label_names_known and len(reference.labels) != len(records.labels):
        return f"other labels: {len(reference.labels)} and {len(records.labels)}"
    for condition, queries in reference.conditions.items():
        other_queries = records.conditions[condition]
        for position in queries.keys() & other_queries.keys():
            truth = queries[position].truth
            other_truth = other_queries[position].truth
            # The truth is None for a failed query of an item with several labels: their number is then not saved.
            both_known = truth is not None and other_truth is not None
            if both_known and truth != other_truth:
                return f"other true labels (test row {position[0]}: label {truth} and {other_truth})"
    both_have_clusters = reference.clusters is not None and records.clusters is not None
    if both_have_clusters and reference.clusters != records.clusters:
        return "other clusters of the test rows"
    # Without digests, it is not known that the texts are the same.
    if reference.data_digest != records.data_digest or records.data_digest is None:
        return f"other data under this name (digests {reference.data_digest!s:.12} and {records.data_digest!s:.12})"
    return None


def _why_not_the_same_documents(reference: LoggedSamples, samples: LoggedSamples) -> str | None:
    """Return why logged samples of two runs are of different tasks; ``None`` if there is no such reason.

    Comparable runs have the same version of the task, and the same document and target (known by their digest) wherever
    they have the same id of a document. A sample without a score, such as one that is missing in the log, may lack the
    digest. If no sample has one, as in a plain table of scores, the ids alone say that the documents are the same.

    Args:
        reference: The samples of the first run.
        samples: The samples of the other run.
    """
    if reference.task_version != samples.task_version:
        return f"other versions of the task: {_shown(reference.task_version)} and {_shown(samples.task_version)}"
    reference_digests = _digests_of_documents(reference)
    digests = _digests_of_documents(samples)
    if bool(reference_digests) != bool(digests):
        return "no common record of the documents: only one of the logs has their digests"
    for document, digests_of_document in digests.items():
        # Every repeat of a document in either log must have the same digest.
        all_digests = sorted(digests_of_document | reference_digests.get(document, set()))
        if len(all_digests) > 1:
            return (
                f"other documents or targets under the same id (document {document:.60}: "
                f"digests {all_digests[0]:.12} and {all_digests[1]:.12})"
            )
    return None


def _digests_of_documents(samples: LoggedSamples) -> dict[str, set[str]]:
    """Return the digests of each document over its repeats; without documents of which no sample has a digest.

    A document has one digest, unless its id was used for several documents. Samples that are missing in the log have
    none.
    """
    digests: dict[str, set[str]] = {}
    for document, digest in zip(samples.documents, samples.digests, strict=True):
        if digest is not None:
            digests.setdefault(document, set()).add(digest)
    return digests


def _shown(version: str | None) -> str:
    """Return the version of a task for a message; "not stated" if it is not known."""
    if version is None:
        return "not stated"
    return version[:60]


def _shared_positions(runs: Mapping[str, RunRecords]) -> dict[str, list[QueryPosition]]:
    """Return the positions of the queries that all runs have, by condition, in the order of their test rows."""
    first, *others = runs.values()
    shared = {}
    for condition, queries in first.conditions.items():
        positions = set(queries)
        for records in others:
            positions &= records.conditions[condition].keys()
        shared[condition] = sorted(positions)
    return shared


def _micro_f1_of_all(run_limits: Collection[LabelLimits]) -> MicroF1:
    """Return the micro F1 as one statistic for all runs.

    The statistic needs the largest possible numbers of true and of predicted labels of a query. They are the largest
    ones of all runs, so that they are valid for each run.

    Args:
        run_limits: The largest numbers of labels of a query, for each run.
    """
    most_true = max(limits.true for limits in run_limits)
    most_predicted = max(limits.predicted for limits in run_limits)
    return MicroF1((most_true, most_predicted))
