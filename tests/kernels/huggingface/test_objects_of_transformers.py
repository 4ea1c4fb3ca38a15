"""Objects of transformers that users pass where an inference function or the parts of a kernel are expected."""

from __future__ import annotations

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.kernel import CausalLMKernel

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture
def pipeline(model, tokenizer):
    return transformers.TextGenerationPipeline(model=model, tokenizer=tokenizer)


def message_of(function):
    """Return the message with which a benchmark refuses an inference function before the first query."""
    with pytest.raises(ArgumentError) as caught:
        Normal(datasets=["mini"], limit=2)(function)
    return str(caught.value)


def test_a_model_is_passed_with_its_tokenizer(model):
    message = message_of(model)

    assert f"got a {type(model).__name__} of transformers" in message
    assert "CausalLMKernel(model, tokenizer)" in message
    with pytest.raises(ArgumentError, match=r"load_kernel: got a .* CausalLMKernel\(model, tokenizer\)"):
        load_kernel(model)


def test_an_adapted_model_is_passed_with_its_tokenizer(model):
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))

    assert "CausalLMKernel(model, tokenizer)" in message_of(adapted)


def test_of_a_pipeline_model_and_tokenizer_are_passed(pipeline, tokenizer):
    assert "CausalLMKernel(pipeline.model, pipeline.tokenizer)" in message_of(pipeline)
    assert "CausalLMKernel(model, tokenizer)" in message_of(tokenizer)
    with pytest.raises(ArgumentError, match=r"got a TextGenerationPipeline, .* CausalLMKernel\(pipeline.model"):
        CausalLMKernel(pipeline)


def test_a_class_of_the_user_that_is_derived_from_a_model_may_be_an_inference_function(model):
    class Classifier(type(model)):
        def forward(self, prompt, label_space):
            return 0

    result = Normal(datasets=["mini"], limit=2)(Classifier(model.config))

    assert result.averaged["accuracy"] is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpt2",), r"got the name 'gpt2', expected a loaded model\. .* load_kernel\('hf:gpt2'\)"),
        (("hf:gpt2", "hf:gpt2"), r"load_kernel\('hf:gpt2'\)"),
    ],
)
def test_a_name_in_place_of_a_model_is_refused_with_the_function_that_loads_it(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        CausalLMKernel(*arguments)


def test_a_model_without_a_loaded_tokenizer_is_refused(model):
    with pytest.raises(ArgumentError, match=r"tokenizer: got none\. .* CausalLMKernel\(model, tokenizer\)"):
        CausalLMKernel(model)
    with pytest.raises(ArgumentError, match=r"tokenizer: got the name 'gpt2', .* AutoTokenizer"):
        CausalLMKernel(model, "gpt2")
