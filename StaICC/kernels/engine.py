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

    _can = frozenset(Capability) - {Capability.HIDDEN_STATES, Capability.LAYER_STATES, Capability.FULL_VOCABULARY}

    def __init__(self, spec: str, **options: Any) -> None:
        scoring = set(self.option_record.__dataclass_fields__) - NOT_TAKEN
        self.options = self.option_record(**{name: value for name, value in options.items() if name in scoring})
        self.engine_arguments: dict[str, Any] = {k: v for k, v in options.items() if k not in scoring}
        if spec != "smollm2" and not spec.startswith("hf:") and not os.path.exists(spec):
            spec = f"hf:{spec}"
        self._source = ModelSource(spec, "cpu", "float32")
        known = self._known_arguments() if self.engine_arguments else ()
        for name in self.engine_arguments:
            if name not in known:
                raise unknown_option(f"{self.kind}:", name, {*known, *scoring})
        self._reset()

    def _read_content(self) -> dict[str, str]:
        """Return facts about the files as they are now."""
        raise NotImplementedError

    def _known_arguments(self) -> Iterable[str]:
        """Return the names of the engine's arguments that may be given."""
        raise NotImplementedError

    def _reset(self) -> None:
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
        """Return the files, facts about the engine with its arguments, and the scoring options."""
        arguments = {k: v for k, v in self.engine_arguments.items() if k not in self.no_number}
        shown = json.dumps(arguments, sort_keys=True, default=lambda value: type(value).__qualname__)
        reasons = {f"engine argument {name!r} {why}" for name, item in arguments.items() for why in _unidentified(item)}
        content = self._content or self._read_content()
        who = {**content, **engine, "kernel": type(self).__name__, "engine arguments": shown}
        return Identity(who, self.options.settings(), tuple(sorted(reasons)))

    @property
    def display_name(self) -> str:
        """The name of the model: of the hub, or of its folder or file."""
        return f"{self.kind}:{self._source.short_name()}"

    def release(self) -> None:
        """Stop the engine and free its memory; it is started again when it is needed."""
        with self._lock:
            self._engine = self._content = None


def _unidentified(value: Any) -> list[str]:
    """Return why the text of an engine argument does not say what it is."""
    if isinstance(value, (Mapping, list, tuple)):
        items = value.values() if isinstance(value, Mapping) else value
        return [why for item in items for why in _unidentified(item)]
    if isinstance(value, str):
        return ["names a file or folder, which can change"] if os.path.exists(value) else []
    return [] if value is None or isinstance(value, (bool, int, float)) else [f"is a {type(value).__qualname__}"]
