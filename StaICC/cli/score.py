"""``python -m StaICC score``: score the predictions of another engine.

PREDICTIONS is a file of JSON Lines (or CSV, if it ends in .csv) with an id and one prediction in each record
(probabilities, logits, index, label, or reply: a generated text that names a label); or the log of
lm_eval --log_samples: its folder, or one samples_*.jsonl.
A missing id, a duplicate id and an unknown id are errors.

examples:
  python -m StaICC score normal predictions.jsonl
  python -m StaICC score normal predictions.csv --datasets mini --limit 10 --json scored.json
  python -m StaICC score normal logged
"""

from __future__ import annotations

import argparse
from pathlib import Path

from StaICC.benchmarks.exchange import (
    find_sample_files,
    is_sample_file,
    read_predictions,
    read_samples,
    score_predictions,
)
from StaICC.cli.benchmark_options import add_benchmark, add_prompt_options, add_scoring_options, inputs_of, make
from StaICC.cli.files import add_result_outputs, check_output, show_result
from StaICC.errors import ArgumentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_benchmark(parser)
    text = "the predictions: a file, or the log folder of lm_eval"
    parser.add_argument("predictions", nargs="?", type=Path, metavar="PREDICTIONS", help=text)
    add_prompt_options(parser)
    add_scoring_options(parser)
    parser.add_argument(
        "--partial",
        action="store_true",
        help="allow missing predictions and unparsed replies; the result is marked PARTIAL",
    )
    add_result_outputs(parser)


def run(args: argparse.Namespace) -> int:
    """Score the predictions.

    Returns:
        The exit status: 1 if a prediction is missing.

    Raises:
        StaICCError: The predictions cannot be read or do not match the prompts.
    """
    if args.predictions is None and len(args.datasets or ()) > 1:  # --datasets took it, as the last of its values
        args.predictions = Path(args.datasets.pop())
    path: Path | None = args.predictions
    if path is None:
        raise ArgumentError("predictions: got none, expected a file. Put it first: score normal FILE --datasets mini")
    check_output(args.json, args.records, inputs=[path, *inputs_of(args)])
    if path.is_fifo():
        raise ArgumentError(
            f"predictions are read twice: got the pipe {path}, expected a file. Save the predictions to a file first"
        )
    logged = path.is_dir() or is_sample_file(path)
    if logged:
        check_output(args.json, args.records, inputs=find_sample_files(path))
    found = read_samples(path) if logged else read_predictions(path)
    benchmark = make(args)
    check_output(args.json, args.records)  # the modules of metrics are imported now; their files are inputs
    result = score_predictions(benchmark, found, partial=args.partial, return_outputs=args.records is not None)
    show_result(result, args.json, args.records)
    return 0 if result.complete else 1
