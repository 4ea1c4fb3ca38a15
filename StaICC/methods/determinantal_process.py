"""Determinantal point processes: sets whose members are relevant, but not similar to each other.

The probability of a set ``S`` is proportional to the determinant of the rows and columns ``S`` of a matrix ``L``, the
kernel.

Ye et al. 2023, "Compositional Exemplars for In-context Learning" (CEIL): the kernel. Chen et al. 2018, "Fast Greedy MAP
Inference for Determinantal Point Process": the search.
"""

from __future__ import annotations

import math
from typing import Any

from StaICC.methods.packed_features import numpy

SCALE = 0.1
"""The weight of diversity against relevance, lambda in CEIL; 0.1 as in the authors' code."""

LEAST_GAIN = 1e-10
"""A factor of the determinant below which candidates add nothing, as in the authors' code."""


def quality_similarity_kernel(relevance: Any, similarity: Any, scale: float = SCALE) -> Any:
    """Return the kernel matrix of CEIL.

    With the cosines ``r`` to the query and ``s`` between candidates, both mapped to 0 to 1 by ``(cosine + 1) / 2``::

        L[i, j] = exp(r[i] / (2 * scale)) * s[i, j] * exp(r[j] / (2 * scale))

    The largest ``r`` is subtracted from all, which multiplies all determinants of a size by the same number.

    Args:
        relevance: The cosine of each candidate to the query, array (n,).
        similarity: The cosine of each candidate to each other, array (n, n).
        scale: A larger one makes relevance count less.

    Returns:
        Array (n, n).
    """
    relevance = (relevance + 1) / 2
    quality = numpy.exp((relevance - relevance.max()) / (2 * scale))
    return quality[:, None] * (similarity + 1) / 2 * quality[None, :]


def greedy_map(kernel: Any, count: int) -> list[int]:
    """Return a set with a large determinant, found one member after the other.

    Each time, the candidate is added with which the determinant is largest. The determinant with ``i`` is that without
    it times ``gain[i]``, the squared diagonal element of ``i`` in the Cholesky factor of the set with ``i``. When the
    candidate ``best`` is added, the factor gets a new row, computed from the rows found so far::

        new_row[i] = (kernel[best, i] - factors[:, best] @ factors[:, i]) / sqrt(gain[best])
        gain[i]    = gain[i] - new_row[i] ** 2

    Args:
        kernel: Symmetric array (n, n) without negative eigenvalues.
        count: How many; n at most.

    Returns:
        The members in the order chosen; of equals, the first. Where no candidate enlarges the set's volume (all others
        are copies of members), the rest are the first candidates.
    """
    size = len(kernel)
    gain = numpy.diag(kernel).astype(float)  # the factor of the determinant that each candidate adds
    factors = numpy.zeros((0, size))  # a row for each chosen one
    chosen: list[int] = []
    while len(chosen) < min(count, size):
        best = int(gain.argmax())
        if chosen and gain[best] < LEAST_GAIN:  # every candidate is a copy of members
            remaining = [candidate for candidate in range(size) if candidate not in chosen]
            return chosen + remaining[: count - len(chosen)]
        new_row = (kernel[best] - factors[:, best] @ factors) / math.sqrt(gain[best])
        factors = numpy.vstack([factors, new_row])
        gain = gain - new_row**2
        gain[best] = -math.inf  # it cannot be chosen again
        chosen.append(best)
    return chosen
