"""The six data sets, as data: what they are, where to get them, how their rounds, prompts and answers are made.

``cards.json`` holds everything that differs between the data sets; the other modules hold the rules. The words: a
*demonstration* is a worked example in the prompt; a *round* shows every label once more (round 3 shows each label
three times, as far as there are rows); the *query* is the item that the model shall label; the *cue* is the text
right before an answer, the *marker* the text with which another example begins.

Prompt strings are exact: no blank is added between two parts unless it stands in the card.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from StaICC.errors import SchemaError, unknown_name

__all__ = [
    "AnswerFormat",
    "DemonstrationRule",
    "FileSpec",
    "PromptTemplate",
    "ScoringRule",
    "TaskCard",
    "TestRule",
    "card",
    "cards",
]

ROUNDS = 5
"""Rounds that the benchmark defines."""

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One way in which a split can lie in the data folder."""

    names: tuple[str, ...]
    """Paths in the data folder, the first one is the name under which it is installed."""
    made_up: tuple[str, ...]
    """Paths of invented rows of the same shape (for tests); their counts and digests are not checked."""
    format: str
    """Reader, a key of :data:`StaICC.benchmarks.long_icl.readers.READERS`."""
    rows: int | None
    """Rows of the published file; None where that is not known."""
    sha256: tuple[str, ...]
    """Digests of the published file, one for each known writing of the same rows."""
    rows_sha256: str | None
    """Digest of the rows as read (see :func:`StaICC.benchmarks.long_icl.loading.load`)."""


@dataclass(frozen=True, slots=True)
class DemonstrationRule:
    """How the demonstrations of a round are chosen (rules: see :mod:`StaICC.benchmarks.long_icl.selection`)."""

    rule: str
    expected: tuple[int, ...]
    """Number of demonstrations of rounds 1 to 5 with the published data."""


@dataclass(frozen=True, slots=True)
class TestRule:
    """How the test items are chosen (rules: see :mod:`StaICC.benchmarks.long_icl.selection`)."""

    __test__ = False  # not a test case, whatever its name makes pytest think

    rule: str
    size: int | None
    """Turns, or items of a label; None where the rule has no such number."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The constant strings of the prompts."""

    plain: str
    """Stands first, without the label list."""
    instruct: tuple[str, str]
    """Stands first, around the label list."""
    query: str
    """The query, up to where the model shall go on; the names in braces are fields of the item."""
    answer: str
    """What follows the query in a demonstration, once for each of the item's answers."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """What the published parsers look for, and how a label is compared."""

    cue: str
    """Empty where there is none."""
    marker: str | None
    lower: bool
    """Labels are compared in lower case."""
    delete: str
    """Characters that are removed before labels are compared."""

    def normal(self, text: str) -> str:
        """A label, or an answer, in the form in which the two are compared.

        Example:
            >>> card("discovery").answers.normal("Actually,")
            'actually'
        """
        text = text.strip()
        if self.delete:
            text = text.translate(dict.fromkeys(map(ord, self.delete)))
        return text.lower().strip() if self.lower else text


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """How the answers become a number."""

    metric: str
    """``accuracy`` or ``micro_f1``."""
    f1_constant: float
    """What the published F1 adds to its denominator."""
    stop_at: int | None
    """The published score leaves out what follows the item that brings the number of gold labels here."""


@dataclass(frozen=True, slots=True)
class TaskCard:
    """Everything about one data set but its rows."""

    name: str
    title: str
    task: str
    kind: str
    """Kind of item: ``text``, ``pair``, ``relation``, ``entities`` or ``dialogue``."""
    source: str
    licence: str
    restricted: bool
    """The licence asks something of the user before use."""
    terms: str
    """What the licence means for a user, in a sentence or two."""
    citation: str
    obtain: str
    """How to get the files."""
    offensive: bool
    """The texts hold language that hurts (kept out of examples and logs)."""
    labels: tuple[str, ...]
    """In prompt order; a label index counts in this order."""
    other_labels: tuple[str, ...]
    """Labels that occur in the files and that the benchmark leaves out."""
    files: Mapping[str, tuple[FileSpec, ...]]
    """``train`` and ``test``; for each, what may lie there, best first."""
    demonstrations: DemonstrationRule
    test: TestRule
    template: PromptTemplate
    answers: AnswerFormat
    scoring: ScoringRule

    @property
    def structured(self) -> bool:
        """An item has several labels, so only text can answer it."""
        return self.kind in ("entities", "dialogue")

    def notice(self) -> str:
        """Licence, terms, source and whom to cite, to be shown before the data are used."""
        return f"{self.title}: {self.licence}. {self.terms} Source: {self.source}"

    def instructions(self) -> str:
        """What to do when the files are missing."""
        return (
            f"{self.obtain} Put them into the data folder, or install them: "
            f"python -m StaICC data install long-icl --from FOLDER. Licence: {self.licence}. {self.terms}"
        )


def _build(kind: type[_Record], data: Mapping[str, Any], owner: str) -> _Record:
    """A record from plain values with exactly its fields; lists become tuples."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if set(data) != names:
        raise SchemaError(f"{owner}: the keys are {sorted(data)}, expected {sorted(names)}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})


def _card(data: Mapping[str, Any]) -> TaskCard:
    owner = f"cards.json, {data.get('name')!r}"
    parts: dict[str, Any] = dict(data)
    parts["files"] = {
        split: tuple(_build(FileSpec, spec, f"{owner}, {split}") for spec in specs)
        for split, specs in data["files"].items()
    }
    for key, kind in (
        ("demonstrations", DemonstrationRule),
        ("test", TestRule),
        ("template", PromptTemplate),
        ("answers", AnswerFormat),
        ("scoring", ScoringRule),
    ):
        parts[key] = _build(kind, data[key], f"{owner}, {key}")
    return _build(TaskCard, parts, owner)


@functools.cache
def cards() -> Mapping[str, TaskCard]:
    """The cards by name, in the order of the benchmark.

    Example:
        >>> list(cards())
        ['banking77', 'goemotions', 'discovery', 'tacred', 'few_nerd', 'dialogre']
    """
    text = (importlib.resources.files(__package__) / "cards.json").read_text(encoding="utf-8")
    return {data["name"]: _card(data) for data in json.loads(text)["cards"]}


def card(name: str) -> TaskCard:
    """The card of a data set.

    Args:
        name: Such as ``"banking77"``.

    Raises:
        UnknownNameError: There is no such data set; the nearest name is suggested.

    Example:
        >>> len(card("discovery").labels)
        174
    """
    try:
        return cards()[name]
    except (KeyError, TypeError):
        raise unknown_name("LongICL data set", name, cards()) from None
