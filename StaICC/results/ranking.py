"""Ranking of many runs: intervals of ranks, probability of being the best, win rates and Bradley-Terry strengths.

**Ranks.** Every pair of runs is tested by the paired test of :mod:`StaICC.metrics.paired_tests`; the p-values of both
directions of all pairs are corrected together (:func:`~StaICC.metrics.paired_tests.directional_holm`). A run is behind
each run that is shown to be better, and before each one that is shown to be worse. So all intervals of ranks together
contain the true ranks with probability 0.95 (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for Ranks", Review of
Economic Studies 91; Klein, Wright and Wieczorek 2020, "A joint confidence region for an overall ranking of
populations", JRSS C 69).

Of more than :data:`~StaICC.results.comparison.MOST_RUNS` runs, most pairs are decided by a bound. The p-value is a tail
of a sum of exponential variables, each times the step t of a row. By Chernoff's inequality, for each s > 0 with s w < 1
and s a < 1 (w: largest step, a: size of the pseudo-row)::

    p <= exp(-sum(log(1 + s t))) / (1 - s a)

Of all steps with the same number, sum and sum of squares, those with two values, one of them -w, have the smallest sum
of logarithms (Karlin and Studden 1966, "Tchebycheff Systems"), so the bound needs only these sums. A pair whose bound
is below the level over the number of hypotheses is different. A pair whose normal score is far below what the last step
of the correction needs is not, whatever its p-value: it counts as 1, which cannot raise the error rate. The others are
tested. Sums over rows are computed for all runs at once: the numbers of a row for all runs are the 64-bit fields of one
integer (:class:`PackedRows`).

**Probability of being the best.** The share of bootstrap samples of the test rows (within each data set) in which the
run has the best mean; runs with the same mean share it. It describes the sample, and is not a p-value.

**Win rate.** The share of (other run, data set) pairs in which a run has the better value; ties count half. Its
interval is for other data sets of the same kind, which few data sets make wide.

**Bradley-Terry.** Strengths b for which the run i beats j with probability 1 / (1 + exp(b_j - b_i)), by maximum
likelihood from the same wins (Hunter 2004, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics
32). Each run has one more tie with a run of strength 0, so all strengths are finite. The ends of the interval are the
strengths at the ends of the interval of the win rate, with those of the other runs unchanged.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import mul, sub
from statistics import NormalDist
from typing import Any

from StaICC.errors import known_name, validate_integer
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics.intervals import Interval
from StaICC.metrics.paired_tests import (
    LEVEL,
    PairedDifference,
    difference_interval,
    upper_p_value,
)
from StaICC.results.comparison import (
    MOST_RUNS,
    TABLE_FORMATS,
    AlignedRuns,
    Outcome,
    Rank,
    Tested,
    align,
    corrected,
    describe,
    difference_outcome,
    ranks_of,
)
from StaICC.results.result import Result

__all__ = ["FORMATS", "PackedRows", "RankedRun", "Ranking", "Wins", "format_rankings", "rank", "rank_runs"]

FORMATS = (*TABLE_FORMATS, "json")
"""What :func:`format_rankings` can write."""
_LARGEST = 2**20 - 1


@dataclass(frozen=True, slots=True)
class Wins:
    """How a run does against the others over several data sets."""

    rate: float
    """Share of (other run, data set) pairs in which the run has the better value; ties count half."""
    interval: Interval | None
    """Of the rate, over data sets."""
    strength: float
    """Of the Bradley-Terry model."""
    strength_interval: tuple[float, float] | None
    """Over data sets."""


@dataclass(frozen=True, slots=True)
class RankedRun(Rank):
    """The place of one run among several, and how far it depends on rows, data sets and conditions."""

    best: float = 0.0
    """Probability of being the best, over bootstrap samples of the test rows."""
    condition_ranks: tuple[int, int] | None = None
    """The lowest and the highest rank with one template, or one draw of the demonstrations; ``None`` if there is one of
    each, or if the metric is not the mean over them."""
    wins: Wins | None = None
    """Over the data sets; ``None`` if there is only one."""


@dataclass(frozen=True, slots=True)
class Ranking(Displayed):
    """Runs of one benchmark, ranked by the mean of one metric."""

    benchmark: str
    metric: str
    higher_is_better: bool
    datasets: tuple[str, ...]
    rows: int
    """Test rows, over all data sets."""
    draws: int
    """Bootstrap samples."""
    seed: int
    runs: tuple[RankedRun, ...]
    """The best first."""
    left_out: tuple[str, ...]
    """Runs, data sets and queries that are not ranked, with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    def display_blocks(self) -> list[Block]:
        """Return the table with what its columns mean."""
        several, conditions = len(self.datasets) > 1, any(run.condition_ranks for run in self.runs)
        head = ["rank", "95 %", "run", "group", "verdict", self.metric, "best"]
        head += ["conditions"] if conditions else []
        head += ["wins", "95 %", "strength", "95 %"] if several else []
        rows = []
        for number, run in enumerate(self.runs, 1):
            cells = [str(number), run.interval_cell, run.run, run.groups, describe(run.verdict)]
            cells += [f"{run.value:.4f}", f"{run.best:.3f}"]
            cells += [_ends(run.condition_ranks, "d")] if conditions else []
            if run.wins is not None:
                interval = run.wins.interval
                ends = None if interval is None else (interval.low, interval.high)
                cells += [f"{run.wins.rate:.3f}", _ends(ends, ".2f")]
                cells += [f"{run.wins.strength:+.2f}", _ends(run.wins.strength_interval, "+.2f")]
            rows.append(cells)
        direction = "higher" if self.higher_is_better else "lower"
        notes = [f"{self.metric} ({direction} is better), {len(self.datasets)} data sets, {self.rows} test rows"]
        below = [
            f"95 %: all intervals of ranks together have the true ranks with probability 0.95 (paired tests, Holm over "
            f"both directions of all pairs, level {LEVEL:g}). best: share of {self.draws} bootstrap samples of the "
            f"rows (seed {self.seed}) in which the run has the best mean."
        ]
        below += (
            ["conditions: lowest and highest rank with one template or one draw of the demonstrations."]
            if conditions
            else []
        )
        below += (
            ["wins: share of other runs and data sets; strength: Bradley-Terry; over data sets."] if several else []
        )
        below += [f"left out: {reason}" for reason in self.left_out]
        title = Line(f"{self.benchmark}: {len(self.runs)} runs", "title")
        return [title, *map(Line, notes), TextTable(head, rows, range(5)), *map(Line, below)]


def _ends(ends: tuple[float, float] | None, form: str) -> str:
    return "-" if ends is None else " .. ".join(dict.fromkeys(format(end, form) for end in ends))


def rank(results: Mapping[str, Result], metric: str | None = None, *, draws: int = 1000, seed: int = 0) -> Ranking:
    """Rank results of one benchmark by the mean of one metric.

    Args:
        results: The results, by the names of their runs; two at least.
        metric: A score with a mean over data sets; by default the benchmark's main one.
        draws: Bootstrap samples for the probability of being the best.
        seed: Of the bootstrap.

    Returns:
        The runs, the best first. Runs and data sets that cannot be compared are left out, with the reason.

    Raises:
        ArgumentError: Fewer than two runs can be compared; the message says why.
        UnknownNameError: The benchmark has no such metric.

    Example:
        >>> from StaICC import Normal
        >>> runs = {str(n): Normal(datasets=["mini"], limit=20)(lambda prompt, label_space, n=n: n) for n in (0, 1, 2)}
        >>> ranking = rank(runs)
        >>> [run.ranks for run in ranking.runs]
        [(1, 3), (1, 3), (1, 3)]
    """
    draws = validate_integer("draws", draws, 1)
    seed = validate_integer("seed", seed, 0)
    aligned = align(results, metric)
    packed = PackedRows(aligned)
    ranks = rank_runs(aligned, packed)
    best = packed.best(draws, seed)
    conditions = _condition_ranks(aligned)
    wins = _wins(aligned)
    return Ranking(
        aligned.benchmark,
        aligned.metric,
        aligned.higher_is_better,
        tuple(aligned.datasets),
        sum(packed.strata),
        draws,
        seed,
        tuple(
            RankedRun(
                **{item.name: getattr(place, item.name) for item in dataclasses.fields(place)},
                best=best[place.run],
                condition_ranks=conditions.get(place.run),
                wins=wins.get(place.run),
            )
            for place in ranks
        ),
        aligned.left_out,
    )


def rank_runs(aligned: AlignedRuns, packed: PackedRows | None = None) -> tuple[Rank, ...]:
    """Return the runs with the intervals of their ranks, the best first.

    Args:
        aligned: The runs.
        packed: Their rows, if they are known.
    """
    order, leaders = aligned.order, set(aligned.leaders)
    pairs = list(combinations(order, 2))
    screen = _Screen(aligned, packed or PackedRows(aligned)) if len(order) > MOST_RUNS else None
    outcomes: list[Outcome] = []
    for first, second in pairs:  # of many runs, only those of the best ones have their exact p-value
        p = None if screen is None or first in leaders else screen.p_value(first, second)
        outcomes.append(difference_outcome(aligned.difference(first, second)) if p is None else Tested(p, p))
    return ranks_of(aligned, pairs, corrected(outcomes))


class PackedRows:
    """What each test row contributes to the means of all runs, as one integer for each row.

    The contributions of a row are rounded to 20 bits above the smallest one of the row, so only differences of runs can
    be computed from them. Each has a field of 64 bits, and products of two, summed over 16 million rows, fit into it.
    """

    def __init__(self, aligned: AlignedRuns) -> None:
        means = aligned.means
        self.runs = list(means)
        self.strata = next(iter(means.values())).strata
        self.higher_is_better = aligned.higher_is_better
        rows = list(zip(*(mean.steps for mean in means.values()), strict=True))
        lowest = list(map(min, rows))
        self.width = max(max(row) - least for row, least in zip(rows, lowest, strict=True))
        """The largest size of the difference of two runs on a row."""
        self.unit = self.width / _LARGEST or 1.0
        numbers = [[round((x - least) / self.unit) for x in row] for row, least in zip(rows, lowest, strict=True)]
        self._columns = list(zip(*numbers, strict=True))
        self._packed = [int.from_bytes(array("Q", row).tobytes(), sys.byteorder) for row in numbers]

    def _fields(self, packed: int) -> Sequence[int]:
        return memoryview(packed.to_bytes(8 * len(self.runs), sys.byteorder)).cast("Q")

    def squares(self) -> dict[str, dict[str, float]]:
        """Return an upper bound of the sum of squares of the steps of each pair of runs."""
        products = [self._fields(sum(map(mul, column, self._packed))) for column in self._columns]
        rounding = math.sqrt(len(self._packed))
        return {
            run: {
                other: (self.unit * (math.sqrt(own[i] + products[j][j] - 2 * own[j]) + rounding)) ** 2
                for j, other in enumerate(self.runs)
            }
            for i, (run, own) in enumerate(zip(self.runs, products, strict=True))
        }

    def best(self, draws: int, seed: int) -> dict[str, float]:
        """Return the share of bootstrap samples in which each run has the best mean."""
        generator = random.Random(seed)
        shares = [0.0] * len(self.runs)
        best = max if self.higher_is_better else min
        for _ in range(draws):
            place, total = 0, 0
            for size in self.strata:
                total += sum(generator.choices(self._packed[place : place + size], k=size))
                place += size
            values = self._fields(total).tolist()  # type: ignore[attr-defined]
            first = best(values)
            share = 1.0 / values.count(first)
            for number, value in enumerate(values):
                if value == first:
                    shares[number] += share
        return {run: share / draws for run, share in zip(self.runs, shares, strict=True)}


class _Screen:
    """Upper bounds of p-values that are as good as the p-values for the correction of many pairs (see the module)."""

    def __init__(self, aligned: AlignedRuns, packed: PackedRows) -> None:
        self._means, self._better = aligned.means, aligned.higher_is_better
        self._squares, self._width, self._rows = packed.squares(), packed.width, sum(packed.strata)
        hypotheses = len(aligned.runs) * (len(aligned.runs) - 1)
        self._first_step, self._last_step = LEVEL / hypotheses, 2.0 * LEVEL / hypotheses
        self._needed = 0.9 * NormalDist().inv_cdf(1.0 - self._last_step)
        self._simple = all(
            paired.statistic.separable and not own.unbounded and not own.raised and not own.lowered
            for dataset, paired in aligned.datasets.items()
            for own in aligned.alone[dataset].values()
        )

    def p_value(self, first: str, second: str) -> float | None:
        """Return a bound of the two-sided p-value; ``None`` if there is none, and the pair must be tested.

        Args:
            first: A run.
            second: A run whose value is not better.
        """
        above, below = self._means[first], self._means[second]
        if not self._better:
            above, below = below, above
        size, square = above.first - below.first, self._squares[first][second]
        if size * size <= self._needed**2 * (square - size * size / self._rows):
            return 1.0
        if not self._simple:
            return None
        low, high = above.low - below.high, above.high - below.low
        if (bound := _bound(size, square, self._width, -low, self._rows)) <= self._first_step:
            return 2.0 * bound
        steps = list(map(sub, above.steps, below.steps))
        gain = PairedDifference(above.first, below.first, steps, low, high, strata=above.strata)
        p = upper_p_value(gain)
        return 1.0 if p > self._last_step else 2.0 * p


def _bound(size: float, square: float, width: float, pseudo_row: float, rows: int) -> float:
    """Return an upper bound of the one-sided p-value of a positive difference of this size (see the module)."""
    mean = size / rows
    variance = max(0.0, square / rows - mean * mean)
    upper = mean + variance / (mean + width)
    share = variance / (variance + (mean + width) ** 2)
    best = 0.0
    for part in range(1, 20):
        s = 0.05 * part / max(width, pseudo_row)
        of_rows = share * math.log1p(-s * width) + (1.0 - share) * math.log1p(s * upper)
        best = min(best, -rows * of_rows - math.log1p(-s * pseudo_row))
    return math.exp(best)


def _places(values: Mapping[str, float], higher_is_better: bool) -> Iterator[tuple[str, int, int]]:
    """Yield each run with the number of runs that are better, and of those that are worse."""
    ordered = sorted(values.values())
    for run, value in values.items():
        below, above = bisect_left(ordered, value), len(ordered) - bisect_right(ordered, value)
        yield (run, above, below) if higher_is_better else (run, below, above)


def _condition_ranks(aligned: AlignedRuns) -> dict[str, tuple[int, int]]:
    """Return the range of the ranks of each run over templates and draws of demonstrations."""
    ranks: dict[str, list[int]] = {run: [] for run in aligned.runs}
    values = [paired.condition_values for paired in aligned.datasets.values()]
    if len({tuple(of_dataset) for of_dataset in values}) > 1:  # data sets with other conditions
        return {}
    for condition in values[0]:
        means = {run: math.fsum(of_dataset[condition][run] for of_dataset in values) for run in aligned.runs}
        for run, better, _ in _places(means, aligned.higher_is_better):
            ranks[run].append(1 + better)
    return {run: (min(of_run), max(of_run)) for run, of_run in ranks.items() if len(of_run) > 1}


def _wins(aligned: AlignedRuns) -> dict[str, Wins]:
    """Return win rate and strength of each run; nothing with one data set."""
    others, count = len(aligned.runs) - 1, len(aligned.datasets)
    if count < 2:
        return {}
    rates: dict[str, list[float]] = {run: [] for run in aligned.runs}
    for of_runs in aligned.alone.values():
        values = {run: own.first for run, own in of_runs.items()}
        for run, better, worse in _places(values, aligned.higher_is_better):
            rates[run].append((worse + (others - better - worse) / 2.0) / others)
    means = {run: math.fsum(own) / count for run, own in rates.items()}
    strengths = _strengths(means, count)
    wins = {}
    for run, own in rates.items():
        interval, ends = _interval_of_mean(own), None
        if interval is not None:
            rivals = [strength for other, strength in strengths.items() if other != run]
            ends = _strength(interval.low, rivals, count), _strength(interval.high, rivals, count)
        wins[run] = Wins(means[run], interval, strengths[run], ends)
    return wins


def _interval_of_mean(rates: Sequence[float]) -> Interval | None:
    """Return the interval of a mean of rates: that of its difference from 0.5."""
    count = len(rates)
    steps = [(rate - 0.5) / count for rate in rates]
    mean = math.fsum(rates) / count
    interval = difference_interval(PairedDifference(mean, 0.5, steps, -0.5 / count, 0.5 / count, 0.5))
    return interval and replace(interval, low=interval.low + 0.5, high=interval.high + 0.5)


def _expected(strength: float, rivals: Sequence[float]) -> tuple[float, float]:
    """Return the expected number of wins against each of the rivals once, and its derivative."""
    chances = [1.0 / (1.0 + math.exp(min(700.0, rival - strength))) for rival in rivals]
    return math.fsum(chances), math.fsum(chance * (1.0 - chance) for chance in chances)


def _newton_step(strength: float, rivals: Sequence[float], count: int, wanted: float) -> float:
    """Return a step, of size 1 at most, towards the strength with the wanted number of wins and half wins."""
    wins, slope = _expected(strength, rivals)
    tie, tie_slope = _expected(strength, (0.0,))
    step = (wanted - count * wins - tie) / (count * slope + tie_slope)
    return max(-1.0, min(1.0, step))


def _strength(win_rate: float, rivals: Sequence[float], count: int) -> float:
    """Return the strength of a run with this win rate on so many data sets, and one more tie with strength 0."""
    strength = 0.0
    for _ in range(100):
        step = _newton_step(strength, rivals, count, win_rate * len(rivals) * count + 0.5)
        strength += step
        if abs(step) < 1e-9:
            break
    return strength


def _strengths(win_rates: Mapping[str, float], count: int) -> dict[str, float]:
    """Return the strengths that maximise the likelihood, by Newton steps for one run after the other."""
    values = [0.0] * len(win_rates)
    for _ in range(200):
        largest = 0.0
        for place, rate in enumerate(win_rates.values()):
            rivals = values[:place] + values[place + 1 :]
            step = _newton_step(values[place], rivals, count, rate * len(rivals) * count + 0.5)
            values[place] += step
            largest = max(largest, abs(step))
        for _ in range(20):  # the ties alone decide about a shift of all strengths
            wins, slope = _expected(0.0, [-value for value in values])
            shift = (wins - len(values) / 2.0) / slope
            values = [value - shift for value in values]
            if abs(shift) < 1e-9:
                break
        if largest < 1e-7:
            break
    return dict(zip(win_rates, values, strict=True))


def format_rankings(rankings: Sequence[Ranking], form: str = "text") -> str:
    """Write rankings down.

    Args:
        rankings: The rankings.
        form: One of :data:`FORMATS`.

    Returns:
        The text; names of runs and data sets are escaped as the format needs.

    Raises:
        UnknownNameError: There is no such format.
    """
    if known_name("format", form, FORMATS) == "json":
        return json.dumps([ranking.to_dict() for ranking in rankings], ensure_ascii=False, indent=1, allow_nan=False)
    return "\n\n".join(TABLE_FORMATS[form](ranking.display_blocks()) for ranking in rankings)
