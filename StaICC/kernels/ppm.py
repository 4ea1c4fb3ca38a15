"""A model for every machine: prediction by partial matching over the characters of the prompt.

The kernel needs no weights, no packages and no random numbers. It reads the prompt and says how likely each label is
to come next, so the whole benchmark can be run, shown and tested anywhere. It is a floor, no rival of a language
model: all it has to go on is which labels followed the same words earlier in this prompt, and how often.

Prediction by partial matching (PPM) codes a text character by character. To predict the next one it takes the longest
context (the last characters read, at most ``order`` of them) that occurred before, and counts what followed there:
``n`` characters, ``q`` of them different. One that followed ``x`` times gets a share of the probability. A share is
kept for the *escape*: none of these comes next, so ask the context that is one character shorter, where those just
refused are left out of ``n`` (exclusion). After the empty context, all characters of the alphabet that are not yet
refused are equally likely. The escape methods differ in the shares (given here before anything is excluded):

======  ==================  ===============  ================================
method  share of character  share of escape  source
======  ==================  ===============  ================================
``A``   x / (n + 1)         1 / (n + 1)      Cleary and Witten 1984
``C``   x / (n + q)         q / (n + q)      Moffat 1990: "PPMC"
``D``   (2x - 1) / 2n       q / 2n           Howard 1993
======  ==================  ===============  ================================

The alphabet is the set of characters of the prompt and the labels. Where no character is left that an escape could
lead to, the escape has no share. So every distribution sums to one.

How a row of probabilities comes about:

- *Plain prompts.* ``log P(label | prompt)`` is what coding the label costs once the prompt has been read, by the chain
  rule over its characters. The model goes on learning while it codes the label, as PPM does. A label that begins
  another one (``pos`` and ``positive``) would always win against it, so each label represents the event that it is
  the *longest* label with which the continuation begins. These events exclude each other in every label space, and
  nothing has to be assumed about what ends a label. The row is normalised over them.
  Every character of a label costs something, even one that nothing competes with, so a rare label loses
  more by being long than a frequent one.
- *Noisy-channel prompts* (a list, one prompt per label). The score is ``log P(what follows the label | everything up to
  and with the label)``, normalised over the labels: a uniform prior.

How the defaults were chosen: orders 2 to 20 with methods A, C and D, on prompts with 1, 4 and 8 demonstrations whose
queries are rows of the calibration sets. No test row was looked at. Orders 4 to 16 agree within 0.2 points of mean
accuracy; method C with order 12 is among the best in accuracy and in true-label likelihood. Three variants were tried
there and left out. Counting a follower in the longest matching context only (update exclusion) loses about 3 points.
Blending all orders gains nothing. Weighing each demonstration by how well it predicts the query gains 1 point with 4
demonstrations and 3 with 8, but it has to know where a demonstration begins and ends, and takes ten times as long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, ClassVar, Final, NamedTuple

from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity
from StaICC.kernels.protocol import Capability, after_label, check_channel, checked_labels, label_probabilities
from StaICC.kernels.registry import option_types, split_options

_VERSION: Final = 1  # part of the identity; raise it with any change that can move a probability
_ESCAPE_METHODS: Final = ("A", "C", "D")


def _followers(text: str, context: str, begin: int, end: int, known: Mapping[str, int]) -> Mapping[str, int]:
    """Return how often each character follows a context: the known counts, and those of ``text[begin:end]``.

    Args:
        text: The text.
        context: The characters before a follower.
        begin: The first position of a follower that is counted.
        end: The position after the last one.
        known: Counts of followers before ``begin``.

    Example:
        >>> _followers("abacab", "a", 0, 6, {})
        {'b': 2, 'c': 1}
    """
    if begin >= end:
        return known
    if not context:
        # Every character follows the empty context. Counter counts in C.
        all_counts = Counter(known)
        all_counts.update(text[begin:end])
        return all_counts
    length = len(context)
    search_end = end - 1  # an occurrence of the context leaves room for the follower
    occurrence = text.find(context, max(0, begin - length), search_end)
    if occurrence < 0:
        return known
    counts = dict(known)
    while occurrence >= 0:
        follower = text[occurrence + length]
        counts[follower] = counts.get(follower, 0) + 1
        occurrence = text.find(context, occurrence + 1, search_end)
    return counts


class _Prediction(NamedTuple):
    """The predicted probability of a character."""

    probability: float
    matched_length: int
    """The length of the longest context that occurred before; -1 if not even the empty one has followers."""


class _Reader:
    """A partial-matching model that has read a history; it lives as long as one call of the kernel.

    There is no tree of contexts: only those that a continuation needs are looked up. The counts of a context in the
    history are remembered, because all labels need the same contexts.
    """

    __slots__ = ("_alphabet_size", "_counts_of_history", "_escape", "_history", "_order")

    def __init__(self, kernel: PPMKernel, history: str, alphabet_size: int) -> None:
        """Keep the history; its contexts are counted when they are needed.

        Args:
            kernel: Has the length of the longest context (``order``) and the escape method (``escape``).
            history: The text that the model has read.
            alphabet_size: The number of different characters that may follow.
        """
        self._order = kernel.order
        self._escape = kernel.escape
        self._history = history
        self._alphabet_size = alphabet_size
        self._counts_of_history: dict[str, Mapping[str, int]] = {}
        """The counts of followers in the history, by context."""

    def log_probability(self, scored_text: str, text_before: str = "") -> float:
        """Return ``log P(scored_text | history + text_before)``; the model goes on learning from what it reads."""
        text = self._history + text_before + scored_text
        scored_start = len(self._history) + len(text_before)
        log_probabilities = []
        longest_context = self._order
        for position in range(scored_start, len(text)):
            prediction = self._predict(text, position, longest_context)
            log_probabilities.append(math.log(prediction.probability))
            # A match that is longer by two or more would have been a longer match one character ago.
            longest_context = min(self._order, prediction.matched_length + 1)
        return math.fsum(log_probabilities)

    def _predict(self, text: str, position: int, longest_context: int) -> _Prediction:
        """Return ``P(text[position] | text[:position])`` by prediction by partial matching.

        The contexts are visited from the longest to the empty one, until one was followed by the character before::

            P(character) = product of the shares of the escape in the contexts visited before
                           * share of the character in this context

        A share is a weight divided by the sum of all weights in the context (:meth:`_total_weight`,
        :meth:`_escape_weight`). Characters that followed a longer context are excluded from the shorter ones: the
        character is none of them, or the longer context would have predicted it.

        Args:
            text: A text that begins with the history.
            position: The position of the predicted character.
            longest_context: The length of the longest context to visit. Longer ones are known not to occur before.
        """
        character = text[position]
        probability_of_escapes = 1.0
        excluded: set[str] = set()
        matched_length = -1
        for length in range(min(longest_context, position), -1, -1):
            all_counts = self._counts(text, position, length)
            if not all_counts:
                continue
            matched_length = max(matched_length, length)
            counts = all_counts
            if excluded:
                counts = {follower: count for follower, count in all_counts.items() if follower not in excluded}
            total_weight = self._total_weight(counts)
            escape_weight = self._escape_weight(len(all_counts))
            if len(excluded) + len(counts) == self._alphabet_size:
                escape_weight = 0  # no character is left that an escape could lead to

            count = counts.get(character, 0)
            if count > 0:
                weight = 2 * count - 1 if self._escape == "D" else count
                probability = probability_of_escapes * weight / (total_weight + escape_weight)
                return _Prediction(probability, matched_length)
            probability_of_escapes *= escape_weight / (total_weight + escape_weight)
            excluded.update(counts)
        # No context predicts the character: all that are not excluded are equally likely.
        probability = probability_of_escapes / (self._alphabet_size - len(excluded))
        return _Prediction(probability, matched_length)

    def _total_weight(self, counts: Mapping[str, int]) -> int:
        """Return the sum of the weights of characters: one that followed x times has x, or 2x - 1 with method D."""
        total_count = sum(counts.values())
        if self._escape == "D":
            return 2 * total_count - len(counts)
        return total_count

    def _escape_weight(self, distinct_followers: int) -> int:
        """Return the weight of the escape: 1 with method A, or the number of distinct characters that followed."""
        if self._escape == "A":
            return 1
        return distinct_followers

    def _counts(self, text: str, position: int, length: int) -> Mapping[str, int]:
        """Return how often each character followed the context: the last ``length`` characters of ``text[:position]``.

        The text begins with the history. All occurrences of the context before ``position`` are counted; those in the
        history are counted once for all texts.
        """
        context = text[position - length : position]
        history_end = len(self._history)
        counts = self._counts_of_history.get(context)
        if counts is None:
            counts = _followers(self._history, context, begin=0, end=history_end, known={})
            self._counts_of_history[context] = counts
        return _followers(text, context, begin=history_end, end=position, known=counts)


def _as_longest_label(begins_with: Mapping[str, float]) -> dict[str, float]:
    """Return the log-probability of each label to be the longest one with which the continuation begins.

    P(label is the longest) = P(continuation begins with label) - sum of P(continuation begins with longer label), over
    the shortest labels that begin with this one.

    Args:
        begins_with: By label, ``log P(continuation begins with label)``.
    """
    log_probabilities = {}
    longer_labels = _next_longer_labels(begins_with)
    for label, log_probability in begins_with.items():
        # The share of the probability that longer labels take.
        lost_share = math.fsum(math.exp(begins_with[longer] - log_probability) for longer in longer_labels[label])
        if lost_share < 1:
            log_probabilities[label] = log_probability + math.log1p(-lost_share)
        else:
            log_probabilities[label] = -math.inf
    return log_probabilities


def _next_longer_labels(labels: Iterable[str]) -> dict[str, list[str]]:
    """Return for each label the labels that begin with it, without those that begin with a longer one of these.

    Example:
        >>> _next_longer_labels(["a", "ab", "abc", "ad"])
        {'a': ['ab', 'ad'], 'ab': ['abc'], 'abc': [], 'ad': []}
    """
    longer_labels: dict[str, list[str]] = {label: [] for label in labels}
    # In sorted order, a label follows those with which it begins. Each of these begins the next one.
    beginnings: list[str] = []
    for label in sorted(longer_labels):
        while beginnings and not label.startswith(beginnings[-1]):
            beginnings.pop()
        if beginnings:
            longer_labels[beginnings[-1]].append(label)
        beginnings.append(label)
    return longer_labels


@dataclass(frozen=True, slots=True)
class PPMKernel:
    r"""An inference function that predicts labels by partial matching; see the module's text for the model.

    Instances are immutable, hold no state between calls, compare by their settings and can be pickled, so one can be
    sent to worker processes and used from several threads.

    Args:
        order: Length of the longest context, in characters; 0 or more.
        escape: The escape method: ``"A"``, ``"C"`` or ``"D"``.

    Raises:
        ArgumentError: If an argument has no meaning.

    Example:
        >>> kernel = PPMKernel()
        >>> prompt = "dull . -> bad\nfun ! -> good\ngreat ! -> good\nlovely ! -> "
        >>> [round(p, 3) for p in kernel(prompt=prompt, label_space=["bad", "good"])]
        [0.123, 0.877]
        >>> dict(kernel.identity().settings)
        {'escape': 'C', 'order': '12'}
    """

    order: int = 12
    """Length of the longest context, in characters."""

    escape: str = "C"
    """Escape method: ``"A"``, ``"C"`` or ``"D"``."""

    @classmethod
    def from_spec(cls, spec: str, **options: Any) -> PPMKernel:
        """Make the kernel that :func:`StaICC.load_kernel` names ``"ppm"``.

        Args:
            spec: ``"ppm"``, with options behind it if need be: ``"ppm;order=8"``.
            **options: As for the class.

        Raises:
            ArgumentError: The text has an argument, or an option is given twice.
            UnknownNameError: There is no such option.
        """
        name, options = split_options(spec, option_types(cls), given=options)
        if name != "ppm":
            raise ArgumentError(f"the kernel 'ppm' takes no argument: got {spec!r}, expected 'ppm'")
        return cls(**options)

    def __post_init__(self) -> None:
        """Refuse a length of contexts that is no integer from 0 on, and an unknown escape method.

        Raises:
            ArgumentError: An argument is refused.
        """
        order = validate_integer("order, the longest context in characters,", self.order, 0)
        object.__setattr__(self, "order", order)
        if self.escape not in _ESCAPE_METHODS:
            raise ArgumentError(f"there is no escape method {self.escape!r}; there are: {', '.join(_ESCAPE_METHODS)}")

    capabilities: ClassVar[Any] = frozenset({Capability.LABEL_SCORES, Capability.NOISY_CHANNEL, Capability.BATCH})
    """Label scores of plain and of noisy-channel prompts, also in batches."""

    def identity(self) -> Identity:
        """Return the algorithm, its version, and the arguments: kernels with one identity return the same numbers."""
        who = {"model": "ppm", "algorithm": f"ppm/{_VERSION}"}
        return Identity(who, {"escape": self.escape, "order": str(self.order)})

    def __call__(self, prompt: str | Sequence[str], label_space: Sequence[str]) -> list[float]:
        """Return the probability of each label.

        Args:
            prompt: The prompt, which ends where the label is to come; or, for the noisy channel, one prompt per
                label, in the order of the label space.
            label_space: The labels. One that is listed twice shares its probability evenly.

        Returns:
            One probability per label, in the order of the label space; they sum to 1.

        Raises:
            ArgumentError: If the prompt is neither a text nor one text per label, or the label space is not a list of
                at least one text.
        """
        return self._row(prompt, checked_labels(label_space), 0)

    def batch(self, prompts: Sequence[str] | Sequence[Sequence[str]], label_space: Sequence[str]) -> list[list[float]]:
        """Return one row of probabilities per prompt: the same rows as single calls give.

        Args:
            prompts: Prompts, each as for a single call.
            label_space: The labels, the same for all prompts.

        Returns:
            The rows, in the order of the prompts.

        Raises:
            ArgumentError: If ``prompts`` is a single text, or any prompt or the label space is refused.
        """
        if isinstance(prompts, str) or not isinstance(prompts, Iterable):
            raise ArgumentError(f"prompts: got {prompts!r:.80}, expected a list. Call the kernel for a single prompt")
        labels = checked_labels(label_space)
        return [self._row(prompt, labels, index) for index, prompt in enumerate(prompts)]

    def log_probability(self, text: str, history: str = "", alphabet: Iterable[str] = ()) -> float:
        """Return the log-probability of a text after a history.

        Args:
            text: What is to be predicted.
            history: What the model has read before.
            alphabet: Characters that might also have come; those of text and history always count.

        Returns:
            ``log P(text | history)``, natural logarithm; 0 for the empty text.

        Example:
            >>> round(math.exp(PPMKernel(order=1).log_probability("b", "ababa")), 3)
            0.667
        """
        reader = _Reader(self, history, alphabet_size=len({*text, *history, *alphabet}))
        return reader.log_probability(text)

    def _row(self, prompt: str | Sequence[str], labels: Sequence[str], index: int) -> list[float]:
        """Return the probabilities of the labels for one prompt, or for the prompts of a noisy channel.

        Args:
            prompt: The prompt, or one prompt for each label.
            labels: The labels.
            index: The number of the prompt, for messages.
        """
        if isinstance(prompt, str):
            return self._plain_row(prompt, labels)
        check_channel(prompt, labels, index)
        return self._channel_row(prompt, labels)

    def _plain_row(self, prompt: str, labels: Sequence[str]) -> list[float]:
        """Return the probability of each label to come next after a prompt.

        A label scores ``log P(it is the longest label with which the continuation of the prompt begins)``.
        """
        alphabet = set(prompt).union(*labels)
        reader = _Reader(self, prompt, alphabet_size=len(alphabet))
        occurrences = Counter(labels)
        begins_with = {label: reader.log_probability(label) for label in occurrences}
        log_probabilities = _as_longest_label(begins_with)
        scores = []
        for label in labels:
            # A label that is listed twice shares its probability evenly.
            scores.append(log_probabilities[label] - math.log(occurrences[label]))
        return label_probabilities(scores)

    def _channel_row(self, prompts: Sequence[str], labels: Sequence[str]) -> list[float]:
        """Return the probability of each label, from its prompt of a noisy channel.

        The score of a label is ``log P(text after the label | text up to the label's end)`` in its prompt.

        Args:
            prompts: For each label, a prompt that contains it. The prompts differ in the label only.
            labels: The labels.
        """
        label_ends = after_label(prompts, labels)
        # The history is what all prompts begin with, which is read once. It ends before the text that is scored.
        common_beginning = commonprefix(list(prompts))  # noqa: RUF071 - characters are meant
        history = common_beginning[: min(label_ends)]
        alphabet = set().union(*prompts)
        reader = _Reader(self, history, alphabet_size=len(alphabet))
        scores = []
        for prompt, label_end in zip(prompts, label_ends, strict=True):
            text_before = prompt[len(history) : label_end]
            text_after_label = prompt[label_end:]
            scores.append(reader.log_probability(text_after_label, text_before))
        return label_probabilities(scores)


ppm_inference: Final = PPMKernel()
"""The kernel with its default settings: ``f(prompt, label_space)``, ``f.batch`` and ``f.identity``."""
