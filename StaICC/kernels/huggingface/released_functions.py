"""The inference functions that 0.1.1 documents, for causal language models of ``transformers``.

They are used through ``functools.partial``::

    from transformers import AutoModelForCausalLM, AutoTokenizer
    from StaICC.prefabricate_inference import model_kernel

    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=AutoModelForCausalLM.from_pretrained(name), tokenizer=AutoTokenizer.from_pretrained(name),
    )

Each function calls :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel` and has attributes, which a benchmark
finds although it was given the partial:

* ``batch(prompts=..., ...)`` predicts many prompts at once.
* ``identity_for(**keywords)`` returns the identity of a partial with these keywords.
* ``recheck_tolerance_for(**keywords)`` returns the kernel's ``recheck_tolerance``.
* ``kernel_for(**keywords)``, of the standard function only, returns a kernel with all capabilities, which methods use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.kernels.huggingface.kernel import CausalLMKernel

ReleasedCalibration = Callable[[list[float], Any, Any], list[float]]
"""Called with a prompt's probabilities, its logits of the whole vocabulary and its last hidden state."""

DETAILED_AT_ONCE = 256
"""Number of prompts whose logits of the whole vocabulary are held in memory at once."""


def _kernel(model: Any, tokenizer: Any, variant: str = "paper") -> CausalLMKernel:
    """Return a new kernel of a model in memory. Made anew for each call: what was found about the model is kept."""
    return CausalLMKernel(model, tokenizer, variant=variant, label_mass=False)


def _identity_function(function_name: str) -> Callable[..., Identity]:
    """Return the attribute ``identity_for`` of the function with this name (:func:`_identity`)."""

    def identity_for(*, model: Any, tokenizer: Any, variant: str = "paper", **keywords: Any) -> Identity:
        """Return the identity of the function with these keywords, computed now."""
        return _identity(function_name, model, tokenizer, variant, keywords)

    return identity_for


def _identity(function_name: str, model: Any, tokenizer: Any, variant: str, keywords: Mapping[str, Any]) -> Identity:
    """Return what determines the predictions of a ``functools.partial`` of a function of this module.

    These are the facts about the model, the name of the function, and the keywords that change a prediction. Cached
    predictions are reused where the identity is the same.

    Args:
        function_name: The name of the function.
        model: The model.
        tokenizer: Its tokenizer.
        variant: The variant of the noisy channel.
        keywords: The other keywords of the partial, such as ``calibration_function``.
    """
    identity_of_model = _kernel(model, tokenizer, variant).identity()
    identity = Identity(
        who={**identity_of_model.who, "function": function_name},
        settings=identity_of_model.settings,
        unidentified=identity_of_model.unidentified,
    )
    for name, value in sorted(keywords.items()):
        changes_no_prediction = name == "cache_empty"  # it frees memory
        is_default = value is None or value is False  # the default of each keyword is one of these two
        if changes_no_prediction or is_default:
            continue
        if callable(value):
            identity_of_keyword = identity_of(value)
        else:
            identity_of_keyword = Identity({}, {"value": repr(value)})
        identity = combined(identity, name, identity_of_keyword)
    return identity


def _one_text(prompt: str | Sequence[str], index: int) -> str:
    """Return the text of a prompt, which is a text, or a list of one text.

    Args:
        prompt: The prompt.
        index: Its number, for the message.

    Raises:
        PromptError: It is a list of several texts, or of none.
    """
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
    """Return one result for each prompt: what :func:`standard_ICL_inference_with_torch_Causal_LM` returns for it.

    The arguments are those of that function, with many prompts.
    """
    texts = [_one_text(prompt, index) for index, prompt in enumerate(prompts)]
    kernel = _kernel(model, tokenizer)
    results: list[Any] = []
    returns_details = return_hidden_state or return_full_vocab_prob
    if calibration_function is None and not returns_details:
        results += kernel.batch(texts, label_space)
    else:
        for start in range(0, len(texts), DETAILED_AT_ONCE):
            scored = kernel.score_in_detail(texts[start : start + DETAILED_AT_ONCE], label_space)
            for scores, logits, state in zip(scored.probabilities, scored.logits, scored.states, strict=True):
                probabilities = scores
                if calibration_function is not None:
                    probabilities = calibration_function(scores, logits, state)
                if not returns_details:
                    results.append(probabilities)
                    continue
                result = [probabilities]
                if return_hidden_state:
                    result.append(state)
                if return_full_vocab_prob:
                    result.append(logits)
                results.append(tuple(result))
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
    (result,) = _standard(
        [prompt],
        label_space,
        model,
        tokenizer,
        cache_empty=cache_empty,
        calibration_function=calibration_function,
        return_hidden_state=return_hidden_state,
        return_full_vocab_prob=return_full_vocab_prob,
    )
    return result


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
    rows = _standard(
        prompt,
        label_space,
        model,
        tokenizer,
        cache_empty=cache_empty,
        calibration_function=inside_calibration_function,
    )
    if batch_calibration_function is None:
        return rows
    return batch_calibration_function(rows)


def _batched(prompts: Sequence[str], label_space: Sequence[str], **options: Any) -> Any:
    """Call the batched function with ``prompts``, the name that all attributes ``batch`` have for them."""
    return batched_ICL_inference_with_torch_Causal_LM(prompts, label_space=label_space, **options)


def _noisy(
    prompts: Any,
    label_space: Sequence[str],
    model: Any,
    tokenizer: Any,
    cache_empty: Any = None,
    variant: str = "paper",
) -> list[list[float]]:
    """Return one row for each query; see :func:`noisy_channel_ICL_inference_with_torch_Causal_LM`."""
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
    (row,) = _noisy([prompt], label_space, model, tokenizer, cache_empty=cache_empty, variant=variant)
    return row


def _kernel_for(*, model: Any, tokenizer: Any, **_: Any) -> CausalLMKernel:
    """Return the kernel of a partial with these keywords."""
    return _kernel(model, tokenizer)


def _recheck_tolerance_for(*, model: Any, tokenizer: Any, **_: Any) -> float:
    """Return by how much a prediction of a partial with these keywords may differ when it is computed again."""
    return _kernel(model, tokenizer).recheck_tolerance


def _add_attributes(function: Any, batch: Callable[..., Any]) -> None:
    """Add the attributes that all three functions have."""
    function.batch = batch
    function.identity_for = _identity_function(function.__name__)
    function.recheck_tolerance_for = _recheck_tolerance_for


_add_attributes(standard_ICL_inference_with_torch_Causal_LM, batch=_standard)
_add_attributes(batched_ICL_inference_with_torch_Causal_LM, batch=_batched)
_add_attributes(noisy_channel_ICL_inference_with_torch_Causal_LM, batch=_noisy)
# Typed as Any: type checkers know no attributes of functions.
_standard_function: Any = standard_ICL_inference_with_torch_Causal_LM
_standard_function.kernel_for = _kernel_for
