"""The score of each query with what it shares with other queries, for mixed models or item-response models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from StaICC import benchmark_names
from StaICC.benchmark_names import has_true_labels
from StaICC.results.details import DatasetDetails
from StaICC.results.protocol import ResultLike, ResultsLike
from StaICC.results.query_records import QueryRecord, records_of_queries

_SHARED_LISTS = "nested-shared"
"""The sampler with which all test rows of a repeat share a list of demonstrations."""

_KNOWN_BENCHMARKS = (
    benchmark_names.NORMAL,
    benchmark_names.GLER,
    benchmark_names.TEMPLATE_SENSITIVITY,
    benchmark_names.DEMONSTRATION_SENSITIVITY,
    benchmark_names.GENERALISATION,
)
"""The benchmarks of which it is known which queries share a list of demonstrations."""


def row_scores(results: ResultsLike, subgroups: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the scores of each query of a result, in a table that mixed models read: one query in each row.

    Args:
        results: A result, or a group of results.
        subgroups: The columns of subgroups, so that tables of several results have the same columns (by default those
            of ``results``).

    Yields:
        The columns ``benchmark``, ``model``, ``method``, ``dataset``, ``condition``; ``row`` (the test row: an item),
        ``cluster`` and ``label`` of the row; ``demonstrations``, which is equal for queries of a data set with the same
        texts of demonstrations (``None`` if it is not known which share them); ``template``, which is equal for queries
        of a data set with the same template (``None`` of benchmarks with one template); ``repeat``; ``accuracy``
        (0 or 1) and ``likelihood`` (the probability of the true label). A score is ``None`` for a query without one.
        Queries of contextual and of domain bias have no true label, so ``label`` and both scores are ``None``.
        Then the columns of subgroups, if there are any; ``None`` where a result has no such column.

    Example:
        >>> from StaICC import Normal
        >>> result = Normal(datasets=["mini"], limit=4)(lambda prompt, label_space: [0.5, 0.3, 0.2])
        >>> first = next(row_scores(result))
        >>> first["row"], first["label"], first["demonstrations"], first["accuracy"], first["likelihood"]
        (0, 'weather', 'row0-repeat0', 0, 0.2)
    """
    subgroup_names = subgroups_of_results([results]) if subgroups is None else subgroups
    for result in results.results():
        for query in records_of_queries(result, {}):
            yield _scores_of_query(result, query, subgroup_names)


def subgroups_of_results(results: Iterable[ResultsLike]) -> list[str]:
    """Return the columns of subgroups that any of several results has, in the order in which they appear."""
    names: dict[str, None] = {}
    for group in results:
        for result in group.results():
            for details in result.details.values():
                names.update(dict.fromkeys(details.subgroups or {}))
    return list(names)


def _scores_of_query(result: ResultLike, query: QueryRecord, subgroup_names: Sequence[str]) -> dict[str, Any]:
    """Return the scores of a query with what it shares with others.

    Args:
        result: The result.
        query: The query.
        subgroup_names: The columns of subgroups of the table.
    """
    details = result.details[query.dataset]
    label = None
    accuracy = None
    likelihood = None
    if has_true_labels(query.benchmark):
        label = query.ground_truth_label
        if query.correct is not None:
            accuracy = int(query.correct)
        if query.probabilities is not None:
            likelihood = query.probabilities[query.ground_truth]
    scores = {
        "benchmark": query.benchmark,
        "model": query.model,
        "method": query.method,
        "dataset": query.dataset,
        "condition": query.condition,
        "row": query.row,
        "cluster": None if details.clusters is None else details.clusters[query.row],
        "label": label,
        "demonstrations": _list_of_demonstrations(result, query),
        "template": _template(query),
        "repeat": query.repeat,
        "accuracy": accuracy,
        "likelihood": likelihood,
    }
    for name in subgroup_names:
        scores[f"subgroup {name}"] = _subgroup_of(details, name, query.row)
    return scores


def _subgroup_of(details: DatasetDetails, name: str, row: int) -> str | None:
    """Return the subgroup of a test row in a column; ``None`` if the data set has no such column."""
    groups = (details.subgroups or {}).get(name)
    if groups is None:
        return None
    return groups[row]


def _template(query: QueryRecord) -> str | None:
    """Return a name of the template of a query; ``None`` if the benchmark has one template only."""
    if query.benchmark == benchmark_names.GENERALISATION:
        _, template = _draw_and_template(query)
        return template
    if query.benchmark == benchmark_names.TEMPLATE_SENSITIVITY:
        return f"condition{query.condition}"
    return None


def _draw_and_template(query: QueryRecord) -> tuple[str, str]:
    """Return the two parts of a condition of Generalisation, such as ``draw1-template2``."""
    draw, _, template = query.condition.partition("-")
    return draw, template


def _list_of_demonstrations(result: ResultLike, query: QueryRecord) -> str | None:
    """Return a name of the demonstrations of a query: queries of a data set with one name have the same texts.

    Their labels are the same, too, but for GLER, which replaces labels in each query and condition anew.

    Which queries share a list depends on benchmark and sampler; ``None`` if that is not known
    (:func:`_knows_demonstrations`).
    """
    if not _knows_demonstrations(result):
        return None
    fields = result.signature.fields
    if fields["k"] == "0":
        return "none"
    if result.benchmark == benchmark_names.GENERALISATION:
        draw, _ = _draw_and_template(query)
        return draw
    if result.benchmark == benchmark_names.DEMONSTRATION_SENSITIVITY:
        name = f"condition{query.condition}"
    else:
        name = f"repeat{query.repeat}"
    if fields.get("demonstrations") == _SHARED_LISTS:
        return name
    return f"row{query.row}-{name}"


def _knows_demonstrations(result: ResultLike) -> bool:
    """Return whether it is known which queries of a result share a list of demonstrations.

    A method may choose other demonstrations, lists that were set by hand may be shared in any way, and so may those of
    a benchmark of the user's own.
    """
    fields = result.signature.fields
    if result.benchmark not in _KNOWN_BENCHMARKS or result.method != "vanilla" or "k" not in fields:
        return False
    sampler = fields.get("demonstrations") or "default"
    return not sampler.startswith(("manual", "mixed-"))
