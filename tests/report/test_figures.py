"""Figures: the numbers in the SVG are those of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
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
DISTANCE_OF_BASELINE = 4
"""Pixels from the tick of a vertical axis to the baseline of its number below it."""


class Tick(NamedTuple):
    """A number on an axis, and where it is."""

    pixel: float
    value: float


TICKS_OF_PIXELS = [Tick(pixel=0.0, value=0.0), Tick(pixel=1.0, value=1.0)]
"""The scale of an axis without numbers."""


class Mark(NamedTuple):
    """A mark of a figure in the units of its axes, with the text that a pointer over it shows."""

    x: float
    y: float
    tip: str


class DrawnPanel:
    """What the SVG of a panel shows, in the units of its axes, read from its tick labels and its coordinates.

    Attributes:
        title: The first text.
        names: The names of rows, left of the panel.
        marks: The marks of all series.
        lines: The two horizontal coordinates of each line of a series without dashes.
    """

    def __init__(self, panel: Panel) -> None:
        root = ElementTree.fromstring(panel_svg(panel))
        texts = list(root.iter("text"))
        texts_below = [text for text in texts if text.get("text-anchor") == "middle"]
        texts_on_the_left = [text for text in texts if text.get("text-anchor") == "end"]
        assert_legible(texts_on_the_left)

        x_ticks = ticks_among(texts_below, axis="x") or TICKS_OF_PIXELS
        y_ticks = ticks_among(texts_on_the_left, axis="y") or TICKS_OF_PIXELS
        self.title = texts[0].text
        self.names = [text.text for text in texts_on_the_left if not is_number(text)]
        self.marks = read_marks(root, x_ticks, y_ticks)
        self.lines = read_lines(root, x_ticks)

    def numbers_in_tips(self) -> list[float]:
        """Return the number at the end of each tip."""
        return [float(mark.tip.rsplit(": ", 1)[1]) for mark in self.marks]


def ticks_among(texts: Sequence[ElementTree.Element], axis: str) -> list[Tick]:
    """Return the ticks of the axis ``x`` or ``y``, whose numbers are some of the texts next to it."""
    ticks = []
    for text in texts:
        if is_number(text):
            pixel = coordinate(text, axis)
            if axis == "y":
                pixel -= DISTANCE_OF_BASELINE
            ticks.append(Tick(pixel, value=float(text.text or "")))
    return ticks


def read_marks(root: ElementTree.Element, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> list[Mark]:
    """Return the marks of an SVG, in the units of its axes."""
    marks = []
    for element in root.iterfind(".//*[@transform]"):
        if element.get("class", "").startswith("fill-"):
            x, y, _scale = re.findall(r"[\d.-]+", element.get("transform", ""))
            tip = element.findtext("title")
            assert tip is not None
            marks.append(Mark(value_at(float(x), x_ticks), value_at(float(y), y_ticks), tip))
    return marks


def read_lines(root: ElementTree.Element, x_ticks: Sequence[Tick]) -> list[list[float]]:
    """Return the horizontal coordinates of each line of a series in an SVG, in the units of the axis."""
    lines = []
    for element in root.iter():
        is_series = re.fullmatch(r"stroke-series-\d", element.get("class", "")) is not None
        is_dashed = element.get("stroke-dasharray") is not None
        if is_series and not is_dashed:
            ends = re.findall(r"([\d.-]+) [\d.-]+", element.get("d", ""))
            lines.append([value_at(float(x), x_ticks) for x in ends])
    return lines


def coordinate(text: ElementTree.Element, axis: str) -> float:
    """Return the pixel of a text on the axis ``x`` or ``y``."""
    return float(text.get(axis, 0))


WIDEST_LETTER = 7.5
HEIGHT_OF_LINE = 14
"""Pixels."""


def assert_legible(texts_on_the_left: Sequence[ElementTree.Element]) -> None:
    """Check that no text left of a panel, which ends at its coordinate, is cut off or overlaps the next one."""
    for text in texts_on_the_left:
        assert coordinate(text, "x") >= WIDEST_LETTER * len(text.text or ""), f"{text.text} is cut off"
    for text, next_text in pairwise(texts_on_the_left):
        distance = abs(coordinate(text, "y") - coordinate(next_text, "y"))
        assert distance > HEIGHT_OF_LINE, f"{text.text} overlaps {next_text.text}"


def is_number(text: ElementTree.Element) -> bool:
    """Return whether a text is a number, as those of ticks."""
    return re.fullmatch(r"[\d.]+", text.text or "") is not None


def value_at(pixel: float, ticks: Sequence[Tick]) -> float:
    """Return the value at a coordinate of a linear axis with these ticks."""
    first, last = ticks[0], ticks[-1]
    share_of_axis = (pixel - first.pixel) / (last.pixel - first.pixel)
    return first.value + share_of_axis * (last.value - first.value)


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


HALF_OF_LAST_DIGIT = 5e-5
"""Of tips, which have four decimals."""


def test_a_panel_has_the_name_and_the_accuracy_of_each_run_on_a_data_set(normal: Result) -> None:
    figure = accuracy_by_dataset({"first": normal, "second": normal})

    for panel, (dataset, scores) in zip(figure.panels, normal.divided.items(), strict=True):
        drawn = DrawnPanel(panel)
        accuracies_of_runs = [scores["accuracy"], scores["accuracy"]]
        assert drawn.title == dataset
        assert drawn.names == ["first", "second"]
        assert [mark.x for mark in drawn.marks] == near(accuracies_of_runs)
        assert drawn.numbers_in_tips() == pytest.approx(accuracies_of_runs, abs=HALF_OF_LAST_DIGIT)


def test_each_panel_has_a_line_for_the_interval_of_each_run(normal: Result) -> None:
    figure = accuracy_by_dataset({"one run": normal, "other": normal})
    for panel, details in zip(figure.panels, normal.details.values(), strict=True):
        interval = details.intervals["accuracy"]
        line_of_first, line_of_second = DrawnPanel(panel).lines
        assert line_of_first == near([interval.low, interval.high])
        assert line_of_second == near([interval.low, interval.high])


def test_the_table_of_accuracies_has_those_of_the_result_and_the_baselines(normal: Result) -> None:
    figure = accuracy_by_dataset({"first": normal, "second": normal})

    names_of_runs = {run for _dataset, run, *_ in figure.rows}
    assert names_of_runs == {"first", "second"}
    for dataset, _run, accuracy, _interval, random, majority in figure.rows:
        baselines = normal.details[dataset].baselines["normal"]
        assert accuracy == f"{normal.divided[dataset]['accuracy']:.4f}"
        assert random == f"{baselines.max_random:.4f}"
        assert majority == f"{baselines.majority:.4f}"


def coordinates_of_marks(panel: Panel) -> list[tuple[float, float]]:
    """Return both coordinates of the marks of a panel, in the units of its axes."""
    return [(mark.x, mark.y) for mark in DrawnPanel(panel).marks]


def calibration_bins_of(details: Any) -> Any:
    """Return the calibration bins of a data set: queries, sum of their confidences, and correct ones."""
    bins = details.conditions[0].calibration
    assert bins is not None
    return bins


def test_a_reliability_diagram_of_a_run_has_confidence_and_accuracy_of_each_bin(normal: Result) -> None:
    for panel, details in zip(reliability_diagrams(normal).panels, normal.details.values(), strict=True):
        expected = []
        for calibration_bin in calibration_bins_of(details):
            if calibration_bin.queries > 0:
                mean_confidence = calibration_bin.confidence / calibration_bin.queries
                accuracy = calibration_bin.correct / calibration_bin.queries
                expected.append(near((mean_confidence, accuracy)))
        assert coordinates_of_marks(panel) == expected


def test_a_reliability_diagram_of_several_runs_pools_the_bins_of_their_data_sets(normal: Result) -> None:
    """A mark is the mean confidence and the accuracy of the queries that all data sets have in one bin."""
    (panel,) = reliability_diagrams({"a": normal}).panels

    bins_of_datasets = [calibration_bins_of(details) for details in normal.details.values()]
    expected = []
    for bins_of_one_interval in zip(*bins_of_datasets, strict=True):
        queries = sum(calibration_bin.queries for calibration_bin in bins_of_one_interval)
        confidence = sum(calibration_bin.confidence for calibration_bin in bins_of_one_interval)
        correct = sum(calibration_bin.correct for calibration_bin in bins_of_one_interval)
        if queries > 0:
            expected.append(near((confidence / queries, correct / queries)))
    assert coordinates_of_marks(panel) == expected


QUERIES_OF_FOUR_CONDITIONS = 8 * 2 * 2
"""Eight rows, each with two draws of demonstrations in two templates."""


@pytest.fixture(scope="module")
def result_of_four_conditions() -> Result:
    def predict_by_length(prompt: str, label_space: list[str]) -> list[float]:
        scores = [0.25, 0.25, 0.25]
        scores[len(prompt) % 3] = 0.5
        return scores

    return Generalisation(datasets=["mini"], limit=8, draws=2, templates=2)(predict_by_length)


def test_a_confusion_matrix_has_the_queries_of_all_conditions(result_of_four_conditions: Result) -> None:
    matrix = confusion_matrices(result_of_four_conditions).rows

    assert len(result_of_four_conditions.queries()) == QUERIES_OF_FOUR_CONDITIONS
    assert sum(int(queries) for *_, queries in matrix) == QUERIES_OF_FOUR_CONDITIONS
    correct = sum(int(queries) for _, truth, predicted, queries in matrix if truth == predicted)
    assert correct / QUERIES_OF_FOUR_CONDITIONS == result_of_four_conditions.averaged["accuracy"]


def test_a_reliability_diagram_has_the_queries_of_all_conditions(result_of_four_conditions: Result) -> None:
    table = reliability_diagrams(result_of_four_conditions).rows
    assert sum(int(queries) for *_, queries in table) == QUERIES_OF_FOUR_CONDITIONS


def result_with_unparsed_replies() -> Result:
    """Return a result of 16 queries, of which some have replies without a label."""

    def reply_by_length(prompt: str, label_space: list[str]) -> str:
        replies = [*label_space, "no idea"]
        return replies[len(prompt) % 4]

    result = Normal(datasets=["mini"], limit=8, unparsed="wrong")(reply_by_length)
    assert 0 < number_of_unparsed_replies(result) < 16
    return result


def number_of_unparsed_replies(result: Result) -> int:
    return sum(query.prediction is None for query in result.queries())


def test_a_confusion_matrix_says_how_many_queries_have_no_predicted_label() -> None:
    result = result_with_unparsed_replies()
    unparsed = number_of_unparsed_replies(result)
    assert f" {unparsed} of 16 queries have no predicted label." in confusion_matrices(result).caption


def test_a_page_says_how_many_queries_have_the_predicted_label_minus_one() -> None:
    """LongICL records replies without a label so."""
    result = result_with_unparsed_replies()
    unparsed = number_of_unparsed_replies(result)
    details = result.details["mini"]
    (record,) = details.conditions
    predictions = tuple(-1 if label is None else label for label in record.predictions)
    result.details["mini"] = replace(details, conditions=(replace(record, predictions=predictions),))

    assert f" {unparsed} of 16 queries have no predicted label." in report_html({"a": result})


def run_of_first_label(k: int, limit: int) -> Result:
    """Return a run that always predicts the first label."""
    return Normal(k, datasets=["mini"], limit=limit)(lambda prompt, label_space: 0)


def test_a_curve_over_k_is_refused_if_each_run_has_other_settings() -> None:
    with pytest.raises(ArgumentError, match="differ in k only"):
        shots_chart({"a": run_of_first_label(2, limit=4), "b": run_of_first_label(4, limit=8)})


def test_runs_with_two_limits_are_two_curves_over_k() -> None:
    runs = {
        "a": run_of_first_label(k=2, limit=4),
        "b": run_of_first_label(k=4, limit=4),
        "c": run_of_first_label(k=2, limit=8),
        "d": run_of_first_label(k=4, limit=8),
    }

    rows_of_accuracy = shots_chart(runs).rows[:4]

    limits_and_k = [(settings.rpartition(", ")[2], k) for _, settings, k, *_ in rows_of_accuracy]
    assert limits_and_k == [("limit 4", "2"), ("limit 4", "4"), ("limit 8", "2"), ("limit 8", "4")]


def with_costs(result: Result, **costs: float) -> Result:
    """Return a copy of a result with these recorded costs."""
    copy = deepcopy(result)
    copy.timing = costs
    return copy


def with_accuracy_and_prompts(result: Result, accuracy: float, prompts: float) -> Result:
    """Return a copy of a result with another mean accuracy, which took so many prompts."""
    copy = with_costs(result, training_prompts=0.0, test_prompts=prompts)
    copy.averaged["accuracy"] = accuracy
    return copy


@pytest.fixture
def results_with_costs(normal: Result) -> dict[str, Result]:
    """Results of four methods, of which the cost of one is not recorded."""
    return {
        "c": with_accuracy_and_prompts(normal, accuracy=0.5, prompts=30.0),
        "a": with_accuracy_and_prompts(normal, accuracy=0.4, prompts=10.0),
        "unknown": with_costs(normal),
        "b": with_accuracy_and_prompts(normal, accuracy=0.3, prompts=20.0),
    }


def test_a_cost_chart_is_sorted_by_cost(results_with_costs: dict[str, Result]) -> None:
    assert [row[0] for row in cost_chart(results_with_costs).rows] == ["a", "b", "c", "unknown"]


def test_the_line_of_the_cost_chart_is_the_best_of_the_methods_that_cost_no_more(
    results_with_costs: dict[str, Result],
) -> None:
    """Each of three methods is a step of the line, with two points; b is worse than a, which costs less."""
    panel = cost_chart(results_with_costs).panels[0]

    (line,) = [shape for shape in panel.shapes if shape.series == 1 and shape.kind == "line"]
    step_of_a, step_of_b, step_of_c = [0.4, 0.4], [0.4, 0.4], [0.5, 0.5]
    assert [accuracy for accuracy, _ in line.points] == step_of_a + step_of_b + step_of_c


def test_a_cost_chart_needs_a_result_with_a_cost(results_with_costs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match="run_all"):
        cost_chart({"unknown": results_with_costs["unknown"]})


@pytest.mark.parametrize("costs", [{"test_prompts": 10.0}, {"training_prompts": 30.0}], ids=str)
def test_a_cost_without_one_of_its_parts_is_not_recorded(costs: dict[str, float], normal: Result) -> None:
    """A part alone would look like a cheap method."""
    incomplete = with_costs(normal, **costs)
    complete = with_costs(normal, training_prompts=30.0, test_prompts=10.0)

    table = cost_chart({"incomplete": incomplete, "complete": complete}).rows

    assert [(row[0], row[-1]) for row in table] == [("complete", "40"), ("incomplete", "-")]


def test_prompts_are_the_cost_if_a_result_has_no_tokens(normal: Result) -> None:
    """Both results need 30 + 10 = 40 prompts, of which one knows the tokens."""
    with_tokens = with_costs(normal, training_prompts=30.0, test_prompts=10.0, tokens_alone=7000.0)
    without_tokens = with_costs(normal, training_prompts=30.0, test_prompts=10.0)

    figure = cost_chart({"without": without_tokens, "with": with_tokens})

    costs = {name: cost for name, *_, cost in figure.rows}
    assert costs == {"without": "40", "with": "40"}
    assert figure.panels[1].title == "Thousand prompts"


def test_the_axis_of_differences_contains_the_line_of_no_difference() -> None:
    """The difference between a run that is always right and one that never is is 1, far right of the line at 0."""
    benchmark = Normal(datasets=["mini"], limit=40)
    label_of = {query.prompt: query.label for query in benchmark[0].all_queries()}
    always_right = benchmark(lambda prompt, label_space: label_of[prompt])
    never_right = benchmark(lambda prompt, label_space: (label_of[prompt] + 1) % 3)

    (panel,) = differences([compare(always_right, never_right)]).panels

    (mark,) = [shape for shape in panel.shapes if shape.kind == "mark"]
    difference, _ = mark.points[0]
    low, high = panel.x.ends
    assert difference == 1.0
    assert low <= 0
    assert high >= 1


def test_marks_of_a_bias_are_the_mean_predictions_and_the_shares_of_the_true_labels(suite: ResultGroup) -> None:
    """A panel has a series for each benchmark of bias and one for the true labels, with a mark for each label."""
    for panel in bias_distributions(suite).panels:
        drawn = DrawnPanel(panel)
        dataset = drawn.title
        details = suite["Post_bias"].details[dataset]
        true_labels = details.conditions[0].truth
        expected: list[float] = []
        for benchmark in ("Contextual_bias", "Domain_bias", "Post_bias"):
            expected += suite[benchmark].divided[dataset]["distribution"]
        for label in range(len(details.labels)):
            expected.append(true_labels.count(label) / len(true_labels))

        assert [mark.x for mark in drawn.marks] == near(expected), dataset
        assert drawn.numbers_in_tips() == pytest.approx(expected, abs=HALF_OF_LAST_DIGIT), dataset


def test_bias_of_several_runs_is_drawn_one_by_one(suite: ResultGroup) -> None:
    with pytest.raises(ArgumentError, match="one by one"):
        bias_distributions({"a": suite["Post_bias"], "b": suite["Post_bias"]})


def elements_of(svg: str, tag: str) -> list[ElementTree.Element]:
    """Return the elements of an SVG document with a tag, which is in the name space of SVG."""
    return list(ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


FIGURES_WITHOUT_STYLE_SHEET = pytest.mark.parametrize(
    "make_figure",
    [
        lambda suite: forest({"a": suite["Normal"], "b": suite["Normal"]}),
        lambda suite: confusion_matrices(suite["Normal"]),
        lambda suite: noise_lines(suite["GLER"]),
    ],
    ids=["forest", "confusion", "noise"],
)
"""Programs without CSS draw every line, point and text of a figure in its colour."""


@FIGURES_WITHOUT_STYLE_SHEET
def test_a_figure_refers_to_no_style(make_figure: Any, suite: ResultGroup) -> None:
    svg = make_figure(suite).svg()
    assert "var(" not in svg
    assert "style=" not in svg
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "rect", "g", "path", "text"}


@FIGURES_WITHOUT_STYLE_SHEET
def test_the_texts_of_a_figure_have_a_colour_and_at_least_12_pixels(make_figure: Any, suite: ResultGroup) -> None:
    svg = make_figure(suite).svg()
    assert float(ElementTree.fromstring(svg).get("font-size", 0)) >= 12
    for text in elements_of(svg, "text"):
        assert re.fullmatch("#[0-9a-f]{6}", text.get("fill", "")), text.attrib


@FIGURES_WITHOUT_STYLE_SHEET
def test_the_paths_of_a_figure_have_colours_of_the_light_theme(make_figure: Any, suite: ResultGroup) -> None:
    for path in elements_of(make_figure(suite).svg(), "path"):
        colours = {path.get("fill", "black"), path.get("stroke", "none")} - {"none"}
        assert colours, path.attrib
        assert colours <= set(LIGHT.values()), path.attrib


def test_a_page_has_the_colours_of_both_themes(suite: ResultGroup) -> None:
    page = report_html({"a": suite, "b": suite})
    light_block, dark_block, *_ = re.findall(r":root\{(.*?)\}", page)
    assert dict(re.findall(r"--([\w-]+):(#\w+)", light_block)) == dict(LIGHT)
    assert dict(re.findall(r"--([\w-]+):(#\w+)", dark_block)) == dict(DARK)


def test_each_colour_is_another_one_in_the_dark_theme() -> None:
    assert [role for role in LIGHT if LIGHT[role] == DARK[role]] == []


def test_a_page_has_a_rule_for_the_colour_of_every_part_of_a_figure(suite: ResultGroup) -> None:
    page = report_html({"a": suite, "b": suite})
    classes = set(re.findall(r'class="((?:fill|stroke)-[\w-]+)"', page))
    assert len(classes) > 5, "the search finds no parts"
    for class_name in classes:
        css_property, _, role = class_name.partition("-")
        assert f".chart .{class_name}{{{css_property}:var(--{role})}}" in page


def test_a_forest_plot_has_the_baselines_of_each_run(suite: ResultGroup) -> None:
    """The random baseline is a line, the majority baseline a dashed one, each over the row of its run."""
    result = suite["Normal"]
    random = result.means.baselines["normal"].max_random
    majority = result.means.baselines["normal"].majority

    figure = forest({"a": result, "b": result})

    (panel,) = figure.panels
    shapes_of_baselines = [(shape.kind, list(shape.points)) for shape in panel.shapes if shape.series is None]
    for top, bottom in ((-0.5, 0.5), (0.5, 1.5)):  # rows 0 and 1
        assert ("line", [(random, top), (random, bottom)]) in shapes_of_baselines
        assert ("dashed", [(majority, top), (majority, bottom)]) in shapes_of_baselines
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

    def predict_true_label(prompt: str, label_space: list[str]) -> list[float]:
        probabilities = [(1 - confidence) / 2] * 3
        probabilities[label_of[prompt]] = confidence
        return probabilities

    return benchmark(predict_true_label)


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


def test_the_legend_of_a_difference_has_the_names_of_both_runs() -> None:
    """The title is shortened if the names are long."""
    runs = {"the sure run": run_with_confidence(0.98), "the doubting run": run_with_confidence(0.4)}
    comparisons = compare_runs(runs, "accuracy").comparisons

    texts = {key.text for key in differences(comparisons).legend}

    assert texts == {"the sure run is better, significantly", "the doubting run is better, significantly"}


def test_the_legend_of_differences_from_one_run_names_this_run_only() -> None:
    runs = {"a": run_with_confidence(0.98), "b": run_with_confidence(0.4), "c": run_with_confidence(0.4)}
    comparisons = compare_runs(runs, "accuracy", reference="a").comparisons

    texts = [key.text for key in differences(comparisons).legend]

    assert texts == ["a is better, significantly", "second is better, significantly"]


def test_points_of_label_noise_are_the_accuracies_by_the_share_of_correct_labels(suite: ResultGroup) -> None:
    """The conditions 0 to 4 of GLER have 100, 75, 50, 25 and 0 % correct labels."""
    gler = suite["GLER"]
    for panel, (dataset, scores) in zip(noise_lines(gler).panels, gler.divided.items(), strict=True):
        assert DrawnPanel(panel).title == dataset
        assert coordinates_of_marks(panel) == [
            near((1.0, scores["0"]["accuracy"])),
            near((0.75, scores["1"]["accuracy"])),
            near((0.5, scores["2"]["accuracy"])),
            near((0.25, scores["3"]["accuracy"])),
            near((0.0, scores["4"]["accuracy"])),
        ], dataset


def test_the_table_of_label_noise_has_the_sensitivities(suite: ResultGroup) -> None:
    """The last column is the sensitivity, a slope that is saved with its intercept."""
    gler = suite["GLER"]
    for dataset, *_, sensitivity in noise_lines(gler).rows:
        slope, _intercept = gler.divided[dataset]["sensitivity"]["accuracy"]
        assert sensitivity == f"{slope:+.4f}"

    datasets = {dataset for dataset, *_ in noise_lines(gler).rows}
    assert datasets == set(gler.divided)


# -- by matplotlib: the same numbers


@pytest.fixture
def matplotlib(need: Any) -> Any:
    """The package with a backend for files; its figures are closed after the test."""
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
    figure = accuracy_by_dataset(suite["Normal"])
    figure = replace(figure, legend=[Shape(kind="mark", text="published models, " * 3)])

    width_of_svg = ElementTree.fromstring(figure.svg(columns=1)).get("width", 0)
    drawing = figure.axes(columns=1)[0].figure
    drawing.draw_without_rendering()
    right_end_of_legend = drawing.legends[0].get_window_extent().x1

    assert int(width_of_svg) > 57 * 6
    assert right_end_of_legend < drawing.bbox.width


def test_a_long_title_is_not_cut_off(matplotlib: Any, suite: ResultGroup) -> None:
    """The title is broken into lines, and the layout has room for all of them."""
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
