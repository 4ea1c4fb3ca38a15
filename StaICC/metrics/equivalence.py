"""Equivalence of two runs within a margin, concluded from two one-sided tests."""

from __future__ import annotations


def is_equivalent_within_margin(first_not_worse: bool, second_not_worse: bool) -> bool:
    """Return whether two runs are shown to be equivalent within a margin.

    This is the procedure of two one-sided tests (TOST). Its null hypothesis is that the true difference is at least as
    large as the margin, in one direction or the other. One test rejects that the first run is worse by the margin or
    more, the other test that the second run is. Whatever the true difference is, at most one of the two can be true.
    So the runs are wrongly called equivalent with a probability of at most the level of one test, and both tests can
    have this level without a correction.

    Args:
        first_not_worse: Whether a one-sided test shows that the first run is not worse than the second by the margin.
        second_not_worse: The same for the second run, with the same margin and level.

    Source:
        Schuirmann 1987, "A comparison of the two one-sided tests procedure and the power approach for assessing the
        equivalence of average bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15.

    Example:
        >>> is_equivalent_within_margin(True, True), is_equivalent_within_margin(True, False)
        (True, False)
    """
    return first_not_worse and second_not_worse


def interval_shows_equivalence(low: float, high: float, margin: float) -> bool:
    """Return whether the confidence interval of a difference shows that two runs are equivalent within a margin.

    Each end of the interval is a one-sided test: the first run is not worse by the margin if the lower end is above
    minus the margin, and the second run is not if the upper end is below the margin.

    Args:
        low: The lower end of the interval of the difference, first minus second.
        high: The upper end of the interval.
        margin: The margin.

    Example:
        >>> interval_shows_equivalence(-0.01, 0.015, 0.02), interval_shows_equivalence(-0.3, 0.015, 0.02)
        (True, False)
    """
    return is_equivalent_within_margin(first_not_worse=low > -margin, second_not_worse=high < margin)
