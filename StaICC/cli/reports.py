"""The commands that read saved results again: ``verify``, ``report``, ``leaderboard``."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import StaICC
from StaICC import benchmark_names
from StaICC.benchmarks import verify as checks
from StaICC.benchmarks.verify import RECORDED, Contradicted, Recomputed, Rerun, Unchecked, Verification
from StaICC.cli import options, saving
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.datasets.pack import data_home
from StaICC.datasets.source import data_file_digest
from StaICC.errors import ArgumentError, DataMissingError, StaICCError
from StaICC.files.output import file_digest, replacing, write_output
from StaICC.layout import Block, Line
from StaICC.report.html import element, join, table
from StaICC.report.page import Section, query_section, report_html, write_report
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.runs import split_runs
from StaICC.results.signature import digest
from StaICC.safe_text import one_line

_EXIT: dict[type[checks.Status], int] = {Contradicted: 1, Unchecked: 3, Recomputed: 0}


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    saving.add_results(parser, skip=False)
    add("--data-dir", type=Path, metavar="DIR", help="data of LongICL (default: as installed)")
    text = "files of own data, under any name (default: searched next to the result and in the current folder)"
    add("--data", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=text)
    group = parser.add_argument_group("predict again")
    group.add_argument("--rerun", type=int, metavar="N", help="predict N random queries of each result again")
    options.add_model(group, "the model of the results, as for run")
    group.add_argument("--seed", type=int, metavar="N", help="choose the queries of an earlier --rerun again")
    options.add_text_options(group)


def verify(args: argparse.Namespace) -> saving.Printed:
    """Recompute saved results from their records, and their prompts from the data.

    A result is recomputed (every value that a reader quotes follows from its records and the data), contradicted (a
    value differs) or unchecked (a value cannot be computed again here; the reason is printed). With --rerun, some
    queries are predicted again with the model. A file that cannot be read is named, and the others are verified.

    exit status: 0 if every result is recomputed, 1 if one is contradicted, 2 if a file cannot be read or --data is
    another file, 3 if a result is unchecked

    examples:
      python -m StaICC verify result.json
      python -m StaICC verify a.json b.json --json
      python -m StaICC verify result.json --rerun 20 --model hf:gpt2
    """
    checked: dict[Path, list[Verification]] = {}
    data = _data_files(args)
    args.model = options.model_of(args)
    if (args.rerun is None) is not (not args.model):
        raise ArgumentError("--rerun N and --model belong together: got one of them. Give both")
    model = cache(lambda of_long_icl: options.load_model(args, of_long_icl)[0])
    for path in args.results:
        try:
            rerun = None if args.rerun is None else _rerun(args, path, model)
            checked[path] = checks.verify_file(path, data_dir=args.data_dir, data_files=data.get(path, ()), rerun=rerun)
        except (StaICCError, OSError) as error:
            if len(args.results) == 1:
                raise
            reason = one_line(getattr(error, "strerror", None) or str(error)).removeprefix(f"{path}: ")
            print(f"staicc: {path}: {reason}", file=sys.stderr)
    document = [_plain(path, part) for path, parts in checked.items() for part in parts]
    blocks: list[Block] = []
    for path, parts in checked.items():
        blocks += [Line(f"{path}:", "code")] * (len(args.results) > 1)
        blocks += [Line(line, "code") for part in parts for line in _lines(part)]
    blocks += [Line(f"recorded by the run, not computed again: {RECORDED}", "code")] * bool(checked)
    kinds = {type(checks.status_of(parts)) for parts in checked.values()}
    unread = len(checked) < len({*args.results})
    return saving.Printed(document, blocks, 2 if unread else next(_EXIT[kind] for kind in _EXIT if kind in kinds))


def _rerun(args: argparse.Namespace, path: Path, model: Callable[[bool], Any]) -> Rerun:
    """Return which queries to predict again, with the model as ``run`` loads it for the benchmark of the result."""
    of_long_icl = any(part.benchmark == benchmark_names.LONG_ICL for part in load(path).results())
    return Rerun(model(of_long_icl), args.rerun, **({} if args.seed is None else {"seed": args.seed}))


def _data_files(args: argparse.Namespace) -> dict[Path, list[str | os.PathLike[str]]]:
    """Return the files and folders of ``--data`` for each result that can be read.

    Raises:
        StaICCError: A file is not there, or belongs to none of the results.
    """
    results: dict[Path, Result | ResultGroup] = {}
    for path in args.results if args.data else ():
        with contextlib.suppress(StaICCError, OSError):  # named when it is verified
            results[path] = load(path)
    files_of = checks.matching_files(list(results.values()), args.data) if results else []
    return dict(zip(results, files_of, strict=True))


def _plain(path: Path, part: Verification) -> dict[str, Any]:
    fields = ("benchmark", "dataset", "status", "message", "same", "first_difference", "contradicted", "unchecked")
    values = {field: getattr(part, field) for field in fields}
    values |= {field: list(values[field]) for field in ("contradicted", "unchecked")}
    return {"file": str(path), **values, "status": type(part.status).__name__.lower()}


def _lines(part: Verification) -> list[str]:
    status = type(part.status)
    word = status.__name__.lower() if status is Recomputed else status.__name__.upper()
    head = f"{word}  {', '.join(filter(None, (part.benchmark, part.dataset)))}: {part.message}"
    return [head, *(f"    {line}" for line in (*part.contradicted, *(f"unchecked: {line}" for line in part.unchecked)))]


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    saving.add_results(parser, "one run each")
    saving.add_output(parser, "default: report.html", Path("report.html"))
    parser.add_argument("--title", default="StaICC report", help="title of the page")
    text = "add a view of every query with its prompt; the file then contains texts of the data sets"
    parser.add_argument("--queries", action="store_true", help=text)


def report(args: argparse.Namespace) -> saving.Printed:
    """Write saved results as one self-contained HTML page with figures.

    The page is one file and needs no network, server or other package.

    examples:
      python -m StaICC report result.json -o report.html
      python -m StaICC report a.json b.json -o report.html --title "Two models"
      python -m StaICC report a.json b.json -o report.html --queries
    """
    saving.check_output(args.output, inputs=args.results)
    results = saving.load_named(args.results)
    folders = [*dict.fromkeys(Path(path).parent for path in args.results), Path()]
    parts = [part for result in results.values() for part in result.results()]
    data = [folder / str(file["file"]) for folder in folders for part in parts for file in part.files.values()]
    saving.check_output(args.output, inputs=[*args.results, *data])
    prompts = partial(checks.written_prompts, data_files=folders)
    size = write_report(results, args.output, args.title, query_section(results, prompts) if args.queries else None)
    print(f"{args.output}: {size / 1e6:.2f} MB", file=sys.stderr)
    return saving.Printed({"path": str(args.output), "bytes": size, "runs": list(results)}, ())


def add_leaderboard(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    text = "folders with results saved by run, or such files"
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT", help=text)
    parser.add_argument("--output", "-o", type=Path, default=Path("site"), metavar="SITE", help="default: site")
    parser.add_argument("--title", default="StaICC leaderboard", help="title of the page")


_VERDICTS = "verdicts.json"


def _recomputed_before() -> set[str]:
    """Return the digests of the files that earlier builds recomputed: they are not verified again.

    They are in the folder of the data pack, never in the site, which is often public. They are ignored if other code
    made them (the digest of all files of this package, and the Python version). A verdict holds for the bytes of a
    file, whatever its name. Only "recomputed" is kept: what is unchecked can be checked after data are installed.
    """
    with contextlib.suppress(DataMissingError, OSError, ValueError, TypeError, KeyError, RecursionError):
        saved = json.loads((data_home() / _VERDICTS).read_bytes())
        return set(saved["recomputed"]) if saved["code"] == _digest_of_code() else set()
    return set()


def _remember(digests: set[str]) -> None:
    """Save the digests; without a folder for them, the next build verifies again."""
    with contextlib.suppress(DataMissingError, OSError):
        data_home().mkdir(parents=True, exist_ok=True)
        document = {"code": _digest_of_code(), "recomputed": sorted(digests)}
        with replacing(data_home() / _VERDICTS) as file:
            file.write(json.dumps(document).encode("ascii"))


def _digest_of_code() -> str:
    """Return the digest of all files of this package, and of the Python version."""
    package = Path(StaICC.__file__).parent
    paths = [path for path in sorted(package.rglob("*")) if path.suffix in (".py", ".json")]
    parts = [(path.relative_to(package).as_posix(), file_digest(path)) for path in paths]
    return hashlib.sha256(repr((sys.version, parts)).encode()).hexdigest()


_File = tuple[str, str, Result | ResultGroup | None]
"""Status of a file, the reason for it, and its result; ``None`` if it is not ranked."""


def _read(path: Path, name: str, known: set[str], originals: dict[str, str]) -> _File:
    """Return a file; the digest of one that is recomputed is added to the known ones.

    Args:
        path: The file.
        name: Its name in the ranking.
        known: The digests of files that are recomputed.
        originals: The names of the results that were read before, by digest. A copy would change the ranks of all.
    """
    try:
        own = data_file_digest(path)
        status = Recomputed() if own in known else checks.status_of(checks.verify_file(path))
        result = load(path)
        split_runs({name: result})
    except (StaICCError, OSError) as error:
        return "UNREADABLE", one_line(str(error)), None
    if isinstance(status, Contradicted):
        return "CONTRADICTED: the file was changed, or is damaged", one_line(status.difference), None
    if isinstance(status, Unchecked):
        return "UNCHECKED: not ranked", one_line(status.reason), None
    known.add(own)
    original = originals.setdefault(digest(result.to_dict()), name)
    if original != name:
        return "COPY: not ranked", f"the same result as {original}", None
    return "recomputed", "", result


def leaderboard(args: argparse.Namespace) -> saving.Printed:
    """Write a static site of all saved results in a folder, each of them verified.

    Every .json file in a folder and its subfolders is verified, as by the command verify; hidden ones are not read.
    Results that are recomputed as a whole are ranked with those that are comparable; the others are listed with status
    and reason. To add or remove a run, add or remove its file and repeat the command: files that did not change are not
    verified again. The site is index.html with copies of the results, and needs no server. Of more than 20 runs it has
    the leaderboards only.

    exit status: 0 if every file is recomputed, 1 if one is not

    examples:
      python -m StaICC leaderboard runs -o site
    """
    own, index = (args.output / "results").resolve(), args.output / "index.html"
    given = [path.resolve() for path in args.results]
    if own.is_dir() and (any(own in (path, *path.parents) for path in given) or not index.exists()):
        raise ArgumentError(
            f"{args.output / 'results'} is not the one of an earlier site; copies of results could replace its saving. "
            "Give another folder with -o"
        )
    names: dict[Path, str] = {}
    for folder in args.results:
        for path in saving.result_files([folder]):
            if own not in path.resolve().parents:
                place = path.relative_to(folder if folder.is_dir() else folder.parent)
                names[path] = place.with_suffix("").as_posix()
    if len({*names.values()}) < len(names):
        raise ArgumentError("two results have the same name. Give the folder that contains both")
    known = _recomputed_before()
    originals: dict[str, str] = {}
    read = {name: _read(path, name, known, originals) for path, name in names.items()}
    results = {name: result for name, (_, _, result) in read.items() if result is not None}
    if not results:
        raise ArgumentError(f"no result is recomputed. {'; '.join(reason for _, reason, _ in read.values())}")
    args.output.mkdir(parents=True, exist_ok=True)
    saving.check_output(index, inputs=names)
    rows = []
    for name in sorted(read, key=lambda name: name in results):
        link = element("a", name, href=quote(os.fsencode(f"results/{name}.json")))
        rows.append([link if name in results else element("bdi", name), *read[name][:2]])
    lost = f"{len(read) - len(results)} of {len(read)} files are not ranked."
    recorded = element("p", f"Recorded by the runs, and not computed again: {RECORDED}.", class_="soft")
    listed = table("Files", ["file", "status", "what was found"], rows, words=(1, 2))
    warned = element("p", lost, class_="warn") if len(results) < len(read) else ""
    section = Section("files", "Files", join([warned, listed, recorded]))
    page = report_html(results, args.title, section, summary=len(results) > MOST_RUNS)
    for path, name in names.items():
        if name in results:
            copy = own / f"{name}.json"
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_output(copy, [path.read_bytes()])
    for copy in own.rglob("*.json"):  # of files that are no longer ranked
        if copy.relative_to(own).with_suffix("").as_posix() not in results and data_file_digest(copy) in known:
            copy.unlink()
    _remember(known)
    write_output(index, [page.encode("utf-8")])
    print(f"{index}: {len(results)} of {len(read)} files recomputed", file=sys.stderr)
    listing = [{"file": str(path), "status": read[name][0], "found": read[name][1]} for path, name in names.items()]
    return saving.Printed(listing, (), 1 if len(results) < len(read) else 0)
