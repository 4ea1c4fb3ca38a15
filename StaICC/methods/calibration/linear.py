"""Calibrations that fit a map of scores: linear calibration (Abbas et al. 2024, LinC) and temperature scaling.

Temperature scaling is that of Guo, Pleiss, Sun and Weinberger (2017).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, validate_integer
from StaICC.methods.calibration.base import (
    KINDS,
    LABELS,
    CalibrationSet,
    FittedCalibration,
    LabelledPrompts,
    calibration_method,
    content_free_queries,
    logarithms,
    neutral_prompts,
)
from StaICC.methods.specification import PromptMaker, option
from StaICC.metrics import softmax
from StaICC.prompting import StableRandom

RATES = (3e-4, 3e-3, 0.015, 0.05, 0.15)
"""Step sizes that are tried; the authors' scripts have values from 0.0003 to 0.15, one for each data set."""
EPOCHS = (15, 50)
"""Numbers of epochs that are tried, those of the authors' scripts."""
FOLDS = 5


@dataclass(frozen=True, slots=True)
class LinearOptions:
    """Options of linear calibration."""

    learning_rate: float | None = option(
        None, "Step size of the gradient descent; none: chosen by cross-validation on the calibration samples."
    )
    epochs: int | None = option(None, "How often each calibration sample is used; none: 15 or 50, chosen likewise.")


@dataclass(frozen=True, slots=True)
class _Probe:
    """A linear map of label probabilities to scores."""

    weights: list[list[float]]
    bias: list[float]

    def scores(self, row: Sequence[float]) -> list[float]:
        return [
            math.fsum([bias, *(weight * value for weight, value in zip(weights, row, strict=True))])
            for weights, bias in zip(self.weights, self.bias, strict=True)
        ]

    def descent(self, data: Sequence[tuple[list[float], int]], rate: float) -> Iterator[_Probe]:
        """Yield the map after each epoch of stochastic gradient descent."""
        weights, bias, generator = [*self.weights], [*self.bias], StableRandom()
        while True:
            for place in generator.sample_indexes(len(data), len(data)):
                row, label = data[place]
                for i, share in enumerate(softmax(_Probe(weights, bias).scores(row))):
                    step = rate * (share - (i == label))  # the gradient of the cross-entropy
                    bias[i] -= step
                    weights[i] = [weight - step * value for weight, value in zip(weights[i], row, strict=True)]
            yield _Probe([*weights], [*bias])


class LinearCalibration(FittedCalibration):
    r"""Linear calibration (Abbas et al. 2024, "Enhancing In-context Learning via Linear Probe Calibration", LinC).

    Predictions become :math:`\operatorname{softmax}(A p + b)`. As in the authors' code, :math:`A` begins as
    :math:`\operatorname{diag}(\hat p_{cf})^{-1}` of contextual calibration and :math:`b` as 0, and both are trained by
    stochastic gradient descent on the cross-entropy of the labelled prompts, one row at a time, shuffled in every
    epoch. Budget: ``calibration_number`` labelled and as many content-free prompts.

    The authors choose step size and epochs for each data set. Here those of :data:`RATES` and :data:`EPOCHS` are taken
    that give the labels of left-out rows the highest likelihood, in cross-validation over :data:`FOLDS` parts.

    Args:
        label_space: The labels.
        learning_rate: Step size; ``None`` to choose it.
        epochs: How often each row is used; ``None`` to choose it.
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.
    """

    name: ClassVar[str] = "linear_calibration"
    options: ClassVar[tuple[str, ...]] = ("learning_rate", "epochs")
    state: ClassVar[Mapping[str, Any]] = {"weights": (LABELS, LABELS), "bias": (LABELS,), "kind": KINDS}

    def __init__(
        self,
        label_space: Sequence[str],
        learning_rate: float | None = None,
        epochs: int | None = None,
        *,
        variant: str = "paper",
    ) -> None:
        super().__init__(label_space, variant=variant)
        if learning_rate is not None:
            if not (isinstance(learning_rate, (int, float)) and 0 < learning_rate < math.inf):
                raise ArgumentError(f"learning_rate: got {learning_rate!r}, expected a positive number")
            learning_rate = float(learning_rate)
        self.learning_rate = learning_rate
        self.epochs = None if epochs is None else validate_integer("epochs", epochs, 0)
        self.weights: list[list[float]] = []
        self.bias: list[float] = []

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return content-free prompts (label -1) and labelled prompts."""
        free, _ = neutral_prompts(make_prompt, calibration_set, number, k, self.variant, content_free_queries)
        prompts, labels = super().samples(make_prompt, calibration_set, number, k)
        return LabelledPrompts([*free, *prompts], [*[-1] * len(free), *labels])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        width = self.n_label
        free = [row for row, label in zip(rows, labels, strict=True) if label < 0] or [[1 / width] * width]
        data = [(row, label) for row, label in zip(rows, labels, strict=True) if label >= 0]
        prior = [max(1e-12, math.fsum(column) / len(free)) for column in zip(*free, strict=True)]
        probe = _Probe([[1 / prior[i] if i == j else 0.0 for j in range(width)] for i in range(width)], [0.0] * width)
        rate, epochs = self._chosen(probe, data)
        for trained in islice(probe.descent(data, rate), epochs):
            probe = trained
        self.weights, self.bias = probe.weights, probe.bias

    def _chosen(self, start: _Probe, data: Sequence[tuple[list[float], int]]) -> tuple[float, int]:
        """Return step size and epochs: those that are given, or those of the highest likelihood of left-out rows."""
        rates = RATES if self.learning_rate is None else (self.learning_rate,)
        epochs = EPOCHS if self.epochs is None else (self.epochs,)
        losses = dict.fromkeys(itertools.product(rates, epochs), 0.0)
        if len(losses) > 1 and len(data) > 1 and max(epochs):
            for rate, fold in itertools.product(rates, range(min(FOLDS, len(data)))):
                kept = [pair for place, pair in enumerate(data) if place % FOLDS != fold]
                for epoch, probe in enumerate(islice(start.descent(kept, rate), max(epochs)), 1):
                    if epoch in epochs:
                        losses[rate, epoch] += sum(
                            -logarithms(softmax(probe.scores(row)))[label] for row, label in data[fold::FOLDS]
                        )
        return min(losses, key=losses.__getitem__)

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        probe = _Probe(self.weights, self.bias)
        return [softmax(probe.scores(row)) for row in rows]


LINEAR_CALIBRATION = calibration_method(LinearCalibration, "Linear calibration", LinearOptions)


class TemperatureScaling(FittedCalibration):
    r"""Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks").

    Predictions become :math:`\operatorname{softmax}(\log p / T)` with the temperature :math:`T` in [0.05, 20] that
    minimises the negative log-likelihood of the labels of ``calibration_number`` prompts. It is a convex function of
    :math:`1 / T`, minimised by golden-section search. The predicted label never changes.
    """

    name: ClassVar[str] = "temperature_scaling"
    state: ClassVar[Mapping[str, Any]] = {"temperature": (), "kind": KINDS}
    temperature = 1.0

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        logs = [logarithms(row) for row in rows]

        def loss(logarithm: float) -> float:
            slope = math.exp(logarithm)
            return math.fsum(_log_sum(row, slope) - slope * row[label] for row, label in zip(logs, labels, strict=True))

        low, high = math.log(1 / 20), math.log(20)
        ratio = (math.sqrt(5) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = loss(left), loss(right)
        for _ in range(80):
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = loss(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = loss(right)
        self.temperature = math.exp(-(low + high) / 2)

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        calibrated = []
        for row in rows:
            scaled = softmax([value / self.temperature for value in logarithms(row)])
            top = row.index(max(row))
            if scaled.index(max(scaled)) != top:  # rounding made two labels equal
                scaled[top] = math.nextafter(max(scaled), math.inf)
            calibrated.append(scaled)
        return calibrated

    def check_state(self) -> None:
        """Refuse a temperature that is not positive."""
        if not self.temperature > 0:
            raise ValueError("the temperature is not positive")


def _log_sum(row: Sequence[float], slope: float) -> float:
    top = slope * max(row)
    return top + math.log(math.fsum(math.exp(slope * value - top) for value in row))


TEMPERATURE_SCALING = calibration_method(TemperatureScaling, "Temperature scaling")
