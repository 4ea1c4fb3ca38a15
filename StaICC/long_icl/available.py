"""The data sets of a run: the available ones are loaded, the missing ones are listed with instructions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.long_icl.cards import cards, task_card
from StaICC.long_icl.loading import Announce, LongICLData, Skipped, load, missing_files, show_notice
from StaICC.long_icl.own_data import load_own
from StaICC.safe_text import logger

_log = logger(__name__)


_Choice = TypeVar("_Choice", str, str | Dataset)


def wanted(datasets: Iterable[_Choice] | _Choice | None) -> list[_Choice]:
    """Return the chosen data sets as a list, in their order, after checking them.

    Args:
        datasets: One name or data set, or several; None for the six data sets of LongICLBench.

    Raises:
        UnknownNameError: A name is unknown.
        ArgumentError: The list is empty or has duplicates, or an element is neither a name nor a data set.
    """
    chosen: list[_Choice]
    if datasets is None:
        chosen = list(cards())
    elif isinstance(datasets, (str, Dataset)):
        chosen = [datasets]
    else:
        chosen = list(datasets)
    names = []
    for dataset in chosen:
        if isinstance(dataset, Dataset):
            names.append(dataset.card.name)
        elif isinstance(dataset, str):
            names.append(task_card(dataset).name)
        else:
            raise ArgumentError(
                f"datasets: got {dataset!r:.60}, expected names of data sets, or data sets such as those of "
                "Dataset.from_file and Dataset.from_rows"
            )
    has_duplicates = len(set(names)) < len(names)
    if not names or has_duplicates:
        raise ArgumentError(f"datasets must have at least one data set, and each data set once, not {names!r}")
    return chosen


def load_available(
    data_dir: str | Path,
    datasets: Iterable[str | Dataset] | Dataset | None = None,
    *,
    verify: bool = True,
    announce: Announce = show_notice,
) -> tuple[tuple[LongICLData, ...], tuple[Skipped, ...]]:
    """Load the available data sets, and list the missing ones.

    Args:
        data_dir: Folder with the files.
        datasets: Names, and data sets of the user's own; None for all six published ones.
        verify: See :func:`load`.
        announce: See :func:`load`.

    Returns:
        The data sets, in the requested order, and a record for each missing one. If some are there, a missing one is
        also logged as a warning.

    Raises:
        UnknownNameError: A name is unknown.
        ArgumentError: The list is empty or has duplicates, or a data set of the user's own cannot be used.
        DataDamagedError: A file is damaged, or not the published one.
    """
    loaded = []
    skipped = []
    for dataset in wanted(datasets):
        if isinstance(dataset, Dataset):
            loaded.append(load_own(dataset))
            continue
        card = task_card(dataset)
        missing = missing_files(card, data_dir)
        if missing is None:
            loaded.append(load(dataset, data_dir, verify=verify, announce=announce))
        else:
            skipped.append(missing)
    if loaded:  # otherwise the caller raises an error about all of them
        for missing in skipped:
            _log.warning("%s is skipped: %s", task_card(missing.dataset).title, missing)
    return tuple(loaded), tuple(skipped)
