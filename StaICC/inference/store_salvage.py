"""Finding the good rows in what is left of a damaged prediction store.

SQLite refuses a file whose structure is broken, or loses sight of every row below a broken page. But a row of the
store carries a seal over its model, key and answer (:mod:`StaICC.inference.store_format`), so it can be known for
good without any structure around it. This module therefore reads the raw pages of the file and of the write-ahead log
beside it, looks for the few bytes with which SQLite begins such a row, and keeps what the seal confirms. It never
writes to what it reads.

What is found may hold rows that a killed process had written but not committed: they are whole answers of the right
model all the same. Pages are 4096 bytes (we create every store so), and a row too long for one page goes on in a
chain of overflow pages. The layout is that of SQLite's documentation, "Database File Format", sections 1.5, 1.6, 2.1
and 4.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from StaICC.errors import ArgumentError, SchemaError
from StaICC.inference.store import PredictionStore
from StaICC.inference.store_format import (
    KEY_BYTES,
    MODEL_BYTES,
    PAGE_SIZE,
    SEAL_BYTES,
    BrokenRowError,
    StoreError,
    decode_answer,
    model_digest,
    seal,
    sealer,
)
from StaICC.inference.store_reports import SalvageReport

__all__ = ["CarvedModel", "CarvedRow", "carve", "salvage"]

_ROWS_A_TRANSACTION = 5000

_WAL_HEADER, _FRAME_HEADER = 32, 24
_LARGEST_ROW = 1 << 26

# An index page keeps a payload of up to 1002 bytes whole, and of a longer one at least the first 489.
_WHOLE = (PAGE_SIZE - 12) * 64 // 255 - 23
_LEAST = (PAGE_SIZE - 12) * 32 // 255 - 23

# A record is: length of its header, the type of each column, the columns. A blob of n bytes has type 2 n + 12.
_ROW_START = re.compile(b"[\x05-\x09]" + re.escape(bytes([2 * MODEL_BYTES + 12, 2 * KEY_BYTES + 12])))
_MODEL_START = re.compile(b"[\x03-\x07]" + re.escape(bytes([2 * MODEL_BYTES + 12])))


class CarvedModel(NamedTuple):
    """A model's fingerprint that was found, proved by its digest."""

    fingerprint: str


class CarvedRow(NamedTuple):
    """A row of answers that was found, proved by its seal."""

    model: bytes
    key: bytes
    answer: bytes
    seal: bytes


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read SQLite's variable-length integer; returns the value and the position after it.

    Raises:
        IndexError: The data ends first.
    """
    value = 0
    for length in range(8):
        byte = data[at + length]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + length + 1
    return value << 8 | data[at + 8], at + 9


class _Pages:
    """The pages of a store's file and of the write-ahead log beside it."""

    def __init__(self, main: BinaryIO, log: BinaryIO | None) -> None:
        self._main, self._log = main, log
        self._frames: dict[int, list[int]] = {}
        if log is not None:
            log.seek(_WAL_HEADER)
            while len(header := log.read(_FRAME_HEADER)) == _FRAME_HEADER:
                number = int.from_bytes(header[:4], "big")
                self._frames.setdefault(number, []).append(log.tell())
                log.seek(PAGE_SIZE, 1)

    def images(self) -> Iterator[bytes]:
        """Yield every page image: those of the file, then those of the log."""
        self._main.seek(0)
        while page := self._main.read(PAGE_SIZE):
            at = self._main.tell()
            yield page
            self._main.seek(at)
        for number in self._frames:
            for offset in self._frames[number]:
                yield self._from_log(offset)

    def _from_log(self, offset: int) -> bytes:
        assert self._log is not None
        self._log.seek(offset)
        return self._log.read(PAGE_SIZE)

    def candidates(self, number: int) -> list[bytes]:
        """What a page's number may stand for: its newest image in the log, its image in the file."""
        found = [self._from_log(self._frames[number][-1])] if number in self._frames else []
        if number >= 1:
            self._main.seek((number - 1) * PAGE_SIZE)
            found.append(self._main.read(PAGE_SIZE))
        return [page for page in found if len(page) == PAGE_SIZE]

    def payloads(self, page: bytes, start: int, length: int) -> Iterator[bytes]:
        """Yield what a payload that starts in this page may be: its rest may be in the log or in the file."""
        if length <= _WHOLE:
            whole = page[start : start + length]
            if len(whole) == length:
                yield whole
            return
        local = _LEAST + (length - _LEAST) % (PAGE_SIZE - 4)
        if local > _WHOLE:
            local = _LEAST
        if start + local + 4 > len(page):
            return
        first = int.from_bytes(page[start + local : start + local + 4], "big")
        for newest in (0, -1):
            data, number = [page[start : start + local]], first
            missing = length - local
            while missing > 0:
                images = self.candidates(number)
                if not images:
                    break
                image = images[newest]
                data.append(image[4 : 4 + min(missing, PAGE_SIZE - 4)])
                missing -= PAGE_SIZE - 4
                number = int.from_bytes(image[:4], "big")
            else:
                yield b"".join(data)


def _records(pages: _Pages, page: bytes, start: re.Pattern[bytes], columns: int) -> Iterator[list[bytes]]:
    """Yield the records of so many blob columns that seem to begin in a page."""
    at = 0
    while (match := start.search(page, at)) is not None:
        at = match.start() + 1
        head = match.start()
        try:
            end, position = head + page[head], head + 1
            widths = []
            while position < end:
                kind, position = _varint(page, position)
                widths.append((kind - 12) // 2 if kind >= 12 and kind % 2 == 0 else -1)
        except IndexError:
            continue
        if position != end or len(widths) != columns or min(widths) < 0 or sum(widths) > _LARGEST_ROW:
            continue
        header = end - head
        for payload in pages.payloads(page, head, header + sum(widths)):
            cut, parts = header, []
            for width in widths:
                parts.append(payload[cut : cut + width])
                cut += width
            yield parts


def _model(parts: list[bytes]) -> CarvedModel | None:
    try:
        fingerprint = parts[1].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return CarvedModel(fingerprint) if fingerprint and model_digest(fingerprint) == parts[0] else None


def _row(parts: list[bytes]) -> CarvedRow | None:
    model, key, answer, mark = parts
    if len(mark) != SEAL_BYTES or seal(sealer(model), key, answer) != mark:
        return None
    try:
        decode_answer(answer)
    except BrokenRowError:
        return None
    return CarvedRow(model, key, answer, mark)


def carve(path: Path) -> Iterator[CarvedModel | CarvedRow]:
    """Find every model and row in a store's file, and in the write-ahead log beside it, that proves itself good.

    Args:
        path: The damaged store. It is only read.

    Yields:
        Models and rows in the order of the pages; the same one may come more than once.

    Raises:
        OSError: The file cannot be read.
    """
    log_path = path.with_name(path.name + "-wal")
    with path.open("rb") as main:
        log = log_path.open("rb") if log_path.is_file() else None
        try:
            pages = _Pages(main, log)
            for page in pages.images():
                for parts in _records(pages, page, _MODEL_START, 2):
                    if (model := _model(parts)) is not None:
                        yield model
                for parts in _records(pages, page, _ROW_START, 4):
                    if (row := _row(parts)) is not None:
                        yield row
        finally:
            if log is not None:
                log.close()


def salvage(damaged: str | os.PathLike[str], new: str | os.PathLike[str]) -> SalvageReport:
    """Save the good rows of a damaged store into a new one.

    Every row carries a checksum, so it is found and proved good in the raw bytes, without the structure around it.
    The damaged file is only read.

    Args:
        damaged: The damaged store.
        new: Path of the new store, where nothing may be yet.

    Raises:
        ArgumentError: The damaged file is not there, or the new one is already.
        SchemaError: No good row was found; no new store is made.
        StoreError: A file cannot be read or written.
    """
    source, target = Path(os.path.abspath(damaged)), Path(os.path.abspath(new))
    if not source.is_file():
        raise ArgumentError(f"there is no file {source} to salvage")
    if target.exists():
        raise ArgumentError(f"{target} is there already; the salvaged rows go into a new file")
    pieces = carve(source)
    first = _next(source, pieces)
    if first is None:
        raise SchemaError(f"{source}: no row of a prediction store was found in this file")
    models: dict[bytes, str] = {}
    rows: list[CarvedRow] = []
    with PredictionStore(target) as store:
        piece: CarvedModel | CarvedRow | None = first
        while piece is not None:
            if isinstance(piece, CarvedModel):
                models[model_digest(piece.fingerprint)] = piece.fingerprint
            else:
                rows.append(piece)
            if len(rows) >= _ROWS_A_TRANSACTION:
                store.absorb(rows, {})
                rows.clear()
            piece = _next(source, pieces)
        store.absorb(rows, models)
        info = store.info()
    unnamed = sum(model.fingerprint is None for model in info.models)
    return SalvageReport(target, info.answers, tuple(sorted(models.values())), unnamed)


def _next(path: Path, pieces: Iterator[CarvedModel | CarvedRow]) -> CarvedModel | CarvedRow | None:
    try:
        return next(pieces, None)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error})") from error
