"""In-context vectors, against the paper's definition computed step by step on a tiny random model."""

from __future__ import annotations

from typing import Any, NamedTuple

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
"""Calibration rows of which the vectors are computed."""


class Parts(NamedTuple):
    """A tiny random Llama with three layers and states of 32 numbers, and its tokenizer."""

    model: Any
    tokenizer: Any


@pytest.fixture(scope="module")
def parts(make_model: Any, make_tokenizer: Any) -> Parts:
    return Parts(make_model("Llama", max_position_embeddings=1024, num_hidden_layers=3), make_tokenizer())


def call_with_hooks(parts: Parts, modules: list[Any], hooks: list[Any], text: str) -> Any:
    """Return the logits of the last position of a text, from one call of the model with a hook on each module."""
    handles = [module.register_forward_hook(hook) for module, hook in zip(modules, hooks, strict=True)]
    ids = torch.tensor([parts.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        logits = parts.model(ids, use_cache=False).logits[0, -1]
    for handle in handles:
        handle.remove()
    return logits


def last_states(parts: Parts, text: str) -> Any:
    """Return the output of each decoder layer at the last position of a text: array (layers, width)."""
    states = []

    def keep_last_state(layer: Any, inputs: Any, output: Any) -> None:
        batch = output[0] if isinstance(output, tuple) else output
        states.append(batch[0, -1].double().numpy())

    layers = list(parts.model.model.layers)
    call_with_hooks(parts, layers, [keep_last_state] * len(layers), text)
    return numpy.array(states)


def first_principal_component(rows: Any) -> Any:
    """Return the eigenvector of the largest eigenvalue of the covariance, with the sign that makes its largest score
    positive."""
    centred = rows - rows.mean(axis=0)
    _eigenvalues, eigenvectors = numpy.linalg.eigh(centred.T @ centred)  # by increasing eigenvalue
    component = eigenvectors[:, -1]
    scores = centred @ component
    largest_score = scores[numpy.abs(scores).argmax()]
    return component * numpy.sign(largest_score)


def steered_state(state: Any, vector: Any, strength: float) -> Any:
    """Return a state that is moved towards a vector and keeps its length: with unit vectors x and v,

    x + strength * (1 + max(0, -cos(x, v))) * v, scaled to the length of the state.
    """
    length = numpy.linalg.norm(state)
    x = state / length
    v = vector / numpy.linalg.norm(vector)
    cosine = float(x @ v)
    moved = x + strength * (1 + max(0.0, -cosine)) * v
    return length * moved / numpy.linalg.norm(moved)


def steering_hook(vector: Any) -> Any:
    """Return a hook that steers the output of a feed-forward network, one position after the other."""

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        (states,) = output.double().numpy()
        steered = [steered_state(state, vector, STRENGTH) for state in states]
        return torch.tensor(numpy.array([steered]), dtype=output.dtype)

    return hook


def steered_probabilities(parts: Parts, prompt: str, vectors: Any, labels: list[str]) -> list[float]:
    """Return the label probabilities of a prompt while each layer's feed-forward output is steered to its vector."""
    networks = [layer.mlp for layer in parts.model.model.layers]
    hooks = [steering_hook(vector) for vector in vectors]
    logits = call_with_hooks(parts, networks, hooks, prompt)
    label_tokens = [parts.tokenizer(label)["input_ids"][-1] for label in labels]
    probabilities: list[float] = logits[label_tokens].double().softmax(-1).tolist()
    return probabilities


class LabelledTexts(NamedTuple):
    """Calibration rows: the prompt of each without demonstrations, and its label with the words before it."""

    inputs: list[Any]
    answers: list[str]


def labelled_texts(experimentor: Any) -> LabelledTexts:
    """Return the nine calibration rows of which vectors are computed."""
    labels = experimentor.get_label_space()
    write_prompt = experimentor.prompt_former.write_prompt_from_dataline
    inputs, true_labels = labelled_prompts(
        GivenSource(write_prompt, experimentor.calibration_set(), labels, EXAMPLES, k=0)
    )
    label_prefix = experimentor.prompt_former.settings.template.label_prefix
    return LabelledTexts(inputs, [label_prefix + labels[label] for label in true_labels])


def in_context_vectors(parts: Parts, texts: LabelledTexts) -> Any:
    """Return the vector of each layer: array (3 layers, 32 numbers).

    A row is the step of all layers from the end of an input to the end of its answer. The vectors are the mean of the
    rows and their first principal component, added up.
    """
    steps = []
    for prompt, answer in zip(texts.inputs, texts.answers, strict=True):
        step = last_states(parts, answer) - last_states(parts, prompt)
        steps.append(step.ravel())
    rows = numpy.array(steps)
    return (rows.mean(axis=0) + first_principal_component(rows)).reshape(3, 32)


@pytest.fixture(scope="module")
def result_on_three_rows(parts: Parts) -> Any:
    """The result of in-context vectors on three test rows of mini, with two demonstrations each."""
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    method = Method("in_context_vectors", CausalLMKernel(*parts), calibration_number=EXAMPLES, strength=STRENGTH)
    return method.run(Normal(2, datasets=["mini"], limit=3), return_outputs=True)


def test_queries_without_demonstrations_are_steered_from_inputs_to_answers(
    parts: Parts, result_on_three_rows: Any
) -> None:
    experimentor = Normal(2, datasets=["mini"], limit=3)[0]
    labels = experimentor.get_label_space()
    vectors = in_context_vectors(parts, labelled_texts(experimentor))

    for row, probabilities in enumerate(predictions_of(result_on_three_rows)[:3]):
        texts = experimentor.test_set().get_input_text(row)
        prompt: Any = experimentor.prompt_former.write_prompt_from_dataline([], texts)
        expected = steered_probabilities(parts, prompt, vectors, labels)
        assert probabilities == pytest.approx(expected, abs=1e-5), f"test row {row}"


def test_in_context_vectors_cost_each_input_and_each_different_answer(result_on_three_rows: Any) -> None:
    texts = labelled_texts(Normal(2, datasets=["mini"], limit=3)[0])

    timing = result_on_three_rows.timing

    assert timing["training_prompts"] == len({*texts.inputs, *texts.answers})
    assert timing["test_prompts"] == 3


def test_in_context_vectors_are_signed_with_their_options(result_on_three_rows: Any) -> None:
    assert "in_context_vectors paper n=9 strength=0.7" in str(result_on_three_rows.signature)
    assert "|k:0|" in str(result_on_three_rows.signature), "the prompts have no demonstrations"


def test_strength_zero_is_the_model_without_demonstrations(parts: Parts) -> None:
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    kernel = CausalLMKernel(*parts)
    method = Method("in_context_vectors", kernel, calibration_number=EXAMPLES, strength=0.0)

    steered = predictions_of(method.run(benchmark_on_mini(k=2), return_outputs=True))

    without_demonstrations = predictions_of(benchmark_on_mini(k=0)(kernel, return_outputs=True))
    assert len(steered) == 4, "a repeat would have the same prompts"
    for row, expected in zip(steered, without_demonstrations[:4], strict=True):
        assert row == pytest.approx(expected, abs=1e-5)


def test_each_template_has_vectors_of_its_own() -> None:
    method = Method("in_context_vectors", Kernel(), calibration_number=4)

    one_template = method.run(benchmark_on_mini(limit=2)).timing
    nine_templates = method.run(benchmark_on_mini(limit=2, kind=TemplateSensitivity)).timing

    inputs_and_answers = 4 + 4  # answers may be equal
    assert one_template["training_prompts"] <= inputs_and_answers
    assert nine_templates["training_prompts"] >= 9 * 4


class OverriddenBatch(Kernel):
    """A kernel that overrides ``batch``: its predictions are not those that ``steered`` would change."""

    def batch(self, prompts: Any, label_space: Any) -> Any:
        return [row[::-1] for row in super().batch(prompts, label_space)]


def test_a_kernel_that_cannot_steer_is_refused_before_the_first_query() -> None:
    kernel = OverriddenBatch()

    with pytest.raises(ArgumentError, match=r"cannot steer its layers: .*a class that overrides other methods"):
        Method("in_context_vectors", kernel).run(benchmark_on_mini())
    assert kernel.ran == []


def test_a_negative_strength_is_refused_before_the_first_query() -> None:
    kernel = OverriddenBatch()

    with pytest.raises(ArgumentError, match=r"strength: got -1\.0"):
        Method("in_context_vectors", kernel, strength=-1.0).run(benchmark_on_mini())
    assert kernel.ran == []
