"""What the batch runner will compute, from its own plans and without the model."""

from __future__ import annotations

from collections.abc import Sequence

from StaICC.inference.workload import Held
from StaICC.kernels.huggingface.batching import BatchRunner
from StaICC.kernels.huggingface.prefix_plan import shared_length
from StaICC.kernels.huggingface.validation import compared

Tokens = tuple[int, ...]


class Foresight:
    """Follows the calls of a batch runner, which keeps a cached prefix from one to the next.

    Args:
        runner: The batch runner; it is not changed.
        held: What is cached before the first call; None for what is cached now.
    """

    def __init__(self, runner: BatchRunner, held: Held | None = None) -> None:
        self.runner = runner
        held = held or Held(runner.held, runner.forward.record.checked)
        self.prefix, self._checked = held.prefix, held.checked or runner.forward.can.plain
        self.positions = self.calls = 0
        self.effort = 0.0
        """Cost of the positions and of attention, in positions of a short prompt."""

    def _count(self, positions: int, keys: int, calls: int = 1, padding: int = 0) -> None:
        """Count calls that compute positions, each of which attends to some keys."""
        self.calls, self.positions = self.calls + calls, self.positions + positions
        self.effort += padding + positions * (1 + self.runner.forward.can.attention_weight * keys)

    def _to_prefix(self, prefix: Tokens) -> None:
        kept = shared_length(self.prefix, prefix)
        pieces = -(-(len(prefix) - kept) // self.runner.budget)
        self._count(len(prefix) - kept, (len(prefix) + kept) // 2, pieces)
        self.prefix = prefix

    def run(
        self,
        sequences: Sequence[Tokens],
        wanted_from: Sequence[int] | None = None,
        whole: Sequence[Tokens] | None = None,
    ) -> None:
        """Count a run over sequences.

        Args:
            sequences: What is computed.
            wanted_from: As for :meth:`BatchRunner.run`; None for the last positions.
            whole: The sequences with their last tokens, which are scored; None if these are the same.
        """
        runner, before = self.runner, self.positions
        wanted = [len(row) - 1 for row in sequences] if wanted_from is None else wanted_from
        for share in (True, False):
            part = [i for i, row in enumerate(sequences) if runner.shares(row) is share]
            for stage in runner.stages([sequences[i] for i in part], [wanted[i] for i in part], share, self.prefix):
                if stage.prefix:
                    self._to_prefix(stage.prefix)
                    for row in stage.rows:
                        self._count(len(row.tokens), len(row.tokens) + row.base)
                    continue
                flat = share and runner.forward.can.flat
                for batch in runner.batches(stage.rows, flat):
                    sizes = [len(row.tokens) for row in batch]
                    self._count(0, 0, 1, 0 if flat else max(sizes) * len(sizes) - sum(sizes))
                    for row in batch:
                        chain = row.chain if flat or row.is_chain else 0  # without a mask, attention is faster
                        self._count(chain, chain // 4, 0)
                        self._count(len(row.tokens) - chain, len(row.tokens), 0)
        if not self._checked and sequences:
            self._checked = True
            whole = sequences if whole is None else whole
            chosen, tails = compared(runner, whole, self.positions - before)
            if tails:
                self.run(tails)
            for one in tails or [whole[i] for i in chosen]:
                self._count(0, 0, 1, len(one))

    def generate(self, sequences: Sequence[Tokens], most: int) -> None:
        """Count the continuation of sequences by ``most`` tokens each; ``positions`` are those of the prompts."""
        if not self._checked:
            self.run(sequences[:4])
        forward = self.runner.forward
        if not forward.can.caching or max(map(len, sequences)) + most > forward.exact_to:
            for _ in range(most):
                self.run(sequences)
            return
        for stage in self.runner.stages_to_continue(sequences, self.prefix):
            self._to_prefix(stage.prefix)
            for row in stage.rows:
                keys = len(row.tokens) + row.base
                self._count(len(row.tokens), keys)
                before = self.positions
                self._count((most - 1) * len(row.ends), keys, most - 1)
                self.positions = before
