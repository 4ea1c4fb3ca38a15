"""The signature of a result: every setting that can change its numbers, in one line that a paper can print.

Two results with the same signature had the same prompts and the same scoring. The line is built from data in a fixed
order, the version last, what is at its default left out where leaving it out says so; it is never parsed back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from StaICC.errors import SchemaError
from StaICC.layout import Line, TextTable, html
from StaICC.safe_text import one_line

FIELDS = (
    "benchmark",
    "datasets",
    "data",
    "split",
    "clusters",
    "sampler",
    "k",
    "repeats",
    "demonstrations",
    "template",
    "channel",
    "options",
    "limit",
    "stopping",
    "method",
    "scoring",
    "metrics",
    "outputs",
    "unparsed",
    "statistics",
    "prompts",
    "failed",
    "version",
)
"""Every field that a signature can have, in its order."""


def digest(value: object) -> str:
    """Return the SHA-256 of a JSON value (compact, UTF-8), the convention of all digests of this library."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def short_digest(value: object) -> str:
    """Return the first 12 hexadecimal digits of :func:`digest`, enough to tell settings apart in a line."""
    return digest(value)[:12]


def escaped(name: str) -> str:
    """Return a user's name with the separators of the signature percent-encoded.

    Then a reader cannot take the name for several names, which ``+`` joins, or for the next field, which begins after
    ``|``.

    Args:
        name: The name, such as that of a data set.

    Returns:
        The name with ``|``, ``+``, ``%`` and unprintable characters as ``%`` and their number.

    Example:
        >>> escaped("a|b"), escaped("plain name"), escaped("c++")
        ('a%7Cb', 'plain name', 'c%2B%2B')
    """
    letters = []
    for letter in name:
        if letter in "|+%" or not letter.isprintable():
            letters.append(f"%{ord(letter):02X}")
        else:
            letters.append(letter)
    return "".join(letters)


def scoring_field(settings: Mapping[str, str]) -> str:
    """Write the settings of an inference function as a field of the signature.

    Args:
        settings: How its scores are computed, by option name (``settings`` of its identity).

    Returns:
        The settings in the order of their names, escaped; ``"function"`` if there are none.

    Example:
        >>> scoring_field({"label_scoring": "last", "max_length": "512"}), scoring_field({})
        ('label_scoring=last;max_length=512', 'function')
    """
    if not settings:
        return "function"
    pairs = []
    for name, value in sorted(settings.items()):
        pairs.append(f"{_escaped_setting(name)}={_escaped_setting(value)}")
    return ";".join(pairs)


def _escaped_setting(text: str) -> str:
    """Return the name or the value of a setting with the separators percent-encoded, also ``;`` and ``=``."""
    return escaped(text).replace(";", "%3B").replace("=", "%3D")


def common(values: Sequence[str | None]) -> str | None:
    """Return the value that all data sets share, or ``mixed-`` and a digest of the list.

    Args:
        values: The value of each data set.
    """
    if len(set(values)) == 1:
        return values[0]
    return f"mixed-{short_digest(list(values))}"


@dataclass(frozen=True)
class Signature:
    """Every setting that can change the numbers of a result, as text by field.

    Args:
        fields: Values by field name; the known names are fixed, ``None`` values are left out.

    Raises:
        SchemaError: A field that signatures do not have.

    Example:
        >>> print(Signature({"version": "1.0.0", "benchmark": "Normal", "k": "4", "limit": None}))
        StaICC|benchmark:Normal|k:4|version:1.0.0
    """

    fields: Mapping[str, str | None]

    def __post_init__(self) -> None:
        """Refuse unknown fields, and keep the others in their fixed order."""
        for name in self.fields:
            if name not in FIELDS:
                raise SchemaError(f"a signature has no field {name!r}; there are: {', '.join(FIELDS)}")
        # The fields are kept in a fixed order, without those that have no value.
        ordered = {}
        for name in FIELDS:
            value = self.fields.get(name)
            if value is not None:
                ordered[name] = value
        object.__setattr__(self, "fields", ordered)

    def __str__(self) -> str:
        parts = ["StaICC"]
        for name, value in self.fields.items():
            parts.append(f"{name}:{value}")
        return one_line("|".join(parts))

    def _repr_html_(self) -> str:
        """Return the line, then a table of the fields, for a notebook."""
        rows = [[name, str(value)] for name, value in self.fields.items()]
        return html([Line(str(self), "code"), TextTable(["field", "value"], rows, texts=(0, 1))])

    def to_dict(self) -> dict[str, str]:
        """Return the fields that are set, in order."""
        return {name: value for name, value in self.fields.items() if value is not None}

    def differences(self, other: Signature) -> dict[str, tuple[str | None, str | None]]:
        """Return the fields in which two signatures differ, with both values."""
        differences = {}
        for name in FIELDS:
            value = self.fields.get(name)
            other_value = other.fields.get(name)
            if value != other_value:
                differences[name] = (value, other_value)
        return differences

    def __hash__(self) -> int:
        return hash(str(self))
