"""Flat records of results, runs taken apart, and citations."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

import StaICC
from StaICC.errors import ArgumentError, MissingDependencyError, UnknownNameError
from StaICC.results import Result, ResultGroup
from StaICC.results.citations import find_work, works
from StaICC.results.published import METHODS
from StaICC.results.result import query_records, score_records
from StaICC.results.runs import split_runs


def test_scores_with_their_intervals(result: Result) -> None:
    records = {(one["dataset"], one["metric"]): one for one in score_records(result)}
    found = records["mini", "accuracy"]
    assert found["value"] == result.divided["mini"]["accuracy"]
    interval = result.details["mini"].intervals["accuracy"]
    assert (found["low"], found["high"], found["level"]) == (interval.low, interval.high, 0.95)
    assert records[None, "accuracy"]["value"] == result.averaged["accuracy"]
    assert found["signature"] == str(result.signature)


def test_nested_figures_have_dotted_names(group: ResultGroup) -> None:
    gler = {one["metric"] for one in score_records(group["GLER"]) if one["dataset"] == "mini"}
    assert {"0.accuracy", "4.macro_F1", "sensitivity.accuracy", "sensitivity.accuracy (intercept)"} <= gler
    bias = {one["metric"] for one in score_records(group["Contextual_bias"]) if one["dataset"] == "mini"}
    assert {"entropy", "distribution.0", "distribution.2"} <= bias


def test_one_record_for_each_query(partial: Result) -> None:
    records = list(query_records(partial))
    details = partial.details["mini"]
    assert len(records) == details.asked
    assert sum(one["prediction"] is None for one in records) == details.failed > 0
    assert all(one["correct"] is None for one in records if one["prediction"] is None)
    assert {one["ground_truth_label"] for one in records} <= {"food", "travel", "weather"}
    answered = [one for one in records if one["condition"] == "0" and one["correct"] is not None]
    assert sum(one["correct"] for one in answered) / len(answered) == partial.divided["mini"]["0"]["accuracy"]


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


def test_every_entry_is_bibtex() -> None:
    for work in works():
        assert work.bibtex.count("{") == work.bibtex.count("}")
        assert re.fullmatch(r"@(article|inproceedings)\{\w+,\n(  \w+ += \{.*\},\n)+  \w+ += \{.*\}\n\}", work.bibtex)
        assert {"title", "author", "year"} <= set(re.findall(r"^  (\w+) +=", work.bibtex, re.MULTILINE))


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'Batch Calibration'"):
        find_work("bach calibration")


def test_scores_have_their_number_of_queries_and_baselines(result: Result) -> None:
    records = {(one["dataset"], one["metric"]): one for one in score_records(result)}
    details = result.details["mini"]
    for place, bases in (("mini", details.baselines), (None, result.means.baselines)):
        found, base = records[place, "accuracy"], next(iter(bases.values()), None)
        assert found["n"] == details.scored
        assert (found["random"], found["majority"]) == ((base.max_random, base.majority) if base else (None, None))
    assert records["mini", "macro_F1"]["random"] is None
    assert records["mini", "accuracy"]["majority"] is not None


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


def test_a_round_has_its_own_queries() -> None:
    rows = [(f"text {number}", number % 20) for number in range(400)]
    own = StaICC.Dataset.from_rows(rows, name="own", label_space=[f"kind {n}" for n in range(20)])

    def model(prompt: str, label_space: list[str]) -> Any:
        return "none" if prompt.count("text: ") == 21 and "3" in prompt[-30:] else 0

    for policy in ("wrong", "excluded"):
        result = StaICC.LongICL(datasets=[own], rounds=(1, 2), test_number=9, unparsed=policy)(model)
        records = {(one["dataset"], one["metric"]): one for one in score_records(result)}
        unparsed = sum(one.condition == "1R" for one in result.details["own"].unparsed)
        assert unparsed > 0
        for place in ("own", None):
            assert records[place, "1R"]["n"] == 9 - unparsed * (policy == "excluded")
            assert records[place, "2R"]["n"] == 9


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_tidy_data_frame_of_every_score(package: str, group: ResultGroup, monkeypatch: Any) -> None:
    pytest.importorskip(package)
    frame = getattr(group, f"to_{package}")()
    records = list(score_records(group))
    assert list(frame.columns) == list(records[0])
    rows = frame.to_dict("records") if package == "pandas" else frame.to_dicts()
    for row, record in zip(rows, records, strict=True):
        for key, value in record.items():
            assert row[key] == value or (value is None and (row[key] is None or row[key] != row[key])), (key, row[key])
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match="a data frame"):
        getattr(group["Normal"], f"to_{package}")()
