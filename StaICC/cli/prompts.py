"""``python -m StaICC prompts``: write the prompts of a benchmark for another engine to answer."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from StaICC.benchmarks.exchange.files import csv_lines, json_lines
from StaICC.benchmarks.exchange.queries import prompt_records
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, make
from StaICC.cli.files import STDOUT, check_output, write_text

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
One line for each query: id, benchmark, dataset, condition, row, repeat, label_space, prompt. Answer each line by a
record with its id and one of: probabilities, logits, index, label; then give the answers to 'python -m StaICC score'
with the same options. The order does not matter; ids join them.

examples:
  python -m StaICC prompts normal -o prompts.jsonl
  python -m StaICC prompts normal --datasets mini --limit 10 -o prompts.csv
  python -m StaICC prompts diagnosis --datasets mini --limit 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``prompts`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    add_benchmark(parser)
    add_prompt_options(parser)
    parser.add_argument(
        "--output", "-o", default=STDOUT, metavar="FILE", help="write here: CSV if it ends in .csv, else JSON Lines"
    )
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")
    parser.add_argument("--json", action="store_true", help="no difference: the output is JSON Lines anyway")


def run(args: argparse.Namespace) -> int:
    """Write the prompts.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.
    """
    check_output(args.output)
    lines = csv_lines if Path(args.output).suffix.lower() == ".csv" else json_lines
    write_text(args.output, lines(prompt_records(make(args), args.with_truth)))
    if args.output != STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)
    return 0
