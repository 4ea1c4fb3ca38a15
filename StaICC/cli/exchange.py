"""The commands for predictions of other engines: ``prompts``, ``score``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks import exchange
from StaICC.benchmarks.exchange import csv_lines, json_lines
from StaICC.cli import model_options, options, output, saving
from StaICC.errors import ArgumentError
from StaICC.inference.contract import own_attribute
from StaICC.kernels.registry import load_kernel


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    options.add_benchmark(parser)
    options.add_prompt_options(parser)
    output.add_output(parser, "output file: CSV if it ends in .csv, otherwise JSON Lines")
    model_options.add_model(parser, "add the prompts as this model reads them, such as a conversation")
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")


def _rendered(kernel: Any, prompt: Any) -> Any:
    """Return a prompt as a kernel's model reads it; one text for each label in the noisy channel."""
    rendered = own_attribute(kernel, "rendered")
    if rendered is None:
        return prompt
    texts = list(rendered([prompt] if isinstance(prompt, str) else prompt))
    return texts[0] if isinstance(prompt, str) else texts


def prompts(args: argparse.Namespace) -> None:
    """Write the prompts of a benchmark for another engine.

    One line for each query: id, benchmark, dataset, condition, row, repeat, label_space, prompt. A prediction is a
    record with the id and one of: probabilities, logits, index, label. Score the predictions with
    'python -m StaICC score' and the same options. They are matched by id; their order is ignored.

    With --model, each line also has the prompt as that model reads it: "rendered".

    examples:
      python -m StaICC prompts normal -o prompts.jsonl
      python -m StaICC prompts normal --datasets mini --limit 10 -o prompts.csv
      python -m StaICC prompts diagnosis --datasets mini --limit 2
      python -m StaICC prompts normal --datasets mini --limit 1 --model 'smollm2;prompt_format=chat'
    """
    model = model_options.model_of(args)
    output.check_output(args.output, inputs=[*options.inputs_of(args), *model_options.model_files(model)])
    as_csv = Path(args.output).suffix.lower() == ".csv"
    records = exchange.prompt_records(options.make(args), args.with_truth)
    if model:
        kernel = load_kernel(model)
        records = (record | {"rendered": _rendered(kernel, record["prompt"])} for record in records)
    output.write_text(args.output, csv_lines(records, verbatim=True) if as_csv else json_lines(records))
    if args.output != output.STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    options.add_benchmark(parser)
    text = "the predictions: a file, or the log folder of lm_eval"
    parser.add_argument("predictions", nargs="?", type=Path, metavar="PREDICTIONS", help=text)
    options.add_prompt_options(parser)
    options.add_scoring_options(parser)
    text = "allow missing predictions and unparsed replies; the result is marked PARTIAL"
    parser.add_argument("--partial", action="store_true", help=text)
    saving.add_result_outputs(parser)


def score(args: argparse.Namespace) -> int:
    """Score the predictions of another engine.

    PREDICTIONS is a file of JSON Lines (or CSV, if it ends in .csv) with an id and one prediction in each record
    (probabilities, logits, index, label, or reply: a generated text that names a label); the log of
    lm_eval --log_samples: its folder, or one samples_*.jsonl; or the results of a batch of OpenAI or Anthropic.
    A missing id, a duplicate id and an unknown id are errors.

    examples:
      python -m StaICC score normal predictions.jsonl
      python -m StaICC score normal predictions.csv --datasets mini --limit 10 --json scored.json
      python -m StaICC score normal logged
    """
    if args.predictions is None and len(args.datasets or ()) > 1:  # --datasets took it, as the last of its values
        args.predictions = Path(args.datasets.pop())
    path: Path | None = args.predictions
    if path is None:
        raise ArgumentError("predictions: got none, expected a file. Put it first: score normal FILE --datasets mini")
    saver = saving.ResultSaver(args, [path, *options.inputs_of(args), *exchange.prediction_files(path)])
    benchmark = options.make(args)
    saver.check(args.records, result=args.json)  # the modules of metrics are imported now; their files are inputs
    predictions = exchange.read_predictions(path, _batch_reply)
    keep = args.records is not None
    return saver.finish(exchange.score_predictions(benchmark, predictions, partial=args.partial, return_outputs=keep))


def _batch_reply(*record: Any) -> tuple[str, exchange.Prediction]:
    from StaICC.kernels.server.batch_files import (
        batch_reply,  # a result records its import as a use of the package openai
    )

    return batch_reply(*record)
