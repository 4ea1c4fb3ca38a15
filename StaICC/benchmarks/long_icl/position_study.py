"""The positional study of a result, and of the two arrangements side by side.

:func:`positions_of` answers the question of :mod:`~StaICC.benchmarks.long_icl.positions` for any result, also one that
was loaded from a file: a result keeps how often each label was gold and right, and where its demonstrations stood.
:func:`study_positions` runs a data set in both arrangements, as the paper does with TACRED.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.long_icl.benchmark import LongICL
from StaICC.benchmarks.long_icl.loading import show_notice
from StaICC.benchmarks.long_icl.positions import ARRANGEMENTS, PositionBin, accuracy_by_position
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
    """Accuracy by the place of the gold label's demonstrations, for each round of a data set.

    Args:
        result: Of LongICL, as it was returned or loaded.
        dataset: Such as ``"tacred"``.
        bins: Parts of equal length into which each round's context is divided.
        place: Which place counts for a label with several demonstrations: ``first``, ``mean`` or ``last``.

    Returns:
        For each round that has a score, one record for each part of its context. (For tasks with several labels per
        item: the share of gold labels that were found.)

    Raises:
        UnknownNameError: The result has no such data set, or there is no such ``place``.
        ArgumentError: It is the result of another benchmark, or the data set was skipped, or there are more parts than
            demonstrations.
    """
    if result.benchmark != "LongICL":
        raise ArgumentError(
            f"only a result of LongICL knows the places of demonstrations, not one of {result.benchmark}"
        )
    if dataset not in result.divided:
        raise unknown_name("data set in this result", dataset, result.divided)
    rounds: Mapping[str, Any] = result.divided[dataset].get("rounds", {})
    if not rounds:
        raise ArgumentError(f"{dataset} was skipped in this result, so nothing is known about it")
    found = {}
    for name, one in rounds.items():
        if one["score"] is None:
            continue
        tallies = [
            Tally((label,) * counts["gold"], (), (label,) * counts["correct"])
            for label, counts in one["labels"].items()
        ]
        found[name] = accuracy_by_position(tallies, one["positions"], bins=bins, place=place)
    return found


@dataclass(frozen=True, slots=True)
class PositionStudy:
    """A data set in both arrangements."""

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
    """Run a data set with its demonstrations as published and grouped by label.

    Args:
        function: The inference function.
        dataset: A data set with one label per item.
        data_dir: See :class:`~StaICC.benchmarks.long_icl.LongICL`.
        rounds: See there. (In round 1 each label stands once, so the two differ in the order of labels only.)
        test_number: See there.
        variant: See there.
        bins: See :func:`positions_of`.
        place: See :func:`positions_of`.
        verify: See :class:`~StaICC.benchmarks.long_icl.LongICL`.
        announce: See there; a licence is shown once.
        **run: How to ask.

    Returns:
        Both results, and accuracy by position; it prints as a table.

    Raises:
        ArgumentError: The data set's items have several labels, or another argument is unfit.
        DataMissingError: The data set is not there.
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
    found = {name: positions_of(result, dataset, bins=bins, place=place) for name, result in results.items()}
    return PositionStudy(dataset, results, found)
