"""Features of a data set that several methods need, computed together before any of them has run."""

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
"""Returns the first requests of a method on a data set."""

_SHARED_NAMES = {
    SECONDS["test"]: "seconds",
    TOKENS_READ["test"]: "tokens_read",
    TOKENS_GENERATED["test"]: "tokens_generated",
}
"""The names of shared costs in a table of methods, by the names of such costs in the timing of a method."""


class SharedFeatures:
    """Computes the first requests of several methods together, data set by data set.

    Attributes:
        cost: What computing took, without the methods' own costs.
    """

    def __init__(self, caches: ModelCaches, runs: Sequence[tuple[FirstRequests, Any]], same_data: bool) -> None:
        """Begin with costs of 0; nothing is computed yet.

        Args:
            caches: Keep the features, so that the methods find them there.
            runs: For each method a function that returns its first requests on a data set, and its benchmark.
            same_data: Whether all methods have the same benchmark. If not, a prompt that fails does not stop the
                others.
        """
        self.cost: dict[str, float] = defaultdict(float, prompts=0)
        self._caches = caches
        self._runs = runs
        self._same_data = same_data
        self._done: list[BaseExperimentor] = []

    def compute(self, experimentor: BaseExperimentor, part: Part) -> None:
        """Compute the first requests of all methods on a data set, and add the cost; do nothing if that was done.

        If it fails, the error is logged, and each method computes its own requests later.

        Args:
            experimentor: The data set.
            part: Name and number of this part of the run, for progress.
        """
        if experimentor in self._done or len(self._runs) < 2:
            return
        requests = self._shared_requests(experimentor)
        costs = Costs(self._caches)
        computed_before = self._caches.computed
        part_of_all_runs = replace(part, name=f"features of {len(self._runs)} runs: {experimentor.name}")
        policy: OnError | None = None if self._same_data else "collect"
        try:
            self._caches.rows(requests, part_of_all_runs, policy)
        except Exception as error:
            _log.warning("%s: features could not be computed for all runs together: %s", experimentor.name, error)
        costs.charge("test")

        self.cost["prompts"] += self._caches.computed - computed_before
        timing = costs.timing()
        for name_in_timing, shown_name in _SHARED_NAMES.items():
            if name_in_timing in timing:
                self.cost[shown_name] += timing[name_in_timing]

    def _shared_requests(self, experimentor: BaseExperimentor) -> list[Request]:
        """Return the first requests of all methods on a data set, and remember that they are computed.

        Only features that the kernel of the methods computes itself are shared. A function or another model belongs to
        one method, which pays for its tokens.

        Args:
            experimentor: The data set. If the methods have different benchmarks, each has one of the same name.
        """
        requests: list[Request] = []
        for first_requests, benchmark in self._runs:
            experimentor_of_run = experimentor if self._same_data else benchmark[experimentor.name]
            self._done.append(experimentor_of_run)
            with contextlib.suppress(Exception):  # the run of the method reports it
                for request in first_requests(experimentor_of_run):
                    if is_named(request.feature) and request.kernel is None:
                        requests.append(request)
        return requests
