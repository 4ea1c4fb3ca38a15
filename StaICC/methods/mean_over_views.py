"""The mean of the predictions for several prompts of each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.methods.contract import MethodData, Steps
from StaICC.methods.label_scores import label_rows, mean_row, read_probabilities
from StaICC.methods.present_rows import apply_present, present


def mean_of_views(views: Sequence[MethodData]) -> Steps:
    """Predict with each view, and return the mean; the result has the prompts of the first view.

    Args:
        views: The same test rows with different prompts.
    """
    answers = yield [view.ask() for view in views]
    first = views[0]
    predictions_of_queries = predictions_by_query(answers, len(first.label_space))

    means = []
    incomplete = 0
    for predictions in predictions_of_queries:
        known = present(predictions)
        if not known:
            means.append(predictions[0])  # a failure
            continue
        means.append(mean_row(known))
        if len(known) < len(predictions):
            incomplete += 1
    if incomplete:
        first.warn(
            f"{incomplete} of {len(means)} predictions are means over fewer than {len(views)} prompts, because "
            "others have no prediction"
        )
    return first.predictions(means)


def predictions_by_query(answers: Sequence[Sequence[Any]], n_labels: int) -> list[list[Any]]:
    """Return the predictions of each query as probabilities; failures keep their places.

    All predictions are read together, so that all are probabilities or all are logits.

    Args:
        answers: For each view, the model's prediction for each query.
        n_labels: How many labels there are.

    Raises:
        OutputError: A prediction is no row of label scores.
    """

    def as_probabilities(rows: list[Any]) -> list[list[float]]:
        probabilities, _ = read_probabilities(label_rows(rows, n_labels, "prediction"), "auto")
        return probabilities

    all_predictions = [prediction for predictions in answers for prediction in predictions]
    all_probabilities = apply_present(all_predictions, as_probabilities)
    n_queries = len(answers[0])
    return [all_probabilities[query::n_queries] for query in range(n_queries)]
