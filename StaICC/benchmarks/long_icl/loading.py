"""From a folder of published files to the rows that the benchmark needs.

:func:`load` reads one data set, :func:`load_available` those that are there; what is missing is reported with
instructions, never left out silently. Files are looked for under the names of the card. They are checked:

* rows by the readers (columns, types, labels), with file and line;
* the file's SHA-256 where the published one is known; failing that, the digest of the rows as read (SHA-256 of the
  list of rows as ASCII JSON without blanks), which does not depend on how the file is written; if neither fits, the
  file is refused;
* the number of rows where nothing but that is known (TACRED, Discovery): a different number is reported by a warning.

A file of made-up rows (``*_shape_*``) is taken only from under its own name, and is marked as such.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from StaICC.benchmarks.long_icl import selection
from StaICC.benchmarks.long_icl.cards import ROUNDS, FileSpec, TaskCard, card, cards
from StaICC.benchmarks.long_icl.items import DialogueItem, EntityItem, Item
from StaICC.benchmarks.long_icl.prompting import merge_dialogues
from StaICC.benchmarks.long_icl.readers import READERS, Row
from StaICC.datasets.storage import file_digest
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError

__all__ = ["DataSet", "LoadedFile", "Skipped", "find", "load", "load_available", "read_file", "show_notice", "wanted"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """What was read, and how far it is known to be the published file."""

    path: Path
    spec: FileSpec
    sha256: str
    rows: int
    verified: bool
    """The file's or the rows' digest is the published one."""
    made_up: bool
    """Invented rows of the right shape: good for tests, not for results."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A data set that was asked for and is not there."""

    dataset: str
    reason: str
    instructions: str


@dataclass(frozen=True, slots=True)
class DataSet:
    """The rows of one data set that rounds and tests can need, in file order."""

    card: TaskCard
    train: tuple[Row, ...]
    test: tuple[Row, ...]
    train_file: LoadedFile
    test_file: LoadedFile

    @property
    def made_up(self) -> bool:
        """At least one of the two files is made up."""
        return self.train_file.made_up or self.test_file.made_up

    def demonstration_rows(self, number: int, *, strict: bool = False) -> list[Item]:
        """The demonstrations of a round as they were chosen (DialogRE: pair by pair, before they are merged).

        Args:
            number: The round, 1 to 5.
            strict: See :mod:`~StaICC.benchmarks.long_icl.selection`.

        Raises:
            ArgumentError: There is no such round.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= ROUNDS:
            raise ArgumentError(f"round must be a whole number from 1 to {ROUNDS}, not {number!r}")
        rule = self.card.demonstrations.rule
        if rule == "turns":
            places = selection.by_turns([row.label for row in self.train], number, strict=strict)
        elif rule == "passes":
            places = [*chain.from_iterable(selection.by_passes([row.label for row in self.train], number))]
        else:
            places = [*chain.from_iterable(selection.covering(map(_labels, self.train), self.card.labels, number))]
        expected = self.card.demonstrations.expected[number - 1]
        if len(places) != expected:
            _log.warning(
                "%s, round %d: %d demonstrations instead of %d; %s is not the published training file",
                self.card.title,
                number,
                len(places),
                expected,
                self.train_file.path,
            )
        return [self.train[place].item() for place in places]

    def shown(self, chosen: Sequence[Item]) -> list[Item]:
        """Chosen demonstrations as they are shown (DialogRE: merged by dialogue)."""
        if self.card.kind != DialogueItem.kind:
            return list(chosen)
        return list(merge_dialogues(item for item in chosen if isinstance(item, DialogueItem)))

    def demonstrations(self, number: int, *, strict: bool = False) -> list[Item]:
        """The demonstrations of a round as they are shown, in order."""
        return self.shown(self.demonstration_rows(number, strict=strict))

    def test_items(self, test_number: int | None = 500, *, strict: bool = False) -> list[Item]:
        """The test items, the same for all rounds.

        Args:
            test_number: How many at most (DialogRE: pairs, not dialogues); None for all that the rule selects.
            strict: See :mod:`~StaICC.benchmarks.long_icl.selection`.

        Raises:
            ArgumentError: ``test_number`` is not a whole number of 1 or more, or nothing is selected.
        """
        if test_number is not None and (
            isinstance(test_number, bool) or not isinstance(test_number, int) or test_number < 1
        ):
            raise ArgumentError(f"test_number must be None or a whole number, 1 or more, not {test_number!r}")
        rule, size = self.card.test.rule, self.card.test.size or 0
        labels = [row.label for row in self.test]
        if rule == "pairs":
            rows = self.test if strict else self.test[:test_number]
            chosen = self._pairs(rows, test_number)
        elif rule == "turns":
            chosen = [self.test[i].item() for i in selection.by_turns(labels, size, strict=strict)[:test_number]]
        elif rule == "at_most":
            places = selection.at_most(labels, self.card.labels, size)
            chosen = [self.test[i].item() for i in places[:test_number]]
        else:
            chosen = [row.item() for row in self.test[:test_number]]
        if not chosen:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return chosen

    def _pairs(self, rows: Iterable[Row], size: int | None) -> list[Item]:
        items = [item for item in (row.item() for row in rows) if isinstance(item, DialogueItem)]
        return [
            DialogueItem(items[place].row, items[place].dialogue, items[place].relations[:count])
            for place, count in selection.by_pairs([len(item.relations) for item in items], size)
        ]


def _labels(row: Row) -> tuple[str, ...]:
    """All labels of a training row (a sentence with entities has several)."""
    if row.label is not None:
        return (row.label,)
    item = row.item()
    return item.gold if isinstance(item, EntityItem) else ()


def _pool(rows: Iterable[Row], card: TaskCard, per_label: int | None) -> Iterator[Row]:
    """The rows that a rule can come to, so that the millions of others need no memory.

    Labels that the benchmark leaves out are never chosen; with turns, no label can give more rows than there are
    places.
    """
    seen: Counter[str | None] = Counter()
    for row in rows:
        seen[row.label] += 1
        if row.label in card.other_labels:
            continue
        if per_label is None or (row.label is not None and seen[row.label] <= per_label):
            yield row


def read_file(path: Path, spec: FileSpec, card: TaskCard) -> Iterator[Row]:
    """The rows of a file, in file order, each of them checked.

    Raises:
        DataDamagedError: The file is malformed; the message names file and line.
        DataMissingError: There is no such file.
    """
    return READERS[spec.format](path, card)


def _load_file(
    path: Path, spec: FileSpec, card: TaskCard, verify: bool, per_label: int | None
) -> tuple[tuple[Row, ...], LoadedFile]:
    made_up = path.name in spec.made_up
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    digest = hashlib.sha256()
    count = 0

    def counted() -> Iterator[Row]:
        nonlocal count
        for row in read_file(path, spec, card):
            if to_digest:
                digest.update((b"," if count else b"[") + json.dumps(row.form, separators=(",", ":")).encode())
            count += 1
            yield row

    known = sha256 in spec.sha256
    to_digest = spec.rows_sha256 is not None and not known
    rows = tuple(_pool(counted(), card, per_label))
    digest.update(b"]")
    if not rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")
    verified = known or digest.hexdigest() == spec.rows_sha256
    if verify and not verified and not made_up:
        _complain(path, spec, card, sha256, count)
    if made_up:
        _log.warning(
            "%s: %s holds made-up rows; they show that the code runs, not what a model can do", card.title, path
        )
    return rows, LoadedFile(path, spec, sha256, count, verified, made_up)


def _complain(path: Path, spec: FileSpec, card: TaskCard, sha256: str, count: int) -> None:
    """Refuse a file that is known to be another one; warn where only the count tells."""
    if spec.sha256:
        rows = f" It has {count} rows, the published one {spec.rows}." if count != spec.rows else ""
        raise DataDamagedError(
            f"{path}: not the published file of {card.title}: SHA-256 {sha256}, expected {' or '.join(spec.sha256)}"
            f"{', and its rows differ too' if spec.rows_sha256 else ''}.{rows} {card.obtain} To use it as it is (the "
            "results will not be comparable), pass verify=False"
        )
    if count != spec.rows:
        _log.warning(
            "%s: %s has %d rows%s; the results will not be comparable",
            card.title,
            path,
            count,
            f", the published file {spec.rows}" if spec.rows else " that the benchmark did not choose",
        )


def find(dataset: str, data_dir: str | Path, split: str) -> tuple[Path, FileSpec] | None:
    """Where a split lies in a folder, and in which form; None if it is not there.

    Raises:
        UnknownNameError: There is no such data set.
    """
    for spec in card(dataset).files[split]:
        for name in (*spec.names, *spec.made_up):
            if (Path(data_dir) / name).is_file():
                return Path(data_dir) / name, spec
    return None


def show_notice(notice: str) -> None:
    """Log a licence notice (what ``announce`` does where nothing else is asked for).

    As a warning, which is shown where nobody has set up logging: licences are to be seen.
    """
    _log.warning("%s", notice)


def wanted(datasets: Iterable[str] | None) -> list[TaskCard]:
    """The cards of the named data sets, in the order given; all six for None.

    Raises:
        UnknownNameError: There is no such data set.
        ArgumentError: No data set is named, or one of them twice.
    """
    if isinstance(datasets, str):
        raise ArgumentError(f"datasets must be a list of names, not the text {datasets!r}; write [{datasets!r}]")
    names = list(cards()) if datasets is None else list(datasets)
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"datasets must name at least one data set, and each once, not {names!r}")
    return [card(name) for name in names]


def load(
    dataset: str,
    data_dir: str | Path,
    *,
    verify: bool = True,
    announce: Callable[[str], object] = show_notice,
) -> DataSet:
    """Read a data set.

    Args:
        dataset: Such as ``"banking77"``.
        data_dir: Folder with the files, named as the card says.
        verify: Refuse files that are known not to be the published ones.
        announce: Gets the licence notice before a file is opened (by default it is logged).

    Raises:
        UnknownNameError: There is no such data set.
        DataMissingError: A file is not there; the message says how to get it.
        DataDamagedError: A file is malformed (the message names file and line), or not the published one.
    """
    own = card(dataset)
    parts = []
    announce(own.notice())
    for split in ("train", "test"):
        found = find(dataset, data_dir, split)
        if found is None:
            names = " or ".join(own.files[split][0].names)
            raise DataMissingError(f"{own.title}: there is no {names} in {data_dir}. {own.instructions()}")
        turns = ROUNDS if split == "train" else own.test.size
        rule = own.demonstrations.rule if split == "train" else own.test.rule
        limit = turns * len(own.labels) if rule == "turns" and turns else None
        parts.append(_load_file(*found, own, verify, limit))
    (train, train_file), (test, test_file) = parts
    return DataSet(own, train, test, train_file, test_file)


def load_available(
    data_dir: str | Path,
    datasets: Iterable[str] | None = None,
    *,
    verify: bool = True,
    announce: Callable[[str], object] = show_notice,
) -> tuple[tuple[DataSet, ...], tuple[Skipped, ...]]:
    """Read the data sets whose files are there, and say which are not.

    Args:
        data_dir: Folder with the files.
        datasets: Names; None for all six.
        verify: See :func:`load`.
        announce: See :func:`load`.

    Returns:
        The data sets, in the order asked for, and a record for each that is missing (also logged as a warning).

    Raises:
        UnknownNameError: There is no such data set.
        ArgumentError: No data set is named, or one of them twice.
        DataDamagedError: A file is there, but cannot be used.
    """
    loaded, skipped = [], []
    for own in wanted(datasets):
        missing = [split for split in ("train", "test") if find(own.name, data_dir, split) is None]
        if not missing:
            loaded.append(load(own.name, data_dir, verify=verify, announce=announce))
            continue
        files = " and ".join(own.files[split][0].names[0] for split in missing)
        skipped.append(Skipped(own.name, f"{files} not found in {data_dir}", own.instructions()))
        _log.warning("%s is skipped: %s. %s", own.title, skipped[-1].reason, skipped[-1].instructions)
    return tuple(loaded), tuple(skipped)
