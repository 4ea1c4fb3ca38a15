"""Checks of the first predictions of a run: what is wrong with all of them is logged before the others are paid for.

The runner calls a check once, with the first queries and their predictions (:attr:`RunOptions.early_checks
<StaICC.inference.runner.RunOptions>`). A check returns a warning or ``None``; it never changes a score. What is wrong
with the whole condition is a warning of the result, too (:mod:`StaICC.benchmarks.warnings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from StaICC.benchmarks.task import argmax
from StaICC.inference.contract import Answer
from StaICC.inference.model_warnings import FIRST_QUERIES, one_label_at_first
from StaICC.inference.runner import EarlyCheck
from StaICC.metrics.classification import LOSSES, Kind, normalise
from StaICC.prompting.prompt_writer import Query


def early_checks(outputs: Kind, one_label_is_suspicious: bool) -> list[EarlyCheck]:
    """Return the checks of the first predictions for a data set.

    Args:
        outputs: How rows of numbers are read: as ``"probabilities"``, as ``"logits"``, or ``"auto"``. Only ``"auto"``
            needs the check for unclear numbers.
        one_label_is_suspicious: Whether a model that predicts one label for all queries looks broken. It does not if
            the queries have no content.
    """
    checks: list[EarlyCheck] = []
    if one_label_is_suspicious:
        checks.append(one_label_for_all)
    if outputs == "auto":
        checks.append(unclear_numbers)
    return checks


def one_label_for_all(queries: Sequence[Query], predictions: Sequence[Answer]) -> str | None:
    """Return a warning if all queries got one label although their true labels differ; otherwise ``None``."""
    predicted_labels = [_predicted_label(prediction) for prediction in predictions]
    return one_label_at_first(queries, predicted_labels)


def unclear_numbers(queries: Sequence[Query], predictions: Sequence[Answer]) -> str | None:
    """Return a warning if the rows of numbers are not clearly probabilities or logits; otherwise ``None``.

    There is no warning in three other cases: the queries are too few to tell; no prediction is a row of numbers; the
    rows have different lengths, because conditions have different label spaces.
    """
    if len(queries) < FIRST_QUERIES:
        return None
    rows = [prediction for prediction in predictions if isinstance(prediction, list)]
    row_lengths = {len(row) for row in rows}
    if len(row_lengths) != 1:
        return None
    if normalise(rows).kind != "ambiguous":
        return None
    return (
        f"the numbers of the first {len(queries)} queries are not clearly probabilities or logits, so scores that need "
        "probabilities, such as likelihood, are undefined. Set outputs='probabilities' or outputs='logits', or return "
        f"log-probabilities; {LOSSES}"
    )


def _predicted_label(prediction: Answer) -> int:
    """Return the label index that a prediction predicts.

    Args:
        prediction: A row of numbers, one for each label, or a label index. Other kinds of predictions (texts, features
            of a model) are not checked early.
    """
    if isinstance(prediction, list):
        return argmax(prediction)
    return int(cast("int", prediction))
