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
    """Return a score from -8 to 8 for each label: a hash of prompt and label."""
    scores = []
    for label in label_space:
        digest = hashlib.sha256(f"{prompt}\0{label}".encode()).digest()
        scores.append(digest[0] / 16 - 8)
    return scores


@cache
def saved_suite() -> Any:
    """Return the content of the file of a result of the suite, with its digests; it is run once."""
    group = StaICC.Suite(datasets=["mini"], limit=6)(hash_scores)
    return json.loads(json.dumps(with_digests(group.to_dict())))


def contradicted_fields(findings: list[Verification]) -> list[str]:
    """Return a line for each field that differs from the recomputed one: "details / mini / ...: saved 1, ..."."""
    return [line for finding in findings for line in finding.contradicted]


OF_ANOTHER_VERSION = [("name",), ("benchmark",), ("signature", "version"), ("signature", "metrics")]
"""Fields that say what a result is of: with others, it may be of something that cannot be recomputed."""

INPUTS = {"scores", "predictions", "k", "options", "statistics", "tried", "name", "condition", "query", "labels"}
"""Fields from which others are computed: an edit of one is named by what depends on it."""

Field = tuple[Any, ...]
"""The keys of a field within one result, without names of data sets and without numbers: ("details", "asked")."""


def is_recorded(field: Field) -> bool:
    """Return whether no other field implies this one."""
    if field[:2] == ("provenance", "predictors"):
        return field[2] in RECORDED_OF_PREDICTORS
    return field[0] in RECORDED


def may_change_no_score(field: Field) -> bool:
    """Return whether the scores of some benchmarks do not depend on this field, or on an edit of this size."""
    return field[-1] in ("seed", "statistics", "scores") or field == ("arguments", "statistics", "tried")


def is_identity_of_predictor(field: Field) -> bool:
    """Return whether the digest of a predictor's identity is computed from this field."""
    return field[:3] in [("provenance", "predictors", "who"), ("provenance", "predictors", "how")]


def is_named(path: tuple[Any, ...], field: Field, contradicted: list[str]) -> bool:
    """Return whether a line about a differing field has the field, or ends with a key of its path."""
    last_keys = set()
    for line in contradicted:
        path_in_line, _, _ = line.partition(": saved")
        last_keys.add(path_in_line.split(" / ")[-1])
        if field[-1] in line:
            return True
    return not last_keys.isdisjoint([str(path[-1]), *field])


def assert_named(path: tuple[Any, ...], field: Field, contradicted: list[str]) -> None:
    """Check that the lines about differing fields name the edited field.

    Arguments and other inputs need no line of their own: what is computed from them differs.
    """
    assert contradicted, path
    if is_identity_of_predictor(field):
        assert "provenance / predictors / 0 / identity: saved " in "\n".join(contradicted), path
    elif field[0] != "arguments" and field[-1] not in INPUTS:
        assert is_named(path, field, contradicted), (path, contradicted)


def edited_result_and_field(document: Any, path: tuple[Any, ...]) -> tuple[Result | ResultGroup, Field]:
    """Return the edited part of a saved group (or the group, if the value is in none), and the field in it.

    Raises:
        SchemaError: The document is refused when it is read.
    """
    group = result_from_dict(document, "edited")
    field = edits.kind_of(path)
    if path[0] != "parts":
        return group, field
    assert isinstance(group, ResultGroup)
    part_name = path[1]
    return group[part_name], field[2:]


def detection_of_edit(document: Any, path: tuple[Any, ...]) -> str:
    """Return how the edit of the value at a path of a saved result is detected; fail if it is not.

    Returns:
        ``"refused"`` when the file is read, ``"named"`` by the verification, ``"unchecked"`` there, or ``"digest"`` by
        the digests alone.
    """
    try:
        result, field = edited_result_and_field(document, path)
    except SchemaError:
        return "refused"
    assert digest_problems(document), path

    findings = verify(result)
    contradicted = contradicted_fields(findings)
    if is_recorded(field):
        assert status_of(findings) == Recomputed(), path
        return "digest"
    if field == ("schema",):
        return "named"  # as a file of another format
    if field in OF_ANOTHER_VERSION and not contradicted:
        assert isinstance(status_of(findings), Unchecked), path
        return "unchecked"
    if may_change_no_score(field) and not contradicted:
        return "digest"
    assert_named(path, field, contradicted)
    return "named"


def edited_value_of_each_kind(every: int, rng: random.Random) -> dict[tuple[Any, ...], Any]:
    """Return another value for one path of each kind of field (of every tenth kind, if ``every`` is 10), by its path.

    Kinds of the environment come last: it has the versions of all imported packages, and the others are always the
    same.
    """
    paths_of_kind = defaultdict(list)
    for path, _ in edits.leaves(saved_suite()):
        paths_of_kind[edits.kind_of(path)].append(path)
    assert len(paths_of_kind) > 400

    kinds = sorted(paths_of_kind, key=lambda kind: "environment" in kind)
    new_values = {}
    for kind in kinds[::every]:
        path = rng.choice(paths_of_kind[kind])
        value = edits.value_at(saved_suite(), path)
        new_value = edits.changed(path, value, rng)
        if new_value != value or type(new_value) is not type(value):  # some values have no other one
            new_values[path] = new_value
    return new_values


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_an_edit_of_each_kind_of_field_is_detected(every: int) -> None:
    """Of more than 400 kinds, more than 300 are named by the verification, and fewer than 60 refused on reading."""
    new_values = edited_value_of_each_kind(every, random.Random(every))

    detected_by = []
    for path, new_value in new_values.items():
        document = edits.edited(saved_suite(), path, new_value)
        detected_by.append(detection_of_edit(document, path))

    assert detected_by.count("named") > 300 / every
    assert detected_by.count("refused") < 60 / every


def test_missing_digests_are_detected() -> None:
    without_digests = {name: value for name, value in saved_suite().items() if name != "digests"}

    (problem,) = digest_problems(without_digests)

    assert "missing" in problem


def test_another_order_of_fields_is_detected() -> None:
    in_reverse_order = dict(reversed(saved_suite().items()))

    assert digest_problems(in_reverse_order) != []


def test_a_result_without_a_field_is_refused() -> None:
    normal = saved_suite()["parts"]["Normal"]
    without_timing = {name: value for name, value in normal.items() if name != "timing"}

    with pytest.raises(SchemaError):
        Result.from_dict(without_timing)


@pytest.mark.parametrize(
    "rows",
    [[[0.5, -0.0]], [[1e308, 0.1], [5e-324, 3.0]], [], [[1 / 3, 2 / 3]]],
    ids=["minus zero", "largest and smallest", "no rows", "fractions"],
)
def test_label_scores_are_packed_and_unpacked_without_loss(rows: list[list[float]]) -> None:
    """The texts are compared, since -0.0 equals 0.0."""
    packed = pack_scores(rows)

    assert repr(unpack_scores(packed, 2)) == repr(rows)


@pytest.mark.parametrize(
    "packed",
    ["", "f4", "f2:AAAA", "f4:AAA", "f8:AAAAAAAA8H8=", "f4:AACAfw==", "f4:\xe4", "f8:AAAA"],
    ids=[
        "empty",
        "no numbers",
        "unknown size of numbers",
        "no Base64",
        "infinity in eight bytes",
        "infinity in four bytes",
        "not ASCII",
        "too few bytes",
    ],
)
def test_damaged_label_scores_are_refused(packed: str) -> None:
    with pytest.raises(SchemaError):
        unpack_scores(packed, 1)


def benchmark_with_metric_mine() -> StaICC.Normal:
    """Return a benchmark on one data set with a metric of the user, ``mine``."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    benchmark[0].add_metric("mine", lambda truth, rows: len(truth) / 7)
    return benchmark


def test_own_metrics_are_not_checkable_without_their_code() -> None:
    result = benchmark_with_metric_mine()(hash_scores)

    of_mini, of_run = verify(result)

    assert of_mini.contradicted == of_run.contradicted == ()
    assert of_mini.unchecked[0].startswith("Divided results / mini / mine: ")
    assert "mine is the user's own; pass the benchmark" in " ".join(of_run.unchecked)


def test_own_metrics_are_recomputed_with_their_code() -> None:
    benchmark = benchmark_with_metric_mine()
    result = benchmark(hash_scores)

    assert status_of(verify(result, benchmark)) == Recomputed()


def test_a_changed_value_of_an_own_metric_is_contradicted_with_its_code() -> None:
    benchmark = benchmark_with_metric_mine()
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
