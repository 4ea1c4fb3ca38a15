"""The table of an experiment of LongICL, with its notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from StaICC.results.cells import cell_text, figure_text
from StaICC.results.protocol import ResultLike

_HIDDEN_IF_EMPTY = ("model's tokens", "unparsed", "nearest", "not shown", "p (Holm)")
"""Columns that are not shown if no condition has a value in them."""


def is_experiment(result: ResultLike) -> bool:
    """Return whether a result is one of an experiment of LongICL."""
    return any(scores.get("experiment") for scores in result.divided.values())


def _condition_cell(condition: Mapping[str, Any], key: str, left_out: int = 0) -> str:
    """Return the cell of a value of a condition, with its interval if it has one.

    Args:
        condition: The record of the condition.
        key: The key of the value in the record.
        left_out: Number of items without a reply, which the value leaves out.
    """
    return cell_text(condition.get(key), condition.get(f"{key}_low"), condition.get(f"{key}_high"), left_out)


def _unparsed_cell(replies: Mapping[str, Any]) -> str:
    """Return the number of unparsed replies of a condition as a cell, such as ``"5 (3 cut off)"``; ``"-"`` for none.

    Args:
        replies: The record of the condition. ``cut_off`` is the number of unparsed replies that end at the token limit.
    """
    unparsed = replies.get("unparsed")
    cut_off = replies.get("cut_off")
    if cut_off:
        return f"{unparsed} ({cut_off} cut off)"
    if unparsed:
        return str(unparsed)
    return "-"


def _condition_row(result: ResultLike, dataset: str, name: str, condition: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a condition of an experiment by the heads of their columns.

    Args:
        result: The result.
        dataset: The data set.
        name: The name of the condition.
        condition: The record of the condition in the experiment.
    """
    rounds = result.divided[dataset].get("rounds") or {}
    replies: Mapping[str, Any] = rounds.get(name, {})
    token_count = result.timing.get(f"{dataset}, {name}, tokens")
    if token_count is not None:
        token_count = int(token_count)
    # These means are whole numbers in most experiments, and are then shown without decimals.
    labels_shown = _condition_cell(condition, "labels_shown").removesuffix(".0000")
    per_shown_label = _condition_cell(condition, "per_shown_label").removesuffix(".0000")
    return {
        "data set, condition": f"{dataset}, {name}",
        "demonstrations": _condition_cell(condition, "demonstrations"),
        "labels shown": labels_shown,
        "queries covered": _condition_cell(condition, "share_shown"),
        "per shown label": per_shown_label,
        "reference tokens": _condition_cell(condition, "reference_tokens"),
        "all contexts": _condition_cell(condition, "all_contexts"),
        "model's tokens": figure_text(token_count),
        "unparsed": _unparsed_cell(replies),
        "score": _condition_cell(condition, "score", left_out=result.left_out_of(name, dataset)),
        "nearest": figure_text(replies.get("nearest")),
        "label shown": _condition_cell(condition, "score_shown"),
        "not shown": _condition_cell(condition, "score_not_shown"),
        "difference": _condition_cell(condition, "difference"),
        "p (Holm)": _condition_cell(condition, "p_value"),
    }


def _hidden_columns(rows: list[dict[str, str]]) -> set[str]:
    """Return the heads of the columns that are not shown."""
    hidden = set()
    for head in _HIDDEN_IF_EMPTY:
        if all(row[head] == "-" for row in rows):
            hidden.add(head)
    # These two columns are the same if all test items share their contexts.
    if all(row["reference tokens"] == row["all contexts"] for row in rows):
        hidden.add("all contexts")
    return hidden


def experiment_rows(result: ResultLike) -> tuple[list[str], list[list[str]]]:
    """Return the table of an experiment of LongICL as text: the column heads, and the rows.

    Args:
        result: The result.

    Returns:
        A pair of the column heads, and one row for each condition of each data set. Both are empty if the result has no
        experiment.
    """
    rows = []
    for dataset, scores in result.divided.items():
        experiment = scores.get("experiment")
        if not experiment:
            continue
        for name, condition in experiment["conditions"].items():
            rows.append(_condition_row(result, dataset, name, condition))
    if not rows:
        return [], []

    hidden = _hidden_columns(rows)
    heads = [head for head in rows[0] if head not in hidden]
    cells = []
    for row in rows:
        cells.append([row[head] for head in heads])
    return heads, cells


def _leaves_out_replies(result: ResultLike, dataset: str) -> bool:
    """Return whether a condition of a data set leaves out items without a reply."""
    conditions = result.divided[dataset].get("rounds") or {}
    return any(result.left_out_of(name, dataset) for name in conditions)


def _other_comparisons(experiments: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the conditions with an unusual reference, such as ``"1K same labels from 1K padded"``.

    A difference is usually that from the first condition.

    Args:
        experiments: The record of the experiment of each data set. Its entry ``compared`` has for each such condition
            the one that it is compared with.
    """
    compared: set[tuple[str, str]] = set()
    for experiment in experiments.values():
        compared.update((experiment.get("compared") or {}).items())
    return [f"{condition} from {reference}" for condition, reference in sorted(compared)]


def _effective_length_sentence(record: Mapping[str, Any]) -> str:
    """Return the effective length with its bounds as a sentence, or why it is undefined.

    Args:
        record: The record of :class:`StaICC.long_icl.effective_length.EffectiveLength`.
    """
    length = record["length"]
    if length is None:
        return f"the effective length is undefined: {record['note']}."
    explanation = f"the largest with {100 * record['share']:g} % of the shortest context's score"
    if record["low"] is not None:
        explanation += f"; bounds: {record['low']} to {record['high']}"
    return f"the effective length is {length} ({explanation})."


def _order_spread_sentence(record: Mapping[str, Any]) -> str:
    """Return the spread of the scores of several orders as a sentence, or why it is undefined.

    Args:
        record: The record of :class:`StaICC.long_icl.order_spread.OrderSpread`.
    """
    if record["deviation"] is None:
        return f"the spread over orders is undefined: {record['note']}."
    deviation = cell_text(record["deviation"], record["deviation_low"], record["deviation_high"], 0)
    score_range = cell_text(record["range"], record["range_low"], record["range_high"], 0)
    return (
        f"over orders, without sampling noise, the standard deviation is {deviation}, the range {score_range} "
        f"(observed: {record['observed_deviation']:.4f}, {record['observed_range']:.4f})."
    )


def experiment_notes(result: ResultLike) -> list[str]:
    """Return notes about an experiment of LongICL; none if the result has no experiment.

    The notes say what the differences are measured from. They contain what an experiment measures next to the scores
    of its conditions: the effective length, the spread over orders, the p-value of the test of positions.
    """
    experiments = {}
    for dataset, scores in result.divided.items():
        if scores.get("experiment"):
            experiments[dataset] = scores["experiment"]
    if not experiments:
        return []

    reference = "the first condition of the data set"
    if any(experiment["name"] == "position" for experiment in experiments.values()):
        reference = "the mean of the other parts"
    notes = [f"A difference is that from {reference}, on the same test items; its interval is for this row alone."]

    if any(_leaves_out_replies(result, dataset) for dataset in experiments):
        notes.append(
            "Scores and differences are those of the items with a reply; in intervals of differences and p, missing "
            "replies count at their worst for each direction."
        )
    comparisons = _other_comparisons(experiments)
    if comparisons:
        notes.append(f"Other differences: {'; '.join(comparisons)}.")
    for dataset, experiment in experiments.items():
        for sentence in _further_results(experiment):
            notes.append(f"{dataset}: {sentence}")
    return notes


def _further_results(experiment: Mapping[str, Any]) -> list[str]:
    """Return what an experiment measures next to the scores of its conditions, as sentences.

    Args:
        experiment: The record of the experiment of a data set.
    """
    sentences = []
    if experiment.get("effective_length"):
        sentences.append(_effective_length_sentence(experiment["effective_length"]))
    if experiment.get("order_spread"):
        sentences.append(_order_spread_sentence(experiment["order_spread"]))
    if experiment["name"] == "position":
        sentences.append(_position_sentence(experiment.get("p_value")))
    return sentences


def _position_sentence(p_value: float | None) -> str:
    """Return the p-value of the test of positions as a sentence, or why there is none."""
    if p_value is None:
        return "the effect of the part of the context is untested, because replies are missing."
    return f"test of no effect of the part of the context: p = {p_value:.4f}."
