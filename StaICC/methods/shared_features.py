"""Features that several methods ask of a data set, computed together before any of them has run."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.inference.replies import OnError
from StaICC.inference.runner import Part
from StaICC.methods.costs import SECONDS, TOKENS_GENERATED, TOKENS_READ, Costs
from StaICC.methods.model_caches import ModelCaches
from StaICC.methods.requests import Request, is_named
from StaICC.safe_text import logger

_log = logger(__name__)

FirstRequests = Callable[[BaseExperimentor], Sequence[Request]]
"""Returns what a method asks first on a data set."""

_SHARED_NAMES = {
    SECONDS["test"]: "seconds",
    TOKENS_READ["test"]: "tokens_read",
    TOKENS_GENERATED["test"]: "tokens_generated",
}
"""What a table shows of the costs, by their names in the costs of a method."""


class SharedFeatures:
    """Computes what the first steps of several methods ask, data set by data set.

    Args:
        caches: Keep the features for the methods.
        runs: For each method what returns the requests of its first step on a data set, and its benchmark.
        same_data: Whether all have one benchmark; else prompts that fail do not stop the others.

    Attributes:
        cost: What computing took, without the methods' own costs.
    """

    def __init__(self, caches: ModelCaches, runs: Sequence[tuple[FirstRequests, Any]], same_data: bool) -> None:
        self.cost: dict[str, float] = defaultdict(float, prompts=0)
        self._caches = caches
        self._runs = runs
        self._same_data = same_data
        self._done: list[BaseExperimentor] = []

    def compute(self, experimentor: BaseExperimentor, part: Part) -> None:
        """Compute the features of one data set, unless that was done; failures are left to the methods."""
        if experimentor in self._done or len(self._runs) < 2:
            return
        requests = self._shared_requests(experimentor)
        costs = Costs(self._caches)
        computed_before = self._caches.computed
        shown_part = replace(part, name=f"features of {len(self._runs)} runs: {experimentor.name}")
        policy: OnError | None = None if self._same_data else "collect"
        try:
            self._caches.rows(requests, shown_part, policy)
        except Exception as error:
            _log.warning("%s: features could not be computed for all runs together: %s", experimentor.name, error)
        costs.charge("test")

        self.cost["prompts"] += self._caches.computed - computed_before
        timing = costs.timing()
        for cost, shown_name in _SHARED_NAMES.items():
            if cost in timing:
                self.cost[shown_name] += timing[cost]

    def _shared_requests(self, experimentor: BaseExperimentor) -> list[Request]:
        """Return what all runs ask first on a data set of this name, and note that it is done.

        Requests about a further model are left out: its method asks it, and gets its tokens.
        """
        requests: list[Request] = []
        for first_requests, benchmark in self._runs:
            own_experimentor = experimentor if self._same_data else benchmark[experimentor.name]
            self._done.append(own_experimentor)
            with contextlib.suppress(Exception):  # the run of the method reports it
                for request in first_requests(own_experimentor):
                    if is_named(request.feature) and request.kernel is None:
                        requests.append(request)
        return requests
