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
from itertools import accumulate, pairwise, takewhile
from operator import mul

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError

Groups = tuple[tuple[float, int], ...]
"""Pairs of (probability of a success, number of such trials)."""

_Terms = Sequence[tuple[float, float, int]]
"""Independent trials: what a success adds, its log-odds, and the number of such trials."""

_ZERO = 1e-300
"""Smaller chances of success count as zero."""
_SMALLEST = 1e-320
"""Smaller weights have too few digits for a product to fall further."""
_NOTHING = 1e-18
"""Terms that change no digit of a sum."""


def _terms(groups: Groups) -> list[tuple[int, float, int]]:
    """Return trials of which none is certain to fail or to succeed."""
    return [(1, math.log(rate) - math.log1p(-rate), count) for rate, count in groups if _ZERO <= rate < 1.0]


def _binomial(n: int, log_odds: float, negligible: float = _NOTHING) -> tuple[int, list[float]]:
    """Return the smallest number of successes that is not negligible, and the probabilities from there on."""
    odds = math.exp(log_odds)
    mode = min(n, int((n + 1) * (odds / (1.0 + odds))))
    rising = ((n - k) / (k + 1) * odds for k in range(mode, n))
    falling = (k / (n - k + 1) / odds for k in range(mode, 0, -1))
    above, below = (
        list(takewhile(lambda weight: weight > negligible, accumulate(ratios, mul, initial=1.0)))
        for ratios in (rising, falling)
    )
    total = math.fsum(above) + math.fsum(below) - 1.0
    return mode + 1 - len(below), [weight / total for weight in [*below[:0:-1], *above]]


def _sum_of(terms: Iterable[tuple[int, float, int]], negligible: float = _NOTHING) -> tuple[int, list[float]]:
    """Return the smallest sum of trials that is not negligible, and the probabilities from there on."""
    first, chances = 0, [1.0]
    for weight, log_odds, count in terms:
        low, binomial = _binomial(count, log_odds, negligible)
        spread = [0.0] * (weight * (len(binomial) - 1) + 1)
        spread[::weight] = binomial
        first += weight * low
        longer, shorter = sorted((chances, spread), key=len, reverse=True)
        ends = [0.0] * (len(shorter) - 1)
        padded, turned = [*ends, *longer, *ends], shorter[::-1]
        chances = [sum(map(mul, turned, padded[n : n + len(turned)])) for n in range(len(padded) - len(ends))]
    return first, chances


def _tilt(terms: _Terms, score: float) -> tuple[float, float, list[float]]:
    """Return how far a sum must be tilted so that its mean is a score.

    Tilting by theta multiplies the probability of a sum s by ``exp(theta * s)`` and normalises.

    Returns:
        Theta, the logarithm of the mean of ``exp(theta * s)``, and the tilted log-odds of each term.
    """
    high = 800.0 / max(weight for weight, *_ in terms)
    low, theta = -high, 0.0
    while high - low > 1e-9 * max(abs(low), abs(high)):
        theta = (low + high) / 2.0
        chances = (_chance(log_odds + theta * weight) for weight, log_odds, _ in terms)
        mean = math.fsum(weight * count * p for (weight, _, count), p in zip(terms, chances, strict=True))
        low, high = (theta, high) if mean < score else (low, theta)
    tilted = [log_odds + theta * weight for weight, log_odds, _ in terms]
    grown = (count * (_softplus(x) - _softplus(y)) for x, (_, y, count) in zip(tilted, terms, strict=True))
    return theta, math.fsum(grown), tilted


def _chance(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(max(-700.0, min(700.0, -log_odds))))


def _softplus(x: float) -> float:
    return max(0.0, x) + math.log1p(math.exp(-abs(x)))


def _centre(groups: Groups) -> tuple[float, float]:
    """Return mean and standard deviation of the number of successes."""
    variance = math.fsum(rate * (1.0 - rate) * count for rate, count in groups)
    return math.fsum(rate * count for rate, count in groups), math.sqrt(variance)


def log_tail(groups: Groups, k: int) -> tuple[float, bool]:
    """Natural logarithm of the tail of the number of successes that begins at k, however small it is.

    Args:
        groups: Chances and numbers of trials.
        k: The first number of successes of the tail.

    Returns:
        The logarithm of P(X >= k) and True where k is above the mean, else that of P(X <= k) and False.
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
    theta, value, tilted = _tilt(_terms(uncertain), mean + sign * max(deviation, abs(k - mean)))
    chances = [(_chance(-x), _chance(x), count) for x, (_, count) in zip(tilted, uncertain, strict=True)]
    variance = math.fsum(failure * success * count for failure, success, count in chances)
    # no two numbers with a noticeable probability are the same modulo this, and the pole at 1 is far away
    nodes = int(min(trials, 24.0 * math.sqrt(variance) + 60.0) + 40.0 / abs(theta)) | 1
    total, angle = 0.0, 2.0 * math.pi / nodes
    for node in range(nodes // 2 + 1):
        turn = cmath.rect(1.0, angle * node)
        at_node = math.prod([(failure + success * turn) ** count for failure, success, count in chances])
        turned = at_node * cmath.rect(1.0, -angle * (node * k % nodes))
        total += (2.0 if node else 1.0) * (turned / (1.0 - cmath.exp(-sign * complex(theta, angle * node)))).real
        if abs(at_node) < _NOTHING:
            break
    return min(0.0, value - theta * k + math.log(total / nodes)), upper


GuessRates = float | Sequence[float] | Mapping[int, int]
"""Probability that a guess is right: one p, a list of n, or a mapping {number of labels: number of examples}."""

_FLOATS = -650.0
"""Logarithms above it are those of numbers with all their digits."""

_COUNT_TOLERANCE = 1e-6
"""Tolerance between accuracy times n and an integer."""


def _share(value: object, name: str) -> float:
    try:
        share = math.nan if isinstance(value, bool | str | bytes) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise ArgumentError(f"{name} must be a number between 0 and 1, not {value!r}")
    return share


def _groups(n: int, p: GuessRates) -> Groups:
    """Sort the n examples into (probability of a right guess, number of examples)."""
    groups: Counter[float] = Counter()
    if isinstance(p, Mapping):
        for labels, examples in p.items():
            count = validate_integer(f"the number of examples with {labels!r} labels in p", examples, 0)
            groups[1.0 / validate_integer("a number of labels in p", labels, 1)] += count
    elif isinstance(p, Iterable):
        groups.update(_share(value, f"p[{position}]") for position, value in enumerate(p))
    else:
        groups[_share(p, "p")] = n
    if groups.total() != n:
        raise ArgumentError(f"p (--labels) is for {groups.total()} examples, but n is {n}; make them the same")
    return tuple(sorted((rate, examples) for rate, examples in groups.items() if examples))


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
            return _centre(self.p)[0] / self.n
        certain = sum(count for rate, count in self.p if rate == 1.0)
        first, chances = _sum_of(_terms(self.p), _NOTHING / t)
        return (certain + first + math.fsum(_best_of(t, _tails(chances)[1:]))) / self.n

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
        if low != high:
            near = " and ".join(f"{k}/{self.n} = {k / self.n:.{digits}f}" for k in (int(exact), int(exact) + 1))
            raise ArgumentError(
                f"an accuracy of {acc} is no share of n = {self.n} queries, or that of several counts: near it are "
                f"{near}. Give the accuracy with more digits, or the right n"
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
            nearest = f"the nearest is {k}/{self.n} = {k / self.n!r}"
            raise ArgumentError(f"{acc!r} is no multiple of 1/{self.n} ({nearest}); give the unrounded accuracy or n")
        return k

    def _log_p_value(self, k: int, t: int) -> float:
        t = validate_integer("t", t, 1)
        if k <= _centre(self.p)[0]:  # P(X < k) is the smaller tail
            return math.log(-math.expm1(t * log_tail(self.p, k - 1)[0])) if k else 0.0
        tail, _ = log_tail(self.p, k)
        if tail <= _FLOATS:  # 1 - (1 - s)^t is t s to within t s, a relative error far below rounding
            return min(0.0, math.log(t) + tail)
        return math.log(-math.expm1(t * math.log1p(-math.exp(tail))))


Guesses = Sequence[tuple[float, int, int]]
"""A mean accuracy of guessing, as a sum: (what one right guess adds, number of labels, number of guesses)."""

_EXACT_SCORES = 20_000
"""Number of different scores up to which their distribution is exact."""
_STEPS = 64
"""Grid points for a standard deviation, if there are more."""
_GRID_NOTHING = 1e-15
"""On a grid, smaller probabilities are left out, ..."""
_THIN = 1e-9
"""... and smaller tails are computed after tilting."""


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
def _score_distribution(
    guesses: tuple[tuple[float, int, int], ...], score: float | None = None
) -> tuple[list[float], list[float], float]:
    """Return the scores in rising order, the probability of at least each, and half a step of their grid.

    The few large weights come first, so that their sums are exact. From the weight on with which there could be more
    than ``_EXACT_SCORES`` scores, scores are rounded to a grid. With a score, tails near it have their digits, however
    small they are.
    """
    shares = [Fraction(weight).limit_denominator(10**8) for weight, *_ in guesses]
    unit, step = Fraction(1, math.lcm(*(share.denominator for share in shares))), Fraction(0)
    terms = [(weight, -math.log(max(labels - 1, _ZERO)), count) for weight, labels, count in guesses]
    theta, value, tilted = (0.0, 0.0, [x for _, x, _ in terms]) if score is None else _tilt(terms, score)
    chances = {0: 1.0}
    for share, log_odds, (*_, count) in zip(shares, tilted, guesses, strict=True):
        products = len(chances) * (count + 1)
        span = max(chances) - min(chances) + 1 + int(share * count / unit)
        if not step and (min(products, span) > _EXACT_SCORES or products > 40 * _EXACT_SCORES):
            step = Fraction(_moments(guesses)[1] / _STEPS)
            chances = {place: chance for place, chance in chances.items() if chance > _GRID_NOTHING}
            chances, unit = _on_grid(chances, unit / step), step
        first, weights = _binomial(count, log_odds, _GRID_NOTHING if step else _SMALLEST)
        chances = _sums(chances, _on_grid(dict(enumerate(weights, first)), share / unit))
    scores = {float(place * unit): chance for place, chance in sorted(chances.items())}
    return (
        list(scores),
        _tails([chance * math.exp(value - theta * place) for place, chance in scores.items()]),
        float(step / 2),
    )


def _tails(chances: Sequence[float]) -> list[float]:
    """Return the probability of each number or a larger one."""
    return list(accumulate(reversed(chances)))[::-1]


def _best_of(tried: int, tails: Sequence[float]) -> list[float]:
    """Return the tails of the best of several independent guessers."""
    return [1.0 if tail >= 1.0 else -math.expm1(tried * math.log1p(-tail)) for tail in tails]


def _equal(guesses: Guesses) -> RandomBaseline | None:
    """Return the exact distribution if all guesses add the same, else None."""
    if max(weight for weight, *_ in guesses) - min(weight for weight, *_ in guesses) > 1e-15:
        return None
    counts: Counter[int] = Counter()
    for _, labels, count in guesses:
        counts[labels] += count
    return RandomBaseline(counts.total(), counts)


def _moments(guesses: Guesses) -> tuple[float, float]:
    mean = math.fsum(weight * count / labels for weight, labels, count in guesses)
    variance = math.fsum(weight**2 * count * (labels - 1) / labels**2 for weight, labels, count in guesses)
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
    guesses = _sorted(guesses)
    exact = _equal(guesses)
    if exact is not None:
        count = math.ceil(score / guesses[0][0] - 1e-6)
        return exact.p_value_of_count(min(exact.n, max(0, count)), tried) if count <= exact.n else 0.0
    for tilted in (None, score):
        scores, tails, slack = _score_distribution(guesses, tilted)
        tail = [*tails, 0.0][bisect_left(scores, score - max(slack, 1e-9))]
        if not slack or tail >= _THIN:
            break
    return _best_of(tried, [tail])[0]


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
    steps = [high - low for low, high in pairwise(scores)]
    return scores[0] + math.fsum(map(mul, steps, _best_of(tried, tails[1:])))


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
    return -math.expm1(tried * math.log1p(-p_value))
