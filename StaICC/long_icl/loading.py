"""Published data sets as a run reads them, checked against the published digests.

If the published SHA-256 is known, the file must have it, or the rows as read must have the published
digest (SHA-256 of the list of rows as ASCII JSON without blanks), which does not depend on the serialisation. If only
the number of rows is known (TACRED, Discovery), a different number is reported by a warning.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from StaICC.arguments import validate_integer
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError
from StaICC.files.output import file_digest
from StaICC.long_icl.cards import ROUNDS, FileSpec, TaskCard, task_card
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.readers import READERS, FileRow
from StaICC.long_icl.selection import by_balance, by_pairs, covering, permutation, selected
from StaICC.prompting.demonstrations import turns_of
from StaICC.safe_text import logger, visible

_log = logger(__name__)
Announce = Callable[[str], object]
"""Called with the licence notice of a data set before its files are opened."""

MOST_TURNS = 1000
"""Rows of a label that are kept in memory; the published rules select at most 870, and experiments may select more."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was read, and whether it is the published one."""

    path: Path
    spec: FileSpec
    sha256: str
    verified: bool
    """The digest of the file or of its rows is the published one."""

    @property
    def identity(self) -> str:
        """A digest of the rows: of the published rows if verified, else of the file."""
        if self.verified:
            return self.spec.rows_sha256 or self.spec.sha256[0]
        return self.sha256


@dataclass(frozen=True, slots=True)
class Skipped:
    """A requested data set without files."""

    dataset: str
    reason: str
    instructions: str

    def __str__(self) -> str:
        return visible(f"{self.reason}. {self.instructions}")


@dataclass(frozen=True, slots=True)
class LongICLData:
    """The rows of a data set that demonstrations and test items can use, in file order."""

    card: TaskCard
    train: tuple[FileRow, ...]
    test: tuple[FileRow, ...]
    train_file: LoadedFile
    test_file: LoadedFile
    dataset: Dataset | None = None
    """The user's own data set that the rows come from; None for the published ones."""

    @property
    def verified(self) -> bool:
        """Whether both files are the published ones."""
        return self.train_file.verified and self.test_file.verified

    def demonstration_rows(self, number: int) -> list[Item]:
        """Return the selected demonstrations of a round (DialogRE: one item per pair, before merging).

        Args:
            number: The round, 1 to 5.

        Raises:
            ArgumentError: The round is not 1 to 5, the task has no rounds, or a label of the user's own data set has
                too few rows.
        """
        number, rule = validate_integer("round", number, 1, ROUNDS), self.card.demonstrations
        if not rule.expected:
            raise ArgumentError(f"{self.card.title} has no rounds. Use experiment='helmet' (--experiment helmet)")
        self.check_own_rows(number)
        if rule.rule == "covering":
            places = [*chain.from_iterable(self.turns(number))]
        else:
            places = selected(rule.rule, [row.label for row in self.train], number)
        return [self.train[place].item() for place in places]

    def turns(self, most: int | None = None) -> list[list[int]]:
        """Return the training rows in the published order; each turn shows every label once that has rows left."""
        if self.card.demonstrations.rule == "covering":
            return covering(map(_labels, self.train), self.card.labels, most)
        return turns_of(row.label for row in self.train)[:most]

    def check_own_rows(self, number: int) -> None:
        """Refuse a data set of the user's own if a label has fewer demonstrations than ``number``."""
        counts = Counter(row.label for row in self.train)
        few = sorted((label for label in self.card.labels if counts[label] < number), key=counts.__getitem__)
        if few and self.dataset is not None:
            got = f"{len(few)} of {len(self.card.labels)} labels have fewer than {number} demonstrations"
            more = "add rows of these labels" if self.dataset.card.split.stratified else "leave out split="
            such = f"such as {few[0]!r} with {counts[few[0]]}. Choose lower rounds, or {more}"
            raise ArgumentError(f"{self.card.title}: {got}, {such}")

    def test_items(self, limit: int | None = 500) -> list[Item]:
        """Return the test items, the same for all rounds.

        Args:
            limit: Maximum number (DialogRE: of pairs, not dialogues); None for all that the rule selects.

        Raises:
            ArgumentError: ``limit`` is not a whole number of 1 or more, or nothing is selected.
        """
        if limit is not None:
            limit = validate_integer("limit", limit, 1)
        rule, size = self.card.test.rule, self.card.test.size or 0
        if rule == "pairs":
            every = [row.item() for row in self.test]
            chosen = [
                replace(every[place], gold=every[place].gold[:count], arguments=every[place].arguments[:count])
                for place, count in by_pairs([len(item.gold) for item in every], limit)
            ]
        else:
            labels, places = [row.label for row in self.test], [*range(len(self.test))]
            if rule == "balanced":
                places = by_balance(labels, limit)
            elif rule != "first":
                places = selected(rule, labels, size)
            chosen = [self.test[place].item() for place in places[:limit]]
        if not chosen:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return chosen


def _labels(row: FileRow) -> tuple[str, ...]:
    """Return all labels of a training row (a sentence with entities has several)."""
    if row.label is not None:
        return (row.label,)
    item = row.item()
    return item.gold if item.kind == "entities" else ()


def _load_file(path: Path, card: TaskCard, split: str, verify: bool) -> tuple[tuple[FileRow, ...], LoadedFile]:
    """Read a file, and keep the rows that the rule can select, so that the others need no memory.

    Labels that the benchmark leaves out are never selected; with turns, no label has more than :data:`MOST_TURNS` rows.
    """
    spec, rule = card.files[split], card.demonstrations if split == "train" else card.test
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    known = sha256 in spec.sha256
    digest, number, seen, rows = hashlib.sha256(b"["), 0, Counter[str | None](), []
    for number, row in enumerate(READERS[spec.format](path, card), 1):
        if spec.rows_sha256 is not None and not known:
            digest.update(b"," * (number > 1) + json.dumps(row.form, separators=(",", ":")).encode())
        seen[row.label] += 1
        if row.label not in card.other_labels and (
            rule.rule != "turns" or (row.label is not None and seen[row.label] <= MOST_TURNS)
        ):
            rows.append(row)
    digest.update(b"]")
    if not rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")
    file = LoadedFile(path, spec, sha256, known or digest.hexdigest() == spec.rows_sha256)
    if verify and spec.sha256 and not file.verified:
        raise DataDamagedError(
            f"{path}: not the published file of {card.title}: SHA-256 {sha256} ({number} rows), expected "
            f"{' or '.join(spec.sha256)} ({spec.rows} rows). {card.obtain} "
            "To use it as it is (the results will not be comparable), pass verify=False"
        )
    if verify and not file.verified and number != spec.rows:
        text = "%s: %s has %d rows, the published file %s; the results will not be comparable"
        _log.warning(text, card.title, path, number, spec.rows)
    return tuple(rows), file


def find(dataset: str, data_dir: str | Path) -> dict[str, Path]:
    """Return the path of each split of a data set that a folder has.

    Raises:
        UnknownNameError: The data set is unknown.
    """
    files = task_card(dataset).files.items()
    paths = [(split, Path(data_dir) / name) for split, spec in files for name in reversed(spec.names)]
    return {split: path for split, path in paths if path.is_file()}


def missing_files(own: TaskCard, data_dir: str | Path) -> Skipped | None:
    """Return what a folder lacks of a data set; ``None`` if it has all files."""
    paths = find(own.name, data_dir)
    names = [spec.names[0] for split, spec in own.files.items() if split not in paths]
    return Skipped(own.name, f"{' and '.join(names)} not found in {data_dir}", own.instructions()) if names else None


def show_notice(notice: str) -> None:
    """Log a licence notice; the default of ``announce``.

    It is a warning, because Python shows warnings without any logging setup.
    """
    _log.warning("%s", notice)


def load(dataset: str, data_dir: str | Path, *, verify: bool = True, announce: Announce = show_notice) -> LongICLData:
    """Load a data set.

    Args:
        dataset: Such as ``"banking77"``.
        data_dir: Folder with the files, under the names of the card.
        verify: Refuse files whose digest is not the published one.
        announce: Called with the licence notice before a file is opened; by default, the notice is logged.

    Raises:
        UnknownNameError: The data set is unknown.
        DataMissingError: A file is missing; the message says how to get it.
        DataDamagedError: A file is malformed (the message names file and line), or not the published one.
    """
    own = task_card(dataset)
    announce(own.notice())
    if (missing := missing_files(own, data_dir)) is not None:
        raise DataMissingError(f"{own.title}: {missing}")
    paths = find(dataset, data_dir)
    train, train_file = _load_file(paths["train"], own, "train", verify)
    if "test" in own.files:
        test, test_file = _load_file(paths["test"], own, "test", verify)
    else:
        if len(train) < 2:
            raise DataDamagedError(f"{train_file.path}: got 1 row, expected 2 or more: a tenth of them are test items")
        order, test_file = permutation(len(train)), train_file
        divided, cut = [train[place] for place in order], -(-len(order) // 10)
        test, train = tuple(divided[:cut]), tuple(divided[cut:])
    return LongICLData(own, train, test, train_file, test_file)
