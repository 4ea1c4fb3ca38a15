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
    *("name", "texts", "label", "labels", "encoding", "quoting", "columns", "template", "alternatives", "split"),
    *("task", "source", "licence", "citation", "offensive", "notes"),
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
    stem = uncompressed_name(data).stem
    cards = [data.with_name(stem + suffix) for suffix in _CARD_SUFFIXES] if data.name else []  # not of a folder
    cards = [card for card in cards if card.is_file()] if given is None else [Path(given)]
    if len(cards) > 1:
        raise ArgumentError(f"{data.name} has two cards: {cards[0].name} and {cards[1].name}. Remove one")
    if not cards:
        return {}
    (path,) = cards
    if path.suffix.lower() == ".json":
        card = read_json(path)
    elif path.suffix.lower() != ".toml":
        raise ArgumentError(f"card: got {path.name}, expected a .toml or .json file")
    elif sys.version_info < (3, 11):
        advice = f"Write the card as JSON ({path.with_suffix('.json').name}, with the same keys)"
        raise ArgumentError(f"{path.name}: Python 3.{sys.version_info[1]} cannot read TOML. {advice}")
    else:
        toml = importlib.import_module("tomllib")  # by name: type checkers for Python 3.10 do not know it
        try:
            card = toml.loads(path.read_text("utf-8-sig"))
        except ValueError as error:  # also what is not UTF-8
            raise SchemaError(f"{path.name} is not TOML: {error}") from error
    check_keys(path.name, card, CARD_KEYS)
    return dict(card)


def check_keys(where: str, record: object, known: Sequence[str]) -> None:
    """Refuse a record with other keys than the known ones.

    Raises:
        SchemaError: It is no mapping, or has an unknown key.
    """
    if not isinstance(record, Mapping):
        raise SchemaError(f"{where}: got {record!r:.60}, expected a table with keys such as {known[0]!r}")
    for key in record:
        if key not in known:
            raise SchemaError(f"{where}: {unknown_name('key', key, known)}")
