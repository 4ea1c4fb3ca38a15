"""A causal language model as an inference function, batched with shared prefixes.

:class:`CausalLMKernel` wraps a model and a tokenizer of ``transformers``. Called with a prompt and a label space it
returns a probability for each label. For a list of prompts it computes every distinct prefix once, only the required
positions, and only the labels' rows of the output matrix. The modules ``prefix_plan`` (what to compute), ``forward``
(calls of the model) and ``batching`` (order and memory) do this.

Batching changes results by rounding only. No prompt is truncated silently. Problems of the labels' tokens are reported
before the run (through ``logging``, and in :attr:`LabelScores.issues`).

Shapes, for ``n`` prompts, ``L`` labels, hidden width ``d``, vocabulary ``V``: ``batch`` returns ``n`` lists of ``L``
floats; ``hidden_states`` a float32 array ``(n, d)``; ``full_vocabulary_logits`` a float32 array ``(n, V)``; ``losses``
``n`` floats.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.forecast import PROBABILITIES, Forecast
from StaICC.inference.identity import Identity
from StaICC.kernels.huggingface import torch_module
from StaICC.kernels.huggingface.batching import (
    BatchRunner,
    Choice,
    Ending,
    LastPosition,
    RunReport,
    TokenLogProbabilities,
    Tokens,
    compute_checked,
    generate_tokens,
    last_positions,
)
from StaICC.kernels.huggingface.forward import Forward, forget, guard
from StaICC.kernels.huggingface.live_state import checksum, live_state, numerics
from StaICC.kernels.huggingface.prefix_plan import distinct_positions
from StaICC.kernels.huggingface.prompts import KernelOptions, LabelIssue, PromptFormat, Reading, Variant, choose
from StaICC.kernels.huggingface.source import Loaded, ModelSource, number_type
from StaICC.kernels.label_scores import channel_scores, check_channel, checked_labels, softmax
from StaICC.kernels.protocol import TEXT_SCORES, Capability, check_generation
from StaICC.kernels.registry import OptionFact, option_types, options_of, split_options
from StaICC.prompting import Prompt
from StaICC.safe_text import logger

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CausalLMKernel", "LabelScores", "RunReport"]

NEAR_LIMIT = 0.9
"""Share of the length limit from which on a prompt is reported."""
MEASURED = 3
"""The longest texts that are measured in tokens; the one with most tokens is nearly always among them."""
TOKENS_AT_ONCE = 20_000_000
"""Maximum number of tokens held at once where every label is joined to every prompt."""
CPU_BYTES = 4096
"""Positions of a call on a CPU times the bytes of a number. Larger tensors do not fit into the caches."""
CUDA_BUDGET = 16384
ALGORITHM = "2"
"""Raised with any change of this package that can move a prediction beyond rounding."""

_log = logger(__name__)
_logged: weakref.WeakKeyDictionary[Any, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""Label spaces whose issues were logged already."""
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each model: several kernels, each in its thread, may share one."""


@dataclass(frozen=True, slots=True)
class LabelScores:
    """Scores of the labels for a list of prompts.

    Attributes:
        probabilities: For each prompt, a probability for each label, in the order of the label space; a row sums to 1.
        log_scores: The scores before they were normalised: logits of the deciding tokens (``"last"``, ``"first"``), or
            log-probabilities in nats (``"full"``, noisy channel).
        label_mass: For each prompt, the total probability of all the labels, in [0, 1]; None
            where it was not computed, and for the noisy channel, which scores texts.
        issues: What can spoil the scores.
        report: What was computed.
    """

    probabilities: list[list[float]]
    log_scores: list[list[float]]
    label_mass: list[float] | None
    issues: tuple[LabelIssue, ...]
    report: RunReport


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Switch the model and all its modules to evaluation mode within the block; other kernels of the model wait."""
    with _locks.setdefault(model, threading.RLock()):
        training = [module for module in model.modules() if module.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True


class CausalLMKernel:
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
        demonstration_separator: The text at the end of each demonstration; used to drop demonstrations only.
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

    last_scores: LabelScores | None = None
    """The result of the last call of :meth:`batch`, :meth:`score` or :meth:`noisy_channel`."""

    def __init__(
        self, model: Any, tokenizer: Any, *, device: str | None = None, dtype: str | None = None, **options: Any
    ) -> None:
        self.options = KernelOptions(**options)
        self._source: ModelSource | None = None
        self._loaded: Loaded | None = None
        if isinstance(model, ModelSource):
            self._source = dataclasses.replace(model, device=device or model.device, dtype=dtype or model.dtype)
        else:
            if not isinstance(model, torch_module().nn.Module) or not hasattr(model, "config"):
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
        self._last_digest: str | None = None
        self._checksum: int | None = None

    @classmethod
    def declared_options(cls) -> list[OptionFact]:
        """Return the options of :class:`ModelSource` (loading) and of :class:`KernelOptions` (scoring, length)."""
        return [*options_of(ModelSource, "spec"), *options_of(KernelOptions)]

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> Self:
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
        dropped = {"_lock", "_runner", "_last_digest", "_checksum"} | ({"_loaded"} if self._source else set())
        return {name: value for name, value in vars(self).items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._loaded = None
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
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute: everything; with chat prompts nothing that scores the text of a prompt."""
        return frozenset(Capability) - (TEXT_SCORES if self.options.is_chat else set())

    @property
    def format(self) -> PromptFormat:
        """How prompts and labels are written for the tokenizer; loads the model."""
        return PromptFormat(self.tokenizer, self.options)

    def rendered(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as the model reads them."""
        return [self.format.render(prompt) for prompt in prompts]

    @property
    def recheck_tolerance(self) -> float:
        """By how much a prediction may differ when it is computed again in another batch; does not load the model."""
        if self._loaded is not None:
            dtype = str(self._loaded.model.dtype).removeprefix("torch.")
        else:
            assert self._source is not None
            dtype = self._source.resolved_dtype()
        return 1e-4 if dtype in ("float32", "float64") and not numerics() else 5e-2

    def identity(self) -> Identity:
        """What determines the predictions, computed now from the files and, once loaded, from the model in memory.

        A model named by a string is identified by the bytes of its files, before and after it is loaded alike. Where
        it was changed in memory after loading, the facts that differ are added.
        """
        with self._lock:
            who, reasons = self._who()
            who = {**who, "kernel": "CausalLMKernel", "algorithm": ALGORITHM, **numerics()}
            found = Identity(who, self.options.settings(), tuple(reasons))
            state = f"{Identity(who).digest} {reasons}"
            if state != self._last_digest:
                self._runner = None  # caches and checks belong to the former model
                self._last_digest = state
                if self._loaded is not None:
                    forget(self._loaded.model)
            elif self._runner is not None:  # a run begins: batches, if there are any, are compared again
                self._runner.forward.record.checked = self._runner.forward.can.plain
            return found

    def _who(self) -> tuple[dict[str, str], list[str]]:
        source = self._source
        if source is not None and self._loaded is None and source.is_complete():
            return source.content(), []
        loaded = self._parts()
        now, before = live_state(loaded.model, loaded.tokenizer), loaded.state
        if source is None or loaded.content is None or before is None:
            return now.who, list(now.unidentified)
        is_complete = source.is_complete()
        names = sorted({*now.who, *before.who} if is_complete else now.who)
        changed = {name: now.who.get(name, "none") for name in names}
        if is_complete:
            changed = {name: value for name, value in changed.items() if value != before.who.get(name, "none")}
        return {**loaded.content, **changed}, [one for one in now.unidentified if one not in before.unidentified]

    def runner(self) -> BatchRunner:
        """The batch runner of the loaded model, made anew when the model was changed."""
        if self._runner is None or self._runner.forward.record.guard != guard(self.model):
            forward = Forward(self.model)
            if self.options.compile:
                forward.compile()
            usual = CUDA_BUDGET if forward.device.type == "cuda" else CPU_BYTES // forward.dtype.itemsize
            self._runner = BatchRunner(forward, self.options.token_budget or usual, self.options.prefix_reuse)
        return self._runner

    @property
    def unbatched(self) -> str:
        """Why each prompt is given to the model alone; empty if prompts are batched."""
        with self._lock:
            return self.runner().forward.record.reason

    def release(self) -> None:
        """Free the memory of the cached prefix."""
        with self._lock:
            if self._runner is not None:
                self._runner.release()

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Hold the kernel's lock, in evaluation mode, after a check that the prompts are a list.

        No prefix is used that was cached with other weights (changed through ``.data``).
        """
        if isinstance(prompts, str) or not len(prompts):
            raise ArgumentError(f"prompts must be a non-empty list of strings, not {prompts!r:.80}")
        with self._lock, _evaluating(self.model):
            if self._checksum is not None and self._checksum != checksum(self.model):
                self.release()
                self._checksum = None
            try:
                yield
            finally:
                held = self._runner is not None and self._runner.held
                self._checksum = (self._checksum or checksum(self.model)) if held else None

    # Scoring labels

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        """Probability of each label for one prompt (for a noisy channel: one list of prompts, one for each label)."""
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        """Probability of each label for each prompt, in order.

        Args:
            prompts: The prompts; or, for a noisy channel, for each query a list of prompts, one for each label.
            label_space: The labels.

        Returns:
            One list of probabilities for each prompt.

        Raises:
            PromptError: The model cannot read a prompt; the message names its index.
        """
        return self.score(prompts, label_space).probabilities

    def score(self, prompts: Sequence[Any], label_space: Sequence[str]) -> LabelScores:
        """Return the result of :meth:`batch` with the scores, the label mass, label issues and counts."""
        checked_labels(label_space)
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, str) is not isinstance(prompts[0], str):
                raise PromptError(f"prompt {index} is a {type(prompt).__name__}, prompt 0 is not", index)
        if not len(prompts):
            self.last_scores = LabelScores([], [], [], (), RunReport())
            return self.last_scores
        with self._running(prompts):
            if not isinstance(prompts[0], str):
                self.last_scores = self._channel(prompts, label_space, self.options.variant)
            elif self.options.label_scoring == "full":
                self.last_scores = self._full(prompts, label_space)
            else:
                self.last_scores = self._single(prompts, label_space)
            return self.last_scores

    def noisy_channel(
        self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: Variant | None = None
    ) -> list[list[float]]:
        """Probability of each label from the probability of the text given the label.

        Args:
            prompts: For each query, one prompt for each label, which differ in the label only.
            label_space: The labels.
            variant: ``"paper"`` or ``"0.1.1"``; None takes the kernel's.

        Returns:
            One list of probabilities for each query.
        """
        form = choose("variant", variant or self.options.variant, Variant)
        with self._running(prompts):
            self.last_scores = self._channel(prompts, checked_labels(label_space), form)
            return self.last_scores.probabilities

    def _audit(self, label_space: Sequence[str], prompt: str) -> tuple[LabelIssue, ...]:
        issues = self.format.audit(label_space, prompt)
        logged = _logged.setdefault(self.tokenizer, set())
        if (key := (self.options.label_scoring, *label_space)) not in logged:
            logged.add(key)
            for issue in issues:
                (_log.warning if issue.fatal else _log.info)("label tokens: %s", issue.message)
        return issues

    def prompt_warnings(self, prompts: Sequence[Prompt], label_space: Sequence[str]) -> list[str]:
        """Return warnings about labels that share their deciding token, and about prompts near the length limit.

        Args:
            prompts: The prompts of a run.
            label_space: Their labels.
        """
        issues = self.format.audit(label_space)
        _logged.setdefault(self.tokenizer, set()).add((self.options.label_scoring, *label_space))
        shared = [issue for issue in issues if issue.kind == "shared-token"]
        found = [issue.message for issue in issues if issue.fatal and issue not in shared]
        if shared:
            number, names = sum(len(issue.labels) for issue in shared), ", ".join(map(repr, shared[0].labels[:3]))
            found.append(
                f"{number} of {len(label_space)} labels are scored by the same token as another label, such as "
                f"{names}, and cannot be told apart. Use label_scoring='full' or other label words"
            )
        limit = self.format.limit(self.model.config)
        texts = {text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)}
        longest = self.format.encode(self.rendered(sorted(texts, key=lambda text: (len(text), text))[-MEASURED:]))
        size = max(map(len, longest), default=0)
        if limit is not None and size > NEAR_LIMIT * limit:
            found.append(
                f"the longest prompt has {size} tokens, and the model reads {limit} at most. Longer prompts fail; use "
                "a smaller k or a model with a longer context"
            )
        return found

    def _read(self, queries: Sequence[Sequence[str]], labels: Sequence[str] = (), more: int = 0) -> Reading:
        """Queries, each a list of prompts, as tokens, with room for labels or for some more tokens."""
        limit = self.format.limit(self.model.config)
        return self.format.read(queries, None if limit is None else limit - more, labels)

    def _single(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Labels scored by one token each."""
        reading = self._read([[prompt] for prompt in prompts])
        issues = self._audit(label_space, reading.texts[0][0])
        tokens, shared = self.format.deciding(label_space)
        reader, counts = self._last(reading.before(shared))
        counts.dropped = reading.dropped
        logits, totals = reader.labels(tokens, self.options.label_mass)
        distinct = {token: place for place, token in enumerate(tokens)}.values()
        mass = None
        if totals is not None:
            logs = ([row[place] - total for place in distinct] for row, total in zip(logits, totals, strict=True))
            mass = [min(1.0, math.fsum(map(math.exp, row))) for row in logs]
        return LabelScores([softmax(row) for row in logits], logits, mass, issues, counts)

    def _full(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Labels scored by all their tokens in context."""
        reading = self._read([[prompt] for prompt in prompts], label_space)
        texts = [text for (text,) in reading.texts]
        issues = self._audit(label_space, texts[0])
        step = max(1, TOKENS_AT_ONCE // (max(len(row) for (row,) in reading.ids) * len(label_space)))
        logs: list[list[float]] = []
        counts = RunReport(dropped=reading.dropped)
        for first in range(0, len(texts), step):
            joined = self.format.continuations(texts[first : first + step], label_space, first)
            sequences = [row for _, rows in joined for row in rows]
            some, more = self._log_probabilities(sequences, [given - 1 for given, rows in joined for _ in rows])
            logs += some
            counts.add(more)
        sums = [math.fsum(row) for row in logs]
        mean = self.options.label_normalisation == "mean"
        values = [total / len(row) for total, row in zip(sums, logs, strict=True)] if mean else sums
        starts, width = range(0, len(logs), len(label_space)), len(label_space)
        scores = [values[start : start + width] for start in starts]
        mass = [math.fsum(map(math.exp, sums[start : start + width])) for start in starts]
        probabilities = [softmax(row) for row in scores]
        return LabelScores(probabilities, scores, mass if self.options.label_mass else None, issues, counts)

    def _channel_sequences(
        self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str, more: int = 0
    ) -> tuple[Reading, list[Tokens], list[int]]:
        """The token sequences of noisy-channel prompts, and the position before the first token that is scored."""
        reading = self._read(prompts, more=more)
        sequences = [ids for rows in reading.ids for ids in rows]
        return reading, sequences, self.format.channel_starts(reading, label_space, variant)

    def _channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str) -> LabelScores:
        """The text scored given each label."""
        self.format.refuse_chat("the noisy channel")
        for index, query in enumerate(prompts):
            check_channel(query, label_space, index)
        reading, sequences, starts = self._channel_sequences(prompts, label_space, variant)
        found, counts = self._log_probabilities(sequences, starts)
        counts.dropped = reading.dropped
        scores = channel_scores(found, len(label_space), variant == "0.1.1")
        return LabelScores([softmax(row) for row in scores], scores, None, (), counts)

    def _last(self, ids: Sequence[Tokens]) -> tuple[LastPosition, RunReport]:
        """The last position of each sequence."""
        runner = self.runner()
        return compute_checked(runner, ids, lambda: last_positions(runner, ids))

    def _computed(self, sequences: Sequence[Tokens], starts: Sequence[int]) -> Sequence[Tokens]:
        """What is computed of sequences: the last token predicts nothing that is asked for."""
        if self.runner().forward.can.plain:
            return sequences
        return [row[: max(len(row) - 1, start + 1)] for row, start in zip(sequences, starts, strict=True)]

    def _log_probabilities(
        self, sequences: Sequence[Tokens], starts: Sequence[int]
    ) -> tuple[list[list[float]], RunReport]:
        """Log-probability of each token after position ``start``, for each sequence."""
        runner = self.runner()

        def compute() -> tuple[TokenLogProbabilities, RunReport]:
            reader = TokenLogProbabilities(runner.forward, sequences, starts)
            return reader, runner.run(self._computed(sequences, starts), starts, reader.read)

        reader, counts = compute_checked(runner, sequences, compute)
        return reader.found, counts

    def forecast_prompts(
        self,
        prompts: Sequence[Any],
        label_space: Sequence[str],
        new_tokens: int = 0,
        features: Collection[str] = PROBABILITIES,
        *,
        kept: tuple[int, ...] = (),
    ) -> Forecast:
        """Return the forecast of prompts that are predicted in one call; a prompt that is too long is counted in full.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels.
            new_tokens: Maximum number of tokens to generate for each prompt; 0 computes the features.
            features: What is computed of each prompt, such as those of :attr:`joint_features`.
            kept: A sequence of the prompts before, whose prefix is not computed again.
        """
        free = -(10**9) if self.options.on_too_long == "error" else 0  # no limit, where none is applied
        scores = not new_tokens and not {"probabilities", "log_probabilities"}.isdisjoint(features)
        vectors = not {"hidden", "vocabulary"}.isdisjoint(features)
        runs: list[tuple[Sequence[Tokens], Sequence[int] | None]] = []
        with self._running(prompts):
            if not isinstance(prompts[0], str):
                runs.append(self._channel_sequences(prompts, label_space, self.options.variant, free)[1:])
            elif scores and self.options.label_scoring == "full":
                texts = [text for (text,) in self._read([[prompt] for prompt in prompts], label_space, free).texts]
                joined = self.format.continuations(texts, label_space)
                starts = [given - 1 for given, rows in joined for _ in rows]
                runs.append(([row for _, rows in joined for row in rows], starts))
            if not runs or vectors:
                shared = self.format.deciding(label_space)[1] if scores and not runs else 0
                reading = self._read([[prompt] for prompt in prompts], more=free + new_tokens)
                runs.append((reading.before(shared), [0] * len(prompts) if "losses" in features else None))
                if shared and vectors:
                    runs.append((reading.before(), None))
            tokens = positions = output = longest = 0
            for whole, starts_of_run in runs:
                computed = whole if starts_of_run is None else self._computed(whole, starts_of_run)
                tokens += sum(map(len, computed))
                positions += distinct_positions([kept, *computed]) - len(kept)
                output += new_tokens * len(whole)
                longest = max(longest, *map(len, whole)) + new_tokens
                kept = max(computed)
        return Forecast(
            tokens=tokens,
            positions=positions,
            output_tokens=output,
            longest_prompt=longest,
            limit=self.format.limit(self.model.config),
            kept=kept,
        )

    # What other methods are built on

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        """Last hidden state (after the final normalisation) at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, width).
        """
        return self._features(prompts, (), {"hidden"})["hidden"]

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        """Logits of the whole vocabulary at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, vocabulary).
        """
        return self._features(prompts, (), {"vocabulary"})["vocabulary"]

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> tuple[list[list[float]], Any, Any]:
        """Probabilities of the labels, whole logits and hidden states, all from one run.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.

        Returns:
            A list of probabilities for each prompt; a float32 array (prompts, vocabulary); a float32 array (prompts,
            width).
        """
        found = self._features(prompts, label_space, {"probabilities", "vocabulary", "hidden"})
        return found["probabilities"], found["vocabulary"], found["hidden"]

    @property
    def joint_features(self) -> frozenset[str]:
        """The features that :meth:`features` computes."""
        means = self.options.label_scoring == "full" and self.options.label_normalisation == "mean"
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
        if self.options.label_scoring != "full" or {"probabilities", "log_probabilities"}.isdisjoint(wanted):
            return self._features(prompts, label_space, wanted)
        full = self.score(prompts, label_space)
        found = {"probabilities": full.probabilities, "log_probabilities": full.log_scores}
        others = set(wanted) - set(found)
        return found | self._features(prompts, label_space, others) if others else found

    def _features(self, prompts: Sequence[str], label_space: Sequence[str], wanted: Collection[str]) -> dict[str, Any]:
        """Features of which labels are scored by one token each."""
        found: dict[str, Any] = {}
        with self._running(prompts):
            reading = self._read([[prompt] for prompt in prompts])
            scores = not {"probabilities", "log_probabilities"}.isdisjoint(wanted)
            tokens, shared = self.format.deciding(label_space) if scores else ([], 0)
            reader, _ = self._last(reading.before(shared))
            if scores:
                self._audit(label_space, reading.texts[0][0])
                logits, totals = reader.labels(tokens, "log_probabilities" in wanted)
                found["probabilities"] = [softmax(row) for row in logits]
                if totals is not None:
                    pairs = zip(logits, totals, strict=True)
                    found["log_probabilities"] = [[value - total for value in row] for row, total in pairs]
            if shared and {"vocabulary", "hidden"} & set(wanted):  # those of a prompt do not depend on the labels
                reader, _ = self._last(reading.before())
            if "vocabulary" in wanted:
                found["vocabulary"] = reader.whole().numpy()
            if "hidden" in wanted:
                found["hidden"] = reader.states().numpy()
        return found

    def losses(self, texts: Sequence[str]) -> list[float]:
        """Mean loss of each text's tokens, each given those before it (the first is given).

        Args:
            texts: The texts, each of two tokens at least.

        Returns:
            Minus the mean log-probability in nats, for each text.

        Raises:
            PromptError: A text has fewer than two tokens.
        """
        self.format.refuse_chat("a loss")
        with self._running(texts):
            ids = self._read([[text] for text in texts]).before()
            for index, row in enumerate(ids):
                if len(row) < 2:
                    raise PromptError(f"text {index} has one token only, so no token has a loss", index)
            found, _ = self._log_probabilities(ids, [0] * len(ids))
        return [-math.fsum(row) / len(row) for row in found]

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 32,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        seed: int = 0,
    ) -> list[str]:
        r"""Continue each prompt, by default with the most probable tokens.

        Args:
            prompts: The prompts.
            max_new_tokens: Most tokens of a continuation.
            stop: Strings before which a continuation ends, such as ``["\n"]``.
            temperature: Above 0, tokens are sampled from the distribution at this temperature.
            seed: Seed of the samples; the same seed and prompt give the same text.

        Returns:
            The continuations, without the prompts, the end token and the stop string.
        """
        max_new_tokens = check_generation(max_new_tokens, stop, temperature)
        with self._running(prompts):
            ids = self._read([[prompt] for prompt in prompts], more=max_new_tokens).before()
            ends = getattr(getattr(self.model, "generation_config", None), "eos_token_id", None)
            if ends is None:
                ends = getattr(self.tokenizer, "eos_token_id", None)
            listed = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
            ending = Ending(self.tokenizer, listed, stop)
            runner = self.runner()
            if not runner.forward.record.checked:
                self._last(ids[:4])
            choice = Choice(runner.forward.torch, ids, temperature, seed)
            tokens, _ = generate_tokens(runner, ids, max_new_tokens, ending, choice)
        return [ending.text(row) for row in tokens]
