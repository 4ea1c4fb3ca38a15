"""Driving a model over many token sequences: which rows run together, what is read off their hidden states.

A run computes for each token sequence the hidden states at some of its last positions. The rest (label logits, whole
distributions, log-probabilities of continuations) is read off them by a function ``read(hidden, picks)``, which is
called for each batch as soon as it is computed, so that nothing large is kept. Results are written by sequence number,
so reading a sequence twice changes nothing.

Memory is a budget of positions in one call of the model. When memory runs out, the budget is halved, what is not
computed yet is planned anew, and the run goes on. Plans change the order of the work and the order of additions inside
it, nothing else.

In generation, all prompts of a packed row are continued together: after each step, the row in the cache has grown by
one position for each prompt that is not finished, and each new position attends to its own prompt and its own
continuation only. Models without a cache that can be used so recompute the sequences at every step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from logging import INFO, WARNING
from typing import Any

from StaICC.errors import OutputError, RunEndingError
from StaICC.kernels.huggingface import FEATURE, torch
from StaICC.kernels.huggingface.forward import (
    Capabilities,
    Forward,
    check_range,
    guard,
    is_out_of_memory,
)
from StaICC.kernels.huggingface.live_state import foreign_code
from StaICC.kernels.huggingface.token_trie import (
    Picks,
    TrieRow,
    joined,
    lay_out,
    shared_length,
    without_last,
)
from StaICC.kernels.protocol import stable_seed
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
GENERATION_COST = 1000.0
"""Cost of one more row in generation, in positions: every row has its own steps."""
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
        number = max(range(len(needed)), key=lambda number: (-len(needed[number]), needed[number]))
        last_states: list[Any] = []

        def read_and_watch(hidden: Any, picks: Picks) -> None:
            read(hidden, picks)
            if number in picks:
                last_index = picks[number][-1]
                last_states.append(hidden[[last_index]])

        self.compute(needed, wanted_from, read_and_watch)
        prompt = needed[number]
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
        row_tokens: int = 0
        cache_from = math.inf
        if share:
            row_tokens = self.budget
            cache_from = self.cache_from
        numbers: dict[Tokens, list[int]] = {}
        for number in todo:
            numbers.setdefault(sequences[number], []).append(number)
        # Sequences that begin alike are neighbours. ``shared[i]`` is how many tokens the sequence i shares with the one
        # before, and ``limits[i]`` is where its first wanted position is.
        ordered = sorted(numbers)
        limits = [min(wanted_from[number] for number in numbers[sequence]) for sequence in ordered]
        shared = [0] + [shared_length(first, second) for first, second in pairwise(ordered)]

        sequences_by_prefix: dict[Tokens, list[Tokens]] = {}
        # Ranges of neighbours that are still to be placed, with the cached prefix that they have so far. The last range
        # is taken first, so they are pushed in reverse order.
        ranges: list[tuple[int, int, Tokens]] = []
        if ordered:
            ranges.append((0, len(ordered), ()))
        while ranges:
            low, high, prefix = ranges.pop()
            base = len(prefix)
            shared_inside = shared[low + 1 : high]
            least_shared = min(shared_inside, default=len(ordered[low]))
            # The positions of one row with all of them, after the prefix.
            size = sum(len(sequence) - base for sequence in ordered[low:high])
            size -= sum(length - base for length in shared_inside)
            fits = size <= row_tokens or not shared_inside

            # The prefix may end before the first wanted position at the latest.
            common = min(least_shared, *limits[low:high])
            # A cached prefix saves computing it even where all would fit in one row.
            longer = min(shared_length(self.held, ordered[low]), common)
            if not fits and common - base >= cache_from:
                longer = common
            if longer - base >= cache_from:
                ranges.append((low, high, ordered[low][:longer]))
            elif fits or cache_from == math.inf:
                sequences_by_prefix.setdefault(prefix, []).extend(ordered[low:high])
            else:
                # Nothing long is shared by all: go down to the ranges that share more.
                cuts = [index for index in range(low + 1, high) if shared[index] == least_shared]
                parts = list(pairwise([low, *cuts, high]))
                for part_low, part_high in reversed(parts):
                    ranges.append((part_low, part_high, prefix))

        attention_weight = self.forward.can.attention_weight
        rows = []
        for prefix, members in sorted(sequences_by_prefix.items()):
            for row_members in joined(members, len(prefix), row_tokens, attention_weight, cost):
                rows.append(lay_out(row_members, numbers, wanted_from, prefix))
        return rows

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
        targets = [row[start + 1 :] for row, start in zip(sequences, wanted_from, strict=True)]
        results: dict[int, list[float]] = {}

        def read(hidden: Any, picks: Picks) -> None:
            # For each sequence, the indexes of states with the tokens that follow. The state at the last position
            # predicts what follows the sequence, which is not needed.
            wanted = {}
            for number, indexes in picks.items():
                wanted[number] = list(zip(indexes, targets[number], strict=False))
            # Sequences that begin alike share pairs, and each is computed once.
            pairs = sorted({pair for pairs_of_sequence in wanted.values() for pair in pairs_of_sequence})
            check_range([token for _, token in pairs], self.forward.can.vocabulary)
            values: list[float] = []
            with torch.inference_mode():
                places, tokens = torch.tensor(pairs, dtype=torch.long, device=hidden.device).reshape(-1, 2).t()
                for start, logits in self.forward.pieces(hidden):
                    inside = (places >= start) & (places < start + len(logits))
                    rows = places[inside] - start
                    values += (logits[rows, tokens[inside]] - logits.logsumexp(-1)[rows]).double().tolist()
            value_by_pair = dict(zip(pairs, values, strict=True))
            for number, pairs_of_sequence in wanted.items():
                results[number] = [value_by_pair[pair] for pair in pairs_of_sequence]

        self.run(sequences, wanted_from, read)
        return [results[number] for number in range(len(sequences))]

    def generate(
        self, sequences: Sequence[Tokens], most: int, ending: Ending, temperature: float, seed: int
    ) -> list[list[int]]:
        """Continue token sequences with the most probable tokens, or with samples.

        A sample is the token with the largest sum of logit / temperature and Gumbel noise. The noise depends on the
        seed, the tokens of the sequence and the step only, so a text does not depend on the other sequences.

        Args:
            sequences: The sequences, none empty.
            most: Most new tokens for each.
            ending: When a continuation is complete.
            temperature: 0 for the most probable tokens.
            seed: Seed of the samples.

        Returns:
            New tokens of each sequence, in order.
        """
        forward = self.forward
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
                    noise = [
                        torch.rand(logits.shape[-1], generator=source, dtype=torch.float64) for source in generators
                    ]
                    logits = logits.double().cpu() / temperature - torch.log(-torch.log(torch.stack(noise)))
                for number, token in zip(alive, logits.argmax(-1).tolist(), strict=True):
                    results[number].append(token)
                alive = [number for number in alive if not ending.complete(results[number])]
                if not alive or step + 1 == most:
                    return
                logits = following(alive, step)

        def grow(row: TrieRow) -> None:
            """Generate for all sequences of one row."""
            cache, length = self.cached(row.prefix), len(row.prefix) + len(row.tokens)
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
                return forward.logits(
                    forward.call([[results[number][-1] for number in alive]], mask, [depth], cache)[0]
                )

            hidden = forward.padded([row], cache)[0, list(ends.values())]
            continued(list(ends), forward.logits(hidden), following)

        def attempt(todo: list[int]) -> Iterator[int]:
            for row in self.plan(sequences, starts, todo, self.prefix_reuse, GENERATION_COST):
                grow(row)
                yield from row.picks

        def again(alive: Sequence[int], step: int) -> Any:
            return forward.whole(self.last([(*sequences[number], *results[number]) for number in alive]))

        if forward.can.sharing and forward.can.checked < min(len(sequences), 2):
            self.last(sequences[:4])  # compares them with a plain call
        if forward.can.sharing and max(map(len, sequences)) + most <= forward.exact_to:
            self.persist(len(sequences), attempt)
        else:
            continued(list(range(len(sequences))), forward.whole(self.last(sequences)), again)
        return results


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


# What a model does right

_known: weakref.WeakKeyDictionary[Any, Capabilities] = weakref.WeakKeyDictionary()


def examined(forward: Forward) -> Forward:
    """Return a model with its capabilities, detected by trial once for each model and again after a change."""
    model, can, before = forward.model, forward.can, guard(forward.model)
    known, foreign = _known.get(model), foreign_code(model)  # the guard does not see code of classes
    if known is not None and known.guard == before and not foreign:
        forward.can = known
        return forward
    adapters = getattr(model, "peft_config", None) or {}
    if any(getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters.values()):
        foreign.append("an adapter of peft that is used from certain tokens of a prompt on")
    if foreign:
        can.run_alone("; ".join(foreign))
    elif not _tried(forward):
        can.run_alone(f"batches of {type(model).__name__} differ from single calls of the model")
    if can.reason:
        _log.log(INFO if foreign else WARNING, "%s; each prompt is run alone", can.reason)
    can.guard = guard(model)
    _known[model] = can
    return forward


def same(exact: bool, computed: Any, expected: Any, decoy: Any = None) -> bool:
    """Whether two results differ by rounding only.

    In half precision rounding is coarse, so the difference must also be small compared with that to a decoy, the result
    of a wrong mask.
    """
    if computed.shape != expected.shape or not bool(computed.isfinite().all()):
        return False
    error = float((computed - expected).norm())
    if error > (2e-5 if exact else 3e-2) * max(float(expected.norm()), 1e-9):
        return False
    return exact or decoy is None or error <= 0.3 * float((decoy - expected).norm())


def _tried(forward: Forward) -> bool:
    """Find in which ways a model returns the logits of plain calls, on short sequences; whether there is one."""
    model, can = forward.model, forward.can
    ids = [(7 + 37 * i) % max(can.vocabulary - 1, 1) for i in range(9)]
    # a b c d e f g  and  a b c i h g  share three tokens;  i h g  shares none with them.
    sequences = [tuple(ids[:7]), (*ids[:3], *ids[:5:-1]), tuple(ids[:5:-1])]
    logits = [forward.plain_logits(row)[-1].cpu() for row in sequences]
    can.vocabulary = len(logits[0])
    # What the end of the second sequence would be if it attended to everything before it in a row with the first one.
    decoy = None if forward.is_exact else forward.plain_logits(sequences[0] + sequences[2])[-1].cpu()

    def works(exact: bool, budget: int = 1024, rounds: int = 1, **ways: Any) -> bool:
        """Whether the ends have the logits of plain calls; with a small budget over a prefix that is cached."""
        for name, value in ways.items():
            setattr(can, name, value)
        runner = BatchRunner(forward, budget)
        runner.cache_from = 3
        try:
            for _ in range(rounds):
                computed = forward.whole(runner.last(sequences, runner.compute))
        except Exception as error:
            if is_out_of_memory(error) or isinstance(error, OutputError):
                raise
            _log.debug("%s is not used for %s: %s", ways, type(model).__name__, error)
            return False
        return all(map(same, [exact] * 3, computed, logits, [None, decoy, None]))

    head: Any = getattr(model, "get_output_embeddings", lambda: None)()
    kind = "rows" if type(head) is torch.nn.Linear and not hasattr(head, "_hf_hook") else "module"
    exact, separate = forward.is_exact, forward.body is not None and head is not None
    # Without a transformation, the numbers are those of the model in any number type.
    heads = [("", True), *((name, exact) for name in forward.transforms)]
    separate = separate and any(works(strict, head=kind, transform=name) for name, strict in heads)
    if not separate and not works(True, head="model", transform=""):
        return False
    on_cpu = forward.device.type == "cpu"
    cached = separate and works(exact, 7, 2, sharing=True)
    can.flat = cached and on_cpu and works(exact, flat=True)  # elsewhere many small calls cost more than padding
    can.sharing = can.flat or (cached and works(exact, flat=False))
    can.attention_weight = forward.attention_weight() if can.sharing else 0.0
    return True


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
