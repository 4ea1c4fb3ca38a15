"""The calibrations of :mod:`StaICC.methods.released.calibrations` under the names of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods.calibrated_kernel import CalibratedKernel as CalibratedKernel
from StaICC.methods.released.calibrations import ContextualCalibration as contextual_calibration
from StaICC.methods.released.calibrations import DomainCalibration as domain_calibration
from StaICC.methods.released.calibrations import HiddenCalibration as hidden_calibration
from StaICC.methods.released.calibrations import KNNPrompting as knn_prompt
from StaICC.methods.released.calibrations import KNNPromptingCentroid as knn_prompt_centroid
from StaICC.methods.released.calibrations import TrainableCalibration as calibration
from StaICC.methods.released.calibrations import batch_calibration as batch_calibration
from StaICC.methods.released.calibrations import load_calibration as load_calibration

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
