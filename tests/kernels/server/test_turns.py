"""Demonstrations as messages of a chat: what a server gets, against the parts of the prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import StaICC
from StaICC.kernels.server.endpoint import EndpointKernel
from StaICC.kernels.server.litellm import LiteLLMKernel
from StaICC.prompting.prompt_text import Demonstration, PromptParts, PromptText
from tests.kernels.label_kinds import LABEL_KINDS, own_data

PROMPT = PromptText(
    PromptParts(
        "Classify. ",
        (Demonstration("text: label: good\n label: ", "good", "\n"), Demonstration("text: b label: ", "bad", "\n")),
        "text: c label: ",
    )
)
TURNS = [
    ("user", "Classify. text: label: good\n label: "),
    ("assistant", "good"),
    ("user", "text: b label: "),
    ("assistant", "bad"),
    ("user", "text: c label: "),
]


def turns_of(request: Any) -> list[tuple[str, Any]]:
    """Return the role and the content of each message of a request."""
    return [(message["role"], message["content"]) for message in request.get("messages", ())]


def expected_turns(parts: PromptParts) -> list[tuple[str, str]]:
    """Return the messages of a prompt with two demonstrations."""
    roles = ["user", "assistant", "user", "assistant", "user"]
    return list(zip(roles, parts.turns(), strict=True))


def test_a_server_gets_the_parts_as_messages(make_kernel: Any, server: Any) -> None:
    make_kernel("text", api="chat", turns=True, system="Be brief.").batch([PROMPT], ["good", "bad"])
    assert [("system", "Be brief."), *TURNS] in [turns_of(request) for request in server.requests]


def test_whole_benchmarks_send_turns(make_kernel: Any, server: Any) -> None:
    benchmark = StaICC.Normal(k=2, datasets=["mini"], limit=2, unparsed="wrong")
    benchmark(make_kernel("text", api="chat", turns=True))

    received = [turns_of(request) for request in server.requests]
    for query in benchmark[0].all_queries():
        assert expected_turns(query.parts) in received, query


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_every_kind_of_label_is_sent_as_it_is(make_kernel: Any, server: Any, kind: str) -> None:
    labels = LABEL_KINDS[kind]
    queries = StaICC.Normal(k=2, datasets=own_data(labels), limit=2)[0].all_queries()
    make_kernel("text", api="chat", turns=True).batch([query.prompt for query in queries], labels)

    received = [turns_of(request) for request in server.requests]
    for query in queries:
        assert expected_turns(query.parts) in received, query


def chat_kernel(**options: Any) -> EndpointKernel:
    """Return a kernel of a chat for a server that is not there."""
    return EndpointKernel("http://localhost:1/v1", "m", scoring="text", api="chat", **options)


def test_turns_are_in_the_identity() -> None:
    assert chat_kernel(turns=True).identity() != chat_kernel(turns=False).identity()


def test_a_marked_cache_is_not_in_the_identity() -> None:
    """A cache changes no prediction."""
    assert chat_kernel(turns=True, cache_control=True).identity() == chat_kernel(turns=True).identity()


def test_the_last_demonstration_is_marked_for_the_cache() -> None:
    *_, last_demonstration, question = chat_kernel(turns=True, cache_control=True).messages(PROMPT)
    assert last_demonstration["content"] == [
        {"type": "text", "text": "bad", "cache_control": {"type": "ephemeral"}},
    ]
    assert question == {"role": "user", "content": "text: c label: "}


def test_a_marked_cache_needs_turns() -> None:
    with pytest.raises(StaICC.ArgumentError, match="cache_control marks the last demonstration"):
        LiteLLMKernel("m", cache_control=True)


def test_turns_need_a_chat() -> None:
    with pytest.raises(StaICC.ArgumentError, match="expected api='chat'"):
        EndpointKernel("http://localhost:1/v1", "m", scoring="text", turns=True)


def test_turns_need_a_prompt_with_its_parts() -> None:
    with pytest.raises(StaICC.PromptError, match="turns=True needs a prompt with its parts"):
        chat_kernel(turns=True).messages("text: c label: ")


def test_the_prompt_format_chat_turns_sends_turns() -> None:
    kernel = EndpointKernel.from_spec("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat-turns")
    assert kernel.api == "chat"
    assert kernel.turns is True


def test_batch_files_have_turns() -> None:
    (request,) = StaICC.batch_requests("anthropic", "m;max_tokens=5;turns=true;cache_control=true", {"a": PROMPT})
    messages = request["params"]["messages"]
    assert [message["role"] for message in messages] == [role for role, _ in TURNS]
    assert messages[-2]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_requests_that_measure_a_long_prompt_have_its_messages(make_kernel: Any, server: Any) -> None:
    """More than one request: some ask how many tokens the server reads."""
    long_prompt = PromptText(replace(PROMPT.parts, instruction="a long text " * 100))
    make_kernel("text", api="chat", turns=True).batch([long_prompt], ["good", "bad"])

    assert len(server.requests) > 1
    for request in server.requests:
        roles = [role for role, _ in turns_of(request)]
        assert roles == ["user", "assistant", "user", "assistant", "user"]
