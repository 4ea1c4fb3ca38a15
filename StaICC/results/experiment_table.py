"""The table of an experiment of LongICL, with its notes."""

from __future__ import annotations

from StaICC.results.cells import cell_text, figure_text
from StaICC.results.protocol import ResultLike

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
            cells = {key: cell_text(row.get(key), row.get(f"{key}_low"), row.get(f"{key}_high")) for key in row}
            left_out = result.left_out_of(name, dataset)
            cells["score"] = cell_text(row.get("score"), row.get("score_low"), row.get("score_high"), left_out)
            columns = {heading: cells.get(key, "-") for heading, key in _EXPERIMENT_COLUMNS.items()}
            for heading in ("labels shown", "per shown label"):  # numbers, which are seldom fractions
                columns[heading] = columns[heading].removesuffix(".0000")
            columns["model's tokens"] = figure_text(None if tokens is None else int(tokens))
            unparsed, cut_off = (replies.get(name, {}).get(key) for key in ("unparsed", "cut_off"))
            columns["unparsed"] = f"{unparsed} ({cut_off} cut off)" if cut_off else str(unparsed or "-")
            rows.append({"data set, condition": f"{dataset}, {name}", **columns})
    hidden = {key for key in _HIDDEN_IF_EMPTY if all(row[key] == "-" for row in rows)}
    if all(row["reference tokens"] == row["all contexts"] for row in rows):  # all test items share their contexts
        hidden.add("all contexts")
    head = [key for key in (rows[0] if rows else ()) if key not in hidden]
    return head, [[row[key] for key in head] for row in rows]


def experiment_notes(result: ResultLike) -> list[str]:
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
