"""Calibrations of label probabilities: divided by a mean prediction, or changed by a fitted map.

The first are contextual, domain and batch calibration, and DC-PMI; the second are linear calibration (Abbas et al.
2024, LinC) and temperature scaling. Temperature scaling is that of Guo, Pleiss, Sun and Weinberger (2017).
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from os.path import commonprefix
from typing import Any, ClassVar

from StaICC.arguments import validate_integer
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.contract import Inference
from StaICC.inference.replies import Failure
from StaICC.methods.calibration import base
from StaICC.methods.features import apply_present
from StaICC.methods.specification import MethodData, MethodSpec, PromptMaker, Steps, check_variant
from StaICC.metrics.classification import softmax
from StaICC.prompting.prompt_text import question_only
from StaICC.prompting.pseudo_queries import domain_queries
from StaICC.prompting.stable_random import StableRandom
from StaICC.prompting.views import SubsetView


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Options of contextual calibration."""

    shared_contexts: bool = False
    """Variant paper: one prior from calibration_number prompts, not one for each query; fewer requests."""


@dataclass(frozen=True, slots=True)
class DomainOptions(ContextOptions):
    """Options of domain calibration."""

    sample_length: int | None = None
    """Words in a text of random words; none: the average of the data set, or 64 with shared contexts."""
    texts: int = 20
    """Variant paper: random texts for each query."""


@dataclass(frozen=True, slots=True)
class PremiseOptions:
    """Options of DC-PMI."""

    premise: str | None = None
    """The domain premise; none: the text between query and label."""


CONTENT_FREE = ("N/A", "[MASK]", "")
"""The three content-free texts of Zhao et al. (2021)."""

RELEASED_FLOOR = 1e-5
"""0.1.1 adds this to the sum of the predictions before dividing by their number."""


def divided(row: Sequence[float], prior: Sequence[float]) -> list[float]:
    """Probabilities proportional to ``row / prior``; a label whose prior is 0 (and so its row's entry) stays at 0."""
    ratios = [value / base if base else 0.0 for value, base in zip(row, prior, strict=True)]
    total = math.fsum(ratios)
    return [ratio / total for ratio in ratios]


class PriorCalibration(base.FittedCalibration):
    """Learns the mean prediction on prompts that should favour no label."""

    state: ClassVar[Mapping[str, Any]] = {"prior": (base.LABELS,), "kind": base.KINDS}
    prior: Sequence[float] = ()

    @property
    def raw(self) -> bool:  # type: ignore[override]
        """Whether rows are left as they are."""
        return self.variant == "0.1.1"

    def queries(self, rows: base.CalibrationSet, **options: Any) -> Iterator[Sequence[str]]:
        """Return the texts of the prompts, without end."""
        raise NotImplementedError

    def samples(
        self, make_prompt: PromptMaker, calibration_set: base.CalibrationSet | None, number: int, k: int, **options: Any
    ) -> base.LabelledPrompts:
        """Return prompts with demonstrations of the calibration set, drawn with repetition in ``"0.1.1"``."""
        rows, number, k = base.checked_set(calibration_set, number, k)
        generator, size = StableRandom(), len(rows)
        prompts = []
        for query in islice(self.queries(rows, **options), number):
            places = [generator.integer(0, size) for _ in range(k)] if self.raw else generator.sample_indexes(size, k)
            prompts.append(make_prompt([rows[place] for place in places], list(query)))
        return base.LabelledPrompts(prompts, [])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        if self.raw:
            self.prior = [(math.fsum(column) + RELEASED_FLOOR) / len(rows) for column in zip(*rows, strict=True)]
            return
        self.prior = base.mean_row(rows)
        for label, value in zip(self.label_space, self.prior, strict=True):
            if value <= 0:
                got = f"the model gave the label {label!r} probability 0 on all {len(rows)} calibration prompts"
                raise OutputError(f"{got}; there is nothing to divide by")

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        correct = ContextualCalibration.correct if self.raw else self.correct
        return [correct(row, self.prior) for row in rows]

    @staticmethod
    def correct(row: Sequence[float], prior: Sequence[float]) -> list[float]:
        """Correct one prediction by a prior; both are probabilities."""
        return divided(row, prior)


class ContextualCalibration(PriorCalibration):
    r"""Contextual calibration (Zhao, Wallace, Feng, Klein and Singh 2021, "Calibrate Before Use", section 5).

    The mean prediction on content-free queries, :math:`\hat p_{cf}`, is the bias of the model. Predictions become
    :math:`\operatorname{softmax}(W p + b)` with :math:`W = \operatorname{diag}(\hat p_{cf})^{-1}`, :math:`b = 0`.

    This class learns one prior for all queries, from ``calibration_number`` content-free prompts with demonstrations of
    the calibration set; :func:`calibrated_in_context` takes the prior of each query's own demonstrations, as the paper
    does. Needs label probabilities.

    ``variant="0.1.1"``: empty texts only (otherwise "N/A", "[MASK]" and "" in turn), demonstrations with repetition,
    1e-5 added to the sum of the predictions.

    Args:
        label_space: The labels.
        variant: See :data:`~StaICC.methods.specification.Variant`.
    """

    name: ClassVar[str] = "contextual_calibration"

    def queries(self, rows: base.CalibrationSet, **options: Any) -> Iterator[Sequence[str]]:
        """Return the texts of :data:`CONTENT_FREE` in turn; in ``"0.1.1"`` only the empty text."""
        columns = len(rows[0][0])
        return ((text,) * columns for text in itertools.cycle([""] if self.raw else CONTENT_FREE))

    @staticmethod
    def correct(row: Sequence[float], prior: Sequence[float]) -> list[float]:
        """Return the softmax of the quotients."""
        return softmax([value / mean for value, mean in zip(row, prior, strict=True)])


class DomainCalibration(PriorCalibration):
    r"""Domain-context calibration (Fei et al. 2023, "Mitigating Label Biases for In-context Learning").

    As contextual calibration, with queries of random words of the domain. Predictions become
    :math:`p_y / \hat p_y`, divided by their sum.

    This class learns one prior for all queries, from ``calibration_number`` prompts with demonstrations of the
    calibration set and ``sample_length`` words of it; :func:`calibrated_in_context` takes the prior of each query's own
    demonstrations, as the paper does. Needs label probabilities.

    ``variant="0.1.1"``: a row, then a word of it, never the last; demonstrations with repetition; 1e-5 added to the
    sum; softmax of the quotients.

    Args:
        label_space: The labels.
        variant: See :data:`~StaICC.methods.specification.Variant`.
    """

    name: ClassVar[str] = "domain_calibration"

    def train(  # type: ignore[override]  # the order of arguments is that of 0.1.1
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference,
        calibration_set: base.CalibrationSet | None = None,
        calibration_number: int = 128,
        sample_length: int = 64,
        k: int = 4,
    ) -> None:
        """As :meth:`Calibration.train`, with ``sample_length`` words in each query text."""
        super().train(
            default_prompt_maker, feedforward, calibration_set, calibration_number, k, sample_length=sample_length
        )

    def queries(self, rows: base.CalibrationSet, **options: Any) -> Iterator[Sequence[str]]:
        """Return texts of random words, each occurrence in the set alike.

        ``"0.1.1"`` draws a row, then a word of it, and never the last row or a row's last word.
        """
        length = options.get("sample_length")
        length = validate_integer("sample_length", 64 if length is None else length, 1)
        texts = [rows[place][0] for place in range(len(rows))]
        if self.raw:
            plain: Any = [Row(tuple(columns), 0) for columns in texts]
            return domain_queries(SubsetView("the calibration set", plain, range(len(plain)), []), length)
        return base.random_texts(texts, [length] * len(texts[0]))


def calibrated_in_context(
    rows: Sequence[Any],
    free: Sequence[Sequence[Any]],
    correct: Callable[..., list[float]],
    width: int,
    logarithms: bool,
) -> list[list[float] | Failure]:
    r"""Calibrate each prediction by the predictions on other texts after the same demonstrations.

    The prior is :math:`\hat p_y = \sum_t P(y \mid t) / \sum_{t, y'} P(y' \mid t)` over the texts :math:`t`, with the
    probabilities of the labels' tokens over the vocabulary, as in the authors' code of contextual calibration.

    Args:
        rows: The prediction for each query: probabilities or logits.
        free: For each text, its prediction for each query.
        correct: Corrects one prediction by a prior.
        width: How many labels there are.
        logarithms: Whether ``free`` has log-probabilities of the labels over the vocabulary. Without them, the
            predictions on the texts are normalised before they are averaged.

    Returns:
        One row for each query; a failure where a prediction is missing, or a label has probability 0 on all texts.

    Raises:
        OutputError: A prediction is not a row of numbers.
    """

    def calibrate(columns: Sequence[Any]) -> list[Any]:
        parts = [base.label_rows(part, width, "prediction") for part in zip(*columns, strict=True)]
        if logarithms:
            queries, texts = base.read_probabilities(parts[0], "auto")[0], parts[1:]
        else:
            flat = base.read_probabilities([row for part in parts for row in part], "auto")[0]
            queries, *texts = [flat[start : start + len(columns)] for start in range(0, len(flat), len(columns))]
        calibrated: list[Any] = []
        for row, *others in zip(queries, *texts, strict=True):
            if logarithms:
                top = max(map(max, others))
                others = [[math.exp(value - top) for value in other] for other in others]
            sums = [math.fsum(column) for column in zip(*others, strict=True)]
            if min(sums) > 0:
                calibrated.append(correct(row, [value / math.fsum(sums) for value in sums]))
            else:
                reason = "a label has probability 0 on all content-free texts; there is nothing to divide by"
                calibrated.append(Failure(reason))
        return calibrated

    columns = zip(rows, *free, strict=True)
    answered = [next((row for row in column if isinstance(row, Failure)), column) for column in columns]
    return apply_present(answered, calibrate)


class DomainPMI(PriorCalibration):
    r"""Domain-conditional PMI (Holtzman et al. 2021, "Surface Form Competition").

    Predictions become :math:`P(y \mid x) / P(y \mid x_{domain})`, divided by their sum. :math:`x_{domain}` is the
    domain premise: the text between query and label, without query and demonstrations. Budget: one prompt.
    """

    name: ClassVar[str] = "dc_pmi"

    def samples(
        self, make_prompt: PromptMaker, calibration_set: base.CalibrationSet | None, number: int, k: int, **options: Any
    ) -> base.LabelledPrompts:
        """Return the domain premise, or the option ``premise``."""
        premise = options.get("premise")
        if premise is None:
            columns = len(calibration_set[0][0]) if calibration_set is not None and len(calibration_set) else 1
            prompts = [make_prompt([], [text] * columns)[::-1] for text in ("0", "?")]
            premise = commonprefix(prompts)[::-1]  # noqa: RUF071 - characters are meant
        if not (isinstance(premise, str) and premise.strip()):  # in the noisy channel, prompts are lists
            raise ArgumentError("no text between query and label for the domain premise. Give the option premise")
        return base.LabelledPrompts([question_only(premise)], [])


def one_prior(options: ContextOptions, variant: str) -> bool:
    """Return whether one prior calibrates all queries."""
    return variant != "paper" or options.shared_contexts


def context_method(kind: type[PriorCalibration], title: str, options: type[Any]) -> MethodSpec:
    """Return the record of a calibration by texts after each query's own demonstrations, or by one prior for all."""
    shared = base.calibration_method(kind, title, options, trains=one_prior)

    def in_context(data: MethodData) -> Steps:
        if one_prior(data.options, data.variant):
            return (yield from shared.steps(data))
        experimentor, given = data.experimentor, data.options
        texts = [(text,) * experimentor.text_count for text in CONTENT_FREE]
        if isinstance(given, DomainOptions):
            texts = base.domain_texts(experimentor.calibration_set(), given.texts, given.sample_length)
        logarithms = "log_probabilities" in data.provides and not experimentor.is_noisy
        feature = "log_probabilities" if logarithms else "probabilities"
        if not logarithms:
            data.warnings.append(
                "log-probabilities of the labels over the vocabulary are not known here, so the predictions on "
                "content-free texts are normalised before they are averaged"
            )
        rows, *free = yield [data.queries(), *(data.queries(feature, experimentor.with_query(text)) for text in texts)]
        return calibrated_in_context(rows, free, kind.correct, len(experimentor.get_label_space()), logarithms)

    return replace(shared, steps=in_context)


CONTEXTUAL_CALIBRATION = context_method(ContextualCalibration, "Contextual calibration", ContextOptions)
DOMAIN_CALIBRATION = context_method(DomainCalibration, "Domain calibration", DomainOptions)
DC_PMI = base.calibration_method(DomainPMI, "DC-PMI", PremiseOptions, trains=False)


# -- batch calibration


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of batch calibration."""

    batch_size: int = 128
    """Predictions in a batch."""


def batch_calibration(
    label_space_probs: Sequence[Sequence[float]], batch_size: int = 128, *, variant: str = "paper"
) -> list[list[float]]:
    r"""Batch calibration (Zhou et al. 2024, "Batch Calibration"): divide by the batch's mean prediction.

    Predictions become :math:`p_{iy} / \bar p_y`, divided by their sum, with :math:`\bar p` the mean over the batch: a
    subtraction of logarithms. Needs label probabilities and no training, but all predictions at once.

    Batches are in order; a last batch that is not full takes the mean of the last ``batch_size``
    predictions, since the mean of a few says nothing. A label that has probability 0 throughout a batch keeps it.
    ``variant="0.1.1"``: :math:`\operatorname{softmax}(p_i - \bar p)` of the unchanged scores; a last batch that is
    not full is a batch of its own.

    Args:
        label_space_probs: One row for each prompt, one number for each label.
        batch_size: Predictions in a batch.
        variant: See :data:`~StaICC.methods.specification.Variant`.

    Returns:
        One row of calibrated probabilities for each prompt.

    Raises:
        ArgumentError: The batch size is no integer of at least 1, or (not in ``"0.1.1"``) there is a single prediction
            or a batch size of 1: divided by itself it would be uniform, whatever it was.
        OutputError: A row cannot be read.

    Example:
        >>> found = batch_calibration([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
        >>> [round(11 * value, 6) for value in found[0]]  # 0.8 / 0.6 : 0.2 / 0.4 = 8 : 3
        [8.0, 3.0]
    """
    size = validate_integer("batch_size", batch_size, 1)
    rows, released = base.label_rows(label_space_probs, None, "prediction"), check_variant(variant) == "0.1.1"
    if not released and rows:
        if min(size, len(rows)) < 2 and len(rows[0]) > 1:
            got = f"batch calibration over batches of {min(size, len(rows))} makes every prediction uniform"
            raise ArgumentError(f"{got}; it needs two predictions at least, and better a hundred")
        rows, _ = base.read_probabilities(rows, "auto")
    predictions: list[list[float]] = []
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        last = start if released else min(start, max(0, len(rows) - size))  # a full batch, if there is one
        mean = base.mean_row(rows[last : last + size])
        predictions += [softmax([*map(operator.sub, row, mean)]) if released else divided(row, mean) for row in batch]
    return predictions


def calibrate_conditions(data: MethodData) -> Steps:
    """Calibrate the predictions of each condition."""
    calibrate = partial(batch_calibration, batch_size=data.options.batch_size, variant=data.variant)
    (rows,) = yield [data.queries()]
    return data.by_condition(rows, [calibrate])


BATCH_CALIBRATION = MethodSpec("batch_calibration", "Batch calibration", calibrate_conditions, options=BatchOptions)


RATES = (3e-4, 3e-3, 0.015, 0.05, 0.15)
"""Step sizes that are tried; the authors' scripts have values from 0.0003 to 0.15, one for each data set."""
EPOCHS = (15, 50)
"""Numbers of epochs that are tried, those of the authors' scripts."""
FOLDS = 5


@dataclass(frozen=True, slots=True)
class LinearOptions:
    """Options of linear calibration."""

    learning_rate: float | None = None
    """Step size of the gradient descent; none: chosen by cross-validation on the calibration samples."""
    epochs: int | None = None
    """How often each calibration sample is used; none: 15 or 50, chosen likewise."""


Probe = Sequence[Sequence[float]]
"""A linear map of label probabilities to scores: for each label its weights, the bias last."""


def _scores(probe: Probe, row: Sequence[float]) -> list[float]:
    return [math.fsum(map(operator.mul, line, [*row, 1.0])) for line in probe]


def _descent(probe: Probe, data: Sequence[tuple[list[float], int]], rate: float) -> Iterator[Probe]:
    """Yield the map after each epoch of stochastic gradient descent."""
    lines, generator = [*probe], StableRandom()
    while True:
        for place in generator.sample_indexes(len(data), len(data)):
            row, label = data[place]
            for i, share in enumerate(softmax(_scores(lines, row))):
                step = rate * (share - (i == label))  # the gradient of the cross-entropy
                lines[i] = [weight - step * value for weight, value in zip(lines[i], [*row, 1.0], strict=True)]
        yield [*lines]


class LinearCalibration(base.FittedCalibration):
    r"""Linear calibration (Abbas et al. 2024, "Enhancing In-context Learning via Linear Probe Calibration", LinC).

    Predictions become :math:`\operatorname{softmax}(A p + b)`. As in the authors' code, :math:`A` begins as
    :math:`\operatorname{diag}(\hat p_{cf})^{-1}` of contextual calibration and :math:`b` as 0, and both are trained by
    stochastic gradient descent on the cross-entropy of the labelled prompts, one row at a time, shuffled in every
    epoch. Budget: ``calibration_number`` labelled and as many content-free prompts.

    The authors choose step size and epochs for each data set. Here those of :data:`RATES` and :data:`EPOCHS` are taken
    that give the labels of left-out rows the highest likelihood, in cross-validation over :data:`FOLDS` parts.

    Args:
        label_space: The labels.
        learning_rate: Step size; ``None`` to choose it.
        epochs: How often each row is used; ``None`` to choose it.
        variant: See :data:`~StaICC.methods.specification.Variant`.
    """

    name: ClassVar[str] = "linear_calibration"
    options: ClassVar[tuple[str, ...]] = ("learning_rate", "epochs")
    state: ClassVar[Mapping[str, Any]] = {
        "weights": (base.LABELS, base.LABELS),
        "bias": (base.LABELS,),
        "kind": base.KINDS,
    }

    def __init__(
        self,
        label_space: Sequence[str],
        learning_rate: float | None = None,
        epochs: int | None = None,
        *,
        variant: str = "paper",
    ) -> None:
        super().__init__(label_space, variant=variant)
        if learning_rate is not None and not (isinstance(learning_rate, (int, float)) and 0 < learning_rate < math.inf):
            raise ArgumentError(f"learning_rate: got {learning_rate!r}, expected a positive number")
        self.learning_rate = None if learning_rate is None else float(learning_rate)
        self.epochs = None if epochs is None else validate_integer("epochs", epochs, 0)
        self.weights: list[list[float]] = []
        self.bias: list[float] = []

    def samples(self, *drawn: Any, **options: Any) -> base.LabelledPrompts:
        """Return content-free prompts (label -1) and labelled prompts."""
        free, _ = ContextualCalibration(self.label_space, variant=self.variant).samples(*drawn)
        prompts, labels = super().samples(*drawn)
        return base.LabelledPrompts([*free, *prompts], [*[-1] * len(free), *labels])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        width = self.n_label
        free = [row for row, label in zip(rows, labels, strict=True) if label < 0] or [[1 / width] * width]
        data = [(row, label) for row, label in zip(rows, labels, strict=True) if label >= 0]
        prior = [max(1e-12, math.fsum(column) / len(free)) for column in zip(*free, strict=True)]
        probe: Probe = [[1 / prior[i] if i == j else 0.0 for j in range(width)] + [0.0] for i in range(width)]
        rate, epochs = self._chosen(probe, data)
        for trained in islice(_descent(probe, data, rate), epochs):
            probe = trained
        self.weights, self.bias = [[*line[:-1]] for line in probe], [line[-1] for line in probe]

    def _chosen(self, start: Probe, data: Sequence[tuple[list[float], int]]) -> tuple[float, int]:
        """Return step size and epochs: those that are given, or those of the highest likelihood of left-out rows."""
        rates = RATES if self.learning_rate is None else (self.learning_rate,)
        epochs = EPOCHS if self.epochs is None else (self.epochs,)
        losses = dict.fromkeys(itertools.product(rates, epochs), 0.0)
        if len(losses) > 1 and len(data) > 1 and max(epochs):
            for rate, fold in itertools.product(rates, range(min(FOLDS, len(data)))):
                kept = [pair for place, pair in enumerate(data) if place % FOLDS != fold]
                for epoch, probe in enumerate(islice(_descent(start, kept, rate), max(epochs)), 1):
                    if epoch in epochs:
                        losses[rate, epoch] += sum(
                            -base.logarithms(softmax(_scores(probe, row)))[label] for row, label in data[fold::FOLDS]
                        )
        return min(losses, key=losses.__getitem__)

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        probe = [[*weights, bias] for weights, bias in zip(self.weights, self.bias, strict=True)]
        return [softmax(_scores(probe, row)) for row in rows]


LINEAR_CALIBRATION = base.calibration_method(LinearCalibration, "Linear calibration", LinearOptions)


class TemperatureScaling(base.FittedCalibration):
    r"""Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks").

    Predictions become :math:`\operatorname{softmax}(\log p / T)` with the temperature :math:`T` in [0.05, 20] that
    minimises the negative log-likelihood of the labels of ``calibration_number`` prompts. It is a convex function of
    :math:`1 / T`, whose derivative is 0 there, found by bisection. The predicted label never changes.
    """

    name: ClassVar[str] = "temperature_scaling"
    state: ClassVar[Mapping[str, Any]] = {"temperature": (), "kind": base.KINDS}
    temperature = 1.0

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        logs = [base.logarithms(row) for row in rows]
        low, high = math.log(1 / 20), math.log(20)  # of 1 / T
        for _ in range(60):
            middle = (low + high) / 2
            shares = [softmax([math.exp(middle) * value for value in row]) for row in logs]
            means = [math.fsum(map(operator.mul, share, row)) for share, row in zip(shares, logs, strict=True)]
            if math.fsum(mean - row[label] for mean, row, label in zip(means, logs, labels, strict=True)) >= 0:
                high = middle
            else:
                low = middle
        self.temperature = math.exp(-(low + high) / 2)

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        calibrated = []
        for row in rows:
            scaled = softmax([value / self.temperature for value in base.logarithms(row)])
            top = row.index(max(row))
            if scaled.index(max(scaled)) != top:  # rounding made two labels equal
                scaled[top] = math.nextafter(max(scaled), math.inf)
            calibrated.append(scaled)
        return calibrated

    def check_state(self) -> None:
        """Refuse a temperature that is not positive."""
        if not self.temperature > 0:
            raise ValueError("the temperature is not positive")


TEMPERATURE_SCALING = base.calibration_method(TemperatureScaling, "Temperature scaling")
