"""What kernels share that read prompts as token ids: prompts, label scores, the noisy channel, losses, forecasts.

Problems of the labels' tokens are reported before the run (through ``logging``, and in :attr:`LabelScores.issues`). No
prompt is truncated silently.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from StaICC.errors import ArgumentError, OutputError, PromptError
from StaICC.inference.contract import ScoredLabels, Text
from StaICC.inference.forecast import PROBABILITIES, Forecast
from StaICC.kernels.huggingface.batching import Tokens
from StaICC.kernels.huggingface.forward import TokenLogits
from StaICC.kernels.huggingface.prompts import KernelOptions, KernelVariant, LabelIssue, PromptFormat, TokenizedPrompts
from StaICC.kernels.huggingface.token_trie import distinct_positions, without_last
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
from StaICC.prompting.prompt_text import Prompt
from StaICC.safe_text import logger

NEAR_LIMIT = 0.9
"""A prompt that is longer than this share of the length limit is reported."""
MEASURED = 3
"""How many of the texts with most characters are measured in tokens. The one with most tokens is nearly always among
them."""
TOKENS_AT_ONCE = 20_000_000
"""Maximum number of tokens held at once where every label is joined to every prompt (some gigabytes of tuples)."""
LABEL_FEATURES = frozenset({"probabilities", "log_probabilities"})
"""Features that score labels."""
STATE_FEATURES = frozenset({"hidden", "vocabulary"})
"""Features of the prompt alone: they do not depend on the labels."""
THOUGHT = "<think>"
"""Chat templates of some reasoning models write this at the beginning of the reply."""

_log = logger(__name__)
_logged: weakref.WeakKeyDictionary[Any, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""For each tokenizer, the label spaces (with the scoring options) whose issues were logged already."""

Logs = list[list[float]]
"""For each sequence, the log-probability in nats of each of its scored tokens."""


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
        label_mass: Sequence[float | None] = self.label_mass or [None] * len(self.probabilities)
        rows = zip(self.probabilities, label_mass, self.dropped, strict=True)
        return [ScoredLabels(probabilities, mass, dropped) for probabilities, mass, dropped in rows]


@dataclass(frozen=True, slots=True)
class ScoredSequences:
    """Token sequences of which the last tokens are scored.

    Attributes:
        sequences: The token sequences.
        starts: For each sequence, the position before its first scored token.
    """

    sequences: list[Tokens]
    starts: list[int]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the model over many sequences, as a forecast expects it.

    Attributes:
        sequences: The token sequences that the model reads.
        longest: The length of the longest one, with its last token where that is scored but not read.
    """

    sequences: Sequence[Tokens]
    longest: int


class TokenKernel:
    """What kernels share that read prompts as token ids: prompts, label scores, the noisy channel, losses, forecasts.

    A kernel adds its tokenizer, the limit of its model, and two ways to compute log-probabilities.
    """

    options: KernelOptions
    tokenizer: Any
    _lock: threading.RLock
    last_scores: LabelScores | None = None
    """The result of the last call of :meth:`batch`, :meth:`score` or :meth:`noisy_channel`."""

    _capabilities_of_class: ClassVar[frozenset[Capability]] = frozenset(Capability)
    """What kernels of this class can compute of plain prompts."""
    _least_new_tokens: int = 0
    """Every request generates at least this number of tokens."""
    _keeps_prefix: ClassVar[bool] = True
    """Whether the kernel computes the prefix that the last prompt left in its cache only once, for certain."""

    tokens_used: tuple[int, int] = (0, 0)
    """Tokens of prompts and of continuations that this object processed so far, in this process. A prefix that prompts
    share counts for each of them, as in forecasts."""

    def _count(self, sequences: Sequence[Tokens], continuations: Sequence[Sequence[int]] = ()) -> None:
        """Add the tokens of prompts that were read, and of texts that were generated, to :attr:`tokens_used`."""
        read_before, generated_before = self.tokens_used
        newly_read = sum(len(sequence) for sequence in sequences)
        newly_generated = sum(len(continuation) for continuation in continuations)
        self.tokens_used = (read_before + newly_read, generated_before + newly_generated)

    def _limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt, if there is one."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Open a context in which prompts are computed, by one thread at a time.

        Args:
            prompts: The prompts.

        Raises:
            ArgumentError: They are no list, or an empty one.
        """
        if isinstance(prompts, str) or not len(prompts):
            raise ArgumentError(f"prompts must be a non-empty list of strings, not {prompts!r:.80}")
        with self._lock:
            yield

    def _label_logits(self, sequences: Sequence[Tokens], tokens: Sequence[int], totals: bool) -> TokenLogits:
        """Return the logits of some tokens after each sequence.

        Args:
            sequences: The token sequences.
            tokens: The tokens.
            totals: Whether the result has ``log(sum of exp(logit))`` over the vocabulary for each sequence, too.
        """
        raise NotImplementedError

    def _log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Logs:
        """Return the log-probability of each token after position ``starts[i]`` of sequence ``i``.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt, so that many sequences begin alike.
        """
        raise NotImplementedError

    def _tokens_to_read(self, sequences: Sequence[Tokens], starts: Sequence[int], labels: bool) -> Sequence[Tokens]:
        """Return what the model reads of token sequences to score their tokens after position ``starts[i]``.

        The last token of a sequence is not read, because only the tokens before it predict a scored token.

        Args:
            sequences: The token sequences.
            starts: For each sequence, the position before its first scored token.
            labels: Whether the scored tokens are labels after a prompt.
        """
        return without_last(sequences, starts)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this kernel can compute. With chat prompts it scores no texts: a reply does not contain the prompt."""
        if self.options.is_chat:
            return self._capabilities_of_class - TEXT_SCORES
        return self._capabilities_of_class

    @property
    def reads_parts(self) -> bool:
        """Whether the parts of a prompt matter (:func:`~StaICC.inference.contract.reads_parts`)."""
        return self.options.reads_parts

    @property
    def format(self) -> PromptFormat:
        """How prompts and labels are written for the tokenizer; loads the model."""
        return PromptFormat(self.tokenizer, self.options)

    def rendered(self, prompts: Sequence[str], label_space: Sequence[str] = ()) -> list[str]:
        """Return the texts that the model reads: prompts in its chat template, and shortened if they are too long.

        Prompts are shortened with the option ``on_too_long="drop-demonstrations"`` only. Then those that are longer
        than the model reads lose their first demonstrations.

        Args:
            prompts: The prompts.
            label_space: The labels of all of them. If all tokens of a label are scored (``label_scoring="full"``), the
                model reads a label after the prompt, so prompts are shortened until the longest label fits, too.
        """
        may_drop_demonstrations = self.options.on_too_long != "error"
        if not may_drop_demonstrations:
            return [self.format.render(prompt) for prompt in prompts]

        labels_to_fit: Sequence[str] = ()
        if self.options.scores_all_tokens:
            labels_to_fit = label_space
        tokenized = self._tokenize_prompts(prompts, labels_to_fit)
        texts = []
        for texts_of_query in tokenized.texts:
            texts.append(texts_of_query[0])  # a query of one prompt
        return texts

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
        _check_same_kind(prompts)
        if not len(prompts):
            self.last_scores = LabelScores(probabilities=[], log_scores=[], label_mass=[], issues=(), dropped=[])
            return self.last_scores

        with self._running(prompts):
            if not isinstance(prompts[0], str):
                self.last_scores = self._channel(prompts, label_space, self.options.variant)
            elif self.options.scores_all_tokens:
                self.last_scores = self._whole_label_scores(prompts, label_space)
            else:
                self.last_scores = self._one_token_scores(prompts, label_space)
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
        chosen_variant = choose("variant", variant or self.options.variant, KernelVariant)
        with self._running(prompts):
            self.last_scores = self._channel(prompts, checked_labels(label_space), chosen_variant)
            return self.last_scores.predictions()

    def _label_issues(self, label_space: Sequence[str], log: bool = True) -> tuple[LabelIssue, ...]:
        """Return what is wrong with the tokens of the labels; the issues of a label space are logged once.

        Args:
            label_space: The labels.
            log: Whether the issues are logged. If not, the caller reports them, and they are not logged later either.
        """
        issues = self.format.label_issues(label_space)
        reported = _logged.setdefault(self.tokenizer, set())
        labels_and_options = (self.options.label_scoring, self.options.last_blank, *label_space)
        if labels_and_options in reported:
            return issues
        reported.add(labels_and_options)
        if log:
            for issue in issues:
                _log.warning("label tokens: %s", issue.message)
        return issues

    def prompt_warnings(self, prompts: Sequence[Prompt], label_space: Sequence[str], new_tokens: int = 0) -> list[str]:
        """Return warnings about the labels and about what the model reads of the prompts.

        Labels: those that share the token that decides between them. Prompts: tokens without a loss in a noisy channel,
        prompts above the limit of tokens, and parts of prompts that the format drops. Nothing of it needs weights: a
        model that is not loaded stays so.

        Args:
            prompts: The prompts of a run; for a noisy channel, for each query a tuple of prompts.
            label_space: Their labels; none for texts of which no label is scored.
            new_tokens: The maximum number of tokens that are generated; 0 for scores of the labels.
        """
        reader = self._reader()
        warnings = []
        # The noisy channel scores texts, and generation scores nothing: labels matter to the other prompts only.
        has_single_prompts = any(isinstance(prompt, str) for prompt in prompts)
        if label_space and not new_tokens and has_single_prompts:
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
        warnings = []
        indistinct_labels: list[tuple[str, ...]] = []
        for issue in self._label_issues(label_space, log=False):
            if issue.kind == "shared-token":
                indistinct_labels.append(issue.labels)
            else:
                warnings.append(issue.message)

        if indistinct_labels:
            label_count = sum(len(labels) for labels in indistinct_labels)
            examples = ", ".join(repr(label) for label in indistinct_labels[0][:3])
            warnings.append(
                f"{label_count} of {len(label_space)} labels are scored by the same token as another label, such as "
                f"{examples}, and are not distinguished. Use label_scoring='full' or other label words"
            )
        return warnings

    def _limit_warnings(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return a warning if the longest prompt is near the limit of the model."""
        limit = self._limit()
        if limit is None:
            return []

        # The prompt with most tokens is nearly always one of the few with most characters.
        longest_prompts = _longest_texts(prompts, MEASURED)
        texts = self._readable(longest_prompts)
        token_count = max((len(tokens) for tokens in self.format.encode(texts)), default=0)
        if token_count <= NEAR_LIMIT * limit:
            return []

        consequence = "Longer prompts fail"
        if self.options.on_too_long == "drop-demonstrations":
            consequence = "Longer prompts lose demonstrations"
        return [
            f"the longest prompt has {token_count} tokens, and the model reads {limit} at most. {consequence}; use "
            "fewer demonstrations, a model with a longer context, or a larger max_length if the model can read it"
        ]

    def _loss_warnings(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return a warning if the tokenizer loses characters of some prompts; a sample of the prompts is compared."""
        sample = []
        for prompt_index in spread(len(prompts), COMPARED):
            prompt = prompts[prompt_index]
            # The prompts of a noisy channel differ in their label only.
            text = prompt if isinstance(prompt, str) else prompt[0]
            sample.append(text)
        texts = self._readable(sample)
        if not texts:
            return []
        warning = loss_warning(self.tokenizer, texts, self.format.encode(texts))
        if warning is None:
            return []
        return [warning]

    def _readable(self, prompts: Sequence[str]) -> list[str]:
        """Return prompts as the model reads them, without those that it cannot read, which the run reports itself."""
        texts = []
        for prompt in prompts:
            with contextlib.suppress(PromptError):
                texts += self.rendered([prompt])
        return texts

    def _drop_warnings(self, prompts: Sequence[Prompt], label_space: Sequence[str], new_tokens: int) -> list[str]:
        """Return a warning if prompts are sent without some of their demonstrations, because they are too long.

        Args:
            prompts: For each query its prompt; for a noisy channel, a tuple with one prompt for each label, which
                contains the label.
            label_space: The labels that are scored after a prompt.
            new_tokens: The maximum number of tokens that are generated; 0 if labels are scored.

        Returns:
            A list of one warning, or an empty list.
        """
        if self.options.on_too_long == "error":
            return []  # no demonstration is ever dropped

        # Where all tokens of a label are read after a prompt, the model's limit must have room for them.
        labels_after_prompt: Sequence[str] = ()
        if self.options.scores_all_tokens and not new_tokens:
            labels_after_prompt = label_space
        dropped_counts: list[int] = []
        for prompt in prompts:
            if isinstance(prompt, str):
                prompts_of_query = [prompt]
                labels = labels_after_prompt
            else:
                prompts_of_query = list(prompt)
                labels = ()  # the prompts of a noisy channel contain the labels
            # A prompt that cannot be read fails later, with its own message.
            with contextlib.suppress(PromptError):
                tokenized = self._tokenize([prompts_of_query], labels, new_tokens)
                dropped_counts += tokenized.dropped

        shortened_prompts = sum(count > 0 for count in dropped_counts)
        if not shortened_prompts:
            return []
        return [
            f"{shortened_prompts} prompts were longer than the model reads and were sent without {sum(dropped_counts)} "
            "demonstrations"
        ]

    # From scores to probabilities

    def _why_not_finite(self) -> str:
        """Return a sentence on why scores are not finite; an empty text if it is not known."""
        return ""

    def _with_reason(self, message: str) -> str:
        """Return a message about scores that are not finite, with the reason where it is known."""
        reason = self._why_not_finite()
        if not reason:
            return message
        return f"{message}. {reason}"

    def _probabilities(self, scores: Logs) -> list[list[float]]:
        """Return the softmax of each row of the labels' scores.

        Raises:
            OutputError: Scores are not finite.
        """
        try:
            return [label_probabilities(row) for row in scores]
        except OutputError as error:
            raise OutputError(self._with_reason(str(error))) from None

    def _masses(self, log_probabilities: Sequence[Sequence[float]]) -> list[float]:
        """Return for each prompt the total probability of its labels, ``sum of exp(log-probability)``.

        Args:
            log_probabilities: For each prompt, the log-probability of each label.

        Raises:
            OutputError: A log-probability is NaN.
        """
        masses = []
        for row in log_probabilities:
            mass = math.fsum(math.exp(value) for value in row)
            if math.isnan(mass):
                raise OutputError(self._with_reason("the model's scores of the vocabulary are not finite"))
            # Rounding may lift the sum of all labels above 1.
            masses.append(min(1.0, mass))
        return masses

    def _token_masses(self, tokens: Sequence[int], logits: TokenLogits) -> list[float] | None:
        """Return the total probability of the labels' tokens for each prompt; None without the vocabulary's totals.

        The probability of a token is ``exp(logit - log_total)``. A token that several labels share counts once.

        Args:
            tokens: The token that scores each label.
            logits: The logits of these tokens after each prompt.
        """
        if logits.log_totals is None:
            return None
        column_by_token = {token: column for column, token in enumerate(tokens)}
        distinct_columns = list(column_by_token.values())
        log_probabilities = []
        for row, log_total in zip(logits.rows, logits.log_totals, strict=True):
            log_probabilities.append([row[column] - log_total for column in distinct_columns])
        return self._masses(log_probabilities)

    # The three ways to score labels

    def _tokenize(
        self,
        queries: Sequence[Sequence[str]],
        labels: Sequence[str] = (),
        new_tokens: int = 0,
        apply_limit: bool = True,
    ) -> TokenizedPrompts:
        """Return the prompts of queries as tokens; those above the model's limit lose demonstrations, or are an error.

        Args:
            queries: For each query, its prompts: one, or one for each label of a noisy channel.
            labels: Labels that are read after each prompt, for which the limit must leave room.
            new_tokens: Number of generated tokens for which the limit must leave room.
            apply_limit: Whether the limit of the model is applied.
        """
        limit = self._limit() if apply_limit else None
        if limit is not None:
            limit -= max(new_tokens, self._least_new_tokens)
        return self.format.tokenize(queries, limit, labels)

    def _tokenize_prompts(
        self, prompts: Sequence[str], labels: Sequence[str] = (), new_tokens: int = 0, apply_limit: bool = True
    ) -> TokenizedPrompts:
        """Return prompts as tokens, each as a query of one prompt. Other arguments are those of :meth:`_tokenize`."""
        return self._tokenize([[prompt] for prompt in prompts], labels, new_tokens, apply_limit)

    def _one_token_scores(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Return the scores of labels by one token of each: the score is the logit of that token after the prompt.

        Args:
            prompts: The prompts.
            label_space: The labels.
        """
        tokenized = self._tokenize_prompts(prompts)
        issues = self._label_issues(label_space)
        scoring = self.format.scoring_tokens(label_space)
        # A blank at the end of a prompt that the tokenizer joins to the labels is not part of the prompt here.
        sequences = tokenized.sequences(without_last=scoring.joined_prompt_tokens)
        logits = self._label_logits(sequences, scoring.tokens, totals=self.options.label_mass)
        label_mass = self._token_masses(scoring.tokens, logits)
        return LabelScores(
            probabilities=self._probabilities(logits.rows),
            log_scores=logits.rows,
            label_mass=label_mass,
            issues=issues,
            dropped=tokenized.dropped,
        )

    def _whole_label_scores(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Return the scores of labels by the log-probabilities of all their tokens after the prompt.

        The score of a label is the sum of these log-probabilities, or their mean with ``label_normalisation="mean"``.
        The label mass of a prompt is the sum of ``exp(sum of the log-probabilities)`` over the labels.
        """
        issues = self._label_issues(label_space)
        tokenized = self._tokenize_prompts(prompts, label_space)
        # Of each label after the first prompt, then of each label after the second one, ...
        token_log_probabilities: Logs = []
        for scored in self._prompts_with_labels(tokenized, label_space):
            token_log_probabilities += self._log_probabilities(scored.sequences, scored.starts, labels=True)

        label_mass = None
        if self.options.label_mass:
            label_log_probabilities = channel_scores(token_log_probabilities, len(label_space), mean=False)
            label_mass = self._masses(label_log_probabilities)
        scores = self._normalised(token_log_probabilities, label_space)
        return LabelScores(
            probabilities=self._probabilities(scores),
            log_scores=scores,
            label_mass=label_mass,
            issues=issues,
            dropped=tokenized.dropped,
        )

    def _normalised(self, token_log_probabilities: Logs, label_space: Sequence[str]) -> list[list[float]]:
        """Return for each prompt the scores of its labels, by the rule of the option ``label_normalisation``.

        Args:
            token_log_probabilities: The log-probabilities of the tokens of each label: those of the labels of the first
                prompt, then those of the next one.
            label_space: The labels.
        """
        score_of = self.options.normalisation_rule.score
        label_count = len(label_space)
        rows = []
        for start in range(0, len(token_log_probabilities), label_count):
            of_prompt = token_log_probabilities[start : start + label_count]
            row = []
            for label, log_probabilities in zip(label_space, of_prompt, strict=True):
                row.append(score_of(label, log_probabilities))
            rows.append(row)
        return rows

    def _prompts_with_labels(
        self, tokenized: TokenizedPrompts, label_space: Sequence[str]
    ) -> Iterator[ScoredSequences]:
        """Yield every prompt followed by every label, as tokens of which those of the label are scored.

        The sequences are those of the first prompt, one for each label, then those of the next one. Each result has
        those of as many prompts as have about :data:`TOKENS_AT_ONCE` tokens, which limits the memory.

        Args:
            tokenized: The prompts, one for each query.
            label_space: The labels.
        """
        texts = [text for (text,) in tokenized.texts]
        longest = max(len(tokens) for (tokens,) in tokenized.ids)
        tokens_per_prompt = longest * len(label_space)
        prompts_at_once = max(1, TOKENS_AT_ONCE // tokens_per_prompt)
        for first in range(0, len(texts), prompts_at_once):
            sequences: list[Tokens] = []
            starts: list[int] = []
            for prompt in self.format.continuations(texts[first : first + prompts_at_once], label_space, first):
                position_before_label = prompt.prompt_length - 1
                for sequence in prompt.sequences:
                    sequences.append(sequence)
                    starts.append(position_before_label)
            yield ScoredSequences(sequences, starts)

    def _channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str) -> LabelScores:
        """Return the scores of labels by a noisy channel: the log-probabilities of a text given each label.

        Args:
            prompts: For each query, one prompt for each label, which contains the label before the query's text.
            label_space: The labels.
            variant: ``"paper"``: the sum over the tokens after the label; ``"0.1.1"``: the mean over all tokens.
        """
        self.format.refuse_chat("the noisy channel")
        for index, prompts_of_query in enumerate(prompts):
            check_channel(prompts_of_query, label_space, index)
        tokenized = self._tokenize(prompts)
        scored = self._channel_sequences(tokenized, label_space, variant)
        token_log_probabilities = self._log_probabilities(scored.sequences, scored.starts, labels=False)
        scores = channel_scores(token_log_probabilities, len(label_space), mean=variant == "0.1.1")
        return LabelScores(
            probabilities=self._probabilities(scores),
            log_scores=scores,
            label_mass=None,
            issues=(),
            dropped=tokenized.dropped,
        )

    def _channel_sequences(
        self, tokenized: TokenizedPrompts, label_space: Sequence[str], variant: str
    ) -> ScoredSequences:
        """Return the tokens of the prompts of a noisy channel, with the position from which on they are scored.

        Args:
            tokenized: For each query, one prompt for each label.
            label_space: The labels.
            variant: ``"paper"``: the tokens after the label are scored; ``"0.1.1"``: all tokens but the first.

        Returns:
            The prompts of the first query, in the order of the labels, then those of the next one.
        """
        sequences: list[Tokens] = []
        for prompts_of_query in tokenized.ids:
            sequences += prompts_of_query
        starts = self.format.channel_starts(tokenized, label_space, variant)
        return ScoredSequences(sequences, starts)

    # Forecasts

    def forecast_prompts(
        self,
        prompts: Sequence[Any],
        label_space: Sequence[str],
        new_tokens: int = 0,
        features: Collection[str] = PROBABILITIES,
        *,
        kept: tuple[int, ...] = (),
    ) -> Forecast:
        """Return how many tokens a call of the model with these prompts will read, compute and generate.

        A prompt that is too long is counted in full.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels.
            new_tokens: Maximum number of tokens to generate for each prompt; 0 computes the features.
            features: What is computed of each prompt, such as those of :attr:`joint_features`.
            kept: The token sequence that the call before leaves in the cache. What a prompt shares with it is not
                computed again. The result has the one that this call leaves.
        """
        with self._running(prompts):
            runs = self._planned_runs(prompts, label_space, new_tokens, features)

        generated_per_sequence = max(new_tokens, self._least_new_tokens)
        sequence_in_cache = kept if self._keeps_prefix else ()
        read_tokens = 0
        computed_positions = 0
        generated_tokens = 0
        for run in runs:
            read_tokens += sum(len(sequence) for sequence in run.sequences)
            # A position is computed once for all sequences that begin alike, and not at all if it is in the cache.
            all_positions = distinct_positions([sequence_in_cache, *run.sequences])
            computed_positions += all_positions - len(sequence_in_cache)
            generated_tokens += generated_per_sequence * len(run.sequences)
            if self._keeps_prefix:
                # Sequences are computed in sorted order, so the last one is in the cache for the next run.
                sequence_in_cache = max(run.sequences)
        longest_sequence = max(run.longest for run in runs)
        return Forecast(
            tokens=read_tokens,
            positions=computed_positions,
            output_tokens=generated_tokens,
            longest_prompt=longest_sequence + generated_per_sequence,
            limit=self._limit(),
            kept=sequence_in_cache,
        )

    def _planned_runs(
        self, prompts: Sequence[Any], label_space: Sequence[str], new_tokens: int, features: Collection[str]
    ) -> list[PlannedRun]:
        """Return the runs of the model that compute features of prompts, or continue them.

        Features that can be read off the last position of a prompt share a run. Labels that are scored otherwise have
        runs of their own.

        Args:
            prompts: The prompts, at least one; for a noisy channel, for each query a list of prompts.
            label_space: The labels.
            new_tokens: Maximum number of tokens to generate for each prompt; 0 computes the features.
            features: What is computed of each prompt.
        """
        is_channel = not isinstance(prompts[0], str)
        needs_labels = not new_tokens and not LABEL_FEATURES.isdisjoint(features)
        needs_states = not STATE_FEATURES.isdisjoint(features)
        if is_channel:
            runs = [self._planned_channel(prompts, label_space)]
        elif needs_labels and self.options.scores_all_tokens:
            runs = list(self._planned_whole_labels(prompts, label_space))
        elif needs_labels:
            return self._planned_prompts(prompts, label_space, new_tokens, features)
        else:
            return self._planned_prompts(prompts, None, new_tokens, features)
        if needs_states:
            runs += self._planned_prompts(prompts, None, new_tokens, features)
        return runs

    @property
    def _limits_forecasts(self) -> bool:
        """Whether forecasts apply the limit of the model: they count a prompt in full that would be an error."""
        return self.options.on_too_long != "error"

    def _planned_channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str]) -> PlannedRun:
        """Return the run of a noisy channel, in which the prompts of all queries and labels are scored."""
        tokenized = self._tokenize(prompts, apply_limit=self._limits_forecasts)
        scored = self._channel_sequences(tokenized, label_space, self.options.variant)
        read_sequences = self._tokens_to_read(scored.sequences, scored.starts, labels=False)
        longest = max(len(sequence) for sequence in scored.sequences)
        return PlannedRun(read_sequences, longest)

    def _planned_whole_labels(self, prompts: Sequence[str], label_space: Sequence[str]) -> Iterator[PlannedRun]:
        """Yield the runs in which each prompt is followed by each label, and all tokens of the labels are scored."""
        tokenized = self._tokenize_prompts(prompts, label_space, apply_limit=self._limits_forecasts)
        for scored in self._prompts_with_labels(tokenized, label_space):
            read_sequences = self._tokens_to_read(scored.sequences, scored.starts, labels=True)
            longest = max(len(sequence) for sequence in scored.sequences)
            # The forecast adds the tokens that every request generates. Here, the last token of a label is one of them.
            yield PlannedRun(read_sequences, longest - self._least_new_tokens)

    def _planned_prompts(
        self,
        prompts: Sequence[str],
        scored_labels: Sequence[str] | None,
        new_tokens: int,
        features: Collection[str],
    ) -> list[PlannedRun]:
        """Return the one or two runs over prompts alone: for labels that one token scores, states, losses, or texts.

        Where the tokenizer joins the end of a prompt to the labels, labels are scored after the prompt without its last
        tokens, and states are those after the whole prompt. Features of both kinds need two runs then, otherwise one.

        Args:
            prompts: The prompts.
            scored_labels: The labels, if one token scores each; None if no label is scored here.
            new_tokens: Maximum number of tokens to generate.
            features: What is computed of each prompt.
        """
        joined_tokens = 0  # at the end of each prompt
        if scored_labels is not None:
            joined_tokens = self.format.scoring_tokens(scored_labels).joined_prompt_tokens
        tokenized = self._tokenize_prompts(prompts, new_tokens=new_tokens, apply_limit=self._limits_forecasts)
        whole_prompts: Sequence[Tokens] = tokenized.sequences()
        needs_states = not STATE_FEATURES.isdisjoint(features)
        read_prompts: Sequence[Tokens] = tokenized.sequences(without_last=joined_tokens)
        needs_second_run = needs_states and joined_tokens > 0
        longest_prompts = whole_prompts if needs_second_run else read_prompts
        longest = max(len(sequence) for sequence in longest_prompts)

        if "losses" in features:
            read_prompts = self._tokens_to_read(read_prompts, [0] * len(read_prompts), labels=False)
        runs = [PlannedRun(read_prompts, longest)]
        if needs_second_run:
            runs.append(PlannedRun(whole_prompts, longest))
        return runs

    # Losses and texts

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
            sequences = self._tokenize_prompts(texts).sequences()
            for index, tokens in enumerate(sequences):
                if len(tokens) < 2:
                    raise PromptError(f"text {index} has one token only, so no token has a loss", index)
            positions_before_scored = [0] * len(sequences)  # all tokens but the first are scored
            rows = self._log_probabilities(sequences, positions_before_scored, labels=False)
        return [-math.fsum(log_probabilities) / len(log_probabilities) for log_probabilities in rows]

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
            tokenized = self._tokenize_prompts(prompts, new_tokens=max_new_tokens)
            sampling = {"temperature": temperature, "seed": seed}
            texts = self._continued(tokenized.sequences(), max_new_tokens, stop, sampling, choices)
        replies: list[str] = []
        for text, (prompt,), dropped in zip(texts, tokenized.texts, tokenized.dropped, strict=True):
            content = text
            template_begins_reasoning = self.options.is_chat and prompt.rstrip().endswith(THOUGHT)
            if template_begins_reasoning:
                content = THOUGHT + text  # the mark is a part of the reply, which the template wrote into the prompt
            finish_reason = text.finish_reason if isinstance(text, Text) else None
            replies.append(Text(content, finish_reason, dropped))
        return replies

    def _continued(
        self,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stop: Sequence[str],
        sampling: dict[str, Any],
        choices: Sequence[str],
    ) -> list[str]:
        """Return the texts that continue these token sequences; see :meth:`generate` for the arguments.

        Args:
            sequences: The tokens of each prompt.
            max_new_tokens: Maximum number of tokens of a continuation.
            stop: Texts before which a continuation ends.
            sampling: The temperature and the seed, by name.
            choices: The texts that are allowed; empty for all.
        """
        raise NotImplementedError


def _longest_texts(prompts: Sequence[Prompt], count: int) -> list[str]:
    """Return the longest distinct texts of prompts, the longest last. No other prompt is kept in memory.

    Args:
        prompts: The prompts; for a noisy channel, for each query a tuple of texts.
        count: The number of texts.
    """
    longest: list[str] = []
    for prompt in prompts:
        texts = [prompt] if isinstance(prompt, str) else prompt
        for text in texts:
            if text not in longest:
                longest.append(text)
                longest.sort(key=lambda kept: (len(kept), kept))
                del longest[:-count]
    return longest


def _check_same_kind(prompts: Sequence[Any]) -> None:
    """Refuse a mixture of texts and of lists of texts, which are the prompts of a noisy channel.

    Raises:
        PromptError: A prompt is of another kind than the first one. The error has its index.
    """
    for index, prompt in enumerate(prompts):
        is_text = isinstance(prompt, str)
        first_is_text = isinstance(prompts[0], str)
        if is_text != first_is_text:
            raise PromptError(f"prompt {index} is a {type(prompt).__name__}, prompt 0 is not", index)


class PromptReader(TokenKernel):
    """What reads prompts as a kernel does, without the weights of its model."""

    def __init__(self, tokenizer: Any, config: Any, options: KernelOptions, least_new_tokens: int = 0) -> None:
        """Make a reader of the prompts of a kernel.

        Args:
            tokenizer: The tokenizer.
            config: The configuration of the model (of ``transformers``), which states its length limit.
            options: The options of the kernel.
            least_new_tokens: The kernel generates at least this number of tokens after each prompt, also where it only
                scores the prompt. The length limit of a prompt is smaller by this number.
        """
        self.tokenizer = tokenizer
        self.options = options
        self._config = config
        self._least_new_tokens = least_new_tokens

    def limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt; ``None`` if the model has no limit."""
        return self.format.limit(self._config)

    def _limit(self) -> int | None:
        """Return the maximum number of tokens of a prompt; ``None`` if the model has no limit."""
        return self.limit()
