"""Positional studies: accuracy by the position of the gold label's demonstrations.

:func:`positions_of` computes it from any result, including a loaded one: a result records the counts of each label and
the positions of its demonstrations. :func:`study_positions` runs a data set in both arrangements of demonstrations, as
the paper does with TACRED.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.long_icl.benchmark import LongICL
from StaICC.benchmarks.long_icl.data.loading import show_notice
from StaICC.benchmarks.long_icl.protocol.positions import ARRANGEMENTS, PositionBin, accuracy_by_position
from StaICC.benchmarks.long_icl.scoring import Tally
from StaICC.benchmarks.running import RunSettings
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference import Inference
from StaICC.results import Result
from StaICC.results.table import format_columns

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["PositionStudy", "positions_of", "study_positions"]


def positions_of(
    result: Result, dataset: str, *, bins: int = 5, place: str = "mean"
) -> dict[str, tuple[PositionBin, ...]]:
    """Return the accuracy by position of the gold label's demonstrations, for each round of a data set.

    Args:
        result: A result of LongICL.
        dataset: Such as ``"tacred"``.
        bins: Number of equal parts of each round's context.
        place: Position of a label with several demonstrations: ``first``, ``mean`` or ``last``.

    Returns:
        For each scored round, one record per part of its context. (For items with several labels: the recall.)

    Raises:
        UnknownNameError: The data set is not in the result, or ``place`` is unknown.
        ArgumentError: It is a result of another benchmark, the data set was skipped, or there are more parts than
            demonstrations.
    """
    if result.benchmark != "LongICL":
        raise ArgumentError(
            f"only results of LongICL record positions of demonstrations: got one of {result.benchmark}"
        )
    if dataset not in result.divided:
        raise unknown_name("data set in this result", dataset, result.divided)
    rounds: Mapping[str, Any] = result.divided[dataset].get("rounds", {})
    if not rounds:
        raise ArgumentError(f"{dataset} was skipped in this result, so it has no positions")
    bins_of_round = {}
    for name, one in rounds.items():
        if one["score"] is None:
            continue
        tallies = [
            Tally((label,) * counts["gold"], (), (label,) * counts["correct"])
            for label, counts in one["labels"].items()
        ]
        bins_of_round[name] = accuracy_by_position(tallies, one["positions"], bins=bins, place=place)
    return bins_of_round


@dataclass(frozen=True, slots=True)
class PositionStudy:
    """The results of a data set in both arrangements, and the accuracy by position."""

    dataset: str
    results: Mapping[str, Result]
    """By arrangement."""
    bins: Mapping[str, Mapping[str, tuple[PositionBin, ...]]]
    """By arrangement and round."""

    def __str__(self) -> str:
        parts = max((len(one) for rounds in self.bins.values() for one in rounds.values()), default=0)
        head = [self.dataset, "score", *(f"part {part + 1}" for part in range(parts))]
        rows = []
        for arrangement, rounds in self.bins.items():
            scores = self.results[arrangement].divided[self.dataset]
            for name, places in rounds.items():
                shares = ["-" if one.accuracy is None else f"{one.accuracy:.3f}" for one in places]
                rows.append([f"{arrangement}, {name}", f"{scores[name]:.3f}", *shares])
        return format_columns(head, rows)


def study_positions(
    function: Inference,
    dataset: str = "tacred",
    data_dir: str | os.PathLike[str] | None = None,
    *,
    rounds: tuple[int, ...] = (1, 2, 3, 4, 5),
    test_number: int | None = 500,
    variant: str = "published",
    bins: int = 5,
    place: str = "mean",
    verify: bool = True,
    announce: Callable[[str], object] = show_notice,
    **run: Unpack[RunSettings],
) -> PositionStudy:
    """Run a data set with its demonstrations interleaved, as published, and grouped by label.

    Args:
        function: The inference function.
        dataset: A data set with one label per item.
        data_dir: See :class:`~StaICC.benchmarks.long_icl.LongICL`.
        rounds: See there. In round 1, the arrangements differ only in the order of the labels.
        test_number: See there.
        variant: See there.
        bins: See :func:`positions_of`.
        place: See :func:`positions_of`.
        verify: See :class:`~StaICC.benchmarks.long_icl.LongICL`.
        announce: See there; it is called once.
        **run: See :class:`~StaICC.benchmarks.running.RunSettings`.

    Returns:
        Both results, and accuracy by position; it prints as a table.

    Raises:
        ArgumentError: The items of the data set have several labels, or an argument is invalid.
        DataMissingError: The data set is not available.
    """
    results: dict[str, Result] = {}
    for arrangement in ARRANGEMENTS:
        benchmark = LongICL(
            data_dir,
            [dataset],
            rounds,
            test_number,
            variant=variant,
            arrangement=arrangement,
            verify=verify,
            announce=(lambda notice: None) if results else announce,
        )
        results[arrangement] = benchmark(function, **run)
    by_arrangement = {name: positions_of(result, dataset, bins=bins, place=place) for name, result in results.items()}
    return PositionStudy(dataset, results, by_arrangement)
