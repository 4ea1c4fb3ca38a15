"""The tree of errors in the docstring of :mod:`StaICC.errors` is the hierarchy of the classes; unknown names."""

from __future__ import annotations

import re

from StaICC import errors
from StaICC.errors import StaICCError, unknown_name

TREE_LINE = re.compile(r"(?P<indent>[ │├└─]*)(?P<name>\w+)(?: \((?P<builtin>\w+)\))?")
"""A line of the tree: its indent, the name of an error, and the built-in error that the class is, too."""


def errors_below(error: type[StaICCError], depth: int = 0) -> list[tuple[int, str, str]]:
    """Depth, name and built-in base of an error and of all errors derived from it, in the order of their definition."""
    builtin = [base.__name__ for base in error.__bases__ if not issubclass(base, StaICCError)]
    rows = [(depth, error.__name__, "" if error is StaICCError else "".join(builtin))]
    for derived in error.__subclasses__():
        if derived.__module__ == errors.__name__:
            rows += errors_below(derived, depth + 1)
    return rows


def test_the_tree_of_the_docstring_has_every_error_below_its_base() -> None:
    assert errors.__doc__ is not None
    tree = errors.__doc__.split("\n\n")[1]
    shown = []
    for line in tree.splitlines():
        match = TREE_LINE.fullmatch(line)
        assert match is not None, line
        shown.append((len(match["indent"]) // 4 - 1, match["name"], match["builtin"] or ""))
    assert shown == errors_below(StaICCError)


def test_a_name_that_is_written_with_a_blank_is_found() -> None:
    """Heads of columns have blanks where keys have underscores."""
    error = unknown_name("metric", "macro F1", ["accuracy", "macro_F1"])

    assert "did you mean 'macro_F1'?" in str(error)
