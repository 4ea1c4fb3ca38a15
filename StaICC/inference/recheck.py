"""Counting the predictions of a run, and computing some of the reused ones again.

When a run reuses stored predictions and also computes new ones, 1 % of the reused (at least 3) are computed again
before the first new one. A prediction that differs by more than the tolerance that the kernel declares ends the run:
the stored predictions are not those of this inference function.

Which ones are computed again depends on their digests alone. It is the same in every process and with any number of
workers. A run that is complete in the store computes nothing.
"""

from __future__ import annotations

import functools
import heapq
import logging
import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from StaICC.errors import IdentityError
from StaICC.inference.code_identity import facts_of
from StaICC.inference.contract import Answer, Inference, own_attribute
from StaICC.inference.run_record import RunCounts
from StaICC.inference.store_format import query_key
from StaICC.prompting import Prompt

TOLERANCE = 1e-6
"""Largest difference of a number, relative to numbers above 1, that a recheck accepts by default."""

_LEAST = 3
_SHARE = 100  # one of this many
_SHOWN = 300

_Key = tuple[Prompt, tuple[str, ...]]

_LOG = logging.getLogger(__name__)


@runtime_checkable
class DeclaresTolerance(Protocol):
    """A kernel that says by how much its numbers may differ when they are computed again."""

    @property
    def recheck_tolerance(self) -> float | None:
        """Largest difference; ``None`` if its predictions may change, so that a difference is only a warning."""


def tolerance_of(function: Inference) -> float | None:
    """Return by how much the numbers of an inference function may differ when they are computed again.

    Args:
        function: The inference function.

    Returns:
        The declared tolerance: the attribute ``recheck_tolerance``, or for a :func:`functools.partial` the result of
        ``function.recheck_tolerance_for(**keywords)``. A function that declares none has the largest one of the kernels
        that it refers to (in its closure, globals, defaults, arguments or attributes); without a kernel,
        :data:`TOLERANCE`.
    """
    own = _declared(function)
    if own:
        return own[0]
    if isinstance(function, functools.partial) and hasattr(function.func, "identity_for"):
        return TOLERANCE
    found: list[float | None] = []

    def collect(value: object) -> tuple[str, tuple[str, ...]] | None:
        declared = _declared(value)
        found.extend(declared)
        return ("", ()) if declared or hasattr(type(value), "identity") else None  # do not look into kernels

    facts_of(function, collect)
    return None if None in found else max((one for one in found if one is not None), default=TOLERANCE)


def _declared(function: object) -> tuple[float | None, ...]:
    """Return the tolerance that a function declares; nothing if it declares none."""
    if isinstance(function, functools.partial):
        of_partials = own_attribute(function.func, "recheck_tolerance_for")
        if callable(of_partials) and not function.args:
            return (of_partials(**function.keywords),)
        return _declared(function.func)
    return (function.recheck_tolerance,) if isinstance(function, DeclaresTolerance) else ()


def _differ(one: Answer, other: Answer, tolerance: float) -> bool:
    if not (isinstance(one, list) and isinstance(other, list)):
        return one != other
    return len(one) != len(other) or any(
        not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance) for a, b in zip(one, other, strict=True)
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"


class RunCounter:
    """Counts the predictions of one inference function over a run.

    Args:
        tolerance: By how much rechecked numbers may differ; ``None``: a difference is only a warning.
        recheck: Whether to recheck reused predictions.

    Attributes:
        counts: The counts.
        replies: Whether a prediction is a reply, whose label the parser finds.
    """

    def __init__(self, tolerance: float | None = TOLERANCE, recheck: bool = True) -> None:
        self.counts = RunCounts()
        self.replies = False
        self._tolerance = tolerance
        self._recheck = recheck
        self._candidates: dict[bytes, tuple[_Key, tuple[Answer, str]]] = {}
        self._done = 0

    def add(self, computed: int = 0, failed: int = 0, retried: int = 0) -> None:
        """Count computed predictions, queries without one, and requests that workers sent again."""
        self.counts += RunCounts(computed=computed, failed=failed, retried=retried)

    def reuse(self, stored: Mapping[_Key, Answer], part: str) -> None:
        """Count predictions of a part that come from the store, and keep those that may be rechecked."""
        self.counts += RunCounts(reused=len(stored))
        if self._recheck and stored:
            chosen = heapq.nsmallest(
                _wanted(len(stored)), ((query_key(*key), key) for key in stored), lambda pair: pair[0]
            )
            self._candidates.update((rank, (key, (stored[key], part))) for rank, key in chosen)

    def due(self) -> dict[_Key, tuple[Answer, str]]:
        """Return the reused predictions to compute again now, each with its stored value and its part of the run."""
        if not self._recheck:
            return {}
        number = max(0, min(_wanted(self.counts.reused) - self._done, len(self._candidates)))
        chosen = [self._candidates.pop(rank) for rank in heapq.nsmallest(number, self._candidates)]
        self._done += number
        return dict(chosen)

    def compare(self, query: _Key, stored: Answer, again: Answer, part: str) -> None:
        """Count a prediction that was computed again.

        Raises:
            IdentityError: It differs from the stored one by more than the tolerance.
        """
        self.counts += RunCounts(rechecked=1)
        if not _differ(stored, again, self._tolerance if self._tolerance is not None else TOLERANCE):
            return
        prompt = query[0] if isinstance(query[0], str) else query[0][0]
        found = f"{part}: the store has {_short(stored)} for the prompt that ends with {prompt[-60:]!r}"
        if self._tolerance is None:
            _LOG.warning("%s, computed again it is %s. This kernel's predictions may change.", found, _short(again))
            return
        raise IdentityError(
            f"{found}, but computed again it is {_short(again)} (accepted difference: {self._tolerance:g}). The stored "
            "predictions are not those of this inference function, or it is not deterministic. Use another store or "
            "model_name, or recheck=False to reuse them without this check"
        )


def _wanted(reused: int) -> int:
    return min(reused, max(_LEAST, math.ceil(reused / _SHARE)))
