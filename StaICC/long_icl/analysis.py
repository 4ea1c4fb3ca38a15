"""What the conditions of an experiment show: scores, differences, tests."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.condition_design import ConditionDesign
from StaICC.long_icl.condition_scores import (
    DEFAULT_LEVEL,
    METHOD,
    ScoredItems,
    Tallies,
    mcnemar_p_value,
)
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.designs.orders import blocks_of
from StaICC.long_icl.effective_length import effective_length, length_conditions_of
from StaICC.long_icl.nearest_gold import nearest_gold_bins
from StaICC.long_icl.order_spread import order_spread
from StaICC.long_icl.position_test import p_value_of_positions, tallies_by_part
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.reference_tokens import byte_size, to_bytes, tokens_of_bytes
from StaICC.long_icl.scoring import guessing_scores
from StaICC.metrics.intervals import MetricTerm
from StaICC.metrics.paired_tests import holm


def analyse(
    experiment: ConditionDesign,
    card: TaskCard,
    items: Sequence[Item],
    contexts: Mapping[str, Contexts],
    tallies: Mapping[str, Tallies],
    level: float | None,
) -> dict[str, Any]:
    """Return the scores of an experiment, their differences, and their tests.

    Args:
        experiment: The experiment.
        card: Card of the data set.
        items: The test items.
        contexts: The contexts of each condition.
        tallies: For each condition one for each test item; empty if a query failed.
        level: Level of the intervals; ``None`` for none.

    Returns:
        A record with these entries:

        - ``name``: the experiment.
        - ``nearest_gold``: for each condition the scores by the distance of the nearest gold demonstration
          (:mod:`StaICC.long_icl.nearest_gold`).
        - ``effective_length`` (experiments with lengths only): :mod:`StaICC.long_icl.effective_length`.
        - ``order_spread`` (``order`` only): :mod:`StaICC.long_icl.order_spread`.
        - ``p_value`` (``position`` only): of the test of positions; ``None`` if a reply is missing.
        - ``compared``: the condition from which the difference of a condition is computed, for conditions where it is
          not the first one.
        - ``conditions``: the record of each condition (:func:`_condition_records`); of ``position``, the record of each
          part of the context (:func:`_part_records`).
    """
    # HELMET may test a row twice, so the units are rows.
    scored_items = ScoredItems(card, gold=[item.gold for item in items], units=[item.row for item in items])
    nearest_gold = {}
    for name, condition_contexts in contexts.items():
        nearest_gold[name] = nearest_gold_bins(scored_items, items, condition_contexts, tallies[name], level)
    analysis: dict[str, Any] = {"name": experiment.name, "nearest_gold": nearest_gold}
    if experiment.has_lengths:
        analysis["effective_length"] = _effective_length_record(experiment, scored_items, items, tallies, level)
    if experiment.name == "order":
        analysis["order_spread"] = order_spread(scored_items, tallies, level)
    if experiment.name == "position":
        design = _PositionDesign.of_items(experiment, card, items)
        orders = list(tallies.values())
        analysis["p_value"] = p_value_of_positions(design.labels, orders, design.blocks)
        analysis["compared"] = {}
        analysis["conditions"] = _part_records(design, card, contexts, orders, level)
    else:
        analysis["compared"] = _unusual_references(contexts)
        analysis["conditions"] = _condition_records(scored_items, contexts, tallies, level)
    return analysis


def _effective_length_record(
    experiment: ConditionDesign,
    scored_items: ScoredItems,
    items: Sequence[Item],
    tallies: Mapping[str, Tallies],
    level: float | None,
) -> dict[str, Any]:
    """Return the effective length of an experiment whose conditions are lengths.

    Args:
        experiment: The experiment, with the share of the score that counts as kept.
        scored_items: The test items with their true labels.
        items: The same test items.
        tallies: The tallies of each condition; empty if a query failed.
        level: Level of the bounds; ``None`` for none.
    """
    guessing = guessing_scores(scored_items.card, items)
    # Both scores are None if a guess is undefined. A score above 0 is above guessing then.
    guessing_score = max(guessing.uniform or 0.0, guessing.majority or 0.0)
    lengths = length_conditions_of(experiment.name, list(tallies))
    return effective_length(
        scored_items,
        {name: tallies[name] for name in lengths},
        guessing_score=guessing_score,
        share=experiment.share,
        level=level,
    )


# -- conditions


def _condition_records(
    scored_items: ScoredItems, contexts: Mapping[str, Contexts], tallies: Mapping[str, Tallies], level: float | None
) -> dict[str, dict[str, Any]]:
    """Return the record of each condition.

    Args:
        scored_items: The test items.
        contexts: The contexts of each condition.
        tallies: The tallies of each condition; empty if a query failed.
        level: Level of the intervals; ``None`` for none.

    Returns:
        For each condition what it shows (:func:`_shown_record`), its scores (:func:`_score_record`), its difference
        (:func:`_difference_record`), and ``p_value``, that of McNemar's test of the difference, corrected for all
        differences (Holm). The p-value is ``None`` without a difference, and for items with several labels.
    """
    first_condition = next(iter(tallies))
    records: dict[str, dict[str, Any]] = {}
    for name, condition_tallies in tallies.items():
        condition_contexts = contexts[name]
        reference = condition_contexts.compared or first_condition
        references: list[Tallies] = []
        if reference != name:  # the first condition has no reference
            references.append(tallies.get(reference, ()))  # a reference that the data cannot fill has no tallies
        record = _shown_record(condition_contexts, scored_items.gold)
        record |= _score_record(
            scored_items, condition_tallies, condition_contexts, level, condition_count=len(tallies)
        )
        record |= _difference_record(scored_items, condition_tallies, references, level)
        record["p_value"] = None
        # McNemar's test needs items that are correct or wrong. One with several labels can be correct in part.
        can_be_tested = not scored_items.card.structured
        if can_be_tested and _has_difference(condition_tallies, references):
            record["p_value"] = _p_value_by_row(scored_items.units, condition_tallies, references[0])
        records[name] = record
    _correct_p_values(records)
    return records


def _unusual_references(contexts: Mapping[str, Contexts]) -> dict[str, str]:
    """Return the reference of each condition whose difference is not that from the first condition."""
    references = {}
    for name, condition_contexts in contexts.items():
        if condition_contexts.compared:
            references[name] = condition_contexts.compared
    return references


# -- parts of the context


@dataclass(frozen=True, slots=True)
class _PositionDesign:
    """The design of the experiment ``position``, whose items have one label each."""

    labels: list[str]
    """The true label of each test item."""
    blocks: dict[str, int]
    """The block of each label (:func:`~StaICC.long_icl.designs.orders.blocks_of`)."""

    @classmethod
    def of_items(cls, experiment: ConditionDesign, card: TaskCard, items: Sequence[Item]) -> _PositionDesign:
        """Return the design of an experiment with these test items."""
        (part_count,) = experiment.levels
        return cls([item.gold[0] for item in items], blocks_of(card.labels, part_count, experiment.seed))


def _part_records(
    design: _PositionDesign,
    card: TaskCard,
    contexts: Mapping[str, Contexts],
    orders: Sequence[Tallies],
    level: float | None,
) -> dict[str, dict[str, Any]]:
    """Return the record of each part of the context.

    A part has each test item once, in the order in which the demonstrations of its true label are in this part.

    Args:
        design: The design of the experiment.
        card: Card of the data set.
        contexts: The contexts of each order. There are as many orders as parts, and all show the same demonstrations.
        orders: The tallies of each order; empty if a query failed.
        level: Level of the intervals; ``None`` for none.

    Returns:
        Records as of :func:`_condition_records`. The difference of a part is that from the mean of the other parts. The
        entry ``p_value`` is ``None``, because one test is of all parts together.
    """
    # Another sample would draw other labels: the design assigns the parts to labels, not to test items.
    gold = [(label,) for label in design.labels]
    scored_items = ScoredItems(card, gold, units=design.labels)
    tallies_of_parts = tallies_by_part(design.labels, orders, design.blocks)
    records: dict[str, dict[str, Any]] = {}
    for (part, tallies), order_contexts in zip(tallies_of_parts.items(), contexts.values(), strict=True):
        other_parts = []
        for other_part, other_tallies in tallies_of_parts.items():
            if other_part != part:
                other_parts.append(other_tallies)
        record = _shown_record(order_contexts, gold)
        record |= _score_record(scored_items, tallies, order_contexts, level, condition_count=len(tallies_of_parts))
        record |= _difference_record(scored_items, tallies, other_parts, level)
        record["p_value"] = None
        records[part] = record
    return records


# -- entries of a record


def _shown_record(contexts: Contexts, gold: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return what the contexts of a condition show.

    Args:
        contexts: The contexts of the condition.
        gold: The true labels of each test item.

    Returns:
        ``demonstrations``, the coverage (:meth:`Contexts.coverage`), ``reference_tokens`` of the longest context, and
        ``all_contexts``, the reference tokens of all distinct contexts together.
    """
    context_count = len(gold)
    if contexts.shared:
        context_count = 1
    # The sizes of distinct contexts, by their digests, because long contexts together would need too much memory.
    sizes: dict[bytes, int] = {}
    for item_index in range(context_count):
        text = contexts.context_of(item_index).text
        digest = hashlib.sha256(to_bytes(text)).digest()
        sizes[digest] = tokens_of_bytes(byte_size(text))
    return {
        "demonstrations": contexts.demonstrations,
        **contexts.coverage(gold),
        "reference_tokens": max(sizes.values()),
        "all_contexts": sum(sizes.values()),
    }


def _score_record(
    scored_items: ScoredItems, tallies: Tallies, contexts: Contexts, level: float | None, condition_count: int
) -> dict[str, Any]:
    """Return the scores of a condition. They are those of the items with a reply.

    Args:
        scored_items: The test items.
        tallies: The tallies of the condition; empty if a query failed.
        contexts: The contexts of the condition.
        level: Level of the intervals; ``None`` for none.
        condition_count: Number of conditions, for the limits of all scores together.

    Returns:
        ``items``, the number of items with a reply; ``score``, with ``score_low`` and ``score_high``; ``band_low`` and
        ``band_high``, the limits of the scores of all conditions together (Bonferroni); ``score_shown`` and
        ``score_not_shown``, the scores of the items whose labels the context shows, and of the others.
    """
    shown_tallies = []
    other_tallies = []
    is_shown = contexts.shows(scored_items.gold)
    for tally, labels_are_shown in zip(tallies, is_shown, strict=False):
        if all(labels_are_shown):
            shown_tallies.append(tally)
        else:
            other_tallies.append(tally)

    low, high = _score_limits(scored_items, tallies, level)
    band_level = None
    if level is not None:
        band_level = 1.0 - (1.0 - level) / condition_count
    band_low, band_high = _score_limits(scored_items, tallies, band_level)
    return {
        "items": sum(tally is not None for tally in tallies),
        "score": _score(scored_items, tallies),
        "score_low": low,
        "score_high": high,
        "band_low": band_low,
        "band_high": band_high,
        "score_shown": scored_items.score(shown_tallies),
        "score_not_shown": scored_items.score(other_tallies),
    }


def _score(scored_items: ScoredItems, tallies: Tallies) -> float | None:
    """Return the score of a condition; ``None`` if it failed."""
    term = scored_items.score_with_limits(tallies, DEFAULT_LEVEL)
    if term is None:  # a score of fewer than two units has no term
        return scored_items.score(tallies)
    return term.value


def _score_limits(
    scored_items: ScoredItems, tallies: Tallies, level: float | None
) -> tuple[float | None, float | None]:
    """Return the limits of the score of a condition; ``None`` without a level, or with fewer than two units."""
    if level is None:
        return None, None
    return _limits(scored_items.score_with_limits(tallies, level), level, lowest=0.0)


def _has_difference(tallies: Tallies, references: Sequence[Tallies]) -> bool:
    """Return whether a condition has references, and neither the condition nor one of them failed."""
    if not references:
        return False
    return all([tallies, *references])


def _difference_record(
    scored_items: ScoredItems, tallies: Tallies, references: Sequence[Tallies], level: float | None
) -> dict[str, float | None]:
    """Return the difference of a condition from the mean of its references, with its limits.

    The difference is that of the scores, which are those of the items with a reply. Its limits hold whatever the
    missing replies would have been: they count at their worst for each direction.

    Args:
        scored_items: The test items.
        tallies: The tallies of the condition.
        references: The tallies of each reference.
        level: Level of the limits; ``None`` for none.

    Returns:
        ``difference``, ``difference_low`` and ``difference_high``; ``None`` values without references, or if the
        condition or a reference failed.
    """
    if not _has_difference(tallies, references):
        return {"difference": None, "difference_low": None, "difference_high": None}
    conditions = [tallies, *references]
    reference_weight = -1.0 / len(references)
    weights = [1.0] + [reference_weight] * len(references)
    term = scored_items.weighted_sum(conditions, weights, level or DEFAULT_LEVEL)
    difference = None
    if term is not None:
        difference = term.value
    if level is None:
        return {"difference": difference, "difference_low": None, "difference_high": None}
    low, _ = _limits(scored_items.lowest_sum(conditions, weights, level), level, lowest=-1.0)
    _, high = _limits(scored_items.highest_sum(conditions, weights, level), level, lowest=-1.0)
    return {"difference": difference, "difference_low": low, "difference_high": high}


def _limits(term: MetricTerm | None, level: float, lowest: float) -> tuple[float | None, float | None]:
    """Return the limits of a score or a difference; ``None`` if it is undefined.

    Args:
        term: The score, or the difference.
        level: Level of the limits.
        lowest: The lowest possible value: 0 for a score, -1 for a difference.
    """
    if term is None:
        return None, None
    interval = term.interval(level, METHOD, lowest)
    return interval.low, interval.high


def _p_value_by_row(rows: Sequence[Hashable], tallies: Tallies, reference: Tallies) -> float:
    """Return the p-value of McNemar's test of a condition and its reference, in which each row counts once.

    Args:
        rows: The row of each test item. Items of the same row are equal.
        tallies: The tallies of the condition.
        reference: The tallies of the reference.
    """
    tally_of_row = dict(zip(rows, tallies, strict=True))
    reference_of_row = dict(zip(rows, reference, strict=True))
    return mcnemar_p_value(list(tally_of_row.values()), list(reference_of_row.values()))


def _correct_p_values(records: Mapping[str, dict[str, Any]]) -> None:
    """Replace the p-values of all differences by those that are corrected for their number (Holm)."""
    tested = [record for record in records.values() if record["p_value"] is not None]
    corrected = holm([record["p_value"] for record in tested])
    for record, p_value in zip(tested, corrected, strict=True):
        record["p_value"] = p_value
