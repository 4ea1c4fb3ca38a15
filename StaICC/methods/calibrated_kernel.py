"""A kernel with a trained calibration, as one inference function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import Inference, Served, served_function
from StaICC.inference.identity import Identity, identity_of
from StaICC.methods.batches import in_batches
from StaICC.methods.computed_features import features_of
from StaICC.methods.features import AT_ONCE
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.present_rows import apply_present
from StaICC.methods.released.calibrations import TrainableCalibration


@dataclass(eq=False)
class CalibratedKernel(KernelFunction):
    """A kernel with a trained calibration: an inference function with ``batch`` and ``identity``.

    Args:
        kernel: The kernel. It must provide the feature that the calibration uses.
        calibration: The trained calibration.

    Raises:
        ArgumentError: The calibration is not trained.
    """

    kernel: Inference
    calibration: TrainableCalibration

    def __post_init__(self) -> None:
        """Refuse a calibration that is not trained."""
        self.calibration.check_trained()

    def added_identity(self) -> tuple[str, Identity]:
        """Return the identity of the calibration."""
        return "calibration", identity_of(self.calibration)

    def served(self) -> Served | None:
        """The kernel, if a server runs its model."""
        return served_function(self.kernel)

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        """Return one row of calibrated probabilities for each prompt.

        Args:
            prompts: The prompts.
            label_space: The labels; those that the calibration was trained on.

        Returns:
            The rows. Where the kernel gave an exception in the place of a row, so does this.

        Raises:
            ArgumentError: The labels are others.
        """
        calibration = self.calibration
        if list(label_space) != calibration.label_space:
            raise ArgumentError(
                f"{calibration.name} was trained on the labels {calibration.label_space}, not {list(label_space)}"
            )
        calibrated: list[Any] = []
        for some_prompts in in_batches(prompts, AT_ONCE):
            rows = features_of(self.kernel, some_prompts, label_space, calibration.reads)
            calibrated += apply_present(rows, calibration.apply)
        return calibrated
