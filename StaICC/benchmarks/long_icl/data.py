"""Loads and installs data sets: readers of the published files, data sets of the user's own, the hub.

A reader yields the rows of a file in file order, which is part of the protocol: it sorts, shuffles, strips and skips
nothing. A :class:`FileRow` has its label if there is one, and a function that makes the item. Items are made only for
selected rows, because detokenising all 68,000 rows of TACRED takes long. Every row is checked: number of columns or
keys, types, labels. A malformed file raises a :class:`~StaICC.errors.DataDamagedError` whose message starts with
``PATH, line N:``. Files are UTF-8 without a byte-order mark.

:func:`load` reads one published data set, :func:`load_available` all available ones; missing ones are reported with
instructions. If the published SHA-256 is known, the file must have it, or the rows as read must have the published
digest (SHA-256 of the list of rows as ASCII JSON without blanks), which does not depend on the serialisation. If only
the number of rows is known (TACRED, Discovery), a different number is reported by a warning.

The published prompts show the sentences of TACRED as text, by the English rules of the Moses detokeniser in its default
mode. The rules attach punctuation to words. They leave some tokens apart (``did n't``, ``-LRB-``), and treat two
backticks and two apostrophes as different quotation marks, so ``''`` opens a quotation. The published prompts have
these errors, so they are reproduced. LongICLBench uses the Perl program of ``mosestokenizer``. The only known
difference to it: some scripts, such as Devanagari, have vowel signs (Unicode category Mn) that are letters in Perl and
not here, before a word such as ``'s``.

A data set of the user's own has 20 or more labels. Its demonstration set and its test set are those of its split; with
the default split, labels with few demonstrations get further rows that are not test rows. From both, rows are selected
by the published rule of turns. The prompt template is that of the data set; parts that have the library's default (no
instruction, a blank after the text) are written as in the published prompts: an instruction, a line break after the
text.

Data sets are installed in the data folder from a folder of the user, or from the Hugging Face hub (extra ``hub``).

From a folder, nothing is downloaded: the user provides the files, under the licences of the cards. They are checked as
for a run, then copied atomically.

The hub has BANKING77, GoEmotions and Discovery. TACRED needs the user's own LDC copy, the licence of DialogRE must be
accepted at its source, and only the repository of LongICLBench has its selection of Few-NERD sentences. The hub's own
Parquet conversion (revision ``refs/convert/parquet``) is read, so no script of a repository runs. Each split is written
once, in the published file format, and its SHA-256 is compared with the published one. The hub guarantees neither order
nor wording; other rows are refused. For Discovery no digest is known; its number of rows is compared.

The licence notice of a data set is shown before its files are opened. A missing or wrong data set does not prevent the
installation of the others.
"""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

from StaICC.benchmarks.long_icl import protocol
from StaICC.benchmarks.long_icl.protocol import ROUNDS, FileSpec, Item, SelectionRule, TaskCard, card, cards
from StaICC.datasets import Dataset, Template
from StaICC.datasets.pack import OFFLINE, TableStatus, data_home
from StaICC.datasets.storage import check_outputs, file_digest, parse_json, passing_folder, read_value, write_output
from StaICC.errors import (
    ArgumentError,
    DataDamagedError,
    DataError,
    DataMissingError,
    SchemaError,
    unknown_name,
    validate_integer,
)
from StaICC.optional import require
from StaICC.prompting import SubsetView, TripletSplit, split_dataset
from StaICC.prompting.sampling import turns_of
from StaICC.safe_text import logger, visible

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
        joined, gap_after = False, " "
        if _CJK.match(word):
            joined = _CJK.match(before[-1:]) is not None
        elif word and all(character in _OPENING or unicodedata.category(character) == "Sc" for character in word):
            gap_after = ""
        elif (word and _CLOSING.issuperset(word)) or _is_clitic(word, before):
            joined = True
        elif word and _QUOTES.issuperset(word):
            kind = '"' if _CURLY.issuperset(word) else word
            closing = kind in opened
            joined = closing or (word == "'" and before.endswith("s"))  # a genitive neither opens nor closes
            gap_after = " " * joined
            opened ^= {kind} if closing or not joined else set()
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
        end, mark = "\r\n" if self.windows else "\n", '"' if self.quoting == csv.QUOTE_MINIMAL else None
        return {"delimiter": self.delimiter, "quoting": self.quoting, "lineterminator": end, "quotechar": mark}


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
        yield FileRow(None, [sentence, pairs], partial(protocol.entity_item, number, sentence, pairs))


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
            item = partial(protocol.dialogue_item, next(numbers), "\n".join(turns), pairs)
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


_log = logger(__name__)
Announce = Callable[[str], object]
"""Called with the licence notice of a data set before its files are opened."""

MOST_TURNS = 1000
"""Rows of a label that are kept in memory; the published rules select at most 870, and experiments may select more."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was read, and whether it is the published one."""

    path: Path
    spec: FileSpec
    sha256: str
    verified: bool
    """The digest of the file or of its rows is the published one."""

    @property
    def identity(self) -> str:
        """A digest of the rows: of the published rows if verified, else of the file."""
        if self.verified:
            return self.spec.rows_sha256 or self.spec.sha256[0]
        return self.sha256


@dataclass(frozen=True, slots=True)
class Skipped:
    """A requested data set without files."""

    dataset: str
    reason: str
    instructions: str

    def __str__(self) -> str:
        return visible(f"{self.reason}. {self.instructions}")


@dataclass(frozen=True, slots=True)
class LongICLData:
    """The rows of a data set that demonstrations and test items can use, in file order."""

    card: TaskCard
    train: tuple[FileRow, ...]
    test: tuple[FileRow, ...]
    train_file: LoadedFile
    test_file: LoadedFile
    dataset: Dataset | None = None
    """The user's own data set that the rows come from; None for the published ones."""

    @property
    def verified(self) -> bool:
        """Whether both files are the published ones."""
        return self.train_file.verified and self.test_file.verified

    def demonstration_rows(self, number: int, *, strict: bool = False) -> list[Item]:
        """Return the selected demonstrations of a round (DialogRE: one item per pair, before merging).

        Args:
            number: The round, 1 to 5.
            strict: See :mod:`~StaICC.benchmarks.long_icl.protocol`.

        Raises:
            ArgumentError: The round is not 1 to 5, the task has no rounds, or a label of the user's own data set has
                too few rows.
        """
        number, rule = validate_integer("round", number, 1, ROUNDS), self.card.demonstrations
        if not rule.expected:
            raise ArgumentError(f"{self.card.title} has no rounds. Use experiment='helmet' (--experiment helmet)")
        self.check_own_rows(number)
        if rule.rule == "covering":
            places = [*chain.from_iterable(self.turns(number))]
        else:
            places = protocol.selected(rule.rule, [row.label for row in self.train], number, strict=strict)
        return [self.train[place].item() for place in places]

    def turns(self, most: int | None = None) -> list[list[int]]:
        """Return the training rows in the published order; each turn shows every label once that has rows left."""
        if self.card.demonstrations.rule == "covering":
            return protocol.covering(map(_labels, self.train), self.card.labels, most)
        return turns_of(row.label for row in self.train)[:most]

    def check_own_rows(self, number: int) -> None:
        """Refuse a data set of the user's own if a label has fewer demonstrations than ``number``."""
        counts = Counter(row.label for row in self.train)
        few = sorted((label for label in self.card.labels if counts[label] < number), key=counts.__getitem__)
        if few and self.dataset is not None:
            got = f"{len(few)} of {len(self.card.labels)} labels have fewer than {number} demonstrations"
            more = "add rows of these labels" if self.dataset.card.split.stratified else "leave out split="
            such = f"such as {few[0]!r} with {counts[few[0]]}. Choose lower rounds, or {more}"
            raise ArgumentError(f"{self.card.title}: {got}, {such}")

    def test_items(self, test_number: int | None = 500, *, strict: bool = False) -> list[Item]:
        """Return the test items, the same for all rounds.

        Args:
            test_number: Maximum number (DialogRE: of pairs, not dialogues); None for all that the rule selects.
            strict: See :mod:`~StaICC.benchmarks.long_icl.protocol`.

        Raises:
            ArgumentError: ``test_number`` is not a whole number of 1 or more, or nothing is selected.
        """
        if test_number is not None:
            test_number = validate_integer("test_number", test_number, 1)
        rule, size = self.card.test.rule, self.card.test.size or 0
        if rule == "pairs":
            every = [row.item() for row in self.test]
            chosen = [
                replace(every[place], gold=every[place].gold[:count], arguments=every[place].arguments[:count])
                for place, count in protocol.by_pairs([len(item.gold) for item in every], test_number)
            ]
        else:
            labels, places = [row.label for row in self.test], [*range(len(self.test))]
            if rule == "balanced":
                places = protocol.by_balance(labels, test_number)
            elif rule != "first":
                places = protocol.selected(rule, labels, size, strict=strict)
            chosen = [self.test[place].item() for place in places[:test_number]]
        if not chosen:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return chosen


def _labels(row: FileRow) -> tuple[str, ...]:
    """Return all labels of a training row (a sentence with entities has several)."""
    return (row.item().gold if row.item().kind == "entities" else ()) if row.label is None else (row.label,)


def _load_file(path: Path, card: TaskCard, split: str, verify: bool) -> tuple[tuple[FileRow, ...], LoadedFile]:
    """Read a file, and keep the rows that the rule can select, so that the others need no memory.

    Labels that the benchmark leaves out are never selected; with turns, no label has more than :data:`MOST_TURNS` rows.
    """
    spec, rule = card.files[split], card.demonstrations if split == "train" else card.test
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    known = sha256 in spec.sha256
    digest, number, seen, rows = hashlib.sha256(b"["), 0, Counter[str | None](), []
    for number, row in enumerate(READERS[spec.format](path, card), 1):
        if spec.rows_sha256 is not None and not known:
            digest.update(b"," * (number > 1) + json.dumps(row.form, separators=(",", ":")).encode())
        seen[row.label] += 1
        if row.label not in card.other_labels and (
            rule.rule != "turns" or (row.label is not None and seen[row.label] <= MOST_TURNS)
        ):
            rows.append(row)
    digest.update(b"]")
    if not rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")
    file = LoadedFile(path, spec, sha256, known or digest.hexdigest() == spec.rows_sha256)
    if verify and spec.sha256 and not file.verified:
        raise DataDamagedError(
            f"{path}: not the published file of {card.title}: SHA-256 {sha256} ({number} rows), expected "
            f"{' or '.join(spec.sha256)} ({spec.rows} rows). {card.obtain} "
            "To use it as it is (the results will not be comparable), pass verify=False"
        )
    if verify and not file.verified and number != spec.rows:
        text = "%s: %s has %d rows, the published file %s; the results will not be comparable"
        _log.warning(text, card.title, path, number, spec.rows)
    return tuple(rows), file


def find(dataset: str, data_dir: str | Path) -> dict[str, Path]:
    """Return the path of each split of a data set that a folder has.

    Raises:
        UnknownNameError: The data set is unknown.
    """
    files = card(dataset).files.items()
    paths = [(split, Path(data_dir) / name) for split, spec in files for name in reversed(spec.names)]
    return {split: path for split, path in paths if path.is_file()}


def _missing(own: TaskCard, data_dir: str | Path) -> Skipped | None:
    """Return what a folder lacks of a data set; ``None`` if it has all files."""
    paths = find(own.name, data_dir)
    names = [spec.names[0] for split, spec in own.files.items() if split not in paths]
    return Skipped(own.name, f"{' and '.join(names)} not found in {data_dir}", own.instructions()) if names else None


def show_notice(notice: str) -> None:
    """Log a licence notice; the default of ``announce``.

    It is a warning, because Python shows warnings without any logging setup.
    """
    _log.warning("%s", notice)


_Choice = TypeVar("_Choice", str, str | Dataset)


def wanted(datasets: Iterable[_Choice] | _Choice | None) -> list[_Choice]:
    """Return the chosen data sets in order; the names of all six for None.

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The list is empty or has duplicates.
    """
    given: Any = cards() if datasets is None else datasets
    chosen: list[Any] = [given] if isinstance(given, (str, Dataset)) else list(given)
    names = [dataset.card.name if isinstance(dataset, Dataset) else card(dataset).name for dataset in chosen]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"datasets must have at least one data set, and each data set once, not {names!r}")
    return chosen


def load(dataset: str, data_dir: str | Path, *, verify: bool = True, announce: Announce = show_notice) -> LongICLData:
    """Load a data set.

    Args:
        dataset: Such as ``"banking77"``.
        data_dir: Folder with the files, under the names of the card.
        verify: Refuse files whose digest is not the published one.
        announce: Called with the licence notice before a file is opened; by default, the notice is logged.

    Raises:
        UnknownNameError: The data set is unknown.
        DataMissingError: A file is missing; the message says how to get it.
        DataDamagedError: A file is malformed (the message names file and line), or not the published one.
    """
    own = card(dataset)
    announce(own.notice())
    if (missing := _missing(own, data_dir)) is not None:
        raise DataMissingError(f"{own.title}: {missing}")
    paths = find(dataset, data_dir)
    train, train_file = _load_file(paths["train"], own, "train", verify)
    if "test" in own.files:
        test, test_file = _load_file(paths["test"], own, "test", verify)
    else:
        if len(train) < 2:
            raise DataDamagedError(f"{train_file.path}: got 1 row, expected 2 or more: a tenth of them are test items")
        order, test_file = protocol.permutation(len(train)), train_file
        divided, cut = [train[place] for place in order], -(-len(order) // 10)
        test, train = tuple(divided[:cut]), tuple(divided[cut:])
    return LongICLData(own, train, test, train_file, test_file)


def load_available(
    data_dir: str | Path,
    datasets: Iterable[str | Dataset] | Dataset | None = None,
    *,
    verify: bool = True,
    announce: Announce = show_notice,
) -> tuple[tuple[LongICLData, ...], tuple[Skipped, ...]]:
    """Load the available data sets, and list the missing ones.

    Args:
        data_dir: Folder with the files.
        datasets: Names, and data sets of the user's own; None for all six published ones.
        verify: See :func:`load`.
        announce: See :func:`load`.

    Returns:
        The data sets, in the requested order, and a record for each missing one (also logged as a warning).

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The list is empty or has duplicates, or a data set of the user's own cannot be used.
        DataDamagedError: A file is damaged, or not the published one.
    """
    loaded, skipped = [], []
    for dataset in wanted(datasets):
        if isinstance(dataset, Dataset):
            loaded.append(load_own(dataset))
        elif (missing := _missing(card(dataset), data_dir)) is None:
            loaded.append(load(dataset, data_dir, verify=verify, announce=announce))
        else:
            skipped.append(missing)
            _log.warning("%s is skipped: %s", card(dataset).title, missing)
    return tuple(loaded), tuple(skipped)


LEAST_LABELS = 20
"""Least number of labels of a LongICL task."""


def load_own(dataset: Dataset) -> LongICLData:
    """Return the rows of a data set as LongICL uses them.

    Args:
        dataset: The data set, such as ``Dataset.from_file("tickets.csv", "text", "label")``.

    Raises:
        ArgumentError: It has too few labels, a label without demonstrations, labels that responses cannot distinguish,
            the name of a published data set, or rows in both the demonstration set and the test set.
    """
    card, split = dataset.card, split_dataset(dataset)
    labels, where, test = card.label_space, f"{card.name} as a task of LongICL", split.test
    shown = _reserved(dataset, split) if card.split.stratified else split.demonstration
    if card.name.casefold() in cards(None):
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    if len(labels) < LEAST_LABELS:
        expected = f"expected {LEAST_LABELS} or more"
        raise ArgumentError(f"{where}: got {len(labels)} labels, {expected}. Use Normal (run normal) instead")
    template, answers = _template(card.template, labels, where), _answers(card.template, labels, where)
    known = {shown.texts(place): shown.indexes[place] for place in range(len(shown))}
    twice = [place for place in range(len(test)) if test.texts(place) in known]
    if twice:
        texts, row = test.texts(twice[0]), test.indexes[twice[0]]
        such = f"such as row {row}, which repeats row {known[texts]} (from 0): {' '.join(texts)!r:.60}"
        got = f"{len(twice)} of {len(test)} test rows have the text of a demonstration"
        raise ArgumentError(f"{where}: {got}, {such}. Remove duplicate rows")
    task = TaskCard(
        **{name: getattr(card, name) for name in ("name", "title", "task", "source", "licence", "citation")},
        kind="text",
        offensive=card.offensive,
        labels=labels,
        demonstrations=SelectionRule("turns", tuple(len(labels) * number for number in range(1, ROUNDS + 1))),
        test=SelectionRule("turns", size=max(Counter(map(test.label, range(len(test)))).values())),
        template=template,
        answers=answers,
        scoring=protocol.ScoringRule("accuracy"),
    )
    file = LoadedFile(Path(card.name), FileSpec("own data"), dataset.table.digest, False)
    data = LongICLData(task, _rows(shown, card.template), _rows(test, card.template), file, file, dataset)
    data.check_own_rows(1)
    return data


def _reserved(dataset: Dataset, split: TripletSplit) -> SubsetView:
    """Return the demonstration set; labels with fewer demonstrations than rounds get rows that are not test rows.

    These rows come last, so the rounds that the demonstration set could fill without them are unchanged.
    """
    shown, test = split.demonstration, split.test
    tested = {test.texts(place) for place in range(len(test))}
    counts = Counter(map(shown.label, range(len(shown))))
    taken, more = {*shown.indexes, *test.indexes}, []
    for number, row in enumerate(dataset.table):
        if counts[row.label] < ROUNDS and number not in taken and row.texts not in tested:
            counts[row.label] += 1
            more.append(number)
    return SubsetView(shown.name, dataset.table, [*shown.indexes, *more], dataset.card.label_space)


def _rows(part: SubsetView, template: Template) -> tuple[FileRow, ...]:
    # Parsers search for a text as the prompt has it, because it may be one letter or word.
    prefixes, affixes, rows = template.input_text_prefixes, _affixes(template), []
    for place, number in enumerate(part.indexes):
        searched = "".join(chain.from_iterable(zip(prefixes, part.texts(place), affixes, strict=True)))
        text = searched.removeprefix(prefixes[0]).removesuffix(affixes[-1])
        label = part.get_label(place)
        rows.append(FileRow(label, None, functools.partial(Item, "text", number, (text,), (label,), (), searched)))
    return tuple(rows)


def _affixes(template: Template) -> list[str]:
    return ["\n" if affix == " " else affix for affix in template.input_text_affixes]


def _template(template: Template, labels: Sequence[str], where: str) -> protocol.PromptTemplate:
    """Return the strings of the prompts (see the module)."""
    if template.query_prefix:
        raise ArgumentError(f"{where}: got the query prefix {template.query_prefix!r:.40}, expected a template without")
    head, examples = template.instruction, ""
    if not head:
        texts = " and the ".join(prefix.strip(" \n:") or "text" for prefix in template.input_text_prefixes)
        label = template.label_prefix.strip(" \n:") or "label"
        head = f"Given the {texts}, please predict the {label}. The answer must come from the demonstration examples "
        head, examples = head + "with the exact format.", " The examples are as follows: \n"
    fixed = (template.input_text_prefixes[0], _affixes(template)[-1] + template.label_prefix, template.label_affix)
    before, after, affix = (text.replace("{", "{{").replace("}", "}}") for text in fixed)
    choose = f"{head}{'' if head[-1].isspace() else ' '}You can only choose from these labels: "
    after_labels = f".{examples}" if examples else ".\n"
    return protocol.PromptTemplate(
        head + examples, (choose, after_labels), f"{before}{{text}}{after}", f"{{label}}{affix}"
    )


def _answers(template: Template, labels: Sequence[str], where: str) -> protocol.AnswerFormat:
    """Return how responses are parsed, and refuse labels that the parsers cannot find."""
    cue, marker = template.label_prefix.strip(), template.input_text_prefixes[0].strip()
    answers = protocol.AnswerFormat(cue, marker or None, lower=True, delete="")
    spelled: dict[str, str] = {}
    for label in labels:
        part = next((text for text in ("\n", cue, marker) if text and text.casefold() in label.casefold()), None)
        if part is not None:
            remedy = "Name the labels with labels={...}, or choose another prefix with template=Template(...)"
            raise ArgumentError(f"{where}: the label {label!r} contains {part!r}, which ends a response. {remedy}")
        other = spelled.setdefault(answers.normal(label).casefold(), label)
        if other != label:
            got = f"the labels {other!r} and {label!r} differ only in case or blanks"
            raise ArgumentError(f"{where}: {got}. Correct one of them")
    return answers


FOLDER = "long_icl"


@dataclass(frozen=True, slots=True)
class Installed:
    """The outcome of an installation."""

    folder: Path
    datasets: tuple[str, ...]
    """Installed now or before."""
    skipped: tuple[Skipped, ...]
    """Missing or wrong data sets, with reasons."""


def default_folder(home: str | Path | None = None) -> Path:
    """Return the default data folder.

    Args:
        home: The library's data home; None for :func:`StaICC.datasets.pack.data_home`.

    Raises:
        DataMissingError: The home folder is unknown.
    """
    return (data_home() if home is None else Path(home)) / FOLDER


def status(home: str | Path | None = None, *, verify: bool = False) -> list[TableStatus]:
    """Return which data sets are installed.

    Args:
        home: The library's data home (see :func:`default_folder`).
        verify: Read the files and compare them with the published ones. A data set whose published digests are not
            known stays ``installed``.
    """
    folder, statuses = default_folder(home), []
    for name, own in cards(None).items():
        files = find(name, folder)
        state, reason = ("installed", "") if len(files) == len(own.files) else ("missing", own.instructions())
        digests = "+".join(map(file_digest, files.values())) if verify and not reason else None
        if digests is not None:
            try:
                state = "verified" if load(name, folder, announce=lambda notice: None).verified else state
            except (DataDamagedError, DataMissingError) as error:
                state, reason = "damaged", str(error)
        rows, size = sum(spec.rows for spec in own.files.values()), sum(path.stat().st_size for path in files.values())
        expected = "+".join((*spec.sha256, "unknown")[0] for spec in own.files.values())
        statuses.append(TableStatus(name, state, str(folder), rows, size or None, expected, digests, reason))
    return statuses


def _copy(data: LongICLData, folder: Path) -> None:
    """Copy the files of a data set that was loaded, and so checked, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (data.train_file, data.test_file):
        target = folder / file.spec.names[0]
        if not target.is_file() or file_digest(target) != file.sha256:
            check_outputs([target], [file.path])
            with open(file.path, "rb") as source:
                write_output(target, source)


def install(
    from_dir: str | Path | None,
    home: str | Path | None = None,
    datasets: Iterable[str] | None = None,
    *,
    announce: Announce = show_notice,
) -> Installed:
    """Install data sets from a folder or the hub; one that is missing or damaged does not prevent the others.

    Args:
        from_dir: Folder with the published files, under the names of the cards; None downloads them from the hub.
        home: The library's data home (default: see :func:`default_folder`).
        datasets: Names; None for all six. Those that the hub does not have are reported as skipped.
        announce: Called with the licence notice of each data set before its files are opened.

    Returns:
        The installed data sets, and the skipped ones with reasons and instructions.

    Raises:
        DataMissingError: The folder does not exist, nothing could be installed, ``STAICC_OFFLINE`` forbids downloads,
            or the copies cannot be written.
        MissingDependencyError: The extra ``hub`` is not installed.
        UnknownNameError: A data set is unknown.
        ArgumentError: The list is empty or has duplicates.
    """
    if from_dir is None:
        if os.environ.get(OFFLINE, "") not in ("", "0"):
            raise DataMissingError(f"{OFFLINE} forbids fetching from the hub; install the files from a folder instead")
        hub, _ = require("huggingface_hub", EXTRA, FEATURE), require("pyarrow.parquet", EXTRA, FEATURE)
    elif not Path(from_dir).is_dir():
        raise DataMissingError(f"there is no folder {from_dir}; name the folder with the published files")
    folder = default_folder(home)
    done: list[str] = []
    skipped: list[Skipped] = []
    for own in map(card, wanted(datasets)):
        try:
            if from_dir is None:
                _fetch(hub, own, folder, announce)
            else:
                _copy(load(own.name, from_dir, announce=announce), folder)
            done.append(own.name)
        except DataError as error:
            skipped.append(Skipped(own.name, str(error), own.instructions()))
            _log.warning("%s is not installed: %s", own.title, error)
        except OSError as error:
            raise DataMissingError(f"{own.title} cannot be installed in {folder}: {error}") from error
    if not done:
        reasons = "; ".join(f"{data.dataset}: {data.reason}" for data in skipped)
        raise DataMissingError(f"nothing could be installed from {from_dir or 'the hub'}: {reasons}")
    return Installed(folder, tuple(done), tuple(skipped))


REVISION = "refs/convert/parquet"
EXTRA = "hub"
FEATURE = "fetching LongICL data from the hub"


def _cells(card: TaskCard, columns: Columns, record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cells of a line of the published file, from a record of the hub."""
    assert card.hub is not None
    for column in card.hub.columns:
        value = record.get(column)
        if column == card.hub.label:
            places: Any = value if isinstance(value, list) and columns.labels == "indices" else [value]
            if not places or any(type(place) is not int or not 0 <= place < len(card.labels) for place in places):
                expected = f"expected 0 to {len(card.labels) - 1}"
                raise DataDamagedError(f"the hub's {card.title} has the label {value!r}, {expected}")
            value = ",".join(map(str, places)) if columns.labels == "indices" else card.labels[places[0]]
        if not isinstance(value, str):
            raise DataDamagedError(f"the hub's {card.title} has no text {column!r} in a row; it has {sorted(record)}")
        if columns.quoting == csv.QUOTE_NONE and any(mark in value for mark in "\t\n\r"):
            raise DataDamagedError(f"a sentence of the hub's {card.title} holds a tab or a line end: {value!r}")
        yield value


def _records(hub: Any, card: TaskCard, split: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a split, file by file; any error of another package becomes a ``DataMissingError``."""
    assert card.hub is not None
    source, parquet = card.hub, require("pyarrow.parquet", EXTRA, FEATURE)
    start = f"{source.config}/{split}/"
    try:
        listed = sorted(hub.HfApi().list_repo_files(source.repository, repo_type="dataset", revision=REVISION))
        chosen = [name for name in listed if name.startswith(start) and name.endswith(".parquet")]
        if not chosen:
            there = f"it has {', '.join(listed[:20]) or 'nothing'}"
            raise DataMissingError(f"{source.repository} has no {start}*.parquet on the hub ({REVISION}); {there}")
        for name in chosen:
            path = hub.hf_hub_download(source.repository, name, repo_type="dataset", revision=REVISION)
            with parquet.ParquetFile(path) as file:
                about = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
                column = about.get("info", {}).get("features", {}).get(source.label, {})
                labels = column.get("feature", column).get("names")  # of one label, or of a list of labels
                if labels not in (None, [*card.labels]):
                    got = f"its labels are {labels}, which are not those of the benchmark"
                    raise DataDamagedError(f"{source.repository}, {name}: {got}. {card.obtain}")
                for batch in file.iter_batches():
                    yield from batch.to_pylist()
    except DataError:
        raise
    except Exception as error:
        where = f"the hub ({source.repository})"
        raise DataMissingError(f"{card.title}: {where} cannot be read: {type(error).__name__}: {error}") from error


def _fetch(hub: Any, card: TaskCard, folder: Path, announce: Announce) -> None:
    """Download a data set from the hub, check it, and install it."""
    if card.hub is None:
        raise DataMissingError(f"{card.title} is not fetched from the hub")
    announce(card.notice())
    folder.mkdir(parents=True, exist_ok=True)
    with passing_folder(folder) as passing:
        for split, spec in card.files.items():
            columns = COLUMNS[spec.format]
            with open(passing / spec.names[0], "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, **columns.dialect)
                writer.writerows([columns.names] * columns.header)
                records = _records(hub, card, spec.split or split)
                writer.writerows(_cells(card, columns, record) for record in records)
        _copy(load(card.name, passing, announce=lambda notice: None), folder)
