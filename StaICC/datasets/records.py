"""Records: rows of a user's data set as they were read, before their labels become indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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


@dataclass(frozen=True, slots=True)
class Records:
    """Rows as they were read: input texts and a label, which may be missing or a number."""

    source: str
    """The file or the object, for messages; empty for rows of a program."""
    rows: Sequence[tuple[Any, Any]]
    numbers: Sequence[int]
    """The number of each row: its last line in a text file, otherwise its position from 0."""
    unit: str = "line"
    file: TableFile | None = None
    """The file that they are from, without the names of the labels."""
    columns: Sequence[str] = ()
    """Names of the columns, that of the label last; none for rows of a program."""
    malformed: RowProblem | None = None
    """The rows that could not be read."""
    untyped: bool = False
    """Whether the format has texts only, so that a text may be a number or a Boolean."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        position = f"{self.unit} {self.numbers[row]}"
        return f"{self.source}, {position}" if self.source else position


def choose(names: Sequence[object], wanted: Sequence[str], source: str) -> list[int]:
    """Return the positions of columns by name.

    Args:
        names: The columns that there are.
        wanted: The columns to find.
        source: Where, for messages.

    Raises:
        UnknownNameError: A column is missing; the nearest name is suggested.
        ArgumentError: A column appears twice.
    """
    positions = []
    for name in wanted:
        if names.count(name) > 1:
            raise ArgumentError(
                f"{source}: {names.count(name)} columns are called {name!r}. Rename all but one, or, if these are no "
                "names but a row, name all columns with columns=[...]"
            )
        if name not in names:
            shown = [text if len(text) <= 40 else text[:37] + "..." for text in map(str, names)]
            if not shown:
                raise ArgumentError(f"{source} has no columns, expected {', '.join(wanted)}")
            raise unknown_name(f"column of {source}", name, shown)
        positions.append(names.index(name))
    return positions


def of_columns(source: str, columns: Sequence[Sequence[object]], names: Sequence[str]) -> Records:
    """Return the rows of columns, of which the last has the labels."""
    rows = list(zip(zip(*columns[:-1], strict=True), columns[-1], strict=True))
    return Records(source, rows, range(len(rows)), "row", columns=names)


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
    pairs = []
    for number, row in enumerate(rows):
        try:
            texts, label = split_pair(row)
            pairs.append((texts, _named_label(label, labels, name)))
        except ArgumentError as error:
            raise ArgumentError(f"row {number}: {error}") from None
    return Records("", pairs, range(len(pairs)), "row")


def _named_label(label: object, labels: Labels, name: str) -> object:
    """Return the label of a row of a program; the name of an index into a list of label names.

    Raises:
        ArgumentError: An index is not one of the list, or may be another label's name.
    """
    if not isinstance(labels, Sequence) or isinstance(label, str):
        return label
    refuse_numbers_with_two_meanings(label, labels)
    index = whole_number(label)
    if index is None:
        return label
    if not 0 <= index < len(labels):
        known = f"the label space of {name!r} has {len(labels)} labels (indexes 0 to {len(labels) - 1})"
        raise ArgumentError(f"the label index is {index}, but {known}")
    return labels[index]


def column_names(texts: object, label: object, where: str) -> tuple[list[str], str]:
    """Return the names of the columns, checked."""
    chosen = [texts] if isinstance(texts, str) else texts
    if not isinstance(chosen, Sequence) or not chosen or not all(isinstance(name, str) for name in chosen):
        raise ArgumentError(f"{where}: texts: got {texts!r:.60}, expected names of text columns, such as ['text']")
    if not isinstance(label, str):
        raise ArgumentError(f"{where}: label: got {label!r:.60}, expected the name of the label column")
    if label in chosen or len(set(chosen)) < len(chosen):
        raise ArgumentError(f"{where}: a column is used twice: got texts {', '.join(chosen)} and label {label}")
    return list(chosen), label


def pandas_records(frame: Any, texts: Sequence[str] | str, label: str) -> Records:
    """Return the rows of a data frame; see :meth:`StaICC.datasets.dataset.Dataset.from_pandas`."""
    pandas = require("pandas", "data", "Dataset.from_pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise ArgumentError(f"from_pandas: got {type(frame).__name__}, expected a pandas.DataFrame")
    texts, label = column_names(texts, label, "the data frame")
    positions = choose(list(map(str, frame.columns)), [*texts, label], "the data frame")
    columns = [frame.iloc[:, position].astype(object) for position in positions]
    # pandas has several values for a missing cell; all become None.
    values = [column.where(column.notna(), None).tolist() for column in columns]
    return of_columns("the data frame", values, [*texts, label])


def huggingface_records(data: Any, texts: Sequence[str] | str, label: str) -> tuple[Records, list[str] | None]:
    """Return the rows and the label names; see :meth:`StaICC.datasets.dataset.Dataset.from_huggingface`."""
    library = require("datasets", "data", "Dataset.from_huggingface")
    if isinstance(data, library.DatasetDict):
        splits = ", ".join(map(str, data))
        raise ArgumentError(f"from_huggingface: got a DatasetDict. Choose one of its splits: {splits}")
    if isinstance(data, library.IterableDataset | library.IterableDatasetDict):
        advice = "Load it without streaming=True, or pass datasets.Dataset.from_list(list(data)) of a split"
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, which has no number of rows. {advice}")
    if not isinstance(data, library.Dataset):
        raise ArgumentError(f"from_huggingface: got {type(data).__name__}, expected a datasets.Dataset")
    texts, label = column_names(texts, label, "the data set")
    choose(data.column_names, [*texts, label], "the data set")
    columns = [list(data[column]) for column in (*texts, label)]
    feature, names = data.features[label], None
    if isinstance(feature, library.ClassLabel):
        names = list(feature.names)
        known = range(len(names))  # -1 marks a row without a label
        columns[-1] = [names[index] if index in known else None for index in columns[-1]]
    return of_columns("the data set", columns, [*texts, label]), names
