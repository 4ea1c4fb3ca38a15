"""Many-shot in-context learning (Agarwal et al. 2024; Bertsch et al. 2024): one method at several ``k``.

With nested demonstrations (``sampler="nested"``) the prompt of a larger ``k`` begins with the demonstrations of a
smaller one, so prompts of all ``k`` are computed together, and a kernel that reuses prefixes computes shared
demonstrations once.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from StaICC.benchmarks import Benchmark
from StaICC.errors import ArgumentError, StaICCError
from StaICC.methods.caching import CachingKernel
from StaICC.methods.run import Method, SharedFeatures
from StaICC.methods.specification import keys_of
from StaICC.methods.table import MethodTable
from StaICC.progress import drawn_progress, within
from StaICC.prompting import Prompt
from StaICC.results import Result

_log = logging.getLogger(__name__)


def different(ks: Iterable[int]) -> list[int]:
    """Return numbers of demonstrations in order.

    Raises:
        ArgumentError: There is none, or one is given twice.
    """
    numbers = sorted(ks)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ArgumentError(f"k: got {numbers}, expected different numbers, at least one")
    return numbers


def run_many_shot(
    method: Method,
    make_benchmark: Callable[[int], Benchmark],
    ks: Iterable[int],
    finished: Callable[[MethodTable], None] | None = None,
    **run: Any,
) -> MethodTable:
    """Return the results of a method for several numbers of demonstrations.

    Args:
        method: The method with its kernel.
        make_benchmark: Returns the benchmark for a ``k``, such as ``lambda k: Normal(k, sampler="nested")``.
        ks: The numbers of demonstrations; the smallest is run first.
        finished: Called with the table so far after each ``k``.
        **run: Options of the run; see :meth:`~StaICC.methods.run.Method.run`.

    Returns:
        The results by ``"k=4"``; it prints as a table. ``skipped`` has the reasons of those that failed, such as
        prompts that are longer than the context of the model. ``timing`` of each result has ``prompt_characters`` (of
        the distinct test prompts) and ``new_characters`` (without the prefixes that they share with each other and with
        the prompts of a smaller ``k``).

    Raises:
        ArgumentError: No ``k`` is given, one is given twice, the benchmark is a group, or none could be run.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> mini = lambda k: Normal(k, datasets=["mini"], limit=2, sampler="nested")
        >>> list(run_many_shot(Method("vanilla", PPMKernel()), mini, [2, 8]))
        ['k=2', 'k=8']
    """
    numbers = different(ks)
    kernel = CachingKernel(method.kernel)
    members = [(make_benchmark(k), method.workbench(kernel)) for k in numbers]
    if not all(isinstance(benchmark, Benchmark) for benchmark, _ in members):
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")
    plan = SharedFeatures([(method.spec, bench) for _, bench in members], [benchmark for benchmark, _ in members])
    table = MethodTable("Many-shot", {}, {f"k={k}": f"{method.spec.title}, k = {k}" for k in numbers})
    before, prompts = 0, set[Prompt]()
    with drawn_progress(run.get("progress")) as shown:
        for place, (k, (benchmark, bench)) in enumerate(zip(numbers, members, strict=True)):
            bench.plan = plan
            run["progress"] = within(shown, place, len(numbers))
            try:
                result = method.run_on(bench, benchmark, **run)
            except StaICCError as error:
                table.skipped[f"k={k}"] = f"k = {k}: {error}"
                _log.warning("left out: k = %s: %s", k, error)
                continue
            assert isinstance(result, Result)
            own = {prompt for one in benchmark for prompt, _ in keys_of(one)}
            prompts |= own
            distinct = _distinct_characters(map(_text, prompts))
            result.timing["prompt_characters"] = float(sum(len(_text(prompt)) for prompt in own))
            result.timing["new_characters"] = float(distinct - before)
            before = distinct
            table[f"k={k}"] = result
            table.shared = {"prompts": plan.prompts, "seconds": plan.seconds}
            if finished is not None:
                finished(table)
    if not table:
        raise ArgumentError(f"no k could be run: {'; '.join(table.skipped.values())}")
    return table


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\0".join(prompt)


def _distinct_characters(texts: Iterable[str]) -> int:
    """Return the number of distinct prefixes of texts."""
    ordered = sorted(texts)
    shared = (
        bisect_left(range(min(len(one), len(other))), True, key=lambda end: one[: end + 1] != other[: end + 1])
        for one, other in pairwise(ordered)
    )
    return sum(map(len, ordered)) - sum(shared)
