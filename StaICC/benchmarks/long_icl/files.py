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
import functools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from StaICC.benchmarks.long_icl.prompts import (
    Item,
    dialogue_item,
    entity_item,
    pair_item,
    relation_item,
    text_item,
)
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


_BOM = "\ufeff"


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
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise malformed(path, number, f"not UTF-8 text ({error.reason} at byte {error.start})") from error
                if number == 1 and line.startswith(_BOM):
                    raise malformed(
                        path, 1, "the file starts with a byte-order mark; save it as UTF-8 without one, or get it again"
                    )
                if "\r" in line and not (windows and line.count("\r") == 1 and line.endswith("\r\n")):
                    what = "a Windows line end (CR LF)" if line.endswith("\r\n") else "a stray carriage return"
                    raise malformed(
                        path, number, f"{what}, which the published file does not have; copy it without conversion"
                    )
                yield line
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
    for number, record in enumerate(records, 1):
        yield f"record {number}", record


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


def _columns(path: Path, line: int, row: list[str], names: tuple[str, ...]) -> None:
    if len(row) != len(names):
        raise malformed(path, line, f"expected {len(names)} columns ({', '.join(names)}), found {len(row)}")


def _known(path: Path, line: int | str, label: str, card: TaskCard) -> str:
    if label not in card.labels and label not in card.other_labels:
        raise malformed(path, line, str(unknown_name(f"{card.title} label", label, card.labels)))
    return label


def _csv_rows(path: Path, delimiter: str, *, windows: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a file with quoted fields, each with its first line number."""
    reader = csv.reader(lines(path, windows=windows), delimiter=delimiter)
    while True:
        begin = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise malformed(path, begin, f"not a row of quoted fields: {error}") from error
        if any("\r" in field for field in row):
            raise malformed(path, begin, "a quoted text holds a Windows line end; copy the file without conversion")
        yield begin, row


def read_banking(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of BANKING77: CSV with the header ``text,category``; quoted texts may have line feeds."""
    names = ("text", "category")
    places = {label: i for i, label in enumerate(card.labels)}
    number = -1
    for number, (line, row) in enumerate(_csv_rows(path, ",", windows=True), -1):
        _columns(path, line, row, names)
        if number < 0:
            if tuple(row) != names:
                raise malformed(path, line, f"expected the header {','.join(names)}, found {','.join(row)}")
            continue
        text, label = row
        _known(path, line, label, card)
        yield FileRow(label, [text, places[label]], functools.partial(text_item, number, text, label))


def read_goemotions(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of GoEmotions: tab-separated text, comma-separated label ids and comment id, without header."""
    names = ("text", "label ids", "comment id")
    known = {str(i): i for i in range(len(card.labels))}
    for number, (line, row) in enumerate(_csv_rows(path, "\t", windows=False)):
        _columns(path, line, row, names)
        text, ids, comment = row
        places = []
        for part in ids.split(","):
            if part not in known:
                raise malformed(
                    path, line, f"unknown label: {part!r} is not a label id, 0 to {len(card.labels) - 1} (in {ids!r})"
                )
            places.append(known[part])
        label = card.labels[places[0]]
        make = functools.partial(text_item, number, text, label)
        yield FileRow(label if len(places) == 1 else None, [text, places, comment], make)


def read_discovery(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Discovery: tab-separated with a header, unquoted; a label is a marker or its index."""
    names = ("sentence1", "sentence2", "label")
    places = {label: i for i, label in enumerate(card.labels)}
    places.update({str(i): i for i in range(len(card.labels))})
    header: tuple[str, ...] = ()
    for line, text in enumerate(lines(path), 1):
        row = text.removesuffix("\n").split("\t")
        if line == 1:
            header = tuple(row)
            if header[:3] != names:
                raise malformed(path, line, f"expected a header that begins {names}, found {header}")
            continue
        _columns(path, line, row, header)
        sentence1, sentence2, label = row[:3]
        if label not in places:
            _known(path, line, label, card)
        number, label = line - 2, card.labels[places[label]]
        make = functools.partial(pair_item, number, sentence1, sentence2, label)
        yield FileRow(label, [sentence1, sentence2, places[label]], make)


def _field(path: Path, line: int | str, record: Any, key: str, kind: type) -> Any:
    """Return a value of a JSON object after checking that it exists and has the right type."""
    if not isinstance(record, dict):
        raise malformed(path, line, f"expected a record, {{...}}, found {type(record).__name__}")
    if key not in record:
        raise malformed(path, line, f"the record lacks {key!r}; it has {', '.join(map(repr, record)) or 'no keys'}")
    if not isinstance(record[key], kind) or isinstance(record[key], bool):
        raise malformed(path, line, f"{key!r} must be {kind.__name__}, found {type(record[key]).__name__}")
    return record[key]


def _texts(path: Path, line: int | str, values: Any, key: str) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise malformed(path, line, f"{key!r} must be a list of strings")
    return values


def _relation_item(number: int, tokens: list[str], spans: tuple[tuple[int, int], ...], label: str) -> Item:
    subject, object_ = (detokenise(tokens[first : last + 1]) for first, last in spans)
    return relation_item(number, detokenise(tokens), subject, object_, label)


def read_tacred(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of TACRED: records with ``token``, first and last token of both entities, and ``relation``."""
    for number, (line, record) in enumerate(json_list(path)):
        tokens = _texts(path, line, _field(path, line, record, "token", list), "token")
        spans = []
        for name in ("subj", "obj"):
            first, last = (_field(path, line, record, f"{name}_{end}", int) for end in ("start", "end"))
            if not 0 <= first <= last < len(tokens):
                raise malformed(
                    path, line, f"'{name}_start' {first} and '{name}_end' {last} do not fit {len(tokens)} tokens"
                )
            spans.append((first, last))
        label = _known(path, line, _field(path, line, record, "relation", str), card)
        make = functools.partial(_relation_item, number, tokens, tuple(spans), label)
        yield FileRow(label, None, make)


def read_entities(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD as processed by LongICLBench: ``sentence`` and ``entities`` (text to type)."""
    for number, (line, record) in enumerate(json_list(path)):
        sentence = _field(path, line, record, "sentence", str)
        pairs = tuple(_field(path, line, record, "entities", dict).items())
        for _, kind in pairs:
            if not isinstance(kind, str):
                raise malformed(path, line, f"'entities' must map texts to types, found {kind!r}")
            _known(path, line, kind, card)
        make = functools.partial(entity_item, number, sentence, pairs)
        yield FileRow(None, [sentence, [list(pair) for pair in pairs]], make)


def _entity_item(number: int, tokens: list[str], kinds: list[str]) -> Item:
    entities: dict[str, str] = {}
    first = 0
    for last in range(1, len(tokens) + 1):
        if last == len(tokens) or kinds[last] != kinds[first]:
            if kinds[first] != "O":
                entities[detokenise(tokens[first:last])] = kinds[first]
            first = last
    return entity_item(number, detokenise(tokens), entities.items())


def read_entity_tokens(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the rows of Few-NERD in its own format: token, tab, type (``O`` for none); empty lines between sentences.

    An entity is a run of tokens with the same type. The items differ from those of LongICLBench, whose selection of
    sentences and detokeniser are not published.
    """
    number = 0
    tokens: list[str] = []
    kinds: list[str] = []
    for line, text in enumerate(lines(path), 1):
        text = text.removesuffix("\n")
        if text:
            parts = text.split("\t")
            _columns(path, line, parts, ("token", "type"))
            if parts[1] != "O":
                _known(path, line, parts[1], card)
            tokens.append(parts[0])
            kinds.append(parts[1])
        elif tokens:
            yield FileRow(None, None, functools.partial(_entity_item, number, tokens, kinds))
            number, tokens, kinds = number + 1, [], []
    if tokens:
        yield FileRow(None, None, functools.partial(_entity_item, number, tokens, kinds))


def _dialogues(path: Path, card: TaskCard) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield text and kept pairs of each dialogue; the first relation of a kept pair is one of the labels."""
    for line, element in json_list(path):
        if not isinstance(element, list) or len(element) != 2:
            raise malformed(path, line, "expected a pair [turns, instances]")
        turns = _texts(path, line, element[0], "turns")
        if not isinstance(element[1], list):
            raise malformed(path, line, "the instances must be a list of records")
        kept = []
        for record in element[1]:
            subject, object_ = (_field(path, line, record, key, str) for key in ("x", "y"))
            relations = _texts(path, line, _field(path, line, record, "r", list), "r")
            if not relations:
                raise malformed(path, line, f"the pair {(subject, object_)} has no relation")
            if _known(path, line, relations[0], card) in card.labels:
                kept.append((subject, object_, relations[0]))
        yield "\n".join(turns), kept


def read_dialogre_train(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the training rows of DialogRE: one for each kept pair, dialogue by dialogue."""
    number = 0
    for dialogue, kept in _dialogues(path, card):
        for pair in kept:
            yield FileRow(pair[2], None, functools.partial(dialogue_item, number, dialogue, (pair,)))
            number += 1


def read_dialogre_test(path: Path, card: TaskCard) -> Iterator[FileRow]:
    """Yield the test rows of DialogRE: one for each dialogue, with its kept pairs."""
    for number, (dialogue, kept) in enumerate(_dialogues(path, card)):
        yield FileRow(None, None, functools.partial(dialogue_item, number, dialogue, tuple(kept)))


READERS: Mapping[str, Reader] = {
    "banking_csv": read_banking,
    "goemotions_tsv": read_goemotions,
    "discovery_tsv": read_discovery,
    "tacred_json": read_tacred,
    "entities_json": read_entities,
    "entities_tokens": read_entity_tokens,
    "dialogre_train_json": read_dialogre_train,
    "dialogre_test_json": read_dialogre_test,
}
"""Readers by the name of their format."""
