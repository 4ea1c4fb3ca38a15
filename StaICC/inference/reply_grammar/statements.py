r"""A reply as statements, which end where a line or a sentence does.

* Marks of emphasis (``**bold**``, ```code```, ``\boxed{...}``) are removed where they are in pairs, and so are the
  marks that begin a line (bullets, numbers, ``#``, ``>``). A character at the edge of a label is no mark.
* A tag is a cue: ``<label>joy</label>`` becomes the line ``label: joy``.
* A line that ends in a colon is a heading. It begins each statement of the paragraph or list below it, so that what
  is listed below "These labels do not apply:" is not asserted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from StaICC.inference.reply_grammar.labels import LabelNames

_SPAN = r"[^\n]{1,300}?"
_ANSWER_TAG = re.compile(r"<(answer|label|output|result|final_answer)>((?:(?!<\1>).)*?)</\1>", re.I | re.S)
_CODE_BLOCK = re.compile(r"```[a-z]*\s*(.*?)```", re.I | re.S)
_BOXED = re.compile(
    r"(?:(?:\$|\\\(|\\\[)\s?)?\\boxed\s?\{\s?(?:\\text\w*\s?\{)?([^{}\n]{1,300})\}{1,2}\s?(?:\$|\\\)|\\\])?"
)
_LATEX_TEXT = re.compile(r"\\text\w*\s?\{([^{}\n]{1,300})\}")
_LATEX_FORMULA = re.compile(r"\\\(([^\n]{1,300}?)\\\)")
_HTML_EMPHASIS = re.compile(rf"<(b|i|u|em|strong|code|p)>({_SPAN})</\1>", re.I)
_TAG = re.compile(r"<([a-z][a-z_-]{0,30})>([^<>]{0,300})</\1>", re.I)
_LINE_MARK = re.compile(r"(?:[-*+\u2022\u00b7>]|#{1,6})(?:\s+|$)")
_NUMBER_MARK = re.compile(r"\(?(\d{1,3})[.)]\s+")
_HEADING_MARK = re.compile(r"\s*#{1,6}\s")

_SENTENCE_END = re.compile(r"[.!?\u2026]+([\"'\u201d\u00bb)\]]*)(?=\s|$)|[\u3002\uff01\uff1f]+()")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|st|z\.b|u\.a)\.$", re.I)
_ITEM_NUMBER = re.compile(r"\(?\d{1,3}\.")
_OPTION_LETTER = re.compile(r"\(?([A-Za-z])\.")
_HAS_OWN_CUE = re.compile(r"[^:\uff1a]{1,60}[:\uff1a]\s?\S")


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a reply that is read on its own."""

    text: str
    """Its text with its end mark, without marks of emphasis; blanks are single."""
    begins_line: bool
    """Whether a line of the reply begins with it."""


def statements_of(reply: str, labels: LabelNames) -> Iterator[Statement]:
    """Return the statements of a reply.

    Args:
        reply: The reply without thoughts and special tokens.
        labels: The labels, in which no sentence ends.
    """
    heading = ""
    heading_has_lines = False
    paragraph_is_over = False
    for line in without_emphasis(reply, labels).splitlines():
        text, is_listed = _without_line_marks(" ".join(line.split()), labels)
        if not text:
            paragraph_is_over = heading_has_lines
            continue
        is_below_heading = is_listed or not paragraph_is_over
        if not is_below_heading or _HAS_OWN_CUE.match(text):
            heading = ""

        sentences = _sentences(text, labels)
        new_heading = _heading_of(line, sentences[-1], labels)
        if new_heading:
            sentences.pop()
        for number, sentence in enumerate(sentences):
            yield Statement(f"{heading} {sentence}".strip(), begins_line=number == 0)
        heading_has_lines = True
        if new_heading:
            heading = new_heading
            heading_has_lines = paragraph_is_over = False


def without_emphasis(text: str, labels: LabelNames) -> str:
    """Return the text without marks of emphasis in pairs, with tags as cues."""
    text = text.replace("\\_", "_")
    text = re.sub(r"<br ?/?>", "\n", text)
    text = _HTML_EMPHASIS.sub(r"\2", text)
    text = _TAG.sub(lambda match: f"\n{match[1].replace('_', ' ')}: {match[2].strip()}\n", text)
    text = _LATEX_FORMULA.sub(r"\1", _LATEX_TEXT.sub(r"\1", _BOXED.sub(r"\1", text)))
    for mark in ("***", "**", "*", "__", "_", "```", "`"):
        if mark[0] not in labels.edge_symbols:
            text = _pairs_of(mark).sub(r"\1", text)
    return text


def unwrapped(text: str) -> str:
    """Return the content of the last answer tag or the only code block of a text; the text itself if it has none."""
    tags = _ANSWER_TAG.findall(text)
    if tags:
        return str(tags[-1][1])
    blocks = _CODE_BLOCK.findall(text)
    return str(blocks[0]) if len(blocks) == 1 else text


def _pairs_of(mark: str) -> re.Pattern[str]:
    """Return the pattern of a text between two marks; underscores within a word are no marks."""
    mark = re.escape(mark)
    return re.compile(rf"(?<!\w){mark}(?=\S)({_SPAN})(?<=\S){mark}(?!\w)")


def _without_line_marks(line: str, labels: LabelNames) -> tuple[str, bool]:
    """Return a line without the marks that begin it, and whether it is an item of a list."""
    is_listed = False
    for _ in range(3):
        mark = _LINE_MARK.match(line)
        if mark is not None and mark[0].strip()[0] in labels.edge_symbols:
            mark = None
        number = _NUMBER_MARK.match(line)
        if number is not None and labels.index_of(number[1]) is None:
            mark = number
        if mark is None:
            break
        is_listed = is_listed or mark[0][0] != "#"
        line = line[mark.end() :]
    return line, is_listed


def _heading_of(line: str, last_sentence: str, labels: LabelNames) -> str:
    """Return the heading of the lines below: a sentence that ends in a colon, or a heading of Markdown; else ""."""
    if last_sentence.endswith((":", "\uff1a")):
        return last_sentence
    is_markdown = _HEADING_MARK.match(line) is not None and "#" not in labels.edge_symbols
    if is_markdown and labels.index_of(last_sentence) is None and not _HAS_OWN_CUE.match(last_sentence):
        return f"{last_sentence}:"
    return ""


def _sentences(line: str, labels: LabelNames) -> list[str]:
    """Split a line into sentences, which keep their end marks."""
    places_in_labels: set[int] = set()
    for mention in labels.mentions(line):
        places_in_labels.update(range(mention.start, mention.end))

    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(line):
        if end.start() not in places_in_labels and _ends_sentence(line, end, labels):
            sentences.append(line[start : end.end()].strip())
            start = end.end()
    rest = line[start:].strip()
    if rest:
        sentences.append(rest)
    return sentences


def _ends_sentence(line: str, end: re.Match[str], labels: LabelNames) -> bool:
    """Return whether an end mark ends a sentence: not after "e.g.", an option's letter or number, or in a quotation."""
    words_before = line[max(0, end.start() - 10) : end.start() + 1]
    if _ABBREVIATION.search(words_before):
        return False
    line_before, line_after = line[: end.start() + 1], line[end.end() :].strip()
    if _ITEM_NUMBER.fullmatch(line_before) and line_after:
        return False
    option = _OPTION_LETTER.fullmatch(line_before)
    if option is not None and labels.index_of(option[1]) is None:
        return False
    follows_quotation = bool(end[1])
    goes_on = line_after[:1].islower()
    return not (follows_quotation and goes_on)
