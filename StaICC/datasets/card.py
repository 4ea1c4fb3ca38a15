"""Cards: what a data set is, as data.

A card says everything about a data set but its rows: name, task, where it comes from, under what licence, whom to cite,
its label space, the prompt template that belongs to it, the sizes of its splits, and the digests that pin its rows.
Cards are immutable and check themselves when they are made, so that whoever holds one can rely on it.

The words, as the field uses them: the *label space* is the ordered list of label names (a row's label is an index into
it; the benchmark shortens some names to single words, and the *full label space* keeps the original ones). The
*template* holds the constant strings of a prompt. The *alternatives* are the three levels of each template factor
that the template sensitivity benchmark varies; level 0 is the default.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from StaICC.errors import ArgumentError, SchemaError

LEVELS = 3
"""Levels of each template factor (the orthogonal array of template sensitivity is L9(3^4))."""


_WORDS = {str: "a string", int: "a whole number, 0 or more", bool: "True or False"}
_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


def _checked(owner: str, key: str, value: Any, hint: Any) -> Any:
    """Return a value that has the annotated type; a sequence becomes a tuple."""
    hint, *optional = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if value is None and optional:
        return None
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if isinstance(value, str) or not isinstance(value, Sequence):
            items = "strings" if inner is str else "sequences"
            raise ArgumentError(f"{owner}: {key!r} must be a sequence of {items}, not {value!r}")
        return tuple(_checked(owner, f"{key}[{i}]", item, inner) for i, item in enumerate(value))
    if not isinstance(value, hint) or (hint is int and (isinstance(value, bool) or value < 0)):
        wanted = _WORDS.get(hint) or f"a {hint.__name__}{' or None' if optional else ''}"
        raise ArgumentError(f"{owner}: {key!r} must be {wanted}, not {value!r}")
    if hint is str and not value.isascii() and value.encode("utf-8", "ignore").decode() != value:
        raise ArgumentError(f"{owner}: {key!r} is not valid Unicode text (it holds a lone surrogate): {value!r}")
    return value


def _check_fields(owner: str, record: Any) -> None:
    """Check the fields of a record by their annotations; sequences become tuples."""
    for key, hint in _hints(type(record)).items():
        object.__setattr__(record, key, _checked(owner, key, getattr(record, key), hint))


def _record(owner: str, data: object, expected: Sequence[str]) -> Mapping[str, Any]:
    """The mapping itself, once it is known to have exactly the expected keys."""
    if not isinstance(data, Mapping):
        raise SchemaError(f"{owner}: expected a record with the keys {', '.join(expected)}, not {data!r}")
    unknown = [key for key in data if key not in expected]
    if unknown:
        raise SchemaError(f"{owner}: unknown key {unknown[0]!r}; the keys are {', '.join(expected)}")
    missing = [key for key in expected if key not in data]
    if missing:
        raise SchemaError(f"{owner}: the key {missing[0]!r} is missing; the keys are {', '.join(expected)}")
    return data


def is_hexadecimal(text: object, length: int) -> bool:
    """Return whether a value is a text of so many lower-case hexadecimal digits."""
    return isinstance(text, str) and len(text) == length and set(text) <= set("0123456789abcdef")


def _keys(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


def plain_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record for JSON, as :func:`plain_values` does."""
    return {field.name: plain_values(getattr(record, field.name)) for field in dataclasses.fields(record)}


def plain_values(value: Any) -> Any:
    """Return a value for JSON: records as dictionaries, tuples as lists.

    Args:
        value: A record, or what its fields hold.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    return [plain_values(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, slots=True)
class Template:
    """The constant strings of a data set's prompts.

    A prompt is the instruction, then for each demonstration every input text between its prefix and affix and the label
    between prefix and affix, then the query prefix, the query's texts in the same way, and the label prefix.

    Raises:
        ArgumentError: A field is not text, or there is not one affix for each prefix.
    """

    instruction: str
    """Stands once, before everything else."""
    input_text_prefixes: tuple[str, ...]
    """One for each input text of a row."""
    input_text_affixes: tuple[str, ...]
    """One for each input text of a row."""
    label_prefix: str
    """Stands before each demonstration's label, and last in the prompt."""
    label_affix: str
    """Stands after each demonstration's label."""
    query_prefix: str = ""
    """Stands between the demonstrations and the query."""

    def __post_init__(self) -> None:
        _check_fields("template", self)
        if not self.input_text_prefixes:
            raise ArgumentError("template: 'input_text_prefixes' is empty; give one prefix for each input text")
        if len(self.input_text_prefixes) != len(self.input_text_affixes):
            raise ArgumentError(
                f"template: {len(self.input_text_prefixes)} 'input_text_prefixes' but {len(self.input_text_affixes)} "
                "'input_text_affixes'; give one of each for each input text"
            )


@dataclass(frozen=True, slots=True)
class TemplateAlternatives:
    """Three levels of each template factor, for template sensitivity; level 0 is the default template's.

    Raises:
        ArgumentError: A factor does not have three levels, or the levels of the prefixes differ in length.
    """

    instruction: tuple[str, ...]
    input_text_prefixes: tuple[tuple[str, ...], ...]
    """Level by level, one prefix for each input text."""
    label_prefix: tuple[str, ...]
    label_affix: tuple[str, ...]

    def __post_init__(self) -> None:
        owner = "template alternatives"
        _check_fields(owner, self)
        prefixes = self.input_text_prefixes
        for key in _keys(TemplateAlternatives):
            if len(getattr(self, key)) != LEVELS:
                raise ArgumentError(f"{owner}: {key!r} has {len(getattr(self, key))} levels; there must be {LEVELS}")
        if len({len(level) for level in prefixes}) != 1 or not prefixes[0]:
            raise ArgumentError(
                f"{owner}: each level of 'input_text_prefixes' needs one prefix for each input text; "
                f"the levels have {', '.join(str(len(level)) for level in prefixes)}"
            )


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """Rows of the calibration, demonstration and test sets.

    Raises:
        ArgumentError: A size is not a whole number, or the test set would be empty.
    """

    calibration: int
    demonstration: int
    test: int

    def __post_init__(self) -> None:
        _check_fields("split", self)
        if not self.test:
            raise ArgumentError("split: 'test' is 0; at least one row must be tested")

    @property
    def total(self) -> int:
        """Rows that the split takes altogether."""
        return self.calibration + self.demonstration + self.test


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 digests, in hexadecimal, that pin a data set.

    Raises:
        ArgumentError: A digest is not 64 lower-case hexadecimal digits.
    """

    table: str
    """Of the rows (see :func:`StaICC.datasets.table.table_digest`)."""
    file: str | None = None
    """Of the frozen file in the cache; None where the rows do not come from one."""

    def __post_init__(self) -> None:
        for key in _keys(Digests):
            value: object = getattr(self, key)
            if not (is_hexadecimal(value, 64) or (value is None and key == "file")):
                raise ArgumentError(f"digests: {key!r} must be 64 lower-case hexadecimal digits, not {value!r}")


@dataclass(frozen=True, slots=True)
class Card:
    """Everything about a data set but its rows.

    Raises:
        ArgumentError: A field has a wrong type, the label space has fewer than two labels, an empty one or one twice,
            the two label spaces or the template and its alternatives do not fit each other, or the split takes more
            rows than there are.
    """

    name: str
    """Id; means the same rows for ever."""
    title: str
    """What papers call it."""
    task: str
    source: str
    """Address of the paper that introduced the data."""
    licence: str
    """As the source states it."""
    citation: str
    """BibTeX."""
    label_space: tuple[str, ...]
    """Label names; a row's label is an index into them."""
    full_label_space: tuple[str, ...]
    """The unshortened names, in the same order."""
    template: Template
    alternatives: TemplateAlternatives | None
    """None: template sensitivity cannot be run on this data set."""
    split: SplitSizes
    rows: int
    """Number of rows of the whole table."""
    digests: Digests | None
    """None: nothing pins the rows."""
    offensive: bool = False
    """The texts hold language that hurts (kept out of examples and logs)."""
    notes: str = ""

    def __post_init__(self) -> None:
        owner = f"card {self.name!r}"
        _check_fields(owner, self)
        if not self.name.strip():
            raise ArgumentError("card: 'name' is empty")
        for key in ("label_space", "full_label_space"):
            labels = getattr(self, key)
            if key == "label_space" and len(labels) < 2:
                found = list(labels) or "empty"
                raise ArgumentError(f"{owner}: {key!r} is {found}, expected at least two labels")
            if not all(label.strip() for label in labels):
                raise ArgumentError(f"{owner}: {key!r} has an empty label name: {list(labels)!r:.200}")
            twice = next((label for i, label in enumerate(labels) if label in labels[:i]), None)
            if twice is not None:
                raise ArgumentError(f"{owner}: {key!r} names the label {twice!r} twice")
        if len(self.label_space) != len(self.full_label_space):
            raise ArgumentError(
                f"{owner}: 'label_space' names {len(self.label_space)} labels, "
                f"'full_label_space' {len(self.full_label_space)}"
            )
        if self.split.total > self.rows:
            raise ArgumentError(
                f"{owner}: the split takes {self.split.calibration} + {self.split.demonstration} + {self.split.test} = "
                f"{self.split.total} rows, but there are {self.rows}"
            )
        if self.alternatives is not None and len(self.alternatives.input_text_prefixes[0]) != self.columns:
            raise ArgumentError(
                f"{owner}: the template has {self.columns} input texts, "
                f"its alternatives have {len(self.alternatives.input_text_prefixes[0])}"
            )

    @property
    def columns(self) -> int:
        """Number of input texts of a row."""
        return len(self.template.input_text_prefixes)

    def to_dict(self) -> dict[str, Any]:
        """The card as plain values, ready for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Card:
        """Read a card from plain values, as :meth:`to_dict` gives them.

        Args:
            data: One entry for each field.

        Returns:
            The card.

        Raises:
            SchemaError: A key is unknown or missing (it is named).
            ArgumentError: A value does not fit.
        """
        name = data.get("name") if isinstance(data, Mapping) else None
        owner = f"card {name!r}"
        fields = dict(_record(owner, data, _keys(cls)))
        for key, hint in _hints(cls).items():
            kind: Any = (get_args(hint) or (hint,))[0]
            if hasattr(kind, "__dataclass_fields__") and not (fields[key] is None and kind is not hint):
                fields[key] = kind(**_record(f"{owner}, {key!r}", fields[key], _keys(kind)))
        return cls(**fields)
