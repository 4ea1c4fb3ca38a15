"""Prototypical calibration (Han et al. 2023): a Gaussian mixture with one component for each label."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, validate_integer
from StaICC.methods.calibration.base import KINDS, LABELS, FittedCalibration, calibration_method, logarithms
from StaICC.methods.specification import option
from StaICC.metrics import softmax
from StaICC.optional import require
from StaICC.prompting import StableRandom


@dataclass(frozen=True, slots=True)
class MixtureOptions:
    """Options of prototypical calibration."""

    restarts: int = option(100, "Fits of the mixture, from different starts.")


class PrototypicalCalibration(FittedCalibration):
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
    options: ClassVar[tuple[str, ...]] = ("restarts",)
    state: ClassVar[Mapping[str, Any]] = {
        "means": (LABELS, LABELS),
        "covariances": (LABELS, LABELS, LABELS),
        "kind": KINDS,
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
            raise ArgumentError(
                f"got {len(rows)} calibration samples, expected more than the {self.n_label} components that are "
                "fitted to them. Raise calibration_number"
            )
        numpy = _numpy()
        points = numpy.array([logarithms(row) for row in rows])
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
        numpy = _numpy()
        logs = log_densities(numpy.array([logarithms(row) for row in rows]), self.means, self.covariances)
        return [softmax(row) for row in logs.tolist()]


def shares_of_nearest(points: Any, centres: Any) -> Any:
    """Return the start of a fit: after ten rounds of k-means, each point belongs to the nearest centre (one-hot)."""
    numpy = _numpy()
    for _ in range(10):
        nearest = ((points[:, None, :] - centres[None]) ** 2).sum(-1).argmin(1)
        shares = numpy.eye(len(centres))[nearest]
        sizes = shares.sum(0)[:, None]
        centres = numpy.where(sizes > 0, (shares.T @ points) / numpy.maximum(sizes, 1), centres)
    return shares


def log_densities(points: Any, means: Any, covariances: Any) -> Any:
    """Return the logarithm of the normal density of each point (n, d) under each component: (n, components)."""
    numpy = _numpy()
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
    numpy = _numpy()
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
    columns_of_rows = [0] * size
    for column in range(1, size + 1):
        columns_of_rows[owner[column] - 1] = column - 1
    return columns_of_rows


def _numpy() -> Any:
    return require("numpy", "hf", "a Gaussian mixture")


PROTOTYPICAL_CALIBRATION = calibration_method(PrototypicalCalibration, "Prototypical calibration", MixtureOptions)
