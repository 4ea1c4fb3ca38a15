"""What a trained calibration is: prompts to learn from, with two pure functions.

``learn`` turns the features of these prompts into a state, ``apply`` turns the features of other prompts and the state
into label probabilities. :func:`calibrate` is the method: it trains for each template of the benchmark and corrects the
predictions for its queries.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, Steps
from StaICC.methods.features import AT_ONCE
from StaICC.methods.present_rows import apply_present, without_failures
from StaICC.methods.requests import Feature
from StaICC.methods.training_prompts import TrainingSource


@dataclass(frozen=True)
class TrainingPrompts:
    """Prompts that a calibration learns from."""

    content_free: Sequence[Any] = ()
    """Prompts whose query favours no label."""
    labelled: Sequence[Any] = ()
    """Prompts about rows whose label is known."""
    labels: Sequence[int] = ()
    """The label index of each labelled prompt."""

    @property
    def all(self) -> list[Any]:
        """All prompts, the content-free ones first."""
        return [*self.content_free, *self.labelled]


@dataclass(frozen=True)
class TrainingRows:
    """The features of training prompts."""

    content_free: Any = ()
    labelled: Any = ()
    labels: Sequence[int] = ()

    @classmethod
    def of(cls, prompts: TrainingPrompts, rows: Any) -> TrainingRows:
        """Return the features of training prompts, divided into those of content-free and of labelled prompts.

        Prompts that failed are left out.

        Args:
            prompts: The prompts.
            rows: A feature or a failure for each of ``prompts.all``: the content-free prompts, then the labelled ones.

        Raises:
            OutputError: All rows are failures.
        """
        labels: list[int | None] = [None] * len(prompts.content_free)  # content-free prompts have no label
        labels += prompts.labels
        rows, labels = without_failures(rows, labels)
        content_free_count = labels.count(None)
        known_labels = [label for label in labels if label is not None]
        return cls(rows[:content_free_count], rows[content_free_count:], known_labels)

    def __len__(self) -> int:
        return len(self.content_free) + len(self.labelled)


def never_warns(state: Any, label_space: Sequence[str]) -> str | None:
    """Return no warning: the default :attr:`Calibration.warning`, for a calibration that does what its name says."""
    return None


@dataclass(frozen=True)
class Calibration:
    """A calibration that is trained."""

    state: type[Any]
    """The class of what it learns: a frozen dataclass."""
    write_prompts: Callable[[TrainingSource], TrainingPrompts]
    """Returns the prompts to learn from."""
    learn: Callable[[TrainingRows, Sequence[str]], Any]
    """Returns the state from the features of these prompts and the label space."""
    apply: Callable[[Any, Any, Sequence[str]], list[list[float]]]
    """Returns one row of label probabilities for each prompt, from the state, features and the label space."""
    feature: Feature = "probabilities"
    """What it reads of the model."""
    warning: Callable[[Any, Sequence[str]], str | None] = never_warns
    """Returns in what a trained state does something else than the calibration's name says; ``None`` if in nothing."""

    def feature_for(self, state: Any) -> Feature:
        """Return the feature that a trained state reads."""
        return self.feature


def calibrate(data: MethodData, calibration: Calibration, sources: Sequence[TrainingSource] | None = None) -> Steps:
    """Train a calibration and return the calibrated predictions for all queries.

    Args:
        data: The method's data.
        calibration: The calibration.
        sources: What training prompts are written from. The calibration is trained on the prompts of each source. One
            source is for all conditions of the benchmark; several are for one condition each, in order. ``None`` for
            one source for each template of the benchmark.
    """
    if sources is None:
        sources = data.templates()
    states = yield from _trained_states(data, calibration, sources)
    feature = calibration.feature_for(states[0])
    apply_of_states = [partial(_apply_state, calibration, state, data.label_space) for state in states]
    if feature == "vocabulary":
        return (yield from _calibrated_in_batches(data, feature, apply_of_states))

    (rows,) = yield [data.ask(feature)]
    calibrated: list[Any] = []
    # There is one state for each condition, or one for all, which cycle repeats.
    for condition_rows, apply_state in zip(data.rows_by_condition(rows), itertools.cycle(apply_of_states)):
        calibrated += apply_present(condition_rows, apply_state)  # failures keep their places
    return data.predictions(calibrated)


def _apply_state(calibration: Calibration, state: Any, label_space: Sequence[str], rows: Any) -> list[list[float]]:
    """Return the label probabilities of rows of features by a trained calibration.

    The rows come last, so that the other arguments can be bound by ``functools.partial``.
    """
    return calibration.apply(state, rows, label_space)


def _trained_states(
    data: MethodData, calibration: Calibration, sources: Sequence[TrainingSource]
) -> Generator[Any, Any, list[Any]]:
    """Return what a calibration learns from the training prompts of each source.

    Args:
        data: The method's data; it gets the warnings of the calibration.
        calibration: The calibration.
        sources: What training prompts are written from.
    """
    prompts_of_sources = [calibration.write_prompts(source) for source in sources]
    requests = [data.ask(calibration.feature, prompts.all, role="train") for prompts in prompts_of_sources]
    # Announces the request about the queries, which follows: other methods of the run may share it.
    request_about_queries = data.ask(calibration.feature, ahead=True)
    *rows_of_sources, _ = yield [*requests, request_about_queries]
    states = []
    for prompts, rows in zip(prompts_of_sources, rows_of_sources, strict=True):
        state = calibration.learn(TrainingRows.of(prompts, rows), data.label_space)
        warning = calibration.warning(state, data.label_space)
        if warning is not None:
            data.warn(warning)
        states.append(state)
    return states


def _calibrated_in_batches(data: MethodData, feature: Feature, apply_of_states: Sequence[Callable[..., Any]]) -> Steps:
    """Return the calibrated predictions for all queries, of which each batch is requested alone.

    The logits of the full vocabulary of all queries together would need too much memory.

    Args:
        data: The method's data.
        feature: The feature that the calibration uses.
        apply_of_states: Returns the label probabilities of features: one function for each condition, or one for all.
    """
    calibrated: list[Any] = []
    for condition, apply_state in zip(data.conditions, itertools.cycle(apply_of_states)):
        for queries in in_batches(condition.queries, AT_ONCE):
            (rows,) = yield [data.ask(feature, queries)]
            calibrated += apply_present(rows, apply_state)
    return data.predictions(calibrated)
