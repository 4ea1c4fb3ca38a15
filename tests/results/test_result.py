"""Results: documented keys, to JSON and back, whole or not at all."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.errors import SchemaError, UnknownKeyError
from StaICC.results import AVERAGED, DIVIDED, Result, ResultGroup, Signature, load, save_records
from StaICC.version import RESULT_SCHEMA


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_in(item)]
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, float) else []


# -- a dictionary that knows more


def test_the_documented_keys(result: Result) -> None:
    assert (DIVIDED, AVERAGED) == ("Divided results", "Averaged results")
    assert list(result) == [DIVIDED, AVERAGED]
    assert result[DIVIDED] == result.divided
    assert result[AVERAGED] == result.averaged
    assert isinstance(result, dict)
    assert json.loads(json.dumps(result)) == dict(result)


@pytest.mark.parametrize("key", ["mine", 7, None, ("a", 1)])
@pytest.mark.parametrize("value", [3, None, 0.5, object(), "text", {"missing": 1}, ["missing"]])
def test_a_missing_key_after_a_key_of_the_users_own(result: Result, key: Any, value: Any) -> None:
    changed = copy.deepcopy(result)
    group = ResultGroup("all", {"Normal": result})
    for holder in (changed, changed.divided, changed.averaged, changed.divided["mini"], group):
        holder[key] = value
        with pytest.raises(UnknownKeyError, match="missing"):
            holder["missing"]
    assert changed[key] is value
    with pytest.raises(UnknownKeyError, match=r"Use result\[.Averaged results.\]\[.accuracy.\]"):
        changed["accuracy"]


def test_equality_looks_at_everything_but_the_time(result: Result, make_model: Any) -> None:
    again = StaICC.Normal(datasets=["mini"], limit=6)(make_model)
    again.timing = {"seconds": 1e9}
    assert again == result
    assert (again != result) is False
    assert StaICC.Normal(datasets=["mini"], limit=5)(make_model) != result
    other = copy.deepcopy(result)
    other.divided["mini"]["accuracy"] = 0.123
    assert other != result
    other = copy.deepcopy(result)
    other.signature = Signature({**result.signature.fields, "k": "5"})
    assert other != result
    assert result == dict(result)
    assert result != {}


def test_results_have_no_hash(result: Result) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_equal(result: Result, group: ResultGroup, copied: Callable[[Any], Any]) -> None:
    assert copied(result) == result
    assert copied(result).signature == result.signature
    assert copied(group) == group
    assert copied(group).name == "Suite"


# -- to JSON and back


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Normal", {}),
        ("Normal", {"metrics": "0.1.1"}),
        ("Normal", {"noisy_channel": True}),
        ("ContextualBias", {}),
        ("DomainBias", {"domain_query_length": 4}),
        ("PosteriorBias", {}),
        ("GLER", {}),
        ("TemplateSensitivity", {}),
        ("DemonstrationSensitivity", {}),
        ("TripletBias", {}),
        ("Suite", {}),
    ],
)
def test_what_is_saved_is_loaded(
    tmp_path: Path, name: str, arguments: dict[str, Any], make_model: Any, file_name: Any
) -> None:
    original = getattr(StaICC, name)(datasets=["mini"], limit=4, **arguments)(make_model)
    path = tmp_path / file_name("result ä.json")
    original.save(path)
    loaded = load(path)
    assert loaded == original
    assert type(loaded) is type(original)
    assert loaded.to_dict() == original.to_dict()
    assert str(loaded) == str(original)
    assert loaded._repr_html_() == original._repr_html_()
    assert loaded.signature == original.signature
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_names_of_any_script_are_kept(tmp_path: Path, make_model: Any) -> None:
    from StaICC.datasets import Dataset

    rows = [(f"текст {row} 🙂", row % 2) for row in range(30)]
    dataset = Dataset.from_rows(rows, name='наб"ор\n|', label_space=["да", "нет"])
    original = StaICC.Normal(datasets=[dataset])(make_model)
    original.save(tmp_path / "result.json")
    assert load(tmp_path / "result.json") == original


def test_no_nan_reaches_json(tmp_path: Path, make_model: Any) -> None:
    """Undefined is None with a reason, not NaN and not zero."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    benchmark[0].add_metric("odd", lambda truth, rows: float("nan"))
    original = benchmark(make_model)
    assert original[AVERAGED]["odd"] is None
    assert original.details["mini"].missing["odd"] == "the metric returned nan"
    original.save(tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text("utf-8")
    assert not re.search(r"\b(NaN|-?Infinity)\b", text)
    assert load(tmp_path / "result.json") == original


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_put_in_by_hand_is_refused(tmp_path: Path, result: Result, value: float) -> None:
    result.divided["mini"]["accuracy"] = value
    with pytest.raises(ValueError, match="not JSON compliant"):
        result.save(tmp_path / "result.json")
    assert list(tmp_path.iterdir()) == []


# -- whole or not at all


def test_saving_leaves_the_old_file_if_it_fails(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        result.save(path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# -- files that are no result

BAD_FILES = [
    ("", "expected JSON, found nothing"),
    ("{", "this is not JSON (Expecting property name"),
    ("[]", "this is no saved result; expected JSON with 'kind': 'result' or 'group'"),
    ("3", "this is no saved result; expected JSON with 'kind': 'result' or 'group'"),
    ("{}", "this is no saved result; expected JSON with 'kind': 'result' or 'group'"),
    ('{"kind": "table"}', "this is no saved result; expected JSON with 'kind': 'result' or 'group'"),
    ('{"kind": "result"}', "this is no saved result (schema None, kind 'result')"),
    ('{"kind": "result", "schema": "1"}', "this is no saved result (schema '1', kind 'result')"),
    ('{"kind": "result", "schema": 1}', "the result cannot be read: the field 'benchmark' is missing"),
    ('{"kind": "group", "schema": 1}', "the group's parts must be an object"),
    ('{"kind": "result", "schema": NaN}', "this is not JSON (NaN is not a JSON number)"),
    ('{"kind": "result", "schema": -Infinity}', "this is not JSON (-Infinity is not a JSON number)"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES)
def test_files_that_are_no_result(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        SchemaError,
        match=r"result\.json: this is not text in UTF-8 \(invalid start byte at byte 0\)$",
    ):
        load(path)


@pytest.mark.parametrize("kind", ["result", "group"])
def test_a_newer_schema_is_refused_politely(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"schema": RESULT_SCHEMA + 1, "kind": kind, "new": []}))
    message = (
        f"the file has result schema {RESULT_SCHEMA + 1}, this version of StaICC reads up to {RESULT_SCHEMA}. "
        "Update StaICC"
    )
    with pytest.raises(SchemaError, match=re.escape(message)):
        load(path)


DOCUMENT = StaICC.GLER(datasets=["mini"], limit=2)(lambda prompt, label_space: [0.5, 0.2, 0.3]).to_dict()
DOCUMENT = json.loads(json.dumps(DOCUMENT))


# -- answers of each query, as JSON Lines


def test_records_of_a_result(tmp_path: Path, partial: Result) -> None:
    path = tmp_path / "records.jsonl"
    save_records(partial, path)
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert len(records) == partial.details["mini"].asked
    assert records[0].keys() == {
        "benchmark",
        "model",
        "method",
        "dataset",
        "condition",
        "query",
        "row",
        "repeat",
        "ground_truth",
        "prediction",
        "predicted_probabilities",
        "normalised_probabilities",
    }
    assert {record["benchmark"] for record in records} == {"GLER"}
    assert [record["condition"] for record in records] == [str(step) for step in range(5) for _ in range(12)]
    failed = [record for record in records if record["prediction"] is None]
    assert len(failed) == partial.details["mini"].failed
    assert all(record["predicted_probabilities"] is record["normalised_probabilities"] is None for record in failed)


def test_records_of_a_label_that_is_ruled_out(tmp_path: Path) -> None:
    ruled_out = [2.0, float("-inf"), 2.0]
    result = StaICC.Normal(datasets=["mini"], limit=1)(lambda prompt, label_space: ruled_out, return_outputs=True)
    save_records(result, tmp_path / "records.jsonl")
    first = json.loads((tmp_path / "records.jsonl").read_text("utf-8").splitlines()[0])
    assert first["predicted_probabilities"] == [2.0, "-inf", 2.0]
    assert first["normalised_probabilities"] == [0.5, 0.0, 0.5]


# -- groups


def test_a_group_is_a_dictionary_of_results(group: ResultGroup) -> None:
    assert [part.benchmark for part in group.results()] == list(group)
    assert group.complete
    assert group.signature == {name: part.signature for name, part in group.items()}
    assert str(group) == "\n\n".join(str(part) for part in group.values())
    nested = ResultGroup("outer", {"inner": group, "alone": group["Normal"]})
    assert list(nested.results()) == [*group.values(), group["Normal"]]
    assert nested.complete


def test_nested_groups_are_saved(tmp_path: Path, group: ResultGroup) -> None:
    nested = ResultGroup("outer", {"inner": group, "alone": group["Normal"]})
    nested.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert loaded == nested
    assert isinstance(loaded, ResultGroup)
    assert loaded.name == "outer"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("environment", []),
        ("Averaged results", 1),
        ("warnings", "abc"),
        ("with_divided", None),
        ("details", ["mini"]),
        ("means", 3),
        ("provenance", {"predictors": [{"name": 7}], "method": None, "failures": None}),
    ],
)
def test_a_field_of_another_type_is_named_with_its_value(result: Result, key: str, value: Any) -> None:
    with pytest.raises(SchemaError, match=f"the result's {key}") as caught:
        Result.from_dict({**result.to_dict(), key: value})
    assert repr(value) in str(caught.value) or "identity" in str(caught.value)


def test_a_value_in_a_list_of_a_record_is_named_with_its_place(result: Result) -> None:
    plain = result.to_dict()
    plain["details"]["mini"]["conditions"][0]["truth"][3] = "x"
    with pytest.raises(SchemaError, match="details, mini, conditions, item 0, truth, item 3 must be a whole number"):
        Result.from_dict(plain)


def places_of(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value, of lists the first item only."""
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_of(item, (*here, key))


def test_a_value_of_another_type_is_refused_or_does_no_harm(tmp_path: Path) -> None:
    whole = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2]).to_dict()
    path = tmp_path / "result.json"
    refused = 0
    for place in places_of(whole):
        for other in (None, [], {}, "x", 5, True, [1, "a"]):
            changed = inner = copy.deepcopy(whole)
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = other
            path.write_text(json.dumps(changed), encoding="utf-8")
            try:
                result = load(path)
            except SchemaError:
                refused += 1
            else:
                assert str(result)
                assert result._repr_html_()
                assert result.to_dict()
    assert refused > 150
