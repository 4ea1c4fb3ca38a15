"""Columns of a user's data set by which comparisons divide the rows."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

from StaICC import Dataset, DomainBias, LongICL, Normal, compare, compare_subgroups, load, verify_file
from StaICC.benchmarks.findings import Contradicted
from StaICC.cli import main
from StaICC.errors import ArgumentError, SchemaError, StaICCError, UnknownNameError
from StaICC.results.files import with_digests
from StaICC.results.result import Result

DOMAINS = ("news", "law", "news", "medicine")
"""The domains of four rows, again and again."""
ROWS = [
    {
        "text": f"text {number}",
        "domain": DOMAINS[number % 4],
        "year": 2000 + number % 3,
        "label": ("no", "yes")[number // 4 % 2],
    }
    for number in range(240)
]


def write_csv(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """Write rows with the columns ``text``, ``domain``, ``year`` and ``label``, and return the path."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["text", "domain", "year", "label"])
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """The file ``rows.csv`` with the columns ``text``, ``domain``, ``year`` and ``label``."""
    return write_csv(tmp_path / "rows.csv")


def model(prompt: Any, label_space: Any) -> list[float]:
    """Predict probabilities that differ from prompt to prompt."""
    share = (len(str(prompt)) * 7 + str(prompt).count("1")) % 10 / 10
    return [share, 1.0 - share]


def other_model(prompt: Any, label_space: Any) -> list[float]:
    """Predict other probabilities than ``model``."""
    return model(f"{prompt}1234", label_space)


def values_of(column: str) -> tuple[str, ...]:
    """Return the value of a column in each row, as a text."""
    return tuple(str(row[column]) for row in ROWS)


def domain_of(row: Any) -> str:
    """Return the domain of a row, from its text ``text <number>``."""
    return DOMAINS[int(row.texts[0].split()[1]) % 4]


def test_a_column_makes_subgroups(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, "text", "label", subgroups="domain")

    assert data.subgroups == {"domain": values_of("domain")}


def test_several_columns_make_subgroups(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, "text", "label", subgroups=["year", "domain"])

    assert data.subgroups == {"year": values_of("year"), "domain": values_of("domain")}
    assert "subgroups: 3 (by year); 3 (by domain)" in str(data)


def test_a_function_makes_subgroups() -> None:
    rows = [(row["text"], row["label"]) for row in ROWS]

    data = Dataset.from_rows(rows, name="rows", subgroups={"domain": domain_of})

    assert data.subgroups == {"domain": values_of("domain")}


def test_subgroups_change_no_row(csv_file: Path) -> None:
    divided = Dataset.from_file(csv_file, "text", "label", subgroups=["year", "domain"])
    plain = Dataset.from_file(csv_file, "text", "label")

    assert plain.subgroups == {}
    assert divided.table.digest == plain.table.digest


def test_a_column_can_make_subgroups_and_clusters(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, "text", "label", cluster="year", subgroups=["domain", "year"])

    assert data.subgroups == {"domain": values_of("domain"), "year": values_of("year")}
    assert data.clusters is not None
    assert data.clusters.count == 3, "there are three years"


def test_a_text_column_can_make_subgroups(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, ["domain", "text"], "label", subgroups="domain")

    assert data.table[1].texts == ("law", "text 1")
    assert data.subgroups == {"domain": values_of("domain")}


def test_the_subgroups_of_json_lines_are_read(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")

    data = Dataset.from_file(file, "text", "label", subgroups=["domain", "year"])

    assert data.subgroups == {"domain": values_of("domain"), "year": values_of("year")}


def test_the_subgroups_of_pandas_are_read() -> None:
    data = Dataset.from_pandas(pandas.DataFrame(ROWS), "text", "label", name="rows", subgroups=["domain", "year"])

    assert data.subgroups == {"domain": values_of("domain"), "year": values_of("year")}


def test_a_card_states_the_subgroups(csv_file: Path) -> None:
    card = {"texts": ["text"], "label": "label", "subgroups": ["domain", "year"]}
    csv_file.with_name("rows.card.json").write_text(json.dumps(card), encoding="utf-8")

    data = Dataset.from_file(csv_file)

    assert data.subgroups == {"domain": values_of("domain"), "year": values_of("year")}


@pytest.mark.parametrize(
    ("subgroups", "error", "message"),
    [
        ("domains", UnknownNameError, "domain"),
        ("label", ArgumentError, "got the label column 'label'"),
        (3, ArgumentError, "subgroups: got 3, expected the name of a column"),
        (["domain", "domain"], ArgumentError, "expected the name of a column, several names"),
        ({"domain": "domain"}, ArgumentError, "expected a name and a function"),
        ({"label": lambda row: "x"}, ArgumentError, "the name of the subgroups by true label"),
        ({"none": lambda row: None}, ArgumentError, "line 2: the subgroup 'none' is None, expected a text or a number"),
        ({"nan": lambda row: math.nan}, ArgumentError, "line 2: the subgroup 'nan' is nan"),
        ("text", ArgumentError, "'text' has 240 values, expected at most 100"),
    ],
)
def test_unusable_subgroups_are_refused(tmp_path: Path, subgroups: Any, error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", subgroups=subgroups)


def rows_in_groups(group_count: int) -> Dataset:
    """Return a data set with so many subgroups, each of which has rows."""
    rows = [(f"text {number}", ("no", "yes")[number % 2]) for number in range(2 * group_count + 2)]
    return Dataset.from_rows(
        rows, name="rows", subgroups={"group": lambda row: int(row.texts[0].split()[1]) % group_count}
    )


@pytest.mark.parametrize("count", [1, 2, 99, 100])
def test_up_to_100_subgroups_are_read(count: int) -> None:
    assert len(set(rows_in_groups(count).subgroups["group"])) == count


def test_more_than_100_subgroups_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'group' has 101 values, expected at most 100"):
        rows_in_groups(101)


def test_a_row_without_a_value_is_refused(tmp_path: Path) -> None:
    rows = [*ROWS[:5], {**ROWS[5], "domain": " "}, *ROWS[6:]]
    file = write_csv(tmp_path / "gap.csv", rows)

    with pytest.raises(ArgumentError, match="line 7: the subgroup 'domain' is ' '"):
        Dataset.from_file(file, "text", "label", subgroups="domain")


def test_a_subgroup_column_of_pairs_is_refused() -> None:
    with pytest.raises(ArgumentError, match="pairs have no columns"):
        Dataset.from_rows([("a", "no"), ("b", "yes")], name="rows", subgroups="domain")


@pytest.fixture
def by_domain(csv_file: Path) -> Dataset:
    """The rows, divided by domain."""
    return Dataset.from_file(csv_file, "text", "label", subgroups="domain")


def test_long_icl_refuses_subgroups(by_domain: Dataset) -> None:
    with pytest.raises(ArgumentError, match="which LongICL does not compare"):
        LongICL(datasets=[by_domain])


# -- results


def test_a_result_has_the_subgroup_of_each_test_row(by_domain: Dataset) -> None:
    benchmark = Normal(datasets=[by_domain])

    result = benchmark(model)

    test_rows = benchmark[0].triplet_dataset.test.indexes
    domains = values_of("domain")
    assert result.details["rows"].subgroups == {"domain": tuple(domains[row] for row in test_rows)}


def test_a_saved_result_keeps_its_subgroups(by_domain: Dataset, tmp_path: Path) -> None:
    result = Normal(datasets=[by_domain])(model)

    result.save(tmp_path / "result.json")

    assert load(tmp_path / "result.json") == result


def test_subgroups_do_not_change_the_signature(by_domain: Dataset, csv_file: Path) -> None:
    plain = Dataset.from_file(csv_file, "text", "label")

    assert str(Normal(datasets=[plain]).signature()) == str(Normal(datasets=[by_domain]).signature())


def test_a_result_without_subgroups_says_nothing_of_them(csv_file: Path) -> None:
    plain = Normal(datasets=[Dataset.from_file(csv_file, "text", "label")])(model)

    assert "subgroups" not in json.dumps(plain.to_dict())


def test_a_result_on_pseudo_queries_has_no_subgroups(by_domain: Dataset) -> None:
    """The queries of domain bias are no rows of the data set."""
    result = DomainBias(datasets=[by_domain])(model)

    assert result.details["rows"].subgroups is None


@pytest.fixture
def two_runs(by_domain: Dataset) -> dict[str, Result]:
    """The runs ``a`` and ``b`` of two models on the rows, divided by domain."""
    return {"a": Normal(datasets=[by_domain])(model), "b": Normal(datasets=[by_domain])(other_model)}


def test_a_comparison_by_a_column_has_each_of_its_values(two_runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(two_runs, by="domain")

    assert [subgroup.group for subgroup in comparison.subgroups] == ["law", "medicine", "news"]
    rows_of_subgroups = [subgroup.line.rows for subgroup in comparison.subgroups]
    assert sum(rows_of_subgroups) == comparison.all_rows[0].line.rows


def test_the_contributions_of_subgroups_sum_to_the_difference(two_runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(two_runs, by="domain")

    contributions = [subgroup.contribution for subgroup in comparison.subgroups]
    difference = compare(two_runs["a"], two_runs["b"]).overall.difference
    assert math.fsum(contributions) == pytest.approx(difference, abs=1e-12)


def test_the_accuracy_of_a_subgroup_is_that_on_its_rows(two_runs: dict[str, Result]) -> None:
    (comparison,) = compare_subgroups(two_runs, by="domain")

    details = two_runs["a"].details["rows"]
    (record,) = details.conditions
    correct_on_news = []
    for row, prediction, truth in zip(record.rows, record.predictions, record.truth, strict=True):
        if details.subgroups["domain"][row] == "news":
            correct_on_news.append(prediction == truth)
    accuracy_on_news = sum(correct_on_news) / len(correct_on_news)
    (news,) = [subgroup for subgroup in comparison.subgroups if subgroup.group == "news"]
    accuracy_of_first_run, _ = news.line.values
    assert accuracy_of_first_run == pytest.approx(accuracy_on_news, abs=1e-12)


def test_one_of_two_runs_needs_to_record_the_subgroups(two_runs: dict[str, Result], csv_file: Path) -> None:
    """Subgroups are a fact about the rows, which the runs share."""
    plain = Normal(datasets=[Dataset.from_file(csv_file, "text", "label")])(other_model)
    (expected,) = compare_subgroups(two_runs, by="domain")

    (of_first,) = compare_subgroups({"a": two_runs["a"], "b": plain}, by="domain")
    (of_second,) = compare_subgroups({"b": plain, "a": two_runs["a"]}, by="domain")

    p_values = [subgroup.line.p_value for subgroup in expected.subgroups]
    assert [subgroup.line.p_value for subgroup in of_first.subgroups] == p_values
    assert [subgroup.line.p_value for subgroup in of_second.subgroups] == p_values


def test_subgroups_do_not_contribute_to_a_difference_of_f1(two_runs: dict[str, Result]) -> None:
    """F1 is no mean over rows."""
    (comparison,) = compare_subgroups(two_runs, by="domain", metric="macro_F1")

    assert [subgroup.contribution for subgroup in comparison.subgroups] == [None, None, None]


def test_a_comparison_by_an_unknown_column_names_the_known_ones(two_runs: dict[str, Result]) -> None:
    with pytest.raises(ArgumentError, match="There are: label, domain"):
        compare_subgroups(two_runs, by="domains")


def run_divided_by(csv_file: Path, function: Callable[[Any], Any]) -> Result:
    """Return a run whose subgroups ``digit`` a function of the row makes."""
    data = Dataset.from_file(csv_file, "text", "label", subgroups={"digit": function})
    return Normal(datasets=[data])(model)


def test_runs_with_other_values_of_a_subgroup_are_not_compared(csv_file: Path) -> None:
    by_last_digit = run_divided_by(csv_file, lambda row: row.texts[0][-1])
    by_size_of_last_digit = run_divided_by(csv_file, lambda row: int(row.texts[0][-1] > "4"))

    with pytest.raises(ArgumentError, match="the runs have other values of 'digit'"):
        compare_subgroups({"a": by_last_digit, "b": by_size_of_last_digit}, by="digit")


@pytest.mark.parametrize("rule", ["domain", {"domain": domain_of}], ids=["column", "function"])
def test_subgroups_of_a_saved_result_are_verified(csv_file: Path, rule: Any) -> None:
    data = Dataset.from_file(csv_file, "text", "label", subgroups=rule)
    saved = csv_file.with_name("result.json")
    Normal(datasets=[data])(model).save(saved)

    for verification in verify_file(saved, data_files=[csv_file]):
        assert verification.findings == ()


@pytest.mark.parametrize("rule", ["domain", {"domain": domain_of}], ids=["column", "function"])
def test_forged_subgroups_of_a_saved_result_are_found(csv_file: Path, rule: Any) -> None:
    data = Dataset.from_file(csv_file, "text", "label", subgroups=rule)
    saved = csv_file.with_name("result.json")
    Normal(datasets=[data])(model).save(saved)

    document = json.loads(saved.read_text(encoding="utf-8"))
    domains = document["details"]["rows"]["subgroups"]["domain"]
    domains[0] = "news" if domains[0] == "law" else "law"
    saved.write_text(json.dumps(with_digests(document)), encoding="utf-8")

    contradictions = []
    for verification in verify_file(saved, data_files=[csv_file]):
        contradictions += [str(finding) for finding in verification.findings if isinstance(finding, Contradicted)]
    assert "subgroups" in " ".join(contradictions)


def test_a_data_set_is_reopened_with_its_subgroups(by_domain: Dataset, csv_file: Path) -> None:
    record = by_domain.file_record()
    assert record is not None

    assert Dataset.reopen(record, [csv_file]).subgroups == {"domain": values_of("domain")}


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        (values_of("domain")[:-1], "of 239 rows"),
        ((*values_of("domain")[:-1], "law"), "other subgroups than the column"),
    ],
    ids=["too few", "another value"],
)
def test_a_record_of_a_file_with_other_subgroups_is_refused(
    by_domain: Dataset, csv_file: Path, domains: tuple[str, ...], message: str
) -> None:
    record = by_domain.file_record()
    assert record is not None

    with pytest.raises(SchemaError, match=message):
        Dataset.reopen({**record, "subgroups": {"domain": list(domains)}}, [csv_file])


@pytest.fixture
def run_command(csv_file: Path) -> list[str]:
    """The command line of a run on the file."""
    return ["run", "normal", "--data", str(csv_file), "--text", "text", "--label", "label", "--model", "ppm"]


def test_the_command_line_compares_by_a_column(
    run_command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_shot, four_shot = str(tmp_path / "1.json"), str(tmp_path / "4.json")
    assert main([*run_command, "--k", "1", "--subgroups", "domain", "year", "--json", one_shot]) == 0
    assert main([*run_command, "--k", "4", "--subgroups", "domain", "year", "--json", four_shot]) == 0

    assert main(["compare", one_shot, four_shot, "--by", "domain"]) == 0

    assert "rows, medicine" in capsys.readouterr().out


def test_the_command_line_refuses_the_label_as_a_subgroup(
    run_command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*run_command, "--subgroups", "label"]) == 2
    message = capsys.readouterr().err
    assert "--subgroups: got the label column" in message
    assert "compare with --by label" in message
