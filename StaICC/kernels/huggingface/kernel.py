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

The inference functions that 0.1.1 documents, for causal language models of ``transformers``.

They are used through ``functools.partial``::

    from transformers import AutoModelForCausalLM, AutoTokenizer
    from StaICC.prefabricate_inference import model_kernel

    my_inference = functools.partial(
        model_kernel.standard_ICL_inference_with_torch_Causal_LM,
        model=AutoModelForCausalLM.from_pretrained(name), tokenizer=AutoTokenizer.from_pretrained(name),
    )

Each calls :class:`~StaICC.kernels.huggingface.kernel.CausalLMKernel`. A function's attribute
``batch`` takes ``prompts`` instead of ``prompt``, so that a benchmark can hand over all its prompts at once although
it was given the partial; ``identity_for(**keywords)`` is the identity of a partial with these keywords. The standard
function's ``kernel_for(**keywords)`` is a kernel with all capabilities, which methods use.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, OutputError, PromptError
from StaICC.inference.contract import LoadsModel, ScoredLabels, Text
from StaICC.inference.forecast import PROBABILITIES, Forecast
from StaICC.inference.identity import Identity, combined, hub_name, identity_of
from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner, Ending, Tokens, examined
from StaICC.kernels.huggingface.finite_check import why_not_finite
from StaICC.kernels.huggingface.forward import Forward, distinct_positions, guard, without_last
from StaICC.kernels.huggingface.live_state import digest_of_weights, live_state, numerics
from StaICC.kernels.huggingface.prompts import KernelOptions, KernelVariant, LabelIssue, PromptFormat, Reading
from StaICC.kernels.huggingface.source import Loaded, ModelSource, number_type
from StaICC.kernels.huggingface.tokenizer_check import COMPARED, loss_warning, spread
from StaICC.kernels.protocol import (
    TEXT_SCORES,
    Capability,
    channel_scores,
    check_channel,
    check_generation,
    checked_labels,
    label_probabilities,
)
from StaICC.kernels.registry import OptionFact, choose, option_types, options_of, split_options
from StaICC.prompting.prompt_writer import Prompt
from StaICC.safe_text import logger

NEAR_LIMIT = 0.9
"""Share of the length limit from which on a prompt is reported."""
MEASURED = 3
"""The longest texts that are measured in tokens; the one with most tokens is nearly always among them."""
TOKENS_AT_ONCE = 20_000_000
"""Maximum number of tokens held at once where every label is joined to every prompt."""
CPU_BYTES = 4096
"""Positions of a call on a CPU times the bytes of a number. Larger tensors do not fit into the caches."""
CUDA_BUDGET = 65536
"""On an NVIDIA H200 SmolLM2 is up to twice as fast as with 16,384 positions."""
_SCORES = ("probabilities", "log_probabilities")
"""Features that score labels."""
THOUGHT = "<think>"
"""With it the chat templates of some models begin the reply."""
ALGORITHM = "2"
"""Raised with any change of this package that can move a prediction beyond rounding."""

_log = logger(__name__)
_logged: weakref.WeakKeyDictionary[Any, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""Label spaces whose issues were logged already."""
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each model: several kernels, each in its thread, may share one."""


Logs = list[list[float]]
Logits = tuple[list[list[float]], list[float] | None]


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
        dropped: For each prompt, how many demonstrations were dropped because it was too long.
    """

    probabilities: list[list[float]]
    log_scores: list[list[float]]
    label_mass: list[float] | None
    issues: tuple[LabelIssue, ...]
    dropped: list[int]

    def predictions(self) -> list[list[float]]:
        """Return the probabilities, each row with its label mass and its number of dropped demonstrations."""
        masses: Sequence[float | None] = self.label_mass or [None] * len(self.probabilities)
        return [
            ScoredLabels(row, mass, dropped)
            for row, mass, dropped in zip(self.probabilities, masses, self.dropped, strict=True)
        ]


class TokenKernel:
    """What kernels share that read prompts as token ids: prompts, label scores, the noisy channel, losses, forecasts.

    A kernel adds its tokenizer, the limit of its model, and two ways to compute log-probabilities.
    """

    options: KernelOptions
    tokenizer: Any
    _lock: threading.RLock
    last_scores: LabelScores | None = None
    """The result of the last call of :meth:`batch`, :meth:`score` or :meth:`noisy_channel`."""

    _can: ClassVar[frozenset[Capability]] = frozenset(Capability)
    _least_new: ClassVar[int] = 0
    """The least number of tokens that a request generates."""
    _keeps_prefix: ClassVar[bool] = True
    """Whether it is known what the kernel keeps of the prompts before."""

    tokens_used: tuple[int, int] = (0, 0)
    """Tokens of prompts and of continuations that this object processed so far, in this process. A prefix that prompts
    share counts for each of them, as in forecasts."""

    def _count(self, sequences: Sequence[Tokens], continuations: Sequence[Sequence[int]] = ()) -> None:
        read, generated = self.tokens_used
        self.tokens_used = read + sum(map(len, sequences)), generated + sum(map(len, continuations))

    def _limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt, if there is one."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Hold the kernel's lock within the block, after a check that the prompts are a list."""
        if isinstance(prompts, str) or not len(prompts):
            raise ArgumentError(f"prompts must be a non-empty list of strings, not {prompts!r:.80}")
        with self._lock:
            yield

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> Logits:
        """Return logits of tokens after each sequence; and, if wanted, the log of the sum over the vocabulary."""
        raise NotImplementedError

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        """Return the log-probability of each token after position ``start``; ``labels``: many sequences begin alike."""
        raise NotImplementedError

    def _computed(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        """Return the token sequences that the model reads: their last token predicts nothing that is asked for."""
        return without_last(sequences, starts)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute; with chat prompts nothing that scores the text of a prompt."""
        return self._can - (TEXT_SCORES if self.options.is_chat else set())

    @property
    def reads_parts(self) -> bool:
        """Whether the parts of a prompt matter (:func:`~StaICC.inference.contract.reads_parts`)."""
        return self.options.reads_parts

    @property
    def format(self) -> PromptFormat:
        """How prompts and labels are written for the tokenizer; loads the model."""
        return PromptFormat(self.tokenizer, self.options)

    def rendered(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as the model reads them, without dropped demonstrations.

        Where all tokens of a label are scored, a prompt that only just fits loses one more, to have room for its label.
        """
        if self.options.on_too_long == "error":
            return [self.format.render(prompt) for prompt in prompts]
        reading = self._read([[prompt] for prompt in prompts])
        return [text for (text,) in reading.texts]

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
        return self.score(prompts, label_space).predictions()

    def score(self, prompts: Sequence[Any], label_space: Sequence[str]) -> LabelScores:
        """Return the result of :meth:`batch` with the scores, the label mass and label issues."""
        checked_labels(label_space)
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, str) is not isinstance(prompts[0], str):
                raise PromptError(f"prompt {index} is a {type(prompt).__name__}, prompt 0 is not", index)
        if not len(prompts):
            self.last_scores = LabelScores([], [], [], (), [])
            return self.last_scores
        with self._running(prompts):
            if not isinstance(prompts[0], str):
                self.last_scores = self._channel(prompts, label_space, self.options.variant)
            elif self.options.whole_labels:
                self.last_scores = self._scored(prompts, label_space)
            else:
                self.last_scores = self._single(prompts, label_space)
            return self.last_scores

    def noisy_channel(
        self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: KernelVariant | None = None
    ) -> list[list[float]]:
        """Probability of each label from the probability of the text given the label.

        Args:
            prompts: For each query, one prompt for each label, which differ in the label only.
            label_space: The labels.
            variant: ``"paper"`` or ``"0.1.1"``; None takes the kernel's.

        Returns:
            One list of probabilities for each query.
        """
        form = choose("variant", variant or self.options.variant, KernelVariant)
        with self._running(prompts):
            self.last_scores = self._channel(prompts, checked_labels(label_space), form)
            return self.last_scores.predictions()

    def _audit(self, label_space: Sequence[str], silent: bool = False) -> tuple[LabelIssue, ...]:
        """Return the issues of the labels, and log them once."""
        issues = self.format.audit(label_space)
        logged = _logged.setdefault(self.tokenizer, set())
        if (key := (self.options.label_scoring, self.options.last_blank, *label_space)) not in logged:
            logged.add(key)
            for issue in () if silent else issues:
                _log.warning("label tokens: %s", issue.message)
        return issues

    def prompt_warnings(self, prompts: Sequence[Prompt], label_space: Sequence[str], new_tokens: int = 0) -> list[str]:
        """Return warnings about labels that share their deciding token, and about what the model reads of prompts.

        They need no weights: a model that is not loaded stays so.

        Args:
            prompts: The prompts of a run; for a noisy channel, for each query a tuple of prompts.
            label_space: Their labels; none for texts of which no label is scored.
            new_tokens: The maximum number of tokens that are generated; 0 for scores of the labels.
        """
        reader = self._reader()
        warnings = []
        if label_space and not new_tokens and any(isinstance(prompt, str) for prompt in prompts):
            warnings += reader._label_warnings(label_space)
        warnings += reader._loss_warnings(prompts)
        warnings += reader._limit_warnings(prompts)
        warnings += reader._drop_warnings(prompts, label_space, new_tokens)
        return warnings

    def _reader(self) -> TokenKernel:
        """Return what reads prompts as this kernel does: itself, or a reader without weights if it is not loaded."""
        return self

    def _label_warnings(self, label_space: Sequence[str]) -> list[str]:
        """Return warnings about labels that share their deciding token or have none of their own."""
        issues = self._audit(label_space, silent=True)
        shared = [issue for issue in issues if issue.kind == "shared-token"]
        warnings = [issue.message for issue in issues if issue not in shared]
        if shared:
            number, names = sum(len(issue.labels) for issue in shared), ", ".join(map(repr, shared[0].labels[:3]))
            warnings.append(
                f"{number} of {len(label_space)} labels are scored by the same token as another label, such as "
                f"{names}, and are not distinguished. Use label_scoring='full' or other label words"
            )
        return warnings

    def _limit_warnings(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return a warning if the longest prompt is near the limit of the model."""
        limit = self._limit()
        if limit is None:
            return []
        texts = {text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)}
        longest = sorted(texts, key=lambda text: (len(text), text))[-MEASURED:]
        size = max(map(len, self.format.encode(self._readable(longest))), default=0)
        if size <= NEAR_LIMIT * limit:
            return []
        drops = self.options.on_too_long == "drop-demonstrations"
        longer = "Longer prompts lose demonstrations" if drops else "Longer prompts fail"
        return [
            f"the longest prompt has {size} tokens, and the model reads {limit} at most. {longer}; use a smaller "
            "k, a model with a longer context, or a larger max_length if the model can read it"
        ]

    def _loss_warnings(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return a warning if the tokenizer loses characters of some prompts."""
        chosen = [prompts[number] for number in spread(len(prompts), COMPARED)]
        texts = self._readable([prompt if isinstance(prompt, str) else prompt[0] for prompt in chosen])
        warning = loss_warning(self.tokenizer, texts, self.format.encode(texts)) if texts else None
        return [] if warning is None else [warning]

    def _readable(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as the model reads them, without those that it cannot read: they fail by themselves."""
        texts = []
        for prompt in prompts:
            with contextlib.suppress(PromptError):
                texts += self.rendered([prompt])
        return texts

    def _drop_warnings(self, prompts: Sequence[Prompt], label_space: Sequence[str], new_tokens: int) -> list[str]:
        """Return a warning if prompts are sent without some of their demonstrations, because they are too long."""
        if self.options.on_too_long == "error":
            return []
        dropped = []
        for prompt in prompts:
            scored_in_full = isinstance(prompt, str) and self.options.whole_labels and not new_tokens
            labels = label_space if scored_in_full else ()
            query = [prompt] if isinstance(prompt, str) else list(prompt)
            with contextlib.suppress(PromptError):
                dropped += self._read([query], labels, new_tokens).dropped
        shortened = [count for count in dropped if count]
        if not shortened:
            return []
        return [
            f"{len(shortened)} prompts were longer than the model reads and were sent without {sum(shortened)} "
            "demonstrations"
        ]

    def _why_not_finite(self) -> str:
        """Return a sentence on why scores are not finite; an empty text if it is not known."""
        return ""

    def _probabilities(self, scores: Logs) -> list[list[float]]:
        """Return the probabilities of labels, one row for each row of scores.

        Raises:
            OutputError: Scores are not finite.
        """
        try:
            return list(map(label_probabilities, scores))
        except OutputError as error:
            raise OutputError(f"{error}. {self._why_not_finite()}".removesuffix(". ")) from None

    def _masses(self, logs: Iterable[Sequence[float]]) -> list[float]:
        """Return the total probability of the labels for rows of their log-probabilities.

        Raises:
            OutputError: A row is not finite.
        """
        masses = []
        for row in logs:
            mass = math.fsum(map(math.exp, row))
            if math.isnan(mass):
                message = f"the model's scores of the vocabulary are not finite. {self._why_not_finite()}"
                raise OutputError(message.removesuffix(". "))
            masses.append(min(1.0, mass))
        return masses

    def _read(
        self, queries: Sequence[Sequence[str]], labels: Sequence[str] = (), new_tokens: int = 0, limited: bool = True
    ) -> Reading:
        """Return queries, each a list of prompts, as tokens, with room for labels or for some more tokens."""
        limit = self._limit() if limited else None
        room = max(new_tokens, self._least_new)
        return self.format.read(queries, None if limit is None else limit - room, labels)

    def _single(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Labels scored by one token each."""
        reading = self._read([[prompt] for prompt in prompts])
        issues = self._audit(label_space)
        tokens, shared = self.format.deciding(label_space)
        logits, totals = self._label_logits(reading.before(shared), tokens, self.options.label_mass)
        mass = None if totals is None else self._token_masses(tokens, logits, totals)
        return LabelScores(self._probabilities(logits), logits, mass, issues, reading.dropped)

    def _token_masses(self, tokens: Sequence[int], logits: Logs, totals: Sequence[float]) -> list[float]:
        """Return the total probability of the labels for each prompt, where each is scored by one token.

        Args:
            tokens: The token of each label; one that several labels share counts once.
            logits: Their logits for each prompt.
            totals: The log of the sum over the vocabulary for each prompt.
        """
        distinct = {token: place for place, token in enumerate(tokens)}.values()
        logs = ([row[place] - total for place in distinct] for row, total in zip(logits, totals, strict=True))
        return self._masses(logs)

    def _read_scored(
        self, prompts: Sequence[Any], label_space: Sequence[str], variant: str, limited: bool = True
    ) -> Reading:
        """Return the prompts of a noisy channel as tokens; without a variant, prompts with room for each label."""
        if variant:
            return self._read(prompts, limited=limited)
        return self._read([[prompt] for prompt in prompts], label_space, limited=limited)

    def _sequences(
        self, reading: Reading, label_space: Sequence[str], variant: str
    ) -> Iterator[tuple[list[Tokens], list[int]]]:
        """Yield, some prompts at a time, token sequences and for each the position before its first scored token.

        They are the prompts of a noisy channel; without a variant, prompts followed by each label.
        """
        if variant:
            starts = self.format.channel_starts(reading, label_space, variant)
            yield [ids for rows in reading.ids for ids in rows], starts
            return
        texts = [text for (text,) in reading.texts]
        step = max(1, TOKENS_AT_ONCE // (max(len(row) for (row,) in reading.ids) * len(label_space)))
        for first in range(0, len(texts), step):
            joined = self.format.continuations(texts[first : first + step], label_space, first)
            starts = [given - 1 for given, rows in joined for _ in rows]
            yield [row for _, rows in joined for row in rows], starts

    def _scored(self, prompts: Sequence[Any], label_space: Sequence[str], variant: str = "") -> LabelScores:
        """Labels scored by all their tokens in context; with a variant, the text scored given each label."""
        issues = () if variant else self._audit(label_space)
        logs: Logs = []
        reading = self._read_scored(prompts, label_space, variant)
        for sequences, starts in self._sequences(reading, label_space, variant):
            logs += self._log_probabilities(sequences, starts, labels=not variant)
        mean = variant == "0.1.1" if variant else self.options.label_normalisation == "mean"
        scores, mass = channel_scores(logs, len(label_space), mean), None
        if self.options.label_mass and not variant:
            sums = channel_scores(logs, len(label_space), False)
            mass = self._masses(sums)
        return LabelScores(self._probabilities(scores), scores, mass, issues, reading.dropped)

    def _channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str) -> LabelScores:
        """The text scored given each label."""
        self.format.refuse_chat("the noisy channel")
        for index, query in enumerate(prompts):
            check_channel(query, label_space, index)
        return self._scored(prompts, label_space, variant)

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
        limited = self.options.on_too_long != "error"  # no limit, where none is applied
        scores, channel = not new_tokens and not {*_SCORES}.isdisjoint(features), not isinstance(prompts[0], str)
        vectors = not {"hidden", "vocabulary"}.isdisjoint(features)
        full = scores and not channel and self.options.whole_labels
        runs: list[Sequence[Tokens]] = []
        longest = positions = 0
        with self._running(prompts):
            if channel or full:
                variant = self.options.variant if channel else ""
                reading = self._read_scored(prompts, label_space, variant, limited)
                for whole, starts in self._sequences(reading, label_space, variant):
                    runs.append(self._computed(whole, starts, labels=full))
                    longest = max(longest, max(map(len, whole)) - full * self._least_new)
            if vectors or not runs:
                shared = self.format.deciding(label_space)[1] if scores and not runs else 0
                reading = self._read([[prompt] for prompt in prompts], new_tokens=new_tokens, limited=limited)
                whole = reading.before(shared)
                losses = "losses" in features
                runs.append(self._computed(whole, [0] * len(whole), labels=False) if losses else whole)
                runs += [reading.before()] if shared and vectors else []
                longest = max(longest, *map(len, reading.before() if vectors else whole))
            kept = kept if self._keeps_prefix else ()
            for sequences in runs:
                positions += distinct_positions([kept, *sequences]) - len(kept)
                kept = max(sequences) if self._keeps_prefix else ()
        made = max(new_tokens, self._least_new)
        return Forecast(
            tokens=sum(len(row) for sequences in runs for row in sequences),
            positions=positions,
            output_tokens=made * sum(map(len, runs)),
            longest_prompt=longest + made,
            limit=self._limit(),
            kept=kept,
        )

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
            rows = self._log_probabilities(ids, [0] * len(ids), labels=False)
        return [-math.fsum(row) / len(row) for row in rows]

    def generate(
        self,
        prompts: Sequence[str],
        max_new_tokens: int = 32,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        seed: int = 0,
        choices: Sequence[str] = (),
    ) -> list[str]:
        r"""Continue each prompt, by default with the most probable tokens.

        Args:
            prompts: The prompts.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends, such as ``["\n"]``.
            temperature: Above 0, tokens are sampled from the distribution at this temperature.
            seed: Seed of the samples; the same seed and prompt give the same text.
            choices: The texts that are allowed (vLLM); empty for all. ``guided="choice"`` needs some.

        Returns:
            The continuations, without the prompts, the end token and the stop text. Where the chat template begins the
            reasoning of the reply, they begin with ``<think>``.
        """
        max_new_tokens = check_generation(max_new_tokens, stop, temperature)
        if choices and not hasattr(self.options, "guided"):
            raise ArgumentError(f"choices: got {list(choices)!r:.80} for a kernel without guided texts. Use vllm:")
        with self._running(prompts):
            reading = self._read([[prompt] for prompt in prompts], new_tokens=max_new_tokens)
            sampling = {"temperature": temperature, "seed": seed}
            texts = self._continued(reading.before(), max_new_tokens, stop, sampling, choices)
        replies: list[str] = []
        for text, (prompt,), dropped in zip(texts, reading.texts, reading.dropped, strict=True):
            reply = text if isinstance(text, Text) else Text(text)
            thinks = self.options.is_chat and prompt.rstrip().endswith(THOUGHT)
            replies.append(Text(THOUGHT + reply if thinks else reply, reply.finish_reason, dropped))
        return replies

    def _continued(
        self, ids: Sequence[Tokens], most: int, stop: Sequence[str], sampling: dict[str, Any], choices: Sequence[str]
    ) -> list[str]:
        """Return the texts that continue these tokens."""
        raise NotImplementedError


class PromptReader(TokenKernel):
    """What reads prompts as a kernel does, without the weights of its model.

    Args:
        tokenizer: The tokenizer.
        config: The configuration of the model.
        options: The options of the kernel.
        least_new: The least number of tokens that a request of the kernel generates.
    """

    def __init__(self, tokenizer: Any, config: Any, options: KernelOptions, least_new: int = 0) -> None:
        self.tokenizer = tokenizer
        self.options = options
        self._config = config
        self._least_new = least_new  # type: ignore[misc]

    def limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt, if there is one."""
        return self.format.limit(self._config)

    def _limit(self) -> int | None:
        return self.limit()


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
        single = scored = not {*_SCORES}.isdisjoint(wanted)
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


ReleasedCalibration = Callable[[list[float], Any, Any], list[float]]

DETAILED_AT_ONCE = 256
"""Prompts whose whole distributions are held at once."""


def _kernel(model: Any, tokenizer: Any, variant: str = "paper") -> CausalLMKernel:
    # What is costly to find out about a model is remembered in ``capabilities``, so a kernel costs next to nothing.
    return CausalLMKernel(model, tokenizer, variant=variant, label_mass=False)


def _identity(name: str) -> Callable[..., Identity]:
    def identity_for(*, model: Any, tokenizer: Any, variant: str = "paper", **keywords: Any) -> Identity:
        identity = _kernel(model, tokenizer, variant).identity()
        identity = Identity({**identity.who, "function": name}, identity.settings, identity.unidentified)
        for key, value in sorted(keywords.items()):
            if key == "cache_empty" or value is None or value is False:
                continue
            added = identity_of(value) if callable(value) else Identity({}, {"value": repr(value)})
            identity = combined(identity, key, added)
        return identity

    identity_for.__doc__ = f"The identity of ``{name}`` with these keywords, computed now."
    return identity_for


def _one_text(prompt: str | Sequence[str], index: int) -> str:
    """Return a prompt that is a text, or the input texts of a row with one text."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) != 1:
        raise PromptError(
            f"prompt {index}: got a list of {len(prompt)} texts, expected one text. For many prompts use "
            "batched_ICL_inference_with_torch_Causal_LM; for one prompt per label, the noisy-channel function",
            index,
        )
    return prompt[0]


def _standard(
    prompts: Sequence[str | Sequence[str]],
    label_space: Sequence[str],
    model: Any,
    tokenizer: Any,
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: ReleasedCalibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> list[Any]:
    """One result for each prompt; see the documented function."""
    texts = [_one_text(prompt, index) for index, prompt in enumerate(prompts)]
    kernel = _kernel(model, tokenizer)
    plain = calibration_function is None and not return_hidden_state and not return_full_vocab_prob
    results: list[Any] = kernel.batch(texts, label_space) if plain else []
    for start in range(len(results), len(texts), DETAILED_AT_ONCE):
        detailed = kernel.score_in_detail(texts[start : start + DETAILED_AT_ONCE], label_space)
        for row, logits, state in zip(*detailed, strict=True):
            row = row if calibration_function is None else calibration_function(row, logits, state)
            more = [state] * return_hidden_state + [logits] * return_full_vocab_prob
            results.append((row, *more) if more else row)
    if cache_empty is not None:
        cache_empty()
    return results


def standard_ICL_inference_with_torch_Causal_LM(
    prompt: str | Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    calibration_function: ReleasedCalibration | None = None,
    return_hidden_state: bool = False,
    return_full_vocab_prob: bool = False,
) -> Any:
    """Probability of each label as the next token after a prompt.

    A label is scored by the last token of its tokenization; the probabilities are the softmax of these tokens' logits.

    Args:
        prompt: The prompt; a list with one text (the input texts of a row) is the same as that text.
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels.
        cache_empty: Called without arguments after the model was run, such as ``torch.cuda.empty_cache``.
        calibration_function: Called with the probabilities (a list), the logits of the whole vocabulary and the last
            hidden state (float32 arrays of shapes (vocabulary,) and (width,)); what it returns takes the place of the
            probabilities.
        return_hidden_state: Whether to return the last hidden state too.
        return_full_vocab_prob: Whether to return the logits of the whole vocabulary too (0.1.1 calls them
            probabilities).

    Returns:
        A list of probabilities; or a tuple of it, the hidden state if asked for, and the logits if asked for, in this
        order. (0.1.1 raised an error if asked for both.)
    """
    more = (cache_empty, calibration_function, return_hidden_state, return_full_vocab_prob)
    return _standard([prompt], label_space, model, tokenizer, *more)[0]


def batched_ICL_inference_with_torch_Causal_LM(
    prompt: Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    batch_calibration_function: Callable[[list[list[float]]], Any] | None = None,
    inside_calibration_function: ReleasedCalibration | None = None,
) -> Any:
    """Probability of each label after each of a list of prompts.

    Args:
        prompt: The prompts.
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels.
        cache_empty: Called without arguments after the model was run.
        batch_calibration_function: Called with the list of all rows; what it returns is returned.
        inside_calibration_function: As ``calibration_function`` of the standard function, for each prompt.

    Returns:
        One list of probabilities for each prompt, in order, or what the batch calibration made of them.
    """
    if isinstance(prompt, str):
        raise ArgumentError(
            "prompt must be a list of strings; for one prompt use standard_ICL_inference_with_torch_Causal_LM"
        )
    rows = _standard(prompt, label_space, model, tokenizer, cache_empty, inside_calibration_function)
    return rows if batch_calibration_function is None else batch_calibration_function(rows)


def _batched(prompts: Sequence[str], label_space: Sequence[str], **options: Any) -> Any:
    return batched_ICL_inference_with_torch_Causal_LM(prompts, label_space=label_space, **options)


def _noisy(
    prompts: Any,
    label_space: Sequence[str],
    model: Any,
    tokenizer: Any,
    cache_empty: Any = None,
    variant: str = "paper",
) -> list[list[float]]:
    """One row for each query; see the documented function."""
    rows = _kernel(model, tokenizer, variant).noisy_channel(prompts, label_space)
    if cache_empty is not None:
        cache_empty()
    return rows


def noisy_channel_ICL_inference_with_torch_Causal_LM(
    prompt: Sequence[str],
    model: Any,
    tokenizer: Any,
    label_space: Sequence[str],
    cache_empty: Callable[[], Any] | None = None,
    variant: str = "paper",
) -> list[float]:
    """Probability of each label from the probability of the query given the label (Min et al. 2022).

    Args:
        prompt: One prompt for each label, which differ in the label only (a benchmark with ``noisy_channel=True``
            makes them).
        model: A causal language model of ``transformers``.
        tokenizer: Its tokenizer.
        label_space: The labels, in the order of the prompts.
        cache_empty: Called without arguments after the model was run.
        variant: ``"paper"``: the sum of the log-probabilities of the tokens that follow the label; ``"0.1.1"``: minus
            the mean loss over the whole prompt, which leaves nearly uniform probabilities.

    Returns:
        A list of probabilities.
    """
    return _noisy([prompt], label_space, model, tokenizer, cache_empty, variant)[0]


def _equip(function: Any, batch: Callable[..., Any]) -> None:
    """Add the attributes ``batch``, ``identity_for`` and ``recheck_tolerance_for``."""
    function.batch = batch
    function.identity_for = _identity(function.__name__)
    function.recheck_tolerance_for = lambda *, model, tokenizer, **_: _kernel(model, tokenizer).recheck_tolerance
    if batch is _standard:
        function.kernel_for = lambda *, model, tokenizer, **_: _kernel(model, tokenizer)


_equip(standard_ICL_inference_with_torch_Causal_LM, _standard)
_equip(batched_ICL_inference_with_torch_Causal_LM, _batched)
_equip(noisy_channel_ICL_inference_with_torch_Causal_LM, _noisy)
