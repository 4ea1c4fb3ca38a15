r"""Linear calibration (Abbas et al. 2024, "Enhancing In-context Learning via Linear Probe Calibration", LinC).

Predictions become :math:`\operatorname{softmax}(A p + b)`. As in the authors' code, :math:`A` begins as
:math:`\operatorname{diag}(\hat p_{cf})^{-1}` of contextual calibration and :math:`b` as 0, and both are trained by
stochastic gradient descent on the cross-entropy of the labelled prompts, one row at a time, shuffled in every epoch. It
costs ``calibration_number`` labelled and as many content-free prompts.

The authors choose step size and epochs for each data set. Here those of :data:`RATES` and :data:`EPOCHS` are taken that
give the labels of left-out rows the highest likelihood, in cross-validation over :data:`FOLDS` parts.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_scores import ReadAs, logarithms, probabilities_as, training_probabilities
from StaICC.methods.learned_state import LABELS, learned
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource, content_free_prompts, labelled_prompts
from StaICC.metrics.classification import softmax
from StaICC.prompting.stable_random import StableRandom

RATES = (3e-4, 3e-3, 0.015, 0.05, 0.15)
"""Step sizes that are tried; the authors' scripts have values from 0.0003 to 0.15, one for each data set."""
EPOCHS = (15, 50)
"""Numbers of epochs that are tried, those of the authors' scripts."""
FOLDS = 5
"""Parts of the cross-validation."""
SMALLEST_PRIOR = 1e-12
"""A label that content-free prompts never get would have an infinite weight."""


@dataclass(frozen=True, slots=True)
class LinearOptions:
    """Options of linear calibration."""

    learning_rate: float | None = None
    """Step size of the gradient descent; none: chosen by cross-validation on the calibration samples."""
    epochs: int | None = None
    """How often each calibration sample is used; none: 15 or 50, chosen likewise."""


@dataclass(frozen=True)
class LinearState:
    """A linear map of probabilities to scores."""

    weights: tuple[tuple[float, ...], ...] = learned(LABELS, LABELS)
    """For each label its row of :math:`A`."""
    bias: tuple[float, ...] = learned(LABELS)
    read_as: ReadAs = "probabilities"
    """What the predictions were read as."""


class LabelledRow(NamedTuple):
    """Probabilities of a prompt whose label is known."""

    probabilities: list[float]
    label: int


Probe = Sequence[Sequence[float]]
"""A linear map during training: for each label its weights, the bias last."""


def scores_of(probe: Probe, probabilities: Sequence[float]) -> list[float]:
    """Return :math:`A p + b`."""
    with_one = [*probabilities, 1.0]  # the bias is the weight of this 1
    return [math.fsum(map(operator.mul, weights, with_one)) for weights in probe]


def descent(probe: Probe, rows: Sequence[LabelledRow], rate: float) -> Iterator[Probe]:
    r"""Yield the map after each epoch of stochastic gradient descent.

    For one row with the label :math:`y`, the gradient of the cross-entropy by the weights of label :math:`i` is
    :math:`(q_i - [i = y]) \, (p, 1)`, with :math:`q = \operatorname{softmax}(A p + b)`.

    Args:
        probe: The map before the first epoch.
        rows: The labelled rows, each used once in an epoch, in random order.
        rate: The step size.
    """
    current = [list(weights) for weights in probe]
    generator = StableRandom()
    while True:
        for position in generator.sample_indexes(len(rows), len(rows)):
            row = rows[position]
            with_one = [*row.probabilities, 1.0]
            predicted = softmax(scores_of(current, row.probabilities))
            for label, probability in enumerate(predicted):
                target = 1 if label == row.label else 0
                step = rate * (probability - target)
                weights = current[label]
                current[label] = [weight - step * value for weight, value in zip(weights, with_one, strict=True)]
        yield list(current)


def contextual_probe(content_free: Sequence[Sequence[float]], width: int) -> Probe:
    r"""Return the linear map of contextual calibration, :math:`A = \operatorname{diag}(\hat p)^{-1}` and :math:`b = 0`.

    Args:
        content_free: The probabilities for content-free prompts, whose mean is :math:`\hat p`. If all of these prompts
            failed, it is uniform.
        width: How many labels there are.
    """
    if not content_free:
        content_free = [[1 / width] * width]
    means = [math.fsum(column) / len(content_free) for column in zip(*content_free, strict=True)]
    probe = []
    for label in range(width):
        weights = [0.0] * (width + 1)
        weights[label] = 1 / max(SMALLEST_PRIOR, means[label])
        probe.append(weights)
    return probe


def best_setting(
    start: Probe, rows: Sequence[LabelledRow], rates: Sequence[float], epochs: Sequence[int]
) -> tuple[float, int]:
    """Return the step size and the number of epochs with the lowest loss in cross-validation, the first of equals.

    The rows are divided into :data:`FOLDS` parts. For each part, the map is trained on the other rows, and the loss is
    that of the part. The losses of all parts are added.

    Args:
        start: The map with which each training begins.
        rows: The labelled rows.
        rates: The step sizes that are tried.
        epochs: The numbers of epochs that are tried.
    """
    settings = list(itertools.product(rates, epochs))
    most_epochs = max(epochs)
    nothing_to_choose = len(settings) == 1 or most_epochs == 0
    if nothing_to_choose or len(rows) == 1:  # one row leaves none to train on
        return settings[0]
    losses = dict.fromkeys(settings, 0.0)
    for rate in rates:
        for fold in range(min(FOLDS, len(rows))):
            left_out_rows = rows[fold::FOLDS]  # those at the positions with the remainder ``fold``
            training_rows = [row for position, row in enumerate(rows) if position % FOLDS != fold]
            # One training gives the losses of all numbers of epochs: the map is yielded after each epoch.
            probes_after_epochs = itertools.islice(descent(start, training_rows, rate), most_epochs)
            for epoch, probe in enumerate(probes_after_epochs, 1):
                if epoch in epochs:
                    losses[rate, epoch] += _loss(probe, left_out_rows)
    return min(settings, key=losses.__getitem__)


def _loss(probe: Probe, rows: Sequence[LabelledRow]) -> float:
    """Return the negative log-likelihood of the labels of rows under a linear map."""
    losses = []
    for row in rows:
        predicted = softmax(scores_of(probe, row.probabilities))
        log_likelihood = logarithms(predicted)[row.label]
        losses.append(-log_likelihood)
    return sum(losses)


def learn(
    content_free: Sequence[Any],
    rows: Sequence[Any],
    labels: Sequence[int],
    label_space: Sequence[str],
    learning_rate: float | None = None,
    epochs: int | None = None,
) -> LinearState:
    """Return the linear map that is trained on labelled prompts, beginning with that of contextual calibration.

    Args:
        content_free: The predictions for content-free prompts, which contextual calibration needs.
        rows: The predictions for labelled prompts.
        labels: The label index of each labelled prompt.
        label_space: The labels.
        learning_rate: Step size; ``None`` to choose it by cross-validation.
        epochs: How often each row is used; ``None`` to choose it by cross-validation.
    """
    width = len(label_space)
    # All are read together, so that all are probabilities or all are logits.
    probabilities, read_as = training_probabilities([*content_free, *rows], width)
    content_free_count = len(content_free)
    start = contextual_probe(probabilities[:content_free_count], width)
    labelled_rows = []
    for row, label in zip(probabilities[content_free_count:], labels, strict=True):
        labelled_rows.append(LabelledRow(row, label))

    rates = RATES if learning_rate is None else (learning_rate,)
    numbers_of_epochs = EPOCHS if epochs is None else (epochs,)
    rate, number_of_epochs = best_setting(start, labelled_rows, rates, numbers_of_epochs)
    probe = start
    for probe_after_epoch in itertools.islice(descent(start, labelled_rows, rate), number_of_epochs):
        probe = probe_after_epoch
    weights = tuple(tuple(weights_and_bias[:-1]) for weights_and_bias in probe)
    bias = tuple(weights_and_bias[-1] for weights_and_bias in probe)
    return LinearState(weights, bias, read_as)


def apply(state: LinearState, rows: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
    r"""Return :math:`\operatorname{softmax}(A p + b)` of each prediction."""
    probe = [[*weights, bias] for weights, bias in zip(state.weights, state.bias, strict=True)]
    probabilities = probabilities_as(rows, len(label_space), state.read_as)
    return [softmax(scores_of(probe, row)) for row in probabilities]


def _write_prompts(source: TrainingSource) -> TrainingPrompts:
    """Write content-free prompts, from which training starts, and labelled prompts."""
    prompts, labels = labelled_prompts(source)
    return TrainingPrompts(content_free_prompts(source), prompts, labels)


def _learn(
    learning_rate: float | None, epochs: int | None, rows: TrainingRows, label_space: Sequence[str]
) -> LinearState:
    """Return the linear map that is learned from the predictions for training prompts (:func:`learn`).

    Args:
        learning_rate: Step size; ``None`` to choose it.
        epochs: How often each row is used; ``None`` to choose it.
        rows: The predictions for the training prompts.
        label_space: The labels.
    """
    return learn(rows.content_free, rows.labelled, rows.labels, label_space, learning_rate, epochs)


def linear(learning_rate: float | None = None, epochs: int | None = None) -> Calibration:
    """Return the calibration.

    Args:
        learning_rate: Step size; ``None`` to choose it.
        epochs: How often each row is used; ``None`` to choose it.

    Raises:
        ArgumentError: A number is invalid.
    """
    if learning_rate is not None:
        if not (isinstance(learning_rate, (int, float)) and 0 < learning_rate < math.inf):
            raise ArgumentError(f"learning_rate: got {learning_rate!r}, expected a positive number")
        learning_rate = float(learning_rate)
    if epochs is not None:
        epochs = validate_integer("epochs", epochs, 0)
    return Calibration(LinearState, _write_prompts, partial(_learn, learning_rate, epochs), apply)


def linear_calibration(data: MethodData) -> Steps:
    """Map all predictions by one linear map."""
    return (yield from calibrate(data, linear(data.options.learning_rate, data.options.epochs)))


LINEAR_CALIBRATION = MethodSpec("linear_calibration", "Linear calibration", linear_calibration, options=LinearOptions)
