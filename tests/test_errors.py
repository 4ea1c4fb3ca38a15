"""The tree of errors in the docstring of :mod:`StaICC.errors` is the hierarchy of the classes; unknown names."""

from __future__ import annotations

import re
from typing import NamedTuple

from StaICC import errors
from StaICC.errors import StaICCError, unknown_name

TREE_LINE = re.compile(r"(?P<indent>[ │├└─]*)(?P<name>\w+)(?: \((?P<builtin>\w+)\))?")
"""A line of the tree: its indent, the name of an error, and the built-in error that the class is, too."""


class Entry(NamedTuple):
    """An error in the tree."""

    depth: int
    name: str
    builtin: str
    """The built-in error that the class is, too; empty without one."""


def entries_of(error: type[StaICCError], depth: int = 0) -> list[Entry]:
    """Return the entries of an error and of all errors derived from it, in the order of their definition."""
    if error is StaICCError:
        builtin = ""
    else:
        builtin = "".join(base.__name__ for base in error.__bases__ if not issubclass(base, StaICCError))
    entries = [Entry(depth, error.__name__, builtin)]
    for derived in error.__subclasses__():
        if derived.__module__ == errors.__name__:
            entries += entries_of(derived, depth + 1)
    return entries


def test_the_tree_of_the_docstring_has_every_error_below_its_base() -> None:
    """The first paragraph of the docstring is a sentence, and the second one is the tree."""
    assert errors.__doc__ is not None
    tree = errors.__doc__.split("\n\n")[1]
    entries = []
    for line in tree.splitlines():
        match = TREE_LINE.fullmatch(line)
        assert match is not None, line
        depth = len(match["indent"]) // 4 - 1  # each level is indented by four characters
        entries.append(Entry(depth, match["name"], match["builtin"] or ""))

    assert entries == entries_of(StaICCError)


def test_a_name_that_is_written_with_a_blank_is_found() -> None:
    """Heads of columns have blanks where keys have underscores."""
    error = unknown_name("metric", "macro F1", ["accuracy", "macro_F1"])

    assert "did you mean 'macro_F1'?" in str(error)
