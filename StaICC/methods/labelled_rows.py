"""Rows of a set as a method gets them: it is recorded of which rows the label was read.

Labelled examples are what a method costs its user besides tokens. A row whose text alone is read needs no label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from StaICC.prompting.views import Label, SubsetView
from StaICC.safe_text import one_line


class LabelledRow(Sequence[Any]):
    """A row: its input texts and its label. It is also the pair ``(texts, label)``, as the sets of 0.1.1 return it."""

    __slots__ = ("_rows", "position")

    def __init__(self, rows: LabelledRows, position: int) -> None:
        """Name a row of a set; its texts and its label are read from the set when they are needed.

        Args:
            rows: The set.
            position: The position of the row in the set.
        """
        self._rows = rows
        self.position = position

    @property
    def texts(self) -> list[str]:
        """The input texts."""
        return self._rows.texts(self.position)

    @property
    def label(self) -> int:
        """The index of the label in the label space; reading it is recorded."""
        return self._rows.label(self.position)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        """Return the input texts (index 0) or the label as text (index 1); reading the label is recorded."""
        if index == 0:
            return self.texts
        if index == 1:
            return self._rows.named_label(self.position)
        raise IndexError(f"a row is a pair of texts and label: got the index {index!r}, expected 0 or 1")

    def __repr__(self) -> str:
        return f"<row {self.position} of {self._rows!r}>"


class LabelledRows(Sequence[LabelledRow]):
    """The rows of a set, which record whose labels are read."""

    __slots__ = ("_labels_read", "_view")

    def __init__(self, view: SubsetView, labels_read: set[int]) -> None:
        """Show the rows of a set.

        Args:
            view: The set.
            labels_read: Gets the position of each row whose label is read.
        """
        self._view = view
        self._labels_read = labels_read

    def texts(self, position: int) -> list[str]:
        """Return the input texts of a row; its label is not read."""
        return list(self._view.texts(position))

    def label(self, position: int) -> int:
        """Return the index of a row's label, which is recorded."""
        self._labels_read.add(position)
        return self._view.label(position)

    def named_label(self, position: int) -> Label:
        """Return the label of a row as text that knows its index, which is recorded."""
        self._labels_read.add(position)
        _, label = self._view[position]
        return label

    def positions_by_label(self) -> list[list[int]]:
        """Return the positions of the rows of each label that the set has, in the order of the label space.

        This is not recorded: a set can be sorted by label, and who draws some rows of each group needs those labels
        only, which are recorded when they are read.
        """
        positions: dict[int, list[int]] = {}
        for position in range(len(self)):
            positions.setdefault(self._view.label(position), []).append(position)
        return [positions[label] for label in sorted(positions)]

    def __len__(self) -> int:
        return len(self._view)

    @overload
    def __getitem__(self, index: int) -> LabelledRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[LabelledRow]: ...
    def __getitem__(self, index: int | slice) -> LabelledRow | list[LabelledRow]:
        """Return the row at a position, or a list of the rows of a slice; no label is read."""
        positions = range(len(self))  # it understands negative positions, and refuses those outside
        if isinstance(index, slice):
            return [LabelledRow(self, position) for position in positions[index]]
        return LabelledRow(self, positions[index])

    def __iter__(self) -> Iterator[LabelledRow]:
        return (LabelledRow(self, position) for position in range(len(self)))

    def __repr__(self) -> str:
        return one_line(f"<{len(self)} rows of {self._view.name}>")
