"""Replies that list the labels of a text of a user's data set.

The labels may be separated as in the prompt, or by other usual separators. They may be in one line, one to a line, or
in JSON, and an introduction may come before them ("The labels are: late, refund"). Only labels of the data set count.
Texts after the list, such as an explanation or a further example, are not read. A reply with labels as alternatives
("late or refund") lists none, because it does not say which of them are true.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from StaICC.inference.reply_grammar.letter_case import span_without_case
from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import AnswerFormat

_SEPARATORS = ",;|/\u3001\uff0c\uff1b\u060c\u061b"
"""What separates labels: comma, semicolon, vertical bar, slash, and the commas and semicolons of Chinese, Japanese,
Arabic."""
_AND = re.compile(r"\s+(?:and|&)\s+", re.IGNORECASE)
_OR = re.compile(r"\s+(?:or|and/or)\s+", re.IGNORECASE)
_LEADING_AND = re.compile(r"^\s*(?:and|&|both)\s+", re.IGNORECASE)
_LEADING_OR = re.compile(r"^\s*(?:or|either)\s+", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.)])\s+")
"""The mark before an element of a list: a hyphen, an asterisk, a bullet, or a number."""
_MARKS = " .\"'\u201c\u201d\u2018\u2019`*[]\u3002"
"""Marks around a label that do not belong to it, unless the label has them itself."""


@dataclass(slots=True)
class _LineReading:
    """What a line of a reply names."""

    labels: list[str]
    """The labels, in their order; empty if there are none, or alternatives."""
    is_list: bool
    """Whether the line consists of labels only."""
    has_alternatives: bool = False
    """Whether the line has labels with "or" between them."""


@dataclass(frozen=True, slots=True)
class _PartReading:
    """What a part of a line names: the text between two separators."""

    labels: list[str]
    """The labels, in their order; empty if there are none, or alternatives."""
    kind: Literal["labels", "sentence", "alternatives"]
    """``"labels"``: nothing but labels, such as "late and refund". ``"sentence"``: other text, which may assert labels.
    ``"alternatives"``: labels with "or" between them, none of which is asserted."""


@dataclass(frozen=True, slots=True)
class _LabelAtStart:
    """A label with which a text begins."""

    label: str
    end: int
    """The position in the text after the label."""


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
        self._list_marks_of_labels = {_list_mark_of(label) for label in labels}
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
            reading = self._read_line(line)
            if labels and not reading.is_list:
                break  # an explanation after the list
            if reading.has_alternatives:
                return []  # the labels before it would be an incomplete answer
            labels += reading.labels
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
        if cue:
            span_of_cue = span_without_case(text, cue)
            if span_of_cue is not None:
                _, end_of_cue = span_of_cue
                text = text[end_of_cue:]
        text = text.strip()
        texts_in_json = _texts_in_json(text)
        if texts_in_json:
            return "\n".join(texts_in_json)
        return text

    def _read_line(self, line: str) -> _LineReading:
        """Return which labels a line names: the whole line is a label, or each part between separators is read."""
        content = line.strip()
        for candidate in (content, self._without_marks(content)):
            label = self._label_named(candidate)
            if label is not None:
                return _LineReading([label], is_list=True)

        line_reading = _LineReading([], is_list=True)
        for part in self._separated_parts(self._without_marks(content)):
            part_reading = self._read_part(part)
            if part_reading.kind == "alternatives":
                return _LineReading([], line_reading.is_list, has_alternatives=True)
            if part_reading.kind == "sentence":
                line_reading.is_list = False
            line_reading.labels += part_reading.labels
        return line_reading

    def _without_marks(self, content: str) -> str:
        """Return a line without the mark of a list at its beginning, and without asterisks around bold words.

        The mark remains if it may belong to a label: a data set may have labels such as "1. Late".
        """
        if _list_mark_of(content) not in self._list_marks_of_labels:
            content = _LIST_MARK.sub("", content)
        return content.replace("**", "")

    def _read_part(self, part: str) -> _PartReading:
        """Return which labels a part of a line names."""
        labels = self._labels_between_ands(part)
        if labels:
            return _PartReading(labels, "labels")
        # Assertions are read first: a sentence may assert a label, and name alternatives that it excludes.
        asserted_labels = self._labels_after_introduction(part)
        if not asserted_labels and self._has_alternatives(part):
            return _PartReading([], "alternatives")
        return _PartReading(asserted_labels, "sentence")

    def _separated_parts(self, content: str) -> list[str]:
        """Return the parts of a line between separators, without blank ones."""
        if self._separator is None:
            return [content]
        return [part for part in self._separator.split(content) if part.strip()]

    def _labels_between_ands(self, part: str) -> list[str]:
        """Return the labels of a part of a line that has nothing but labels, with "and" between them; otherwise empty.

        Labels can contain "and" ("search and rescue"). So the remaining text up to the last "and" is compared with the
        labels first, then the text up to the one before it, and so on.
        """
        label = self._label_named(part)
        if label is not None:
            return [label]
        remaining_text = _LEADING_AND.sub("", part)
        labels = []
        while remaining_text:
            first = self._longest_label_at_start(remaining_text)
            if first is None:
                return []
            labels.append(first.label)
            remaining_text = _LEADING_AND.sub("", remaining_text[first.end :])
        return labels

    def _longest_label_at_start(self, text: str) -> _LabelAtStart | None:
        """Return the longest label that ends before an "and" or at the end of a text; ``None`` if none begins it."""
        ends = [conjunction.start() for conjunction in _AND.finditer(text)]
        ends.append(len(text))
        for end in reversed(ends):
            label = self._label_named(text[:end])
            if label is not None:
                return _LabelAtStart(label, end)
        return None

    def _labels_after_introduction(self, part: str) -> list[str]:
        """Return the labels of a part such as "The labels are late and refund"; empty if it asserts none.

        A sentence asserts a label if replies with one label are read so (:mod:`StaICC.inference.reply_parser`). The
        part is such a sentence, or one that ends before an "and" that further labels follow.
        """
        asserted_label = self._asserted_label(part)
        if asserted_label is not None:
            return [asserted_label]
        for conjunction in _AND.finditer(part):
            first_label = self._label_at_end(part[: conjunction.start()])
            other_labels = self._labels_between_ands(part[conjunction.end() :])
            if first_label is not None and other_labels:
                return [first_label, *other_labels]
        return []

    def _has_alternatives(self, part: str) -> bool:
        """Return whether a part of a line names labels as alternatives.

        It has "or" between labels ("The label is late or refund"), or begins with "or" or "either" and has a label
        (the part "or refund" of the line "late, or refund").
        """
        text = _LEADING_OR.sub("", part)
        alternatives = _OR.split(text)
        begins_with_or = text != part
        if not begins_with_or and len(alternatives) == 1:
            return False
        first_alternative = alternatives[0]
        is_first_a_label = len(self._labels_between_ands(first_alternative)) > 0
        # An introduction may come before the first alternative.
        ends_in_a_label = is_first_a_label or self._label_at_end(first_alternative) is not None
        if not ends_in_a_label:
            return False
        return all(self._labels_between_ands(alternative) for alternative in alternatives[1:])

    def _asserted_label(self, text: str) -> str | None:
        """Return the only label that a text asserts; ``None`` if it asserts none or several."""
        index = parse_reply(text, self._labels, self._answers.cue).label
        if index is None:
            return None
        return self._labels[index]

    def _label_at_end(self, text: str) -> str | None:
        """Return the label that a text asserts with its last words, such as "The labels are late"; else ``None``."""
        label = self._asserted_label(text)
        if label is None:
            return None
        end = self._answers.normal(text.strip(_MARKS)).casefold()
        if not end.endswith(self._answers.normal(label).casefold()):
            return None
        return label

    def _label_named(self, text: str) -> str | None:
        """Return the label that is equal to a text, regardless of case and marks around it; ``None`` if none is."""
        without_list_mark = _LIST_MARK.sub("", text)
        # The text with its marks comes first, because a label may have such marks itself.
        for candidate in (text, text.strip(_MARKS), without_list_mark, without_list_mark.strip(_MARKS)):
            normal_form = self._answers.normal(candidate).casefold()
            if normal_form in self._label_of_normal_form:
                return self._label_of_normal_form[normal_form]
        return None


@functools.lru_cache(maxsize=32)
def list_reader(labels: tuple[str, ...], answers: AnswerFormat) -> ListReader:
    """Return the reader of a data set. It is made once, and then cached."""
    return ListReader(labels, answers)


def _list_mark_of(text: str) -> str:
    """Return the mark of a list with which a text begins, such as "2."; empty if it begins with none."""
    mark = _LIST_MARK.match(text)
    if mark is None:
        return ""
    return mark[0].strip()


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
