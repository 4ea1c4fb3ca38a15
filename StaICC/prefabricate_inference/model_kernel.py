"""The functions of ``StaICC.kernels.huggingface.kernel`` under the module name of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.kernels.huggingface import kernel as _kernel
from StaICC.removed import removed_names

standard_ICL_inference_with_torch_Causal_LM = _kernel.standard_ICL_inference_with_torch_Causal_LM
batched_ICL_inference_with_torch_Causal_LM = _kernel.batched_ICL_inference_with_torch_Causal_LM
noisy_channel_ICL_inference_with_torch_Causal_LM = _kernel.noisy_channel_ICL_inference_with_torch_Causal_LM

__getattr__ = removed_names(
    __name__,
    {
        "inference_standard_template": "def my_inference(prompt, label_space): return [0.5] * len(label_space)",
        "standard_ICL_inference_with_API_call": "StaICC.EndpointKernel(url, model), or StaICC.text_inference(call)",
    },
)
