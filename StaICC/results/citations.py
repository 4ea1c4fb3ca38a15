"""Whom to cite for a benchmark, a diagnosis, an inference method or a statistic, as BibTeX.

Data sets have their own citations (:func:`StaICC.datasets.cite`); :func:`find_work` knows both.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from StaICC import datasets
from StaICC.errors import UnknownNameError, unknown_name
from StaICC.registry import fold
from StaICC.safe_text import one_line


@dataclass(frozen=True, slots=True)
class Work:
    """Something that is cited."""

    names: tuple[str, ...]
    """What it is called, the usual name first."""
    kind: str
    """``"benchmark"``, ``"diagnosis"``, ``"method"``, ``"statistics"`` or ``"data set"``."""
    bibtex: str
    """One entry or more."""

    def __str__(self) -> str:
        """Return title and year of the (first) work."""
        found = (re.search(rf"{field}\s*=\s*\{{(.*?)\}},?\n", self.bibtex) for field in ("title", "year"))
        title, year = ("" if one is None else one[1].translate({123: None, 125: None}) for one in found)
        return one_line(f"{title} ({year})")


@functools.cache
def works() -> tuple[Work, ...]:
    """Return everything but data sets that is cited.

    Example:
        >>> [one.names[0] for one in works() if one.kind == "method"][-1]
        'Hidden Calibration'
    """
    data = json.loads((Path(__file__).parent / "citations.json").read_text("utf-8"))
    return tuple(Work(tuple(one["names"]), one["kind"], one["bibtex"]) for one in data["works"])


def find_work(name: str) -> Work:
    """Return what to cite for a name.

    Args:
        name: A benchmark, a diagnosis, a method, a statistic or a data set; case, blanks, hyphens and underscores do
            not matter.

    Raises:
        UnknownNameError: Nothing has that name; the message suggests the nearest.

    Example:
        >>> find_work("batch-calibration").bibtex.splitlines()[0]
        '@inproceedings{zhou2024batch,'
        >>> find_work("trec").kind
        'data set'
    """
    for work in works():
        if fold(name) in map(fold, work.names):
            return work
    try:
        card = datasets.get_card(name)
    except UnknownNameError:
        legal = [*datasets.names(), *(one for work in works() for one in work.names)]
        raise unknown_name("data set, method or benchmark", name, legal) from None
    return Work((card.name,), "data set", card.citation)


def entries(cited: Iterable[Work]) -> list[str]:
    """Return the BibTeX entries of works, each once.

    Args:
        cited: The works; several may cite the same.

    Returns:
        The entries, in order.
    """
    split = (entry for work in cited for entry in re.split(r"^(?=@)", work.bibtex, flags=re.MULTILINE))
    return list(dict.fromkeys(entry.strip() for entry in split if entry.strip()))
