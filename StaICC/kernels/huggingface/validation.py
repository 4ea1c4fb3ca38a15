"""Comparing the results of shortcuts with plain calls of the model, on prompts of the run.

A kernel packs prompts that begin alike, caches prefixes, computes a few rows of the output matrix, and may use another
library for matrix products. The first batch of every run is compared with ``model(input_ids)`` for a few of its
prompts. If the log-probabilities differ by more than rounding, the shortcut that causes it is found by leaving out one
after the other; it is not used any more, and the batch is computed again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from StaICC.errors import RunEndingError
from StaICC.kernels.huggingface.batching import BatchRunner, Counts
from StaICC.kernels.huggingface.capabilities import SHORTCUTS
from StaICC.kernels.huggingface.readout import LastPosition, TokenLogProbabilities, last_positions

SHARE = 0.02
"""Prompts are compared as long as their tokens are at most this share of the batch, but one at least."""
MOST = 3
"""Most prompts that are compared."""
LONG = 512
"""A prompt of more tokens is compared in full only if it is no more than a tenth of the batch."""
TAIL = 128
"""Tokens at the end of long prompts that are compared instead."""
LOGITS = 1 << 27
"""Most logits that a plain call may compute."""

_log = logging.getLogger(__name__)


R = TypeVar("R", LastPosition, TokenLogProbabilities)


def compute_checked(
    runner: BatchRunner,
    sequences: Sequence[tuple[int, ...]],
    compute: Callable[[], tuple[R, Counts]],
) -> tuple[R, Counts]:
    """Compute a batch; if it is the first of a run, compare it with plain calls and leave out what differs.

    Args:
        runner: Runs the sequences.
        sequences: The token sequences.
        compute: Computes the batch with the shortcuts that the runner may use now.

    Returns:
        What ``compute`` returned, of the last time that it was called.
    """
    found, counts = compute()
    record = runner.forward.record
    if record.checked or not sequences:
        return found, counts
    chosen, tails = compared(runner, sequences, counts.computed)
    if tails:
        _check(runner, tails, range(len(tails)), lambda: last_positions(runner, tails))
        if record.reasons:
            found, counts = compute()
        return found, counts
    again = _check(runner, sequences, chosen, compute, (found, counts))
    return (found, counts) if again is None else again


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
        return [], [sequences[number][-TAIL:] for number in by_length[:MOST]]
    chosen, used = by_length[:1], shortest
    for number in by_length[1:MOST]:
        used += len(sequences[number])
        if used <= SHARE * computed:
            chosen.append(number)
    return chosen, []


def _check(
    runner: BatchRunner,
    sequences: Sequence[tuple[int, ...]],
    chosen: Sequence[int],
    compute: Callable[[], tuple[Any, Counts]],
    result: tuple[Any, Counts] | None = None,
) -> Any:
    """Compare a result with plain calls; if it differs, find the shortcut and return what is computed without it."""
    record = runner.forward.record
    most = LOGITS // runner.forward.can.vocabulary
    expected = {
        number: runner.forward.plain_logits(sequences[number]) for number in chosen if len(sequences[number]) <= most
    }

    def deviation(found: Any) -> float:
        return max((float(found.deviation(number, logits)) for number, logits in expected.items()), default=0.0)

    if not expected:  # nothing was compared: the next batch is
        return None
    first = deviation((result or compute())[0])
    if first > 1.0 and runner.forward.compiled is not None:  # the identity says that they are used
        raise RunEndingError(
            f"got compile=True, but batches of {type(runner.forward.model).__name__} with compiled layers differ from "
            f"single calls of the model ({first:.1f} times what rounding may do). Leave the option out"
        )
    record.checked = True
    if first <= 1.0:
        return None
    whole = record.can
    single = [name for name in SHORTCUTS if whole.uses(name) and whole.without(name) != whole.without("batches")]
    for name in [*single, "batches"]:
        record.can = whole.without(name)
        runner.release()
        again = compute()
        if deviation(again[0]) <= 1.0:
            break
    for name in SHORTCUTS:
        if whole.uses(name) and not record.can.uses(name):
            record.reasons[name] = "not used: differs from plain calls of the model on prompts of this run"
    _log.warning(
        "%s: the results of batches differ from those of single calls of the model (%.1f times what rounding may do); "
        "not used: %s",
        type(runner.forward.model).__name__,
        first,
        ", ".join(record.reasons),
    )
    return again
