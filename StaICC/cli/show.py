"""The commands that list what there is to choose from: ``show``, ``models``, ``methods``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.cli import output
from StaICC.cli.options import LONG_ICL
from StaICC.comparing.citing import find_work
from StaICC.datasets.catalogue import catalogue
from StaICC.datasets.dataset import dataset_registry
from StaICC.errors import StaICCError, UnknownNameError
from StaICC.kernels.registry import DESCRIPTIONS, KERNELS, OptionFact, declared_options, options_of
from StaICC.layout import Line
from StaICC.methods.specification import METHODS, MethodSpec
from StaICC.metrics.metric_set import METRICS
from StaICC.registry import Registry

_KINDS = ("kernels", "methods", "datasets", "benchmarks", "metrics")


def add_show(parser: argparse.ArgumentParser, kind: str | None = None) -> None:
    """Add the arguments of the command; ``models`` and ``methods`` have a fixed kind."""
    parser.set_defaults(kind=kind)
    if kind is None:
        text = f"{', '.join(_KINDS)} (default: all)"
        parser.add_argument("kind", nargs="?", choices=_KINDS, metavar="KIND", help=text)


def _entries(kind: str, entries: Registry[Any]) -> list[dict[str, Any]]:
    """Return the properties of each entry. Plug-ins are imported, to find those that fail."""
    rows = []
    for listed in entries.listing():
        row: dict[str, Any] = {"name": listed.name, "origin": listed.origin or None, "problem": listed.problem or None}
        value = None
        if kind in ("kernels", "methods") or listed.origin:
            try:
                value = None if listed.problem else entries.find(listed.name).value
            except StaICCError as error:
                row["problem"] = str(error)
        options: Sequence[OptionFact] = ()
        if kind == "kernels":
            row["description"] = DESCRIPTIONS.get(listed.name)
            options = () if value is None else declared_options(value)
        if kind == "datasets" and not row["problem"]:
            source = catalogue().sources[listed.name] if value is None else value.source
            row["description"] = f"source: {source.kind}"
        if isinstance(value, MethodSpec):
            row["description"] = f"{value.title}; needs {value.needs}"
            with contextlib.suppress(UnknownNameError):
                row["paper"] = str(find_work(value.name))
            options = options_of(value.options)
        if options or kind == "methods":
            row["options"] = [{**dataclasses.asdict(fact), "help": fact.help.replace("`", "")} for fact in options]
        rows.append(row)
    if kind == "benchmarks":
        rows.append({"name": LONG_ICL, "origin": None, "problem": None})
    return rows


def _lines(kind: str, rows: list[dict[str, Any]]) -> Iterator[Line]:
    yield Line(f"{kind}:")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        facts = [row["origin"] and f"[{row['origin']}]", row.get("description"), row["problem"] and "cannot be used"]
        yield Line(f"  {row['name']:{width}}  {' '.join(filter(None, facts))}".rstrip(), "code")
        if "paper" in row:
            yield Line(f"    paper: {row['paper']}", "code")
        for fact in row.get("options", ()):
            yield Line(f"    {fact['name']}={json.dumps(fact['default'])} ({fact['type']}): {fact['help']}", "code")


def show(args: argparse.Namespace) -> output.Printed:
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
    """
    registries: tuple[Registry[Any], ...] = (KERNELS, METHODS, dataset_registry(), BENCHMARKS, METRICS)
    known = zip(_KINDS, registries, strict=True)
    listings = {kind: _entries(kind, entries) for kind, entries in known if args.kind in (None, kind)}
    problems = [row["problem"] for rows in listings.values() for row in rows if row["problem"]]
    for problem in [] if args.json else problems:
        print(f"staicc: {problem}", file=sys.stderr)
    blocks = [line for kind, rows in listings.items() for line in _lines(kind, rows)]
    return output.Printed(listings, blocks, 1 if problems else 0)


models = methods = show


add_models = partial(add_show, kind="kernels")


add_methods = partial(add_show, kind="methods")
