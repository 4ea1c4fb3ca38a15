"""Files on the command line: saved results by name, and text that goes to a file or to stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from StaICC.datasets.storage import write_beside
from StaICC.errors import ArgumentError
from StaICC.results import Result, ResultGroup, load

__all__ = ["STDOUT", "check_output", "load_named", "show_result", "write_text"]

STDOUT = "-"
"""Stands for stdout where a file is asked for."""


def check_output(*paths: str | Path | None) -> None:
    """Refuse files that cannot be written, before time is spent on what goes into them.

    Args:
        *paths: The files; ``None`` and stdout always can be.

    Raises:
        ArgumentError: One is a folder, or its folder is not there or cannot be written to.
    """
    for path in (Path(one) for one in paths if one is not None and str(one) != STDOUT):
        if path.is_dir():
            raise ArgumentError(f"{path} is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise ArgumentError(f"the folder {path.parent} is not there; make it first, or give another path")
        if not os.access(path.parent, os.W_OK):
            raise ArgumentError(f"the folder {path.parent} cannot be written to; give another path")


def load_named(paths: Sequence[str]) -> dict[str, Result | ResultGroup]:
    """Read saved results, by the shortest names that tell them apart.

    Args:
        paths: Their files, each once.

    Returns:
        The results, in order, by file name without ending, or by path where two files share that.

    Raises:
        ArgumentError: A file is given twice.
        OSError: A file cannot be read.
        SchemaError: A file is no result.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise ArgumentError(f"{path} is given twice; a result compared with itself says nothing")
    stems = [Path(path).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(paths)
    return {name: load(path) for name, path in zip(names, paths, strict=True)}


def show_result(result: Result | ResultGroup, save: str | Path | None) -> None:
    """Print a result as its table and save it, or print it as JSON.

    Args:
        result: The result.
        save: The file to save it to; ``-`` prints JSON instead of the table; ``None`` saves nothing.

    Raises:
        OSError: The file cannot be written.
    """
    if save is not None and str(save) == STDOUT:
        print(json.dumps(result.to_dict(), ensure_ascii=False, allow_nan=False))
        return
    if save is not None:  # before printing: the reader of the table may go away
        result.save(save)
    print(result)


def write_text(output: str | Path, lines: Iterable[str]) -> None:
    """Write text to a file, whole or not at all, or to stdout.

    Args:
        output: The file; ``-`` for stdout.
        lines: The text in parts, line ends included.

    Raises:
        OSError: The file cannot be written; whatever stood there still does.
    """
    if str(output) == STDOUT:
        sys.stdout.writelines(lines)
        return
    write_beside(Path(output), (line.encode("utf-8", "surrogatepass") for line in lines))
