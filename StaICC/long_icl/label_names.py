"""The label that a text names."""

from __future__ import annotations

import functools

from StaICC.long_icl.cards import AnswerFormat, TaskCard

_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"


@functools.lru_cache(maxsize=32)
def labels_by_name(labels: tuple[str, ...], answers: AnswerFormat, fold: bool) -> dict[str, str]:
    """Return the labels by their normal form, in which answers are compared."""
    names = {label: answers.normal(label) for label in labels}
    return {name.casefold() if fold else name: label for label, name in names.items()}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
        >>> as_label(task_card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(task_card("banking77"), "no idea.")
        'no idea'
    """
    labels = labels_by_name(own.labels, own.answers, True)
    for candidate in (text.strip(), text.strip().strip(_AROUND).strip()):
        label = labels.get(own.answers.normal(candidate).casefold())
        if label is not None:
            return label
    return candidate
