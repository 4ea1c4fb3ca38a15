"""Types of the values in a saved result: a file may hold anything, and is refused before anything reads its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from StaICC.errors import SchemaError

__all__ = ["check_averaged", "check_divided", "check_texts", "check_timing"]

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
        and _is_figure(value.get("p_value"))
        and all(isinstance(row, Mapping) and all(map(_is_figure, row.values())) for row in rows.values())
    )


def _is_figure(value: object, line: bool = False) -> bool:
    """Whether a value is a number, undefined, or (where such is due) the slope and intercept of a regression line."""
    if line and isinstance(value, (list, tuple)):
        return len(value) == 2 and all(map(_is_number, value))
    return value is None or _is_number(value)


def _check_values(mapping: object, what: str, of: str, fits: Callable[[object], bool], expected: str) -> None:
    if not isinstance(mapping, Mapping):
        raise _refuse(what, mapping, "a mapping")
    for name, value in mapping.items():
        if not fits(value):
            raise _refuse(of.format(f"{name:.60}"), value, expected)


def check_averaged(averaged: object) -> None:
    """Check the means over the data sets.

    Raises:
        SchemaError: A value is neither a number nor null.
    """
    _check_values(averaged, "the averaged results", "the averaged {}", _is_figure, "a number or null")


def check_timing(timing: object) -> None:
    """Check the times.

    Raises:
        SchemaError: A value is no number.
    """
    _check_values(timing, "the timing", "the time {}", _is_number, "a number")


def check_texts(what: str, values: object) -> None:
    """Check a mapping of texts.

    Raises:
        SchemaError: A value is no text.
    """
    _check_values(
        values, f"the {what}", f"the field {{}} of the {what}", lambda value: isinstance(value, str), "a text"
    )
