"""Score predictions of another engine, matched by id.

A query without a prediction and an id that the benchmark does not have are errors. With ``partial=True``, queries
without a prediction count as failed, as in a run with ``on_error="collect"``.

The result equals that of :meth:`~StaICC.benchmarks.benchmark.Benchmark.auto_run` for the same predictions as
``preentered_prediction``: the signature has ``scoring:given``, the provenance a digest of the predictions. The field of
a prediction decides how its numbers are read. If that differs from the automatic reading (logits that look like
probabilities, for example), the signature contains it.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, cast

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.exchange.files import PREDICTION_FIELDS
from StaICC.benchmarks.exchange.queries import IdentifiedQuery, identified_queries, members
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.outcome import Condition
from StaICC.benchmarks.predictions import Predictions
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Answer, Failure, Unparsed, check_answer
from StaICC.inference.chunk import read_reply
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.metrics import Kind
from StaICC.results import Result, ResultGroup

_NUMBERS = ("probabilities", "logits")


def score_predictions(
    benchmark: Benchmark | BenchmarkGroup,
    predictions: Mapping[str, Mapping[str, Any]],
    *,
    partial: bool = False,
    return_outputs: bool = False,
) -> Result | ResultGroup:
    """Score predictions.

    Args:
        benchmark: The benchmark, or group of benchmarks, of the predictions.
        predictions: For each id the prediction under its field, as returned by
            :func:`~StaICC.benchmarks.exchange.files.read_predictions`.
        partial: Allow queries without a prediction; they count as failed, as do unparsed replies, unless the
            benchmark has ``unparsed="wrong"`` or ``"excluded"``.
        return_outputs: Keep the prediction of each query in ``result.outputs``.

    Returns:
        The result; for a group, a group of results.

    Raises:
        ArgumentError: A prediction is missing, or belongs to no query of this benchmark.
        OutputError: A prediction is invalid (the message names its id), a reply has no label, or predictions are of
            different kinds.
    """
    started = time.monotonic()
    by_part = {part: list(identified_queries(member)) for part, member in members(benchmark).items()}
    queries = [query for of_part in by_part.values() for query in of_part]
    _check_ids(queries, predictions, partial)
    kind = _kind(predictions)
    unparsed = next(one.unparsed for member in members(benchmark).values() for one in member)
    answers = {
        query.id: _answer(query, predictions[query.id], unparsed) for query in queries if query.id in predictions
    }
    if not partial:
        _check_parsed(answers)
    has_replies = any("reply" in prediction for prediction in predictions.values())
    predicted = Predictions(given=f"given;parser={PARSER_VERSION}") if has_replies else Predictions()
    parts = {}
    for part, member in members(benchmark).items():
        runs = _runs(member, by_part[part], answers)
        read = {record.output for run in runs.values() for record in run.details.conditions}
        if kind in _NUMBERS and read != {kind}:
            member = member.copy_with(experimentor=[copy.copy(one) for one in member])
            for one in member:
                one.outputs = cast("Kind", kind)
            runs = _runs(member, by_part[part], answers)
        parts[part] = member.collect(runs, time.monotonic() - started, predicted, return_outputs)
    return ResultGroup(benchmark.name, parts) if isinstance(benchmark, BenchmarkGroup) else parts[benchmark.task.name]


def _kind(predictions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the kind of all predictions: ``"labels"``, ``"probabilities"`` or ``"logits"``."""
    first: dict[str, str] = {}
    for key, prediction in predictions.items():
        for field in prediction:
            first.setdefault("labels" if field in ("index", "label", "reply") else field, key)
    if len(first) > 1:
        listed = ", ".join(f"{field} ({key})" for field, key in first.items())
        raise OutputError(f"the predictions are of different kinds: {listed}; use one kind for all queries")
    if not first:
        raise ArgumentError("there are no predictions to score")
    return next(iter(first))


def _check_ids(queries: Sequence[IdentifiedQuery], predictions: Mapping[str, Any], partial: bool) -> None:
    for key, value in predictions.items():
        if not isinstance(value, Mapping):
            raise OutputError(
                f"{key}: expected a dictionary with one of {', '.join(PREDICTION_FIELDS)}, got {value!r:.60}"
            )
    known = {query.id for query in queries}
    unknown = [key for key in predictions if key not in known]
    if unknown:
        raise ArgumentError(
            f"{len(unknown)} of {len(predictions)} ids belong to no query of this benchmark, the first is {unknown[0]}"
            f"{_why_unknown(unknown[0], queries)}"
        )
    missing = [query.id for query in queries if query.id not in predictions]
    if missing and not partial:
        raise ArgumentError(
            f"{len(missing)} of {len(queries)} queries have no prediction, the first is {missing[0]}; predict all of "
            "them, or allow a partial result"
        )


def _why_unknown(key: str, queries: Sequence[IdentifiedQuery]) -> str:
    """Return which part of an id is unknown, as the end of a message."""
    place, _, _ = key.rpartition("/")
    if any(query.id.startswith(place + "/") for query in queries):
        return ": there is such a query, but with another prompt; was k, the template or the data another one?"
    names = key.split("/")[:2]
    if len(names) == 2 and not any(query.id.split("/")[:2] == names for query in queries):
        existing = dict.fromkeys("/".join(query.id.split("/")[:2]) for query in queries)
        return f": this benchmark has {', '.join(existing)}"
    return ": there is no such row or repeat; was the limit another one?"


def _check_parsed(answers: Mapping[str, Answer | Failure]) -> None:
    """Raise an error if a reply has no label."""
    unparsed = {key: answer for key, answer in answers.items() if isinstance(answer, Failure) and answer.reply is None}
    if unparsed:
        key, first = next(iter(unparsed.items()))
        raise OutputError(
            f"{len(unparsed)} of {len(answers)} replies are unparsed, the first is of {key}: {first.reason}. A "
            "partial result leaves them out, too"
        )


def _answer(query: IdentifiedQuery, prediction: Mapping[str, Any], unparsed: Unparsed) -> Answer | Failure:
    """Validate a prediction; return its numbers in the order of the labels, or a failure for an unparsed reply."""
    if len(prediction) != 1:
        raise OutputError(
            f"{query.id}: expected exactly one of {', '.join(PREDICTION_FIELDS)}, got {', '.join(prediction) or '{}'}"
        )
    ((field, value),) = prediction.items()
    space = query.query.label_space
    try:
        if field not in PREDICTION_FIELDS:
            raise OutputError(f"a prediction is one of {', '.join(PREDICTION_FIELDS)}, not {field!r}")
        if isinstance(value, Mapping) and field in _NUMBERS:
            if set(value) != set(space):
                raise OutputError(f"the labels are {list(space)}, but the prediction has {list(value)}")
            value = [value[label] for label in space]
        if field in _NUMBERS and isinstance(value, (str, int, float)):
            raise OutputError(f"{field} must be a list with one number for each of {len(space)} labels, not {value!r}")
        if field == "index" and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise OutputError(f"index must be an integer, not {value!r}")
        if field == "label" and not isinstance(value, str):
            raise OutputError(f"label must be a label name, not {value!r}")
        if field == "reply":
            if not isinstance(value, str):
                raise OutputError(f"reply must be a text, not {value!r}")
            return read_reply(value, space, unparsed)
        return check_answer(value, space)
    except OutputError as error:
        raise OutputError(f"{query.id}: {error}") from error


def _runs(
    member: Benchmark, queries: Sequence[IdentifiedQuery], answers: Mapping[str, Answer | Failure]
) -> dict[str, DatasetRun]:
    runs = {}
    for name, of_dataset in groupby(queries, attrgetter("dataset")):
        own = list(of_dataset)
        conditions = [
            Condition(condition, tuple(one.query for one in some))
            for condition, some in groupby(own, attrgetter("condition"))
        ]
        given = [answers.get(one.id, Failure("no prediction was given")) for one in own]
        runs[name] = member[name].assemble(conditions, given, f"{member.task.name}, {name}")
    return runs
