"""Reference tokens: the length of a text that does not depend on a model."""

from __future__ import annotations

BYTES_PER_TOKEN = 4
BUDGETS = tuple(1024 * number for number in (4, 8, 16, 32, 64, 128))


def reference_tokens(text: str) -> int:
    """Return the length of a text in reference tokens, which do not depend on a model: four bytes of UTF-8 each.

    Example:
        >>> reference_tokens("service query: Where is it?")
        7
    """
    return -(-byte_size(text) // BYTES_PER_TOKEN)


def to_bytes(text: str) -> bytes:
    """Return a text in UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def byte_size(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(to_bytes(text))


def budget_name(budget: int) -> str:
    """Return the name of a number of reference tokens, such as ``4K`` for 4,096."""
    return f"{budget // 1024}K" if budget % 1024 == 0 else str(budget)
