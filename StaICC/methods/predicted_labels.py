"""The label that a prediction names, for methods that learn from predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.methods.present_rows import without_failures


def predicted_label(prediction: Any) -> int | None:
    """Return the label with the largest score, the first of equals; ``None`` for a failure or an unparsed reply.

    Args:
        prediction: A row with a score for each label, or a label index.
    """
    if isinstance(prediction, int):
        return prediction
    if isinstance(prediction, (list, tuple)):
        return prediction.index(max(prediction))
    return None


def accuracy(predictions: Sequence[Any], labels: Sequence[int]) -> float:
    """Return the share of correct predictions; failures are left out, and unparsed replies are wrong.

    Args:
        predictions: A prediction or a failure for each prompt.
        labels: The true label of each prompt.

    Raises:
        OutputError: All predictions are failures.
    """
    known, known_labels = without_failures(predictions, labels)
    correct = 0
    for prediction, label in zip(known, known_labels, strict=True):
        if predicted_label(prediction) == label:
            correct += 1
    return correct / len(known)
