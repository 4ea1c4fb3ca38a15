"""The result of a command, saved as a run goes on."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from StaICC.cli.output import STDOUT, check_output, has_content, print_fitted, print_json, saved_result_digest
from StaICC.cli.terminal import drop_unwritten
from StaICC.errors import ArgumentError, StaICCError
from StaICC.files.output import StrPath
from StaICC.layout import Block, Line
from StaICC.results.files import check_result_name, with_digests, write_result_file
from StaICC.results.query_records import save_records
from StaICC.results.result import Result, ResultGroup, load
from StaICC.results.signature import Signature
from StaICC.results.table import LOGGED_WARNING
from StaICC.safe_text import one_line

NOT_SAVED = 4
"""Exit status of a command whose result was printed, but not saved where the user wants it."""


def add_result_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that make a result, about where it is saved."""
    parser.add_argument("--records", type=Path, metavar="FILE", help="save the prediction of each query as JSON Lines")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=Path(STDOUT),
        metavar="FILE",
        help="save the result in FILE, not in FOLDER; without FILE, print it as JSON instead of the table",
    )
    parser.add_argument("--overwrite", action="store_true", help="FILE may replace the result of another run")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("staicc-results"),
        metavar="FOLDER",
        help="save the result there under a new name (default: staicc-results); with --json FILE, only if FILE cannot "
        "be written",
    )
    parser.add_argument("--no-save", dest="save", action="store_false", help="save only what --json and --records name")


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

    Raises:
        ArgumentError: The result cannot be saved where the arguments say.
    """

    def __init__(self, args: argparse.Namespace, inputs: Iterable[StrPath] = (), store: StrPath | None = None) -> None:
        """Check that the result can be saved where the arguments say, before the command computes anything."""
        self.path: Path | None = None
        self.check = partial(check_output, inputs=list(inputs), store=store)
        self._args = args
        self._prints_json = str(args.json) == STDOUT
        self._file: Path | None = None if self._prints_json else args.json
        """The file of ``--json``; ``None`` without one."""
        self._replaces_file = False
        """Whether this file had a content before the command."""

        self.check(args.records, result=args.json)
        if self._file is not None:
            check_result_name(self._file)
            self._replaces_file = has_content(self._file)
            if self._replaces_file and not args.overwrite and saved_result_digest(self._file) is None:
                raise ArgumentError(f"{self._file} is not a saved result. Give another path, or add --overwrite")
        if args.output.is_file() or args.output.suffix.lower() == ".json":
            raise ArgumentError(f"--output: got {args.output}, expected a folder. For the file use --json FILE")
        if args.save and self._file is None:
            _check_folder(args.output)

    def finish(self, result: Result | ResultGroup, blocks: Callable[[], Iterable[Block]] | None = None) -> int:
        """Print the result, then save it with its records, also if printing fails.

        Args:
            result: The result.
            blocks: Returns what to print; ``None`` prints the table of the result.

        Returns:
            The exit status.
        """
        try:
            self._print(result, blocks or result.display_blocks)
        except BrokenPipeError:  # the reader closed the pipe, such as `| head`: a sweep still has its other runs
            drop_unwritten(sys.stdout)
        finally:
            is_saved = self._save_despite_interrupt(result)
        if not is_saved:
            return NOT_SAVED
        return 0 if result.complete else 1

    def _save_despite_interrupt(self, result: Result | ResultGroup) -> bool:
        """Save the result with its records; once more after an interrupt, which is raised then.

        Saving takes moments, and the run may have taken days.
        """
        try:
            return self._save_with_records(result)
        except KeyboardInterrupt:
            self._save_with_records(result)
            raise

    def _print(self, result: Result | ResultGroup, blocks: Callable[[], Iterable[Block]]) -> None:
        """Print a result: as JSON with ``--json``, otherwise as a table. An error of printing is raised here.

        Args:
            result: The result.
            blocks: Returns the table, with the lines around it.
        """
        if self._prints_json:
            print_json(with_digests(result.to_dict()))
        else:
            print_fitted(_without_shown_warnings(blocks()))
        sys.stdout.flush()

    def _save_with_records(self, result: Result | ResultGroup) -> bool:
        """Save the complete result and its records; return whether all is where the user wants it."""
        is_saved = self.save(result, final=True)
        if self._args.records is not None:
            error = _error_of(self._save_records, result)
            if error is not None:
                print(f"staicc: {one_line(str(self._args.records))}: not saved: {error}", file=sys.stderr)
                is_saved = False
        return is_saved

    def _save_records(self, result: Result | ResultGroup) -> None:
        self.check(self._args.records)
        save_records(result, self._args.records)

    def save(self, result: Result | ResultGroup, final: bool = False) -> bool:
        """Save the result, or what there is of it so far: in the file of ``--json``, otherwise in the folder.

        If the file cannot be written, the result is saved in the folder, too. What this command saved before is
        replaced.

        Args:
            result: The result.
            final: Whether it is complete: then stderr says where it is, or why it is not saved.

        Returns:
            Whether it is where the user wants it.
        """
        messages = []
        is_saved = True
        saves_in_folder = self._args.save
        if self._file is not None:
            saves_in_folder = False
            error = _error_of(self._save_in_file, result)
            if error is not None:
                messages.append(f"staicc: not saved in {self._file}: {error}")
                is_saved = False
                saves_in_folder = True  # so that the result is not lost
            elif self._replaces_file:
                messages.append(f"{self._file} was replaced")
        if saves_in_folder:
            error = _error_of(self._save_in_folder, result)
            if error is not None:
                messages.append(f"staicc: the result is not saved in {self._args.output}: {error}")
                is_saved = False
            else:
                messages.append(f"the result is in {self.path}")
        if final:
            for message in messages:
                print(one_line(message), file=sys.stderr)
        return is_saved

    def _save_in_file(self, result: Result | ResultGroup) -> None:
        """Save the result in the file of ``--json``.

        Raises:
            ArgumentError: The file has the result of another run.
        """
        path: Path = self._args.json
        self.check(result=path)
        is_new = not path.exists()
        self._refuse_other_run(path, result)
        write_result_file(result.to_dict(), path, is_new)  # fails if another program made the file meanwhile
        if self.path is not None and self.path != path:
            self._remove_from_folder(self.path)
        self.path = path

    def _remove_from_folder(self, path: Path) -> None:
        """Remove an earlier state of the result from the folder, now that the file of ``--json`` has it.

        The folder is removed too if it is empty. Errors are ignored: the file may stay.
        """
        with contextlib.suppress(OSError):
            path.unlink()
            self._args.output.rmdir()

    def _refuse_other_run(self, path: Path, result: Result | ResultGroup) -> None:
        """Refuse to replace the result of another run.

        Args:
            path: The file.
            result: The result that is to be saved in it.

        Raises:
            ArgumentError: The file has a run that the result does not have, that is more complete, or that has other
                predictions; and ``--overwrite`` was not given.
        """
        if self._args.overwrite or not has_content(path):
            return
        result_by_run = {_run_of(single_result): single_result for single_result in result.results()}
        for earlier in load(path).results():
            run = f"{earlier.model}, {earlier.signature}"
            replacement = result_by_run.get(_run_of(earlier))
            is_more_complete = replacement is not None and earlier.complete and not replacement.complete
            if replacement is None or is_more_complete:
                raise ArgumentError(f"it has another run, which only --overwrite replaces: {run}")
            if _has_other_predictions(earlier, replacement):
                raise ArgumentError(f"it has other predictions, which only --overwrite replaces: {run}")

    def _save_in_folder(self, result: Result | ResultGroup) -> None:
        """Save the result under a name that no file has, or in the file that this command saved before."""
        if self.path is not None and self.path != self._file:
            write_result_file(result.to_dict(), self.path)
            return
        folder: Path = self._args.output
        folder.mkdir(parents=True, exist_ok=True)
        stem = _file_stem(result, getattr(self._args, "setting", ""))
        for number in itertools.count(1):
            suffix = "" if number == 1 else f"_{number:02}"
            path = folder / f"{stem}{suffix}.json"
            try:
                write_result_file(result.to_dict(), path, fresh=True)
            except FileExistsError:
                continue
            self.path = path
            return


def _check_folder(folder: Path) -> None:
    """Check that results can be saved in a folder, which need not exist.

    Raises:
        ArgumentError: It is read-only, or no folder; or it does not exist, and that holds for the folder above it.
    """
    existing = folder
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ArgumentError(
            f"the result cannot be saved in {folder}: {existing.absolute()} is no folder, or read-only. Give "
            "another folder with --output, or add --no-save"
        )


def _file_stem(result: Result | ResultGroup, setting: str) -> str:
    """Return the start of a file name for a result, such as ``Normal_ppm_2026-01-31T120000Z``.

    It has the benchmark, the models, the setting of a sweep and the current time.

    Args:
        result: The result.
        setting: The name of the setting; empty without a sweep.
    """
    name = result.benchmark if isinstance(result, Result) else result.name
    models = [single_result.model.partition(" [")[0] for single_result in result.results()]
    time_now = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    words = [_slug([name]), _slug(models), setting, time_now]
    return "_".join(word for word in words if word)


def _slug(names: Iterable[str]) -> str:
    """Return distinct names as a part of a file name, cut after 60 characters."""
    distinct_names = dict.fromkeys(names)
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", "+".join(distinct_names))
    return slug[:60].strip(".-")


def _run_of(result: Result) -> tuple[str, str]:
    """Return what identifies the run of a result: the model, and the settings in the signature.

    Which queries failed is in the signature, too, and is left out: a repeated run may answer them.
    """
    settings = Signature({**result.signature.fields, "failed": None})
    return result.model, str(settings)


def _has_other_predictions(earlier: Result, replacement: Result) -> bool:
    """Return whether two results of one run differ in the prediction of a query that both have answered."""
    for before, now in zip(earlier.queries(), replacement.queries(), strict=False):
        both_are_answered = before.correct is not None and now.correct is not None
        if both_are_answered and before.prediction != now.prediction:
            return True
    return False


def _error_of(write: Callable[[Result | ResultGroup], None], result: Result | ResultGroup) -> str | None:
    """Write a result; return why it cannot be written, or ``None`` if it is."""
    try:
        write(result)
    except OSError as error:
        return error.strerror or str(error)
    except StaICCError as error:
        return str(error)
    return None


def _without_shown_warnings(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield what is printed below a run, on a terminal without the warnings of the result.

    The run logged them (:meth:`StaICC.benchmarks.context.RunContext.deliver`), so they are on the same screen already.
    """
    is_one_screen = sys.stdout.isatty() and sys.stderr.isatty()
    for block in blocks:
        is_logged_warning = isinstance(block, Line) and block.text.startswith(LOGGED_WARNING)
        if not (is_one_screen and is_logged_warning):
            yield block
