r"""A reply as statements, which end where a line or a sentence does.

* Marks of emphasis (``**bold**``, ```code```, ``\boxed{...}``) are removed where they are in pairs, and so are the
  marks that begin a line (bullets, numbers, ``#``, ``>``). A character at the edge of a label is no mark.
* A tag that is alone on its line is a cue: ``<label>joy</label>`` becomes the line ``label: joy``. Within a line, its
  text is a part of the sentence, as in "The answer is not <label>joy</label>."
* A line that ends in a colon is a heading. It begins each statement of the paragraph or list below it, so that what
  is listed below "These labels do not apply:" is not asserted.
* A sentence of doubt without an end mark ("The answer is not", "Wrong answers") is a heading, too, and so is a question
  of doubt ("Which label is wrong?"). What follows continues it, even if it has a cue of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from StaICC.inference.reply_grammar.assertions import StatementReader
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
_ONLY_TAGS = re.compile(rf"^[ \t]*(?:{_TAG.pattern}[ \t]*)+[.!]?[ \t]*$", re.I | re.M)
_LINE_MARK = re.compile(r"(?:[-*+\u2022\u00b7>]|#{1,6})(?:\s+|$)")
_NUMBER_MARK = re.compile(r"\(?(\d{1,3})[.)]\s+")
_HEADING_MARK = re.compile(r"\s*#{1,6}\s")

_SENTENCE_END = re.compile(r"[.!?\u2026]+([\"'\u201d\u00bb)\]]*)(?=\s|$)|[\u3002\uff01\uff1f]+()")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|st|z\.b|u\.a)\.$", re.I)
_ITEM_NUMBER = re.compile(r"\(?\d{1,3}\.")
_OPTION_LETTER = re.compile(r"\(?([A-Za-z])\.")
_HAS_OWN_CUE = re.compile(r"[^:\uff1a]{1,60}[:\uff1a]\s?\S")


_ENDS_WITHOUT_QUESTION = re.compile(r"(?:(?<![.])[.]|[!\u3002\uff01])[\"'\u201d\u00bb)\]]*$")
_LONGEST_HEADING = 100


@dataclass(frozen=True, slots=True)
class Heading:
    """A sentence that begins each statement of the paragraph or list below it."""

    text: str
    is_doubt: bool
    """Whether it may turn what follows into something that is not asserted: "The answer is not", "Options"."""


_NO_HEADING = Heading("", is_doubt=False)


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a reply that is read on its own."""

    text: str
    """Its text with its end mark, without marks of emphasis; blanks are single."""
    begins_line: bool
    """Whether a line of the reply begins with it."""


def statements_of(reply: str, reader: StatementReader) -> Iterator[Statement]:
    """Return the statements of a reply.

    Args:
        reply: The reply without thoughts and special tokens.
        reader: Knows the labels, in which no sentence ends, and the phrases of doubt.
    """
    labels = reader.labels
    heading = _NO_HEADING
    heading_has_lines = False
    paragraph_is_over = False
    for line in without_emphasis(reply, reader).splitlines():
        text, is_listed = _without_line_marks(" ".join(line.split()), labels)
        if not text:
            paragraph_is_over = heading_has_lines
            continue
        is_below_heading = is_listed or not paragraph_is_over
        has_other_cue = _HAS_OWN_CUE.match(text) is not None and not heading.is_doubt
        if not is_below_heading or has_other_cue:
            heading = _NO_HEADING

        heading_has_lines = True
        for number, sentence in enumerate(_sentences(text, labels)):
            yield Statement(f"{heading.text} {sentence}".strip(), begins_line=number == 0)
            new_heading = _heading_of(line, sentence, reader)
            if new_heading is not None:
                heading = new_heading
                heading_has_lines = paragraph_is_over = False


def heading_at_end(text: str, reader: StatementReader) -> str:
    """Return the heading with which a text ends, which applies to what follows the text; empty if it ends in none."""
    lines = [line for line in without_emphasis(text, reader).splitlines() if line.strip(" `")]
    lines = [line for line in lines if not line.lstrip().startswith("```")]
    if not lines:
        return ""
    last_line, _ = _without_line_marks(" ".join(lines[-1].split()), reader.labels)
    sentences = _sentences(last_line, reader.labels)
    heading = _heading_of(lines[-1], sentences[-1], reader) if sentences else None
    return "" if heading is None else heading.text


def without_emphasis(text: str, reader: StatementReader) -> str:
    """Return the text without marks of emphasis in pairs, with tags that are alone on their line as cues."""
    labels = reader.labels
    text = text.replace("\\_", "_")
    text = re.sub(r"<br ?/?>", "\n", text)
    text = _HTML_EMPHASIS.sub(r"\2", text)
    text = _ONLY_TAGS.sub(lambda line: _TAG.sub(_as_cue, line[0].rstrip(" \t.!")), text)
    text = _TAG.sub(lambda tag: _within_line(tag, reader), text)
    text = _LATEX_FORMULA.sub(r"\1", _LATEX_TEXT.sub(r"\1", _BOXED.sub(r"\1", text)))
    for mark in ("***", "**", "*", "__", "_", "```", "`"):
        if mark[0] not in labels.edge_symbols:
            text = _pairs_of(mark).sub(r"\1", text)
    return text


def _as_cue(tag: re.Match[str]) -> str:
    """Return a tag as a line with a cue."""
    return f"\n{_name_of(tag)}: {tag[2].strip()}\n"


def _within_line(tag: re.Match[str], reader: StatementReader) -> str:
    """Return the text of a tag within a line if the tag's name asks for the label; else the tag unchanged."""
    return tag[2].strip() if reader.is_name_of_answer(_name_of(tag)) else tag[0]


def _name_of(tag: re.Match[str]) -> str:
    return tag[1].replace("_", " ")


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


def _heading_of(line: str, sentence: str, reader: StatementReader) -> Heading | None:
    """Return the sentence as the heading of what follows it; ``None`` if it is none.

    It is one if it ends in a colon, is a heading of Markdown, or is doubt without an end.
    """
    is_doubt = reader.is_doubt(sentence)
    is_markdown = _HEADING_MARK.match(line) is not None and "#" not in reader.labels.edge_symbols
    if sentence.endswith((":", "\uff1a")):
        return Heading(_shortened(sentence), is_doubt)
    if is_markdown and reader.labels.index_of(sentence) is None and not _HAS_OWN_CUE.match(sentence):
        return Heading(f"{_shortened(sentence)}:", is_doubt)
    if reader.is_refusal(sentence):
        return Heading(_shortened(sentence), is_doubt=True)
    if is_doubt and not _ENDS_WITHOUT_QUESTION.search(sentence):
        return Heading(_shortened(sentence), is_doubt)
    return None


def _shortened(heading: str) -> str:
    """Return the heading, or the end of a long one: each statement below it is read with it."""
    if len(heading) <= _LONGEST_HEADING:
        return heading
    return "\u2026" + heading[-_LONGEST_HEADING:]


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
