"""What a saved result keeps for figures: confidence bins and label texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import StaICC
from StaICC.metrics.classification import confidence_bins
from StaICC.results import Result


def softmaxed(make_model: Callable[..., Any]) -> Callable[..., list[float]]:
    from StaICC.metrics import softmax

    return lambda prompt, label_space: softmax(make_model(prompt, label_space))


def test_bins_are_those_of_the_answers(make_model: Callable[..., Any]) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=8)(softmaxed(make_model), return_outputs=True)
    assert result.outputs is not None
    records = result.outputs["mini"]
    rows = [record["normalised_probabilities"] for record in records]
    expected = confidence_bins([record["ground_truth"] for record in records], rows)
    assert result.details["mini"].conditions[0].calibration == expected


def test_the_calibration_error_follows_from_the_file_alone(make_model: Callable[..., Any]) -> None:
    result = StaICC.Normal(datasets=["mini"])(make_model)
    loaded = Result.from_dict(json.loads(json.dumps(result.to_dict())))
    bins = loaded.details["mini"].conditions[0].calibration
    assert bins is not None
    total = sum(one.queries for one in bins)
    error = sum(abs(one.correct - one.confidence) for one in bins) / total
    assert error == pytest.approx(result.divided["mini"]["expected_calibration_error_1"], abs=1e-15)
    assert sum(one.correct for one in bins) / total == result.divided["mini"]["accuracy"]
