"""The scores of an experiment of LongICL by how near the demonstrations of the true label are to the query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.results.cells import cell_text
from StaICC.results.protocol import ResultLike

_HEADS: Mapping[str, str] = {
    "demonstrations": "demonstrations after it",
    "reference_tokens": "reference tokens after it",
    "overlap": "share of the query's words in it",
}
"""The heads of the distances, by their keys in a result."""
_MEANING = (
    "A gold demonstration has the true label of the test item. Distances are those of the last one in the context; the "
    "share of words is the largest one. Test items whose label is not shown are left out. Each interval is for its row "
    "alone."
)


@dataclass(frozen=True, slots=True)
class NearestGoldTable(Displayed):
    """The scores of an experiment by how near the demonstrations of the true label are to the query."""

    rows: tuple[Mapping[str, Any], ...]
    """One record for each data set, condition, distance and bin: ``dataset``, ``condition``, ``distance`` (the head of
    the distance), ``lowest``, ``highest``, ``items``, ``score``, ``score_low`` and ``score_high``."""

    def display_blocks(self) -> Sequence[Block]:
        """Return the table and the meaning of its columns."""
        cells = []
        for row in self.rows:
            cells.append(
                [
                    f"{row['dataset']}, {row['condition']}",
                    row["distance"],
                    _range_text(row["lowest"], row["highest"]),
                    str(row["items"]),
                    cell_text(row["score"], row["score_low"], row["score_high"]),
                ]
            )
        head = ["data set, condition", "nearest gold demonstration", "from .. to", "items", "score"]
        return [TextTable(head, cells), Line(_MEANING)]


def nearest_gold_table(result: ResultLike) -> NearestGoldTable:
    """Return the scores of an experiment of LongICL by how near the demonstrations of the true label are to the query.

    Args:
        result: A result of LongICL with an experiment, or of HELMET.

    Raises:
        ArgumentError: The result has no experiment, or no test item has a label that its context shows.
    """
    rows = tuple(_rows(result))
    if not rows:
        raise ArgumentError(
            "got a result without demonstrations of true labels, expected an experiment of LongICL, or HELMET"
        )
    return NearestGoldTable(rows)


def _rows(result: ResultLike) -> Iterator[dict[str, Any]]:
    """Yield a record for each data set, condition, distance and bin."""
    for dataset, scores in result.divided.items():
        experiment = scores.get("experiment") or {}
        bins_of_conditions = experiment.get("nearest_gold") or {}
        for condition, bins_of_distances in bins_of_conditions.items():
            for distance, bins in bins_of_distances.items():
                head = _HEADS.get(distance, distance)
                for record in bins:
                    yield {"dataset": dataset, "condition": condition, "distance": head, **record}


def _range_text(lowest: float, highest: float) -> str:
    """Return the range of a bin as text. Integers have no decimals, shares have two."""
    if isinstance(lowest, int) and isinstance(highest, int):
        return f"{lowest} .. {highest}"
    return f"{lowest:.2f} .. {highest:.2f}"
