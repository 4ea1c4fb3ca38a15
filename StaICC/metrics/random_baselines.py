"""Baselines without a model: how well guesses do.

A classifier that guesses each of n labels with probability p is right X times, and X is binomial (Poisson binomial when
p differs between examples). Whoever tries t settings and reports the best one has to beat the best of t guessers, not
one of them. With ``F`` the distribution function of X, the best of t independent guessers is right at most k times with
probability ``F(k)**t``; t = 1 is the standard baseline (Yauney and Mimno, "Stronger Random Baselines for In-Context
Learning", COLM 2024, equations 4 to 11 and 18 to 20). The expected maximum is the sum of the tail probabilities, which
is equation 8 without its subtractions. Correct predictions are counted as integers. An accuracy that is no multiple of
1/n is an error; it is not rounded silently.

*Uniform guessing* is random. A guesser may draw for each query, or once for each test row and repeat its guess when the
row is asked again; the second one has the larger variance. Both are reported, and the larger p-value is valid for
either. *The majority label* and *the last demonstration's label* are deterministic on frozen prompts: see
:mod:`StaICC.metrics.fixed_baselines`.

**Small probabilities.** A p-value can be far below the precision of 1, such as 1e-50. So the smaller one of both tails
is computed, without subtracting from 1, and ``1 - F**t`` is computed as ``-expm1(t * log1p(-tail))``.

A tail of the number of right guesses is the integral of its generating function around a circle whose radius is near
the saddlepoint (Daniels 1954). The terms of this integral do not cancel, so all digits are correct, however small the
tail. The trapezoidal rule is exact for a number with a bound, and needs few nodes where the distribution is wide.
Binomial probabilities are computed by their ratios, from the mode outwards, and added by convolution.

**Words of this module.** A *group* is a number of independent trials with the same chance of success. *Tilting* a
distribution (exponential tilting) multiplies the probability of each value s by ``exp(theta * s)``, and normalises. A
theta that moves the mean into a tail makes the tail probable, so that it can be computed with all its digits; then the
factor is divided out.
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
from typing import NamedTuple

from StaICC.argument_syntax import in_each_syntax
from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError

Groups = tuple[tuple[float, int], ...]
"""Pairs of (probability of a success, number of such trials)."""

_ZERO = 1e-300
"""Smaller chances of success count as zero."""

_SMALLEST = 1e-320
"""Probabilities below it are left out of exact distributions: floating point has too few digits for them."""

_NEGLIGIBLE = 1e-18
"""Terms that change no digit of a sum."""

_LARGEST_TILT = 800.0
"""Bound of theta in tilting: it makes even a chance of `_ZERO`, which has the log-odds -691, almost certain."""

# -- sums of independent trials


@dataclass(frozen=True, slots=True)
class _Trials:
    """A group of independent trials with the same chance of success."""

    weight: float
    """What a success adds to the sum."""
    log_odds: float
    """Logarithm of the chance of success over the chance of failure."""
    count: int


@dataclass(frozen=True, slots=True)
class _Distribution:
    """Probabilities of consecutive integers; all other integers have a negligible probability."""

    smallest: int
    """The smallest of the integers."""
    probabilities: list[float]
    """The probability of each integer, from the smallest one upwards."""


@dataclass(frozen=True, slots=True)
class _Tilt:
    """Exponential tilting of a sum: the probability of each value s is multiplied by ``exp(theta * s)``."""

    theta: float
    log_factor: float
    """Logarithm of the mean of ``exp(theta * s)`` under the distribution that is not tilted, which normalises."""
    log_odds: list[float]
    """Log-odds of a success after tilting, for each group of trials."""


@dataclass(frozen=True, slots=True)
class _TiltedTrials:
    """A group of independent trials after tilting."""

    failure: float
    """Chance of a failure, with all of its digits; so it is not computed as 1 minus that of a success."""
    success: float
    """Chance of a success."""
    count: int


def _uncertain(groups: Groups) -> Groups:
    """Return the groups of trials that can both fail and succeed: the chance of success is neither 0 nor 1."""
    return tuple((rate, count) for rate, count in groups if _ZERO <= rate < 1.0)


def _trials(groups: Groups) -> list[_Trials]:
    """Return the groups of trials that can both fail and succeed; a success of each trial adds 1 to the sum."""
    trials = []
    for rate, count in _uncertain(groups):
        log_odds = math.log(rate) - math.log1p(-rate)
        trials.append(_Trials(weight=1, log_odds=log_odds, count=count))
    return trials


def _binomial(n: int, log_odds: float, negligible: float = _NEGLIGIBLE) -> _Distribution:
    """Return the distribution of the number of successes in n trials.

    The probabilities are computed from the mode outwards, by the ratios of neighbours: upwards
    P(k + 1) / P(k) = (n - k) / (k + 1) * odds, and downwards P(k - 1) / P(k) = k / (n - k + 1) / odds. The mode has the
    largest probability, so that nothing underflows.

    Args:
        n: Number of trials.
        log_odds: Log-odds of a success.
        negligible: Probabilities below this multiple of the largest one are left out.
    """
    odds = math.exp(log_odds)
    mode = min(n, int((n + 1) * (odds / (1.0 + odds))))
    # Both lists have probabilities as multiples of that of the mode, and begin with the mode.
    upwards = _running_product(((n - k) / (k + 1) * odds for k in range(mode, n)), negligible)
    downwards = _running_product((k / (n - k + 1) / odds for k in range(mode, 0, -1)), negligible)
    below_mode = downwards[1:]
    below_mode.reverse()

    total = math.fsum(upwards) + math.fsum(downwards) - 1.0  # the mode is in both
    probabilities = [multiple / total for multiple in (*below_mode, *upwards)]
    return _Distribution(smallest=mode - len(below_mode), probabilities=probabilities)


def _running_product(ratios: Iterable[float], negligible: float) -> list[float]:
    """Return the cumulative products of the ratios, beginning with 1, without the first negligible one and the rest."""
    products = [1.0]
    product = 1.0
    for ratio in ratios:
        product *= ratio
        if product <= negligible:
            break
        products.append(product)
    return products


def _count_distribution(trials: Iterable[_Trials], negligible: float) -> _Distribution:
    """Return the distribution of the number of successes in all trials (Poisson binomial), by convolution.

    Args:
        trials: The groups of trials.
        negligible: As for :func:`_binomial`.
    """
    total = _Distribution(smallest=0, probabilities=[1.0])
    for group in trials:
        added = _binomial(group.count, group.log_odds, negligible)
        probabilities = _convolve(total.probabilities, added.probabilities)
        total = _Distribution(total.smallest + added.smallest, probabilities)
    return total


def _convolve(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the convolution: the probabilities of the sum of two independent numbers, from those of each number.

    The sum is n if the first number is k and the second one n - k, for any k. So its probability is
    ``sum over k of first[k] * second[n - k]``: the reversed second list is moved along the first one.
    """
    longer, shorter = first, second
    if len(first) < len(second):
        longer, shorter = second, first
    zeros = [0.0] * (len(shorter) - 1)
    padded = [*zeros, *longer, *zeros]
    reversed_shorter = shorter[::-1]
    probabilities = []
    for n in range(len(longer) + len(shorter) - 1):
        window = padded[n : n + len(shorter)]
        probabilities.append(sum(map(mul, reversed_shorter, window)))
    return probabilities


def _tilt(trials: Sequence[_Trials], target_mean: float) -> _Tilt:
    """Return the exponential tilting that moves the mean of the sum of all trials to a target.

    Tilting by theta multiplies the probability of each value s of the sum by ``exp(theta * s)``, and divides by the
    mean of this factor. A trial stays a trial: its log-odds of success become ``log_odds + theta * weight``. For one
    trial, the mean of the factor is ``(1 + exp(tilted log_odds)) / (1 + exp(log_odds))``; for the sum, it is the
    product.

    The mean of the sum rises with theta, which is found by bisection.

    Args:
        trials: The groups of trials.
        target_mean: The mean of the sum after tilting.
    """
    high = _LARGEST_TILT / max(group.weight for group in trials)
    low = -high
    theta = 0.0
    # The bisection may stop early: tilting by any theta is exact, only slower if the mean is far from the target.
    while high - low > 1e-9 * max(abs(low), abs(high)):
        theta = (low + high) / 2.0
        if _tilted_mean(trials, theta) < target_mean:
            low = theta
        else:
            high = theta

    # softplus(x) = log(1 + exp(x))
    log_odds = []
    log_factors = []
    for group in trials:
        tilted_log_odds = group.log_odds + theta * group.weight
        log_odds.append(tilted_log_odds)
        log_factors.append(group.count * (_softplus(tilted_log_odds) - _softplus(group.log_odds)))
    return _Tilt(theta, log_factor=math.fsum(log_factors), log_odds=log_odds)


def _tilted_mean(trials: Sequence[_Trials], theta: float) -> float:
    """Return the mean of the sum of all trials after tilting by theta."""
    means = []
    for group in trials:
        chance = _chance(group.log_odds + theta * group.weight)
        means.append(group.weight * group.count * chance)
    return math.fsum(means)


def _chance(log_odds: float) -> float:
    """Return the chance with these log-odds (logistic function)."""
    bounded = max(-700.0, min(700.0, -log_odds))  # beyond 700, exp() would overflow
    return 1.0 / (1.0 + math.exp(bounded))


def _softplus(x: float) -> float:
    """Return log(1 + exp(x)) without overflow."""
    return max(0.0, x) + math.log1p(math.exp(-abs(x)))


def _mean_and_deviation(groups: Groups) -> tuple[float, float]:
    """Return mean and standard deviation of the number of successes."""
    mean = math.fsum(rate * count for rate, count in groups)
    variance = math.fsum(rate * (1.0 - rate) * count for rate, count in groups)
    return mean, math.sqrt(variance)


class LogTail(NamedTuple):
    """A tail probability of the number X of successes."""

    logarithm: float
    """The natural logarithm of the probability."""
    is_upper: bool
    """Whether the tail is ``X >= k``; otherwise it is ``X <= k``."""


def log_tail(groups: Groups, k: int) -> LogTail:
    """Return the probability of the tail that begins at k and leads away from the mean of the number of successes.

    If k is above the mean, it is that of k or more successes, else that of k or fewer. Its logarithm has full
    precision, also for tiny probabilities.

    Args:
        groups: Chances and numbers of trials.
        k: The number of successes at which the tail begins.
    """
    mean, _ = _mean_and_deviation(groups)
    certain_successes = sum(count for rate, count in groups if rate == 1.0)
    uncertain = _uncertain(groups)
    if k > mean:
        return LogTail(_log_upper_tail(uncertain, k - certain_successes), is_upper=True)
    return LogTail(_log_lower_tail(uncertain, k - certain_successes), is_upper=False)


def _log_upper_tail(uncertain: Groups, k: int) -> float:
    """Return the logarithm of P(X >= k), where X is the number of successes in independent trials.

    Args:
        uncertain: Chances and numbers of the trials; no chance is 0 or 1.
        k: The first number of the tail.
    """
    n = sum(count for _, count in uncertain)
    if k <= 0:
        return 0.0
    if k > n:
        return -math.inf
    if k == n:  # all trials succeed: the product of their chances
        return math.fsum(math.log(rate) * count for rate, count in uncertain)
    return _log_tail_by_contour(uncertain, k, is_upper=True)


def _log_lower_tail(uncertain: Groups, k: int) -> float:
    """Return the logarithm of P(X <= k), where X is the number of successes in independent trials.

    Args:
        uncertain: Chances and numbers of the trials; no chance is 0 or 1.
        k: The last number of the tail.
    """
    n = sum(count for _, count in uncertain)
    if k >= n:
        return 0.0
    if k < 0:
        return -math.inf
    if k == 0:  # all trials fail: the product of their chances of failure
        return math.fsum(math.log1p(-rate) * count for rate, count in uncertain)
    return _log_tail_by_contour(uncertain, k, is_upper=False)


def _log_tail_by_contour(uncertain: Groups, k: int, is_upper: bool) -> float:
    """Return the natural logarithm of the probability that the number X of successes is in a tail.

    Let G(z) = E[z^X] be the generating function of X. On a circle around 0 in the complex plane, at the points
    ``z = exp(theta + i angle)``, the mean over all angles of ``G(z) z^-k`` is P(X = k): the mean of ``z^(X - k)`` is 0
    unless X = k (Cauchy's integral formula). In the same way (Daniels 1954, Lugannani and Rice 1980)::

        P(X >= k) = mean of G(z) z^-k / (1 - 1/z)   for theta > 0
        P(X <= k) = mean of G(z) z^-k / (1 - z)     for theta < 0

    because the geometric series ``1 / (1 - 1/z) = 1 + 1/z + 1/z^2 + ...`` adds the probabilities of k + 1, k + 2 and so
    on, and ``1 / (1 - z)`` those of k - 1, k - 2 and so on.

    If phi is the characteristic function of X after tilting by theta, then
    ``G(z) z^-k = exp(log_factor - theta * k) * phi(angle) * exp(-i k angle)``. The first factor does not depend on the
    angle; :func:`_mean_around_circle` has the mean of the others.

    Args:
        uncertain: Chances and numbers of the trials; no chance is 0 or 1.
        k: The number at which the tail begins, from 1 to the number of trials minus 1.
        is_upper: Whether the tail is P(X >= k); else P(X <= k).
    """
    # Any theta of the right sign is exact. The best one is that of the saddlepoint: tilting by it moves the mean of X
    # to k. If k is the mean itself, this theta is 0, and the circle passes through z = 1, where the denominator is 0.
    # So the mean is moved by at least one standard deviation: upwards for the upper tail, downwards for the lower tail.
    mean, deviation = _mean_and_deviation(uncertain)
    sign = 1.0 if is_upper else -1.0
    distance_from_mean = max(deviation, abs(k - mean))
    tilted_mean = mean + sign * distance_from_mean
    tilt = _tilt(_trials(uncertain), tilted_mean)

    tilted_trials = []
    for log_odds, (_, count) in zip(tilt.log_odds, uncertain, strict=True):
        tilted_trials.append(_TiltedTrials(_chance(-log_odds), _chance(log_odds), count))

    mean_around_circle = _mean_around_circle(tilted_trials, tilt.theta, k, is_upper)
    log_of_tail = tilt.log_factor - tilt.theta * k + math.log(mean_around_circle)
    return min(0.0, log_of_tail)  # rounding may give a probability above 1


def _mean_around_circle(tilted_trials: Sequence[_TiltedTrials], theta: float, k: int, is_upper: bool) -> float:
    """Return a mean over the angles of a circle that is the probability of a tail, but for a constant factor.

    :func:`_log_tail_by_contour` has the factor, and the reason. With ``z = exp(theta + i angle)``, it is the mean over
    all angles of::

        phi(angle) * exp(-i k angle) / (1 - 1/z)   for the upper tail
        phi(angle) * exp(-i k angle) / (1 - z)     for the lower tail

    Here phi is the characteristic function of the number of successes: the product over all trials of
    ``failure + success * exp(i angle)``.

    The trapezoidal rule takes the mean over an odd number of nodes at equal distances, the angles
    ``2 pi node / nodes``. Node 0 is alone; the others are pairs with opposite angles, and values that are complex
    conjugates. So the sum over a pair is twice the real part of one of them, and half of the nodes is enough.

    Args:
        tilted_trials: The trials.
        theta: The logarithm of the radius of the circle.
        k: The number at which the tail begins.
        is_upper: Whether the tail begins at k and leads upwards; else it leads downwards.
    """
    nodes = _contour_nodes(tilted_trials, theta)
    step = 2.0 * math.pi / nodes
    sign = 1.0 if is_upper else -1.0
    total = 0.0
    for node in range(nodes // 2 + 1):
        angle = step * node
        unit_root = cmath.rect(1.0, angle)  # exp(i angle)
        phi = math.prod([(group.failure + group.success * unit_root) ** group.count for group in tilted_trials])
        # exp(-i k angle): k times the angle is k * node steps. Whole turns are left out, so that no digit is lost.
        steps_of_last_turn = node * k % nodes
        rotation = cmath.rect(1.0, -step * steps_of_last_turn)
        denominator = 1.0 - cmath.exp(-sign * complex(theta, angle))
        real_part = (phi * rotation / denominator).real
        if node == 0:
            total += real_part
        else:
            total += 2.0 * real_part
        # The absolute value of phi falls from 1 at the angle 0 to the angle pi. So all further terms are negligible.
        if abs(phi) < _NEGLIGIBLE:
            break
    return total / nodes


def _contour_nodes(tilted_trials: Sequence[_TiltedTrials], theta: float) -> int:
    """Return an odd number of nodes with which the trapezoidal rule around the circle is exact to all digits.

    Two errors must be negligible:

    - The rule cannot distinguish numbers of successes that differ by a multiple of the number of nodes. So there are at
      least as many nodes as numbers with a noticeable probability: 24 standard deviations (12 on each side of the mean,
      beyond which a normal variable is with a probability below 1e-32) and 60 more for small deviations.
    - The integrand has a pole at z = 1, at the distance theta from the circle, which adds an error of
      ``exp(-nodes * theta)``. With 40 / theta more nodes it is below ``exp(-40)``, about 4e-18.

    Args:
        tilted_trials: The trials.
        theta: The logarithm of the radius of the circle, not 0.
    """
    n = sum(group.count for group in tilted_trials)
    variance = math.fsum(group.failure * group.success * group.count for group in tilted_trials)
    noticeable_numbers = min(n, 24.0 * math.sqrt(variance) + 60.0)
    nodes = int(noticeable_numbers + 40.0 / abs(theta))
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
    """Return a number from 0 to 1 as a float.

    Args:
        value: The number that a user gave.
        name: What the error message calls it.

    Raises:
        ArgumentError: It is no number from 0 to 1.
    """
    if isinstance(value, bool | str | bytes):  # float() would accept them
        raise _share_error(value, name)
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise _share_error(value, name) from None
    if not 0.0 <= share <= 1.0:
        raise _share_error(value, name)
    return share


def _share_error(value: object, name: str) -> ArgumentError:
    """Return the error for a value that is no number from 0 to 1; ``name`` says what the value is."""
    return ArgumentError(f"{name} must be a number between 0 and 1, not {value!r}")


def _groups(n: int, p: GuessRates) -> Groups:
    """Return the examples in groups: pairs of a probability of a right guess and the number of examples that have it.

    The pairs are sorted by probability. Groups without examples are left out.

    Args:
        n: Number of examples.
        p: The probability of a right guess, in one of three forms: one number for all examples; a list with one number
            for each example; or a mapping from a number of labels to the number of examples with that many labels. With
            4 labels, a guess is right with the probability 1/4. So ``{4: 10}`` gives ``((0.25, 10),)``.

    Raises:
        ArgumentError: A probability is invalid, or p is for another number of examples.
    """
    example_counts: Counter[float] = Counter()
    if isinstance(p, Mapping):
        for given_labels, given_examples in p.items():
            name_of_count = f"the number of examples with {given_labels!r} labels in p"
            n_examples = validate_integer(name_of_count, given_examples, 0)
            n_labels = validate_integer("a number of labels in p", given_labels, 1)
            example_counts[1.0 / n_labels] += n_examples
    elif isinstance(p, Iterable):
        for position, rate in enumerate(p):
            example_counts[_share(rate, f"p[{position}]")] += 1
    else:
        example_counts[_share(p, "p")] = n
    if example_counts.total() != n:
        raise ArgumentError(
            f"{in_each_syntax('p', '--labels')} is for {example_counts.total()} examples, but n is {n}; "
            "make them the same"
        )
    return tuple(sorted((rate, count) for rate, count in example_counts.items() if count > 0))


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
        """Expected accuracy of the best of t guessers (equation 8 of Yauney and Mimno 2024).

        With B the largest number of right guesses of a guesser, and s its smallest possible value,
        ``E[B] = s + sum over all k > s of P(B >= k)``.

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

        # Examples with p = 1 are guessed right for certain, and those with p = 0 never. Of the others, `uncertain` has
        # the distribution of the number of right guesses of one guesser.
        certain = sum(count for rate, count in self.p if rate == 1.0)
        negligible = _NEGLIGIBLE / t  # the tail of the best is up to t times that of one
        uncertain = _count_distribution(_trials(self.p), negligible)
        smallest = certain + uncertain.smallest
        tails_from_smallest = _upper_tails(uncertain.probabilities)  # P(X >= k) for k = smallest, smallest + 1, ...
        tails_of_best = [_tail_of_best(tail, t) for tail in tails_from_smallest[1:]]  # P(B >= k) for all k > smallest
        return (smallest + math.fsum(tails_of_best)) / self.n

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
            acc: The accuracy as text. Its number of digits after the point says how it was rounded.

        Returns:
            The integer k with k / n = acc, if there is one. Otherwise the only integer k for which k / n, rounded to as
            many digits as acc has, is acc. A half may be rounded up or down: 1/16 is 0.062 or 0.063.

        Raises:
            ArgumentError: acc is no number from 0 to 1, no integer k gives it, or several do.

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
        possible_counts = self._counts_rounded_to(acc)
        if len(possible_counts) == 1:
            return possible_counts[0]

        # The message names the two counts next to the printed accuracy.
        digits = _digits_after_point(acc)
        below = int(exact_count)
        near = " and ".join(f"{k}/{self.n} = {k / self.n:.{digits}f}" for k in (below, below + 1))
        raise ArgumentError(
            f"an accuracy of {acc} is no share of n = {self.n} queries, or that of several counts: near it are "
            f"{near}. Give the accuracy with more digits, or the right n"
        )

    def _counts_rounded_to(self, acc: str) -> range:
        """Return the numbers of correct predictions whose accuracy can be printed as a text.

        These accuracies are at most half a unit of the last digit away from the printed one, which is read exactly, as
        a decimal fraction.
        """
        half_of_last_digit = Fraction(1, 2 * 10 ** _digits_after_point(acc))
        lowest = math.ceil((Fraction(acc) - half_of_last_digit) * self.n)
        highest = math.floor((Fraction(acc) + half_of_last_digit) * self.n)
        return range(lowest, highest + 1)

    def count(self, acc: float) -> int:
        """Number of correct predictions for an accuracy.

        Args:
            acc: The accuracy; integers and fractions are taken as well.

        Returns:
            The integer k with k / n = acc. Rounding errors are tolerated: 0.29 of 100 is 29.

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
        """Return the natural logarithm of the probability that the best of t guessers has at least k right guesses.

        With X the number of right guesses of one guesser, it is the logarithm of ``1 - P(X < k)^t``. It is computed
        from the smaller one of P(X < k) and P(X >= k), which has all digits. The other one, a number near 1, has not.
        """
        t = validate_integer("t", t, minimum=1)
        if k == 0:
            return 0.0
        mean, _ = _mean_and_deviation(self.p)
        if k <= mean:
            # P(X < k) = P(X <= k - 1) is the smaller one: log_tail() of a number below the mean is its lower tail.
            log_below = log_tail(self.p, k - 1).logarithm
        else:
            # P(X >= k) is the smaller one: log_tail() of a number above the mean is its upper tail.
            log_at_least = log_tail(self.p, k).logarithm
            if log_at_least <= _FULL_PRECISION:  # so small that exp() would lose digits
                # With s = P(X >= k), 1 - (1 - s)^t is t s but for a relative error of at most t s, far below rounding.
                return min(0.0, math.log(t) + log_at_least)
            log_below = math.log1p(-math.exp(log_at_least))
        return math.log(-math.expm1(t * log_below))  # 1 - P(X < k)^t


def _digits_after_point(number: str) -> int:
    """Return the number of digits after the decimal point in a number that is written as text; at most 20.

    It is two for ``0.55`` and for ``5.5e-1``: a negative exponent moves the point to the left, which adds digits.
    """
    mantissa, _, exponent = number.lower().partition("e")
    _, _, decimals = mantissa.strip().partition(".")
    digits = len(decimals)
    if exponent:
        digits -= int(exponent)
    return min(20, max(0, digits))


# -- the best of several guessers, in a mean over data sets

Guesses = Sequence[tuple[float, int, int]]
"""The score of a guesser as a sum: (weight that one right guess adds, number of labels, number of such guesses).

The mean accuracy over a data set of 100 queries with 2 labels and one of 50 queries with 4 labels, for example, is
``[(0.005, 2, 100), (0.01, 4, 50)]``.
"""

_EXACT_SCORES = 20_000
"""Up to this number of different scores, their distribution is exact. More scores are rounded to a grid."""
_EXACT_PRODUCTS = 40 * _EXACT_SCORES
"""Up to this number of products of probabilities, the distribution is exact. It limits the time for many guesses."""

_GRID_POINTS = 64
"""Number of grid points for each standard deviation of the score."""
_GRID_NEGLIGIBLE = 1e-15
"""On a grid, smaller probabilities are left out."""
_THIN_TAIL = 1e-9
"""On a grid, smaller tails are computed after tilting, because they consist of probabilities that were left out."""

_SAME_SCORE = 1e-9
"""Scores that differ by less are the same after rounding."""


@dataclass(frozen=True, slots=True)
class _GuessGroup:
    """Guesses with the same weight in the score and the same number of labels."""

    weight: float
    """What a right guess adds to the score."""
    labels: int
    count: int
    """Number of guesses."""


@dataclass(frozen=True, slots=True)
class _ScoreDistribution:
    """The distribution of the score of one guesser."""

    scores: list[float]
    """All possible scores, in ascending order."""
    tails: list[float]
    """For each score the probability of this score or a larger one."""
    half_step: float
    """Half of the distance between neighbours on the grid of scores; 0 if the scores are exact, not rounded."""

    @property
    def is_rounded(self) -> bool:
        """Whether the scores are rounded to a grid."""
        return self.half_step > 0.0

    def tail(self, score: float) -> float:
        """Return the probability of a score or a larger one.

        A score that is rounded down to the grid counts as reached, so that the p-value is not too small. Exact scores
        may have rounding errors, up to :data:`_SAME_SCORE`.
        """
        lowest_score_in_tail = score - max(self.half_step, _SAME_SCORE)
        position = bisect_left(self.scores, lowest_score_in_tail)
        if position == len(self.scores):  # all possible scores are lower
            return 0.0
        return self.tails[position]


def _group_guesses(guesses: Guesses) -> tuple[_GuessGroup, ...]:
    """Return the guesses in groups, sorted by weight, so that the order of the data sets does not matter.

    The few large weights come first, so that their sums are exact (see :func:`_score_distribution`).
    """
    counts: Counter[tuple[float, int]] = Counter()
    for weight, labels, count in guesses:
        counts[weight, labels] += count
    groups = []
    for (weight, labels), count in sorted(counts.items(), reverse=True):
        groups.append(_GuessGroup(weight, labels, count))
    return tuple(groups)


def _distribution_of_sum(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """Return the distribution of the sum of two independent random integers: the probability of each value.

    Args:
        first: The probability of each value of the first integer.
        second: The probability of each value of the second integer.
    """
    total: dict[int, float] = {}
    for first_value, first_probability in first.items():
        for second_value, second_probability in second.items():
            value = first_value + second_value
            total[value] = total.get(value, 0.0) + first_probability * second_probability
    return total


def _on_grid(distribution: Mapping[int, float], scale: Fraction) -> dict[int, float]:
    """Return the distribution of an integer times a scale, rounded to integers so that its mean does not change.

    A product between two integers is divided between them: the upper one gets a share of its probability that is the
    distance from the product to the lower one. For example, 2 times the scale 0.6 is 1.2, of which 1 gets 80 % of the
    probability and 2 gets 20 %.

    Args:
        distribution: The probability of each value of the integer.
        scale: What it is multiplied by.
    """
    scaled: dict[int, float] = {}
    for value, probability in distribution.items():
        below, remainder = divmod(value * scale.numerator, scale.denominator)
        share_above = remainder / scale.denominator
        scaled[below] = scaled.get(below, 0.0) + probability * (1.0 - share_above)
        if remainder:
            scaled[below + 1] = scaled.get(below + 1, 0.0) + probability * share_above
    return scaled


@dataclass(frozen=True, slots=True)
class _SumOfGuesses:
    """The distribution of what some guesses add to the score.

    A sum is kept as an integer, in multiples of a unit: with the unit 0.01, the sum 0.37 is 37.
    """

    probabilities: Mapping[int, float]
    """The probability of each sum."""
    unit: Fraction
    is_rounded: bool
    """Whether sums are rounded to a grid, whose step is the unit; otherwise they are exact."""

    def rounded(self, grid_step: Fraction) -> _SumOfGuesses:
        """Return the sums on a grid, without those that have a negligible probability."""
        noticeable = {}
        for value, probability in self.probabilities.items():
            if probability > _GRID_NEGLIGIBLE:
                noticeable[value] = probability
        return _SumOfGuesses(_on_grid(noticeable, self.unit / grid_step), grid_step, is_rounded=True)

    def with_guesses(self, n_guesses: int, log_odds: float, weight: Fraction) -> _SumOfGuesses:
        """Return the distribution with some more guesses.

        Args:
            n_guesses: Number of guesses.
            log_odds: Log-odds of a right guess.
            weight: What a right guess adds.
        """
        negligible = _GRID_NEGLIGIBLE if self.is_rounded else _SMALLEST
        right_guesses = _binomial(n_guesses, log_odds, negligible)
        added = dict(enumerate(right_guesses.probabilities, start=right_guesses.smallest))
        probabilities = _distribution_of_sum(self.probabilities, _on_grid(added, weight / self.unit))
        return _SumOfGuesses(probabilities, self.unit, self.is_rounded)


@lru_cache(maxsize=64)
def _score_distribution(groups: tuple[_GuessGroup, ...], near: float | None = None) -> _ScoreDistribution:
    """Return the distribution of the score of a random guesser.

    The groups of guesses are added one after the other. The sums are exact while there are few of them. As soon as the
    next group could make more than ``_EXACT_SCORES`` different sums, they are rounded to a grid, and small
    probabilities are left out.

    Args:
        groups: The guesses; large weights first, so that few sums come before many.
        near: ``None``, or a score in a thin tail, which consists of small probabilities. Then the distribution is
            tilted before the groups are added, so that its mean is this score and probabilities near it are large. The
            tilting is undone at the end.
    """
    trials = [_guess_trials(group) for group in groups]
    if near is None:
        tilt = _Tilt(theta=0.0, log_factor=0.0, log_odds=[group.log_odds for group in trials])
    else:
        tilt = _tilt(trials, near)

    # Sums are kept as integers, in multiples of a unit that divides all weights.
    weights = [Fraction(group.weight).limit_denominator(10**8) for group in groups]
    common_unit = Fraction(1, math.lcm(*(weight.denominator for weight in weights)))
    score = _SumOfGuesses({0: 1.0}, common_unit, is_rounded=False)
    for group, weight, log_odds in zip(groups, weights, tilt.log_odds, strict=True):
        largest_addition = int(weight * group.count / score.unit)
        if not score.is_rounded and _has_many_sums(score.probabilities, group.count, largest_addition):
            _, deviation = _score_moments(groups)
            score = score.rounded(grid_step=Fraction(deviation / _GRID_POINTS))
        score = score.with_guesses(group.count, log_odds, weight)
    return _without_tilt(score, tilt)


def _without_tilt(tilted_score: _SumOfGuesses, tilt: _Tilt) -> _ScoreDistribution:
    """Return the distribution of a score from its tilted distribution, by dividing by the factor of the tilting.

    Tilting multiplied the probability of each score by ``exp(theta * score - log_factor)``.

    Args:
        tilted_score: The tilted distribution of the score, in multiples of its unit.
        tilt: The tilting; with theta 0 it changes nothing.
    """
    scores = []
    probabilities = []
    for multiple, tilted_probability in sorted(tilted_score.probabilities.items()):
        score = float(multiple * tilted_score.unit)
        scores.append(score)
        probabilities.append(tilted_probability * math.exp(tilt.log_factor - tilt.theta * score))
    half_step = 0.0
    if tilted_score.is_rounded:
        half_step = float(tilted_score.unit / 2)
    return _ScoreDistribution(scores, _upper_tails(probabilities), half_step)


def _guess_trials(group: _GuessGroup) -> _Trials:
    """Return guesses as trials: a guess among n labels has the odds 1 / (n - 1)."""
    log_odds = -math.log(max(group.labels - 1, _ZERO))
    return _Trials(group.weight, log_odds, group.count)


def _has_many_sums(total: Mapping[int, float], n_guesses: int, largest_addition: int) -> bool:
    """Return whether a sum of guesses has too many possible values for an exact distribution, with one more group.

    Each value of the sum so far is added to each number of right guesses, from 0 to n_guesses. The new sums are at most
    as many as these pairs, and at most as many as the integers from the smallest to the largest sum.

    Args:
        total: The distribution of the sum without the group: the probability of each value, an integer.
        n_guesses: Number of guesses of the group.
        largest_addition: What the group adds if all of its guesses are right.
    """
    pairs = len(total) * (n_guesses + 1)
    integers_in_range = max(total) - min(total) + 1 + largest_addition
    return pairs > _EXACT_PRODUCTS or min(pairs, integers_in_range) > _EXACT_SCORES


def _upper_tails(probabilities: Sequence[float]) -> list[float]:
    """Return the upper tail of each number: the probability of this number or a larger one.

    Args:
        probabilities: The probability of each number, in ascending order of the numbers.
    """
    tails = list(accumulate(reversed(probabilities)))
    tails.reverse()
    return tails


def _tail_of_best(tail: float, tried: int) -> float:
    """Return the probability that the best of several independent guessers is in a tail: ``1 - (1 - tail)^tried``.

    Args:
        tail: The probability that one guesser is in it.
        tried: Number of guessers.
    """
    if tail >= 1.0:
        return 1.0
    return -math.expm1(tried * math.log1p(-tail))


def _baseline_of_equal_weights(groups: Sequence[_GuessGroup]) -> RandomBaseline | None:
    """Return the random baseline of guesses that all have the same weight; ``None`` if the weights differ.

    With equal weights, the score is the weight times the number of right guesses, which has an exact distribution.

    Args:
        groups: The guesses, in groups with the same weight and the same number of labels.
    """
    weights = [group.weight for group in groups]
    if max(weights) - min(weights) > 1e-15:  # smaller differences are rounding errors
        return None
    examples_by_labels: Counter[int] = Counter()
    for group in groups:
        examples_by_labels[group.labels] += group.count
    return RandomBaseline(examples_by_labels.total(), examples_by_labels)


def _score_moments(groups: Sequence[_GuessGroup]) -> tuple[float, float]:
    """Return mean and standard deviation of a guesser's score.

    A guess among L labels is right with probability 1/L, and so has the variance (L - 1) / L^2.
    """
    mean = math.fsum(group.weight * group.count / group.labels for group in groups)
    variance = math.fsum(group.weight**2 * group.count * (group.labels - 1) / group.labels**2 for group in groups)
    return mean, math.sqrt(variance)


def guessing_p_value(guesses: Guesses, score: float, tried: int = 1) -> float:
    """Return the probability that the best of several random guessers reaches a score.

    The score of a guesser is a sum, such as a mean accuracy over data sets: each right guess adds a weight. The p-value
    is exact if all guesses have the same weight, or if few scores are possible. Otherwise scores are rounded to a grid
    (:func:`_score_distribution`).

    Args:
        guesses: The score of one guesser, as tuples of three numbers: the weight that one right guess adds, the number
            of labels among which it is guessed, and the number of such guesses.
        score: The score to reach.
        tried: Number of guessers.

    Example:
        >>> round(guessing_p_value([(0.01, 2, 100)], 0.59), 4)  # 59 of 100 queries, two labels
        0.0443
    """
    groups = _group_guesses(guesses)
    baseline = _baseline_of_equal_weights(groups)
    if baseline is not None:
        weight = groups[0].weight
        least_count = max(0, math.ceil(score / weight - _COUNT_TOLERANCE))
        if least_count > baseline.n:
            return 0.0
        return baseline.p_value_of_count(least_count, tried)

    distribution = _score_distribution(groups)
    tail = distribution.tail(score)
    # A distribution on a grid lacks small probabilities, of which a thin tail consists. So it is computed again, with
    # the distribution that has all digits near the score.
    if distribution.is_rounded and tail < _THIN_TAIL:
        distribution_near_score = _score_distribution(groups, near=score)
        tail = distribution_near_score.tail(score)
    return _tail_of_best(tail, tried)


def expected_best(guesses: Guesses, tried: int = 1) -> float:
    """Return the expected score of the best of several guessers.

    The best of t guessers reaches a score with the probability ``1 - (1 - tail)^t``, where tail is the probability that
    one guesser reaches it. Its expected score is the lowest possible score, plus the sum over all higher scores of
    (distance to the next lower one) times this probability.

    The score may be a mean over data sets. The best mean of all guessers is smaller than the mean of the best scores,
    because no guesser is the best one on all data sets.

    Args:
        guesses: The score of one guesser, as for :func:`guessing_p_value`.
        tried: Number t of guessers.

    Example:
        >>> round(expected_best([(0.01, 2, 100)], 10), 5)
        0.57678
    """
    groups = _group_guesses(guesses)
    mean, deviation = _score_moments(groups)
    if tried == 1 or deviation == 0.0:
        return mean
    baseline = _baseline_of_equal_weights(groups)
    if baseline is not None:
        weight = groups[0].weight
        return baseline.max_random_baseline(tried) * baseline.n * weight

    distribution = _score_distribution(groups)
    distances = [higher - lower for lower, higher in pairwise(distribution.scores)]
    tails_of_best = [_tail_of_best(tail, tried) for tail in distribution.tails[1:]]
    return distribution.scores[0] + math.fsum(map(mul, distances, tails_of_best))


def p_value_of_best(p_value: float, tried: int) -> float:
    """Return the p-value of the best of several tries, with Sidak's correction: ``1 - (1 - p) ** tried``.

    This is the probability that the smallest p-value of independent tries is at most p. If the tries tend to be right
    on the same queries, it is an upper bound. It fits the random baseline, which is that of the best of as many
    independent guessers. Comparisons of runs with each other use Bonferroni's or Holm's correction instead, because
    tests that share runs may depend on each other negatively.

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
