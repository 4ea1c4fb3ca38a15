"""Types of the scores in a file of a result, which are checked before anything reads the values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from StaICC.files.json_reading import read_value
from StaICC.metrics.scores import BASELINE_KEYS, SCORES

ROUND_KEY = re.compile(r"[0-9]+R")
"""Keys of the scores of LongICL's rounds, such as ``"1R"``."""


@dataclass(frozen=True, slots=True)
class _EffectiveLength:
    """The effective length of an experiment of LongICL in a file (:mod:`StaICC.long_icl.effective_length`)."""

    share: float
    length: str | None
    low: str | None
    high: str | None
    note: str


@dataclass(frozen=True, slots=True)
class _Experiment:
    """The score ``experiment`` of LongICL in a file."""

    name: str
    conditions: Mapping[str, Mapping[str, float | None]]
    p_value: float | None = None
    nearest_gold: Mapping[str, Mapping[str, tuple[Mapping[str, float | None], ...]]] | None = None
    effective_length: _EffectiveLength | None = None
    order_spread: Mapping[str, float | str | None] | None = None
    compared: Mapping[str, str] | None = None


_LABELS = tuple[str, ...] | None
_ROUND_ITEM = tuple[int, _LABELS, _LABELS, _LABELS]
"""A test item in a round of LongICL: its row, and its true, predicted and correct labels. The labels are ``None`` if it
is not scored."""
ROUND_TYPES: Mapping[str, Any] = {"answered": int, "unparsed": int, "items": tuple[_ROUND_ITEM, ...]}
"""Types of the fields of a round of LongICL that comparisons and tables read."""
SCORE_TYPES: Mapping[str, Any] = {
    **dict.fromkeys((*SCORES, "mean", *BASELINE_KEYS), float | None),
    "sensitivity": Mapping[str, tuple[float, float] | float | None],  # the slope and intercept of a regression line
    "distribution": tuple[float, ...] | None,
    "settings": Mapping[str, object],
    "rounds": Mapping[str, Mapping[str, object]],
    "experiment": _Experiment,
}
"""Types of the scores of the library's own benchmarks, by key. A benchmark of a user may report anything under other
keys."""


def _check_rounds(rounds: Mapping[str, Mapping[str, object]], where: str) -> None:
    """Check the types of the fields of the rounds of LongICL.

    Args:
        rounds: The record of each round, by its name.
        where: Where the rounds are in the file, for the message.

    Raises:
        SchemaError: A field has another type than this library writes.
    """
    for name, record in rounds.items():
        for key, expected_type in ROUND_TYPES.items():
            if key in record:
                read_value(expected_type, record[key], f"{where}, {name:.60}, {key}")


def check_scores(scores: Mapping[str, Any], where: str, nested: bool = True) -> None:
    """Check the types of scores.

    Scores with unknown keys come from the metrics and benchmarks of users, and may be anything. If such a score is an
    object, it may hold the scores of a condition, which are checked, too.

    Args:
        scores: The scores of a data set, or of one of its conditions.
        where: What they are, for the message.
        nested: Whether an object among them may hold the scores of a condition.

    Raises:
        SchemaError: A score has another type than this library writes.
    """
    for key, value in scores.items():
        score_name = f"{where}, {key:.60}"
        if ROUND_KEY.fullmatch(key):
            read_value(float | None, value, score_name)
            continue
        if key in SCORE_TYPES:
            read_value(SCORE_TYPES[key], value, score_name)
            if key == "rounds":
                _check_rounds(value, score_name)
        elif nested and isinstance(value, Mapping):
            check_scores(value, score_name, nested=False)
