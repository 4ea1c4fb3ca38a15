"""No edit of a saved result passes: the digests detect all, and fields that can be recomputed are named."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from functools import cache
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.findings import Recomputed, Unchecked, Verification, status_of
from StaICC.benchmarks.verify import verify
from StaICC.errors import SchemaError
from StaICC.results.details import pack_scores, unpack_scores
from StaICC.results.files import digest_problems, with_digests
from StaICC.results.result import Result, ResultGroup, result_from_dict
from tests import result_edits as edits

RECORDED = {"kind", "environment", "timing", "with_divided", "digests"}
"""Fields that no record implies: only the digests detect their edits."""

RECORDED_OF_PREDICTORS = {
    *("name", "unidentified", "started", "finished", "editions", "computed", "reused", "rechecked", "retried")
}


def model(prompt: Any, label_space: list[str]) -> list[float]:
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


@cache
def document() -> Any:
    group = StaICC.Suite(datasets=["mini"], limit=6)(model)
    return json.loads(json.dumps(with_digests(group.to_dict())))


def _contradicted(found: list[Verification]) -> list[str]:
    return [line for one in found for line in one.contradicted]


def check_edit(original: Any, path: tuple[Any, ...], rng: random.Random) -> str:
    """Edit one leaf: the edit must be refused or detected, and named if its field can be recomputed."""
    value = edits.value_at(original, path)
    other = edits.changed(path, value, rng)
    if other == value and type(other) is type(value):
        return "none"
    changed = edits.edited(original, path, other)
    try:
        result = result_from_dict(changed, "edited")
    except SchemaError:
        return "refused"
    assert digest_problems(changed), path
    keys = edits.kind_of(path)
    if path[0] == "parts":
        assert isinstance(result, ResultGroup)
        result, keys = result[path[1]], keys[2:]
    findings = verify(result)
    reported = _contradicted(findings)
    if keys[0] in RECORDED or (keys[:2] == ("provenance", "predictors") and keys[2] in RECORDED_OF_PREDICTORS):
        assert status_of(findings) == Recomputed()
        return "digest"
    if keys == ("schema",):  # of another format
        return "named"
    if keys in [("name",), ("benchmark",), ("signature", "version"), ("signature", "metrics")] and not reported:
        assert isinstance(status_of(findings), Unchecked)
        return "unchecked"
    if not reported and (keys[-1] in ("seed", "statistics", "scores") or keys == ("arguments", "statistics", "tried")):
        return "digest"  # no figure of its benchmark depends on it, or by so much
    assert reported, path
    inputs = {"scores", "predictions", "k", "options", "statistics", "tried", "name", "condition", "query", "labels"}
    if keys[:3] in [("provenance", "predictors", "who"), ("provenance", "predictors", "how")]:
        assert any("provenance / predictors / 0 / identity: saved " in line for line in reported), (path, reported)
    elif keys[0] != "arguments" and keys[-1] not in inputs:  # an edited input is named by what depends on it
        named = {line.partition(": saved")[0].split(" / ")[-1] for line in reported}
        assert named & {str(path[-1]), *keys} or any(keys[-1] in line for line in reported), (path, reported)
    return "named"


@pytest.mark.parametrize("share", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_every_kind_of_field_is_detected(share: int) -> None:
    rng = random.Random(share)
    kinds = defaultdict(list)
    for path, _ in edits.leaves(document()):
        kinds[edits.kind_of(path)].append(path)
    assert len(kinds) > 400
    # The environment has the versions of all imported packages, so these come last: the others are always the same.
    in_order = sorted(kinds, key=lambda kind: "environment" in kind)
    ways = [check_edit(document(), rng.choice(kinds[kind]), rng) for kind in in_order[::share]]
    assert ways.count("named") > 300 / share
    assert ways.count("refused") < 60 / share


def test_missing_fields_and_the_order_of_keys_are_detected() -> None:
    without = {name: value for name, value in document().items() if name != "digests"}
    assert "missing" in digest_problems(without)[0]
    assert digest_problems(dict(reversed(document().items())))
    part = document()["parts"]["Normal"]
    with pytest.raises(SchemaError):
        Result.from_dict({name: value for name, value in part.items() if name != "timing"})


@pytest.mark.parametrize("rows", [[[0.5, -0.0]], [[1e308, 0.1], [5e-324, 3.0]], [], [[1 / 3, 2 / 3]]])
def test_label_scores_are_exact(rows: list[list[float]]) -> None:
    assert repr(unpack_scores(pack_scores(rows), 2)) == repr(rows)


@pytest.mark.parametrize(
    "text", ["", "f4", "f2:AAAA", "f4:AAA", "f8:AAAAAAAA8H8=", "f4:AACAfw==", "f4:\xe4", "f8:AAAA"]
)
def test_damaged_label_scores_are_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        unpack_scores(text, 1)


def test_own_metrics_are_not_checkable_without_their_code() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    benchmark[0].add_metric("mine", lambda truth, rows: len(truth) / 7)
    result = benchmark(model)
    found, common = verify(result)
    assert found.contradicted == common.contradicted == ()
    assert found.unchecked[0].startswith("Divided results / mini / mine: ")
    assert any("mine is the user's own; pass the benchmark" in line for line in common.unchecked), (
        f"got {common.unchecked}"
    )
    assert status_of(verify(result, benchmark)) == Recomputed()
    triplet = StaICC.TripletBias(datasets=["mini"], limit=2)
    triplet.post[0].add_metric("mine", lambda truth, rows: 0.5)
    assert isinstance(status_of(verify(triplet(model))), Unchecked)
    assert status_of(verify(triplet(model), triplet)) == Recomputed()
    result.divided["mini"]["mine"] += 1
    (line,) = verify(result, benchmark)[0].contradicted
    assert line.startswith("Divided results / mini / mine: saved ")
