"""The noisy channel: the probability of the text given each label.

Min et al. 2022, "Noisy Channel Language Model Prompting for Few-Shot Text Classification".
"""

from __future__ import annotations

from typing import Any

from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.features import KernelCall


def noisy_channel(data: MethodData) -> Steps:
    """Predict with prompts that begin with the label: the sum of the log-probabilities of all tokens after it.

    A kernel that has no such sum predicts the benchmark's prompts of the noisy channel.
    """
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        feature = channel_scores("paper")
    view = data.on(noisy_channel=True)
    (rows,) = yield [view.ask(feature)]
    return view.predictions(rows)


def channel_scores(form: str) -> KernelCall:
    """Return the feature of a kernel that scores the texts of all labels.

    Args:
        form: ``"paper"``: the sum after the label; ``"0.1.1"``: minus the mean loss of the full text.
    """
    return KernelCall("noisy channel", "noisy_channel", (form,), Identity({}, {"variant": form}))


NOISY_CHANNEL = MethodSpec("noisy_channel", "Noisy channel", noisy_channel, frozenset({Capability.NOISY_CHANNEL}))
