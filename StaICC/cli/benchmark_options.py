"""The options that say which prompts are asked: the same words for every command that writes or scores prompts."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from StaICC.benchmarks.catalogue import BENCHMARKS, make_benchmark
from StaICC.benchmarks.statistics import Statistics

__all__ = ["add_benchmark", "add_prompt_options", "add_scoring_options", "make", "repeated"]


def add_benchmark(parser: argparse.ArgumentParser, option: bool = False) -> None:
    """Add the name of the benchmark.

    Args:
        parser: The parser of the subcommand.
        option: As the option ``--benchmark``, which is ``normal`` by default, instead of a word of its own.
    """
    names, text = list(BENCHMARKS), ", ".join(BENCHMARKS)
    if option:
        parser.add_argument("--benchmark", choices=names, default="normal", metavar="BENCHMARK", help=text)
    else:
        parser.add_argument("benchmark", choices=names, metavar="BENCHMARK", help=text)


def add_prompt_options(parser: argparse.ArgumentParser) -> None:
    """Add what the prompts depend on.

    Args:
        parser: The parser of the subcommand.
    """
    parser.add_argument("--k", type=int, default=4, help="demonstrations per prompt (default 4)")
    parser.add_argument("--noisy-channel", action="store_true", help="ask for the text given the label")
    parser.add_argument(
        "--datasets", nargs="+", metavar="NAME", help="data sets (default: the ten); 'mini' needs no data"
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="ask only the first N test rows of each data set (a trial)"
    )


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add what scores depend on beside the prompts.

    Args:
        parser: The parser of the subcommand.
    """
    parser.add_argument("--metrics", default="standard", help="standard, or 0.1.1: the release bug for bug")
    parser.add_argument(
        "--tried", type=int, default=1, metavar="T", help="settings tried of which this is the best (random baseline)"
    )


def make(args: argparse.Namespace) -> Any:
    """Make the benchmark that the options describe.

    Args:
        args: The parsed arguments.

    Returns:
        A benchmark, or a group of benchmarks.

    Raises:
        StaICCError: A name is unknown, a value unfit, or data is missing.
    """
    scoring: dict[str, Any] = {}
    if hasattr(args, "metrics"):
        scoring = {"metrics": args.metrics, "statistics": Statistics(tried=args.tried)}
    return make_benchmark(
        args.benchmark,
        k=args.k,
        noisy_channel=args.noisy_channel,
        datasets=args.datasets,
        limit=args.limit,
        **scoring,
    )


def repeated(args: argparse.Namespace) -> str:
    """Return the options that differ from their defaults, as one would type them again, a blank before each.

    Args:
        args: The parsed arguments.
    """
    words: list[str] = []
    if args.k != 4:
        words += ["--k", str(args.k)]
    if args.noisy_channel:
        words.append("--noisy-channel")
    if args.limit is not None:
        words += ["--limit", str(args.limit)]
    if args.datasets is not None:
        words += ["--datasets", *args.datasets]
    return "".join(f" {shlex.quote(word)}" for word in words)
