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
QUESTIONS = [f"question: who wrote {n} plays? answer: " for n in range(5)]
PROMPTS = [
    *(PromptText(PromptParts("", SHOWN, question)) for question in QUESTIONS),
    PromptText(PromptParts("", (), "question: who? answer: ")),
]
"""Five prompts with two demonstrations, and one without."""
CHAT_CONVERSATIONS = [
    *([("user", DEMONSTRATIONS + question)] for question in QUESTIONS),
    [("user", "question: who? answer: ")],
]
"""The turns of these prompts where a whole prompt is one turn."""
TURN_CONVERSATIONS = [
    *(
        [
            ("user", "question: the city? answer: "),
            ("assistant", "location"),
            ("user", "question: how many? answer: "),
            ("assistant", "number of people"),
            ("user", question),
        ]
        for question in QUESTIONS
    ),
    [("user", "question: who? answer: ")],
]
"""The turns of these prompts where each demonstration is two turns."""


@pytest.fixture(scope="module")
def model(make_model: Any) -> Any:
    return make_model("Llama", vocab_size=400, max_position_embeddings=512)


@pytest.fixture(params=TEMPLATES)
def tokenizer(request: pytest.FixtureRequest, make_tokenizer: Any) -> Any:
    made = make_tokenizer(add_start=True)
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    made.chat_template = TEMPLATES[request.param]
    return made


def template_ids(tokenizer: Any, turns: list[tuple[str, str]], system: str) -> tuple[int, ...]:
    """Return the token ids that the tokenizer's own template makes of a conversation."""
    messages = [{"role": role, "content": content} for role, content in turns]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    encoded = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    return tuple(encoded if isinstance(encoded, list) else encoded["input_ids"])  # by the release of transformers


@pytest.mark.parametrize("system", ["", "Be brief."])
@pytest.mark.parametrize(
    ("style", "conversations"), [("chat", CHAT_CONVERSATIONS), ("chat-turns", TURN_CONVERSATIONS)], ids=str
)
def test_token_ids_are_those_of_the_template(
    tokenizer: Any, model: Any, style: Any, conversations: Any, system: str
) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style, system=system)
    reading = kernel._tokenize([[prompt] for prompt in PROMPTS])

    for (ids,), turns in zip(reading.ids, conversations, strict=True):
        assert ids == template_ids(tokenizer, turns, system), turns


@pytest.mark.parametrize("style", ["chat", "chat-turns"])
def test_rendered_prompts_are_the_text_of_the_token_ids(tokenizer: Any, model: Any, style: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    reading = kernel._tokenize([[prompt] for prompt in PROMPTS])
    assert kernel.rendered(PROMPTS) == [tokenizer.decode(ids) for (ids,) in reading.ids]


@pytest.mark.parametrize("style", ["chat", "chat-turns"])
def test_the_beginning_token_is_that_of_the_template_alone(tokenizer: Any, model: Any, style: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format=style)
    expected = 1 if "bos_token" in tokenizer.chat_template else 0
    for (ids,) in kernel._tokenize([[prompt] for prompt in PROMPTS]).ids:
        assert ids.count(tokenizer.bos_token_id) == expected


def common_length(sequences: list[list[int]]) -> int:
    """Return how many tokens all sequences have in common at their beginning."""
    length = 0
    for tokens_at_position in zip(*sequences, strict=False):
        if len(set(tokens_at_position)) > 1:
            break
        length += 1
    return length


def label_score(model: Any, ids: list[int], label_start: int, scoring: str) -> float:
    """Return the score of the label at the end of a conversation, from one call of the model."""
    with torch.inference_mode():
        logs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    label_ids = ids[label_start:]
    if scoring == "full":
        return sum(logs[label_start - 1 + index, token].item() for index, token in enumerate(label_ids))
    token = label_ids[0] if scoring == "first" else label_ids[-1]
    return logs[label_start - 1, token].item()


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_labels_are_scored_where_the_reply_starts(tokenizer: Any, model: Any, scoring: Any) -> None:
    """The reply starts after the tokens that the conversation has with every label and without one."""
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat", label_scoring=scoring)
    blank = ""
    if tokenizer.chat_template == TEMPLATES["blank before a reply"]:
        blank = " "

    def tokens_of(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    for prompt, probabilities in zip(PROMPTS, kernel.batch(PROMPTS, LABELS), strict=True):
        messages = [{"role": "user", "content": prompt}]
        conversation = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        with_labels = [tokens_of(conversation + blank + label) for label in LABELS]
        reply_start = common_length([tokens_of(conversation), *with_labels])
        scores = [label_score(model, ids, reply_start, scoring) for ids in with_labels]
        assert probabilities == pytest.approx(torch.tensor(scores).softmax(-1).tolist(), abs=1e-5), prompt


@pytest.mark.parametrize("scoring", ["last", "first", "full"])
def test_the_order_of_chat_prompts_does_not_matter(tokenizer: Any, model: Any, scoring: Any) -> None:
    kernel = CausalLMKernel(model, tokenizer, prompt_format="chat", label_scoring=scoring)
    rows = kernel.batch(PROMPTS, LABELS)
    reversed_rows = kernel.batch(PROMPTS[::-1], LABELS)
    assert reversed_rows[::-1] == [pytest.approx(row, abs=1e-5) for row in rows]
