"""``store``: inspect, export and merge prediction stores."""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from pathlib import Path

from StaICC.cli.files import check_output, print_json
from StaICC.cli.terminal import add_action, raw
from StaICC.datasets.storage import open_output
from StaICC.inference.store import PredictionStore


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = add_action(actions, "info", "count the answers of each model")
    text = "no difference: the output is JSON Lines anyway"
    export = add_action(actions, "export", "print every answer as a line of JSON", text)
    text = "copy the answers of other stores into one; where two differ, it keeps its own"
    merge = add_action(actions, "merge", text)
    for action, run in ((info, _info), (export, _export), (merge, _merge)):
        text = "the store that gets them; made if it is not there" if action is merge else "the store's file"
        action.add_argument("path", type=Path, metavar="STORE", help=text)
        action.set_defaults(action_of_store=run)
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to this new file, not to stdout")
    merge.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="a store to copy from; it is only read")


def _info(args: argparse.Namespace) -> None:
    with PredictionStore(args.path, read_only=True) as store:
        info = store.info()
    if args.json:
        print_json({**dataclasses.asdict(info), "answers": info.answers}, indent=2)
        return
    print(f"{info.path}: schema {info.schema}, {info.size_bytes} bytes, {info.answers} answers")
    for name, count in info.models.items():
        print(f"{count:>10}  {name}")


def _export(args: argparse.Namespace) -> None:
    check_output(args.output, store=args.path)
    with PredictionStore(args.path, read_only=True) as store:
        if args.output is None:
            lines = store.export(raw(sys.stdout))  # its JSON is ASCII
        else:
            with open_output(args.output, fresh=True) as file:
                stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
                lines = store.export(stream)
                stream.detach()
    print(f"{lines} answers", file=sys.stderr)


def _merge(args: argparse.Namespace) -> None:
    if not args.path.exists():  # no store is made if there is nothing to copy
        for other in args.others:
            PredictionStore(other, read_only=True).close()
    reports = {}
    with PredictionStore(args.path) as store:
        for other in args.others:
            report = store.merge(other)
            reports[str(other)] = dataclasses.asdict(report)
            if not args.json:
                counts = f"{report.added} answers added, {report.present} were there"
                print(f"{other}: {counts}, {report.different} differ from those there (not copied)")
    if args.json:
        print_json(reports, indent=2)


def store(args: argparse.Namespace) -> int:
    """Inspect, export and merge prediction stores.

    examples:
      python -m StaICC store info run.sqlite
      python -m StaICC store export run.sqlite -o answers.jsonl
      python -m StaICC store merge all.sqlite run.sqlite
    """
    args.action_of_store(args)
    return 0
