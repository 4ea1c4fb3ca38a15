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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from StaICC.benchmarks.long_icl.files import READERS, FileRow
from StaICC.benchmarks.long_icl.prompts import Item, at_most, by_pairs, by_passes, by_turns, covering, merge_dialogues
from StaICC.benchmarks.long_icl.task_cards import (
    ROUNDS,
    AnswerFormat,
    FileSpec,
    PromptTemplate,
    ScoringRule,
    SelectionRule,
    TaskCard,
    card,
    cards,
)
from StaICC.datasets import Dataset, Template
from StaICC.datasets.storage import file_digest
from StaICC.errors import ArgumentError, DataDamagedError, DataMissingError, validate_integer
from StaICC.prompting import SubsetView, split_dataset
from StaICC.safe_text import logger, visible

_log = logger(__name__)

MOST_TURNS = 1000
"""Rows of a label that are kept in memory; the published rules select at most 870, and experiments may select more."""


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
        rule, labels = self.card.demonstrations, [row.label for row in self.train]
        if self.dataset is not None:
            self._check_own_rows(number)
        if rule.rule == "turns":
            places = by_turns(labels, number, strict=strict)
        elif rule.rule == "passes":
            places = by_passes(labels, number)
        else:
            places = [*chain.from_iterable(covering(map(_labels, self.train), self.card.labels, number))]
        if len(places) != (expected := rule.expected[number - 1]):
            _log.warning(
                "%s, round %d: %d demonstrations instead of %d; %s is not the published training file",
                *(self.card.title, number, len(places), expected, self.train_file.path),
            )
        return [self.train[place].item() for place in places]

    def _check_own_rows(self, number: int) -> None:
        counts = Counter(row.label for row in self.train)
        few = sorted((label for label in self.card.labels if counts[label] < number), key=counts.__getitem__)
        if few:
            raise ArgumentError(
                f"{self.card.title}, round {number}: {len(few)} of {len(self.card.labels)} labels have fewer than "
                f"{number} demonstrations, such as {few[0]!r} with {counts[few[0]]}. Choose rounds up to "
                f"{counts[few[0]]}, or a larger demonstration set with split=SplitSizes(...)"
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
        if rule == "pairs":
            every = [row.item() for row in (self.test if strict else self.test[:test_number])]
            chosen = [
                replace(every[place], gold=every[place].gold[:count], arguments=every[place].arguments[:count])
                for place, count in by_pairs([len(item.gold) for item in every], test_number)
            ]
        else:
            labels, places = [row.label for row in self.test], [*range(len(self.test))]
            if rule == "turns":
                places = by_turns(labels, size, strict=strict)
            elif rule == "at_most":
                places = at_most(labels, size)
            chosen = [self.test[place].item() for place in places[:test_number]]
        if not chosen:
            raise ArgumentError(f"{self.card.title}: no row of {self.test_file.path} can be a test item")
        return chosen


def _labels(row: FileRow) -> tuple[str, ...]:
    """Return all labels of a training row (a sentence with entities has several)."""
    return (row.item().gold if row.item().kind == "entities" else ()) if row.label is None else (row.label,)


def _load_file(path: Path, spec: FileSpec, card: TaskCard, rule: str, verify: bool) -> tuple[list[FileRow], LoadedFile]:
    """Read a file, and keep the rows that the rule can select, so that the others need no memory.

    Labels that the benchmark leaves out are never selected; with turns, no label has more than :data:`MOST_TURNS` rows.
    """
    made_up = path.name in spec.made_up
    try:
        sha256 = file_digest(path)
    except OSError as error:
        raise DataMissingError(f"{path} cannot be read: {error}") from error
    known = sha256 in spec.sha256
    digest, count, seen, rows = hashlib.sha256(b"["), 0, Counter[str | None](), []
    for count, row in enumerate(READERS[spec.format](path, card), 1):
        if spec.rows_sha256 is not None and not known:
            digest.update(b"," * (count > 1) + json.dumps(row.form, separators=(",", ":")).encode())
        seen[row.label] += 1
        if row.label not in card.other_labels and (
            rule != "turns" or (row.label is not None and seen[row.label] <= MOST_TURNS)
        ):
            rows.append(row)
    digest.update(b"]")
    if not rows:
        raise DataDamagedError(f"{path}, line 1: the file has no rows that can be used")
    file = LoadedFile(path, spec, sha256, count, known or digest.hexdigest() == spec.rows_sha256, made_up)
    if verify and not file.verified and not made_up:
        _check_published(file, card)
    if made_up:
        _log.warning(
            "%s: %s holds made-up rows; they show that the code runs, not what a model can do", card.title, path
        )
    return rows, file


def _check_published(file: LoadedFile, card: TaskCard) -> None:
    """Refuse a file that is not the published one; if its digest is unknown, warn if the number of rows differs."""
    path, spec = file.path, file.spec
    if spec.sha256:
        rows = f" It has {file.rows} rows, the published one {spec.rows}." if file.rows != spec.rows else ""
        raise DataDamagedError(
            f"{path}: not the published file of {card.title}: SHA-256 {file.sha256}, expected "
            f"{' or '.join(spec.sha256)}{', and its rows differ too' if spec.rows_sha256 else ''}.{rows} {card.obtain} "
            "To use it as it is (the results will not be comparable), pass verify=False"
        )
    if file.rows != spec.rows:
        published = f", the published file {spec.rows}" if spec.rows else " that the benchmark did not choose"
        _log.warning("%s: %s has %d rows%s; the results will not be comparable", card.title, path, file.rows, published)


def find(dataset: str, data_dir: str | Path) -> dict[str, tuple[Path, FileSpec]]:
    """Return path and format of each split of a data set that a folder has.

    Raises:
        UnknownNameError: The data set is unknown.
    """
    files = {}
    for split, specs in card(dataset).files.items():
        paths = [(Path(data_dir) / name, spec) for spec in specs for name in (*spec.names, *spec.made_up)]
        for path, spec in reversed(paths):
            if path.is_file():
                files[split] = path, spec
    return files


def _missing(own: TaskCard, data_dir: str | Path) -> Skipped | None:
    """Return what a folder lacks of a data set; ``None`` if it has all files."""
    files = [specs[0].names[0] for split, specs in own.files.items() if split not in find(own.name, data_dir)]
    return Skipped(own.name, f"{' and '.join(files)} not found in {data_dir}", own.instructions()) if files else None


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
    names = [dataset.card.name if isinstance(dataset, Dataset) else card(dataset).name for dataset in chosen]
    if not names or len(set(names)) < len(names):
        raise ArgumentError(f"datasets must have at least one data set, and each data set once, not {names!r}")
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
    announce(own.notice())
    if (missing := _missing(own, data_dir)) is not None:
        raise DataMissingError(f"{own.title}: {missing}")
    files, rules = find(dataset, data_dir), (own.demonstrations.rule, own.test.rule)
    (train, train_file), (test, test_file) = (
        _load_file(*files[split], own, rule, verify) for split, rule in zip(("train", "test"), rules, strict=True)
    )
    return LongICLData(own, tuple(train), tuple(test), train_file, test_file)


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
    for dataset in wanted([datasets] if isinstance(datasets, Dataset) else datasets):
        if isinstance(dataset, Dataset):
            loaded.append(load_own(dataset))
        elif (missing := _missing(card(dataset), data_dir)) is None:
            loaded.append(load(dataset, data_dir, verify=verify, announce=announce))
        else:
            skipped.append(missing)
            _log.warning("%s is skipped: %s", card(dataset).title, missing)
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
    labels, where, shown, test = card.label_space, f"{card.name} as a task of LongICL", split.demonstration, split.test
    if card.name.casefold() in cards():
        raise ArgumentError(f"name: got {card.name!r}, which is a data set of LongICL. Rename the file, or pass name=")
    if len(labels) < LEAST_LABELS:
        raise ArgumentError(
            f"{where}: got {len(labels)} labels, expected {LEAST_LABELS} or more. Use Normal (run normal) instead"
        )
    template, answers = _template(card.template, labels, where), _answers(card.template, labels, where)
    with_rows = {shown.label(place) for place in range(len(shown))}
    without = [label for place, label in enumerate(labels) if place not in with_rows]
    if without:
        raise ArgumentError(
            f"{where}: {len(without)} of {len(labels)} labels have no row in the demonstration set of {len(shown)} "
            f"rows, such as {without[0]!r}. Add rows, or choose a larger demonstration set with split=SplitSizes(...)"
        )
    known = {shown.texts(place): shown.indexes[place] for place in range(len(shown))}
    twice = [place for place in range(len(test)) if test.texts(place) in known]
    if twice:
        texts = test.texts(twice[0])
        raise ArgumentError(
            f"{where}: {len(twice)} of {len(test)} test rows have the text of a demonstration, such as row "
            f"{test.indexes[twice[0]]}, which repeats row {known[texts]} (from 0): {' '.join(texts)!r:.60}. Remove "
            "duplicate rows"
        )
    task = TaskCard(
        **{name: getattr(card, name) for name in ("name", "title", "task", "source", "licence", "citation")},
        kind="text",
        offensive=card.offensive,
        labels=labels,
        demonstrations=SelectionRule("turns", tuple(len(labels) * number for number in range(1, ROUNDS + 1))),
        test=SelectionRule("turns", size=max(Counter(map(test.label, range(len(test)))).values())),
        template=template,
        answers=answers,
        scoring=ScoringRule("accuracy", 0.0, None),
    )
    file = LoadedFile(Path(card.name), FileSpec("own data"), dataset.table.digest, card.rows, False, False)
    return LongICLData(task, _rows(shown, card.template), _rows(test, card.template), file, file, dataset)


def _rows(part: SubsetView, template: Template) -> tuple[FileRow, ...]:
    # Parsers search for a text as the prompt has it, because it may be one letter or word.
    before, *others = template.input_text_prefixes
    *between, after = _affixes(template)
    rows = []
    for place, number in enumerate(part.indexes):
        first, *more = part.texts(place)
        text = first + "".join(chain.from_iterable(zip(between, others, more, strict=True)))
        label, searched = part.get_label(place), f"{before}{text}{after}"
        rows.append(FileRow(label, None, functools.partial(Item, "text", number, (text,), (label,), (), searched)))
    return tuple(rows)


def _affixes(template: Template) -> list[str]:
    return ["\n" if affix == " " else affix for affix in template.input_text_affixes]


def _template(template: Template, labels: Sequence[str], where: str) -> PromptTemplate:
    """Return the strings of the prompts (see the module)."""
    if template.query_prefix:
        raise ArgumentError(f"{where}: got the query prefix {template.query_prefix!r:.40}, expected a template without")
    head, examples = template.instruction, ""
    if not head:
        texts = " and the ".join(prefix.strip(" \n:") or "text" for prefix in template.input_text_prefixes)
        label = template.label_prefix.strip(" \n:") or "label"
        head = f"Given the {texts}, please predict the {label}. The answer must come from the demonstration examples "
        head, examples = head + "with the exact format.", " The examples are as follows: \n"
    before, after, affix = (
        text.replace("{", "{{").replace("}", "}}")
        for text in (
            template.input_text_prefixes[0],
            _affixes(template)[-1] + template.label_prefix,
            template.label_affix,
        )
    )
    choose = f"{head}{'' if head[-1].isspace() else ' '}You can only choose from these labels: "
    after_labels = f".{examples}" if examples else ".\n"
    return PromptTemplate(head + examples, (choose, after_labels), f"{before}{{text}}{after}", f"{{label}}{affix}")


def _answers(template: Template, labels: Sequence[str], where: str) -> AnswerFormat:
    """Return how responses are parsed, and refuse labels that the parsers cannot find."""
    cue, marker = template.label_prefix.strip(), template.input_text_prefixes[0].strip()
    answers = AnswerFormat(cue, marker or None, lower=True, delete="")
    spelled: dict[str, str] = {}
    for label in labels:
        part = next((text for text in ("\n", cue, marker) if text and text.casefold() in label.casefold()), None)
        if part is not None:
            raise ArgumentError(
                f"{where}: the label {label!r} contains {part!r}, which ends a response. Name the labels with "
                "labels={...}, or choose another prefix with template=Template(...)"
            )
        other = spelled.setdefault(answers.normal(label).casefold(), label)
        if other != label:
            raise ArgumentError(
                f"{where}: the labels {other!r} and {label!r} differ only in case or blanks. Correct one of them"
            )
    return answers
