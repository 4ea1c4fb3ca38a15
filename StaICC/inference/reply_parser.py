r"""Finds the label in a generated reply.

One parser for all benchmarks. It returns a label only if the reply asserts it. A label that is merely mentioned,
denied, given a value ("hate: 0.02"), taken back or one of several is not a prediction: the reply is *unparsed*, and it
is never counted as some label.

The parser reads a reply in these steps:

1. ``exact``: a reply that is a label, apart from white space, is this label.
2. Thoughts and special tokens are cut (:mod:`StaICC.inference.reply_grammar.thoughts`). A reply whose thoughts do not
   end was cut off and is unparsed. If the rest is a label in another case or spelling, it is this label.
3. The rest is JSON (:mod:`StaICC.inference.reply_grammar.json_replies`), statements
   (:mod:`StaICC.inference.reply_grammar.statements`), or both, in the order of the text.
4. Each statement asserts one label, denies some, mentions some, or takes back what was said
   (:mod:`StaICC.inference.reply_grammar.assertions`).
5. The reply ends where it repeats the prompt's template after a label: base models write the next example. A reply that
   begins with the template is unparsed: its labels are those of examples.
   A reply whose first line is another answer ("politics") is unparsed, too: what follows is not its answer.
6. The reply names the label that its statements assert, if it is only one, and no later statement mentions another
   label, denies this one or takes it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from StaICC.inference.contract import Text
from StaICC.inference.reply_grammar.assertions import Reading, StatementReader
from StaICC.inference.reply_grammar.json_replies import JsonPart, json_part, read_json
from StaICC.inference.reply_grammar.labels import label_names, normalised
from StaICC.inference.reply_grammar.letter_case import span_without_case
from StaICC.inference.reply_grammar.phrases import Phrases, phrases_for
from StaICC.inference.reply_grammar.statements import Statement, heading_at_end, statements_of, unwrapped
from StaICC.inference.reply_grammar.thoughts import without_special_tokens, without_thoughts

PARSER_VERSION = "6"
"""Changes when a reply can be parsed differently; part of the signature."""

_HAS_WORDS = re.compile(r"\w")
_BARE_WORDS = re.compile(r"\w[\w' -]*")
_ONLY_MARKS = re.compile(r"[\W_]*")
_MOST_WORDS = 2
"""Words of a first line that is read as another answer; a longer one is an introduction."""
_LONGEST_ANSWER = 30
"""Characters of such a line."""
_ENDING_RULES = frozenset({"repeats the prompt", "no label in JSON", "no label"})
"""The rules of readings after which a reply is unparsed, whatever else it says."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The label that a reply names, if it names exactly one."""

    label: int | None
    """The index of the label; ``None`` for an unparsed reply."""
    rule: str
    """What found it: ``"exact"``, ``"json"`` or ``"statement"``; or why there is none: ``"empty"``,
    ``"cut off in reasoning"``, ``"cut off in a label"``, ``"several labels"``, ``"denied or taken back"``,
    ``"repeats the prompt"``, ``"no label in JSON"``, ``"no label"``."""


def parse_reply(
    reply: str, label_space: Sequence[str], label_prefix: str = "", text_prefixes: Sequence[str] = ()
) -> ParsedReply:
    r"""Find the label that a generated reply names.

    Args:
        reply: The generated text, without the prompt. If it is a ``Text`` that stopped at its maximum number of tokens,
            a label at its end that begins another label ("card" of "card arrival") is none.
        label_space: The label names.
        label_prefix: The text before a label in the prompt, such as ``"sentiment: "``.
        text_prefixes: The beginnings of the input texts in the prompt, such as ``["review: "]``.

    Returns:
        The label's index and the rule that found it, or ``None`` and the reason.

    Example:
        >>> parse_reply("<think>Nice, so not negative.</think> The answer is **Positive**.", ["negative", "positive"])
        ParsedReply(label=1, rule='statement')
        >>> parse_reply("It could be positive or negative.", ["negative", "positive"])
        ParsedReply(label=None, rule='no label')
        >>> reply = "negative\nreview: fine\nsentiment: positive"
        >>> parse_reply(reply, ["negative", "positive"], "sentiment: ", ["review: "])
        ParsedReply(label=0, rule='statement')
    """
    parsed = _parse(reply, label_space, label_prefix, text_prefixes)
    if parsed.label is not None and _may_be_cut_label(reply, parsed.label, label_space):
        return ParsedReply(None, "cut off in a label")
    return parsed


def _may_be_cut_label(reply: str, label: int, label_space: Sequence[str]) -> bool:
    """Return whether the label at the end of a reply may be the beginning of another one: "card" of "card arrival".

    That may be if the reply stopped at its maximum number of tokens.

    Args:
        reply: The reply; how it ended is known only if it is a ``Text``.
        label: The index of the label that it names.
        label_space: The label names.
    """
    if not isinstance(reply, Text) or reply.finish_reason != "length":
        return False
    names = [normalised(str(name)).strip().casefold() for name in label_space]
    label_name = names[label]
    ends_in_label = normalised(reply).casefold().endswith(label_name)
    if not ends_in_label:
        return False
    longer_names = [name for name in names if name.startswith(label_name) and name != label_name]
    return bool(longer_names)


def _parse(reply: str, label_space: Sequence[str], label_prefix: str, text_prefixes: Sequence[str]) -> ParsedReply:
    """Find the label that a reply names, however the reply ended."""
    names = [str(name) for name in label_space]
    label = _exact_label(reply, names)
    if label is not None:
        return ParsedReply(label, "exact")

    text = without_thoughts(normalised(reply))
    if text is None:
        return ParsedReply(None, "cut off in reasoning")
    text = without_special_tokens(text).strip()

    labels = label_names(tuple(names))
    label = labels.index_of(text)
    if label is not None:
        return ParsedReply(label, "exact")
    if _ONLY_MARKS.fullmatch(text) is not None and not any(labels.mentions(text)):
        return ParsedReply(None, "empty")

    template = _Template(label_prefix, text_prefixes)
    reader = StatementReader(labels, template.phrases)
    return _decision(_readings(text, reader, template))


def _exact_label(reply: str, names: list[str]) -> int | None:
    """Return the label that a whole reply is, as written, or without the white space around both.

    Args:
        reply: The reply.
        names: The label names.

    Returns:
        The index of the label; ``None`` if the reply is none, or if several labels are equal to it.
    """
    if reply and names.count(reply) == 1:
        return names.index(reply)
    stripped_reply = reply.strip()
    stripped_names = [name.strip() for name in names]
    if stripped_reply and stripped_names.count(stripped_reply) == 1:
        return stripped_names.index(stripped_reply)
    return None


class _Template:
    """The prompt's template, as far as a reply may repeat it.

    Args:
        label_prefix: The text before a label.
        text_prefixes: The beginnings of the input texts; the label prefix is none of them.
    """

    def __init__(self, label_prefix: str, text_prefixes: Sequence[str]) -> None:
        """Bring the prefixes into the form in which replies are read, and make the phrases that name the answer."""
        self._label_prefix = normalised(label_prefix).strip()
        prefixes = []
        for text_prefix in text_prefixes:
            prefix = normalised(text_prefix).strip()
            if prefix != self._label_prefix:
                prefixes.append(prefix)
        self._text_prefixes = tuple(prefix.casefold() for prefix in prefixes if prefix)
        self.phrases: Phrases = phrases_for(label_prefix, tuple(prefixes))

    def begins_example(self, statement: Statement) -> bool:
        """Return whether a statement begins an example of the template: a line that begins as an input text."""
        if not self._text_prefixes or not statement.begins_line:
            return False
        return statement.text.casefold().startswith(self._text_prefixes)

    def is_other_answer(self, statement: Statement, reader: StatementReader) -> bool:
        """Return whether the first statement of a reply is an answer that is no label: "politics", "topic: other".

        Such an answer is one or two words without an end mark. They are the whole statement, or follow the label prefix
        ("topic: "). A whole statement may also be words that only introduce an answer, such as "Sure" or "Sentiment
        Analysis" (a cue). These are no answer.
        """
        text = statement.text
        end_of_prefix = self._end_of_label_prefix(text)
        if end_of_prefix == 0 and (reader.is_cue(text) or reader.is_cue(f"{text}:")):
            return False
        answer = text[end_of_prefix:].strip()
        is_short = len(answer.split()) <= _MOST_WORDS and len(answer) <= _LONGEST_ANSWER
        has_only_words = _BARE_WORDS.fullmatch(answer) is not None
        return is_short and has_only_words and not reader.labels.occur_in(answer)

    def _end_of_label_prefix(self, text: str) -> int:
        """Return where the label prefix at the beginning of a text ends, in any case of letters; 0 if there is none."""
        if not self._label_prefix:
            return 0
        span = span_without_case(text, self._label_prefix)
        if span is None:
            return 0
        begin, end = span
        return end if begin == 0 else 0

    def ends_example(self, statement: Statement) -> bool:
        """Return whether a statement ends an example whose text begins the reply: the label prefix within a line."""
        if not self._label_prefix or statement.begins_line:
            return False
        return statement.text.startswith(self._label_prefix)


def _readings(text: str, reader: StatementReader, template: _Template) -> Iterator[Reading]:
    """Yield what each statement and each JSON value of a reply says of the labels, up to where it repeats the template.

    Args:
        text: The reply without thoughts and special tokens.
        reader: Reads its statements.
        template: The prompt's template.
    """
    is_answered = False
    is_first_statement = True
    rest = text
    while rest:
        json_in_text = json_part(rest)
        text_before_json = rest if json_in_text is None else rest[: json_in_text.start]
        for statement in statements_of(text_before_json, reader):
            if is_answered and template.begins_example(statement):
                # A base model goes on with the next example.
                return
            reading = _read_statement(statement, reader, template, is_first_statement, is_answered)
            yield reading
            is_first_statement = False
            is_answered = is_answered or reading.asserted is not None
        if json_in_text is None:
            return

        reading = _read_json_part(rest, json_in_text, reader)
        yield reading
        is_answered = is_answered or reading.asserted is not None
        rest = rest[json_in_text.end :]


def _read_statement(
    statement: Statement, reader: StatementReader, template: _Template, is_first: bool, is_answered: bool
) -> Reading:
    """Return what a statement of a reply says of the labels (a :class:`Reading`).

    Args:
        statement: The statement.
        reader: Reads statements.
        template: The prompt's template.
        is_first: Whether it is the first statement of the reply.
        is_answered: Whether a statement or JSON before it asserts a label.
    """
    repeats_prompt = template.begins_example(statement) or template.ends_example(statement)
    if repeats_prompt and not is_answered:
        return Reading(rule="repeats the prompt")
    if is_first and template.is_other_answer(statement, reader):
        return Reading(rule="no label")
    return reader.read(statement.text)


def _read_json_part(text: str, part: JsonPart, reader: StatementReader) -> Reading:
    """Return what JSON in a reply says of the labels (a :class:`Reading`).

    It is unclear if words follow it in its line, or if a heading is above it that does not introduce an answer ("Labels
    that do not apply:").

    Args:
        text: The text.
        part: The JSON in it.
        reader: Reads statements.
    """
    heading = heading_at_end(text[: part.start], reader)
    if heading and not reader.is_cue(heading):
        return Reading(rule="no label in JSON")
    rest_of_line = text[part.end :].partition("\n")[0]
    if _HAS_WORDS.search(rest_of_line) is not None:
        return Reading(rule="no label in JSON")
    return read_json(part.value, reader)


def _decision(readings: Iterable[Reading]) -> ParsedReply:
    """Return the label that a reply names, from what its statements say of the labels (the readings), in order.

    It is the first label that a statement asserts, if no later statement asserts or mentions another label, denies this
    one, or takes the answer back.
    """
    label: int | None = None
    rule = ""
    for reading in readings:
        if reading.rule in _ENDING_RULES:
            return ParsedReply(None, reading.rule)
        if label is None:
            # What is before the first assertion, such as considerations of other labels, does not count.
            if reading.asserted is None:
                continue
            label = reading.asserted
            rule = reading.rule

        asserts_another = reading.asserted is not None and reading.asserted != label
        mentions_another = bool(reading.others - {label})
        if asserts_another or mentions_another:
            return ParsedReply(None, "several labels")
        if label in reading.denied or reading.takes_back:
            return ParsedReply(None, "denied or taken back")
    if label is None:
        return ParsedReply(None, "no label")
    return ParsedReply(label, rule)


def first_mentioned_label(reply: str, label_space: Sequence[str]) -> int | None:
    """Return the index of the first label that occurs in a reply, be it not as its answer; ``None`` if none does."""
    labels = label_names(tuple(str(name) for name in label_space))
    for mention in labels.mentions(reply_text(normalised(reply))):
        return mention.label
    return None


def reply_text(reply: str) -> str:
    """Return what a reply says after its reasoning, out of its code block; empty if the reasoning does not end."""
    text = without_thoughts(reply)
    if text is None:
        return ""
    text = without_special_tokens(text).replace("\\_", "_").strip()
    return unwrapped(text).strip()


def is_cut_thought(reply: object) -> bool:
    """Return whether a reply stopped at its maximum number of tokens before its reasoning ended."""
    return isinstance(reply, Text) and reply.finish_reason == "length" and without_thoughts(reply) is None
