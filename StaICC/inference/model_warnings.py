"""Warnings about what an inference function predicted, with its prompts.

A warning is a function of the prompts, the inference function and the predictions, never of what a run computed itself.
So a run whose predictions come from a store warns as the run that computed them. What only the computation can know,
such as how a reply ended, is a fact of the prediction (:class:`~StaICC.inference.contract.Text`,
:class:`~StaICC.inference.contract.ScoredLabels`), and stored with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from StaICC.inference.called_kernels import declarations, warning_methods
from StaICC.inference.contract import Answer, Text
from StaICC.inference.label_mass import low_mass_warning, mean_label_mass
from StaICC.inference.prompt_key import PromptKey
from StaICC.inference.replies import Failure, read_reply
from StaICC.lazy_sequence import LazySequence
from StaICC.prompting.prompt_text import Prompt
from StaICC.prompting.prompt_writer import Query

FIRST_QUERIES = 50
"""How many first queries of a data set are looked at for a model that predicts one label only."""


def may_warn(function: object, answers: Iterable[object]) -> bool:
    """Return whether :func:`model_warnings` can have a warning: a plain function warns of nothing.

    Args:
        function: The inference function.
        answers: Its predictions.
    """
    for name in ("prompt_warnings", "answer_warnings"):
        if warning_methods(function, name):
            return True
    if declarations(function, "reply_limit"):
        return True
    return mean_label_mass(answers) is not None


def prompt_warnings(function: object, keys: Sequence[PromptKey]) -> list[str]:
    """Return what an inference function warns of before it computes anything: of its prompts and of the labels.

    Args:
        function: An inference function. Warnings come from its own method ``prompt_warnings``, or from those of the
            kernels that it calls.
        keys: Distinct pairs of a prompt and its label space. A prompt may be written only when it is read.
    """
    methods = warning_methods(function, "prompt_warnings")
    if not methods:
        return []
    positions_by_label_space: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for position, (_, label_space) in enumerate(keys):
        positions_by_label_space[label_space].append(position)
    warnings: list[str] = []
    for label_space, positions in positions_by_label_space.items():
        prompts = _prompts_at(positions, keys)
        for warnings_of in methods:
            warnings += warnings_of(prompts, list(label_space))
    return _without_duplicates(warnings)


def _prompts_at(positions: Sequence[int], keys: Sequence[PromptKey]) -> Sequence[Prompt]:
    """Return the prompts at some positions; each is taken from its key when it is read."""

    def prompt_at(number: int) -> Prompt:
        prompt, _ = keys[positions[number]]
        return prompt

    return LazySequence(prompt_at, len(positions))


def model_warnings(function: object, keys: Sequence[PromptKey], answers: Sequence[Answer | Failure]) -> list[str]:
    """Return all warnings about prompts and what an inference function predicted for them.

    Args:
        function: The inference function.
        keys: Distinct pairs of a prompt and its label space. A prompt may be written only when it is read.
        answers: The prediction of each prompt, or why there is none.
    """
    warnings = prompt_warnings(function, keys)
    for reply_limit in declarations(function, "reply_limit"):
        warnings += ending_warnings(reply_limit, keys, answers)
    for answer_warnings in warning_methods(function, "answer_warnings"):
        warnings += answer_warnings(list(answers))
    low_mass = low_mass_warning(answers)
    if low_mass is not None:
        warnings.append(low_mass)
    return _without_duplicates(warnings)


def _without_duplicates(warnings: Sequence[str]) -> list[str]:
    """Return each warning once, in the order in which they came first."""
    return list(dict.fromkeys(warnings))


def ending_warnings(limit: str, keys: Sequence[PromptKey], answers: Sequence[Answer | Failure]) -> list[str]:
    """Return warnings about replies without a label that are cut, or of which it is unknown how they ended.

    A text that was asked for without labels, such as one of which a method makes a prompt, is no reply.

    Args:
        limit: The option that limits the tokens of a reply, with its value.
        keys: The prompts with their label spaces.
        answers: The predictions.
    """
    endings: Counter[str | None] = Counter()
    cut_texts = 0
    for (prompt, label_space), answer in zip(keys, answers, strict=True):
        if not label_space:
            if isinstance(answer, Text) and answer.finish_reason == "length":
                cut_texts += 1
            continue
        reply = unlabelled_reply(answer, label_space, prompt)
        if reply is not None:
            endings[reply.finish_reason] += 1
    warnings = []
    cut_replies = endings["length"]
    if cut_replies:
        warnings.append(f"{cut_replies} of {len(answers)} replies stopped at {limit} without a label; raise it")
    if cut_texts:
        warnings.append(f"{cut_texts} of {len(answers)} texts stopped at {limit}, so they may be incomplete; raise it")
    unknown_endings = endings[None]
    if unknown_endings:
        warnings.append(
            f"{unknown_endings} of {len(answers)} replies have no label, and how they ended is not stored; a new store "
            "records it"
        )
    return warnings


def unlabelled_reply(answer: Answer | Failure, label_space: Sequence[str], prompt: Prompt) -> Text | None:
    """Return the generated reply of a query if no label was found in it.

    Args:
        answer: What the query has: a prediction, or a failure, in which a reply without a label is recorded.
        label_space: The labels of the query.
        prompt: The prompt of the query, whose template a reply may repeat.

    Returns:
        The reply with how it ended; ``None`` if the query has a label or scores, or the server withheld the reply.
    """
    if isinstance(answer, Text):  # a completion that the benchmark parses
        answer = read_reply(answer, label_space, unparsed="wrong", prompt=prompt)
    if not isinstance(answer, Failure):
        return None
    reply = answer.reply
    if reply is None:  # the run counts the query as failed, so the failure has the reply elsewhere
        reply = answer.unread
    # A withheld reply is recorded as a plain empty string, which does not say how it ended.
    return reply if isinstance(reply, Text) else None


def one_label_at_first(queries: Sequence[Query], predicted: Sequence[int]) -> str | None:
    """Return a warning if the first queries got one label, although their true labels differ; ``None`` if not.

    Args:
        queries: The first queries of a data set.
        predicted: The predicted label index of each of them.
    """
    true_labels = {query.label for query in queries}
    if len(queries) < FIRST_QUERIES or len(true_labels) < 2:
        return None
    if len(set(predicted)) > 1:
        return None
    name = queries[0].label_space[predicted[0]]
    return (
        f"the first {len(queries)} queries all got the label {name!r}. Check the inference function: the order of its "
        "scores, the label words, the prompt"
    )
