"""What is read of a prediction: the parsed answer, its label, its tally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from StaICC.errors import OutputError
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure, unparsed_reason
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.queries import LongICLQueries
from StaICC.long_icl.scoring import Tally, tally_prediction

CUT_OFF = "cut off"
"""Why a reply has no label: it ended at the maximum number of tokens."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of one prediction."""

    tally: Tally | None
    """True, predicted and correct labels; ``None`` if the query failed."""
    text: str | None
    """The parsed answer; ``None`` if the query failed."""
    answer: Answer | Failure
    """The index of the predicted label; for an item with several labels, the prediction. A failure with the reply if
    it names no label."""
    published_reads: bool | None = None
    """Whether the published parser reads a label, too; ``None`` if it is used itself, or the prediction is no text."""


def read_prediction(
    queries: LongICLQueries, options: LongICLOptions, number: int | str, position: int, prediction: Any
) -> Reading:
    """Return what is read of a prediction.

    Args:
        queries: The queries of the data set.
        options: The options of the run.
        number: The round, or the name of the condition.
        position: The test item.
        prediction: The prediction. A failed query has neither tally nor answer. A reply that the server withheld is a
            failure with an empty reply. For verification, a prediction is the tally that the result recorded.

    Raises:
        OutputError: The prediction cannot be scored.
    """
    if isinstance(prediction, Failure) and prediction.reply is None:
        return Reading(tally=None, text=None, answer=prediction)
    if isinstance(prediction, Tally):
        return Reading(prediction, text=None, answer=prediction)  # type: ignore[arg-type]  # it was read in the run
    is_withheld = isinstance(prediction, Failure)
    scored_prediction = prediction
    if is_withheld:
        scored_prediction = ""  # as published: a withheld reply counts as an empty one

    card = queries.card
    item = queries.test_items[position]
    label_names = queries.contexts[number].labels_of(position)  # empty: those of the card
    prompt = None
    if options.parsing != "published":
        prompt = queries.prompt(number, position)
    try:
        tally, text = tally_prediction(card, scored_prediction, item, options.parsing, prompt, label_names)
    except OutputError as error:
        raise OutputError(f"{queries.place_of(number, position)}: {error}") from error

    published_reads = None
    if isinstance(prediction, str) and options.parsing != "published":
        published_tally, _ = tally_prediction(card, prediction, item, "published", None, label_names)
        published_reads = len(published_tally.predicted) > 0

    is_text = isinstance(scored_prediction, str)
    has_labels = len(item.gold) > 0  # a sentence of Few-NERD may have no entity
    if is_text and has_labels and not tally.predicted:
        unparsed = prediction
        if not is_withheld:
            unparsed = Failure(unparsed_reason(_why_unparsed(prediction), prediction), reply=prediction)
        return Reading(tally, text, unparsed, published_reads)
    if card.structured:
        return Reading(tally, text, scored_prediction, published_reads)
    return Reading(tally, text, card.labels.index(tally.predicted[0]), published_reads)


def _why_unparsed(reply: str) -> str:
    """Return why a reply has no label."""
    if getattr(reply, "finish_reason", None) == "length":
        return CUT_OFF
    if reply.strip():
        return "no label"
    return "empty"
