"""The summary of a report: the mean scores of all runs in one table, and a few sentences on each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from StaICC.results.published import compare_with_published
from StaICC.results.report.accuracy import baselines_of
from StaICC.results.report.html import Markup, element
from StaICC.results.report.runs import Runs, figure, number_cell
from StaICC.results.result import Result

__all__ = ["figure_name", "headline", "in_short"]


class _Figure(NamedTuple):
    """A mean score in the summary of a benchmark."""

    benchmark: str
    key: str
    """The key in the averaged results."""
    title: str
    better: str


_FIGURES = (
    _Figure("Normal", "accuracy", "accuracy", "higher"),
    _Figure("Normal", "macro_F1", "macro F1", "higher"),
    _Figure("Normal", "averaged_truelabel_likelihood", "true-label likelihood", "higher"),
    _Figure("Normal", "expected_calibration_error_1", "calibration error (ECE-1)", "lower"),
    _Figure("Contextual_bias", "contextual_bias", "contextual bias (minus entropy)", "lower"),
    _Figure("Domain_bias", "domain_bias", "domain bias (minus entropy)", "lower"),
    _Figure("Post_bias", "DL div.", "posterior bias (divergence)", "lower"),
    _Figure("GLER", "accuracy", "label noise (GLER slope)", "lower"),
    _Figure("Template_sens", "consistency", "consistency over templates", "higher"),
    _Figure("Demo_sens", "consistency", "consistency over demonstrations", "higher"),
    _Figure("LongICL", "mean", "LongICL, mean of rounds", "higher"),
)
_SPELLINGS = {"empirical_bias": "DL div."}
"""Keys with the same value as another key."""


def figure_name(benchmark: str, key: str) -> str:
    """Return the name of a score in the summary table.

    Args:
        benchmark: Name of the benchmark.
        key: Its key in the averaged results.

    Returns:
        The name; the key itself for scores that are not in the table.
    """
    wanted = benchmark, _SPELLINGS.get(key, key)
    return next((one.title for one in _FIGURES if (one.benchmark, one.key) == wanted), key)


def headline(benchmarks: Mapping[str, Runs]) -> tuple[list[str], list[list[str]]]:
    """Return the summary table: one row for each score, one column for each run.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.
    """
    names = list(dict.fromkeys(name for runs in benchmarks.values() for name in runs))
    rows = []
    for one in _FIGURES:
        if one.benchmark not in benchmarks:
            continue
        row = [one.title]
        for name in names:
            result = benchmarks[one.benchmark].get(name)
            row.append(number_cell(figure(result.averaged, one.key) if result is not None else None))
        rows.append([*row, one.better])
    return ["mean over the data sets", *names, "better is"], rows


def _sentences(result: Result) -> Iterator[str]:
    """Yield sentences that compare the accuracy of a run with the baselines and the published models."""
    accuracy = figure(result.averaged, "accuracy")
    if accuracy is None:
        return
    known = {name: base for name in result.divided if (base := baselines_of({"": result}, name)) is not None}
    sets = f"{len(result.divided)} data sets" if len(result.divided) > 1 else "one data set"
    text = f"accuracy {accuracy:.4f} over {sets}"
    if known and len(known) == len(result.divided):
        guessing = sum(base.max_random for base in known.values()) / len(known)
        majority = sum(base.majority for base in known.values()) / len(known)
        text += f" (random baseline {guessing:.4f}, majority baseline {majority:.4f})"
    yield f"{text}."
    intervals = {
        name: interval
        for name in known
        if (details := result.details.get(name)) and (interval := details.intervals.get("accuracy"))
    }
    if intervals:
        over = sum(interval.low > known[name].max_random for name, interval in intervals.items())
        beyond = sum(interval.low > known[name].majority for name, interval in intervals.items())
        level = next(iter(intervals.values())).level
        yield (
            f"Better than the random baseline on {over} of {len(intervals)} data sets ({100 * level:g} % confidence "
            f"interval), better than the majority baseline on {beyond}."
        )
    if not result.complete:
        yield "PARTIAL: some queries have no prediction, and the scores leave them out."
    for one in compare_with_published(result):
        if one.metric == "accuracy" and one.reason is None:
            yield f"More accurate than {one.better_than} of {len(one.figures)} published models."


def in_short(benchmarks: Mapping[str, Runs]) -> Markup | None:
    """Return a few sentences on the accuracy of each run.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.

    Returns:
        A list; ``None`` where no run has an accuracy.
    """
    texts = {name: " ".join(_sentences(result)) for name, result in benchmarks.get("Normal", {}).items()}
    lines = [element("li", element("strong", name), f": {text}") for name, text in texts.items() if text]
    return element("ul", *lines, class_="told") if lines else None
