"""The functions of ``kernels/huggingface/released_functions.py`` under their module name of 0.1.1."""

from __future__ import annotations

from StaICC.kernels.huggingface import released_functions as _released
from StaICC.removed import removed_names

standard_ICL_inference_with_torch_Causal_LM = _released.standard_ICL_inference_with_torch_Causal_LM
batched_ICL_inference_with_torch_Causal_LM = _released.batched_ICL_inference_with_torch_Causal_LM
noisy_channel_ICL_inference_with_torch_Causal_LM = _released.noisy_channel_ICL_inference_with_torch_Causal_LM

__getattr__ = removed_names(
    __name__,
    {
        "inference_standard_template": "def my_inference(prompt, label_space): return [0.5] * len(label_space)",
        "standard_ICL_inference_with_API_call": "StaICC.EndpointKernel(url, model), or StaICC.text_inference(call)",
    },
)
