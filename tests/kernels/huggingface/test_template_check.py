"""Chat templates that drop, cut, change, repeat or reorder what a prompt says are found, and all others are used."""

from __future__ import annotations

import logging
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("tokenizers")

from StaICC.errors import RunEndingError, StaICCError
from StaICC.kernels.huggingface.kernel import CausalLMKernel
from StaICC.kernels.huggingface.prompts import KernelOptions, PromptFormat
from StaICC.kernels.huggingface.template_check import _change_of_content, find_layout
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText

REPLY = "{% if add_generation_prompt %}[assistant]{% endif %}"


def turns(content: str, condition: str = "") -> str:
    """Return a template that writes this expression for the content of each message."""
    return "{% for m in messages " + condition + "%}[{{ m.role }}]{{ " + content + " }}\n{% endfor %}" + REPLY


SOUND = {
    "content": turns("m.content"),
    "stripped content": turns("m.content | trim"),
    "a system text of its own": "[system]Be kind.\n" + turns("m.content"),
    "parts or text": turns("m.content if m.content is string else m.content[0].text"),
    "system text before the last turn": (
        "{% for m in messages if m.role != 'system' %}"
        "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"
        "[{{ m.role }}]{{ m.content }}\n{% endfor %}" + REPLY
    ),
    "only parts": turns("m.content[0]['text']"),
    "only parts, in a loop": (
        "{% for m in messages %}[{{ m.role }}]{% for part in m.content %}{{ part.text }}{% endfor %}\n{% endfor %}"
        + REPLY
    ),
}
HOSTILE = {
    "drops the system text": (turns("m.content", "if m.role != 'system' "), "drops the system text"),
    "drops a turn of the assistant": (
        turns("'' if m.role == 'assistant' and loop.index > 3 else m.content"),
        "drops turn 2 of the assistant",
    ),
    "reads the last two messages": (
        "{% for m in messages[-2:] %}[{{ m.role }}]{{ m.content }}\n{% endfor %}" + REPLY,
        "drops the system text",
    ),
    "cuts all contents": (turns("m.content[:10]"), "cuts or changes the system text"),
    "cuts long contents": (turns("m.content[:50]"), "cuts 3 of 53 characters at the end of turn 1 of the user"),
    "repeats": (turns("m.content + m.content"), "repeats the system text"),
    "repeats questions": (
        turns("m.content + (m.content if 'Hail' in m.content else '')"),
        "repeats turn 3 of the user",
    ),
    "reorders": (
        "{% for m in messages | reverse %}[{{ m.role }}]{{ m.content }}\n{% endfor %}" + REPLY,
        "reorders the turns",
    ),
    "lowers the case": (turns("m.content | lower"), "changes the case of the system text"),
    "lowers the case of questions": (
        turns("m.content | lower if 'Hail' in m.content else m.content"),
        "changes the case of turn 3 of the user",
    ),
    "strips inner text": (
        turns("m.content.split('</think>')[-1]"),
        "cuts the beginning of turn 2 of the user",
    ),
    "removes words": (turns("m.content | replace('Snow', '')"), "changes turn 2 of the user from character 22 on"),
    "adds text for some contents": (
        turns("m.content + ('!!' if 'Hail' in m.content else '')"),
        "writes ' !!.*' after turn 3 of the user of this prompt",
    ),
    "drops text for some contents": (
        turns("'' if 'Snow' in m.content else m.content"),
        "drops turn 2 of the user",
    ),
    "escapes": (turns("m.content | replace('&', '&amp;')"), "changes turn 3 of the user from character"),
    "writes contents as JSON": (turns("m.content | tojson"), "changes turn 1 of the user from character"),
    "begins some prompts in another way": (
        "{% if 'Hail' in messages[-1].content %}!{% endif %}" + turns("m.content"),
        "begins this prompt differently than others, from character 1 on: got '!",
    ),
}
SYSTEM = "Classify weather."
PROMPT = PromptText(
    PromptParts(
        "Here are some examples of the task:\n\n",
        [
            Demonstration("text: Sun\nlabel: ", "good", "\n"),
            Demonstration("text: <think></think>Snow\nlabel: ", "bad", "\n"),
        ],
        "text: Hail & rain\nlabel: ",
    )
)


@pytest.fixture
def tokenizer(make_tokenizer: Any) -> Any:
    return make_tokenizer()


def rendered(tokenizer: Any, template: str, prompt: str = PROMPT, **options: Any) -> str:
    """Return a prompt as a template writes it; by default as turns, with a system text."""
    tokenizer.chat_template = template
    options = {"prompt_format": "chat-turns", "system": SYSTEM, **options}
    return PromptFormat(tokenizer, KernelOptions(**options)).render(prompt)


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_template_writes_all_messages_in_order(tokenizer: Any, name: str) -> None:
    text = rendered(tokenizer, SOUND[name])
    starts = [text.index(content.strip()) for content in PROMPT.parts.turns()]
    assert starts == sorted(starts)
    assert SYSTEM in text


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused(tokenizer: Any, name: str) -> None:
    template, problem = HOSTILE[name]
    with pytest.raises(RunEndingError, match=problem):
        rendered(tokenizer, template)


DROPS_SYSTEM_TEXT = turns("m.content", "if m.role != 'system' ")


def test_a_template_that_only_drops_the_system_text_is_used_without_one(tokenizer: Any) -> None:
    text = rendered(tokenizer, DROPS_SYSTEM_TEXT, "one", prompt_format="chat", system="")
    assert text == "[user]one\n[assistant]"


def test_a_template_that_drops_the_system_text_is_refused_with_advice(tokenizer: Any) -> None:
    with pytest.raises(RunEndingError, match="Leave out the option system"):
        rendered(tokenizer, DROPS_SYSTEM_TEXT, "one", prompt_format="chat", system="Be kind.")


def test_the_refusal_of_a_template_is_shown(tokenizer: Any) -> None:
    template = "{{ raise_exception('System role not supported') if messages[0].role == 'system' }}"
    with pytest.raises(StaICCError, match="System role not supported"):
        rendered(tokenizer, template + turns("m.content"))


def test_a_template_that_needs_tools_says_how_to_give_them(tokenizer: Any) -> None:
    template = "{% for tool in tools %}{{ tool }}{% endfor %}" + turns("m.content")
    with pytest.raises(StaICCError, match="is given as template_arguments"):
        rendered(tokenizer, template)
    assert rendered(tokenizer, template, template_arguments='{"tools": []}').startswith("[system]")


def test_a_command_in_the_system_text_is_shown_where_the_prompts_begin_to_differ(tokenizer: Any) -> None:
    begin = "[developer]" + "Be kind. " * 10
    thinks = "{% if '/think' in messages[0].content %}Think.{% else %}Reply.{% endif %}"
    template = begin + thinks + turns("m.content")
    with pytest.raises(RunEndingError, match=rf"from character {len(begin) + 1} on: got 'Think.*expected 'Reply"):
        rendered(tokenizer, template, system="/think")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("bad film", "changes turn 1"),
        ("XXa good film", "adds text before turn 1"),
        ("a good", "cuts 5 of 11 characters at the end of turn 1"),
        ("", "drops turn 1"),
    ],
)
@pytest.mark.parametrize("after", ["", "\n"])
def test_a_content_that_nothing_but_a_line_end_follows_is_described(written: str, message: str, after: str) -> None:
    assert _change_of_content("a good film", after, written + after, "turn 1").startswith(message)


def between_angles(messages: Any) -> str:
    """Write the contents of messages, each in angle brackets."""
    return "".join(f"<{message['content']}>" for message in messages)


@pytest.mark.parametrize("text", ["< \n a  b \n>", "<\n a  b>", "<a  b >", "<a  b>"])
def test_blanks_at_the_ends_of_a_content_may_be_missing(text: str) -> None:
    layout = find_layout(between_angles, ["user"])
    layout.check([{"role": "user", "content": " \n a  b \n"}], text)


@pytest.mark.parametrize("text", ["<a b>", "<  a  b>", "<a  b  >", "<a  b>>", "<a  b"])
def test_other_changes_of_a_content_are_refused(text: str) -> None:
    layout = find_layout(between_angles, ["user"])
    with pytest.raises(RunEndingError):
        layout.check([{"role": "user", "content": " \n a  b \n"}], text)


def test_a_content_of_blanks_may_be_missing() -> None:
    layout = find_layout(between_angles, ["system", "user"])
    layout.check([{"role": "system", "content": " "}, {"role": "user", "content": ""}], "<><>")


def test_a_run_ends_with_the_prompt_and_the_part(make_model: Any, tokenizer: Any) -> None:
    """Whichever prompt it is: the others of the call have another shape or other contents."""
    tokenizer.chat_template = turns("m.content[:20]")
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, prompt_format="chat")
    with pytest.raises(RunEndingError, match=r"prompt 1: .* cuts 5 of 25 characters at the end of turn 1 of the user"):
        kernel.batch(["short", "a" * 25], ["good", "bad"])


def log_of_two_prompts(tokenizer: Any, template: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages of the log about a template that writes two prompts."""
    with caplog.at_level(logging.WARNING):
        for prompt in ("one", "two"):
            rendered(tokenizer, template, prompt, prompt_format="chat", system="")
    return [record.getMessage() for record in caplog.records]


def test_what_a_template_adds_is_shown_once(tokenizer: Any, caplog: pytest.LogCaptureFixture) -> None:
    template = "[system]Be very kind.\n" + turns("m.content")
    (message,) = log_of_two_prompts(tokenizer, template, caplog)
    assert message.endswith(r" as '[system]Be very kind.\n[user][turn 1 of the user]\n[assistant]'")


def test_a_reply_that_begins_within_reasoning_is_shown_once(tokenizer: Any, caplog: pytest.LogCaptureFixture) -> None:
    messages = log_of_two_prompts(tokenizer, turns("m.content") + "<think>", caplog)
    (message,) = [message for message in messages if "is to reply" in message]
    assert r"[assistant]<think>' where the model is to reply, and '\n[assistant]' before a reply" in message


def test_changed_special_tokens_are_another_template(tokenizer: Any) -> None:
    template = "{{ eos_token }}" + turns("m.content")
    assert rendered(tokenizer, template).startswith("<|end|>")
    tokenizer.add_special_tokens({"eos_token": "<|stop|>"})
    assert rendered(tokenizer, template).startswith("<|stop|>")


@pytest.mark.parametrize("name", ["content", "only parts"])
def test_labels_are_scored_after_demonstrations_as_turns(make_model: Any, tokenizer: Any, name: str) -> None:
    tokenizer.chat_template = SOUND[name]
    kernel = CausalLMKernel(make_model("Llama"), tokenizer, prompt_format="chat-turns", label_scoring="first")
    (row,) = kernel.batch([PROMPT], ["good", "bad"])
    assert sum(row) == pytest.approx(1.0)
