"""A benchmark: how much accuracy is lost if letters replace the labels' names."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Sequence
from typing import Any, ClassVar

from StaICC import (
    Condition,
    Outcome,
    Scores,
    Scoring,
    Task,
    TaskBenchmark,
    TaskInput,
    classification_scores,
    condition_missing,
)


class SymbolLabelsTask(Task):
    """Predict with the labels' names, then with letters in their place."""

    name: ClassVar[str] = "Symbol_labels"

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        settings = task_input.settings
        letters = tuple(string.ascii_uppercase[: len(settings.label_space)])
        return [
            Condition("names", task_input.queries(settings)),
            Condition("symbols", task_input.queries(dataclasses.replace(settings, label_space=letters))),
        ]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        values: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for outcome in outcomes:
            name = outcome.condition.name
            values[name], reasons = classification_scores(outcome, scoring.metric_set)
            missing |= condition_missing(name, reasons)
        accuracies = [values[name]["accuracy"] for name in ("names", "symbols")]
        if None in accuracies:
            values["loss"], missing["loss"] = None, "accuracy is undefined in one of the two conditions"
        else:
            values["loss"] = accuracies[0] - accuracies[1]
        return Scores(values, {"loss": values["loss"]}, missing)


class SymbolLabels(TaskBenchmark):
    """How much accuracy is lost without the labels' names."""

    task_name = SymbolLabelsTask.name
    task_class = SymbolLabelsTask
