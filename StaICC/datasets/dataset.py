"""Data sets: a card and its table.

:func:`load_dataset` gives the data sets of the catalogue. :meth:`Dataset.from_rows` makes one of a user's own rows,
with any number of input texts (pairs such as premise and hypothesis work), which goes through the same pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from StaICC.datasets.card import Card, Digests, SplitSizes, Template, TemplateAlternatives
from StaICC.datasets.catalogue import MINI, get_card, shipped
from StaICC.datasets.table import FrozenTable, MemoryTable, Table
from StaICC.errors import ArgumentError, DataDamagedError, DataError

__all__ = ["Dataset", "default_split", "default_template", "load_dataset"]

_STANDARD = SplitSizes(calibration=1024, demonstration=4096, test=512)
"""The split that most data sets of the benchmark have."""


def default_template(columns: int) -> Template:
    """The template of a data set that comes without one.

    Args:
        columns: Number of input texts of a row.

    Returns:
        ``"input: "`` before a single text, ``"sentence1: "``, ``"sentence2: "``, ... before several; ``"label: "``
        before the label. Affixes are those of the benchmark.

    Raises:
        ArgumentError: There is no input text.

    Example:
        >>> default_template(2).input_text_prefixes
        ('sentence1: ', 'sentence2: ')
    """
    prefixes = ("input: ",) if columns == 1 else tuple(f"sentence{i + 1}: " for i in range(columns))
    return Template("", prefixes, (" ",) * columns, "label: ", "\n", "")


def default_split(rows: int) -> SplitSizes:
    """The benchmark's split, 1024 / 4096 / 512, scaled down to the rows that there are.

    Args:
        rows: Number of rows of the table.

    Returns:
        The sizes; there is always a test row, and a demonstration row if there are two rows or more.

    Raises:
        ArgumentError: There is no row.

    Example:
        >>> default_split(360)
        SplitSizes(calibration=65, demonstration=263, test=32)
    """
    if rows >= _STANDARD.total:
        return _STANDARD
    if rows < 1:
        raise ArgumentError(f"a data set needs at least one row to test, not {rows}")
    test = max(1, _STANDARD.test * rows // _STANDARD.total)
    calibration = _STANDARD.calibration * (rows - test) // (_STANDARD.total - _STANDARD.test)
    return SplitSizes(calibration=calibration, demonstration=rows - test - calibration, test=test)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A card and the table that it describes.

    Raises:
        ArgumentError: The table does not have the card's number of rows or of input texts.
        DataDamagedError: The table's digest is not the card's.
    """

    card: Card
    table: Table

    def __post_init__(self) -> None:
        if not isinstance(self.card, Card):
            raise ArgumentError(f"a data set needs a Card, not {self.card!r}")
        name = self.card.name
        if len(self.table) != self.card.rows:
            raise ArgumentError(f"data set {name!r}: the table has {len(self.table)} rows, its card {self.card.rows}")
        if self.table.columns != self.card.columns:
            raise ArgumentError(
                f"data set {name!r}: the table's rows have {self.table.columns} input texts, "
                f"the template {self.card.columns} prefixes"
            )
        if self.card.digests is not None and self.card.digests.table != self.table.digest:
            raise DataDamagedError(
                f"data set {name!r}: the rows are not the published ones; "
                f"their SHA-256 is {self.table.digest}, the card's {self.card.digests.table}"
            )

    @classmethod
    def from_rows(
        cls,
        rows: Iterable[tuple[str | Sequence[str], int]],
        *,
        name: str,
        label_space: Sequence[str],
        template: Template | None = None,
        split: SplitSizes | None = None,
        full_label_space: Sequence[str] | None = None,
        task: str = "",
        source: str = "",
        licence: str = "",
        citation: str = "",
        alternatives: TemplateAlternatives | None = None,
        offensive: bool = False,
        notes: str = "",
    ) -> Dataset:
        """Make a data set of your own rows.

        Args:
            rows: ``(text or sequence of texts, label index)`` pairs, all with the same number of texts.
            name: Its name in results and signatures.
            label_space: Label names; a row's label is an index into them.
            template: Constant strings of the prompts (default: :func:`default_template`).
            split: Sizes of the three sets (default: :func:`default_split`).
            full_label_space: Unshortened label names (default: the label space).
            task: What is classified.
            source: Where the rows come from.
            licence: Under what licence.
            citation: BibTeX.
            alternatives: Three levels of each template factor, for template sensitivity.
            offensive: Whether the texts hold language that hurts.
            notes: Anything else.

        Returns:
            The data set; the digest of the rows is part of its card.

        Raises:
            ArgumentError: Rows or arguments are not as said; the message names the row or the argument.

        Example:
            >>> pairs = [(("It rains.", "It is wet."), 1), (("It rains.", "It is dry."), 0)]
            >>> dataset = Dataset.from_rows(pairs, name="weather", label_space=["no", "yes"])
            >>> dataset.table[0].texts, dataset.card.template.label_prefix
            (('It rains.', 'It is wet.'), 'label: ')
        """
        table = MemoryTable(rows)
        card = Card(
            name=name,
            title=name,
            task=task,
            source=source,
            licence=licence,
            citation=citation,
            label_space=label_space,  # type: ignore[arg-type]  # the card makes it a tuple, or says what is wrong
            full_label_space=label_space if full_label_space is None else full_label_space,  # type: ignore[arg-type]
            template=default_template(table.columns) if template is None else template,
            alternatives=alternatives,
            split=default_split(len(table)) if split is None else split,
            rows=len(table),
            digests=Digests(table=table.digest),
            offensive=offensive,
            notes=notes,
        )
        for number, row in enumerate(table):
            if row.label >= len(card.label_space):
                raise ArgumentError(
                    f"row {number}: the label index is {row.label}, but the label space of {name!r} has "
                    f"{len(card.label_space)} labels (indexes 0 to {len(card.label_space) - 1})"
                )
        return cls(card, table)


def _load_mini(card: Card) -> MemoryTable:
    data = shipped("mini.json")
    if tuple(data["label_space"]) != card.label_space:
        raise DataDamagedError(
            f"mini.json has the label space {data['label_space']}, its card {list(card.label_space)}"
        )
    return MemoryTable((text, label) for text, label in data["rows"])


def load_dataset(name: str) -> Dataset:
    """A data set of the catalogue.

    ``mini`` ships with the library. The ten of the benchmark come from the data pack, which installs itself on first
    use (see :mod:`StaICC.datasets.pack`).

    Args:
        name: Any spelling that :func:`StaICC.datasets.catalogue.find` understands.

    Returns:
        The data set; its rows are read when they are asked for.

    Raises:
        UnknownNameError: There is no such data set.
        DataMissingError: The data pack is not installed and cannot be fetched.
        DataDamagedError: The file is not the published one.

    Example:
        >>> len(load_dataset("mini").table)
        360
    """
    card = get_card(name)
    if card.name == MINI:
        return Dataset(card, _load_mini(card))
    from StaICC.datasets import pack

    pack.ensure_installed([card.name])
    try:
        return Dataset(card, FrozenTable(pack.table_path(card.name), pack.expected_digest(card.name)))
    except DataError as error:
        raise type(error)(f"{error}. Install it again: python -m StaICC data install") from error
