"""What the prompts of a condition show before the query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from StaICC.prompting.prompt_text import PromptParts

ShownLabels = tuple[tuple[str, ...], ...]
"""The true labels of each demonstration of a context, in the order of the prompt and with the card's names."""


class Contexts(ABC):
    """What the prompts of a condition (a round, or a level of an experiment) show before the query.

    All test items have the same context (:class:`SharedContext`), or each one has its own (:class:`ItemContexts`).
    """

    __slots__ = ()
    demonstrations: float
    """Number of demonstrations of one context; the mean where contexts have different numbers."""
    compared: str
    """The condition from which the difference is computed; empty for the first condition."""

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether all test items have the same context."""

    @abstractmethod
    def context_of(self, item_index: int) -> PromptParts:
        """Return the context of a test item: instruction and demonstrations, with an empty question."""

    @abstractmethod
    def labels_of(self, item_index: int) -> tuple[str, ...]:
        """Return the names of the labels in the prompt of a test item, in the order of the card.

        The names are empty if the prompt uses those of the card.
        """

    @abstractmethod
    def texts_of(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration in the context of a test item."""

    @abstractmethod
    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the labels of each demonstration in the context of a test item."""

    @property
    @abstractmethod
    def shows_equal_labels(self) -> bool:
        """Whether all contexts show the same labels, with the same number of demonstrations in total.

        The labels of the first context are then enough for the coverage.
        """

    def sent(self, dropped: Sequence[int]) -> Contexts:
        """Return the contexts that the model read, where demonstrations were dropped because prompts were too long.

        Args:
            dropped: For each test item the number of demonstrations that were dropped from the front.
        """
        if not any(dropped):
            return self
        remaining_labels = []  # of each test item
        dropped_total = 0
        for item_index, dropped_count in enumerate(dropped):
            labels_of_demonstrations = self.shown_labels(item_index)
            remaining_labels.append(labels_of_demonstrations[dropped_count:])
            if len(labels_of_demonstrations) == self.demonstrations:
                dropped_total += dropped_count
            else:
                # DialogRE merges the demonstrations of a dialogue. self.demonstrations counts them before that, one for
                # each label.
                dropped_total += _label_count(labels_of_demonstrations[:dropped_count])

        def remaining_context(item_index: int) -> PromptParts:
            return self.context_of(item_index).without_first(dropped[item_index])

        def remaining_texts(item_index: int) -> tuple[str, ...]:
            return self.texts_of(item_index)[dropped[item_index] :]

        return ItemContexts(
            context=remaining_context,
            demonstrations=self.demonstrations - dropped_total / len(dropped),
            shown=remaining_labels.__getitem__,
            texts=remaining_texts,
            label_names=self.labels_of,
            compared=self.compared,
        )

    def shows(self, labels: Sequence[Sequence[str]]) -> list[list[bool]]:
        """Return for each true label of each test item whether the context of the item shows it.

        Args:
            labels: The true labels of each test item.
        """
        if self.shows_equal_labels:
            shown_sets = [_distinct_labels(self.shown_labels(0))] * len(labels)
        else:
            shown_sets = [_distinct_labels(self.shown_labels(item_index)) for item_index in range(len(labels))]
        is_shown = []
        for item_labels, shown_set in zip(labels, shown_sets, strict=True):
            is_shown.append([label in shown_set for label in item_labels])
        return is_shown

    def coverage(self, labels: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return which labels the contexts show.

        Args:
            labels: The true labels of each test item.

        Returns:
            ``labels_shown``, the mean number of labels that a context shows; ``share_shown``, the share of true labels
            that the context of their item shows; ``per_shown_label``, the mean number of demonstrations of a shown
            label.
        """
        context_count = len(labels)
        if self.shows_equal_labels:
            context_count = 1
        shown_label_count = 0
        demonstration_count = 0
        for item_index in range(context_count):
            shown = self.shown_labels(item_index)
            shown_label_count += len(_distinct_labels(shown))
            demonstration_count += _label_count(shown)

        true_label_count = 0
        covered_count = 0
        for is_shown in self.shows(labels):
            true_label_count += len(is_shown)
            covered_count += sum(is_shown)
        return {
            "labels_shown": shown_label_count / context_count,
            "share_shown": covered_count / max(1, true_label_count),
            "per_shown_label": demonstration_count / max(1, shown_label_count),
        }


@dataclass(frozen=True, slots=True)
class SharedContext(Contexts):
    """One context for all test items."""

    context: PromptParts
    """Instruction and demonstrations, with an empty question."""
    demonstrations: float
    shown: ShownLabels = ()
    texts: tuple[str, ...] = ()
    """The input text of each demonstration in the order of the prompt."""
    label_names: tuple[str, ...] = ()
    """Names that replace those of the labels, in the order of the card; empty for the card's names."""
    compared: str = ""

    @property
    def shared(self) -> bool:
        """Whether all test items have the same context."""
        return True

    @property
    def shows_equal_labels(self) -> bool:
        """Whether all contexts show the same labels."""
        return True

    def context_of(self, item_index: int) -> PromptParts:
        """Return the context, which all test items have."""
        return self.context

    def labels_of(self, item_index: int) -> tuple[str, ...]:
        """Return the names of the labels in all prompts; empty for the card's names."""
        return self.label_names

    def texts_of(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration."""
        return self.texts

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the labels of each demonstration."""
        return self.shown


def _names_of_card(item_index: int) -> tuple[str, ...]:
    """Return no names of labels, because prompts use those of the card."""
    return ()


@dataclass(frozen=True, slots=True)
class ItemContexts(Contexts):
    """A context for each test item.

    Its fields are functions of the index of a test item, so that long contexts are not in memory together.
    """

    context: Callable[[int], PromptParts]
    demonstrations: float
    shown: Callable[[int], ShownLabels]
    texts: Callable[[int], tuple[str, ...]]
    """Returns the input text of each demonstration of a test item, in the order of the prompt."""
    label_names: Callable[[int], tuple[str, ...]] = _names_of_card
    """Returns the names that replace those of the labels, in the order of the card."""
    compared: str = ""
    shows_equal_labels: bool = False

    @property
    def shared(self) -> bool:
        """Whether all test items have the same context."""
        return False

    def context_of(self, item_index: int) -> PromptParts:
        """Return the context of a test item: instruction and demonstrations, with an empty question."""
        return self.context(item_index)

    def labels_of(self, item_index: int) -> tuple[str, ...]:
        """Return the names of the labels in the prompt of a test item; empty for the card's names."""
        return self.label_names(item_index)

    def texts_of(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration in the context of a test item."""
        return self.texts(item_index)

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the labels of each demonstration in the context of a test item."""
        return self.shown(item_index)


def _distinct_labels(shown: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the distinct labels of demonstrations."""
    distinct: set[str] = set()
    for labels in shown:
        distinct.update(labels)
    return distinct


def _label_count(shown: Iterable[tuple[str, ...]]) -> int:
    """Return the number of labels of demonstrations. A label counts once for each demonstration that has it."""
    return sum(len(labels) for labels in shown)


@dataclass(frozen=True, slots=True)
class UnavailableCondition:
    """A condition of an experiment that the data cannot fill."""

    reason: str


Conditions = dict[str, Contexts | UnavailableCondition]
"""The conditions of an experiment by name."""
