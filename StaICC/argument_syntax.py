"""Arguments in messages: written as in Python, or as options of the command line.

A message names an argument by :func:`argument`. Python code reads ``unparsed='wrong'``; a command reads
``--unparsed wrong``. A text that is saved, such as a warning of a result or why a query failed, is the same for both
and has both forms (:func:`argument_and_option`).
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator


class _Syntax:
    """The syntax of messages. It belongs to the process: failures are also described in threads."""

    on_command_line = False


def flag(name: str) -> str:
    """Return the option of an argument.

    Args:
        name: The name of the argument in Python.

    Example:
        >>> flag("max_tokens")
        '--max-tokens'
    """
    return f"--{name.replace('_', '-')}"


@contextlib.contextmanager
def command_line_syntax() -> Iterator[None]:
    """Write the arguments in messages as options while a command runs.

    Example:
        >>> with command_line_syntax():
        ...     print(argument("unparsed", "wrong"))
        --unparsed wrong
        >>> print(argument("unparsed", "wrong"))
        unparsed='wrong'
    """
    before = _Syntax.on_command_line
    _Syntax.on_command_line = True
    try:
        yield
    finally:
        _Syntax.on_command_line = before


def is_on_command_line() -> bool:
    """Return whether the arguments in messages are written as options now."""
    return _Syntax.on_command_line


def set_syntax(on_command_line: bool) -> None:
    """Set the syntax of this process to that of the process that started it.

    Args:
        on_command_line: Whether that one writes arguments as options (:func:`is_on_command_line`).
    """
    _Syntax.on_command_line = on_command_line


def argument(name: str, value: object = None) -> str:
    """Return an argument as the reader of a message writes it: in Python, or on the command line.

    A text that is saved needs both forms (:func:`argument_and_option`).

    Args:
        name: The name of the argument in Python.
        value: The value to write; ``None`` to name the argument only.

    Example:
        >>> argument("texts", ["title", "body"]), argument("recheck", True), argument("cluster")
        ("texts=['title', 'body']", 'recheck=True', 'cluster')
    """
    if _Syntax.on_command_line:
        return _as_option(name, value)
    return _as_keyword(name, value)


def argument_and_option(name: str, value: object = None) -> str:
    """Return an argument in both forms, for a text that is saved and read in either place.

    Example:
        >>> argument_and_option("label_separator", ";")
        "label_separator=';' (--label-separator ';')"
    """
    return in_both_syntaxes(_as_keyword(name, value), _as_option(name, value))


def in_each_syntax(in_python: str, on_command_line: str) -> str:
    """Return one of two advices that have no argument in common: the one for Python, or for the command line.

    A text that is saved needs both (:func:`in_both_syntaxes`).

    Args:
        in_python: What to write in Python, such as ``"Dataset.from_file"``.
        on_command_line: What to write in a command, such as ``"--data FILE"``.
    """
    if _Syntax.on_command_line:
        return on_command_line
    return in_python


def in_both_syntaxes(in_python: str, on_command_line: str) -> str:
    """Return two advices that have no argument in common, for a text that is saved and read in either place.

    Args:
        in_python: What to write in Python.
        on_command_line: What to write in a command.
    """
    return f"{in_python} ({on_command_line})"


def _as_keyword(name: str, value: object) -> str:
    """Return an argument as it is written in Python; only its name if there is no value."""
    if value is None:
        return name
    return f"{name}={value!r}"


def _as_option(name: str, value: object) -> str:
    """Return an argument as it is written on the command line: ``--texts title body``, or ``--no-recheck``.

    Args:
        name: The name of the argument in Python.
        value: The value; ``None`` and ``True`` for the option alone.
    """
    if value is False:
        return flag(f"no_{name}")
    option = flag(name)
    if value is None or value is True:
        return option
    values = value if isinstance(value, (list, tuple)) else [value]
    words = [shlex.quote(str(single_value)) for single_value in values]
    return " ".join([option, *words])
