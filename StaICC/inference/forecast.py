"""What prompts cost before they are predicted: tokens, distinct positions, seconds, price."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from StaICC.inference.contract import own_attribute
from StaICC.inference.prices import cost_text

PROBABILITIES = frozenset({"probabilities"})
"""What is computed of prompts unless a method says otherwise."""


_SUMMED_FIELDS = (
    "queries",
    "distinct",
    "cached",
    "rechecked",
    "recheck_tokens",
    "tokens",
    "cached_tokens",
    "positions",
    "output_tokens",
)
"""The fields that are sums over the calls of a run."""
COUNTED_IN_PROBE = "counted by the function in the probe"
"""The value of :attr:`Forecast.tokenizer` if the tokens are those of a probe, extrapolated."""

_COSTS = ("cost", "cost_without_cache")
_NOT_IN_TABLE = frozenset({"exact", "currency", "remarks"})
"""The fields that are no row of the table: they say how other fields are shown, or follow the table."""
_ESTIMATES = frozenset({"tokens", "cached_tokens", "recheck_tokens", "output_tokens", "longest_prompt", *_COSTS})
"""The fields that are shown with "about" unless the tokens are exact."""
_SHOWN_IF_KNOWN = frozenset({"cost_without_cache", "cached_tokens", "tokenizer"})
"""The fields that are details of others: where they are unknown, they are left out. Others are shown as "unknown"."""
_ROW_NAMES = {"cost_without_cache": "without a cache"}
"""The names of rows that are not those of their fields."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run, or the prompts of one call, will cost. A value that cannot be known is ``None``."""

    queries: int = 0
    """Queries of all data sets."""
    distinct: int = 0
    """Distinct pairs of prompt and label space, each of which is predicted once; for methods, those of training too."""
    cached: int = 0
    """Predictions that the store has."""
    rechecked: int = 0
    """Predictions of the store that the run computes again for comparison."""
    recheck_tokens: int | None = 0
    """Tokens that the model reads for these; they are among :attr:`tokens`. Which ones a run chooses is random."""
    tokens: int | None = 0
    """Tokens that the model reads; exact if ``exact``, else estimated."""
    cached_tokens: int | None = 0
    """Tokens among them that a provider may read from its prompt cache, at a lower price: a prompt begins with them as
    the prompt before does. ``None`` where nothing is known about a cache, such as for local models."""
    positions: int | None = 0
    """Positions that the model computes for the prompts. A shared prefix is computed once where that pays, and is not
    computed again while the model keeps it."""
    output_tokens: int | None = 0
    """Maximum number of tokens that the model generates."""
    longest_prompt: int | None = None
    """Tokens of the longest prompt, with its label where labels are scored in full, and with the tokens to generate."""
    limit: int | None = None
    """Maximum number of tokens that the model reads."""
    seconds: float | None = None
    """Duration of the predictions in this process, without loading the model, at the rate of a probe; ``None`` without
    one."""
    cost: float | None = None
    """Cost of the tokens for the given prices. With a price of cached tokens, the provider caches all that it may."""
    cost_without_cache: float | None = None
    """Cost if the provider caches nothing; ``None`` if that is :attr:`cost`."""
    currency: str = ""
    """The currency of the prices; empty if it is not named."""
    tokenizer: str | None = None
    """What counted the tokens: the name of a tokenizer, the estimate by bytes, or the server in a probe."""
    exact: bool = False
    """Whether the tokens were counted by the model's own tokenizer, in prompts that do not depend on predictions."""
    remarks: tuple[str, ...] = ()
    """What was assumed, and what is unknown, in sentences."""
    kept: tuple[int, ...] = ()
    """The tokens whose states the model keeps in its cache after these prompts: a next prompt that begins with them is
    computed from there on."""

    def __add__(self, other: Forecast) -> Forecast:
        """Return the forecast of two calls of a model together, without time and cost.

        Args:
            other: The forecast of the later call. What it leaves in the model's cache (``kept``) is what both leave.
        """
        sums: dict[str, Any] = {}
        for name in _SUMMED_FIELDS:
            sums[name] = _sum_if_known(getattr(self, name), getattr(other, name))
        return Forecast(
            **sums,
            longest_prompt=_larger_if_known(self.longest_prompt, other.longest_prompt),
            limit=self.limit if other.limit is None else other.limit,
            kept=other.kept or self.kept,
        )

    def __str__(self) -> str:
        """Return the values as a table of names and values, one a line, and the remarks below it."""
        lines = []
        for name, value in self.to_dict().items():
            is_unknown_detail = value is None and name in _SHOWN_IF_KNOWN
            if name in _NOT_IN_TABLE or is_unknown_detail:
                continue
            row_name = _ROW_NAMES.get(name, name.replace("_", " "))
            lines.append(f"{row_name:15} {self._value_text(name, value)}")
        if self.longest_prompt and self.limit and self.longest_prompt > self.limit:
            lines.append("The longest prompt does not fit: the run will fail there.")
        lines += self.remarks
        return "\n".join(lines)

    def _value_text(self, name: str, value: float | str | None) -> str:
        """Return the value of a field as the table shows it: "unknown", "1,024", "about 1,024", "at most 1,024".

        Args:
            name: The name of the field.
            value: Its value; ``None`` if it is unknown.
        """
        if value is None:
            return "unknown"
        if isinstance(value, str):
            return value
        if name in _COSTS:
            text = cost_text(value, self.currency or "(in the currency of the prices)")
        elif isinstance(value, float):
            text = f"{value:,.2f}"
        else:
            text = f"{value:,}"
        is_estimate = name in _ESTIMATES and not self.exact and value != 0
        if not is_estimate:
            return text
        # A tokenizer counts the tokens of prompts only. So the tokens of replies are the maximum that the run allows,
        # unless a probe, which predicted some of the prompts, counted them.
        were_counted_by_tokenizer = self.tokenizer is not None and self.tokenizer != COUNTED_IN_PROBE
        if name == "output_tokens" and were_counted_by_tokenizer:
            return f"at most {text}"
        return f"about {text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        values = asdict(self)
        del values["kept"]
        return values


def _sum_if_known(first: int | None, second: int | None) -> int | None:
    """Return the sum of two numbers; ``None`` if one of them is unknown."""
    if first is None or second is None:
        return None
    return first + second


def _larger_if_known(first: int | None, second: int | None) -> int | None:
    """Return the larger one of two numbers, or the only one that is known; ``None`` if both are unknown."""
    if first is None:
        return second
    if second is None:
        return first
    return max(first, second)


UNKNOWN = Forecast(tokens=None, cached_tokens=None, positions=None, output_tokens=None)
"""The forecast of prompts for a function without a tokenizer."""


def forecast_prompts(function: object, *prompts: Any, kept: tuple[int, ...] = ()) -> Forecast:
    """Return how many tokens a call of an inference function with some prompts will read, compute and generate.

    Args:
        function: An inference function; one that counts tokens has a method ``forecast_prompts``.
        *prompts: The arguments of the call: the prompts (at least one) and their label space. A kernel also takes the
            maximum number of tokens to generate for each prompt (0 computes features), and the features of each prompt
            (:data:`PROBABILITIES`).
        kept: The tokens whose states the model has in its cache before the call (:attr:`Forecast.kept` of the call
            before).

    Returns:
        The forecast; :data:`UNKNOWN` if the function does not count tokens.
    """
    forecast = own_attribute(function, "forecast_prompts")
    if forecast is None:
        return UNKNOWN
    return forecast(*prompts, kept=kept)  # type: ignore[no-any-return]
