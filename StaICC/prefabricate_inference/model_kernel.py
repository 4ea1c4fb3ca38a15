"""The inference functions that 0.1.1 documents, for causal language models of ``transformers``.

They are used through ``functools.partial``::

    from transformers import AutoModelForCausalLM, AutoTokenizer
    from StaICC.prefabricate_inference import model_kernel

    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=AutoModelForCausalLM.from_pretrained(name), tokenizer=AutoTokenizer.from_pretrained(name),
    )

Each is a thin use of :class:`~StaICC.prefabricate_inference.causal_lm.CausalLMKernel`. A function's attribute
``batch`` takes ``prompts`` instead of ``prompt``, so that a benchmark can hand over all its prompts at once although
it was given the partial; ``fingerprint_for(**keywords)`` identifies the numbers that a partial with these keywords
gives.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.prefabricate_inference import calibration as trained
from StaICC.prefabricate_inference.causal_lm import CausalLMKernel

__all__ = [
    "batched_ICL_inference_with_torch_Causal_LM",
    "noisy_channel_ICL_inference_with_torch_Causal_LM",
    "standard_ICL_inference_with_torch_Causal_LM",
]

Calibration = Callable[[list[float], Any, Any], list[float]]

DETAILED_AT_ONCE = 256
"""Prompts whose whole distributions are held at once."""


def _kernel(model: Any, tokenizer: Any, variant: str = "paper") -> CausalLMKernel:
    # What is costly to find out about a model is remembered in ``examination``, so a kernel costs next to nothing.
    return CausalLMKernel(model, tokenizer, variant=variant, label_mass=False)  # type: ignore[arg-type]


def _done(cache_empty: Callable[[], Any] | None) -> None:
    if cache_empty is not None:
        cache_empty()


def _identified(key: str, value: Any) -> str:
    """A setting as a fingerprint shows it: a calibration by what it learned, a function by its name.

    Raises:
        ArgumentError: Two functions that compute different things could have this name.
    """
    owner = getattr(value, "__self__", value)
    if isinstance(owner, trained.Calibration):
        return f"{key}={owner.fingerprint}"
    if not callable(value):
        return f"{key}={value!r}"
    if not isinstance(value, types.FunctionType) or value.__closure__ or value.__name__ == "<lambda>":
        raise ArgumentError(
            f"{key}={value!r} has no name of its own, so a store cannot tell its answers from those of another "
            "calibration; name the whole (model_name='my-model-calibrated-v1'), or give a plain function or a "
            "Calibration's inference"
        )
    return f"{key}={value.__qualname__}"


def _fingerprint(name: str) -> Callable[..., str]:
    def fingerprint_for(*, model: Any, tokenizer: Any, variant: str = "paper", **keywords: Any) -> str:
        kernel = _kernel(model, tokenizer, variant)
        named = {key: value for key, value in keywords.items() if key != "cache_empty" and value not in (None, False)}
        return "|".join([name, kernel.fingerprint, *(_identified(key, named[key]) for key in sorted(named))])

    fingerprint_for.__doc__ = (
        f"What identifies the numbers of ``{name}`` with these keywords, the same in every process."
    )
    return fingerprint_for


def _standard(
    prompts: Sequence[str],
    label_space: Sequence[str],
    *,
    model: Any,
    tokenizer: Any,
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: Calibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> list[Any]:
    """One result for each prompt; see the documented function."""
    kernel = _kernel(model, tokenizer)
    if calibration_function is None and not return_hidden_state and not return_full_vocab_prob:
        plain = kernel.batch(prompts, label_space)
        _done(cache_empty)
        return plain
    results: list[Any] = []
    for start in range(0, len(prompts), DETAILED_AT_ONCE):
        detailed = kernel.score_in_detail(prompts[start : start + DETAILED_AT_ONCE], label_space)
        _done(cache_empty)
        for probabilities, logits, state in zip(*detailed, strict=True):
            if calibration_function is not None:
                probabilities = calibration_function(probabilities, logits, state)
            result = [probabilities]
            if return_hidden_state:
                result.append(state)
            if return_full_vocab_prob:
                result.append(logits)
            results.append(tuple(result) if len(result) > 1 else probabilities)
    return results


def standard_ICL_inference_with_torch_Causal_LM(
    prompt: str,
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: Calibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> Any:
    """Probability of each label as the next token after a prompt.

    A label is scored by the last token of its tokenization; the probabilities are the softmax of these tokens' logits.

    Args:
        prompt: The prompt.
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
    return _standard(
        [prompt],
        label_space,
        model=model,
        tokenizer=tokenizer,
        cache_empty=cache_empty,
        calibration_function=calibration_function,
        return_hidden_state=return_hidden_state,
        return_full_vocab_prob=return_full_vocab_prob,
    )[0]


def _batched(
    prompts: Sequence[str],
    label_space: Sequence[str],
    *,
    model: Any,
    tokenizer: Any,
    cache_empty: Callable[[], Any] | None = None,
    batch_calibration_function: Callable[[list[list[float]]], Any] | None = None,
    inside_calibration_function: Calibration | None = None,
) -> Any:
    """All prompts; see the documented function."""
    if isinstance(prompts, str):
        raise ArgumentError(
            "prompt must be a list of strings; for one prompt use standard_ICL_inference_with_torch_Causal_LM"
        )
    found = _standard(
        prompts,
        label_space,
        model=model,
        tokenizer=tokenizer,
        cache_empty=cache_empty,
        calibration_function=inside_calibration_function,
    )
    return found if batch_calibration_function is None else batch_calibration_function(found)


def batched_ICL_inference_with_torch_Causal_LM(
    prompt: Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    batch_calibration_function: Callable[[list[list[float]]], Any] | None = None,
    inside_calibration_function: Calibration | None = None,
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
    return _batched(
        prompt,
        label_space,
        model=model,
        tokenizer=tokenizer,
        cache_empty=cache_empty,
        batch_calibration_function=batch_calibration_function,
        inside_calibration_function=inside_calibration_function,
    )


def _noisy(
    prompts: Sequence[Sequence[str]],
    label_space: Sequence[str],
    *,
    model: Any,
    tokenizer: Any,
    cache_empty: Callable[[], Any] | None = None,
    variant: str = "paper",
) -> list[list[float]]:
    """One row for each query; see the documented function."""
    rows = _kernel(model, tokenizer, variant).noisy_channel(prompts, label_space)
    _done(cache_empty)
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
            gives them).
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels, in the order of the prompts.
        cache_empty: Called without arguments after the model was run.
        variant: ``"paper"``: the sum of the log-probabilities of the tokens that follow the label; ``"0.1.1"``: minus
            the mean loss over the whole prompt, which leaves nearly uniform probabilities.

    Returns:
        A list of probabilities.
    """
    return _noisy([prompt], label_space, model=model, tokenizer=tokenizer, cache_empty=cache_empty, variant=variant)[0]


def _equip(function: Any, batch: Callable[..., Any]) -> None:
    """Give a documented function what a runner looks for."""
    function.batch = batch
    function.fingerprint_for = _fingerprint(function.__name__)


_equip(standard_ICL_inference_with_torch_Causal_LM, _standard)
_equip(batched_ICL_inference_with_torch_Causal_LM, _batched)
_equip(noisy_channel_ICL_inference_with_torch_Causal_LM, _noisy)
