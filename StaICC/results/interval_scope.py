"""The scope of intervals: for which other test rows or demonstrations they hold, in words.

The interval of a score says how the score could differ on other test rows. What else may differ depends on how
demonstrations are drawn (the sampler). If each test row has demonstrations of its own, other rows have other
demonstrations, and the interval contains their variation too. If all test rows share a few lists, the interval holds
for these lists only: with other lists, the score can be far outside. Rows in clusters have the cluster as the unit.

Tables, comparisons, reports and model cards read the sentences of this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from StaICC import benchmark_names
from StaICC.results.protocol import ResultLike

_MIXED = "mixed-"
"""How the field of a signature begins if it differs between data sets."""


@dataclass(frozen=True, slots=True)
class IntervalScope:
    """For which demonstrations the intervals of a result hold."""

    sentence: str
    fixed_demonstrations: bool
    """Whether the demonstrations are fixed: with others, scores differ by more than the intervals say."""
    advice: str = ""
    """What to run for an interval over other demonstrations; empty without advice. A paper leaves it out."""

    @property
    def note(self) -> str:
        """The sentence with the advice."""
        return f"{self.sentence} {self.advice}".rstrip()


def interval_scope(result: ResultLike) -> IntervalScope | None:
    """Return for which demonstrations the intervals and tests of a result hold, decided by its sampler.

    Args:
        result: The result.

    Returns:
        The scope; ``None`` for results without a sampler: LongICL, and logs of other harnesses.
    """
    fields = result.signature.fields
    if benchmark_names.has_long_contexts(result.benchmark) or result.samples or "k" not in fields:
        return None
    if fields["k"] == "0":
        return IntervalScope(
            "There are no demonstrations: intervals and tests are over test rows.", fixed_demonstrations=False
        )
    if result.benchmark == benchmark_names.GENERALISATION:
        return IntervalScope(
            "Intervals and tests of this table are over test rows, with the lists of demonstrations and the templates "
            "of this run.",
            fixed_demonstrations=True,
            advice="The command components has the interval over other lists and templates.",
        )
    sampler = fields.get("demonstrations") or "default"
    if sampler == "nested-shared":
        return IntervalScope(
            _of_shared_lists(result),
            fixed_demonstrations=True,
            advice="For an interval over lists, use run generalisation with 3 draws or more, then components.",
        )
    if sampler.startswith("manual"):
        return IntervalScope(
            "Demonstrations were set by hand or by the method: intervals and tests are over test rows, with these "
            "demonstrations.",
            fixed_demonstrations=True,
        )
    if sampler.startswith(_MIXED):
        return IntervalScope(
            "The demonstrations of the data sets were drawn in different ways: where all test rows share them, "
            "intervals and tests hold for these demonstrations only.",
            fixed_demonstrations=True,
        )
    return IntervalScope(
        "Each test row has demonstrations of its own: intervals and tests are over test rows with their "
        "demonstrations.",
        fixed_demonstrations=False,
    )


def _of_shared_lists(result: ResultLike) -> str:
    """Return the sentence about a run in which all test rows of a repeat share one list of demonstrations."""
    repeats = result.signature.fields.get("repeats") or "1"
    differs_between_datasets = not repeats.isdecimal()  # then it is a text, not one number
    if differs_between_datasets:
        lists = "these lists"
    elif repeats == "1":
        lists = "this one list"
    else:
        lists = f"these {repeats} lists"
    condition = ""
    if result.method != "vanilla":
        condition = ", unless the method chooses its own"
    return (
        f"All test rows share one list of demonstrations in each repeat{condition}: intervals and tests are over test "
        f"rows and hold for {lists} only."
    )


def scope_notes(results: Iterable[ResultLike], with_advice: bool = True) -> list[str]:
    """Return what limits the intervals and tests of some results, each sentence once.

    Args:
        results: The results.
        with_advice: Whether to say what to run for an interval over other demonstrations.

    Returns:
        A sentence about demonstrations that are fixed, and one about each data set whose rows are in clusters. The list
        is empty if rows are independent and have demonstrations of their own.
    """
    results = list(results)
    notes = dict.fromkeys(demonstration_notes(results, with_advice))
    for result in results:
        notes.update(dict.fromkeys(cluster_notes(result)))
    return list(notes)


def demonstration_notes(results: Iterable[ResultLike], with_advice: bool = True) -> list[str]:
    """Return for which demonstrations the tests of some results hold, each sentence once.

    Args:
        results: The results.
        with_advice: Whether to say what to run for an interval over other demonstrations.

    Returns:
        The sentences; none if all test rows have demonstrations of their own.
    """
    notes: dict[str, None] = {}
    for result in results:
        scope = interval_scope(result)
        if scope is not None and scope.fixed_demonstrations:
            notes[scope.note if with_advice else scope.sentence] = None
    return list(notes)


def all_scope_notes(results: Iterable[ResultLike]) -> list[str]:
    """Return for which rows and demonstrations the intervals and tests of some results hold, each sentence once.

    Unlike :func:`scope_notes`, it also says that each test row has demonstrations of its own.

    Args:
        results: The results.
    """
    notes: dict[str, None] = {}
    for result in results:
        scope = interval_scope(result)
        if scope is not None:
            notes[scope.note] = None
        notes.update(dict.fromkeys(cluster_notes(result)))
    return list(notes)


def cluster_notes(result: ResultLike) -> list[str]:
    """Return a sentence about each data set whose test rows are in clusters.

    A result of early stopping has none: its interval is that of the score of the full benchmark, for which its rows are
    drawn at random, whatever they share.

    Args:
        result: The result.
    """
    if result.stopping is not None:
        return []
    notes = []
    for dataset, details in result.details.items():
        if details.clusters is not None:
            tested_rows = {row for record in details.conditions for row in record.rows}
            notes.append(cluster_note(dataset, details.clusters, tested_rows))
    return notes


def cluster_note(dataset: str, clusters: Sequence[int], rows: Collection[int]) -> str:
    """Return the sentence about the clusters of the test rows that are evaluated or compared.

    Args:
        dataset: The data set.
        clusters: The number of the cluster of each test row.
        rows: The test rows, each once.
    """
    sizes = Counter(clusters[row] for row in rows)
    return (
        f"{dataset}: intervals and tests are over {len(sizes)} clusters of {len(rows)} test rows (the "
        f"largest has {max(sizes.values(), default=0)})."
    )
