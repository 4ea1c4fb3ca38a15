"""Irrelevant text that fills a context."""

from __future__ import annotations

from StaICC.long_icl.shuffling import shuffled

_SENTENCES = (
    "The lamp in the harbour office was lit before the first boat came in.",
    "A cat slept on the folded nets, and nobody wanted to wake it.",
    "By noon the clouds had moved behind the hills, and the stones were dry again.",
    "Two children counted the steps of the lighthouse and found a different number each time.",
    "The baker closed early, because the flour had not arrived.",
    "Someone had painted the old gate green and left the brush beside it.",
    "In the evening the wind turned, and the flags pointed to the sea.",
    "A letter lay under the door, without a stamp and without a name.",
)
"""Sentences about no task, in ASCII: each character is one byte."""


def irrelevant_text(size: int) -> str:
    """Return text about no task that has a number of bytes and ends with a line feed.

    The sentences are repeated, each time in another order, and the last one is cut.
    """
    cycle_size = sum(len(sentence) + 1 for sentence in _SENTENCES)
    pieces = []
    for cycle in range(size // cycle_size + 1):
        for sentence in shuffled(_SENTENCES, seed=cycle * len(_SENTENCES)):
            pieces.append(f"{sentence} ")
    return "".join(pieces)[: size - 1] + "\n"
