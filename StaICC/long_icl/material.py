"""What the conditions of an experiment are made of: rows of a data set, shown within a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.loading import MOST_TURNS, LongICLData
from StaICC.long_icl.prompts import Item, as_shown, write_context, write_demonstration, write_instruction
from StaICC.long_icl.reference_tokens import BYTES_PER_TOKEN, budget_name, byte_size, tokens_of_bytes


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
        """Return the training rows in the published order: one of each label in each turn."""
        rows = []
        for turn in self.data.turns():
            rows.extend(turn)
        return rows

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
            demonstrations += [self.data.train[row].item() for row in turn]
        return demonstrations

    def round(self, number: int) -> Contexts:
        """Return the contexts of a round; the number of demonstrations is that before dialogues are merged."""
        rows = self.data.demonstration_rows(number)
        contexts = self.contexts(as_shown(self.data.card, rows))
        return replace(contexts, demonstrations=len(rows))

    def contexts(self, shown: Sequence[Item], card: TaskCard | None = None, size: int = 0) -> Contexts:
        """Return the contexts that show demonstrations to all test items.

        Args:
            shown: The demonstrations.
            card: A card with other names of the labels, which the demonstrations have; by default, that of the data.
            size: Bytes of the context; a shorter one gets irrelevant text before the demonstrations.
        """
        original_labels = self.data.card.labels
        card = card or self.data.card
        context = write_context(card, shown, instruct=self.instruct)
        missing_bytes = size - byte_size(context.text)
        if missing_bytes > 0:
            context = replace(context, instruction=context.instruction + self.data.filler(missing_bytes))

        original_of_name = dict(zip(card.labels, original_labels, strict=True))
        shown_labels = tuple(tuple(original_of_name[name] for name in item.gold) for item in shown)
        return Contexts(
            context=context,
            demonstrations=len(shown),
            labels=() if card.labels == original_labels else card.labels,
            shown=(shown_labels,),
            texts=tuple(input_text(item) for item in shown),
        )

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
    """Bytes of instruction and demonstrations; of a budget that is not filled, the bytes of the budget."""
    reason: str
    """Why the demonstrations do not fill the budget; empty if they do."""


def fill_budgets(material: Material, rows: Iterable[int], budgets: Sequence[int], kind: str = "") -> list[FilledBudget]:
    """Return for each budget as many demonstrations as it has room for.

    Args:
        material: What conditions are made of.
        rows: Training rows, in the order in which they are shown.
        budgets: The budgets in reference tokens, in rising order.
        kind: Which demonstrations these are, as the end of "77 demonstrations", for messages.
    """
    if not budgets:
        return []
    demonstrations: list[Item] = []
    sizes = [material.instruction_size()]  # bytes of the context with 0, 1, 2, ... demonstrations
    for row in rows:
        item = material.data.train[row].item()
        demonstrations.append(item)
        sizes.append(sizes[-1] + material.demonstration_size(item))
        if sizes[-1] > BYTES_PER_TOKEN * budgets[-1]:
            break

    filled = []
    for budget in budgets:
        budget_size = BYTES_PER_TOKEN * budget
        count = bisect_right(sizes, budget_size) - 1
        size = budget_size
        reason = ""
        if count == len(demonstrations):
            reason = _why_not_filled(material, tokens_of_bytes(sizes[-1]), f"{count} demonstrations{kind}")
        elif count < 1:
            reason = f"no demonstration fits into {budget} reference tokens"
        else:
            size = sizes[count]
        filled.append(FilledBudget(budget_name(budget), demonstrations[: max(0, count)], size, reason))
    return filled


def _why_not_filled(material: Material, most_tokens: int, demonstrations: str) -> str:
    """Return why the demonstrations of a data set do not fill a budget.

    Args:
        material: What conditions are made of.
        most_tokens: Reference tokens that all demonstrations take.
        demonstrations: Their number and kind, in words.
    """
    source = "training data fills"
    is_published = material.data.dataset is None
    if is_published and len(material.data.turns()) == MOST_TURNS:
        source = f"first {MOST_TURNS} training rows of each label fill"
    reason = (
        f"the {source} only {most_tokens} reference tokens with {demonstrations}. Choose levels below {most_tokens}, "
        f"such as {most_tokens // 4} {most_tokens // 2}"
    )
    if is_published:
        return reason
    return f"{reason}, or {material.data.remedy_for_few_rows}"
