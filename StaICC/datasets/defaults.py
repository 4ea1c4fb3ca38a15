"""Defaults of users' data sets: the template, its alternatives, the split.

They follow from the rows alone, so that the same rows have the same prompts, wherever they are from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from StaICC.datasets import catalogue as cards
from StaICC.datasets.catalogue import SplitSizes, Template, TemplateAlternatives


def default_template(columns: int) -> Template:
    """The template of a data set that comes without one.

    It does not depend on names of columns, which not every source of rows has.

    Args:
        columns: Number of input texts of a row.

    Returns:
        ``"text: "`` before a single text, ``"sentence1: "``, ``"sentence2: "``, ... before several; ``"label: "``
        before the label. Affixes are those of the benchmark.

    Raises:
        ArgumentError: There is no input text.

    Example:
        >>> default_template(2).input_text_prefixes
        ('sentence1: ', 'sentence2: ')
    """
    prefixes = ("text: ",) if columns == 1 else tuple(f"sentence{i + 1}: " for i in range(columns))
    return Template("", prefixes, (" ",) * columns, "label: ", "\n", "")


def default_split(rows: int) -> SplitSizes:
    """The split of a data set that comes without one: 40 % test, 20 % calibration, 40 % demonstrations, stratified.

    The benchmark's sizes are the maximum: 512, 1024 and 4096 rows.

    Args:
        rows: Number of rows of the table.

    Example:
        >>> print(default_split(300))
        stratified-60+120+120
    """
    most = cards.PUBLISHED_SPLIT
    test, calibration = min(most.test, max(1, rows * 2 // 5)), min(most.calibration, rows // 5)
    return SplitSizes(calibration, min(most.demonstration, rows - test - calibration), test, stratified=True)


def _levels(first: Any, candidates: Iterable[Any]) -> tuple[Any, ...]:
    """Return level 0 and the first candidates that differ from it and from each other."""
    return tuple(dict.fromkeys([first, *candidates]))[: cards.LEVELS]


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
    listed = f"Choose one of: {', '.join(label_space)}. " if len(label_space) <= 10 else "Choose the right label. "
    numbered = ("",) if columns == 1 else tuple(f" {number}" for number in range(1, columns + 1))
    prefixes = [tuple(f"{word}{number}: " for number in numbered) for word in ("text", "input", "Text")]
    return TemplateAlternatives(
        instruction=_levels(template.instruction, [listed, f"Classify the text{'s' * (columns > 1)}. ", "Classify: "]),
        input_text_prefixes=_levels(template.input_text_prefixes, prefixes),
        label_prefix=_levels(template.label_prefix, ["label: ", "answer: ", "Label: "]),
        label_affix=_levels(template.label_affix, ["\n", " ", "\t"]),
    )
