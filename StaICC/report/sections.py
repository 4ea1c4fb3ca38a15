"""The sections of a page: the leaderboards, then one section for each question about the runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from StaICC import benchmark_names
from StaICC.report.changes import changes
from StaICC.report.comparable_groups import Group, comparable_groups, group_titles, run_names, why_not_comparable
from StaICC.report.confusion_tables import confusion_tables
from StaICC.report.figures.accuracy_plot import accuracy_by_dataset
from StaICC.report.figures.bias_plot import bias_distributions
from StaICC.report.figures.experiment_plot import experiment_chart
from StaICC.report.figures.model_size_plot import model_size_chart
from StaICC.report.figures.noise_plot import noise_lines
from StaICC.report.figures.reliability_plot import reliability_diagrams
from StaICC.report.figures.rounds_plot import rounds_chart
from StaICC.report.figures.shots_plot import shots_chart
from StaICC.report.figures.variance_plot import variance_chart
from StaICC.report.headlines import Headline, headlines_of
from StaICC.report.heat_maps import heat_map
from StaICC.report.html import element, fold, join
from StaICC.report.leaderboard_table import leaderboard
from StaICC.report.parts import ReportPart, Section, drawn, figure_part, run_part
from StaICC.report.published_part import published_part
from StaICC.report.runs_by_name import ResultsByRun
from StaICC.report.tables import printed

_FEW_RUNS = 6
"""Of more runs, all parts behind the leaderboard are folded at first."""
_BIAS = (benchmark_names.CONTEXTUAL_BIAS, benchmark_names.DOMAIN_BIAS, benchmark_names.POSTERIOR_BIAS)


def _reliability_of_run(run: str, results: ResultsByRun) -> str:
    """Return the reliability diagrams of a run by data set."""
    return drawn(reliability_diagrams, results[benchmark_names.NORMAL], run)


def _bias_of_run(run: str, results: ResultsByRun) -> str:
    """Return the mean predictions of a run."""
    return drawn(bias_distributions, results, run)


def _scores_of_run(run: str, results: ResultsByRun) -> str:
    """Return what the results of a run print."""
    shown = []
    for benchmark, result in results.items():
        shown.append(printed(result.display_blocks(), f"{benchmark}: all scores of {run}"))
    return join(shown)


def _all_scores(group: Group) -> str:
    """Return what all results print, folded by run."""
    return run_part(list(group), _scores_of_run)(group)


class _SectionWriter(NamedTuple):
    """A section of the page before its content is written."""

    key: str
    """Its address in the page."""
    title: str
    write: Callable[[Group, Sequence[Headline]], list[str]]
    """Takes comparable results and their headline scores. Returns what the section shows of them, as a list of HTML
    elements; an empty list if the results lack what the section needs."""


def _parts(parts: Mapping[str, ReportPart]) -> Callable[[Group, Sequence[Headline]], list[str]]:
    """Return the function that writes a section of several parts.

    Args:
        parts: The parts by their titles. Each can be folded under its title; one with an empty title cannot.
    """

    def write(group: Group, headlines: Sequence[Headline]) -> list[str]:
        """Write the parts, which need no headline scores."""
        return _written_parts(parts, group)

    return write


def _changes(group: Group, headlines: Sequence[Headline]) -> list[str]:
    """Return what changed between the leader and the other runs; an empty list if there is no other run."""
    changed = changes(group, headlines)
    return [changed] if changed else []


_SECTIONS = (
    _SectionWriter(
        "accurate",
        "How accurate?",
        _parts(
            {
                "Accuracy by data set": heat_map(benchmark_names.NORMAL),
                "Number of demonstrations": figure_part(benchmark_names.NORMAL, shots_chart, optional=True),
                "Accuracy with intervals and baselines": figure_part(benchmark_names.NORMAL, accuracy_by_dataset),
                "Confusion matrices": run_part([benchmark_names.NORMAL], confusion_tables),
                "Experiments of LongICL": figure_part(benchmark_names.LONG_ICL, experiment_chart, optional=True),
                "HELMET by length": figure_part(benchmark_names.HELMET, experiment_chart, optional=True),
                "LongICL by data set": heat_map(benchmark_names.LONG_ICL),
                "LongICL by rounds": figure_part(benchmark_names.LONG_ICL, rounds_chart, optional=True),
            }
        ),
    ),
    _SectionWriter(
        "calibrated",
        "How calibrated?",
        _parts(
            {
                "Reliability": figure_part(benchmark_names.NORMAL, reliability_diagrams),
                "Calibration error by data set": heat_map(benchmark_names.NORMAL, "expected_calibration_error_1"),
                "Reliability by data set": run_part([benchmark_names.NORMAL], _reliability_of_run),
            }
        ),
    ),
    _SectionWriter(
        "biased",
        "How biased?",
        _parts(
            {
                "Contextual bias by data set": heat_map(benchmark_names.CONTEXTUAL_BIAS),
                "Domain bias by data set": heat_map(benchmark_names.DOMAIN_BIAS),
                "Posterior bias by data set": heat_map(benchmark_names.POSTERIOR_BIAS),
                "Preferred labels": run_part(_BIAS, _bias_of_run),
            }
        ),
    ),
    _SectionWriter(
        "robust",
        "How robust?",
        _parts(
            {
                "Slope against label noise (GLER) by data set": heat_map(benchmark_names.GLER),
                "Accuracy against label noise": figure_part(benchmark_names.GLER, noise_lines),
                "Accuracy over demonstrations and templates": figure_part(
                    benchmark_names.GENERALISATION, variance_chart
                ),
                "Consistency over templates by data set": heat_map(benchmark_names.TEMPLATE_SENSITIVITY),
                "Consistency over demonstrations by data set": heat_map(benchmark_names.DEMONSTRATION_SENSITIVITY),
            }
        ),
    ),
    _SectionWriter("changed", "What changed between two runs?", _changes),
    _SectionWriter(
        "figures",
        "Published figures",
        _parts(
            {
                "Among the published models": figure_part(benchmark_names.NORMAL, model_size_chart, optional=True),
                "": published_part,
            }
        ),
    ),
    _SectionWriter("scores", "All scores", _parts({"": _all_scores})),
)
"""The sections behind the leaderboards, in order."""


def sections(benchmarks: Group) -> Iterator[Section]:
    """Yield the sections of a page: the leaderboards, then each section that has something to show.

    Results that are not comparable are in separate groups. A section shows one group after the other, each under its
    own heading.

    Args:
        benchmarks: All results.
    """
    groups = comparable_groups(benchmarks)
    headlines_by_group = [list(headlines_of(group)) for group in groups]
    headings: list[list[str]] = [[] for _ in groups]  # A single group needs none.
    boards: list[str] = []
    if len(groups) > 1:
        headings = [[element("h3", title)] for title in group_titles(groups)]
        text = (
            "These runs are not all comparable with each other. Each group has a leaderboard of its own. The groups "
            f"differ in: {why_not_comparable(groups)}."
        )
        boards.append(element("p", text, class_="soft"))
    for group, headlines, heading in zip(groups, headlines_by_group, headings, strict=True):
        boards += [*heading, leaderboard(group, headlines)]
    yield Section("leaderboard", "Leaderboard", join(boards))

    for section in _SECTIONS:
        shown: list[str] = []
        for group, headlines, heading in zip(groups, headlines_by_group, headings, strict=True):
            shown_of_group = section.write(group, headlines)
            if shown_of_group:
                shown += [*heading, *shown_of_group]
        if shown:
            yield Section(section.key, section.title, join(shown))


def _written_parts(parts: Mapping[str, ReportPart], group: Group) -> list[str]:
    """Return the parts of a section about comparable results as HTML elements, without those that are empty.

    A part with a title is a collapsible element. At first, it is open if it is the first element of the section and
    there are at most 6 runs. A part without a title is always visible.

    Args:
        parts: The parts by their titles.
        group: Comparable results.
    """
    has_few_runs = len(run_names(group)) <= _FEW_RUNS
    shown: list[str] = []
    for title, write_part in parts.items():
        content = write_part(group)
        if not content:
            continue
        if title:
            is_first = len(shown) == 0
            content = fold(title, content, opened=is_first and has_few_runs)
        shown.append(content)
    return shown
