"""Calibrations against cases worked by hand and independent oracles, and everything that must be refused."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.inference.identity import Identity
from StaICC.methods import linear_calibration, prototypical_calibration, temperature_scaling
from StaICC.methods.assignment import assignment
from StaICC.methods.gaussian_mixture import fit_mixture, log_densities, shares_of_nearest
from StaICC.methods.label_prior import PriorState, corrected_by_prior, learn_prior
from StaICC.methods.nearness import kullback_leibler
from StaICC.methods.released.calibrations import (
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    KNNPrompting,
    KNNPromptingCentroid,
)
from StaICC.methods.run import Method
from StaICC.prefabricate_inference import standard_calibration as sc
from StaICC.prompting.demonstrations import sample_demonstrations
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of

LABELS = ["no", "yes"]
ROWS = [([f"t{i} u{i} v{i}"], i % 2) for i in range(10)]


def write(demonstrations: list[Any], query: list[str]) -> str:
    """A prompt that shows what it was made of."""
    shown = [f"{texts[0]}={label}" for texts, label in demonstrations]
    return " / ".join([*shown, query[0]])


def answers(*rows: list[float]) -> Callable[..., Any]:
    """An inference function that gives the rows in turn."""
    given = iter(rows * 1000)
    return lambda prompt, label_space: next(given)


class Numbered:
    """A kernel whose states and logits are made from the query's number by a function."""

    def __init__(self, row: Callable[[int], list[float]]) -> None:
        self.row = row
        self.asked: list[str] = []

    def identity(self) -> Identity:
        return Identity({"model": "kernel"})

    def _all(self, prompts: list[str]) -> Any:
        self.asked += prompts
        return numpy.array([self.row(int(prompt.split(" / ")[-1].split()[0][1:])) for prompt in prompts])

    hidden_states = full_vocabulary_logits = _all

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return [0.5, 0.5]


# -- contextual and domain calibration


def softmax(*values: float) -> list[float]:
    return [math.exp(value) / math.fsum(map(math.exp, values)) for value in values]


@pytest.mark.parametrize(
    ("name", "variant", "learned", "prior", "row", "expected"),
    [
        # W p = (0.7 / 0.7, 0.3 / 0.3) = (1, 1)
        ("contextual", "paper", ([0.8, 0.2], [0.6, 0.4]), [0.7, 0.3], [0.7, 0.3], [0.5, 0.5]),
        ("contextual", "paper", ([0.8, 0.2], [0.6, 0.4]), [0.7, 0.3], [0.35, 0.65], softmax(0.35 / 0.7, 0.65 / 0.3)),
        # the release adds 1e-5 to the sums: (1.4 + 1e-5) / 2
        ("contextual", "0.1.1", ([0.8, 0.2], [0.6, 0.4]), [0.700005, 0.300005], [0.700005, 0.300005], [0.5, 0.5]),
        # 0.6 / 0.8 : 0.4 / 0.2 = 0.75 : 2 = 3 : 8
        ("domain", "paper", ([0.8, 0.2],) * 3, [0.8, 0.2], [0.6, 0.4], [3 / 11, 8 / 11]),
        ("domain", "0.1.1", ([0.8, 0.2],), [0.80001, 0.20001], [0.6, 0.4], softmax(0.6 / 0.80001, 0.4 / 0.20001)),
    ],
)
def test_priors_by_hand(name: str, variant: str, learned: Any, prior: Any, row: Any, expected: Any) -> None:
    made = getattr(sc, f"{name}_calibration")(LABELS, variant=variant)
    more = {"sample_length": 4} if name == "domain" else {}
    made.train(write, answers(*learned), ROWS, calibration_number=len(learned), k=1, **more)
    assert made.prior == pytest.approx(prior, abs=1e-12)
    assert made.inference(row) == made(row, None, None) == pytest.approx(expected)
    own = type("Own", (type(made),), {"inference": lambda self, *given: given})(LABELS)
    assert own(row, None, None) == (row, None, None)


def test_a_prior_of_zero_is_refused() -> None:
    made = sc.contextual_calibration(LABELS, variant="paper")
    with pytest.raises(OutputError, match="probability 0"):
        made.train(write, answers([1.0, 0.0]), ROWS, calibration_number=2, k=1)


def test_logits_are_read_as_in_training() -> None:
    """Logits (0, ln 3) are probabilities (1/4, 3/4), also for a row that alone could be probabilities."""
    made = DomainCalibration(LABELS)
    made.train(write, answers([0.0, math.log(3)], [0.0, -5.0]), ROWS, calibration_number=2, k=0)
    made.state = PriorState((0.25, 0.75), made.state.read_as)
    assert made.inference([0.0, math.log(3)]) == pytest.approx([0.5, 0.5])
    weights = [1 / (1 + math.e) / 0.25, math.e / (1 + math.e) / 0.75]
    assert made.inference([0.0, 1.0]) == pytest.approx([w / sum(weights) for w in weights])


@given(
    prior=st.lists(st.floats(0.01, 1), min_size=3, max_size=3), row=st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
)
def test_what_the_model_says_of_nothing_becomes_uniform(prior: list[float], row: list[float]) -> None:
    prior, row = [p / sum(prior) for p in prior], [p / sum(row) for p in row]
    for kind in (ContextualCalibration, DomainCalibration):
        made = kind(["a", "b", "c"])
        made.train(write, answers(prior), ROWS, calibration_number=1, k=0)
        assert made.inference(prior) == pytest.approx([1 / 3] * 3)
        rows = made.inference(row)
        assert math.fsum(rows) == pytest.approx(1)
        ratio = [value / base for value, base in zip(row, prior, strict=True)]
        assert rows.index(max(rows)) == pytest.approx(ratio.index(max(ratio))) or math.isclose(
            sorted(ratio)[-1], sorted(ratio)[-2]
        )


# -- batch calibration


def test_batch_by_hand() -> None:
    """Mean (0.6, 0.4): 0.8 / 0.6 : 0.2 / 0.4 = 8 : 3, and 0.2 / 0.6 : 0.8 / 0.4 = 1 : 6. Of the last two 1 : 1."""
    rows = [[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]]
    calibrated = [*sc.batch_calibration(rows), sc.batch_calibration(rows, batch_size=2)[2]]
    assert numpy.allclose(calibrated, [[8 / 11, 3 / 11]] * 2 + [[1 / 7, 6 / 7], [0.2, 0.8]])
    with pytest.raises(ArgumentError, match="over batches of 1 makes every prediction uniform"):
        sc.batch_calibration([[0.8, 0.2]])


def test_released_batch_by_hand() -> None:
    """Mean (0.6, 0.4): softmax(0.2, -0.2). The single row of the last batch becomes uniform: so does the release."""
    rows = sc.batch_calibration([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], batch_size=2, variant="0.1.1")
    top = 1 / (1 + math.exp(-0.4))
    assert rows == [pytest.approx([top, 1 - top]), pytest.approx([1 - top, top]), [0.5, 0.5]]


@given(st.lists(st.lists(st.floats(0.01, 1), min_size=2, max_size=2), min_size=2, max_size=9))
def test_batch_is_invariant_to_a_bias_of_the_labels(rows: list[list[float]]) -> None:
    """Multiplying each label's probability by a constant, without renormalising, changes nothing in one batch."""
    rows = [[value / sum(row) for value in row] for row in rows]
    calibrated = sc.batch_calibration(rows)
    for row, other in zip(rows, calibrated, strict=True):
        assert math.fsum(other) == pytest.approx(1)
        mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        assert (other[0] > other[1]) is (row[0] / mean[0] > row[1] / mean[1]) or other[0] == pytest.approx(other[1])


# -- hidden calibration and k nearest neighbours


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_hidden_by_hand(variant: str) -> None:
    """Centroids (0, c0) and (4, c1); a state at distances d0 and d1 has probabilities softmax(-d0, -d1)."""
    made = HiddenCalibration(LABELS, variant=variant)
    kernel = Numbered(lambda number: [4.0 * (number % 2), 0.0])
    made.train(write, kernel, ROWS, calibration_number=6, k=1, **({"per_label": 1} if variant == "paper" else {}))
    assert (made.centroid.tolist(), made.training_prompts) == ([[0.0, 0.0], [4.0, 0.0]], 2 if variant == "paper" else 6)
    odds = math.exp(-5.0) / math.exp(-3.0)
    assert made.inference(None, None, [0.0, 3.0]) == pytest.approx([1 / (1 + odds), odds / (1 + odds)])
    assert made([0.9, 0.1], None, [4.0, 0.0]) == pytest.approx([1 / (1 + math.exp(4)), 1 / (1 + math.exp(-4))])


def logits(number: int) -> list[float]:
    """Distributions (3/4, 1/4) after rows of label 0, (1/4, 3/4) after rows of label 1."""
    return [math.log(3), 0.0] if number % 2 == 0 else [0.0, math.log(3)]


def test_knn_by_hand() -> None:
    """Of three anchors of each kind, the three with the smaller divergence vote: all for the label."""
    made = KNNPrompting(LABELS)
    made.train(write, Numbered(logits), ROWS, calibration_number=10, k=1)
    assert made.anchors[0].tolist() == pytest.approx([0.75, 0.25] if made.labels[0] == 0 else [0.25, 0.75])
    assert made.inference(None, [2.0, 0.0]) == [1.0, 0.0]
    assert made.inference(None, [0.0, 2.0]) == [0.0, 1.0]
    for nearest, expected in ((1, [1.0, 0.0]), (10, [0.5, 0.5])):
        other = KNNPrompting(LABELS, knn_k=nearest)
        other.train(write, Numbered(logits), ROWS, calibration_number=10, k=1)
        assert other.inference(None, [2.0, 0.0]) == expected


def test_divergence_by_hand() -> None:
    anchors = numpy.array([[0.75, 0.25], [1.0, 0.0]])
    rows = kullback_leibler(numpy.log([[0.5, 0.5], [0.25, 0.75]]), anchors)
    first = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert rows[0].tolist() == pytest.approx([first, math.log(2)])  # 0 log 0 = 0
    assert rows[1].tolist() == pytest.approx([0.75 * math.log(0.75 / 0.25) + 0.25 * math.log(0.25 / 0.75), math.log(4)])
    assert kullback_leibler(numpy.log(anchors[:1]), anchors[:1])[0, 0] == pytest.approx(0, abs=1e-15)


def test_knn_released_by_hand() -> None:
    """Votes are counted and then softmaxed: three votes of three give softmax(3, 0)."""
    made = sc.knn_prompt(LABELS, 3, variant="0.1.1")
    made.train(write, Numbered(logits), ROWS, calibration_number=10, k=1)
    assert made.inference(None, [math.log(3), 0.0]) == pytest.approx([1 / (1 + math.exp(-3)), 1 / (1 + math.exp(3))])


def test_knn_centroid_by_hand() -> None:
    """Mean distributions (3/4, 1/4) and (1/4, 3/4); divergences to the uniform one are equal, to the first 0 and d."""
    made = KNNPromptingCentroid(LABELS)
    made.train(write, Numbered(logits), ROWS, calibration_number=10, k=1)
    assert made.inference(None, [7.0, 7.0]) == pytest.approx([0.5, 0.5])
    d = 0.25 * math.log(0.25 / 0.75) + 0.75 * math.log(0.75 / 0.25)
    assert made.inference(None, [math.log(3), 0.0]) == pytest.approx([1 / (1 + math.exp(-d)), 1 / (1 + math.exp(d))])
    released = sc.knn_prompt_centroid(LABELS, variant="0.1.1")
    released.train(write, Numbered(logits), ROWS, calibration_number=10, k=1)
    d = math.sqrt(2) * math.log(3)
    assert released.inference(None, [math.log(3), 0.0])[0] == pytest.approx(1 / (1 + math.exp(-d)))


# -- asking, saving, joining to a kernel


def all_trained() -> list[Any]:
    prior = [ContextualCalibration(LABELS), DomainCalibration(LABELS, variant="0.1.1")]
    for made in prior:
        made.train(write, answers([0.8, 0.2]), ROWS, calibration_number=3)
    near = [HiddenCalibration(LABELS), KNNPrompting(LABELS, 5), KNNPromptingCentroid(LABELS, variant="0.1.1")]
    for other in near:
        other.train(write, Numbered(logits), ROWS, calibration_number=10)
    failed = HiddenCalibration(["no", "yes", "perhaps"], variant="0.1.1")
    with pytest.warns(UserWarning, match="none of the 10 training prompts has the label 'perhaps'"):
        failed.train(write, Numbered(logits), ROWS, calibration_number=10)
    return [*prior, *near, failed]


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_saved_and_loaded(tmp_path: Path, suffix: str) -> None:
    for made in all_trained():
        path = tmp_path / f"{made.name}.{suffix}"
        made.save(path)
        again = type(made).load(path)
        row = [0.3, 0.7] if made.n_label == 2 else [0.3, 0.6, 0.1]
        assert again.inference(row, [1.0, 0.5], [1.0, 0.5]) == made.inference(row, [1.0, 0.5], [1.0, 0.5])
        assert (again.digest(), again.training_prompts) == (made.digest(), made.training_prompts)
        assert b"pickle" not in path.read_bytes()


def test_files_that_are_refused(tmp_path: Path) -> None:
    made, _, hidden, *_ = all_trained()
    path = tmp_path / "made.json"
    made.save(path)
    with pytest.raises(SchemaError, match="holds a contextual_calibration, not a hidden_calibration"):
        HiddenCalibration.load(path)
    whole = json.loads(path.read_text())
    for change, message in [
        ({"format": 99}, "format 99"),
        ({"facts": whole["facts"] | {"calibration": "cotextual"}}, "no calibration 'cotextual'"),
        ({"facts": whole["facts"] | {"calibration": "hidden_calibration"}}, "has a CentroidState: got a PriorState"),
        ({"state": "Other"}, "holds a Other, expected"),
        ({"values": {"prior": [0.5], "read_as": "probabilities"}}, "does not fit"),
        ({"values": {"prior": [0.5, 0.5], "read_as": "guesses"}}, "got 'guesses', expected"),
        ({"values": {}}, "expected .'prior', 'read_as'."),
        ({"label_space": []}, "cannot be read"),
        ({"label_space": "no"}, "expected a list of texts"),
        ({"format": True}, "expected a number from 1"),
        ({"format": -1}, "expected a number from 1"),
        ({"values": {"prior": [0.0, 1.0], "read_as": "probabilities"}}, "prior: got 0.0, expected positive numbers"),
        ({"values": {"prior": [-0.5, 1.5], "read_as": "probabilities"}}, "prior: got -0.5, expected positive numbers"),
    ]:
        path.write_text(json.dumps(whole | change))
        with pytest.raises(SchemaError, match=message):
            sc.load_calibration(path)
    for text in ("", "[]", '{"format": NaN}', "PK"):
        path.write_text(text)
        with pytest.raises(SchemaError, match=r"made\.json"):
            sc.load_calibration(path)
    evil = tmp_path / "evil.npz"
    numpy.savez(evil, head=numpy.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(SchemaError, match="cannot be read"):
        sc.load_calibration(evil)
    hidden.save(tmp_path / "hidden.npz")
    data = (tmp_path / "hidden.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(SchemaError, match="cannot be read"):
        sc.load_calibration(tmp_path / "cut.npz")
    anchors = all_trained()[3]
    anchors.save(path)
    whole = json.loads(path.read_text())
    whole["values"]["labels"][0] = len(LABELS)
    path.write_text(json.dumps(whole))
    with pytest.raises(SchemaError, match="got the label index 2, the label space has 2"):
        sc.load_calibration(path)
    with pytest.raises(ArgumentError, match="not trained"):
        HiddenCalibration(LABELS).save(tmp_path / "none.json")


def test_calibrated_kernel() -> None:
    kernel = Numbered(logits)
    joined = sc.CalibratedKernel(kernel, all_trained()[2])
    prompts = [f"t{i}" for i in range(300)]  # more than are held at once
    assert joined.batch(prompts, LABELS) == [joined(prompt, LABELS) for prompt in prompts]
    assert joined.identity().who["model"] == "kernel"
    assert joined.identity().who["calibration learned"] == all_trained()[2].digest()
    assert joined.identity().settings["calibration name"] == "hidden_calibration"
    assert {"calibration labels", "calibration learned"}.isdisjoint(joined.identity().settings)
    assert joined.identity().digest != sc.CalibratedKernel(kernel, all_trained()[3]).identity().digest
    with pytest.raises(ArgumentError, match="was trained on the labels"):
        joined.batch(["t1"], ["yes", "no"])
    for made in all_trained():
        with pytest.raises(ArgumentError, match="got None for"):
            made.inference(None)
        for use in (lambda new: sc.CalibratedKernel(kernel, new), lambda new: new([0.5, 0.5], [0.0], [0.0])):
            with pytest.raises(ArgumentError, match="not trained"):
                use(type(made)(LABELS))


# -- temperature scaling, linear and prototypical calibration, DC-PMI and ensembles against independent oracles


def rows(number: int, width: int = 3, seed: int = 0, sharpness: float = 2.0) -> tuple[list[list[float]], list[int]]:
    """Predictions that are right more often than not, and too certain."""
    generator = numpy.random.default_rng(seed)
    labels = [int(label) for label in generator.integers(0, width, number)]
    logits = generator.normal(0, sharpness, (number, width))
    logits[range(number), labels] += 1.5
    powers = numpy.exp(logits)
    return (powers / powers.sum(1, keepdims=True)).tolist(), labels


THREE = ["a", "b", "c"]


# -- temperature scaling


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sharpness", [0.3, 2.0, 6.0])
def test_temperature_is_scipys(seed: int, sharpness: float) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    data, labels = rows(60, seed=seed, sharpness=sharpness)
    state = temperature_scaling.learn(data, labels, THREE)

    def loss(temperature: float) -> float:
        logits = numpy.log(data) / temperature
        return float((numpy.logaddexp.reduce(logits, 1) - logits[range(60), labels]).sum())

    predicted = optimize.minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})
    assert loss(state.temperature) <= predicted.fun + 1e-8
    if 0.1 < predicted.x < 19:
        assert state.temperature == pytest.approx(predicted.x, rel=1e-4)
    expected = numpy.exp(numpy.log(data) / state.temperature)
    ours = temperature_scaling.apply(state, data, THREE)
    assert numpy.allclose(ours, expected / expected.sum(1, keepdims=True), atol=1e-12)
    close = [0.5, math.nextafter(0.5, 1.0), 0.0]  # equal after the division
    hottest = temperature_scaling.TemperatureState(20.0)
    assert numpy.argmax(temperature_scaling.apply(hottest, [close], THREE)[0]) == 1


# -- linear calibration


def torchs(free: Any, data: Any, labels: Any, rate: float, epochs: int) -> tuple[Any, Any]:
    """The rows through torch's SGD and cross-entropy, in double precision.

    The training of mominabbass/LinC (run_classification.py, eval_accuracy), which computes in single precision.
    """
    torch = pytest.importorskip("torch")
    from StaICC.prompting.stable_random import StableRandom

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
    state = linear_calibration.learn(free, data, labels, THREE, 0.05, 7)
    weights, bias = torchs(free, data, labels, 0.05, 7)
    assert numpy.allclose(state.weights, weights, atol=1e-10)
    assert numpy.allclose(state.bias, bias, atol=1e-10)
    ours = linear_calibration.apply(state, data, THREE)
    assert numpy.allclose(ours, probabilities(data, state.weights, state.bias), atol=1e-12)


@pytest.mark.parametrize(("seed", "rates"), [(1, [0.003]), (4, [0.05, 0.15])])
def test_step_and_epochs_of_linear_calibration_are_those_that_predict_left_out_rows_best(
    seed: int, rates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("StaICC.methods.linear_calibration.RATES", tuple(rates))
    monkeypatch.setattr("StaICC.methods.linear_calibration.EPOCHS", (1, 4))
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
    state = linear_calibration.learn(free, data, labels, THREE)
    best = min(losses, key=losses.__getitem__)
    assert numpy.allclose(state.weights, torchs(free, data, labels, *best)[0], atol=1e-9)
    assert len(set(losses.values())) == len(losses)
    assert linear_calibration.learn(free, data, labels, THREE, *best) == state


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


@pytest.mark.parametrize("width", [2, 3, 4])
def test_prototypes_are_the_authors(width: int) -> None:
    """The fit whose means suit the labels best, and its posterior with equal weights.

    As in the authors' script (``GaussianMixturewTarget`` and ``eval_accuracy``, method ``gmm_train_estimate``): each
    fit is scikit-learn's, the assignment is that of the largest sum of means, and of all fits the largest sum counts.
    """
    optimize = pytest.importorskip("scipy.optimize")
    from StaICC.prompting.stable_random import StableRandom

    data, other = numpy.array(rows(60, width, 4)[0]), rows(40, width, 9)[0]
    labels = [str(label) for label in range(width)]
    state = prototypical_calibration.learn(data.tolist(), labels, 6)
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
    assert numpy.allclose(prototypical_calibration.apply(state, other, labels), expected, atol=1e-8)


# -- DC-PMI


@given(st.lists(st.floats(-30, 0), min_size=3, max_size=3), st.lists(st.floats(-30, 0), min_size=3, max_size=3))
def test_dc_pmi_is_the_authors(given_prompt: list[float], given_premise: list[float]) -> None:
    """Largest difference of cross-entropies (peterwestuw/surface-form-competition, inference_autobatch).

    The authors take log-probabilities over the vocabulary, we those over the labels: a constant of each prompt.
    """
    score = numpy.array(given_prompt) - numpy.array(given_premise)
    shares = [(numpy.exp(row) / numpy.exp(row).sum()).tolist() for row in (given_premise, given_prompt)]
    (predicted,) = corrected_by_prior(learn_prior(shares[:1], THREE), shares[1:], THREE)
    assert predicted == pytest.approx((numpy.exp(score - score.max()) / numpy.exp(score - score.max()).sum()).tolist())


def test_dc_pmi_has_no_premise_in_the_noisy_channel() -> None:
    with pytest.raises(ArgumentError, match="no text between query and label"):
        Method("dc_pmi", Kernel()).run(benchmark_on_mini(noisy_channel=True))


# -- ensembles


def test_ensemble_is_the_mean_over_its_lists() -> None:
    benchmark, kernel = benchmark_on_mini(), Kernel()
    result = Method("ensemble", kernel, sets=3).run(benchmark, return_outputs=True)
    experimentor, labels, size = benchmark[0], benchmark[0].get_label_space(), len(benchmark[0].test_set())
    lists = sample_demonstrations(len(experimentor.demonstration_set()), 2, 3 * size)
    prompts = [
        [experimentor.prompt_former.write_prompt(list(lists[size * number + row]), row) for number in range(3)]
        for row in range(4)
    ]
    assert [row[0] for row in prompts] + [row[1] for row in prompts] == experimentor.prompt_set()
    for row, predicted in zip(prompts, predictions_of(result), strict=True):
        members = [kernel(prompt, labels) for prompt in row]
        assert predicted == pytest.approx(numpy.mean(members, axis=0).tolist())
    assert result.timing["test_prompts"] == 12
    single = Method("ensemble", kernel, sets=1).run(benchmark, return_outputs=True)
    assert predictions_of(single) == predictions_of(benchmark(kernel, return_outputs=True))[:4]
    templates = Kernel()
    assert Method("ensemble", templates, sets=1, templates=3).run(benchmark).complete
    assert len(set(templates.ran)) == 3 * 4
    assert Method("ensemble", kernel, sets=2, templates=9).run(benchmark).complete
    assert Method("ensemble", kernel, sets=1, templates=2).run(benchmark_on_mini(k=0)).complete
