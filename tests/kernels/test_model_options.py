"""Kernels by name, and every option of every kernel: listed, read from a name, in the identity or declared neutral."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.registry import KERNELS, OptionFact, declared_options
from StaICC.kernels.server.endpoint import NO_NUMBERS


def scores(prompt: str, label_space: list[str]) -> list[float]:
    return [1.0, *[0.0] * (len(label_space) - 1)]


class Scorer:
    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return scores(prompt, label_space)


@pytest.mark.parametrize("name", ["scores", "scorer"])
def test_an_inference_function_is_used_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine_of_the_test", types.SimpleNamespace(scores=scores, scorer=Scorer()))  # type: ignore[arg-type]
    function = load_kernel(f"mine_of_the_test:{name}")
    benchmark = Normal(datasets=["mini"], limit=4)
    assert benchmark(function)["Averaged results"] == benchmark(scores)["Averaged results"]
    for rest, options in ((":argument", {}), ("", {"order": 1})):
        with pytest.raises(
            ArgumentError, match=r"is an inference function: got .*, expected no argument and no option"
        ):
            load_kernel(f"mine_of_the_test:{name}{rest}", **options)


def test_the_prompt_format_of_a_served_model() -> None:
    kernel = load_kernel("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat;system=Be brief.")
    assert kernel.api == "chat"
    assert kernel.identity().settings["api"] == "chat"
    assert kernel.rendered(["a: "]) == [
        '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a: "}]'
    ]
    assert load_kernel("openai:http://localhost:1/v1#m;prompt_format=plain").rendered(["a: "]) == ["a: "]
    for wrong, message in (("turns", "expected plain, chat, chat-turns"), ("chat;api=chat", "one of the two")):
        with pytest.raises(ArgumentError, match=message):
            load_kernel(f"openai:http://localhost:1/v1#m;scoring=text;prompt_format={wrong}")


@pytest.mark.parametrize(
    "written",
    [
        *("guided=choice", "max_tokens=9", "top_n=7", "unlisted=bound", "last_blank=label;scoring=text"),
        *("last_blank=label;scoring=top-logprobs;api=chat", "system=S;scoring=text", "guided=json;scoring=text"),
    ],
)
def test_a_setting_of_a_server_without_an_effect_is_refused(written: str) -> None:
    name = written.partition("=")[0]
    with pytest.raises(ArgumentError, match=f"^{name}: got .*, expected .*Leave {name} out"):
        load_kernel(f"openai:http://localhost:1/v1#m;{written}")


# -- every option of every kernel


LOADING = {fact.name for fact in declared_options(KERNELS["hf"])} & set(ModelSource.__dataclass_fields__)
OTHER = {
    "turns": "true",
    "cache_control": "true",
    "escape": "A",
    "order": "3",
    "label_scoring": "full",
    "label_normalisation": "mean",
    "last_blank": "label",
    "variant": "0.1.1",
    "token_budget": "64",
    "max_length": "99",
    "on_too_long": "drop-demonstrations",
    "prefix_reuse": "false",
    "compile": "true",
    "add_special_tokens": "false",
    "label_mass": "false",
    "scoring": "top-logprobs",
    "api": "chat",
    "top_n": "7",
    "unlisted": "bound",
    "guided": "choice",
    "label_list": "true",
    "max_tokens": "9",
    "max_completion_tokens": "9",
    "temperature": "1",
    "top_p": "0.5",
    "reasoning_effort": "low",
    "stop": "END",
    "served_model": "other",
    "concurrency": "2",
    "timeout": "5",
    "retries": "1",
    "backoff": "2",
    "longest_wait": "3",
    "allow_edition_change": "true",
    "prompt_format": "chat",
    "system": "Be brief.",
    "template_arguments": "{}",
    "mock_response": "yes",
}
"""A value of each option of scoring that is not its default."""
CHAT = {"prompt_format": "chat"}
NEEDS = {
    **{name: {"scoring": "text"} for name in ("api", "max_tokens", "max_completion_tokens", "guided")},
    **{name: {"scoring": "top-logprobs"} for name in ("top_n", "unlisted")},
    "template_arguments": CHAT,
    "label_normalisation": {"label_scoring": "full"},
}
"""The options without which another one has no meaning."""
NAMES = {
    "ppm": "ppm",
    "openai": "openai:http://localhost:1/v1#m",
    "hf": "hf:x/y",
    "vllm": "vllm:x/y",
    "llama": "llama:smollm2",
    "litellm": "litellm:m",
}
CASES = [
    (kind, fact)
    for kind in NAMES
    for fact in declared_options(KERNELS[kind])
    if not (kind == "hf" and fact.name in LOADING)
]


@pytest.mark.parametrize(("kind", "fact"), CASES, ids=lambda one: one if isinstance(one, str) else one.name)
def test_an_option_is_read_and_is_in_the_identity(kind: str, fact: OptionFact) -> None:
    assert fact.help, "every option says what it means"
    value = OTHER[fact.name]
    wanted = {} if kind == "litellm" or (kind, fact.name) == ("vllm", "guided") else NEEDS.get(fact.name, {})
    if fact.name == "system":
        wanted = {"openai": {"scoring": "text", "api": "chat"}, "litellm": {}}.get(kind, CHAT)
    if fact.name in ("turns", "cache_control", "label_list"):
        wanted = {"scoring": "text", "api": "chat"} if kind == "openai" else {}
        if fact.name == "cache_control":
            wanted = {**wanted, "turns": "true"}
    needs = "".join(f";{name}={text}" for name, text in wanted.items())
    plain, changed = load_kernel(NAMES[kind] + needs), load_kernel(f"{NAMES[kind]}{needs};{fact.name}={value}")
    holder = (lambda kernel: kernel.options) if kind in ("hf", "vllm", "llama") else (lambda kernel: kernel)
    assert getattr(holder(changed), fact.name) != getattr(holder(plain), fact.name)
    if kind in ("hf", "vllm", "llama"):  # their identity needs the files
        before, after = plain.options.settings(), changed.options.settings()
    else:
        before, after = (str(kernel.identity()) for kernel in (plain, changed))
    assert (before == after) is (fact.name in NEUTRAL | NO_NUMBERS)
    with pytest.raises(UnknownNameError, match=f"did you mean '{fact.name}'"):
        load_kernel(f"{NAMES[kind]}{needs};{fact.name}x={value}") if kind != "vllm" else load_kernel(
            NAMES["openai" if fact.name == "guided" else "hf"] + f";{fact.name}x={value}"
        )


TORCH = {
    **{"label_scoring": "last", "label_normalisation": "sum", "variant": "paper", "max_length": "None"},
    **{"on_too_long": "error", "prompt_format": "plain", "compile": "False"},
    "add_special_tokens": "True",
}
REPLY = {"scoring": "text", "api": "completions", "max_tokens": "100 (with reasoning 8192)", "temperature": "0"}
DEFAULTS: dict[str, dict[str, str]] = {
    **{"ppm": {"escape": "C", "order": "12"}, "hf:x/y": TORCH, "vllm:x/y": TORCH, "llama:smollm2": TORCH},
    "openai:http://localhost:1/v1#m": {"scoring": "prompt-logprobs", "api": "completions", "temperature": "0"},
    "openai:http://localhost:1/v1#m;scoring=text": REPLY,
    "litellm:m": {name: REPLY[name] for name in ("max_tokens", "temperature")},
}
"""The settings of the identity: with another default, stores and signatures of earlier runs fit no more."""


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_stay(name: str) -> None:
    kernel = load_kernel(name)
    options = getattr(kernel, "options", None)  # the identity of these needs the files
    assert (kernel.identity().settings if options is None else options.settings()) == DEFAULTS[name]


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_is_used_where_it_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytest.importorskip("torch").cpu, "_is_avx512_bf16_supported", lambda: fast)
    for given, cpu, gpu in (
        (None, "float32", "auto"),
        ("auto", "auto" if fast else "float32", "auto"),
        ("float16",) * 3,
    ):
        assert [ModelSource("smollm2", place, given).resolved_dtype() for place in ("cpu", "cuda:1")] == [cpu, gpu]


def test_an_option_of_a_kernel_may_be_a_number() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Options(KernelOptions):
        share: float = 0.5

    assert Options(share=0.25).settings() == TORCH | {"share": "0.25"}


def test_a_served_model_with_a_format_and_an_interface_says_which_one_to_leave_out() -> None:
    with pytest.raises(ArgumentError, match="give one of the two: the format chooses the interface"):
        load_kernel("openai:http://localhost:1/v1#m;prompt_format=chat-labels;api=chat")


FOREIGN = {
    "hf:x/y;torch_dtype=float32": "use dtype",
    "hf:x/y;peft=./my_lora": "use adapter",
    "hf:x/y;batch_size=8": "--token-budget",
    "hf:x/y;max_model_len=9": "use max_length",
    "hf:x/y;system_instruction=Hello": "use system",
    "hf:x/y;apply_chat_template=true": "use prompt_format=chat",
    "hf:x/y;load_in_4bit=true": "use quantization=4bit",
    "llama:smollm2;n_ctx=9": "use max_length",
    "openai:http://localhost:1/v1#m;num_concurrent=2": "use concurrency",
    "openai:http://localhost:1/v1#m;api_key=sk": "OPENAI_API_KEY",
    "litellm:a/b;max_new_tokens=5": "use max_tokens",
    "ppm;max_model_len=9": "There are: ",
}
"""Options of other tools, and what the error says."""


@pytest.mark.parametrize("name", FOREIGN)
def test_an_option_of_another_tool_has_a_suggestion(name: str) -> None:
    with pytest.raises(UnknownNameError, match=FOREIGN[name]):
        load_kernel(name)


# -- loading


@pytest.fixture(scope="module")
def folder(saved_model: Callable[..., Path]) -> Path:
    return saved_model()


PROMPTS, LABELS = ["question: who wrote the play? answer: ", "the city? answer: "], ["person", "number"]


def test_options_of_loading_change_the_model_and_the_identity(folder: Path) -> None:
    pytest.importorskip("accelerate")
    plain = load_kernel(str(folder), device="cpu")
    expected, identities = plain.batch(PROMPTS, LABELS), {plain.identity().digest}
    for name, value in (("attn_implementation", "eager"), ("device_map", "cpu"), ("dtype", "bfloat16")):
        kernel = load_kernel(f"hf:{folder};{name}={value}")
        before = kernel.identity().digest
        assert before not in identities, name
        identities.add(before)
        for row, other in zip(kernel.batch(PROMPTS, LABELS), expected, strict=True):
            assert row == pytest.approx(other, abs=2e-2 if name == "dtype" else 1e-5)
        assert kernel.identity().digest == before  # loading changes nothing
    eager = load_kernel(f"hf:{folder};attn_implementation=eager")
    assert eager.model.config._attn_implementation == "eager"


CODE = """
from transformers import LlamaForCausalLM

class Mine(LlamaForCausalLM):
    pass
"""


def test_remote_code_runs_only_if_it_is_trusted(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "mine.py").write_text(CODE, encoding="utf-8")
    config = json.loads((copy / "config.json").read_text("utf-8"))
    config |= {"auto_map": {"AutoModelForCausalLM": "mine.Mine"}}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    plain, trusted = load_kernel(str(copy)), load_kernel(f"hf:{copy};trust_remote_code=true")
    assert type(plain.model).__name__ == "LlamaForCausalLM"
    assert type(trusted.model).__name__ == "Mine"
    assert trusted.identity().who["trust_remote_code"] == "True"
    assert trusted.identity().digest != plain.identity().digest
    config["auto_map"] = {"AutoModelForCausalLM": "someone/else--mine.Mine"}
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert not replace(trusted._source).is_complete()
