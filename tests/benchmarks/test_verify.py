"""Verification: prompts written anew are those of a saved result, or the first that differs is named."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import StaICC
from StaICC.benchmarks.verify import Contradicted, Recomputed, Unchecked, Verification, rebuild, status_of, verify
from StaICC.datasets import Dataset
from StaICC.errors import ArgumentError
from StaICC.results import Result, Signature, load

pytestmark = pytest.mark.filterwarnings("ignore::StaICC.prompting.TemplateWarning")


def assert_recomputed(found: list[Verification]) -> None:
    assert status_of(found) == Recomputed(), found
    assert all(one.same for one in found if one.dataset)


def assert_unchecked(result: Result, reason: str) -> None:
    """The benchmark cannot be rebuilt: nothing is recomputed, and the reason is named."""
    with pytest.raises(ArgumentError, match=reason):
        rebuild(result)
    (found,) = verify(result)
    assert isinstance(found.status, Unchecked)
    assert re.search(reason[1:], found.status.reason)


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
    assert common.dataset is None
    assert found.status == common.status == status_of([found, common]) == Recomputed()


def test_a_saved_suite_verifies(tmp_path: Path, stand_in: Any) -> None:
    StaICC.Suite(datasets=["mini"], limit=2)(stand_in).save(tmp_path / "result.json")
    found = verify(load(tmp_path / "result.json"))
    parts = [(part, dataset) for part in StaICC.Suite(datasets=["mini"]) for dataset in ("mini", None)]
    assert [(one.benchmark, one.dataset) for one in found] == [*parts, ("Suite", None)]
    assert_recomputed(found)


@pytest.mark.parametrize("mode", ["set_in_domain_mode", "set_out_of_domain_mode"])
def test_domain_modes_are_rebuilt(mode: str, stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    getattr(benchmark[0], mode)()
    found, common = verify(benchmark(stand_in))
    assert found.same
    assert found.status == Recomputed()
    assert common.status == Recomputed()


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
    assert_recomputed(verify(result, benchmark))


def test_changed_templates_verify_with_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].prompt_former.change_instruction("Decide. ")
    result = benchmark(stand_in)
    assert_recomputed(verify(result, benchmark))
    assert_unchecked(result, r"^changed by hand, .*: template; pass the benchmark")


def test_demonstrations_by_hand_need_their_benchmark(stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini"])
    benchmark[0].set_demonstration_sampler([[0, 1, 2, 3]] * len(benchmark[0].test_set()))
    result = benchmark(stand_in)
    assert_recomputed(verify(result, benchmark))
    assert_unchecked(result, r"^changed by hand, .*: demonstrations; ")


def test_several_k_need_their_benchmark(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    benchmark = StaICC.Normal(datasets=["mini", make_own(1)])
    benchmark[0].set_k(1)
    result = benchmark(stand_in)
    assert_recomputed(verify(result, benchmark))
    assert_unchecked(result, r"^changed by hand, .*: k; pass the benchmark itself$")


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
    (found,) = verify(result)
    assert isinstance(found.status, Unchecked)
    assert message in found.status.reason


def test_a_group_does_not_verify_a_single_result(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    with pytest.raises(ArgumentError, match=r"^a group of benchmarks was given for a single result of Normal"):
        verify(result, StaICC.Diagnosis(datasets=["mini"]))


def test_data_of_ones_own_are_not_rebuilt(make_own: Callable[..., Dataset], stand_in: Any) -> None:
    result = StaICC.Normal(datasets=[make_own(1)], limit=1)(stand_in)
    assert_unchecked(result, r"^the result is over the user's own data .*pass the benchmark itself$")


def test_an_impossible_option_of_a_built_in_benchmark_is_contradicted(stand_in: Any) -> None:
    result = StaICC.Normal(datasets=["mini"], limit=1)(stand_in)
    result.signature = Signature({**result.signature.fields, "options": "symbols=ABC"})
    status = status_of(verify(result))
    assert isinstance(status, Contradicted)
    assert status.difference.startswith("signature / options: saved 'symbols=ABC'")


@pytest.mark.parametrize("has_arguments", [True, False], ids=["later", "1.0.0"])
def test_of_another_version_the_intervals_are_unchecked_and_the_scores_are_not(
    stand_in: Any, has_arguments: bool
) -> None:
    """The benchmark of a result of version 1.0.0, which records no arguments, must be passed."""
    benchmark = StaICC.Normal(datasets=["mini"], limit=20)
    result = benchmark(stand_in)
    details = result.details["mini"]
    wider = {key: dataclasses.replace(one, high=1.0) for key, one in details.intervals.items()}
    result.details["mini"] = dataclasses.replace(details, intervals=wider)
    fields = {**result.signature.fields, "statistics": "intervals-2-0.95"}
    result.signature = Signature({**fields, "version": "1.0.0"})
    if not has_arguments:
        result.arguments = {}
        assert_unchecked(
            result, r"^the file does not record the arguments of the benchmark; pass the benchmark itself$"
        )
    result = Result.from_dict(result.to_dict())
    given = None if has_arguments else benchmark
    found = verify(result, given)
    assert not [one for finding in found for one in finding.contradicted]
    assert any("intervals / accuracy" in one for finding in found for one in finding.unchecked)
    result.signature = Signature(fields)  # this version does not write these intervals
    assert isinstance(status_of(verify(result, given)), Contradicted)
    result.signature = Signature({**fields, "version": "1.0.0"})
    result.averaged["accuracy"] = 0.99
    assert isinstance(status_of(verify(result, given)), Contradicted)
