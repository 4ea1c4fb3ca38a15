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


@dataclass(frozen=True, slots=True)
class Work:
    """A work to cite, such as a paper, with its BibTeX entries."""

    names: tuple[str, ...]
    """What it is called, the usual name first."""
    kind: str
    """``"benchmark"``, ``"diagnosis"``, ``"method"``, ``"statistics"`` or ``"data set"``."""
    bibtex: str
    """One entry or more."""

    def __str__(self) -> str:
        """Return title and year of the (first) work."""
        return one_line(f"{self._field('title')} ({self._field('year')})")

    def _field(self, name: str) -> str:
        """Return the value of a field of the first BibTeX entry, without braces; empty if it has no such field.

        A field is a line of an entry, such as ``title = {Language Models are {Few-Shot} Learners},``.
        """
        match = re.search(rf"{name}\s*=\s*\{{(.*?)\}},?\n", self.bibtex)
        if match is None:
            return ""
        return match[1].replace("{", "").replace("}", "")


@functools.cache
def works() -> tuple[Work, ...]:
    """Return the works to cite for benchmarks, diagnoses, methods and statistics.

    Those of data sets are in their cards (:func:`~StaICC.datasets.catalogue.get_card`).

    Example:
        >>> [one.names[0] for one in works() if one.kind == "method"][-1]
        'Hidden Calibration'
    """
    saved_works = json.loads((_DATA / "citations.json").read_text("utf-8"))["works"]
    return tuple(Work(tuple(saved["names"]), saved["kind"], saved["bibtex"]) for saved in saved_works)


def find_work(name: str, more: Sequence[Work] = ()) -> Work:
    """Return the work to cite for a name.

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
    known_works = [*works(), *more]
    for work in known_works:
        if fold(name) in [fold(known_name) for known_name in work.names]:
            return work
    try:
        card = get_card(name)
    except UnknownNameError:
        known_names = list(names())
        for work in known_works:
            known_names += work.names
        raise unknown_name("data set, method or benchmark", name, known_names) from None
    return Work((card.name,), "data set", card.citation)


def entries(cited: Iterable[Work]) -> list[str]:
    """Return the BibTeX entries of works without repetitions.

    Args:
        cited: The works. Several works may have the same entry.

    Returns:
        The entries, in the order of their first appearance.
    """
    unique_entries: dict[str, None] = {}
    for work in cited:
        # An entry begins with @ at the beginning of a line.
        for text in re.split(r"^(?=@)", work.bibtex, flags=re.MULTILINE):
            entry = text.strip()
            if entry:
                unique_entries[entry] = None
    return list(unique_entries)
