"""Flat records of results, runs taken apart, and citations."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Text
from StaICC.results import Result, ResultGroup, save_records
from StaICC.results.published import METHODS, find_work
from StaICC.results.result import score_records, split_runs


def test_scores_with_their_intervals(result: Result) -> None:
    records = {(one["dataset"], one["metric"]): one for one in score_records(result)}
    found = records["mini", "accuracy"]
    assert found["value"] == result.divided["mini"]["accuracy"]
    interval = result.details["mini"].intervals["accuracy"]
    assert (found["low"], found["high"], found["level"]) == (interval.low, interval.high, 0.95)
    assert records[None, "accuracy"]["value"] == result.averaged["accuracy"]
    assert found["signature"] == str(result.signature)


@pytest.mark.parametrize("reading", ["logits", "probabilities", "labels", "ambiguous"])
@pytest.mark.parametrize("name", ["Normal", "GLER", "DomainBias"])
def test_queries_have_the_numbers_of_the_run_and_of_its_file(name: str, reading: str, tmp_path: Path) -> None:
    def predicted(prompt: str, label_space: list[str]) -> Any:
        number = len(prompt) % 7
        if number == 3:
            raise ValueError("no prediction")
        rows = {"logits": [number - 5, -0.1, 2.0], "probabilities": [0.5, number / 16, 0.5 - number / 16]}
        return rows.get(reading, number % 3 if reading == "labels" else [number, 2, 1])

    benchmark = getattr(StaICC, name)(datasets=["mini"], limit=6)
    result = benchmark(predicted, on_error="collect", return_outputs=True)
    result.save(tmp_path / "r.json")
    queries = StaICC.load(tmp_path / "r.json").queries()
    assert queries == result.queries()
    assert result.outputs is not None
    for query, output in zip(queries, result.outputs["mini"], strict=True):
        places = ("condition", "query", "row", "repeat", "ground_truth", "prediction")
        assert [getattr(query, place) for place in places] == [output[place] for place in places]
        if reading == "labels" or query.prediction is None:
            assert query.scores is query.probabilities is None
        else:
            assert list(query.scores or ()) == output["predicted_probabilities"]
            assert (list(query.probabilities) if query.probabilities else None) == output["normalised_probabilities"]
        assert ("no prediction" in (query.reason or "")) is (query.prediction is None)
    details = StaICC.load(tmp_path / "r.json").details["mini"]  # type: ignore[union-attr]
    assert {query.condition for query in queries} == {record.name for record in details.conditions}
    assert [query.prediction for query in queries] == [
        one for record in details.conditions for one in record.predictions
    ]
    assert sum(query.prediction is None for query in queries) == details.failed > 0
    assert any(query.probabilities for query in queries) is (reading in ("logits", "probabilities"))


def test_replies_are_kept_with_how_they_ended(tmp_path: Path) -> None:
    """Also those without a label, whose beginning is the reason; a file has the labels and the reasons."""

    def reply(prompt: str, label_space: list[str]) -> str:
        text = "I cannot say" if len(prompt) % 3 == 0 else f"It is {label_space[len(prompt) % 3]}."
        return Text(text, "length" if len(prompt) % 3 == 1 else "stop")

    benchmark = StaICC.Normal(datasets=["mini"], limit=8, unparsed="wrong")
    result = benchmark(reply, return_outputs=True)
    prompts = benchmark[0].prompt_set()
    for query, prompt in zip(result.queries(), prompts, strict=True):
        written = reply(prompt, benchmark[0].get_label_space())
        assert (query.reply, query.finish_reason) == (str(written), written.finish_reason)  # type: ignore[attr-defined]
        assert (query.prediction is None) is ("I cannot say" in str(query.reason)) is (len(prompt) % 3 == 0)
    save_records(result, tmp_path / "q.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text("utf-8").splitlines()]
    assert [line["response"] for line in lines] == [query.reply for query in result.queries()]
    result.save(tmp_path / "r.json")
    without = [dataclasses.replace(query, reply=None, finish_reason=None) for query in result.queries()]
    assert StaICC.load(tmp_path / "r.json").queries() == without
    assert benchmark(reply).queries() == without


# -- runs


def test_a_suite_is_one_run_and_methods_are_a_run_each(result: Result, group: ResultGroup) -> None:
    methods = ResultGroup("methods", {"vanilla": group, "topk": group})
    found = split_runs({"a": group, "gpt2": methods, "other": result})
    assert list(found) == ["a", "gpt2: vanilla", "gpt2: topk", "other"]
    assert list(found["a"]) == list(group)
    with pytest.raises(ArgumentError, match="a: b holds two results of Normal"):
        split_runs({"a: b": result, "a": ResultGroup("methods", {"b": result, "c": result})})


# -- citations


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_cited(method: str) -> None:
    assert find_work(method).kind == "method"
    assert find_work(method.upper().replace(" ", "_")) == find_work(method)


def test_a_condition_has_its_own_queries_and_a_slope_no_baseline(partial: Result) -> None:
    records = {(one["dataset"], one["metric"]): one for one in score_records(partial)}
    details = partial.details["mini"]
    answered = {one.name: len(one.truth) - one.predictions.count(None) for one in details.conditions}
    assert sum(answered.values()) == details.scored < details.asked
    for name, count in answered.items():
        found = records["mini", f"{name}.accuracy"]
        assert (found["n"], found["majority"]) == (count, details.baselines[name].majority)
    slope = records[None, "accuracy"]
    assert (slope["n"], slope["random"], slope["majority"]) == (details.scored, None, None)


@pytest.mark.parametrize("policy", ["wrong", "excluded"])
@pytest.mark.parametrize("name", ["Normal", "Generalisation", "LongICL"])
def test_the_mean_of_correct_is_the_accuracy_also_with_replies_without_a_label(name: str, policy: Any) -> None:
    def model(prompt: str, label_space: list[str]) -> str:
        return "nothing" if prompt.count("e") % 3 == 0 else label_space[prompt.count("a") % 2]

    if name == "LongICL":
        rows = [(f"{'a' * (n % 7)} text {'e' * (n % 5)} {n}", n % 20) for n in range(400)]
        own = StaICC.Dataset.from_rows(rows, name="own", label_space=[f"kind {n}" for n in range(20)])
        result = StaICC.LongICL(datasets=[own], rounds=(1,), test_number=60, unparsed=policy)(model)
    else:
        result = getattr(StaICC, name)(datasets=["mini"], limit=9, unparsed=policy)(model)
    unparsed = [query for query in result.queries() if "nothing" in (query.reason or "")]
    assert len(unparsed) > 0
    assert {query.prediction for query in unparsed} == {None}
    assert {query.correct for query in unparsed} == {False if policy == "wrong" else None}
    correct = [query.correct for query in result.queries() if query.correct is not None]
    assert sum(correct) / len(correct) == pytest.approx(result.averaged.get("accuracy", result.averaged.get("1R")))
