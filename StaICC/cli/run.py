"""``run`` and ``race``: evaluate models."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from StaICC.cli import long_icl
from StaICC.cli.benchmark_options import (
    add_benchmark,
    add_execution_options,
    add_model_options,
    add_prompt_options,
    add_scoring_options,
    add_text_options,
    inputs_of,
    load_model,
    make,
    model_files,
    model_of,
    run_settings,
    shown_model,
)
from StaICC.cli.files import STDOUT, add_result_outputs, check_output, has_content, show_result, write_text
from StaICC.errors import ArgumentError
from StaICC.kernels.registry import DESCRIPTIONS, load_kernel
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import different, format_methods, read_method, run_many_shot, run_method
from StaICC.results.published import compare_with_published, format_published

_SCORES = ("accuracy", "likelihood")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add_benchmark(parser, long_icl.NAME)
    kinds = "; ".join(f"{kind}: {text}" for kind, text in DESCRIPTIONS.items())
    add("--model", default="ppm", help=f"{kinds}; or the name of a plug-in, or package.module:name")
    add_model_options(parser)
    add_text_options(parser)
    text = "an inference method, such as hidden-calibration, or all: the ten of the paper's Table 2"
    add("--method", metavar="METHOD", help=text)
    text = "an option of the method; repeat it for several (python -m StaICC show methods lists them)"
    add("--method-option", action="append", default=[], metavar="NAME=VALUE", help=text)
    text = "each method as in its paper, in the protocol of StaICC's Table 2, or as in the release"
    add("--method-variant", default="paper", choices=("paper", "staicc", "0.1.1"), help=text)
    add_prompt_options(parser, several=True)
    add_scoring_options(parser)
    text = "evaluate test rows in random order until half the width of the 95 %% interval of the mean score is P"
    add("--precision", type=float, metavar="P", help=text)
    add("--score", choices=_SCORES, help="the score of --precision (default: accuracy)")
    add("--model-name", metavar="NAME", help="a name for the model in the store, in addition to its identity")
    text = "stop at the first failed query, or continue and return a partial result"
    add("--on-error", default="raise", choices=("raise", "collect"), help=text)
    add_execution_options(parser)
    forecast = parser.add_argument_group("forecast").add_argument
    text = "forecast queries, tokens, time and cost after a probe of 4 seconds"
    forecast("--dry-run", action="store_true", help=text)
    text = "cost of a million tokens that the model reads, and of a million that it generates"
    forecast("--prices", nargs=2, type=float, metavar=("INPUT", "OUTPUT"), help=text)
    add_result_outputs(parser)
    long_icl.add_run_arguments(parser)


def _inputs(args: argparse.Namespace) -> list[Path]:
    """Return the files that a run reads: those of the model and of the data."""
    files = [*model_files(args.model), *inputs_of(args)]
    if args.data_dir is not None:
        from StaICC.benchmarks.long_icl import cards

        of_cards = [file for card in cards().values() for files in card.files.values() for file in files]
        files += [args.data_dir / name for file in of_cards for name in file.names]
    return files


def _check_options(args: argparse.Namespace, early: dict[str, Any]) -> None:
    """Refuse options that do not belong together.

    Args:
        args: The arguments of ``run``.
        early: The given options of early stopping.
    """
    several = isinstance(args.k, list)
    given = args.benchmark if args.method is None else f"--method {args.method}"
    given += f" with {len(args.k)} k" if several else ""
    stops = f"--{next(iter(early), '')}"
    conflicts = {
        "--records needs a file: got '-'. On most systems /dev/stdout works": str(args.records) == STDOUT,
        "--prices belongs to a forecast. Add --dry-run": args.prices is not None and not args.dry_run,
        "--records is for a run: got --dry-run, which keeps no predictions": args.records and args.dry_run,
        "--method-option needs a method. Choose one with --method": args.method_option and args.method is None,
        f"got {given}, expected one k. Choose one method with --method": several and args.method == "all",
        f"{stops} is for the benchmark normal with one k and without a method: got {given}": early
        and given != "normal",
        f"--dry-run is for a complete run: got {stops}, which ends one early": early and args.dry_run,
    }
    for message, wrong in conflicts.items():
        if wrong:
            raise ArgumentError(message)


def _name_models(result: Any, *models: str) -> None:
    """Write the names of the models into the provenance of a result, or of each result of a group."""
    results = list(result.results())
    for single, model in zip(results, models * (len(results) // len(models)), strict=True):
        single.provenance = single.provenance.named(shown_model(model))


def _forecast(args: argparse.Namespace, benchmark: Any, function: Any) -> None:
    """Print the forecast of a run, and save it."""
    prices = None if args.prices is None else tuple(args.prices)
    settings = {"store": args.store, "model_name": args.model_name, "chunk_size": args.chunk_size, "prices": prices}
    if args.method is None and benchmark is not None:
        forecast = benchmark.forecast(function, **settings)
    else:
        made = [benchmark] if benchmark is not None else [make(args, k=k) for k in different(args.k)]
        method = {"variant": args.method_variant, "options": args.method_option}
        forecast = forecast_method(args.method or "vanilla", function, made, **method, **settings)
    if args.json is not None:
        write_text(args.json, [json.dumps(forecast.to_dict(), indent=2), "\n"])
    print(forecast, file=sys.stderr if str(args.json) == STDOUT else sys.stdout)


def _evaluate(args: argparse.Namespace, benchmark: Any, function: Any, settings: dict[str, Any]) -> Any:
    """Return the result of a benchmark, of a method, or of several k."""

    def save(table: Any) -> None:
        if args.json is not None and str(args.json) != STDOUT:
            _name_models(table, args.model)
            table.save(args.json)

    variant, options = args.method_variant, args.method_option
    if benchmark is None:
        method = read_method(args.method or "vanilla", function, variant, options=options)
        return run_many_shot(method, lambda k: make(args, k=k), args.k, save, **settings)
    if args.method is None:
        return benchmark(function, **settings)
    return run_method(args.method, function, lambda: benchmark, variant, options=options, finished=save, **settings)


def run(args: argparse.Namespace) -> int:
    """Run a benchmark on a model and print its table.

    examples:
      python -m StaICC run normal --datasets mini
      python -m StaICC run normal --model smollm2 --datasets TREC AGNews --limit 50
      python -m StaICC run diagnosis --datasets mini --json diagnosis.json
      python -m StaICC run normal --method contextual-calibration --datasets mini
      python -m StaICC run normal --model smollm2 --precision 0.02
      python -m StaICC run normal --model smollm2 --k 4,16,64 --sampler nested --datasets TREC
      python -m StaICC run normal --datasets mini --dry-run
      python -m StaICC run suite --model smollm2 --store run.sqlite --workers 2
      python -m StaICC run long-icl --data-dir DIR --rounds 1 2 --test-number 20
      python -m StaICC run long-icl --experiment context --levels 4K 8K 16K --dry-run
    """
    args.model = model_of(args)
    check = partial(check_output, args.json, args.records, inputs=_inputs(args), store=args.store)
    check()
    early = {name: value for name in ("precision", "score") if (value := getattr(args, name)) is not None}
    _check_options(args, early)
    if args.benchmark == long_icl.NAME:
        benchmark, function = long_icl.prepare(args)
    else:
        long_icl.refuse(args)
        benchmark = None if isinstance(args.k, list) else make(args)  # several k: one benchmark for each
        function = load_model(args)
    if args.dry_run:
        _forecast(args, benchmark, function)
        return 0
    replaces = has_content(args.json)  # several runs are saved one by one
    check()  # the modules of the model and the metrics are imported now; their files are inputs
    settings = {"model_name": args.model_name, "on_error": args.on_error, "return_outputs": args.records is not None}
    try:
        result = _evaluate(args, benchmark, function, {**run_settings(args), **settings, **early})
    except KeyboardInterrupt:
        kept = "no predictions were stored; with --store FILE a run can continue"
        if args.store is not None:
            kept = f"completed predictions are in {args.store}; the same command continues"
        raise KeyboardInterrupt(kept) from None
    _name_models(result, args.model)
    check()
    shown = [str(result) if args.method is None and benchmark is not None else format_methods(result)]
    if args.published:
        shown += ["", format_published(compare_with_published(result))]
    show_result(result, args.json, args.records, "\n".join(shown), replaces)
    return 0 if result.complete else 1


def add_race(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.set_defaults(benchmark="normal")
    parser.add_argument("--model", action="append", required=True, help="a model as for run; give it twice")
    add_model_options(parser)
    text = "stop also when the difference is below M (default 0.02)"
    parser.add_argument("--margin", type=float, default=0.02, metavar="M", help=text)
    parser.add_argument("--score", choices=_SCORES, help="the score (default: accuracy)")
    add_prompt_options(parser)
    add_execution_options(parser)
    add_result_outputs(parser)


def race(args: argparse.Namespace) -> int:
    """Evaluate two models until the better one is known.

    Both models predict the same test rows of the benchmark normal, in a random order that is the same for all models.
    The race ends when it is known with 95 % confidence which model is better in the full benchmark, or that the
    difference is below the margin.

    examples:
      python -m StaICC race --model smollm2 --model ppm
      python -m StaICC race --model hf:gpt2 --model hf:distilgpt2 --margin 0.03 --store run.sqlite
      python -m StaICC race --model smollm2 --model smollm2 --model-option dtype=bfloat16
    """
    from StaICC.benchmarks.race import race as race_models

    if len(args.model) != 2:
        raise ArgumentError(f"wrong number of models: got {len(args.model)}, expected two. Give --model twice")
    inputs = [*inputs_of(args), *(file for model in args.model for file in model_files(model))]
    check = partial(check_output, args.json, args.records, inputs=inputs, store=args.store)
    check()
    benchmark = make(args)
    first, second = map(load_kernel, args.model)
    keep = args.records is not None
    result = race_models(benchmark, first, second, args.margin, args.score, keep, **run_settings(args))
    _name_models(result, *args.model)
    check()
    show_result(result, args.json, args.records)
    return 0
