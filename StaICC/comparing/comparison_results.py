"""Comparisons of runs as records: what was found, with the tables that print it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmark_names import class_name
from StaICC.comparing.cells import interval_cell, number_cell
from StaICC.comparing.comparable_scores import first_score_note
from StaICC.comparing.interactions import Interaction
from StaICC.comparing.setting_differences import Difference, field_in_words, note_on_prompts, shown_value
from StaICC.comparing.verdicts import Correction, Tested, TestOutcome, Untested, p_text
from StaICC.errors import ArgumentError
from StaICC.layout import Block, Displayed, Line, TextTable
from StaICC.metrics.equivalence import is_equivalent_within_margin
from StaICC.metrics.intervals import Interval
from StaICC.registry import import_reference
from StaICC.results.score_names import name_of_mean

COVERAGE = 0.95
"""Nominal coverage of the intervals of differences."""
ONE_SIDED_LEVEL = (1.0 - COVERAGE) / 2.0
"""Level of one-sided tests: that of one end of such an interval."""
MISSING_HEAD = "no score"
"""Head of the column with the number of queries of each run without a score."""


@dataclass(frozen=True, slots=True)
class DatasetComparison:
    """Two runs on one data set, their means over the data sets, or their means in a condition of an experiment."""

    dataset: str
    """The data set, the mean, or the condition."""
    rows: int
    """Test rows that both runs have."""
    queries: tuple[int, int]
    """Compared queries of the first and of the second run on these rows."""
    missing: tuple[int, int]
    """Number of these queries without a score, of the first and of the second run."""
    values: tuple[float | None, float | None]
    """The metric of the first and of the second run on the queries that have a score, as in their tables; ``None`` if
    no query of a data set (or of a condition) has one."""
    difference: float | None
    """First minus second; ``None`` if a value is undefined."""
    ends: tuple[float, float] | None
    """The lowest and the highest difference that the scores of missing queries allow. Both are the difference if no
    query is missing. ``None`` if they are not known."""
    interval: Interval | None
    """The confidence interval of the difference, valid for all possible scores of missing queries; ``None`` if it has
    no bound."""
    outcome: TestOutcome
    """The outcome of the paired test over test rows. Missing queries count at their worst for each direction.

    The p-value is corrected by Holm's method. On a data set, the correction is for all data sets and pairs of runs. For
    the mean, or the only data set, it is for both directions of all pairs of runs. In a condition of an experiment, it
    is for both directions of all pairs of runs too, and then for all conditions (Bonferroni).
    """
    detectable: float | None
    """The smallest true difference that the test finds with probability 0.8 at level 0.05; ``None`` if the runs differ
    on too few rows for any."""

    @property
    def p_value(self) -> float | None:
        """The p-value; ``None`` if untested."""
        if isinstance(self.outcome, Untested):
            return None
        return self.outcome.p_value

    @property
    def holm(self) -> float | None:
        """The corrected p-value; ``None`` if untested."""
        if isinstance(self.outcome, Untested):
            return None
        return self.outcome.corrected_p_value

    @property
    def low(self) -> float | None:
        """The lower end of the interval; ``None`` without one."""
        if self.interval is None:
            return None
        return self.interval.low

    @property
    def high(self) -> float | None:
        """The upper end of the interval; ``None`` without one."""
        if self.interval is None:
            return None
        return self.interval.high

    @property
    def has_missing(self) -> bool:
        """Whether a query of either run has no score."""
        return self.missing != (0, 0)


def better_run(
    line: DatasetComparison, outcome: TestOutcome, first: str, second: str, higher_is_better: bool
) -> str | None:
    """Return the name of the run that is shown to be better; ``None`` unless the difference is significant.

    Missing queries have no score, so the difference is not known exactly, only its lowest and its highest value
    (``line.ends``). A significant difference is positive for both or negative for both.

    Args:
        line: The two runs on a data set, on a subgroup of its rows, or in the mean.
        outcome: Their corrected test.
        first: Name of the first run.
        second: Name of the second run.
        higher_is_better: Whether higher values of the metric are better.
    """
    if isinstance(outcome, Untested) or not outcome.significant or line.ends is None:
        return None
    lowest_difference, _ = line.ends
    first_is_higher = lowest_difference > 0.0
    first_is_better = first_is_higher if higher_is_better else not first_is_higher
    return first if first_is_better else second


@dataclass(frozen=True, slots=True)
class NonInferiority:
    """The claim that a run is not worse than another by more than a margin, and whether it is shown.

    The claim is about the mean over the data sets, or about one condition of an experiment.
    """

    run: str
    """The run that is claimed to be not worse."""
    than: str
    """The other run."""
    margin: float
    """The largest difference that still counts as not worse."""
    p_value: float | None
    """The one-sided p-value, corrected for the pairs of runs (Holm) and for the conditions (Bonferroni); ``None`` if it
    is undefined."""
    shown: bool
    """Whether the claim is shown at the one-sided level 0.025, that of one end of a 95 % interval."""
    condition: str | None = None
    """The condition of an experiment; ``None`` if the claim is about the mean over the data sets."""

    def __str__(self) -> str:
        """Return the claim as a sentence: whether it is shown, with its p-value."""
        p_value = "undefined" if self.p_value is None else f"{self.p_value:.3g}"
        verdict = "shown" if self.shown else "not shown"
        text = (
            f"{self.run} not worse than {self.than} by more than {self.margin:g}: {verdict} "
            f"(one-sided p {p_value}, level {ONE_SIDED_LEVEL:.3g})"
        )
        if self.condition is not None:
            return f"{self.condition}: {text}"
        return text


@dataclass(frozen=True, slots=True)
class Equivalence:
    """The claim that two runs are equivalent within a margin, concluded from both claims of non-inferiority."""

    of_first: NonInferiority
    """The claim that the first run is not worse than the second."""
    of_second: NonInferiority
    """The claim that the second run is not worse than the first, with the same margin."""

    @property
    def margin(self) -> float:
        """The largest difference that still counts as equivalent."""
        return self.of_first.margin

    @property
    def condition(self) -> str | None:
        """The condition of an experiment; ``None`` if the claim is about the mean over the data sets."""
        return self.of_first.condition

    @property
    def p_value(self) -> float | None:
        """The p-value of two one-sided tests (TOST), the larger of the two; ``None`` if one of them is undefined."""
        if self.of_first.p_value is None or self.of_second.p_value is None:
            return None
        return max(self.of_first.p_value, self.of_second.p_value)

    @property
    def shown(self) -> bool:
        """Whether equivalence is shown."""
        return is_equivalent_within_margin(self.of_first.shown, self.of_second.shown)

    def __str__(self) -> str:
        """Return the conclusion as a sentence, behind the condition if there is one."""
        if self.condition is None:
            return self._sentence()
        return f"{self.condition}: {self._sentence()}"

    def _sentence(self) -> str:
        """Return the conclusion as a sentence, without the condition.

        Runs are equivalent if each is shown to be not worse than the other by more than the margin. If only one of
        these two claims is shown, the sentence says which.
        """
        first = self.of_first.run
        second = self.of_second.run
        if self.shown:
            return (
                f"{first} and {second} are equivalent within the margin of {self.margin:g} (two one-sided tests, "
                f"p {self.p_value:.3g}, level {ONE_SIDED_LEVEL:.3g})"
            )
        text = f"{first} and {second} are not shown to be equivalent within the margin of {self.margin:g}"
        if self.of_first.shown:
            return f"{text}: only {first} is shown to be not worse than {second}"
        if self.of_second.shown:
            return f"{text}: only {second} is shown to be not worse than {first}"
        return f"{text}: neither is shown to be not worse than the other"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON. ``conclusion`` is the sentence of the other formats."""
        return {
            "condition": self.condition,
            "margin": self.margin,
            "p_value": self.p_value,
            "shown": self.shown,
            "conclusion": str(self),
        }


def line_to_dict(line: DatasetComparison | Interaction) -> dict[str, Any]:
    """Return a line of a comparison as plain values.

    The outcome of its test is ``"tested"`` or ``"untested"``. All lines have the same keys: an untested one has
    ``None`` as ``p_value`` and ``holm``, and a tested one has ``None`` as ``reason``.
    """
    plain = dataclasses.asdict(line)
    outcome = plain["outcome"]  # the fields of Tested or of Untested
    plain["outcome"] = outcome["case"]
    plain["p_value"] = outcome.get("p_value")
    plain["holm"] = outcome.get("corrected_p_value")
    plain["reason"] = outcome.get("reason")
    return plain


def cells_of_values(line: DatasetComparison) -> dict[str, str]:
    """Return the cells of a table with the values of two runs and their difference, by column head."""
    first, second = line.values
    return {
        "first": number_cell(first, ".4f"),
        "second": number_cell(second, ".4f"),
        "difference": number_cell(line.difference, "+.4f"),
    }


def cells_of_test(line: DatasetComparison, corrected_head: str) -> dict[str, str]:
    """Return the cells of a table with the interval and the p-values of a difference, by column head.

    Args:
        line: Two runs on a data set, on a subgroup of its rows, or in the mean.
        corrected_head: Head of the column of the corrected p-value.
    """
    return {
        f"{100 * COVERAGE:g} % interval": interval_cell(line.interval),
        "p": number_cell(line.p_value, ".3g"),
        corrected_head: number_cell(line.holm, ".3g"),
    }


@dataclass(frozen=True, slots=True)
class Comparison(Displayed):
    """Two runs, compared by one metric."""

    benchmark: str
    metric: str
    higher_is_better: bool
    first: str
    """Name of the first run."""
    second: str
    models: tuple[str, str]
    """The models of the two runs, by name and short identity."""
    model_names: tuple[str, str]
    """The models of the two runs, without the identities."""
    differences: tuple[Difference, ...]
    """Settings and facts about the models in which the runs differ."""
    datasets: tuple[DatasetComparison, ...]
    """The data sets; of an experiment, its conditions."""
    mean: DatasetComparison | None
    """The means over the data sets, if there are several; ``None`` for an experiment."""
    non_inferiority: tuple[NonInferiority, ...]
    """The claims of non-inferiority in both directions; empty if no margin was given."""
    left_out: tuple[str, ...]
    """Data sets and queries that are not compared, and queries without a score, with the reason."""
    signature: str
    """The signature of the first run. The fields in which that of the second run differs are among the differences."""
    cluster_notes: tuple[str, ...]
    """A sentence for each data set whose compared test rows are in clusters. The scope has them, too."""
    correction: Correction
    """How the p-values are corrected, with those of the other pairs of runs."""
    notes: tuple[str, ...] = ()
    """How the runs are paired on data sets on which one has more queries for each test row than the other, and on which
    data sets the table of a run has another score than its records."""
    by_condition: bool = False
    """Whether the lines are the conditions of an experiment, which have no common mean."""
    interactions: tuple[Interaction, ...] = ()
    """Of an experiment: whether the change from one condition to another differs between the runs."""
    log_notes: tuple[str, ...] = ()
    """What is unusual in the logs from which the runs were read, each with the name of its run."""
    other_metrics: tuple[str, ...] = ()
    """The other scores of a benchmark without a main score, if its first one was taken; empty if a metric was given."""
    scope: tuple[str, ...] = ()
    """What limits intervals and tests: demonstrations that all test rows share, and rows in clusters. Empty if rows are
    independent and have demonstrations of their own (:mod:`StaICC.results.interval_scope`)."""

    @property
    def over_clusters(self) -> bool:
        """Whether the test of the mean is a t test over clusters of test rows, because a data set has clusters."""
        return bool(self.cluster_notes)

    @property
    def overall(self) -> DatasetComparison:
        """The line of the mean over the data sets, or of the only data set.

        Raises:
            ArgumentError: The runs are experiments, whose lines are conditions without a common mean. They are in
                :attr:`claims`.
        """
        if self.by_condition:
            raise ArgumentError("an experiment has no overall difference: read claims, which has its conditions")
        if self.mean is not None:
            return self.mean
        return self.datasets[0]  # without a mean, there is no other one

    @property
    def corrected_head(self) -> str:
        """The head of the column with the corrected p-values; those of conditions have a second correction."""
        if self.by_condition:
            return "p (corrected)"
        return self.correction.column

    @property
    def claims(self) -> list[DatasetComparison]:
        """The lines that decide which run is better.

        For an experiment, these are all its lines, one for each condition. Otherwise it is one line: the mean over the
        data sets, or the only data set.
        """
        if self.by_condition:
            return list(self.datasets)
        return [self.overall]

    @property
    def lines(self) -> list[DatasetComparison]:
        """The data sets, then their mean if there are several."""
        if self.mean is None:
            return list(self.datasets)
        return [*self.datasets, self.mean]

    @property
    def equivalences(self) -> list[Equivalence]:
        """Whether the runs are equivalent within the margin: one claim, or of an experiment one for each condition.

        The list is empty if no margin was given.
        """
        # Each pair of claims is adjacent: first that of the first run, then that of the second run.
        claims_of_first = self.non_inferiority[0::2]
        claims_of_second = self.non_inferiority[1::2]
        equivalences = []
        for of_first, of_second in zip(claims_of_first, claims_of_second, strict=True):
            equivalences.append(Equivalence(of_first, of_second))
        return equivalences

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads and the table rows of the comparison, as text; the mean comes last."""
        with_missing = any(line.has_missing for line in self.lines)
        # For each line its cells by column head. All lines have the same heads, in the same order.
        cells_by_head = [self._cells(line, with_missing) for line in self.lines]
        head = list(cells_by_head[0])
        rows = [list(cells.values()) for cells in cells_by_head]
        return head, rows

    def _cells(self, line: DatasetComparison, with_missing: bool) -> dict[str, str]:
        """Return the cells of a line of the table, by column head.

        Args:
            line: A data set, the mean, or a condition.
            with_missing: Whether the table has the column with the numbers of missing queries.
        """
        name_head = "data set"
        if self.by_condition:
            name_head = "condition"
        cells = {
            name_head: line.dataset,
            "rows": str(line.rows),
        }
        if with_missing:
            cells[MISSING_HEAD] = f"{line.missing[0]}, {line.missing[1]}"
        cells |= cells_of_values(line)
        cells |= cells_of_test(line, self.corrected_head)
        cells["detectable"] = number_cell(line.detectable, ".3f")
        return cells

    def shown_differences(self) -> list[Difference]:
        """Return the differences of the settings, without those that another line of the introduction states.

        A difference is left out in two cases:

        - It is that of the field ``model``, and the lines of the models have both names.
        - It is a part of the value of another setting. The difference in ``order`` is a part of that in ``scoring``,
          whose value is ``escape=C;order=12``.
        """
        shown = []
        for difference in self.differences:
            if difference.field == "model" and self._are_named_by_models(difference):
                continue
            if any(difference.is_part_of(setting) for setting in self._differences_with_parts()):
                continue
            shown.append(difference)
        return shown

    def _differences_with_parts(self) -> list[Difference]:
        """Return the differences in settings that have several parts, which semicolons separate."""
        several = []
        for difference in self.differences:
            if any(value is not None and ";" in value for value in (difference.first, difference.second)):
                several.append(difference)
        return several

    def _are_named_by_models(self, difference: Difference) -> bool:
        """Return whether the lines of the models of the runs have both values of a difference."""
        first_model, second_model = self.models
        if difference.first is None or difference.second is None:
            return False
        return difference.first in first_model and difference.second in second_model

    def difference_in(self, field: str) -> Difference | None:
        """Return the difference in a setting; ``None`` if the runs do not differ in it."""
        for difference in self.differences:
            if difference.field == field:
                return difference
        return None

    def introduction(self) -> list[str]:
        """Return the sentences above the table: metric, models, differences of the settings, what is left out."""
        return [line.text for line in self.introduction_lines()]

    def introduction_lines(self) -> list[Line]:
        """Return the sentences above the table as lines, whose captions have no digests."""
        direction = "higher" if self.higher_is_better else "lower"
        lines = [Line(f"metric: {name_of_mean(self.metric, self.benchmark)} ({direction} is better)")]
        if self.other_metrics:
            lines.append(Line(first_score_note(self.other_metrics)))
        lines += self._lines_of_models()
        lines += self._lines_of_differences()
        lines += [Line(f"left out: {reason}") for reason in self.left_out]
        lines += [Line(f"note: {note}") for note in self.notes]
        lines += [Line(f"note: {note}") for note in self.log_notes]
        return lines

    def _lines_of_models(self) -> list[Line]:
        """Return the model of both runs, or of each run; the caption has its name without the identity."""
        first_model, second_model = self.models
        first_name, second_name = self.model_names
        if first_model == second_model:
            return [Line(f"model of both: {first_model}", caption=f"model of both: {first_name}")]
        return [
            Line(f"first: {first_model}", caption=f"first: {first_name}"),
            Line(f"second: {second_model}", caption=f"second: {second_name}"),
        ]

    def _lines_of_differences(self) -> list[Line]:
        """Return the lines about the settings in which the runs differ.

        Each setting that both runs have has a line, such as ``they differ in k: 4 and 8``. Then all settings that only
        the first run has are in one line, and those that only the second run has in another one.

        A line has a text and a caption, which replaces it below a table of a paper. Captions have no digests, such as
        that of the code of a method, which readers of a paper cannot use.
        """
        lines = []
        only_first = []
        only_second = []
        for difference in self.shown_differences():
            both_runs_have_it = difference.first is not None and difference.second is not None
            if both_runs_have_it:
                lines.append(_line_of_both_runs(difference))
            elif difference.first:
                only_first.append(difference)
            elif difference.second:
                only_second.append(difference)
        if only_first:
            lines.append(_line_of_one_run("only the first has", only_first))
        if only_second:
            lines.append(_line_of_one_run("only the second has", only_second))
        note = note_on_prompts(self.differences)
        if note is not None:
            lines.append(Line(f"note: {note}", caption=""))
        return lines

    def conclusion(self) -> list[str]:
        """Return the sentences below the table: which run is better, what is untested, what limits the intervals."""
        texts = []
        for line in self.claims:
            if isinstance(line.outcome, Tested):
                texts.append(self._claim(line, line.outcome))
        for line in self.lines:
            if isinstance(line.outcome, Untested):
                texts.append(f"untested: {line.dataset} ({line.outcome.reason})")
        texts += [str(claim) for claim in self.non_inferiority]
        texts += [str(equivalence) for equivalence in self.equivalences]
        texts += [str(interaction) for interaction in self.interactions]
        texts += self.scope
        return texts

    def _claim(self, line: DatasetComparison, outcome: Tested) -> str:
        """Return the sentence that says which run is better, or that none is shown to be better, with the p-value."""
        text = f"{self._answer(line, outcome)} ({p_text(outcome.corrected_p_value)})"
        if self.by_condition:
            return f"{line.dataset}: {text}"
        return text

    def _answer(self, line: DatasetComparison, outcome: Tested) -> str:
        """Return which run is better as words."""
        better = self.better_run(line, outcome)
        if better is None:
            return "neither run is shown to be better"
        return f"{better} is better"

    def better_run(self, line: DatasetComparison, outcome: Tested) -> str | None:
        """Return the run that is better by a line of the table; ``None`` if the difference is not significant."""
        return better_run(line, outcome, self.first, self.second, self.higher_is_better)

    def plot(self) -> Any:
        """Return a forest plot of the differences by data set, as matplotlib axes.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        return forest_plot([self])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        The data sets, the mean and the interactions are lines (:func:`line_to_dict`).
        """
        plain = dataclasses.asdict(self)
        plain["datasets"] = tuple(line_to_dict(dataset) for dataset in self.datasets)
        if self.mean is not None:
            plain["mean"] = line_to_dict(self.mean)
        plain["interactions"] = tuple(line_to_dict(interaction) for interaction in self.interactions)
        plain["differences"] = [difference.to_dict() for difference in self.differences]
        plain["equivalence"] = [equivalence.to_dict() for equivalence in self.equivalences]
        del plain["cluster_notes"]  # the scope has them
        if not self.scope:
            del plain["scope"]
        return plain

    def interaction_table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column heads and the rows of the table of interactions, as text."""
        # For each interaction its cells by column head. All have the same heads, in the same order.
        cells_by_head = [interaction.cells() for interaction in self.interactions]
        head = list(cells_by_head[0])
        rows = [list(cells.values()) for cells in cells_by_head]
        return head, rows

    def display_blocks(self) -> list[Block]:
        """Return the title, the introduction, the table, the conclusion, and the signature of the first run."""
        tables: list[Block] = [TextTable(*self.table())]
        if self.interactions:
            tables.append(Line("Changes from one condition to another, and whether they differ between the runs:"))
            tables.append(TextTable(*self.interaction_table()))
        return [
            Line(f"{class_name(self.benchmark)}: {names_in_title(self.first, self.second)}", "title"),
            *self.introduction_lines(),
            *tables,
            *[Line(text) for text in self.conclusion()],
            Line(f"The signature of {self.first}:", "code"),
            Line(self.signature, "code"),
        ]


def names_in_title(first: str, second: str) -> str:
    """Return the names of the runs of a comparison for its title, with their order.

    Example:
        >>> names_in_title("a", "b"), names_in_title("first", "second")
        ('first a, second b', 'first and second')
    """
    if (first, second) == ("first", "second"):
        return "first and second"
    return f"first {first}, second {second}"


def _line_of_both_runs(difference: Difference) -> Line:
    """Return the line about a setting that both runs have, with different values."""
    text = f"they differ in {difference}"
    if difference.has_digest:
        return Line(text, caption="")  # The empty caption leaves out the line.
    return Line(text)  # The caption is the text.


def _line_of_one_run(beginning: str, differences: Sequence[Difference]) -> Line:
    """Return the line about all settings that only one run has, such as ``only the first has method: topk; limit: 20``.

    Its caption has the settings without a digest. If all have digests, the caption is empty, which leaves out the line.

    Args:
        beginning: The words before the settings.
        differences: The differences in these settings. The value of the other run is ``None`` or empty.
    """
    settings = []
    settings_of_caption = []
    for difference in differences:
        setting = f"{field_in_words(difference.field)}: {shown_value(difference.first or difference.second)}"
        settings.append(setting)
        if not difference.has_digest:
            settings_of_caption.append(setting)
    caption = ""
    if settings_of_caption:
        caption = f"{beginning} {'; '.join(settings_of_caption)}"
    return Line(f"{beginning} {'; '.join(settings)}", caption=caption)


def forest_plot(compared: object, plotter: str = "differences") -> Any:
    """Return a forest plot of differences of runs, as matplotlib axes.

    Args:
        compared: The comparisons of several pairs of runs, or what else the plotter takes.
        plotter: The name of the function that draws them. It is loaded by name: comparisons know no figures.
    """
    draw_differences = import_reference(f"StaICC.report.figures.difference_plot:{plotter}")
    figure = draw_differences(compared)
    return figure.axes()[0]
