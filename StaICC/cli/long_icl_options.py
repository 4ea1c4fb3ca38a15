"""The options of ``run`` for the benchmark LongICL."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from StaICC.benchmarks.task import Statistics
from StaICC.cli import model_options, options
from StaICC.cli.parser import converted
from StaICC.errors import ArgumentError

OF_LONG_ICL = (
    *("data_dir", "rounds", "test_number", "instruct", "variant", "experiment", "levels", "shots"),
    *("seed", "parsing", "published"),
)


_ITEMS = converted(lambda text: text if text == "all" else int(text), "a number of test items, or 'all'")


_LEVEL = converted(
    lambda text: int(text[:-1]) * 1024 if text[-1:] in ("K", "k") else int(text), "a number such as 5 or 4K"
)


def add_long_icl_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of LongICL to the parser of ``run``.

    Args:
        parser: The parser, with the options of all benchmarks. ``not_long_icl`` of its arguments are the defaults of
            those that LongICL does not support.
    """
    title = "long-icl (6 to 174 labels, contexts of 1K to 128K tokens)"
    add = partial(parser.add_argument_group(title).add_argument, default=None)
    experiments = "instead of rounds: context, length, shots, order, position, controls, retrieval, or helmet"
    levels = "of the experiment: budgets such as 4K 8K; shots; orders; parts; numbers of retrieved demonstrations"
    add("--data-dir", type=Path, metavar="DIR", help="folder with the data (default: as installed)")
    add("--rounds", type=int, nargs="+", action="extend", metavar="N", help="rounds, 1 to 5 (default: all)")
    add("--test-number", type=_ITEMS, metavar="N", help="items, or 'all' (default 500; experiments 100, helmet 500)")
    add("--instruct", action="store_true", help="show the label list in the prompt")
    add("--variant", help="published (default), or strict: with its errors of selection, parsing and scoring corrected")
    add("--experiment", metavar="NAME", help=experiments)
    add("--levels", type=_LEVEL, nargs="+", action="extend", metavar="N", help=levels)
    add("--shots", type=int, metavar="N", help="demonstrations per label of order to retrieval (default 3)")
    add("--seed", type=int, metavar="N", help="of the shuffles of an experiment (default 0)")
    add("--parsing", help="of generated text: published (default), or tolerant")
    add("--published", action="store_true", help="compare with the published figures too")
    unsupported = ("k", "sampler", "noisy_channel", "limit", "metrics", "outputs")
    defaults = {name: parser.get_default(name) for name in unsupported}
    parser.set_defaults(not_long_icl=defaults)


def long_icl_benchmark(args: argparse.Namespace) -> tuple[Any, Any]:
    """Return the benchmark LongICL that the options describe, and the inference function."""
    from StaICC.long_icl.benchmark import LongICL
    from StaICC.long_icl.cards import cards, task_card
    from StaICC.long_icl.experiments import Experiment

    given = {name: getattr(args, name) for name in ("unparsed", *OF_LONG_ICL)}
    given = {name: value for name, value in given.items() if value is not None and name != "published"}
    of_experiment = {name: given.pop(name) for name in ("levels", "shots", "seed") if name in given}
    if "experiment" in given:
        given["experiment"] = Experiment(given["experiment"], **of_experiment)
    elif of_experiment:
        raise ArgumentError(f"--{next(iter(of_experiment))} belongs to an experiment. Choose one with --experiment")
    function, writes = model_options.load_model(args, for_long_icl=True)
    datasets = options.datasets_of(args)
    show = partial(print, file=sys.stderr)
    if not writes and "experiment" not in given:
        structured = [name for name in datasets or cards() if isinstance(name, str) and task_card(name).structured]
        if structured and datasets:
            remedy = "Leave it out, or use a model that generates text (--answers text)"
            raise ArgumentError(f"{task_card(structured[0]).needs_text}, and this model scores labels. {remedy}")
        if structured:
            show(f"left out, since they need a model that generates text: {', '.join(structured)}")
            datasets = [name for name in cards() if name not in structured]
    if given.get("test_number") == "all":
        given["test_number"] = None
    statistics = Statistics(tried=args.tried)
    return LongICL(datasets=datasets, statistics=statistics, announce=show, **given), function
