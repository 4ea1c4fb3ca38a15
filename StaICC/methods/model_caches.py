"""The features of all models that methods ask: the kernel of the methods, with further models in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.benchmarks.context import RunContext
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.replies import Failure, OnError, Unparsed
from StaICC.inference.runner import Part, predict_queries
from StaICC.methods.features import FeatureCache
from StaICC.methods.requests import Request


@dataclass(frozen=True, slots=True)
class _Run:
    """The run that the caches belong to now: arguments of :meth:`ModelCaches.start`."""

    context: RunContext
    recheck: bool | None
    unparsed: Unparsed


class ModelCaches:
    """A cache of features for each model.

    Attributes:
        main: The cache of the kernel of the methods.
        further: The caches of further models that methods asked, in the order in which they were asked first.
    """

    def __init__(self, kernel: Inference, compute: Callable[..., Sequence[Answer | Failure]] = predict_queries) -> None:
        """Make the cache of the kernel; those of further models are made when a method first asks them.

        Args:
            kernel: The kernel of the methods.
            compute: Evaluates an inference function on queries, as
                :func:`StaICC.inference.runner.predict_queries`.
        """
        self.main = FeatureCache(kernel, compute)
        self.further: list[FeatureCache] = []
        self._compute = compute
        self._run: _Run | None = None

    @property
    def kernel(self) -> Inference:
        """The kernel of the methods."""
        return self.main.kernel

    @property
    def computed(self) -> int:
        """Of how many texts features were computed."""
        return sum(cache.computed for cache in (self.main, *self.further))

    @property
    def reused(self) -> int:
        """Of how many texts requested features were in memory or in the store."""
        return sum(cache.reused for cache in (self.main, *self.further))

    def start(self, context: RunContext, recheck: bool | None = None, unparsed: Unparsed = "error") -> None:
        """Use the store, the workers and the policies of a run from now on, also for further models that come later.

        Args:
            context: The context of the run, with its store and workers.
            recheck: Whether reused predictions are rechecked; ``None``: unless requests may cost money.
            unparsed: What to do about replies without a label.
        """
        self._run = _Run(context, recheck, unparsed)
        for cache in (self.main, *self.further):
            cache.start(context, recheck, unparsed)

    def cache_of(self, request: Request) -> FeatureCache:
        """Return the cache of the model that a request asks."""
        if request.kernel is None or request.kernel is self.main.kernel:
            return self.main
        for cache in self.further:
            if cache.kernel is request.kernel:
                return cache
        cache = FeatureCache(request.kernel, self._compute)
        if self._run is not None:
            self._run.context.start([request.kernel])
            cache.start(self._run.context, self._run.recheck, self._run.unparsed)
        self.further.append(cache)
        return cache

    def rows(self, requests: Sequence[Request], part: Part | None = None, policy: OnError | None = None) -> list[Any]:
        """Return the rows of each request; see :meth:`~StaICC.methods.features.FeatureCache.rows`.

        What is asked of one model is computed together.

        Args:
            requests: The requests, which may be to several models.
            part: Name and number of this part of the run, for messages and progress.
            policy: What to do about failures; ``None`` for the policy of the run.
        """
        positions_of_cache: dict[FeatureCache, list[int]] = {}
        for position, request in enumerate(requests):
            positions_of_cache.setdefault(self.cache_of(request), []).append(position)

        rows_of_requests: list[Any] = [None] * len(requests)
        for cache, positions in positions_of_cache.items():
            computed = cache.rows([requests[position] for position in positions], part, policy)
            for position, rows in zip(positions, computed, strict=True):
                rows_of_requests[position] = rows
        return rows_of_requests
