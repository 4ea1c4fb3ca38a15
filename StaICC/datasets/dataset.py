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
from typing import Any, NoReturn

from StaICC.argument_syntax import argument, in_each_syntax
from StaICC.arguments import validate_path
from StaICC.datasets import catalogue as cards
from StaICC.datasets import records as records_module
from StaICC.datasets import table_files
from StaICC.datasets.card_files import CARD_KEYS, check_keys, read_card
from StaICC.datasets.catalogue import Card, Digests, SplitSizes, Template, TemplateAlternatives
from StaICC.datasets.clusters import (
    FUNCTION,
    ClusterRule,
    Clusters,
    clusters_of,
    column_of,
)
from StaICC.datasets.defaults import default_split, default_template, generated_alternatives
from StaICC.datasets.delimited import check_quoting
from StaICC.datasets.further_columns import columns_to_read, refuse_label, with_further_columns
from StaICC.datasets.label_lists import (
    are_lists,
    check_separator,
    labels_of_rows,
    rarest_labels,
    read_label_lists,
    refuse_unused_separator,
)
from StaICC.datasets.label_values import LabelReading, Labels, elements_of, read_labels
from StaICC.datasets.records import Records, TableFile
from StaICC.datasets.remarks import RowsToCheck, remarks_on, remarks_on_labels, remarks_on_texts
from StaICC.datasets.row_checks import check_label_names, checked_labels
from StaICC.datasets.source import FileSource, HubSource, ReleasedWheel, Source
from StaICC.datasets.subgroups import SubgroupRule, Subgroups, subgroup_columns, subgroups_of
from StaICC.datasets.table import FrozenTable, MemoryTable, Table
from StaICC.errors import ArgumentError, DataDamagedError, DataError, SchemaError, UnknownNameError, unknown_name
from StaICC.files.json_reading import read_value
from StaICC.layout import Block, Displayed, Line
from StaICC.registry import Registry, fold


def _card_part(kind: Any, default: Any, given: object, where: str) -> Any:
    """Return a record of a card: the given one, a mapping of its fields as a record, or the default.

    Args:
        kind: The class of the record.
        default: The record if nothing is given; it also has the fields that a mapping lacks.
        given: A record, a mapping, or ``None``.
        where: What the record is, for messages.

    Raises:
        ArgumentError: The value is none of these.
        SchemaError: The mapping has an unknown key.
    """
    if given is None:
        return default
    if isinstance(given, kind):
        return given
    if isinstance(given, Mapping):
        check_keys(where, given, [field.name for field in dataclasses.fields(kind)])
        return dataclasses.replace(default, **given)
    raise ArgumentError(f"{where} must be a {kind.__name__}, not {given!r:.60}")


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
    clusters: Clusters | None = None
    """The cluster of each row, which is the unit of intervals and tests; ``None`` if rows are independent."""
    subgroups: Subgroups = dataclasses.field(default_factory=dict)
    """For each column of subgroups the subgroup of each row, by which comparisons can be made."""

    def __post_init__(self) -> None:
        """Check that table, clusters and subgroups have the rows that the card describes."""
        if not isinstance(self.card, Card):
            raise ArgumentError(f"a data set needs a Card, not {self.card!r}")
        where = f"data set {self.card.name!r}"
        if len(self.table) != self.card.rows:
            raise ArgumentError(f"{where}: the table has {len(self.table)} rows, its card {self.card.rows}")
        if self.table.columns != self.card.columns:
            raise ArgumentError(
                f"{where}: the table's rows have {self.table.columns} input texts, the template {self.card.columns} "
                "prefixes"
            )
        if self.clusters is not None and len(self.clusters.numbers) != len(self.table):
            raise ArgumentError(
                f"{where}: there are clusters of {len(self.clusters.numbers)} rows, but the table has {len(self.table)}"
            )
        for name, groups in self.subgroups.items():
            if len(groups) != len(self.table):
                raise ArgumentError(
                    f"{where}: there are subgroups {name!r} of {len(groups)} rows, but the table has {len(self.table)}"
                )
        if self.card.digests is not None and self.card.digests.table != self.table.digest:
            raise DataDamagedError(
                f"{where}: the rows are not the published ones; their SHA-256 is {self.table.digest}, the card's "
                f"{self.card.digests.table}"
            )

    def display_blocks(self) -> list[Block]:
        """Return rows, labels, split, licence and the first row as it is in a prompt."""
        card = self.card
        split = card.split
        notes = [card.notes, *self.remarks]
        clusters = ""
        if self.clusters is not None:
            clusters = f"{self.clusters.count} (by {self.clusters.name})"
        facts = {
            "task": card.task,
            "labels": f"{len(card.single_labels)}: {', '.join(card.single_labels)}",
            "rows": str(card.rows),
            "clusters": clusters,
            "subgroups": "; ".join(f"{len(set(groups))} (by {name})" for name, groups in self.subgroups.items()),
            "split": f"{split.test} test, {split.demonstration} demonstration, {split.calibration} calibration rows",
            "licence": card.licence,
            "notes": "; ".join(note for note in notes if note),
            "first row": self._first_row_in_prompt(),
        }
        blocks: list[Block] = [Line(card.name, "title")]
        for name, text in facts.items():
            if text:
                blocks.append(Line(f"{name}: {text}"))
        return blocks

    def _first_row_in_prompt(self) -> str:
        """Return the first row as a prompt shows it: its texts between their prefixes and affixes, then its label."""
        template = self.card.template
        texts, label_index = self.table[0]
        shown = ""
        for prefix, text, affix in zip(template.input_text_prefixes, texts, template.input_text_affixes, strict=True):
            shown += prefix + text + affix
        return shown + template.label_prefix + self.card.label_space[label_index]

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
        label_separator: str | None = None,
        cluster: ClusterRule = None,
        subgroups: SubgroupRule = None,
    ) -> Dataset:
        """Make a data set of your own rows.

        All data sets of users' own are made here: :meth:`from_file`, :meth:`from_pandas` and :meth:`from_huggingface`
        only read rows. So the same rows have the same split and the same prompts, wherever they are from.

        Args:
            rows: ``(text or sequence of texts, label)`` pairs, all with the same number of texts; a label is one of the
                label space or an index into it, or a list of label names if texts have several labels. Or a
                :class:`~StaICC.datasets.source.FileSource` or :class:`~StaICC.datasets.source.HubSource`.
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
            label_separator: The text between the labels of a row, if texts have several labels, such as ``";"``. Lists
                need none: neither those of a format that has lists, nor texts that are lists as JSON or Python write
                them. Several labels are evaluated by :class:`~StaICC.long_icl.benchmark.LongICL`.
            cluster: What rows that are not independent share, such as a document: a function of the row (its ``texts``
                and ``label``, an index), or the name of a column of a table. Rows with an equal value are a cluster,
                which is then the unit of intervals and tests. By default, rows are assumed to be independent.
            subgroups: By what comparisons can divide the rows, such as a domain: the name of a column of a table,
                several names, or a mapping of names to functions of the row. Saved results have the value of each test
                row.

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
        records, pinned = _records_of(rows, label_space, name)
        if not records.rows and records.malformed is None:
            raise ArgumentError(f"{records.source or 'rows'}: there is no row")
        labelled = _read_labels(records, label_space, check_separator(label_separator))
        table = _table_of(records, labelled.indexes)
        clusters = clusters_of(records, table, cluster)
        named_subgroups = subgroups_of(records, table, subgroups)

        where = f"card {name!r}"
        template_without_names = default_template(table.columns, several_labels=bool(labelled.labels_in_lists))
        used_template = _card_part(Template, template_without_names, template, f"{where}: 'template'")
        default_alternatives = generated_alternatives(used_template, labelled.space)
        used_split = _split_of_rows(len(table), split, f"{where}: 'split'")
        if full_label_space is None:
            full_label_space = labelled.space
        card = Card(
            name=name,
            title=name,
            task=task,
            source=source,
            licence=licence,
            citation=citation,
            label_space=labelled.space,  # type: ignore[arg-type]  # the card makes it a tuple, or says what is wrong
            full_label_space=full_label_space,  # type: ignore[arg-type]
            template=used_template,
            alternatives=_card_part(
                TemplateAlternatives, default_alternatives, alternatives, f"{where}: 'alternatives'"
            ),
            split=used_split,
            rows=len(table),
            digests=Digests(table=table.digest),
            offensive=offensive,
            notes=notes,
            labels_in_lists=labelled.labels_in_lists,
        )
        if pinned is None and records.file is not None:
            pinned = dataclasses.replace(
                records.file,
                values=labelled.name_of_value,
                cluster=column_of(cluster),
                subgroups=tuple(subgroup_columns(subgroups)),
            )
        remarks = _remarks(records, table, labelled.indexes, card)
        return cls(card, table, pinned, remarks=remarks, clusters=clusters, subgroups=named_subgroups)

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
        label_separator: str | None = None,
        cluster: ClusterRule = None,
        subgroups: SubgroupRule = None,
        **unknown: NoReturn,
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
            label_separator: As for :meth:`from_rows`.
            cluster: As for :meth:`from_rows`, such as the name of a column with the document of each row.
            subgroups: As for :meth:`from_rows`, such as the name of a column with the domain of each row.
            **unknown: None; an argument of another name is an error, which suggests the nearest.

        Raises:
            TypeError: There is no such argument.
            StaICCError: The file cannot be read without guessing; the message names the place and what to do.
        """
        validate_path("path", path)
        file = Path(path)
        arguments: dict[str, Any] = {
            "name": name,
            "texts": texts,
            "label": label,
            "encoding": encoding,
            "quoting": quoting,
            "columns": columns,
            "labels": labels,
            "split": split,
            "template": template,
            "label_separator": label_separator,
            "cluster": cluster,
            "subgroups": subgroups,
        }
        if unknown:
            first_unknown = next(iter(unknown))
            known = ["path", *arguments, "card"]
            raise TypeError(str(unknown_name("argument of Dataset.from_file", first_unknown, known)))

        # An argument overrides the card.
        facts = _without_none(read_card(file, card))
        facts.update(_without_none(arguments))

        check_quoting(facts.get("quoting"))
        header = table_files.column_header(facts.get("columns"), file.name)
        if ("texts" not in facts or "label" not in facts) and file.is_file():
            usual_columns = _usual_columns(file, facts, header)
            facts = {**usual_columns, **facts}  # what is named stays
        text_columns, label_column = records_module.column_names(
            facts.get("texts", ["text"]), facts.get("label", "label"), file.name
        )
        further = _further_columns(facts, label_column, file.name)
        records = table_files.read_records(
            file,
            columns=columns_to_read(text_columns, label_column, further),
            encoding=facts.get("encoding"),
            quoting=facts.get("quoting"),
            header=header,
        )
        records = with_further_columns(records, text_columns, label_column, further)
        if not facts.get("name"):
            facts["name"] = _name_of_file(file)
        return cls.from_rows(records, **_arguments(facts))

    @classmethod
    def from_pandas(cls, frame: Any, texts: Sequence[str] | str, label: str, *, name: str, **facts: Any) -> Dataset:
        """Make a data set of a pandas data frame.

        Args:
            frame: The data frame.
            texts: Names of the text columns.
            label: Name of the label column.
            name: Its name in results and signatures.
            **facts: ``labels``, the ``label_space`` of :meth:`from_rows`; ``template``, ``split``, ``cluster``,
                ``subgroups``, ...

        Raises:
            StaICCError: The rows cannot be used; the message names the row and what to do.
        """
        where = "the data frame"
        text_columns, label_column = records_module.column_names(texts, label, where)
        further = _further_columns(facts, label_column, where)
        wanted = columns_to_read(text_columns, label_column, further)
        records = records_module.pandas_records(frame, wanted)
        records = with_further_columns(records, text_columns, label_column, further)
        return cls.from_rows(records, **_arguments({"name": name, **facts}))

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
        where = "the data set"
        text_columns, label_column = records_module.column_names(texts, label, where)
        further = _further_columns(facts, label_column, where)
        wanted = columns_to_read(text_columns, label_column, further)
        rows = records_module.huggingface_records(data, wanted)
        records = with_further_columns(rows.records, text_columns, label_column, further)
        return cls.from_rows(records, **_arguments({"name": name, "labels": rows.label_names, **facts}))

    def strata(self) -> tuple[int, ...]:
        """Return for each row the group by which a stratified split divides: its label, or the rarest of its labels."""
        labels = tuple(row.label for row in self.table)
        if self.card.labels_in_lists:
            return rarest_labels(labels, self.card.label_space)
        return labels

    def file_record(self) -> dict[str, Any] | None:
        """Return what a result saves of a data set from a user's file, as a dictionary for JSON.

        It has how the file was read, the card, and the clusters and subgroups of the rows, so that the data set can be
        made again from the file (:meth:`reopen`).

        Returns:
            The record; ``None`` for a data set that is not from a file of the user.
        """
        if not isinstance(self.source, TableFile):
            return None
        values_of_source = cards.plain_values(self.source)
        record: dict[str, Any] = {"file": Path(self.source.path).name}
        for key in ("sha256", "texts", "label", "values", "encoding", "quoting", "columns"):
            record[key] = values_of_source[key]
        record["card"] = self.card.to_dict()
        if self.clusters is not None:
            record["cluster"] = self.source.cluster
            record["clusters"] = list(self.clusters.numbers)
        if self.subgroups:
            record["subgroup_columns"] = list(self.source.subgroups)
            record["subgroups"] = {name: list(groups) for name, groups in self.subgroups.items()}
        return record

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
        recorded = _read_file_record(record, where)
        card = recorded.card
        file = _find_file(recorded.file, places)
        name_in_run = recorded.file.path
        # The file may have another name now. In which format it is, the suffix of its name in the run says.
        format_in_run = table_files.format_suffix(Path(name_in_run))
        source = dataclasses.replace(recorded.file, path=os.fspath(file), suffix=format_in_run)
        try:
            records, label_indexes = table_files.labelled_records(source, card.label_space)
            table = MemoryTable(_pairs_of(records, label_indexes))
            clusters_of_column = clusters_of(records, table, source.cluster)
            subgroups_of_columns = subgroups_of(records, table, source.subgroups)
        except (ArgumentError, SchemaError, UnknownNameError) as error:
            raise SchemaError(f"{where} does not fit the file: {error}") from error

        if card.rows != len(table):
            raise SchemaError(f"{where} names {card.rows} rows, but the file has {len(table)}")
        # Clusters and subgroups that a function of the row made are only in the record.
        if clusters_of_column is not None and clusters_of_column != recorded.clusters:
            raise SchemaError(f"{where} has other clusters than the column {source.cluster!r} of the file")
        for column, groups in subgroups_of_columns.items():
            if recorded.subgroups.get(column) != groups:
                raise SchemaError(f"{where} has other subgroups than the column {column!r} of the file")
        records_named_as_in_run = dataclasses.replace(records, source=name_in_run)
        remarks = _remarks(records_named_as_in_run, table, label_indexes, card)
        return cls(card, table, source, remarks=remarks, clusters=recorded.clusters, subgroups=recorded.subgroups)


def _split_of_rows(row_count: int, given: SplitSizes | Mapping[str, Any] | None, where: str) -> SplitSizes:
    """Return the split of a user's rows: the given sizes, or the default, which is stratified.

    Args:
        row_count: The number of rows.
        given: The sizes that the user names, all or some of them.
        where: What they are, for messages.
    """
    default = default_split(row_count)
    if given is None:
        return default
    # Sizes that a user names are drawn as those of the benchmark, which are not stratified.
    split: SplitSizes = _card_part(SplitSizes, dataclasses.replace(default, stratified=False), given, where)
    return split


def _records_of(rows: Any, label_space: Labels, name: str) -> tuple[Records, Source | None]:
    """Return the rows that :meth:`Dataset.from_rows` was given as records, and the pinned file that they are from.

    Args:
        rows: Records, a pinned file (one with a recorded SHA-256), or pairs of texts and label.
        label_space: The label names, checked.
        name: The name of the data set, for messages.
    """
    if isinstance(rows, Records):
        return rows, None
    if not isinstance(rows, (FileSource, HubSource)):
        return records_module.given_rows(rows, label_space, name), None
    known_labels: Sequence[str] = ()
    if isinstance(label_space, Sequence):
        known_labels = label_space
    pairs = _rows_of_pinned(rows, known_labels)
    return records_module.given_rows(pairs, label_space, name), rows


def _read_labels(records: Records, label_space: Labels, separator: str | None) -> LabelReading:
    """Return the labels of rows as indexes of label names, where each row has one label, or each has a list of labels.

    Args:
        records: The rows.
        label_space: The label names, checked.
        separator: The text between the labels of a row, if the user named one. Then rows have lists of labels.

    Raises:
        ArgumentError: A row has no usable label, or the user named a separator that no label has.
    """
    values = checked_labels(records, label_space)
    has_typed_list = any(elements_of(label) is not None for _, label in records.rows)
    if not are_lists(values, label_space, separator, has_typed_list):
        return read_labels(values, label_space, source=records.source, place=records.place, untyped=records.untyped)
    if separator is not None:
        refuse_unused_separator(values, separator, records.source)
    return read_label_lists(
        values, label_space, separator, source=records.source, place=records.place, untyped=records.untyped
    )


def _pairs_of(records: Records, label_indexes: Sequence[int]) -> list[tuple[Any, int]]:
    """Return the texts and the label index of each row."""
    return [(texts, index) for (texts, _), index in zip(records.rows, label_indexes, strict=True)]


def _table_of(records: Records, label_indexes: Sequence[int]) -> MemoryTable:
    """Return the table of rows; its errors name rows and columns as the records do."""
    return MemoryTable(_pairs_of(records, label_indexes), place=records.place, names=records.columns)


def _usual_columns(file: Path, facts: Mapping[str, Any], header: Sequence[str] | None) -> dict[str, Any]:
    """Return the column names of a file whose only columns are ``label``, and ``text`` or ``sentence``.

    Args:
        file: The file.
        facts: The facts of the card and the arguments.
        header: The names of all columns of a file without a header.

    Raises:
        ArgumentError: The file has other columns, so they have to be named.
    """
    names = table_files.listed_columns(file, facts.get("encoding"), facts.get("quoting"), header)
    for column in ("text", "sentence", "label"):
        if names.count(column) > 1:
            records_module.choose(names, [column], file.name)  # raises the error about columns of one name
    for text_column in ("text", "sentence"):
        if sorted(names) == sorted(["label", text_column]):
            return {"texts": [text_column], "label": "label"}
    advice = table_files.naming_advice(file, names, header)
    if "label" in facts:
        raise ArgumentError(f"{file.name}: name the columns of texts, too, as {argument('texts', ['text'])}{advice}")
    if "texts" in facts:
        raise ArgumentError(f"{file.name}: name the column of labels, too, as {argument('label', 'label')}{advice}")
    texts_and_label = argument("texts", ["text"]) + in_each_syntax(", ", " ") + argument("label", "label")
    raise ArgumentError(f"{file.name}: name the columns, as {texts_and_label}{advice}")


def _further_columns(facts: Mapping[str, Any], label: str, where: str) -> list[str]:
    """Return the columns that are read in addition to texts and label: those of ``subgroups``, then of ``cluster``.

    Both arguments may be functions of the row instead, which need no column.

    Args:
        facts: The arguments of the data set by name, together with those of its card file.
        label: The name of the label column.
        where: The file or the object, for messages.

    Raises:
        ArgumentError: ``subgroups`` or ``cluster`` is neither a name nor a function, or it names the label column.
    """
    columns = subgroup_columns(facts.get("subgroups"))
    advice = f"Subgroups by label need no column: compare with {argument('by', 'label')}"
    refuse_label("subgroups", columns, label, where, advice)
    cluster_column = column_of(facts.get("cluster"))  # None if clusters need no column
    if cluster_column is not None:
        advice = (
            "Name the column that says which rows belong together, such as a document: rows of the same label need not"
        )
        refuse_label("cluster", [cluster_column], label, where, advice)
        columns.append(cluster_column)
    return columns


@dataclass(frozen=True, slots=True)
class _FileRecord:
    """What a saved result has of a data set from a user's file."""

    file: TableFile
    """The file; its path is its name in the run."""
    card: Card
    clusters: Clusters | None
    """``None`` if rows are independent."""
    subgroups: Subgroups


def _read_file_record(record: Mapping[str, Any], where: str) -> _FileRecord:
    """Return the record of a data file in a saved result, after checking all that can be checked without the file.

    Args:
        record: The record, as :meth:`Dataset.file_record` makes it.
        where: What it is, for messages.

    Raises:
        SchemaError: The record is damaged, or names a path in place of a name.
    """
    try:
        saved = dict(read_value(Mapping[str, object], record, where))
        card = Card.from_dict(saved.pop("card", {}))
        name = saved.pop("file", None)
        cluster_numbers = read_value(tuple[int, ...] | None, saved.pop("clusters", None), f"{where}, clusters")
        subgroups = read_value(Mapping[str, tuple[str, ...]], saved.pop("subgroups", {}), f"{where}, subgroups")
        saved["subgroups"] = saved.pop("subgroup_columns", [])
        file: TableFile = read_value(TableFile, {"path": name, **saved}, where)
    except ArgumentError as error:
        raise SchemaError(f"{where} cannot be read: {error}") from error
    if Path(file.path).name != file.path:
        raise SchemaError(f"{where} cannot be read: {file.path!r:.60} is not the name of a file")
    if cluster_numbers is not None and len(cluster_numbers) != card.rows:
        raise SchemaError(f"{where} has clusters of {len(cluster_numbers)} rows, but its card names {card.rows} rows")
    for column, groups in subgroups.items():
        if len(groups) != card.rows:
            raise SchemaError(
                f"{where} has subgroups {column!r:.60} of {len(groups)} rows, but its card names {card.rows} rows"
            )
    clusters = None
    if cluster_numbers is not None:
        clusters = Clusters(file.cluster or FUNCTION, cluster_numbers)
    return _FileRecord(file, card, clusters, subgroups)


def _find_file(recorded: TableFile, places: Sequence[str | os.PathLike[str]]) -> Path:
    """Return the file with the recorded SHA-256.

    Args:
        recorded: The file as it was recorded, by its name.
        places: Files, and folders that may contain the file.

    Raises:
        ArgumentError: None of the places has it.
        DataMissingError: A place is no folder, and cannot be read as a file.
    """
    for path in places:
        place = Path(path)
        if place.is_dir():
            file = place / recorded.path
            if not file.is_file():
                continue
        else:
            file = place
        if table_files.data_file_digest(file) == recorded.sha256:
            return file
    raise ArgumentError(
        f"the file {recorded.path} is not here, or has changed: none has the SHA-256 {recorded.sha256}. Put it next to "
        f"the result, or name it with {in_each_syntax('data_files=[...]', '--data')}"
    )


def _rows_of_pinned(source: FileSource | HubSource, labels: Sequence[str]) -> list[tuple[Any, Any]]:
    """Return the texts and the label of each row of a pinned file, with the names of labels in place of indexes.

    Args:
        source: The file, pinned by its SHA-256.
        labels: The label names, if they are known. An index for which there is no name stays an index.
    """
    rows: list[tuple[Any, Any]] = []
    for texts, label in source.rows(labels):
        if isinstance(label, int) and 0 <= label < len(labels):
            rows.append((texts, labels[label]))
        else:
            rows.append((texts, label))
    return rows


def _remarks(records: Records, table: Table, indexes: Sequence[int], card: Card) -> tuple[str, ...]:
    """Return what is suspicious about the rows of a data set, one sentence each.

    Args:
        records: The rows as they were read.
        table: The rows, checked.
        indexes: The label index of each row.
        card: The card of the data set, with its labels.
    """
    rows = RowsToCheck(
        texts=[table[number].texts for number in range(len(table))],
        given_labels=[label for _, label in records.rows],
        indexes=indexes,
        space=card.label_space,
        place=records.place,
    )
    if not card.labels_in_lists:
        return remarks_on(rows)

    # The checks of labels read one label of a row. So a row with three labels is checked as three rows at one place.
    labels = labels_of_rows(indexes, card.label_space, card.labels_in_lists)
    rows_with_single_labels = RowsToCheck(
        texts=(),
        given_labels=(),
        indexes=[label_of_row.label for label_of_row in labels],
        space=card.labels_in_lists,
        place=lambda number: records.place(labels[number].row),
    )
    return (*remarks_on_labels(rows_with_single_labels), *remarks_on_texts(rows))


def _name_of_file(file: Path) -> str:
    """Return the name of the data set of a file: without its suffix, unless a built-in data set has that name."""
    stem = table_files.uncompressed_name(file).stem
    is_builtin = fold(stem) in cards.catalogue().folded
    if not stem.strip() or is_builtin:
        return file.name
    return stem


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a mapping that have a value."""
    return {key: value for key, value in values.items() if value is not None}


_FACTS_OF_FILE = ("texts", "label", "encoding", "quoting", "columns")
"""The facts of a card that say how its file is read."""


def _arguments(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a card as arguments of :meth:`Dataset.from_rows`, without those about reading a file."""
    check_keys("the arguments", facts, CARD_KEYS)
    arguments = _without_none(facts)
    for key in _FACTS_OF_FILE:
        arguments.pop(key, None)
    if "labels" in arguments:
        arguments["label_space"] = arguments.pop("labels")
    return arguments


def _load_builtin(name: str) -> Dataset:
    """Load a data set of the catalogue; its table is installed if it is not there."""
    card = cards.get_card(name)
    source = cards.catalogue().sources[cards.find(name)]
    if not isinstance(source, ReleasedWheel):
        return Dataset(card, MemoryTable(source.rows(card.label_space)), source)

    from StaICC.datasets import pack

    pack.ensure_installed([card.name])
    try:
        table = FrozenTable(pack.table_path(card.name), pack.expected_digest(card.name))
        return Dataset(card, table, source)
    except DataError as error:
        raise type(error)(f"{error}. Install it again: python -m StaICC data install") from error


def _read_entry(name: str, value: Any) -> Dataset:
    """Return the data set of an entry of the registry.

    Args:
        name: The name of the entry.
        value: A data set, or a function without arguments that returns one. The entries of the catalogue have
            :func:`_load_builtin`, which needs the name.

    Raises:
        ArgumentError: The entry is neither.
    """
    dataset: object = value
    if value is _load_builtin:
        dataset = _load_builtin(name)
    elif callable(value) and not isinstance(value, Dataset):
        dataset = value()
    if not isinstance(dataset, Dataset):
        raise ArgumentError(
            f"got {dataset!r:.80}, expected a Dataset, or a function without arguments that returns one"
        )
    return dataset


def dataset_registry() -> Registry[Dataset]:
    """Return the registry of data sets: those of the catalogue, and those of plug-ins (``staicc.datasets``)."""
    known = cards.catalogue()
    path_of_loader = f"{__name__}:{_load_builtin.__name__}"
    return Registry(
        kind="data set",
        group="staicc.datasets",
        builtin=dict.fromkeys(known.cards, path_of_loader),
        read=_read_entry,
        hint=f"List them with: python -m StaICC data list. For all ten, leave {argument('datasets')} out. For a file: "
        f"{in_each_syntax('Dataset.from_file', '--data FILE')}",
        folded=known.folded,
        named=operator.attrgetter("card.name"),
    )


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
    if not entry.origin:
        return entry.value
    return dataclasses.replace(entry.value, origin=entry.origin)
