"""Download data sets from the Hugging Face hub (extra ``hub``) and install them.

The hub has BANKING77, GoEmotions and Discovery. TACRED needs the user's own LDC copy, the licence of DialogRE must be
accepted at its source, and only the repository of LongICLBench has its selection of Few-NERD sentences.

This module reads the hub's own Parquet conversion (revision ``refs/convert/parquet``), so it runs no script of a
repository. It writes each split once, in the published file format, and compares its SHA-256 with the published one.
The hub guarantees neither order nor wording; other rows are refused. For Discovery no digest is known; its number of
rows is compared.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from StaICC.benchmarks.long_icl.data.cards import HubSource, TaskCard
from StaICC.benchmarks.long_icl.data.installing import Installed, default_folder, install_each
from StaICC.benchmarks.long_icl.data.loading import check_published, show_notice, wanted
from StaICC.datasets.fetch import OFFLINE
from StaICC.datasets.storage import passing_folder, write_beside
from StaICC.errors import DataDamagedError, DataMissingError, StaICCError
from StaICC.optional import require

REVISION = "refs/convert/parquet"
EXTRA = "hub"
FEATURE = "fetching LongICL data from the hub"
_FLUSH = 4096

Record = Mapping[str, Any]


def _label(card: TaskCard, value: object) -> str:
    """Return the name of a label index."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(card.labels):
        raise DataDamagedError(f"the hub's {card.title} has the label {value!r}, expected 0 to {len(card.labels) - 1}")
    return card.labels[value]


def _text(card: TaskCard, record: Record, column: str) -> str:
    value = record.get(column)
    if not isinstance(value, str):
        raise DataDamagedError(f"the hub's {card.title} has no text {column!r} in a row; it has {sorted(record)}")
    return value


def _banking(card: TaskCard, record: Record) -> Sequence[str]:
    return _text(card, record, "text"), _label(card, record.get("label"))


def _goemotions(card: TaskCard, record: Record) -> Sequence[str]:
    labels = record.get("labels")
    if not isinstance(labels, (list, tuple)) or not labels:
        raise DataDamagedError(f"the hub's {card.title} has a row without labels: {labels!r}")
    ids = ",".join(str(card.labels.index(_label(card, value))) for value in labels)
    return _text(card, record, "text"), ids, _text(card, record, "id")


def _discovery(card: TaskCard, record: Record) -> Sequence[str]:
    cells = (_text(card, record, "sentence1"), _text(card, record, "sentence2"), _label(card, record.get("label")))
    if any(character in cell for cell in cells for character in "\t\n\r"):
        raise DataDamagedError(f"a sentence of the hub's {card.title} holds a tab or a line end: {cells[:2]!r}")
    return cells


_CELLS: Mapping[str, Callable[[TaskCard, Record], Sequence[str]]] = {
    "banking77": _banking,
    "goemotions": _goemotions,
    "discovery": _discovery,
}
"""The cells of a line of the published file, from a record of the hub."""


def read_parquet(path: str | os.PathLike[str], label: str) -> tuple[list[str] | None, Iterator[Record]]:
    """Read a Parquet file of the hub.

    Args:
        path: The file.
        label: Name of the column with the label.

    Returns:
        The names of the label indices, ``None`` if the file has none, and its records in order.

    Raises:
        MissingDependencyError: ``pyarrow`` is not installed.
    """
    parquet = require("pyarrow.parquet", EXTRA, FEATURE)
    about = json.loads((parquet.read_schema(os.fspath(path)).metadata or {}).get(b"huggingface", b"{}"))
    column = about.get("info", {}).get("features", {}).get(label, {})
    names = column.get("feature", column).get("names")  # of one label, or of a list of labels

    def records() -> Iterator[Record]:
        with parquet.ParquetFile(os.fspath(path)) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()

    return names, records()


def _records(hub: Any, source: HubSource, card: TaskCard, split: str) -> Iterator[Record]:
    """Yield the records of a split, file by file; any error of another package becomes a ``DataMissingError``."""
    start = f"{source.config}/{split}/"
    try:
        listed = sorted(hub.HfApi().list_repo_files(source.repository, repo_type="dataset", revision=REVISION))
        chosen = [name for name in listed if name.startswith(start) and name.endswith(".parquet")]
        if not chosen:
            there = ", ".join(listed[:20]) or "nothing"
            raise DataMissingError(
                f"{source.repository} has no {start}*.parquet on the hub ({REVISION}); it has {there}"
            )
        for name in chosen:
            path = hub.hf_hub_download(source.repository, name, repo_type="dataset", revision=REVISION)
            labels, records = read_parquet(path, source.label)
            if labels is not None and labels != list(card.labels):
                raise DataDamagedError(
                    f"{source.repository}, {name}: its labels are {labels}, which are not those of the benchmark; get "
                    f"the published files instead. {card.obtain}"
                )
            yield from records
    except StaICCError:
        raise
    except Exception as error:
        raise DataMissingError(
            f"{card.title} could not be fetched from the hub ({source.repository}): {type(error).__name__}: {error}"
        ) from error


def _write_split(hub: Any, card: TaskCard, split: str, folder: Path) -> Path:
    """Write the records of a split as the published file, and refuse rows that are not the published ones."""
    source, spec = card.hub, card.files[split][0]
    assert source is not None
    dialect: Any = source.dialect
    digest, rows = hashlib.sha256(), 0

    def parts() -> Iterator[bytes]:
        nonlocal rows
        text = io.StringIO(newline="")
        writer = csv.writer(text, **dialect)
        if source.header:
            writer.writerow(source.header)
        for rows, record in enumerate(_records(hub, source, card, split), 1):
            writer.writerow(_CELLS[card.name](card, record))
            if rows % _FLUSH == 0:
                yield take(text)
        yield take(text)

    def take(text: io.StringIO) -> bytes:
        part = text.getvalue().encode()
        digest.update(part)
        text.seek(0)
        text.truncate()
        return part

    path = folder / spec.names[0]
    write_beside(path, parts())
    if not rows:
        raise DataDamagedError(f"the hub's {card.title} has no rows in its {split} split")
    check_published(path, spec, card, digest.hexdigest(), rows)
    return path


def install_from_hub(
    datasets: Iterable[str] | None = None,
    home: str | Path | None = None,
    *,
    announce: Callable[[str], object] = show_notice,
) -> Installed:
    """Download the data sets that the hub has, and install them.

    Args:
        datasets: Names; None for all six. Those that the hub does not have are reported as skipped.
        home: The library's data home (see :func:`~StaICC.benchmarks.long_icl.data.installing.default_folder`).
        announce: Called with the licence notice of each data set before its download.

    Returns:
        The installed data sets, and the skipped ones with reasons and instructions.

    Raises:
        DataMissingError: Nothing could be installed, ``STAICC_OFFLINE`` forbids downloads, or the files cannot be
            written.
        MissingDependencyError: The extra ``hub`` is not installed.
        UnknownNameError: There is no such data set.
    """
    chosen = wanted(datasets)
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise DataMissingError(f"{OFFLINE} forbids fetching from the hub; install the files from a folder instead")
    folder = default_folder(home)
    hub = require("huggingface_hub", EXTRA, FEATURE)
    require("pyarrow.parquet", EXTRA, FEATURE)

    def fetch(card: TaskCard) -> list[Path]:
        if card.hub is None:
            raise DataMissingError(f"{card.title} is not fetched from the hub")
        announce(card.notice())
        folder.mkdir(parents=True, exist_ok=True)
        with passing_folder(folder) as passing:
            written = [_write_split(hub, card, split, passing) for split in ("train", "test")]
            return [path.replace(folder / path.name) for path in written]

    return install_each(chosen, folder, fetch, "nothing could be fetched from the hub")
