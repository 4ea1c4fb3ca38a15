"""Two runs of a benchmark, paired on each data set.

What is said of a pair depends on its two runs only: other runs that are compared with them change no value, no order
and no p-value before the correction for several tests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from StaICC.comparing.metric_definitions import (
    MetricDefinition,
    metric_definition,
    statistic_of,
    why_other_metrics,
)
from StaICC.comparing.missing_queries import RunDifference, mean_of_differences
from StaICC.comparing.pairing import PairedScores, missing_note, pair_scores
from StaICC.comparing.run_records import NotComparableError, read_records
from StaICC.comparing.run_scores import RunScore
from StaICC.errors import StaICCError, UndefinedMetricError
from StaICC.results.result import Result


@dataclass(frozen=True)
class ScoredRun:
    """The score of a run on each of its data sets."""

    name: str
    """Name of the run."""
    definition: MetricDefinition
    """How the run defines the metric."""
    dataset_metrics: Mapping[str, object]
    """The name of the metric that the run itself recorded for each data set; ``None`` if it recorded none."""
    scores: Mapping[str, RunScore]
    """The score on each data set that can be compared."""
    unreadable: Mapping[str, str]
    """The other data sets, each with the reason."""

    @property
    def datasets(self) -> list[str]:
        """All data sets of the run."""
        return list(self.dataset_metrics)

    @cached_property
    def mean(self) -> RunDifference:
        """The mean over the data sets that can be compared, as its difference from 0: the second value is always 0."""
        return mean_of_differences([score.from_zero for score in self.scores.values()])

    def why_not_comparable(self) -> str | None:
        """Return why missing queries make the run incomparable on a data set; ``None`` if it can be compared."""
        for score in self.scores.values():
            reason = score.why_not_comparable()
            if reason is not None:
                return reason
        return None

    def why_not_on(self, dataset: str) -> str | None:
        """Return why the run cannot be compared on a data set; ``None`` if it can be."""
        if dataset in self.scores:
            return None
        return self.unreadable.get(dataset, "not in this run")

    @property
    def missing_notes(self) -> list[str]:
        """A sentence for each data set on which queries of the run have no score."""
        notes = []
        for dataset, score in self.scores.items():
            if score.missing > 0:
                notes.append(f"{dataset}: {missing_note(self.name, score)}")
        return notes


def read_run(name: str, result: Result, metric: str) -> ScoredRun:
    """Return the score of a run on each of its data sets.

    Args:
        name: Name of the run.
        result: The run.
        metric: Name of the score.
    """
    definition = metric_definition(result, metric)
    scores: dict[str, RunScore] = {}
    unreadable: dict[str, str] = {}
    for dataset in result.divided:
        try:
            statistic = statistic_of(result, metric)
            records = read_records(result, dataset, metric, statistic)
            score = RunScore(metric, statistic, records, saved_scores=definition.saved_scores is not None)
            _check_score(score)
        except StaICCError as error:
            unreadable[dataset] = str(error)
            continue
        scores[dataset] = score
    dataset_metrics = {dataset: values.get("metric") for dataset, values in result.divided.items()}
    return ScoredRun(
        name=name, definition=definition, dataset_metrics=dataset_metrics, scores=scores, unreadable=unreadable
    )


def _check_score(score: RunScore) -> None:
    """Raise a NotComparableError if a run has no queries in a condition, or an infinite score."""
    if not all(score.positions.values()):
        raise NotComparableError("a condition has no queries")
    if score.value is not None and math.isinf(score.value):
        raise NotComparableError(f"{score.metric} is infinite on its test rows")


@dataclass(frozen=True)
class RunPair:
    """Two runs, paired on the data sets that both have."""

    first: ScoredRun
    second: ScoredRun
    datasets: Mapping[str, PairedScores]
    """The paired scores by data set, in the order of the data sets of the first run."""
    reasons: Mapping[str, str]
    """The data sets that are not compared, each with the reason."""

    @cached_property
    def differences(self) -> dict[str, RunDifference]:
        """The difference on each compared data set, first minus second."""
        return {dataset: paired.difference() for dataset, paired in self.datasets.items()}

    @cached_property
    def difference(self) -> RunDifference:
        """The difference of the means over the compared data sets, first minus second; there must be some."""
        return mean_of_differences(list(self.differences.values()))

    @property
    def has_same_datasets(self) -> bool:
        """Whether the means of both runs, as in their tables, are over the compared data sets."""
        return self.datasets.keys() == self.first.scores.keys() == self.second.scores.keys()

    @property
    def has_all_queries(self) -> bool:
        """Whether all queries of both runs are compared, on the same data sets."""
        if not self.has_same_datasets:
            return False
        return all(paired.left_out == (0, 0) for paired in self.datasets.values())

    @property
    def _datasets_by_reason(self) -> dict[str, str]:
        """The data sets that are not compared, by reason: ``{"the runs share no test row": "TREC, AGNews"}``."""
        datasets_by_reason: dict[str, list[str]] = {}
        for dataset, reason in self.reasons.items():
            datasets_by_reason.setdefault(reason, []).append(dataset)
        return {reason: ", ".join(datasets) for reason, datasets in datasets_by_reason.items()}

    @property
    def left_out(self) -> list[str]:
        """Sentences about data sets and queries that are not compared, and about queries without a score."""
        sentences = [f"{datasets} ({reason})" for reason, datasets in self._datasets_by_reason.items()]
        datasets_by_note: dict[str, list[str]] = {}
        for dataset, paired in self.datasets.items():
            for note in paired.left_out_notes(self.first.name, self.second.name):
                datasets_by_note.setdefault(note, []).append(dataset)
        return sentences + _with_datasets(datasets_by_note)

    @property
    def notes(self) -> list[str]:
        """Sentences about data sets on which one run has more queries for each test row than the other."""
        datasets_by_note: dict[str, list[str]] = {}
        for dataset, paired in self.datasets.items():
            note = paired.note(self.first.name, self.second.name)
            if note is not None:
                datasets_by_note.setdefault(note, []).append(dataset)
        return _with_datasets(datasets_by_note)

    @property
    def cluster_notes(self) -> list[str]:
        """A sentence for each data set whose compared test rows are in clusters."""
        sentences = []
        for dataset, paired in self.datasets.items():
            note = paired.cluster_note(dataset)
            if note is not None:
                sentences.append(note)
        return sentences

    def why_not_comparable(self) -> str:
        """Return the reason why the runs can be compared on no data set, for a message about the second run."""
        if set(self.first.datasets).isdisjoint(self.second.datasets):
            return f"its data sets are {', '.join(self.second.datasets)}, not {', '.join(self.first.datasets)}"
        return "; ".join(f"{datasets}: {reason}" for reason, datasets in self._datasets_by_reason.items())


def _with_datasets(datasets_by_note: Mapping[str, Sequence[str]]) -> list[str]:
    """Return each note with the data sets that it is about, such as ``"each of TREC, AGNews: 2 queries ..."``."""
    sentences = []
    for note, datasets in datasets_by_note.items():
        if len(datasets) == 1:
            sentences.append(f"{datasets[0]}: {note}")
        else:
            sentences.append(f"each of {', '.join(datasets)}: {note}")
    return sentences


def pair_runs(first: ScoredRun, second: ScoredRun, metric: str) -> RunPair:
    """Return two runs, paired on each data set on which they can be compared, with the reasons for the others.

    Args:
        first: The first run with its scores.
        second: The second run with its scores.
        metric: Name of the score.
    """
    datasets: dict[str, PairedScores] = {}
    reasons: dict[str, str] = {}
    for dataset in dict.fromkeys([*first.datasets, *second.datasets]):
        try:
            datasets[dataset] = _pair_on(first, second, dataset, metric)
        except (NotComparableError, UndefinedMetricError) as error:  # undefined: on the rows that both runs have
            reasons[dataset] = str(error)
    return RunPair(first=first, second=second, datasets=datasets, reasons=reasons)


def _pair_on(first: ScoredRun, second: ScoredRun, dataset: str, metric: str) -> PairedScores:
    """Return the scores of two runs on a data set, paired by their test rows.

    Two scores of one name can be of different metrics for two reasons: the runs define the score differently (other
    benchmarks, other ranges), or they recorded different metrics for this data set (``dataset_metrics``).

    Args:
        first: The first run.
        second: The second run.
        dataset: Name of the data set.
        metric: Name of the score.

    Raises:
        NotComparableError: They cannot be compared; the message says why.
    """
    other_metrics = why_other_metrics(first.definition, second.definition, metric)
    if other_metrics is not None:
        raise NotComparableError(other_metrics)
    for run in (first, second):
        reason = run.why_not_on(dataset)
        if reason is not None:
            raise NotComparableError(f"{run.name}: {reason}")
    recorded_metrics = {first.dataset_metrics[dataset], second.dataset_metrics[dataset]}
    if len(recorded_metrics) > 1:
        raise NotComparableError(f"the runs have other metrics here: {', '.join(map(str, recorded_metrics))}")
    return pair_scores(first.scores[dataset], second.scores[dataset])
