"""Types of the scores in a file of a result, which are checked before anything reads the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.files.json_reading import read_value
from StaICC.metrics.scores import BASELINE_KEYS, SCORES

_ROUND = re.compile(r"[0-9]+R")
"""Keys of the scores of LongICL's rounds, such as ``"1R"``."""


@dataclass(frozen=True, slots=True)
class _Experiment:
    """The score ``experiment`` of LongICL in a file."""

    name: str
    conditions: Mapping[str, Mapping[str, float | None]]
    p_value: float | None = None
    compared: Mapping[str, str] | None = None


_ROUND_ITEM = tuple[int, int | None, int | None, int | None]
_ROUND_TYPES: Mapping[str, Any] = {"answered": int, "unparsed": int, "items": tuple[_ROUND_ITEM, ...]}
"""Types of the fields of a round of LongICL that comparisons and tables read."""
_SCORE_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*SCORES, "mean", *BASELINE_KEYS), float | None),
    "sensitivity": Mapping[str, tuple[float, float] | float | None],  # the slope and intercept of a regression line
    "distribution": tuple[float, ...] | None,
    "settings": Mapping[str, object],
    "rounds": Mapping[str, Mapping[str, object]],
    "experiment": _Experiment,
}
"""Types of the scores of the library's own benchmarks; a benchmark of a user may report anything under other names."""


def _check_rounds(rounds: Mapping[str, Mapping[str, object]], where: str) -> None:
    """Raise a SchemaError for a round of LongICL with a field of another type than this library writes."""
    for name, record in rounds.items():
        for key, expected_type in _ROUND_TYPES.items():
            if key in record:
                read_value(expected_type, record[key], f"{where}, {name:.60}, {key}")


def check_scores(scores: Mapping[str, Any], where: str, nested: bool = True) -> None:
    """Raise a SchemaError for a score of another type than this library writes.

    Args:
        scores: The scores of a data set, or of one of its conditions.
        where: What they are, for the message.
        nested: Whether the scores may have those of conditions among them.
    """
    for key, value in scores.items():
        score_name = f"{where}, {key:.60}"
        if _ROUND.fullmatch(key):
            read_value(float | None, value, score_name)
            continue
        read_value(_SCORE_TYPES.get(key, object), value, score_name)
        if key == "rounds":
            _check_rounds(value, score_name)
        if key not in _SCORE_TYPES and isinstance(value, Mapping) and nested:
            check_scores(value, score_name, nested=False)
