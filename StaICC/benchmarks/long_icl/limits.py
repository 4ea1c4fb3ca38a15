"""Contexts that are longer than a model's limit: recognised, so that they are reported as such.

Kernels and servers say it in words of their own, and nothing but their words comes back from a worker process. The
phrases below are looked for. What is at stake is small: a query without an answer is never scored, whatever the reason,
and the reason is shown in full. It decides whether ``on_error="raise"`` ends the run, or goes on to the other rounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["alike", "is_too_long"]

_TOO_LONG = re.compile(
    r"the model reads \d"
    r"|context[ _-](length|size|window)"
    r"|\b(prompt|input|sequence|context|query|message)s?\b[^.;\n]{0,40}\b(is|are|was|were) too long\b"
    r"|maximum (model|sequence|prompt|input|position)[ _-]?(length|embeddings?)"
    r"|\bmax_(model_len|position_embeddings|seq_len|input_tokens)",
    re.IGNORECASE,
)
_PLACE = re.compile(r" \(at [^()\n]*:\d+\)")
_NUMBER = re.compile(r"\d[\d,.]*")


def is_too_long(reason: str) -> bool:
    """Whether a reason says that a prompt is longer than the model's limit.

    Example:
        >>> is_too_long("prompt 0 has 40123 tokens, but the model reads 32768 at most")
        True
        >>> is_too_long("the server took too long to answer")
        False
    """
    return _TOO_LONG.search(reason) is not None


def alike(reasons: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Put reasons together that differ in numbers only.

    Args:
        reasons: How many queries each reason took.

    Returns:
        The first of each kind, without the place in the code where it arose, and how many queries the kind took; the
        most frequent first.

    Example:
        >>> alike({"it has 3 tokens": 1, "refused": 1, "it has 51 tokens": 2})
        (('it has 3 tokens', 3), ('refused', 1))
    """
    found: dict[str, tuple[str, int]] = {}
    for reason, count in reasons.items():
        told = _PLACE.sub("", reason)
        kind = _NUMBER.sub("#", told)
        first, before = found.get(kind, (told, 0))
        found[kind] = (first, before + count)
    return tuple(sorted(found.values(), key=lambda pair: -pair[1]))
