"""``python -m StaICC show``: list kernels, methods, data sets, benchmarks and metrics, including plug-ins.

``methods`` is short for ``show methods``, ``models`` for ``show kernels``. A model is named as
KIND:NAME;option=value;... in quotes, or with --model-option option=value for each option.

examples:
  python -m StaICC show
  python -m StaICC show methods
  python -m StaICC show kernels --json
  python -m StaICC methods --json
  python -m StaICC models
  python -m StaICC run normal --model 'ppm;order=8' --datasets mini
  python -m StaICC run normal --model ppm --model-option order=8 --datasets mini
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.cli import long_icl
from StaICC.datasets.catalogue import catalogue
from StaICC.datasets.dataset import dataset_registry
from StaICC.errors import StaICCError, UnknownNameError
from StaICC.kernels.registry import DESCRIPTIONS, KERNELS, OptionFact, declared_options, options_of
from StaICC.methods.catalogue import METHODS
from StaICC.methods.specification import MethodSpec
from StaICC.metrics.registry import METRICS
from StaICC.registry import Registry
from StaICC.results.citations import find_work

KINDS = ("kernels", "methods", "datasets", "benchmarks", "metrics")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    kind = {"methods": "methods", "models": "kernels"}.get(parser.prog.rpartition(" ")[2])
    if kind is None:
        parser.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=f"{', '.join(KINDS)} (default: all)")
    parser.set_defaults(kind=kind)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a list")


def _registries() -> Mapping[str, Registry[Any]]:
    found = (KERNELS, METHODS, dataset_registry(), BENCHMARKS, METRICS)
    return dict(zip(KINDS, found, strict=True))


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
            row["options"] = [{**asdict(one), "help": one.help.replace("`", "")} for one in options]
        rows.append(row)
    if kind == "benchmarks":
        rows.append({"name": long_icl.NAME, "origin": None, "problem": None})
    return rows


def _print(kind: str, rows: list[dict[str, Any]]) -> None:
    print(f"{kind}:")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        facts = [row["origin"] and f"[{row['origin']}]", row.get("description"), row["problem"] and "cannot be used"]
        print(f"  {row['name']:{width}}  {' '.join(filter(None, facts))}".rstrip())
        if "paper" in row:
            print(f"    paper: {row['paper']}")
        for one in row.get("options", ()):
            print(f"    {one['name']}={json.dumps(one['default'])} ({one['type']}): {one['help']}")
        if row["problem"]:
            print(f"staicc: {row['problem']}", file=sys.stderr)


def run(args: argparse.Namespace) -> int:
    """List the entries.

    Returns:
        The exit status: 1 if a plug-in cannot be loaded.
    """
    kinds = KINDS if args.kind is None else (args.kind,)
    found = {kind: _entries(kind, entries) for kind, entries in _registries().items() if kind in kinds}
    if args.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        for kind, rows in found.items():
            _print(kind, rows)
    return int(any(row["problem"] for rows in found.values() for row in rows))
