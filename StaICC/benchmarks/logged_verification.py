"""Verification of results that were read from logs: their scores are computed again from those of the samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from StaICC.benchmarks.findings import Contradicted, Finding, Unchecked, Verification, compare_values, limited
from StaICC.datasets.catalogue import plain_values
from StaICC.errors import SchemaError
from StaICC.logs.result_of_scores import recomputed_scores
from StaICC.results.details import DatasetDetails
from StaICC.results.result import Result

ONLY_THE_HARNESS_KNOWS = (
    "the documents, the prompts and the score of each sample are those that another harness logged: nothing here can "
    "make them again"
)
"""Why a result of logs is unchecked even if all scores follow from those of the samples."""

_RECOMPUTED_DETAILS = ("asked", "distinct", "scored", "failed", "intervals", "data")
"""The details of a data set that follow from its samples."""


def verify_logged(result: Result, where: str) -> Iterator[Verification]:
    """Yield the findings about each task of a result of logs, then about the means and about what cannot be checked.

    Args:
        result: The result.
        where: Its path within the file; empty for the whole file.
    """
    try:
        recomputed = recomputed_scores(result)
    except SchemaError as error:
        yield Verification(result.benchmark, None, "nothing was computed again", (Contradicted(f"{where}{error}"),))
        return
    for dataset in result.details:
        place = f"{where}{dataset}"
        findings: list[Finding] = []
        findings += compare_values(place, result.divided[dataset], recomputed.divided[dataset])
        saved_details = _details_to_compare(result.details[dataset])
        findings += compare_values(place, saved_details, _details_to_compare(recomputed.details[dataset]))
        message = "the scores and intervals, from the scores of the samples"
        yield Verification(result.benchmark, dataset, message, limited(place, findings))

    shared: list[Finding] = []
    shared += compare_values(f"{where}means", dict(result.averaged), dict(recomputed.averaged))
    shared += compare_values(f"{where}means", plain_values(result.means), plain_values(recomputed.means))
    shared.append(Unchecked(f"{where}{ONLY_THE_HARNESS_KNOWS}"))
    yield Verification(result.benchmark, None, "the means", limited(f"{where}means", shared))


def _details_to_compare(details: DatasetDetails) -> Mapping[str, Any]:
    """Return the details of a data set that follow from its samples, as plain values."""
    values = plain_values(details)
    return {name: values[name] for name in _RECOMPUTED_DETAILS}
