r"""Confidence sequences: intervals that are valid at every round, whenever one stops.

The score of a benchmark is a finite quantity: the mean over data sets of the mean over their test rows. Rows are drawn
without replacement, one of each data set per round. With the nominal level as probability, the intervals after *all*
rounds contain the score. So one may look at the interval after each round, and stop at any round. When all rows are
drawn, the interval is the score itself.

Method: testing by betting without replacement (Waudby-Smith and Ramdas 2020, arXiv 2006.04347; 2024, arXiv
2010.09686). Someone bets on each draw that the score is larger than assumed. If the assumption is true, no strategy is
expected to gain; so a large capital refutes it. The factor by which a draw changes the capital has a logarithm that is
linear in the unknown means, as in their empirical Bernstein sequence, so that only the mean over the data sets matters
and not the mean of each.

Data set :math:`s` has :math:`N_s` rows with values :math:`x` in [0, 1] and mean :math:`\mu_s`. Before a draw, :math:`r`
rows with the mean :math:`m = (N_s \mu_s - \text{sum drawn}) / r` remain. For each centre :math:`c` and bet
:math:`\lambda \ge 0` with :math:`\lambda c < 1` that depend on earlier draws only, the factor

.. math:: (1 + \lambda (x - c)) \, e^{-\lambda (m - c)}

is not negative. With :math:`u = \lambda (m - c)`, its expectation is :math:`(1 + u) e^{-u}`, which is at most 1. The
capital, the product of the factors of all draws, is therefore a supermartingale. By Ville's inequality it ever exceeds
:math:`2 / \alpha` with a probability of at most :math:`\alpha / 2`. With :math:`\lambda = \gamma r / N_s` and the same
:math:`\gamma` for all data sets of a round, its logarithm is a known number minus
:math:`\sum_t \gamma_t \cdot \sum_s \mu_s`. The smallest mean for which it is below :math:`\log (2 / \alpha)` is a lower
bound of the mean, in closed form. The upper bound is one minus the lower bound of the mean of :math:`1 - x`. One
capital tests all data sets together, so that no correction for several tests is needed. The bets change how fast the
interval shrinks, not whether it is valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from StaICC.errors import ArgumentError

CONFIDENCE_SEQUENCE_VERSION = "cs1"
"""Version of the method and its bets, for the signatures of results: other bets give other intervals."""

_LARGEST_BET = 0.9
"""The largest share of the capital that one draw can lose; with 1, a single row could lose all of it for good."""

_LEAST = 1e-9
"""Smaller divisors (centres and gaps) are replaced by this. It is also the tolerance for values outside their range."""

_PRIOR_VARIANCE = 0.25
"""The squared distance of one pseudo-row to its centre, in the estimate of the variance. It is the largest possible
variance of values in [0, 1]."""

_POOLED_ROWS = 2.0
"""Number of pseudo-rows in the centre of each data set. They have the mean of the drawn rows of all data sets, so that
the centre of a data set with few drawn rows is near this mean."""


class _Draw(NamedTuple):
    """One row that was drawn from a data set in a round."""

    dataset: int
    """Index of the data set."""
    value: float
    """The value of the row, scaled to [0, 1]."""
    centre: float
    """The value that earlier draws predict, c in the formula at the top."""
    remaining_share: float
    """Share of the rows of the data set that were not drawn before this draw, r / N in the formula at the top."""
    size: int
    """Number of rows of the data set."""
    is_last: bool
    """Whether it is the last row of the data set."""

    @property
    def mirrored(self) -> _Draw:
        """The same draw with one minus the value, for the upper bound."""
        return _Draw(self.dataset, 1 - self.value, 1 - self.centre, self.remaining_share, self.size, self.is_last)


class _LowerBound:
    """A lower confidence bound of the sum of the means of all data sets, for values in [0, 1].

    It keeps the logarithm of the capital of someone who bets that the sum is larger than assumed. The bets are at odds
    at which they gain nothing on average if the assumption is true. The bound is the smallest sum that is assumed
    without the capital exceeding the threshold. The top of the module has the proof.

    Attributes:
        value: The largest bound of all rounds so far; all of them hold together with the level.

    Args:
        count: Number of data sets.
        threshold: Logarithm of the capital that refutes an assumed sum of means.
    """

    def __init__(self, count: int, threshold: float) -> None:
        """Begin without any drawn row: the bound is 0."""
        # For each data set the sum of its drawn values, divided by its number of rows.
        self._drawn_shares = [0.0] * count
        # The sum of the bets of all rounds.
        self._total_bet = 0.0
        # The logarithm of the capital minus the threshold, but for the terms with unknown means:
        # log(capital) - threshold = evidence - total_bet * (sum of the unknown means).
        self._evidence = -threshold
        # The sum of the means of the data sets of which all rows are drawn.
        self._known_means = 0.0
        self.value = 0.0

    def update(self, draws: Sequence[_Draw], bet: float) -> None:
        """Add one drawn row of each data set that has rows left.

        With x the value, c the centre, s the drawn share of a data set and ``scaled_bet = bet * remaining_share``, the
        logarithm of the factor of a draw is
        ``log(1 + scaled_bet * (x - c)) + scaled_bet * c + bet * s - bet * (mean of the data set)``. It follows from the
        formula at the top with ``remaining_share * m = mean - s``.

        Args:
            draws: The drawn rows.
            bet: The bet that all data sets have in common, gamma in the formula at the top. It is reduced where a draw
                could lose too much of the capital.
        """
        # A draw of the value 0 loses most: the share scaled_bet * c of the capital.
        largest_loss_per_bet = max(draw.remaining_share * max(draw.centre, _LEAST) for draw in draws)
        bet = min(bet, _LARGEST_BET / largest_loss_per_bet)
        self._total_bet += bet
        for draw in draws:
            scaled_bet = bet * draw.remaining_share
            drawn_share = self._drawn_shares[draw.dataset]
            log_of_gain = math.log1p(scaled_bet * (draw.value - draw.centre))
            self._evidence += log_of_gain + scaled_bet * draw.centre + bet * drawn_share
            drawn_share += draw.value / draw.size
            self._drawn_shares[draw.dataset] = drawn_share
            if draw.is_last:
                # All rows are drawn, so the mean of this data set is known. Its term moves to the evidence.
                self._evidence -= self._total_bet * drawn_share
                self._known_means += drawn_share

        # The capital stays below the threshold if evidence < total_bet * (sum of the unknown means), which bounds this
        # sum from below.
        bound_by_capital = self._evidence / self._total_bet + self._known_means
        # The values of the remaining rows are at least 0.
        bound_by_drawn_rows = sum(self._drawn_shares)
        self.value = max(self.value, bound_by_capital, bound_by_drawn_rows)


class ConfidenceSequence:
    """The confidence interval of the mean over data sets of the means of all their rows, updated after each round.

    Args:
        sizes: Number of rows of each data set, at least 1.
        level: Probability that the intervals of all rounds contain the mean.
        low: The lowest possible value of a row.
        high: The highest possible value of a row.

    Attributes:
        rounds: Number of rounds so far.
        all_rounds: Number of rounds after which all rows are drawn.

    Example:
        >>> sequence = ConfidenceSequence([100, 100])
        >>> for _ in range(50):
        ...     sequence.update([1.0, 1.0], 0.05)
        >>> tuple(round(end, 3) for end in sequence.interval)
        (0.969, 1.0)
    """

    def __init__(self, sizes: Sequence[int], level: float = 0.95, low: float = 0.0, high: float = 1.0) -> None:
        """Begin before the first round. The arguments are those of the class."""
        self._sizes = tuple(sizes)
        self._low = low
        self._width = high - low
        threshold = math.log(2 / (1 - level))
        self._lower_bound = _LowerBound(len(sizes), threshold)
        self._bound_of_mirrored = _LowerBound(len(sizes), threshold)
        # Of the drawn values, scaled to [0, 1]: the sum in each data set, the number in all data sets, and the sum of
        # their squared distances to the centres, with the pseudo-row.
        self._sums = [0.0] * len(sizes)
        self._n_drawn = 0
        self._sum_of_squares = _PRIOR_VARIANCE
        self.rounds = 0
        self.all_rounds = max(sizes)

    @property
    def interval(self) -> tuple[float, float]:
        """The intersection of the intervals of all rounds so far, as its lower and upper end.

        The upper bound of a mean is one minus the lower bound of the mean of the mirrored values ``1 - x``.
        """
        if self.rounds == self.all_rounds:
            return self.estimate, self.estimate
        n_datasets = len(self._sizes)
        lower = self._lower_bound.value / n_datasets
        upper = 1 - self._bound_of_mirrored.value / n_datasets
        if lower > upper:
            # One of the bounds is wrong, which happens with a probability of at most 1 - level.
            middle = (lower + upper) / 2
            lower = middle
            upper = middle
        return self._low + self._width * lower, self._low + self._width * upper

    @property
    def estimate(self) -> float:
        """The mean over data sets of the mean value of the rows drawn so far.

        Before the first round it is the middle of the range. Each round draws one row of each data set that has rows
        left, so that ``min(rounds, size)`` rows of a data set are drawn. The values are kept scaled to 0 to 1, and the
        mean is scaled back to the range ``low`` to ``high``.
        """
        if not self.rounds:
            return self._low + self._width / 2
        scaled_means = []
        for scaled_sum, size in zip(self._sums, self._sizes, strict=True):
            n_drawn = min(self.rounds, size)
            scaled_means.append(scaled_sum / n_drawn)
        return self._low + self._width * math.fsum(scaled_means) / len(self._sizes)

    @property
    def standard_error(self) -> float:
        """The approximate standard error of :attr:`estimate`. It serves to choose bets, and not to compute intervals.

        The estimate is the mean over the data sets of the mean of their drawn rows. Rows are drawn without replacement,
        so that the mean of ``n_drawn`` of ``size`` rows has the variance
        ``row variance * (1 - n_drawn / size) / n_drawn`` (with the finite population correction of Cochran 1977). One
        row variance is taken for all data sets (:attr:`_row_variance`). So the standard error is::

            width * sqrt(row variance * sum over data sets of (1 - n_drawn / size) / n_drawn) / number of data sets

        where ``width`` scales values from [0, 1] back to their range. Before the first round, ``n_drawn`` counts as 1.
        """
        variance_factors = []
        for size in self._sizes:
            n_drawn = min(self.rounds, size)  # each round draws one row, until none is left
            variance_factors.append((1 - n_drawn / size) / max(n_drawn, 1))
        return self._width * math.sqrt(self._row_variance * sum(variance_factors)) / len(self._sizes)

    @property
    def _row_variance(self) -> float:
        """The estimated variance of a row, scaled to [0, 1]: its mean squared distance to what earlier draws predicted.

        The mean is over the drawn rows of all data sets and one pseudo-row with the largest possible variance, so that
        it exists before the first draw.
        """
        return self._sum_of_squares / (1 + self._n_drawn)

    def update(self, values: Sequence[float | None], gap: float, gap_above: float | None = None) -> None:
        """Add one round: one drawn row of each data set that has rows left.

        Args:
            values: The value of the drawn row of each data set; ``None`` for a data set without rows left.
            gap: The distance between the mean and its lower bound for which the bets are chosen, such as the wanted
                precision. It may depend on earlier rounds. The interval is valid with any gap.
            gap_above: The distance between the mean and its upper bound; ``None`` for the same as ``gap``.

        Raises:
            ArgumentError: A value is out of range.
        """
        if gap_above is None:
            gap_above = gap
        draws = self._scaled_draws(values)
        self._lower_bound.update(draws, self._best_bet(draws, gap))
        self._bound_of_mirrored.update([draw.mirrored for draw in draws], self._best_bet(draws, gap_above))
        for draw in draws:
            self._sums[draw.dataset] += draw.value
            self._sum_of_squares += (draw.value - draw.centre) ** 2
        self._n_drawn += len(draws)
        self.rounds += 1

    def _best_bet(self, draws: Sequence[_Draw], gap: float) -> float:
        """Return the bet with which the capital is expected to grow most if an assumed mean is too small by the gap.

        Let g be the gap of the *sum* of the means of all data sets, and v the variance of the sum of the draws of a
        round. By the Taylor series of second order, the logarithm of the capital grows in each round by about::

            bet * g - bet^2 * (v + g^2 / draws) / 2

        This is largest for ``bet = g / (v + g^2 / draws)``, where its derivative is 0.

        Args:
            draws: The draws of the next round; only their number and their remaining shares are used.
            gap: The gap of the mean, in the unit of the values.
        """
        variance = self._row_variance * sum(draw.remaining_share * draw.remaining_share for draw in draws)
        gap_of_sum = max(_LEAST, gap / self._width * len(self._sizes))
        return gap_of_sum / (variance + gap_of_sum * gap_of_sum / len(draws))

    def _scaled_draws(self, values: Sequence[float | None]) -> list[_Draw]:
        """Return the draws of a round, with values scaled to [0, 1].

        The centre of a draw is the value that earlier draws predict for it: a mean of the drawn values of the data set,
        moved towards the mean over all data sets. With n drawn values of the data set, and their sum S::

            centre = (_POOLED_ROWS * m + S) / (_POOLED_ROWS + n)

        Here m is the mean of the drawn values of all data sets and of one more value, 0.5, so that m exists before the
        first draw.
        """
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
