"""Sums over clusters of test rows: their variance, with the degrees of freedom of a t test.

If rows are in clusters, the cluster is the unit of intervals and tests. Rows that share a document, a topic or a
duplicate depend on each other. A difference of two runs is a sum of *steps*, here one for each cluster. Cluster c has
the share ``w_c`` of the queries of its data set and the step ``S_c``; the sum of all steps is the difference ``D``. A
cluster deviates from its expected step by ``e_c = S_c - D w_c``.

**Variance.** It is the cluster-robust variance with the correction CR2 (Bell and McCaffrey 2002), for a mean::

    V = sum over clusters of e_c^2 / (1 - w_c)

The factor ``1 / (1 - w_c)`` corrects that a cluster draws the difference towards itself. With clusters of equal size it
is the usual ``n / (n - 1)``.

**Degrees of freedom.** ``D / sqrt(V)`` is compared with Student's t. Its degrees of freedom follow from mean and
variance of V, if the rows have a covariance matrix that is assumed (Satterthwaite 1946). They are computed for two
extremes: independent rows, and rows of a cluster that are all equal. The smaller number counts. With C clusters of
equal size both are C - 1; with unequal sizes they are fewer.

**Few clusters.** A sample may lack a kind of cluster that is rare. So there is no test and no interval with fewer than
:data:`LEAST_CLUSTERS` clusters. If clusters had random signs, all steps of n clusters would have one direction with the
probability ``2^(1 - n)``. No p-value is smaller than this.

Sources:
    Bell and McCaffrey 2002, "Bias reduction in standard errors for linear regression with multi-stage samples", Survey
    Methodology 28. Imbens and Kolesar 2016, "Robust standard errors in small samples: some practical advice", Review of
    Economics and Statistics 98. Cameron and Miller 2015, "A practitioner's guide to cluster-robust inference", Journal
    of Human Resources 50.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from StaICC.errors import UndefinedMetricError
from StaICC.metrics.bisection import least_number_where

LEAST_CLUSTERS = 10
"""Fewest clusters of a data set for an interval or a test: the fewest for which coverage and error rates are measured
(docs/error_rates.md)."""

_LARGEST_SHARE = 0.5
"""Least share of the queries with which a single cluster is too large: the others cannot show how it varies."""

_ROUNDING = 1e-9
"""Sizes may be sums of shares of rows, so that a half is a little less than 1/2."""

CLUSTER_METHOD = (
    "clusters of test rows, cluster-robust variance CR2, t with the smaller Bell-McCaffrey degrees of freedom"
)


class VarianceOfSum(NamedTuple):
    """The variance of a sum over clusters."""

    variance: float
    degrees_of_freedom: float
    """Those of Student's t, to which the sum divided by its standard deviation is compared."""


def too_few_clusters(sizes: Sequence[float]) -> str | None:
    """Return the reason why clusters are too few for an interval or a test; ``None`` if they are enough.

    Args:
        sizes: The number of queries of each cluster. Clusters without a query do not count.
    """
    count = sum(1 for size in sizes if size > 0)
    if count < LEAST_CLUSTERS:
        return f"the test rows are in {count} clusters, expected at least {LEAST_CLUSTERS}"
    largest_share = max(sizes) / math.fsum(sizes)
    if largest_share >= _LARGEST_SHARE - _ROUNDING:
        return f"one of {count} clusters of test rows has {largest_share:.0%} of the queries, expected less than half"
    return None


def smallest_p_value(steps: Sequence[float]) -> float:
    """Return the smallest two-sided p-value of a test that gives each cluster a random sign.

    The clusters of two runs that differ in n clusters all favour one of the runs with the probability ``2^(1 - n)``.

    Args:
        steps: What each cluster adds to the difference of the two runs; 0 for a cluster in which they do not differ.
    """
    differing_count = sum(1 for step in steps if step)
    return min(1.0, 2.0 ** (1 - differing_count))


def variance_of_sum(steps: Sequence[float], shares: Sequence[float]) -> VarianceOfSum:
    """Return the variance of a sum to which each cluster of test rows adds one number, and its degrees of freedom.

    Such a sum D is the difference of two runs on a data set. The *step* ``S_c`` of a cluster c is what it adds to D,
    and ``w_c`` is its share of the queries. If all queries differed equally, the step would be ``w_c * D``. The
    variance of D is the cluster-robust one with the correction CR2 (Bell and McCaffrey 2002), for a mean::

        V = sum over clusters of (S_c - D w_c)^2 / (1 - w_c)

    The denominator removes a bias. A cluster draws D towards itself, which makes its deviation too small. If rows are
    independent, ``S_c`` has a variance in proportion to ``w_c``, and the covariance of ``S_c`` and ``D w_c`` is ``w_c``
    times this. So the expected square of the deviation is ``1 - 2 w_c + w_c = 1 - w_c`` times the variance of ``S_c``.

    Args:
        steps: The step of each cluster.
        shares: The share of each cluster in the queries of the data set; the sum is 1, and each is below 1.

    Example:
        >>> variance, freedom = variance_of_sum([0.1, 0.0, 0.1, 0.2], [0.25] * 4)  # as of a mean of four numbers
        >>> round(variance, 6), round(freedom, 6)
        (0.026667, 3.0)
    """
    total = math.fsum(steps)
    terms = []
    for step, share in zip(steps, shares, strict=True):
        deviation = step - total * share
        terms.append(deviation * deviation / (1.0 - share))
    return VarianceOfSum(variance=math.fsum(terms), degrees_of_freedom=_degrees_of_freedom(shares))


_LEAST_TAILS = 1e-10
"""Least probability outside an interval for which its quantile is exact to six digits: a level is a number near 1, of
which 16 digits are kept."""


def level_over_clusters(level: float, shares: Sequence[float]) -> float:
    """Return the level at which formulas for equal clusters reach the nominal coverage with clusters of these sizes.

    The formulas of intervals take a quantile of Student's t with n - 1 degrees of freedom for n clusters. Clusters of
    different sizes have f < n - 1 degrees of freedom (:func:`variance_of_sum`), and so need a larger quantile q, that
    of t with f. The returned level is the one at which the formulas take q::

        1 - 2 * P(T > q)   where T has n - 1 degrees of freedom

    It is higher than the nominal coverage. For clusters of equal size, it is the same.

    Args:
        level: Nominal coverage.
        shares: The share of each cluster in the queries of the data set; the sum is 1, and each is below 1.

    Raises:
        UndefinedMetricError: The level that is needed is not distinguishable from 1 in double precision.

    Example:
        >>> round(level_over_clusters(0.95, [0.1] * 10), 6), round(level_over_clusters(0.95, [0.05] * 8 + [0.3] * 2), 3)
        (0.95, 0.999)
    """
    needed_quantile = student_limit((1.0 - level) / 2.0, _degrees_of_freedom(shares))
    freedom_of_formulas = len(shares) - 1
    both_tails = 2.0 * student_tail(needed_quantile, freedom_of_formulas)
    if both_tails < _LEAST_TAILS:
        raise UndefinedMetricError(
            f"an interval over {len(shares)} clusters of so different sizes cannot have the level {level}; "
            "use a lower level"
        )
    return 1.0 - both_tails


def combined(parts: Sequence[VarianceOfSum]) -> VarianceOfSum:
    """Return the variance of the sum of independent sums, with its degrees of freedom (Satterthwaite 1946).

    Args:
        parts: The variance of each sum, such as one for each data set.
    """
    variance = math.fsum(part.variance for part in parts)
    if variance == 0.0:
        return VarianceOfSum(0.0, min(part.degrees_of_freedom for part in parts))
    denominator = math.fsum(part.variance**2 / part.degrees_of_freedom for part in parts)
    return VarianceOfSum(variance, variance**2 / denominator)


def _degrees_of_freedom(shares: Sequence[float]) -> float:
    """Return the degrees of freedom of the variance V of :func:`variance_of_sum`.

    V is a sum of squares, one for each cluster c: the deviation divided by ``sqrt(1 - w_c)``. Let G be the matrix of
    the covariances of these scaled deviations, under an assumption about the rows. Then V has the mean ``trace(G)``
    and, for normal deviations, the variance ``2 * trace(G G)``. A chi-square variable with f degrees of freedom, times
    a factor, has ``f = 2 * mean^2 / variance``. So the degrees of freedom are ``trace(G)^2 / trace(G G)``
    (Satterthwaite 1946), where ``trace(G G)`` is the sum of all squared elements of G.

    How much the rows of a cluster depend on each other is not known. So two extremes are computed, independent and
    equal rows, and the smaller number counts, which makes tests cautious.

    Args:
        shares: The share w_c of each cluster in the queries of the data set.
    """
    return min(_freedom_of_independent_rows(shares), _freedom_of_equal_rows(shares))


def _freedom_of_independent_rows(shares: Sequence[float]) -> float:
    """Return the degrees of freedom ``trace(G)^2 / trace(G G)`` of a variance over clusters, if rows are independent.

    G is the matrix of the covariances of the deviations of the clusters, scaled as in :func:`_degrees_of_freedom`. If
    each row has the variance 1 / (number of rows), the deviation of a cluster c has the variance ``w_c (1 - w_c)``, and
    those of two clusters c and d have the covariance ``-w_c w_d``. Divided by the square roots of ``1 - w_c`` and
    ``1 - w_d``, they are the elements of G::

        G_cc   = w_c
        G_cd^2 = b_c b_d    with  b_c = w_c^2 / (1 - w_c)

    The trace of G is the sum of all shares, 1. The sum of ``b_c b_d`` over all pairs of different clusters is
    ``sum(b)^2 - sum(b^2)``.

    Args:
        shares: The share w_c of each cluster.
    """
    trace = 1.0
    b = [share**2 / (1.0 - share) for share in shares]
    squares_on_diagonal = math.fsum(share**2 for share in shares)
    squares_off_diagonal = math.fsum(b) ** 2 - math.fsum(value**2 for value in b)
    return trace**2 / (squares_on_diagonal + squares_off_diagonal)


def _freedom_of_equal_rows(shares: Sequence[float]) -> float:
    """Return the degrees of freedom ``trace(G)^2 / trace(G G)`` of a variance over clusters, if its rows are all equal.

    G is the matrix of the covariances of the deviations of the clusters, scaled as in :func:`_degrees_of_freedom`. If
    all rows of a cluster are equal, its step is ``w_c`` times a number with the variance 1. With Q the sum of all
    ``w_c^2``, the elements of G are::

        G_cc   = b_c (1 - 2 w_c + Q)
        G_cd^2 = b_c b_d (Q - w_c - w_d)^2    with  b_c = w_c^2 / (1 - w_c)

    The square in the second one is ``Q^2 + w_c^2 + w_d^2 - 2 Q w_c - 2 Q w_d + 2 w_c w_d``. So its sum over all pairs
    consists of products of sums over single clusters.

    Args:
        shares: The share w_c of each cluster.
    """
    q = math.fsum(share**2 for share in shares)
    b = [share**2 / (1.0 - share) for share in shares]
    diagonal = [b_c * (1.0 - 2.0 * w_c + q) for b_c, w_c in zip(b, shares, strict=True)]

    sum_b = math.fsum(b)
    sum_bw = math.fsum(b_c * w_c for b_c, w_c in zip(b, shares, strict=True))
    sum_bww = math.fsum(b_c * w_c**2 for b_c, w_c in zip(b, shares, strict=True))
    squares_of_all_pairs = sum_b**2 * q**2 + 2.0 * sum_b * sum_bww - 4.0 * q * sum_b * sum_bw + 2.0 * sum_bw**2
    # The pairs of a cluster with itself are no covariances of different clusters.
    squares_of_same_cluster = math.fsum((b_c * (q - 2.0 * w_c)) ** 2 for b_c, w_c in zip(b, shares, strict=True))
    squares_off_diagonal = squares_of_all_pairs - squares_of_same_cluster
    squares_on_diagonal = math.fsum(value**2 for value in diagonal)
    return math.fsum(diagonal) ** 2 / (squares_on_diagonal + squares_off_diagonal)


# -- Student's t with any degrees of freedom


def student_tail(t: float, degrees_of_freedom: float) -> float:
    """Return the probability that a variable with Student's t distribution is above ``t``.

    For a positive t it is half the regularized incomplete beta function ``I_x(f / 2, 1 / 2)`` at ``x = f / (f + t^2)``.

    Args:
        t: The limit.
        degrees_of_freedom: The degrees of freedom f, which need not be an integer.

    Example:
        >>> round(student_tail(2.093, 19), 5), round(student_tail(-2.093, 19), 5)
        (0.025, 0.975)
    """
    if math.isinf(t):
        return 0.0 if t > 0.0 else 1.0
    x = degrees_of_freedom / (degrees_of_freedom + t * t)
    tail = 0.5 * _incomplete_beta(x, degrees_of_freedom / 2.0, 0.5)
    if t < 0.0:
        return 1.0 - tail
    return tail


def student_limit(tail: float, degrees_of_freedom: float) -> float:
    """Return the number above which a variable with Student's t distribution is with a probability below 1/2.

    Args:
        tail: The probability. The limit of 0 is no number: what is returned is the least number whose tail is rounded
            to 0.
        degrees_of_freedom: The degrees of freedom, which need not be an integer.

    Example:
        >>> round(student_limit(0.025, 4.5), 4)
        2.6589
    """
    return least_number_where(lambda t: student_tail(t, degrees_of_freedom) <= tail)


_LEAST_TERM = 1e-300
"""Takes the place of a term of 0 in a continued fraction, by which the next term is divided."""


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function ``I_x(a, b)``.

    It is ``x^a (1 - x)^b / (a B(a, b))`` times a continued fraction (Abramowitz and Stegun 1964, 26.5.8), which
    converges fast for ``x < (a + 1) / (a + b + 2)``. For a larger x, ``I_x(a, b) = 1 - I_(1-x)(b, a)``.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _incomplete_beta(1.0 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    factor = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a
    return factor * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction ``1 / (1 + d_1 / (1 + d_2 / (1 + ...)))`` of the incomplete beta function.

    The terms with m = 1, 2, ... are

        d_(2m)     = m (b - m) x / ((a + 2m - 1) (a + 2m))
        d_(2m + 1) = -(a + m) (a + b + m) x / ((a + 2m) (a + 2m + 1))

    and d_1 is the second formula with m = 0. The denominator ``1 + d_1 / (1 + ...)`` is computed from left to right, by
    the method of Lentz: each term multiplies it by the ratio of two successive numerators, and by the inverse ratio of
    two successive denominators. It ends when a term changes no digit.
    """
    value = 1.0
    numerator_ratio = 1.0
    denominator_ratio = 0.0
    for number in range(1, 1000):
        m = number // 2
        if number % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        numerator_ratio = _not_zero(1.0 + term / numerator_ratio)
        denominator_ratio = 1.0 / _not_zero(1.0 + term * denominator_ratio)
        change = numerator_ratio * denominator_ratio
        value *= change
        if abs(change - 1.0) < 1e-15:
            break
    return 1.0 / value


def _not_zero(value: float) -> float:
    """Return a number, or a tiny one if it is 0."""
    return value if value else _LEAST_TERM
