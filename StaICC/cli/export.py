"""``python -m StaICC export``: benchmarks as lm-evaluation-harness tasks, results as tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.benchmarks.exchange.files import csv_lines, json_lines
from StaICC.benchmarks.exchange.harness import export_tasks
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, make, repeated
from StaICC.cli.files import STDOUT, check_output, load_named, write_text
from StaICC.results.records import query_records, score_records

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
lm-eval writes ready-to-run tasks for lm-evaluation-harness on the benchmark's prompts; scores and queries write saved
results as tables with one figure or one query in each row, as data frames have them.

examples:
  python -m StaICC export lm-eval tasks
  python -m StaICC export lm-eval tasks --benchmark normal --datasets mini --limit 10
  python -m StaICC export scores a.json b.json -o scores.csv
  python -m StaICC export queries result.json -o queries.jsonl
"""

_TABLES = {
    "scores": ("write the figures of saved results, one in each row, with their intervals", score_records),
    "queries": ("write the true and the predicted label of each query of saved results", query_records),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``export`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "write a benchmark as tasks of lm-evaluation-harness"
    harness = actions.add_parser("lm-eval", help=text, description=text[0].upper() + text[1:] + ".")
    harness.add_argument("folder", type=Path, metavar="DIR", help="the folder to write to; it is made if need be")
    add_benchmark(harness, option=True)
    add_prompt_options(harness)
    harness.add_argument("--json", action="store_true", help="print the names of the groups of tasks as JSON")
    for name, (text, _) in _TABLES.items():
        table = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        table.add_argument("results", nargs="+", metavar="RESULT", help="results that run --json saved")
        table.add_argument(
            "--output",
            "-o",
            default=STDOUT,
            metavar="FILE",
            help="write here: JSON Lines if it ends in .jsonl, else CSV",
        )
        table.add_argument("--json", action="store_true", help="write JSON Lines, whatever the file is called")


def run(args: argparse.Namespace) -> int:
    """Export.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        StaICCError: What is asked for cannot be exported.
    """
    if args.action == "lm-eval":
        groups = export_tasks(make(args), args.folder, f"score {args.benchmark} logged{repeated(args)}")
        if args.json:
            print(json.dumps(list(groups)))
        else:
            print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
        return 0
    check_output(args.output)
    records = _TABLES[args.action][1]
    named = load_named(args.results)

    def rows() -> Iterator[Mapping[str, Any]]:
        for name, result in named.items():
            for record in records(result):
                yield {"run": name, **record}

    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    write_text(args.output, (json_lines if as_json else csv_lines)(rows()))
    return 0
