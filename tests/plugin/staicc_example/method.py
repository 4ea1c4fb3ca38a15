"""A method with an option: probabilities are raised to a power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from StaICC import Failure, MethodData, MethodSpec, Steps, option


@dataclass(frozen=True)
class SharpenedOptions:
    exponent: float = option(2.0, "The power that probabilities are raised to.")


def sharpen(row: list[float], exponent: float) -> list[float]:
    powers = [value**exponent for value in row]
    return [power / math.fsum(powers) for power in powers]


def sharpened(data: MethodData) -> Steps:
    (rows,) = yield [data.queries()]
    return [row if isinstance(row, Failure) else sharpen(row, data.options.exponent) for row in rows]


SHARPENED = MethodSpec("sharpened", "Sharpened", sharpened, options=SharpenedOptions)
