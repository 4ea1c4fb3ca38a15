"""Whether a run is better than predictors without a model, decided once for all outputs.

There are up to three such baselines: uniform guessing (or the best of several guessers), always the most frequent
label, and a copy of the last demonstration's label. Each has its own verdict, and the test decides: a baseline is
beaten if its p-value is at most 0.05. Intervals are shown, but decide nothing. They can disagree with the test, because
an interval is two-sided and is of the accuracy alone, on the queries that got a prediction, while the test compares the
run with the baseline on the same rows, and counts queries without a prediction as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from StaICC.metrics.intervals import Interval
from StaICC.results.details import Baselines
from StaICC.results.protocol import ResultLike

LEVEL = 0.05
"""A baseline is beaten if the p-value is at most this."""

GUESSING, MAJORITY = "uniform guessing", "always the majority label"
LAST_DEMONSTRATION = "a copy of the last demonstration's label"
BASELINES = (GUESSING, MAJORITY, LAST_DEMONSTRATION)
"""The names of the baselines in sentences."""
THE_MEAN = "the mean"


@dataclass(frozen=True, slots=True)
class BaselineVerdict:
    """Whether an accuracy is shown to be better than a baseline."""

    baseline: str
    """Its name in sentences."""
    accuracy: float
    """That of the baseline."""
    p_value: float
    """One-sided, of "the run is not better"."""

    @property
    def beaten(self) -> bool:
        """Whether the run is shown to be better."""
        return self.p_value <= LEVEL

    @property
    def description(self) -> str:
        """The baseline with its accuracy and the p-value."""
        return f"{self.baseline} (accuracy {self.accuracy:.4f}, p = {self.p_value:.3g})"


Verdicts = tuple[BaselineVerdict, ...]


def verdicts_of(baselines: Baselines) -> Verdicts:
    """Return one verdict for each baseline that is known.

    The p-value against guessing is the larger one of guessers that draw for each query, and for each test row.
    """
    guessing = max(baselines.p_value, baselines.p_value_rows or 0.0)
    verdicts = [BaselineVerdict(GUESSING, baselines.max_random, guessing)]
    if baselines.p_value_majority is not None:
        verdicts.append(BaselineVerdict(MAJORITY, baselines.majority, baselines.p_value_majority))
    if baselines.last_demonstration is not None and baselines.p_value_last_demonstration is not None:
        verdicts.append(
            BaselineVerdict(
                LAST_DEMONSTRATION,
                baselines.last_demonstration,
                baselines.p_value_last_demonstration,
            )
        )
    return tuple(verdicts)


def strongest_not_beaten(verdicts: Verdicts) -> BaselineVerdict | None:
    """Return the baseline with the highest accuracy among those that are not beaten; ``None`` if all are."""
    remaining = [verdict for verdict in verdicts if not verdict.beaten]
    return max(remaining, key=lambda verdict: verdict.accuracy, default=None)


@dataclass(frozen=True, slots=True)
class AboveChance:
    """The verdicts about a run, by data set and in the mean."""

    datasets: Mapping[str, Verdicts]
    mean: Verdicts
    """Of the mean over the data sets, or of the only data set; empty if not all data sets have baselines."""
    condition: str | None = None
    """The condition that the verdicts are about; ``None`` if there is only one."""

    @property
    def beaten_on(self) -> int:
        """The number of data sets on which every baseline is beaten."""
        return sum(strongest_not_beaten(verdicts) is None for verdicts in self.datasets.values())

    @property
    def not_beaten(self) -> BaselineVerdict | None:
        """The strongest baseline that the mean does not beat; ``None`` if it beats all."""
        return strongest_not_beaten(self.mean)

    @property
    def short(self) -> str:
        """The verdict for a cell of a table: the strongest baseline that is not beaten."""
        if not self.mean:
            text = f"{self.beaten_on} of {len(self.datasets)} data sets beat every baseline"
        elif self.not_beaten is None:
            text = "beats every baseline"
        else:
            text = f"does not beat {self.not_beaten.baseline}"
        return text

    @property
    def headline(self) -> str:
        """The verdict in a few words: the strongest baseline that is not beaten, and on how many data sets all are."""
        place = "in the mean " if len(self.datasets) > 1 else ""
        if not self.mean:
            text = "no verdict in the mean"
        elif self.not_beaten is None:
            text = f"{place}better than every baseline"
        else:
            text = f"{place}not shown to be better than {self.not_beaten.description}"
        if len(self.datasets) > 1:
            text += f"; better than every baseline on {self.beaten_on} of {len(self.datasets)} data sets"
        return text


def above_chance(result: ResultLike) -> AboveChance | None:
    """Return the verdicts about a run; ``None`` if no accuracy has baselines.

    Of several conditions, such as the rounds of LongICL, the first one has the verdict. Experiments of LongICL have
    none: their first condition is not the one to look at.
    """
    datasets = {}
    conditions = []
    for name, details in result.details.items():
        if details.baselines and "experiment" not in result.divided.get(name, {}):
            conditions = list(details.baselines)
            datasets[name] = verdicts_of(details.baselines[conditions[0]])
    if not datasets:
        return None
    mean: Verdicts = ()
    if len(result.details) == 1:
        mean = next(iter(datasets.values()))
    elif result.means.baselines:
        mean = verdicts_of(next(iter(result.means.baselines.values())))
    return AboveChance(datasets, mean, conditions[0] if len(conditions) > 1 else None)


def not_beaten_by_baseline(result: ResultLike) -> dict[str, list[str]]:
    """Return for each baseline that is not beaten everywhere where it is not: data sets, and the mean."""
    found = above_chance(result)
    if found is None:
        return {}
    places = dict(found.datasets)
    if len(places) > 1 and found.mean:
        places[THE_MEAN] = found.mean
    lost: dict[str, list[str]] = {}
    for place, verdicts in places.items():
        for verdict in verdicts:
            if not verdict.beaten:
                lost.setdefault(verdict.baseline, []).append(place)
    return {baseline: lost[baseline] for baseline in BASELINES if baseline in lost}


def interval_disagreements(result: ResultLike) -> list[str]:
    """Return a sentence for each interval that is above a baseline which the test does not reject."""
    found = above_chance(result)
    if found is None:
        return []
    sentences = []
    for name, verdicts in found.datasets.items():
        details = result.details[name]
        interval = _accuracy_interval(details.intervals, next(iter(details.baselines)))
        sentences += _above_but_not_beaten(name, interval, verdicts)
    if len(found.datasets) > 1 and found.mean:
        interval = _accuracy_interval(result.means.intervals, next(iter(result.means.baselines)))
        sentences += _above_but_not_beaten(THE_MEAN, interval, found.mean)
    return sentences


def _accuracy_interval(intervals: Mapping[str, Interval], condition: str) -> Interval | None:
    """Return the interval of the accuracy of the only condition, or of a condition."""
    for key in (f"{condition}.accuracy", condition, "accuracy"):
        if key in intervals:
            return intervals[key]
    return None


def _above_but_not_beaten(place: str, interval: Interval | None, verdicts: Verdicts) -> list[str]:
    """Return a sentence for each baseline below the interval that is not beaten."""
    sentences = []
    for verdict in verdicts:
        if interval is not None and interval.low > verdict.accuracy and not verdict.beaten:
            sentences.append(
                f"{place}: the interval of the accuracy is above {verdict.description}, but the test does not reject "
                "that the run is not better. The test decides"
            )
    return sentences
