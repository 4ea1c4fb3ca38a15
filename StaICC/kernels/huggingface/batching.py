"""Driving a model over many token sequences (plan, batches, memory, order), and what is read off its hidden states.

A run computes for each token sequence the hidden states at some of its last positions. The rest (label logits, whole
distributions, log-probabilities of continuations) is read off them by a *reader*, whose method ``read(hidden, picks)``
is called for each batch as soon as it is computed, so that nothing large is kept. Results are written by sequence
number, so reading a sequence twice changes nothing.

Memory is a budget of positions in one call of the model. When memory runs out, the budget is halved, what is not
computed yet is planned anew, and the run goes on. Plans change the order of the work and the order of additions inside
it, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

from StaICC.errors import OutputError, RunEndingError
from StaICC.kernels.huggingface.forward import Forward, Hidden, is_out_of_memory
from StaICC.kernels.huggingface.prefix_plan import Row, Stage, distinct_positions, plan, shared_length
from StaICC.safe_text import logger

LEAST_BUDGET = 32
"""Budgets are not halved below this number of positions."""

BUSY_SHARE = 8
"""A batch of the budget's share 1 / BUSY_SHARE keeps the machine busy; a larger one is not filled up with padding."""

LEAST_FILL = 0.97
"""A row shorter than this share of the longest begins a new batch, once the batch is large enough."""

GENERATION_COST = 1000.0
"""Cost of one more row in generation, in positions: every row has its own steps."""

_log = logger(__name__)


@dataclass(slots=True)
class RunReport:
    """What the last run of a kernel did.

    Attributes:
        sequences: Token sequences that were scored.
        tokens: Their tokens, all added up.
        distinct: Distinct prefixes among them: positions that must be computed.
        computed: Positions that were computed, without padding (also those that ran out of memory, once planned anew).
        padding: Positions of padding.
        calls: Calls of the model.
        halvings: How often memory ran out and the budget was halved.
        dropped: For each prompt that was too long and shortened, how many demonstrations it lost, by its number.
    """

    sequences: int = 0
    tokens: int = 0
    distinct: int = 0
    computed: int = 0
    padding: int = 0
    calls: int = 0
    halvings: int = 0
    dropped: dict[int, int] = field(default_factory=dict)

    def add(self, other: RunReport) -> None:
        """Count another run into this one; the dropped demonstrations are those of this one."""
        for name in self.__slots__[:-1]:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class Pick:
    """Indexes of the hidden states of one sequence among those of a batch.

    Attributes:
        number: Number of the sequence.
        indexes: Indexes into the batch's states, one for each wanted position, in order.
    """

    number: int
    indexes: tuple[int, ...]


@dataclass(slots=True)
class _PrefixCache:
    """The one cached prefix, grown and cut as the plan goes on."""

    tokens: tuple[int, ...] = ()
    cache: object = None


class BatchRunner:
    """Runs token sequences through a model within a budget.

    Args:
        forward: The model.
        token_budget: Most positions in one call.
        prefix_reuse: Whether shared prefixes are computed once (where the model can do it).
        cache_from: Shortest prefix, in tokens, that is kept in a cache of its own.
    """

    def __init__(self, forward: Forward, token_budget: int, prefix_reuse: bool = True, cache_from: int = 256) -> None:
        self.forward = forward
        self.budget = token_budget
        self.cache_from = cache_from
        self.prefix_reuse = prefix_reuse
        self._prefix = _PrefixCache()

    @property
    def held(self) -> tuple[int, ...]:
        """The cached prefix that is kept for the next call; empty if there is none."""
        return self._prefix.tokens

    def release(self) -> None:
        """Forget the cached prefix, and free its memory."""
        self._prefix = _PrefixCache()

    def run(
        self,
        sequences: Sequence[tuple[int, ...]],
        wanted_from: Sequence[int],
        read: Callable[[Hidden, Sequence[Pick]], None],
    ) -> RunReport:
        """Compute the hidden states at the last positions of each sequence.

        Args:
            sequences: Token sequences, none empty.
            wanted_from: For each, the first position whose hidden state is wanted; all after it are wanted too.
            read: Called with the states of a batch and the indexes of each sequence. May be called again for a sequence
                if memory ran out inside it.

        Returns:
            What was done.

        Raises:
            OutputError: Memory runs out even for one sequence at a time.
        """
        counts = RunReport(
            sequences=len(sequences),
            tokens=sum(len(sequence) for sequence in sequences),
            distinct=distinct_positions(sequences),
        )
        self._persist(len(sequences), lambda todo: self._pass(sequences, wanted_from, todo, read, counts), counts)
        return counts

    def _persist(self, count: int, attempt: Callable[[list[int]], Iterator[int]], counts: RunReport) -> None:
        """Attempt until all of ``count`` are done, with half the budget each time that memory runs out.

        Args:
            count: How many there are.
            attempt: Given the numbers that are not done, does them and yields the number of each one that is.
            counts: Counted into.
        """
        todo = list(range(count))
        while todo:
            failed: str | None = None
            done: set[int] = set()
            try:
                with self.forward.fast():
                    for number in attempt(todo):
                        done.add(number)
            except BaseException as error:  # an interrupt, too, may have come when the cache had grown already
                if not is_out_of_memory(error):
                    self.release()
                    raise
                failed = str(error) or type(error).__name__
            todo = [number for number in todo if number not in done]
            if failed is not None and todo:
                # Outside the handler, so that the traceback no longer holds the tensors.
                self._halve(failed, counts)

    def continue_rows(
        self,
        sequences: Sequence[tuple[int, ...]],
        grow: Callable[[Row, object, list[int]], dict[int, list[int]]],
        counts: RunReport,
    ) -> list[list[int]]:
        """Plan sequences over cached prefixes and let ``grow`` continue each row in the cache.

        Args:
            sequences: Token sequences, none empty.
            grow: Given a row, the cache of its prefix and the places of its sequences among all, returns something for
                each sequence number of the row; it may let the cache grow.
            counts: Counted into.

        Returns:
            What ``grow`` returned, in the order of the sequences.
        """
        found: dict[int, list[int]] = {}

        def attempt(todo: list[int]) -> Iterator[int]:
            for stage in self.stages_to_continue([sequences[i] for i in todo], self.held):
                for row in stage.rows:
                    self._to_prefix(stage.prefix, counts)
                    cache = self._prefix.cache
                    grown = grow(row, cache, [todo[number] for number, _ in row.ends])
                    self.forward.cut(cache, self.forward.length(cache) - len(stage.prefix))
                    for number, value in grown.items():
                        found[todo[number]] = value
                        yield todo[number]

        self._persist(len(sequences), attempt, counts)
        return [found[number] for number in range(len(sequences))]

    def _halve(self, reason: str, counts: RunReport) -> None:
        self.release()
        if self.budget <= LEAST_BUDGET:
            raise OutputError(
                f"memory ran out even with a budget of {self.budget} token positions ({reason}); "
                "use a smaller model, a smaller number type, shorter prompts, or a device with more memory"
            )
        self.budget = max(LEAST_BUDGET, self.budget // 2)
        counts.halvings += 1
        _log.warning("memory ran out (%s); going on with %d token positions at a time", reason, self.budget)
        if self.forward.device.type == "cuda":
            self.forward.torch.cuda.empty_cache()

    def _pass(
        self,
        sequences: Sequence[tuple[int, ...]],
        wanted_from: Sequence[int],
        todo: Sequence[int],
        read: Callable[[Hidden, Sequence[Pick]], None],
        counts: RunReport,
    ) -> Iterator[int]:
        """One plan for what is to do, carried out; yields the number of each sequence that is answered."""
        for share in (True, False):
            part = [i for i in todo if self.shares(sequences[i]) is share]
            wanted = [wanted_from[i] for i in part]
            for stage in self.stages([sequences[i] for i in part], wanted, share, self.held):
                for rows, hidden in self._stage(stage, share, counts):
                    picks, states = self._select(rows, hidden, wanted)
                    read(states, [Pick(part[pick.number], pick.indexes) for pick in picks])
                    yield from (part[pick.number] for pick in picks)

    def shares(self, sequence: tuple[int, ...]) -> bool:
        """Whether a sequence may share what it begins with."""
        forward = self.forward
        return self.prefix_reuse and forward.can.packing and len(sequence) <= forward.exact_to

    def stages(
        self, sequences: Sequence[tuple[int, ...]], wanted_from: Sequence[int], share: bool, held: tuple[int, ...]
    ) -> tuple[Stage, ...]:
        """Plan sequences that share what they begin with, or do not, given the cached prefix."""
        can = self.forward.can
        return plan(
            sequences,
            wanted_from,
            row_tokens=self.budget,
            attention_weight=can.attention_weight,
            share=share,
            cache_from=self.cache_from if share and can.caching else None,
            resident=held,
        )

    def stages_to_continue(self, sequences: Sequence[tuple[int, ...]], held: tuple[int, ...]) -> tuple[Stage, ...]:
        """Plan sequences whose rows are continued in the cache, given the cached prefix."""
        return plan(
            sequences,
            [len(sequence) - 1 for sequence in sequences],
            row_tokens=self.budget,
            attention_weight=self.forward.can.attention_weight,
            share=self.prefix_reuse,
            cache_from=self.cache_from if self.prefix_reuse else None,
            resident=held,
            call_cost=GENERATION_COST,
        )

    def _stage(self, stage: Stage, share: bool, counts: RunReport) -> Iterator[tuple[Sequence[Row], Hidden]]:
        forward = self.forward
        if stage.prefix:
            self._to_prefix(stage.prefix, counts)
            for row in stage.rows:
                size = len(row.tokens)
                hidden = forward.over(row, self._prefix.cache)
                forward.cut(self._prefix.cache, size)
                counts.calls += 1
                counts.computed += size
                yield [row], hidden
            return
        flat = share and forward.can.flat
        for batch in self.batches(stage.rows, flat):
            if flat:
                hidden = forward.flat(batch)
            elif batch[0].is_chain:
                hidden = forward.chains([row.tokens for row in batch])
            else:
                hidden = forward.trees(batch)
            computed = sum(len(row.tokens) for row in batch)
            counts.calls += 1
            counts.computed += computed
            counts.padding += hidden.states.shape[:2].numel() - computed
            yield batch, hidden

    def batches(self, rows: Sequence[Row], flat: bool) -> Iterator[list[Row]]:
        """Batches of rows without a prefix; a flat one may mix chains and trees."""
        if flat:
            yield from self._batches(rows, True)
            return
        for chain in (True, False):
            yield from self._batches([row for row in rows if row.is_chain is chain], False)

    def _batches(self, rows: Sequence[Row], flat: bool) -> Iterator[list[Row]]:
        """Rows of about the same length, longest first, each batch within the budget.

        Once a batch is large enough to keep the machine busy, it is closed rather than padded. A flat batch needs no
        padding.
        """
        batch: list[Row] = []
        for row in sorted(rows, key=lambda row: -len(row.tokens)):
            size = len(row.tokens)
            longest = len(batch[0].tokens) if batch else size
            # Models that stretch their positions for long input do so for the whole batch.
            close = self.forward.can.plain or (longest > self.forward.same_to and size != longest)
            if flat:
                close = close or sum(len(row.tokens) for row in batch) + size > self.budget
            else:
                close = close or (len(batch) + 1) * longest > self.budget
                close = close or (len(batch) * longest * BUSY_SHARE >= self.budget and size < longest * LEAST_FILL)
            if batch and close:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _to_prefix(self, prefix: tuple[int, ...], counts: RunReport) -> None:
        """Grow or cut the cached prefix."""
        forward, held = self.forward, self._prefix
        if held.cache is None:
            held.cache = forward.new_cache()
        shared = shared_length(held.tokens, prefix)
        forward.cut(held.cache, len(held.tokens) - shared)
        held.tokens = prefix[:shared]
        while len(held.tokens) < len(prefix):
            start = len(held.tokens)
            piece = prefix[start : start + self.budget]
            forward.extend(piece, held.cache)
            held.tokens = prefix[: start + len(piece)]
            counts.calls += 1
            counts.computed += len(piece)

    def _select(self, rows: Sequence[Row], hidden: Hidden, wanted_from: Sequence[int]) -> tuple[list[Pick], Hidden]:
        """The wanted positions of a batch, each once, and the indexes of each sequence among them."""
        # One after the other in one sequence, or one below the other.
        sizes = [len(row.tokens) if hidden.states.shape[0] == 1 else hidden.states.shape[1] for row in rows]
        starts = accumulate(sizes, initial=0)
        places: dict[int, int] = {}
        picks: list[Pick] = []
        for row, start in zip(rows, starts, strict=False):
            for number, end in row.ends:
                path = row.path(end, wanted_from[number])
                flat = [start + position for position in path]
                picks.append(Pick(number, tuple(places.setdefault(place, len(places)) for place in flat)))
        torch = self.forward.torch
        with torch.inference_mode():
            order = torch.tensor(list(places), device=hidden.states.device)
            states = hidden.states.flatten(0, 1)[order]
            logits = None if hidden.logits is None else hidden.logits.flatten(0, 1)[order]
        return picks, Hidden(states, logits)


CHUNK = 1 << 23
"""Most logits that are held at once where only sums over the vocabulary are wanted."""
SHARE = 0.02
"""Prompts are compared as long as their tokens are at most this share of the batch, but one at least."""
MOST = 3
"""Most prompts that are compared."""
LONG = 512
"""A prompt of more tokens is compared in full only if it is no more than a tenth of the batch."""
TAILS = 2
"""Long prompts that are compared."""
TAIL = 64
"""Tokens at the end of long prompts that are compared instead."""
LOGITS = 1 << 27
"""Most logits that a plain call may compute."""


def _units(forward: Forward, found: Any, expected: Any, logits: Any) -> float:
    """Largest difference of log-probabilities, in units of what rounding may do to logits of this size."""
    spread = float((logits - logits.mean(-1, keepdim=True)).abs().max())
    if not math.isfinite(spread):
        return 0.0  # an error later: scores that are not finite have no meaning
    rounding = 1e-4 if forward.dtype_name in ("float32", "float64") else 3e-2
    error = float((found.double().cpu() - expected.double().cpu()).abs().max())
    return error / (rounding * max(1.0, spread)) if math.isfinite(error) else math.inf


def _pieces(forward: Forward, hidden: Hidden) -> list[tuple[int, Hidden]]:
    """Hidden states cut into pieces whose logits fit into memory, with the index where each begins."""
    step = max(1, CHUNK // forward.can.vocabulary)
    count = hidden.states.shape[0]
    return [
        (
            start,
            Hidden(
                hidden.states[start : start + step],
                None if hidden.logits is None else hidden.logits[start : start + step],
            ),
        )
        for start in range(0, count, step)
    ]


class LastPosition:
    """Reads the last position of each sequence.

    The hidden states are gathered first and the output matrix is applied to all of them together at the end:
    reading a matrix of the size of the vocabulary once for a few positions costs as much as for many.

    Args:
        forward: The model.
        count: Number of sequences.
    """

    def __init__(self, forward: Forward, count: int) -> None:
        self.forward = forward
        self._states: list[Any] = [None] * count
        self._logits: list[Any] = [None] * count

    def read(self, hidden: Hidden, picks: Sequence[Pick]) -> None:
        """Read a batch."""
        for pick in picks:
            self._states[pick.number] = hidden.states[pick.indexes[-1]]
            if hidden.logits is not None:
                self._logits[pick.number] = hidden.logits[pick.indexes[-1]]

    def _hidden(self) -> Hidden:
        stack = self.forward.torch.stack
        return Hidden(stack(self._states), stack(self._logits) if self._logits[0] is not None else None)

    def deviation(self, number: int, logits: Any) -> float:
        """Largest difference to the logits of a plain call, in units of what rounding may do.

        Args:
            number: The sequence.
            logits: Its logits, (positions, vocabulary).
        """
        torch, forward = self.forward.torch, self.forward
        own = self._logits[number]
        hidden = Hidden(self._states[number][None], None if own is None else own[None])
        expected = logits[-1].log_softmax(-1)
        top = expected.topk(min(16, len(expected))).indices.tolist()
        with torch.inference_mode(), forward.fast():
            whole = forward.logits(hidden)[0].log_softmax(-1)
            rows = forward.logits(hidden, top)[0].log_softmax(-1)
        return max(
            _units(forward, whole[top], expected[top], logits[-1]),
            _units(forward, rows, expected[top].log_softmax(-1), logits[-1]),
        )

    def states(self) -> Any:
        """Hidden states, a float32 tensor (sequences, width) on the CPU."""
        return self._hidden().states.float().cpu()

    def whole(self) -> Any:
        """Logits of the whole vocabulary, a float32 tensor (sequences, vocabulary) on the CPU."""
        torch = self.forward.torch
        with torch.inference_mode(), self.forward.fast():
            return torch.cat([self.forward.logits(piece).cpu() for _, piece in _pieces(self.forward, self._hidden())])

    def labels(self, tokens: Sequence[int], mass: bool) -> tuple[list[list[float]], list[float] | None]:
        """Logits of some tokens.

        Args:
            tokens: The tokens, one for each label.
            mass: Whether the probability of all the tokens together is wanted, each distinct token counted once. Needs
                the whole vocabulary.

        Returns:
            A row of logits for each sequence, and the natural logarithm of that probability for each, or None.
        """
        torch = self.forward.torch
        hidden = self._hidden()
        with torch.inference_mode(), self.forward.fast():
            logits = self.forward.logits(hidden, tokens).double().cpu()
            rows: list[list[float]] = logits.tolist()
            if not mass:
                return rows, None
            distinct = sorted({token: index for index, token in enumerate(tokens)}.values())
            totals = [
                self.forward.logits(piece).logsumexp(-1).double().cpu() for _, piece in _pieces(self.forward, hidden)
            ]
            masses: list[float] = (logits[:, distinct].logsumexp(-1) - torch.cat(totals)).tolist()
        return rows, masses


def last_positions(runner: BatchRunner, sequences: Sequence[tuple[int, ...]]) -> tuple[LastPosition, RunReport]:
    """Compute the last position of each sequence; return it with the counts of the run."""
    reader = LastPosition(runner.forward, len(sequences))
    return reader, runner.run(sequences, [len(row) - 1 for row in sequences], reader.read)


class TokenLogProbabilities:
    """Reads the log-probability of each token of a sequence from a position on.

    Args:
        forward: The model.
        sequences: The token sequences.
        wanted_from: For each sequence, the position before the first token that is scored.
    """

    def __init__(self, forward: Forward, sequences: Sequence[tuple[int, ...]], wanted_from: Sequence[int]) -> None:
        self.forward = forward
        self.sequences = sequences
        self.wanted_from = wanted_from
        self.found: list[list[float]] = [[] for _ in sequences]

    def read(self, hidden: Hidden, picks: Sequence[Pick]) -> None:
        """Read a batch."""
        torch = self.forward.torch
        pairs: dict[tuple[int, int], int] = {}
        wanted: list[tuple[int, list[int]]] = []
        for pick in picks:
            targets = self.sequences[pick.number][self.wanted_from[pick.number] + 1 :]
            # The state at the last position predicts what follows the sequence, which is not needed.
            keys = zip(pick.indexes[: len(targets)], targets, strict=True)
            wanted.append((pick.number, [pairs.setdefault(key, len(pairs)) for key in keys]))
        if not pairs:
            return
        with torch.inference_mode():
            places = torch.tensor([place for place, _ in pairs], device=hidden.states.device)
            tokens = torch.tensor([token for _, token in pairs], device=hidden.states.device)
            needed, back = torch.unique(places, return_inverse=True)
            chosen = Hidden(hidden.states[needed], None if hidden.logits is None else hidden.logits[needed])
            values = torch.empty(len(pairs), dtype=torch.float64)
            for start, piece in _pieces(self.forward, chosen):
                logits = self.forward.logits(piece)
                inside = ((back >= start) & (back < start + logits.shape[0])).nonzero()[:, 0]
                totals = logits.logsumexp(-1)
                rows = back[inside] - start
                values[inside.cpu()] = (logits[rows, tokens[inside]] - totals[rows]).double().cpu()
            found = values.tolist()
        for number, indexes in wanted:
            self.found[number] = [found[index] for index in indexes]

    def deviation(self, number: int, logits: Any) -> float:
        """Largest difference to the logits of a plain call, as for :class:`LastPosition`."""
        start, sequence = self.wanted_from[number], self.sequences[number]
        targets = self.forward.torch.tensor(sequence[start + 1 :], device=logits.device)
        if not len(targets):
            return 0.0
        expected = logits[start : start + len(targets)].log_softmax(-1).gather(-1, targets[:, None])[:, 0]
        return _units(self.forward, self.forward.torch.tensor(self.found[number]), expected, logits)


R = TypeVar("R", LastPosition, TokenLogProbabilities)


def compute_checked(
    runner: BatchRunner, sequences: Sequence[tuple[int, ...]], compute: Callable[[], tuple[R, RunReport]]
) -> tuple[R, RunReport]:
    """Compute a batch; the first of a run is compared with ``model(input_ids)`` for a few of its prompts.

    If the log-probabilities differ by more than rounding, each prompt is run alone from then on.

    Args:
        runner: Runs the sequences.
        sequences: The token sequences.
        compute: Computes the batch as the runner may do it now.

    Returns:
        What ``compute`` returned, of the last time that it was called.
    """
    reader, counts = compute()
    forward = runner.forward
    if forward.record.checked or not sequences:
        return reader, counts
    numbers, tails = compared(runner, sequences, counts.computed)
    checked: LastPosition | TokenLogProbabilities = reader
    if tails:
        sequences, numbers = tails, list(range(len(tails)))
        checked = last_positions(runner, tails)[0]
    most = LOGITS // forward.can.vocabulary
    numbers = [number for number in numbers if len(sequences[number]) <= most]
    if not numbers:  # nothing was compared: the next batch is
        return reader, counts
    deviation = max(checked.deviation(number, forward.plain_logits(sequences[number])) for number in numbers)
    if deviation <= 1.0:
        forward.record.checked = True
        return reader, counts
    name = type(forward.model).__name__
    problem = f"batches differ from single calls of the model ({deviation:.1f} times what rounding may do)"
    if forward.compiled is not None:  # the identity says that they are used
        raise RunEndingError(f"got compile=True, but with compiled layers of {name} {problem}. Leave the option out")
    _log.warning("%s: %s; each prompt is run alone", name, problem)
    forward.record.run_plainly(problem)
    runner.release()
    return compute()


def compared(
    runner: BatchRunner, sequences: Sequence[tuple[int, ...]], computed: int
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the numbers of the sequences that are compared, or, if they are long, ends of sequences.

    Args:
        runner: Runs the sequences.
        sequences: Those of the first batch.
        computed: Positions that were computed for them.
    """
    by_length = sorted(range(len(sequences)), key=lambda number: len(sequences[number]))
    shortest = len(sequences[by_length[0]])
    if shortest > LOGITS // runner.forward.can.vocabulary or (shortest > LONG and shortest > computed / 10):
        return [], [sequences[number][-TAIL:] for number in by_length[:TAILS]]
    chosen, used = by_length[:1], shortest
    for number in by_length[1:MOST]:
        used += len(sequences[number])
        if used <= SHARE * computed:
            chosen.append(number)
    return chosen, []
