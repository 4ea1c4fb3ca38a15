"""What a kernel of a causal language model is: a model, a tokenizer, settings, and a name for the numbers it gives.

:class:`KernelBase` holds them, loads what is named by a string when it is first needed, and is pickled as the string.
What a kernel computes is in ``causal_lm``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from StaICC.errors import ArgumentError
from StaICC.prefabricate_inference.batching import BatchRunner
from StaICC.prefabricate_inference.forward import Forward, torch_module
from StaICC.prefabricate_inference.label_tokens import LabelScoring
from StaICC.prefabricate_inference.model_source import Loaded, ModelSource, live_digest

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["KernelBase", "Normalisation", "OnTooLong", "Variant", "choose"]

CPU_BUDGET = 2048
CUDA_BUDGET = 16384

OnTooLong = Literal["error", "drop-demonstrations"]
Variant = Literal["paper", "0.1.1"]
Normalisation = Literal["sum", "mean"]
Choice = TypeVar("Choice")


def choose(name: str, value: Choice, legal: Any) -> Choice:
    """The value, if it is one of a closed set of names; an error that lists them if not."""
    if value not in get_args(legal):
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, get_args(legal)))}, not {value!r}")
    return value


class KernelBase:
    """A model with its tokenizer and settings; the arguments are those of ``CausalLMKernel``."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        label_scoring: LabelScoring = "last",
        label_normalisation: Normalisation = "sum",
        variant: Variant = "paper",
        token_budget: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        max_length: int | None = None,
        on_too_long: OnTooLong = "error",
        demonstration_separator: str = "\n",
        prefix_reuse: bool = True,
        add_special_tokens: bool = True,
        label_mass: bool = True,
        padding: Literal["right", "left"] = "right",
    ) -> None:
        for name, value in (("token_budget", token_budget), ("max_length", max_length)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ArgumentError(f"{name} must be a positive integer or None, not {value!r}")
        if not demonstration_separator:
            raise ArgumentError("demonstration_separator must not be empty")
        self.label_scoring = choose("label_scoring", label_scoring, LabelScoring)
        self.label_normalisation = choose("label_normalisation", label_normalisation, Normalisation)
        self.variant = choose("variant", variant, Variant)
        self.on_too_long = choose("on_too_long", on_too_long, OnTooLong)
        self.padding = choose("padding", padding, Literal["right", "left"])
        self.token_budget = token_budget
        self.max_length = max_length
        self.demonstration_separator = demonstration_separator
        self.prefix_reuse = prefix_reuse
        self.add_special_tokens = add_special_tokens
        self.label_mass = label_mass
        self._source: ModelSource | None = None
        self._loaded: Loaded | None = None
        self._identity: str | None = None
        if isinstance(model, ModelSource):
            self._source = ModelSource(model.spec, device or model.device, dtype or model.dtype)
        else:
            torch = torch_module()
            if not callable(model) or not hasattr(model, "config") or not hasattr(model, "parameters"):
                raise ArgumentError(
                    f"model must be a causal language model of transformers, not {type(model).__name__}; "
                    "to name one by a string, use CausalLMKernel.from_spec"
                )
            if dtype is not None:
                number = getattr(torch, dtype, None)
                if not isinstance(number, torch.dtype):
                    raise ArgumentError(f"there is no number type {dtype!r}; give 'float32', 'bfloat16' or 'float16'")
                model = model.to(number)
            if device is not None:
                model = model.to(device)
            self._loaded = Loaded(model, tokenizer)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._runner: BatchRunner | None = None

    @classmethod
    def from_spec(cls, spec: str, *, device: str | None = None, dtype: str | None = None, **options: Any) -> Self:
        """A kernel of a model named by a string; it is loaded when it is first needed.

        Args:
            spec: ``"smollm2"``, ``"hf:NAME_OR_PATH"`` (``"hf:NAME@REVISION"``), a folder, or a ``.gguf`` file.
            device: Such as ``"cuda:0"``; None takes a CUDA device if there is one, else the CPU.
            dtype: Such as ``"bfloat16"``; None takes float32 on the CPU, else the checkpoint's own.
            **options: As for the class.

        Returns:
            The kernel. It is pickled as the string, so it can be sent to worker processes.

        Raises:
            ArgumentError: The string names no model.
        """
        return cls(ModelSource(spec, device, dtype), None, **options)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_lock", "_runner"):
            del state[name]
        if self._source is not None:
            state["_loaded"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._reset()

    # What it is

    def _parts(self) -> Loaded:
        if self._loaded is None:
            assert self._source is not None
            self._loaded = self._source.load()
        return self._loaded

    @property
    def model(self) -> Any:
        """The model; loads it."""
        return self._parts().model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer; loads it."""
        return self._parts().tokenizer

    @property
    def fingerprint(self) -> str:
        """What identifies the numbers of this kernel, the same in every process.

        It names the model (revision or digest), its number type, and how labels are scored.
        """
        if self._identity is None:
            if self._source is not None:
                self._identity = f"{self._source.identity()}|{self._source.resolved_dtype()}"
            else:
                dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")
                self._identity = f"{type(self.model).__name__}@{live_digest(self.model)}|{dtype}"
        parts = ["causal-lm", self._identity, f"labels:{self.label_scoring}", f"channel:{self.variant}"]
        if self.label_scoring == "full":
            parts.append(self.label_normalisation)
        if not self.add_special_tokens:
            parts.append("no-special-tokens")
        if self.on_too_long != "error":
            parts.append(f"{self.on_too_long}:{self.max_length}:{self.demonstration_separator!r}")
        return "|".join(parts)

    def runner(self) -> BatchRunner:
        """The batch runner of the loaded model."""
        if self._runner is None:
            forward = Forward(self.model, self.padding)
            budget = self.token_budget or (CUDA_BUDGET if forward.device.type == "cuda" else CPU_BUDGET)
            self._runner = BatchRunner(forward, budget, self.prefix_reuse)
        return self._runner

    def release(self) -> None:
        """Give back the memory of the cached prefix."""
        with self._lock:
            if self._runner is not None:
                self._runner.release()
