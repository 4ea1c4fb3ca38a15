"""Optional attributes of an inference function: one of another kind is refused before the first prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest

import StaICC
import StaICC.benchmarks.running
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Interface, check_interfaces
from StaICC.inference.identity import DeclaresTolerance

PROTOCOLS = {one.__name__: one for one in Interface.__subclasses__()}
WRONG = ["gpt2", 3, 2.5, [1], {"a": 1}, object()]
VALUES: dict[Any, Any] = {bool: True, str: "", int: 0, tuple[str, ...]: (), frozenset[str]: frozenset()}


def members(protocol: type) -> dict[str, Any]:
    return {name: member for name, member in vars(protocol).items() if not name.startswith("_")}


def right(member: Any) -> Any:
    if callable(member):
        return lambda *_: None
    hint = get_type_hints(member.fget)["return"]
    return VALUES.get(hint, frozenset() if "Set" in str(hint) else None)


def fits(value: Any, member: Any) -> bool:
    expected = None if callable(member) else right(member)
    if member is DeclaresTolerance.recheck_tolerance:
        return isinstance(value, (int, float))
    return expected is not None and isinstance(value, type(expected))


class Model:
    def __call__(self, prompt: str, label_space: list[str]) -> int:
        return 0


class Never(Model):
    def __call__(self, prompt: str, label_space: list[str]) -> int:
        pytest.fail("it was called")


CASES = [
    pytest.param(protocol, name, id=f"{protocol.__name__}.{name}")
    for protocol in PROTOCOLS.values()
    for name in members(protocol)
]


@pytest.mark.parametrize("on_class", [True, False])
@pytest.mark.parametrize(("protocol", "name"), CASES)
def test_an_attribute_of_another_kind_is_refused_at_the_start(
    protocol: type, name: str, on_class: bool, tmp_path: Path
) -> None:
    good = {key: right(member) for key, member in members(protocol).items()}
    check_interfaces(type("Good", (Never,), good)())
    assert len(CASES) >= 16
    refused = 0
    for value in WRONG:
        model = type("Mine", (Never,), {**good, name: value} if on_class else {})()
        if not on_class:
            vars(model).update({**good, name: value})
        if fits(value, vars(protocol)[name]):
            check_interfaces(model)
            continue
        with pytest.raises(ArgumentError, match=f"'{name}' of the inference function Mine.*[Rr]ename"):
            StaICC.Normal(datasets=["mini"], limit=2)(model, store=tmp_path / "run.sqlite", model_name="mine")
        refused += 1
    assert refused >= 3


def matrix(self: Any, size: int) -> int:
    return size


@pytest.mark.parametrize("method", [matrix, lambda self: "gpt2", lambda self: None])
def test_an_identity_of_another_kind_or_type_is_refused(method: Any) -> None:
    mine = type("Mine", (Never,), {"identity": method})()
    with pytest.raises(ArgumentError, match="'identity'" if method is matrix else r"Mine\.identity\(\).*Identity"):
        StaICC.Normal(datasets=["mini"], limit=2)(mine)
