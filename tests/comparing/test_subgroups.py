"""Comparisons on subgroups of the test rows: the same test, on the rows of a label."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from StaICC import GLER, Dataset, DomainBias, Normal, TemplateSensitivity, compare, compare_subgroups
from StaICC.comparing.formats import format_tables
from StaICC.comparing.subgroup_results import SubgroupComparison, SubgroupDifference
from StaICC.comparing.verdicts import Tested, Untested, p_text
from StaICC.errors import ArgumentError
from StaICC.metrics.paired_tests import holm
from StaICC.report.figures.difference_plot import subgroup_differences
from StaICC.report.html import Missing
from StaICC.results.details import query_positions
from StaICC.results.result import Result

ROWS = [(f"text {number}", ("no", "yes", "maybe", "rare")[min(number % 8, 3)]) for number in range(400)]
DATA = Dataset.from_rows(ROWS, name="texts")


def model(strength_by_label: dict[str, float], seed: int, fails: float = 0.0) -> Callable[[Any, Any], Any]:
    """Return a model that is right on the rows of a label with a probability of its own."""

    def predict(prompt: Any, label_space: Any) -> Any:
        number = int(re.findall(r"text (\d+)", str(prompt))[-1])
        truth = ROWS[number][1]
        draw = random.Random(f"{seed} {prompt}")
        if draw.random() < fails:
            return None
        is_right = draw.random() < strength_by_label.get(truth, 0.5)
        label = truth if is_right else label_space[(list(label_space).index(truth) + 1) % len(label_space)]
        confidence = 0.4 + 0.5 * draw.random()
        other = (1.0 - confidence) / (len(label_space) - 1)
        return [confidence if name == label else other for name in label_space]

    return predict


def run(benchmark: Any = Normal, strengths: dict[str, float] | None = None, seed: int = 1, **settings: Any) -> Result:
    fails = settings.pop("fails", 0.0)
    predict = model(strengths or {}, seed, fails)
    found: Result = benchmark(datasets=[DATA], **settings)(predict, on_error="collect")
    return found


def result_on_rows(result: Result, rows: set[int], queries_of_row: int = 2) -> Result:
    """Return a result with the predicted labels for the first queries of some test rows only."""
    details = result.details["texts"]
    conditions = []
    for record in details.conditions:
        assert record.output == "probabilities"
        scores = record.label_scores(len(details.labels))
        indexes = []
        for index, (row, number_of_query) in enumerate(query_positions(record.rows)):
            if row in rows and number_of_query < queries_of_row:
                assert scores[index] is not None
                indexes.append(index)
        record_on_rows = replace(
            record,
            output="labels",
            scores=None,
            truth=tuple(record.truth[index] for index in indexes),
            predictions=tuple(record.predictions[index] for index in indexes),
            rows=tuple(record.rows[index] for index in indexes),
        )
        conditions.append(record_on_rows)
    details_on_rows = replace(details, conditions=tuple(conditions))
    return replace(result, details={"texts": details_on_rows})


@pytest.fixture(scope="module")
def runs() -> dict[str, Result]:
    return {
        "weak": run(strengths={"no": 0.3, "yes": 0.6, "maybe": 0.6, "rare": 0.4}),
        "strong": run(strengths={"no": 0.95, "yes": 0.5, "maybe": 0.6, "rare": 0.7}, seed=2),
    }


def subgroup_of(comparison: SubgroupComparison, group: str) -> SubgroupDifference:
    (found,) = [subgroup for subgroup in comparison.subgroups if subgroup.group == group]
    return found


def test_the_test_of_a_subgroup_is_that_of_a_data_set_with_its_rows(runs: dict[str, Result]) -> None:
    labels = runs["weak"].details["texts"].labels
    (record,) = runs["weak"].details["texts"].conditions

    (found,) = compare_subgroups(runs)

    assert [subgroup.group for subgroup in found.subgroups] == list(labels)
    for index, label in enumerate(labels):
        rows_of_label = {row for row, true_label in zip(record.rows, record.truth, strict=True) if true_label == index}
        weak = result_on_rows(runs["weak"], rows_of_label)
        strong = result_on_rows(runs["strong"], rows_of_label)
        expected = compare(weak, strong).overall
        line = subgroup_of(found, label).line
        assert line.values == expected.values
        assert line.interval == expected.interval
        assert line.p_value == expected.p_value
        assert line.detectable == expected.detectable
        assert line.rows == len(rows_of_label)


def test_the_values_of_labels_are_recalls(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)
    (record,) = runs["weak"].details["texts"].conditions

    for index, label in enumerate(runs["weak"].details["texts"].labels):
        rows_of_label = record.truth.count(index)
        hits = list(zip(record.truth, record.predictions, strict=True)).count((index, index))
        subgroup = subgroup_of(comparison, label)
        assert subgroup.line.values[0] == pytest.approx(hits / rows_of_label, abs=1e-12)
        assert subgroup.share == pytest.approx(rows_of_label / len(record.truth), abs=1e-12)


def test_the_contributions_of_labels_sum_to_the_whole_difference(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)
    whole = compare(runs["weak"], runs["strong"]).overall

    (all_rows,) = comparison.all_rows
    assert all_rows.line.difference == whole.difference
    assert all_rows.line.p_value == whole.p_value
    contributions = [subgroup.contribution for subgroup in comparison.subgroups]
    assert None not in contributions
    assert math.fsum(filter(None, contributions)) == pytest.approx(whole.difference, abs=1e-12)


@pytest.mark.parametrize(
    ("benchmark", "metric"),
    [
        (Normal, "averaged_truelabel_likelihood"),
        (GLER, "accuracy"),
        (TemplateSensitivity, "consistency"),
    ],
)
def test_all_means_over_queries_add_up(benchmark: Any, metric: str) -> None:
    runs = {"a": run(benchmark, {"no": 0.2}, limit=60), "b": run(benchmark, {"no": 0.9}, seed=2, limit=60)}
    (found,) = compare_subgroups(runs, metric=metric)
    total = math.fsum(subgroup.contribution or 0.0 for subgroup in found.subgroups)
    whole = compare(runs["a"], runs["b"], metric).overall.difference
    assert total == pytest.approx(whole, abs=1e-12)
    assert abs(total) > 0.01


def test_the_contributions_of_labels_sum_to_the_difference_of_runs_with_two_queries_and_with_one(
    runs: dict[str, Result],
) -> None:
    two_queries = runs["weak"]
    all_rows = set(runs["strong"].details["texts"].conditions[0].rows)
    one_query = result_on_rows(runs["strong"], all_rows, queries_of_row=1)

    (comparison,) = compare_subgroups({"two": two_queries, "one": one_query})

    whole = compare(two_queries, one_query).overall
    assert whole.queries[0] == 2 * whole.queries[1]
    contributions = [subgroup.contribution or 0.0 for subgroup in comparison.subgroups]
    assert math.fsum(contributions) == pytest.approx(whole.difference, abs=1e-12)


def test_p_values_are_corrected_for_all_subgroups_and_pairs(runs: dict[str, Result]) -> None:
    third = run(strengths={"no": 0.6}, seed=3)
    found = compare_subgroups({**runs, "third": third})
    assert len(found) == 3
    lines = [subgroup.line for comparison in found for subgroup in comparison.subgroups]
    assert len(lines) == 12
    assert [line.holm for line in lines] == holm([line.p_value for line in lines])
    assert {comparison.tests for comparison in found} == {12}
    assert "corrected for 12 tests" in str(found[0])
    assert "significant difference in one subgroup and none in another is no evidence" in str(found[0])


def test_a_subgroup_that_is_too_small_is_untested_with_the_reason() -> None:
    runs = {
        "a": run(strengths={"no": 0.2, "yes": 1.0}, limit=40),
        "b": run(strengths={"no": 0.9, "yes": 0.0}, seed=2, limit=40),
    }
    (found,) = compare_subgroups(runs)
    small = [subgroup for subgroup in found.subgroups if subgroup.line.rows < 6]
    assert small
    for subgroup in small:
        assert isinstance(subgroup.line.outcome, Untested)
        assert subgroup.line.holm is None
        assert f"untested: texts, {subgroup.group} (" in str(found)
    assert found.to_dict()["subgroups"][0]["outcome"] in ("tested", "untested")


def test_all_rows_that_are_untested_have_the_reason_too() -> None:
    runs = {"a": run(limit=4), "b": run(seed=2, limit=4)}
    (found,) = compare_subgroups(runs)
    (whole,) = found.all_rows
    assert isinstance(whole.line.outcome, Untested)
    assert f"untested: texts, all rows ({whole.line.outcome.reason})" in found.conclusion()


def test_without_a_tested_subgroup_nothing_is_said_about_significance() -> None:
    always_right = dict.fromkeys(("no", "yes", "maybe", "rare"), 1.0)
    always_wrong = dict.fromkeys(always_right, 0.0)
    runs = {"a": run(strengths=always_right, limit=6), "b": run(strengths=always_wrong, limit=6)}
    (untested,) = compare_subgroups(runs)
    assert [subgroup for subgroup in untested.subgroups if not isinstance(subgroup.line.outcome, Untested)] == []
    assert [text for text in untested.conclusion() if not text.startswith("untested: ")] == []
    (tested,) = compare_subgroups({"a": run(limit=60), "b": run(seed=2, limit=60)})
    assert any(isinstance(subgroup.line.outcome, Tested) for subgroup in tested.subgroups), f"got {tested.subgroups}"
    assert tested.conclusion()[0] == "no tested subgroup has a significant difference"


def test_the_sentence_names_the_better_run(runs: dict[str, Result]) -> None:
    (found,) = compare_subgroups(runs)
    outcome = subgroup_of(found, "no").line.outcome
    assert isinstance(outcome, Tested)
    assert outcome.significant
    assert f"texts, no: strong is better ({p_text(outcome.corrected_p_value)})" in found.conclusion()
    (lower_is_better,) = compare_subgroups(
        {"a": run(GLER, {"no": 0.2}, limit=60), "b": run(GLER, {"no": 0.9}, seed=2, limit=60)}
    )
    assert not lower_is_better.higher_is_better


def test_missing_queries_count_at_their_worst_and_nothing_adds_up() -> None:
    runs = {"a": run(strengths={"no": 0.2}, fails=0.1), "b": run(strengths={"no": 0.9}, seed=2)}
    (found,) = compare_subgroups(runs)
    assert sum(subgroup.line.missing[0] for subgroup in found.subgroups) == found.all_rows[0].line.missing[0] > 0
    assert [subgroup for subgroup in found.subgroups if subgroup.contribution is not None] == []
    assert "queries are missing" in str(found)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("macro_F1", "macro F1 is no mean over queries"),
        ("expected_calibration_error_1", "ECE-1 is no mean over queries"),
    ],
)
def test_metrics_that_compare_labels_are_refused_by_label(runs: dict[str, Result], metric: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        compare_subgroups(runs, metric=metric)


def test_queries_without_content_have_no_label() -> None:
    found = {"a": run(DomainBias, limit=8), "b": run(DomainBias, seed=2, limit=8)}
    with pytest.raises(ArgumentError, match="no text of a test row"):
        compare_subgroups(found)


def test_an_unknown_grouping_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match=r"there is no column 'labels'\. There are: label"):
        compare_subgroups(runs, by="labels")
    with pytest.raises(ArgumentError, match="by: got 3"):
        compare_subgroups(runs, by=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "json"])
def test_every_format_has_all_subgroups(runs: dict[str, Result], form: str) -> None:
    found = compare_subgroups(runs)
    text = format_tables(found, form)
    for label in ("maybe", "no", "rare", "yes"):
        assert label in text
    if form == "json":
        assert len(json.loads(text)[0]["subgroups"]) == 4


def test_labels_with_one_name_are_told_apart() -> None:
    first = run(limit=60)
    digest_of_other_data = hashlib.sha256(b"x").hexdigest()
    details = replace(first.details["texts"], labels=("a", "a", "b", "c"), data=digest_of_other_data)
    renamed = replace(first, details={"texts": details})

    (found,) = compare_subgroups({"x": renamed, "y": renamed})

    assert [subgroup.group for subgroup in found.subgroups[:2]] == ["a (label 0)", "a (label 1)"]


@pytest.mark.parametrize("labels", [("a", "a", "a (label 0)", "b"), ("a (label 1)", "a", "a", "b")], ids=str)
def test_two_labels_a_and_a_third_label_with_the_name_of_their_subgroup_are_four_subgroups(
    labels: tuple[str, ...],
) -> None:
    """Subgroups of two labels "a" are called "a (label 0)" and so on, which is here the name of another label."""
    first = run(limit=60)
    details = replace(first.details["texts"], labels=labels)
    renamed = replace(first, details={"texts": details})

    (found,) = compare_subgroups({"x": renamed, "y": renamed})

    names_of_subgroups = {subgroup.group for subgroup in found.subgroups}
    assert len(names_of_subgroups) == 4
    rows_of_subgroups = [subgroup.line.rows for subgroup in found.subgroups]
    assert sum(rows_of_subgroups) == 60
    assert found.all_rows[0].line.rows == 60


def test_the_line_of_all_rows_differs_from_a_value_with_its_name() -> None:
    """A subgroup of texts that end with 0 is called "all rows"; the table also has a line for all rows."""

    def value_of_row(row: Any) -> str:
        return "all rows" if row.texts[0].endswith("0") else "other"

    data = Dataset.from_rows(ROWS, name="texts", subgroups={"part": value_of_row})
    benchmark = Normal(datasets=[data], limit=60)
    runs: Any = {"1": benchmark(model({}, seed=1)), "2": benchmark(model({}, seed=2))}

    (found,) = compare_subgroups(runs, by="part")

    assert [subgroup.group for subgroup in found.subgroups] == ["all rows", "other"]
    _, rows = found.table()
    assert [cells[0] for cells in rows] == ["texts, all rows", "texts, other", "texts (all rows)"]


def test_the_slope_of_gler_is_named_and_is_that_of_the_recall() -> None:
    runs = {"a": run(GLER, {"no": 0.2}, limit=40), "b": run(GLER, {"no": 0.9}, seed=2, limit=40)}
    (found,) = compare_subgroups(runs, metric="accuracy")
    assert "metric: slope of accuracy (lower is better)" in str(found)
    details = runs["a"].details["texts"]
    recalls = []
    for record in details.conditions:
        hits = [guess == truth for guess, truth in zip(record.predictions, record.truth, strict=True) if truth == 1]
        recalls.append(sum(hits) / len(hits))
    shares_of_correct_labels = [1.0, 0.75, 0.5, 0.25, 0.0]
    slope = statistics.linear_regression(shares_of_correct_labels, recalls).slope
    assert subgroup_of(found, details.labels[1]).line.values[0] == pytest.approx(slope, abs=1e-12)


def test_the_title_has_the_name_of_the_class() -> None:
    runs = {"a": run(TemplateSensitivity, limit=8), "b": run(TemplateSensitivity, seed=2, limit=8)}
    (found,) = compare_subgroups(runs)
    assert str(found).startswith("TemplateSensitivity by label: first a, second b\n")


def test_runs_without_names_are_the_first_and_the_second_in_titles(runs: dict[str, Result]) -> None:
    first, second = runs.values()
    (by_label,) = compare_subgroups({"first": first, "second": second})

    assert str(by_label).startswith("Normal by label: first and second\n")
    assert str(compare(first, second)).startswith("Normal: first and second\n")


# -- the forest plot


def test_the_forest_plot_has_a_row_for_each_subgroup_and_one_for_all_rows(runs: dict[str, Result]) -> None:
    (found,) = compare_subgroups(runs)

    figure = subgroup_differences(found)

    names = [row[figure.head.index("data set, subgroup")] for row in figure.rows]
    labels = runs["weak"].details["texts"].labels
    assert names == [*[f"texts, {label}" for label in labels], "texts (all rows)"]


def column_of(figure: Any, name: str) -> list[Any]:
    """Return the cells of a column of a figure's table."""
    return [row[figure.head.index(name)] for row in figure.rows]


def test_the_forest_plot_has_the_differences_of_all_subgroups_and_rows(runs: dict[str, Result]) -> None:
    (found,) = compare_subgroups(runs)
    figure = subgroup_differences(found)
    lines = [*[subgroup.line for subgroup in found.subgroups], found.all_rows[0].line]
    assert column_of(figure, "difference") == [f"{line.difference:.4f}" for line in lines]


def test_the_forest_plot_has_the_corrected_p_values_of_subgroups(runs: dict[str, Result]) -> None:
    (found,) = compare_subgroups(runs)
    *of_subgroups, of_all_rows = column_of(subgroup_differences(found), "p (Holm)")
    assert of_subgroups == [p_text(subgroup.line.outcome.corrected_p_value) for subgroup in found.subgroups]  # type: ignore[union-attr]
    assert isinstance(of_all_rows, Missing)
    assert "not corrected" in of_all_rows.reason


def test_only_significant_subgroups_are_coloured_in_the_forest_plot(runs: dict[str, Result]) -> None:
    """The second run is better on two labels; series 1 is its colour, and ``None`` is grey."""
    (found,) = compare_subgroups(runs)
    expected = []
    for subgroup in found.subgroups:
        outcome = subgroup.line.outcome
        assert isinstance(outcome, Tested)
        expected.append(1 if outcome.significant else None)
    assert {1, None} == set(expected)

    (panel,) = subgroup_differences(found).panels

    colours = [shape.series for shape in panel.shapes if shape.kind == "mark"]
    assert colours == [*expected, None]


def test_the_forest_plot_of_something_else_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match=r"expected a comparison on subgroups, such as compare_subgroups\(runs\)"):
        subgroup_differences(runs["weak"])  # type: ignore[arg-type]
