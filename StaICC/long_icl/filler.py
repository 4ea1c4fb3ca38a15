"""Irrelevant text that fills a context."""

from __future__ import annotations

from StaICC.long_icl.shuffling import shuffled

_IRRELEVANT = (
    "The lamp in the harbour office was lit before the first boat came in.",
    "A cat slept on the folded nets, and nobody wanted to wake it.",
    "By noon the clouds had moved behind the hills, and the stones were dry again.",
    "Two children counted the steps of the lighthouse and found a different number each time.",
    "The baker closed early, because the flour had not arrived.",
    "Someone had painted the old gate green and left the brush beside it.",
    "In the evening the wind turned, and the flags pointed to the sea.",
    "A letter lay under the door, without a stamp and without a name.",
)
"""Sentences about no task."""


def irrelevant_text(size: int) -> str:
    """Return text about no task, with a number of bytes; it ends with a line feed."""
    cycles = size // (len("".join(_IRRELEVANT)) + len(_IRRELEVANT)) + 1
    orders = (shuffled(_IRRELEVANT, number * len(_IRRELEVANT)) for number in range(cycles))
    return "".join(f"{sentence} " for order in orders for sentence in order)[: size - 1] + "\n"
