"""The remarks below the table of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable

from StaICC.results.above_chance import LEVEL, THE_MEAN, above_chance, interval_disagreements, not_beaten_by_baseline
from StaICC.results.details import DatasetDetails
from StaICC.results.experiment_table import experiment_notes
from StaICC.results.left_out import LEFT_OUT_NOTE
from StaICC.results.protocol import ResultLike


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
    return sentences + _label_mass(result) + _not_beaten(result) + experiment_notes(result) + bracket_note([result])
