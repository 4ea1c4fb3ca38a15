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
    """The subgroups are those of the four labels."""
    labels = runs["weak"].details["texts"].labels
    (record,) = runs["weak"].details["texts"].conditions

    (comparison,) = compare_subgroups(runs)

    assert [subgroup.group for subgroup in comparison.subgroups] == list(labels)
    for index, label in enumerate(labels):
        rows_of_label = {row for row, true_label in zip(record.rows, record.truth, strict=True) if true_label == index}
        weak_on_label = result_on_rows(runs["weak"], rows_of_label)
        strong_on_label = result_on_rows(runs["strong"], rows_of_label)
        expected = compare(weak_on_label, strong_on_label).overall
        line = subgroup_of(comparison, label).line
        assert line.values == expected.values
        assert line.interval == expected.interval
        assert line.p_value == expected.p_value
        assert line.detectable == expected.detectable
        assert line.rows == len(rows_of_label)


def test_the_values_of_labels_are_recalls(runs: dict[str, Result]) -> None:
    (record,) = runs["weak"].details["texts"].conditions
    labels_and_predictions = list(zip(record.truth, record.predictions, strict=True))

    (comparison,) = compare_subgroups(runs)

    for index, label in enumerate(runs["weak"].details["texts"].labels):
        queries_of_label = record.truth.count(index)
        correct = labels_and_predictions.count((index, index))
        subgroup = subgroup_of(comparison, label)
        recall_of_weak, _ = subgroup.line.values
        assert recall_of_weak == pytest.approx(correct / queries_of_label, abs=1e-12)
        assert subgroup.share == pytest.approx(queries_of_label / len(record.truth), abs=1e-12)


def test_the_contributions_of_labels_sum_to_the_whole_difference(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)

    contributions = [subgroup.contribution for subgroup in comparison.subgroups]
    assert None not in contributions
    whole_difference = compare(runs["weak"], runs["strong"]).overall.difference
    assert sum(contributions) == pytest.approx(whole_difference, abs=1e-12)  # type: ignore[arg-type]


def test_the_line_of_all_rows_is_the_comparison_without_subgroups(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)

    (all_rows,) = comparison.all_rows
    without_subgroups = compare(runs["weak"], runs["strong"]).overall
    assert all_rows.line.difference == without_subgroups.difference
    assert all_rows.line.p_value == without_subgroups.p_value


@pytest.mark.parametrize(
    ("benchmark", "metric"),
    [
        (Normal, "averaged_truelabel_likelihood"),
        (GLER, "accuracy"),
        (TemplateSensitivity, "consistency"),
    ],
)
def test_the_contributions_to_any_mean_over_queries_sum_to_the_whole_difference(benchmark: Any, metric: str) -> None:
    runs = {"a": run(benchmark, {"no": 0.2}, limit=60), "b": run(benchmark, {"no": 0.9}, seed=2, limit=60)}

    (comparison,) = compare_subgroups(runs, metric=metric)

    contributions = [subgroup.contribution or 0.0 for subgroup in comparison.subgroups]
    whole_difference = compare(runs["a"], runs["b"], metric).overall.difference
    assert whole_difference is not None
    assert abs(whole_difference) > 0.01
    assert math.fsum(contributions) == pytest.approx(whole_difference, abs=1e-12)


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

    comparisons = compare_subgroups({**runs, "third": third})

    pairs, labels = 3, 4
    lines = [subgroup.line for comparison in comparisons for subgroup in comparison.subgroups]
    assert len(lines) == pairs * labels
    assert [line.holm for line in lines] == holm([line.p_value for line in lines])
    assert [comparison.tests for comparison in comparisons] == [pairs * labels] * pairs


def test_the_text_says_for_how_many_tests_p_values_are_corrected(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)

    assert "corrected for 4 tests" in str(comparison)
    assert "significant difference in one subgroup and none in another is no evidence" in str(comparison)


def test_a_subgroup_that_is_too_small_is_untested_with_the_reason() -> None:
    runs = {
        "a": run(strengths={"no": 0.2, "yes": 1.0}, limit=40),
        "b": run(strengths={"no": 0.9, "yes": 0.0}, seed=2, limit=40),
    }

    (comparison,) = compare_subgroups(runs)

    small_subgroups = [subgroup for subgroup in comparison.subgroups if subgroup.line.rows < 6]
    assert small_subgroups
    for subgroup in small_subgroups:
        assert isinstance(subgroup.line.outcome, Untested)
        assert subgroup.line.holm is None
        assert f"untested: texts, {subgroup.group} (" in str(comparison)


def test_all_rows_that_are_untested_have_the_reason_too() -> None:
    (comparison,) = compare_subgroups({"a": run(limit=4), "b": run(seed=2, limit=4)})

    (all_rows,) = comparison.all_rows
    assert isinstance(all_rows.line.outcome, Untested)
    assert f"untested: texts, all rows ({all_rows.line.outcome.reason})" in comparison.conclusion()


def test_without_a_tested_subgroup_nothing_is_said_about_significance() -> None:
    """Six rows are too few for a test."""
    always_right = {"no": 1.0, "yes": 1.0, "maybe": 1.0, "rare": 1.0}
    always_wrong = {"no": 0.0, "yes": 0.0, "maybe": 0.0, "rare": 0.0}
    runs = {"a": run(strengths=always_right, limit=6), "b": run(strengths=always_wrong, limit=6)}

    (comparison,) = compare_subgroups(runs)

    for subgroup in comparison.subgroups:
        assert isinstance(subgroup.line.outcome, Untested), subgroup.group
    for sentence in comparison.conclusion():
        assert sentence.startswith("untested: ")


def test_the_conclusion_says_that_no_tested_subgroup_differs() -> None:
    (comparison,) = compare_subgroups({"a": run(limit=60), "b": run(seed=2, limit=60)})

    tested = [subgroup for subgroup in comparison.subgroups if isinstance(subgroup.line.outcome, Tested)]
    assert tested
    assert comparison.conclusion()[0] == "no tested subgroup has a significant difference"


def test_the_sentence_names_the_better_run(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)

    outcome = subgroup_of(comparison, "no").line.outcome
    assert isinstance(outcome, Tested)
    assert outcome.significant
    assert f"texts, no: strong is better ({p_text(outcome.corrected_p_value)})" in comparison.conclusion()


def test_a_lower_slope_of_gler_is_better_in_subgroups() -> None:
    runs = {"a": run(GLER, {"no": 0.2}, limit=60), "b": run(GLER, {"no": 0.9}, seed=2, limit=60)}

    (comparison,) = compare_subgroups(runs)

    assert not comparison.higher_is_better


def test_subgroups_with_missing_queries_have_no_contributions() -> None:
    """Missing queries count at their worst in each subgroup, and so the differences do not add up."""
    partial = run(strengths={"no": 0.2}, fails=0.1)
    complete = run(strengths={"no": 0.9}, seed=2)

    (comparison,) = compare_subgroups({"a": partial, "b": complete})

    missing_in_subgroups = sum(subgroup.line.missing[0] for subgroup in comparison.subgroups)
    (all_rows,) = comparison.all_rows
    assert missing_in_subgroups > 0
    assert all_rows.line.missing[0] == missing_in_subgroups
    for subgroup in comparison.subgroups:
        assert subgroup.contribution is None, subgroup.group
    assert "queries are missing" in str(comparison)


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
    """The queries of this benchmark are random words, and no texts of test rows."""
    runs = {"a": run(DomainBias, limit=8), "b": run(DomainBias, seed=2, limit=8)}

    with pytest.raises(ArgumentError, match="no text of a test row"):
        compare_subgroups(runs)


def test_an_unknown_column_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match=r"there is no column 'labels'\. There are: label"):
        compare_subgroups(runs, by="labels")


def test_a_column_that_is_no_text_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match="by: got 3"):
        compare_subgroups(runs, by=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "json"])
def test_every_format_has_all_subgroups(runs: dict[str, Result], form: str) -> None:
    text = format_tables(compare_subgroups(runs), form)

    for label in ("maybe", "no", "rare", "yes"):
        assert label in text


def test_json_has_a_subgroup_for_each_label(runs: dict[str, Result]) -> None:
    (document,) = json.loads(format_tables(compare_subgroups(runs), "json"))

    assert [subgroup["group"] for subgroup in document["subgroups"]] == ["maybe", "no", "rare", "yes"]
    for subgroup in document["subgroups"]:
        assert subgroup["outcome"] in ("tested", "untested")


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


def test_the_slope_of_gler_in_a_subgroup_is_that_of_the_recall() -> None:
    first = run(GLER, {"no": 0.2}, limit=40)
    second = run(GLER, {"no": 0.9}, seed=2, limit=40)
    shares_of_correct_labels = [1.0, 0.75, 0.5, 0.25, 0.0]
    recalls = [recall_of_label(record, label=1) for record in first.details["texts"].conditions]
    slope = statistics.linear_regression(shares_of_correct_labels, recalls).slope

    (comparison,) = compare_subgroups({"a": first, "b": second}, metric="accuracy")

    name_of_label = first.details["texts"].labels[1]
    slope_of_first, _ = subgroup_of(comparison, name_of_label).line.values
    assert slope_of_first == pytest.approx(slope, abs=1e-12)


def recall_of_label(record: Any, label: int) -> float:
    """Return the share of the queries with a label that are predicted correctly."""
    hits = []
    for true_label, prediction in zip(record.truth, record.predictions, strict=True):
        if true_label == label:
            hits.append(prediction == label)
    return sum(hits) / len(hits)


def test_the_table_of_gler_by_subgroups_calls_the_metric_a_slope() -> None:
    runs = {"a": run(GLER, {"no": 0.2}, limit=40), "b": run(GLER, {"no": 0.9}, seed=2, limit=40)}

    (comparison,) = compare_subgroups(runs, metric="accuracy")

    assert "metric: slope of accuracy (lower is better)" in str(comparison)


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
    (comparison,) = compare_subgroups(runs)
    (all_rows,) = comparison.all_rows
    differences = [subgroup.line.difference for subgroup in comparison.subgroups]
    differences.append(all_rows.line.difference)

    figure = subgroup_differences(comparison)

    assert column_of(figure, "difference") == [f"{difference:.4f}" for difference in differences]


def test_the_forest_plot_has_the_corrected_p_values_of_subgroups(runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(runs)
    expected_cells = []
    for subgroup in comparison.subgroups:
        assert isinstance(subgroup.line.outcome, Tested)
        expected_cells.append(p_text(subgroup.line.outcome.corrected_p_value))

    *cells_of_subgroups, cell_of_all_rows = column_of(subgroup_differences(comparison), "p (Holm)")

    assert cells_of_subgroups == expected_cells
    assert isinstance(cell_of_all_rows, Missing)
    assert "not corrected" in cell_of_all_rows.reason


def test_only_significant_subgroups_are_coloured_in_the_forest_plot(runs: dict[str, Result]) -> None:
    """The second run is better on some labels."""
    colour_of_second_run, grey = 1, None
    (comparison,) = compare_subgroups(runs)
    expected_colours = []
    for subgroup in comparison.subgroups:
        assert isinstance(subgroup.line.outcome, Tested)
        expected_colours.append(colour_of_second_run if subgroup.line.outcome.significant else grey)
    assert colour_of_second_run in expected_colours
    assert grey in expected_colours

    (panel,) = subgroup_differences(comparison).panels

    colours = [shape.series for shape in panel.shapes if shape.kind == "mark"]
    colour_of_all_rows = grey
    assert colours == [*expected_colours, colour_of_all_rows]


def test_the_forest_plot_of_something_else_is_refused(runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match=r"expected a comparison on subgroups, such as compare_subgroups\(runs\)"):
        subgroup_differences(runs["weak"])  # type: ignore[arg-type]
