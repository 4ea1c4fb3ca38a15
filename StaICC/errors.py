"""The errors that this library raises.

Every error is a :class:`StaICCError`, so one ``except`` catches them all; each is also the built-in that a Python
programmer would expect (``ValueError`` for a bad value, ``LookupError`` for an unknown name), so code that knows
nothing of this module still works. A message says what was given, what was expected, where, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "DataDamagedError",
    "DataError",
    "DataMissingError",
    "MissingDependencyError",
    "OutputError",
    "SchemaError",
    "StaICCError",
    "UndefinedMetricError",
    "UnknownNameError",
    "unknown_name",
]


class StaICCError(Exception):
    """Base of all errors of this library."""


class ArgumentError(StaICCError, ValueError):
    """An argument has a value or a type that the function cannot use."""


class UnknownNameError(StaICCError, LookupError):
    """A name (of a data set, a metric, a method, ...) that the library does not have."""


class OutputError(StaICCError, ValueError):
    """The user's inference function failed or returned something that cannot be scored."""


class DataError(StaICCError, RuntimeError):
    """Frozen data cannot be used."""


class DataMissingError(DataError):
    """Frozen data is not on this machine and could not be fetched."""


class DataDamagedError(DataError):
    """A file of frozen data is not the one that was published."""


class UndefinedMetricError(StaICCError, ValueError):
    """A metric has no value on this input (undefined is never reported as zero)."""


class SchemaError(StaICCError, ValueError):
    """A file of results or predictions is damaged, or written by a newer version."""


class MissingDependencyError(StaICCError, ImportError):
    """An optional package is not installed."""


def unknown_name(kind: str, given: object, legal: Iterable[str], hint: str = "") -> UnknownNameError:
    """Build the error for an unknown name, with the nearest legal ones.

    Args:
        kind: What the name names, in the singular (``"data set"``).
        given: What the caller passed.
        legal: All legal names.
        hint: A sentence to add, such as how to list the legal names.

    Returns:
        The error, for the caller to raise.

    Example:
        >>> str(unknown_name("data set", "trec", ["TREC", "SST5"]))
        "there is no data set 'trec'; did you mean 'TREC'? There are: TREC, SST5."
    """
    names = list(legal)
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(str(given).casefold(), folded, n=1, cutoff=0.5)
    guess = f"; did you mean {folded[near[0]]!r}?" if near else "."
    known = f" There are: {', '.join(names)}." if len(names) <= 30 else ""
    return UnknownNameError(f"there is no {kind} {given!r}{guess}{known}{' ' + hint if hint else ''}")
