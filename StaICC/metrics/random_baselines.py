"""Baselines without a model: how well guesses do.

A classifier that guesses each of n labels with probability p is right X times, and X is binomial (Poisson binomial when
p differs between examples). Whoever tries t settings and reports the best one has to beat the best of t guessers, not
one of them. With ``F`` the distribution function of X, the best of t independent guessers is right at most k times with
probability ``F(k)**t``; t = 1 is the standard baseline (Yauney and Mimno, "Stronger Random Baselines for In-Context
Learning", COLM 2024, equations 4 to 11 and 18 to 20). The smaller tail has all its digits, however thin it is, and
``1 - F**t`` is ``-expm1(t * log1p(-tail))``. The expected maximum is the sum of the tail probabilities (the same as
equation 8, without its subtractions). Correct predictions are counted as integers. An accuracy that is no multiple of
1/n is an error; it is not rounded silently.

*Uniform guessing* is random. A guesser may draw for each query, or once for each test row and repeat its guess when the
row is asked again; the second scatters more. Both are reported, and the larger p-value is valid for either. *The
majority label* and *the last demonstration's label* are deterministic on frozen prompts: see
:mod:`StaICC.metrics.fixed_baselines`.

A tail of the number of right guesses, whose chances may differ (Poisson binomial), is the integral of its generating
function around a circle whose radius is near the saddlepoint (Daniels 1954). The integrand does not cancel there, so
all digits are correct, however small the tail. The trapezoidal rule is exact for a number with a bound, and needs few
nodes where the distribution is wide. Binomial probabilities are computed by their ratios, from the mode outwards, and
added by convolution.
"""

from __future__ import annotations

import cmath
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError

Groups = tuple[tuple[float, int], ...]
"""Pairs of (probability of a success, number of such trials)."""

_ZERO = 1e-300
"""Smaller chances of success count as zero."""

_SMALLEST = 1e-320
"""Smaller weights have too few digits for a product to fall further."""

_NEGLIGIBLE = 1e-18
"""Terms that change no digit of a sum."""

_LARGEST_TILT = 800.0
"""Bound of the tilt of a trial. The log-odds of a chance of `_ZERO` are -691, so a tilt of 800 makes it certain."""

# -- sums of independent trials


@dataclass(frozen=True, slots=True)
class _Trials:
    """Independent trials with the same chance of success."""

    weight: float
    """What a success adds to the sum."""
    log_odds: float
    """Logarithm of the chance of success over the chance of failure."""
    count: int


@dataclass(frozen=True, slots=True)
class _Distribution:
    """Probabilities of consecutive integers; all other integers have a negligible probability."""

    first: int
    """The smallest of the integers."""
    probabilities: list[float]


@dataclass(frozen=True, slots=True)
class _Tilt:
    """A tilted sum: the probability of each value s is multiplied by ``exp(theta * s)``, and all are normalised."""

    theta: float
    log_factor: float
    """Logarithm of the mean of ``exp(theta * s)`` under the distribution that is not tilted."""
    log_odds: list[float]
    """Tilted log-odds of each of the trials."""


@dataclass(frozen=True, slots=True)
class _TiltedTrials:
    """Independent trials after tilting."""

    failure: float
    """Chance of a failure, with all of its digits; so it is not computed as 1 minus that of a success."""
    success: float
    """Chance of a success."""
    count: int


def _uncertain(groups: Groups) -> Groups:
    """Return the groups of trials that are certain neither to fail nor to succeed."""
    return tuple((rate, count) for rate, count in groups if _ZERO <= rate < 1.0)


def _trials(groups: Groups) -> list[_Trials]:
    """Return the trials that are not certain; a success of each adds 1."""
    trials = []
    for rate, count in _uncertain(groups):
        log_odds = math.log(rate) - math.log1p(-rate)
        trials.append(_Trials(weight=1, log_odds=log_odds, count=count))
    return trials


def _binomial(n: int, log_odds: float, negligible: float = _NEGLIGIBLE) -> _Distribution:
    """Return the distribution of the number of successes in n trials.

    The probabilities are computed from the mode outwards, by the ratio of neighbours:
    P(k + 1) / P(k) = (n - k) / (k + 1) * odds.

    Args:
        n: Number of trials.
        log_odds: Log-odds of a success.
        negligible: Probabilities that are smaller in units of the largest one are left out.
    """
    odds = math.exp(log_odds)
    mode = min(n, int((n + 1) * (odds / (1.0 + odds))))
    ratios_upwards = ((n - k) / (k + 1) * odds for k in range(mode, n))
    ratios_downwards = (k / (n - k + 1) / odds for k in range(mode, 0, -1))
    upwards = _running_product(ratios_upwards, negligible)
    downwards = _running_product(ratios_downwards, negligible)

    total = math.fsum(upwards) + math.fsum(downwards) - 1.0  # both begin with the mode, whose weight is 1
    relative = [*reversed(downwards[1:]), *upwards]
    probabilities = [weight / total for weight in relative]
    return _Distribution(first=mode - len(downwards) + 1, probabilities=probabilities)


def _running_product(ratios: Iterable[float], negligible: float) -> list[float]:
    """Return 1 and its products with the ratios, one ratio more each time, until a product is negligible."""
    products = [1.0]
    product = 1.0
    for ratio in ratios:
        product *= ratio
        if product <= negligible:
            break
        products.append(product)
    return products


def _count_distribution(trials: Iterable[_Trials], negligible: float) -> _Distribution:
    """Return the distribution of the number of successes in all trials."""
    total = _Distribution(first=0, probabilities=[1.0])
    for group in trials:
        added = _binomial(group.count, group.log_odds, negligible)
        probabilities = _convolve(total.probabilities, added.probabilities)
        total = _Distribution(total.first + added.first, probabilities)
    return total


def _convolve(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the probabilities of the sums of two independent numbers, from those of each number."""
    longer, shorter = first, second
    if len(first) < len(second):
        longer, shorter = second, first
    zeros = [0.0] * (len(shorter) - 1)
    padded = [*zeros, *longer, *zeros]
    reversed_shorter = shorter[::-1]
    sums = []
    for start in range(len(longer) + len(shorter) - 1):
        window = padded[start : start + len(shorter)]
        sums.append(sum(map(mul, reversed_shorter, window)))
    return sums


def _tilt(trials: Sequence[_Trials], score: float) -> _Tilt:
    """Return the tilt with which the mean of the sum of trials is a score; theta is found by bisection."""
    high = _LARGEST_TILT / max(group.weight for group in trials)
    low = -high
    theta = 0.0
    # No result depends on the last digits of theta: tilting is exact for every theta, if not equally fast.
    while high - low > 1e-9 * max(abs(low), abs(high)):
        theta = (low + high) / 2.0
        if _tilted_mean(trials, theta) < score:
            low = theta
        else:
            high = theta

    # The mean of exp(theta * weight * success) is (1 + exp(tilted log-odds)) / (1 + exp(log-odds)) for one trial.
    log_odds = []
    log_factors = []
    for group in trials:
        tilted = group.log_odds + theta * group.weight
        log_odds.append(tilted)
        log_factors.append(group.count * (_softplus(tilted) - _softplus(group.log_odds)))
    return _Tilt(theta, log_factor=math.fsum(log_factors), log_odds=log_odds)


def _tilted_mean(trials: Sequence[_Trials], theta: float) -> float:
    """Return the mean of the sum of trials after tilting."""
    means = []
    for group in trials:
        chance = _chance(group.log_odds + theta * group.weight)
        means.append(group.weight * group.count * chance)
    return math.fsum(means)


def _chance(log_odds: float) -> float:
    """Return the chance with these log-odds; beyond 700, ``exp`` would overflow."""
    bounded = max(-700.0, min(700.0, -log_odds))
    return 1.0 / (1.0 + math.exp(bounded))


def _softplus(x: float) -> float:
    """Return log(1 + exp(x)) without overflow."""
    return max(0.0, x) + math.log1p(math.exp(-abs(x)))


def _mean_and_deviation(groups: Groups) -> tuple[float, float]:
    """Return mean and standard deviation of the number of successes."""
    mean = math.fsum(rate * count for rate, count in groups)
    variance = math.fsum(rate * (1.0 - rate) * count for rate, count in groups)
    return mean, math.sqrt(variance)


def log_tail(groups: Groups, k: int) -> tuple[float, bool]:
    """Natural logarithm of the tail of the number of successes that begins at k, however small it is.

    Args:
        groups: Chances and numbers of trials.
        k: The first number of successes of the tail.

    Returns:
        The logarithm of P(X >= k) and True where k is above the mean, else that of P(X <= k) and False.
    """
    mean, _ = _mean_and_deviation(groups)
    is_upper = k > mean
    certain_successes = sum(count for rate, count in groups if rate == 1.0)
    uncertain = _uncertain(groups)
    if is_upper:
        return _log_upper_tail(uncertain, k - certain_successes), True
    return _log_lower_tail(uncertain, k - certain_successes), False


def _log_upper_tail(uncertain: Groups, k: int) -> float:
    """Return the logarithm of P(X >= k) for trials that are not certain."""
    n = sum(count for _, count in uncertain)
    if k <= 0:
        return 0.0
    if k > n:
        return -math.inf
    if k == n:
        return math.fsum(math.log(rate) * count for rate, count in uncertain)
    return _log_tail_by_contour(uncertain, k, is_upper=True)


def _log_lower_tail(uncertain: Groups, k: int) -> float:
    """Return the logarithm of P(X <= k) for trials that are not certain."""
    n = sum(count for _, count in uncertain)
    if k >= n:
        return 0.0
    if k < 0:
        return -math.inf
    if k == 0:
        return math.fsum(math.log1p(-rate) * count for rate, count in uncertain)
    return _log_tail_by_contour(uncertain, k, is_upper=False)


def _log_tail_by_contour(uncertain: Groups, k: int, is_upper: bool) -> float:
    """Return the logarithm of a tail by an integral around a circle, for 0 < k < n.

    With the generating function G(z) = E[z^X] and z = exp(theta + i angle), averaged over all angles,

        P(X >= k) = mean of G(z) z^-k / (1 - 1/z)   for theta > 0,
        P(X <= k) = mean of G(z) z^-k / (1 - z)     for theta < 0.

    G(z) = exp(log_factor) * phi(angle), where phi is the characteristic function of the tilted distribution.
    """
    # The circle goes through the saddlepoint of k, but is no closer to the pole than that of one standard deviation.
    mean, deviation = _mean_and_deviation(uncertain)
    sign = 1.0 if is_upper else -1.0
    tilted_mean = mean + sign * max(deviation, abs(k - mean))
    tilt = _tilt(_trials(uncertain), tilted_mean)

    tilted_trials = []
    for log_odds, (_, count) in zip(tilt.log_odds, uncertain, strict=True):
        tilted_trials.append(_TiltedTrials(_chance(-log_odds), _chance(log_odds), count))
    nodes = _contour_nodes(tilted_trials, tilt.theta)
    step = 2.0 * math.pi / nodes

    # The nodes above and below the real axis are conjugate, so the real parts of one half count twice.
    total = 0.0
    for node in range(nodes // 2 + 1):
        unit_root = cmath.rect(1.0, step * node)
        phi = math.prod([(group.failure + group.success * unit_root) ** group.count for group in tilted_trials])
        turned_back = phi * cmath.rect(1.0, -step * (node * k % nodes))
        distance_to_pole = 1.0 - cmath.exp(-sign * complex(tilt.theta, step * node))
        term = (turned_back / distance_to_pole).real
        if node == 0:
            total += term
        else:
            total += 2.0 * term
        if abs(phi) < _NEGLIGIBLE:
            break
    # G(z) z^-k = exp(log_factor - theta k) * phi(angle) * exp(-i k angle)
    return min(0.0, tilt.log_factor - tilt.theta * k + math.log(total / nodes))


def _contour_nodes(tilted_trials: Sequence[_TiltedTrials], theta: float) -> int:
    """Return an odd number of nodes with which the trapezoidal rule has all digits.

    The rule cannot distinguish numbers of successes that differ by a multiple of the nodes. 24 standard deviations and
    60 more hold all numbers with a noticeable probability. The pole is at the distance theta from the circle, which
    adds an error of exp(-nodes * theta); exp(-40) is negligible.
    """
    n = sum(group.count for group in tilted_trials)
    variance = math.fsum(group.failure * group.success * group.count for group in tilted_trials)
    width = min(n, 24.0 * math.sqrt(variance) + 60.0)
    nodes = int(width + 40.0 / abs(theta))
    if nodes % 2 == 0:
        nodes += 1
    return nodes


# -- the best of several guessers on one set of examples

GuessRates = float | Sequence[float] | Mapping[int, int]
"""Probability that a guess is right: one p, a list of n, or a mapping {number of labels: number of examples}."""

_FULL_PRECISION = -650.0
"""Above this log-probability, `math.exp` keeps full double precision."""

_COUNT_TOLERANCE = 1e-6
"""Tolerance between accuracy times n and an integer."""


def _share(value: object, name: str) -> float:
    """Return a number from 0 to 1 as a float; `name` is what the error message calls it."""
    if isinstance(value, bool | str | bytes):  # float() would read them
        raise _share_error(value, name)
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _share_error(value, name) from None
    if not 0.0 <= share <= 1.0:
        raise _share_error(value, name)
    return share


def _share_error(value: object, name: str) -> ArgumentError:
    return ArgumentError(f"{name} must be a number between 0 and 1, not {value!r}")


def _groups(n: int, p: GuessRates) -> Groups:
    """Sort the n examples into (probability of a right guess, number of examples)."""
    example_counts: Counter[float] = Counter()
    if isinstance(p, Mapping):
        for n_labels, n_examples in p.items():
            examples = validate_integer(f"the number of examples with {n_labels!r} labels in p", n_examples, 0)
            labels = validate_integer("a number of labels in p", n_labels, 1)
            example_counts[1.0 / labels] += examples
    elif isinstance(p, Iterable):
        for position, rate in enumerate(p):
            example_counts[_share(rate, f"p[{position}]")] += 1
    else:
        example_counts[_share(p, "p")] = n
    if example_counts.total() != n:
        raise ArgumentError(f"p (--labels) is for {example_counts.total()} examples, but n is {n}; make them the same")
    return tuple(sorted((rate, examples) for rate, examples in example_counts.items() if examples > 0))


@dataclass(frozen=True, slots=True, init=False)
class RandomBaseline:
    """The best of t guessers on one set of examples, for any t.

    Two baselines are equal if n and the probabilities are equal, in whatever form and order they were given.

    Attributes:
        n: Number of examples (queries that were scored).
        p: Pairs of (probability that a guess is right, number of examples), sorted.

    Example:
        >>> guessing = RandomBaseline(100, 1 / 2)
        >>> round(guessing.max_random_baseline(t=10), 5)
        0.57678
        >>> round(guessing.p_value(0.6, t=10), 5)
        0.25066
        >>> RandomBaseline(3, {2: 2, 4: 1}) == RandomBaseline(3, [0.5, 0.25, 0.5])
        True
    """

    n: int
    p: tuple[tuple[float, int], ...]

    def __init__(self, n: int, p: GuessRates) -> None:
        """Check n and p.

        Args:
            n: Number of examples, at least 1.
            p: Probability that a guess is right: a number, a list of n numbers, or a mapping from a number of
                labels to the number of examples with that many labels (each guessed right with one over the
                number of labels).

        Raises:
            ArgumentError: n is no positive integer, p holds something that is no probability, or the
                examples in p are not n.
        """
        n = validate_integer("n", n, minimum=1)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "p", _groups(n, p))

    def max_random_baseline(self, t: int = 1) -> float:
        """Expected accuracy of the best of t guessers (equation 8).

        Args:
            t: Number of settings that were tried, at least 1.

        Returns:
            The expected maximum accuracy; for t = 1 the standard baseline, the mean of p.

        Raises:
            ArgumentError: t is no positive integer.
        """
        t = validate_integer("t", t, minimum=1)
        if t == 1:
            mean, _ = _mean_and_deviation(self.p)
            return mean / self.n

        # E[best] = smallest number + sum over all larger numbers k of P(best >= k)
        certain = sum(count for rate, count in self.p if rate == 1.0)
        negligible = _NEGLIGIBLE / t  # the tail of the best is up to t times that of one
        uncertain = _count_distribution(_trials(self.p), negligible)
        tails_of_larger = _upper_tails(uncertain.probabilities)[1:]
        tails_of_best = [_tail_of_best(tail, t) for tail in tails_of_larger]
        return (certain + uncertain.first + math.fsum(tails_of_best)) / self.n

    def p_value(self, acc: float, t: int = 1) -> float:
        """Probability that the best of t guessers reaches an accuracy (equation 20).

        Args:
            acc: The accuracy, a multiple of 1/n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The p-value. It is 0.0 only where floating point ends (near 1e-320) or no guesser can be so often
            right; see :meth:`log_p_value`.

        Raises:
            ArgumentError: acc is no multiple of 1/n, or t is no positive integer.
        """
        return self.p_value_of_count(self.count(acc), t)

    def p_value_of_count(self, num_correct: int, t: int = 1) -> float:
        """Probability that the best of t guessers is correct at least ``num_correct`` times.

        Args:
            num_correct: Number of correct predictions, 0 to n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The p-value, as :meth:`p_value`.

        Raises:
            ArgumentError: num_correct is no integer from 0 to n, or t is no positive one.
        """
        k = validate_integer("the number of correct answers", num_correct, 0)
        if k > self.n:
            raise ArgumentError(f"{k} correct answers are more than the n = {self.n} examples")
        return math.exp(self._log_p_value(k, t))

    def log_p_value(self, acc: float, t: int = 1) -> float:
        """Natural logarithm of the p-value, also where the p-value itself is too small for floating point.

        Args:
            acc: The accuracy, a multiple of 1/n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The logarithm; minus infinity when no guesser can be so often right.

        Raises:
            ArgumentError: acc is no multiple of 1/n, or t is no positive whole number.

        Example:
            >>> round(RandomBaseline(1024, 1 / 6).log_p_value(1.0) / math.log(10), 3)  # 6 ** -1024
            -796.827
        """
        return self._log_p_value(self.count(acc), t)

    def critical_count(self, t: int = 1, alpha: float = 0.05) -> int | None:
        """Smallest number of correct predictions with a p-value of at most alpha.

        Args:
            t: Number of settings that were tried, at least 1.
            alpha: The level, from 0 to 1.

        Returns:
            The number of correct predictions; None when even n correct predictions are not enough.

        Raises:
            ArgumentError: alpha is not from 0 to 1, or t is no positive integer.

        Example:
            >>> RandomBaseline(100, 0.5).critical_count(), RandomBaseline(100, 0.5).critical_count(t=10)
            (59, 64)
        """
        alpha = _share(alpha, "alpha")
        if self.p_value_of_count(self.n, t) > alpha:
            return None
        too_few = -1
        enough = self.n
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self.p_value_of_count(middle, t) <= alpha:
                enough = middle
            else:
                too_few = middle
        return enough

    def count_of_rounded(self, acc: str) -> int:
        """Number of correct predictions for an accuracy that was rounded for printing.

        Args:
            acc: The accuracy as text; its digits after the point count.

        Returns:
            The integer k with k / n = acc, or else the only k for which k / n, rounded to as many digits, is acc. A
            half may be rounded up or down: 1/16 is 0.062 or 0.063.

        Raises:
            ArgumentError: acc is no number from 0 to 1, no count gives it, or several do.

        Example:
            >>> RandomBaseline(1024, 1 / 2).count_of_rounded("0.5508")
            564
        """
        try:
            share = float(acc)
        except ValueError:
            raise _share_error(acc, "an accuracy") from None
        if not 0.0 <= share <= 1.0:
            raise _share_error(acc, "an accuracy")
        exact_count = Fraction(share) * self.n
        if abs(exact_count - round(exact_count)) <= _COUNT_TOLERANCE:
            return round(exact_count)

        # The counts from the lowest to the highest have accuracies that are rounded to the printed one.
        digits = _digits_after_point(acc)
        half_digit = Fraction(1, 2 * 10**digits)
        lowest = math.ceil((Fraction(acc) - half_digit) * self.n)
        highest = math.floor((Fraction(acc) + half_digit) * self.n)
        if lowest == highest:
            return lowest
        below = int(exact_count)
        near = " and ".join(f"{k}/{self.n} = {k / self.n:.{digits}f}" for k in (below, below + 1))
        raise ArgumentError(
            f"an accuracy of {acc} is no share of n = {self.n} queries, or that of several counts: near it are "
            f"{near}. Give the accuracy with more digits, or the right n"
        )

    def count(self, acc: float) -> int:
        """Number of correct predictions for an accuracy.

        Args:
            acc: The accuracy; integers and fractions are taken as well.

        Returns:
            The integer k with k / n = acc. Floating-point slips are bridged: 0.29 of 100 is 29.

        Raises:
            ArgumentError: acc is not from 0 to 1, or no multiple of 1/n.

        Example:
            >>> RandomBaseline(100, 0.2).count(0.29)
            29
        """
        share = _share(acc, "an accuracy")
        exact_count: float | Fraction = share * self.n
        if isinstance(acc, Fraction):  # its product needs no rounding
            exact_count = acc * self.n
        k = round(exact_count)
        excess = float(exact_count - k)
        if abs(excess) > _COUNT_TOLERANCE:
            raise ArgumentError(
                f"{acc!r} is no multiple of 1/{self.n} (the nearest is {k}/{self.n} = {k / self.n!r}); "
                "give the unrounded accuracy or n"
            )
        return k

    def _log_p_value(self, k: int, t: int) -> float:
        """Return the logarithm of P(best >= k) = 1 - P(X < k)^t, from the smaller tail of X."""
        t = validate_integer("t", t, minimum=1)
        if k == 0:
            return 0.0
        mean, _ = _mean_and_deviation(self.p)
        if k <= mean:
            log_below, _ = log_tail(self.p, k - 1)
            return math.log(-math.expm1(t * log_below))
        log_at_least, _ = log_tail(self.p, k)
        if log_at_least <= _FULL_PRECISION:
            # 1 - (1 - s)^t is t s to within t s, a relative error far below rounding.
            return min(0.0, math.log(t) + log_at_least)
        return math.log(-math.expm1(t * math.log1p(-math.exp(log_at_least))))


def _digits_after_point(number: str) -> int:
    """Return how many digits after the decimal point a text such as ``0.55`` or ``5.5e-1`` states, at most 20."""
    mantissa, _, exponent = number.lower().partition("e")
    _, _, decimals = mantissa.strip().partition(".")
    digits = len(decimals)
    if exponent:
        digits -= int(exponent)
    return min(20, max(0, digits))


# -- the best of several guessers, in a mean over data sets

Guesses = Sequence[tuple[float, int, int]]
"""A mean accuracy of guessing, as a sum: (what one right guess adds, number of labels, number of guesses)."""

_EXACT_SCORES = 20_000
"""Number of different scores up to which their distribution is exact, ..."""
_EXACT_PRODUCTS = 40 * _EXACT_SCORES
"""... and number of products up to which it is, so that many guesses with few scores do not take long."""

_GRID_POINTS = 64
"""Grid points for a standard deviation, if there are more scores."""
_GRID_NEGLIGIBLE = 1e-15
"""On a grid, smaller probabilities are left out, ..."""
_THIN_TAIL = 1e-9
"""... and smaller tails are computed after tilting."""

_SAME_SCORE = 1e-9
"""Scores that differ by less are the same after rounding."""


@dataclass(frozen=True, slots=True)
class _GuessGroup:
    """Guesses that add the same and have as many labels."""

    weight: float
    """What a right guess adds to the score."""
    labels: int
    count: int


@dataclass(frozen=True, slots=True)
class _ScoreDistribution:
    """The distribution of the score of one guesser."""

    scores: list[float]
    """In rising order."""
    tails: list[float]
    """Probability of each score or a larger one."""
    half_step: float
    """Half of the distance between neighbours on the grid of scores; 0 if the distribution is exact."""

    def tail(self, score: float) -> float:
        """Return the probability of a score or a larger one; a score on the grid may have been rounded down."""
        lowest = score - max(self.half_step, _SAME_SCORE)
        position = bisect_left(self.scores, lowest)
        if position == len(self.scores):
            return 0.0
        return self.tails[position]


def _group_guesses(guesses: Guesses) -> tuple[_GuessGroup, ...]:
    """Return the guesses, equal ones together, in an order that does not depend on that of the data sets.

    The few large weights come first, so that their sums are exact (see :func:`_score_distribution`).
    """
    counts: Counter[tuple[float, int]] = Counter()
    for weight, labels, count in guesses:
        counts[weight, labels] += count
    groups = []
    for (weight, labels), count in sorted(counts.items(), reverse=True):
        groups.append(_GuessGroup(weight, labels, count))
    return tuple(groups)


def _add_variables(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return the distribution of the sum of two independent integers: the probability of each value."""
    total: dict[int, float] = {}
    for first_value, first_probability in first.items():
        for second_value, second_probability in second.items():
            value = first_value + second_value
            total[value] = total.get(value, 0.0) + first_probability * second_probability
    return total


def _on_grid(distribution: Mapping[int, float], scale: Fraction) -> dict[int, float]:
    """Return the distribution of an integer times a scale, on integers.

    The probability of a product between two integers is shared among them so that its mean is kept.
    """
    scaled: dict[int, float] = {}
    for value, probability in distribution.items():
        below, remainder = divmod(value * scale.numerator, scale.denominator)
        share_above = remainder / scale.denominator
        scaled[below] = scaled.get(below, 0.0) + probability * (1.0 - share_above)
        if remainder:
            scaled[below + 1] = scaled.get(below + 1, 0.0) + probability * share_above
    return scaled


@lru_cache(maxsize=64)
def _score_distribution(groups: tuple[_GuessGroup, ...], near: float | None = None) -> _ScoreDistribution:
    """Return the distribution of a guesser's score.

    Groups are added one after the other. From the group on with which there could be more than ``_EXACT_SCORES``
    scores, scores are rounded to a grid.

    Args:
        groups: The guesses; large weights first.
        near: A score near which tails have their digits, however small they are.
    """
    trials = [_guess_trials(group) for group in groups]
    tilt = _Tilt(theta=0.0, log_factor=0.0, log_odds=[group.log_odds for group in trials])
    if near is not None:
        tilt = _tilt(trials, near)

    weights = [Fraction(group.weight).limit_denominator(10**8) for group in groups]
    unit = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    grid_step: Fraction | None = None
    total = {0: 1.0}  # the probability of each sum, in multiples of the unit
    for group, weight, log_odds in zip(groups, weights, tilt.log_odds, strict=True):
        if grid_step is None and _has_many_sums(total, group.count, int(weight * group.count / unit)):
            _, deviation = _score_moments(groups)
            grid_step = Fraction(deviation / _GRID_POINTS)
            noticeable = {value: probability for value, probability in total.items() if probability > _GRID_NEGLIGIBLE}
            total = _on_grid(noticeable, unit / grid_step)
            unit = grid_step
        negligible = _SMALLEST if grid_step is None else _GRID_NEGLIGIBLE
        right = _binomial(group.count, log_odds, negligible)
        added = dict(enumerate(right.probabilities, start=right.first))
        total = _add_variables(total, _on_grid(added, weight / unit))

    scores = []
    probabilities = []
    for multiple, tilted_probability in sorted(total.items()):
        score = float(multiple * unit)
        scores.append(score)
        probabilities.append(tilted_probability * math.exp(tilt.log_factor - tilt.theta * score))
    half_step = 0.0 if grid_step is None else float(grid_step / 2)
    return _ScoreDistribution(scores, _upper_tails(probabilities), half_step)


def _guess_trials(group: _GuessGroup) -> _Trials:
    """Return guesses as trials: a guess among n labels has the odds 1 / (n - 1)."""
    log_odds = -math.log(max(group.labels - 1, _ZERO))
    return _Trials(group.weight, log_odds, group.count)


def _has_many_sums(total: Mapping[int, float], n_guesses: int, largest_addition: int) -> bool:
    """Return whether a sum could have too many values for an exact distribution after one more group of guesses.

    Args:
        total: The sum so far: probabilities of its values, as integers.
        n_guesses: Number of guesses of the group.
        largest_addition: What the group adds if all of its guesses are right.
    """
    # Each value of the sum so far is added to each number of right guesses. All sums are integers within the span.
    products = len(total) * (n_guesses + 1)
    span = max(total) - min(total) + 1 + largest_addition
    if products > _EXACT_PRODUCTS:
        return True
    return min(products, span) > _EXACT_SCORES


def _upper_tails(probabilities: Sequence[float]) -> list[float]:
    """Return the probability of each number or a larger one, from those of rising numbers."""
    tails = list(accumulate(reversed(probabilities)))
    tails.reverse()
    return tails


def _tail_of_best(tail: float, tried: int) -> float:
    """Return the probability that the best of several independent guessers is in a tail of one guesser."""
    if tail >= 1.0:
        return 1.0
    return -math.expm1(tried * math.log1p(-tail))


def _equal_weights(groups: Sequence[_GuessGroup]) -> RandomBaseline | None:
    """Return the exact distribution of the number of right guesses if all guesses add the same, else None."""
    weights = [group.weight for group in groups]
    if max(weights) - min(weights) > 1e-15:
        return None
    examples_by_labels: Counter[int] = Counter()
    for group in groups:
        examples_by_labels[group.labels] += group.count
    return RandomBaseline(examples_by_labels.total(), examples_by_labels)


def _score_moments(groups: Sequence[_GuessGroup]) -> tuple[float, float]:
    """Return mean and standard deviation of a guesser's score."""
    mean = math.fsum(group.weight * group.count / group.labels for group in groups)
    variance = math.fsum(group.weight**2 * group.count * (group.labels - 1) / group.labels**2 for group in groups)
    return mean, math.sqrt(variance)


def guessing_p_value(guesses: Guesses, score: float, tried: int = 1) -> float:
    """Return the probability that the best of several guessers reaches a score.

    Exact if all guesses add the same, or if few scores are possible. Otherwise scores are rounded to a grid.

    Args:
        guesses: The guesser's score as a sum.
        score: The score to reach.
        tried: Number of guessers.

    Example:
        >>> round(guessing_p_value([(0.01, 2, 100)], 0.59), 4)  # 59 of 100 queries, two labels
        0.0443
    """
    groups = _group_guesses(guesses)
    equal = _equal_weights(groups)
    if equal is not None:
        least_count = max(0, math.ceil(score / groups[0].weight - _COUNT_TOLERANCE))
        if least_count > equal.n:
            return 0.0
        return equal.p_value_of_count(least_count, tried)
    distribution = _score_distribution(groups)
    tail = distribution.tail(score)
    is_rounded = distribution.half_step > 0.0
    if is_rounded and tail < _THIN_TAIL:
        tail = _score_distribution(groups, near=score).tail(score)
    return _tail_of_best(tail, tried)


def expected_best(guesses: Guesses, tried: int = 1) -> float:
    """Return the expected score of the best of several guessers.

    The best of ``tried`` *means* over data sets is smaller than the mean of the bests.

    Args:
        guesses: The guesser's score as a sum.
        tried: Number of guessers.

    Example:
        >>> round(expected_best([(0.01, 2, 100)], 10), 5)
        0.57678
    """
    groups = _group_guesses(guesses)
    mean, deviation = _score_moments(groups)
    if tried == 1 or deviation == 0.0:
        return mean
    equal = _equal_weights(groups)
    if equal is not None:
        return equal.max_random_baseline(tried) * equal.n * groups[0].weight

    # E[best] = lowest score + sum over all higher scores of (distance to the next lower one) * P(best >= score)
    distribution = _score_distribution(groups)
    distances = [higher - lower for lower, higher in pairwise(distribution.scores)]
    tails_of_best = [_tail_of_best(tail, tried) for tail in distribution.tails[1:]]
    return distribution.scores[0] + math.fsum(map(mul, distances, tails_of_best))


def p_value_of_best(p_value: float, tried: int) -> float:
    """Return the probability that the smallest p-value of several independent tries is at most this one.

    Whoever tries t settings and reports the best has t chances to beat a baseline. As the random baseline is that of
    the best of t independent guessers, the p-value against a fixed baseline is ``1 - (1 - p) ** t`` (Sidak). It is
    exact if the tries are independent, and an upper bound if they tend to be right on the same queries. Comparisons of
    runs with each other use Bonferroni's or Holm's correction instead, because there the tests share runs, so that some
    of them depend on each other negatively.

    Args:
        p_value: The p-value of the best try.
        tried: Number of tries.

    Example:
        >>> round(p_value_of_best(0.01, 10), 6), p_value_of_best(0.01, 1)
        (0.095618, 0.01)
    """
    if tried == 1 or p_value >= 1.0:
        return p_value
    # 1 - (1 - p) ** t, with all digits where p is small
    return -math.expm1(tried * math.log1p(-p_value))
