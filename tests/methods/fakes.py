"""A made-up model of twelve tokens, which computes all features in one run and counts the prompts that it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from StaICC import Normal
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.methods.catalogue import METHODS
from StaICC.methods.released.methods import steps_of
from StaICC.methods.run import Method


@functools.cache
def _logits(prompt: str) -> Any:
    made = numpy.random.default_rng([ord(character) for character in prompt][-400:]).normal(0, 2, 12)
    made.flags.writeable = False  # it is shared
    return made


class Kernel:
    """Logits depend on the text alone.

    Args:
        noise: Standard deviation of what is added to the logits of each run.
        fails: Returns the error of a feature of a prompt, or ``None``.
    """

    joint_features = frozenset({"probabilities", "log_probabilities", "hidden", "vocabulary"})
    recheck_tolerance = 1e-4
    name = "twelve tokens"

    def __init__(
        self, noise: float = 0.0, fails: Callable[[str, str], Exception | None] = lambda feature, prompt: None
    ) -> None:
        self.ran: list[str] = []
        self.noise, self.fails = noise, fails

    def identity(self) -> Identity:
        return Identity({"model": self.name})

    def logits(self, prompt: str, *features: str) -> Any:
        self.ran.append(prompt)
        for error in (self.fails(feature, prompt) for feature in features):
            if error is not None:
                raise error
        made = _logits(prompt)
        return made + self.noise * numpy.random.default_rng(len(self.ran)).normal(0, 1, 12) if self.noise else made

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Any) -> dict[str, Any]:
        rows: dict[str, Any] = {name: [] for name in wanted}
        for prompt in prompts:
            logits = self.logits(prompt, *wanted)
            logs = (logits - numpy.log(numpy.exp(logits).sum()))[: len(label_space)]
            values = {
                "log_probabilities": logs.tolist(),
                "probabilities": (numpy.exp(logs) / numpy.exp(logs).sum()).tolist(),
                "vocabulary": logits.astype("float32"),
                "hidden": logits[::-1].astype("float32"),
            }
            for name in wanted:
                rows[name].append(values[name])
        return rows

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        texts = ["".join(prompt) for prompt in prompts]
        return self.features(texts, label_space, ["probabilities"])["probabilities"]

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        return self.batch([prompt], label_space)[0]

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        return numpy.array(self.features(prompts, [], ["hidden"])["hidden"])

    def layer_states(self, prompts: Sequence[str]) -> Any:
        return numpy.array([numpy.outer([1, 2, 3], self.logits(prompt, "layers")) for prompt in prompts])

    def patched(self, prompts: Sequence[str], label_space: Sequence[str], layer: int, state: Sequence[float]) -> Any:
        patch = numpy.resize(state, len(label_space)) * layer
        texts = [f"{prompt}{layer}" for prompt in prompts]
        logits = [self.logits(text, "patched")[: len(label_space)] + patch for text in texts]
        return [(numpy.exp(row) / numpy.exp(row).sum()).tolist() for row in logits]

    def steered(
        self, prompts: Sequence[str], label_space: Sequence[str], vectors: Sequence[Sequence[float]], strength: float
    ) -> Any:
        shift = strength * numpy.resize(numpy.sum(vectors, 0), len(label_space))
        logits = [self.logits(f"{prompt} steered", "steered")[: len(label_space)] + shift for prompt in prompts]
        return [(numpy.exp(row) / numpy.exp(row).sum()).tolist() for row in logits]

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        return numpy.array(self.features(prompts, [], ["vocabulary"])["vocabulary"])

    def losses(self, texts: Sequence[str]) -> list[float]:
        return [float(abs(self.logits(text, "losses")[0])) for text in texts]

    def noisy_channel(self, prompts: Any, label_space: Sequence[str], variant: Any = None) -> Any:
        for texts in prompts:
            self.ran += texts[1:]  # batch counts one text for each prompt
        return self.batch(prompts, label_space)

    def generate(self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), **how: Any) -> list[str]:
        labels = benchmark_on_mini()[0].get_label_space()
        return [labels[int(100 * abs(self.logits(prompt, "text")[0])) % len(labels)] for prompt in prompts]


def is_in_release(name: str) -> bool:
    """Whether StaICC 0.1.1 has a method."""
    try:
        steps_of(METHODS[name], "0.1.1")
    except ArgumentError:
        return False
    return True


VARIANTS = [(name, variant) for name in METHODS for variant in ("paper", "0.1.1")]
METHODS_WITH_VARIANTS = [(name, variant) for name, variant in VARIANTS if variant == "paper" or is_in_release(name)]
"""Each built-in method as its paper and as the release define it."""


def benchmark_on_mini(limit: int | None = 4, k: int = 2, kind: Any = Normal, **options: Any) -> Any:
    """Return a benchmark on the built-in data set "mini": four test rows, two demonstrations, if nothing else is said.

    Each test row is queried twice, with other demonstrations.
    """
    return kind(k=k, datasets=["mini"], limit=limit, **options)


def data_for_a_method(benchmark: Any) -> Any:
    """Return the data that a method gets of the benchmark's first data set."""
    return Method("vanilla", Kernel()).started(benchmark[0]).data


def predictions_of(result: Any, name: str = "mini") -> list[Any]:
    """Return the predicted probabilities of all queries."""
    return [record["predicted_probabilities"] for record in result.outputs[name]]
