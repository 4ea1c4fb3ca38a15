"""Output of commands: text, tables, JSON; on stdout or in a file that nothing else needs."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from StaICC.cli.terminal import raw
from StaICC.errors import ArgumentError, DataMissingError, StaICCError
from StaICC.files.output import StrPath, check_outputs, write_output
from StaICC.layout import Block, TextTable, print_blocks
from StaICC.results.files import DIGESTS, read_result_file, with_digests
from StaICC.safe_text import json_escaped, utf8, visible

STDOUT = "-"
"""The file name that means stdout."""

_INSTALLED_FOLDERS = ("tables", "models", "long_icl")
"""The folders of the data home whose files no output may overwrite."""


# Where output goes.


def add_output(parser: argparse.ArgumentParser, text: str, default: str | Path = STDOUT) -> None:
    """Add the option ``--output``.

    Args:
        parser: The parser of the command, or of its action.
        text: Its help.
        default: The file if it is not given.
    """
    parser.add_argument("--output", "-o", type=type(default), default=default, metavar="FILE", help=text)


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
    files = _without_stdout(paths)
    result_files = _without_stdout([result])
    if not files and not result_files:
        return
    protected = [*inputs, *_source_files(), *_installed_files()]
    stores = [] if store is None else [store]
    check_outputs([*files, *result_files], protected, stores)
    for path in files:
        if saved_result_digest(Path(path)) is not None:
            raise ArgumentError(f"{path} is a saved result, which only another result may replace; give another path")


def _without_stdout(paths: Iterable[str | Path | None]) -> list[str | Path]:
    """Return the outputs that are files."""
    return [path for path in paths if path is not None and str(path) != STDOUT]


def _source_files() -> list[str]:
    """Return the source files of the modules that are imported now."""
    files = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file:
            files.append(file)
    return files


def _installed_files() -> Iterator[Path]:
    """Yield the files of the installed data; none if no data is installed."""
    from StaICC.datasets.pack import data_home  # slow, and commands that only print need nothing of it

    with contextlib.suppress(DataMissingError, OSError):
        for folder in _INSTALLED_FOLDERS:
            yield from (data_home() / folder).glob("*")


def has_content(path: Path) -> bool:
    """Return whether there is a file with at least one byte."""
    return path.is_file() and path.stat().st_size > 0


def saved_result_digest(path: Path) -> str | None:
    """Return the digest of a saved result, however its JSON is written; ``None`` if the file is no result."""
    try:
        if not has_content(path):
            return None
        data = read_result_file(path)
        if data.get("kind") not in ("result", "group"):
            return None
        return str(with_digests(data)[DIGESTS]["file"])
    except (StaICCError, OSError, ValueError):
        return None


# What is written.


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command returns to be printed."""

    document: object
    """Printed as JSON with ``--json``."""
    blocks: Iterable[Block]
    """Printed without it."""
    status: int = 0
    """The exit status."""


def print_fitted(blocks: Iterable[Block]) -> None:
    """Print tables and lines, as they fit the terminal."""
    print_blocks(blocks, raw(sys.stdout))


def print_json(value: object) -> None:
    """Print a value as JSON, with terminal control characters escaped.

    Args:
        value: Lists, mappings, texts, numbers; anything else is printed as its text.
    """
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False, default=str)
    write_text(STDOUT, [text, "\n"])


def table(rows: Iterable[Mapping[str, object]], texts: Collection[int] = (0,)) -> TextTable:
    """Return records with the same keys as a table; ``None`` is shown as ``-``.

    Args:
        rows: The records, at least one.
        texts: The numbers of the columns with text.
    """
    records = list(rows)
    columns = list(records[0])
    cells = [[_cell(value) for value in record.values()] for record in records]
    return TextTable(columns, cells, texts)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


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
        _write_to_stdout(lines, as_json)
    else:
        write_output(output, map(utf8, lines))


def _write_to_stdout(lines: Iterable[str], as_json: bool) -> None:
    """Write text to stdout; arguments as for :func:`write_text`."""
    stream = raw(sys.stdout)
    encoding = stream.encoding or "utf-8"
    encoding_is_unicode = encoding.casefold().startswith("utf")
    for line in lines:
        if as_json:
            line = json_escaped(line, only_ascii=not encoding_is_unicode)
        elif stream.isatty():
            line = visible(line)
        # Characters that the encoding lacks are written as escape sequences.
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))


# Prices, which several commands print costs with.


def add_prices(parser: argparse._ActionsContainer) -> None:
    """Add the options ``--prices``, ``--cached-price`` and ``--currency``."""
    parser.add_argument(
        "--prices",
        nargs=2,
        type=float,
        metavar=("INPUT", "OUTPUT"),
        help="cost of a million tokens that the model reads, and of a million that it generates",
    )
    parser.add_argument(
        "--cached-price",
        type=float,
        metavar="PRICE",
        help="cost of a million tokens that the model reads from the provider's prompt cache",
    )
    parser.add_argument("--currency", default="", metavar="NAME", help="the currency of --prices, such as EUR")


def prices_of(args: argparse.Namespace) -> list[float] | None:
    """Return the prices that were given: two, or three with that of cached tokens; ``None`` if there are none.

    Raises:
        ArgumentError: The price of cached tokens or the currency is given without the other prices.
    """
    if args.prices is None:
        if args.cached_price is not None:
            raise ArgumentError("--cached-price needs the other two prices. Add --prices INPUT OUTPUT")
        if args.currency:
            raise ArgumentError("--currency is that of prices. Add --prices INPUT OUTPUT")
        return None
    prices: list[float] = list(args.prices)
    if args.cached_price is not None:
        prices.append(args.cached_price)
    return prices
