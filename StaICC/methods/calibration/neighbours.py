"""Calibrations by nearness to labelled prompts.

They read what label probabilities leave out (the last hidden state, or the logits of the full vocabulary), so they
need a local model. NumPy is imported when one is trained or used.

Prototypical calibration (Han et al. 2023): a Gaussian mixture with one component for each label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.protocol import Capability
from StaICC.methods.calibration import base
from StaICC.methods.features import Feature, numpy
from StaICC.methods.specification import MethodSpec, PromptMaker
from StaICC.metrics.classification import softmax
from StaICC.prompting.stable_random import StableRandom

HIDDEN_SAMPLES = 16
"""Rows of each label with which the authors of hidden calibration train."""
_ROWS: dict[Feature, str] = {"hidden": "hidden state", "vocabulary": "row of logits"}


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options of calibrations from labelled prompts."""

    samples_per_label: int | None = None
    """Calibration rows of each label; none: in variant paper 16 for hidden calibration and equal shares of
    calibration_number for k-NN, otherwise calibration_number rows of any label."""


@dataclass(frozen=True, slots=True)
class AnchorOptions(SampleOptions):
    """Options of k-NN prompting by centroids."""

    shared_demonstrations: bool = False
    """The same demonstrations for anchors and all test examples, as in the authors' code."""


@dataclass(frozen=True, slots=True)
class NeighbourOptions(AnchorOptions):
    """Options of k-NN prompting."""

    knn_k: int = 3
    """Nearest neighbours that vote."""


class _LabelledCalibration(base.Calibration):
    """Learns from prompts about rows whose label is known; the nearer the prompts of a label, the more probable it is.

    Hidden states are compared by their Euclidean distance; logits of the full vocabulary as distributions, by their
    divergence (0.1.1: as they are, by their Euclidean distance). The release gives up (``failed``) where a label was
    not drawn, and predicts as the model does.
    """

    arrays: ClassVar[bool] = True
    failed = False
    labels_without_prompts: Sequence[str] = ()
    """The labels that no training prompt has."""

    @property
    def reads(self) -> Feature:
        """What it reads: label probabilities after a training that failed (0.1.1 only)."""
        return "probabilities" if self.failed else self.feature

    def samples(
        self, make_prompt: PromptMaker, calibration_set: base.CalibrationSet | None, number: int, k: int, **options: Any
    ) -> base.LabelledPrompts:
        """Return labelled prompts; for methods, the options say how many of each label."""
        per_label = options.get("samples_per_label", options.get("per_label"))
        if per_label is not None and self.variant == "0.1.1":
            expected = "the release draws rows of any label. Use variant 'paper' or 'staicc'"
            raise ArgumentError(f"samples_per_label: {expected}")
        if "samples_per_label" in options and per_label is None and self.variant == "paper":
            per_label = HIDDEN_SAMPLES if self.feature == "hidden" else max(1, number // self.n_label)
        return super().samples(make_prompt, calibration_set, number, k, per_label=per_label)

    def learn(self, rows: Any, labels: Sequence[int]) -> None:
        """Learn from hidden states or logits."""
        matrix = finite_matrix(rows, f"calibration {_ROWS[self.feature]}")
        self.labels_without_prompts = [name for label, name in enumerate(self.label_space) if label not in set(labels)]
        self.failed = self.variant == "0.1.1" and bool(self.labels_without_prompts)
        if not self.failed:
            self._learn(distributions(matrix) if self._diverges else matrix, labels)

    def fallback(self) -> str | None:
        """Return which labels no training prompt had, and what follows."""
        if not self.labels_without_prompts:
            return None
        missing = ", ".join(map(repr, self.labels_without_prompts))
        if self.failed:
            return (
                f"none of the {self.training_prompts} training prompts has the label {missing}, so all predictions are "
                "those of the model without the method, as the release does. Use a larger calibration_number, or "
                "variant 'paper'"
            )
        return (
            f"none of the {self.training_prompts} training prompts has the label {missing}, so it is never predicted. "
            "Use a larger calibration_number"
        )

    def apply(self, features: Any) -> list[list[float]]:
        """Turn what the model gives, shape (n, d), into probabilities of the labels: n rows."""
        if self.failed:
            return base.label_rows(features, self.n_label, "prompt")
        rows: list[list[float]] = self._scores(finite_matrix(features, _ROWS[self.feature])).tolist()
        return rows

    @property
    def _diverges(self) -> bool:
        return self.feature == "vocabulary" and self.variant != "0.1.1"

    def _distances(self, rows: Any, anchors: Any) -> Any:
        if rows.shape[1] != anchors.shape[1]:
            expected = f"expected {anchors.shape[1]} as in the anchors"
            raise ArgumentError(f"got rows of {rows.shape[1]} numbers, {expected}. Was it trained on another model?")
        return kullback_leibler(rows, anchors) if self._diverges else euclidean(rows, anchors)

    def _learn(self, points: Any, labels: Sequence[int]) -> None:
        self.centroid = centroids(points, labels, self.label_space)

    def _scores(self, rows: Any) -> Any:
        """Turn what the model gives, (n, d), into probabilities of the labels."""
        return _softmax(-self._distances(rows, self.centroid))

    state: ClassVar[Mapping[str, Any]] = {"failed": frozenset({True, False}), "centroid": (base.LABELS, None)}
    centroid: Any = None
    """The mean of each label."""


class _Neighbours(_LabelledCalibration):
    feature: ClassVar[Feature] = "vocabulary"
    options: ClassVar[tuple[str, ...]] = ("knn_k",)

    def __init__(self, label_space: Sequence[str], knn_k: int = 3, *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.knn_k = validate_integer("knn_k", knn_k, 1)


class HiddenCalibration(_LabelledCalibration):
    r"""Hidden calibration (Cho et al. 2024, "Token-based Decision Criteria Are Suboptimal in In-context Learning").

    Each label's centroid is the mean of the last hidden states of its calibration prompts; a prompt belongs to the
    nearest centroid. Probabilities are :math:`\operatorname{softmax}_y(-\lVert h - \bar h_y \rVert_2)`.

    Budget: ``calibration_number`` prompts. Needs hidden states, and no output matrix at all.

    ``variant="paper"``: rows without repetition, every label sampled; a label that has no row is an error.
    ``variant="0.1.1"``: rows with repetition; where a label was not drawn, predictions stay as the model gives them.

    Args:
        label_space: The labels.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "hidden_calibration"
    feature: ClassVar[Feature] = "hidden"


class KNNPrompting(_Neighbours):
    r"""k-nearest-neighbour prompting (Xu, Wang, Mao, Lyu, She and Zhang 2023, "kNN Prompting").

    The distributions over the full vocabulary that follow the calibration prompts are anchors. Of the ``knn_k``
    anchors nearest to a prompt's distribution :math:`p` by :math:`D_{KL}(p_i \Vert p)`, each has one vote for its
    label.

    Budget: ``calibration_number`` prompts. Needs the logits of the full vocabulary. Memory: one row of the
    vocabulary's length for each anchor.

    ``variant="paper"``: probabilities are shares of the votes; a label without an anchor gets none. (The paper has
    fixed demonstrations for all prompts; here each prompt has its own.) ``variant="0.1.1"``: Euclidean distance of
    logits, softmax of the votes' counts, rows with repetition; where a label was not drawn, predictions stay as the
    model gives them. More neighbours than anchors are an error in both (0.1.1 counts the first anchor again and again).

    Args:
        label_space: The labels.
        knn_k: How many neighbours vote.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "knn_prompt"
    state: ClassVar[Mapping[str, Any]] = {
        "failed": frozenset({True, False}),
        "anchors": (None, None),
        "labels": (None,),
    }
    anchors: Any = None
    labels: Sequence[int] | None = None
    """The label index of each anchor."""

    def samples(self, *drawn: Any, **options: Any) -> base.LabelledPrompts:
        """Return labelled prompts; too small a number of them is refused."""
        prompts = super().samples(*drawn, **options)
        self._check_number(len(prompts.labels))
        return prompts

    def _check_number(self, number: int) -> None:
        if number < self.knn_k:
            got = f"{number} calibration samples have no {self.knn_k} nearest"
            raise ArgumentError(f"{got}; lower knn_k or raise calibration_number")

    def _learn(self, points: Any, labels: Sequence[int]) -> None:
        self._check_number(len(labels))
        self.anchors, self.labels = points, list(labels)

    def _scores(self, rows: Any) -> Any:
        chosen = nearest(self._distances(rows, self.anchors), self.knn_k)
        counts = numpy.eye(self.n_label)[numpy.asarray(self.labels)[chosen]].sum(axis=1)
        return _softmax(counts) if self.variant == "0.1.1" else counts / self.knn_k

    def check_state(self) -> None:
        """Refuse labels that do not fit the anchors."""
        labels = self.labels or ()
        known = {*labels} <= {*range(self.n_label)}
        if not self.failed and not (known and len(labels) == len(self.anchors) >= self.knn_k):
            raise ValueError("the labels do not fit the anchors")


class KNNPromptingCentroid(_Neighbours):
    r"""k-nearest-neighbour prompting with one centroid for each label, the form of StaICC's Table 2 (its appendix B.2).

    Budget: ``calibration_number`` prompts. Needs the logits of the full vocabulary.

    ``variant="paper"``: the divergence of :class:`KNNPrompting` between each label's mean distribution and that of the
    prompt, :math:`\operatorname{softmax}_y(-D_{KL}(\bar p_y \Vert p))`. ``variant="0.1.1"``: Euclidean distance of
    logits to mean logits; rows with repetition; where a label was not drawn, predictions stay as the model gives them.

    Args:
        label_space: The labels.
        knn_k: Accepted as in 0.1.1; centroids are not counted.
        variant: ``"paper"`` or ``"0.1.1"``.
    """

    name: ClassVar[str] = "knn_prompt_centroid"


def finite_matrix(rows: Any, what: str) -> Any:
    """Read rows of numbers as a matrix, or say which row cannot be read.

    Args:
        rows: Rows of equal length; arrays and tensors too.
        what: What a row is, for the message, such as ``"hidden state"``.

    Returns:
        An array of shape (rows, width), double precision.

    Raises:
        OutputError: The rows have different lengths, or one has NaN or an infinity.
    """
    try:
        plain = rows if hasattr(rows, "shape") else [numpy.asarray(row, dtype=numpy.float64) for row in rows]
        matrix = numpy.asarray(plain, dtype=numpy.float64)
    except (TypeError, ValueError) as error:
        raise OutputError(f"the {what}s cannot be read as rows of numbers of equal length: {error}") from error
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise OutputError(f"a {what} must be a row of numbers; got an array of shape {matrix.shape} for {len(rows)}")
    bad = ~numpy.isfinite(matrix).all(axis=1)
    if bad.any():
        got = f"{what} {int(bad.argmax())} has NaN or an infinity, so nothing is near to it"
        raise OutputError(f"{got}; use a wider number type of the model, such as float32")
    return matrix


def euclidean(queries: Any, anchors: Any) -> Any:
    """Euclidean distance of each query to each anchor.

    Args:
        queries: Array (n, d).
        anchors: Array (m, d).

    Returns:
        Array (n, m).
    """
    squared = (queries**2).sum(1)[:, None] + (anchors**2).sum(1)[None, :] - 2 * (queries @ anchors.T)
    return numpy.sqrt(numpy.maximum(squared, 0.0))


def _log_softmax(logits: Any) -> Any:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=1, keepdims=True))


def _refuse_probabilities(rows: Any) -> None:
    if (rows >= 0).all() and (abs(rows.sum(axis=1) - 1.0) < 1e-3).all():
        raise ArgumentError("got probabilities, expected logits or log-probabilities of the full vocabulary")


def distributions(logits: Any) -> Any:
    """Probabilities of each row of logits (or log-probabilities).

    Raises:
        ArgumentError: The rows are probabilities already: their softmax would be something else.
    """
    _refuse_probabilities(logits)
    return _softmax(logits)


def kullback_leibler(logits: Any, anchors: Any) -> Any:
    """Divergence ``KL(anchor || query) = sum_v anchor_v (log anchor_v - log query_v)``, in nats; 0 log 0 = 0.

    Args:
        logits: Logits or log-probabilities of the queries (n, d).
        anchors: Probabilities (m, d).

    Returns:
        Array (n, m).

    Raises:
        ArgumentError: The queries are probabilities.
    """
    _refuse_probabilities(logits)
    logs = numpy.log(anchors, out=numpy.zeros_like(anchors), where=anchors > 0)
    negative_entropy = (anchors * logs).sum(1)
    return numpy.maximum(negative_entropy[None, :] - _log_softmax(logits) @ anchors.T, 0.0)


def centroids(rows: Any, labels: Sequence[int], label_space: Sequence[str]) -> Any:
    """Mean of the rows of each label.

    Args:
        rows: Array (m, d).
        labels: Label index of each row.
        label_space: The labels.

    Returns:
        Array (L, d).

    Raises:
        ArgumentError: A label has no row, so it has no centroid.
    """
    missing = [text for label, text in enumerate(label_space) if label not in set(labels)]
    if missing:
        got = f"none of the {len(labels)} calibration samples has the label {', '.join(map(repr, missing))}"
        raise ArgumentError(f"{got}; use a larger calibration_number, or a calibration set that has every label")
    numbers = numpy.asarray(labels)
    return numpy.stack([rows[numbers == label].mean(axis=0) for label in range(len(label_space))])


def nearest(distances: Any, count: int) -> Any:
    """The nearest anchors of each query, nearest first, the first of equals first.

    Args:
        distances: Array (n, m).
        count: How many; m at most.

    Returns:
        Integer array (n, count).
    """
    return numpy.argsort(distances, axis=1, kind="stable")[:, :count]


def _softmax(scores: Any) -> Any:
    """Softmax of each row."""
    return numpy.exp(_log_softmax(scores))


# -- as methods


def any_rows(options: SampleOptions, variant: str) -> bool:
    """Return whether ``calibration_number`` says how many rows are drawn."""
    return options.samples_per_label is None and (variant != "paper" or isinstance(options, AnchorOptions))


def _method(kind: type[_LabelledCalibration], title: str, options: type[Any], capability: Capability) -> MethodSpec:
    return base.calibration_method(kind, title, options, requires=frozenset({capability}), trains=any_rows)


KNN_PROMPT = _method(KNNPrompting, "k-NN", NeighbourOptions, Capability.FULL_VOCABULARY)
KNN_PROMPT_CENTROID = _method(KNNPromptingCentroid, "k-NN (centroids)", AnchorOptions, Capability.FULL_VOCABULARY)
HIDDEN_CALIBRATION = _method(HiddenCalibration, "Hidden calibration", SampleOptions, Capability.HIDDEN_STATES)


@dataclass(frozen=True, slots=True)
class MixtureOptions:
    """Options of prototypical calibration."""

    restarts: int = 100
    """Fits of the mixture, from different starts."""


class PrototypicalCalibration(base.FittedCalibration):
    r"""Prototypical calibration (Han et al. 2023, "Prototypical Calibration for Few-shot Learning of Language Models").

    A Gaussian mixture with one component for each label is fitted to the log-probabilities of unlabelled prompts. The
    component :math:`c` belongs to the label :math:`\pi(c)` of the assignment that maximises
    :math:`\sum_c \mu_{c, \pi(c)}`; of several fits the one with the largest sum counts. Probabilities are the
    posterior of the components with equal weights, as in the authors' code.

    Args:
        label_space: The labels.
        restarts: How many fits, from different starts (the authors: 100).
        variant: See :data:`~StaICC.methods.specification.Variant`.
    """

    name: ClassVar[str] = "prototypical_calibration"
    options: ClassVar[tuple[str, ...]] = ("restarts",)
    state: ClassVar[Mapping[str, Any]] = {
        "means": (base.LABELS, base.LABELS),
        "covariances": (base.LABELS, base.LABELS, base.LABELS),
        "kind": base.KINDS,
    }
    arrays: ClassVar[bool] = True

    def __init__(self, label_space: Sequence[str], restarts: int = 100, *, variant: str = "paper") -> None:
        super().__init__(label_space, variant=variant)
        self.restarts = validate_integer("restarts", restarts, 1)
        self.means: Any = None
        self.covariances: Any = None
        """By label: the mean (labels, labels) and the covariance (labels, labels, labels) of its component."""

    def _fit(self, rows: list[list[float]], labels: Sequence[int]) -> None:
        if len(rows) <= self.n_label:
            expected = f"expected more than the {self.n_label} components that are fitted to them"
            raise ArgumentError(f"got {len(rows)} calibration samples, {expected}. Raise calibration_number")
        points = numpy.array([base.logarithms(row) for row in rows])
        generator = StableRandom()
        best = -math.inf
        for _ in range(self.restarts):
            start = points[generator.sample_indexes(len(points), self.n_label)]
            means, covariances = fit_mixture(points, shares_of_nearest(points, start))
            order = assignment((-means).tolist())
            total = math.fsum(means[component, label] for component, label in enumerate(order))
            if total > best:
                best = total
                places = numpy.argsort(order)
                self.means, self.covariances = means[places], covariances[places]

    def _map(self, rows: list[list[float]]) -> list[list[float]]:
        logs = log_densities(numpy.array([base.logarithms(row) for row in rows]), self.means, self.covariances)
        return [softmax(row) for row in logs.tolist()]


def shares_of_nearest(points: Any, centres: Any) -> Any:
    """Return the start of a fit: after ten rounds of k-means, each point belongs to the nearest centre (one-hot)."""
    for _ in range(10):
        nearest = ((points[:, None, :] - centres[None]) ** 2).sum(-1).argmin(1)
        shares = numpy.eye(len(centres))[nearest]
        sizes = shares.sum(0)[:, None]
        centres = numpy.where(sizes > 0, (shares.T @ points) / numpy.maximum(sizes, 1), centres)
    return shares


def log_densities(points: Any, means: Any, covariances: Any) -> Any:
    """Return the logarithm of the normal density of each point (n, d) under each component: (n, components)."""
    densities = []
    for mean, covariance in zip(means, covariances, strict=True):
        factor = numpy.linalg.cholesky(covariance)
        white = numpy.linalg.solve(factor, (points - mean).T)
        constant = len(mean) * math.log(2 * math.pi) + 2 * numpy.log(numpy.diag(factor)).sum()
        densities.append(-0.5 * (constant + (white**2).sum(0)))
    return numpy.stack(densities, 1)


def fit_mixture(points: Any, shares: Any) -> tuple[Any, Any]:
    """Fit a Gaussian mixture by expectation maximisation, until the mean log-likelihood changes by less than 1e-3.

    Args:
        points: Array (n, d).
        shares: The share of each component in each point at the start (n, components).

    Returns:
        Means (components, d) and covariances (components, d, d), with 1e-6 added to their diagonals.
    """
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
    matrix, rows, columns = numpy.asarray(costs, float), numpy.zeros(size), numpy.zeros(size + 1)  # and potentials
    owner = numpy.full(size + 1, -1)  # the row of each column; the last column is the start of a path
    for row in range(size):
        owner[size], column = row, size
        slack, came_from = numpy.full(size, math.inf), numpy.zeros(size, int)
        done = numpy.zeros(size + 1, bool)
        while owner[column] >= 0:
            done[column], current = True, owner[column]
            reduced = matrix[current] - rows[current] - columns[:size]
            nearer = ~done[:size] & (reduced < slack)
            slack[nearer], came_from[nearer] = reduced[nearer], column
            column = int(numpy.where(done[:size], math.inf, slack).argmin())
            delta = slack[column]
            rows[owner[done]] += delta
            columns[done] -= delta
            slack[~done[:size]] -= delta
        while column < size:
            owner[column], column = owner[came_from[column]], int(came_from[column])
    order: list[int] = numpy.argsort(owner[:size]).tolist()
    return order


PROTOTYPICAL_CALIBRATION = base.calibration_method(PrototypicalCalibration, "Prototypical calibration", MixtureOptions)
