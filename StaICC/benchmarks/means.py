"""Intervals and baselines of the means over data sets.

The data sets are fixed, and their rows independent: the interval says how the mean could move with other rows of the
same data sets, not with other data sets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.metrics.intervals import Interval
from StaICC.metrics.score_intervals import mean_interval
from StaICC.results import Baselines, MeanDetails


def means_of(runs: Mapping[str, DatasetRun]) -> MeanDetails:
    """Return the intervals and the baselines of the means.

    Args:
        runs: The run over each data set, by name.
    """
    intervals: dict[str, Interval] = {}
    missing: dict[str, str] = {}
    for key in {key: None for run in runs.values() for key in run.averaged}:
        values = [run.averaged.get(key) for run in runs.values()]
        known = [value for value in values if value is not None]
        if len(known) < len(runs) or not any(map(_has_intervals, runs.values())):
            continue
        nested = f"sensitivity.{key}"
        place = nested if any(_tells(run, nested) for run in runs.values()) else key
        found = [run.intervals[place] for run in runs.values() if place in run.intervals]
        reasons = {name: reason for name, run in runs.items() if (reason := _reason(run, place)) is not None}
        without = [name for name, run in runs.items() if place not in run.intervals]
        if len(runs) == 1:
            without = list(reasons) or without
        if without:
            reason = next((reasons[name] for name in without if name in reasons), "the score has no interval")
            missing[key] = f"no interval on {', '.join(without)}: {reason}"
        else:
            intervals[key] = mean_interval(known, found, _highest(key, runs))
    return MeanDetails(intervals, missing, _baselines(runs))


def _highest(key: str, runs: Mapping[str, DatasetRun]) -> float:
    """Return the largest possible mean of a score."""
    if key != "entropy":
        return math.inf if key in ("DL div.", "empirical_bias") else 1.0
    spaces = [run.outcomes[0].condition.queries[0].label_space for run in runs.values()]
    return math.fsum(math.log(len(space)) for space in spaces) / len(spaces)


def _tells(run: DatasetRun, key: str) -> bool:
    return key in run.intervals or f"interval of {key}" in run.details.missing


def _reason(run: DatasetRun, key: str) -> str | None:
    """Return why a score has no interval on its data set; ``None`` if it has."""
    missing = run.details.missing
    return missing.get(f"interval of {key}", missing.get("interval of each score"))


def _has_intervals(run: DatasetRun) -> bool:
    return bool(run.intervals) or any(key.startswith("interval of ") for key in run.details.missing)


def _baselines(runs: Mapping[str, DatasetRun]) -> dict[str, Baselines]:
    """Return the baselines of the mean accuracy of each condition that all data sets score."""
    from StaICC.benchmarks.baselines import baselines_of, count_outcome  # with the models of chance

    found = {}
    first = next(iter(runs.values()))
    for place, outcome in enumerate(first.outcomes):
        name = outcome.condition.name
        if not all(name in run.details.baselines for run in runs.values()):
            continue
        counts = [count for run in runs.values() if (count := count_outcome(run.outcomes[place])) is not None]
        found[name] = baselines_of(counts, first.details.baselines[name].tried)
    return found
