"""The page: saved results as one self-contained HTML file.

A page has a leaderboard for each group of comparable runs (:mod:`StaICC.report.leaderboard_table`), then one section
for each question about the runs (:mod:`StaICC.report.sections`).

The page makes no network requests, and its content security policy forbids them: it allows no image, font, frame or
connection, and no scripts except those in the page: one sorts tables and unfolds sections for printing, the other shows
single queries. The page is readable without scripts. All text from data is escaped. The same results give the same
bytes.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence

from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.report.colours import theme_style
from StaICC.report.comparable_groups import Group, run_names
from StaICC.report.html import Markup, element, fold, items, resource
from StaICC.report.parts import Section
from StaICC.report.run_records import run_section
from StaICC.report.run_warnings import run_warnings
from StaICC.report.sections import sections
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark
from StaICC.version import __version__


def report_html(
    results: Mapping[str, Result | ResultGroup],
    title: str = "StaICC report",
    more: Section | None = None,
    *,
    summary: bool = False,
) -> str:
    """Return a report of saved results as an HTML document, with all of its styles and scripts.

    Args:
        results: Results, or groups of results, by the name of their run.
        title: Its title.
        more: A section to add after the leaderboard, such as
            :func:`~StaICC.report.query_view.query_section`.
        summary: Whether to write the leaderboards only, without figures and provenance.

    Returns:
        The document.

    Raises:
        ArgumentError: There are no results, or a run has two of one benchmark.
    """
    if not results:
        raise ArgumentError("a report needs at least one result")
    benchmarks = by_benchmark(results)
    shown = _shown_sections(benchmarks, more, summary)
    scripts = [resource("page.js")]
    styles = [theme_style(), resource("style.css")]
    for section in shown:
        if section.assets:
            scripts.append(resource(f"{section.assets}.js"))
            styles.append(resource(f"{section.assets}.css"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup("\n".join(styles))),
    )
    main = [*run_warnings(benchmarks)]
    for section in shown:
        # A reader can fold each section.
        content = fold(element("h2", section.title), section.content, opened=True)
        main.append(element("section", content, id=section.key))
    body = element(
        "body",
        _page_header(title, benchmarks, shown),
        element("main", *main),
        *[element("script", Markup(script)) for script in scripts],
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _shown_sections(benchmarks: Group, more: Section | None, summary: bool) -> list[Section]:
    """Return the sections of a page in order: the leaderboard, the added section, and all others.

    Args:
        benchmarks: All results.
        more: A section that is added after the leaderboard; ``None`` for none.
        summary: Whether the other sections are left out.
    """
    # sections() yields the leaderboard first. It writes a section when it is yielded, so that those that are left out
    # cost no time.
    remaining_sections = sections(benchmarks)
    leaderboard_section = next(remaining_sections)
    shown = [leaderboard_section]
    if more is not None:
        shown.append(more)
    if not summary:
        shown.extend(remaining_sections)
        shown.append(run_section(benchmarks))
    return shown


def _page_header(title: str, benchmarks: Group, shown: Sequence[Section]) -> Markup:
    """Return the title, the runs, and links to the sections."""
    runs = len(run_names(benchmarks))
    counted = "1 run" if runs == 1 else f"{runs} runs"
    about = (
        f"{counted}. Benchmarks: {', '.join(benchmarks)}. Page written by StaICC {__version__}. Repeat a run: "
        "python -m StaICC show run RESULT.json. Cite: python -m StaICC cite RESULT.json."
    )
    links = items(element("a", section.title, href=f"#{section.key}") for section in shown)
    navigation = element("nav", links, aria_label="Sections")
    bar = element("div", navigation, element("div", class_="tools"), class_="bar")
    return element("header", element("h1", title), element("p", about, class_="lead"), bar)


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows the scripts of the page and no others.

    The policy has the SHA-256 of each script. The browser refuses scripts with another digest, such as one in a text of
    a data set, and loads nothing from elsewhere.

    Args:
        scripts: The scripts of the page.
    """
    allowed = []
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed.append(f"'sha256-{digest}'")
    rules = [
        "default-src 'none'",
        "style-src 'unsafe-inline'",  # the style element, and widths of figures
        f"script-src {' '.join(allowed)}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


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
            :func:`~StaICC.report.query_view.query_section`.

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
