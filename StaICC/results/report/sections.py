"""The sections of a report: a leaderboard for comparable runs, then one section for each question about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from StaICC.errors import ArgumentError, StaICCError
from StaICC.results.comparison import compare_runs
from StaICC.results.paired_records import HEADLINE
from StaICC.results.report.drawing import Figure, inline
from StaICC.results.report.experiment_figure import experiment_chart
from StaICC.results.report.figures import (
    accuracy_by_dataset,
    bias_distributions,
    model_size_chart,
    noise_lines,
    reliability_diagrams,
    rounds_chart,
    shots_chart,
    shots_lines,
)
from StaICC.results.report.html import Markup, Missing, element, fold, join, table
from StaICC.results.report.leaderboard import comparable_groups, figure_name, group_title, heat_map, leaderboard
from StaICC.results.report.published_figures import published_figures
from StaICC.results.report.runs import Runs, Score, accuracy_of, labels_of, score_of
from StaICC.results.result import Result
from StaICC.results.table import remarks, result_rows

_BIAS = {"Contextual_bias": "contextual_bias", "Domain_bias": "domain_bias", "Post_bias": "DL div."}
_VARIED = {
    "Template_sens": "Consistency over nine templates",
    "Demo_sens": "Consistency over eight lists of demonstrations",
}
_MOST_LABELS = 12
"""Of larger label spaces, only the most frequent confusions are listed."""
_MOST_ROWS = 20

Group = Mapping[str, Runs]
"""Comparable results by benchmark and run."""


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup
    assets: str = ""
    """Name of the script and the style sheet that only this section needs."""


def _figure(make: Callable[[], Figure], name: str = "") -> Markup:
    """Return a figure with its caption and its numbers; a figure without data is replaced by the reason."""
    try:
        figure = make()
    except ArgumentError as error:
        return element("p", f"Not drawn{f', {name}' if name else ''}: {error}.", class_="soft")
    title = f"{figure.title}, {name}" if name else figure.title
    caption = element("figcaption", element("strong", f"{title}."), " ", figure.caption)
    numbers = table(f"{title}: numbers", figure.head, figure.rows, words=figure.words)
    return element("figure", caption, Markup(inline(figure)), fold("Numbers", numbers, class_="numbers"))


def _confusions(name: str, result: Result) -> Iterator[Markup]:
    """Yield a confusion matrix for each data set; of a large label space, its most frequent confusions."""
    for dataset, details in result.details.items():
        labels, record = labels_of(details), details.conditions[0] if details.conditions else None
        if record is None or not labels:
            continue
        counts = Counter(zip(record.truth, record.predictions, strict=True))
        title = f"{dataset}, {name}"
        if len(labels) > _MOST_LABELS:
            wrong = [one for one in counts.most_common() if None not in one[0] and one[0][0] != one[0][1]]
            rows = [[labels[truth], labels[found or 0], str(count)] for (truth, found), count in wrong[:_MOST_ROWS]]
            yield table(f"{title}: confusions", ["true label", "predicted label", "queries"], rows, words=(1,))
            continue
        rows = []
        for truth, label in enumerate(labels):
            total = sum(counts[truth, found] for found in range(len(labels)))
            cells = [
                element(
                    "td", str(n), class_=f"{'h' if truth == found else 'e'}{round(10 * n / total)}" if total else None
                )
                for found in range(len(labels))
                for n in [counts[truth, found]]
            ]
            rows.append([label, *cells])
        yield table(title, ["true \\ predicted", *labels], rows, classes="heat")


def _each(runs: Runs, title: str, make: Callable[[str, Result], Markup]) -> Markup:
    """Return one folded part for each run, folded together."""
    parts = [fold(name, make(name, result)) for name, result in runs.items()]
    return fold(title, *parts) if len(runs) > 1 else fold(title, *(make(name, one) for name, one in runs.items()))


def _map(shown: Markup, title: str, opened: bool = False) -> Markup:
    return fold(f"{title}, by data set", shown, opened=opened) if shown else shown


def _accurate(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield heat_map("Normal", runs, "Accuracy by data set", "accuracy", baselines=True)
        if shots_lines(runs):
            yield fold("Number of demonstrations", _figure(partial(shots_chart, runs)))
        yield fold("Accuracy with intervals and baselines", _figure(partial(accuracy_by_dataset, runs)))
        note = element("p", "Rows are true labels. Blue is correct, orange is wrong.", class_="soft")
        yield _each(runs, "Confusion matrices", lambda name, result: join([note, *_confusions(name, result)]))
    if (runs := group.get("LongICL")) is not None:
        if any("experiment" in scores for result in runs.values() for scores in result.divided.values()):
            yield _figure(partial(experiment_chart, runs))
            return
        yield heat_map("LongICL", runs, "LongICL, mean of rounds", "mean")
        yield _figure(partial(rounds_chart, runs))


def _calibrated(group: Group) -> Iterator[Markup]:
    if (runs := group.get("Normal")) is not None:
        yield _figure(partial(reliability_diagrams, runs))
        key = "expected_calibration_error_1"
        yield fold("Calibration error by data set", heat_map("Normal", runs, "Calibration error (ECE-1)", key))
        yield _each(
            runs, "Reliability by data set", lambda name, result: _figure(partial(reliability_diagrams, result), name)
        )


def _biased(group: Group) -> Iterator[Markup]:
    for benchmark, key in _BIAS.items():
        if benchmark in group:
            title = figure_name(benchmark, key)
            yield _map(heat_map(benchmark, group[benchmark], title, key), title, benchmark == "Contextual_bias")

    def preferred(name: str, result: Result) -> Markup:
        own = {benchmark: group[benchmark][name] for benchmark in _BIAS if name in group.get(benchmark, {})}
        return _figure(partial(bias_distributions, own), name)

    yield _each({name: one for key in _BIAS for name, one in group.get(key, {}).items()}, "Preferred labels", preferred)


def _robust(group: Group) -> Iterator[Markup]:
    if (runs := group.get("GLER")) is not None:
        title = "Slope of accuracy against label noise (GLER)"
        yield _map(heat_map("GLER", runs, title, "sensitivity.accuracy"), title, True)
        yield fold("Accuracy against label noise", _figure(partial(noise_lines, runs)))
    for benchmark, title in _VARIED.items():
        if (runs := group.get(benchmark)) is None:
            continue
        yield _map(heat_map(benchmark, runs, title, "sensitivity.consistency"), title)
        rows = []
        for name, result in runs.items():
            for dataset, details in result.details.items():
                found = [value for one in details.conditions if (value := accuracy_of(one)) is not None]
                ends = [Score(end(found, default=None), reason="no predictions are recorded") for end in (min, max)]
                consistency = score_of(result, dataset, "sensitivity", "consistency")
                rows.append([dataset, name, consistency.interval_cell, *(one.cell for one in ends)])
        head = ["data set", "run", "interval of the consistency", "lowest accuracy", "highest accuracy"]
        yield fold(f"{title}: intervals and range of accuracies", table(f"{title}: range", head, rows, words=(1,)))


def _changed(group: Group) -> Iterator[Markup]:
    """Compare every run with the first, by the main metric of each benchmark."""
    first = next(iter(next(iter(group.values()))))
    names = list(dict.fromkeys(name for runs in group.values() for name in runs))[1:]
    heads: list[str] = []
    cells: dict[str, list[str]] = {name: [] for name in names}
    details: dict[str, list[str]] = {name: [] for name in names}
    for benchmark, runs in group.items():
        try:
            compared = compare_runs(runs, reference=first)
        except StaICCError as error:
            yield element("p", f"{benchmark}: {error}.", class_="soft")
            continue
        found = {one.second: one for one in compared.comparisons}
        heads.append(figure_name(benchmark, compared.metric))
        for name in names:
            if (pair := found.get(name)) is None:
                cells[name].append(Missing("; ".join(compared.left_out) or f"{benchmark} was not run"))
                continue
            one, span = pair.overall, pair.overall.interval
            small = [f"{span.low:+.3f} .. {span.high:+.3f}"] if span else []
            small.append(
                f"no test: {one.reason}"
                if one.holm is None
                else f"p {one.holm:.3g}"
                if one.holm >= 1e-4
                else "p < 0.0001"
            )
            cells[name].append(join([f"{one.difference:+.4f}", *(element("small", text) for text in small)]))
            head, rows = pair.table()
            shown = [
                [Missing(own.reason or "the runs differ on too few rows") if cell == "-" else cell for cell in row]
                for own, row in zip(pair.lines, rows, strict=True)
            ]
            foot = [shown.pop()] if pair.mean else []
            lines = element("ul", *(element("li", line) for line in [*pair.introduction(), *pair.conclusion()]))
            title = f"{benchmark}: {first} (first) and {name} (second)"
            details[name].append(join([lines, table(title, head, shown, foot)]))
    if not heads:
        return
    caption = f"{first} minus each other run"
    yield table(
        caption, ["run", *heads], [[name, *own] for name, own in cells.items() if own], classes="sortable board"
    )
    text = (
        "The main metric of each benchmark on the same test rows, with its 95 % interval. p is from a sign-flip test "
        "over test rows, corrected for the pairs of runs (Holm). The folded parts list every difference in settings "
        "and models. Detectable is the smallest difference that a sample of this size detects with power 0.8."
    )
    yield element("p", text, class_="soft")
    yield fold(
        "Differences, data set by data set", *(fold(f"{first} and {name}", *one) for name, one in details.items())
    )


def _scores(name: str, result: Result) -> Markup:
    """Return all scores of a result with their intervals, and its notes."""
    head, rows = result_rows(result)
    reasons = {dataset: "; ".join(dict.fromkeys(one.missing.values())) for dataset, one in result.details.items()}
    shown = [
        [Missing(reasons.get(row[0]) or "the notes below have the reason") if cell == "-" else cell for cell in row]
        for row in rows
    ]
    foot = shown[-1:] if len(shown) > len(result.divided) else []
    notes = element("ul", *(element("li", note) for note in remarks(result)))
    title = f"{result.benchmark}: all scores of {name}"
    return join([table(title, head, shown[: len(result.divided)], foot), notes])


def _published(group: Group) -> Iterator[Markup]:
    runs = group.get("Normal", {})
    try:
        model_size_chart(runs) if runs else None
    except ArgumentError:
        runs = {}
    if runs:  # only if a run is in the figure
        yield _figure(partial(model_size_chart, runs))
    for benchmark in group:
        if benchmark in HEADLINE and (found := published_figures(group[benchmark])):
            yield fold(f"{benchmark}: comparison with the published figures", found)


_QUESTIONS: dict[str, tuple[str, Callable[[Group], Iterator[Markup]]]] = {
    "accurate": ("How accurate?", _accurate),
    "calibrated": ("How calibrated?", _calibrated),
    "biased": ("How biased?", _biased),
    "robust": ("How robust?", _robust),
    "changed": ("What changed between two runs?", _changed),
    "published": ("Published figures", _published),
}


def _all_scores(group: Group) -> Iterator[Markup]:
    for name in dict.fromkeys(name for runs in group.values() for name in runs):
        yield fold(name, *(_scores(name, runs[name]) for runs in group.values() if name in runs))


def sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    """Yield the sections of the benchmarks; results that are not comparable are in separate tables and figures.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.
    """
    groups = comparable_groups(benchmarks)
    several = len(groups) > 1
    why = "These runs are not comparable with each other: data sets, limit, metrics or options differ. Each group has "
    boards = [leaderboard(group) for group in groups]
    text = [element("p", f"{why}a leaderboard of its own.", class_="soft")] if several else []
    yield Section("leaderboard", "Leaderboard", join([*text, *boards]))
    for key, (title, make) in {**_QUESTIONS, "scores": ("All scores", _all_scores)}.items():
        parts: list[str] = []
        for group in groups:
            if key == "changed":
                group = {benchmark: runs for benchmark, runs in group.items() if len(runs) > 1}
            found = [one for one in make(group) if one] if group else []
            if found:
                parts += [element("h3", group_title(group))] if several else []
                parts += found
        if parts:
            yield Section(key, title, join(parts))
