"""The page: saved results as one self-contained HTML file.

The page makes no network requests, and its content security policy forbids them: it allows no image, font, frame or
connection, and no scripts except those in the page: one sorts tables and unfolds sections for printing, the other shows
single queries.
The page is readable without scripts. All text from data is escaped. The same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

from StaICC.datasets.outputs import write_output
from StaICC.errors import ArgumentError
from StaICC.results.report.drawing import STYLE, resource
from StaICC.results.report.html import Markup, Missing, element, fold, join, table, void
from StaICC.results.report.runs import Runs
from StaICC.results.report.sections import Section, sections
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.version import __version__


def _run_warnings(benchmarks: Mapping[str, Runs]) -> Iterator[Markup]:
    """Yield the warnings of the runs about data and prompts, each once, after the names of its runs."""
    found: dict[str, dict[str, None]] = {}
    for runs in benchmarks.values():
        for name, result in runs.items():
            for warning in result.warnings:
                found.setdefault(warning, {})[name] = None
    if found:
        lines = [element("li", element("strong", ", ".join(names)), f": {text}") for text, names in found.items()]
        yield fold(f"Warnings about data and prompts: {len(lines)}", element("ul", *lines))


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows only the scripts of the page."""
    hashes = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes]
    parts = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the style element, and widths of figures
        f"script-src {' '.join(allowed)}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(parts)


def _provenance(benchmarks: Mapping[str, Runs]) -> Section:
    """Return counts of queries, failures, signatures, models and environments."""
    counts, failures = [], []
    signatures: dict[str, list[str]] = {}
    environments: dict[str, str] = {}
    predictors: dict[tuple[str, ...], None] = {}
    for benchmark, runs in benchmarks.items():
        for name, result in runs.items():
            predictors |= dict.fromkeys(_predictor_rows(name, result))
            details = result.details.values()
            sums = [sum(getattr(one, key) for one in details) for key in ("asked", "distinct", "scored", "failed")]
            seconds = result.timing.get("seconds")
            counts.append(
                [name, benchmark, *map(str, sums), Missing("not recorded") if seconds is None else f"{seconds:.1f}"]
            )
            signatures.setdefault(str(result.signature), []).append(name)
            environments[name] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
            failures += [
                [name, benchmark, dataset, one.condition, str(one.query), one.reason]
                for dataset, own in result.details.items()
                for one in own.failures
            ]
    head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    parts: list[str] = [fold("Queries of each benchmark", table("Queries of each benchmark", head, counts, words=(1,)))]
    if failures:
        where = ["run", "benchmark", "data set", "condition", "query", "reason"]
        shown = table("Failed queries", where, failures[:200], words=(1, 2, 3, 5))
        more = [] if len(failures) <= 200 else [element("p", f"The first 200 of {len(failures)}.")]
        parts.append(fold(f"{len(failures)} failed queries", shown, *more))
    listed = [element("li", f"{', '.join(names)}: ", _code(text)) for text, names in signatures.items()]
    meaning = "Runs with the same signature have the same prompts and the same settings."
    parts.append(fold("Signatures", element("p", meaning, class_="soft"), element("ul", *listed)))
    columns = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts.append(fold("Models", table("Models", columns, list(map(list, predictors)), words=(1, 2, 3, 4, 5))))
    parts.append(fold("Environments", *(element("p", f"{name}: {text}") for name, text in environments.items())))
    return Section("runs", "Runs", join(parts))


def _predictor_rows(name: str, result: Result) -> Iterator[tuple[str, ...]]:
    """Yield one row for each model of a run."""
    for one in result.provenance.predictors:
        counts = (str(count) for count in (one.computed, one.reused, one.retried))
        method = {"method": result.provenance.method} if result.provenance.method else {}
        how = ", ".join(f"{key} {value}" for key, value in {**method, **one.how}.items())
        served = ", ".join(one.datasets) if len(one.datasets) < 4 else f"{len(one.datasets)} data sets"
        yield name, one.label, how or "default", served, one.started, one.finished, *counts


def _code(signature: str) -> Markup:
    """Return a signature with possible line breaks between its fields."""
    fields = signature.split("|")
    return element("code", *(join([field, "|", void("wbr")]) for field in fields[:-1]), fields[-1])


def _warnings(benchmarks: Mapping[str, Runs]) -> Iterator[Markup]:
    """Yield what a reader must know before the scores."""
    every = [(f"{name}, {benchmark}", one) for benchmark, runs in benchmarks.items() for name, one in runs.items()]
    incomplete = [name for name, one in every if not one.complete]
    early = [name for name, one in every if one.stopping is not None]
    if incomplete:
        yield element("p", f"PARTIAL, failed queries: {'; '.join(incomplete)}.", class_="warn")
    if early:
        text = f"STOPPED EARLY, do not compare with full runs: {'; '.join(early)}."
        yield element("p", text, class_="warn")


def report_html(
    results: Mapping[str, Result | ResultGroup], title: str = "StaICC report", more: Section | None = None
) -> str:
    """Return a report of saved results as an HTML document.

    Args:
        results: Results, or groups of results, by the name of their run.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`~StaICC.results.report.queries.query_section`.

    Returns:
        The document.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
    """
    if not results:
        raise ArgumentError("a report needs at least one result")
    benchmarks = by_benchmark(results)
    board, *others = sections(benchmarks)
    built = [board, *([more] if more is not None else []), *others, _provenance(benchmarks)]
    assets = [one.assets for one in built if one.assets]
    scripts = [resource(f"{name}.js") for name in ("page", *assets)]
    style = "".join(resource(f"{name}.css") for name in ("style", *assets))
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style + STYLE)),
    ]
    runs = list(dict.fromkeys(name for own in benchmarks.values() for name in own))
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in built]
    body = [
        element(
            "header",
            element("h1", title),
            element("p", f"{count}. Benchmarks: {', '.join(benchmarks)}. StaICC {__version__}.", class_="lead"),
            element("nav", element("ul", *links), aria_label="Sections"),
            element("div", class_="tools"),
        ),
        element(
            "main",
            *_warnings(benchmarks),
            *_run_warnings(benchmarks),
            *(
                element("section", fold(element("h2", one.title), one.content, opened=True), id=one.key)
                for one in built
            ),
        ),
        *(element("script", Markup(script)) for script in scripts),
    ]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def write_report(
    results: Mapping[str, Result | ResultGroup] | Result | ResultGroup,
    path: str | os.PathLike[str],
    title: str = "StaICC report",
    more: Section | None = None,
) -> int:
    """Write a report of saved results, atomically.

    Args:
        results: A result, a group of results, or several by the name of their run.
        path: The file.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`~StaICC.results.report.queries.query_section`.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        OSError: The file cannot be written.
    """
    if isinstance(results, (Result, ResultGroup)):
        results = {"run": results}
    document = report_html(results, title, more).encode("utf-8")
    write_output(path, [document])
    return len(document)
