"""Vanilla inference: the model's own predictions."""

from __future__ import annotations

<<<<<<< HEAD
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivityTask
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.features import KernelCall, apply_present, present
from StaICC.methods.label_scores import label_rows, mean_row, read_probabilities
from StaICC.methods.retrieval import views_of_orders
from StaICC.prompting.demonstrations import sample_demonstrations
=======
from StaICC.methods.contract import MethodData, MethodSpec, Steps
>>>>>>> main


def vanilla(data: MethodData) -> Steps:
    """Predict what the model predicts."""
    (rows,) = yield [data.ask()]
    return data.predictions(rows)


VANILLA = MethodSpec("vanilla", "Vanilla", vanilla, frozenset())
