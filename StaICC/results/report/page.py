"""The page: saved results as one self-contained HTML file.

The page makes no network requests, and its content security policy forbids them: it allows no image, font, frame or
connection, and no script except the one in the page, which sorts tables and unfolds sections for printing.
The page is readable without scripts. All text from data is escaped. The same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from importlib import resources

from StaICC.datasets.outputs import write_output
from StaICC.errors import ArgumentError
from StaICC.optional import require
from StaICC.results.comparison import compare_runs
from StaICC.results.differences import list_differences
from StaICC.results.provenance import NOT_RECORDED
from StaICC.results.report.html import Markup, element, fold, join, table, void
from StaICC.results.report.runs import Runs, by_benchmark
from StaICC.results.report.sections import Section, sections
from StaICC.results.report.summary import headline, in_short
from StaICC.results.result import Result, ResultGroup
from StaICC.version import __version__

__all__ = ["report_html", "write_report"]

_OPEN = 12
"""Up to this number, differences are shown unfolded."""


def _resource(name: str) -> str:
    return (resources.files("StaICC.results.report") / name).read_text(encoding="utf-8")


def _run_warnings(benchmarks: Mapping[str, Runs]) -> Iterator[Markup]:
    """Yield the warnings of the runs about data and prompts, each once, after the names of its runs."""
    found: dict[str, dict[str, None]] = {}
    for runs in benchmarks.values():
        for name, result in runs.items():
            for warning in result.warnings:
                found.setdefault(warning, {})[name] = None
    if found:
        lines = [element("li", element("strong", ", ".join(names)), f": {text}") for text, names in found.items()]
        yield fold(f"Warnings about data and prompts: {len(lines)}", element("ul", *lines), opened=len(lines) <= _OPEN)


def _policy(script: str) -> str:
    """Return a content security policy that allows only the script of the page."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the style element, and widths of figures
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(parts)


def _comparison(benchmarks: Mapping[str, Runs]) -> Section | None:
    """Compare every run with the first, by the main metric of each benchmark."""
    parts: list[str] = []
    for benchmark, runs in benchmarks.items():
        if len(runs) < 2:
            continue
        try:
            compared = compare_runs(runs)
        except ArgumentError as error:
            parts.append(element("p", f"{benchmark}: {error}.", class_="soft"))
            continue
        for found in compared.comparisons:
            if found.first != next(iter(runs)):
                continue
            title = f"{benchmark}: {found.first} (first) and {found.second} (second)"
            head, rows = found.table()
            foot = rows[-1:] if found.mean else []
            lines = [*found.introduction(), *found.conclusion()]
            differences = element("ul", *(element("li", line) for line in lines))
            shown = table(title, head, rows[: len(rows) - len(foot)], foot)
            parts.append(join([differences, shown]) if benchmark == "Normal" else fold(title, differences, shown))
    if not parts:
        return None
    note = (
        "The main metric of each benchmark, on the same test rows. The difference is first minus second. p is from a "
        "sign-flip test over test rows; p (Holm) is corrected for the data sets and the pairs of runs. Detectable is "
        "the smallest difference that a sample of this size detects with power 0.8."
    )
    return Section("comparison", "Paired comparison", join([element("p", note, class_="soft"), *parts]))


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
            counts.append([name, benchmark, *map(str, sums), "-" if seconds is None else f"{seconds:.1f}"])
            signatures.setdefault(str(result.signature), []).append(name)
            environments[name] = ", ".join(f"{key} {value}" for key, value in result.environment.items())
            failures += [
                [name, benchmark, dataset, one.condition, str(one.query), one.reason]
                for dataset, own in result.details.items()
                for one in own.failures
            ]
    head = ["run", "benchmark", "queries", "distinct", "scored", "failed", "seconds"]
    parts: list[str] = [table("Queries of each benchmark", head, counts, words=(1,))]
    if failures:
        where = ["run", "benchmark", "data set", "condition", "query", "reason"]
        shown = table("Failed queries", where, failures[:200], words=(1, 2, 3, 5))
        more = [] if len(failures) <= 200 else [element("p", f"The first 200 of {len(failures)}.")]
        parts.append(fold(f"{len(failures)} failed queries", shown, *more))
    listed = [element("li", f"{', '.join(names)}: ", _code(text)) for text, names in signatures.items()]
    parts.append(element("h3", "Signatures"))
    meaning = "Runs with the same signature have the same prompts and the same settings."
    parts.append(element("p", meaning, class_="soft"))
    parts.append(element("ul", *listed))
    columns = ["run", "model", "settings", "data sets", "from (UTC)", "to (UTC)", "computed", "reused", "retried"]
    parts.append(table("Models", columns, list(map(list, predictors)), words=(1, 2, 3, 4, 5)))
    parts.append(element("h3", "Environments"))
    parts.append(element("ul", *(element("li", f"{name}: {text}") for name, text in environments.items())))
    return Section("runs", "Runs", join(parts))


def _predictor_rows(name: str, result: Result) -> Iterator[tuple[str, ...]]:
    """Yield one row for each model of a run."""
    for one in result.provenance.predictors:
        counts = (str(count) for count in (one.computed, one.reused, one.retried))
        method = {"method": result.provenance.method} if result.provenance.method else {}
        how = ", ".join(f"{key} {value}" for key, value in {**method, **one.how}.items())
        served = ", ".join(one.datasets) if len(one.datasets) < 4 else f"{len(one.datasets)} data sets"
        yield name, one.label, how or "-", served, one.started, one.finished, *counts
    if not result.provenance.recorded:
        yield name, result.model, NOT_RECORDED, *["-"] * 6


def _differences(benchmarks: Mapping[str, Runs]) -> Markup | None:
    """Return a list of the differences between the runs."""
    found: dict[str, dict[str, None]] = {}
    for benchmark, runs in benchmarks.items():
        names = list(runs)
        for name in names[1:]:
            for one in list_differences(runs[names[0]], runs[name]):
                if one.field != "prompts":  # a digest; the settings behind it are listed
                    found.setdefault(f"{names[0]} and {name} differ in {one}", {})[benchmark] = None
    if not found:
        return None
    every = {line: ", ".join(where) if len(where) < len(benchmarks) else "" for line, where in found.items()}
    lines = [element("li", f"{line} ({where})" if where else line) for line, where in every.items()]
    return fold(f"{len(lines)} differences between the runs", element("ul", *lines), opened=len(lines) <= _OPEN)


def _code(signature: str) -> Markup:
    """Return a signature with possible line breaks between its fields."""
    fields = signature.split("|")
    return element("code", *(join([field, "|", void("wbr")]) for field in fields[:-1]), fields[-1])


def _sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    head, rows = headline(benchmarks)
    every = [(f"{name}, {benchmark}", one) for benchmark, runs in benchmarks.items() for name, one in runs.items()]
    incomplete = [name for name, one in every if not one.complete]
    early = [name for name, one in every if one.stopping is not None]
    sentences = in_short(benchmarks)
    glance: list[str] = [] if sentences is None else [sentences]
    different = _differences(benchmarks)
    if different is not None:
        glance.append(different)
    if rows:
        glance.append(table("The main scores of each run", head, rows, words=(len(head) - 1,)))
    if incomplete:
        glance.append(element("p", f"PARTIAL, failed queries: {'; '.join(incomplete)}.", class_="warn"))
    if early:
        text = f"STOPPED EARLY, do not compare with full runs: {'; '.join(early)}."
        glance.append(element("p", text, class_="warn"))
    yield Section("summary", "Summary", join(glance))
    comparison = _comparison(benchmarks)
    if comparison is not None:
        yield comparison
    yield from sections(benchmarks)
    yield _provenance(benchmarks)


def report_html(results: Mapping[str, Result | ResultGroup], title: str = "StaICC report") -> str:
    """Return a report of saved results as an HTML document.

    Args:
        results: Results, or groups of results, by the name of their run.
        title: Its title.

    Returns:
        The document.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    if not results:
        raise ArgumentError("a report needs at least one result")
    require("matplotlib", "report", "drawing figures")
    benchmarks = by_benchmark(results)
    built = list(_sections(benchmarks))
    script, style = _resource("page.js"), _resource("style.css")
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    ]
    runs = ", ".join(dict.fromkeys(name for own in benchmarks.values() for name in own))
    links = [element("li", element("a", section.title, href=f"#{section.key}")) for section in built]
    body = [
        element(
            "header",
            element("h1", title),
            element("p", f"Runs: {runs}. Benchmarks: {', '.join(benchmarks)}. StaICC {__version__}.", class_="lead"),
            element("nav", element("ul", *links), aria_label="Sections"),
            element("div", class_="tools"),
        ),
        element(
            "main",
            *_run_warnings(benchmarks),
            *(
                element("section", fold(element("h2", one.title), one.content, opened=True), id=one.key)
                for one in built
            ),
        ),
        element("script", Markup(script)),
    ]
    return f"<!DOCTYPE html>\n{element('html', element('head', *head), element('body', *body), lang='en')}\n"


def write_report(
    results: Mapping[str, Result | ResultGroup] | Result | ResultGroup,
    path: str | os.PathLike[str],
    title: str = "StaICC report",
) -> int:
    """Write a report of saved results, atomically.

    Args:
        results: A result, a group of results, or several by the name of their run.
        path: The file.
        title: Its title.

    Returns:
        Its size in bytes.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        MissingDependencyError: ``matplotlib`` is not installed.
        OSError: The file cannot be written.
    """
    if isinstance(results, (Result, ResultGroup)):
        results = {"run": results}
    document = report_html(results, title).encode("utf-8")
    write_output(path, [document])
    return len(document)
