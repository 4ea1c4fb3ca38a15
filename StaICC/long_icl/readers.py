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
from pathlib import Path
from typing import Any, Literal

from StaICC.errors import DataDamagedError, DataMissingError, SchemaError, unknown_name
from StaICC.files.json_reading import parse_json, read_value
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.detokeniser import detokenise
from StaICC.long_icl.prompts import Item, dialogue_item, entity_item

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def malformed(path: Path, place: int | str, problem: str) -> DataDamagedError:
    """Return the error for a malformed line (a number) or record (its name); the caller raises it.

    Example:
        >>> str(malformed(Path("train.csv"), 7, "expected 2 columns, found 3"))
        'train.csv, line 7: expected 2 columns, found 3'
    """
    if isinstance(place, int):
        place = f"line {place}"
    return DataDamagedError(f"{path}, {place}: {problem}")


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
                if number == 1 and raw.startswith(_BYTE_ORDER_MARK):
                    raise malformed(path, 1, "the file starts with a byte-order mark; save it as UTF-8 without one")
                _check_line_end(path, number, raw, windows)
                try:
                    yield raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise malformed(path, number, f"not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    if number == 0:
        raise malformed(path, 1, "the file is empty")


def _check_line_end(path: Path, number: int, raw: bytes, windows: bool) -> None:
    """Refuse a line with a carriage return, unless it is part of a Windows line end of a file that may have them.

    Args:
        path: The file.
        number: The number of the line.
        raw: The line with its line end.
        windows: Lines may end in CR LF.

    Raises:
        DataDamagedError: The line has such a carriage return.
    """
    if b"\r" not in raw:
        return
    has_windows_line_end = raw.endswith(b"\r\n")
    if windows and has_windows_line_end and raw.count(b"\r") == 1:
        return
    problem = "a Windows line end (CR LF)" if has_windows_line_end else "a stray carriage return"
    raise malformed(path, number, f"{problem}; copy the published file without conversion")


def json_list(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a JSON list in a file, each with its name: ``record 1`` ...

    Raises:
        DataMissingError: The file does not exist.
        DataDamagedError: The file is malformed (see :func:`lines`), or not a JSON list.
    """
    where = f"{path}, its text"
    try:
        value = parse_json("".join(lines(path)), where)
        records = read_value(tuple[object, ...], value, f"{where}: it")
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


def _check_label(path: Path, place: int | str, label: str, card: TaskCard) -> None:
    """Refuse a label that is none of the data set.

    Raises:
        DataDamagedError: The card has no such label, neither among its labels nor among those that are left out.
    """
    if label not in card.labels and label not in card.other_labels:
        raise malformed(path, place, str(unknown_name(f"{card.title} label", label, card.labels)))


# -- files with columns


@dataclass(frozen=True, slots=True)
class Columns:
    """How the lines of a file are divided, and what a label is."""

    names: tuple[str, ...]
    """The columns: texts, then the label, then others; the file may have more if it has a header."""
    labels: Literal["names", "indices", "both"]
    """What the label column has: label names, indexes into the labels (one or several, with commas between them), or in
    each row one of both."""
    others: int = 0
    """Number of the columns after the label."""
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

    @property
    def label_position(self) -> int:
        """The position of the label column."""
        return len(self.names) - 1 - self.others


def _csv_rows(path: Path, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a file, each with its first line number.

    Raises:
        DataDamagedError: The header is not the expected one, or a record has another number of fields.
    """
    reader = csv.reader(lines(path, windows=columns.windows), **columns.dialect)
    names = columns.names
    first_line = 1
    try:
        for row in reader:
            if any("\r" in field for field in row):
                raise malformed(
                    path, first_line, "a quoted text holds a Windows line end; copy the file without conversion"
                )
            is_header = columns.header and first_line == 1
            if is_header:
                if tuple(row[: len(names)]) != names:
                    raise malformed(path, 1, f"expected the header {','.join(names)}, found {','.join(row)}")
                names = tuple(row)  # the file may have further columns
            elif len(row) != len(names):
                expected = f"expected {len(names)} columns ({', '.join(names)})"
                raise malformed(path, first_line, f"{expected}, found {len(row)}")
            else:
                yield first_line, row
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise malformed(path, first_line, f"not a row of fields: {error}") from error


def _read_columns(columns: Columns, path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of a file with columns; quoted texts may have line feeds."""
    index_of_value = _label_indexes(columns, card)
    label_position = columns.label_position
    for number, (line, row) in enumerate(_csv_rows(path, columns)):
        has_several_labels = columns.labels == "indices"
        values = row[label_position].split(",") if has_several_labels else [row[label_position]]
        for value in values:
            if value not in index_of_value:
                legal = list(index_of_value) if has_several_labels else card.labels
                raise malformed(path, line, str(unknown_name(f"{card.title} label", value, legal)))
        label_indexes = [index_of_value[value] for value in values]
        texts = row[:label_position]
        first_label = card.labels[label_indexes[0]]
        other_cells = row[label_position + 1 : len(columns.names)]
        form = [*texts, label_indexes if has_several_labels else label_indexes[0], *other_cells]
        item = partial(Item, card.kind, number, tuple(texts), (first_label,))
        label = first_label if len(label_indexes) == 1 else None
        yield FileRow(label, form, item)


def _label_indexes(columns: Columns, card: TaskCard) -> dict[str, int]:
    """Return the label index of each value that the label column can have."""
    index_of_value = {}
    for index, label in enumerate(card.labels):
        if columns.labels != "indices":
            index_of_value[label] = index
        if columns.labels != "names":
            index_of_value[str(index)] = index
    return index_of_value


# -- JSON files

_Texts = tuple[str, ...]


def _values(path: Path, place: int | str, record: Any, **types: Any) -> list[Any]:
    """Return values of a JSON object after checking their types.

    Args:
        path: The file, for messages.
        place: The name of the record, for messages.
        record: The object.
        **types: The type of each value, by its key.

    Raises:
        DataDamagedError: It is no object, or a value is missing or has another type.
    """
    try:
        if not isinstance(record, dict):
            raise SchemaError(f"expected a record, {{...}}, found {record!r:.60}")
        return [read_value(expected_type, record.get(key), repr(key)) for key, expected_type in types.items()]
    except SchemaError as error:
        raise malformed(path, place, str(error)) from error


_POSITIONS = ("subj_start", "subj_end", "obj_start", "obj_end")
"""The keys of the first and the last token of both entities in a record of TACRED."""


def _relation_item(number: int, tokens: _Texts, positions: Sequence[int], label: str) -> Item:
    """Return a sentence with its two entities.

    Args:
        number: The row in the file.
        tokens: The tokens of the sentence.
        positions: The values of :data:`_POSITIONS`.
        label: The relation.
    """
    subject_start, subject_end, object_start, object_end = positions
    subject_entity = detokenise(tokens[subject_start : subject_end + 1])
    object_entity = detokenise(tokens[object_start : object_end + 1])
    return Item("relation", number, (detokenise(tokens), subject_entity, object_entity), (label,))


def _read_tacred(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of TACRED: records with ``token``, first and last token of both entities, and ``relation``."""
    types = dict.fromkeys(_POSITIONS, int)
    for number, (name, record) in enumerate(json_list(path)):
        tokens, *positions, relation = _values(path, name, record, token=_Texts, **types, relation=str)
        for first, last in (positions[:2], positions[2:]):
            if not 0 <= first <= last < len(tokens):
                raise malformed(path, name, f"{', '.join(_POSITIONS)}: {positions} do not fit {len(tokens)} tokens")
        _check_label(path, name, relation, card)
        yield FileRow(relation, None, partial(_relation_item, number, tokens, positions, relation))


def _read_entities(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD as processed by LongICLBench: ``sentence`` and ``entities`` (text to type)."""
    for number, (name, record) in enumerate(json_list(path)):
        sentence, entities = _values(path, name, record, sentence=str, entities=dict[str, str])
        for kind in entities.values():
            _check_label(path, name, kind, card)
        pairs = [[text, kind] for text, kind in entities.items()]
        yield FileRow(None, [sentence, pairs], partial(entity_item, number, sentence, pairs))


def _dialogues(path: Path, card: TaskCard) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield the text of each dialogue of DialogRE, and its kept pairs: two entities and their first relation.

    A pair is kept if its first relation is one of the labels.

    Raises:
        DataDamagedError: The file is malformed.
    """
    for name, element in json_list(path):
        if not isinstance(element, list) or len(element) != 2 or not isinstance(element[1], list):
            raise malformed(path, name, "expected a pair [turns, instances], the instances a list of records")
        (turns,) = _values(path, name, {"turns": element[0]}, turns=_Texts)
        pairs = []
        for record in element[1]:
            first_entity, second_entity, relations = _values(path, name, record, x=str, y=str, r=_Texts)
            if not relations:
                raise malformed(path, name, f"the pair {[first_entity, second_entity]} has no relation")
            _check_label(path, name, relations[0], card)
            if relations[0] in card.labels:
                pairs.append((first_entity, second_entity, relations[0]))
        yield "\n".join(turns), pairs


def _read_dialogue_pairs(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the training rows of DialogRE: each is a dialogue with one of its kept pairs."""
    number = 0
    for dialogue, pairs in _dialogues(path, card):
        for pair in pairs:
            relation = pair[2]
            yield FileRow(relation, None, partial(dialogue_item, number, dialogue, [pair]))
            number += 1


def _read_whole_dialogues(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the test rows of DialogRE: each is a dialogue with all of its kept pairs."""
    for number, (dialogue, pairs) in enumerate(_dialogues(path, card)):
        yield FileRow(None, None, partial(dialogue_item, number, dialogue, pairs))


COLUMNS: Mapping[str, Columns] = {
    "banking_csv": Columns(("text", "category"), "names", windows=True, delimiter=","),
    "goemotions_tsv": Columns(("text", "label ids", "comment id"), "indices", others=1, header=False),
    "discovery_tsv": Columns(("sentence1", "sentence2", "label"), "both", quoting=csv.QUOTE_NONE),
}
"""The formats with columns, by name."""
READERS: Mapping[str, Callable[[Path, TaskCard], Iterator[FileRow]]] = {
    **{name: partial(_read_columns, columns) for name, columns in COLUMNS.items()},
    "tacred_json": _read_tacred,
    "entities_json": _read_entities,
    "dialogre_train_json": _read_dialogue_pairs,
    "dialogre_test_json": _read_whole_dialogues,
}
"""Readers by the name of their format."""
