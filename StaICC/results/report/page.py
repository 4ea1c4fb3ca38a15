"""The page: saved results as one HTML file that needs nothing else.

It asks no host for anything, and a content security policy in the page forbids it to: no image, font, frame or
connection is allowed, and no script but the one that stands in the page, which sorts tables and unfolds for printing.
Without scripts everything is there and readable. Everything from the data is escaped. The same results give the same
bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

from StaICC.datasets.storage import write_beside
from StaICC.errors import ArgumentError
from StaICC.optional import require
from StaICC.results.comparison_formats import compare_all
from StaICC.results.report.html import Markup, element, fold, join, table, void
from StaICC.results.report.runs import Runs, by_benchmark
from StaICC.results.report.sections import Section, sections
from StaICC.results.report.summary import headline, in_short
from StaICC.results.result import Result, ResultGroup
from StaICC.version import __version__

__all__ = ["report_html", "write_report"]


def _resource(name: str) -> str:
    return (resources.files("StaICC.results.report") / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Return the policy that lets the page load nothing and run its own script alone."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the page's own, and widths of figures
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(parts)


def _comparison(benchmarks: Mapping[str, Runs]) -> Section | None:
    """Compare every run with the first, in pairs, where both were asked the same."""
    parts: list[str] = []
    for benchmark, runs in benchmarks.items():
        scored = {name: one for name, one in runs.items() if any(part.baselines for part in one.details.values())}
        for other in list(scored)[1:]:
            pair = {name: scored[name] for name in (next(iter(scored)), other)}
            title = f"{benchmark}: {' (first) and '.join(pair)} (second)"
            try:
                (found,), _ = compare_all(pair)
            except ArgumentError as error:
                parts.append(element("p", f"{error}.", class_="soft"))
                continue
            head, rows = found.comparison.table()
            foot = rows[-1:] if found.comparison.together else []
            shown = table(title, head, rows[: len(rows) - len(foot)], foot)
            parts.append(shown if benchmark == "Normal" else fold(title, shown))
    if not parts:
        return None
    note = (
        "Accuracies on the same prompts, query by query. The difference is first minus second; p is that of a "
        "permutation test over test rows, corrected for the number of data sets (Holm); detectable is the smallest "
        "difference that so many rows show with power 0.8."
    )
    return Section("comparison", "Comparison in pairs", join([element("p", note, class_="soft"), *parts]))


def _asked(benchmarks: Mapping[str, Runs]) -> Section:
    """Say what was asked, how much of it was answered, and where it was computed."""
    counts, failures = [], []
    signatures: dict[str, list[str]] = {}
    environments: dict[str, str] = {}
    for benchmark, runs in benchmarks.items():
        for name, result in runs.items():
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
    head = ["run", "benchmark", "asked", "distinct", "scored", "without answer", "seconds of its run"]
    parts: list[str] = [table("Queries of each benchmark", head, counts, words=(1,))]
    if failures:
        where = ["run", "benchmark", "data set", "condition", "query", "reason"]
        shown = table("Queries without an answer", where, failures[:200], words=(1, 2, 3, 5))
        more = [] if len(failures) <= 200 else [element("p", f"The first 200 of {len(failures)}.")]
        parts.append(fold(f"{len(failures)} queries without an answer", shown, *more))
    listed = [element("li", f"{', '.join(names)}: ", _code(text)) for text, names in signatures.items()]
    parts.append(element("h3", "Signatures"))
    told = "Runs that share a signature were asked the same prompts, and scored the same way."
    parts.append(element("p", told, class_="soft"))
    parts.append(element("ul", *listed))
    parts.append(element("h3", "Computed by"))
    parts.append(element("ul", *(element("li", f"{name}: {text}") for name, text in environments.items())))
    return Section("asked", "What was asked", join(parts))


def _code(signature: str) -> Markup:
    """Set a signature so that lines break between its fields."""
    fields = signature.split("|")
    return element("code", *(join([field, "|", void("wbr")]) for field in fields[:-1]), fields[-1])


def _sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    head, rows = headline(benchmarks)
    incomplete = [
        f"{name}, {benchmark}"
        for benchmark, runs in benchmarks.items()
        for name, result in runs.items()
        if not result.complete
    ]
    told = in_short(benchmarks)
    glance: list[str] = [] if told is None else [told]
    if rows:
        glance.append(table("The main figures of each run", head, rows, words=(len(head) - 1,)))
    if incomplete:
        glance.append(element("p", f"PARTIAL, queries without an answer: {'; '.join(incomplete)}.", class_="warn"))
    yield Section("glance", "At a glance", join(glance))
    comparison = _comparison(benchmarks)
    if comparison is not None:
        yield comparison
    yield from sections(benchmarks)
    yield _asked(benchmarks)


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
        raise ArgumentError("a report needs one result at least")
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
    """Write a report of saved results, whole or not at all.

    Args:
        results: A result, a group of results, or several by the name of their run.
        path: Where the file shall stand.
        title: Its title.

    Returns:
        Bytes of the file.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
        MissingDependencyError: ``matplotlib`` is not installed.
        OSError: The file cannot be written.
    """
    if isinstance(results, (Result, ResultGroup)):
        results = {"run": results}
    document = report_html(results, title).encode("utf-8")
    write_beside(Path(path), [document])
    return len(document)
