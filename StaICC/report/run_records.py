"""The section about runs: counts of queries, failures, models, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from StaICC.report.comparable_groups import Group, each_result, listed
from StaICC.report.html import Markup, Missing, fold, items, join
from StaICC.report.parts import Section
from StaICC.report.tables import table
from StaICC.results.predictor import Provenance
from StaICC.results.result import Result

_MOST_FAILURES = 200
"""Rows of the table of failed queries."""


def run_section(benchmarks: Group) -> Section:
    """Return the section of a page with the queries, the failures, the models and the environment of each run.

    Args:
        benchmarks: All results.
    """
    query_rows: list[list[str]] = []
    model_rows: list[list[str]] = []
    environment_by_run: dict[str, str] = {}
    for run, benchmark, result in each_result(benchmarks):
        query_rows.append(_query_counts(run, benchmark, result))
        for row in _model_rows(run, result.provenance):
            if row not in model_rows:  # The results of a run may have the same model.
                model_rows.append(row)
        environment_by_run[run] = ", ".join(f"{key} {value}" for key, value in result.environment.items())

    query_head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    failure_head = ["run", "benchmark", "data set", "reason", "queries"]
    model_head = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts = [
        _folded_table("Queries", query_head, query_rows, words=(1,)),
        _folded_table("Failed queries, by reason", failure_head, _failure_rows(benchmarks), words=(1, 2, 3)),
        _folded_table("Models", model_head, model_rows, words=(1, 2, 3, 4, 5)),
        fold("Environments", items(f"{run}: {environment}" for run, environment in environment_by_run.items())),
    ]
    return Section("runs", "Runs", join(parts))


def _folded_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> Markup:
    """Return a folded table; nothing without rows."""
    if not rows:
        return Markup("")
    return fold(title, table(title, head, rows, words=words))


def _query_counts(run: str, benchmark: str, result: Result) -> list[str]:
    """Return the row of the table of queries about a result: run, benchmark, four numbers of queries, and seconds."""
    row = [run, benchmark]
    for count in ("asked", "distinct", "scored", "failed"):
        row.append(str(sum(getattr(details, count) for details in result.details.values())))
    seconds = result.timing.get("seconds")
    if seconds is None:
        row.append(Missing("not recorded"))
    else:
        row.append(f"{seconds:.1f}")
    return row


def _failure_rows(benchmarks: Group) -> list[list[str]]:
    """Return the rows of the table of failed queries, the most frequent first.

    A row has the run, the benchmark, the data set, the reason, and the number of queries that failed for this reason.
    """
    failure_counts: Counter[tuple[str, str, str, str]] = Counter()
    for run, benchmark, result in each_result(benchmarks):
        for dataset, details in result.details.items():
            for query in details.failures:
                failure_counts[run, benchmark, dataset, query.reason] += 1
    rows = []
    for (run, benchmark, dataset, reason), count in failure_counts.most_common(_MOST_FAILURES):
        rows.append([run, benchmark, dataset, reason, str(count)])
    return rows


def _model_rows(run: str, provenance: Provenance) -> list[list[str]]:
    """Return the row of each model in the table of models, with its settings, times and numbers of predictions.

    Args:
        run: The name of the run.
        provenance: The models and the method of one of its results.
    """
    rows = []
    for model in provenance.predictors:
        settings: dict[str, str] = {}
        if provenance.method:
            settings["method"] = provenance.method
        settings.update(model.how)
        described_settings = ", ".join(f"{name} {value}" for name, value in settings.items())
        rows.append(
            [
                run,
                model.label,
                described_settings or "default",
                listed(model.datasets, "data sets"),
                model.started,
                model.finished,
                str(model.computed),
                str(model.reused),
                str(model.retried),
            ]
        )
    return rows
