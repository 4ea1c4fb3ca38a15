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
    """Return counts of queries, failures, models and environments.

    Args:
        benchmarks: All results.
    """
    queries = [_query_counts(run, benchmark, result) for run, benchmark, result in each_result(benchmarks)]
    models: list[list[str]] = []
    environments = {}
    for run, _, result in each_result(benchmarks):
        environments[run] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
        models += [row for row in _model_rows(run, result.provenance) if row not in models]
    query_head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    failure_head = ["run", "benchmark", "data set", "reason", "queries"]
    model_head = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts = [
        _folded_table("Queries", query_head, queries, words=(1,)),
        _folded_table("Failed queries, by reason", failure_head, _failure_rows(benchmarks), words=(1, 2, 3)),
        _folded_table("Models", model_head, models, words=(1, 2, 3, 4, 5)),
        fold("Environments", items(f"{run}: {text}" for run, text in environments.items())),
    ]
    return Section("runs", "Runs", join(parts))


def _folded_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> Markup:
    """Return a folded table; nothing without rows."""
    if not rows:
        return Markup("")
    return fold(title, table(title, head, rows, words=words))


def _query_counts(run: str, benchmark: str, result: Result) -> list[str]:
    """Return the row of the table of queries about a result."""
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
    """Return the most frequent reasons of failures, by run, benchmark and data set."""
    failures: Counter[tuple[str, str, str, str]] = Counter()
    for run, benchmark, result in each_result(benchmarks):
        for dataset, details in result.details.items():
            for query in details.failures:
                failures[run, benchmark, dataset, query.reason] += 1
    return [[*columns, str(number)] for columns, number in failures.most_common(_MOST_FAILURES)]


def _model_rows(run: str, provenance: Provenance) -> list[list[str]]:
    """Return a row for each model of a run."""
    rows = []
    for model in provenance.predictors:
        settings = dict(model.how)
        if provenance.method:
            settings = {"method": provenance.method, **settings}
        described = ", ".join(f"{key} {value}" for key, value in settings.items()) or "default"
        datasets = listed(model.datasets, "data sets")
        row = [run, model.label, described, datasets, model.started, model.finished]
        row += [str(model.computed), str(model.reused), str(model.retried)]
        rows.append(row)
    return rows
