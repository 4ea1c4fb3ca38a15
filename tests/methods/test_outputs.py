"""``outputs=`` says what the model returns: a method reads it so, and its own probabilities are not read as logits."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy
import pytest

from StaICC import Method, MethodSpec, Normal
from StaICC.errors import OutputError
from StaICC.inference.replies import Failure
from StaICC.methods.outputs import as_probabilities, as_stated

METHODS = ["contextual_calibration", "domain_calibration", "batch_calibration", "ensemble"]
SCORES = ["accuracy", "averaged_truelabel_likelihood", "macro_F1", "expected_calibration_error_1"]


def shares(prompt: str, label_space: list[str]) -> list[float]:
    """Probabilities that differ from prompt to prompt."""
    numbers = [1 + hashlib.sha256(f"{prompt}{label}".encode()).digest()[0] for label in label_space]
    return [number / sum(numbers) for number in numbers]


def positive_logits(prompt: str, label_space: list[str]) -> list[float]:
    return [20 + math.log(share) for share in shares(prompt, label_space)]


def percentages(prompt: str, label_space: list[str]) -> list[float]:
    return [100 * share for share in shares(prompt, label_space)]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("model", "outputs"), [(positive_logits, "logits"), (percentages, "probabilities")])
def test_outputs_of_a_stated_kind_have_the_scores_of_their_probabilities(name: str, model: Any, outputs: Any) -> None:
    of_probabilities = Method(name, shares).run(Normal(datasets=["mini"])).averaged
    of_outputs = Method(name, model).run(Normal(datasets=["mini"], outputs=outputs)).averaged

    for score in SCORES:
        assert of_outputs[score] == pytest.approx(of_probabilities[score], abs=1e-9), score


def test_without_a_stated_kind_positive_logits_are_refused() -> None:
    with pytest.raises(OutputError, match="outputs='logits' takes the softmax"):
        Method("contextual_calibration", positive_logits).run(Normal(datasets=["mini"]))


def test_vanilla_is_the_model_itself() -> None:
    plain = Normal(datasets=["mini"], outputs="logits")(positive_logits)
    vanilla = Method("vanilla", positive_logits).run(Normal(datasets=["mini"], outputs="logits"))
    assert vanilla.averaged == plain.averaged
    assert vanilla.details["mini"].conditions == plain.details["mini"].conditions


@pytest.mark.parametrize(
    ("rows", "probabilities"),
    [
        ([[3.0, 1.0], Failure("timeout")], [[0.75, 0.25], Failure("timeout")]),
        ([[3.0, 1.0], "no label"], [[0.75, 0.25], "no label"]),
    ],
    ids=["a failure", "an unparsed reply"],
)
def test_stated_probabilities_are_divided_by_their_sum_and_other_outcomes_kept(rows: Any, probabilities: Any) -> None:
    assert as_probabilities(rows, "probabilities") == probabilities


@pytest.mark.parametrize("rows", [[1, 0], [Failure("timeout")]], ids=["labels", "a failure"])
def test_rows_without_scores_are_not_changed(rows: Any) -> None:
    assert as_probabilities(rows, "logits") == rows
    assert as_stated(rows, "logits") == rows


@pytest.mark.parametrize(
    ("row", "logits"),
    [
        ([1.0, 0.0], [0.0, -math.inf]),
        ((1.0, 0.0), [0.0, -math.inf]),
        (numpy.array([0.0, 1.0]), [-math.inf, 0.0]),
    ],
    ids=["list", "tuple", "array"],
)
def test_probabilities_of_a_method_become_logits_where_these_are_stated(row: Any, logits: list[float]) -> None:
    failure, reply = Failure("timeout"), "no label"

    assert as_stated([failure, reply, row], "logits") == [failure, reply, logits]


def test_rows_of_a_method_that_are_no_probabilities_are_left_as_they_are() -> None:
    assert as_stated([[3.0, 1.0]], "logits") == [[3.0, 1.0]]


class Writer:
    """Writes one of three labels, or a text without label, by a digest of the prompt and the seed."""

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return shares(prompt, label_space)

    def generate(self, prompts: list[str], max_new_tokens: int, stop: Any = (), **settings: Any) -> list[str]:
        texts = []
        for prompt in prompts:
            number = hashlib.sha256(f"{prompt}{settings}".encode()).digest()[0]
            texts.append(["food", "travel", "weather", "none of these"][number % 4])
        return texts


def test_shares_of_replies_are_not_read_as_logits_if_some_have_no_label() -> None:
    method = Method("generate", Writer(), samples=2, temperature=0.7)

    of_any_kind = method.run(Normal(datasets=["mini"], limit=32, unparsed="excluded", outputs="auto"))
    of_logits = method.run(Normal(datasets=["mini"], limit=32, unparsed="excluded", outputs="logits"))

    assert of_any_kind.details["mini"].unparsed
    assert of_logits.averaged == pytest.approx(of_any_kind.averaged, abs=1e-9)


def test_prepare_reads_the_rows_that_a_run_reads() -> None:
    """A method may choose its prompts by training predictions: it must choose the same ones in both."""
    training_rows: list[list[list[float]]] = []

    def keeps_training_rows(data: Any) -> Any:
        prompts = [data.write([], row.texts) for row in list(data.calibration_set)[:3]]
        (rows,) = yield [data.ask(prompts=prompts, role="train")]
        training_rows.append(rows)
        (predictions,) = yield [data.ask()]
        return data.predictions(predictions)

    benchmark = Normal(datasets=["mini"], limit=2, outputs="logits")
    method = Method(MethodSpec("mine", "Mine", keeps_training_rows), positive_logits)
    method.run(benchmark)
    method.prepare(benchmark[0])

    of_run, of_prepare = training_rows
    assert of_prepare == of_run
    assert [math.fsum(row) for row in of_prepare] == pytest.approx([1.0, 1.0, 1.0]), "probabilities, not logits"
