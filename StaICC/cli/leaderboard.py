"""``python -m StaICC leaderboard``: a static site of all saved results in a folder, each of them verified.

Every .json file in the folder and its subfolders is verified, as by the command verify. Results that are recomputed as
a whole are ranked with those that are comparable; the others are listed with status and reason. To add a run, add a
file and repeat the command. The site is index.html with copies of the results, and needs no server.

exit status: 0 if every file is recomputed, 1 if one is not

examples:
  python -m StaICC leaderboard runs -o site
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import quote

from StaICC.benchmarks.verify import RECORDED, Contradicted, Recomputed, Unchecked, status_of, verify_file
from StaICC.cli.files import check_output, print_json
from StaICC.datasets.storage import write_output
from StaICC.errors import ArgumentError, StaICCError
from StaICC.results import Result, ResultGroup, load
from StaICC.results.report.html import element, join, table
from StaICC.results.report.page import Section, report_html
from StaICC.results.runs import split_runs
from StaICC.safe_text import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with results saved by run --json")
    parser.add_argument("--output", "-o", type=Path, default=Path("site"), metavar="SITE", help="default: site")
    parser.add_argument("--title", default="StaICC leaderboard", help="title of the page")
    parser.add_argument("--json", action="store_true", help="print the status of each file as JSON")


def run(args: argparse.Namespace) -> int:
    """Verify the results and write the site.

    Returns:
        The exit status: 1 if a file is not a result that is recomputed.

    Raises:
        StaICCError: No result is recomputed, or the site cannot be written.
    """
    if not args.folder.is_dir():
        raise ArgumentError(f"folder: got {args.folder}, expected a folder with saved results")
    own, folder = (args.output / "results").resolve(), args.folder.resolve()
    if own.is_dir() and (own in (folder, *folder.parents) or not (args.output / "index.html").exists()):
        raise ArgumentError(
            f"{args.output / 'results'} exists, and is not the one of an earlier site; the copies of the results could "
            "replace its files. Give another folder with -o"
        )
    files = [path for path in sorted(args.folder.rglob("*.json")) if own not in path.resolve().parents]
    results: dict[str, Result | ResultGroup] = {}
    rows: list[list[str]] = []
    for path in files:
        name = path.relative_to(args.folder).with_suffix("").as_posix()
        status, reason = _verified(path, name, results)
        address = quote(os.fsencode(f"results/{name}.json"))
        link = element("a", name, href=address) if name in results else element("bdi", name)
        rows.append([link, status, reason])
    if not results:
        raise ArgumentError(f"{args.folder}: no result is recomputed. {'; '.join(row[2] for row in rows)}")
    args.output.mkdir(parents=True, exist_ok=True)
    check_output(args.output / "index.html", inputs=files)
    left_out = [row for row in rows if row[1] != _RANKED]
    notes = [element("p", f"{len(left_out)} of {len(rows)} files are not ranked.", class_="warn")] if left_out else []
    listed = table(
        "Files", ["file", "status", "what was found"], sorted(rows, key=lambda row: row[1] == _RANKED), words=(1, 2)
    )
    page = report_html(results, args.title, Section("files", "Files", join([*notes, listed])))
    for path in files:
        name = path.relative_to(args.folder).with_suffix("").as_posix()
        if name in results:
            copy = own / f"{name}.json"
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_output(copy, [path.read_bytes()])
    write_output(args.output / "index.html", [page.encode("utf-8")])
    if args.json:
        found = zip(files, rows, strict=True)
        print_json([{"file": str(path), "status": status, "found": reason} for path, (_, status, reason) in found])
    else:
        print(f"{args.output / 'index.html'}: {len(results)} of {len(rows)} files recomputed", file=sys.stderr)
    return 1 if left_out else 0


_RANKED = "recomputed"
_STATUSES = {Contradicted: "CONTRADICTED: the file was changed, or is damaged", Unchecked: "UNCHECKED: not ranked"}


def _verified(path: Path, name: str, results: dict[str, Result | ResultGroup]) -> tuple[str, str]:
    """Add a result that is recomputed as a whole to the results.

    Returns:
        The status of the file, and the reason.
    """
    try:
        status = status_of(verify_file(path))
        found = load(path)
        split_runs({name: found})
    except (StaICCError, OSError) as error:
        return "UNREADABLE", one_line(str(error))
    if isinstance(status, Recomputed):
        results[name] = found
        return _RANKED, f"recorded by the run: {RECORDED}"
    return _STATUSES[type(status)], one_line(status.reason if isinstance(status, Unchecked) else status.difference)
