"""The catalogue: the data sets that this library knows, found by name.

The ten data sets of the benchmark, in its order, and ``mini``, a small set that ships with the library and is never
part of the ten. The facts stand in ``catalogue.json``, each record in four parts that have different keepers: what
was *published* (labels, template, split), what was *counted* by a program (rows, digests), *prose* that people wrote
(source, licence, citation, notes), and what *lookup* needs (other names, the file in the published wheel). The file
is read once, when it is first asked for.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from StaICC.datasets.card import Card
from StaICC.errors import SchemaError, unknown_name

__all__ = ["MINI", "Catalogue", "Pack", "catalogue", "cite", "find", "get_card", "names", "shipped"]

MINI = "mini"
"""Name of the data set that ships with the library."""

SCHEMA = 1
_PARTS = ("published", "counted", "prose", "lookup")
_LOOKUP = ("aliases", "member")


@dataclass(frozen=True, slots=True)
class Pack:
    """The published wheel that holds the frozen tables."""

    requirement: str
    """What ``pip`` is asked for."""
    file: str
    """Name of the wheel."""
    sha256: str
    """Digest of the wheel; any other file is refused."""
    members: MappingProxyType[str, str]
    """Data set -> file inside the wheel."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that ``catalogue.json`` says."""

    benchmark: tuple[str, ...]
    """Names of the ten, in the order of the benchmark's indexes 0 to 9."""
    cards: MappingProxyType[str, Card]
    """Name -> card, of the ten and of ``mini``."""
    folded: MappingProxyType[str, str]
    """Every spelling that is understood, folded, -> name."""
    pack: Pack


def _fold(name: str) -> str:
    """A name without what people spell differently: case, blanks, hyphens, underscores."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _parse(data: Any) -> Catalogue:
    if data["schema"] != SCHEMA:
        raise SchemaError(f"catalogue.json has schema {data['schema']!r}; this library reads {SCHEMA}")
    cards: dict[str, Card] = {}
    folded: dict[str, str] = {}
    members: dict[str, str] = {}
    for name, record in data["datasets"].items():
        fields: dict[str, Any] = {"name": name}
        if tuple(record) != _PARTS or tuple(record["lookup"]) != _LOOKUP:
            raise SchemaError(
                f"catalogue.json, {name!r}: the parts must be {', '.join(_PARTS)}, not {', '.join(record)}"
            )
        for part in ("published", "counted", "prose"):
            twice = fields.keys() & record[part].keys()
            if twice:
                raise SchemaError(f"catalogue.json, {name!r}: {sorted(twice)[0]!r} stands in two parts")
            fields |= record[part]
        cards[name] = Card.from_dict(fields)
        for spelling in (name, cards[name].title, *record["lookup"]["aliases"]):
            if folded.setdefault(_fold(spelling), name) != name:
                raise SchemaError(f"catalogue.json: {spelling!r} names both {name!r} and {folded[_fold(spelling)]!r}")
        if record["lookup"]["member"] is not None:
            members[name] = record["lookup"]["member"]
    return Catalogue(
        benchmark=tuple(data["benchmark"]),
        cards=MappingProxyType(cards),
        folded=MappingProxyType(folded),
        pack=Pack(**data["pack"], members=MappingProxyType(members)),
    )


def shipped(file: str) -> Any:
    """A JSON file that ships beside this module.

    Args:
        file: Its name.

    Returns:
        Its content as plain values.
    """
    import pkgutil  # not importlib.resources, which costs ten times as much to import

    data = pkgutil.get_data(__package__, file)
    if data is None:  # pragma: no cover - only with loaders that cannot read data
        raise FileNotFoundError(f"this installation of StaICC has no {file}")
    return json.loads(data)


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue, read once.

    Returns:
        The same immutable record every time.

    Raises:
        SchemaError: ``catalogue.json`` is not what this version of the library reads.
    """
    return _parse(shipped("catalogue.json"))


def names() -> tuple[str, ...]:
    """Names of the benchmark's ten data sets, in its order: the position is the benchmark index.

    Example:
        >>> names()[4], len(names())
        ('TREC', 10)
    """
    return catalogue().benchmark


def find(name: str) -> str:
    """The catalogue's own name of a data set.

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
    found = known.folded.get(_fold(name)) if isinstance(name, str) else None
    if found is None:
        raise unknown_name("data set", name, (*known.benchmark, MINI), "List them with: python -m StaICC data list")
    return found


def get_card(name: str) -> Card:
    """The card of a data set.

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
    """BibTeX for a data set: what to cite when it is used.

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
