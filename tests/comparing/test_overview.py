"""Three or more runs on one screen: each fact once, and each figure that of the comparison of its pair."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest

from StaICC import Dataset, Normal, load_kernel
from StaICC.comparing.alignment import MOST_RUNS
from StaICC.comparing.benchmark_comparison import BenchmarkComparison, display_comparisons
from StaICC.comparing.cells import interval_cell, number_cell
from StaICC.comparing.comparison import compare_runs
from StaICC.comparing.comparison_results import Comparison
from StaICC.comparing.formats import format_comparisons
from StaICC.comparing.overview import overview_blocks
from StaICC.comparing.ranking import MISSING_NOTE
from StaICC.comparing.setting_differences import Difference, shown_value
from StaICC.comparing.verdicts import Tested, Untested
from StaICC.layout import TextTable, layout
from StaICC.report.figures.difference_plot import differences
from StaICC.results.result import Result


@pytest.fixture(scope="module")
def text() -> str:
    runs = {f"k = {k}": Normal(k, datasets=["mini"], limit=96)(load_kernel("ppm")) for k in (1, 2, 3)}
    return layout(display_comparisons([compare_runs(runs)]), width=100, wrap=True)


def test_three_runs_fit_a_screen(text: str) -> None:
    """With one data set here; ten data sets have nine rows more."""
    lines = text.splitlines()
    signatures = [line for line in lines if line.startswith("StaICC|")]

    assert len(lines) <= 34
    for line in lines:
        if line not in signatures:
            assert len(line) <= 100, line


def test_facts_that_all_runs_share_are_stated_once(text: str) -> None:
    assert text.count("ppm [") == 1
    assert text.count("metric: accuracy") == 1
    assert text.count("StaICC|benchmark:Normal|") == 1


def test_the_values_of_a_setting_in_which_runs_differ_are_on_one_line(text: str) -> None:
    (line,) = [line for line in text.splitlines() if line.startswith("they differ in k: ")]

    values = line.removeprefix("they differ in k: ").split(", ")
    assert sorted(values) == ["1 (k = 1)", "2 (k = 2)", "3 (k = 3)"]


@pytest.fixture(scope="module")
def lines_of_two_kinds_of_models() -> list[str]:
    """The lines about "long" and "short", which are runs of ppm on 60 and 40 rows, and "own", which is a function."""

    def normal(limit: int) -> Normal:
        return Normal(1, datasets=[dataset("A"), dataset("B")], limit=limit)

    runs = {
        "long": normal(60)(load_kernel("ppm")),
        "short": normal(40)(load_kernel("ppm")),
        "own": normal(60)(model(0.4), model_name="own"),
    }
    return layout(display_comparisons([compare_runs(runs)]), width=1000, wrap=False).splitlines()


def test_settings_that_only_some_runs_have_are_on_one_line(lines_of_two_kinds_of_models: list[str]) -> None:
    lines = [line for line in lines_of_two_kinds_of_models if not line.startswith("StaICC|")]

    (line_of_ppm,) = [line for line in lines if re.match(r"only (long, short|short, long) have ", line)]

    assert line_of_ppm.endswith("version of the kernel's computation: ppm/1")
    lines_with_a_setting_of_ppm = [line for line in lines if "escape=C" in line]
    assert len(lines_with_a_setting_of_ppm) == 1


def test_a_note_about_several_data_sets_is_on_one_line(lines_of_two_kinds_of_models: list[str]) -> None:
    (note,) = [line for line in lines_of_two_kinds_of_models if line.startswith("long and short: ")]

    assert "left out: each of A, B: 40 of 120 queries of long are not compared" in note


def test_a_difference_in_one_setting_is_part_of_a_difference_in_all_of_them() -> None:
    whole = Difference("scoring", "escape=C;order=12", "variant=paper")

    assert Difference("order", "12", None).is_part_of(whole)
    assert Difference("variant", None, "paper").is_part_of(whole)


def test_a_difference_with_another_value_side_or_setting_is_no_part_of_a_difference() -> None:
    whole = Difference("scoring", "escape=C;order=12", "variant=paper")
    other_value = Difference("order", "13", None)
    other_side = Difference("order", None, "12")
    other_setting = Difference("dtype", "float32", None)

    for difference in (other_value, other_side, other_setting):
        assert not difference.is_part_of(whole), difference


def test_each_pair_has_a_line(text: str) -> None:
    for first, second in (("k = 1", "k = 2"), ("k = 1", "k = 3"), ("k = 2", "k = 3")):
        assert f"\n{first}  {second} " in text


def test_a_digest_is_shown_by_its_first_digits() -> None:
    assert shown_value(f"weights {'0123456789abcdef' * 4}") == "weights 0123456789ab"
    assert shown_value("0123456789ab") == "0123456789ab"


# The figures.


def dataset(name: str) -> Dataset:
    rows = [(f"{name} {number}", number % 2) for number in range(400)]
    return Dataset.from_rows(rows, name=name, label_space=["no", "yes"])


def model(wrong_rate: float, salt: str = "", fail_rate: float = 0.0) -> Callable[..., int]:
    """Return a model that is wrong on a share of the rows, and fails on a share. With one salt, these are nested."""

    def predict(prompt: str, label_space: list[str]) -> int:
        name, digits = re.findall(r"\b([AB]) (\d+)\b", prompt)[-1]
        draw = random.Random(f"{salt} {name} {digits}").random()
        if draw >= 1.0 - fail_rate:
            raise ValueError("this model fails here")
        label = int(digits) % 2
        return 1 - label if draw < wrong_rate else label

    return predict


def run(function: Callable[..., int], *names: str) -> Result:
    """Return a run of a model, which may fail, on 60 rows of the data sets with these names (A, B)."""
    benchmark = Normal(k=0, datasets=[dataset(name) for name in names], limit=60)
    result = benchmark(function, on_error="collect")
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def compared() -> BenchmarkComparison:
    """Runs that differ significantly, not significantly, on too few rows for a test, and with missing queries."""
    runs = {
        "strong": run(model(0.1), "A"),
        "next": run(model(0.14), "A"),
        "other": run(model(0.25, "other"), "A"),
        "weak": run(model(0.7), "A"),
        "partial": run(model(0.3, fail_rate=0.1), "A"),
    }
    return compare_runs(runs)


@pytest.fixture(scope="module")
def with_other_datasets() -> BenchmarkComparison:
    runs = {
        "a": run(model(0.1, "a"), "A"),
        "ab": run(model(0.5, "ab"), "A", "B"),
        "b": run(model(0.45, "b"), "B"),
    }
    return compare_runs(runs)


@pytest.fixture(scope="module")
def of_many_runs() -> BenchmarkComparison:
    return compare_runs({f"run {n}": run(model(0.05 + 0.035 * n, str(n)), "A") for n in range(MOST_RUNS + 2)})


def tables(comparison: BenchmarkComparison) -> list[TextTable]:
    """Return the tables of an overview: the values if there is one, and the pairs."""
    blocks = overview_blocks(comparison.comparisons, [rank.run for rank in comparison.ranking])
    return [block for block in blocks if isinstance(block, TextTable)]


def expected_row(pair: Comparison) -> list[str]:
    """Return the row of a pair, from the test of its mean."""
    line = pair.overall
    better = "untested"
    if isinstance(line.outcome, Tested):
        better = "not shown"
        if line.outcome.corrected_p_value <= 0.05:
            is_first = (line.values[0] > line.values[1]) == pair.higher_is_better
            better = pair.first if is_first else pair.second
    return [
        pair.first,
        pair.second,
        better,
        number_cell(line.difference, "+.4f"),
        interval_cell(line.interval),
        number_cell(line.holm, ".3g"),
        number_cell(line.detectable, ".3f"),
    ]


@pytest.mark.parametrize("name", ["compared", "with_other_datasets", "of_many_runs"])
def test_the_row_of_a_pair_has_the_figures_of_its_comparison(name: str, request: pytest.FixtureRequest) -> None:
    compared = request.getfixturevalue(name)

    *_, table_of_pairs = tables(compared)

    assert [list(row) for row in table_of_pairs.rows] == [expected_row(pair) for pair in compared.comparisons]


def test_the_runs_of_these_tests_have_each_outcome(compared: BenchmarkComparison) -> None:
    *_, table_of_pairs = tables(compared)
    better_runs = {list(row)[2] for row in table_of_pairs.rows}
    assert {"strong", "not shown", "untested"} <= better_runs

    outcomes = [pair.overall.outcome for pair in compared.comparisons]
    tested = [outcome for outcome in outcomes if isinstance(outcome, Tested)]
    changed_by_the_correction = [outcome for outcome in tested if outcome.p_value < outcome.corrected_p_value < 1]
    assert changed_by_the_correction, f"got {outcomes}"

    pairs_with_missing_queries = [pair for pair in compared.comparisons if pair.overall.has_missing]
    assert len(pairs_with_missing_queries) == 4, "the pairs of one of five runs"


def test_the_values_are_those_of_the_runs(compared: BenchmarkComparison) -> None:
    expected_cells = {}
    for pair in compared.comparisons:
        first_value, second_value = pair.datasets[0].values
        expected_cells[pair.first] = number_cell(first_value, ".4f")
        expected_cells[pair.second] = number_cell(second_value, ".4f")

    table_of_values, *_ = tables(compared)

    _, _, *names_of_runs = table_of_values.head
    ((dataset_name, rows, *cells_of_runs),) = table_of_values.rows
    assert (dataset_name, rows) == ("A", "60")
    assert dict(zip(names_of_runs, cells_of_runs, strict=True)) == expected_cells


def test_missing_queries_are_counted_in_the_ranking(compared: BenchmarkComparison) -> None:
    missing = {place.run: place.missing for place in compared.ranking}

    assert missing["partial"] > 0
    assert missing == {"strong": 0, "next": 0, "other": 0, "weak": 0, "partial": missing["partial"]}


def test_missing_queries_are_explained(compared: BenchmarkComparison) -> None:
    assert MISSING_NOTE in str(compared).splitlines()


def test_a_run_that_is_untested_in_the_ranking_alone_has_its_reason(with_other_datasets: BenchmarkComparison) -> None:
    """A pair is tested on the data sets that both have; the means of the ranking are over other ones."""
    for pair in with_other_datasets.comparisons:
        assert isinstance(pair.overall.outcome, Tested)

    lines = str(with_other_datasets).splitlines()

    _best, *others = with_other_datasets.ranking
    assert {place.run for place in others} == {"ab", "b"}
    for place in others:
        assert isinstance(place.verdict, Untested)
        assert lines.count(f"untested in the ranking: {place.run} ({place.verdict.reason})") == 1


def test_a_reason_that_the_line_of_a_pair_has_is_not_repeated(compared: BenchmarkComparison) -> None:
    assert any(isinstance(rank.verdict, Untested) for rank in compared.ranking), f"got {compared.ranking}"
    assert "untested in the ranking" not in str(compared)


def test_the_correction_of_few_runs_is_holms(compared: BenchmarkComparison) -> None:
    *_, table_of_pairs = tables(compared)

    assert compared.correction.method == "Holm"
    assert compared.correction.pairs == 10, "of five runs"
    assert table_of_pairs.head[5] == "p (Holm)"
    assert "p (Holm): paired test, corrected for pairs of runs and directions" in str(compared)
    assert "Bonferroni" not in str(compared)


def test_the_correction_of_many_runs_is_bonferronis(of_many_runs: BenchmarkComparison) -> None:
    *_, table_of_pairs = tables(of_many_runs)

    run_count = MOST_RUNS + 2
    assert of_many_runs.correction.method == "Bonferroni"
    assert of_many_runs.correction.pairs == run_count * (run_count - 1) / 2
    assert table_of_pairs.head[5] == "p (Bonferroni)"
    assert "p (Bonferroni): paired test, corrected for all pairs of runs" in str(of_many_runs)
    assert "p (Holm)" not in str(of_many_runs)


def test_p_values_of_many_runs_are_corrected_for_all_pairs(of_many_runs: BenchmarkComparison) -> None:
    all_pairs = of_many_runs.correction.pairs

    for pair in of_many_runs.comparisons:
        assert "p (Bonferroni)" in pair.table()[0]
        outcome = pair.overall.outcome
        if isinstance(outcome, Tested):
            assert outcome.corrected_p_value == pytest.approx(min(1.0, all_pairs * outcome.p_value))


def test_the_figure_names_the_correction(compared: BenchmarkComparison, of_many_runs: BenchmarkComparison) -> None:
    for comparison, method in ((compared, "Holm"), (of_many_runs, "Bonferroni")):
        figure = differences(comparison.comparisons)
        assert f"not significant ({method})" in figure.caption
        assert figure.head[-1] == f"p ({method})"


def test_json_has_the_correction(of_many_runs: BenchmarkComparison) -> None:
    (saved,) = json.loads(format_comparisons([of_many_runs], "json"))
    corrections = [pair["correction"] for pair in saved["comparisons"]]

    assert corrections == [{"method": "Bonferroni", "pairs": of_many_runs.correction.pairs}] * len(corrections)
