"""The data pack: the frozen tables of the benchmark, on this machine.

This library contains no data. The tables are the ones that the published wheel ``StaICC`` 0.1.1 carries, and
every user of the benchmark ran. :func:`install` gets that wheel with the user's own pip, or takes it from a file, and
turns its tables into files of our own format (:mod:`StaICC.datasets.table`) in :func:`data_home`. First use of a data
set installs by itself.

Guarantees: the wheel's digest is checked before it is opened; what it holds is read by an unpickler that can build
nothing but plain values; the digest of each table's file is checked before it gets its name, and again whenever it is
opened. A full disk, a killed process or two installers at once leave either a right file or none. A damaged file is
refused by name, and mended by installing again.

``pip`` knows the user's mirrors, proxies and certificates, so it does the fetching, and our code contains no address.
It is the pip of this Python; without one, ``pip`` or ``uv`` of the path.

The tables of the wheel are pickles, and a pickle can run any code when it is loaded. The unpickler here refuses every
global and every extension code, so nothing but plain values can come out. The digests of the wheel and of each table
are checked, too.
"""

from __future__ import annotations

import copyreg
import importlib.util
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from StaICC.datasets.catalogue import catalogue, find, get_card, names
from StaICC.datasets.source import ReleasedWheel
from StaICC.datasets.table import Row, write_table
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError
from StaICC.files.output import file_digest, temporary_folder_in
from StaICC.progress import INSTALLING, Progress, ProgressCallback, drawn_progress
from StaICC.safe_text import logger


class _PlainUnpickler(pickle.Unpickler):
    """Builds lists, tuples, dictionaries, strings and numbers; refuses everything that names code."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise DataDamagedError(f"the pickle refers to {module}.{name}; plain values need no code, so it is refused")


def read_rows(stream: Any, where: str) -> list[Row]:
    """Read a pickled table.

    Args:
        stream: Binary file with ``read``, ``readinto`` and ``readline``.
        where: What it is, for messages.

    Returns:
        The rows, unchecked: :func:`~StaICC.datasets.table.write_table` checks each, and the digest of all.

    Raises:
        DataDamagedError: It is no pickle of pairs, or refers to code.
    """
    copyreg.clear_extension_cache()  # codes that this process resolved before would pass by find_class
    try:
        rows = _PlainUnpickler(stream).load()
        return [Row(tuple(texts), label) for texts, label in rows]
    except Exception as error:  # a broken pickle can raise nearly anything
        reason = f"{type(error).__name__}: {error}"
        raise DataDamagedError(f"{where}: the pickle cannot be read as rows ({reason})") from error


def read_tables(wheel: Path, members: Mapping[str, str]) -> Iterator[tuple[str, list[Row]]]:
    """Read tables from a wheel, one at a time, without unpacking anything to disk.

    Args:
        wheel: The file. Its digest must have been checked.
        members: Name -> file inside the wheel.

    Yields:
        Name and rows, in the order of ``members``.

    Raises:
        DataDamagedError: It is no wheel, a file is missing, or one holds anything but rows.
        OSError: There is no such file, or it cannot be opened.
    """
    import zipfile  # costs more time than the first use of installed tables

    with open(wheel, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                for name, member in members.items():
                    with archive.open(member) as stream:
                        yield name, read_rows(stream, member)
        except Exception as error:  # a broken archive can raise nearly anything
            raise DataDamagedError(f"{wheel} cannot be read as a wheel ({type(error).__name__}: {error})") from error


OFFLINE = "STAICC_OFFLINE"
"""Environment variable: anything but ``""`` and ``0`` forbids fetching."""

TIMEOUT = 900.0
"""Seconds after which a fetch is given up."""


def check_wheel(path: Path, sha256: str) -> None:
    """Refuse any file but the published one, before it is opened as anything.

    Args:
        path: The file.
        sha256: Digest that it must have, in hexadecimal.

    Raises:
        DataMissingError: There is no such file, or it cannot be read.
        DataDamagedError: Its digest is another one; both are named.
    """
    try:
        digest = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"the wheel {path} cannot be read: {error}") from error
    if digest != sha256:
        message = f"{path} is not the published wheel: its SHA-256 is {digest}, but the published one is {sha256}"
        raise DataDamagedError(f"{message}. Nothing of it was used; fetch it again")


def _pip() -> list[str]:
    """Return the beginning of the command that runs pip; an empty list if there is none."""
    import shutil

    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip")
    if pip is not None:
        return [pip]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "pip"]
    return []


def _download(requirement: str, folder: Path) -> str | None:
    """Run ``pip download``; return the reason why it failed, or None."""
    from subprocess import DEVNULL, PIPE, STDOUT, TimeoutExpired, run  # slow to import, and rarely needed

    pip = _pip()
    if not pip:
        return f"this Python ({sys.executable}) has no pip, nor has the path. Install pip or uv"
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command = [*pip, "download", *options, "--dest", str(folder), requirement]
    try:
        # In the empty folder, so that a module called pip in the user's working folder is not taken for pip.
        process = run(command, cwd=folder, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, timeout=TIMEOUT, check=False)
    except TimeoutExpired:
        return f"pip did not finish within {TIMEOUT:g} seconds"
    except OSError as error:
        return f"{pip[0]} could not be started ({error.strerror or error})"
    if process.returncode == 0:
        return None
    reason = _reason_in_output(process.stdout.decode("utf-8", "replace"))
    return f"pip failed with exit status {process.returncode}: {reason}"


def _reason_in_output(output: str) -> str:
    """Return why pip failed: its last line about an error, or its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    error_lines = [line for line in lines if line.startswith("ERROR")]
    if error_lines:
        reason = error_lines[-1]
    elif lines:
        reason = lines[-1]
    else:
        reason = "it said nothing"
    if any("Retrying (" in line for line in lines):
        reason += "; it could not connect to a package index"
    return reason


def fetch_wheel(requirement: str, filename: str, sha256: str, folder: Path) -> Path:
    """Fetch a wheel with ``pip``, and check its digest.

    Args:
        requirement: The requirement for pip, such as ``"StaICC==0.1.1"``.
        filename: Name of the wheel that pip will bring.
        sha256: Digest that it must have, in hexadecimal.
        folder: An empty folder for the wheel.

    Returns:
        Path of the wheel.

    Raises:
        DataMissingError: It cannot be fetched: no network, no pip, or fetching is forbidden by ``STAICC_OFFLINE``. The
            message says why.
        DataDamagedError: What came is not the published wheel; both digests are named.
    """
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise DataMissingError(f"{filename} is not on this machine, and {OFFLINE} forbids fetching it")
    reason = _download(requirement, folder)
    if reason is not None:
        raise DataMissingError(f"{filename} could not be fetched: {reason}")
    wheel = folder / filename
    if not wheel.exists():
        brought = ", ".join(sorted(entry.name for entry in folder.iterdir()))
        raise DataMissingError(f"{filename} could not be fetched: pip brought {brought or 'nothing'}")
    check_wheel(wheel, sha256)
    return wheel


HOME = "STAICC_HOME"
"""Environment variable: the folder of the data pack."""

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What is known of one table of the pack."""

    name: str
    state: str
    """``"installed"`` (a file is there), ``"verified"`` (and is the published one), ``"missing"`` or ``"damaged"``."""
    path: str
    rows: int
    bytes: int | None
    """Size of the file; None if there is none."""
    expected: str
    """SHA-256 that the file must have."""
    found: str | None
    """SHA-256 that it has; None if it was not computed or there is no file."""
    reason: str
    """Why it is damaged or missing, else ``""``."""

    @property
    def usable(self) -> bool:
        """Whether nothing is known against it."""
        return self.state in ("installed", "verified")


def data_home() -> Path:
    """Return the folder of the data pack: ``STAICC_HOME``, else ``staicc`` in the platform's cache folder.

    Returns:
        An absolute path. The folder need not exist.

    Raises:
        DataMissingError: There is no home folder; ``STAICC_HOME`` must name one.
    """
    stated_home = os.environ.get(HOME)
    if stated_home:
        return Path(stated_home).expanduser().absolute()
    try:
        cache_folder = _cache_folder()
    except RuntimeError as error:
        raise DataMissingError(f"there is no home folder ({error}); set {HOME} to a folder for the data") from error
    return cache_folder.absolute() / "staicc"


def _cache_folder() -> Path:
    """Return the platform's folder for caches.

    Raises:
        RuntimeError: There is no home folder.
    """
    if sys.platform == "win32":
        local_folder = os.environ.get("LOCALAPPDATA")
        if local_folder:
            return Path(local_folder)
        return Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    xdg_folder = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg_folder):  # a relative path must be ignored, says the XDG Base Directory Specification
        return Path(xdg_folder)
    return Path.home() / ".cache"


def expected_digest(name: str) -> str:
    """Return the SHA-256 that the frozen file of a data set must have.

    Args:
        name: A data set of the benchmark.

    Returns:
        64 hexadecimal digits.

    Raises:
        UnknownNameError: There is no such data set.
        ArgumentError: The data set does not come from the pack.
    """
    card = get_card(name)
    if card.digests is None or card.digests.file is None:
        raise ArgumentError(f"the data set {card.name!r} does not come from the data pack")
    return card.digests.file


def table_path(name: str) -> Path:
    """Return the path of a data set's frozen file, whether or not it exists.

    The digest is part of the name, so that versions of the library with other file formats live side by side.

    Args:
        name: A data set of the benchmark.

    Returns:
        An absolute path.

    Raises:
        UnknownNameError: There is no such data set.
        ArgumentError: The data set does not come from the pack.
    """
    return data_home() / "tables" / f"{find(name)}-{expected_digest(name)[:12]}.table"


def _status(name: str, *, thorough: bool) -> TableStatus:
    """Return what is known of a table.

    Args:
        name: A data set of the benchmark.
        thorough: Whether the digest of the file is computed.
    """
    path = table_path(name)
    expected = expected_digest(name)
    card = get_card(name)
    size: int | None = None
    digest: str | None = None
    reason = ""
    try:
        size = path.stat().st_size
        if thorough:
            digest = file_digest(path)
    except FileNotFoundError:
        state = "missing"
        reason = "there is no such file"
    except OSError as error:
        state = "damaged"
        reason = f"it cannot be read: {error.strerror or error}"
    else:
        if not thorough:
            state = "installed"
        elif digest == expected:
            state = "verified"
        else:
            state = "damaged"
            reason = "it is not the published file"
    return TableStatus(
        name=card.name,
        state=state,
        path=str(path),
        rows=card.rows,
        bytes=size,
        expected=expected,
        found=digest,
        reason=reason,
    )


def status() -> tuple[TableStatus, ...]:
    """Return which tables are installed, without reading them.

    Returns:
        One record for each data set of the benchmark, in its order.
    """
    return tuple(_status(name, thorough=False) for name in names())


def verify() -> tuple[TableStatus, ...]:
    """Read every installed table and compare its SHA-256 with the published one.

    Returns:
        One record for each data set of the benchmark, in its order.
    """
    return tuple(_status(name, thorough=True) for name in names())


def install(
    wheel: Path | str | None = None, progress: ProgressCallback | bool | None = None
) -> tuple[TableStatus, ...]:
    """Install the data pack: every table that is missing or damaged.

    Args:
        wheel: The published wheel as a file, for machines without a network (default: fetch it with pip).
        progress: As for a run (:class:`StaICC.benchmarks.context.RunSettings`).

    Returns:
        One record for each data set of the benchmark, all of them verified.

    Raises:
        DataMissingError: The wheel cannot be fetched or read, or the tables cannot be written.
        DataDamagedError: The wheel is not the published one; nothing of it was used.
    """
    home = data_home()
    if wheel is not None:
        check_wheel(Path(wheel), catalogue().pack.sha256)
    wanted = [table.name for table in verify() if not table.usable]
    if not wanted:
        return verify()
    try:
        # Two processes that install at once write the same files, each as a whole.
        (home / "tables").mkdir(parents=True, exist_ok=True)
        with drawn_progress(progress) as shown_progress:
            report = shown_progress or _report_nothing
            if wheel is not None:
                _write_tables(Path(wheel), wanted, report)
            else:
                with temporary_folder_in(home) as folder:
                    _write_tables(_fetch(folder, report), wanted, report)
    except OSError as error:
        raise DataMissingError(
            f"the data pack cannot be installed in {home}: {error}. It needs some 60 MB there; set {HOME} to another "
            "folder if that one cannot be used"
        ) from error
    return verify()


def _report_nothing(progress: Progress) -> None:
    """Ignore the progress of an installation that shows none."""


def _write_tables(wheel: Path, names_of_tables: Sequence[str], report: ProgressCallback) -> None:
    """Write tables of the wheel as the frozen files that benchmarks read, one after the other.

    Args:
        wheel: The published wheel.
        names_of_tables: The data sets. All are tables of the wheel; a data set that is part of this package is not.
        report: Is called before each table.
    """
    members = {}
    for name in names_of_tables:
        source = catalogue().sources[name]
        if isinstance(source, ReleasedWheel):
            members[name] = source.member
    for number, (name, rows) in enumerate(read_tables(wheel, members)):
        report(Progress(number, len(members), f"table {name}", number=0, parts=1, phase=INSTALLING))
        write_table(table_path(name), rows, columns=get_card(name).columns, sha256=expected_digest(name))


def _fetch(folder: Path, report: ProgressCallback) -> Path:
    """Fetch the published wheel into a folder.

    Raises:
        DataMissingError: It cannot be fetched; the message says how to bring it from another machine.
        DataDamagedError: What came is not the published wheel.
    """
    pack = catalogue().pack
    report(Progress(0, 0, "the benchmark's data (18 MB)", number=0, parts=1, phase=INSTALLING))
    try:
        return fetch_wheel(pack.requirement, pack.file, pack.sha256, folder)
    except DataMissingError as error:
        raise DataMissingError(
            f"the benchmark's data is not on this machine: {error}. On a machine with a network run 'pip download "
            f"--no-deps {pack.requirement}', copy {pack.file} here, and run 'python -m StaICC data install "
            f"{pack.file}'. The data set 'mini' needs no download"
        ) from error


def ensure_installed(wanted: Iterable[str]) -> None:
    """Install the data pack if one of these tables is not there. Says so, in one line, through :mod:`logging`.

    Args:
        wanted: Data sets of the benchmark.

    Raises:
        UnknownNameError: There is no such data set.
        DataMissingError: The data is not on this machine and cannot be fetched; the message says what to do.
        DataDamagedError: What was fetched is not the published wheel.
    """
    missing = [name for name in wanted if not table_path(name).exists()]
    if not missing:
        return
    # A warning, so that logging's last resort shows it on stderr to users who have set up no logging.
    _log.warning("StaICC: installing the benchmark's data into %s (once; some 18 MB are fetched with pip)", data_home())
    install()
