r"""Confidence sequences: intervals that are valid at every round, whenever one stops.

The score of a benchmark is a finite quantity: the mean over data sets of the mean of each one's test rows. Rows are
drawn without replacement, one of each data set per round. The interval after round :math:`t` holds for *all* rounds
together with the nominal level, so one may look after each round and stop when one likes. When all rows are drawn, it
is the score itself.

Method: testing by betting without replacement (Waudby-Smith and Ramdas 2020, arXiv 2006.04347; 2024, arXiv
2010.09686), with a factor that is linear in the unknown means, as in their empirical Bernstein sequence, so that the
means of the single data sets cancel. Data set :math:`s` has :math:`N_s` rows with values :math:`x` in [0, 1] and mean
:math:`\mu_s`; before a draw :math:`r` rows with the mean :math:`m = (N_s \mu_s - \text{sum drawn}) / r` remain. For
each centre :math:`c` and bet :math:`\lambda \ge 0` with :math:`\lambda c < 1` that depend on earlier draws only,

.. math:: (1 + \lambda (x - c)) \, e^{-\lambda (m - c)}

is non-negative, and its expectation :math:`(1 + u) e^{-u}`, :math:`u = \lambda (m - c)`, is at most 1. The product
over all draws is therefore a supermartingale, and exceeds :math:`2 / \alpha` at any time with a probability of at most
:math:`\alpha / 2` (Ville). With :math:`\lambda = \gamma r / N_s` and the same :math:`\gamma` for all data sets of a
round, its logarithm is a known number minus :math:`\sum_t \gamma_t \cdot \sum_s \mu_s`: a lower bound of the mean in
closed form. The upper bound is that of :math:`1 - x`. Nothing is lost to a union over data sets. The bets change how
fast the interval shrinks, not whether it is valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from StaICC.errors import ArgumentError

# -- confidence sequences

CONFIDENCE_SEQUENCE_VERSION = "cs1"
"""Version of the sequence and its bets, for signatures."""

_LARGEST_BET = 0.9  # share of the capital; at 1, a single row could lose all of it
_LEAST = 1e-9  # centres below count as this where they divide
_PRIOR_VARIANCE = 0.25  # of one row, the largest possible; counts as one row
_POOLED_ROWS = 2.0  # rows of the mean over all data sets that count towards the centre of each


class _Draw(NamedTuple):
    """One row of a round."""

    dataset: int
    value: float
    centre: float
    """The value that earlier draws predict."""
    left: float
    """Share of the data set's rows that were left before."""
    size: int
    last: bool
    """Whether it is the last row of the data set."""


class _LowerBound:
    """A lower bound of the sum of the means of all data sets, for values in [0, 1].

    Args:
        count: Number of data sets.
        threshold: Logarithm of the capital that refutes a sum.
    """

    def __init__(self, count: int, threshold: float) -> None:
        self._parts = [0.0] * count  # sum of the values of each data set, divided by its size
        self._total_bet = 0.0  # of each data set that has rows left
        self._evidence = -threshold  # logarithm of the capital, without the terms of the unknown means
        self._known = 0.0  # sum of the means of the data sets without rows left
        self.value = 0.0

    def update(self, draws: Sequence[_Draw], bet: float) -> None:
        """Add one value of each data set that has rows left.

        Args:
            draws: The rows.
            bet: The common factor of the bets; reduced where it is too large.
        """
        bet = min(bet, _LARGEST_BET / max(draw.left * max(draw.centre, _LEAST) for draw in draws))
        self._total_bet += bet
        for dataset, value, centre, left, size, last in draws:
            own = bet * left
            self._evidence += math.log1p(own * (value - centre)) + own * centre + bet * self._parts[dataset]
            self._parts[dataset] += value / size
            if last:
                self._evidence -= self._total_bet * self._parts[dataset]
                self._known += self._parts[dataset]
        self.value = max(self.value, self._evidence / self._total_bet + self._known, sum(self._parts))


class ConfidenceSequence:
    """The interval of the mean over data sets of finite row means, updated round by round.

    Args:
        sizes: Rows of each data set, at least 1.
        level: Probability that the intervals of all rounds contain the mean.
        low: The lowest possible value of a row.
        high: The highest possible value of a row.

    Attributes:
        rounds: Rounds so far.
        all_rounds: Rounds until all rows are drawn.

    Example:
        >>> sequence = ConfidenceSequence([100, 100])
        >>> for _ in range(50):
        ...     sequence.update([1.0, 1.0], 0.05)
        >>> tuple(round(end, 3) for end in sequence.interval)
        (0.969, 1.0)
    """

    def __init__(self, sizes: Sequence[int], level: float = 0.95, low: float = 0.0, high: float = 1.0) -> None:
        self._sizes = tuple(sizes)
        self._low, self._width = low, high - low
        threshold = math.log(2 / (1 - level))
        self._below, self._above = _LowerBound(len(sizes), threshold), _LowerBound(len(sizes), threshold)
        self._sums = [0.0] * len(sizes)
        self._squares = _PRIOR_VARIANCE
        self._drawn = 0
        self.rounds = 0
        self.all_rounds = max(sizes)

    @property
    def interval(self) -> tuple[float, float]:
        """The intersection of the intervals of all rounds so far."""
        if self.rounds == self.all_rounds:
            return self.estimate, self.estimate
        count = len(self._sizes)
        below, above = self._below.value / count, 1 - self._above.value / count
        if below > above:  # both bounds hold with the level; that they cross has at most the error probability
            below = above = (below + above) / 2
        return self._low + self._width * below, self._low + self._width * above

    @property
    def estimate(self) -> float:
        """The mean over data sets of the means of the drawn rows; the middle of the range before the first round."""
        if not self.rounds:
            return self._low + self._width / 2
        means = (total / min(self.rounds, size) for total, size in zip(self._sums, self._sizes, strict=True))
        return self._low + self._width * math.fsum(means) / len(self._sizes)

    @property
    def standard_error(self) -> float:
        """The approximate standard error of :attr:`estimate`, for choosing bets; no interval follows from it."""
        drawn = [min(self.rounds, size) for size in self._sizes]
        parts = ((1 - rows / size) / max(rows, 1) for rows, size in zip(drawn, self._sizes, strict=True))
        return self._width * math.sqrt(self._squares / (1 + self._drawn) * sum(parts)) / len(self._sizes)

    def update(self, values: Sequence[float | None], gap: float, gap_above: float | None = None) -> None:
        """Add one round.

        Args:
            values: The value of the drawn row of each data set; ``None`` for a data set without rows left.
            gap: The distance between the mean and its lower bound for which the bets are best, such as the precision
                that is wanted. It may depend on earlier rounds.
            gap_above: The same for the upper bound; ``gap`` by default.

        Raises:
            ArgumentError: A value is out of range.
        """
        draws = self._read(values)
        spread = self._squares / (1 + self._drawn) * sum(draw.left * draw.left for draw in draws)
        below, above = (
            shift / (spread + shift * shift / len(draws))
            for distance in (gap, gap if gap_above is None else gap_above)
            for shift in [max(_LEAST, distance / self._width * len(self._sizes))]
        )
        self._below.update(draws, below)
        self._above.update([draw._replace(value=1 - draw.value, centre=1 - draw.centre) for draw in draws], above)
        for draw in draws:
            self._sums[draw.dataset] += draw.value
            self._squares += (draw.value - draw.centre) ** 2
        self._drawn += len(draws)
        self.rounds += 1

    def _read(self, values: Sequence[float | None]) -> list[_Draw]:
        """Return the rows of a round, with values scaled to [0, 1]."""
        pooled = _POOLED_ROWS * (0.5 + sum(self._sums)) / (1 + self._drawn)
        draws = []
        for number, (value, size) in enumerate(zip(values, self._sizes, strict=True)):
            drawn = min(self.rounds, size)
            if value is None:
                continue
            scaled = (value - self._low) / self._width
            if not -_LEAST <= scaled <= 1 + _LEAST:
                raise ArgumentError(f"wrong value: got {value}, expected {self._low:g} to {self._low + self._width:g}")
            centre = (pooled + self._sums[number]) / (_POOLED_ROWS + drawn)
            draws.append(_Draw(number, min(1.0, max(0.0, scaled)), centre, 1 - drawn / size, size, drawn + 1 == size))
        return draws
