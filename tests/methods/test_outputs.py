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
@pytest.mark.parametrize(("function", "outputs"), [(positive_logits, "logits"), (percentages, "probabilities")])
def test_a_stated_kind_gives_the_scores_of_probabilities(name: str, function: Any, outputs: Any) -> None:
    expected = Method(name, shares).run(Normal(datasets=["mini"])).averaged
    stated = Method(name, function).run(Normal(datasets=["mini"], outputs=outputs)).averaged
    assert [stated[score] for score in SCORES] == pytest.approx([expected[score] for score in SCORES], abs=1e-9)


def test_without_a_stated_kind_positive_logits_are_refused() -> None:
    with pytest.raises(OutputError, match="outputs='logits' takes the softmax"):
        Method("contextual_calibration", positive_logits).run(Normal(datasets=["mini"]))


def test_vanilla_is_the_model_itself() -> None:
    plain = Normal(datasets=["mini"], outputs="logits")(positive_logits)
    vanilla = Method("vanilla", positive_logits).run(Normal(datasets=["mini"], outputs="logits"))
    assert vanilla.averaged == plain.averaged
    assert vanilla.details["mini"].conditions == plain.details["mini"].conditions


def test_failures_labels_and_zeros_keep_their_places() -> None:
    failure = Failure("timeout")
    assert as_probabilities([[3.0, 1.0], failure], "probabilities") == [[0.75, 0.25], failure]
    assert as_stated([failure, [1.0, 0.0]], "logits") == [failure, [0.0, -math.inf]]
    assert as_probabilities([1, 0], "logits") == as_stated([1, 0], "logits") == [1, 0]
    assert as_probabilities([failure], "logits") == as_stated([failure], "logits") == [failure]
    assert as_stated([[3.0, 1.0]], "logits") == [[3.0, 1.0]], "no probabilities: left as they are"
    reply = "no label"
    assert as_probabilities([[3.0, 1.0], reply], "probabilities") == [[0.75, 0.25], reply]
    assert as_stated([reply, (1.0, 0.0), numpy.array([0.0, 1.0])], "logits") == [
        reply,
        [0.0, -math.inf],
        [-math.inf, 0.0],
    ]


def test_shares_of_replies_are_not_read_as_logits_if_some_have_no_label() -> None:
    class Writer:
        def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
            return shares(prompt, label_space)

        def generate(self, prompts: list[str], max_new_tokens: int, stop: Any = (), **how: Any) -> list[str]:
            texts = []
            for prompt in prompts:
                number = hashlib.sha256(f"{prompt}{how}".encode()).digest()[0]
                texts.append(["food", "travel", "weather", "none of these"][number % 4])
            return texts

    results = []
    for outputs in ("auto", "logits"):
        benchmark = Normal(datasets=["mini"], limit=32, outputs=outputs, unparsed="excluded")  # type: ignore[arg-type]
        results.append(Method("generate", Writer(), samples=2, temperature=0.7).run(benchmark))
    assert results[0].details["mini"].unparsed
    assert results[1].averaged == pytest.approx(results[0].averaged, abs=1e-9)


def test_prepare_reads_the_rows_that_a_run_reads() -> None:
    """A method may choose its prompts by training predictions: it must choose the same ones in both."""
    read: list[list[list[float]]] = []

    def chooses(data: Any) -> Any:
        prompts = [data.write([], row.texts) for row in list(data.calibration_set)[:3]]
        (rows,) = yield [data.ask(prompts=prompts, role="train")]
        read.append(rows)
        (predictions,) = yield [data.ask()]
        return data.predictions(predictions)

    benchmark = Normal(datasets=["mini"], limit=2, outputs="logits")
    method = Method(MethodSpec("chooses", "Chooses", chooses), positive_logits)
    method.run(benchmark)
    method.prepare(benchmark[0])
    in_run, prepared = read
    assert prepared == in_run
    assert [math.fsum(row) for row in prepared] == pytest.approx([1.0] * 3)
