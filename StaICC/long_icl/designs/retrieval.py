"""The experiment ``retrieval``: demonstrations that are similar to the test item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from StaICC.long_icl.contexts import Conditions, Contexts
from StaICC.long_icl.material import DesignOptions, Material
from StaICC.long_icl.prompts import write_context
from StaICC.long_icl.shuffling import shuffled
from StaICC.prompting.demonstrations import bm25_scores
from StaICC.prompting.prompt_text import PromptParts


def retrieval_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Show all demonstrations; to each test item the most similar ones by BM25, the most similar one last; random ones.

    As many random demonstrations tell similarity from the number of demonstrations.
    """
    pool = material.shots(options.shots)
    queries, texts = ([" ".join(item.texts) for item in items] for items in (material.items, pool))
    orders = {
        "retrieved": [sorted(range(len(pool)), key=lambda place: -row[place]) for row in bm25_scores(queries, texts)],
        "random": [shuffled(range(len(pool)), f"{options.seed} {item.row}") for item in material.items],
    }

    def context(nearest: Sequence[Sequence[int]], number: int, place: int) -> PromptParts:
        shown = [pool[row] for row in reversed(nearest[place][:number])]
        return write_context(material.data.card, shown, instruct=material.instruct)

    conditions: Conditions = {"full context": material.contexts(pool)}
    for number in options.levels:
        for kind, nearest in orders.items():
            shown = tuple(tuple(pool[row].gold for row in reversed(places[:number])) for places in nearest)
            compared = f"{number} retrieved" if kind == "random" else ""
            conditions[f"{number} {kind}"] = (
                Contexts(partial(context, nearest, number), number, (), shown, compared=compared)
                if number < len(pool)
                else f"the full context has {len(pool)} demonstrations"
            )
    return conditions
