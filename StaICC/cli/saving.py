"""Saved results on the command line: read by name, written as a run goes on, shown."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from StaICC.cli.terminal import raw
from StaICC.datasets.pack import data_home
from StaICC.errors import ArgumentError, DataMissingError, StaICCError
from StaICC.files.output import StrPath, check_outputs, write_output
from StaICC.layout import Block, TextTable, print_blocks
from StaICC.results.files import DIGESTS, check_result_name, read_result_file, with_digests, write_result_file
from StaICC.results.query_records import save_records
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.signature import Signature
from StaICC.safe_text import json_escaped, one_line, utf8, visible

STDOUT = "-"
"""The file name that means stdout."""

NOT_SAVED = 4
"""Exit status of a command whose result was printed, but not saved where the user wants it."""


def check_output(
    *paths: str | Path | None,
    inputs: Iterable[StrPath] = (),
    store: StrPath | None = None,
    result: str | Path | None = None,
) -> None:
    """Refuse output files that cannot be written or that the command reads, before anything is computed.

    Args:
        *paths: The output files, which replace no saved result; ``None`` and stdout are ignored.
        inputs: The files that the command reads; the installed data and the source files of imported modules are added.
        store: The prediction store that the command uses.
        result: One more output file, for the result of the command, which may replace an earlier one.

    Raises:
        ArgumentError: As for :func:`StaICC.files.output.check_outputs`; or an output is a saved result.
    """
    outputs = [path for path in (*paths, result) if path is not None and str(path) != STDOUT]
    kept = [*inputs]
    if outputs:
        kept += [file for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))]
        with contextlib.suppress(DataMissingError, OSError):  # no data is installed
            kept += [file for folder in ("tables", "models", "long_icl") for file in (data_home() / folder).glob("*")]
    check_outputs(outputs, kept, [] if store is None else [store])
    for path in outputs:
        if path is not result and _digest(Path(path)) is not None:
            raise ArgumentError(f"{path} is a saved result, which only another result may replace; give another path")


def print_json(value: object) -> None:
    """Print a value as JSON, with terminal control characters escaped.

    Args:
        value: Lists, mappings, texts, numbers; anything else is printed as its text.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False, default=str)
    write_text(STDOUT, [text, "\n"])


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command returns to be printed."""

    document: object
    """Printed as JSON with ``--json``."""
    blocks: Iterable[Block]
    """Printed without it."""
    status: int = 0
    """The exit status."""


def show(blocks: Iterable[Block]) -> None:
    """Print tables and lines, as they fit the terminal."""
    print_blocks(blocks, raw(sys.stdout))


def table(rows: Iterable[Mapping[str, object]], texts: Collection[int] = (0,)) -> TextTable:
    """Return records with the same keys as a table; ``None`` is shown as ``-``.

    Args:
        rows: The records, at least one.
        texts: Columns with text.
    """
    listed = list(rows)
    cells = [["-" if cell is None else str(cell) for cell in row.values()] for row in listed]
    return TextTable(list(listed[0]), cells, texts)


def add_prices(parser: argparse._ActionsContainer) -> None:
    """Add the option ``--prices``."""
    text = "cost of a million tokens that the model reads, and of a million that it generates"
    parser.add_argument("--prices", nargs=2, type=float, metavar=("INPUT", "OUTPUT"), help=text)


def result_files(given: Iterable[StrPath], skip: bool = False) -> list[Path]:
    """Return files of saved results; a folder means the .json files in it and its subfolders, without hidden ones.

    Args:
        given: Files and folders.
        skip: Leave out files of folders that are no results, or copies of others, with a line on stderr.

    Raises:
        ArgumentError: A folder has no such file.
    """
    paths = list(map(Path, given))
    files: list[Path] = []
    folders = {path for path in paths if path.is_dir()}
    originals = {_digest(path): path for path in paths if path not in folders} if skip and folders else {}
    for path in paths:
        if path not in folders:
            files.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*.json")) if file.is_file()]
        seen = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
        digests = {file: _digest(file) if skip else str(file) for file in seen}
        if not any(digests.values()):
            raise ArgumentError(f"{path}: the folder has no saved result, expected .json files in it")
        for file, digest in digests.items():
            original = originals.setdefault(digest, file) if digest else None
            if original == file:
                files.append(file)
            else:  # copies: such as in a site
                reason = f"is a copy of {original}" if original else "is no saved result"
                print(f"left out: {one_line(f'{file} {reason}')}", file=sys.stderr)
    return files


def load_named(paths: Sequence[StrPath]) -> dict[str, Result | ResultGroup]:
    """Load saved results, with the shortest names that distinguish them.

    Args:
        paths: Their files, without duplicates, and folders with such files.

    Returns:
        The results, in order, by file name without suffix, or by path if two files have the same name.

    Raises:
        ArgumentError: A file is given twice.
        OSError: A file cannot be read.
        SchemaError: A file is not a result.
    """
    files = result_files(paths)
    if twice := [str(path) for path in files if files.count(path) > 1]:
        raise ArgumentError(f"duplicate result: got {twice[0]} twice, expected different files")
    distinct = len({path.stem for path in files}) == len(files)
    return {path.stem if distinct else str(path): load(path) for path in files}


class _ResultFiles(argparse.Action):
    """Stores the files of results, those in folders included."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, result_files(values, skip=bool(self.const)))


def add_results(parser: argparse.ArgumentParser, note: str = "", nargs: str = "+", skip: bool = True) -> None:
    """Add the saved results that a command reads.

    Args:
        parser: The parser of the command, or of its action.
        note: What else its help says.
        nargs: How many there are, in the words of argparse.
        skip: As for :func:`result_files`.
    """
    text = ", ".join(filter(None, ("results saved by run, or folders with such files", note)))
    parser.add_argument("results", nargs=nargs, action=_ResultFiles, const=skip, metavar="RESULT", help=text)


def add_output(parser: argparse.ArgumentParser, text: str, default: str | Path = STDOUT) -> None:
    """Add the option ``--output``.

    Args:
        parser: The parser of the command, or of its action.
        text: Its help.
        default: The file if it is not given.
    """
    parser.add_argument("--output", "-o", type=type(default), default=default, metavar="FILE", help=text)


def add_result_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that make a result, about where it is saved."""
    add = parser.add_argument
    add("--records", type=Path, metavar="FILE", help="save the prediction of each query as JSON Lines")
    text = "save the result in FILE, not in FOLDER; without FILE, print it as JSON instead of the table"
    add("--json", type=Path, nargs="?", const=Path(STDOUT), metavar="FILE", help=text)
    add("--overwrite", action="store_true", help="FILE may replace the result of another run")
    text = "save the result there under a new name (default: staicc-results)"
    add("--output", type=Path, default=Path("staicc-results"), metavar="FOLDER", help=text)
    add("--no-save", dest="save", action="store_false", help="save only what --json and --records name")


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _digest(path: Path) -> str | None:
    """Return the digest of a saved result, however its JSON is written; ``None`` if the file is no result."""
    with contextlib.suppress(StaICCError, OSError, ValueError):
        if _has_content(path) and (data := read_result_file(path)).get("kind") in ("result", "group"):
            return str(with_digests(data)[DIGESTS]["file"])
    return None


def _slug(names: Iterable[str]) -> str:
    """Return names as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", "+".join(dict.fromkeys(names)))[:60].strip(".-")


class ResultSaver:
    """Prints and saves the result of a command: in the file of ``--json``, else under a new name.

    A file of another run is never replaced without ``--overwrite``. A result that cannot be saved in the file of
    ``--json`` is saved under a new name instead.

    Args:
        args: The arguments of the command, with those of :func:`add_result_outputs`.
        inputs: The files that the command reads.
        store: The prediction store that the command uses.

    Attributes:
        path: The file with the result so far.
        check: :func:`check_output` with the inputs and the store of the command.
    """

    def __init__(self, args: argparse.Namespace, inputs: Iterable[StrPath] = (), store: StrPath | None = None) -> None:
        self.path: Path | None = None
        self.check = partial(check_output, inputs=[*inputs], store=store)
        self._args = args
        self._printed = str(args.json) == STDOUT
        self._file: Path | None = None if self._printed else args.json
        self.check(args.records, result=args.json)
        self._replaces = False
        if self._file is not None:
            check_result_name(self._file)
            self._replaces = _has_content(self._file)
            if self._replaces and not args.overwrite and _digest(self._file) is None:
                raise ArgumentError(f"{self._file} is not a saved result. Give another path, or add --overwrite")
        place = next(path for path in (args.output, *args.output.parents) if os.path.lexists(path))
        if args.output.is_file() or args.output.suffix.lower() == ".json":
            raise ArgumentError(f"--output: got {args.output}, expected a folder. For the file use --json FILE")
        if args.save and self._file is None and not (place.is_dir() and os.access(place, os.W_OK)):
            raise ArgumentError(
                f"the result cannot be saved in {args.output}: {place.absolute()} is no folder, or read-only. Give "
                "another folder with --output, or add --no-save"
            )

    def save(self, result: Result | ResultGroup, final: bool = False) -> bool:
        """Save the result, or what there is of it so far; a file of this command is replaced.

        Args:
            result: The result.
            final: Whether it is complete: then stderr says where it is, or why it is not saved.

        Returns:
            Whether it is where the user wants it.
        """
        messages, errors = [], [] if self._file is None else [_error_of(self._save_in_file, result)]
        if any(errors):
            messages.append(f"staicc: not saved in {self._file}: {errors[0]}")
        elif self._replaces:
            messages.append(f"{self._file} was replaced")
        if any(errors) or (self._file is None and self._args.save):
            errors.append(error := _error_of(self._save_in_folder, result))
            lost = f"staicc: the result is not saved in {self._args.output}: {error}"
            messages.append(lost if error else f"the result is in {self.path}")
        for message in messages if final else ():
            print(one_line(message), file=sys.stderr)
        return not any(errors)

    def _save_in_file(self, result: Result | ResultGroup) -> None:
        """Save the result in the file of ``--json``."""
        path: Path = self._args.json
        self.check(result=path)
        fresh = not path.exists()  # another program may save there meanwhile
        self._refuse_other_run(path, result)
        write_result_file(result.to_dict(), path, fresh)
        if self.path is not None and self.path != path:  # with what there was so far
            with contextlib.suppress(OSError):  # other results are in the folder
                self.path.unlink()
                self._args.output.rmdir()
        self.path = path

    def _refuse_other_run(self, path: Path, result: Result | ResultGroup) -> None:
        """Raise an ArgumentError if a file has a result that is none of these, is more complete, or differs."""
        if self._args.overwrite or not _has_content(path):
            return
        replacements = {_run_of(single): single for single in result.results()}
        for earlier in load(path).results():
            replacement = replacements.get(_run_of(earlier))
            run = f"{earlier.model}, {earlier.signature}"
            if replacement is None or (earlier.complete and not replacement.complete):
                raise ArgumentError(f"it has another run, which only --overwrite replaces: {run}")
            for before, now in zip(earlier.queries(), replacement.queries(), strict=False):
                if None not in (before.correct, now.correct) and before.prediction != now.prediction:
                    raise ArgumentError(f"it has other predictions, which only --overwrite replaces: {run}")

    def _save_in_folder(self, result: Result | ResultGroup) -> None:
        """Save the result under a name that no file has, or in the file that this command saved before."""
        if self.path is not None and self.path != self._file:
            write_result_file(result.to_dict(), self.path)
            return
        folder: Path = self._args.output
        folder.mkdir(parents=True, exist_ok=True)
        names = [result.benchmark if isinstance(result, Result) else result.name]
        models = [single.model.partition(" [")[0] for single in result.results()]
        started = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
        stem = "_".join([_slug(names), _slug(models), started])
        for number in itertools.count(1):
            path = folder / (f"{stem}_{number:02}.json" if number > 1 else f"{stem}.json")
            with contextlib.suppress(FileExistsError):
                write_result_file(result.to_dict(), path, fresh=True)
                self.path = path
                return

    def finish(self, result: Result | ResultGroup, blocks: Callable[[], Iterable[Block]] | None = None) -> int:
        """Print the result, then save it with its records, also if printing fails.

        Args:
            result: The result.
            blocks: Returns what to print instead of the table.

        Returns:
            The exit status.
        """
        try:
            if self._printed:
                print_json(with_digests(result.to_dict()))
            else:
                show((blocks or result.display_blocks)())
            print(end="", flush=True)
        finally:
            try:
                saved = self._save_all(result)
            except KeyboardInterrupt:  # saving takes moments, and the run may have taken days
                self._save_all(result)
                raise
        return NOT_SAVED if not saved else 0 if result.complete else 1

    def _save_all(self, result: Result | ResultGroup) -> bool:
        saved = self.save(result, final=True)
        if self._args.records is not None and (error := _error_of(self._save_records, result)):
            print(f"staicc: {one_line(str(self._args.records))}: not saved: {error}", file=sys.stderr)
            return False
        return saved

    def _save_records(self, result: Result | ResultGroup) -> None:
        self.check(self._args.records)
        save_records(result, self._args.records)


def _run_of(result: Result) -> tuple[str, str]:
    """Return which run a result is of: the model, and the signature without the digest of failed queries."""
    settings = Signature({**result.signature.fields, "failed": None})
    return result.model, str(settings)


def _error_of(write: Callable[[Result | ResultGroup], None], result: Result | ResultGroup) -> str:
    """Return why a result cannot be written; an empty text if it is."""
    try:
        write(result)
    except (StaICCError, OSError) as error:
        return (error.strerror if isinstance(error, OSError) else None) or str(error)
    return ""


def write_text(output: str | Path, lines: Iterable[str], as_json: bool = True) -> None:
    """Write text to a file, atomically, or to stdout.

    Args:
        output: The file; ``-`` for stdout.
        lines: The text in parts, line ends included.
        as_json: The text is JSON Lines: on stdout, control characters are escaped. Other text is escaped on a
            terminal only.

    Raises:
        OSError: The file cannot be written; an existing file is unchanged.
    """
    if str(output) == STDOUT:
        stream = raw(sys.stdout)
        encoding = stream.encoding or "utf-8"
        only_ascii = not encoding.casefold().startswith("utf")
        for line in lines:
            text = json_escaped(line, only_ascii) if as_json else visible(line) if stream.isatty() else line
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return
    write_output(output, map(utf8, lines))
