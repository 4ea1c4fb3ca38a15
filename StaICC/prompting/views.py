"""The calibration set, the demonstration set, the test set of a data set, each as a sequence of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, SupportsIndex

from StaICC.arguments import validate_integer
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.table import Row, Table
from StaICC.errors import ArgumentError
from StaICC.frozen import FixedAttributes, FrozenList
from StaICC.prompting.split import split_indexes
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from typing_extensions import Self


class Label(str):
    """The label of a row: its text, which also knows its index in the label space of the data set.

    It compares, hashes, concatenates and serialises as the text. ``operator.index(label)`` is the index, and
    ``sequence[label]`` the item at that index. ``int(label)`` and ``float(label)`` read the text: label names may
    be numbers.

    Example:
        >>> label = Label("5", 4)
        >>> label == "5", int(label), ["one", "two", "three", "four", "five"][label]
        (True, 5, 'five')
    """

    __slots__ = ("_index",)
    _index: int

    def __new__(cls, text: str, index: int) -> Label:
        """Make the label with this text and index."""
        label = super().__new__(cls, text)
        label._index = index
        return label

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[type[Label], tuple[str, int]]:
        return Label, (str(self), self._index)

    def __index__(self) -> int:
        return self._index

    def __int__(self) -> int:  # without it, int() would return the index; the same holds for float()
        return int(str(self))

    def __float__(self) -> float:
        return float(str(self))


class SubsetView(FixedAttributes):
    """Some rows of a table, with their label space: a calibration, demonstration or test set.

    This is the object that 0.1.1 calls ``basic_datasets_loader``. It holds row numbers and reads a row when it is
    asked for.

    Args:
        name: What to call it, such as ``"TREC-test"``.
        table: The table.
        indexes: Row numbers of the table.
        label_space: The labels' texts.
    """

    __slots__ = ("_label_space", "_table", "indexes", "name")

    def __init__(self, name: str, table: Table, indexes: Sequence[int], label_space: Sequence[str]) -> None:
        """Keep which rows of the table are those of the set; none is read yet.

        Args:
            name: The name of the set, such as ``"TREC-test"``.
            table: The rows of the whole data set.
            indexes: The row numbers of the set, in its order.
            label_space: The label names.
        """
        self.name = name
        self.indexes = tuple(indexes)
        self._table = table
        self._label_space: list[str] = FrozenList(label_space)

    def __len__(self) -> int:
        return len(self.indexes)

    def __getitem__(self, index: int) -> tuple[list[str], Label]:
        """Return the input texts of row ``index`` of this set, as a list that cannot be changed, and its label."""
        row = self._table[self.indexes[index]]
        return FrozenList(row.texts), Label(self._label_space[row.label], row.label)

    def __iter__(self) -> Iterator[tuple[list[str], Label]]:
        for index in range(len(self)):
            yield self[index]

    def __repr__(self) -> str:
        return one_line(f"<{self.name}: {len(self)} rows, labels {', '.join(self._label_space)}>")

    def row(self, index: int) -> Row:
        """Return row ``index`` of this set, unchanged."""
        return self._table[self.indexes[index]]

    def texts(self, index: int) -> tuple[str, ...]:
        """Return the input texts of row ``index`` of this set."""
        return self._table[self.indexes[index]].texts

    def label(self, index: int) -> int:
        """Return the label index of row ``index`` of this set."""
        return self._table[self.indexes[index]].label

    def label_index_to_text(self, index: SupportsIndex) -> str:
        """Return the text of a label index, or of the label of a row.

        Raises:
            ArgumentError: The label space has no such index.
        """
        return self._label_space[validate_integer("a label index", index, 0, len(self._label_space) - 1)]

    def find_index_from_label(self, label: str) -> int:
        """Return the label index of a label's text.

        Raises:
            ArgumentError: The label space has no such label.
        """
        try:
            return self._label_space.index(label)
        except ValueError:
            known = ", ".join(self._label_space)
            raise ArgumentError(f"{label!r} is no label of {self.name}; labels: {known}") from None

    def get_input_text(self, index: int) -> list[str]:
        """Return the input texts of row ``index`` of this set, as a list that cannot be changed."""
        return FrozenList(self.texts(index))

    def get_label(self, index: int) -> str:
        """Return the text of the label of row ``index`` of this set."""
        return self._label_space[self.label(index)]

    def get_label_space(self) -> list[str]:
        """Return the labels' texts."""
        return list(self._label_space)

    def get_dataset_name(self) -> str:
        """Return the name of this set."""
        return self.name

    def cut_by_index(self, index: int) -> Self:
        """Keep the first rows of this set, for everything that uses it, as StaICC 0.1.1 does.

        Args:
            index: How many rows to keep.

        Returns:
            This set.

        Raises:
            ArgumentError: There are fewer rows.
        """
        row_count = validate_integer("index", index, 0, len(self))
        object.__setattr__(self, "indexes", self.indexes[:row_count])  # plain assignment is refused
        return self

    def split(self, split_indexes: Sequence[Sequence[int]]) -> list[SubsetView]:
        """Return one view for each list of row numbers (of this set)."""
        views = []
        for positions in split_indexes:
            row_numbers = [self.indexes[position] for position in positions]
            views.append(SubsetView(self.name, self._table, row_numbers, self._label_space))
        return views


class AllRows(SubsetView):
    """All rows of a data set, in the order of its table: what 0.1.1 calls the original data.

    Args:
        dataset: The data set.

    Attributes:
        dataset: The data set.
    """

    __slots__ = ("dataset",)

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset.card.name, dataset.table, range(len(dataset.table)), dataset.card.label_space)
        self.dataset = dataset

    def cut_by_index(self, index: int) -> NoReturn:
        """Refuse to cut a data set, whose rows are frozen.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            f"the rows of {self.name} are frozen. Make a data set of the first ones: "
            f"StaICC.Dataset.from_rows(list(rows)[:{index!r}], name='...', label_space=rows.get_label_space())"
        )


@dataclass(frozen=True, slots=True)
class TripletSplit:
    """The three sets of one data set.

    Attributes:
        calibration: The rows for training a calibration.
        demonstration: The rows that demonstrations are drawn from.
        test: The test rows.
        dataset: The data set; ``None`` for the copies that inference methods get, which must not see test labels.
    """

    calibration: SubsetView
    demonstration: SubsetView
    test: SubsetView
    dataset: Dataset | None = field(default=None, compare=False)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many rows the three sets have."""
        return len(self.calibration), len(self.demonstration), len(self.test)

    def require_dataset(self) -> Dataset:
        """Return the data set.

        Raises:
            ArgumentError: The sets are a copy that does not know it.
        """
        if self.dataset is None:
            raise ArgumentError("these sets do not know their data set; use those of benchmark[i].triplet_dataset")
        return self.dataset

    @property
    def dataset_name(self) -> str:
        """The name of the data set."""
        return self.test.name.removesuffix("-test")

    def get_dataset_name(self) -> str:
        """Return the name of the data set."""
        return self.dataset_name

    def get_label_space(self) -> list[str]:
        """Return the labels' texts."""
        return self.test.get_label_space()

    def get_default_ground_truth_label_index(self, index: int) -> int:
        """Return the label index of a test row.

        Raises:
            ArgumentError: The test set has no such row.
        """
        return self.test.label(validate_integer("index", index, 0, len(self.test) - 1))

    def get_default_ground_truth_label(self, index: int) -> str:
        """Return the text of the label of a test row; see :meth:`get_default_ground_truth_label_index`."""
        return self.test.label_index_to_text(self.get_default_ground_truth_label_index(index))


def split_dataset(dataset: Dataset) -> TripletSplit:
    """Split a data set into its calibration, demonstration and test sets.

    Args:
        dataset: The data set; its card has the sizes.

    Returns:
        The three sets.
    """
    card = dataset.card
    strata: tuple[int, ...] = ()  # the group of each row, if the split is stratified
    if card.split.stratified:
        strata = dataset.strata()
    indexes = split_indexes(len(dataset.table), card.split, strata)

    def view(set_name: str, rows: tuple[int, ...]) -> SubsetView:
        """Return one of the sets."""
        return SubsetView(f"{card.name}-{set_name}", dataset.table, rows, card.label_space)

    return TripletSplit(
        calibration=view("calibration", indexes.calibration),
        demonstration=view("demonstration", indexes.demonstration),
        test=view("test", indexes.test),
        dataset=dataset,
    )
