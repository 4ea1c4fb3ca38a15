"""``python -m StaICC score``: score answers that another engine gave to the prompts."""

from __future__ import annotations

import argparse
from pathlib import Path

from StaICC.benchmarks.exchange.files import read_predictions
from StaICC.benchmarks.exchange.harness import is_sample_file, read_samples
from StaICC.benchmarks.exchange.scoring import score_predictions
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, add_scoring_options, make
from StaICC.cli.files import STDOUT, check_output, show_result
from StaICC.results import save_records

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
PREDICTIONS is a file of JSON Lines, or of CSV if it ends in .csv, with an id and one answer in each record
(probabilities, logits, index or label); or what lm_eval --log_samples logged: its folder, or one samples_*.jsonl.
A missing answer, a doubled id and an unknown id are errors.

examples:
  python -m StaICC score normal predictions.jsonl
  python -m StaICC score normal predictions.csv --datasets mini --limit 10 --json scored.json
  python -m StaICC score normal logged
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``score`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    add_benchmark(parser)
    parser.add_argument(
        "predictions", type=Path, metavar="PREDICTIONS", help="the answers: a file, or lm_eval's folder"
    )
    add_prompt_options(parser)
    add_scoring_options(parser)
    parser.add_argument("--partial", action="store_true", help="let queries stay unanswered; the result says so")
    parser.add_argument("--records", type=Path, metavar="FILE", help="save the answers of each query as JSON Lines")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=Path(STDOUT),
        metavar="FILE",
        help="save the result; without FILE, print it as JSON instead of the table",
    )


def run(args: argparse.Namespace) -> int:
    """Score the predictions.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status: 1 if some query has no answer.

    Raises:
        StaICCError: The predictions cannot be read or do not fit.
    """
    check_output(args.json, args.records)
    path: Path = args.predictions
    found = read_samples(path) if path.is_dir() or is_sample_file(path) else read_predictions(path)
    result = score_predictions(make(args), found, partial=args.partial, return_outputs=args.records is not None)
    show_result(result, args.json)
    if args.records is not None:
        save_records(result, args.records)
    return 0 if result.complete else 1
