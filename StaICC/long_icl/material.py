"""What the conditions of an experiment are made of: rows of a data set, shown within a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import SharedContext
from StaICC.long_icl.loading import MOST_TURNS, LongICLData
from StaICC.long_icl.prompts import Item, as_shown, write_context, write_demonstration, write_instruction
from StaICC.long_icl.reference_tokens import BYTES_PER_TOKEN, budget_name, byte_size, tokens_of_bytes
from StaICC.prompting.prompt_text import PromptParts


def input_text(item: Item) -> str:
    """Return the input text of an item, by which demonstrations are compared with test items."""
    return " ".join(item.texts)


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """The options of an experiment that its conditions depend on (:class:`~StaICC.long_icl.experiments.Experiment`)."""

    levels: tuple[int, ...]
    shots: int
    seed: int


@dataclass(frozen=True, slots=True)
class Material:
    """What conditions are made of."""

    data: LongICLData
    items: tuple[Item, ...]
    """The test items."""
    instruct: bool
    """Whether prompts show the label list."""

    def published_order(self) -> list[int]:
        """Return the indexes of the training rows in the published order: one row of each label in each turn."""
        row_indexes = []
        for turn in self.data.turns():
            row_indexes.extend(turn)
        return row_indexes

    def shots(self, number: int) -> list[Item]:
        """Return a number of demonstrations of each label, in the published order.

        Raises:
            ArgumentError: A label has fewer.
        """
        largest_number = min(self.data.demonstration_counts().values())
        if number > largest_number:
            raise ArgumentError(
                f"{self.data.card.title}: got {number} shots, but the training data has {largest_number} "
                "demonstrations of every label"
            )
        demonstrations = []
        for turn in self.data.turns(number):
            for row_index in turn:
                demonstrations.append(self.data.train[row_index].item())
        return demonstrations

    def round(self, number: int) -> SharedContext:
        """Return the context of a round; the number of demonstrations is that before dialogues are merged."""
        rows = self.data.demonstration_rows(number)
        context = self.shared_context(as_shown(self.data.card, rows))
        return replace(context, demonstrations=len(rows))

    def shared_context(self, demonstrations: Sequence[Item], size: int = 0) -> SharedContext:
        """Return the context that shows demonstrations to all test items.

        Args:
            demonstrations: The demonstrations, in the order in which they are shown.
            size: Bytes of the context. A shorter context gets irrelevant text before the demonstrations.
        """
        context = self._written(self.data.card, demonstrations, size)
        return SharedContext(
            context=context,
            demonstrations=len(demonstrations),
            shown=tuple(item.gold for item in demonstrations),
            texts=tuple(input_text(item) for item in demonstrations),
        )

    def renamed_context(self, card: TaskCard, demonstrations: Sequence[Item], size: int = 0) -> SharedContext:
        """Return the context that shows demonstrations with other names of the labels to all test items.

        Args:
            card: The card of the data set with these names.
            demonstrations: The demonstrations, whose labels have these names.
            size: As for :meth:`shared_context`.
        """
        original_of_name = dict(zip(card.labels, self.data.card.labels, strict=True))
        shown_labels = []
        for item in demonstrations:
            shown_labels.append(tuple(original_of_name[name] for name in item.gold))
        return SharedContext(
            context=self._written(card, demonstrations, size),
            demonstrations=len(demonstrations),
            shown=tuple(shown_labels),
            texts=tuple(input_text(item) for item in demonstrations),
            label_names=card.labels,
        )

    def _written(self, card: TaskCard, demonstrations: Sequence[Item], size: int) -> PromptParts:
        """Return the text of a context, with irrelevant text up to a size."""
        context = write_context(card, demonstrations, instruct=self.instruct)
        missing_bytes = size - byte_size(context.text)
        if missing_bytes <= 0:
            return context
        return replace(context, instruction=context.instruction + self.data.filler(missing_bytes))

    def instruction_size(self) -> int:
        """Return the bytes of the text before the demonstrations."""
        return byte_size(write_instruction(self.data.card, instruct=self.instruct))

    def demonstration_size(self, item: Item) -> int:
        """Return the bytes that an item takes as a demonstration."""
        return byte_size(write_demonstration(self.data.card, item).text)


# -- budgets


@dataclass(frozen=True, slots=True)
class FilledBudget:
    """As many demonstrations as a budget has room for."""

    name: str
    """The name of the budget, such as ``4K``."""
    demonstrations: list[Item]
    size: int
    """Bytes of instruction and demonstrations. If the demonstrations do not fill the budget, the bytes of the
    budget."""
    reason: str = ""
    """Why the demonstrations do not fill the budget; empty if they do."""


def fill_budgets(
    material: Material, row_indexes: Iterable[int], budgets: Sequence[int], kind: str = ""
) -> list[FilledBudget]:
    """Return for each budget as many demonstrations as it has room for.

    Args:
        material: What conditions are made of.
        row_indexes: The indexes of training rows, in the order in which the rows are shown.
        budgets: The budgets in reference tokens, in rising order.
        kind: Which demonstrations these are, as the end of "77 demonstrations", for messages.
    """
    if not budgets:
        return []
    demonstrations: list[Item] = []
    context_size = material.instruction_size()
    context_sizes = [context_size]  # bytes of the context with 0, 1, 2, ... demonstrations
    for row_index in row_indexes:
        item = material.data.train[row_index].item()
        demonstrations.append(item)
        context_size += material.demonstration_size(item)
        context_sizes.append(context_size)
        if context_size > BYTES_PER_TOKEN * budgets[-1]:
            break

    filled = []
    for budget in budgets:
        name = budget_name(budget)
        budget_size = BYTES_PER_TOKEN * budget
        count = bisect_right(context_sizes, budget_size) - 1  # the largest number of demonstrations that fit
        if count == len(demonstrations):
            reason = _why_not_filled(material, tokens_of_bytes(context_size), f"{count} demonstrations{kind}")
            filled.append(FilledBudget(name, demonstrations, budget_size, reason))
        elif count < 1:
            reason = f"no demonstration fits into {budget} reference tokens"
            filled.append(FilledBudget(name, [], budget_size, reason))
        else:
            filled.append(FilledBudget(name, demonstrations[:count], context_sizes[count]))
    return filled


def _why_not_filled(material: Material, most_tokens: int, demonstrations: str) -> str:
    """Return why the demonstrations of a data set do not fill a budget.

    Args:
        material: What conditions are made of.
        most_tokens: Reference tokens that all demonstrations take.
        demonstrations: Their number and kind, in words.
    """
    is_published = material.data.dataset is None
    source = "training data fills"
    if is_published and len(material.data.turns()) == MOST_TURNS:
        source = f"first {MOST_TURNS} training rows of each label fill"
    reason = (
        f"the {source} only {most_tokens} reference tokens with {demonstrations}. Choose levels below {most_tokens}, "
        f"such as {most_tokens // 4} {most_tokens // 2}"
    )
    if is_published:
        return reason
    return f"{reason}, or {material.data.remedy_for_few_rows}"
