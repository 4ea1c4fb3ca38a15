"""What kernels share that read prompts as token ids: prompts, label scores, the noisy channel, losses, forecasts.

Problems of the labels' tokens are reported before the run (through ``logging``, and in :attr:`LabelScores.issues`). No
prompt is truncated silently.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, OutputError, PromptError
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.forecast import PROBABILITIES, Forecast
from StaICC.kernels.huggingface.batching import Tokens
from StaICC.kernels.huggingface.forward import distinct_positions, without_last
from StaICC.kernels.huggingface.prompts import KernelOptions, KernelVariant, LabelIssue, PromptFormat, Reading
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
from StaICC.kernels.registry import choose
from StaICC.prompting.prompt_writer import Prompt
from StaICC.safe_text import logger

NEAR_LIMIT = 0.9
"""Share of the length limit from which on a prompt is reported."""
MEASURED = 3
"""The longest texts that are measured in tokens; the one with most tokens is nearly always among them."""
TOKENS_AT_ONCE = 20_000_000
"""Maximum number of tokens held at once where every label is joined to every prompt."""
LABEL_FEATURES = ("probabilities", "log_probabilities")
"""Features that score labels."""
THOUGHT = "<think>"
"""With it the chat templates of some models begin the reply."""

_log = logger(__name__)
_logged: weakref.WeakKeyDictionary[Any, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""Label spaces whose issues were logged already."""

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
        scores, channel = not new_tokens and not {*LABEL_FEATURES}.isdisjoint(features), not isinstance(prompts[0], str)
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
