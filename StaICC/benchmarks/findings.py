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
_MOST_NAMED = 20
"""How many findings of one kind are named one by one: enough to see what they share, few enough to print."""

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
    if not verifications:
        return Unchecked("nothing was compared")
    first_unchecked: Unchecked | None = None
    for verification in verifications:
        for finding in verification.findings:
            if isinstance(finding, Contradicted):
                return finding
            if first_unchecked is None:
                first_unchecked = finding
    if first_unchecked is not None:
        return first_unchecked
    return Recomputed()


def limited(place: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings without duplicates: first the contradicted values, then the unchecked ones, 20 of each kind.

    If a kind has more, its last finding says how many more there are.

    Args:
        place: The path of the values, for that last finding.
        findings: The findings.
    """
    distinct = list(dict.fromkeys(findings))
    contradicted = [finding for finding in distinct if isinstance(finding, Contradicted)]
    unchecked = [finding for finding in distinct if isinstance(finding, Unchecked)]
    listed: list[Finding] = []
    listed += contradicted[:_MOST_NAMED]
    if len(contradicted) > _MOST_NAMED:
        listed.append(Contradicted(f"{place}: {len(contradicted) - _MOST_NAMED} more values"))
    listed += unchecked[:_MOST_NAMED]
    if len(unchecked) > _MOST_NAMED:
        listed.append(Unchecked(f"{place}: {len(unchecked) - _MOST_NAMED} more values"))
    return tuple(listed)


def values_equal(saved: object, recomputed: object) -> bool:
    """Return whether two plain values are equal; fractions to 9 digits, since platforms round logarithms differently.

    ``True`` equals ``1`` in Python. Here a truth value equals only a truth value.
    """
    if isinstance(saved, bool) != isinstance(recomputed, bool):
        return False
    if isinstance(saved, float) and isinstance(recomputed, (int, float)):
        return math.isclose(saved, recomputed, rel_tol=1e-9, abs_tol=1e-15)
    return saved == recomputed


def compare_values(place: str, saved: Any, expected: Any, unknown: Mapping[str, str] = {}) -> Iterator[Finding]:
    """Compare a saved JSON value with the expected one, and yield a finding for every value in it that is not the same.

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
        yield from _compare_mappings(place, saved, expected, unknown)
    elif isinstance(saved, (list, tuple)) and isinstance(expected, (list, tuple)) and len(saved) == len(expected):
        # Lists of labels and scores are long, and mostly equal: then no item is looked at in Python.
        if list(saved) != list(expected):
            for number, (saved_item, expected_item) in enumerate(zip(saved, expected, strict=True)):
                yield from compare_values(f"{place} / {number}", saved_item, expected_item, unknown)
    elif expected is ABSENT:
        yield Unchecked(f"{place}: saved {short_value(saved)}, which nothing computes again")
    elif not values_equal(saved, expected):
        yield Contradicted(f"{place}: saved {short_value(saved)}, recomputed {short_value(expected)}")


def _compare_mappings(
    place: str, saved: Mapping[str, Any], expected: Mapping[str, Any], unknown: Mapping[str, str]
) -> Iterator[Finding]:
    """Compare the values of two mappings key by key; arguments as for :func:`compare_values`."""
    keys = dict.fromkeys([*expected, *saved])
    for key in keys:
        inner_place = f"{place} / {key}" if place else str(key)
        findings = compare_values(inner_place, saved.get(key, ABSENT), expected.get(key, ABSENT), unknown)
        for finding in findings:
            if key in unknown and isinstance(finding, Contradicted):
                yield Unchecked(f"{finding.difference} ({unknown[key]})")
            else:
                yield finding


def short_value(value: object) -> str:
    """Return a value as text of at most 80 characters."""
    if value is ABSENT:
        return "nothing"
    return f"{value!r:.80}"
