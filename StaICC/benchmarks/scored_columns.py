"""Scored queries as columns of numbers, which take the place of prompts with lists of scores until a run ends.

Of a million queries with three labels, prompts and lists of scores take 1.3 GB, columns 64 MB.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, overload

from StaICC.prompting.prompt_writer import Query

_NO_LABEL = -1
"""The number in the place of a missing label in a column of label indexes."""


class ScoredQueries(Sequence[Query]):
    """A sequence of queries without their prompts, which are stored as columns of numbers.

    There is one column for the labels, one for the test rows, and so on. An item is a
    :class:`~StaICC.prompting.prompt_writer.Query` with an empty prompt. It is made from the columns when it is read.

    Args:
        queries: The queries of a condition.
    """

    __slots__ = ("_label_spaces", "_labels", "_last_labels", "_repeats", "_rows")

    def __init__(self, queries: Sequence[Query]) -> None:
        """Copy the numbers of the queries into arrays of 64-bit integers, with 8 bytes for each number.

        Label spaces stay a list: its items are mostly the same object.
        """
        self._label_spaces = [query.label_space for query in queries]
        self._labels = array("q", [query.label for query in queries])
        self._rows = array("q", [query.row for query in queries])
        self._repeats = array("q", [query.repeat for query in queries])
        self._last_labels = array("q", [_number_of_label(query.last_label) for query in queries])

    def __len__(self) -> int:
        return len(self._label_spaces)

    @overload
    def __getitem__(self, index: int) -> Query: ...

    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...

    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        """Return a query without its prompt, or a list of queries."""
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        return Query(
            prompt="",
            label_space=self._label_spaces[index],
            label=self._labels[index],
            row=self._rows[index],
            repeat=self._repeats[index],
            last_label=_label_of_number(self._last_labels[index]),
        )

    def __iter__(self) -> Iterator[Query]:
        columns = zip(self._label_spaces, self._labels, self._rows, self._repeats, self._last_labels, strict=True)
        for label_space, label, row, repeat, last_label in columns:
            yield Query("", label_space, label, row, repeat, _label_of_number(last_label))


def _number_of_label(label: int | None) -> int:
    """Return a label index as a number for a column: itself, or -1 if there is no label (``None``)."""
    return _NO_LABEL if label is None else label


def _label_of_number(number: int) -> int | None:
    """Return the label index of a number in a column; ``None`` for -1 (:func:`_number_of_label`)."""
    return None if number == _NO_LABEL else number


class ScoreRows(Sequence[list[float]]):
    """The label scores of queries, stored as one column of numbers.

    An item is the list of the scores of one query. It is made from the column when it is read. With three labels, the
    numbers 0, 1 and 2 of the column are the scores of the first query, the numbers 3, 4 and 5 those of the second.

    Args:
        numbers: The scores of all queries, one after the other.
        width: The number of labels, which is the number of scores of each query.
    """

    __slots__ = ("_numbers", "_width")

    def __init__(self, numbers: memoryview, width: int) -> None:
        self._numbers = numbers
        self._width = width

    def __len__(self) -> int:
        return len(self._numbers) // self._width

    @overload
    def __getitem__(self, index: int) -> list[float]: ...

    @overload
    def __getitem__(self, index: slice) -> ScoreRows: ...

    def __getitem__(self, index: int | slice) -> list[float] | ScoreRows:
        """Return the scores of a query, or those of successive queries.

        Raises:
            ValueError: A slice leaves out queries, or turns their order.
        """
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"rows of scores have slices of successive rows only: got the step {step}")
            return ScoreRows(self._numbers[start * self._width : stop * self._width], self._width)
        number = range(len(self))[index]
        scores: list[float] = list(self._numbers[number * self._width : (number + 1) * self._width])
        return scores

    def __iter__(self) -> Iterator[list[float]]:
        for start in range(0, len(self._numbers), self._width):
            yield list(self._numbers[start : start + self._width])


def score_rows(answers: Sequence[Any]) -> ScoreRows | None:
    """Return the label scores of all predictions as one column of numbers; ``None`` if they do not fit into one.

    They do not fit if a prediction has no label scores, or if two predictions have different numbers of scores.

    Args:
        answers: The predictions and failures, in order.
    """
    if not answers or not isinstance(answers[0], list):
        return None
    width = len(answers[0])
    numbers = array("d")
    for answer in answers:
        if not isinstance(answer, list) or len(answer) != width:
            return None
        numbers.extend(answer)
    return ScoreRows(memoryview(numbers), width)
