"""Which results are comparable: those that one leaderboard compares.

They are runs on the same test rows, and their scores are computed by the same rules. Model, method, k, sampler,
templates and label scoring may differ.
"""

from __future__ import annotations

from StaICC.results.result import Result

SHARED_FIELDS = ("datasets", "data", "split", "clusters", "limit", "metrics", "options", "stopping", "unparsed")
"""Fields of the signature that comparable results of one benchmark share."""


def comparable_by(result: Result) -> list[object]:
    """Return what comparable results of one benchmark have in common: data sets, and settings of the benchmark.

    Args:
        result: The result.

    Returns:
        JSON values. Two results of one benchmark are comparable if this function returns equal values for both.
    """
    datasets = sorted(result.divided)
    settings = [result.signature.fields.get(name) for name in SHARED_FIELDS]
    return [datasets, settings]
