"""Defaults of users' data sets: the template, its alternatives, the split.

They follow from the rows alone, so that the same rows have the same prompts, wherever they are from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from StaICC.datasets import catalogue as cards
from StaICC.datasets.catalogue import SplitSizes, Template, TemplateAlternatives

_T = TypeVar("_T")
_MOST_LISTED_LABELS = 10
"""The generated instruction lists the labels if there are at most so many."""


def default_template(columns: int, several_labels: bool = False) -> Template:
    """Return the template of a data set that comes without one.

    It does not depend on names of columns, which not every source of rows has.

    Args:
        columns: Number of input texts of a row.
        several_labels: Whether a row has several labels.

    Returns:
        ``"text: "`` before a single text, ``"sentence1: "``, ``"sentence2: "``, ... before several; ``"label: "``
        before the label, ``"labels: "`` before several. Affixes are those of the benchmark.

    Raises:
        ArgumentError: There is no input text.

    Example:
        >>> default_template(2).input_text_prefixes
        ('sentence1: ', 'sentence2: ')
    """
    if columns == 1:
        prefixes: tuple[str, ...] = ("text: ",)
    else:
        prefixes = tuple(f"sentence{number}: " for number in range(1, columns + 1))
    return Template(
        instruction="",
        input_text_prefixes=prefixes,
        input_text_affixes=(" ",) * columns,
        label_prefix="labels: " if several_labels else "label: ",
        label_affix="\n",
        query_prefix="",
    )


def default_split(rows: int) -> SplitSizes:
    """Return the split of a data set without one: 40 % test, 20 % calibration, 40 % demonstrations, stratified.

    The benchmark's sizes are the maximum: 512, 1024 and 4096 rows.

    Args:
        rows: Number of rows of the table.

    Example:
        >>> print(default_split(300))
        stratified-60+120+120
    """
    largest = cards.PUBLISHED_SPLIT
    two_fifths = rows * 2 // 5
    test = min(largest.test, max(1, two_fifths))
    calibration = min(largest.calibration, rows // 5)
    remaining_rows = rows - test - calibration
    demonstration = min(largest.demonstration, remaining_rows)
    return SplitSizes(calibration=calibration, demonstration=demonstration, test=test, stratified=True)


def _levels(level_0: _T, candidates: Iterable[_T]) -> tuple[_T, ...]:
    """Return the levels of a factor: level 0, then the first candidates that differ from it and from each other."""
    levels = [level_0]
    for candidate in candidates:
        if candidate not in levels:
            levels.append(candidate)
    return tuple(levels[: cards.LEVELS])


def generated_alternatives(template: Template, label_space: Sequence[str]) -> TemplateAlternatives:
    """Return three levels of each template factor, of which level 0 is the template's own.

    They follow from the template and the labels alone: the same data always have the same twelve alternatives.

    Args:
        template: The template.
        label_space: The label names; the second instruction lists them if there are at most ten.

    Example:
        >>> template = Template("", ("text: ",), (" ",), "label: ", "; ")
        >>> generated_alternatives(template, ["no", "yes"]).instruction[1]
        'Choose one of: no, yes. '
    """
    columns = len(template.input_text_prefixes)
    if len(label_space) <= _MOST_LISTED_LABELS:
        instruction_with_labels = f"Choose one of: {', '.join(label_space)}. "
    else:
        instruction_with_labels = "Choose the right label. "
    if columns == 1:
        instruction_to_classify = "Classify the text. "
    else:
        instruction_to_classify = "Classify the texts. "
    instructions = [instruction_with_labels, instruction_to_classify, "Classify: "]
    prefixes = [_numbered_prefixes(word, columns) for word in ("text", "input", "Text")]
    return TemplateAlternatives(
        instruction=_levels(template.instruction, instructions),
        input_text_prefixes=_levels(template.input_text_prefixes, prefixes),
        label_prefix=_levels(template.label_prefix, ["label: ", "answer: ", "Label: "]),
        label_affix=_levels(template.label_affix, ["\n", " ", "\t"]),
    )


def _numbered_prefixes(word: str, columns: int) -> tuple[str, ...]:
    """Return one prefix for each input text; several are numbered: ``"text 1: "``, ``"text 2: "``."""
    if columns == 1:
        return (f"{word}: ",)
    return tuple(f"{word} {number}: " for number in range(1, columns + 1))
