"""Generate, then parse: the model writes text, from which the label is read.

*Self-consistency* (Wang et al. 2023, section 2): of ``samples`` sampled texts, the label that most of them name is the
prediction. *Chain of thought* (Kojima et al. 2022, section 3): the model first writes its reasoning after "Let's think
step by step.", then its answer after "Therefore, the answer is", which is not sampled.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Answer, Text
from StaICC.inference.replies import Failure
from StaICC.inference.reply_parser import PARSER_VERSION, parse_reply
from StaICC.kernels.protocol import Capability, check_generation, without_blank
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.requests import Request
from StaICC.methods.unlabelled_queries import UnlabelledQuery
from StaICC.prompting.prompt_text import Prompt, extended, prefixes_of

REASONING = "Let's think step by step."
ANSWER = "\nTherefore, among {labels}, the answer is"
ANSWER_TOKENS = 16
"""Most tokens of an answer; label names are shorter."""
REASONING_TOKENS = 128
"""Most tokens of the reasoning before the answer, as in Kojima et al. 2022."""
SAMPLING_TEMPERATURE = 0.7
"""Temperature of several samples, as in Wang et al. 2023."""


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
        """Return the functions that generate the texts of a query: one for each sample, which differ in its number.

        Raises:
            ArgumentError: An option is invalid.
        """
        samples = validate_integer("samples", self.samples, 1)
        temperature = self.temperature
        if temperature is None:
            temperature = SAMPLING_TEMPERATURE if samples > 1 else 0.0
        if samples > 1 and not temperature:
            raise ArgumentError(f"got temperature = 0 for {samples} samples, expected more: all samples would be equal")
        max_new_tokens = self.max_new_tokens
        if max_new_tokens is None:
            max_new_tokens = REASONING_TOKENS if self.reasoning else ANSWER_TOKENS
        max_new_tokens = check_generation(max_new_tokens, (), temperature)
        stop = () if self.reasoning else ("\n",)
        seed = validate_integer("seed", self.seed, 0)
        writers = []
        for sample_number in range(samples):
            # The kernel is None: the run calls the kernel of the method.
            writers.append(TextInference(None, max_new_tokens, stop, temperature, seed, sample=sample_number))
        return writers


def generate(data: MethodData) -> Steps:
    """Let the model write texts after each query, and predict the share of these that name each label.

    Texts that name no label do not count. Of labels with equal shares, the one that was named first wins. If no text
    names a label, the prediction is a text, which is scored as a reply without a label.
    """
    rows = yield from sampled_shares(data, data.options)
    return data.predictions(rows)


def sampled_shares(
    data: MethodData, options: GenerationOptions
) -> Generator[Sequence[Request], list[list[Any]], list[Answer | Failure]]:
    """Let the model write texts after each query, and return the share of these that name each label.

    Args:
        data: The data of the method.
        options: How many texts, and how they are generated.

    Returns:
        For each query one share for each label; a text if none of its texts names a label; a failure if it has no text
        (:func:`shares`).
    """
    if data.is_noisy:
        raise ArgumentError("the noisy channel has no text to generate: got noisy_channel=True, expected False")
    writers = options.writers()
    for name, value in asdict(options).items():
        data.fact(name, value)
    data.fact("parser", PARSER_VERSION)

    queries = data.queries
    starts = [_start_of_text(query.prompt, options.reasoning) for query in queries]
    queries_with_starts = [query.with_prompt(start) for query, start in zip(queries, starts, strict=True)]
    # A sample has one text for each query; a failure where it could not be generated.
    samples = yield [data.ask(writer, queries_with_starts) for writer in writers]
    if options.reasoning:
        samples = yield from _answers_after_reasoning(data, queries, starts, samples)

    shares_of_queries = []
    incomplete_count = 0
    for query_number, query in enumerate(queries):
        texts = [sample[query_number] for sample in samples]
        shares_of_queries.append(shares(texts, query.label_space, query.prompt))
        generated_count = sum(isinstance(text, str) for text in texts)
        if 0 < generated_count < len(texts):
            incomplete_count += 1
    if incomplete_count:
        data.warn(
            f"{incomplete_count} of {len(queries)} predictions count fewer than {len(samples)} texts, because others "
            "could not be generated"
        )
    return shares_of_queries


def _start_of_text(prompt: Prompt, reasoning: bool) -> str:
    """Return the prompt after which the model writes: without its last blank, and with the call to reason if wanted."""
    assert isinstance(prompt, str)  # the noisy channel is refused
    start = without_blank(prompt)
    if reasoning:
        return extended(start, f" {REASONING}")
    return start


def _answers_after_reasoning(
    data: MethodData,
    queries: Sequence[UnlabelledQuery],
    starts: Sequence[str],
    samples: Sequence[Sequence[Any]],
) -> Generator[Sequence[Request], list[list[Any]], list[list[Any]]]:
    """Let the model write its answer after each reasoning.

    As in all methods, ``yield`` passes a list of requests to the run, and returns a list of rows for each request.

    Args:
        data: The data of the method.
        queries: The queries.
        starts: For each query, the prompt after which the reasoning was written.
        samples: For each sample, the reasoning of each query, or a failure.

    Returns:
        For each sample, the answer to each query, or the failure of its reasoning.
    """
    queries_with_reasoning = []
    positions = []  # of each of these: the numbers of its sample and of its query
    for sample_number, reasonings in enumerate(samples):
        for query_number, reasoning in enumerate(reasonings):
            if not isinstance(reasoning, str):
                continue  # a failure: there is nothing to answer after
            query = queries[query_number]
            call_to_answer = ANSWER.format(labels=", ".join(query.label_space))
            prompt = extended(starts[query_number], reasoning + call_to_answer)
            queries_with_reasoning.append(query.with_prompt(prompt))
            positions.append((sample_number, query_number))

    # The kernel is None: the run calls the kernel of the method.
    answer_writer = TextInference(kernel=None, max_new_tokens=ANSWER_TOKENS, stop=("\n",))
    (answers,) = yield [data.ask(answer_writer, queries_with_reasoning)]

    answers_of_samples = [list(reasonings) for reasonings in samples]  # each reasoning is replaced by its answer
    for (sample_number, query_number), answer in zip(positions, answers, strict=True):
        answers_of_samples[sample_number][query_number] = answer
    return answers_of_samples


def shares(texts: Sequence[str | Failure], label_space: Sequence[str], prompt: Prompt = "") -> Answer | Failure:
    """Return the share of each label among the texts that name one; if none does, a text: an unparsed reply.

    Args:
        texts: The texts that were generated after a prompt, and the failures.
        label_space: The label names.
        prompt: The prompt, whose template a text may repeat.

    Returns:
        One share for each label. Of labels with equally many votes, the one that was named first has the largest share,
        by the last digit. A text if no text names a label; a failure if there is no text.
    """
    replies = [text for text in texts if isinstance(text, str)]
    if not replies:
        reason = next(text.reason for text in texts if isinstance(text, Failure))
        return Failure(f"none of {len(texts)} texts could be generated: {reason}")

    label_prefix, text_prefixes = prefixes_of(prompt)
    votes: list[int] = []
    for reply in replies:
        label = parse_reply(reply, label_space, label_prefix, text_prefixes).label
        if label is not None:
            votes.append(label)
    if not votes:
        return Text(replies[0])

    row = [votes.count(label) / len(votes) for label in range(len(label_space))]
    winner = max(votes, key=votes.count)  # of equally many votes the label that was named first
    # A benchmark predicts the first label with the largest share. If that is another one, its share is equal to that of
    # the winner, which becomes the next larger number.
    if row.index(max(row)) != winner:
        row[winner] = math.nextafter(row[winner], 1.0)
    return row


GENERATE = MethodSpec(
    "generate", "Generate then parse", generate, frozenset({Capability.TEXT}), options=GenerationOptions
)
