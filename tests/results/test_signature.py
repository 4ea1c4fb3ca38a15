"""Signatures: one line in a fixed order, never parsed back; and the digests that they are made of."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
