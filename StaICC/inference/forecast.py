"""What a run costs: prompts, tokens, distinct positions, seconds and price, before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from StaICC.inference.contract import Interface

PROBABILITIES = frozenset({"probabilities"})
"""What is computed of prompts unless a method says otherwise."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run, or the prompts of one call, will cost. A value that cannot be known is ``None``."""

    queries: int = 0
    """Queries of all data sets."""
    distinct: int = 0
    """Distinct pairs of prompt and label space, each of which is predicted once; for methods, those of training too."""
    cached: int = 0
    """Predictions that the store has."""
    tokens: int | None = 0
    """Tokens that the model reads; exact if ``exact``, else estimated."""
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
    """Cost of the tokens for the given prices."""
    exact: bool = False
    """Whether the tokens were counted by the model's own tokenizer, in prompts that do not depend on predictions."""
    kept: tuple[int, ...] = ()
    """Tokens whose states the model keeps for the next prompts."""

    def __add__(self, other: Forecast) -> Forecast:
        """Return the forecast of these prompts and of those of the next call, without time and cost."""
        sums: dict[str, Any] = {
            name: None if None in (pair := (getattr(self, name), getattr(other, name))) else sum(pair)
            for name in ("queries", "distinct", "cached", "tokens", "positions", "output_tokens")
        }
        longest = max((size for size in (self.longest_prompt, other.longest_prompt) if size is not None), default=None)
        limit = self.limit if other.limit is None else other.limit
        return Forecast(**sums, longest_prompt=longest, limit=limit, kept=other.kept or self.kept)

    def __str__(self) -> str:
        """Return the values as a table."""
        rows = []
        for name, value in self.to_dict().items():
            if name == "exact":
                continue
            text = "unknown" if value is None else f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
            about = "about " * (name in ("tokens", "output_tokens") and value is not None and not self.exact)
            rows.append(f"{name.replace('_', ' '):15} {about}{text}")
        if self.longest_prompt and self.limit and self.longest_prompt > self.limit:
            rows.append("The longest prompt does not fit: the run will fail there.")
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        return {name: value for name, value in asdict(self).items() if name != "kept"}


UNKNOWN = Forecast(tokens=None, positions=None, output_tokens=None)
"""The forecast of prompts for a function without a tokenizer."""


@runtime_checkable
class ForecastsPrompts(Interface, Protocol):
    """An inference function that counts the tokens of prompts."""

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], *settings: Any, kept: tuple[int, ...] = ()
    ) -> Forecast:
        """Return the forecast of prompts, at least one, that are predicted in one call; :data:`UNKNOWN` if it cannot.

        ``kept`` is that of the prompts before. A kernel also takes the maximum number of tokens to generate for each
        prompt (0 computes features), and the features of each prompt (:data:`PROBABILITIES`).
        """


def forecast_prompts(function: object, *prompts: Any, kept: tuple[int, ...] = ()) -> Forecast:
    """Return the forecast of prompts, with the arguments of :meth:`ForecastsPrompts.forecast_prompts`."""
    return function.forecast_prompts(*prompts, kept=kept) if isinstance(function, ForecastsPrompts) else UNKNOWN


@runtime_checkable
class CountsTokens(Interface, Protocol):
    """An inference function that counts the tokens of its requests, such as a served model."""

    @property
    def tokens_used(self) -> tuple[int, int] | None:
        """Tokens of prompts and of completions, since it was made; ``None`` if it does not count them after all."""
