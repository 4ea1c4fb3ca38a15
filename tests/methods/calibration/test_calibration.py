"""Calibrations against cases worked by hand and independent oracles, and everything that must be refused."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


def write_prompt(demonstrations: list[Any], query: list[str]) -> str:
    """Write a prompt such as "t1 u1 v1=yes / t0 u0 v0"."""
    shown = [f"{texts[0]}={label}" for texts, label in demonstrations]
    return " / ".join([*shown, query[0]])


def model_that_returns(*rows: list[float]) -> Callable[..., Any]:
    """Return a model that predicts the first row for its first prompt, the second for the next, and so on, in turns."""
    rows_in_turn = itertools.cycle(rows)
    return lambda prompt, label_space: next(rows_in_turn)


class NumberedKernel:
    """A kernel whose hidden states and logits are a function of the number of the query's row (3 for "t3 u3 v3")."""

    def __init__(self, row_of_number: Callable[[int], list[float]]) -> None:
        self.row_of_number = row_of_number

    def identity(self) -> Identity:
        return Identity({"model": "kernel"})

    def hidden_states(self, prompts: list[str]) -> Any:
        rows = []
        for prompt in prompts:
            query = prompt.split(" / ")[-1]
            first_word = query.split()[0]
            rows.append(self.row_of_number(int(first_word.removeprefix("t"))))
        return numpy.array(rows)

    full_vocabulary_logits = hidden_states

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return [0.5, 0.5]


# -- contextual and domain calibration


def softmax(*values: float) -> list[float]:
    return [math.exp(value) / math.fsum(map(math.exp, values)) for value in values]


class PriorCase(NamedTuple):
    """Rows of a calibration in training, the prior that it learns of them, a row, and its calibrated probabilities."""

    training_rows: list[list[float]]
    prior: list[float]
    row: list[float]
    calibrated: list[float]


def trained_on(calibration: Any, case: PriorCase, **options: Any) -> Any:
    """Return a calibration that was trained on the rows of a case, one for each training prompt."""
    rows = case.training_rows
    calibration.train(write_prompt, model_that_returns(*rows), ROWS, calibration_number=len(rows), k=1, **options)
    return calibration


CONTEXTUAL_CASES = {
    # W p = (0.7 / 0.7, 0.3 / 0.3) = (1, 1)
    "paper, the prior itself": ("paper", PriorCase([[0.8, 0.2], [0.6, 0.4]], [0.7, 0.3], [0.7, 0.3], [0.5, 0.5])),
    "paper, another row": (
        "paper",
        PriorCase([[0.8, 0.2], [0.6, 0.4]], [0.7, 0.3], [0.35, 0.65], softmax(0.35 / 0.7, 0.65 / 0.3)),
    ),
    # the release adds 1e-5 to the sums: (1.4 + 1e-5) / 2
    "release": (
        "0.1.1",
        PriorCase([[0.8, 0.2], [0.6, 0.4]], [0.700005, 0.300005], [0.700005, 0.300005], [0.5, 0.5]),
    ),
}
DOMAIN_CASES = {
    # 0.6 / 0.8 : 0.4 / 0.2 = 0.75 : 2 = 3 : 8
    "paper": ("paper", PriorCase([[0.8, 0.2]] * 3, [0.8, 0.2], [0.6, 0.4], [3 / 11, 8 / 11])),
    "release": (
        "0.1.1",
        PriorCase([[0.8, 0.2]], [0.80001, 0.20001], [0.6, 0.4], softmax(0.6 / 0.80001, 0.4 / 0.20001)),
    ),
}


@pytest.mark.parametrize(("variant", "case"), CONTEXTUAL_CASES.values(), ids=CONTEXTUAL_CASES)
def test_contextual_calibration_by_hand(variant: Any, case: PriorCase) -> None:
    calibration = trained_on(sc.contextual_calibration(LABELS, variant=variant), case)

    assert calibration.prior == pytest.approx(case.prior, abs=1e-12)
    assert calibration.inference(case.row) == pytest.approx(case.calibrated)
    assert calibration(case.row, None, None) == calibration.inference(case.row)


@pytest.mark.parametrize(("variant", "case"), DOMAIN_CASES.values(), ids=DOMAIN_CASES)
def test_domain_calibration_by_hand(variant: Any, case: PriorCase) -> None:
    calibration = trained_on(sc.domain_calibration(LABELS, variant=variant), case, sample_length=4)

    assert calibration.prior == pytest.approx(case.prior, abs=1e-12)
    assert calibration.inference(case.row) == pytest.approx(case.calibrated)
    assert calibration(case.row, None, None) == calibration.inference(case.row)


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
@pytest.mark.parametrize("make_calibration", [sc.contextual_calibration, sc.domain_calibration])
def test_a_call_uses_the_inference_of_a_derived_class(make_calibration: Any, variant: str) -> None:
    class Derived(type(make_calibration(LABELS, variant=variant))):  # type: ignore[misc]
        def inference(self, *arguments: Any) -> Any:
            return arguments

    assert Derived(LABELS)([0.7, 0.3], None, None) == ([0.7, 0.3], None, None)


def test_a_prior_of_zero_is_refused() -> None:
    made = sc.contextual_calibration(LABELS, variant="paper")
    with pytest.raises(OutputError, match="probability 0"):
        made.train(write_prompt, model_that_returns([1.0, 0.0]), ROWS, calibration_number=2, k=1)


def test_logits_are_read_as_in_training() -> None:
    """Also a row that alone could be probabilities: (0, 1) are logits here."""
    calibration = DomainCalibration(LABELS)
    model = model_that_returns([0.0, math.log(3)], [0.0, -5.0])
    calibration.train(write_prompt, model, ROWS, calibration_number=2, k=0)
    calibration.state = PriorState((0.25, 0.75), calibration.state.read_as)

    no, yes = softmax(0.0, 1.0)
    calibrated_no, calibrated_yes = no / 0.25, yes / 0.75  # up to a common factor
    total = calibrated_no + calibrated_yes
    assert calibration.inference([0.0, 1.0]) == pytest.approx([calibrated_no / total, calibrated_yes / total])

    logits_of_the_prior = [0.0, math.log(3)]
    assert calibration.inference(logits_of_the_prior) == pytest.approx([0.5, 0.5])


@st.composite
def distributions(draw: st.DrawFn, labels: int) -> list[float]:
    """Draw probabilities of labels."""
    weights = draw(st.lists(st.floats(0.01, 1), min_size=labels, max_size=labels))
    return [weight / sum(weights) for weight in weights]


BOTH_PRIORS = pytest.mark.parametrize("kind", [ContextualCalibration, DomainCalibration])


@BOTH_PRIORS
@given(prior=distributions(3))
def test_the_prior_itself_becomes_uniform(kind: Any, prior: list[float]) -> None:
    calibration = kind(["a", "b", "c"])
    calibration.train(write_prompt, model_that_returns(prior), ROWS, calibration_number=1, k=0)

    assert calibration.inference(prior) == pytest.approx([1 / 3, 1 / 3, 1 / 3])


@BOTH_PRIORS
@given(prior=distributions(3), row=distributions(3))
def test_the_label_with_the_largest_ratio_to_the_prior_is_predicted(
    kind: Any, prior: list[float], row: list[float]
) -> None:
    calibration = kind(["a", "b", "c"])
    calibration.train(write_prompt, model_that_returns(prior), ROWS, calibration_number=1, k=0)

    calibrated = calibration.inference(row)

    assert math.fsum(calibrated) == pytest.approx(1)
    ratios = [row[label] / prior[label] for label in (0, 1, 2)]
    predicted = calibrated.index(max(calibrated))
    assert ratios[predicted] == pytest.approx(max(ratios))


# -- batch calibration


def test_batch_by_hand() -> None:
    """Mean (0.6, 0.4): 0.8 / 0.6 : 0.2 / 0.4 = 8 : 3, and 0.2 / 0.6 : 0.8 / 0.4 = 1 : 6."""
    calibrated = sc.batch_calibration([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])

    assert numpy.allclose(calibrated, [[8 / 11, 3 / 11], [8 / 11, 3 / 11], [1 / 7, 6 / 7]])


def test_a_last_batch_of_one_row_is_filled_with_the_row_before() -> None:
    """Mean (0.5, 0.5) of the last two rows, so the last one is not changed."""
    *_, last = sc.batch_calibration([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]], batch_size=2)

    assert last == pytest.approx([0.2, 0.8])


def test_one_row_alone_is_refused() -> None:
    with pytest.raises(ArgumentError, match="over batches of 1 makes every prediction uniform"):
        sc.batch_calibration([[0.8, 0.2]])


def test_released_batch_by_hand() -> None:
    """Mean (0.6, 0.4): softmax(0.2, -0.2). The single row of the last batch becomes uniform: so does the release."""
    rows = sc.batch_calibration([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], batch_size=2, variant="0.1.1")
    top = 1 / (1 + math.exp(-0.4))
    assert rows == [pytest.approx([top, 1 - top]), pytest.approx([1 - top, top]), [0.5, 0.5]]


@given(st.lists(distributions(2), min_size=2, max_size=9))
def test_batch_calibration_predicts_the_label_with_the_largest_ratio_to_its_mean(rows: list[list[float]]) -> None:
    """A bias, which is a constant factor of each label's probability, then changes nothing in one batch."""
    means = [math.fsum(row[label] for row in rows) / len(rows) for label in (0, 1)]

    for row, calibrated in zip(rows, sc.batch_calibration(rows), strict=True):
        ratios = [row[0] / means[0], row[1] / means[1]]
        predicted = calibrated.index(max(calibrated))
        assert math.fsum(calibrated) == pytest.approx(1)
        assert ratios[predicted] == pytest.approx(max(ratios))


# -- hidden calibration and k nearest neighbours


def states_by_label(number: int) -> list[float]:
    """Return the hidden state (0, 0) for rows of label 0, and (4, 0) for rows of label 1."""
    return [0.0, 0.0] if number % 2 == 0 else [4.0, 0.0]


def hidden_calibration(variant: Any) -> HiddenCalibration:
    """Return a calibration that was trained on one row of each label (paper), or on six rows (release)."""
    calibration = HiddenCalibration(LABELS, variant=variant)
    options = {"per_label": 1} if variant == "paper" else {}
    calibration.train(write_prompt, NumberedKernel(states_by_label), ROWS, calibration_number=6, k=1, **options)
    return calibration


@pytest.mark.parametrize(("variant", "training_prompts"), [("paper", 2), ("0.1.1", 6)])
def test_centroids_are_means_of_the_hidden_states_of_each_label(variant: str, training_prompts: int) -> None:
    calibration = hidden_calibration(variant)

    assert calibration.centroid.tolist() == [[0.0, 0.0], [4.0, 0.0]]
    assert calibration.training_prompts == training_prompts


@pytest.mark.parametrize("variant", ["paper", "0.1.1"])
def test_hidden_calibration_is_the_softmax_of_negative_distances_to_the_centroids(variant: str) -> None:
    """The state (0, 3) has the distances 3 and 5 to (0, 0) and (4, 0); the state (4, 0) has 4 and 0."""
    calibration = hidden_calibration(variant)

    assert calibration.inference(None, None, [0.0, 3.0]) == pytest.approx(softmax(-3.0, -5.0))
    assert calibration([0.9, 0.1], None, [4.0, 0.0]) == pytest.approx(softmax(-4.0, 0.0))


def logits(number: int) -> list[float]:
    """Return logits of the distribution (3/4, 1/4) for rows of label 0, of (1/4, 3/4) for rows of label 1."""
    return [math.log(3), 0.0] if number % 2 == 0 else [0.0, math.log(3)]


def trained_on_ten_rows(calibration: Any) -> Any:
    """Return a calibration that was trained on five rows of each label, with the logits above."""
    calibration.train(write_prompt, NumberedKernel(logits), ROWS, calibration_number=10, k=1)
    return calibration


def test_anchors_are_the_distributions_of_training_prompts() -> None:
    calibration = trained_on_ten_rows(KNNPrompting(LABELS))

    distribution_of_label = {0: [0.75, 0.25], 1: [0.25, 0.75]}
    for anchor, label in zip(calibration.anchors, calibration.labels, strict=True):
        assert anchor.tolist() == pytest.approx(distribution_of_label[label])


def test_the_three_nearest_anchors_vote() -> None:
    """There are five of each label, and those of one label are nearer than those of the other one."""
    calibration = trained_on_ten_rows(KNNPrompting(LABELS))

    assert calibration.inference(None, [2.0, 0.0]) == [1.0, 0.0]
    assert calibration.inference(None, [0.0, 2.0]) == [0.0, 1.0]


@pytest.mark.parametrize(("voters", "votes"), [(1, [1.0, 0.0]), (10, [0.5, 0.5])], ids=["the nearest", "all anchors"])
def test_the_number_of_voters_is_an_option(voters: int, votes: list[float]) -> None:
    calibration = trained_on_ten_rows(KNNPrompting(LABELS, knn_k=voters))

    assert calibration.inference(None, [2.0, 0.0]) == votes


@pytest.mark.parametrize(
    ("anchor", "query", "divergence"),
    [
        ([0.75, 0.25], [0.5, 0.5], 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)),
        ([0.75, 0.25], [0.25, 0.75], 0.75 * math.log(0.75 / 0.25) + 0.25 * math.log(0.25 / 0.75)),
        ([1.0, 0.0], [0.5, 0.5], math.log(2)),  # 0 log 0 = 0
        ([1.0, 0.0], [0.25, 0.75], math.log(4)),
        ([0.75, 0.25], [0.75, 0.25], 0.0),
    ],
)
def test_the_divergence_is_that_of_kullback_and_leibler(
    anchor: list[float], query: list[float], divergence: float
) -> None:
    """KL(anchor || query) = sum of a log(a / q)."""
    matrix = kullback_leibler(numpy.log([query]), numpy.array([anchor]))

    assert matrix.tolist() == [[pytest.approx(divergence, abs=1e-15)]]


def test_the_release_takes_the_softmax_of_the_votes() -> None:
    calibration = trained_on_ten_rows(sc.knn_prompt(LABELS, 3, variant="0.1.1"))

    assert calibration.inference(None, [math.log(3), 0.0]) == pytest.approx(softmax(3, 0))


def test_knn_centroid_is_the_softmax_of_negative_divergences_from_the_mean_distributions() -> None:
    """The means are (3/4, 1/4) and (1/4, 3/4); the uniform distribution is equally far from both."""
    calibration = trained_on_ten_rows(KNNPromptingCentroid(LABELS))

    divergence_of_second = 0.25 * math.log(0.25 / 0.75) + 0.75 * math.log(0.75 / 0.25)
    assert calibration.inference(None, [7.0, 7.0]) == pytest.approx([0.5, 0.5])
    assert calibration.inference(None, [math.log(3), 0.0]) == pytest.approx(softmax(0.0, -divergence_of_second))


def test_the_release_takes_distances_of_logits_from_their_means() -> None:
    """The logits (ln 3, 0) are the first mean; the second one, (0, ln 3), is at the distance sqrt(2) ln 3."""
    calibration = trained_on_ten_rows(sc.knn_prompt_centroid(LABELS, variant="0.1.1"))

    distance = math.sqrt(2) * math.log(3)
    assert calibration.inference(None, [math.log(3), 0.0]) == pytest.approx(softmax(0.0, -distance))


# -- asking, saving, joining to a kernel


def trained_contextual() -> Any:
    calibration = ContextualCalibration(LABELS)
    calibration.train(write_prompt, model_that_returns([0.8, 0.2]), ROWS, calibration_number=3)
    return calibration


def trained_domain() -> Any:
    calibration = DomainCalibration(LABELS, variant="0.1.1")
    calibration.train(write_prompt, model_that_returns([0.8, 0.2]), ROWS, calibration_number=3)
    return calibration


def trained_hidden() -> Any:
    return trained_on_ten_rows(HiddenCalibration(LABELS))


def trained_knn() -> Any:
    return trained_on_ten_rows(KNNPrompting(LABELS, 5))


def trained_knn_centroid() -> Any:
    return trained_on_ten_rows(KNNPromptingCentroid(LABELS, variant="0.1.1"))


def trained_without_rows_of_a_label() -> Any:
    """Return a calibration of the release that gave up in training."""
    calibration = HiddenCalibration(["no", "yes", "perhaps"], variant="0.1.1")
    with pytest.warns(UserWarning, match="none of the 10 training prompts has the label 'perhaps'"):
        trained_on_ten_rows(calibration)
    return calibration


TRAINED = pytest.mark.parametrize(
    "make_trained",
    [
        trained_contextual,
        trained_domain,
        trained_hidden,
        trained_knn,
        trained_knn_centroid,
        trained_without_rows_of_a_label,
    ],
)


@TRAINED
@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_a_loaded_calibration_predicts_as_the_saved_one(tmp_path: Path, suffix: str, make_trained: Any) -> None:
    calibration, path = make_trained(), tmp_path / f"calibration.{suffix}"
    row = [0.3, 0.7] if calibration.n_label == 2 else [0.3, 0.6, 0.1]

    calibration.save(path)
    loaded = type(calibration).load(path)

    assert loaded.inference(row, [1.0, 0.5], [1.0, 0.5]) == calibration.inference(row, [1.0, 0.5], [1.0, 0.5])
    assert loaded.digest() == calibration.digest()
    assert loaded.training_prompts == calibration.training_prompts
    assert b"pickle" not in path.read_bytes()


def test_a_file_of_another_calibration_is_refused(tmp_path: Path) -> None:
    trained_contextual().save(tmp_path / "saved.json")

    with pytest.raises(SchemaError, match="holds a contextual_calibration, not a hidden_calibration"):
        HiddenCalibration.load(tmp_path / "saved.json")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 99, "format 99"),
        ("format", True, "expected a number from 1"),
        ("format", -1, "expected a number from 1"),
        ("state", "Other", "holds a Other, expected"),
        ("label_space", [], "cannot be read"),
        ("label_space", "no", "expected a list of texts"),
        ("values", {}, "expected .'prior', 'read_as'."),
        ("values", {"prior": [0.5], "read_as": "probabilities"}, "does not fit"),
        ("values", {"prior": [0.5, 0.5], "read_as": "guesses"}, "got 'guesses', expected"),
        ("values", {"prior": [0.0, 1.0], "read_as": "probabilities"}, "prior: got 0.0, expected positive numbers"),
        ("values", {"prior": [-0.5, 1.5], "read_as": "probabilities"}, "prior: got -0.5, expected positive numbers"),
    ],
)
def test_a_changed_value_of_a_saved_calibration_is_refused(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = tmp_path / "saved.json"
    trained_contextual().save(path)
    document = json.loads(path.read_text())

    path.write_text(json.dumps({**document, key: value}))

    with pytest.raises(SchemaError, match=message):
        sc.load_calibration(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cotextual", "no calibration 'cotextual'"),
        ("hidden_calibration", "has a CentroidState: got a PriorState"),
    ],
)
def test_a_changed_name_of_a_saved_calibration_is_refused(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "saved.json"
    trained_contextual().save(path)
    document = json.loads(path.read_text())
    document["facts"]["calibration"] = name

    path.write_text(json.dumps(document))

    with pytest.raises(SchemaError, match=message):
        sc.load_calibration(path)


def test_a_label_of_an_anchor_that_is_not_in_the_label_space_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    trained_knn().save(path)
    document = json.loads(path.read_text())
    document["values"]["labels"][0] = 2

    path.write_text(json.dumps(document))

    with pytest.raises(SchemaError, match="got the label index 2, the label space has 2"):
        sc.load_calibration(path)


@pytest.mark.parametrize("text", ["", "[]", '{"format": NaN}', "PK"])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "saved.json").write_text(text)

    with pytest.raises(SchemaError, match=r"saved\.json"):
        sc.load_calibration(tmp_path / "saved.json")


def test_a_file_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    numpy.savez(tmp_path / "evil.npz", head=numpy.array([print], dtype=object), allow_pickle=True)

    with pytest.raises(SchemaError, match="cannot be read"):
        sc.load_calibration(tmp_path / "evil.npz")


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "saved.npz"
    trained_hidden().save(path)
    content = path.read_bytes()

    path.write_bytes(content[: len(content) // 2])

    with pytest.raises(SchemaError, match="cannot be read"):
        sc.load_calibration(path)


def test_a_calibrated_kernel_predicts_many_prompts_as_one_by_one() -> None:
    """More than it holds at once."""
    kernel = sc.CalibratedKernel(NumberedKernel(logits), trained_hidden())
    prompts = [f"t{number}" for number in range(300)]

    assert kernel.batch(prompts, LABELS) == [kernel(prompt, LABELS) for prompt in prompts]


def test_the_identity_of_a_calibrated_kernel_names_kernel_and_calibration() -> None:
    identity = sc.CalibratedKernel(NumberedKernel(logits), trained_hidden()).identity()

    assert identity.who["model"] == "kernel"
    assert identity.who["calibration learned"] == trained_hidden().digest()
    assert identity.settings["calibration name"] == "hidden_calibration"
    assert "calibration labels" not in identity.settings
    assert "calibration learned" not in identity.settings


def test_kernels_with_different_calibrations_have_different_identities() -> None:
    hidden = sc.CalibratedKernel(NumberedKernel(logits), trained_hidden())
    knn = sc.CalibratedKernel(NumberedKernel(logits), trained_knn())

    assert hidden.identity().digest != knn.identity().digest


def test_a_calibrated_kernel_refuses_other_labels_than_those_of_its_training() -> None:
    kernel = sc.CalibratedKernel(NumberedKernel(logits), trained_hidden())

    with pytest.raises(ArgumentError, match="was trained on the labels"):
        kernel.batch(["t1"], ["yes", "no"])


@TRAINED
def test_a_calibration_refuses_a_missing_row(make_trained: Any) -> None:
    with pytest.raises(ArgumentError, match="got None for"):
        make_trained().inference(None)


UNTRAINED = pytest.mark.parametrize(
    "kind", [ContextualCalibration, DomainCalibration, HiddenCalibration, KNNPrompting, KNNPromptingCentroid]
)


@UNTRAINED
def test_a_calibration_without_training_predicts_nothing(kind: Any) -> None:
    with pytest.raises(ArgumentError, match="not trained"):
        kind(LABELS)([0.5, 0.5], [0.0], [0.0])


@UNTRAINED
def test_a_calibration_without_training_calibrates_no_kernel(kind: Any) -> None:
    with pytest.raises(ArgumentError, match="not trained"):
        sc.CalibratedKernel(NumberedKernel(logits), kind(LABELS))


def test_a_calibration_without_training_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="not trained"):
        HiddenCalibration(LABELS).save(tmp_path / "none.json")


# -- temperature scaling, linear and prototypical calibration, DC-PMI and ensembles against independent oracles


def overconfident_predictions(
    n_rows: int, n_labels: int = 3, seed: int = 0, sharpness: float = 2.0
) -> tuple[list[list[float]], list[int]]:
    """Return random probabilities that are right more often than not, and too certain; and the true labels."""
    generator = numpy.random.default_rng(seed)
    labels = [int(label) for label in generator.integers(0, n_labels, n_rows)]
    logits = generator.normal(0, sharpness, (n_rows, n_labels))
    for row, label in enumerate(labels):
        logits[row, label] += 1.5
    powers = numpy.exp(logits)
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    return probabilities.tolist(), labels


THREE = ["a", "b", "c"]


# -- temperature scaling


def cross_entropy(probabilities: Any, labels: list[int], temperature: float) -> float:
    """Return the loss of softmax(log p / temperature), summed over the rows."""
    logits = numpy.log(probabilities) / temperature
    losses = numpy.logaddexp.reduce(logits, 1) - logits[range(len(labels)), labels]
    return float(losses.sum())


SHARPNESS = pytest.mark.parametrize("sharpness", [0.3, 2.0, 6.0])


@pytest.mark.parametrize("seed", range(5))
@SHARPNESS
def test_the_temperature_has_the_smallest_loss(seed: int, sharpness: float) -> None:
    """The bounded minimum that SciPy finds; near the bounds, only the loss is compared."""
    optimize = pytest.importorskip("scipy.optimize")
    probabilities, labels = overconfident_predictions(60, seed=seed, sharpness=sharpness)

    temperature = temperature_scaling.learn(probabilities, labels, THREE).temperature

    best = optimize.minimize_scalar(
        lambda value: cross_entropy(probabilities, labels, value),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert cross_entropy(probabilities, labels, temperature) <= best.fun + 1e-8
    if 0.1 < best.x < 19:
        assert temperature == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@SHARPNESS
def test_temperature_scaling_is_the_softmax_of_log_probabilities_over_the_temperature(
    sharpness: float, temperature: float
) -> None:
    probabilities, _ = overconfident_predictions(60, sharpness=sharpness)

    scaled = temperature_scaling.apply(temperature_scaling.TemperatureState(temperature), probabilities, THREE)

    powers = numpy.exp(numpy.log(probabilities) / temperature)
    assert numpy.allclose(scaled, powers / powers.sum(1, keepdims=True), atol=1e-12)


def test_a_high_temperature_keeps_the_predicted_label_of_nearly_equal_probabilities() -> None:
    """The second one is larger by the last bit, which the division loses."""
    row = [0.5, math.nextafter(0.5, 1.0), 0.0]

    (scaled,) = temperature_scaling.apply(temperature_scaling.TemperatureState(20.0), [row], THREE)

    assert numpy.argmax(scaled) == 1


# -- linear calibration


class Linear(NamedTuple):
    """A linear calibration: softmax(weights @ p + bias)."""

    weights: Any
    bias: Any

    def probabilities(self, rows: Any) -> Any:
        scores = numpy.array(rows) @ self.weights.T + self.bias
        powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def train_with_torch(content_free: Any, rows: Any, labels: Any, rate: float, epochs: int) -> Linear:
    """Train a linear calibration with torch's SGD and cross-entropy, in double precision.

    The training of mominabbass/LinC (run_classification.py, eval_accuracy), which computes in single precision. The
    weights begin as the inverse of the diagonal matrix of the mean content-free row.
    """
    torch = pytest.importorskip("torch")
    from StaICC.prompting.stable_random import StableRandom

    prior = torch.tensor(content_free, dtype=torch.float64).mean(0)
    weights = torch.diag(1 / prior).requires_grad_()
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weights, bias], lr=rate)
    generator = StableRandom()
    for _ in range(epochs):
        for index in generator.sample_indexes(len(rows), len(rows)):
            optimizer.zero_grad()
            scores = weights @ torch.tensor(rows[index], dtype=torch.float64) + bias
            loss = torch.nn.functional.cross_entropy(scores[None], torch.tensor([labels[index]]))
            loss.backward()
            optimizer.step()
    return Linear(weights.detach().numpy(), bias.detach().numpy())


def test_linear_calibration_is_trained_as_by_torch() -> None:
    rows, labels = overconfident_predictions(20)
    content_free, _ = overconfident_predictions(6, seed=5)

    state = linear_calibration.learn(content_free, rows, labels, THREE, 0.05, 7)
    calibrated = linear_calibration.apply(state, rows, THREE)

    expected = train_with_torch(content_free, rows, labels, rate=0.05, epochs=7)
    assert numpy.allclose(state.weights, expected.weights, atol=1e-10)
    assert numpy.allclose(state.bias, expected.bias, atol=1e-10)
    assert numpy.allclose(calibrated, expected.probabilities(rows), atol=1e-12)


def loss_on_left_out_rows(content_free: Any, rows: Any, labels: Any, rate: float, epochs: int) -> float:
    """Return the log loss of five-fold cross-validation; a fold has every fifth row."""
    loss = 0.0
    for fold in range(5):
        left_out = [index for index in range(len(rows)) if index % 5 == fold]
        kept = [index for index in range(len(rows)) if index % 5 != fold]
        kept_rows = [rows[index] for index in kept]
        kept_labels = [labels[index] for index in kept]
        linear = train_with_torch(content_free, kept_rows, kept_labels, rate, epochs)
        for index in left_out:
            (probabilities,) = linear.probabilities([rows[index]])
            loss -= math.log(probabilities[labels[index]])
    return loss


@pytest.mark.parametrize(("seed", "rates"), [(1, (0.003,)), (4, (0.05, 0.15))])
def test_step_and_epochs_of_linear_calibration_are_those_that_predict_left_out_rows_best(
    seed: int, rates: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("StaICC.methods.linear_calibration.RATES", rates)
    monkeypatch.setattr("StaICC.methods.linear_calibration.EPOCHS", (1, 4))
    rows, labels = overconfident_predictions(13, seed=seed)
    content_free, _ = overconfident_predictions(6, seed=5)

    chosen_by_cross_validation = linear_calibration.learn(content_free, rows, labels, THREE)

    losses = {}
    for rate, epochs in itertools.product(rates, (1, 4)):
        losses[rate, epochs] = loss_on_left_out_rows(content_free, rows, labels, rate, epochs)
    assert len(set(losses.values())) == len(losses), "with equal losses, several choices would be right"
    best_rate, best_epochs = min(losses, key=losses.__getitem__)
    expected = train_with_torch(content_free, rows, labels, best_rate, best_epochs)
    assert numpy.allclose(chosen_by_cross_validation.weights, expected.weights, atol=1e-9)
    with_given_options = linear_calibration.learn(content_free, rows, labels, THREE, best_rate, best_epochs)
    assert chosen_by_cross_validation == with_given_options


# -- prototypical calibration


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_the_assignment_has_the_lowest_cost_of_all(size: int, seed: int) -> None:
    costs = numpy.random.default_rng(seed).integers(-9, 9, (size, size)).tolist()

    def cost(columns: Sequence[int]) -> int:
        return int(sum(costs[row][column] for row, column in enumerate(columns)))

    columns = assignment(costs)

    assert sorted(columns) == list(range(size))
    assert cost(columns) == min(map(cost, itertools.permutations(range(size))))


def fit_with_sklearn(points: Any, shares: Any) -> Any:
    """Fit scikit-learn's Gaussian mixture (tolerance 1e-3, 100 iterations).

    It begins with the weights, means and precisions of components that have these shares in the points: array (points,
    components).
    """
    mixture = pytest.importorskip("sklearn.mixture")
    sizes = shares.sum(axis=0)
    means = (shares.T @ points) / sizes[:, None]
    precisions = []
    for component, mean in enumerate(means):
        centred = points - mean
        covariance = (shares[:, component] * centred.T) @ centred / sizes[component]
        covariance += 1e-6 * numpy.eye(points.shape[1])
        precisions.append(numpy.linalg.inv(covariance))
    weights = sizes / sizes.sum()
    start = mixture.GaussianMixture(len(means), means_init=means, precisions_init=precisions, weights_init=weights)
    return start.fit(points)


def points_of_three_clusters(spread: float) -> Any:
    """Return 50 points around (0, 0), 50 around (3, 1), and 50 around (0, 4)."""
    generator = numpy.random.default_rng(1)
    clusters = [generator.normal(centre, spread, (50, 2)) for centre in ((0, 0), (3, 1), (0, 4))]
    return numpy.concatenate(clusters)


@pytest.mark.parametrize("spread", [0.6, 1.5])
def test_a_fitted_mixture_is_that_of_scikit_learn(spread: float) -> None:
    """From the same start, expectation maximisation ends after the same step."""
    points = points_of_three_clusters(spread)
    shares_of_clusters = numpy.repeat(numpy.eye(3), 50, axis=0)  # each point belongs to its cluster

    means, covariances = fit_mixture(points, shares_of_clusters)

    expected = fit_with_sklearn(points, shares_of_clusters)
    assert numpy.allclose(means, expected.means_, atol=1e-8)
    assert numpy.allclose(covariances, expected.covariances_, atol=1e-8)


def test_log_densities_of_a_mixture_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    points = points_of_three_clusters(spread=0.6)
    means, covariances = fit_mixture(points, numpy.repeat(numpy.eye(3), 50, axis=0))

    densities = log_densities(points, means, covariances)

    for component in (0, 1, 2):
        expected = stats.multivariate_normal(means[component], covariances[component]).logpdf(points)
        assert numpy.allclose(densities[:, component], expected), f"component {component}"


class AssignedFit(NamedTuple):
    """A mixture of scikit-learn whose components are assigned to labels."""

    mixture: Any
    label_of_component: Any
    sum_of_means: float
    """The sum of each component's mean log-probability of its label."""


def fit_and_assign(points: Any, start: Any) -> AssignedFit:
    """Fit a mixture to log-probabilities, and assign its components so that the sum of their means is the largest."""
    optimize = pytest.importorskip("scipy.optimize")
    mixture = fit_with_sklearn(points, shares_of_nearest(points, start))
    components, labels = optimize.linear_sum_assignment(mixture.means_, maximize=True)
    return AssignedFit(mixture, labels, mixture.means_[components, labels].sum())


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_prototypes_are_the_authors(n_labels: int) -> None:
    """The fit whose means suit the labels best, and its posterior with equal weights.

    As in the authors' script (``GaussianMixturewTarget`` and ``eval_accuracy``, method ``gmm_train_estimate``): each
    fit is scikit-learn's, the assignment is that of the largest sum of means, and of all fits the largest sum counts.
    """
    from StaICC.prompting.stable_random import StableRandom

    labels = [str(label) for label in range(n_labels)]
    training_rows, _ = overconfident_predictions(60, n_labels, seed=4)
    test_rows, _ = overconfident_predictions(40, n_labels, seed=9)

    state = prototypical_calibration.learn(training_rows, labels, 6)
    calibrated = prototypical_calibration.apply(state, test_rows, labels)

    points = numpy.log(training_rows)
    generator = StableRandom()
    fits = []
    for _ in range(6):
        start = points[generator.sample_indexes(60, n_labels)]
        fits.append(fit_and_assign(points, start))
    best = max(fits, key=lambda fit: fit.sum_of_means)
    best.mixture.weights_ = numpy.full(n_labels, 0.5)
    posteriors = best.mixture.predict_proba(numpy.log(test_rows))
    for component, label in enumerate(best.label_of_component):
        assert numpy.allclose(numpy.array(calibrated)[:, label], posteriors[:, component], atol=1e-8)


# -- DC-PMI


LOG_PROBABILITIES = st.lists(st.floats(-30, 0), min_size=3, max_size=3)


@given(LOG_PROBABILITIES, LOG_PROBABILITIES)
def test_dc_pmi_is_the_authors(of_prompt: list[float], of_premise: list[float]) -> None:
    """The softmax of log p(label | prompt) - log p(label | domain premise).

    As in peterwestuw/surface-form-competition, inference_autobatch. The authors take log-probabilities over the
    vocabulary, we those over the labels: a constant of each prompt.
    """
    prior = learn_prior([softmax(*of_premise)], THREE)

    (predicted,) = corrected_by_prior(prior, [softmax(*of_prompt)], THREE)

    differences = [prompt - premise for prompt, premise in zip(of_prompt, of_premise, strict=True)]
    assert predicted == pytest.approx(softmax(*differences))


def test_dc_pmi_has_no_premise_in_the_noisy_channel() -> None:
    with pytest.raises(ArgumentError, match="no text between query and label"):
        Method("dc_pmi", Kernel()).run(benchmark_on_mini(noisy_channel=True))


# -- ensembles


def lists_of_ensemble(experimentor: Any, row: int) -> list[list[int]]:
    """Return the three demonstration lists of a test row.

    The generator draws one list for each row of the whole test set, then the second one for each, then the third.
    """
    test_rows = len(experimentor.test_set())
    lists = sample_demonstrations(len(experimentor.demonstration_set()), 2, 3 * test_rows)
    return [list(lists[row]), list(lists[test_rows + row]), list(lists[2 * test_rows + row])]


def test_an_ensemble_is_the_mean_over_three_lists_of_demonstrations() -> None:
    benchmark = benchmark_on_mini(limit=4)
    experimentor = benchmark[0]

    result = Method("ensemble", Kernel(), sets=3).run(benchmark, return_outputs=True)

    assert result.timing["test_prompts"] == 4 * 3
    for row, predicted in enumerate(predictions_of(result)):
        prompts: list[Any] = []
        for positions in lists_of_ensemble(experimentor, row):
            prompts.append(experimentor.prompt_former.write_prompt(positions, row))
        members = Kernel().batch(prompts, experimentor.get_label_space())
        assert predicted == pytest.approx(numpy.mean(members, axis=0).tolist()), f"test row {row}"


def test_the_first_two_lists_of_an_ensemble_are_those_of_the_two_repeats_of_a_benchmark() -> None:
    experimentor = benchmark_on_mini(limit=4)[0]
    first_repeat, second_repeat = [], []
    for row in range(4):
        first_list, second_list, _ = lists_of_ensemble(experimentor, row)
        first_repeat.append(experimentor.prompt_former.write_prompt(first_list, row))
        second_repeat.append(experimentor.prompt_former.write_prompt(second_list, row))

    assert experimentor.prompt_set() == first_repeat + second_repeat


def test_an_ensemble_of_one_list_is_the_model_itself() -> None:
    benchmark = benchmark_on_mini()

    ensemble = Method("ensemble", Kernel(), sets=1).run(benchmark, return_outputs=True)

    assert predictions_of(ensemble) == predictions_of(benchmark(Kernel(), return_outputs=True))[:4]


def test_an_ensemble_of_three_templates_has_three_prompts_of_each_row() -> None:
    kernel = Kernel()

    Method("ensemble", kernel, sets=1, templates=3).run(benchmark_on_mini())

    assert len(set(kernel.ran)) == 4 * 3


@pytest.mark.parametrize(("k", "sets", "templates"), [(2, 2, 9), (0, 1, 2)])
def test_an_ensemble_may_have_lists_and_templates(k: int, sets: int, templates: int) -> None:
    assert Method("ensemble", Kernel(), sets=sets, templates=templates).run(benchmark_on_mini(k=k)).complete
