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
from StaICC.long_icl.filler import irrelevant_text
from StaICC.long_icl.prompts import Item
from StaICC.long_icl.readers import READERS, FileRow
from StaICC.long_icl.selection import by_balance, by_pairs, covering, permutation, selected, turns_by_need
from StaICC.prompting.demonstrations import turns_of
from StaICC.safe_text import logger, visible

_log = logger(__name__)
Announce = Callable[[str], object]
"""Called with the licence notice of a data set before its files are opened."""

MOST_TURNS = 1000
"""Rows of a label of a published data set that are kept in memory. The published rules select at most 870, and
experiments may select more; Discovery has 9,000 rows of each label."""


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
    filler: Callable[[int], str] = irrelevant_text
    """Returns irrelevant text with a number of bytes, in the language of the data."""

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
        number = validate_integer("round", number, 1, ROUNDS)
        rule = self.card.demonstrations
        if not rule.expected:
            raise ArgumentError(f"{self.card.title} has no rounds. Use StaICC.HELMET (run helmet)")
        self.check_own_rows(number)
        if rule.rule in ("covering", "needed"):
            rows = list(chain.from_iterable(self.turns(number)))
        else:
            rows = selected(rule.rule, [row.label for row in self.train], number)
        return [self.train[row].item() for row in rows]

    def turns(self, most: int | None = None) -> list[list[int]]:
        """Return the training rows in the published order; each turn shows every label once that has rows left.

        Args:
            most: Number of turns; None for all.
        """
        rule = self.card.demonstrations.rule
        if rule == "covering":
            return covering(map(_labels_of, self.train), self.card.labels, most)
        if rule == "needed":
            return turns_by_need(map(_labels_of, self.train), most)
        return turns_of(row.label for row in self.train)[:most]

    def labels_of_row(self, row: int) -> tuple[str, ...]:
        """Return the labels of a training row."""
        return _labels_of(self.train[row])

    def demonstration_counts(self) -> dict[str, int]:
        """Return for each label the number of training rows that have it."""
        counts: Counter[str] = Counter()
        for row in self.train:
            counts.update(_labels_of(row))
        return {label: counts[label] for label in self.card.labels}

    def check_own_rows(self, number: int) -> None:
        """Refuse a data set of the user's own if a label has fewer demonstrations than a number.

        Raises:
            ArgumentError: A label has fewer. The message has the label with the fewest.
        """
        if self.dataset is None:
            return
        counts = self.demonstration_counts()
        labels_with_few = [label for label in self.card.labels if counts[label] < number]
        if not labels_with_few:
            return
        rarest = min(labels_with_few, key=lambda label: counts[label])
        count_of_rarest = counts[rarest]
        missing = "no demonstration" if number == 1 else f"fewer than {number} demonstrations"
        few_labels = "1 has" if len(labels_with_few) == 1 else f"{len(labels_with_few)} have"
        if count_of_rarest == 0:
            alternative = "Remove labels without demonstrations"
        else:
            alternative = f"Choose rounds up to {count_of_rarest}"
        remedy = self.remedy_for_few_rows
        if self.dataset.card.split.stratified:
            remedy = f"{remedy} of these labels (12 of each are enough for all rounds)"
        raise ArgumentError(
            f"{self.card.title}: of {len(self.card.labels)} labels, {few_labels} {missing}, such as {rarest!r} with "
            f"{count_of_rarest}. {alternative}, or {remedy}"
        )

    @property
    def remedy_for_few_rows(self) -> str:
        """What a user can do if own data has too few demonstrations, as the end of a message."""
        assert self.dataset is not None
        if self.dataset.card.split.stratified:
            return "add rows"
        return "leave out split=: then all rows that are not tested can be demonstrations"

    def test_items(self, limit: int | None = 500) -> list[Item]:
        """Return the test items, the same for all rounds.

        Args:
            limit: Maximum number (DialogRE: of pairs, not dialogues); None for all that the rule selects.

        Raises:
            ArgumentError: ``limit`` is not a whole number of 1 or more, or nothing is selected.
        """
        if limit is not None:
            limit = validate_integer("limit", limit, 1)
        if self.card.test.rule == "pairs":
            items = self._first_pairs(limit)
        else:
            items = [self.test[row].item() for row in self._test_rows(limit)]
        if not items:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return items

    def _test_rows(self, limit: int | None) -> list[int]:
        """Return the rows of the test items by the rule of the card."""
        rule = self.card.test
        labels = [row.label for row in self.test]
        if rule.rule == "balanced":
            return by_balance(labels, limit)
        if rule.rule == "first":
            return list(range(len(self.test)))[:limit]
        return selected(rule.rule, labels, rule.size or 0)[:limit]

    def _first_pairs(self, pair_number: int | None) -> list[Item]:
        """Return the first dialogues until they have a number of pairs; the last one may lose some of its pairs."""
        dialogues = [row.item() for row in self.test]
        items = []
        for row, pair_count in by_pairs([len(item.gold) for item in dialogues], pair_number):
            dialogue = dialogues[row]
            items.append(replace(dialogue, gold=dialogue.gold[:pair_count], arguments=dialogue.arguments[:pair_count]))
        return items


def _labels_of(row: FileRow) -> tuple[str, ...]:
    """Return all labels of a training row: a sentence with entities has several, and so may a text of a user."""
    if row.label is not None:
        return (row.label,)
    item = row.item()
    if item.kind in ("entities", "labels"):
        return item.gold
    return ()


def _load_file(path: Path, card: TaskCard, split: str, verify: bool) -> tuple[tuple[FileRow, ...], LoadedFile]:
    """Read a file, check its digest, and return the rows that the rule of the card can select.

    Args:
        path: The file.
        card: Card of the data set.
        split: ``train`` or ``test``.
        verify: Refuse a file whose digest is not the published one.

    Raises:
        DataMissingError: The file cannot be read.
        DataDamagedError: It is malformed, has no rows that can be used, or is not the published file.
    """
    spec = card.files[split]
    rule = card.demonstrations if split == "train" else card.test
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error

    is_published_file = sha256 in spec.sha256
    needs_rows_digest = spec.rows_sha256 is not None and not is_published_file
    rows_digest = hashlib.sha256(b"[")
    row_count = 0
    rows_of_label: Counter[str | None] = Counter()
    rows = []
    for row in READERS[spec.format](path, card):
        if needs_rows_digest:
            separator = b"," if row_count > 0 else b""
            rows_digest.update(separator + json.dumps(row.form, separators=(",", ":")).encode())
        row_count += 1
        rows_of_label[row.label] += 1
        if row.label in card.other_labels:
            continue  # the benchmark leaves these labels out
        # Rows that the rule cannot select need no memory.
        if rule.rule == "turns" and (row.label is None or rows_of_label[row.label] > MOST_TURNS):
            continue
        rows.append(row)
    rows_digest.update(b"]")
    if not rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")

    verified = is_published_file or rows_digest.hexdigest() == spec.rows_sha256
    file = LoadedFile(path, spec, sha256, verified)
    if verify and not verified:
        _refuse_or_warn(file, card, row_count)
    return tuple(rows), file


def _refuse_or_warn(file: LoadedFile, card: TaskCard, row_count: int) -> None:
    """Refuse a file that is not the published one; without a known digest, warn if its number of rows is another.

    Raises:
        DataDamagedError: The published digest is known.
    """
    spec = file.spec
    if spec.sha256:
        raise DataDamagedError(
            f"{file.path}: not the published file of {card.title}: SHA-256 {file.sha256} ({row_count} rows), expected "
            f"{' or '.join(spec.sha256)} ({spec.rows} rows). {card.obtain} "
            "To use it as it is (the results will not be comparable), pass verify=False"
        )
    if row_count != spec.rows:
        text = "%s: %s has %d rows, the published file %s; the results will not be comparable"
        _log.warning(text, card.title, file.path, row_count, spec.rows)


def find(dataset: str, data_dir: str | Path) -> dict[str, Path]:
    """Return the path of each split of a data set that a folder has.

    Raises:
        UnknownNameError: The data set is unknown.
    """
    paths = {}
    for split, spec in task_card(dataset).files.items():
        for name in spec.names:
            path = Path(data_dir) / name
            if path.is_file():
                paths[split] = path
                break
    return paths


def missing_files(card: TaskCard, data_dir: str | Path) -> Skipped | None:
    """Return what a folder lacks of a data set; ``None`` if it has all files."""
    paths = find(card.name, data_dir)
    missing_names = [spec.names[0] for split, spec in card.files.items() if split not in paths]
    if not missing_names:
        return None
    return Skipped(card.name, f"{' and '.join(missing_names)} not found in {data_dir}", card.instructions())


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
    card = task_card(dataset)
    announce(card.notice())
    missing = missing_files(card, data_dir)
    if missing is not None:
        raise DataMissingError(f"{card.title}: {missing}")
    paths = find(dataset, data_dir)
    train, train_file = _load_file(paths["train"], card, "train", verify)
    if "test" in card.files:
        test, test_file = _load_file(paths["test"], card, "test", verify)
    else:
        train, test = _divide_as_helmet(train, train_file)
        test_file = train_file
    return LongICLData(card, train, test, train_file, test_file)


def _divide_as_helmet(rows: tuple[FileRow, ...], file: LoadedFile) -> tuple[tuple[FileRow, ...], tuple[FileRow, ...]]:
    """Return the training and the test rows of a file without a split: a random tenth of the rows is the test set.

    Raises:
        DataDamagedError: The file has one row.
    """
    if len(rows) < 2:
        raise DataDamagedError(f"{file.path}: got 1 row, expected 2 or more: a tenth of them are test items")
    shuffled = [rows[position] for position in permutation(len(rows))]
    test_size = -(-len(rows) // 10)  # a tenth, rounded up
    return tuple(shuffled[test_size:]), tuple(shuffled[:test_size])
