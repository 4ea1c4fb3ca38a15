"""In-context vectors, against the paper's definition computed step by step on a tiny random model."""

from __future__ import annotations

from typing import Any

import pytest

from StaICC import Normal, TemplateSensitivity
from StaICC.errors import ArgumentError
from StaICC.methods.run import Method
from StaICC.methods.training_prompts import GivenSource, labelled_prompts
from tests.methods.fakes import Kernel, benchmark_on_mini, predictions_of

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

STRENGTH = 0.7
EXAMPLES = 9


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> Any:
    return make_model("Llama", max_position_embeddings=1024, num_hidden_layers=3), make_tokenizer()


def last_states(model: Any, tokenizer: Any, text: str) -> Any:
    """The outputs of all decoder layers at the last position; the one of the last layer is before the final norm."""
    outputs: list[Any] = []
    handles = [
        layer.register_forward_hook(
            lambda layer, inputs, output: outputs.append(output[0] if isinstance(output, tuple) else output)
        )
        for layer in model.model.layers
    ]
    with torch.no_grad():
        model(torch.tensor([tokenizer(text)["input_ids"]]), use_cache=False)
    for handle in handles:
        handle.remove()
    return numpy.array([output[0, -1].double().numpy() for output in outputs])


def first_principal_component(rows: Any) -> Any:
    """The eigenvector of the largest eigenvalue of the covariance; its largest score is positive."""
    centred = rows - rows.mean(0)
    _, vectors = numpy.linalg.eigh(centred.T @ centred)
    component = vectors[:, -1]
    scores = centred @ component
    return component * numpy.sign(scores[numpy.abs(scores).argmax()])


def steered_probabilities(model: Any, tokenizer: Any, prompt: str, vectors: Any, tokens: list[int]) -> list[float]:
    """The label probabilities while each feed-forward output is turned, one position after the other."""

    def turned(vector: Any) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> Any:
            target = vector / numpy.linalg.norm(vector)
            rows = output[0].double().numpy()
            changed = []
            for x in rows:
                length = numpy.linalg.norm(x)
                against = max(0.0, -float(x @ target) / length)
                moved = x / length + STRENGTH * (1 + against) * target
                changed.append(length * moved / numpy.linalg.norm(moved))
            return torch.tensor(numpy.array(changed)[None], dtype=output.dtype)

        return hook

    networks = [layer.mlp for layer in model.model.layers]
    handles = [network.register_forward_hook(turned(vector)) for network, vector in zip(networks, vectors, strict=True)]
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer(prompt)["input_ids"]]), use_cache=False).logits[0, -1, tokens]
    for handle in handles:
        handle.remove()
    probabilities: list[float] = logits.double().softmax(-1).tolist()
    return probabilities


def test_queries_without_demonstrations_are_steered_from_inputs_to_answers(parts: Any) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    model, tokenizer = parts
    benchmark = Normal(2, datasets=["mini"], limit=3)
    method = Method("in_context_vectors", CausalLMKernel(model, tokenizer), calibration_number=EXAMPLES, strength=0.7)
    result: Any = method.run(benchmark, return_outputs=True)

    experimentor = benchmark[0]
    labels, write = experimentor.get_label_space(), experimentor.prompt_former.write_prompt_from_dataline
    inputs, truth = labelled_prompts(GivenSource(write, experimentor.calibration_set(), labels, EXAMPLES, k=0))
    prefix = experimentor.prompt_former.settings.template.label_prefix
    steps = []
    for text, label in zip(inputs, truth, strict=True):
        end_of_answer = last_states(model, tokenizer, prefix + labels[label])
        end_of_input = last_states(model, tokenizer, text)
        steps.append((end_of_answer - end_of_input).ravel())
    rows = numpy.array(steps)
    vectors = (rows.mean(0) + first_principal_component(rows)).reshape(3, 32)

    tokens = [tokenizer(label)["input_ids"][-1] for label in labels]
    expected = []
    for row in range(3):
        prompt = write([], experimentor.test_set().get_input_text(row))
        expected.append(steered_probabilities(model, tokenizer, prompt, vectors, tokens))
    assert predictions_of(result)[:3] == [pytest.approx(row, abs=1e-5) for row in expected]

    assert result.timing["training_prompts"] == len({*inputs, *(prefix + labels[label] for label in truth)})
    assert result.timing["test_prompts"] == 3
    assert f"in_context_vectors paper n={EXAMPLES} strength=0.7" in str(result.signature)
    assert "|k:0|" in str(result.signature)


def test_strength_zero_is_the_model_without_demonstrations(parts: Any) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    kernel = CausalLMKernel(*parts)
    run = Method("in_context_vectors", kernel, calibration_number=EXAMPLES, strength=0.0).run
    steered: Any = run(benchmark_on_mini(), return_outputs=True)
    bare: Any = benchmark_on_mini(k=0)(kernel, return_outputs=True)
    assert predictions_of(steered) == [
        pytest.approx(row, abs=1e-5) for row in predictions_of(bare)[: len(predictions_of(steered))]
    ]


def test_each_template_has_vectors_of_its_own() -> None:
    one_template: Any = Method("in_context_vectors", Kernel(), calibration_number=4).run(benchmark_on_mini(limit=2))
    all_templates: Any = Method("in_context_vectors", Kernel(), calibration_number=4).run(
        benchmark_on_mini(limit=2, kind=TemplateSensitivity)
    )
    inputs_of_one_template = 4
    assert one_template.timing["training_prompts"] <= 2 * inputs_of_one_template
    assert all_templates.timing["training_prompts"] >= 9 * inputs_of_one_template


class OwnScores(Kernel):
    """A kernel whose predictions are others than those that ``steered`` would change."""

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [row[::-1] for row in super().batch(prompts, label_space)]


def test_kernels_that_cannot_steer_are_refused_before_the_first_query() -> None:
    kernel = OwnScores()
    with pytest.raises(ArgumentError, match=r"cannot steer its layers: .*a class that overrides other methods"):
        Method("in_context_vectors", kernel).run(benchmark_on_mini())
    with pytest.raises(ArgumentError, match=r"strength: got -1\.0"):
        Method("in_context_vectors", kernel, strength=-1.0).run(benchmark_on_mini())
    assert kernel.ran == []
