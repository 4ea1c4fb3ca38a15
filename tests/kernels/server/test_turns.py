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


def sent(request: Any) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in request.get("messages", ())]


def test_a_server_gets_the_parts_as_messages(make: Any, server: Any) -> None:
    pytest.importorskip("openai")
    kernel = make("text", api="chat", turns=True, system="Be brief.")
    kernel.batch([PROMPT], ["good", "bad"])
    assert [("system", "Be brief."), *TURNS] in list(map(sent, server.requests))


def test_whole_benchmarks_send_turns(make: Any, server: Any) -> None:
    pytest.importorskip("openai")
    kernel = make("text", api="chat", turns=True)
    benchmark = StaICC.Normal(k=2, datasets=["mini"], limit=2, unparsed="wrong")
    benchmark(kernel)
    expected = []
    for query in benchmark[0].all_queries():
        assert query.parts is not None
        roles = ("user", "assistant", "user", "assistant", "user")
        expected.append(list(zip(roles, query.parts.turns(), strict=True)))
    received = list(map(sent, server.requests))
    assert [turns for turns in expected if turns not in received] == []


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_every_kind_of_label_is_sent_as_it_is(make: Any, server: Any, kind: str) -> None:
    pytest.importorskip("openai")
    kernel = make("text", api="chat", turns=True)
    queries = StaICC.Normal(k=2, datasets=own_data(LABEL_KINDS[kind]), limit=2)[0].all_queries()
    kernel.batch([query.prompt for query in queries], LABEL_KINDS[kind])
    received = list(map(sent, server.requests))
    for query in queries:
        assert query.parts is not None
        turns = query.parts.turns()
        assert list(zip(("user", "assistant") * 2 + ("user",), turns, strict=True)) in received


def test_turns_are_another_identity_and_are_needed_for_a_marked_cache() -> None:
    url, model = "http://localhost:1/v1", "m"
    kernels = [EndpointKernel(url, model, scoring="text", api="chat", turns=turns) for turns in (False, True)]
    assert kernels[0].identity() != kernels[1].identity()
    marked = EndpointKernel(url, model, scoring="text", api="chat", turns=True, cache_control=True)
    assert marked.identity() == kernels[1].identity()  # it changes no prediction
    *_, last, question = marked.messages(PROMPT)
    assert last["content"] == [{"type": "text", "text": "bad", "cache_control": {"type": "ephemeral"}}]
    assert question == {"role": "user", "content": "text: c label: "}
    with pytest.raises(StaICC.ArgumentError, match="cache_control marks the last demonstration"):
        LiteLLMKernel("m", cache_control=True)
    with pytest.raises(StaICC.ArgumentError, match="expected api='chat'"):
        EndpointKernel(url, model, scoring="text", turns=True)
    with pytest.raises(StaICC.PromptError, match="turns=True needs a prompt with its parts"):
        kernels[1].messages("text: c label: ")


def test_the_word_of_the_other_kernels() -> None:
    kernel = EndpointKernel.from_spec("openai:http://localhost:1/v1#m;scoring=text;prompt_format=chat-turns")
    assert (kernel.api, kernel.turns) == ("chat", True)


def test_batch_files_have_turns() -> None:
    (request,) = StaICC.batch_requests("anthropic", "m;max_tokens=5;turns=true;cache_control=true", {"a": PROMPT})
    messages = request["params"]["messages"]
    assert [message["role"] for message in messages] == [role for role, _ in TURNS]
    assert messages[-2]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_prompts_are_measured_with_as_many_messages_as_they_have(make: Any, server: Any) -> None:
    pytest.importorskip("openai")
    kernel = make("text", api="chat", turns=True)
    kernel.batch([PromptText(replace(PROMPT.parts, instruction="a long text " * 100))], ["good", "bad"])
    roles = [[role for role, _ in sent(request)] for request in server.requests]
    assert len(roles) > 1
    assert [each for each in roles if each != [role for role, _ in TURNS]] == []
