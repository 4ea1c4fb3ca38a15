"""The queries of a benchmark with constant ids.

An id names benchmark, data set, condition, test row and repeat, and ends with 48 bits of the digest of the prompt and
its label space::

    Normal/TREC/normal/17/0/3f0c52a9d1be

The digest identifies the prompt: with another k, another template or another version of the data the ids differ, so
predictions of other prompts are not scored by mistake. Names are percent-encoded, so an id contains no blanks and can
be split at its slashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.prompting import Query, as_argument
from StaICC.results import short_digest


@dataclass(frozen=True, slots=True)
class IdentifiedQuery:
    """A query with its id, benchmark, data set and condition."""

    id: str
    benchmark: str
    """Name of the benchmark in results."""
    dataset: str
    condition: str
    query: Query


def query_id(benchmark: str, dataset: str, condition: str, query: Query) -> str:
    """Return the id of a query.

    Args:
        benchmark: Name of the benchmark in results.
        dataset: Name of the data set.
        condition: Name of the condition.
        query: The query.

    Returns:
        The id; it depends on the place and the prompt only.

    Example:
        >>> query_id("Normal", "my set", "normal", Query("a text", ("no", "yes"), 1, 17, 0))
        'Normal/my%20set/normal/17/0/4a9f6b7f4f08'
    """
    digest = short_digest([as_argument(query.prompt), list(query.label_space)])
    place = "/".join(quote(name, safe="") for name in (benchmark, dataset, condition))
    return f"{place}/{query.row}/{query.repeat}/{digest}"


def members(benchmark: Benchmark | BenchmarkGroup) -> dict[str, Benchmark]:
    """Return the single benchmarks, by the name of their part (a single benchmark by its own name).

    Args:
        benchmark: A benchmark or a group of benchmarks.
    """
    return benchmark.members if isinstance(benchmark, BenchmarkGroup) else {benchmark.task.name: benchmark}


def identified_queries(benchmark: Benchmark | BenchmarkGroup) -> Iterator[IdentifiedQuery]:
    """Yield every query of a benchmark, data set by data set and condition by condition, in the order of a run.

    Args:
        benchmark: A benchmark, or a group of benchmarks (the same prompt may appear in several members).
    """
    for member in members(benchmark).values():
        name = member.task.name
        for experimentor in member:
            for condition in experimentor.conditions():
                for query in condition.queries:
                    key = query_id(name, experimentor.name, condition.name, query)
                    yield IdentifiedQuery(key, name, experimentor.name, condition.name, query)


def prompt_records(benchmark: Benchmark | BenchmarkGroup, with_truth: bool = False) -> Iterator[dict[str, Any]]:
    """Yield one plain record for each query, for files and data frames.

    Args:
        benchmark: A benchmark or a group of benchmarks.
        with_truth: Add ``ground_truth``, the index of the true label.

    Yields:
        ``id``, ``benchmark``, ``dataset``, ``condition``, ``row``, ``repeat``, ``label_space`` (the label names) and
        ``prompt``: a text, or in the noisy channel a list with one text for each label.

    Example:
        >>> from StaICC import Normal
        >>> import pandas  # doctest: +SKIP
        >>> pandas.DataFrame(prompt_records(Normal(datasets=["mini"])))  # doctest: +SKIP
    """
    for identified in identified_queries(benchmark):
        query = identified.query
        record: dict[str, Any] = {
            "id": identified.id,
            "benchmark": identified.benchmark,
            "dataset": identified.dataset,
            "condition": identified.condition,
            "row": query.row,
            "repeat": query.repeat,
            "label_space": list(query.label_space),
            "prompt": as_argument(query.prompt),
        }
        yield record | {"ground_truth": query.label} if with_truth else record
