"""Options of the confidence intervals and random baselines that results carry in addition to scores."""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.errors import ArgumentError, validate_integer
from StaICC.metrics.score_intervals import INTERVAL_VERSION


@dataclass(frozen=True, slots=True)
class Statistics:
    """Options of the confidence intervals and random baselines.

    Raises:
        ArgumentError: A value has another type or is out of range.
    """

    level: float = 0.95
    """Nominal coverage of the confidence intervals, from 0.5 to 0.9999."""
    tried: int = 1
    """Number of settings that were tried; if this is the best of them, the random baseline is the best of as many."""
    intervals: bool = True
    """Whether intervals are computed."""

    def __post_init__(self) -> None:
        validate_integer("tried", self.tried, 1)
        if isinstance(self.level, bool) or not isinstance(self.level, int | float) or not 0.5 <= self.level <= 0.9999:
            raise ArgumentError(f"level must be a number of at least 0.5 and at most 0.9999, not {self.level!r}")
        if not isinstance(self.intervals, bool):
            raise ArgumentError(f"intervals must be True or False, not {self.intervals!r}")

    def for_signature(self, intervals: bool = True, baselines: bool = True) -> str | None:
        """Return the options on which the intervals and the random baselines depend, as text.

        Args:
            intervals: Whether the benchmark has intervals.
            baselines: Whether random baselines are computed.

        Returns:
            The text; ``None`` if neither is computed, or only the baselines of a single setting.
        """
        parts = [f"tried{self.tried}"] if baselines and self.tried > 1 else []
        if intervals and self.intervals:
            parts.append(f"{INTERVAL_VERSION}-{self.level!r}")
        return "+".join(parts) or None
