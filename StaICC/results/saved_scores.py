"""Types of the scores in a file of a result, which are checked before anything reads the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.files.json_reading import read_value
from StaICC.metrics.scores import BASELINE_KEYS, SCORES

_ROUND = re.compile(r"[0-9]+R")


@dataclass(frozen=True, slots=True)
class _Experiment:
    """The score ``experiment`` of LongICL in a file."""

    name: str
    conditions: Mapping[str, Mapping[str, float | None]]
    p_value: float | None = None
    compared: Mapping[str, str] | None = None


_ITEM = tuple[int, int | None, int | None, int | None]
_ROUND_TYPES: Mapping[str, Any] = {"answered": int, "unparsed": int, "items": tuple[_ITEM, ...]}
"""Types of what comparisons and tables read of a round of LongICL."""
_SCORE_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*SCORES, "mean", *BASELINE_KEYS), float | None),
    "sensitivity": Mapping[str, tuple[float, float] | float | None],  # the slope and intercept of a regression line
    "distribution": tuple[float, ...] | None,
    "settings": Mapping[str, object],
    "rounds": Mapping[str, Mapping[str, object]],
    "experiment": _Experiment,
}
"""Types of the scores of the library's own benchmarks; a benchmark of a user may report anything under other names."""


def check_scores(scores: Mapping[str, Any], where: str, nested: bool = True) -> None:
    """Refuse scores that have another type than this library writes, before anything reads their values."""
    for key, value in scores.items():
        place, kind = f"{where}, {key:.60}", _SCORE_TYPES.get(key, object)
        read_value(float | None if _ROUND.fullmatch(key) else kind, value, place)
        for name, own in value.items() if key == "rounds" else ():
            for count in own.keys() & _ROUND_TYPES:
                read_value(_ROUND_TYPES[count], own[count], f"{place}, {name:.60}, {count}")
        if nested and kind is object and isinstance(value, Mapping):
            check_scores(value, place, nested=False)
