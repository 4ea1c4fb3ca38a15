"""Readers for the published files, one for each format.

A reader yields the rows of a file in file order, which is part of the protocol: it sorts, shuffles, strips and skips
nothing. A :class:`FileRow` has its number, its label if there is one, and a function that makes the item. Items are
made only for selected rows, because detokenising all 68,000 rows of TACRED takes long.

All files are UTF-8 without a byte-order mark. Every row is checked: number of columns or keys, types, labels. A
malformed file raises a :class:`~StaICC.errors.DataDamagedError` whose message starts with ``PATH, line N:``.

The published prompts show the sentences of TACRED as text, by the English rules of the Moses detokeniser in its default
mode. The rules attach punctuation to words. They leave some tokens apart (``did n't``, ``-LRB-``), and treat two
backticks and two apostrophes as different quotation marks, so ``''`` opens a quotation. The published prompts have
these errors, so they are reproduced. LongICLBench uses the Perl program of ``mosestokenizer``. The only known
difference to it: some scripts, such as Devanagari, have vowel signs (Unicode category Mn) that are letters in Perl and
not here, before a word such as ``'s``.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from StaICC.benchmarks.long_icl.prompts import Item, dialogue_item, entity_item
from StaICC.benchmarks.long_icl.task_cards import TaskCard
from StaICC.datasets.json_reading import unique_keys
from StaICC.errors import DataDamagedError, DataMissingError, unknown_name

_ENTITIES = (
    *("&bar;|", "&#124;|", "&lt;<", "&gt;>", "&bra;[", "&ket;]", '&quot;"', "&apos;'", "&#91;[", "&#93;]", "&amp;&"),
)
"""Each with its character at the end; replaced in this order."""

_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc\U00020000-\U0002ffff]"
)
_OPENING = frozenset("([{\u00bf\u00a1")
_CLOSING = frozenset(",.?!:;\\%}])")
_QUOTES = frozenset("'\"\u201e\u201c`")
_CURLY = frozenset("\u201e\u201c")
_TAG = re.compile(r"<.+>")


def _is_opening(word: str) -> bool:
    return all(character in _OPENING or unicodedata.category(character) == "Sc" for character in word)


def _is_letter(character: str) -> bool:
    """Return whether the character is a letter in Perl (``\u00bd`` and ``\u00b2`` are not, unlike in Python)."""
    category = unicodedata.category(character)
    return category.startswith("L") or category in ("Nl", "Mc")


def _is_clitic(word: str, before: str) -> bool:
    """Return whether the word is a clitic, such as the ``'s`` of a genitive."""
    if word[:1] != "'" or not before or not _is_letter(word[1:2] or " "):
        return False
    return _is_letter(before[-1]) or unicodedata.category(before[-1]) == "Nd"


def detokenise(tokens: Iterable[str]) -> str:
    """Join tokens to a line of text.

    Args:
        tokens: The tokens, without blanks.

    Returns:
        The text, without blanks at the ends.

    Example:
        >>> detokenise(["He", "said", '"', "no", '"', "(", "twice", ")", "."])
        'He said "no" (twice).'
    """
    line = " ".join(tokens)
    if not line.strip() or _TAG.fullmatch(line):
        return line
    line = f" {line} ".replace(" @-@ ", "-")
    for entity in _ENTITIES:
        line = line.replace(entity[:-1], entity[-1])

    text: list[str] = []
    gap = " "
    opened: set[str] = set()
    words = line.split(" ")
    for before, word in pairwise(["", *words]):
        if _CJK.match(word):
            joined, gap_after = _CJK.match(before[-1:]) is not None, " "
        elif word and _is_opening(word):
            joined, gap_after = False, ""
        elif (word and _CLOSING.issuperset(word)) or _is_clitic(word, before):
            joined, gap_after = True, " "
        elif word and _QUOTES.issuperset(word):
            kind = '"' if _CURLY.issuperset(word) else word
            closing = kind in opened
            genitive = not closing and word == "'" and before.endswith("s")
            joined, gap_after = closing or genitive, " " if closing or genitive else ""
            if not genitive:
                opened ^= {kind}
        else:
            joined, gap_after = False, " "
        text.append(word if joined else gap + word)
        gap = gap_after
    return re.sub(" +", " ", "".join(text)).removeprefix(" ").removesuffix(" ")


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

    Objects with duplicate keys are refused, because JSON readers drop one of the two silently.

    Raises:
        DataMissingError: The file does not exist.
        DataDamagedError: The file is malformed (see :func:`lines`), or not a JSON list.
    """
    try:
        records = json.loads("".join(lines(path)), object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise malformed(path, error.lineno, f"not JSON: {error.msg} (column {error.colno})") from error
    except (RecursionError, ValueError) as error:  # a key twice, nested too deeply, a number of thousands of digits
        raise malformed(path, 1, f"the list that begins here cannot be read: {error}") from error
    if not isinstance(records, list):
        raise malformed(path, 1, f"expected a JSON list, found {type(records).__name__}")
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


Reader = Callable[[Path, TaskCard], Iterator[FileRow]]


def _cells(path: Path, line: int, row: list[str], names: tuple[str, ...]) -> list[str]:
    """Return the cells of a line after checking their number."""
    if len(row) != len(names):
        raise malformed(path, line, f"expected {len(names)} columns ({', '.join(names)}), found {len(row)}")
    return row


def _known(path: Path, line: int | str, label: str, card: TaskCard) -> str:
    if label not in card.labels and label not in card.other_labels:
        raise malformed(path, line, str(unknown_name(f"{card.title} label", label, card.labels)))
    return label


@dataclass(frozen=True, slots=True)
class _Columns:
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


def _csv_rows(path: Path, columns: _Columns) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a file, each with its first line number."""
    options: Any = {"delimiter": columns.delimiter, "quoting": columns.quoting}
    reader = csv.reader(lines(path, windows=columns.windows), **options)
    while True:
        begin = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise malformed(path, begin, f"not a row of fields: {error}") from error
        if any("\r" in field for field in row):
            raise malformed(path, begin, "a quoted text holds a Windows line end; copy the file without conversion")
        yield begin, row


def _read_columns(columns: _Columns, path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of a file with columns; quoted texts may have line feeds."""
    by_name = {label: place for place, label in enumerate(card.labels)} if columns.labels != "indices" else {}
    known = by_name | ({str(i): i for i in range(len(card.labels))} if columns.labels != "names" else {})
    rows, names, end = _csv_rows(path, columns), columns.names, len(columns.names) - 1 - columns.others
    if columns.header:
        line, row = next(rows)
        if (*row[: len(names)],) != names:
            raise malformed(path, line, f"expected the header {','.join(names)}, found {','.join(row)}")
        names = (*row,)
    for number, (line, row) in enumerate(rows):
        cell = _cells(path, line, row, names)[end]
        parts = cell.split(",") if columns.labels == "indices" else [cell]
        unknown = next((part for part in parts if part not in known), None)
        if unknown is not None:
            if by_name:
                raise malformed(path, line, str(unknown_name(f"{card.title} label", unknown, card.labels)))
            raise malformed(path, line, f"unknown label: {unknown!r:.80} is not a label id, 0 to {len(known) - 1}")
        places, texts = [known[part] for part in parts], row[:end]
        label = card.labels[places[0]]
        form = [*texts, places if columns.labels == "indices" else places[0], *row[end + 1 : len(columns.names)]]
        item = partial(Item, card.kind, number, (*texts,), (label,))
        yield FileRow(label if len(places) == 1 else None, form, item)


def _value(path: Path, line: int | str, record: Any, key: str, kind: type) -> Any:
    """Return a value of a JSON object after checking its type; lists are lists of strings."""
    if not isinstance(record, dict):
        raise malformed(path, line, f"expected a record, {{...}}, found {type(record).__name__}")
    if key not in record:
        raise malformed(path, line, f"the record lacks {key!r}; it has {', '.join(map(repr, record)) or 'no keys'}")
    value = record[key]
    if type(value) is not kind or (kind is list and not set(map(type, record[key])) <= {str}):
        expected = "a list of strings" if kind is list else kind.__name__
        raise malformed(path, line, f"{key!r} must be {expected}, found {type(value).__name__}")
    return value


def _relation_item(number: int, tokens: list[str], spans: list[tuple[int, int]], label: str) -> Item:
    entities = (detokenise(tokens[first : last + 1]) for first, last in spans)
    return Item("relation", number, (detokenise(tokens), *entities), (label,))


def _read_tacred(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of TACRED: records with ``token``, first and last token of both entities, and ``relation``."""
    for number, (line, record) in enumerate(json_list(path)):
        tokens, spans = _value(path, line, record, "token", list), []
        for name in ("subj", "obj"):
            first, last = (_value(path, line, record, f"{name}_{end}", int) for end in ("start", "end"))
            if not 0 <= first <= last < len(tokens):
                raise malformed(
                    path, line, f"'{name}_start' {first} and '{name}_end' {last} do not fit {len(tokens)} tokens"
                )
            spans.append((first, last))
        label = _known(path, line, _value(path, line, record, "relation", str), card)
        yield FileRow(label, None, partial(_relation_item, number, tokens, spans, label))


def _read_entities(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD as processed by LongICLBench: ``sentence`` and ``entities`` (text to type)."""
    for number, (line, record) in enumerate(json_list(path)):
        sentence, entities = _value(path, line, record, "sentence", str), _value(path, line, record, "entities", dict)
        for kind in entities.values():
            if not isinstance(kind, str):
                raise malformed(path, line, f"'entities' must map texts to types, found {kind!r}")
            _known(path, line, kind, card)
        pairs = [[*pair] for pair in entities.items()]
        yield FileRow(None, [sentence, pairs], partial(entity_item, number, sentence, pairs))


def _tagged_item(number: int, tagged: list[list[str]]) -> Item:
    runs = [(kind, [token for token, _ in run]) for kind, run in groupby(tagged, itemgetter(1))]
    entities = {detokenise(tokens): kind for kind, tokens in runs if kind != "O"}
    return entity_item(number, detokenise(token for token, _ in tagged), entities.items())


def _read_tagged_tokens(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD in its own format: token, tab, type (``O`` for none); empty lines between sentences.

    An entity is a run of tokens with the same type. The items differ from those of LongICLBench, whose selection of
    sentences and detokeniser are not published.
    """
    groups = groupby(enumerate(lines(path), 1), lambda numbered: numbered[1] != "\n")
    sentences = (numbered for filled, numbered in groups if filled)
    for number, numbered in enumerate(sentences):
        tagged: list[list[str]] = []
        for line, text in numbered:
            tagged.append(_cells(path, line, text.removesuffix("\n").split("\t"), ("token", "type")))
            if tagged[-1][1] != "O":
                _known(path, line, tagged[-1][1], card)
        yield FileRow(None, None, partial(_tagged_item, number, tagged))


def _dialogues(path: Path, card: TaskCard) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield text and kept pairs of each dialogue; the first relation of a kept pair is one of the labels."""
    for line, element in json_list(path):
        if not isinstance(element, list) or len(element) != 2 or not isinstance(element[1], list):
            raise malformed(path, line, "expected a pair [turns, instances], the instances a list of records")
        turns, kept = _value(path, line, {"turns": element[0]}, "turns", list), []
        for record in element[1]:
            pair = tuple(_value(path, line, record, key, str) for key in ("x", "y"))
            relations = _value(path, line, record, "r", list)
            if not relations:
                raise malformed(path, line, f"the pair {pair} has no relation")
            if _known(path, line, relations[0], card) in card.labels:
                kept.append((*pair, relations[0]))
        yield "\n".join(turns), kept


def _read_pairs(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the training rows of DialogRE: one for each kept pair, dialogue by dialogue."""
    pairs = ((dialogue, pair) for dialogue, kept in _dialogues(path, card) for pair in kept)
    for number, (dialogue, pair) in enumerate(pairs):
        yield FileRow(pair[2], None, partial(dialogue_item, number, dialogue, (pair,)))


def _read_dialogues(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the test rows of DialogRE: one for each dialogue, with its kept pairs."""
    for number, (dialogue, kept) in enumerate(_dialogues(path, card)):
        yield FileRow(None, None, partial(dialogue_item, number, dialogue, kept))


READERS: Mapping[str, Reader] = {
    "banking_csv": partial(_read_columns, _Columns(("text", "category"), "names", windows=True, delimiter=",")),
    "goemotions_tsv": partial(_read_columns, _Columns(("text", "label ids", "comment id"), "indices", 1, header=False)),
    "discovery_tsv": partial(
        _read_columns, _Columns(("sentence1", "sentence2", "label"), "both", quoting=csv.QUOTE_NONE)
    ),
    "tacred_json": _read_tacred,
    "entities_json": _read_entities,
    "entities_tokens": _read_tagged_tokens,
    "dialogre_train_json": _read_pairs,
    "dialogre_test_json": _read_dialogues,
}
"""Readers by the name of their format. Those of files with columns differ in data only."""
