"""Family-wise error of comparisons on subgroups: how often is any subgroup of two equally good runs called different?

The runs have the same accuracy on each label of three data sets with 2, 4 and 6 labels, of which some are rare. Their
predictions are drawn anew in each sample. ``compare_subgroups`` tests the 12 labels, with Holm's correction. The script
prints the share of samples in which at least one p-value is at most 0.05. Of 320 rows of a data set, 128 are test rows;
of 1280 rows, 512. Usage::

    python tests/performance/subgroup_errors.py [--samples 1000] [--rows 320 1280]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from records import arguments, markdown, record

from StaICC import Dataset, Normal, Result, compare_subgroups
from StaICC.comparing.verdicts import Tested
from StaICC.results.details import query_positions

LEVEL = 0.05
LABELS_OF_DATASETS = (2, 4, 6)
LABEL_NAMES = ("one", "two", "three", "four", "five", "six")

RowsAndQueries = tuple[int, int]
"""Numbers of test rows, and of the queries of each."""
Hits = Callable[[Any, RowsAndQueries], Any]
"""Draws whether each query of each test row is right, as an array of rows and queries."""


def independent(accuracy: float) -> Hits:
    """Each query is right with the same probability, whatever the others of its row are."""

    def draw_hits(draw: Any, shape: RowsAndQueries) -> Any:
        return draw.random(shape) < accuracy

    return draw_hits


def together(accuracy: float) -> Hits:
    """All queries of a row are right, or all are wrong."""

    def draw_hits(draw: Any, shape: RowsAndQueries) -> Any:
        rows, queries = shape
        return np.repeat(draw.random((rows, 1)) < accuracy, queries, axis=1)

    return draw_hits


PAIRS_OF_RUNS: dict[str, tuple[Hits, Hits]] = {
    "accuracy 0.5": (independent(0.5), independent(0.5)),
    "accuracy 0.9": (independent(0.9), independent(0.9)),
    "accuracy 0.97, errors of a row together in one run": (independent(0.97), together(0.97)),
}


def dataset(labels: int, rows: int) -> Dataset:
    """Return a data set whose first label has a half of the rows, the second one a quarter, and so on."""
    counts = [max(8, rows // 2 ** (label + 1)) for label in range(1, labels)]
    counts.insert(0, rows - sum(counts))
    texts = []
    for label, count in enumerate(counts):
        texts += [(f"text {label} {number}", LABEL_NAMES[label]) for number in range(count)]
    return Dataset.from_rows(texts, name=f"{labels} labels")


def with_hits(result: Result, draw: Any, draw_hits: Hits) -> Result:
    """Return a result with other predictions: the true label where a query is right, else the next label."""
    details = {}
    for name, of_dataset in result.details.items():
        n_labels = len(of_dataset.labels)
        (condition,) = of_dataset.conditions
        positions = query_positions(condition.rows)
        n_rows = max(row for row, _ in positions) + 1
        n_queries = max(number for _, number in positions) + 1
        hits = draw_hits(draw, (n_rows, n_queries))
        predictions = []
        for truth, position in zip(condition.truth, positions, strict=True):
            predictions.append(truth if hits[position] else (truth + 1) % n_labels)
        changed = replace(condition, output="labels", scores=None, predictions=tuple(predictions))
        details[name] = replace(of_dataset, conditions=(changed,))
    return replace(result, details=details)


def any_is_different(first: Result, second: Result) -> tuple[bool, int]:
    """Return whether a subgroup is called different, and how many are tested."""
    (compared,) = compare_subgroups({"first": first, "second": second}, by="label")
    outcomes = [subgroup.line.outcome for subgroup in compared.subgroups]
    tested = [outcome for outcome in outcomes if isinstance(outcome, Tested)]
    return any(outcome.corrected_p_value <= LEVEL for outcome in tested), len(tested)


def cell(bases: Sequence[Result], pair: tuple[Hits, Hits], samples: int, draw: Any) -> dict[str, float]:
    """Return the share of samples with a subgroup that is called different, and the mean number of tested ones."""
    different = 0
    tested = 0
    for _ in range(samples):
        first, second = (with_hits(base, draw, draw_hits) for base, draw_hits in zip(bases, pair, strict=True))
        is_different, n_tested = any_is_different(first, second)
        different += is_different
        tested += n_tested
    return {"share": different / samples, "tested": tested / samples}


def main() -> None:
    options = arguments(__doc__, {"--samples": 1000, "--rows": [320, 1280]})
    figures: dict[str, Any] = {}
    table = []
    for rows in options.rows:
        benchmark = Normal(datasets=[dataset(labels, rows) for labels in LABELS_OF_DATASETS])
        bases = [benchmark(lambda prompt, label_space, answer=answer: answer, progress=False) for answer in (0, 1)]
        for number, (name, pair) in enumerate(PAIRS_OF_RUNS.items()):
            found = cell(bases, pair, options.samples, np.random.default_rng([rows, number]))
            figures[f"{name}, {rows} rows"] = found
            table.append([name, rows, found["share"], found["tested"]])
    print(markdown(["runs", "rows of a data set", "any subgroup called different", "tested of 12"], table))
    record(__file__, figures, vars(options))


if __name__ == "__main__":
    main()
