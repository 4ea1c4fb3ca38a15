"""The forest plot of differences between runs, by data set or by subgroup of test rows."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.comparing.comparison_results import Comparison, DatasetComparison, better_run
from StaICC.comparing.subgroup_results import ALL_ROWS, SubgroupComparison
from StaICC.comparing.verdicts import Tested, corrected_column, p_text
from StaICC.errors import ArgumentError
from StaICC.report.chart import Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.html import Missing
from StaICC.report.shapes import Shape

_FIRST = "first is better"
_SECOND = "second is better"
_OTHER = "other"
_COLOURS = {_FIRST: 0, _SECOND: 1, _OTHER: None}
"""The numbers of the series, which decide their colours: blue is better, also where lower values are."""


def differences(compared: Sequence[Comparison]) -> Figure:
    """Return a forest plot of the differences between runs.

    For one pair of runs, a row is a data set or the mean. For several pairs, a row is a pair with its mean difference,
    or, in an experiment, a condition of a pair.

    Args:
        compared: Comparisons by one metric, one for each pair.

    Raises:
        ArgumentError: There are none, or an argument is something else.
    """
    if not compared:
        raise ArgumentError("a figure needs a comparison of two runs at least")
    _check_comparisons(compared)
    first_pair = compared[0]
    title = f"Difference in {first_pair.metric}"
    points = []
    better = ("first", "second")  # the runs in the legend
    if len(compared) == 1:
        row_kind = "data set"
        better = (first_pair.first, first_pair.second)
        title += f": {first_pair.first} - {first_pair.second}"
        for line in first_pair.lines:
            points.append(_point(title, line.dataset, line, first_pair.higher_is_better))
    else:
        row_kind = "runs"
        all_have_same_first_run = all(pair.first == first_pair.first for pair in compared)
        if all_have_same_first_run:
            row_kind = "second run"
            better = (first_pair.first, "second")
            title += f": {first_pair.first} - ..."
        for pair in compared:
            name_of_pair = f"{pair.first} - {pair.second}"
            if all_have_same_first_run:
                name_of_pair = pair.second
            # The claims of a pair are its tested differences: that of the mean, or those of all conditions.
            for claim in pair.claims:
                name = f"{name_of_pair}, {claim.dataset}" if pair.by_condition else name_of_pair
                points.append(_point(title, name, claim, pair.higher_is_better))
    return _difference_chart(
        title, row_kind, better, first_pair.correction.method, first_pair.corrected_head, points, width=360
    )


def _check_comparisons(compared: object) -> None:
    """Raise an :class:`~StaICC.errors.ArgumentError` if this is not a sequence of comparisons of two runs each.

    A single comparison is the likeliest mistake, so that the message for it says what to write.
    """
    if isinstance(compared, Comparison):
        raise ArgumentError("compared: got one comparison, expected a list of them: [comparison]")
    if not isinstance(compared, Sequence) or isinstance(compared, str):
        raise ArgumentError(f"compared: got {compared!r:.40}, expected a list of comparisons, such as [compare(a, b)]")
    for number, comparison in enumerate(compared):
        if not isinstance(comparison, Comparison):
            raise ArgumentError(
                f"compared: number {number} is {comparison!r:.40}, expected a comparison of two runs, "
                "such as compare(a, b)"
            )


def subgroup_differences(compared: SubgroupComparison) -> Figure:
    """Return a forest plot of the differences of two runs on subgroups of test rows.

    A row is a subgroup of a data set. Below the subgroups of a data set is the difference on all its rows, in grey:
    its p-value is not one of the corrected ones.

    Args:
        compared: The comparison on subgroups.

    Raises:
        ArgumentError: It is something else.
    """
    if not isinstance(compared, SubgroupComparison):
        raise ArgumentError(
            f"compared: got {compared!r:.40}, expected a comparison on subgroups, such as compare_subgroups(runs)[0]"
        )
    title = f"Difference in {compared.metric}: {compared.first} - {compared.second}"
    points = []
    for whole in compared.all_rows:
        dataset = whole.line.dataset
        for subgroup in compared.subgroups:
            if subgroup.line.dataset == dataset:
                name = f"{dataset}, {subgroup.group}"
                points.append(_point(title, name, subgroup.line, compared.higher_is_better))
        points.append(
            Point(
                title,
                _OTHER,
                f"{dataset} ({ALL_ROWS})",
                _score(whole.line),
                more=(Missing("not corrected with those of the subgroups"),),
            )
        )
    better = (compared.first, compared.second)
    p_head = corrected_column(compared.method)
    return _difference_chart(title, "data set, subgroup", better, compared.method, p_head, points, width=480)


def _difference_chart(
    title: str,
    row_kind: str,
    better: tuple[str, str],
    correction: str,
    p_head: str,
    points: Sequence[Point],
    width: int,
) -> Figure:
    """Return the chart of differences, with a vertical line at no difference.

    Args:
        title: Title of the figure and of its only panel.
        row_kind: What a row is, as the head of a column of the table.
        better: The first and the second run in the legend: their names, or ``first`` and ``second`` if the pairs have
            several.
        correction: The method by which p-values are corrected.
        p_head: Head of the column of corrected p-values.
        points: The differences, a row each.
        width: Width of the panel in pixels, the names of the rows included.
    """
    legend = []
    for series, run in zip((_FIRST, _SECOND), better, strict=True):
        legend.append(Shape(series=_COLOURS[series], kind="mark", text=f"{run} is better, significantly"))
    no_difference = Shape([(0, -0.5), (0, len(points) - 0.5)])  # through all rows
    return chart(
        title,
        f"First minus second run, with intervals. Grey differences are not significant ({correction}).",
        ["", "", row_kind, "difference", p_head],
        points,
        series=_COLOURS,
        lines={title: [no_difference]},
        legend=legend,
        width=width,
    )


def _point(panel: str, name: str, line: DatasetComparison, higher_is_better: bool) -> Point:
    """Return the point of a difference, in the colour of the run that is significantly better.

    Args:
        panel: Title of the panel.
        name: Name of the row.
        line: The difference.
        higher_is_better: Whether larger values are better.
    """
    # The name of the series; None if neither run is significantly better.
    series = better_run(line, line.outcome, _FIRST, _SECOND, higher_is_better) or _OTHER
    if isinstance(line.outcome, Tested):
        p_cell = p_text(line.outcome.corrected_p_value)
    else:
        p_cell = Missing(line.outcome.reason)
    return Point(panel, series, name, _score(line), more=(p_cell,))


def _score(line: DatasetComparison) -> ChartScore:
    """Return a difference with its interval, or with the reason why it has none."""
    reason = "it has no bound" if line.difference is not None else "no query of a data set has a score"
    return ChartScore(line.difference, line.interval, reason, left_out=sum(line.missing))
