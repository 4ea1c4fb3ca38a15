"""Adding your own method, compared with others on the same prompts.

The method is temperature scaling (Guo et al. 2017): probabilities are raised to the power 1 / T and divided by their
sum, with the T that makes the true labels of some calibration prompts most likely. Run it::

    python examples/adding_a_method.py                    # the embedded model on mini: no downloads
    python examples/adding_a_method.py smollm2 TREC SST5  # needs the extra hf

docs/adding_a_method.md explains it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC import MethodData, MethodSpec, Normal, Steps, labelled_prompts, load_kernel, run_all

TEMPERATURES = tuple(2 ** (step / 4) for step in range(-12, 25))  # 1/8 to 64


@dataclass(frozen=True)
class TemperatureState:
    """What is learned: it could be saved by ``save_state`` and read by ``load_state``."""

    temperature: float


def cooled(row: Sequence[float], temperature: float) -> list[float]:
    """Raise probabilities to the power 1 / temperature and divide by their sum."""
    logarithms = [math.log(max(value, 1e-300)) / temperature for value in row]
    powers = [math.exp(value - max(logarithms)) for value in logarithms]
    return [power / math.fsum(powers) for power in powers]


def learn(rows: Sequence[Sequence[float]], labels: Sequence[int]) -> TemperatureState:
    """Choose the temperature under which the true labels are most likely."""

    def surprise(temperature: float) -> float:
        logs = [math.log(cooled(row, temperature)[label] or 1e-300) for row, label in zip(rows, labels, strict=True)]
        return -math.fsum(logs)

    return TemperatureState(min(TEMPERATURES, key=surprise))


def apply(state: TemperatureState, rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return calibrated label probabilities, one row for each prompt."""
    return [cooled(row, state.temperature) for row in rows]


def grid_temperature(data: MethodData) -> Steps:
    """Learn a temperature from labelled prompts, and apply it to the predictions for all queries."""
    prompts, labels = labelled_prompts(data)
    training_rows, test_rows = yield [data.ask(prompts=prompts, role="train"), data.ask()]
    state = learn(training_rows, labels)
    return data.predictions(apply(state, test_rows))


GRID_TEMPERATURE = MethodSpec("grid_temperature", "Temperature scaling on a grid", grid_temperature)


def main(model: str = "ppm", *datasets: str) -> None:
    """Print the new method with three others."""
    benchmark = Normal(k=2, datasets=list(datasets) or ["mini"], limit=32)
    methods: list[str | MethodSpec] = ["vanilla", "contextual_calibration", "batch_calibration", GRID_TEMPERATURE]
    print(run_all(load_kernel(model), benchmark, calibration_number=48, methods=methods))


if __name__ == "__main__":
    main(*sys.argv[1:])
