"""``python -m StaICC data``: install, verify, list and find the frozen data.

examples:
  python -m StaICC data install
  python -m StaICC data install StaICC-0.1.1-py3-none-any.whl
  python -m StaICC data install long-icl --from DIR
  python -m StaICC data verify
  python -m StaICC data list --json
  python -m StaICC data path
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from StaICC.cli import long_icl
from StaICC.cli.files import print_json
from StaICC.cli.terminal import add_action
from StaICC.datasets import pack
from StaICC.datasets.catalogue import MINI, Card, get_card, names
from StaICC.datasets.pack import TableStatus
from StaICC.errors import ArgumentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``data`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser(
        "install",
        help="install the benchmark's data, or mend it",
        description="Install every table that is missing or damaged. Without FILE pip fetches the published wheel.",
    )
    install.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the published wheel, for use without a network; or long-icl, for the data of that benchmark",
    )
    install.add_argument("--json", action="store_true", help="print what is installed where as JSON")
    long_icl.add_install_arguments(install)
    add_action(actions, "verify", "read every installed table and compare it with what was published")
    add_action(actions, "list", "list the data sets that the library knows")
    add_action(actions, "path", "print the folder of the data", "print JSON instead of a line")


def _print_table(rows: Sequence[Sequence[object]]) -> None:
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _install(args: argparse.Namespace) -> int:
    if args.source is not None or args.hub or args.datasets:
        raise ArgumentError("--from, --hub and --datasets belong to: data install long-icl")
    pack.install(args.file)
    print(f"the benchmark's data is installed and verified in {pack.data_home()}", file=sys.stderr)
    if args.json:
        print_json({"path": str(pack.data_home()), "datasets": list(names())}, indent=2)
    return 0


def _verify(as_json: bool) -> int:
    of_pack = pack.verify()
    found = [*of_pack, *(one for one in long_icl.status(verify=True) if one.state != "missing")]
    if as_json:
        print_json([dataclasses.asdict(one) for one in found], indent=2)
    else:
        _print_table([("NAME", "STATE", "ROWS", "SHA-256"), *((o.name, o.state, o.rows, o.found) for o in found)])
    bad = [one for one in found if not one.usable]
    for one in bad:
        print(f"{one.name}: {one.path} is {one.state} ({one.reason}); it must have {one.expected}", file=sys.stderr)
    for some, command in ((of_pack, "install"), (found[len(of_pack) :], "install long-icl")):
        if not all(one.usable for one in some):
            print(f"install it again: python -m StaICC data {command}", file=sys.stderr)
    return 1 if bad else 0


def _list(as_json: bool) -> int:
    states = {one.name: one for one in pack.status()}
    cards = [get_card(name) for name in (*names(), MINI)]
    others = long_icl.listed()
    if as_json:
        listed = [{"index": _index(card), "state": _state(states, card)} | card.to_dict() for card in cards]
        print_json(listed + others, indent=2)
    else:
        head = ("INDEX", "NAME", "TITLE", "TASK", "LABELS", "ROWS", "STATE", "LICENCE")
        lines = [
            (
                _index(card),
                card.name,
                card.title,
                card.task,
                len(card.label_space),
                card.rows,
                _state(states, card),
                card.licence,
            )
            for card in cards
        ]
        _print_table([head, *lines])
        print("\nLongICL:")
        keys = ("name", "title", "task", "labels", "rows", "state", "licence")
        _print_table([head[1:], *([len(one[key]) if key == "labels" else one[key] for key in keys] for one in others)])
        for one in others:
            if one["state"] == "missing":
                print(f"{one['name']}: {one['obtain']}{' ' + one['terms'] if one['restricted'] else ''}")
        print("To install data sets of LongICL: python -m StaICC data install long-icl --from DIR (or --hub)")
    return 0


def _index(card: Card) -> int | None:
    return names().index(card.name) if card.name in names() else None


def _state(states: Mapping[str, TableStatus], card: Card) -> str:
    return states[card.name].state if card.name in states else "shipped"


def run(args: argparse.Namespace) -> int:
    """Do what the arguments of ``data`` say.

    Args:
        args: What the parser of :func:`add_arguments` gave.

    Returns:
        Exit status: 0, or 1 if ``verify`` found a table missing or damaged.

    Raises:
        StaICCError: The data cannot be installed; the message says what to do.
    """
    if args.action == "install":
        return long_icl.install(args) if str(args.file) == long_icl.NAME else _install(args)
    if args.action == "verify":
        return _verify(args.json)
    if args.action == "list":
        return _list(args.json)
    if args.json:
        print_json({"path": str(pack.data_home())}, indent=2)
    else:
        print(pack.data_home())
    return 0
