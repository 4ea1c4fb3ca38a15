"""Signatures: one line in a fixed order, never parsed back; and the digests that they are made of."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.datasets import Dataset
from StaICC.errors import SchemaError
from StaICC.results import Signature, digest, short_digest
from StaICC.results.signature import common, scoring_field
from StaICC.safe_text import one_line

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
    "method",
    "scoring",
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
    assert str(one) == one_line("|".join(["StaICC", *(f"{name}:{fields[name]}" for name in present)]))


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


def test_a_line_in_full() -> None:
    signature = Signature({"version": "1.0.0", "k": "4", "limit": None, "benchmark": "Normal"})
    assert str(signature) == "StaICC|benchmark:Normal|k:4|version:1.0.0"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(
        SchemaError, match=r"^a signature has no field 'seed'; there are: benchmark, datasets, .*version$"
    ):
        Signature({"k": "4", "seed": "1"})


@given(JSON)
def test_digests_are_those_of_the_golden_file(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    assert digest(value) == hashlib.sha256(text).hexdigest()
    assert short_digest(value) == digest(value)[:12]


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_what_is_no_number_has_no_digest(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest(value)


# -- how scores are computed

SETTINGS = st.dictionaries(st.text("ab;=|+%:\n", max_size=4), st.text("ab;=|+%:\n", max_size=4), max_size=3)


@given(SETTINGS, SETTINGS)
def test_other_settings_are_another_field(first: dict[str, str], second: dict[str, str]) -> None:
    """Whatever separators names and values have."""
    assert (scoring_field(first) == scoring_field(second)) == (first == second)
    assert "|" not in scoring_field(first)
    assert "\n" not in scoring_field(first)


def test_settings_in_full() -> None:
    assert scoring_field({"label_scoring": "last", "bos": "yes"}) == "bos=yes;label_scoring=last"
    assert scoring_field({}) == "function"


@pytest.mark.parametrize(
    "change",
    [
        {"label_scoring": "full"},
        {"label_scoring": "first"},
        {"label_normalisation": "mean"},
        {"max_length": "512"},
        {"on_too_long": "drop-demonstrations"},
        {"variant": "0.1.1"},
    ],
)
def test_each_setting_of_a_kernel_is_in_the_signature(change: dict[str, str]) -> None:
    from StaICC.inference.identity import Identity

    settings = {"label_scoring": "last", "label_normalisation": "sum", "on_too_long": "error", "variant": "paper"}

    class Kernel:
        def __init__(self, settings: dict[str, str], weights: str = "w") -> None:
            self.settings, self.weights = settings, weights

        def identity(self) -> Identity:
            return Identity({"weights": self.weights}, self.settings)

        def __call__(self, prompt: str, label_space: list[str]) -> int:
            return 0

    def signature(*kernels: Kernel) -> Signature:
        names = ["one", "two"][: len(kernels)]
        rows = [(f"text {row}", row % 2) for row in range(40)]
        datasets = [Dataset.from_rows(rows, name=one, label_space=["a", "b"]) for one in names]
        return StaICC.Normal(datasets=datasets, limit=1)(list(kernels)).signature

    base, other = Kernel(settings), Kernel({**settings, **change})
    assert signature(base).differences(signature(other)).keys() == {"scoring"}
    assert signature(base) == signature(Kernel(settings, "other weights"))  # who predicted is no setting
    mixed = [signature(base, other), signature(other, base)]
    assert all(re.fullmatch("mixed-[0-9a-f]{12}", one.fields["scoring"] or "") for one in mixed)
    assert mixed[0] != mixed[1]
    assert signature(base, Kernel(settings)).fields["scoring"] == signature(base).fields["scoring"]


def test_what_all_share() -> None:
    assert common(["a", "a"]) == "a"
    assert common([None, None]) is None
    assert common(["a", None]) != common([None, "a"])
    assert str(common(["a", "b"])).startswith("mixed-")
