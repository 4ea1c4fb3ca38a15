"""Data sets of the user's own in LongICL.

Such a data set has 20 or more labels. Its demonstration set and its test set are those of its split; with the default
split, labels with few demonstrations get further rows that are not test rows. From both, rows are selected by the
published rule of turns. The prompt template is that of the data set; parts that have the library's default (no
instruction, a blank after the text) are written as in the published prompts: an instruction, a line break after the
text.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from StaICC.datasets.catalogue import Template
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import (
    ROUNDS,
    AnswerFormat,
    FileSpec,
    PromptTemplate,
    ScoringRule,
    SelectionRule,
    TaskCard,
    cards,
)
from StaICC.long_icl.loading import LoadedFile, LongICLData
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.readers import FileRow
from StaICC.prompting.views import SubsetView, TripletSplit, split_dataset

LEAST_LABELS = 20
"""Least number of labels of a LongICL task."""


def load_own(dataset: Dataset) -> LongICLData:
    """Return the rows of a data set as LongICL uses them.

    Args:
        dataset: The data set, such as ``Dataset.from_file("tickets.csv", "text", "label")``.

    Raises:
        ArgumentError: It has too few labels, a label without demonstrations, labels that responses cannot distinguish,
            the name of a published data set, or rows in both the demonstration set and the test set.
    """
    card, split = dataset.card, split_dataset(dataset)
    labels, where, test = card.label_space, f"{card.name} as a task of LongICL", split.test
    shown = _reserved(dataset, split) if card.split.stratified else split.demonstration
    if card.name.casefold() in cards(None):
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    if len(labels) < LEAST_LABELS:
        expected = f"expected {LEAST_LABELS} or more"
        raise ArgumentError(f"{where}: got {len(labels)} labels, {expected}. Use Normal (run normal) instead")
    template, answers = _template(card.template, labels, where), _answers(card.template, labels, where)
    known = {shown.texts(place): shown.indexes[place] for place in range(len(shown))}
    twice = [place for place in range(len(test)) if test.texts(place) in known]
    if twice:
        texts, row = test.texts(twice[0]), test.indexes[twice[0]]
        such = f"such as row {row}, which repeats row {known[texts]} (from 0): {' '.join(texts)!r:.60}"
        got = f"{len(twice)} of {len(test)} test rows have the text of a demonstration"
        raise ArgumentError(f"{where}: {got}, {such}. Remove duplicate rows")
    task = TaskCard(
        **{name: getattr(card, name) for name in ("name", "title", "task", "source", "licence", "citation")},
        kind="text",
        offensive=card.offensive,
        labels=labels,
        demonstrations=SelectionRule("turns", tuple(len(labels) * number for number in range(1, ROUNDS + 1))),
        test=SelectionRule("turns", size=max(Counter(map(test.label, range(len(test)))).values())),
        template=template,
        answers=answers,
        scoring=ScoringRule("accuracy"),
    )
    file = LoadedFile(Path(card.name), FileSpec("own data"), dataset.table.digest, False)
    data = LongICLData(task, _rows(shown, card.template), _rows(test, card.template), file, file, dataset)
    data.check_own_rows(1)
    return data


def _reserved(dataset: Dataset, split: TripletSplit) -> SubsetView:
    """Return the demonstration set; labels with fewer demonstrations than rounds get rows that are not test rows.

    These rows come last, so the rounds that the demonstration set could fill without them are unchanged.
    """
    shown, test = split.demonstration, split.test
    tested = {test.texts(place) for place in range(len(test))}
    counts = Counter(map(shown.label, range(len(shown))))
    taken, more = {*shown.indexes, *test.indexes}, []
    for number, row in enumerate(dataset.table):
        if counts[row.label] < ROUNDS and number not in taken and row.texts not in tested:
            counts[row.label] += 1
            more.append(number)
    return SubsetView(shown.name, dataset.table, [*shown.indexes, *more], dataset.card.label_space)


def _rows(part: SubsetView, template: Template) -> tuple[FileRow, ...]:
    # Parsers search for a text as the prompt has it, because it may be one letter or word.
    prefixes, affixes, rows = template.input_text_prefixes, _affixes(template), []
    for place, number in enumerate(part.indexes):
        searched = "".join(chain.from_iterable(zip(prefixes, part.texts(place), affixes, strict=True)))
        text = searched.removeprefix(prefixes[0]).removesuffix(affixes[-1])
        label = part.get_label(place)
        rows.append(FileRow(label, None, functools.partial(Item, "text", number, (text,), (label,), (), searched)))
    return tuple(rows)


def _affixes(template: Template) -> list[str]:
    return ["\n" if affix == " " else affix for affix in template.input_text_affixes]


def _template(template: Template, labels: Sequence[str], where: str) -> PromptTemplate:
    """Return the strings of the prompts (see the module)."""
    if template.query_prefix:
        raise ArgumentError(f"{where}: got the query prefix {template.query_prefix!r:.40}, expected a template without")
    head, examples = template.instruction, ""
    if not head:
        texts = " and the ".join(prefix.strip(" \n:") or "text" for prefix in template.input_text_prefixes)
        label = template.label_prefix.strip(" \n:") or "label"
        head = f"Given the {texts}, please predict the {label}. The answer must come from the demonstration examples "
        head, examples = head + "with the exact format.", " The examples are as follows: \n"
    fixed = (template.input_text_prefixes[0], _affixes(template)[-1] + template.label_prefix, template.label_affix)
    before, after, affix = (text.replace("{", "{{").replace("}", "}}") for text in fixed)
    choose = f"{head}{'' if head[-1].isspace() else ' '}You can only choose from these labels: "
    after_labels = f".{examples}" if examples else ".\n"
    return PromptTemplate(head + examples, (choose, after_labels), f"{before}{{text}}{after}", f"{{label}}{affix}")


def _answers(template: Template, labels: Sequence[str], where: str) -> AnswerFormat:
    """Return how responses are parsed, and refuse labels that the parsers cannot find."""
    cue, marker = template.label_prefix.strip(), template.input_text_prefixes[0].strip()
    answers = AnswerFormat(cue, marker or None, lower=True, delete="")
    spelled: dict[str, str] = {}
    for label in labels:
        part = next((text for text in ("\n", cue, marker) if text and text.casefold() in label.casefold()), None)
        if part is not None:
            remedy = "Name the labels with labels={...}, or choose another prefix with template=Template(...)"
            raise ArgumentError(f"{where}: the label {label!r} contains {part!r}, which ends a response. {remedy}")
        other = spelled.setdefault(answers.normal(label).casefold(), label)
        if other != label:
            got = f"the labels {other!r} and {label!r} differ only in case or blanks"
            raise ArgumentError(f"{where}: {got}. Correct one of them")
    return answers
