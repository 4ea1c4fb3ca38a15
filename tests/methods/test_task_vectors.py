"""Task vectors: which layer is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from StaICC import Normal
from StaICC.methods.run import Method
from tests.methods.fakes import Kernel


def calibration_labels(benchmark: Normal) -> dict[str, int]:
    """Return the label of each calibration row by its prompt without demonstrations."""
    experimentor = benchmark[0]
    rows = experimentor.calibration_set()
    label_space = experimentor.get_label_space()
    labels = {}
    for row in range(len(rows)):
        prompt = experimentor.prompt_former.write_prompt_from_dataline([], rows.get_input_text(row))
        labels[str(prompt)] = label_space.index(rows.get_label(row))
    return labels


class RightInOneLayer(Kernel):
    """A model of three layers that predicts calibration rows correctly only with a vector in one of them."""

    def __init__(self, right_layer: int, labels: dict[str, int]) -> None:
        super().__init__()
        self.right_layer = right_layer
        self.labels = labels

    def patched(self, prompts: Sequence[str], label_space: Sequence[str], layer: int, state: Sequence[float]) -> Any:
        rows = []
        for prompt in prompts:
            true_label = self.labels.get(prompt, 0)  # a test row has no label here
            predicted = true_label if layer == self.right_layer else (true_label + 1) % len(label_space)
            rows.append([1.0 if label == predicted else 0.0 for label in range(len(label_space))])
        return rows


@pytest.mark.parametrize("right_layer", [0, 1, 2])
def test_the_layer_with_the_highest_accuracy_on_calibration_rows_is_chosen(right_layer: int) -> None:
    benchmark = Normal(2, datasets=["mini"], limit=4)
    kernel = RightInOneLayer(right_layer, calibration_labels(benchmark))

    result = Method("task_vectors", kernel, calibration_number=8).run(benchmark)

    (predictor,) = result.provenance.predictors
    assert predictor.who["task vector layer"] == str(right_layer)
