"""The functions of ``StaICC.kernels.huggingface.kernel`` under the module name of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.errors import removed_names
from StaICC.kernels.huggingface.kernel import (
    batched_ICL_inference_with_torch_Causal_LM as batched_ICL_inference_with_torch_Causal_LM,
)
from StaICC.kernels.huggingface.kernel import (
    noisy_channel_ICL_inference_with_torch_Causal_LM as noisy_channel_ICL_inference_with_torch_Causal_LM,
)
from StaICC.kernels.huggingface.kernel import (
    standard_ICL_inference_with_torch_Causal_LM as standard_ICL_inference_with_torch_Causal_LM,
)

__getattr__ = removed_names(__name__, "inference_standard_template standard_ICL_inference_with_API_call")
