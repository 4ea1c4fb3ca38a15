"""Data sets: each is a card with its table.

:func:`load_dataset` gives the data sets of the catalogue. :meth:`Dataset.from_rows` makes one of a user's own rows,
with any number of input texts (pairs such as premise and hypothesis work), which goes through the same pipeline.
"""

from __future__ import annotations

import dataclasses
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.datasets import catalogue as cards
from StaICC.datasets import records as reading
from StaICC.datasets import table_files
from StaICC.datasets.card_files import CARD_KEYS, check_keys, read_card
from StaICC.datasets.catalogue import Card, Digests, SplitSizes, Template, TemplateAlternatives
from StaICC.datasets.defaults import default_split, default_template, generated_alternatives
from StaICC.datasets.delimited import check_quoting
from StaICC.datasets.label_values import Labels, read_labels
from StaICC.datasets.records import Records, TableFile
from StaICC.datasets.remarks import RowsToCheck, remarks_on
from StaICC.datasets.row_checks import check_label_names, checked_labels
from StaICC.datasets.source import FileSource, HubSource, ReleasedWheel, Source
from StaICC.datasets.table import FrozenTable, MemoryTable, Table
from StaICC.errors import ArgumentError, DataDamagedError, DataError, SchemaError, UnknownNameError
from StaICC.files.json_reading import read_value
from StaICC.layout import Block, Displayed, Line
from StaICC.registry import Registry, fold


def _part(kind: Any, default: Any, given: object, where: str) -> Any:
    """Return a record of a card, given as such or as a mapping of its fields; missing fields are the default's.

    Raises:
        ArgumentError: It is neither.
        SchemaError: The mapping has an unknown key.
    """
    if isinstance(given, Mapping):
        check_keys(where, given, [field.name for field in dataclasses.fields(kind)])
        return dataclasses.replace(default, **given)
    if given is not None and not isinstance(given, kind):
        raise ArgumentError(f"{where} must be a {kind.__name__}, not {given!r:.60}")
    return default if given is None else given


@dataclass(frozen=True, slots=True)
class Dataset(Displayed):
    """A card and the table that it describes.

    Raises:
        ArgumentError: The table does not have the card's number of rows or of input texts.
        DataDamagedError: The table's digest is not the card's.
    """

    card: Card
    table: Table
    source: Source | None = None
    """Where the rows come from."""
    origin: str = ""
    """Distribution and version of the plug-in that provides the data set; empty for all others."""
    remarks: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    """What is suspicious about the rows; a run repeats it among its warnings."""

    def __post_init__(self) -> None:
        if not isinstance(self.card, Card):
            raise ArgumentError(f"a data set needs a Card, not {self.card!r}")
        name = self.card.name
        if len(self.table) != self.card.rows:
            raise ArgumentError(f"data set {name!r}: the table has {len(self.table)} rows, its card {self.card.rows}")
        if self.table.columns != self.card.columns:
            counts = f"{self.table.columns} input texts, the template {self.card.columns} prefixes"
            raise ArgumentError(f"data set {name!r}: the table's rows have {counts}")
        if self.card.digests is not None and self.card.digests.table != self.table.digest:
            digests = f"their SHA-256 is {self.table.digest}, the card's {self.card.digests.table}"
            raise DataDamagedError(f"data set {name!r}: the rows are not the published ones; {digests}")

    def display_blocks(self) -> list[Block]:
        """Return rows, labels, split, licence and the first row as it is in a prompt."""
        card, split = self.card, self.card.split
        facts = {
            "task": card.task,
            "labels": f"{len(card.label_space)}: {', '.join(card.label_space)}",
            "rows": str(card.rows),
            "split": f"{split.test} test, {split.demonstration} demonstration, {split.calibration} calibration rows",
            "licence": card.licence,
            "notes": "; ".join(filter(None, [card.notes, *self.remarks])),
        }
        texts, label = self.table[0]
        template = card.template
        parts = zip(template.input_text_prefixes, texts, template.input_text_affixes, strict=True)
        facts["first row"] = "".join([*map("".join, parts), template.label_prefix, card.label_space[label]])
        return [Line(card.name, "title"), *(Line(f"{name}: {text}") for name, text in facts.items() if text)]

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[tuple[str | Sequence[str], int | str]] | FileSource | HubSource | Records,
        *,
        name: str,
        label_space: Labels = None,
        template: Template | Mapping[str, Any] | None = None,
        split: SplitSizes | Mapping[str, Any] | None = None,
        full_label_space: Sequence[str] | None = None,
        task: str = "",
        source: str = "",
        licence: str = "",
        citation: str = "",
        alternatives: TemplateAlternatives | Mapping[str, Any] | None = None,
        offensive: bool = False,
        notes: str = "",
    ) -> Dataset:
        """Make a data set of your own rows.

        All data sets of users' own are made here: :meth:`from_file`, :meth:`from_pandas` and :meth:`from_huggingface`
        only read rows. So the same rows have the same split and the same prompts, wherever they are from.

        Args:
            rows: ``(text or sequence of texts, label)`` pairs, all with the same number of texts; a label is one of the
                label space or an index into it. Or a :class:`~StaICC.datasets.source.FileSource` or
                :class:`~StaICC.datasets.source.HubSource`.
            name: Its name in results and signatures; none of a built-in data set.
            label_space: Label names, or a mapping of the labels of the rows to label names (default: the labels of the
                rows, sorted).
            template: Constant strings of the prompts (default: :func:`default_template`); of a mapping of its fields,
                missing ones have their default.
            split: Sizes of the three sets (default: :func:`default_split`); it is part of the signature.
            full_label_space: Unshortened label names (default: the label space).
            task: What is classified.
            source: Where the rows come from.
            licence: Under what licence.
            citation: BibTeX.
            alternatives: Three levels of each template factor, for template sensitivity (default: generated from
                template and labels, see :func:`StaICC.datasets.defaults.generated_alternatives`).
            offensive: Whether the texts hold language that hurts.
            notes: Anything else.

        Returns:
            The data set; the digest of the rows is part of its card.

        Raises:
            ArgumentError: Rows or arguments are not as said; the message names the row or the argument.

        Example:
            >>> pairs = [(("It rains.", "It is wet."), 1), (("It rains.", "It is dry."), 0)]
            >>> dataset = Dataset.from_rows(pairs, name="weather", label_space=["no", "yes"])
            >>> dataset.table[0].texts, dataset.card.template.label_prefix
            (('It rains.', 'It is wet.'), 'label: ')
        """
        cards.refuse_builtin(name)
        label_space = check_label_names(label_space)
        pinned: Source | None = rows if isinstance(rows, (FileSource, HubSource)) else None
        if isinstance(rows, (FileSource, HubSource)):
            rows = _rows_of_pinned(rows, label_space if isinstance(label_space, Sequence) else ())
        read = rows if isinstance(rows, Records) else reading.given_rows(rows, label_space, name)
        if not read.rows and read.malformed is None:
            raise ArgumentError(f"{read.source or 'rows'}: there is no row")
        values = checked_labels(read, label_space)
        indexes, space, used = read_labels(values, label_space, read.source, read.place, read.untyped)
        pairs = [(texts, index) for (texts, _), index in zip(read.rows, indexes, strict=True)]
        table = MemoryTable(pairs, read.place, read.columns)
        where = f"card {name!r}"
        written = _part(Template, default_template(table.columns), template, f"{where}: 'template'")
        generated = generated_alternatives(written, space)
        sizes = default_split(len(table))
        if split is not None:  # sizes that a user names are drawn as those of the benchmark
            sizes = _part(SplitSizes, dataclasses.replace(sizes, stratified=False), split, f"{where}: 'split'")
        card = Card(
            name=name,
            title=name,
            task=task,
            source=source,
            licence=licence,
            citation=citation,
            label_space=space,  # type: ignore[arg-type]  # the card makes it a tuple, or says what is wrong
            full_label_space=space if full_label_space is None else full_label_space,  # type: ignore[arg-type]
            template=written,
            alternatives=_part(TemplateAlternatives, generated, alternatives, f"{where}: 'alternatives'"),
            split=sizes,
            rows=len(table),
            digests=Digests(table=table.digest),
            offensive=offensive,
            notes=notes,
        )
        if pinned is None and read.file is not None:
            pinned = dataclasses.replace(read.file, values=used)
        return cls(card, table, pinned, remarks=_remarks(read, table, indexes, card))

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        texts: Sequence[str] | str | None = None,
        label: str | None = None,
        *,
        name: str | None = None,
        labels: Labels = None,
        split: SplitSizes | Mapping[str, Any] | None = None,
        template: Template | Mapping[str, Any] | None = None,
        card: str | os.PathLike[str] | None = None,
        encoding: str | None = None,
        quoting: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Dataset:
        """Make a data set of a CSV, TSV, JSON Lines, JSON or Parquet file.

        Template, template alternatives and split are generated, so that every benchmark runs; results can be
        verified where the file is.

        Args:
            path: The file. A card file next to it (``tickets.card.toml`` for ``tickets.csv``) is read too.
            texts: Names of the text columns. A file with the columns ``text`` or ``sentence``, and ``label``, and no
                others needs no names.
            label: Name of the label column; labels are texts or numbers.
            name: Its name in results and signatures (default: that of the file).
            labels: The ``label_space`` of :meth:`from_rows`.
            split: As for :meth:`from_rows`.
            template: As for :meth:`from_rows`.
            card: The card file, if it is elsewhere.
            encoding: Of a text file (default: UTF-8).
            quoting: How double quotes of a CSV or TSV file are read: ``"standard"``, or ``"none"``: as ordinary
                characters. By default, files that could be read in two ways are refused.
            columns: The names of all columns of a CSV or TSV file without a header, in order.

        Raises:
            StaICCError: The file cannot be read without guessing; the message names the place and what to do.
        """
        file = Path(path)
        given: dict[str, Any] = {"name": name, "texts": texts, "label": label, "encoding": encoding}
        given |= {"quoting": quoting, "columns": columns}
        given |= {"labels": labels, "split": split, "template": template}
        stated = [*read_card(file, card).items(), *given.items()]
        facts = {key: value for key, value in stated if value is not None}
        check_quoting(facts.get("quoting"))
        header = table_files.column_header(facts.get("columns"), file.name)
        if not {"texts", "label"} <= facts.keys() and file.is_file():
            names = table_files.listed_columns(file, facts.get("encoding"), facts.get("quoting"), header)
            if sorted(names) not in (["label", "text"], ["label", "sentence"]):
                advice = table_files.naming_advice(file, names, header)
                raise ArgumentError(f"{file.name}: name the columns, as texts=['text'], label='label'{advice}")
            facts = {"texts": [name for name in names if name != "label"], "label": "label", **facts}
        texts, label = reading.column_names(facts.get("texts", ["text"]), facts.get("label", "label"), file.name)
        read = table_files.read_records(
            file, [*texts, label], facts.get("encoding"), quoting=facts.get("quoting"), header=header
        )
        if not facts.get("name"):
            facts["name"] = _name_of_file(file)
        return cls.from_rows(read, **_arguments(facts))

    @classmethod
    def from_pandas(cls, frame: Any, texts: Sequence[str] | str, label: str, *, name: str, **facts: Any) -> Dataset:
        """Make a data set of a pandas data frame.

        Args:
            frame: The data frame.
            texts: Names of the text columns.
            label: Name of the label column.
            name: Its name in results and signatures.
            **facts: ``labels``, the ``label_space`` of :meth:`from_rows`; ``template``, ``split``, ``task``, ...

        Raises:
            StaICCError: The rows cannot be used; the message names the row and what to do.
        """
        read = reading.pandas_records(frame, texts, label)
        return cls.from_rows(read, **_arguments({"name": name, **facts}))

    @classmethod
    def from_huggingface(cls, data: Any, texts: Sequence[str] | str, label: str, *, name: str, **facts: Any) -> Dataset:
        """Make a data set of one split of a Hugging Face data set; the names of its class labels are used.

        Args:
            data: A ``datasets.Dataset``.
            texts: Names of the text columns.
            label: Name of the label column.
            name: Its name in results and signatures.
            **facts: As for :meth:`from_pandas`.

        Raises:
            StaICCError: The rows cannot be used; the message names the row and what to do.
        """
        read, names = reading.huggingface_records(data, texts, label)
        return cls.from_rows(read, **_arguments({"name": name, "labels": names, **facts}))

    def file_record(self) -> dict[str, Any] | None:
        """Return what a result saves of a data set from a user's file, to check it later; ``None`` for all others."""
        if not isinstance(self.source, TableFile):
            return None
        source = cards.plain_values(self.source)
        kept = {key: source[key] for key in ("sha256", "texts", "label", "values", "encoding", "quoting", "columns")}
        return {"file": Path(self.source.path).name, **kept, "card": self.card.to_dict()}

    @classmethod
    def reopen(cls, record: Mapping[str, Any], places: Sequence[str | os.PathLike[str]]) -> Dataset:
        """Make the data set again that a saved result was computed on, from its file.

        Args:
            record: An entry of ``result.files``; it is not trusted.
            places: Files, of which the one with the recorded SHA-256 is used, and folders that may contain the file.

        Raises:
            ArgumentError: The file is not there, or has changed.
            SchemaError: The record is damaged.
            DataDamagedError: The rows are not those of the record.
        """
        where = "the record of the data file"
        try:
            saved = dict(read_value(Mapping[str, object], record, where))
            card = Card.from_dict(saved.pop("card", {}))
            source: TableFile = read_value(TableFile, {"path": saved.pop("file", None), **saved}, where)
        except ArgumentError as error:
            raise SchemaError(f"{where} cannot be read: {error}") from error
        name, digest = source.path, source.sha256
        if Path(name).name != name:
            raise SchemaError(f"{where} cannot be read: {name!r:.60} is not the name of a file")
        for place in map(Path, places):
            file = place / name if place.is_dir() else place
            if (file == place or file.is_file()) and table_files.data_file_digest(file) == digest:
                break
        else:
            advice = "Put it next to the result, or name it with --data"
            raise ArgumentError(f"the file {name} is not here, or has changed: none has the SHA-256 {digest}. {advice}")
        source = dataclasses.replace(source, path=os.fspath(file), suffix=table_files.format_suffix(Path(name)))
        try:
            records, indexes = table_files.labelled_records(source, card.label_space)
            pairs = [(texts, index) for (texts, _), index in zip(records.rows, indexes, strict=True)]
            table = MemoryTable(pairs)
        except (ArgumentError, SchemaError, UnknownNameError) as error:
            raise SchemaError(f"{where} does not fit the file: {error}") from error
        if card.rows != len(table):
            raise SchemaError(f"{where} names {card.rows} rows, but the file has {len(table)}")
        records = dataclasses.replace(records, source=name)  # remarks name the file as it was called
        return cls(card, table, source, remarks=_remarks(records, table, indexes, card))


def _rows_of_pinned(source: FileSource | HubSource, labels: Sequence[str]) -> list[tuple[Any, Any]]:
    """Return the rows of a pinned file, with names in the place of indexes where the label names are known."""
    rows = []
    for texts, index in source.rows(labels):
        is_known = isinstance(index, int) and 0 <= index < len(labels)
        rows.append((texts, labels[index] if is_known else index))
    return rows


def _remarks(records: Records, table: Table, indexes: Sequence[int], card: Card) -> tuple[str, ...]:
    """Return what is suspicious about the rows of a data set."""
    rows = RowsToCheck(
        texts=[table[number].texts for number in range(len(table))],
        given_labels=[label for _, label in records.rows],
        indexes=indexes,
        space=card.label_space,
        place=records.place,
    )
    return remarks_on(rows)


def _name_of_file(file: Path) -> str:
    """Return the name of the data set of a file: without its suffix, unless a built-in data set has that name."""
    stem = table_files.uncompressed_name(file).stem
    return file.name if not stem.strip() or fold(stem) in cards.catalogue().folded else stem


def _arguments(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a card as arguments of :meth:`Dataset.from_rows`."""
    check_keys("the arguments", facts, CARD_KEYS)
    of_file = ("texts", "label", "encoding", "quoting", "columns")
    renamed = {"labels": "label_space"}
    return {renamed.get(key, key): value for key, value in facts.items() if value is not None and key not in of_file}


def _load_builtin(name: str) -> Dataset:
    card, source = cards.get_card(name), cards.catalogue().sources[cards.find(name)]
    if isinstance(source, ReleasedWheel):
        from StaICC.datasets import pack

        pack.ensure_installed([card.name])
        try:
            return Dataset(card, FrozenTable(pack.table_path(card.name), pack.expected_digest(card.name)), source)
        except DataError as error:
            raise type(error)(f"{error}. Install it again: python -m StaICC data install") from error
    return Dataset(card, MemoryTable(source.rows(card.label_space)), source)


def _read_entry(name: str, value: Any) -> Dataset:
    if callable(value) and not isinstance(value, Dataset):
        value = value(name) if value is _load_builtin else value()
    if not isinstance(value, Dataset):
        raise ArgumentError(f"got {value!r:.80}, expected a Dataset, or a function without arguments that returns one")
    return value


def dataset_registry() -> Registry[Dataset]:
    """Return the registry of data sets: those of the catalogue, and those of plug-ins (``staicc.datasets``)."""
    known = cards.catalogue()
    builtin = dict.fromkeys(known.cards, f"{__name__}:{_load_builtin.__name__}")
    hint = "List them with: python -m StaICC data list. For a file: --data FILE or Dataset.from_file"
    name_of = operator.attrgetter("card.name")
    return Registry("data set", "staicc.datasets", builtin, _read_entry, hint, known.folded, name_of)


def load_dataset(name: str, references: bool = True) -> Dataset:
    """Load a data set by name.

    ``mini`` ships with the library. The ten of the benchmark come from the data pack, which installs itself on first
    use (see :mod:`StaICC.datasets.pack`). Installed packages may provide more.

    Args:
        name: Any spelling that :func:`StaICC.datasets.catalogue.find` understands, the name of a plug-in's data set, or
            ``package.module:name`` of a :class:`Dataset` or of a function that returns one.
        references: Whether ``package.module:name`` is accepted. Names from files must not import any module.

    Returns:
        The data set; its rows are read when they are used.

    Raises:
        UnknownNameError: There is no such data set.
        PluginError: A plug-in is broken, or two plug-ins have that data set.
        DataMissingError: The data pack is not installed and cannot be fetched.
        DataDamagedError: The file is not the published one.

    Example:
        >>> len(load_dataset("mini").table)
        360
    """
    entry = dataset_registry().find(name, references)
    return dataclasses.replace(entry.value, origin=entry.origin) if entry.origin else entry.value
