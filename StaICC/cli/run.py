"""``python -m StaICC run``: run a benchmark on a model and print its table.

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

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from StaICC.cli import long_icl
from StaICC.cli.benchmark_options import (
    Names,
    add_prompt_options,
    add_scoring_options,
    benchmark_help,
    check_text_options,
    inputs_of,
    make,
)
from StaICC.cli.files import STDOUT, add_result_outputs, check_output, has_content, show_result, write_text
from StaICC.errors import ArgumentError
from StaICC.inference import worker_processes
from StaICC.kernels.registry import DESCRIPTIONS, KERNELS, load_kernel
from StaICC.kernels.text_inference import load_for_text
from StaICC.methods.forecast import forecast_method
from StaICC.methods.run import different, format_methods, read_method, run_many_shot, run_method
from StaICC.results.published import compare_with_published, format_published


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "benchmark", choices=Names(long_icl.NAME), metavar="BENCHMARK", help=benchmark_help(long_icl.NAME)
    )
    kinds = "; ".join(f"{kind}: {text}" for kind, text in DESCRIPTIONS.items())
    parser.add_argument("--model", default="ppm", help=f"{kinds}; or the name of a plug-in, or package.module:name")
    add_model_options(parser)
    add_text_options(parser)
    parser.add_argument(
        "--method",
        metavar="METHOD",
        help="an inference method, such as hidden-calibration, or all: the ten of the paper's Table 2",
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
        default="paper",
        choices=("paper", "staicc", "0.1.1"),
        help="each method as in its paper, in the protocol of StaICC's Table 2, or as in the release",
    )
    add_prompt_options(parser, several=True)
    add_scoring_options(parser)
    parser.add_argument(
        "--precision",
        type=float,
        metavar="P",
        help="evaluate test rows in random order until half the width of the 95 %% interval of the mean score is P",
    )
    parser.add_argument(
        "--score", choices=("accuracy", "likelihood"), help="the score of --precision (default: accuracy)"
    )
    parser.add_argument(
        "--model-name", metavar="NAME", help="a name for the model in the store, in addition to its identity"
    )
    parser.add_argument(
        "--on-error",
        default="raise",
        choices=("raise", "collect"),
        help="stop at the first failed query, or continue and return a partial result",
    )
    add_execution_options(parser)
    group = parser.add_argument_group("forecast")
    group.add_argument(
        "--dry-run", action="store_true", help="forecast queries, tokens, time and cost after a probe of 4 seconds"
    )
    group.add_argument(
        "--prices",
        nargs=2,
        type=float,
        metavar=("INPUT", "OUTPUT"),
        help="cost of a million tokens that the model reads, and of a million that it generates",
    )
    add_result_outputs(parser)
    long_icl.add_run_arguments(parser)


class _OfModel(argparse.Action):
    """Adds an option to the model; of several models, to the last one before it."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if ";" in values:
            parser.error(f"--model-option: got {values!r}, expected one NAME=VALUE without a semicolon")
        if isinstance(namespace.model, str):
            namespace.model_option = [*namespace.model_option, values]
        elif not namespace.model:
            parser.error(f"--model-option {values}: got no --model before it. Put it after the model that it is about")
        else:
            namespace.model = [*namespace.model[:-1], f"{namespace.model[-1]};{values}"]


def add_text_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of models that generate text."""
    parser.add_argument(
        "--answers",
        choices=("text", "labels"),
        help="generate text and find its label, or score the labels (default; long-icl: text, if the model can)",
    )
    parser.add_argument("--max-tokens", type=int, metavar="N", help="of a generated text (default 100)")
    parser.add_argument("--stop", nargs="+", metavar="TEXT", help="texts before which a generated text ends")


def add_model_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of the model, for shells in which a semicolon ends the command."""
    parser.add_argument(
        "--model-option",
        action=_OfModel,
        default=[],
        metavar="NAME=VALUE",
        help="an option of the model (the last one before it); repeat it for several (python -m StaICC models lists "
        "them)",
    )


def model_of(args: argparse.Namespace) -> str:
    """Return the name of the model with its options."""
    return ";".join([args.model, *args.model_option])


def add_execution_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that evaluates a model: how to read scores, store, workers, progress."""
    parser.add_argument(
        "--outputs",
        default="auto",
        choices=("auto", "probabilities", "logits"),
        help="how to read the scores of the model",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="cache predictions in this file; the same command then continues an interrupted run",
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="run N processes, each with its own model, on the GPUs of CUDA_VISIBLE_DEVICES in turn",
    )
    parser.add_argument(
        "--no-recheck",
        action="store_false",
        dest="recheck",
        help="do not compute about 30 of the stored predictions again for comparison",
    )
    parser.add_argument(
        "--chunk-size",
        type=int,
        metavar="N",
        help="queries that are computed and stored together; a crash loses at most this many",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that :func:`add_execution_options` added: all but ``outputs``."""
    return {
        "store": args.store,
        "executor": None if args.workers is None else worker_processes(args.workers),
        "chunk_size": args.chunk_size,
        "recheck": args.recheck,
        "progress": False if args.quiet else None,
    }


def _prepare(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the benchmark (for several k: None) and the kernel."""
    long_icl.refuse(args)
    benchmark = None if isinstance(args.k, list) else make(args)
    return benchmark, load_model(args)


def load_model(args: argparse.Namespace) -> Any:
    """Return the kernel that ``--model`` names, or the function that generates text with it."""
    if args.answers == "text":
        return load_for_text(args.model, args.max_tokens, args.stop, strip_blank=True)
    check_text_options(args)
    return load_kernel(args.model)


def _made(args: argparse.Namespace, k: int) -> Any:
    return make(argparse.Namespace(**{**vars(args), "k": k}))


def shown_model(spec: str) -> str:
    """Return the model name for a result: the given name without folders and addresses, for privacy.

    Args:
        spec: The value of ``--model``.

    Example:
        >>> shown_model("smollm2"), shown_model("hf:EleutherAI/pythia-70m"), shown_model("/home/me/model.gguf")
        ('smollm2', 'hf:EleutherAI/pythia-70m', 'model.gguf')
        >>> shown_model("openai:http://localhost:8000/v1#name;api=chat"), shown_model("hf:./runs/mine;adapter=./a")
        ('openai:name', 'hf:mine')
    """
    spec = spec.partition(";")[0]
    kind, colon, rest = spec.partition(":")
    if kind == "openai":
        return f"{kind}{colon}{rest.partition('#')[2] or 'the model of its server'}"
    if kind in KERNELS and kind != "hf":
        return spec if kind == "litellm" else kind
    name = rest if kind == "hf" else spec
    if name.startswith((".", "/", "~", "\\")) or Path(name).exists():
        name = PurePath(name).name
    return f"hf:{name}" if kind == "hf" else name


_MODEL_FILES = ("*config.json", "*.safetensors*", "*.bin*", "*.gguf", "*token*", "vocab*", "merges.txt", "*.py")
"""The files of a checkpoint folder. Outputs must not overwrite them, but may be saved next to them."""


def model_files(model: str) -> list[Path]:
    """Return the files of a model.

    Args:
        model: The value of ``--model``.
    """
    named = model.partition(":")[2].partition(";")[0]
    places = [Path(part) for part in [named, *re.split("[;=#]", model)] if part]
    found = [*places]
    for place in places:
        found += [file for pattern in _MODEL_FILES for file in place.glob(pattern)] if place.is_dir() else []
    return found


def _inputs(args: argparse.Namespace) -> list[Path]:
    """Return the files that a run reads: those of the model and of the data of LongICL."""
    found = [*model_files(args.model), *inputs_of(args)]
    if args.data_dir is not None:
        from StaICC.benchmarks.long_icl import cards

        found += [
            args.data_dir / name
            for card in cards().values()
            for files in card.files.values()
            for file in files
            for name in file.names
        ]
    return found


def run(args: argparse.Namespace) -> int:
    """Run the benchmark.

    Returns:
        The exit status: 1 if a query failed.

    Raises:
        KeyboardInterrupt: The user interrupted the run; the text says what was stored.
    """
    args.model = model_of(args)
    check = partial(check_output, args.json, args.records, inputs=_inputs(args), store=args.store)
    check()
    if args.records is not None and str(args.records) == STDOUT:
        raise ArgumentError("--records needs a file: got '-'. On most systems /dev/stdout works")
    if args.prices is not None and not args.dry_run:
        raise ArgumentError("--prices belongs to a forecast. Add --dry-run")
    if args.records is not None and args.dry_run:
        raise ArgumentError("--records is for a run: got --dry-run, which keeps no predictions")
    if args.method_option and args.method is None:
        raise ArgumentError("--method-option needs a method. Choose one with --method")
    several = isinstance(args.k, list)
    if several and args.method == "all":
        raise ArgumentError(f"got {len(args.k)} k for all methods, expected one. Choose one method with --method")
    early = {"precision": args.precision, "score": args.score}
    wanted = {name: value for name, value in early.items() if value is not None}
    if wanted and (args.method is not None or args.benchmark not in ("normal",) or several):
        given = f"--method {args.method}" if args.method is not None else args.benchmark
        given += f" with {len(args.k)} k" if several else ""
        raise ArgumentError(
            f"--{next(iter(wanted))} is for the benchmark normal with one k and without a method: got {given}"
        )
    benchmark, function = long_icl.prepare(args) if args.benchmark == long_icl.NAME else _prepare(args)
    if args.dry_run:
        if wanted:
            raise ArgumentError(f"--dry-run is for a complete run: got --{next(iter(wanted))}, which ends one early")
        prices = None if args.prices is None else tuple(args.prices)
        chosen = {"store": args.store, "model_name": args.model_name, "chunk_size": args.chunk_size, "prices": prices}
        if args.method is None and not several:
            found = benchmark.forecast(function, **chosen)
        else:
            made = [_made(args, k) for k in different(args.k)] if several else [benchmark]
            how = {"variant": args.method_variant, "options": args.method_option}
            found = forecast_method(args.method or "vanilla", function, made, **how, **chosen)
        if args.json is not None:
            write_text(args.json, [json.dumps(found.to_dict(), indent=2), "\n"])
        print(found, file=sys.stderr if str(args.json) == STDOUT else sys.stdout)
        return 0
    replaces = has_content(args.json)  # several runs are saved one by one
    check()  # the modules of the model and the metrics are imported now; their files are inputs
    how = {
        **run_settings(args),
        "model_name": args.model_name,
        "on_error": args.on_error,
        "return_outputs": args.records is not None,
        **wanted,
    }

    def named(found: Any) -> Any:
        for one in found.results():
            one.provenance = one.provenance.named(shown_model(args.model))
        return found

    def save(table: Any) -> None:
        if args.json is not None and str(args.json) != STDOUT:
            named(table).save(args.json)

    try:
        variant, options = args.method_variant, args.method_option
        if several:
            method = read_method(args.method or "vanilla", function, variant, options=options)
            result: Any = run_many_shot(method, partial(_made, args), args.k, save, **how)
        elif args.method is None:
            result = benchmark(function, **how)
        else:
            result = run_method(
                args.method, function, lambda: benchmark, variant, options=options, finished=save, **how
            )
    except KeyboardInterrupt:
        kept = "no predictions were stored; with --store FILE a run can continue"
        if args.store is not None:
            kept = f"completed predictions are in {args.store}; the same command continues"
        raise KeyboardInterrupt(kept) from None
    named(result)
    check()
    shown = [str(result) if args.method is None and not several else format_methods(result)]
    if args.published:
        shown += ["", format_published(compare_with_published(result))]
    show_result(result, args.json, args.records, "\n".join(shown), replaces)
    return 0 if result.complete else 1
