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
from StaICC.inference.reply_grammar.json_replies import json_part, read_json
from StaICC.inference.reply_grammar.labels import LabelNames, label_names, normalised
from StaICC.inference.reply_grammar.phrases import Phrases, phrases_for
from StaICC.inference.reply_grammar.statements import Statement, heading_at_end, statements_of, unwrapped
from StaICC.inference.reply_grammar.thoughts import without_special_tokens, without_thoughts

PARSER_VERSION = "5"
"""Changes when a reply can be parsed differently; part of the signature."""

_HAS_WORDS = re.compile(r"\w")
_BARE_WORDS = re.compile(r"\w[\w' -]*")
_MOST_WORDS = 2
_LONGEST_ANSWER = 30
_ONLY_MARKS = re.compile(r"[\W_]*")


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
    """Return whether a reply that stopped at its maximum number of tokens may have begun another, longer label."""
    if not isinstance(reply, Text) or reply.finish_reason != "length":
        return False
    names = [normalised(str(name)).strip().casefold() for name in label_space]
    ends_in_label = normalised(reply).casefold().endswith(names[label])
    is_beginning = any(name.startswith(names[label]) for name in names if name != names[label])
    return ends_in_label and is_beginning


def _parse(reply: str, label_space: Sequence[str], label_prefix: str, text_prefixes: Sequence[str]) -> ParsedReply:
    """Find the label that a reply names, however the reply ended."""
    names = [str(label) for label in label_space]
    for form in (str, str.strip):
        forms, written = [form(name) for name in names], form(reply)
        if written and forms.count(written) == 1:
            return ParsedReply(forms.index(written), "exact")
    labels = label_names(tuple(names))
    text = without_thoughts(normalised(reply))
    if text is None:
        return ParsedReply(None, "cut off in reasoning")
    text = without_special_tokens(text).strip()
    alone = labels.index_of(text)
    if alone is not None:
        return ParsedReply(alone, "exact")
    if _ONLY_MARKS.fullmatch(text) and not any(labels.mentions(text)):
        return ParsedReply(None, "empty")
    template = _Template(label_prefix, text_prefixes)
    return _decision(_readings(text, labels, template))


class _Template:
    """The prompt's template, as far as a reply may repeat it.

    Args:
        label_prefix: The text before a label.
        text_prefixes: The beginnings of the input texts; the label prefix is none of them.
    """

    def __init__(self, label_prefix: str, text_prefixes: Sequence[str]) -> None:
        self._label_prefix = normalised(label_prefix).strip()
        names = [normalised(prefix).strip() for prefix in text_prefixes]
        self._text_prefixes = tuple(name.casefold() for name in names if name and name != self._label_prefix)
        self.phrases: Phrases = phrases_for(label_prefix, tuple(name for name in names if name != self._label_prefix))

    def begins(self, statement: Statement) -> bool:
        """Return whether a statement begins an example of the template: a line that begins as an input text."""
        if not self._text_prefixes or not statement.begins_line:
            return False
        return statement.text.casefold().startswith(self._text_prefixes)

    def is_other_answer(self, statement: Statement, reader: StatementReader) -> bool:
        """Return whether the first statement of a reply answers with no label: "politics", "topic: other".

        It is one or two words without an end mark, alone or after the label prefix, which are no lead ("Sure") and no
        name of an answer ("Sentiment Analysis").
        """
        answer = statement.text
        if self._label_prefix and answer.casefold().startswith(self._label_prefix.casefold()):
            answer = answer[len(self._label_prefix) :].strip()
        elif reader.is_cue(answer) or reader.is_cue(f"{answer}:"):
            return False
        is_short = len(answer.split()) <= _MOST_WORDS and len(answer) <= _LONGEST_ANSWER
        return is_short and _BARE_WORDS.fullmatch(answer) is not None and not reader.labels.occur_in(answer)

    def ends(self, statement: Statement) -> bool:
        """Return whether a statement ends an example whose text begins the reply: the label prefix within a line."""
        has_prefix = bool(self._label_prefix) and statement.text.startswith(self._label_prefix)
        return has_prefix and not statement.begins_line


def _readings(text: str, labels: LabelNames, template: _Template) -> Iterator[Reading]:
    """Return the readings of the statements and JSON values of a reply, up to where it repeats the template."""
    reader = StatementReader(labels, template.phrases)
    is_answered = False
    is_first = True
    while text:
        part = json_part(text)
        for statement in statements_of(text if part is None else text[: part.start], reader):
            if template.begins(statement) and is_answered:
                return
            if not is_answered and (template.begins(statement) or template.ends(statement)):
                yield Reading(rule="repeats the prompt")
                return
            if is_first and template.is_other_answer(statement, reader):
                yield Reading(rule="no label")
                return
            is_first = False
            reading = reader.read(statement.text)
            is_answered = is_answered or reading.asserted is not None
            yield reading
        if part is None:
            return
        reading = read_json(part.value, reader)
        heading = heading_at_end(text[: part.start], reader)
        rest_of_line = text[part.end :].partition("\n")[0]
        if (heading and not reader.is_cue(heading)) or _HAS_WORDS.search(rest_of_line):
            reading = Reading(rule="no label in JSON")
        is_answered = is_answered or reading.asserted is not None
        yield reading
        text = text[part.end :]


def _decision(readings: Iterable[Reading]) -> ParsedReply:
    """Return the label that a reply names from the readings of its statements, in order."""
    label, rule = None, ""
    for reading in readings:
        if reading.rule in ("repeats the prompt", "no label in JSON", "no label"):
            return ParsedReply(None, reading.rule)
        if label is None and reading.asserted is not None:
            label, rule = reading.asserted, reading.rule
        if label is None:
            continue
        if reading.asserted not in (None, label) or reading.others - {label}:
            return ParsedReply(None, "several labels")
        if label in reading.denied or reading.takes_back:
            return ParsedReply(None, "denied or taken back")
    if label is None:
        return ParsedReply(None, "no label")
    return ParsedReply(label, rule)


def reply_text(reply: str) -> str:
    """Return what a reply says after its reasoning, out of its code block; empty if the reasoning does not end."""
    text = without_thoughts(reply)
    if text is None:
        return ""
    return unwrapped(without_special_tokens(text).replace("\\_", "_").strip()).strip()


def is_cut_thought(reply: object) -> bool:
    """Return whether a reply stopped at its maximum number of tokens before its reasoning ended."""
    return isinstance(reply, Text) and reply.finish_reason == "length" and without_thoughts(reply) is None
