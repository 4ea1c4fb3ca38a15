"""Users' own data: what is read, what is generated, and that saved results can be checked where the file is."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import string
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from StaICC import Dataset, Normal, load
from StaICC.benchmarks.findings import Contradicted, Unchecked, status_of
from StaICC.benchmarks.verify import verify_file
from StaICC.cli import main
from StaICC.errors import ArgumentError, SchemaError, StaICCError, UnknownNameError
from StaICC.results.files import with_digests

ROWS = [(f"text {i}, with a comma", 'a "quote"\nand a break', ["no", "yes", "so"][i % 3]) for i in range(60)]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def comma_separated(rows: Any, separator: str = ",", end: str = "\n") -> str:
    """Return the content of a file with the columns ``premise``, ``hypothesis`` and ``label``."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=separator, lineterminator=end)
    writer.writerows([("premise", "hypothesis", "label"), *rows])
    return stream.getvalue()


def json_lines(rows: Any) -> str:
    """Return the same columns as JSON Lines, with a further column ``x``."""
    lines = []
    for premise, hypothesis, label in rows:
        lines.append(json.dumps({"premise": premise, "hypothesis": hypothesis, "label": label, "x": 1}) + "\n")
    return "".join(lines)


def digest_of_file(name: str, data: bytes, **options: Any) -> str:
    """Write a file, and return the digest of its rows."""
    Path(name).write_bytes(data)
    return Dataset.from_file(name, ["premise", "hypothesis"], "label", **options).table.digest


@pytest.fixture
def digest_of_rows() -> str:
    """The digest of the rows."""
    rows = [((premise, hypothesis), label) for premise, hypothesis, label in ROWS]
    return Dataset.from_rows(rows, name="x").table.digest


CSV = comma_separated(ROWS)
RECORDS = [json.loads(line) for line in json_lines(ROWS).splitlines()]
FORMATS = {
    "plain.csv": CSV.encode(),
    "mark.csv": b"\xef\xbb\xbf" + CSV.encode(),
    "windows.csv": comma_separated(ROWS, end="\r\n").encode(),
    "semicolon.csv": comma_separated(ROWS, ";").encode(),
    "tabs.csv": comma_separated(ROWS, "\t").encode(),
    "tabs.tsv": comma_separated(ROWS, "\t").encode(),
    "UPPER.CSV": CSV.encode(),
    "wide.csv": CSV.encode("utf-16"),
    "blank.csv": (CSV + "\n\n").encode(),
    "lines.jsonl": json_lines(ROWS).encode(),
    "windows.jsonl": json_lines(ROWS).replace("\n", "\r\n").encode(),
    "lines.json": json_lines(ROWS).encode(),
    "list.json": json.dumps(RECORDS, indent=1).encode(),
}
"""Files with the same rows."""


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_rows_are_read_in_every_format(name: str, digest_of_rows: str) -> None:
    assert digest_of_file(name, FORMATS[name]) == digest_of_rows


def test_the_same_rows_are_read_in_another_encoding(digest_of_rows: str) -> None:
    assert digest_of_file("latin.csv", CSV.encode("latin-1"), encoding="latin-1") == digest_of_rows


@pytest.fixture
def frame() -> Any:
    """The rows as a data frame of pandas."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(ROWS, columns=["premise", "hypothesis", "label"])


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_a_row_of_a_data_frame_without_a_label_is_refused(frame: Any, missing: float | None) -> None:
    frame["label"] = [missing, *frame.label[1:]]

    with pytest.raises(ArgumentError, match="row 0 has no label"):
        Dataset.from_pandas(frame, ["premise"], "label", name="x")


def test_numbers_in_a_data_frame_are_labels_by_a_mapping(frame: Any, digest_of_rows: str) -> None:
    frame["label"] = frame.label.map({"no": 0, "so": 1, "yes": 2}).astype("Int64")
    names = {0: "no", 1: "so", 2: "yes"}

    data = Dataset.from_pandas(frame, ["premise", "hypothesis"], "label", name="x", labels=names)

    assert data.table.digest == digest_of_rows


def test_columns_of_a_data_frame_may_be_numbers(digest_of_rows: str) -> None:
    """As after ``header=None``."""
    pandas = pytest.importorskip("pandas")

    data = Dataset.from_pandas(pandas.DataFrame(ROWS), ["0", "1"], "2", name="x")

    assert data.table.digest == digest_of_rows


def test_floats_in_a_data_frame_are_labels_without_decimals(frame: Any) -> None:
    frame["label"] = frame.label.map({"no": 0.0, "so": 1.0, "yes": 2.0})

    data = Dataset.from_pandas(frame, ["premise"], "label", name="x")

    assert data.card.label_space == ("0", "1", "2")


def hugging_face_data(labels: list[int]) -> Any:
    """Return a data set of Hugging Face with these labels, indexes of the classes ``wish`` and ``bug``."""
    library = pytest.importorskip("datasets")
    features = library.Features({"text": library.Value("string"), "y": library.ClassLabel(names=["wish", "bug"])})
    texts = [f"t{i}" for i in range(len(labels))]
    return library.Dataset.from_dict({"text": texts, "y": labels}, features=features)


def test_classes_of_hugging_face_are_the_labels() -> None:
    data = Dataset.from_huggingface(hugging_face_data([0, 1] * 10), ["text"], "y", name="mine")

    assert data.card.label_space == ("wish", "bug")
    assert data.table[1].label == 1


def test_several_splits_of_hugging_face_are_refused_with_their_names() -> None:
    library = pytest.importorskip("datasets")
    data = hugging_face_data([0, 1])

    with pytest.raises(ArgumentError, match=r"Choose one of its splits: train, test"):
        Dataset.from_huggingface(library.DatasetDict(train=data, test=data), ["text"], "y", name="x")


def test_hidden_labels_of_hugging_face_are_refused() -> None:
    """A test set whose labels are secret has -1 in their place."""
    with pytest.raises(ArgumentError, match=r"row 0 has no label \(2 of 2"):
        Dataset.from_huggingface(hugging_face_data([-1, -1]), ["text"], "y", name="x")


def test_a_misspelt_column_of_hugging_face_is_refused_with_the_right_name() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'text'"):
        Dataset.from_huggingface(hugging_face_data([0, 1]), ["txt"], "y", name="x")


def test_a_misspelt_column_of_a_parquet_file_is_refused_with_the_right_name() -> None:
    hugging_face_data([0, 1]).to_parquet("t.parquet")

    with pytest.raises(UnknownNameError, match="did you mean 'text'"):
        Dataset.from_file("t.parquet", ["txt"], "y")


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
ANY_ROWS = st.lists(st.tuples(ANY_TEXT, st.sampled_from(["a", "b", "c d"])), max_size=18).map(
    lambda rows: [("first", "a"), ("second", "a"), ("third", "b"), ("fourth", "c d"), *rows]
)
"""Rows with any texts, in which each of three labels occurs."""


def rows_of(dataset: Dataset) -> list[tuple[str, str]]:
    """Return the text and the label name of each row."""
    return [(row.texts[0], dataset.card.label_space[row.label]) for row in dataset.table]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_ROWS, st.sampled_from([",", ";", "\t"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_any_text_is_read_from_csv(rows: list[tuple[str, str]], separator: str, quoting: Any) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=separator, quoting=quoting).writerows([("text", "label"), *rows])
    Path("t.csv").write_bytes(stream.getvalue().encode())

    assert rows_of(Dataset.from_file("t.csv", ["text"], "label")) == rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_ROWS)
def test_any_text_is_read_from_json(rows: list[tuple[str, str]]) -> None:
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in rows]
    Path("t.jsonl").write_bytes("".join(lines).encode())

    assert rows_of(Dataset.from_file("t.jsonl", ["text"], "label")) == rows


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200) | st.text(string.printable, max_size=200).map(str.encode),
    st.sampled_from(["csv", "tsv", "json"]),
)
@example(b"\xef\xbb\xbf", "tsv")
def test_any_bytes_are_read_or_refused_in_one_way(data: bytes, suffix: str) -> None:
    Path(f"x.{suffix}").write_bytes(b"text,label\n" + data if suffix == "csv" else data)
    with contextlib.suppress(StaICCError):
        Dataset.from_file(f"x.{suffix}", ["text"], "label")


# -- from file to verification


def intents(label_count: int, row_count: int) -> str:
    """Return JSON Lines with the columns ``u`` and ``i``: utterances and their intents."""
    lines = []
    for row in range(row_count):
        intent = row % label_count
        lines.append(json.dumps({"u": f"do {intent} ({row})", "i": f"intent {intent}"}) + "\n")
    return "".join(lines)


@dataclass(frozen=True)
class OwnFile:
    """A file of a user."""

    name: str
    content: str
    texts: str
    """The columns of the input texts, with spaces between them."""
    label: str


NLI = OwnFile("nli.csv", comma_separated(ROWS * 3), "premise hypothesis", "label")
INTENTS = OwnFile("intents.jsonl", intents(label_count=60, row_count=600), "u", "i")


@pytest.mark.parametrize("file", [NLI, INTENTS], ids=["nli", "intents"])
def test_a_run_of_the_suite_on_a_file_is_verified_and_reported(
    file: OwnFile, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file.name).write_text(file.content, encoding="utf-8", newline="")
    data = f"--data {file.name} --text {file.texts} --label {file.label}"

    assert main(f"run suite {data} --limit 2 --json r.json --quiet".split()) == 0
    assert "calibration rows" in capsys.readouterr().err

    assert main(["verify", "r.json"]) == 0
    of_suite, of_benchmark, benchmarks = 2, 2, 7  # digests and parts; prompts and means
    assert capsys.readouterr().out.count("recomputed  ") == of_suite + of_benchmark * benchmarks
    assert main(["report", "r.json"]) == 0


@pytest.fixture
def saved() -> Path:
    """A saved result on the file ``a.csv``, both in the current folder."""
    Path("a.csv").write_text(comma_separated(ROWS), encoding="utf-8", newline="")
    names = {"no": "x", "so": "y", "yes": "z"}
    data = Dataset.from_file("a.csv", ["premise", "hypothesis"], "label", labels=names)
    Normal(datasets=[data], limit=4)(lambda prompt, label_space: [0.2, 0.5, 0.3]).save("r.json")
    return Path("r.json")


def messages_of_recomputed(findings: Any) -> list[str]:
    """Return the messages of what was recomputed and is the same."""
    return [finding.message for finding in findings if finding.same]


def test_a_result_is_verified_with_the_file_in_the_current_folder(saved: Path) -> None:
    assert "the 8 prompts are the same" in messages_of_recomputed(verify_file(saved))


@pytest.mark.parametrize("data_file", ["elsewhere", "elsewhere/a.csv"])
def test_a_result_is_verified_with_a_file_elsewhere(saved: Path, data_file: str) -> None:
    Path("elsewhere").mkdir()
    Path("a.csv").rename("elsewhere/a.csv")

    assert "the 8 prompts are the same" in messages_of_recomputed(verify_file(saved, data_files=[data_file]))


def test_a_result_is_verified_in_the_folder_of_the_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("elsewhere").mkdir()
    Path("a.csv").rename("elsewhere/a.csv")
    monkeypatch.chdir("elsewhere")

    assert "the 8 prompts are the same" in messages_of_recomputed(verify_file("../r.json"))


def test_a_result_without_its_file_is_not_checked(saved: Path) -> None:
    Path("a.csv").unlink()

    findings = verify_file(saved)

    reasons = [reason for finding in findings for reason in finding.unchecked]
    assert "the file a.csv is not here" in " ".join(reasons)
    assert isinstance(status_of(findings), Unchecked)


def test_a_saved_result_has_no_folder_of_the_file(saved: Path, tmp_path: Path) -> None:
    assert str(tmp_path) not in saved.read_text("utf-8"), "folders are private"


def test_a_saved_result_says_how_its_file_was_read(saved: Path) -> None:
    fields = {"file", "sha256", "texts", "label", "values", "encoding", "quoting", "columns", "card"}
    assert set(load(saved).files["a"]) == fields


def test_a_data_set_is_reopened_from_the_file_with_its_digest(saved: Path) -> None:
    Path("b.csv").write_text("another file\n", encoding="utf-8")

    data = Dataset.reopen(load(saved).files["a"], ["b.csv", "a.csv"])

    assert data.card.name == "a"
    assert len(data.table) == 60


def test_a_record_with_a_folder_is_not_reopened(saved: Path) -> None:
    record = {**load(saved).files["a"], "file": "../elsewhere/a.csv"}

    with pytest.raises(SchemaError, match=r"'../elsewhere/a.csv' is not the name of a file"):
        Dataset.reopen(record, ["."])


def forge_record(path: Path, changes: dict[str, Any]) -> None:
    """Change the record of the file in a saved result, as a forger would: with new digests.

    Args:
        path: The saved result.
        changes: The new values of fields; ``card.name`` is a field of the card.
    """
    document = json.loads(path.read_text("utf-8"))
    record = document["files"]["a"]
    for name, value in changes.items():
        if name.startswith("card."):
            record["card"][name.removeprefix("card.")] = value
        else:
            record[name] = value
    path.write_text(json.dumps(with_digests(document)), encoding="utf-8")


MALFORMED_OR_UNKNOWN: list[dict[str, Any]] = [
    *({"file": "../a.csv"}, {"file": 5}, {"card": {}}, {"card": None}, {"values": []}, {"encoding": 5}),
    *({"texts": 5}, {"texts": ["hypothesis", "premise"]}, {"label": "premise"}, {"sha256": "0" * 64}),
]
"""These are refused, or contradicted, or name a file that is not in the folder."""
CONTRADICTED: list[dict[str, Any]] = [
    *({"card.name": "b"}, {"card.rows": 1000}, {"card.label_space": ["no", "yes", "maybe"]}),
    *({"label": "no such column"}, {"texts": ["premise", "no such column"]}, {"values": {"no": "other"}}),
]
"""The file in the folder contradicts these."""
"""The file at hand contradicts these."""


@pytest.mark.parametrize("changes", CONTRADICTED, ids=str)
def test_a_record_that_the_file_contradicts_is_contradicted(saved: Path, changes: dict[str, Any]) -> None:
    forge_record(saved, changes)

    findings = verify_file(saved)

    assert isinstance(status_of(findings), Contradicted)
    assert messages_of_recomputed(findings) == []


@pytest.mark.parametrize("changes", MALFORMED_OR_UNKNOWN, ids=str)
def test_a_forged_record_is_never_confirmed(saved: Path, changes: dict[str, Any]) -> None:
    forge_record(saved, changes)

    try:
        findings = verify_file(saved)
    except SchemaError:
        return
    assert isinstance(status_of(findings), (Contradicted, Unchecked))
    assert messages_of_recomputed(findings) == []


# -- labels and names that are no mistake of the reader


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"bug": "A", "wish": "A"}, "at least two"),
        ({}, "at least two"),
        ("bugs", "at least two"),
        ({"bug", "wish"}, "at least two"),
        (5, "at least two"),
        (["wish", "wish", "bug"], "each once"),
        ({"bug": " ", "wish": "x"}, "none empty"),
    ],
)
def test_unusable_label_names_are_refused(labels: Any, message: str) -> None:
    Path("d.csv").write_text("text,label\n" + "a,bug\nb,wish\n" * 30, "utf-8")

    with pytest.raises(ArgumentError, match=message):
        Dataset.from_file("d.csv", ["text"], "label", labels=labels)


def test_a_data_set_without_a_card_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs a Card, not 'GLUE-SST2'"):
        Dataset("GLUE-SST2", [], None)  # type: ignore[arg-type]


PLAIN: list[Any] = [(f"text {i}", "no" if i % 2 else "yes") for i in range(20)]
REMARKS: list[tuple[list[Any], Any, list[str]]] = [
    (PLAIN, None, []),
    ([*PLAIN, ("a", " yes"), ("b", "no ")], None, ["2 rows have labels with surrounding spaces"]),
    ([*PLAIN, *[("a", " yes")] * 2], ["no", " yes", "yes"], ["the labels ' yes', 'yes' differ only in spelling"]),
    ([*PLAIN, ("a", "7")], None, ["one label has one row: '7' (row 20). Is it a mistake, a row of totals"]),
    ([("a", "7"), *[("b", "07")] * 3], None, ["the labels '07', '7' differ only in", "the labels are numbers"]),
    ([("a", "x"), ("b", "y"), ("c", "z")] * 2, None, []),
    ([("a", "x"), ("b", "y")], None, ["there are 2 labels in 2 rows: most labels have one row"]),
    (
        [(("a", "b"), "x"), (("", "c"), "y")] * 2,
        None,
        ["2 rows have an empty text in one of their columns (first: row 1)"],
    ),
]
"""Rows, label space, and the beginning of each remark."""


@pytest.mark.parametrize(("rows", "labels", "beginnings"), REMARKS)
def test_what_is_suspicious_about_rows_is_remarked(rows: Any, labels: Any, beginnings: list[str]) -> None:
    remarks = Dataset.from_rows(rows, name="x", label_space=labels).remarks

    assert len(remarks) == len(beginnings)
    for remark, beginning in zip(remarks, beginnings, strict=True):
        assert remark.startswith(beginning)


@pytest.mark.parametrize(
    ("faulty_texts", "problem"),
    [
        (("a\ud800", "b\ud800", "c\ud800"), "lone surrogate"),
        ((1, None, "c"), "must be a string"),
        ((" ", "", "\t"), "has no text"),
    ],
    ids=["surrogates", "types", "blanks"],
)
def test_a_row_with_several_faulty_texts_counts_once(faulty_texts: Any, problem: str) -> None:
    """The message says how many rows have a problem, and which, whatever the number of their faulty columns."""
    good_texts = ("a", "b", "c")
    rows: list[Any] = [(faulty_texts, "no"), (good_texts, "yes"), (good_texts, "no"), (faulty_texts, "yes")]

    with pytest.raises(ArgumentError, match=rf"{problem}.*\(2 of 4 rows: rows 0, 3\)"):
        Dataset.from_rows(rows, name="x", label_space=["no", "yes"])


def test_one_row_with_faulty_texts_is_not_listed_twice() -> None:
    rows: list[Any] = [(("a", "b"), "no"), ((" ", ""), "yes"), (("a", "b"), "no")]

    with pytest.raises(ArgumentError, match=r"row 1.*has no text.*\(1 of 3 rows\)"):
        Dataset.from_rows(rows, name="x", label_space=["no", "yes"])


@pytest.mark.parametrize(
    ("labels_of_rows", "label_space", "expected_space", "indexes"),
    [
        (["1", "0", "1", "0"], ["1", "0"], ("1", "0"), [0, 1, 0, 1]),
        (["0", "1", "1", "0"], ["no", "yes"], ("no", "yes"), [0, 1, 1, 0]),
        (["0", "2", "2", "0"], ["a", "b", "c"], ("a", "b", "c"), [0, 2, 2, 0]),
        (["10", "9", "2", "9"], None, ("2", "9", "10"), [2, 1, 0, 1]),
        (["10", "9", "b", "9"], None, ("10", "9", "b"), [0, 1, 2, 1]),
    ],
    ids=["names", "indexes", "not all indexes", "numbers in order", "texts in order"],
)
def test_labels_by_name_by_index_and_in_order(
    labels_of_rows: list[str], label_space: list[str] | None, expected_space: tuple[str, ...], indexes: list[int]
) -> None:
    rows = [(f"t{i}", label) for i, label in enumerate(labels_of_rows)]

    data = Dataset.from_rows(rows, name="x", label_space=label_space)

    assert data.card.label_space == expected_space
    assert [row.label for row in data.table] == indexes


def write_columns(header: str) -> None:
    """Write the file ``u.csv`` with these columns and 20 rows."""
    names = header.split(",")
    lines = [",".join(f"{name}{i % 2}" for name in names) for i in range(20)]
    Path("u.csv").write_text("\n".join([header, *lines]), encoding="utf-8")


@pytest.mark.parametrize(("header", "text"), [("text,label", "text"), ("label,sentence", "sentence")])
def test_the_usual_two_columns_need_no_names(header: str, text: str) -> None:
    write_columns(header)

    named = Dataset.from_file("u.csv", [text], "label")

    assert Dataset.from_file("u.csv").file_record() == named.file_record()
    assert Dataset.from_file("u.csv", label="label").table.digest == named.table.digest


@pytest.mark.parametrize("text", ["text", "sentence"])
def test_a_label_column_that_is_the_usual_text_column_is_refused(text: str) -> None:
    write_columns(f"{text},label")

    with pytest.raises(ArgumentError):
        Dataset.from_file("u.csv", label=text)


@pytest.mark.parametrize("header", ["text,label,idx", "Text,label", "text,sentence,label"])
def test_other_columns_need_names(header: str) -> None:
    write_columns(header)

    with pytest.raises(ArgumentError, match=f"label=.label.. There are: {header.replace(',', ', ')}"):
        Dataset.from_file("u.csv")
