"""Calibrations that divide by a mean prediction: contextual, domain and batch calibration.

They read label probabilities only and need the standard library only, so they work with any inference function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Inference
from StaICC.metrics import Kind, normalise, softmax
from StaICC.metrics.normalise import numeric_rows
from StaICC.prefabricate_inference.calibration import Calibration
from StaICC.prefabricate_inference.calibration_samples import (
    CalibrationSet,
    PromptMaker,
    check_variant,
    check_whole,
    content_free_prompts,
    domain_prompts,
)
from StaICC.prefabricate_inference.features import Feature, check_answered, features_of

__all__ = ["ContextualCalibration", "DomainCalibration", "batch_calibration", "label_rows"]

RELEASED_FLOOR = 1e-5
"""What 0.1.1 adds to the sum of the predictions before it divides by their number."""

Read = Literal["probabilities", "logits"]


def label_rows(answers: Sequence[Any], width: int, what: str) -> list[list[float]]:
    """Read rows of label probabilities.

    Args:
        answers: What a model answered to each prompt.
        width: How many labels there are.
        what: What was asked, for the message, such as ``"calibration prompt"``.

    Returns:
        One row of numbers for each prompt.

    Raises:
        OutputError: An answer is an exception, a label, of another length, or not finite.
    """
    kept = check_answered(answers, what)
    for number, row in enumerate(kept):
        if isinstance(row, (int, str)) or (hasattr(row, "ndim") and not row.ndim):
            raise OutputError(
                f"{what} {number} was answered by a label ({row!r}); a calibration needs a probability for each label"
            )
    rows = numeric_rows(kept)
    if rows and len(rows[0]) != width:
        raise OutputError(f"{what} 0 has {len(rows[0])} numbers, expected {width}, one for each label")
    return rows


def _probabilities(rows: Sequence[Sequence[float]], kind: Kind) -> tuple[list[list[float]], Read]:
    """Rows as probabilities, and what they were taken for."""
    found = normalise(rows, kind)
    if found.probabilities is None or found.kind == "ambiguous":
        raise OutputError(f"the model's answers can be read neither as probabilities nor as logits: {found.reason}")
    return [list(row) for row in found.probabilities], found.kind


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


def _divided(row: Sequence[float], prior: Sequence[float]) -> list[float]:
    """Probabilities proportional to ``row / prior``; a label whose prior is 0 (and so its row's entry) stays at 0."""
    ratios = [value / base if base else 0.0 for value, base in zip(row, prior, strict=True)]
    total = math.fsum(ratios)
    return [ratio / total for ratio in ratios]


class _PriorCalibration(Calibration):
    """Learns the mean prediction on prompts that should favour no label."""

    feature: ClassVar[Feature] = "probabilities"

    def __init__(self, label_space: Sequence[str], *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.prior: list[float] = []
        self._kind: Read = "probabilities"

    def _learn_prior(self, feedforward: Inference, prompts: Sequence[Any]) -> None:
        answers = features_of(feedforward, prompts, self.label_space, "probabilities")
        rows = label_rows(answers, self.n_label, "calibration prompt")
        if self.variant == "0.1.1":
            self.prior = [(math.fsum(column) + RELEASED_FLOOR) / len(rows) for column in zip(*rows, strict=True)]
        else:
            rows, self._kind = _probabilities(rows, "auto")
            self.prior = _mean(rows)
            for label, value in zip(self.label_space, self.prior, strict=True):
                if value <= 0:
                    raise OutputError(
                        f"the model gave the label {label!r} probability 0 on all {len(rows)} calibration prompts; "
                        "there is nothing to divide by"
                    )
        self.training_prompts = len(prompts)
        self.trained = True

    def apply(self, features: Any) -> list[list[float]]:
        """Calibrate label probabilities, one row for each prompt."""
        self.check_trained()
        rows = label_rows(features, self.n_label, "prompt")
        if self.variant == "0.1.1":
            return [softmax([value / base for value, base in zip(row, self.prior, strict=True)]) for row in rows]
        return [self._correct(row) for row in _probabilities(rows, self._kind)[0]]

    def _correct(self, row: Sequence[float]) -> list[float]:
        raise NotImplementedError

    def _learned(self) -> dict[str, Any]:
        return {"prior": self.prior, "kind": self._kind}

    def _restore(self, learned: Mapping[str, Any]) -> None:
        self.prior = [float(value) for value in learned["prior"]]
        self._kind = learned["kind"]
        if len(self.prior) != self.n_label or self._kind not in ("probabilities", "logits"):
            raise ValueError("the prior does not fit the label space")


class ContextualCalibration(_PriorCalibration):
    r"""Contextual calibration (Zhao, Wallace, Feng, Klein and Singh 2021, "Calibrate Before Use", section 5).

    The model is asked about nothing; its mean prediction :math:`\hat p_{cf}` is its bias. Predictions become
    :math:`\operatorname{softmax}(W p + b)` with :math:`W = \operatorname{diag}(\hat p_{cf})^{-1}`, :math:`b = 0`.

    Budget: ``calibration_number`` prompts. Needs label probabilities.

    ``variant="paper"``: the content-free texts are "N/A", "[MASK]" and "" in turn. Their demonstrations are drawn from
    the calibration set (the paper keeps those of the query; here each query has its own). ``variant="0.1.1"``: empty
    texts only, demonstrations with repetition, 1e-5 added to the sum of the predictions.

    Args:
        label_space: The labels.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "contextual_calibration"

    def train(
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        k: int = 4,
    ) -> None:
        """Learn the mean prediction on content-free prompts.

        Args:
            default_prompt_maker: ``experimentor.prompt_former.write_prompt_from_dataline``.
            feedforward: Gives the label probabilities of a prompt.
            calibration_set: ``experimentor.calibration_set()``.
            calibration_number: How many prompts.
            k: Demonstrations per prompt.

        Raises:
            ArgumentError: A number is unfit, or the set is empty.
            OutputError: The model's answer cannot be used (NaN, a label instead of probabilities), or it never gives
                a label any probability.
        """
        prompts = content_free_prompts(default_prompt_maker, calibration_set, calibration_number, k, self.variant)
        self._learn_prior(feedforward, prompts)

    def _correct(self, row: Sequence[float]) -> list[float]:
        return softmax([value / base for value, base in zip(row, self.prior, strict=True)])


class DomainCalibration(_PriorCalibration):
    r"""Domain-context calibration (Fei et al. 2023, "Mitigating Label Biases for In-context Learning").

    As contextual calibration, but asked about random words of the domain. Predictions become
    :math:`p_y / \hat p_y`, divided by their sum.

    Budget: ``calibration_number`` prompts of ``sample_length`` words. Needs label probabilities.

    ``variant="paper"``: words are drawn from all words of the calibration set. ``variant="0.1.1"``: a row, then a word
    of it, never the last; demonstrations with repetition; 1e-5 added to the sum; softmax of the quotients.

    Args:
        label_space: The labels.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "domain_calibration"

    def train(
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        sample_length: int = 64,
        k: int = 4,
    ) -> None:
        """Learn the mean prediction on prompts about random words.

        Args:
            default_prompt_maker: ``experimentor.prompt_former.write_prompt_from_dataline``.
            feedforward: Gives the label probabilities of a prompt.
            calibration_set: ``experimentor.calibration_set()``.
            calibration_number: How many prompts.
            sample_length: Words in each query text.
            k: Demonstrations per prompt.

        Raises:
            ArgumentError: A number is unfit, or the set is empty.
            OutputError: The model's answer cannot be used.
        """
        self._learn_prior(
            feedforward,
            domain_prompts(default_prompt_maker, calibration_set, calibration_number, k, sample_length, self.variant),
        )

    def _correct(self, row: Sequence[float]) -> list[float]:
        return _divided(row, self.prior)


def batch_calibration(
    label_space_probs: Sequence[Sequence[float]], batch_size: int = 128, *, variant: str = "paper"
) -> list[list[float]]:
    r"""Batch calibration (Zhou et al. 2024, "Batch Calibration"): divide by the batch's mean prediction.

    Predictions become :math:`p_{iy} / \bar p_y`, divided by their sum, with :math:`\bar p` the mean over the batch: a
    subtraction of logarithms. Needs label probabilities and no training, but all predictions at once.

    ``variant="paper"``: batches in order; a last batch that is not full takes the mean of the last ``batch_size``
    predictions, since the mean of a few says nothing. A label that has probability 0 throughout a batch keeps it.
    ``variant="0.1.1"``: :math:`\operatorname{softmax}(p_i - \bar p)` of the numbers as they stand; a last batch that is
    not full is a batch of its own.

    Args:
        label_space_probs: One row for each prompt, one number for each label.
        batch_size: Predictions in a batch.
        variant: ``"paper"`` or ``"0.1.1"``.

    Returns:
        One row of calibrated probabilities for each prompt.

    Raises:
        ArgumentError: The batch size is no whole number of at least 1, or (``"paper"``) there is a single prediction or
            a batch size of 1: divided by itself it would be uniform, whatever it was.
        OutputError: A row cannot be read.

    Example:
        >>> found = batch_calibration([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
        >>> [round(11 * value, 6) for value in found[0]]  # 0.8 / 0.6 : 0.2 / 0.4 = 8 : 3
        [8.0, 3.0]
    """
    size = check_whole("batch_size", batch_size, 1)
    width = len(label_space_probs[0]) if len(label_space_probs) and hasattr(label_space_probs[0], "__len__") else 1
    rows = label_rows(label_space_probs, width, "prediction")
    if check_variant(variant) == "0.1.1":
        means = [_mean(rows[start : start + size]) for start in range(0, len(rows), size)]
        return [
            softmax([value - base for value, base in zip(row, means[number // size], strict=True)])
            for number, row in enumerate(rows)
        ]
    if not rows:
        return []
    if min(size, len(rows)) < 2 and width > 1:
        raise ArgumentError(
            f"batch calibration over batches of {min(size, len(rows))} makes every prediction uniform; it needs two "
            "predictions at least, and better a hundred"
        )
    probabilities, _ = _probabilities(rows, "auto")
    found: list[list[float]] = []
    for start in range(0, len(rows), size):
        end = min(start + size, len(rows))
        mean = _mean(probabilities[max(0, end - size) : end])
        found += [_divided(row, mean) for row in probabilities[start:end]]
    return found
