"""The effective length: up to which length of the context does a model keep most of its score?

It is the largest length whose score is at least a share (by default 85 %) of that of the shortest context. With s_0 the
score of the shortest context, s_j that of a longer one, and r the share, a length is kept if the *surplus*
``s_j - r * s_0`` is not negative.

**Bounds.** The surplus of each length has confidence limits (Wilson limits of the scores, combined by MOVER over the
same test items). The lower bound is the largest length whose lower limit is not negative. It is too high only if the
limit of some length that is not kept is wrong, so the limits are those of all lengths together (Bonferroni). The upper
bound is the largest length whose upper limit is not negative. It is too low only if the limit of one length is wrong,
the true effective length, so these limits need no correction. Each bound has half of the error probability.

Sources:
    Modarressi et al. 2025, "NoLiMa: Long-Context Evaluation Beyond Literal Matching", arXiv:2502.05167 (the share).
    The bounds are measured by ``tests/performance/long_icl_known_models.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from StaICC.long_icl.condition_scores import METHOD, ScoredItems, Tallies

DEFAULT_SHARE = 0.85
_SAME_LABELS = " same labels"
"""The end of the names of the conditions of ``length`` that show further demonstrations."""


@dataclass(frozen=True, slots=True)
class EffectiveLength:
    """The effective length of a model on a data set."""

    share: float
    """The share of the score of the shortest context that counts as kept."""
    length: str | None
    """The condition with the effective length; ``None`` if it is undefined."""
    low: str | None
    """The condition with the lower bound; ``None`` without intervals."""
    high: str | None
    """The condition with the upper bound. If it is the longest one, longer ones may be kept, too."""
    note: str
    """Why the effective length is undefined; empty if it is defined."""


def length_conditions_of(experiment: str, conditions: Sequence[str]) -> list[str]:
    """Return the conditions that differ in the length of the context alone, the shortest one first.

    Args:
        experiment: The experiment, whose conditions are lengths.
        conditions: Its conditions, in order.
    """
    if experiment == "length":
        return [name for name in conditions if not name.endswith(_SAME_LABELS)]
    return list(conditions)


def effective_length(
    scored_items: ScoredItems,
    tallies: Mapping[str, Tallies],
    guessing_score: float,
    share: float,
    level: float | None,
) -> dict[str, Any]:
    """Return the effective length with its bounds, as a plain record (:class:`EffectiveLength`).

    Args:
        scored_items: The test items.
        tallies: The tallies of each length, the shortest one first; empty if a query failed. Such a length is left out.
        guessing_score: The score of the better guess without a model. A score that is not above it can be kept at any
            length, so the effective length is undefined then.
        share: The share of the score of the shortest context that counts as kept.
        level: Level of the bounds; ``None`` for none.
    """
    return asdict(_effective_length(scored_items, tallies, guessing_score, share, level))


def _effective_length(
    scored_items: ScoredItems,
    tallies: Mapping[str, Tallies],
    guessing_score: float,
    share: float,
    level: float | None,
) -> EffectiveLength:
    names = list(tallies)
    shortest = names[0]
    scored_names = [name for name in names if tallies[name]]
    note = ""
    if shortest not in scored_names:
        note = f"{shortest} has no score"
    elif len(scored_names) < 2:
        note = "there is no longer context with a score"
    elif not _is_above(scored_items, tallies[shortest], guessing_score, level):
        note = f"the score of {shortest} is not above guessing ({guessing_score:.4f})"
    if note:
        return EffectiveLength(share, None, None, None, note)

    longer_names = scored_names[1:]
    weights = [1.0, -share]
    length = shortest
    low = shortest
    high = shortest
    for name in longer_names:
        conditions = [tallies[name], tallies[shortest]]
        surplus = _score(scored_items, conditions[0]) - share * _score(scored_items, conditions[1])
        if surplus >= 0.0:
            length = name
        if level is None:
            continue
        corrected_level = 1.0 - (1.0 - level) / len(longer_names)
        lowest = scored_items.lowest_sum(conditions, weights, corrected_level)
        highest = scored_items.highest_sum(conditions, weights, level)
        if lowest is not None and lowest.value - lowest.below >= 0.0:
            low = name
        if highest is None or highest.value + highest.above >= 0.0:
            high = name
    if level is None:
        return EffectiveLength(share, length, None, None, "")
    return EffectiveLength(share, length, low, high, "")


def _is_above(scored_items: ScoredItems, tallies: Tallies, guessing_score: float, level: float | None) -> bool:
    """Return whether a score is above that of guessing: by its lower limit, or without a level by its value."""
    if level is None:
        return _score(scored_items, tallies) > guessing_score
    term = scored_items.lowest_sum([tallies], [1.0], level)
    if term is None:
        return False
    return term.interval(level, METHOD).low > guessing_score


def _score(scored_items: ScoredItems, tallies: Tallies) -> float:
    """Return the score of a condition; 0 if all replies are missing."""
    return scored_items.score(tallies) or 0.0
