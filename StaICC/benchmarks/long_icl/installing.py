"""Copy the published files into the library's data folder, once they are known to be right.

Nothing is fetched: the user has the files, under the licences that the cards name. Each data set's licence is shown
before its files are opened; the files are read through, as for a run, and only then copied, beside their place and
renamed. A data set that is not there, or not right, does not keep the others from being installed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from StaICC.benchmarks.long_icl.loading import DataSet, LoadedFile, Skipped, load, show_notice, wanted
from StaICC.datasets.pack import data_home
from StaICC.datasets.storage import file_digest, write_beside
from StaICC.errors import DataDamagedError, DataMissingError

__all__ = ["Installed", "default_folder", "install"]

FOLDER = "long_icl"

_log = logging.getLogger(__name__)
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Installed:
    """What an installation did."""

    folder: Path
    datasets: tuple[str, ...]
    """Installed, or there already."""
    files: tuple[Path, ...]
    """Their files."""
    skipped: tuple[Skipped, ...]
    """Not found, or not right, with the reason."""


def default_folder(home: str | Path | None = None) -> Path:
    """The data folder that is used where none is named.

    Args:
        home: The library's data home; None for :func:`StaICC.datasets.pack.data_home`.

    Raises:
        DataMissingError: There is no home folder.
    """
    return (data_home() if home is None else Path(home)) / FOLDER


def _pieces(file: LoadedFile) -> Iterator[bytes]:
    """The file's bytes; refused at their end if they are not those that were checked."""
    digest = hashlib.sha256()
    with open(file.path, "rb") as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != file.sha256:
        raise DataDamagedError(f"{file.path} changed while it was being copied; install it again")


def _copy(data: DataSet, folder: Path) -> list[Path]:
    targets = []
    for file in (data.train_file, data.test_file):
        if file.made_up:
            raise DataDamagedError(f"{file.path} holds made-up rows; they are used from where they are, not installed")
        targets.append(folder / file.spec.names[0])
    for file, target in zip((data.train_file, data.test_file), targets, strict=True):
        if not target.is_file() or file_digest(target) != file.sha256:
            write_beside(target, _pieces(file))
    return targets


def install(
    from_dir: str | Path,
    home: str | Path | None = None,
    datasets: Iterable[str] | None = None,
    *,
    announce: Callable[[str], object] = show_notice,
) -> Installed:
    """Install what a folder holds of the benchmark's data.

    Args:
        from_dir: Folder with the published files, under the names of the cards.
        home: The library's data home (default: see :func:`default_folder`).
        datasets: Names; None for all six.
        announce: Gets each data set's licence notice before its files are opened.

    Returns:
        What was installed, and what was not, with the reason and instructions.

    Raises:
        DataMissingError: There is no such folder, nothing in it could be installed, or the copies cannot be written.
        UnknownNameError: There is no such data set.
        ArgumentError: No data set is named, or one of them twice.
    """
    source, folder = Path(from_dir), default_folder(home)
    if not source.is_dir():
        raise DataMissingError(f"there is no folder {source}; name the folder with the published files")
    done: list[str] = []
    files: list[Path] = []
    skipped: list[Skipped] = []
    for own in wanted(datasets):
        try:
            data = load(own.name, source, announce=announce)
            folder.mkdir(parents=True, exist_ok=True)
            files += _copy(data, folder)
            done.append(own.name)
        except (DataDamagedError, DataMissingError) as error:
            skipped.append(Skipped(own.name, str(error), own.instructions()))
            _log.warning("%s is not installed: %s", own.title, error)
        except OSError as error:
            raise DataMissingError(f"{own.title} cannot be installed in {folder}: {error}") from error
    if not done:
        reasons = "; ".join(f"{one.dataset}: {one.reason}" for one in skipped)
        raise DataMissingError(f"nothing in {source} could be installed: {reasons}")
    return Installed(folder, tuple(done), tuple(files), tuple(skipped))
