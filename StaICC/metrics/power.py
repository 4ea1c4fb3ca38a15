"""What a sample of this size could have shown: the smallest detectable difference between two runs.

A difference that is not significant is not yet absent. Before (or after) two runs are compared, this module
says how large the difference of their accuracies would have to be for the sample to find it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist

from StaICC.errors import ArgumentError
from StaICC.metrics.poisson_binomial import binomial_probabilities

__all__ = ["DetectableDifference", "minimum_detectable_difference"]


@dataclass(frozen=True, slots=True)
class DetectableDifference:
    """The smallest difference of two accuracies that a sample could show.

    Attributes:
        n: Number of independent comparisons.
        discordant: Share of them on which exactly one run is right.
        alpha: Two-sided level of the test.
        power: Probability of finding the difference.
        difference: Smallest true difference that is found with this probability; None if there is none.
        smallest_significant_split: Most even split of the discordant answers that McNemar's exact test calls
            significant; None if no split is.
        smallest_significant_difference: The difference of accuracies at that split; None if there is none.
        method: Formula and source.
        reason: Why a figure is missing; None if none is.
    """

    n: int
    discordant: float
    alpha: float
    power: float
    difference: float | None
    smallest_significant_split: tuple[int, int] | None
    smallest_significant_difference: float | None
    method: str
    reason: str | None = None


def _smallest_significant_split(discordant: int, alpha: float) -> tuple[int, int] | None:
    """Most even split that McNemar's exact test calls significant."""
    first, chances = binomial_probabilities(discordant, 0.5)
    larger = None
    places = range(first + len(chances) - 1, first - 1, -1)
    for place, tail in zip(places, accumulate(reversed(chances)), strict=True):
        if 2.0 * tail > alpha or 2 * place <= discordant:
            break
        larger = place
    return None if larger is None else (larger, discordant - larger)


def _share(name: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ArgumentError(f"{name} must lie between 0 and 1, not {value!r}")
    return value


def minimum_detectable_difference(
    n: int,
    *,
    discordant: float | None = None,
    accuracy: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> DetectableDifference:
    """Smallest difference of two accuracies that a paired sample of this size could show.

    Args:
        n: Number of independent comparisons. With repeats this is not the number of queries: give the number
            of test rows, or the number of queries divided by the design effect.
        discordant: Share of the queries on which exactly one of the two runs is right, if known.
        accuracy: Else an accuracy near that of both runs. Their answers are then taken as independent, and
            the share of discordant ones is 2 a (1 - a). Runs of similar models agree more often, and can show
            less.
        alpha: Two-sided level of the test.
        power: Wanted probability of finding the difference.

    Returns:
        The difference d that solves n = (z_a sqrt(s) + z_b sqrt(s - d^2))^2 / d^2, with s the share of
        discordant answers and z_a, z_b the normal quantiles of 1 - alpha / 2 and of the power; and the most
        even split of s n discordant answers that McNemar's exact test calls significant.

    Raises:
        ArgumentError: n is no positive whole number, a share or level is out of its range, or not exactly one
            of `discordant` and `accuracy` is given.

    Source:
        Connor 1987, "Sample size for testing differences in proportions for the paired-sample design",
        Biometrics 43; the equation is solved for d. Card et al. 2020, "With little power comes great
        responsibility", on why to look.

    Example:
        >>> shown = minimum_detectable_difference(512, discordant=0.2)
        >>> round(shown.difference, 4), shown.smallest_significant_split
        (0.0552, (62, 40))
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"n must be a whole number of at least 1, not {n!r}")
    if discordant is not None and accuracy is None:
        share = _share("discordant", discordant)
    elif accuracy is not None and discordant is None:
        share = 2.0 * _share("accuracy", accuracy) * (1.0 - accuracy)
    else:
        raise ArgumentError("give either the share of discordant queries or an accuracy: one of the two, and not both")
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0.0 < value < 1.0:
            raise ArgumentError(f"{name} must lie between 0 and 1, both excluded, not {value!r}")
    z_a, z_b = NormalDist().inv_cdf(1.0 - alpha / 2.0), NormalDist().inv_cdf(power)
    difference, reason = None, None
    inside = n + z_b * z_b - z_a * z_a
    if inside > 0.0:
        difference = math.sqrt(share) * (z_a * math.sqrt(n) + z_b * math.sqrt(inside)) / (n + z_b * z_b)
    if difference is None or not 0.0 < difference <= share:
        difference = None
        reason = (
            f"no difference can be shown with power {power}: a share of {share:.4g} of {n} answers is discordant, and "
            "even all of them on one side would be too few"
        )
    split = _smallest_significant_split(round(share * n), alpha)
    if split is None and reason is None:
        reason = f"no split of {round(share * n)} discordant answers is significant at {alpha}"
    return DetectableDifference(
        n=n,
        discordant=share,
        alpha=alpha,
        power=power,
        difference=difference,
        smallest_significant_split=split,
        smallest_significant_difference=None if split is None else (split[0] - split[1]) / n,
        method="normal approximation for paired proportions (Connor 1987); split: McNemar, exact binomial, two-sided",
        reason=reason,
    )
