"""A causal language model as an inference function, batched with shared prefixes.

:class:`CausalLMKernel` wraps a model and a tokenizer of ``transformers``. Called with a prompt and a label space it
returns a probability for each label. For a list of prompts it computes every distinct prefix once, only the required
positions, and only the labels' rows of the output matrix. The module ``forward`` decides what to compute and calls the
model; ``batching`` decides the order and keeps to the memory.

Batching changes results by rounding only. No prompt is truncated silently. Problems of the labels' tokens are reported
before the run (through ``logging``, and in :attr:`LabelScores.issues`).

Shapes, for ``n`` prompts, ``L`` labels, hidden width ``d``, vocabulary ``V``: ``batch`` returns ``n`` lists of ``L``
floats; ``hidden_states`` a float32 array ``(n, d)``; ``full_vocabulary_logits`` a float32 array ``(n, V)``; ``losses``
``n`` floats.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.inference.contract import LoadsModel, Text
from StaICC.inference.identity import Identity, hub_name
from StaICC.kernels.huggingface import interventions, torch
from StaICC.kernels.huggingface.batching import BatchRunner, Tokens
from StaICC.kernels.huggingface.capability_trial import examined
from StaICC.kernels.huggingface.finite_check import why_not_finite
from StaICC.kernels.huggingface.forward import Forward, TokenLogits, fingerprint
from StaICC.kernels.huggingface.generation import StoppingCriterion, generate
from StaICC.kernels.huggingface.live_state import digest_of_weights, live_state, numerics
from StaICC.kernels.huggingface.prompts import KernelOptions
from StaICC.kernels.huggingface.source import Loaded, ModelSource, number_type
from StaICC.kernels.huggingface.token_kernel import (
    LABEL_FEATURES,
    STATE_FEATURES,
    LabelScores,
    Logs,
    PromptReader,
    TokenKernel,
)
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import OptionFact, option_types, options_of, split_options

CPU_BYTES = 4096
"""Token positions of one call on a CPU, times the bytes of a number. Larger tensors do not fit into the caches."""
CUDA_BUDGET = 65536
"""Token positions of one call on a GPU. With them, SmolLM2 on an NVIDIA H200 is up to twice as fast as with 16,384."""
EXACT_TOLERANCE = 1e-4
"""How much a probability may differ in another batch, in float32 and float64: sums are added in another order."""
HALF_TOLERANCE = 5e-2
"""The same for number types of 16 bits and for approximate matrix products."""
ALGORITHM = "2"
"""Part of the identity. Raised with any change of this package that can move a prediction beyond rounding."""
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each model: several kernels, each in its thread, may share one."""


class DetailedScores(NamedTuple):
    """What a model computes after prompts."""

    probabilities: list[list[float]]
    """For each prompt, a probability for each label."""
    logits: Any
    """A float32 array (prompts, vocabulary)."""
    states: Any
    """The last hidden states, a float32 array (prompts, width)."""


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
        self, model: Any, tokenizer: Any = None, *, device: str | None = None, dtype: str | None = None, **options: Any
    ) -> None:
        """Make a kernel of a model in memory, or of a :class:`ModelSource`, which is loaded when it is first needed.

        The description of the class explains the arguments. ``options`` are the fields of :class:`KernelOptions`.
        """
        self.options = KernelOptions(**options)
        self._source: ModelSource | None = None
        """Where the model is loaded from; ``None`` for a model in memory."""
        self._loaded: Loaded | None = None
        """The model with its tokenizer; ``None`` until it is loaded."""
        if isinstance(model, ModelSource):
            self._source = dataclasses.replace(model, device=device or model.device, dtype=dtype or model.dtype)
        else:
            self._loaded = _placed(model, tokenizer, device=device, dtype=dtype)
        self._reset()  # the lock, and what belongs to the model in memory

    def _reset(self) -> None:
        """Set what is not pickled: the lock, and what belongs to the model in memory."""
        self._lock = threading.RLock()
        self._runner: BatchRunner | None = None
        self._weights: object = None
        """The digest of the weights with which the cached prefix was computed; None without a cached prefix."""

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
        loading_types = option_types(ModelSource, "spec")
        types = {**loading_types, **option_types(KernelOptions)}
        name, all_options = split_options(spec, types, given=options)
        loading_options = {}
        scoring_options = {}
        for option, value in all_options.items():
            if option in loading_types:
                loading_options[option] = value
            else:
                scoring_options[option] = value
        return cls(ModelSource(name, **loading_options), None, **scoring_options)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: a model that is named by a string is loaded again from its source."""
        not_pickled = {"_lock", "_runner", "_weights"}
        if self._source is not None:
            not_pickled.add("_loaded")
        return {name: value for name, value in vars(self).items() if name not in not_pickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a kernel from what :meth:`__getstate__` returned; a model with a source is loaded when needed."""
        self._loaded = None  # unless the state has it
        self.__dict__.update(state)
        self._reset()

    # What it is

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute with its options.

        Methods with the capability ``LAYER_STATES`` change the state of a layer at the last position of a prompt, which
        decides labels that are scored by one token. Labels that are scored by all of their tokens are read at several
        positions, so the capability is missing then.
        """
        if self.options.scores_all_tokens:
            return super().capabilities - {Capability.LAYER_STATES}
        return super().capabilities

    def _parts(self) -> Loaded:
        """Return the model and the tokenizer; loads them."""
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

    def load_tokenizer(self) -> Any:
        """Return the tokenizer, without loading the weights of a model that is named by a string."""
        if self._loaded is not None or self._source is None:
            return self.tokenizer
        return self._source.load_reader().tokenizer

    @property
    def display_name(self) -> str | None:
        """The name of the model: of the hub, or of its folder or file; does not load the model."""
        if self._source is None:
            return hub_name(self.model)
        name = self._source.short_name()
        if self._source.location().kind == "gguf":
            return name
        return f"hf:{name}"

    @property
    def recheck_tolerance(self) -> float:
        """By how much a prediction may differ when it is computed again in another batch; does not load the model."""
        if self._loaded is None and self._source is not None:
            dtype = self._source.resolved_dtype()
        else:
            dtype = str(self.model.dtype)
        is_exact = dtype.removeprefix("torch.") in ("float32", "float64")
        # ``numerics`` lists the settings of torch that allow approximate matrix products.
        if is_exact and not numerics():
            return EXACT_TOLERANCE
        return HALF_TOLERANCE

    def identity(self) -> Identity:
        """What determines the predictions, computed now from the files and, once loaded, from the model in memory.

        A model named by a string is identified by the bytes of its files, before and after it is loaded alike. Where
        it was changed in memory after loading, the facts that differ are added.
        """
        with self._lock:
            if self._source is not None and self._loaded is None and self._source.is_complete():
                model = Identity(self._source.content())
            else:
                model = self._identity_in_memory(self._parts())
            self._check_next_batch(has_foreign_code=bool(model.unidentified))
            who = {**model.who, "kernel": "CausalLMKernel", "algorithm": ALGORITHM, **numerics()}
            return Identity(who, self.options.settings(), model.unidentified)

    def _identity_in_memory(self, loaded: Loaded) -> Identity:
        """Return the identity of a loaded model: facts about its files, and facts about the model in memory.

        A fact about the memory that did not change since loading is left out, because it follows from the files. If
        there are no files, or they do not determine the model, all facts are in the identity.

        Args:
            loaded: The model, with the facts about its files, and the facts about its memory right after loading.
        """
        now = live_state(loaded.model, loaded.tokenizer)
        facts_at_loading = loaded.state.who  # empty for a model that the user made
        if self._source is not None and not self._source.is_complete():
            facts_at_loading = {}  # nothing about the memory follows from the files
        facts = dict(loaded.content)
        for name, value in now.who.items():
            if value != facts_at_loading.get(name):
                facts[name] = value
        new_reasons = []
        for reason in now.unidentified:
            if reason not in loaded.state.unidentified:
                new_reasons.append(reason)
        return Identity(facts, unidentified=tuple(new_reasons))

    def _check_next_batch(self, has_foreign_code: bool) -> None:
        """Let the next batch be compared with plain calls of the model; called at the beginning of each benchmark run.

        Args:
            has_foreign_code: Whether the model runs code that no version of a library identifies. It may have been
                added since the ways to run the model were tried. So these are tried again.
        """
        if self._runner is None:
            return
        capabilities = self._runner.forward.capabilities
        capabilities.forget_checks()
        if has_foreign_code:
            capabilities.fingerprint = -1  # no model has this number, so the model counts as changed

    def runner(self) -> BatchRunner:
        """The batch runner of the loaded model, made anew when the model was changed."""
        runner = self._runner
        if runner is not None and runner.forward.capabilities.fingerprint == fingerprint(self.model):
            return runner
        forward = examined(Forward(self.model))
        if self.options.compile:
            forward.compile()
        token_budget = self.options.token_budget
        if token_budget is None and forward.device.type == "cuda":
            token_budget = CUDA_BUDGET
        elif token_budget is None:
            token_budget = CPU_BYTES // forward.dtype.itemsize
        self._runner = BatchRunner(forward, token_budget, self.options.prefix_reuse)
        return self._runner

    def release(self) -> None:
        """Free the memory of the cached prefix."""
        with self._lock:
            if self._runner is not None:
                self._runner.release()

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Open a context in which prompts are computed: with the locks of kernel and model, in evaluation mode.

        Modules that were in training mode are again at the end. A prefix that was cached with other weights is dropped
        first, since changes of weights through ``.data`` show in no version counter of torch.

        Args:
            prompts: The prompts; an error if they are no list.
        """
        model_lock = _locks.setdefault(self.model, threading.RLock())
        with super()._running(prompts), model_lock:
            modules_in_training = [module for module in self.model.modules() if module.training]
            for module in modules_in_training:
                module.training = False
            self._drop_outdated_prefix()
            try:
                yield
            finally:
                self._note_weights_of_prefix()
                for module in modules_in_training:
                    module.training = True

    def _drop_outdated_prefix(self) -> None:
        """Drop the cached prefix if it was computed with other weights than the model has now."""
        if self._weights is not None and self._weights != digest_of_weights(self.model):
            self.release()
            self._weights = None

    def _note_weights_of_prefix(self) -> None:
        """Note with which weights the cached prefix was computed, if there is one."""
        has_cached_prefix = self._runner is not None and bool(self._runner.prefix_in_cache)
        if not has_cached_prefix:
            self._weights = None
        elif self._weights is None:
            self._weights = digest_of_weights(self.model)

    def _last_states(self, sequences: Sequence[Tokens]) -> Any:
        """Count sequences as read, and return the hidden state at the last position of each, (sequences, width)."""
        self._count(sequences)
        return self.runner().last_states(sequences)

    def _limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt; ``None`` if the model has no limit."""
        return self.format.limit(self.model.config)

    def _reader(self) -> TokenKernel:
        """Return what reads prompts: this kernel, or if it is not loaded a reader without the weights."""
        if self._source is None or self._loaded is not None:
            return self
        reader = self._source.load_reader()
        return PromptReader(reader.tokenizer, reader.config, self.options)

    def _why_not_finite(self) -> str:
        """Return a sentence on why scores of the model are not finite; an empty text if it is not known."""
        return why_not_finite(self.model)

    def _tokens_to_read(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        """Return what the model reads of token sequences to score their tokens after position ``starts[i]``.

        The last token predicts none of them, so it is left out. Where each prompt is run alone, through the complete
        model, all tokens are read.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt.
        """
        if self.runner().forward.capabilities.runs_alone:
            return sequences
        return super()._tokens_to_read(sequences, starts, labels)

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the logits of some tokens after each sequence; see the base class."""
        return self.runner().forward.token_logits(self._last_states(sequences), tokens, totals)

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        """Return the log-probability of each token after position ``starts[i]`` of sequence ``i``.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt. They are computed in the same way.
        """
        self._count(self._tokens_to_read(sequences, starts, labels))
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
        tokens_of_run = self.tokens_used
        (logits,) = torch.from_numpy(self.full_vocabulary_logits([prompt]))
        self.tokens_used = tokens_of_run

        best = logits.double().softmax(0).topk(count)
        likely = []
        for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            likely.append((str(self.tokenizer.decode([token])), probability))
        return likely

    def layer_states(self, prompts: Sequence[str]) -> Any:
        """State of each decoder layer at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, layers, width).
        """
        with self._running(prompts):
            sequences = self._tokenize_prompts(prompts).sequences()
            self._count(sequences)
            return interventions.layer_states(self.runner(), sequences).numpy()

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
        changed = partial(interventions.replaced_state, layer=layer, vector=state)
        return self._changed_label_probabilities(prompts, label_space, changed)

    def steered(
        self, prompts: Sequence[str], label_space: Sequence[str], vectors: Sequence[Sequence[float]], strength: float
    ) -> list[list[float]]:
        """Probability of each label for each prompt, with the feed-forward output of all layers turned to vectors.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.
            vectors: One for each decoder layer, as wide as its states. Its length does not matter.
            strength: How far each position is turned; 0 changes nothing.

        Raises:
            ArgumentError: The vectors do not fit the layers, or labels are scored in full.
        """
        changed = partial(interventions.steered, vectors=vectors, strength=strength)
        return self._changed_label_probabilities(prompts, label_space, changed)

    def _changed_label_probabilities(
        self,
        prompts: Sequence[str],
        label_space: Sequence[str],
        last_states: Callable[[BatchRunner, Sequence[Tokens]], Any],
    ) -> list[list[float]]:
        """Return the probability of each label for each prompt, as a changed model computes it.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.
            last_states: Returns the hidden states of the changed model at the last position of token sequences, an
                array (sequences, width).

        Raises:
            ArgumentError: Labels are scored by all of their tokens.
        """
        if self.options.scores_all_tokens:
            raise ArgumentError(
                "label_scoring: got 'full', expected 'last' or 'first': a changed model is read at one position"
            )
        with self._running(prompts):
            scoring = self.format.scoring_tokens(label_space)
            # Tokens at the end of a prompt that the tokenizer joins to the labels are not part of the prompt here.
            sequences = self._tokenize_prompts(prompts).sequences(without_last=scoring.joined_prompt_tokens)
            self._count(sequences)
            runner = self.runner()
            states = last_states(runner, sequences)
            logits = runner.forward.token_logits(states, scoring.tokens, totals=False)
            return self._probabilities(logits.rows)

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> DetailedScores:
        """Probabilities of the labels, whole logits and hidden states, all from one run.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.
        """
        features = self.features(prompts, label_space, {"probabilities", "vocabulary", "hidden"})
        return DetailedScores(features["probabilities"], features["vocabulary"], features["hidden"])

    @property
    def joint_features(self) -> frozenset[str]:
        """The features that :meth:`features` computes together, in one pass of the model.

        Log-probabilities are not among them if label scores are normalised by a rule after which they are no
        log-probabilities any more, such as the mean over tokens. The rule matters only if all tokens are scored.
        """
        features = {"probabilities", "hidden", "vocabulary"}
        is_normalised = self.options.scores_all_tokens and not self.options.normalisation_rule.is_log_probability
        if not is_normalised:
            features.add("log_probabilities")
        return frozenset(features)

    def features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Collection[str]) -> dict[str, Any]:
        """Return features of each prompt: label scores, and the model's hidden state and logits after the prompt.

        One run of the model computes them all if one token scores each label and follows the whole prompt. Otherwise
        labels are scored in a run of their own.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels.
            wanted: Names of :attr:`joint_features`. ``"log_probabilities"`` are those of the labels, over the whole
                vocabulary.

        Returns:
            One sequence of rows for each name.
        """
        features: dict[str, Any] = {}
        needs_labels = not LABEL_FEATURES.isdisjoint(wanted)
        needs_states = not STATE_FEATURES.isdisjoint(wanted)
        if needs_labels and self.options.scores_all_tokens:
            scores = self.score(prompts, label_space)
            features["probabilities"] = scores.predictions()
            features["log_probabilities"] = scores.log_scores

        with self._running(prompts):
            tokenized = self._tokenize_prompts(prompts)
            states_after_prompt = None  # not computed yet
            if needs_labels and not self.options.scores_all_tokens:
                scoring = self.format.scoring_tokens(label_space)
                self._label_issues(label_space)  # they are logged
                # Tokens at the end of a prompt that the tokenizer joins to the labels are not part of the prompt here.
                states_before_label = self._last_states(tokenized.sequences(without_last=scoring.joined_prompt_tokens))
                features |= self._features_of_labels(states_before_label, scoring.tokens, tokenized.dropped, wanted)
                if scoring.joined_prompt_tokens == 0:
                    states_after_prompt = states_before_label
            if needs_states and states_after_prompt is None:
                states_after_prompt = self._last_states(tokenized.sequences())
            if needs_states:
                features |= self._features_of_states(states_after_prompt, wanted)
        return features

    def _features_of_states(self, states: Any, wanted: Collection[str]) -> dict[str, Any]:
        """Return the wanted features of the prompts themselves, as arrays: logits of the vocabulary, hidden states.

        Args:
            states: What the model computes at the end of the prompts, (prompts, width).
            wanted: Names of features.
        """
        forward = self.runner().forward
        features = {}
        if "vocabulary" in wanted:
            features["vocabulary"] = forward.all_logits(states).numpy()
        if "hidden" in wanted:
            features["hidden"] = forward.hidden_states(states).numpy()
        return features

    def _features_of_labels(
        self, states: Any, tokens: Sequence[int], dropped: list[int], wanted: Collection[str]
    ) -> dict[str, Any]:
        """Return the features of labels that one token scores: probabilities and, if wanted, log-probabilities.

        A log-probability over the whole vocabulary is ``logit - log_total``, where ``log_total`` is the logarithm of
        the sum of ``exp(logit)`` over the vocabulary.

        Args:
            states: The hidden states before the labels, (prompts, width).
            tokens: The token that scores each label.
            dropped: For each prompt, how many demonstrations it lost.
            wanted: Names of features.
        """
        needs_log_totals = self.options.label_mass or "log_probabilities" in wanted
        logits = self.runner().forward.token_logits(states, tokens, totals=needs_log_totals)
        label_mass = None
        if self.options.label_mass:
            label_mass = self._token_masses(tokens, logits)
        scores = LabelScores(
            probabilities=self._probabilities(logits.rows),
            log_scores=logits.rows,
            label_mass=label_mass,
            issues=(),
            dropped=dropped,
        )
        features: dict[str, Any] = {"probabilities": scores.predictions()}
        if logits.log_totals is not None and "log_probabilities" in wanted:
            log_probabilities = []
            for row, log_total in zip(logits.rows, logits.log_totals, strict=True):
                log_probabilities.append([logit - log_total for logit in row])
            features["log_probabilities"] = log_probabilities
        return features

    def _end_tokens(self) -> list[int]:
        """Return the tokens that end a text, of the model's generation settings or else of the tokenizer."""
        generation_config = getattr(self.model, "generation_config", None)
        end_tokens = getattr(generation_config, "eos_token_id", None)
        if end_tokens is None:
            end_tokens = getattr(self.tokenizer, "eos_token_id", None)
        if end_tokens is None:
            return []
        if isinstance(end_tokens, int):
            return [end_tokens]
        return list(end_tokens)

    def _continued(
        self,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stop: Sequence[str],
        sampling: dict[str, Any],
        choices: Sequence[str],
    ) -> list[str]:
        """Return the texts that continue token sequences.

        Args:
            sequences: The tokens of each prompt.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            sampling: The temperature and the seed, by name.
            choices: Empty: this kernel has no guided texts.
        """
        stopping = StoppingCriterion(self.tokenizer, self._end_tokens(), stop)
        continuations = generate(self.runner(), sequences, max_new_tokens, stopping, **sampling)
        self._count(sequences, continuations)
        texts: list[str] = []
        for tokens in continuations:
            finish_reason = "stop" if stopping.is_complete(tokens) else "length"
            texts.append(Text(stopping.text(tokens), finish_reason))
        return texts


def _placed(model: Any, tokenizer: Any, device: str | None, dtype: str | None) -> Loaded:
    """Return a live model with its tokenizer, converted to a number type and moved to a device where these are given.

    Raises:
        ArgumentError: It is no model of ``transformers``, or has no tokenizer.
    """
    if isinstance(model, (str, os.PathLike)):
        name = os.fspath(model)
        hub_name_or_path = name if name.startswith("hf:") or os.path.exists(name) else f"hf:{name}"
        raise ArgumentError(
            f"model: got the name {name!r:.80}, expected a loaded model. To load one by its name, use "
            f"load_kernel({hub_name_or_path!r:.80}). A loaded one is passed as CausalLMKernel(model, tokenizer)"
        )
    if hasattr(model, "model") and hasattr(model, "tokenizer") and not isinstance(model, torch.nn.Module):
        raise ArgumentError(
            f"model: got a {type(model).__name__}, which has a model and a tokenizer. Pass both, as in "
            "CausalLMKernel(pipeline.model, pipeline.tokenizer)"
        )
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise ArgumentError(f"model must be a causal language model of transformers, not {type(model).__name__}")
    if tokenizer is None:
        raise ArgumentError("tokenizer: got none. Pass the one of the model: CausalLMKernel(model, tokenizer)")
    if isinstance(tokenizer, str):
        raise ArgumentError(
            f"tokenizer: got the name {tokenizer!r:.80}, expected a loaded tokenizer, such as "
            f"AutoTokenizer.from_pretrained({tokenizer!r:.80})"
        )
    if dtype is not None:
        model = model.to(number_type(dtype))
    if device is not None:
        model = model.to(device)
    return Loaded(model, tokenizer)
