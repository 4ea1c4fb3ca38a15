"""What a user gives a benchmark, checked: numbers, metrics, and answers that were computed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.inference import Answer, Failure, check_answer
from StaICC.metrics import MetricSet, metric_set
from StaICC.prompting import Query

__all__ = ["Metric", "check_k", "check_limit", "check_outputs", "given_answers", "read_metrics"]

Metric = Callable[[list[int], list[list[float]]], float]
"""A user's metric of (true label indexes, one row of numbers for each query)."""

_OUTPUTS = ["auto", "probabilities", "logits"]


def check_k(k: object) -> int:
    """Give the number of demonstrations.

    Raises:
        ArgumentError: It is no whole number of at least 0.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise ArgumentError(f"k, the number of demonstrations, must be a whole number of at least 0, not {k!r}")
    return k


def check_limit(limit: object) -> int | None:
    """Give how many test rows are asked; ``None`` for all.

    Raises:
        ArgumentError: It is neither None nor a whole number of at least 1.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ArgumentError(f"limit must be a number of test rows of at least 1, or None for all, not {limit!r}")
    return limit


def check_outputs(outputs: str, metrics: MetricSet) -> None:
    """Refuse a reading of outputs that does not exist, or that the metrics do not leave to the user.

    Raises:
        UnknownNameError: There is no such reading.
        ArgumentError: The release's metrics decide by themselves.
    """
    if outputs not in _OUTPUTS:
        raise unknown_name("reading of outputs", outputs, _OUTPUTS)
    if metrics.as_released and outputs != "auto":
        raise ArgumentError(
            f"the metric set {metrics.name!r} decides by the release's own rule what numbers mean; "
            f"leave outputs at 'auto', or use the set 'standard' with outputs={outputs!r}"
        )


def read_metrics(metrics: str | MetricSet | Mapping[str, Metric]) -> tuple[MetricSet, dict[str, Metric]]:
    """Give the metric set, and the user's own metrics.

    Raises:
        UnknownNameError: There is no such set.
        ArgumentError: They are neither a set nor functions by name.
    """
    if isinstance(metrics, str):
        return metric_set(metrics), {}
    if isinstance(metrics, MetricSet):
        return metrics, {}
    named = isinstance(metrics, Mapping) and all(isinstance(name, str) for name in metrics)
    if named and metrics and all(callable(function) for function in metrics.values()):
        return MetricSet("custom", ()), dict(metrics)
    raise ArgumentError(f"metrics must be the name of a metric set or functions by name, not {metrics!r}")


def given_answers(given: Any, queries: Sequence[Query], where: str) -> list[Answer | Failure]:
    """Read answers that were computed elsewhere.

    Args:
        given: One answer for each query, in order; an array of numbers will do.
        queries: What they answer.
        where: Name of the run, for messages.

    Returns:
        The answers, checked as those of an inference function are.

    Raises:
        ArgumentError: It is no list, or not of the queries' length.
        OutputError: One of them is no usable answer; it is named.
    """
    plain = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(plain, (str, bytes, Mapping, Set)) or not hasattr(plain, "__len__"):
        raise ArgumentError(
            f"preentered_prediction must be a list with one answer for each prompt, not {type(given).__name__}"
        )
    if len(plain) != len(queries):
        raise ArgumentError(
            f"{where}: preentered_prediction has {len(plain)} answers, prompt_set() has {len(queries)} prompts"
        )
    answers: list[Answer | Failure] = []
    for number, (value, query) in enumerate(zip(plain, queries, strict=True)):
        try:
            answers.append(check_answer(value, query.label_space))
        except OutputError as error:
            raise OutputError(f"{where}, query {number}: {error}") from error
    return answers
