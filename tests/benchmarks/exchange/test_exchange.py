"""Prompts out and answers in: ids, files, scoring."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import StaICC
from StaICC import Normal
from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.exchange import (
    export_tasks,
    identified_queries,
    prompt_records,
    query_id,
    read_predictions,
    score_predictions,
)
from StaICC.benchmarks.exchange.files import csv_lines, json_lines
from StaICC.benchmarks.verify import verify_file
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError, OutputError, SchemaError
from StaICC.prompting import Query

Model = Callable[..., list[float]]


def mini(benchmark: str = "Normal", **arguments: Any) -> Any:
    return getattr(StaICC, benchmark)(**{"datasets": ["mini"], "limit": 6, **arguments})


def answered(benchmark: Any, stand_in: Model, field: str = "logits") -> dict[str, dict[str, Any]]:
    found = {}
    for one in identified_queries(benchmark):
        row = stand_in(one.query.prompt, list(one.query.label_space))
        best = row.index(max(row))
        value = {"logits": row, "index": best, "label": one.query.label_space[best]}[field]
        found[one.id] = {field: value}
    return found


# -- ids


@pytest.mark.parametrize(
    "name", ["Normal", "GLER", "ContextualBias", "TripletBias", "Suite", "DemonstrationSensitivity"]
)
def test_ids_are_unique_and_the_same_every_time(name: str) -> None:
    first = [one.id for one in identified_queries(mini(name, limit=3))]
    assert len(set(first)) == len(first)
    assert first == [one.id for one in identified_queries(mini(name, limit=3))]


def test_what_an_id_says() -> None:
    one = next(identified_queries(mini()))
    assert re.fullmatch(r"Normal/mini/normal/0/0/[0-9a-f]{12}", one.id)
    assert query_id("a/b", "ü c", "%", Query("p", ("x",), 0, 3, 1)).startswith("a%2Fb/%C3%BC%20c/%25/3/1/")


def test_an_id_does_not_depend_on_the_limit() -> None:
    few, many = ([one.id for one in identified_queries(mini(limit=limit))] for limit in (3, 6))
    assert set(few) < set(many)


@pytest.mark.parametrize("changed", [{"k": 2}, {"noisy_channel": True}])
def test_other_prompts_have_other_ids(changed: dict[str, Any]) -> None:
    assert not {one.id for one in identified_queries(mini())} & {one.id for one in identified_queries(mini(**changed))}


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_an_id_depends_on_prompt_and_labels(prompt: str, other: str, label: str) -> None:
    ids = {
        query_id("b", "d", "c", Query(text, labels, 0, 0, 0))
        for text in (prompt, other)
        for labels in ((label, "z" + label), ("z" + label, label))
    }
    assert len(ids) == 2 * len({prompt, other})


# -- files


def write_prompts(benchmark: Benchmark, path: Path) -> None:
    records = prompt_records(benchmark)
    lines = csv_lines(records, verbatim=True) if path.suffix == ".csv" else json_lines(records)
    path.write_bytes("".join(lines).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("name", ["Normal", "GLER"])
@pytest.mark.parametrize("noisy", [False, True])
def test_prompts_in_a_file_are_the_prompts(tmp_path: Path, suffix: str, name: str, noisy: bool) -> None:
    benchmark = mini(name, limit=3, noisy_channel=noisy)
    path = tmp_path / f"prompts.{suffix}"
    write_prompts(benchmark, path)
    if suffix == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            records = list(csv.DictReader(file))
        prompts = [json.loads(one["prompt"]) if noisy else one["prompt"] for one in records]
        spaces = [json.loads(one["label_space"]) for one in records]
    else:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        prompts, spaces = [one["prompt"] for one in records], [one["label_space"] for one in records]
    assert prompts == benchmark[0].prompt_set()
    assert spaces == [benchmark[0].get_label_space()] * len(prompts)
    assert "ground_truth" not in records[0]


def test_the_truth_only_on_request() -> None:
    records = list(prompt_records(mini(), with_truth=True))
    assert [one["ground_truth"] for one in records] == [one.query.label for one in identified_queries(mini())]


def test_texts_of_every_kind_survive_both_formats(tmp_path: Path) -> None:
    texts = ['a "b", c\nd\r\ne', "\u2028 \u0085 \x1c", "é 😀", " lead and trail ", ",;\t'"]
    rows = [(texts[i % len(texts)] + str(i), i % 2) for i in range(30)]
    own = Dataset.from_rows(rows, name="own", label_space=["no,\n", '"yes"'])
    benchmark = StaICC.Normal(datasets=[own], limit=3)
    for suffix in ("jsonl", "csv"):
        path = tmp_path / f"p.{suffix}"
        write_prompts(benchmark, path)
        with path.open(encoding="utf-8", newline="") as file:
            if suffix == "csv":
                found = [one["prompt"] for one in csv.DictReader(file)]
            else:
                found = [json.loads(line)["prompt"] for line in file.read().split("\n") if line]
        assert found == benchmark[0].prompt_set()


# -- round trips


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
@pytest.mark.parametrize("field", ["logits", "index", "label"])
def test_scored_as_if_run(tmp_path: Path, stand_in: Model, suffix: str, field: str, anonymous: Model) -> None:
    """From a file in any order to the same numbers as a run; only who predicted, and how, is not known."""
    benchmark = mini()
    lines = [{"id": key, "extra": "x", **answer} for key, answer in answered(benchmark, stand_in, field).items()]
    random.Random(0).shuffle(lines)
    path = tmp_path / f"predictions.{suffix}"
    if suffix == "csv":
        with path.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["extra", field, "id"])
            writer.writerows(
                ["x", json.dumps(one[field]) if field == "logits" else one[field], one["id"]] for one in lines
            )
    else:
        path.write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
    found = score_predictions(mini(), read_predictions(path))

    def function(prompt: str, label_space: list[str]) -> Any:
        row = stand_in(prompt, label_space)
        return row if field == "logits" else row.index(max(row))

    ran = benchmark(function)
    assert anonymous(found) == anonymous(ran)
    assert isinstance(found, StaICC.Result)
    assert found.signature.differences(ran.signature) == {"scoring": ("given", "function")}


@pytest.mark.parametrize("name", ["Suite", "TripletBias", "GLER"])
def test_groups_and_conditions(stand_in: Model, name: str, anonymous: Model) -> None:
    benchmark = mini(name, limit=3)
    assert anonymous(score_predictions(benchmark, answered(benchmark, stand_in))) == anonymous(benchmark(stand_in))


def test_probabilities_by_the_label_s_text(anonymous: Model) -> None:
    benchmark = mini()
    by_text = {
        one.id: {"probabilities": dict(zip(reversed(one.query.label_space), (0.1, 0.2, 0.7), strict=True))}
        for one in identified_queries(benchmark)
    }
    ran = benchmark(lambda prompt, label_space: [0.7, 0.2, 0.1])
    assert anonymous(score_predictions(benchmark, by_text)) == anonymous(ran)


def test_logits_that_look_like_probabilities_are_read_as_the_file_says(anonymous: Model) -> None:
    """The automatic reading would take them for probabilities; the signature names the forced one."""
    benchmark = mini()
    rows = {one.id: [0.5, 0.25, 0.25] for one in identified_queries(benchmark)}
    logits = score_predictions(benchmark, {key: {"logits": row} for key, row in rows.items()})
    plain = score_predictions(benchmark, {key: {"probabilities": row} for key, row in rows.items()})
    assert isinstance(logits, StaICC.Result)
    assert isinstance(plain, StaICC.Result)
    assert logits.signature.fields["outputs"] == "logits"
    assert "outputs" not in plain.signature.fields
    ran = mini(outputs="logits")(lambda prompt, label_space: [0.5, 0.25, 0.25])
    assert anonymous(logits) == anonymous(ran)
    assert benchmark[0].outputs == "auto"  # as it was


def test_outputs_are_kept_on_request(stand_in: Model) -> None:
    result = score_predictions(mini(), answered(mini(), stand_in), return_outputs=True)
    assert isinstance(result, StaICC.Result)
    assert result.outputs is not None
    assert len(result.outputs["mini"]) == 12


# -- what is refused


def test_missing_answers(stand_in: Model) -> None:
    predictions = answered(mini(), stand_in)
    first, second = list(predictions)[:2]
    del predictions[first], predictions[second]
    with pytest.raises(ArgumentError, match=f"2 of 12 queries have no prediction, the first is {first}"):
        score_predictions(mini(), predictions)
    partial = score_predictions(mini(), predictions, partial=True)
    assert isinstance(partial, StaICC.Result)
    assert not partial.complete
    assert partial.signature.fields["failed"] == "2"
    assert [one.reason for one in partial.details["mini"].failures] == ["no prediction was given"] * 2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"k": 2}, "with another prompt; was k, the template or the data another one?"),
        ({"limit": 9}, "there is no such row or repeat; was the limit another one?"),
    ],
)
def test_answers_to_other_prompts(stand_in: Model, changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(ArgumentError, match="ids belong to no query of this benchmark") as caught:
        score_predictions(mini(), answered(mini(**changed), stand_in))
    assert reason in str(caught.value)


def test_answers_to_another_benchmark(stand_in: Model) -> None:
    with pytest.raises(ArgumentError, match="this benchmark has Normal/mini"):
        score_predictions(mini(), answered(mini("GLER"), stand_in))
    with pytest.raises(ArgumentError, match="the first is what"):
        score_predictions(mini(), {"what": {"index": 0}})


def test_no_answers_at_all() -> None:
    with pytest.raises(ArgumentError, match="queries have no prediction"):
        score_predictions(mini(), {})
    with pytest.raises(ArgumentError, match="there are no predictions"):
        score_predictions(mini(), {}, partial=True)


def test_answers_of_several_kinds(stand_in: Model) -> None:
    predictions = answered(mini(), stand_in)
    predictions[next(iter(predictions))] = {"probabilities": [1, 0, 0]}
    with pytest.raises(OutputError, match=r"the predictions are of different kinds: probabilities \(.*\), logits"):
        score_predictions(mini(), predictions)
    mixed = answered(mini(), stand_in, "index")
    mixed[next(iter(mixed))] = {"label": "food"}
    assert score_predictions(mini(), mixed)  # an index and a text are both labels


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"logits": [1.0, 2.0]}, "got 2 values, expected 3"),
        ({"logits": [1.0, 2.0, float("nan")]}, "is nan, expected a finite number"),
        ({"logits": 3}, "logits must be a list with one number for each of 3 labels"),
        ({"logits": "food"}, "logits must be a list"),
        ({"logits": {"food": 1, "travel": 2}}, "the labels are .* but the prediction has"),
        ({"index": 3}, "expected 0 to 2"),
        ({"index": 1.0}, "index must be an integer"),
        ({"index": True}, "index must be an integer"),
        ({"index": "1"}, "index must be an integer"),
        ({"label": "sport"}, "which is no label"),
        ({"label": 1}, "label must be a label name"),
        ({"reply": 1}, "reply must be a text, not 1"),
        (None, "expected a dictionary with one of probabilities, .*, got None"),
        ({"index": 0, "label": "food"}, "expected exactly one of .*, got index, label"),
        ({"guess": 1}, "a prediction is one of probabilities, logits, index, label"),
    ],
)
def test_unfit_answers_name_their_id(answer: dict[str, Any] | None, message: str) -> None:
    keys = [one.id for one in identified_queries(mini())]
    with pytest.raises(OutputError, match=message) as caught:
        score_predictions(mini(), dict.fromkeys(keys, answer))
    assert str(caught.value).startswith(keys[0])


def test_replies_are_parsed(stand_in: Model, tmp_path: Path) -> None:
    labels = {query.id: query.query.label_space for query in identified_queries(mini())}
    by_index = answered(mini(), stand_in, "index")
    replies = {}
    for key, prediction in by_index.items():
        predicted, other = labels[key][prediction["index"]], labels[key][prediction["index"] - 1]
        replies[key] = {"reply": f"<think>Not {other}.</think> The answer is **{predicted}**."}
    expected, parsed = score_predictions(mini(), by_index), score_predictions(mini(), replies)
    assert dict(parsed) == dict(expected)
    assert "scoring:given;parser=3" in str(parsed.signature)
    assert "parser" not in str(expected.signature)

    path = tmp_path / "replies.csv"
    path.write_text("id,reply\n" + "".join(f'{key},"{value["reply"]}"\n' for key, value in replies.items()), "utf-8")
    assert score_predictions(mini(), read_predictions(path)).signature == parsed.signature

    key = list(replies)[1]
    replies[key] = {"reply": "\x1b[31mI cannot decide.\n"}
    with pytest.raises(
        OutputError, match=rf"1 of {len(replies)} replies are unparsed, the first is of {key}: .*no label"
    ):
        score_predictions(mini(), replies)
    partial = score_predictions(mini(), replies, partial=True)
    assert not partial.complete
    assert f"PARTIAL: 1 of {len(replies)} queries" in str(partial)
    assert "\x1b" not in str(partial)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "a", "index": 0}\n{"id": "a", "index": 0}', "line 2: the id a appears twice; .* in line 1 too"),
        ('{"index": 0}', "line 1: there is no id"),
        ('{"id": 3, "index": 0}', "line 1: there is no id"),
        ('{"id": "a"}', "line 1: no prediction for a; expected exactly one of probabilities, logits, index, label"),
        ('{"id": "a", "index": null}', "no prediction for a"),
        ('{"id": "a", "index": 0, "label": "x"}', r"2 predictions \(index, label\) for a"),
        ('{"id": "a", "index": 0', "line 1: this is not JSON"),
        ('\n\n["a"]', "line 3: expected a JSON object, found list"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(SchemaError, match=message):
        read_predictions(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,index\na,0\na,1\n", "line 3: the id a appears twice"),
        ("id,logits\na,0.1 0.9\n", "logits: this is not JSON"),
        ("id,index\na,one\n", "index: this is not JSON"),
        ("id,index\na,0,7\n", "line 2: more cells than the header has"),
        ("id,index\na,\n", "no prediction for a"),
        ("index\n0\n", "there is no id"),
    ],
)
def test_damaged_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(SchemaError, match=message):
        read_predictions(path)


def test_a_byte_order_mark_and_blank_lines_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "index": 1}\r\n\r\n')
    assert read_predictions(path) == {"a": {"index": 1}}


@settings(max_examples=60)
@given(st.dictionaries(st.text(min_size=1), st.lists(st.floats(allow_nan=False), min_size=1, max_size=4), max_size=6))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[float]]) -> None:
    path = tmp_path_factory.mktemp("p") / "p.jsonl"
    lines = [json.dumps({"id": key, "logits": row}) for key, row in rows.items()]
    path.write_text("\n".join(lines), "utf-8")
    assert read_predictions(path) == {key: {"logits": row} for key, row in rows.items()}


def test_tasks_are_not_written_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("mine")
    with pytest.raises(ArgumentError, match=r"tasks is a file; the tasks are several files, so give a folder$"):
        export_tasks(StaICC.Normal(datasets=["mini"], limit=1), tmp_path / "tasks")
    assert (tmp_path / "tasks").read_text() == "mine"


def own() -> Benchmark:
    rows = [(f"text {number}", number % 3) for number in range(120)]
    return Normal(k=1, datasets=[Dataset.from_rows(rows, name="own", label_space=["x", "y", "z"])], limit=4)


@pytest.mark.parametrize("benchmark", [mini, own])
@pytest.mark.parametrize("unparsed", [0, 1, 3])
def test_scored_replies_are_consistent(benchmark: Callable[[], Benchmark], unparsed: int, tmp_path: Path) -> None:
    replies = {
        query.id: {"reply": "I cannot say." if number < unparsed else query.query.label_space[number % 3]}
        for number, query in enumerate(identified_queries(benchmark()))
    }
    if unparsed == 3:
        replies.popitem()  # a query without a reply
    result = score_predictions(benchmark(), replies, partial=bool(unparsed))
    result.save(tmp_path / "result.json")
    for findings in (verify_file(tmp_path / "result.json"), verify_file(tmp_path / "result.json", benchmark())):
        assert [one.inconsistent for one in findings if not one.consistent] == []
        assert any("reply parser is recorded" in line for one in findings for line in one.not_checkable)


@pytest.mark.parametrize(
    "scoring", ["given;parser=", "given;parser=x", "given;parser=3;parser=3", ";parser=3", "other"]
)
def test_another_scoring_of_replies_is_inconsistent(scoring: str, tmp_path: Path) -> None:
    replies = {query.id: {"reply": query.query.label_space[0]} for query in identified_queries(mini())}
    path = tmp_path / "result.json"
    score_predictions(mini(), replies).save(path)
    assert path.read_text("utf-8").count("given;parser=3") >= 1
    path.write_text(path.read_text("utf-8").replace("given;parser=3", scoring), encoding="utf-8")
    findings = verify_file(path)
    assert any("signature / scoring" in line for one in findings for line in one.inconsistent)
