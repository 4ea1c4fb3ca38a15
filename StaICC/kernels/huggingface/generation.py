"""Batched generation, greedy or sampled, for tasks that are answered in text.

All prompts of a packed row are continued together: after each step, the row in the cache has grown by one position for
each prompt that is not finished, and each new position attends to its own prompt and its own continuation only. A
prefix that many prompts share (a long context with many questions) is computed and stored once. Models without a cache
that can be used so recompute the sequences at every step, which is slow and right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from StaICC.kernels.huggingface.batching import BatchRunner, RunReport, last_positions
from StaICC.kernels.huggingface.forward import Forward, Hidden
from StaICC.kernels.huggingface.prefix_plan import Row
from StaICC.kernels.protocol import stable_seed


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

    def text(self, tokens: Sequence[int]) -> str:
        """The text of a continuation, cut before the first end token and the first stop string.

        A last character of which some bytes are missing is left out, with its tokens, as vLLM does.
        """
        kept: list[int] = []
        for token in tokens:
            if token in self.end_tokens:
                break
            kept.append(token)
        while (text := str(self.tokenizer.decode(kept, skip_special_tokens=True))).endswith("\ufffd"):
            kept.pop()
        cuts = [place for place in (text.find(string) for string in self.stop) if place >= 0]
        return text[: min(cuts)] if cuts else text

    def complete(self, tokens: Sequence[int]) -> bool:
        """Whether nothing that follows can change the text."""
        if not tokens:
            return False
        if tokens[-1] in self.end_tokens:
            return True
        if not self.stop:
            return False
        text = str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))
        return any(string in text for string in self.stop)


class Choice:
    """Chooses the next token of each sequence: the most probable one, or a sample.

    A sample is the token with the largest sum of logit / temperature and Gumbel noise. The noise depends on the seed,
    the tokens of the sequence and the step only, so a text does not depend on the other sequences.

    Args:
        torch: The module.
        sequences: The token sequences.
        temperature: 0 for the most probable token.
        seed: Seed of the samples.
    """

    def __init__(self, torch: Any, sequences: Sequence[tuple[int, ...]], temperature: float, seed: int) -> None:
        self._torch = torch
        self._temperature = temperature
        self._seeds = [stable_seed(seed, tuple(row)) for row in sequences] if temperature else []

    def tokens(self, logits: Any, numbers: Sequence[int], step: int) -> list[int]:
        """Return the token for each row of logits, given the numbers of their sequences and of the new token."""
        if self._temperature:
            torch, width = self._torch, logits.shape[-1]
            generators = [torch.Generator().manual_seed(stable_seed(self._seeds[number], step)) for number in numbers]
            noise = torch.stack([torch.rand(width, generator=one, dtype=torch.float64) for one in generators])
            logits = logits.double().cpu() / self._temperature - torch.log(-torch.log(noise))
        found: list[int] = logits.argmax(-1).tolist()
        return found


def continue_row(
    forward: Forward,
    row: Row,
    cache: Any,
    most: int,
    ending: Ending,
    counts: RunReport,
    choice: Choice,
    numbers: Sequence[int],
) -> dict[int, list[int]]:
    """Generate for all sequences of one row.

    Args:
        forward: A model that packs and caches.
        row: The row, not yet computed.
        cache: Cache that holds the row's prefix; afterwards it holds more and must be cut or dropped.
        most: Most new tokens.
        ending: When a continuation is complete.
        counts: Counted into.
        choice: Chooses tokens.
        numbers: For each sequence of the row, its number for ``choice``.

    Returns:
        New tokens by sequence number.
    """
    torch = forward.torch
    hidden = forward.over(row, cache)
    counts.calls += 1
    counts.computed += len(row.tokens)
    ends = [end for _, end in row.ends]
    with torch.inference_mode():
        chosen = choice.tokens(forward.logits(Hidden(hidden.states[0, ends])), numbers, 0)
    allowed = torch.zeros((len(ends), row.base + len(row.tokens) + len(ends) * most), dtype=torch.bool)
    allowed[:, : row.base] = True
    for index, end in enumerate(ends):
        allowed[index, [row.base + place for place in row.path(end, row.base)]] = True
    depths = row.depths()
    found = [[token] for token in chosen]
    alive = [i for i in range(len(ends)) if most > 1 and not ending.complete(found[i])]
    length = row.base + len(row.tokens)
    for step in range(1, most):
        if not alive:
            break
        for offset, index in enumerate(alive):
            allowed[index, length + offset] = True
        length += len(alive)
        states = forward.step(
            [found[i][-1] for i in alive],
            [depths[ends[i]] + step for i in alive],
            forward.additive(allowed[alive, :length][None, None]),
            cache,
        )
        counts.calls += 1
        counts.computed += len(alive)
        with torch.inference_mode():
            tokens = choice.tokens(forward.logits(states), [numbers[i] for i in alive], step)
        for index, token in zip(alive, tokens, strict=True):
            found[index].append(token)
        alive = [index for index in alive if not ending.complete(found[index])]
    return {number: tokens for (number, _), tokens in zip(row.ends, found, strict=True)}


def generate_tokens(
    runner: BatchRunner, sequences: Sequence[tuple[int, ...]], most: int, ending: Ending, choice: Choice
) -> tuple[list[list[int]], RunReport]:
    """Continue token sequences.

    Args:
        runner: The batch runner.
        sequences: The sequences, none empty.
        most: Most new tokens for each.
        ending: When a continuation is complete.
        choice: Chooses tokens.

    Returns:
        New tokens of each sequence, in order, and what was done.
    """
    counts = RunReport(sequences=len(sequences), tokens=sum(map(len, sequences)))
    longest = max((len(sequence) for sequence in sequences), default=0) + most
    if runner.forward.can.caching and longest <= runner.forward.exact_to:
        return runner.continue_rows(
            sequences,
            lambda row, cache, numbers: continue_row(runner.forward, row, cache, most, ending, counts, choice, numbers),
            counts,
        ), counts
    found: list[list[int]] = [[] for _ in sequences]
    alive = list(range(len(sequences)))
    for step in range(most):
        if not alive:
            break
        texts = [(*sequences[i], *found[i]) for i in alive]
        reader, more = last_positions(runner, texts)
        counts.add(more)
        for index, token in zip(alive, choice.tokens(reader.whole(), alive, step), strict=True):
            found[index].append(token)
        alive = [index for index in alive if not ending.complete(found[index])]
    return found, counts
