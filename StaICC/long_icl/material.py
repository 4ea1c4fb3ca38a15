"""What the conditions of an experiment are made of: rows of a data set, shown within a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.loading import MOST_TURNS, LongICLData
from StaICC.long_icl.prompts import Item, as_shown, write_context, write_demonstration, write_instruction
from StaICC.long_icl.reference_tokens import BYTES_PER_TOKEN, budget_name, byte_size


@dataclass(frozen=True, slots=True)
class Material:
    """What conditions are made of."""

    data: LongICLData
    items: tuple[Item, ...]
    """The test items."""
    instruct: bool

    def shots(self, number: int) -> list[Item]:
        """Return a number of demonstrations of each label, in the published order.

        Raises:
            ArgumentError: A label has fewer.
        """
        largest_number = min(self.data.demonstration_counts().values())
        if number > largest_number:
            there = f"the training data has {largest_number} demonstrations of every label"
            raise ArgumentError(f"{self.data.card.title}: got {number} shots, but {there}")
        return [self.data.train[place].item() for place in chain.from_iterable(self.data.turns(number))]

    def round(self, number: int) -> Contexts:
        """Return the contexts of a round; the number of demonstrations is that before dialogues are merged."""
        rows = self.data.demonstration_rows(number)
        shown = as_shown(self.data.card, rows)
        return replace(self.contexts(shown), demonstrations=len(rows))

    def contexts(self, shown: Sequence[Item], card: TaskCard | None = None, size: int = 0) -> Contexts:
        """Return the contexts that show demonstrations to all test items.

        Args:
            shown: The demonstrations.
            card: With other names of labels, which the demonstrations have.
            size: Bytes of the context; a shorter one gets irrelevant text before the demonstrations.
        """
        own = card or self.data.card
        context = write_context(own, shown, instruct=self.instruct)
        room = size - byte_size(context.text)
        if room > 0:
            context = replace(context, instruction=context.instruction + self.data.filler(room))
        true = dict(zip(own.labels, self.data.card.labels, strict=True))
        names = own.labels if own.labels != self.data.card.labels else ()
        labels = tuple(tuple(true[label] for label in item.gold) for item in shown)
        return Contexts(context, len(shown), names, (labels,))


@dataclass(frozen=True, slots=True)
class DesignOptions:
    """The options of an experiment that its conditions depend on (:class:`~StaICC.long_icl.experiments.Experiment`)."""

    levels: tuple[int, ...]
    shots: int
    seed: int


def fill_budgets(
    material: Material, places: Iterable[int], budgets: Sequence[int], of: str = ""
) -> Iterator[tuple[str, list[Item], int, str]]:
    """Yield for each budget its name, as many demonstrations as it has room for, their bytes, and why it is not filled.

    Args:
        material: What conditions are made of.
        places: Training rows, in order.
        budgets: The budgets, in rising order.
        of: Which demonstrations these are, in messages.
    """
    card = material.data.card
    shown: list[Item] = []
    sizes = [byte_size(write_instruction(card, instruct=material.instruct))]
    for place in places:
        shown.append(material.data.train[place].item())
        sizes.append(sizes[-1] + byte_size(write_demonstration(card, shown[-1]).text))
        if sizes[-1] > BYTES_PER_TOKEN * budgets[-1]:
            break
    largest = -(-sizes[-1] // BYTES_PER_TOKEN)
    for budget in budgets:
        count, size, reason = bisect_right(sizes, BYTES_PER_TOKEN * budget) - 1, BYTES_PER_TOKEN * budget, ""
        if count == len(shown):
            reason = (
                f"the {_rows_that_fill(material.data)} only {largest} reference tokens with {count} "
                f"demonstrations{of}. Choose levels below {largest}, such as {largest // 4} {largest // 2}"
            )
            if material.data.dataset is not None:
                reason += f", or {material.data.remedy_for_few_rows}"
        elif count < 1:
            reason = f"no demonstration fits into {budget} reference tokens"
        else:
            size = sizes[count]
        yield budget_name(budget), shown[:count], size, reason


def _rows_that_fill(data: LongICLData) -> str:
    """Return which rows of a data set there are, with the verb of a message."""
    has_more_rows = data.dataset is None and len(data.turns()) == MOST_TURNS
    if has_more_rows:
        return f"first {MOST_TURNS} training rows of each label fill"
    return "training data fills"
