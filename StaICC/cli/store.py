"""``python -m StaICC store``: inspect, export and merge prediction stores.

examples:
  python -m StaICC store info run.sqlite
  python -m StaICC store export run.sqlite -o answers.jsonl
  python -m StaICC store merge all.sqlite run.sqlite
"""

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``store`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    info = add_action(actions, "info", "count the answers of each model")
    info.add_argument("path", type=Path, metavar="STORE", help="the store's file")
    export = add_action(
        actions, "export", "print every answer as a line of JSON", "no difference: the output is JSON Lines anyway"
    )
    export.add_argument("path", type=Path, metavar="STORE", help="the store's file")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to this new file, not to stdout")
    merge = add_action(
        actions, "merge", "copy the answers of other stores into one; where two differ, it keeps its own"
    )
    merge.add_argument("path", type=Path, metavar="STORE", help="the store that gets them; made if it is not there")
    merge.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="a store to copy from; it is only read")


def _info(path: Path, as_json: bool) -> None:
    with PredictionStore(path, read_only=True) as store:
        info = store.info()
    if as_json:
        print_json({**dataclasses.asdict(info), "answers": info.answers}, indent=2)
        return
    print(f"{info.path}: schema {info.schema}, {info.size_bytes} bytes, {info.answers} answers")
    for name, count in info.models.items():
        print(f"{count:>10}  {name}")


def _export(path: Path, output: Path | None) -> None:
    check_output(output, store=path)
    with PredictionStore(path, read_only=True) as store:
        if output is None:
            lines = store.export(raw(sys.stdout))  # its JSON is ASCII
        else:
            with open_output(output, fresh=True) as file:
                stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
                lines = store.export(stream)
                stream.detach()
    print(f"{lines} answers", file=sys.stderr)


def _merge(path: Path, others: list[Path], as_json: bool) -> None:
    reports: dict[str, object] = {}
    if not path.exists():  # no store is made if there is nothing to copy
        for other in others:
            PredictionStore(other, read_only=True).close()
    with PredictionStore(path) as store:
        for other in others:
            report = store.merge(other)
            reports[str(other)] = dataclasses.asdict(report)
            if not as_json:
                print(
                    f"{other}: {report.added} answers added, {report.present} were there, "
                    f"{report.different} differ from those there (not copied)"
                )
    if as_json:
        print_json(reports, indent=2)


def run(args: argparse.Namespace) -> int:
    """Carry out ``store``.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        StaICCError: A path is wrong, or a store is damaged, of another schema, or cannot be written.
    """
    if args.action == "info":
        _info(args.path, args.json)
    elif args.action == "export":
        _export(args.path, args.output)
    else:
        _merge(args.path, args.others, args.json)
    return 0
