"""``report`` and ``leaderboard``: HTML pages of saved results."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote

from StaICC.benchmarks.rebuild import written_prompts
from StaICC.benchmarks.verify import RECORDED, Contradicted, Recomputed, Unchecked, status_of, verify_file
from StaICC.cli.files import add_output, add_results, check_output, load_named, print_json
from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError, StaICCError
from StaICC.results import Result, ResultGroup, load
from StaICC.results.report import write_report
from StaICC.results.report.html import element, join, table
from StaICC.results.report.page import Section, report_html
from StaICC.results.report.queries import query_section
from StaICC.results.runs import split_runs
from StaICC.safe_text import one_line


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, "one run each")
    add_output(parser, "default: report.html", Path("report.html"))
    parser.add_argument("--title", default="StaICC report", help="title of the page")
    text = "add a view of every query with its prompt; the file then contains texts of the data sets"
    parser.add_argument("--queries", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="print path, size and runs as JSON")


def report(args: argparse.Namespace) -> int:
    """Write saved results as one self-contained HTML page with figures.

    The page is one file and needs no network, server or other package.

    examples:
      python -m StaICC report result.json -o report.html
      python -m StaICC report a.json b.json -o report.html --title "Two models"
      python -m StaICC report a.json b.json -o report.html --queries
    """
    check_output(args.output, inputs=args.results)
    results = load_named(args.results)
    folders = [*dict.fromkeys(Path(path).parent for path in args.results), Path()]
    parts = [part for result in results.values() for part in result.results()]
    files = [folder / str(file["file"]) for folder in folders for part in parts for file in part.files.values()]
    check_output(args.output, inputs=[*args.results, *files])
    prompts = partial(written_prompts, data_files=folders)
    size = write_report(results, args.output, args.title, query_section(results, prompts) if args.queries else None)
    if args.json:
        print_json({"path": str(args.output), "bytes": size, "runs": list(results)})
    else:
        print(f"{args.output}: {size / 1e6:.2f} MB", file=sys.stderr)
    return 0


def add_leaderboard(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with results saved by run --json")
    parser.add_argument("--output", "-o", type=Path, default=Path("site"), metavar="SITE", help="default: site")
    parser.add_argument("--title", default="StaICC leaderboard", help="title of the page")
    parser.add_argument("--json", action="store_true", help="print the status of each file as JSON")


_RANKED = "recomputed"


def _status(path: Path, name: str) -> tuple[Result | ResultGroup | None, str, str]:
    """Return a result that is recomputed as a whole, otherwise ``None``; the status of the file, and the reason."""
    try:
        status = status_of(verify_file(path))
        result = load(path)
        split_runs({name: result})
    except (StaICCError, OSError) as error:
        return None, "UNREADABLE", one_line(str(error))
    if isinstance(status, Contradicted):
        return None, "CONTRADICTED: the file was changed, or is damaged", one_line(status.difference)
    if isinstance(status, Unchecked):
        return None, "UNCHECKED: not ranked", one_line(status.reason)
    assert isinstance(status, Recomputed)
    return result, _RANKED, f"recorded by the run: {RECORDED}"


def leaderboard(args: argparse.Namespace) -> int:
    """Write a static site of all saved results in a folder, each of them verified.

    Every .json file in the folder and its subfolders is verified, as by the command verify. Results that are recomputed
    as a whole are ranked with those that are comparable; the others are listed with status and reason. To add a run,
    add a file and repeat the command. The site is index.html with copies of the results, and needs no server.

    exit status: 0 if every file is recomputed, 1 if one is not

    examples:
      python -m StaICC leaderboard runs -o site
    """
    if not args.folder.is_dir():
        raise ArgumentError(f"folder: got {args.folder}, expected a folder with saved results")
    own, folder, index = (args.output / "results").resolve(), args.folder.resolve(), args.output / "index.html"
    if own.is_dir() and (own in (folder, *folder.parents) or not index.exists()):
        raise ArgumentError(
            f"{args.output / 'results'} is not the one of an earlier site; copies of results could replace its files. "
            "Give another folder with -o"
        )
    results: dict[str, Result | ResultGroup] = {}
    files: dict[Path, str] = {}
    rows: list[list[str]] = []
    for path in sorted(args.folder.rglob("*.json")):
        if own in path.resolve().parents:
            continue
        files[path] = name = path.relative_to(args.folder).with_suffix("").as_posix()
        result, status, reason = _status(path, name)
        link = element("bdi", name)
        if result is not None:
            results[name] = result
            link = element("a", name, href=quote(os.fsencode(f"results/{name}.json")))
        rows.append([link, status, reason])
    if not results:
        raise ArgumentError(f"{args.folder}: no result is recomputed. {'; '.join(row[2] for row in rows)}")
    args.output.mkdir(parents=True, exist_ok=True)
    check_output(index, inputs=files)
    left_out = [row for row in rows if row[1] != _RANKED]
    notes = [element("p", f"{len(left_out)} of {len(rows)} files are not ranked.", class_="warn")] if left_out else []
    ordered = sorted(rows, key=lambda row: row[1] == _RANKED)
    listed = table("Files", ["file", "status", "what was found"], ordered, words=(1, 2))
    page = report_html(results, args.title, Section("files", "Files", join([*notes, listed])))
    for path, name in files.items():
        if name in results:
            copy = own / f"{name}.json"
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_output(copy, [path.read_bytes()])
    write_output(index, [page.encode("utf-8")])
    if args.json:
        found = zip(files, rows, strict=True)
        print_json([{"file": str(path), "status": status, "found": reason} for path, (_, status, reason) in found])
    else:
        print(f"{index}: {len(results)} of {len(rows)} files recomputed", file=sys.stderr)
    return 1 if left_out else 0
