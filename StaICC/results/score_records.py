"""Records of scores: a row for each, as data frames, exports, figures have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC import benchmark_names
from StaICC.metrics.intervals import Interval
from StaICC.metrics.scores import BASELINE_KEYS
from StaICC.results.above_chance import strongest_not_beaten, verdicts_of
from StaICC.results.details import SAMPLES, Baselines, ConditionRecord, DatasetDetails, MeanDetails
from StaICC.results.protocol import ResultLike, ResultsLike

_OBJECTS_WITHOUT_SCORES = ("rounds", "settings", "experiment")
"""Keys of objects among the scores of a data set that hold settings and counts instead of scores."""


def single_scores(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield every single score with its key; texts and settings are left out.

    Scores may be nested:

    - In an object, the keys of the object and of the score are joined by a dot.
    - In a list, the number of the item is the last key.
    - A regression line yields two scores: its slope has the key of the line, its intercept the key with
      ``(intercept)``.

    Args:
        values: The scores of a data set, or the means.
        prefix: The beginning of all keys: the key of the object that holds the values, and a dot. For the scores in
            ``{"noise": {"accuracy": 0.5}}`` it is ``"noise."``. For the outermost object it is empty.

    Example:
        >>> list(single_scores({"accuracy": 0.5, "sensitivity": {"brier": [0.25, 1.0]}}))
        [('accuracy', 0.5), ('sensitivity.brier', 0.25), ('sensitivity.brier (intercept)', 1.0)]
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if key not in _OBJECTS_WITHOUT_SCORES:
                yield from single_scores(value, f"{name}.")
        elif isinstance(value, (list, tuple)):
            if _is_regression_line(prefix, value):
                slope, intercept = value
                yield name, slope
                yield f"{name} (intercept)", intercept
            else:
                for index, item in enumerate(value):
                    yield f"{name}.{index}", item
        elif value is None:  # an undefined score
            yield name, None
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value


def _is_regression_line(prefix: str, value: Sequence[Any]) -> bool:
    """Return whether a list among the scores is a regression line, which is a pair of slope and intercept.

    Regression lines are the lists of two items in the object ``sensitivity``, where the prefix is ``"sensitivity."``.

    Args:
        prefix: The key of the object that holds the list, and a dot.
        value: The list.
    """
    return prefix == "sensitivity." and len(value) == 2


def origin(result: ResultLike, dataset: str | None) -> dict[str, Any]:
    """Return the keys that say where a record comes from: its benchmark, model, method and data set.

    Args:
        result: The result.
        dataset: The data set; ``None`` for a record of the means.
    """
    return {"benchmark": result.benchmark, "model": result.model, "method": result.method, "dataset": dataset}


# -- how many queries a score is over


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """How many queries a score is computed from."""

    asked: int
    """Queries that the benchmark asks for this score."""
    scored: int
    """Those of them that the score counts. Failed queries, and replies without a label that are excluded, are not."""

    @property
    def left_out(self) -> int:
        """The number of queries that the score leaves out."""
        return self.asked - self.scored


def _rounds_of(result: ResultLike, dataset: str, metric: str) -> list[Mapping[str, Any]]:
    """Return the records of the rounds of LongICL that a score is computed from; none for other benchmarks.

    Args:
        result: The result.
        dataset: The data set.
        metric: Key of the score: ``mean``, for all rounds, or the name of a round.
    """
    if not benchmark_names.has_long_contexts(result.benchmark):
        return []
    rounds: Mapping[str, Mapping[str, Any]] = result.divided[dataset].get("rounds") or {}
    if metric == "mean":
        return list(rounds.values())
    if metric in rounds:
        return [rounds[metric]]
    return []


def _counts_of_rounds(result: ResultLike, details: DatasetDetails, rounds: Sequence[Mapping[str, Any]]) -> QueryCounts:
    """Return how many queries a score of LongICL is computed from: the sums over its rounds.

    All queries of a round are asked. Those without an error are answered. A reply that names no label is an answer, but
    is not scored if the run excludes unparsed replies.

    Args:
        result: The result; its argument ``unparsed`` says whether unparsed replies are excluded.
        details: The details of the data set. A round that does not record how many queries were asked or answered has
            the numbers of the data set.
        rounds: The records of the rounds that the score is computed from.
    """
    asked = 0
    answered = 0
    unparsed = 0
    for round_record in rounds:
        asked += int(round_record.get("asked", details.asked))
        answered += int(round_record.get("answered", details.scored))
        unparsed += int(round_record.get("unparsed", 0))
    if result.setting("unparsed") == "excluded":
        return QueryCounts(asked, scored=answered - unparsed)
    return QueryCounts(asked, scored=answered)


def _counts_of_condition(result: ResultLike, dataset: str, condition: ConditionRecord) -> QueryCounts:
    """Return the counts of a score of one condition, from the predictions of its queries."""
    counted_wrong = result.counted_wrong(dataset)  # replies without a label that are not excluded
    scored = 0
    for query, prediction in enumerate(condition.predictions):
        if prediction is not None or (condition.name, query) in counted_wrong:
            scored += 1
    return QueryCounts(asked=len(condition.truth), scored=scored)


def _counts_of_samples(result: ResultLike, dataset: str, metric: str) -> QueryCounts:
    """Return the counts of a score of logged samples; a task that does not have the metric has none.

    Args:
        result: The result.
        dataset: The task.
        metric: Key of the score.
    """
    if metric not in result.query_scores:
        return QueryCounts(0, 0)
    scores_by_condition = result.query_scores[metric].values.get(dataset, {})
    scores = scores_by_condition.get(SAMPLES)
    if scores is None:
        return QueryCounts(0, 0)
    return QueryCounts(asked=len(scores), scored=len(scores) - scores.count(None))


def _query_counts(result: ResultLike, dataset: str, metric: str) -> QueryCounts:
    """Return the counts of a score of a data set.

    A score of a round or a condition has the counts of the round or condition. Any other score has those of the data
    set.
    """
    if dataset in result.samples:
        return _counts_of_samples(result, dataset, metric)
    details = result.details[dataset]
    rounds = _rounds_of(result, dataset, metric)
    if rounds:
        return _counts_of_rounds(result, details, rounds)
    condition_name = _condition_in_key(metric)
    for condition in details.conditions:
        if condition.name == condition_name:
            return _counts_of_condition(result, dataset, condition)
    return QueryCounts(asked=details.asked, scored=details.scored)


def _condition_in_key(metric: str) -> str:
    """Return the condition in the key of a score, such as ``1`` in ``1.accuracy``; empty if there is none."""
    condition, _, _ = metric.rpartition(".")
    return condition


def _summed_counts(result: ResultLike, metric: str, dataset: str | None) -> QueryCounts:
    """Return how many queries a score is computed from; for a mean over data sets, the sums over all data sets.

    A baseline leaves out no query, because it is computed from the true labels. Its record says so: ``asked`` is the
    number of scored queries.

    Args:
        result: The result.
        metric: Key of the score.
        dataset: The data set of the score; ``None`` for the mean over the data sets.
    """
    if dataset is None:
        datasets = list(result.details)
    else:
        datasets = [dataset]
    asked = 0
    scored = 0
    for name in datasets:
        counts = _query_counts(result, name, metric)
        asked += counts.asked
        scored += counts.scored
    if metric in BASELINE_KEYS:
        return QueryCounts(asked=scored, scored=scored)
    return QueryCounts(asked, scored)


def queries_left_out(result: ResultLike, metric: str, dataset: str | None = None) -> int:
    """Return the number of queries that a score leaves out: failed ones, and excluded replies without a label.

    Args:
        result: The result.
        metric: Key of the score.
        dataset: The data set of the score; ``None`` for a mean over all data sets.
    """
    return _summed_counts(result, metric, dataset).left_out


# -- records


def _interval_of(
    result: ResultLike, dataset: str | None, metric: str, value: float | None, intervals: Mapping[str, Interval]
) -> Interval | None:
    """Return the interval of a score; ``None`` if it has none.

    A run may have stopped early because a mean was known with the wanted precision. This mean then has the interval of
    the stopping rule, which stays valid although the run looked at the interval after each round. All other scores have
    their usual intervals.

    Args:
        result: The result.
        dataset: The data set of the score; ``None`` for a mean.
        metric: Key of the score.
        value: The score; ``None`` if it is undefined.
        intervals: The usual intervals by key.
    """
    stopping = result.stopping
    is_defined_mean = dataset is None and value is not None
    if stopping is not None and stopping.rule == "precision" and is_defined_mean and metric == stopping.score:
        return stopping.interval
    return intervals.get(metric)


def _baselines_of(result: ResultLike, metric: str, baselines: Mapping[str, Baselines]) -> Baselines | None:
    """Return the baselines of an accuracy; ``None`` for other scores.

    Args:
        result: The result.
        metric: Key of the score. If it names no condition, the baselines are those of the first condition.
        baselines: The baselines by condition.
    """
    condition, _, score = metric.rpartition(".")
    if score != "accuracy":
        return None
    if condition:
        return baselines.get(condition)
    # The mean "accuracy" of GLER is a slope: its data sets have no score with this key.
    if any(metric not in scores for scores in result.divided.values()):
        return None
    if not baselines:
        return None
    first_condition = next(iter(baselines))
    return baselines[first_condition]


def _not_beaten_name(baselines: Baselines | None) -> str | None:
    """Return the name of the strongest baseline that is not beaten.

    It is empty if all baselines are beaten, and ``None`` if there are no baselines.
    """
    if baselines is None:
        return None
    verdict = strongest_not_beaten(verdicts_of(baselines))
    if verdict is None:
        return ""
    return verdict.baseline


def _score_record(
    result: ResultLike, dataset: str | None, metric: str, value: float | None, details: DatasetDetails | MeanDetails
) -> dict[str, Any]:
    """Return the record of one score, with the keys of :func:`score_records` except the signature.

    Args:
        result: The result.
        dataset: The data set of the score; ``None`` for a mean.
        metric: Key of the score.
        value: The score; ``None`` if it is undefined.
        details: The details of the data set, or of the means.
    """
    baselines = _baselines_of(result, metric, details.baselines)
    random = None
    majority = None
    if baselines is not None:
        random = baselines.max_random
        majority = baselines.majority
    # A score that names no condition shows the baselines of the first condition. If there are several conditions, these
    # baselines are not tested against it.
    not_beaten = None
    if _condition_in_key(metric) or len(details.baselines) == 1:
        not_beaten = _not_beaten_name(baselines)

    counts = _summed_counts(result, metric, dataset)
    return {
        **origin(result, dataset),
        "metric": metric,
        "value": value,
        **_interval_fields(_interval_of(result, dataset, metric, value, details.intervals)),
        "n": counts.scored,
        "left_out": counts.left_out,
        "stopped_early": result.stopping is not None,
        "random": random,
        "majority": majority,
        "not_beaten": not_beaten,
        "missing": details.missing.get(metric),
    }


def _interval_fields(interval: Interval | None) -> dict[str, float | None]:
    """Return the fields of an interval in a record; all of them are ``None`` without an interval."""
    if interval is None:
        return {"low": None, "high": None, "level": None}
    return {"low": interval.low, "high": interval.high, "level": interval.level}


def records_of_scores(result: ResultLike) -> Iterator[dict[str, Any]]:
    """Yield the records of :func:`score_records` for a single result: first the data sets, then the means.

    The data set of a mean is ``None``.
    """
    signature = str(result.signature)
    for dataset, scores in result.divided.items():
        details = result.details.get(dataset, MeanDetails())
        for metric, value in single_scores(scores):
            record = _score_record(result, dataset, metric, value, details)
            record["signature"] = signature
            yield record
    for metric, value in single_scores(result.averaged):
        record = _score_record(result, None, metric, value, result.means)
        record["signature"] = signature
        yield record


def score_records(result: ResultsLike) -> Iterator[dict[str, Any]]:
    """Yield one record for each score of a result.

    Args:
        result: A result, or a group of results.

    Yields:
        A record with these keys:

        - ``benchmark``, ``model``, ``method``;
        - ``dataset``: ``None`` for the mean over the data sets;
        - ``metric``, ``value``;
        - ``low``, ``high``, ``level``: the interval; after early stopping, that of the mean of the score;
        - ``n``: number of scored queries, of the condition or round where the score has one;
        - ``left_out``: number of queries that the score leaves out;
        - ``stopped_early``: whether the run stopped before it had evaluated all rows;
        - ``random``, ``majority``: baselines of an accuracy;
        - ``not_beaten``: the strongest baseline that it is not shown to beat; an empty text if it beats all;
        - ``missing``: why there is no value;
        - ``signature``.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(score_records(result))["metric"]
        'accuracy'
    """
    for single in result.results():
        yield from records_of_scores(single)
