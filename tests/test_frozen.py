"""Nothing is ignored silently: an assignment on a public object works or raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import StaICC


def predict_first_label(prompt: Any, label_space: list[str]) -> int:
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
    "result": lambda: benchmark()(predict_first_label),
}
"""Functions that make a public object of each kind."""
MAY_BE_ASSIGNED = {
    "benchmark": {"experimentor"},
    "bias": {"experimentor"},
    "sensitivity": {"experimentor"},
    "experimentor": {"outputs", "prompt_former", "demonstration_sampler"},
    "prompt_former": {"cut_by_length", "label_wrong_rate", "pseudo_prompt"},
}
"""Attributes whose assignment has an effect; tests of each are below or with its class. A result is a record."""


@pytest.mark.parametrize("name", ["k", "mine", "lable_space", "no_such_setting"])
@pytest.mark.parametrize("make_object", OBJECTS.values(), ids=OBJECTS)
def test_an_attribute_that_nothing_reads_cannot_be_assigned(make_object: Callable[[], Any], name: str) -> None:
    public_object = make_object()

    with pytest.raises((AttributeError, TypeError)):
        setattr(public_object, name, 1)

    assert not hasattr(public_object, name)


@pytest.mark.parametrize("kind", sorted(OBJECTS.keys() - {"result"}))
def test_a_public_attribute_cannot_be_assigned_without_an_effect(kind: str) -> None:
    public_object = OBJECTS[kind]()
    public_names = {name for name in dir(type(public_object)) if not name.startswith("_")}
    assert public_names

    for name in public_names - MAY_BE_ASSIGNED.get(kind, set()):
        value = getattr(public_object, name)
        with pytest.raises((AttributeError, TypeError)):
            setattr(public_object, name, value)


def test_demonstrations_that_are_assigned_to_an_experimentor_are_used() -> None:
    experimentor = benchmark()[0]
    demonstrations_of_queries = [[0, 1, 2, 3]] * len(experimentor.test_set())

    experimentor.demonstration_sampler = demonstrations_of_queries

    assert experimentor.demonstration_sampler == demonstrations_of_queries
    assert experimentor.get_repeat_times() == 1


def test_the_kind_of_outputs_that_is_assigned_to_an_experimentor_is_signed() -> None:
    experimentor = benchmark()[0]

    experimentor.outputs = "logits"

    assert experimentor.settings_for_signature()["outputs"] == "logits"


def test_an_experimentor_refuses_an_assignment_of_another_type() -> None:
    experimentor = benchmark()[0]

    with pytest.raises(StaICC.StaICCError):
        experimentor.outputs = "numbers"  # type: ignore[assignment]
    with pytest.raises(StaICC.StaICCError):
        experimentor.prompt_former = "text"  # type: ignore[assignment]


def test_scores_that_are_assigned_to_a_result_are_saved() -> None:
    result = benchmark()(predict_first_label)

    result["Averaged results"]["accuracy"] = 0.25
    result["Divided results"]["mini"]["accuracy"] = 0.5

    saved = result.to_dict()
    assert saved["Averaged results"]["accuracy"] == 0.25
    assert saved["Divided results"]["mini"]["accuracy"] == 0.5


def test_demonstrations_cannot_be_changed_in_place() -> None:
    experimentor = benchmark()[0]
    prompts = experimentor.prompt_set()

    with pytest.raises(TypeError):
        experimentor.demonstration_sampler[0] = [1, 2, 3, 4]
    with pytest.raises(TypeError):
        experimentor.demonstration_sampler[0][0] = 5
    with pytest.raises(TypeError):
        experimentor.demonstration_sampler += [[1, 2, 3, 4]]

    assert experimentor.prompt_set() == prompts


@pytest.mark.parametrize("base", [StaICC.Normal, StaICC.TripletBias, StaICC.Result])
def test_an_attribute_error_within_a_property_keeps_its_message(base: type) -> None:
    """These classes have a ``__getattr__``, which Python calls after such an error, too."""

    class Derived(base):  # type: ignore[misc]
        @property
        def broken(self) -> Any:
            return None.upper()  # type: ignore[attr-defined]

    instance = Derived.__new__(Derived)

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'upper'"):
        _ = instance.broken
    with pytest.raises(AttributeError, match="'Derived' object has no attribute 'no_such_name'"):
        _ = instance.no_such_name
