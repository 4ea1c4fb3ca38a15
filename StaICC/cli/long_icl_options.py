"""The options of the benchmarks with long contexts, for all commands that take a benchmark: LongICL, HELMET."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC.argument_syntax import flag
from StaICC.cli.parser import Converted
from StaICC.errors import ArgumentError
from StaICC.inference.contract import own_attribute
from StaICC.kernels.protocol import Capability

LONG_ICL = "long-icl"
"""Name of the benchmark LongICL and its data on the command line."""

HELMET = "helmet"
"""Name of the benchmark HELMET on the command line."""

_EXPERIMENT_ARGUMENTS = ("levels", "shots", "seed", "share")
"""The arguments that become an experiment."""

_LONG_ICL_ARGUMENTS = ("data_dir", "rounds", "instruct", "experiment", "parsing")
"""The arguments that LongICL takes under the same name, and the classification benchmarks do not."""

_HELMET_ARGUMENTS = ("data_dir", "lengths", "parsing", "share")
"""The arguments that HELMET takes under the same name, and the classification benchmarks do not."""

_SHARED_ARGUMENTS = ("limit", "unparsed")
"""The arguments of all benchmarks that these two take, too."""

_UNSUPPORTED_ARGUMENTS = ("k", "sampler", "noisy_channel", "metrics", "outputs")
"""The arguments of other benchmarks that these two do not have."""


def long_context_arguments() -> dict[str, tuple[str, ...]]:
    """Return the arguments that only benchmarks with long contexts read, each with the names of these benchmarks.

    They are ``None`` if they are not given.
    """
    of_long_icl = (*_LONG_ICL_ARGUMENTS, *_EXPERIMENT_ARGUMENTS)
    benchmarks: dict[str, tuple[str, ...]] = {}
    for name in of_long_icl:
        benchmarks[name] = (LONG_ICL,)
    for name in _HELMET_ARGUMENTS:
        benchmarks[name] = (LONG_ICL, HELMET) if name in of_long_icl else (HELMET,)
    return benchmarks


def _level(text: str) -> int:
    """Parse a level of an experiment: ``5``, or ``4K`` for 4,096."""
    if text.endswith(("K", "k")):
        return int(text[:-1]) * 1024
    return int(text)


def add_long_context_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of LongICL and HELMET to the parser of a command.

    Args:
        parser: The parser, with the options of all benchmarks.
    """
    both = parser.add_argument_group("long-icl and helmet (6 to 174 labels, contexts of 1K to 128K tokens)")
    both.add_argument("--data-dir", type=Path, metavar="DIR", help="folder with the data (default: as installed)")
    both.add_argument(
        "--parsing",
        help="of generated text: published (default of the published rounds and helmet), or library: the parser of all "
        "benchmarks (default of own data and experiments)",
    )
    both.add_argument(
        "--share",
        type=float,
        metavar="X",
        help="share of the shortest context's score that counts as kept in the effective length (default 0.85)",
    )
    helmet = parser.add_argument_group("helmet")
    helmet.add_argument(
        "--lengths",
        type=Converted(_level, "a number such as 8192 or 8K"),
        nargs="+",
        action="extend",
        metavar="N",
        help="of 4K 8K 16K 32K 64K 128K (default: all but 4K)",
    )
    group = parser.add_argument_group("long-icl")
    group.add_argument(
        "--rounds", type=int, nargs="+", action="extend", metavar="N", help="rounds, 1 to 5 (default: all)"
    )
    group.add_argument("--instruct", action="store_true", default=None, help="show the label list in the prompt")
    group.add_argument(
        "--experiment",
        metavar="NAME",
        help="instead of rounds: context, length, shots, order, position, controls, retrieval, or budget",
    )
    group.add_argument(
        "--levels",
        type=Converted(_level, "a number such as 5 or 4K"),
        nargs="+",
        action="extend",
        metavar="N",
        help="of the experiment: budgets such as 4K 8K; shots; orders; parts; numbers of retrieved demonstrations",
    )
    group.add_argument(
        "--shots", type=int, metavar="N", help="demonstrations per label of order to retrieval (default 3)"
    )
    group.add_argument("--seed", type=int, metavar="N", help="of the shuffles of an experiment (default 0)")


def refuse_unsupported_options(args: argparse.Namespace, benchmark: str, defaults: Mapping[str, Any]) -> None:
    """Refuse an option of the classification benchmarks that those with long contexts do not support.

    Args:
        args: The arguments of the command.
        benchmark: The benchmark with long contexts, for the message.
        defaults: The default of each argument of the other benchmarks that is not ``None``.

    Raises:
        ArgumentError: Such an option was given.
    """
    for name in _UNSUPPORTED_ARGUMENTS:
        default = defaults.get(name)
        is_given = flag(name) in getattr(args, "given_options", ())
        if is_given or getattr(args, name, default) != default:
            raise ArgumentError(f"{benchmark} has no {flag(name)}. Leave it out")


def long_icl_files(data_dir: Path) -> list[Path]:
    """Return the files of all data sets of LongICL and HELMET in a folder, whether they are there or not."""
    from StaICC.long_icl.cards import cards

    names = [name for card in cards(None).values() for file in card.files.values() for name in file.names]
    return [data_dir / name for name in names]


def long_icl_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of LongICL that were given.

    Raises:
        ArgumentError: An option of an experiment was given without one.
    """
    from StaICC.long_icl.experiments import Experiment

    arguments = _given_arguments(args, (*_SHARED_ARGUMENTS, *_LONG_ICL_ARGUMENTS))
    experiment_settings = _given_arguments(args, _EXPERIMENT_ARGUMENTS)
    if "experiment" in arguments:
        arguments["experiment"] = Experiment(arguments["experiment"], **experiment_settings)
    elif experiment_settings:
        option = flag(next(iter(experiment_settings)))
        raise ArgumentError(f"{option} belongs to an experiment. Choose one with --experiment")
    arguments["announce"] = _announce
    return arguments


def helmet_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of HELMET that were given."""
    arguments = _given_arguments(args, (*_SHARED_ARGUMENTS, *_HELMET_ARGUMENTS))
    arguments["announce"] = _announce
    return arguments


def parsing_of_long_icl(args: argparse.Namespace) -> str:
    """Return how LongICL parses replies: as the option says, else as its default is for the data."""
    from StaICC.long_icl.experiments import Experiment
    from StaICC.long_icl.options import default_parsing

    if args.parsing is not None:
        return str(args.parsing)
    experiment = None
    if args.experiment is not None:
        experiment = Experiment(args.experiment)
    return default_parsing(experiment, has_own_data=args.data is not None)


def _given_arguments(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that were given, by name."""
    given = {}
    for name in names:
        value = getattr(args, name, None)
        if value is not None:
            given[name] = value
    return given


def datasets_for_label_scores(datasets: list[Any] | None) -> list[Any] | None:
    """Return the data sets that a model can do that scores labels and generates no text.

    Args:
        datasets: The data sets that were named; ``None`` for all.

    Raises:
        ArgumentError: One that was named needs generated text.
    """
    from StaICC.long_icl.cards import cards, task_card

    known_names = [dataset for dataset in datasets or cards() if isinstance(dataset, str)]  # without own data
    need_text = [name for name in known_names if task_card(name).structured]
    if not need_text:
        return datasets
    if datasets:
        raise ArgumentError(
            f"{task_card(need_text[0]).needs_text}, and this model scores labels. "
            "Leave it out, or use a model that generates text (--answers text)"
        )
    _announce(f"left out, since they need a model that generates text: {', '.join(need_text)}")
    return [name for name in cards() if name not in need_text]


def refuse_label_scores(benchmark: Iterable[Any], function: Any) -> None:
    """Refuse a model that only scores labels for data whose items have several labels, before the first query.

    Args:
        benchmark: The data sets of the benchmark.
        function: The inference function. A plain function declares no capabilities, and may return text.

    Raises:
        ArgumentError: The model declares that it scores labels, and generates no text.
    """
    declared = own_attribute(function, "capabilities")
    if declared is None or Capability.LABEL_SCORES not in declared or Capability.TEXT in declared:
        return
    for experimentor in benchmark:
        if experimentor.card.structured:
            raise ArgumentError(
                f"{experimentor.card.needs_text}, and {type(function).__name__} only scores labels. Use a model that "
                "generates text, such as --model hf:NAME"
            )


def _announce(message: str) -> None:
    """Print a message on stderr."""
    print(message, file=sys.stderr)
