"""The label that a text names."""

from __future__ import annotations

import functools

from StaICC.long_icl.cards import AnswerFormat, TaskCard

_MARKS = ".\"'\u201c\u201d\u2018\u2019`*"
"""Full stop, quotation marks, backtick and asterisk: marks around a label that may not belong to it."""


@functools.lru_cache(maxsize=32)
def labels_by_name(labels: tuple[str, ...], answers: AnswerFormat, fold: bool) -> dict[str, str]:
    """Return the labels by their normal form, in which answers are compared.

    Args:
        labels: The labels.
        answers: How the data set compares labels.
        fold: Compare without case, even if the data set does not.
    """
    label_of_name = {}
    for label in labels:
        name = answers.normal(label)
        if fold:
            name = name.casefold()
        label_of_name[name] = label
    return label_of_name


def as_label(card: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Case is not compared.

    Example:
        >>> from StaICC.long_icl.cards import task_card
        >>> as_label(task_card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(task_card("banking77"), "no idea.")
        'no idea'
    """
    label_of_name = labels_by_name(card.labels, card.answers, fold=True)
    stripped_text = text.strip()
    # A label may have such marks itself, so that the text is compared with them first.
    text_without_marks = stripped_text.strip(_MARKS).strip()
    for candidate in (stripped_text, text_without_marks):
        name = card.answers.normal(candidate).casefold()
        if name in label_of_name:
            return label_of_name[name]
    return text_without_marks
