"""Writing values as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.safe_text import has_lone_surrogate

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(values: Mapping[str, Any], remarks: Sequence[str] = ()) -> str:
    """Return a TOML document: comments, then keys with values, then tables.

    Args:
        values: Texts, numbers, truth values, lists of these, and mappings of these, by key.
        remarks: The comments at the beginning, one for each line.

    Raises:
        ArgumentError: A text has half a character, which no file can have.

    Example:
        >>> print(toml_text({"k": 4, "datasets": ["mini"], "model_option": {"order": 8}}, ["A run."]), end="")
        # A run.
        <BLANKLINE>
        k = 4
        datasets = ["mini"]
        <BLANKLINE>
        [model_option]
        order = 8
    """
    lines = [f"# {_one_line(remark)}" for remark in remarks]
    if lines:
        lines.append("")
    tables = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            tables[name] = value
        else:
            lines.append(f"{_key(name)} = {_value(value)}")
    for table_name, table in tables.items():
        lines += ["", f"[{_key(table_name)}]"]
        for name, value in table.items():
            lines.append(f"{_key(name)} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Return a comment without control characters, which TOML does not allow in one."""
    return "".join(character if character.isprintable() else " " for character in text)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _text(name)


def _value(value: object) -> str:
    """Return a value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Sequence):
        return f"[{', '.join(map(_value, value))}]"
    raise TypeError(f"got {value!r}, expected a text, a number, a truth value or a list")


def _text(text: str) -> str:
    """Return a text in quotes. TOML has the escapes of JSON, and requires one for the character DEL as well."""
    if has_lone_surrogate(text):
        raise ArgumentError(f"got the text {text!a:.60}, which has half a character, so no TOML file can have it")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
