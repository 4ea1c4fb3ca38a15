"""``python -m StaICC run``: run a benchmark on a model and print its table."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path, PurePath
from typing import Any, TextIO

from StaICC.benchmarks.catalogue import BENCHMARKS, make_benchmark
from StaICC.benchmarks.statistics import Statistics
from StaICC.cli import long_icl
from StaICC.cli.files import STDOUT, check_output
from StaICC.inference import Pace, Progress, worker_processes
from StaICC.inference.tqdm_progress import tqdm_progress
from StaICC.prefabricate_inference.method_table import format_methods
from StaICC.prefabricate_inference.methods import run_method
from StaICC.prefabricate_inference.models import KINDS, load_kernel
from StaICC.results import Result, save_records

__all__ = ["EPILOG", "add_arguments", "run", "shown_model"]

EPILOG = """\
examples:
  python -m StaICC run normal --datasets mini
  python -m StaICC run normal --model smollm2 --datasets TREC AGNews --limit 50
  python -m StaICC run diagnosis --datasets mini --json diagnosis.json
  python -m StaICC run normal --method contextual-calibration --datasets mini
  python -m StaICC run suite --model smollm2 --store run.sqlite --workers 2
  python -m StaICC run long-icl --data-dir DIR --rounds 1 2 --test-number 20
"""

_REDRAW_SECONDS = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    names = [*BENCHMARKS, long_icl.NAME]
    parser.add_argument("benchmark", choices=names, metavar="BENCHMARK", help=", ".join(names))
    parser.add_argument(
        "--model", default="ppm", help="; ".join(f"{kind}: {text}" for kind, (_, _, text) in KINDS.items())
    )
    parser.add_argument(
        "--method",
        metavar="METHOD",
        help="an inference method over the model, such as hidden-calibration, or all: the ten of the paper's Table 2",
    )
    parser.add_argument(
        "--method-variant",
        default="paper",
        choices=("paper", "0.1.1"),
        help="each method as its paper or the release has it",
    )
    parser.add_argument("--k", type=int, default=4, help="demonstrations per prompt (default 4)")
    parser.add_argument("--noisy-channel", action="store_true", help="ask for the text given the label")
    parser.add_argument(
        "--datasets", nargs="+", metavar="NAME", help="data sets (default: the ten); 'mini' needs no data"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="ask only the first N test rows of each data set (a trial)"
    )
    parser.add_argument("--metrics", default="standard", help="standard, or 0.1.1: the release bug for bug")
    parser.add_argument(
        "--outputs", default="auto", choices=("auto", "probabilities", "logits"), help="how to read the model's numbers"
    )
    parser.add_argument(
        "--tried", type=int, default=1, metavar="T", help="settings tried of which this is the best (random baseline)"
    )
    parser.add_argument("--store", type=Path, metavar="FILE", help="keep answers here; the same command goes on later")
    parser.add_argument(
        "--model-name", metavar="NAME", help="store the answers under this name (default: the model's fingerprint)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="ask in N processes, each with a model of its own, on the GPUs of CUDA_VISIBLE_DEVICES in turn",
    )
    parser.add_argument(
        "--chunk-size", type=int, metavar="N", help="queries that are asked and stored together: what a kill may lose"
    )
    parser.add_argument(
        "--on-error",
        default="raise",
        choices=("raise", "collect"),
        help="stop at the first query without an answer, or go on and give a partial result",
    )
    parser.add_argument("--records", type=Path, metavar="FILE", help="save the answers of each query as JSON Lines")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=Path(STDOUT),
        metavar="FILE",
        help="save the result; without FILE, print it as JSON instead of the table",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    long_icl.add_run_arguments(parser)


def _span(seconds: float) -> str:
    """Say a time in the unit that fits it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """One line on a terminal, redrawn; nothing at all elsewhere.

    Args:
        stream: Where to draw.
        quiet: Never draw.
    """

    def __init__(self, stream: TextIO, quiet: bool) -> None:
        self._stream = stream
        self._draw = not quiet and stream.isatty()
        self._drawn = 0.0
        self._width = 0
        self._started = time.monotonic()
        self._pace = Pace()

    def __call__(self, progress: Progress) -> None:
        """Draw how far the run is, how fast, and how long it takes yet, at most a few times a second."""
        if not self._draw:
            return
        estimate = self._pace.update(progress)
        now = time.monotonic()
        if now - self._drawn < _REDRAW_SECONDS and progress.done < progress.total:
            return
        self._drawn = now
        text = f"{progress.where}: {progress.done}/{progress.total}"
        if progress.parts > 1:
            text = f"[{progress.number + 1}/{progress.parts}] {text}"
        if progress.failed:
            text += f" ({progress.failed} failed)"
        text += f", {_span(now - self._started)}"
        if estimate.rate is not None and estimate.seconds_left is not None:
            text += f", {estimate.rate:.3g}/s, {_span(estimate.seconds_left)} left"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """Wipe the line."""
        if self._draw and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0


def _prepare(args: argparse.Namespace) -> tuple[Any, Any]:
    """Make the benchmark and the kernel."""
    long_icl.refuse(args)
    benchmark = make_benchmark(
        args.benchmark,
        k=args.k,
        noisy_channel=args.noisy_channel,
        metrics=args.metrics,
        datasets=args.datasets,
        limit=args.limit,
        outputs=args.outputs,
        statistics=Statistics(tried=args.tried),
    )
    return benchmark, load_kernel(args.model)


def shown_model(spec: str) -> str:
    """Name a model in a result: as it was given, without folders and addresses, which say more about the user.

    Args:
        spec: What ``--model`` was given.

    Example:
        >>> shown_model("smollm2"), shown_model("hf:EleutherAI/pythia-70m"), shown_model("/home/me/model.gguf")
        ('smollm2', 'hf:EleutherAI/pythia-70m', 'model.gguf')
        >>> shown_model("openai:http://localhost:8000/v1#name"), shown_model("hf:./runs/mine")
        ('openai:name', 'hf:mine')
    """
    kind, colon, rest = spec.partition(":")
    if kind == "openai":
        return f"{kind}{colon}{rest.partition('#')[2] or 'the model of its server'}"
    if kind in KINDS and kind != "hf":
        return kind
    name = rest if kind == "hf" else spec
    if name.startswith((".", "/", "~", "\\")) or Path(name).exists():
        name = PurePath(name).name
    return f"hf:{name}" if kind == "hf" else name


def run(args: argparse.Namespace) -> int:
    """Run the benchmark.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status: 1 if some query has no answer.

    Raises:
        KeyboardInterrupt: The user interrupted; its text says what is kept.
    """
    check_output(args.json, args.records)
    benchmark, function = long_icl.prepare(args) if args.benchmark == long_icl.NAME else _prepare(args)
    line = tqdm_progress(sys.stderr, args.quiet) or ProgressLine(sys.stderr, args.quiet)
    how = {
        "progress": line,
        "store": args.store,
        "model_name": args.model_name,
        "executor": None if args.workers is None else worker_processes(args.workers),
        "chunk_size": args.chunk_size,
        "on_error": args.on_error,
        "return_outputs": args.records is not None,
    }
    try:
        result: Any = (
            benchmark(function, **how)
            if args.method is None
            else run_method(args.method, function, lambda: benchmark, args.method_variant, **how)
        )
    except KeyboardInterrupt:
        kept = "nothing is kept; with --store FILE the same command would go on"
        if args.store is not None:
            kept = f"what was answered is kept in {args.store}; the same command goes on"
        raise KeyboardInterrupt(kept) from None
    finally:
        line.close()
    for one in [result] if isinstance(result, Result) else result.results():
        one.environment["model"] = args.model_name or shown_model(args.model)
    if args.json is not None and str(args.json) != STDOUT:  # before printing: the reader of the table may go away
        result.save(args.json)
    if args.records is not None:
        save_records(result, args.records)
    if args.json is not None and str(args.json) == STDOUT:
        print(json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False))
    else:
        print(result if args.method is None else format_methods(result))
        if args.published:
            print("", long_icl.published(result), sep="\n")
    return 0 if result.complete else 1
