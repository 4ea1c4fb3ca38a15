"""The command ``report``: a page of saved results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from StaICC.cli import output, saved_results
from StaICC.report.page import write_report
from StaICC.report.query_view import query_section
from StaICC.results.result import Result, ResultGroup


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    saved_results.add_results(parser, "one run each")
    saved_results.add_metric_options(parser)
    output.add_output(parser, "default: report.html", Path("report.html"))
    parser.add_argument("--title", default="StaICC report", help="title of the page")
    parser.add_argument(
        "--queries",
        action="store_true",
        help="add a view of every query with its prompt; the file then contains texts of the data sets",
    )


def report(args: argparse.Namespace) -> output.Printed:
    """Write saved results as one self-contained HTML page with figures.

    The page is one file and needs no network, server or other package.

    examples:
      python -m StaICC report result.json -o report.html
      python -m StaICC report a.json b.json -o report.html --title "Two models"
      python -m StaICC report a.json b.json -o report.html --queries
    """
    output.check_output(args.output, inputs=args.results)
    results = saved_results.load_of_command(args)
    # Files of own data are searched next to the results and in the current folder. The page must not replace them.
    folders = [*dict.fromkeys(Path(path).parent for path in args.results), Path()]
    output.check_output(args.output, inputs=[*args.results, *_data_files(results.values(), folders)])

    queries = None
    if args.queries:
        from StaICC.benchmarks.saved_prompts import written_prompts  # slow: it imports the benchmarks

        queries = query_section(results, partial(written_prompts, data_files=folders))
    size = write_report(results, args.output, args.title, queries)
    print(f"{args.output}: {size / 1e6:.2f} MB", file=sys.stderr)
    return output.Printed({"path": str(args.output), "bytes": size, "runs": list(results)}, ())


def _data_files(results: Iterable[Result | ResultGroup], folders: Sequence[Path]) -> Iterator[Path]:
    """Yield where the files of own data of results may be: in each of the folders."""
    for result in results:
        for single_result in result.results():
            file_names = [str(record["file"]) for record in single_result.files.values()]
            for file_name in file_names:
                for folder in folders:
                    yield folder / file_name
