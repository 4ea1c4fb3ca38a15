"""``python -m StaICC report``: write saved results as one self-contained HTML page with figures.

The page is one file and needs no network, server or other package.

examples:
  python -m StaICC report result.json -o report.html
  python -m StaICC report a.json b.json -o report.html --title "Two models"
  python -m StaICC report a.json b.json -o report.html --queries
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from StaICC.benchmarks.rebuild import written_prompts
from StaICC.cli.files import add_output, check_output, load_named, print_json
from StaICC.results.report import write_report
from StaICC.results.report.queries import query_section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("results", nargs="+", metavar="RESULT", help="results saved by run --json, one run each")
    add_output(parser, "default: report.html", Path("report.html"))
    parser.add_argument("--title", default="StaICC report", help="title of the page")
    parser.add_argument(
        "--queries",
        action="store_true",
        help="add a view of every query with its prompt; the file then contains texts of the data sets",
    )
    parser.add_argument("--json", action="store_true", help="print path, size and runs as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the report.

    Returns:
        The exit status.

    Raises:
        StaICCError: The results cannot be read.
    """
    check_output(args.output, inputs=args.results)
    results = load_named(args.results)
    folders = [*dict.fromkeys(Path(path).parent for path in args.results), Path()]
    files = [
        str(one["file"]) for each in results.values() for result in each.results() for one in result.files.values()
    ]
    check_output(args.output, inputs=[*args.results, *(folder / file for folder in folders for file in files)])
    prompts = partial(written_prompts, data_files=folders)
    size = write_report(results, args.output, args.title, query_section(results, prompts) if args.queries else None)
    if args.json:
        print_json({"path": str(args.output), "bytes": size, "runs": list(results)})
    else:
        print(f"{args.output}: {size / 1e6:.2f} MB", file=sys.stderr)
    return 0
