"""Data sets of the user's own in LongICL.

Such a data set has 20 or more labels, or several labels for each text. Its test set is that of its split. With the
default split, all rows that are not test rows can be demonstrations, those of the demonstration set first; with sizes
that the user names, those of the demonstration set. From both, rows are selected by the published rule of turns. The
prompt template is that of the data set; parts that have the library's default (no instruction, a blank after the text)
are written as in the published prompts: an instruction, a line break after the text.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from StaICC.datasets.catalogue import Card, Template
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.label_lists import labels_of_name
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
from StaICC.long_icl.filler import WordFiller
from StaICC.long_icl.loading import LoadedFile, LongICLData
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.readers import FileRow
from StaICC.long_icl.selection import turns_by_need
from StaICC.prompting.views import SubsetView, TripletSplit, split_dataset

LEAST_LABELS = 20
"""Least number of labels of a LongICL task whose texts have one label each. Fewer labels need no long context, and all
other benchmarks evaluate them."""
_SEPARATORS = {"commas": ", ", "semicolons": "; ", "vertical bars": " | "}
"""What can separate the labels of a text in prompts and replies, by its name in the instruction; the first one that no
label contains is used."""


def load_own(dataset: Dataset) -> LongICLData:
    """Return the rows of a data set as LongICL uses them.

    Args:
        dataset: The data set, such as ``Dataset.from_file("tickets.csv", "text", "label")``.

    Raises:
        ArgumentError: It has too few labels, a label without demonstrations, labels that responses cannot distinguish,
            the name of a published data set, or rows in both the demonstration set and the test set.
    """
    card = dataset.card
    where = f"{card.name} as a task of LongICL"
    if card.name.casefold() in cards(None):
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    if not card.labels_in_lists and len(card.label_space) < LEAST_LABELS:
        raise ArgumentError(
            f"{where}: got {len(card.label_space)} labels, expected {LEAST_LABELS} or more. Use Normal (run normal) "
            "instead"
        )
    if card.template.query_prefix:
        query_prefix = card.template.query_prefix
        raise ArgumentError(f"{where}: got the query prefix {query_prefix!r:.40}, expected a template without")

    split = split_dataset(dataset)
    demonstrations = _demonstrations(dataset, split)
    answers = _answer_format(card, where)
    template = _prompt_template(card, answers)
    _refuse_demonstrations_as_test_texts(demonstrations, split.test, where)

    train = _file_rows(demonstrations, card)
    test = _file_rows(split.test, card)
    demonstrations_of_rounds = _demonstrations_of_rounds(demonstrations, card)
    task = _task_card(card, template, answers, split.test, demonstrations_of_rounds)
    file = LoadedFile(Path(card.name), FileSpec("own data"), dataset.table.digest, verified=False)
    filler = WordFiller(train, (*card.single_labels, answers.cue, answers.marker or ""))
    data = LongICLData(task, train, test, file, file, dataset, filler)
    data.check_own_rows(demonstrations_per_label=1)
    return data


def _task_card(
    card: Card,
    template: PromptTemplate,
    answers: AnswerFormat,
    test: SubsetView,
    demonstrations_of_rounds: tuple[int, ...],
) -> TaskCard:
    """Return the card of the task that a data set becomes."""
    labels = card.single_labels
    if card.labels_in_lists:
        kind = "labels"
        demonstration_rule = "needed"
        test_rule = SelectionRule("first")  # those of a stratified split have the label shares of all rows
        scoring = ScoringRule("micro_f1", ratio_constant=0.0)
    else:
        kind = "text"
        demonstration_rule = "turns"
        rows_of_label = Counter(test.label(position) for position in range(len(test)))
        test_rule = SelectionRule("turns", size=max(rows_of_label.values()))
        scoring = ScoringRule("accuracy")
    return TaskCard(
        name=card.name,
        title=card.title,
        task=card.task,
        kind=kind,
        source=card.source,
        licence=card.licence,
        citation=card.citation,
        labels=labels,
        demonstrations=SelectionRule(demonstration_rule, demonstrations_of_rounds),
        test=test_rule,
        template=template,
        answers=answers,
        scoring=scoring,
        offensive=card.offensive,
    )


def _demonstrations(dataset: Dataset, split: TripletSplit) -> SubsetView:
    """Return the rows that demonstrations are selected from.

    With sizes that the user named, these are the demonstration set. With the default split, all rows follow that are no
    test rows and have no text of a test row. They come last, so that the rounds are those of the demonstration set
    wherever it has enough rows of a label.
    """
    demonstration_set = split.demonstration
    if not dataset.card.split.stratified:
        return demonstration_set
    test = split.test
    texts_of_test = {test.texts(position) for position in range(len(test))}
    rows_of_sets = {*demonstration_set.indexes, *test.indexes}
    other_rows = []
    for number, row in enumerate(dataset.table):
        if number not in rows_of_sets and row.texts not in texts_of_test:
            other_rows.append(number)
    rows = [*demonstration_set.indexes, *other_rows]
    return SubsetView(demonstration_set.name, dataset.table, rows, dataset.card.label_space)


def _demonstrations_of_rounds(demonstrations: SubsetView, card: Card) -> tuple[int, ...]:
    """Return the number of demonstrations of each round, if every label has enough.

    It is the number of labels times the round, if a text has one label. A text with several labels counts for all of
    them, so that fewer texts show every label.
    """
    rounds = range(1, ROUNDS + 1)
    if not card.labels_in_lists:
        return tuple(len(card.label_space) * number for number in rounds)
    labels_of_rows = [labels_of_name(demonstrations.get_label(position)) for position in range(len(demonstrations))]
    turn_sizes = [len(turn) for turn in turns_by_need(labels_of_rows, ROUNDS)]
    return tuple(sum(turn_sizes[:number]) for number in rounds)


def _refuse_demonstrations_as_test_texts(demonstrations: SubsetView, test: SubsetView, where: str) -> None:
    """Refuse a test row whose texts are those of a demonstration, because the prompt would show its label.

    Raises:
        ArgumentError: There is such a row. The message names the first one.
    """
    row_of_texts = {}
    for position, row in enumerate(demonstrations.indexes):
        row_of_texts[demonstrations.texts(position)] = row
    repeated = [position for position in range(len(test)) if test.texts(position) in row_of_texts]
    if not repeated:
        return
    texts = test.texts(repeated[0])
    raise ArgumentError(
        f"{where}: {len(repeated)} of {len(test)} test rows have the text of a demonstration, such as row "
        f"{test.indexes[repeated[0]]}, which repeats row {row_of_texts[texts]} (from 0): {' '.join(texts)!r:.60}. "
        "Remove duplicate rows"
    )


def _file_rows(rows: SubsetView, card: Card) -> tuple[FileRow, ...]:
    """Return rows as those of a file; the item of a row is made when it is used."""
    file_rows = []
    for position in range(len(rows)):
        item = functools.partial(_item, rows, position, card)
        label = None if card.labels_in_lists else rows.get_label(position)
        file_rows.append(FileRow(label, None, item))
    return tuple(file_rows)


def _item(rows: SubsetView, position: int, card: Card) -> Item:
    """Return the item of a row.

    Its text has the prefixes and affixes of the template between several input texts. Parsers search for the text with
    the first prefix and the last affix, too, because the text alone may be one letter.
    """
    prefixes = card.template.input_text_prefixes
    affixes = _text_affixes(card.template)
    text_in_prompt = "".join(chain.from_iterable(zip(prefixes, rows.texts(position), affixes, strict=True)))
    text = text_in_prompt.removeprefix(prefixes[0]).removesuffix(affixes[-1])
    label_name = rows.get_label(position)
    row = rows.indexes[position]
    if card.labels_in_lists:
        return Item("labels", row, (text,), labels_of_name(label_name), searched=text_in_prompt)
    return Item("text", row, (text,), (label_name,), searched=text_in_prompt)


def _text_affixes(template: Template) -> list[str]:
    """Return the affixes of the input texts: a line break in place of the default, a blank."""
    return ["\n" if affix == " " else affix for affix in template.input_text_affixes]


def _prompt_template(card: Card, answers: AnswerFormat) -> PromptTemplate:
    """Return the strings of the prompts."""
    template = card.template
    if template.instruction:
        instruction = template.instruction
        before_examples = ""
        after_labels = ".\n"
    else:
        instruction = _default_instruction(card, answers)
        before_examples = " The examples are as follows: \n"
        after_labels = f".{before_examples}"
    blank = "" if instruction[-1].isspace() else " "
    before_labels = f"{instruction}{blank}You can only choose from these labels: "

    before_text = _escape_braces(template.input_text_prefixes[0])
    after_text = _escape_braces(_text_affixes(template)[-1] + template.label_prefix)
    after_label = _escape_braces(template.label_affix)
    return PromptTemplate(
        plain=instruction + before_examples,
        instruct=(before_labels, after_labels),
        query=f"{before_text}{{text}}{after_text}",
        answer=f"{{label}}{after_label}",
    )


def _default_instruction(card: Card, answers: AnswerFormat) -> str:
    """Return the instruction of the published prompts, with the names that the template has for texts and label."""
    template = card.template
    text_names = [prefix.strip(" \n:") or "text" for prefix in template.input_text_prefixes]
    label_name = template.label_prefix.strip(" \n:") or "label"
    instruction = f"Given the {' and the '.join(text_names)}, please predict the {label_name}. "
    if card.labels_in_lists:
        name_of_separator = {separator: name for name, separator in _SEPARATORS.items()}
        instruction += f"There can be several, with {name_of_separator[answers.separator]} between them. "
    return instruction + "The answer must come from the demonstration examples with the exact format."


def _escape_braces(text: str) -> str:
    """Return a text as a format string that writes it."""
    return text.replace("{", "{{").replace("}", "}}")


def _answer_format(card: Card, where: str) -> AnswerFormat:
    """Return how responses are parsed.

    Raises:
        ArgumentError: The parsers cannot find a label, or cannot distinguish two labels.
    """
    cue = card.template.label_prefix.strip()
    marker = card.template.input_text_prefixes[0].strip()
    labels = card.single_labels
    separator = ", "
    if card.labels_in_lists:
        separator = _separator(labels, where)
    answers = AnswerFormat(cue, marker or None, lower=True, delete="", separator=separator)
    label_of_normal_form: dict[str, str] = {}
    for label in labels:
        _refuse_end_of_response(label, cue, marker, where)
        normal_form = answers.normal(label).casefold()
        if normal_form in label_of_normal_form:
            other_label = label_of_normal_form[normal_form]
            raise ArgumentError(
                f"{where}: the labels {other_label!r} and {label!r} differ only in case or blanks. Correct one of them"
            )
        label_of_normal_form[normal_form] = label
    return answers


def _refuse_end_of_response(label: str, cue: str, marker: str, where: str) -> None:
    """Refuse a label that contains a text at which the parsers end a response.

    Raises:
        ArgumentError: It contains a line break, the cue before labels, or the marker before texts.
    """
    for end in ("\n", cue, marker):
        if end and end.casefold() in label.casefold():
            raise ArgumentError(
                f"{where}: the label {label!r} contains {end!r}, which ends a response. Name the labels with "
                "labels={...}, or choose another prefix with template=Template(...)"
            )


def _separator(labels: Sequence[str], where: str) -> str:
    """Return the text between the labels of a text in prompts and replies.

    Raises:
        ArgumentError: All possible texts are in a label.
    """
    for separator in _SEPARATORS.values():
        if not any(separator.strip() in label for label in labels):
            return separator
    raise ArgumentError(
        f"{where}: the labels contain {', '.join(_SEPARATORS)}, so a list of them cannot be read. Name the labels with "
        "labels={...}"
    )
