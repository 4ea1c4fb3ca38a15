"""A kernel that generates text, as an inference function that returns its replies.

:func:`text_inference` makes an inference function of any kernel with ``generate(prompts, max_new_tokens, stop)``:
``CausalLMKernel``, ``EndpointKernel``, your own. A run finds the label of each reply
(:mod:`StaICC.inference.reply_parser`); ``LongICL`` has parsers of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from StaICC.errors import ArgumentError, OutputError, set_integers
from StaICC.inference.contract import CountsRetries, Served, served_function
from StaICC.inference.forecast import CountsTokens, Forecast, forecast_prompts
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import TOLERANCE, tolerance_of
from StaICC.kernels.protocol import Capability, capabilities_of, check_generation, stable_seed
from StaICC.kernels.registry import load_kernel, names_option

Value = TypeVar("Value")

NEW_TOKENS = 100
"""Maximum number of tokens of a reply, by default; that of the published runs of LongICLBench."""


@dataclass(frozen=True, kw_only=True)
class ReplySettings:
    """The settings of the requests for replies. ``None`` leaves a setting out of the request."""

    max_tokens: int | None = NEW_TOKENS
    """Maximum number of tokens of a reply."""

    max_completion_tokens: int | None = None
    """Replaces ``max_tokens`` for models that refuse that name; it includes the tokens of the reasoning."""

    temperature: float | None = 0
    """Sampling temperature; some reasoning models accept no value (``None``)."""

    top_p: float | None = None
    """Nucleus sampling: the share of probability from which tokens are drawn."""

    reasoning_effort: str | None = None
    """How much a reasoning model reasons, such as ``"low"``."""

    stop: tuple[str, ...] | None = None
    """Texts before which a reply ends; ``None`` for the kernel's default."""

    system: str = ""
    """A system message before the prompt."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_completion_tokens"):
            if getattr(self, name) is not None:
                set_integers(self, **{name: 1})
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < math.inf):
                raise ArgumentError(f"{name}: got {value!r}, expected a number of at least 0, or none")
        if self.stop is not None:
            check_generation(1, self.stop)
            object.__setattr__(self, "stop", tuple(self.stop))

    def reply_settings(self) -> dict[str, str]:
        """Return the settings that are sent, as text, for the identity."""
        values = {field.name: getattr(self, field.name) for field in fields(ReplySettings)}
        if self.max_completion_tokens is not None:
            values["max_tokens"] = None
        sent = {name: value for name, value in values.items() if value not in (None, "")}
        plain = {name: f"{value:g}" for name, value in sent.items() if isinstance(value, (int, float))}
        return {name: plain.get(name) or json.dumps(value) for name, value in sent.items()}

    def reply_request(self, max_new_tokens: int | None, stop: Sequence[str]) -> dict[str, Any]:
        """Return the fields of a request for a reply, without prompt and system message.

        Args:
            max_new_tokens: Another maximum number of tokens; ``None`` for that of the settings.
            stop: Texts before which the reply ends.
        """
        name = "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"
        request = {
            name: getattr(self, name) if max_new_tokens is None else max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "reasoning_effort": self.reasoning_effort,
            "stop": list(stop) or None,
        }
        return {name: value for name, value in request.items() if value is not None}

    def messages(self, prompt: str) -> list[Mapping[str, str]]:
        """Return the messages of a chat: the system message, if there is one, and the prompt."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        return [*messages, {"role": "user", "content": prompt}]


def first_result(results: Sequence[Value | OutputError]) -> Value:
    """Return the first of the results; raise it if it is an error."""
    if isinstance(results[0], OutputError):
        raise results[0]
    return results[0]


class ReplyKernel:
    """A kernel that returns a failure in the place of a reply, so that the other replies are kept."""

    def replies(
        self,
        prompts: Sequence[str],
        max_new_tokens: int | None = None,
        stop: Sequence[str] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> list[str | OutputError]:
        """Return the reply to each prompt, or the error that took its place.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a reply; ``None`` for that of the kernel's settings.
            stop: Texts before which a reply ends; ``None`` for those of the kernel's settings.
            sampling: Other fields of the request: ``temperature`` and ``seed``.
        """
        raise NotImplementedError

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 32,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        """Continue each prompt, or reply to it.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            temperature: Above 0, the text is sampled; 0 for the temperature of the settings.
            seed: Seed of the sample, for servers that keep to it.

        Returns:
            The continuations.

        Raises:
            ArgumentError: An argument is invalid.
            OutputError: The server failed or withheld a reply.
        """
        max_new_tokens = check_generation(max_new_tokens, stop, temperature)
        sampling = {"temperature": temperature, "seed": seed} if temperature else {}
        return [first_result([reply]) for reply in self.replies(prompts, max_new_tokens, stop, sampling)]


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

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], kept: tuple[int, ...] = ()
    ) -> Forecast:
        """Return the forecast of generating the texts."""
        return forecast_prompts(self.kernel, self._read(prompts), label_space, self.max_new_tokens, kept=kept)

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
        return first_result(self.batch([prompt], label_space))

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
    return TextInference(kernel, check_generation(max_new_tokens, stop), tuple(stop))
