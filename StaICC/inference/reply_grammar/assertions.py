"""What one statement says of the labels: it asserts one, denies some, mentions some, or takes an assertion back.

A statement asserts a label if it is, from its beginning to its end,

    [lead] [cue] [article] [degree] [option letter] label [noun] ending

where the ending is the end, a reason ("because ...") or a contrast with another label ("rather than ..."), and all
other rules are phrases of a closed list (:mod:`StaICC.inference.reply_grammar.phrases`). So nothing that the grammar
does not know asserts a label: a value after the label ("hate: no"), a condition, a view of others, a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from StaICC.inference.reply_grammar.labels import LabelNames, Mention
from StaICC.inference.reply_grammar.phrases import Phrases

_CLOSING_MARKS = {
    '"': '"',
    "'": "'",
    "$": "$",
    "(": ")",
    "[": "]",
    "\u201c": "\u201d",
    "\u201e": "\u201c",
    "\u00ab": "\u00bb",
    "\uff08": "\uff09",
    "\u300c": "\u300d",
    "\u3010": "\u3011",
}
"""The marks that may enclose a label, each opening mark with its closing one."""

# -- before the label

_SYMBOLS_OF_ASSENT = (
    "\u2705\u2714\u2713\u2611\U0001f44d\U0001f389\u2b50\U0001f31f\U0001f4af\U0001f449\u27a1\u2192\u21d2"
)
_LEADING_SYMBOLS = re.compile(rf"(?:[{_SYMBOLS_OF_ASSENT}]|-+>|=+>|\[x\])\s?", re.I)
_OPTION = re.compile(r"\(?([A-Za-z])(?:[).:]|\.\))\s?")
"""An option letter before its label: "B)", "(b)", "B." or "B:"."""

# -- after the label

_END_MARK = re.compile(r" ?[.!,;\u2026\u3002\uff0c\uff01\uff1b]?")
_TRAILING_EMOJI = re.compile(r"\s?[\U0001f600-\U0001f60f\U0001f642\U0001f44d\U0001f389\u2b50\U0001f31f]$")
_SEPARATOR = re.compile(r"^(?:\s?[,(\uff0c]| [-\u2013\u2014])?\s?")
"""The comma, dash or opening bracket before a reason or a contrast."""
_OPTION_TEXT = re.compile(r"\)\s?(?P<after_bracket>.{0,200}?)[.]?|\s?\((?P<in_brackets>[^()]{1,80})\)[.!,]?")
"""The text of an option after its letter: ") Paris" of "B) Paris", " (Oslo)." of "C (Oslo)."."""
_CLAUSE_MARK = re.compile(r"[,;:.\uff0c\uff1b\u3002]")

# -- values

_CROSSES = tuple("\u274c\u2717\u2718\u2716\u274e\U0001f6ab\u26d4\U0001f44e\u00d7\u2715\u2610")
"""Symbols that mean "no"."""
_NUMBER = re.compile(r"[<>~\u2248]?[+-]?\d+(?:[.,/]\d+)?\s?%?")
_QUANTITY = re.compile(
    r"(?P<bound>[<>~\u2248]?)(?P<number>\d+(?:[.,]\d+)?)(?:\s?/\s?(?P<whole>\d+))?\s?(?P<percent>%?)"
)
"""A share, a percentage or a fraction: "0.02", "< 10 %", "1/10"."""
_BEFORE_VALUE = re.compile(r"[\s\"'\])}]*[:=\uff1a(\[\u2013\u2014-][\s\"'(\[]*")
"""What is between a label and its value: ": " of "hate: no", " (" of "hate (no)"."""
_AROUND_VALUE = " \"'()[].,:;!-"
_NAMED_VALUE = re.compile(r"(?P<name>[^\n:=?\uff1a]{1,40})[:=?\uff1a]+(?P<value>[^\n]{1,40})")
"""A name with its value: "Detected: no"."""

# -- limits

_MOST_LEADS = 3
"""Leads before a label: "Sure, based on the text, therefore ..."."""
_MOST_MARKS = 4
"""Opening marks and option letters before a label, together."""
_MOST_FILLERS = 2
"""Fillers before the other label of a contrast: "rather than a clearly negative"."""
_LONGEST_DENYING_VALUE = 3
"""Words of a value that may deny the label: "not at all"."""
_LONGEST_DENIAL = 4
"""Words of a statement without a label that denies the answer: "No, it is not."."""
_LONGEST_DOUBT = 300
"""Characters at the end of a sentence that are searched for words of doubt."""
_DENIAL_SPAN = 60
"""Characters before and after a label that are searched for its denial or value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a statement says of the labels."""

    asserted: int | None = None
    """The label that it asserts."""
    others: frozenset[int] = frozenset()
    """The labels that it mentions otherwise, and does not deny."""
    denied: frozenset[int] = frozenset()
    """The labels that it denies ("not X") or gives a value ("X: 10 %")."""
    takes_back: bool = False
    """Whether it takes back what was said before: "Wait", "that is wrong", or a value alone such as "No."."""
    rule: str = "statement"
    """What was read: a statement, JSON, or the prompt's template."""


@dataclass(frozen=True, slots=True)
class _LabelPhrase:
    """A label of a statement with its option letter and the marks around it, such as ``(B) "positive"``."""

    label: int
    start: int
    """Where the label itself begins in the statement."""
    rest: str
    """The statement after the label and its closing marks."""


class StatementReader:
    """Reads statements about the labels of one task."""

    def __init__(self, labels: LabelNames, phrases: Phrases) -> None:
        """Make a reader of replies, which finds the labels that they assert or deny.

        Args:
            labels: The labels.
            phrases: The patterns of the phrases around labels, such as denials. They have the words that the
                benchmark's template writes before labels and texts, such as ``"topic"``.
        """
        self.labels = labels
        self._phrases = phrases
        self._degrees_are_labels = labels.has_words(phrases.degree_words)
        """Whether a label has a word of degree in it, such as "very negative"."""

    def read(self, statement: str) -> Reading:
        """Return what a statement says of the labels.

        The statement is read from each position where an asserted label may begin, up to the first reading that holds
        to its end. A statement without such a reading, and a question, only mentions labels, or denies them.
        """
        if not self.labels.occur_in(statement):
            return Reading(takes_back=self._takes_back(statement))
        mentions = list(self.labels.mentions(statement))
        if _is_question(statement, mentions):
            return self._read_mentions(statement, mentions)
        for position in self._label_positions(statement):
            phrase = self._label_phrase(statement, position)
            if phrase is None:
                continue
            reading = self._read_ending(phrase)
            if reading is not None:
                return reading
        return self._read_mentions(statement, mentions)

    def is_doubt(self, sentence: str) -> bool:
        """Return whether a sentence leaves open a doubt or a denial, of which the next sentence may be the rest.

        After "The answer is not", or "Labels that are wrong:", the next label is not asserted. "It is not X" is
        complete, so only words after the last label count. A cue, such as "I would say", is no doubt.
        """
        last_label_end = max((mention.end for mention in self.labels.mentions(sentence)), default=0)
        after_labels = sentence[last_label_end:]
        has_doubt = self._phrases.doubt.search(after_labels[-_LONGEST_DOUBT:]) is not None
        return has_doubt and not self.is_cue(sentence)

    def is_refusal(self, sentence: str) -> bool:
        """Return whether a sentence says that no label is known: "I'm not sure"."""
        return self._phrases.refusal.search(sentence) is not None

    def is_name_of_answer(self, name: str) -> bool:
        """Return whether a name, such as that of a tag, asks for the label."""
        return name.casefold() in self._phrases.answer_names

    def is_cue(self, statement: str) -> bool:
        """Return whether a statement is only a lead and a cue, such as "Here is the answer:".

        Then its end is a position where a label may begin: nothing is left that is neither.
        """
        end = len(statement)
        return end in self._label_positions(statement)

    # -- before the label

    def _label_positions(self, statement: str) -> Iterator[int]:
        """Yield the positions of a statement where an asserted label may begin.

        Of "Sure, the answer is a very positive one", these are the beginning, and the ends of the lead ("Sure,"), the
        cue ("the answer is"), the article ("a") and the word of degree ("very"). A position may occur twice.
        """
        for lead_end in self._lead_ends(statement):
            yield from self._modifier_ends(statement, lead_end)
            for cue_pattern in self._phrases.cues:
                cue = cue_pattern.match(statement, lead_end)
                if cue is not None and cue.end() > lead_end:
                    yield from self._modifier_ends(statement, cue.end())

    def _lead_ends(self, statement: str) -> Iterator[int]:
        """Yield the beginning of a statement and the end of each lead ("Sure,", "Based on the text,")."""
        position = 0
        yield position
        for _ in range(_MOST_LEADS):
            lead = self._lead_at(statement, position)
            if lead is None:
                return
            position = lead.end()
            yield position

    def _lead_at(self, statement: str, position: int) -> re.Match[str] | None:
        """Return the words or the symbol that lead to an answer, and that begin at a position of a statement.

        They are a symbol such as a tick or an arrow, a word such as "Therefore,", or an introduction such as "Based on
        the text,".

        Returns:
            The match; ``None`` if there is none at the position.
        """
        symbol = _LEADING_SYMBOLS.match(statement, position)
        # A symbol at the edge of a label may be the label itself.
        if symbol is not None and symbol[0][0] not in self.labels.edge_symbols:
            return symbol
        lead = self._phrases.lead.match(statement, position)
        if lead is not None:
            return lead
        introduction = self._phrases.intro.match(statement, position)
        # An introduction such as "Based on a wrong reading," may change the meaning of what follows it.
        if introduction is not None and self._phrases.guard.search(introduction[0]) is None:
            return introduction
        return None

    def _modifier_ends(self, statement: str, position: int) -> Iterator[int]:
        """Yield the positions where a label may begin from a position on: there, after an article, after "very".

        Words of degree are not skipped if they are part of a label, such as "very negative".
        """
        yield position
        article = self._phrases.article.match(statement, position)
        if article is not None and self.labels.at(statement, position) is None:
            position = article.end()
            yield position
        degree = self._phrases.degree.match(statement, position)
        if degree is not None and not self._degrees_are_labels:
            yield degree.end()

    # -- the label

    def _label_phrase(self, text: str, position: int, marks_before: int = 0) -> _LabelPhrase | None:
        """Return the label that begins at a position, with an option letter in front of it or marks around it, if any.

        These are found: ``positive``, ``B) positive``, ``"positive"``, ``(B) "positive"``.

        Args:
            text: A statement, or a part of it.
            position: Where the label, its option letter or an opening mark begins.
            marks_before: How many option letters and opening marks were passed to come to this position.

        Returns:
            The label with what follows it; ``None`` if there is no label, or the option letter is not that of the
            label.
        """
        if marks_before > _MOST_MARKS:
            return None
        bare_label = self.labels.at(text, position)
        if bare_label is not None:
            return _LabelPhrase(bare_label.label, bare_label.start, rest=text[bare_label.end :])

        option = _OPTION.match(text, position)
        if option is not None:
            phrase = self._label_phrase(text, option.end(), marks_before + 1)
            if phrase is not None:
                has_own_letter = _is_letter_of(option[1], phrase.label)
                return phrase if has_own_letter else None
        return self._enclosed_label(text, position, marks_before)

    def _enclosed_label(self, text: str, position: int, marks_before: int) -> _LabelPhrase | None:
        """Return the label between the mark at a position and its closing mark, as in ``"positive."``.

        It is ``None`` if there is no such mark, no label behind it, or no closing mark. Arguments as for
        :meth:`_label_phrase`.
        """
        closing_mark = _CLOSING_MARKS.get(text[position : position + 1])
        if closing_mark is None:
            return None
        inner_position = position + 1
        # A blank may follow an opening mark; "[ ] positive" is a box without a tick.
        if text.startswith(" ", inner_position) and closing_mark != "]":
            inner_position += 1

        phrase = self._label_phrase(text, inner_position, marks_before + 1)
        if phrase is None:
            return None
        closing = re.match(f"{_END_MARK.pattern} ?{re.escape(closing_mark)}", phrase.rest)
        if closing is None:
            return None
        return replace(phrase, rest=phrase.rest[closing.end() :])

    # -- after the label

    def _read_ending(self, phrase: _LabelPhrase) -> Reading | None:
        """Return what a statement says of the labels, from its first label and the text that follows this label.

        A statement that asserts the label "positive" may end in these ways, which are tried in order:

        - nothing, an end mark or an emoji: "It is positive." (also after a noun: "a positive sentiment.")
        - a contrast: "It is positive, not negative."
        - a reason: "It is positive because ..."
        - the text of an option: "B) positive"
        - a sentence that explains a number: "4. The review praises ..."

        Returns:
            The reading; ``None`` if the statement ends in another way, and is not understood.
        """
        label, rest = phrase.label, phrase.rest
        # A label at position 0 begins the statement; one at position 1 has only an opening mark before it.
        follows_words = phrase.start > 1
        for ending in self._possible_endings(rest, follows_words):
            if self._is_end(ending):
                return Reading(asserted=label)
            reading = self._read_contrast(label, ending)
            if reading is not None:
                return reading
            reading = self._read_reason(label, ending)
            if reading is not None:
                return reading

        reading = self._read_option_text(label, rest)
        if reading is not None:
            return reading
        return self._read_explained_number(label, rest)

    def _possible_endings(self, rest: str, follows_words: bool) -> Iterator[str]:
        """Yield the texts that may be the ending of a statement: all after the label, and without the label's noun.

        For the label of "positive sentiment because ...", these are " sentiment because ..." and " because ...". The
        caller takes the first one that it can read. A noun that names the text needs words before the label: "It is a
        good review", not "Good review".

        Args:
            rest: What follows the label.
            follows_words: Whether words are before the label.
        """
        yield rest
        position = 1 if rest.startswith(" ") else 0
        noun = self._phrases.noun.match(rest, position)
        if noun is None and follows_words:
            noun = self._phrases.text_noun.match(rest, position)
        if noun is not None:
            yield rest[noun.end() :]
        aftermath = self._phrases.aftermath.match(rest, position)
        if aftermath is not None:
            yield rest[aftermath.end() :]

    def _is_end(self, rest: str) -> bool:
        """Return whether a statement ends after its label: only an end mark such as "!" and an emoji may follow it.

        Args:
            rest: The text that follows the label.
        """
        emoji = _TRAILING_EMOJI.search(rest)
        # An emoji at the edge of a label may be a label itself.
        if emoji is not None and emoji[0].strip() not in self.labels.edge_symbols:
            rest = rest[: emoji.start()]
        return _END_MARK.fullmatch(rest) is not None

    def _read_reason(self, label: int, rest: str) -> Reading | None:
        """Return what a statement "X because ..." says of the labels.

        It asserts X. What the reason says of labels counts as that of a later statement.

        Args:
            label: X.
            rest: The text that follows X and its noun.

        Returns:
            The reading; ``None`` if no reason follows, or only a number or "no" as the reason, which may deny X.
        """
        rest = _without_separator(rest)
        reason = self._phrases.reason.match(rest)
        if reason is None:
            return None
        text = rest[reason.end() :]
        if self._is_value(text):
            return None
        return self._with_explanation(label, text)

    def _read_contrast(self, label: int, rest: str) -> Reading | None:
        """Return what a statement "X rather than Y" says of the labels: it asserts X.

        Words such as "a clearly" may be before Y. Arguments as for :meth:`_read_reason`.

        Returns:
            The reading; ``None`` if no contrast with another label follows X.
        """
        rest = _without_separator(rest)
        contrast = self._phrases.contrast.match(rest)
        if contrast is None:
            return None
        position = contrast.end()
        for _ in range(_MOST_FILLERS + 1):
            other_label = self._label_phrase(rest, position)
            if other_label is not None and other_label.label != label:
                return self._read_after_contrast(label, other_label.rest.removeprefix(")"))
            filler = self._phrases.filler.match(rest, position)
            if filler is None:
                return None
            position = filler.end()
        return None

    def _read_after_contrast(self, label: int, rest: str, contrasted_labels: int = 1) -> Reading | None:
        """Return what a statement "X rather than Y ..." says of the labels, from the text that follows Y.

        After Y, the statement may end ("X rather than Y."), give a reason ("... Y because ..."), or add a label with
        "or" ("... Y or Z"). After the added label, it may go on in the same three ways.

        Args:
            label: X, the label that the statement asserts.
            rest: The text that follows Y.
            contrasted_labels: How many labels "rather than" has so far. If it already has as many as the task, one more
                would be a repetition.

        Returns:
            That it asserts X; ``None`` if it goes on in another way, and is not understood.
        """
        may_add_label = contrasted_labels < len(self.labels.names)
        for ending in self._possible_endings(rest, follows_words=True):
            if self._is_end(ending):
                return Reading(asserted=label)
            reading = self._read_reason(label, ending)
            if reading is not None:
                return reading
            added = self._joined_label(ending)
            if may_add_label and added is not None and added.label != label:
                return self._read_after_contrast(label, added.rest, contrasted_labels + 1)
        return None

    def _joined_label(self, text: str) -> _LabelPhrase | None:
        """Return the label that a text joins with "or": ", or Y"; ``None`` if it joins none."""
        text = text.lstrip(" ,")
        joint = self._phrases.either.match(text)
        if joint is None:
            return None
        return self._label_phrase(text, joint.end())

    def _read_option_text(self, label: int, rest: str) -> Reading | None:
        """Return what a statement such as "B) Paris" or "C (Oslo)." says, where the labels of the task are letters.

        Args:
            label: The label, such as that of the letter B.
            rest: The text that follows it: ") Paris", " (Oslo).".

        Returns:
            That it asserts the label; ``None`` if the label is no letter, or if the text behind it may be no text of an
            option: a value ("A (no)"), a condition ("A) if ..."), or one with labels.
        """
        name = self.labels.names[label]
        is_letter = len(name) == 1 and name.isalpha()
        option = _OPTION_TEXT.fullmatch(rest)
        if not is_letter or option is None:
            return None
        if option["in_brackets"] is not None:
            text = option["in_brackets"]
            may_be_value = self._begins_with_value(text)
        else:
            text = option["after_bracket"]
            # A number alone may be the text of an option: "B) 42".
            is_number = _NUMBER.fullmatch(text) is not None
            may_be_value = self._begins_with_value(text) and not is_number
        has_condition = self._phrases.guard.search(text) is not None
        if may_be_value or has_condition or any(self.labels.mentions(text)):
            return None
        return self._with_explanation(label, text)

    def _read_explained_number(self, label: int, rest: str) -> Reading | None:
        """Return what a statement such as "3. The review ..." says, where the labels of the task are numbers.

        Args:
            label: The label, such as that of the number 3.
            rest: The text that follows it: ". The review ...".

        Returns:
            That it asserts the label; ``None`` if the label is no number, or the sentence begins in another way than
            explanations do. In "1. First ...", the number may be that of an item of a list.
        """
        is_number = self.labels.names[label].isdigit()
        is_explained = rest.startswith(". ") and self._phrases.opener.match(rest, 2) is not None
        if not is_number or not is_explained:
            return None
        return self._with_explanation(label, rest)

    def _with_explanation(self, label: int, explanation: str) -> Reading:
        """Return what a statement says of the labels that asserts one and explains it (a :class:`Reading`).

        Args:
            label: The label.
            explanation: The text of the explanation, which may mention other labels, deny labels, or take back the
                assertion.
        """
        explained = self._read_mentions(explanation, list(self.labels.mentions(explanation)))
        return Reading(
            asserted=label,
            others=explained.others - {label},
            denied=explained.denied,
            takes_back=self._phrases.retraction.search(explanation) is not None,
        )

    # -- statements that assert nothing

    def _read_mentions(self, statement: str, mentions: list[Mention]) -> Reading:
        """Return which labels a statement denies, and which it only mentions. It asserts none.

        Args:
            statement: The statement.
            mentions: The places where it names labels, from left to right.

        Returns:
            The reading. A label is in both sets if a denial or a value is near it that may be about another label.
        """
        mentioned: set[int] = set()
        denied: set[int] = set()
        last_denied: Mention | None = None
        has_denial = self._phrases.denial.search(statement) is not None
        for mention in mentions:
            before = statement[max(0, mention.start - _DENIAL_SPAN) : mention.start]
            after = statement[mention.end : mention.end + _DENIAL_SPAN]
            is_denied = self._is_denied_after(after)
            if has_denial and self._is_denied_before(before):
                is_denied = True
            if last_denied is not None and self._are_joined(statement, last_denied, mention):
                is_denied = True

            if is_denied:
                denied.add(mention.label)
                last_denied = mention
                continue
            mentioned.add(mention.label)
            is_near_denial = has_denial and self._is_near_denial(before, after)
            if is_near_denial or self._has_value(after):
                denied.add(mention.label)
        takes_back = self._takes_back(statement)
        return Reading(others=frozenset(mentioned), denied=frozenset(denied), takes_back=takes_back)

    def _is_denied_before(self, before: str) -> bool:
        """Return whether a mention is denied by what is before it: "not X"."""
        return self._phrases.ends_in_denial.search(before) is not None

    def _is_denied_after(self, after: str) -> bool:
        """Return whether a mention is denied by what is after it: "X is wrong".

        Args:
            after: The text after the mention; its first character is the blank before the words.
        """
        return self._phrases.denied_after.match(after, 1) is not None

    def _is_near_denial(self, before: str, after: str) -> bool:
        """Return whether a word of denial is in the clause of a label X: "It never mentions X", "X it is not".

        Args:
            before: The text before the label. Its last clause is that of the label.
            after: The text after it. Its first clause is that of the label.
        """
        clause_before = _CLAUSE_MARK.split(before)[-1]
        clause_after = _CLAUSE_MARK.split(after)[0]
        denial = self._phrases.denial
        return denial.search(clause_before) is not None or denial.search(clause_after) is not None

    def _are_joined(self, statement: str, first: Mention, second: Mention) -> bool:
        """Return whether only "or" or a comma is between two mentions: "neither X nor Y"."""
        between = statement[first.end : second.start].strip(" ,/\"'")
        return not between or self._phrases.either.fullmatch(between) is not None

    def _takes_back(self, statement: str) -> bool:
        """Return whether a statement takes back an answer that was given before it.

        These statements do:

        - a retraction: "Wait, ...", "that is wrong"
        - a value as the answer: "No.", "Answer: no"
        - a value that denies, after a name: "Detected: no"
        - a denial of the answer that names no label: "It isn't." (With a label, "It isn't X" denies only X.)
        """
        if self._phrases.retraction_start.match(statement.lstrip("\"'(*-. ")) is not None:
            return True
        if self._phrases.retraction.search(statement) is not None:
            return True
        if self._is_value_of_answer(statement) or self._is_denying_value_of_a_name(statement):
            return True
        return not self.labels.occur_in(statement) and self._denies_the_answer(statement)

    def _denies_the_answer(self, statement: str) -> bool:
        """Return whether a statement without a label denies the answer that was given before it.

        It does if it denies a label or an answer ("No label fits", "The answer is incorrect"), or if it is short and
        begins with a denial ("Not flagged") or with a pronoun ("It isn't."). A short one that begins with "no", such as
        "No problem", does not.
        """
        denial = self._phrases.denial.search(statement)
        names_answer = self._phrases.judged.search(statement) is not None
        if names_answer:
            return denial is not None or self._phrases.false.search(statement) is not None
        is_short = len(statement.split()) <= _LONGEST_DENIAL
        if denial is None or not is_short:
            return False
        begins_with_denial = denial.start() == 0 and denial[0].strip().casefold() != "no"
        begins_with_pronoun = self._phrases.that.match(statement) is not None
        return begins_with_denial or begins_with_pronoun

    def _is_denying_value_of_a_name(self, statement: str) -> bool:
        """Return whether a statement is a name with a value that denies: "Detected: no", "Probability: 0.02".

        A property of the text, such as "Sarcasm: no", says nothing of the label.
        """
        named = _NAMED_VALUE.fullmatch(statement)
        if named is None or self._phrases.property.fullmatch(named["name"].strip()) is not None:
            return False
        value = named["value"].strip(_AROUND_VALUE)
        quantity = _QUANTITY.fullmatch(value)
        if quantity is not None:
            return _is_less_than_half(quantity)
        if len(value.split()) > _LONGEST_DENYING_VALUE or self._phrases.assent.fullmatch(value) is not None:
            return False
        return self._is_value(value) or self._phrases.doubt.search(value) is not None

    def _is_value_of_answer(self, statement: str) -> bool:
        """Return whether a statement is only a value ("No.", "0 %"), or a cue with a word of value ("Answer: no")."""
        if self._is_value(statement):
            return True
        if self._phrases.ends_in_value.search(statement) is None:
            return False
        for position in self._label_positions(statement):
            if self._phrases.value.fullmatch(statement[position:].strip(_AROUND_VALUE)) is not None:
                return True
        return False

    def _has_value(self, rest: str) -> bool:
        """Return whether a value follows a label: "X: 10 %", "X (no)"."""
        separator = _BEFORE_VALUE.match(rest)
        return separator is not None and self._begins_with_value(rest[separator.end() :])

    def _begins_with_value(self, text: str) -> bool:
        """Return whether a text begins with a number, a word of value ("no"), or a symbol for "no", such as a cross."""
        text = text.lstrip()
        if text.startswith(_CROSSES):
            return True
        return _NUMBER.match(text) is not None or self._phrases.value.match(text) is not None

    def _is_value(self, statement: str) -> bool:
        """Return whether a text is a number or a word of value ("No."), or begins with a cross."""
        text = statement.strip(_AROUND_VALUE)
        if text.startswith(_CROSSES):
            return True
        return _NUMBER.fullmatch(text) is not None or self._phrases.value.fullmatch(text) is not None


def _is_question(statement: str, mentions: list[Mention]) -> bool:
    """Return whether a statement ends in a question mark that is no part of a label."""
    text = statement.rstrip("\"')")
    ends_in_label = bool(mentions) and mentions[-1].end == len(text)
    return text.endswith(("?", "\uff1f")) and not ends_in_label


def _is_letter_of(letter: str, label: int) -> bool:
    """Return whether an option letter is that of a label: "a" or "A" is that of the first."""
    return label < len(ascii_lowercase) and letter.lower() == ascii_lowercase[label]


def _without_separator(text: str) -> str:
    """Return the text without the comma, dash or opening bracket before a reason or a contrast."""
    return _SEPARATOR.sub("", text, count=1)


def _is_less_than_half(quantity: re.Match[str]) -> bool:
    """Return whether a share, a percentage or a fraction is less than one half; a larger number is no share.

    Args:
        quantity: A match of the pattern of quantities.
    """
    number = float(quantity["number"].replace(",", "."))
    whole = 1
    if quantity["percent"]:
        whole = 100
    elif quantity["whole"]:
        whole = int(quantity["whole"])
    return quantity["bound"] == "<" or number < 0.5 * whole
