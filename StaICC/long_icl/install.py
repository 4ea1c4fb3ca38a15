"""Installation of the published data sets, from a folder of the user or from the Hugging Face hub (extra ``hub``).

From a folder, nothing is downloaded: the user provides the files, under the licences of the cards. They are checked as
for a run, then copied atomically.

The hub has BANKING77, GoEmotions and Discovery. TACRED needs the user's own LDC copy, the licence of DialogRE must be
accepted at its source, and only the repository of LongICLBench has its selection of Few-NERD sentences. The hub's own
Parquet conversion (revision ``refs/convert/parquet``) is read, so no script of a repository runs. Each split is written
once, in the published file format, and its SHA-256 is compared with the published one. The hub guarantees neither order
nor wording; other rows are refused. For Discovery no digest is known; its number of rows is compared.

The licence notice of a data set is shown before its files are opened. A missing or wrong data set does not prevent the
installation of the others.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from StaICC.datasets.pack import OFFLINE, TableStatus, data_home
from StaICC.errors import DataDamagedError, DataError, DataMissingError
from StaICC.files.output import check_outputs, file_digest, passing_folder, write_output
from StaICC.long_icl.available import wanted
from StaICC.long_icl.cards import TaskCard, cards, task_card
from StaICC.long_icl.loading import Announce, LongICLData, Skipped, find, load, show_notice
from StaICC.long_icl.readers import COLUMNS, Columns
from StaICC.optional import require
from StaICC.safe_text import logger

_log = logger(__name__)


FOLDER = "long_icl"


@dataclass(frozen=True, slots=True)
class Installed:
    """The outcome of an installation."""

    folder: Path
    datasets: tuple[str, ...]
    """Installed now or before."""
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
    """Return which data sets are installed.

    Args:
        home: The library's data home (see :func:`default_folder`).
        verify: Read the files and compare them with the published ones. A data set whose published digests are not
            known stays ``installed``.
    """
    folder, statuses = default_folder(home), []
    for name, own in cards(None).items():
        files = find(name, folder)
        state, reason = ("installed", "") if len(files) == len(own.files) else ("missing", own.instructions())
        digests = "+".join(map(file_digest, files.values())) if verify and not reason else None
        if digests is not None:
            try:
                state = "verified" if load(name, folder, announce=lambda notice: None).verified else state
            except (DataDamagedError, DataMissingError) as error:
                state, reason = "damaged", str(error)
        rows, size = sum(spec.rows for spec in own.files.values()), sum(path.stat().st_size for path in files.values())
        expected = "+".join((*spec.sha256, "unknown")[0] for spec in own.files.values())
        statuses.append(TableStatus(name, state, str(folder), rows, size or None, expected, digests, reason))
    return statuses


def _copy(data: LongICLData, folder: Path) -> None:
    """Copy the files of a data set that was loaded, and so checked, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (data.train_file, data.test_file):
        target = folder / file.spec.names[0]
        if not target.is_file() or file_digest(target) != file.sha256:
            check_outputs([target], [file.path])
            with open(file.path, "rb") as source:
                write_output(target, source)


def install(
    from_dir: str | Path | None,
    home: str | Path | None = None,
    datasets: Iterable[str] | None = None,
    *,
    announce: Announce = show_notice,
) -> Installed:
    """Install data sets from a folder or the hub; one that is missing or damaged does not prevent the others.

    Args:
        from_dir: Folder with the published files, under the names of the cards; None downloads them from the hub.
        home: The library's data home (default: see :func:`default_folder`).
        datasets: Names; None for all six. Those that the hub does not have are reported as skipped.
        announce: Called with the licence notice of each data set before its files are opened.

    Returns:
        The installed data sets, and the skipped ones with reasons and instructions.

    Raises:
        DataMissingError: The folder does not exist, nothing could be installed, ``STAICC_OFFLINE`` forbids downloads,
            or the copies cannot be written.
        MissingDependencyError: The extra ``hub`` is not installed.
        UnknownNameError: A data set is unknown.
        ArgumentError: The list is empty or has duplicates.
    """
    if from_dir is None:
        if os.environ.get(OFFLINE, "") not in ("", "0"):
            raise DataMissingError(f"{OFFLINE} forbids fetching from the hub; install the files from a folder instead")
        hub, _ = require("huggingface_hub", EXTRA, FEATURE), require("pyarrow.parquet", EXTRA, FEATURE)
    elif not Path(from_dir).is_dir():
        raise DataMissingError(f"there is no folder {from_dir}; name the folder with the published files")
    folder = default_folder(home)
    done: list[str] = []
    skipped: list[Skipped] = []
    for own in map(task_card, wanted(datasets)):
        try:
            if from_dir is None:
                _fetch(hub, own, folder, announce)
            else:
                _copy(load(own.name, from_dir, announce=announce), folder)
            done.append(own.name)
        except DataError as error:
            skipped.append(Skipped(own.name, str(error), own.instructions()))
            _log.warning("%s is not installed: %s", own.title, error)
        except OSError as error:
            raise DataMissingError(f"{own.title} cannot be installed in {folder}: {error}") from error
    if not done:
        reasons = "; ".join(f"{data.dataset}: {data.reason}" for data in skipped)
        raise DataMissingError(f"nothing could be installed from {from_dir or 'the hub'}: {reasons}")
    return Installed(folder, tuple(done), tuple(skipped))


REVISION = "refs/convert/parquet"
EXTRA = "hub"
FEATURE = "fetching LongICL data from the hub"


def _cells(card: TaskCard, columns: Columns, record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cells of a line of the published file, from a record of the hub."""
    assert card.hub is not None
    for column in card.hub.columns:
        value = record.get(column)
        if column == card.hub.label:
            places: Any = value if isinstance(value, list) and columns.labels == "indices" else [value]
            if not places or any(type(place) is not int or not 0 <= place < len(card.labels) for place in places):
                expected = f"expected 0 to {len(card.labels) - 1}"
                raise DataDamagedError(f"the hub's {card.title} has the label {value!r}, {expected}")
            value = ",".join(map(str, places)) if columns.labels == "indices" else card.labels[places[0]]
        if not isinstance(value, str):
            raise DataDamagedError(f"the hub's {card.title} has no text {column!r} in a row; it has {sorted(record)}")
        if columns.quoting == csv.QUOTE_NONE and any(mark in value for mark in "\t\n\r"):
            raise DataDamagedError(f"a sentence of the hub's {card.title} holds a tab or a line end: {value!r}")
        yield value


def _records(hub: Any, card: TaskCard, split: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a split, file by file; any error of another package becomes a ``DataMissingError``."""
    assert card.hub is not None
    source, parquet = card.hub, require("pyarrow.parquet", EXTRA, FEATURE)
    start = f"{source.config}/{split}/"
    try:
        listed = sorted(hub.HfApi().list_repo_files(source.repository, repo_type="dataset", revision=REVISION))
        chosen = [name for name in listed if name.startswith(start) and name.endswith(".parquet")]
        if not chosen:
            there = f"it has {', '.join(listed[:20]) or 'nothing'}"
            raise DataMissingError(f"{source.repository} has no {start}*.parquet on the hub ({REVISION}); {there}")
        for name in chosen:
            path = hub.hf_hub_download(source.repository, name, repo_type="dataset", revision=REVISION)
            with parquet.ParquetFile(path) as file:
                about = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
                column = about.get("info", {}).get("features", {}).get(source.label, {})
                labels = column.get("feature", column).get("names")  # of one label, or of a list of labels
                if labels not in (None, [*card.labels]):
                    got = f"its labels are {labels}, which are not those of the benchmark"
                    raise DataDamagedError(f"{source.repository}, {name}: {got}. {card.obtain}")
                for batch in file.iter_batches():
                    yield from batch.to_pylist()
    except DataError:
        raise
    except Exception as error:
        where = f"the hub ({source.repository})"
        raise DataMissingError(f"{card.title}: {where} cannot be read: {type(error).__name__}: {error}") from error


def _fetch(hub: Any, card: TaskCard, folder: Path, announce: Announce) -> None:
    """Download a data set from the hub, check it, and install it."""
    if card.hub is None:
        raise DataMissingError(f"{card.title} is not fetched from the hub")
    announce(card.notice())
    folder.mkdir(parents=True, exist_ok=True)
    with passing_folder(folder) as passing:
        for split, spec in card.files.items():
            columns = COLUMNS[spec.format]
            with open(passing / spec.names[0], "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, **columns.dialect)
                writer.writerows([columns.names] * columns.header)
                records = _records(hub, card, spec.split or split)
                writer.writerows(_cells(card, columns, record) for record in records)
        _copy(load(card.name, passing, announce=lambda notice: None), folder)
