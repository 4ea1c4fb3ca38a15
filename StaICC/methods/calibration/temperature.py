"""Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from StaICC.methods.calibration.base import KINDS, FittedCalibration, calibration_method, logarithms
from StaICC.metrics import softmax


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
