"""Warnings about the data of a run: few rows, repeated texts, texts that are in two parts of the split."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable

from StaICC.benchmarks.experimentor import Experimentor
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.source import BuiltIn, ReleasedWheel
from StaICC.prompting.views import SubsetView, split_dataset

FEW_ROWS = 100
"""Fewer test rows than these are few: their 95 % interval of the accuracy is wider than 10 points either way."""


def data_warnings(experimentors: Iterable[Experimentor]) -> list[str]:
    """Return the warnings about the data sets of a run, one sentence each, each once.

    Args:
        experimentors: The data sets of all benchmarks of the run.
    """
    sentences: list[str] = []
    names: dict[str, str] = {}
    for experimentor in experimentors:
        dataset, pool, k = experimentor.dataset, len(experimentor.demonstration_set()), experimentor.get_k()
        name = dataset.card.name
        if k > pool > 0:
            rows = f"the demonstration set ({pool} rows), so demonstrations repeat within a prompt"
            sentences.append(f"{name}: k = {k} is larger than {rows}. Use a smaller k or more rows")
        if isinstance(dataset.source, (BuiltIn, ReleasedWheel)):
            continue  # as they were published
        first = names.setdefault(dataset.table.digest, name)
        if first != name:
            sentences.append(f"{name}: its rows are those of {first}, so they count twice in the means. Remove one")
        sentences += [f"{name}: {text}" for text in (*dataset.remarks, *_of_rows(dataset, experimentor.row_count))]
    return list(dict.fromkeys(sentences))


def _of_rows(dataset: Dataset, tested: int) -> tuple[str, ...]:
    split, space = split_dataset(dataset), dataset.card.label_space
    sentences = []
    if tested < FEW_ROWS:
        width = 100 * 1.96 * math.sqrt(0.25 / tested)
        rows = f"{tested} of {dataset.card.rows} rows {'are' if tested > 1 else 'is'}"
        more = "Use more rows" if tested == len(split.test) else "Use a larger limit"
        sentences.append(f"{rows} tested: an accuracy of 50 % is known to +/- {min(width, 50):.0f} points. {more}")
    test, *others = (_texts(view) for view in (split.test, split.demonstration, split.calibration))
    for part, texts in zip(("demonstration", "calibration"), others, strict=True):
        leaked = len(test.keys() & texts.keys())
        if leaked:
            where = f"also in the {part} set, with their labels"
            sentences.append(f"{leaked} different test texts are {where}. Remove duplicate rows")
    pairs = {(text, label) for texts in (test, *others) for text, labels in texts.items() for label in labels}
    unclear = sum(labels > 1 for labels in Counter(text for text, _ in pairs).values())
    if unclear:
        sentences.append(f"{unclear} texts have two or more labels in different rows. Correct their labels")
    missing = sorted(set(range(len(space))).difference(*test.values()))
    if missing and len(split.test) >= FEW_ROWS:
        names = ", ".join(repr(space[label]) for label in missing[:3])
        sentences.append(f"{len(missing)} labels have no test row, such as {names}. Use more rows")
    return tuple(sentences)


def _texts(view: SubsetView) -> dict[tuple[str, ...], set[int]]:
    """Return the labels of each text of a set, without surrounding spaces and with composed letters (NFC)."""
    labels: dict[tuple[str, ...], set[int]] = {}
    for row in map(view.row, range(len(view))):
        texts = tuple(unicodedata.normalize("NFC", text).strip() for text in row.texts)
        labels.setdefault(texts, set()).add(int(row.label))
    return labels
