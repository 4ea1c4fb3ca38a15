"""The results that a figure is made of: one, or several by the name of their run."""

from __future__ import annotations

from collections.abc import Mapping

from StaICC.errors import ArgumentError
from StaICC.results.result import Result

ResultsByRun = Mapping[str, Result]
"""Results of one benchmark by the name of their run."""

Given = Result | Mapping[str, Result]
"""The argument of a figure: one result, or several by the name of their run."""


def named(given: Given) -> dict[str, Result]:
    """Return results by the name of their run.

    Args:
        given: One result, or results by name.

    Raises:
        ArgumentError: There are none.
    """
    if isinstance(given, Result):
        return {given.benchmark: given}
    runs = dict(given)
    if not runs or not all(isinstance(result, Result) for result in runs.values()):
        raise ArgumentError("a figure needs a result, or results by the name of their run")
    return runs


def dataset_names(runs: ResultsByRun) -> list[str]:
    """Return the data sets of all runs, each once.

    Args:
        runs: The runs.
    """
    names: dict[str, None] = {}
    for result in runs.values():
        names |= dict.fromkeys(result.divided)
    return list(names)


def left_out_note(given: Given) -> str:
    """Return the sentence of a caption about queries that the predictions of a figure leave out; empty without any."""
    listed = []
    for name, result in named(given).items():
        count = sum(details.asked - details.scored for details in result.details.values())
        if count:
            listed.append(f"{name}: {count}")
    if not listed:
        return ""
    return f" Queries left out: {'; '.join(listed)}."
