"""The library's parser of replies of LongICL.

Of data sets with one label per item, it is that of all benchmarks (:mod:`StaICC.inference.reply_parser`). Of the
others, it corrects these errors of the published parsers:

* S6. The query's text is not searched for in the response. If the response begins with the prompt, the prompt is
  dropped.
* S8. Full stops, quotation marks, backticks and asterisks around a label are dropped, unless a label has them itself.
* S10. Labels are compared without case. Entity texts are compared with case, because they are quotations.
* S13. Few-NERD: a line is split at the last ``": "`` before a type of the list (else at the last one),
  and both sides are stripped, so that entities with a colon can be correct.
* S14. Few-NERD: lines without an entity are skipped before the first entity; a bullet or number before an entity is
  dropped, unless it is in the sentence (``1. FC Koeln``); only ``Sentence:`` ends the list, not an entity that
  begins with the word.
* S18. DialogRE: a part of the answer counts only if it is a relation's name, not if it contains one.
* S20. DialogRE: the first cue counts, not the last one; the answer ends at ``Dialogue:``, not at the word
  ``dialogue``; an end mark ``[/INST]`` at its beginning is dropped.
"""

from __future__ import annotations

import contextlib
import json
import re

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.label_names import as_label
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.published_parser import _before, _first_line

_LIST_MARK = re.compile(r"^(?:[-*\u2022]|\d+[.)])\s+")


def _corrected_relations(own: TaskCard, response: str, item: Item) -> str:
    """Return the relations of a reply between commas."""
    answer = response.strip().split(own.answers.cue.format(count=len(item.gold)), 1)[-1].strip()
    line = _before(_before(_first_line(answer.removeprefix("[/INST]")), "Dialogue:"), "[/INST]")
    return ", ".join(as_label(own, part) for part in line.split(","))


def _corrected_entities(own: TaskCard, response: str, item: Item) -> dict[str, str]:
    """Return the entities of a reply with their types."""
    entities: dict[str, str] = {}
    for line in map(str.strip, response.strip().split("\n")):
        if line.startswith("Sentence: "):
            break
        pieces = line.split(": ")
        if len(pieces) > 1:
            cuts = range(len(pieces) - 1, 0, -1)
            cut = next((cut for cut in cuts if as_label(own, pieces[cut]) in own.labels), cuts[0])
            entity = ": ".join(pieces[:cut]).strip()
            if entity not in item.texts[0]:
                entity = _LIST_MARK.sub("", entity, count=1)
            entities[entity] = as_label(own, pieces[cut])
        elif entities:
            break
    return entities


def _as_published_list(own: TaskCard, text: str) -> str:
    """Return labels between commas if a reply lists them as JSON, or one to a line; else the text."""
    with contextlib.suppress(ValueError, RecursionError):
        listed = json.loads(text)
        if isinstance(listed, list) and all(isinstance(part, str) for part in listed):
            text = ", ".join(listed)
    lines = [_LIST_MARK.sub("", line.strip()).replace("**", "") for line in text.splitlines() if line.strip()]
    return ", ".join(lines) if len(lines) > 1 and all(as_label(own, line) in own.labels for line in lines) else text
