"""Continuing token sequences by a language model, with the most probable tokens or with samples.

All prompts of a packed row are continued together: after each step, the row in the cache has grown by one position for
each prompt that is not finished, and each new position attends to its own prompt and its own continuation only. Models
without a cache that can be used so compute the sequences again at every step.

A sample is the token with the largest sum of logit / temperature and Gumbel noise, which has the probabilities of the
softmax of logit / temperature. The noise depends on the seed, the tokens of the prompt and the step only, so a text
does not depend on the other prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner, Tokens
from StaICC.kernels.huggingface.token_trie import TrieRow
from StaICC.kernels.protocol import stable_seed

GENERATION_COST = 1000.0
"""Cost of one more row in generation, in positions: every row has its own steps."""


class Ending:
    """Decides when a continuation is complete."""

    def __init__(self, tokenizer: Any, end_tokens: Sequence[int], stop: Sequence[str]) -> None:
        """Set what ends a text.

        Args:
            tokenizer: The tokenizer.
            end_tokens: Tokens that end a text; they are not part of it.
            stop: Strings before which the text ends.
        """
        self.tokenizer = tokenizer
        self.end_tokens = frozenset(end_tokens)
        self.stop = tuple(stop)

    def _decoded(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a continuation, cut before the first end token and the first stop string.

        A last character of which some bytes are missing is left out, with its tokens, as vLLM does.
        """
        size = len(tokens)
        for index, token in enumerate(tokens):
            if token in self.end_tokens:
                size = index
                break
        text = self._decoded(tokens[:size])
        while text.endswith("\ufffd"):
            size -= 1
            text = self._decoded(tokens[:size])

        end = len(text)
        for stop_string in self.stop:
            if stop_string in text:
                end = min(end, text.index(stop_string))
        return text[:end]

    def complete(self, tokens: Sequence[int]) -> bool:
        """Whether nothing that follows can change the text."""
        if tokens[-1] in self.end_tokens:
            return True
        if not self.stop:
            return False
        text = self._decoded(tokens)
        return any(stop_string in text for stop_string in self.stop)


class _GrowingRow:
    """A row in the cache, which grows by one position for each sequence that is continued.

    A row has the tokens of several sequences, each token that they share at their beginning once. The masks of
    attention keep the sequences apart: a position attends to those of its own sequence only.
    """

    def __init__(self, runner: BatchRunner, row: TrieRow, most_new: int) -> None:
        """Compute the prefix of a row, and make the masks of its sequences; the row itself is computed later.

        Args:
            runner: Runs the model.
            row: The row. Of each of its sequences, the state at the last position is wanted.
            most_new: Maximum number of new positions of each sequence.
        """
        self._forward = runner.forward
        self._row = row
        self._cache = runner.cached(row.prefix)
        self._length = len(row.prefix) + len(row.tokens)
        """Positions in the cache, once the row is computed."""
        self._last_index: dict[int, int] = {}
        """By the number of a sequence, the index of its last position in the row."""
        for number, wanted_indexes in row.picks.items():
            (self._last_index[number],) = wanted_indexes

        # The cache has the prefix, then the row, then the new positions of all sequences.
        may_attend_in_row = self._forward.tree_mask(row.subtree_ends()).cpu()  # (attending position, attended position)
        all_of_prefix = torch.ones(len(row.prefix)).bool()
        no_new_position = torch.zeros(len(row.picks) * most_new).bool()
        self._may_attend: dict[int, Any] = {}
        """By the number of a sequence, for each position of the cache whether its next position may attend to it."""
        for number, last_index in self._last_index.items():
            # A new position attends to the same positions of the row as the last one of its sequence.
            self._may_attend[number] = torch.cat([all_of_prefix, may_attend_in_row[last_index], no_new_position])

    @property
    def numbers(self) -> list[int]:
        """The numbers of the sequences of the row."""
        return list(self._last_index)

    def first_logits(self) -> Any:
        """Compute the row, and return the logits after each sequence, (sequences, vocabulary)."""
        states = self._forward.padded([self._row], self._cache)
        last_indexes = list(self._last_index.values())
        return self._forward.logits(states[0, last_indexes])

    def logits_after(self, tokens: Mapping[int, int], depths: Sequence[int]) -> Any:
        """Add a token to some sequences, and return the logits after each of these, (sequences, vocabulary).

        Args:
            tokens: By the number of a sequence, its new token.
            depths: For each of these, the position number of the token in its sequence.
        """
        for number in tokens:
            new_position = self._length  # at the end of the cache
            self._may_attend[number][new_position] = True  # it attends to itself, and later ones attend to it
            self._length += 1
        may_attend = torch.stack([self._may_attend[number][: self._length] for number in tokens])
        mask = self._forward.additive(may_attend[None, None])  # for one row, and for all heads
        states = self._forward.call([list(tokens.values())], mask, [depths], self._cache)
        return self._forward.logits(states[0])


class _Continuations:
    """The continuations of some sequences.

    Sequences have numbers, from 0, in the order in which they are given.
    """

    def __init__(
        self,
        runner: BatchRunner,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        ending: Ending,
        temperature: float,
        seed: int,
    ) -> None:
        """Begin an empty continuation of each sequence; the arguments are those of :func:`generate`."""
        self._runner = runner
        self._sequences = sequences
        self._max_new_tokens = max_new_tokens
        self._ending = ending
        self._temperature = temperature
        self._seeds: list[int] = []
        """For each sequence, the seed of its samples."""
        if temperature:
            self._seeds = [stable_seed(seed, tuple(sequence)) for sequence in sequences]
        self.new_tokens: list[list[int]] = [[] for _ in sequences]
        """For each sequence, its new tokens so far."""

    def grow_rows(self) -> None:
        """Continue the sequences in rows that grow in the cache; in smaller ones if memory runs out."""
        self._runner.persist(len(self._sequences), self._continue_in_rows)

    def recompute(self) -> None:
        """Continue the sequences; all of each is computed again at every step."""
        numbers = list(range(len(self._sequences)))
        self._continue(numbers, self._recomputed_logits(numbers), self._recomputed_logits)

    def _continue_in_rows(self, numbers: list[int]) -> Iterator[int]:
        """Continue some sequences in rows, and yield the number of each one that is complete.

        Args:
            numbers: The numbers of the sequences.
        """
        runner = self._runner
        last_positions = [len(sequence) - 1 for sequence in self._sequences]
        for row in runner.plan(self._sequences, last_positions, numbers, runner.prefix_reuse, GENERATION_COST):
            self._continue_row(_GrowingRow(runner, row, self._max_new_tokens))
            yield from row.picks

    def _continue_row(self, row: _GrowingRow) -> None:
        """Continue all sequences of one row."""

        def logits_after(numbers: list[int]) -> Any:
            """Add the last new token of some sequences to the row, and return the logits after each of these."""
            last_tokens = {}
            depths = []
            for number in numbers:
                new_tokens = self.new_tokens[number]
                last_tokens[number] = new_tokens[-1]
                depths.append(len(self._sequences[number]) + len(new_tokens) - 1)
            return row.logits_after(last_tokens, depths)

        self._continue(row.numbers, row.first_logits(), logits_after)

    def _recomputed_logits(self, numbers: list[int]) -> Any:
        """Return the logits after some sequences and their new tokens, all of which are computed."""
        continued = [(*self._sequences[number], *self.new_tokens[number]) for number in numbers]
        return self._runner.forward.whole(self._runner.last(continued))

    def _continue(self, numbers: list[int], logits: Any, logits_after: Callable[[list[int]], Any]) -> None:
        """Continue some sequences, token by token, until each is complete or has the maximum number of new tokens.

        Args:
            numbers: The numbers of the sequences.
            logits: The logits after each sequence, (sequences, vocabulary), from which the first new tokens are chosen.
            logits_after: Gets the numbers of the sequences that are not complete, and returns the logits after the last
                new token of each.
        """
        for number in numbers:
            # An earlier attempt, in which memory ran out, may have left some.
            self.new_tokens[number] = []
        incomplete = numbers
        for step in range(self._max_new_tokens):
            if step > 0:
                logits = logits_after(incomplete)
            chosen_tokens = self._choose(incomplete, step, logits)
            for number, token in zip(incomplete, chosen_tokens, strict=True):
                self.new_tokens[number].append(token)
            incomplete = [number for number in incomplete if not self._ending.complete(self.new_tokens[number])]
            if not incomplete:
                return

    def _choose(self, numbers: Sequence[int], step: int, logits: Any) -> list[int]:
        """Return the next token of some sequences: the most probable one, or a sample at a temperature above 0.

        A sample is ``argmax(logit / temperature + g)`` over the tokens, with Gumbel noise ``g = -log(-log(u))`` for a
        uniform random number ``u`` of each token. Its probabilities are ``softmax(logits / temperature)`` (the
        Gumbel-max trick; Maddison, Tarlow and Minka 2014, section 2).

        Args:
            numbers: Their numbers.
            step: How many new tokens each has.
            logits: The logits after them, (sequences, vocabulary).
        """
        if self._temperature:
            vocabulary = logits.shape[-1]
            uniform = torch.stack([self._uniform_numbers(number, step, vocabulary) for number in numbers])
            gumbel_noise = -torch.log(-torch.log(uniform))
            logits = logits.double().cpu() / self._temperature + gumbel_noise
        tokens: list[int] = logits.argmax(-1).tolist()
        return tokens

    def _uniform_numbers(self, number: int, step: int, count: int) -> Any:
        """Return random numbers from 0 to 1 that depend on the seed, the sequence and the step only."""
        generator = torch.Generator().manual_seed(stable_seed(self._seeds[number], step))
        return torch.rand(count, generator=generator, dtype=torch.float64)


def generate(
    runner: BatchRunner,
    sequences: Sequence[Tokens],
    max_new_tokens: int,
    ending: Ending,
    temperature: float,
    seed: int,
) -> list[list[int]]:
    """Continue token sequences with the most probable tokens, or with samples.

    Args:
        runner: Runs the model.
        sequences: The sequences, none empty.
        max_new_tokens: Maximum number of new tokens for each.
        ending: When a continuation is complete.
        temperature: 0 for the most probable tokens.
        seed: Seed of the samples.

    Returns:
        New tokens of each sequence, in order.
    """
    forward = runner.forward
    kind_of_check = min(len(sequences), 2)  # 1 for a prompt alone, 2 for a batch, as in BatchRunner.run
    was_checked = forward.can.checked >= kind_of_check
    if forward.can.sharing and not was_checked:
        # Rows that grow in the cache are not compared with plain calls of the model. So some sequences are computed
        # before in an ordinary run, which is compared. It sets can.sharing to False if the two differ.
        runner.last(sequences[:4])
    longest = max(len(sequence) for sequence in sequences) + max_new_tokens
    continuations = _Continuations(runner, sequences, max_new_tokens, ending, temperature, seed)
    if forward.can.sharing and longest <= forward.limits.sharing:
        continuations.grow_rows()
    else:
        continuations.recompute()
    return continuations.new_tokens
