"""What the prompts of a condition show before the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from StaICC.prompting.prompt_text import PromptParts

ShownLabels = tuple[tuple[str, ...], ...]
"""The labels of each demonstration of a context."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """What the prompts of a condition (a round, or a level of an experiment) show before the query."""

    context: PromptParts | Callable[[int], PromptParts]
    """What is before the query, for all test items; or a function that writes that of a test item, so that long
    contexts are not in memory together."""
    demonstrations: float
    """Number of demonstrations (for a context of each test item: of one context; the mean, where some were dropped)."""
    labels: tuple[str, ...] | Callable[[int], tuple[str, ...]] = ()
    """Names that replace those of the labels, in the order of the card, or a function that returns those of a test
    item; empty: the card's."""
    shown: tuple[ShownLabels, ...] = ((),)
    """The labels of each demonstration in the order of the prompt, as in the card: of the shared context, or of that of
    each test item."""
    shown_to: Callable[[int], ShownLabels] | None = None
    """Returns them for a test item, where :attr:`shown` has those of one context for all."""
    compared: str = ""
    """The condition from which the difference is computed; empty: the first one."""

    @property
    def shared(self) -> bool:
        """Whether all test items have one context."""
        return isinstance(self.context, PromptParts)

    def context_of(self, place: int) -> PromptParts:
        """Return the context of a test item: instruction and demonstrations, with an empty question."""
        return self.context if isinstance(self.context, PromptParts) else self.context(place)

    def labels_of(self, place: int) -> tuple[str, ...]:
        """Return the names of the labels in the prompt of a test item; empty: the card's."""
        return self.labels if isinstance(self.labels, tuple) else self.labels(place)

    def shown_labels(self, place: int) -> ShownLabels:
        """Return the labels of each demonstration in the context of a test item."""
        if self.shown_to:
            return self.shown_to(place)
        if len(self.shown) == 1:
            return self.shown[0]
        return self.shown[place]

    def sent(self, dropped: Sequence[int]) -> Contexts:
        """Return what the model read, where demonstrations were dropped because prompts were too long.

        Args:
            dropped: For each test item, how many demonstrations were dropped from the front.
        """
        if not any(dropped):
            return self
        kept = []
        lost = 0
        for place, count in enumerate(dropped):
            of_item = self.shown_labels(place)
            kept.append(of_item[count:])
            if len(of_item) == self.demonstrations:
                lost += count
            else:  # merged dialogues: the number of demonstrations is that of their labels
                lost += sum(map(len, of_item[:count]))

        def context(place: int) -> PromptParts:
            return self.context_of(place).without_first(dropped[place])

        number = self.demonstrations - lost / len(dropped)
        return replace(self, context=context, demonstrations=number, shown=tuple(kept), shown_to=None)

    def shows(self, labels: Sequence[Sequence[str]]) -> list[list[bool]]:
        """Return whether the context of each test item shows its true labels, given those of all test items."""
        sets = [frozenset(chain.from_iterable(shown)) for shown in self.shown]
        if len(sets) == 1:
            sets *= len(labels)
        return [[label in shown for label in of_item] for shown, of_item in zip(sets, labels, strict=True)]

    def coverage(self, labels: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the labels that a context shows, the share of true labels that are shown, demonstrations per label.

        Args:
            labels: The true labels of each test item.
        """
        numbers = [len(set(chain.from_iterable(shown))) for shown in self.shown]
        known = [*chain.from_iterable(self.shows(labels))]
        return {
            "labels_shown": sum(numbers) / len(numbers),
            "share_shown": sum(known) / max(1, len(known)),
            "per_shown_label": sum(len(labels) for shown in self.shown for labels in shown) / max(1, sum(numbers)),
        }


Conditions = dict[str, Contexts | str]
