"""Copies the published files into the library's data folder after checking them.

Nothing is downloaded: the user provides the files, under the licences of the cards. The licence notice of a data set is
shown before its files are opened. The files are checked as for a run, then copied atomically. A missing or wrong data
set does not prevent the installation of the others.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from StaICC.benchmarks.long_icl.data.cards import TaskCard, cards
from StaICC.benchmarks.long_icl.data.loading import LoadedFile, LongICLData, Skipped, find, load, show_notice, wanted
from StaICC.datasets.outputs import check_outputs, write_output
from StaICC.datasets.pack import TableStatus, data_home
from StaICC.datasets.storage import file_digest
from StaICC.errors import DataDamagedError, DataError, DataMissingError

FOLDER = "long_icl"

_log = logging.getLogger(__name__)
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Installed:
    """The outcome of an installation."""

    folder: Path
    datasets: tuple[str, ...]
    """Installed now or before."""
    files: tuple[Path, ...]
    """Their files."""
    skipped: tuple[Skipped, ...]
    """Missing or wrong data sets, with reasons."""


def default_folder(home: str | Path | None = None) -> Path:
    """Return the default data folder.

    Args:
        home: The library's data home; None for :func:`StaICC.datasets.pack.data_home`.

    Raises:
        DataMissingError: The home folder is unknown.
    """
    return (data_home() if home is None else Path(home)) / FOLDER


def status(home: str | Path | None = None, *, verify: bool = False) -> list[TableStatus]:
    """Return which of the six data sets are installed.

    Args:
        home: The library's data home (see :func:`default_folder`).
        verify: Read the files and compare them with the published ones. A data set whose published digests are not
            known stays ``installed``.
    """
    folder, found = default_folder(home), []
    for name, own in cards().items():
        files = [find(name, folder, split) for split in ("train", "test")]
        present = [file[0] for file in files if file is not None]
        specs = [own.files[split][0] if file is None else file[1] for split, file in zip(own.files, files, strict=True)]
        state, reason, digests = "missing", own.instructions(), None
        if len(present) == len(files):
            state, reason = "installed", ""
            if verify:
                digests = "+".join(map(file_digest, present))
                try:
                    loaded = load(name, folder, announce=lambda notice: None)
                    state = "verified" if loaded.train_file.verified and loaded.test_file.verified else state
                except (DataDamagedError, DataMissingError) as error:
                    state, reason = "damaged", str(error)
        rows = sum(spec.rows or 0 for spec in specs)
        size = sum(path.stat().st_size for path in present) if present else None
        expected = "+".join(spec.sha256[0] if spec.sha256 else "unknown" for spec in specs)
        found.append(TableStatus(name, state, str(folder), rows, size, expected, digests, reason))
    return found


def _pieces(file: LoadedFile) -> Iterator[bytes]:
    """Yield the bytes of a file; raise an error at the end if the file changed after its check."""
    digest = hashlib.sha256()
    with open(file.path, "rb") as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != file.sha256:
        raise DataDamagedError(f"{file.path} changed while it was being copied; install it again")


def _copy(data: LongICLData, folder: Path) -> list[Path]:
    targets = []
    for file in (data.train_file, data.test_file):
        if file.made_up:
            raise DataDamagedError(f"{file.path} holds made-up rows; they are used from where they are, not installed")
        targets.append(folder / file.spec.names[0])
    for file, target in zip((data.train_file, data.test_file), targets, strict=True):
        if not target.is_file() or file_digest(target) != file.sha256:
            check_outputs([target], [file.path])
            write_output(target, _pieces(file))
    return targets


def install(
    from_dir: str | Path,
    home: str | Path | None = None,
    datasets: Iterable[str] | None = None,
    *,
    announce: Callable[[str], object] = show_notice,
) -> Installed:
    """Install the data sets of a folder.

    Args:
        from_dir: Folder with the published files, under the names of the cards.
        home: The library's data home (default: see :func:`default_folder`).
        datasets: Names; None for all six.
        announce: Called with the licence notice of each data set before its files are opened.

    Returns:
        The installed data sets, and the skipped ones with reasons and instructions.

    Raises:
        DataMissingError: The folder does not exist, nothing in it could be installed, or the copies cannot be written.
        UnknownNameError: A data set is unknown.
        ArgumentError: The list is empty or has duplicates.
    """
    source, folder = Path(from_dir), default_folder(home)
    if not source.is_dir():
        raise DataMissingError(f"there is no folder {source}; name the folder with the published files")

    def copy(own: TaskCard) -> list[Path]:
        data = load(own.name, source, announce=announce)
        folder.mkdir(parents=True, exist_ok=True)
        return _copy(data, folder)

    return install_each(wanted(datasets), folder, copy, f"nothing in {source} could be installed")


def install_each(
    chosen: Iterable[TaskCard], folder: Path, install_one: Callable[[TaskCard], list[Path]], nothing: str
) -> Installed:
    """Install data sets one by one; one that is missing or damaged does not prevent the others.

    Args:
        chosen: Their cards.
        folder: The folder of the data.
        install_one: Installs one data set, and returns its files.
        nothing: The beginning of the error if nothing could be installed.

    Raises:
        DataMissingError: Nothing could be installed, or the files cannot be written.
    """
    files: dict[str, list[Path]] = {}
    skipped: list[Skipped] = []
    for own in chosen:
        try:
            files[own.name] = install_one(own)
        except DataError as error:
            skipped.append(Skipped(own.name, str(error), own.instructions()))
            _log.warning("%s is not installed: %s", own.title, error)
        except OSError as error:
            raise DataMissingError(f"{own.title} cannot be installed in {folder}: {error}") from error
    if not files:
        raise DataMissingError(f"{nothing}: {'; '.join(f'{one.dataset}: {one.reason}' for one in skipped)}")
    return Installed(folder, tuple(files), tuple(chain.from_iterable(files.values())), tuple(skipped))
