"""Figures as functions: what they draw is what the results say, whatever the user's matplotlib is set to."""

from __future__ import annotations

import io
from typing import Any

import pytest

import StaICC
from StaICC.errors import ArgumentError
from StaICC.results import Result, ResultGroup
from StaICC.results.published import figures
from StaICC.results.report import (
    accuracy_by_dataset,
    bias_distributions,
    confusion_matrices,
    consistency_chart,
    model_size_chart,
    noise_lines,
    reliability_diagrams,
    rounds_chart,
)
from StaICC.results.report.confusion import confusion_counts
from StaICC.results.report.drawing import SERIES, clip, printable, series
from StaICC.results.report.robustness import noise_series

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402


def draw(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=40)
    return buffer.getvalue()


def points(axes: Any, mark: str) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == mark
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def test_every_figure_is_a_matplotlib_figure_that_draws(suite: ResultGroup, long_icl: Result) -> None:
    made = [
        accuracy_by_dataset(suite["Normal"]),
        reliability_diagrams(suite["Normal"]),
        confusion_matrices(suite["Normal"]),
        bias_distributions(suite),
        noise_lines(suite["GLER"]),
        consistency_chart(suite["Template_sens"]),
        consistency_chart(suite["Demo_sens"]),
        model_size_chart(suite["Normal"]),
        rounds_chart(long_icl),
    ]
    for one in made:
        assert isinstance(one, Figure)
        assert draw(one).startswith(b"\x89PNG")
        assert one._repr_png_().startswith(b"\x89PNG")  # what a notebook asks for


def test_accuracies_stand_where_they_are(normal: Result) -> None:
    (axes,) = accuracy_by_dataset({"a": normal, "b": normal}).axes
    for number, mark in ((0, "o"), (1, "s")):
        found = points(axes, mark)
        expected = [values["accuracy"] for values in normal.divided.values()] + [normal.averaged["accuracy"]]
        assert [x for x, _ in found] == expected
        assert [round(y) for _, y in found] == [0, 1, 2, 3]
        assert number == [one.mark for one in SERIES].index(mark)
    assert [label.get_text() for label in axes.get_yticklabels()] == [*normal.divided, "mean"]


def test_reliability_points_are_the_bins(normal: Result) -> None:
    for axes, (dataset, details) in zip(reliability_diagrams(normal).axes, normal.details.items(), strict=True):
        bins = details.conditions[0].calibration
        assert bins is not None
        expected = [(one.confidence / one.queries, one.correct / one.queries) for one in bins if one.queries]
        (scatter,) = axes.collections
        found = [value for point in scatter.get_offsets().tolist() for value in point]
        assert found == pytest.approx([value for point in expected for value in point])
        assert axes.get_title() == dataset


def test_confusions_count_every_query(normal: Result) -> None:
    for dataset, (labels, counts) in confusion_counts(normal).items():
        assert sum(map(sum, counts)) == normal.details[dataset].scored
        right = sum(counts[place][place] for place in range(len(labels)))
        assert right / normal.details[dataset].scored == normal.divided[dataset]["accuracy"]
    for axes, (labels, counts) in zip(confusion_matrices(normal).axes, confusion_counts(normal).values(), strict=True):
        shown = {(round(t.get_position()[1]), round(t.get_position()[0])): int(t.get_text()) for t in axes.texts}
        assert shown == {
            (row, column): counts[row][column]
            for row in range(len(labels))
            for column in range(len(labels))
            if counts[row][column]
        }


def test_bias_marks_are_the_distributions(suite: ResultGroup) -> None:
    panels = bias_distributions(suite).axes
    for axes, dataset in zip(panels, suite["Normal"].divided, strict=False):
        for mark, benchmark in (("o", "Contextual_bias"), ("s", "Domain_bias"), ("^", "Post_bias")):
            expected = suite[benchmark].divided[dataset]["distribution"]
            assert [x for x, _ in points(axes, mark)] == pytest.approx(expected)


def test_label_noise_and_its_line(suite: ResultGroup) -> None:
    gler = suite["GLER"]
    for axes, (dataset, at) in zip(noise_lines(gler).axes, noise_series(gler).items(), strict=False):
        assert points(axes, "o") == at
        assert [share for share, _ in at] == [1.0, 0.75, 0.5, 0.25, 0.0]
        slope, intercept = gler.divided[dataset]["sensitivity"]["accuracy"]
        (line,) = (one for one in axes.lines if one.get_marker() == "None")
        assert list(line.get_ydata()) == pytest.approx([intercept, intercept + slope])


def test_label_noise_with_few_demonstrations() -> None:
    """With k = 2 only none, one or both labels can be wrong: the shares are what was really shown."""
    gler = StaICC.GLER(datasets=["mini"], k=2, limit=4)(lambda prompt, label_space: len(prompt) % 3)
    assert [share for share, _ in noise_series(gler)["mini"]] == [1.0, 1.0, 0.5, 0.5, 0.0]


def test_consistency_and_the_spread_of_accuracies(suite: ResultGroup) -> None:
    left, right = consistency_chart(suite["Template_sens"]).axes
    expected = [values["sensitivity"]["consistency"] for values in suite["Template_sens"].divided.values()]
    assert [x for x, _ in points(left, "o")] == expected
    strokes = points(right, "|")
    assert len(strokes) == 9 * 10


def test_published_models_stand_where_they_are(normal: Result) -> None:
    (axes,) = model_size_chart(normal).axes
    shown = {round(y, 4) for _, y in points(axes, "o") + points(axes, "^")}
    assert shown == {one.value for one in figures("Normal", method="vanilla", metric="accuracy")}
    assert not [line for line in axes.lines if line.get_label() == "Normal"]  # not comparable, so not drawn


def test_rounds(long_icl: Result) -> None:
    (axes,) = (one for one in rounds_chart(long_icl).axes if one.get_title())
    assert points(axes, "o") == [(n, pytest.approx(0.1 * n)) for n in range(1, 6)]
    assert sum(line.get_linewidth() == 0.6 for line in axes.lines) == 15  # published models


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda result: accuracy_by_dataset({}), "a figure needs a result"),
        (lambda result: accuracy_by_dataset({"a": "b"}), "a figure needs a result"),
        (lambda result: noise_lines(result), "Use results of GLER"),
        (lambda result: consistency_chart(result), "one of Template_sens, Demo_sens: got results of Normal"),
        (lambda result: bias_distributions({"Normal": result}), "Use results of the bias benchmarks"),
        (lambda result: rounds_chart(result), "Use results of LongICL"),
    ],
)
def test_unfit_results_say_what_is_wanted(normal: Result, make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(normal)


def test_the_users_settings_neither_matter_nor_change(normal: Result) -> None:
    plain = accuracy_by_dataset(normal)._repr_png_()
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "text.usetex": False}):
        before = dict(matplotlib.rcParams)
        assert accuracy_by_dataset(normal)._repr_png_() == plain
        assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_imported() -> None:
    import subprocess
    import sys

    code = (
        "import sys, StaICC\n"
        "from StaICC.results.report import accuracy_by_dataset\n"
        "assert 'matplotlib' not in sys.modules\n"
        "accuracy_by_dataset(StaICC.Normal(datasets=['mini'], limit=2)(lambda prompt, label_space: 0))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_of_every_kind_are_drawn(nasty: Result) -> None:
    for make in (reliability_diagrams, confusion_matrices):
        draw(make(nasty))
    draw(accuracy_by_dataset({"__hidden": nasty, "$\\badcommand$": nasty, "\x00": nasty}))


def test_six_runs_differ_by_colour_and_a_seventh_by_its_mark() -> None:
    assert len({series(number).colour for number in range(6)}) == len({series(number).mark for number in range(6)}) == 6
    assert len({series(number) for number in range(12)}) == 12


@pytest.mark.parametrize(
    ("given", "length", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("a\nb\tc", 9, "a b c"), ("\x00\x85\ud800x", 9, "���x"), ("", 3, "")],
)
def test_clipping(given: str, length: int, expected: str) -> None:
    assert clip(given, length) == expected
    assert len(printable(given)) == len(given)


def test_a_figure_of_one_run_takes_a_mapping_of_one_and_refuses_more(suite: ResultGroup) -> None:
    result = suite["Normal"]
    for chart in (reliability_diagrams, confusion_matrices):
        assert isinstance(chart({"mine": result}), Figure)
        with pytest.raises(ArgumentError, match=r"this figure shows one run: got 2 \(mine, theirs\). Choose one"):
            chart({"mine": result, "theirs": result})
        with pytest.raises(ArgumentError, match="needs a result"):
            chart({})
