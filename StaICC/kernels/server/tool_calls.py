"""Tool calls in replies: a model that writes its label as the argument of a function.

No request of StaICC offers tools, but some servers and models reply with a call nevertheless: ``content`` is null, and
the label is in the arguments, such as ``{"label": "food"}``. The arguments are JSON, which the parser of replies reads
(:mod:`StaICC.inference.reply_grammar.json_replies`). Servers write a call in one of these forms:

- OpenAI, vLLM, Mistral: ``tool_calls`` with ``function.arguments``, a text of JSON;
- Ollama: the same, with an object in place of the text;
- OpenAI's custom tools: ``tool_calls`` with ``custom.input``, any text;
- older servers: one ``function_call`` with ``arguments``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from StaICC.inference.contract import ending

_ENDINGS = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})
"""The finish reasons of replies that end with a tool call."""


def finish_reason_of(choice: Mapping[str, Any]) -> str | None:
    """Return how a reply ended, as :func:`~StaICC.inference.contract.ending` does; a tool call is a complete reply.

    Args:
        choice: The choice of a chat completion or a completion.

    Returns:
        ``"stop"`` for a reply that ended with a tool call; ``None`` if the reason is that of a tool call, but the reply
        has none: then it is incomplete.

    Example:
        >>> call = {"function": {"name": "classify", "arguments": '{"label": "food"}'}}
        >>> finish_reason_of({"finish_reason": "tool_calls", "message": {"content": None, "tool_calls": [call]}})
        'stop'
        >>> finish_reason_of({"finish_reason": "tool_calls", "message": {"content": None}}) is None
        True
    """
    finish_reason = choice.get("finish_reason")
    message = choice.get("message")
    is_ending_of_call = str(finish_reason).casefold() in _ENDINGS
    if is_ending_of_call and isinstance(message, Mapping) and tool_call_text(message) is not None:
        return "stop"
    return ending(finish_reason)


def tool_call_text(message: Mapping[str, Any]) -> str | None:
    """Return the arguments of the tool calls in a message, as text; ``None`` if it has none.

    The arguments of several calls are a JSON list, so that two labels are two values of one reply.

    Args:
        message: The message of a chat completion.

    Example:
        >>> tool_call_text({"tool_calls": [{"function": {"name": "classify", "arguments": {"label": "food"}}}]})
        '{"label": "food"}'
    """
    arguments = []
    for call in _calls(message):
        text = _arguments_of(call)
        if text is not None:
            arguments.append(text)
    if not arguments:
        return None
    if len(arguments) == 1:
        return arguments[0]
    return f"[{', '.join(arguments)}]"


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calls of a message, in the form of entries of ``tool_calls``."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [call for call in calls if isinstance(call, Mapping)]
    function = message.get("function_call")
    if isinstance(function, Mapping):
        return [{"function": function}]
    return []


def _arguments_of(call: Mapping[str, Any]) -> str | None:
    """Return the arguments of a call as text; ``None`` if it has none."""
    function = call.get("function")
    if isinstance(function, Mapping):
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            return arguments
        if isinstance(arguments, (Mapping, list)):
            return json.dumps(arguments, ensure_ascii=False)
    custom = call.get("custom")
    if isinstance(custom, Mapping) and isinstance(custom.get("input"), str):
        return str(custom["input"])
    return None
