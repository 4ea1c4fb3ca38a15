"""Label-scoring rules: which tokens of a label decide its score, how their log-probabilities become one number.

A causal language model scores tokens, not labels. A rule either chooses one token of each label, whose logit after the
prompt is the score, or scores all tokens of a label in the context of the prompt. A normalisation then makes the score
of a label from the log-probabilities of all its tokens.

To add a rule, write its name in :data:`LabelScoring` and its record in :data:`LABEL_RULES`; to add a normalisation, in
:data:`LabelNormalisation` and :data:`LABEL_NORMALISATIONS`. It is then known to all kernels that read prompts as
tokens: ``transformers``, vLLM and llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Tokens = tuple[int, ...]

LabelScoring = Literal["last", "first", "full"]
"""The names of the rules, the values of the option ``label_scoring``."""


@dataclass(frozen=True, slots=True)
class LabelRule:
    """Which tokens of a label decide its score."""

    choose_token: Callable[[Tokens], int] | None
    """Returns the token that decides, given the tokens of a label (at least one). ``None`` if all tokens of a label
    decide; they are scored in the context of the prompt."""

    @property
    def scores_all_tokens(self) -> bool:
        """Whether all tokens of a label are scored, in the context of the prompt."""
        return self.choose_token is None

    def deciding_tokens(self, label_tokens: Tokens) -> Tokens:
        """Return the tokens of a label that decide its score, of at least one."""
        if self.choose_token is None:
            return label_tokens
        return (self.choose_token(label_tokens),)


LABEL_RULES: dict[LabelScoring, LabelRule] = {
    # StaICC 0.1.1 scores a label by the last token of the label's own tokenization.
    "last": LabelRule(choose_token=lambda label_tokens: label_tokens[-1]),
    "first": LabelRule(choose_token=lambda label_tokens: label_tokens[0]),
    "full": LabelRule(choose_token=None),
}


LabelNormalisation = Literal["sum", "mean"]
"""The names of the normalisations, the values of the option ``label_normalisation``."""


@dataclass(frozen=True, slots=True)
class NormalisationRule:
    """How the log-probabilities of all tokens of a label become its score."""

    score: Callable[[str, Sequence[float]], float]
    """Returns the score of a label, given the label and the log-probabilities of its tokens in nats (at least one). The
    probabilities of the labels are the softmax of their scores."""

    is_log_probability: bool
    """Whether the score is the log-probability of the label, so that methods may use it as one."""


LABEL_NORMALISATIONS: dict[LabelNormalisation, NormalisationRule] = {
    "sum": NormalisationRule(score=lambda label, token_logs: math.fsum(token_logs), is_log_probability=True),
    "mean": NormalisationRule(
        score=lambda label, token_logs: math.fsum(token_logs) / len(token_logs), is_log_probability=False
    ),
}
