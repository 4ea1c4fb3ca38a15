"""Gaussian mixtures, fitted by expectation maximisation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from StaICC.methods.packed_features import numpy

MAX_STEPS = 100
"""Steps of a fit at most, as scikit-learn's default."""
TOLERANCE = 1e-3
"""A fit ends when the mean log-likelihood changes by less, as scikit-learn's default."""
RIDGE = 1e-6
"""Added to the diagonals of covariances, as scikit-learn's default: they stay invertible."""
CLUSTERING_ROUNDS = 10
"""Rounds of k-means that make the start of a fit."""


class Mixture(NamedTuple):
    """The components of a mixture."""

    means: Any
    """Array (components, d)."""
    covariances: Any
    """Array (components, d, d)."""


def shares_of_nearest(points: Any, centres: Any) -> Any:
    """Return the start of a fit: after some rounds of k-means, each point belongs to the nearest centre.

    Args:
        points: Array (n, d).
        centres: The first centres (components, d).

    Returns:
        Array (n, components) with a 1 in each row.
    """
    for _ in range(CLUSTERING_ROUNDS):
        squared_distances = ((points[:, None, :] - centres[None]) ** 2).sum(-1)
        shares = numpy.eye(len(centres))[squared_distances.argmin(1)]
        sizes = shares.sum(0)[:, None]
        means = (shares.T @ points) / numpy.maximum(sizes, 1)
        centres = numpy.where(sizes > 0, means, centres)  # an empty cluster keeps its centre
    return shares


def log_densities(points: Any, means: Any, covariances: Any) -> Any:
    r"""Return the logarithm of the normal density of each point under each component.

    :math:`\log N(x) = -\frac 1 2 \left(d \log 2 \pi + \log \det \Sigma + (x - \mu)^T \Sigma^{-1} (x - \mu)\right)`,
    with the Cholesky factor :math:`L` of :math:`\Sigma`: the last term is :math:`\lVert L^{-1} (x - \mu) \rVert^2`.

    Args:
        points: Array (n, d).
        means: Array (components, d).
        covariances: Array (components, d, d).

    Returns:
        Array (n, components).
    """
    densities = []
    for mean, covariance in zip(means, covariances, strict=True):
        factor = numpy.linalg.cholesky(covariance)
        whitened = numpy.linalg.solve(factor, (points - mean).T)
        log_determinant = 2 * numpy.log(numpy.diag(factor)).sum()
        constant = len(mean) * math.log(2 * math.pi) + log_determinant
        densities.append(-0.5 * (constant + (whitened**2).sum(0)))
    return numpy.stack(densities, 1)


def fit_mixture(points: Any, shares: Any) -> Mixture:
    r"""Fit a Gaussian mixture to points by expectation maximisation (Bishop 2006, section 9.2.2).

    The share :math:`s_{nc}` of component c in point n and the parameters of the components are computed in turns. With
    the mean share :math:`\pi_c`, the mean :math:`\mu_c` and the covariance :math:`\Sigma_c` of a component::

        s_nc = pi_c N(x_n; mu_c, Sigma_c) / sum over b of pi_b N(x_n; mu_b, Sigma_b)

    The fit ends when the mean log-likelihood of the points, that of the sum, changes by less than :data:`TOLERANCE`.

    Args:
        points: Array (n, d).
        shares: The share of each component in each point at the start (n, components).
    """
    mixture = _components(points, shares)
    likelihood_before = -math.inf
    for _ in range(MAX_STEPS):
        mean_shares = _sizes(shares) / len(points)  # pi
        logs = log_densities(points, *mixture) + numpy.log(mean_shares)  # of the numerators (n, components)
        largest = logs.max(1, keepdims=True)  # so that exp does not underflow
        totals = largest + numpy.log(numpy.exp(logs - largest).sum(1, keepdims=True))  # of the sums (n, 1)
        shares = numpy.exp(logs - totals)
        mixture = _components(points, shares)
        likelihood = float(totals.mean())
        if abs(likelihood - likelihood_before) < TOLERANCE:
            break
        likelihood_before = likelihood
    return mixture


def _sizes(shares: Any) -> Any:
    """Return the sum of the shares of each component: its number of points, and a bit more, so that it is never 0.

    The addition is that of scikit-learn.
    """
    return shares.sum(0) + 10 * numpy.finfo(float).eps


def _components(points: Any, shares: Any) -> Mixture:
    """Return the weighted mean and covariance of the points of each component."""
    sizes = _sizes(shares)
    means = (shares.T @ points) / sizes[:, None]
    centred = points[None] - means[:, None]
    covariances = numpy.einsum("nc,cnd,cne->cde", shares, centred, centred) / sizes[:, None, None]
    covariances += RIDGE * numpy.eye(points.shape[1])
    return Mixture(means, covariances)
