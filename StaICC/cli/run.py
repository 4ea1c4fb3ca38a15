"""The command ``run``: a benchmark on a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.argument_syntax import flag
from StaICC.benchmarks.forecast import ForecastOptions
from StaICC.benchmarks.race import StoppingRule
from StaICC.benchmarks.running import Goal
from StaICC.cli import model_options, options
from StaICC.cli.evaluating import explained_interrupt, name_models
from StaICC.cli.long_icl_options import (
    datasets_for_label_scores,
    long_icl_files,
    parsing_of_long_icl,
    refuse_label_scores,
)
from StaICC.cli.output import STDOUT, add_prices, check_output, prices_of, write_text
from StaICC.cli.saving import ResultSaver, add_result_outputs
from StaICC.comparing.published_comparison import compare_with_published, display_published
from StaICC.errors import ArgumentError
from StaICC.inference.runner import RunOptions
from StaICC.kernels.registry import DESCRIPTIONS
from StaICC.layout import Block, Line
from StaICC.methods.forecast import forecast_method
from StaICC.methods.many_shot import different, refuse_groups, run_many_shot
from StaICC.methods.options import read_options
from StaICC.methods.run import Method, chosen_methods, run_all
from StaICC.methods.table import display_methods
from StaICC.safe_text import one_line

_EARLY_STOPPING_SCORES = ("accuracy", "likelihood")
"""The scores that are means over test rows."""

_METHOD_VARIANT = "paper"
_CALIBRATION_NUMBER = 128
"""Training prompts of a method for each data set, as in the paper of StaICC."""

_NO_METHOD = "vanilla"
"""The method that is the plain inference function, for runs that need a method."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    options.add_benchmark(parser)
    parser.set_defaults(setting="")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read options from a run file (TOML); those of the command line replace them",
    )
    kinds = "; ".join(f"{kind}: {text}" for kind, text in DESCRIPTIONS.items())
    model_options.add_model(parser, f"{kinds}; or the name of a plug-in, or package.module:name", default="ppm")
    model_options.add_text_options(parser)
    _add_method_options(parser)
    options.add_benchmark_prompt_options(parser, several=True)
    options.add_scoring_options(parser)
    _add_early_stopping_options(parser)
    _add_run_options(parser)
    options.add_execution_options(parser)
    _add_forecast_options(parser)
    _add_task_options(parser)
    add_result_outputs(parser)
    parser.add_argument(
        "--published", action="store_true", default=None, help="compare with the published figures too (long-icl)"
    )


def _add_method_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose an inference method, and those of the method."""
    parser.add_argument(
        "--method", help="an inference method, such as hidden-calibration, or all: the ten of the paper's Table 2"
    )
    parser.add_argument(
        "--method-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the method; repeat it for several (python -m StaICC show methods lists them)",
    )
    parser.add_argument(
        "--method-variant",
        default=_METHOD_VARIANT,
        choices=("paper", "staicc", "0.1.1"),
        help="each method as in its paper, in the protocol of StaICC's Table 2, or as in the release",
    )
    parser.add_argument(
        "--calibration-number",
        type=int,
        default=_CALIBRATION_NUMBER,
        metavar="N",
        help=f"training prompts of the method for each data set (default {_CALIBRATION_NUMBER})",
    )


def _add_early_stopping_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run that ends when its score is known precisely enough."""
    parser.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="evaluate test rows in random order until half the width of the 95 %% interval of the mean score is P",
    )
    parser.add_argument("--score", choices=_EARLY_STOPPING_SCORES, help="the score of --precision (default: accuracy)")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only ``run`` has, whatever the benchmark is."""
    parser.add_argument(
        "--model-name", metavar="NAME", help="a name for the model in the store, in addition to its identity"
    )
    parser.add_argument(
        "--on-error",
        default="raise",
        choices=("raise", "collect"),
        help="stop at the first failed query, or continue and return a partial result",
    )


def _add_forecast_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--dry-run``, which forecasts what a run costs, and its options."""
    group = parser.add_argument_group("forecast")
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="forecast queries, tokens, time and cost, after a probe of 4 seconds; nothing is sent to a server whose "
        "requests may cost money",
    )
    group.add_argument(
        "--probe-seconds",
        type=float,
        metavar="SECONDS",
        help="duration of the probe of --dry-run, also with requests that may cost money; 0 for none",
    )
    group.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="counts the tokens of a served model for --dry-run: a local model, such as hf:NAME or a folder, or "
        "package.module:name of a function (default: an estimate by bytes)",
    )
    add_prices(group)


def _add_task_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only some benchmarks have."""
    group = parser.add_argument_group("generalisation")
    group.add_argument("--draws", type=int, metavar="N", help="lists of demonstrations (default 4)")
    group.add_argument("--templates", type=int, metavar="N", help="templates, at most 9 (default 3)")
    others = parser.add_argument_group("domain-bias, post-bias, triplet-bias, gler")
    others.add_argument(
        "--domain-query-length", type=int, metavar="N", help="words of a query of random words (default 128)"
    )
    others.add_argument("--interpolations", type=int, metavar="N", help="shares of wrong labels of gler (default 5)")


def _input_files(args: argparse.Namespace) -> list[Path]:
    """Return the files that a run reads, which no output may overwrite: those of the model and of the data."""
    files = model_options.model_files(args.model) + options.inputs_of(args)
    if args.data_dir is not None:
        files += long_icl_files(args.data_dir)
    return files


def _early_stopping_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of early stopping that were given, as arguments of a benchmark."""
    settings: dict[str, Any] = {}
    if args.precision is not None:
        settings["precision"] = args.precision
    if args.score is not None:
        settings["score"] = args.score
    return settings


# Checks, before anything is loaded.


def _check_options(args: argparse.Namespace, early_stopping: dict[str, Any]) -> None:
    """Refuse options that do not belong together.

    Args:
        args: The arguments of ``run``.
        early_stopping: The options of early stopping that were given.

    Raises:
        ArgumentError: Two options contradict each other, or one needs another that is missing.
    """
    if str(args.records) == STDOUT:
        raise ArgumentError("--records needs a file: got '-'. On most systems /dev/stdout works")
    if args.records is not None and args.dry_run:
        raise ArgumentError("--records is for a run: got --dry-run, which keeps no predictions")

    setting = f"{args.benchmark}, k {args.k}, method {args.method or 'none'}"
    if _is_many_shot(args) and args.method == "all":
        raise ArgumentError(f"got {setting}, expected one k. Choose one method with --method")
    if early_stopping:
        first_option = next(iter(early_stopping))
        _check_early_stopping(args, setting, option=flag(first_option))


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments of ``run`` that do not belong together, before anything is loaded.

    Raises:
        ArgumentError: There are such arguments.
    """
    model_options.model_of(args)
    _check_options(args, _early_stopping_settings(args))
    options.refuse_options_of_other_benchmarks(args)


def _is_many_shot(args: argparse.Namespace) -> bool:
    """Return whether ``--k`` has several numbers of demonstrations, each of them a run."""
    return isinstance(args.k, list)


def _check_early_stopping(args: argparse.Namespace, setting: str, option: str) -> None:
    """Refuse a run that cannot end early.

    Args:
        args: The arguments of ``run``.
        setting: The benchmark, k and method, for the message.
        option: The option of early stopping that was given, for the message.

    Raises:
        ArgumentError: The run is not one of the benchmark normal with one k and without a method; or it is a forecast;
            or a score is given without a precision.
    """
    if args.benchmark != "normal" or _is_many_shot(args) or args.method is not None:
        raise ArgumentError(f"{option} is for the benchmark normal with one k and without a method: got {setting}")
    if args.dry_run:
        raise ArgumentError(f"--dry-run is for a complete run: got {option}, which ends one early")
    Goal(args.precision, args.score)  # refuses a score without a precision, and invalid values


# The run.


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run whose arguments, data, model and method are checked; nothing is predicted yet."""

    args: argparse.Namespace
    """The arguments of ``run``."""
    benchmarks: Sequence[Any]
    """The benchmark; if ``--k`` has several numbers, one for each of them, the smallest number first."""
    function: Any
    """The inference function."""
    method: Method | None
    """The method; ``None`` without a method and for all methods."""
    saver: ResultSaver | None
    """Saves the result; ``None`` for a forecast."""
    settings: Mapping[str, Any]
    """Arguments of the run, or of the forecast."""

    @property
    def is_benchmark_alone(self) -> bool:
        """Whether one benchmark is evaluated once, without a method: the result is that of the benchmark."""
        return self.args.method is None and not _is_many_shot(self.args)


def prepare(args: argparse.Namespace) -> PreparedRun:
    """Do all that a run does before its first prediction.

    A sweep prepares each of its runs before the first one, so that a mistake in a later run is found at once.

    Args:
        args: The arguments of ``run``, which are not changed.

    Raises:
        StaICCError: An argument, the data, the model or the method is invalid, or a result cannot be saved.
    """
    check_arguments(args)
    args = argparse.Namespace(**vars(args))
    args.model = model_options.model_of(args)
    input_files = _input_files(args)
    saver = None
    if args.dry_run:
        check_output(args.json, inputs=input_files, store=args.store)
        settings = _forecast_settings(args)
    else:
        saver = ResultSaver(args, input_files, args.store)
        settings = _run_settings(args)

    benchmarks, function = _benchmarks_and_function(args)
    if saver is not None:
        # Checked again: modules that were imported for the model or the benchmark are input files, too.
        saver.check(args.records, result=args.json)
    if args.precision is not None:
        StoppingRule.for_experimentors("precision", args.precision, args.score, benchmarks[0].experimentor)
    return PreparedRun(args, benchmarks, function, _method_of(args, function), saver, settings)


def _forecast_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a forecast.

    Raises:
        ArgumentError: One is invalid.
    """
    settings = {
        "store": args.store,
        "model_name": args.model_name,
        "chunk_size": args.chunk_size,
        "prices": prices_of(args),
        "currency": args.currency,
        "probe_seconds": args.probe_seconds,
        "tokenizer": args.tokenizer,
        "recheck": args.recheck,
    }
    # Both refuse invalid values here, before data and model are loaded.
    ForecastOptions(**settings)
    RunOptions(chunk_size=args.chunk_size)
    return settings


def _run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a run.

    Raises:
        ArgumentError: One is invalid.
    """
    RunOptions(chunk_size=args.chunk_size)  # refuses an invalid size
    return {
        **options.run_settings(args),
        **_early_stopping_settings(args),
        "model_name": args.model_name,
        "on_error": args.on_error,
        "return_outputs": args.records is not None,
    }


def _method_of(args: argparse.Namespace, function: Any) -> Method | None:
    """Return the method of a run; ``None`` for all methods, and for a run without a method.

    A run with several k needs a method, so it has the plain inference function as one.

    Raises:
        StaICCError: The method or an option of it is unknown or invalid, or the function lacks what it needs.
    """
    method_options = read_options(args.method_option)
    if args.method == "all":
        # They are made again when they run. Here, an error is found before the first prediction.
        chosen_methods(function, None, method_options, args.method_variant, args.calibration_number)
        return None
    name = args.method
    if name is None and _is_many_shot(args):
        name = _NO_METHOD
    if name is None:
        return None
    return Method(name, function, args.method_variant, args.calibration_number, **method_options)


def _benchmarks_and_function(args: argparse.Namespace) -> tuple[list[Any], Any]:
    """Return the benchmark, or one for each k, the smallest first, and the inference function.

    Raises:
        StaICCError: An argument, the data or the model is invalid.
    """
    if options.is_long_icl(args):
        benchmark, function = _long_icl_and_function(args)
        return [benchmark], function
    if options.is_helmet(args):
        benchmark, function = _helmet_and_function(args)
        return [benchmark], function
    if _is_many_shot(args):
        benchmarks = [options.make(args, k=k) for k in different(args.k)]
        refuse_groups(benchmarks)
    else:
        benchmarks = [options.make(args)]
    return benchmarks, model_options.load_model(args).function


def _long_icl_and_function(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the benchmark LongICL and the inference function.

    By default, it generates text if the model can; methods need a function that scores labels.
    """
    model = model_options.load_model(
        args, prefers_text=args.method is None, as_published=parsing_of_long_icl(args) == "published"
    )
    changes = {}
    if not model.generates_text and args.experiment is None:
        changes["datasets"] = datasets_for_label_scores(options.datasets_of(args))
    benchmark = options.make(args, **changes)
    refuse_label_scores(benchmark, model.function)
    return benchmark, model.function


def _helmet_and_function(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the benchmark HELMET and the inference function, as for LongICL."""
    as_published = args.parsing in (None, "published")
    model = model_options.load_model(args, prefers_text=args.method is None, as_published=as_published)
    return options.make(args), model.function


def _forecast(prepared: PreparedRun) -> None:
    """Forecast the cost of a run, and print it as a table; with ``--json``, also write it as JSON.

    Args:
        prepared: The run, with its model and its benchmarks.
    """
    args = prepared.args
    if "--output" in args.given_options:
        print(f"--dry-run saves no result: --output {one_line(str(args.output))} is not used", file=sys.stderr)
    if prepared.is_benchmark_alone:
        forecast = prepared.benchmarks[0].forecast(prepared.function, **prepared.settings)
    else:
        # A method, or several numbers of demonstrations, which are run with no method too.
        method = _NO_METHOD if args.method is None else args.method
        forecast = forecast_method(
            method,
            prepared.function,
            prepared.benchmarks,
            args.method_variant,
            args.calibration_number,
            args.method_option,
            **prepared.settings,
        )
    stream_of_table = sys.stdout
    if args.json is not None:
        write_text(args.json, [json.dumps(forecast.to_dict(), indent=2), "\n"])
        if str(args.json) == STDOUT:
            stream_of_table = sys.stderr
    print(forecast, file=stream_of_table)


def _evaluate(prepared: PreparedRun, saver: ResultSaver) -> Any:
    """Evaluate a benchmark, a method, all methods, or a method at several k.

    Args:
        prepared: The run.
        saver: Saves the table of several methods or k after each of them.

    Returns:
        The result, or the group of results.
    """
    args = prepared.args

    def save_finished_runs(table: Any) -> None:
        name_models(table, _model_name(args))
        saver.save(table)

    if args.method == "all":
        return run_all(
            prepared.function,
            prepared.benchmarks[0],
            args.method_variant,
            args.calibration_number,
            options=read_options(args.method_option),
            finished=save_finished_runs,
            **prepared.settings,
        )
    if prepared.method is None:
        return prepared.benchmarks[0](prepared.function, **prepared.settings)
    if not _is_many_shot(args):
        return prepared.method.run(prepared.benchmarks[0], **prepared.settings)

    # The numbers of demonstrations of --k, each once; each has a benchmark.
    benchmark_by_k = dict(zip(different(args.k), prepared.benchmarks, strict=True))
    return run_many_shot(prepared.method, lambda k: benchmark_by_k[k], args.k, save_finished_runs, **prepared.settings)


def _model_name(args: argparse.Namespace) -> str:
    """Return the name of the model that results show."""
    return args.model_name or model_options.shown_model(args.model)


def _printed_blocks(prepared: PreparedRun, result: Any) -> Iterable[Block]:
    """Yield the table of a result, and the published figures next to it where ``--published`` asks for them."""
    if prepared.is_benchmark_alone:
        yield from result.display_blocks()
    else:
        yield from display_methods(result)
    if prepared.args.published:
        yield Line("")
        yield from display_published(compare_with_published(result))


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
      python -m StaICC run --config run.toml --limit 50
      python -m StaICC run suite --model smollm2 --store run.sqlite --workers 2
      python -m StaICC run long-icl --data-dir DIR --rounds 1 2 --limit 20
      python -m StaICC run long-icl --experiment context --levels 4K 8K 16K --dry-run
    """
    return run_prepared(prepare(args), args)


def run_prepared(prepared: PreparedRun, args: argparse.Namespace) -> int | None:
    """Predict, score, save and print a run, or forecast its cost.

    Args:
        prepared: The run.
        args: The arguments from which it was prepared.
    """
    if prepared.saver is None:
        _forecast(prepared)
        return None

    with explained_interrupt(args, prepared.saver):
        result = _evaluate(prepared, prepared.saver)
    name_models(result, _model_name(prepared.args))
    return prepared.saver.finish(result, lambda: _printed_blocks(prepared, result))
