"""The command ``export``: files for other tools."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from StaICC.benchmarks import exchange
from StaICC.benchmarks.exchange import csv_lines, json_lines
from StaICC.cli import model_options, options, output, saved_results
from StaICC.cli.parser import add_command
from StaICC.errors import ArgumentError
from StaICC.results.result import Result, ResultGroup, model_index, query_records, score_records
from StaICC.results.runs import split_runs
from StaICC.safe_text import json_escaped


def _export_tasks(args: argparse.Namespace) -> output.Printed:
    command = f"score {args.benchmark} logged{options.repeated(args)}"
    groups = exchange.export_tasks(options.make(args), args.folder, command)
    print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
    return output.Printed(list(groups), ())


def _export_batch(args: argparse.Namespace) -> None:
    from StaICC.kernels.server.batch_files import batch_requests

    model = model_options.model_of(args)
    if not model:
        raise ArgumentError("--model: got none, expected the provider's name of a model, such as --model gpt-4o-mini")
    output.check_output(args.output, inputs=options.inputs_of(args))
    queries = exchange.identified_queries(options.make(args))
    prompts = {exchange.batch_key(identified): identified.query.prompt for identified in queries}
    requests = batch_requests(args.action.removesuffix("-batch"), model, prompts)
    output.write_text(args.output, json_lines(requests))


def _results(args: argparse.Namespace) -> dict[str, Result | ResultGroup]:
    output.check_output(args.output, inputs=args.results)
    return saved_results.load_named(args.results)


def _export_latex(args: argparse.Namespace) -> None:
    from StaICC.report.page import latex_scores  # with figures, which the tables do not need

    text = latex_scores(_results(args))
    output.write_text(args.output, [json.dumps({"latex": text}) if args.json else text, "\n"], args.json)


def _export_model_card(args: argparse.Namespace) -> None:
    index = json.dumps(model_index(_results(args).values()), ensure_ascii=False, allow_nan=False)
    text = json_escaped(index, only_ascii=False)  # such JSON is YAML
    output.write_text(args.output, [text, "\n"] if args.json else ["---\nmodel-index: ", text, "\n---\n"], args.json)


def _export_table(args: argparse.Namespace) -> None:
    records_of = score_records if args.action == "scores" else query_records
    runs = split_runs(_results(args)).items()
    rows = ({"run": name, **record} for name, run in runs for part in run.values() for record in records_of(part))
    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    output.write_text(args.output, (json_lines if as_json else csv_lines)(rows), as_json)


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
    options.add_benchmark_option(harness)
    options.add_prompt_options(harness)
    for provider in ("openai", "anthropic"):
        text = f"write the requests for the prompts of a benchmark as a batch of {provider.capitalize()}"
        batch = add_command(actions, f"{provider}-batch", _export_batch, text)
        options.add_benchmark_option(batch)
        options.add_prompt_options(batch)
        text = "the provider's name of the model; options of replies may follow: NAME;max_tokens=20"
        model_options.add_model(batch, text)
        output.add_output(batch, "output file (default: stdout)")
    of_table = "output file: JSON Lines if it ends in .jsonl, or with --json; otherwise CSV"
    latex = "write the mean scores of runs as LaTeX: scores as rows, runs as columns, the best and the tied ones marked"
    for name, run, text, file in (
        ("scores", _export_table, "write the scores of saved results with their intervals, one in each row", of_table),
        ("queries", _export_table, "write the true and the predicted label of each query of saved results", of_table),
        ("model-card", _export_model_card, "write scores as the metadata of a model card (model-index)", "output file"),
        ("latex", _export_latex, latex, "output file"),
    ):
        action = add_command(actions, name, run, text)
        saved_results.add_results(action)
        output.add_output(action, file)
