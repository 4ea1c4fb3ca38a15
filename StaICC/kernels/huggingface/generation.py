"""Continuing token sequences by a language model, with the most probable tokens or with samples.

In generation, all prompts of a packed row are continued together: after each step, the row in the cache has grown by
one position for each prompt that is not finished, and each new position attends to its own prompt and its own
continuation only. Models without a cache that can be used so recompute the sequences at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from StaICC.kernels.huggingface import torch
from StaICC.kernels.huggingface.batching import BatchRunner, Tokens
from StaICC.kernels.huggingface.token_trie import TrieRow
from StaICC.kernels.protocol import stable_seed

GENERATION_COST = 1000.0
"""Cost of one more row in generation, in positions: every row has its own steps."""


class Ending:
    """Decides when a continuation is complete.

    Args:
        tokenizer: The tokenizer.
        end_tokens: Tokens that end a text; they are not part of it.
        stop: Strings before which the text ends.
    """

    def __init__(self, tokenizer: Any, end_tokens: Sequence[int], stop: Sequence[str]) -> None:
        self.tokenizer = tokenizer
        self.end_tokens = frozenset(end_tokens)
        self.stop = tuple(stop)

    def _decoded(self, tokens: Sequence[int]) -> str:
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


def generate(
    runner: BatchRunner, sequences: Sequence[Tokens], most: int, ending: Ending, temperature: float, seed: int
) -> list[list[int]]:
    """Continue token sequences with the most probable tokens, or with samples.

    A sample is the token with the largest sum of logit / temperature and Gumbel noise. The noise depends on the
    seed, the tokens of the sequence and the step only, so a text does not depend on the other sequences.

    Args:
        runner: Runs the model.
        sequences: The sequences, none empty.
        most: Most new tokens for each.
        ending: When a continuation is complete.
        temperature: 0 for the most probable tokens.
        seed: Seed of the samples.

    Returns:
        New tokens of each sequence, in order.
    """
    forward = runner.forward
    seeds = [stable_seed(seed, tuple(row)) for row in sequences] if temperature else []
    results: list[list[int]] = [[] for _ in sequences]
    starts = [len(row) - 1 for row in sequences]

    def continued(alive: list[int], logits: Any, following: Callable[[list[int], int], Any]) -> None:
        """Continue sequences, given the logits after them and a function for those after the chosen tokens."""
        for number in alive:
            results[number] = []
        for step in range(most):
            if temperature:
                generators = [torch.Generator().manual_seed(stable_seed(seeds[number], step)) for number in alive]
                noise = [torch.rand(logits.shape[-1], generator=source, dtype=torch.float64) for source in generators]
                logits = logits.double().cpu() / temperature - torch.log(-torch.log(torch.stack(noise)))
            for number, token in zip(alive, logits.argmax(-1).tolist(), strict=True):
                results[number].append(token)
            alive = [number for number in alive if not ending.complete(results[number])]
            if not alive or step + 1 == most:
                return
            logits = following(alive, step)

    def grow(row: TrieRow) -> None:
        """Generate for all sequences of one row."""
        cache, length = runner.cached(row.prefix), len(row.prefix) + len(row.tokens)
        ends = {number: end for number, (end,) in row.picks.items()}
        above = forward.tree_mask(row.subtree_ends()).cpu()
        before, new = torch.ones(len(row.prefix)).bool(), torch.zeros(len(ends) * most).bool()
        allowed = {number: torch.cat([before, above[end], new]) for number, end in ends.items()}

        def following(alive: list[int], step: int) -> Any:
            nonlocal length
            for number in alive:
                allowed[number][length] = True
                length += 1
            mask = forward.additive(torch.stack([allowed[number][:length] for number in alive])[None, None])
            depth = [len(sequences[number]) + step for number in alive]
            return forward.logits(forward.call([[results[number][-1] for number in alive]], mask, [depth], cache)[0])

        hidden = forward.padded([row], cache)[0, list(ends.values())]
        continued(list(ends), forward.logits(hidden), following)

    def attempt(todo: list[int]) -> Iterator[int]:
        for row in runner.plan(sequences, starts, todo, runner.prefix_reuse, GENERATION_COST):
            grow(row)
            yield from row.picks

    def again(alive: Sequence[int], step: int) -> Any:
        return forward.whole(runner.last([(*sequences[number], *results[number]) for number in alive]))

    if forward.can.sharing and forward.can.checked < min(len(sequences), 2):
        runner.last(sequences[:4])  # compares them with a plain call
    if forward.can.sharing and max(map(len, sequences)) + most <= forward.exact_to:
        runner.persist(len(sequences), attempt)
    else:
        continued(list(range(len(sequences))), forward.whole(runner.last(sequences)), again)
    return results
