"""Predicting queries of a saved result again: what differs is contradicted, what cannot be predicted is unchecked."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.race import race
from StaICC.benchmarks.verify import Contradicted, Recomputed, Rerun, Unchecked, Verification, status_of, verify
from StaICC.inference.identity import Identity, difference
from StaICC.methods.run import Method
from StaICC.results import Result
from StaICC.results.provenance import pack_scores, unpack_scores

FEW: dict[str, Any] = {"datasets": ["mini"], "limit": 4}


def model(prompt: Any, label_space: list[str]) -> list[float]:
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


class Kernel:
    """A model with a declared tolerance, whose scores can be shifted."""

    def __init__(self, shift: float = 0.0, tolerance: float | None = 1e-6) -> None:
        self.shift = shift
        self.recheck_tolerance = tolerance
        self.prompts: list[Any] = []

    def identity(self) -> Identity:
        return Identity({"model": "shifted"})

    def __call__(self, prompt: Any, label_space: list[str]) -> list[float]:
        self.prompts.append(prompt)
        first, *rest = model(prompt, label_space)
        return [first + self.shift, *rest]


def rerun(result: Any, function: Any, queries: int = 20, benchmark: Any = None) -> Verification:
    *_, last = verify(result, benchmark, rerun=Rerun(function, queries, 3))
    return last


@pytest.mark.parametrize(
    "name", ["Normal", "ContextualBias", "GLER", "TemplateSensitivity", "Suite", "Diagnosis", "TripletBias"]
)
def test_the_same_model_predicts_the_same(name: str) -> None:
    benchmark = getattr(StaICC, name)(**FEW)
    found = verify(benchmark(model), rerun=Rerun(model))
    assert status_of(found) == Recomputed()
    asked = sum(result.details["mini"].asked for result in benchmark(model).results())
    assert f"{min(asked, 20)} of {asked} queries predicted again" in found[-1].message
    assert isinstance(rerun(benchmark(model), Kernel(9.0)).status, Contradicted)


def test_the_tolerance_is_that_of_the_kernel() -> None:
    result = StaICC.Normal(**FEW)(Kernel())
    assert rerun(result, Kernel(1e-4, 1e-3)).status == Recomputed()
    found = rerun(result, Kernel(1e-4, 1e-5))
    assert isinstance(found.status, Contradicted)
    assert len(found.contradicted) == 8
    assert isinstance(rerun(result, Kernel(1.0, None)).status, Unchecked)  # says that its predictions may change


def test_the_first_query_that_differs_is_named() -> None:
    result = StaICC.Normal(datasets=["mini"], limit=40)(Kernel())
    details = result.details["mini"].to_dict()
    rows = unpack_scores(details["conditions"][0]["scores"], 3)
    rows[17] = [value + 1 for value in rows[17]]  # the same order, and so the same label
    details["conditions"][0]["scores"] = pack_scores(rows)
    forged = Result.from_dict(result.to_dict() | {"details": {"mini": details}})
    found = rerun(forged, Kernel(), 80)
    (line,) = found.contradicted
    assert line.startswith("mini / normal / query 17 (test row 17): saved ")
    assert "80 of 80 queries predicted again (seed 3): 1 differ" in found.message


def test_failed_and_unparsed_queries_are_predicted_again() -> None:
    """Otherwise a file could call its wrong predictions failed, or without a label."""

    def failing(prompt: Any, label_space: list[str]) -> Any:
        return None if len(prompt) % 2 else model(prompt, label_space)

    def unparsed(prompt: Any, label_space: list[str]) -> Any:
        return "?" if len(prompt) % 2 else model(prompt, label_space)

    result = StaICC.Normal(**FEW)(failing, on_error="collect")
    failed = result.details["mini"].failed
    assert 0 < failed < 8
    found = rerun(result, model)
    assert isinstance(found.status, Unchecked)
    assert sum("failed in the run" in reason for reason in found.unchecked) == failed
    again = rerun(StaICC.Normal(**FEW)(model), failing)  # fails in the rerun only
    assert sum("got None" in reason for reason in again.unchecked) == failed
    hidden = StaICC.Normal(**FEW, unparsed="excluded")(unparsed)
    assert 0 < hidden.excluded < 8
    assert isinstance(rerun(hidden, model).status, Contradicted)
    assert not rerun(hidden, unparsed).contradicted


def test_a_method_another_model_and_other_prompts_are_not_predicted_again() -> None:
    kernel = Kernel()
    found = rerun(Method("batch_calibration", kernel).run(StaICC.Normal(**FEW)), kernel)
    assert isinstance(found.status, Unchecked)
    assert "batch_calibration" in found.status.reason
    raced = race(StaICC.Normal(datasets=["mini"]), Kernel(), model, margin=0.3)
    found = rerun(raced, model)
    assert not found.contradicted
    assert [line.split(": ")[0] for line in found.unchecked] == ["parts / first / mini"]
    other = Kernel()
    found = rerun(StaICC.Normal(**FEW)(Kernel()), other, benchmark=StaICC.Normal(3, **FEW))
    assert isinstance(found.status, Unchecked)
    assert not other.prompts


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2),
        ([0.1, 0.2], [0.1, 0.3], 0.1),
        ([1.0, -float("inf")], [1.0, -float("inf")], 0.0),
        ([1.0, 0.0], [1.0, -float("inf")], float("inf")),
        ([1e308, 0.0], [-1e308, 0.0], float("inf")),
        ([1.0], [1.0, 2.0], float("inf")),
        (1, 1, 0.0),
        (1, 2, float("inf")),
        (1, [0.0, 1.0], float("inf")),
        ("a", "b", float("inf")),
    ],
)
def test_differences(one: Any, other: Any, expected: float) -> None:
    assert difference(one, other) == pytest.approx(expected)
    assert difference(other, one) == pytest.approx(expected)
