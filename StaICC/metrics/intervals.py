"""The record of a confidence interval; :mod:`StaICC.metrics.score_intervals` computes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval.

    Attributes:
        low: Lower end.
        high: Upper end.
        level: Nominal share of samples whose interval covers the truth.
        method: How it was made.
        centre: The estimate without its bias, where the score is biased; means over data sets need it.
    """

    low: float
    high: float
    level: float
    method: str
    centre: float | None = None
