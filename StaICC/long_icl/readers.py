"""Readers of the published files.

A reader yields the rows of a file in file order, which is part of the protocol. It sorts, shuffles, strips and skips
nothing. A :class:`FileRow` has its label if there is one, and a function that makes the item. Items are made only for
selected rows, because detokenising all 68,000 rows of TACRED takes long.

Every row is checked: number of columns or keys, types, labels. A malformed file raises a
:class:`~StaICC.errors.DataDamagedError` whose message starts with ``PATH, line N:``. Files are UTF-8 without a
byte-order mark.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from StaICC.errors import DataDamagedError, DataMissingError, SchemaError, unknown_name
from StaICC.files.json_reading import parse_json, read_value
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.detokeniser import detokenise
from StaICC.long_icl.prompts import Item, dialogue_item, entity_item

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def malformed(path: Path, place: int | str, problem: str) -> DataDamagedError:
    """Return the error for a malformed line or record; the caller raises it.

    Args:
        path: The file.
        place: The number of the line, or the name of the record.
        problem: What is wrong there.

    Example:
        >>> str(malformed(Path("train.csv"), 7, "expected 2 columns, found 3"))
        'train.csv, line 7: expected 2 columns, found 3'
    """
    if isinstance(place, int):
        place = f"line {place}"
    return DataDamagedError(f"{path}, {place}: {problem}")


def lines(path: Path, *, allows_windows_line_ends: bool = False) -> Iterator[str]:
    r"""Yield the lines of a file, each with its line end.

    Args:
        path: The file.
        allows_windows_line_ends: Whether lines may end in CR LF.

    Raises:
        DataMissingError: The file does not exist or cannot be read.
        DataDamagedError: The file is empty, starts with a byte-order mark, is not UTF-8, or has carriage returns that
            are no allowed line ends.
    """
    line_count = 0
    try:
        with open(path, "rb") as file:
            for raw_line in file:
                line_count += 1
                if line_count == 1 and raw_line.startswith(_BYTE_ORDER_MARK):
                    raise malformed(path, 1, "the file starts with a byte-order mark; save it as UTF-8 without one")
                _check_line_end(path, line_count, raw_line, allows_windows_line_ends)
                try:
                    yield raw_line.decode("utf-8")
                except UnicodeDecodeError as error:
                    problem = f"not UTF-8 text ({error.reason} at byte {error.start})"
                    raise malformed(path, line_count, problem) from error
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    if line_count == 0:
        raise malformed(path, 1, "the file is empty")


def _check_line_end(path: Path, number: int, raw_line: bytes, allows_windows_line_ends: bool) -> None:
    """Refuse a line with a carriage return, unless this is part of an allowed Windows line end.

    Args:
        path: The file.
        number: The number of the line.
        raw_line: The line with its line end.
        allows_windows_line_ends: Whether the line may end in CR LF.

    Raises:
        DataDamagedError: The line ends in CR LF, which is not allowed, or has another carriage return.
    """
    if b"\r" not in raw_line:
        return
    has_windows_line_end = raw_line.endswith(b"\r\n")
    has_one_carriage_return = raw_line.count(b"\r") == 1
    if allows_windows_line_ends and has_windows_line_end and has_one_carriage_return:
        return
    if has_windows_line_end:
        problem = "a Windows line end (CR LF)"
    else:
        problem = "a stray carriage return"
    raise malformed(path, number, f"{problem}; copy the published file without conversion")


def json_list(path: Path) -> Iterator[tuple[str, Any]]:
    """Return the elements of a JSON list in a file, each with its name for messages: ``record 1``, ``record 2`` ...

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
    """The row as plain values, of which the digest of the rows is computed; None if the format has no such digest."""
    item: Callable[[], Item]
    """A function that makes the item of the row."""


def _check_label(path: Path, place: int | str, label: str, card: TaskCard) -> None:
    """Refuse a label that the data set does not have.

    Raises:
        DataDamagedError: The label is neither one of the benchmark nor one that the benchmark leaves out.
    """
    is_known = label in card.labels or label in card.other_labels
    if not is_known:
        raise malformed(path, place, str(unknown_name(f"{card.title} label", label, card.labels)))


# -- files with columns


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file with one row per line, and how its cells are separated."""

    names: tuple[str, ...]
    """Names of the columns: those of the texts, then that of the label, then others. A file with a header may have
    further columns."""
    labels: Literal["names", "indices", "both"]
    """What a cell of the label column has. ``names``: a label name. ``indices``: indexes into the labels, one or
    several with commas between them. ``both``: a label name in some rows, an index in others."""
    others: int = 0
    """Number of the columns after the label."""
    header: bool = True
    """Whether the first line has the names of the columns."""
    windows: bool = False
    """Whether lines may end in CR LF."""
    delimiter: str = "\t"
    """The character between two cells."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL
    """Which cells have quotation marks, as for :func:`csv.reader`."""

    @property
    def dialect(self) -> dict[str, Any]:
        """Arguments of :func:`csv.reader` and :func:`csv.writer`."""
        line_end = "\n"
        if self.windows:
            line_end = "\r\n"
        quotation_mark = None
        if self.quoting == csv.QUOTE_MINIMAL:
            quotation_mark = '"'
        return {
            "delimiter": self.delimiter,
            "quoting": self.quoting,
            "lineterminator": line_end,
            "quotechar": quotation_mark,
        }

    @property
    def label_position(self) -> int:
        """The position of the label column."""
        return len(self.names) - 1 - self.others


def _csv_rows(path: Path, columns: Columns) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a file without the header, each with the number of its first line.

    A record has several lines if a quoted cell contains a line feed.

    Raises:
        DataDamagedError: The header is not the expected one, or a record has another number of cells.
    """
    reader = csv.reader(lines(path, allows_windows_line_ends=columns.windows), **columns.dialect)
    column_names = columns.names
    first_line = 1
    try:
        for cells in reader:
            if any("\r" in cell for cell in cells):
                raise malformed(
                    path, first_line, "a quoted text holds a Windows line end; copy the file without conversion"
                )
            is_header = columns.header and first_line == 1
            if is_header:
                column_names = _checked_header(path, cells, columns)
            elif len(cells) != len(column_names):
                expected = f"expected {len(column_names)} columns ({', '.join(column_names)})"
                raise malformed(path, first_line, f"{expected}, found {len(cells)}")
            else:
                yield first_line, cells
            first_line = reader.line_num + 1
    except csv.Error as error:
        raise malformed(path, first_line, f"not a row of fields: {error}") from error


def _checked_header(path: Path, cells: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Return the names of all columns of a file from its header. The file may have columns after the expected ones.

    Raises:
        DataDamagedError: The header does not begin with the expected names.
    """
    first_names = tuple(cells[: len(columns.names)])
    if first_names != columns.names:
        raise malformed(path, 1, f"expected the header {','.join(columns.names)}, found {','.join(cells)}")
    return tuple(cells)


def _read_columns(columns: Columns, path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of a file with columns; quoted texts may have line feeds."""
    index_of_value = _label_indexes(columns, card)
    label_position = columns.label_position
    may_have_several_labels = columns.labels == "indices"
    for number, (line, cells) in enumerate(_csv_rows(path, columns)):
        label_values = [cells[label_position]]
        if may_have_several_labels:
            label_values = cells[label_position].split(",")
        for value in label_values:
            if value not in index_of_value:
                known_values = list(index_of_value) if may_have_several_labels else card.labels
                raise malformed(path, line, str(unknown_name(f"{card.title} label", value, known_values)))

        label_indexes = [index_of_value[value] for value in label_values]
        first_label = card.labels[label_indexes[0]]
        label = None
        if len(label_indexes) == 1:
            label = first_label
        texts = cells[:label_position]
        other_cells = cells[label_position + 1 : len(columns.names)]
        # The published digests have a list of indexes where a row can have several labels, otherwise an index.
        label_in_form = label_indexes if may_have_several_labels else label_indexes[0]
        form = [*texts, label_in_form, *other_cells]
        item = partial(Item, kind=card.kind, row=number, texts=tuple(texts), gold=(first_label,))
        yield FileRow(label=label, form=form, item=item)


def _label_indexes(columns: Columns, card: TaskCard) -> dict[str, int]:
    """Return the label index of each value that a cell of the label column can have (see :attr:`Columns.labels`)."""
    has_names = columns.labels in ("names", "both")
    has_indexes = columns.labels in ("indices", "both")
    index_of_value = {}
    for index, label in enumerate(card.labels):
        if has_names:
            index_of_value[label] = index
        if has_indexes:
            index_of_value[str(index)] = index
    return index_of_value


# -- JSON files

_Texts = tuple[str, ...]


def _values(path: Path, place: int | str, record: Any, **types: Any) -> list[Any]:
    """Return the values of a record, in the order of the named types, after checking them.

    Args:
        path: The file, for messages.
        place: The name of the record, for messages.
        record: The record, which should be a JSON object.
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
"""The keys of a record of TACRED for the positions of the first and the last token of its two entities, the subject and
the object."""


def _relation_item(number: int, tokens: _Texts, positions: Sequence[int], relation: str) -> Item:
    """Return the item of a sentence of TACRED: its text, and the texts of its two entities.

    Args:
        number: The row in the file.
        tokens: The tokens of the sentence.
        positions: The values of :data:`_POSITIONS`.
        relation: The relation between the entities.
    """
    subject_start, subject_end, object_start, object_end = positions
    subject_text = detokenise(tokens[subject_start : subject_end + 1])
    object_text = detokenise(tokens[object_start : object_end + 1])
    texts = (detokenise(tokens), subject_text, object_text)
    return Item(kind="relation", row=number, texts=texts, gold=(relation,))


def _read_tacred(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of TACRED: records with ``token``, the four positions (:data:`_POSITIONS`), and ``relation``."""
    position_types = dict.fromkeys(_POSITIONS, int)
    for number, (name, record) in enumerate(json_list(path)):
        tokens, *positions, relation = _values(path, name, record, token=_Texts, **position_types, relation=str)
        subject_start, subject_end, object_start, object_end = positions
        subject_fits = 0 <= subject_start <= subject_end < len(tokens)
        object_fits = 0 <= object_start <= object_end < len(tokens)
        if not subject_fits or not object_fits:
            raise malformed(path, name, f"{', '.join(_POSITIONS)}: {positions} do not fit {len(tokens)} tokens")
        _check_label(path, name, relation, card)
        item = partial(_relation_item, number, tokens, positions, relation)
        yield FileRow(label=relation, form=None, item=item)


def _read_entities(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD as processed by LongICLBench.

    A record has a ``sentence``, and ``entities``: an object with the type of each entity by its text.
    """
    for number, (name, record) in enumerate(json_list(path)):
        sentence, type_of_entity = _values(path, name, record, sentence=str, entities=dict[str, str])
        for entity_type in type_of_entity.values():
            _check_label(path, name, entity_type, card)
        entities = [[text, entity_type] for text, entity_type in type_of_entity.items()]
        item = partial(entity_item, number, sentence, entities)
        yield FileRow(label=None, form=[sentence, entities], item=item)


class _EntityPair(NamedTuple):
    """Two entities of a dialogue, and their relation."""

    first: str
    second: str
    relation: str


@dataclass(frozen=True, slots=True)
class _Dialogue:
    """A record of DialogRE."""

    text: str
    """The turns, one to a line."""
    pairs: list[_EntityPair]
    """The pairs of entities whose first relation is one of the labels. LongICLBench leaves out all others."""


def _dialogues(path: Path, card: TaskCard) -> Iterator[_Dialogue]:
    """Yield the dialogues of DialogRE.

    Raises:
        DataDamagedError: The file is malformed.
    """
    for name, element in json_list(path):
        is_pair = isinstance(element, list) and len(element) == 2
        if not is_pair or not isinstance(element[1], list):
            raise malformed(path, name, "expected a pair [turns, instances], the instances a list of records")
        (turns,) = _values(path, name, {"turns": element[0]}, turns=_Texts)
        pairs = []
        for record in element[1]:
            first_entity, second_entity, relations = _values(path, name, record, x=str, y=str, r=_Texts)
            if not relations:
                raise malformed(path, name, f"the pair {[first_entity, second_entity]} has no relation")
            first_relation = relations[0]
            _check_label(path, name, first_relation, card)
            if first_relation in card.labels:
                pairs.append(_EntityPair(first_entity, second_entity, first_relation))
        yield _Dialogue(text="\n".join(turns), pairs=pairs)


def _read_dialogue_pairs(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the training rows of DialogRE: for each pair of entities, its dialogue with this pair only."""
    number = 0
    for dialogue in _dialogues(path, card):
        for pair in dialogue.pairs:
            item = partial(dialogue_item, number, dialogue.text, [pair])
            yield FileRow(label=pair.relation, form=None, item=item)
            number += 1


def _read_whole_dialogues(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the test rows of DialogRE: each is a dialogue with all of its pairs."""
    for number, dialogue in enumerate(_dialogues(path, card)):
        item = partial(dialogue_item, number, dialogue.text, dialogue.pairs)
        yield FileRow(label=None, form=None, item=item)


COLUMNS: Mapping[str, Columns] = {
    "banking_csv": Columns(("text", "category"), "names", windows=True, delimiter=","),
    "goemotions_tsv": Columns(("text", "label ids", "comment id"), "indices", others=1, header=False),
    "discovery_tsv": Columns(("sentence1", "sentence2", "label"), "both", quoting=csv.QUOTE_NONE),
}
"""The formats with columns, by name."""
READERS: Mapping[str, Callable[[Path, TaskCard], Iterator[FileRow]]] = {
    "banking_csv": partial(_read_columns, COLUMNS["banking_csv"]),
    "goemotions_tsv": partial(_read_columns, COLUMNS["goemotions_tsv"]),
    "discovery_tsv": partial(_read_columns, COLUMNS["discovery_tsv"]),
    "tacred_json": _read_tacred,
    "entities_json": _read_entities,
    "dialogre_train_json": _read_dialogue_pairs,
    "dialogre_test_json": _read_whole_dialogues,
}
"""Readers by the name of their format."""
