"""Fetch data sets from the Hugging Face hub (extra ``hub``), and install them.

Three of the six can be had there: BANKING77, GoEmotions and Discovery. Of the others, TACRED is the user's own LDC
copy, DialogRE's licence must be accepted at its source, and which sentences of Few-NERD the benchmark took stands in
its own repository only.

The hub's own conversion to Parquet is read (revision ``refs/convert/parquet``), so that no script of a repository is
run. Its rows are written in the published file format and then installed like any other files: read through, and
compared with the digest of the published rows. The hub promises neither order nor wording; where they differ, the
digest refuses them. For Discovery no digest is known; there the number of rows is compared.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from StaICC.benchmarks.long_icl.cards import TaskCard
from StaICC.benchmarks.long_icl.installing import Installed, default_folder, install
from StaICC.benchmarks.long_icl.loading import Skipped, show_notice, wanted
from StaICC.datasets.fetch import OFFLINE
from StaICC.datasets.storage import passing_folder, write_beside
from StaICC.errors import DataDamagedError, DataError, DataMissingError, StaICCError
from StaICC.optional import require

__all__ = ["SOURCES", "HubClient", "HubSource", "install_from_hub", "read_parquet"]

_log = logging.getLogger(__name__)

REVISION = "refs/convert/parquet"
EXTRA = "hub"
FEATURE = "fetching LongICL data from the hub"
_FLUSH = 4096

Record = Mapping[str, Any]


class HubClient(Protocol):
    """What is needed of the hub."""

    def files(self, repository: str) -> Iterable[str]:
        """The names of a data set repository's converted files."""

    def fetch(self, repository: str, name: str) -> str | os.PathLike[str]:
        """Fetch one of them; where it lies on this machine."""


class _HuggingFace:
    """The hub by its own package, with the user's settings (mirror, token, cache)."""

    def __init__(self) -> None:
        self._hub = require("huggingface_hub", EXTRA, FEATURE)

    def files(self, repository: str) -> Iterable[str]:
        found: list[str] = self._hub.HfApi().list_repo_files(repository, repo_type="dataset", revision=REVISION)
        return found

    def fetch(self, repository: str, name: str) -> str:
        return str(self._hub.hf_hub_download(repository, name, repo_type="dataset", revision=REVISION))


@dataclass(frozen=True, slots=True)
class HubSource:
    """Where a data set stands on the hub, and how its records become lines of the published file."""

    repository: str
    config: str
    label: str
    """The column with the label (or labels)."""
    header: tuple[str, ...]
    """The first line's cells; empty if there is none."""
    dialect: Mapping[str, Any]
    """How the cells are written (arguments of :func:`csv.writer`)."""
    cells: Callable[[TaskCard, Record], Sequence[str]]


def _label(card: TaskCard, value: object) -> str:
    """The name of a label index."""
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


SOURCES: Mapping[str, HubSource] = {
    "banking77": HubSource(
        "PolyAI/banking77", "default", "label", ("text", "category"), {"lineterminator": "\r\n"}, _banking
    ),
    "goemotions": HubSource(
        "google-research-datasets/go_emotions",
        "simplified",
        "labels",
        (),
        {"delimiter": "\t", "lineterminator": "\n"},
        _goemotions,
    ),
    "discovery": HubSource(
        "sileod/discovery",
        "discovery",
        "label",
        ("sentence1", "sentence2", "label"),
        {"delimiter": "\t", "lineterminator": "\n", "quoting": csv.QUOTE_NONE, "quotechar": None},
        _discovery,
    ),
}
"""The data sets that can be fetched."""


def _class_names(features: Any) -> list[str] | None:
    """The names of label indices, wherever they stand in the description of a column."""
    if isinstance(features, Mapping):
        if isinstance(features.get("names"), list):
            return [str(name) for name in features["names"]]
        for value in features.values():
            found = _class_names(value)
            if found is not None:
                return found
    return None


def read_parquet(path: str | os.PathLike[str], label: str) -> tuple[list[str] | None, Iterator[Record]]:
    """Read a converted file.

    Args:
        path: The file.
        label: Name of the column with the label.

    Returns:
        The names of the label indices, if the file tells them, and its records in order.

    Raises:
        MissingDependencyError: ``pyarrow`` is not installed.
    """
    parquet = require("pyarrow.parquet", EXTRA, FEATURE)
    about = json.loads((parquet.read_schema(os.fspath(path)).metadata or {}).get(b"huggingface", b"{}"))
    names = _class_names(about.get("info", {}).get("features", {}).get(label))

    def records() -> Iterator[Record]:
        with parquet.ParquetFile(os.fspath(path)) as file:  # not before: where the names are wrong nobody reads on
            for batch in file.iter_batches():
                yield from batch.to_pylist()

    return names, records()


def _records(client: HubClient, source: HubSource, card: TaskCard, split: str) -> Iterator[Record]:
    """The records of a split, file by file."""
    start = f"{source.config}/{split}/"
    listed = sorted(client.files(source.repository))
    chosen = [name for name in listed if name.startswith(start) and name.endswith(".parquet")]
    if not chosen:
        there = ", ".join(listed[:20]) or "nothing"
        raise DataMissingError(f"{source.repository} has no {start}*.parquet on the hub ({REVISION}); it has {there}")
    for name in chosen:
        labels, records = read_parquet(client.fetch(source.repository, name), source.label)
        if labels is not None and labels != list(card.labels):
            raise DataDamagedError(
                f"{source.repository}, {name}: its labels are {labels}, which are not those of the benchmark; get the "
                f"published files instead. {card.obtain}"
            )
        yield from records


def _lines(source: HubSource, card: TaskCard, records: Iterable[Record]) -> Iterator[bytes]:
    """The published file, piece by piece."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, **source.dialect)
    if source.header:
        writer.writerow(source.header)
    for number, record in enumerate(records, 1):
        writer.writerow(source.cells(card, record))
        if number % _FLUSH == 0:
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
    yield text.getvalue().encode()


def _guarded(source: HubSource, card: TaskCard, records: Iterable[Record]) -> Iterator[Record]:
    """The records; what other people's packages raise, whatever it is, becomes an error of this library."""
    try:
        yield from records
    except StaICCError:
        raise
    except Exception as error:
        raise DataMissingError(
            f"{card.title} could not be fetched from the hub ({source.repository}): {type(error).__name__}: {error}"
        ) from error


def _fetch(client: HubClient, card: TaskCard, folder: Path) -> None:
    source = SOURCES[card.name]
    for split in ("train", "test"):
        records = _guarded(source, card, _records(client, source, card, split))
        write_beside(folder / card.files[split][0].names[0], _lines(source, card, records))


def install_from_hub(
    datasets: Iterable[str] | None = None,
    home: str | Path | None = None,
    *,
    client: HubClient | None = None,
    announce: Callable[[str], object] = show_notice,
) -> Installed:
    """Fetch what the hub has of the benchmark's data, and install it.

    Args:
        datasets: Names; None for all six (those that the hub does not have are reported as skipped).
        home: The library's data home (default: see :func:`~StaICC.benchmarks.long_icl.installing.default_folder`).
        client: The hub; None for the real one, by the package ``huggingface_hub``.
        announce: Gets each data set's licence notice before it is fetched.

    Returns:
        What was installed, and what was not, with the reason and instructions.

    Raises:
        DataMissingError: Nothing could be installed, fetching is forbidden by ``STAICC_OFFLINE``, or the files cannot
            be written.
        MissingDependencyError: The extra ``hub`` is not installed.
        UnknownNameError: There is no such data set.
    """
    chosen = wanted(datasets)
    if os.environ.get(OFFLINE, "") not in ("", "0"):
        raise DataMissingError(f"{OFFLINE} forbids fetching from the hub; install the files from a folder instead")
    folder = default_folder(home)
    fetched: list[str] = []
    skipped: list[Skipped] = []
    client = client or _HuggingFace()
    require("pyarrow.parquet", EXTRA, FEATURE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with passing_folder(folder) as passing:
            for card in chosen:
                try:
                    if card.name not in SOURCES:
                        raise DataMissingError(f"{card.title} is not fetched from the hub")
                    announce(card.notice())
                    _fetch(client, card, passing)
                    fetched.append(card.name)
                except DataError as error:
                    skipped.append(Skipped(card.name, str(error), card.instructions()))
                    _log.warning("%s is not installed: %s", card.title, error)
            if not fetched:
                reasons = "; ".join(f"{one.dataset}: {one.reason}" for one in skipped)
                raise DataMissingError(f"nothing could be fetched from the hub: {reasons}")
            done = install(passing, home, fetched, announce=lambda _: None)
    except OSError as error:
        raise DataMissingError(f"the files could not be kept in {folder}: {error}") from error
    return Installed(done.folder, done.datasets, done.files, (*skipped, *done.skipped))
