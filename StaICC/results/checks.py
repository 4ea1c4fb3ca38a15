"""Types of the values in a saved result: a file may hold anything, and is refused before anything reads its values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from StaICC.errors import SchemaError

_ROUND = re.compile(r"[0-9]+R")
_FIGURES = frozenset(
    {
        *("accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1", "consistency"),
        *("entropy", "contextual_bias", "domain_bias", "DL div.", "empirical_bias", "mean", "uniform", "majority"),
    }
)
"""Scores of the library's own benchmarks; a benchmark of the user's own may report anything under other names."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refuse(name: str, value: object, expected: str) -> SchemaError:
    return SchemaError(f"{name} must be {expected}, not {value!r:.60}")


def check_divided(divided: object) -> None:
    """Check the scores by data set.

    Raises:
        SchemaError: A value has another type than scores have.
    """
    if not isinstance(divided, Mapping):
        raise _refuse("the scores by data set", divided, "a mapping")
    for name, scores in divided.items():
        if not isinstance(scores, Mapping):
            raise _refuse(f"the scores of {name:.60}", scores, "a mapping")
        for key, value in scores.items():
            if not _fits(key, value):
                raise _refuse(f"the score {key:.60} of {name:.60}", value, "a number or null")


def _fits(key: str, value: object) -> bool:
    if key in _FIGURES or _ROUND.fullmatch(key):
        return _is_figure(value)
    if key == "sensitivity":
        return isinstance(value, Mapping) and all(_is_figure(one, line=True) for one in value.values())
    if key == "distribution":
        return value is None or (isinstance(value, (list, tuple)) and all(map(_is_number, value)))
    if key == "settings":
        return isinstance(value, Mapping)
    if key == "rounds":
        return isinstance(value, Mapping) and all(isinstance(one, Mapping) for one in value.values())
    if key == "experiment":
        return isinstance(value, Mapping) and _is_experiment(value)
    if isinstance(value, Mapping):  # the scores of a condition
        return all(_is_figure(one) for name, one in value.items() if name in _FIGURES)
    return True


def _is_experiment(value: Mapping[str, object]) -> bool:
    rows = value.get("conditions")
    return (
        isinstance(rows, Mapping)
        and isinstance(value.get("name"), str)
        and _is_figure(value.get("p_value"))
        and all(isinstance(row, Mapping) and all(map(_is_figure, row.values())) for row in rows.values())
    )


def _is_figure(value: object, line: bool = False) -> bool:
    """Whether a value is a number, undefined, or (where such is due) the slope and intercept of a regression line."""
    if line and isinstance(value, (list, tuple)):
        return len(value) == 2 and all(map(_is_number, value))
    return value is None or _is_number(value)
