"""A method with an option: probabilities are raised to a power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from StaICC.benchmarks import Experimentor
from StaICC.inference import Failure
from StaICC.methods.specification import MethodSpec, Prepared, Workbench, option


@dataclass(frozen=True)
class SharpenedOptions:
    exponent: float = option(2.0, "The power that probabilities are raised to.")


def sharpen(row: list[float], exponent: float) -> list[float]:
    powers = [value**exponent for value in row]
    return [power / math.fsum(powers) for power in powers]


def prepare(bench: Workbench, experimentor: Experimentor) -> Prepared:
    def combine(conditions, predictions):
        (rows,) = predictions  # one view of the data set, so one list of predictions
        return [row if isinstance(row, Failure) else sharpen(row, bench.options.exponent) for row in rows]

    return Prepared([experimentor], bench.kernel, combine)


SHARPENED = MethodSpec("sharpened", "Sharpened", prepare, options=SharpenedOptions)
