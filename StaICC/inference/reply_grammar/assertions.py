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
from dataclasses import dataclass
from string import ascii_lowercase

from StaICC.inference.reply_grammar.labels import LabelNames, Mention
from StaICC.inference.reply_grammar.phrases import Phrases

_PAIRS = {
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
_END_MARK = re.compile(r" ?[.!,;\u2026\u3002\uff0c\uff01\uff1b]?")
_PICTURES_OF_ASSENT = (
    "\u2705\u2714\u2713\u2611\U0001f44d\U0001f389\u2b50\U0001f31f\U0001f4af\U0001f449\u27a1\u2192\u21d2"
)
_LEADING_PICTURES = re.compile(rf"(?:[{_PICTURES_OF_ASSENT}]|-+>|=+>|\[x\])\s?", re.I)
_TRAILING_PICTURES = re.compile(r"\s?[\U0001f600-\U0001f60f\U0001f642\U0001f44d\U0001f389\u2b50\U0001f31f]$")
_SEPARATOR = re.compile(r"^(?:\s?[,(\uff0c]| [-\u2013\u2014])?\s?")
_BEFORE_VALUE = re.compile(r"[\s\"'\])}]*[:=\uff1a(\[\u2013\u2014-][\s\"'(\[]*")
_NUMBER = re.compile(r"[<>~\u2248]?[+-]?\d+(?:[.,/]\d+)?\s?%?")
_CROSS = "\u274c\u2717\u2718\u2716\u274e\U0001f6ab\u26d4\U0001f44e\u00d7\u2715\u2610"
_OPTION = re.compile(r"\(?([A-Za-z])(?:[).:]|\.\))\s?")
_OPTION_TEXT = re.compile(r"\)\s?(?P<after_bracket>.{0,200}?)[.]?|\s?\((?P<in_brackets>[^()]{1,80})\)[.!,]?")
_AROUND_VALUE = " \"'()[].,:;!-"
_CLAUSE_MARK = re.compile(r"[,;:.\uff0c\uff1b\u3002]")
_NAMED_VALUE = re.compile(r"(?P<name>[^\n:=?\uff1a]{1,40})[:=?\uff1a]+(?P<value>[^\n]{1,40})")
_QUANTITY = re.compile(
    r"(?P<bound>[<>~\u2248]?)(?P<number>\d+(?:[.,]\d+)?)(?:\s?/\s?(?P<whole>\d+))?\s?(?P<percent>%?)"
)
_LONGEST_DENYING_VALUE = 3
_LONGEST_DENIAL = 4
_LONGEST_DOUBT = 300
_DENIAL_SPAN = 60
_MOST_MARKS = 4
_MOST_LEADS = 3
_MOST_FILLERS = 2


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


def _without_separator(text: str) -> str:
    """Return the text without the comma, dash or opening bracket before a reason or a contrast."""
    return _SEPARATOR.sub("", text, count=1)


def _is_less_than_half(quantity: re.Match[str]) -> bool:
    """Return whether a share, a percentage or a fraction is less than one half; a larger number is no share."""
    number = float(quantity["number"].replace(",", "."))
    whole = int(quantity["whole"]) if quantity["whole"] else 1
    if quantity["percent"]:
        whole = 100
    return quantity["bound"] == "<" or number < 0.5 * whole


class StatementReader:
    """Reads statements about the labels of one task.

    Args:
        labels: The labels.
        phrases: The phrases, with the names of the benchmark's template.
    """

    def __init__(self, labels: LabelNames, phrases: Phrases) -> None:
        self.labels = labels
        self._phrases = phrases
        self._degrees_are_labels = labels.has_words(phrases.degree_words)

    def read(self, statement: str) -> Reading:
        """Return what a statement says of the labels."""
        if not self.labels.occur_in(statement):
            return Reading(takes_back=self._takes_back(statement))
        mentions = list(self.labels.mentions(statement))
        if self._is_question(statement, mentions):
            return self._neutral(statement, mentions)
        for mention, rest in self._label_places(statement):
            reading = self._ending(mention.label, rest, follows_words=mention.start > 1)
            if reading is not None:
                return reading
        return self._neutral(statement, mentions)

    def is_doubt(self, sentence: str) -> bool:
        """Return whether a sentence may turn what follows it into something that is not asserted.

        Words of denial and doubt count after its last label. "The answer is not" is doubt; "It is not X" is complete,
        and so is a cue ("I would say").
        """
        last_label_ends = max((mention.end for mention in self.labels.mentions(sentence)), default=0)
        end = sentence[last_label_ends:][-_LONGEST_DOUBT:]
        return self._phrases.doubt.search(end) is not None and not self.is_cue(sentence)

    def is_refusal(self, sentence: str) -> bool:
        """Return whether a sentence says that no label is known: "I'm not sure"."""
        return self._phrases.refusal.search(sentence) is not None

    def is_name_of_answer(self, name: str) -> bool:
        """Return whether a name, such as that of a tag, asks for the label."""
        return name.casefold() in self._phrases.answer_names

    def _is_question(self, statement: str, mentions: list[Mention]) -> bool:
        """Return whether a statement ends in a question mark that is no part of a label."""
        text = statement.rstrip("\"')")
        ends_in_label = bool(mentions) and mentions[-1].end == len(text)
        return text.endswith(("?", "\uff1f")) and not ends_in_label

    def is_cue(self, statement: str) -> bool:
        """Return whether a statement is only a lead and a cue, such as "Here is the answer:"."""
        return any(place == len(statement) for place in self._places(statement))

    # -- before the label

    def _label_places(self, statement: str) -> Iterator[tuple[Mention, str]]:
        """Return the labels at the places where the grammar allows one, each with the text after it."""
        for place in self._places(statement):
            marked = self._marked_label(statement, place)
            if marked is not None:
                yield marked

    def _places(self, statement: str) -> Iterator[int]:
        """Return the places where an asserted label may begin: after leads, a cue, an article and a word of degree."""
        for after_lead in self._after_leads(statement):
            yield from self._after_modifiers(statement, after_lead)
            for cue in self._phrases.cues:
                match = cue.match(statement, after_lead)
                if match is not None and match.end() > after_lead:
                    yield from self._after_modifiers(statement, match.end())

    def _after_leads(self, statement: str) -> Iterator[int]:
        """Return the place before and after each lead ("Sure,", "Based on the text,")."""
        place = 0
        yield place
        for _ in range(_MOST_LEADS):
            lead = self._leading_picture(statement, place) or self._phrases.lead.match(statement, place)
            lead = lead or self._intro(statement, place)
            if lead is None:
                return
            place = lead.end()
            yield place

    def _leading_picture(self, statement: str, place: int) -> re.Match[str] | None:
        """Return a picture before a label, unless a label has one at its edge: it may be a label itself."""
        picture = _LEADING_PICTURES.match(statement, place)
        if picture is None or picture[0][0] in self.labels.edge_symbols:
            return None
        return picture

    def _intro(self, statement: str, place: int) -> re.Match[str] | None:
        """Return an introduction up to its comma ("Based on the text,"), unless it may change what follows."""
        intro = self._phrases.intro.match(statement, place)
        if intro is None or self._phrases.guard.search(intro[0]):
            return None
        return intro

    def _after_modifiers(self, statement: str, place: int) -> Iterator[int]:
        """Return the place before and after an article, and after a word of degree where no label has one."""
        yield place
        article = self._phrases.article.match(statement, place)
        if article is not None and self.labels.at(statement, place) is None:
            place = article.end()
            yield place
        degree = self._phrases.degree.match(statement, place)
        if degree is not None and not self._degrees_are_labels:
            yield degree.end()

    # -- the label

    def _marked_label(self, statement: str, place: int, marks: int = 0) -> tuple[Mention, str] | None:
        """Return the label at a place, in pairs of marks and after its option letter if it has them, and the rest.

        Args:
            statement: The statement.
            place: Where the marks begin.
            marks: How many marks were read before this place.
        """
        if marks > _MOST_MARKS:
            return None
        bare = self.labels.at(statement, place)
        if bare is not None:
            return bare, statement[bare.end :]
        option = _OPTION.match(statement, place)
        if option is not None:
            inner = self._marked_label(statement, option.end(), marks + 1)
            if inner is not None:
                letter_of_label = ascii_lowercase[inner[0].label : inner[0].label + 1]
                return inner if option[1].lower() == letter_of_label else None
        closing = _PAIRS.get(statement[place : place + 1])
        if closing is None:
            return None
        opening = 2 if statement[place + 1 : place + 2] == " " and closing != "]" else 1
        inner = self._marked_label(statement, place + opening, marks + 1)
        if inner is None:
            return None
        mention, rest = inner
        closed = re.match(_END_MARK.pattern + " ?" + re.escape(closing), rest)
        return None if closed is None else (mention, rest[closed.end() :])

    # -- after the label

    def _ending(self, label: int, rest: str, follows_words: bool) -> Reading | None:
        """Return the reading of a statement from what follows its label; ``None`` if that is no ending."""
        for after_noun in self._after_noun(rest, follows_words):
            if self._is_end(after_noun):
                return Reading(label)
            reading = self._contrast(label, after_noun) or self._reason(label, after_noun)
            if reading is not None:
                return reading
        return self._option_text(label, rest) or self._explained_number(label, rest)

    def _after_noun(self, rest: str, follows_words: bool) -> Iterator[str]:
        """Return the rest as it is, and without a noun of the task ("sentiment", "tone of this text").

        A noun of the text needs words before the label: "It is a good review", not "Good review".
        """
        yield rest
        place = 1 if rest.startswith(" ") else 0
        noun = self._phrases.noun.match(rest, place)
        if noun is None and follows_words:
            noun = self._phrases.text_noun.match(rest, place)
        if noun is not None:
            yield rest[noun.end() :]
        aftermath = self._phrases.aftermath.match(rest, place)
        if aftermath is not None:
            yield rest[aftermath.end() :]

    def _is_end(self, rest: str) -> bool:
        picture = _TRAILING_PICTURES.search(rest)
        if picture is not None and picture[0].strip() not in self.labels.edge_symbols:
            rest = rest[: picture.start()]
        return _END_MARK.fullmatch(rest) is not None

    def _reason(self, label: int, rest: str) -> Reading | None:
        """Return the reading if the rest is a reason: "because ...". Its labels count as those of a later statement."""
        reason = self._phrases.reason.match(_without_separator(rest))
        if reason is None:
            return None
        text = reason.string[reason.end() :]
        return None if self._is_value(text) else self._with_later(label, text)

    def _contrast(self, label: int, rest: str) -> Reading | None:
        """Return the reading if the rest is a contrast with another label: "rather than X"."""
        contrast = self._phrases.contrast.match(_without_separator(rest))
        if contrast is None:
            return None
        text, place = contrast.string, contrast.end()
        for _ in range(_MOST_FILLERS + 1):
            marked = self._marked_label(text, place)
            if marked is not None and marked[0].label != label:
                return self._after_contrast(label, marked[1].removeprefix(")"))
            filler = self._phrases.filler.match(text, place)
            if filler is None:
                return None
            place = filler.end()
        return None

    def _after_contrast(self, label: int, rest: str, joined: int = 1) -> Reading | None:
        """Return the reading from what follows the other label: the end, a reason, or "or" and one more label.

        Args:
            label: The label that the statement asserts.
            rest: What follows the label of the contrast.
            joined: How many labels the contrast has so far.
        """
        for after_noun in self._after_noun(rest, follows_words=True):
            if self._is_end(after_noun):
                return Reading(label)
            reading = self._reason(label, after_noun)
            if reading is not None:
                return reading
            either = self._phrases.either.match(after_noun.lstrip(" ,"))
            marked = self._marked_label(either.string, either.end()) if either is not None else None
            if marked is not None and marked[0].label != label and joined < len(self.labels.names):
                return self._after_contrast(label, marked[1], joined + 1)
        return None

    def _option_text(self, label: int, rest: str) -> Reading | None:
        """Return the reading if the label is a letter and the rest is its option's text: "B) Paris", "C (Oslo)."."""
        name = self.labels.names[label]
        option = _OPTION_TEXT.fullmatch(rest)
        if option is None or len(name) != 1 or not name.isalpha():
            return None
        if option["in_brackets"] is not None:
            text = option["in_brackets"]
            may_be_value = self._begins_with_value(text)
        else:
            text = option["after_bracket"]
            may_be_value = self._begins_with_value(text) and _NUMBER.fullmatch(text) is None
        if may_be_value or self._phrases.guard.search(text) or any(self.labels.mentions(text)):
            return None
        return self._with_later(label, text)

    def _explained_number(self, label: int, rest: str) -> Reading | None:
        """Return the reading if the label is a number before a sentence: "3. The review ...", not "1. First ..."."""
        is_explained = rest.startswith(". ") and self._phrases.opener.match(rest, 2) is not None
        if not is_explained or not self.labels.names[label].isdigit():
            return None
        return self._with_later(label, rest)

    def _with_later(self, label: int, text: str) -> Reading:
        later = self._neutral(text, list(self.labels.mentions(text)))
        return Reading(label, later.others - {label}, later.denied, bool(self._phrases.retraction.search(text)))

    # -- statements that assert nothing

    def _neutral(self, statement: str, mentions: list[Mention]) -> Reading:
        """Return the reading of a statement that asserts no label."""
        others: set[int] = set()
        denied: set[int] = set()
        denied_until: int | None = None
        has_denial = self._phrases.denial.search(statement) is not None
        for mention in mentions:
            before = statement[max(0, mention.start - _DENIAL_SPAN) : mention.start]
            after = statement[mention.end : mention.end + _DENIAL_SPAN]
            is_denied = (has_denial and self._is_denied_before(before)) or self._is_denied_after(after)
            if is_denied or self._is_joined(statement, denied_until, mention):
                denied.add(mention.label)
                denied_until = mention.end
            elif self._has_value(after) or (has_denial and self._is_near_denial(before, after)):
                denied.add(mention.label)
                others.add(mention.label)
            else:
                others.add(mention.label)
        return Reading(None, frozenset(others), frozenset(denied), self._takes_back(statement))

    def _is_denied_before(self, before: str) -> bool:
        """Return whether a mention is denied by what is before it: "not X"."""
        return self._phrases.ends_in_denial.search(before) is not None

    def _is_denied_after(self, after: str) -> bool:
        """Return whether a mention is denied by what is after it: "X is wrong"."""
        return self._phrases.denied_after.match(after, 1) is not None

    def _is_near_denial(self, before: str, after: str) -> bool:
        """Return whether a word of denial is in the same clause: "It never mentions X", "X it is not"."""
        clause_before, clause_after = _CLAUSE_MARK.split(before)[-1], _CLAUSE_MARK.split(after)[0]
        return self._phrases.denial.search(clause_before) is not None or (
            self._phrases.denial.search(clause_after) is not None
        )

    def _is_joined(self, statement: str, denied_until: int | None, mention: Mention) -> bool:
        """Return whether only "or" or a comma is between a denied mention and this one: "neither X nor Y"."""
        if denied_until is None:
            return False
        between = statement[denied_until : mention.start].strip(" ,/\"'")
        return not between or self._phrases.either.fullmatch(between) is not None

    def _takes_back(self, statement: str) -> bool:
        """Return whether a statement takes back what was said before."""
        if self._phrases.retraction_start.match(statement.lstrip("\"'(*-. ")):
            return True
        if self._phrases.retraction.search(statement) is not None or self._is_value_of_answer(statement):
            return True
        if self._is_denying_value_of_a_name(statement):
            return True
        return not self.labels.occur_in(statement) and self._denies_the_answer(statement)

    def _denies_the_answer(self, statement: str) -> bool:
        """Return whether a statement without a label denies the answer: "It isn't.", "Not flagged", "No label fits"."""
        denial = self._phrases.denial.search(statement)
        if self._phrases.judged.search(statement) is not None:
            return denial is not None or self._phrases.false.search(statement) is not None
        if denial is None or len(statement.split()) > _LONGEST_DENIAL:
            return False
        begins_with_not = denial.start() == 0 and denial[0].strip().casefold() != "no"
        return begins_with_not or self._phrases.that.match(statement) is not None

    def _is_denying_value_of_a_name(self, statement: str) -> bool:
        """Return whether a statement is a name with a value that denies: "Detected: no", "Probability: 0.02".

        A property of the text, such as "Sarcasm: no", says nothing of the label.
        """
        named = _NAMED_VALUE.fullmatch(statement)
        if named is None or self._phrases.property.fullmatch(named["name"].strip()):
            return False
        value = named["value"].strip(_AROUND_VALUE)
        quantity = _QUANTITY.fullmatch(value)
        if quantity is not None:
            return _is_less_than_half(quantity)
        if len(value.split()) > _LONGEST_DENYING_VALUE or self._phrases.assent.fullmatch(value):
            return False
        return self._is_value(value) or self._phrases.doubt.search(value) is not None

    def _is_value_of_answer(self, statement: str) -> bool:
        """Return whether a statement is only a value ("No.", "0 %"), or a cue with a word of value ("Answer: no")."""
        if self._is_value(statement):
            return True
        if self._phrases.ends_in_value.search(statement) is None:
            return False
        words = [statement[place:].strip(_AROUND_VALUE) for place in self._places(statement)]
        return any(self._phrases.value.fullmatch(word) for word in words)

    def _has_value(self, rest: str) -> bool:
        """Return whether a value follows a label: "X: 10 %", "X (no)"."""
        before = _BEFORE_VALUE.match(rest)
        return before is not None and self._begins_with_value(rest[before.end() :])

    def _begins_with_value(self, text: str) -> bool:
        text = text.lstrip()
        if text[:1] and text[0] in _CROSS:
            return True
        return _NUMBER.match(text) is not None or self._phrases.value.match(text) is not None

    def _is_value(self, statement: str) -> bool:
        text = statement.strip(_AROUND_VALUE)
        if text and text[0] in _CROSS:
            return True
        return _NUMBER.fullmatch(text) is not None or self._phrases.value.fullmatch(text) is not None
