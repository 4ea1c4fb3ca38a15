"""The commands for other engines: ``prompts``, ``score``, ``export``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks import exchange
from StaICC.benchmarks.exchange import csv_lines, json_lines
from StaICC.benchmarks.harness_tasks import export_tasks
from StaICC.cli import options, saving
from StaICC.cli.parser import add_command
from StaICC.errors import ArgumentError
from StaICC.inference.contract import own_attribute
from StaICC.kernels.registry import load_kernel
from StaICC.results.result import Result, ResultGroup, model_index, query_records, score_records
from StaICC.results.runs import split_runs
from StaICC.safe_text import json_escaped


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    options.add_benchmark(parser)
    options.add_prompt_options(parser)
    saving.add_output(parser, "output file: CSV if it ends in .csv, otherwise JSON Lines")
    options.add_model(parser, "add the prompts as this model reads them, such as a conversation")
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
    model = options.model_of(args)
    saving.check_output(args.output, inputs=[*options.inputs_of(args), *options.model_files(model)])
    as_csv = Path(args.output).suffix.lower() == ".csv"
    records = exchange.prompt_records(options.make(args), args.with_truth)
    if model:
        kernel = load_kernel(model)
        records = (record | {"rendered": _rendered(kernel, record["prompt"])} for record in records)
    saving.write_text(args.output, csv_lines(records, verbatim=True) if as_csv else json_lines(records))
    if args.output != saving.STDOUT:
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


def _export_tasks(args: argparse.Namespace) -> saving.Printed:
    command = f"score {args.benchmark} logged{options.repeated(args)}"
    groups = export_tasks(options.make(args), args.folder, command)
    print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
    return saving.Printed(list(groups), ())


def _export_batch(args: argparse.Namespace) -> None:
    from StaICC.kernels.server.batch_files import batch_requests

    model = options.model_of(args)
    if not model:
        raise ArgumentError("--model: got none, expected the provider's name of a model, such as --model gpt-4o-mini")
    saving.check_output(args.output, inputs=options.inputs_of(args))
    queries = exchange.identified_queries(options.make(args))
    prompts = {exchange.batch_key(identified): identified.query.prompt for identified in queries}
    requests = batch_requests(args.action.removesuffix("-batch"), model, prompts)
    saving.write_text(args.output, json_lines(requests))


def _results(args: argparse.Namespace) -> dict[str, Result | ResultGroup]:
    saving.check_output(args.output, inputs=args.results)
    return saving.load_named(args.results)


def _export_latex(args: argparse.Namespace) -> None:
    from StaICC.report.page import latex_scores  # with figures, which the tables do not need

    text = latex_scores(_results(args))
    saving.write_text(args.output, [json.dumps({"latex": text}) if args.json else text, "\n"], args.json)


def _export_model_card(args: argparse.Namespace) -> None:
    index = json.dumps(model_index(_results(args).values()), ensure_ascii=False, allow_nan=False)
    text = json_escaped(index, only_ascii=False)  # such JSON is YAML
    saving.write_text(args.output, [text, "\n"] if args.json else ["---\nmodel-index: ", text, "\n---\n"], args.json)


def _export_table(args: argparse.Namespace) -> None:
    records_of = score_records if args.action == "scores" else query_records
    runs = split_runs(_results(args)).items()
    rows = ({"run": name, **record} for name, run in runs for part in run.values() for record in records_of(part))
    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    saving.write_text(args.output, (json_lines if as_json else csv_lines)(rows), as_json)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Write benchmarks as lm-evaluation-harness tasks or as batches of providers, and results as tables.

    lm-eval writes tasks for lm-evaluation-harness with the prompts of the benchmark. openai-batch and anthropic-batch
    write one request for each distinct prompt; 'python -m StaICC score' reads what the provider returns. scores and
    queries write saved results as tables with one score or one query in each row, for data frames. latex writes the
    mean scores of runs in the layout of the paper, a table for each group of comparable runs. model-card writes scores
    as the metadata at the head of a model card on the model hub, in YAML.

    examples:
      python -m StaICC export lm-eval tasks
      python -m StaICC export lm-eval tasks --benchmark normal --datasets mini --limit 10
      python -m StaICC export openai-batch --benchmark normal --model gpt-4o-mini -o requests.jsonl
      python -m StaICC export scores a.json b.json -o scores.csv
      python -m StaICC export queries result.json -o queries.jsonl
      python -m StaICC export latex a.json b.json -o scores.tex
      python -m StaICC export model-card result.json -o card.md
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    harness = add_command(actions, "lm-eval", _export_tasks, "write a benchmark as tasks of lm-evaluation-harness")
    harness.add_argument("folder", type=Path, metavar="DIR", help="the output folder; it is created if necessary")
    options.add_benchmark(harness, option=True)
    options.add_prompt_options(harness)
    for provider in ("openai", "anthropic"):
        text = f"write the requests for the prompts of a benchmark as a batch of {provider.capitalize()}"
        batch = add_command(actions, f"{provider}-batch", _export_batch, text)
        options.add_benchmark(batch, option=True)
        options.add_prompt_options(batch)
        text = "the provider's name of the model; options of replies may follow: NAME;max_tokens=20"
        options.add_model(batch, text)
        saving.add_output(batch, "output file (default: stdout)")
    of_table = "output file: JSON Lines if it ends in .jsonl, or with --json; otherwise CSV"
    latex = "write the mean scores of runs as LaTeX: scores as rows, runs as columns, the best and the tied ones marked"
    for name, run, text, file in (
        ("scores", _export_table, "write the scores of saved results with their intervals, one in each row", of_table),
        ("queries", _export_table, "write the true and the predicted label of each query of saved results", of_table),
        ("model-card", _export_model_card, "write scores as the metadata of a model card (model-index)", "output file"),
        ("latex", _export_latex, latex, "output file"),
    ):
        action = add_command(actions, name, run, text)
        saving.add_results(action)
        saving.add_output(action, file)
