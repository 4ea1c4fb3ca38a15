"""Validation of the arguments of benchmarks (outputs, metrics, given predictions), and the metrics as a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import replace
from typing import Any, get_args

from StaICC.errors import ArgumentError, OutputError, unknown_name
from StaICC.inference import Answer, Failure, Unparsed, check_answer
from StaICC.inference.contract import refuse_other_order
from StaICC.metrics import Metric, MetricFunction, MetricSet, metric_set
from StaICC.prompting import Query

_OUTPUTS = ["auto", "probabilities", "logits"]


def validate_outputs(outputs: str, metrics: MetricSet) -> None:
    """Refuse an unknown value of ``outputs``, and any but ``"auto"`` for metrics that decide by their own rule.

    Raises:
        UnknownNameError: There is no such value.
        ArgumentError: The metric set has a rule of its own.
    """
    if outputs not in _OUTPUTS:
        raise unknown_name("reading of outputs", outputs, _OUTPUTS)
    if metrics.as_released and outputs != "auto":
        raise ArgumentError(
            f"the metric set {metrics.name!r} reads rows of numbers by the rule of StaICC 0.1.1; "
            f"leave outputs at 'auto', or use the metric set 'standard' with outputs={outputs!r}"
        )


def validate_unparsed(unparsed: Unparsed) -> Unparsed:
    """Return the policy for unparsed replies after checking it.

    Raises:
        UnknownNameError: There is no such policy.
    """
    if unparsed not in get_args(Unparsed):
        raise unknown_name("value of unparsed", unparsed, get_args(Unparsed))
    return unparsed


def read_metrics(metrics: object) -> MetricSet:
    """Return the metric set of names or functions.

    Raises:
        UnknownNameError: There is no such set or metric.
        ArgumentError: They are neither names, nor a set, nor functions by name.
    """
    if isinstance(metrics, (str, MetricSet)):
        return metric_set(metrics)
    functions = metrics if isinstance(metrics, Mapping) else {}
    if not functions or not all(
        isinstance(name, str) and name and (callable(metric) or isinstance(metric, Metric))
        for name, metric in functions.items()
    ):
        raise ArgumentError(f"metrics must be the name of a metric set or functions by name, not {metrics!r}")
    return metric_set(functions)


class MetricTable(MutableMapping[str, MetricFunction]):
    """The metric functions of a benchmark by name. All of its data sets share it, so that each metric has a mean.

    Args:
        metrics: The name of a metric set, a metric set, or functions by name.

    Attributes:
        metric_set: The metrics as an immutable set.
    """

    __slots__ = ("metric_set",)
    metric_set: MetricSet

    def __init__(self, metrics: object) -> None:
        self.metric_set = metrics.metric_set if isinstance(metrics, MetricTable) else read_metrics(metrics)

    def __getitem__(self, name: str) -> MetricFunction:
        return {metric.name: metric.function for metric in self.metric_set.metrics}[name]

    def __setitem__(self, name: str, metric: MetricFunction | Metric) -> None:
        """Add a metric, or replace one.

        Raises:
            ArgumentError: The name is not a text, or the metric cannot be called.
        """
        (added,) = read_metrics({name: metric}).metrics
        self.metric_set = self.metric_set.adding(added)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        kept = tuple(metric for metric in self.metric_set.metrics if metric.name != name)
        self.metric_set = replace(self.metric_set, metrics=kept)

    def __iter__(self) -> Iterator[str]:
        return (metric.name for metric in self.metric_set.metrics)

    def __len__(self) -> int:
        return len(self.metric_set.metrics)

    def __repr__(self) -> str:
        return repr(dict(self))


def read_predictions(given: Any, queries: Sequence[Query], run_name: str) -> list[Answer | Failure]:
    """Validate predictions that were computed elsewhere, as those of an inference function are.

    Args:
        given: One prediction for each query, in order: a sequence or an array.
        queries: The queries.
        run_name: Benchmark and data set, for messages.

    Raises:
        ArgumentError: It is not a list, has another length than the queries, or an index of its own.
        OutputError: A prediction cannot be used; the message names its query.
    """
    try:
        refuse_other_order(given)
    except OutputError as error:
        raise ArgumentError(f"{run_name}, preentered_prediction: {error}") from error
    predictions = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(predictions, (str, bytes, Mapping, Set)) or not hasattr(predictions, "__len__"):
        raise ArgumentError(
            f"preentered_prediction must be a list with one prediction for each prompt, not {type(given).__name__}"
        )
    if len(predictions) != len(queries):
        raise ArgumentError(
            f"{run_name}: preentered_prediction has {len(predictions)} predictions, prompt_set() has {len(queries)} "
            "prompts"
        )
    checked: list[Answer | Failure] = []
    for number, (prediction, query) in enumerate(zip(predictions, queries, strict=True)):
        try:
            checked.append(check_answer(prediction, query.label_space))
        except OutputError as error:
            raise OutputError(f"{run_name}, query {number}: {error}") from error
    return checked
