"""Sources: where the rows of a data set come from, each pinned so that the same rows come back.

=================== ==================================================== =============================================
kind                where the rows are                                   pinned by
=================== ==================================================== =============================================
``built in``        a file of this library                               the card's digest of the rows
``released wheel``  a table of the wheel that StaICC 0.1.1 published     digests of the wheel, the file and the rows
``file``            a JSON Lines file                                    its SHA-256
``hub``             a JSON Lines file of a repository on the Hugging     a revision and its SHA-256
                    Face hub
``table file``      a user's file with named columns                     its SHA-256
=================== ==================================================== =============================================

A line of a JSON Lines file is ``{"text": "...", "label": "..."}``. ``text`` is a string or a list of strings, ``label``
a label name or an index into the label space.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.datasets.records import TableFile
from StaICC.datasets.table_files import data_file_digest, read_records
from StaICC.errors import ArgumentError, DataDamagedError, SchemaError
from StaICC.optional import require

RowsOfSource = Iterable[tuple[str | Sequence[str], int]]
"""The input texts and the label index of each row."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Rows in a JSON file of this library."""

    kind: ClassVar[str] = "built in"
    file: str
    """The name of the file, next to ``catalogue.json``."""

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Return the rows; the file has indexes into the label names, so these are not needed."""
        return [(text, label) for text, label in shipped(self.file)["rows"]]


@dataclass(frozen=True, slots=True)
class ReleasedWheel:
    """A table of the wheel that StaICC 0.1.1 published; :mod:`StaICC.datasets.pack` installs it."""

    kind: ClassVar[str] = "released wheel"
    member: str
    """The file inside the wheel."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A JSON Lines file.

    Raises:
        ArgumentError: The digest is not 64 lower-case hexadecimal digits.
    """

    kind: ClassVar[str] = "file"
    path: str | os.PathLike[str]
    sha256: str
    """The digest of the file, in hexadecimal."""

    def __post_init__(self) -> None:
        _check_digest(self.sha256)

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Yield the rows; any other file than the pinned one is refused.

        Args:
            labels: The label names, by which a name in the file becomes an index; without them it stays a name.

        Raises:
            DataMissingError: The file cannot be read.
            DataDamagedError: It is not the pinned file.
            SchemaError: A label of the file is not one of the label names.
        """
        digest = data_file_digest(self.path)
        if digest != self.sha256:
            raise DataDamagedError(
                f"{self.path} is not the pinned file: its SHA-256 is {digest}, expected {self.sha256}"
            )
        records = read_records(self.path, columns=("text", "label"), encoding=None, suffix=".jsonl")
        for row_index, (texts, label) in enumerate(records.rows):
            is_name = isinstance(label, str)  # otherwise it is an index
            if not is_name or not labels:
                yield texts[0], label
                continue
            if label not in labels:
                place = records.place(row_index)
                raise SchemaError(f"{place}: {label!r} is no label of {', '.join(labels)}")
            yield texts[0], labels.index(label)


@dataclass(frozen=True, slots=True)
class HubSource:
    """A JSON Lines file of a data set repository on the Hugging Face hub.

    Raises:
        ArgumentError: The digest or the revision is not hexadecimal digits of the right number. A branch or a tag can
            move, so it does not pin the rows.
    """

    kind: ClassVar[str] = "hub"
    repository: str
    revision: str
    """The commit, as 40 hexadecimal digits."""
    path: str
    """The file in the repository."""
    sha256: str

    def __post_init__(self) -> None:
        """Refuse a digest or a revision that does not pin the file."""
        _check_digest(self.sha256)
        if not is_hexadecimal(self.revision, 40):
            raise ArgumentError(
                f"hub source: got the revision {self.revision!r}, expected the 40 hexadecimal digits of a commit"
            )

    def rows(self, labels: Sequence[str]) -> RowsOfSource:
        """Download the file (once: it is cached by ``huggingface_hub``) and yield its rows, as a file source does."""
        hub = require("huggingface_hub", "hub", "a data set of the hub")
        path = hub.hf_hub_download(self.repository, self.path, repo_type="dataset", revision=self.revision)
        return FileSource(path, self.sha256).rows(labels)


KINDS: Mapping[str, type[Any]] = {source.kind: source for source in (BuiltIn, ReleasedWheel, FileSource, HubSource)}
"""The sources that a record of ``catalogue.json`` can name."""


CatalogueSource = BuiltIn | ReleasedWheel | FileSource | HubSource
"""Where the rows of a data set of the catalogue come from."""
Source = CatalogueSource | TableFile
"""Where the rows of a data set come from; ``None`` for rows that a script passes in a list."""


def shipped(file: str) -> Any:
    """Read a JSON file of this package.

    Args:
        file: Its name, next to this module.

    Returns:
        Its content as plain values.
    """
    import pkgutil  # not importlib.resources, which costs ten times as much to import

    return json.loads(pkgutil.get_data(__package__, file) or b"")


def is_hexadecimal(text: object, length: int) -> bool:
    """Return whether a value is a text of so many lower-case hexadecimal digits."""
    if not isinstance(text, str) or len(text) != length:
        return False
    return all(character in "0123456789abcdef" for character in text)


def _check_digest(digest: object) -> None:
    """Refuse a value that is not a SHA-256 in hexadecimal."""
    if not is_hexadecimal(digest, 64):
        raise ArgumentError(f"source: got the SHA-256 {digest!r}, expected 64 lower-case hexadecimal digits")
