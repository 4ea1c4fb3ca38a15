"""The calibrations of ``StaICC.methods.calibration`` under the names of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods.calibration import (
    CalibratedKernel,
    Calibration,
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    KNNPrompting,
    KNNPromptingCentroid,
    batch_calibration,
    load_calibration,
)

__all__ = [
    "CalibratedKernel",
    "batch_calibration",
    "calibration",
    "contextual_calibration",
    "domain_calibration",
    "hidden_calibration",
    "knn_prompt",
    "knn_prompt_centroid",
    "load_calibration",
]

calibration = Calibration
contextual_calibration = ContextualCalibration
domain_calibration = DomainCalibration
hidden_calibration = HiddenCalibration
knn_prompt = KNNPrompting
knn_prompt_centroid = KNNPromptingCentroid
