"""Results: documented keys, details, to JSON and back, whole or not at all."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.datasets import Dataset
from StaICC.errors import SchemaError
from StaICC.metrics import softmax
from StaICC.metrics.classification import confidence_bins
from StaICC.results import AVERAGED, Result, ResultGroup, Signature, digest, load
from StaICC.results.result import result_from_dict

# -- a dictionary that knows more


def test_equality_looks_at_everything_but_the_time(result: Result, make_model: Any) -> None:
    again = StaICC.Normal(datasets=["mini"], limit=6)(make_model)
    again.timing = {"seconds": 1e9}
    assert again == result
    assert (again != result) is False
    others = [StaICC.Normal(datasets=["mini"], limit=5)(make_model), copy.deepcopy(result), copy.deepcopy(result)]
    others[1].divided["mini"]["accuracy"] = 0.123
    others[2].signature = Signature({**result.signature.fields, "k": "5"})
    assert all(other != result for other in [*others, {}])


# -- details


def test_the_details_are_those_of_the_queries(result: Result) -> None:
    details, experimentor = result.details["mini"], StaICC.Normal(datasets=["mini"], limit=6)[0]
    queries, prompts = experimentor.all_queries(), experimentor.prompt_set()
    (record,) = details.conditions
    assert (details.asked, details.scored, details.failed) == (12, 12, 0)
    assert details.distinct == len({query.prompt for query in queries})
    assert (record.name, record.output) == ("normal", "logits")
    assert record.truth == tuple(query.label for query in queries)
    assert record.rows == tuple(query.row for query in queries)
    right = sum(truth == label for truth, label in zip(record.truth, record.predictions, strict=True))
    assert result.averaged["accuracy"] == right / 12
    assert details.prompts == digest(prompts)
    marks = b"".join(hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts)
    assert base64.b64decode(details.query_digests) == marks
    assert details.missing["interval of macro_F1"] == "3 of 3 labels have fewer than 5 test rows"
    for name, value in result.averaged.items():
        if name != "macro_F1":
            assert details.intervals[name].low <= value <= details.intervals[name].high, name
            assert details.intervals[name].level == 0.95
    assert "macro_F1" not in details.intervals


def test_the_calibration_error_follows_from_the_file_alone(make_model: Callable[..., Any]) -> None:
    run = StaICC.Normal(datasets=["mini"])
    result = run(lambda prompt, label_space: softmax(make_model(prompt, label_space)), return_outputs=True)
    assert result.outputs is not None
    rows = [record["normalised_probabilities"] for record in result.outputs["mini"]]
    expected = confidence_bins([record["ground_truth"] for record in result.outputs["mini"]], rows)
    bins = Result.from_dict(json.loads(json.dumps(result.to_dict()))).details["mini"].conditions[0].calibration
    assert bins == expected
    total = sum(one.queries for one in bins)
    error = sum(abs(one.correct - one.confidence) for one in bins) / total
    assert error == pytest.approx(result.divided["mini"]["expected_calibration_error_1"], abs=1e-15)
    assert sum(one.correct for one in bins) / total == result.divided["mini"]["accuracy"]


# -- to JSON and back


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Normal", {}),
        ("Normal", {"metrics": "0.1.1"}),
        ("Normal", {"noisy_channel": True}),
        ("Suite", {}),
    ],
)
def test_what_is_saved_is_loaded(
    tmp_path: Path, name: str, arguments: dict[str, Any], make_model: Any, file_name: Any
) -> None:
    labels = [f"текст {row} 🙂" for row in range(30)]
    own = Dataset.from_rows(
        [(text, row % 2) for row, text in enumerate(labels)], name='наб"ор\n|', label_space=["да", "нет"]
    )
    datasets = ["mini", *([own] if name == "Normal" else [])]
    original = getattr(StaICC, name)(datasets=datasets, limit=4, **arguments)(make_model)
    path = tmp_path / file_name("result ä.json")
    original.save(path)
    loaded = load(path)
    assert loaded == original
    assert type(loaded) is type(original)
    assert loaded.to_dict() == original.to_dict()
    assert str(loaded) == str(original)
    assert loaded._repr_html_() == original._repr_html_()
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_no_nan_reaches_json(tmp_path: Path, make_model: Any) -> None:
    """Undefined is None with a reason, not NaN and not zero."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=4)
    benchmark[0].add_metric("odd", lambda truth, rows: float("nan"))
    original = benchmark(make_model)
    assert original[AVERAGED]["odd"] is None
    assert original.details["mini"].missing["odd"] == "the metric returned nan"
    original.save(tmp_path / "result.json")
    assert not re.search(r"\b(NaN|-?Infinity)\b", (tmp_path / "result.json").read_text("utf-8"))
    assert load(tmp_path / "result.json") == original
    for value in (float("nan"), float("inf"), -float("inf")):
        original.divided["mini"]["accuracy"] = value
        with pytest.raises(ValueError, match="not JSON compliant"):
            original.save(tmp_path / "other.json")
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


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


def places_of(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value, of lists the first item only."""
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_of(item, (*here, key))


def test_a_value_of_another_type_is_refused_or_does_no_harm() -> None:
    whole = StaICC.Normal(datasets=["mini"], limit=3)(lambda prompt, label_space: [0.5, 0.3, 0.2]).to_dict()
    refused = 0
    for place in places_of(whole):
        for other in (None, {}, "x", 5, [1, "a"]):
            changed = inner = copy.deepcopy(whole)
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = other
            try:
                result = result_from_dict(json.loads(json.dumps(changed)), "file")
            except SchemaError:
                refused += 1
            else:
                assert str(result)
                assert result._repr_html_()
                assert result.to_dict()
    assert refused > 120


# -- groups


def test_a_group_is_a_dictionary_of_results(tmp_path: Path, group: ResultGroup) -> None:
    assert [part.benchmark for part in group.results()] == list(group)
    assert group.signature == {name: part.signature for name, part in group.items()}
    printed = str(group)
    assert all(line in printed for part in group.values() for line in str(part).splitlines())
    nested = ResultGroup("outer", {"inner": group, "alone": group["Normal"]})
    assert list(nested.results()) == [*group.values(), group["Normal"]]
    assert nested.complete
    nested.save(tmp_path / "result.json")
    loaded = load(tmp_path / "result.json")
    assert isinstance(loaded, ResultGroup)
    assert (loaded, loaded.name) == (nested, "outer")
