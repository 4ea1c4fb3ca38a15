"""Verification: prompts written anew are those of a saved result, or the first that differs is named."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import rebuild, verify
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError
from StaICC.results import Result, Signature, load

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")

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
    (found,) = verify(result)
    assert (found.dataset, found.same, found.first_difference) == ("mini", True, None)
    assert found.message == f"the {result.details['mini'].asked} prompts are the same"


def test_a_saved_suite_verifies(tmp_path: Path, stand_in: Any) -> None:
    StaICC.Suite(datasets=["mini"], limit=2)(stand_in).save(tmp_path / "result.json")
    found = verify(load(tmp_path / "result.json"))
    assert len(found) == 7
    assert all(one.same for one in found)


@pytest.mark.parametrize("mode", ["set_in_domain_mode", "set_out_of_domain_mode"])
def test_domain_modes_are_rebuilt(mode: str, stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    getattr(benchmark[0], mode)()
    (found,) = verify(benchmark(stand_in))
    assert found.same


@pytest.mark.parametrize("number", [0, 1, 17, 191])
def test_the_first_query_that_differs_is_named(number: int, stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    result = benchmark(stand_in)
    rows = len(benchmark[0].test_set())
    lists = benchmark[0].demonstration_sampler
    changed = StaICC.Normal(datasets=["mini"])
    experimentor = changed[0]
    other = [list(positions) for positions in lists]
    other[number] = other[number][::-1]
    if number + 1 < 2 * rows:
        other[-1] = other[-1][::-1]
    experimentor.demonstration_lists = lambda: tuple(map(tuple, other))  # type: ignore[method-assign]
    (found,) = verify(result, changed)
    assert (found.same, found.first_difference) == (False, number)
    assert found.message == f"query {number} is the first whose prompt differs"


def test_a_changed_digest_is_seen_even_if_no_mark_differs(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"])(stand_in)
    details = dataclasses.replace(result.details["mini"], prompts="0" * 64)
    result.details["mini"] = details
    (found,) = verify(result)
    assert (found.same, found.first_difference) == (False, None)
    assert found.message.startswith(f"the digest of all prompts differs: saved {'0' * 64}, written ")


def test_fewer_queries_are_a_difference(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"])(stand_in)
    (found,) = verify(result, StaICC.Normal(datasets=["mini"], limit=5))
    assert (found.same, found.first_difference) == (False, 5)


def test_own_data_verifies_with_its_benchmark(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=[make_own(2)])
    (found,) = verify(benchmark(stand_in), benchmark)
    assert found.same


def test_changed_templates_verify_with_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].prompt_former.change_instruction("Decide. ")
    result = benchmark(stand_in)
    (found,) = verify(result, benchmark)
    assert found.same
    with pytest.raises(
        ArgumentError, match=r"^the template of this result were changed by hand \(changed-.*; pass the ben"
    ):
        verify(result)


def test_demonstrations_by_hand_need_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].set_demonstration_sampler([[0, 1, 2, 3]] * len(benchmark[0].test_set()))
    result = benchmark(stand_in)
    assert verify(result, benchmark)[0].same
    with pytest.raises(ArgumentError, match=r"^the demonstrations of this result were changed by hand \(manual-"):
        verify(result)


def test_several_k_need_their_benchmark(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini", make_own(1)])
    benchmark[0].set_k(1)
    result = benchmark(stand_in)
    assert all(found.same for found in verify(result, benchmark))
    with pytest.raises(ArgumentError, match=r"^this result has no single k \(mixed-.*\); pass the benchmark itself$"):
        verify(result)


def test_rebuilding_gives_the_same_signature(stand_in: Any) -> None:
    for name, settings in MAKES:
        benchmark = getattr(StaICC, name)(datasets=["mini"], **{**settings, "metrics": "standard"})
        result = benchmark(stand_in)
        assert rebuild(result).signature() == result.signature, name


def test_an_unknown_benchmark_is_said(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.benchmark = "Nonesuch"
    message = "this library has no benchmark 'Nonesuch' to verify the result with; pass the benchmark itself"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        verify(result)


def test_a_group_does_not_verify_a_single_result(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    with pytest.raises(ArgumentError, match=r"^a group of benchmarks was given for a single result of Normal"):
        verify(result, StaICC.Diagnosis(datasets=["mini"]))


def test_data_of_ones_own_are_not_rebuilt(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    result = StaICC.Normal(datasets=[make_own(1)], limit=1)(stand_in)
    with pytest.raises(ArgumentError, match=r"^the result is over data of the user's own .*pass the benchmark itself$"):
        verify(result)


def test_a_signature_without_k_is_said(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.signature = Signature({key: value for key, value in result.signature.fields.items() if key != "k"})
    with pytest.raises(ArgumentError, match=r"^this result has no single k \(None\); pass the benchmark itself$"):
        verify(result)


def test_an_option_that_is_no_number_is_said(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.signature = Signature({**result.signature.fields, "options": "symbols=ABC"})
    message = "the option 'symbols=ABC' of this result cannot be read back; pass the benchmark itself"
    with pytest.raises(ArgumentError, match=f"^{re.escape(message)}$"):
        verify(result)
