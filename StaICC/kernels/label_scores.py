"""What a kernel returns in addition to probabilities: scores, label mass, label issues and counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from StaICC.errors import OutputError
from StaICC.kernels.huggingface.label_tokens import LabelIssue


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the last run of a kernel did.

    Attributes:
        sequences: Token sequences that were scored.
        tokens: Their tokens, all added up.
        distinct: Distinct prefixes among them: positions that must be computed.
        computed: Positions that were computed, without padding.
        padding: Positions of padding.
        calls: Calls of the model.
        halvings: How often memory ran out and the budget was halved.
        dropped: For each prompt that was too long and shortened, how many demonstrations it lost, by its number.
    """

    sequences: int
    tokens: int
    distinct: int
    computed: int
    padding: int
    calls: int
    halvings: int
    dropped: dict[int, int]


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Scores of the labels for a list of prompts.

    Attributes:
        probabilities: For each prompt, a probability for each label, in the order of the label space; a row sums to 1.
        log_scores: The scores before they were normalised: logits of the deciding tokens (``"last"``, ``"first"``), or
            log-probabilities in nats (``"full"``, noisy channel).
        label_mass: For each prompt, the total probability of all the labels, in [0, 1]; None
            where it was not computed, and for the noisy channel, which scores texts.
        issues: What can spoil the scores.
        report: What was computed.
    """

    probabilities: list[list[float]]
    log_scores: list[list[float]]
    label_mass: list[float] | None
    issues: tuple[LabelIssue, ...]
    report: RunReport


def softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities proportional to the exponentials of the scores.

    Example:
        >>> softmax([1.0, 1.0])
        [0.5, 0.5]
    """
    top = max(scores)
    if not math.isfinite(top):
        raise OutputError(f"the model's scores {list(scores)} are not finite; use a wider number type, such as float32")
    parts = [math.exp(score - top) for score in scores]
    total = math.fsum(parts)
    return [part / total for part in parts]
