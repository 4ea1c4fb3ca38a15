"""What stands beside the scores: counts, reasons, intervals, baselines, and their JSON form."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from typing import Any

import pytest

import StaICC
from StaICC.errors import SchemaError
from StaICC.results import DatasetDetails, Result, digest


def test_counts_and_truth(result: Result) -> None:
    details = result.details["mini"]
    experimentor = StaICC.Normal(datasets=["mini"], limit=6)[0]
    queries = experimentor.all_queries()
    (record,) = details.conditions
    assert (details.asked, details.scored, details.failed) == (12, 12, 0)
    assert details.distinct == len({query.prompt for query in queries})
    assert record.name == "normal"
    assert record.output == "logits"
    assert record.truth == tuple(query.label for query in queries)
    assert record.rows == tuple(query.row for query in queries)
    right = sum(truth == label for truth, label in zip(record.truth, record.predictions, strict=True))
    assert result["Averaged results"]["accuracy"] == right / 12


def test_prompts_are_pinned_as_a_whole_and_one_by_one(result: Result) -> None:
    prompts = StaICC.Normal(datasets=["mini"], limit=6)[0].prompt_set()
    details = result.details["mini"]
    assert details.prompts == digest(prompts)
    marks = base64.b64decode(details.query_digests)
    assert [marks[4 * place : 4 * place + 4] for place in range(12)] == [
        hashlib.sha256(prompt.encode()).digest()[:4] for prompt in prompts
    ]


def test_failures_are_named(partial: Result) -> None:
    details = partial.details["mini"]
    assert details.failed == len(details.failures) > 0
    assert details.asked == details.scored + details.failed
    by_name = {record.name: record for record in details.conditions}
    for failure in details.failures:
        assert by_name[failure.condition].predictions[failure.query] is None
        assert "got None" in failure.reason
    assert sum(record.predictions.count(None) for record in details.conditions) == details.failed


@pytest.mark.parametrize("name", ["Normal", "GLER", "ContextualBias", "TemplateSensitivity"])
def test_a_round_trip_through_json_changes_nothing(name: str, make_model: Any) -> None:
    details = getattr(StaICC, name)(datasets=["mini"], limit=5)(make_model).details["mini"]
    plain = json.loads(json.dumps(details.to_dict(), allow_nan=False))
    assert DatasetDetails.from_dict(plain) == details
    assert DatasetDetails.from_dict(details.to_dict()) == details


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(DatasetDetails)])
def test_a_missing_field_is_refused(result: Result, field: str) -> None:
    plain = result.details["mini"].to_dict()
    del plain[field]
    with pytest.raises(SchemaError, match=f"^the details of a data set cannot be read: .*{field}"):
        DatasetDetails.from_dict(plain)


def test_an_unknown_field_is_refused(result: Result) -> None:
    plain = {**result.details["mini"].to_dict(), "mood": "good"}
    with pytest.raises(SchemaError, match=r"^the details of a data set cannot be read: .*mood"):
        DatasetDetails.from_dict(plain)


def test_intervals_contain_their_figure(result: Result) -> None:
    details = result.details["mini"]
    assert "macro_F1" not in details.intervals
    assert details.missing["interval of macro_F1"] == "3 of 3 labels have fewer than 5 test rows"
    for name, value in result["Averaged results"].items():
        if name == "macro_F1":
            continue
        interval = details.intervals[name]
        assert interval.low <= value <= interval.high, name
        assert interval.level == 0.95


def test_baselines_of_guessing(make_model: Any) -> None:
    from StaICC.benchmarks import Statistics

    one = StaICC.Normal(datasets=["mini"])(make_model).details["mini"].baselines["normal"]
    ten = (
        StaICC.Normal(datasets=["mini"], statistics=Statistics(tried=10))(make_model)
        .details["mini"]
        .baselines["normal"]
    )
    assert (one.labels, one.tried, ten.tried) == (3, 1, 10)
    assert one.uniform == pytest.approx(1 / 3)
    assert one.max_random == pytest.approx(1 / 3)
    assert ten.max_random > one.max_random
    assert ten.p_value == pytest.approx(1 - (1 - one.p_value) ** 10, rel=1e-9)


def test_every_accuracy_of_gler_has_its_baseline(make_model: Any) -> None:
    details = StaICC.GLER(datasets=["mini"], limit=5)(make_model).details["mini"]
    assert list(details.baselines) == ["0", "1", "2", "3", "4"]
