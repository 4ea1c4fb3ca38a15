"""Tokenizers that append end tokens, or drop, cut, repeat or reorder text, are found; a loss of case is a warning."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.errors import OutputError, PromptError, RunEndingError  # noqa: E402
from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.kernels.huggingface.prompts import KernelOptions, PromptFormat  # noqa: E402
from StaICC.kernels.huggingface.tokenizer_check import check_special_tokens  # noqa: E402

PROMPT = "text: Rain and Snow\nlabel: good\ntext: Wind\nlabel: "
LABELS = ["good", "bad"]
CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
CHANNEL = [["good text", "bad text"]]
"""The prompts of one query for a noisy channel, one for each label."""
SCORED: dict[str, tuple[dict[str, Any], Callable[[CausalLMKernel], Any]]] = {
    "last": ({"label_scoring": "last"}, lambda kernel: kernel.batch([PROMPT], LABELS)),
    "first": ({"label_scoring": "first"}, lambda kernel: kernel.batch([PROMPT], LABELS)),
    "full": ({"label_scoring": "full"}, lambda kernel: kernel.batch([PROMPT], LABELS)),
    "noisy channel": ({}, lambda kernel: kernel.noisy_channel(CHANNEL, LABELS)),
    "generation": ({}, lambda kernel: kernel.generate([PROMPT], 2)),
    "hidden states": ({}, lambda kernel: kernel.hidden_states([PROMPT])),
    "losses": ({}, lambda kernel: kernel.losses([PROMPT])),
}


def tokenizer_with_template(make_tokenizer: Any, template: str) -> Any:
    """Return a tokenizer that writes the special tokens of a template around each text (``$A``)."""
    tokenizer = make_tokenizer(bos_token="<s>", eos_token="</s>")
    ids = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("<s>", "</s>")]
    processor = tokenizers.processors.TemplateProcessing(single=template, special_tokens=ids)
    tokenizer.backend_tokenizer.post_processor = processor
    return tokenizer


@pytest.mark.parametrize("template", ["$A </s>", "<s> $A </s>"])
@pytest.mark.parametrize("scored", SCORED)
def test_an_appended_end_token_is_refused(make_model: Any, make_tokenizer: Any, template: str, scored: str) -> None:
    options, compute = SCORED[scored]
    tokenizer = tokenizer_with_template(make_tokenizer, template)
    kernel = CausalLMKernel(make_model("Llama", vocab_size=400), tokenizer, **options)
    with pytest.raises(RunEndingError, match=r"prompt 0 ends with the special token '</s>'.*\"add_eos_token\": false"):
        compute(kernel)


@pytest.mark.parametrize("scored", SCORED)
def test_without_special_tokens_the_end_token_changes_nothing(
    make_model: Any, make_tokenizer: Any, scored: str
) -> None:
    options, compute = SCORED[scored]
    model = make_model("Llama", vocab_size=400)

    def result_with(template: str) -> Any:
        tokenizer = tokenizer_with_template(make_tokenizer, template)
        return compute(CausalLMKernel(model, tokenizer, add_special_tokens=False, **options))

    assert repr(result_with("$A </s>")) == repr(result_with("$A"))


def test_an_end_token_in_the_text_stays(make_tokenizer: Any) -> None:
    tokenizer = make_tokenizer(bos_token="<s>", eos_token="</s>")
    reading = PromptFormat(tokenizer, KernelOptions()).tokenize([["a</s>"]], None)
    assert reading.ids[0][0][-1] == tokenizer.eos_token_id


def test_a_start_token_of_template_and_text_is_refused(make_tokenizer: Any) -> None:
    tokenizer = make_tokenizer(bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{{ bos_token }}" + CHAT
    with pytest.raises(PromptError, match="begins twice"):
        PromptFormat(tokenizer, KernelOptions(prompt_format="chat")).tokenize([["<s>a"]], None)


# Text

normalizers = tokenizers.normalizers


def regex(pattern: str, content: str) -> Any:
    return normalizers.Replace(tokenizers.Regex(pattern), content)


DAMAGING = {
    "cuts the end": regex(r"good(.|\n)*", ""),
    "cuts the beginning": regex(r"\Atext: Rain", ""),
    "drops a word": regex("Wind", ""),
    "repeats a word": regex("Wind", "WindWind"),
    "repeats the text": regex(r"\z", " text: Rain and Snow"),
    "reorders words": regex("Rain and Snow", "Snow and Rain"),
}
LOSING = {
    "case": normalizers.Lowercase(),
    "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "line feeds": regex("\n", " "),
    "a character that is unknown": regex("é", ""),
}


def normalising(make_tokenizer: Any, normalizer: Any) -> Any:
    tokenizer = make_tokenizer()
    tokenizer.backend_tokenizer.normalizer = normalizer
    return tokenizer


@pytest.mark.parametrize("name", DAMAGING)
def test_a_tokenizer_that_damages_text_is_refused(make_model: Any, make_tokenizer: Any, name: str) -> None:
    kernel = CausalLMKernel(make_model("Llama"), normalising(make_tokenizer, DAMAGING[name]))
    with pytest.raises(RunEndingError, match="the tokenizer drops, repeats or reorders text"):
        kernel.batch([PROMPT], LABELS)


@pytest.mark.parametrize("name", LOSING)
def test_what_a_tokenizer_always_loses_is_a_warning(make_model: Any, make_tokenizer: Any, name: str) -> None:
    kernel = CausalLMKernel(make_model("Llama"), normalising(make_tokenizer, LOSING[name]))
    prompts = [f"Café\n{number} and " for number in range(3)] + ["plain "]
    kernel.batch(prompts, LABELS)
    (warning,) = [text for text in kernel.prompt_warnings(prompts, LABELS) if "loses" in text]
    assert re.search(r"characters of 3 of 4 prompts that were compared \(75%\)", warning)


def test_unknown_words_are_a_warning(make_model: Any) -> None:
    words = {"[UNK]": 0, "a": 1, "good": 2, "bad": 3}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    prompts = ["a good unseen", "a"]

    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    kernel.batch(prompts, LABELS)

    assert "1 of 2 prompts" in " ".join(kernel.prompt_warnings(prompts, LABELS))


def test_a_faithful_tokenizer_has_no_warning(make_model: Any, tokenizer: Any) -> None:
    kernel = CausalLMKernel(make_model("Llama"), tokenizer)
    warnings = kernel.prompt_warnings([PROMPT, "é ü \t x"], LABELS)
    assert "loses" not in " ".join(warnings)


def test_the_beginning_token_is_demanded_only_where_the_tokenizer_was_to_add_it(make_tokenizer: Any) -> None:
    """A chat template writes the special tokens itself, and some write none at the beginning."""
    tokenizer = make_tokenizer(bos_token="<s>")
    tokenizer.add_bos_token = True
    text = "text: Rain"
    without_beginning = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    check_special_tokens(tokenizer, text, without_beginning, adds_special=False, index=0)
    with pytest.raises(PromptError, match="prompt 0 begins not with the beginning-of-sequence token '<s>'"):
        check_special_tokens(tokenizer, text, without_beginning, adds_special=True, index=0)


# Numbers


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
@pytest.mark.parametrize(
    ("prompt", "labels"),
    [
        pytest.param("a<|new|> b", ["good", "bad"], id="in the prompt"),
        pytest.param("a b", ["<|new|>", "bad"], id="in a label"),
    ],
)
def test_a_token_that_the_model_does_not_know_is_named(
    make_model: Any, make_tokenizer: Any, scoring: str, prompt: str, labels: list[str]
) -> None:
    tokenizer = make_tokenizer()
    model = make_model("Llama", vocab_size=len(tokenizer))
    tokenizer.add_tokens(["<|new|>"])
    new_token = len(tokenizer) - 1
    with pytest.raises(RunEndingError, match=f"the number {new_token}, but the model knows"):
        CausalLMKernel(model, tokenizer, label_scoring=scoring).batch([prompt], labels)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_damaged_weights_are_named(make_model: Any, tokenizer: Any, dtype: str) -> None:
    model = make_model("Llama").to(getattr(torch, dtype))
    model.lm_head.weight.data[:] = float("nan")
    with pytest.raises(OutputError, match=r"not finite\. The weight .* the checkpoint is damaged") as caught:
        CausalLMKernel(model, tokenizer)(PROMPT, LABELS)
    assert "float32" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_float32_is_advised_where_it_helps(make_model: Any, tokenizer: Any, dtype: str) -> None:
    model = make_model("Llama").to(getattr(torch, dtype))
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * float("nan"))
    advice = "Use dtype=float32" if dtype == "bfloat16" else "computed in float32: its computation overflows"
    with pytest.raises(OutputError, match=advice):
        CausalLMKernel(model, tokenizer)(PROMPT, LABELS)
