"""Published data sets as a run reads them, checked against the published digests.

A file is the published one if it has the published SHA-256, or if its rows have the published digest. The digest of the
rows (SHA-256 of the list of rows as ASCII JSON without blanks) does not depend on how the file writes them. If only the
number of rows is known (TACRED, Discovery), a different number is reported by a warning.
"""

from __future__ import annotations

import hashlib
import json
import math
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
"""Most rows of a label that are kept in memory, if the published rule selects rows by turns. The published rounds and
test sets need at most 870, and experiments may need more. Discovery has 9,000 rows of each label."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was read, and whether it is the published one."""

    path: Path
    spec: FileSpec
    """Names and digests of the published file."""
    sha256: str
    """The digest of this file."""
    verified: bool
    """Whether the digest of the file or of its rows is the published one."""

    @property
    def identity(self) -> str:
        """A digest of the rows: that of the published rows if verified, otherwise that of the file."""
        if self.verified:
            return self.spec.rows_sha256 or self.spec.sha256[0]
        return self.sha256


@dataclass(frozen=True, slots=True)
class Skipped:
    """A requested data set that a run or an installation left out."""

    dataset: str
    reason: str
    """Why it was left out: a file is missing, or is not the published one."""
    instructions: str
    """How to get the files."""

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
    """Returns irrelevant text with a given number of bytes, in the language of the data."""

    @property
    def verified(self) -> bool:
        """Whether both files are the published ones."""
        return self.train_file.verified and self.test_file.verified

    def demonstration_rows(self, number: int) -> list[Item]:
        """Return the demonstrations of a round, in prompt order.

        DialogRE has one item for each pair of entities here. The prompt writer merges those of a dialogue.

        Args:
            number: The round, 1 to 5.

        Raises:
            ArgumentError: The round is not 1 to 5, the task has no rounds, or a label of the user's own data set has
                too few rows.
        """
        number = validate_integer("round", number, 1, ROUNDS)
        rule = self.card.demonstrations
        has_rounds = len(rule.expected) > 0
        if not has_rounds:
            raise ArgumentError(f"{self.card.title} has no rounds. Use StaICC.HELMET (run helmet)")
        self.check_own_rows(demonstrations_per_label=number)

        rows_have_several_labels = rule.rule in ("covering", "needed")
        if rows_have_several_labels:
            rows = list(chain.from_iterable(self.turns(number)))
        else:
            rows = selected(rule.rule, [row.label for row in self.train], size=number)
        return [self.train[row].item() for row in rows]

    def turns(self, most: int | None = None) -> list[list[int]]:
        """Return the indexes of the training rows in turns. A turn shows every label that has unused rows.

        Args:
            most: Largest number of turns; None for all.
        """
        rule = self.card.demonstrations.rule
        # The labels of a row are read when they are needed: few turns need the first rows of the file only.
        labels_of_rows = (_labels_of(row) for row in self.train)
        if rule == "covering":
            return covering(labels_of_rows, wanted=self.card.labels, turns=most)
        if rule == "needed":
            return turns_by_need(labels_of_rows, turns=most)
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

    def check_own_rows(self, demonstrations_per_label: int) -> None:
        """Refuse a data set of the user's own that has too few demonstrations of a label.

        Args:
            demonstrations_per_label: The least number of demonstrations that each label must have.

        Raises:
            ArgumentError: A label has fewer. The message names the label with the fewest.
        """
        if self.dataset is None:
            return
        counts = self.demonstration_counts()
        labels_with_few = [label for label in self.card.labels if counts[label] < demonstrations_per_label]
        if not labels_with_few:
            return

        lack = f"fewer than {demonstrations_per_label} demonstrations"
        if demonstrations_per_label == 1:
            lack = "no demonstration"
        labels_and_verb = f"{len(labels_with_few)} have"
        if len(labels_with_few) == 1:
            labels_and_verb = "1 has"
        rarest = min(labels_with_few, key=lambda label: counts[label])
        first_remedy = f"Choose rounds up to {counts[rarest]}"
        if counts[rarest] == 0:
            first_remedy = "Remove labels without demonstrations"
        second_remedy = self.remedy_for_few_rows
        if self.dataset.card.split.stratified:
            second_remedy += " of these labels (12 of each are enough for all rounds)"
        raise ArgumentError(
            f"{self.card.title}: of {len(self.card.labels)} labels, {labels_and_verb} {lack}, such as {rarest!r} with "
            f"{counts[rarest]}. {first_remedy}, or {second_remedy}"
        )

    @property
    def remedy_for_few_rows(self) -> str:
        """What a user can do if a data set of their own has too few demonstrations, as the end of a message.

        The default split is stratified, and leaves all rows outside the test set to the demonstrations. So more rows
        are needed there. A split that the user names may leave rows unused.
        """
        assert self.dataset is not None
        if self.dataset.card.split.stratified:
            return "add rows"
        return "leave out split=: then all rows that are not tested can be demonstrations"

    def test_items(self, limit: int | None = 500) -> list[Item]:
        """Return the test items, the same for all rounds.

        Args:
            limit: Largest number of items (DialogRE: of pairs, not of dialogues); None for all that the rule selects.

        Raises:
            ArgumentError: ``limit`` is not a whole number of 1 or more, or nothing is selected.
        """
        if limit is not None:
            limit = validate_integer("limit", limit, 1)
        if self.card.test.rule == "pairs":
            items = self._dialogues_with_first_pairs(limit)
        else:
            items = [self.test[row].item() for row in self._test_rows(limit)]
        if not items:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return items

    def _test_rows(self, limit: int | None) -> list[int]:
        """Return the indexes of the test rows that the rule of the card selects, at most ``limit``."""
        rule = self.card.test
        labels = [row.label for row in self.test]
        if rule.rule == "balanced":
            return by_balance(labels, size=limit)
        if rule.rule == "first":
            return list(range(len(self.test)))[:limit]
        assert rule.size is not None
        return selected(rule.rule, labels, size=rule.size)[:limit]

    def _dialogues_with_first_pairs(self, pair_limit: int | None) -> list[Item]:
        """Return the first dialogues of DialogRE that together have a number of pairs of entities.

        The number is reached within a dialogue, in general. Its further pairs are left out.

        Args:
            pair_limit: Largest number of pairs; None for all.
        """
        dialogues = [row.item() for row in self.test]
        pair_counts = [len(dialogue.gold) for dialogue in dialogues]
        items = []
        for row, selected_count in by_pairs(pair_counts, size=pair_limit):
            dialogue = dialogues[row]
            first_relations = dialogue.gold[:selected_count]
            first_pairs = dialogue.arguments[:selected_count]
            items.append(replace(dialogue, gold=first_relations, arguments=first_pairs))
        return items


def _labels_of(row: FileRow) -> tuple[str, ...]:
    """Return the labels of a training row that the rules of selection count.

    They are, depending on the data set:

    - the one label of the row, which its reader states (most data sets);
    - the true labels of its item (sentences with entities; texts with several labels of users' data sets);
    - none (rows of GoEmotions with several labels, which the benchmark leaves out).
    """
    if row.label is not None:
        return (row.label,)
    item = row.item()
    counts_all_labels = item.kind in ("entities", "labels")
    if counts_all_labels:
        return item.gold
    return ()


class _RowsDigest:
    """The SHA-256 of rows as a JSON list without blanks, computed while the rows are read."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256(b"[")
        self._row_count = 0

    def add(self, row: FileRow) -> None:
        """Add the next row of the list."""
        if self._row_count > 0:
            self._sha256.update(b",")
        self._sha256.update(json.dumps(row.form, separators=(",", ":")).encode())
        self._row_count += 1

    def hexdigest(self) -> str:
        """Return the digest of the list of the rows that were added."""
        sha256 = self._sha256.copy()
        sha256.update(b"]")
        return sha256.hexdigest()


def _load_file(path: Path, card: TaskCard, split: str, verify: bool) -> tuple[tuple[FileRow, ...], LoadedFile]:
    """Read a file, and check whether it is the published one.

    Args:
        path: The file.
        card: Card of the data set.
        split: ``train`` or ``test``.
        verify: Refuse a file that is not the published one. If the published digest is not known, the number of rows is
            compared, and another one is a warning.

    Returns:
        The rows that the rule of the card can select, and the record of the file.

    Raises:
        DataMissingError: The file cannot be read.
        DataDamagedError: It is malformed, has no rows that can be used, or is not the published file.
    """
    spec = card.files[split]
    if split == "train":
        rule = card.demonstrations.rule
    else:
        rule = card.test.rule
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error

    is_published_file = sha256 in spec.sha256
    needs_rows_digest = not is_published_file and spec.rows_sha256 is not None
    rows_digest = _RowsDigest()
    row_count = 0
    rows_of_label: Counter[str | None] = Counter()
    selectable_rows = []
    for row in READERS[spec.format](path, card):
        row_count += 1
        rows_of_label[row.label] += 1
        if needs_rows_digest:
            rows_digest.add(row)
        if row.label in card.other_labels:
            continue  # the benchmark leaves these labels out
        if rule == "turns" and not _has_turn(row, rows_of_label[row.label]):
            continue
        selectable_rows.append(row)
    if not selectable_rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")

    verified = is_published_file
    if needs_rows_digest:
        verified = rows_digest.hexdigest() == spec.rows_sha256
    file = LoadedFile(path=path, spec=spec, sha256=sha256, verified=verified)
    if verify and not verified:
        _refuse_known_difference(file, card, row_count)
        _warn_of_row_count(file, card, row_count)
    return tuple(selectable_rows), file


def _has_turn(row: FileRow, number_in_label: int) -> bool:
    """Return whether the rule of turns can select a row. Other rows need no memory.

    Args:
        row: The row.
        number_in_label: Its number among the rows of its label, from 1.
    """
    return row.label is not None and number_in_label <= MOST_TURNS


def _refuse_known_difference(file: LoadedFile, card: TaskCard, row_count: int) -> None:
    """Refuse a file that is not the published one, if the digest of the published one is known.

    Args:
        file: The file, which is not verified: neither it nor its rows have a published digest.
        card: Card of the data set.
        row_count: Number of rows of the file, for the message.

    Raises:
        DataDamagedError: The published digest is known.
    """
    published = file.spec
    if not published.sha256:
        return
    raise DataDamagedError(
        f"{file.path}: not the published file of {card.title}: SHA-256 {file.sha256} ({row_count} rows), expected "
        f"{' or '.join(published.sha256)} ({published.rows} rows). {card.obtain} "
        "To use it as it is (the results will not be comparable), pass verify=False"
    )


def _warn_of_row_count(file: LoadedFile, card: TaskCard, row_count: int) -> None:
    """Log a warning if a file has another number of rows than the published one.

    This is the only check of data sets for which no digest of the published file is known.

    Args:
        file: The file.
        card: Card of the data set.
        row_count: Number of rows of the file.
    """
    published = file.spec
    if row_count == published.rows:
        return
    _log.warning(
        "%s: %s has %d rows, the published file %s; the results will not be comparable",
        card.title,
        file.path,
        row_count,
        published.rows,
    )


def find(dataset: str, data_dir: str | Path) -> dict[str, Path]:
    """Return the files of a data set that a folder has: the path of each split.

    Args:
        dataset: The name of the data set.
        data_dir: The folder. A file may have any of the names of the card.

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
    """Return which files of a data set a folder lacks; ``None`` if it has all."""
    paths = find(card.name, data_dir)
    missing_names = []
    for split, spec in card.files.items():
        if split not in paths:
            missing_names.append(spec.names[0])
    if not missing_names:
        return None
    reason = f"{' and '.join(missing_names)} not found in {data_dir}"
    return Skipped(dataset=card.name, reason=reason, instructions=card.instructions())


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
    has_test_file = "test" in card.files
    if has_test_file:
        test, test_file = _load_file(paths["test"], card, "test", verify)
    else:
        train, test = _divide_as_helmet(train, train_file)
        test_file = train_file
    return LongICLData(card=card, train=train, test=test, train_file=train_file, test_file=test_file)


def _divide_as_helmet(rows: tuple[FileRow, ...], file: LoadedFile) -> tuple[tuple[FileRow, ...], tuple[FileRow, ...]]:
    """Divide the rows of a file without a split. As in HELMET, a random tenth of the rows is the test set.

    Args:
        rows: The rows of the file.
        file: The record of the file, for messages.

    Returns:
        The training rows and the test rows.

    Raises:
        DataDamagedError: The file has one row.
    """
    if len(rows) < 2:
        raise DataDamagedError(f"{file.path}: got 1 row, expected 2 or more: a tenth of them are test items")
    shuffled = [rows[position] for position in permutation(len(rows))]
    test_size = math.ceil(len(rows) / 10)
    return tuple(shuffled[test_size:]), tuple(shuffled[:test_size])
