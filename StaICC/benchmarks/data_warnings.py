"""Warnings about the data of a run: few rows, repeated texts, texts that are in two parts of the split."""

from __future__ import annotations

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.datasets.clusters import Clusters
from StaICC.datasets.source import BuiltIn, ReleasedWheel
from StaICC.prompting.views import SubsetView, TripletSplit, split_dataset

FEW_ROWS = 100
"""Fewest test rows without a warning: with fewer, the 95 % interval of the accuracy may be wider than 10 points either
way."""


def data_warnings(experimentors: Iterable[Experimentor]) -> list[str]:
    """Return the warnings about the data sets of a run, each once.

    The rows of a built-in data set are not checked, because they are those that were published.

    Args:
        experimentors: The data sets of all benchmarks of the run.
    """
    sentences: list[str] = []
    name_by_digest: dict[str, str] = {}
    for experimentor in experimentors:
        dataset = experimentor.dataset
        name = dataset.card.name
        warnings = warnings_of_settings(experimentor)
        is_built_in = isinstance(dataset.source, (BuiltIn, ReleasedWheel))
        if not is_built_in:
            first_name = name_by_digest.setdefault(dataset.table.digest, name)
            if first_name != name:
                warnings.append(f"its rows are those of {first_name}, so they count twice in the means. Remove one")
            warnings += dataset.remarks
            warnings += warnings_of_rows(experimentor)
        sentences += [f"{name}: {warning}" for warning in warnings]
    return list(dict.fromkeys(sentences))


def warnings_of_settings(experimentor: Experimentor) -> list[str]:
    """Return the warnings about ``k`` and the limit of a run, also on a built-in data set.

    Args:
        experimentor: The data set with its settings.
    """
    warnings = (_large_k(experimentor), _labels_beyond_the_limit(experimentor))
    return [warning for warning in warnings if warning is not None]


def warnings_of_rows(experimentor: Experimentor) -> list[str]:
    """Return the warnings about the rows of a user's data set, and about their split into three parts.

    Args:
        experimentor: The data set with its settings.
    """
    split = split_dataset(experimentor.dataset)
    test = texts_of(split.test)
    demonstrations = texts_of(split.demonstration)
    calibration = texts_of(split.calibration)
    warnings = (
        _few_rows(experimentor, split),
        _repeated_test_texts(test, experimentor.dataset.clusters),
        _shared_texts(test, demonstrations, "demonstration"),
        _shared_texts(test, calibration, "calibration"),
        _contradictory_labels([*test, *demonstrations, *calibration]),
        _labels_without_test_row(split, experimentor.dataset.card.label_space),
    )
    return [warning for warning in warnings if warning is not None]


@dataclass(frozen=True, slots=True)
class RowTexts:
    """The texts of a row in the form in which they are compared, with the number and the label of the row.

    In this form, texts have no surrounding spaces, and their letters are composed (Unicode NFC).
    """

    texts: tuple[str, ...]
    row: int
    """The row of the data set, counted from 0."""
    label: int

    def __str__(self) -> str:
        return f"row {self.row}, {' / '.join(self.texts)!r:.60}"


def texts_of(view: SubsetView) -> list[RowTexts]:
    """Return the texts of each row of a part of the split, in the form in which they are compared."""
    rows = []
    for position, row_number in enumerate(view.indexes):
        row = view.row(position)
        texts = tuple(unicodedata.normalize("NFC", text).strip() for text in row.texts)
        rows.append(RowTexts(texts, row_number, int(row.label)))
    return rows


# -- the checks: each returns a warning, or None if it finds nothing


def _large_k(experimentor: Experimentor) -> str | None:
    """Return a warning if ``k`` is larger than the demonstration set, so that demonstrations repeat; else ``None``."""
    k = experimentor.get_k()
    row_count = len(experimentor.demonstration_set())
    if row_count == 0 or row_count >= k:
        return None
    return (
        f"k = {k} is larger than the demonstration set ({row_count} rows), so demonstrations repeat within a prompt. "
        "Use a smaller k or more rows"
    )


def _labels_beyond_the_limit(experimentor: Experimentor) -> str | None:
    """Return a warning if the limit leaves labels without a test row; ``None`` if it leaves none.

    Macro F1 is the mean of F1 over all labels, and F1 of such a label counts as 0. So there is no warning if macro F1
    is not scored.
    """
    test = experimentor.triplet_dataset.test
    tested_row_count = experimentor.row_count
    scores_macro_f1 = experimentor.task.scores_metric_set and "macro_F1" in experimentor.metrics
    if tested_row_count == len(test) or not scores_macro_f1:
        return None
    label_space = experimentor.get_label_space()
    missing = _missing_labels(test, tested_row_count, label_space)
    if not missing:
        return None
    highest_macro_f1 = (len(label_space) - len(missing)) / len(label_space)
    return (
        f"{_sentence_about(missing)} among the first {tested_row_count} test rows (limit): macro F1, the mean over all "
        f"{len(label_space)} labels, is at most {highest_macro_f1:.3f}. Use a larger limit to interpret it"
    )


def _few_rows(experimentor: Experimentor, split: TripletSplit) -> str | None:
    """Return a warning if there are fewer than :data:`FEW_ROWS` test rows; otherwise ``None``.

    The warning says how uncertain an accuracy is: it has half the width of the 95 % interval of an accuracy of 50 %,
    which is ``1.96 * sqrt(0.5 * 0.5 / rows)``. Rows in clusters depend on each other, so the interval is wider then.

    Args:
        experimentor: The data set with its settings.
        split: The split of all rows.
    """
    tested_row_count = experimentor.row_count
    if tested_row_count >= FEW_ROWS:
        return None
    standard_error = math.sqrt(0.5 * (1 - 0.5) / tested_row_count)
    # An accuracy of 50 % is at most 50 points away from 0 % and 100 %.
    half_width_in_points = min(100 * 1.96 * standard_error, 50)
    verb = "are" if tested_row_count > 1 else "is"
    at_best = ""
    if experimentor.clusters is not None:
        at_best = ", at best, because rows are in clusters"
    return (
        f"{tested_row_count} of {experimentor.dataset.card.rows} rows {verb} tested: an accuracy of 50 % is known to "
        f"+/- {half_width_in_points:.0f} points{at_best}. {_remedy_for_few_rows(experimentor, split)}"
    )


def _remedy_for_few_rows(experimentor: Experimentor, split: TripletSplit) -> str:
    """Return how more rows can be tested: the limit, the task, or the data set has too few.

    Args:
        experimentor: The data set with its settings.
        split: The split of all rows; the task and the limit may cut its test set.
    """
    tested_row_count = experimentor.row_count
    if tested_row_count < len(experimentor.triplet_dataset.test):  # only the limit cuts the task's test set
        return "Use a larger limit"
    if tested_row_count < len(split.test):
        task = experimentor.task
        return f"The task {task.name} tests at most {task.test_rows} rows: raise its test_rows"
    return "Use more rows"


def _repeated_test_texts(test: Sequence[RowTexts], clusters: Clusters | None) -> str | None:
    """Return a warning about test rows with the texts of an earlier test row; ``None`` if there are none.

    Intervals are computed as if all test rows were independent. Rows with equal texts are not, so intervals are too
    narrow. If rows are in clusters, only rows of different clusters must be independent.

    Args:
        test: The test rows.
        clusters: The clusters of the rows of the data set; ``None`` if rows are independent.
    """
    cluster_of_texts: dict[tuple[str, ...], int] = {}
    repeated = []
    for row in test:
        cluster = row.row if clusters is None else clusters.numbers[row.row]
        if row.texts not in cluster_of_texts:
            cluster_of_texts[row.texts] = cluster
        elif cluster_of_texts[row.texts] != cluster:
            repeated.append(row)
    if not repeated:
        return None
    have = "has the text" if len(repeated) == 1 else "have the texts"
    return (
        f"{len(repeated)} of {len(test)} test rows {have} of other test rows (first: {repeated[0]}), so these count "
        "several times, and intervals are too narrow. Remove duplicate rows"
    )


def _shared_texts(test: Sequence[RowTexts], others: Sequence[RowTexts], part: str) -> str | None:
    """Return a warning about test texts that are also in another part of the split; ``None`` if there are none.

    The rows of that part are shown to the model, or used for training, with their labels.

    Args:
        test: The test rows.
        others: The rows of the other part: the demonstration set or the calibration set.
        part: The name of the other part, for the message.
    """
    other_texts = {row.texts for row in others}
    shared = [row for row in test if row.texts in other_texts]
    if not shared:
        return None
    distinct_text_count = len({row.texts for row in shared})
    return (
        f"{distinct_text_count} different test texts are also in the {part} set, with their labels "
        f"(first: {shared[0]}). Remove duplicate rows"
    )


def _contradictory_labels(rows: Sequence[RowTexts]) -> str | None:
    """Return a warning about equal texts with different labels; ``None`` if there are none.

    The warning has the number of such texts, and the first row with one. The rows may be in different parts of the
    split.
    """
    labels_of_texts = defaultdict[tuple[str, ...], set[int]](set)
    for row in rows:
        labels_of_texts[row.texts].add(row.label)
    contradictory = [row for row in rows if len(labels_of_texts[row.texts]) > 1]
    if not contradictory:
        return None
    distinct_text_count = len({row.texts for row in contradictory})
    return (
        f"{distinct_text_count} texts have two or more labels in different rows (first: {contradictory[0]}). "
        "Correct their labels"
    )


def _labels_without_test_row(split: TripletSplit, label_space: Sequence[str]) -> str | None:
    """Return a warning about labels that no test row has; ``None`` if there are none or the test rows are few."""
    if len(split.test) < FEW_ROWS:
        return None  # The check _few_rows warns of few test rows.
    missing = _missing_labels(split.test, len(split.test), label_space)
    if not missing:
        return None
    return f"{_sentence_about(missing)}. Use more rows"


def _missing_labels(test: SubsetView, row_count: int, label_space: Sequence[str]) -> list[str]:
    """Return the names of the labels that none of the first ``row_count`` test rows has."""
    present_labels = {int(test.label(position)) for position in range(row_count)}
    return [name for label, name in enumerate(label_space) if label not in present_labels]


def _sentence_about(missing: Sequence[str]) -> str:
    """Return the beginning of a warning: how many labels have no test row, with up to three of their names."""
    names = ", ".join(map(repr, missing[:3]))
    if len(missing) == 1:
        return f"one label has no test row, {names}"
    return f"{len(missing)} labels have no test row, such as {names}"
