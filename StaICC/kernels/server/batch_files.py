"""Requests to providers' batch interfaces, which reply within a day at half price, with their results.

OpenAI takes a file of requests and returns a file of responses, and another one of errors. Anthropic takes a list of
requests (one in each line here) and returns a file of results. Lines are matched by ``custom_id``, never by order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from StaICC.errors import ArgumentError, OutputError, SchemaError, WithheldReplyError
from StaICC.inference.contract import Text
from StaICC.inference.replies import Failure, failure_of_error
from StaICC.kernels.registry import option_types, split_options
from StaICC.kernels.server.endpoint import ANTHROPIC_FIELDS, Provider, check_prompts, response_body
from StaICC.kernels.server.transport import EndpointError as EndpointError
from StaICC.kernels.server.transport import clip
from StaICC.kernels.text_inference import ReplySettings, reply


def batch_requests(provider: Provider, model: str, prompts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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
        if others := sorted(fields.keys() - ANTHROPIC_FIELDS):
            raise ArgumentError(
                f"Anthropic has no option {others[0]}: expected {', '.join(ANTHROPIC_FIELDS)} or system"
            )
        if "max_tokens" not in fields:
            raise ArgumentError("max_tokens: got none, expected a number: Anthropic needs one")
        fields = {ANTHROPIC_FIELDS[field]: value for field, value in fields.items()}
        fields |= {"system": settings.system} if settings.system else {}
        settings = replace(settings, system="")
    check_prompts([*prompts.values()])
    for key, prompt in prompts.items():
        body = {"model": name, **fields, "messages": settings.messages(prompt)}
        sent = {"method": "POST", "url": "/v1/chat/completions", "body": body}
        yield {"custom_id": key, **(sent if provider == "openai" else {"params": body})}


def batch_reply(where: str, record: Mapping[str, Any], models: dict[str, str]) -> tuple[str, dict[str, Any] | Failure]:
    """Read a record of the results of a batch, for :func:`StaICC.benchmarks.exchange.read_predictions`.

    Args:
        where: The file and the line, for messages.
        record: The record.
        models: The models that replied before, with their lines; the model of this reply is added.

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
        text = reply(body)
        if text.finish_reason is None:
            raise EndpointError("the reply may be incomplete: expected the finish reason stop or length")
    except WithheldReplyError:
        text = Text("")
    except OutputError as error:
        return key, failure_of_error(error, str(error))
    models.setdefault(str(body.get("model")), where)
    if len(models) > 1:
        named = " and ".join(f"{clip(model)} ({place})" for model, place in models.items())
        raise SchemaError(f"replies of the models {named}; expected those of one batch")
    return key, {"reply": text}
