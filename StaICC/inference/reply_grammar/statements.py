r"""A reply as statements, which end where a line or a sentence does.

* Marks of emphasis (``**bold**``, ```code```, ``\boxed{...}``) are removed where they are in pairs, and so are the
  marks that begin a line (bullets, numbers, ``#``, ``>``). A character at the edge of a label is no mark, and neither
  is the number of a label ("3. Billing").
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

# -- tags and marks of emphasis

_SPAN = r"[^\n]{1,300}?"
_ANSWER_TAG = re.compile(r"<(answer|label|output|result|final_answer)>((?:(?!<\1>).)*?)</\1>", re.I | re.S)
_CODE_BLOCK = re.compile(r"```[a-z]*\s*(.*?)```", re.I | re.S)
_BOXED = re.compile(
    r"(?:(?:\$|\\\(|\\\[)\s?)?\\boxed\s?\{\s?(?:\\text\w*\s?\{)?([^{}\n]{1,300})\}{1,2}\s?(?:\$|\\\)|\\\])?"
)
_LATEX_TEXT = re.compile(r"\\text\w*\s?\{([^{}\n]{1,300})\}")
_LATEX_FORMULA = re.compile(r"\\\(([^\n]{1,300}?)\\\)")
_HTML_BREAK = re.compile(r"<br ?/?>")
_HTML_EMPHASIS = re.compile(rf"<(b|i|u|em|strong|code|p)>({_SPAN})</\1>", re.I)
_TAG = re.compile(r"<([a-z][a-z_-]{0,30})>([^<>]{0,300})</\1>", re.I)
_LINE_OF_TAGS = re.compile(rf"^[ \t]*(?:{_TAG.pattern}[ \t]*)+[.!]?[ \t]*$", re.I | re.M)
_EMPHASIS_MARKS = ("***", "**", "*", "__", "_", "```", "`")

# -- lines

_LINE_MARK = re.compile(r"(?:[-*+\u2022\u00b7>]|#{1,6})(?:\s+|$)")
_NUMBER_MARK = re.compile(r"\(?(\d{1,3})[.)]\s+")
_MOST_LINE_MARKS = 3
"""Marks that are removed from a line: "> - 1. positive" has three."""
_MARKDOWN_HEADING = re.compile(r"\s*#{1,6}\s")
_HAS_OWN_CUE = re.compile(r"[^:\uff1a]{1,60}[:\uff1a]\s?\S")
"""A line that says itself what it is about: "Answer: positive"."""
_LONGEST_HEADING = 100
"""Characters of a heading that are read with each statement below it."""

# -- sentences

_SENTENCE_END = re.compile(r"[.!?\u2026]+([\"'\u201d\u00bb)\]]*)(?=\s|$)|[\u3002\uff01\uff1f]+()")
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|st|z\.b|u\.a)\.$", re.I)
_LONGEST_ABBREVIATION = 10
"""Characters before an end mark that are searched for an abbreviation."""
_ITEM_NUMBER = re.compile(r"\(?\d{1,3}\.")
_OPTION_LETTER = re.compile(r"\(?([A-Za-z])\.")
_ENDS_WITHOUT_QUESTION = re.compile(r"(?:(?<![.])[.]|[!\u3002\uff01])[\"'\u201d\u00bb)\]]*$")


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
    """Yield the statements of a reply: its sentences, each with the heading above it in front.

    A heading, such as "These labels do not apply:", changes what the sentences below it mean. It applies to the
    paragraph or list below it, and ends at the next heading (:class:`_CurrentHeading`).

    Args:
        reply: The reply without thoughts and special tokens.
        reader: Knows the labels, in which no sentence ends, and the phrases of doubt.
    """
    labels = reader.labels
    current = _CurrentHeading()
    for line in without_emphasis(reply, reader).splitlines():
        content = _line_content(line, labels)
        if not content.text:
            current.note_blank_line()
            continue
        current.end_unless_it_applies_to(content)
        for sentence_index, sentence in enumerate(_sentences(content.text, labels)):
            text = f"{current.heading.text} {sentence}".strip()
            yield Statement(text, begins_line=sentence_index == 0)
            # The sentence may be a heading itself: it was a statement, and applies from the next sentence on.
            new_heading = _heading_of(line, sentence, reader)
            if new_heading is not None:
                current.begin(new_heading)


class _CurrentHeading:
    """The heading that applies to the line that is read, such as "These labels do not apply:".

    A heading applies to the paragraph below it, which may be separated from it by blank lines, and to the items of a
    list after that. A line that says itself what it is about ("Answer: positive") ends it, unless the heading is one of
    doubt ("The answer is not").

    Attributes:
        heading: The heading; empty if there is none.
    """

    def __init__(self) -> None:
        """Begin without a heading."""
        self.heading = _NO_HEADING
        self._has_lines = False
        """Whether a line followed the heading."""
        self._paragraph_is_over = False
        """Whether a blank line followed these lines."""

    def begin(self, heading: Heading) -> None:
        """Set the heading for the lines that follow."""
        self.heading = heading
        self._has_lines = False
        self._paragraph_is_over = False

    def note_blank_line(self) -> None:
        """Note that the next line is a blank one: it ends the paragraph below the heading, if this has begun."""
        self._paragraph_is_over = self._has_lines

    def end_unless_it_applies_to(self, line: _Line) -> None:
        """Remove the heading if it does not apply to the next line, which has text.

        It applies to the lines of the paragraph below it, and then to items of a list.
        """
        is_after_paragraph = self._paragraph_is_over and not line.is_listed
        names_its_topic = _HAS_OWN_CUE.match(line.text) is not None  # "Answer: positive"
        ends_heading = names_its_topic and not self.heading.is_doubt
        if is_after_paragraph or ends_heading:
            self.heading = _NO_HEADING
        self._has_lines = True


def heading_at_end(text: str, reader: StatementReader) -> str:
    """Return the heading with which a text ends, which applies to what follows the text; empty if it ends in none."""
    last_line = ""
    for line in without_emphasis(text, reader).splitlines():
        is_blank = not line.strip(" `")
        begins_code_block = line.lstrip().startswith("```")
        if not is_blank and not begins_code_block:
            last_line = line

    sentences = _sentences(_line_content(last_line, reader.labels).text, reader.labels)
    if not sentences:
        return ""
    heading = _heading_of(last_line, sentences[-1], reader)
    if heading is None:
        return ""
    return heading.text


# -- tags and marks of emphasis


def without_emphasis(text: str, reader: StatementReader) -> str:
    """Return the text without marks of emphasis in pairs, with tags that are alone on their line as cues."""
    text = text.replace("\\_", "_")
    text = _HTML_BREAK.sub("\n", text)
    text = _HTML_EMPHASIS.sub(r"\2", text)
    text = _LINE_OF_TAGS.sub(_tags_as_cues, text)
    text = _TAG.sub(lambda tag: _within_line(tag, reader), text)
    text = _BOXED.sub(r"\1", text)
    text = _LATEX_TEXT.sub(r"\1", text)
    text = _LATEX_FORMULA.sub(r"\1", text)
    for mark in _EMPHASIS_MARKS:
        if mark[0] not in reader.labels.edge_symbols:
            text = _pairs_of(mark).sub(r"\1", text)
    return text


def _tags_as_cues(line: re.Match[str]) -> str:
    """Return a line of tags as lines with cues: ``<label>joy</label>`` as ``label: joy``."""
    return _TAG.sub(_as_cue, line[0].rstrip(" \t.!"))


def _as_cue(tag: re.Match[str]) -> str:
    """Return a tag as a line with a cue."""
    return f"\n{_name_of(tag)}: {tag[2].strip()}\n"


def _within_line(tag: re.Match[str], reader: StatementReader) -> str:
    """Return the text of a tag within a line if the tag's name asks for the label; else the tag unchanged."""
    if reader.is_name_of_answer(_name_of(tag)):
        return tag[2].strip()
    return tag[0]


def _name_of(tag: re.Match[str]) -> str:
    """Return the name of a tag in words: "final answer" of ``<final_answer>``."""
    return tag[1].replace("_", " ")


def unwrapped(text: str) -> str:
    """Return the content of the last answer tag or the only code block of a text; the text itself if it has none."""
    tags = _ANSWER_TAG.findall(text)
    if tags:
        return str(tags[-1][1])
    code_blocks = _CODE_BLOCK.findall(text)
    if len(code_blocks) == 1:
        return str(code_blocks[0])
    return text


def _pairs_of(mark: str) -> re.Pattern[str]:
    """Return the pattern of a text between two marks; underscores within a word are no marks."""
    mark = re.escape(mark)
    return re.compile(rf"(?<!\w){mark}(?=\S)({_SPAN})(?<=\S){mark}(?!\w)")


# -- lines and headings


@dataclass(frozen=True, slots=True)
class _Line:
    """What a line says."""

    text: str
    """Its text without the marks that begin it; blanks are single."""
    is_listed: bool
    """Whether it is an item of a list."""


def _line_content(line: str, labels: LabelNames) -> _Line:
    """Return what a line says without the marks that begin it: bullets, numbers, ``#``, ``>``."""
    text = " ".join(line.split())
    is_listed = False
    for _ in range(_MOST_LINE_MARKS):
        mark = _line_mark(text, labels)
        if mark is None:
            break
        if not mark.startswith("#"):
            is_listed = True
        text = text.removeprefix(mark)
    return _Line(text, is_listed)


def _line_mark(text: str, labels: LabelNames) -> str | None:
    """Return the mark with which a line begins, with the blank after it; ``None`` if it begins with none or a label."""
    number = _NUMBER_MARK.match(text)
    if number is not None and not _is_number_of_label(number, labels):
        return number[0]
    mark = _LINE_MARK.match(text)
    if mark is not None and mark[0][0] not in labels.edge_symbols:
        return mark[0]
    return None


def _is_number_of_label(number: re.Match[str], labels: LabelNames) -> bool:
    """Return whether the number that begins a line is a label, as in "3) fits", or begins one, as in "3. Billing"."""
    if labels.index_of(number[1]) is not None:
        return True
    mention = labels.at(number.string, 0)
    return mention is not None and mention.end >= len(number[0].rstrip())


def _heading_of(line: str, sentence: str, reader: StatementReader) -> Heading | None:
    """Return a sentence as the heading of what follows it; ``None`` if it is none.

    It is one if it ends in a colon, is a heading of Markdown, says that no label is known, or is doubt without an end
    mark.

    Args:
        line: The line of the sentence, with the marks that begin it.
        sentence: The sentence.
        reader: Knows the labels and the phrases of doubt.
    """
    is_doubt = reader.is_doubt(sentence)
    if sentence.endswith((":", "\uff1a")):
        return Heading(_shortened(sentence), is_doubt)
    if _is_markdown_heading(line, sentence, reader.labels):
        return Heading(f"{_shortened(sentence)}:", is_doubt)
    if reader.is_refusal(sentence):
        return Heading(_shortened(sentence), is_doubt=True)
    if is_doubt and _ENDS_WITHOUT_QUESTION.search(sentence) is None:
        return Heading(_shortened(sentence), is_doubt=True)
    return None


def _is_markdown_heading(line: str, sentence: str, labels: LabelNames) -> bool:
    """Return whether a line is a heading of Markdown, and neither a label ("# Positive") nor a cue with its answer."""
    if _MARKDOWN_HEADING.match(line) is None or "#" in labels.edge_symbols:
        return False
    is_label = labels.index_of(sentence) is not None
    return not is_label and _HAS_OWN_CUE.match(sentence) is None


def _shortened(heading: str) -> str:
    """Return the heading, or the end of a long one: each statement below it is read with it."""
    if len(heading) <= _LONGEST_HEADING:
        return heading
    return "\u2026" + heading[-_LONGEST_HEADING:]


# -- sentences


def _sentences(line: str, labels: LabelNames) -> list[str]:
    """Return the sentences of a line, with their end marks.

    Args:
        line: The line.
        labels: The labels, in which no sentence ends: "U.S. news" is one label.
    """
    positions_in_labels: set[int] = set()
    for mention in labels.mentions(line):
        positions_in_labels.update(range(mention.start, mention.end))

    sentences = []
    start = 0
    for end_mark in _SENTENCE_END.finditer(line):
        is_in_label = end_mark.start() in positions_in_labels
        if not is_in_label and _ends_sentence(line, end_mark, labels):
            sentences.append(line[start : end_mark.end()].strip())
            start = end_mark.end()
    last_sentence = line[start:].strip()
    if last_sentence:
        sentences.append(last_sentence)
    return sentences


def _ends_sentence(line: str, end_mark: re.Match[str], labels: LabelNames) -> bool:
    """Return whether a full stop, exclamation mark or question mark ends a sentence.

    It does not after "e.g.", after the number or letter of an item ("1. ...", "B. ..."), or in a quotation within a
    sentence.

    Args:
        line: The line.
        end_mark: A match of :data:`_SENTENCE_END`. Its group 1 has the quotation marks behind the mark.
        labels: The labels; a letter that is a label is a sentence of its own.
    """
    line_to_mark = line[: end_mark.start() + 1]
    line_after = line[end_mark.end() :].strip()
    last_characters = line_to_mark[-_LONGEST_ABBREVIATION - 1 :]  # the longest abbreviation, with the mark itself
    if _ABBREVIATION.search(last_characters) is not None:
        return False
    is_item_number = _ITEM_NUMBER.fullmatch(line_to_mark) is not None
    if is_item_number and line_after:
        return False
    option_letter = _OPTION_LETTER.fullmatch(line_to_mark)
    if option_letter is not None and labels.index_of(option_letter[1]) is None:
        return False
    # The sentence goes on after a quotation within it: He wrote "Wow!" and left.
    closes_quotation = bool(end_mark[1])
    goes_on = line_after[:1].islower()
    return not (closes_quotation and goes_on)
