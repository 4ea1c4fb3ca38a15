"""Kernels by name, and every option of every kernel: listed, read from a name, in the identity or declared neutral."""

from __future__ import annotations

import json
import shutil
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal, load_kernel
from StaICC.errors import ArgumentError, StaICCError, UnknownNameError
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.registry import KERNELS, declared_options
from StaICC.kernels.server.endpoint import NO_NUMBERS


def always_first(prompt: str, label_space: list[str]) -> list[float]:
    """An inference function that predicts the first label."""
    return [1.0, *[0.0] * (len(label_space) - 1)]


class AlwaysFirst:
    """The same as an object."""

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        return always_first(prompt, label_space)


@pytest.fixture
def user_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module of a user with two inference functions, "function" and "thing"."""
    module: Any = types.ModuleType("user_module_of_the_test")
    module.function, module.thing = always_first, AlwaysFirst()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.__name__


@pytest.mark.parametrize("name", ["function", "thing"])
def test_an_inference_function_is_used_as_it_is(name: str, user_module: str) -> None:
    benchmark = Normal(datasets=["mini"], limit=4)
    loaded = load_kernel(f"{user_module}:{name}")
    assert benchmark(loaded)["Averaged results"] == benchmark(always_first)["Averaged results"]


@pytest.mark.parametrize("name", ["function", "thing"])
@pytest.mark.parametrize(("argument", "options"), [(":argument", {}), ("", {"order": 1})])
def test_an_inference_function_has_no_argument_and_no_option(
    name: str, argument: str, options: dict[str, int], user_module: str
) -> None:
    message = r"is an inference function: got .*, expected no argument and no option"
    with pytest.raises(ArgumentError, match=message):
        load_kernel(f"{user_module}:{name}{argument}", **options)


SERVED = "openai:http://localhost:1/v1#m;scoring=text"


def test_the_prompt_format_chat_sends_messages() -> None:
    kernel = load_kernel(f"{SERVED};prompt_format=chat;system=Be brief.")
    assert kernel.api == "chat"
    assert kernel.identity().settings["api"] == "chat"
    assert json.loads(kernel.rendered(["a: "])[0]) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a: "},
    ]


def test_the_prompt_format_plain_sends_the_text() -> None:
    assert load_kernel(f"{SERVED};prompt_format=plain").rendered(["a: "]) == ["a: "]


@pytest.mark.parametrize(
    ("options", "message"),
    [("prompt_format=turns", "expected plain, chat, chat-turns"), ("prompt_format=chat;api=chat", "one of the two")],
)
def test_a_wrong_prompt_format_is_refused(options: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load_kernel(f"{SERVED};{options}")


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
    "system": CHAT,
}
"""The options without which another one has no meaning."""
SERVED_CHAT = {"scoring": "text", "api": "chat"}
NEEDS_OF_SERVERS = {
    "system": SERVED_CHAT,
    "turns": SERVED_CHAT,
    "cache_control": {**SERVED_CHAT, "turns": "true"},
    "label_list": SERVED_CHAT,
}
NEEDS_OF_LITELLM = {"cache_control": {"turns": "true"}}
"""It always sends chats and reads texts."""
NAMES = {
    "ppm": "ppm",
    "openai": "openai:http://localhost:1/v1#m",
    "hf": "hf:x/y",
    "vllm": "vllm:x/y",
    "llama": "llama:smollm2",
    "litellm": "litellm:m",
}


def needed_options(kind: str, option: str) -> dict[str, str]:
    """Return the options of a kind of kernel without which another one has no meaning."""
    if kind == "litellm":
        return NEEDS_OF_LITELLM.get(option, {})
    if kind == "openai" and option in NEEDS_OF_SERVERS:
        return NEEDS_OF_SERVERS[option]
    if kind == "vllm" and option == "guided":
        return {}
    return NEEDS.get(option, {})


def with_options(kind: str, options: dict[str, str]) -> Any:
    """Return a kernel of a kind with options in its name."""
    return load_kernel(NAMES[kind] + "".join(f";{name}={value}" for name, value in options.items()))


def settings_of(kernel: Any) -> object:
    """Return what the identity of a kernel has of its options; that of a local model itself needs its files."""
    options = getattr(kernel, "options", None)
    return str(kernel.identity()) if options is None else options.settings()


def option_of(kernel: Any, name: str) -> object:
    """Return the value of an option of a kernel."""
    return getattr(getattr(kernel, "options", kernel), name)


every_option = pytest.mark.parametrize(
    ("kind", "option"),
    [
        (kind, fact.name)
        for kind in NAMES
        for fact in declared_options(KERNELS[kind])
        if not (kind == "hf" and fact.name in LOADING)
    ],
)


@pytest.mark.parametrize("kind", NAMES)
def test_every_option_says_what_it_means(kind: str) -> None:
    for fact in declared_options(KERNELS[kind]):
        assert fact.help, fact.name


@every_option
def test_an_option_is_read_from_a_name(kind: str, option: str) -> None:
    needed = needed_options(kind, option)
    default, changed = with_options(kind, needed), with_options(kind, {**needed, option: OTHER[option]})
    assert option_of(changed, option) != option_of(default, option)


@every_option
def test_an_option_is_in_the_identity_unless_it_is_declared_neutral(kind: str, option: str) -> None:
    needed = needed_options(kind, option)
    default, changed = with_options(kind, needed), with_options(kind, {**needed, option: OTHER[option]})
    is_neutral = option in NEUTRAL | NO_NUMBERS
    assert (settings_of(changed) == settings_of(default)) is is_neutral


@every_option
def test_a_misspelt_option_has_a_suggestion(kind: str, option: str) -> None:
    if kind == "vllm":  # any other option is one of the engine, which may not be installed
        kind = "openai" if option == "guided" else "hf"
    with pytest.raises(UnknownNameError, match=f"did you mean '{option}'"):
        with_options(kind, {**needed_options(kind, option), f"{option}x": OTHER[option]})


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
    settings = kernel.identity().settings if options is None else options.settings()
    assert settings == DEFAULTS[name]


@pytest.mark.parametrize(
    ("dtype", "is_fast", "expected"),
    [
        (None, True, "float32"),
        (None, False, "float32"),
        ("auto", True, "auto"),
        ("auto", False, "float32"),
        ("float16", True, "float16"),
        ("float16", False, "float16"),
    ],
)
def test_the_number_type_on_a_processor_depends_on_its_instructions_for_bfloat16(
    dtype: str | None, is_fast: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: is_fast)
    assert ModelSource("smollm2", "cpu", dtype).resolved_dtype() == expected


@pytest.mark.parametrize(("dtype", "expected"), [(None, "auto"), ("auto", "auto"), ("float16", "float16")])
def test_the_number_type_on_a_gpu_is_that_of_the_checkpoint_by_default(dtype: str | None, expected: str) -> None:
    assert ModelSource("smollm2", "cuda:1", dtype).resolved_dtype() == expected


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
    """Return a folder with a tiny model."""
    return saved_model()


PROMPTS, LABELS = ["question: who wrote the play? answer: ", "the city? answer: "], ["person", "number"]
LOADING_OPTIONS = {"attn_implementation": "eager", "device_map": "cpu", "dtype": "bfloat16"}
"""Options of loading, each with a value that is not its default."""


@pytest.mark.parametrize("option", LOADING_OPTIONS)
def test_an_option_of_loading_is_in_the_identity(folder: Path, option: str) -> None:
    pytest.importorskip("accelerate")
    default = load_kernel(str(folder), device="cpu").identity().digest
    kernel = load_kernel(f"hf:{folder};{option}={LOADING_OPTIONS[option]}")
    before = kernel.identity().digest
    kernel.batch(PROMPTS, LABELS)
    assert before != default
    assert kernel.identity().digest == before, "loading changes nothing"


@pytest.mark.parametrize("option", LOADING_OPTIONS)
def test_an_option_of_loading_changes_predictions_by_rounding_only(folder: Path, option: str) -> None:
    pytest.importorskip("accelerate")
    expected = load_kernel(str(folder), device="cpu").batch(PROMPTS, LABELS)
    rows = load_kernel(f"hf:{folder};{option}={LOADING_OPTIONS[option]}").batch(PROMPTS, LABELS)
    rounding = 2e-2 if option == "dtype" else 1e-5
    assert rows == [pytest.approx(row, abs=rounding) for row in expected]


def test_the_implementation_of_attention_is_the_given_one(folder: Path) -> None:
    kernel = load_kernel(f"hf:{folder};attn_implementation=eager")
    assert kernel.model.config._attn_implementation == "eager"


CODE = """
from transformers import LlamaForCausalLM

class Mine(LlamaForCausalLM):
    pass
"""


def name_model_class(folder: Path, name: str) -> None:
    """Name the class of the model in its configuration."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["auto_map"] = {"AutoModelForCausalLM": name}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.fixture
def folder_with_code(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a model whose class is defined in a file of the folder."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    copied = shutil.copytree(folder, tmp_path / "copy")
    (copied / "mine.py").write_text(CODE, encoding="utf-8")
    name_model_class(copied, "mine.Mine")
    return copied


def test_remote_code_does_not_run_by_default(folder_with_code: Path) -> None:
    assert type(load_kernel(str(folder_with_code)).model).__name__ == "LlamaForCausalLM"


def test_remote_code_runs_if_it_is_trusted(folder_with_code: Path) -> None:
    kernel = load_kernel(f"hf:{folder_with_code};trust_remote_code=true")
    assert type(kernel.model).__name__ == "Mine"


def test_trust_in_remote_code_is_in_the_identity(folder_with_code: Path) -> None:
    trusted = load_kernel(f"hf:{folder_with_code};trust_remote_code=true").identity()
    assert trusted.who["trust_remote_code"] == "True"
    assert trusted.digest != load_kernel(str(folder_with_code)).identity().digest


def test_a_folder_whose_code_is_in_another_repository_is_not_complete(folder_with_code: Path) -> None:
    """The files of the folder alone do not identify the model."""
    name_model_class(folder_with_code, "someone/else--mine.Mine")
    assert not load_kernel(f"hf:{folder_with_code};trust_remote_code=true")._source.is_complete()


@pytest.mark.parametrize(
    ("name", "meant"), [("fp16", "float16"), ("half", "float16"), ("bf16", "bfloat16"), ("double", "float64")]
)
def test_a_number_type_by_its_name_in_another_tool_is_refused_with_the_name_here(name: str, meant: str) -> None:
    with pytest.raises(StaICCError, match=f"there is no dtype '{name}'; did you mean '{meant}'"):
        ModelSource("smollm2", dtype=name)


def test_a_device_that_is_missing_is_refused_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(StaICCError, match=r"finds no cuda device here\. Use device='cpu', or leave it out"):
        ModelSource("hf:no/model", device="cuda").load()
