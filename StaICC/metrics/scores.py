"""The scores that a result can have, one record for each.

A :class:`ScoreRecord` says what a score is: its key, titles, direction and
:class:`~StaICC.metrics.statistics.Statistic`. Metric sets, intervals, tests, tables, reports, comparison and checks of
files read it (:func:`score_record`). docs/adding_a_metric.md adds one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from StaICC import benchmark_names
from StaICC.metrics import classification
from StaICC.metrics.balanced_accuracy import BalancedAccuracy, balanced_accuracy
from StaICC.metrics.calibration_error import CalibrationError
from StaICC.metrics.confidence_auroc import ConfidenceAuroc, auroc_confidence
from StaICC.metrics.debiased_calibration_error import DebiasedCalibrationError, debiased_calibration_error
from StaICC.metrics.divergence import Divergence
from StaICC.metrics.entropy_of_mean import EntropyOfMean
from StaICC.metrics.matthews import Matthews, matthews
from StaICC.metrics.risk_coverage import RiskCoverage, aurc
from StaICC.metrics.statistics import (
    Accuracy,
    Brier,
    Consistency,
    Likelihood,
    MacroF1,
    MeanEntropy,
    NegativeLogLikelihood,
    Statistic,
    ValueOnly,
)


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """What is known about a score.

    Raises:
        TypeError: The statistic lacks something that a score of its kind needs. The message says what.
    """

    key: str
    """Its key in results."""
    title: str
    """Its name in leaderboards."""
    higher_is_better: bool | None
    """``None`` if not stated."""
    statistic: Statistic | None = None
    """It computes intervals and paired tests from saved records. ``None`` for a score of a user's function or
    benchmark, which saved records do not determine."""
    head: str = ""
    """Its column head in tables; empty if it is the key."""
    metric: Callable[[list[int], list[list[float]]], float] | None = None
    """The function that computes it from true labels and rows. ``None`` for a score that is no metric of
    classification, but belongs to one benchmark."""

    def __post_init__(self) -> None:
        """Check that the statistic, if there is one, has all methods that a score of its kind needs.

        Raises:
            TypeError: It lacks some; the message says which, and for what they are needed.
        """
        if self.statistic is None:
            return
        problems = _problems_of_statistic(self.statistic, is_metric=self.metric is not None)
        if problems:
            raise TypeError(f"the score {self.key!r}: {type(self.statistic).__name__} {'; '.join(problems)}")


def _problems_of_statistic(statistic: Statistic, is_metric: bool) -> list[str]:
    """Return what a statistic lacks for the record of a score, as phrases that begin with a verb.

    Args:
        statistic: The statistic.
        is_metric: Whether the score is a metric of classification.
    """
    # A method that the class does not define is the one of Statistic, which raises NotImplementedError.
    statistic_class = type(statistic)
    problems = []
    if statistic_class.of_run is Statistic.of_run:
        problems.append("needs of_run(), for paired tests")
    if not is_metric:
        if statistic_class.value is Statistic.value:
            problems.append("needs value(), because its record has no metric")
        return problems

    if not isinstance(statistic, ValueOnly):
        problems.extend(_problems_of_interval(statistic))
    if not statistic_class.of_classification:
        problems.append("needs of_classification = True, because its record has a metric")
    return problems


def _problems_of_interval(statistic: Statistic) -> list[str]:
    """Return what the statistic of a metric lacks for confidence intervals, as phrases that begin with a verb."""
    statistic_class = type(statistic)
    problems = []
    _, highest = statistic.range(2)
    is_bounded = not math.isinf(highest)
    if is_bounded and statistic_class.part is Statistic.part:
        problems.append("needs part(), for confidence intervals, also of the slopes of GLER")
    if not is_bounded and statistic_class.withheld is Statistic.withheld:
        problems.append("needs withheld(), for the reason why a score without a largest value has no interval")
    return problems


_ACCURACY = Accuracy()
_MEAN_ENTROPY = MeanEntropy()
_DIVERGENCE = Divergence()
CONSISTENCY = Consistency()

_RECORDS = (
    ScoreRecord("accuracy", "accuracy", True, _ACCURACY, metric=classification.accuracy),
    ScoreRecord(
        "averaged_truelabel_likelihood",
        "likelihood",
        True,
        Likelihood(),
        head="likelihood",
        metric=classification.averaged_truelabel_likelihood,
    ),
    ScoreRecord("macro_F1", "macro F1", True, MacroF1(), head="macro F1", metric=classification.macro_F1),
    ScoreRecord(
        "expected_calibration_error_1",
        "calibration error (ECE-1)",
        False,
        CalibrationError(),
        head="ECE-1",
        metric=classification.expected_calibration_error_1,
    ),
    ScoreRecord("brier", "Brier score", False, Brier(), head="Brier", metric=classification.brier),
    ScoreRecord(
        "nll", "negative log-likelihood", False, NegativeLogLikelihood(), head="NLL", metric=classification.nll
    ),
    ScoreRecord(
        "balanced_accuracy",
        "balanced accuracy",
        True,
        BalancedAccuracy(),
        head="balanced accuracy",
        metric=balanced_accuracy,
    ),
    ScoreRecord("matthews", "Matthews correlation", True, Matthews(), head="MCC", metric=matthews),
    ScoreRecord(
        "auroc_confidence",
        "AUROC of confidence",
        True,
        ConfidenceAuroc(),
        head="AUROC of confidence",
        metric=auroc_confidence,
    ),
    ScoreRecord("aurc", "area under the risk-coverage curve", False, RiskCoverage(), head="AURC", metric=aurc),
    ScoreRecord(
        "debiased_calibration_error",
        "calibration error, debiased",
        False,
        DebiasedCalibrationError(),
        head="debiased CE",
        metric=debiased_calibration_error,
    ),
    ScoreRecord("contextual_bias", "contextual bias", False, _MEAN_ENTROPY),
    ScoreRecord("domain_bias", "domain bias", False, _MEAN_ENTROPY),
    ScoreRecord("entropy", "entropy of the mean prediction", True, EntropyOfMean()),
    ScoreRecord("DL div.", "posterior bias", False, _DIVERGENCE),
    ScoreRecord("empirical_bias", "posterior bias", False, _DIVERGENCE),
    ScoreRecord("consistency", "consistency", True, CONSISTENCY),
)

SCORES: Mapping[str, ScoreRecord] = {score.key: score for score in _RECORDS}
"""The scores of this library by key. Those of LongICL, accuracy or micro F1, have the names of rounds or conditions."""

BASELINE_KEYS = ("uniform", "majority", "nearest")
"""Keys next to LongICL's scores that are baselines: no query is missing from them, and they are not compared."""

STATISTICS: Mapping[str, Statistic] = {score.key: score.statistic for score in _RECORDS if score.statistic is not None}
"""The statistics of the scores of this library by key."""


class Column(NamedTuple):
    """A headline score."""

    benchmark: str
    key: str
    """The key in the averaged results."""
    title: str


COLUMNS = (
    Column(benchmark_names.NORMAL, "accuracy", "accuracy"),
    Column(benchmark_names.NORMAL, "macro_F1", "macro F1"),
    Column(benchmark_names.NORMAL, "averaged_truelabel_likelihood", "likelihood"),
    Column(benchmark_names.NORMAL, "expected_calibration_error_1", "calibration error (ECE-1)"),
    Column(benchmark_names.CONTEXTUAL_BIAS, "contextual_bias", "contextual bias"),
    Column(benchmark_names.DOMAIN_BIAS, "domain_bias", "domain bias"),
    Column(benchmark_names.POSTERIOR_BIAS, "DL div.", "posterior bias"),
    Column(benchmark_names.GLER, "accuracy", "label noise (GLER)"),
    Column(benchmark_names.TEMPLATE_SENSITIVITY, "consistency", "template consistency"),
    Column(benchmark_names.DEMONSTRATION_SENSITIVITY, "consistency", "demonstration consistency"),
    Column(benchmark_names.LONG_ICL, "mean", "LongICL, mean of rounds or conditions"),
)
"""The scores that a leaderboard shows, by benchmark; the main one comes first."""

HEADLINE: dict[str, str] = {}
for _column in COLUMNS:
    HEADLINE.setdefault(_column.benchmark, _column.key)
"""The score that is compared by default, by benchmark; for other benchmarks it is the first."""


class ScoreOfCondition(NamedTuple):
    """A metric of this library on one condition of a benchmark, such as ``names.accuracy``."""

    condition: str
    metric: str


def score_of_condition(key: str) -> ScoreOfCondition | None:
    """Return the condition and the metric of a key such as ``names.accuracy``; ``None`` for a key of another form.

    Such keys are those of custom benchmarks, which average a metric over data sets for each of their conditions. The
    benchmarks of this library have no such scores. The keys ``sensitivity.accuracy`` and so on of GLER look alike, but
    are slopes over all conditions, and have the result ``None``.

    Example:
        >>> score_of_condition("names.accuracy")
        ScoreOfCondition(condition='names', metric='accuracy')
    """
    condition, dot, metric = key.rpartition(".")
    is_slope = condition == "sensitivity"  # of GLER, over all conditions
    if not dot or metric not in SCORES or is_slope:
        return None
    return ScoreOfCondition(condition, metric)


def score_record(benchmark: str, key: str, stated: Mapping[str, bool | None] = {}) -> ScoreRecord:
    """Return the record of a score in a benchmark: its title, its better direction and its statistic.

    In GLER, the better direction of a score is the opposite of that of its metric. The scores of GLER are slopes: how
    much a metric rises as the labels of the demonstrations become correct. For accuracy, which should be high, a small
    slope is better: wrong labels do little harm. For ECE-1, which should be low, a large slope is better: a negative
    slope says that wrong labels make the calibration worse.

    Args:
        benchmark: Name of the benchmark.
        key: Key of the score.
        stated: For each metric that is not of this library, whether larger values are better.

    Example:
        >>> score_record("GLER", "accuracy").higher_is_better
        False
        >>> score_record("Normal", "brier", {"brier": False}).higher_is_better
        False
        >>> score_record("My_benchmark", "names.accuracy").higher_is_better
        True
    """
    record = _record_of_key(benchmark, key, stated)
    for column in COLUMNS:  # a headline score has the title of its column
        if column.benchmark == benchmark and column.key == key:
            record = replace(record, title=column.title)
    if benchmark == benchmark_names.GLER and record.higher_is_better is not None:
        record = replace(record, higher_is_better=not record.higher_is_better)
    return record


def _record_of_key(benchmark: str, key: str, stated: Mapping[str, bool | None]) -> ScoreRecord:
    """Return the record of a score by its key alone: what it is in any benchmark that has a score with this key.

    The first of these rules that fits decides:

    1. In a benchmark with long contexts, every score is an accuracy: its keys are names of rounds or conditions, which
       may be the same as keys of other scores.
    2. A metric that is not of this library has the direction that its author stated.
    3. A metric of this library has its record in :data:`SCORES`.
    4. A metric of this library on one condition, such as ``names.accuracy``, has the record of the metric with the
       whole key as its title.
    5. Of any other key nothing is known, not even the direction.

    Args:
        benchmark: Name of the benchmark.
        key: Key of the score.
        stated: For each metric that is not of this library, whether larger values are better; ``None`` if not stated.
    """
    if benchmark_names.has_long_contexts(benchmark):
        return ScoreRecord(key, title=key, higher_is_better=True, statistic=_ACCURACY)
    if key in stated:
        return ScoreRecord(key, title=key, higher_is_better=stated[key])
    if key in SCORES:
        return SCORES[key]
    score_on_condition = score_of_condition(key)
    if score_on_condition is not None:
        record_of_metric = SCORES[score_on_condition.metric]
        return replace(record_of_metric, key=key, title=key, head="")  # its column head is the key
    return ScoreRecord(key, title=key, higher_is_better=None)
