"""Two short and two long methods compared with their papers' formulas, written here with NumPy alone.

A made-up model gives random scores for each prompt, so a method that asks another prompt or computes another number has
other predictions. What is shared with the library are the prompts and the random draws, not the arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import pytest

from StaICC.methods.run import Method
from StaICC.methods.training_prompts import content_free_prompts, labelled_prompts
from StaICC.prompting.stable_random import StableRandom
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of

TOLERANCE = 1e-9


class ScaledKernel(Kernel):
    """A made-up model whose logits are multiplied by a factor: with a large one, it is nearly certain."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def logits(self, prompt: str, *features: str) -> Any:
        return self.factor * super().logits(prompt, *features)


FACTORS = [0.3, 1.0, 1.7]
"""For scores that are nearly uniform, and for scores that are nearly certain."""
"""Scores that are nearly uniform, and scores that are nearly certain."""


def predicted_by_method(name: str, kernel: Kernel, benchmark: Any, **options: Any) -> Any:
    """Return the probabilities that a method predicts: array (queries, labels)."""
    result: Any = Method(name, kernel, calibration_number=40, **options).run(benchmark, return_outputs=True)
    return numpy.array(predictions_of(result))


def probabilities(kernel: Kernel, prompts: list[str], labels: list[str]) -> Any:
    """Return the probabilities that the model itself predicts: array (prompts, labels)."""
    return numpy.array([kernel(prompt, labels) for prompt in prompts])


def softmax(scores: Any) -> Any:
    """Return exp(s_y) / sum over y' of exp(s_y'), for each row of scores."""
    powers = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("factor", FACTORS)
def test_topk_shows_the_rows_with_the_nearest_encodings(factor: float) -> None:
    """Liu et al. 2022, algorithm 1: the k rows with the smallest ||v_i - v_test||, by increasing distance."""
    kernel = ScaledKernel(factor)
    benchmark = benchmark_on_mini(k=3, limit=8)
    experimentor = benchmark[0]
    pool = experimentor.demonstration_set()
    pool_texts = [" ".join(pool.texts(row)) for row in range(len(pool))]
    pool_encodings = kernel.hidden_states(pool_texts).astype(float)

    prompts = []
    for query in range(8):
        query_texts = experimentor.test_set().texts(query)
        query_encoding = kernel.hidden_states([" ".join(query_texts)]).astype(float)
        distances = numpy.linalg.norm(pool_encodings - query_encoding, axis=1)
        nearest_rows = numpy.argsort(distances, kind="stable")[:3].tolist()
        demonstrations = [pool[row] for row in nearest_rows]
        prompts.append(experimentor.prompt_former.write_prompt_from_dataline(demonstrations, list(query_texts)))
    expected = probabilities(kernel, prompts, experimentor.get_label_space())

    predicted = predicted_by_method("topk", kernel, benchmark)

    assert numpy.abs(predicted - expected).max() <= TOLERANCE


@pytest.mark.parametrize("factor", FACTORS)
def test_the_ensemble_over_orders_is_the_mean_of_the_predictions(factor: float) -> None:
    """P(y | x) = mean over orders of P(y | x, demonstrations in this order); all 6 orders of 3 demonstrations."""
    kernel = ScaledKernel(factor)
    benchmark = benchmark_on_mini(k=3, limit=8)
    experimentor = benchmark[0]
    pool = experimentor.demonstration_set()

    expected = []
    for query in range(8):
        query_texts = list(experimentor.test_set().texts(query))
        positions = experimentor.demonstration_lists()[query]
        prompts = []
        for order in itertools.permutations(positions):
            demonstrations = [pool[row] for row in order]
            prompts.append(experimentor.prompt_former.write_prompt_from_dataline(demonstrations, query_texts))
        expected.append(probabilities(kernel, prompts, experimentor.get_label_space()).mean(axis=0))

    predicted = predicted_by_method("permutation_ensemble", kernel, benchmark, orders=6)

    assert numpy.abs(predicted - numpy.array(expected)).max() <= TOLERANCE


class Linear(NamedTuple):
    """A linear calibration: softmax(A p + b)."""

    a: Any
    b: Any


def train_linear_calibration(
    rows: Any, true_labels: Sequence[int], content_free: Any, rate: float, epochs: int
) -> Linear:
    """Minimise the cross-entropy by gradient descent, one row after the other, in a random order in each epoch.

    A begins as diag(p_cf)^-1, with the mean content-free probabilities p_cf, and b as 0. The gradient of the
    cross-entropy is (q - e_y) p^T by A and q - e_y by b, where q = softmax(A p + b) and e_y is one for the true label.
    """
    n_labels = rows.shape[1]
    a = numpy.diag(1.0 / content_free.mean(axis=0))
    b = numpy.zeros(n_labels)
    generator = StableRandom()
    for _ in range(epochs):
        for row in generator.sample_indexes(len(rows), len(rows)):
            p = rows[row]
            q = softmax(a @ p + b)
            e_y = numpy.eye(n_labels)[true_labels[row]]
            a = a - rate * numpy.outer(q - e_y, p)
            b = b - rate * (q - e_y)
    return Linear(a, b)


@pytest.mark.parametrize("factor", FACTORS)
def test_linear_calibration_is_a_probe_trained_by_gradient_descent(factor: float) -> None:
    """Abbas et al. 2024."""
    kernel = ScaledKernel(factor)
    benchmark = benchmark_on_mini(k=2, limit=8)
    options = {"learning_rate": 0.05, "epochs": 7}
    data = Method("linear_calibration", kernel, calibration_number=40, **options).started(benchmark[0]).data
    training_prompts, true_labels = labelled_prompts(data)
    training_rows = probabilities(kernel, training_prompts, data.label_space)
    content_free = probabilities(kernel, content_free_prompts(data), data.label_space)
    linear = train_linear_calibration(training_rows, true_labels, content_free, rate=0.05, epochs=7)
    test_rows = probabilities(kernel, benchmark[0].prompt_set(), data.label_space)
    expected = softmax(test_rows @ linear.a.T + linear.b)

    predicted = predicted_by_method("linear_calibration", kernel, benchmark, **options)

    assert numpy.abs(predicted - expected).max() <= TOLERANCE


class Mixture(NamedTuple):
    """A mixture of normal distributions."""

    weights: Any
    means: Any
    covariances: Any


def normal_densities(points: Any, means: Any, covariances: Any) -> Any:
    """Return exp(-(x - mu)^T Sigma^-1 (x - mu) / 2) / sqrt((2 pi)^d det Sigma): array (points, components)."""
    densities = numpy.zeros((len(points), len(means)))
    for component, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        inverse = numpy.linalg.inv(covariance)
        norm = numpy.sqrt((2 * numpy.pi) ** len(mean) * numpy.linalg.det(covariance))
        for index, x in enumerate(points):
            exponent = -0.5 * (x - mean) @ inverse @ (x - mean)
            densities[index, component] = numpy.exp(exponent) / norm
    return densities


def maximise(points: Any, shares: Any) -> Mixture:
    """Return the mixture of the M step, given the share of each component in each point: array (points, components).

    The diagonal of a covariance gets 1e-6 more, as in scikit-learn.
    """
    sizes = shares.sum(axis=0)
    means = (shares.T @ points) / sizes[:, None]
    covariances = []
    for component, mean in enumerate(means):
        centred = points - mean
        covariance = (shares[:, component, None] * centred).T @ centred / sizes[component]
        covariances.append(covariance + 1e-6 * numpy.eye(points.shape[1]))
    return Mixture(sizes / len(points), means, numpy.array(covariances))


def k_means(points: Any, centres: Any) -> Any:
    """Return to which cluster each point belongs after ten rounds of k-means, as rows of 0 and 1.

    The centre of a cluster without points stays.
    """
    n_clusters = len(centres)
    for _ in range(10):
        distances = numpy.linalg.norm(points[:, None] - centres[None], axis=2)
        cluster_of_point = distances.argmin(axis=1)
        for cluster in range(n_clusters):
            points_of_cluster = points[cluster_of_point == cluster]
            if len(points_of_cluster) > 0:
                centres[cluster] = points_of_cluster.mean(axis=0)
    return numpy.eye(n_clusters)[cluster_of_point]


def fit_mixture(points: Any, centres: Any) -> Mixture:
    """Fit a mixture by expectation maximisation: at most 100 steps, until the mean log-likelihood gains under 1e-3."""
    mixture = maximise(points, k_means(points, centres))
    likelihood_before = -numpy.inf
    for _ in range(100):
        joint = mixture.weights * normal_densities(points, mixture.means, mixture.covariances)
        likelihood = numpy.log(joint.sum(axis=1)).mean()
        mixture = maximise(points, joint / joint.sum(axis=1, keepdims=True))
        if abs(likelihood - likelihood_before) < 1e-3:
            break
        likelihood_before = likelihood
    return mixture


@pytest.mark.parametrize("factor", FACTORS)
def test_prototypical_calibration_is_a_mixture_whose_components_are_assigned_to_labels(factor: float) -> None:
    """Han et al. 2023, equations 2 to 6: a mixture of log p, the assignment of the largest sum of means, posteriors."""
    kernel = ScaledKernel(factor)
    benchmark = benchmark_on_mini(k=2, limit=8)
    data = Method("prototypical_calibration", kernel, calibration_number=40).started(benchmark[0]).data
    training_prompts, _ = labelled_prompts(data)
    points = numpy.log(probabilities(kernel, training_prompts, data.label_space))
    labels = range(len(data.label_space))

    generator = StableRandom()
    largest_sum_of_means = -numpy.inf
    for _ in range(5):
        mixture = fit_mixture(points, points[generator.sample_indexes(len(points), len(labels))])
        for component_of_label in itertools.permutations(labels):
            sum_of_means = sum(mixture.means[component_of_label[label], label] for label in labels)
            if sum_of_means > largest_sum_of_means + 1e-12:
                largest_sum_of_means = sum_of_means
                means = mixture.means[list(component_of_label)]
                covariances = mixture.covariances[list(component_of_label)]

    test_points = numpy.log(probabilities(kernel, benchmark[0].prompt_set(), data.label_space))
    densities = normal_densities(test_points, means, covariances)
    expected = densities / densities.sum(axis=1, keepdims=True)

    predicted = predicted_by_method("prototypical_calibration", kernel, benchmark, restarts=5)

    assert numpy.abs(predicted - expected).max() <= TOLERANCE
