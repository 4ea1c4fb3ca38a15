"""What a verification finds out: values that are contradicted, values that nothing computes again, a status."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from StaICC.benchmarks.rerun_scores import RerunScore
from StaICC.results.result import Result, ResultGroup

ABSENT = object()
"""The value of a missing field."""
_MOST_NAMED = 20  # outcomes of one kind that are named one by one
Results = Result | ResultGroup


@dataclass(frozen=True, slots=True)
class Recomputed:
    """All values were computed again, and are the same."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A value is another one than the records, the data or the model give."""

    difference: str
    """The path of the value, the saved and the recomputed value."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A value that was not computed again. As an expected value: no value can be computed."""

    reason: str


Finding = Contradicted | Unchecked
Status = Recomputed | Finding
"""What a verification finds out about a value."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The finding about one data set, about the fields that the data sets share, or about a group or file."""

    benchmark: str
    """Name of the benchmark or of the group."""
    dataset: str | None
    """``None`` for the fields that the data sets share: means, signature, provenance."""
    message: str
    """What was compared."""
    findings: tuple[Finding, ...] = ()
    """What is contradicted or unchecked; all else is recomputed."""
    same: bool | None = None
    """Whether every prompt is the same; ``None`` if the prompts are not checked."""
    first_difference: int | None = None
    """Number of the first query whose prompt differs; ``None`` if none does."""
    scores: tuple[RerunScore, ...] = ()
    """Of a rerun, the recomputed accuracy of each result."""
    recomputed: Results | None = field(default=None, repr=False, compare=False)
    """Of a rerun, the result with the new predictions in the place of the saved ones."""

    @property
    def contradicted(self) -> tuple[str, ...]:
        """Each value that differs, with its path, the saved and the recomputed value."""
        return tuple(finding.difference for finding in self.findings if isinstance(finding, Contradicted))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Each value that was not computed again, with the reason."""
        return tuple(finding.reason for finding in self.findings if isinstance(finding, Unchecked))

    @property
    def status(self) -> Status:
        """The first contradicted value, else the first unchecked one, else that all is recomputed."""
        return status_of([self])


def status_of(findings: Iterable[Verification]) -> Status:
    """Return the status of a result: the first contradicted value, else the first unchecked one, else recomputed.

    Args:
        findings: All findings about it; without any, it is unchecked.
    """
    verifications = list(findings)
    listed = [finding for verification in verifications for finding in verification.findings]
    first = next((finding for finding in listed if isinstance(finding, Contradicted)), None)
    return first or next(iter(listed), Recomputed() if verifications else Unchecked("nothing was compared"))


def limited(place: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return outcomes without duplicates, and only the number of those after the first 20 of each kind."""
    kept: list[Finding] = []
    distinct = dict.fromkeys(findings)
    for kind in (Contradicted, Unchecked):
        of_kind = [finding for finding in distinct if isinstance(finding, kind)]
        more = len(of_kind) - _MOST_NAMED
        kept += [*of_kind[:_MOST_NAMED], *[kind(f"{place}: {more} more values")] * (more > 0)]
    return tuple(kept)


def values_equal(saved: object, recomputed: object) -> bool:
    """Whether two plain values are equal; fractions to 9 digits, since platforms round logarithms differently."""
    if isinstance(saved, float) and isinstance(recomputed, (int, float)) and not isinstance(recomputed, bool):
        return math.isclose(saved, recomputed, rel_tol=1e-9, abs_tol=1e-15)
    return saved == recomputed and isinstance(saved, bool) == isinstance(recomputed, bool)


def compare_values(place: str, saved: Any, expected: Any, unknown: Mapping[str, str] = {}) -> Iterator[Finding]:
    """Compare a saved JSON value with the expected one, and the values in them; yield all that are not recomputed.

    A value that is saved, but that nothing computes again, is unchecked. So is one whose expected value is
    :class:`Unchecked`.

    Args:
        place: Path of the values; empty for a whole file.
        saved: The value of the file.
        expected: The value that was computed again.
        unknown: Keys whose differences are unchecked, with the reason: this version or benchmark cannot judge them.
    """
    if isinstance(expected, Unchecked):
        yield Unchecked(f"{place}: {expected.reason}")
    elif isinstance(saved, Mapping) and isinstance(expected, Mapping):
        for key in dict.fromkeys([*expected, *saved]):
            inner = f"{place} / {key}" if place else str(key)
            for finding in compare_values(inner, saved.get(key, ABSENT), expected.get(key, ABSENT), unknown):
                if key in unknown and isinstance(finding, Contradicted):
                    finding = Unchecked(f"{finding.difference} ({unknown[key]})")
                yield finding
    elif isinstance(saved, (list, tuple)) and isinstance(expected, (list, tuple)) and len(saved) == len(expected):
        if list(saved) != list(expected):
            for number, pair in enumerate(zip(saved, expected, strict=True)):
                yield from compare_values(f"{place} / {number}", *pair, unknown)
    elif expected is ABSENT:
        yield Unchecked(f"{place}: saved {short_value(saved)}, which nothing computes again")
    elif not values_equal(saved, expected):
        yield Contradicted(f"{place}: saved {short_value(saved)}, recomputed {short_value(expected)}")


def short_value(value: object) -> str:
    """Return a value as text of at most 80 characters."""
    return "nothing" if value is ABSENT else f"{value!r:.80}"
