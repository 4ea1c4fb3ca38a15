"""The settings of comparable runs: those that vary, those that all share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from StaICC.report.comparable_groups import Group
from StaICC.results.comparable import SHARED_FIELDS
from StaICC.results.result import Result

_HIDDEN_FIELDS = {*SHARED_FIELDS, "benchmark", "prompts", "method", "failed"}
"""Fields of a signature that are no settings of a run, or are shown elsewhere."""
_UNSET = "default"
"""The value of a setting that a signature does not have."""


class RunSettings(NamedTuple):
    """What distinguishes the runs of a group, and what they share."""

    differing: dict[str, dict[str, str]]
    """The value of each run, by setting. A setting whose values are the names of the runs is left out."""
    shared: dict[str, str]
    """The value that all runs have, by setting; without settings that no run has."""
    named: tuple[str, ...] = ()
    """The settings whose values are the names of the runs."""


def run_settings(names: Sequence[str], group: Group) -> RunSettings:
    """Return the model, the method, the settings and the date of comparable runs: what differs, and what they share.

    Args:
        names: The names of the runs.
        group: Their results.
    """
    results_by_run: dict[str, list[Result]] = {}
    for name in names:
        results_by_run[name] = [runs[name] for runs in group.values() if name in runs]

    differing = {}
    shared = {}
    named = []
    for setting in ["model", "method", *_setting_names(group), "date"]:
        value_by_run = {name: _value_of(setting, results) for name, results in results_by_run.items()}
        distinct_values = set(value_by_run.values())
        if len(distinct_values) == 1:
            if distinct_values != {_UNSET}:
                shared[setting] = value_by_run[names[0]]
            continue
        values_are_names_of_runs = all(value == name for name, value in value_by_run.items())
        if values_are_names_of_runs:
            named.append(setting)
        else:
            differing[setting] = value_by_run
    return RunSettings(differing, shared, tuple(named))


def _setting_names(group: Group) -> list[str]:
    """Return the names of the fields of all signatures, each once, without those that are no settings of a run."""
    names: dict[str, None] = {}
    for runs in group.values():
        for result in runs.values():
            names |= dict.fromkeys(result.signature.fields)
    return [name for name in names if name not in _HIDDEN_FIELDS]


def _value_of(setting: str, results: Sequence[Result]) -> str:
    """Return the value of a setting of a run; several if its benchmarks have different ones.

    Args:
        setting: ``"model"``, ``"method"``, ``"date"``, or a field of the signature.
        results: The results of the run.
    """
    if setting == "model":
        return results[0].model
    if setting == "method":
        return results[0].method or _UNSET
    if setting == "date":
        dates: list[str] = []
        for result in results:
            dates += [predictor.started[:10] for predictor in result.provenance.predictors]
        last_date = max(dates, default="")
        return last_date or "not recorded"
    values = [str(result.signature.fields.get(setting) or _UNSET) for result in results]
    return "/".join(dict.fromkeys(values))
