"""Nothing is ignored silently: an assignment on a public object works or raises."""

from __future__ import annotations

from typing import Any

import pytest

import StaICC


def constant(prompt: Any, label_space: list[str]) -> int:
    return 0


def benchmark() -> StaICC.Normal:
    return StaICC.Normal(datasets=["mini"], limit=6)


OBJECTS = {
    "benchmark": benchmark,
    "bias": lambda: StaICC.DomainBias(datasets=["mini"], limit=6),
    "sensitivity": lambda: StaICC.GLER(datasets=["mini"], limit=6),
    "group": lambda: StaICC.TripletBias(datasets=["mini"], limit=6),
    "suite": lambda: StaICC.Suite(datasets=["mini"], limit=6),
    "experimentor": lambda: benchmark()[0],
    "prompt_former": lambda: benchmark()[0].prompt_former,
    "test_set": lambda: benchmark()[0].test_set(),
    "split": lambda: benchmark()[0].triplet_dataset,
    "dataset": lambda: benchmark()[0].dataset,
    "card": lambda: benchmark()[0].card,
    "label": lambda: benchmark()[0].test_set()[0][1],
    "statistics": StaICC.Statistics,
    "signature": lambda: benchmark().signature(),
    "result": lambda: benchmark()(constant),
}
EFFECTIVE = {
    "benchmark": {"experimentor"},
    "bias": {"experimentor"},
    "sensitivity": {"experimentor"},
    "experimentor": {"outputs", "prompt_former", "demonstration_sampler"},
    "prompt_former": {"cut_by_length", "label_wrong_rate", "pseudo_prompt"},
}
"""What may be assigned, with effect; tests of each are below or with its class. A result is a record, see below."""


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_attribute_that_nothing_reads_cannot_be_assigned(kind: str) -> None:
    made = OBJECTS[kind]()
    for name in ("k", "mine", "lable_space", "no_such_setting"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(made, name, 1)
        assert not hasattr(made, name)


@pytest.mark.parametrize("kind", [kind for kind in OBJECTS if kind != "result"])
def test_each_public_attribute_is_fixed_or_has_an_effect(kind: str) -> None:
    made = OBJECTS[kind]()
    names = [name for name in dir(type(made)) if not name.startswith("_")]
    assert names
    for name in names:
        if name in EFFECTIVE.get(kind, set()):
            continue
        before = getattr(made, name)
        with pytest.raises((AttributeError, TypeError)):
            setattr(made, name, before)


def test_what_may_be_assigned_to_an_experimentor_has_an_effect() -> None:
    experimentor = benchmark()[0]
    lists = [[0, 1, 2, 3]] * len(experimentor.test_set())
    experimentor.demonstration_sampler = lists
    assert experimentor.demonstration_sampler == lists
    assert experimentor.get_repeat_times() == 1
    experimentor.outputs = "logits"
    assert experimentor.settings_for_signature()["outputs"] == "logits"
    with pytest.raises(StaICC.StaICCError):
        experimentor.outputs = "numbers"  # type: ignore[assignment]
    with pytest.raises(StaICC.StaICCError):
        experimentor.prompt_former = "text"  # type: ignore[assignment]


def test_a_result_is_saved_as_it_is_shown() -> None:
    result = benchmark()(constant)
    result["Averaged results"]["accuracy"] = 0.25
    result["Divided results"]["mini"]["accuracy"] = 0.5
    plain = result.to_dict()
    assert (plain["Averaged results"]["accuracy"], plain["Divided results"]["mini"]["accuracy"]) == (0.25, 0.5)


# -- lists that are copies


def test_demonstrations_cannot_be_changed_in_place() -> None:
    experimentor = benchmark()[0]
    before = experimentor.prompt_set()
    with pytest.raises(TypeError):
        experimentor.demonstration_sampler[0] = [1, 2, 3, 4]
    with pytest.raises(TypeError):
        experimentor.demonstration_sampler[0][0] = 5
    with pytest.raises(TypeError):
        experimentor.demonstration_sampler += [[1, 2, 3, 4]]
    assert experimentor.prompt_set() == before


@pytest.mark.parametrize("base", [StaICC.Normal, StaICC.TripletBias, StaICC.Result])
def test_an_attribute_error_in_a_property_is_not_hidden(base: type) -> None:
    class Own(base):  # type: ignore[misc]
        @property
        def broken(self) -> Any:
            return None.upper()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'upper'"):
        _ = Own.__new__(Own).broken
    with pytest.raises(AttributeError, match="'Own' object has no attribute 'no_such_name'"):
        _ = Own.__new__(Own).no_such_name
