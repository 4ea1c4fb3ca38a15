"""Files on the command line: saved results by name, and text that goes to a file or to stdout."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from StaICC.cli.terminal import raw
from StaICC.datasets.pack import data_home
from StaICC.datasets.storage import StrPath, check_outputs, write_output
from StaICC.errors import ArgumentError, DataMissingError
from StaICC.results import Result, ResultGroup, load, save_records
from StaICC.results.result import with_digests
from StaICC.safe_text import json_escaped, one_line, visible

STDOUT = "-"
"""The file name that means stdout."""


def check_output(*paths: str | Path | None, inputs: Iterable[StrPath] = (), store: StrPath | None = None) -> None:
    """Refuse output files that cannot be written or that the command reads, before anything is computed.

    Args:
        *paths: The output files; ``None`` and stdout are ignored.
        inputs: The files that the command reads; the installed data and the source files of imported modules are added.
        store: The prediction store that the command uses.

    Raises:
        ArgumentError: As for :func:`StaICC.datasets.storage.check_outputs`.
    """
    outputs = [path for path in paths if path is not None and str(path) != STDOUT]
    kept = [*inputs]
    if outputs:
        kept += [file for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))]
        with contextlib.suppress(DataMissingError, OSError):  # no data is installed
            kept += [file for folder in ("tables", "models", "long_icl") for file in (data_home() / folder).glob("*")]
    check_outputs(outputs, kept, [] if store is None else [store])


def print_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON, with terminal control characters escaped.

    Args:
        value: Lists, mappings, texts, numbers; anything else is printed as its text.
        indent: Blanks for each level; ``None`` for one line.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=str)
    print(json_escaped(text, not _writes_unicode(sys.stdout)))


def _encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"


def _writes_unicode(stream: TextIO) -> bool:
    return _encoding(stream).casefold().startswith("utf")


def load_named(paths: Sequence[str]) -> dict[str, Result | ResultGroup]:
    """Load saved results, with the shortest names that distinguish them.

    Args:
        paths: Their files, without duplicates.

    Returns:
        The results, in order, by file name without suffix, or by path if two files have the same name.

    Raises:
        ArgumentError: A file is given twice.
        OSError: A file cannot be read.
        SchemaError: A file is not a result.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise ArgumentError(f"duplicate result: got {path} twice, expected different files")
    stems = [Path(path).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(paths)
    return {name: load(path) for name, path in zip(names, paths, strict=True)}


def add_results(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Add the saved results that a command reads.

    Args:
        parser: The parser of the command, or of its action.
        note: What else its help says.
    """
    text = ", ".join(filter(None, ("results saved by run --json", note)))
    parser.add_argument("results", nargs="+", metavar="RESULT", help=text)


def add_output(parser: argparse.ArgumentParser, text: str, default: str | Path = STDOUT) -> None:
    """Add the option ``--output``.

    Args:
        parser: The parser of the command, or of its action.
        text: Its help.
        default: The file if it is not given.
    """
    kind = Path if isinstance(default, Path) else str
    parser.add_argument("--output", "-o", type=kind, default=default, metavar="FILE", help=text)


def add_result_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--records`` and ``--json`` of commands that make a result."""
    parser.add_argument("--records", type=Path, metavar="FILE", help="save the prediction of each query as JSON Lines")
    text = "save the result; without FILE, print it as JSON instead of the table"
    parser.add_argument("--json", type=Path, nargs="?", const=Path(STDOUT), metavar="FILE", help=text)


def has_content(path: Path | None) -> bool:
    """Return whether a path is a file that is not empty."""
    return path is not None and path.is_file() and path.stat().st_size > 0


def show_result(
    result: Result | ResultGroup,
    save: Path | None,
    records: Path | None = None,
    text: str | None = None,
    replaces: bool | None = None,
) -> None:
    """Save a result and its records, and print its table, or print it as JSON.

    Args:
        result: The result.
        save: The file for the result; ``-`` prints JSON instead of the table; ``None`` saves nothing.
        records: The file for the prediction of each query; ``None`` saves nothing.
        text: The text to print instead of the table.
        replaces: Whether the file had a content before the command; by default, whether it has one now.

    Raises:
        OSError: A file cannot be written.
    """
    printed = save is not None and str(save) == STDOUT
    if save is not None and not printed:  # before printing, which may fail on a closed pipe
        replaced = has_content(save) if replaces is None else replaces
        try:
            result.save(save)
        except OSError:  # a full disk: at least the table remains
            print(result if text is None else text)
            raise
        if replaced:
            print(f"{one_line(str(save))} was replaced", file=sys.stderr)
    if records is not None:
        save_records(result, records)
    if printed:
        print_json(with_digests(result.to_dict()))
    else:
        print(result if text is None else text)


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
        encoding, only_ascii = _encoding(stream), not _writes_unicode(stream)
        for line in lines:
            text = json_escaped(line, only_ascii) if as_json else visible(line) if stream.isatty() else line
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return
    write_output(output, (line.encode("utf-8", "surrogatepass") for line in lines))
