"""The errors that this library raises.

    StaICCError
     ├─ ArgumentError (ValueError)
     │   ├─ PromptError
     │   │   └─ LongPromptError
     │   └─ TooFewRowsError
     ├─ UnknownNameError (LookupError)
     │   └─ UnknownKeyError (KeyError)
     ├─ OutputError (ValueError)
     │   ├─ PromptTooLongError
     │   │   └─ LongPromptError
     │   ├─ WithheldReplyError
     │   └─ RunEndingError
     │       └─ EditionError
     ├─ DataError (RuntimeError)
     │   ├─ DataMissingError
     │   └─ DataDamagedError
     ├─ IdentityError (RuntimeError)
     ├─ UndefinedMetricError (ValueError)
     ├─ SchemaError (ValueError)
     ├─ MissingDependencyError (ImportError)
     ├─ RemovedNameError (ImportError)
     └─ PluginError (RuntimeError)

Every error is a :class:`StaICCError`, so one ``except`` catches them all; each is also the built-in that a Python
programmer would expect (``ValueError`` for a bad value, ``LookupError`` for an unknown name), so code that knows
nothing of this module still works. A message says what was given, what was expected, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from StaICC.safe_text import visible

_T = TypeVar("_T")
_Error = TypeVar("_Error", bound="StaICCError")


class StaICCError(Exception):
    """Base of all errors of this library. What a message quotes is shown escaped."""

    where: str | None = None
    """The method, data set or query that the message begins with; ``None`` if it does not name where it happened."""

    def at(self: _Error, where: str) -> _Error:
        """Return this error, whose message begins with the place where it happened."""
        self.where = where
        return self

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
        return (type(self), (str(self), self.index))


class TooFewRowsError(ArgumentError):
    """A method has too few rows to learn from, such as no training prompt with some label.

    In a run that collects failures, rows may be missing because the model failed on them. The queries of the data set
    then count as failed. Otherwise the arguments allow too few rows, and the run ends.
    """


class UnknownNameError(StaICCError, LookupError):
    """A name (of a data set, a metric, a method, ...) that the library does not have."""

    legal: Sequence[str] = ()
    """The names that it has."""


class UnknownKeyError(UnknownNameError, KeyError):
    """A key that a result or a group of results does not have."""


class OutputError(StaICCError, ValueError):
    """The user's inference function failed or returned something that cannot be scored."""


class PromptTooLongError(OutputError):
    """A prompt is longer than the context length of the model.

    An inference function raises it for such a prompt. A run counts the query as failed, and its
    :class:`~StaICC.inference.replies.Failure` is marked with ``is_too_long``.
    """


class LongPromptError(PromptError, PromptTooLongError):
    """A prompt of a list is longer than the context length of the model."""


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


_MOST_NAMES = 30
"""A message lists the legal names unless there are more than this."""
_LEAST_SIMILARITY = 0.6
"""The least similarity of a name that is suggested, as :mod:`difflib` measures it: from 0 to 1 for equal texts. With
less, a short name has a neighbour by chance: ``seed`` in ``unparsed``, ``device`` in ``escape``."""
_LEAST_BEGINNING = 3
"""The least number of letters of a name that is suggested by its beginning, such as ``acc`` for ``accuracy``."""


def unknown_name(
    kind: str, given: object, legal: Iterable[object], hint: str = "", synonyms: Mapping[str, str] | None = None
) -> UnknownNameError:
    """Build the error for an unknown name, with the nearest legal ones.

    Args:
        kind: What the name names, in the singular (``"data set"``).
        given: What the caller passed.
        legal: All legal names.
        hint: A sentence to add, such as how to list the legal names.
        synonyms: Legal names by other names for the same thing, such as ``float16`` by ``fp16``.

    Returns:
        The error, for the caller to raise.

    Example:
        >>> str(unknown_name("data set", "trec", ["TREC", "SST5"]))
        "there is no data set 'trec'; did you mean 'TREC'? There are: TREC, SST5."
    """
    names = [str(name) for name in legal]  # a user may add keys of any type to a result
    suggestion = _suggestion(str(given), names)
    if synonyms is not None and given in synonyms:
        suggestion = f"; did you mean {synonyms[str(given)]!r}?"
    message = f"there is no {kind} {given!r}{suggestion}"
    if 0 < len(names) <= _MOST_NAMES:
        message += f" There are: {', '.join(names)}."
    if hint:
        message += f" {hint}"
    error = UnknownNameError(message)
    error.legal = names
    return error


def _suggestion(given: str, names: Sequence[str]) -> str:
    """Return the end of the sentence about an unknown name, with what was probably meant.

    A name is also found by a part of it between underscores, such as ``emotion`` of ``tweet_eval_emotion``, and with
    blanks in the place of underscores.
    """
    name_by_spelling: dict[str, str] = {}
    for name in names:
        name_by_spelling[name.casefold()] = name
    for name in names:
        for word in name.casefold().split("_"):
            name_by_spelling.setdefault(word, name)

    parts = given.replace(",", " ").split()
    one_name = name_by_spelling.get("_".join(parts).casefold())  # such as macro_F1 for "macro F1"
    if one_name is not None and "," not in given:
        return f"; did you mean {one_name!r}?"
    all_are_known = all(part.casefold() in name_by_spelling for part in parts)
    if len(parts) > 1 and ("," in given or all_are_known):
        return f"; name them one by one: {', '.join(repr(part) for part in parts)}."
    nearest = _nearest(given.casefold(), name_by_spelling)
    if nearest is not None:
        return f"; did you mean {nearest!r}?"
    return "."


def _nearest(spelling: str, name_by_spelling: Mapping[str, str]) -> str | None:
    """Return the name that is near a spelling: by most of its letters, or by its beginning; ``None`` if none is.

    Args:
        spelling: What was given, without case.
        name_by_spelling: The names by the spellings that find them.
    """
    import difflib  # only where there is an error

    similar = difflib.get_close_matches(spelling, name_by_spelling, n=1, cutoff=_LEAST_SIMILARITY)
    if similar:
        return name_by_spelling[similar[0]]
    if len(spelling) >= _LEAST_BEGINNING:
        for known_spelling, name in name_by_spelling.items():
            if known_spelling.startswith(spelling):
                return name
    return None


def unknown_key(kind: str, given: object, legal: Iterable[object], hint: str = "") -> UnknownKeyError:
    """Build the error for an unknown key of a result, with the nearest legal one.

    Args:
        kind: What the key names, in the singular.
        given: What the caller passed.
        legal: The keys that there are.
        hint: A sentence to add, such as where the key is.

    Example:
        >>> str(unknown_key("part", "Norma", ["Normal", "GLER"]))
        "there is no part 'Norma'; did you mean 'Normal'? There are: Normal, GLER."
    """
    return UnknownKeyError(str(unknown_name(kind, given, legal, hint)))
