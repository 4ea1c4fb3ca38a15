"""Temperature scaling, linear and prototypical calibration, DC-PMI and ensembles against independent oracles."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.methods.calibration import (
    DomainPMI,
    LinearCalibration,
    PrototypicalCalibration,
    TemperatureScaling,
)
from StaICC.methods.calibration.neighbours import assignment, fit_mixture, log_densities
from StaICC.methods.run import Method
from StaICC.prompting import sample_demonstrations
from tests.methods.fakes import Kernel, mini, rows_of


def rows(number: int, width: int = 3, seed: int = 0, sharpness: float = 2.0) -> tuple[list[list[float]], list[int]]:
    """Predictions that are right more often than not, and too certain."""
    generator = numpy.random.default_rng(seed)
    labels = [int(label) for label in generator.integers(0, width, number)]
    logits = generator.normal(0, sharpness, (number, width))
    logits[range(number), labels] += 1.5
    powers = numpy.exp(logits)
    return (powers / powers.sum(1, keepdims=True)).tolist(), labels


def trained(made: Any, data: list[list[float]], labels: list[int]) -> Any:
    made.learn(data, labels)
    made.trained = True
    return made


# -- temperature scaling


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sharpness", [0.3, 2.0, 6.0])
def test_temperature_is_scipys(seed: int, sharpness: float) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    data, labels = rows(60, seed=seed, sharpness=sharpness)
    made = trained(TemperatureScaling(["a", "b", "c"]), data, labels)

    def loss(temperature: float) -> float:
        logits = numpy.log(data) / temperature
        return float((numpy.logaddexp.reduce(logits, 1) - logits[range(60), labels]).sum())

    predicted = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert loss(made.temperature) <= predicted.fun + 1e-8
    if 0.1 < predicted.x < 19:
        assert made.temperature == pytest.approx(predicted.x, rel=1e-4)
    expected = numpy.exp(numpy.log(data) / made.temperature)
    assert numpy.allclose(made.apply(data), expected / expected.sum(1, keepdims=True), atol=1e-12)


# -- linear calibration


def torchs(free: Any, data: Any, labels: Any, rate: float, epochs: int) -> tuple[Any, Any]:
    """The rows through torch's SGD and cross-entropy, in double precision.

    The training of mominabbass/LinC (run_classification.py, eval_accuracy), which computes in single precision.
    """
    torch = pytest.importorskip("torch")
    from StaICC.prompting import StableRandom

    prior = torch.tensor(free, dtype=torch.float64).mean(0)
    weights = torch.diag(1 / prior).requires_grad_()
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights, bias], lr=rate)
    generator = StableRandom()
    for _ in range(epochs):
        for place in generator.sample_indexes(len(data), len(data)):
            optimizer.zero_grad()
            scores = weights @ torch.tensor(data[place], dtype=torch.float64) + bias
            torch.nn.functional.cross_entropy(scores[None], torch.tensor([labels[place]])).backward()
            optimizer.step()
    return weights.detach().numpy(), bias.detach().numpy()


def probabilities(data: Any, weights: Any, bias: Any) -> Any:
    scores = numpy.array(data) @ numpy.array(weights).T + bias
    expected = numpy.exp(scores - scores.max(1, keepdims=True))
    return expected / expected.sum(1, keepdims=True)


def test_linear_calibration_is_torchs() -> None:
    data, labels = rows(20)
    free = rows(6, seed=5)[0]
    made = trained(LinearCalibration(["a", "b", "c"], 0.05, 7), free + data, [-1] * 6 + labels)
    weights, bias = torchs(free, data, labels, 0.05, 7)
    assert numpy.allclose(made.weights, weights, atol=1e-10)
    assert numpy.allclose(made.bias, bias, atol=1e-10)
    assert numpy.allclose(made.apply(data), probabilities(data, made.weights, made.bias), atol=1e-12)


@pytest.mark.parametrize(("seed", "rates"), [(1, [0.003]), (4, [0.05, 0.15])])
def test_step_and_epochs_of_linear_calibration_are_those_that_predict_left_out_rows_best(
    seed: int, rates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("StaICC.methods.calibration.prior.RATES", tuple(rates))
    monkeypatch.setattr("StaICC.methods.calibration.prior.EPOCHS", (1, 4))
    data, labels = rows(13, seed=seed)
    free = rows(6, seed=5)[0]
    losses = {}
    for rate in rates:
        for epochs in (1, 4):
            loss = 0.0
            for fold in range(5):
                kept = [place for place in range(13) if place % 5 != fold]
                probe = torchs(free, [data[n] for n in kept], [labels[n] for n in kept], rate, epochs)
                left_out = range(fold, 13, 5)
                found = probabilities([data[n] for n in left_out], *probe)
                loss -= sum(math.log(row[labels[n]]) for row, n in zip(found, left_out, strict=True))
            losses[rate, epochs] = loss
    made = trained(LinearCalibration(["a", "b", "c"]), free + data, [-1] * 6 + labels)
    best = min(losses, key=losses.__getitem__)
    assert numpy.allclose(made.weights, torchs(free, data, labels, *best)[0], atol=1e-9)
    assert len(set(losses.values())) == len(losses)
    given = trained(LinearCalibration(["a", "b", "c"], *best), free + data, [-1] * 6 + labels)
    assert given.weights == made.weights


# -- prototypical calibration


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_assignment_is_the_best_of_all(size: int, seed: int) -> None:
    costs = numpy.random.default_rng(seed).integers(-9, 9, (size, size)).tolist()
    predicted = assignment(costs)
    assert sorted(predicted) == list(range(size))
    best = min(sum(costs[row][column] for row, column in enumerate(p)) for p in itertools.permutations(range(size)))
    assert sum(costs[row][column] for row, column in enumerate(predicted)) == best


def sklearns_mixture(points: Any, shares: Any) -> Any:
    """Scikit-learn's mixture (tolerance 1e-3, 100 iterations), begun with the given shares of components in points."""
    mixture = pytest.importorskip("sklearn.mixture")
    sizes = shares.sum(0)
    means = (shares.T @ points) / sizes[:, None]
    precisions = []
    for component, mean in enumerate(means):
        centred = points - mean
        covariance = (shares[:, component] * centred.T) @ centred / sizes[component]
        precisions.append(numpy.linalg.inv(covariance + 1e-6 * numpy.eye(points.shape[1])))
    weights = sizes / sizes.sum()
    begun = mixture.GaussianMixture(len(means), means_init=means, precisions_init=precisions, weights_init=weights)
    return begun.fit(points)


@pytest.mark.parametrize("spread", [0.6, 1.5])
def test_mixture_is_scikit_learns(spread: float) -> None:
    """From the same start, expectation maximisation ends after the same step; densities are SciPy's."""
    stats = pytest.importorskip("scipy.stats")
    generator = numpy.random.default_rng(1)
    points = numpy.concatenate([generator.normal(mean, spread, (50, 2)) for mean in ((0, 0), (3, 1), (0, 4))])
    shares = numpy.eye(3)[numpy.repeat([0, 1, 2], 50)]
    means, covariances = fit_mixture(points, shares)
    predicted = sklearns_mixture(points, shares)
    assert numpy.allclose(predicted.means_, means, atol=1e-8)
    assert numpy.allclose(predicted.covariances_, covariances, atol=1e-8)
    logs = log_densities(points, means, covariances)
    for label in range(3):
        expected = stats.multivariate_normal(means[label], covariances[label]).logpdf(points)
        assert numpy.allclose(logs[:, label], expected)


@pytest.mark.parametrize("width", [2, 4])
def test_prototypes_are_the_authors(width: int) -> None:
    """The fit whose means suit the labels best, and its posterior with equal weights.

    As in the authors' script (``GaussianMixturewTarget`` and ``eval_accuracy``, method ``gmm_train_estimate``): each
    fit is scikit-learn's, the assignment is that of the largest sum of means, and of all fits the largest sum counts.
    """
    optimize = pytest.importorskip("scipy.optimize")
    from StaICC.methods.calibration.neighbours import shares_of_nearest
    from StaICC.prompting import StableRandom

    data, other = numpy.array(rows(60, width, 4)[0]), rows(40, width, 9)[0]
    labels = [str(label) for label in range(width)]
    made = trained(PrototypicalCalibration(labels, restarts=6), data.tolist(), [0] * 60)
    points, generator, fits = numpy.log(data), StableRandom(), []
    for _ in range(6):
        start = points[generator.sample_indexes(60, width)]
        fit = sklearns_mixture(points, shares_of_nearest(points, start))
        components, assigned = optimize.linear_sum_assignment(1 - fit.means_)
        fits.append((fit.means_[components, assigned].sum(), fit, assigned))
    _, best, assigned = max(fits, key=lambda fit: fit[0])
    best.weights_ = numpy.full(width, 0.5)
    expected = numpy.zeros((40, width))
    expected[:, assigned] = best.predict_proba(numpy.log(other))
    assert numpy.allclose(made.apply(other), expected, atol=1e-8)


# -- DC-PMI


@given(st.lists(st.floats(-30, 0), min_size=3, max_size=3), st.lists(st.floats(-30, 0), min_size=3, max_size=3))
def test_dc_pmi_is_the_authors(given_prompt: list[float], given_premise: list[float]) -> None:
    """Largest difference of cross-entropies (peterwestuw/surface-form-competition, inference_autobatch).

    The authors take log-probabilities over the vocabulary, we those over the labels: a constant of each prompt.
    """
    score = numpy.array(given_prompt) - numpy.array(given_premise)
    shares = [(numpy.exp(row) / numpy.exp(row).sum()).tolist() for row in (given_premise, given_prompt)]
    (predicted,) = trained(DomainPMI(["a", "b", "c"]), shares[:1], []).apply(shares[1:])
    assert predicted == pytest.approx((numpy.exp(score - score.max()) / numpy.exp(score - score.max()).sum()).tolist())


# -- ensembles


def test_ensemble_is_the_mean_over_its_lists() -> None:
    benchmark, kernel = mini(), Kernel()
    result = Method("ensemble", kernel, sets=3).run(benchmark, return_outputs=True)
    experimentor, labels, size = benchmark[0], benchmark[0].get_label_space(), len(benchmark[0].test_set())
    lists = sample_demonstrations(len(experimentor.demonstration_set()), 2, 3 * size)
    prompts = [
        [experimentor.prompt_former.write_prompt(list(lists[size * number + row]), row) for number in range(3)]
        for row in range(4)
    ]
    assert [row[0] for row in prompts] + [row[1] for row in prompts] == experimentor.prompt_set()
    for row, predicted in zip(prompts, rows_of(result), strict=True):
        members = [kernel(prompt, labels) for prompt in row]
        assert predicted == pytest.approx(numpy.mean(members, axis=0).tolist())
    assert result.timing["test_prompts"] == 12
    single = Method("ensemble", kernel, sets=1).run(benchmark, return_outputs=True)
    assert rows_of(single) == rows_of(benchmark(kernel, return_outputs=True))[:4]
    templates = Kernel()
    assert Method("ensemble", templates, sets=1, templates=3).run(benchmark).complete
    assert len(set(templates.ran)) == 3 * 4
    assert Method("ensemble", kernel, sets=2, templates=9).run(benchmark).complete
    assert Method("ensemble", kernel, sets=1, templates=2).run(mini(k=0)).complete
