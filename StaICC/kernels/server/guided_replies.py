"""Whether a server obeyed the request that a reply be a label: some ignore it without an error.

``transformers serve`` is one of them: it accepts a JSON schema and writes what the model likes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from StaICC.inference.contract import Text
from StaICC.inference.reply_parser import reply_text

IGNORED = "the server ignores guided={guided!r}: expected {expected}, got the reply {reply}. Leave guided out"
"""The message about a reply that the request does not allow."""


def allows_reply(guided: str, reply: Text, label_space: Sequence[str]) -> bool:
    """Return whether a request with ``guided`` allows a reply.

    A reply that was cut at its maximum number of tokens is allowed: it may have become a label.

    Args:
        guided: ``"choice"`` (the reply is a label) or ``"json"`` (it is an object with a label).
        reply: The reply. Reasoning before it, and a code block around it, are not part of it.
        label_space: The labels.

    Example:
        >>> allows_reply("choice", Text("positive", "stop"), ["negative", "positive"])
        True
        >>> allows_reply("json", Text("It is positive.", "stop"), ["negative", "positive"])
        False
    """
    if reply.finish_reason == "length":
        return True
    # A server may leave out white space at the ends of a label.
    labels = [label.strip() for label in label_space]
    text = reply_text(reply).strip()
    if guided == "choice":
        return text in labels
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    label = document.get("label")
    return isinstance(label, str) and label.strip() in labels
