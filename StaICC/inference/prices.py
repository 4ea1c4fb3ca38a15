"""What tokens cost, for prices of a million of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.errors import ArgumentError

_TOKENS_OF_A_PRICE = 1_000_000
_DECIMALS = 2
"""Decimals of a cost, as of money."""
_SMALL_COST = 0.1
"""A cost below it has two significant digits, so that it is not shown as 0.00."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Cost of a million tokens.

    Raises:
        ArgumentError: A price is no number of at least 0.
    """

    input: float
    """Tokens that the model reads."""
    output: float
    """Tokens that it generates."""
    cached: float | None = None
    """Tokens that it reads from the provider's prompt cache; ``None`` if this price is unknown."""

    def __post_init__(self) -> None:
        """Refuse prices that are no numbers of at least 0."""
        prices = [self.input, self.output]
        if self.cached is not None:
            prices.append(self.cached)
        for price in prices:
            is_number = isinstance(price, (int, float)) and not isinstance(price, bool)
            if not is_number or not 0 <= price < math.inf:
                raise _error(prices)

    def cost(self, tokens: float, output_tokens: float, cached_tokens: float = 0) -> float:
        """Return the cost of tokens.

        Args:
            tokens: Those that the model reads, the cached ones included.
            output_tokens: Those that it generates.
            cached_tokens: Those that it reads from a cache. Without a price of their own, they cost as much as others.
        """
        cached_price = self.input if self.cached is None else self.cached
        read_cost = (tokens - cached_tokens) * self.input + cached_tokens * cached_price
        return (read_cost + output_tokens * self.output) / _TOKENS_OF_A_PRICE


def prices_of(values: Sequence[float]) -> Prices:
    """Return the prices that two or three numbers are.

    Raises:
        ArgumentError: There are not two or three numbers of at least 0.
    """
    if len(values) not in (2, 3):
        raise _error(values)
    return Prices(*values)


def _error(values: Sequence[object]) -> ArgumentError:
    """Return the error for wrong prices."""
    expected = "two or three numbers of at least 0: for a million tokens read, generated, and read from a cache"
    return ArgumentError(f"prices: got {tuple(values)!r}, expected {expected}")


def token_cost(tokens: float, output_tokens: float, prices: Sequence[float], cached_tokens: float = 0) -> float:
    """Return the cost of tokens.

    Args:
        tokens: Those that the model reads, the cached ones included.
        output_tokens: Those that it generates.
        prices: Cost of a million of each, and maybe of a million that it reads from a cache.
        cached_tokens: Those that it reads from a cache.

    Raises:
        ArgumentError: The prices are not two or three numbers of at least 0.

    Example:
        >>> token_cost(2_000_000, 500_000, (0.1, 0.4))
        0.4
        >>> token_cost(2_000_000, 500_000, (0.1, 0.4, 0.01), cached_tokens=1_000_000)
        0.31
    """
    return prices_of(prices).cost(tokens, output_tokens, cached_tokens)


def cost_text(cost: float, currency: str = "") -> str:
    """Return a cost as text with two decimals; a cost below 0.1 with two digits after its leading zeros.

    Args:
        cost: The cost, at least 0.
        currency: The name of the currency; empty leaves it out.

    Example:
        >>> cost_text(8.2, "EUR"), cost_text(0.005), cost_text(0.00001234), cost_text(0.0)
        ('8.20 EUR', '0.005', '0.000012', '0.00')
    """
    decimals = _DECIMALS
    if 0 < cost < _SMALL_COST:
        decimals_to_first_digit = -math.floor(math.log10(cost))  # 3 for 0.005
        decimals = decimals_to_first_digit + 1
    text = f"{cost:,.{decimals}f}"
    if decimals > _DECIMALS and text.endswith("0"):
        text = text[:-1]
    return f"{text} {currency}".rstrip()
