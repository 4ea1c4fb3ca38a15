"""The demonstrations that are nearest to each query, as a part of methods."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.selection_rules import nearest_demonstrations
from StaICC.methods.text_distances import Distances, bm25_distances, encoder, vector_distances
from StaICC.prompting.prompt_text import question_only

HIDDEN_STATES = frozenset({Capability.HIDDEN_STATES})


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Options of TopK."""

    demonstration_set_cut: int | None = None
    """Choose from this many first demonstrations; none: from all (0.1.1: 512)."""
    encoder: str | Callable[[list[str]], Any] = "hidden"
    """What compares texts: hidden (states of the model), bm25, hf:NAME_OR_FOLDER (mean states of an encoder),
    sentence-transformers:NAME, or a function."""
    rule: Literal["nearest", "diverse", "balanced", "vote-k"] = "nearest"
    """How demonstrations are chosen: nearest, diverse, balanced (by label) or vote-k."""
    exclude_duplicates: bool = False
    """Never choose a demonstration with exactly the text of the query."""

    @property
    def not_required(self) -> frozenset[Capability]:
        """The capabilities that the method does not need with these options."""
        return frozenset() if self.encoder == "hidden" else HIDDEN_STATES

    @property
    def signed(self) -> dict[str, str]:
        """What signatures contain in the place of values: of an encoder of transformers, the digest of its files."""
        is_model = isinstance(self.encoder, str) and self.encoder.startswith("hf:")
        return {"encoder": f"hf-{encoder(self.encoder).files[:12]}"} if is_model else {}


def near_demonstrations(data: spec.MethodData, count: int, at_least: int) -> Generator[Any, Any, list[list[int]]]:
    """Find the ``count`` nearest demonstrations of each test example, or as many as there are."""
    experimentor, options = data.experimentor, data.options
    if not experimentor.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    spec.refuse_several_lists(experimentor)
    pool, cut = [*experimentor.demonstration_set()], options.demonstration_set_cut
    if cut is not None or data.variant == "0.1.1":
        pool = pool[: validate_integer("demonstration_set_cut", RELEASED_CUT if cut is None else cut, 1)]
    texts = [" ".join(row[0]) for row in pool]
    usable = sum(map(bool, texts))
    if at_least > usable:
        raise ArgumentError(f"got {usable} demonstrations with text, expected at least {at_least}")
    queries = [experimentor.test_set().get_input_text(row) for row in range(experimentor.row_count)]
    query_texts = [" ".join(query) for query in queries]
    distances: Distances = bm25_distances
    if options.encoder != "bm25":
        distinct = [text for text in dict.fromkeys([*texts, *query_texts]) if text]
        (states,) = yield [data.training(encoder(options.encoder), list(map(question_only, distinct)), "encoding")]
        distances = vector_distances(distinct, states)
    data.warnings += _fallbacks(count, usable, sum(not text for text in query_texts))
    settings = min(count, usable), data.variant, options.rule, options.exclude_duplicates
    lists = nearest_demonstrations(distances, pool, queries, *settings)
    shown = [text in (texts[place] for place in own) for text, own in zip(query_texts, lists, strict=True) if text]
    data.notes["duplicates"] = float(sum(shown))
    return lists


def _fallbacks(count: int, usable: int, queries_without_text: int) -> list[str]:
    """Return what a choice of demonstrations does in the place of what it should.

    Args:
        count: How many demonstrations it should choose for each query.
        usable: How many demonstrations have a text.
        queries_without_text: How many queries have none.
    """
    warnings = []
    if usable < count:
        warnings.append(f"only {usable} demonstrations have a text, so each query has {usable} near ones, not {count}")
    if queries_without_text:
        warnings.append(
            f"{queries_without_text} test examples have no text, so nothing is near to them: they are shown the first "
            "demonstrations"
        )
    return warnings


RELEASED_CUT = 512
"""Number of demonstrations that 0.1.1 chooses from."""
