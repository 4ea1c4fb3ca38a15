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
from StaICC.files.output import check_outputs, file_digest, temporary_folder_in, write_output
from StaICC.long_icl.available import wanted
from StaICC.long_icl.cards import TaskCard, cards, task_card
from StaICC.long_icl.loading import Announce, LongICLData, Skipped, find, load, show_notice
from StaICC.long_icl.readers import COLUMNS, Columns
from StaICC.optional import require
from StaICC.safe_text import logger

_log = logger(__name__)


FOLDER = "long_icl"
"""The folder of the data in the data home."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The outcome of an installation."""

    folder: Path
    datasets: tuple[str, ...]
    """The names of the installed data sets, also of those whose files were there before."""
    skipped: tuple[Skipped, ...]
    """The data sets that are missing or not the published ones, with reasons."""


def default_folder(home: str | Path | None = None) -> Path:
    """Return the default data folder.

    Args:
        home: The library's data home; None for :func:`StaICC.datasets.pack.data_home`.

    Raises:
        DataMissingError: The home folder is unknown.
    """
    if home is None:
        return data_home() / FOLDER
    return Path(home) / FOLDER


def status(home: str | Path | None = None, *, verify: bool = False) -> list[TableStatus]:
    """Return which data sets are installed.

    Args:
        home: The library's data home (see :func:`default_folder`).
        verify: Read the files and compare them with the published ones. A data set whose published digests are not
            known stays ``installed``.
    """
    folder = default_folder(home)
    return [_status_of(card, folder, verify) for card in cards(None).values()]


def _status_of(card: TaskCard, folder: Path, verify: bool) -> TableStatus:
    """Return the state of a data set in a folder: ``missing``, ``installed``, ``verified`` or ``damaged``.

    Args:
        card: Card of the data set.
        folder: The folder.
        verify: Whether the files are read and compared with the published ones. Otherwise a data set is ``installed``
            if all of its files exist.
    """
    files = find(card.name, folder)
    reason = ""
    digests = None
    if len(files) < len(card.files):
        state = "missing"
        reason = card.instructions()
    elif not verify:
        state = "installed"
    else:
        digests = "+".join(file_digest(path) for path in files.values())
        try:
            data = load(card.name, folder, announce=_show_no_notice)
        except (DataDamagedError, DataMissingError) as error:
            state = "damaged"
            reason = str(error)
        else:
            state = "verified" if data.verified else "installed"  # else no published digest is known

    published_digests = []
    for spec in card.files.values():
        if spec.sha256:
            published_digests.append(spec.sha256[0])
        else:
            published_digests.append("unknown")
    byte_count = sum(path.stat().st_size for path in files.values())
    return TableStatus(
        name=card.name,
        state=state,
        path=str(folder),
        rows=sum(spec.rows for spec in card.files.values()),
        bytes=byte_count or None,
        expected="+".join(published_digests),
        found=digests,
        reason=reason,
    )


def _show_no_notice(notice: str) -> None:
    """Do nothing with a licence notice, because it was shown before, or nothing but digests is shown of the files."""


def _copy(data: LongICLData, folder: Path) -> None:
    """Copy the files of a data set into a folder.

    The data set is loaded, so its files are known to be the published ones. A file that is already in the folder with
    the same content is not written again.

    Args:
        data: The data set, which was loaded from another folder.
        folder: The folder; it is made if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in (data.train_file, data.test_file):
        target = folder / file.spec.names[0]
        is_installed = target.is_file() and file_digest(target) == file.sha256
        if is_installed:
            continue
        check_outputs([target], [file.path])  # the copy must not overwrite the source
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
    hub = None
    if from_dir is None:
        hub = _require_hub()
    elif not Path(from_dir).is_dir():
        raise DataMissingError(f"there is no folder {from_dir}; name the folder with the published files")
    folder = default_folder(home)
    installed: list[str] = []
    skipped: list[Skipped] = []
    for name in wanted(datasets):
        card = task_card(name)
        try:
            if from_dir is None:
                _fetch(hub, card, folder, announce)
            else:
                _copy(load(card.name, from_dir, announce=announce), folder)
        except DataError as error:
            skipped.append(Skipped(dataset=card.name, reason=str(error), instructions=card.instructions()))
            _log.warning("%s is not installed: %s", card.title, error)
            continue
        except OSError as error:
            raise DataMissingError(f"{card.title} cannot be installed in {folder}: {error}") from error
        installed.append(card.name)
    if not installed:
        source = from_dir or "the hub"
        if len(skipped) == 1:
            raise DataMissingError(
                f"nothing could be installed from {source}: {skipped[0].dataset}: {skipped[0].reason}"
            )
        names = ", ".join(data.dataset for data in skipped)
        raise DataMissingError(f"nothing could be installed from {source}: {names}. The warnings say why for each")
    return Installed(folder=folder, datasets=tuple(installed), skipped=tuple(skipped))


# -- the hub

REVISION = "refs/convert/parquet"
"""The revision of the hub's own Parquet conversion."""
EXTRA = "hub"
"""The extra of this package that the hub needs."""
FEATURE = "fetching LongICL data from the hub"
"""What needs this extra, for messages."""


def _require_hub() -> Any:
    """Return the module ``huggingface_hub``.

    Raises:
        DataMissingError: ``STAICC_OFFLINE`` forbids downloads.
        MissingDependencyError: The extra ``hub`` is not installed.
    """
    is_offline = os.environ.get(OFFLINE, "") not in ("", "0")
    if is_offline:
        raise DataMissingError(f"{OFFLINE} forbids fetching from the hub; install the files from a folder instead")
    hub = require("huggingface_hub", EXTRA, FEATURE)
    require("pyarrow.parquet", EXTRA, FEATURE)
    return hub


def _cells(card: TaskCard, columns: Columns, record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the cells of a line of the published file, from a record of the hub.

    Args:
        card: Card of the data set.
        columns: The format of the published file.
        record: The values of a row by column of the hub.

    Raises:
        DataDamagedError: The record lacks a column, has no label of the data set, or has a tab or a line end in a text,
            which a file without quotation marks cannot have.
    """
    assert card.hub is not None
    has_quotation_marks = columns.quoting != csv.QUOTE_NONE
    for column in card.hub.columns:
        cell = record.get(column)
        if column == card.hub.label:
            cell = _label_cell(card, columns, cell)
        if not isinstance(cell, str):
            raise DataDamagedError(f"the hub's {card.title} has no text {column!r} in a row; it has {sorted(record)}")
        needs_quotation_marks = any(character in cell for character in "\t\n\r")
        if needs_quotation_marks and not has_quotation_marks:
            raise DataDamagedError(f"a sentence of the hub's {card.title} holds a tab or a line end: {cell!r}")
        yield cell


def _label_cell(card: TaskCard, columns: Columns, value: Any) -> str:
    """Return the label cell of a line of the published file: a label name, or indexes with commas between them.

    Args:
        card: Card of the data set.
        columns: The format of the published file.
        value: The label of the hub: an index, or a list of indexes.

    Raises:
        DataDamagedError: The value is no index of a label.
    """
    may_have_several_labels = columns.labels == "indices"
    label_indexes: list[int] = [value]
    if may_have_several_labels and isinstance(value, list):
        label_indexes = value
    are_valid = all(_is_index(index, len(card.labels)) for index in label_indexes)
    if not label_indexes or not are_valid:
        expected = f"expected 0 to {len(card.labels) - 1}"
        raise DataDamagedError(f"the hub's {card.title} has the label {value!r}, {expected}")
    if may_have_several_labels:
        return ",".join(str(index) for index in label_indexes)
    return card.labels[label_indexes[0]]


def _is_index(value: object, label_count: int) -> bool:
    """Return whether a value of the hub is an index into the labels. ``True`` is none, although it equals 1."""
    return type(value) is int and 0 <= value < label_count


def _records(hub: Any, card: TaskCard, split: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a split, file by file.

    Args:
        hub: The module ``huggingface_hub``.
        card: Card of the data set.
        split: The split of the hub.

    Raises:
        DataMissingError: The hub has no such files, or they cannot be read. The errors of ``huggingface_hub`` and
            ``pyarrow`` have many types, so any error of these becomes this one.
        DataDamagedError: The hub has other labels.
    """
    assert card.hub is not None
    repository = card.hub.repository
    parquet = require("pyarrow.parquet", EXTRA, FEATURE)
    try:
        for name in _parquet_files(hub, repository, f"{card.hub.config}/{split}/"):
            path = hub.hf_hub_download(repository, name, repo_type="dataset", revision=REVISION)
            with parquet.ParquetFile(path) as file:
                labels = _labels_in_schema(file.schema_arrow.metadata, card.hub.label)
                has_other_labels = labels is not None and labels != list(card.labels)
                if has_other_labels:
                    raise DataDamagedError(
                        f"{repository}, {name}: its labels are {labels}, which are not those of the benchmark. "
                        f"{card.obtain}"
                    )
                for batch in file.iter_batches():
                    yield from batch.to_pylist()
    except DataError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise DataMissingError(f"{card.title}: the hub ({repository}) cannot be read: {cause}") from error


def _parquet_files(hub: Any, repository: str, folder: str) -> list[str]:
    """Return the names of the Parquet files of a folder of a repository, in alphabetical order.

    Args:
        hub: The module ``huggingface_hub``.
        repository: The repository of the data set.
        folder: The folder, with a slash at the end.

    Raises:
        DataMissingError: The folder has none.
    """
    all_files = sorted(hub.HfApi().list_repo_files(repository, repo_type="dataset", revision=REVISION))
    parquet_files = [name for name in all_files if name.startswith(folder) and name.endswith(".parquet")]
    if not parquet_files:
        first_files = ", ".join(all_files[:20]) or "nothing"
        raise DataMissingError(f"{repository} has no {folder}*.parquet on the hub ({REVISION}); it has {first_files}")
    return parquet_files


def _labels_in_schema(metadata: Mapping[bytes, bytes] | None, column: str) -> list[str] | None:
    """Return the label names that a Parquet file of the hub states for a column; ``None`` if it states none.

    The hub writes the type of each column ("feature") as JSON into the metadata of the file.

    Args:
        metadata: The metadata of the file.
        column: The name of the column.
    """
    if metadata is None:
        return None
    description = json.loads(metadata.get(b"huggingface", b"{}"))
    column_type = description.get("info", {}).get("features", {}).get(column, {})
    is_list = "feature" in column_type
    if is_list:
        column_type = column_type["feature"]  # the type of the elements
    names: list[str] | None = column_type.get("names")
    return names


def _fetch(hub: Any, card: TaskCard, folder: Path, announce: Announce) -> None:
    """Download a data set from the hub, write it in the published format, check it, and install it.

    Args:
        hub: The module ``huggingface_hub``.
        card: Card of the data set.
        folder: The folder in which it is installed.
        announce: Called with the licence notice before the download.

    Raises:
        DataError: The hub has no such data set, or another one.
    """
    if card.hub is None:
        raise DataMissingError(f"{card.title} is not fetched from the hub")
    announce(card.notice())
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder_in(folder) as temporary_folder:
        for split, spec in card.files.items():
            columns = COLUMNS[spec.format]
            records = _records(hub, card, spec.split or split)
            with open(temporary_folder / spec.names[0], "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, **columns.dialect)
                if columns.header:
                    writer.writerow(columns.names)
                for record in records:
                    writer.writerow(_cells(card, columns, record))
        _copy(load(card.name, temporary_folder, announce=_show_no_notice), folder)
