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
import logging
import math
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from StaICC.errors import ArgumentError, PromptError
from StaICC.inference.workload import PROBABILITIES, Held, Workload
from StaICC.kernels.huggingface.base import KernelBase
from StaICC.kernels.huggingface.batching import Counts
from StaICC.kernels.huggingface.foresight import Foresight
from StaICC.kernels.huggingface.generation import Choice, Ending, generate_tokens
from StaICC.kernels.huggingface.label_tokens import (
    LabelIssue,
    check_labels,
    continuations,
)
from StaICC.kernels.huggingface.options import Variant, choose
from StaICC.kernels.huggingface.prompt_tokens import Reading, encode, length_limit
from StaICC.kernels.huggingface.readout import LastPosition, TokenLogProbabilities, last_positions
from StaICC.kernels.huggingface.validation import compute_checked
from StaICC.kernels.label_scores import LabelScores, RunReport, softmax
from StaICC.kernels.noisy_channel import channel_scores, check_channel
from StaICC.kernels.protocol import check_generation
from StaICC.prompting import Prompt

__all__ = ["CausalLMKernel", "LabelScores", "RunReport"]

_NEAR_LIMIT = 0.9
_MEASURED = 3  # the longest texts; the one with most tokens is nearly always among them

TOKENS_AT_ONCE = 20_000_000
"""Maximum number of tokens held at once where every label is joined to every prompt."""

_log = logging.getLogger(__name__)
_logged: weakref.WeakKeyDictionary[Any, set[tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""Label spaces whose issues were logged already."""
_locking = threading.Lock()
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
"""One for each model: several kernels, each in its thread, may share one."""


def _report(counts: Counts, reading: Reading | None = None) -> RunReport:
    values = {name: getattr(counts, name) for name in counts.__slots__}
    return RunReport(**values, dropped={} if reading is None else reading.dropped)


def _totals(tokens: Sequence[int], logits: Sequence[Sequence[float]], log_mass: Sequence[float]) -> Iterator[float]:
    """Return the logarithm of the sum over the vocabulary, from the labels' logits and their share of it."""
    distinct = list({token: place for place, token in enumerate(tokens)}.values())
    for row, mass in zip(logits, log_mass, strict=True):
        top = max(row)
        yield top + math.log(math.fsum(math.exp(row[place] - top) for place in distinct)) - mass


@contextlib.contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Switch the model and all its modules to evaluation mode within the block; other kernels of the model wait."""
    with _locking:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        training = [module for module in model.modules() if module.training]
        for module in training:
            module.training = False
        try:
            yield
        finally:
            for module in training:
                module.training = True


class CausalLMKernel(KernelBase):
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

    identity = KernelBase.identity  # of this class: what it keeps in its attributes is covered

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
        check_labels(label_space, self.options.label_scoring)
        if isinstance(prompts, str):
            raise ArgumentError("prompts must be a list of strings; call the kernel itself with one prompt")
        for index, prompt in enumerate(prompts):
            if isinstance(prompt, str) is not isinstance(prompts[0], str):
                raise PromptError(f"prompt {index} is a {type(prompt).__name__}, prompt 0 is not", index)
        if not prompts:
            found = LabelScores([], [], [], (), _report(Counts()))
        elif isinstance(prompts[0], str):
            with self._running(prompts):
                found = (
                    self._full(prompts, label_space)
                    if self.options.label_scoring == "full"
                    else self._single(prompts, label_space)
                )
        else:
            with self._running(prompts):
                found = self._channel(prompts, label_space, self.options.variant)
        self.last_scores = found
        return found

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
        check_labels(label_space, self.options.label_scoring)
        with self._running(prompts):
            self.last_scores = self._channel(
                prompts, label_space, choose("variant", variant or self.options.variant, Variant)
            )
        return self.last_scores.probabilities

    @contextlib.contextmanager
    def _running(self, prompts: Sequence[Any]) -> Iterator[None]:
        """Hold the kernel's lock, in evaluation mode, after a check that the prompts are a list."""
        if isinstance(prompts, str) or not len(prompts):
            raise ArgumentError(f"prompts must be a non-empty list, not {prompts!r}")
        with self._lock, _evaluating(self.model), self._checking_prefix():
            yield

    def _audit(self, label_space: Sequence[str], prompt: str) -> tuple[LabelIssue, ...]:
        issues = self.format.audit(label_space, prompt)
        logged = _logged.setdefault(self.tokenizer, set())
        if (key := (self.options.label_scoring, *label_space)) not in logged:
            logged.add(key)
            for issue in issues:
                _log.log(logging.WARNING if issue.fatal else logging.INFO, "label tokens: %s", issue.message)
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
        limit = length_limit(self.model.config, self.tokenizer, self.options.max_length)
        texts = [text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)]
        longest = self.rendered(sorted(set(texts), key=len)[-_MEASURED:])
        size = max(map(len, encode(self.tokenizer, longest, self.format.special)), default=0)
        if limit is not None and size > _NEAR_LIMIT * limit:
            found.append(
                f"the longest prompt has {size} tokens, and the model reads {limit} at most. Longer prompts fail; use "
                "a smaller k or a model with a longer context"
            )
        return found

    def _read(self, queries: Sequence[Sequence[str]], labels: Sequence[str] = (), more: int = 0) -> Reading:
        """Queries, each a list of prompts, as tokens, with room for labels or for some more tokens."""
        limit = length_limit(self.model.config, self.tokenizer, self.options.max_length)
        reader = self.format.reader(None if limit is None else limit - more)
        return reader.read(queries, labels and self.format.labels(labels))

    def _single(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Labels scored by one token each."""
        reading = self._read([[prompt] for prompt in prompts])
        issues = self._audit(label_space, reading.texts[0][0])
        tokens, shared = self.format.deciding(label_space)
        reader, counts = self._last(reading.before(shared))
        logits, log_mass = reader.labels(tokens, self.options.label_mass)
        mass = None if log_mass is None else [min(1.0, math.exp(value)) for value in log_mass]
        return LabelScores([softmax(row) for row in logits], logits, mass, issues, _report(counts, reading))

    def _full(self, prompts: Sequence[str], label_space: Sequence[str]) -> LabelScores:
        """Labels scored by all their tokens in context."""
        reading = self._read([[prompt] for prompt in prompts], label_space)
        texts = [text for (text,) in reading.texts]
        issues = self._audit(label_space, texts[0])
        longest = max(len(row) for (row,) in reading.ids)
        step = max(1, TOKENS_AT_ONCE // (longest * len(label_space)))
        found: list[list[float]] = []
        counts = Counts()
        for first in range(0, len(texts), step):
            sequences: list[tuple[int, ...]] = []
            starts: list[int] = []
            joined = continuations(
                self.tokenizer, texts[first : first + step], self.format.labels(label_space), self.format.special
            )
            for index, (given, rows) in enumerate(joined, start=first):
                if given < 1:
                    problem = f"prompt {index} has no token that all labels follow; begin it with some text"
                    raise PromptError(problem, index)
                sequences.extend(rows)
                starts.extend([given - 1] * len(rows))
            some, more = self._log_probabilities(sequences, starts)
            found.extend(some)
            counts.add(more)
        scores, mass = [], []
        for index in range(len(texts)):
            logs = found[index * len(label_space) : (index + 1) * len(label_space)]
            if not all(logs):
                raise PromptError(f"a label adds no token to prompt {index}, so it cannot be scored", index)
            sums = [math.fsum(row) for row in logs]
            means = [total / len(row) for total, row in zip(sums, logs, strict=True)]
            scores.append(means if self.options.label_normalisation == "mean" else sums)
            mass.append(math.fsum(map(math.exp, sums)))
        probabilities = [softmax(row) for row in scores]
        return LabelScores(
            probabilities, scores, mass if self.options.label_mass else None, issues, _report(counts, reading)
        )

    def _computed(self, sequences: Sequence[tuple[int, ...]], starts: Sequence[int]) -> Sequence[tuple[int, ...]]:
        """What is computed of sequences: the last token predicts nothing that is asked for."""
        if self.runner().forward.can.plain:
            return sequences
        return [row[: max(len(row) - 1, start + 1)] for row, start in zip(sequences, starts, strict=True)]

    def workload(
        self,
        prompts: Sequence[Any],
        label_space: Sequence[str],
        new_tokens: int = 0,
        features: Collection[str] = PROBABILITIES,
        *,
        held: Held | None = None,
    ) -> Workload:
        """Return the work of prompts that are predicted in one call; a prompt that is too long is counted in full.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels.
            new_tokens: Maximum number of tokens to generate for each prompt; 0 computes the features.
            features: What is computed of each prompt, such as those of :attr:`joint_features`.
            held: What is cached after the prompts before; None for what is cached now.
        """
        limit = length_limit(self.model.config, self.tokenizer, self.options.max_length)
        free = -(10**9) if self.options.on_too_long == "error" else 0  # no limit, where none is applied
        scores = not new_tokens and not {"probabilities", "log_probabilities"}.isdisjoint(features)
        vectors = not {"hidden", "vocabulary"}.isdisjoint(features)
        found: list[tuple[Sequence[tuple[int, ...]], Sequence[int] | None]] = []
        with self._running(prompts):
            if not isinstance(prompts[0], str):
                found.append(self._channel_sequences(prompts, label_space, self.options.variant, free)[1:])
            elif scores and self.options.label_scoring == "full":
                texts = [text for (text,) in self._read([[one] for one in prompts], label_space, free).texts]
                joined = continuations(self.tokenizer, texts, self.format.labels(label_space), self.format.special)
                rows = [row for _, some in joined for row in some]
                found.append((rows, [given - 1 for given, some in joined for _ in some]))
            if not found or vectors:
                shared = self.format.deciding(label_space)[1] if scores and not found else 0
                reading = self._read([[one] for one in prompts], more=free + new_tokens)
                found.append((reading.before(shared), [0] * len(prompts) if "losses" in features else None))
                if shared and vectors:
                    found.append((reading.before(), None))
            tokens = output = longest = 0
            foresight = Foresight(self.runner(), held)
            for whole, starts in found:
                computed = whole if starts is None else self._computed(whole, starts)
                if new_tokens:
                    foresight.generate(computed, new_tokens)
                else:
                    foresight.run(computed, starts, whole)
                longest = max(longest, *map(len, whole)) + new_tokens
                tokens, output = tokens + sum(map(len, computed)), output + new_tokens * len(whole)
        seen = foresight
        return Workload(tokens, seen.positions, output, longest, limit, seen.calls, seen.effort, Held(seen.prefix))

    def _log_probabilities(
        self, sequences: Sequence[tuple[int, ...]], starts: Sequence[int]
    ) -> tuple[list[list[float]], Counts]:
        """Log-probability of each token after position ``start``, for each sequence."""
        runner = self.runner()

        def compute() -> tuple[TokenLogProbabilities, Counts]:
            reader = TokenLogProbabilities(runner.forward, sequences, starts)
            return reader, runner.run(self._computed(sequences, starts), starts, reader.read)

        reader, counts = compute_checked(runner, sequences, compute)
        return reader.found, counts

    def _channel_sequences(
        self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str, more: int = 0
    ) -> tuple[Reading, list[tuple[int, ...]], list[int]]:
        """The token sequences of noisy-channel prompts, and the position before the first token that is scored."""
        reading = self._read(prompts, more=more)
        sequences = [ids for rows in reading.ids for ids in rows]
        starts = self.format.channel_starts(reading, label_space, variant)
        return reading, sequences, starts

    def _channel(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str], variant: str) -> LabelScores:
        """The text scored given each label."""
        self.format.refuse_chat("the noisy channel")
        for index, query in enumerate(prompts):
            check_channel(query, label_space, index)
        reading, sequences, starts = self._channel_sequences(prompts, label_space, variant)
        found, counts = self._log_probabilities(sequences, starts)
        scores = channel_scores(found, len(label_space), variant == "0.1.1")
        return LabelScores([softmax(row) for row in scores], scores, None, (), _report(counts, reading))

    # What other methods are built on

    def _last(self, ids: Sequence[tuple[int, ...]]) -> tuple[LastPosition, Counts]:
        """The last position of each sequence."""
        runner = self.runner()
        return compute_checked(runner, ids, lambda: last_positions(runner, ids))

    def _last_of(self, prompts: Sequence[str], shared: int = 0) -> LastPosition:
        return self._last(self._read([[prompt] for prompt in prompts]).before(shared))[0]

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        """Last hidden state (after the final normalisation) at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, width).
        """
        with self._running(prompts):
            return self._last_of(prompts).states().numpy()

    def full_vocabulary_logits(self, prompts: Sequence[str]) -> Any:
        """Logits of the whole vocabulary at the last position of each prompt.

        Args:
            prompts: The prompts, at least one.

        Returns:
            A float32 NumPy array of shape (prompts, vocabulary).
        """
        with self._running(prompts):
            return self._last_of(prompts).whole().numpy()

    def score_in_detail(self, prompts: Sequence[str], label_space: Sequence[str]) -> tuple[list[list[float]], Any, Any]:
        """Probabilities of the labels, whole logits and hidden states, all from one run.

        Args:
            prompts: The prompts, at least one.
            label_space: The labels, scored by one token each.

        Returns:
            A list of probabilities for each prompt; a float32 array (prompts, vocabulary); a float32 array (prompts,
            width).
        """
        with self._running(prompts):
            tokens, shared = self.format.deciding(label_space)
            reader = self._last_of(prompts, shared)
            logits = reader.whole()
            rows = [softmax(row) for row in logits[:, tokens].tolist()]
            return rows, logits.numpy(), reader.states().numpy()

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
        found: dict[str, Any] = {}
        scores = {"probabilities", "log_probabilities"} & set(wanted)
        if scores and self.options.label_scoring == "full":
            full = self.score(prompts, label_space)
            found = {"probabilities": full.probabilities, "log_probabilities": full.log_scores}
        if set(wanted) <= set(found):
            return found
        with self._running(prompts):
            reading = self._read([[prompt] for prompt in prompts])
            tokens, shared = self.format.deciding(label_space)
            reader, _ = self._last(reading.before(shared))
            if scores and not found:
                self._audit(label_space, reading.texts[0][0])
                logits, log_mass = reader.labels(tokens, True)
                assert log_mass is not None
                found["probabilities"] = [softmax(row) for row in logits]
                found["log_probabilities"] = [
                    [value - total for value in row]
                    for row, total in zip(logits, _totals(tokens, logits, log_mass), strict=True)
                ]
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
        check_generation(max_new_tokens, stop, temperature)
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
