"""What a verification finds out: values that are contradicted, values that nothing computes again, a status."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from StaICC.benchmarks.rerun_scores import RerunScore
from StaICC.results.result import Result, ResultGroup

ABSENT = object()
"""Stands for the value of a field that does not exist."""
_MOST_LISTED = 20
"""The maximum number of findings of one kind that are listed: enough to see what they share, few enough to print."""

Results = Result | ResultGroup


@dataclass(frozen=True, slots=True)
class Recomputed:
    """All values were computed again, and are the same."""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A saved value differs from the one that follows from the records, the data or the model."""

    difference: str
    """The path of the value, the saved and the recomputed value."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A saved value that was not computed again. As an expected value, it says that none can be computed."""

    reason: str
    """The path of the value, and why it was not computed again."""


Finding = Contradicted | Unchecked
Status = Recomputed | Finding
"""The result of a verification: all is recomputed, or a value is contradicted or unchecked."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings about one data set, about the fields that the data sets share, or about a group or file."""

    benchmark: str
    """Name of the benchmark or of the group."""
    dataset: str | None
    """``None`` for the fields that the data sets share: means, signature, provenance."""
    message: str
    """What was compared."""
    findings: tuple[Finding, ...] = ()
    """The values that are contradicted or unchecked. All others were recomputed."""
    same: bool | None = None
    """Whether every prompt is the same; ``None`` if the prompts are not checked."""
    first_difference: int | None = None
    """Number of the first query whose prompt differs; ``None`` if none does."""
    scores: tuple[RerunScore, ...] = ()
    """The recomputed accuracy of each result, if queries were predicted again; otherwise empty."""
    recomputed: Results | None = field(default=None, repr=False, compare=False)
    """The result with the new predictions instead of the saved ones, if queries were predicted again."""

    @property
    def contradicted(self) -> tuple[str, ...]:
        """One text for each value that differs: its path, the saved and the recomputed value."""
        return tuple(finding.difference for finding in self.findings if isinstance(finding, Contradicted))

    @property
    def unchecked(self) -> tuple[str, ...]:
        """One text for each value that was not computed again, with the reason."""
        return tuple(finding.reason for finding in self.findings if isinstance(finding, Unchecked))

    @property
    def status(self) -> Status:
        """The first contradicted value; if there is none, the first unchecked one; otherwise :class:`Recomputed`."""
        return status_of([self])


def status_of(findings: Iterable[Verification]) -> Status:
    """Return the status of a result.

    It is the first contradicted value. If there is none, it is the first unchecked value, and otherwise
    :class:`Recomputed`. A result without any verification is unchecked.

    Args:
        findings: All verifications of the result.
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
    """Return the first findings of each kind without duplicates, the contradicted values before the unchecked ones.

    If a kind has more than :data:`_MOST_LISTED` findings, a further one says how many are left out.

    Args:
        place: The path of the values, for that further finding.
        findings: The findings.
    """
    contradicted: list[Finding] = []
    unchecked: list[Finding] = []
    for finding in dict.fromkeys(findings):  # each once
        if isinstance(finding, Contradicted):
            contradicted.append(finding)
        else:
            unchecked.append(finding)
    listed = contradicted[:_MOST_LISTED]
    if len(contradicted) > _MOST_LISTED:
        listed.append(Contradicted(f"{place}: {len(contradicted) - _MOST_LISTED} more values"))
    listed += unchecked[:_MOST_LISTED]
    if len(unchecked) > _MOST_LISTED:
        listed.append(Unchecked(f"{place}: {len(unchecked) - _MOST_LISTED} more values"))
    return tuple(listed)


def values_equal(saved: object, recomputed: object) -> bool:
    """Return whether a saved and a recomputed value, such as a number or a text, are equal.

    Fractions are equal to 9 digits, because platforms round logarithms differently. Unlike in Python, ``True`` does not
    equal ``1`` here.
    """
    if isinstance(saved, bool) != isinstance(recomputed, bool):
        return False
    if isinstance(saved, float) and isinstance(recomputed, (int, float)):
        return math.isclose(saved, recomputed, rel_tol=1e-9, abs_tol=1e-15)
    return saved == recomputed


def compare_values(place: str, saved: Any, expected: Any, unknown: Mapping[str, str] = {}) -> Iterator[Finding]:
    """Yield a finding for every difference between a saved JSON value and the expected one, key by key, item by item.

    A value that differs is contradicted. A value is unchecked if the expected one does not have it, or has an
    :class:`Unchecked` in its place. Equal values have no finding. For example, the saved ``{"accuracy": 0.5}`` and the
    expected ``{"accuracy": 0.4}`` give ``Contradicted("accuracy: saved 0.5, recomputed 0.4")``.

    Args:
        place: Path of the values; empty for a whole file.
        saved: The value of the file.
        expected: The value that was computed again.
        unknown: The keys whose values this version or benchmark cannot judge, with the reason. Differences at these
            keys, and in the values within them, are unchecked instead of contradicted.
    """
    if isinstance(expected, Unchecked):
        yield Unchecked(f"{place}: {expected.reason}")
    elif isinstance(saved, Mapping) and isinstance(expected, Mapping):
        yield from _compare_mappings(place, saved, expected, unknown)
    elif isinstance(saved, (list, tuple)) and isinstance(expected, (list, tuple)) and len(saved) == len(expected):
        # Lists of labels and scores are long and mostly equal. One comparison of complete lists is fast.
        are_equal = list(saved) == list(expected)
        if not are_equal:
            for number, (saved_item, expected_item) in enumerate(zip(saved, expected, strict=True)):
                yield from compare_values(f"{place} / {number}", saved_item, expected_item, unknown)
    elif expected is ABSENT:
        yield Unchecked(f"{place}: saved {short_value(saved)}, which nothing computes again")
    elif not values_equal(saved, expected):
        yield Contradicted(f"{place}: saved {short_value(saved)}, recomputed {short_value(expected)}")


def _compare_mappings(
    place: str, saved: Mapping[str, Any], expected: Mapping[str, Any], unknown: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the differences between a saved mapping and the expected one, key by key.

    Args:
        place: Where the mapping is in the file, for messages.
        saved: The saved values.
        expected: The values as they were computed again.
        unknown: Keys whose values cannot be computed again, each with the reason. A difference there is unchecked, not
            contradicted.
    """
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
    """Return a value as a text of at most 80 characters, for messages."""
    if value is ABSENT:
        return "nothing"
    return f"{value!r:.80}"
