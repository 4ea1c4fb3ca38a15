"""What guessing would have scored: the maximum random baseline and its p-values.

A classifier that guesses each of n labels with probability p is right X times, and X is binomial (Poisson
binomial when p differs between examples). Whoever tries t settings and reports the best one has to beat the
best of t guessers, not one of them. With ``F`` the distribution function of X, the best of t independent
guessers is right at most k times with probability ``F(k)**t``; t = 1 is the standard baseline.

Source: Yauney and Mimno, "Stronger Random Baselines for In-Context Learning" (COLM 2024), equations 4
to 11 and 18 to 20.

How it is computed:

- The probabilities of X follow from one another by their ratios, from the mode outwards, and are divided by
  their sum. Every term is positive, so nothing cancels. Groups of examples with one p each are convolved.
- Both tails are summed from their thin end, and ``1 - F**t`` is ``-expm1(t * log1p(-tail))``. A p-value near
  1e-300 has its digits; below the range of floating point :meth:`RandomBaseline.log_p_value` goes on.
- The expected maximum is the sum of the tail probabilities (the same as equation 8, without its
  subtractions).

Answers are counted in whole numbers. An accuracy that is no multiple of 1/n is refused, not rounded in
silence.
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
from typing import NamedTuple

from StaICC.errors import ArgumentError
from StaICC.metrics.poisson_binomial import SMALLEST, UNLIKELY, log_upper_tail, poisson_binomial_probabilities

__all__ = [
    "GuessRates",
    "RandomBaseline",
    "max_random_F",
    "max_random_baseline",
    "max_random_p_value",
    "max_random_pmf",
]

GuessRates = float | Sequence[float] | Mapping[int, int]
"""How likely a guess is right: one p, a list of n, or a mapping {number of labels: number of examples}."""

_TRUSTED = 1e-290
"""Below it a probability in a whole table may lack digits."""
_TRUSTED_LIKELY = 1e-20
"""Below it a probability in a table without the unlikely may lack them."""
_FAR = 10.0
"""So many standard deviations above the mean a tail is computed under a tilted distribution at once."""
_FLOATS = -650.0
"""Logarithms above it are those of numbers with all their digits."""

_COUNT_TOLERANCE = 1e-6
"""How far accuracy times n may lie from a whole number of answers."""


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
        groups.update(_share(value, f"p[{position}]") for position, value in enumerate(p))
        kind = "the probabilities in the list p"
    else:
        groups[_share(p, "p")] = n
        kind = "p"
    if sum(groups.values()) != n:
        raise ArgumentError(f"{kind} number {sum(groups.values())}, but n is {n}; they must be the same")
    return tuple(sorted((rate, examples) for rate, examples in groups.items() if examples))


class _Table(NamedTuple):
    """The distribution of one guesser's right answers, from the count ``first`` on."""

    first: int
    exactly: tuple[float, ...]
    at_most: tuple[float, ...]
    at_least: tuple[float, ...]
    trusted: float
    """Probabilities from here on have all their digits."""


@lru_cache(maxsize=16)
def _table(groups: tuple[tuple[float, int], ...], whole: bool) -> _Table:
    """Compute the distribution; without ``whole`` the unlikely counts are left out, which mixtures gain much by."""
    first, values = poisson_binomial_probabilities(groups, SMALLEST if whole else UNLIKELY)
    return _Table(
        first,
        tuple(values),
        tuple(accumulate(values)),
        tuple(accumulate(reversed(values)))[::-1],
        _TRUSTED if whole else _TRUSTED_LIKELY,
    )


def _trusted(values: Sequence[float], place: int, least: float) -> bool:
    return 0 <= place < len(values) and values[place] >= least


def _tail(table: _Table, k: int) -> float:
    """P(X >= k)."""
    place = max(0, k - table.first)
    return table.at_least[place] if place < len(table.at_least) else 0.0


def _log_F(table: _Table, k: int) -> float:
    """Logarithm of P(X <= k), taken from the smaller tail."""
    tail = _tail(table, k + 1)
    if tail < 0.5:
        return math.log1p(-tail)
    place = k - table.first
    share = table.at_most[place] if place >= 0 else 0.0
    return math.log(share) if share > 0.0 else -math.inf  # it may lie below what floating point holds


@dataclass(frozen=True, slots=True, init=False)
class RandomBaseline:
    """The best of t guessers on one set of examples, for any t.

    The distributions of the guessers used last are remembered, so each further t, count or accuracy costs little.
    Two baselines are equal when n and the probabilities are, in whatever form and order they were given.

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
                labels to the number of examples that have so many (each guessed right with one over the
                number of labels).

        Raises:
            ArgumentError: n is no positive whole number, p holds something that is no probability, or the
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
            ArgumentError: t is no positive whole number.
        """
        t = _whole(t, "t", 1)
        if t == 1:
            return math.fsum(rate * examples for rate, examples in self.p) / self.n
        table = self._likely  # enough here: an F that the table knows badly is 0 beside the 1 it is taken from
        counts = range(table.first, table.first + len(table.exactly) - 1)
        above = [-math.expm1(t * _log_F(table, k)) for k in counts]
        return math.fsum([table.first, *above]) / self.n

    def pmf(self, num_correct: int, t: int = 1) -> float:
        """Probability that the best of t guessers is right exactly so many times (equation 7).

        Args:
            num_correct: Number of right answers, 0 to n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The probability.

        Raises:
            ArgumentError: num_correct is no whole number from 0 to n, or t is no positive one.
        """
        k, t = self._count(num_correct, 0), _whole(t, "t", 1)
        table = self._likely
        if not _trusted(table.exactly, k - table.first, table.trusted):
            table = _table(self.p, True)
        place = k - table.first
        if not 0 <= place < len(table.exactly):
            return 0.0
        reached = math.exp(t * self._log_F(k))
        share = table.exactly[place] / table.at_most[place]  # of the ways to stay at or below k, those at k
        return reached if share >= 1.0 else -reached * math.expm1(t * math.log1p(-share))

    def F(self, num_correct: int, t: int = 1) -> float:
        """Probability that the best of t guessers is right at most so many times (equation 6).

        Args:
            num_correct: Number of right answers, 0 to n, or -1 (where the value is 0).
            t: Number of settings that were tried, at least 1.

        Returns:
            The distribution function.

        Raises:
            ArgumentError: num_correct is no whole number from -1 to n, or t is no positive one.
        """
        k, t = self._count(num_correct, -1), _whole(t, "t", 1)
        return math.exp(t * self._log_F(k))

    def p_value(self, acc: float, t: int = 1) -> float:
        """Probability that the best of t guessers reaches an accuracy (equation 20).

        Args:
            acc: The accuracy, a multiple of 1/n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The p-value. It is 0.0 only where floating point ends (near 1e-320) or no guesser can be so often
            right; see :meth:`log_p_value`.

        Raises:
            ArgumentError: acc is no share of n answers, or t is no positive whole number.
        """
        return self.p_value_of_count(self.count(acc), t)

    def p_value_of_count(self, num_correct: int, t: int = 1) -> float:
        """Probability that the best of t guessers is right at least so many times.

        Args:
            num_correct: Number of right answers, 0 to n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The p-value, as :meth:`p_value`.

        Raises:
            ArgumentError: num_correct is no whole number from 0 to n, or t is no positive one.
        """
        k, t = self._count(num_correct, 0), _whole(t, "t", 1)
        if self._is_far(k) or _tail(self._likely, k) < self._likely.trusted:
            return math.exp(self._log_p_value(k, t))
        return -math.expm1(t * self._log_F(k - 1))

    def log_p_value(self, acc: float, t: int = 1) -> float:
        """Natural logarithm of the p-value, also where the p-value itself is too small for floating point.

        Args:
            acc: The accuracy, a multiple of 1/n.
            t: Number of settings that were tried, at least 1.

        Returns:
            The logarithm; minus infinity when no guesser can be so often right.

        Raises:
            ArgumentError: acc is no share of n answers, or t is no positive whole number.

        Example:
            >>> round(RandomBaseline(1024, 1 / 6).log_p_value(1.0) / math.log(10), 3)  # 6 ** -1024
            -796.827
        """
        return self._log_p_value(self.count(acc), _whole(t, "t", 1))

    def critical_count(self, t: int = 1, alpha: float = 0.05) -> int | None:
        """Fewest right answers with a p-value of at most alpha.

        Args:
            t: Number of settings that were tried, at least 1.
            alpha: The level, from 0 to 1.

        Returns:
            The number of right answers; None when even n right answers are not enough.

        Raises:
            ArgumentError: alpha is not from 0 to 1, or t is no positive whole number.

        Example:
            >>> RandomBaseline(100, 0.5).critical_count(), RandomBaseline(100, 0.5).critical_count(t=10)
            (59, 64)
        """
        alpha = _share(alpha, "alpha")
        if self.p_value_of_count(self.n, t) > alpha:
            return None
        low, high = 0, self.n
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.p_value_of_count(middle, t) <= alpha else (middle + 1, high)
        return low

    def count(self, acc: float) -> int:
        """Number of right answers behind an accuracy.

        Args:
            acc: The accuracy; integers and fractions are taken as well.

        Returns:
            The whole number k with k / n = acc. Floating-point slips are bridged: 0.29 of 100 is 29.

        Raises:
            ArgumentError: acc is not from 0 to 1, or no multiple of 1/n.

        Example:
            >>> RandomBaseline(100, 0.2).count(0.29)
            29
        """
        share = _share(acc, "an accuracy")
        answers = Fraction(acc if isinstance(acc, Fraction) else share) * self.n
        k = round(answers)
        if abs(answers - k) > _COUNT_TOLERANCE:
            raise ArgumentError(
                f"an accuracy of {acc!r} is no multiple of 1/{self.n}, so it is not a share of n = {self.n} "
                f"answers (the nearest is {k}/{self.n} = {k / self.n!r}); give the unrounded accuracy or the right n"
            )
        return self._count(k, 0)

    def _count(self, num_correct: object, least: int) -> int:
        k = _whole(num_correct, "the number of correct answers", least)
        if k > self.n:
            raise ArgumentError(f"{k} correct answers are more than the n = {self.n} examples")
        return k

    @property
    def _likely(self) -> _Table:
        return _table(self.p, len(self.p) == 1)

    def _is_far(self, k: int) -> bool:
        """Whether P(X >= k) is surely too small for the table of a mixture: not worth computing it."""
        mean = math.fsum(rate * examples for rate, examples in self.p)
        deviation = math.sqrt(math.fsum(rate * (1.0 - rate) * examples for rate, examples in self.p))
        return len(self.p) > 1 and k > mean + _FAR * deviation + 1.0

    def _log_F(self, k: int) -> float:
        """Logarithm of P(X <= k) for one guesser."""
        table = self._likely
        if _tail(table, k + 1) >= 0.5 and not _trusted(table.at_most, k - table.first, table.trusted):
            table = _table(self.p, True)
        return _log_F(table, k)

    def _log_p_value(self, k: int, t: int) -> float:
        if not self._is_far(k) and _tail(self._likely, k) >= self._likely.trusted:
            return math.log(-math.expm1(t * self._log_F(k - 1)))
        tail = log_upper_tail(self.p, k)
        if tail > _FLOATS:
            return math.log(-math.expm1(t * math.log1p(-math.exp(tail))))
        # 1 - (1 - s)^t is t s to within t s, a relative error far below rounding
        return min(0.0, math.log(t) + tail)


def max_random_baseline(n: int, p: GuessRates, t: int) -> float:
    """Expected accuracy of the best of t guessers.

    Args:
        n: Number of examples.
        p: Probability that a guess is right: a number, a list of n numbers, or a mapping from a number of
            labels to the number of examples that have so many.
        t: Number of settings that were tried; 1 gives the standard baseline.

    Returns:
        The expected maximum accuracy (Yauney and Mimno 2024, equation 8).

    Raises:
        ArgumentError: An argument is out of its range, or p does not have n examples.

    Example:
        >>> round(max_random_baseline(100, 0.5, 10), 5), max_random_baseline(100, 0.5, 1)
        (0.57678, 0.5)
        >>> round(max_random_baseline(100, {2: 50, 5: 50}, 10), 5)
        0.42017
    """
    return RandomBaseline(n, p).max_random_baseline(t)


def max_random_p_value(acc: float, n: int, p: GuessRates, t: int) -> float:
    """Probability that the best of t guessers reaches an accuracy.

    Args:
        acc: The accuracy, a multiple of 1/n.
        n: Number of examples.
        p: As for :func:`max_random_baseline`.
        t: Number of settings that were tried.

    Returns:
        The p-value (equation 20).

    Raises:
        ArgumentError: An argument is out of its range, or acc is no multiple of 1/n.

    Example:
        >>> round(max_random_p_value(0.29, 100, 0.2, 1), 4)
        0.02
    """
    return RandomBaseline(n, p).p_value(acc, t)


def max_random_pmf(num_correct: int, n: int, p: GuessRates, t: int) -> float:
    """Probability that the best of t guessers is right exactly so many times.

    Args:
        num_correct: Number of right answers, 0 to n.
        n: Number of examples.
        p: As for :func:`max_random_baseline`.
        t: Number of settings that were tried.

    Returns:
        The probability (equation 7).

    Raises:
        ArgumentError: An argument is out of its range.

    Example:
        >>> max_random_pmf(2, 2, 0.5, 2)
        0.4375
    """
    return RandomBaseline(n, p).pmf(num_correct, t)


def max_random_F(num_correct: int, n: int, p: GuessRates, t: int) -> float:
    """Probability that the best of t guessers is right at most so many times.

    Args:
        num_correct: Number of right answers, 0 to n, or -1.
        n: Number of examples.
        p: As for :func:`max_random_baseline`.
        t: Number of settings that were tried.

    Returns:
        The distribution function (equation 6).

    Raises:
        ArgumentError: An argument is out of its range.

    Example:
        >>> round(max_random_F(1, 2, 0.5, 2), 4)
        0.5625
    """
    return RandomBaseline(n, p).F(num_correct, t)
