"""Users' own data: what is read, what is generated, and that saved results can be checked where the file is."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import string
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
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=separator, lineterminator=end)
    writer.writerows([("premise", "hypothesis", "label"), *rows])
    return stream.getvalue()


def lines(rows: Any) -> str:
    return "".join(json.dumps({"premise": a, "hypothesis": b, "label": c, "x": 1}) + "\n" for a, b, c in rows)


def digest_of(name: str, data: bytes, **more: Any) -> str:
    Path(name).write_bytes(data)
    return Dataset.from_file(name, ["premise", "hypothesis"], "label", **more).table.digest


def test_the_same_rows_in_every_format() -> None:
    text = comma_separated(ROWS)
    expected = Dataset.from_rows(
        [((a, b), ["no", "so", "yes"].index(c)) for a, b, c in ROWS], name="x", label_space=["no", "so", "yes"]
    ).table.digest
    same = {
        "plain.csv": text.encode(),
        "mark.csv": b"\xef\xbb\xbf" + text.encode(),
        "windows.csv": comma_separated(ROWS, end="\r\n").encode(),
        "semicolon.csv": comma_separated(ROWS, ";").encode(),
        "tabs.csv": comma_separated(ROWS, "\t").encode(),
        "tabs.tsv": comma_separated(ROWS, "\t").encode(),
        "UPPER.CSV": text.encode(),
        "wide.csv": text.encode("utf-16"),
        "blank.csv": (text + "\n\n").encode(),
        "lines.jsonl": lines(ROWS).encode(),
        "windows.jsonl": lines(ROWS).replace("\n", "\r\n").encode(),
        "lines.json": lines(ROWS).encode(),
        "list.json": json.dumps([json.loads(line) for line in lines(ROWS).splitlines()], indent=1).encode(),
    }
    assert {name: digest_of(name, data) for name, data in same.items()} == dict.fromkeys(same, expected)
    assert digest_of("latin.csv", text.encode("latin-1"), encoding="latin-1") == expected


def test_data_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["premise", "hypothesis", "label"])
    expected = digest_of("a.csv", comma_separated(ROWS).encode())
    for label in (float("nan"), None):
        changed = frame.assign(label=[label, *frame.label[1:]])
        with pytest.raises(ArgumentError, match="row 0 has no label"):
            Dataset.from_pandas(changed, ["premise"], "label", name="x")
    numbers = frame.assign(label=frame.label.map({"no": 0, "so": 1, "yes": 2}).astype("Int64"))
    labels = {0: "no", 1: "so", 2: "yes"}
    named = Dataset.from_pandas(numbers, ["premise", "hypothesis"], "label", name="x", labels=labels)
    assert named.table.digest == expected
    unnamed = pandas.DataFrame(ROWS)  # its columns are numbers, as after header=None
    assert Dataset.from_pandas(unnamed, ["0", "1"], "2", name="x").table.digest == expected
    floats = numbers.assign(label=numbers.label.astype(float))
    assert Dataset.from_pandas(floats, ["premise"], "label", name="x").card.label_space == ("0", "1", "2")


def test_hugging_face() -> None:
    library = pytest.importorskip("datasets")
    features = library.Features({"text": library.Value("string"), "y": library.ClassLabel(names=["wish", "bug"])})
    data = library.Dataset.from_dict({"text": [f"t{i}" for i in range(20)], "y": [0, 1] * 10}, features=features)
    made = Dataset.from_huggingface(data, ["text"], "y", name="mine")
    assert made.card.label_space == ("wish", "bug")
    assert made.table[1].label == 1
    with pytest.raises(ArgumentError, match=r"Choose one of its splits: train, test"):
        Dataset.from_huggingface(library.DatasetDict(train=data, test=data), ["text"], "y", name="x")
    hidden = library.Dataset.from_dict({"text": ["a", "b"], "y": [-1, -1]}, features=features)
    with pytest.raises(ArgumentError, match=r"row 0 has no label \(2 of 2"):
        Dataset.from_huggingface(hidden, ["text"], "y", name="x")
    data.to_parquet("t.parquet")
    for misspelt in (
        lambda: Dataset.from_huggingface(data, ["txt"], "y", name="x"),
        lambda: Dataset.from_file("t.parquet", ["txt"], "y"),
    ):
        with pytest.raises(UnknownNameError, match="did you mean 'text'"):
            misspelt()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip),
            st.sampled_from(["a", "b", "c d"]),
        ),
        min_size=4,
        max_size=20,
    ),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_any_text_survives_csv_and_json(rows: list[tuple[str, str]], separator: str, quoting: Any) -> None:
    labels = sorted({label for _, label in rows})
    if len(labels) < 2 or len(labels) == len(rows):
        return
    table = io.StringIO(newline="")
    csv.writer(table, delimiter=separator, quoting=quoting).writerows([("text", "label"), *rows])
    Path("t.csv").write_bytes(table.getvalue().encode())
    Path("t.jsonl").write_bytes("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in rows).encode())
    for name in ("t.csv", "t.jsonl"):
        made = Dataset.from_file(name, ["text"], "label")
        assert [(row.texts[0], labels[row.label]) for row in made.table] == rows


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


def intents(labels: int, rows: int) -> str:
    return "".join(json.dumps({"u": f"do {i % labels} ({i})", "i": f"intent {i % labels}"}) + "\n" for i in range(rows))


FILES = {
    "nli.csv": (comma_separated(ROWS * 3), "premise hypothesis", "label"),
    "intents.jsonl": (intents(60, 600), "u", "i"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_through_the_suite_a_report_and_verification(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, texts, label = FILES[name]
    Path(name).write_text(content, encoding="utf-8", newline="")
    line = f"run suite --data {name} --text {texts} --label {label} --limit 2 --json r.json --quiet"
    assert main(line.split()) == 0
    assert "calibration rows" in capsys.readouterr().err
    assert main(["verify", "r.json"]) == 0
    assert capsys.readouterr().out.count("recomputed  ") == 1 + 2 * 7 + 1
    assert main(["report", "r.json"]) == 0


def saved() -> Path:
    Path("a.csv").write_text(comma_separated(ROWS), encoding="utf-8", newline="")
    made = Dataset.from_file("a.csv", ["premise", "hypothesis"], "label", labels={"no": "x", "so": "y", "yes": "z"})
    Normal(datasets=[made], limit=4)(lambda prompt, label_space: [0.2, 0.5, 0.3]).save("r.json")
    return Path("r.json")


def test_verification_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved()
    assert any(finding.message == "the 8 prompts are the same" for finding in verify_file("r.json")), (
        f"got {verify_file('r.json')}"
    )
    of_file = {"file", "sha256", "texts", "label", "values", "encoding", "quoting", "columns", "card"}
    assert set(load("r.json").files["a"]) == of_file
    assert str(tmp_path) not in Path("r.json").read_text("utf-8"), "folders are private"
    Path("elsewhere").mkdir()
    Path("a.csv").rename("elsewhere/a.csv")
    findings = verify_file("r.json")
    unchecked = [line for finding in findings for line in finding.unchecked]
    assert any("the file a.csv is not here" in line for line in unchecked), f"got {unchecked}"
    assert isinstance(status_of(findings), Unchecked)
    for place in ("elsewhere", "elsewhere/a.csv"):
        assert any(finding.same for finding in verify_file("r.json", data_files=[place])), (
            f"got {verify_file('r.json', data_files=[place])}"
        )
    monkeypatch.chdir("elsewhere")
    assert any(finding.same for finding in verify_file("../r.json")), f"got {verify_file('../r.json')}"
    Path("b.csv").write_text("another file\n", encoding="utf-8")
    record = load("../r.json").files["a"]
    assert Dataset.reopen(record, ["b.csv", "a.csv"]).card.name == "a"
    with pytest.raises(SchemaError, match=r"'../elsewhere/a.csv' is not the name of a file"):
        Dataset.reopen({**record, "file": "../elsewhere/a.csv"}, ["."])


def with_record(**changes: Any) -> Any:
    """The plain values of a saved result whose record of the file is changed."""
    data = json.loads(saved().read_text("utf-8"))
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = data["files"]["a"]
        for parent in parents:
            place = place[parent]
        place[key] = value
    return data


FORGED: list[dict[str, Any]] = [
    *({"file": "../a.csv"}, {"file": 5}, {"card": {}}, {"card": None}, {"values": []}, {"encoding": 5}),
    *({"texts": 5}, {"texts": ["hypothesis", "premise"]}, {"label": "premise"}, {"sha256": "0" * 64}),
]
UNFIT: list[dict[str, Any]] = [
    *({"card__name": "b"}, {"card__rows": 1000}, {"card__label_space": ["no", "yes", "maybe"]}),
    *({"label": "no such column"}, {"texts": ["premise", "no such column"]}, {"values": {"no": "other"}}),
]
"""The file at hand contradicts these."""


@pytest.mark.parametrize("change", [*FORGED, *UNFIT], ids=str)
def test_a_forged_record_is_never_recomputed(change: dict[str, Any]) -> None:
    """A forger can compute the digests of the result again."""
    Path("r.json").write_text(json.dumps(with_digests(with_record(**change))), encoding="utf-8")
    try:
        findings = verify_file("r.json")
    except SchemaError:
        assert change in FORGED
        return
    assert [finding for finding in findings if finding.same] == []
    assert isinstance(status_of(findings), Contradicted if change in UNFIT else (Contradicted, Unchecked))


# -- labels and names that are no mistake of the reader


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        *((bad, "at least two") for bad in ({"bug": "A", "wish": "A"}, {}, "bugs", {"bug", "wish"}, 5)),
        *((["wish", "wish", "bug"], "each once"), ({"bug": " ", "wish": "x"}, "none empty")),
    ],
)
def test_label_names_that_are_refused(labels: Any, message: str) -> None:
    Path("d.csv").write_text("text,label\n" + "a,bug\nb,wish\n" * 30, "utf-8")
    with pytest.raises(ArgumentError, match=message):
        Dataset.from_file("d.csv", ["text"], "label", labels=labels)
    with pytest.raises(ArgumentError, match="needs a Card, not 'GLUE-SST2'"):
        Dataset("GLUE-SST2", [], None)


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


@pytest.mark.parametrize(("rows", "labels", "remarks"), REMARKS)
def test_what_is_suspicious_about_rows(rows: Any, labels: Any, remarks: list[str]) -> None:
    made = Dataset.from_rows(rows, name="x", label_space=labels).remarks
    assert [own[: len(remark)] for remark, own in zip(remarks, made, strict=True)] == remarks


@pytest.mark.parametrize(
    ("bad_texts", "problem"),
    [
        (("a\ud800", "b\ud800", "c\ud800"), "lone surrogate"),
        ((1, None, "c"), "must be a string"),
        ((" ", "", "\t"), "has no text"),
    ],
    ids=["surrogates", "types", "blanks"],
)
@pytest.mark.parametrize("bad_rows", [[1], [0, 3], [0, 1, 2, 3]])
def test_a_row_with_several_faulty_texts_counts_once(bad_texts: Any, problem: str, bad_rows: list[int]) -> None:
    """The message says how many rows have a problem, and which, whatever the number of their faulty columns."""
    rows: list[Any] = [((f"a {number}", "b", "c"), ("no", "yes")[number % 2]) for number in range(6)]
    for number in bad_rows:
        rows[number] = (bad_texts, "no")
    listed = ""
    if len(bad_rows) > 1:
        listed = f": rows {', '.join(map(str, bad_rows))}"
    with pytest.raises(ArgumentError, match=problem) as caught:
        Dataset.from_rows(rows, name="x", label_space=["no", "yes"])
    assert f"({len(bad_rows)} of 6 rows{listed})" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "labels", "space", "indexes"),
    [
        ("1010", ["1", "0"], "10", [0, 1, 0, 1]),  # names, not indexes
        ("0110", ["no", "yes"], ["no", "yes"], [0, 1, 1, 0]),
        ("0220", "abc", "abc", [0, 2, 2, 0]),
        (["10", "9", "2", "9"], None, ["2", "9", "10"], [2, 1, 0, 1]),
        (["10", "9", "b", "9"], None, ["10", "9", "b"], [0, 1, 2, 1]),
    ],
)
def test_labels_by_name_by_index_and_in_order(given: Any, labels: Any, space: Any, indexes: list[int]) -> None:
    rows = [(f"t{i}", own) for i, own in enumerate(given)]
    made = Dataset.from_rows(rows, name="x", label_space=labels and [*labels])
    assert made.card.label_space == tuple(space)
    assert [row.label for row in made.table] == indexes


@pytest.mark.parametrize(
    "header", ["text,label", "label,sentence", "text,label,idx", "Text,label", "text,sentence,label"]
)
def test_the_usual_two_columns_need_no_names(header: str) -> None:
    names = header.split(",")
    rows = ["".join(f"{name}{i % 2}," for name in names)[:-1] for i in range(20)]
    Path("u.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
    if header not in ("text,label", "label,sentence"):
        with pytest.raises(ArgumentError, match=f"label=.label.. There are: {', '.join(names)}"):
            Dataset.from_file("u.csv")
        return
    (text,) = {*names} - {"label"}
    named = Dataset.from_file("u.csv", [text], "label")
    assert Dataset.from_file("u.csv").file_record() == named.file_record()
    assert Dataset.from_file("u.csv", label="label").table.digest == named.table.digest
    with pytest.raises(ArgumentError):
        Dataset.from_file("u.csv", label=text)
