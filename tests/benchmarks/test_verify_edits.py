"""No edit of a saved result passes: the digests detect all, and fields that can be recomputed are named."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import Recomputed, Unchecked, Verification, rebuild, status_of, verify, verify_file
from StaICC.datasets import Dataset
from StaICC.errors import SchemaError
from StaICC.results import Result, ResultGroup, load
from StaICC.results.provenance import pack_scores, unpack_scores
from StaICC.results.result import digest_problems, result_from_dict, with_digests
from tests import result_edits as edits

RECORDED = {"kind", "environment", "timing", "with_divided", "digests"}
"""Fields that no record implies: only the digests detect their edits."""

RECORDED_OF_PREDICTORS = {
    *("name", "unidentified", "started", "finished", "editions", "computed", "reused", "rechecked", "retried"),
}


def model(prompt: str, label_space: list[str]) -> list[float]:
    return [hashlib.sha256(f"{prompt}\0{label}".encode()).digest()[0] / 16 - 8 for label in label_space]


def double(prompt: str, label_space: list[str]) -> list[float]:
    """Scores that single precision does not hold."""
    return [value / 3 for value in model(prompt, label_space)]


def unsure(prompt: str, label_space: list[str]) -> Any:
    row = model(prompt, label_space)
    return None if row[0] > 6 else row


@cache
def document() -> Any:
    group = StaICC.Suite(datasets=["mini"], limit=6)(model)
    return json.loads(json.dumps(with_digests(group.to_dict())))


def _contradicted(found: list[Verification]) -> list[str]:
    return [line for one in found for line in one.contradicted]


def check_edit(original: Any, path: tuple[Any, ...], rng: random.Random, digest_only: bool = False) -> str:
    """Edit one leaf: the edit must be refused or detected, and named if its field can be recomputed."""
    value = edits.value_at(original, path)
    other = edits.changed(path, value, rng)
    if other == value and type(other) is type(value):
        return "none"
    changed = edits.edited(original, path, other)
    if digest_only and digest_problems(changed):
        return "digest"
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
    ways = [check_edit(document(), rng.choice(paths), rng) for paths in list(kinds.values())[::share]]
    assert ways.count("named") > 300 / share
    assert ways.count("refused") < 60 / share


@pytest.mark.parametrize("batched", [False, True])
def test_several_functions_and_given_predictions_are_consistent(batched: bool) -> None:
    own = [(f"text {row}", row % 2) for row in range(60)]
    data = [Dataset.from_rows(own, name=name, label_space=["a", "b"]) for name in ("one", "two", "three")]
    benchmark = StaICC.Normal(datasets=data, limit=5, k=2)

    def listed(prompt: list[str], label_space: list[str]) -> list[list[float]]:
        return [double(one, label_space) for one in prompt]

    functions = [listed] * 3 if batched else [StaICC.load_kernel("ppm"), model, double]
    given = [[0] * len(experimentor) for experimentor in benchmark]
    for result in (benchmark(functions, batched_inference=batched), benchmark(preentered_prediction=given)):
        assert status_of(verify(result, benchmark)) == Recomputed()


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


@pytest.mark.parametrize(
    ("name", "settings", "answer"),
    [
        ("Suite", {}, double),
        ("Suite", {"metrics": "0.1.1"}, model),
        ("Suite", {"noisy_channel": True, "k": 2}, double),
        ("Normal", {"outputs": "logits"}, double),
        ("Normal", {"statistics": StaICC.Statistics(intervals=False)}, model),
        *(("Normal", {"statistics": StaICC.Statistics(level, tried=3)}, model) for level in (0.5, 0.77, 0.9999)),
        ("Suite", {}, lambda prompt, label_space: 1),
        ("Suite", {}, lambda prompt, label_space: [0.2, 0.2, 0.2]),
        ("GLER", {"interpolations": 3, "k": 0}, model),
        ("DomainBias", {"domain_query_length": 3}, model),
        *((name, {}, unsure) for name in ("Suite", "Diagnosis", "TripletBias")),
    ],
)
def test_what_a_run_saves_is_consistent(tmp_path: Path, name: str, settings: dict[str, Any], answer: Any) -> None:
    path = tmp_path / "result.json"
    getattr(StaICC, name)(datasets=["mini"], limit=5, **settings)(answer, on_error="collect").save(path)
    assert status_of(verify_file(path)) == Recomputed()
    if "statistics" in settings:
        assert rebuild(load(path))[0].statistics == settings["statistics"]  # type: ignore[union-attr]


def test_own_metrics_are_not_checkable_without_their_code() -> None:
    benchmark = StaICC.Normal(datasets=["mini"], limit=5)
    benchmark[0].add_metric("mine", lambda truth, rows: len(truth) / 7)
    result = benchmark(model)
    found, common = verify(result)
    assert found.contradicted == common.contradicted == ()
    assert found.unchecked[0].startswith("Divided results / mini / mine: ")
    assert any("mine is the user's own; pass the benchmark" in line for line in common.unchecked)
    assert status_of(verify(result, benchmark)) == Recomputed()
    result.divided["mini"]["mine"] += 1
    (line,) = verify(result, benchmark)[0].contradicted
    assert line.startswith("Divided results / mini / mine: saved ")


# -- hostile signatures cost nothing


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("k", value) for value in ("99999999", "9" * 5000, "²", "-1")),
        *(("limit", value) for value in ("99999999999999", "1")),
        *(("options", f"{name}=4000") for name in ("interpolations", "domain_query_length", "tried")),
        *(("statistics", value) for value in ("intervals-9-0.95", "intervals-2-7")),
        *((field, "other") for field in ("channel", "template", "demonstrations", "outputs", "unparsed", "sampler")),
        *(("repeats", "99999999"), ("datasets", "TREC"), ("data", "0" * 12), ("prompts", "0" * 12)),
        *(("failed", "3"), ("benchmark", "Normal")),
    ],
)
def test_a_signature_that_no_run_writes_is_named_at_once(field: str, value: str) -> None:
    part = document()["parts"]["GLER"]
    result = Result.from_dict({**part, "signature": {**part["signature"], field: value}})
    started = time.process_time()
    reported = _contradicted(verify(result))
    assert time.process_time() - started < 5
    assert any(line.startswith(f"signature / {field}: ") and len(line) < 300 for line in reported), reported


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((("k",), value) for value in (99999999, int("9" * 4000), "4", "²", -1, 1.5, True, None, [4])),
        *((("limit",), value) for value in (99999999999999, 1, 0, None, "6", {})),
        *((("options", "interpolations"), value) for value in (99999999, 4000, 1, "5", None)),
        *((("options",), value) for value in (None, [], {"interpolations": 5, "domain_query_length": 10**9})),
        *((("statistics",), value) for value in ("intervals-3-0.95", {"other": 1})),
        *(((("statistics", "level")), 7), (("statistics", "tried"), 10**10)),
        *((("noisy_channel",), value) for value in (True, "direct")),
        *((("demonstrations",), value) for value in ("other", "in-domain")),
        *((("sampler",), value) for value in ("nested", ["default"])),
        *((("outputs",), value) for value in ("labels", "logits")),
        *((("unparsed",), "right"), (("datasets",), ["TREC"]), (("metrics",), "standard")),
        *((("metrics", "set"), value) for value in ("0.1.1", 3, "json:dumps")),
        *((("metrics", "names"), value) for value in ([], None)),
    ],
)
def test_arguments_of_no_run_or_another_are_found_at_once(path: tuple[str, ...], value: Any) -> None:
    part = edits.edited(document()["parts"]["GLER"], ("arguments", *path), value)
    started = time.process_time()
    reported = _contradicted(verify(Result.from_dict(part)))
    assert time.process_time() - started < 5
    assert reported
    assert all(len(line) < 300 for line in reported)


@pytest.mark.parametrize("name", ["changed", "options", "metrics", "k", "statistics"])
def test_missing_arguments_are_not_recomputed(name: str) -> None:
    part = document()["parts"]["GLER"]
    arguments = {key: value for key, value in part["arguments"].items() if key != name}
    assert status_of(verify(Result.from_dict(part | {"arguments": arguments}))) != Recomputed()
    assert isinstance(status_of(verify(Result.from_dict(part | {"arguments": {}}))), Unchecked)


# -- the whole suite


@pytest.mark.slow
@pytest.mark.pack
def test_a_suite_over_ten_data_sets(tmp_path: Path) -> None:
    path = tmp_path / "suite.json"
    StaICC.Suite()(model).save(path)
    assert path.stat().st_size < 8_000_000
    started = time.process_time()
    found = verify_file(path)
    assert time.process_time() - started < 30
    assert status_of(found) == Recomputed()
    assert len(found) == 1 + 7 * 11 + 1
    original = json.loads(path.read_text("utf-8"))
    rng = random.Random(4)
    paths = [leaf for leaf, _ in edits.leaves(original)]
    ways = [check_edit(original, rng.choice(paths), rng, digest_only=True) for _ in range(100)]
    assert set(ways) <= {"digest", "none", "refused"}
    ways = [check_edit(original, rng.choice(paths), rng) for _ in range(15)]
    assert ways.count("named") > 3
