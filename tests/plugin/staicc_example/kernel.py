"""A kernel: the more often a label's name occurs in the prompt, the more probable it is."""

from __future__ import annotations

from StaICC import Capability, Identity


class LabelCounts:
    """Counts label names in the prompt."""

    def __init__(self, smoothing: float = 1.0) -> None:
        self.smoothing = smoothing

    @classmethod
    def from_spec(cls, spec: str, **options: float) -> LabelCounts:
        """Make the kernel of ``label_counts`` or ``label_counts:SMOOTHING``."""
        argument = spec.partition(":")[2]
        return cls(float(argument), **options) if argument else cls(**options)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.LABEL_SCORES})

    def identity(self) -> Identity:
        return Identity(who={"model": "label counts, version 1"}, settings={"smoothing": repr(self.smoothing)})

    def __call__(self, prompt: str, label_space: list[str]) -> list[float]:
        counts = [prompt.count(label) + self.smoothing for label in label_space]
        return [count / sum(counts) for count in counts]
