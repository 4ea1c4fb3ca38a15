"""The functions of ``StaICC.kernels.huggingface.kernel`` under the module name of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.errors import removed_names
from StaICC.kernels.huggingface import kernel as _kernel

standard_ICL_inference_with_torch_Causal_LM = _kernel.standard_ICL_inference_with_torch_Causal_LM
batched_ICL_inference_with_torch_Causal_LM = _kernel.batched_ICL_inference_with_torch_Causal_LM
noisy_channel_ICL_inference_with_torch_Causal_LM = _kernel.noisy_channel_ICL_inference_with_torch_Causal_LM

__getattr__ = removed_names(__name__, "inference_standard_template standard_ICL_inference_with_API_call")
