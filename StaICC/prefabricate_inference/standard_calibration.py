"""The calibrations of ``StaICC.methods.calibration`` under the names of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods.calibration import CalibratedKernel, batch_calibration, load_calibration
from StaICC.methods.calibration import Calibration as calibration
from StaICC.methods.calibration import ContextualCalibration as contextual_calibration
from StaICC.methods.calibration import DomainCalibration as domain_calibration
from StaICC.methods.calibration import HiddenCalibration as hidden_calibration
from StaICC.methods.calibration import KNNPrompting as knn_prompt
from StaICC.methods.calibration import KNNPromptingCentroid as knn_prompt_centroid

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
