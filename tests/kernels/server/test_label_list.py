"""The prompt format chat-labels: an instruction that lists the labels, under an identity of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

import StaICC
from StaICC.argument_syntax import command_line_syntax
from StaICC.cli import main
from StaICC.kernels.server.endpoint import INSTRUCTION, EndpointKernel

LABELS = ["good", "bad"]
SPEC = "openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat-labels"


def test_the_instruction_and_the_labels_are_before_the_prompt(make_kernel: Any, server: Any) -> None:
    pytest.importorskip("openai")
    kernel = make_kernel("text", api="chat", label_list=True)
    kernel.batch(["text: fine label: "], LABELS)
    (message,) = server.requests[-1]["messages"]
    assert message == {"role": "user", "content": f"{INSTRUCTION} good, bad.\n\ntext: fine label: "}


def test_other_formats_send_the_prompt_alone(make_kernel: Any, server: Any) -> None:
    pytest.importorskip("openai")
    make_kernel("text", api="chat").batch(["text: fine label: "], LABELS)
    assert server.requests[-1]["messages"] == [{"role": "user", "content": "text: fine label: "}]


def test_the_format_has_an_identity_of_its_own() -> None:
    with_labels = EndpointKernel.from_spec("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat-labels")
    without_labels = EndpointKernel.from_spec("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat")
    assert with_labels.identity() != without_labels.identity()
    assert with_labels.identity().settings["label_list"] == "True"
    assert "label_list" not in without_labels.identity().settings


def test_a_forecast_counts_the_instruction() -> None:
    (request,) = EndpointKernel.from_spec(SPEC).planned_requests("text: fine label: ", LABELS)
    assert request.text.startswith(f"{INSTRUCTION} good, bad.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api": "completions", "scoring": "text"}, "expected api='chat'"),
        ({"api": "chat", "scoring": "top-logprobs"}, "expected scoring='text'"),
        ({"api": "chat", "scoring": "text", "turns": True}, "expected turns=False"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(StaICC.ArgumentError, match=message):
        EndpointKernel("http://localhost:1/v1", "m", label_list=True, **options)


def test_an_error_of_a_model_that_only_chats_names_the_options_for_turns() -> None:
    with pytest.raises(StaICC.ArgumentError, match="scoring='text', prompt_format='chat-turns'"):
        EndpointKernel("http://localhost:1/v1", "m", api="chat")


def test_on_the_command_line_that_error_names_the_options_of_the_command() -> None:
    with (
        command_line_syntax(),
        pytest.raises(StaICC.ArgumentError, match="--answers text --prompt-format chat-turns"),
    ):
        EndpointKernel("http://localhost:1/v1", "m", api="chat")


def test_a_rendered_prompt_is_what_is_sent(make_kernel: Any, server: Any) -> None:
    """With an instruction that lists the labels (``label_list``), as JSON of the messages of the chat."""
    pytest.importorskip("openai")
    kernel = make_kernel("text", api="chat", label_list=True)
    (rendered,) = kernel.rendered(["text: fine label: "], LABELS)
    kernel.batch(["text: fine label: "], LABELS)
    assert json.loads(rendered) == server.requests[-1]["messages"]


def test_a_prompt_that_lists_labels_cannot_be_rendered_without_labels(make_kernel: Any) -> None:
    pytest.importorskip("openai")
    kernel = make_kernel("text", api="chat", label_list=True)
    with pytest.raises(StaICC.ArgumentError, match="label_space"):
        kernel.rendered(["text: fine label: "])


def test_the_command_prompts_writes_what_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line has the prompt, and in ``rendered`` the JSON of the messages; the labels are those of ``mini``."""
    assert main(["prompts", "normal", "--datasets", "mini", "--limit", "1", "--model", SPEC]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records
    for record in records:
        (message,) = json.loads(record["rendered"])
        assert message["content"] == f"{INSTRUCTION} food, travel, weather.\n\n{record['prompt']}"


@pytest.mark.parametrize("name", ["replies", "generate"])
def test_texts_without_labels_are_refused(name: str) -> None:
    generate = getattr(EndpointKernel.from_spec(SPEC), name)
    with pytest.raises(StaICC.ArgumentError, match="Use prompt_format=chat"):
        generate(["a"])


def test_text_inference_without_labels_is_refused() -> None:
    inference = StaICC.text_inference(EndpointKernel.from_spec(SPEC))
    with pytest.raises(StaICC.ArgumentError, match="Use prompt_format=chat"):
        inference.batch(["a"])
