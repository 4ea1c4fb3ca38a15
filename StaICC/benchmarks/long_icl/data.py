"""Loads data sets: from a folder of published files, and from data sets of the user's own.

:func:`load` reads one published data set, :func:`load_available` all available ones; missing ones are reported with
instructions. The card has the file names. The checks are:

* The readers check each row (columns, types, labels); errors name the file, and the line or record.
* If the published SHA-256 is known, the file must have it, or the rows as read must have the published digest (SHA-256
  of the list of rows as ASCII JSON without blanks), which does not depend on the serialisation.
* If only the number of rows is known (TACRED, Discovery), a different number is reported by a warning.

Synthetic rows (``*_shape_*``) are read only from files with these names, and are marked in the result.

A data set of the user's own has 20 or more labels. Its demonstration set and its test set are those of its split. From
both, rows are selected by the published rule of turns. The prompt template is that of the data set; parts that have the
library's default (no instruction, a blank after the text) are written as in the published prompts: an instruction, a
line break after the text.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from StaICC.benchmarks.long_icl.files import READERS, FileRow
from StaICC.benchmarks.long_icl.prompts import (
    Item,
    at_most,
    by_pairs,
    by_passes,
    by_turns,
    covering,
    merge_dialogues,
    text_item,
)
from StaICC.benchmarks.long_icl.task_cards import (
    ROUNDS,
    AnswerFormat,
    DemonstrationRule,
    FileSpec,
    PromptTemplate,
    ScoringRule,
    TaskCard,
    TestRule,
    card,
    cards,
)
from StaICC.datasets import Dataset, Template
from StaICC.datasets.storage import file_digest
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, validate_integer
from StaICC.prompting import SubsetView, split_dataset
from StaICC.safe_text import logger

_log = logger(__name__)

MOST_TURNS = 1000
"""Rows of a label that are kept in memory: experiments have more than five rounds."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that was read, and whether it is the published one."""

    path: Path
    spec: FileSpec
    sha256: str
    rows: int
    verified: bool
    """The digest of the file or of its rows is the published one."""
    made_up: bool
    """The rows are synthetic, for tests only."""

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
    def made_up(self) -> bool:
        """Whether at least one of the two files has synthetic rows."""
        return self.train_file.made_up or self.test_file.made_up

    def demonstration_rows(self, number: int, *, strict: bool = False) -> list[Item]:
        """Return the selected demonstrations of a round (DialogRE: one item per pair, before merging).

        Args:
            number: The round, 1 to 5.
            strict: See :mod:`~StaICC.benchmarks.long_icl.prompts`.

        Raises:
            ArgumentError: The round is not 1 to 5, or a label of the user's own data set has too few rows.
        """
        number = validate_integer("round", number, 1, ROUNDS)
        rule = self.card.demonstrations.rule
        if self.dataset is not None:
            self._check_own_rows(number)
        if rule == "turns":
            places = by_turns([row.label for row in self.train], number, strict=strict)
        elif rule == "passes":
            places = [*chain.from_iterable(by_passes([row.label for row in self.train], number))]
        else:
            places = [*chain.from_iterable(covering(map(_labels, self.train), self.card.labels, number))]
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

    def _check_own_rows(self, number: int) -> None:
        counts = Counter(row.label for row in self.train)
        few = sorted((label for label in self.card.labels if counts[label] < number), key=counts.__getitem__)
        if few:
            least = counts[few[0]]
            raise ArgumentError(
                f"{self.card.title}, round {number}: {len(few)} of {len(self.card.labels)} labels have fewer than "
                f"{number} demonstrations, such as {few[0]!r} with {least}. Choose rounds up to {least}, add rows, or "
                "choose a larger demonstration set with split=SplitSizes(...)"
            )

    def shown(self, chosen: Sequence[Item]) -> list[Item]:
        """Return selected demonstrations as the prompt shows them (DialogRE: merged by dialogue)."""
        return merge_dialogues(chosen) if self.card.kind == "dialogue" else list(chosen)

    def demonstrations(self, number: int, *, strict: bool = False) -> list[Item]:
        """Return the demonstrations of a round as the prompt shows them, in order."""
        return self.shown(self.demonstration_rows(number, strict=strict))

    def test_items(self, test_number: int | None = 500, *, strict: bool = False) -> list[Item]:
        """Return the test items, the same for all rounds.

        Args:
            test_number: Maximum number (DialogRE: of pairs, not dialogues); None for all that the rule selects.
            strict: See :mod:`~StaICC.benchmarks.long_icl.prompts`.

        Raises:
            ArgumentError: ``test_number`` is not a whole number of 1 or more, or nothing is selected.
        """
        if test_number is not None:
            test_number = validate_integer("test_number", test_number, 1)
        rule, size = self.card.test.rule, self.card.test.size or 0
        labels = [row.label for row in self.test]
        if rule == "pairs":
            rows = self.test if strict else self.test[:test_number]
            chosen = self._pairs(rows, test_number)
        elif rule == "turns":
            chosen = [self.test[i].item() for i in by_turns(labels, size, strict=strict)[:test_number]]
        elif rule == "at_most":
            places = at_most(labels, self.card.labels, size)
            chosen = [self.test[i].item() for i in places[:test_number]]
        else:
            chosen = [row.item() for row in self.test[:test_number]]
        if not chosen:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return chosen

    def _pairs(self, rows: Iterable[FileRow], size: int | None) -> list[Item]:
        items = [row.item() for row in rows]
        return [
            replace(items[place], gold=items[place].gold[:count], arguments=items[place].arguments[:count])
            for place, count in by_pairs([len(item.gold) for item in items], size)
        ]


def _labels(row: FileRow) -> tuple[str, ...]:
    """Return all labels of a training row (a sentence with entities has several)."""
    if row.label is not None:
        return (row.label,)
    item = row.item()
    return item.gold if item.kind == "entities" else ()


def _pool(rows: Iterable[FileRow], card: TaskCard, per_label: int | None) -> Iterator[FileRow]:
    """Yield the rows that a rule can select, to keep the others out of memory.

    Labels that the benchmark leaves out are never chosen; with turns, no label can give more rows to a round than there
    are places.
    """
    seen: Counter[str | None] = Counter()
    for row in rows:
        seen[row.label] += 1
        if row.label in card.other_labels:
            continue
        if per_label is None or (row.label is not None and seen[row.label] <= per_label):
            yield row


def _load_file(
    path: Path, spec: FileSpec, card: TaskCard, verify: bool, per_label: int | None
) -> tuple[tuple[FileRow, ...], LoadedFile]:
    made_up = path.name in spec.made_up
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    digest = hashlib.sha256()
    count = 0

    def counted() -> Iterator[FileRow]:
        nonlocal count
        for row in READERS[spec.format](path, card):
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
        check_published(path, spec, card, sha256, count)
    if made_up:
        _log.warning(
            "%s: %s holds made-up rows; they show that the code runs, not what a model can do", card.title, path
        )
    return rows, LoadedFile(path, spec, sha256, count, verified, made_up)


def check_published(path: Path, spec: FileSpec, card: TaskCard, sha256: str, count: int) -> None:
    """Refuse a file whose SHA-256 is not a published one; without a published one, warn if the row count differs.

    Args:
        path: The file.
        spec: Its published digests and row count.
        card: Of the data set.
        sha256: Its digest.
        count: Its number of rows.

    Raises:
        DataDamagedError: It is not the published file.
    """
    if sha256 in spec.sha256:
        return
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
    """Return path and format of a split in a folder; None if it is missing.

    Raises:
        UnknownNameError: The data set is unknown.
    """
    for spec in card(dataset).files[split]:
        for name in (*spec.names, *spec.made_up):
            if (Path(data_dir) / name).is_file():
                return Path(data_dir) / name, spec
    return None


def show_notice(notice: str) -> None:
    """Log a licence notice; the default of ``announce``.

    It is a warning, because Python shows warnings without any logging setup.
    """
    _log.warning("%s", notice)


_Choice = TypeVar("_Choice", str, str | Dataset)


def wanted(datasets: Iterable[_Choice] | None) -> list[_Choice]:
    """Return the chosen data sets in order; the names of all six for None.

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The list is empty or has duplicates.
    """
    if isinstance(datasets, str):
        raise ArgumentError(f"datasets must be a list of names, not the text {datasets!r}; write [{datasets!r}]")
    chosen: list[Any] = list(cards() if datasets is None else datasets)
    names = [one.card.name if isinstance(one, Dataset) else one for one in chosen]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"datasets must have at least one data set, and each data set once, not {names!r}")
    for name in chosen:
        if not isinstance(name, Dataset):
            card(name)  # refuses an unknown name before any file is opened
    return chosen


def load(
    dataset: str,
    data_dir: str | Path,
    *,
    verify: bool = True,
    announce: Callable[[str], object] = show_notice,
) -> LongICLData:
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
        limit = max(turns * len(own.labels), MOST_TURNS) if rule == "turns" and turns else None
        parts.append(_load_file(*found, own, verify, limit))
    (train, train_file), (test, test_file) = parts
    return LongICLData(own, train, test, train_file, test_file)


def load_available(
    data_dir: str | Path,
    datasets: Iterable[str | Dataset] | Dataset | None = None,
    *,
    verify: bool = True,
    announce: Callable[[str], object] = show_notice,
) -> tuple[tuple[LongICLData, ...], tuple[Skipped, ...]]:
    """Load the available data sets, and list the missing ones.

    Args:
        data_dir: Folder with the files.
        datasets: Names, and data sets of the user's own; None for all six published ones.
        verify: See :func:`load`.
        announce: See :func:`load`.

    Returns:
        The data sets, in the requested order, and a record for each missing one (also logged as a warning).

    Raises:
        UnknownNameError: The data set is unknown.
        ArgumentError: The list is empty or has duplicates, or a data set of the user's own cannot be used.
        DataDamagedError: A file is damaged, or not the published one.
    """
    loaded, skipped = [], []
    for chosen in wanted([datasets] if isinstance(datasets, Dataset) else datasets):
        if isinstance(chosen, Dataset):
            loaded.append(load_own(chosen))
            continue
        own = card(chosen)
        missing = [split for split in ("train", "test") if find(own.name, data_dir, split) is None]
        if not missing:
            loaded.append(load(own.name, data_dir, verify=verify, announce=announce))
            continue
        files = " and ".join(own.files[split][0].names[0] for split in missing)
        skipped.append(Skipped(own.name, f"{files} not found in {data_dir}", own.instructions()))
        _log.warning("%s is skipped: %s. %s", own.title, skipped[-1].reason, skipped[-1].instructions)
    return tuple(loaded), tuple(skipped)


LEAST_LABELS = 20
"""Least number of labels of a LongICL task."""


def load_own(dataset: Dataset) -> LongICLData:
    """Return the rows of a data set as LongICL uses them.

    Args:
        dataset: The data set, such as ``Dataset.from_file("tickets.csv", "text", "label")``.

    Raises:
        ArgumentError: It has too few labels, a label without demonstrations, labels that responses cannot distinguish,
            the name of a published data set, or rows in both the demonstration set and the test set.
    """
    card, split = dataset.card, split_dataset(dataset)
    labels, where = card.label_space, f"{card.name} as a task of LongICL"
    if card.name.casefold() in cards():
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    if len(labels) < LEAST_LABELS:
        raise ArgumentError(
            f"{where}: got {len(labels)} labels, expected {LEAST_LABELS} or more. Use Normal (run normal) instead"
        )
    written, shown = _template(card.template, labels, where), split.demonstration
    counts = Counter(shown.label(place) for place in range(len(shown)))
    without = [label for place, label in enumerate(labels) if not counts[place]]
    if without:
        raise ArgumentError(
            f"{where}: {len(without)} of {len(labels)} labels have no row in the demonstration set of {len(shown)} "
            f"rows, such as {without[0]!r}. Add rows, or choose a larger demonstration set with split=SplitSizes(...)"
        )
    known = {shown.texts(place): shown.indexes[place] for place in range(len(shown))}
    twice = [place for place in range(len(split.test)) if split.test.texts(place) in known]
    if twice:
        texts, row = split.test.texts(twice[0]), split.test.indexes[twice[0]]
        raise ArgumentError(
            f"{where}: {len(twice)} of {len(split.test)} test rows have the text of a demonstration, such as row "
            f"{row}, which repeats row {known[texts]} (from 0): {' '.join(texts)!r:.60}. Remove duplicate rows"
        )
    most = max(Counter(split.test.label(place) for place in range(len(split.test))).values())
    task = TaskCard(
        name=card.name,
        title=card.title,
        task=card.task,
        kind="text",
        source=card.source,
        licence=card.licence,
        restricted=False,
        terms="",
        citation=card.citation,
        obtain="",
        offensive=card.offensive,
        labels=labels,
        other_labels=(),
        files={},
        demonstrations=DemonstrationRule("turns", tuple(len(labels) * number for number in range(1, ROUNDS + 1))),
        test=TestRule("turns", most),
        template=written,
        answers=_answers(card.template, labels, where),
        scoring=ScoringRule("accuracy", 0.0, None),
    )
    digest = dataset.table.digest
    file = LoadedFile(Path(card.name), FileSpec((), (), "own data", None, (), None), digest, card.rows, False, False)
    train, test = (_rows(part, card.template) for part in (shown, split.test))
    return LongICLData(task, train, test, file, file, dataset)


def _rows(part: SubsetView, template: Template) -> tuple[FileRow, ...]:
    # Parsers search for a text as the prompt has it, because it may be one letter or word.
    before, after = template.input_text_prefixes[0], _affixes(template)[-1]
    gaps = [a + b for a, b in zip(_affixes(template), template.input_text_prefixes[1:], strict=False)]
    found = []
    for place, number in enumerate(part.indexes):
        texts, label = part.texts(place), part.get_label(place)
        text = texts[0] + "".join(gap + more for gap, more in zip(gaps, texts[1:], strict=True))
        make = functools.partial(text_item, number, text, label, f"{before}{text}{after}")
        found.append(FileRow(label, None, make))
    return tuple(found)


def _affixes(template: Template) -> list[str]:
    return ["\n" if affix == " " else affix for affix in template.input_text_affixes]


def _word(prefix: str, default: str) -> str:
    return prefix.strip(" \n:") or default


def _template(template: Template, labels: Sequence[str], where: str) -> PromptTemplate:
    """Return the strings of the prompts (see the module)."""
    if template.query_prefix:
        raise ArgumentError(f"{where}: got the query prefix {template.query_prefix!r:.40}, expected a template without")
    texts = " and the ".join(_word(prefix, "text") for prefix in template.input_text_prefixes)
    head, examples = template.instruction, ""
    if not head:
        head = (
            f"Given the {texts}, please predict the {_word(template.label_prefix, 'label')}. The answer must come from "
            "the demonstration examples with the exact format."
        )
        examples = " The examples are as follows: \n"
    before, after = (
        one.replace("{", "{{").replace("}", "}}")
        for one in (template.input_text_prefixes[0], _affixes(template)[-1] + template.label_prefix)
    )
    affix = template.label_affix.replace("{", "{{").replace("}", "}}")
    choose = f"{head}{'' if head[-1].isspace() else ' '}You can only choose from these labels: "
    return PromptTemplate(
        head + examples, (choose, f".{examples or chr(10)}"), f"{before}{{text}}{after}", f"{{label}}{affix}"
    )


def _answers(template: Template, labels: Sequence[str], where: str) -> AnswerFormat:
    """Return how responses are parsed, and refuse labels that the parsers cannot find."""
    cue, marker = template.label_prefix.strip(), template.input_text_prefixes[0].strip()
    answers = AnswerFormat(cue, marker or None, lower=True, delete="")
    spelled: dict[str, str] = {}
    for label in labels:
        for text in ("\n", cue, marker):
            if text and text.casefold() in label.casefold():
                raise ArgumentError(
                    f"{where}: the label {label!r} contains {text!r}, which ends a response. Name the labels with "
                    "labels={...}, or choose another prefix with template=Template(...)"
                )
        other = spelled.setdefault(answers.normal(label).casefold(), label)
        if other != label:
            raise ArgumentError(
                f"{where}: the labels {other!r} and {label!r} differ only in case or blanks. Correct one of them"
            )
    return answers
