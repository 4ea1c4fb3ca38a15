"""A method at several numbers of demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.running import BaseBenchmark
from StaICC.errors import ArgumentError
from StaICC.kernels.huggingface.token_trie import distinct_positions
from StaICC.methods.run import Method, MethodRun, run_each
from StaICC.methods.table import OF_SHOTS, MethodTable


def refuse_groups(benchmarks: Sequence[Any]) -> None:
    """Refuse groups where several ``k`` are compared."""
    if not all(isinstance(benchmark, Benchmark) for benchmark in benchmarks):
        raise ArgumentError("several k need one benchmark: got a group. Run its members one by one")


def different(ks: Iterable[int]) -> list[int]:
    """Return numbers of demonstrations in rising order.

    Raises:
        ArgumentError: There is none, or one is given twice.
    """
    numbers = sorted(ks)
    has_duplicates = len(set(numbers)) < len(numbers)
    if not numbers or has_duplicates:
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
        ArgumentError: The method or the function has another type, no ``k`` is given, one is given twice, the benchmark
            is a group, or none could be run.

    Example:
        >>> from StaICC import Normal
        >>> from StaICC.kernels.ppm import PPMKernel
        >>> mini = lambda k: Normal(k, datasets=["mini"], limit=2, sampler="nested")
        >>> list(run_many_shot(Method("vanilla", PPMKernel()), mini, [2, 8]))
        ['k=2', 'k=8']
    """
    if not isinstance(method, Method):
        raise ArgumentError(f"method: got {method!r:.60}, expected a Method, such as Method('vanilla', kernel)")
    if not callable(make_benchmark) or isinstance(make_benchmark, BaseBenchmark):
        raise ArgumentError(
            f"make_benchmark: got {make_benchmark!r:.60}, expected a function that returns the benchmark for a k, such "
            "as lambda k: Normal(k)"
        )
    runs = {}
    titles = {}
    for k in different(ks):
        name = f"k={k}"
        runs[name] = MethodRun(f"k = {k}", method, make_benchmark(k))
        titles[name] = f"{method.spec.title}, k = {k}"
    refuse_groups([method_run.benchmark for method_run in runs.values()])
    texts_so_far: set[str] = set()

    def add_characters(table: MethodTable) -> None:
        """Add the characters of its prompts to the last result of the table, then call ``finished``."""
        name = list(table)[-1]
        texts = _distinct_texts(runs[name].benchmark)
        # Characters without common prefixes: those of all texts so far, less those of the texts before.
        characters_before = distinct_positions(list(texts_so_far))
        texts_so_far.update(texts)
        new_characters = distinct_positions(list(texts_so_far)) - characters_before
        table[name].timing["prompt_characters"] = float(sum(len(text) for text in texts))
        table[name].timing["new_characters"] = float(new_characters)
        if finished is not None:
            finished(table)

    table = MethodTable(OF_SHOTS.name, {}, titles, {})
    return run_each(table, runs, finished=add_characters, same_data=False, **run)


def _distinct_texts(benchmark: Benchmark) -> set[str]:
    """Return the distinct prompts of a benchmark as texts.

    A prompt of the noisy channel has a text for each label. They are joined to one text.
    """
    texts: set[str] = set()
    for experimentor in benchmark:
        for query in experimentor.all_queries():
            if isinstance(query.prompt, str):
                texts.add(query.prompt)
            else:
                texts.add("\0".join(query.prompt))
    return texts
