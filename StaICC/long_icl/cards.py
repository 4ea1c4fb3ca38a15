"""Cards of the data sets: everything that differs between them.

``cards.json`` has six data sets of LongICLBench and five of HELMET. The terms are:

* A *demonstration* is an in-context example.
* A *round* adds one demonstration per label: round 3 shows each label three times, if there are enough rows.
* The *query* is the item to classify.
* The *cue* is the text before an answer.
* The *marker* is the text at which another example begins.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from StaICC.arguments import known_name
from StaICC.files.json_reading import read_value

# SQuAD's normal form of an answer, which HELMET uses, has no articles.
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
ROUNDS = 5
"""Number of rounds of the benchmark."""


@dataclass(frozen=True, slots=True)
class FileSpec:
    """The file of a split, with its names and published digests."""

    format: str
    """Reader, a key of :data:`StaICC.long_icl.readers.READERS`."""
    names: tuple[str, ...] = ()
    """Paths in the data folder; the first one is the installed name."""
    rows: int = 0
    """Rows of the published file."""
    sha256: tuple[str, ...] = ()
    """Digests of the published file, one for each known serialisation of the same rows."""
    rows_sha256: str | None = None
    """Digest of the rows as read (see :func:`StaICC.long_icl.loading.load`)."""
    split: str = ""
    """The split of the hub, if it has another name."""


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """How demonstrations or test items are selected (see :mod:`StaICC.long_icl.prompts`)."""

    rule: str
    expected: tuple[int, ...] = ()
    """Number of demonstrations of rounds 1 to 5 with the published data; empty for test items, and without rounds."""
    size: int | None = None
    """Number of turns, or of items per label, of test items; None if the rule has no such number."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The constant strings of the prompts."""

    plain: str
    """First text of the prompt, without label list."""
    instruct: tuple[str, str]
    """First text of the prompt, before and after the label list."""
    query: str
    """The query; names in braces are fields of the item."""
    answer: str
    """The answer of a demonstration, repeated for each answer of the item."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The strings that parsers search for in a response, and the normal form in which labels are compared."""

    cue: str
    """The text before an answer; empty if there is none."""
    marker: str | None
    """The text at which another example begins; None if there is none."""
    lower: bool
    """Whether labels are compared in lower case."""
    delete: str
    """Characters that are removed before labels are compared."""
    exact_match: bool = False
    """Whether the first line is the answer, and labels are compared without articles and repeated blanks, as in SQuAD
    (HELMET)."""
    separator: str = ", "
    """The text between the labels of an item with several."""

    def normal(self, text: str) -> str:
        """Return the normal form of a label or an answer, in which they are compared.

        Example:
            >>> task_card("discovery").answers.normal("Actually,")
            'actually'
        """
        normal_text = text.strip().translate(str.maketrans("", "", self.delete))
        if self.lower:
            normal_text = normal_text.lower().strip()
        if self.exact_match:
            normal_text = " ".join(_ARTICLES.sub(" ", normal_text).split())
        return normal_text


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """The metric, and how its published formula differs from the usual one."""

    metric: str
    """``accuracy`` or ``micro_f1``."""
    ratio_constant: float = 1e-8
    """The published precision and recall have this constant added to their denominators. It is 0 for data sets of
    users."""
    f1_constant: float = 0.0
    """The published F1 has this constant added to its denominator."""
    stop_at: int | None = None
    """The published script scores items until they have this number of gold labels together; None for all items."""


@dataclass(frozen=True, slots=True)
class HubTable:
    """Where the Hugging Face hub has a data set, and which of its columns are in the published file."""

    repository: str
    config: str
    columns: tuple[str, ...]
    """The columns that become the cells of a line, in order."""
    label: str
    """The column with the label (or labels)."""


@dataclass(frozen=True, slots=True)
class TaskCard:
    """All facts about a data set, without its rows."""

    name: str
    title: str
    task: str
    kind: str
    """Kind of item: ``text``, ``pair``, ``relation``, ``entities``, ``dialogue``, or ``labels`` (a text of a user's
    data set, with several labels)."""
    source: str
    licence: str
    citation: str
    labels: tuple[str, ...]
    """Label names, in prompt order and in the order of label indices."""
    demonstrations: SelectionRule
    test: SelectionRule
    template: PromptTemplate
    answers: AnswerFormat
    scoring: ScoringRule
    restricted: bool = False
    """The licence requires an action before use."""
    terms: str = ""
    """The licence terms in a sentence or two."""
    obtain: str = ""
    """How to get the files."""
    offensive: bool = False
    """The texts contain offensive language."""
    other_labels: tuple[str, ...] = ()
    """Labels in the files that the benchmark leaves out."""
    files: Mapping[str, FileSpec] = field(default_factory=dict)
    """The files ``train`` and ``test``; without ``test``, a random tenth of the rows is the test set, as in HELMET."""
    hub: HubTable | None = None
    """The data set on the hub; None if the hub does not have it."""
    suite: str = "LongICLBench"
    """The benchmark that publishes the task."""
    shots: tuple[int, ...] = ()
    """HELMET: numbers of demonstrations for 4K, 8K, 16K, 32K, 64K and 128K tokens; empty for other tasks."""

    @property
    def structured(self) -> bool:
        """Whether an item may have several labels. Then a prediction must be text."""
        return self.kind in ("entities", "dialogue", "labels")

    @property
    def needs_text(self) -> str:
        """The reason why a prediction that is not text cannot be scored, for messages about such a task."""
        return f"items of {self.title} have several labels, so the prediction must be text"

    def notice(self) -> str:
        """Return licence, terms and source in sentences, which are shown before the data are used."""
        return f"{self.title}: {self.licence}. {self.terms} Source: {self.source}"

    def instructions(self) -> str:
        """Return how to get missing files."""
        return (
            f"{self.obtain} Source: {self.source}, licence: {self.licence}. {self.terms} Put the files into the data "
            "folder, or install them: python -m StaICC data install long-icl --from FOLDER"
        )


@functools.cache
def cards(suite: str | None = "LongICLBench") -> Mapping[str, TaskCard]:
    """Return the cards by name, in the order of the benchmark.

    Args:
        suite: ``LongICLBench`` or ``HELMET``; None for both.

    Example:
        >>> list(cards())
        ['banking77', 'goemotions', 'discovery', 'tacred', 'few_nerd', 'dialogre']
        >>> list(cards("HELMET"))
        ['helmet_banking77', 'helmet_trec_coarse', 'helmet_trec_fine', 'helmet_nlu', 'helmet_clinc150']
    """
    card_file = importlib.resources.files(__package__) / "cards.json"
    text = card_file.read_text(encoding="utf-8")
    record_of_name: dict[str, dict[str, Any]] = {}
    for record in json.loads(text)["cards"]:
        # "like" names an earlier card. Its fields are used where this record has none.
        name_of_similar_card = record.pop("like", None)
        if name_of_similar_card is not None:
            record = {**record_of_name[name_of_similar_card], **record}
        record_of_name[record["name"]] = record

    card_of_name = {}
    for name, record in record_of_name.items():
        card: TaskCard = read_value(TaskCard, record, f"the card of {name}")
        if suite is None or card.suite == suite:
            card_of_name[name] = card
    return card_of_name


def task_card(name: str) -> TaskCard:
    """Return the card of a data set.

    Args:
        name: Such as ``"banking77"``.

    Raises:
        UnknownNameError: The data set is unknown; the message suggests the nearest name.

    Example:
        >>> len(task_card("discovery").labels)
        174
    """
    card_of_name = cards(None)
    return card_of_name[known_name("LongICL data set", name, card_of_name)]
