"""Score answers that another engine gave: joined by id, never by order.

A query without an answer, an id that stands twice, and an id that the benchmark does not have are errors. With
``partial=True`` missing answers give a partial result that says so, as a run with ``on_error="collect"`` does.

The result is what :meth:`~StaICC.benchmarks.benchmark.Benchmark.auto_run` gives for the same answers, with the same
signature. Only where the automatic reading of numbers would differ from what the file says they are (logits that look
like probabilities, say) are they read as the file says, and the signature names that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange.files import ANSWERS
from StaICC.benchmarks.exchange.queries import AskedQuery, asked_queries, members
from StaICC.benchmarks.experimentor import DatasetRun
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.task import Condition
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Answer, Failure, check_answer
from StaICC.metrics import Kind
from StaICC.results import Result, ResultGroup

__all__ = ["score_predictions"]

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
        benchmark: The benchmark, or group of benchmarks, whose prompts were answered.
        predictions: For each id the answer under its field, as
            :func:`~StaICC.benchmarks.exchange.files.read_predictions` gives it.
        partial: Let queries stay without an answer.
        return_outputs: Keep the answers of each query in ``result.outputs``.

    Returns:
        The result; for a group, a group of results.

    Raises:
        ArgumentError: An answer is missing, or belongs to no query of this benchmark.
        OutputError: An answer is unfit (the message names its id), or some are numbers of another kind than others.
    """
    started = time.monotonic()
    asked = list(asked_queries(benchmark))
    _check_ids(asked, predictions, partial)
    kind = _kind(predictions)
    answers = {one.id: _answer(one, predictions[one.id]) for one in asked if one.id in predictions}
    place = iter(asked)
    parts = {}
    for part, member in members(benchmark).items():
        given = _given(member, place, answers)
        runs = _runs(member, given)
        read = {record.output for run in runs.values() for record in run.details.conditions}
        with contextlib.ExitStack() as stack:
            if kind in _NUMBERS and read != {kind}:
                stack.enter_context(_reading(member, cast("Kind", kind)))
                runs = _runs(member, given)
            parts[part] = member.collect(runs, time.monotonic() - started, return_outputs)
    return ResultGroup(benchmark.name, parts) if isinstance(benchmark, BenchmarkGroup) else parts[benchmark.task.name]


def _kind(predictions: Mapping[str, Mapping[str, Any]]) -> str:
    """Find how all queries were answered."""
    first: dict[str, str] = {}
    for key, prediction in predictions.items():
        for field in prediction:
            first.setdefault("labels" if field in ("index", "label") else field, key)
    if len(first) > 1:
        listed = ", ".join(f"{field} ({key})" for field, key in first.items())
        raise OutputError(f"answer every query in the same way; found {listed}")
    if not first:
        raise ArgumentError("there are no predictions to score")
    return next(iter(first))


def _check_ids(asked: Sequence[AskedQuery], predictions: Mapping[str, Any], partial: bool) -> None:
    known = {one.id for one in asked}
    unknown = [key for key in predictions if key not in known]
    if unknown:
        raise ArgumentError(
            f"{len(unknown)} of {len(predictions)} ids belong to no query of this benchmark, the first is {unknown[0]}"
            f"{_why_unknown(unknown[0], asked)}"
        )
    missing = [one.id for one in asked if one.id not in predictions]
    if missing and not partial:
        raise ArgumentError(
            f"{len(missing)} of {len(asked)} queries have no answer, the first is {missing[0]}; answer all of them, or "
            "ask for a partial result"
        )


def _why_unknown(key: str, asked: Sequence[AskedQuery]) -> str:
    """Say what about an id is not known here."""
    place, _, _ = key.rpartition("/")
    if any(one.id.startswith(place + "/") for one in asked):
        return ": there is such a query, but with another prompt; was k, the template or the data another one?"
    names = key.split("/")[:2]
    if len(names) == 2 and not any(one.id.split("/")[:2] == names for one in asked):
        here = dict.fromkeys("/".join(one.id.split("/")[:2]) for one in asked)
        return f": this benchmark asks {', '.join(here)}"
    return ": there is no such row or repeat; was the limit another one?"


def _answer(one: AskedQuery, prediction: Mapping[str, Any]) -> Answer:
    """Check an answer and bring it into the order of the labels."""
    if len(prediction) != 1:
        raise OutputError(
            f"{one.id}: expected exactly one of {', '.join(ANSWERS)}, got {', '.join(prediction) or '{}'}"
        )
    ((field, value),) = prediction.items()
    space = one.query.label_space
    try:
        if field not in ANSWERS:
            raise OutputError(f"an answer is one of {', '.join(ANSWERS)}, not {field!r}")
        if isinstance(value, Mapping) and field in _NUMBERS:
            if set(value) != set(space):
                raise OutputError(f"the labels are {list(space)}, but the answer has {list(value)}")
            value = [value[label] for label in space]
        if field in _NUMBERS and isinstance(value, (str, int, float)):
            raise OutputError(f"{field} must be a list with one number for each of {len(space)} labels, not {value!r}")
        if field == "index" and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise OutputError(f"index must be a whole number, not {value!r}")
        if field == "label" and not isinstance(value, str):
            raise OutputError(f"label must be the text of a label, not {value!r}")
        return check_answer(value, space)
    except OutputError as error:
        raise OutputError(f"{one.id}: {error}") from error


def _given(
    member: Benchmark, place: Iterator[AskedQuery], answers: Mapping[str, Answer]
) -> list[tuple[Sequence[Condition], list[Answer | Failure]]]:
    """Give the conditions of each data set with their answers, taking its queries off the list of all."""
    found = []
    for experimentor in member:
        conditions = experimentor.conditions()
        keys = [next(place).id for condition in conditions for _ in condition.queries]
        found.append((conditions, [answers.get(key, Failure("no answer was given")) for key in keys]))
    return found


def _runs(
    member: Benchmark, given: Sequence[tuple[Sequence[Condition], Sequence[Answer | Failure]]]
) -> dict[str, DatasetRun]:
    return {
        experimentor.name: experimentor.assemble(conditions, answers, f"{member.task.name}, {experimentor.name}")
        for experimentor, (conditions, answers) in zip(member, given, strict=True)
    }


@contextlib.contextmanager
def _reading(member: Benchmark, kind: Kind) -> Iterator[None]:
    """Have numbers read as one kind while the block runs."""
    before = [experimentor.outputs for experimentor in member]
    for experimentor in member:
        experimentor.outputs = kind
    try:
        yield
    finally:
        for experimentor, own in zip(member, before, strict=True):
            experimentor.outputs = own
