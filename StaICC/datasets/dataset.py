"""Data sets: a card and its table.

:func:`load_dataset` gives the data sets of the catalogue. :meth:`Dataset.from_rows` makes one of a user's own rows,
with any number of input texts (pairs such as premise and hypothesis work), which goes through the same pipeline.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.datasets import catalogue as records
from StaICC.datasets import own_data
from StaICC.datasets.catalogue import (
    PUBLISHED_SPLIT,
    Card,
    Digests,
    SplitSizes,
    Template,
    TemplateAlternatives,
    find,
    get_card,
)
from StaICC.datasets.own_data import Labels
from StaICC.datasets.source import GIVEN_ROWS, FileSource, GivenRows, HubSource, Records, ReleasedWheel, Source
from StaICC.datasets.table import FrozenTable, MemoryTable, Table
from StaICC.errors import ArgumentError, DataDamagedError, DataError
from StaICC.registry import Registry


def default_template(columns: int) -> Template:
    """The template of a data set that comes without one.

    It does not depend on names of columns, which not every source of rows has.

    Args:
        columns: Number of input texts of a row.

    Returns:
        ``"text: "`` before a single text, ``"sentence1: "``, ``"sentence2: "``, ... before several; ``"label: "``
        before the label. Affixes are those of the benchmark.

    Raises:
        ArgumentError: There is no input text.

    Example:
        >>> default_template(2).input_text_prefixes
        ('sentence1: ', 'sentence2: ')
    """
    prefixes = ("text: ",) if columns == 1 else tuple(f"sentence{i + 1}: " for i in range(columns))
    return Template("", prefixes, (" ",) * columns, "label: ", "\n", "")


def default_split(rows: int) -> SplitSizes:
    """The split of a data set that comes without one: 40 % test, 20 % calibration, 40 % demonstrations, stratified.

    The benchmark's sizes are the maximum: 512, 1024 and 4096 rows.

    Args:
        rows: Number of rows of the table.

    Raises:
        ArgumentError: There is no row.

    Example:
        >>> print(default_split(300))
        stratified-60+120+120
    """
    if rows < 1:
        raise ArgumentError(f"a data set needs at least one row to test, not {rows}")
    most = PUBLISHED_SPLIT
    test, calibration = min(most.test, max(1, rows * 2 // 5)), min(most.calibration, rows // 5)
    return SplitSizes(calibration, min(most.demonstration, rows - test - calibration), test, stratified=True)


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
            counts = f"{self.table.columns} input texts, the template {self.card.columns} prefixes"
            raise ArgumentError(f"data set {name!r}: the table's rows have {counts}")
        if self.card.digests is not None and self.card.digests.table != self.table.digest:
            digests = f"their SHA-256 is {self.table.digest}, the card's {self.card.digests.table}"
            raise DataDamagedError(f"data set {name!r}: the rows are not the published ones; {digests}")

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
        label_space = own_data.check_labels(label_space)
        pinned = rows if isinstance(rows, (FileSource, HubSource)) else None
        if isinstance(rows, (FileSource, HubSource)):
            rows = rows.rows(label_space if isinstance(label_space, Sequence) else ())
        read = rows if isinstance(rows, Records) else own_data.given_rows(rows, label_space, name)
        indexes, space = own_data.label_indexes(read, label_space)
        table = MemoryTable((texts, index) for (texts, _), index in zip(read.rows, indexes, strict=True))
        part = own_data.record_of_card
        where = f"card {name!r}"
        written = part(Template, default_template(table.columns), template, f"{where}: 'template'")
        generated = own_data.generated_alternatives(written, space)
        sizes = default_split(len(table))
        if split is not None:  # sizes that a user names are drawn as those of the benchmark
            sizes = part(SplitSizes, dataclasses.replace(sizes, stratified=False), split, f"{where}: 'split'")
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
            alternatives=part(TemplateAlternatives, generated, alternatives, f"{where}: 'alternatives'"),
            split=sizes,
            rows=len(table),
            digests=Digests(table=table.digest),
            offensive=offensive,
            notes=notes,
        )
        remarks = own_data.remarks_on(read, table, card.label_space)
        return cls(card, table, pinned or own_data.source_of(read, table, card.label_space), remarks=remarks)

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
    ) -> Dataset:
        """Make a data set of a CSV, TSV, JSON Lines, JSON or Parquet file.

        Template, template alternatives and split are generated, so that every benchmark runs; results can be
        verified where the file is.

        Args:
            path: The file. A card file next to it (``tickets.card.toml`` for ``tickets.csv``) is read too.
            texts: Names of the text columns.
            label: Name of the label column; labels are texts or numbers.
            name: Its name in results and signatures (default: that of the file).
            labels: The ``label_space`` of :meth:`from_rows`.
            split: As for :meth:`from_rows`.
            template: As for :meth:`from_rows`.
            card: The card file, if it is elsewhere.
            encoding: Of a text file (default: UTF-8).

        Raises:
            StaICCError: The file cannot be read without guessing; the message names the place and what to do.
        """
        given = {"name": name, "labels": labels, "split": split, "template": template, "encoding": encoding}
        read, facts = own_data.read_file(path, texts, label, card, given)
        return cls.from_rows(read, **facts)

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
        read, known = own_data.read_pandas(frame, texts, label, {"name": name, **facts})
        return cls.from_rows(read, **known)

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
        read, known = own_data.read_huggingface(data, texts, label, {"name": name, **facts})
        return cls.from_rows(read, **known)

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
        return cls(*own_data.reopen(record, places))


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
