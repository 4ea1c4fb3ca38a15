"""The noisy channel: the probability of the text given each label.

Min et al. 2022, "Noisy Channel Language Model Prompting for Few-Shot Text Classification".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.kernel_functions import KernelFunction


def noisy_channel(data: MethodData) -> Steps:
    """Predict with prompts that begin with the label: the sum of the log-probabilities of all tokens after it.

    A kernel that has no such sum predicts the benchmark's prompts of the noisy channel.
    """
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        feature = ChannelScores("paper")
    view = data.on(noisy_channel=True)
    (rows,) = yield [view.ask(feature)]
    return view.predictions(rows)


@dataclass(frozen=True)
class ChannelScores(KernelFunction):
    """The feature of a kernel that scores the text of each label."""

    form: str
    """``"paper"``: the sum after the label; ``"0.1.1"``: minus the mean loss of the full text."""
    kernel: Any = None

    def added_identity(self) -> tuple[str, Identity]:
        """Return the name of the feature and its form."""
        return "noisy channel", Identity({}, {"variant": self.form})

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt: one text for each label."""
        return self.kernel.noisy_channel(prompts, label_space, self.form)


NOISY_CHANNEL = MethodSpec("noisy_channel", "Noisy channel", noisy_channel, frozenset({Capability.NOISY_CHANNEL}))
