"""The sections of a report: figures with captions and numbers, and tables, for each benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.results.report.accuracy import accuracy_by_dataset, accuracy_rows
from StaICC.results.report.bias import bias_distributions, bias_rows
from StaICC.results.report.confusion import MOST_LABELS, confusion_matrices, confusion_rows
from StaICC.results.report.html import Markup, element, fold, join, scrolling, table
from StaICC.results.report.long_icl import rounds_chart, rounds_rows
from StaICC.results.report.model_sizes import model_size_chart, model_size_rows
from StaICC.results.report.published_figures import published_figures
from StaICC.results.report.reliability import reliability_diagrams, reliability_rows
from StaICC.results.report.robustness import consistency_chart, consistency_rows, noise_lines, noise_rows
from StaICC.results.report.runs import Runs
from StaICC.results.report.shots import shots_chart, shots_lines, shots_rows
from StaICC.results.report.svg import inline_svg
from StaICC.results.result import Result
from StaICC.results.table import remarks, result_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BIAS", "Section", "sections"]

BIAS = ("Contextual_bias", "Domain_bias", "Post_bias")
_SHORT = 10
"""Up to this number, folded notes are printed."""

_Table = tuple[list[str], list[list[str]]]


class Section(NamedTuple):
    """A part of the page with its own heading."""

    key: str
    title: str
    content: Markup


class _Figures:
    """Draws and numbers the figures of a page; a figure without data is replaced by the reason."""

    def __init__(self) -> None:
        self._count = 0

    def draw(
        self, title: str, text: str, make: Callable[[], Figure], numbers: _Table, words: Sequence[int] = ()
    ) -> Markup:
        """Return a figure with its caption and its numbers as a table.

        Args:
            title: Its title.
            text: Its caption.
            make: Draws it.
            numbers: Head and rows of its numbers.
            words: Indices of the columns that contain text.
        """
        try:
            drawing = make()
        except ArgumentError as error:
            return join([element("p", f"{title}: not drawn, because {error}.", class_="soft")])
        self._count += 1
        shown = inline_svg(drawing, f"figure-{self._count}", title, f"{text} The table below has the numbers.")
        head, rows = numbers
        return join(
            [
                element("h3", title),
                element("figure", scrolling(shown, f"Figure: {title}"), element("figcaption", text)),
                fold("Numbers", table(f"{title}: numbers", head, rows, words=words), class_="numbers"),
            ]
        )


def _scores(name: str, result: Result, several: bool) -> Markup:
    """Return the table of a result with its notes; folded if there are several runs."""
    head, rows = result_rows(result)
    foot = rows[-1:] if len(rows) > 1 and rows[-1][0] == "mean" else []
    title = f"Scores of {name}" if several else "Scores"
    notes = [
        element("p", note, class_="warn" if note.startswith(("PARTIAL", "EARLY")) else "soft")
        for note in remarks(result)
    ]
    title = f"{title}: {result.benchmark}"
    shown = table(title, head, rows[: len(rows) - len(foot)], foot)
    warnings = [note for note in notes if 'class="warn"' in note]
    others = _folded([note for note in notes if note not in warnings])
    if several:  # warnings are never folded
        return join([fold(title, shown, *others, class_="short"), *warnings])
    return join([shown, *warnings, *others])


def _folded(notes: Sequence[Markup]) -> Sequence[Markup]:
    """Fold three or more notes."""
    if len(notes) < 3:
        return notes
    return [fold(f"{len(notes)} warnings", *notes, class_="short" if len(notes) <= _SHORT else None)]


def _all_scores(runs: Runs) -> Markup:
    return join(_scores(name, result, len(runs) > 1) for name, result in runs.items())


def _each(runs: Runs, title: str) -> Iterator[tuple[str, Result]]:
    """Yield the title of each run's figure, and the run."""
    for name, result in runs.items():
        yield (f"{title}, {name}" if len(runs) > 1 else title), result


def _normal(runs: Runs, figures: _Figures) -> Markup:
    parts: list[str] = [
        figures.draw(
            "Accuracy by data set",
            "Points are accuracies, bars are confidence intervals. Solid lines are the random baseline (the expected "
            "best of the tried settings), dotted lines are the majority baseline.",
            partial(accuracy_by_dataset, runs),
            accuracy_rows(runs),
        ),
        _all_scores(runs),
        figures.draw(
            "Number of demonstrations",
            "Left: accuracy (mean over the data sets) against k; bars are confidence intervals, if there is one data "
            "set. Right: characters of all test prompts, and those that remain without the prefixes that prompts share "
            "with each other and with the prompts of a smaller k.",
            partial(shots_chart, runs),
            shots_rows(runs),
        )
        if shots_lines(runs)
        else "",
        figures.draw(
            "Comparison with the published models",
            "Accuracy of the published models (Vanilla ICL) against their number of parameters. A horizontal line is a "
            "run with the published prompts. Other runs are not drawn; the text below has the reasons.",
            partial(model_size_chart, runs),
            model_size_rows(),
            words=(3,),
        ),
        published_figures(runs),
    ]
    for title, result in _each(runs, "Reliability"):
        parts.append(
            figures.draw(
                title,
                "Accuracy against confidence in ten bins. The area of a point is the number of queries; the bars show "
                "the distribution of confidences. Points on the dashed line are calibrated, points below it are "
                "overconfident.",
                partial(reliability_diagrams, result),
                reliability_rows(result),
                words=(1,),
            )
        )
    for title, result in _each(runs, "Confusion matrices"):
        parts.append(
            figures.draw(
                title,
                "Rows are true labels, columns are predicted labels, numbers are queries. Blue is correct, orange is "
                "wrong; a darker cell has a larger share of its row. "
                f"Label spaces with more than {MOST_LABELS} labels appear in the table only.",
                partial(confusion_matrices, result),
                confusion_rows(result),
                words=(1, 2),
            )
        )
    return join(parts)


def _bias(parts: Mapping[str, Runs], figures: _Figures) -> Markup:
    found: list[str] = []
    names = list(dict.fromkeys(name for runs in parts.values() for name in runs))
    for name in names:
        own = {benchmark: runs[name] for benchmark, runs in parts.items() if name in runs}
        found.append(
            figures.draw(
                f"Mean predictions, {name}" if len(names) > 1 else "Mean predictions",
                "Mean predicted probability of each label for empty queries, random words and test queries. Grey "
                "bars are the frequencies of the true labels, the dashed line is the uniform distribution.",
                partial(bias_distributions, own),
                bias_rows(own),
                words=(1,),
            )
        )
    found += [_all_scores(runs) + published_figures(runs) for runs in parts.values()]
    return Markup("".join(found))


def _noise(runs: Runs, figures: _Figures) -> Markup:
    return join(
        [
            figures.draw(
                "Accuracy against label noise",
                "From all demonstration labels wrong (left) to all correct (right). The slope of the "
                "regression line is GLER: how much the demonstration labels influence the predictions.",
                partial(noise_lines, runs),
                noise_rows(runs),
                words=(1,),
            ),
            _all_scores(runs),
            published_figures(runs),
        ]
    )


def _consistency(parts: Mapping[str, Runs], figures: _Figures) -> Markup:
    titles = {"Template_sens": "Over nine templates", "Demo_sens": "Over eight lists of demonstrations"}
    found: list[str] = []
    for benchmark, runs in parts.items():
        found.append(
            figures.draw(
                titles[benchmark],
                "Left: the share of the most frequent prediction for each query, averaged over queries, with its "
                "confidence interval. Right: the accuracy with each template or list.",
                partial(consistency_chart, runs),
                consistency_rows(runs),
                words=(1,),
            )
        )
        found += [_all_scores(runs), published_figures(runs)]
    return join(found)


def _long_icl(runs: Runs, figures: _Figures) -> Markup:
    return join(
        [
            figures.draw(
                "Score by rounds of demonstrations",
                "Each round adds one demonstration of every label. Grey lines are the published models, the dashed "
                "line is the random baseline. Missing scores are undefined; the warnings have the reasons.",
                partial(rounds_chart, runs),
                rounds_rows(runs),
                words=(1, 2),
            ),
            _all_scores(runs),
            published_figures(runs),
        ]
    )


def sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    """Yield the sections of the benchmarks.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.
    """
    figures = _Figures()
    left = dict(benchmarks)
    normal = left.pop("Normal", None)
    if normal:
        yield Section("normal", "Classification (Normal)", _normal(normal, figures))
    bias: dict[str, Runs] = {name: left.pop(name) for name in BIAS if name in left}
    if bias:
        yield Section("bias", "Prediction bias", _bias(bias, figures))
    noise = left.pop("GLER", None)
    if noise:
        yield Section("noise", "Label noise (GLER)", _noise(noise, figures))
    varied: dict[str, Runs] = {name: left.pop(name) for name in ("Template_sens", "Demo_sens") if name in left}
    if varied:
        yield Section("consistency", "Consistency", _consistency(varied, figures))
    long_icl = left.pop("LongICL", None)
    if long_icl:
        yield Section("long-icl", "LongICL", _long_icl(long_icl, figures))
    for number, (benchmark, runs) in enumerate(left.items(), 1):
        yield Section(f"other-{number}", benchmark, _all_scores(runs))
