"""The command ``export``: files for other tools."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from StaICC.benchmarks import exchange
from StaICC.benchmarks.exchange import csv_lines, json_lines
from StaICC.benchmarks.harness_tasks import check_folder, export_tasks
from StaICC.cli import model_options, options, output, saved_results
from StaICC.cli.cite import long_icl_works
from StaICC.cli.parser import add_command
from StaICC.comparing.paper import TableRows, paper_text
from StaICC.errors import ArgumentError
from StaICC.files.output import write_output
from StaICC.results.eval_results import eval_results, eval_results_yaml
from StaICC.results.every_eval_ever import RELATIONSHIPS, ExportedResult, ExportSettings, export_result
from StaICC.results.model_card import model_index
from StaICC.results.query_records import query_records
from StaICC.results.result import Result, ResultGroup
from StaICC.results.row_scores import row_scores, subgroups_of_results
from StaICC.results.runs import split_runs
from StaICC.results.score_records import score_records
from StaICC.safe_text import json_escaped, visible


def add_export(parser: argparse.ArgumentParser) -> None:
    """Write benchmarks as lm-evaluation-harness tasks or as batches of providers, and results as tables.

    lm-eval writes tasks for lm-evaluation-harness with the prompts of the benchmark. openai-batch and anthropic-batch
    write one request for each distinct prompt; 'python -m StaICC score' reads what the provider returns. scores and
    queries write saved results as tables with one score or one query in each row, for data frames; rows writes the
    scores of each query for mixed models and item-response models. latex writes the mean scores of runs in the layout
    of the paper, a table for each group of comparable runs. paper writes a paragraph (setting, scores with intervals,
    tests, signatures, citations) and a table in booktabs. model-card writes scores
    as the metadata at the head of a model card on the model hub, in YAML. eval-results writes the accuracies on data
    sets of the hub as a file for the folder .eval_results of a model's repository. every-eval-ever writes scores with
    intervals, and each sample, in the schema of the EvalEval coalition. schema writes the JSON Schema of files of
    results.

    examples:
      python -m StaICC export lm-eval tasks
      python -m StaICC export lm-eval tasks --benchmark normal --datasets mini --limit 10
      python -m StaICC export openai-batch --benchmark normal --model gpt-4o-mini -o requests.jsonl
      python -m StaICC export scores a.json b.json -o scores.csv
      python -m StaICC export queries result.json -o queries.jsonl
      python -m StaICC export rows a.json b.json -o rows.csv
      python -m StaICC export latex a.json b.json -o scores.tex
      python -m StaICC export paper a.json b.json -o paper.tex
      python -m StaICC export every-eval-ever result.json -o datastore --model-id EleutherAI/pythia-70m
      python -m StaICC export schema -o result.schema.json
      python -m StaICC export model-card result.json -o card.md
      python -m StaICC export eval-results result.json -o staicc.yaml
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_lm_eval(actions)
    _add_batch(actions, "openai")
    _add_batch(actions, "anthropic")

    table_output = "output file: JSON Lines if it ends in .jsonl, or with --json; otherwise CSV"
    scores = add_command(
        actions, "scores", _export_scores, "write the scores of saved results with their intervals, one in each row"
    )
    _add_results_and_output(scores, table_output)
    queries = add_command(
        actions,
        "queries",
        _export_queries,
        "write the true and the predicted label of each query of saved results",
    )
    _add_results_and_output(queries, table_output)
    rows = add_command(
        actions,
        "rows",
        _export_rows,
        "write the scores of each query with its test row, demonstrations, label, for mixed models",
    )
    _add_results_and_output(rows, table_output)
    model_card = add_command(
        actions, "model-card", _export_model_card, "write scores as the metadata of a model card (model-index)"
    )
    _add_results_and_output(model_card, "output file")
    eval_results = add_command(
        actions, "eval-results", _export_eval_results, "write accuracies as evaluation results of a model's repository"
    )
    _add_results_and_output(eval_results, "output file")
    eval_results.add_argument("--source-url", metavar="URL", help="where the evaluation can be looked up")
    _add_every_eval_ever(actions)
    schema = add_command(actions, "schema", _export_schema, "write the JSON Schema of the files of results")
    output.add_output(schema, "output file")
    latex = add_command(
        actions,
        "latex",
        _export_latex,
        "write the mean scores of runs as LaTeX: scores as rows, runs as columns, the best and the tied ones marked",
    )
    _add_results_and_output(latex, "output file")
    paper = add_command(
        actions, "paper", _export_paper, "write the paragraph and the table for a paper as LaTeX, with citations"
    )
    _add_results_and_output(paper, "output file (default: stdout)")
    paper.add_argument("--metric", help="a score, such as macro_F1 (default: the main one of the benchmark)")
    paper.add_argument(
        "--rows",
        choices=get_args(TableRows),
        help="a row of the table is a data set, with a column for each run, or the mean of a run (default: datasets "
        "for one or two runs, else means)",
    )


def _add_results_and_output(parser: argparse.ArgumentParser, text: str) -> None:
    saved_results.add_results(parser)
    output.add_output(parser, text)


# Benchmarks, for other engines.


def _add_lm_eval(actions: Any) -> None:
    """Add the action ``lm-eval``, which exports a benchmark as tasks of lm-evaluation-harness."""
    parser = add_command(actions, "lm-eval", _export_tasks, "write a benchmark as tasks of lm-evaluation-harness")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the output folder; it is created if necessary")
    options.add_benchmark_option(parser)
    options.add_benchmark_prompt_options(parser)


def _export_tasks(args: argparse.Namespace) -> output.Printed:
    """Write a benchmark as tasks of lm-evaluation-harness into a folder, and return the names of their groups."""
    check_folder(args.folder)  # before the data are fetched
    scoring_command = f"score {args.benchmark} logged{options.repeated(args)}"
    groups = export_tasks(options.make(args), args.folder, scoring_command)
    print(f"tasks of {', '.join(groups)} in {args.folder}; its README.md says how to run them", file=sys.stderr)
    return output.Printed(list(groups), ())


def _add_batch(actions: Any, provider: str) -> None:
    """Add the action that writes the prompts of a benchmark as a batch of a provider, such as ``openai-batch``."""
    text = f"write the requests for the prompts of a benchmark as a batch of {provider.capitalize()}"
    parser = add_command(actions, f"{provider}-batch", _export_batch, text)
    parser.set_defaults(provider=provider)
    options.add_benchmark_option(parser)
    options.add_benchmark_prompt_options(parser)
    model_options.add_model(
        parser, "the provider's name of the model; options of replies may follow: NAME;max_tokens=20"
    )
    output.add_output(parser, "output file (default: stdout)")


def _export_batch(args: argparse.Namespace) -> None:
    """Write a request of a provider for each distinct prompt of a benchmark; warn if it refuses so many requests."""
    from StaICC.kernels.server.batch_files import batch_requests, limit_remark

    model = model_options.model_of(args)
    if not model:
        raise ArgumentError("--model: got none, expected the provider's name of a model, such as --model gpt-4o-mini")
    output.check_output(args.output, inputs=options.inputs_of(args))
    requests = batch_requests(args.provider, model, exchange.batch_prompts(options.make(args)))
    lines = _CountedLines(json_lines(requests))
    output.write_text(args.output, lines)
    remark = limit_remark(args.provider, lines.count, lines.size)
    if remark is not None:
        print(remark, file=sys.stderr)


class _CountedLines:
    """Lines with their number and their size in bytes, counted while they are read.

    Args:
        lines: The lines.

    Attributes:
        count: The number of lines that were read.
        size: Their bytes in UTF-8.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.count = 0
        self.size = 0
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        """Yield the lines, and count each before it is yielded."""
        for line in self._lines:
            self.count += 1
            self.size += len(line.encode("utf-8", "surrogatepass"))
            yield line


# Saved results, as tables and metadata.


def _load_results(args: argparse.Namespace) -> dict[str, Result | ResultGroup]:
    """Check the output, then load the results, by name."""
    output.check_output(args.output, inputs=args.results)
    return saved_results.load_named(args.results)


def _export_scores(args: argparse.Namespace) -> None:
    _write_table(args, _load_results(args), score_records)


def _export_queries(args: argparse.Namespace) -> None:
    _write_table(args, _load_results(args), _records_of_predictions)


def _export_rows(args: argparse.Namespace) -> None:
    results = _load_results(args)
    subgroups = subgroups_of_results(results.values())  # a table has the same columns in all of its rows
    _write_table(args, results, partial(_scores_of_rows, subgroups=subgroups))


def _scores_of_rows(results: Result | ResultGroup, subgroups: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the scores of all queries of a result (:func:`~StaICC.results.row_scores.row_scores`).

    Args:
        results: The result, or the group of results.
        subgroups: The columns of subgroups of all results of the table.

    Raises:
        ArgumentError: A result was read from logs.
    """
    for result in results.results():
        _refuse_log(result)
        yield from row_scores(result, subgroups)


def _refuse_log(result: Result) -> None:
    """Raise an ArgumentError for a result that was read from logs, which has no labels."""
    if result.samples:
        raise ArgumentError(
            f"a result of {result.benchmark} was read from logs: it has scores of samples, but no labels to "
            "export. Use export scores, or result.query_scores in Python"
        )


def _records_of_predictions(results: Result | ResultGroup) -> Iterator[dict[str, Any]]:
    """Yield the records of all queries.

    Raises:
        ArgumentError: A result was read from logs, which have scores of samples instead of labels.
    """
    for result in results.results():
        _refuse_log(result)
        yield from query_records(result)


def _write_table(
    args: argparse.Namespace,
    results: Mapping[str, Result | ResultGroup],
    records_of: Callable[[Result | ResultGroup], Iterable[dict[str, Any]]],
) -> None:
    """Write a table of records as CSV or JSON Lines, with the name of the run in each record.

    Args:
        args: The arguments of the command, with the output file.
        results: The results by name.
        records_of: Returns the records of a result.
    """
    rows = _records_of_runs(results, records_of)
    as_json = args.json or Path(args.output).suffix.lower() == ".jsonl"
    lines = json_lines(rows) if as_json else csv_lines(rows)
    output.write_text(args.output, lines, as_json)


def _records_of_runs(
    results: Mapping[str, Result | ResultGroup],
    records_of: Callable[[Result | ResultGroup], Iterable[dict[str, Any]]],
) -> Iterator[dict[str, Any]]:
    """Yield the records of all runs in results, each with the name of its run."""
    for run_name, results_by_benchmark in split_runs(results).items():
        for result in results_by_benchmark.values():
            for record in records_of(result):
                yield {"run": run_name, **record}


def _export_model_card(args: argparse.Namespace) -> None:
    """Write the scores of results as the metadata of a model card, in YAML; with ``--json``, as JSON."""
    index = json.dumps(model_index(_load_results(args).values()), ensure_ascii=False, allow_nan=False)
    text = json_escaped(index, only_ascii=False)
    if args.json:
        lines = [text, "\n"]
    else:
        lines = ["---\nmodel-index: ", text, "\n---\n"]  # JSON without control characters is YAML
    output.write_text(args.output, lines, args.json)


def _add_every_eval_ever(actions: Any) -> None:
    """Add the action ``every-eval-ever`` with its arguments to the command."""
    text = "write results and their samples as files of Every Eval Ever (schema of the EvalEval coalition)"
    parser = add_command(actions, "every-eval-ever", _export_every_eval_ever, text)
    saved_results.add_results(parser)
    parser.add_argument("--output", "-o", type=Path, required=True, metavar="DIR", help="the folder of the datastore")
    parser.add_argument("--collection", default="staicc", metavar="NAME", help="the collection (default: staicc)")
    parser.add_argument("--model-id", metavar="ORG/NAME", help="the id of the model (default: from its name)")
    parser.add_argument("--organization", default="unknown", metavar="NAME", help="who provides the data")
    parser.add_argument(
        "--relationship", choices=RELATIONSHIPS, default="other", help="what the evaluator is to the model"
    )
    parser.add_argument("--no-prompts", action="store_true", help="leave out the texts of questions and prompts")


def _export_every_eval_ever(args: argparse.Namespace) -> output.Printed:
    """Write results as files of Every Eval Ever, and return their paths; what is left out is named on stderr."""
    from StaICC.benchmarks.saved_prompts import written_prompts

    settings = ExportSettings(args.collection, args.model_id, args.organization, args.relationship)
    written_files = []
    left_out: list[str] = []
    for saved in saved_results.load_named(args.results).values():
        for result in saved.results():
            prompts = {} if args.no_prompts else written_prompts(result)
            try:
                exported = export_result(result, prompts, settings)
            except ArgumentError as error:
                left_out.append(str(error))
                continue
            left_out += exported.left_out
            written_files += _write_export(args.output, exported)
    if not written_files:
        raise ArgumentError("; ".join(left_out))
    for reason in left_out:
        print(f"left out: {visible(reason)}", file=sys.stderr)
    for path in written_files:
        print(path, file=sys.stderr)
    return output.Printed([str(path) for path in written_files], ())


def _write_export(folder: Path, exported: ExportedResult) -> list[Path]:
    """Write the files of a result into a folder: its samples, if it has some, and its scores. Return their paths."""
    files = {}
    if exported.samples:  # first, since the other file has their digest
        files[exported.samples_path] = exported.samples
    files[exported.aggregate_path] = exported.aggregate
    paths = []
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_output(path, [content])
        paths.append(path)
    return paths


def _export_eval_results(args: argparse.Namespace) -> None:
    """Write the accuracies of results for a model's repository, as YAML or JSON; name on stderr what is left out."""
    exported = eval_results(_load_results(args).values(), args.source_url)
    for reason in exported.left_out:
        print(f"left out: {visible(reason)}", file=sys.stderr)
    if args.json:
        lines = [json_escaped(json.dumps(exported.entries, ensure_ascii=False), only_ascii=False), "\n"]
    else:
        lines = list(eval_results_yaml(exported.entries))
    output.write_text(args.output, lines, args.json)


def _export_schema(args: argparse.Namespace) -> None:
    """Write the JSON schema of result files."""
    from StaICC.results.json_schema import result_schema

    output.check_output(args.output)
    output.write_text(args.output, [json.dumps(result_schema(), indent=2), "\n"])


def _export_latex(args: argparse.Namespace) -> None:
    """Write the mean scores of runs as a table in LaTeX; with ``--json``, as a JSON text."""
    from StaICC.report.latex_tables import latex_scores  # with figures, which the tables do not need

    text = latex_scores(_load_results(args))
    if args.json:
        text = json.dumps({"latex": text})
    output.write_text(args.output, [text, "\n"], args.json)


def _export_paper(args: argparse.Namespace) -> None:
    """Write the paragraph and the tables of a paper about saved results, as LaTeX."""
    text = paper_text(_load_results(args), args.metric, args.rows, long_icl_works())
    if args.json:
        text = json.dumps({"latex": text})
    output.write_text(args.output, [text, "\n"], args.json)
