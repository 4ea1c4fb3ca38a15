"""Two short and two long methods compared with their papers' formulas, written here with NumPy alone.

A made-up model gives random scores for each prompt, so a method that asks another prompt or computes another number has
other predictions. What is shared with the library are the prompts and the random draws, not the arithmetic.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest

from StaICC.methods.run import Method
from StaICC.methods.training_prompts import content_free_prompts, labelled_prompts
from StaICC.prompting.stable_random import StableRandom
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of

TOLERANCE = 1e-9


class Sharpened(Kernel):
    """The same model with other random scores."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def logits(self, prompt: str, *features: str) -> Any:
        return self.factor * super().logits(prompt, *features)


FACTORS = [0.3, 1.0, 1.7]
"""Scores that are nearly uniform, and scores that are nearly certain."""


def predicted(name: str, kernel: Kernel, benchmark: Any, **options: Any) -> Any:
    result: Any = Method(name, kernel, calibration_number=40, **options).run(benchmark, return_outputs=True)
    return numpy.array(predictions_of(result))


def probabilities(kernel: Kernel, prompts: list[str], labels: list[str]) -> Any:
    return numpy.array([kernel(prompt, labels) for prompt in prompts])


@pytest.mark.parametrize("factor", FACTORS)
def test_topk_shows_the_rows_with_the_nearest_encodings(factor: float) -> None:
    """Liu et al. 2022, algorithm 1: the k rows with the smallest ||v_i - v_test||, by increasing distance."""
    kernel = Sharpened(factor)
    experimentor = benchmark_on_mini(k=3, limit=8)[0]
    pool = experimentor.demonstration_set()
    encodings = kernel.hidden_states([" ".join(pool.texts(row)) for row in range(len(pool))]).astype(float)
    prompts = []
    for query in range(8):
        texts = experimentor.test_set().texts(query)
        difference = encodings - kernel.hidden_states([" ".join(texts)]).astype(float)
        distances = numpy.sqrt(numpy.sum(difference**2, axis=1))
        nearest = numpy.argsort(distances, kind="stable")[:3]
        shown = [pool[int(row)] for row in nearest]
        prompts.append(experimentor.prompt_former.write_prompt_from_dataline(shown, list(texts)))
    expected = probabilities(kernel, prompts, experimentor.get_label_space())
    assert numpy.abs(predicted("topk", kernel, benchmark_on_mini(k=3, limit=8)) - expected).max() <= TOLERANCE


@pytest.mark.parametrize("factor", FACTORS)
def test_the_ensemble_over_orders_is_the_mean_of_the_predictions(factor: float) -> None:
    """P(y | x) = mean over orders of P(y | x, demonstrations in this order); all 6 orders of 3 demonstrations."""
    kernel = Sharpened(factor)
    experimentor = benchmark_on_mini(k=3, limit=8)[0]
    pool = experimentor.demonstration_set()
    expected = []
    for query, demonstrations in enumerate(experimentor.demonstration_lists()[:8]):
        prompts = []
        for order in itertools.permutations(demonstrations):
            shown = [pool[row] for row in order]
            texts = experimentor.test_set().texts(query)
            prompts.append(experimentor.prompt_former.write_prompt_from_dataline(shown, list(texts)))
        expected.append(probabilities(kernel, prompts, experimentor.get_label_space()).mean(axis=0))
    found = predicted("permutation_ensemble", kernel, benchmark_on_mini(k=3, limit=8), orders=6)
    assert numpy.abs(found - numpy.array(expected)).max() <= TOLERANCE


@pytest.mark.parametrize("factor", FACTORS)
def test_linear_calibration_is_a_probe_trained_by_gradient_descent(factor: float) -> None:
    """Abbas et al. 2024: softmax(A p + b), A from diag(p_cf)^-1 and b from 0, SGD on the cross-entropy."""
    kernel = Sharpened(factor)
    benchmark = benchmark_on_mini(k=2, limit=8)
    method = Method("linear_calibration", kernel, calibration_number=40, learning_rate=0.05, epochs=7)
    data = method.started(benchmark[0]).data
    labels = data.label_space
    training_prompts, truth = labelled_prompts(data)
    p = probabilities(kernel, training_prompts, labels)
    content_free = probabilities(kernel, content_free_prompts(data), labels)

    matrix = numpy.diag(1.0 / content_free.mean(axis=0))
    bias = numpy.zeros(len(labels))
    generator = StableRandom()
    for _ in range(7):
        for row in generator.sample_indexes(len(p), len(p)):
            scores = matrix @ p[row] + bias
            q = numpy.exp(scores - scores.max())
            gradient = q / q.sum() - numpy.eye(len(labels))[truth[row]]
            matrix = matrix - 0.05 * numpy.outer(gradient, p[row])
            bias = bias - 0.05 * gradient

    test = probabilities(kernel, benchmark[0].prompt_set(), labels)
    odds = numpy.exp(test @ matrix.T + bias)
    expected = odds / odds.sum(axis=1, keepdims=True)
    found = predicted("linear_calibration", kernel, benchmark, learning_rate=0.05, epochs=7)
    assert numpy.abs(found - expected).max() <= TOLERANCE


def normal_densities(points: Any, means: Any, covariances: Any) -> Any:
    """Return exp(-(x - mu)^T Sigma^-1 (x - mu) / 2) / sqrt((2 pi)^d det Sigma): array (points, components)."""
    columns = []
    for mean, covariance in zip(means, covariances, strict=True):
        centred = points - mean
        exponents = -0.5 * numpy.einsum("nd,de,ne->n", centred, numpy.linalg.inv(covariance), centred)
        norm = numpy.sqrt((2 * numpy.pi) ** len(mean) * numpy.linalg.det(covariance))
        columns.append(numpy.exp(exponents) / norm)
    return numpy.stack(columns, axis=1)


def maximised(points: Any, shares: Any) -> Any:
    """Weights, means and covariances of the components: the M step, with scikit-learn's 1e-6 on the diagonal."""
    sizes = shares.sum(axis=0)
    means = (shares.T @ points) / sizes[:, None]
    covariances = []
    for component, mean in enumerate(means):
        centred = points - mean
        covariance = (shares[:, component, None] * centred).T @ centred / sizes[component]
        covariances.append(covariance + 1e-6 * numpy.eye(points.shape[1]))
    return sizes / len(points), means, numpy.array(covariances)


def clustered(points: Any, centres: Any) -> Any:
    """Ten rounds of k-means, by which a fit begins."""
    for _ in range(10):
        belongs = numpy.array([[numpy.sum((x - c) ** 2) for c in centres] for x in points]).argmin(axis=1)
        centres = numpy.array(
            [points[belongs == c].mean(axis=0) if (belongs == c).any() else centres[c] for c in range(len(centres))]
        )
    return numpy.eye(len(centres))[belongs]


@pytest.mark.parametrize("factor", FACTORS)
def test_prototypical_calibration_is_a_mixture_whose_components_are_assigned_to_labels(factor: float) -> None:
    """Han et al. 2023, equations 2 to 6: a mixture of log p, the assignment of the largest sum of means, posteriors."""
    kernel = Sharpened(factor)
    benchmark = benchmark_on_mini(k=2, limit=8)
    data = Method("prototypical_calibration", kernel, calibration_number=40).started(benchmark[0]).data
    labels = data.label_space
    training_prompts, _ = labelled_prompts(data)
    points = numpy.log(probabilities(kernel, training_prompts, labels))
    generator = StableRandom()

    best = None
    for _ in range(5):
        centres = points[generator.sample_indexes(len(points), len(labels))]
        weights, means, covariances = maximised(points, clustered(points, centres))
        before = -numpy.inf
        for _ in range(100):
            joint = weights * normal_densities(points, means, covariances)
            likelihood = numpy.log(joint.sum(axis=1)).mean()
            weights, means, covariances = maximised(points, joint / joint.sum(axis=1, keepdims=True))
            if abs(likelihood - before) < 1e-3:
                break
            before = likelihood
        for of_label in itertools.permutations(range(len(labels))):  # the component of each label
            total = sum(means[component, label] for label, component in enumerate(of_label))
            if best is None or total > best[0] + 1e-12:
                best = (total, means[list(of_label)], covariances[list(of_label)])
    assert best is not None

    test = numpy.log(probabilities(kernel, benchmark[0].prompt_set(), labels))
    densities = normal_densities(test, best[1], best[2])
    expected = densities / densities.sum(axis=1, keepdims=True)
    found = predicted("prototypical_calibration", kernel, benchmark, restarts=5)
    assert numpy.abs(found - expected).max() <= TOLERANCE
