"""Many-shot: nested demonstrations, several ``k`` computed together, and what a failing ``k`` leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from StaICC import GLER, Normal
from StaICC.benchmarks.verify import verify
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.kernels.huggingface.forward import distinct_positions
from StaICC.methods.run import Method, run_many_shot
from StaICC.prompting import sample_nested
from tests.methods.fakes import Kernel


def nested(k: int, **more: Any) -> Normal:
    return Normal(k, **{"datasets": ["mini"], "limit": 3, "sampler": "nested", **more})


def test_a_smaller_k_has_the_first_demonstrations() -> None:
    large = sample_nested(50, 40, 9)
    for k in (0, 1, 16, 39):
        assert sample_nested(50, k, 9) == tuple(row[:k] for row in large)
    assert len(set(large)) == 9
    assert all(len(set(row)) == 40 for row in large)
    assert sample_nested(50, 7, 6, 3) == (*[sample_nested(50, 7, 1)[0]] * 3, *[sample_nested(50, 7, 2)[1]] * 3)
    first = [row[0] for row in sample_nested(4, 1, 4000)]
    assert all(abs(first.count(place) - 1000) < 120 for place in range(4))
    for few, many in zip(nested(2)[0].prompt_set(), nested(8)[0].prompt_set(), strict=True):
        assert many.startswith(few[: few.rindex("\n") + 1])  # all but the query


def test_the_sampler_is_signed_and_verified() -> None:
    plain = Normal(4, datasets=["mini"], limit=3)
    assert nested(4, sampler="default").signature() == plain.signature()
    assert "demonstrations" not in str(plain.signature())
    for sampler in ("nested", "nested-shared"):
        result = nested(4, sampler=sampler)(Kernel())
        assert result.signature.fields["demonstrations"] == sampler
        assert not any(finding.contradicted for finding in verify(result))
    experimentor = nested(4)[0]
    experimentor.set_k(2)
    assert experimentor.demonstration_lists() == nested(2)[0].demonstration_lists()
    assert GLER(k=2, datasets=["mini"], limit=2, sampler="nested")(Kernel()).complete
    with pytest.raises(UnknownNameError, match="did you mean 'nested'"):
        nested(4, sampler="nestd")
    with pytest.raises(ArgumentError, match="k = 193, expected at most 192"):
        nested(193)[0].prompt_set()


def test_results_are_those_of_separate_runs(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    kernel = Kernel()
    table = run_many_shot(Method("vanilla", kernel), nested, [8, 2], store=store)
    assert list(table) == ["k=2", "k=8"]
    assert len(kernel.ran) == 12
    for k in (2, 8):
        assert table[f"k={k}"] == nested(k)(Kernel())
    assert kernel.ran[0][:40] == kernel.ran[1][:40]  # the two k of a query follow each other
    timings = [result.timing for result in table.results()]
    costs = [(timing["prompt_characters"], timing["new_characters"]) for timing in timings]
    assert costs[0][1] <= costs[0][0] < costs[1][0]
    assert costs[1][1] < costs[1][0] - 0.6 * costs[0][1]
    again = Kernel()
    assert run_many_shot(Method("vanilla", again), nested, [2, 8], store=store, recheck=False) == table
    assert again.ran == []


def testdistinct_positions() -> None:
    texts = ["abc", "abd", "abc", "b", ""]
    expected = len({text[:end] for text in texts for end in range(1, len(text) + 1)})
    assert distinct_positions(set(texts)) == expected == 5
