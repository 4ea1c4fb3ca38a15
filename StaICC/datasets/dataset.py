"""Data sets: a card and its table.

:func:`load_dataset` gives the data sets of the catalogue. :meth:`Dataset.from_rows` makes one of a user's own rows,
with any number of input texts (pairs such as premise and hypothesis work), which goes through the same pipeline.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.datasets import catalogue as records
from StaICC.datasets import own_data
from StaICC.datasets.card import Card, Digests, SplitSizes, Template, TemplateAlternatives
from StaICC.datasets.catalogue import find, get_card
from StaICC.datasets.source import GIVEN_ROWS, FileSource, GivenRows, HubSource, ReleasedWheel, Source
from StaICC.datasets.table import FrozenTable, MemoryTable, Table
from StaICC.errors import ArgumentError, DataDamagedError, DataError, unknown_name
from StaICC.registry import Registry

_STANDARD = SplitSizes(calibration=1024, demonstration=4096, test=512)
"""The split that most data sets of the benchmark have."""


def default_template(columns: int) -> Template:
    """The template of a data set that comes without one.

    Args:
        columns: Number of input texts of a row.

    Returns:
        ``"input: "`` before a single text, ``"sentence1: "``, ``"sentence2: "``, ... before several; ``"label: "``
        before the label. Affixes are those of the benchmark.

    Raises:
        ArgumentError: There is no input text.

    Example:
        >>> default_template(2).input_text_prefixes
        ('sentence1: ', 'sentence2: ')
    """
    prefixes = ("input: ",) if columns == 1 else tuple(f"sentence{i + 1}: " for i in range(columns))
    return Template("", prefixes, (" ",) * columns, "label: ", "\n", "")


def default_split(rows: int) -> SplitSizes:
    """The benchmark's split, 1024 / 4096 / 512, scaled down to the rows that there are.

    Args:
        rows: Number of rows of the table.

    Returns:
        The sizes; there is always a test row, and a demonstration row if there are two rows or more.

    Raises:
        ArgumentError: There is no row.

    Example:
        >>> default_split(360)
        SplitSizes(calibration=65, demonstration=263, test=32)
    """
    if rows >= _STANDARD.total:
        return _STANDARD
    if rows < 1:
        raise ArgumentError(f"a data set needs at least one row to test, not {rows}")
    test = max(1, _STANDARD.test * rows // _STANDARD.total)
    calibration = _STANDARD.calibration * (rows - test) // (_STANDARD.total - _STANDARD.test)
    return SplitSizes(calibration=calibration, demonstration=rows - test - calibration, test=test)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A card and the table that it describes.

    Raises:
        ArgumentError: The table does not have the card's number of rows or of input texts.
        DataDamagedError: The table's digest is not the card's.
    """

    card: Card
    table: Table
    source: Source = GIVEN_ROWS
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
            raise ArgumentError(
                f"data set {name!r}: the table's rows have {self.table.columns} input texts, "
                f"the template {self.card.columns} prefixes"
            )
        if self.card.digests is not None and self.card.digests.table != self.table.digest:
            raise DataDamagedError(
                f"data set {name!r}: the rows are not the published ones; "
                f"their SHA-256 is {self.table.digest}, the card's {self.card.digests.table}"
            )

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[tuple[str | Sequence[str], int | str]] | FileSource | HubSource,
        *,
        name: str,
        label_space: Sequence[str],
        template: Template | None = None,
        split: SplitSizes | None = None,
        full_label_space: Sequence[str] | None = None,
        task: str = "",
        source: str = "",
        licence: str = "",
        citation: str = "",
        alternatives: TemplateAlternatives | None = None,
        offensive: bool = False,
        notes: str = "",
    ) -> Dataset:
        """Make a data set of your own rows.

        The default split is the benchmark's, scaled down: **9 % of the rows are tested** (27 of 300). Files
        (:meth:`from_file`) have a split of their own with 40 %.

        Args:
            rows: ``(text or sequence of texts, label)`` pairs, all with the same number of texts; a label is an index
                into the label space or one of its texts. Or a :class:`~StaICC.datasets.source.FileSource` or
                :class:`~StaICC.datasets.source.HubSource`.
            name: Its name in results and signatures; none of a built-in data set.
            label_space: Label names.
            template: Constant strings of the prompts (default: :func:`default_template`).
            split: Sizes of the three sets (default: :func:`default_split`, 9 % test).
            full_label_space: Unshortened label names (default: the label space).
            task: What is classified.
            source: Where the rows come from.
            licence: Under what licence.
            citation: BibTeX.
            alternatives: Three levels of each template factor, for template sensitivity (default: generated from
                template and labels, see :func:`StaICC.datasets.own_data.generated_alternatives`).
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
        own_data.refuse_builtin(name)
        pinned = rows if isinstance(rows, (FileSource, HubSource)) else None
        table = MemoryTable(
            rows.rows(label_space) if isinstance(rows, (FileSource, HubSource)) else _with_indexes(rows, label_space)
        )
        card = Card(
            name=name,
            title=name,
            task=task,
            source=source,
            licence=licence,
            citation=citation,
            label_space=label_space,  # type: ignore[arg-type]  # the card makes it a tuple, or says what is wrong
            full_label_space=label_space if full_label_space is None else full_label_space,  # type: ignore[arg-type]
            template=default_template(table.columns) if template is None else template,
            alternatives=alternatives,
            split=default_split(len(table)) if split is None else split,
            rows=len(table),
            digests=Digests(table=table.digest),
            offensive=offensive,
            notes=notes,
        )
        if alternatives is None:
            generated = own_data.generated_alternatives(card.template, card.label_space)
            card = dataclasses.replace(card, alternatives=generated)
        for number, row in enumerate(table):
            if row.label >= len(card.label_space):
                raise ArgumentError(
                    f"row {number}: the label index is {row.label}, but the label space of {name!r} has "
                    f"{len(card.label_space)} labels (indexes 0 to {len(card.label_space) - 1})"
                )
        return cls(card, table, pinned or GIVEN_ROWS)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        texts: Sequence[str] | str | None = None,
        label: str | None = None,
        *,
        name: str | None = None,
        labels: Sequence[str] | Mapping[Any, str] | None = None,
        split: SplitSizes | None = None,
        template: Template | None = None,
        card: str | os.PathLike[str] | None = None,
        encoding: str | None = None,
    ) -> Dataset:
        """Make a data set of a CSV, TSV, JSON Lines, JSON or Parquet file.

        Template, template alternatives and split are generated, so that every benchmark runs; results can be
        verified where the file is.

        Args:
            path: The file. A card file next to it (``tickets.card.toml`` for ``tickets.csv``) is read too.
            texts: Names of the text columns.
            label: Name of the label column; labels are texts or numbers.
            name: Its name in results and signatures (default: that of the file).
            labels: Label names in the order of the label space, or a mapping of the values of the label column to label
                names (default: the values, sorted).
            split: Sizes of the three sets (default: 40 % test, 20 % calibration, 40 % demonstrations, with the
                benchmark's sizes as maximum); it is part of the signature.
            template: Constant strings of the prompts (default: the column names before texts and label).
            card: The card file, if it is elsewhere.
            encoding: Of a text file (default: UTF-8).

        Raises:
            StaICCError: The file cannot be read without guessing; the message names the place and what to do.
        """
        facts = {"name": name, "labels": labels, "split": split, "template": template, "encoding": encoding}
        return cls._of(own_data.from_file(path, texts, label, card=card, **facts))

    @classmethod
    def from_pandas(cls, frame: Any, texts: Sequence[str] | str, label: str, *, name: str, **facts: Any) -> Dataset:
        """Make a data set of a pandas data frame.

        Args:
            frame: The data frame.
            texts: Names of the text columns.
            label: Name of the label column.
            name: Its name in results and signatures.
            **facts: ``labels``, ``split`` and ``template`` as for :meth:`from_file`; ``task``, ``licence``, ...

        Raises:
            StaICCError: The rows cannot be used; the message names the row and what to do.
        """
        return cls._of(own_data.from_pandas(frame, texts, label, name=name, **facts))

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
        return cls._of(own_data.from_huggingface(data, texts, label, name=name, **facts))

    @classmethod
    def reopen(cls, record: Mapping[str, Any], places: Sequence[str | os.PathLike[str]]) -> Dataset:
        """Make the data set again that a saved result was computed on, from its file.

        Args:
            record: An entry of ``result.files``; it is not trusted.
            places: Files, and folders that may contain the file.

        Raises:
            ArgumentError: The file is not there, or has changed.
            SchemaError: The record is damaged.
            DataDamagedError: The rows are not those of the record.
        """
        return cls._of(own_data.reopen(record, places))

    @classmethod
    def _of(cls, data: own_data.OwnData) -> Dataset:
        return cls(data.card, data.table, data.source, remarks=data.remarks)


def _with_indexes(rows: Any, label_space: Sequence[str]) -> Iterator[Any] | Any:
    """Return rows whose labels are indexes; what is no row is for the table to refuse."""
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable) or not isinstance(label_space, Sequence):
        return rows
    names = {name: number for number, name in enumerate(label_space) if isinstance(name, str)}

    def with_index(number: int, row: Any) -> Any:
        if not (isinstance(row, (tuple, list)) and len(row) == 2 and isinstance(row[1], str)):
            return row
        if row[1] not in names:
            raise ArgumentError(f"row {number}: {unknown_name('label', row[1], names)}")
        return row[0], names[row[1]]

    return (with_index(number, row) for number, row in enumerate(rows))


def _load_builtin(name: str) -> Dataset:
    card, source = get_card(name), records.catalogue().sources[find(name)]
    if isinstance(source, ReleasedWheel):
        from StaICC.datasets import pack

        pack.ensure_installed([card.name])
        try:
            return Dataset(card, FrozenTable(pack.table_path(card.name), pack.expected_digest(card.name)), source)
        except DataError as error:
            raise type(error)(f"{error}. Install it again: python -m StaICC data install") from error
    assert not isinstance(source, GivenRows)  # a record of the catalogue names a source with rows
    return Dataset(card, MemoryTable(source.rows(card.label_space)), source)


def _read_entry(name: str, value: Any) -> Dataset:
    made = value() if callable(value) and not isinstance(value, Dataset) else value
    if not isinstance(made, Dataset):
        raise ArgumentError(f"got {made!r:.80}, expected a Dataset, or a function without arguments that returns one")
    return made


class _Datasets(Registry[Dataset]):
    """Data sets by name; the built-in ones are those of the catalogue."""

    def __init__(self) -> None:
        known = records.catalogue()
        hint = "List them with: python -m StaICC data list. For a file: --data FILE or Dataset.from_file"
        names = dict.fromkeys(known.cards, "")
        super().__init__(
            "data set", "staicc.datasets", names, _read_entry, hint, known.folded, lambda data: data.card.name
        )

    def __getitem__(self, name: str) -> Dataset:
        return _load_builtin(name)


def dataset_registry() -> Registry[Dataset]:
    """Return the registry of data sets: those of the catalogue, and those of plug-ins (``staicc.datasets``)."""
    return _Datasets()


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
