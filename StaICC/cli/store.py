"""``python -m StaICC store``: inspect, export, merge and salvage prediction stores.

examples:
  python -m StaICC store info run.sqlite
  python -m StaICC store export run.sqlite -o answers.jsonl
  python -m StaICC store merge all.sqlite run.sqlite
  python -m StaICC store salvage run.sqlite saved.sqlite --json
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import sys
from pathlib import Path

from StaICC.cli.files import check_output, print_json
from StaICC.cli.parser import add_action
from StaICC.cli.terminal import raw
from StaICC.datasets.outputs import open_output
from StaICC.inference.store import PredictionStore
from StaICC.inference.store_salvage import salvage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``store`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    info = add_action(actions, "info", "count the answers of each model, and check every one")
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
    rescue = add_action(
        actions, "salvage", "save the good rows of a damaged store into a new one; the damaged one is only read"
    )
    rescue.add_argument("path", type=Path, metavar="DAMAGED", help="the damaged store's file")
    rescue.add_argument("new", type=Path, metavar="NEW", help="the new store's file, where nothing may be yet")


def _info(path: Path, as_json: bool) -> int:
    with PredictionStore(path, read_only=True) as store:
        found = store.info(verify=True)
    if as_json:
        models = [{**dataclasses.asdict(model), "limits": model.limits} for model in found.models]
        totals = {"answers": found.answers, "damaged": found.damaged}
        print_json({**dataclasses.asdict(found), "models": models, **totals}, indent=2)
    else:
        print(f"{found.path}: schema {found.schema}, {found.size_bytes} bytes, {found.answers} answers")
        for model in found.models:
            name = model.fingerprint or f"(name lost, digest {model.digest})"
            damaged = f"  ({model.damaged} damaged)" if model.damaged else ""
            print(f"{model.answers:>10}  {name}{damaged}" + (f"  ({model.limits})" if model.limits else ""))
    if found.damaged:
        print(
            f"{found.damaged} answers fail their checksum; save the others with "
            f"'python -m StaICC store salvage {found.path} NEW_PATH'",
            file=sys.stderr,
        )
    return 1 if found.damaged else 0


def _export(path: Path, output: Path | None) -> int:
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
    return 0


def _merge(path: Path, others: list[Path], as_json: bool) -> int:
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
    return 0


def _salvage(path: Path, new: Path, as_json: bool) -> int:
    report = salvage(path, new)
    if as_json:
        print_json(dataclasses.asdict(report), indent=2)
    else:
        lost = f", and {report.unnamed} whose names are lost" if report.unnamed else ""
        print(f"{report.path}: {report.answers} answers saved of {len(report.models)} named models{lost}")
    if report.problem is not None:
        print(
            f"SQLite could not read all of {path} ({report.problem}). To look for more rows, run "
            f"'sqlite3 {path} .recover | sqlite3 RECOVERED' and salvage RECOVERED.",
            file=sys.stderr,
        )
    return 0


def run(args: argparse.Namespace) -> int:
    """Carry out ``store``.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status: 1 if ``info`` found a row that fails its checksum.

    Raises:
        StaICCError: A path is wrong, or a store is damaged, of a newer schema, or cannot be written.
    """
    if args.action == "info":
        return _info(args.path, args.json)
    if args.action == "export":
        return _export(args.path, args.output)
    if args.action == "merge":
        return _merge(args.path, args.others, args.json)
    return _salvage(args.path, args.new, args.json)
