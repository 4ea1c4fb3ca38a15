"""Signatures: one line in a fixed order, never parsed back; and the digests that they are made of."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import StaICC
from StaICC.datasets import Dataset
from StaICC.inference.identity import Identity
from StaICC.results import Signature
from StaICC.safe_text import one_line

FIELDS = (
    *("benchmark", "datasets", "data", "sampler", "k", "repeats", "rows", "demonstrations", "template", "channel"),
    *("options", "limit", "method", "scoring", "metrics", "outputs", "statistics", "prompts", "failed", "version"),
)
SOME = st.dictionaries(st.sampled_from(FIELDS), st.none() | st.text(max_size=5))


@given(SOME, SOME, st.randoms())
def test_fields_have_a_fixed_order_survive_json_and_name_what_differs(first: Any, second: Any, draw: Any) -> None:
    names = list(first)
    draw.shuffle(names)
    one, shuffled, other = Signature(first), Signature({name: first[name] for name in names}), Signature(second)
    assert (str(one), one, hash(one)) == (str(shuffled), shuffled, hash(shuffled))
    assert Signature(json.loads(json.dumps(one.to_dict()))) == one
    present = [name for name in FIELDS if first.get(name) is not None]
    assert list(one.to_dict()) == present
    assert str(one) == one_line("|".join(["StaICC", *(f"{name}:{first[name]}" for name in present)]))
    differences = one.differences(other)
    assert (differences == {}) == (one == other)
    assert differences == {
        name: (first.get(name), second.get(name)) for name in FIELDS if first.get(name) != second.get(name)
    }


# -- how scores are computed


@pytest.mark.parametrize(
    "change", [{"label_scoring": "full"}, {"max_length": "512"}, {"on_too_long": "cut"}, {"variant": "0.1.1"}]
)
def test_each_setting_of_a_kernel_is_in_the_signature(change: dict[str, str]) -> None:
    class Kernel:
        def __init__(self, change: dict[str, str], weights: str = "w") -> None:
            self.settings = {"label_scoring": "last", "on_too_long": "error", "variant": "paper", **change}
            self.weights = weights

        def identity(self) -> Identity:
            return Identity({"weights": self.weights}, self.settings)

        def __call__(self, prompt: str, label_space: list[str]) -> int:
            return 0

    rows = [(f"text {row}", row % 2) for row in range(40)]

    def signature(*kernels: Kernel) -> Signature:
        datasets = [Dataset.from_rows(rows, name=f"own{n}", label_space=["a", "b"]) for n, _ in enumerate(kernels)]
        return StaICC.Normal(datasets=datasets, limit=1)(list(kernels)).signature

    base, other = Kernel({}), Kernel(change)
    assert signature(base).differences(signature(other)).keys() == {"scoring"}
    assert signature(base) == signature(Kernel({}, "other weights"))  # who predicted is no setting
    mixed = [signature(base, other).fields["scoring"], signature(other, base).fields["scoring"]]
    assert all(re.fullmatch("mixed-[0-9a-f]{12}", field or "") for field in mixed)
    assert mixed[0] != mixed[1]
    assert signature(base, Kernel({})).fields["scoring"] == signature(base).fields["scoring"]
