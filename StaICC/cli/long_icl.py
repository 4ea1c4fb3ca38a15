"""LongICL on the command line: ``run long-icl`` and ``data install long-icl``.

Licence notices are printed to stderr before any file is opened. The benchmark is imported only when it is used, so the
other commands start fast.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from StaICC.benchmarks.task import Statistics
from StaICC.cli.benchmark_options import check_text_options, datasets_of
from StaICC.cli.files import print_json
from StaICC.cli.terminal import INSTEAD
from StaICC.datasets.pack import TableStatus
from StaICC.errors import ArgumentError
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.kernels.registry import load_kernel, names_option
from StaICC.kernels.text_inference import load_for_text

NAME = "long-icl"
"""Name of the benchmark and its data on the command line."""

_OTHERS_ONLY = {
    "k": 4,
    "sampler": "default",
    "noisy_channel": False,
    "limit": None,
    "metrics": "standard",
    "outputs": "auto",
}
"""Arguments of ``run`` that LongICL does not support, with their defaults."""


def _items(text: str) -> int | str:
    if text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number of test items, or 'all', not {text!r}") from None


def _level(text: str) -> int:
    try:
        return int(text[:-1]) * 1024 if text[-1:] in ("K", "k") else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number such as 5 or 4K, not {text!r}") from None


_OWN: dict[str, dict[str, Any]] = {
    "data_dir": {"type": Path, "metavar": "DIR", "help": "folder with the data (default: as installed)"},
    "rounds": {"type": int, "nargs": "+", "metavar": "N", "help": "rounds, 1 to 5 (default: all)"},
    "test_number": {
        "type": _items,
        "metavar": "N",
        "help": "test items, or 'all' (default 500; experiments 100)",
    },
    "instruct": {"action": "store_true", "help": "show the label list in the prompt"},
    "variant": {"help": "published (default), or strict: with its errors corrected"},
    "arrangement": {"help": "interleaved (default), or grouped by label"},
    "experiment": {
        "metavar": "NAME",
        "help": "what the context does, instead of rounds: context, shots, order, position, controls, or retrieval",
    },
    "levels": {
        "type": _level,
        "nargs": "+",
        "metavar": "N",
        "help": "of the experiment: budgets such as 4K 8K; shots; orders; parts; numbers of retrieved demonstrations",
    },
    "shots": {"type": int, "metavar": "N", "help": "demonstrations per label of the last four (default 3)"},
    "seed": {"type": int, "metavar": "N", "help": "of the shuffles of an experiment (default 0)"},
    "parsing": {"help": "of generated text: published (default), strict, or tolerant"},
    "published": {"action": "store_true", "help": "compare with the published figures too"},
}
"""Arguments of ``run`` that only LongICL supports."""


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of LongICL to the parser of ``run``, without defaults, so that :func:`refuse` can detect them.

    Args:
        parser: The parser of the subcommand.
    """
    group = parser.add_argument_group("long-icl (28 to 174 labels, contexts of 1K to 50K tokens)")
    for name, options in _OWN.items():
        group.add_argument(_option(name), default=None, **options)


def add_install_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of LongICL to the parser of ``data install``.

    Args:
        parser: The parser of the action.
    """
    group = parser.add_argument_group("long-icl")
    group.add_argument("--from", dest="source", type=Path, metavar="DIR", help="folder with the published files")
    group.add_argument("--hub", action="store_true", help="download data sets from the Hugging Face hub (extra hub)")
    group.add_argument("--datasets", nargs="+", metavar="NAME", help="data sets (default: all six)")


def _show(notice: str) -> None:
    print(notice, file=sys.stderr)


def refuse(args: argparse.Namespace) -> None:
    """Refuse the arguments of LongICL for other benchmarks.

    Args:
        args: The parsed arguments of ``run``.

    Raises:
        ArgumentError: One of them was given.
    """
    for name in _OWN:
        if getattr(args, name) is not None:
            advice = f"; {INSTEAD[_option(name)]}" if _option(name) in INSTEAD else ""
            raise ArgumentError(f"{_option(name)} belongs to {NAME}; {args.benchmark} has no such argument{advice}")


def load_model(args: argparse.Namespace) -> tuple[Any, bool]:
    """Return the inference function, and whether it generates text.

    Args:
        args: The parsed arguments of ``run`` or of ``verify``.
    """
    if args.answers != "labels":
        stop = None if args.stop is None and names_option(args.model, "stop") else args.stop or ()
        try:
            return load_for_text(args.model, args.max_tokens, stop), True
        except ArgumentError:
            if args.answers == "text" or Capability.TEXT in capabilities_of(load_kernel(args.model)):
                raise
    check_text_options(args)
    return load_kernel(args.model), False


def prepare(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the benchmark and the inference function.

    Args:
        args: The parsed arguments of ``run``.

    Returns:
        The benchmark and the function.

    Raises:
        ArgumentError: An argument is invalid.
        DataMissingError: No data set is available.
    """
    for name, default in _OTHERS_ONLY.items():
        if getattr(args, name) != default:
            hint = "; for a trial, use --test-number" if name == "limit" else ""
            raise ArgumentError(f"{NAME} has no {_option(name)}{hint}")
    from StaICC.benchmarks.long_icl import Experiment, LongICL, card, cards

    options = {name: getattr(args, name) for name in (*_OWN, "unparsed") if getattr(args, name) is not None}
    options.pop("published", None)
    of_experiment = {name: options.pop(name) for name in ("levels", "shots", "seed") if name in options}
    if "experiment" in options:
        options["experiment"] = Experiment(options["experiment"], **of_experiment)
    elif of_experiment:
        raise ArgumentError(f"--{next(iter(of_experiment))} belongs to an experiment. Choose one with --experiment")
    function, writes = load_model(args)
    datasets = datasets_of(args)
    if not writes and "experiment" not in options:
        structured = [name for name in datasets or cards() if isinstance(name, str) and card(name).structured]
        if structured and datasets:
            raise ArgumentError(
                f"{', '.join(structured)}: items have several labels, so the model must generate text; this one "
                "scores labels. Leave these data sets out, or use a model that generates text (--answers text)"
            )
        if structured:
            _show(f"left out, since they need a model that generates text: {', '.join(structured)}")
            datasets = [name for name in cards() if name not in structured]
    if options.get("test_number") == "all":
        options["test_number"] = None
    benchmark = LongICL(datasets=datasets, statistics=Statistics(tried=args.tried), announce=_show, **options)
    return benchmark, function


def status(verify: bool = False) -> list[TableStatus]:
    """Return which data sets are installed; with ``verify``, whether their files are the published ones."""
    from StaICC.benchmarks.long_icl.installing import status as status_of

    return status_of(verify=verify)


def listed() -> list[dict[str, Any]]:
    """Return the facts about each data set as plain values, ready for JSON."""
    from StaICC.benchmarks.long_icl import card

    keys = ("title", "task", "source", "licence", "restricted", "terms", "citation", "obtain", "offensive", "labels")
    return [
        {"benchmark": "LongICL", "name": one.name, "state": one.state, "rows": one.rows}
        | {key: getattr(card(one.name), key) for key in keys}
        for one in status()
    ]


def install(args: argparse.Namespace) -> int:
    """Install data from a folder or from the hub.

    Args:
        args: The parsed arguments of ``data install``.

    Returns:
        Exit status: 1 if a data set that was named could not be installed.

    Raises:
        ArgumentError: Not exactly one source is given.
        DataMissingError: Nothing could be installed.
    """
    if (args.source is None) is not args.hub:
        raise ArgumentError(
            f"say where the files of {NAME} come from: --from DIR, or --hub for what the Hugging Face hub has"
        )
    from StaICC.benchmarks.long_icl import install as install_folder
    from StaICC.benchmarks.long_icl import install_from_hub

    if args.hub:
        done = install_from_hub(args.datasets, announce=_show)
    else:
        done = install_folder(args.source, datasets=args.datasets, announce=_show)
    _show(f"installed in {done.folder}: {', '.join(done.datasets)}")
    if args.json:
        skipped = {one.dataset: one.reason for one in done.skipped}
        document = {"path": str(done.folder), "datasets": list(done.datasets), "skipped": skipped}
        print_json(document, indent=2)
    return 1 if args.datasets and done.skipped else 0
