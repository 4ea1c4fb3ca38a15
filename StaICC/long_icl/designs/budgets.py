"""The experiment ``budget``: fixed, retrieved or both kinds of demonstrations within an equal number of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.long_icl.contexts import Conditions, UnavailableCondition
from StaICC.long_icl.designs.retrieval import ChosenDemonstrations, DemonstrationPool, most_similar_first
from StaICC.long_icl.material import DesignOptions, Material, fill_budgets
from StaICC.long_icl.reference_tokens import BYTES_PER_TOKEN, byte_size

_RETRIEVED_DIVISOR = 8
"""Retrieved demonstrations of a hybrid context fill an eighth of its budget. This is a decision: Golchin et al. 2025
combine few similar demonstrations with a much larger number of cached ones."""


@dataclass(frozen=True, slots=True)
class _RankedRows:
    """All training rows of a data set by their indexes: their sizes, and the orders in which they are chosen."""

    sizes: Sequence[int]
    """Bytes of each row as a demonstration."""
    published_order: Sequence[int]
    similar_orders: Sequence[Sequence[int]]
    """For each test item all rows, the most similar one first."""

    def filling(self, order: Iterable[int], byte_count: int) -> list[int]:
        """Return as many rows from the start of an order as fit into a number of bytes together.

        Args:
            order: The indexes of rows.
            byte_count: The number of bytes.
        """
        row_indexes: list[int] = []
        remaining_bytes = byte_count
        for row_index in order:
            remaining_bytes -= self.sizes[row_index]
            if remaining_bytes < 0:
                break
            row_indexes.append(row_index)
        return row_indexes


def budget_conditions(options: DesignOptions, material: Material) -> Conditions:
    """Return three conditions for each budget, which fill it with other demonstrations.

    - ``fixed``: those of the experiment ``context``, in the published order, the same for all test items.
    - ``retrieved``: to each test item the most similar ones by BM25, the most similar one last. The difference from
      ``fixed`` is that of similarity, because the number of tokens is equal.
    - ``hybrid``: fixed ones in the first seven eighths of the budget, which a prefix cache computes once, and then the
      most similar ones of the other rows.

    Args:
        options: The options of the experiment. Its levels are the budgets in reference tokens.
        material: The training rows and the test items.

    Source:
        Golchin et al. 2025, "Towards Compute-Optimal Many-Shot In-Context Learning", arXiv:2507.16217 (hybrid).
    """
    items = [row.item() for row in material.data.train]
    pool = DemonstrationPool.of_items(material, items)
    rows = _RankedRows(
        sizes=[byte_size(demonstration.text) for demonstration in pool.written],
        published_order=material.published_order(),
        similar_orders=most_similar_first(material.items, items),
    )
    budgets = fill_budgets(material, rows.published_order, options.levels)
    conditions: Conditions = {}
    for token_count, budget in zip(options.levels, budgets, strict=True):
        fixed_name = f"{budget.name} fixed"
        retrieved_name = f"{budget.name} retrieved"
        hybrid_name = f"{budget.name} hybrid"
        if budget.reason:
            for name in (fixed_name, retrieved_name, hybrid_name):
                conditions[name] = UnavailableCondition(budget.reason)
            continue
        byte_count = BYTES_PER_TOKEN * token_count - material.instruction_size()
        retrieved = ChosenDemonstrations(pool, _retrieved(rows, byte_count))
        hybrid = ChosenDemonstrations(pool, _hybrid(rows, byte_count))
        conditions[fixed_name] = material.shared_context(budget.demonstrations)
        conditions[retrieved_name] = retrieved.contexts(compared=fixed_name)
        conditions[hybrid_name] = hybrid.contexts(compared=fixed_name)
    return conditions


def _retrieved(rows: _RankedRows, byte_count: int) -> list[list[int]]:
    """Return for each test item the most similar rows that fill a number of bytes, the most similar one last."""
    chosen = []
    for order in rows.similar_orders:
        most_similar_rows = rows.filling(order, byte_count)
        chosen.append(list(reversed(most_similar_rows)))
    return chosen


def _hybrid(rows: _RankedRows, byte_count: int) -> list[list[int]]:
    """Return for each test item the fixed rows, followed by similar ones of the other rows, the most similar one last.

    Similar rows have an eighth of the bytes, and the bytes that the fixed rows leave.

    Args:
        rows: The training rows, with the orders in which they are chosen.
        byte_count: The bytes that the demonstrations of a context have together.
    """
    retrieved_bytes = byte_count // _RETRIEVED_DIVISOR
    fixed_rows = rows.filling(rows.published_order, byte_count - retrieved_bytes)
    fixed_set = set(fixed_rows)
    remaining_bytes = byte_count - sum(rows.sizes[row_index] for row_index in fixed_rows)
    chosen = []
    for order in rows.similar_orders:
        other_rows = [row_index for row_index in order if row_index not in fixed_set]
        similar_rows = rows.filling(other_rows, remaining_bytes)
        chosen.append([*fixed_rows, *reversed(similar_rows)])
    return chosen
