r"""Prototypical calibration (Han et al. 2023, "Prototypical Calibration for Few-shot Learning of Language Models").

A Gaussian mixture with one component for each label is fitted to the log-probabilities of unlabelled prompts. The
component :math:`c` belongs to the label :math:`\pi(c)` of the assignment that maximises :math:`\sum_c \mu_{c, \pi(c)}`;
of several fits the one with the largest sum counts. Probabilities are the posterior of the components with equal
weights, as in the authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import TooFewRowsError
from StaICC.methods.assignment import assignment
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.gaussian_mixture import fit_mixture, log_densities, shares_of_nearest
from StaICC.methods.label_scores import ReadAs, logarithms, probabilities_as, training_probabilities
from StaICC.methods.learned_state import LABELS, Array, learned
from StaICC.methods.packed_features import numpy
from StaICC.methods.trained_calibration import Calibration, TrainingPrompts, TrainingRows, calibrate
from StaICC.methods.training_prompts import TrainingSource, labelled_prompts
from StaICC.metrics.classification import softmax
from StaICC.prompting.stable_random import StableRandom

RESTARTS = 100
"""Fits of the authors."""


@dataclass(frozen=True, slots=True)
class MixtureOptions:
    """Options of prototypical calibration."""

    restarts: int = RESTARTS
    """Fits of the mixture, from different starts."""


@dataclass(frozen=True, eq=False)
class MixtureState:
    """The component of each label."""

    means: Array = learned(LABELS, LABELS, array=True)
    covariances: Array = learned(LABELS, LABELS, LABELS, array=True)
    read_as: ReadAs = "probabilities"
    """What the predictions were read as."""


def learn(rows: Sequence[Any], label_space: Sequence[str], restarts: int) -> MixtureState:
    r"""Fit a Gaussian mixture to predictions, and return the component that belongs to each label.

    The mixture has as many components as there are labels. Components are assigned to labels so that
    :math:`\sum_c \mu_{c, \pi(c)}` is largest: the mean of the component c in the direction of its label. Of several
    fits, the one with the largest sum is returned.

    Args:
        rows: The predictions for calibration prompts.
        label_space: The labels.
        restarts: How many fits, from different starts.

    Raises:
        TooFewRowsError: There are no more rows than labels.
    """
    width = len(label_space)
    probabilities, read_as = training_probabilities(rows, width)
    if len(probabilities) <= width:
        raise TooFewRowsError(
            f"got {len(probabilities)} calibration samples, expected more than the {width} components that are fitted "
            "to them. Raise calibration_number"
        )
    points = numpy.array([logarithms(row) for row in probabilities])
    generator = StableRandom()
    best_total = -math.inf
    for _ in range(restarts):
        centres = points[generator.sample_indexes(len(points), width)]
        mixture = fit_mixture(points, shares_of_nearest(points, centres))
        costs = -mixture.means  # of each label (column) for each component (row): assignment takes the smallest sum
        label_of_component = assignment(costs.tolist())
        total = math.fsum(mixture.means[component, label] for component, label in enumerate(label_of_component))
        if total > best_total:
            best_total = total
            component_of_label = numpy.argsort(label_of_component)
            means = mixture.means[component_of_label]
            covariances = mixture.covariances[component_of_label]
    return MixtureState(means, covariances, read_as)


def apply(state: MixtureState, rows: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
    """Return for each prediction the posterior probability of the component of each label, with equal weights."""
    probabilities = probabilities_as(rows, len(label_space), state.read_as)
    points = numpy.array([logarithms(row) for row in probabilities])
    densities = log_densities(points, state.means, state.covariances)
    return [softmax(row) for row in densities.tolist()]


def _write_prompts(source: TrainingSource) -> TrainingPrompts:
    """Write prompts about rows of the calibration set, whose predictions are clustered."""
    prompts, labels = labelled_prompts(source)
    return TrainingPrompts(labelled=prompts, labels=labels)


def _learn(restarts: int, rows: TrainingRows, label_space: Sequence[str]) -> MixtureState:
    """Return the Gaussian mixture that is learned from the predictions, the best of ``restarts`` fits."""
    return learn(rows.labelled, label_space, restarts)


def prototypical(restarts: int = RESTARTS) -> Calibration:
    """Return the calibration.

    Args:
        restarts: How many fits, from different starts.
    """
    restarts = validate_integer("restarts", restarts, 1)
    return Calibration(MixtureState, _write_prompts, partial(_learn, restarts), apply)


def prototypical_calibration(data: MethodData) -> Steps:
    """Predict the label whose component is most probable."""
    return (yield from calibrate(data, prototypical(data.options.restarts)))


PROTOTYPICAL_CALIBRATION = MethodSpec(
    "prototypical_calibration", "Prototypical calibration", prototypical_calibration, options=MixtureOptions
)
