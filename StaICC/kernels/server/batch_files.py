"""Requests to providers' batch interfaces, which reply within a day at half price, with their results.

OpenAI takes a file of requests and returns a file of responses, and another one of errors. Anthropic takes a list of
requests (one in each line here) and returns a file of results. Lines are matched by ``custom_id``, never by order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from StaICC.errors import ArgumentError, OutputError, SchemaError, WithheldReplyError
from StaICC.inference.contract import Text
from StaICC.inference.replies import Failure, failure_of_error
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.server.endpoint import check_prompts
from StaICC.kernels.server.transport import EndpointError as EndpointError
from StaICC.kernels.server.transport import clip
from StaICC.kernels.text_inference import ReplySettings, reply

Provider = Literal["openai", "anthropic"]

ANTHROPIC_FIELDS = {
    "stop": "stop_sequences",
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
}
"""The fields of a request that Anthropic has too, with its names."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may be."""

    request_count: int
    megabytes: int
    """The largest file, in millions of bytes."""


LIMITS: Mapping[Provider, BatchLimits] = {
    "openai": BatchLimits(request_count=50_000, megabytes=200),
    "anthropic": BatchLimits(request_count=100_000, megabytes=256),
}
"""What the providers document."""


def limit_remark(provider: Provider, request_count: int, size: int) -> str | None:
    """Return how to divide a batch that is larger than the provider takes; ``None`` if it is not.

    Args:
        provider: The provider.
        request_count: The number of requests.
        size: The size of their file in bytes.

    Example:
        >>> limit_remark("openai", 500, 275_000_000).partition(". ")[0]
        'the batch has 500 requests and 275 MB; openai takes at most 50,000 and 200 MB'
    """
    limits = LIMITS[provider]
    part_count = max(
        math.ceil(request_count / limits.request_count),
        math.ceil(size / (limits.megabytes * 1_000_000)),
    )
    if part_count <= 1:
        return None
    return (
        f"the batch has {request_count:,} requests and {size / 1_000_000:,.0f} MB; {provider} takes at most "
        f"{limits.request_count:,} and {limits.megabytes} MB. Divide the file between lines into {part_count} parts, "
        "and join the results in one file"
    )


# -- requests


def batch_requests(
    provider: Provider, model: str, prompts: Mapping[str, Any] | Iterable[tuple[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the request for each prompt, as a chat.

    Args:
        provider: Whose format.
        model: The name of the model; options of replies may follow, as in ``"gpt-5;max_completion_tokens=4000"``.
        prompts: The prompt of each ``custom_id``: a mapping, or pairs. Pairs of a generator are read one by one, so
            that a batch of long prompts needs the memory of one.

    Raises:
        ArgumentError: An option has no meaning, the provider has none of this name, or a prompt is no text.

    Example:
        >>> (request,) = batch_requests("anthropic", "claude-haiku-4-5;max_tokens=20", {"a": "label: "})
        >>> request["custom_id"], request["params"]["max_tokens"], request["params"]["messages"]
        ('a', 20, [{'role': 'user', 'content': 'label: '}])
    """
    name, options = split_options(model, option_types(ReplySettings))
    settings = ReplySettings(**options)
    fields = settings.reply_request(None, settings.stop or ())
    if provider == "anthropic":
        fields = _anthropic_fields(fields, settings.system)
        # Anthropic has a field for the system text, which is no message there.
        settings = replace(settings, system="")

    pairs = prompts.items() if isinstance(prompts, Mapping) else prompts
    for key, prompt in pairs:
        check_prompts([prompt])
        body = {"model": name, **fields, "messages": settings.messages(prompt)}
        if provider == "openai":
            yield {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
        else:
            yield {"custom_id": key, "params": body}


def _anthropic_fields(fields: Mapping[str, Any], system: str) -> dict[str, Any]:
    """Return the fields of a request with Anthropic's names.

    Args:
        fields: The fields with OpenAI's names.
        system: The system text; empty for none.

    Raises:
        ArgumentError: Anthropic has no such field, or the field that it needs is missing.
    """
    unknown_fields = sorted(fields.keys() - ANTHROPIC_FIELDS)
    if unknown_fields:
        expected = f"expected {', '.join(ANTHROPIC_FIELDS)} or system"
        raise ArgumentError(f"Anthropic has no option {unknown_fields[0]}: {expected}")
    if "max_tokens" not in fields:
        raise ArgumentError("max_tokens: got none, expected a number: Anthropic needs one")
    renamed = {ANTHROPIC_FIELDS[name]: value for name, value in fields.items()}
    if system:
        renamed["system"] = system
    return renamed


# -- results


def batch_reply(where: str, record: Mapping[str, Any], models: dict[str, str]) -> tuple[str, dict[str, Any] | Failure]:
    """Read a record of the results of a batch, for :func:`StaICC.benchmarks.exchange.read_predictions`.

    Args:
        where: The file and the line, for messages.
        record: The record.
        models: The models that replied in the records before, each with the file and line of its first reply. The
            model of this record is added. A second model is an error.

    Returns:
        The ``custom_id``, and the ``reply`` (empty if the provider withheld it) or why there is none.

    Raises:
        SchemaError: The record is no result, or another model replied before.
    """
    key = record.get("custom_id")
    if not isinstance(key, str) or record.keys().isdisjoint({"response", "result"}):
        raise SchemaError(f"{where}: expected custom_id, and response (OpenAI) or result (Anthropic)")
    try:
        body = response_body(record)
        text = _complete_reply(body)
    except OutputError as error:
        return key, failure_of_error(error, str(error))

    model = str(body.get("model"))
    models.setdefault(model, where)
    if len(models) > 1:
        names = [f"{clip(name)} ({first_line})" for name, first_line in models.items()]
        raise SchemaError(f"replies of the models {' and '.join(names)}; expected those of one batch")
    return key, {"reply": text}


def _complete_reply(body: Mapping[str, Any]) -> Text:
    """Return the text of a chat completion; an empty one if the provider withheld it.

    Raises:
        EndpointError: There is no text, or it may be incomplete.
    """
    try:
        text = reply(body)
    except WithheldReplyError:
        return Text("")
    if text.finish_reason is None:
        raise EndpointError("the reply may be incomplete: expected the finish reason stop or length")
    return text


def response_body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response of a record as a chat completion.

    Raises:
        EndpointError: The request failed.
    """
    match record:
        # OpenAI.
        case {"response": {"status_code": 200, "body": Mapping() as body}} if not record.get("error"):
            return body
        # Anthropic.
        case {"result": {"type": "succeeded", "message": {"content": list()} as message}}:
            return _as_chat_completion(message)
    failure = record.get("error") or record.get("response") or record.get("result")
    raise EndpointError(f"the request failed: {clip(failure)}")


def _as_chat_completion(anthropic_message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of Anthropic as a chat completion: its texts, thoughts and tool calls."""
    blocks = [block for block in anthropic_message["content"] if isinstance(block, Mapping)]
    text_blocks = [block for block in blocks if block.get("type") == "text"]
    thoughts = [str(block.get("thinking") or "") for block in blocks]
    calls = []
    for block in blocks:
        if block.get("type") == "tool_use":
            calls.append({"function": {"name": block.get("name"), "arguments": block.get("input")}})
    message = {"content": text_blocks, "reasoning_content": "".join(thoughts), "tool_calls": calls}
    choice = {"message": message, "finish_reason": anthropic_message.get("stop_reason")}
    return {"model": anthropic_message.get("model"), "choices": [choice]}
