"""Replies that list the labels of a text of a user's data set.

The labels may be separated as in the prompt, or by other usual separators. They may be in one line, one to a line, or
in JSON, and an introduction may come before them ("The labels are: late, refund"). Only labels of the data set count.
Texts after the list, such as an explanation or a further example, are not read.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import AnswerFormat

_SEPARATORS = ",;|\u3001\uff0c\uff1b\u060c\u061b"
"""What separates labels: comma, semicolon, vertical bar, and the commas and semicolons of Chinese, Japanese, Arabic."""
_AND = re.compile(r"\s(?:and|&)\s")
"""The word between the last two labels of a list."""
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")
"""The mark before an element of a list with one element to a line: a hyphen, an asterisk, a bullet, or a number."""
_MARKS = " .\"'\u201c\u201d\u2018\u2019`*[]\u3002"
"""Marks around a label that do not belong to it, unless the label has them itself."""


class _LineLabels(NamedTuple):
    """The labels that one line of a reply names."""

    labels: list[str]
    is_list: bool
    """Whether the line has nothing but labels."""


class ListReader:
    """Reads the labels that replies list.

    Args:
        labels: The labels of the data set.
        answers: The normal form in which labels are compared, and the texts before and after an answer.
    """

    def __init__(self, labels: Sequence[str], answers: AnswerFormat) -> None:
        self._labels = labels
        self._answers = answers
        self._label_of_normal_form = {answers.normal(label).casefold(): label for label in labels}
        self._separator = _separator_pattern(labels)

    def labels_of(self, reply: str) -> list[str]:
        """Return the labels that a reply lists, each once, in their order; empty if it lists none.

        Args:
            reply: The generated text, without the prompt.
        """
        text = self._answer_in(reply)
        labels: list[str] = []
        for line in text.splitlines():
            if not line.strip():
                continue
            line_labels = self._read_line(line)
            if labels and not line_labels.is_list:
                break  # an explanation after the list
            labels += line_labels.labels
        return list(dict.fromkeys(labels))

    def _answer_in(self, reply: str) -> str:
        """Return the part of a reply that can list labels.

        It begins after the cue, if there is one, and ends where a further example begins. A list in JSON becomes one
        line for each of its elements.
        """
        text = reply_text(reply)
        marker = self._answers.marker
        if marker is not None:
            text = text.split(marker, 1)[0]
        cue = self._answers.cue
        cue_position = text.casefold().find(cue.casefold())
        has_cue = cue != "" and cue_position >= 0
        if has_cue:
            text = text[cue_position + len(cue) :]
        text = text.strip()
        texts_in_json = _texts_in_json(text)
        if texts_in_json:
            return "\n".join(texts_in_json)
        return text

    def _read_line(self, line: str) -> _LineLabels:
        """Return the labels that a line names.

        Labels are separated by separators or by "and". Between two separators there may be a text that is no list of
        labels, such as an introduction. A label counts there if the text states it (:func:`parse_reply`).
        """
        content = _LIST_MARK.sub("", line.strip()).replace("**", "")
        label = self._label_named(content)
        if label is not None:
            return _LineLabels([label], is_list=True)
        labels = []
        is_list = True
        for part in self._separated_parts(content):
            labels_of_part = self._read_part(part)
            if labels_of_part:
                labels += labels_of_part
                continue
            is_list = False
            stated_label = self._label_stated_in(part)
            if stated_label is not None:
                labels.append(stated_label)
        return _LineLabels(labels, is_list)

    def _separated_parts(self, content: str) -> list[str]:
        """Return the parts of a line between separators, without blank ones."""
        if self._separator is None:
            return [content]
        return [part for part in self._separator.split(content) if part.strip()]

    def _read_part(self, part: str) -> list[str]:
        """Return the labels of which a part of a line consists; empty if it has another text.

        The part is one label, or several with the word "and" between them.
        """
        label = self._label_named(part)
        if label is not None:
            return [label]
        labels = []
        for piece in _AND.split(part):
            label_of_piece = self._label_named(piece.strip().removeprefix("and "))
            if label_of_piece is None:
                return []
            labels.append(label_of_piece)
        return labels

    def _label_stated_in(self, text: str) -> str | None:
        """Return the label that a sentence states, as replies with one label are parsed; ``None`` if there is none."""
        index = parse_reply(text, self._labels, self._answers.cue).label
        if index is None:
            return None
        return self._labels[index]

    def _label_named(self, text: str) -> str | None:
        """Return the label that is equal to a text, regardless of case and marks around it; ``None`` if none is."""
        # The text with its marks comes first, because a label may have such marks itself.
        for candidate in (text, text.strip(_MARKS)):
            normal_form = self._answers.normal(candidate).casefold()
            if normal_form in self._label_of_normal_form:
                return self._label_of_normal_form[normal_form]
        return None


@functools.lru_cache(maxsize=32)
def list_reader(labels: tuple[str, ...], answers: AnswerFormat) -> ListReader:
    """Return the reader of a data set. It is made once, and then cached."""
    return ListReader(labels, answers)


def _separator_pattern(labels: Sequence[str]) -> re.Pattern[str] | None:
    """Return the pattern of the characters that separate labels; ``None`` if there is none.

    A character that a label contains cannot separate labels.
    """
    separators = ""
    for character in _SEPARATORS:
        is_in_a_label = any(character in label for label in labels)
        if not is_in_a_label:
            separators += character
    if not separators:
        return None
    return re.compile(f"[{re.escape(separators)}]")


def _texts_in_json(text: str) -> list[str]:
    """Return the texts that a reply in JSON lists; empty if the reply is no such JSON.

    The JSON is a list of texts, such as ``["late", "refund"]``, or an object whose values are texts or lists of texts,
    such as ``{"labels": ["late", "refund"]}``.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, list):
        return _texts_of(value)
    texts = []
    if isinstance(value, dict):
        for element in value.values():
            if isinstance(element, str):
                texts.append(element)
            elif isinstance(element, list):
                texts += _texts_of(element)
    return texts


def _texts_of(values: list[object]) -> list[str]:
    """Return the values of a list that has texts only; otherwise an empty list."""
    texts = []
    for value in values:
        if not isinstance(value, str):
            return []
        texts.append(value)
    return texts
