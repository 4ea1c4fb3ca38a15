"""``python -m StaICC store``: look into a prediction store, copy it out, merge two, save what is good of a damaged one.

Data goes to stdout, talk to stderr. ``info`` ends with status 1 if a row fails its checksum.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from StaICC.inference.store import PredictionStore
from StaICC.inference.store_salvage import salvage

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """\
examples:
  python -m StaICC store info run.sqlite
  python -m StaICC store export run.sqlite -o answers.jsonl
  python -m StaICC store merge all.sqlite run.sqlite
  python -m StaICC store salvage run.sqlite saved.sqlite --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``store`` to its parser.

    Args:
        parser: The parser of the subcommand.
    """
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, text: str, as_json: str = "print JSON instead of a table") -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        action.add_argument("--json", action="store_true", help=as_json)
        return action

    info = add("info", "count the answers of each model, and check every one")
    info.add_argument("path", type=Path, metavar="STORE", help="the store's file")
    export = add("export", "print every answer as a line of JSON", "no difference: the output is JSON Lines anyway")
    export.add_argument("path", type=Path, metavar="STORE", help="the store's file")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to this new file, not to stdout")
    merge = add("merge", "copy the answers of other stores into one; where two differ, it keeps its own")
    merge.add_argument("path", type=Path, metavar="STORE", help="the store that gets them; made if it is not there")
    merge.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="a store to copy from; it is only read")
    rescue = add("salvage", "save the good rows of a damaged store into a new one; the damaged one is only read")
    rescue.add_argument("path", type=Path, metavar="DAMAGED", help="the damaged store's file")
    rescue.add_argument("new", type=Path, metavar="NEW", help="the new store's file, where nothing may be yet")


def _print_json(data: dict[str, object]) -> None:
    print(json.dumps(data, ensure_ascii=False, indent=2, default=str))


def _info(path: Path, as_json: bool) -> int:
    with PredictionStore(path, read_only=True) as store:
        found = store.info(verify=True)
    if as_json:
        _print_json({**dataclasses.asdict(found), "answers": found.answers, "damaged": found.damaged})
    else:
        print(f"{found.path}: schema {found.schema}, {found.size_bytes} bytes, {found.answers} answers")
        for model in found.models:
            name = model.fingerprint or f"(name lost, digest {model.digest})"
            print(f"{model.answers:>10}  {name}" + (f"  ({model.damaged} damaged)" if model.damaged else ""))
    if found.damaged:
        print(
            f"{found.damaged} answers fail their checksum; save the others with "
            f"'python -m StaICC store salvage {found.path} NEW_PATH'",
            file=sys.stderr,
        )
    return 1 if found.damaged else 0


def _export(path: Path, output: Path | None) -> int:
    with PredictionStore(path, read_only=True) as store:
        if output is None:
            lines = store.export(sys.stdout)
        else:
            stream = output.open("x", encoding="utf-8", newline="\n")
            try:
                with stream:
                    lines = store.export(stream)
            except BaseException:
                output.unlink(missing_ok=True)  # half of the answers would look like all
                raise
    print(f"{lines} answers", file=sys.stderr)
    return 0


def _merge(path: Path, others: list[Path], as_json: bool) -> int:
    reports: dict[str, object] = {}
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
        _print_json(reports)
    return 0


def _salvage(path: Path, new: Path, as_json: bool) -> int:
    report = salvage(path, new)
    if as_json:
        _print_json(dataclasses.asdict(report))
    else:
        lost = f", and {report.unnamed} whose names are lost" if report.unnamed else ""
        print(f"{report.path}: {report.answers} answers saved of {len(report.models)} named models{lost}")
    return 0


def run(args: argparse.Namespace) -> int:
    """Carry out ``store``.

    Args:
        args: The parsed arguments.

    Returns:
        The exit status.

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
