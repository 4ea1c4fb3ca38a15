"""Data sets of the user's own in LongICL.

Such a data set has 20 or more labels, or several labels for each text. Its test set is that of its split. Its
demonstrations are selected by turns, as in the published protocol. With the default split, all rows that are not test
rows can be demonstrations, and those of the demonstration set come first. With sizes that the user names, only rows of
the demonstration set can be demonstrations.

The prompts have the template of the data set. Where it has the default of the library, the published prompts are
followed: they have an instruction, and a line break instead of a blank after the text.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
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
"""Least number of labels of a LongICL task whose texts have one label each. Demonstrations of fewer labels need no long
context, and the benchmark Normal evaluates them."""
_SEPARATORS = {"commas": ", ", "semicolons": "; ", "vertical bars": " | "}
"""The possible separators of the labels of a text, by the name that the instruction has for them. The first one that no
label contains is used in prompts and replies."""


def load_own(dataset: Dataset) -> LongICLData:
    """Return the rows of a data set as LongICL uses them.

    Args:
        dataset: The data set, such as ``Dataset.from_file("tickets.csv", "text", "label")``.

    Raises:
        ArgumentError: It has too few labels, a label without demonstrations, labels that responses cannot distinguish,
            the name of a published data set, rows in both the demonstration set and the test set, clusters, or
            subgroups.
    """
    card = dataset.card
    where = f"{card.name} as a task of LongICL"  # the beginning of messages
    if dataset.subgroups:
        raise ArgumentError(
            f"{where}: got subgroups ({', '.join(dataset.subgroups)}), which LongICL does not compare. Read the "
            "data without subgroups"
        )
    if dataset.clusters is not None:
        raise ArgumentError(
            f"{where}: got rows in clusters (cluster={dataset.clusters.name!r}), which the intervals of LongICL do not "
            "allow for. Read the data without cluster, and keep in mind that its intervals are then too narrow"
        )
    _refuse_unsuitable_card(card, where)
    split = split_dataset(dataset)
    demonstrations = _demonstrations(dataset, split)
    answers = _answer_format(card, where)
    template = _prompt_template(card, answers)
    _refuse_demonstrations_as_test_texts(demonstrations, split.test, where)
    demonstrations_of_rounds = _demonstrations_of_rounds(demonstrations, card)
    task = _task_card(card, template, answers, split.test, demonstrations_of_rounds)

    # The rows come from a data set in memory: one record describes the files of both splits.
    file = LoadedFile(
        path=Path(card.name),
        spec=FileSpec(format="own data"),
        sha256=dataset.table.digest,
        verified=False,
    )
    train = _file_rows(demonstrations, card)
    not_in_filler = (*card.single_labels, answers.cue, answers.marker or "")
    data = LongICLData(
        card=task,
        train=train,
        test=_file_rows(split.test, card),
        train_file=file,
        test_file=file,
        dataset=dataset,
        filler=WordFiller(train, names=not_in_filler),
    )
    data.check_own_rows(demonstrations_per_label=1)
    return data


def _refuse_unsuitable_card(card: Card, where: str) -> None:
    """Refuse a data set that cannot be a task of LongICL.

    Args:
        card: Card of the data set.
        where: The beginning of the message.

    Raises:
        ArgumentError: It has the name of a published data set, too few labels, or a prefix of the query, which the
            prompts of LongICL do not have.
    """
    if card.name.casefold() in cards(None):
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    label_count = len(card.label_space)
    if not card.labels_in_lists and label_count < LEAST_LABELS:
        raise ArgumentError(
            f"{where}: got {label_count} labels, expected {LEAST_LABELS} or more. Use Normal (run normal) instead"
        )
    query_prefix = card.template.query_prefix
    if query_prefix:
        raise ArgumentError(f"{where}: got the query prefix {query_prefix!r:.40}, expected a template without")


def _task_card(
    card: Card,
    template: PromptTemplate,
    answers: AnswerFormat,
    test: SubsetView,
    demonstrations_of_rounds: tuple[int, ...],
) -> TaskCard:
    """Return the card of the task that a data set becomes.

    Args:
        card: Card of the data set.
        template: The strings of the prompts.
        answers: How responses are parsed.
        test: The test set.
        demonstrations_of_rounds: Number of demonstrations of each round.
    """
    if card.labels_in_lists:
        kind = "labels"
        demonstration_rule = "needed"
        # All rows of the test set are test items: a stratified split has given them the label shares of the table.
        test_rule = SelectionRule("first")
        scoring = ScoringRule("micro_f1", ratio_constant=0.0)
    else:
        kind = "text"
        demonstration_rule = "turns"
        # As many turns as the most frequent label has rows: every row of the test set is a test item.
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
        labels=card.single_labels,
        demonstrations=SelectionRule(demonstration_rule, expected=demonstrations_of_rounds),
        test=test_rule,
        template=template,
        answers=answers,
        scoring=scoring,
        offensive=card.offensive,
    )


def _demonstrations(dataset: Dataset, split: TripletSplit) -> SubsetView:
    """Return the rows that demonstrations are selected from.

    If the user named the sizes of the split, these are the rows of the demonstration set. With the default split, which
    is stratified, all other rows follow, except test rows and rows with the texts of a test row. They come last, so
    that they are selected only if the demonstration set has too few rows of a label.

    Args:
        dataset: The data set.
        split: Its demonstration set and its test set.
    """
    demonstration_set = split.demonstration
    is_default_split = dataset.card.split.stratified
    if not is_default_split:
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
    """Return the number of demonstrations of each round, if every label has enough rows.

    Each round has one turn more than the round before, and a turn shows every label once. If a text has one label, a
    turn has as many demonstrations as there are labels. A text with several labels shows all of them, so turns of such
    texts have fewer demonstrations.

    Args:
        demonstrations: The rows that demonstrations are selected from.
        card: Card of the data set.

    Returns:
        The numbers of round 1, 2 and so on, such as 77, 154, 231, 308, 385 for 77 labels.
    """
    if card.labels_in_lists:
        labels_of_rows = []
        for position in range(len(demonstrations)):
            labels_of_rows.append(labels_of_name(demonstrations.get_label(position)))
        turns = turns_by_need(labels_of_rows, turns=ROUNDS)
        turn_sizes = [len(turn) for turn in turns]
    else:
        turn_sizes = [len(card.label_space)] * ROUNDS
    return tuple(sum(turn_sizes[:number]) for number in range(1, ROUNDS + 1))


def _refuse_demonstrations_as_test_texts(demonstrations: SubsetView, test: SubsetView, where: str) -> None:
    """Refuse test rows that have the texts of a demonstration, because a prompt would show their labels.

    Args:
        demonstrations: The rows that demonstrations are selected from.
        test: The test set.
        where: The beginning of the message.

    Raises:
        ArgumentError: There are such rows. The message names the first one.
    """
    row_of_texts = {}
    for position, row in enumerate(demonstrations.indexes):
        row_of_texts[demonstrations.texts(position)] = row
    repeated_positions = []
    for position in range(len(test)):
        if test.texts(position) in row_of_texts:
            repeated_positions.append(position)
    if not repeated_positions:
        return

    first_position = repeated_positions[0]
    texts = test.texts(first_position)
    raise ArgumentError(
        f"{where}: {len(repeated_positions)} of {len(test)} test rows have the text of a demonstration, such as row "
        f"{test.indexes[first_position]}, which repeats row {row_of_texts[texts]} (from 0): {' '.join(texts)!r:.60}. "
        "Remove duplicate rows"
    )


def _file_rows(rows: SubsetView, card: Card) -> tuple[FileRow, ...]:
    """Return rows of a data set as the readers return those of a published file.

    The item of a row is made when it is used.
    """
    file_rows = []
    for position in range(len(rows)):
        label = None
        if not card.labels_in_lists:
            label = rows.get_label(position)
        item = functools.partial(_item, rows, position, card)
        file_rows.append(FileRow(label=label, form=None, item=item))
    return tuple(file_rows)


def _item(rows: SubsetView, position: int, card: Card) -> Item:
    """Return the item of a row.

    An item has one text. So the input texts of the row are joined, with the prefixes and affixes of the template
    between them. The first prefix and the last affix belong to the prompt template of the task. In a response, parsers
    search for the text with both, because the text alone may be one letter, which is found everywhere.

    Args:
        rows: The rows of the data set.
        position: The position of the row.
        card: Card of the data set, with the template.
    """
    prefixes = card.template.input_text_prefixes
    affixes = _text_affixes(card.template)
    text_in_prompt = ""
    for prefix, input_text, affix in zip(prefixes, rows.texts(position), affixes, strict=True):
        text_in_prompt += prefix + input_text + affix
    text = text_in_prompt.removeprefix(prefixes[0]).removesuffix(affixes[-1])

    label_name = rows.get_label(position)
    if card.labels_in_lists:
        kind = "labels"
        gold = labels_of_name(label_name)
    else:
        kind = "text"
        gold = (label_name,)
    return Item(kind, row=rows.indexes[position], texts=(text,), gold=gold, searched=text_in_prompt)


def _text_affixes(template: Template) -> list[str]:
    """Return the affixes of the input texts, with a line break instead of a blank, the default of the library.

    The published prompts have a line break after a text.
    """
    affixes = []
    for affix in template.input_text_affixes:
        if affix == " ":
            affixes.append("\n")
        else:
            affixes.append(affix)
    return affixes


def _prompt_template(card: Card, answers: AnswerFormat) -> PromptTemplate:
    """Return the strings of the prompts.

    An instruction of the user is written unchanged. Without one, the prompts begin as the published ones do: "Given the
    ..., please predict the ... The examples are as follows:".

    Args:
        card: Card of the data set, with the template of the user.
        answers: How responses are parsed, with the separator of labels.
    """
    template = card.template
    if template.instruction:
        instruction = template.instruction
        before_examples = ""
        after_labels = ".\n"
    else:
        instruction = _default_instruction(card, answers)
        before_examples = " The examples are as follows: \n"
        after_labels = f".{before_examples}"
    before_labels = instruction
    if not instruction[-1].isspace():
        before_labels += " "
    before_labels += "You can only choose from these labels: "

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
    """Return the instruction of the published prompts, with the names that the template has for texts and label.

    The prefix ``"ticket: "`` names the text "ticket". A blank prefix names it "text", and a label "label".
    """
    text_names = [_name_in_prefix(prefix, default="text") for prefix in card.template.input_text_prefixes]
    label_name = _name_in_prefix(card.template.label_prefix, default="label")
    instruction = f"Given the {' and the '.join(text_names)}, please predict the {label_name}. "
    if card.labels_in_lists:
        name_of_separator = {separator: name for name, separator in _SEPARATORS.items()}
        instruction += f"There can be several, with {name_of_separator[answers.separator]} between them. "
    return instruction + "The answer must come from the demonstration examples with the exact format."


def _name_in_prefix(prefix: str, default: str) -> str:
    """Return a prefix without blanks, line breaks and colons around it; a default if nothing is left."""
    name = prefix.strip(" \n:")
    if not name:
        return default
    return name


def _escape_braces(text: str) -> str:
    """Return the format string that :meth:`str.format` formats as the given text."""
    return text.replace("{", "{{").replace("}", "}}")


def _answer_format(card: Card, where: str) -> AnswerFormat:
    """Return how responses are parsed.

    A response is searched for the label prefix (the cue), and ends where the prefix of a text (the marker) begins a
    further example.

    Args:
        card: Card of the data set.
        where: The beginning of messages.

    Raises:
        ArgumentError: A label contains a text that ends a response, or two labels have the same normal form.
    """
    cue = card.template.label_prefix.strip()
    marker = card.template.input_text_prefixes[0].strip()
    labels = card.single_labels
    separator = ", "
    if card.labels_in_lists:
        separator = _separator(labels, where)
    answers = AnswerFormat(cue=cue, marker=marker or None, lower=True, delete="", separator=separator)
    label_of_normal_form: dict[str, str] = {}
    for label in labels:
        _refuse_end_of_response(label, cue=cue, marker=marker, where=where)
        normal_form = answers.normal(label).casefold()
        other_label = label_of_normal_form.get(normal_form)
        if other_label is not None:
            raise ArgumentError(
                f"{where}: the labels {other_label!r} and {label!r} differ only in case or blanks. Correct one of them"
            )
        label_of_normal_form[normal_form] = label
    return answers


def _refuse_end_of_response(label: str, cue: str, marker: str, where: str) -> None:
    """Refuse a label that contains a text at which the parsers end a response.

    Args:
        label: The label.
        cue: The text before labels; empty if there is none.
        marker: The text before the first text of an example; empty if there is none.
        where: The beginning of the message.

    Raises:
        ArgumentError: The label contains a line break, the cue, or the marker.
    """
    for end in ("\n", cue, marker):
        is_defined = end != ""
        if is_defined and end.casefold() in label.casefold():
            raise ArgumentError(
                f"{where}: the label {label!r} contains {end!r}, which ends a response. Name the labels with "
                "labels={...}, or choose another prefix with template=Template(...)"
            )


def _separator(labels: Sequence[str], where: str) -> str:
    """Return the first separator that no label contains. It is written between the labels of a text.

    Args:
        labels: The labels.
        where: The beginning of the message.

    Raises:
        ArgumentError: Each of the possible separators is contained in a label.
    """
    for separator in _SEPARATORS.values():
        is_in_a_label = any(separator.strip() in label for label in labels)
        if not is_in_a_label:
            return separator
    raise ArgumentError(
        f"{where}: the labels contain {', '.join(_SEPARATORS)}, so a list of them cannot be read. Name the labels with "
        "labels={...}"
    )
