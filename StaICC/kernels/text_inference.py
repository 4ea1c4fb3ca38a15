"""A kernel that generates text, as an inference function that returns its replies.

:func:`text_inference` makes an inference function of any kernel with ``generate(prompts, max_new_tokens, stop)``:
``CausalLMKernel``, ``EndpointKernel``, your own. A run finds the label of each reply
(:mod:`StaICC.inference.reply_parser`); ``LongICL`` has parsers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from StaICC.errors import ArgumentError, OutputError
from StaICC.inference.edition import Served, served_function
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import TOLERANCE, tolerance_of
from StaICC.inference.run_record import CountsRetries
from StaICC.inference.workload import CountsTokens, Workload, work_of
from StaICC.kernels.option_text import names_option
from StaICC.kernels.protocol import Capability, capabilities_of, check_generation, stable_seed
from StaICC.kernels.registry import load_kernel
from StaICC.kernels.reply_settings import NEW_TOKENS, ReplyKernel, ReplySettings


@dataclass(frozen=True, slots=True)
class TextInference:
    """An inference function that returns what a kernel writes; see :func:`text_inference`."""

    kernel: Any
    max_new_tokens: int = NEW_TOKENS
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    """Above 0, tokens are sampled."""
    seed: int = 0
    sample: int = 0
    """Number of the sample; samples of one seed are different."""
    strip_blank: bool = False
    """Remove the blank at the end of a prompt; see :func:`without_blank`."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """A reply names a label, which has no score."""
        return frozenset({Capability.BATCH})

    def identity(self) -> Identity:
        """The identity of the kernel, with the most tokens, the stop strings and how tokens are sampled."""
        settings = {"max_new_tokens": str(self.max_new_tokens), "stop": repr(list(self.stop))}
        if self.strip_blank:
            settings["last blank"] = "removed"
        if self.temperature:
            settings |= {"temperature": repr(self.temperature), "seed": str(self.seed), "sample": str(self.sample)}
        return combined(identity_of(self.kernel), "text", Identity({}, settings))

    @property
    def recheck_tolerance(self) -> float | None:
        """``None``, which only warns, where the kernel's scores vary: one other token changes all of the text."""
        tolerance = tolerance_of(self.kernel)
        return None if tolerance is None or tolerance > TOLERANCE else tolerance

    @property
    def guided(self) -> str:
        """How the kernel lets the model write nothing but a label; empty if it does not."""
        return getattr(getattr(self.kernel, "options", None), "guided", "")

    @property
    def retried(self) -> int:
        """Requests that the kernel sent again so far, where it counts them."""
        return self.kernel.retried if isinstance(self.kernel, CountsRetries) else 0

    @property
    def tokens_used(self) -> tuple[int, int] | None:
        """Those of the kernel, where it counts them."""
        return self.kernel.tokens_used if isinstance(self.kernel, CountsTokens) else None

    def workload(self, prompts: Sequence[Any], label_space: Sequence[str], **before: Any) -> Workload | None:
        """Return the work of generating the texts; ``None`` if the kernel cannot measure it."""
        return work_of(self.kernel, self._read(prompts), label_space, self.max_new_tokens, **before)

    def _read(self, prompts: Sequence[Any]) -> list[Any]:
        return [without_blank(prompt) for prompt in prompts] if self.strip_blank else list(prompts)

    def served(self) -> Served | None:
        """The kernel, if a server runs its model."""
        return served_function(self.kernel)

    def __call__(self, prompt: str, label_space: Sequence[str] = ()) -> str:
        """Continue one prompt.

        Args:
            prompt: The prompt.
            label_space: Not used; the model writes what it likes.
        """
        (text,) = self.batch([prompt], label_space)
        if isinstance(text, OutputError):
            raise text
        return text

    def batch(self, prompts: Sequence[str], label_space: Sequence[str] = ()) -> list[str | OutputError]:
        """Continue many prompts; a context that they share is computed once, where the kernel can do that.

        Args:
            prompts: The prompts.
            label_space: The texts that are allowed, if the kernel has the option ``guided``; else not used.
        """
        sampling: dict[str, Any] = {}
        if self.temperature:
            sampling = {"temperature": self.temperature, "seed": stable_seed(self.seed, self.sample)}
        if self.guided:  # a label follows the blank that was removed
            sampling["choices"] = [" " * self.strip_blank + label for label in label_space]
        if isinstance(self.kernel, ReplyKernel):
            return self.kernel.replies(self._read(prompts), self.max_new_tokens, self.stop, sampling)
        found: list[str | OutputError] = self.kernel.generate(
            self._read(prompts), max_new_tokens=self.max_new_tokens, stop=list(self.stop), **sampling
        )
        return found


def without_blank(prompt: str) -> str:
    """Return a prompt without the blanks at its end: most tokens of words begin with one, and do not follow another.

    Example:
        >>> without_blank("label: ")
        'label:'
    """
    return prompt.rstrip(" ")


def load_for_text(
    spec: str,
    max_tokens: int | None = None,
    stop: Sequence[str] | None = None,
    *,
    strip_blank: bool = False,
    **options: Any,
) -> Any:
    """Make an inference function that returns the replies of the model that a string names.

    Args:
        spec: As for ``load_kernel``.
        max_tokens: Maximum number of tokens of a reply; ``None`` for the kernel's, or 100.
        stop: Texts before which a reply ends; ``None`` for the kernel's.
        strip_blank: Remove the blank at the end of prompts, if the kernel continues them verbatim: not for chats, which
            do not need it, and not for servers.
        **options: Further options of the kernel.
    """
    if spec.startswith("openai:") and not names_option(spec, "scoring"):
        options = {"scoring": "text", **options}
    kernel = load_kernel(spec, **options)
    if isinstance(kernel, ReplySettings) and Capability.LABEL_SCORES not in capabilities_of(kernel):
        given: dict[str, Any] = {"max_tokens": max_tokens, "stop": None if stop is None else tuple(stop)}
        given = {name: value for name, value in given.items() if value is not None}
        if "max_tokens" in given and kernel.max_completion_tokens is not None:
            raise ArgumentError(
                f"got {max_tokens} for the maximum number of tokens, and the option max_completion_tokens="
                f"{kernel.max_completion_tokens} of the model, expected one of them"
            )
        for name, value in given.items():
            if getattr(kernel, name) not in (getattr(ReplySettings, name), value):
                raise ArgumentError(
                    f"option {name} of the model: got {getattr(kernel, name)} and {value}, expected one"
                )
        return replace(kernel, **given)
    continues = Capability.LOSSES in capabilities_of(kernel)
    most = NEW_TOKENS if max_tokens is None else max_tokens
    return replace(text_inference(kernel, most, stop or ()), strip_blank=strip_blank and continues)


def text_inference(kernel: Any, max_new_tokens: int = NEW_TOKENS, stop: Sequence[str] = ()) -> TextInference:
    """Make an inference function that answers by text.

    Args:
        kernel: Anything with ``generate(prompts, max_new_tokens=..., stop=...)``, which returns the continuations.
        max_new_tokens: Most tokens of an answer.
        stop: Texts before which an answer ends, such as ``["service query"]``. None by default, as in the published
            runs. A line feed is no good choice for LongICL: an answer may begin with one, and the published parsers
            pass over it.

    Returns:
        ``f(prompt, label_space)`` with ``batch`` and ``identity``; it can be pickled if the kernel can.

    Raises:
        ArgumentError: The kernel cannot generate, or an argument has no meaning.

    Example:
        >>> class Parrot:
        ...     def generate(self, prompts, max_new_tokens=32, stop=()):
        ...         return [prompt[-max_new_tokens:] for prompt in prompts]
        >>> f = text_inference(Parrot(), 3)
        >>> f("one two", ["a", "b"]), dict(f.identity().settings)
        ('two', {'text max_new_tokens': '3', 'text stop': '[]'})
    """
    if not callable(getattr(kernel, "generate", None)):
        raise ArgumentError(
            f"{type(kernel).__name__} has no method generate, so it cannot answer by text; kernels of causal language "
            "models and of served models have one"
        )
    check_generation(max_new_tokens, stop)
    return TextInference(kernel, max_new_tokens, tuple(stop))
