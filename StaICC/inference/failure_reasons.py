"""Recognises failure reasons that mean: the prompt exceeds the context length of the model.

Kernels and servers have different messages, and a worker process returns only the message, so this module searches for
phrases. The result decides only whether ``on_error="raise"`` ends the run or continues with the other rounds; a failed
query is never scored, and its reason is shown in full.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOO_LONG = re.compile(
    r"the model reads \d"
    r"|context[ _-](length|size|window|limit)"
    r"|\b(prompt|input|sequence|context|query|message)s?\b[^.;\n]{0,40}\b(is|are|was|were) too long\b"
    r"|maximum (model|sequence|prompt|input|position)[ _-]?(length|embeddings?)"
    r"|\bmax_(model_len|position_embeddings|seq_len|input_tokens)"
    r"|`inputs` (tokens \+|must have less)"
    r"|exceeds the maximum number of (input )?tokens|max_tokens must be at least 1, got -",
    re.IGNORECASE,
)
_PLACE = re.compile(r" \(at [^()\n]*:\d+\)")
_NUMBER = re.compile(r"\d[\d,.]*")


def is_too_long(reason: str) -> bool:
    """Return whether a failure reason says that a prompt exceeds the context length of the model.

    Example:
        >>> is_too_long("prompt 0 has 40123 tokens, but the model reads 32768 at most")
        True
        >>> is_too_long("the server took too long to answer")
        False
    """
    return _TOO_LONG.search(reason) is not None


def alike(reasons: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Merge failure reasons that differ only in numbers.

    Args:
        reasons: Number of queries for each reason.

    Returns:
        The first reason of each kind, without its code location, and the number of queries of the kind; the most
        frequent first.

    Example:
        >>> alike({"it has 3 tokens": 1, "refused": 1, "it has 51 tokens": 2})
        (('it has 3 tokens', 3), ('refused', 1))
    """
    merged: dict[str, tuple[str, int]] = {}
    for reason, count in reasons.items():
        message = _PLACE.sub("", reason)
        kind = _NUMBER.sub("#", message)
        first, before = merged.get(kind, (message, 0))
        merged[kind] = (first, before + count)
    return tuple(sorted(merged.values(), key=lambda pair: -pair[1]))
