"""The errors that this library raises.

Every error is a :class:`StaICCError`, so one ``except`` catches them all; each is also the built-in that a Python
programmer would expect (``ValueError`` for a bad value, ``LookupError`` for an unknown name), so code that knows
nothing of this module still works. A message says what was given, what was expected, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from StaICC.safe_text import visible

_T = TypeVar("_T")


class StaICCError(Exception):
    """Base of all errors of this library. What a message quotes is shown escaped."""

    def __str__(self) -> str:
        return visible(Exception.__str__(self))  # that of KeyError shows the message in quotes


class ArgumentError(StaICCError, ValueError):
    """An argument has a value or a type that the function cannot use."""


class PromptError(ArgumentError):
    """A prompt cannot be given to the model.

    Attributes:
        index: Number of the prompt in the list that was given, from 0.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index

    def __reduce__(self) -> tuple[type[PromptError], tuple[str, int]]:
        return (PromptError, (str(self), self.index))


class UnknownNameError(StaICCError, LookupError):
    """A name (of a data set, a metric, a method, ...) that the library does not have."""

    legal: Sequence[str] = ()
    """The names that it has."""


class UnknownKeyError(UnknownNameError, KeyError):
    """A key that a result or a group of results does not have."""


class OutputError(StaICCError, ValueError):
    """The user's inference function failed or returned something that cannot be scored."""


class WithheldReplyError(OutputError):
    """A server withheld the reply to one prompt (a content filter)."""


class RunEndingError(OutputError):
    """Every other query would fail in the same way (a wrong key, an unknown model, a used-up quota). It ends a run."""


class EditionError(RunEndingError):
    """A served model changed to another edition, so that predictions of two models would be mixed."""


class DataError(StaICCError, RuntimeError):
    """Frozen data cannot be used."""


class DataMissingError(DataError):
    """Frozen data is not on this machine and could not be fetched."""


class DataDamagedError(DataError):
    """A file of frozen data is not the one that was published."""


class IdentityError(StaICCError, RuntimeError):
    """The inference function differs from that of the start of the run, or of the stored predictions."""


class UndefinedMetricError(StaICCError, ValueError):
    """A metric has no value on this input (undefined is never reported as zero)."""


class SchemaError(StaICCError, ValueError):
    """A file of results or predictions is damaged, or written by a newer version."""


class MissingDependencyError(StaICCError, ImportError):
    """An optional package is not installed."""


class RemovedNameError(StaICCError, ImportError):
    """A name of StaICC 0.1.1 that this version does not have; the page on migration says what to use instead."""


class PluginError(StaICCError, RuntimeError):
    """An entry of another package is broken, or two packages have entries of one name."""


def unknown_name(kind: str, given: object, legal: Iterable[object], hint: str = "") -> UnknownNameError:
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
    import difflib  # only where there is an error

    names = list(map(str, legal))  # a user may add keys of any type to a result
    folded = {name.casefold(): name for name in names}
    folded |= {word: name for name in names[::-1] for word in name.casefold().split("_")} | folded
    near = difflib.get_close_matches(str(given).casefold(), folded, n=1, cutoff=0.5)
    guess = f"; did you mean {folded[near[0]]!r}?" if near else "."
    several = str(given).replace(",", " ").split()
    if len(several) > 1 and {*map(str.casefold, several)} <= folded.keys():
        guess = f"; name them one by one: {', '.join(map(repr, several))}."
    known = f" There are: {', '.join(names)}." if 0 < len(names) <= 30 else ""
    error = UnknownNameError(f"there is no {kind} {given!r}{guess}{known}{' ' + hint if hint else ''}")
    error.legal = names
    return error


def unknown_key(kind: str, given: object, legal: Iterable[object], entry: str = "") -> UnknownKeyError:
    """Build the error for an unknown key of a result, with the nearest legal one.

    Args:
        kind: What the key names, in the singular.
        given: What the caller passed.
        legal: The keys that there are.
        entry: The entry of the result that has this key.

    Example:
        >>> str(unknown_key("part", "Norma", ["Normal", "GLER"]))
        "there is no part 'Norma'; did you mean 'Normal'? There are: Normal, GLER."
    """
    hint = f'Use result["{entry}"][{given!r}].' if entry else ""
    return UnknownKeyError(str(unknown_name(kind, given, legal, hint)))
