"""The commands about what is installed or stored: ``data``, ``store``, ``show``, ``models``, ``methods``."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from StaICC import benchmark_names
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.cli import saving
from StaICC.cli.options import LONG_ICL
from StaICC.cli.parser import add_command
from StaICC.cli.terminal import raw
from StaICC.comparing.citing import find_work
from StaICC.datasets import pack
from StaICC.datasets.catalogue import MINI, catalogue, get_card, names
from StaICC.datasets.dataset import dataset_registry
from StaICC.errors import ArgumentError, StaICCError, UnknownNameError
from StaICC.files.output import open_output
from StaICC.inference.store import PredictionStore
from StaICC.kernels.huggingface.converted import MEGABYTE, ConvertedCopy, converted_copies, remove_copies
from StaICC.kernels.registry import DESCRIPTIONS, KERNELS, OptionFact, declared_options, options_of
from StaICC.layout import Block, Line, TextTable
from StaICC.methods.specification import METHODS, MethodSpec
from StaICC.metrics.metric_set import METRICS
from StaICC.registry import Registry

_KINDS = ("kernels", "methods", "datasets", "benchmarks", "metrics")


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


def _install(args: argparse.Namespace) -> saving.Printed:
    if str(args.file) == LONG_ICL:
        return _install_long_icl(args)
    if args.source is not None or args.hub or args.datasets:
        raise ArgumentError("--from, --hub and --datasets belong to: data install long-icl")
    pack.install(args.file)
    print(f"the benchmark's data is installed and verified in {pack.data_home()}", file=sys.stderr)
    return saving.Printed({"path": str(pack.data_home()), "datasets": list(names())}, ())


def _install_long_icl(args: argparse.Namespace) -> saving.Printed:
    """Install data of LongICL from a folder or from the hub; status 1 if a data set that was named is missing."""
    if (args.source is None) is not args.hub:
        raise ArgumentError("give one place of the files: --from DIR, or --hub for what the Hugging Face hub has")
    from StaICC.long_icl.install import install

    show = partial(print, file=sys.stderr)  # licence notices, before any file is opened
    done = install(args.source, datasets=args.datasets, announce=show)
    show(f"installed in {done.folder}: {', '.join(done.datasets)}")
    skipped = {dataset.dataset: dataset.reason for dataset in done.skipped}
    document = {"path": str(done.folder), "datasets": list(done.datasets), "skipped": skipped}
    return saving.Printed(document, (), 1 if args.datasets and done.skipped else 0)


def _verify(args: argparse.Namespace) -> saving.Printed:
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
    return saving.Printed(document, [saving.table(rows, range(4))], 1 if bad else 0)


def _list(args: argparse.Namespace) -> saving.Printed:
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
        return saving.table(rows, range(len(rows[0])))

    blocks: list[Block] = [shown(listed), Line(""), Line("LongICL:"), shown(others)]
    for card in others:
        if card["state"] == "missing":
            blocks.append(Line(f"{card['name']}: {card['obtain']}{' ' + card['terms'] if card['restricted'] else ''}"))
    blocks.append(Line("To install data sets of LongICL: python -m StaICC data install long-icl --from DIR (or --hub)"))
    copies = converted_copies()
    if copies:
        rows = [{"NAME": own.name, "OF": own.source, "MB": own.size // MEGABYTE} for own in copies]
        blocks += [Line(""), Line("Converted copies of models:"), saving.table(rows, range(2))]
    return saving.Printed(listed + others + [_described(own) for own in copies], blocks)


def _described(own: ConvertedCopy) -> dict[str, Any]:
    """Return a converted copy as an entry of the list."""
    return {"state": "converted", "rows": None, **dataclasses.asdict(own)}


def _remove(args: argparse.Namespace) -> saving.Printed:
    removed = remove_copies(args.names)
    lines = [Line(f"removed {own.name} ({own.size // MEGABYTE} MB)") for own in removed]
    return saving.Printed([dataclasses.asdict(own) for own in removed], lines)


def _path(args: argparse.Namespace) -> saving.Printed:
    return saving.Printed({"path": str(pack.data_home())}, [Line(str(pack.data_home()), "code")])


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
    text = "copy the answers of other stores into one; where two differ, it keeps its own"
    merge = add_command(actions, "merge", _merge, text)
    for action in (info, export, merge):
        text = "the store that gets them; made if it is not there" if action is merge else "the store's file"
        action.add_argument("path", type=Path, metavar="STORE", help=text)
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="write to this new file, not to stdout")
    merge.add_argument("others", type=Path, nargs="+", metavar="OTHER", help="a store to copy from; it is only read")


def _info(args: argparse.Namespace) -> saving.Printed:
    with PredictionStore(args.path, read_only=True) as store:
        info = store.info()
    head = f"{info.path}: schema {info.schema}, {info.size_bytes} bytes, {info.answers} answers"
    lines = [head, *(f"{count:>10}  {name}" for name, count in info.models.items())]
    return saving.Printed({**dataclasses.asdict(info), "answers": info.answers}, [Line(line, "code") for line in lines])


def _export(args: argparse.Namespace) -> None:
    saving.check_output(args.output, store=args.path)
    with PredictionStore(args.path, read_only=True) as store:
        if args.output is None:
            lines = store.export(raw(sys.stdout))  # its JSON is ASCII
        else:
            with open_output(args.output, fresh=True) as file:
                stream = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
                lines = store.export(stream)
                stream.detach()
    print(f"{lines} answers", file=sys.stderr)


def _merge(args: argparse.Namespace) -> saving.Printed:
    if not args.path.exists():  # no store is made if there is nothing to copy
        for other in args.others:
            PredictionStore(other, read_only=True).close()
    with PredictionStore(args.path) as store:
        reports = {str(other): store.merge(other) for other in args.others}
    lines = [
        f"{other}: {report.added} answers added, {report.present} were there, {report.different} differ from those "
        "there (not copied)"
        for other, report in reports.items()
    ]
    documents = {other: report._asdict() for other, report in reports.items()}
    return saving.Printed(documents, [Line(line, "code") for line in lines])


def add_show(parser: argparse.ArgumentParser, kind: str | None = None) -> None:
    """Add the arguments of the command; ``models`` and ``methods`` have a fixed kind."""
    parser.set_defaults(kind=kind)
    if kind is None:
        text = f"{', '.join(_KINDS)} (default: all)"
        parser.add_argument("kind", nargs="?", choices=_KINDS, metavar="KIND", help=text)


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
            row["options"] = [{**dataclasses.asdict(fact), "help": fact.help.replace("`", "")} for fact in options]
        rows.append(row)
    if kind == "benchmarks":
        rows.append({"name": LONG_ICL, "origin": None, "problem": None})
    return rows


def _lines(kind: str, rows: list[dict[str, Any]]) -> Iterator[Line]:
    yield Line(f"{kind}:")
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        facts = [row["origin"] and f"[{row['origin']}]", row.get("description"), row["problem"] and "cannot be used"]
        yield Line(f"  {row['name']:{width}}  {' '.join(filter(None, facts))}".rstrip(), "code")
        if "paper" in row:
            yield Line(f"    paper: {row['paper']}", "code")
        for fact in row.get("options", ()):
            yield Line(f"    {fact['name']}={json.dumps(fact['default'])} ({fact['type']}): {fact['help']}", "code")


def show(args: argparse.Namespace) -> saving.Printed:
    """List kernels, methods, data sets, benchmarks and metrics, including plug-ins.

    ``methods`` is short for ``show methods``, ``models`` for ``show kernels``. A model is named as
    KIND:NAME;option=value;... in quotes, or with --model-option option=value for each option. The exit status is 1 if a
    plug-in cannot be loaded.

    examples:
      python -m StaICC show
      python -m StaICC show methods
      python -m StaICC show kernels --json
      python -m StaICC methods --json
      python -m StaICC models
      python -m StaICC run normal --model 'ppm;order=8' --datasets mini
      python -m StaICC run normal --model ppm --model-option order=8 --datasets mini
    """
    registries: tuple[Registry[Any], ...] = (KERNELS, METHODS, dataset_registry(), BENCHMARKS, METRICS)
    known = zip(_KINDS, registries, strict=True)
    listings = {kind: _entries(kind, entries) for kind, entries in known if args.kind in (None, kind)}
    problems = [row["problem"] for rows in listings.values() for row in rows if row["problem"]]
    for problem in [] if args.json else problems:
        print(f"staicc: {problem}", file=sys.stderr)
    blocks = [line for kind, rows in listings.items() for line in _lines(kind, rows)]
    return saving.Printed(listings, blocks, 1 if problems else 0)


models = methods = show
add_models = partial(add_show, kind="kernels")
add_methods = partial(add_show, kind="methods")
