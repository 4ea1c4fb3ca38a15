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
def logits_of_text(text: str) -> Any:
    """Return twelve random logits that depend on the last 400 characters of a text alone."""
    seed = [ord(character) for character in text][-400:]
    logits = numpy.random.default_rng(seed).normal(0, 2, 12)
    logits.flags.writeable = False  # all callers share the array
    return logits


def softmax(scores: Any) -> list[float]:
    """Return exp(s) / sum of exp(s) over all scores."""
    powers = numpy.exp(scores)
    probabilities: list[float] = (powers / powers.sum()).tolist()
    return probabilities


class Kernel:
    """A model whose logits depend on the text of the prompt alone.

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
        self.noise = noise
        self.fails = fails
        self.ran: list[str] = []
        """The prompts of all computations, in order."""

    def identity(self) -> Identity:
        return Identity({"model": self.name})

    def logits(self, prompt: str, *features: str) -> Any:
        """Record that a prompt runs for some features, and return its logits, or raise the error of one of them."""
        self.ran.append(prompt)
        for feature in features:
            error = self.fails(feature, prompt)
            if error is not None:
                raise error
        if self.noise == 0.0:
            return logits_of_text(prompt)
        noise_of_run = numpy.random.default_rng(len(self.ran)).normal(0, 1, 12)
        return logits_of_text(prompt) + self.noise * noise_of_run

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Any) -> dict[str, Any]:
        """Return the rows of each wanted feature; the first tokens of the model are the labels."""
        rows: dict[str, Any] = {name: [] for name in wanted}
        for prompt in prompts:
            logits = self.logits(prompt, *wanted)
            log_probabilities = logits - numpy.log(numpy.exp(logits).sum())
            of_labels = log_probabilities[: len(label_space)]
            values = {
                "log_probabilities": of_labels.tolist(),
                "probabilities": softmax(of_labels),
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
        """Return the states of three layers: once, twice and three times the logits; array (prompts, 3, 12)."""
        return numpy.array([numpy.outer([1, 2, 3], self.logits(prompt, "layers")) for prompt in prompts])

    def patched(self, prompts: Sequence[str], label_space: Sequence[str], layer: int, state: Sequence[float]) -> Any:
        """Return probabilities that depend on the prompt, on the layer, and on the state that is put there."""
        shift = numpy.resize(state, len(label_space)) * layer
        rows = []
        for prompt in prompts:
            logits = self.logits(f"{prompt}{layer}", "patched")[: len(label_space)]
            rows.append(softmax(logits + shift))
        return rows

    def steered(
        self, prompts: Sequence[str], label_space: Sequence[str], vectors: Sequence[Sequence[float]], strength: float
    ) -> Any:
        """Return probabilities that depend on the prompt, on the vectors of all layers, and on the strength."""
        shift = strength * numpy.resize(numpy.sum(vectors, axis=0), len(label_space))
        rows = []
        for prompt in prompts:
            logits = self.logits(f"{prompt} steered", "steered")[: len(label_space)]
            rows.append(softmax(logits + shift))
        return rows

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        return numpy.array(self.features(prompts, [], ["vocabulary"])["vocabulary"])

    def losses(self, texts: Sequence[str]) -> list[float]:
        """Return the size of the first logit of each text as its loss."""
        return [float(abs(self.logits(text, "losses")[0])) for text in texts]

    def noisy_channel(self, prompts: Any, label_space: Sequence[str], variant: Any = None) -> Any:
        for texts in prompts:
            self.ran += texts[1:]  # batch counts one text for each prompt
        return self.batch(prompts, label_space)

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), **options: Any
    ) -> list[str]:
        """Write one of the labels of mini for each prompt, as if at random."""
        labels = benchmark_on_mini()[0].get_label_space()
        texts = []
        for prompt in prompts:
            hundredths = int(100 * abs(self.logits(prompt, "text")[0]))
            texts.append(labels[hundredths % len(labels)])
        return texts


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
