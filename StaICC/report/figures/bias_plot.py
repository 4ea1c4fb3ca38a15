"""The figure of mean predictions, which show preferred labels."""

from __future__ import annotations

from StaICC import benchmark_names
from StaICC.errors import ArgumentError
from StaICC.metrics.diagnosis import label_frequencies
from StaICC.report.chart import SHARE_AXIS, Point, chart
from StaICC.report.chart_scores import ChartScore
from StaICC.report.figure import Figure
from StaICC.report.runs_by_name import Given, dataset_names, left_out_note, named
from StaICC.report.shapes import Shape
from StaICC.results.result import Result

_PREDICTED_FROM = {
    benchmark_names.CONTEXTUAL_BIAS: "empty query",
    benchmark_names.DOMAIN_BIAS: "random words",
    benchmark_names.POSTERIOR_BIAS: "test queries",
}
"""The queries of the bias benchmarks."""


def bias_distributions(given: Given) -> Figure:
    """Return the mean predictions of the bias benchmarks over the labels of each data set.

    Args:
        given: A result of a bias benchmark, or the results of one run, such as a group of results.

    Raises:
        ArgumentError: There are no distributions, or two results are of one benchmark.
    """
    results = {result.benchmark: result for result in named(given).values()}
    if len(results) < len(named(given)):
        raise ArgumentError(f"expected the results of one run, got {', '.join(named(given))}. Plot them one by one")
    points: list[Point] = []
    lines = {}
    for dataset in dataset_names(results):
        for benchmark in _PREDICTED_FROM:
            if benchmark not in results:
                continue
            points_of_benchmark, label_count = _points(results[benchmark], dataset)
            points += points_of_benchmark
            if points_of_benchmark:
                uniform = [(1 / label_count, -0.5), (1 / label_count, label_count - 0.5)]
                lines[dataset] = [Shape(uniform, kind="dashed")]
    return chart(
        "Mean predictions",
        "Mean predicted probability of each label for empty queries, random words and test queries, and the "
        "frequencies of the true labels. The dashed line is the uniform distribution." + left_out_note(given),
        ["data set", "queries", "label", "mean prediction"],
        points,
        needs="no result has a mean prediction. Use results of the bias benchmarks",
        values=SHARE_AXIS,
        lines=lines,
        legend=[Shape(kind="dashed", text="uniform")],
        dodge=0.2,
    )


def _points(result: Result, dataset: str) -> tuple[list[Point], int]:
    """Return the mean predictions on a data set, and the number of labels; no points without a distribution.

    Test queries have points for the frequencies of their true labels, too.
    """
    distribution = result.divided.get(dataset, {}).get("distribution")
    if not isinstance(distribution, (list, tuple)):
        return [], 0
    details = result.details[dataset]
    labels = details.labels or tuple(str(label) for label in range(len(distribution)))
    shares_by_series = {_PREDICTED_FROM[result.benchmark]: distribution}
    if result.benchmark == benchmark_names.POSTERIOR_BIAS and details.conditions:
        shares_by_series["true labels"] = label_frequencies(details.conditions[0].truth, len(labels))
    points = []
    for series, shares in shares_by_series.items():
        for label, share in zip(labels, shares, strict=True):
            points.append(Point(dataset, series, label, ChartScore(share)))
    return points, len(labels)
