"""The label prior: how a model predicts each label where a prompt should favour none.

Contextual calibration, domain calibration and DC-PMI divide predictions by it. One prior can be learned for all
queries, or each query can have the prior of its own demonstrations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.errors import OutputError
from StaICC.inference.replies import Failure
from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, Steps
from StaICC.methods.label_scores import (
    ReadAs,
    divided,
    label_rows,
    mean_row,
    probabilities_as,
    read_probabilities,
    training_probabilities,
)
from StaICC.methods.learned_state import LABELS, learned
from StaICC.methods.present_rows import apply_present

Correct = Callable[[Sequence[float], Sequence[float]], list[float]]
"""Corrects the probabilities of one query by a prior."""

# -- one prior for all queries


@dataclass(frozen=True)
class PriorState:
    """A label prior."""

    prior: tuple[float, ...] = learned(LABELS)
    """The mean probability of each label."""
    read_as: ReadAs = "probabilities"
    """What the predictions were read as."""


def learn_prior(rows: Sequence[Any], label_space: Sequence[str]) -> PriorState:
    r"""Return the mean prediction :math:`\hat p_y = \frac 1 n \sum_t P(y \mid t)` over content-free prompts :math:`t`.

    Args:
        rows: The prediction for each prompt.
        label_space: The labels.

    Raises:
        OutputError: A row cannot be read, or a label has probability 0 on all prompts.
    """
    probabilities, read_as = training_probabilities(rows, len(label_space))
    prior = mean_row(probabilities)
    for label, value in zip(label_space, prior, strict=True):
        if value <= 0:
            raise OutputError(
                f"the model gave the label {label!r} probability 0 on all {len(rows)} calibration prompts; there is "
                "nothing to divide by"
            )
    return PriorState(tuple(prior), read_as)


def corrected_by_prior(
    state: PriorState, rows: Sequence[Any], label_space: Sequence[str], correct: Correct = divided
) -> list[list[float]]:
    """Return the predictions, each corrected by one prior.

    Args:
        state: The prior.
        rows: The prediction for each query: probabilities or logits, as those that the prior was learned from.
        label_space: The labels.
        correct: Corrects the probabilities of one query by the prior.
    """
    probabilities = probabilities_as(rows, len(label_space), state.read_as)
    return [correct(row, state.prior) for row in probabilities]


# -- the prior of each query's own demonstrations


def calibrate_in_context(data: MethodData, texts: Sequence[Sequence[str]], correct: Correct) -> Steps:
    """Calibrate each query by the predictions for content-free texts after its own demonstrations.

    The prompts about a content-free text are those of the queries with this text in the place of the query's.

    Args:
        data: The method's data.
        texts: The content-free texts, each in the form of a row: one text for each input text.
        correct: Corrects the probabilities of one query by its prior.
    """
    has_log_probabilities = "log_probabilities" in data.provides and not data.is_noisy
    if has_log_probabilities:
        feature = "log_probabilities"
    else:
        feature = "probabilities"
        data.warn(
            "log-probabilities of the labels over the vocabulary are not known here, so the predictions on "
            "content-free texts are normalised before they are averaged"
        )
    request = data.ask()
    requests_about_texts = [data.on(query_texts=text).ask(feature) for text in texts]
    rows, *content_free = yield [request, *requests_about_texts]
    calibrated = calibrated_in_context(rows, content_free, correct, len(data.label_space), has_log_probabilities)
    return data.predictions(calibrated)


def calibrated_in_context(
    rows: Sequence[Any],
    content_free: Sequence[Sequence[Any]],
    correct: Correct,
    width: int,
    logarithms: bool,
) -> list[list[float] | Failure]:
    r"""Calibrate each prediction by the predictions on content-free texts after the same demonstrations.

    The prior is :math:`\hat p_y = \sum_t P(y \mid t) / \sum_{t, y'} P(y' \mid t)` over the texts :math:`t`, with the
    probabilities of the labels' tokens over the vocabulary, as in the authors' code of contextual calibration.

    Args:
        rows: The prediction for each query: probabilities or logits.
        content_free: For each text, its prediction for each query.
        correct: Corrects one prediction by a prior.
        width: How many labels there are.
        logarithms: Whether ``content_free`` has log-probabilities of the labels over the vocabulary. Without them, the
            predictions on the texts are normalised before they are averaged.

    Returns:
        One row for each query; a failure where a prediction is missing, or a label has probability 0 on all texts.

    Raises:
        OutputError: A prediction is not a row of numbers.
    """
    # For each query its prediction and those for the content-free texts; a failure if any of these is missing.
    predictions_of_queries: list[Any] = []
    for predictions in zip(rows, *content_free, strict=True):
        failures = [prediction for prediction in predictions if isinstance(prediction, Failure)]
        if failures:
            predictions_of_queries.append(failures[0])
        else:
            predictions_of_queries.append(predictions)

    calibrate = partial(_calibrated_complete, correct=correct, width=width, logarithms=logarithms)
    return apply_present(predictions_of_queries, calibrate)


def _calibrated_complete(
    predictions_of_queries: Sequence[Sequence[Any]], correct: Correct, width: int, logarithms: bool
) -> list[list[float] | Failure]:
    """Return the calibrated predictions for queries of which no prediction is missing.

    Args:
        predictions_of_queries: For each query its prediction, followed by its prediction for each content-free text.
        correct: Corrects the probabilities of one query by its prior.
        width: How many labels there are.
        logarithms: Whether the predictions for content-free texts are log-probabilities over the vocabulary. If not,
            they are label probabilities or logits, as the predictions for the queries.
    """
    predictions, *predictions_by_text = zip(*predictions_of_queries, strict=True)
    scores = label_rows(predictions, width, "prediction")
    scores_by_text = [label_rows(for_text, width, "prediction") for for_text in predictions_by_text]
    if logarithms:
        probabilities, _ = read_probabilities(scores, "auto")
    else:
        # All rows are read together, so that all are probabilities or all are logits.
        all_scores = list(itertools.chain(scores, *scores_by_text))
        all_probabilities, _ = read_probabilities(all_scores, "auto")
        probabilities, *scores_by_text = map(list, in_batches(all_probabilities, len(scores)))

    calibrated: list[list[float] | Failure] = []
    for query, row in enumerate(probabilities):
        scores_of_query = [scores_for_text[query] for scores_for_text in scores_by_text]
        prior = _prior_of_texts(scores_of_query, logarithms)
        if prior is None:
            reason = "a label has probability 0 on all content-free texts; there is nothing to divide by"
            calibrated.append(Failure(reason))
        else:
            calibrated.append(correct(row, prior))
    return calibrated


def _prior_of_texts(rows: Sequence[Sequence[float]], logarithms: bool) -> list[float] | None:
    r"""Return the label prior of one query: the mean of its rows for content-free texts, normalised to 1.

    With the row :math:`P(y \mid t)` of each text :math:`t`, the prior of the label :math:`y` is
    :math:`\sum_t P(y \mid t) / \sum_{t, y'} P(y' \mid t)`.

    Args:
        rows: For each content-free text, a probability of each label.
        logarithms: Whether the rows are logarithms of these.

    Returns:
        The prior; ``None`` if a label has probability 0 on all texts.
    """
    if logarithms:
        largest = max(max(row) for row in rows)  # a common factor, which the division by the total removes
        rows = [[math.exp(value - largest) for value in row] for row in rows]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]  # by label
    if min(sums) <= 0:
        return None
    total = math.fsum(sums)
    return [value / total for value in sums]
