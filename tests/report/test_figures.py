"""Figures: the numbers in the SVG are those of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from StaICC import Generalisation, Normal
from StaICC.comparing.comparison import compare, compare_runs
from StaICC.errors import ArgumentError
from StaICC.report.colours import DARK, LIGHT
from StaICC.report.figures.accuracy_plot import accuracy_by_dataset
from StaICC.report.figures.bias_plot import bias_distributions
from StaICC.report.figures.confusion_plot import confusion_matrices
from StaICC.report.figures.cost_plot import cost_chart
from StaICC.report.figures.difference_plot import differences
from StaICC.report.figures.forest_plot import forest
from StaICC.report.figures.noise_plot import noise_lines
from StaICC.report.figures.reliability_plot import reliability_diagrams
from StaICC.report.figures.rounds_plot import rounds_chart
from StaICC.report.figures.shots_plot import shots_chart
from StaICC.report.page import report_html
from StaICC.report.shapes import Panel, Shape
from StaICC.report.svg import panel_svg
from StaICC.results.result import Result, ResultGroup

PIXEL = 0.011
"""Coordinates have two decimals."""
PIXELS = [(0.0, 0.0), (1.0, 1.0)]
"""The scale of an axis without numbers."""


class Drawn:
    """What the SVG of a panel shows, in the units of its axes, read from its tick labels and its coordinates.

    Attributes:
        title: The first text.
        names: The names of rows, left of the panel.
        points: Both coordinates and the tip of each mark.
        lines: The ends of each line without dashes; only their first coordinates are in units of the axis.
    """

    def __init__(self, panel: Panel) -> None:
        root = ElementTree.fromstring(panel_svg(panel))
        texts = list(root.iter("text"))
        below = [text for text in texts if text.get("text-anchor") == "middle"]
        left = [text for text in texts if text.get("text-anchor") == "end"]
        assert_legible(left)
        self.title = texts[0].text
        self.names = [text.text for text in left if not is_number(text)]

        # The baseline of a text is 4 pixels below the tick that it names.
        x_ticks = [(coordinate(text, "x"), float(text.text or "")) for text in below if is_number(text)]
        y_ticks = [(coordinate(text, "y") - 4, float(text.text or "")) for text in left if is_number(text)]
        self.points: list[tuple[float, float, str]] = []
        for mark in root.iterfind(".//*[@transform]"):
            if mark.get("class", "").startswith("fill-"):
                x, y, _ = re.findall(r"[\d.-]+", mark.get("transform", ""))
                tip = mark.findtext("title")
                assert tip is not None
                self.points.append((scaled(float(x), x_ticks or PIXELS), scaled(float(y), y_ticks or PIXELS), tip))
        self.lines: list[list[tuple[float, float]]] = []
        for path in root.iter():
            is_series = re.fullmatch(r"stroke-series-\d", path.get("class", "")) is not None
            if is_series and not path.get("stroke-dasharray"):
                ends = re.findall(r"([\d.-]+) ([\d.-]+)", path.get("d", ""))
                self.lines.append([(scaled(float(x), x_ticks or PIXELS), float(y)) for x, y in ends])

    def tips(self) -> list[float]:
        """Return the number at the end of each tip."""
        return [float(tip.rsplit(": ", 1)[1]) for _, _, tip in self.points]


def coordinate(text: ElementTree.Element, axis: str) -> float:
    """Return the pixel of a text on the axis ``x`` or ``y``."""
    return float(text.get(axis, 0))


def assert_legible(left: Sequence[ElementTree.Element]) -> None:
    """Assert that no text left of a panel is cut off or overlaps the next one; a letter has at most 7.5 pixels."""
    for text in left:
        assert coordinate(text, "x") >= 7.5 * len(text.text or ""), f"{text.text} is cut off"
    for text, next_text in pairwise(left):
        assert abs(coordinate(text, "y") - coordinate(next_text, "y")) > 14, f"{text.text} overlaps {next_text.text}"


def is_number(text: ElementTree.Element) -> bool:
    """Return whether a text is a number, as those of ticks."""
    return re.fullmatch(r"[\d.]+", text.text or "") is not None


def scaled(pixel: float, ticks: Sequence[tuple[float, float]]) -> float:
    """Return the value of a coordinate on an axis, of which ticks are given as pairs of coordinate and value."""
    (first_pixel, first_value), (last_pixel, last_value) = ticks[0], ticks[-1]
    share = (pixel - first_pixel) / (last_pixel - first_pixel)
    return first_value + share * (last_value - first_value)


def near(expected: Any) -> Any:
    """Return what equals a value up to the rounding of coordinates."""
    return pytest.approx(expected, abs=PIXEL / 100)


FIGURES: dict[str, Callable[[ResultGroup, Result], Any]] = {
    "accuracy": lambda suite, long_icl: accuracy_by_dataset(suite["Normal"]),
    "reliability of one run": lambda suite, long_icl: reliability_diagrams(suite["Normal"]),
    "reliability of two runs": lambda suite, long_icl: reliability_diagrams(dict.fromkeys("ab", suite["Normal"])),
    "bias": lambda suite, long_icl: bias_distributions(suite),
    "label noise": lambda suite, long_icl: noise_lines(suite["GLER"]),
    "rounds": lambda suite, long_icl: rounds_chart(long_icl),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_an_svg_document_with_a_table_of_its_numbers(
    name: str, suite: ResultGroup, long_icl: Result, tmp_path: Path
) -> None:
    figure = FIGURES[name](suite, long_icl)
    figure.save(tmp_path / "figure.svg")
    root = ElementTree.fromstring((tmp_path / "figure.svg").read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert figure._repr_svg_() == (tmp_path / "figure.svg").read_text("utf-8")
    assert {len(row) for row in figure.rows} == {len(figure.head)}


def test_accuracies_and_intervals_are_those_of_the_result(normal: Result) -> None:
    figure = accuracy_by_dataset({"one run": normal, "other": normal})
    for panel, (dataset, values) in zip(figure.panels, normal.divided.items(), strict=True):
        drawn = Drawn(panel)
        assert (drawn.title, drawn.names) == (dataset, ["one run", "other"])
        accuracy = values["accuracy"]
        assert [x for x, _, _ in drawn.points] == near([accuracy, accuracy])
        assert drawn.tips() == pytest.approx([accuracy, accuracy], abs=5e-5)
        interval = normal.details[dataset].intervals["accuracy"]
        for line in drawn.lines:
            assert tuple(x for x, _ in line) == near((interval.low, interval.high)), dataset
        assert len(drawn.lines) == 2


def test_the_table_of_accuracies_has_those_of_the_result_and_the_baselines(normal: Result) -> None:
    figure = accuracy_by_dataset({"one run": normal, "other": normal})
    assert {row[1] for row in figure.rows} == {"one run", "other"}
    for dataset, _, accuracy, _, random, majority in figure.rows:
        baselines = normal.details[dataset].baselines["normal"]
        assert accuracy == f"{normal.divided[dataset]['accuracy']:.4f}"
        assert random == f"{baselines.max_random:.4f}"
        assert majority == f"{baselines.majority:.4f}"


def points_of(panel: Panel) -> list[tuple[float, float]]:
    """Return the places of the points of a panel, in the units of its axes."""
    return [(x, y) for x, y, _ in Drawn(panel).points]


def bins_of(details: Any) -> Any:
    """Return the calibration bins of a data set: queries, sum of their confidences, and correct ones."""
    bins = details.conditions[0].calibration
    assert bins is not None
    return bins


def test_reliability_points_of_a_run_are_the_bins_of_each_data_set(normal: Result) -> None:
    for panel, details in zip(reliability_diagrams(normal).panels, normal.details.values(), strict=True):
        full = [calibration_bin for calibration_bin in bins_of(details) if calibration_bin.queries > 0]
        expected = [
            near((full_bin.confidence / full_bin.queries, full_bin.correct / full_bin.queries)) for full_bin in full
        ]
        assert points_of(panel) == expected


def test_reliability_points_of_several_runs_pool_the_bins_of_their_data_sets(normal: Result) -> None:
    (panel,) = reliability_diagrams({"a": normal}).panels
    expected = []
    for same_bin_of_each_dataset in zip(*map(bins_of, normal.details.values()), strict=True):
        queries = sum(calibration_bin.queries for calibration_bin in same_bin_of_each_dataset)
        confidence = sum(calibration_bin.confidence for calibration_bin in same_bin_of_each_dataset)
        correct = sum(calibration_bin.correct for calibration_bin in same_bin_of_each_dataset)
        if queries > 0:
            expected.append(near((confidence / queries, correct / queries)))
    assert points_of(panel) == expected


def test_matrices_and_bins_have_the_queries_of_all_conditions() -> None:
    """There are 32 queries: 8 rows, each with 2 draws of demonstrations in 2 templates."""

    def scores(prompt: str, label_space: list[str]) -> list[float]:
        chosen = len(prompt) % 3
        return [0.5 if label == chosen else 0.25 for label in range(3)]

    result = Generalisation(datasets=["mini"], limit=8, draws=2, templates=2)(scores)
    matrix = confusion_matrices(result).rows
    assert sum(int(queries) for *_, queries in matrix) == len(result.queries()) == 32
    correct = sum(int(queries) for _, truth, predicted, queries in matrix if truth == predicted)
    assert correct / 32 == result.averaged["accuracy"]
    assert sum(int(row[-1]) for row in reliability_diagrams(result).rows) == 32


def result_with_unparsed_replies() -> Result:
    """Return a result of 16 queries, of which some have replies without a label."""

    def reply(prompt: str, label_space: list[str]) -> str:
        return (*label_space, "no idea")[len(prompt) % 4]

    result = Normal(datasets=["mini"], limit=8, unparsed="wrong")(reply)
    unparsed = sum(query.prediction is None for query in result.queries())
    assert 0 < unparsed < 16
    return result


def test_a_confusion_matrix_says_how_many_queries_have_no_predicted_label() -> None:
    result = result_with_unparsed_replies()
    unparsed = sum(query.prediction is None for query in result.queries())
    assert f" {unparsed} of 16 queries have no predicted label." in confusion_matrices(result).caption


def test_a_page_says_so_of_replies_that_long_icl_records_as_minus_one() -> None:
    result = result_with_unparsed_replies()
    unparsed = sum(query.prediction is None for query in result.queries())
    details = result.details["mini"]
    (record,) = details.conditions
    as_in_long_icl = tuple(-1 if label is None else label for label in record.predictions)
    result.details["mini"] = replace(details, conditions=(replace(record, predictions=as_in_long_icl),))
    assert f" {unparsed} of 16 queries have no predicted label." in report_html({"a": result})


def run_of_first_label(k: int, limit: int) -> Result:
    return Normal(k, datasets=["mini"], limit=limit)(first_label)


def test_a_curve_over_k_is_refused_if_each_run_has_other_settings() -> None:
    with pytest.raises(ArgumentError, match="differ in k only"):
        shots_chart({"a": run_of_first_label(2, limit=4), "b": run_of_first_label(4, limit=8)})


def test_runs_with_other_settings_are_a_curve_over_k_of_their_own() -> None:
    figure = shots_chart({f"{k} {limit}": run_of_first_label(k, limit) for k in (2, 4) for limit in (4, 8)})
    accuracies = [(row[1].rpartition(", ")[2], row[2]) for row in figure.rows[:4]]
    assert accuracies == [("limit 4", "2"), ("limit 4", "4"), ("limit 8", "2"), ("limit 8", "4")]


@pytest.fixture
def results_with_costs(normal: Result) -> dict[str, Result]:
    """Results of four methods, with their prompts and accuracies; the cost of one is not recorded."""
    results = {}
    for name, prompts, accuracy in (("c", 30.0, 0.5), ("a", 10.0, 0.4), ("unknown", None, 0.9), ("b", 20.0, 0.3)):
        results[name] = deepcopy(normal)
        results[name].averaged["accuracy"] = accuracy
        results[name].timing = {}
        if prompts is not None:
            results[name].timing = {"training_prompts": 0.0, "test_prompts": prompts}
    return results


def test_a_cost_chart_is_sorted_by_cost(results_with_costs: dict[str, Result]) -> None:
    assert [row[0] for row in cost_chart(results_with_costs).rows] == ["a", "b", "c", "unknown"]


def test_the_line_of_the_cost_chart_is_the_best_of_the_methods_that_cost_no_more(
    results_with_costs: dict[str, Result],
) -> None:
    """Each method is a step of the line, with two points: b is worse than a, which costs less."""
    figure = cost_chart(results_with_costs)
    (line,) = [shape for shape in figure.panels[0].shapes if shape.series == 1 and shape.kind == "line"]
    assert [accuracy for accuracy, _ in line.points] == [0.4, 0.4, 0.4, 0.4, 0.5, 0.5]


def test_a_cost_chart_needs_a_result_with_a_cost(results_with_costs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match="run_all"):
        cost_chart({"unknown": results_with_costs["unknown"]})


def with_costs(result: Result, **costs: float) -> Result:
    """Return a copy of a result with these recorded costs."""
    copy = deepcopy(result)
    copy.timing = costs
    return copy


@pytest.mark.parametrize("costs", [{"test_prompts": 10.0}, {"training_prompts": 30.0}], ids=str)
def test_a_cost_without_one_of_its_parts_is_not_recorded(costs: dict[str, float], normal: Result) -> None:
    """A part alone would look like a cheap method."""
    figure = cost_chart(
        {
            "incomplete": with_costs(normal, **costs),
            "complete": with_costs(normal, training_prompts=30.0, test_prompts=10.0),
        }
    )
    assert [(row[0], row[-1]) for row in figure.rows] == [("complete", "40"), ("incomplete", "-")]


def test_tokens_are_compared_only_if_all_results_have_them(normal: Result) -> None:
    with_tokens = with_costs(normal, training_prompts=30.0, test_prompts=10.0, tokens_alone=7000.0)
    without = with_costs(normal, training_prompts=30.0, test_prompts=10.0)
    figure = cost_chart({"without": without, "with": with_tokens})
    assert {row[0]: row[-1] for row in figure.rows} == {"without": "40", "with": "40"}
    assert figure.panels[1].title == "Thousand prompts"


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def test_an_axis_contains_the_line_of_no_difference() -> None:
    """Also if all differences are far above it, as between a run that is always right and one that never is."""
    benchmark = Normal(datasets=["mini"], limit=40)
    label_of = {query.prompt: query.label for query in benchmark[0].all_queries()}
    always_right = benchmark(lambda prompt, label_space: label_of[prompt])
    never_right = benchmark(lambda prompt, label_space: (label_of[prompt] + 1) % 3)

    (panel,) = differences([compare(always_right, never_right)]).panels
    low, high = panel.x.ends
    assert low <= 0 < 1 <= high
    assert [shape.points[0][0] for shape in panel.shapes if shape.kind == "mark"] == [1.0]


def test_bias_marks_are_the_distributions_and_the_shares_of_the_true_labels(suite: ResultGroup) -> None:
    for panel in bias_distributions(suite).panels:
        drawn = Drawn(panel)
        dataset = drawn.title
        expected = []
        for benchmark in ("Contextual_bias", "Domain_bias", "Post_bias"):
            expected += suite[benchmark].divided[dataset]["distribution"]
        labels = len(expected) // 3
        truth = suite["Post_bias"].details[dataset].conditions[0].truth
        expected += [truth.count(label) / len(truth) for label in range(labels)]
        assert [x for x, _, _ in drawn.points] == near(expected), dataset
        assert drawn.tips() == pytest.approx(expected, abs=5e-5), dataset


def test_bias_of_several_runs_is_drawn_one_by_one(suite: ResultGroup) -> None:
    with pytest.raises(ArgumentError, match="one by one"):
        bias_distributions({"a": suite["Post_bias"], "b": suite["Post_bias"]})


def test_a_figure_needs_no_style_sheet(suite: ResultGroup) -> None:
    """Programs without CSS draw every line, point and text, in a legible size."""
    normal = suite["Normal"]
    for figure in (forest({"a": normal, "b": normal}), confusion_matrices(normal), noise_lines(suite["GLER"])):
        root = ElementTree.fromstring(figure.svg())
        elements = list(root.iter())
        names = {element.tag.rpartition("}")[2] for element in elements}
        assert names <= {"svg", "title", "rect", "g", "path", "text"}
        assert "var(" not in figure.svg()
        assert "style=" not in figure.svg()
        assert float(root.get("font-size", 0)) >= 12
        for element in elements:
            name = element.tag.rpartition("}")[2]
            if name == "text":
                assert re.fullmatch("#[0-9a-f]{6}", element.get("fill", "")), element.attrib
            if name == "path":
                colours = {element.get("fill", "black"), element.get("stroke", "none")} - {"none"}
                assert colours, element.attrib
                assert colours <= set(LIGHT.values()), element.attrib


def test_a_page_has_the_colours_of_both_themes_for_every_part_of_a_figure(suite: ResultGroup) -> None:
    page = report_html({"a": suite, "b": suite})
    light, dark = (dict(re.findall(r"--([\w-]+):(#\w+)", block)) for block in re.findall(r":root\{(.*?)\}", page)[:2])
    assert light == dict(LIGHT)
    assert dark == dict(DARK)
    assert {role for role in light if light[role] == dark[role]} == set()
    used = set(re.findall(r'class="((?:fill|stroke)-[\w-]+)"', page))
    assert len(used) > 5
    for name in used:
        kind, _, role = name.partition("-")
        assert f".chart .{name}{{{kind}:var(--{role})}}" in page


def test_a_forest_plot_has_the_baselines_of_each_run(suite: ResultGroup) -> None:
    """The random baseline is a line, the majority baseline a dashed one, each over the row of its run."""
    normal = suite["Normal"]
    figure = forest({"a": normal, "b": normal})
    baselines = normal.means.baselines["normal"]
    (panel,) = figure.panels
    background = {(shape.kind, tuple(shape.points)) for shape in panel.shapes if shape.series is None}
    for row in (0, 1):
        top, bottom = row - 0.5, row + 0.5
        assert ("line", ((baselines.max_random, top), (baselines.max_random, bottom))) in background
        assert ("dashed", ((baselines.majority, top), (baselines.majority, bottom))) in background
    assert [key.text for key in figure.legend] == ["random baseline", "majority baseline"]


def test_the_overview_of_a_page_has_the_baselines_of_each_run(suite: ResultGroup) -> None:
    page = report_html({"a": suite, "b": suite})
    overview = page[page.index('<figure class="overview">') :].split("</figure>")[0]
    assert "random baseline" in overview
    dashed_lines = re.findall(r'<path class="stroke-mark"[^>]* stroke-dasharray', overview)
    assert len(dashed_lines) == 3, "of two runs, and of the legend"


def run_with_confidence(confidence: float) -> Result:
    """Return a run that is right on all rows: the lower its confidence, the larger is its calibration error."""
    benchmark = Normal(datasets=["mini"], limit=40)
    label_of = {query.prompt: query.label for query in benchmark[0].all_queries()}
    rest = (1 - confidence) / 2
    return benchmark(
        lambda prompt, label_space: [confidence if label == label_of[prompt] else rest for label in range(3)]
    )


@pytest.mark.parametrize(
    ("first", "second", "series"), [(0.98, 0.4, 0), (0.4, 0.98, 1)], ids=["first is better", "second is better"]
)
def test_the_colour_of_a_difference_is_that_of_the_better_run_where_lower_is_better(
    first: float, second: float, series: int
) -> None:
    """Series 0 is the colour of the first run."""
    compared = compare(run_with_confidence(first), run_with_confidence(second), "expected_calibration_error_1")
    assert not compared.higher_is_better
    assert compared.overall.outcome.significant
    (panel,) = differences([compared]).panels
    assert {shape.series for shape in panel.shapes if shape.kind == "mark"} == {series}


def test_a_forest_plot_says_what_it_expects_in_the_place_of_another_argument() -> None:
    comparison = compare(run_with_confidence(0.98), run_with_confidence(0.4))
    with pytest.raises(ArgumentError, match=r"compared: got one comparison, expected a list of them: \[comparison\]"):
        differences(comparison)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="compared: got 'accuracy', expected a list of comparisons"):
        differences("accuracy")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"compared: number 1 is 0\.5, expected a comparison of two runs"):
        differences([comparison, 0.5])  # type: ignore[list-item]


def test_the_legend_of_differences_has_the_names_of_the_runs() -> None:
    """The title is shortened if the names are long."""
    sure, doubting = run_with_confidence(0.98), run_with_confidence(0.4)
    (pair,) = compare_runs({"the sure run": sure, "the doubting run": doubting}, "accuracy").comparisons
    texts = [key.text for key in differences([pair]).legend]
    assert texts == [f"{run} is better, significantly" for run in (pair.first, pair.second)]
    assert {pair.first, pair.second} == {"the sure run", "the doubting run"}
    runs = {"a": sure, "b": doubting, "c": doubting}
    with_one_first = compare_runs(runs, "accuracy", reference="a").comparisons
    texts = [key.text for key in differences(with_one_first).legend]
    assert texts == ["a is better, significantly", "second is better, significantly"]


def test_points_of_label_noise_are_the_accuracies_by_the_share_of_correct_labels(suite: ResultGroup) -> None:
    gler = suite["GLER"]
    for panel, (dataset, values) in zip(noise_lines(gler).panels, gler.divided.items(), strict=True):
        assert Drawn(panel).title == dataset
        conditions = sorted(name for name in values if name.isdigit())
        accuracies = [values[name]["accuracy"] for name in conditions]
        expected = zip((1.0, 0.75, 0.5, 0.25, 0.0), accuracies, strict=True)
        assert points_of(panel) == [near(point) for point in expected], dataset


def test_the_table_of_label_noise_has_the_sensitivities(suite: ResultGroup) -> None:
    gler = suite["GLER"]
    expected = {name: f"{values['sensitivity']['accuracy'][0]:+.4f}" for name, values in gler.divided.items()}
    assert {row[0]: row[-1] for row in noise_lines(gler).rows} == expected


# -- by matplotlib: the same numbers


@pytest.fixture
def matplotlib(need: Any) -> Any:
    need(("matplotlib",), "figures as axes")
    import matplotlib
    from matplotlib import pyplot

    matplotlib.use("agg")
    yield matplotlib
    pyplot.close("all")


def test_one_panel_is_one_axes_and_several_are_a_list(matplotlib: Any, suite: ResultGroup) -> None:
    normal = suite["Normal"]
    assert normal.plot("forest").get_title() == "accuracy"
    assert [axes.get_title() for axes in normal.plot("confusion")] == list(normal.divided)


def test_a_notebook_shows_a_plot_since_its_figure_is_one_of_pyplot(matplotlib: Any, suite: ResultGroup) -> None:
    matplotlib.pyplot.close("all")

    axes = suite["Normal"].plot("forest")

    assert matplotlib.pyplot.get_fignums() == [axes.figure.number]


def test_a_long_legend_is_not_cut_off(matplotlib: Any, suite: ResultGroup) -> None:
    """With its mark, it is as wide as 57 characters of more than 6 pixels."""
    text = "published models, " * 3
    figure = replace(accuracy_by_dataset(suite["Normal"]), legend=[Shape(kind="mark", text=text)])
    svg = ElementTree.fromstring(figure.svg(columns=1))
    assert int(svg.get("width", 0)) > 57 * 6

    drawing = figure.axes(columns=1)[0].figure
    drawing.draw_without_rendering()
    assert drawing.legends[0].get_window_extent().x1 < drawing.bbox.width


def test_a_long_title_is_not_cut_off(matplotlib: Any, suite: ResultGroup) -> None:
    """It is broken into lines, and the layout has room for all of them."""
    figure = forest(suite["Normal"])
    (panel,) = figure.panels
    long_title = "Difference in accuracy between the first run and the second run " * 3
    axes = replace(figure, panels=[panel._replace(title=long_title)]).axes()[0]
    drawing = axes.figure

    drawing.draw_without_rendering()

    title = axes.title.get_window_extent()
    assert 0 <= title.x0 < title.x1 <= drawing.bbox.width
    assert title.y1 <= drawing.bbox.height


def test_the_legend_makes_no_room_below_the_axes(matplotlib: Any, suite: ResultGroup) -> None:
    legend = [Shape(kind="mark", text="first is better"), Shape(kind="line", text="chance")]
    figure = replace(forest(suite["Normal"]), legend=legend)
    axes = figure.axes()[0]
    drawing = axes.figure

    drawing.draw_without_rendering()

    ticks_and_label = axes.xaxis.get_tightbbox()
    assert ticks_and_label.y0 < 10, "pixels from the lower edge"
