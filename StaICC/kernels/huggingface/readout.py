"""What is read off the hidden states of a batch: label logits, whole distributions, log-probabilities of tokens.

Each reader has a method ``read(hidden, picks)`` that the batch runner calls, and holds the results of all sequences in
order. Results are written by sequence number, so reading a sequence twice changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from StaICC.kernels.huggingface.batching import BatchRunner, Counts, Pick
from StaICC.kernels.huggingface.forward import Forward
from StaICC.kernels.huggingface.model_calls import Hidden

CHUNK = 1 << 23
"""Most logits that are held at once where only sums over the vocabulary are wanted."""


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


def last_positions(runner: BatchRunner, sequences: Sequence[tuple[int, ...]]) -> tuple[LastPosition, Counts]:
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
            # The state at the last position predicts what follows the sequence, which nobody asked for.
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
