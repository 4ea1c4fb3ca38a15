"""Verification: prompts written anew are those of a saved result, or the first that differs is named."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import Verification, rebuild, verify
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError
from StaICC.results import Result, Signature, load

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")


def assert_consistent(found: list[Verification]) -> None:
    assert [one.inconsistent for one in found] == [()] * len(found)
    assert all(one.same for one in found if one.dataset)


def assert_prompts_not_checkable(result: Result, reason: str) -> None:
    """The benchmark cannot be rebuilt: the scores are recomputed all the same, and the prompts are said to be open."""
    with pytest.raises(ArgumentError, match=reason):
        rebuild(result)
    found = verify(result)
    assert all(one.consistent and one.same is None for one in found)
    assert all("scores" in one.checked for one in found if one.dataset)
    for one in found[:-1]:
        assert any(
            line.startswith("prompts, true labels and rows: ") and re.search(reason[1:], line)
            for line in one.not_checkable
        )
    dataset = next(iter(result.divided))
    for key, value in result.divided[dataset].items():
        if isinstance(value, float):
            result.divided[dataset][key] = value + 0.125
            (line,) = verify(result)[0].inconsistent
            assert line == f"Divided results / {dataset} / {key}: saved {value + 0.125!r}, recomputed {value!r}"
            result.divided[dataset][key] = value


MAKES: list[tuple[str, dict[str, Any]]] = [
    ("Normal", {}),
    ("Normal", {"k": 0}),
    ("Normal", {"noisy_channel": True, "limit": 3}),
    ("Normal", {"metrics": "0.1.1"}),
    ("ContextualBias", {"k": 2}),
    ("DomainBias", {"domain_query_length": 9}),
    ("PosteriorBias", {}),
    ("GLER", {"interpolations": 3}),
    ("TemplateSensitivity", {}),
    ("DemonstrationSensitivity", {"limit": 2}),
]


@pytest.mark.parametrize(("name", "settings"), MAKES)
def test_a_saved_result_verifies(tmp_path: Path, name: str, settings: dict[str, Any], stand_in: Any) -> None:
    getattr(StaICC, name)(datasets=["mini"], **settings)(stand_in).save(tmp_path / "result.json")
    result = load(tmp_path / "result.json")
    assert isinstance(result, Result)
    found, common = verify(result)
    assert (found.dataset, found.same, found.first_difference) == ("mini", True, None)
    assert found.message == f"the {result.details['mini'].asked} prompts are the same"
    assert found.checked == (
        "prompts",
        "true labels and rows",
        "scores",
        "counts",
        "intervals",
        "baselines",
        "records",
        "notes",
    )
    assert (found.inconsistent, found.not_checkable) == ((), ())
    assert (common.dataset, common.consistent, common.same) == (None, True, None)
    assert common.checked == ("Averaged results", "signature", "provenance")


def test_a_saved_suite_verifies(tmp_path: Path, stand_in: Any) -> None:
    StaICC.Suite(datasets=["mini"], limit=2)(stand_in).save(tmp_path / "result.json")
    found = verify(load(tmp_path / "result.json"))
    assert [(one.benchmark, one.dataset) for one in found] == [
        (part, dataset) for part in StaICC.Suite(datasets=["mini"]) for dataset in ("mini", None)
    ]
    assert all(one.consistent and one.same is not (one.dataset is None) for one in found)


@pytest.mark.parametrize("mode", ["set_in_domain_mode", "set_out_of_domain_mode"])
def test_domain_modes_are_rebuilt(mode: str, stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    getattr(benchmark[0], mode)()
    found, common = verify(benchmark(stand_in))
    assert found.same
    assert found.consistent
    assert common.consistent


@pytest.mark.parametrize("number", [0, 1, 17, 191])
def test_the_first_query_that_differs_is_named(number: int, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    result = benchmark(stand_in)
    rows = len(benchmark[0].test_set())
    lists = benchmark[0].demonstration_sampler
    changed = StaICC.Normal(datasets=["mini"])
    other = [list(positions) for positions in lists]
    other[number] = other[number][::-1]
    if number + 1 < 2 * rows:
        other[-1] = other[-1][::-1]
    monkeypatch.setattr(StaICC.Experimentor, "demonstration_lists", lambda self: tuple(map(tuple, other)))
    found, _ = verify(result, changed)
    assert (found.same, found.first_difference) == (False, number)
    assert found.message == f"query {number} is the first whose prompt differs"


def test_a_changed_digest_is_seen_even_if_no_mark_differs(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"])(stand_in)
    details = dataclasses.replace(result.details["mini"], prompts="0" * 64)
    result.details["mini"] = details
    found, _ = verify(result)
    assert (found.same, found.first_difference) == (False, None)
    assert found.message.startswith(f"the digest of all prompts differs: saved {'0' * 64}, written ")


def test_fewer_queries_are_a_difference(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"])(stand_in)
    found, _ = verify(result, StaICC.Normal(datasets=["mini"], limit=5))
    assert (found.same, found.first_difference) == (False, 5)


def test_own_data_verifies_with_its_benchmark(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=[make_own(2)])
    result = benchmark(stand_in)
    assert_consistent(verify(result, benchmark))


def test_changed_templates_verify_with_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].prompt_former.change_instruction("Decide. ")
    result = benchmark(stand_in)
    assert_consistent(verify(result, benchmark))
    assert_prompts_not_checkable(
        result, r"^the template of this result were changed by hand \(changed-.*; pass the ben"
    )


def test_demonstrations_by_hand_need_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].set_demonstration_sampler([[0, 1, 2, 3]] * len(benchmark[0].test_set()))
    result = benchmark(stand_in)
    assert_consistent(verify(result, benchmark))
    assert_prompts_not_checkable(result, r"^the demonstrations of this result were changed by hand \(manual-")


def test_several_k_need_their_benchmark(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini", make_own(1)])
    benchmark[0].set_k(1)
    result = benchmark(stand_in)
    assert_consistent(verify(result, benchmark))
    assert_prompts_not_checkable(result, r"^this result has no single k \(mixed-.*\); pass the benchmark itself$")


def test_rebuilding_gives_the_same_signature(stand_in: Any) -> None:
    for name, settings in MAKES:
        benchmark = getattr(StaICC, name)(datasets=["mini"], **{**settings, "metrics": "standard"})
        result = benchmark(stand_in)
        differences = rebuild(result).signature().differences(result.signature)
        assert differences == {"scoring": (None, "function")}, name  # how f scores is not the benchmark's


def test_an_unknown_benchmark_is_said(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.benchmark = "Nonesuch"
    message = "this library has no benchmark 'Nonesuch' to verify the result with; pass the benchmark itself"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        rebuild(result)
    found, common = verify(result)
    assert found.not_checkable == (f"prompts, true labels and rows: {message}", f"scores: {message}")
    assert common.inconsistent == ("signature / benchmark: saved 'Normal', recomputed 'Nonesuch'",)


def test_a_group_does_not_verify_a_single_result(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    with pytest.raises(ArgumentError, match=r"^a group of benchmarks was given for a single result of Normal"):
        verify(result, StaICC.Diagnosis(datasets=["mini"]))


def test_data_of_ones_own_are_not_rebuilt(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    result = StaICC.Normal(datasets=[make_own(1)], limit=1)(stand_in)
    assert_prompts_not_checkable(result, r"^the result is over the user's own data .*pass the benchmark itself$")


def test_a_signature_without_k_is_said(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.signature = Signature({key: value for key, value in result.signature.fields.items() if key != "k"})
    assert_prompts_not_checkable(result, r"^this result has no single k \(None\); pass the benchmark itself$")


def test_an_impossible_option_of_a_built_in_benchmark_is_inconsistent(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.signature = Signature({**result.signature.fields, "options": "symbols=ABC"})
    message = "the option 'symbols=ABC' has no integer value"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        rebuild(result)
    found, common = verify(result)
    assert found.same is None
    assert common.inconsistent == (f"signature / options: {message}",)
