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
from dataclasses import dataclass
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

ReadStates = Callable[[Any, Picks], None]
"""Reads results off a batch: its states (states, width), and by the number of a sequence the indexes of its states."""


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Sequences that are neighbours in sorted order, with the prefix that is cached for all of them so far.

    Attributes:
        first: The index of the first sequence.
        end: The index after the last one.
        prefix: The cached prefix; empty if there is none.
    """

    first: int
    end: int
    prefix: Tokens


@dataclass(frozen=True, slots=True)
class _ModelCall:
    """Rows that are computed in one call of the model, and the function that computes them."""

    rows: Sequence[TrieRow]
    compute: Callable[[Sequence[TrieRow]], Any]


@dataclass(frozen=True, slots=True)
class _WantedStates:
    """The hidden states of a batch from which results are read.

    Attributes:
        picks: By the number of a sequence, the indexes of its states among these, in order.
        states: The states, a tensor (states, width).
    """

    picks: Picks
    states: Any


class BatchRunner:
    """Runs token sequences through a model within a budget.

    Args:
        forward: The model.
        token_budget: Most positions in one call.
        prefix_reuse: Whether shared prefixes are computed once (where the model can do it).
    """

    def __init__(self, forward: Forward, token_budget: int, prefix_reuse: bool = True) -> None:
        """Make a runner with an empty cache; the description of the class explains the arguments."""
        self.forward = forward
        self.budget = token_budget
        self.cache_from: float = CACHE_FROM
        self.prefix_reuse = prefix_reuse
        self.computed = 0
        """Positions that were computed so far, without padding and those of generated texts."""
        self.release()

    def release(self) -> None:
        """Forget the cached prefix, and free its memory."""
        self.prefix_in_cache: Tokens = ()
        """The tokens whose keys and values are in the cache."""
        self._cache: Any = None
        """The keys and values, an object of transformers; ``None`` before the first cached prefix."""

    def run(self, sequences: Sequence[Tokens], wanted_from: Sequence[int], read: ReadStates) -> None:
        """Compute the hidden states at the last positions of each sequence, and check them on the first batch of a run.

        The first batch is compared with a plain call of the model (:meth:`_compute_and_compare`). If the two differ by
        more than rounding, each prompt is run alone from then on. A single prompt is no batch, so the first batch after
        it is compared, too.

        Args:
            sequences: Token sequences, none empty.
            wanted_from: For each sequence, the first position whose hidden state is wanted. Those of all later
                positions are wanted, too, except for the last one: it predicts no token of the sequence. (It is wanted
                if it is the first wanted one.)
            read: Reads the results off each batch. It may be called again for a sequence.

        Raises:
            OutputError: Memory runs out even for one sequence at a time.
            RunEndingError: Compiled layers differ from the plain model.
        """
        can = self.forward.can
        if can.runs_alone:
            self.compute(sequences, wanted_from, read)
            return
        needed = without_last(sequences, wanted_from)
        kind_of_check = min(len(sequences), 2)  # 1 for a prompt alone, 2 for a batch
        if can.checked >= kind_of_check:
            self.compute(needed, wanted_from, read)
            return

        deviation = self._compute_and_compare(needed, wanted_from, read)
        can.checked = kind_of_check
        differs_by_rounding_only = deviation <= 1.0
        if differs_by_rounding_only:
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

    def _compute_and_compare(self, needed: Sequence[Tokens], wanted_from: Sequence[int], read: ReadStates) -> float:
        """Compute and read sequences, and compare the state at the end of a short one with a plain call of the model.

        Args:
            needed: Token sequences, none empty.
            wanted_from: For each sequence, the first position whose hidden state is wanted.
            read: Reads the results off each batch.

        Returns:
            The difference of the log-probabilities after its last token, in units of what rounding may do.
        """
        compared_number = _number_to_compare(needed)
        compared_sequence = needed[compared_number]
        state_in_batch: Any = None

        def read_and_keep(hidden: Any, picks: Picks) -> None:
            """Read a batch, and keep the last state of the compared sequence if it is in this batch."""
            nonlocal state_in_batch
            read(hidden, picks)
            if compared_number in picks:
                last_index = picks[compared_number][-1]
                state_in_batch = hidden[[last_index]]

        computed_before = self.computed
        self.compute(needed, wanted_from, read_and_keep)
        newly_computed = self.computed - computed_before

        # The plain call must neither take much longer than the run itself nor give more logits than fit into memory.
        affordable_positions = max(LONG, newly_computed / 10)
        longest_compared = min(affordable_positions, LOGITS // self.forward.can.vocabulary)
        if len(compared_sequence) > longest_compared:
            # Even the shortest prompt is too long: the ends of some prompts are computed in a batch of their own, and
            # one of these is compared.
            ends = sorted(sequence[-TAIL:] for sequence in needed[:3])
            compared_sequence = ends[-1]
            state_in_batch = self.last(ends, self.compute)[-1:]
        plain_logits = self.forward.plain_logits(compared_sequence)[-1]
        return _deviation(self.forward, state_in_batch, plain_logits)

    def compute(
        self, sequences: Sequence[Tokens], wanted_from: Sequence[int], read: ReadStates, alone: bool = False
    ) -> None:
        """Compute the hidden states of sequences, and read them batch by batch; nothing is compared.

        Args:
            sequences: Token sequences, none empty.
            wanted_from: For each, the first position whose hidden state is wanted.
            read: Reads the results off each batch.
            alone: Whether each sequence is in a row of its own, in plain batches.
        """
        may_share = self.prefix_reuse and self.forward.can.sharing and not alone
        longest_sharing = self.forward.limits.sharing  # in longer rows, windows of attention would be counted wrongly

        def attempt(remaining: list[int]) -> Iterator[int]:
            """Compute the sequences with these numbers, and yield the number of each one that was read."""
            sharing: list[int] = []
            separate: list[int] = []
            for number in remaining:
                if may_share and len(sequences[number]) <= longest_sharing:
                    sharing.append(number)
                else:
                    separate.append(number)
            yield from self._compute_and_read(sequences, wanted_from, read, sharing, share=True)
            yield from self._compute_and_read(sequences, wanted_from, read, separate, share=False)

        # If memory runs out during an attempt, another one computes the sequences that were not read yet.
        self.persist(len(sequences), attempt)

    def _compute_and_read(
        self,
        sequences: Sequence[Tokens],
        wanted_from: Sequence[int],
        read: ReadStates,
        numbers: list[int],
        share: bool,
    ) -> Iterator[int]:
        """Compute and read some of the sequences, and yield the number of each one that was read.

        Args:
            sequences: All token sequences.
            wanted_from: For each, the first position whose hidden state is wanted.
            read: Reads the results off each batch.
            numbers: The numbers of the sequences that are computed: their indexes among all.
            share: Whether sequences that begin alike share positions.
        """
        rows = self.plan(sequences, wanted_from, numbers, share)
        for call in self._calls(rows, share):
            hidden = call.compute(call.rows)
            self.computed += sum(len(row.tokens) for row in call.rows)
            wanted = self._select(call.rows, hidden)
            read(wanted.states, wanted.picks)
            yield from wanted.picks  # its keys, the numbers of the sequences that were read

    def persist(self, count: int, attempt: Callable[[list[int]], Iterator[int]]) -> None:
        """Compute sequences by repeated attempts, with half the budget of positions each time that memory runs out.

        Args:
            count: The number of sequences; they have the numbers from 0 on.
            attempt: Gets the numbers of the sequences that remain, computes them one after the other, and yields the
                number of each one as soon as it is computed. These are not computed again if it then raises an error.

        Raises:
            OutputError: Memory runs out even with the least budget.
        """
        remaining = dict.fromkeys(range(count))  # an ordered set
        while remaining:
            memory_error = ""
            try:
                for number in attempt(list(remaining)):
                    del remaining[number]
            except BaseException as error:
                # Also after an interrupt: the cache may have more positions than it is known to have.
                self.release()
                if not is_out_of_memory(error):
                    raise
                memory_error = str(error) or type(error).__name__
            # After the except block, the traceback is gone, and with it the tensors that it kept in memory.
            if memory_error:
                self._halve_budget(memory_error)

    def _halve_budget(self, reason: str) -> None:
        """Halve the budget of positions after memory ran out.

        Raises:
            OutputError: The budget is the least one already.
        """
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
        """Return the rows in which sequences are computed: sequences that begin alike share a row, or a cached prefix.

        Args:
            sequences: Token sequences, none empty; equal ones are computed once.
            wanted_from: For each sequence, the first position whose hidden state is wanted. A cached prefix ends before
                it.
            todo: The numbers of the sequences that are computed: their indexes.
            share: Whether sequences share what they begin with. If not, each one has a row of its own.
            cost: Cost of one more row, in positions, where rows cannot be batched.

        Returns:
            Rows in the order in which they should run, so that a prefix extends the one before where possible. Every
            one of these numbers occurs in exactly one row.
        """
        if share:
            row_tokens = self.budget
            cache_from = self.cache_from
        else:
            row_tokens = 0  # no row has room for two sequences
            cache_from = math.inf  # no prefix is long enough for the cache
        numbers_by_sequence: dict[Tokens, list[int]] = {}
        for number in todo:
            numbers_by_sequence.setdefault(sequences[number], []).append(number)
        first_wanted = {}
        for sequence, numbers in numbers_by_sequence.items():
            first_wanted[sequence] = min(wanted_from[number] for number in numbers)

        sequences_by_prefix = self._by_cached_prefix(first_wanted, row_tokens, cache_from)
        attention_weight = self.forward.can.attention_weight
        rows = []
        for prefix, members in sorted(sequences_by_prefix.items()):
            for row_members in joined(members, len(prefix), row_tokens, attention_weight, cost):
                rows.append(lay_out(row_members, numbers_by_sequence, wanted_from, prefix))
        return rows

    def _by_cached_prefix(
        self, first_wanted: Mapping[Tokens, int], row_tokens: int, cache_from: float
    ) -> dict[Tokens, list[Tokens]]:
        """Return sequences by the prefix that is cached for them; of sequences without one, it is empty.

        In sorted order, sequences that begin alike are neighbours. At first, all of them are one group with the empty
        prefix. A group is treated by the first rule that applies:

        1. It does not fit in one row, and shares at least ``cache_from`` more tokens: its prefix grows by these.
        2. At least ``cache_from`` more tokens are in the cache already: its prefix grows by these.
        3. It fits in one row, or nothing may be cached: its prefix is final.
        4. Otherwise it is divided where its sequences share least, and each part is a group.

        Args:
            first_wanted: By sequence, the first position whose hidden state is wanted: a cached prefix ends before it.
            row_tokens: Maximum number of positions of a row.
            cache_from: Least number of tokens by which a cached prefix grows.
        """
        ordered = sorted(first_wanted)
        sequences_by_prefix: dict[Tokens, list[Tokens]] = {}
        if not ordered:
            return sequences_by_prefix
        # For each sequence, how many tokens it shares with the one before it; for the first one 0.
        shared_with_previous = [0] + [shared_length(first, second) for first, second in pairwise(ordered)]
        # A stack: the group that was added last is treated first.
        groups = [_Neighbours(first=0, end=len(ordered), prefix=())]
        while groups:
            group = groups.pop()
            members = ordered[group.first : group.end]
            shared_inside = shared_with_previous[group.first + 1 : group.end]
            shared_by_all = min(shared_inside, default=len(members[0]))
            prefix_length = len(group.prefix)

            row_size = _positions_after(group.prefix, members, shared_inside)
            fits_in_row = row_size <= row_tokens or len(members) == 1
            longest_prefix = min(shared_by_all, *(first_wanted[member] for member in members))
            length_in_cache = min(shared_length(self.prefix_in_cache, members[0]), longest_prefix)

            longest_growth = longest_prefix - prefix_length
            growth_in_cache = length_in_cache - prefix_length
            if not fits_in_row and longest_growth >= cache_from:  # rule 1
                groups.append(_Neighbours(group.first, group.end, prefix=members[0][:longest_prefix]))
            elif growth_in_cache >= cache_from:  # rule 2
                # What is in the cache already costs nothing, so it is used even where all members fit in one row.
                groups.append(_Neighbours(group.first, group.end, prefix=members[0][:length_in_cache]))
            elif fits_in_row or cache_from == math.inf:  # rule 3
                sequences_by_prefix.setdefault(group.prefix, []).extend(members)
            else:  # rule 4
                parts = _divided(group, shared_with_previous, shared_by_all)
                groups += reversed(parts)  # the first part is treated first
        return sequences_by_prefix

    def _calls(self, rows: Sequence[TrieRow], share: bool) -> Iterator[_ModelCall]:
        """Yield the calls of the model that compute rows: first batches of rows without a cached prefix, then the rest.

        Args:
            rows: The rows; those without a prefix come first.
            share: Whether sequences share positions in a row.
        """
        rows_without_prefix = [row for row in rows if not row.prefix]
        rows_over_prefix = rows[len(rows_without_prefix) :]
        if share and self.forward.can.flat:
            for batch in self.batches(rows_without_prefix, flat=True):
                yield _ModelCall(batch, self.forward.flat)
        else:
            # Plain sequences need no mask, so they are not mixed with trees.
            chains = [row for row in rows_without_prefix if row.is_chain]
            trees = [row for row in rows_without_prefix if not row.is_chain]
            for batch in [*self.batches(chains, flat=False), *self.batches(trees, flat=False)]:
                yield _ModelCall(batch, self.forward.padded)
        # The cache has one prefix at a time, and grows by the row that continues it: one row is a call.
        for row in rows_over_prefix:
            yield _ModelCall([row], self._over_prefix)

    def _over_prefix(self, rows: Sequence[TrieRow]) -> Any:
        """Return the hidden states of rows that follow the same cached prefix."""
        return self.forward.padded(rows, self.cached(rows[0].prefix))

    def batches(self, rows: Sequence[TrieRow], flat: bool) -> Iterator[list[TrieRow]]:
        """Yield batches of rows of about the same length, longest first, each batch within the budget of positions.

        Args:
            rows: The rows.
            flat: Whether the rows of a batch follow each other in one sequence. Otherwise they are one below the other,
                and padded to the longest one. Once such a batch is large enough to keep the machine busy, it is closed
                rather than padded.
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
        """Return whether the next row must not be added to a batch.

        Args:
            batch: The rows of the batch, longest first.
            next_size: Number of positions of the next row, which is not longer than those of the batch.
            flat: Whether the rows follow each other in one sequence, without padding.
        """
        if self.forward.can.runs_alone:
            return True
        longest = len(batch[0].tokens)
        # Models that stretch their positions for long input do so for the whole batch, by its longest row.
        is_stretched = longest > self.forward.limits.batching
        if is_stretched and next_size != longest:
            return True
        if flat:
            size = sum(len(row.tokens) for row in batch)
            return size + next_size > self.budget
        padded_size = len(batch) * longest
        if padded_size + longest > self.budget:
            return True
        # A batch that keeps the machine busy is not filled up with padding.
        is_busy = padded_size * BUSY_SHARE >= self.budget
        needs_padding = next_size < longest * LEAST_FILL
        return is_busy and needs_padding

    def cached(self, prefix: Tokens) -> Any:
        """Return the keys and values of a prefix, as a cache of transformers that has no other positions.

        There is one cache. What the prefix shares with the tokens that are in it stays there; the rest is computed.

        Args:
            prefix: The tokens.
        """
        if self._cache is None:
            # Made without a configuration, it keeps all positions, also of layers with windows.
            self._cache = require("transformers", "hf", FEATURE).DynamicCache()
        self.prefix_in_cache = prefix[: shared_length(self.prefix_in_cache, prefix)]
        superfluous_positions = int(self._cache.get_seq_length()) - len(self.prefix_in_cache)
        if superfluous_positions > 0:
            self._cache.crop(-superfluous_positions)
        while len(self.prefix_in_cache) < len(prefix):
            piece = prefix[len(self.prefix_in_cache) : len(self.prefix_in_cache) + self.budget]
            self.forward.call([piece], cache=self._cache)
            self.prefix_in_cache += piece
            self.computed += len(piece)
        return self._cache

    def _select(self, rows: Sequence[TrieRow], hidden: Any) -> _WantedStates:
        """Return the states at the wanted positions of a batch; of a position that sequences share, the state is once.

        Args:
            rows: The rows of the batch.
            hidden: Its hidden states: (1, positions of all rows, width) if the rows follow each other, or (rows,
                positions with padding, width) if they are one below the other.
        """
        rows_follow_each_other = len(hidden) == 1
        padded_size = hidden.shape[1]
        # Positions are counted over all rows of the batch. By position, the index of its state among those returned.
        index_by_position: dict[int, int] = {}
        picks: dict[int, tuple[int, ...]] = {}
        row_start = 0
        for row in rows:
            for number, positions_in_row in row.picks.items():
                indexes = []
                for position_in_row in positions_in_row:
                    position = row_start + position_in_row
                    # The next free index, unless another sequence has the position, too.
                    index = index_by_position.setdefault(position, len(index_by_position))
                    indexes.append(index)
                picks[number] = tuple(indexes)
            row_start += len(row.tokens) if rows_follow_each_other else padded_size
        with torch.inference_mode():
            wanted_positions = torch.tensor(list(index_by_position), device=hidden.device)
            state_by_position = hidden.flatten(0, 1)
            return _WantedStates(picks, states=state_by_position[wanted_positions])

    # Results

    def last(self, sequences: Sequence[Tokens], run: Callable[..., None] | None = None) -> Any:
        """Return what is computed at the last position of each sequence, a tensor (sequences, numbers).

        These are the hidden state, followed by the logits if the model applies its output matrix itself (``can.head``).
        The caller applies the output matrix to all of them together: reading a matrix of the size of the vocabulary for
        a few positions costs as much as for many.

        Args:
            sequences: The token sequences, none empty.
            run: Computes and reads the sequences: :meth:`run` by default, or :meth:`compute` for no comparison.
        """
        state_by_number: dict[int, Any] = {}  # by the index of a sequence

        def read(hidden: Any, picks: Picks) -> None:
            """Keep the last state of each sequence of a batch."""
            for number, indexes in picks.items():
                last_index = indexes[-1]
                state_by_number[number] = hidden[last_index]

        if run is None:
            run = self.run
        last_positions = [len(sequence) - 1 for sequence in sequences]
        run(sequences, last_positions, read)
        return torch.stack([state_by_number[number] for number in range(len(sequences))])

    def log_probabilities(self, sequences: Sequence[Tokens], wanted_from: Sequence[int]) -> list[list[float]]:
        """Return for each sequence the log-probability of each of its scored tokens, given the tokens before it.

        Args:
            sequences: The token sequences, none empty.
            wanted_from: For each sequence, the position before its first scored token. All that follow are scored.
        """
        scored_tokens = []
        for sequence, start in zip(sequences, wanted_from, strict=True):
            scored_tokens.append(sequence[start + 1 :])
        logs_by_number: dict[int, list[float]] = {}

        def read(hidden: Any, picks: Picks) -> None:
            """Compute the log-probabilities of the scored tokens of all sequences of a batch.

            Args:
                hidden: The states of a batch, (states, width).
                picks: By the number of a sequence, the indexes of its states among them, in order.
            """
            # A pair is the index of a state and the token that follows there. Sequences that begin alike have pairs in
            # common, which are computed once.
            pairs_by_number: dict[int, list[tuple[int, int]]] = {}
            distinct_pairs: set[tuple[int, int]] = set()
            for number, indexes in picks.items():
                # If there is one state more than tokens, it predicts what follows the sequence, which is not needed.
                pairs = list(zip(indexes, scored_tokens[number], strict=False))
                pairs_by_number[number] = pairs
                distinct_pairs.update(pairs)
            log_by_pair = self._token_logs(hidden, sorted(distinct_pairs))
            for number, pairs in pairs_by_number.items():
                logs_by_number[number] = [log_by_pair[pair] for pair in pairs]

        self.run(sequences, wanted_from, read)
        return [logs_by_number[number] for number in range(len(sequences))]

    def _token_logs(self, hidden: Any, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Return the log-probability of each pair of a hidden state and a token that follows it.

        It is the logit of the token minus the logarithm of the sum of ``exp(logit)`` over the vocabulary.

        Args:
            hidden: The states, (states, width).
            pairs: Pairs of the index of a state and a token, sorted, so that the indexes ascend.
        """
        check_range([token for _, token in pairs], self.forward.can.vocabulary)
        states = torch.tensor([state for state, _ in pairs], dtype=torch.long, device=hidden.device)
        tokens = torch.tensor([token for _, token in pairs], dtype=torch.long, device=hidden.device)
        # The logits of all states at once would take too much memory, so those of some states at a time are computed.
        # The states come in ascending order, so the log-probabilities come in the order of the pairs.
        log_probabilities: list[float] = []
        with torch.inference_mode():
            for first_state, logits in self.forward.pieces(hidden):
                end_state = first_state + len(logits)
                is_in_piece = (states >= first_state) & (states < end_state)
                rows = states[is_in_piece] - first_state
                token_logits = logits[rows, tokens[is_in_piece]]
                log_totals = logits.logsumexp(-1)[rows]
                log_probabilities += (token_logits - log_totals).double().tolist()
        return dict(zip(pairs, log_probabilities, strict=True))


def _divided(group: _Neighbours, shared_with_previous: Sequence[int], shared_by_all: int) -> list[_Neighbours]:
    """Return the parts of a group of neighbours, divided where two of them share least.

    Args:
        group: The group.
        shared_with_previous: By the index of a sequence, how many tokens it shares with the one before it.
        shared_by_all: How many tokens all sequences of the group share: the smallest of these numbers inside it.
    """
    part_starts = [group.first]
    for index in range(group.first + 1, group.end):
        if shared_with_previous[index] == shared_by_all:
            part_starts.append(index)
    parts = []
    for part_first, part_end in pairwise([*part_starts, group.end]):
        parts.append(_Neighbours(part_first, part_end, group.prefix))
    return parts


def _number_to_compare(sequences: Sequence[Tokens]) -> int:
    """Return the number of the sequence that is compared with a plain call: of the shortest, the last in sorted order.

    It is the last one of its batch, so a fault that grows with the number of positions before it is largest there.
    """
    shortest_length = min(len(sequence) for sequence in sequences)
    shortest = [number for number, sequence in enumerate(sequences) if len(sequence) == shortest_length]
    return max(shortest, key=lambda number: sequences[number])


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
    """Return how much log-probabilities computed in a batch differ from those of a plain call, after one position.

    The 16 likeliest tokens are compared in the two ways in which logits are used: normalised over the whole vocabulary,
    and normalised among themselves, as the logits of labels are. The result is::

        largest difference / (rounding * max(1, spread))

    where ``spread`` is the largest difference of a logit to the mean of all, and ``rounding`` what the number type may
    do to a log-probability for a spread of 1. A result up to 1 may be rounding.

    Args:
        forward: The model.
        hidden: The state at the position, computed in a batch, (1, width).
        plain: The logits at the position in a plain call, (vocabulary).
    """
    spread = float((plain - plain.mean()).abs().max())
    if not math.isfinite(spread):
        return 0.0  # scores that are not finite are an error later, which says why
    top_tokens = plain.topk(min(16, len(plain))).indices
    with torch.inference_mode():
        over_vocabulary = forward.logits(hidden)[0].log_softmax(-1)[top_tokens]
        among_top = forward.logits(hidden, top_tokens.tolist())[0].log_softmax(-1)
    difference = max(
        _largest_difference(over_vocabulary, plain.log_softmax(-1)[top_tokens]),
        _largest_difference(among_top, plain[top_tokens].log_softmax(-1)),
    )
    if not math.isfinite(difference):
        return math.inf
    rounding = EXACT_ROUNDING if forward.is_exact else HALF_ROUNDING
    return difference / (rounding * max(1.0, spread))


def _largest_difference(computed: Any, expected: Any) -> float:
    """Return the largest absolute difference of two tensors."""
    return float((computed.double().cpu() - expected.double().cpu()).abs().max())
