"""Driving a model over many token sequences: which rows run together, what is read off their hidden states.

A run computes for each token sequence the hidden states at some of its last positions. The rest (label logits, whole
distributions, log-probabilities of continuations) is computed from them by a callback, which is called for each batch
as soon as it is computed, so that nothing large is kept. Results are stored by the index of the sequence, so a sequence
that is computed twice changes nothing.

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
    IndexesBySequence,
    TrieRow,
    grouped_into_rows,
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

BatchCallback = Callable[[Any, IndexesBySequence], None]
"""A function that is called for each batch as soon as it is computed. Its arguments are the wanted hidden states of the
batch, (states, width), and for each sequence of the batch, by its index in the run, the indexes of its states."""


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
    """The hidden states of a batch that are wanted.

    Attributes:
        states: The states, a tensor (states, width).
        indexes: For each sequence of the batch, by its index in the run, the indexes of its states, in order.
    """

    states: Any
    indexes: IndexesBySequence


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
        """Maximum number of positions in one call. It is halved when memory runs out."""
        self.cache_from: float = CACHE_FROM
        """Least number of tokens by which a cached prefix is made longer."""
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

    def run(self, sequences: Sequence[Tokens], first_wanted: Sequence[int], on_batch: BatchCallback) -> None:
        """Compute hidden states of token sequences batch by batch, and check the first batch of a benchmark run.

        The first batch is compared with a plain call of the model (:meth:`_run_and_compare`). If the two differ by more
        than rounding, each sequence is run alone from then on.

        Args:
            sequences: Token sequences, none empty.
            first_wanted: For each sequence, the first position whose hidden state is wanted. Those of all later
                positions are wanted, too, except for the last one: it predicts no token of the sequence. (It is wanted
                if it is the first wanted one.)
            on_batch: Gets the wanted states of each batch. It may get those of a sequence more than once.

        Raises:
            OutputError: Memory runs out even for one sequence at a time.
            RunEndingError: Compiled layers differ from the plain model.
        """
        capabilities = self.forward.capabilities
        if capabilities.runs_alone:
            self.run_unchecked(sequences, first_wanted, on_batch)
            return
        shortened_sequences = without_last(sequences, first_wanted)
        if not capabilities.needs_check(len(sequences)):
            self.run_unchecked(shortened_sequences, first_wanted, on_batch)
            return

        deviation = self._run_and_compare(shortened_sequences, first_wanted, on_batch)
        capabilities.note_check(len(sequences))
        differs_by_rounding_only = deviation <= 1.0
        if differs_by_rounding_only:
            return
        name = type(self.forward.model).__name__
        problem = f"batches differ from single calls of the model ({deviation:.1f} times what rounding may do)"
        if self.forward.compiled is not None:
            # The identity says that compiled layers are used, so the run cannot go on without them.
            capabilities.forget_checks()
            raise RunEndingError(
                f"got compile=True, but with compiled layers of {name} {problem}. Leave the option out"
            )
        _log.warning("%s: %s; each prompt is run alone", name, problem)
        capabilities.run_alone(problem)
        self.release()
        self.run(sequences, first_wanted, on_batch)

    def _run_and_compare(
        self, sequences: Sequence[Tokens], first_wanted: Sequence[int], on_batch: BatchCallback
    ) -> float:
        """Run token sequences, and return how much one of them differs from a plain call of the model.

        The plain call must neither take much longer than the run itself nor compute more logits than fit into memory.
        So a short sequence is compared, at its last position.

        Args:
            sequences: Token sequences, none empty.
            first_wanted: For each sequence, the first position whose hidden state is wanted.
            on_batch: Gets the wanted states of each batch.

        Returns:
            The difference of log-probabilities, in units of what rounding may do (:func:`_deviation`).
        """
        compared_index = _index_to_compare(sequences)
        compared_sequence = sequences[compared_index]
        compared_state: Any = None  # set when the sequence is computed

        def pass_on_and_keep(states: Any, indexes: IndexesBySequence) -> None:
            """Pass the states of a batch on, and keep the last state of the compared sequence if the batch has it."""
            nonlocal compared_state
            on_batch(states, indexes)
            if compared_index in indexes:
                last_index = indexes[compared_index][-1]
                compared_state = states[[last_index]]

        computed_before = self.computed
        self.run_unchecked(sequences, first_wanted, pass_on_and_keep)
        newly_computed = self.computed - computed_before

        affordable_positions = max(LONG, newly_computed / 10)
        longest_compared = min(affordable_positions, LOGITS // self.forward.capabilities.vocabulary)
        if len(compared_sequence) > longest_compared:
            # Even the shortest sequence is too long: the ends of up to three sequences are computed in a batch of their
            # own, and the last one is compared.
            ends = sorted(sequence[-TAIL:] for sequence in sequences[:3])
            compared_sequence = ends[-1]
            compared_state = self.last_states(ends, self.run_unchecked)[-1:]
        plain_logits = self.forward.plain_logits(compared_sequence)[-1]
        return _deviation(self.forward, compared_state, plain_logits)

    def run_unchecked(
        self,
        sequences: Sequence[Tokens],
        first_wanted: Sequence[int],
        on_batch: BatchCallback,
        alone: bool = False,
    ) -> None:
        """Compute hidden states of token sequences batch by batch; nothing is compared with a plain call of the model.

        Args:
            sequences: Token sequences, none empty.
            first_wanted: For each, the first position whose hidden state is wanted.
            on_batch: Gets the wanted states of each batch.
            alone: Whether each sequence is in a row of its own, in batches with padding.
        """
        may_share = self.prefix_reuse and self.forward.capabilities.sharing and not alone
        longest_sharing = self.forward.limits.sharing  # in longer rows, windows of attention would be counted wrongly

        def compute_remaining(remaining: list[int]) -> Iterator[int]:
            """Compute the sequences with these indexes, and yield the index of each one as soon as it is computed."""
            sharing = []  # indexes of sequences that may share positions with others
            separate = []
            for index in remaining:
                if may_share and len(sequences[index]) <= longest_sharing:
                    sharing.append(index)
                else:
                    separate.append(index)
            yield from self._run_batches(sequences, first_wanted, on_batch, sharing, share=True)
            yield from self._run_batches(sequences, first_wanted, on_batch, separate, share=False)

        self.retry_when_out_of_memory(len(sequences), compute_remaining)

    def _run_batches(
        self,
        sequences: Sequence[Tokens],
        first_wanted: Sequence[int],
        on_batch: BatchCallback,
        indexes: list[int],
        share: bool,
    ) -> Iterator[int]:
        """Compute some of the token sequences in batches, and yield the index of each one after its batch.

        Args:
            sequences: All token sequences.
            first_wanted: For each of all, the first position whose hidden state is wanted.
            on_batch: Gets the wanted states of each batch.
            indexes: The indexes of the sequences to compute.
            share: Whether sequences that begin alike share positions.
        """
        rows = self.plan_rows(sequences, first_wanted, indexes, share)
        for call in self._model_calls(rows, share):
            hidden = call.compute(call.rows)
            self.computed += sum(len(row.tokens) for row in call.rows)
            wanted = _wanted_states(call.rows, hidden)
            on_batch(wanted.states, wanted.indexes)
            computed_indexes = wanted.indexes.keys()
            yield from computed_indexes

    def retry_when_out_of_memory(
        self, sequence_count: int, compute_remaining: Callable[[list[int]], Iterator[int]]
    ) -> None:
        """Compute sequences; each time that memory runs out, go on with half the budget of positions.

        Args:
            sequence_count: The number of sequences. Their indexes are counted from 0.
            compute_remaining: Gets the indexes of the sequences that are not computed yet. It yields the index of each
                one as soon as that sequence is computed, so that it is not computed again if memory runs out later.

        Raises:
            OutputError: Memory runs out even with the least budget.
        """
        remaining = set(range(sequence_count))
        while remaining:
            memory_error = ""
            try:
                for index in compute_remaining(sorted(remaining)):
                    remaining.remove(index)
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

    def plan_rows(
        self,
        sequences: Sequence[Tokens],
        first_wanted: Sequence[int],
        indexes: Sequence[int],
        share: bool,
        row_cost: float = 0.0,
    ) -> list[TrieRow]:
        """Return the rows in which token sequences are computed: those that begin alike share a row or a cached prefix.

        Args:
            sequences: Token sequences, none empty; equal ones are computed once.
            first_wanted: For each sequence, the first position whose hidden state is wanted. A cached prefix ends
                before it.
            indexes: The indexes of the sequences that are computed.
            share: Whether sequences share what they begin with. If not, each one has a row of its own.
            row_cost: Cost of one more row, in positions, where rows cannot be batched.

        Returns:
            Rows in the order in which they should run, so that a prefix extends the one before where possible. Every
            one of the indexes occurs in exactly one row.
        """
        if share:
            row_tokens = self.budget
            least_growth = self.cache_from
        else:
            row_tokens = 0  # no row has room for two sequences
            least_growth = math.inf  # no prefix is long enough for the cache
        indexes_by_sequence: dict[Tokens, list[int]] = {}
        for index in indexes:
            indexes_by_sequence.setdefault(sequences[index], []).append(index)
        first_wanted_by_sequence = {}
        for sequence, equal_ones in indexes_by_sequence.items():
            first_wanted_by_sequence[sequence] = min(first_wanted[index] for index in equal_ones)

        sequences_by_prefix = self._sequences_by_prefix(first_wanted_by_sequence, row_tokens, least_growth)
        attention_weight = self.forward.capabilities.attention_weight
        rows = []
        for prefix, members in sorted(sequences_by_prefix.items()):
            for sequences_of_row in grouped_into_rows(members, len(prefix), row_tokens, attention_weight, row_cost):
                rows.append(lay_out(sequences_of_row, indexes_by_sequence, first_wanted, prefix))
        return rows

    def _sequences_by_prefix(
        self, first_wanted: Mapping[Tokens, int], row_tokens: int, least_growth: float
    ) -> dict[Tokens, list[Tokens]]:
        """Decide which prefix is cached for each token sequence, and return the sequences by their cached prefix.

        Sequences without a cached prefix are those of the empty one. In sorted order, sequences that begin alike are
        neighbours. At first, all of them are one group without a prefix. For each group:

        1. Its prefix is made longer if that pays (:meth:`_grown_prefix`).
        2. Otherwise, if the group fits in one row, or nothing may be cached, its prefix is final.
        3. Otherwise it is divided into smaller groups, where neighbours share least.

        Args:
            first_wanted: By sequence, the first position whose hidden state is wanted: a cached prefix ends before it.
            row_tokens: Maximum number of positions of a row.
            least_growth: Least number of tokens by which a cached prefix is made longer; infinite if nothing is cached.
        """
        ordered = sorted(first_wanted)
        sequences_by_prefix: dict[Tokens, list[Tokens]] = {}
        if not ordered:
            return sequences_by_prefix
        # For each sequence, how many tokens it shares with the one before it; for the first one 0.
        shared_with_previous = [0]
        for previous, sequence in pairwise(ordered):
            shared_with_previous.append(shared_length(previous, sequence))

        unfinished = [_Neighbours(first=0, end=len(ordered), prefix=())]  # the last group is the next one
        while unfinished:
            group = unfinished.pop()
            members = ordered[group.first : group.end]
            shared_inside = shared_with_previous[group.first + 1 : group.end]
            shared_by_all = min(shared_inside, default=len(members[0]))
            row_size = _positions_after(group.prefix, members, shared_inside)
            fits_in_row = row_size <= row_tokens or len(members) == 1

            longest_prefix = min(shared_by_all, *(first_wanted[member] for member in members))
            prefix = self._grown_prefix(group.prefix, members[0][:longest_prefix], fits_in_row, least_growth)
            if len(prefix) > len(group.prefix):
                unfinished.append(_Neighbours(group.first, group.end, prefix))
            elif fits_in_row or least_growth == math.inf:
                sequences_by_prefix.setdefault(prefix, []).extend(members)
            else:
                smaller_groups = _divided(group, shared_with_previous, shared_by_all)
                unfinished += reversed(smaller_groups)
        return sequences_by_prefix

    def _grown_prefix(self, prefix: Tokens, longest: Tokens, fits_in_row: bool, least_growth: float) -> Tokens:
        """Return a longer prefix to cache for a group of sequences, or the same one if a longer one does not pay.

        A group that does not fit in one row takes the longest prefix that is possible. Otherwise, what is in the cache
        already costs nothing, so it is used even where the group fits in one row.

        Args:
            prefix: The prefix of the group so far.
            longest: The longest prefix that can be cached for the group. It begins with ``prefix``.
            fits_in_row: Whether one row has room for the group after ``prefix``.
            least_growth: Least number of tokens by which the prefix is made longer.
        """
        if not fits_in_row and len(longest) - len(prefix) >= least_growth:
            return longest
        in_cache = longest[: shared_length(self.prefix_in_cache, longest)]
        if len(in_cache) - len(prefix) >= least_growth:
            return in_cache
        return prefix

    def _model_calls(self, rows: Sequence[TrieRow], share: bool) -> Iterator[_ModelCall]:
        """Yield the calls of the model that compute rows: batches of rows without a cached prefix, then the other rows.

        Args:
            rows: The rows; those without a prefix come first.
            share: Whether sequences share positions in a row.
        """
        rows_without_prefix = [row for row in rows if not row.prefix]
        rows_with_prefix = rows[len(rows_without_prefix) :]
        if share and self.forward.capabilities.flat:
            for batch in self.batches(rows_without_prefix, flat=True):
                yield _ModelCall(batch, self.forward.flat)
        else:
            # A batch of plain sequences needs no mask of attention, so rows with branches are not mixed with them.
            plain_rows = [row for row in rows_without_prefix if row.is_unbranched]
            branched_rows = [row for row in rows_without_prefix if not row.is_unbranched]
            for rows_of_a_kind in (plain_rows, branched_rows):
                for batch in self.batches(rows_of_a_kind, flat=False):
                    yield _ModelCall(batch, self.forward.padded)
        # The cache has one prefix at a time, and grows by the row that continues it. So each row is a call of its own.
        for row in rows_with_prefix:
            yield _ModelCall([row], self._after_prefix)

    def _after_prefix(self, rows: Sequence[TrieRow]) -> Any:
        """Return the hidden states of rows that follow the same cached prefix."""
        return self.forward.padded(rows, self.cache_of_prefix(rows[0].prefix))

    def batches(self, rows: Sequence[TrieRow], flat: bool) -> Iterator[list[TrieRow]]:
        """Yield batches of rows of about the same length, longest first, each batch within the budget of positions.

        Args:
            rows: The rows.
            flat: Whether the rows of a batch follow each other in one sequence. Otherwise they are one below the other,
                and padded to the longest one.
        """
        batch: list[TrieRow] = []
        for row in sorted(rows, key=lambda row: -len(row.tokens)):
            if batch and self._is_complete_batch(batch, len(row.tokens), flat):
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _is_complete_batch(self, batch: Sequence[TrieRow], next_size: int, flat: bool) -> bool:
        """Return whether the next row must not be added to a batch.

        Args:
            batch: The rows of the batch, longest first.
            next_size: Number of positions of the next row, which is not longer than those of the batch.
            flat: Whether the rows follow each other in one sequence, without padding.
        """
        if self.forward.capabilities.runs_alone:
            return True
        longest = len(batch[0].tokens)
        # Some models stretch the position numbers of long inputs, for the whole batch by its longest row. There, only
        # rows of the same length are batched.
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

    def cache_of_prefix(self, prefix: Tokens) -> Any:
        """Return the keys and values of a prefix, as a cache of transformers that has no other positions.

        This object has one cache. The beginning that the prefix shares with the tokens in it is kept; the rest is
        computed.

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
            start = len(self.prefix_in_cache)
            tokens = prefix[start : start + self.budget]
            self.forward.call([tokens], cache=self._cache)
            self.prefix_in_cache += tokens
            self.computed += len(tokens)
        return self._cache

    # Results

    def last_states(self, sequences: Sequence[Tokens], run: Callable[..., None] | None = None) -> Any:
        """Return the hidden state at the last position of each token sequence, a tensor (sequences, width).

        If the whole model is called (``capabilities.head`` is ``"model"``), each state is followed by the logits.
        Otherwise the caller multiplies all states with the output matrix at once: reading a matrix of the size of the
        vocabulary for a few positions costs as much as for many.

        Args:
            sequences: The token sequences, none empty.
            run: :meth:`run` by default, or :meth:`run_unchecked`.
        """
        state_by_index: dict[int, Any] = {}  # by the index of the sequence

        def keep_last_states(states: Any, indexes: IndexesBySequence) -> None:
            """Keep the last state of each sequence of a batch."""
            for sequence_index, state_indexes in indexes.items():
                state_by_index[sequence_index] = states[state_indexes[-1]]

        if run is None:
            run = self.run
        last_positions = [len(sequence) - 1 for sequence in sequences]
        run(sequences, last_positions, keep_last_states)
        return torch.stack([state_by_index[index] for index in range(len(sequences))])

    def log_probabilities(self, sequences: Sequence[Tokens], starts: Sequence[int]) -> list[list[float]]:
        """Return for each token sequence the log-probability of each scored token, given all tokens before it.

        Args:
            sequences: The token sequences, none empty.
            starts: For each sequence, the position before its first scored token. All tokens that follow are scored.
        """
        scored_tokens = []
        for sequence, start in zip(sequences, starts, strict=True):
            scored_tokens.append(sequence[start + 1 :])
        log_probabilities: list[list[float]] = [[] for _ in sequences]

        def score_batch(states: Any, indexes: IndexesBySequence) -> None:
            """Set the log-probabilities of the sequences of a batch, from its hidden states (states, width)."""
            # A pair is the index of a state and the token that is scored there. Sequences that begin alike have pairs
            # in common, each of which is computed once.
            pairs_by_sequence: dict[int, list[tuple[int, int]]] = {}
            for sequence_index, state_indexes in indexes.items():
                # If there is one state more than tokens, it predicts what follows the sequence, which is not needed.
                pairs = list(zip(state_indexes, scored_tokens[sequence_index], strict=False))
                pairs_by_sequence[sequence_index] = pairs
            distinct_pairs = set().union(*pairs_by_sequence.values())
            log_probability_by_pair = self._log_probability_by_pair(states, sorted(distinct_pairs))
            for sequence_index, pairs in pairs_by_sequence.items():
                log_probabilities[sequence_index] = [log_probability_by_pair[pair] for pair in pairs]

        self.run(sequences, starts, score_batch)
        return log_probabilities

    def _log_probability_by_pair(self, hidden: Any, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Return for each pair of a hidden state and a token the log-probability that the token follows the state.

        It is the logit of the token minus the logarithm of the sum of ``exp(logit)`` over the vocabulary.

        Args:
            hidden: The states, (states, width).
            pairs: Pairs of the index of a state and a token, sorted, so that the indexes ascend.
        """
        check_range([token for _, token in pairs], self.forward.capabilities.vocabulary)
        states = torch.tensor([state for state, _ in pairs], dtype=torch.long, device=hidden.device)
        tokens = torch.tensor([token for _, token in pairs], dtype=torch.long, device=hidden.device)
        # The logits of all states at once would take too much memory, so those of a chunk of states are computed at a
        # time. The indexes ascend over the chunks, so the log-probabilities come in the order of the pairs.
        log_probabilities: list[float] = []
        with torch.inference_mode():
            for chunk_start, logits in self.forward.logits_in_chunks(hidden):
                chunk_end = chunk_start + len(logits)
                is_in_chunk = (states >= chunk_start) & (states < chunk_end)
                rows = states[is_in_chunk] - chunk_start
                token_logits = logits[rows, tokens[is_in_chunk]]
                log_totals = logits.logsumexp(-1)[rows]
                log_probabilities += (token_logits - log_totals).double().tolist()
        return dict(zip(pairs, log_probabilities, strict=True))


def _wanted_states(rows: Sequence[TrieRow], hidden: Any) -> _WantedStates:
    """Return the hidden states of a batch at the wanted positions; a position that sequences share is in it once.

    Args:
        rows: The rows of the batch, which say what positions each sequence wants.
        hidden: Its hidden states: (1, positions of all rows, width) if the rows follow each other, or (rows, positions
            with padding, width) if they are one below the other.
    """
    rows_follow_each_other = len(hidden) == 1
    padded_size = hidden.shape[1]
    state_index_by_position: dict[int, int] = {}  # positions are counted over all rows of the batch
    indexes: dict[int, tuple[int, ...]] = {}
    row_start = 0
    for row in rows:
        for sequence_index, positions_in_row in row.wanted_positions.items():
            state_indexes = []
            for position_in_row in positions_in_row:
                position = row_start + position_in_row
                # The next free index, unless another sequence has the position, too.
                state_index = state_index_by_position.setdefault(position, len(state_index_by_position))
                state_indexes.append(state_index)
            indexes[sequence_index] = tuple(state_indexes)
        row_start += len(row.tokens) if rows_follow_each_other else padded_size
    with torch.inference_mode():
        positions = torch.tensor(list(state_index_by_position), device=hidden.device)
        state_by_position = hidden.flatten(0, 1)
        return _WantedStates(state_by_position[positions], indexes)


def _divided(group: _Neighbours, shared_with_previous: Sequence[int], shared_by_all: int) -> list[_Neighbours]:
    """Divide a group of neighbours before each sequence that shares least with the one before, and return the groups.

    Args:
        group: The group.
        shared_with_previous: By the index of a sequence, how many tokens it shares with the one before it.
        shared_by_all: How many tokens all sequences of the group share: the smallest of these numbers inside it.
    """
    starts = [group.first]
    for index in range(group.first + 1, group.end):
        if shared_with_previous[index] == shared_by_all:
            starts.append(index)
    smaller_groups = []
    for first, end in pairwise([*starts, group.end]):
        smaller_groups.append(_Neighbours(first, end, group.prefix))
    return smaller_groups


def _index_to_compare(sequences: Sequence[Tokens]) -> int:
    """Return the index of the sequence that is compared with a plain call: of the shortest, the last in sorted order.

    It is the last one of its batch, so a fault that grows with the number of positions before it is largest there.
    """
    shortest_length = min(len(sequence) for sequence in sequences)
    shortest = [index for index, sequence in enumerate(sequences) if len(sequence) == shortest_length]
    return max(shortest, key=lambda index: sequences[index])


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
    """Return how much log-probabilities from a batch differ from those of a plain call, in units of rounding.

    The 16 likeliest tokens after one position are compared, in the two ways in which logits are used: normalised over
    the whole vocabulary, and normalised among these tokens, as the logits of labels are. The result is::

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
    expected_over_vocabulary = plain.log_softmax(-1)[top_tokens]
    expected_among_top = plain[top_tokens].log_softmax(-1)
    with torch.inference_mode():
        over_vocabulary = forward.logits(hidden)[0].log_softmax(-1)[top_tokens]
        among_top = forward.logits(hidden, top_tokens.tolist())[0].log_softmax(-1)
    difference = max(
        _largest_difference(over_vocabulary, expected_over_vocabulary),
        _largest_difference(among_top, expected_among_top),
    )
    if not math.isfinite(difference):
        return math.inf
    rounding = EXACT_ROUNDING if forward.is_exact else HALF_ROUNDING
    return difference / (rounding * max(1.0, spread))


def _largest_difference(computed: Any, expected: Any) -> float:
    """Return the largest absolute difference of two tensors."""
    return float((computed.double().cpu() - expected.double().cpu()).abs().max())
