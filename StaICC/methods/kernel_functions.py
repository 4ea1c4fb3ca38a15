"""Inference functions that call a kernel, which a method can ask as a feature.

Each is a dataclass with a field ``kernel``, which the harness fills in. Its identity is that of the kernel with what it
adds, so that a store keeps its predictions apart from those of the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from StaICC.inference import forecast
from StaICC.inference.contract import Features, Inference
from StaICC.inference.forecast import Forecast
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import tolerance_of
from StaICC.inference.store import query_key
from StaICC.kernels.protocol import Capability
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.computed_features import compute_features
from StaICC.methods.packed_features import packed_row
from StaICC.methods.requests import Feature


class KernelFunction:
    """An inference function that calls a kernel: the base of dataclasses with a field ``kernel``, and ``batch``."""

    kernel: Any
    capability: ClassVar[Capability | None] = None
    """The capability that the kernel must have, if any; the harness refuses another kernel."""

    def added_identity(self) -> tuple[str, Identity]:
        """Return what is added to the identity of the kernel: its name and its facts."""
        raise NotImplementedError

    def identity(self) -> Identity:
        """Return the identity of the kernel with what is added."""
        return combined(identity_of(self.kernel), *self.added_identity())

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def forecast_prompts(self, prompts: Sequence[Any], label_space: Sequence[str], **kept: Any) -> Forecast:
        """Return what predictions for prompts would cost, without computing them."""
        return forecast.forecast_prompts(self.kernel, prompts, label_space, **kept)

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Return the prediction for one prompt."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the prediction for each prompt."""
        raise NotImplementedError


def of_kernel(feature: Any) -> bool:
    """Return whether the kernel computes a feature, not another function of texts."""
    return isinstance(feature, (str, TextInference, KernelFunction))


@dataclass(eq=False)
class StatedFacts(KernelFunction):
    """Stands for the predictions of a method that states facts of its own: it is not called.

    Args:
        name: The name of the method.
        facts: What it states.
        kernel: The kernel.
    """

    name: str
    facts: Mapping[str, str]
    kernel: Any

    def added_identity(self) -> tuple[str, Identity]:
        """Return name and facts."""
        return self.name, Identity({}, self.facts)


@dataclass(eq=False)
class FeatureFunction(KernelFunction):
    """Features of a kernel as an inference function: its prediction is :class:`Features`.

    Args:
        kernel: The kernel.
        wanted: The features: one, or several that one run of the model computes.
        fewer: The prompts that need only some of the features, with these; by the digests of the prompts.
    """

    kernel: Inference
    wanted: Collection[Feature]
    fewer: Mapping[bytes, Collection[Feature]] = field(default_factory=dict)

    def added_identity(self) -> tuple[str, Identity]:
        """Return the names of the features."""
        return "features", Identity({"names": " ".join(sorted(self.wanted))})

    def features(self, prompt: Any, label_space: Sequence[str]) -> Collection[Feature]:
        """Return the names of the features that are computed of a prompt."""
        if not self.fewer:
            return self.wanted
        return self.fewer.get(query_key(prompt, label_space), self.wanted)

    def _features_of_any(self, prompts: Sequence[Any], label_space: Sequence[str]) -> frozenset[Feature]:
        """Return the features that at least one of the prompts needs."""
        names: set[Feature] = set()
        for prompt in prompts:
            names.update(self.features(prompt, label_space))
        return frozenset(names)

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        """Return the features of each prompt as JSON values.

        Args:
            prompts: The prompts.
            label_space: The labels.

        Returns:
            One :class:`Features` for each prompt; an exception in its place if one of the features is invalid, so that
            the other prompts have theirs.
        """
        names = self._features_of_any(prompts, label_space)
        rows_by_feature = compute_features(self.kernel, names, list(prompts), list(label_space))
        answers: list[Any] = []
        for prompt, *rows_of_prompt in zip(prompts, *rows_by_feature.values(), strict=True):
            row_by_feature = dict(zip(rows_by_feature, rows_of_prompt, strict=True))
            try:
                features = Features()
                for name in sorted(self.features(prompt, label_space)):
                    features[name] = packed_row(name, row_by_feature[name], label_space)
                answers.append(features)
            except Exception as error:
                answers.append(error)
        return answers

    def forecast_prompts(self, prompts: Sequence[Any], label_space: Sequence[str], **kept: Any) -> Forecast:
        """Return what computing the features of prompts would cost, without computing them."""
        names = self._features_of_any(prompts, label_space)
        return forecast.forecast_prompts(self.kernel, prompts, label_space, 0, names, **kept)
