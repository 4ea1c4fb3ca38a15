"""Cached features: computed once for all methods, durable, resumed, shared, and not lost by a failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from StaICC.errors import IdentityError, OutputError
from StaICC.inference.identity import Identity
from StaICC.methods import run as ms
from StaICC.methods.features import FeatureCache, FeatureFunction, KernelCall, Request, feature_keys
from tests.methods.fakes import Kernel
from tests.methods.fakes import mini as bench


@pytest.mark.parametrize("variant", ["paper", "staicc", "0.1.1"])
def test_no_prompt_runs_twice(variant: str) -> None:
    kernel = Kernel()
    table = ms.run_all(kernel, bench(), variant, 12)
    assert len(table) == 10
    # Each prompt once; a text that is both encoded and evaluated for its loss, say, may run twice.
    assert len(kernel.ran) <= 1.02 * len(set(kernel.ran))
    assert len({result.model for result in table.results()}) == 2  # the noisy channel is another way to score
    alone = [Kernel() for _ in table]
    for kernel_alone, name in zip(alone, table, strict=True):
        assert ms.Method(name, kernel_alone, variant, 12).run(bench()) == table[name]
    assert len(kernel.ran) < 0.8 * sum(len(kernel_alone.ran) for kernel_alone in alone)


@pytest.mark.parametrize(
    ("together", "variant"), [(True, "paper"), (True, "staicc"), (True, "0.1.1"), (False, "paper")]
)
def test_a_second_run_computes_nothing(variant: str, together: bool, tmp_path: Path) -> None:
    """Also with noise: nothing that was learned is in a key."""
    path = tmp_path / "store.sqlite"

    def run(kernel: Kernel) -> Any:
        if together:
            return dict(ms.run_all(kernel, bench(), variant, 12, store=path, recheck=False))
        names = [*ms.METHODS]
        return {name: ms.Method(name, kernel, variant, 12).run(bench(), store=path, recheck=False) for name in names}

    first = run(Kernel(1e-6))
    again = Kernel(1e-6)
    second = run(again)
    assert again.ran == []
    assert second == first
    for result in second.values():
        assert all(entry.computed == 0 for entry in result.provenance.predictors)
        assert result.timing["reused_prompts"] > 0


def test_a_store_of_another_model_is_found_out(tmp_path: Path) -> None:
    """Cached features are rechecked as predictions are."""
    path = tmp_path / "store.sqlite"
    ms.Method("hidden_calibration", Kernel(), calibration_number=12).run(bench(3), store=path)
    with pytest.raises(IdentityError, match="computed again"):
        ms.Method("hidden_calibration", Kernel(1.0), calibration_number=12).run(bench(4), store=path)
    free = ms.Method("hidden_calibration", Kernel(1.0), calibration_number=12)
    assert free.run(bench(5), store=path, recheck=False).complete


# -- rows that name their method, cost, small parts


def test_features_are_exact_and_checked() -> None:
    cache, direct, keys = FeatureCache(Kernel()), Kernel(), feature_keys(["one", "two"], ["a", "b"])
    prompts = ["one", "two"]
    named = {"hidden": direct.hidden_states, "vocabulary": direct.full_vocabulary_logits, "losses": direct.losses}
    for feature, compute in named.items():
        assert numpy.array_equal(cache.rows([Request(feature, keys)])[0], compute(prompts))
    assert cache.rows([Request("probabilities", keys)]) == [direct.batch(prompts, ["a", "b"])]
    cache.rows([Request("hidden", keys * 3)])
    assert (cache.computed, cache.reused) == (8, 2)
    others = cache.rows([Request("probabilities", feature_keys(prompts, ["a", "b", "c"]))])[0]
    assert others == direct.batch(prompts, ["a", "b", "c"])  # another label space has other rows

    call = KernelCall("noisy channel", "noisy_channel", ("paper",), Identity({}))
    for labels in (["a", "b"], ["a", "b", "c"], ["b", "a"]):
        pairs = feature_keys([("one", "two"), ("three", "four")], labels)
        rows_of_call = cache.rows([Request(call, pairs), Request(call, pairs)])
        assert rows_of_call == [direct.batch([pair for pair, _ in pairs], labels)] * 2

    class Odd(Kernel):
        def hidden_states(self, prompts: Sequence[str]) -> Any:
            return [[1.0, 2.0], [[1.0]], [], [float("nan")], ["x"], [1 / 3]][: len(prompts)]

    rows = FeatureFunction(Odd(), {"hidden"}).batch(list("abcdef"), [])
    assert [isinstance(row, Exception) for row in rows] == [False, True, True, True, True, False]
    with pytest.raises(OutputError, match="query 1"):
        FeatureCache(Odd()).rows([Request("hidden", feature_keys(list("abcdef")))])
