"""Temperature scaling, linear and prototypical calibration, DC-PMI and ensembles against independent oracles."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC import Normal
from StaICC.benchmarks import DemonstrationSensitivity, TemplateSensitivity
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.calibration import (
    DomainPMI,
    LinearCalibration,
    PrototypicalCalibration,
    TemperatureScaling,
    load_calibration,
)
from StaICC.methods.calibration.neighbours import assignment, fit_mixture, log_densities
from StaICC.methods.run import Method
from StaICC.prompting import sample_demonstrations
from tests.methods.fakes import Kernel, mini, rows_of

FITTED = ["temperature_scaling", "linear_calibration", "prototypical_calibration", "dc_pmi"]
simplex = st.lists(st.floats(1e-6, 1), min_size=3, max_size=3).map(lambda row: [x / math.fsum(row) for x in row])


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


@given(st.lists(simplex, min_size=2, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_temperature_never_changes_a_prediction(data: list[list[float]], drawn: Any) -> None:
    labels = drawn.draw(st.lists(st.integers(0, 2), min_size=len(data), max_size=len(data)))
    made = trained(TemperatureScaling(["a", "b", "c"]), data, labels)
    tied = [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.3, math.nextafter(0.35, 1), 0.35], [1.0, 0.0, 0.0]]
    for row, scaled in zip(data + tied, made.apply(data + tied), strict=True):
        assert scaled.index(max(scaled)) == row.index(max(row))
        assert math.fsum(scaled) == pytest.approx(1)


def test_temperature_stays_in_its_bounds() -> None:
    """All right: as sharp as allowed; all wrong: as flat as allowed; one class; a label of probability 0."""
    right = trained(TemperatureScaling(["a", "b"]), [[0.9, 0.1]] * 4, [0] * 4)
    wrong = trained(TemperatureScaling(["a", "b"]), [[0.9, 0.1]] * 4, [1] * 4)
    assert 0.05 < right.temperature < 0.07  # there the loss is 0 in double precision
    assert wrong.temperature == pytest.approx(20, rel=1e-6)
    assert trained(TemperatureScaling(["a"]), [[1.0]] * 2, [0, 0]).apply([[1.0]]) == [[1.0]]
    zero = trained(TemperatureScaling(["a", "b"]), [[1.0, 0.0], [0.0, 1.0]], [1, 1])
    assert all(math.isfinite(value) for row in zero.apply([[1.0, 0.0]]) for value in row)


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
    monkeypatch.setattr("StaICC.methods.calibration.linear.RATES", tuple(rates))
    monkeypatch.setattr("StaICC.methods.calibration.linear.EPOCHS", (1, 4))
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


def test_linear_calibration_without_training_is_contextual_calibration() -> None:
    free, data = rows(5)[0], rows(8, seed=2)[0]
    made = trained(LinearCalibration(["a", "b", "c"], epochs=0), free + data, [-1] * 5 + [0] * 8)
    prior = numpy.mean(free, axis=0)
    weights = numpy.exp(numpy.array(data) / prior)
    assert numpy.allclose(made.apply(data), weights / weights.sum(1, keepdims=True))
    for bad in (0, -1.0, math.nan, math.inf, "x"):
        with pytest.raises(ArgumentError, match="learning_rate"):
            LinearCalibration(["a"], bad)
    with pytest.raises(ArgumentError, match="epochs"):
        LinearCalibration(["a"], epochs=-1)


# -- prototypical calibration


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_assignment_is_the_best_of_all(size: int, seed: int) -> None:
    costs = numpy.random.default_rng(seed).integers(-9, 9, (size, size)).tolist()
    predicted = assignment(costs)
    assert sorted(predicted) == list(range(size))
    best = min(sum(costs[row][column] for row, column in enumerate(p)) for p in itertools.permutations(range(size)))
    assert sum(costs[row][column] for row, column in enumerate(predicted)) == best


def test_assignment_is_scipys_on_large_problems() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    costs = numpy.random.default_rng(0).normal(size=(77, 77))
    assert assignment(costs.tolist()) == optimize.linear_sum_assignment(costs)[1].tolist()


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
    made = trained(PrototypicalCalibration(labels, restarts=12), data.tolist(), [0] * 60)
    points, generator, fits = numpy.log(data), StableRandom(), []
    for _ in range(12):
        start = points[generator.sample_indexes(60, width)]
        fit = sklearns_mixture(points, shares_of_nearest(points, start))
        components, assigned = optimize.linear_sum_assignment(1 - fit.means_)
        fits.append((fit.means_[components, assigned].sum(), fit, assigned))
    _, best, assigned = max(fits, key=lambda fit: fit[0])
    best.weights_ = numpy.full(width, 0.5)
    expected = numpy.zeros((40, width))
    expected[:, assigned] = best.predict_proba(numpy.log(other))
    assert numpy.allclose(made.apply(other), expected, atol=1e-8)


def test_prototypes_find_labels_behind_a_bias() -> None:
    """The model always prefers the first label, yet less where it is wrong: clusters separate what argmax cannot."""
    generator = numpy.random.default_rng(3)
    truth = [0] * 40 + [1] * 40
    share = numpy.where(numpy.array(truth) == 0, 0.95, 0.7) + generator.normal(0, 0.02, 80).clip(-0.04, 0.04)
    data = [[float(value), 1 - float(value)] for value in share]
    assert all(row[0] > row[1] for row in data)
    made = trained(PrototypicalCalibration(["a", "b"], restarts=10), data, [0] * 80)  # labels are not used
    predicted = [row.index(max(row)) for row in made.apply(data)]
    assert numpy.mean(numpy.array(predicted) == truth) > 0.95
    again = trained(PrototypicalCalibration(["a", "b"], restarts=10), data, truth)
    assert numpy.array_equal(again.means, made.means)
    # equal weights: the posterior is the softmax of the densities
    logs = log_densities(numpy.log(data), made.means, made.covariances)
    expected = numpy.exp(logs - numpy.logaddexp.reduce(logs, 1)[:, None])
    assert numpy.allclose(made.apply(data), expected, atol=1e-9)


def test_prototypes_of_degenerate_samples() -> None:
    with pytest.raises(ArgumentError, match="got 3 calibration samples, expected more than the 3"):
        trained(PrototypicalCalibration(["a", "b", "c"]), rows(3)[0], [0] * 3)
    same = trained(PrototypicalCalibration(["a", "b"], restarts=3), [[0.7, 0.3]] * 6, [0] * 6)
    assert all(math.isfinite(value) for value in same.apply([[0.7, 0.3], [1.0, 0.0]])[1])


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


def test_dc_pmi_is_the_quotient_by_the_premise() -> None:
    experimentor, kernel = Normal(k=2, datasets=["mini"], limit=5)[0], PPMKernel()
    labels = experimentor.get_label_space()
    result = Method("dc_pmi", kernel).run(Normal(k=2, datasets=["mini"], limit=5), return_outputs=True)
    template = experimentor.prompt_former.settings.template
    premise = template.input_text_affixes[-1] + template.label_prefix
    assert premise.startswith(" ")  # kept, as in the premises of the authors' data_loaders.py
    prior = numpy.array(kernel(premise, labels))
    for prompt, record in zip(experimentor.prompt_set(), result.outputs["mini"], strict=True):
        ratio = numpy.array(kernel(prompt, labels)) / prior
        assert record["predicted_probabilities"] == pytest.approx((ratio / ratio.sum()).tolist())
    assert result.timing["training_prompts"] == 1
    own = Method("dc_pmi", kernel, premise="The topic is ").run(Normal(k=2, datasets=["mini"], limit=5))
    assert own.signature != result.signature
    made = DomainPMI(["a", "b"])
    with pytest.raises(ArgumentError, match="no text between query and label"):
        made.train(lambda demonstrations, query: query[0], lambda prompt, label_space: [0.5, 0.5], [(["x"], 0)])


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


def test_ensemble_goes_on_with_what_it_has_and_refuses_what_it_cannot_do() -> None:
    counted = Kernel()
    Method("ensemble", counted, sets=3).run(mini())
    lost = counted.ran[0]
    losing = Kernel(fails=lambda _, prompt: OutputError("gone") if prompt == lost else None)
    result = Method("ensemble", losing, sets=3).run(mini(), on_error="collect", return_outputs=True)
    assert result.details["mini"].failed == 0
    others = [prompt for prompt in counted.ran if prompt != lost and prompt.split("\n")[-1] == lost.split("\n")[-1]]
    members = [counted(prompt, mini()[0].get_label_space()) for prompt in others]
    assert len(members) == 2
    row = next(number for number, prompt in enumerate(mini()[0].prompt_set()) if prompt.endswith(lost.split("\n")[-1]))
    assert rows_of(result)[row] == pytest.approx(numpy.mean(members, axis=0).tolist())
    kernel = PPMKernel()
    with pytest.raises(ArgumentError, match="no demonstrations to vary"):
        Method("ensemble", kernel).run(Normal(k=0, datasets=["mini"], limit=2))
    with pytest.raises(ArgumentError, match="templates must be an integer from 1 to 9"):
        Method("ensemble", kernel, templates=10).run(Normal(datasets=["mini"], limit=2))
    with pytest.raises(ArgumentError, match="Demo_sens needs several"):
        Method("ensemble", kernel).run(DemonstrationSensitivity(k=2, datasets=["mini"], limit=2))
    with pytest.raises(ArgumentError, match="Template_sens sets the template itself"):
        Method("ensemble", kernel, templates=2).run(TemplateSensitivity(k=2, datasets=["mini"], limit=2))
    assert Method("ensemble", kernel, sets=2).run(TemplateSensitivity(k=2, datasets=["mini"], limit=2)).complete


# -- all


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("k", [0, 2])
def test_they_run_on_every_kind_of_scores(name: str, k: int) -> None:
    """Probabilities and logits are read alike; a single query; an accuracy that temperature leaves alone."""
    benchmark = Normal(k=k, datasets=["mini"], limit=1)
    kernel = PPMKernel()

    def logits(prompt: str, label_space: list[str]) -> list[float]:
        return [math.log(value) for value in kernel(prompt, label_space)]

    predicted = [
        Method(name, function, calibration_number=12).run(benchmark, return_outputs=True)
        for function in (kernel, logits)
    ]
    for first, second in zip(*(result.outputs["mini"] for result in predicted), strict=True):
        assert first["predicted_probabilities"] == pytest.approx(second["predicted_probabilities"], abs=1e-6)


@pytest.mark.parametrize("made", [TemperatureScaling, LinearCalibration, PrototypicalCalibration, DomainPMI])
@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_saved_and_loaded(made: Any, suffix: str, tmp_path: Path) -> None:
    data, labels = rows(12)
    calibration = trained(made(["a", "b", "c"]), data, labels)
    calibration.save(tmp_path / f"one.{suffix}")
    again = load_calibration(tmp_path / f"one.{suffix}")
    assert type(again) is made
    assert again.apply(data) == calibration.apply(data)
    assert again.digest() == calibration.digest()


@pytest.mark.parametrize("made", [TemperatureScaling, LinearCalibration, PrototypicalCalibration, DomainPMI])
def test_invalid_predictions_are_named(made: Any) -> None:
    for bad in ([[math.nan, 1.0]] * 6, [1] * 6, ["a"] * 6, [[0.2, 0.3, 0.5]] * 6):
        with pytest.raises(OutputError):
            made(["a", "b"]).learn(bad, [0] * 6)
    with pytest.raises(ArgumentError, match="not trained"):
        made(["a", "b"]).apply([[0.5, 0.5]])
