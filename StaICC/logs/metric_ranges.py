"""The metrics of other harnesses whose values for a sample are known: range, direction, how they are averaged.

A test needs the lowest and the highest value that a sample can have. A metric that is not listed here, and whose log
does not state its range either, is untested until the user states the range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """What a value of a metric for one sample can be."""

    name: str
    low: float
    high: float
    higher_is_better: bool
    meaning: str
    """What the value of a sample is."""


_SHARES = (
    ("acc", "1 if the answer is correct"),
    ("acc_norm", "1 if the answer is correct, with log-probabilities divided by the length of the answer"),
    ("acc_bytes", "1 if the answer is correct, with log-probabilities divided by the bytes of the answer"),
    ("acc_mutual_info", "1 if the answer is correct, by pointwise mutual information"),
    ("accuracy", "1 if the answer is correct"),
    ("correct", "1 if the answer is correct"),
    ("exact_match", "1 if the reply is the target"),
    ("em", "1 if the reply is the target"),
    ("exact", "1 if the reply is the target"),
    ("quasi_exact_match", "1 if the reply is the target, after normalisation (HELM)"),
    ("prefix_exact_match", "1 if the reply begins with the target (HELM)"),
    ("quasi_prefix_exact_match", "1 if the reply begins with the target, after normalisation (HELM)"),
    ("contains", "1 if the reply contains the target"),
    ("prompt_level_strict_acc", "1 if all instructions are followed (IFEval)"),
    ("prompt_level_loose_acc", "1 if all instructions are followed, in the loose reading (IFEval)"),
    ("pass@1", "the share of the samples of a program that pass"),
    ("pass_at_1", "the share of the samples of a program that pass"),
    ("bleu_acc", "1 if the best true answer is nearer than the best false one (TruthfulQA)"),
    ("rouge1_acc", "1 if the best true answer is nearer than the best false one (TruthfulQA)"),
    ("rouge2_acc", "1 if the best true answer is nearer than the best false one (TruthfulQA)"),
    ("rougeL_acc", "1 if the best true answer is nearer than the best false one (TruthfulQA)"),
    ("f1", "the overlap of the tokens of reply and target"),
    ("f1_score", "the overlap of the tokens of reply and target (HELM)"),
    ("rouge1", "the overlap of single tokens of reply and target"),
    ("rouge2", "the overlap of pairs of tokens of reply and target"),
    ("rougeL", "the longest common subsequence of reply and target"),
    ("rougeLsum", "the longest common subsequence of reply and target, by sentence"),
    ("rouge_1", "the overlap of single tokens of reply and target (HELM)"),
    ("rouge_2", "the overlap of pairs of tokens of reply and target (HELM)"),
    ("rouge_l", "the longest common subsequence of reply and target (HELM)"),
    ("bleu_1", "BLEU of one reply with single tokens (HELM)"),
    ("bleu_4", "BLEU of one reply with up to four tokens (HELM)"),
)
"""Metrics with values from 0 to 1, of which higher ones are better."""

KNOWN_METRICS: Mapping[str, KnownMetric] = {
    name: KnownMetric(name, low=0.0, high=1.0, higher_is_better=True, meaning=meaning) for name, meaning in _SHARES
}
"""The known metrics by name."""

AGGREGATED: Mapping[str, str] = {
    "bleu": "BLEU is computed from all replies together",
    "chrf": "chrF is computed from all replies together",
    "ter": "TER is computed from all replies together",
    "mcc": "the correlation of Matthews is computed from all predictions together",
    "matthews_correlation": "the correlation of Matthews is computed from all predictions together",
    "perplexity": "the perplexity is the exponential of a mean over all samples",
    "word_perplexity": "the perplexity is the exponential of a mean over all words",
    "byte_perplexity": "the perplexity is the exponential of a mean over all bytes",
    "bits_per_byte": "bits per byte are a mean over all bytes, not over samples",
    "bypass": "it is no metric: the run predicted only",
}
"""Metrics whose value is no mean over samples, with the reason."""


def bare_name(metric: str) -> str:
    """Return the name of a metric without its filter, such as ``exact_match`` of ``exact_match,strict-match``."""
    name, _, _ = metric.partition(",")
    return name


def known_metric(metric: str) -> KnownMetric | None:
    """Return what is known about a metric, with or without a filter in its name; ``None`` if it is not known."""
    return KNOWN_METRICS.get(bare_name(metric))


def why_no_mean(metric: str) -> str | None:
    """Return why the value of a metric is no mean over samples; ``None`` if it may be one."""
    return AGGREGATED.get(bare_name(metric))
