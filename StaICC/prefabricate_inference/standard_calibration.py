"""The calibrations of ``StaICC.methods.calibration`` under the names of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods import calibration as _calibration
from StaICC.methods.calibration import CalibratedKernel as CalibratedKernel
from StaICC.methods.calibration import batch_calibration as batch_calibration
from StaICC.methods.calibration import load_calibration as load_calibration

calibration = _calibration.Calibration
contextual_calibration = _calibration.ContextualCalibration
domain_calibration = _calibration.DomainCalibration
hidden_calibration = _calibration.HiddenCalibration
knn_prompt = _calibration.KNNPrompting
knn_prompt_centroid = _calibration.KNNPromptingCentroid
