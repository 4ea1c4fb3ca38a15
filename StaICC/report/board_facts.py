"""The facts above a leaderboard: what readers ask first, a line for each question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from StaICC.benchmark_names import NORMAL
from StaICC.report.chart_scores import ChartScore, Scores, mean_key, scores_of
from StaICC.report.comparable_groups import Group, listed
from StaICC.report.headlines import Headline
from StaICC.report.html import Markup, breakable, element
from StaICC.report.run_settings import RunSettings
from StaICC.results.above_chance import above_chance
from StaICC.results.result import Result

_PROMPT_SETTINGS = ("k", "sampler", "repeats", "demonstrations", "template", "options")
"""Settings that decide the text of the prompts."""
_SCORING_SETTINGS = ("method", "channel", "scoring", "outputs", "statistics")
"""Settings that decide how predictions become scores and intervals."""
_LONGEST_VALUES = 30
"""Characters of the values of a setting that are listed if they differ; the table has all."""


def board_facts(headlines: Sequence[Headline], names: Sequence[str], settings: RunSettings, group: Group) -> Markup:
    """Return a list of facts: data, baselines, the hardest data set, partial runs, settings.

    A fact that is not known of these runs is left out.

    Args:
        headlines: The headline scores; the facts are about the first.
        names: The names of the runs.
        settings: What distinguishes the runs, and what they share.
        group: Comparable results.
    """
    facts: dict[str, str] = {}
    if headlines:
        headline = headlines[0]
        runs = group[headline.column.benchmark]
        facts["Data"] = ", ".join([*_data_texts(next(iter(runs.values()))), *_query_texts(runs.values())])
        facts["Baselines"] = _baselines_text(headline, runs)
        facts["Hardest data set"] = _hardest_text(headline, runs)
    facts["Partial runs"] = _partial_text(names, group)
    if len(names) > 1:
        facts["The runs differ in"] = _differences_text(settings)
    facts["Prompts"] = _prompts_text(settings, group)
    facts["Scoring"] = _settings_text(settings, _SCORING_SETTINGS)
    others = [name for name in settings.shared if name not in (*_PROMPT_SETTINGS, *_SCORING_SETTINGS)]
    facts["Run" if len(names) == 1 else "All runs"] = _settings_text(settings, others)
    lines = []
    for name, text in facts.items():
        if text:
            lines.append(element("div", element("dt", f"{name}: "), element("dd", breakable(text))))
    return element("dl", *lines, class_="facts")


def _data_texts(result: Result) -> list[str]:
    """Return the data of a result in numbers: ``10 data sets`` and ``1280 test rows (the first 128 of each)``."""
    datasets = list(result.divided)
    parts = [listed(datasets, "data sets")]
    row_count = 0
    for details in result.details.values():
        rows: set[int] = set()
        for condition in details.conditions:
            rows.update(condition.rows)
        row_count += len(rows)
    limit = result.signature.fields.get("limit")
    if row_count:
        rows_text = f"{row_count} test rows"
        if result.stopping is not None:
            rows_text += " (stopped early)"
        elif limit:
            of_each = " of each" if len(datasets) > 1 else ""
            rows_text += f" (the first {limit}{of_each})"
        parts.append(rows_text)
    return parts


def _query_texts(runs: Iterable[Result]) -> list[str]:
    """Return the number of queries of the runs, which may have different ones: ``2560 queries``; empty if unknown."""
    counts = {sum(details.asked for details in result.details.values()) for result in runs}
    if not all(counts):
        return []
    if len(counts) == 1:
        return [f"{counts.pop()} queries"]
    return [f"{min(counts)} to {max(counts)} queries"]


def _baselines_text(headline: Headline, runs: Mapping[str, Result]) -> str:
    """Return the accuracies of the baselines in the mean, and their verdict if all runs have the same one."""
    scores = [score for score in headline.scores.values() if score.random is not None]
    if not scores:
        return ""
    parts = [f"random {ChartScore(scores[0].random).cell}"]
    if scores[0].majority is not None:
        parts.append(f"majority label {ChartScore(scores[0].majority).cell}")
    text = ", ".join(parts)
    verdict = shared_chance_verdict(headline, runs)
    if verdict:
        text += f". Each run: {verdict}"
    return text


def shared_chance_verdict(headline: Headline, runs: Mapping[str, Result]) -> str:
    """Return the verdict about the baselines that several runs share; empty if they differ, or for a single run.

    Args:
        headline: The headline score.
        runs: The results of its benchmark.
    """
    if not headline.has_baselines or len(runs) < 2:
        return ""
    verdicts = set()
    for result in runs.values():
        verdict = above_chance(result)
        verdicts.add("" if verdict is None else verdict.short)
    return verdicts.pop() if len(verdicts) == 1 else ""


def _hardest_text(headline: Headline, runs: Mapping[str, Result]) -> str:
    """Return the data sets with the worst and the best mean score of the runs; empty for one data set.

    A run with missing queries does not count: its scores are about the other queries only.
    """
    if headline.better is None:
        return ""
    key = mean_key(headline.column.benchmark, headline.column.key)
    datasets = list(next(iter(runs.values())).divided)
    complete_runs = []
    for result in runs.values():
        scores = scores_of(result)
        scores_of_datasets = [scores.get((dataset, key), ChartScore()) for dataset in datasets]
        if all(score.value is not None and score.left_out == 0 for score in scores_of_datasets):
            complete_runs.append(scores)
    if not complete_runs or len(datasets) < 2:
        return ""
    mean_by_dataset = {dataset: _mean_score(complete_runs, dataset, key) for dataset in datasets}
    by_value = sorted(datasets, key=lambda dataset: mean_by_dataset[dataset])
    if not headline.better:
        by_value.reverse()
    hardest = by_value[0]
    easiest = by_value[-1]
    text = f"{hardest}, {headline.column.title} {mean_by_dataset[hardest]:.4f}"
    random = complete_runs[0][hardest, key].random
    if random is not None:
        text += f" (random {random:.4f})"
    if len(runs) > 1:
        text += f", mean of {_counted_runs(len(complete_runs), len(runs))}"
    return f"{text}. Easiest: {easiest}, {mean_by_dataset[easiest]:.4f}"


def _mean_score(scores_of_runs: Sequence[Scores], dataset: str, key: str) -> float:
    """Return the mean of a score of a data set over runs, all of which have a value."""
    total = 0.0
    for scores in scores_of_runs:
        total += scores[dataset, key].value or 0.0
    return total / len(scores_of_runs)


def _counted_runs(count: int, total: int) -> str:
    """Return the number of runs whose scores count: ``6 runs``, or ``5 of 6 runs (without partial ones)``."""
    if count == total:
        return f"{count} runs"
    return f"{count} of {total} runs (without partial ones)"


def _partial_text(names: Sequence[str], group: Group) -> str:
    """Return the runs with failed queries and their numbers; ``none`` without any."""
    parts = []
    for name in names:
        failed = 0
        asked = 0
        for runs in group.values():
            if name in runs:
                failed += sum(details.failed for details in runs[name].details.values())
                asked += sum(details.asked for details in runs[name].details.values())
        if failed:
            parts.append(f"{name} ({failed} of {asked} queries failed)")
    return ", ".join(parts) or "none"


def _differences_text(settings: RunSettings) -> str:
    """Return the settings in which runs differ: those that are columns, and those that are the names of the runs."""
    names = [*settings.differing]
    names += [f"{name} (the names of the runs)" for name in settings.named]
    return ", ".join(names) or "no setting"


def _prompts_text(settings: RunSettings, group: Group) -> str:
    """Return the settings of the prompts, and whether the templates are those of the data sets.

    Other benchmarks than Normal may have templates of their own.
    """
    text = _settings_text(settings, _PROMPT_SETTINGS)
    is_normal = set(group) == {NORMAL}
    has_own_template = any("template" in names for names in (settings.shared, settings.differing, settings.named))
    if is_normal and not has_own_template:
        text = f"{text}, template of each data set".removeprefix(", ")
    return text


def _settings_text(settings: RunSettings, names: Sequence[str]) -> str:
    """Return settings with their values: ``k 1 / 4, sampler lcg42``. Settings that no run has are left out."""
    parts = []
    for name in names:
        if name in settings.shared:
            parts.append(f"{name} {settings.shared[name].replace(';', ', ')}")
        elif name in settings.differing:
            parts.append(f"{name} {_different_values(list(settings.differing[name].values()))}")
    return ", ".join(parts)


def _different_values(values: Sequence[str]) -> str:
    """Return the different values of a setting, each once: ``1 / 4``; only that it differs if they are long."""
    text = " / ".join(dict.fromkeys(values))
    if len(text) > _LONGEST_VALUES:
        return "differs"
    return text
