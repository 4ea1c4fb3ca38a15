"""A causal language model as an inference function, batched with shared prefixes.

:class:`CausalLMKernel` wraps a model and a tokenizer of ``transformers``. Called with a prompt and a label space it
returns a probability for each label. For a list of prompts it computes every distinct prefix once, only the required
positions, and only the labels' rows of the output matrix. The modules ``forward`` (what to compute, calls
of the model) and ``batching`` (order and memory) do this.

Batching changes results by rounding only. No prompt is truncated silently. Problems of the labels' tokens are reported
before the run (through ``logging``, and in :attr:`LabelScores.issues`).

Shapes, for ``n`` prompts, ``L`` labels, hidden width ``d``, vocabulary ``V``: ``batch`` returns ``n`` lists of ``L``
floats; ``hidden_states`` a float32 array ``(n, d)``; ``full_vocabulary_logits`` a float32 array ``(n, V)``; ``losses``
``n`` floats.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.inference.contract import LoadsModel, Text
from StaICC.inference.identity import Identity, hub_name
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner, Ending, Tokens, examined
from StaICC.kernels.huggingface.finite_check import why_not_finite
from StaICC.kernels.huggingface.forward import Forward, guard
from StaICC.kernels.huggingface.live_state import digest_of_weights, live_state, numerics
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.huggingface.source import Loaded, ModelSource, number_type
from StaICC.kernels.huggingface.token_kernel import LABEL_FEATURES, LabelScores, Logits, Logs, PromptReader, TokenKernel
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import OptionFact, option_types, options_of, split_options

CPU_BYTES = 4096
"""Positions of a call on a CPU times the bytes of a number. Larger tensors do not fit into the caches."""
CUDA_BUDGET = 65536
"""On an NVIDIA H200 SmolLM2 is up to twice as fast as with 16,384 positions."""
ALGORITHM = "2"
"""Raised with any change of this package that can move a prediction beyond rounding."""
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each model: several kernels, each in its thread, may share one."""


class CausalLMKernel(TokenKernel, LoadsModel):
    """A causal language model that scores labels, for one prompt or many.

    Args:
        model: A causal language model of ``transformers``, on any device.
        tokenizer: Its tokenizer.
        label_scoring: ``"last"``: the last token of each label decides, as in 0.1.1; ``"first"``: the first;
            ``"full"``: the log-probabilities of all its tokens in the context of the prompt.
        label_normalisation: For ``"full"``: ``"sum"`` of the log-probabilities, so that the result is each label's
            share of the labels' probability mass, or their ``"mean"`` per token.
        variant: Noisy channel: ``"paper"`` (sum over the tokens after the label) or ``"0.1.1"`` (minus the mean loss
            over the prompt).
        token_budget: Maximum number of positions in one call of the model; None chooses by the device. Halved when
            memory runs out.
        device: Where to move the model; None leaves it where it is.
        dtype: Number type to convert the model to, such as ``"bfloat16"``; None leaves it.
        max_length: Maximum number of tokens of a prompt (with its label where labels are scored in full); None takes
            the model's limit.
        on_too_long: ``"error"``, or ``"drop-demonstrations"``: remove demonstrations from the front until the prompt
            fits, the same number for every label, and count them in the report.
        prefix_reuse: Whether to compute shared prefixes once (if the model supports it).
        compile: Whether to compile the layers of a model on a CPU with ``torch.compile``. This needs a C++ compiler and
            some seconds more at the first call.
        add_special_tokens: Whether the tokenizer adds its special tokens (the beginning of the sequence) to prompts.
        label_mass: Whether to compute the total probability of the labels' tokens (needs the complete output matrix
            at one position).
        prompt_format: ``"plain"``; ``"chat"``: each prompt is one turn of a user, written by the tokenizer's chat
            template, and labels are scored where the reply starts; ``"chat-turns"``: demonstrations are turns too.
        system: Text of a system turn before a chat prompt.
        template_arguments: Arguments of the chat template as a JSON object.

    Raises:
        ArgumentError: An argument has an illegal value.
        MissingDependencyError: ``torch`` is not installed.

    Example:
        >>> kernel = CausalLMKernel.from_spec("smollm2")
        >>> kernel(prompt="I like it. sentiment: ", label_space=["positive", "negative"])  # doctest: +SKIP
        [0.83, 0.17]
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, device: str | None = None, dtype: str | None = None, **options: Any
    ) -> None:
        self.options = KernelOptions(**options)
        self._source: ModelSource | None = None
        self._loaded: Loaded | None = None
        if isinstance(model, ModelSource):
            self._source = dataclasses.replace(model, device=device or model.device, dtype=dtype or model.dtype)
        else:
            if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
                raise ArgumentError(
                    f"model must be a causal language model of transformers, not {type(model).__name__}; "
                    "to name one by a string, use CausalLMKernel.from_spec"
                )
            if dtype is not None:
                model = model.to(number_type(dtype))
            self._loaded = Loaded(model if device is None else model.to(device), tokenizer)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.RLock()
        self._runner: BatchRunner | None = None
        self._weights: object = None
        """What the weights were that the cached prefix was computed with."""

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the options of :class:`ModelSource` (loading) and of :class:`KernelOptions` (scoring, length)."""
        return [*options_of(ModelSource), *options_of(KernelOptions)]

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> CausalLMKernel:
        """A kernel of a model named by a string; it is loaded when it is first needed.

        Args:
            spec: ``"smollm2"``, ``"hf:NAME_OR_PATH"`` (``"hf:NAME@REVISION"``), a folder, or a ``.gguf`` file; options
                may follow, as in ``"hf:gpt2;label_scoring=full;dtype=bfloat16"``.
            **options: Those of :class:`~StaICC.kernels.huggingface.source.ModelSource` and
                :class:`~StaICC.kernels.huggingface.prompts.KernelOptions`.

        Returns:
            The kernel. It is pickled as the string and the options, so it can be sent to worker processes.

        Raises:
            ArgumentError: The string names no model, or an option is illegal.
            UnknownNameError: There is no such option.
        """
        loading = option_types(ModelSource, "spec")
        name, named = split_options(spec, {**loading, **option_types(KernelOptions)}, given=options)
        source = ModelSource(name, **{option: named.pop(option) for option in loading if option in named})
        return cls(source, None, **named)

    def __getstate__(self) -> dict[str, Any]:
        dropped = {"_lock", "_runner", "_weights"} | ({"_loaded"} if self._source else set())
        return {name: value for name, value in vars(self).items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._loaded = None
        self.__dict__.update(state)
        self._reset()

    # What it is

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute; no state of one position decides labels that are scored in full."""
        return super().capabilities - ({Capability.LAYER_STATES} if self.options.whole_labels else set())

    def _parts(self) -> Loaded:
        if self._loaded is None:
            assert self._source is not None
            self._loaded = self._source.load()
        return self._loaded

    @property
    def is_loaded(self) -> bool:
        """Whether model and tokenizer are in memory."""
        return self._loaded is not None

    def load_model(self) -> None:
        """Load model and tokenizer, if they are not loaded yet."""
        self._parts()

    @property
    def model(self) -> Any:
        """The model; loads it."""
        return self._parts().model

    @property
    def tokenizer(self) -> Any:
        """The tokenizer; loads it."""
        return self._parts().tokenizer

    @property
    def display_name(self) -> str | None:
        """The name of the model: of the hub, or of its folder or file; does not load the model."""
        if self._source is None:
            return hub_name(self.model)
        name = self._source.short_name()
        return name if self._source.where()[0] == "gguf" else f"hf:{name}"

    @property
    def recheck_tolerance(self) -> float:
        """By how much a prediction may differ when it is computed again in another batch; does not load the model."""
        loaded, source = self._loaded, self._source
        dtype = source.resolved_dtype() if loaded is None and source is not None else str(self.model.dtype)
        exact = dtype.removeprefix("torch.") in ("float32", "float64") and not numerics()
        return 1e-4 if exact else 5e-2

    def identity(self) -> Identity:
        """What determines the predictions, computed now from the files and, once loaded, from the model in memory.

        A model named by a string is identified by the bytes of its files, before and after it is loaded alike. Where
        it was changed in memory after loading, the facts that differ are added.
        """
        with self._lock:
            source, reasons = self._source, tuple[str, ...]()
            if source is not None and self._loaded is None and source.is_complete():
                who = source.content()
            else:
                loaded = self._parts()
                now = live_state(loaded.model, loaded.tokenizer)
                known = loaded.state.who if source is None or source.is_complete() else {}
                who = {**loaded.content, **{name: value for name, value in now.who.items() if value != known.get(name)}}
                reasons = tuple(name for name in now.unidentified if name not in loaded.state.unidentified)
            if self._runner is not None:  # a run begins: its first batch is compared again
                can = self._runner.forward.can
                can.checked, can.guard = 0, -1 if reasons else can.guard  # foreign code may have come since the trial
            who = {**who, "kernel": "CausalLMKernel", "algorithm": ALGORITHM, **numerics()}
            return Identity(who, self.options.settings(), reasons)

    def runner(self) -> BatchRunner:
        """The batch runner of the loaded model, made anew when the model was changed."""
        if self._runner is None or self._runner.forward.can.guard != guard(self.model):
            forward = examined(Forward(self.model))
            if self.options.compile:
                forward.compile()
            usual = CUDA_BUDGET if forward.device.type == "cuda" else CPU_BYTES // forward.dtype.itemsize
            self._runner = BatchRunner(forward, self.options.token_budget or usual, self.options.prefix_reuse)
        return self._runner

    def release(self) -> None:
        """Free the memory of the cached prefix."""
        with self._lock:
            if self._runner is not None:
                self._runner.release()

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Also switch all modules to evaluation mode, and drop a prefix cached with other weights (``.data``).

        Other kernels of the model wait.
        """
        with super()._running(prompts), _locks.setdefault(self.model, threading.RLock()):
            training = [module for module in self.model.modules() if module.training]
            for module in training:
                module.training = False
            if self._weights is not None and self._weights != digest_of_weights(self.model):
                self.release()
                self._weights = None
            try:
                yield
            finally:
                held = self._runner is not None and self._runner.held
                self._weights = (self._weights or digest_of_weights(self.model)) if held else None
                for module in training:
                    module.training = True

    def _last(self, ids: Sequence[Tokens]) -> Any:
        """What is computed at the last position of each sequence."""
        self._count(ids)
        return self.runner().last(ids)

    def _limit(self) -> int | None:
        return self.format.limit(self.model.config)

    def _reader(self) -> TokenKernel:
        if self._source is None or self._loaded is not None:
            return self
        return PromptReader(*self._source.load_reader(), self.options)

    def _why_not_finite(self) -> str:
        return why_not_finite(self.model)

    def _computed(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        return sequences if self.runner().forward.can.reason else super()._computed(sequences, starts, labels)

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> Logits:
        return self.runner().forward.rows(self._last(sequences), tokens, totals)

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        self._count(self._computed(sequences, starts, labels))
        return self.runner().log_probabilities(sequences, starts)

    # What other methods are built on

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        """Last hidden state (after the final normalisation) at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, width).
        """
        return self.features(prompts, (), {"hidden"})["hidden"]

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        """Logits of the whole vocabulary at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, vocabulary).
        """
        return self.features(prompts, (), {"vocabulary"})["vocabulary"]

    def likely_tokens(self, prompt: str, count: int) -> list[tuple[str, float]]:
        """Return the most probable tokens after a prompt, with their probabilities; not counted as tokens of a run.

        Args:
            prompt: The prompt.
            count: How many tokens.
        """
        counted = self.tokens_used
        (logits,) = torch.from_numpy(self.full_vocabulary_logits([prompt]))
        self.tokens_used = counted
        best = logits.double().softmax(0).topk(count)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(str(self.tokenizer.decode([token])), share) for token, share in pairs]

    def layer_states(self, prompts: Sequence[str]) -> Any:
        """State of each decoder layer at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, layers, width).
        """
        with self._running(prompts):
            sequences = self._read([[prompt] for prompt in prompts]).before()
            self._count(sequences)
            return self.runner().layer_states(sequences).numpy()

    def patched(
        self, prompts: Sequence[str], label_space: Sequence[str], layer: int, state: Sequence[float]
    ) -> list[list[float]]:
        """Probability of each label for each prompt, with a vector in the place of a layer's state.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.
            layer: The decoder layer, from 0.
            state: What replaces its state at the last position of each prompt.

        Raises:
            ArgumentError: There is no such layer, its width is another one, or labels are scored in full.
        """
        if self.options.whole_labels:
            raise ArgumentError("label_scoring: got 'full', expected 'last' or 'first': one position is replaced")
        with self._running(prompts):
            tokens, shared = self.format.deciding(label_space)
            sequences = self._read([[prompt] for prompt in prompts]).before(shared)
            self._count(sequences)
            hidden = self.runner().patched(sequences, layer, state)
            return self._probabilities(self.runner().forward.rows(hidden, tokens, False)[0])

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> tuple[list[list[float]], Any, Any]:
        """Probabilities of the labels, whole logits and hidden states, all from one run.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.

        Returns:
            A list of probabilities for each prompt; a float32 array (prompts, vocabulary); a float32 array (prompts,
            width).
        """
        features = self.features(prompts, label_space, {"probabilities", "vocabulary", "hidden"})
        return features["probabilities"], features["vocabulary"], features["hidden"]

    @property
    def joint_features(self) -> frozenset[str]:
        """The features that :meth:`features` computes."""
        means = self.options.whole_labels and self.options.label_normalisation != "sum"
        return frozenset({"probabilities", "hidden", "vocabulary"} | (set() if means else {"log_probabilities"}))

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Collection[str]) -> dict[str, Any]:
        """Several features of each prompt, from one run of the model where labels are scored by one token each.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels.
            wanted: Names of :attr:`joint_features`. ``"log_probabilities"`` are those of the labels, over the whole
                vocabulary.

        Returns:
            One sequence of rows for each name.
        """
        features: dict[str, Any] = {}
        single = scored = not {*LABEL_FEATURES}.isdisjoint(wanted)
        if scored and self.options.whole_labels:
            scores, single = self.score(prompts, label_space), False
            features = {"probabilities": scores.predictions(), "log_probabilities": scores.log_scores}
        with self._running(prompts):
            reading = self._read([[prompt] for prompt in prompts])
            tokens, shared = self.format.deciding(label_space) if single else ([], 0)
            if single:
                self._audit(label_space)
                hidden = self._last(reading.before(shared))
                needs_totals = self.options.label_mass or "log_probabilities" in wanted
                logits, totals = self.runner().forward.rows(hidden, tokens, needs_totals)
                mass = None
                if totals is not None and self.options.label_mass:
                    mass = self._token_masses(tokens, logits, totals)
                scores = LabelScores(self._probabilities(logits), logits, mass, (), reading.dropped)
                features["probabilities"] = scores.predictions()
                if totals is not None and "log_probabilities" in wanted:
                    pairs = zip(logits, totals, strict=True)
                    features["log_probabilities"] = [[value - total for value in row] for row, total in pairs]
            if not {"vocabulary", "hidden"}.isdisjoint(wanted):
                if shared or not single:  # those of a prompt do not depend on the labels
                    hidden = self._last(reading.before())
                forward = self.runner().forward
                vectors = {"vocabulary": forward.whole, "hidden": forward.states}
                features |= {name: read(hidden).numpy() for name, read in vectors.items() if name in wanted}
        return features

    def _continued(
        self, ids: Sequence[Tokens], most: int, stop: Sequence[str], sampling: dict[str, Any], choices: Sequence[str]
    ) -> list[str]:
        ends = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
        if ends is None:
            ends = getattr(self.tokenizer, "eos_token_id", None)
        listed = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        end = Ending(self.tokenizer, listed, stop)
        tokens = self.runner().generate(ids, most, end, **sampling)
        self._count(ids, tokens)
        return [Text(end.text(row), "stop" if end.complete(row) else "length") for row in tokens]
