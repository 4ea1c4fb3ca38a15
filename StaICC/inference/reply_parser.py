r"""Finds the label in a generated reply.

One parser for all benchmarks. It returns a label only if the reply commits to it: a label that is merely mentioned
("it could be positive"), negated, or one of several is not a prediction. A reply without a label is *unparsed*; it is
never counted as some label.

The rules, in this order; the first that finds a label wins:

1. ``exact``: the reply is a label, apart from case, white space, surrounding punctuation and Markdown.
2. ``json``: the reply (or its only code block) is a JSON string, a list of one string, or an object with one label
   under a key such as ``label`` or ``answer``.
3. ``final``: the last "final answer: ..." or ``\boxed{...}``.
4. ``first line``: the first line is a label; what follows is an explanation, or a base model that continues the prompt.
5. ``cue``: the last "answer: ...", "the label is ...", "classified as ...".
6. ``bold``: the reply contains one label in bold and no other bold label.
7. ``last line``: the last line is a label.

Reasoning is removed first: everything up to ``</think>`` and its variants. A reply whose reasoning does not end was cut
off and is unparsed.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from StaICC.inference.contract import Text

PARSER_VERSION = "4"
"""Changes when a reply can be parsed differently; part of the signature."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The label that a reply names, if it names exactly one."""

    label: int | None
    """The index of the label; ``None`` for an unparsed reply."""
    rule: str
    """The rule that found it, or why there is none: ``"empty"``, ``"cut off in reasoning"``, ``"several labels"``,
    ``"no label"``."""


_MARKS = " \t\r\n.,;:!\"'`*_~#>|()[]{}<>=-"  # around a label; the rest is typographic
_MARKS += "\u2013\u2014\u2026\u201c\u201d\u2018\u2019\u00ab\u00bb\u2022\u3002\u300c\u300d\uff1a"
_BULLET = re.compile(r"^\s*(?:[-*+\u2022]|\(?\d{1,3}[.)])\s+")
_THOUGHT = r"(?:think|thinking|thought|reasoning|reflection)>"
_REASONING_ENDS = re.compile(rf"</{_THOUGHT}|\[/THINK\]|\u25c1/think\u25b7", re.I)
_REASONING_STARTS = re.compile(rf"^\s*(?:<{_THOUGHT}|\[THINK\]|\u25c1think\u25b7)", re.I)
_HARMONY_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_SPECIAL_TOKEN = re.compile(
    r"<\|[a-z_0-9 ]{1,30}\|>(?:assistant\b)?|</?s>|<(?:end_of_turn|start_of_turn|eos|pad)>|\[/?INST\]"
)
_ANSWER_TAG = re.compile(r"<(answer|label|output|result|final_answer)>((?:(?!<\1>).)*?)</\1>", re.I | re.S)
_FENCE = re.compile(r"```[a-z]*\s*(.*?)```", re.I | re.S)
_BOLD = re.compile(r"\*\*(.+?)\*\*|__(.+?)__|<(?:b|strong)>((?:(?!<b>|<strong>).)+?)</(?:b|strong)>", re.S)
_NOUN = (
    r"(?:answer|label|category|class|classification|sentiment|topic|type|intent|relation|emotion|prediction|output|result"
    r"|response|choice|verdict|conclusion|tag|rating|polarity|subjectivity)"
)
_SUBJECT = (
    r"(?:it|this|that|(?:the|this)\s+(?:\w+\s+){0,2}?(?:text|sentence|review|question|comment|tweet|message|statement"
    r"|news|article|headline|input|query|example|post|passage|utterance))"
)
_ADVERB = r"(?:(?:therefore|thus|hence|clearly|most|likely|best|probably|definitely|also|indeed|so)\s+)*"
_AS = (
    r"(?:(?:best\s+)?(?:classified|labell?ed|categori[sz]ed|described|tagged|considered|read)\s+(?:as|to be|under)\s+)"
)
_DETERMINER = re.compile(rf"[^\w\u2212]*(?:(?:an?|the)\s+)?(?:{_NOUN}\s+)?(?=\S)", re.I)
_CUE = re.compile(
    rf"\b{_NOUN}\W{{0,3}}(?:\s+(?:for|of|to)\s+(?:this|the|that)\s+\w+(?:\s+\w+)?)?\W{{0,3}}?"
    rf"(?:\s*(?:[:=]|->|\u2192|\u21d2)|\s+(?:is|would be|should be|must be|was)\b(?:\s*:)?)\s*{_ADVERB}{_AS}?"
    rf"|\b{_SUBJECT}\s+(?:is about|is|was|would be|should be|can be|has|shows|conveys|expresses|belongs to"
    rf"|falls (?:under|into))\s+(?:the category:?\s+)?"
    rf"{_ADVERB}{_AS}?"
    rf"|\b{_AS}"
    r"|\b(?:I(?:'d|\u2019d| would| will)?\s+(?:choose|say|pick|select|answer|go with"
    r"|(?:classify|label|categori[sz]e) (?:it|(?:this|that|the)(?:\s+\w+){0,2}) as))\s*:?\s+",
    re.I,
)
_FINAL = re.compile(
    rf"\bfinal\s+{_NOUN}\W{{0,4}}?(?:\s*(?:[:=]|->)|\s+is\b\s*:?)\s*|\\boxed\s*\{{\s*(?:\\text\s*\{{)?|^####\s+",
    re.I | re.M,
)
_ALTERNATIVE = re.compile(r"^\W*(?:or|and|nor|vs|versus|to)\b\.?|^\s*[/|,&+]\s*", re.I)
_OPEN_ALTERNATIVE = re.compile(r"[\s,;]*(?:or|vs\.?|versus|/)\s|\W*\bnot\W*$|['\u2019]s\b|-\w|\s+of\b", re.I)
_DOUBT = re.compile(
    r"\?|^\W*(?:if|unless|only if|when)\b|\bin part\b|\b(?:wrong|incorrect|mistaken|contradicts?|disagree)\b", re.I
)
_CONDITION = re.compile(
    r"(?:\b(?:if|whether|unless|either|otherwise|depends|examples?|for instance|e\.g\.|previous|earlier"
    r"|it is (?:false|wrong)"
    r"|options|candidates|according to|hard to say|(?:could|might|may) (?:argue|say|be))\b"
    r"|(?:\bnot|n['\u2019]t|\bnever)\s+(?:\w+\s+){0,2}"
    r"(?:think|believe|say|sure|certain|clear|know|tell|convinced|agree)\b"
    r"|\b(?:nobody|no one|some|others?|author|writer|user|he|she|they)\s+(?:\w+\s+)?"
    r"(?:say|says|said|thinks?|claims?|believes?)\b"
    r")[^.!?\n]*$",
    re.I,
)
"""What makes a label later in the sentence no commitment: a condition, an example, a view that is not the model's."""
_NEGATED = re.compile(
    r"(?:\b(?:not|cannot|never|hardly|wrong|incorrect|least likely)|n['\u2019]t)\s+(?:be\s+)?(?:(?:an?|the)\s+)?$", re.I
)
"""What, directly before a cue or a bold label, says that it is not the answer."""
_GOES_ON = re.compile(
    r"\s+(?!(?:because|since|as|due|given|in|for|with|based|overall|here|and|rather|instead|over|one|sentiment|tone|opinion|emotion"
    rf"|feedback|experience|attitude|view|{_NOUN}|text|sentence|review|question|comment|tweet|message|statement|news|article|post)\b)"
    r"[a-z]",
    re.I,
)
"""A word after a label that makes it a part of something else."""
_CLAUSE_END = re.compile(r"[.;!?\n(]|\b(?:because|since|as|although|though|despite|given)\b", re.I)
_CONTRAST = r"\b(?:not|neither|nor|rather than|instead of|as opposed to)\s+(?:(?:an?|the)\s+)?\W?"
_POLITE = re.compile(r"\W*(?:I|we|let|sure|of course|here|problem|maybe)\b", re.I)
_LINE_CUE = re.compile(rf"^\W*{_NOUN}\W{{0,3}}:\W*", re.I | re.M)
_YES_NO = ("yes", "no", "maybe")
_PICTURES = re.compile("[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]")


def _signed(text: str) -> str:
    """Return the text with a minus sign for each hyphen before a number, which is no surrounding mark."""
    return re.sub(r"(?<![\w)])-(?=\.?\d)", "\u2212", text)


def _plain(text: str) -> str:
    """Return the text without case, surrounding marks and multiple white space."""
    return " ".join(text.casefold().strip(_MARKS).split())


def _words(text: str) -> str:
    """Return the text as :func:`_plain`, with underscores and hyphens as spaces."""
    return " ".join(re.sub(r"[-_\u2010-\u2013]", " ", text.casefold()).strip(_MARKS).split())


class _Labels:
    """The labels of one task in the forms in which a reply may write them."""

    def __init__(self, label_space: tuple[str, ...]) -> None:
        self.forms: list[tuple[Callable[[str], str], dict[str, int | None]]] = []
        for form in (str, str.strip, _plain, _words):
            indices: dict[str, int | None] = {}
            for index, label in enumerate(label_space):
                key = form(label)
                indices[key] = index if key not in indices else None  # two labels with one form: not decidable by it
            self.forms.append((form, indices))
        # The longest label first, so that "entity type" is not read as "entity".
        spelled = sorted({label.strip() for label in label_space if label.strip(_MARKS)}, key=len, reverse=True)
        pattern = "|".join(r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", label))) for label in spelled)
        self.start = re.compile(rf"(?:{pattern})(?![\w%]|[.,]\d)" if pattern else r"(?!)", re.I)

    def exactly(self, text: str) -> int | None:
        """Return the label that the text is; ``None`` if it is none, or not a single one."""
        for form, indices in self.forms:
            if (key := form(text)) and key in indices:
                return indices[key]
        return None

    def at_start(self, text: str) -> int | None:
        """Return the label that the text begins with, if the clause does not go on with an alternative or a doubt."""
        text = self._without_determiner(text.lstrip(_MARKS))
        if (match := self.start.match(text)) is None:
            return None
        rest = text[match.end() :]
        if not rest.startswith(("'s", "\u2019s")):
            rest = rest.lstrip("\"'`*_\u201d\u2019)}]")
        label, clause = self.exactly(match[0]), _CLAUSE_END.split(rest, maxsplit=1)[0]
        others = re.sub(f"{_CONTRAST}(?:{self.start.pattern})", " ", clause, flags=re.I)
        goes_on = _GOES_ON.match(rest) or self.mentioned(others) - {label} or _OPEN_ALTERNATIVE.match(rest)
        if goes_on or _DOUBT.search(re.split(r"[.!\n;]", rest, maxsplit=1)[0].strip()):
            return None
        alternative = _ALTERNATIVE.match(rest)
        is_listed = alternative is not None and self.start.match(rest[alternative.end() :].lstrip(_MARKS))
        return None if is_listed else label

    def names_any(self, text: str) -> bool:
        """Tell whether the text begins with a label, doubtful or not."""
        return self.start.match(self._without_determiner(text.lstrip(_MARKS))) is not None

    def _without_determiner(self, text: str) -> str:
        """Remove "a", "the" or "the label" at the beginning, unless it is a label itself."""
        match = self.start.match(text)
        article = match is not None and match[0].casefold() in ("a", "an", "the") and text[match.end() :][:1] == " "
        if match is not None and not (article and text[match.end() :].lstrip()[:1].isalpha()):
            return text
        determiner = _DETERMINER.match(text)
        return text[determiner.end() :].lstrip(_MARKS) if determiner is not None else text

    def mentioned(self, text: str) -> set[int | None]:
        """Return the labels that occur in the text as words."""
        return {self.exactly(match[0]) for match in re.finditer(rf"(?<!\w)(?:{self.start.pattern})", text, re.I)}


_labels = functools.lru_cache(maxsize=64)(_Labels)


def parse_reply(reply: str, label_space: Sequence[str]) -> ParsedReply:
    """Find the label that a generated reply names.

    Args:
        reply: The generated text, without the prompt.
        label_space: The label names.

    Returns:
        The label's index and the rule that found it, or ``None`` and the reason.

    Example:
        >>> parse_reply("<think>Nice, so not negative.</think> The answer is **Positive**.", ["negative", "positive"])
        ParsedReply(label=1, rule='cue')
        >>> parse_reply("It could be positive or negative.", ["negative", "positive"])
        ParsedReply(label=None, rule='several labels')
    """
    labels = _labels(tuple(_signed(str(label)) for label in label_space))
    whole = labels.exactly(_signed(reply))
    if whole is not None and reply.strip() == str(label_space[whole]).strip():
        return ParsedReply(whole, "exact")  # a label may look like markup
    text = _without_reasoning(_signed(reply))
    if text is None:
        return ParsedReply(None, "cut off in reasoning")
    if not text.strip(_MARKS):
        return ParsedReply(None, "empty")
    for rule, find in _RULES:
        label = find(text, labels)
        if label is not None:
            return ParsedReply(label, rule)
    return ParsedReply(None, "several labels" if len(labels.mentioned(text)) > 1 else "no label")


def reply_text(reply: str) -> str:
    """Return what a reply says after its reasoning, out of its code block; empty if the reasoning does not end."""
    return _unwrapped(_without_reasoning(reply) or "").strip()


def is_cut_thought(reply: object) -> bool:
    """Return whether a reply stopped at its maximum number of tokens before its reasoning ended."""
    return isinstance(reply, Text) and reply.finish_reason == "length" and _without_reasoning(reply) is None


def _without_reasoning(reply: str) -> str | None:
    """Return the reply after its reasoning; ``None`` if the reasoning does not end."""
    final = list(_HARMONY_FINAL.finditer(reply))
    if final:
        reply = reply[final[-1].end() :]
    elif "<|channel|>analysis" in reply:
        return None
    reply = _REASONING_ENDS.split(reply)[-1]
    if _REASONING_STARTS.match(reply):
        return None
    return _PICTURES.sub(" ", _SPECIAL_TOKEN.sub("\n", reply)).replace("\\_", "_").strip()


def _unwrapped(text: str) -> str:
    """Return the content of the only code block or answer tag of a text; the text itself if it has none."""
    if tags := _ANSWER_TAG.findall(text):
        return str(tags[-1][1])
    blocks = _FENCE.findall(text)
    return str(blocks[0]) if len(blocks) == 1 else text


def _exact(text: str, labels: _Labels) -> int | None:
    label = labels.exactly(_BULLET.sub("", text, count=1))
    return labels.exactly(_unwrapped(text)) if label is None else label


def _json(text: str, labels: _Labels) -> int | None:
    text = _unwrapped(text).strip()
    if not text.startswith(("{", "[", '"')):
        text = text[text.find("{") :] if "{" in text else ""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text.replace("\u2212", "-"))
    except (ValueError, RecursionError):
        return None
    if text[end:].lstrip().startswith(("{", "[")):  # several values
        return None
    if isinstance(value, dict):
        named = [entry for key, entry in value.items() if re.search(rf"(?:^|_|\b){_NOUN}s?$", str(key), re.I)]
        value = named[0] if len(named) == 1 else next(iter(value.values())) if len(value) == 1 else None
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return labels.exactly(_signed(str(value)))


def _after_last(cue: re.Pattern[str], text: str, labels: _Labels) -> int | None:
    """Return the label after the last cue that any label follows; ``None`` if that cue names no single label."""
    for match in reversed(list(cue.finditer(text))):
        rest = text[match.end() :]
        label = labels.at_start(rest)
        if label is not None:
            before = text[max(0, match.start() - 500) : match.start()]
            return None if _CONDITION.search(before) or _NEGATED.search(before) else label
        if labels.names_any(rest):  # a doubtful or multiple naming
            return None
    return None


def _cue(text: str, labels: _Labels) -> int | None:
    named = {labels.at_start(text[match.end() :]) for match in _LINE_CUE.finditer(text)} - {None}
    if len(named) > 1:  # the reply goes on with other examples
        return None
    return _after_last(_CUE, text, labels)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip(_MARKS)]


def _first_line(text: str, labels: _Labels) -> int | None:
    lines = _lines(text)
    label = labels.exactly(_BULLET.sub("", lines[0], count=1))
    if label is not None:
        following = [labels.exactly(_BULLET.sub("", line, count=1)) for line in lines[1:]]
        listed = _BULLET.match(lines[0]) is not None and any(_BULLET.match(line) for line in lines[1:])
        return None if listed and any(other not in (None, label) for other in following) else label
    # "positive - the review praises ..." and "positive (because ...)", with no other label in the line
    split = re.match(r"(.+?)(?:\s+[-\u2013\u2014]\s+|\s*[(,:;.](?!\d)\s*(?=\S)|\s+because\b)(.+)", lines[0])
    if split is None:
        return None
    label = labels.exactly(split[1])
    if label is None or (split[1].strip().casefold() in _YES_NO and _POLITE.match(split[2])):
        return None
    others = re.sub(rf"{_CONTRAST}(?:{labels.start.pattern})", " ", "\n".join([split[2], *lines[1:2]]), flags=re.I)
    return label if labels.mentioned(others) <= {label} else None


def _bold(text: str, labels: _Labels) -> int | None:
    refused = {match.end() for match in _CUE.finditer(text)}  # by the rule of cues
    found = [(match, match.start()) for match in _BOLD.finditer(text)]
    named = [match for match, at in found if at not in refused and not _NEGATED.search(text[max(0, at - 50) : at])]
    bold = {labels.exactly("".join(match.groups(""))) for match in named} - {None}
    return bold.pop() if len(bold) == 1 else None


def _last_line(text: str, labels: _Labels) -> int | None:
    lines = _lines(text)
    if any(_BULLET.match(line) and labels.exactly(_BULLET.sub("", line, count=1)) is not None for line in lines[:-1]):
        return None  # a list of labels
    return labels.exactly(_BULLET.sub("", lines[-1], count=1))


_RULES: tuple[tuple[str, Callable[[str, _Labels], int | None]], ...] = (
    ("exact", _exact),
    ("json", _json),
    ("final", functools.partial(_after_last, _FINAL)),
    ("first line", _first_line),
    ("cue", _cue),
    ("bold", _bold),
    ("last line", _last_line),
)
