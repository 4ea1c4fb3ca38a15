"""Generate, then parse: the model writes text, from which the label is read.

*Self-consistency* (Wang et al. 2023, section 2): of ``samples`` sampled texts, the label that most of them name is the
prediction. *Chain of thought* (Kojima et al. 2022, section 3): the model first writes its reasoning after "Let's think
step by step.", then its answer after "Therefore, the answer is", which is not sampled.

*Calibrated replies*: the labels' shares among the samples, divided by their mean over a batch. The correction is that
of batch calibration (Zhou et al. 2024), with shares in the place of probabilities, so that it works where a model
returns text only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, cast

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Answer, Text
from StaICC.inference.replies import Failure
from StaICC.inference.reply_parser import PARSER_VERSION, parse_reply
from StaICC.kernels.protocol import Capability, check_generation, without_blank
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.batch_calibration import batch_calibrated
from StaICC.methods.features import Request, feature_keys
from StaICC.methods.specification import MethodData, MethodSpec, Steps
from StaICC.prompting.prompt_text import extended, prefixes_of
from StaICC.prompting.prompt_writer import Prompt

REASONING = "Let's think step by step."
ANSWER = "\nTherefore, among {labels}, the answer is"
_ANSWER_TOKENS = 16


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of generate-then-parse."""

    samples: int = 1
    """Texts for each query; the label that most of them name is predicted."""
    temperature: float | None = None
    """Temperature of the samples; none: 0.7, or the most probable tokens for one sample."""
    seed: int = 0
    """Seed of the samples."""
    reasoning: bool = False
    """Chain of thought: first reasoning, then the answer."""
    max_new_tokens: int | None = None
    """Tokens of a text at most; none: 16, with reasoning 128."""

    def writers(self) -> list[TextInference]:
        """Return the features of the samples.

        Raises:
            ArgumentError: An option is invalid.
        """
        samples = validate_integer("samples", self.samples, 1)
        temperature = self.temperature if self.temperature is not None else 0.7 * (samples > 1)
        if samples > 1 and not temperature:
            raise ArgumentError(f"got temperature = 0 for {samples} samples, expected more: all samples would be equal")
        most = self.max_new_tokens if self.max_new_tokens is not None else 128 if self.reasoning else 16
        most = check_generation(most, (), temperature)
        stop = () if self.reasoning else ("\n",)
        seed = validate_integer("seed", self.seed, 0)
        return [TextInference(None, most, stop, temperature, seed, number) for number in range(samples)]


def generate(data: MethodData) -> Steps:
    """Predict the share of samples that name each label.

    Samples that name no label have no vote. Of labels with equally many votes, the one that was sampled first wins. If
    no sample names a label, the query is an unparsed reply.
    """
    if data.experimentor.is_noisy:
        raise ArgumentError("the noisy channel has no text to generate: got noisy_channel=True, expected False")
    writers = data.options.writers()
    data.facts.update({name: str(value) for name, value in asdict(data.options).items()}, parser=PARSER_VERSION)
    queries = data.experimentor.all_queries()
    starts = []
    for query in queries:
        assert isinstance(query.prompt, str)  # the noisy channel is refused above
        start = without_blank(query.prompt)
        starts.append(extended(start, f" {REASONING}") if data.options.reasoning else start)
    samples = yield [Request(writer, feature_keys(starts)) for writer in writers]
    if data.options.reasoning:
        ends = [ANSWER.format(labels=", ".join(query.label_space)) for query in queries]
        reader = TextInference(None, _ANSWER_TOKENS, ("\n",))
        prompts = [
            extended(start, text + end)
            for texts in samples
            for start, text, end in zip(starts, texts, ends, strict=True)
            if isinstance(text, str)
        ]
        answers = iter((yield [Request(reader, feature_keys(prompts))])[0])
        samples = [[next(answers) if isinstance(text, str) else text for text in texts] for texts in samples]
    texts_of = list(zip(*samples, strict=True))
    incomplete = sum(0 < sum(isinstance(text, str) for text in texts) < len(texts) for texts in texts_of)
    if incomplete:
        data.warnings.append(
            f"{incomplete} of {len(texts_of)} predictions count fewer than {len(samples)} texts, because others could "
            "not be generated"
        )
    return [shares(texts, query.label_space, query.prompt) for texts, query in zip(texts_of, queries, strict=True)]


def shares(texts: Sequence[str | Failure], label_space: Sequence[str], prompt: Prompt = "") -> Answer | Failure:
    """Return the share of each label among the texts that name one; if none does, a text: an unparsed reply.

    Args:
        texts: The texts that were generated after a prompt, and the failures.
        label_space: The label names.
        prompt: The prompt, whose template a text may repeat.
    """
    replies = [text for text in texts if isinstance(text, str)]
    label_prefix, text_prefixes = prefixes_of(prompt)
    votes = [parse_reply(text, label_space, label_prefix, text_prefixes).label for text in replies]
    named = [vote for vote in votes if vote is not None]
    if not named and replies:
        return Text(replies[0])
    if not named:
        reason = next(text.reason for text in texts if isinstance(text, Failure))
        return Failure(f"none of {len(texts)} texts could be generated: {reason}")
    row = [named.count(label) / len(named) for label in range(len(label_space))]
    first = max(named, key=named.count)
    if row.index(max(row)) != first:
        row[first] = math.nextafter(row[first], 1.0)
    return row


@dataclass(frozen=True, slots=True)
class CalibratedGenerationOptions(GenerationOptions):
    """Options of calibrated replies."""

    samples: int = 10
    """Texts for each query, whose labels are counted."""
    batch_size: int = 128
    """Queries in a batch."""


def generation_calibration(data: MethodData) -> Steps:
    """Divide the share of samples that name each label by its mean; queries without a label stay unparsed."""
    options = replace(data.options, samples=validate_integer("samples", data.options.samples, 2))
    rows = yield from generate(replace(data, options=options))
    return data.by_condition(cast("Sequence[Any]", rows), [partial(_calibrated, data)])


def _calibrated(data: MethodData, rows: Sequence[Any]) -> list[Any]:
    """Return the predictions of a condition, calibrated; replies without a label stay as they are."""
    scored = [row for row in rows if not isinstance(row, str)]
    if len(scored) == 1:
        data.warnings.append("one reply only has a label, so it is not calibrated: there is no mean of a batch")
        return list(rows)
    calibrated = iter(batch_calibrated(scored, data.options.batch_size))
    return [row if isinstance(row, str) else next(calibrated) for row in rows]


_TEXT = frozenset({Capability.TEXT})
GENERATE = MethodSpec("generate", "Generate then parse", generate, _TEXT, options=GenerationOptions)
GENERATION_CALIBRATION = MethodSpec(
    "generation_calibration", "Calibrated replies", generation_calibration, _TEXT, options=CalibratedGenerationOptions
)
