"""Identity of torch kernels: whatever changes a prediction changes it, whatever does not leaves it as it is."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import math
import operator
import os
import shutil
import subprocess
import sys
import types

import pytest

from StaICC import Normal
from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference.identity import identity_of
from StaICC.inference.recheck import tolerance_of
from StaICC.kernels.huggingface import batching, live_state
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions
from StaICC.kernels.huggingface.source import ModelSource, digest_of_file
from StaICC.kernels.huggingface.token_trie import TrieRow
from StaICC.kernels.protocol import can_call_directly
from StaICC.prefabricate_inference import model_kernel

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {n}?\nquestion: the city {n % 7}? answer: " for n in range(12)]
CONTEXT = "question: the good people in the city? answer: person\n" * 5
PROMPTS_IN_CONTEXT = [CONTEXT + prompt for prompt in PROMPTS]


@pytest.fixture
def kernel(make_model, tokenizer):
    """Return the kernel of a tiny model that a test may change."""
    return CausalLMKernel(make_model("Llama"), tokenizer)


def digest(kernel):
    """Return the digest of the identity of a kernel."""
    return identity_of(kernel).digest


def close(rows, abs=1e-5):
    """Return what equals rows of numbers but for rounding."""
    return [pytest.approx(row, abs=abs) for row in rows]


def layer(kernel, number=0):
    """Return a decoder layer of the model of a kernel."""
    return kernel.model.model.layers[number]


def middle_element(weight):
    """Return the element in the middle of a weight, as a part of it that can be changed."""
    flat = weight.detach().reshape(-1)
    return flat[flat.numel() // 2 : flat.numel() // 2 + 1]


def copy_tokenizer(kernel):
    """Give a kernel a tokenizer of its own, which changes no other test, and return it."""
    backend = kernel.tokenizer.backend_tokenizer
    copied = transformers.PreTrainedTokenizerFast(
        tokenizer_object=type(backend).from_str(backend.to_str()), eos_token="<|end|>", bos_token="<|end|>"
    )
    kernel._loaded = dataclasses.replace(kernel._loaded, tokenizer=copied)
    return copied


def add_token(kernel):
    copy_tokenizer(kernel).add_tokens(["who wrote"])


def set_chat_template(kernel):
    copy_tokenizer(kernel).chat_template = "{{ messages }}"


def replace_data(kernel):
    weight = layer(kernel).mlp.down_proj.weight
    weight.data = weight.data.flip(0)


def frequencies(kernel):
    """Return the frequencies of the rotary positions, a buffer that is computed and not saved."""
    return kernel.model.model.rotary_emb.inv_freq


def double_method(kernel, patch):
    """Let the method of a class of layers return twice its result."""
    mlp_class = type(layer(kernel).mlp)
    original = mlp_class.forward
    patch.setattr(mlp_class, "forward", lambda self, states: 2 * original(self, states))


def reverse_texts(kernel, patch):
    """Let the method of the tokenizer's class read texts from their end."""
    tokenizer_class = type(kernel.tokenizer)
    original = tokenizer_class.__call__
    patch.setattr(tokenizer_class, "__call__", lambda self, text, **more: original(self, text[::-1], **more))


CHANGES = {
    "in place": lambda kernel: layer(kernel).mlp.down_proj.weight.detach().mul_(1.5),
    "by data": lambda kernel: layer(kernel, 1).self_attn.v_proj.weight.data[3].add_(1.0),
    "by numpy": lambda kernel: layer(kernel, 1).mlp.up_proj.weight.detach().numpy().__imul__(2),
    "one element": lambda kernel: middle_element(layer(kernel, 1).mlp.gate_proj.weight).add_(3.0),
    "other data": replace_data,
    "bfloat16": lambda kernel: kernel.model.to(torch.bfloat16),
    "scaled frequencies": lambda kernel: frequencies(kernel).mul_(1.009),
    "rounded frequencies": lambda kernel: frequencies(kernel).copy_(frequencies(kernel).bfloat16().float()),
    "attribute": lambda kernel: setattr(kernel.model.model.norm, "variance_epsilon", 0.5),
    "configuration": lambda kernel: setattr(kernel.model.config, "max_position_embeddings", 100),
    "attention": lambda kernel: kernel.model.set_attn_implementation("eager"),
    "added token": add_token,
    "chat template": set_chat_template,
    "a layer once more": lambda kernel: kernel.model.model.layers.append(layer(kernel)),
    "full labels": lambda kernel: setattr(kernel, "options", KernelOptions(label_scoring="full")),
}
"""Changes of a kernel or of its model that the digest of its identity must show."""


def replace_function(kernel, patch):
    """Let the function that rotates positions return them unchanged."""
    patch.setattr(transformers.models.llama.modeling_llama, "rotate_half", lambda x: x)


def replace_attention(kernel, patch):
    """Let the library find a function that returns nothing under the name of an attention that it has: "sdpa"."""
    functions_of_attention = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    patch.setitem(functions_of_attention._global_mapping, "sdpa", lambda *_, **__: None)


UNIDENTIFIED_CHANGES = {
    "unknown attribute": lambda kernel, patch: setattr(kernel.model.model.norm, "own", object()),
    "function": replace_function,
    "method of a class": double_method,
    "activation": lambda kernel, patch: patch.setattr(torch.nn.functional, "silu", lambda x, inplace=False: x * x),
    "tokenizer": reverse_texts,
    "object": lambda _, patch: patch.setattr(torch.nn.functional, "silu", operator.itemgetter(0)),
    "partial": lambda _, patch: patch.setattr(torch.nn.functional, "linear", functools.partial(lambda *_: 0)),
    "cached": lambda _, patch: patch.setattr(torch.nn.functional, "silu", functools.lru_cache(lambda *_: 0)),
    "global hook": lambda _, patch: patch.setattr(torch.nn.modules.module, "_global_forward_hooks", {1: lambda *_: 0}),
    "own attention": replace_attention,
}
"""Changes of the code around a kernel that no version and no digest identifies."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_kernel_has_another_identity(kernel, name):
    before = kernel.identity()
    CHANGES[name](kernel)
    after = kernel.identity()

    assert after.digest != before.digest
    assert not after.unidentified


@pytest.mark.parametrize("name", UNIDENTIFIED_CHANGES)
def test_a_change_of_code_that_no_digest_shows_is_named_in_the_identity(kernel, name, monkeypatch):
    assert not kernel.identity().unidentified
    UNIDENTIFIED_CHANGES[name](kernel, monkeypatch)
    assert kernel.identity().unidentified


def test_a_kernel_that_nothing_changed_has_the_same_identity_twice(kernel):
    assert kernel.identity() == kernel.identity()


@contextlib.contextmanager
def low_precision():
    """Let torch compute products of float32 with fewer digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def low_precision_of_a_backend():
    """Let oneDNN alone compute products of float32 with fewer digits."""
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    products.fp32_precision = "bf16"
    yield
    products.fp32_precision = before


def autocast():
    """Let torch compute in bfloat16."""
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize("numerics", [autocast, low_precision, low_precision_of_a_backend])
def test_numerics_of_torch_are_part_of_the_identity(numerics, model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    before = kernel.identity()

    with numerics():
        inside = kernel.identity()

    assert list(before.differences(inside)) == ["numerics"]
    assert kernel.identity() == before


@pytest.fixture
def caching_kernel(make_model, tokenizer):
    """Return a kernel that has run prompts with a common beginning, and that keeps the cached beginning."""
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, token_budget=100)
    kernel.runner().cache_from = 16  # tokens; the context is longer
    kernel.batch(PROMPTS_IN_CONTEXT, LABELS)
    return kernel


def test_a_kernel_reuses_the_cached_beginning_of_its_prompts(caching_kernel):
    """Without it, the next test would not show that the beginning of a changed model is computed again."""
    computed_once = caching_kernel.runner().computed
    caching_kernel.batch(PROMPTS_IN_CONTEXT, LABELS)
    computed_again = caching_kernel.runner().computed - computed_once
    assert computed_again < computed_once


@pytest.mark.parametrize("name", ["in place", "by data", "by numpy", "one element", "bfloat16"])
@pytest.mark.parametrize("in_a_run", [True, False])
def test_a_changed_model_does_not_use_the_cached_beginning(caching_kernel, tokenizer, name, in_a_run):
    before = caching_kernel.batch(PROMPTS_IN_CONTEXT, LABELS)
    CHANGES[name](caching_kernel)
    if in_a_run:
        caching_kernel.identity()  # each run begins with it
    rows = caching_kernel.batch(PROMPTS_IN_CONTEXT, LABELS)

    without_cache = CausalLMKernel(caching_kernel.model, tokenizer, prefix_reuse=False)
    rounding = 2e-2 if name == "bfloat16" else 1e-5
    assert rows == close(without_cache.batch(PROMPTS_IN_CONTEXT, LABELS), rounding)
    assert rows != close(before, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_resumed_run_accepts_the_rounding_of_other_batches(dtype, make_model, tokenizer, tmp_path):
    """A run rechecks stored predictions in other batches than those that computed them."""
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=2048), tokenizer, dtype=dtype)
    store = tmp_path / "run.sqlite"
    Normal(datasets=["mini"], limit=4)(kernel, store=store, chunk_size=5)

    result = Normal(datasets=["mini"], limit=8)(kernel, store=store, chunk_size=5)

    assert result.complete
    assert result.provenance.predictors[0].rechecked >= 3


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 5e-2)])
def test_the_tolerance_of_a_recheck_follows_the_number_type(dtype, tolerance, make_model, tokenizer):
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, dtype=dtype)
    function = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM, model=kernel.model, tokenizer=tokenizer
    )
    assert tolerance_of(kernel) == tolerance
    assert tolerance_of(function) == tolerance


# -- hooks and foreign code


def steer(module, inputs, output):
    return output * 1.5 + 1.0


def at_last_position(module, inputs, output):
    changed = output.clone()
    changed[:, -1] += torch.linspace(-1, 1, output.shape[-1])
    return changed


def patched_forward(kernel):
    original = layer(kernel).mlp.forward
    layer(kernel).mlp.forward = lambda states: original(states) * 2


def patched_method(kernel):
    module = kernel.model.model.norm
    module.forward = types.MethodType(lambda self, states: states * 0.5, module)


HOOKS = {
    "hook": lambda kernel: kernel.model.model.norm.register_forward_hook(steer),
    "pre-hook": lambda kernel: layer(kernel).mlp.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1.0,)),
    "hook of the head": lambda kernel: kernel.model.lm_head.register_forward_hook(steer),
    "pre-hook of the head": lambda kernel: kernel.model.lm_head.register_forward_pre_hook(
        lambda _, x: (x[0].flip(-1),)
    ),
    "function vector": lambda kernel: layer(kernel).mlp.register_forward_hook(at_last_position),
    "graph": lambda kernel: kernel.model.model.norm.register_forward_hook(torch.fx.symbolic_trace(steer).forward),
    "forward": patched_forward,
    "method": patched_method,
}


HOOK_PROMPTS = [*PROMPTS[:5], PROMPTS[0] + "x", "question: "]
"""Prompts of different lengths, one of which begins as another one."""


@pytest.fixture
def rows_of_plain_calls(plain):
    """A function that returns the label probabilities of prompts, each from one call of the model."""

    def rows(model, tokenizer, prompts):
        return [plain.label_probabilities(model, tokenizer, prompt, LABELS) for prompt in prompts]

    return rows


@pytest.mark.parametrize("after_a_run", [False, True])
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_see_one_prompt_at_a_time(kernel, tokenizer, rows_of_plain_calls, hook, after_a_run):
    """A hook may depend on what else is in the batch, so batches would predict other than plain calls."""
    without_hook = rows_of_plain_calls(kernel.model, tokenizer, HOOK_PROMPTS)
    if after_a_run:
        assert kernel.batch(HOOK_PROMPTS, LABELS) == close(without_hook, 1e-4)

    HOOKS[hook](kernel)
    rows = kernel.batch(HOOK_PROMPTS, LABELS)

    assert rows == close(rows_of_plain_calls(kernel.model, tokenizer, HOOK_PROMPTS), 1e-4)
    assert rows == close([kernel(prompt, LABELS) for prompt in HOOK_PROMPTS], 1e-4)
    assert rows != close(without_hook, 1e-3)
    assert kernel.runner().forward.capabilities.reason, "the kernel has no reason to run each prompt alone"


@pytest.mark.parametrize("hook", HOOKS)
def test_the_identity_names_a_hook(kernel, hook):
    assert not kernel.identity().unidentified
    HOOKS[hook](kernel)
    (reason,) = kernel.identity().unidentified
    assert "hook on" in reason or "replaced forward of" in reason


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_see_one_label_at_a_time_where_labels_are_scored_in_full(make_model, tokenizer, plain, hook):
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, label_scoring="full")
    HOOKS[hook](kernel)
    prompt, labels = PROMPTS[0].rstrip(), [" person", " location", " number"]

    first_row, *_ = kernel.batch([prompt, *PROMPTS[3:6]], labels)

    tokens_of_prompt = len(tokenizer(prompt)["input_ids"])
    scores = []
    for label in labels:
        log_probabilities = plain.log_probabilities(kernel.model, tokenizer, prompt + label)
        of_label = log_probabilities[tokens_of_prompt - 1 :]  # the first token has none
        scores.append(sum(of_label))
    assert first_row == pytest.approx(torch.softmax(torch.tensor(scores), 0).tolist(), abs=1e-4)


def test_a_class_that_is_changed_after_a_run_sees_one_prompt_at_a_time(kernel, monkeypatch):
    kernel.batch(PROMPTS, LABELS)
    double_method(kernel, monkeypatch)

    kernel.identity()  # each run begins with it
    kernel.batch(PROMPTS, LABELS)

    assert "replaced method" in kernel.runner().forward.capabilities.reason


def test_a_new_kernel_of_a_model_whose_class_was_changed_sees_one_prompt_at_a_time(kernel, monkeypatch):
    kernel.batch(PROMPTS, LABELS)
    double_method(kernel, monkeypatch)

    new_kernel = CausalLMKernel(kernel.model, kernel.tokenizer)
    new_kernel.batch(PROMPTS, LABELS)

    assert "replaced method" in new_kernel.runner().forward.capabilities.reason


@pytest.mark.parametrize(
    ("file", "is_library"),
    [("json/__init__.py", True), ("copy.py", True), ("site-packages/steering/hooks.py", False)],
)
def test_code_of_other_installed_packages_is_no_library_code(file, is_library):
    """Without a virtual environment, their folder is inside that of the standard library."""
    standard_library = os.path.dirname(os.__file__)
    code = compile("def function(): pass", os.path.join(standard_library, file), "exec")
    names = {}
    exec(code, names)
    assert live_state.is_library_code(names["function"]) is is_library


def compiled_layers(model):
    for module in (*model.model.layers, model.model.norm):
        module.compile(backend="eager")
    return model


def compiled_body(model):
    model.model = torch.compile(model.model, backend="eager")
    return model


def compiled_model(model):
    return torch.compile(model, backend="eager")


@pytest.fixture(params=[compiled_model, compiled_layers, compiled_body])
def compiled_kernel(request, make_model, tokenizer):
    """Return the kernel of a model that its user compiled."""
    return CausalLMKernel(request.param(make_model("Llama", max_position_embeddings=512)), tokenizer)


def test_a_model_that_its_user_compiled_predicts_the_same(compiled_kernel, make_model, tokenizer):
    benchmark = Normal(datasets=["mini"], limit=1, k=0)
    not_compiled = CausalLMKernel(make_model("Llama", max_position_embeddings=512), tokenizer)

    accuracy = benchmark(compiled_kernel).divided["mini"]["accuracy"]
    assert accuracy == benchmark(not_compiled).divided["mini"]["accuracy"]


def test_a_model_that_its_user_compiled_needs_a_name_for_a_store(compiled_kernel, tmp_path):
    benchmark, store = Normal(datasets=["mini"], limit=1, k=0), tmp_path / "run.sqlite"
    assert compiled_kernel.identity().unidentified
    with pytest.raises(ArgumentError, match="model_name"):
        benchmark(compiled_kernel, store=store)

    assert benchmark(compiled_kernel, store=store, model_name="compiled").complete


# -- adapters, quantised weights, models that look at the batch


@pytest.fixture
def adapted_kernel(make_model, tokenizer):
    """Return the kernel of a model with two random LoRA adapters, "one" and "two", of which the first is active."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    model = peft.get_peft_model(make_model("Llama"), config, "one").eval()
    model.add_adapter("two", config)
    return CausalLMKernel(model, tokenizer)


def use_second(model):
    model.set_adapter("two")


def disable_adapters(model):
    model.base_model.disable_adapter_layers()


def scale_one_layer_of_second(model):
    use_second(model)
    model.get_base_model().model.layers[0].self_attn.q_proj.scaling["two"] = 7.0


def merge_second(model):
    use_second(model)
    model.merge_adapter(["two"])


ADAPTER_CHANGES = [use_second, disable_adapters, scale_one_layer_of_second, merge_second]


@pytest.mark.parametrize("change", ADAPTER_CHANGES)
def test_a_change_of_the_adapters_is_predicted_with_and_is_another_identity(
    adapted_kernel, tokenizer, rows_of_plain_calls, change
):
    before = digest(adapted_kernel)
    rows_before = adapted_kernel.batch(PROMPTS, LABELS)

    change(adapted_kernel.model)

    assert digest(adapted_kernel) != before
    assert not adapted_kernel.identity().unidentified
    rows = adapted_kernel.batch(PROMPTS, LABELS)
    assert rows == close(rows_of_plain_calls(adapted_kernel.model, tokenizer, PROMPTS), 1e-4)
    assert rows != close(rows_before, 1e-6)


def test_different_adapters_have_different_identities(adapted_kernel):
    model = adapted_kernel.model
    digests = [digest(adapted_kernel)]
    for change in ADAPTER_CHANGES:
        change(model)
        digests.append(digest(adapted_kernel))
        model.base_model.enable_adapter_layers()
    assert len(set(digests)) == 5


def test_an_adapted_model_is_predicted_with_its_first_adapter(adapted_kernel, tokenizer, rows_of_plain_calls):
    expected = rows_of_plain_calls(adapted_kernel.model, tokenizer, PROMPTS)
    assert adapted_kernel.batch(PROMPTS, LABELS) == close(expected, 1e-4)


@pytest.mark.parametrize("adapter", ["one", "two"])
def test_adapters_that_are_disabled_and_enabled_again_have_the_same_identity_and_predictions(
    adapted_kernel, tokenizer, rows_of_plain_calls, adapter
):
    adapted_kernel.model.set_adapter(adapter)
    before = digest(adapted_kernel)
    adapted_kernel.model.base_model.disable_adapter_layers()
    adapted_kernel.batch(PROMPTS, LABELS)
    adapted_kernel.model.base_model.enable_adapter_layers()
    assert digest(adapted_kernel) == before
    expected = rows_of_plain_calls(adapted_kernel.model, tokenizer, PROMPTS)
    assert adapted_kernel.batch(PROMPTS, LABELS) == close(expected, 1e-4)


def test_the_identity_names_the_active_adapter(adapted_kernel):
    assert adapted_kernel.identity().who["adapters"] == "one"
    adapted_kernel.model.set_adapter("two")
    assert adapted_kernel.identity().who["adapters"] == "two"


def test_a_model_with_adapters_shares_the_beginnings_of_prompts(adapted_kernel):
    adapted_kernel.batch(PROMPTS, LABELS)
    assert adapted_kernel.runner().forward.capabilities.sharing


def lora_model(make_model):
    """Return a model as ``peft`` wraps it for generation: it keeps a method of the model inside as an attribute."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    torch.manual_seed(0)
    return peft.get_peft_model(make_model("Llama"), config).eval()


def test_a_wrapped_model_for_generation_is_identified(make_model, tokenizer):
    kernel = CausalLMKernel(lora_model(make_model), tokenizer)

    assert not kernel.identity().unidentified
    assert digest(kernel) == digest(CausalLMKernel(lora_model(make_model), tokenizer))


@pytest.mark.parametrize(
    "foreign_method",
    [
        lambda model: lambda *inputs, **settings: {},
        lambda model: types.MethodType(lambda self, *inputs, **settings: {}, model.get_base_model()),
        lambda model: torch.nn.Linear(1, 1).extra_repr,
        lambda model: types.MethodType(torch.autocast("cpu")(torch.nn.Linear.forward), model.get_base_model()),
        lambda model: types.MethodType(functools.partial(torch.nn.functional.threshold), model.get_base_model()),
        lambda model: types.MethodType(torch.nn.Linear.extra_repr, model.get_base_model()),
    ],
    ids=[
        "a function",
        "own code as a method",
        "a method of a module outside the model",
        "a wrapped method of a library",
        "a partial of a library's function",
        "a method of another class",
    ],
)
def test_a_wrapped_model_with_another_method_is_unidentified(foreign_method, make_model, tokenizer):
    model = lora_model(make_model)
    model.base_model_prepare_inputs_for_generation = foreign_method(model)

    (reason,) = CausalLMKernel(model, tokenizer).identity().unidentified

    assert "base_model_prepare_inputs_for_generation" in reason


class DependsOnBatch(torch.nn.Module):  # type: ignore[name-defined]
    """Adds to the last position of the batch, as a function vector does, without a hook."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, states):
        changed = self.inner(states).clone()
        changed[:, -1] += 0.7
        return changed


class Capacity(DependsOnBatch):
    """Leaves out what a call has beyond a hundred positions, as a mixture of experts with a capacity does."""

    def forward(self, states):
        rows, positions_of_row, _width = states.shape
        positions = torch.arange(rows * positions_of_row, device=states.device)
        is_computed = (positions < 100).reshape(rows, positions_of_row, 1)
        return self.inner(states) * is_computed


class HeadThatSeesAToken(torch.nn.Module):  # type: ignore[name-defined]
    """A model that reverses the logits of all positions if its input has a token, anywhere in the batch.

    The short sequences of the kernel's trial do not have the token; the prompts of the run do.
    """

    def __init__(self, inner, token):
        super().__init__()
        self.inner = inner
        self.token = token
        self.config = inner.config
        self.base_model = inner.base_model
        self.get_output_embeddings = inner.get_output_embeddings

    def forward(self, input_ids=None, **options):
        output = self.inner(input_ids=input_ids, **options)
        if (input_ids == self.token).any():
            output.logits = output.logits.flip(-1)
        output.hidden_states = None  # as the output of a class of one's own
        return output


def assert_runs_each_prompt_alone(kernel, caplog):
    assert "differ from single calls" in kernel.runner().forward.capabilities.reason
    assert "run alone" in caplog.text


def test_a_model_whose_layers_depend_on_the_batch_runs_each_prompt_alone(
    kernel, tokenizer, rows_of_plain_calls, caplog
):
    layer(kernel).mlp = DependsOnBatch(layer(kernel).mlp)
    prompts = [*PROMPTS, "question: "]
    kernel(prompts[0], LABELS)  # alone it is right, which says nothing of batches

    rows = kernel.batch(prompts, LABELS)

    assert rows == close(rows_of_plain_calls(kernel.model, tokenizer, prompts), 1e-4)
    assert_runs_each_prompt_alone(kernel, caplog)


def test_a_model_whose_head_depends_on_other_tokens_runs_each_prompt_alone(
    make_model, tokenizer, rows_of_plain_calls, caplog
):
    """The trial with short sequences cannot notice it, only the comparison with prompts of the run."""
    token_of_all_prompts = tokenizer(" answer")["input_ids"][-1]
    model = HeadThatSeesAToken(make_model("Llama"), token_of_all_prompts).eval()
    kernel = CausalLMKernel(model, tokenizer)

    rows = kernel.batch(PROMPTS, LABELS)

    assert rows == close(rows_of_plain_calls(model, tokenizer, PROMPTS), 1e-4)
    assert_runs_each_prompt_alone(kernel, caplog)


SHORT_PROMPTS = [f"{letter} question: who wrote it? answer: " for letter in "abcdefghijklmnopqrst"]
LONG_PROMPTS = [f"{n} {CONTEXT * 10}question: who wrote {'the city' * n}? answer: " for n in range(9)]


@pytest.fixture
def kernel_with_capacity(make_model, tokenizer):
    """Return the kernel of a model that is right for a single short prompt and wrong for a batch."""
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=1024), tokenizer)
    layer(kernel).mlp = Capacity(layer(kernel).mlp)
    return kernel


def assert_batch_equals_single_calls(kernel, prompts):
    rows = kernel.batch(prompts, LABELS)
    reason = kernel.runner().forward.capabilities.reason
    assert "differ from single calls" in reason, (
        f"the model is wrong in batches, but the kernel did not notice: got {reason!r} as its reason to run each "
        "prompt alone"
    )
    for number, prompt in enumerate(prompts):
        alone = kernel(prompt, LABELS)
        assert rows[number] == pytest.approx(alone, abs=1e-4), f"prompt {number}: in the batch and alone"


def test_long_prompts_are_run_alone_if_the_first_batch_differs_from_a_single_call(kernel_with_capacity):
    assert_batch_equals_single_calls(kernel_with_capacity, LONG_PROMPTS)


def test_a_single_prompt_does_not_replace_the_check_of_the_first_batch(kernel_with_capacity):
    kernel_with_capacity(SHORT_PROMPTS[0], LABELS)
    assert_batch_equals_single_calls(kernel_with_capacity, SHORT_PROMPTS)


@pytest.mark.parametrize("prompts", [SHORT_PROMPTS, LONG_PROMPTS], ids=["short", "long"])
def test_batches_of_a_usual_model_equal_single_calls(make_model, tokenizer, prompts):
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=1024), tokenizer)
    rows = kernel.batch(prompts, LABELS)
    assert rows == close([kernel(prompt, LABELS) for prompt in prompts], 1e-4)
    assert kernel.runner().forward.capabilities.reason == ""


def test_states_that_are_not_finite_differ_from_a_call_by_more_than_any_rounding(make_model, tokenizer):
    forward = CausalLMKernel(make_model("Llama"), tokenizer).runner().forward
    logits = forward.plain_logits([1, 2])[-1]
    (states,) = forward.padded([TrieRow([1, 2], [0, 1], {})])[:, -1:]
    assert batching._deviation(forward, math.nan * states, logits) == math.inf


# -- files


@pytest.fixture
def folder(tmp_path, make_model, tokenizer):
    """Return a folder with a saved model and its tokenizer."""
    path = tmp_path / "model"
    make_model("Llama").save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def spec_kernel(folder, **options):
    """Return a kernel of the model in a folder."""
    return CausalLMKernel.from_spec(str(folder), device="cpu", **options)


def in_one_file(folder, model):
    """Save the weights as usual."""
    model.save_pretrained(folder)


def in_a_hidden_subfolder(folder, model, subfolder=".shards"):
    """Save the weights in a file of a hidden subfolder that only an index names."""
    from safetensors.torch import save_file

    (folder / subfolder).mkdir(exist_ok=True)
    (folder / "model.safetensors").unlink(missing_ok=True)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_file(weights, folder / subfolder / "one.safetensors", {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, f"{subfolder}/one.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def in_a_linked_folder(folder, model):
    """Save the weights outside the folder, in a subfolder that is a link."""
    outside = folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    if not (folder / "shards").exists():
        (folder / "shards").symlink_to(outside, target_is_directory=True)
    in_a_hidden_subfolder(folder, model, "shards")


def test_loading_changes_no_identity(folder):
    kernel = spec_kernel(folder)
    before = digest(kernel)
    kernel.batch(PROMPTS, LABELS)
    assert digest(kernel) == before


@pytest.mark.parametrize("save", [in_one_file, in_a_hidden_subfolder, in_a_linked_folder])
def test_a_folder_that_is_overwritten_is_another_model(folder, make_model, tokenizer, save):
    save(folder, make_model("Llama"))
    kernel_before = spec_kernel(folder)
    before = digest(kernel_before)
    kernel_before.batch(PROMPTS, LABELS)

    other_model = make_model("Llama", seed=5)
    save(folder, other_model)
    kernel = spec_kernel(folder)

    assert digest(kernel) != before
    assert kernel.batch(PROMPTS, LABELS) == close(CausalLMKernel(other_model, tokenizer).batch(PROMPTS, LABELS))
    assert digest(kernel) != before, "after the model was loaded"


def test_a_loaded_model_does_not_follow_its_folder(folder, make_model):
    kernel = spec_kernel(folder)
    rows, before = kernel.batch(PROMPTS, LABELS), digest(kernel)
    in_one_file(folder, make_model("Llama", seed=5))
    assert digest(kernel) == before
    assert kernel.batch(PROMPTS, LABELS) == close(rows, 1e-6)


def test_a_changed_byte_of_the_weights_is_another_identity(folder):
    before = digest(spec_kernel(folder))
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    assert digest(spec_kernel(folder)) != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_changed_file_next_to_the_weights_is_another_identity(folder, name):
    before = digest(spec_kernel(folder))
    content = json.loads((folder / name).read_text("utf-8"))
    (folder / name).write_text(json.dumps(content | {"new": 1}), "utf-8")
    assert digest(spec_kernel(folder)) != before


def test_the_number_type_of_a_checkpoint_is_read_from_its_folder(folder):
    assert ModelSource(str(folder)).checkpoint_type() == "float32"


def test_kernels_of_one_folder_share_the_loaded_model(folder):
    assert spec_kernel(folder).model is spec_kernel(folder).model


def test_a_loaded_model_that_was_changed_is_not_shared(folder):
    unchanged = spec_kernel(folder)
    rows, before = unchanged.batch(PROMPTS, LABELS), digest(unchanged)

    changed = spec_kernel(folder)
    CHANGES["by data"](changed)
    later = spec_kernel(folder)

    assert digest(changed) != before
    assert digest(later) == before
    assert later.batch(PROMPTS, LABELS) == close(rows, 1e-6)
    assert digest(later) == before, "after the model was loaded"


def test_files_that_change_while_they_are_loaded_are_refused(folder, make_model, monkeypatch):
    make_model("Llama", seed=11).save_pretrained(folder)  # no other test has loaded this content
    original = transformers.AutoModelForCausalLM.from_pretrained

    def load_and_overwrite(*arguments, **keywords):
        loaded = original(*arguments, **keywords)
        make_model("Llama", seed=3).save_pretrained(folder)
        return loaded

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", load_and_overwrite)
    with pytest.raises(StaICCError, match="changed while it was loaded"):
        spec_kernel(folder).batch(PROMPTS, LABELS)


def test_a_file_that_changes_within_its_modification_time_has_another_digest(tmp_path, monkeypatch):
    """Digests are kept by size and modification time, which are the same here."""
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    path = tmp_path / "weights.bin"
    digests = []
    for byte in (b"a", b"b", b"c", b"d", b"e"):
        path.write_bytes(byte * 2 * 1024**2)
        os.utime(path, ns=(10**18, 10**18))
        digests.append(digest_of_file(path))
        assert digest_of_file(path) == digests[-1]
    assert len(set(digests)) == 5


WIDTH = live_state.WIDTH
"""A tensor is digested as a table of 64-bit words with so many columns, and the words after its last row."""
WORDS = torch.randint(-(2**62), 2**62, (3 * WIDTH + 2,), generator=torch.Generator().manual_seed(0))
"""A table of three rows, and two words after it."""


def with_table(change):
    """Return the words with a changed table."""
    table, after_table = WORDS[: 3 * WIDTH].view(3, WIDTH), WORDS[3 * WIDTH :]
    return torch.cat([change(table).reshape(-1), after_table])


def with_exchanged_words(table):
    """Return a table with two words exchanged that are in different rows and columns."""
    exchanged = table.clone()
    exchanged[0, 0], exchanged[1, 5] = table[1, 5], table[0, 0]
    return exchanged


def with_exchanged_columns(table):
    """Return a table with its first two columns exchanged."""
    return table[:, [1, 0, *range(2, WIDTH)]]


CHANGED_WORDS = {
    "rows in reverse order": with_table(lambda table: table.flip(0)),
    "columns in reverse order": with_table(lambda table: table.flip(1)),
    "two rows exchanged": with_table(lambda table: table[[1, 0, 2]]),
    "two columns exchanged": with_table(with_exchanged_columns),
    "two words exchanged": with_table(with_exchanged_words),
    "two words after the table exchanged": torch.cat([WORDS[:-2], WORDS[-1:], WORDS[-2:-1]]),
    "all words in reverse order": WORDS.flip(0),
    "without the last word": WORDS[:-1],
    "another number type": WORDS.view(torch.float64),
}


@pytest.mark.parametrize("name", CHANGED_WORDS)
def test_the_digest_of_a_changed_tensor_is_another_one(name):
    assert live_state.digest_of_tensor(CHANGED_WORDS[name]) != live_state.digest_of_tensor(WORDS)


@pytest.mark.parametrize("index", [0, WIDTH - 1, WIDTH, 3 * WIDTH - 1, 3 * WIDTH, 3 * WIDTH + 1])
@pytest.mark.parametrize(("byte", "mask"), [(0, 0b0000_0001), (7, 0b1000_0000)], ids=["lowest bit", "highest bit"])
def test_the_digest_of_a_tensor_notices_one_bit(index, byte, mask):
    """In the first and last word of a row of the table, of the table, and after the table."""
    changed = WORDS.clone()
    changed.view(torch.uint8)[8 * index + byte] ^= mask
    assert live_state.digest_of_tensor(changed) != live_state.digest_of_tensor(WORDS)


def test_the_digest_of_a_tensor_notices_all_signs_of_an_even_number_of_rows():
    """The changes cancel in the sums of the columns, since two highest bits add up to nothing in 64 bits."""
    two_rows = WORDS[: 2 * WIDTH]
    other_signs = two_rows ^ -(2**63)
    assert live_state.digest_of_tensor(other_signs) != live_state.digest_of_tensor(two_rows)


def test_the_digest_of_a_tensor_does_not_depend_on_its_place_in_memory():
    """A tensor may begin at any multiple of its number's size, here four bytes."""
    numbers = WORDS.view(torch.float32)
    shifted = torch.cat([torch.zeros(1), numbers])[1:]
    assert live_state.digest_of_tensor(shifted) == live_state.digest_of_tensor(numbers)


# -- ways in which kernels are the same


@pytest.mark.parametrize("options", [{"token_budget": 32}, {"prefix_reuse": False}, {"label_mass": False}])
def test_an_option_that_changes_no_prediction_is_not_in_the_identity(model, tokenizer, options):
    assert digest(CausalLMKernel(model, tokenizer, **options)) == digest(CausalLMKernel(model, tokenizer))


def test_a_copied_folder_is_the_same_model(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "copy")
    assert digest(spec_kernel(copied)) == digest(spec_kernel(folder))


def test_a_kernel_that_was_used_has_the_identity_of_a_new_one(folder):
    used = spec_kernel(folder)
    used.batch(PROMPTS, LABELS)
    used.generate(PROMPTS[:2], 3)
    assert digest(used) == digest(spec_kernel(folder))


DIGESTS_OF_A_PROCESS = """
import sys
from StaICC.kernels.huggingface.kernel import CausalLMKernel
kernel = CausalLMKernel.from_spec(sys.argv[1], device="cpu")
print(kernel.identity().digest)
print(CausalLMKernel(kernel.model, kernel.tokenizer).identity().digest)
print(kernel.identity().digest)
"""


def test_another_process_computes_the_same_identities(folder):
    """Of a folder before and after it is loaded, and of its model in memory."""
    command = [sys.executable, "-c", DIGESTS_OF_A_PROCESS, str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    not_loaded, in_memory, loaded = printed.split()

    kernel = spec_kernel(folder)
    assert not_loaded == digest(kernel)
    assert loaded == digest(kernel)
    assert in_memory == digest(CausalLMKernel(kernel.model, kernel.tokenizer))


FAMILIES = ["GPT2", "Llama", "OPT", "Gemma2", "Mamba", "Falcon", "Mixtral"]


def stretching_positions(rope_type):
    """Return the options of a model whose frequencies of rotary positions follow the length of the input."""
    rope = {
        "rope_type": rope_type,
        "factor": 4.0,
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 4,
        "long_factor": [2.0] * 4,
        "original_max_position_embeddings": 16,
    }
    return {"rope_parameters": rope, "max_position_embeddings": 16}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *(pytest.param(family, {}, id=family) for family in FAMILIES),
        pytest.param("Llama", stretching_positions("dynamic"), id="Llama, dynamic positions"),
        pytest.param("Llama", stretching_positions("longrope"), id="Llama, longrope positions"),
    ],
)
def test_running_changes_no_identity(make_model, tokenizer, family, options):
    kernel = CausalLMKernel(make_model(family, **options), tokenizer, max_length=256)
    before = kernel.identity()
    assert not before.unidentified

    kernel.batch(PROMPTS, LABELS)
    kernel.generate(PROMPTS[:2], 2)
    kernel.hidden_states(["x"])
    tokenizer(PROMPTS, max_length=5, truncation=True)  # it remembers the truncation

    assert kernel.identity().differences(before) == {}
    unused = CausalLMKernel(make_model(family, **options), tokenizer, max_length=256)
    assert kernel.identity() == unused.identity()


def test_a_model_in_training_mode_stays_so_and_has_the_same_identity(make_model, tokenizer):
    kernel = CausalLMKernel(make_model("Llama").train(), tokenizer)
    kernel.batch(PROMPTS, LABELS)
    assert kernel.model.training
    assert kernel.identity() == CausalLMKernel(make_model("Llama").eval(), tokenizer).identity()


# -- options, subclasses, functions, calibrations

OTHER_VALUES = {"token_budget": 64, "prefix_reuse": False, "label_mass": False}
"""For each option that is not in the identity, another value than its default."""


@pytest.mark.parametrize("name", sorted(NEUTRAL))
@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_an_option_outside_the_identity_changes_no_prediction(model, tokenizer, name, scoring):
    """That the others are in the identity: tests/kernels/test_model_options.py."""
    kernel = CausalLMKernel(model, tokenizer, label_scoring=scoring)
    other = CausalLMKernel(model, tokenizer, label_scoring=scoring, **{name: OTHER_VALUES[name]})
    assert other.batch(PROMPTS, LABELS) == close(kernel.batch(PROMPTS, LABELS), 1e-4)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(torch.empty(2, device="meta"), id="tensor without values"),
        pytest.param(torch.eye(2).to_sparse(), id="sparse tensor"),
        pytest.param(ENDLESS, id="list that contains itself"),
        pytest.param(object(), id="any object"),
    ],
)
def test_an_attribute_that_cannot_be_digested_is_named_in_the_identity(value, kernel):
    kernel.model.own = value
    assert "own" in str(kernel.identity().unidentified)


def test_a_weight_without_values_is_named_in_the_identity(kernel):
    kernel.model.lm_head.weight = torch.nn.Parameter(torch.empty(2, device="meta"))
    assert "lm_head" in str(kernel.identity().unidentified)


def test_a_tokenizer_of_a_class_of_its_own_is_named_in_the_identity(model, tokenizer):
    copied = copy.deepcopy(tokenizer)
    copied.__class__ = type("OwnTokenizer", (type(tokenizer),), {})
    assert "OwnTokenizer" in str(CausalLMKernel(model, copied).identity().unidentified)


class Flipped(CausalLMKernel):
    """A kernel that overrides what predicts labels."""

    def batch(self, prompts, label_space):
        return [row[::-1] for row in super().batch(prompts, label_space)]


class FlippedWithChannel(Flipped):
    """A kernel that overrides the noisy channel, too."""

    def noisy_channel(self, prompts, label_space, variant=None):
        return []


class WithHelper(CausalLMKernel):
    """A kernel that overrides nothing that predicts."""

    def identity(self):
        return None

    def helper(self):
        return None


def test_a_subclass_does_not_share_the_identity(model, tokenizer):
    flipped = Flipped(model, tokenizer)
    before = digest(flipped)
    flipped.batch(PROMPTS, LABELS)

    assert before != digest(CausalLMKernel(model, tokenizer))
    assert digest(flipped) == before


@pytest.mark.parametrize(
    ("kernel_class", "method", "expected"),
    [
        (CausalLMKernel, "noisy_channel", True),
        (CausalLMKernel, "no_method", False),
        (Flipped, "noisy_channel", False),
        (Flipped, "patched", False),
        (FlippedWithChannel, "noisy_channel", True),
        (FlippedWithChannel, "patched", False),
        (WithHelper, "noisy_channel", True),
        (WithHelper, "patched", True),
        (WithHelper, "no_method", False),
    ],
)
def test_a_method_is_called_only_if_that_bypasses_no_code_of_a_subclass(
    model, tokenizer, kernel_class, method, expected
):
    """The noisy channel of a subclass that defines it is called although ``batch`` is overridden as well."""
    assert can_call_directly(kernel_class(model, tokenizer), method) is expected


@pytest.mark.parametrize("method", ["noisy_channel", "patched"])
def test_no_other_method_of_a_kernel_is_called_whose_batch_was_replaced(model, tokenizer, method):
    kernel = CausalLMKernel(model, tokenizer)
    kernel.batch = print
    assert not can_call_directly(kernel, method)


def digest_of_python_tokenizer(extra_ids, sentencepiece_model=None):
    """Return the digest of a tokenizer that is written in Python."""
    tokenizer = transformers.ByT5Tokenizer(extra_ids=extra_ids)
    if sentencepiece_model is not None:
        tokenizer.model = types.SimpleNamespace(serialized_model_proto=lambda: sentencepiece_model)
    return live_state.digest_of_tokenizer(tokenizer)


def test_equal_tokenizers_in_python_have_one_identity():
    assert digest_of_python_tokenizer(extra_ids=1) == digest_of_python_tokenizer(extra_ids=1)


def test_other_tokens_of_a_tokenizer_in_python_are_another_identity():
    assert digest_of_python_tokenizer(extra_ids=1) != digest_of_python_tokenizer(extra_ids=2)


def test_another_sentencepiece_model_of_a_tokenizer_in_python_is_another_identity():
    with_a = digest_of_python_tokenizer(extra_ids=1, sentencepiece_model=b"a")
    with_b = digest_of_python_tokenizer(extra_ids=1, sentencepiece_model=b"b")
    assert with_a != with_b
    assert with_a != digest_of_python_tokenizer(extra_ids=1)
