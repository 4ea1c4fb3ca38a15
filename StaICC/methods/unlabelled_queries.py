"""Test queries as a method gets them: without their true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, overload

from StaICC.errors import ArgumentError
from StaICC.prompting.prompt_text import Prompt, PromptParts
from StaICC.prompting.prompt_writer import Query, parts_of_prompt


@dataclass(frozen=True, slots=True)
class UnlabelledQuery:
    """A test query without its true label."""

    prompt: Prompt
    """What the inference function gets."""
    label_space: tuple[str, ...]
    """The labels that it chooses from."""
    row: int
    """Position of the test example in the test set."""
    repeat: int
    """Which of the repeats of this row it is."""
    last_label: int | None = None
    """Label of the last demonstration; ``None`` without demonstrations, or where labels are falsified."""

    @property
    def parts(self) -> PromptParts | None:
        """Instruction, demonstrations and question of the prompt, as :attr:`Query.parts`."""
        return parts_of_prompt(self.prompt)

    @property
    def label(self) -> NoReturn:
        """The true label, which a method does not get.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "query.label: a method does not get the labels of test queries. Rows of data.calibration_set and "
            "data.demonstration_set have labels (row.label)"
        )

    def with_prompt(self, prompt: Prompt) -> UnlabelledQuery:
        """Return the query with another prompt about the same test example, which is asked instead.

        The demonstrations of this prompt are counted for the query, as those of :meth:`MethodData.on`.

        Args:
            prompt: The prompt.
        """
        return replace(self, prompt=prompt)


class UnlabelledQueries(Sequence[UnlabelledQuery]):
    """Queries without their true labels. Each is made when it is needed, as prompts of benchmarks may be."""

    def __init__(self, queries: Sequence[Query]) -> None:
        """Show these queries, which are read when one is needed, without their labels."""
        self._queries = queries

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, index: int) -> UnlabelledQuery: ...
    @overload
    def __getitem__(self, index: slice) -> list[UnlabelledQuery]: ...
    def __getitem__(self, index: int | slice) -> UnlabelledQuery | list[UnlabelledQuery]:
        """Return the query at a position, or a list of the queries of a slice, without their true labels."""
        if isinstance(index, slice):
            return [_without_label(query) for query in self._queries[index]]
        return _without_label(self._queries[index])


@dataclass(frozen=True)
class UnlabelledCondition:
    """A named list of queries without their true labels."""

    name: str
    queries: Sequence[UnlabelledQuery]


def _without_label(query: Query) -> UnlabelledQuery:
    """Return all of a query but its true label."""
    return UnlabelledQuery(query.prompt, query.label_space, query.row, query.repeat, query.last_label)
