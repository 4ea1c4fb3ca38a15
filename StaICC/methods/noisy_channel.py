"""The noisy channel: the probability of the text given each label.

Min et al. 2022, "Noisy Channel Language Model Prompting for Few-Shot Text Classification".
"""

from __future__ import annotations

from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.features import KernelCall


def noisy_channel(data: spec.MethodData) -> spec.Steps:
    """Predict with prompts that begin with the label; a kernel without variants computes those of the benchmark."""
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        variant = "0.1.1" if data.variant == "0.1.1" else "paper"
        feature = KernelCall("noisy channel", "noisy_channel", (variant,), Identity({}, {"variant": variant}))
    elif data.variant == "0.1.1":
        got = "the kernel has no method noisy_channel (or overrides what it calls)"
        raise ArgumentError(f"variant '0.1.1': {got}. Use variant 'paper', or a local model, such as hf:NAME")
    data.experimentor = spec.clean_copy(data.experimentor, noisy_channel=True)
    (rows,) = yield [data.queries(feature)]
    return rows


NOISY_CHANNEL = spec.MethodSpec("noisy_channel", "Noisy channel", noisy_channel, frozenset({Capability.NOISY_CHANNEL}))
