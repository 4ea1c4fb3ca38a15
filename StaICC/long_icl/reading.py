"""What is read of a prediction: the parsed answer, its label, its tally."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from StaICC.errors import OutputError
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure, unparsed_reason
from StaICC.long_icl.options import LongICLOptions
from StaICC.long_icl.prompts import Item
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
    """Return the tally, the parsed answer and the label of a prediction.

    Args:
        queries: The queries of the data set.
        options: The options of the run.
        number: The round, or the name of the condition.
        position: The index of the test item.
        prediction: One of these:

            - a text, a label index, or one score for each label;
            - a failure without a reply: the query failed;
            - a failure with an empty reply: the server withheld the reply, which counts as an empty text;
            - a tally, which a result recorded: verification reads it again.

    Raises:
        OutputError: The prediction cannot be scored.
    """
    if isinstance(prediction, Tally):
        return Reading(prediction, text=None, answer=prediction)  # type: ignore[arg-type]  # it was read in the run
    is_failure = isinstance(prediction, Failure)
    if is_failure and prediction.reply is None:
        return Reading(tally=None, text=None, answer=prediction)
    is_withheld = is_failure
    scored_prediction: Any = "" if is_withheld else prediction

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

    answer: Answer | Failure
    is_unparsed = _is_unparsed(scored_prediction, item, tally)
    if is_unparsed and is_withheld:
        answer = prediction
    elif is_unparsed:
        answer = Failure(unparsed_reason(_why_unparsed(prediction), prediction), reply=prediction)
    elif card.structured:
        answer = scored_prediction
    else:
        answer = card.labels.index(tally.predicted[0])
    return Reading(tally, text, answer, published_reads)


def _is_unparsed(prediction: object, item: Item, tally: Tally) -> bool:
    """Return whether a prediction is a reply that names no label, although its item has one.

    A sentence of Few-NERD may have no entity. A reply without a label is then right.
    """
    is_reply = isinstance(prediction, str)
    item_has_labels = len(item.gold) > 0
    return is_reply and item_has_labels and not tally.predicted


def _why_unparsed(reply: str) -> str:
    """Return why a reply has no label."""
    if getattr(reply, "finish_reason", None) == "length":
        return CUT_OFF
    if reply.strip():
        return "no label"
    return "empty"
