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

CONFIDENCE_SEQUENCE_VERSION = "cs1"
"""Version of the sequence and its bets, for signatures."""

_LARGEST_BET = 0.9
"""Largest share of the capital that is bet; at 1, a single row could lose all of it."""

_LEAST = 1e-9
"""Centres and distances below count as this where they divide; values may be outside the range by it."""

_PRIOR_VARIANCE = 0.25
"""The largest possible variance of one row; it counts as one row."""

_POOLED_ROWS = 2.0
"""So many rows with the mean over all data sets count towards the centre of each data set."""


class _Draw(NamedTuple):
    """One row of a round."""

    dataset: int
    value: float
    """Scaled to [0, 1]."""
    centre: float
    """The value that earlier draws predict."""
    remaining_share: float
    """Share of the data set's rows that were left before."""
    size: int
    """Number of rows of the data set."""
    is_last: bool
    """Whether it is the last row of the data set."""

    @property
    def mirrored(self) -> _Draw:
        """The draw of one minus the value."""
        return _Draw(self.dataset, 1 - self.value, 1 - self.centre, self.remaining_share, self.size, self.is_last)


class _LowerBound:
    """A lower bound of the sum of the means of all data sets, for values in [0, 1].

    Args:
        count: Number of data sets.
        threshold: Logarithm of the capital that refutes a sum.
    """

    def __init__(self, count: int, threshold: float) -> None:
        # Sum of the drawn values of each data set, divided by its size.
        self._drawn_shares = [0.0] * count
        # Sum of the bets of all rounds.
        self._total_bet = 0.0
        # Logarithm of the capital minus the threshold, without the terms of the unknown means.
        self._evidence = -threshold
        # Sum of the means of the data sets without rows left.
        self._known_means = 0.0
        self.value = 0.0

    def update(self, draws: Sequence[_Draw], bet: float) -> None:
        """Add one value of each data set that has rows left.

        With x the value, c the centre, s the drawn share of a data set and own = bet * (share of its rows that remain),
        the logarithm of the factor of a draw is ``log(1 + own * (x - c)) + own * c + bet * s - bet * mean``.

        Args:
            draws: The rows.
            bet: The common factor of the bets; reduced where it is too large.
        """
        largest_loss = max(draw.remaining_share * max(draw.centre, _LEAST) for draw in draws)
        bet = min(bet, _LARGEST_BET / largest_loss)
        self._total_bet += bet
        for dataset, value, centre, remaining_share, size, is_last in draws:
            own_bet = bet * remaining_share
            drawn_share = self._drawn_shares[dataset]
            self._evidence += math.log1p(own_bet * (value - centre)) + own_bet * centre + bet * drawn_share
            drawn_share += value / size
            self._drawn_shares[dataset] = drawn_share
            if is_last:  # its mean is known now
                self._evidence -= self._total_bet * drawn_share
                self._known_means += drawn_share

        # The capital is below the threshold where evidence < total_bet * (sum of the unknown means). The bounds of all
        # rounds hold together, so the largest one counts. The values of the remaining rows are at least 0.
        bound = self._evidence / self._total_bet + self._known_means
        self.value = max(self.value, bound, sum(self._drawn_shares))


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
        self._low = low
        self._width = high - low
        threshold = math.log(2 / (1 - level))
        self._lower_bound = _LowerBound(len(sizes), threshold)
        self._mirrored_upper_bound = _LowerBound(len(sizes), threshold)
        # Of the drawn values, scaled to [0, 1]: sum of each data set, number, and squared distances to their centres.
        self._sums = [0.0] * len(sizes)
        self._n_drawn = 0
        self._squares = _PRIOR_VARIANCE
        self.rounds = 0
        self.all_rounds = max(sizes)

    @property
    def interval(self) -> tuple[float, float]:
        """The intersection of the intervals of all rounds so far."""
        if self.rounds == self.all_rounds:
            return self.estimate, self.estimate
        n_datasets = len(self._sizes)
        lower = self._lower_bound.value / n_datasets
        upper = 1 - self._mirrored_upper_bound.value / n_datasets
        if lower > upper:  # both bounds hold with the level; that they cross has at most the error probability
            middle = (lower + upper) / 2
            lower = middle
            upper = middle
        return self._low + self._width * lower, self._low + self._width * upper

    @property
    def estimate(self) -> float:
        """The mean over data sets of the means of the drawn rows; the middle of the range before the first round."""
        if not self.rounds:
            return self._low + self._width / 2
        means = []
        for total, size in zip(self._sums, self._sizes, strict=True):
            n_drawn = min(self.rounds, size)
            means.append(total / n_drawn)
        return self._low + self._width * math.fsum(means) / len(self._sizes)

    @property
    def standard_error(self) -> float:
        """The approximate standard error of :attr:`estimate`, for choosing bets; no interval follows from it.

        It is ``width * sqrt(variance * sum((1 - drawn / size) / drawn)) / data sets``.
        """
        terms = []
        for size in self._sizes:
            n_drawn = min(self.rounds, size)
            terms.append((1 - n_drawn / size) / max(n_drawn, 1))
        return self._width * math.sqrt(self._row_variance * sum(terms)) / len(self._sizes)

    @property
    def _row_variance(self) -> float:
        """The mean squared distance of a row to the centre that was predicted for it."""
        return self._squares / (1 + self._n_drawn)

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
        if gap_above is None:
            gap_above = gap
        draws = self._scaled_draws(values)
        self._lower_bound.update(draws, self._best_bet(draws, gap))
        self._mirrored_upper_bound.update([draw.mirrored for draw in draws], self._best_bet(draws, gap_above))
        for draw in draws:
            self._sums[draw.dataset] += draw.value
            self._squares += (draw.value - draw.centre) ** 2
        self._n_drawn += len(draws)
        self.rounds += 1

    def _best_bet(self, draws: Sequence[_Draw], gap: float) -> float:
        """Return the bet for which the capital is expected to grow most if the bound is off by a gap.

        With g the gap of the sum over data sets, and the variance that of the sum of the draws, the logarithm of the
        capital grows by about ``bet * g - bet^2 * (variance + g^2 / draws) / 2`` each round. This is largest for
        ``bet = g / (variance + g^2 / draws)``.
        """
        variance = self._row_variance * sum(draw.remaining_share * draw.remaining_share for draw in draws)
        gap_of_sum = max(_LEAST, gap / self._width * len(self._sizes))
        return gap_of_sum / (variance + gap_of_sum * gap_of_sum / len(draws))

    def _scaled_draws(self, values: Sequence[float | None]) -> list[_Draw]:
        """Return the rows of a round, with values scaled to [0, 1]."""
        pooled_mean = (0.5 + sum(self._sums)) / (1 + self._n_drawn)
        draws = []
        for dataset, (value, size) in enumerate(zip(values, self._sizes, strict=True)):
            if value is None:
                continue
            scaled = (value - self._low) / self._width
            if not -_LEAST <= scaled <= 1 + _LEAST:
                raise ArgumentError(f"wrong value: got {value}, expected {self._low:g} to {self._low + self._width:g}")
            n_drawn = min(self.rounds, size)
            draw = _Draw(
                dataset=dataset,
                value=min(1.0, max(0.0, scaled)),
                centre=(_POOLED_ROWS * pooled_mean + self._sums[dataset]) / (_POOLED_ROWS + n_drawn),
                remaining_share=1 - n_drawn / size,
                size=size,
                is_last=n_drawn + 1 == size,
            )
            draws.append(draw)
        return draws
