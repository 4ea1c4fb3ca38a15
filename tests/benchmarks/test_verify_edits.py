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
    "name",
    "unidentified",
    "started",
    "finished",
    "editions",
    "computed",
    "reused",
    "rechecked",
    "retried",
}


def hash_scores(prompt: Any, label_space: list[str]) -> list[float]:
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


@cache
def document() -> Any:
    group = StaICC.Suite(datasets=["mini"], limit=6)(hash_scores)
    return json.loads(json.dumps(with_digests(group.to_dict())))


def contradicted_fields(findings: list[Verification]) -> list[str]:
    """Return a line for each field that differs from the recomputed one: "details / mini / ...: saved 1, ..."."""
    return [line for finding in findings for line in finding.contradicted]


OF_ANOTHER_VERSION = [("name",), ("benchmark",), ("signature", "version"), ("signature", "metrics")]
"""Fields that say what a result is of: with others, it may be of something that cannot be recomputed."""

INPUTS = {"scores", "predictions", "k", "options", "statistics", "tried", "name", "condition", "query", "labels"}
"""Fields from which others are computed: an edit of one is named by what depends on it."""


def is_recorded(field: tuple[Any, ...]) -> bool:
    """Return whether no other field implies this one."""
    of_predictor = field[:2] == ("provenance", "predictors")
    return field[0] in RECORDED or (of_predictor and field[2] in RECORDED_OF_PREDICTORS)


def may_change_no_score(field: tuple[Any, ...]) -> bool:
    """Return whether the scores of some benchmarks do not depend on this field, or on an edit of this size."""
    return field[-1] in ("seed", "statistics", "scores") or field == ("arguments", "statistics", "tried")


def assert_named(path: tuple[Any, ...], field: tuple[Any, ...], reported: list[str]) -> None:
    """Check that the lines about differing fields name an edited field, if it is no input."""
    if field[:3] in [("provenance", "predictors", "who"), ("provenance", "predictors", "how")]:
        assert any("provenance / predictors / 0 / identity: saved " in line for line in reported), (path, reported)
    elif field[0] != "arguments" and field[-1] not in INPUTS:
        last_keys = {line.partition(": saved")[0].split(" / ")[-1] for line in reported}
        named = last_keys & {str(path[-1]), *field} or any(field[-1] in line for line in reported)
        assert named, (path, reported)


def check_edit(original: Any, path: tuple[Any, ...], rng: random.Random) -> str:
    """Edit one value of a saved result, and return how the edit is detected.

    Returns:
        ``"refused"`` when the file is read, ``"named"`` by the verification, ``"unchecked"`` there, ``"digest"`` by the
        digests alone, or ``"none"`` if the value has no other one.
    """
    value = edits.value_at(original, path)
    edited_value = edits.changed(path, value, rng)
    if edited_value == value and type(edited_value) is type(value):
        return "none"
    edited = edits.edited(original, path, edited_value)
    try:
        result = result_from_dict(edited, "edited")
    except SchemaError:
        return "refused"
    assert digest_problems(edited), path

    field = edits.kind_of(path)
    if path[0] == "parts":  # of a group
        assert isinstance(result, ResultGroup)
        result, field = result[path[1]], field[2:]
    findings = verify(result)
    reported = contradicted_fields(findings)
    if is_recorded(field):
        assert status_of(findings) == Recomputed()
        return "digest"
    if field == ("schema",):  # of another format
        return "named"
    if field in OF_ANOTHER_VERSION and not reported:
        assert isinstance(status_of(findings), Unchecked)
        return "unchecked"
    if may_change_no_score(field) and not reported:
        return "digest"
    assert reported, path
    assert_named(path, field, reported)
    return "named"


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_every_kind_of_field_is_detected(every: int) -> None:
    """One field of each kind (of every tenth kind, if not slow) is edited."""
    rng = random.Random(every)
    paths_of_kind = defaultdict(list)
    for path, _ in edits.leaves(document()):
        paths_of_kind[edits.kind_of(path)].append(path)
    assert len(paths_of_kind) > 400
    # The environment has the versions of all imported packages, so these come last: the others are always the same.
    kinds = sorted(paths_of_kind, key=lambda kind: "environment" in kind)
    detected_by = [check_edit(document(), rng.choice(paths_of_kind[kind]), rng) for kind in kinds[::every]]
    assert detected_by.count("named") > 300 / every
    assert detected_by.count("refused") < 60 / every


def test_missing_digests_are_detected() -> None:
    without = {name: value for name, value in document().items() if name != "digests"}
    assert "missing" in digest_problems(without)[0]


def test_another_order_of_fields_is_detected() -> None:
    assert digest_problems(dict(reversed(document().items())))


def test_a_result_without_a_field_is_refused() -> None:
    normal = document()["parts"]["Normal"]
    with pytest.raises(SchemaError):
        Result.from_dict({name: value for name, value in normal.items() if name != "timing"})


@pytest.mark.parametrize("rows", [[[0.5, -0.0]], [[1e308, 0.1], [5e-324, 3.0]], [], [[1 / 3, 2 / 3]]])
def test_label_scores_are_exact(rows: list[list[float]]) -> None:
    assert repr(unpack_scores(pack_scores(rows), 2)) == repr(rows)


@pytest.mark.parametrize(
    "text", ["", "f4", "f2:AAAA", "f4:AAA", "f8:AAAAAAAA8H8=", "f4:AACAfw==", "f4:\xe4", "f8:AAAA"]
)
def test_damaged_label_scores_are_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        unpack_scores(text, 1)


def benchmark_with_a_metric() -> StaICC.Normal:
    """Return a benchmark on one data set with a metric of the user, ``mine``."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    benchmark[0].add_metric("mine", lambda truth, rows: len(truth) / 7)
    return benchmark


def test_own_metrics_are_not_checkable_without_their_code() -> None:
    result = benchmark_with_a_metric()(hash_scores)

    of_mini, of_run = verify(result)

    assert of_mini.contradicted == of_run.contradicted == ()
    assert of_mini.unchecked[0].startswith("Divided results / mini / mine: ")
    assert "mine is the user's own; pass the benchmark" in " ".join(of_run.unchecked)


def test_own_metrics_are_recomputed_with_their_code() -> None:
    benchmark = benchmark_with_a_metric()
    result = benchmark(hash_scores)

    assert status_of(verify(result, benchmark)) == Recomputed()


def test_a_changed_value_of_an_own_metric_is_contradicted_with_its_code() -> None:
    benchmark = benchmark_with_a_metric()
    result = benchmark(hash_scores)
    result.divided["mini"]["mine"] += 1

    of_mini, _ = verify(result, benchmark)

    (line,) = of_mini.contradicted
    assert line.startswith("Divided results / mini / mine: saved ")


def test_own_metrics_of_a_part_of_a_group_need_their_code() -> None:
    triplet = StaICC.TripletBias(datasets=["mini"], limit=2)
    triplet.post[0].add_metric("mine", lambda truth, rows: 0.5)
    result = triplet(hash_scores)

    assert isinstance(status_of(verify(result)), Unchecked)
    assert status_of(verify(result, triplet)) == Recomputed()
