"""Records: rows of a user's data set as they were read, before their labels become indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeGuard

from StaICC.argument_syntax import argument
from StaICC.arguments import whole_number
from StaICC.datasets.label_values import Labels, refuse_numbers_with_two_meanings
from StaICC.datasets.row_problems import RowProblem
from StaICC.datasets.table import split_pair
from StaICC.errors import ArgumentError, unknown_name
from StaICC.optional import require


@dataclass(frozen=True, slots=True)
class TableFile:
    """A user's file with named columns, pinned by its SHA-256."""

    kind: ClassVar[str] = "table file"
    path: str
    sha256: str
    texts: tuple[str, ...]
    """The columns of the input texts."""
    label: str
    """The column of the labels."""
    values: Mapping[str, str]
    """The label name of each value of the label column."""
    encoding: str | None = None
    suffix: str | None = None
    """The suffix that names the format, if the path has another."""
    quoting: str | None = None
    """How double quotes were read, if the user stated it."""
    columns: tuple[str, ...] | None = None
    """The names of all columns of a file without a header."""
    cluster: str | None = None
    """The column that rows of a cluster share; ``None`` if there are no clusters, or if a function makes them."""
    subgroups: tuple[str, ...] = ()
    """The columns with the subgroup of each row."""

    @property
    def further_columns(self) -> list[str]:
        """The columns next to texts and label."""
        columns = list(self.subgroups)
        if self.cluster is not None:
            columns.append(self.cluster)
        return columns


@dataclass(frozen=True, slots=True)
class Records:
    """Rows as they were read: input texts and a label, which may be missing or a number."""

    source: str
    """The file or the object, for messages; empty for rows that a script passes in a list."""
    rows: Sequence[tuple[Any, Any]]
    """The input texts and the label of each row."""
    numbers: Sequence[int]
    """The number of each row: its last line in a text file, otherwise its position from 0."""
    unit: str = "line"
    """What ``numbers`` counts: ``"line"`` or ``"row"``."""
    file: TableFile | None = None
    """The file that the rows are from; its ``values`` are empty, because labels have no names yet."""
    columns: Sequence[str] = ()
    """Names of the columns, that of the label last; none for rows that a script passes in a list."""
    malformed: RowProblem | None = None
    """The rows that could not be read."""
    untyped: bool = False
    """Whether the format has texts only, so that a text may be a number or a Boolean."""
    further: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """The value of each row in further columns, such as that of the clusters, by the name of the column."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        position = f"{self.unit} {self.numbers[row]}"
        if not self.source:
            return position
        return f"{self.source}, {position}"


_LONGEST_NAME = 40
"""The longest name of a column that a message has in full: a header may be a row of long texts."""


def choose(names: Sequence[object], wanted: Sequence[str], source: str, may_lack_header: bool = False) -> list[int]:
    """Return the positions of columns by name.

    Args:
        names: The columns that there are.
        wanted: The columns to find.
        source: The file or the object, for messages.
        may_lack_header: Whether the columns are the first line of a file, which may be a row.

    Raises:
        UnknownNameError: A column is missing; the nearest name is suggested.
        ArgumentError: A column appears twice, or there are no columns.
    """
    positions = []
    for name in wanted:
        if names.count(name) > 1:
            raise ArgumentError(
                f"{source}: {names.count(name)} columns are called {name!r}. Rename all but one, or, if these are no "
                f"names but a row, name all columns with {argument('columns')}"
            )
        if name not in names:
            if not names:
                raise ArgumentError(f"{source} has no columns, expected {', '.join(wanted)}")
            known_names = [shortened_name(str(column)) for column in names]
            hint = ""
            if may_lack_header:
                hint = f"If these are a row, name all columns with {argument('columns')}"
            raise unknown_name(f"column of {source}", name, known_names, hint)
        positions.append(names.index(name))
    return positions


def shortened_name(name: str) -> str:
    """Return the name of a column for a message."""
    if len(name) <= _LONGEST_NAME:
        return name
    return name[: _LONGEST_NAME - 3] + "..."


def of_columns(source: str, columns: Sequence[Sequence[object]], names: Sequence[str]) -> Records:
    """Return the rows of columns of equal length.

    The columns ``["It rains.", "It snows."]`` and ``["wet", "cold"]`` have the rows ``(("It rains.",), "wet")`` and
    ``(("It snows.",), "cold")``.

    Args:
        source: The object, for messages.
        columns: The values of each column, that of the label last.
        names: The names of the columns.
    """
    text_columns = columns[:-1]
    labels = columns[-1]
    texts_of_rows = zip(*text_columns, strict=True)
    rows = list(zip(texts_of_rows, labels, strict=True))
    return Records(source, rows, numbers=range(len(rows)), unit="row", columns=names)


def given_rows(rows: Any, labels: Labels, name: str) -> Records:
    """Return rows that a script passes as pairs of texts and label, with label names in place of label indexes.

    Args:
        rows: Pairs of a text (or several) and a label: a label name, or an index into the label names.
        labels: The label names.
        name: The name of the data set, for messages.

    Raises:
        ArgumentError: A row is no pair, or an index is not one of the label names.
    """
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise ArgumentError(f"rows: expected (text or texts, label) pairs, got {rows!r:.80}")
    pairs = []
    for number, row in enumerate(rows):
        try:
            texts, label = split_pair(row)
            pairs.append((texts, _named_label(label, labels, name)))
        except ArgumentError as error:
            raise ArgumentError(f"row {number}: {error}") from None
    return Records("", pairs, numbers=range(len(pairs)), unit="row")


def _named_label(label: object, labels: Labels, name: str) -> object:
    """Return the label name of a row whose label is an index into a list of label names; other labels unchanged.

    Args:
        label: The label of a row that a script passes: a label name or an index, or a list of labels.
        labels: The label names, if the script passes a list of them; a mapping or ``None`` otherwise.
        name: The name of the data set, for messages.

    Raises:
        ArgumentError: The index is outside of the list, or is also the name of another label.
    """
    if not isinstance(labels, Sequence) or isinstance(label, str):  # no index, or no list to look it up in
        return label
    refuse_numbers_with_two_meanings(label, labels)
    index = whole_number(label)
    if index is None:
        return label
    if index < 0 or index >= len(labels):
        raise ArgumentError(
            f"the label index is {index}, but the label space of {name!r} has {len(labels)} labels (indexes 0 to "
            f"{len(labels) - 1})"
        )
    return labels[index]


def column_names(texts: object, label: object, where: str) -> tuple[list[str], str]:
    """Return the names of the text columns and of the label column, after checking them.

    Args:
        texts: One name, or a sequence of names.
        label: One name.
        where: The file or the object, for messages.

    Raises:
        ArgumentError: They are no names, or a column is named twice.
    """
    if isinstance(texts, str):
        text_columns: object = [texts]
    else:
        text_columns = texts
    if not _are_names(text_columns):
        raise ArgumentError(f"{where}: texts: got {texts!r:.60}, expected names of text columns, such as ['text']")
    if not isinstance(label, str):
        raise ArgumentError(f"{where}: label: got {label!r:.60}, expected the name of the label column")
    if label in text_columns or len(set(text_columns)) < len(text_columns):
        shown = ", ".join(text_columns)
        raise ArgumentError(f"{where}: a column is used twice: got texts {shown} and label {label}")
    return list(text_columns), label


def _are_names(value: object) -> TypeGuard[Sequence[str]]:
    """Return whether a value is a sequence of at least one text."""
    if not isinstance(value, Sequence) or not value:
        return False
    return all(isinstance(name, str) for name in value)


def pandas_records(frame: Any, wanted: Sequence[str]) -> Records:
    """Return the rows of a data frame; see :meth:`StaICC.datasets.dataset.Dataset.from_pandas`.

    Args:
        frame: The data frame.
        wanted: The names of the columns to read, that of the label last.
    """
    pandas = require("pandas", "data", "Dataset.from_pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise ArgumentError(f"from_pandas: got {type(frame).__name__}, expected a pandas.DataFrame")
    available = [str(column) for column in frame.columns]
    values_by_column = []
    for position in choose(available, wanted, "the data frame"):
        column = frame.iloc[:, position].astype(object)
        # pandas has several values for a missing cell; all become None.
        values_by_column.append(column.where(column.notna(), None).tolist())
    return of_columns("the data frame", values_by_column, wanted)


class HuggingFaceRows(NamedTuple):
    """The rows of a Hugging Face data set, with the names of its class labels."""

    records: Records
    label_names: list[str] | None
    """In the order of the indexes of the classes; ``None`` if the label column is none of class labels."""


def huggingface_records(data: Any, wanted: Sequence[str]) -> HuggingFaceRows:
    """Return the rows of a Hugging Face data set; see :meth:`StaICC.datasets.dataset.Dataset.from_huggingface`.

    A class label is an index in the data, and its name in the rows.

    Args:
        data: One split.
        wanted: The names of the columns to read, that of the label last.
    """
    library = require("datasets", "data", "Dataset.from_huggingface")
    _refuse_other_than_a_split(data, library)
    choose(data.column_names, wanted, "the data set")  # raises if a column is missing
    text_columns = [list(data[name]) for name in wanted[:-1]]
    labels: list[Any] = list(data[wanted[-1]])
    label_names = None
    label_type = data.features[wanted[-1]]
    type_of_elements = getattr(label_type, "feature", None)  # of a column of lists
    if isinstance(label_type, library.ClassLabel):
        label_names = list(label_type.names)
        labels = _class_names(labels, label_names)
    elif isinstance(type_of_elements, library.ClassLabel):
        label_names = list(type_of_elements.names)
        labels = [_class_names(indexes, label_names) for indexes in labels]
    records = of_columns("the data set", [*text_columns, labels], wanted)
    return HuggingFaceRows(records, label_names)


def _refuse_other_than_a_split(data: Any, library: Any) -> None:
    """Refuse what is not one split with a number of rows.

    Args:
        data: The object.
        library: The module ``datasets``.

    Raises:
        ArgumentError: It is no ``datasets.Dataset``.
    """
    if isinstance(data, library.DatasetDict):
        splits = ", ".join(map(str, data))
        raise ArgumentError(f"from_huggingface: got a DatasetDict. Choose one of its splits: {splits}")
    if isinstance(data, library.IterableDataset | library.IterableDatasetDict):
        raise ArgumentError(
            f"from_huggingface: got {type(data).__name__}, which has no number of rows. Load it without "
            "streaming=True, or pass datasets.Dataset.from_list(list(data)) of a split"
        )
    if not isinstance(data, library.Dataset):
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, expected a datasets.Dataset")


def _class_names(indexes: Sequence[int | None], names: Sequence[str]) -> list[str | None]:
    """Return the name of each class label; ``None`` for -1, which marks a row without a label."""
    class_names: list[str | None] = []
    for index in indexes:
        if index is not None and index in range(len(names)):
            class_names.append(names[index])
        else:
            class_names.append(None)
    return class_names
