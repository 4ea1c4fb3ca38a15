"""Continuing token sequences by a language model, with the most probable tokens or with samples.

All prompts of a packed row are continued together: with each new token, the row in the cache grows by one position for
each prompt that is not finished, and each new position attends to its own prompt and its own continuation only. Models
without a cache that can be used so compute the sequences again for each new token.

A sample is the token with the largest sum of logit / temperature and Gumbel noise, which has the probabilities of the
softmax of logit / temperature. The noise depends on the seed, the prompt and the number of new tokens only, so a text
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
"""Cost of one more row in generation, in positions: every row has its own calls of the model."""


class StoppingCriterion:
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

        Where the last tokens are only some bytes of a character, they are left out, as vLLM does.
        """
        token_count = len(tokens)
        for index, token in enumerate(tokens):
            if token in self.end_tokens:
                token_count = index
                break
        text = self._decoded(tokens[:token_count])
        while text.endswith("\ufffd"):  # the mark of an incomplete character
            token_count -= 1
            text = self._decoded(tokens[:token_count])

        end = len(text)
        for stop_string in self.stop:
            if stop_string in text:
                end = min(end, text.index(stop_string))
        return text[:end]

    def is_complete(self, tokens: Sequence[int]) -> bool:
        """Return whether a continuation ends with an end token, or has a stop string.

        Args:
            tokens: The tokens of the continuation so far, at least one.
        """
        if tokens[-1] in self.end_tokens:
            return True
        if not self.stop:
            return False
        text = self._decoded(tokens)
        return any(stop_string in text for stop_string in self.stop)


class _GrowingRow:
    """A row of several token sequences in the key-value cache, which grows by a position for each new token.

    Tokens that the sequences share at their beginning are in the row once. The masks of attention keep the sequences
    apart: a position attends to those of its own sequence only. Sequences are named by their index in the run.
    """

    def __init__(self, runner: BatchRunner, row: TrieRow, max_new_tokens: int) -> None:
        """Compute the prefix of a row, and make the masks of its sequences; the row itself is computed later.

        Args:
            runner: Runs the model.
            row: The row. Of each of its sequences, the state at the last position is wanted.
            max_new_tokens: Maximum number of new tokens of each sequence.
        """
        self._forward = runner.forward
        self._row = row
        self._cache = runner.cache_of_prefix(row.prefix)
        self._length = len(row.prefix) + len(row.tokens)
        """Positions in the cache, once the row is computed."""
        self._last_positions: dict[int, int] = {}
        """For each sequence, its last position in the row."""
        for index, wanted_positions in row.wanted_positions.items():
            (last_position,) = wanted_positions
            self._last_positions[index] = last_position

        # The cache has the prefix, then the row, then the new positions of all sequences.
        may_attend_in_row = self._forward.tree_mask(row.subtree_ends()).cpu()  # (attending position, attended position)
        all_of_prefix = torch.ones(len(row.prefix)).bool()
        no_new_position = torch.zeros(len(row.wanted_positions) * max_new_tokens).bool()
        self._may_attend: dict[int, Any] = {}
        """For each sequence, to which positions of the cache its next token attends: a vector of truth values."""
        for index, last_position in self._last_positions.items():
            # A new token attends to the same positions of the row as the last token of its sequence.
            self._may_attend[index] = torch.cat([all_of_prefix, may_attend_in_row[last_position], no_new_position])

    @property
    def indexes(self) -> list[int]:
        """The indexes of the sequences of the row."""
        return list(self._last_positions)

    def first_logits(self) -> Any:
        """Compute the row, and return the logits after each sequence, (sequences, vocabulary)."""
        states = self._forward.padded([self._row], self._cache)
        last_positions = list(self._last_positions.values())
        return self._forward.logits(states[0, last_positions])

    def logits_after(self, new_tokens: Mapping[int, int], depths: Sequence[int]) -> Any:
        """Add a token to some sequences, and return the logits after each of these, (sequences, vocabulary).

        Args:
            new_tokens: By the index of a sequence, its new token.
            depths: For each of these, the position number of the token in its sequence.
        """
        for index in new_tokens:
            new_position = self._length  # at the end of the cache
            self._may_attend[index][new_position] = True  # the token attends to itself, and later ones attend to it
            self._length += 1
        may_attend = torch.stack([self._may_attend[index][: self._length] for index in new_tokens])
        mask = self._forward.additive(may_attend[None, None])  # for one row, and for all heads
        states = self._forward.call([list(new_tokens.values())], mask, [depths], self._cache)
        return self._forward.logits(states[0])


class _Continuations:
    """The continuations of some token sequences. A sequence is named by its index among them."""

    def __init__(
        self,
        runner: BatchRunner,
        sequences: Sequence[Tokens],
        max_new_tokens: int,
        stopping: StoppingCriterion,
        temperature: float,
        seed: int,
    ) -> None:
        """Begin an empty continuation of each sequence; the arguments are those of :func:`generate`."""
        self._runner = runner
        self._sequences = sequences
        self._max_new_tokens = max_new_tokens
        self._stopping = stopping
        self._temperature = temperature
        self._seeds: list[int] = []
        """For each sequence, the seed of its samples; empty if the most probable tokens are taken."""
        if temperature:
            self._seeds = [stable_seed(seed, tuple(sequence)) for sequence in sequences]
        self.new_tokens: list[list[int]] = [[] for _ in sequences]
        """For each sequence, its new tokens so far."""

    def continue_in_cache(self) -> None:
        """Continue the sequences in rows that grow in the cache; in smaller rows if memory runs out."""
        self._runner.retry_when_out_of_memory(len(self._sequences), self._continue_in_rows)

    def recompute(self) -> None:
        """Continue the sequences; for each new token, the whole sequence is computed again."""
        indexes = list(range(len(self._sequences)))
        self._continue(indexes, self._recomputed_logits(indexes), self._recomputed_logits)

    def _continue_in_rows(self, indexes: list[int]) -> Iterator[int]:
        """Continue some sequences in rows, and yield the index of each one that is complete.

        Args:
            indexes: The indexes of the sequences.
        """
        runner = self._runner
        last_positions = [len(sequence) - 1 for sequence in self._sequences]
        rows = runner.plan_rows(
            self._sequences, last_positions, indexes, share=runner.prefix_reuse, row_cost=GENERATION_COST
        )
        for row in rows:
            growing_row = _GrowingRow(runner, row, self._max_new_tokens)
            self._continue_row(growing_row)
            yield from growing_row.indexes

    def _continue_row(self, row: _GrowingRow) -> None:
        """Continue all sequences of one row."""

        def logits_after(indexes: list[int]) -> Any:
            """Add the last new token of these sequences to the row, and return the logits after each of them."""
            last_tokens = {}
            depths = []
            for index in indexes:
                new_tokens = self.new_tokens[index]
                last_tokens[index] = new_tokens[-1]
                depths.append(len(self._sequences[index]) + len(new_tokens) - 1)
            return row.logits_after(last_tokens, depths)

        self._continue(row.indexes, row.first_logits(), logits_after)

    def _recomputed_logits(self, indexes: list[int]) -> Any:
        """Return the logits after some sequences and their new tokens, all of which are computed."""
        continued = [(*self._sequences[index], *self.new_tokens[index]) for index in indexes]
        return self._runner.forward.all_logits(self._runner.last_states(continued))

    def _continue(self, indexes: list[int], logits: Any, logits_after: Callable[[list[int]], Any]) -> None:
        """Continue some sequences, token by token, until each is complete or has the maximum number of new tokens.

        Args:
            indexes: The indexes of the sequences.
            logits: The logits after each sequence, (sequences, vocabulary), from which the first new tokens are chosen.
            logits_after: Gets the indexes of the sequences that are not complete, and returns the logits after the last
                new token of each.
        """
        for index in indexes:
            # If memory ran out while these sequences were continued before, there are tokens of that attempt.
            self.new_tokens[index] = []
        incomplete = indexes
        for new_token_count in range(self._max_new_tokens):
            if new_token_count > 0:
                logits = logits_after(incomplete)
            next_tokens = self._next_tokens(incomplete, new_token_count, logits)
            for index, token in zip(incomplete, next_tokens, strict=True):
                self.new_tokens[index].append(token)
            incomplete = [index for index in incomplete if not self._stopping.is_complete(self.new_tokens[index])]
            if not incomplete:
                return

    def _next_tokens(self, indexes: Sequence[int], new_token_count: int, logits: Any) -> list[int]:
        """Return the next token of some sequences: the most probable one, or a sample at a temperature above 0.

        A sample is ``argmax(logit / temperature + g)`` over the tokens, with Gumbel noise ``g = -log(-log(u))`` for a
        uniform random number ``u`` of each token. Its probabilities are ``softmax(logits / temperature)`` (the
        Gumbel-max trick; Maddison, Tarlow and Minka 2014, section 2).

        Args:
            indexes: The indexes of the sequences.
            new_token_count: How many new tokens each has already.
            logits: The logits after them, (sequences, vocabulary).
        """
        if self._temperature:
            vocabulary = logits.shape[-1]
            uniform = torch.stack([self._uniform_numbers(index, new_token_count, vocabulary) for index in indexes])
            gumbel_noise = -torch.log(-torch.log(uniform))
            logits = logits.double().cpu() / self._temperature + gumbel_noise
        tokens: list[int] = logits.argmax(-1).tolist()
        return tokens

    def _uniform_numbers(self, index: int, new_token_count: int, size: int) -> Any:
        """Return random numbers from 0 to 1 that depend on the seed of a sequence and its number of new tokens only."""
        generator = torch.Generator().manual_seed(stable_seed(self._seeds[index], new_token_count))
        return torch.rand(size, generator=generator, dtype=torch.float64)


def generate(
    runner: BatchRunner,
    sequences: Sequence[Tokens],
    max_new_tokens: int,
    stopping: StoppingCriterion,
    temperature: float,
    seed: int,
) -> list[list[int]]:
    """Continue token sequences with the most probable tokens, or with samples.

    Args:
        runner: Runs the model.
        sequences: The sequences, none empty.
        max_new_tokens: Maximum number of new tokens for each.
        stopping: When a continuation is complete.
        temperature: 0 for the most probable tokens.
        seed: Seed of the samples.

    Returns:
        New tokens of each sequence, in order.
    """
    forward = runner.forward
    if forward.capabilities.sharing and forward.capabilities.needs_check(len(sequences)):
        # Rows that grow in the cache are not compared with plain calls of the model. So some sequences are computed
        # in an ordinary run first, which is compared. It sets capabilities.sharing to False if the two differ.
        runner.last_states(sequences[:4])
    longest = max(len(sequence) for sequence in sequences) + max_new_tokens
    continuations = _Continuations(runner, sequences, max_new_tokens, stopping, temperature, seed)
    if forward.capabilities.sharing and longest <= forward.limits.sharing:
        continuations.continue_in_cache()
    else:
        continuations.recompute()
    return continuations.new_tokens
