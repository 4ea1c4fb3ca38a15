"""What the conditions of an experiment show: scores, differences, tests."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any

from StaICC.long_icl.cards import TaskCard
from StaICC.long_icl.condition_scores import METHOD, complete_tallies, lacks_replies, mcnemar_p_value, score_part
from StaICC.long_icl.contexts import Contexts
from StaICC.long_icl.experiments import Experiment
from StaICC.long_icl.position_test import by_part
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.reference_tokens import reference_tokens, to_bytes
from StaICC.long_icl.scoring import Tally, score_tallies, value_of
from StaICC.metrics.intervals import MetricTerm, combine, of_difference
from StaICC.metrics.paired_tests import holm


def analyse(
    experiment: Experiment,
    card: TaskCard,
    items: Sequence[Item],
    contexts: Mapping[str, Contexts],
    tallies: Mapping[str, Sequence[Tally | None]],
    level: float | None,
) -> dict[str, Any]:
    """Return the scores of an experiment, their differences, and the p-value of the test of positions.

    The scores of ``position`` are not those of its conditions, but of the parts of the context: a part has each test
    item once, in the condition in which the demonstrations of its true label are in this part.

    Args:
        experiment: The experiment.
        card: Card of the data set.
        items: The test items.
        contexts: Those of each condition.
        tallies: For each condition one for each test item; empty if a query failed.
        level: Of the intervals; ``None`` for none.

    Returns:
        For each condition (``position``: each part of the context) ``items``, ``demonstrations``, its coverage
        (:meth:`Contexts.coverage`), ``reference_tokens`` (of the longest context), ``all_contexts`` (reference tokens
        of all distinct contexts together), ``score``, ``score_shown`` and ``score_not_shown`` (of the test items whose
        label the context shows, and of the others), and ``difference`` from the condition that ``compared`` names, the
        first one by default (``position``: from the mean of the other parts). Scores are those of the items with a
        reply, and so are differences; what is said of differences, their limits and p-values, holds whatever the
        missing replies would have been: they count at their worst for each direction. Scores and differences are
        followed by ``low`` and ``high``; ``band_low`` and ``band_high`` are limits of the scores of all conditions
        together (Bonferroni).
        ``p_value`` is that of an exact McNemar test of the difference, corrected by Holm for all differences; that of
        the test of positions is ``None`` if a reply is missing.
    """
    by_position, rows, labels = experiment.name == "position", [i.row for i in items], [i.gold[0] for i in items]
    units: Sequence[Hashable] = labels if by_position else rows
    gold = [(label,) for label in labels]
    analysis: dict[str, Any] = {"name": experiment.name, "conditions": {}}
    if by_position:
        tallies, analysis["p_value"] = by_part(experiment, card, labels, list(tallies.values()))
    band = None if level is None else 1.0 - (1.0 - level) / len(tallies)

    def part_of(of_condition: Sequence[Tally | None], at: float | None) -> MetricTerm | None:
        return score_part(card, of_condition, at or 0.95, units) if of_condition else None

    def limits(key: str, part: MetricTerm | None, at: float | None, least: float) -> dict[str, float | None]:
        interval = None if part is None or at is None else part.interval(at, METHOD, least)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        return {f"{key}_low": low, f"{key}_high": high}

    def score_of(of_condition: Iterable[Tally | None]) -> float | None:
        return value_of(score_tallies(card.scoring, of_condition))

    def difference_of(pairs: Sequence[Sequence[Tally | None]]) -> MetricTerm | None:
        """Return the difference of the first condition from the mean of the others; ``None`` if one has no reply."""
        terms = [of_difference(term, level or 0.95) for own_items in pairs if (term := part_of(own_items, level))]
        if not terms or len(terms) < len(pairs):
            return None
        others = len(pairs) - 1
        return combine(terms, [1.0, *[-1.0 / others] * others])

    def with_missing(pairs: Sequence[Sequence[Tally | None]], first_correct: bool) -> list[list[Tally]]:
        """Return conditions with missing replies of the first one correct and of the others wrong, or the reverse."""
        first, *others = pairs
        completed = [complete_tallies(other, labels, not first_correct) for other in others]
        return [complete_tallies(first, labels, first_correct), *completed]

    conditions: dict[str, dict[str, Any]] = {}
    for (name, of_condition), own in zip(tallies.items(), contexts.values(), strict=True):
        candidates = tallies if by_position else [own.compared or next(iter(tallies))]
        others = [other for other in candidates if other != name]
        part = part_of(of_condition, level)
        pairs = [tallies.get(other, ()) for other in (name, *others)]
        if not others or not all(pairs):
            pairs = []
        change = difference_of(pairs)
        lowest = highest = change
        if any(map(lacks_replies, pairs)):
            lowest, highest = difference_of(with_missing(pairs, False)), difference_of(with_missing(pairs, True))
        by_row = dict(zip(rows, zip(*pairs, strict=True), strict=True)) if pairs else {}  # HELMET may test a row twice
        texts = (own.context_of(place).text for place in range(1 if own.shared else len(labels)))
        sizes = {hashlib.sha256(to_bytes(text)).digest(): reference_tokens(text) for text in texts}
        shown = [is_shown for (is_shown,) in own.shows(gold)]
        conditions[name] = {
            "items": sum(tally is not None for tally in of_condition),
            "demonstrations": own.demonstrations,
            **own.coverage(gold),
            "reference_tokens": max(sizes.values()),
            "all_contexts": sum(sizes.values()),
            "score": score_of(of_condition) if part is None else part.value,  # one unit: without an interval
            **limits("score", part, level, 0.0),
            **limits("band", part_of(of_condition, band), band, 0.0),
            "score_shown": score_of(compress(of_condition, shown)),
            "score_not_shown": score_of(compress(of_condition, map(not_, shown))),
            "difference": change and change.value,
            "difference_low": limits("difference", lowest, level, -1.0)["difference_low"],
            "difference_high": limits("difference", highest, level, -1.0)["difference_high"],
            "p_value": mcnemar_p_value(*zip(*by_row.values(), strict=True)) if pairs and not by_position else None,
        }
    tested = [row for row in conditions.values() if row["p_value"] is not None]
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["p_value"] = adjusted
    compared = {name: contexts[name].compared for name in tallies if name in contexts and contexts[name].compared}
    return analysis | {"compared": compared, "conditions": conditions}
