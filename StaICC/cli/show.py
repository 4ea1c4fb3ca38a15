"""The commands that list what there is to choose from, or show a saved result: ``show``, ``models``, ``methods``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.cli import output
from StaICC.cli.parser import Parser
from StaICC.comparing.citing import find_work
from StaICC.datasets.catalogue import catalogue
from StaICC.datasets.dataset import dataset_registry
from StaICC.errors import ArgumentError, StaICCError, UnknownNameError
from StaICC.kernels.registry import DESCRIPTIONS, KERNELS, OptionFact, declared_options, options_of
from StaICC.layout import Block, Line
from StaICC.methods.catalogue import METHODS
from StaICC.methods.contract import MethodSpec
from StaICC.metrics.metric_set import METRICS
from StaICC.registry import Listed, Registry
from StaICC.results.nearest_gold_table import nearest_gold_table
from StaICC.results.result import load

_RUN = "run"
"""The word after ``show`` that asks for the run file of a saved result."""

_KINDS = ("kernels", "methods", "datasets", "benchmarks", "metrics")


def add_show(parser: argparse.ArgumentParser, kind: str | None = None) -> None:
    """Add the arguments of the command; ``models`` and ``methods`` have a fixed kind."""
    parser.set_defaults(kind=kind, nearest_gold=None, result=None)
    if kind is None:
        parser.add_argument(
            "--nearest-gold",
            metavar="RESULT",
            help="instead: the scores of a saved experiment of LongICL, or of HELMET, by how near the demonstrations "
            "of the true label are to the query",
        )
        text = f"{', '.join(_KINDS)} (default: all); or run, with a saved result"
        parser.add_argument("kind", nargs="?", choices=(*_KINDS, _RUN), metavar="KIND", help=text)
        parser.add_argument(
            "result", nargs="?", metavar="RESULT", help="of show run: the saved result that the run file repeats"
        )


def show(args: argparse.Namespace) -> output.Printed | None:
    """List kernels, methods, data sets, benchmarks and metrics, including plug-ins.

    ``methods`` is short for ``show methods``, ``models`` for ``show kernels``. A model is named as
    KIND:NAME;option=value;... in quotes, or with --model-option option=value for each option. The exit status is 1 if a
    plug-in cannot be loaded.

    examples:
      python -m StaICC show
      python -m StaICC show methods
      python -m StaICC show kernels --json
      python -m StaICC methods --json
      python -m StaICC models
      python -m StaICC run normal --model 'ppm;order=8' --datasets mini
      python -m StaICC run normal --model ppm --model-option order=8 --datasets mini
      python -m StaICC show --nearest-gold result.json
      python -m StaICC show run result.json
    """
    if args.nearest_gold is not None:
        return _nearest_gold(args)
    if args.kind == _RUN:
        return _run_file(args)
    if args.result is not None:
        raise ArgumentError(f"show {args.kind} lists names: got {args.result} as well. For a run file: show run RESULT")
    return _list_names(args)


def _list_names(args: argparse.Namespace) -> output.Printed:
    """List the names of one kind, or of all kinds, with their properties; status 1 if one cannot be loaded."""
    registries: tuple[Registry[Any], ...] = (KERNELS, METHODS, dataset_registry(), BENCHMARKS, METRICS)
    entries_by_kind: dict[str, list[dict[str, Any]]] = {}
    for kind, registry in zip(_KINDS, registries, strict=True):
        if args.kind is None or args.kind == kind:
            entries_by_kind[kind] = _entries(kind, registry)

    problems = []
    blocks: list[Line] = []
    for kind, entries in entries_by_kind.items():
        problems += [entry["problem"] for entry in entries if entry["problem"]]
        blocks += _lines(kind, entries)
    if not args.json:
        for problem in problems:
            print(f"staicc: {problem}", file=sys.stderr)
    return output.Printed(entries_by_kind, blocks, status=1 if problems else 0)


def _nearest_gold(args: argparse.Namespace) -> output.Printed:
    """Return the table of gold demonstrations of a saved result; of a group, those of all its results.

    Raises:
        ArgumentError: A kind was named, too; or a result has no such table.
    """
    if args.kind is not None:
        raise ArgumentError(f"--nearest-gold shows a saved result: got {args.kind} as well, expected one of them")
    tables = [nearest_gold_table(result) for result in load(args.nearest_gold).results()]
    rows: list[Mapping[str, Any]] = []
    blocks: list[Block] = []
    for table in tables:
        rows += table.rows
        blocks += table.display_blocks()
    return output.Printed(rows, blocks)


def _run_file(args: argparse.Namespace) -> output.Printed | None:
    """Print the run file that repeats a saved result; with ``--json``, its values as JSON.

    Returns:
        What the caller prints: the values for JSON. ``None`` if the run file was printed here.

    Raises:
        ArgumentError: No result was named, or no run file repeats it.
    """
    from StaICC.cli.run import add_run
    from StaICC.cli.run_files.repeating import settings_of_file
    from StaICC.cli.run_files.toml_text import toml_text

    if args.result is None:
        raise ArgumentError("show run needs a saved result. Name it, such as: python -m StaICC show run result.json")
    parser = Parser()
    add_run(parser)
    settings = settings_of_file(args.result, parser)
    if args.json:
        return output.Printed(settings.values, ())
    output.write_text(output.STDOUT, [toml_text(settings.values, settings.remarks)], as_json=False)
    return None


def _entries(kind: str, registry: Registry[Any]) -> list[dict[str, Any]]:
    """Return the properties of each entry of a registry. Plug-ins are imported, to find those that fail."""
    return [_entry(kind, registry, listed) for listed in registry.listing()]


def _entry(kind: str, registry: Registry[Any], listed: Listed) -> dict[str, Any]:
    """Return the properties of one entry: name, origin and problem, and those of its kind.

    Args:
        kind: The kind, such as ``"kernels"``.
        registry: The registry of this kind.
        listed: The entry. It is loaded if it is a plug-in, or if its description needs it.
    """
    entry: dict[str, Any] = {"name": listed.name, "origin": listed.origin or None, "problem": listed.problem or None}
    is_plugin = bool(listed.origin)
    needs_value = is_plugin or kind in ("kernels", "methods")
    value = None
    if needs_value and not listed.problem:
        try:
            value = registry.find(listed.name).value
        except StaICCError as error:
            entry["problem"] = str(error)

    # Without a value (an entry with a problem, or a built-in data set, which is not loaded), what is known is shown.
    if kind == "kernels":
        _describe_kernel(entry, value)
    elif kind == "datasets":
        _describe_dataset(entry, value)
    elif kind == "methods":
        _describe_method(entry, value)
    return entry


def _describe_kernel(entry: dict[str, Any], kernel: Any | None) -> None:
    """Add the description and the options of a kernel to its entry.

    Args:
        entry: The entry, which has the name.
        kernel: The kernel; ``None`` if it cannot be loaded. Its entry then has no options.
    """
    entry["description"] = DESCRIPTIONS.get(entry["name"])
    options = [] if kernel is None else declared_options(kernel)
    if options:
        entry["options"] = _option_records(options)


def _describe_dataset(entry: dict[str, Any], dataset: Any | None) -> None:
    """Add where the rows of a data set come from to its entry; nothing if the data set cannot be used.

    Args:
        entry: The entry, which has the name.
        dataset: The data set of a plug-in; ``None`` for one of this library, which the catalogue knows.
    """
    if entry["problem"]:
        return
    source = catalogue().sources[entry["name"]] if dataset is None else dataset.source
    entry["description"] = f"source: {source.kind}"


def _describe_method(entry: dict[str, Any], method: Any | None) -> None:
    """Add the description, the paper and the options of a method to its entry.

    Args:
        entry: The entry, which has the name.
        method: The method; ``None`` if it cannot be loaded. Its entry then has no options.
    """
    options: Sequence[OptionFact] = ()
    if isinstance(method, MethodSpec):
        entry["description"] = f"{method.title}; needs {method.needs}"
        with contextlib.suppress(UnknownNameError):  # a plug-in may have no paper
            entry["paper"] = str(find_work(method.name))
        options = options_of(method.options)
    entry["options"] = _option_records(options)


def _option_records(options: Sequence[OptionFact]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(option), "help": option.help.replace("`", "")} for option in options]


def _lines(kind: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield the entries of a kind, each with its paper and options."""
    yield Line(f"{kind}:")
    width = max(len(entry["name"]) for entry in entries)
    for entry in entries:
        words = [f"  {entry['name']:{width}} "]
        if entry["origin"]:
            words.append(f"[{entry['origin']}]")
        if entry.get("description"):
            words.append(entry["description"])
        if entry["problem"]:
            words.append("cannot be used")
        yield Line(" ".join(words).rstrip(), "code")
        if "paper" in entry:
            yield Line(f"    paper: {entry['paper']}", "code")
        for option in entry.get("options", ()):
            default = json.dumps(option["default"])
            yield Line(f"    {option['name']}={default} ({option['type']}): {option['help']}", "code")


models = show
methods = show
add_models = partial(add_show, kind="kernels")
add_methods = partial(add_show, kind="methods")
