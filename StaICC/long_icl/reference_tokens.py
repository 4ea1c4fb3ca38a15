"""Reference tokens: the length of a text that does not depend on a model."""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""Bytes of a reference token: the usual rule of thumb for English text."""
BUDGETS = tuple(1024 * thousands for thousands in (4, 8, 16, 32, 64, 128))
"""The usual lengths of contexts in reference tokens, 4K to 128K."""


def reference_tokens(text: str) -> int:
    """Return the length of a text in reference tokens: four bytes of UTF-8 each, rounded up.

    Example:
        >>> reference_tokens("service query: Where is it?")
        7
    """
    return tokens_of_bytes(byte_size(text))


def tokens_of_bytes(size: int) -> int:
    """Return the number of reference tokens that have room for a number of bytes, which is rounded up."""
    return (size + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN


def to_bytes(text: str) -> bytes:
    """Return a text in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def byte_size(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(to_bytes(text))


def budget_name(budget: int) -> str:
    """Return the name of a number of reference tokens: in units of 1024, if it is a multiple of 1024.

    Example:
        >>> budget_name(4096), budget_name(1500)
        ('4K', '1500')
    """
    if budget % 1024 == 0:
        return f"{budget // 1024}K"
    return str(budget)
