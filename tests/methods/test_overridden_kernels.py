"""A kernel that overrides part of another is never bypassed: neither by features of one run nor by cached ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from StaICC import Normal
from StaICC.inference.identity import Identity
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.run import Method, run_all


class Model(PPMKernel):
    """Computes several features in one run, and a noisy channel in two variants."""

    joint_features = frozenset({"probabilities", "log_probabilities"})

    def identity(self) -> Identity:
        return Identity({"model": "joint"})

    def score(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return PPMKernel().batch([prompt], label_space)[0]

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return self.score(prompt, label_space)

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        return [self.score(prompt, label_space) for prompt in prompts]

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Any) -> dict[str, Any]:
        return dict.fromkeys(wanted, PPMKernel().batch(prompts, label_space))

    def noisy_channel(self, prompts: Any, label_space: Sequence[str], variant: Any = None) -> Any:
        return PPMKernel().batch(prompts, label_space)


class Call(Model):
    def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return super().__call__(prompt, label_space)[::-1]


class Batch(Model):
    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        return [row[::-1] for row in super().batch(prompts, label_space)]


class Inner(Model):
    def score(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return super().score(prompt, label_space)[::-1]


class Proxy:
    """Passes on what it does not have; the batched form of the kernel does not know of its predictions."""

    def __init__(self) -> None:
        self._kernel = Model()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def identity(self) -> Identity:
        return Identity({"model": "passing"})

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> list[float]:
        return self._kernel(prompt, label_space)[::-1]


class Passing(Proxy):
    """Passes everything on but the predictions."""

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        return [row[::-1] for row in self._kernel.batch(prompts, label_space)]


def patched() -> Model:
    made = Model()
    vars(made)["score"] = lambda prompt, label_space: Model.score(made, prompt, label_space)[::-1]
    return made


KERNELS = {"call": Call, "batch": Batch, "inner": Inner, "proxy": Proxy, "passing": Passing, "patched": patched}
METHODS = ["vanilla", "contextual_calibration", "batch_calibration"]


@pytest.mark.parametrize("name", KERNELS)
def test_methods_use_what_a_kernel_overrides(name: str, tmp_path: Path) -> None:
    benchmark = Normal(datasets=["mini"], limit=6)
    expected = benchmark(KERNELS[name]())
    assert expected.divided != benchmark(Model()).divided
    run = {"model_name": "m", "store": tmp_path / "store"}
    for _ in range(2):  # the second time from the store
        table = run_all(KERNELS[name](), benchmark, "paper", 8, methods=METHODS, **run)
        assert not table.skipped
        assert table["vanilla"].divided == expected.divided
        assert benchmark(KERNELS[name](), **run).divided == expected.divided


def test_methods_share_no_feature_of_a_model_that_changed_between_them() -> None:
    class Changing(PPMKernel):
        factor = 1.0

        def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
            rows = super().batch(prompts, label_space)
            return rows if self.factor == 1 else [row[::-1] for row in rows]

    def change(table: Any) -> None:
        Changing.factor = 2.0

    benchmark = Normal(datasets=["mini"], limit=6)
    names = ["vanilla", "batch_calibration"]
    table = run_all(Changing(), benchmark, "staicc", 8, methods=names, finished=change)
    assert table["vanilla"].divided == benchmark(PPMKernel()).divided
    assert table["batch_calibration"] == Method("batch_calibration", Changing(), "staicc", 8).run(benchmark)
