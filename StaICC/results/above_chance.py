"""Whether a run is better than predictors without a model, decided once for all outputs.

There are up to three such baselines: uniform guessing (or the best of several guessers), always the most frequent
label, and a copy of the last demonstration's label. Each has its own verdict, and the test decides: a baseline is
*beaten* if its p-value is at most 0.05. A baseline without a p-value is *untested*, which is no verdict: it is not
beaten, and no output says that the run is better than every baseline. A result with several conditions, such as the
rounds of LongICL, has verdicts for each of them.

Intervals are shown, but decide nothing. An interval can be above a baseline although the test is not significant. It is
two-sided, and only about the accuracy on the queries that got a prediction. The test compares the run with the baseline
on the same rows, and counts queries without a prediction as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from StaICC.metrics.intervals import Interval
from StaICC.results.details import Baselines
from StaICC.results.experiment_table import is_experiment
from StaICC.results.protocol import ResultLike

LEVEL = 0.05
"""A baseline is beaten if the p-value is at most this, the usual level of significance."""

GUESSING = "uniform guessing"
MAJORITY = "always the majority label"
LAST_DEMONSTRATION = "a copy of the last demonstration's label"
BASELINES = (GUESSING, MAJORITY, LAST_DEMONSTRATION)
"""The names of the baselines in sentences."""
THE_MEAN = "the mean"
"""What the mean over the data sets is called in sentences, next to the names of data sets."""


@dataclass(frozen=True, slots=True)
class BaselineVerdict:
    """The result of the test whether an accuracy is better than a baseline."""

    baseline: str
    """The name of the baseline in sentences."""
    accuracy: float
    """The accuracy of the baseline."""
    p_value: float | None
    """The one-sided p-value of the null hypothesis that the run is not better than the baseline; ``None`` if nothing is
    tested, because the test rows are in too few clusters."""

    @property
    def is_tested(self) -> bool:
        """Whether there is a test; without one, nothing is known."""
        return self.p_value is not None

    @property
    def beaten(self) -> bool:
        """Whether the test is significant: the run is shown to be better than the baseline."""
        return self.p_value is not None and self.p_value <= LEVEL

    @property
    def description(self) -> str:
        """The baseline with its accuracy and the p-value."""
        if self.p_value is None:
            return f"{self.baseline} (accuracy {self.accuracy:.4f}, untested)"
        return f"{self.baseline} (accuracy {self.accuracy:.4f}, p = {self.p_value:.3g})"


Verdicts = tuple[BaselineVerdict, ...]


def verdicts_of(baselines: Baselines) -> Verdicts:
    """Return one verdict for each baseline that is known.

    There are two kinds of guessers: some draw a label for each query, others one for all queries of a test row. The
    verdict about guessing has the larger one of the two p-values, so that it is valid for both kinds.
    """
    p_value = baselines.p_value
    if baselines.p_value_rows is not None:
        p_value = max(p_value, baselines.p_value_rows)
    verdicts = [
        BaselineVerdict(GUESSING, accuracy=baselines.max_random, p_value=p_value),
        BaselineVerdict(MAJORITY, accuracy=baselines.majority, p_value=baselines.p_value_majority),
    ]
    if baselines.last_demonstration is not None:
        verdicts.append(
            BaselineVerdict(
                LAST_DEMONSTRATION,
                accuracy=baselines.last_demonstration,
                p_value=baselines.p_value_last_demonstration,
            )
        )
    return tuple(verdicts)


def strongest_not_beaten(verdicts: Verdicts) -> BaselineVerdict | None:
    """Return the verdict about the most accurate baseline that is not beaten; ``None`` if all baselines are beaten."""
    remaining = [verdict for verdict in verdicts if not verdict.beaten]
    return max(remaining, key=lambda verdict: verdict.accuracy, default=None)


@dataclass(frozen=True, slots=True)
class AboveChance:
    """The verdicts about the first condition of a run, by data set and in the mean."""

    datasets: Mapping[str, Verdicts]
    mean: Verdicts
    """Of the mean over the data sets, or of the only data set; empty if not all data sets have baselines."""

    @property
    def beaten_on(self) -> int:
        """The number of data sets on which every baseline is beaten."""
        count = 0
        for verdicts in self.datasets.values():
            if strongest_not_beaten(verdicts) is None:
                count += 1
        return count

    @property
    def not_beaten(self) -> BaselineVerdict | None:
        """The strongest baseline that the mean does not beat; ``None`` if it beats all."""
        return strongest_not_beaten(self.mean)

    @property
    def short(self) -> str:
        """Whether the mean over the data sets beats every baseline, for a cell of a table.

        Where there are no verdicts about the mean, it is the number of data sets that beat every baseline.
        """
        has_verdicts_of_mean = len(self.mean) > 0
        if not has_verdicts_of_mean:
            return f"{self.beaten_on} of {len(self.datasets)} data sets beat every baseline"
        strongest = self.not_beaten
        if strongest is None:
            return "beats every baseline"
        is_tested = strongest.p_value is not None  # a baseline without a test counts as not beaten
        if not is_tested:
            return f"untested against {strongest.baseline}"
        return f"does not beat {strongest.baseline}"

    @property
    def headline(self) -> str:
        """The verdict in a few words: that about the mean, then on how many data sets every baseline is beaten."""
        has_several = len(self.datasets) > 1
        if not self.mean:
            verdict = "no verdict in the mean"
        elif self.not_beaten is None:
            verdict = "better than every baseline"
        else:
            verdict = f"not shown to be better than {self.not_beaten.description}"
        if self.mean and has_several:
            verdict = f"in the mean {verdict}"
        if has_several:
            verdict += f"; better than every baseline on {self.beaten_on} of {len(self.datasets)} data sets"
        return verdict


def _first_condition(baselines: Mapping[str, Baselines]) -> str:
    """Return the first condition, whose verdict counts.

    Args:
        baselines: The baselines by condition, at least one.
    """
    return next(iter(baselines))


def above_chance(result: ResultLike) -> AboveChance | None:
    """Return the verdicts about a run; ``None`` if no accuracy has baselines.

    If there are several conditions, such as the rounds of LongICL, the verdicts are about the first one
    (:func:`not_beaten_by_baseline` is about all). Experiments have none, because their first condition has no special
    role.
    """
    if is_experiment(result):
        return None
    verdicts_by_dataset = {}
    for dataset, details in result.details.items():
        if details.baselines:
            verdicts_by_dataset[dataset] = verdicts_of(details.baselines[_first_condition(details.baselines)])
    if not verdicts_by_dataset:
        return None

    mean: Verdicts = ()
    if len(result.details) == 1:  # the mean of a single data set is its accuracy
        (mean,) = verdicts_by_dataset.values()
    elif result.means.baselines:
        mean = verdicts_of(result.means.baselines[_first_condition(result.means.baselines)])
    return AboveChance(verdicts_by_dataset, mean)


@dataclass(frozen=True, slots=True)
class ConditionVerdicts:
    """The verdicts about one condition of a run, on one data set or in the mean."""

    condition: str
    dataset: str
    """The data set, or :data:`THE_MEAN`."""
    interval: Interval | None
    """The interval of the accuracy; ``None`` if there is none."""
    verdicts: Verdicts


def verdicts_about_conditions(result: ResultLike) -> list[ConditionVerdicts]:
    """Return the verdicts about each condition on each data set, then about its mean over several data sets.

    A condition is left out on data sets where its accuracy has no baselines.
    """
    found = []
    for dataset, details in result.details.items():
        for condition, baselines in details.baselines.items():
            interval = _accuracy_interval(details.intervals, condition)
            found.append(
                ConditionVerdicts(
                    condition=condition, dataset=dataset, interval=interval, verdicts=verdicts_of(baselines)
                )
            )
    if len(result.details) > 1:  # the mean of a single data set has the same verdicts
        for condition, baselines in result.means.baselines.items():
            interval = _accuracy_interval(result.means.intervals, condition)
            found.append(
                ConditionVerdicts(
                    condition=condition, dataset=THE_MEAN, interval=interval, verdicts=verdicts_of(baselines)
                )
            )
    return found


def tested_conditions(result: ResultLike) -> list[str]:
    """Return the names of the conditions that have verdicts, each once, in their order."""
    return list(dict.fromkeys(verdict.condition for verdict in verdicts_about_conditions(result)))


@dataclass(frozen=True, slots=True)
class NotBeaten:
    """A baseline, and where the run does not beat it."""

    baseline: str
    """The name of the baseline in sentences."""
    datasets: tuple[str, ...]
    """The data sets; :data:`THE_MEAN` is among them if the run does not beat the baseline in their mean."""
    conditions: tuple[str, ...]
    """The conditions that do not beat the baseline on exactly these data sets, in their order."""
    is_tested: bool = True
    """Whether there is a test, which is not significant; without one, nothing is known."""


def not_beaten_by_baseline(result: ResultLike) -> list[NotBeaten]:
    """Return the baselines that the run does not beat, with the data sets and the conditions where it does not.

    Each condition of the result is tested. Those that fail on the same data sets are one entry, and so are those that
    are untested on the same data sets.
    """
    not_beaten = []
    for baseline in BASELINES:
        not_beaten += _not_beaten(result, baseline, is_tested=True)
        not_beaten += _not_beaten(result, baseline, is_tested=False)
    return not_beaten


def _not_beaten(result: ResultLike, baseline: str, *, is_tested: bool) -> list[NotBeaten]:
    """Return where a run does not beat a baseline, with one entry for all conditions that fail on the same data sets.

    Args:
        result: The result.
        baseline: The name of the baseline in sentences.
        is_tested: Whether the data sets are returned where a test is not significant, or those without a test.
    """
    datasets_by_condition: dict[str, list[str]] = {}
    for about in verdicts_about_conditions(result):
        for verdict in about.verdicts:
            if verdict.baseline != baseline or verdict.beaten:
                continue
            if verdict.is_tested == is_tested:
                datasets_by_condition.setdefault(about.condition, []).append(about.dataset)

    conditions_by_datasets: dict[tuple[str, ...], list[str]] = {}
    for condition in tested_conditions(result):
        if condition in datasets_by_condition:
            datasets = tuple(datasets_by_condition[condition])
            conditions_by_datasets.setdefault(datasets, []).append(condition)
    not_beaten = []
    for datasets, conditions in conditions_by_datasets.items():
        not_beaten.append(
            NotBeaten(baseline=baseline, datasets=datasets, conditions=tuple(conditions), is_tested=is_tested)
        )
    return not_beaten


def interval_disagreements(result: ResultLike) -> list[str]:
    """Return sentences about intervals that are above a baseline although the test is not significant.

    There is one sentence for each baseline on each data set, and for the mean over several data sets; with several
    conditions, for each of them.
    """
    has_several_conditions = len(tested_conditions(result)) > 1
    sentences = []
    for about in verdicts_about_conditions(result):
        name = about.dataset
        if has_several_conditions:
            name = f"{about.dataset}, {about.condition}"
        sentences += _disagreements(name, about.interval, about.verdicts)
    return sentences


def _accuracy_interval(intervals: Mapping[str, Interval], condition: str) -> Interval | None:
    """Return the interval of the accuracy of a condition; ``None`` if there is none.

    Its key has one of three forms: the condition with ``.accuracy``; the condition itself, for a round of LongICL; or
    ``accuracy``, if there is only one condition.

    Args:
        intervals: The intervals by key.
        condition: Name of the condition.
    """
    for key in (f"{condition}.accuracy", condition, "accuracy"):
        if key in intervals:
            return intervals[key]
    return None


def _disagreements(name: str, interval: Interval | None, verdicts: Verdicts) -> list[str]:
    """Return a sentence for each baseline that is below the interval of the accuracy, but is not beaten.

    Args:
        name: The data set, or :data:`THE_MEAN`; with the condition, if there are several.
        interval: The interval of the accuracy; ``None`` if there is none.
        verdicts: The verdicts about the accuracy.
    """
    if interval is None:
        return []
    sentences = []
    for verdict in verdicts:
        is_below_interval = verdict.accuracy < interval.low
        if is_below_interval and verdict.is_tested and not verdict.beaten:
            sentences.append(
                f"{name}: the interval of the accuracy is above {verdict.description}, but by the test the "
                "run is not significantly better. The test decides"
            )
    return sentences
