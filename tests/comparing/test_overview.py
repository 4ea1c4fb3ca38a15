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
    assert len(text.splitlines()) <= 34  # ten data sets have ten rows more
    assert [line for line in text.splitlines() if not line.startswith("StaICC|") and len(line) > 100] == []


def test_each_fact_is_there_once(text: str) -> None:
    assert text.count("ppm [") == 1
    assert text.count("metric: accuracy") == 1
    assert text.count("StaICC|benchmark:Normal|") == 1
    (line,) = [line for line in text.splitlines() if line.startswith("they differ in k: ")]
    assert sorted(line.removeprefix("they differ in k: ").split(", ")) == ["1 (k = 1)", "2 (k = 2)", "3 (k = 3)"]


def test_settings_that_only_some_runs_have_and_equal_notes_are_one_line() -> None:
    """Models of two kinds: the settings of one kind are no differences in a value; a note is once for its data sets."""

    def normal(limit: int) -> Normal:
        return Normal(1, datasets=[dataset("A"), dataset("B")], limit=limit)

    runs = {
        "long": normal(60)(load_kernel("ppm")),
        "short": normal(40)(load_kernel("ppm")),
        "own": normal(60)(model(0.4), model_name="own"),
    }
    lines = layout(display_comparisons([compare_runs(runs)]), width=1000, wrap=False).splitlines()
    (line_of_ppm,) = [line for line in lines if re.match(r"only (long, short|short, long) have ", line)]
    assert line_of_ppm.endswith("algorithm: ppm/1")
    assert sum("escape=C" in line for line in lines if not line.startswith("StaICC|")) == 1
    (note,) = [line for line in lines if line.startswith("long and short: ")]
    assert "left out: each of A, B: 40 of 120 queries of long are not compared" in note


def test_a_part_that_is_not_set_is_part_of_a_setting_without_it() -> None:
    whole = Difference("scoring", "escape=C;order=12", "variant=paper")
    assert Difference("order", "12", None).is_part_of(whole)
    assert Difference("variant", None, "paper").is_part_of(whole)
    assert not Difference("order", "13", None).is_part_of(whole)
    assert not Difference("order", None, "12").is_part_of(whole)
    assert not Difference("dtype", "float32", None).is_part_of(whole)


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
    comparison = request.getfixturevalue(name)
    table = tables(comparison)[-1]
    assert [list(row) for row in table.rows] == [expected_row(pair) for pair in comparison.comparisons]


def test_the_runs_of_these_tests_have_each_outcome(compared: BenchmarkComparison) -> None:
    rows = [list(row) for row in tables(compared)[-1].rows]
    assert {"strong", "not shown", "untested"} <= {row[2] for row in rows}
    outcomes = [pair.overall.outcome for pair in compared.comparisons]
    assert any(
        isinstance(outcome, Tested) and outcome.p_value < outcome.corrected_p_value < 1 for outcome in outcomes
    ), f"got {outcomes}"
    assert sum(pair.overall.has_missing for pair in compared.comparisons) == 4


def test_the_values_are_those_of_the_runs(compared: BenchmarkComparison) -> None:
    values = {}
    for pair in compared.comparisons:
        for run_name, value in zip((pair.first, pair.second), pair.datasets[0].values, strict=True):
            values[run_name] = number_cell(value, ".4f")
    table = tables(compared)[0]
    (row,) = table.rows
    assert dict(zip(table.head[2:], row[2:], strict=True)) == values
    assert list(row[:2]) == ["A", "60"]


def test_missing_queries_are_counted_and_explained(compared: BenchmarkComparison) -> None:
    missing = {rank.run: rank.missing for rank in compared.ranking}
    assert missing.pop("partial") > 0
    assert set(missing.values()) == {0}
    assert MISSING_NOTE in str(compared).splitlines()


def test_a_run_that_is_untested_in_the_ranking_alone_has_its_reason(with_other_datasets: BenchmarkComparison) -> None:
    """A pair is tested on the data sets that both have; the means of the ranking are over other ones."""
    lines = str(with_other_datasets).splitlines()
    assert [pair for pair in with_other_datasets.comparisons if not isinstance(pair.overall.outcome, Tested)] == []
    untested = {rank.run: rank.verdict for rank in with_other_datasets.ranking[1:]}
    assert set(untested) == {"ab", "b"}
    for name, verdict in untested.items():
        assert isinstance(verdict, Untested)
        assert lines.count(f"untested in the ranking: {name} ({verdict.reason})") == 1


def test_a_reason_that_the_line_of_a_pair_has_is_not_repeated(compared: BenchmarkComparison) -> None:
    assert any(isinstance(rank.verdict, Untested) for rank in compared.ranking), f"got {compared.ranking}"
    assert "untested in the ranking" not in str(compared)


def test_the_correction_of_few_runs_is_holms(compared: BenchmarkComparison) -> None:
    """Five runs have ten pairs."""
    assert (compared.correction.method, compared.correction.pairs) == ("Holm", 10)
    assert tables(compared)[-1].head[5] == "p (Holm)"
    assert "p (Holm): paired test, corrected for pairs of runs and directions" in str(compared)
    assert "Bonferroni" not in str(compared)


def test_the_correction_of_many_runs_is_bonferronis(of_many_runs: BenchmarkComparison) -> None:
    runs = MOST_RUNS + 2
    assert (of_many_runs.correction.method, of_many_runs.correction.pairs) == ("Bonferroni", runs * (runs - 1) // 2)
    assert tables(of_many_runs)[-1].head[5] == "p (Bonferroni)"
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
