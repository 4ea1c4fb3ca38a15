"""Verdicts about runs, as closed types.

The outcome of a test and the verdict about a run are unions of a few classes. Every reader handles every case, and a
missing value is never a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class Tested:
    """The outcome of a valid test of a difference."""

    case: str = field(default="tested", init=False)
    p_value: float
    """The p-value without a correction."""
    corrected_p_value: float
    """The corrected p-value: by Holm's method, or by Bonferroni's if the tests were chosen from others. It is the
    p-value itself if nothing was corrected."""

    @property
    def significant(self) -> bool:
        """Whether the difference is significant after the correction."""
        return self.corrected_p_value <= SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class Untested:
    """No valid test: nothing is known about the difference."""

    case: str = field(default="untested", init=False)
    reason: str
    """Why no valid test is possible."""


TestOutcome = Tested | Untested
"""The outcome of a test of a difference."""


CorrectionMethod = Literal["Holm", "Bonferroni"]


@dataclass(frozen=True, slots=True)
class Correction:
    """How the p-values of several pairs of runs are corrected."""

    method: CorrectionMethod
    """Holm's method for all compared pairs; Bonferroni's if these pairs were chosen by the values of the runs."""
    pairs: int
    """Number of pairs of runs for which the p-values of the means are corrected."""

    @property
    def column(self) -> str:
        """The head of the column with the corrected p-values."""
        return corrected_column(self.method)


def corrected_column(method: CorrectionMethod) -> str:
    """Return the head of a column with p-values that are corrected by a method."""
    return f"p ({method})"


@dataclass(frozen=True)
class Best:
    """The run has the best value."""

    case: str = field(default="best", init=False)


@dataclass(frozen=True)
class Tied:
    """The run is not shown to be worse than the best one."""

    case: str = field(default="tied", init=False)
    p_value: float
    """The corrected p-value (:attr:`Tested.corrected_p_value`)."""


@dataclass(frozen=True)
class Worse:
    """The run is shown to be worse than the best one."""

    case: str = field(default="worse", init=False)
    p_value: float
    """The corrected p-value (:attr:`Tested.corrected_p_value`)."""


Verdict = Best | Tied | Worse | Untested
"""The verdict about a run of a ranking, from the test against the best run."""


def verdict_of(outcome: TestOutcome) -> Verdict:
    """Return the verdict about a run whose value is not the best.

    Args:
        outcome: The corrected test of the difference between this run and the best one.
    """
    if isinstance(outcome, Untested):
        return outcome
    if outcome.significant:
        return Worse(outcome.corrected_p_value)
    return Tied(outcome.corrected_p_value)


def p_text(p_value: float) -> str:
    """Return a p-value as text, with three significant digits; below 0.0001 as "p < 0.0001".

    Args:
        p_value: The p-value.

    Example:
        >>> p_text(0.01234), p_text(1e-7)
        ('p = 0.0123', 'p < 0.0001')
    """
    if p_value < 1e-4:
        return "p < 0.0001"
    return f"p = {p_value:.3g}"


def describe(verdict: Verdict) -> str:
    """Return the verdict with its p-value or its reason.

    Args:
        verdict: The verdict.

    Example:
        >>> describe(Best()), describe(Tied(0.5)), describe(Untested("one row"))
        ('best', 'tied (p = 0.5)', 'untested (one row)')
    """
    if isinstance(verdict, Best):
        return verdict.case
    if isinstance(verdict, Untested):
        return f"{verdict.case} ({verdict.reason})"
    return f"{verdict.case} ({p_text(verdict.p_value)})"


def describe_briefly(verdict: Verdict) -> str:
    """Return the verdict with its p-value, without the reason of an untested one.

    Example:
        >>> describe_briefly(Tied(0.5)), describe_briefly(Untested("one row"))
        ('tied (p = 0.5)', 'untested')
    """
    if isinstance(verdict, Untested):
        return verdict.case
    return describe(verdict)
