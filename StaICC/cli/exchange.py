"""``prompts``, ``score`` and ``export``: prompts for other engines, their predictions, and tables of results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from StaICC.benchmarks import exchange
from StaICC.benchmarks.exchange import csv_lines, json_lines
from StaICC.cli.benchmark_options import (
    add_benchmark,
    add_model_options,
    add_prompt_options,
    add_scoring_options,
    inputs_of,
    make,
    model_files,
    model_of,
    repeated,
)
from StaICC.cli.files import (
    STDOUT,
    add_output,
    add_result_outputs,
    add_results,
    check_output,
    load_named,
    print_json,
    show_result,
    write_text,
)
from StaICC.cli.terminal import add_action
from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import RendersPrompts
from StaICC.kernels.registry import load_kernel
from StaICC.results.result import query_records, score_records
from StaICC.results.runs import split_runs


def add_prompts(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_benchmark(parser)
    add_prompt_options(parser)
    add_output(parser, "output file: CSV if it ends in .csv, otherwise JSON Lines")
    parser.add_argument("--model", default="", help="add the prompts as this model reads them, such as a conversation")
    add_model_options(parser)
    parser.add_argument("--with-truth", action="store_true", help="add ground_truth, the index of the true label")
    parser.add_argument("--json", action="store_true", help="no effect: the output is always JSON Lines")


def _rendered(kernel: Any, prompt: Any) -> Any:
    """Return a prompt as a kernel's model reads it; one text for each label in the noisy channel."""
    if not isinstance(kernel, RendersPrompts):
        return prompt
    texts = list(kernel.rendered([prompt] if isinstance(prompt, str) else prompt))
    return texts[0] if isinstance(prompt, str) else texts


def prompts(args: argparse.Namespace) -> int:
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
    model = model_of(args)
    check_output(args.output, inputs=[*inputs_of(args), *model_files(model)])
    as_csv = Path(args.output).suffix.lower() == ".csv"
    records = exchange.prompt_records(make(args), args.with_truth)
    if model:
        kernel = load_kernel(model)
        records = (record | {"rendered": _rendered(kernel, record["prompt"])} for record in records)
    write_text(args.output, csv_lines(records, verbatim=True) if as_csv else json_lines(records))
    if args.output != STDOUT:
        print(f"the prompts are in {args.output}", file=sys.stderr)
    return 0


def add_score(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_benchmark(parser)
    text = "the predictions: a file, or the log folder of lm_eval"
    parser.add_argument("predictions", nargs="?", type=Path, metavar="PREDICTIONS", help=text)
    add_prompt_options(parser)
    add_scoring_options(parser)
    text = "allow missing predictions and unparsed replies; the result is marked PARTIAL"
    parser.add_argument("--partial", action="store_true", help=text)
    add_result_outputs(parser)


def score(args: argparse.Namespace) -> int:
    """Score the predictions of another engine.

    PREDICTIONS is a file of JSON Lines (or CSV, if it ends in .csv) with an id and one prediction in each record
    (probabilities, logits, index, label, or reply: a generated text that names a label); or the log of
    lm_eval --log_samples: its folder, or one samples_*.jsonl.
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
    check_output(args.json, args.records, inputs=[path, *inputs_of(args)])
    if path.is_fifo():
        raise ArgumentError(f"predictions are read twice: got the pipe {path}, expected a file. Save them to a file")
    logged = path.is_dir() or exchange.is_sample_file(path)
    if logged:
        check_output(args.json, args.records, inputs=exchange.find_sample_files(path))
    predictions = exchange.read_samples(path) if logged else exchange.read_predictions(path)
    benchmark = make(args)
    check_output(args.json, args.records)  # the modules of metrics are imported now; their files are inputs
    keep = args.records is not None
    result = exchange.score_predictions(benchmark, predictions, partial=args.partial, return_outputs=keep)
    show_result(result, args.json, args.records)
    return 0 if result.complete else 1


_TABLES = {
    "scores": ("write the scores of saved results with their intervals, one in each row", score_records),
    "queries": ("write the true and the predicted label of each query of saved results", query_records),
}


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    as_json = "print the names of the groups of tasks as JSON"
    harness = add_action(actions, "lm-eval", "write a benchmark as tasks of lm-evaluation-harness", as_json)
    harness.add_argument("folder", type=Path, metavar="DIR", help="the output folder; it is created if necessary")
    add_benchmark(harness, option=True)
    add_prompt_options(harness)
    for name, (text, _) in _TABLES.items():
        table = add_action(actions, name, text, "write JSON Lines for any file name")
        add_results(table)
        add_output(table, "output file: JSON Lines if it ends in .jsonl, otherwise CSV")
    text = "write the mean scores of runs as LaTeX: scores as rows, runs as columns, the best and the tied ones marked"
    latex = add_action(actions, "latex", text, "write a JSON object with the LaTeX text")
    add_results(latex, "one run each")
    add_output(latex, "output file (default: stdout)")


def export(args: argparse.Namespace) -> int:
    """Write benchmarks as lm-evaluation-harness tasks, and results as tables.

    lm-eval writes tasks for lm-evaluation-harness with the prompts of the benchmark. scores and queries write saved
    results as tables with one score or one query in each row, for data frames. latex writes the mean scores of runs in
    the layout of the paper, a table for each group of comparable runs.

    examples:
      python -m StaICC export lm-eval tasks
      python -m StaICC export lm-eval tasks --benchmark normal --datasets mini --limit 10
      python -m StaICC export scores a.json b.json -o scores.csv
      python -m StaICC export queries result.json -o queries.jsonl
      python -m StaICC export latex a.json b.json -o scores.tex
    """
    if args.action == "lm-eval":
        groups = exchange.export_tasks(make(args), args.folder, f"score {args.benchmark} logged{repeated(args)}")
        if args.json:
            print_json(list(groups))
        else:
            print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
        return 0
    check_output(args.output, inputs=args.results)
    results = load_named(args.results)
    if args.action == "latex":
        from StaICC.results.report.page import latex_scores  # with figures, which the tables do not need

        text = latex_scores(results)
        write_text(args.output, [json.dumps({"latex": text}) if args.json else text, "\n"], args.json)
        return 0

    def rows() -> Iterator[Mapping[str, Any]]:
        for name, parts in split_runs(results).items():
            for record in (record for part in parts.values() for record in _TABLES[args.action][1](part)):
                yield {"run": name, **record}

    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    write_text(args.output, (json_lines if as_json else csv_lines)(rows()), as_json)
    return 0
