"""Requests and results of providers' batch interfaces, which reply within a day at half price.

OpenAI takes a file of requests and returns a file of responses, and another one of errors. Anthropic takes a list of
requests (one in each line here) and returns a file of results. Lines are matched by ``custom_id``, never by order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from StaICC.errors import ArgumentError, OutputError, SchemaError, WithheldReplyError
from StaICC.inference.contract import Text
from StaICC.kernels.endpoint import reply
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.text_inference import ReplySettings
from StaICC.kernels.transport import EndpointError, clip

__all__ = ["BatchReplies", "Provider", "batch_requests", "read_batch"]

Provider = Literal["openai", "anthropic"]

_ANTHROPIC = {"stop": "stop_sequences", "max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
"""The fields of a request that Anthropic has too, with its names."""


def batch_requests(provider: Provider, model: str, prompts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the request for each prompt, as a chat.

    Args:
        provider: Whose format.
        model: The name of the model; options of replies may follow, as in ``"gpt-5;max_completion_tokens=4000"``.
        prompts: The prompt of each ``custom_id``.

    Raises:
        ArgumentError: An option has no meaning, or the provider has none of this name.

    Example:
        >>> (request,) = batch_requests("anthropic", "claude-haiku-4-5;max_tokens=20", {"a": "label: "})
        >>> request["custom_id"], request["params"]["max_tokens"], request["params"]["messages"]
        ('a', 20, [{'role': 'user', 'content': 'label: '}])
    """
    name, options = split_options(model, option_types(ReplySettings))
    settings = ReplySettings(**options)
    fields = settings.reply_request(None, settings.stop or ())
    if provider == "anthropic":
        if others := sorted(fields.keys() - _ANTHROPIC):
            raise ArgumentError(f"Anthropic has no option {others[0]}: expected {', '.join(_ANTHROPIC)} or system")
        if "max_tokens" not in fields:
            raise ArgumentError("max_tokens: got none, expected a number: Anthropic needs one")
        fields = {_ANTHROPIC[field]: value for field, value in fields.items()}
        fields |= {"system": settings.system} if settings.system else {}
        settings = ReplySettings()
    for key, prompt in prompts.items():
        body = {"model": name, **fields, "messages": settings.messages(prompt)}
        place = {"params": body} if provider == "anthropic" else {"method": "POST", "url": "/v1/chat/completions"}
        yield {"custom_id": key, **place, **({"body": body} if provider == "openai" else {})}


@dataclass(frozen=True, slots=True)
class BatchReplies:
    """The results of a batch, by ``custom_id``."""

    replies: Mapping[str, str]
    """The replies; one that the provider withheld is empty."""
    failures: Mapping[str, str]
    """Why the other requests have no reply."""


def read_batch(lines: Iterable[tuple[int, Mapping[str, Any]]], where: str) -> BatchReplies:
    """Read the results of a batch. A request that failed may appear again with a reply.

    Args:
        lines: Line numbers and records.
        where: The name of the file, for messages.

    Raises:
        SchemaError: A line is no result, two are replies to one request, or two models replied.
    """
    replies: dict[str, str] = {}
    failures: dict[str, str] = {}
    models: dict[str, int] = {}
    for number, record in lines:
        key = record.get("custom_id")
        if not isinstance(key, str) or record.keys().isdisjoint({"response", "result"}):
            raise SchemaError(
                f"{where}, line {number}: expected custom_id, and response (OpenAI) or result (Anthropic)"
            )
        try:
            body = _body(record)
            text = _text(body)
        except OutputError as error:
            failures[key] = str(error)
            continue
        if key in replies:
            raise SchemaError(f"{where}, line {number}: a second reply to the request {clip(key)}")
        models.setdefault(str(body.get("model")), number)
        if len(models) > 1:
            named = " and ".join(f"{clip(model)} (line {line})" for model, line in models.items())
            raise SchemaError(f"{where}: replies of the models {named}; expected those of one batch")
        replies[key] = text
    return BatchReplies(replies, {key: reason for key, reason in failures.items() if key not in replies})


def _body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response as a chat completion.

    Raises:
        EndpointError: The request failed.
    """
    match record:
        case {"response": {"status_code": 200, "body": Mapping() as body}} if not record.get("error"):
            return body
        case {"result": {"type": "succeeded", "message": {"content": list(parts)} as message}}:
            typed = [part for part in parts if isinstance(part, Mapping)]
            written = {
                "content": [part for part in typed if part.get("type") == "text"],
                "reasoning_content": "".join(str(part.get("thinking") or "") for part in typed),
            }
            choice = {"message": written, "finish_reason": message.get("stop_reason")}
            return {"model": message.get("model"), "choices": [choice]}
    said = record.get("error") or record.get("response") or record.get("result")
    raise EndpointError(f"the request failed: {clip(said)}")


def _text(body: Mapping[str, Any]) -> Text:
    try:
        text = reply(body)
    except WithheldReplyError:
        return Text("")
    if text.finish_reason is None:
        raise EndpointError("the reply may be incomplete: expected the finish reason stop or length")
    return text
