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
    originals = {saved_result_digest(path): path for path in paths if path not in folders} if skip and folders else {}
    for path in paths:
        if path not in folders:
            files.append(path)
            continue
        inside = [file for file in sorted(path.rglob("*.json")) if file.is_file()]
        seen = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
        digests = {file: saved_result_digest(file) if skip else str(file) for file in seen}
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
