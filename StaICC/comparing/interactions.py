"""Interactions: does a change of the condition of an experiment change one run more than another?

An experiment of LongICL compares conditions, such as 4K and 32K tokens. Let a_0 and a_c be the scores of the first run
in the reference condition, such as 4K, and in another one, and b_0 and b_c those of the second run. The *change* of a
run is ``a_c - a_0``. The interaction is the difference of the two changes::

    interaction = (a_c - a_0) - (b_c - b_0)

Two runs can differ in every condition and have no interaction, and a change can be significant for one run and not for
another although there is no interaction (Gelman and Stern 2006, "The Difference Between 'Significant' and 'Not
Significant' is not Itself Statistically Significant"). All four scores are those of the same test rows, so the paired
test of runs (:mod:`StaICC.metrics.paired_tests`) tests their weighted sum, in the mean over data sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.comparing.alignment import AlignedRuns, corrected
from StaICC.comparing.missing_queries import (
    RunDifference,
    difference_outcome,
    interval_of_difference,
    mean_of_differences,
)
from StaICC.comparing.pairing import PairedRecords, WeightedContributions
from StaICC.comparing.verdicts import Tested, TestOutcome, Untested, p_text
from StaICC.metrics import paired_tests
from StaICC.metrics.intervals import Interval
from StaICC.results.result import Result
from StaICC.safe_text import one_line


@dataclass(frozen=True, slots=True)
class Interaction:
    """The changes of two runs from a reference condition to another one, and their difference."""

    condition: str
    reference: str
    rows: int
    """Test rows that both runs have in both conditions, over all data sets."""
    changes: tuple[float | None, float | None]
    """The change of the first and of the second run: the score in the condition minus that in the reference."""
    difference: float | None
    """The interaction: the change of the first run minus that of the second."""
    interval: Interval | None
    """Its confidence interval; ``None`` if it has no bound."""
    outcome: TestOutcome
    """The paired test over test rows. Missing queries count at their worst for each direction. The p-value is corrected
    for both directions of all interactions of all pairs of runs (Holm)."""

    def __str__(self) -> str:
        change = f"{self.condition} against {self.reference}"
        if isinstance(self.outcome, Untested):
            return one_line(f"untested interaction: {change} ({self.outcome.reason})")
        verdict = "the runs are not shown to change differently"
        if self.outcome.significant:
            verdict = "the runs change differently"
        return one_line(f"{change}: {verdict} ({p_text(self.outcome.holm)})")

    def cells(self) -> dict[str, str]:
        """Return the cells of the interaction in a table, by column head."""
        first, second = self.changes
        interval = "-"
        if self.interval is not None:
            interval = f"{self.interval.low:+.3f} .. {self.interval.high:+.3f}"
        p_value: float | None = None
        corrected_p_value: float | None = None
        if isinstance(self.outcome, Tested):
            p_value = self.outcome.p_value
            corrected_p_value = self.outcome.holm
        return {
            "change of the condition": f"{self.reference} to {self.condition}",
            "rows": str(self.rows),
            "first": _number(first, "+.4f"),
            "second": _number(second, "+.4f"),
            "interaction": _number(self.difference, "+.4f"),
            "interval": interval,
            "p": _number(p_value, ".3g"),
            "p (corrected)": _number(corrected_p_value, ".3g"),
        }


def _number(value: float | None, number_format: str) -> str:
    """Return a number as a cell of a table; ``-`` without one."""
    if value is None:
        return "-"
    return format(value, number_format)


def interactions_of(
    aligned: Mapping[str, AlignedRuns], pairs: Sequence[tuple[str, str]], coverage: float, chosen_from: int = 0
) -> dict[tuple[str, str], tuple[Interaction, ...]]:
    """Return the interactions of each pair of runs, corrected for all of them.

    Args:
        aligned: The aligned runs of an experiment, by condition, in order.
        pairs: The pairs of runs that are compared.
        coverage: Nominal coverage of the intervals.
        chosen_from: Number of interactions from which these were chosen by the values of the runs; 0 if they were not
            (:func:`~StaICC.comparing.alignment.corrected`).
    """
    interactions: list[Interaction] = []
    pair_of_interaction: list[tuple[str, str]] = []
    for pair in pairs:
        for condition, of_condition in aligned.items():
            reference = _reference_of(condition, of_condition, list(aligned))
            if reference is None or not _has_runs([of_condition, aligned[reference]], pair):
                continue
            interactions.append(_interaction(condition, reference, of_condition, aligned[reference], pair, coverage))
            pair_of_interaction.append(pair)

    by_pair: dict[tuple[str, str], list[Interaction]] = {}
    outcomes = corrected([interaction.outcome for interaction in interactions], chosen_from=chosen_from)
    for pair, interaction, outcome in zip(pair_of_interaction, interactions, outcomes, strict=True):
        by_pair.setdefault(pair, []).append(replace(interaction, outcome=outcome))
    return {pair: tuple(of_pair) for pair, of_pair in by_pair.items()}


def _reference_of(condition: str, aligned: AlignedRuns, conditions: Sequence[str]) -> str | None:
    """Return the condition from which the change to a condition is measured; ``None`` if there is none.

    It is the one of which the experiment computes differences: the first one, or one that the experiment names. The
    conditions of ``position`` are orders, which exchange the parts of the context, so they have no reference.
    """
    experiment = _experiment_record(next(iter(aligned.runs.values())))
    if experiment.get("name") == "position":
        return None
    reference = (experiment.get("compared") or {}).get(condition, conditions[0])
    if reference == condition or reference not in conditions:
        return None
    return str(reference)


def _experiment_record(result: Result) -> Mapping[str, Any]:
    """Return the record of the experiment of a result, from its first data set that has one."""
    for scores in result.divided.values():
        if scores.get("experiment"):
            record: Mapping[str, Any] = scores["experiment"]
            return record
    return {}


def _has_runs(conditions: Sequence[AlignedRuns], pair: tuple[str, str]) -> bool:
    """Return whether both runs of a pair are compared in all conditions."""
    return all(run in aligned.runs for aligned in conditions for run in pair)


def _interaction(
    condition: str,
    reference: str,
    in_condition: AlignedRuns,
    in_reference: AlignedRuns,
    pair: tuple[str, str],
    coverage: float,
) -> Interaction:
    """Return the interaction of two runs in one condition, in the mean over the data sets of both conditions."""
    differences = []
    for dataset, paired in in_condition.datasets.items():
        if dataset in in_reference.datasets:
            differences.append(_difference_of_changes(paired, in_reference.datasets[dataset], pair))
    if not differences:
        untested = Untested("the conditions share no data set")
        return Interaction(condition, reference, 0, (None, None), None, None, untested)
    mean = mean_of_differences(differences)
    return Interaction(
        condition=condition,
        reference=reference,
        rows=mean.rows,
        changes=mean.values,
        difference=mean.difference,
        interval=interval_of_difference(mean, coverage),
        outcome=difference_outcome(mean),
    )


def _difference_of_changes(
    in_condition: PairedRecords, in_reference: PairedRecords, pair: tuple[str, str]
) -> RunDifference:
    """Return the difference of the changes of two runs on one data set, change of the first minus that of the second.

    A missing query of a run in the condition, or in the reference, has the lowest score where it makes the difference
    lowest: of the first run in the condition, and of the second run in the reference.
    """
    first, second = pair
    values = (_change(in_condition, in_reference, first), _change(in_condition, in_reference, second))
    missing = (
        in_condition.missing[first] + in_reference.missing[first],
        in_condition.missing[second] + in_reference.missing[second],
    )
    reason = None
    for paired in (in_condition, in_reference):
        for run in pair:
            reason = reason or paired.why_not_comparable(run)
    if in_condition.row_numbers.keys() != in_reference.row_numbers.keys():
        reason = "the conditions have different test rows"
    if reason is not None:
        return RunDifference(values, in_condition.rows, missing, None, reason)

    lowest = paired_tests.paired_difference(
        [*in_condition.contributions(first, "lowest"), *_negated(in_reference.contributions(first, "highest"))],
        [*in_condition.contributions(second, "highest"), *_negated(in_reference.contributions(second, "lowest"))],
    )
    highest = lowest
    if missing != (0, 0):
        highest = paired_tests.paired_difference(
            [*in_condition.contributions(first, "highest"), *_negated(in_reference.contributions(first, "lowest"))],
            [*in_condition.contributions(second, "lowest"), *_negated(in_reference.contributions(second, "highest"))],
        )
    return RunDifference(values, in_condition.rows, missing, (lowest, highest))


def _change(in_condition: PairedRecords, in_reference: PairedRecords, run: str) -> float | None:
    """Return the score of a run in a condition minus that in the reference; ``None`` if one of them is undefined."""
    score = in_condition.values[run]
    reference_score = in_reference.values[run]
    if score is None or reference_score is None:
        return None
    return score - reference_score


def _negated(weighted_contributions: WeightedContributions) -> WeightedContributions:
    """Return contributions with the opposite weights."""
    return [(-weight, contributions) for weight, contributions in weighted_contributions]
