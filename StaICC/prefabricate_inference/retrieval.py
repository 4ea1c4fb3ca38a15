"""Demonstrations near to a query, and the orders that they may stand in.

A text's encoding is the model's last hidden state at its last token. :class:`TextEncoder` computes it once for each
text and model; the distances of all queries to all demonstrations are one matrix product.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from StaICC.errors import ArgumentError
from StaICC.prefabricate_inference import nearest
from StaICC.prefabricate_inference.calibration_samples import Variant
from StaICC.prefabricate_inference.features import kernel_name
from StaICC.prompting import StableRandom

__all__ = ["RELEASED_CUT", "TextEncoder", "TextRows", "nearest_demonstrations", "order_patterns"]

RELEASED_CUT = 512
"""How many demonstrations 0.1.1 chooses from."""

AT_ONCE = 256
"""Texts encoded in one call of the kernel."""


class TextRows(Protocol):
    """What is asked of a set of rows: its size, and the input texts of a row."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> tuple[Sequence[str], Any]: ...


class TextEncoder:
    """Encodes texts by a kernel's hidden states, each text once.

    Args:
        kernel: A kernel with ``hidden_states(prompts)``.

    Attributes:
        encoded: How many texts were encoded.

    Raises:
        ArgumentError: The kernel has no hidden states.
    """

    def __init__(self, kernel: Any) -> None:
        states = getattr(kernel, "hidden_states", None)
        if not callable(states):
            raise ArgumentError(
                f"choosing demonstrations by nearness needs hidden states, and {kernel_name(kernel)} has no method "
                "hidden_states; use a local model, such as hf:NAME"
            )
        self._states: Callable[[Sequence[str]], Any] = states
        self._known: dict[str, tuple[Any, float]] = {}
        self.encoded = 0

    def vectors(self, texts: Sequence[str]) -> Any:
        """Encode texts.

        Args:
            texts: The texts, none empty.

        Returns:
            Array (texts, width).

        Raises:
            OutputError: A state has NaN or an infinity.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(new), AT_ONCE):
            some = new[start : start + AT_ONCE]
            began = time.monotonic()
            rows = nearest.finite_matrix(self._states(some), "encoding")
            share = (time.monotonic() - began) / len(some)
            for text, row in zip(some, rows, strict=True):
                self._known[text] = (row, share)
        self.encoded += len(new)
        return nearest.finite_matrix([self._known[text][0] for text in texts], "encoding")

    def seconds(self, texts: Iterable[str]) -> float:
        """How long the encoding of these texts took, when it was done."""
        return math.fsum(self._known[text][1] for text in set(texts) if text in self._known)


def _text(row: tuple[Sequence[str], Any]) -> str:
    return " ".join(row[0])


def nearest_demonstrations(
    encoder: TextEncoder, demonstrations: TextRows, queries: Sequence[Sequence[str]], count: int
) -> list[list[int]]:
    """Find the demonstrations nearest to each query (TopK; Liu et al. 2022, "What Makes Good In-Context Examples").

    Args:
        encoder: Encodes the texts; several input texts of a row are joined by blanks.
        demonstrations: Rows to choose from.
        queries: Input texts of each query.
        count: How many to choose.

    Returns:
        For each query, positions of the demonstrations by growing Euclidean distance, the first of equals first. A
        demonstration without text is never near; a query without text gets the first demonstrations.

    Raises:
        ArgumentError: There are fewer demonstrations with text than ``count``.
        OutputError: A state has NaN or an infinity.
    """
    texts = [_text(demonstrations[place]) for place in range(len(demonstrations))]
    usable = [place for place, text in enumerate(texts) if text]
    if len(usable) < count:
        raise ArgumentError(f"there are {len(usable)} demonstrations with text, too few for the nearest {count}")
    asked = [" ".join(query) for query in queries]
    # Equal texts share a column, so that their distances are equal to the last bit and their order is that of the set.
    distinct = {text: column for column, text in enumerate(dict.fromkeys(texts[place] for place in usable))}
    rows = {text: row for row, text in enumerate(dict.fromkeys(text for text in asked if text))}
    if not rows:
        return [usable[:count] for _ in asked]
    distances = nearest.euclidean(encoder.vectors(list(rows)), encoder.vectors(list(distinct)))
    chosen = nearest.nearest(distances[:, [distinct[texts[place]] for place in usable]], count)
    found = [[usable[place] for place in line] for line in chosen.tolist()]
    return [list(found[rows[text]]) if text else usable[:count] for text in asked]


def order_patterns(queries: int, candidates: int, k: int, number: int, variant: Variant) -> list[list[tuple[int, ...]]]:
    """List the orders of near demonstrations that self-adaptive in-context learning tries for each query.

    Args:
        queries: How many queries.
        candidates: How many near demonstrations each query has.
        k: How many of them a prompt has.
        number: How many orders; fewer if there are not so many.
        variant: ``"paper"``: drawn at random, all different; ``"0.1.1"``: the first in lexicographic order (the release
            shuffles them, and throws the shuffled list away).

    Returns:
        For each query its orders, each of ``k`` places among the candidates. A query's do not depend on how many
        queries come after it.

    Example:
        >>> order_patterns(1, 3, 2, 4, "0.1.1")
        [[(0, 1), (0, 2), (1, 0), (1, 2)]]
    """
    first = list(itertools.islice(itertools.permutations(range(candidates), k), number))
    if variant == "0.1.1" or math.perm(candidates, k) <= number:
        return [first for _ in range(queries)]
    generator = StableRandom()
    found = []
    for _ in range(queries):
        drawn: dict[tuple[int, ...], None] = {}
        while len(drawn) < number:
            drawn[tuple(generator.sample_indexes(candidates, k))] = None
        found.append(list(drawn))
    return found
