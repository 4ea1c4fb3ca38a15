"""The noisy channel (Min et al. 2022): the probability of the text given each label."""

from __future__ import annotations

from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods.features import KernelCall
from StaICC.methods.specification import MethodData, MethodSpec, Steps, fresh


def noisy_channel(data: MethodData) -> Steps:
    """Predict with prompts that begin with the label; a kernel without variants computes those of the benchmark."""
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        variant = "0.1.1" if data.variant == "0.1.1" else "paper"
        feature = KernelCall("noisy channel", "noisy_channel", (variant,), Identity({}, {"variant": variant}))
    elif data.variant == "0.1.1":
        raise ArgumentError(
            "variant '0.1.1': the kernel has no method noisy_channel (or overrides what it calls). "
            "Use variant 'paper', or a local model, such as hf:NAME"
        )
    data.experimentor = fresh(data.experimentor, noisy_channel=True)
    (rows,) = yield [data.queries(feature)]
    return rows


NOISY_CHANNEL = MethodSpec(
    "noisy_channel", "Noisy channel", noisy_channel, requires=frozenset({Capability.NOISY_CHANNEL})
)
