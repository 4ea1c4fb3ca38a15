"""Options that several commands share: benchmark, prompts, scores, execution."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from StaICC.argument_syntax import flag
from StaICC.benchmarks.builtin import BENCHMARKS, make_benchmark
from StaICC.benchmarks.experimentor import SAMPLERS
from StaICC.benchmarks.task import Statistics
from StaICC.cli.foreign_options import ADVICE
from StaICC.cli.long_icl_options import (
    HELMET,
    LONG_ICL,
    add_long_context_options,
    helmet_arguments,
    long_context_arguments,
    long_icl_arguments,
    refuse_unsupported_options,
)
from StaICC.cli.parser import Converted
from StaICC.datasets.dataset import Dataset
from StaICC.datasets.delimited import QUOTING
from StaICC.errors import ArgumentError
from StaICC.inference.replies import Unparsed
from StaICC.inference.workers import worker_processes
from StaICC.registry import fold
from StaICC.results.files import is_result_file
from StaICC.results.result import load
from StaICC.safe_text import one_line

ALL = "all"
"""The value of ``--limit`` that evaluates all test examples."""

_DEFAULT_K = 4
_DEFAULT_SAMPLER = "default"

_DATA_ARGUMENTS = ("text", "label", "card", "encoding", "quoting", "columns", "label_separator", "cluster", "subgroups")
"""The arguments that describe a file of own data."""

_BENCHMARK_ARGUMENTS = (
    "k",
    "sampler",
    "noisy_channel",
    "limit",
    "metrics",
    "outputs",
    "unparsed",
    "draws",
    "templates",
    "domain_query_length",
    "interpolations",
)
"""The arguments that a benchmark takes under the same name; a command may have only some of them."""

_DEFAULTS = {
    "k": _DEFAULT_K,
    "sampler": _DEFAULT_SAMPLER,
    "noisy_channel": False,
    "metrics": "standard",
    "outputs": "auto",
}
"""The defaults of these arguments that are not ``None``."""

_BENCHMARKS_OF_ARGUMENT: dict[str, tuple[str, ...]] = {
    "draws": ("generalisation",),
    "templates": ("generalisation",),
    "domain_query_length": ("domain-bias", "post-bias", "triplet-bias"),
    "interpolations": ("gler",),
    **long_context_arguments(),
    "published": (LONG_ICL,),
}
"""The arguments that only some benchmarks read, each with these benchmarks."""

_PROMPT_ARGUMENTS = (
    *("noisy_channel", "k", "sampler", "limit", "datasets", "data"),
    *_DATA_ARGUMENTS,
    *long_context_arguments(),
)
"""The arguments that change the prompts, of all benchmarks."""


# The benchmark.


class BenchmarkNames:
    """The names of benchmarks as choices of an argument; plug-ins are loaded only if a name is not built in."""

    def __contains__(self, name: object) -> bool:
        return BENCHMARKS.knows(name)

    def __iter__(self) -> Iterator[str]:
        yield from BENCHMARKS.names()


def add_benchmark(parser: argparse.ArgumentParser) -> None:
    """Add the benchmark as a positional argument."""
    parser.add_argument("benchmark", choices=BenchmarkNames(), metavar="BENCHMARK", help=_benchmark_help())


def add_benchmark_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--benchmark``, with the default ``normal``."""
    parser.add_argument(
        "--benchmark", choices=BenchmarkNames(), default="normal", metavar="BENCHMARK", help=_benchmark_help()
    )


def _benchmark_help() -> str:
    names = ", ".join(BENCHMARKS)
    return f"{names}, the name of a plug-in, or package.module:name"


def make(args: argparse.Namespace, **changes: Any) -> Any:
    """Return the benchmark, or the group of benchmarks, that the options describe.

    Args:
        args: The arguments of the command.
        **changes: Arguments of the benchmark that replace those of the command.

    Raises:
        StaICCError: A name is unknown, a value is invalid, or data is missing.
    """
    refuse_options_of_other_benchmarks(args)
    if is_long_icl(args):
        arguments = long_icl_arguments(args)
    elif is_helmet(args):
        arguments = helmet_arguments(args)
    else:
        arguments = _classification_arguments(args)
    if arguments.get("limit") == ALL:
        arguments["limit"] = None
    has_scoring_options = hasattr(args, "tried")
    if has_scoring_options:
        arguments["statistics"] = Statistics(args.level, args.tried, args.intervals)
    arguments |= changes
    if "datasets" not in arguments:
        arguments["datasets"] = datasets_of(args)
    return make_benchmark(args.benchmark, **arguments)


def _classification_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a classification benchmark that were given; the default sampler is that of the task."""
    arguments = {}
    for name in _BENCHMARK_ARGUMENTS:
        value = getattr(args, name, None)
        if value is not None and value != _DEFAULT_SAMPLER:
            arguments[name] = value
    return arguments


def is_long_icl(args: argparse.Namespace) -> bool:
    """Return whether the benchmark is LongICL."""
    return _command_name(args.benchmark) == LONG_ICL


def is_helmet(args: argparse.Namespace) -> bool:
    """Return whether the benchmark is HELMET."""
    return _command_name(args.benchmark) == HELMET


def _command_name(benchmark: str) -> str:
    """Return the name under which a benchmark is listed, for any of its spellings."""
    return BENCHMARKS.folded.get(fold(benchmark), benchmark)


def refuse_options_of_other_benchmarks(args: argparse.Namespace) -> None:
    """Refuse an option that the benchmark does not have.

    Raises:
        ArgumentError: Such an option was given.
    """
    for name, benchmarks in _BENCHMARKS_OF_ARGUMENT.items():
        if _command_name(args.benchmark) in benchmarks or getattr(args, name, None) is None:
            continue
        message = f"{flag(name)} belongs to {' and '.join(benchmarks)}; {args.benchmark} has no such argument"
        if flag(name) in ADVICE:
            message += f"; {ADVICE[flag(name)]}"
        raise ArgumentError(message)
    if is_long_icl(args) or is_helmet(args):
        refuse_unsupported_options(args, _command_name(args.benchmark), _DEFAULTS)


# Prompts.


def add_prompt_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options that change the prompts.

    Args:
        parser: The parser of the command.
        several: Whether ``--k`` takes several numbers.
    """
    _add_k(parser, several)
    parser.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default=_DEFAULT_SAMPLER,
        help="default: as published; nested: those of a smaller k come first; "
        "nested-shared: and all test rows share them",
    )
    parser.add_argument("--noisy-channel", action="store_true", help="score the text given each label")
    parser.add_argument(
        "--datasets",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="data sets (default: the ten); 'mini' needs no download",
    )
    parser.add_argument(
        "--limit",
        type=Converted(_limit, "a number of test examples, or 'all'"),
        metavar="N",
        help="use only the first N test examples of each data set, or 'all' "
        "(default: all; long-icl, helmet: 500, experiments 100)",
    )
    _add_own_data_options(parser)


def add_benchmark_prompt_options(parser: argparse.ArgumentParser, several: bool = False) -> None:
    """Add the options that change the prompts, with those of one benchmark only.

    Args:
        parser: The parser of the command.
        several: As for :func:`add_prompt_options`.
    """
    add_prompt_options(parser, several)
    add_long_context_options(parser)


def _add_k(parser: argparse.ArgumentParser, several: bool) -> None:
    """Add the option ``--k``, which takes one number of demonstrations, or several with commas between them."""
    help_of_one = f"demonstrations per prompt (default {_DEFAULT_K})"
    if several:
        parser.add_argument(
            "--k",
            type=Converted(_one_or_several_numbers, "a number, or several such as 4,16,64"),
            default=_DEFAULT_K,
            metavar="K",
            help=f"{help_of_one}; several with commas, such as 4,16,64, for a curve",
        )
    else:
        parser.add_argument("--k", type=int, default=_DEFAULT_K, metavar="K", help=help_of_one)


def _one_or_several_numbers(text: str) -> int | list[int]:
    """Parse ``4``, or ``4,16,64``."""
    numbers = [int(word) for word in text.split(",")]
    if len(numbers) == 1:
        return numbers[0]
    return numbers


def _limit(text: str) -> int | str:
    """Parse the value of ``--limit``."""
    return text if text == ALL else int(text)


def _add_own_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a file of the user's own data, and describe it."""
    group = parser.add_argument_group("own data (a CSV, TSV, JSON Lines or Parquet file)")
    group.add_argument("--data", type=Path, metavar="FILE", help="evaluate on this file; --datasets may add others")
    group.add_argument(
        "--text",
        "--texts",
        nargs="+",
        action="extend",
        metavar="COLUMN",
        help="its text columns (default: text or sentence next to label only)",
    )
    group.add_argument("--label", metavar="COLUMN", help="its label column (default: label, as for --text)")
    group.add_argument(
        "--card",
        type=Path,
        metavar="FILE",
        help="its card (default: NAME.card.toml or .json next to it), or a saved result over the same file",
    )
    group.add_argument("--encoding", metavar="NAME", help="its encoding (default: utf-8)")
    group.add_argument(
        "--quoting",
        choices=QUOTING,
        help="double quotes of a CSV or TSV file: around fields (standard), or ordinary characters (none)",
    )
    group.add_argument(
        "--columns",
        nargs="+",
        metavar="COLUMN",
        help="names of all columns of a CSV or TSV file without a header",
    )
    group.add_argument(
        "--label-separator",
        metavar="TEXT",
        help="the text between the labels of a row that has several, such as ';' (for run long-icl)",
    )
    group.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="the column that dependent rows share, such as a document: the unit of intervals and tests",
    )
    group.add_argument(
        "--subgroups",
        nargs="+",
        metavar="COLUMN",
        help="columns by which compare --by can divide the rows, such as a domain",
    )


def datasets_of(args: argparse.Namespace) -> list[Any] | None:
    """Return the data sets that the options name; ``None`` for all of the benchmark.

    Raises:
        StaICCError: The file of own data cannot be used.
    """
    if args.data is None:
        _refuse_data_arguments(args)
        return None if args.datasets is None else list(args.datasets)
    own_data = _read_own_data(args)
    _announce(own_data)
    return [*(args.datasets or []), own_data]


def _refuse_data_arguments(args: argparse.Namespace) -> None:
    """Refuse options that describe a file of own data where there is none.

    Raises:
        ArgumentError: There is such an option.
    """
    for name in _DATA_ARGUMENTS:
        if getattr(args, name) is not None:
            raise ArgumentError(f"{flag(name)} describes a file of own data. Name the file with --data FILE")


def _read_own_data(args: argparse.Namespace) -> Dataset:
    """Read the file of own data."""
    if args.card is not None and is_result_file(args.card):
        return _data_of_result(args)
    return Dataset.from_file(
        args.data,
        args.text,
        args.label,
        card=args.card,
        encoding=args.encoding,
        quoting=args.quoting,
        columns=args.columns,
        label_separator=args.label_separator,
        cluster=args.cluster,
        subgroups=args.subgroups,
    )


def _data_of_result(args: argparse.Namespace) -> Dataset:
    """Make the data set of a saved result again from its file, with all that the result records about it.

    Raises:
        ArgumentError: The result has no file of own data, or several; the file is another one; or an option describes
            the file, too.
    """
    first_part = next(load(args.card).results())  # all parts of a group are over the same data
    records = first_part.files
    if len(records) != 1:
        raise ArgumentError(f"--card {args.card}: the result has {len(records)} files of own data, expected one")
    for name in _DATA_ARGUMENTS:
        if name != "card" and getattr(args, name) is not None:
            raise ArgumentError(f"{flag(name)}: the result {args.card} says how to read the file. Leave the option out")
    (record,) = records.values()
    try:
        return Dataset.reopen(record, [args.data])
    except ArgumentError as error:
        raise ArgumentError(
            f"--card {args.card}: a result describes its own file of data, and {args.data} is another one ({error}). "
            "For other data, name the columns with --text and --label, or write a card file"
        ) from None


def _announce(own_data: Dataset) -> None:
    """Print the name, rows, labels and splits of own data on stderr."""
    card = own_data.card
    name = one_line(card.name)
    print(
        f"{name}: {card.rows} rows, {len(card.single_labels)} labels; {card.split.test} test, "
        f"{card.split.demonstration} demonstration, {card.split.calibration} calibration rows",
        file=sys.stderr,
    )


def inputs_of(args: argparse.Namespace) -> list[Path]:
    """Return the files of the user's own data, which no output may overwrite."""
    return [path for path in (args.data, args.card) if path is not None]


def repeated(args: argparse.Namespace) -> str:
    """Return the prompt options that differ from their defaults, as command line text with a leading blank."""
    words = []
    for name in _PROMPT_ARGUMENTS:
        value = getattr(args, name)
        if value is None or value == _DEFAULTS.get(name):
            continue
        words.append(flag(name))
        is_switch = value is True
        if not is_switch:
            words += _words_of(value)
    return "".join(f" {shlex.quote(word)}" for word in words)


def _words_of(value: object) -> list[str]:
    """Return the value of an option as words of a command that runs in any folder."""
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, Path):
        return [str(value.absolute())]
    return [str(value)]


# Scores.


def add_scoring_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the scores but not the prompts."""
    parser.add_argument(
        "--metrics",
        default="standard",
        help="standard, or 0.1.1 (with its errors); add metrics with +: standard+my_package.metrics:f2",
    )
    parser.add_argument(
        "--unparsed",
        choices=get_args(Unparsed),
        help="replies without a label: stop (error, the default; long-icl: wrong), count as wrong, "
        "or exclude with bounds",
    )
    parser.add_argument(
        "--tried",
        type=int,
        default=1,
        metavar="T",
        help="number of settings tried, of which this is the best (for the random baseline)",
    )
    parser.add_argument(
        "--level", type=float, default=0.95, metavar="X", help="coverage of confidence intervals (default 0.95)"
    )
    parser.add_argument("--no-intervals", dest="intervals", action="store_false", help="no confidence intervals")


# Execution.


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
        "--recheck",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="compute some of the stored predictions again for comparison "
        "(default: unless these requests may cost money)",
    )
    parser.add_argument(
        "--chunk-size",
        type=int,
        metavar="N",
        help="queries that a local model or a worker computes together; a crash loses at most this many of each",
    )
    parser.add_argument("--quiet", dest="progress", action="store_const", const=False, help="no progress on stderr")


def run_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of a run that :func:`add_execution_options` added: all but ``outputs``."""
    return {
        "store": args.store,
        "chunk_size": args.chunk_size,
        "recheck": args.recheck,
        "progress": args.progress,
        "executor": None if args.workers is None else worker_processes(args.workers),
    }
