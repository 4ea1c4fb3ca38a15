"""The command ``data``: the frozen tables on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import Any

from StaICC import benchmark_names
from StaICC.cli import output
from StaICC.cli.options import LONG_ICL
from StaICC.cli.parser import add_command
from StaICC.datasets import pack
from StaICC.datasets.catalogue import MINI, get_card, names
from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.converted import MEGABYTE, ConvertedCopy, converted_copies, remove_copies
from StaICC.layout import Block, Line, TextTable


def add_data(parser: argparse.ArgumentParser) -> None:
    """Install, verify, list and find the frozen data.

    examples:
      python -m StaICC data install
      python -m StaICC data install StaICC-0.1.1-py3-none-any.whl
      python -m StaICC data install long-icl --from DIR
      python -m StaICC data verify
      python -m StaICC data list --json
      python -m StaICC data remove NAME
      python -m StaICC data path
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    text = "install every table of the benchmark that is missing or damaged"
    install = add_command(actions, "install", _install, text)
    text = "the published wheel, for use without a network (default: pip fetches it); or long-icl, for its data"
    install.add_argument("file", nargs="?", type=Path, metavar="FILE", help=text)
    group = install.add_argument_group(LONG_ICL)
    group.add_argument("--from", dest="source", type=Path, metavar="DIR", help="folder with the published files")
    group.add_argument("--hub", action="store_true", help="download data sets from the Hugging Face hub (extra hub)")
    text = "data sets (default: all six)"
    group.add_argument("--datasets", nargs="+", action="extend", metavar="NAME", help=text)
    add_command(actions, "verify", _verify, "read every installed table and compare it with what was published")
    add_command(actions, "list", _list, "list the data sets that the library knows, and the converted copies of models")
    remove = add_command(actions, "remove", _remove, "remove converted copies of GGUF files; the files themselves stay")
    remove.add_argument("names", nargs="+", metavar="NAME", help="names of copies, as data list has them")
    add_command(actions, "path", _path, "print the folder of the data")


def _install(args: argparse.Namespace) -> output.Printed:
    if str(args.file) == LONG_ICL:
        return _install_long_icl(args)
    if args.source is not None or args.hub or args.datasets:
        raise ArgumentError("--from, --hub and --datasets belong to: data install long-icl")
    pack.install(args.file)
    print(f"the benchmark's data is installed and verified in {pack.data_home()}", file=sys.stderr)
    return output.Printed({"path": str(pack.data_home()), "datasets": list(names())}, ())


def _install_long_icl(args: argparse.Namespace) -> output.Printed:
    """Install data of LongICL from a folder or from the hub; status 1 if a data set that was named is missing."""
    if (args.source is None) is not args.hub:
        raise ArgumentError("give one place of the files: --from DIR, or --hub for what the Hugging Face hub has")
    from StaICC.long_icl.install import install

    show = partial(print, file=sys.stderr)  # licence notices, before any file is opened
    done = install(args.source, datasets=args.datasets, announce=show)
    show(f"installed in {done.folder}: {', '.join(done.datasets)}")
    skipped = {dataset.dataset: dataset.reason for dataset in done.skipped}
    document = {"path": str(done.folder), "datasets": list(done.datasets), "skipped": skipped}
    return output.Printed(document, (), 1 if args.datasets and done.skipped else 0)


def _verify(args: argparse.Namespace) -> output.Printed:
    from StaICC.long_icl.install import status

    of_long_icl = [table for table in status(verify=True) if table.state != "missing"]
    commands = {"install": list(pack.verify()), "install long-icl": of_long_icl}
    tables = [table for of_command in commands.values() for table in of_command]
    bad = [table for table in tables if not table.usable]
    for table in bad:
        reason = f"{table.path} is {table.state} ({table.reason}); it must have {table.expected}"
        print(f"{table.name}: {reason}", file=sys.stderr)
    for command, of_command in commands.items():
        if not all(table.usable for table in of_command):
            print(f"install it again: python -m StaICC data {command}", file=sys.stderr)
    rows = [{"NAME": own.name, "STATE": own.state, "ROWS": own.rows, "SHA-256": own.found} for own in tables]
    document = [dataclasses.asdict(table) for table in tables]
    return output.Printed(document, [output.table(rows, range(4))], 1 if bad else 0)


def _list(args: argparse.Namespace) -> output.Printed:
    from StaICC.long_icl.cards import task_card
    from StaICC.long_icl.install import status

    states = {table.name: table.state for table in pack.status()}
    numbered = [*enumerate(names()), (None, MINI)]
    listed = [{"index": n, "state": states.get(name, "shipped")} | get_card(name).to_dict() for n, name in numbered]
    keys = ("title", "task", "source", "licence", "restricted", "terms", "citation", "obtain", "offensive", "labels")
    others: list[dict[str, Any]] = [
        {"benchmark": benchmark_names.LONG_ICL, "name": table.name, "state": table.state, "rows": table.rows}
        | {key: getattr(task_card(table.name), key) for key in keys}
        for table in status()
    ]
    head = ("index", "name", "title", "task", "labels", "rows", "state", "licence")

    def shown(cards: list[dict[str, Any]]) -> TextTable:
        counted = [card | {"labels": len(card["labels" if "labels" in card else "label_space"])} for card in cards]
        rows = [{key.upper(): card[key] for key in head if key in card} for card in counted]
        return output.table(rows, range(len(rows[0])))

    blocks: list[Block] = [shown(listed), Line(""), Line("LongICL:"), shown(others)]
    for card in others:
        if card["state"] == "missing":
            blocks.append(Line(f"{card['name']}: {card['obtain']}{' ' + card['terms'] if card['restricted'] else ''}"))
    blocks.append(Line("To install data sets of LongICL: python -m StaICC data install long-icl --from DIR (or --hub)"))
    copies = converted_copies()
    if copies:
        rows = [{"NAME": own.name, "OF": own.source, "MB": own.size // MEGABYTE} for own in copies]
        blocks += [Line(""), Line("Converted copies of models:"), output.table(rows, range(2))]
    return output.Printed(listed + others + [_described(own) for own in copies], blocks)


def _described(own: ConvertedCopy) -> dict[str, Any]:
    """Return a converted copy as an entry of the list."""
    return {"state": "converted", "rows": None, **dataclasses.asdict(own)}


def _remove(args: argparse.Namespace) -> output.Printed:
    removed = remove_copies(args.names)
    lines = [Line(f"removed {own.name} ({own.size // MEGABYTE} MB)") for own in removed]
    return output.Printed([dataclasses.asdict(own) for own in removed], lines)


def _path(args: argparse.Namespace) -> output.Printed:
    return output.Printed({"path": str(pack.data_home())}, [Line(str(pack.data_home()), "code")])
