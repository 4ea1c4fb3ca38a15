"""The result of a command, saved as a run goes on."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from StaICC.cli.output import STDOUT, check_output, has_content, print_fitted, print_json, saved_result_digest
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.output import StrPath
from StaICC.layout import Block
from StaICC.results.files import check_result_name, with_digests, write_result_file
from StaICC.results.result import Result, ResultGroup, load, save_records
from StaICC.results.signature import Signature
from StaICC.safe_text import one_line

NOT_SAVED = 4
"""Exit status of a command whose result was printed, but not saved where the user wants it."""


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
            self._replaces = has_content(self._file)
            if self._replaces and not args.overwrite and saved_result_digest(self._file) is None:
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
        if self._args.overwrite or not has_content(path):
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
                print_fitted((blocks or result.display_blocks)())
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
