"""What kernels on engines of their own share: options of scoring, arguments of the engine, pickling, identity.

Prompts are tokenised, checked and shortened as for :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`.
"""

from __future__ import annotations

import dataclasses
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
    _capabilities_of_class = frozenset(Capability) - {
        Capability.HIDDEN_STATES,
        Capability.LAYER_STATES,
        Capability.FULL_VOCABULARY,
    }

    def __init__(self, spec: str, **options: Any) -> None:
        """Divide the options into those of scoring and the engine's own arguments, and check both; nothing is loaded.

        Args:
            spec: The model: ``"smollm2"``, ``"hf:NAME"``, the path of a folder or file, or a name of the hub.
            **options: The options.

        Raises:
            ArgumentError: The model's name has no meaning, or an option has an illegal value.
            UnknownNameError: Neither the kernel nor the engine has an option of this name.
        """
        names_of_record = {field.name for field in dataclasses.fields(self.option_record)}
        scoring_names = names_of_record - NOT_TAKEN  # without those that say how the torch kernel computes
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
        # The source only finds the files. The engine chooses the device and the number type itself.
        self._source = ModelSource(spec, device="cpu", dtype="float32")
        self._refuse_unknown_arguments(scoring_names)
        self._reset()  # no engine is running yet

    def _refuse_unknown_arguments(self, scoring_names: set[str]) -> None:
        """Refuse arguments that the engine does not have.

        Args:
            scoring_names: The names of the options of scoring, which the message lists, too.

        Raises:
            UnknownNameError: There is one.
        """
        if not self.engine_arguments:
            return  # the package that knows the names may not be installed
        known_arguments = set(self._known_arguments())
        all_names = known_arguments | scoring_names
        for name in self.engine_arguments:
            if name not in known_arguments:
                raise unknown_option(f"{self.kind}:", name, all_names)

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
        name, options = split_options(text, option_types(cls.option_record), others=True, given=options)
        model = name.removeprefix(cls.kind).removeprefix(":")
        if not model:
            raise ArgumentError(f"the kernel {cls.kind!r} needs a model: got {text!r}, expected '{cls.kind}:MODEL'")
        return cls(model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("options", "engine_arguments", "_source")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    def _identity(self, engine_facts: Mapping[str, str]) -> Identity:
        """Return the identity of the files, of the engine with its arguments, and of the scoring options.

        Args:
            engine_facts: Facts about the engine, such as its version.
        """
        arguments = {}
        unidentified = set()
        for name, value in self.engine_arguments.items():
            if name in self.no_number:
                continue
            arguments[name] = value
            for reason in _why_unidentified(value):
                unidentified.add(f"engine argument {name!r} {reason}")

        def class_name(value: object) -> str:
            """Return what takes the place of a value that JSON does not have."""
            return type(value).__qualname__

        arguments_text = json.dumps(arguments, sort_keys=True, default=class_name)
        content = self._content or self._read_content()
        who = {**content, **engine_facts, "kernel": type(self).__name__, "engine arguments": arguments_text}
        return Identity(who, self.options.settings(), tuple(sorted(unidentified)))

    @property
    def display_name(self) -> str:
        """The name of the model: of the hub, or of its folder or file."""
        return f"{self.kind}:{self._source.short_name()}"

    def release(self) -> None:
        """Stop the engine and free its memory; it is started again when it is needed."""
        with self._lock:
            self._engine = None
            self._content = None


def _why_unidentified(value: Any) -> list[str]:
    """Return why an engine argument, written as JSON, does not determine what the engine does; empty if it does.

    Args:
        value: The argument, or a value in it.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return []
    if isinstance(value, str):
        if os.path.exists(value):
            return ["names a file or folder, which can change"]
        return []
    if isinstance(value, Mapping):
        items = list(value.values())
    elif isinstance(value, (list, tuple)):
        items = list(value)
    else:
        return [f"is a {type(value).__qualname__}"]
    reasons = []
    for item in items:
        reasons += _why_unidentified(item)
    return reasons
