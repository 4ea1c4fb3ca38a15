r"""Temperature scaling (Guo et al. 2017, "On Calibration of Modern Neural Networks").

Predictions become :math:`\operatorname{softmax}(\log p / T)` with the temperature :math:`T` in [0.05, 20] that
minimises the negative log-likelihood of the labels of ``calibration_number`` prompts. The predicted label stays the
same.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.label_scores import ReadAs, logarithms, probabilities_as, training_probabilities
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource, labelled_prompts
from StaICC.metrics.classification import softmax

HIGHEST_TEMPERATURE = 20
"""Predictions are nearly uniform then, and flatter ones no more likely."""
BISECTIONS = 60
"""Halvings of the interval of temperatures: its width is then below the precision of a number."""


@dataclass(frozen=True)
class TemperatureState:
    """A temperature."""

    temperature: float
    read_as: ReadAs = "probabilities"
    """What the predictions were read as."""

    def __post_init__(self) -> None:
        """Refuse a temperature that is not positive, such as one from a damaged file."""
        if not self.temperature > 0:
            raise ValueError(f"temperature: got {self.temperature}, expected a positive number")


def learn(rows: Sequence[Any], labels: Sequence[int], label_space: Sequence[str]) -> TemperatureState:
    r"""Return the temperature under which the labels of labelled prompts are most likely.

    The negative log-likelihood :math:`-\sum_i \log \operatorname{softmax}(\beta \log p_i)_{y_i}` is a convex function
    of :math:`\beta = 1 / T`. Its derivative is :math:`\sum_i (\sum_y q_{iy} \log p_{iy} - \log p_{i y_i})`, with
    :math:`q_i = \operatorname{softmax}(\beta \log p_i)`. Bisection of :math:`\log \beta` finds where it is 0.

    Args:
        rows: The predictions for labelled prompts.
        labels: The label index of each prompt.
        label_space: The labels.
    """
    probabilities, read_as = training_probabilities(rows, len(label_space))
    logs_of_rows = [logarithms(row) for row in probabilities]

    def derivative(inverse_temperature: float) -> float:
        """Return the derivative of the negative log-likelihood by the inverse temperature."""
        terms = []
        for logs, label in zip(logs_of_rows, labels, strict=True):
            scaled = softmax([inverse_temperature * value for value in logs])
            mean_log = math.fsum(map(operator.mul, scaled, logs))
            terms.append(mean_log - logs[label])
        return math.fsum(terms)

    low = math.log(1 / HIGHEST_TEMPERATURE)  # limits of the logarithm of the inverse temperature
    high = math.log(HIGHEST_TEMPERATURE)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if derivative(math.exp(middle)) >= 0:
            high = middle
        else:
            low = middle
    temperature = math.exp(-(low + high) / 2)
    return TemperatureState(temperature, read_as)


def apply(state: TemperatureState, rows: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
    r"""Return :math:`\operatorname{softmax}(\log p / T)` of each prediction :math:`p`.

    The label with the highest probability stays the same: where rounding makes others equal to it, its probability is
    the next larger number.
    """
    calibrated = []
    for row in probabilities_as(rows, len(label_space), state.read_as):
        scaled = softmax([value / state.temperature for value in logarithms(row)])
        predicted = row.index(max(row))
        if scaled.index(max(scaled)) != predicted:
            scaled[predicted] = math.nextafter(max(scaled), math.inf)
        calibrated.append(scaled)
    return calibrated


def _write_prompts(source: TrainingSource) -> TrainingPrompts:
    """Write labelled prompts; the temperature makes their labels most likely."""
    prompts, labels = labelled_prompts(source)
    return TrainingPrompts(labelled=prompts, labels=labels)


def _learn(rows: TrainingRows, label_space: Sequence[str]) -> TemperatureState:
    """Return the temperature that is learned from the predictions for labelled prompts (:func:`learn`)."""
    return learn(rows.labelled, rows.labels, label_space)


TEMPERATURE = Calibration(TemperatureState, _write_prompts, _learn, apply)
"""The calibration."""


def temperature_scaling(data: MethodData) -> Steps:
    """Scale the log-probabilities of all predictions by one temperature."""
    return (yield from calibrate(data, TEMPERATURE))


TEMPERATURE_SCALING = MethodSpec("temperature_scaling", "Temperature scaling", temperature_scaling)
