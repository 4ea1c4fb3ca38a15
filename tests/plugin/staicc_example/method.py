"""A method with an option: probabilities are raised to a power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from StaICC import MethodData, MethodSpec, Steps, apply_present, option


@dataclass(frozen=True)
class SharpenedOptions:
    exponent: float = option(2.0, "The power that probabilities are raised to.")


def sharpen(row: list[float], exponent: float) -> list[float]:
    powers = [value**exponent for value in row]
    return [power / math.fsum(powers) for power in powers]


def sharpened(data: MethodData) -> Steps:
    (rows,) = yield [data.ask()]
    exponent = data.options.exponent
    return data.predictions(apply_present(rows, lambda rows: [sharpen(row, exponent) for row in rows]))


SHARPENED = MethodSpec("sharpened", "Sharpened", sharpened, options=SharpenedOptions)
