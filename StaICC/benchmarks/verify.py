"""Verification: was a saved result asked the prompts that this library asks?

The result carries the digest of all its prompts and 32 bits of each one's own digest. Writing the prompts anew,
without any model, tells whether they are the same, and which query is the first that is not.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from StaICC.benchmarks.benchmark import Benchmark
from StaICC.benchmarks.catalogue import BENCHMARKS
from StaICC.benchmarks.group import BenchmarkGroup
from StaICC.benchmarks.recording import digest_prompts
from StaICC.errors import ArgumentError, UnknownNameError
from StaICC.results import Result, ResultGroup

if TYPE_CHECKING:
    import os

    from StaICC.benchmarks.long_icl import LongICL

__all__ = ["Verification", "rebuild", "verify"]

_MARK = 4  # bytes kept of each prompt's digest


@dataclass(frozen=True, slots=True)
class Verification:
    """What the verification of one data set found."""

    benchmark: str
    dataset: str
    same: bool
    """Whether every prompt is the same."""
    first_difference: int | None
    """Number of the first query that differs; ``None`` if none does."""
    message: str


def verify(
    result: Result | ResultGroup,
    benchmark: Benchmark | BenchmarkGroup | LongICL | None = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> list[Verification]:
    """Write the prompts of a result anew and compare.

    Args:
        result: A result or a group of results.
        benchmark: The benchmark that it was computed by, for one whose prompts the user changed or that ran on the
            user's own data; otherwise it is rebuilt from the signature.
        data_dir: Where the data of LongICL lie; by default, where they are installed.

    Returns:
        One finding for each data set.

    Raises:
        ArgumentError: The benchmark cannot be rebuilt from the signature.
    """
    if isinstance(result, ResultGroup):
        members = benchmark.members if isinstance(benchmark, BenchmarkGroup) else {}
        return [found for name, part in result.items() for found in verify(part, members.get(name), data_dir)]
    if isinstance(benchmark, BenchmarkGroup):
        raise ArgumentError(
            f"a group of benchmarks was given for a single result of {result.benchmark}; pass the benchmark"
        )
    benchmark = benchmark or rebuild(result, data_dir)
    found = []
    for name, details in result.details.items():
        if not details.asked:  # a data set of LongICL that was not there
            continue
        prompts, marks = digest_prompts(benchmark[name].all_queries())
        first = _first_difference(details.query_digests, marks)
        same = prompts == details.prompts
        if same:
            message = f"the {details.asked} prompts are the same"
        elif first is None:
            message = f"the digest of all prompts differs: saved {details.prompts}, written {prompts}"
        else:
            message = f"query {first} is the first whose prompt differs"
        found.append(Verification(result.benchmark, name, same, None if same else first, message))
    return found


def _first_difference(saved: str, written: str) -> int | None:
    ours, theirs = base64.b64decode(written), base64.b64decode(saved)
    for place in range(0, max(len(ours), len(theirs)), _MARK):
        if ours[place : place + _MARK] != theirs[place : place + _MARK]:
            return place // _MARK
    return None


def rebuild(result: Result, data_dir: str | os.PathLike[str] | None = None) -> Benchmark | LongICL:
    """Make the benchmark that a result's signature describes.

    Args:
        result: The result.
        data_dir: Where the data of LongICL lie; by default, where they are installed.

    Returns:
        The benchmark, with the benchmark's own templates.

    Raises:
        ArgumentError: The signature says that prompts or demonstrations were changed by hand.
    """
    if result.benchmark == "LongICL":
        from StaICC.benchmarks.long_icl import rebuild_long_icl  # with its own data and readers

        return rebuild_long_icl(result, data_dir)
    fields = result.signature.fields
    for field in ("template", "demonstrations"):
        value = fields.get(field)
        if value is not None and value not in ("in-domain", "out-of-domain"):
            raise ArgumentError(f"the {field} of this result were changed by hand ({value}); pass the benchmark itself")
    k = fields.get("k")
    if k is None or not k.isdigit():
        raise ArgumentError(f"this result has no single k ({k}); pass the benchmark itself")
    limit = fields.get("limit")
    arguments: dict[str, Any] = {
        "k": int(k),
        "noisy_channel": fields.get("channel") == "noisy",
        "datasets": list(result.details),
        "limit": None if limit is None else int(limit),
    }
    for option in filter(None, (fields.get("options") or "").split(",")):
        key, _, value = option.partition("=")
        if not value.isdigit():
            raise ArgumentError(f"the option {option!r} of this result cannot be read back; pass the benchmark itself")
        arguments[key] = int(value)
    try:
        benchmark: Benchmark = _class_of(result.benchmark)(**arguments)
    except UnknownNameError as error:
        raise ArgumentError(
            f"the result is over data of the user's own ({error}); pass the benchmark itself"
        ) from error
    for experimentor in benchmark:
        if fields.get("demonstrations") == "in-domain":
            experimentor.set_in_domain_mode()
        elif fields.get("demonstrations") == "out-of-domain":
            experimentor.set_out_of_domain_mode()
    return benchmark


def _class_of(name: str) -> type[Any]:
    """Find the class of a benchmark by the name that its results carry."""
    for known in BENCHMARKS.values():
        if issubclass(known, Benchmark) and known.task_name == name:
            return known
    raise ArgumentError(f"this library has no benchmark {name!r} to verify the result with; pass the benchmark itself")
