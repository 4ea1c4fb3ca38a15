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


@pytest.fixture
def kernel(make_model, tokenizer):
    return CausalLMKernel(make_model("Llama"), tokenizer)


def digest(kernel):
    return identity_of(kernel).digest


def close(rows, abs=1e-5):
    return [pytest.approx(row, abs=abs) for row in rows]


def in_middle(weight):
    flat = weight.detach().reshape(-1)
    return flat[flat.numel() // 2 : flat.numel() // 2 + 1]


def layer(kernel, number=0):
    return kernel.model.model.layers[number]


def added_token(kernel):
    backend = kernel.tokenizer.backend_tokenizer
    names = {"eos_token": "<|end|>", "bos_token": "<|end|>"}
    copied = transformers.PreTrainedTokenizerFast(
        tokenizer_object=type(backend).from_str(backend.to_str()), **names, chat_template=None
    )
    copied.add_tokens(["who wrote"])
    kernel._loaded = dataclasses.replace(kernel._loaded, tokenizer=copied)


def replace_data(kernel):
    weight = layer(kernel).mlp.down_proj.weight
    weight.data = weight.data.flip(0)


def frequencies(kernel):
    return kernel.model.model.rotary_emb.inv_freq


def double_method(kernel, patch):
    kind = type(layer(kernel).mlp)
    inner = kind.forward
    patch.setattr(kind, "forward", lambda self, x: 2 * inner(self, x))


def reverse_texts(kernel, patch):
    kind = type(kernel.tokenizer)
    inner = kind.__call__
    patch.setattr(kind, "__call__", lambda self, text, **more: inner(self, text[::-1]))


CHANGES = {
    "in place": lambda kernel: layer(kernel).mlp.down_proj.weight.detach().mul_(1.5),
    "by data": lambda kernel: layer(kernel, 1).self_attn.v_proj.weight.data[3].add_(1.0),
    "by numpy": lambda kernel: layer(kernel, 1).mlp.up_proj.weight.detach().numpy().__imul__(2),
    "one element": lambda kernel: in_middle(layer(kernel, 1).mlp.gate_proj.weight).add_(3.0),
    "other data": replace_data,
    "bfloat16": lambda kernel: kernel.model.to(torch.bfloat16),
    "scaled frequencies": lambda kernel: frequencies(kernel).mul_(1.009),
    "rounded frequencies": lambda kernel: frequencies(kernel).copy_(frequencies(kernel).bfloat16().float()),
    "attribute": lambda kernel: setattr(kernel.model.model.norm, "variance_epsilon", 0.5),
    "configuration": lambda kernel: setattr(kernel.model.config, "max_position_embeddings", 100),
    "attention": lambda kernel: kernel.model.set_attn_implementation("eager"),
    "added token": added_token,
    "chat template": lambda kernel: added_token(kernel) or setattr(kernel.tokenizer, "chat_template", "{{ messages }}"),
    "a layer once more": lambda kernel: kernel.model.model.layers.append(layer(kernel)),
    "full labels": lambda kernel: setattr(kernel, "options", KernelOptions(label_scoring="full")),
}
"""Ways in which two models differ: changes in place of one kernel."""


def replace_function(kernel, patch):
    patch.setattr(transformers.models.llama.modeling_llama, "rotate_half", lambda x: x)


def replace_attention(kernel, patch):
    known = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    patch.setitem(known._global_mapping, "sdpa", lambda *_, **__: None)


SURROUNDINGS = {
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
"""What no version and no digest identifies."""


@pytest.mark.parametrize("name", [*CHANGES, *SURROUNDINGS])
def test_a_change_between_two_runs_changes_the_identity(kernel, name, monkeypatch):
    before = kernel.identity()
    assert kernel.identity() == before
    assert not before.unidentified
    CHANGES[name](kernel) if name in CHANGES else SURROUNDINGS[name](kernel, monkeypatch)
    after = kernel.identity()
    assert bool(after.unidentified) is (name in SURROUNDINGS)
    assert after.digest != before.digest or name in SURROUNDINGS


@contextlib.contextmanager
def low_precision():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@contextlib.contextmanager
def low_precision_of_a_backend():
    place = torch.backends.mkldnn.matmul
    usual, place.fp32_precision = place.fp32_precision, "bf16"
    yield
    place.fp32_precision = usual


@pytest.mark.parametrize(
    "numerics",
    [functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16), low_precision, low_precision_of_a_backend],
)
def test_numerics_of_torch_are_part_of_the_identity(numerics, model, tokenizer):
    kernel = CausalLMKernel(model, tokenizer)
    before = kernel.identity()
    with numerics():
        assert list(before.differences(kernel.identity())) == ["numerics"]
    assert kernel.identity() == before


@pytest.mark.parametrize("name", ["in place", "by data", "by numpy", "one element", "bfloat16"])
@pytest.mark.parametrize("in_a_run", [True, False])
def test_no_stale_prediction_after_a_change(kernel, tokenizer, name, in_a_run):
    """No cached prefix of the former weights is used; the oracle is a new kernel without one."""
    prompts = [CONTEXT + prompt for prompt in PROMPTS]
    kernel = CausalLMKernel(kernel.model, tokenizer, token_budget=100)
    kernel.runner().cache_from = 16
    before = kernel.batch(prompts, LABELS)
    computed = kernel.runner().computed
    assert kernel.batch(prompts, LABELS) == close(before)
    assert kernel.runner().computed < 2 * computed  # the cached prefix was used
    CHANGES[name](kernel)
    if in_a_run:  # which computes the identity first
        kernel.identity()
    found = kernel.batch(prompts, LABELS)
    expected = CausalLMKernel(kernel.model, tokenizer, prefix_reuse=False).batch(prompts, LABELS)
    assert found == close(expected, 2e-2 if name == "bfloat16" else 1e-5)
    assert found != close(before, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_resumed_run_accepts_the_rounding_of_other_batches(dtype, make_model, tokenizer, tmp_path):
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=2048), tokenizer, dtype=dtype)
    settings = {"store": tmp_path / "run.sqlite", "chunk_size": 5}
    Normal(datasets=["mini"], limit=4)(kernel, **settings)
    result = Normal(datasets=["mini"], limit=8)(kernel, **settings)
    assert result.complete
    assert result.provenance.predictors[0].rechecked >= 3
    parts = {"model": kernel.model, "tokenizer": tokenizer}
    partial = functools.partial(model_kernel.standard_ICL_inference_with_torch_Causal_LM, **parts)
    assert tolerance_of(partial) == tolerance_of(kernel) == (1e-4 if dtype == "float32" else 5e-2)


# -- hooks and foreign code


def steer(module, inputs, output):
    return output * 1.5 + 1.0


def at_last_position(module, inputs, output):
    changed = output.clone()
    changed[:, -1] += torch.linspace(-1, 1, output.shape[-1])
    return changed


def patched_forward(kernel):
    inner = layer(kernel).mlp.forward
    layer(kernel).mlp.forward = lambda states: inner(states) * 2


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


@pytest.mark.parametrize("after_a_run", [False, True])
@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_see_one_prompt_at_a_time(kernel, tokenizer, plain, hook, after_a_run):
    """Batched equals one by one equals ``model(...)``, also if the hook comes after a first run."""
    prompts = [*PROMPTS[:5], PROMPTS[0] + "x", "question: "]
    untouched = [plain.labels(kernel.model, tokenizer, prompt, LABELS) for prompt in prompts]
    if after_a_run:
        assert kernel.batch(prompts, LABELS) == close(untouched, 1e-4)
    assert not kernel.identity().unidentified
    HOOKS[hook](kernel)
    found = kernel.batch(prompts, LABELS)
    assert found == close((plain.labels(kernel.model, tokenizer, prompt, LABELS) for prompt in prompts), 1e-4)
    assert found == close((kernel(prompt, LABELS) for prompt in prompts), 1e-4)
    assert found != close(untouched, 1e-3)
    assert kernel.runner().forward.can.reason
    (reason,) = kernel.identity().unidentified
    assert "hook on" in reason or "replaced forward of" in reason
    kernel.options = dataclasses.replace(kernel.options, label_scoring="full")
    prompt, labels = PROMPTS[0].rstrip(), [f" {label}" for label in LABELS]
    given = len(tokenizer(prompt)["input_ids"]) - 1
    scores = [sum(plain.logs(kernel.model, tokenizer, prompt + label)[given:]) for label in labels]
    expected = torch.softmax(torch.tensor(scores), 0).tolist()
    assert kernel.batch([prompt, *PROMPTS[3:6]], labels)[0] == pytest.approx(expected, abs=1e-4)


def test_a_class_that_is_changed_between_two_runs_sees_one_prompt_at_a_time(kernel, monkeypatch):
    kernel.batch(PROMPTS, LABELS)
    double_method(kernel, monkeypatch)
    another = CausalLMKernel(kernel.model, kernel.tokenizer)
    another.batch(PROMPTS, LABELS)
    assert kernel.identity().unidentified  # as every run begins
    kernel.batch(PROMPTS, LABELS)
    for each in (another, kernel):
        assert "replaced method" in each.runner().forward.can.reason


def test_code_of_other_installed_packages_is_no_library_code():
    """Without a virtual environment, their folder is inside that of the standard library."""
    for name, known in ("json/__init__.py", True), ("copy.py", True), ("site-packages/steering/hooks.py", False):
        scope = {}
        exec(compile("def f(): 0", os.path.join(os.path.dirname(os.__file__), name), "exec"), scope)
        assert live_state.is_library_code(scope["f"]) is known


def compiled_layers(model):
    for module in (*model.model.layers, model.model.norm):
        module.compile(backend="eager")
    return model


def compiled_body(model):
    model.model = torch.compile(model.model, backend="eager")
    return model


@pytest.mark.parametrize(
    "compiled", [functools.partial(torch.compile, backend="eager"), compiled_layers, compiled_body]
)
def test_models_that_their_user_compiled_run_and_are_unidentified(compiled, make_model, tokenizer, tmp_path):
    benchmark = Normal(datasets=["mini"], limit=1, k=0)
    expected = benchmark(CausalLMKernel(make_model("Llama", max_position_embeddings=512), tokenizer))
    kernel = CausalLMKernel(compiled(make_model("Llama", max_position_embeddings=512)), tokenizer)
    assert kernel.identity().unidentified
    with pytest.raises(ArgumentError, match="model_name"):
        benchmark(kernel, store=tmp_path / "run.sqlite")
    result = benchmark(kernel, store=tmp_path / "run.sqlite", model_name="compiled")
    assert result.divided["mini"]["accuracy"] == expected.divided["mini"]["accuracy"]


# -- adapters, quantised weights, models that look at the batch


def test_adapters_are_part_of_the_identity(make_model, tokenizer, plain):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    model = peft.get_peft_model(make_model("Llama"), config, "one").eval()
    model.add_adapter("two", config)
    kernel, found = CausalLMKernel(model, tokenizer), {}
    scaling = model.get_base_model().model.layers[0].self_attn.q_proj.scaling
    for name, change in {
        "one": lambda: None,
        "two": lambda: model.set_adapter("two"),
        "disabled": lambda: model.base_model.disable_adapter_layers(),
        "enabled": lambda: model.base_model.enable_adapter_layers(),
        "scaled": lambda: scaling.update(two=7.0),
        "merged": lambda: model.merge_adapter(["two"]),
    }.items():
        change()
        found[name] = digest(kernel)
        expected = (plain.labels(model, tokenizer, prompt, LABELS) for prompt in PROMPTS)
        assert kernel.batch(PROMPTS, LABELS) == close(expected, 1e-4)
    assert found.pop("enabled") == found["two"]
    assert len(set(found.values())) == 5
    assert kernel.identity().who["adapters"] == "two"
    assert not kernel.identity().unidentified
    assert kernel.runner().forward.can.sharing


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
    ],
    ids=["a function", "own code as a method", "a method of a module outside the model"],
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
        positions = torch.arange(states[..., 0].numel(), device=states.device).reshape(*states.shape[:2], 1)
        return self.inner(states) * (positions < 100)


class HeadWithContext(torch.nn.Module):  # type: ignore[name-defined]
    """A model whose logits depend on what the short trial sequences do not have: a token of the run."""

    def __init__(self, inner, token):
        super().__init__()
        self.inner, self.token, self.config = inner, token, inner.config
        self.base_model, self.get_output_embeddings = inner.base_model, inner.get_output_embeddings

    def forward(self, input_ids=None, **more):
        output = self.inner(input_ids=input_ids, **more)
        if (input_ids == self.token).any():
            output.logits = output.logits.flip(-1)
        output.hidden_states = None  # as the output of a class of one's own
        return output


@pytest.mark.parametrize("in_trial", [True, False])
def test_a_shortcut_that_is_wrong_is_not_used(kernel, tokenizer, plain, caplog, in_trial):
    if in_trial:
        layer(kernel).mlp = DependsOnBatch(layer(kernel).mlp)
    else:
        token = tokenizer(" answer")["input_ids"][-1]
        kernel = CausalLMKernel(HeadWithContext(kernel.model, token).eval(), tokenizer)
    prompts = [*PROMPTS, "question: "] if in_trial else PROMPTS
    kernel(prompts[0], LABELS)  # alone it is right, which says nothing of batches
    found = kernel.batch(prompts, LABELS)
    assert found == close((plain.labels(kernel.model, tokenizer, prompt, LABELS) for prompt in prompts), 1e-4)
    assert "differ from single calls" in kernel.runner().forward.can.reason
    assert "run alone" in caplog.text


SHORT_ONES = [f"{chr(97 + n)} question: who wrote it? answer: " for n in range(20)]
LONG_ONES = [f"{n} {CONTEXT * 10}question: who wrote {'the city' * n}? answer: " for n in range(9)]


@pytest.mark.parametrize("prompts", [SHORT_ONES, LONG_ONES], ids=["after a single prompt", "long prompts"])
def test_prompts_are_run_alone_if_the_first_batch_differs_from_a_call_with_one_prompt(make_model, tokenizer, prompts):
    kernel = CausalLMKernel(make_model("Llama", max_position_embeddings=1024), tokenizer)
    assert kernel.batch(prompts, LABELS) == close((kernel(prompt, LABELS) for prompt in prompts), 1e-4)

    layer(kernel).mlp = Capacity(layer(kernel).mlp)  # right for a single prompt, wrong in a batch
    if prompts is SHORT_ONES:
        kernel(prompts[0], LABELS)  # a single prompt is compared, too, which must not replace the check of the batch
    rows_of_batch = kernel.batch(prompts, LABELS)
    why_alone = kernel.runner().forward.can.reason
    assert "differ from single calls" in why_alone, (
        f"the model is wrong in batches, but the kernel did not notice: got {why_alone!r} as its reason to run each "
        "prompt alone"
    )
    for number, prompt in enumerate(prompts):
        alone = kernel(prompt, LABELS)
        assert rows_of_batch[number] == pytest.approx(alone, abs=1e-4), f"prompt {number}: in the batch and alone"


def test_states_that_are_not_finite_differ_from_a_call_by_more_than_any_rounding(make_model, tokenizer):
    forward = CausalLMKernel(make_model("Llama"), tokenizer).runner().forward
    logits = forward.plain_logits([1, 2])[-1]
    states = forward.padded([TrieRow([1, 2], [0, 1], {})])[:, -1:]
    assert batching._deviation(forward, math.nan * states[0], logits) == math.inf


# -- files


@pytest.fixture
def folder(tmp_path, make_model, tokenizer):
    where = tmp_path / "model"
    make_model("Llama").save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def spec_kernel(folder, **options):
    return CausalLMKernel.from_spec(str(folder), device="cpu", **options)


def in_shards(folder, model, place=".shards"):
    """Weights in a file of a hidden subfolder that only an index names."""
    from safetensors.torch import save_file

    (folder / place).mkdir(exist_ok=True)
    (folder / "model.safetensors").unlink(missing_ok=True)
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    save_file(weights, folder / place / "one.safetensors", {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, f"{place}/one.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def through_links(folder, model):
    """Weights outside the folder, in a linked subfolder."""
    outside = folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    if not (folder / "shards").exists():
        (folder / "shards").symlink_to(outside, target_is_directory=True)
    in_shards(folder, model, "shards")


def usual(folder, model):
    model.save_pretrained(folder)


@pytest.mark.parametrize("write", [usual, in_shards, through_links])
def test_a_folder_that_is_overwritten_is_another_model(folder, make_model, tokenizer, write):
    write(folder, make_model("Llama"))
    first = spec_kernel(folder)
    before, rows = digest(first), first.batch(PROMPTS, LABELS)
    assert digest(first) == before  # loaded or not
    write(folder, make_model("Llama", seed=5))
    if write is usual:  # others are mapped into memory, and change with the file
        assert digest(first) == before
        assert first.batch(PROMPTS, LABELS) == close(rows, 1e-6)
    second = spec_kernel(folder)
    assert digest(second) != before
    expected = CausalLMKernel(make_model("Llama", seed=5), tokenizer).batch(PROMPTS, LABELS)
    assert second.batch(PROMPTS, LABELS) == close(expected)
    assert digest(second) != before


def change_a_byte(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_every_file_is_part_of_the_identity(folder):
    assert ModelSource(str(folder)).checkpoint_type() == "float32"
    seen = {digest(spec_kernel(folder))}
    weights = folder / "model.safetensors"
    change_a_byte(weights, weights.stat().st_size // 2)
    seen.add(digest(spec_kernel(folder)))
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        found = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(found | {"new": 1}), "utf-8")
        seen.add(digest(spec_kernel(folder)))
    assert len(seen) == 5


def test_a_loaded_model_that_was_changed_is_not_shared(folder):
    first, second = spec_kernel(folder), spec_kernel(folder)
    rows = second.batch(PROMPTS, LABELS)
    assert first.model is second.model
    before = digest(first)
    CHANGES["by data"](first)
    assert digest(first) != before
    third = spec_kernel(folder)
    assert digest(third) == before
    assert third.batch(PROMPTS, LABELS) == close(rows, 1e-6)
    assert digest(third) == before


def test_files_that_change_while_they_are_loaded(folder, make_model, monkeypatch):
    make_model("Llama", seed=11).save_pretrained(folder)  # no other test has loaded this content
    inner = transformers.AutoModelForCausalLM.from_pretrained

    def from_pretrained(*arguments, **keywords):
        made = inner(*arguments, **keywords)
        make_model("Llama", seed=3).save_pretrained(folder)
        return made

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    with pytest.raises(StaICCError, match="changed while it was loaded"):
        spec_kernel(folder).batch(PROMPTS, LABELS)


def test_a_file_digest_is_never_stale(tmp_path, monkeypatch):
    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    path = tmp_path / "weights.bin"
    seen = set()
    for number in range(5):
        path.write_bytes(bytes([number]) * (2 << 20))
        os.utime(path, ns=(10**18, 10**18))  # the size and the modification time stay
        seen.add(digest_of_file(path))
        assert digest_of_file(path) in seen
    assert len(seen) == 5


def test_the_digest_of_a_tensor_notices_every_change():
    """Sums over rows and columns of words: bits, exchanged words, rows and columns, the order, and the end."""
    width = live_state.WIDTH
    words = torch.randint(-(2**62), 2**62, (3 * width + 2,), generator=torch.Generator().manual_seed(0))
    rows, ends = words[: 3 * width].view(3, width), words[3 * width :]
    swapped = rows.clone()
    swapped[0, 0], swapped[1, 5] = rows[1, 5], rows[0, 0]
    tables = [rows, rows.flip(0), rows.flip(1), rows[:, [1, 0, *range(2, width)]], rows[[1, 0, 2]], swapped]
    others = [words.flip(0), words[:-1], words.view(torch.float64), torch.cat([rows.reshape(-1), ends.flip(0)])]
    others += [words[: 2 * width], words[: 2 * width] ^ -(2**63)]  # all signs of an even number of rows
    for place in (0, width - 1, width, 3 * width - 1, 3 * width, len(words) - 1):
        for byte, bit in ((0, 1), (7, 128)):
            changed = words.clone()
            changed.view(torch.uint8)[8 * place + byte] ^= bit
            others.append(changed)
    others += [torch.cat([table.reshape(-1), ends]) for table in tables]
    assert len(set(map(live_state.digest_of_tensor, others))) == len(others)
    shifted = torch.cat([torch.zeros(1, dtype=torch.float32), words.view(torch.float32)])[1:].view(-1)
    assert live_state.digest_of_tensor(shifted) == live_state.digest_of_tensor(words.view(torch.float32))


# -- ways in which kernels are the same


def test_what_changes_no_number_leaves_the_identity(model, tokenizer, folder, tmp_path):
    live = {
        digest(CausalLMKernel(model, tokenizer, **options))
        for options in ({}, {"token_budget": 32}, {"prefix_reuse": False}, {"label_mass": False})
    }
    assert len(live) == 1
    shutil.copytree(folder, tmp_path / "copy")
    used = spec_kernel(folder)
    used.batch(PROMPTS, LABELS)
    used.generate(PROMPTS[:2], 3)
    code = (
        "from StaICC.kernels.huggingface.kernel import CausalLMKernel as K\n"
        f"k = K.from_spec({str(folder)!r}, device='cpu'); print(k.identity().digest)\n"
        "print(K(k.model, k.tokenizer).identity().digest, k.identity().digest)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, in_memory, second = done.stdout.split()
    assert {first, second} == {digest(spec_kernel(folder)), digest(spec_kernel(tmp_path / "copy")), digest(used)}
    assert first == second
    assert in_memory == digest(CausalLMKernel(used.model, used.tokenizer))


ROPE = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 16}
FAMILIES = ["GPT2", "Llama", "OPT", "Gemma2", "Mamba", "Falcon", "Mixtral"]


@pytest.mark.parametrize("family", [*FAMILIES, "dynamic", "longrope"])
def test_running_changes_no_identity(make_model, tokenizer, family):
    """Also where frequencies of rotary positions follow the length of the input."""
    rope = {"rope_type": family, "factor": 4.0, "rope_theta": 10000.0, **ROPE}
    more = {} if family in FAMILIES else {"rope_parameters": rope, "max_position_embeddings": 16}
    make = functools.partial(make_model, family if family in FAMILIES else "Llama", **more)
    kernel = CausalLMKernel(make().train(), tokenizer, max_length=256)
    before = kernel.identity()
    kernel.batch(PROMPTS, LABELS)
    assert kernel.identity().differences(before) == {}
    kernel.generate(PROMPTS[:2], 2)
    kernel.hidden_states(["x"])
    tokenizer(PROMPTS, max_length=5, truncation=True)
    assert kernel.identity().differences(before) == {}
    assert not before.unidentified
    assert kernel.model.training
    assert kernel.identity() == CausalLMKernel(make(), tokenizer, max_length=256).identity()


# -- options, subclasses, functions, calibrations

UNNAMED = {"token_budget": 64, "prefix_reuse": False, "label_mass": False}


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_an_option_outside_the_identity_changes_no_prediction(model, tokenizer, name):
    """That the others are in the identity: tests/kernels/test_model_options.py."""
    kernel, other = CausalLMKernel(model, tokenizer), CausalLMKernel(model, tokenizer, **{name: UNNAMED[name]})
    for scoring in ("last", "first", "full"):
        for each in (kernel, other):
            each.options = dataclasses.replace(each.options, label_scoring=scoring)
        assert other.batch(PROMPTS, LABELS) == close(kernel.batch(PROMPTS, LABELS), 1e-4)


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
OPAQUE = [torch.empty(2, device="meta"), torch.eye(2).to_sparse(), ENDLESS, object()]


@pytest.mark.parametrize("value", OPAQUE, ids=type)
def test_what_cannot_be_digested_makes_a_model_unidentified(value, make_model, tokenizer):
    kernel, own = CausalLMKernel(make_model("Llama"), tokenizer), copy.deepcopy(tokenizer)
    kernel.model.own = value
    assert "own" in str(kernel.identity().unidentified)
    kernel.model.lm_head.weight = torch.nn.Parameter(torch.empty(2, device="meta"))
    assert "lm_head" in str(kernel.identity().unidentified)
    own.__class__ = type("Own", (type(own),), {})
    assert "Own" in str(CausalLMKernel(make_model("Llama"), own).identity().unidentified)


class Flipped(CausalLMKernel):
    def batch(self, prompts, label_space):
        return [row[::-1] for row in super().batch(prompts, label_space)]


def test_a_subclass_does_not_share_the_identity(model, tokenizer):
    other = Flipped(model, tokenizer)
    before = digest(other)
    assert before != digest(CausalLMKernel(model, tokenizer))
    other.batch(PROMPTS, LABELS)
    assert digest(other) == before
    own = {"identity": lambda self: None, "helper": print}
    channel = {"noisy_channel": lambda self, prompts, label_space: []}
    parts = [(Flipped, own | channel), (CausalLMKernel, own), (CausalLMKernel, own)]
    kernels = [other, *(type("Own", (base,), members)(model, tokenizer) for base, members in parts)]
    kernels[-1].batch = print
    for name, direct in (("noisy_channel", [False, True, True, False]), ("patched", [False, False, True, False])):
        assert [can_call_directly(each, name) for each in kernels] == direct
    assert not can_call_directly(kernels[2], "no_method")


def test_a_tokenizer_in_python_is_identified():
    made = [transformers.ByT5Tokenizer(extra_ids=number) for number in (1, 1, 2, 1, 1)]
    for number, proto in ((3, b"a"), (4, b"b")):  # as the model of sentencepiece
        made[number].model = types.SimpleNamespace(serialized_model_proto=lambda proto=proto: proto)
    first, *others = map(live_state.digest_of_tokenizer, made)
    assert (first == others[0], len({first, *others})) == (True, 4)
