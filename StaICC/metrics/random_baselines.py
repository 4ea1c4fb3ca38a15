"""Random and trivial baselines: how well guesses do, and p-values against predictors that need no model.

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
majority label* and *the last demonstration's label* are deterministic on frozen prompts. A run is compared with them on
the same queries: a one-sided sign test over test rows, in which the difference of a row (all its queries together)
keeps its size and takes either sign with probability 1/2.

A binomial distribution is computed by the ratios of its probabilities, from the mode outwards: every term is positive,
so nothing cancels. Trials with different chances of success (Hong 2013, "On computing the distribution function for the
Poisson binomial distribution") are polynomials that are multiplied in a tree. The coefficients of a polynomial are
fixed-point numbers in the slots of one large integer (Kronecker substitution), so that one multiplication of integers
multiplies two polynomials. Fixed-point numbers have an absolute precision. A tail is therefore computed under a tilted
distribution (large deviations; Daniels 1954), whose mean is at the tail: all its digits are correct, however small.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise, repeat
from operator import mul, neg, truediv
from statistics import NormalDist
from typing import NamedTuple

from StaICC.errors import ArgumentError, validate_integer

Groups = tuple[tuple[float, int], ...]
"""Pairs of (probability of a success, number of such trials)."""

SMALLEST = 1e-320
"""The ratios of a binomial distribution end here: smaller numbers have too few digits for a product to fall further."""

_TAIL_BITS = 63
"""Bits after the point of a tilted distribution, of which only the bulk is used."""
_FEW = 12
"""Up to this many trials of one chance are multiplied one by one."""
_BLOCK = 24
"""Trials that are multiplied one by one before trees of products begin."""
_ZERO = 1e-300
"""Smaller chances of success count as zero."""
_STEP = 50.0
"""Largest step of theta."""
_NEAR = 3.0
"""Up to this many standard deviations from the mean, tails are large enough for fixed-point numbers."""
_WIDE = 4.0
"""A smaller variance may come from few trials next to many of no chance: the mean must be nearer then."""


class _Polynomial(NamedTuple):
    """A distribution: the smallest value, and the probabilities from there on in slots of one integer."""

    first: int
    slots: int


@lru_cache(maxsize=64)
def _mask(slots: int, bits: int) -> int:
    """Return ones at the places of the coefficients in each of some slots."""
    width = 2 * bits + 2
    return ((1 << (bits + 2)) - 1) * (((1 << width * slots) - 1) // ((1 << width) - 1))


def _multiply(a: _Polynomial, b: _Polynomial, bits: int) -> _Polynomial:
    """Return the distribution of the sum; what is less probable than a unit of the last bit is left out."""
    width = 2 * bits + 2
    product = a.slots * b.slots
    slots = 1 << (product.bit_length() // width).bit_length()
    product = (product >> bits) & _mask(slots, bits)
    empty = ((product & -product).bit_length() - 1) // width
    return _Polynomial(a.first + b.first + empty, product >> width * empty)


def _one_by_one(successes: Sequence[float], failures: Sequence[float], bits: int) -> _Polynomial:
    """Return the distribution of a few trials, from their chances of success and failure."""
    width, scale, mask = 2 * bits + 2, 2.0**bits, _mask(_BLOCK + _FEW, bits)
    product, double = 1 << bits, 2 * width
    if len(successes) % 2:
        product = int(failures[-1] * scale) + (int(successes[-1] * scale) << width)
    for p, q, r, s in zip(successes[::2], failures[::2], successes[1::2], failures[1::2], strict=False):  # two at once
        pair = int(q * s * scale) + (int((p * s + q * r) * scale) << width) + (int(p * r * scale) << double)
        product = (product * pair >> bits) & mask
    empty = ((product & -product).bit_length() - 1) // width
    return _Polynomial(empty, product >> width * empty)


def _packed(first: int, values: Sequence[float], bits: int) -> _Polynomial:
    size, scale = (2 * bits + 2) // 8, 2.0**bits
    return _Polynomial(
        first, int.from_bytes(b"".join([int(value * scale).to_bytes(size, "little") for value in values]), "little")
    )


def _unpacked(part: _Polynomial, bits: int) -> tuple[int, list[float]]:
    words, scale = (bits + 1) // 32, 2.0**-bits
    number = -(-part.slots.bit_length() // (64 * words)) * words
    content = struct.unpack(f"<{number}Q", part.slots.to_bytes(8 * number, "little"))
    values = [word * scale for word in content[::words]]
    for place in range(1, words // 2):  # a coefficient fills half of its slot
        scale *= 2.0**64
        values = [value + word * scale for value, word in zip(values, content[place::words], strict=True)]
    return part.first, values


def _summands(
    successes: Sequence[float], failures: Sequence[float], numbers: Sequence[int], bits: int, most: int
) -> list[tuple[int, list[float]]]:
    """Return at most some distributions whose sum is the number of successes.

    Args:
        successes: Chances of success.
        failures: Chances of failure.
        numbers: Number of trials with these chances.
        bits: Bits after the point, one less than a multiple of 64.
        most: Number of distributions.
    """
    if len(successes) == 1:
        return [binomial_probabilities(numbers[0], successes[0], 2.0**-bits)]
    parts = []
    if max(numbers) > 1:
        single: list[tuple[float, float]] = []
        for success, failure, number in zip(successes, failures, numbers, strict=True):
            if number > _FEW:
                parts.append(_packed(*binomial_probabilities(number, success, 2.0**-bits), bits))
            else:
                single += [(success, failure)] * number
        successes, failures = zip(*single, strict=True) if single else ((), ())
    for start in range(0, len(successes), _BLOCK):
        parts.append(_one_by_one(successes[start : start + _BLOCK], failures[start : start + _BLOCK], bits))
    while len(parts) > most:  # multiply the shortest, so that the work stays even
        parts.sort(key=lambda part: part.slots.bit_length())
        number = min(len(parts) // 2, len(parts) - most)
        pairs = [_multiply(a, b, bits) for a, b in zip(parts[: 2 * number : 2], parts[1 : 2 * number : 2], strict=True)]
        parts = pairs + parts[2 * number :]
    return [_unpacked(part, bits) for part in parts]


def binomial_probabilities(n: int, p: float, negligible: float = SMALLEST) -> tuple[int, list[float]]:
    """Probabilities of a binomial distribution, by default wherever floating point can hold them.

    Args:
        n: Number of trials, at least 0.
        p: Probability of a success, from 0 to 1.
        negligible: What is below this share of the largest probability is left out.

    Returns:
        The smallest number of successes in the list, and the probabilities from there on.

    Example:
        >>> binomial_probabilities(2, 0.5)
        (0, [0.25, 0.5, 0.25])
    """
    if p in (0.0, 1.0) or n == 0:
        return (n if p == 1.0 else 0), [1.0]
    mode = min(n, int((n + 1) * p))
    odds = p / (1.0 - p)
    weight, above = 1.0, [1.0]
    for k in range(mode, n):
        weight *= (n - k) / (k + 1) * odds
        if weight < negligible:
            break
        above.append(weight)
    weight, below = 1.0, []
    for k in range(mode, 0, -1):
        weight *= k / (n - k + 1) / odds
        if weight < negligible:
            break
        below.append(weight)
    total = math.fsum(above) + math.fsum(below)
    return mode - len(below), [weight / total for weight in [*reversed(below), *above]]


@lru_cache(maxsize=16)
def poisson_binomial_probabilities(groups: Groups, bits: int) -> tuple[int, list[float]]:
    """Probabilities of the number of successes in trials that differ in their chance of success.

    Args:
        groups: Chances of success with their numbers of trials, at least one.
        bits: Absolute precision: bits after the point, one less than a multiple of 64. One group has all digits.

    Returns:
        The smallest number of successes in the list, and the probabilities from there on.

    Example:
        >>> poisson_binomial_probabilities(((0.5, 1), (1.0, 2)), 127)
        (2, [0.5, 0.5])
    """
    rates, numbers = zip(*groups, strict=True)
    if len(rates) == 1:
        return binomial_probabilities(numbers[0], rates[0])
    return _summands(rates, [1.0 - rate for rate in rates], numbers, bits, 1)[0]


def _tilt(rates: Sequence[float], numbers: Sequence[int], k: int) -> tuple[float, list[float], list[float]]:
    """Return a theta that brings the mean near to k, and the chances of success and failure under it.

    Tilting by theta multiplies the probability of j successes by ``exp(theta * j)`` and normalises. The log-odds of
    each trial grow by theta.
    """
    trials, mean = sum(numbers), sum(map(mul, rates, numbers))
    odds = [(1.0 - rate) / rate for rate in rates]
    theta, factor, low, high = 0.0, 1.0, -math.inf, math.inf
    tilted = list(rates)
    while True:
        variance = mean - sum(map(mul, map(mul, tilted, tilted), numbers))
        if (k - mean) ** 2 <= (_NEAR**2 * variance if variance > _WIDE else max(0.25, variance)):
            break
        low, high = (theta, high) if mean < k else (low, theta)
        if theta == 0.0:  # exact if all chances are the same
            theta = math.log(k / (trials - k)) - math.log(mean / (trials - mean))
        else:
            newton = theta + min(_STEP, max(-_STEP, (k - mean) / max(variance, 1e-9)))
            theta = newton if low < newton < high else (low + high) / 2.0
        factor = math.exp(-theta)
        tilted = [1.0 / (1.0 + against * factor) for against in odds]
        mean = sum(map(mul, tilted, numbers))
    failures = [  # next to 1, the difference from 1 has few digits
        1.0 - rate if rate < 0.9 or theta == 0.0 else against * factor * rate
        for rate, against in zip(tilted, odds, strict=True)
    ]
    return theta, tilted, failures


@lru_cache(maxsize=64)
def log_tail(groups: Groups, k: int) -> tuple[float, float, bool]:
    """Natural logarithms of the probability of k successes and of the tail that begins there, however small they are.

    Args:
        groups: Chances of success with their numbers of trials, sorted.
        k: Number of successes.

    Returns:
        Log-probability of exactly k, log-probability of the tail, and whether it is the upper tail: at least k if k is
        above the mean, at most k otherwise. Minus infinity if impossible.

    Example:
        >>> log_tail(((0.5, 2000),), 2000)[1] == 2000 * math.log(0.5)
        True
    """
    rates, numbers = zip(*groups, strict=True)
    upper = k > sum(map(mul, rates, numbers))
    if rates[0] < _ZERO or rates[-1] == 1.0:
        k -= sum([number for rate, number in groups if rate == 1.0])
        uncertain = [(rate, number) for rate, number in groups if _ZERO <= rate < 1.0]
        rates, numbers = zip(*uncertain, strict=True) if uncertain else ((), ())
    trials = sum(numbers)
    if not 0 <= k <= trials:
        return -math.inf, (-math.inf if (k > 0) == upper else 0.0), upper
    if k in (0, trials):
        logs = map(math.log, rates) if k else map(math.log1p, map(neg, rates))
        end = math.fsum(map(mul, logs, numbers))
        return end, (end if bool(k) == upper else 0.0), upper
    theta, successes, failures = _tilt(rates, numbers, k)
    (first, one), (second, other) = [*_summands(successes, failures, numbers, _TAIL_BITS, 2), (0, [1.0])][:2]
    place = k - first - second
    if not upper:
        one, other, place = one[::-1], other[::-1], len(one) + len(other) - 2 - place
    shrink = math.exp(-abs(theta))
    exactly, tail = _tail_sums(one, other, place, shrink)
    norm = 0.0
    if theta > 0.0:
        norm = math.fsum(map(mul, map(math.log, map(truediv, rates, successes)), numbers)) + theta * (trials - k)
    elif theta < 0.0:
        ratios = [(1.0 - rate) / failure for rate, failure in zip(rates, failures, strict=True)]
        norm = math.fsum(map(mul, map(math.log, ratios), numbers)) - theta * k
    return norm + math.log(exactly), norm + math.log(tail), upper


def _tail_sums(one: Sequence[float], other: Sequence[float], place: int, shrink: float) -> tuple[float, float]:
    """Return the probability that the sum of two indices is a place, and the sum over j of that of place + j, weighted.

    Args:
        one: Probabilities of one index.
        other: Probabilities of the other index.
        place: The sum of the two.
        shrink: The weights are its powers.
    """
    start = max(0, place - len(other) + 1)
    pairs = zip(one[start : place + 1], reversed(other[: place - start + 1]), strict=False)
    exactly = math.fsum([a * b for a, b in pairs])
    tails = list(accumulate(reversed(other), lambda tail, value: tail * shrink + value))[::-1]
    while len(tails) <= place:
        tails.append(0.0)
    below = accumulate(repeat(tails[0] * shrink, max(0, len(one) - 1 - place)), lambda tail, _: tail * shrink)
    return exactly, math.fsum(map(mul, one, [*reversed(tails[: place + 1]), *below]))


GuessRates = float | Sequence[float] | Mapping[int, int]
"""Probability that a guess is right: one p, a list of n, or a mapping {number of labels: number of examples}."""

_FLOATS = -650.0
"""Logarithms above it are those of numbers with all their digits."""

_COUNT_TOLERANCE = 1e-6
"""Tolerance between accuracy times n and an integer."""


def _share(value: object, name: str) -> float:
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name} must be a number between 0 and 1, not {value!r}") from None
    if not 0.0 <= share <= 1.0:
        raise ArgumentError(f"{name} must lie between 0 and 1, not {value!r}")
    return share


def _groups(n: int, p: GuessRates) -> Groups:
    """Sort the n examples into (probability of a right guess, number of examples)."""
    if isinstance(p, str | bytes):
        raise ArgumentError(f"p must be a number, a list of n numbers or a mapping, not {p!r}")
    groups: Counter[float] = Counter()
    if isinstance(p, Mapping):
        for labels, examples in p.items():
            count = validate_integer(f"the number of examples with {labels!r} labels in p", examples, 0)
            groups[1.0 / validate_integer("a number of labels in p", labels, 1)] += count
        kind = "the examples of the mapping p"
    elif isinstance(p, Iterable):
        values = list(p)
        if set(map(type, values)) != {float}:
            values = [_share(value, f"p[{position}]") for position, value in enumerate(values)]
        groups.update(values)
        for rate in groups:
            if not 0.0 <= rate <= 1.0:
                _share(rate, f"p[{values.index(rate)}]")
        kind = "the probabilities in the list p"
    else:
        groups[_share(p, "p")] = n
        kind = "p"
    if sum(groups.values()) != n:
        raise ArgumentError(f"{kind} number {sum(groups.values())}, but n is {n}; they must be the same")
    return tuple(sorted((rate, examples) for rate, examples in groups.items() if examples))


@dataclass(frozen=True, slots=True, init=False)
class RandomBaseline:
    """The best of t guessers on one set of examples, for any t.

    The probabilities used last are remembered, so a further t costs little. Two baselines are equal if n and the
    probabilities are equal, in whatever form and order they were given.

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
        n = validate_integer("n", n, 1)
        groups = _groups(n, p)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "p", groups)

    def max_random_baseline(self, t: int = 1) -> float:
        """Expected accuracy of the best of t guessers (equation 8).

        Args:
            t: Number of settings that were tried, at least 1.

        Returns:
            The expected maximum accuracy; for t = 1 the standard baseline, the mean of p.

        Raises:
            ArgumentError: t is no positive integer.
        """
        t = validate_integer("t", t, 1)
        if t == 1:
            return math.fsum(rate * examples for rate, examples in self.p) / self.n
        bits = 64 * -(-(100 + t.bit_length()) // 64) - 1  # tails of less than 1 / t count
        first, values = poisson_binomial_probabilities(self.p, bits)
        at_least = [*accumulate(reversed(values))][-2::-1]
        above = [
            -math.expm1(t * math.log1p(-tail)) if tail < 0.5 else -math.expm1(t * math.log(share)) if share else 1.0
            for share, tail in zip(accumulate(values), at_least, strict=False)
        ]
        return math.fsum([first, *above]) / self.n

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
        k, t = self._count(num_correct), validate_integer("t", t, 1)
        log_F, tail = self._below(k)
        return math.exp(min(0.0, math.log(t) + tail)) if tail < _FLOATS else -math.expm1(t * log_F)

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
        t = validate_integer("t", t, 1)
        log_F, tail = self._below(self.count(acc))
        if tail > _FLOATS:
            return math.log(-math.expm1(t * log_F))
        # 1 - (1 - s)^t is t s to within t s, a relative error far below rounding
        return min(0.0, math.log(t) + tail)

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
        one = min(max(-math.expm1(math.log1p(-alpha) / t), 1e-300) if alpha < 1.0 else 1.0 - 1e-16, 1.0 - 1e-16)
        mean = sum(rate * examples for rate, examples in self.p)
        deviation = math.sqrt(sum(rate * (1.0 - rate) * examples for rate, examples in self.p))
        low, high, step = 0, self.n, 1
        middle = min(max(0, round(mean - NormalDist().inv_cdf(one) * deviation)), self.n - 1)
        while low < high:  # steps that grow from the normal approximation, then bisection
            reached = self.p_value_of_count(middle, t) <= alpha
            low, high = (low, middle) if reached else (middle + 1, high)
            middle += -step if reached else step
            step *= 2
            if not low <= middle < high:
                middle = (low + high) // 2
        return low

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
            share = _share(float(acc), "an accuracy")
        except ValueError:
            raise ArgumentError(f"an accuracy must be a number between 0 and 1, not {acc!r}") from None
        exact = Fraction(share) * self.n
        if abs(exact - round(exact)) <= _COUNT_TOLERANCE:
            return round(exact)
        mantissa, _, exponent = acc.lower().partition("e")
        digits = min(20, max(0, len(mantissa.strip().partition(".")[2]) - int(exponent or 0)))
        half = Fraction(1, 2 * 10**digits)
        low, high = (math.ceil((Fraction(acc) - half) * self.n), math.floor((Fraction(acc) + half) * self.n))
        if low > high:
            below, above = (f"{k}/{self.n} = {k / self.n:.{digits}f}" for k in (int(exact), int(exact) + 1))
            what = f"is no share of n = {self.n} queries: the nearest are {below} and {above}"
            raise ArgumentError(f"an accuracy of {acc} {what}; give the accuracy with more digits, or the right n")
        if low < high:
            what = f"can be any of {low}/{self.n} to {high}/{self.n}"
            raise ArgumentError(f"an accuracy of {acc} {what}; give the accuracy with more digits")
        return low

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
        answers = acc * self.n if isinstance(acc, Fraction) else share * self.n
        k = round(answers)
        if abs(answers - k) > _COUNT_TOLERANCE:
            nearest = f"the nearest is {k}/{self.n} = {k / self.n!r}"
            raise ArgumentError(f"{acc!r} is no multiple of 1/{self.n} ({nearest}); give the unrounded accuracy or n")
        return self._count(k)

    def _count(self, num_correct: object) -> int:
        k = validate_integer("the number of correct answers", num_correct, 0)
        if k > self.n:
            raise ArgumentError(f"{k} correct answers are more than the n = {self.n} examples")
        return k

    def _below(self, k: int) -> tuple[float, float]:
        """Logarithms of P(X < k), from the smaller tail, and of P(X >= k); the latter 0 where it is not small."""
        if k > sum(rate * examples for rate, examples in self.p):
            tail = log_tail(self.p, k)[1]
            return math.log1p(-math.exp(tail)), tail
        return log_tail(self.p, k - 1)[1] if k else -math.inf, 0.0


Guesses = Sequence[tuple[float, int, int]]
"""A mean accuracy of guessing, as a sum: (what one right guess adds, number of labels, number of guesses)."""

_EXACT_SCORES = 20_000
"""Number of different scores up to which their distribution is exact."""
_STEPS = 64
"""Grid points for a standard deviation, if there are more."""
_NEGLIGIBLE = 1e-15
"""On a grid, smaller probabilities are left out, ..."""
_THIN = 1e-9
"""... and smaller tails come from the saddlepoint approximation."""


def _sorted(guesses: Guesses) -> tuple[tuple[float, int, int], ...]:
    """Return the guesses, equal ones together, in an order that does not depend on that of the data sets."""
    counts: Counter[tuple[float, int]] = Counter()
    for weight, labels, count in guesses:
        counts[weight, labels] += count
    return tuple((*kind, count) for kind, count in sorted(counts.items(), reverse=True))


def _sums(chances: Mapping[int, float], added: Mapping[int, float]) -> dict[int, float]:
    """Return the distribution of the sum of two variables."""
    found: dict[int, float] = {}
    for place, chance in chances.items():
        for more, weight in added.items():
            found[place + more] = found.get(place + more, 0.0) + chance * weight
    return found


def _on_grid(chances: Mapping[int, float], scale: Fraction) -> dict[int, float]:
    """Return the distribution of a scaled variable, what lies between two integers shared so that its mean is kept."""
    found: dict[int, float] = {}
    for place, chance in chances.items():
        low, rest = divmod(place * scale.numerator, scale.denominator)
        part = rest / scale.denominator
        found[low] = found.get(low, 0.0) + chance * (1.0 - part)
        if rest:
            found[low + 1] = found.get(low + 1, 0.0) + chance * part
    return found


@lru_cache(maxsize=64)
def _score_distribution(guesses: tuple[tuple[float, int, int], ...]) -> tuple[list[float], list[float], float]:
    """Return the scores in rising order, the probability of at least each, and half a step of their grid.

    The few large weights come first, so that their sums are exact. From the weight on with which there could be more
    than ``_EXACT_SCORES`` scores, scores are rounded to a grid.
    """
    shares = [Fraction(weight).limit_denominator(10**8) for weight, *_ in guesses]
    unit, step = Fraction(1, math.lcm(*(share.denominator for share in shares))), Fraction(0)
    chances = {0: 1.0}
    for share, (_, labels, count) in zip(shares, guesses, strict=True):
        products = len(chances) * (count + 1)
        span = max(chances) - min(chances) + 1 + int(share * count / unit)
        if not step and (min(products, span) > _EXACT_SCORES or products > 40 * _EXACT_SCORES):
            step = Fraction(_moments(guesses)[1] / _STEPS)
            chances = {place: chance for place, chance in chances.items() if chance > _NEGLIGIBLE}
            chances, unit = _on_grid(chances, unit / step), step
        first, weights = binomial_probabilities(count, 1.0 / labels, _NEGLIGIBLE if step else SMALLEST)
        chances = _sums(chances, _on_grid(dict(enumerate(weights, first)), share / unit))
    places = sorted(chances)
    tails = list(accumulate(chances[place] for place in reversed(places)))[::-1]
    return [float(place * unit) for place in places], tails, float(step / 2)


def _equal(guesses: Guesses) -> RandomBaseline | None:
    """Return the exact distribution if all guesses add the same, else None."""
    if max(weight for weight, *_ in guesses) - min(weight for weight, *_ in guesses) > 1e-15:
        return None
    counts: Counter[int] = Counter()
    for _, labels, count in guesses:
        counts[labels] += count
    n = counts.total()
    return RandomBaseline(n, dict(counts)) if len(counts) > 1 else RandomBaseline(n, 1 / next(iter(counts)))


def _moments(guesses: Guesses) -> tuple[float, float]:
    mean = math.fsum(weight * count / labels for weight, labels, count in guesses)
    variance = math.fsum(weight**2 * count * (labels - 1) / labels**2 for weight, labels, count in guesses)
    return mean, math.sqrt(variance)


def _derivatives(guesses: Guesses, theta: float) -> tuple[float, float, float]:
    """Return the cumulant generating function and its first two derivatives."""
    value = slope = curve = 0.0
    for weight, labels, count in guesses:
        x = theta * weight - math.log(labels - 1) if labels > 1 else math.inf
        p = 1.0 if x > 700 else 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
        log_sum = theta * weight if p == 1.0 else -math.log1p(-p) + math.log((labels - 1) / labels)
        value += count * log_sum
        slope += count * weight * p
        curve += count * weight * weight * p * (1.0 - p)
    return value, slope, curve


def _thin_tail(guesses: Guesses, score: float) -> float:
    """Return a small probability of at least a score, by the formula of Lugannani and Rice (1980)."""
    mean, deviation = _moments(guesses)
    most = math.fsum(weight * count for weight, _, count in guesses)
    if score >= most - 1e-12:
        all_right = math.exp(-math.fsum(count * math.log(labels) for _, labels, count in guesses))
        return all_right if score < most + 1e-9 else 0.0
    theta, scale = (score - mean) / deviation**2, max(weight for weight, *_ in guesses)
    low, high = -800.0 / scale, 800.0 / scale
    for _ in range(80):
        value, slope, curve = _derivatives(guesses, theta)
        low, high = (theta, high) if slope < score else (low, theta)
        step = theta + (score - slope) / curve if curve > 0 else math.nan
        before, theta = theta, step if low < step < high else (low + high) / 2.0
        if abs(theta - before) <= 1e-12 * abs(theta):
            break
    value, _, curve = _derivatives(guesses, theta)
    w, u, normal = math.sqrt(max(0.0, 2.0 * (theta * score - value))), theta * math.sqrt(curve), NormalDist()
    return min(1.0, max(0.0, normal.cdf(-w) + normal.pdf(w) * (1.0 / u - 1.0 / w)))


def guessing_p_value(guesses: Guesses, score: float, tried: int = 1) -> float:
    """Return the probability that the best of several guessers reaches a score.

    Exact if all guesses add the same, or if few scores are possible. Otherwise scores are rounded to a grid, and tails
    below 1e-9 come from the saddlepoint approximation.

    Args:
        guesses: The guesser's score as a sum.
        score: The score to reach.
        tried: Number of guessers.

    Example:
        >>> round(guessing_p_value([(0.01, 2, 100)], 0.59), 4)  # 59 of 100 queries, two labels
        0.0443
    """
    guesses = _sorted(guesses)
    exact = _equal(guesses)
    if exact is not None:
        count = math.ceil(score / guesses[0][0] - 1e-6)
        return exact.p_value_of_count(min(exact.n, max(0, count)), tried) if count <= exact.n else 0.0
    scores, tails, slack = _score_distribution(guesses)
    place = bisect_left(scores, score - max(slack, 1e-9))
    tail = tails[place] if place < len(tails) else 0.0
    if slack and tail < _THIN:
        tail = min(_THIN, _thin_tail(guesses, score))
    return 1.0 if tail >= 1.0 else -math.expm1(tried * math.log1p(-tail))


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
    guesses = _sorted(guesses)
    mean, deviation = _moments(guesses)
    if tried == 1 or deviation == 0.0:
        return mean
    exact = _equal(guesses)
    if exact is not None:
        return exact.max_random_baseline(tried) * exact.n * guesses[0][0]
    scores, tails, _ = _score_distribution(guesses)
    reached = [1.0 if tail >= 1.0 else -math.expm1(tried * math.log1p(-tail)) for tail in tails[1:]]
    steps = [high - low for low, high in pairwise(scores)]
    return scores[0] + math.fsum(map(mul, steps, reached))


def sign_test(differences: Sequence[float]) -> float:
    """Return the one-sided p-value of a sum of row differences under random signs.

    Args:
        differences: For each test row, how much more (of anything, such as correct queries) the run has than the
            baseline, such as differences of counts, or of shares.

    Returns:
        The probability of a sum at least as large.

    Example:
        >>> sign_test([1, 1, 1, 1, 0])
        0.0625
    """
    total = math.fsum(differences)
    if any(value != int(value) for value in differences):
        rows = len(differences)  # a sign guesses one of two labels, and adds twice the difference or nothing
        signs = Counter(abs(value) for value in differences if value)
        least = math.fsum(map(abs, differences))
        return guessing_p_value([(2.0 * size / rows, 2, n) for size, n in signs.items()], (total + least) / rows)
    sizes = Counter(abs(int(value)) for value in differences if value)
    if not sizes:
        return 1.0
    size, count = max(sizes.items(), key=lambda item: item[1])
    del sizes[size]
    sums = {0: 1.0}
    for other, number in sorted(sizes.items(), reverse=True):
        lowest, weights = binomial_probabilities(number, 0.5)
        sums = _sums(sums, {(2 * up - number) * other: weight for up, weight in enumerate(weights, lowest)})
    first, chances = binomial_probabilities(count, 0.5)
    tails = [*list(accumulate(reversed(chances)))[::-1], 0.0]
    p_value = 0.0
    for place, chance in sums.items():
        least = -(-(int(total) - place + size * count) // (2 * size))  # ups that are needed
        p_value += chance * tails[min(max(0, least - first), len(chances))]
    return min(1.0, p_value)
