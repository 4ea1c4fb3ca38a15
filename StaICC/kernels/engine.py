"""What kernels on engines of their own share: options of scoring, arguments of the engine, pickling, identity.

Prompts are tokenised, checked and shortened as for :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.huggingface.prompts import NEUTRAL, KernelOptions
from StaICC.kernels.huggingface.source import ModelSource
from StaICC.kernels.huggingface.token_kernel import TokenKernel
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import OptionFact, option_types, options_of, split_options, unknown_option

NOT_TAKEN = NEUTRAL | {"compile"}
"""Options of the torch kernel that say how it computes; engines have options of their own for that."""


class EngineKernel(TokenKernel):
    """A model on an engine; it is loaded when it is first needed.

    Args:
        spec: The model, as for :class:`~StaICC.kernels.huggingface.source.ModelSource`; a name alone is one of the hub.
        **options: Those of :attr:`option_record`; all others are arguments of the engine.

    Raises:
        ArgumentError: The model's name has no meaning, or an option has an illegal value.
        UnknownNameError: Neither the kernel nor the engine has an option of this name.
    """

    kind: ClassVar[str]
    """The word before the colon of the model's name."""
    option_record: ClassVar[type[KernelOptions]]
    no_number: ClassVar[frozenset[str]]
    """Arguments of the engine that change no number."""

    # An engine returns texts and log-probabilities, but no states and no logits of the whole vocabulary.
    _can = frozenset(Capability) - {Capability.HIDDEN_STATES, Capability.LAYER_STATES, Capability.FULL_VOCABULARY}

    def __init__(self, spec: str, **options: Any) -> None:
        scoring_names = set(self.option_record.__dataclass_fields__) - NOT_TAKEN
        scoring_options = {}
        self.engine_arguments: dict[str, Any] = {}
        for name, value in options.items():
            if name in scoring_names:
                scoring_options[name] = value
            else:
                self.engine_arguments[name] = value
        self.options = self.option_record(**scoring_options)
        is_known_source = spec == "smollm2" or spec.startswith("hf:") or os.path.exists(spec)
        if not is_known_source:
            spec = f"hf:{spec}"
        self._source = ModelSource(spec, device="cpu", dtype="float32")
        # The engine is asked for the names of its arguments only if there are some: its package may not be installed.
        if self.engine_arguments:
            known_arguments = set(self._known_arguments())
            for name in self.engine_arguments:
                if name not in known_arguments:
                    raise unknown_option(f"{self.kind}:", name, known_arguments | scoring_names)
        self._reset()

    def _read_content(self) -> dict[str, str]:
        """Return facts about the files as they are now."""
        raise NotImplementedError

    def _known_arguments(self) -> Iterable[str]:
        """Return the names of the engine's arguments that may be given."""
        raise NotImplementedError

    def _reset(self) -> None:
        """Set what belongs to a running engine: there is none yet."""
        self._lock = threading.RLock()
        self._engine: Any = None
        self._content: Mapping[str, str] | None = None

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the options of scoring, length and text; all others are arguments of the engine."""
        return options_of(cls.option_record, *NOT_TAKEN)

    @classmethod
    def from_spec(cls, text: str, **options: Any) -> EngineKernel:
        """Return the kernel of ``"KIND:MODEL;option=value"``.

        Raises:
            ArgumentError: The text names no model, or an option is given twice.
        """
        name, options = split_options(text, option_types(cls.option_record), True, given=options)
        model = name.removeprefix(cls.kind).removeprefix(":")
        if not model:
            raise ArgumentError(f"the kernel {cls.kind!r} needs a model: got {text!r}, expected '{cls.kind}:MODEL'")
        return cls(model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("options", "engine_arguments", "_source")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _identity(self, engine: Mapping[str, str]) -> Identity:
        """Return the identity of the files, of the engine with its arguments, and of the scoring options.

        Args:
            engine: Facts about the engine, such as its version.
        """
        arguments = {}
        reasons = set()
        for name, value in self.engine_arguments.items():
            if name in self.no_number:
                continue
            arguments[name] = value
            for reason in _unidentified(value):
                reasons.add(f"engine argument {name!r} {reason}")
        arguments_text = json.dumps(arguments, sort_keys=True, default=lambda value: type(value).__qualname__)
        content = self._content or self._read_content()
        who = {**content, **engine, "kernel": type(self).__name__, "engine arguments": arguments_text}
        return Identity(who, self.options.settings(), tuple(sorted(reasons)))

    @property
    def display_name(self) -> str:
        """The name of the model: of the hub, or of its folder or file."""
        return f"{self.kind}:{self._source.short_name()}"

    def release(self) -> None:
        """Stop the engine and free its memory; it is started again when it is needed."""
        with self._lock:
            self._engine = None
            self._content = None


def _unidentified(value: Any) -> list[str]:
    """Return why the text of an engine argument does not say what it is; an empty list if it does.

    Args:
        value: The argument, or a value in it.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        reasons = []
        for item in value:
            reasons += _unidentified(item)
        return reasons
    if isinstance(value, str):
        return ["names a file or folder, which can change"] if os.path.exists(value) else []
    if value is None or isinstance(value, (bool, int, float)):
        return []
    return [f"is a {type(value).__qualname__}"]
