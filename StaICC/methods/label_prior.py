"""The label prior: how a model predicts each label where a prompt should favour none.

Contextual calibration, domain calibration and DC-PMI divide predictions by it. One prior can be learned for all
queries, or each query can have the prior of its own demonstrations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    """Return the predictions, each corrected by the prior."""
    probabilities = probabilities_as(rows, len(label_space), state.read_as)
    return [correct(row, state.prior) for row in probabilities]


# -- the prior of each query's own demonstrations


def calibrate_in_context(data: MethodData, texts: Sequence[Sequence[str]], correct: Correct) -> Steps:
    """Calibrate each query by the predictions on other texts after its own demonstrations.

    Args:
        data: The method's data.
        texts: The content-free texts, each the input texts of a query.
        correct: Corrects one prediction by a prior.
    """
    logarithms = "log_probabilities" in data.provides and not data.is_noisy
    if not logarithms:
        data.warn(
            "log-probabilities of the labels over the vocabulary are not known here, so the predictions on "
            "content-free texts are normalised before they are averaged"
        )
    feature = "log_probabilities" if logarithms else "probabilities"
    about_texts = [data.on(query_texts=text).ask(feature) for text in texts]
    rows, *content_free = yield [data.ask(), *about_texts]
    calibrated = calibrated_in_context(rows, content_free, correct, len(data.label_space), logarithms)
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

    def calibrate(answers_of_queries: Sequence[Any]) -> list[Any]:
        answers_of_prompts = list(zip(*answers_of_queries, strict=True))  # the query's own prompt first, then each text
        scores = [label_rows(answers, width, "prediction") for answers in answers_of_prompts]
        if logarithms:
            probabilities, _ = read_probabilities(scores[0], "auto")
            weights_of_texts = scores[1:]
        else:
            count = len(answers_of_queries)
            all_probabilities, _ = read_probabilities([row for rows in scores for row in rows], "auto")
            probabilities, *weights_of_texts = map(list, in_batches(all_probabilities, count))

        calibrated: list[Any] = []
        for row, *weights in zip(probabilities, *weights_of_texts, strict=True):
            prior = _prior_of_texts(weights, logarithms)
            if prior is None:
                reason = "a label has probability 0 on all content-free texts; there is nothing to divide by"
                calibrated.append(Failure(reason))
            else:
                calibrated.append(correct(row, prior))
        return calibrated

    complete_or_failure = []
    for answers in zip(rows, *content_free, strict=True):
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        complete_or_failure.append(failures[0] if failures else answers)
    return apply_present(complete_or_failure, calibrate)


def _prior_of_texts(rows: Sequence[Sequence[float]], logarithms: bool) -> list[float] | None:
    """Return the prior of one query from its rows for each text; ``None`` if a label has probability 0 on all."""
    if logarithms:
        largest = max(max(row) for row in rows)  # a common factor, which the sum below divides out
        rows = [[math.exp(value - largest) for value in row] for row in rows]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    if min(sums) <= 0:
        return None
    total = math.fsum(sums)
    return [value / total for value in sums]
