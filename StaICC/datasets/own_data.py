"""Users' own data: how rows are read from a file, a pandas data frame, a Hugging Face data set or a program.

Each reader returns :class:`~StaICC.datasets.source.Records` and facts for
:meth:`StaICC.datasets.Dataset.from_rows`, which makes every data set. A *card file* next to the data
(``tickets.card.toml`` or ``tickets.card.json`` for ``tickets.csv``) states facts, too.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC.datasets.catalogue import LEVELS, Card, Template, TemplateAlternatives, catalogue
from StaICC.datasets.json_reading import read_json
from StaICC.datasets.source import (
    GIVEN_ROWS,
    Records,
    Source,
    TableFile,
    choose,
    file_digest,
    label_text,
    of_columns,
    read_records,
)
from StaICC.datasets.table import MemoryTable, Table, split_pair
from StaICC.errors import ArgumentError, SchemaError, UnknownNameError, unknown_name, whole_number
from StaICC.optional import require
from StaICC.registry import fold

_CARD_SUFFIXES = (".card.toml", ".card.json")
_CARD_KEYS = (
    *("name", "texts", "label", "labels", "encoding", "template", "alternatives", "split"),
    *("task", "source", "licence", "citation", "offensive", "notes"),
)
_READ = ("texts", "label", "encoding")  # facts about the file

Labels = Sequence[str] | Mapping[Any, str] | None
"""Label names in the order of the label space, or by the labels of the rows; ``None`` for the labels of the rows."""


# -- template alternatives


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
        >>> template = Template("", ("text: ",), (" ",), "label: ", "; ")
        >>> generated_alternatives(template, ["no", "yes"]).instruction[1]
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
        advice = f"Write the card as JSON ({path.with_suffix('.json').name}, with the same keys)"
        raise ArgumentError(f"{path.name}: Python 3.{sys.version_info[1]} cannot read TOML. {advice}")
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


def record_of_card(kind: Any, default: Any, given: object, where: str) -> Any:
    """Return a record of a card, given as such or as a mapping of its fields; missing fields are the default's.

    Raises:
        ArgumentError: It is neither.
        SchemaError: The mapping has an unknown key.
    """
    if isinstance(given, Mapping):
        _check_keys(where, given, [field.name for field in dataclasses.fields(kind)])
        return dataclasses.replace(default, **given)
    if given is not None and not isinstance(given, kind):
        raise ArgumentError(f"{where} must be a {kind.__name__}, not {given!r:.60}")
    return default if given is None else given


# -- labels


def check_labels(labels: Labels) -> Labels:
    """Return label names after checking them: at least two, each once, and none empty.

    Raises:
        ArgumentError: They are not.
    """
    if labels is None:
        return None
    several = isinstance(labels, Sequence | Mapping) and not isinstance(labels, str)
    names = [*map(str, labels.values() if isinstance(labels, Mapping) else labels)] if several else []
    twice = isinstance(labels, Sequence) and len(set(names)) < len(names)
    if twice or len(set(names)) < 2 or not all(map(str.strip, names)):
        expected = "at least two labels, each once and none empty: a list, or a mapping of the rows' labels to names"
        raise ArgumentError(f"label names: got {labels!r:.200}, expected {expected}")
    return labels if isinstance(labels, Mapping) else names


def label_indexes(records: Records, labels: Labels) -> tuple[list[int], list[str]]:
    """Return the label index of each row, and the label space.

    Args:
        records: The rows.
        labels: The names of the labels, checked.

    Raises:
        ArgumentError: A label is missing or has no name, or the labels are not those of a classification.
    """
    names = {name: name for name in labels or ()}
    if isinstance(labels, Mapping):
        names = {label_text(value): str(name) for value, name in labels.items()}
    values = []
    for number, (_, label) in enumerate(records.rows):
        try:
            values.append(label_text(label, names))
        except ArgumentError as error:
            raise ArgumentError(f"{records.place(number)}: {error}") from error
    if "" in values:
        share = f"({values.count('')} of {len(values)} rows have none)"
        raise ArgumentError(f"{records.place(values.index(''))} has no label {share}. Remove or fill in these rows")
    found = Counter(values)
    if labels is None:
        names = {value: value for value in _own_names(records, found)}
    elif isinstance(labels, Sequence) and not found.keys() <= names.keys():
        by_index = {str(number): name for number, name in enumerate(labels)}
        names = by_index if found.keys() <= by_index.keys() else names
    unknown = next((number for number, value in enumerate(values) if value not in names), None)
    if unknown is not None:
        message = unknown_name("label", values[unknown], names)
        raise ArgumentError(f"{records.place(unknown)}: {message} Add it to the labels")
    space = list(dict.fromkeys(names.values()))
    positions = {name: number for number, name in enumerate(space)}
    return [positions[names[value]] for value in values], space


def _own_names(records: Records, found: Counter[str]) -> list[str]:
    """Return the labels as they are, in the order of the alphabet or of their numbers."""
    source = f"{records.source}: " if records.source else ""
    if len(found) < 2:
        advice = "Classification needs at least two labels: choose another label column, or name labels=[...]"
        raise ArgumentError(f"{source}all {len(records.rows)} rows have the label {next(iter(found))!r}. {advice}")
    if len(found) == len(records.rows) > 2:
        shown = f"each of the {len(found)} rows has a label of its own, such as {next(iter(found))!r}"
        raise ArgumentError(f"{source}{shown}. Choose the column of the classes as the label column")
    numbers = all(_number(value) is not None and math.isfinite(float(value)) for value in found)
    return sorted(found, key=lambda value: (float(value), value) if numbers else value)


def remarks_on(records: Records, table: Table, space: Sequence[str]) -> tuple[str, ...]:
    """Return what is suspicious about the rows, one sentence each.

    Raises:
        ArgumentError: A row has no text.
    """
    blank = [number for number, row in enumerate(table) if not all(map(str.strip, row.texts))]
    empty = [number for number in blank if not "".join(table[number].texts).strip()]
    if empty:
        share = f"({len(empty)} of {len(table)} rows have none)"
        raise ArgumentError(f"{records.place(empty[0])} has no text {share}. Remove these rows")
    remarks = []
    given = Counter(label for _, label in records.rows if isinstance(label, str))
    spaced = sum(count for label, count in given.items() if label != label.strip() and label not in space)
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
    if blank:
        first = records.place(blank[0])
        remarks.append(f"{len(blank)} rows have an empty text in one of their columns (first: {first})")
    return tuple(remarks)


def _spelling(name: str) -> str:
    """Return a label name without case, spaces, zero-width characters and composition of letters."""
    shown = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", " ".join("".join(shown).casefold().split()))


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


# -- rows


def refuse_builtin(name: object) -> None:
    """Raise :class:`ArgumentError` if a user's data set has a name of a built-in one, in any spelling."""
    if isinstance(name, str) and (builtin := catalogue().folded.get(fold(name))) is not None:
        raise ArgumentError(f"name: got {name!r}, which is a name of the built-in {builtin}. Choose another name")


def _columns(texts: object, label: object, where: str) -> tuple[list[str], str]:
    """Return the names of the columns, checked."""
    chosen = [texts] if isinstance(texts, str) else texts
    if not isinstance(chosen, Sequence) or not chosen or not all(isinstance(one, str) for one in chosen):
        raise ArgumentError(f"{where}: texts: got {texts!r:.60}, expected names of text columns, such as ['text']")
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


def source_of(records: Records, table: Table, space: Sequence[str]) -> Source:
    """Return where rows are from; of a file, with the name of each of its labels."""
    if records.file is None:
        return GIVEN_ROWS
    known = frozenset(space)
    values = {label_text(label, known): row.label for (_, label), row in zip(records.rows, table, strict=True)}
    named = sorted(values.items(), key=lambda value: value[1])
    return dataclasses.replace(records.file, values=tuple((value, space[index]) for value, index in named))


def given_rows(rows: Any, labels: Labels, name: str) -> Records:
    """Return the rows of a program.

    Args:
        rows: Pairs of a text (or several) and a label: a label name, or an index into the label names.
        labels: The label names.
        name: Of the data set, for messages.

    Raises:
        ArgumentError: They are no pairs, or an index is not one of the label names.
    """
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise ArgumentError(f"rows: expected (text or texts, label) pairs, got {rows!r:.80}")
    pairs = [split_pair(number, row) for number, row in enumerate(rows)]
    if not pairs:
        raise ArgumentError("rows: there is no row")
    if isinstance(labels, Sequence):
        for number, (texts, label) in enumerate(pairs):
            index = None if isinstance(label, str) else whole_number(label)
            if index is not None and not 0 <= index < len(labels):
                known = f"the label space of {name!r} has {len(labels)} labels (indexes 0 to {len(labels) - 1})"
                raise ArgumentError(f"row {number}: the label index is {index}, but {known}")
            pairs[number] = (texts, label if index is None else labels[index])
    return Records("", pairs, range(len(pairs)), "row")


def read_file(
    path: str | os.PathLike[str],
    texts: Sequence[str] | str | None,
    label: str | None,
    card: str | os.PathLike[str] | None,
    given: Mapping[str, Any],
) -> tuple[Records, dict[str, Any]]:
    """Return the rows of a file and the facts about them; see :meth:`StaICC.datasets.Dataset.from_file`."""
    file = Path(path)
    card_file = _find_card(file, card)
    facts = _merged({} if card_file is None else _read_card(card_file), {**given, "texts": texts, "label": label})
    if file.is_file() and (facts.get("texts") is None or facts.get("label") is None):
        asked = " and ".join(one for one in ("texts", "label") if facts.get(one) is None)
        missing = f"name the columns: {asked} is missing (--text and --label on the command line)"
        raise ArgumentError(f"{file.name}: {missing}. {_listed(file, facts.get('encoding'))}")
    chosen, label = _columns(facts.get("texts", ["text"]), facts.get("label", "label"), file.name)
    encoding = facts.get("encoding")
    records, digest = read_records(file, [*chosen, label], encoding)
    source = TableFile(os.fspath(file), digest, tuple(chosen), label, (), encoding)
    facts["name"] = facts.get("name") or _free_name(file.stem, file.name)
    return dataclasses.replace(_checked(records, chosen, label), file=source), _of_rows(facts)


def _of_rows(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts as the arguments of :meth:`StaICC.datasets.Dataset.from_rows`."""
    return {{"labels": "label_space"}.get(key, key): value for key, value in facts.items() if key not in _READ}


def _checked(records: Records, texts: Sequence[str], label: str) -> Records:
    """Return records of columns after checking that their texts are texts."""
    if not records.rows:
        raise ArgumentError(f"{records.source} has no rows")
    for number, (row, own) in enumerate(records.rows):
        for column, text in zip((*texts, label), (*row, own), strict=True):
            found = None
            if isinstance(text, str):
                if not text.isascii() and text.encode("utf-8", "ignore").decode() != text:
                    found = f"{text!r:.60} with a lone surrogate, which is no character"
            elif column != label:
                found = "nothing" if text is None else f"{text!r:.60} ({type(text).__name__})"
            if found is not None:
                place = f"{records.place(number)}, column {column!r}"
                raise ArgumentError(f"{place}: got {found}, expected a text. Correct or remove the row")
    return records


def _listed(file: Path, encoding: str | None) -> str:
    """Return the columns of a file as a sentence: the error about a column that no file has lists them."""
    try:
        read_records(file, ["\0"], encoding)
    except LookupError as error:
        return str(error).partition(". ")[2] or "Write them as texts=['text'], label='label'"
    except Exception:
        return "Write them as texts=['text'], label='label'"
    return ""


def read_pandas(
    frame: Any, texts: Sequence[str] | str, label: str, given: Mapping[str, Any]
) -> tuple[Records, dict[str, Any]]:
    """Return the rows of a data frame and the facts about them; see :meth:`StaICC.datasets.Dataset.from_pandas`."""
    pandas = require("pandas", "data", "Dataset.from_pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise ArgumentError(f"from_pandas: got {type(frame).__name__}, expected a pandas.DataFrame")
    chosen, label = _columns(texts, label, "the data frame")
    positions = choose(list(map(str, frame.columns)), [*chosen, label], "the data frame")
    # pandas has several values for a missing cell; all become None.
    columns = [frame.iloc[:, one].astype(object).where(frame.iloc[:, one].notna(), None).tolist() for one in positions]
    return _checked(of_columns("the data frame", columns), chosen, label), _of_rows(_merged({}, given))


def read_huggingface(
    data: Any, texts: Sequence[str] | str, label: str, given: Mapping[str, Any]
) -> tuple[Records, dict[str, Any]]:
    """Return the rows of a data set and the facts about them; see :meth:`StaICC.datasets.Dataset.from_huggingface`."""
    library = require("datasets", "data", "Dataset.from_huggingface")
    if isinstance(data, library.DatasetDict):
        splits = ", ".join(map(str, data))
        raise ArgumentError(f"from_huggingface: got a DatasetDict. Choose one of its splits: {splits}")
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
    return _checked(of_columns("the data set", columns), chosen, label), _of_rows(_merged({}, given))


# -- saved results


def record_of(source: Source, card: Card) -> dict[str, Any] | None:
    """Return what a result saves of a data set from a file, so that its rows and prompts can be checked later.

    Args:
        source: Where the rows come from; ``None`` is returned for all that are not a user's file.
        card: The card of the data set.
    """
    if not isinstance(source, TableFile):
        return None
    record = {name: getattr(source, name) for name in ("sha256", "texts", "label", "values", "encoding")}
    record |= {"texts": list(source.texts), "values": dict(source.values)}
    return {"file": Path(source.path).name, **record, "card": card.to_dict()}


def reopen(record: Mapping[str, Any], places: Sequence[str | os.PathLike[str]]) -> tuple[Card, MemoryTable, TableFile]:
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
        texts, label = tuple(map(str, record["texts"])), str(record["label"])
        digest, encoding = str(record["sha256"]), record["encoding"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SchemaError(f"the record of the data file cannot be read: {error}") from error
    paths = [Path(place) for place in places]
    files = [path for path in paths if not path.is_dir() and file_digest(path) == digest]
    files += [file for path in paths if path.is_dir() and (file := path / name).is_file()]
    if not files:
        raise ArgumentError(f"the file {name} is not here. Put it next to the result, or name it with --data")
    file = min(files, key=lambda file: file_digest(file) != digest)  # folders may have other files of this name
    source = TableFile(os.fspath(file), digest, texts, label, values, encoding, Path(name).suffix)
    if (found := file_digest(file)) != digest:
        raise ArgumentError(f"{file} has changed: its SHA-256 is {found}, expected {digest}")
    try:
        table = MemoryTable(source.rows(card.label_space))
    except (ArgumentError, SchemaError, UnknownNameError) as error:
        raise SchemaError(f"the record of the data file does not fit the file: {error}") from error
    if card.rows != len(table):
        raise SchemaError(f"the record of the data file names {card.rows} rows, but the file has {len(table)}")
    return card, table, source
