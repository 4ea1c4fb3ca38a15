"""The commands for predictions of other engines: ``prompts``, ``score``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
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
    options.add_benchmark_prompt_options(parser)
    output.add_output(parser, "output file: CSV if it ends in .csv, otherwise JSON Lines")
    model_options.add_model(parser, "add the prompts as this model reads them, such as a conversation")
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")


def prompts(args: argparse.Namespace) -> None:
    """Write the prompts of a benchmark for another engine.

    One line for each query: id, benchmark, dataset, condition, row, repeat, label_space, prompt. A prediction is a
    record with the id and one of: probabilities, logits, index, label, or reply (a generated text that names a label).
    Score the predictions with 'python -m StaICC score' and the same options. They are matched by id; their order is
    ignored.

    With --model, each line also has the prompt as that model reads it: "rendered".

    examples:
      python -m StaICC prompts normal -o prompts.jsonl
      python -m StaICC prompts normal --datasets mini --limit 10 -o prompts.csv
      python -m StaICC prompts diagnosis --datasets mini --limit 2
      python -m StaICC prompts normal --datasets mini --limit 1 --model 'smollm2;prompt_format=chat'
    """
    model = model_options.model_of(args)
    input_files = options.inputs_of(args) + model_options.model_files(model)
    output.check_output(args.output, inputs=input_files)

    records = exchange.prompt_records(options.make(args), args.with_truth)
    if model:
        records = _with_rendered_prompts(records, load_kernel(model))
    if Path(args.output).suffix.lower() == ".csv":
        lines = csv_lines(records, verbatim=True)
    else:
        lines = json_lines(records)
    output.write_text(args.output, lines)
    if args.output != output.STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)


def _with_rendered_prompts(records: Iterable[dict[str, Any]], kernel: Any) -> Iterator[dict[str, Any]]:
    """Yield the records with the prompt as the model of a kernel reads it."""
    for record in records:
        yield {**record, "rendered": _rendered(kernel, record["prompt"], record["label_space"])}


def _rendered(kernel: Any, prompt: str | list[str], label_space: Sequence[str]) -> str | list[str]:
    """Return a prompt as a kernel's model reads it; one text for each label in the noisy channel."""
    render = own_attribute(kernel, "rendered")
    if render is None:
        return prompt
    if isinstance(prompt, str):
        (text,) = render([prompt], label_space)
        return str(text)
    return list(render(prompt))  # each text has its label, and no label follows it


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    options.add_benchmark(parser)
    parser.add_argument(
        "predictions",
        nargs="?",
        type=Path,
        metavar="PREDICTIONS",
        help="the predictions: a file, or the log folder of lm_eval",
    )
    options.add_benchmark_prompt_options(parser)
    options.add_scoring_options(parser)
    parser.add_argument(
        "--model-name",
        metavar="NAME",
        help="the name of the model that made the predictions (default: the name in the log of lm_eval or a batch)",
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="allow missing predictions and unparsed replies; the result is marked PARTIAL",
    )
    saving.add_result_outputs(parser)


def score(args: argparse.Namespace) -> int:
    """Score the predictions of another engine.

    PREDICTIONS is a file of JSON Lines (or CSV, if it ends in .csv) with an id and one prediction in each record
    (probabilities, logits, index, label, or reply: a generated text that names a label); the log of
    lm_eval --log_samples: its folder, or one samples_*.jsonl; or the results of a batch of OpenAI or Anthropic.
    A missing id, a duplicate id and an unknown id are errors.

    examples:
      python -m StaICC score normal predictions.jsonl --model-name my-model
      python -m StaICC score normal predictions.csv --datasets mini --limit 10 --json scored.json
      python -m StaICC score normal logged
    """
    path = _predictions_path(args)
    input_files = [path, *options.inputs_of(args), *exchange.prediction_files(path)]
    saver = saving.ResultSaver(args, input_files)
    benchmark = options.make(args)
    # Checked again: the modules of metrics are imported now, and their files are inputs.
    saver.check(args.records, result=args.json)
    predictions = exchange.read_predictions(path, _batch_reply)
    result = exchange.score_predictions(
        benchmark,
        predictions,
        partial=args.partial,
        return_outputs=args.records is not None,
        model_name=args.model_name,
    )
    return saver.finish(result)


def _predictions_path(args: argparse.Namespace) -> Path:
    """Return the file of the predictions, also if ``--datasets`` took it as the last of its values.

    Raises:
        ArgumentError: There is none.
    """
    if args.predictions is not None:
        return Path(args.predictions)
    if args.datasets is not None and len(args.datasets) > 1:
        return Path(args.datasets.pop())
    raise ArgumentError("predictions: got none, expected a file. Put it first: score normal FILE --datasets mini")


def _batch_reply(*record: Any) -> tuple[str, exchange.Prediction]:
    """Return the prediction of a record of a batch."""
    # Imported here, because results name the packages of the modules that are imported: all would name openai.
    from StaICC.kernels.server.batch_files import batch_reply

    return batch_reply(*record)
