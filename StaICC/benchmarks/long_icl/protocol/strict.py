"""The strict variant: the published protocol with its errors corrected.

Prompt templates are unchanged. The corrections, numbered as in the table of ``docs/long_icl.md``:

* S5. A turn has no row for an exhausted label (:func:`StaICC.benchmarks.long_icl.protocol.selection.by_turns`).
* S6. The query's text is not searched for in the response. If the response begins with the prompt, the prompt is
  dropped.
* S7. One cue at the beginning of the answer (``intent category:`` ...) is dropped.
* S8. Full stops, quotation marks, backticks and asterisks around a label are dropped, unless a label has them itself.
* S10. Labels are compared without case, in all data sets. Entity texts are compared with case, because they are
  quotations.
* S13. Few-NERD: a line is split at the last ``": "`` before a type of the list (else at the last one),
  and both sides are stripped, so that entities with a colon can be correct.
* S14. Few-NERD: lines without an entity are skipped before the first entity; a bullet or number before an entity is
  dropped, unless it is in the sentence (``1. FC Koeln``); only ``Sentence:`` ends the list, not an entity that
  begins with the word.
* S17. Precision, recall and F1 are ratios without added constants; 0 / 0 is 0.
* S18. DialogRE: a part of the answer counts only if it is a relation's name, not if it contains one.
* S20. DialogRE: the first cue counts, not the last one; the answer ends at ``Dialogue:``, not at the word
  ``dialogue``; an end mark ``[/INST]`` at its beginning is dropped.
* S21. DialogRE: all items are scored, not only the first ones up to 500 pairs.

An empty response or an unknown label is wrong in both variants.
"""

from __future__ import annotations

import functools
import re

from StaICC.benchmarks.long_icl.data.cards import AnswerFormat, TaskCard
from StaICC.benchmarks.long_icl.data.items import DialogueItem, EntityItem, Item

_AROUND = ".\"'\u201c\u201d\u2018\u2019`*"
_BULLET = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


def _without_prompt(response: str, prompt: str | None) -> str:
    """Return the response without the prompt (whose final blank the model may drop)."""
    return response.removeprefix(prompt.rstrip()).strip() if prompt else response.strip()


@functools.lru_cache(maxsize=16)
def _labels(labels: tuple[str, ...], answers: AnswerFormat) -> dict[str, str]:
    return {answers.normal(label).casefold(): label for label in labels}


def as_label(own: TaskCard, text: str) -> str:
    """Return the label that a text names, as in the card; if it names none, the text without surrounding marks.

    Example:
        >>> from StaICC.benchmarks.long_icl.data.cards import card
        >>> as_label(card("banking77"), '"Reverted_card_payment?".')
        'reverted_card_payment?'
        >>> as_label(card("banking77"), "no idea.")
        'no idea'
    """
    labels = _labels(own.labels, own.answers)
    for candidate in (text.strip(), text.strip().strip(_AROUND).strip()):
        found = labels.get(own.answers.normal(candidate).casefold())
        if found is not None:
            return found
    return candidate


def _without_cue(answer: str, cue: str) -> str:
    """Return the answer without one cue at its beginning."""
    return answer[len(cue) :].strip() if answer.casefold().startswith(cue.casefold()) else answer


def parse_text(own: TaskCard, response: str, item: Item, prompt: str | None) -> str:
    """Return the answer as one line of text; see :func:`StaICC.benchmarks.long_icl.protocol.parsing.parse_answer`."""
    answer = _without_prompt(response, prompt)
    cue = own.answers.cue
    if isinstance(item, DialogueItem):
        cue = cue.format(count=len(item.relations))
        answer = answer.split(cue, 1)[-1].strip()
        line = answer.removeprefix("[/INST]").strip().split("\n", 1)[0]
        line = line.split("Dialogue:", 1)[0].split("[/INST]", 1)[0]
        return ", ".join(as_label(own, part) for part in line.split(","))
    line = _without_cue(answer, cue).split("\n", 1)[0]
    if own.answers.marker is not None:
        line = line.split(own.answers.marker, 1)[0]
    return as_label(own, line)


def _split(own: TaskCard, line: str) -> tuple[str, str]:
    """Return entity and type of a line that contains ``": "``."""
    pieces = line.split(": ")
    cut = len(pieces) - 1
    for place in range(cut, 0, -1):
        if as_label(own, pieces[place]) in own.labels:
            cut = place
            break
    return ": ".join(pieces[:cut]).strip(), as_label(own, pieces[cut])


def parse_entities(own: TaskCard, response: str, item: EntityItem, prompt: str | None) -> dict[str, str]:
    """Return entities and types; see :func:`StaICC.benchmarks.long_icl.protocol.parsing.parse_answer`."""
    found: dict[str, str] = {}
    for line in map(str.strip, _without_prompt(response, prompt).split("\n")):
        if line.startswith("Sentence: "):
            break
        if ": " in line:
            entity, kind = _split(own, line)
            if entity not in item.sentence:
                entity = _BULLET.sub("", entity, count=1)
            found[entity] = kind
        elif found:
            break
    return found
