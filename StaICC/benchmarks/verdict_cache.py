"""Verdicts of earlier verifications: a file whose inputs did not change is not recomputed again.

Only "recomputed" is kept, under a digest of everything that was read to reach it: the bytes of the result, all files of
this package, which data are there, and the user's data files. What is unchecked may be checked later, when data are
there. Where something is read of which no digest is known here, such as the code of a plug-in or the data of LongICL,
no verdict is kept.

The verdicts are in the folder of the data pack, never in a site, which is often public. They hold for the bytes of a
file, whatever its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import StaICC
from StaICC import benchmark_names
from StaICC.datasets.catalogue import MINI, names
from StaICC.datasets.pack import data_home, table_path
from StaICC.datasets.table_files import data_file_digest
from StaICC.errors import DataMissingError, StaICCError
from StaICC.files.output import file_digest, replacing
from StaICC.results.result import Result, ResultGroup
from StaICC.results.signature import digest

_FILE = "verdicts.json"
_INSTALLED = "installed"
"""Used in place of the digest of an installed data file, whose name contains its digest."""
_ABSENT = "absent"
"""Used in place of the digest of a file that does not exist."""


class VerdictCache:
    """The result files that earlier verifications recomputed without a difference.

    They are read from the file ``verdicts.json`` when a cache is made, and written to it by :meth:`save`. If that file
    cannot be read, the cache is empty, so that every result is verified again.

    Attributes:
        inputs_by_file: For the digest of each recomputed result file, the digest of everything that was read to
            recompute it. If that is still the same, the result need not be verified again.
        files: The digests of all result files that were ever recomputed.
    """

    def __init__(self) -> None:
        """Read the file of the cache; begin empty if there is none, or if it cannot be read."""
        self.inputs_by_file: dict[str, str] = {}
        self.files: set[str] = set()
        with contextlib.suppress(DataMissingError, OSError, ValueError, TypeError, KeyError, RecursionError):
            saved = json.loads((data_home() / _FILE).read_bytes())
            inputs_by_file = dict(saved["recomputed"])
            files = set(saved["files"])
            # They are assigned only if both could be read, so that nothing is taken from a damaged file.
            self.inputs_by_file = inputs_by_file
            self.files = files

    def has(self, file: str, inputs: str | None) -> bool:
        """Return whether a file was recomputed from the same inputs.

        Args:
            file: The digest of the file.
            inputs: The digest of its inputs (:func:`digest_of_inputs`); ``None`` if it is not known, so that the file
                has to be verified again.
        """
        return inputs is not None and self.inputs_by_file.get(file) == inputs

    def add(self, file: str, inputs: str | None) -> None:
        """Add a file that was recomputed.

        Args:
            file: The digest of the file.
            inputs: The digest of its inputs; ``None`` if it is not known.
        """
        self.files.add(file)
        if inputs is not None:
            self.inputs_by_file[file] = inputs

    def save(self) -> None:
        """Write the file of verdicts. If it cannot be written, the next leaderboard verifies all files again."""
        document = {"recomputed": self.inputs_by_file, "files": sorted(self.files)}
        with contextlib.suppress(DataMissingError, OSError):
            folder = data_home()
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / _FILE) as file:
                file.write(json.dumps(document).encode("ascii"))


def digest_of_inputs(file: str, result: Result | ResultGroup, folders: Sequence[Path]) -> str | None:
    """Return one digest of everything that the verification of a result reads.

    If the digest is the same as at an earlier verification, the verdict is the same, too. ``None`` means that
    something is read that has no known digest, such as the code of a plug-in, so that no verdict can be kept.

    Args:
        file: The digest of the file of the result.
        result: The result.
        folders: The folders in which the user's data files are searched.
    """
    data_files: list[_DataFile] = []
    for single in result.results():
        if not _is_of_this_package(single):
            return None
        for dataset in single.details:
            files_of_dataset = _data_files(single, dataset, folders)
            if files_of_dataset is None:
                return None
            data_files += files_of_dataset
    return digest([file, digest_of_code(), data_files])


class _DataFile(NamedTuple):
    """A file from which a data set may be read."""

    name: str
    digest: str
    """Its SHA-256; :data:`_INSTALLED` for the table of a built-in data set, :data:`_ABSENT` if there is no file."""


def _data_files(result: Result, dataset: str, folders: Sequence[Path]) -> list[_DataFile] | None:
    """Return the files from which a data set may be read; ``None`` if they are not known, as those of a plug-in.

    Args:
        result: The result.
        dataset: The name of the data set.
        folders: The folders in which the user's data files are searched.
    """
    if dataset in result.files:
        recorded_name = str(result.files[dataset].get("file"))
        return [_DataFile(recorded_name, _digest_or_absent(folder / recorded_name)) for folder in folders]
    if dataset in names():
        # The digest of a table is part of its name, and is checked whenever the table is opened.
        path = table_path(dataset)
        state = _INSTALLED if path.is_file() else _ABSENT
        return [_DataFile(path.name, state)]
    if dataset == MINI:  # It is part of this package, whose files are in the digest.
        return []
    return None


def _is_of_this_package(result: Result) -> bool:
    """Return whether the verification of a result needs this package only: no other code, no data of long contexts."""
    if benchmark_names.has_long_contexts(result.benchmark):
        return False
    for field in ("benchmark", "metrics"):
        value = result.signature.fields.get(field) or ""
        is_code_of_others = "@" in value  # Such a name has the digest of its code, or the name of a plug-in.
        if is_code_of_others:
            return False
    return True


def _digest_or_absent(path: Path) -> str:
    """Return the digest of a data file, or :data:`_ABSENT` if it cannot be read."""
    try:
        return data_file_digest(path)
    except (StaICCError, OSError):
        return _ABSENT


@cache
def digest_of_code() -> str:
    """Return the digest of all files of this package, and of the Python version."""
    package = Path(StaICC.__file__).parent
    file_digests = []
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            file_digests.append((path.relative_to(package).as_posix(), file_digest(path)))
    return hashlib.sha256(repr((sys.version, file_digests)).encode()).hexdigest()
