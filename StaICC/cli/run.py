"""The command ``run``: a benchmark on a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from StaICC.cli import model_options, options
from StaICC.cli.evaluating import explained_interrupt, name_models
from StaICC.cli.long_icl_options import OF_LONG_ICL, add_long_icl_options, long_icl_benchmark
from StaICC.cli.options import LONG_ICL
from StaICC.cli.output import STDOUT, add_prices, check_output, write_text
from StaICC.cli.parser import INSTEAD, flag
from StaICC.cli.saving import ResultSaver, add_result_outputs
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.errors import ArgumentError
from StaICC.kernels.registry import DESCRIPTIONS
from StaICC.layout import Block, Line
from StaICC.methods.run import Method, different, display_methods, forecast_method, run_all, run_many_shot
from StaICC.methods.specification import read_options

_BENCHMARK_OF = {"draws": "generalisation", "templates": "generalisation"} | dict.fromkeys(OF_LONG_ICL, LONG_ICL)
"""The benchmark of each option that only one has."""


_SCORES = ("accuracy", "likelihood")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    options.add_benchmark(parser, LONG_ICL)
    kinds = "; ".join(f"{kind}: {text}" for kind, text in DESCRIPTIONS.items())
    model_options.add_model(parser, f"{kinds}; or the name of a plug-in, or package.module:name", "ppm")
    model_options.add_text_options(parser)
    text = "an inference method, such as hidden-calibration, or all: the ten of the paper's Table 2"
    add("--method", help=text)
    text = "an option of the method; repeat it for several (python -m StaICC show methods lists them)"
    add("--method-option", action="append", default=[], metavar="NAME=VALUE", help=text)
    text = "each method as in its paper, in the protocol of StaICC's Table 2, or as in the release"
    add("--method-variant", default="paper", choices=("paper", "staicc", "0.1.1"), help=text)
    text = "training prompts of the method for each data set (default 128)"
    add("--calibration-number", type=int, default=128, metavar="N", help=text)
    options.add_prompt_options(parser, several=True)
    options.add_scoring_options(parser)
    text = "evaluate test rows in random order until half the width of the 95 %% interval of the mean score is P"
    add("--precision", type=float, metavar="P", help=text)
    add("--score", choices=_SCORES, help="the score of --precision (default: accuracy)")
    add("--model-name", metavar="NAME", help="a name for the model in the store, in addition to its identity")
    text = "stop at the first failed query, or continue and return a partial result"
    add("--on-error", default="raise", choices=("raise", "collect"), help=text)
    options.add_execution_options(parser)
    forecast = parser.add_argument_group("forecast")
    text = "forecast queries, tokens, time and cost after a probe of 4 seconds"
    forecast.add_argument("--dry-run", action="store_true", help=text)
    add_prices(forecast)
    levels = parser.add_argument_group("generalisation").add_argument
    levels("--draws", type=int, metavar="N", help="lists of demonstrations (default 4)")
    levels("--templates", type=int, metavar="N", help="templates, at most 9 (default 3)")
    add_result_outputs(parser)
    add_long_icl_options(parser)


def _inputs(args: argparse.Namespace) -> list[Path]:
    """Return the files that a run reads: those of the model and of the data."""
    inputs = [*model_options.model_files(args.model), *options.inputs_of(args)]
    if args.data_dir is not None:
        from StaICC.long_icl.cards import cards

        known = [file for card in cards(None).values() for file in card.files.values()]
        inputs += [args.data_dir / name for file in known for name in file.names]
    return inputs


def _check_options(args: argparse.Namespace, early: dict[str, Any]) -> None:
    """Refuse options that do not belong together.

    Args:
        args: The arguments of ``run``.
        early: The given options of early stopping.
    """
    several, stops = isinstance(args.k, list), f"--{next(iter(early), '')}"
    given = f"{args.benchmark}, k {args.k}, method {args.method or 'none'}"
    conflicts = {
        "--records needs a file: got '-'. On most systems /dev/stdout works": str(args.records) == STDOUT,
        "--prices belongs to a forecast. Add --dry-run": args.prices is not None and not args.dry_run,
        "--records is for a run: got --dry-run, which keeps no predictions": args.records and args.dry_run,
        "options of a method need one. Choose it with --method": args.method is None
        and (args.method_option or (args.method_variant, args.calibration_number) != ("paper", 128)),
        f"got {given}, expected one k. Choose one method with --method": several and args.method == "all",
        f"{stops} is for the benchmark normal with one k and without a method: got {given}": early
        and (args.benchmark != "normal" or several or args.method is not None),
        f"--dry-run is for a complete run: got {stops}, which ends one early": early and args.dry_run,
    }
    for message, wrong in conflicts.items():
        if wrong:
            raise ArgumentError(message)


def _refuse_options(args: argparse.Namespace) -> None:
    """Refuse the options of other benchmarks, and those that LongICL does not support.

    Raises:
        ArgumentError: One of them was given.
    """
    for name, benchmark in _BENCHMARK_OF.items():
        if benchmark != args.benchmark and getattr(args, name) is not None:
            advice = f"; {INSTEAD[flag(name)]}" if flag(name) in INSTEAD else ""
            raise ArgumentError(f"{flag(name)} belongs to {benchmark}; {args.benchmark} has no such argument{advice}")
    for name, default in args.not_long_icl.items() if args.benchmark == LONG_ICL else ():
        if getattr(args, name) != default:
            hint = "; for a trial, use --test-number" if name == "limit" else ""
            raise ArgumentError(f"{LONG_ICL} has no {flag(name)}{hint}")


def _forecast(args: argparse.Namespace, benchmark: Any, function: Any) -> None:
    """Print the forecast of a run, and save it."""
    prices = None if args.prices is None else tuple(args.prices)
    settings = {"store": args.store, "model_name": args.model_name, "chunk_size": args.chunk_size, "prices": prices}
    settings["recheck"] = args.recheck
    if args.method is None and benchmark is not None:
        forecast = benchmark.forecast(function, **settings)
    else:
        made = [benchmark] if benchmark is not None else [options.make(args, k=k) for k in different(args.k)]
        form = args.method_variant, args.calibration_number, args.method_option
        forecast = forecast_method(args.method or "vanilla", function, made, *form, **settings)
    if args.json is not None:
        write_text(args.json, [json.dumps(forecast.to_dict(), indent=2), "\n"])
    print(forecast, file=sys.stderr if str(args.json) == STDOUT else sys.stdout)


def _evaluate(
    args: argparse.Namespace, benchmark: Any, function: Any, saver: ResultSaver, settings: dict[str, Any]
) -> Any:
    """Return the result of a benchmark, of a method, or of several k; of these, each finished run is saved."""

    def save(table: Any) -> None:
        name_models(table, args.model_name or model_options.shown_model(args.model))
        saver.save(table)

    form, given = (args.method_variant, args.calibration_number), read_options(args.method_option)
    if benchmark is None:
        method = Method(args.method or "vanilla", function, *form, **given)
        return run_many_shot(method, lambda k: options.make(args, k=k), args.k, save, **settings)
    if args.method is None:
        return benchmark(function, **settings)
    if args.method == "all":
        return run_all(function, benchmark, *form, options=given, finished=save, **settings)
    return Method(args.method, function, *form, **given).run(benchmark, **settings)


def run(args: argparse.Namespace) -> int | None:
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
    args.model = model_options.model_of(args)
    early = {name: value for name in ("precision", "score") if (value := getattr(args, name)) is not None}
    _check_options(args, early)
    _refuse_options(args)
    inputs = _inputs(args)
    if args.dry_run:
        check_output(args.json, inputs=inputs, store=args.store)
    else:
        saver = ResultSaver(args, inputs, args.store)
    if args.benchmark == LONG_ICL:
        benchmark, function = long_icl_benchmark(args)
    else:
        benchmark = None if isinstance(args.k, list) else options.make(args)  # several k: one benchmark for each
        function, _ = model_options.load_model(args)
    if args.dry_run:
        _forecast(args, benchmark, function)
        return None
    saver.check(args.records, result=args.json)  # imported modules are inputs, too
    settings = {"model_name": args.model_name, "on_error": args.on_error, "return_outputs": args.records is not None}
    with explained_interrupt(args, saver):
        result = _evaluate(args, benchmark, function, saver, {**options.run_settings(args), **settings, **early})
    name_models(result, args.model_name or model_options.shown_model(args.model))

    def blocks() -> Iterable[Block]:
        yield from result.display_blocks() if args.method is None and benchmark is not None else display_methods(result)
        if args.published:
            yield from [Line(""), *display_published(compare_with_published(result))]

    return saver.finish(result, blocks)
