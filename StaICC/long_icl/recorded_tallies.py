"""The labels of items with several labels, as a result recorded them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from StaICC.benchmarks.records import recorded_failures
from StaICC.errors import SchemaError
from StaICC.inference.replies import Failure
from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.scoring import Tally, tally_prediction
from StaICC.results.details import DatasetDetails


def recorded_tallies(
    card: TaskCard, items: Sequence[Item], parsing: str, details: DatasetDetails, scores: Mapping[str, Any]
) -> list[Tally | Failure]:
    """Return the recorded tally of each item in each round, or the failure of an item without a prediction.

    The true labels of a tally are those of the data. So a record with other true labels differs from the one that
    verification computes.

    Args:
        card: Card of the data set.
        items: The test items, the same in each round.
        parsing: How replies were parsed.
        details: The saved details of the data set, with the reasons of failures.
        scores: The saved scores of the data set. ``scores["rounds"][name]["items"]`` has for each item its row, and its
            true, predicted and correct labels.

    Raises:
        SchemaError: The records are not those of the items.
    """
    failures = recorded_failures(details)
    tallies: list[Tally | Failure] = []
    for name, round_record in scores.get("rounds", {}).items():
        records = round_record.get("items")
        if records is None or len(records) != len(items):
            found = "none" if records is None else f"those of {len(records)}"
            raise SchemaError(f"{name}, items: expected the labels of {len(items)} items, found {found}")
        for position, (item, record) in enumerate(zip(items, records, strict=True)):
            failure = failures.get((name, position))
            if failure is not None:
                tallies.append(failure)
                continue
            _, _, predicted, correct = record
            if predicted is None or correct is None:
                raise SchemaError(f"{name}, items, {position}: no labels, and no reason why the query failed")
            tallies.append(_checked_tally(card, item, parsing, predicted, correct, where=f"{name}, items, {position}"))
    return tallies


def _checked_tally(
    card: TaskCard, item: Item, parsing: str, predicted: Sequence[str], correct: Sequence[str], where: str
) -> Tally:
    """Return the tally of an item with the true labels of the data, and with the recorded predicted and correct ones.

    Args:
        card: Card of the data set.
        item: The item.
        parsing: How its reply was parsed.
        predicted: The recorded predicted labels.
        correct: The recorded correct labels. Of a text with several labels they follow from the others. Of entities and
            relations they do not, because what a label is about is not recorded.
        where: Where the record is, for the message.

    Raises:
        SchemaError: A correct label is not a true one, or more labels are correct than predicted.
    """
    without_prediction, _ = tally_prediction(card, "", item, parsing)
    gold = without_prediction.gold
    if item.kind == "labels":
        return Tally(gold, tuple(predicted), tuple(label for label in gold if label in predicted))
    correct_but_not_true = Counter(correct) - Counter(gold)
    if correct_but_not_true or len(correct) > len(predicted):
        raise SchemaError(
            f"{where}: the labels {list(correct)} are recorded as correct, but the true ones are {list(gold)}, and the "
            f"predicted ones {list(predicted)}"
        )
    return Tally(gold, tuple(predicted), tuple(correct))
