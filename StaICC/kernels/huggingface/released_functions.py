"""The inference functions that 0.1.1 documents, for causal language models of ``transformers``.

They are used through ``functools.partial``::

    from transformers import AutoModelForCausalLM, AutoTokenizer
    from StaICC.prefabricate_inference import model_kernel

    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=AutoModelForCausalLM.from_pretrained(name), tokenizer=AutoTokenizer.from_pretrained(name),
    )

Each calls :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`. A function's attribute
``batch`` takes ``prompts`` instead of ``prompt``, so that a benchmark can hand over all its prompts at once although
it was given the partial; ``identity_for(**keywords)`` is the identity of a partial with these keywords. The standard
function's ``kernel_for(**keywords)`` is a kernel with all capabilities, which methods use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.kernels.huggingface.kernel import CausalLMKernel

ReleasedCalibration = Callable[[list[float], Any, Any], list[float]]

DETAILED_AT_ONCE = 256
"""Prompts whose whole distributions are held at once."""


def _kernel(model: Any, tokenizer: Any, variant: str = "paper") -> CausalLMKernel:
    # What is costly to find out about a model is remembered in ``capabilities``, so a kernel costs next to nothing.
    return CausalLMKernel(model, tokenizer, variant=variant, label_mass=False)


def _identity(name: str) -> Callable[..., Identity]:
    def identity_for(*, model: Any, tokenizer: Any, variant: str = "paper", **keywords: Any) -> Identity:
        identity = _kernel(model, tokenizer, variant).identity()
        identity = Identity({**identity.who, "function": name}, identity.settings, identity.unidentified)
        for key, value in sorted(keywords.items()):
            if key == "cache_empty" or value is None or value is False:
                continue
            added = identity_of(value) if callable(value) else Identity({}, {"value": repr(value)})
            identity = combined(identity, key, added)
        return identity

    identity_for.__doc__ = f"The identity of ``{name}`` with these keywords, computed now."
    return identity_for


def _one_text(prompt: str | Sequence[str], index: int) -> str:
    """Return a prompt that is a text, or the input texts of a row with one text."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) != 1:
        raise PromptError(
            f"prompt {index}: got a list of {len(prompt)} texts, expected one text. For many prompts use "
            "batched_ICL_inference_with_torch_Causal_LM; for one prompt per label, the noisy-channel function",
            index,
        )
    return prompt[0]


def _standard(
    prompts: Sequence[str | Sequence[str]],
    label_space: Sequence[str],
    model: Any,
    tokenizer: Any,
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: ReleasedCalibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> list[Any]:
    """One result for each prompt; see the documented function."""
    texts = [_one_text(prompt, index) for index, prompt in enumerate(prompts)]
    kernel = _kernel(model, tokenizer)
    plain = calibration_function is None and not return_hidden_state and not return_full_vocab_prob
    results: list[Any] = kernel.batch(texts, label_space) if plain else []
    for start in range(len(results), len(texts), DETAILED_AT_ONCE):
        detailed = kernel.score_in_detail(texts[start : start + DETAILED_AT_ONCE], label_space)
        for row, logits, state in zip(*detailed, strict=True):
            row = row if calibration_function is None else calibration_function(row, logits, state)
            more = [state] * return_hidden_state + [logits] * return_full_vocab_prob
            results.append((row, *more) if more else row)
    if cache_empty is not None:
        cache_empty()
    return results


def standard_ICL_inference_with_torch_Causal_LM(
    prompt: str | Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: ReleasedCalibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> Any:
    """Probability of each label as the next token after a prompt.

    A label is scored by the last token of its tokenization; the probabilities are the softmax of these tokens' logits.

    Args:
        prompt: The prompt; a list with one text (the input texts of a row) is the same as that text.
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels.
        cache_empty: Called without arguments after the model was run, such as ``torch.cuda.empty_cache``.
        calibration_function: Called with the probabilities (a list), the logits of the whole vocabulary and the last
            hidden state (float32 arrays of shapes (vocabulary,) and (width,)); what it returns takes the place of the
            probabilities.
        return_hidden_state: Whether to return the last hidden state too.
        return_full_vocab_prob: Whether to return the logits of the whole vocabulary too (0.1.1 calls them
            probabilities).

    Returns:
        A list of probabilities; or a tuple of it, the hidden state if asked for, and the logits if asked for, in this
        order. (0.1.1 raised an error if asked for both.)
    """
    more = (cache_empty, calibration_function, return_hidden_state, return_full_vocab_prob)
    return _standard([prompt], label_space, model, tokenizer, *more)[0]


def batched_ICL_inference_with_torch_Causal_LM(
    prompt: Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    batch_calibration_function: Callable[[list[list[float]]], Any] | None = None,
    inside_calibration_function: ReleasedCalibration | None = None,
) -> Any:
    """Probability of each label after each of a list of prompts.

    Args:
        prompt: The prompts.
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels.
        cache_empty: Called without arguments after the model was run.
        batch_calibration_function: Called with the list of all rows; what it returns is returned.
        inside_calibration_function: As ``calibration_function`` of the standard function, for each prompt.

    Returns:
        One list of probabilities for each prompt, in order, or what the batch calibration made of them.
    """
    if isinstance(prompt, str):
        raise ArgumentError(
            "prompt must be a list of strings; for one prompt use standard_ICL_inference_with_torch_Causal_LM"
        )
    rows = _standard(prompt, label_space, model, tokenizer, cache_empty, inside_calibration_function)
    return rows if batch_calibration_function is None else batch_calibration_function(rows)


def _batched(prompts: Sequence[str], label_space: Sequence[str], **options: Any) -> Any:
    return batched_ICL_inference_with_torch_Causal_LM(prompts, label_space=label_space, **options)


def _noisy(
    prompts: Any,
    label_space: Sequence[str],
    model: Any,
    tokenizer: Any,
    cache_empty: Any = None,
    variant: str = "paper",
) -> list[list[float]]:
    """One row for each query; see the documented function."""
    rows = _kernel(model, tokenizer, variant).noisy_channel(prompts, label_space)
    if cache_empty is not None:
        cache_empty()
    return rows


def noisy_channel_ICL_inference_with_torch_Causal_LM(
    prompt: Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    variant: str = "paper",
) -> list[float]:
    """Probability of each label from the probability of the query given the label (Min et al. 2022).

    Args:
        prompt: One prompt for each label, which differ in the label only (a benchmark with ``noisy_channel=True``
            makes them).
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels, in the order of the prompts.
        cache_empty: Called without arguments after the model was run.
        variant: ``"paper"``: the sum of the log-probabilities of the tokens that follow the label; ``"0.1.1"``: minus
            the mean loss over the whole prompt, which leaves nearly uniform probabilities.

    Returns:
        A list of probabilities.
    """
    return _noisy([prompt], label_space, model, tokenizer, cache_empty, variant)[0]


def _equip(function: Any, batch: Callable[..., Any]) -> None:
    """Add the attributes ``batch``, ``identity_for`` and ``recheck_tolerance_for``."""
    function.batch = batch
    function.identity_for = _identity(function.__name__)
    function.recheck_tolerance_for = lambda *, model, tokenizer, **_: _kernel(model, tokenizer).recheck_tolerance
    if batch is _standard:
        function.kernel_for = lambda *, model, tokenizer, **_: _kernel(model, tokenizer)


_equip(standard_ICL_inference_with_torch_Causal_LM, _standard)
_equip(batched_ICL_inference_with_torch_Causal_LM, _batched)
_equip(noisy_channel_ICL_inference_with_torch_Causal_LM, _noisy)
