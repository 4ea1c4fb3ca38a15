"""Calibrations of label probabilities, which work with any inference function.

Contextual, domain and batch calibration and DC-PMI divide by a mean prediction. Temperature scaling, linear and
prototypical calibration are fitted to labelled prompts. Only prototypical calibration needs NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.inference import Failure, Inference
from StaICC.methods.calibration.base import (
    LABELS,
    Calibration,
    CalibrationSet,
    LabelledPrompts,
    PromptMaker,
    check_variant,
    content_free_prompts,
    domain_prompts,
    labelled_prompts,
)
from StaICC.methods.features import Feature, check_answered
from StaICC.metrics import Kind, normalise, softmax
from StaICC.metrics.normalisation import numeric_rows
from StaICC.optional import require
from StaICC.prompting import StableRandom

RELEASED_FLOOR = 1e-5
"""0.1.1 adds this to the sum of the predictions before dividing by their number."""

Read = Literal["probabilities", "logits"]
_KINDS = frozenset(get_args(Read))


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
            raise OutputError(f"{what} {number}: got the label {row!r}, expected a probability for each label")
    rows = numeric_rows(kept)
    if rows and len(rows[0]) != width:
        raise OutputError(f"{what} 0: got {len(rows[0])} scores, expected {width}, one for each label")
    return rows


def read_probabilities(rows: Sequence[Sequence[float]], kind: Kind) -> tuple[list[list[float]], Read]:
    """Return rows as probabilities, and what they were read as."""
    found = normalise(rows, kind)
    if found.probabilities is None or found.kind == "ambiguous":
        raise OutputError(f"the predictions are neither probabilities nor logits: {found.reason}")
    return [list(row) for row in found.probabilities], found.kind


def _mean(rows: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]


def _divided(row: Sequence[float], prior: Sequence[float]) -> list[float]:
    """Probabilities proportional to ``row / prior``; a label whose prior is 0 (and so its row's entry) stays at 0."""
    ratios = [value / base if base else 0.0 for value, base in zip(row, prior, strict=True)]
    total = math.fsum(ratios)
    return [ratio / total for ratio in ratios]


class PriorCalibration(Calibration):
    """Learns the mean prediction on prompts that should favour no label."""

    feature: ClassVar[Feature] = "probabilities"
    state: ClassVar[Mapping[str, Any]] = {"prior": (LABELS,), "kind": _KINDS}
    prior: Sequence[float] = ()
    kind: Read = "probabilities"

    def learn(self, rows: Any, labels: Sequence[int] = ()) -> None:
        """Learn the mean of the rows.

        Raises:
            OutputError: A row is invalid, or a label has probability 0 in all rows.
        """
        rows = label_rows(rows, self.n_label, "calibration prompt")
        if self.variant == "0.1.1":
            self.prior = [(math.fsum(column) + RELEASED_FLOOR) / len(rows) for column in zip(*rows, strict=True)]
            return
        rows, self.kind = read_probabilities(rows, "auto")
        self.prior = _mean(rows)
        for label, value in zip(self.label_space, self.prior, strict=True):
            if value <= 0:
                raise OutputError(
                    f"the model gave the label {label!r} probability 0 on all {len(rows)} calibration prompts; "
                    "there is nothing to divide by"
                )

    def apply(self, features: Any) -> list[list[float]]:
        """Calibrate label probabilities, one row for each prompt."""
        self.check_trained()
        rows = label_rows(features, self.n_label, "prompt")
        if self.variant == "0.1.1":
            return [softmax([value / base for value, base in zip(row, self.prior, strict=True)]) for row in rows]
        return [self.correct(row, self.prior) for row in read_probabilities(rows, self.kind)[0]]

    @staticmethod
    def correct(row: Sequence[float], prior: Sequence[float]) -> list[float]:
        """Correct one prediction by a prior; both are probabilities."""
        return _divided(row, prior)


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
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.
    """

    name: ClassVar[str] = "contextual_calibration"

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return content-free prompts."""
        return LabelledPrompts(content_free_prompts(make_prompt, calibration_set, number, k, self.variant), [])

    @staticmethod
    def correct(row: Sequence[float], prior: Sequence[float]) -> list[float]:
        """Return the softmax of the quotients."""
        return softmax([value / base for value, base in zip(row, prior, strict=True)])


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
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.
    """

    name: ClassVar[str] = "domain_calibration"

    def train(  # type: ignore[override]  # the order of arguments is that of 0.1.1
        self,
        default_prompt_maker: PromptMaker,
        feedforward: Inference,
        calibration_set: CalibrationSet | None = None,
        calibration_number: int = 128,
        sample_length: int = 64,
        k: int = 4,
    ) -> None:
        """As :meth:`Calibration.train`, with ``sample_length`` words in each query text."""
        super().train(
            default_prompt_maker, feedforward, calibration_set, calibration_number, k, sample_length=sample_length
        )

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return prompts about random words."""
        length = options.get("sample_length", 64)
        return LabelledPrompts(domain_prompts(make_prompt, calibration_set, number, k, length, self.variant), [])


Correct = Callable[[Sequence[float], Sequence[float]], list[float]]
"""Corrects one prediction by a prior."""


def calibrated_in_context(
    rows: Sequence[Any],
    free: Sequence[Sequence[Any]],
    correct: Correct,
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
    found: list[Any] = [
        next((row for row in texts if isinstance(row, Failure)), None) for texts in zip(rows, *free, strict=True)
    ]
    kept = [number for number, failure in enumerate(found) if failure is None]
    if not kept:
        return found
    parts = [label_rows([part[number] for number in kept], width, "prediction") for part in (rows, *free)]
    if logarithms:
        queries, texts = read_probabilities(parts[0], "auto")[0], parts[1:]
    else:
        flat = read_probabilities([row for part in parts for row in part], "auto")[0]
        queries, *texts = [flat[start : start + len(kept)] for start in range(0, len(flat), len(kept))]
    for number, row, *others in zip(kept, queries, *texts, strict=True):
        if logarithms:
            top = max(map(max, others))
            others = [[math.exp(value - top) for value in other] for other in others]
        sums = [math.fsum(column) for column in zip(*others, strict=True)]
        if min(sums) <= 0:
            found[number] = Failure(
                "a label has probability 0 on all content-free texts; there is nothing to divide by"
            )
        else:
            found[number] = correct(row, [value / math.fsum(sums) for value in sums])
    return found


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
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.

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
    probabilities, _ = read_probabilities(rows, "auto")
    found: list[list[float]] = []
    for start in range(0, len(rows), size):
        end = min(start + size, len(rows))
        mean = _mean(probabilities[max(0, end - size) : end])
        found += [_divided(row, mean) for row in probabilities[start:end]]
    return found


_FLOOR = 1e-300
"""Smallest probability whose logarithm is taken."""


class _Fitted(Calibration):
    """Is fitted to the label probabilities of labelled prompts."""

    feature: ClassVar[Feature] = "probabilities"
    kind: Any = "probabilities"

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return labelled prompts."""
        return labelled_prompts(make_prompt, calibration_set, self.label_space, number, k, self.variant)

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Fit to probabilities or logits of the labels."""
        found, self.kind = read_probabilities(label_rows(rows, self.n_label, "calibration prompt"), "auto")
        self._fit(found, labels)

    def apply(self, features: Any) -> list[list[float]]:
        """Calibrate label probabilities, one row for each prompt."""
        self.check_trained()
        return self._map(read_probabilities(label_rows(features, self.n_label, "prompt"), self.kind)[0])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        raise NotImplementedError

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        raise NotImplementedError


def _logarithms(row: Sequence[float]) -> list[float]:
    return [math.log(max(value, _FLOOR)) for value in row]


class TemperatureScaling(_Fitted):
    r"""Temperature scaling (Guo, Pleiss, Sun and Weinberger 2017, "On Calibration of Modern Neural Networks").

    Predictions become :math:`\operatorname{softmax}(\log p / T)` with the temperature :math:`T` in [0.05, 20] that
    minimises the negative log-likelihood of the labels of ``calibration_number`` prompts. It is a convex function of
    :math:`1 / T`, minimised by golden-section search. The predicted label never changes.
    """

    name: ClassVar[str] = "temperature_scaling"
    state: ClassVar[Mapping[str, Any]] = {"temperature": (), "kind": _KINDS}
    temperature = 1.0

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        logs = [_logarithms(row) for row in rows]

        def loss(logarithm: float) -> float:
            slope = math.exp(logarithm)
            return math.fsum(_log_sum(row, slope) - slope * row[label] for row, label in zip(logs, labels, strict=True))

        low, high = math.log(1 / 20), math.log(20)
        ratio = (math.sqrt(5) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = loss(left), loss(right)
        for _ in range(80):
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = loss(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = loss(right)
        self.temperature = math.exp(-(low + high) / 2)

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        found = []
        for row in rows:
            scaled = softmax([value / self.temperature for value in _logarithms(row)])
            top = row.index(max(row))
            if scaled.index(max(scaled)) != top:  # rounding made two labels equal
                scaled[top] = math.nextafter(max(scaled), math.inf)
            found.append(scaled)
        return found

    def check_state(self) -> None:
        """Refuse a temperature that is not positive."""
        if not self.temperature > 0:
            raise ValueError("the temperature is not positive")


def _log_sum(row: Sequence[float], slope: float) -> float:
    top = slope * max(row)
    return top + math.log(math.fsum(math.exp(slope * value - top) for value in row))


class LinearCalibration(_Fitted):
    r"""Linear calibration (Abbas et al. 2024, "Enhancing In-context Learning via Linear Probe Calibration", LinC).

    Predictions become :math:`\operatorname{softmax}(A p + b)`. As in the authors' code, :math:`A` begins as
    :math:`\operatorname{diag}(\hat p_{cf})^{-1}` of contextual calibration and :math:`b` as 0, and both are trained by
    stochastic gradient descent on the cross-entropy of the labelled prompts, one row at a time, shuffled in every
    epoch. Budget: ``calibration_number`` labelled and as many content-free prompts.

    Args:
        label_space: The labels.
        learning_rate: Step size. (The authors choose it for each data set; this is one of theirs.)
        epochs: How often each row is used.
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.
    """

    name: ClassVar[str] = "linear_calibration"
    state: ClassVar[Mapping[str, Any]] = {"weights": (LABELS, LABELS), "bias": (LABELS,), "kind": _KINDS}

    def __init__(
        self, label_space: Sequence[str], learning_rate: float = 3e-4, epochs: int = 15, *, variant: str = "paper"
    ) -> None:
        super().__init__(label_space, variant=variant)
        if not (isinstance(learning_rate, (int, float)) and 0 < learning_rate < math.inf):
            raise ArgumentError(f"learning_rate: got {learning_rate!r}, expected a positive number")
        self.learning_rate = float(learning_rate)
        self.epochs = validate_integer("epochs", epochs, 0)
        self.weights: list[list[float]] = []
        self.bias: list[float] = []

    def _options(self) -> dict[str, Any]:
        return {"learning_rate": self.learning_rate, "epochs": self.epochs}

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return content-free prompts (label -1) and labelled prompts."""
        free = content_free_prompts(make_prompt, calibration_set, number, k, self.variant)
        labelled = super().samples(make_prompt, calibration_set, number, k)
        return LabelledPrompts([*free, *labelled.prompts], [*[-1] * len(free), *labelled.labels])

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        width = self.n_label
        free = [row for row, label in zip(rows, labels, strict=True) if label < 0] or [[1 / width] * width]
        data = [(row, label) for row, label in zip(rows, labels, strict=True) if label >= 0]
        prior = [max(1e-12, math.fsum(column) / len(free)) for column in zip(*free, strict=True)]
        self.weights = [[1 / prior[i] if i == j else 0.0 for j in range(width)] for i in range(width)]
        self.bias = [0.0] * width
        generator = StableRandom()
        for _ in range(self.epochs):
            for place in generator.sample_indexes(len(data), len(data)):
                row, label = data[place]
                for i, share in enumerate(softmax(self._scores(row))):
                    step = self.learning_rate * (share - (i == label))  # the gradient of the cross-entropy
                    self.bias[i] -= step
                    self.weights[i] = [
                        weight - step * value for weight, value in zip(self.weights[i], row, strict=True)
                    ]

    def _scores(self, row: Sequence[float]) -> list[float]:
        return [
            math.fsum([bias, *(weight * value for weight, value in zip(weights, row, strict=True))])
            for weights, bias in zip(self.weights, self.bias, strict=True)
        ]

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        return [softmax(self._scores(row)) for row in rows]


class PrototypicalCalibration(_Fitted):
    r"""Prototypical calibration (Han et al. 2023, "Prototypical Calibration for Few-shot Learning of Language Models").

    A Gaussian mixture with one component for each label is fitted to the log-probabilities of unlabelled prompts. The
    component :math:`c` belongs to the label :math:`\pi(c)` of the assignment that maximises
    :math:`\sum_c \mu_{c, \pi(c)}`; of several fits the one with the largest sum counts. Probabilities are the
    posterior of the components with equal weights, as in the authors' code.

    Args:
        label_space: The labels.
        restarts: How many fits, from different starts (the authors: 100).
        variant: See :data:`~StaICC.methods.calibration.base.Variant`.
    """

    name: ClassVar[str] = "prototypical_calibration"
    state: ClassVar[Mapping[str, Any]] = {
        "means": (LABELS, LABELS),
        "covariances": (LABELS, LABELS, LABELS),
        "kind": _KINDS,
    }
    arrays: ClassVar[bool] = True

    def __init__(self, label_space: Sequence[str], restarts: int = 100, *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.restarts = validate_integer("restarts", restarts, 1)
        self.means: Any = None
        self.covariances: Any = None
        """By label: the mean (labels, labels) and the covariance (labels, labels, labels) of its component."""

    def _options(self) -> dict[str, Any]:
        return {"restarts": self.restarts}

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        if len(rows) <= self.n_label:
            raise ArgumentError(
                f"got {len(rows)} calibration samples, expected more than the {self.n_label} components that are "
                "fitted to them. Raise calibration_number"
            )
        numpy = require("numpy", "hf", "a Gaussian mixture")
        points = numpy.array([_logarithms(row) for row in rows])
        generator = StableRandom()
        best = -math.inf
        for _ in range(self.restarts):
            start = points[generator.sample_indexes(len(points), self.n_label)]
            means, covariances = fit_mixture(points, _shares_of_nearest(points, start))
            order = assignment((-means).tolist())
            total = math.fsum(means[component, label] for component, label in enumerate(order))
            if total > best:
                best = total
                places = numpy.argsort(order)
                self.means, self.covariances = means[places], covariances[places]

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        numpy = require("numpy", "hf", "a Gaussian mixture")
        logs = log_densities(numpy.array([_logarithms(row) for row in rows]), self.means, self.covariances)
        return [softmax(row) for row in logs.tolist()]


def _shares_of_nearest(points: Any, centres: Any) -> Any:
    """Return the start of a fit: after ten rounds of k-means, each point belongs to the nearest centre (one-hot)."""
    numpy = require("numpy", "hf", "a Gaussian mixture")
    for _ in range(10):
        nearest = ((points[:, None, :] - centres[None]) ** 2).sum(-1).argmin(1)
        shares = numpy.eye(len(centres))[nearest]
        sizes = shares.sum(0)[:, None]
        centres = numpy.where(sizes > 0, (shares.T @ points) / numpy.maximum(sizes, 1), centres)
    return shares


def log_densities(points: Any, means: Any, covariances: Any) -> Any:
    """Return the logarithm of the normal density of each point (n, d) under each component: (n, components)."""
    numpy = require("numpy", "hf", "a Gaussian mixture")
    found = []
    for mean, covariance in zip(means, covariances, strict=True):
        factor = numpy.linalg.cholesky(covariance)
        white = numpy.linalg.solve(factor, (points - mean).T)
        constant = len(mean) * math.log(2 * math.pi) + 2 * numpy.log(numpy.diag(factor)).sum()
        found.append(-0.5 * (constant + (white**2).sum(0)))
    return numpy.stack(found, 1)


def fit_mixture(points: Any, shares: Any) -> tuple[Any, Any]:
    """Fit a Gaussian mixture by expectation maximisation, until the mean log-likelihood changes by less than 1e-3.

    Args:
        points: Array (n, d).
        shares: The share of each component in each point at the start (n, components).

    Returns:
        Means (components, d) and covariances (components, d, d), with 1e-6 added to their diagonals.
    """
    numpy = require("numpy", "hf", "a Gaussian mixture")
    before, change = -math.inf, math.inf
    means = covariances = None
    for _ in range(101):
        sizes = shares.sum(0) + 10 * numpy.finfo(float).eps
        means = (shares.T @ points) / sizes[:, None]
        centred = points[None] - means[:, None]
        covariances = numpy.einsum("nc,cnd,cne->cde", shares, centred, centred) / sizes[:, None, None]
        covariances += 1e-6 * numpy.eye(points.shape[1])
        if change < 1e-3:
            break
        logs = log_densities(points, means, covariances) + numpy.log(sizes / len(points))
        top = logs.max(1, keepdims=True)
        totals = top + numpy.log(numpy.exp(logs - top).sum(1, keepdims=True))
        shares = numpy.exp(logs - totals)
        likelihood = float(totals.mean())
        before, change = likelihood, abs(likelihood - before)
    return means, covariances


def assignment(costs: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row of a square matrix, all different, so that the sum of costs is smallest.

    By shortest augmenting paths (Kuhn 1955, Munkres 1957; cubic time).

    Example:
        >>> assignment([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
        [1, 0, 2]
    """
    size = len(costs)
    rows, columns = [0.0] * (size + 1), [0.0] * (size + 1)  # potentials
    owner = [0] * (size + 1)  # the row of each column, counted from 1; column 0 is the start of a path
    for row in range(1, size + 1):
        owner[0], column = row, 0
        slack, came_from = [math.inf] * (size + 1), [0] * (size + 1)
        done = [False] * (size + 1)
        while owner[column]:
            done[column] = True
            current, delta, best = owner[column], math.inf, 0
            for other in range(1, size + 1):
                if not done[other]:
                    reduced = costs[current - 1][other - 1] - rows[current] - columns[other]
                    if reduced < slack[other]:
                        slack[other], came_from[other] = reduced, column
                    if slack[other] < delta:
                        delta, best = slack[other], other
            for other in range(size + 1):
                if done[other]:
                    rows[owner[other]] += delta
                    columns[other] -= delta
                else:
                    slack[other] -= delta
            column = best
        while column:
            owner[column] = owner[came_from[column]]
            column = came_from[column]
    found = [0] * size
    for column in range(1, size + 1):
        found[owner[column] - 1] = column - 1
    return found


class DomainPMI(PriorCalibration):
    r"""Domain-conditional PMI (Holtzman et al. 2021, "Surface Form Competition").

    Predictions become :math:`P(y \mid x) / P(y \mid x_{domain})`, divided by their sum. :math:`x_{domain}` is the
    domain premise: the text between query and label, without query and demonstrations. Budget: one prompt.
    """

    name: ClassVar[str] = "dc_pmi"

    def samples(
        self, make_prompt: PromptMaker, calibration_set: CalibrationSet | None, number: int, k: int, **options: Any
    ) -> LabelledPrompts:
        """Return the domain premise, or the option ``premise``."""
        premise = options.get("premise")
        if premise is None:
            columns = len(calibration_set[0][0]) if calibration_set is not None and len(calibration_set) else 1
            one, other = (make_prompt([], [text] * columns) for text in ("0", "?"))
            alike = [a == b for a, b in zip(reversed(one), reversed(other), strict=True)]
            premise = one[len(one) - alike.index(False) :]
        if not premise.strip():
            raise ArgumentError("no text between query and label for the domain premise. Give the option premise")
        return LabelledPrompts([premise], [])
