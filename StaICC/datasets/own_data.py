"""Users' own data as data sets: columns of a file, of a pandas data frame or of a Hugging Face data set.

The card is generated: label space, prompt template, template alternatives, split. A *card file* next to the data
(``tickets.card.toml`` or ``tickets.card.json`` for ``tickets.csv``) or arguments replace any part of it.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from StaICC.datasets.card import LEVELS, Card, Digests, SplitSizes, Template, TemplateAlternatives
from StaICC.datasets.catalogue import catalogue
from StaICC.datasets.json_reading import read_json
from StaICC.datasets.source import GIVEN_ROWS, GivenRows, Source
from StaICC.datasets.table import MemoryTable
from StaICC.datasets.user_files import Records, TableFile, choose, file_digest, label_text, read_records
from StaICC.errors import ArgumentError, SchemaError, UnknownNameError, unknown_name
from StaICC.optional import require
from StaICC.registry import fold

_CARD_SUFFIXES = (".card.toml", ".card.json")
_CARD_KEYS = (
    *("name", "texts", "label", "labels", "encoding", "template", "alternatives", "split"),
    *("task", "source", "licence", "citation", "offensive", "notes"),
)
_PROSE = ("task", "source", "licence", "citation", "offensive", "notes")
_LONGEST_NAME = 40  # a longer column name is no prefix of a prompt


class OwnData(NamedTuple):
    """What a data set of a user's own data consists of."""

    card: Card
    table: MemoryTable
    source: TableFile | GivenRows
    remarks: tuple[str, ...] = ()
    """What is suspicious about the rows."""


def file_split(rows: int) -> SplitSizes:
    """Return the split of a user's data: 40 % test, 20 % calibration, 40 % demonstrations.

    The benchmark's sizes are the maximum: 512, 1024 and 4096 rows.

    Args:
        rows: Number of rows of the table.

    Example:
        >>> file_split(300)
        SplitSizes(calibration=60, demonstration=120, test=120)
    """
    test = min(512, max(1, rows * 2 // 5))
    calibration = min(1024, rows // 5)
    return SplitSizes(calibration, min(4096, rows - test - calibration), test)


def _words(column: str) -> str:
    """Return a column's name as words for a prompt; nothing if it has no place there."""
    words = " ".join(column.replace("_", " ").split())
    return words if words and len(words) <= _LONGEST_NAME and words.isprintable() else ""


def generated_template(texts: Sequence[str], label: str) -> Template:
    """Return the template of data with named columns: each text after the name of its column.

    Args:
        texts: The columns of the texts.
        label: The column of the labels.

    Example:
        >>> generated_template(["premise", "hypothesis"], "label").input_text_prefixes
        ('premise: ', 'hypothesis: ')
    """
    names = [_words(one) or f"text{number}" for number, one in enumerate(texts, 1)]
    return Template("", tuple(f"{one}: " for one in names), (" ",) * len(texts), f"{_words(label) or 'label'}: ", "\n")


def _levels(first: Any, candidates: Iterable[Any]) -> tuple[Any, ...]:
    """Return level 0 and the first candidates that differ from it and from each other."""
    return tuple(dict.fromkeys([first, *candidates]))[:LEVELS]


def generated_alternatives(template: Template, label_space: Sequence[str]) -> TemplateAlternatives:
    """Return three levels of each template factor, of which level 0 is the template's own.

    They follow from the template and the labels alone: the same data always have the same twelve alternatives.

    Args:
        template: The template.
        label_space: The label names; the second instruction lists them if there are at most ten.

    Example:
        >>> generated_alternatives(generated_template(["text"], "label"), ["no", "yes"]).instruction[1]
        'Choose one of: no, yes. '
    """
    columns = len(template.input_text_prefixes)
    listed = f"Choose one of: {', '.join(label_space)}. " if len(label_space) <= 10 else "Choose the right label. "
    numbered = ("",) if columns == 1 else tuple(f" {number}" for number in range(1, columns + 1))
    prefixes = [tuple(f"{word}{number}: " for number in numbered) for word in ("text", "input", "Text")]
    return TemplateAlternatives(
        instruction=_levels(template.instruction, [listed, f"Classify the text{'s' * (columns > 1)}. ", "Classify: "]),
        input_text_prefixes=_levels(template.input_text_prefixes, prefixes),
        label_prefix=_levels(template.label_prefix, ["label: ", "answer: ", "Label: "]),
        label_affix=_levels(template.label_affix, ["\n", " ", "\t"]),
    )


# -- card files


def _find_card(data: Path, given: str | os.PathLike[str] | None) -> Path | None:
    if given is not None or not data.name:  # "." is a folder, which is refused when it is read
        return None if given is None else Path(given)
    found = [one for suffix in _CARD_SUFFIXES if (one := data.with_name(data.stem + suffix)).is_file()]
    if len(found) > 1:
        raise ArgumentError(f"{data.name} has two cards: {found[0].name} and {found[1].name}. Remove one")
    return found[0] if found else None


def _read_card(path: Path) -> dict[str, Any]:
    """Return the content of a card file; its keys are checked, its values are checked by their users."""
    if path.suffix.lower() == ".json":
        card = read_json(path)
    elif path.suffix.lower() != ".toml":
        raise ArgumentError(f"card: got {path.name}, expected a .toml or .json file")
    elif sys.version_info < (3, 11):
        raise ArgumentError(
            f"{path.name}: Python {sys.version_info[0]}.{sys.version_info[1]} cannot read TOML. Write the card as JSON "
            f"({path.with_suffix('.json').name}, with the same keys), or use Python 3.11 or later"
        )
    else:
        toml = importlib.import_module("tomllib")  # by name: type checkers for Python 3.10 do not know it
        try:
            card = toml.loads(path.read_text("utf-8-sig"))
        except ValueError as error:  # also what is not UTF-8
            raise SchemaError(f"{path.name} is not TOML: {error}") from error
    _check_keys(path.name, card, _CARD_KEYS)
    return dict(card)


def _check_keys(where: str, record: object, known: Sequence[str]) -> None:
    if not isinstance(record, Mapping):
        raise SchemaError(f"{where}: got {record!r:.60}, expected a table with keys such as {known[0]!r}")
    for key in record:
        if key not in known:
            raise SchemaError(f"{where}: {unknown_name('key', key, known)}")


def _part(kind: Any, default: Any, given: object, where: str) -> Any:
    """Return a record of the card, given as such or as a mapping of its fields; missing fields are the default's."""
    if given is None or isinstance(given, kind):
        return default if given is None else given
    _check_keys(where, given, [field.name for field in dataclasses.fields(kind)])
    assert isinstance(given, Mapping)
    return dataclasses.replace(default, **given)


# -- labels


def _label_names(
    records: Records, labels: Sequence[str] | Mapping[Any, str] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the label name of each value of the label column, and the label space.

    Raises:
        ArgumentError: A label is missing or has no name, or the labels are not those of a classification.
    """
    found: Counter[str] = Counter()
    missing = []
    for number, row in enumerate(records.rows):
        try:
            value = label_text(row[-1])
        except ArgumentError as error:
            raise ArgumentError(f"{records.place(number)}: {error}") from error
        if value is None:
            missing.append(number)
        else:
            found[value] += 1
    if missing:
        raise ArgumentError(
            f"{records.place(missing[0])} has no label ({len(missing)} of {len(records.rows)} rows have none). "
            "Remove these rows, or fill in their labels"
        )
    if labels is None:
        return _own_names(records, found)
    wanted = "at least two label names"
    if isinstance(labels, Mapping):
        names = {label_text(value) or "": str(name) for value, name in labels.items()}
    elif isinstance(labels, str) or not isinstance(labels, Sequence):
        raise ArgumentError(
            f"labels: got {labels!r:.60}, expected a list of label names, or a mapping of values to names"
        )
    else:
        names = {str(name): str(name) for name in labels}
        wanted = "each label name once, and at least two"
        if not found.keys() <= names.keys() and found.keys() <= {str(number) for number in range(len(labels))}:
            names = {str(number): str(name) for number, name in enumerate(labels)}
    unknown = next((value for value in found if value not in names), None)
    if names and unknown is not None:
        raise ArgumentError(f"{records.source}: {unknown_name('label', unknown, names)} Add it to the labels")
    if len(set(names.values())) < (2 if isinstance(labels, Mapping) else max(2, len(labels))):
        raise ArgumentError(f"{records.source}: labels: got {labels!r:.200}, expected {wanted}")
    return {value: names[value] for value in names if value in found}, list(dict.fromkeys(names.values()))


def _own_names(records: Records, found: Counter[str]) -> tuple[dict[str, str], list[str]]:
    """Return the labels as they are, in the order of the alphabet or of their numbers."""
    source = records.source
    if len(found) < 2:
        raise ArgumentError(
            f"{source}: all {len(records.rows)} rows have the label {next(iter(found))!r}. Classification needs "
            "at least two labels; choose another label column, or name all labels with labels=[...]"
        )
    if len(found) == len(records.rows) > 2:
        raise ArgumentError(
            f"{source}: each of the {len(found)} rows has a label of its own, such as {next(iter(found))!r}. Choose "
            "the column of the classes as the label column"
        )
    numbers = all(_number(value) is not None and math.isfinite(float(value)) for value in found)
    space = sorted(found, key=lambda value: (float(value), value) if numbers else value)
    return {value: value for value in space}, space


def _label_remarks(records: Records, space: Sequence[str]) -> list[str]:
    """Return what is suspicious about the labels, one sentence each."""
    remarks = []
    spaced = sum(isinstance(row[-1], str) and row[-1] != row[-1].strip() for row in records.rows)
    if spaced:
        remarks.append(f"{spaced} labels have surrounding spaces, which are not part of the label")
    folded: dict[str, list[str]] = {}
    for name in space:
        folded.setdefault(_number(name) or _spelling(name), []).append(name)
    for same in folded.values():
        if len(same) > 1:
            listed = ", ".join(map(repr, same))
            remarks.append(f"the labels {listed} differ only in spelling; they are different labels. Is one a mistake?")
    if all(_number(name) is not None for name in space):
        remarks.append("the labels are numbers, which say little to a model. Name them: labels={'0': 'negative', ...}")
    elif len(records.rows) < 2 * len(space):
        remarks.append(f"there are {len(space)} labels in {len(records.rows)} rows: most labels have one row")
    return remarks


def _spelling(name: str) -> str:
    """Return a label name without case, spaces, zero-width characters and composition of letters."""
    shown = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", " ".join("".join(shown).casefold().split()))


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


# -- data sets


def _make(
    records: Records,
    texts: Sequence[str],
    label: str,
    labels: Sequence[str] | Mapping[Any, str] | None,
    card: Mapping[str, Any],
    name: str,
) -> tuple[OwnData, dict[str, str]]:
    """Return the data of chosen columns, and the label name of each value."""
    for number, row in enumerate(records.rows):
        for column, text in zip((*texts, label), row, strict=True):
            found = None
            if isinstance(text, str):
                if not text.isascii() and text.encode("utf-8", "ignore").decode() != text:
                    found = f"{text!r:.60} with a lone surrogate, which is no character"
            elif column != label:
                found = "nothing" if text is None else f"{text!r:.60} ({type(text).__name__})"
            if found is not None:
                place = f"{records.place(number)}, column {column!r}"
                raise ArgumentError(f"{place}: got {found}, expected a text. Correct or remove the row")
    blank = [number for number, row in enumerate(records.rows) if not "".join(row[:-1]).strip()]  # type: ignore[arg-type]
    if blank:
        raise ArgumentError(
            f"{records.place(blank[0])} has no text ({len(blank)} of {len(records.rows)} rows have none). "
            "Remove these rows"
        )
    refuse_builtin(name)
    values, space = _label_names(records, labels)
    where = f"the card of {name}"
    template = _part(Template, generated_template(texts, label), card.get("template"), f"{where}, template")
    positions = {one: number for number, one in enumerate(space)}
    table = MemoryTable((row[:-1], positions[values[label_text(row[-1]) or ""]]) for row in records.rows)  # type: ignore[misc]
    described = Card(
        name=name,
        title=name,
        **{"task": "", "source": "", "licence": "", "citation": ""} | {key: card[key] for key in _PROSE if key in card},
        label_space=tuple(space),
        full_label_space=tuple(space),
        template=template,
        alternatives=_part(
            TemplateAlternatives,
            generated_alternatives(template, space),
            card.get("alternatives"),
            f"{where}, alternatives",
        ),
        split=_part(SplitSizes, file_split(len(table)), card.get("split"), f"{where}, split"),
        rows=len(table),
        digests=Digests(table=table.digest),
    )
    some = [number for number, row in enumerate(records.rows) if not all(str(text).strip() for text in row[:-1])]
    remarks = _label_remarks(records, space)
    if some:
        remarks.append(f"{len(some)} rows have an empty text in one of their columns (first: {records.place(some[0])})")
    return OwnData(described, table, GIVEN_ROWS, tuple(remarks)), values


def refuse_builtin(name: object) -> None:
    """Raise :class:`ArgumentError` if a user's data set has a name of a built-in one, in any spelling."""
    if isinstance(name, str) and (builtin := catalogue().folded.get(fold(name))) is not None:
        raise ArgumentError(f"name: got {name!r}, which is a name of the built-in {builtin}. Choose another name")


def _columns(texts: object, label: object, where: str) -> tuple[list[str], str]:
    """Return the names of the columns, checked."""
    chosen = [texts] if isinstance(texts, str) else texts
    if not isinstance(chosen, Sequence) or not chosen or not all(isinstance(one, str) for one in chosen):
        raise ArgumentError(
            f"{where}: texts: got {texts!r:.60}, expected the names of the text columns, such as ['text']"
        )
    if not isinstance(label, str):
        raise ArgumentError(f"{where}: label: got {label!r:.60}, expected the name of the label column")
    if label in chosen or len(set(chosen)) < len(chosen):
        raise ArgumentError(f"{where}: a column is used twice: got texts {', '.join(chosen)} and label {label}")
    return list(chosen), label


def _merged(card: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    _check_keys("the arguments", given, _CARD_KEYS)
    return {**card, **{key: value for key, value in given.items() if value is not None}}


def _free_name(stem: str, file: str) -> str:
    """Return a name for the data of a file that is not one of the catalogue's."""
    return file if fold(stem) in catalogue().folded or not stem.strip() else stem


def from_file(
    path: str | os.PathLike[str],
    texts: Sequence[str] | str | None = None,
    label: str | None = None,
    *,
    card: str | os.PathLike[str] | None = None,
    **given: Any,
) -> OwnData:
    """See :meth:`StaICC.datasets.Dataset.from_file`."""
    file = Path(path)
    card_file = _find_card(file, card)
    content = {} if card_file is None else _read_card(card_file)
    facts = _merged(content, {**given, "texts": texts, "label": label})
    if file.is_file() and (facts.get("texts") is None or facts.get("label") is None):
        asked = " and ".join(one for one in ("texts", "label") if facts.get(one) is None)
        raise ArgumentError(
            f"{file.name}: name the columns: {asked} is missing. {_listed(file, facts.get('encoding'))}"
        )
    chosen, label = _columns(facts.get("texts", ["text"]), facts.get("label", "label"), file.name)
    encoding = facts.get("encoding")
    records, digest = read_records(file, [*chosen, label], encoding)
    name = facts.get("name") or _free_name(file.stem, file.name)
    data, values = _make(records, chosen, label, facts.get("labels"), facts, name)
    source = TableFile(os.fspath(file), digest, tuple(chosen), label, tuple(values.items()), encoding)
    return data._replace(source=source)


def _listed(file: Path, encoding: str | None) -> str:
    """Return the columns of a file as a sentence: the error about a column that no file has lists them."""
    try:
        read_records(file, ["\0"], encoding)
    except LookupError as error:
        return str(error).partition(". ")[2] or "Write them as texts=['text'], label='label'"
    except Exception:
        return "Write them as texts=['text'], label='label'"
    return ""


def from_pandas(frame: Any, texts: Sequence[str] | str, label: str, *, name: str, **given: Any) -> OwnData:
    """See :meth:`StaICC.datasets.Dataset.from_pandas`."""
    pandas = require("pandas", "data", "Dataset.from_pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise ArgumentError(f"from_pandas: got {type(frame).__name__}, expected a pandas.DataFrame")
    chosen, label = _columns(texts, label, "the data frame")
    positions = choose(list(map(str, frame.columns)), [*chosen, label], "the data frame")
    # pandas has several values for a missing cell; all become None.
    columns = [frame.iloc[:, one].astype(object).where(frame.iloc[:, one].notna(), None).tolist() for one in positions]
    return _given("the data frame", columns, chosen, label, name, given)


def from_huggingface(data: Any, texts: Sequence[str] | str, label: str, *, name: str, **given: Any) -> OwnData:
    """See :meth:`StaICC.datasets.Dataset.from_huggingface`."""
    library = require("datasets", "data", "Dataset.from_huggingface")
    if isinstance(data, library.DatasetDict):
        raise ArgumentError(
            f"from_huggingface: got a DatasetDict. Choose one of its splits: {', '.join(map(str, data))}"
        )
    if not isinstance(data, library.Dataset):
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, expected a datasets.Dataset")
    chosen, label = _columns(texts, label, "the data set")
    choose(data.column_names, [*chosen, label], "the data set")
    columns = [list(data[one]) for one in (*chosen, label)]
    feature = data.features[label]
    if isinstance(feature, library.ClassLabel):
        known = range(len(feature.names))  # -1 marks a row without a label
        columns[-1] = [feature.names[one] if one in known else None for one in columns[-1]]
        given = {"labels": feature.names, **given}
    return _given("the data set", columns, chosen, label, name, given)


def _given(
    source: str,
    columns: Sequence[Sequence[object]],
    texts: Sequence[str],
    label: str,
    name: str,
    given: Mapping[str, Any],
) -> OwnData:
    facts = _merged({}, given)
    rows = list(zip(*columns, strict=True))
    if not rows:
        raise ArgumentError(f"{source} has no rows")
    records = Records(source, rows, range(len(rows)), "row")
    return _make(records, texts, label, facts.get("labels"), facts, name)[0]


# -- saved results


def record_of(source: Source, card: Card) -> dict[str, Any] | None:
    """Return what a result saves of a data set from a file, so that its rows and prompts can be checked later.

    Args:
        source: Where the rows come from; ``None`` is returned for all that are not a user's file.
        card: The card of the data set.
    """
    if not isinstance(source, TableFile):
        return None
    return {
        "file": Path(source.path).name,
        "sha256": source.sha256,
        "texts": list(source.texts),
        "label": source.label,
        "values": dict(source.values),
        "encoding": source.encoding,
        "card": card.to_dict(),
    }


def reopen(record: Mapping[str, Any], places: Sequence[str | os.PathLike[str]]) -> OwnData:
    """Return the data that a result was computed on, from its file.

    Args:
        record: What :func:`record_of` returned; it is not trusted.
        places: Files, of which the one with the recorded SHA-256 is used, and folders that may contain the file.

    Raises:
        ArgumentError: The file is not there, or has changed.
        SchemaError: The record is damaged.
    """
    try:
        name, card = record["file"], Card.from_dict(record["card"])
        if Path(name).name != name:
            raise ValueError(f"{name!r:.60} is not the name of a file")
        values = tuple((str(value), str(label)) for value, label in record["values"].items())
        fields = (
            str(record["sha256"]),
            tuple(map(str, record["texts"])),
            str(record["label"]),
            values,
            record["encoding"],
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SchemaError(f"the record of the data file cannot be read: {error}") from error
    named = (Path(one) for one in places if not Path(one).is_dir() and file_digest(one) == fields[0])
    inside = [file for one in places if Path(one).is_dir() and (file := Path(one) / name).is_file()]
    inside.sort(key=lambda file: file_digest(file) != fields[0])  # folders may have other files of this name
    file = next(itertools.chain(named, inside), None)
    if file is None:
        raise ArgumentError(f"the file {name} is not here. Put it next to the result, or name it with --data")
    source = TableFile(os.fspath(file), *fields, Path(name).suffix)
    if (found := file_digest(file)) != fields[0]:
        raise ArgumentError(f"{file} has changed: its SHA-256 is {found}, expected {fields[0]}")
    try:
        table = MemoryTable(source.rows(card.label_space))
    except (ArgumentError, SchemaError, UnknownNameError) as error:
        raise SchemaError(f"the record of the data file does not fit the file: {error}") from error
    if card.rows != len(table):
        raise SchemaError(f"the record of the data file names {card.rows} rows, but the file has {len(table)}")
    return OwnData(card, table, source)
