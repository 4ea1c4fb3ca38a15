"""``python -m StaICC export``: benchmarks as lm-evaluation-harness tasks, results as tables.

lm-eval writes tasks for lm-evaluation-harness with the prompts of the benchmark. scores and queries write saved
results as tables with one score or one query in each row, for data frames. latex writes the mean scores of runs in the
layout of the paper, a table for each group of comparable runs.

examples:
  python -m StaICC export lm-eval tasks
  python -m StaICC export lm-eval tasks --benchmark normal --datasets mini --limit 10
  python -m StaICC export scores a.json b.json -o scores.csv
  python -m StaICC export queries result.json -o queries.jsonl
  python -m StaICC export latex a.json b.json -o scores.tex
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.benchmarks.exchange import csv_lines, export_tasks, json_lines
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, make, repeated
from StaICC.cli.files import add_output, check_output, load_named, print_json, write_text
from StaICC.cli.terminal import add_action
from StaICC.results.report.page import latex_scores
from StaICC.results.result import query_records, score_records
from StaICC.results.runs import split_runs

_TABLES = {
    "scores": ("write the scores of saved results with their intervals, one in each row", score_records),
    "queries": ("write the true and the predicted label of each query of saved results", query_records),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    harness = add_action(
        actions,
        "lm-eval",
        "write a benchmark as tasks of lm-evaluation-harness",
        "print the names of the groups of tasks as JSON",
    )
    harness.add_argument("folder", type=Path, metavar="DIR", help="the output folder; it is created if necessary")
    add_benchmark(harness, option=True)
    add_prompt_options(harness)
    for name, (text, _) in _TABLES.items():
        table = add_action(actions, name, text, "write JSON Lines for any file name")
        table.add_argument("results", nargs="+", metavar="RESULT", help="results saved by run --json")
        add_output(table, "output file: JSON Lines if it ends in .jsonl, otherwise CSV")
    text = "write the mean scores of runs as LaTeX: scores as rows, runs as columns, the best and the tied ones marked"
    latex = add_action(actions, "latex", text, "write a JSON object with the LaTeX text")
    latex.add_argument("results", nargs="+", metavar="RESULT", help="results saved by run --json, one run each")
    add_output(latex, "output file (default: stdout)")


def run(args: argparse.Namespace) -> int:
    """Export.

    Returns:
        The exit status.

    Raises:
        StaICCError: The benchmark or result cannot be exported.
    """
    if args.action == "lm-eval":
        groups = export_tasks(make(args), args.folder, f"score {args.benchmark} logged{repeated(args)}")
        if args.json:
            print_json(list(groups))
        else:
            print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
        return 0
    check_output(args.output, inputs=args.results)
    if args.action == "latex":
        text = latex_scores(load_named(args.results))
        write_text(args.output, [json.dumps({"latex": text}) if args.json else text, "\n"], args.json)
        return 0
    records = _TABLES[args.action][1]
    runs = split_runs(load_named(args.results))

    def rows() -> Iterator[Mapping[str, Any]]:
        for name, results in runs.items():
            for record in (record for result in results.values() for record in records(result)):
                yield {"run": name, **record}

    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    write_text(args.output, (json_lines if as_json else csv_lines)(rows()), as_json)
    return 0
