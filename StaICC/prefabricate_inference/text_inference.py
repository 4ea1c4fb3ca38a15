"""A kernel that writes, as an inference function that answers by text.

Some tasks cannot be answered by choosing a label: several labels are asked for at once (Few-NERD, DialogRE), or the
published protocol lets a model write and reads the label from what it wrote. :func:`text_inference` makes an inference
function of any kernel with ``generate(prompts, max_new_tokens, stop)``: ``CausalLMKernel``, ``EndpointKernel``, your
own. It is for benchmarks that ask for free text, such as ``LongICL``; others want a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.errors import ArgumentError

__all__ = ["TextInference", "text_inference"]

NEW_TOKENS = 100
"""Most tokens of an answer in the published runs of LongICLBench."""


@dataclass(frozen=True, slots=True)
class TextInference:
    """An inference function that returns what a kernel writes; see :func:`text_inference`."""

    kernel: Any
    max_new_tokens: int = NEW_TOKENS
    stop: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """What identifies the answers: the kernel, the most tokens, the stop strings."""
        own = getattr(self.kernel, "fingerprint", None)
        if not isinstance(own, str) or not own:
            raise ArgumentError(
                f"{type(self.kernel).__name__} has no fingerprint, so a store cannot tell its answers from those of "
                "another model; name it (model_name='my-model-v1')"
            )
        return f"text|{self.max_new_tokens}|{list(self.stop)!r}|{own}"

    def __call__(self, prompt: str, label_space: Sequence[str] = ()) -> str:
        """Continue one prompt.

        Args:
            prompt: The prompt.
            label_space: Not used; the model writes what it likes.
        """
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[str], label_space: Sequence[str] = ()) -> list[str]:
        """Continue many prompts; a context that they share is computed once, where the kernel can do that.

        Args:
            prompts: The prompts.
            label_space: Not used.
        """
        texts: list[str] = self.kernel.generate(list(prompts), max_new_tokens=self.max_new_tokens, stop=list(self.stop))
        return texts


def text_inference(kernel: Any, max_new_tokens: int = NEW_TOKENS, stop: Sequence[str] = ()) -> TextInference:
    """Make an inference function that answers by text.

    Args:
        kernel: Anything with ``generate(prompts, max_new_tokens=..., stop=...)``, which returns the continuations.
        max_new_tokens: Most tokens of an answer.
        stop: Texts before which an answer ends, such as ``["service query"]``. None by default, as in the published
            runs. A line feed is no good choice for LongICL: an answer may begin with one, and the published parsers
            pass over it.

    Returns:
        ``f(prompt, label_space)`` with ``batch`` and ``fingerprint``; it can be pickled if the kernel can.

    Raises:
        ArgumentError: The kernel cannot generate, or an argument has no meaning.

    Example:
        >>> class Parrot:
        ...     fingerprint = "parrot"
        ...     def generate(self, prompts, max_new_tokens=32, stop=()):
        ...         return [prompt[-max_new_tokens:] for prompt in prompts]
        >>> f = text_inference(Parrot(), 3)
        >>> f("one two", ["a", "b"]), f.fingerprint
        ('two', 'text|3|[]|parrot')
    """
    if not callable(getattr(kernel, "generate", None)):
        raise ArgumentError(
            f"{type(kernel).__name__} has no method generate, so it cannot answer by text; kernels of causal language "
            "models and of served models have one"
        )
    if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
        raise ArgumentError(f"max_new_tokens must be a positive integer, not {max_new_tokens!r}")
    if isinstance(stop, str) or not all(isinstance(text, str) and text for text in stop):
        raise ArgumentError(f"stop must be a list of non-empty texts, not {stop!r}")
    return TextInference(kernel, max_new_tokens, tuple(stop))
