"""``python -m StaICC prompts``: write the prompts of a benchmark for another engine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from StaICC.benchmarks.exchange.files import csv_lines, json_lines
from StaICC.benchmarks.exchange.queries import prompt_records
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, inputs_of, make
from StaICC.cli.files import STDOUT, check_output, write_text

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
One line for each query: id, benchmark, dataset, condition, row, repeat, label_space, prompt. A prediction is a record
with the id and one of: probabilities, logits, index, label. Score the predictions with 'python -m StaICC score'
and the same options. They are matched by id; their order is ignored.

examples:
  python -m StaICC prompts normal -o prompts.jsonl
  python -m StaICC prompts normal --datasets mini --limit 10 -o prompts.csv
  python -m StaICC prompts diagnosis --datasets mini --limit 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_benchmark(parser)
    add_prompt_options(parser)
    parser.add_argument(
        "--output",
        "-o",
        default=STDOUT,
        metavar="FILE",
        help="output file: CSV if it ends in .csv, otherwise JSON Lines",
    )
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")
    parser.add_argument("--json", action="store_true", help="no effect: the output is always JSON Lines")


def run(args: argparse.Namespace) -> int:
    """Write the prompts.

    Returns:
        The exit status.
    """
    check_output(args.output, inputs=inputs_of(args))
    as_csv = Path(args.output).suffix.lower() == ".csv"
    records = prompt_records(make(args), args.with_truth)
    write_text(args.output, csv_lines(records, verbatim=True) if as_csv else json_lines(records))
    if args.output != STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)
    return 0
