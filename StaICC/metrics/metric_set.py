"""Named sets of metrics.

A :class:`Metric` is a function with a few facts about it; a :class:`MetricSet` scores one matrix of predictions with
all of its metrics, and its name is in the signature of the run. Two sets exist. ``"standard"`` has the metrics of
:mod:`StaICC.metrics.classification`, on rows that are normalised once. ``"0.1.1"`` has the metrics of StaICC 0.1.1, the
released version, with its bugs (:mod:`StaICC.metrics.released`).

Scoring yields a :class:`Score` per metric: a value, or None and the reason. Undefined is never zero: likelihood and
calibration error have no value for bare labels or for predictions of ambiguous kind, and NaN counts as no value.

A metric is a function of the shape ``metric(ground_truth, prediction) -> float``. docs/adding_a_metric.md adds one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import ArgumentError, UndefinedMetricError, unknown_name
from StaICC.metrics import classification, released
from StaICC.metrics.classification import Kind, Normalised, ValidRows, normalise, valid_rows
from StaICC.metrics.scores import SCORES, STATISTICS
from StaICC.metrics.statistics import MeanOf, QueryMean, Reads, Statistic
from StaICC.registry import Registry, fold, labelled, origin_of
from StaICC.removed import RemovedName

MetricFunction = Callable[[list[int], list[list[float]]], float]
"""The shape of a metric: true label indexes and one row of numbers per query, to one number."""

_ROUNDING = 1e-9
"""By how much a value may be outside the range of its metric."""

_READS: Mapping[bool | None, Reads] = {True: "probabilities", False: "rows", None: "any"}
"""What a metric that is a mean over queries (`MeanOf`) reads, by `Metric.requires_probabilities`."""


@dataclass(frozen=True, slots=True)
class Score:
    """The value of a metric, or why it is undefined.

    Attributes:
        value: The finite value, or None.
        reason: Why there is no value; None if there is one.
    """

    value: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric and the facts about it.

    Attributes:
        name: Its key in results.
        function: Computes it from true labels and rows.
        requires_probabilities: ``True``: the function gets probabilities, and the metric is undefined where there are
            none. ``False``: it gets the rows as the inference function returned them (one-hot rows for bare labels).
            ``None``: it gets probabilities where there are any, else the rows as for ``False``.
        higher_is_better: True or False; None if not stated. A leaderboard marks the best run only where it is stated.
        range: The lowest and the highest value that it can take; None if not stated. Other values end the run.
    """

    name: str
    function: MetricFunction
    requires_probabilities: bool | None = False
    higher_is_better: bool | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Check the name and the function.

        Raises:
            ArgumentError: The name is no text or empty, or the function is none. A name that was removed from the
                library has an error with its replacement.
        """
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError(f"the name of a metric is {self.name!r}; expected a text that is not empty")
        if isinstance(self.function, RemovedName):
            self.function.refuse()
        if not callable(self.function):
            raise ArgumentError(
                f"the metric {self.name!r} is {self.function!r}; expected a function of true labels and prediction rows"
            )

    @property
    def label(self) -> str:
        """The name with the origin of the function, as signatures have it."""
        return labelled(self.name, origin_of(self.function))

    @property
    def known(self) -> bool:
        """Whether it is a metric of this library under its own name."""
        return any(self.name == metric.name and self.function is metric.function for metric in _BUILT_IN)

    @property
    def statistic(self) -> Statistic | None:
        """The statistic that computes its intervals and paired tests; ``None`` if it has none."""
        function = self.function
        if isinstance(function, MeanOf):
            if type(function).__call__ is not MeanOf.__call__:
                return None  # the subclass may compute something else than the mean
            return QueryMean(function, _READS[self.requires_probabilities])
        if self.known:
            return STATISTICS[self.name]
        return None

    @property
    def of_release(self) -> bool:
        """Whether its function is a metric of StaICC 0.1.1 (:mod:`StaICC.metrics.released`)."""
        return any(self.function is metric.function for metric in _RELEASED.metrics)

    @property
    def of_library(self) -> bool:
        """Whether it is a built-in metric or one of the set ``"0.1.1"``, without any change of its name or facts."""
        return self in _BUILT_IN or self in _RELEASED.metrics


def _measure(metric: Metric, truth: list[int], rows: Sequence[Sequence[float]]) -> Score:
    """Return the score of one metric.

    A function of a user gets its own copy of the data, so that it cannot change the data of other metrics.

    Args:
        metric: The metric.
        truth: The true labels.
        rows: The rows that it requires.

    Raises:
        ArgumentError: It raised another error than :class:`~StaICC.errors.UndefinedMetricError`, or returned no number,
            or one outside its range.
    """
    try:
        value: Any
        if metric.known:
            value = metric.function(truth, rows)  # type: ignore[arg-type]  # it takes any sequences
        else:
            value = metric.function(list(truth), [list(row) for row in rows])
    except UndefinedMetricError as error:
        return Score(None, str(error))
    except Exception as error:
        raise ArgumentError(f"the metric {metric.name!r} raised {type(error).__name__}: {error}") from error
    if value is None:
        return Score(None, "the metric returned None")
    if not _is_real_number(value):
        raise ArgumentError(
            f"the metric {metric.name!r} returned {value!r} of type {type(value).__name__}, expected a number"
        )
    if not math.isfinite(value):
        return Score(None, f"the metric returned {value}")
    if metric.range is not None:
        lowest, highest = metric.range
        if value < lowest - _ROUNDING or value > highest + _ROUNDING:
            raise ArgumentError(
                f"the metric {metric.name!r} returned {value!r}, expected a number from {lowest:g} to {highest:g}, "
                "its range"
            )
    return Score(float(value))


def _is_real_number(value: object) -> bool:
    """Return whether a value is a real number, also of NumPy or torch; truth values are none."""
    if isinstance(value, (bool, str, bytes, complex)):
        return False
    return hasattr(value, "__float__")


def _check_one_hot(rows: ValidRows) -> None:
    """Raise an ArgumentError for a row that is not one-hot: a single 1, and 0 for all other labels."""
    for row_index, row in enumerate(rows):
        if row.count(1.0) != 1 or row.count(0.0) != len(row) - 1:
            raise ArgumentError(
                f"row {row_index} of the predictions is {list(row)!r}; expected bare labels as one-hot rows (a single "
                "1, else 0)"
            )


@dataclass(frozen=True, slots=True)
class MetricSet:
    """Metrics that are reported together, under a name that signatures contain.

    Attributes:
        name: Its name.
        metrics: The metrics, in the order of the report; their names differ.
        as_released: Whether all metrics get the rows as the inference function returned them, as in StaICC 0.1.1. Its
            metrics decide themselves between probabilities and logits.
        parts: What the name is made of, for signatures: the name of a set and the labels of added metrics.
    """

    name: str
    metrics: tuple[Metric, ...]
    as_released: bool = False
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the metrics have different names. Without parts, the name is the only part.

        Raises:
            ArgumentError: Two metrics have the same name.
        """
        if not self.parts:
            object.__setattr__(self, "parts", (self.name,))
        names = [metric.name for metric in self.metrics]
        if len(set(names)) != len(names):
            raise ArgumentError(f"the metric set {self.name!r} has two metrics of one name among {', '.join(names)}")

    @property
    def statistics(self) -> dict[str, Statistic]:
        """The statistics of the metrics that have one, by name."""
        return {metric.name: metric.statistic for metric in self.metrics if metric.statistic is not None}

    def adding(self, metric: Metric) -> MetricSet:
        """Make a set with one more metric. A metric of the same name is replaced.

        The new set is scored as released (:attr:`as_released`) in two cases: if it extends the set ``"0.1.1"``, even
        with a built-in metric; or if :func:`scored_as_released` says so for its metrics.

        Args:
            metric: The metric to add.

        Returns:
            The new set. Its name is that of this set with ``+`` and the label of the metric.

        Example:
            >>> errors = Metric("errors", lambda truth, rows: 0.0)
            >>> metric_set("standard").adding(errors).name
            'standard+errors'
        """
        others = [other for other in self.metrics if other.name != metric.name]
        metrics = (*others, metric)
        parts = (*self.parts, metric.label)
        is_extended_release = self.parts[0] == "0.1.1"  # the first part is the name of the set that is extended
        return replace(
            self,
            name="+".join(parts),
            metrics=metrics,
            as_released=is_extended_release or scored_as_released(metrics),
            parts=parts,
        )

    def score(
        self,
        ground_truth: Sequence[int],
        rows: Sequence[Sequence[float]],
        kind: Kind = "auto",
        hard: bool = False,
        normalised: Normalised | None = None,
    ) -> dict[str, Score]:
        """Score predictions with every metric of the set.

        Some metrics need probabilities. In a set that is scored as released, every metric gets `rows` as they are.
        Otherwise there are three cases. If `hard` is true, there are no probabilities. If `normalised` is given, it has
        the probabilities, and `kind` is not used. Else `rows` are normalised as `kind` says.

        Args:
            ground_truth: One label index per query.
            rows: One row per query, one number per label, as the inference function returned them. Not changed.
            kind: What the rows hold: ``"probabilities"`` or ``"logits"``, or ``"auto"`` to decide from the values. The
                set ``"0.1.1"`` takes ``"auto"`` only, and decides by its own rule.
            hard: Whether the inference function returned bare labels. `rows` are then their one-hot rows.
            normalised: The result of :func:`~StaICC.metrics.classification.normalise` for the rows, if the caller has
                it already.

        Returns:
            A score for each metric's name, in the order of the set.

        Raises:
            ArgumentError: The true labels do not fit the rows, `hard` rows are not one-hot, a metric returned no
                number, or a kind was forced on the set ``"0.1.1"``.
            OutputError: A row cannot be read, or not as the kind that was forced.
            UnknownNameError: There is no such kind.

        Example:
            >>> scores = metric_set("standard").score([0, 1], [[1.0, 0.0], [1.0, 0.0]], hard=True)
            >>> scores["accuracy"].value
            0.5
            >>> scores["averaged_truelabel_likelihood"].reason
            'the predictions are bare labels, which have no probabilities'
        """
        raw_rows = valid_rows(rows)
        label_count = len(raw_rows[0]) if raw_rows else 0
        truth = classification.check_labels(ground_truth, queries=len(raw_rows), labels=label_count)
        if not raw_rows:
            return self._all_undefined("there are no predictions to score; a metric of nothing is undefined")
        if hard:
            _check_one_hot(raw_rows)

        if self.as_released:
            self._check_kind_is_auto(kind)
            return self._score_as_released(truth, raw_rows, hard)
        if hard:
            reason = "the predictions are bare labels, which have no probabilities"
            return self._score_rows(truth, raw_rows, probabilities=None, reason=reason)
        if normalised is None:
            normalised = normalise(raw_rows, kind)
        return self._score_rows(truth, raw_rows, normalised.probabilities, normalised.reason)

    def _check_kind_is_auto(self, kind: Kind) -> None:
        """Raise an ArgumentError if a kind is forced on a set that decides by the rule of the release."""
        if kind != "auto":
            raise ArgumentError(
                f"the metric set {self.name!r} decides between probabilities and logits by the release's own rule; "
                f"kind is {kind!r}, expected 'auto'. To force a kind, use the set 'standard'"
            )

    def _all_undefined(self, reason: str) -> dict[str, Score]:
        """Return an undefined score with the same reason for every metric."""
        return {metric.name: Score(None, reason) for metric in self.metrics}

    def _score_as_released(self, truth: list[int], raw_rows: ValidRows, hard: bool) -> dict[str, Score]:
        """Return the scores that StaICC 0.1.1 computes, which gives all metrics the rows as they were returned.

        Args:
            truth: The true labels.
            raw_rows: The rows as they were returned.
            hard: Whether they are one-hot rows of bare labels. They then get the width that they have in 0.1.1.
        """
        rows: Sequence[Sequence[float]] = raw_rows
        if hard:
            try:
                rows = released.expand_label_indexes(classification.predicted_labels(raw_rows), truth)
            except UndefinedMetricError as error:  # StaICC 0.1.1 has no result at all for such a run
                return self._all_undefined(str(error))
        return {metric.name: _measure(metric, truth, rows) for metric in self.metrics}

    def _score_rows(
        self,
        truth: list[int],
        raw_rows: ValidRows,
        probabilities: Sequence[Sequence[float]] | None,
        reason: str | None,
    ) -> dict[str, Score]:
        """Return the score of each metric, by its name.

        ``requires_probabilities`` of a metric says which rows it gets:

        - ``False``: always the raw rows.
        - ``True``: the probabilities. Without probabilities, the score is undefined.
        - ``None``: the probabilities. Without probabilities, the raw rows.

        Args:
            truth: The true labels.
            raw_rows: The rows as the inference function returned them.
            probabilities: The rows as probabilities; ``None`` if there are none.
            reason: Why there are no probabilities; ``None`` if there are some.
        """
        scores = {}
        for metric in self.metrics:
            if metric.requires_probabilities is False:
                scores[metric.name] = _measure(metric, truth, raw_rows)
            elif probabilities is not None:
                scores[metric.name] = _measure(metric, truth, probabilities)
            elif metric.requires_probabilities is None:
                scores[metric.name] = _measure(metric, truth, raw_rows)
            else:
                scores[metric.name] = Score(None, reason)
        return scores


def scored_as_released(metrics: Sequence[Metric]) -> bool:
    """Return whether the metrics get the rows as the inference function returned them, as in StaICC 0.1.1.

    They do if some metric is one of StaICC 0.1.1, and none is a built-in metric. Built-in metrics may need
    probabilities, so that sets with one of them are scored in the usual way.
    """
    built_in_functions = [metric.function for metric in _BUILT_IN]
    for metric in metrics:
        if metric.function in built_in_functions:
            return False
    return any(metric.of_release for metric in metrics)


_PUBLISHED = ("accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1")
"""The metrics of the paper and of StaICC 0.1.1, in the order of the report.

Both sets have these and no others, so that a metric that is added to the library changes no result. It is used by its
name, such as ``"standard+name"``.
"""


def _built_in_metrics() -> tuple[Metric, ...]:
    """Return a metric for each score of this library that is computed from true labels and rows."""
    metrics = []
    for score in SCORES.values():
        if score.metric is None or score.statistic is None:
            continue
        metric = Metric(
            score.key,
            score.metric,
            requires_probabilities=score.statistic.reads == "probabilities",
            higher_is_better=score.higher_is_better,
            range=score.statistic.range(2),  # it does not depend on the number of labels
        )
        metrics.append(metric)
    return tuple(metrics)


def _released_set() -> MetricSet:
    """Return the set of the metrics of StaICC 0.1.1.

    They get the rows as the inference function returned them, and have no range, because 0.1.1 checks none.
    """
    metrics = []
    for name in _PUBLISHED:
        metrics.append(Metric(name, getattr(released, name), higher_is_better=SCORES[name].higher_is_better))
    return MetricSet("0.1.1", tuple(metrics), as_released=True)


_BUILT_IN = _built_in_metrics()
"""The built-in metrics of this library, in the order of their records. The published ones come first."""
_STANDARD = MetricSet("standard", tuple(metric for metric in _BUILT_IN if metric.name in _PUBLISHED))
_RELEASED = _released_set()
_SETS = {"standard": _STANDARD, "0.1.1": _RELEASED}


def _read_metric(name: str, value: Any) -> Metric:
    """Return a function or a metric that a user gave as a metric with this name.

    A function of this library keeps what is known about its metric, such as the range. Any other function gets
    probabilities where there are any.
    """
    if isinstance(value, Metric):
        return replace(value, name=name)
    for metric in (*_BUILT_IN, *_RELEASED.metrics):
        if value is metric.function:
            return replace(metric, name=name)
    return Metric(name, value, requires_probabilities=None)


_REFERENCES = {metric.name: f"{metric.function.__module__}:{metric.function.__name__}" for metric in _BUILT_IN}
"""Where the function of each built-in metric is defined."""

METRICS: Registry[Metric] = Registry(
    kind="metric",
    group="staicc.metrics",
    builtin=_REFERENCES,
    read=_read_metric,
    hint="A set and metrics are joined by +, such as standard+my_metric.",
    folded={fold(name): name for name in _SETS},
)
"""The metrics by name. The names of metric sets are taken, too."""


def metric_set(metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] = "standard") -> MetricSet:
    """Find a set of metrics by name, or make one of names or functions.

    Functions by name, as in StaICC 0.1.1, are read as follows:

    - A function of this library keeps what is known about its metric, such as its range.
    - Another function gets probabilities where there are any, else the rows as the inference function returned them
      (see :class:`Metric`, ``None``).
    - If there is a function of StaICC 0.1.1 (``StaICC.util.functional.accuracy``) but no built-in metric, all functions
      get the rows as the inference function returned them.

    Args:
        metrics: One of:

            - the name of a set, ``"standard"`` or ``"0.1.1"``;
            - the name of a metric in :data:`METRICS` or of a plug-in, or ``package.module:name``;
            - several names joined by ``+``, such as ``"standard+my_metric"``;
            - functions or metrics by name;
            - a set, which is returned unchanged.

    Returns:
        The set. One made of functions is called ``custom`` with their names.

    Raises:
        ArgumentError: There are no functions, or something is not a function.
        UnknownNameError: There is no set or metric of that name.
        PluginError: A plug-in is broken, or two plug-ins have that metric.

    Example:
        >>> [metric.name for metric in metric_set("standard").metrics][:2]
        ['accuracy', 'averaged_truelabel_likelihood']
        >>> metric_set({"mine": lambda truth, rows: 1.0}).name
        'custom+mine'
        >>> metric_set("accuracy+macro_F1").name
        'accuracy+macro_F1'
    """
    if isinstance(metrics, MetricSet):
        return metrics
    if isinstance(metrics, Mapping) and metrics:
        return _custom_metric_set(metrics)
    if isinstance(metrics, str):
        return _metric_set_of_names(metrics.split("+"))
    raise ArgumentError(f"metrics: got {metrics!r:.80}, expected the name of a metric set, or functions by name")


def _custom_metric_set(functions: Mapping[str, MetricFunction | Metric]) -> MetricSet:
    """Return the metric set ``custom`` with functions that a user gave by name."""
    custom = MetricSet("custom", ())
    for name, function in functions.items():
        custom = custom.adding(_read_metric(name, function))
    return custom


def _metric_set_of_names(names: Sequence[str]) -> MetricSet:
    """Return the metric set that a user gave as names joined by ``+``.

    Args:
        names: The name of a set or of a metric, then the names of metrics that are added.
    """
    first = names[0]
    if first in _SETS:
        joined = _SETS[first]
    else:
        metric = _find_metric(first)
        joined = MetricSet(metric.label, (metric,))
    for name in names[1:]:
        joined = joined.adding(_find_metric(name))
    return joined


def _find_metric(name: str) -> Metric:
    """Return the metric with a name.

    Raises:
        UnknownNameError: There is no such metric. The names of sets are no names of metrics.
        PluginError: A plug-in is broken, or two plug-ins have that metric.
    """
    is_set = fold(name) in [fold(set_name) for set_name in _SETS]
    if is_set or not METRICS.knows(name):
        raise unknown_name("metric set", name, [*_SETS, *METRICS.names()], METRICS.hint)
    return METRICS.find(name).value
