"""Figures: the numbers in the SVG are those of the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from StaICC import Generalisation, Normal
from StaICC.comparing.comparison import compare
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
    """What the SVG of a panel shows, in the units of its axes, read from its tick labels and its coordinates."""

    def __init__(self, panel: Panel) -> None:
        root = ElementTree.fromstring(panel_svg(panel))
        texts = [(float(one.get("x", 0)), float(one.get("y", 0)), one.text or "", one) for one in root.iter("text")]
        across = [(x, float(text)) for x, _, text, one in texts if one.get("text-anchor") == "middle" and number(text)]
        up = [(y - 4, float(text)) for _, y, text, one in texts if one.get("text-anchor") == "end" and number(text)]
        ends = [(x, y, 7.5 * len(text)) for x, y, text, one in texts if one.get("text-anchor") == "end"]
        assert all(x >= width for x, _, width in ends), "a name is cut off"
        assert all(abs(y - below) > 14 for (_, y, _), (_, below, _) in pairwise(ends)), "names overlap"
        self.names = [text for _, _, text, one in texts if one.get("text-anchor") == "end" and not number(text)]
        self.title = texts[0][2]
        self.points: list[tuple[float, float, str]] = []
        self.lines: list[list[tuple[float, float]]] = []
        for one in root.iter():
            if one.get("class", "").startswith("fill-") and one.get("transform"):
                x, y, _ = re.findall(r"[\d.-]+", one.get("transform", ""))
                tip = one.find("title")
                assert tip is not None
                self.points.append((scaled(float(x), across or PIXELS), scaled(float(y), up or PIXELS), tip.text or ""))
            if re.fullmatch(r"stroke-series-\d", one.get("class", "")) and not one.get("stroke-dasharray"):
                pairs = (pair.split() for pair in one.get("d", "")[1:].split("L"))
                self.lines.append([(scaled(float(x), across or PIXELS), float(y)) for x, y in pairs])

    def tips(self) -> list[float]:
        return [float(tip.rsplit(": ", 1)[1]) for _, _, tip in self.points]


def number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+", text) is not None


def scaled(pixel: float, ticks: Sequence[tuple[float, float]]) -> float:
    (a, low), (b, high) = ticks[0], ticks[-1]
    return low + (pixel - a) / (b - a) * (high - low)


def near(expected: Any) -> Any:
    return pytest.approx(expected, abs=PIXEL / 100)


def test_every_figure_is_a_document_with_its_numbers(suite: ResultGroup, long_icl: Result, tmp_path: Path) -> None:
    normal = suite["Normal"]
    for one in (
        accuracy_by_dataset(normal),
        *(reliability_diagrams(given) for given in (normal, {"a": normal, "b": normal})),
        bias_distributions(suite),
        noise_lines(suite["GLER"]),
        rounds_chart(long_icl),
    ):
        one.save(tmp_path / "figure.svg")
        root = ElementTree.fromstring((tmp_path / "figure.svg").read_bytes())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert one._repr_svg_() == (tmp_path / "figure.svg").read_text("utf-8")
        assert {len(row) for row in one.rows} == {len(one.head)}


def test_accuracies_and_intervals_are_those_of_the_result(normal: Result) -> None:
    figure = accuracy_by_dataset({"one run": normal, "other": normal})
    for panel, (dataset, values) in zip(figure.panels, normal.divided.items(), strict=True):
        drawn = Drawn(panel)
        assert (drawn.title, drawn.names) == (dataset, ["one run", "other"])
        assert [x for x, _, _ in drawn.points] == near([values["accuracy"]] * 2)
        assert drawn.tips() == pytest.approx([values["accuracy"]] * 2, abs=5e-5)
        interval = normal.details[dataset].intervals["accuracy"]
        assert [tuple(x for x, _ in line) for line in drawn.lines] == [near((interval.low, interval.high))] * 2
    for dataset, run, accuracy, _, random, majority in figure.rows:
        assert (run in ("one run", "other"), accuracy) == (True, f"{normal.divided[dataset]['accuracy']:.4f}")
        base = normal.details[dataset].baselines["normal"]
        assert (random, majority) == (f"{base.max_random:.4f}", f"{base.majority:.4f}")


def test_reliability_points_are_the_bins(normal: Result) -> None:
    pooled = [[0, 0.0, 0] for _ in range(10)]
    for panel, details in zip(reliability_diagrams(normal).panels, normal.details.values(), strict=True):
        bins = details.conditions[0].calibration
        assert bins is not None
        full = [one for one in bins if one.queries]
        means = [near((one.confidence / one.queries, one.correct / one.queries)) for one in full]
        assert [(x, y) for x, y, _ in Drawn(panel).points] == means
        for total, one in zip(pooled, bins, strict=True):
            total[:] = [total[0] + one.queries, total[1] + one.confidence, total[2] + one.correct]
    (panel,) = reliability_diagrams({"a": normal}).panels
    expected = [(confidence / n, correct / n) for n, confidence, correct in pooled if n]
    assert [(x, y) for x, y, _ in Drawn(panel).points] == [near(one) for one in expected]


def test_matrices_and_bins_have_the_queries_of_all_conditions() -> None:
    def replies(prompt: str, label_space: list[str]) -> str:
        return (*label_space, "no idea")[len(prompt) % 4]

    def scores(prompt: str, label_space: list[str]) -> list[float]:
        return [0.25 + 0.25 * (place == len(prompt) % 3) for place in range(3)]

    several = Generalisation(datasets=["mini"], limit=8, draws=2, templates=2)(scores)
    figure = confusion_matrices(several)
    counts = {(truth, predicted): int(queries) for _, truth, predicted, queries in figure.rows}
    assert sum(counts.values()) == len(several.queries()) == 32
    correct = sum(number for (truth, predicted), number in counts.items() if truth == predicted)
    assert correct / 32 == several.averaged["accuracy"]
    assert sum(int(row[-1]) for row in reliability_diagrams(several).rows) == 32
    unparsed = Normal(datasets=["mini"], limit=8, unparsed="wrong")(replies)
    lost = sum(query.prediction is None for query in unparsed.queries())
    assert 0 < lost < 16
    assert f" {lost} of 16 queries have no predicted label." in confusion_matrices(unparsed).caption
    (record,) = unparsed.details["mini"].conditions  # in LongICL, -1 is a reply without a label
    guesses = tuple(-1 if guess is None else guess for guess in record.predictions)
    unparsed.details["mini"] = replace(unparsed.details["mini"], conditions=(replace(record, predictions=guesses),))
    assert f" {lost} of 16 queries have no predicted label." in report_html({"a": unparsed})


def test_a_curve_over_k_has_runs_that_differ_in_nothing_else() -> None:
    def run(k: int, limit: int) -> Result:
        return Normal(k, datasets=["mini"], limit=limit)(first_label)

    with pytest.raises(ArgumentError, match="differ in k only"):
        shots_chart({"a": run(2, 4), "b": run(4, 8)})
    figure = shots_chart({f"{k} {limit}": run(k, limit) for k in (2, 4) for limit in (4, 8)})
    accuracies = figure.rows[:4]
    assert [row[2] for row in accuracies] == ["2", "4", "2", "4"]
    assert [row[1].rpartition(", ")[2] for row in accuracies] == ["limit 4"] * 2 + ["limit 8"] * 2


def test_the_line_of_the_cost_chart_is_the_best_of_the_methods_that_cost_no_more(normal: Result) -> None:
    results = {}
    for name, prompts, accuracy in (("c", 30.0, 0.5), ("a", 10.0, 0.4), ("unknown", None, 0.9), ("b", 20.0, 0.3)):
        results[name] = deepcopy(normal)
        results[name].averaged["accuracy"] = accuracy
        results[name].timing = {} if prompts is None else {"training_prompts": 0.0, "test_prompts": prompts}
    figure = cost_chart(results)
    assert [row[0] for row in figure.rows] == ["a", "b", "c", "unknown"]
    line = next(shape for shape in figure.panels[0].shapes if shape.series == 1)
    assert [x for x, _ in line.points] == [0.4, 0.4, 0.4, 0.4, 0.5, 0.5]
    with pytest.raises(ArgumentError, match="run_all"):
        cost_chart({"unknown": results["unknown"]})


@pytest.mark.parametrize("missing", ["training_prompts", "test_prompts", "tokens_alone"])
def test_a_cost_without_one_of_its_parts_is_not_recorded(missing: str, normal: Result) -> None:
    """A part alone would look like a cheap method. Tokens are compared only if all results have them."""
    costs = {"training_prompts": 30.0, "test_prompts": 10.0, "tokens_alone": 7000.0}
    complete = deepcopy(normal)
    complete.timing = costs
    incomplete = deepcopy(normal)
    incomplete.timing = {name: cost for name, cost in costs.items() if name != missing}
    if missing != "tokens_alone":
        del complete.timing["tokens_alone"], incomplete.timing["tokens_alone"]
    figure = cost_chart({"incomplete": incomplete, "complete": complete})
    cost_by_run = {row[0]: row[-1] for row in figure.rows}
    if missing == "tokens_alone":
        assert cost_by_run == {"complete": "40", "incomplete": "40"}
        assert figure.panels[1].title == "Thousand prompts"
    else:
        assert cost_by_run == {"complete": "40", "incomplete": "-"}
        assert [row[0] for row in figure.rows] == ["complete", "incomplete"]


def first_label(prompt: str, label_space: list[str]) -> int:
    return 0


def test_an_axis_contains_the_lines_in_the_background() -> None:
    """A difference is next to no difference, also if all are far above it."""

    def right(prompt: str, label_space: list[str]) -> int:
        return by_query[prompt]

    benchmark = Normal(datasets=["mini"], limit=40)
    by_query = {query.prompt: query.label for query in benchmark[0].all_queries()}
    compared = compare(benchmark(right), benchmark(lambda prompt, label_space: (by_query[prompt] + 1) % 3))
    (panel,) = differences([compared]).panels
    low, high = panel.x.ends
    assert low <= 0 < 1 <= high
    assert [shape.points[0][0] for shape in panel.shapes if shape.kind == "mark"] == [1.0]


def test_bias_marks_are_the_distributions(suite: ResultGroup) -> None:
    for panel in bias_distributions(suite).panels:
        drawn = Drawn(panel)
        expected = [
            value
            for benchmark in ("Contextual_bias", "Domain_bias", "Post_bias")
            for value in suite[benchmark].divided[drawn.title]["distribution"]
        ]
        truth = suite["Post_bias"].details[drawn.title].conditions[0].truth
        expected += [truth.count(label) / len(truth) for label in range(len(expected) // 3)]
        assert [x for x, _, _ in drawn.points] == near(expected)
        assert drawn.tips() == pytest.approx(expected, abs=5e-5)
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


def test_forest_plots_of_runs_have_the_baselines_of_each(suite: ResultGroup) -> None:
    normal = suite["Normal"]
    figure = forest({"a": normal, "b": normal})
    baselines = normal.means.baselines["normal"]
    (panel,) = figure.panels
    background = [shape for shape in panel.shapes if shape.series is None]
    for row in (0, 1):
        ends = {(shape.kind, tuple(shape.points)) for shape in background}
        for kind, value in (("line", baselines.max_random), ("dashed", baselines.majority)):
            assert (kind, ((value, row - 0.5), (value, row + 0.5))) in ends
    assert [key.text for key in figure.legend] == ["random baseline", "majority baseline"]
    page = report_html({"a": suite, "b": suite})
    overview = page[page.index('<figure class="overview">') :].split("</figure>")[0]
    assert "random baseline" in overview
    dashed = re.findall(r'<path class="stroke-mark"[^>]* stroke-dasharray', overview)
    assert len(dashed) == 3  # two runs, and the legend


def test_blue_is_the_better_run_also_where_lower_is_better() -> None:
    bias = Normal(datasets=["mini"], limit=40)
    right = {query.prompt: query.label for query in bias[0].all_queries()}

    def sure(share: float) -> Result:
        """Right on all rows, with a confidence that is too low by a share: the lower it is, the larger is the error."""
        rest = (1 - share) / 2
        return bias(lambda prompt, label_space: [share if label == right[prompt] else rest for label in range(3)])

    well, badly = sure(0.98), sure(0.4)
    for first, second, colour in ((well, badly, 0), (badly, well, 1)):
        compared = compare(first, second, "expected_calibration_error_1")
        assert not compared.higher_is_better
        assert compared.overall.outcome.significant
        (panel,) = differences([compared]).panels
        assert {shape.series for shape in panel.shapes if shape.kind == "mark"} == {colour}


def test_label_noise(suite: ResultGroup) -> None:
    gler = suite["GLER"]
    figure = noise_lines(gler)
    for panel, (dataset, values) in zip(figure.panels, gler.divided.items(), strict=True):
        drawn = Drawn(panel)
        assert drawn.title == dataset
        accuracies = [values[key]["accuracy"] for key in sorted(filter(str.isdigit, values))]
        assert [(x, y) for x, y, _ in drawn.points] == [
            near(pair) for pair in zip((1.0, 0.75, 0.5, 0.25, 0.0), accuracies, strict=True)
        ]
    expected = {name: f"{values['sensitivity']['accuracy'][0]:+.4f}" for name, values in gler.divided.items()}
    assert {row[0]: row[-1] for row in figure.rows} == expected


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
    figure = replace(accuracy_by_dataset(normal), legend=[Shape(kind="mark", text="published models, " * 3)])
    assert int(ElementTree.fromstring(figure.svg(columns=1)).get("width", 0)) > 57 * 6  # the legend is not cut off
    drawing = figure.axes(columns=1)[0].figure
    drawing.draw_without_rendering()
    assert drawing.legends[0].get_window_extent().x1 < drawing.bbox.width
