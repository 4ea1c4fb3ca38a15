"""Replies that list the labels of a text of a user's data set.

The labels may be separated as in the prompt, or by other usual separators, in one line or one to a line, as JSON, and
after an introduction ("The labels are: late, refund"). Only labels of the data set count. Texts after the list, such as
an explanation or a further example, are not read.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence

from StaICC.inference.reply_parser import parse_reply, reply_text
from StaICC.long_icl.cards import AnswerFormat

_SEPARATORS = ",;|\u3001\uff0c\uff1b\u060c\u061b"
"""What separates labels: comma, semicolon, vertical bar, and the commas and semicolons of Chinese, Japanese, Arabic."""
_AND = re.compile(r"\s(?:and|&)\s")
_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")
_MARKS = " .\"'\u201c\u201d\u2018\u2019`*[]\u3002"
"""Marks around a label that do not belong to it, unless the label has them itself."""


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
            labels_of_line, is_list = self._read_line(line)
            if labels and not is_list:
                break  # an explanation after the list
            labels += labels_of_line
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

    def _read_line(self, line: str) -> tuple[list[str], bool]:
        """Return the labels that a line names, and whether it consists of labels only."""
        content = _LIST_MARK.sub("", line.strip()).replace("**", "")
        label = self._label_named(content)
        if label is not None:
            return [label], True
        parts = [content]
        if self._separator is not None:
            parts = [part for part in self._separator.split(content) if part.strip()]
        labels = []
        is_list = True
        for part in parts:
            labels_of_part = self._read_part(part)
            if labels_of_part:
                labels += labels_of_part
                continue
            is_list = False
            asserted = parse_reply(part, self._labels, self._answers.cue).label
            if asserted is not None:
                labels.append(self._labels[asserted])
        return labels, is_list

    def _read_part(self, part: str) -> list[str]:
        """Return the label that a part of a line is, or the labels between its words "and"; empty for another text."""
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
