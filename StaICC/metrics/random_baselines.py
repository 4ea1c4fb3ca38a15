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

A tail of the number of right guesses, whose chances may differ (Poisson binomial), is the integral of its generating
function around a circle whose radius is near the saddlepoint (Daniels 1954). The integrand does not cancel there, so
all digits are correct, however small the tail. The trapezoidal rule is exact for a number with a bound, and needs few
nodes where the distribution is wide. Binomial probabilities are computed by their ratios, from the mode outwards.
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

from StaICC.errors import ArgumentError, validate_integer

Groups = tuple[tuple[float, int], ...]
"""Pairs of (probability of a success, number of such trials)."""

SMALLEST = 1e-320
"""The ratios of a binomial distribution end here: smaller numbers have too few digits for a product to fall further."""

_ZERO = 1e-300
"""Smaller chances of success count as zero."""
_FAR = 6.0
"""Standard deviations from the mean up to which tails share circles, ..."""
_WIDE = 8.0
"""... if the standard deviation is larger than this: the ends of the distribution are then further away."""
_NOTHING = 1e-18
"""Terms that change no digit of a sum."""


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


def _saddlepoint(terms: Sequence[tuple[float, float, int]], score: float) -> tuple[float, float, float, list[float]]:
    """Return how far a sum of independent terms must be tilted so that its mean is a score.

    Tilting by theta multiplies the probability of a sum s by ``exp(theta * s)`` and normalises. The log-odds of each
    trial grow by theta times what a success adds.

    Args:
        terms: What a success adds, its log-odds, and the number of such trials.
        score: The mean, between the smallest and the largest sum.

    Returns:
        Theta; how much the logarithms of the chances of failure, added up over all trials, shrink under it; the tilted
        variance; and the tilted log-odds, which end at 700.
    """
    high = 800.0 / max(weight for weight, *_ in terms)
    low, theta = -high, 0.0
    for _ in range(200):
        odds = [max(-700.0, min(700.0, log_odds + theta * weight)) for weight, log_odds, _ in terms]
        chances = [1.0 / (1.0 + math.exp(-x)) for x in odds]
        slope = variance = 0.0
        for (weight, _, count), chance in zip(terms, chances, strict=True):
            slope += weight * count * chance
            variance += weight**2 * count * chance * (1.0 - chance)
        low, high = (theta, high) if slope < score else (low, theta)
        step = theta + (score - slope) / variance if variance > 0.0 else math.nan
        before, theta = theta, step if low < step < high else (low + high) / 2.0
        if abs(theta - before) <= 1e-12 * abs(theta):
            break
    odds = [log_odds + theta * weight for weight, log_odds, _ in terms]
    sizes = (max(0.0, x) + math.log1p(math.exp(-abs(x))) for x in odds)
    value = math.fsum(size * count for size, (*_, count) in zip(sizes, terms, strict=True))
    return theta, value, variance, [max(-700.0, min(700.0, x)) for x in odds]


def _centre(groups: Groups) -> tuple[float, float]:
    """Return mean and standard deviation of the number of successes."""
    variance = math.fsum(rate * (1.0 - rate) * count for rate, count in groups)
    return math.fsum(rate * count for rate, count in groups), math.sqrt(variance)


@lru_cache(maxsize=64)
def _circle(groups: Groups, mean: float) -> tuple[float, float, int, list[complex]]:
    """Return the generating function on the circle under whose tilt the number of successes has a mean.

    Returns:
        Logarithm of the radius; that of the generating function at the radius; the number of nodes, which is odd; and
        the values relative to that at the radius, for half of the circle, without negligible ones.
    """
    terms = [(1.0, math.log(rate) - math.log1p(-rate), count) for rate, count in groups]
    theta, value, variance, odds = _saddlepoint(terms, mean)
    value += math.fsum(math.log1p(-rate) * count for rate, count in groups)
    tilted = [
        (1.0 / (1.0 + math.exp(x)), 1.0 / (1.0 + math.exp(-x)), count)
        for x, (_, count) in zip(odds, groups, strict=True)
    ]
    trials = sum(count for _, count in groups)
    # no two numbers with a noticeable probability are the same modulo this, and the pole at 1 is far away
    nodes = int(min(trials, 24.0 * math.sqrt(variance) + 60.0) + 40.0 / abs(theta)) | 1
    values = []
    for node in range(nodes // 2 + 1):
        turn = cmath.rect(1.0, 2.0 * math.pi * node / nodes)
        values.append(math.prod([(failure + success * turn) ** count for failure, success, count in tilted]))
        if abs(values[-1]) < _NOTHING:
            break
    return theta, value, nodes, values


def log_tail(groups: Groups, k: int) -> tuple[float, bool]:
    """Natural logarithm of the tail of the number of successes that begins at k, however small it is.

    Args:
        groups: Chances of success with their numbers of trials.
        k: Number of successes.

    Returns:
        The logarithm (minus infinity if impossible), and whether it is the upper tail: at least k if k is above the
        mean, at most k otherwise.

    Example:
        >>> log_tail(((0.5, 2000),), 2000)[0] == 2000 * math.log(0.5)
        True
    """
    upper = k > _centre(groups)[0]
    k -= sum(count for rate, count in groups if rate == 1.0)
    uncertain = tuple((rate, count) for rate, count in groups if _ZERO <= rate < 1.0)
    trials = sum(count for _, count in uncertain)
    if not 0 <= k <= trials:
        return (-math.inf if (k > 0) == upper else 0.0), upper
    if k in (0, trials):
        end = math.fsum((math.log(rate) if k else math.log1p(-rate)) * count for rate, count in uncertain)
        return (end if bool(k) == upper else 0.0), upper
    sign = 1.0 if upper else -1.0
    mean, deviation = _centre(uncertain)
    distance = abs(k - mean) / deviation
    if distance < 1.0 or (distance <= _FAR and deviation > _WIDE):  # many k share a circle
        tilted = mean + sign * deviation * max(1, int(distance))
    else:
        tilted = float(k)
    theta, value, nodes, values = _circle(uncertain, tilted)
    total = 0.0
    for node, at_node in enumerate(values):
        angle = 2.0 * math.pi / nodes
        turned = at_node * cmath.rect(1.0, -angle * (node * k % nodes))
        total += (2.0 if node else 1.0) * (turned / (1.0 - cmath.exp(-sign * complex(theta, angle * node)))).real
    return min(0.0, value - theta * k + math.log(total / nodes)), upper


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
        mean, deviation = _centre(self.p)
        if t == 1:
            return mean / self.n
        step = 1 + 2 * int(deviation / (8.0 + 8.0 * math.sqrt(math.log(t))))  # the sum is as smooth as an integral
        middle, total = int(mean) + 1, 0.0
        for k in range(middle - step, 0, -step):
            reached = -math.expm1(t * self._below(k)[0])
            total += step * reached
            if reached == 1.0:
                total += max(0, k - step // 2 - 1)
                break
        for k in range(middle, self.n + 1, step):
            reached = -math.expm1(t * self._below(k)[0])
            total += step * reached
            if reached < _NOTHING * total:
                break
        return total / self.n

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
        return bisect_left(range(self.n), True, key=lambda k: self.p_value_of_count(k, t) <= alpha)

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
        if k > _centre(self.p)[0]:
            tail, _ = log_tail(self.p, k)
            return math.log1p(-math.exp(tail)), tail
        return log_tail(self.p, k - 1)[0] if k else -math.inf, 0.0


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
    total: dict[int, float] = {}
    for place, chance in chances.items():
        for more, weight in added.items():
            total[place + more] = total.get(place + more, 0.0) + chance * weight
    return total


def _on_grid(chances: Mapping[int, float], scale: Fraction) -> dict[int, float]:
    """Return the distribution of a scaled variable, the mass between two integers shared so that its mean is kept."""
    scaled: dict[int, float] = {}
    for place, chance in chances.items():
        low, rest = divmod(place * scale.numerator, scale.denominator)
        part = rest / scale.denominator
        scaled[low] = scaled.get(low, 0.0) + chance * (1.0 - part)
        if rest:
            scaled[low + 1] = scaled.get(low + 1, 0.0) + chance * part
    return scaled


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


def _thin_tail(guesses: Guesses, score: float) -> float:
    """Return a small probability of at least a score, by the formula of Lugannani and Rice (1980)."""
    score -= math.fsum(weight * count for weight, labels, count in guesses if labels == 1)
    guesses = [guess for guess in guesses if guess[1] > 1]
    most = math.fsum(weight * count for weight, _, count in guesses)
    if score >= most - 1e-12:
        all_right = math.exp(-math.fsum(count * math.log(labels) for _, labels, count in guesses))
        return all_right if score < most + 1e-9 else 0.0
    terms = [(weight, -math.log(labels - 1), count) for weight, labels, count in guesses]
    theta, value, variance, _ = _saddlepoint(terms, score)
    value += math.fsum(count * math.log((labels - 1) / labels) for _, labels, count in guesses)
    w, u = math.sqrt(max(0.0, 2.0 * (theta * score - value))), theta * math.sqrt(variance)
    density = math.exp(-w * w / 2.0) / math.sqrt(2.0 * math.pi)
    tail = math.erfc(w / math.sqrt(2.0)) / 2.0 + density * (1.0 / u - 1.0 / w)
    return min(1.0, max(0.0, tail))


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
