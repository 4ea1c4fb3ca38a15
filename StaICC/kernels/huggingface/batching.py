"""Driving a model over many token sequences: which rows run together, what is read off their hidden states.

A run computes for each token sequence the hidden states at some of its last positions. The rest (label logits, whole
distributions, log-probabilities of continuations) is read off them by a function ``read(hidden, picks)``, which is
called for each batch as soon as it is computed, so that nothing large is kept. Results are written by sequence number,
so reading a sequence twice changes nothing.

Memory is a budget of positions in one call of the model. When memory runs out, the budget is halved, what is not
computed yet is planned anew, and the run goes on. Plans change the order of the work and the order of additions inside
it, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from StaICC.errors import OutputError, RunEndingError
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.kernels.huggingface.forward import (
    Forward,
    check_range,
    is_out_of_memory,
)
from StaICC.kernels.huggingface.token_trie import (
    Picks,
    TrieRow,
    joined,
    lay_out,
    shared_length,
    without_last,
)
from StaICC.optional import require
from StaICC.safe_text import logger

LEAST_BUDGET = 32
"""Budgets are not halved below this number of positions."""
CACHE_FROM = 256
"""Shortest prefix, in tokens, that is kept in a cache of its own."""
BUSY_SHARE = 8
"""A batch of the budget's share 1 / BUSY_SHARE keeps the machine busy; a larger one is not filled up with padding."""
LEAST_FILL = 0.97
"""A row shorter than this share of the longest begins a new batch, once the batch is large enough."""
LONG = 512
"""A prompt of more tokens is compared in full only if it is no more than a tenth of the batch."""
TAIL = 64
"""Tokens at the end of a long prompt that are compared instead."""
LOGITS = 1 << 27
"""Most logits that a plain call may compute."""
EXACT_ROUNDING = 1e-4
"""What rounding may do to a log-probability in float32, for logits that differ from their mean by up to 1."""
HALF_ROUNDING = 3e-2
"""The same in number types of 16 bits."""

Tokens = tuple[int, ...]
_log = logger(__name__)


class BatchRunner:
    """Runs token sequences through a model within a budget.

    Args:
        forward: The model.
        token_budget: Most positions in one call.
        prefix_reuse: Whether shared prefixes are computed once (where the model can do it).
    """

    def __init__(self, forward: Forward, token_budget: int, prefix_reuse: bool = True) -> None:
        self.forward = forward
        self.budget = token_budget
        self.cache_from: float = CACHE_FROM
        self.prefix_reuse = prefix_reuse
        self.computed = 0
        """Positions that were computed so far, without padding and those of generated texts."""
        self.release()

    def release(self) -> None:
        """Forget the cached prefix, and free its memory."""
        self.held: Tokens = ()
        self._cache: Any = None

    def run(self, sequences: Sequence[Tokens], wanted_from: Sequence[int], read: Callable[[Any, Picks], None]) -> None:
        """Compute the hidden states at the last positions of each sequence.

        The first batch of a run is compared with ``model(input_ids)`` for one of its shortest prompts. A single prompt
        is no batch: the first one after it is compared, too. Of long prompts the ends of some are computed in a batch
        of their own, and one of them is compared. If the log-probabilities differ by more than rounding, each prompt
        is run alone from then on.

        Args:
            sequences: Token sequences, none empty.
            wanted_from: For each, the first position whose hidden state is wanted; all after it are wanted too, except
                for the last one where it is not the first: nothing that is read off it is in the sequence.
            read: Called with the states of a batch and the indexes of each sequence. May be called again for a
                sequence.

        Raises:
            OutputError: Memory runs out even for one sequence at a time.
        """
        can = self.forward.can
        needed = sequences if can.reason else without_last(sequences, wanted_from)
        sequences_to_check = min(len(sequences), 2)
        if can.reason or can.checked >= sequences_to_check:
            self.compute(needed, wanted_from, read)
            return

        deviation = self._compute_and_compare(needed, wanted_from, read)
        can.checked = sequences_to_check
        if deviation <= 1.0:
            return
        name = type(self.forward.model).__name__
        problem = f"batches differ from single calls of the model ({deviation:.1f} times what rounding may do)"
        if self.forward.compiled is not None:
            # The identity says that compiled layers are used, so the run cannot go on without them.
            can.checked = 0
            raise RunEndingError(
                f"got compile=True, but with compiled layers of {name} {problem}. Leave the option out"
            )
        _log.warning("%s: %s; each prompt is run alone", name, problem)
        can.run_alone(problem)
        self.release()
        self.run(sequences, wanted_from, read)

    def _compute_and_compare(
        self, needed: Sequence[Tokens], wanted_from: Sequence[int], read: Callable[[Any, Picks], None]
    ) -> float:
        """Compute and read sequences, and compare one of them with a plain call of the model.

        Returns:
            The difference in units of what rounding may do.
        """
        computed_before = self.computed
        # Of the shortest prompts, the one that the batch has last: what goes wrong with many positions is wrong there.
        shortest_length = min(len(row) for row in needed)
        shortest = [number for number, row in enumerate(needed) if len(row) == shortest_length]
        compared = max(shortest, key=lambda number: needed[number])
        last_states: list[Any] = []

        def read_and_watch(hidden: Any, picks: Picks) -> None:
            read(hidden, picks)
            if compared in picks:
                last_index = picks[compared][-1]
                last_states.append(hidden[[last_index]])

        self.compute(needed, wanted_from, read_and_watch)
        prompt = needed[compared]
        hidden = last_states[-1]
        # Of a long prompt, a plain call would cost too much or give too many logits: the ends of some are compared.
        a_tenth_of_run = (self.computed - computed_before) / 10
        longest_compared = min(LOGITS // self.forward.can.vocabulary, max(LONG, a_tenth_of_run))
        if len(prompt) > longest_compared:
            tails = sorted(row[-TAIL:] for row in needed[:3])
            prompt = tails[-1]
            hidden = self.last(tails, self.compute)[-1:]
        plain_logits = self.forward.plain_logits(prompt)[-1]
        return _deviation(self.forward, hidden, plain_logits)

    def compute(
        self,
        sequences: Sequence[Tokens],
        wanted_from: Sequence[int],
        read: Callable[[Any, Picks], None],
        alone: bool = False,
    ) -> None:
        """Compute and read sequences unchecked; see :meth:`run` for the arguments.

        Args:
            sequences: Token sequences, none empty.
            wanted_from: For each, the first position whose hidden state is wanted.
            read: Called with the states of a batch and the indexes of each sequence.
            alone: Whether each is in a row of its own, in plain batches.
        """
        may_share = self.prefix_reuse and self.forward.can.sharing and not alone

        def attempt(todo: list[int]) -> Iterator[int]:
            sharing: list[int] = []
            separate: list[int] = []
            for number in todo:
                # In longer sequences, windows of attention would be counted wrongly in a shared row.
                if may_share and len(sequences[number]) <= self.forward.exact_to:
                    sharing.append(number)
                else:
                    separate.append(number)
            for numbers, share in ((sharing, True), (separate, False)):
                planned_rows = self.plan(sequences, wanted_from, numbers, share)
                for rows, hidden in self._computed(planned_rows, share):
                    picks, states = self._select(rows, hidden)
                    read(states, picks)
                    yield from picks

        self.persist(len(sequences), attempt)

    def persist(self, count: int, attempt: Callable[[list[int]], Iterator[int]]) -> None:
        """Attempt until all of ``count`` are done, with half the budget each time that memory runs out.

        Args:
            count: How many there are.
            attempt: Given the numbers that are not done, does them and yields the number of each one that is.
        """
        todo = dict.fromkeys(range(count))
        while todo:
            failed = ""
            try:
                for number in attempt(list(todo)):
                    del todo[number]
            except BaseException as error:  # an interrupt, too, may have come when the cache had grown already
                self.release()
                if not is_out_of_memory(error):
                    raise
                failed = str(error) or type(error).__name__
            if failed:  # outside the handler, so that the traceback no longer holds the tensors
                self._halve(failed)

    def _halve(self, reason: str) -> None:
        if self.budget <= LEAST_BUDGET:
            raise OutputError(
                f"memory ran out even with a budget of {self.budget} token positions ({reason}); "
                "use a smaller model, a smaller number type, shorter prompts, or a device with more memory"
            )
        self.budget = max(LEAST_BUDGET, self.budget // 2)
        _log.warning("memory ran out (%s); going on with %d token positions at a time", reason, self.budget)
        if self.forward.device.type == "cuda":
            torch.cuda.empty_cache()

    def plan(
        self, sequences: Sequence[Tokens], wanted_from: Sequence[int], todo: list[int], share: bool, cost: float = 0.0
    ) -> list[TrieRow]:
        """Lay out sequences in rows.

        Args:
            sequences: Token sequences, none empty; equal ones are computed once.
            wanted_from: For each sequence, the first position whose hidden state is wanted. A cached prefix ends before
                it.
            todo: The numbers of the sequences that are computed.
            share: Whether sequences share what they begin with, in a row or as a cached prefix.
            cost: Cost of one more row, in positions, where rows cannot be batched.

        Returns:
            Rows in the order in which they should run, so that a prefix extends the one before where possible. Every
            one of these numbers occurs in exactly one row.
        """
        row_tokens = self.budget if share else 0
        cache_from = self.cache_from if share else math.inf
        numbers_by_sequence: dict[Tokens, list[int]] = {}
        for number in todo:
            numbers_by_sequence.setdefault(sequences[number], []).append(number)
        limits = {}
        for sequence, numbers in numbers_by_sequence.items():
            limits[sequence] = min(wanted_from[number] for number in numbers)

        sequences_by_prefix = self._by_cached_prefix(limits, row_tokens, cache_from)
        attention_weight = self.forward.can.attention_weight
        rows = []
        for prefix, members in sorted(sequences_by_prefix.items()):
            for row_members in joined(members, len(prefix), row_tokens, attention_weight, cost):
                rows.append(lay_out(row_members, numbers_by_sequence, wanted_from, prefix))
        return rows

    def _by_cached_prefix(
        self, limits: Mapping[Tokens, int], row_tokens: int, cache_from: float
    ) -> dict[Tokens, list[Tokens]]:
        """Divide sequences by the prefix that is cached for them; of sequences without one, it is empty.

        Args:
            limits: By sequence, the first position whose hidden state is wanted: a cached prefix ends before it.
            row_tokens: Maximum number of positions of a row.
            cache_from: Shortest prefix that is cached.
        """
        # Sequences that begin alike are neighbours. ``shared[i]`` is how many tokens the sequence i shares with the one
        # before.
        ordered = sorted(limits)
        shared = [0] + [shared_length(first, second) for first, second in pairwise(ordered)]
        sequences_by_prefix: dict[Tokens, list[Tokens]] = {}
        # Ranges of neighbours that are still to be placed, with the cached prefix that they have so far. The last range
        # is taken first, so they are pushed in reverse order.
        ranges: list[tuple[int, int, Tokens]] = []
        if ordered:
            ranges.append((0, len(ordered), ()))
        while ranges:
            low, high, prefix = ranges.pop()
            members = ordered[low:high]
            shared_inside = shared[low + 1 : high]
            least_shared = min(shared_inside, default=len(members[0]))
            fits = len(members) == 1 or _positions_after(prefix, members, shared_inside) <= row_tokens

            # The prefix may end before the first wanted position at the latest.
            common = min(least_shared, *(limits[sequence] for sequence in members))
            held_length = min(shared_length(self.held, members[0]), common)
            if not fits and common - len(prefix) >= cache_from:
                ranges.append((low, high, members[0][:common]))
            elif held_length - len(prefix) >= cache_from:
                # What is cached already saves computing it, even where all would fit in one row.
                ranges.append((low, high, members[0][:held_length]))
            elif fits or cache_from == math.inf:
                sequences_by_prefix.setdefault(prefix, []).extend(members)
            else:
                # Nothing long is shared by all: go down to the ranges that share more.
                cuts = [index for index in range(low + 1, high) if shared[index] == least_shared]
                for part_low, part_high in reversed(list(pairwise([low, *cuts, high]))):
                    ranges.append((part_low, part_high, prefix))
        return sequences_by_prefix

    def _computed(self, rows: Sequence[TrieRow], share: bool) -> Iterator[tuple[Sequence[TrieRow], Any]]:
        """Compute rows in batches; yield each batch with its hidden states, (rows, positions, width)."""
        forward = self.forward
        is_flat = share and forward.can.flat
        # Rows at the beginning of sequences come first, then those after a cached prefix.
        first_rows = [row for row in rows if not row.prefix]
        rows_after_prefix = rows[len(first_rows) :]
        calls: list[tuple[Callable[[Sequence[TrieRow]], Any], list[TrieRow]]] = []
        if is_flat:
            for batch in self.batches(first_rows, is_flat):
                calls.append((forward.flat, batch))
        else:
            # Plain sequences need no mask, so they are not mixed with trees.
            for is_chain in (True, False):
                group = [row for row in first_rows if row.is_chain is is_chain]
                for batch in self.batches(group, is_flat):
                    calls.append((forward.padded, batch))
        for row in rows_after_prefix:
            calls.append((self._over_prefix, [row]))

        for call, batch in calls:
            hidden = call(batch)
            self.computed += sum(len(row.tokens) for row in batch)
            yield batch, hidden

    def _over_prefix(self, rows: Sequence[TrieRow]) -> Any:
        """Return the hidden states of rows that follow the same cached prefix."""
        return self.forward.padded(rows, self.cached(rows[0].prefix))

    def batches(self, rows: Sequence[TrieRow], flat: bool) -> Iterator[list[TrieRow]]:
        """Yield batches of rows of about the same length, longest first, each batch within the budget.

        Once a batch is large enough to keep the machine busy, it is closed rather than padded. A flat batch needs no
        padding.
        """
        batch: list[TrieRow] = []
        for row in sorted(rows, key=lambda row: -len(row.tokens)):
            if batch and self._must_close(batch, len(row.tokens), flat):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _must_close(self, batch: Sequence[TrieRow], next_size: int, flat: bool) -> bool:
        """Return whether a batch is complete without the next row, which is not longer than the ones before.

        Args:
            batch: The rows of the batch, longest first.
            next_size: Number of positions of the next row.
            flat: Whether the rows follow each other in one sequence, without padding.
        """
        longest = len(batch[0].tokens)
        if self.forward.can.reason:  # each prompt is run alone
            return True
        # Models that stretch their positions for long input do so for the whole batch.
        if longest > self.forward.same_to and next_size != longest:
            return True
        if flat:
            size = sum(len(row.tokens) for row in batch)
            return size + next_size > self.budget
        if (len(batch) + 1) * longest > self.budget:
            return True
        is_busy = len(batch) * longest * BUSY_SHARE >= self.budget
        return is_busy and next_size < longest * LEAST_FILL

    def cached(self, prefix: Tokens) -> Any:
        """Return the cache, grown or cut to a prefix."""
        if self._cache is None:
            # Made without a configuration, it keeps all positions, also of layers with windows.
            self._cache = require("transformers", "hf", FEATURE).DynamicCache()
        self.held = prefix[: shared_length(self.held, prefix)]
        superfluous = int(self._cache.get_seq_length()) - len(self.held)
        if superfluous > 0:
            self._cache.crop(-superfluous)
        while len(self.held) < len(prefix):
            piece = prefix[len(self.held) : len(self.held) + self.budget]
            self.forward.call([piece], cache=self._cache)
            self.held += piece
            self.computed += len(piece)
        return self._cache

    def _select(self, rows: Sequence[TrieRow], hidden: Any) -> tuple[Picks, Any]:
        """Return the indexes of each sequence among the wanted positions, and the states at these, each once.

        Args:
            rows: The rows of a batch.
            hidden: Its hidden states, (1, positions of all rows, width) or (rows, positions with padding, width).
        """
        # Positions are counted over all rows of the batch.
        index_by_position: dict[int, int] = {}
        picks: dict[int, tuple[int, ...]] = {}
        row_start = 0
        for row in rows:
            for number, places in row.picks.items():
                indexes = []
                for place in places:
                    index = index_by_position.setdefault(row_start + place, len(index_by_position))
                    indexes.append(index)
                picks[number] = tuple(indexes)
            # The rows follow each other in one sequence, or are one below the other with padding.
            row_start += len(row.tokens) if len(hidden) == 1 else hidden.shape[1]
        with torch.inference_mode():
            positions = torch.tensor(list(index_by_position), device=hidden.device)
            return picks, hidden.flatten(0, 1)[positions]

    # Results

    def last(self, sequences: Sequence[Tokens], run: Callable[..., None] | None = None) -> Any:
        """Return what is computed at the last position of each sequence, a tensor (sequences, width).

        The output matrix is applied to all of them together afterwards: reading a matrix of the size of the vocabulary
        for a few positions costs as much as for many.
        """
        states: dict[int, Any] = {}

        def read(hidden: Any, picks: Picks) -> None:
            for number, indexes in picks.items():
                states[number] = hidden[indexes[-1]]

        if run is None:
            run = self.run
        run(sequences, [len(sequence) - 1 for sequence in sequences], read)
        return torch.stack([states[number] for number in range(len(sequences))])

    def log_probabilities(self, sequences: Sequence[Tokens], wanted_from: Sequence[int]) -> list[list[float]]:
        """Return the log-probability of each token of a sequence from a position on.

        Args:
            sequences: The token sequences, none empty.
            wanted_from: For each sequence, the position before the first token that is scored.
        """
        scored_tokens = [row[start + 1 :] for row, start in zip(sequences, wanted_from, strict=True)]
        results: dict[int, list[float]] = {}

        def read(hidden: Any, picks: Picks) -> None:
            # For each sequence, the indexes of states with the tokens that follow. The state at the last position
            # predicts what follows the sequence, which is not needed.
            pairs_by_number = {}
            for number, indexes in picks.items():
                pairs_by_number[number] = list(zip(indexes, scored_tokens[number], strict=False))
            # Sequences that begin alike share pairs, and each is computed once.
            distinct_pairs = {pair for pairs in pairs_by_number.values() for pair in pairs}
            value_by_pair = self._token_logs(hidden, sorted(distinct_pairs))
            for number, pairs in pairs_by_number.items():
                results[number] = [value_by_pair[pair] for pair in pairs]

        self.run(sequences, wanted_from, read)
        return [results[number] for number in range(len(sequences))]

    def _token_logs(self, hidden: Any, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Return the log-probabilities of tokens after hidden states.

        Args:
            hidden: The states, (states, width).
            pairs: Pairs of the index of a state and a token, in order.
        """
        check_range([token for _, token in pairs], self.forward.can.vocabulary)
        values: list[float] = []
        with torch.inference_mode():
            indexes, tokens = torch.tensor(pairs, dtype=torch.long, device=hidden.device).reshape(-1, 2).t()
            for start, logits in self.forward.pieces(hidden):
                is_in_piece = (indexes >= start) & (indexes < start + len(logits))
                rows = indexes[is_in_piece] - start
                log_probabilities = logits[rows, tokens[is_in_piece]] - logits.logsumexp(-1)[rows]
                values += log_probabilities.double().tolist()
        return dict(zip(pairs, values, strict=True))


def _positions_after(prefix: Tokens, members: Sequence[Tokens], shared: Sequence[int]) -> int:
    """Return how many positions one row with several sequences has after a prefix.

    Args:
        prefix: What all of them begin with.
        members: The sequences, sorted.
        shared: For each but the first, how many tokens it shares with the one before.
    """
    all_positions = sum(len(sequence) - len(prefix) for sequence in members)
    shared_positions = sum(length - len(prefix) for length in shared)
    return all_positions - shared_positions


def _deviation(forward: Forward, hidden: Any, plain: Any) -> float:
    """Return the largest difference of one position's log-probabilities to those of a plain call.

    The 16 likeliest tokens are compared in two ways: over the whole vocabulary, and among themselves, read off their
    rows of the output matrix alone as labels are.

    Args:
        forward: The model.
        hidden: The position, computed in a batch.
        plain: Its logits in a plain call, (vocabulary).

    Returns:
        The difference in units of what rounding may do to logits of this size.
    """
    spread = float((plain - plain.mean()).abs().max())
    if not math.isfinite(spread):
        # Scores that are not finite are an error later, with the reason.
        return 0.0
    top = plain.topk(min(16, len(plain))).indices
    with torch.inference_mode():
        over_vocabulary = forward.logits(hidden)[0].log_softmax(-1)[top]
        among_top = forward.logits(hidden, top.tolist())[0].log_softmax(-1)
    error = max(
        _largest_difference(over_vocabulary, plain.log_softmax(-1)[top]),
        _largest_difference(among_top, plain[top].log_softmax(-1)),
    )
    if not math.isfinite(error):
        return math.inf
    rounding = EXACT_ROUNDING if forward.is_exact else HALF_ROUNDING
    return error / (rounding * max(1.0, spread))


def _largest_difference(computed: Any, expected: Any) -> float:
    """Return the largest absolute difference of two tensors."""
    return float((computed.double().cpu() - expected.double().cpu()).abs().max())
