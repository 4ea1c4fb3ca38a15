"""ZIP archives from files that anybody may have written: members are read with bounds, nothing is unpacked to disk.

An archive of a few kilobytes can expand to terabytes, name its members ``../../file``, or have millions of members.
:func:`open_archive` refuses such an archive before a member is read.
"""

from __future__ import annotations

import errno
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from StaICC.errors import SchemaError
from StaICC.files.expansion import ALWAYS_ALLOWED_SIZE, MAX_EXPANSION
from StaICC.files.json_reading import MEGABYTE, refuse_device
from StaICC.optional import require

MAX_MEMBERS = 500_000
"""Most members of an archive that is read."""
MAX_MEMBER_SIZE = 256 * MEGABYTE
"""Most bytes of a member after decompression."""
_ZSTANDARD = 93
"""The number of the compression method Zstandard, which :mod:`zipfile` reads from Python 3.14 on."""
_ENCRYPTED_FLAG = 0x1
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""The start of a member: its signature, the length of its name, the length of its extra field."""
_LOCAL_SIGNATURE = b"PK\x03\x04"
_ERRORS_OF_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, struct.error)
"""What :mod:`zipfile` raises for a damaged archive. A negative position in the file is an :class:`OSError`."""


@contextmanager
def open_archive(path: str | os.PathLike[str], expected: str) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP archive that is not trusted, after a check of its table of contents.

    Args:
        path: The archive.
        expected: What it is to be, for the message.

    Raises:
        SchemaError: The file is no ZIP archive, is damaged, or is not safe: too many members, members outside the
            archive, encrypted members, or too many bytes after decompression.
        OSError: The file cannot be read.
    """
    where = os.fspath(path)
    refuse_device(path, expected)
    try:
        archive = zipfile.ZipFile(path)
    except _ERRORS_OF_DAMAGE as error:
        raise SchemaError(f"{where}: this is not a whole ZIP archive ({error}), expected {expected}") from error
    except OSError as error:
        is_negative_position = error.errno == errno.EINVAL  # written in a damaged archive
        if not is_negative_position:
            raise
        raise SchemaError(f"{where}: this is not a whole ZIP archive ({error}), expected {expected}") from error
    with archive:
        _check_contents(archive, where)
        yield archive


def _check_contents(archive: zipfile.ZipFile, where: str) -> None:
    """Refuse an archive by its table of contents, before a member is read.

    Raises:
        SchemaError: It has too many members, an unsafe one, or too many bytes after decompression.
    """
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise SchemaError(f"{where}: the archive has {len(members)} members, expected at most {MAX_MEMBERS}")

    total_size = 0
    for member in members:
        _check_member(member, where)
        total_size += member.file_size
    archive_size = os.path.getsize(archive.filename or where)
    largest_size = max(ALWAYS_ALLOWED_SIZE, MAX_EXPANSION * archive_size)
    if total_size > largest_size:
        raise SchemaError(
            f"{where}: the archive expands to {total_size // MEGABYTE} MB, more than {MAX_EXPANSION} times its size. "
            "It may be a decompression bomb and is not read"
        )


def _check_member(member: zipfile.ZipInfo, where: str) -> None:
    """Refuse a member whose path leads out of the archive, that is encrypted, or that is too large.

    Raises:
        SchemaError: It is such a member.
    """
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    is_absolute = parts[0] == "" or ":" in parts[0]
    if is_absolute or ".." in parts:
        raise SchemaError(f"{where}: the archive has a member outside of itself, {name!r:.80}, and is not read")
    if member.flag_bits & _ENCRYPTED_FLAG:
        raise SchemaError(f"{where}: the member {name!r:.80} is encrypted")
    if member.file_size > MAX_MEMBER_SIZE:
        raise SchemaError(
            f"{where}: the member {name!r:.80} has {member.file_size // MEGABYTE} MB after decompression, "
            f"expected at most {MAX_MEMBER_SIZE // MEGABYTE} MB"
        )


def read_member(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    """Return the decompressed bytes of a member.

    They are at most as many as the table of contents of the archive says: :mod:`zipfile` and :func:`_read_zstandard`
    read no further.

    Args:
        archive: An archive of :func:`open_archive`.
        name: The name of a member of the archive.
        where: The archive, for messages.

    Raises:
        SchemaError: The member is damaged, or compressed by a method that is unknown.
        MissingDependencyError: The member is compressed with Zstandard, this Python is older than 3.14, and the package
            ``zstandard`` is not installed.
    """
    member = archive.getinfo(name)
    zipfile_reads_zstandard = hasattr(zipfile, "ZIP_ZSTANDARD")
    try:
        if member.compress_type == _ZSTANDARD and not zipfile_reads_zstandard:
            return _read_zstandard(archive, member, where)
        return archive.read(member)
    except (*_ERRORS_OF_DAMAGE, OSError) as error:
        raise SchemaError(f"{where}: the member {name!r:.80} cannot be read ({error})") from error


def _read_zstandard(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    """Return the decompressed bytes of a member that is compressed with Zstandard.

    Args:
        archive: The archive.
        member: The member, as the table of contents of the archive describes it.
        where: The archive, for messages.

    Raises:
        ValueError: The member is damaged.
        MissingDependencyError: The package ``zstandard`` is not installed.
    """
    feature = f"{where}: the file is compressed with Zstandard; reading it with a Python before 3.14"
    zstandard = require("zstandard", extra="logs", feature=feature)
    decompressor = zstandard.ZstdDecompressor()  # with its default bound of the memory
    compressed = _compressed_bytes(archive, member)
    most_bytes = member.file_size + 1  # one more than there should be, so that a longer content is noticed below
    try:
        with decompressor.stream_reader(compressed, read_across_frames=True) as stream:
            content: bytes = stream.read(most_bytes)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise ValueError("its size or its checksum is not the one of the table of contents")
    return content


def _compressed_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member as they are in the file: still compressed.

    In the file, a member is a local header of fixed size, then its name, then its extra field, then these bytes.

    Raises:
        ValueError: There is no local header at the place that the table of contents says, or the file ends early.
    """
    with open(archive.filename or "", "rb") as file:
        file.seek(member.header_offset)
        signature, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        if signature != _LOCAL_SIGNATURE:
            raise ValueError("it has no header")
        file.seek(name_length + extra_length, os.SEEK_CUR)
        compressed = file.read(member.compress_size)
    if len(compressed) != member.compress_size:
        raise ValueError("the file ends early")
    return compressed
