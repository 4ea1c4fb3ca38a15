"""Three or more runs of a benchmark on one screen: what they differ in, their values by data set, each pair.

Every fact is there once. The intervals and tests of each data set are in the comparison of two runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from StaICC.argument_syntax import in_each_syntax
from StaICC.benchmark_names import class_name
from StaICC.comparing.cells import interval_cell, number_cell
from StaICC.comparing.comparable_scores import first_score_note
from StaICC.comparing.comparison_results import Comparison
from StaICC.comparing.setting_differences import field_in_words, shown_value
from StaICC.comparing.verdicts import Correction, Tested, Untested
from StaICC.layout import Block, Line, TextTable
from StaICC.results.score_names import name_of_mean

_MEANING_OF_COLUMN = {
    "p (Holm)": "paired test, corrected for pairs of runs and directions (-: untested)",
    "p (Bonferroni)": (
        "paired test, corrected for all pairs of runs, because the best run, with which each is compared, was chosen "
        "by the same data (-: untested)"
    ),
}


def meaning_of_overview(corrections: Sequence[Correction]) -> str:
    """Return the meaning of the columns of overviews, and where the intervals of each data set are.

    Args:
        corrections: The correction of each overview.
    """
    columns = dict.fromkeys(correction.column for correction in corrections)
    meanings = [f"{column}: {_MEANING_OF_COLUMN[column]}" for column in columns]
    other_format = in_each_syntax("format_comparisons(..., 'markdown')", "--format markdown")
    return (
        f"difference: first minus second; {'; '.join(meanings)}; "
        "detectable: a true difference that the test finds with probability 0.8. For each data set: compare two runs, "
        f"or {other_format}"
    )


def overview_blocks(pairs: Sequence[Comparison], runs: Sequence[str]) -> list[Block]:
    """Return the title, the introduction, the values by data set, and the test of each pair.

    Args:
        pairs: The comparisons of pairs of runs, by one metric. None of them is by condition.
        runs: The names of the runs, the best first.
    """
    first_pair = pairs[0]
    metric = name_of_mean(first_pair.metric, first_pair.benchmark)
    direction = "higher" if first_pair.higher_is_better else "lower"
    introduction = [f"metric: {metric} ({direction} is better)"]
    if first_pair.other_metrics:
        introduction.append(first_score_note(first_pair.other_metrics))
    introduction += _models(pairs, runs)
    introduction += _differences(pairs, runs)
    introduction += _for_pairs(pairs, [_remarks(pair) for pair in pairs])

    blocks: list[Block] = [Line(f"{class_name(first_pair.benchmark)}: {len(runs)} runs", "title")]
    blocks += [Line(text) for text in introduction]
    values = _values_table(pairs, runs)
    if values is not None:
        blocks += [Line(""), values]
    blocks += [Line(""), _pairs_table(pairs)]
    conclusions = _for_pairs(pairs, [_conclusions(pair) for pair in pairs])
    blocks += [Line(text) for text in conclusions]
    return blocks


def _models(pairs: Sequence[Comparison], runs: Sequence[str]) -> list[str]:
    """Return the model of each run, or the one of all runs."""
    model_of_run: dict[str, str] = {}
    for pair in pairs:
        model_of_run[pair.first], model_of_run[pair.second] = pair.models
    different = set(model_of_run.values())
    if len(different) == 1:
        return [f"model of all: {different.pop()}"]
    return [f"model of {run}: {model_of_run[run]}" for run in runs]


# What the runs differ in.


def _differences(pairs: Sequence[Comparison], runs: Sequence[str]) -> Iterator[str]:
    """Yield the lines about the settings in which runs differ.

    A setting with several values has a line of its own, with the runs that have each of them. Settings with one value,
    which only some of the runs have, are joined: ``"only a, b have dtype: float32; device: cpu"``.
    """
    fields: dict[str, None] = {}
    for pair in pairs:
        fields.update(dict.fromkeys(difference.field for difference in pair.shown_differences()))
    settings_by_owners: dict[tuple[str, ...], list[str]] = {}
    for field in fields:
        runs_by_value: dict[str | None, list[str]] = {}
        for run, value in _values_of_field(pairs, field, runs).items():
            runs_by_value.setdefault(value, []).append(run)
        set_values = [value for value in runs_by_value if value is not None]
        if len(set_values) == 1:
            owners = tuple(runs_by_value[set_values[0]])
            settings_by_owners.setdefault(owners, []).append(f"{field_in_words(field)}: {shown_value(set_values[0])}")
        else:
            values = [f"{shown_value(value)} ({', '.join(owners)})" for value, owners in runs_by_value.items()]
            yield f"they differ in {field_in_words(field)}: {', '.join(values)}"
    for owners, settings in settings_by_owners.items():
        verb = "has" if len(owners) == 1 else "have"
        yield f"only {', '.join(owners)} {verb} {'; '.join(settings)}"


def _values_of_field(pairs: Sequence[Comparison], field: str, runs: Sequence[str]) -> dict[str, str | None]:
    """Return the value of a setting by run, without runs whose value is not known.

    The comparison of a pair has both values if the runs differ in the setting. If they do not, both have the same
    value, which is known if one of them differs from a third run.

    Args:
        pairs: The comparisons of pairs of runs.
        field: Name of the setting.
        runs: The names of the runs, in the order of the result.
    """
    values: dict[str, str | None] = {}
    equal_pairs = []
    for pair in pairs:
        difference = pair.difference_in(field)
        if difference is None:
            equal_pairs.append(pair)
        else:
            values[pair.first] = difference.first
            values[pair.second] = difference.second
    for pair in equal_pairs:
        if pair.first in values:
            values.setdefault(pair.second, values[pair.first])
        elif pair.second in values:
            values.setdefault(pair.first, values[pair.second])
    return {run: values[run] for run in runs if run in values}


# Remarks and conclusions, which belong to a pair of runs.


def _remarks(pair: Comparison) -> list[str]:
    """Return what is left out of the comparison of a pair, and the notes on it."""
    left_out = [f"left out: {reason}" for reason in pair.left_out]
    notes = [f"note: {note}" for note in [*pair.notes, *pair.log_notes]]
    return left_out + notes


def _conclusions(pair: Comparison) -> list[str]:
    """Return what the table does not say of a pair: why it is untested, the claims about a margin, the scope."""
    texts = []
    if isinstance(pair.overall.outcome, Untested):
        texts.append(f"untested ({pair.overall.outcome.reason})")
    texts += [str(claim) for claim in pair.non_inferiority]
    texts += [str(equivalence) for equivalence in pair.equivalences]
    texts += pair.scope
    return texts


def _for_pairs(pairs: Sequence[Comparison], texts_of_pairs: Sequence[Sequence[str]]) -> list[str]:
    """Return the texts about pairs of runs, each once.

    A text that all pairs have is returned as it is. Any other text begins with the pairs that have it, such as
    ``"A and B; A and C: ..."``.

    Args:
        pairs: The comparisons of pairs of runs.
        texts_of_pairs: The texts about each pair.
    """
    pairs_by_text: dict[str, list[str]] = {}
    for pair, texts in zip(pairs, texts_of_pairs, strict=True):
        for text in texts:
            pairs_by_text.setdefault(text, []).append(f"{pair.first} and {pair.second}")
    lines = []
    for text, pairs_with_text in pairs_by_text.items():
        if len(pairs_with_text) == len(pairs):
            lines.append(text)
        else:
            lines.append(f"{'; '.join(pairs_with_text)}: {text}")
    return lines


# The tables.


def _values_table(pairs: Sequence[Comparison], runs: Sequence[str]) -> TextTable | None:
    """Return the values of the runs by data set.

    Returns:
        The table, or ``None`` if pairs have different test rows, so that a run has several values on a data set.
    """
    row_counts: dict[str, int] = {}  # by data set
    values: dict[tuple[str, str], float | None] = {}  # by data set and run
    for pair in pairs:
        for line in pair.lines:
            dataset = line.dataset
            first_value, second_value = line.values
            row_counts.setdefault(dataset, line.rows)
            values.setdefault((dataset, pair.first), first_value)
            values.setdefault((dataset, pair.second), second_value)
            is_as_before = (
                row_counts[dataset] == line.rows
                and values[dataset, pair.first] == first_value
                and values[dataset, pair.second] == second_value
            )
            if not is_as_before:  # an earlier pair has other rows, or another value of a run
                return None
    table_rows = []
    for dataset, row_count in row_counts.items():
        cells = [number_cell(values.get((dataset, run)), ".4f") for run in runs]
        table_rows.append([dataset, str(row_count), *cells])
    return TextTable(["data set", "rows", *runs], table_rows)


def _pairs_table(pairs: Sequence[Comparison]) -> TextTable:
    """Return the test of each pair, by the mean over its data sets or by its only data set."""
    rows = []
    for pair in pairs:
        line = pair.overall
        rows.append(
            [
                pair.first,
                pair.second,
                _better_run(pair),
                number_cell(line.difference, "+.4f"),
                interval_cell(line.interval),
                number_cell(line.holm, ".3g"),
                number_cell(line.detectable, ".3f"),
            ]
        )
    head = ["first", "second", "better", "difference", "95 % interval", pairs[0].corrected_head, "detectable"]
    return TextTable(head, rows, range(3))


def _better_run(pair: Comparison) -> str:
    """Return the run that is shown to be better; "not shown" if neither is, "untested" without a test."""
    outcome = pair.overall.outcome
    if not isinstance(outcome, Tested):
        return "untested"
    return pair.better_run(pair.overall, outcome) or "not shown"
