"""The maximum random baseline of label guessing, and p-values against it.

A classifier that guesses each of n labels with probability p is right X times, and X is binomial (Poisson
binomial when p differs between examples). Whoever tries t settings and reports the best one has to beat the
best of t guessers, not one of them. With ``F`` the distribution function of X, the best of t independent
guessers is right at most k times with probability ``F(k)**t``; t = 1 is the standard baseline.

Source: Yauney and Mimno, "Stronger Random Baselines for In-Context Learning" (COLM 2024), equations 4
to 11 and 18 to 20.

Probabilities come from :mod:`StaICC.metrics.poisson_binomial`: the smaller tail has all its digits, however thin it is,
and ``1 - F**t`` is ``-expm1(t * log1p(-tail))``. A p-value near 1e-300 is therefore exact; below the range of floating
point :meth:`RandomBaseline.log_p_value` goes on. The expected maximum is the sum of the tail probabilities (the same as
equation 8, without its subtractions).

Correct predictions are counted as integers. An accuracy that is no multiple of 1/n is an error; it is not rounded
silently.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import index
from statistics import NormalDist

from StaICC.errors import ArgumentError
from StaICC.metrics.poisson_binomial import log_tail, poisson_binomial_probabilities

GuessRates = float | Sequence[float] | Mapping[int, int]
"""Probability that a guess is right: one p, a list of n, or a mapping {number of labels: number of examples}."""

_FLOATS = -650.0
"""Logarithms above it are those of numbers with all their digits."""

_COUNT_TOLERANCE = 1e-6
"""Tolerance between accuracy times n and an integer."""


def _whole(value: object, name: str, least: int) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"{name} must be a whole number, not {value!r}") from None
    if number < least:
        raise ArgumentError(f"{name} must be at least {least}, not {number}")
    return number


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


def _groups(n: int, p: GuessRates) -> tuple[tuple[float, int], ...]:
    """Sort the n examples into (probability of a right guess, number of examples)."""
    if isinstance(p, str | bytes):
        raise ArgumentError(f"p must be a number, a list of n numbers or a mapping, not {p!r}")
    groups: Counter[float] = Counter()
    if isinstance(p, Mapping):
        for labels, examples in p.items():
            groups[1.0 / _whole(labels, "a number of labels in p", 1)] += _whole(
                examples, f"the number of examples with {labels!r} labels in p", 0
            )
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


_log_tail = lru_cache(maxsize=64)(log_tail)
_distribution = lru_cache(maxsize=16)(poisson_binomial_probabilities)


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
        n = _whole(n, "n", 1)
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
        t = _whole(t, "t", 1)
        if t == 1:
            return math.fsum(rate * examples for rate, examples in self.p) / self.n
        bits = 64 * -(-(100 + t.bit_length()) // 64) - 1  # tails of less than 1 / t count
        first, values = _distribution(self.p, bits)
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
        k, t = self._count(num_correct), _whole(t, "t", 1)
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
        t = _whole(t, "t", 1)
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
            raise ArgumentError(
                f"an accuracy of {acc} is no share of n = {self.n} queries: the nearest are {below} and {above}; give "
                "the accuracy with more digits, or the right n"
            )
        if low < high:
            raise ArgumentError(
                f"an accuracy of {acc} can be any of {low}/{self.n} to {high}/{self.n}; give the accuracy with more "
                "digits"
            )
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
            raise ArgumentError(
                f"an accuracy of {acc!r} is no multiple of 1/{self.n}, so it is not a share of n = {self.n} "
                f"answers (the nearest is {k}/{self.n} = {k / self.n!r}); give the unrounded accuracy or the right n"
            )
        return self._count(k)

    def _count(self, num_correct: object) -> int:
        k = _whole(num_correct, "the number of correct answers", 0)
        if k > self.n:
            raise ArgumentError(f"{k} correct answers are more than the n = {self.n} examples")
        return k

    def _below(self, k: int) -> tuple[float, float]:
        """Logarithms of P(X < k), from the smaller tail, and of P(X >= k); the latter 0 where it is not small."""
        if k > sum(rate * examples for rate, examples in self.p):
            tail = _log_tail(self.p, k)[1]
            return math.log1p(-math.exp(tail)), tail
        return _log_tail(self.p, k - 1)[1] if k else -math.inf, 0.0
