"""The queries of a data set of LongICL, round by round or condition by condition."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from StaICC.benchmarks.task import Condition
from StaICC.errors import ArgumentError
from StaICC.lazy_sequence import LazySequence
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts, UnavailableCondition
from StaICC.long_icl.loading import LongICLData
from StaICC.long_icl.material import Material
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.prompts import Item, write_query
from StaICC.prompting.prompt_text import PromptText
from StaICC.prompting.prompt_writer import Query


def round_name(number: int | str) -> str:
    """Return the name of a round in the paper; the name of a condition of an experiment is returned unchanged.

    Example:
        >>> round_name(3), round_name("zero shots")
        ('3R', 'zero shots')
    """
    if isinstance(number, int):
        return f"{number}R"
    return number


class LongICLQueries:
    """Writes the queries of a data set. It has no state that a user can change: every call returns the same queries.

    Args:
        data: The data set.
        options: The options of the run.

    Attributes:
        card: The card of the data set.
        test_items: The test items, the same in each round.
        contexts: What the prompts of each round show before the query, by the number of the round or the name of the
            condition.
        unavailable: Conditions of the experiment that the data cannot fill, with the reason.

    Raises:
        ArgumentError: An argument cannot be used with this data set.
    """

    def __init__(self, data: LongICLData, options: LongICLOptions) -> None:
        self.card: TaskCard = data.card
        self.test_items: tuple[Item, ...] = tuple(data.test_items(options.limit))
        self.contexts: dict[int | str, Contexts] = {}
        self.unavailable: dict[str, str] = {}
        self._questions = [write_query(self.card, item) for item in self.test_items]
        self._shared_texts: dict[int | str, str] = {}
        material = Material(data, self.test_items, options.instruct)
        for number, contexts in _contexts_of(material, options).items():
            if isinstance(contexts, UnavailableCondition):
                self.unavailable[round_name(number)] = contexts.reason
            else:
                self.contexts[number] = contexts
        if not self.contexts:
            reasons = _reasons_of_conditions(self.unavailable)
            raise ArgumentError(f"{self.card.title}: the experiment has no condition: {reasons}")
        self._number_by_name = {round_name(number): number for number in self.contexts}

    @property
    def rounds(self) -> tuple[int | str, ...]:
        """The rounds, or the names of the conditions of the experiment."""
        return tuple(self.contexts)

    def number_of(self, condition_name: str) -> int | str:
        """Return the round of a condition; of an experiment, the name of the condition."""
        return self._number_by_name[condition_name]

    def context(self, number: int | str, position: int = 0) -> str:
        """Return the text before the query, which all prompts of a round share.

        Args:
            number: The round, or the name of a condition.
            position: The test item, for conditions with a context for each.
        """
        contexts = self.contexts[number]
        if not contexts.shared:
            return contexts.context_of(position).text
        if number not in self._shared_texts:  # one text for the round, not one for each query
            self._shared_texts[number] = contexts.context_of(position).text
        return self._shared_texts[number]

    def prompt(self, number: int | str, position: int) -> str:
        """Return the text of a prompt.

        Args:
            number: The round, or the name of a condition.
            position: The test item.
        """
        return self.context(number, position) + self._questions[position]

    def label_names(self, number: int | str, position: int) -> tuple[str, ...]:
        """Return what a prompt calls the labels, in the order of the card.

        Args:
            number: The round, or the name of a condition.
            position: The test item.
        """
        names = self.contexts[number].labels_of(position)
        if not names:
            return self.card.labels
        return names

    def write(self, number: int | str, position: int) -> Query:
        """Return a query. Its label is the index of the true label, or -1 if its item has several.

        Args:
            number: The round, or the name of a condition.
            position: The test item.
        """
        contexts = self.contexts[number]
        item = self.test_items[position]
        true_label_index = -1
        if not self.card.structured:
            true_label_index = self.card.labels.index(item.gold[0])
        parts = replace(contexts.context_of(position), question=self._questions[position])
        text = None  # written from the parts when it is read
        if contexts.shared:
            text = self.prompt(number, position)
        prompt = PromptText(parts, text)
        return Query(prompt, self.label_names(number, position), true_label_index, item.row, repeat=0)

    def of_round(self, number: int | str) -> Sequence[Query]:
        """Return the queries of a round, each written when it is read: 500 long prompts would take 100 MB."""
        return LazySequence(functools.partial(self.write, number), len(self.test_items))

    def without_labels(self) -> LongICLQueries:
        """Return a copy in which each test item has the first label of the card. Its prompts are the same."""
        first_label = self.card.labels[0]
        items = [replace(item, gold=(first_label,) * len(item.gold)) for item in self.test_items]
        return self._copy(items)

    def with_query(self, texts: tuple[str, ...]) -> LongICLQueries:
        """Return a copy in which these texts take the place of those of every test item, after the same contexts."""
        items = [replace(item, texts=texts) for item in self.test_items]
        copied = self._copy(items)
        copied._questions = [write_query(self.card, item) for item in items]
        return copied

    def _copy(self, items: Sequence[Item]) -> LongICLQueries:
        """Return a copy with other test items."""
        copied = copy.copy(self)
        copied.test_items = tuple(items)
        return copied

    def conditions(self) -> list[Condition]:
        """Return the conditions: named lists of queries."""
        return [Condition(round_name(number), self.of_round(number)) for number in self.contexts]

    def place_of(self, number: int | str, position: int) -> str:
        """Return the name of a query in messages.

        Args:
            number: The round, or the name of a condition.
            position: The test item.
        """
        is_round = isinstance(number, int)  # the condition of an experiment has a name
        kind = "round" if is_round else "condition"
        row = self.test_items[position].row
        return f"{self.card.title}, {kind} {number}, query {position} (row {row})"


def _contexts_of(material: Material, options: LongICLOptions) -> Mapping[int | str, Contexts | UnavailableCondition]:
    """Return what the prompts of each round, or of each condition of the experiment, show before the query."""
    contexts: dict[int | str, Contexts | UnavailableCondition] = {}
    if options.experiment is not None:
        contexts.update(options.experiment.conditions(material))
        return contexts
    for number in options.rounds:
        contexts[number] = material.round(number)
    return contexts


def _reasons_of_conditions(unavailable: Mapping[str, str]) -> str:
    """Return why conditions are unavailable, each reason once with all conditions that have it."""
    names_of_reason: dict[str, list[str]] = {}
    for name, reason in unavailable.items():
        names_of_reason.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in names_of_reason.items())
