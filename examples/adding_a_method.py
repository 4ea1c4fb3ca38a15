"""Adding your own method, and comparing it with others on the same prompts.

The method is temperature scaling (Guo et al. 2017): probabilities are raised to the power 1 / T and divided by their
sum, with the T that makes the true labels of some calibration prompts most likely. Run it::

    python examples/adding_a_method.py                    # the embedded model on mini: no downloads
    python examples/adding_a_method.py smollm2 TREC SST5  # needs the extra hf

docs/adding_a_method.md explains it line by line.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from StaICC import (
    Calibration,
    Feature,
    LabelledPrompts,
    MethodSpec,
    Normal,
    calibrated,
    label_rows,
    labelled_prompts,
    load_kernel,
    run_all,
)

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-12, 25))  # 1/8 to 64


def cooled(row: Sequence[float], temperature: float) -> list[float]:
    """Raise probabilities to the power 1 / temperature and divide by their sum."""
    logarithms = [math.log(max(value, 1e-300)) / temperature for value in row]
    powers = [math.exp(value - max(logarithms)) for value in logarithms]
    return [power / math.fsum(powers) for power in powers]


class TemperatureScaling(Calibration):
    """Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks")."""

    name: ClassVar[str] = "grid_temperature"
    feature: ClassVar[Feature] = "probabilities"
    state: ClassVar[Mapping[str, Any]] = {"temperature": ()}
    temperature = 1.0

    def samples(self, make_prompt: Any, calibration_set: Any, number: int, k: int, **options: Any) -> LabelledPrompts:
        """Return prompts about rows of the calibration set, with their labels."""
        return labelled_prompts(make_prompt, calibration_set, self.label_space, number, k, self.variant)

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Choose the temperature under which the true labels are most likely."""
        rows = label_rows(rows, self.n_label, "calibration prompt")

        def surprise(temperature: float) -> float:
            return -math.fsum(
                math.log(cooled(row, temperature)[label] or 1e-300) for row, label in zip(rows, labels, strict=True)
            )

        self.temperature = min(TEMPERATURES, key=surprise)

    def apply(self, features: Any) -> list[list[float]]:
        """Return calibrated label probabilities, one row for each prompt."""
        self.check_trained()
        return [cooled(row, self.temperature) for row in label_rows(features, self.n_label, "prompt")]


TEMPERATURE = MethodSpec(
    "grid_temperature",
    "Temperature scaling",
    calibrated(lambda data, labels: TemperatureScaling(labels, variant=data.variant)),
    trains=True,
)


def main(model: str = "ppm", *datasets: str) -> None:
    """Print the new method with three others."""
    benchmark = Normal(k=2, datasets=list(datasets) or ["mini"], limit=32)
    methods: list[str | MethodSpec] = ["vanilla", "contextual_calibration", "batch_calibration", TEMPERATURE]
    print(run_all(load_kernel(model), benchmark, calibration_number=48, methods=methods))


if __name__ == "__main__":
    main(*sys.argv[1:])
