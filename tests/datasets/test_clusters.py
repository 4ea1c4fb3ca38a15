"""Clusters of rows of own data: which rows belong together, in files, cards, programs, saved results."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
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
"""The document of each of 120 rows; every thirtieth row is of the same document."""
ROWS = [(f"text {number}", ("no", "yes")[number % 2]) for number in range(120)]
NUMBERS = tuple(number % 30 for number in range(120))
"""The number of the cluster of each row."""


def write_csv(path: Path) -> Path:
    """Write the rows with the columns ``document``, ``text`` and ``label``, and return the path."""
    lines = ["document,text,label"]
    for document, (text, label) in zip(DOCUMENTS, ROWS, strict=True):
        lines.append(f"{document},{text},{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    """The file ``rows.csv`` with the columns ``document``, ``text`` and ``label``."""
    return write_csv(tmp_path / "rows.csv")


@pytest.fixture
def records() -> list[dict[str, str]]:
    """The rows of the file as records."""
    return [
        {"document": document, "text": text, "label": label}
        for document, (text, label) in zip(DOCUMENTS, ROWS, strict=True)
    ]


def document_of(row: Any) -> int:
    """Return the number of the document of a row, from its text ``text <number>``."""
    return int(row.texts[0].split()[1]) % 30


def model(prompt: Any, label_space: Any) -> list[float]:
    """Predict probabilities that differ from prompt to prompt."""
    share = random.Random(str(prompt)).random()
    return [share, 1.0 - share]


# -- reading


def test_a_column_makes_clusters(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, "text", "label", cluster="document")

    assert data.clusters == Clusters("document", NUMBERS)


def test_a_function_makes_clusters() -> None:
    data = Dataset.from_rows(ROWS, name="rows", cluster=document_of)

    assert data.clusters == Clusters("function", NUMBERS)


def test_clusters_change_neither_the_rows_nor_the_card(csv_file: Path) -> None:
    with_clusters = Dataset.from_file(csv_file, "text", "label", cluster="document")
    without = Dataset.from_file(csv_file, "text", "label")

    assert without.clusters is None
    assert with_clusters.table.digest == without.table.digest
    assert with_clusters.card == without.card


def test_the_cluster_column_of_json_lines_is_read(tmp_path: Path, records: list[dict[str, str]]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    data = Dataset.from_file(file, "text", "label", cluster="document")

    assert data.clusters == Clusters("document", NUMBERS)


def test_the_cluster_column_of_pandas_is_read(records: list[dict[str, str]]) -> None:
    pandas = pytest.importorskip("pandas")

    data = Dataset.from_pandas(pandas.DataFrame(records), "text", "label", name="rows", cluster="document")

    assert data.clusters == Clusters("document", NUMBERS)


def test_the_cluster_column_of_hugging_face_is_read(records: list[dict[str, str]]) -> None:
    datasets = pytest.importorskip("datasets")

    rows = datasets.Dataset.from_list(records)
    data = Dataset.from_huggingface(rows, "text", "label", name="rows", cluster="document")

    assert data.clusters == Clusters("document", NUMBERS)


def test_a_text_column_can_be_the_cluster(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, ["document", "text"], "label", cluster="document")

    assert data.clusters == Clusters("document", NUMBERS)
    assert data.table[0].texts == ("secret report 0", "text 0")


def test_a_card_states_the_column(csv_file: Path) -> None:
    card = {"texts": ["text"], "label": "label", "cluster": "document"}
    csv_file.with_name("rows.card.json").write_text(json.dumps(card), encoding="utf-8")

    data = Dataset.from_file(csv_file)

    assert data.clusters == Clusters("document", NUMBERS)
    assert "clusters: 30 (by document)" in str(data)


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
def test_an_unusable_cluster_is_refused(csv_file: Path, cluster: Any, error: type[StaICCError], message: str) -> None:
    with pytest.raises(error, match=message):
        Dataset.from_file(csv_file, "text", "label", cluster=cluster)


@pytest.mark.parametrize(
    "spellings",
    [(7, 7.0, "7"), ("doc", "doc ", " doc"), (np.int64(7), np.float64(7), np.str_("7"))],
    ids=["numbers", "spaces", "numpy"],
)
def test_one_value_in_several_spellings_is_one_cluster(spellings: tuple[Any, Any, Any]) -> None:
    """More clusters than there are would make intervals too narrow."""
    values = dict(zip(["first", "second", "third", "fourth"], [*spellings, "other"], strict=True))
    rows = [("first", "no"), ("second", "yes"), ("third", "no"), ("fourth", "yes")]

    data = Dataset.from_rows(rows, name="rows", cluster=lambda row: values[row.texts[0]])

    assert data.clusters == Clusters("function", (0, 0, 0, 1))


def test_one_value_in_several_spellings_of_a_file_is_one_cluster(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"document": 7, "text": "a", "label": "no"}\n'
        '{"document": "7", "text": "b", "label": "yes"}\n'
        '{"document": 7.0, "text": "c", "label": "no"}\n'
        '{"document": 8, "text": "d", "label": "yes"}\n',
        encoding="utf-8",
    )

    data = Dataset.from_file(file, "text", "label", cluster="document")

    assert data.clusters == Clusters("document", (0, 0, 0, 1))


def test_a_row_without_a_cluster_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("document,text,label\na,x,no\n,y,yes\nb,z,no\n", encoding="utf-8")

    with pytest.raises(ArgumentError, match="line 3: the cluster is ''"):
        Dataset.from_file(file, "text", "label", cluster="document")


def test_a_cluster_column_of_pairs_is_refused() -> None:
    with pytest.raises(ArgumentError, match="pairs have no columns"):
        Dataset.from_rows(ROWS, name="rows", cluster="document")


def test_long_icl_refuses_clusters() -> None:
    rows = [(f"text {number}", f"label {number % 30}") for number in range(600)]
    data = Dataset.from_rows(rows, name="rows", cluster=document_of)

    with pytest.raises(ArgumentError, match="which the intervals of LongICL do not allow for"):
        LongICL(datasets=[data])


# -- results


@pytest.fixture
def clustered(csv_file: Path) -> Dataset:
    """The rows with their documents as clusters."""
    return Dataset.from_file(csv_file, "text", "label", cluster="document")


def test_a_result_has_the_cluster_of_each_test_row(clustered: Dataset) -> None:
    benchmark = Normal(datasets=[clustered])

    clusters = benchmark(model).details["rows"].clusters

    test_rows = benchmark[0].triplet_dataset.test.indexes
    assert clusters == tuple(NUMBERS[row] for row in test_rows)


def test_the_signature_of_a_result_names_the_clusters(clustered: Dataset) -> None:
    result = Normal(datasets=[clustered])(model)

    digest = digest_of_clusters(result.details["rows"].clusters)
    assert result.signature.fields["clusters"] == f"document-{digest[:12]}"


def test_intervals_are_over_clusters(clustered: Dataset) -> None:
    result = Normal(datasets=[clustered])(model)

    details = result.details["rows"]
    cluster_count = len(set(details.clusters))
    assert details.intervals["accuracy"].method.endswith("unit: cluster")
    assert f"rows: intervals and tests are over {cluster_count} clusters of 48 test rows" in str(result)


def test_a_saved_result_has_no_names_of_clusters(clustered: Dataset, tmp_path: Path) -> None:
    result = Normal(datasets=[clustered])(model)

    result.save(tmp_path / "result.json")

    assert "secret" not in (tmp_path / "result.json").read_text(encoding="utf-8")
    assert load(tmp_path / "result.json") == result


DUPLICATES = [(f"text {number // 2}", ("no", "yes")[number // 2 % 2]) for number in range(400)]
"""200 rows, each of them twice."""


def test_duplicates_within_a_cluster_are_no_problem() -> None:
    data = Dataset.from_rows(DUPLICATES, name="pairs", cluster=lambda row: row.texts[0])

    warnings = Normal(datasets=[data])(model).warnings

    assert "intervals are too narrow" not in " ".join(warnings)


def test_a_result_warns_of_duplicates_without_clusters() -> None:
    data = Dataset.from_rows(DUPLICATES, name="independent")

    warnings = Normal(datasets=[data])(model).warnings

    assert "intervals are too narrow" in " ".join(warnings)


def test_a_result_warns_of_duplicates_in_two_clusters() -> None:
    row_numbers = iter(range(400))
    data = Dataset.from_rows(DUPLICATES, name="apart", cluster=lambda row: next(row_numbers))

    warnings = Normal(datasets=[data])(model).warnings

    assert "intervals are too narrow" in " ".join(warnings)


def test_a_result_without_clusters_says_nothing_of_them(csv_file: Path) -> None:
    data = Dataset.from_file(csv_file, "text", "label")

    result = Normal(datasets=[data])(model)

    assert "cluster" not in json.dumps(result.to_dict())
    assert "cluster" not in str(result)


def change_saved(path: Path, change: Callable[[Any], None]) -> None:
    """Change the details of the data set ``rows`` in a saved result, as a forger would: with new digests."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document["details"]["rows"])
    path.write_text(json.dumps(with_digests(document)), encoding="utf-8")


@pytest.mark.parametrize("rule", ["document", document_of], ids=["column", "function"])
def test_clusters_of_a_saved_result_are_verified(csv_file: Path, rule: Any) -> None:
    data = Dataset.from_file(csv_file, "text", "label", cluster=rule)
    saved = csv_file.with_name("result.json")
    Normal(datasets=[data])(model).save(saved)

    for verification in verify_file(saved, data_files=[csv_file]):
        assert verification.findings == ()


@pytest.mark.parametrize("rule", ["document", document_of], ids=["column", "function"])
def test_forged_clusters_of_a_saved_result_are_found(csv_file: Path, rule: Any) -> None:
    data = Dataset.from_file(csv_file, "text", "label", cluster=rule)
    saved = csv_file.with_name("result.json")
    Normal(datasets=[data])(model).save(saved)

    def exchange_first_two(details: Any) -> None:
        clusters = details["clusters"]
        clusters[0], clusters[1] = clusters[1], clusters[0]

    change_saved(saved, exchange_first_two)

    contradictions = []
    for verification in verify_file(saved, data_files=[csv_file]):
        contradictions += [str(finding) for finding in verification.findings if isinstance(finding, Contradicted)]
    assert "clusters" in " ".join(contradictions)


def test_a_data_set_is_reopened_with_its_clusters(clustered: Dataset, csv_file: Path) -> None:
    record = clustered.file_record()
    assert record is not None

    assert Dataset.reopen(record, [csv_file]).clusters == Clusters("document", NUMBERS)


@pytest.mark.parametrize(
    ("clusters", "message"),
    [([0, *NUMBERS[:-1]], "other clusters than the column 'document'"), ([0, 1, 2], "clusters of 3 rows")],
    ids=["shifted", "too few"],
)
def test_a_record_of_a_file_with_other_clusters_is_refused(
    clustered: Dataset, csv_file: Path, clusters: list[int], message: str
) -> None:
    record = clustered.file_record()
    assert record is not None

    with pytest.raises(SchemaError, match=message):
        Dataset.reopen({**record, "clusters": clusters}, [csv_file])


def test_a_saved_result_without_a_cluster_for_a_test_row_is_refused(clustered: Dataset, tmp_path: Path) -> None:
    saved = tmp_path / "result.json"
    Normal(datasets=[clustered])(model).save(saved)

    change_saved(saved, lambda details: details["clusters"].pop())

    with pytest.raises(SchemaError, match="but there are clusters of 47 rows"):
        load(saved)


@pytest.fixture
def run_command(csv_file: Path) -> list[str]:
    """The command line of a run on the file."""
    return ["run", "normal", "--data", str(csv_file), "--text", "text", "--label", "label", "--model", "ppm"]


def test_the_command_line_reads_clusters(
    run_command: list[str], csv_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "result.json"

    assert main([*run_command, "--cluster", "document", "--json", str(saved)]) == 0

    assert "clusters of 48 test rows" in capsys.readouterr().out
    assert json.loads(saved.read_text(encoding="utf-8"))["details"]["rows"]["clusters"]
    assert main(["verify", str(saved), "--data", str(csv_file)]) == 0


def test_the_command_line_refuses_the_label_as_a_cluster(
    run_command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*run_command, "--cluster", "label"]) == 2
    assert "--cluster: got the label column" in capsys.readouterr().err
