"""Saved results as flat records, one for each score or for each query.

``result.to_pandas()`` and ``result.to_polars()`` return the scores as a tidy table. Every record has the same keys; a
missing value is ``None``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from StaICC.optional import require

if TYPE_CHECKING:
    from StaICC.results.table import TableResult


class Results(Protocol):
    """A result, or a group of results."""

    def results(self) -> Iterable[TableResult]:
        """Return every single result."""


def _figures(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield single scores by key, nested keys joined by dots; texts and settings are left out.

    A list under ``sensitivity`` is a regression line: slope and intercept.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if key not in ("rounds", "settings", "experiment"):  # records of their own, not scores
                yield from _figures(value, f"{name}.")
        elif isinstance(value, (list, tuple)) and prefix == "sensitivity." and len(value) == 2:
            yield name, value[0]
            yield f"{name} (intercept)", value[1]
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}.{place}", one) for place, one in enumerate(value))
        elif value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            yield name, value


def origin(result: TableResult, dataset: str | None) -> dict[str, Any]:
    """Return the keys that every record has: of which benchmark, model, method and data set it is."""
    return {"benchmark": result.benchmark, "model": result.model, "method": result.method, "dataset": dataset}


def _scored(result: TableResult, dataset: str, metric: str) -> int:
    """Return the number of scored queries of a score: of its condition or round, if it belongs to one."""
    details, fields = result.details[dataset], result.signature.fields
    rounds = result.divided.get(dataset, {}).get("rounds")
    condition = metric.rpartition(".")[0]
    if isinstance(rounds, Mapping) and isinstance(rounds.get(metric), Mapping):
        lost = rounds[metric].get("unparsed", 0) if fields.get("unparsed") == "excluded" else 0
        return int(rounds[metric].get("answered", details.scored)) - int(lost)
    for record in details.conditions:
        if record.name == condition:
            wrong = details.unparsed if fields.get("unparsed") == "wrong" else ()
            assumed = {one.query for one in wrong if one.condition == condition}
            return sum(label is not None or place in assumed for place, label in enumerate(record.predictions))
    return details.scored


def score_records(result: Results) -> Iterator[dict[str, Any]]:
    """Yield one record for each score of a result.

    Args:
        result: A result, or a group of results.

    Yields:
        ``benchmark``, ``model``, ``method``, ``dataset`` (``None``: the mean over them), ``metric``, ``value``, ``low``
        and ``high`` (ends of the interval; after early stopping, of the mean of its score), ``level``, ``n`` (scored
        queries, of the condition or round where the score has one), ``random`` and ``majority`` (baselines of an
        accuracy), ``missing`` (why there is no value),
        ``signature``.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(score_records(result))["metric"]
        'accuracy'
    """
    for one in result.results():
        places: list[tuple[str | None, Mapping[str, Any]]] = [*one.divided.items(), (None, one.averaged)]
        for dataset, values in places:
            details = one.details.get(dataset) if dataset is not None else None
            for metric, value in _figures(values):
                interval = (details.intervals if details else one.means.intervals).get(metric)
                early = one.stopping if dataset is None and value is not None else None
                if early and early.rule == "precision" and early.score == metric:
                    interval = early.interval
                baselines = details.baselines if details else one.means.baselines
                condition, _, last = metric.rpartition(".")
                slope = not condition and any(metric not in each for each in one.divided.values())  # of label noise
                guess = (
                    baselines.get(condition or next(iter(baselines), "")) if last == "accuracy" and not slope else None
                )
                yield {
                    **origin(one, dataset),
                    "metric": metric,
                    "value": value,
                    "low": interval.low if interval else None,
                    "high": interval.high if interval else None,
                    "level": interval.level if interval else None,
                    "n": sum(_scored(one, name, metric) for name in ([dataset] if dataset else one.details)),
                    "random": guess.max_random if guess else None,
                    "majority": guess.majority if guess else None,
                    "missing": details.missing.get(metric) if details else one.means.missing.get(metric),
                    "signature": str(one.signature),
                }


def to_pandas(result: Results) -> Any:
    """Return the scores of a result as a tidy ``pandas.DataFrame``, with the columns of :func:`score_records`.

    Args:
        result: A result, or a group of results.

    Raises:
        MissingDependencyError: pandas is not installed.
    """
    return require("pandas", "data", "a data frame").DataFrame(list(score_records(result)))


def to_polars(result: Results) -> Any:
    """Return the scores of a result as a tidy ``polars.DataFrame``, with the columns of :func:`score_records`.

    Args:
        result: A result, or a group of results.

    Raises:
        MissingDependencyError: polars is not installed.
    """
    polars = require("polars", "data", "a data frame of polars")
    return polars.DataFrame(list(score_records(result)), infer_schema_length=None)


def query_records(result: Results) -> Iterator[dict[str, Any]]:
    """Yield one record for each query of a result.

    Args:
        result: A result, or a group of results.

    Yields:
        ``benchmark``, ``model``, ``method``, ``dataset``, ``condition``, ``query`` (number within the condition),
        ``row``, ``ground_truth`` and ``prediction`` (label indexes; ``None`` for a failed query), ``correct``, and the
        two label names if the result has them.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: 0)
        >>> next(query_records(result))["prediction_label"]
        'food'
    """
    for one in result.results():
        for dataset, details in one.details.items():
            for record in details.conditions:
                answers = zip(record.rows, record.truth, record.predictions, strict=True)
                for number, (row, truth, prediction) in enumerate(answers):
                    yield {
                        **origin(one, dataset),
                        "condition": record.name,
                        "query": number,
                        "row": row,
                        "ground_truth": truth,
                        "prediction": prediction,
                        "correct": None if prediction is None else prediction == truth,
                        "ground_truth_label": _label(details.labels, truth),
                        "prediction_label": _label(details.labels, prediction),
                    }


def _label(labels: tuple[str, ...], index: int | None) -> str | None:
    return labels[index] if index is not None and 0 <= index < len(labels) else None
