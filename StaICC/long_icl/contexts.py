"""What the prompts of a condition show before the query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from StaICC.prompting.prompt_text import PromptParts

ShownLabels = tuple[tuple[str, ...], ...]
"""The true labels of each demonstration of a context, in the order of the prompt."""


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
    texts: tuple[str, ...] | Callable[[int], tuple[str, ...]] = ()
    """The input text of each demonstration in the order of the prompt, or a function that returns those of a test
    item."""

    @property
    def shared(self) -> bool:
        """Whether all test items have one context."""
        return isinstance(self.context, PromptParts)

    def context_of(self, item_index: int) -> PromptParts:
        """Return the context of a test item: instruction and demonstrations, with an empty question."""
        if isinstance(self.context, PromptParts):
            return self.context
        return self.context(item_index)

    def labels_of(self, item_index: int) -> tuple[str, ...]:
        """Return the names of the labels in the prompt of a test item; empty: the card's."""
        if isinstance(self.labels, tuple):
            return self.labels
        return self.labels(item_index)

    def texts_of(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration in the context of a test item."""
        if isinstance(self.texts, tuple):
            return self.texts
        return self.texts(item_index)

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the labels of each demonstration in the context of a test item."""
        if self.shown_to is not None:
            return self.shown_to(item_index)
        if len(self.shown) == 1:
            return self.shown[0]
        return self.shown[item_index]

    def sent(self, dropped: Sequence[int]) -> Contexts:
        """Return what the model read, where demonstrations were dropped because prompts were too long.

        Args:
            dropped: For each test item, how many demonstrations were dropped from the front.
        """
        if not any(dropped):
            return self
        remaining_labels = []
        dropped_total = 0
        for item_index, dropped_count in enumerate(dropped):
            labels = self.shown_labels(item_index)
            remaining_labels.append(labels[dropped_count:])
            if len(labels) == self.demonstrations:
                dropped_total += dropped_count
            else:
                # Dialogues are merged, and the number of demonstrations is that of their labels.
                dropped_total += sum(len(labels_of_dialogue) for labels_of_dialogue in labels[:dropped_count])

        def remaining_context(item_index: int) -> PromptParts:
            return self.context_of(item_index).without_first(dropped[item_index])

        def remaining_texts(item_index: int) -> tuple[str, ...]:
            return self.texts_of(item_index)[dropped[item_index] :]

        return replace(
            self,
            context=remaining_context,
            demonstrations=self.demonstrations - dropped_total / len(dropped),
            shown=tuple(remaining_labels),
            shown_to=None,
            texts=remaining_texts,
        )

    def shows(self, labels: Sequence[Sequence[str]]) -> list[list[bool]]:
        """Return for each true label of each test item whether the context of the item shows it.

        Args:
            labels: The true labels of each test item.
        """
        label_sets = [_label_set(shown) for shown in self.shown]
        is_shown = []
        for item_index, item_labels in enumerate(labels):
            label_set = label_sets[0] if len(label_sets) == 1 else label_sets[item_index]
            is_shown.append([label in label_set for label in item_labels])
        return is_shown

    def coverage(self, labels: Sequence[Sequence[str]]) -> dict[str, float]:
        """Return the labels that a context shows, the share of true labels that are shown, demonstrations per label.

        Args:
            labels: The true labels of each test item.
        """
        label_count = sum(len(_label_set(shown)) for shown in self.shown)
        demonstration_count = 0
        for shown in self.shown:
            demonstration_count += sum(len(labels_of_demonstration) for labels_of_demonstration in shown)
        true_label_count = 0
        covered_count = 0
        for is_shown in self.shows(labels):
            true_label_count += len(is_shown)
            covered_count += sum(is_shown)
        return {
            "labels_shown": label_count / len(self.shown),
            "share_shown": covered_count / max(1, true_label_count),
            "per_shown_label": demonstration_count / max(1, label_count),
        }


def _label_set(shown: ShownLabels) -> set[str]:
    """Return the distinct labels of the demonstrations of a context."""
    labels: set[str] = set()
    for labels_of_demonstration in shown:
        labels.update(labels_of_demonstration)
    return labels


Conditions = dict[str, Contexts | str]
"""The conditions of an experiment by name: the contexts, or the reason why the data cannot fill them."""
