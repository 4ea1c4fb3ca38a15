"""The JSON Schema of files of results accepts every kind of file that is written, and refuses what reading refuses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.builtin import BENCHMARKS
from StaICC.benchmarks.exchange import identified_queries, score_predictions
from StaICC.benchmarks.race import race
from StaICC.cli import main
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import SchemaError, UnknownNameError
from StaICC.logs.reading import read_logs
from StaICC.methods.many_shot import run_many_shot
from StaICC.methods.run import Method, run_all
from StaICC.results.json_schema import result_schema
from StaICC.results.result import result_from_dict

jsonschema = pytest.importorskip("jsonschema")


def probabilities(prompt: str | list[str], label_space: list[str]) -> list[float]:
    """Return probabilities that depend on the length of the prompt."""
    weights = [1.0 + (len("".join(prompt)) + place) % 5 for place in range(len(label_space))]
    return [weight / sum(weights) for weight in weights]


def failing(prompt: str, label_space: list[str]) -> list[float]:
    """Fail on some prompts."""
    if len(prompt) % 3 == 0:
        raise ValueError("no prediction")
    return probabilities(prompt, label_space)


def own_rows() -> list[tuple[str, str]]:
    """Return the rows of a data set of the user's own, with two labels."""
    return [(f"a text of {row} words", "yes" if row % 3 else "no") for row in range(80)]


def own_dataset(name: str) -> Dataset:
    return Dataset.from_rows(own_rows(), name=name, label_space=["no", "yes"])


def from_file(folder: Path) -> Any:
    path = folder / "own.csv"
    lines = [f"{text},{label}" for text, label in own_rows()]
    path.write_text("\n".join(["text,label", *lines]), "utf-8")
    return StaICC.Normal(datasets=[Dataset.from_file(path, "text", "label")], limit=6)(probabilities)


def long_icl(**settings: Any) -> Any:
    """Return the result of LongICL on a data set with 22 labels."""
    labels = [f"kind {letter}" for letter in "abcdefghijklmnopqrstuvw"]
    rows = [(f"text {turn} of {label}", label) for turn in range(16) for label in labels]
    own = Dataset.from_rows(rows, name="many", label_space=labels, split=SplitSizes(20, 230, 115))
    benchmark = StaICC.LongICL(datasets=[own], limit=20, **settings)
    return benchmark(lambda prompt, label_space: "kind a" if len(prompt) % 3 else "?")


def of_a_log(folder: Path) -> Any:
    path = folder / "scores.csv"
    path.write_text("row,acc,points\na,1,2.5\nb,0,\nc,1,4\n", "utf-8")
    (result,) = read_logs(path, value_range={"points": (0, 5)}).values()
    return result


def given_in_part(folder: Path) -> Any:
    benchmark = StaICC.Normal(datasets=["mini"], limit=6, unparsed="wrong")
    queries = list(identified_queries(benchmark))
    replies = {query.id: {"reply": "food" if query.query.row % 2 else "no idea"} for query in queries[2:]}
    return score_predictions(benchmark, replies, partial=True, model_name="m")


def brier(truth: list[int], rows: list[list[float]]) -> float:
    return sum((1 - row[label]) ** 2 for label, row in zip(truth, rows, strict=True)) / len(truth)


def many_shot(folder: Path) -> Any:
    method = Method("vanilla", probabilities)
    return run_many_shot(method, lambda k: StaICC.Normal(k, datasets=["mini"], limit=4), [1, 2])


def mini(benchmark: str, **settings: Any) -> Any:
    return getattr(StaICC, benchmark)(datasets=["mini"], limit=4, **settings)


KINDS: dict[str, Callable[[Path], Any]] = {
    "methods": lambda folder: run_all(probabilities, mini("Normal"), methods=["vanilla", "domain-calibration"]),
    "k": many_shot,
    "race": lambda folder: race(StaICC.Normal(datasets=["mini"]), probabilities, lambda prompt, label_space: 0),
    "precision": lambda folder: StaICC.Normal(datasets=["mini"])(probabilities, precision=0.3),
    "failed queries": lambda folder: mini("Normal")(failing, on_error="collect"),
    "failed queries of all benchmarks": lambda folder: mini("Suite")(failing, on_error="collect"),
    "no prediction": lambda folder: mini("Normal")(lambda prompt, label_space: 1 / 0, on_error="collect"),
    "replies in part": given_in_part,
    "metrics of 0.1.1": lambda folder: mini("Suite", metrics="0.1.1")(probabilities),
    "metric of the user": lambda folder: mini("Normal", metrics={"brier": brier})(probabilities),
    "noisy channel": lambda folder: mini("Normal", noisy_channel=True)(probabilities),
    "labels": lambda folder: mini("Diagnosis")(lambda prompt, label_space: label_space[-1]),
    "data of the user": lambda folder: StaICC.Normal(datasets=[own_dataset("own"), "mini"], limit=6)(probabilities),
    "file of the user": from_file,
    "log of another harness": of_a_log,
    "LongICL": lambda folder: long_icl(rounds=[1, 2]),
    "an experiment of LongICL": lambda folder: long_icl(experiment="position"),
    "Suite": lambda folder: mini("Suite")(probabilities),
    "Diagnosis": lambda folder: mini("Diagnosis")(probabilities),
    "Generalisation": lambda folder: StaICC.Generalisation(datasets=["mini"])(probabilities),
}


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def saved(result: Any, folder: Path) -> Any:
    """Return the JSON values of the file of a result."""
    path = folder / "result.json"
    result.save(path)
    return json.loads(path.read_text("utf-8"))


def errors_of(validator: Any, data: Any) -> list[str]:
    return [f"{list(error.path)}: {error.message:.200}" for error in validator.iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_accepts_every_kind_of_file(validator: Any, kind: str, tmp_path: Path) -> None:
    data = saved(KINDS[kind](tmp_path), tmp_path)
    assert errors_of(validator, data) == []


@pytest.mark.parametrize("name", [listed.name for listed in BENCHMARKS.listing()])
def test_the_schema_accepts_the_results_of_every_benchmark(validator: Any, name: str, tmp_path: Path) -> None:
    benchmark_class = BENCHMARKS.find(name).value
    try:
        benchmark = benchmark_class(datasets=["mini"], limit=4)
    except UnknownNameError:
        pytest.skip(f"{name} cannot run on the installed data set mini; the test of every kind of file has its results")
    assert errors_of(validator, saved(benchmark(probabilities), tmp_path)) == []


def _set(data: Any, path: list[Any], value: Any) -> Any:
    """Return a copy with another value at a path."""
    edited = copy.deepcopy(data)
    parent = edited
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return edited


CONDITION = ["details", "mini", "conditions", 0]
EDITS: dict[str, tuple[list[Any], Any]] = {
    "another schema": (["schema"], 1),
    "another kind": (["kind"], "table"),
    "a text as score": (["Divided results", "mini", "accuracy"], "0.5"),
    "a text as mean": (["Averaged results", "accuracy"], "0.5"),
    "a text as prediction": ([*CONDITION, "predictions", 0], "food"),
    "a number as label name": (["details", "mini", "labels", 0], 5),
    "an unknown field of the details": (["details", "mini", "extra"], 1),
    "an unknown field of the signature": (["signature", "colour"], "red"),
    "an interval that is a list": (["details", "mini", "intervals", "accuracy"], [0, 1]),
    "a text as calibration bin": ([*CONDITION, "calibration"], [["0", 0.0, 0]]),
    "a bin with two numbers": ([*CONDITION, "calibration"], [[0, 0.0]]),
    "a name that is a number": (["provenance", "predictors", 0, "name"], 5),
    "a warning that is a number": (["warnings"], [1]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_the_schema_and_reading_refuse_the_same_edits(validator: Any, edit: str, tmp_path: Path) -> None:
    data = saved(mini("Normal")(probabilities), tmp_path)
    edited = _set(data, *EDITS[edit])
    assert errors_of(validator, edited)
    with pytest.raises(SchemaError):
        result_from_dict(edited, "result.json")


@pytest.mark.parametrize("key", ["signature", "provenance", "details", "means", "arguments", "Divided results"])
def test_the_schema_and_reading_need_the_same_fields(validator: Any, key: str, tmp_path: Path) -> None:
    data = saved(mini("Normal")(probabilities), tmp_path)
    del data[key]
    assert errors_of(validator, data)
    with pytest.raises(SchemaError):
        result_from_dict(data, "result.json")


def test_a_damaged_part_of_a_group_is_refused(validator: Any, tmp_path: Path) -> None:
    data = saved(mini("Suite")(probabilities), tmp_path)
    assert errors_of(validator, _set(data, ["parts", "Normal", "timing"], "soon"))


def test_fields_have_the_descriptions_of_their_docstrings() -> None:
    definitions = result_schema()["$defs"]
    assert definitions["ConditionRecord"]["properties"]["truth"]["description"] == "True label index of each query."
    for name, field in definitions["result"]["properties"].items():
        assert name in ("schema", "kind") or field["description"]
    assert "`" not in json.dumps(definitions)  # references and code of docstrings are plain text


def test_the_command_writes_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "result.schema.json"
    assert main(["export", "schema", "-o", str(path)]) == 0
    assert json.loads(path.read_text("utf-8")) == result_schema()
