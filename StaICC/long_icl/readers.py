"""Readers of the published files.

A reader yields the rows of a file in file order, which is part of the protocol: it sorts, shuffles, strips and skips
nothing. A :class:`FileRow` has its label if there is one, and a function that makes the item. Items are made only for
selected rows, because detokenising all 68,000 rows of TACRED takes long. Every row is checked: number of columns or
keys, types, labels. A malformed file raises a :class:`~StaICC.errors.DataDamagedError` whose message starts with
``PATH, line N:``. Files are UTF-8 without a byte-order mark.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from StaICC.errors import DataDamagedError, DataMissingError, SchemaError, unknown_name
from StaICC.files.json_reading import parse_json, read_value
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.detokeniser import detokenise
from StaICC.long_icl.prompts import Item, dialogue_item, entity_item

_BOM = b"\xef\xbb\xbf"


def malformed(path: Path, place: int | str, problem: str) -> DataDamagedError:
    """Return the error for a malformed line (a number) or record (its name); the caller raises it.

    Example:
        >>> str(malformed(Path("train.csv"), 7, "expected 2 columns, found 3"))
        'train.csv, line 7: expected 2 columns, found 3'
    """
    return DataDamagedError(f"{path}, {f'line {place}' if isinstance(place, int) else place}: {problem}")


def lines(path: Path, *, windows: bool = False) -> Iterator[str]:
    r"""Yield the lines of a file, each with its line end.

    Args:
        path: The file.
        windows: Lines may end in CR LF.

    Raises:
        DataMissingError: The file does not exist or cannot be read.
        DataDamagedError: The file is empty, starts with a byte-order mark, is not UTF-8, or has unexpected Windows line
            ends or carriage returns.
    """
    number = 0
    try:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                if number == 1 and raw.startswith(_BOM):
                    raise malformed(path, 1, "the file starts with a byte-order mark; save it as UTF-8 without one")
                if b"\r" in raw and not (windows and raw.count(b"\r") == 1 and raw.endswith(b"\r\n")):
                    what = "a Windows line end (CR LF)" if raw.endswith(b"\r\n") else "a stray carriage return"
                    raise malformed(path, number, f"{what}; copy the published file without conversion")
                try:
                    yield raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise malformed(path, number, f"not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    if number == 0:
        raise malformed(path, 1, "the file is empty")


def json_list(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a JSON list in a file, each with its name: ``record 1`` ...

    Raises:
        DataMissingError: The file does not exist.
        DataDamagedError: The file is malformed (see :func:`lines`), or not a JSON list.
    """
    where = f"{path}, its text"
    try:
        records = read_value(tuple[object, ...], parse_json("".join(lines(path)), where), f"{where}: it")
    except SchemaError as error:
        raise DataDamagedError(str(error)) from error
    return ((f"record {number}", record) for number, record in enumerate(records, 1))


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file."""

    label: str | None
    """The label; None if the row has several or none."""
    form: Any
    """The row as plain values for the rows digest; None if the format has no such digest."""
    item: Callable[[], Item]
    """Returns the item."""


def _known(path: Path, line: int | str, label: str, card: TaskCard) -> str:
    if label not in card.labels and label not in card.other_labels:
        raise malformed(path, line, str(unknown_name(f"{card.title} label", label, card.labels)))
    return label


@dataclass(frozen=True, slots=True)
class Columns:
    """How the lines of a file are divided, and what a label is."""

    names: tuple[str, ...]
    """The columns: texts, then the label, then others; the file may have more if it has a header."""
    labels: Literal["names", "indices", "both"]
    """What the column ``names[-1 - others]`` has; ``indices``: one or several, with commas between them."""
    others: int = 0
    header: bool = True
    windows: bool = False
    delimiter: str = "\t"
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL

    @property
    def dialect(self) -> dict[str, Any]:
        """Arguments of :func:`csv.reader` and :func:`csv.writer`."""
        return {
            "delimiter": self.delimiter,
            "quoting": self.quoting,
            "lineterminator": "\r\n" if self.windows else "\n",
            "quotechar": '"' if self.quoting == csv.QUOTE_MINIMAL else None,
        }


def _csv_rows(path: Path, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a file, each with its first line number."""
    reader, names, begin = csv.reader(lines(path, windows=columns.windows), **columns.dialect), columns.names, 1
    try:
        for row in reader:
            if any("\r" in field for field in row):
                raise malformed(path, begin, "a quoted text holds a Windows line end; copy the file without conversion")
            if begin == 1 and columns.header:
                if (*row[: len(names)],) != names:
                    raise malformed(path, 1, f"expected the header {','.join(names)}, found {','.join(row)}")
                names = (*row,)
            elif len(row) != len(names):
                raise malformed(path, begin, f"expected {len(names)} columns ({', '.join(names)}), found {len(row)}")
            else:
                yield begin, row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise malformed(path, begin, f"not a row of fields: {error}") from error


def _read_columns(columns: Columns, path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of a file with columns; quoted texts may have line feeds."""
    by_name = {label: place for place, label in enumerate(card.labels)} if columns.labels != "indices" else {}
    known = by_name | ({str(i): i for i in range(len(card.labels))} if columns.labels != "names" else {})
    end = len(columns.names) - 1 - columns.others
    for number, (line, row) in enumerate(_csv_rows(path, columns)):
        parts = row[end].split(",") if columns.labels == "indices" else [row[end]]
        for part in parts:
            if part not in known:
                raise malformed(path, line, str(unknown_name(f"{card.title} label", part, by_name or known)))
        places, texts = [known[part] for part in parts], row[:end]
        label = card.labels[places[0]]
        form = [*texts, places if columns.labels == "indices" else places[0], *row[end + 1 : len(columns.names)]]
        item = partial(Item, card.kind, number, (*texts,), (label,))
        yield FileRow(label if len(places) == 1 else None, form, item)


_Texts = tuple[str, ...]


def _values(path: Path, line: int | str, record: Any, **hints: Any) -> list[Any]:
    """Return values of a JSON object after checking their types."""
    try:
        if not isinstance(record, dict):
            raise SchemaError(f"expected a record, {{...}}, found {record!r:.60}")
        return [read_value(hint, record.get(key), repr(key)) for key, hint in hints.items()]
    except SchemaError as error:
        raise malformed(path, line, str(error)) from error


_SPANS = dict.fromkeys(("subj_start", "subj_end", "obj_start", "obj_end"), int)


def _relation_item(number: int, tokens: _Texts, spans: Sequence[int], label: str) -> Item:
    entities = (detokenise(tokens[first : last + 1]) for first, last in (spans[:2], spans[2:]))
    return Item("relation", number, (detokenise(tokens), *entities), (label,))


def _read_tacred(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of TACRED: records with ``token``, first and last token of both entities, and ``relation``."""
    for number, (line, record) in enumerate(json_list(path)):
        tokens, *spans, relation = _values(path, line, record, token=_Texts, **_SPANS, relation=str)
        if not all(0 <= first <= last < len(tokens) for first, last in (spans[:2], spans[2:])):
            raise malformed(path, line, f"{', '.join(_SPANS)}: {spans} do not fit {len(tokens)} tokens")
        label = _known(path, line, relation, card)
        yield FileRow(label, None, partial(_relation_item, number, tokens, spans, label))


def _read_entities(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD as processed by LongICLBench: ``sentence`` and ``entities`` (text to type)."""
    for number, (line, record) in enumerate(json_list(path)):
        sentence, entities = _values(path, line, record, sentence=str, entities=dict[str, str])
        for kind in entities.values():
            _known(path, line, kind, card)
        pairs = [[*pair] for pair in entities.items()]
        yield FileRow(None, [sentence, pairs], partial(entity_item, number, sentence, pairs))


def _read_dialogues(by_pair: bool, path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of DialogRE: training rows are kept pairs, test rows are dialogues with their kept pairs.

    The first relation of a kept pair is one of the labels.
    """
    numbers = count()
    for line, element in json_list(path):
        if not isinstance(element, list) or len(element) != 2 or not isinstance(element[1], list):
            raise malformed(path, line, "expected a pair [turns, instances], the instances a list of records")
        (turns,), kept = _values(path, line, {"turns": element[0]}, turns=_Texts), []
        for record in element[1]:
            *pair, relations = _values(path, line, record, x=str, y=str, r=_Texts)
            if not relations:
                raise malformed(path, line, f"the pair {pair} has no relation")
            if _known(path, line, relations[0], card) in card.labels:
                kept.append((*pair, relations[0]))
        for pairs in zip(kept) if by_pair else [kept]:
            item = partial(dialogue_item, next(numbers), "\n".join(turns), pairs)
            yield FileRow(pairs[0][2] if by_pair else None, None, item)


COLUMNS: Mapping[str, Columns] = {
    "banking_csv": Columns(("text", "category"), "names", windows=True, delimiter=","),
    "goemotions_tsv": Columns(("text", "label ids", "comment id"), "indices", 1, header=False),
    "discovery_tsv": Columns(("sentence1", "sentence2", "label"), "both", quoting=csv.QUOTE_NONE),
}
"""The formats with columns, by name."""
READERS: Mapping[str, Callable[[Path, TaskCard], Iterator[FileRow]]] = {
    **{name: partial(_read_columns, columns) for name, columns in COLUMNS.items()},
    "tacred_json": _read_tacred,
    "entities_json": _read_entities,
    "dialogre_train_json": partial(_read_dialogues, True),
    "dialogre_test_json": partial(_read_dialogues, False),
}
"""Readers by the name of their format."""
