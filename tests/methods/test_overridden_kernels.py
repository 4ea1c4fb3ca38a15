"""A kernel that overrides part of another is never bypassed: neither by features of one run nor by cached ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC import Normal
from StaICC.kernels.ppm import PPMKernel
from StaICC.methods.run import Method, run_all


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
