"""The mean of the predictions for several prompts of each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.methods.contract import MethodData, Steps
from StaICC.methods.label_scores import label_rows, mean_row, read_probabilities
from StaICC.methods.present_rows import apply_present, present


def mean_of_views(views: Sequence[MethodData]) -> Steps:
    """Predict for each query the mean of the model's predictions for several prompts of it.

    Args:
        views: The same test queries with different prompts. The result records the prompts of the first view.
    """
    answers = yield [view.ask() for view in views]
    first_view = views[0]
    predictions_of_queries = predictions_by_query(answers, len(first_view.label_space))

    means = []
    incomplete_count = 0
    for predictions in predictions_of_queries:
        known_predictions = present(predictions)
        if not known_predictions:
            means.append(predictions[0])  # a failure
            continue
        means.append(mean_row(known_predictions))
        if len(known_predictions) < len(predictions):
            incomplete_count += 1
    if incomplete_count:
        first_view.warn(
            f"{incomplete_count} of {len(means)} predictions are means over fewer than {len(views)} prompts, because "
            "others have no prediction"
        )
    return first_view.predictions(means)


def predictions_by_query(answers: Sequence[Sequence[Any]], n_labels: int) -> list[list[Any]]:
    """Return for each query its predictions, one for each view, as probabilities; failures keep their places.

    All predictions are read together, so that all are probabilities or all are logits.

    Args:
        answers: For each view, the model's prediction for each query.
        n_labels: How many labels there are.

    Raises:
        OutputError: A prediction is no row of label scores.
    """

    def as_probabilities(rows: list[Any]) -> list[list[float]]:
        """Return the probabilities of predictions that did not fail; all are read as the same kind."""
        probabilities, _ = read_probabilities(label_rows(rows, n_labels, "prediction"), "auto")
        return probabilities

    all_predictions: list[Any] = []  # view by view
    for predictions in answers:
        all_predictions += predictions
    all_probabilities = apply_present(all_predictions, as_probabilities)
    n_queries = len(answers[0])
    # A view has n_queries predictions, so those for a query are that many positions apart.
    return [all_probabilities[query::n_queries] for query in range(n_queries)]
