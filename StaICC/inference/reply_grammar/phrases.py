"""The phrases of replies, as patterns made from data: ``phrases.json`` has them by language.

A phrase is a text of words. ``[word]`` may be missing, and ``<name>`` is any phrase of the list with this name
in the same language. Built in are ``<colon>``, ``<number>``, ``<quotation>``, and ``<stop>``: a punctuation mark or the
end. To add a language, add its lists to the file. The parser reads these lists; the others are parts of them:

* Before a label: ``lead`` ("therefore"), ``intro`` (begins "based on ...,"), ``cue`` ("the answer is"), ``article``,
  ``degree`` ("very").
* After a label: ``noun`` ("sentiment"), ``text noun`` ("review"), ``aftermath`` ("in this text"), ``reason``
  ("because"), ``contrast`` ("rather than", then ``filler`` and another label, joined by ``or``), ``opener`` (begins the
  sentence that explains a number).
* Against a label: ``not`` (before it, with ``filler``), ``denied after`` ("is wrong"), ``value`` ("no"),
  ``retraction start`` (begins a statement), ``retraction`` (anywhere in it), ``guard`` (in an intro or the text of an
  option), ``doubt`` (in a sentence without an end mark, which what follows continues), ``refusal`` (before a label),
  ``judged`` (what a denial in a later statement is about), ``assent`` (the values that deny nothing), ``property``
  (the names whose values say nothing of the label).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from StaICC.inference.reply_grammar.labels import normalised

_BUILT_IN = {
    "colon": r"(?:\s?(?:[:\uff1a=]|->|=>|\u2192|\u21d2)|\s[-\u2013\u2014](?=\s))",
    "number": r"\d{1,3}",
    "stop": r"(?:[.,;:!\u2014-]|$)",
    "quotation": r"(?:\"[^\"]{1,300}\"|\u201c[^\u201d]{1,300}\u201d)",
}
"""The names that have a pattern of their own and no list."""
_PHRASE_ITEM = re.compile(r"<(?P<name>\w+)>|(?P<open>\[)|(?P<close>\])|(?P<words>[^<>\[\]\s]+)")
"""An item of a phrase: the name of a list, a bracket around what may be missing, or words."""
_LETTER = r"[^\W\d_\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff]"
_PLAIN = re.compile(rf"{_LETTER}+(?:['-]{_LETTER}+)*(?: {_LETTER}+(?:['-]{_LETTER}+)*)*")
"""Words that only have letters, apostrophes and hyphens, of a language that writes spaces."""
_HAS_SPACES = re.compile(r"[^\W\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff]")

Lists = Mapping[str, Sequence[str]]
"""The phrases of one language by the name of their list."""


@functools.lru_cache(maxsize=1)
def phrases_by_language() -> dict[str, dict[str, list[str]]]:
    """Return the phrases of all languages."""
    text = Path(__file__).with_name("phrases.json").read_text(encoding="utf-8")
    languages: dict[str, dict[str, list[str]]] = json.loads(text)
    return languages


def pattern_of(phrase: str, lists: Lists) -> str:
    """Return a phrase as the text of a regular expression, in which each item may have a blank behind it.

    Args:
        phrase: The phrase, such as ``"the <answer> [<adverb>] is"``: what is in square brackets may be missing, and a
            name in angle brackets is any phrase of the list with this name.
        lists: The lists that it names.
    """
    pattern = ""
    for item in _PHRASE_ITEM.finditer(normalised(phrase)):
        list_name = item["name"]
        if item["open"]:
            pattern += "(?:"
        elif item["close"]:
            pattern += ")?"
        elif list_name in _BUILT_IN:
            pattern += _BUILT_IN[list_name] + r"\s?"
        elif list_name:
            phrases_of_list = lists.get(list_name, ())
            pattern += any_of(phrases_of_list, lists) + r"\s?"
        else:
            pattern += _whole_words(item["words"]) + r"\s?"
    return pattern


def any_of(phrases: Sequence[str], lists: Lists) -> str:
    """Return the text of a regular expression that matches any of the phrases, the longest one that fits.

    Args:
        phrases: The phrases, as for :func:`pattern_of`.
        lists: The lists that they name.
    """
    longest_first = sorted(phrases, key=len, reverse=True)
    plain = [normalised(phrase) for phrase in longest_first if _PLAIN.fullmatch(phrase)]
    patterns = [pattern_of(phrase, lists) for phrase in longest_first if not _PLAIN.fullmatch(phrase)]
    if plain:
        # The bounds of plain phrases are written once, which makes the pattern short.
        any_plain = "|".join(re.escape(phrase) for phrase in plain)
        patterns.append(rf"(?<!\w)(?:{any_plain})(?!\w)\s?")
    if not patterns:
        return "(?!)"  # matches nothing
    return f"(?:{'|'.join(patterns)})"


def _whole_words(words: str) -> str:
    """Return the pattern of words that are no part of longer words."""
    pattern = re.escape(words)
    if _HAS_SPACES.match(words[0]):
        pattern = rf"(?<!\w){pattern}"
    if _HAS_SPACES.match(words[-1]):
        pattern = rf"{pattern}(?!\w)"
    return pattern


class Phrases:
    """The patterns of all languages, with the names of one benchmark's template.

    Attributes:
        answer_names: The names of an answer in all languages, without case.
        degree_words: The words of degree in all languages.
        cues: The patterns of the cues, one for each phrase, in the order of the file.

    The other attributes are the patterns of the lists of the same name; the module describes them.
    """

    def __init__(self, label_prefix: str, text_prefixes: Sequence[str]) -> None:
        """Compile one pattern for each list of phrases; it matches any phrase of the list, in any language.

        Args:
            label_prefix: The text before a label in the prompts, such as ``"topic: "``: its words name the answer.
            text_prefixes: The beginnings of the texts in the prompts, such as ``"review: "``: their words name the
                text.
        """
        text_names = [name_of(prefix) for prefix in text_prefixes]
        self._languages: list[dict[str, list[str]]] = []
        for lists in phrases_by_language().values():
            self._languages.append(_with_names_of_template(lists, name_of(label_prefix), text_names))

        self.answer_names = frozenset(name.casefold() for name in self._phrases_of("answer"))
        self.degree_words = frozenset(self._phrases_of("degree"))

        # What may be before a label.
        self.lead = self._pattern("lead", end=r"[,\uff0c]?\s?")  # "therefore,"
        self.intro = self._pattern("intro", end=r"[^,:;.!?]{1,120},\s?")  # "based on the text,"
        self.cues: list[re.Pattern[str]] = []  # "the answer is"
        for lists in self._languages:
            for cue in lists.get("cue", ()):
                self.cues.append(re.compile(pattern_of(cue, lists), re.I))
        self.degree = self._pattern("degree")  # "very"
        self.article = self._pattern("article")  # "a"

        # What may follow a label.
        self.noun = self._pattern("noun")  # "sentiment"
        self.text_noun = self._pattern("text noun")  # "review"
        self.aftermath = self._pattern("aftermath")  # "in this text"
        self.reason = self._pattern("reason")  # "because"
        self.contrast = self._pattern("contrast")  # "rather than"
        self.filler = self._pattern("filler")  # "really"
        self.opener = self._pattern("opener")  # "it", as the first word of an explanation
        self.either = self._pattern("or")

        # What denies a label, or makes it uncertain.
        self.guard = self._pattern("guard")  # "if", "wrong"
        self.retraction_start = self._pattern("retraction start")  # "no," at the beginning of a statement
        self.retraction = self._pattern("retraction")  # "that is wrong"
        self.denied_after = self._pattern("denied after")  # "isn't", after a label
        self.value = self._pattern("value")  # "no"
        self.ends_in_value = self._pattern("value", end=r"\W*$")
        self.denial = self._pattern("not")
        self.judged = re.compile(rf"(?<!\bother ){self._all('judged')}", re.I)  # "label"
        self.false = self._pattern("false")  # "incorrect"
        self.that = self._pattern("that")  # "this"
        self.refusal = self._pattern("refusal")  # "I don't know"
        self.assent = self._pattern("assent")  # "detected"
        self.property = self._pattern("property")  # "sarcasm"
        words_of_doubt = [self._all(name) for name in ("not", "guard", "doubt", "value")]
        self.doubt = re.compile("|".join(words_of_doubt), re.I)
        self.ends_in_denial = re.compile(rf"{self._all('not')}(?:{self._all('filler')}){{0,4}}[\"'(\[]?$", re.I)

    def _phrases_of(self, name: str) -> list[str]:
        """Return the phrases of a list in all languages."""
        phrases: list[str] = []
        for lists in self._languages:
            phrases += lists.get(name, ())
        return phrases

    def _all(self, name: str) -> str:
        """Return the pattern, as text, of any phrase of a list in any language."""
        patterns = [any_of(lists[name], lists) for lists in self._languages if lists.get(name)]
        return "(?:" + "|".join(patterns) + ")"

    def _pattern(self, name: str, end: str = "") -> re.Pattern[str]:
        """Return the pattern of any phrase of a list in any language.

        Args:
            name: The name of the list.
            end: The pattern of what follows the phrase.
        """
        return re.compile(self._all(name) + end, re.I)


def _with_names_of_template(lists: Lists, answer_name: str, text_names: Sequence[str]) -> dict[str, list[str]]:
    """Return the lists of a language with the names that a template gives to the answer and to its texts.

    A name goes into two lists: that of phrases before a label ("the final label is positive") and that of nouns after
    it ("a positive label"). After a label, an answer is called by its last word, and a text by its whole name.

    Args:
        lists: The lists of the language. All have "answer" and "text"; some have no nouns.
        answer_name: The words of the label prefix; empty if it has none.
        text_names: The words of each prefix of a text; empty for a prefix without words.
    """
    new_lists = {name: list(phrases) for name, phrases in lists.items()}
    new_lists.setdefault("noun", [])
    new_lists.setdefault("text noun", [])
    if answer_name:
        new_lists["answer"].append(answer_name)
        last_word = answer_name.split()[-1]
        new_lists["noun"].append(last_word)
    for text_name in text_names:
        if text_name:
            new_lists["text"].append(text_name)
            new_lists["text noun"].append(text_name)
    return new_lists


def name_of(prefix: str) -> str:
    """Return the words of a prefix of the template, without its punctuation: ``"topic"`` for ``"topic: "``."""
    return normalised(prefix).strip(" \t\r\n:\uff1a-=>#*")


@functools.lru_cache(maxsize=64)
def phrases_for(label_prefix: str, text_prefixes: tuple[str, ...]) -> Phrases:
    """Return the patterns for the template of one benchmark."""
    return Phrases(label_prefix, text_prefixes)
