"""Clusters of rows of own data: which rows belong together, in files, cards, programs, saved results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from StaICC import Dataset, LongICL, Normal, load
from StaICC.benchmarks.findings import Contradicted
from StaICC.benchmarks.verify import verify_file
from StaICC.cli import main
from StaICC.datasets.clusters import Clusters, digest_of_clusters
from StaICC.errors import ArgumentError, SchemaError, StaICCError, UnknownNameError
from StaICC.results.files import with_digests

DOCUMENTS = [f"secret report {number % 30}" for number in range(120)]
ROWS = [(f"text {number}", ("no", "yes")[number % 2]) for number in range(120)]
NUMBERS = tuple(number % 30 for number in range(120))


def write_csv(path: Path) -> Path:
    lines = ["document,text,label"]
    for document, (text, label) in zip(DOCUMENTS, ROWS, strict=True):
        lines.append(f"{document},{text},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def model(prompt: Any, label_space: Any) -> list[float]:
    share = random.Random(str(prompt)).random()
    return [share, 1.0 - share]


# -- reading


def test_a_column_and_a_function_make_the_same_clusters_and_change_no_row(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    by_column = Dataset.from_file(file, "text", "label", cluster="document")
    assert by_column.clusters == Clusters("document", NUMBERS)
    document_of_text = {text: document for document, (text, _) in zip(DOCUMENTS, ROWS, strict=True)}
    by_function = Dataset.from_rows(ROWS, name="rows", cluster=lambda row: document_of_text[row.texts[0]])
    assert by_function.clusters == Clusters("function", NUMBERS)
    without = Dataset.from_file(file, "text", "label")
    assert without.clusters is None
    assert by_column.table.digest == by_function.table.digest == without.table.digest
    assert by_column.card == without.card


def test_every_format_reads_the_cluster_column(tmp_path: Path) -> None:
    records = [
        {"document": document, "text": text, "label": label}
        for document, (text, label) in zip(DOCUMENTS, ROWS, strict=True)
    ]
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    data = Dataset.from_file(lines, "text", "label", cluster="document")
    assert data.clusters == Clusters("document", NUMBERS)
    pandas = pytest.importorskip("pandas")
    frame = Dataset.from_pandas(pandas.DataFrame(records), "text", "label", name="rows", cluster="document")
    assert frame.clusters == Clusters("document", NUMBERS)
    datasets = pytest.importorskip("datasets")
    hub = Dataset.from_huggingface(
        datasets.Dataset.from_list(records), "text", "label", name="rows", cluster="document"
    )
    assert hub.clusters == Clusters("document", NUMBERS)


def test_a_text_column_can_be_the_cluster(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), ["document", "text"], "label", cluster="document")
    assert data.clusters == Clusters("document", NUMBERS)
    assert data.table[0].texts == ("secret report 0", "text 0")


def test_a_card_states_the_column(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    (tmp_path / "rows.card.json").write_text(json.dumps({"texts": ["text"], "label": "label", "cluster": "document"}))
    assert Dataset.from_file(file).clusters == Clusters("document", NUMBERS)
    assert "clusters: 30 (by document)" in str(Dataset.from_file(file))


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        ("dokument", UnknownNameError, "document"),
        ("label", ArgumentError, "cluster: got the label column 'label'"),
        (3, ArgumentError, "cluster: got 3, expected the name of a column, or a function of the row"),
        (lambda row: None, ArgumentError, "line 2: the cluster is None, expected a text or a number"),
        (lambda row: [row.label], ArgumentError, r"line 2: the cluster is \[0\], expected a text or a number"),
        (lambda row: float("nan"), ArgumentError, "line 2: the cluster is nan"),
        (lambda row: "  ", ArgumentError, "line 2: the cluster is '  '"),
        (lambda row: b"a", ArgumentError, "line 2: the cluster is b'a'"),
        (lambda row: "all", ArgumentError, "all 120 rows are in one cluster"),
    ],
)
def test_an_unusable_cluster_is_refused(tmp_path: Path, cluster: Any, error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", cluster=cluster)


def test_one_value_in_several_spellings_is_one_cluster(tmp_path: Path) -> None:
    """More clusters than there are would make intervals too narrow."""
    for values in ((7, 7.0, "7"), ("doc", "doc ", " doc"), (np.int64(7), np.float64(7), np.str_("7"))):
        numbers = Dataset.from_rows(
            ROWS, name="rows", cluster=lambda row, values=values: spelling(row, values)
        ).clusters
        assert numbers is not None
        assert numbers.count == 2
    file = tmp_path / "rows.jsonl"
    lines = []
    for index, (text, label) in enumerate(ROWS):
        document = [index % 30, str(index % 30), float(index % 30)][index % 3]
        lines.append(json.dumps({"document": document, "text": text, "label": label}))
    file.write_text("\n".join(lines), encoding="utf-8")
    assert Dataset.from_file(file, "text", "label", cluster="document").clusters == Clusters("document", NUMBERS)


def spelling(row: Any, values: tuple[Any, ...]) -> Any:
    """Return one of the values, by the number in the text; every tenth row is in another cluster."""
    number = int(row.texts[0].split()[1])
    return "other" if number % 10 == 0 else values[number % len(values)]


def test_a_row_without_a_value_and_pairs_without_columns_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("document,text,label\na,x,no\n,y,yes\nb,z,no\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="line 3: the cluster is ''"):
        Dataset.from_file(file, "text", "label", cluster="document")
    with pytest.raises(ArgumentError, match="pairs have no columns"):
        Dataset.from_rows(ROWS, name="rows", cluster="document")


def test_long_icl_refuses_clusters() -> None:
    rows = [(f"text {number}", f"label {number % 30}") for number in range(600)]
    data = Dataset.from_rows(rows, name="rows", cluster=lambda row: int(row.texts[0].split()[1]) // 10)
    with pytest.raises(ArgumentError, match="which the intervals of LongICL do not allow for"):
        LongICL(datasets=[data])


# -- results


def test_a_result_has_the_numbers_of_clusters_and_not_their_names(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", cluster="document")
    benchmark = Normal(datasets=[data])
    result = benchmark(model)
    test_rows = benchmark[0].triplet_dataset.test.indexes
    assert result.details["rows"].clusters == tuple(NUMBERS[row] for row in test_rows)
    field = result.signature.fields["clusters"]
    assert field == f"document-{digest_of_clusters(result.details['rows'].clusters)[:12]}"
    assert result.details["rows"].intervals["accuracy"].method.endswith("unit: cluster")
    n_clusters = len(set(result.details["rows"].clusters))
    assert f"rows: intervals and tests are over {n_clusters} clusters of 48 test rows" in str(result)

    file = tmp_path / "result.json"
    result.save(file)
    assert "secret" not in file.read_text(encoding="utf-8")
    assert load(file) == result


def test_duplicates_within_a_cluster_are_no_problem_and_those_of_two_clusters_are() -> None:
    rows = [(f"text {number // 2}", ("no", "yes")[number % 4 // 2]) for number in range(400)]
    pairs = Dataset.from_rows(rows, name="pairs", cluster=lambda row: row.texts[0])
    independent = Dataset.from_rows(rows, name="independent")
    warned = {
        data.card.name: any("intervals are too narrow" in text for text in Normal(datasets=[data])(model).warnings)
        for data in (pairs, independent)
    }
    assert warned == {"pairs": False, "independent": True}
    apart = Dataset.from_rows(rows, name="apart", cluster=_each_row_its_own(len(rows)))
    warnings = Normal(datasets=[apart])(model).warnings
    assert any("intervals are too narrow" in text for text in warnings), f"got {warnings}"


def _each_row_its_own(n_rows: int) -> Any:
    """Return a function that gives each row a cluster of its own."""
    numbers = iter(range(n_rows))
    return lambda row: next(numbers)


def test_a_result_without_clusters_says_nothing_of_them(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label")
    result = Normal(datasets=[data])(model)
    assert "cluster" not in json.dumps(result.to_dict())
    assert "cluster" not in str(result)


def document_of(row: Any) -> int:
    return int(row.texts[0].split()[1]) % 30


@pytest.mark.parametrize("rule", ["document", document_of], ids=["column", "function"])
def test_saved_results_are_verified_with_their_clusters(tmp_path: Path, rule: Any) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", cluster=rule)
    saved = tmp_path / "result.json"
    Normal(datasets=[data])(model).save(saved)
    for verification in verify_file(saved, data_files=[tmp_path]):
        assert verification.findings == ()

    changed = json.loads(saved.read_text(encoding="utf-8"))
    clusters = changed["details"]["rows"]["clusters"]
    clusters[0], clusters[1] = clusters[1], clusters[0]
    saved.write_text(json.dumps(with_digests(changed)), encoding="utf-8")
    found = verify_file(saved, data_files=[tmp_path])
    findings = [finding for verification in found for finding in verification.findings]
    assert any(isinstance(finding, Contradicted) and "clusters" in str(finding) for finding in findings), (
        f"got {findings}"
    )


def test_a_record_of_a_file_with_other_clusters_is_refused(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv")
    record = Dataset.from_file(file, "text", "label", cluster="document").file_record()
    assert record is not None
    assert Dataset.reopen(record, [file]).clusters == Clusters("document", NUMBERS)
    with pytest.raises(SchemaError, match="other clusters than the column 'document'"):
        Dataset.reopen({**record, "clusters": [0, *record["clusters"][:-1]]}, [file])
    with pytest.raises(SchemaError, match="clusters of 3 rows"):
        Dataset.reopen({**record, "clusters": [0, 1, 2]}, [file])


def test_a_saved_result_without_a_cluster_for_a_test_row_is_refused(tmp_path: Path) -> None:
    data = Dataset.from_file(write_csv(tmp_path / "rows.csv"), "text", "label", cluster="document")
    saved = tmp_path / "result.json"
    Normal(datasets=[data])(model).save(saved)
    changed = json.loads(saved.read_text(encoding="utf-8"))
    del changed["details"]["rows"]["clusters"][-1]
    saved.write_text(json.dumps(with_digests(changed)), encoding="utf-8")
    with pytest.raises(SchemaError, match="but there are clusters of 47 rows"):
        load(saved)


def test_the_command_line_has_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(tmp_path / "rows.csv")
    saved = tmp_path / "result.json"
    arguments = ["run", "normal", "--data", str(file), "--text", "text", "--label", "label", "--model", "ppm"]
    assert main([*arguments, "--cluster", "document", "--json", str(saved)]) == 0
    assert "clusters of 48 test rows" in capsys.readouterr().out
    result = load(saved)
    assert result.details["rows"].clusters is not None  # type: ignore[union-attr]
    assert main(["verify", str(saved), "--data", str(file)]) == 0
    assert main([*arguments, "--cluster", "label"]) == 2
    assert "--cluster: got the label column" in capsys.readouterr().err
