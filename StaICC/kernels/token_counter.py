"""Tokenizers by name, to count the tokens of a served model's prompts on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.planned_requests import TokenCounter
from StaICC.kernels.registry import load_kernel
from StaICC.registry import import_reference, is_reference

_EXPECTED = (
    "expected a local model, such as smollm2, hf:NAME or a folder, or package.module:name of a function that returns "
    "the number of tokens of a text"
)


def token_counter(tokenizer: str | Callable[[str], int]) -> TokenCounter:
    """Return what counts the tokens of texts.

    Args:
        tokenizer: The name of a local model, as ``load_kernel`` takes it, whose weights are not loaded;
            ``"package.module:name"`` of a function; or a function that returns the number of tokens of a text.

    Raises:
        ArgumentError: The name is of something else.
        MissingDependencyError: A package that reads the tokenizer is not installed.

    Example:
        >>> token_counter(len).count("four")
        4
    """
    if not isinstance(tokenizer, str):
        return _counter_of_function(getattr(tokenizer, "__qualname__", type(tokenizer).__name__), tokenizer)
    if is_reference(tokenizer) and not tokenizer.startswith("hf:"):
        return _counter_of_function(tokenizer, _imported(tokenizer))
    load_tokenizer = getattr(load_kernel(tokenizer), "load_tokenizer", None)
    if load_tokenizer is None:
        raise ArgumentError(f"tokenizer: got {tokenizer!r}, which has no tokenizer; {_EXPECTED}")
    encode = load_tokenizer()
    return TokenCounter(tokenizer, lambda text: _encoded_length(encode, text))


def _imported(reference: str) -> Any:
    """Return the object that a reference names.

    Raises:
        ArgumentError: There is no such module or name.
    """
    try:
        return import_reference(reference)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"tokenizer: got {reference!r}, which cannot be imported ({error}); {_EXPECTED}") from error


def _counter_of_function(name: str, function: Any) -> TokenCounter:
    """Return what counts tokens with a function of the user.

    Raises:
        ArgumentError: It is no function that returns a number of tokens.
    """
    if not callable(function):
        raise ArgumentError(f"tokenizer: got {function!r:.80}; {_EXPECTED}")

    def count(text: str) -> int:
        """Return the number of tokens of a text, as the user's function counts them."""
        token_count = function(text)
        is_integer = isinstance(token_count, int) and not isinstance(token_count, bool)
        if not is_integer or token_count < 0:
            raise ArgumentError(
                f"tokenizer: {name} returned {token_count!r:.80} for a text, expected a number of tokens"
            )
        return int(token_count)

    return TokenCounter(name, count)


def _encoded_length(tokenizer: Any, text: str) -> int:
    """Return the number of tokens of a text, without those that a tokenizer adds at its ends."""
    if not text:
        return 0
    # Not verbose: it would warn of every text that is longer than the model's context.
    return len(tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
