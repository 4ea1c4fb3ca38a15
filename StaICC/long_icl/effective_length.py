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
    length: str | None = None
    """The condition with the effective length; ``None`` if it is undefined."""
    low: str | None = None
    """The condition with the lower bound; ``None`` without intervals."""
    high: str | None = None
    """The condition with the upper bound. If it is the longest one, longer ones may be kept, too."""
    note: str = ""
    """Why the effective length is undefined; empty if it is defined."""


def length_conditions_of(experiment: str, conditions: Sequence[str]) -> list[str]:
    """Return the conditions whose scores give the effective length, the one with the shortest context first.

    These are all conditions of an experiment, but for the experiment ``length``. It has two conditions of each length,
    of which one differs from the first condition in the length alone.

    Args:
        experiment: The name of an experiment whose conditions are lengths.
        conditions: Its conditions, in order.
    """
    if experiment != "length":
        return list(conditions)
    return [name for name in conditions if not name.endswith(_SAME_LABELS)]


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
    note = _why_undefined(scored_items, tallies, guessing_score, level)
    if note:
        return asdict(EffectiveLength(share, note=note))
    lengths = _ScoredLengths.of_tallies(scored_items, tallies, share)
    length = lengths.longest_kept()
    if level is None:
        return asdict(EffectiveLength(share, length))
    low = lengths.lower_bound(level)
    high = lengths.upper_bound(level)
    return asdict(EffectiveLength(share, length, low, high))


def _why_undefined(
    scored_items: ScoredItems, tallies: Mapping[str, Tallies], guessing_score: float, level: float | None
) -> str:
    """Return why the effective length is undefined; empty if it is defined.

    Arguments as for :func:`effective_length`.
    """
    names = list(tallies)
    shortest = names[0]
    if not tallies[shortest]:
        return f"{shortest} has no score"
    if not any(tallies[name] for name in names[1:]):
        return "there is no longer context with a score"
    if not _is_above(scored_items, tallies[shortest], guessing_score, level):
        return f"the score of {shortest} is not above guessing ({guessing_score:.4f})"
    return ""


@dataclass(frozen=True, slots=True)
class _ScoredLengths:
    """The lengths that have a score, of which the shortest one is the reference of the surplus."""

    scored_items: ScoredItems
    share: float
    """The share r of the score of the shortest context that counts as kept."""
    shortest: str
    """The condition with the shortest context."""
    shortest_tallies: Tallies
    longer: dict[str, Tallies]
    """The tallies of each longer length, in rising order."""

    @classmethod
    def of_tallies(cls, scored_items: ScoredItems, tallies: Mapping[str, Tallies], share: float) -> _ScoredLengths:
        """Return the lengths that have tallies. The first one must have some."""
        scored_names = [name for name in tallies if tallies[name]]
        shortest = scored_names[0]
        longer = {name: tallies[name] for name in scored_names[1:]}
        return cls(scored_items, share, shortest, tallies[shortest], longer)

    def longest_kept(self) -> str:
        """Return the largest length whose surplus is not negative."""
        shortest_score = _score(self.scored_items, self.shortest_tallies)
        longest_kept = self.shortest
        for name, tallies in self.longer.items():
            surplus = _score(self.scored_items, tallies) - self.share * shortest_score
            if surplus >= 0.0:
                longest_kept = name
        return longest_kept

    def lower_bound(self, level: float) -> str:
        """Return the largest length for which the lower limit of the surplus is not negative.

        The limits hold for all lengths together (Bonferroni). A length without limits is not shown to be kept.
        """
        corrected_level = 1.0 - (1.0 - level) / len(self.longer)
        lower_bound = self.shortest
        for name, tallies in self.longer.items():
            conditions = [tallies, self.shortest_tallies]
            surplus = self.scored_items.lowest_sum(conditions, [1.0, -self.share], corrected_level)
            if surplus is not None and surplus.value - surplus.below >= 0.0:
                lower_bound = name
        return lower_bound

    def upper_bound(self, level: float) -> str:
        """Return the largest length for which the upper limit of the surplus is not negative.

        A length without limits is not shown to be lost, so it can be the bound.
        """
        upper_bound = self.shortest
        for name, tallies in self.longer.items():
            conditions = [tallies, self.shortest_tallies]
            surplus = self.scored_items.highest_sum(conditions, [1.0, -self.share], level)
            if surplus is None or surplus.value + surplus.above >= 0.0:
                upper_bound = name
        return upper_bound


def _is_above(scored_items: ScoredItems, tallies: Tallies, guessing_score: float, level: float | None) -> bool:
    """Return whether a score is above that of guessing.

    The lower limit of the interval that results show for the score must be above it, with missing replies as wrong
    ones. Without a level, the score itself must be above it.

    Args:
        scored_items: The test items.
        tallies: The tallies of the condition with the score.
        guessing_score: The score of guessing.
        level: Level of the interval; ``None`` for none.
    """
    if level is None:
        return _score(scored_items, tallies) > guessing_score
    score = scored_items.lowest_score_with_limits(tallies, level)
    if score is None:
        return False
    return score.interval(level, METHOD).low > guessing_score


def _score(scored_items: ScoredItems, tallies: Tallies) -> float:
    """Return the score of a condition; 0 if all replies are missing."""
    score = scored_items.score(tallies)
    if score is None:
        return 0.0
    return score
