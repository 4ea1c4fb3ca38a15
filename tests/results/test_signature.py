"""Signatures: one line in a fixed order, never parsed back; and the digests that they are made of."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from StaICC.errors import SchemaError
from StaICC.results import Signature, digest, short_digest

FIELDS = [
    "benchmark",
    "datasets",
    "data",
    "sampler",
    "k",
    "repeats",
    "rows",
    "demonstrations",
    "template",
    "channel",
    "options",
    "limit",
    "metrics",
    "outputs",
    "statistics",
    "prompts",
    "failed",
    "version",
]
SOME = st.dictionaries(st.sampled_from(FIELDS), st.none() | st.text(max_size=5))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(SOME, st.randoms())
def test_the_order_of_the_fields_is_fixed(fields: dict[str, str | None], random: Any) -> None:
    names = list(fields)
    random.shuffle(names)
    one, other = Signature(fields), Signature({name: fields[name] for name in names})
    assert str(one) == str(other)
    assert one == other
    assert hash(one) == hash(other)
    present = [name for name in FIELDS if fields.get(name) is not None]
    assert list(one.fields) == list(one.to_dict()) == present
    assert str(one) == "|".join(["StaICC", *(f"{name}:{fields[name]}" for name in present)])
    assert one.short().count("|") == str(one).count("|")


@given(SOME)
def test_a_round_trip_changes_nothing(fields: dict[str, str | None]) -> None:
    signature = Signature(fields)
    assert Signature(signature.to_dict()) == signature
    assert Signature(json.loads(json.dumps(signature.to_dict()))) == signature


@given(SOME, SOME)
def test_differences_name_what_differs(first: dict[str, str | None], second: dict[str, str | None]) -> None:
    one, other = Signature(first), Signature(second)
    differences = one.differences(other)
    assert (differences == {}) == (one == other) == (str(one) == str(other) and one.fields == other.fields)
    for name, (mine, theirs) in differences.items():
        assert mine == first.get(name)
        assert theirs == second.get(name)
        assert mine != theirs


def test_short_names_are_all_different() -> None:
    whole = Signature(dict.fromkeys(FIELDS, "x"))
    short = re.findall(r"\|([^:|]+):x", whole.short())
    assert len(set(short)) == len(FIELDS)


def test_a_line_in_full() -> None:
    signature = Signature({"version": "1.0.0", "k": "4", "limit": None, "benchmark": "Normal"})
    assert str(signature) == "StaICC|benchmark:Normal|k:4|version:1.0.0"
    assert signature.short() == "StaICC|b:Normal|k:4|v:1.0.0"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(
        SchemaError, match=r"^a signature has no field 'seed'; there are: benchmark, datasets, .*version$"
    ):
        Signature({"k": "4", "seed": "1"})


def test_signatures_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Signature({}).fields = {}  # type: ignore[misc]


@given(JSON)
def test_digests_are_those_of_the_golden_file(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    assert digest(value) == hashlib.sha256(text).hexdigest()
    assert short_digest(value) == digest(value)[:12]


def test_digests_tell_types_and_order_apart() -> None:
    values: list[Any] = [1, "1", [1], [1, 2], [2, 1], {"a": 1}, None, "", [], True]
    assert len({digest(value) for value in values}) == len(values)
    assert digest("é") != digest("e\u0301")
    assert digest((1, 2)) == digest([1, 2])


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_what_is_no_number_has_no_digest(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest(value)
