"""``data``: install, verify, list and find the frozen data."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from StaICC.cli import long_icl
from StaICC.cli.files import print_json
from StaICC.cli.terminal import add_action
from StaICC.datasets import pack
from StaICC.datasets.catalogue import MINI, get_card, names
from StaICC.errors import ArgumentError


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    as_json = "print what is installed where as JSON"
    install = add_action(actions, "install", "install every table of the benchmark that is missing or damaged", as_json)
    text = "the published wheel, for use without a network (default: pip fetches it); or long-icl, for its data"
    install.add_argument("file", nargs="?", type=Path, metavar="FILE", help=text)
    long_icl.add_install_arguments(install)
    verify = add_action(actions, "verify", "read every installed table and compare it with what was published")
    listing = add_action(actions, "list", "list the data sets that the library knows")
    path = add_action(actions, "path", "print the folder of the data", "print JSON instead of a line")
    for action, run in ((install, _install), (verify, _verify), (listing, _list), (path, _path)):
        action.set_defaults(action_of_data=run)


def _print_table(rows: Sequence[Sequence[object]]) -> None:
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _install(args: argparse.Namespace) -> int:
    if str(args.file) == long_icl.NAME:
        return long_icl.install(args)
    if args.source is not None or args.hub or args.datasets:
        raise ArgumentError("--from, --hub and --datasets belong to: data install long-icl")
    pack.install(args.file)
    print(f"the benchmark's data is installed and verified in {pack.data_home()}", file=sys.stderr)
    if args.json:
        print_json({"path": str(pack.data_home()), "datasets": list(names())}, indent=2)
    return 0


def _verify(args: argparse.Namespace) -> int:
    of_long_icl = [table for table in long_icl.status(verify=True) if table.state != "missing"]
    commands = {"install": list(pack.verify()), "install long-icl": of_long_icl}
    tables = [table for of_command in commands.values() for table in of_command]
    if args.json:
        print_json([dataclasses.asdict(table) for table in tables], indent=2)
    else:
        rows = [(table.name, table.state, table.rows, table.found) for table in tables]
        _print_table([("NAME", "STATE", "ROWS", "SHA-256"), *rows])
    bad = [table for table in tables if not table.usable]
    for table in bad:
        reason = f"{table.path} is {table.state} ({table.reason}); it must have {table.expected}"
        print(f"{table.name}: {reason}", file=sys.stderr)
    for command, of_command in commands.items():
        if not all(table.usable for table in of_command):
            print(f"install it again: python -m StaICC data {command}", file=sys.stderr)
    return 1 if bad else 0


def _list(args: argparse.Namespace) -> int:
    states = {table.name: table.state for table in pack.status()}
    index = {name: number for number, name in enumerate(names())}
    listed = [
        {"index": index.get(name), "state": states.get(name, "shipped")} | get_card(name).to_dict()
        for name in (*names(), MINI)
    ]
    others = long_icl.listed()
    if args.json:
        print_json(listed + others, indent=2)
        return 0
    head = ("INDEX", "NAME", "TITLE", "TASK", "LABELS", "ROWS", "STATE", "LICENCE")

    def cells(card: dict[str, Any], labels: str) -> list[object]:
        return [len(card[labels]) if key == "LABELS" else card.get(key.lower()) for key in head]

    _print_table([head, *(cells(card, "label_space") for card in listed)])
    print("\nLongICL:")
    _print_table([head[1:], *(cells(card, "labels")[1:] for card in others)])
    for card in others:
        if card["state"] == "missing":
            print(f"{card['name']}: {card['obtain']}{' ' + card['terms'] if card['restricted'] else ''}")
    print("To install data sets of LongICL: python -m StaICC data install long-icl --from DIR (or --hub)")
    return 0


def _path(args: argparse.Namespace) -> int:
    if args.json:
        print_json({"path": str(pack.data_home())}, indent=2)
    else:
        print(pack.data_home())
    return 0


def data(args: argparse.Namespace) -> int:
    """Install, verify, list and find the frozen data.

    examples:
      python -m StaICC data install
      python -m StaICC data install StaICC-0.1.1-py3-none-any.whl
      python -m StaICC data install long-icl --from DIR
      python -m StaICC data verify
      python -m StaICC data list --json
      python -m StaICC data path
    """
    status: int = args.action_of_data(args)
    return status
