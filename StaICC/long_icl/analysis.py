"""What the conditions of an experiment show: scores, differences, tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
    """Return the scores of an experiment, their differences, and the p-value of the test of positions.

    The scores of ``position`` are not those of its conditions, but of the parts of the context: a part has each test
    item once, in the condition in which the demonstrations of its true label are in this part.

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
        - ``compared``: for conditions whose difference is not that from the first condition, the other one.
        - ``nearest_gold``: for each condition the scores by the distance of the nearest gold demonstration
          (:mod:`StaICC.long_icl.nearest_gold`).
        - ``effective_length`` (experiments with lengths only): :mod:`StaICC.long_icl.effective_length`.
        - ``order_spread`` (``order`` only): :mod:`StaICC.long_icl.order_spread`.
        - ``p_value`` (``position`` only): of the test of positions; ``None`` if a reply is missing.
        - ``conditions``: for each condition (``position``: each part of the context) what it shows
          (:func:`_shown_record`), its scores (:func:`_score_record`), its difference from the reference
          (:func:`_difference_record`), and ``p_value``, that of McNemar's test of the difference, corrected for all
          differences (Holm).
    """
    gold = [item.gold for item in items]
    rows = [item.row for item in items]
    by_row = ScoredItems(card, gold, units=rows)
    nearest_gold = {}
    for name, condition_contexts in contexts.items():
        nearest_gold[name] = nearest_gold_bins(by_row, items, condition_contexts, tallies[name], level)
    analysis: dict[str, Any] = {"name": experiment.name, "nearest_gold": nearest_gold}
    if experiment.has_lengths:
        analysis["effective_length"] = _effective_length(experiment, by_row, items, tallies, level)
    if experiment.name == "order":
        analysis["order_spread"] = order_spread(by_row, tallies, level)

    if experiment.name == "position":
        (part_count,) = experiment.levels
        labels = [item.gold[0] for item in items]  # the experiment is for items with one label
        blocks = blocks_of(card.labels, part_count, experiment.seed)
        orders = list(tallies.values())
        analysis["p_value"] = p_value_of_positions(labels, orders, blocks)
        tallies = tallies_by_part(labels, orders, blocks)
        # Another sample would draw other labels: the design assigns the parts to labels, not to test items.
        scored_items = ScoredItems(card, gold, units=labels)
    else:
        scored_items = by_row

    conditions: dict[str, dict[str, Any]] = {}
    for (name, condition_tallies), condition_contexts in zip(tallies.items(), contexts.values(), strict=True):
        references = _references(experiment, name, condition_contexts, list(tallies))
        reference_tallies = [tallies.get(reference, ()) for reference in references]
        conditions[name] = {
            **_shown_record(condition_contexts, gold),
            **_score_record(scored_items, condition_tallies, condition_contexts, level, condition_count=len(tallies)),
            **_difference_record(scored_items, condition_tallies, reference_tallies, level),
            "p_value": None,
        }
        # A failed condition has no tallies. The first condition has no reference.
        has_difference = bool(reference_tallies) and all([condition_tallies, *reference_tallies])
        # McNemar's test is about correct and wrong items, which items with several labels are only in part.
        has_test = experiment.name != "position" and not card.structured
        if has_difference and has_test:
            conditions[name]["p_value"] = _p_value_by_row(rows, condition_tallies, reference_tallies[0])
    _correct_p_values(conditions)

    analysis["compared"] = {}
    for name in conditions:
        if name in contexts and contexts[name].compared:
            analysis["compared"][name] = contexts[name].compared
    analysis["conditions"] = conditions
    return analysis


def _effective_length(
    experiment: ConditionDesign,
    scored_items: ScoredItems,
    items: Sequence[Item],
    tallies: Mapping[str, Tallies],
    level: float | None,
) -> dict[str, Any]:
    """Return the effective length of an experiment whose conditions are lengths."""
    uniform, majority, _ = guessing_scores(scored_items.card, items)
    lengths = length_conditions_of(experiment.name, list(tallies))
    return effective_length(
        scored_items,
        {name: tallies[name] for name in lengths},
        guessing_score=max(uniform or 0.0, majority or 0.0),
        share=experiment.share,
        level=level,
    )


def _references(experiment: ConditionDesign, name: str, contexts: Contexts, names: Sequence[str]) -> list[str]:
    """Return the conditions from whose mean the difference of a condition is computed; none for the first condition.

    Args:
        experiment: The experiment.
        name: The condition (``position``: the part of the context).
        contexts: Its contexts.
        names: All conditions, in order.
    """
    if experiment.name == "position":
        return [other for other in names if other != name]
    reference = contexts.compared or names[0]
    if reference == name:
        return []
    return [reference]


def _shown_record(contexts: Contexts, gold: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """Return what the contexts of a condition show.

    Returns:
        ``demonstrations``, the coverage (:meth:`Contexts.coverage`), ``reference_tokens`` of the longest context, and
        ``all_contexts``, the reference tokens of all distinct contexts together.
    """
    context_count = 1 if contexts.shared else len(gold)
    sizes: dict[bytes, int] = {}  # by the digest of the context, since long contexts are not kept
    for item_index in range(context_count):
        text = contexts.context_of(item_index).text
        sizes[hashlib.sha256(to_bytes(text)).digest()] = tokens_of_bytes(byte_size(text))
    return {
        "demonstrations": contexts.demonstrations,
        **contexts.coverage(gold),
        "reference_tokens": max(sizes.values()),
        "all_contexts": sum(sizes.values()),
    }


def _score_record(
    scored_items: ScoredItems, tallies: Tallies, contexts: Contexts, level: float | None, condition_count: int
) -> dict[str, Any]:
    """Return the scores of a condition: of the items that have a reply.

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

    term = scored_items.term(tallies, level or DEFAULT_LEVEL)
    # A score of fewer than two units has no interval.
    score = scored_items.score(tallies) if term is None else term.value
    band_level = None
    band_term = None
    if level is not None:
        band_level = 1.0 - (1.0 - level) / condition_count
        band_term = scored_items.term(tallies, band_level)
    low, high = _limits(term, level, lowest=0.0)
    band_low, band_high = _limits(band_term, band_level, lowest=0.0)
    return {
        "items": sum(tally is not None for tally in tallies),
        "score": score,
        "score_low": low,
        "score_high": high,
        "band_low": band_low,
        "band_high": band_high,
        "score_shown": scored_items.score(shown_tallies),
        "score_not_shown": scored_items.score(other_tallies),
    }


def _difference_record(
    scored_items: ScoredItems, tallies: Tallies, references: Sequence[Tallies], level: float | None
) -> dict[str, float | None]:
    """Return the difference of a condition from the mean of others; ``None`` values if one of them has no score.

    The difference is that of the scores, which are those of the items with a reply. Its limits hold whatever the
    missing replies would have been: they count at their worst for each direction.

    Returns:
        ``difference``, ``difference_low`` and ``difference_high``.
    """
    conditions = [tallies, *references]
    if not references or not all(conditions):
        return {"difference": None, "difference_low": None, "difference_high": None}
    weights = [1.0] + [-1.0 / len(references)] * len(references)
    used_level = level or DEFAULT_LEVEL
    difference = scored_items.weighted_sum(conditions, weights, used_level)
    low, _ = _limits(scored_items.lowest_sum(conditions, weights, used_level), level, lowest=-1.0)
    _, high = _limits(scored_items.highest_sum(conditions, weights, used_level), level, lowest=-1.0)
    return {
        "difference": None if difference is None else difference.value,
        "difference_low": low,
        "difference_high": high,
    }


def _limits(term: MetricTerm | None, level: float | None, lowest: float) -> tuple[float | None, float | None]:
    """Return the limits of a score or a difference; ``None`` without intervals.

    Args:
        term: The score.
        level: Level of the limits; ``None`` for none.
        lowest: The lowest possible value: 0 for a score, -1 for a difference.
    """
    if term is None or level is None:
        return None, None
    interval = term.interval(level, METHOD, lowest)
    return interval.low, interval.high


def _p_value_by_row(rows: Sequence[int], tallies: Tallies, reference: Tallies) -> float:
    """Return the p-value of McNemar's test of two conditions, in which each row counts once.

    HELMET may test a row twice.
    """
    pairs = dict(zip(rows, zip(tallies, reference, strict=True), strict=True))
    return mcnemar_p_value([first for first, _ in pairs.values()], [second for _, second in pairs.values()])


def _correct_p_values(conditions: Mapping[str, dict[str, Any]]) -> None:
    """Replace the p-values of all differences by those that are corrected for their number (Holm)."""
    tested = [record for record in conditions.values() if record["p_value"] is not None]
    adjusted = holm([record["p_value"] for record in tested])
    for record, p_value in zip(tested, adjusted, strict=True):
        record["p_value"] = p_value
