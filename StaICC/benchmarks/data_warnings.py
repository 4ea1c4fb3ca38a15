"""Warnings about the data of a run: few rows, repeated texts, texts that are in two parts of the split."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.datasets.source import BuiltIn, ReleasedWheel
from StaICC.prompting.views import SubsetView, TripletSplit, split_dataset

FEW_ROWS = 100
"""Fewer test rows than these are few: their 95 % interval of the accuracy is wider than 10 points either way."""


def data_warnings(experimentors: Iterable[Experimentor]) -> list[str]:
    """Return the warnings about the data sets of a run, one sentence each, each once.

    Args:
        experimentors: The data sets of all benchmarks of the run.
    """
    sentences: list[str] = []
    name_by_digest: dict[str, str] = {}
    for experimentor in experimentors:
        dataset = experimentor.dataset
        name = dataset.card.name
        sentences += [f"{name}: {text}" for text in warnings_of_settings(experimentor)]
        if isinstance(dataset.source, (BuiltIn, ReleasedWheel)):
            continue  # as they were published
        first_name = name_by_digest.setdefault(dataset.table.digest, name)
        if first_name != name:
            sentences.append(
                f"{name}: its rows are those of {first_name}, so they count twice in the means. Remove one"
            )
        sentences += [f"{name}: {text}" for text in (*dataset.remarks, *warnings_of_rows(experimentor))]
    return list(dict.fromkeys(sentences))


def warnings_of_settings(experimentor: Experimentor) -> list[str]:
    """Return what a run's settings make of a data set, also of a built-in one."""
    checks = (_large_k(experimentor), _labels_beyond_the_limit(experimentor))
    return [sentence for sentence in checks if sentence is not None]


def warnings_of_rows(experimentor: Experimentor) -> list[str]:
    """Return what is suspicious about the rows of a user's data set and their split."""
    split = split_dataset(experimentor.dataset)
    test = texts_of(split.test)
    demonstrations, calibration = texts_of(split.demonstration), texts_of(split.calibration)
    checks = (
        _few_rows(experimentor, split),
        _repeated_test_texts(test),
        _shared_texts(test, demonstrations, "demonstration"),
        _shared_texts(test, calibration, "calibration"),
        _several_labels([*test, *demonstrations, *calibration]),
        _labels_without_test_row(split, experimentor.dataset.card.label_space),
    )
    return [sentence for sentence in checks if sentence is not None]


@dataclass(frozen=True, slots=True)
class RowTexts:
    """The texts of a row, without surrounding spaces and with composed letters (NFC), with its place and label."""

    texts: tuple[str, ...]
    row: int
    """The row of the data set, counted from 0."""
    label: int

    def __str__(self) -> str:
        return f"row {self.row}, {' / '.join(self.texts)!r:.60}"


def texts_of(view: SubsetView) -> list[RowTexts]:
    """Return the texts of the rows of a set."""
    texts = []
    for position, row_number in enumerate(view.indexes):
        row = view.row(position)
        normal = tuple(unicodedata.normalize("NFC", text).strip() for text in row.texts)
        texts.append(RowTexts(normal, row_number, int(row.label)))
    return texts


def _large_k(experimentor: Experimentor) -> str | None:
    """Warn where prompts have more demonstrations than there are rows to draw them from."""
    k = experimentor.get_k()
    row_count = len(experimentor.demonstration_set())
    if row_count == 0 or row_count >= k:
        return None
    return (
        f"k = {k} is larger than the demonstration set ({row_count} rows), so demonstrations repeat within a prompt. "
        "Use a smaller k or more rows"
    )


def _labels_beyond_the_limit(experimentor: Experimentor) -> str | None:
    """Warn where a limit leaves a label without a row, which macro F1 counts as a label with F1 = 0."""
    test = experimentor.triplet_dataset.test
    tested = experimentor.row_count
    scores_macro_f1 = experimentor.task.scores_metric_set and "macro_F1" in experimentor.metrics
    if tested == len(test) or not scores_macro_f1:
        return None
    space = experimentor.get_label_space()
    missing = _missing_labels(test, tested, space)
    if not missing:
        return None
    highest = (len(space) - len(missing)) / len(space)
    return (
        f"{_sentence_about(missing)} among the first {tested} test rows (limit): macro F1, the mean over all "
        f"{len(space)} labels, is at most {highest:.3f}. Use a larger limit to interpret it"
    )


def _few_rows(experimentor: Experimentor, split: TripletSplit) -> str | None:
    """Warn of few tested rows, with half the width of the 95 % interval of an accuracy of 50 %, in points."""
    tested = experimentor.row_count
    if tested >= FEW_ROWS:
        return None
    standard_error = math.sqrt(0.5 * (1 - 0.5) / tested)
    half_width = min(100 * 1.96 * standard_error, 50)
    verb = "are" if tested > 1 else "is"
    advice = "Use more rows" if tested == len(split.test) else "Use a larger limit"
    return (
        f"{tested} of {experimentor.dataset.card.rows} rows {verb} tested: an accuracy of 50 % is known to "
        f"+/- {half_width:.0f} points. {advice}"
    )


def _repeated_test_texts(test: Sequence[RowTexts]) -> str | None:
    """Warn of test rows with the text of an earlier test row: they count twice, and intervals take them as new."""
    seen: set[tuple[str, ...]] = set()
    repeated = []
    for row in test:
        if row.texts in seen:
            repeated.append(row)
        seen.add(row.texts)
    if not repeated:
        return None
    have = "has the text" if len(repeated) == 1 else "have the texts"
    return (
        f"{len(repeated)} of {len(test)} test rows {have} of other test rows (first: {repeated[0]}), so these count "
        "several times, and intervals are too narrow. Remove duplicate rows"
    )


def _shared_texts(test: Sequence[RowTexts], others: Sequence[RowTexts], part: str) -> str | None:
    """Warn of test texts that are also in another part of the split."""
    other_texts = {row.texts for row in others}
    shared = [row for row in test if row.texts in other_texts]
    if not shared:
        return None
    different_count = len({row.texts for row in shared})
    return (
        f"{different_count} different test texts are also in the {part} set, with their labels (first: {shared[0]}). "
        "Remove duplicate rows"
    )


def _several_labels(rows: Sequence[RowTexts]) -> str | None:
    """Warn of texts that have different labels in different rows."""
    labels_of_texts = defaultdict[tuple[str, ...], set[int]](set)
    for row in rows:
        labels_of_texts[row.texts].add(row.label)
    contradictory = [row for row in rows if len(labels_of_texts[row.texts]) > 1]
    if not contradictory:
        return None
    text_count = len({row.texts for row in contradictory})
    first = contradictory[0]
    return f"{text_count} texts have two or more labels in different rows (first: {first}). Correct their labels"


def _labels_without_test_row(split: TripletSplit, space: Sequence[str]) -> str | None:
    """Warn of labels that no test row has; few rows have a warning of their own."""
    if len(split.test) < FEW_ROWS:
        return None
    missing = _missing_labels(split.test, len(split.test), space)
    if not missing:
        return None
    return f"{_sentence_about(missing)}. Use more rows"


def _missing_labels(test: SubsetView, row_count: int, space: Sequence[str]) -> list[str]:
    """Return the labels that none of the first test rows has."""
    present = {int(test.label(position)) for position in range(row_count)}
    return [name for label, name in enumerate(space) if label not in present]


def _sentence_about(missing: Sequence[str]) -> str:
    names = ", ".join(map(repr, missing[:3]))
    if len(missing) == 1:
        return f"one label has no test row, {names}"
    return f"{len(missing)} labels have no test row, such as {names}"
