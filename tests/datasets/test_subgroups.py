"""Columns of a user's data set by which comparisons divide the rows."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pandas
import pytest

from StaICC import Dataset, DomainBias, LongICL, Normal, compare, compare_subgroups, load, verify_file
from StaICC.benchmarks.findings import Contradicted
from StaICC.cli import main
from StaICC.errors import ArgumentError, SchemaError, StaICCError, UnknownNameError
from tests.datasets.test_clusters import with_digests

DOMAINS = ("news", "law", "news", "medicine")
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
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["text", "domain", "year", "label"])
        writer.writeheader()
        writer.writerows(rows)
    return path


def model(prompt: Any, label_space: Any) -> list[float]:
    share = (len(str(prompt)) * 7 + str(prompt).count("1")) % 10 / 10
    return [share, 1.0 - share]


def other_model(prompt: Any, label_space: Any) -> list[float]:
    return model(f"{prompt}1234", label_space)


def expected(column: str) -> tuple[str, ...]:
    return tuple(str(row[column]) for row in ROWS)


def test_columns_and_functions_make_the_same_subgroups_and_change_no_row(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    plain = Dataset.from_file(file, "text", "label")
    assert plain.subgroups == {}
    one = Dataset.from_file(file, "text", "label", subgroups="domain")
    assert one.subgroups == {"domain": expected("domain")}
    several = Dataset.from_file(file, "text", "label", subgroups=["year", "domain"])
    assert several.subgroups == {"year": expected("year"), "domain": expected("domain")}
    domain_of_text = {row["text"]: row["domain"] for row in ROWS}
    by_function = Dataset.from_rows(
        [(row["text"], row["label"]) for row in ROWS],
        name="rows",
        subgroups={"domain": lambda row: domain_of_text[row.texts[0]]},
    )
    assert by_function.subgroups == one.subgroups
    assert plain.table.digest == several.table.digest == by_function.table.digest
    assert "subgroups: 3 (by year); 3 (by domain)" in str(several)


def test_subgroups_and_clusters_are_read_together(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    data = Dataset.from_file(file, "text", "label", cluster="year", subgroups=["domain", "year"])
    assert data.subgroups == {"domain": expected("domain"), "year": expected("year")}
    assert data.clusters is not None
    assert data.clusters.count == 3
    assert data.card.columns == 1
    texts = Dataset.from_file(file, ["domain", "text"], "label", subgroups="domain")
    assert texts.table[1].texts == ("law", "text 1")
    assert texts.subgroups == {"domain": expected("domain")}


def test_every_format_and_a_card_read_the_columns(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    columns = {"domain": expected("domain"), "year": expected("year")}
    assert Dataset.from_file(lines, "text", "label", subgroups=["domain", "year"]).subgroups == columns
    frame = pandas.DataFrame(ROWS)
    of_frame = Dataset.from_pandas(frame, "text", "label", name="rows", subgroups=["domain", "year"])
    assert of_frame.subgroups == columns
    file = write_csv(tmp_path / "carded.csv")
    card = {"texts": ["text"], "label": "label", "subgroups": ["domain", "year"]}
    (tmp_path / "carded.card.json").write_text(json.dumps(card), encoding="utf-8")
    assert Dataset.from_file(file).subgroups == columns


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


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101])
def test_the_largest_number_of_subgroups_is_the_one_that_the_message_states(count: int) -> None:
    rows = [(f"text {number}", ("no", "yes")[number % 2]) for number in range(2 * count + 2)]
    rule = {"group": lambda row: int(row.texts[0].split()[1]) % count}
    if count <= 100:
        assert len(set(Dataset.from_rows(rows, name="rows", subgroups=rule).subgroups["group"])) == count
        return
    with pytest.raises(ArgumentError, match="'group' has 101 values, expected at most 100"):
        Dataset.from_rows(rows, name="rows", subgroups=rule)


def test_a_row_without_a_value_is_refused(tmp_path: Path) -> None:
    rows = [*ROWS[:5], {**ROWS[5], "domain": " "}, *ROWS[6:]]
    with pytest.raises(ArgumentError, match="line 7: the subgroup 'domain' is ' '"):
        Dataset.from_file(write_csv(tmp_path / "rows.csv", rows), "text", "label", subgroups="domain")
    with pytest.raises(ArgumentError, match="pairs have no columns"):
        Dataset.from_rows([("a", "no"), ("b", "yes")], name="rows", subgroups="domain")


def test_long_icl_refuses_subgroups(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", subgroups="domain")
    with pytest.raises(ArgumentError, match="which LongICL does not compare"):
        LongICL(datasets=[data])


# -- results


def test_saved_results_have_the_subgroup_of_each_test_row(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", subgroups="domain")
    benchmark = Normal(datasets=[data])
    result = benchmark(model)
    test_rows = benchmark[0].triplet_dataset.test.indexes
    assert result.details["rows"].subgroups == {"domain": tuple(expected("domain")[row] for row in test_rows)}
    file = tmp_path / "result.json"
    result.save(file)
    assert load(file) == result
    without = Normal(datasets=[Dataset.from_file(tmp_path / "rows.csv", "text", "label")])(model)
    assert str(without.signature) == str(result.signature)
    assert "subgroups" not in json.dumps(without.to_dict())
    assert DomainBias(datasets=[data])(model).details["rows"].subgroups is None


def test_a_comparison_by_a_column_is_the_test_on_its_rows(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    data = Dataset.from_file(file, "text", "label", subgroups=["domain", "year"])
    first = Normal(datasets=[data])(model)
    second = Normal(datasets=[data])(other_model)
    (found,) = compare_subgroups({"a": first, "b": second}, by="domain")
    assert [subgroup.group for subgroup in found.subgroups] == ["law", "medicine", "news"]
    assert sum(subgroup.line.rows for subgroup in found.subgroups) == found.all_rows[0].line.rows
    total = math.fsum(subgroup.contribution or 0.0 for subgroup in found.subgroups)
    assert total == pytest.approx(compare(first, second).overall.difference, abs=1e-12)

    details = first.details["rows"]
    assert details.subgroups is not None
    (record,) = details.conditions
    news = [index for index, row in enumerate(record.rows) if details.subgroups["domain"][row] == "news"]
    accuracy = sum(record.predictions[index] == record.truth[index] for index in news) / len(news)
    assert found.subgroups[2].line.values[0] == pytest.approx(accuracy, abs=1e-12)

    # A fact about the rows: the other run need not record it.
    plain = Normal(datasets=[Dataset.from_file(file, "text", "label")])(other_model)
    for pair in ({"a": first, "b": plain}, {"b": plain, "a": first}):
        (again,) = compare_subgroups(pair, by="domain")
        assert [subgroup.line.p_value for subgroup in again.subgroups] == [
            subgroup.line.p_value for subgroup in found.subgroups
        ]
    (by_f1,) = compare_subgroups({"a": first, "b": second}, by="domain", metric="macro_F1")
    assert [subgroup for subgroup in by_f1.subgroups if subgroup.contribution is not None] == []
    with pytest.raises(ArgumentError, match="There are: label, domain, year"):
        compare_subgroups({"a": first, "b": second}, by="domains")


def test_runs_with_other_values_are_not_compared(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    runs = {}
    for name, function in (("a", lambda row: row.texts[0][-1]), ("b", lambda row: int(row.texts[0][-1] > "4"))):
        data = Dataset.from_file(file, "text", "label", subgroups={"digit": function})
        runs[name] = Normal(datasets=[data])(model)
    with pytest.raises(ArgumentError, match="the runs have other values of 'digit'"):
        compare_subgroups(runs, by="digit")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["domain", {"domain": lambda row: DOMAINS[int(row.texts[0][5:]) % 4]}])
def test_saved_results_are_verified_with_their_subgroups(tmp_path: Path, rule: Any) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", subgroups=rule)
    saved = tmp_path / "result.json"
    Normal(datasets=[data])(model).save(saved)
    for verification in verify_file(saved, data_files=[tmp_path]):
        assert verification.findings == ()

    changed = json.loads(saved.read_text(encoding="utf-8"))
    groups = changed["details"]["rows"]["subgroups"]["domain"]
    groups[0] = "law" if groups[0] != "law" else "news"
    saved.write_text(json.dumps(with_digests(changed)), encoding="utf-8")
    found = verify_file(saved, data_files=[tmp_path])
    findings = [finding for verification in found for finding in verification.findings]
    assert any(isinstance(finding, Contradicted) and "subgroups" in str(finding) for finding in findings), (
        f"got {findings}"
    )


def test_damaged_subgroups_of_a_file_are_refused(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    record = Dataset.from_file(file, "text", "label", subgroups="domain").file_record()
    assert record is not None
    assert Dataset.reopen(record, [file]).subgroups == {"domain": expected("domain")}
    groups = record["subgroups"]["domain"]
    for damaged, message in ((groups[:-1], "of 239 rows"), ([*groups[:-1], "law"], "other subgroups than the column")):
        with pytest.raises(SchemaError, match=message):
            Dataset.reopen({**record, "subgroups": {"domain": damaged}}, [file])


def test_the_command_line_has_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(tmp_path / "rows.csv")
    arguments = ["run", "normal", "--data", str(file), "--text", "text", "--label", "label", "--model", "ppm"]
    saved = [str(tmp_path / f"{k}.json") for k in (1, 4)]
    for path, k in zip(saved, ("1", "4"), strict=True):
        assert main([*arguments, "--k", k, "--subgroups", "domain", "year", "--json", path]) == 0
    capsys.readouterr()
    assert main(["compare", *saved, "--by", "domain"]) == 0
    assert "rows, medicine" in capsys.readouterr().out
    assert main([*arguments, "--subgroups", "label"]) == 2
    assert "--subgroups: got the label column" in capsys.readouterr().err
