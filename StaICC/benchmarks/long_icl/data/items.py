"""Items: the rows of the data sets as records.

There are five kinds: a text with a label (BANKING77, GoEmotions), two sentences with a label (Discovery), a sentence
with two entities and their relation (TACRED), a sentence with its entities and their types (Few-NERD), a dialogue
with pairs of entities and their relations (DialogRE). All have the same interface:

* ``row``: 0-based row in the file (for DialogRE demonstrations: among the kept rows);
* ``needle``: the text that the published parsers search for in a response, to skip a repeated prompt;
* ``gold``: the true labels, in order;
* ``query_fields()``: fields of the query template; ``answer_fields()``: fields of the answer template, which is filled
  once for each entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from StaICC.benchmarks.long_icl.data.cards import card
from StaICC.errors import ArgumentError


class _Item:
    """An item whose query template has fields of the same names."""

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]]
    """Fields of the query template."""
    searched: ClassVar[str]
    """The field that the parsers search for."""

    @property
    def needle(self) -> str:
        """The text that the published parsers search for."""
        return str(getattr(self, self.searched))

    def query_fields(self) -> dict[str, str]:
        """Fields of the query."""
        return {name: getattr(self, name) for name in self.shown}


class _OneLabel(_Item):
    """An item with one label."""

    __slots__ = ()
    label: str

    @property
    def gold(self) -> tuple[str, ...]:
        """The label, as a tuple of one."""
        return (self.label,)

    def answer_fields(self) -> list[dict[str, str]]:
        """The fields of the answer template."""
        return [{"label": self.label}]


@dataclass(frozen=True, slots=True)
class TextItem(_OneLabel):
    """A text with one label."""

    kind: ClassVar[str] = "text"
    shown: ClassVar[tuple[str, ...]] = ("text",)
    searched: ClassVar[str] = "text"

    row: int
    text: str
    label: str


@dataclass(frozen=True, slots=True)
class PairItem(_OneLabel):
    """Two sentences with a discourse marker as label."""

    kind: ClassVar[str] = "pair"
    shown: ClassVar[tuple[str, ...]] = ("sentence1", "sentence2")
    searched: ClassVar[str] = "sentence2"

    row: int
    sentence1: str
    sentence2: str
    label: str


@dataclass(frozen=True, slots=True)
class RelationItem(_OneLabel):
    """A sentence, two entities and their relation."""

    kind: ClassVar[str] = "relation"
    shown: ClassVar[tuple[str, ...]] = ("sentence", "subject_entity", "object_entity")
    searched: ClassVar[str] = "sentence"

    row: int
    sentence: str
    subject_entity: str
    object_entity: str
    label: str


@dataclass(frozen=True, slots=True)
class EntityItem(_Item):
    """A sentence and its entities, in prompt order, with their types."""

    kind: ClassVar[str] = "entities"
    shown: ClassVar[tuple[str, ...]] = ("sentence",)
    searched: ClassVar[str] = "sentence"

    row: int
    sentence: str
    entities: tuple[tuple[str, str], ...]
    """Pairs of entity and type; entities are unique."""

    @property
    def gold(self) -> tuple[str, ...]:
        """The types, one for each entity."""
        return tuple(kind for _, kind in self.entities)

    def answer_fields(self) -> list[dict[str, str]]:
        """The entities, each with its type."""
        return [{"entity": entity, "type": kind} for entity, kind in self.entities]


@dataclass(frozen=True, slots=True)
class Relation:
    """Two arguments of a dialogue and their relation."""

    subject_entity: str
    object_entity: str
    relation: str


@dataclass(frozen=True, slots=True)
class DialogueItem(_Item):
    """A dialogue and the queried pairs of entities, with their relations."""

    kind: ClassVar[str] = "dialogue"
    shown: ClassVar[tuple[str, ...]] = ("dialogue",)
    searched: ClassVar[str] = "dialogue"

    row: int
    dialogue: str
    relations: tuple[Relation, ...]

    @property
    def gold(self) -> tuple[str, ...]:
        """The relations, one for each pair."""
        return tuple(pair.relation for pair in self.relations)

    def query_fields(self) -> dict[str, str]:
        """Fields of the query; pairs are formatted as Python tuples of strings."""
        pairs = ", ".join(repr((pair.subject_entity, pair.object_entity)) for pair in self.relations)
        return {"dialogue": self.dialogue, "count": str(len(self.relations)), "pairs": pairs}

    def answer_fields(self) -> list[dict[str, str]]:
        """The relations, in one line."""
        return [{"relations": ", ".join(self.gold)}]


Item: TypeAlias = TextItem | PairItem | RelationItem | EntityItem | DialogueItem
"""An item of any data set."""

KINDS: Mapping[str, type[Item]] = {
    kind.kind: kind for kind in (TextItem, PairItem, RelationItem, EntityItem, DialogueItem)
}


def relabelled(item: Item, label: str) -> Item:
    """Return an item that has one label with another label."""
    assert isinstance(item, (TextItem, PairItem, RelationItem))
    return dataclasses.replace(item, label=label)


def _relation(given: Relation | Mapping[str, str]) -> Relation:
    if isinstance(given, Relation):
        return given
    return Relation(*(given.get(name, "") for name in ("subject_entity", "object_entity", "relation")))


def as_item(dataset: str, item: Item | Mapping[str, Any]) -> Item:
    """Return the item of a data set, from a record or from a mapping with the fields of the query.

    Args:
        dataset: Such as ``"banking77"``.
        item: A record of the right kind (returned unchanged), or a mapping with the fields of the query: ``text``;
            ``sentence1`` and ``sentence2``; ``sentence``, ``subject_entity``, ``object_entity``; ``sentence``;
            ``dialogue`` and ``relations``. ``row`` and the true labels may be missing; other keys are ignored.

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The item is of another kind or lacks a field.

    Example:
        >>> as_item("banking77", {"text": "Where is my card?"}).needle
        'Where is my card?'
    """
    kind = KINDS[card(dataset).kind]
    if isinstance(item, kind):
        return item
    if not isinstance(item, Mapping):
        raise ArgumentError(f"an item of {dataset} is a {kind.__name__} or a mapping with its fields, not {item!r}")
    missing = [name for name in kind.shown if not isinstance(item.get(name), str)]
    if missing:
        there = ", ".join(map(repr, item)) or "nothing"
        raise ArgumentError(f"the item lacks the text {missing[0]!r}; it has {there}")
    if kind is DialogueItem and not isinstance(item.get("relations"), (list, tuple)):
        raise ArgumentError("a dialogue item needs 'relations', a list of records; their number is part of the query")
    entities = item.get("entities", ())
    fields: dict[str, Any] = {
        **{"row": -1, "label": "", **item},
        "entities": tuple(map(tuple, entities.items() if isinstance(entities, Mapping) else entities)),
        "relations": tuple(map(_relation, item.get("relations", ()))),
    }
    return kind(**{field.name: fields[field.name] for field in dataclasses.fields(kind)})
