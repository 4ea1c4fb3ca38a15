"""Self-ICL: the model writes its demonstrations itself.

Chen et al. 2023, "Self-ICL: Zero-Shot In-Context Learning with Self-Generated Demonstrations".
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.kernels.text_inference import TextInference
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.predicted_labels import predicted_label
from StaICC.methods.requests import Request
from StaICC.prompting.prompt_text import question_only

PSEUDO_INPUTS = (
    "Following is an example instance for the task: {task}. Please come up with {count} new, diverse, and creative "
    "instances for the task.\n\nExample instance:\nQ: {text}\n\nNew instance 1:\nQ:"
)
"""The authors' prompt for new inputs, with the label names as the task's description."""


@dataclass(frozen=True, slots=True)
class SelfDemonstrationOptions:
    """Options of Self-ICL."""

    max_new_tokens: int = 256
    """Tokens of the text with new inputs at most."""


Demonstration = tuple[list[str], int]
"""Input texts and the label that the model predicted for them."""


def self_icl(data: MethodData) -> Steps:
    """Predict with demonstrations that the model wrote for each query: no labelled example is needed.

    For each query, the model writes ``k`` new inputs. Their labels are its own predictions without demonstrations. New
    inputs that it does not write are missing: such a query has fewer demonstrations.
    """
    data.refuse_several_lists()
    if not data.k or data.is_noisy or data.text_count > 1:
        raise ArgumentError(
            "Self-ICL writes demonstrations of one text. Expected k >= 1, one input text and no noisy channel; "
            f"got k = {data.k}, {data.text_count} input texts and noisy_channel={data.is_noisy}"
        )
    count = data.k
    zero_shot = data.on(demonstrations=[[] for _ in data.demonstrations])
    query_texts = [texts[0] for texts in data.test_texts]
    inputs_of_rows = yield from pseudo_inputs(zero_shot, query_texts, count)

    predictions: list[Any] = []
    rows_with_too_few: set[int] = set()
    # Each condition of the benchmark has its template. If all have the same one, cycle repeats it.
    for condition, templated in zip(zero_shot.conditions, itertools.cycle(zero_shot.templates()), strict=False):
        demonstrations_of_rows = yield from pseudo_labelled(templated, inputs_of_rows)
        prompts = []
        for query in condition.queries:
            demonstrations = demonstrations_of_rows[query.row]
            if len(demonstrations) < count:
                rows_with_too_few.add(query.row)
            prompts.append(templated.write(demonstrations, [query_texts[query.row]]))
        (predictions_of_condition,) = yield [templated.ask(prompts=prompts)]
        predictions += predictions_of_condition
    if rows_with_too_few:
        data.warn(
            f"{len(rows_with_too_few)} of {len(query_texts)} test examples have fewer than {count} self-made "
            "demonstrations"
        )
    return zero_shot.predictions(predictions)


def pseudo_inputs(
    data: MethodData, query_texts: Sequence[str], count: int
) -> Generator[Sequence[Request], list[list[Any]], list[list[str]]]:
    """Let the model write new inputs that resemble each query.

    Args:
        data: The data of the method.
        query_texts: The text of each test row.
        count: How many new inputs.

    Returns:
        For each test row its new inputs, ``count`` or fewer.
    """
    tokens = validate_integer("max_new_tokens", data.options.max_new_tokens, 1)
    task = f"choose one of {', '.join(data.label_space)}"
    prompts = []
    for text in query_texts:
        prompts.append(question_only(PSEUDO_INPUTS.format(task=task, count=count, text=text)))
    # The kernel is None: the run calls the kernel of the method.
    writer = TextInference(kernel=None, max_new_tokens=tokens, stop=())
    (replies,) = yield [data.ask(writer, prompts)]
    return [read_inputs(reply, count) for reply in replies]


def read_inputs(reply: str | Failure, count: int) -> list[str]:
    r"""Return the new inputs in a text that the model wrote after ``Q:``.

    Args:
        reply: The text, or a failure.
        count: How many new inputs at most.

    Example:
        >>> read_inputs(" Is it late?\n\nNew instance 2:\nQ: Who came?\nA: person", 3)
        ['Is it late?', 'Who came?']
    """
    if isinstance(reply, Failure):
        return []
    inputs = []
    for line in f"Q:{reply}".splitlines():
        line = line.strip()
        if line.startswith("Q:"):
            text = line.removeprefix("Q:").strip()
            if text:
                inputs.append(text)
    return inputs[:count]


def pseudo_labelled(
    data: MethodData, inputs: Sequence[Sequence[str]]
) -> Generator[Sequence[Request], list[list[Any]], list[list[Demonstration]]]:
    """Label new inputs by the model's predictions without demonstrations, each distinct input once.

    Args:
        data: The data of the method.
        inputs: For each test row its new inputs.

    Returns:
        For each test row its demonstrations; an input without a prediction is left out.
    """
    distinct_texts = list(dict.fromkeys(itertools.chain.from_iterable(inputs)))
    prompts = [data.write([], [text]) for text in distinct_texts]
    (predictions,) = yield [data.ask(prompts=prompts)]
    label_of_text: dict[str, int] = {}
    for text, prediction in zip(distinct_texts, predictions, strict=True):
        label = predicted_label(prediction)
        if label is not None:
            label_of_text[text] = label
    demonstrations_of_rows = []
    for texts_of_row in inputs:
        demonstrations = [([text], label_of_text[text]) for text in texts_of_row if text in label_of_text]
        demonstrations_of_rows.append(demonstrations)
    return demonstrations_of_rows


SELF_ICL = MethodSpec(
    "self_icl",
    "Self-ICL",
    self_icl,
    frozenset({Capability.TEXT, Capability.LABEL_SCORES}),
    options=SelfDemonstrationOptions,
)
