"""All pairs of runs of a benchmark, compared, with their ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmark_names import class_name
from StaICC.comparing.comparison_results import MISSING_HEAD, Comparison, forest_plot
from StaICC.comparing.overview import meaning_of_overview, overview_blocks
from StaICC.comparing.ranking import MISSING_NOTE, Rank, rank_table
from StaICC.comparing.verdicts import Best, Correction, CorrectionMethod, Untested
from StaICC.layout import Block, Displayed, Line, shared_lines
from StaICC.metrics.paired_tests import SIGNIFICANCE_LEVEL


@dataclass(frozen=True, slots=True)
class BenchmarkComparison(Displayed):
    """Several runs, compared by one metric of one benchmark."""

    benchmark: str
    metric: str
    comparisons: tuple[Comparison, ...]
    ranking: tuple[Rank, ...]
    """The runs, the best first."""
    left_out: tuple[str, ...]
    """Runs and data sets that are not compared, with the reason."""

    @property
    def correction(self) -> Correction:
        """How the p-values of all pairs of runs are corrected."""
        return self.comparisons[0].correction

    def display_blocks(self) -> list[Block]:
        """Return the table of each pair, and the ranking."""
        return display_comparisons([self])

    def fits_overview(self) -> bool:
        """Return whether the comparison is one overview: of three or more runs that have a mean."""
        return len(self.ranking) > 2 and not any(pair.by_condition for pair in self.comparisons)

    def plot(self) -> Any:
        """Return a forest plot of the differences from the best run, as matplotlib axes.

        Without a ranking, the plot has the differences of all compared pairs.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        if not self.ranking:
            return forest_plot(self.comparisons)
        best = self.ranking[0].run
        return forest_plot([pair for pair in self.comparisons if best in (pair.first, pair.second)])


_CORRECTED_FOR: Mapping[CorrectionMethod, str] = {
    "Holm": "of a data set, corrected for data sets and pairs of runs, of the mean, for pairs of runs and directions",
    "Bonferroni": (
        "of a data set, corrected for data sets and all pairs of runs, of the mean, for all pairs of runs, because "
        "the best run, with which each is compared, was chosen by the same data"
    ),
}
"""The meaning of corrected p-values, by the method of their correction."""
_CONDITIONS_CORRECTED_FOR: Mapping[CorrectionMethod, str] = {
    "Holm": "corrected for pairs of runs and directions (Holm), and for the conditions (Bonferroni)",
    "Bonferroni": (
        "corrected for all pairs of runs and for the conditions (Bonferroni), because the best run, with which each is "
        "compared, was chosen by the same data"
    ),
}
_INTERACTIONS_CORRECTED_FOR: Mapping[CorrectionMethod, str] = {
    "Holm": "for all interactions and directions (Holm)",
    "Bonferroni": "for the interactions of all pairs of runs (Bonferroni)",
}
_MEANING_BEFORE = (
    "difference: first minus second, with its interval over test rows; p: paired test over test rows (-: untested); "
)
_MEANING_BEHIND = (
    "; detectable: if the true difference were this large, a test on such rows would be significant (level 0.05) with "
    "probability 0.8 (-: too few rows differ to state one)"
)

_MEANING_OF_MISSING = (
    f"{MISSING_HEAD}: queries of the first, and of the second run, that failed or whose reply has no label. The values "
    "are those of the other queries (-: a data set has none); in intervals and p, missing queries count at their worst "
    "for each direction"
)
_MEANING_OF_CONDITIONS = "the conditions of an experiment have no common mean"


def display_comparisons(comparisons: Sequence[BenchmarkComparison]) -> list[Block]:
    """Return comparisons and rankings as tables, with the meaning of their columns below.

    Lines that all tables share are above the first one, once.

    Args:
        comparisons: The comparisons.
    """
    tables: list[list[Block]] = []  # each with its lines
    corrections_of_overviews = []
    pairs: list[Comparison] = []  # those that have a table of their own
    for comparison in comparisons:
        if comparison.fits_overview():
            tables.append(_overview(comparison))
            corrections_of_overviews.append(comparison.correction)
        else:
            tables += groups_of_blocks([comparison])
            pairs += comparison.comparisons
    tables_without_shared, shared = shared_lines(tables)
    blocks: list[Block] = list(shared)
    for table in tables_without_shared:
        blocks += [*table, Line("")]

    if corrections_of_overviews:
        blocks.append(Line(meaning_of_overview(corrections_of_overviews)))
    if pairs:
        blocks.append(Line(_meaning(pairs)))
    if any(line.has_missing for pair in pairs for line in pair.lines):
        blocks.append(Line(_MEANING_OF_MISSING))
    if any(pair.by_condition for pair in pairs):
        blocks.append(Line(_MEANING_OF_CONDITIONS))
    blocks += [Line(text) for text in _meanings_of_interactions(pairs)]
    return blocks


def _meaning(pairs: Sequence[Comparison]) -> str:
    """Return the meaning of the columns of the tables of pairs of runs."""
    meanings_of_correction = []
    for pair in pairs:
        corrected_for = _CORRECTED_FOR[pair.correction.method]
        if pair.by_condition:
            corrected_for = _CONDITIONS_CORRECTED_FOR[pair.correction.method]
        meanings_of_correction.append(f"{pair.corrected_head}: {corrected_for}")
    distinct_meanings = dict.fromkeys(meanings_of_correction)
    return _MEANING_BEFORE + "; ".join(distinct_meanings) + _MEANING_BEHIND


def _meanings_of_interactions(pairs: Sequence[Comparison]) -> list[str]:
    """Return the meaning of the tables of interactions, for each correction; empty without interactions."""
    methods = dict.fromkeys(pair.correction.method for pair in pairs if pair.interactions)
    texts = []
    for method in methods:
        texts.append(
            "interaction: the change of the score from one condition to the other of the first run, minus that of the "
            "second run, with its interval over test rows; p (corrected): "
            f"{_INTERACTIONS_CORRECTED_FOR[method]}"
        )
    return texts


def groups_of_blocks(comparisons: Sequence[BenchmarkComparison]) -> Iterator[list[Block]]:
    """Yield for each benchmark the blocks of each pair of runs, then those of the ranking of three or more runs."""
    for comparison in comparisons:
        for pair in comparison.comparisons:
            yield pair.display_blocks()
        if len(comparison.ranking) > 2:  # of two runs, the comparison says it all
            yield _ranking_blocks(comparison)


def _overview(comparison: BenchmarkComparison) -> list[Block]:
    """Return three or more runs as one overview, with the ranking and the signature of one of them."""
    first_pair = comparison.comparisons[0]
    ranking = _ranking_blocks(comparison, with_reasons=False)[1:]  # the title is that of the overview
    return [
        *overview_blocks(comparison.comparisons, [rank.run for rank in comparison.ranking]),
        Line(""),
        *ranking,
        *[Line(text) for text in _reasons_of_ranking(comparison)],
        Line(f"The signature of {first_pair.first}:", "code"),
        Line(first_pair.signature, "code"),
    ]


def _reasons_of_ranking(comparison: BenchmarkComparison) -> list[str]:
    """Return a sentence for each reason why runs are untested in the ranking, with the names of these runs.

    A reason is left out for a run if the pair of this run and a best one is untested for the same reason: the lines
    about pairs have it. But a pair can be tested on the data sets that both runs have although the run is untested in
    the ranking, whose means are over all data sets of each run.
    """
    best_runs = [rank.run for rank in comparison.ranking if isinstance(rank.verdict, Best)]
    shown_reasons: dict[str, list[str]] = {}  # by run, why its pairs with a best run are untested
    for pair in comparison.comparisons:
        outcome = pair.overall.outcome
        if not isinstance(outcome, Untested):
            continue
        if pair.first in best_runs:
            shown_reasons.setdefault(pair.second, []).append(outcome.reason)
        if pair.second in best_runs:
            shown_reasons.setdefault(pair.first, []).append(outcome.reason)

    runs_by_reason: dict[str, list[str]] = {}
    for rank in comparison.ranking:
        if not isinstance(rank.verdict, Untested):
            continue
        reason = rank.verdict.reason
        if reason not in shown_reasons.get(rank.run, []):
            runs_by_reason.setdefault(reason, []).append(rank.run)
    return [f"untested in the ranking: {', '.join(runs)} ({reason})" for reason, runs in runs_by_reason.items()]


def _ranking_blocks(comparison: BenchmarkComparison, with_reasons: bool = True) -> list[Block]:
    """Return the table with the ranking of the runs of a benchmark, and the meaning of its columns.

    The p-values of the verdicts are corrected by Holm's method. Of many runs, each is compared with the best one only
    (:func:`~StaICC.comparing.alignment.compared_pairs`). The best run was chosen by the same data, so these p-values
    are corrected for all pairs by Bonferroni's method. It is stricter: a run can be tied here although
    :func:`~StaICC.comparing.ranking.rank`, with Holm's method, shows it to be worse.
    """
    if comparison.correction.method == "Bonferroni":
        correction = "Bonferroni for all pairs, so it can be tied where rank, with Holm's correction, has worse"
    else:
        correction = "Holm"
    meaning = f"The verdict is in comparison with the best run ({correction}; level {SIGNIFICANCE_LEVEL:g})."
    if any(rank.groups for rank in comparison.ranking):
        meaning += " Runs share a letter if they are not shown to differ."
    blocks: list[Block] = [
        Line(f"{class_name(comparison.benchmark)}: ranking", "title"),
        rank_table(comparison.ranking, comparison.metric, with_reasons),
        Line(meaning),
    ]
    if any(rank.missing for rank in comparison.ranking):
        blocks.append(Line(MISSING_NOTE))
    return blocks
