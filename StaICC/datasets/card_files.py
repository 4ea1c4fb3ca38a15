"""Card files: facts about a user's data set, in a file next to the data.

A *card file* (``tickets.card.toml`` or ``tickets.card.json`` for ``tickets.csv``) states facts for
:meth:`StaICC.datasets.dataset.Dataset.from_rows`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC.datasets.table_files import uncompressed_name
from StaICC.errors import ArgumentError, SchemaError, unknown_name
from StaICC.files.json_reading import read_json
from StaICC.files.output import StrPath

_CARD_SUFFIXES = (".card.toml", ".card.json")
CARD_KEYS = (
    "name",
    "texts",
    "label",
    "labels",
    "encoding",
    "quoting",
    "columns",
    "template",
    "alternatives",
    "split",
    "task",
    "source",
    "licence",
    "citation",
    "offensive",
    "notes",
    "label_separator",
    "cluster",
    "subgroups",
)
"""What a card file may state."""


def read_card(data: Path, given: StrPath | None) -> dict[str, Any]:
    """Return the facts of the card file of a data file; its keys are checked, its values are checked by their users.

    Args:
        data: The data file.
        given: The card file (default: next to the data, if there is one).

    Raises:
        ArgumentError: There are two cards, or its format is unknown.
        SchemaError: It cannot be read.
    """
    if given is not None:
        path: Path | None = Path(given)
    else:
        path = _card_next_to(data)
    if path is None:
        return {}
    card = _parse_card(path)
    check_keys(path.name, card, CARD_KEYS)
    return dict(card)


def _card_next_to(data: Path) -> Path | None:
    """Return the card file next to a data file, if there is one.

    Raises:
        ArgumentError: There are two.
    """
    if not data.name:  # a path such as "." or "/", which is reported when the data is read
        return None
    stem = uncompressed_name(data).stem
    cards = []
    for suffix in _CARD_SUFFIXES:
        card = data.with_name(stem + suffix)
        if card.is_file():
            cards.append(card)
    if len(cards) > 1:
        raise ArgumentError(f"{data.name} has two cards: {cards[0].name} and {cards[1].name}. Remove one")
    if not cards:
        return None
    return cards[0]


def _parse_card(path: Path) -> Any:
    """Return the content of a card file, unchecked.

    Raises:
        ArgumentError: Its format is unknown, or this version of Python cannot read it.
        SchemaError: It is not JSON or TOML.
    """
    suffix = path.suffix.lower()
    if suffix == ".json":
        return read_json(path)
    if suffix != ".toml":
        raise ArgumentError(f"card: got {path.name}, expected a .toml or .json file")
    if sys.version_info < (3, 11):
        raise ArgumentError(
            f"{path.name}: Python 3.{sys.version_info[1]} cannot read TOML. Write the card as JSON "
            f"({path.with_suffix('.json').name}, with the same keys)"
        )
    toml = importlib.import_module("tomllib")  # by name: type checkers for Python 3.10 do not know it
    try:
        return toml.loads(path.read_text("utf-8-sig"))
    except ValueError as error:  # also what is not UTF-8
        raise SchemaError(f"{path.name} is not TOML: {error}") from error


def check_keys(where: str, record: object, known: Sequence[str]) -> None:
    """Refuse a record with other keys than the known ones.

    Args:
        where: What the record is, for messages.
        record: The record, which should be a mapping.
        known: The known keys.

    Raises:
        SchemaError: It is no mapping, or has an unknown key.
    """
    if not isinstance(record, Mapping):
        raise SchemaError(f"{where}: got {record!r:.60}, expected a table with keys such as {known[0]!r}")
    for key in record:
        if key not in known:
            raise SchemaError(f"{where}: {unknown_name('key', key, known)}")
