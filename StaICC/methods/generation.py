"""Generate then parse: the model writes text, the label is read from it; with chain of thought and self-consistency.

*Self-consistency* (Wang et al. 2023, section 2): of ``samples`` sampled texts, the label that most of them name is the
prediction. *Chain of thought* (Kojima et al. 2022, section 3): the model first writes its reasoning after "Let's think
step by step.", then its answer after "Therefore, the answer is", which is not sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.inference import Failure
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.reply_parser import PARSER_VERSION, parse_reply
from StaICC.kernels.protocol import check_generation
from StaICC.kernels.text_inference import TextInference, without_blank
from StaICC.methods.features import CachingKernel
from StaICC.methods.specification import option

REASONING = "Let's think step by step."
ANSWER = "\nTherefore, among {labels}, the answer is"
_ANSWER_TOKENS = 16


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of generate-then-parse."""

    samples: int = option(1, "Texts for each query; the label that most of them name is predicted.")
    temperature: float | None = option(
        None, "Temperature of the samples; none: 0.7, or the most probable tokens for one sample."
    )
    seed: int = option(0, "Seed of the samples.")
    reasoning: bool = option(False, "Chain of thought: first reasoning, then the answer.")
    max_new_tokens: int | None = option(None, "Tokens of a text at most; none: 16, with reasoning 128.")


class GenerateThenParse:
    """An inference function that returns the share of samples that name each label.

    Samples that name no label have no vote. Of labels with equally many votes, the one that was sampled first wins. If
    no sample names a label, the query is an unparsed reply.

    Args:
        kernel: The caching kernel; its kernel generates text.
        options: See :class:`GenerationOptions`.
    """

    def __init__(self, kernel: CachingKernel, options: GenerationOptions) -> None:
        self.kernel, self.options = kernel, options
        samples = validate_integer("samples", options.samples, 1)
        temperature = options.temperature if options.temperature is not None else 0.7 * (samples > 1)
        if samples > 1 and not temperature:
            raise ArgumentError(f"got temperature = 0 for {samples} samples, expected more: all samples would be equal")
        most = options.max_new_tokens if options.max_new_tokens is not None else 128 if options.reasoning else 16
        most = check_generation(most, (), temperature)
        stop = () if options.reasoning else ("\n",)
        seed = validate_integer("seed", options.seed, 0)
        self.writers = [TextInference(kernel.kernel, most, stop, temperature, seed, one) for one in range(samples)]
        self.reader = TextInference(kernel.kernel, _ANSWER_TOKENS, ("\n",))

    def identity(self) -> Identity:
        """Return the identity of the kernel with the options and the version of the parser."""
        settings = {**{name: str(value) for name, value in asdict(self.options).items()}, "parser": PARSER_VERSION}
        return combined(identity_of(self.kernel), "generate", Identity({}, settings))

    recheck_tolerance = None
    """One other token changes a text."""

    def __call__(self, prompt: str, label_space: Sequence[str]) -> list[float] | str:
        """Return the prediction for one prompt; a text if no sample names a label.

        Raises:
            OutputError: No text could be generated.
        """
        (found,) = self.batch([prompt], label_space)
        if isinstance(found, Exception):
            raise found
        answer: list[float] | str = found
        return answer

    def batch(self, prompts: Sequence[str], label_space: Sequence[str]) -> list[Any]:
        """Return the prediction for each prompt, a text where no sample names a label, or an exception."""
        samples = [self._texts(writer, prompts, label_space) for writer in self.writers]
        return [_shares(texts, label_space) for texts in zip(*samples, strict=True)]

    def _texts(self, writer: TextInference, prompts: Sequence[str], label_space: Sequence[str]) -> list[str | Failure]:
        ends = [without_blank(prompt) for prompt in prompts]
        if not self.options.reasoning:
            return self.kernel.written(writer, ends)
        starts = [f"{end} {REASONING}" for end in ends]
        thoughts = self.kernel.written(writer, starts)
        asked = {
            place: starts[place] + text + ANSWER.format(labels=", ".join(label_space))
            for place, text in enumerate(thoughts)
            if isinstance(text, str)
        }
        answers = dict(zip(asked, self.kernel.written(self.reader, list(asked.values())), strict=True))
        return [answers.get(place, text) for place, text in enumerate(thoughts)]


def _shares(texts: Sequence[str | Failure], label_space: Sequence[str]) -> list[float] | str | Exception:
    """Return the share of each label among the texts that name one; if none does, a text: an unparsed reply."""
    replies = [text for text in texts if isinstance(text, str)]
    votes = [parse_reply(text, label_space).label for text in replies]
    named = [vote for vote in votes if vote is not None]
    if not named and replies:
        return replies[0]
    if not named:
        reason = next(text.reason for text in texts if isinstance(text, Failure))
        return OutputError(f"none of {len(texts)} texts could be generated: {reason}")
    shares = [named.count(label) / len(named) for label in range(len(label_space))]
    first = max(named, key=named.count)
    if shares.index(max(shares)) != first:
        shares[first] = math.nextafter(shares[first], 1.0)
    return shares
