"""The calibrations of :mod:`StaICC.methods.calibration` under the names of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods.calibration.base import CalibratedKernel as CalibratedKernel
from StaICC.methods.calibration.base import Calibration as calibration
from StaICC.methods.calibration.base import load_calibration as load_calibration
from StaICC.methods.calibration.neighbours import HiddenCalibration as hidden_calibration
from StaICC.methods.calibration.neighbours import KNNPrompting as knn_prompt
from StaICC.methods.calibration.neighbours import KNNPromptingCentroid as knn_prompt_centroid
from StaICC.methods.calibration.prior import ContextualCalibration as contextual_calibration
from StaICC.methods.calibration.prior import DomainCalibration as domain_calibration
from StaICC.methods.calibration.prior import batch_calibration as batch_calibration

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
