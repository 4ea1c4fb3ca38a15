"""The command ``data``: the frozen tables on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC import benchmark_names
from StaICC.cli import output
from StaICC.cli.long_icl_options import LONG_ICL
from StaICC.cli.parser import add_command
from StaICC.datasets import pack
from StaICC.datasets.catalogue import MINI, get_card, names
from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.converted import MEGABYTE, ConvertedCopy, converted_copies, remove_copies
from StaICC.layout import Block, Line, TextTable

_LIST_COLUMNS = ("index", "name", "title", "task", "labels", "rows", "state", "licence")
_LONG_ICL_FACTS = (
    "title",
    "task",
    "source",
    "licence",
    "restricted",
    "terms",
    "citation",
    "obtain",
    "offensive",
    "labels",
)
"""The fields of a card of LongICL that ``data list`` has."""


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
    _add_install(actions)
    add_command(actions, "verify", _verify, "read every installed table and compare it with what was published")
    add_command(actions, "list", _list, "list the data sets that the library knows, and the converted copies of models")
    remove = add_command(actions, "remove", _remove, "remove converted copies of GGUF files; the files themselves stay")
    remove.add_argument("names", nargs="+", metavar="NAME", help="names of copies, as data list has them")
    add_command(actions, "path", _path, "print the folder of the data")


def _add_install(actions: Any) -> None:
    """Add the action ``install`` with its arguments to the command."""
    text = "install every table of the benchmark that is missing or damaged"
    install = add_command(actions, "install", _install, text)
    install.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the published wheel, for use without a network (default: pip fetches it); or long-icl, for its data",
    )
    group = install.add_argument_group(LONG_ICL)
    group.add_argument("--from", dest="source", type=Path, metavar="DIR", help="folder with the published files")
    group.add_argument("--hub", action="store_true", help="download data sets from the Hugging Face hub (extra hub)")
    group.add_argument("--datasets", nargs="+", action="extend", metavar="NAME", help="data sets (default: all six)")


def _install(args: argparse.Namespace) -> output.Printed:
    """Install the tables of the benchmark, or with ``long-icl`` the data of LongICL."""
    if str(args.file) == LONG_ICL:
        return _install_long_icl(args)
    if args.source is not None or args.hub or args.datasets:
        raise ArgumentError("--from, --hub and --datasets belong to: data install long-icl")
    pack.install(args.file)
    _announce(f"the benchmark's data is installed and verified in {pack.data_home()}")
    return output.Printed({"path": str(pack.data_home()), "datasets": list(names())}, ())


def _install_long_icl(args: argparse.Namespace) -> output.Printed:
    """Install data of LongICL from a folder or from the hub; status 1 if a data set that was named is missing."""
    from StaICC.long_icl.install import install

    has_folder = args.source is not None
    if has_folder == args.hub:
        raise ArgumentError("give one place of the files: --from DIR, or --hub for what the Hugging Face hub has")
    # Licence notices are announced before any file is opened.
    report = install(args.source, datasets=args.datasets, announce=_announce)
    _announce(f"installed in {report.folder}: {', '.join(report.datasets)}")
    document = {
        "path": str(report.folder),
        "datasets": list(report.datasets),
        "skipped": {dataset.dataset: dataset.reason for dataset in report.skipped},
    }
    lacks_named = bool(args.datasets and report.skipped)
    return output.Printed(document, (), status=1 if lacks_named else 0)


def _announce(message: str) -> None:
    """Print a message on stderr."""
    print(message, file=sys.stderr)


def _verify(args: argparse.Namespace) -> output.Printed:
    """Verify the installed tables; status 1 if one is not as published."""
    from StaICC.long_icl.install import status

    tables: list[Any] = list(pack.verify())
    # Data sets of LongICL are optional: those that are missing are left out.
    long_icl_tables = [table for table in status(verify=True) if table.state != "missing"]
    commands = []  # that install the unusable tables again
    if not all(table.usable for table in tables):
        commands.append("install")
    if not all(table.usable for table in long_icl_tables):
        commands.append("install long-icl")
    tables += long_icl_tables
    for table in tables:
        if not table.usable:
            _announce(f"{table.name}: {table.path} is {table.state} ({table.reason}); it must have {table.expected}")
    for command in commands:
        _announce(f"install it again: python -m StaICC data {command}")

    rows = []
    for table in tables:
        rows.append({"NAME": table.name, "STATE": table.state, "ROWS": table.rows, "SHA-256": table.found})
    document = [dataclasses.asdict(table) for table in tables]
    return output.Printed(document, [output.table(rows, texts=range(4))], status=1 if commands else 0)


def _list(args: argparse.Namespace) -> output.Printed:
    """List the data sets, with how to obtain those of LongICL that are missing, and the converted copies of models."""
    cards = _cards_of_benchmark()
    long_icl_cards = _cards_of_long_icl()
    copies = converted_copies()

    blocks: list[Block] = [_table_of_cards(cards), Line(""), Line("LongICL, HELMET:"), _table_of_cards(long_icl_cards)]
    blocks += _ways_to_obtain(long_icl_cards)
    blocks.append(
        Line("To install data sets of LongICL and HELMET: python -m StaICC data install long-icl --from DIR (or --hub)")
    )
    if copies:
        blocks += [Line(""), Line("Converted copies of models:"), _table_of_copies(copies)]
    document = cards + long_icl_cards + [_copy_record(copy) for copy in copies]
    return output.Printed(document, blocks)


def _cards_of_benchmark() -> list[dict[str, Any]]:
    """Return the cards of the ten data sets, in order, and of the one that needs no download, with their states."""
    states = {table.name: table.state for table in pack.status()}
    records = []
    for index, name in enumerate(names()):
        records.append({"index": index, "state": states.get(name, "shipped"), **get_card(name).to_dict()})
    records.append({"index": None, "state": states.get(MINI, "shipped"), **get_card(MINI).to_dict()})
    return records


def _cards_of_long_icl() -> list[dict[str, Any]]:
    """Return facts of the data sets of LongICL and HELMET, with their states."""
    from StaICC.long_icl.cards import task_card
    from StaICC.long_icl.install import status

    records = []
    for table in status():
        card = task_card(table.name)
        record = {
            "benchmark": benchmark_names.HELMET if card.suite == "HELMET" else benchmark_names.LONG_ICL,
            "name": table.name,
            "state": table.state,
            "rows": table.rows,
        }
        for fact in _LONG_ICL_FACTS:
            record[fact] = getattr(card, fact)
        records.append(record)
    return records


def _table_of_cards(cards: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the table of data sets; its columns are those facts of :data:`_LIST_COLUMNS` that the cards have."""
    rows = []
    for card in cards:
        labels = card["labels"] if "labels" in card else card["label_space"]
        facts = {**card, "labels": len(labels)}
        rows.append({column.upper(): facts[column] for column in _LIST_COLUMNS if column in facts})
    return output.table(rows, texts=range(len(rows[0])))


def _ways_to_obtain(cards: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return a line for each data set that is not installed: where its files are, with terms if it has some."""
    lines = []
    for card in cards:
        if card["state"] != "missing":
            continue
        text = f"{card['name']}: {card['obtain']} Source: {card['source']}"
        if card["restricted"]:
            text += f", terms: {card['terms']}"
        lines.append(Line(text))
    return lines


def _table_of_copies(copies: Sequence[ConvertedCopy]) -> TextTable:
    rows = [{"NAME": copy.name, "OF": copy.source, "MB": copy.size // MEGABYTE} for copy in copies]
    return output.table(rows, texts=range(2))


def _copy_record(copy: ConvertedCopy) -> dict[str, Any]:
    """Return a converted copy as an entry of the list."""
    return {"state": "converted", "rows": None, **dataclasses.asdict(copy)}


def _remove(args: argparse.Namespace) -> output.Printed:
    removed = remove_copies(args.names)
    lines = [Line(f"removed {copy.name} ({copy.size // MEGABYTE} MB)") for copy in removed]
    return output.Printed([dataclasses.asdict(copy) for copy in removed], lines)


def _path(args: argparse.Namespace) -> output.Printed:
    folder = str(pack.data_home())
    return output.Printed({"path": folder}, [Line(folder, "code")])
