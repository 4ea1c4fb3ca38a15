"""The options that choose benchmark, prompts and metrics, shared by several commands."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from StaICC.benchmarks.catalogue import BENCHMARKS, make_benchmark
from StaICC.benchmarks.experimentor import SAMPLERS
from StaICC.benchmarks.task import Statistics
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, StaICCError
from StaICC.inference import Unparsed
from StaICC.safe_text import one_line

METRICS_HELP = (
    "standard, or 0.1.1 (as in that release, including errors); add metrics with +: standard+my_package.metrics:f2"
)


class Names:
    """The names of benchmarks as choices of an argument; plug-ins are loaded only if a name is not built in.

    Args:
        more: Further names.
    """

    def __init__(self, *more: str) -> None:
        self._more = more

    def __contains__(self, name: object) -> bool:
        return name in self._more or BENCHMARKS.knows(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*BENCHMARKS.names(), *self._more))


def benchmark_help(*more: str) -> str:
    """Return the help text of the benchmark argument.

    Args:
        more: Further names.
    """
    return f"{', '.join([*BENCHMARKS, *more])}, the name of a plug-in, or package.module:name"


def add_benchmark(parser: argparse.ArgumentParser, option: bool = False) -> None:
    """Add the benchmark argument.

    Args:
        parser: The parser of the subcommand.
        option: Add it as the option ``--benchmark`` (default ``normal``), not as a positional argument.
    """
    text = benchmark_help()
    if option:
        parser.add_argument("--benchmark", choices=Names(), default="normal", metavar="BENCHMARK", help=text)
    else:
        parser.add_argument("benchmark", choices=Names(), metavar="BENCHMARK", help=text)


def _numbers(text: str) -> int | list[int]:
    """Read one number, or several with commas between them."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number, or several such as 4,16,64") from None
    return found if len(found) > 1 else found[0]


def add_prompt_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options that change the prompts.

    Args:
        parser: The parser of the subcommand.
        several: Whether ``--k`` takes several numbers.
    """
    more = "; several with commas, such as 4,16,64, for a curve" if several else ""
    parser.add_argument(
        "--k",
        type=_numbers if several else int,
        default=4,
        metavar="K",
        help=f"demonstrations per prompt (default 4){more}",
    )
    parser.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default="default",
        help="demonstrations as published; or nested: those of a smaller k are the first ones of a larger; or "
        "nested-shared: nested, the same for all test rows of a repeat",
    )
    parser.add_argument("--noisy-channel", action="store_true", help="score the text given each label")
    parser.add_argument(
        "--datasets", nargs="+", metavar="NAME", help="data sets (default: the ten); 'mini' needs no download"
    )
    own = parser.add_argument_group("own data (a CSV, TSV, JSON Lines or Parquet file)")
    own.add_argument("--data", type=Path, metavar="FILE", help="evaluate on this file; --datasets may add others")
    own.add_argument("--text", nargs="+", metavar="COLUMN", help="its text columns")
    own.add_argument("--label", metavar="COLUMN", help="its label column")
    own.add_argument("--card", type=Path, metavar="FILE", help="its card (default: NAME.card.toml or .json next to it)")
    own.add_argument("--encoding", metavar="NAME", help="its encoding (default: utf-8)")
    parser.add_argument("--limit", type=int, metavar="N", help="use only the first N test examples of each data set")


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the scores but not the prompts."""
    parser.add_argument("--metrics", default="standard", help=METRICS_HELP)
    parser.add_argument(
        "--unparsed",
        choices=get_args(Unparsed),
        help="generated replies without a label: stop (error, the default; long-icl: wrong), count them as wrong, or "
        "exclude them and report bounds",
    )
    parser.add_argument(
        "--tried",
        type=int,
        default=1,
        metavar="T",
        help="number of settings tried, of which this is the best (for the random baseline)",
    )


def check_text_options(args: argparse.Namespace) -> None:
    """Refuse the options of generated text where labels are scored.

    Raises:
        ArgumentError: One of them was given.
    """
    for name in ("max_tokens", "stop"):
        if getattr(args, name) is not None:
            raise ArgumentError(f"--{name.replace('_', '-')} is about generated text: got no --answers text. Add it")


_OF_DATA = ("text", "label", "card", "encoding")


def datasets_of(args: argparse.Namespace) -> list[Any] | None:
    """Return the data sets that the options name; ``None`` for all of the benchmark.

    Raises:
        StaICCError: The file of own data cannot be used.
    """
    if args.data is None:
        given = next((name for name in _OF_DATA if getattr(args, name) is not None), None)
        if given is not None:
            raise ArgumentError(f"--{given} describes a file of own data. Name the file with --data FILE")
        return list(args.datasets) if args.datasets is not None else None
    try:
        own = Dataset.from_file(args.data, args.text, args.label, card=args.card, encoding=args.encoding)
    except StaICCError as error:
        raise type(error)(_as_options(str(error))) from error.__cause__
    split = own.card.split
    print(
        f"{one_line(own.card.name)}: {own.card.rows} rows, {len(own.card.label_space)} labels; {split.test} test, "
        f"{split.demonstration} demonstration, {split.calibration} calibration rows",
        file=sys.stderr,
    )
    return [*(args.datasets or []), own]


def inputs_of(args: argparse.Namespace) -> list[Path]:
    """Return the files of the user's own data, which no output may overwrite."""
    return [path for path in (args.data, args.card) if path is not None]


def _as_options(text: str) -> str:
    """Return a message about arguments of ``from_file`` with the options of the command line."""
    for argument, option in (
        ("texts=['text'], label='label'", "--text text --label label"),
        ("encoding=", "--encoding "),
    ):
        text = text.replace(argument, option)
    return text


def make(args: argparse.Namespace) -> Any:
    """Return the benchmark that the options describe.

    Returns:
        A benchmark, or a group of benchmarks.

    Raises:
        StaICCError: A name is unknown, a value is invalid, or data is missing.
    """
    scoring: dict[str, Any] = {}
    if hasattr(args, "metrics"):
        scoring = {"metrics": args.metrics, "statistics": Statistics(tried=args.tried)}
        if args.unparsed is not None:
            scoring["unparsed"] = args.unparsed
    if hasattr(args, "outputs"):
        scoring["outputs"] = args.outputs
    return make_benchmark(
        args.benchmark,
        k=args.k,
        noisy_channel=args.noisy_channel,
        datasets=datasets_of(args),
        limit=args.limit,
        **({} if args.sampler == "default" else {"sampler": args.sampler}),
        **scoring,
    )


def repeated(args: argparse.Namespace) -> str:
    """Return the options that differ from their defaults, as command line text with a leading blank."""
    words: list[str] = []
    if args.k != 4:
        words += ["--k", str(args.k)]
    if args.sampler != "default":
        words += ["--sampler", args.sampler]
    if args.noisy_channel:
        words.append("--noisy-channel")
    if args.limit is not None:
        words += ["--limit", str(args.limit)]
    if args.datasets is not None:
        words += ["--datasets", *args.datasets]
    if args.data is not None:
        words += ["--data", str(args.data.absolute())]
        for name in _OF_DATA:
            value = getattr(args, name)
            words += [] if value is None else [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
    return "".join(f" {shlex.quote(word)}" for word in words)
