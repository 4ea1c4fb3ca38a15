"""What a sample of this size could have shown: the smallest detectable difference between two runs.

A difference that is not significant is not yet absent. This module says how large the difference would have to be for
the sample to find it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from StaICC.metrics.metric_comparison import RowSteps

_FEW = 16
"""Below this many rows that differ, chance decides which difference is detectable, and none is stated."""


def detectable_difference(steps: RowSteps) -> float | None:
    """Return the smallest true difference that the sign-flip test finds at level 0.05 with probability 0.8.

    Args:
        steps: What each test row contributes to the observed difference.

    Returns:
        The difference d with d = b + z_a sqrt(variance + b^2 + d^2 / rows) + z_b sqrt(variance): without a true
        difference, the test sees the steps' squares around 0, and its pseudo-row has the step b (0 without a bound).
        ``None`` if fewer than 16 rows differ, or if a difference in the same
        direction on all of them would be too small.

    Example:
        >>> round(detectable_difference(RowSteps(0.6, 0.5, [1 / 512] * 80 + [-1 / 512] * 40 + [0] * 392)), 3)
        0.059
    """
    sizes = [abs(step) for step in steps.steps if step]
    if len(sizes) < _FEW:
        return None
    z_a, z_b = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)
    rows = len(steps.strata) ** 2 / math.fsum(1.0 / size for size in steps.strata)
    rest = 1.0 - z_a * z_a / rows
    if rest <= 0.0:
        return None
    bound = steps.bound or 0.0
    least = bound + z_b * math.sqrt(steps.variance)
    spread = z_a * z_a * (steps.variance + bound * bound)
    found = (least + math.sqrt(least * least - rest * (least * least - spread))) / rest
    return found if 0.0 < found <= math.fsum(sizes) else None
