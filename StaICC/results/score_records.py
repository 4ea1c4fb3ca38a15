"""Records of scores: a row for each, as data frames, exports, figures have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from StaICC import benchmark_names
from StaICC.metrics.scores import BASELINE_KEYS
from StaICC.results.above_chance import strongest_not_beaten, verdicts_of
from StaICC.results.details import Baselines, MeanDetails
from StaICC.results.protocol import ResultLike, ResultsLike


def single_scores(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield single scores by key, nested keys joined by dots; texts and settings are left out.

    A list under ``sensitivity`` is a regression line: slope and intercept.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if key not in ("rounds", "settings", "experiment"):  # records of their own, not scores
                yield from single_scores(value, f"{name}.")
        elif isinstance(value, (list, tuple)) and prefix == "sensitivity." and len(value) == 2:
            yield name, value[0]
            yield f"{name} (intercept)", value[1]
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{place}", item) for place, item in enumerate(value))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield name, value


def origin(result: ResultLike, dataset: str | None) -> dict[str, Any]:
    """Return the keys that every record has: of which benchmark, model, method and data set it is."""
    return {"benchmark": result.benchmark, "model": result.model, "method": result.method, "dataset": dataset}


def _not_beaten(baselines: Baselines | None) -> str | None:
    """Return the strongest baseline that is not beaten, empty if all are; ``None`` without baselines."""
    if baselines is None:
        return None
    verdict = strongest_not_beaten(verdicts_of(baselines))
    return "" if verdict is None else verdict.baseline


def _rounds_of(result: ResultLike, dataset: str, metric: str) -> list[Mapping[str, Any]]:
    """Return the records of the rounds of LongICL that a score is about; none for scores of other benchmarks."""
    if result.benchmark != benchmark_names.LONG_ICL:
        return []
    rounds: Mapping[str, Mapping[str, Any]] = result.divided[dataset].get("rounds") or {}
    if metric == "mean":
        return list(rounds.values())
    return [rounds[metric]] if metric in rounds else []


def _asked(result: ResultLike, dataset: str, metric: str) -> int:
    """Return the number of queries of a score: of its condition or round, if it belongs to one."""
    details, condition = result.details[dataset], metric.rpartition(".")[0]
    rounds = _rounds_of(result, dataset, metric)
    if rounds:
        return sum(int(own.get("asked", details.asked)) for own in rounds)
    for record in details.conditions:
        if record.name == condition:
            return len(record.truth)
    return details.asked


def _scored(result: ResultLike, dataset: str, metric: str) -> int:
    """Return the number of scored queries of a score: of its condition or round, if it belongs to one."""
    details, condition = result.details[dataset], metric.rpartition(".")[0]
    rounds = _rounds_of(result, dataset, metric)
    if rounds:
        answered = sum(int(own.get("answered", details.scored)) for own in rounds)
        unparsed = sum(int(own.get("unparsed", 0)) for own in rounds)
        return answered - unparsed if result.setting("unparsed") == "excluded" else answered
    for record in details.conditions:
        if record.name == condition:
            wrong = result.counted_wrong(dataset)
            numbered = enumerate(record.predictions)
            return sum(label is not None or (condition, place) in wrong for place, label in numbered)
    return details.scored


def queries_left_out(result: ResultLike, metric: str, dataset: str | None = None) -> int:
    """Return the number of queries that a score leaves out, as :meth:`StaICC.Result.left_out_of` has it."""
    if metric in BASELINE_KEYS:
        return 0
    names = list(result.details) if dataset is None else [dataset]
    return sum(_asked(result, name, metric) - _scored(result, name, metric) for name in names)


def records_of_scores(result: ResultLike) -> Iterator[dict[str, Any]]:
    """Yield one record for each score of a single result, as :func:`score_records` has them."""
    signature, stopping = str(result.signature), result.stopping
    stopped = stopping.score if stopping and stopping.rule == "precision" else None
    for dataset, values in [*result.divided.items(), (None, result.averaged)]:
        own = result.means if dataset is None else result.details.get(dataset, MeanDetails())
        for metric, value in single_scores(values):
            interval = own.intervals.get(metric)
            if stopping and dataset is None and metric == stopped and value is not None:
                interval = stopping.interval
            condition, _, last = metric.rpartition(".")
            of_noise = not condition and any(metric not in own for own in result.divided.values())
            guess = own.baselines.get(condition or next(iter(own.baselines), ""))
            guess = guess if last == "accuracy" and not of_noise else None
            judged = guess if condition or len(own.baselines) == 1 else None  # not the first of several conditions
            yield {
                **origin(result, dataset),
                "metric": metric,
                "value": value,
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "level": interval.level if interval else None,
                "n": sum(_scored(result, name, metric) for name in ([dataset] if dataset else result.details)),
                "left_out": result.left_out_of(metric, dataset),
                "stopped_early": stopping is not None,
                "random": guess.max_random if guess else None,
                "majority": guess.majority if guess else None,
                "not_beaten": _not_beaten(judged),
                "missing": own.missing.get(metric),
                "signature": signature,
            }


def score_records(result: ResultsLike) -> Iterator[dict[str, Any]]:
    """Yield one record for each score of a result.

    Args:
        result: A result, or a group of results.

    Yields:
        ``benchmark``, ``model``, ``method``, ``dataset`` (``None``: the mean over them), ``metric``, ``value``, ``low``
        and ``high`` (ends of the interval; after early stopping, of the mean of its score), ``level``, ``n`` (scored
        queries, of the condition or round where the score has one), ``left_out`` (queries that the score leaves out),
        ``stopped_early`` (whether the run stopped before it had evaluated all rows), ``random`` and ``majority``
        (baselines of an accuracy), ``not_beaten`` (the strongest baseline that it is not shown to beat; an empty text
        if it beats all), ``missing`` (why there is no value), ``signature``.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(score_records(result))["metric"]
        'accuracy'
    """
    for single in result.results():
        yield from records_of_scores(single)
