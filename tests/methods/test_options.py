"""Every option of every method, found by introspection, is in the signature of a result."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from StaICC.kernels.registry import OptionFact, options_of
from StaICC.methods.run import Method
from StaICC.methods.specification import METHODS
from StaICC.results import Signature
from tests.methods.fakes import Kernel

NAMES = sorted(METHODS)
OPTIONS = [(name, fact) for name in NAMES for fact in options_of(METHODS[name].options)]


def others(name: str, fact: OptionFact) -> list[Any]:
    hint = str(get_type_hints(METHODS[name].options)[fact.name])
    if "bool" in hint:
        return [not fact.default, fact.default]
    if "Literal" in hint:
        return ["diverse", "balanced"]
    if "int" in hint:
        return [7, 8]
    if "float" in hint:
        return [0.25, 0.5]
    if "Sequence" not in hint:
        return ["One.", "Two."]
    assert "str" in hint, f"add values of {hint} for the option {fact.name} of {name}"
    return [["One.", "Two."], ["Two.", "One."]]


def signed(name: str, **settings: Any) -> str:
    method = Method(name, Kernel(), **settings)
    return str(method._signed(Signature({"benchmark": "Normal", "version": "1"})))


@pytest.mark.parametrize(("name", "fact"), OPTIONS, ids=lambda value: getattr(value, "name", value))
def test_an_option_is_in_the_signature(name: str, fact: OptionFact) -> None:
    first, second = others(name, fact)
    texts = {signed(name), signed(name, **{fact.name: first}), signed(name, **{fact.name: second})}
    assert len(texts) == (2 if fact.type == "bool" else 3)
    assert signed(name, **{fact.name: fact.default}) == signed(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vanilla"])
def test_the_settings_of_all_methods_are_in_the_signature(name: str) -> None:
    assert signed(name) != signed(name, variant="0.1.1")
    if isinstance(METHODS[name].trains, bool):
        assert (signed(name) != signed(name, calibration_number=16)) == METHODS[name].trains
    assert signed(name) != signed("vanilla") == str(Signature({"benchmark": "Normal", "version": "1"}))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("contextual_calibration", {"shared_contexts": True}),
        ("domain_calibration", {"variant": "staicc"}),
        ("hidden_calibration", {"variant": "staicc"}),
        ("knn_prompt", {}),
        ("ppl_icl", {}),
    ],
)
def test_the_calibration_number_is_signed_where_it_is_used(name: str, settings: dict[str, Any]) -> None:
    assert " n=16" in signed(name, calibration_number=16, **settings)
    unused = {"ppl_icl": {"variant": "0.1.1"}, "knn_prompt": {"samples_per_label": 3}}.get(name, {})
    assert " n=16" not in signed(name, calibration_number=16, **unused)
