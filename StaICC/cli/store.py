"""The command ``store``: prediction stores."""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from StaICC.cli import output
from StaICC.cli.parser import add_command
from StaICC.cli.terminal import raw
from StaICC.files.output import open_output
from StaICC.inference.store import PredictionStore
from StaICC.layout import Line


def add_store(parser: argparse.ArgumentParser) -> None:
    """Inspect, export and merge prediction stores.

    examples:
      python -m StaICC store info run.sqlite
      python -m StaICC store export run.sqlite -o answers.jsonl
      python -m StaICC store merge all.sqlite run.sqlite
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = add_command(actions, "info", _info, "count the answers of each model")
    export = add_command(actions, "export", _export, "print every answer as a line of JSON")
    for action in (info, export):
        action.add_argument("path", type=Path, metavar="STORE", help="the store's file")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to this new file, not to stdout")

    text = "copy the answers of other stores into one; where two differ, it keeps its own"
    merge = add_command(actions, "merge", _merge, text)
    merge.add_argument("path", type=Path, metavar="STORE", help="the store that gets them; made if it is not there")
    merge.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="a store to copy from; it is only read")


def _info(args: argparse.Namespace) -> output.Printed:
    """Return how many answers of each model a store has."""
    with PredictionStore(args.path, read_only=True) as store:
        info = store.info()
    lines = [f"{info.path}: schema {info.schema}, {info.size_bytes} bytes, {info.answers} answers"]
    for name, count in info.models.items():
        lines.append(f"{count:>10}  {name}")
    document = {**dataclasses.asdict(info), "answers": info.answers}
    return output.Printed(document, [Line(line, "code") for line in lines])


def _export(args: argparse.Namespace) -> None:
    """Write all answers of a store as JSON Lines, to stdout or to a new file."""
    output.check_output(args.output, store=args.path)
    with PredictionStore(args.path, read_only=True) as store:
        if args.output is None:
            count = store.export(raw(sys.stdout))  # its JSON is ASCII
        else:
            count = _export_to_file(store, args.output)
    print(f"{count} answers", file=sys.stderr)


def _export_to_file(store: PredictionStore, path: Path) -> int:
    """Export a store to a new file, and return the number of answers."""
    with open_output(path, fresh=True) as file:
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        count = store.export(stream)
        stream.detach()  # open_output closes the file
    return count


def _merge(args: argparse.Namespace) -> output.Printed:
    """Copy the answers of other stores into a store, and return how many were new, there already, or different."""
    if not args.path.exists():
        _refuse_unreadable(args.others)  # so that no empty store is made
    with PredictionStore(args.path) as store:
        reports = {str(other): store.merge(other) for other in args.others}
    lines = []
    for other, report in reports.items():
        lines.append(
            f"{other}: {report.added} answers added, {report.present} were there, {report.different} differ from those "
            "there (not copied)"
        )
    document = {other: report._asdict() for other, report in reports.items()}
    return output.Printed(document, [Line(line, "code") for line in lines])


def _refuse_unreadable(stores: Sequence[Path]) -> None:
    """Raise the error of the first store that cannot be read."""
    for path in stores:
        PredictionStore(path, read_only=True).close()
