"""Saved results as arguments of commands, one by one or as a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from StaICC.cli.output import saved_result_digest
from StaICC.errors import ArgumentError
from StaICC.files.output import StrPath
from StaICC.results.result import Result, ResultGroup, load
from StaICC.safe_text import one_line


def add_results(parser: argparse.ArgumentParser, note: str = "", nargs: str = "+", skip: bool = True) -> None:
    """Add the saved results that a command reads.

    Args:
        parser: The parser of the command, or of its action.
        note: What else its help says.
        nargs: How many there are, in the words of argparse.
        skip: As for :func:`result_files`.
    """
    text = "results saved by run, or folders with such files"
    if note:
        text += f", {note}"
    parser.add_argument("results", nargs=nargs, action=_StoreResultFiles, const=skip, metavar="RESULT", help=text)


class _StoreResultFiles(argparse.Action):
    """Stores the files of results, those in folders included; ``const`` is ``skip`` of :func:`result_files`."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, result_files(values, skip=bool(self.const)))


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
    for file in files:
        if files.count(file) > 1:
            raise ArgumentError(f"duplicate result: got {file} twice, expected different files")
    stems = {file.stem for file in files}
    if len(stems) == len(files):
        return {file.stem: load(file) for file in files}
    return {str(file): load(file) for file in files}


def result_files(given: Iterable[StrPath], skip: bool = False) -> list[Path]:
    """Return files of saved results; a folder means the .json files in it and its subfolders, without hidden ones.

    Args:
        given: Files and folders.
        skip: Leave out files of folders that are no results, or copies of others, with a line on stderr.

    Raises:
        ArgumentError: A folder has no such file.
    """
    paths = [Path(path) for path in given]
    if not skip:
        return [file for path in paths for file in _files_at(path)]

    # A file that is named is read, whatever it is; its copies in folders are left out.
    originals: dict[str, Path] = {}
    if any(path.is_dir() for path in paths):
        for path in paths:
            digest = None if path.is_dir() else saved_result_digest(path)
            if digest is not None:
                originals[digest] = path
    files = []
    for path in paths:
        if path.is_dir():
            files += _new_results_in_folder(path, originals)
        else:
            files.append(path)
    return files


def _files_at(path: Path) -> list[Path]:
    """Return the file itself, or the .json files of a folder.

    Raises:
        ArgumentError: The folder has no such file.
    """
    if not path.is_dir():
        return [path]
    files = _json_files_in_folder(path)
    if not files:
        raise _no_result_error(path)
    return files


def _json_files_in_folder(folder: Path) -> list[Path]:
    """Return the .json files of a folder and its subfolders, sorted, without hidden files and folders."""
    files = []
    for file in sorted(folder.rglob("*.json")):
        is_hidden = any(name.startswith(".") for name in file.relative_to(folder).parts)
        if file.is_file() and not is_hidden:
            files.append(file)
    return files


def _new_results_in_folder(folder: Path, originals: dict[str, Path]) -> list[Path]:
    """Return the results of a folder that are not copies of earlier ones; the others are named on stderr.

    Args:
        folder: The folder.
        originals: The earlier results, by digest; those of the folder are added.

    Raises:
        ArgumentError: The folder has no saved result.
    """
    digests = {file: saved_result_digest(file) for file in _json_files_in_folder(folder)}
    if not any(digests.values()):
        raise _no_result_error(folder)
    files = []
    for file, digest in digests.items():
        if digest is None:
            _say_left_out(f"{file} is no saved result")
            continue
        original = originals.setdefault(digest, file)
        if original == file:  # also if the same file was named before: the caller refuses duplicates
            files.append(file)
        else:  # such as in the site of a leaderboard
            _say_left_out(f"{file} is a copy of {original}")
    return files


def _no_result_error(folder: Path) -> ArgumentError:
    return ArgumentError(f"{folder}: the folder has no saved result, expected .json files in it")


def _say_left_out(reason: str) -> None:
    print(f"left out: {one_line(reason)}", file=sys.stderr)
