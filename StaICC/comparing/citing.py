"""Works to cite: the benchmark's paper, data sets, methods, metrics, as BibTeX."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from StaICC.datasets.catalogue import get_card, names
from StaICC.errors import UnknownNameError, unknown_name
from StaICC.registry import fold
from StaICC.safe_text import one_line

_DATA = Path(__file__).parent


# -- whom to cite for a benchmark, a diagnosis, an inference method or a statistic; data sets have their own citations


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
        matches = (re.search(rf"{field}\s*=\s*\{{(.*?)\}},?\n", self.bibtex) for field in ("title", "year"))
        title, year = ("" if match is None else match[1].translate({123: None, 125: None}) for match in matches)
        return one_line(f"{title} ({year})")


@functools.cache
def works() -> tuple[Work, ...]:
    """Return everything but data sets that is cited.

    Example:
        >>> [one.names[0] for one in works() if one.kind == "method"][-1]
        'Hidden Calibration'
    """
    data = json.loads((_DATA / "citations.json").read_text("utf-8"))
    return tuple(Work(tuple(work["names"]), work["kind"], work["bibtex"]) for work in data["works"])


def find_work(name: str, more: Sequence[Work] = ()) -> Work:
    """Return what to cite for a name.

    Args:
        name: A benchmark, a diagnosis, a method, a statistic or a data set; case, blanks, hyphens and underscores do
            not matter.
        more: Further works, such as data sets that are not in the catalogue.

    Raises:
        UnknownNameError: Nothing has that name; the message suggests the nearest.

    Example:
        >>> find_work("batch-calibration").bibtex.splitlines()[0]
        '@inproceedings{zhou2024batch,'
        >>> find_work("trec").kind
        'data set'
    """
    known = (*works(), *more)
    for work in known:
        if fold(name) in map(fold, work.names):
            return work
    try:
        card = get_card(name)
    except UnknownNameError:
        legal = [*names(), *(name for work in known for name in work.names)]
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
