"""Chat prompts: token ids of the tokenizer's own template, and labels scored where the reply starts."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from StaICC.kernels.huggingface.kernel import CausalLMKernel  # noqa: E402
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText  # noqa: E402

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
    "are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TURNS = "{% for m in messages %}{{ '[' + m.role + ']' + m.content + '\n' }}{% endfor %}"
BEGIN = "{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}"
TEMPLATES = {
    "system turn": "{{ '[system]Answer with a label.\n' }}" + TURNS + BEGIN,
    "no system turn": TURNS + BEGIN,
    "start token": "{{ bos_token }}" + TURNS + BEGIN,
    "prefix of the reply": TURNS
    + "{% if add_generation_prompt %}{{ '[assistant]<think>\n\n</think>\n\n' }}{% endif %}",
    "SmolLM2": SMOLLM2,
    "blank before a reply": "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}",
    "blank at the end": "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
}
LABELS = ["person", "location", "number of people", "number"]
DEMONSTRATIONS = "question: the city? answer: location\nquestion: how many? answer: number of people\n"
SHOWN = [
    Demonstration("question: the city? answer: ", "location", "\n"),
    Demonstration("question: how many? answer: ", "number of people", "\n"),
]
PROMPTS = [
    *(PromptText(PromptParts("", SHOWN, f"question: who wrote {n} plays? answer: ")) for n in range(5)),
    PromptText(PromptParts("", (), "question: who? answer: ")),
]
TURN_LISTS = [["question: the city? answer: ", "location", "question: how many? answer: ", "number of people"]] * 5 + [
    []
]


@pytest.fixture(scope="module")
def model(make_model: Any) -> Any:
    return make_model("Llama", vocab_size=400, max_position_embeddings=512)


@pytest.fixture(params=TEMPLATES)
def tokenizer(request: pytest.FixtureRequest, make_tokenizer: Any) -> Any:
    made = make_tokenizer(add_start=True)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.chat_template = TEMPLATES[request.param]
    return made


def ids_of(found: Any) -> tuple[int, ...]:
    return tuple(found["input_ids"] if not isinstance(found, list) else found)


def conversation(prompt: str, turns: list[str], system: str) -> list[dict[str, str]]:
    texts = [*turns, prompt.removeprefix(DEMONSTRATIONS)] if turns else [prompt]
    found = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return [{"role": "system", "content": system}, *found] if system else found


@pytest.mark.parametrize("system", ["", "Be brief."])
@pytest.mark.parametrize("style", ["chat", "chat-turns"])
def test_token_ids_are_those_of_the_template(tokenizer: Any, model: Any, style: Any, system: str) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style, system=system)
    reading = kernel._read([[prompt] for prompt in PROMPTS])
    for prompt, turns, (ids,), text in zip(PROMPTS, TURN_LISTS, reading.ids, kernel.rendered(PROMPTS), strict=True):
        messages = conversation(prompt, turns if style == "chat-turns" else [], system)
        assert ids == ids_of(tokenizer.apply_chat_template(messages, add_generation_prompt=True))
        assert tokenizer.decode(ids) == text
        assert ids.count(tokenizer.bos_token_id) == ("bos_token" in tokenizer.chat_template)


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_labels_are_scored_where_the_reply_starts(tokenizer: Any, model: Any, scoring: Any) -> None:
    """Against one plain call of the model for each whole conversation, tokenized by the template."""
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat", label_scoring=scoring)
    found = kernel.batch(PROMPTS, LABELS)
    assert kernel.batch(PROMPTS[::-1], LABELS)[::-1] == [pytest.approx(row, abs=1e-5) for row in found]
    blank = " " if tokenizer.chat_template == TEMPLATES["blank before a reply"] else ""
    for prompt, row in zip(PROMPTS, found, strict=True):
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        joined = [tokenizer(text + blank + label, add_special_tokens=False)["input_ids"] for label in LABELS]
        alone = tokenizer(text, add_special_tokens=False)["input_ids"]
        given = next(n for n in range(len(alone) + 1) if len({*(tuple(ids[: n + 1]) for ids in [*joined, alone])}) > 1)
        scores = []
        for ids in joined:
            with torch.inference_mode():
                logs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            after = ids[given:]
            if scoring == "full":
                scores.append(sum(logs[given - 1 + n, token].item() for n, token in enumerate(after)))
            else:
                scores.append(logs[given - 1, after[-1 if scoring == "last" else 0]].item())
        assert row == pytest.approx(torch.tensor(scores).softmax(-1).tolist(), abs=1e-5)
