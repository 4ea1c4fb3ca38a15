"""Replies that list the labels of a text of a user's data set.

The labels may be separated as in the prompt, or by other usual separators, in one line or one to a line, as JSON, and
after an introduction ("The labels are: late, refund"). Only labels of the data set count. Texts after the list, such as
an explanation or a further example, are not read. A reply with labels as alternatives ("late or refund") lists none: it
does not say which of them hold.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import AnswerFormat

_SEPARATORS = ",;|/\u3001\uff0c\uff1b\u060c\u061b"
"""What separates labels: comma, semicolon, vertical bar, slash, and the commas and semicolons of Chinese, Japanese,
Arabic."""
_AND = re.compile(r"\s+(?:and|&)\s+", re.IGNORECASE)
_OR = re.compile(r"\s+(?:or|and/or)\s+", re.IGNORECASE)
_LEADING_AND = re.compile(r"^\s*(?:and|&|both)\s+", re.IGNORECASE)
_LEADING_OR = re.compile(r"^\s*(?:or|either)\s+", re.IGNORECASE)
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")
_MARKS = " .\"'\u201c\u201d\u2018\u2019`*[]\u3002"
"""Marks around a label that do not belong to it, unless the label has them itself."""


@dataclass(frozen=True, slots=True)
class _LineReading:
    """What a line of a reply names."""

    labels: list[str]
    """The labels, in their order."""
    is_list: bool
    """Whether the line consists of labels only."""
    has_alternatives: bool = False
    """Whether the line has labels with "or" between them; ``labels`` is empty then."""


class ListReader:
    """Reads the labels that replies list.

    Args:
        labels: The labels.
        answers: How they are compared, and the texts before and after an answer.
    """

    def __init__(self, labels: Sequence[str], answers: AnswerFormat) -> None:
        self._labels = labels
        self._answers = answers
        self._label_of_normal_form = {answers.normal(label).casefold(): label for label in labels}
        # A character that a label contains separates no labels.
        separators = [mark for mark in _SEPARATORS if not any(mark in label for label in labels)]
        self._separator = re.compile(f"[{re.escape(''.join(separators))}]") if separators else None

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
        """Return the part of a reply that can list labels: JSON as lines, up to the next example, after the cue."""
        text = reply_text(reply)
        marker = self._answers.marker
        if marker is not None:
            text = text.split(marker, 1)[0]
        cue = self._answers.cue
        cue_position = text.casefold().find(cue.casefold())
        if cue and cue_position >= 0:
            text = text[cue_position + len(cue) :]
        text = text.strip()
        texts_in_json = _texts_in_json(text)
        if texts_in_json:
            return "\n".join(texts_in_json)
        return text

    def _read_line(self, line: str) -> _LineReading:
        """Return what a line names: a label, or labels between separators and words "and"."""
        content = _LIST_MARK.sub("", line.strip()).replace("**", "")
        label = self._label_named(content)
        if label is not None:
            return _LineReading([label], is_list=True)
        parts = [content]
        if self._separator is not None:
            parts = [part for part in self._separator.split(content) if part.strip()]
        labels = []
        is_list = True
        for part in parts:
            labels_of_part = self._labels_between_ands(part)
            if labels_of_part:
                labels += labels_of_part
                continue
            labels_after_introduction = self._labels_after_introduction(part)
            if not labels_after_introduction and self._has_alternatives(part):
                # "late or refund" alone is a list of alternatives; after "The label is" it is a sentence.
                return _LineReading([], is_list=is_list, has_alternatives=True)
            is_list = False
            labels += labels_after_introduction
        return _LineReading(labels, is_list=is_list)

    def _labels_between_ands(self, part: str) -> list[str]:
        """Return the label that a part of a line is, or the labels between its words "and"; empty for another text.

        Labels can contain "and" ("search and rescue"), so the longest text that is a label is taken first.
        """
        label = self._label_named(part)
        if label is not None:
            return [label]
        remaining_text = _LEADING_AND.sub("", part)
        labels = []
        while remaining_text:
            ends = [conjunction.start() for conjunction in _AND.finditer(remaining_text)]
            ends.append(len(remaining_text))
            for end in reversed(ends):
                label = self._label_named(remaining_text[:end])
                if label is not None:
                    break
            if label is None:
                return []
            labels.append(label)
            remaining_text = _LEADING_AND.sub("", remaining_text[end:])
        return labels

    def _labels_after_introduction(self, part: str) -> list[str]:
        """Return the labels of a part such as "The labels are late and refund"; empty if it asserts none.

        The text up to the first word "and" must assert one label (:mod:`StaICC.inference.reply_parser`); a denied label
        is not read.
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
        """Return whether a part of a line has labels with "or" between them, or is the last one of such labels."""
        text = _LEADING_OR.sub("", part)
        alternatives = _OR.split(text)
        if text == part and len(alternatives) == 1:
            return False
        first_alternative = alternatives[0]
        is_first_a_label = bool(self._labels_between_ands(first_alternative))
        if not is_first_a_label and self._label_at_end(first_alternative) is None:
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
        """Return the label that a text is, without case and surrounding marks; ``None`` if it is none."""
        for candidate in (text, text.strip(_MARKS)):
            normal_form = self._answers.normal(candidate).casefold()
            if normal_form in self._label_of_normal_form:
                return self._label_of_normal_form[normal_form]
        return None


@functools.lru_cache(maxsize=32)
def list_reader(labels: tuple[str, ...], answers: AnswerFormat) -> ListReader:
    """Return the reader of a data set, which is made once."""
    return ListReader(labels, answers)


def _texts_in_json(text: str) -> list[str]:
    """Return the texts of a JSON list, or of an object with a list or a text; empty if the text is none of these."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    values = list(value.values()) if isinstance(value, dict) else [value]
    texts: list[str] = []
    for element in values:
        if isinstance(element, str) and isinstance(value, dict):
            texts.append(element)
        elif isinstance(element, list) and all(isinstance(member, str) for member in element):
            texts += element
    return texts
