"""The remarks below the table of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from StaICC.results.above_chance import (
    LEVEL,
    THE_MEAN,
    interval_disagreements,
    not_beaten_by_baseline,
    tested_conditions,
)
from StaICC.results.details import DatasetDetails
from StaICC.results.experiment_table import experiment_notes
from StaICC.results.interval_scope import scope_notes
from StaICC.results.left_out import LEFT_OUT_NOTE
from StaICC.results.protocol import ResultLike
from StaICC.results.score_names import name_in_notes
from StaICC.safe_text import one_line

_MAX_NAMES = 3
"""Largest number of data sets that a remark names; more are counted."""
_REASON_LENGTH = 200
"""Characters of the reason of a failure that a remark has."""
_PARTIAL = "PARTIAL"
_UNIDENTIFIED = "UNIDENTIFIED"
"""First words of the remarks that warn."""


def _names_or_count(datasets: Sequence[str]) -> str:
    """Return the names of a few data sets, or the number of many."""
    if len(datasets) > _MAX_NAMES:
        return f"{len(datasets)} data sets"
    return ", ".join(datasets)


def _missing_predictions(result: ResultLike) -> list[str]:
    """Return up to two remarks about queries without a prediction.

    The first remark counts the failed queries, which have no answer; there is none if no query failed. The second one
    explains the number of left-out queries in the table. It is returned if a score leaves out some queries, failed ones
    or excluded replies without a label, and still has a value.
    """
    sentences = []
    failed = sum(details.failed for details in result.details.values())
    asked = sum(details.asked for details in result.details.values())
    if failed:
        sentence = f"{_PARTIAL}: {failed} of {asked} queries have no answer; no score counts them."
        sentences.append(sentence + _first_failure(result))

    for record in result.score_records():
        is_defined = record["value"] is not None
        if is_defined and record["left_out"] != 0:
            sentences.append(_as_sentence(LEFT_OUT_NOTE))
            break
    return sentences


def _first_failure(result: ResultLike) -> str:
    """Return which query is the first one that failed, and why, with a leading blank; empty if no reason is saved."""
    for name, details in result.details.items():
        for failure in details.failures:
            reason = one_line(failure.reason)[:_REASON_LENGTH]
            return f" The first: {name}, query {failure.query}: {reason}"
    return ""


def _as_sentence(note: str) -> str:
    """Return a note with a capital letter and a full stop."""
    return f"{note[0].upper()}{note[1:]}."


def _dropped_demonstrations(details: DatasetDetails) -> str:
    """Return a note about the prompts that lost demonstrations because they were too long.

    ``details.dropped`` has two numbers for each condition: that of such prompts, and that of their lost demonstrations.
    """
    prompt_count = sum(prompts for prompts, _ in details.dropped.values())
    return (
        f"{prompt_count} of {details.asked} prompts were longer than the model reads and were sent without "
        f"{details.dropped_demonstrations} demonstrations in all"
    )


def _undefined_notes(reasons: Mapping[str, str], benchmark: str) -> list[str]:
    """Return the notes about undefined scores; scores with the same reason are in one note.

    Args:
        reasons: The reason for each undefined score, by its key.
        benchmark: The name of the benchmark in results.

    Example:
        >>> _undefined_notes({"averaged_truelabel_likelihood": "bare labels", "nll": "bare labels"}, "Normal")
        ['likelihood, NLL are undefined: bare labels']
    """
    names_by_reason: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        names_by_reason.setdefault(reason, []).append(name_in_notes(key, benchmark))
    notes = []
    for reason, names in names_by_reason.items():
        verb = "is" if len(names) == 1 else "are"
        notes.append(f"{', '.join(names)} {verb} undefined: {reason}")
    return notes


def _dataset_notes(result: ResultLike, dataset: str) -> list[str]:
    """Return the notes about one data set: undefined scores, shortened prompts, and what the checks found."""
    details = result.details[dataset]
    notes = _undefined_notes(details.missing, result.benchmark)
    if details.dropped:
        notes.append(_dropped_demonstrations(details))
    for note in details.notes:
        # A note that is a warning of the result, too, is printed with the warnings only.
        if f"{dataset}: {note}" not in result.warnings:
            notes.append(note)
    return notes


def _reason_of_mean(key: str, reason: str, result: ResultLike) -> str:
    """Return the reason why a mean has no interval.

    A result has the names of all data sets without an interval, with the reason of the first one. If others have other
    reasons, the returned text has the names only: the note of each data set has its reason.

    Args:
        key: The key of the mean.
        reason: The reason in the result.
        result: The result.
    """
    reasons = []
    for details in result.details.values():
        for key_of_dataset in (f"interval of {key}", f"interval of sensitivity.{key}"):
            if key_of_dataset in details.missing:
                reasons.append(details.missing[key_of_dataset])
    if len(set(reasons)) < 2:
        return reason
    names = reason.partition(": ")[0]
    return f"{names}, each for its own reason"


def _notes_by_dataset(result: ResultLike) -> list[str]:
    """Return the notes about data sets and the mean as remarks: ``"TREC, SST-2: a note"``.

    A note that several data sets share is one remark, with the names of all of them. A single data set has no remark
    about the mean, which is its own score.
    """
    datasets_by_note: dict[str, list[str]] = {}
    for dataset in result.details:
        for note in _dataset_notes(result, dataset):
            datasets_by_note.setdefault(note, []).append(dataset)
    if len(result.details) > 1:
        for key, reason in result.means.missing.items():
            name = name_in_notes(key, result.benchmark)
            note = f"interval of {name} is undefined: {_reason_of_mean(key, reason, result)}"
            datasets_by_note.setdefault(note, []).append("mean")
    return [f"{_names_or_count(datasets)}: {note}" for note, datasets in datasets_by_note.items()]


def _not_beaten_remarks(result: ResultLike) -> list[str]:
    """Return remarks about the baselines that the accuracy does not beat.

    There is one for each such baseline, with the conditions and the data sets, and one for each interval that is above
    a baseline although the test is not significant.
    """
    all_conditions = tested_conditions(result)
    sentences = []
    for not_beaten in not_beaten_by_baseline(result):
        conditions = _conditions_in_words(not_beaten.conditions, all_conditions)
        datasets = _datasets_and_mean(not_beaten.datasets)
        if not_beaten.is_tested:
            sentences.append(f"Not better than {not_beaten.baseline} ({conditions}p > {LEVEL:g}): {datasets}.")
        else:
            sentences.append(
                f"Untested against {not_beaten.baseline} ({conditions}too few clusters of test rows): {datasets}."
            )
    for disagreement in interval_disagreements(result):
        sentences.append(f"{disagreement}.")
    return sentences


def _datasets_and_mean(names: Sequence[str]) -> str:
    """Return the names of a few data sets, or the number of many; then the mean, if it is among them."""
    datasets = [name for name in names if name != THE_MEAN]
    texts = []
    if datasets:
        texts.append(_names_or_count(datasets))
    if THE_MEAN in names:
        texts.append(THE_MEAN)
    return ", ".join(texts)


def _conditions_in_words(conditions: Sequence[str], all_conditions: Sequence[str]) -> str:
    """Return some conditions as the beginning of a text in brackets; empty if the result has only one condition."""
    if len(all_conditions) == 1:
        return ""
    if len(conditions) == len(all_conditions):
        return f"all {len(conditions)} conditions; "
    if len(conditions) == 1:
        return f"condition {conditions[0]}; "
    return f"conditions {', '.join(conditions)}; "


def label_mass_of_datasets(result: ResultLike) -> dict[str, float]:
    """Return the mean total probability of the labels, by data set. Data sets without a recorded one are left out."""
    masses = {}
    for dataset, details in result.details.items():
        if details.label_mass:
            masses[dataset] = math.fsum(details.label_mass.values()) / len(details.label_mass)
    return masses


def _label_mass(result: ResultLike) -> list[str]:
    """Return a remark about the total probability of the labels, where the predictions record it."""
    masses = label_mass_of_datasets(result)
    if not masses:
        return []
    mean_mass = math.fsum(masses.values()) / len(masses)
    remark = f"Label mass (mean total probability of the labels): {mean_mass:.2g}"
    if len(masses) > 1:
        lowest = min(masses, key=masses.__getitem__)
        remark += f"; lowest on {lowest}: {masses[lowest]:.2g}"
    return [f"{remark}."]


def bracket_note(results: Iterable[ResultLike]) -> list[str]:
    """Return what the brackets in the tables of some results contain.

    Args:
        results: The results.

    Returns:
        One sentence for each confidence level of their intervals.
    """
    levels: set[float] = set()
    for result in results:
        for details in result.details.values():
            levels.update(interval.level for interval in details.intervals.values())
    return [f"In brackets: {100 * level:g} % intervals." for level in sorted(levels)]


def _meaning_of_means(result: ResultLike) -> list[str]:
    """Return a remark on what the means over the tasks of another harness are; harnesses may weigh tasks by size."""
    if not result.samples or len(result.divided) < 2:
        return []
    return ["Means give each task the same weight, whatever its number of documents."]


def is_warning(remark: str) -> bool:
    """Return whether a remark of :func:`remarks` warns: the run is partial, or its model is not identified."""
    return remark.startswith((_PARTIAL, _UNIDENTIFIED))


def remarks(result: ResultLike) -> list[str]:
    """Return remarks about the scores, one sentence each.

    Args:
        result: The result.

    Returns:
        Where the run stopped early, how many queries failed, why the model is not identified, why scores are
        undefined, facts about the prompts, which predictions without a model are not beaten, for which demonstrations
        intervals hold, and what the brackets are.
    """
    sentences = []
    if result.stopping is not None:
        sentences.append(str(result.stopping))
    sentences += _missing_predictions(result)
    for reason in result.provenance.unidentified:
        reason_in_one_line = " ".join(reason.split())
        sentences.append(f"{_UNIDENTIFIED}: {reason_in_one_line}")
    sentences += _notes_by_dataset(result)
    sentences += _label_mass(result)
    sentences += _not_beaten_remarks(result)
    sentences += experiment_notes(result)
    sentences += _meaning_of_means(result)
    sentences += scope_notes([result])
    sentences += bracket_note([result])
    return sentences
