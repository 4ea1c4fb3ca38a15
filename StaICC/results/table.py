"""The table of a result, with the remarks below it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from StaICC import benchmark_names
from StaICC.layout import Block, Line, TextTable
from StaICC.metrics.scores import BASELINE_KEYS, SCORES
from StaICC.numerics import mean
from StaICC.results.above_chance import LEVEL, THE_MEAN, above_chance, interval_disagreements, not_beaten_by_baseline
from StaICC.results.details import DatasetDetails
from StaICC.results.left_out import LEFT_OUT_NOTE, with_marks
from StaICC.results.protocol import ResultLike


def _figure(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _end(value: float) -> str:
    """Return an end of an interval with three decimals, without the zero before the point."""
    text = f"{abs(value):.3f}".removeprefix("0")
    return f"-{text}" if value < 0 and text != ".000" else text


def _cell(value: Any, low: float | None, high: float | None, left_out: int = 0) -> str:
    """Return a score with the number of queries that it leaves out, and with its interval in brackets."""
    text = _figure(value) if value is None else with_marks(_figure(value), left_out)
    return text if low is None or high is None else f"{text} [{_end(low)}, {_end(high)}]"


_ScoreColumn = Sequence[Mapping[str, Any]]
"""The records of a score for each row of a table; an empty record where a data set has no such score."""


def _shared_left_out(columns: Sequence[_ScoreColumn]) -> list[int] | None:
    """Return how many queries of each row all scores leave out; ``None`` if it is not the same for all scores."""
    counts = {tuple(record.get("left_out", 0) for record in column) for column in columns}
    return list(counts.pop()) if len(counts) == 1 else None


def result_rows(result: ResultLike) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a result's table, as text.

    Each score has its interval in brackets; next to accuracy are its baselines. The row of the mean has those of the
    mean.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each data set, the mean last.
    """
    scores = {(record["dataset"], record["metric"]): record for record in result.score_records()}
    places: list[str | None] = [*result.divided, None]
    details = [result.details.get(name) for name in result.divided]
    bounds = [own.bounds if own else {} for own in details]
    table: list[tuple[str, list[str]]] = [("data set", [*result.divided, "mean"])]
    score_keys = (key for place, key in scores if place is not None and _is_column(key, result.divided[place]))
    keys = dict.fromkeys(score_keys)
    columns = {
        key: [scores.get((place, key.removeprefix("sensitivity.") if place is None else key), {}) for place in places]
        for key in keys
    }
    left_out = _shared_left_out([column for key, column in columns.items() if key not in BASELINE_KEYS])
    for key, column in columns.items():
        metric = key.removeprefix("sensitivity.")
        head = (SCORES[metric].head if metric in SCORES else "") or metric
        head = f"slope of {head}" if metric != key and result.benchmark == benchmark_names.GLER else head
        marks = [record.get("left_out", 0) if left_out is None else 0 for record in column]
        cells = [
            _cell(record.get("value"), record.get("low"), record.get("high"), mark)
            for record, mark in zip(column, marks, strict=True)
        ]
        table.append((head, cells))
        if any(metric in of_set for of_set in bounds):
            values = [record.get("value") for record in column[:-1]]
            ends = [of_set.get(metric) or (own, own) for of_set, own in zip(bounds, values, strict=True)]
            ends.append(tuple(mean([pair[side] for pair in ends]) for side in (0, 1)))
            cells = [f"{_figure(low)}, {_figure(high)}" for low, high in ends]
            table.append((f"{head} if unparsed wrong, right", cells))
        for name in ("random", "majority"):
            if any(record.get(name) is not None for record in column):
                table.append((name, [_figure(record.get(name)) for record in column]))
    if any(own and own.unparsed for own in details):
        counts = [(len(own.unparsed), own.asked) if own else (0, 0) for own in details]
        counts.append((sum(number for number, _ in counts), sum(asked for _, asked in counts)))
        table.append(("unparsed", [f"{number} ({number / asked:.1%})" if asked else "-" for number, asked in counts]))
    if left_out is not None and any(left_out):
        table.append(("left out", list(map(str, left_out))))
    rows = [list(row) for row in zip(*(column for _, column in table), strict=True)]
    return [head for head, _ in table], rows if len(rows) > 2 else rows[:-1]


def _is_column(key: str, scores: Mapping[str, Any]) -> bool:
    """Whether a score is a column of the table: a single score, or the slope of a regression line."""
    return key in scores or (key.startswith("sensitivity.") and not key.endswith(" (intercept)"))


_EXPERIMENT_COLUMNS = {
    "demonstrations": "demonstrations",
    "labels shown": "labels_shown",
    "queries covered": "share_shown",
    "per shown label": "per_shown_label",
    "reference tokens": "reference_tokens",
    "all contexts": "all_contexts",
    "model's tokens": "",
    "unparsed": "",
    "score": "score",
    "label shown": "score_shown",
    "not shown": "score_not_shown",
    "difference": "difference",
    "p (Holm)": "p_value",
}
"""The columns of the table of an experiment, with the key in a condition."""
_HIDDEN_IF_EMPTY = ("model's tokens", "unparsed", "not shown", "p (Holm)")


def experiment_rows(result: ResultLike) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table of an experiment of LongICL, as text; no rows without one.

    Args:
        result: The result.

    Returns:
        The column heads, and one row for each condition of each data set.
    """
    rows: list[dict[str, str]] = []
    for dataset, scores in result.divided.items():
        experiment = scores.get("experiment") or {"conditions": {}}
        replies = scores.get("rounds") or {}
        for name, row in experiment["conditions"].items():
            tokens = result.timing.get(f"{dataset}, {name}, tokens")
            cells = {key: _cell(row.get(key), row.get(f"{key}_low"), row.get(f"{key}_high")) for key in row}
            left_out = result.left_out_of(name, dataset)
            cells["score"] = _cell(row.get("score"), row.get("score_low"), row.get("score_high"), left_out)
            columns = {heading: cells.get(key, "-") for heading, key in _EXPERIMENT_COLUMNS.items()}
            for heading in ("labels shown", "per shown label"):  # numbers, which are seldom fractions
                columns[heading] = columns[heading].removesuffix(".0000")
            columns["model's tokens"] = _figure(None if tokens is None else int(tokens))
            unparsed, cut_off = (replies.get(name, {}).get(key) for key in ("unparsed", "cut_off"))
            columns["unparsed"] = f"{unparsed} ({cut_off} cut off)" if cut_off else str(unparsed or "-")
            rows.append({"data set, condition": f"{dataset}, {name}", **columns})
    hidden = {key for key in _HIDDEN_IF_EMPTY if all(row[key] == "-" for row in rows)}
    if all(row["reference tokens"] == row["all contexts"] for row in rows):  # all test items share their contexts
        hidden.add("all contexts")
    head = [key for key in (rows[0] if rows else ()) if key not in hidden]
    return head, [[row[key] for key in head] for row in rows]


def _experiment_notes(result: ResultLike) -> list[str]:
    """Return what the differences are, and the p-values of the test of positions."""
    experiments = {name: scores["experiment"] for name, scores in result.divided.items() if scores.get("experiment")}
    if not experiments:
        return []
    by_position = any(experiment["name"] == "position" for experiment in experiments.values())
    others = "the mean of the other parts" if by_position else "the first condition of the data set"
    notes = [f"A difference is that from {others}, on the same test items; its interval is for this row alone."]
    conditions = [(dataset, name) for dataset in experiments for name in result.divided[dataset].get("rounds") or ()]
    if any(result.left_out_of(name, dataset) for dataset, name in conditions):
        notes.append(
            "Scores and differences are those of the items with a reply; in intervals of differences and p, missing "
            "replies count at their worst for each direction."
        )
    pairs = {pair for experiment in experiments.values() for pair in (experiment.get("compared") or {}).items()}
    if pairs:
        notes.append(f"Other differences: {'; '.join(f'{name} from {other}' for name, other in sorted(pairs))}.")
    for name, experiment in experiments.items():
        if (p_value := experiment.get("p_value")) is not None:
            notes.append(f"{name}: test of no effect of the part of the context: p = {p_value:.4f}.")
        elif experiment["name"] == "position":
            notes.append(f"{name}: the effect of the part of the context is untested, because replies are missing.")
    return notes


def bracket_note(results: Iterable[ResultLike]) -> list[str]:
    """Return what the brackets in the tables of results are: one sentence for each level of their intervals.

    Args:
        results: The results.
    """
    scores = (interval for result in results for own in result.details.values() for interval in own.intervals.values())
    return [f"In brackets: {100 * level:g} % intervals." for level in sorted({interval.level for interval in scores})]


def _not_beaten(result: ResultLike) -> list[str]:
    """Return one sentence for each baseline that the accuracy does not beat, and for intervals that say otherwise."""
    sentences = []
    found = above_chance(result)
    condition = "" if found is None or found.condition is None else f"condition {found.condition}, "
    for baseline, places in not_beaten_by_baseline(result).items():
        datasets = [name for name in places if name != THE_MEAN]
        shown = datasets if len(datasets) < 4 else [f"{len(datasets)} data sets"]
        if THE_MEAN in places:
            shown.append(THE_MEAN)
        sentences.append(f"Not better than {baseline} ({condition}p > {LEVEL:g}): {', '.join(shown)}.")
    return sentences + [f"{sentence}." for sentence in interval_disagreements(result)]


def _dropped(details: DatasetDetails) -> list[str]:
    """Return one note about prompts that lost demonstrations because they were too long, if there are any."""
    if not details.dropped:
        return []
    prompts = sum(shortened for shortened, _ in details.dropped.values())
    demonstrations = sum(lost for _, lost in details.dropped.values())
    return [
        f"{prompts} of {details.asked} prompts were longer than the model reads and were sent without "
        f"{demonstrations} demonstrations in all"
    ]


def _label_mass(result: ResultLike) -> list[str]:
    """Return one sentence about the total probability of the labels, where the predictions record it."""
    masses = {}
    for name, details in result.details.items():
        if details.label_mass:
            masses[name] = math.fsum(details.label_mass.values()) / len(details.label_mass)
    if not masses:
        return []
    least = min(masses, key=masses.__getitem__)
    whole = math.fsum(masses.values()) / len(masses)
    lowest = f"; lowest on {least}: {masses[least]:.2g}" if len(masses) > 1 else ""
    return [f"Label mass (mean total probability of the labels): {whole:.2g}{lowest}."]


def remarks(result: ResultLike) -> list[str]:
    """Return remarks about the scores, one sentence each.

    Args:
        result: The result.

    Returns:
        Where the run stopped early, how many queries failed, why the model is not identified, why scores are
        undefined, facts about the prompts, which predictions without a model are not beaten, and what the brackets are.
    """
    sentences = [] if result.stopping is None else [str(result.stopping)]
    failed = sum(details.failed for details in result.details.values())
    if failed:
        asked = sum(details.asked for details in result.details.values())
        sentences.append(f"PARTIAL: {failed} of {asked} queries have no answer; no score counts them.")
    if any(record["left_out"] and record["value"] is not None for record in result.score_records()):
        sentences.append(f"{LEFT_OUT_NOTE[0].upper()}{LEFT_OUT_NOTE[1:]}.")
    sentences += [f"UNIDENTIFIED: {' '.join(reason.split())}" for reason in result.provenance.unidentified]
    said: dict[str, list[str]] = {}
    for name, details in result.details.items():
        undefined = (f"{key} is undefined: {reason}" for key, reason in details.missing.items())
        facts = [note for note in details.notes if f"{name}: {note}" not in result.warnings]  # printed as warnings
        for note in (*undefined, *_dropped(details), *facts):
            said.setdefault(note, []).append(name)
    for key, reason in result.means.missing.items():
        if len(result.details) > 1:
            said.setdefault(f"interval of {key} is undefined: {reason}", []).append("mean")
    sentences += [
        f"{', '.join(names) if len(names) < 4 else f'{len(names)} data sets'}: {note}" for note, names in said.items()
    ]
    return sentences + _label_mass(result) + _not_beaten(result) + _experiment_notes(result) + bracket_note([result])


def result_blocks(result: ResultLike) -> list[Block]:
    """Return a result as a table with its remarks, its model, its signature and its warnings."""
    head, rows = experiment_rows(result)
    if not rows:
        head, rows = result_rows(result)
    said = [*remarks(result), f"model: {result.model}"]
    return [
        Line(result.benchmark, "title"),
        TextTable(head, rows),
        *(Line(text, "warning" if text.startswith(("PARTIAL", "UNIDENTIFIED")) else "text") for text in said),
        Line(str(result.signature), "code"),
        *(Line(f"WARNING: {warning}", "warning") for warning in result.warnings),
    ]


def shared_warning_lines(warnings_of: Mapping[str, Sequence[str]]) -> list[Line]:
    """Return the warnings of several results as lines, each once, with the names of its results unless all have it.

    Args:
        warnings_of: The warnings of each result, by name.
    """
    names_of: dict[str, list[str]] = {}
    for name, warnings in warnings_of.items():
        for warning in warnings:
            names_of.setdefault(warning, []).append(name)
    lines = []
    for warning, names in names_of.items():
        text = f"WARNING: {warning}"
        if len(names) < len(warnings_of):
            text = f"WARNING: {', '.join(names)}: {warning}"
        lines.append(Line(text, "warning"))
    return lines
