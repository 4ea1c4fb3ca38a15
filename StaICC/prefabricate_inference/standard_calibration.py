"""Calibrations: contextual, domain, batch, hidden, and k-nearest-neighbour prompting.

Each learns from ``calibration_number`` prompts of the calibration set (128 in the paper's Table 2) and then corrects
the model's predictions. Contextual, domain and batch calibration read label probabilities only, need the standard
library only, and so work with any inference function, endpoints included. Hidden calibration reads the last hidden
state, k-nearest-neighbour prompting the logits of the whole vocabulary.

As in 0.1.1::

    calibration = hidden_calibration(experimentor.get_label_space())
    calibration.train(
        experimentor.prompt_former.write_prompt_from_dataline, feedforward, experimentor.calibration_set()
    )
    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=model, tokenizer=tokenizer, calibration_function=calibration.inference,
    )

``feedforward(prompt, label_space)`` is any inference function; where it has a ``batch`` form, or is a kernel, it is
asked once for all training prompts. ``CalibratedKernel(kernel, calibration)`` is the same inference function, batched.

Each has two variants. ``"paper"`` is what the method's own paper defines; ``"0.1.1"`` is the release's arithmetic, bug
for bug. The class names of 0.1.1 stand as aliases.
"""

from __future__ import annotations

from StaICC.prefabricate_inference.calibration import CalibratedKernel, Calibration, load_calibration
from StaICC.prefabricate_inference.neighbour_calibration import HiddenCalibration, KNNPrompting, KNNPromptingCentroid
from StaICC.prefabricate_inference.prior_calibration import ContextualCalibration, DomainCalibration, batch_calibration

__all__ = [
    "CalibratedKernel",
    "Calibration",
    "ContextualCalibration",
    "DomainCalibration",
    "HiddenCalibration",
    "KNNPrompting",
    "KNNPromptingCentroid",
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
