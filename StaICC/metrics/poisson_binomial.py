"""How many of n independent trials succeed: binomial and Poisson binomial probabilities, tails included.

A binomial distribution is computed by the ratios of its probabilities, from the mode outwards: every term is positive,
so nothing cancels. Trials with different chances of success (Poisson binomial distribution; Hong 2013, "On computing
the distribution function for the Poisson binomial distribution") are polynomials that are multiplied in a tree. The
coefficients of a polynomial are fixed-point numbers in the slots of one large integer (Kronecker substitution), so that
one multiplication of integers multiplies two polynomials.

Fixed-point numbers have an absolute precision. A tail is therefore computed under a tilted distribution (large
deviations; Daniels 1954), whose mean is at the tail: all its digits are correct, however small it is.

Arguments are not checked here: the callers have done so.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul, neg, truediv
from typing import NamedTuple

Groups = Sequence[tuple[float, int]]
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


def poisson_binomial_probabilities(groups: Groups, bits: int = 127) -> tuple[int, list[float]]:
    """Probabilities of the number of successes in trials that differ in their chance of success.

    Args:
        groups: Chances of success with their numbers of trials, at least one.
        bits: Absolute precision: bits after the point, one less than a multiple of 64. One group has all digits.

    Returns:
        The smallest number of successes in the list, and the probabilities from there on.

    Example:
        >>> poisson_binomial_probabilities([(0.5, 1), (1.0, 2)])
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


def log_tail(groups: Groups, k: int) -> tuple[float, float, bool]:
    """Natural logarithms of the probability of k successes and of the tail that begins there, however small they are.

    Args:
        groups: Chances of success with their numbers of trials, sorted.
        k: Number of successes.

    Returns:
        Log-probability of exactly k, log-probability of the tail, and whether it is the upper tail: at least k if k is
        above the mean, at most k otherwise. Minus infinity if impossible.

    Example:
        >>> log_tail([(0.5, 2000)], 2000)[1] == 2000 * math.log(0.5)
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
    exactly, tail = _sums(one, other, place, shrink)
    norm = 0.0
    if theta > 0.0:
        norm = math.fsum(map(mul, map(math.log, map(truediv, rates, successes)), numbers)) + theta * (trials - k)
    elif theta < 0.0:
        ratios = [(1.0 - rate) / failure for rate, failure in zip(rates, failures, strict=True)]
        norm = math.fsum(map(mul, map(math.log, ratios), numbers)) - theta * k
    return norm + math.log(exactly), norm + math.log(tail), upper


def _sums(one: Sequence[float], other: Sequence[float], place: int, shrink: float) -> tuple[float, float]:
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
