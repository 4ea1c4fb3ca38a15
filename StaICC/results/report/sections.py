"""The sections of a report: for each benchmark its figures, each with words and numbers, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from StaICC.errors import ArgumentError
from StaICC.results.report.accuracy import accuracy_by_dataset, accuracy_rows
from StaICC.results.report.bias import bias_distributions, bias_rows
from StaICC.results.report.confusion import MOST_LABELS, confusion_matrices, confusion_rows
from StaICC.results.report.html import Markup, element, fold, join, scrolling, table
from StaICC.results.report.long_icl import rounds_chart, rounds_rows
from StaICC.results.report.placed import placed
from StaICC.results.report.reliability import reliability_diagrams, reliability_rows
from StaICC.results.report.robustness import consistency_chart, consistency_rows, noise_lines, noise_rows
from StaICC.results.report.runs import Runs
from StaICC.results.report.standing import standing_chart, standing_rows
from StaICC.results.report.svg import inline_svg
from StaICC.results.result import Result
from StaICC.results.table import remarks, result_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["BIAS", "Section", "sections"]

BIAS = ("Contextual_bias", "Domain_bias", "Post_bias")
_SHORT = 10
"""So many notes are printed, though folded on the screen."""

_Table = tuple[list[str], list[list[str]]]


class Section(NamedTuple):
    """A part of the page under a heading of its own."""

    key: str
    title: str
    content: Markup


class _Figures:
    """Draws the figures of a page, numbering them; a figure that has nothing to show says why instead."""

    def __init__(self) -> None:
        self._count = 0

    def draw(
        self, title: str, text: str, make: Callable[[], Figure], numbers: _Table, words: Sequence[int] = ()
    ) -> Markup:
        """Return a figure with its caption and its numbers as a table.

        Args:
            title: What it shows.
            text: How to read it.
            make: Draws it.
            numbers: Head and rows of the same in numbers.
            words: Columns of the numbers that hold words.
        """
        try:
            drawing = make()
        except ArgumentError as error:
            return join([element("p", f"{title}: not drawn; {error}.", class_="soft")])
        self._count += 1
        shown = inline_svg(drawing, f"figure-{self._count}", title, f"{text} The numbers stand in the table below it.")
        head, rows = numbers
        return join(
            [
                element("h3", title),
                element("figure", scrolling(shown, f"Figure: {title}"), element("figcaption", text)),
                fold("The numbers", table(f"{title}: the numbers", head, rows, words=words), class_="numbers"),
            ]
        )


def _scores(name: str, result: Result, several: bool) -> Markup:
    """Give the table of a result, folded where there are several runs, with what a reader must know beside it."""
    head, rows = result_rows(result)
    foot = rows[-1:] if len(rows) > 1 and rows[-1][0] == "mean" else []
    title = f"Scores of {name}" if several else "Scores"
    notes = [element("p", note, class_="warn" if note.startswith("PARTIAL") else "soft") for note in remarks(result)]
    title = f"{title}: {result.benchmark}"
    shown = table(title, head, rows[: len(rows) - len(foot)], foot)
    warnings = [note for note in notes if 'class="warn"' in note]
    others = _folded([note for note in notes if note not in warnings])
    if several:  # warnings stand open, whatever is folded
        return join([fold(title, shown, *others, class_="short"), *warnings])
    return join([shown, *warnings, *others])


def _folded(notes: Sequence[Markup]) -> Sequence[Markup]:
    """Fold notes where they are many."""
    if len(notes) < 3:
        return notes
    return [fold(f"{len(notes)} notes of the audit", *notes, class_="short" if len(notes) <= _SHORT else None)]


def _all_scores(runs: Runs) -> Markup:
    return join(_scores(name, result, len(runs) > 1) for name, result in runs.items())


def _each(runs: Runs, title: str) -> Iterator[tuple[str, Result]]:
    """Give each run with the title of its own figure."""
    for name, result in runs.items():
        yield (f"{title}, {name}" if len(runs) > 1 else title), result


def _normal(runs: Runs, figures: _Figures) -> Markup:
    parts: list[str] = [
        figures.draw(
            "Accuracy by data set",
            "Points are accuracies, bars their confidence intervals. Solid strokes mark what the best of the tried "
            "settings would reach by guessing, dotted strokes what the most frequent label alone would score.",
            lambda: accuracy_by_dataset(runs),
            accuracy_rows(runs),
        ),
        _all_scores(runs),
        figures.draw(
            "Among the published models",
            "Accuracy of the published models (Vanilla ICL) against their parameters. A line across is a run whose "
            "prompts are the published ones; other runs are not drawn, and the text below says why.",
            lambda: standing_chart(runs),
            standing_rows(),
            words=(3,),
        ),
        placed(runs),
    ]
    for title, result in _each(runs, "Reliability"):
        parts.append(
            figures.draw(
                title,
                "Accuracy against confidence in ten bins; the area of a point is the number of its queries, the bars "
                "show where the confidences lie. Points on the broken line are calibrated, below it overconfident.",
                lambda result=result: reliability_diagrams(result),  # type: ignore[misc]
                reliability_rows(result),
                words=(1,),
            )
        )
    for title, result in _each(runs, "Confusion matrices"):
        parts.append(
            figures.draw(
                title,
                "Rows are true labels, columns predicted ones, numbers are queries: blue on the diagonal is right, "
                "orange is wrong. The deeper a cell, the larger its share of the row. "
                f" Label spaces of more than {MOST_LABELS} labels stand in the table only.",
                lambda result=result: confusion_matrices(result),  # type: ignore[misc]
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
                f"Preferred labels, {name}" if len(names) > 1 else "Preferred labels",
                "Mean prediction over the labels for empty queries, for random words and for the real queries. Grey "
                "bars are the frequencies of the true labels, the broken line is the uniform distribution.",
                lambda own=own: bias_distributions(own),  # type: ignore[misc]
                bias_rows(own),
                words=(1,),
            )
        )
    found += [_all_scores(runs) + placed(runs) for runs in parts.values()]
    return Markup("".join(found))


def _noise(runs: Runs, figures: _Figures) -> Markup:
    return join(
        [
            figures.draw(
                "Accuracy against label noise",
                "From all labels of the demonstrations wrong (left) to all correct (right). The slope of the "
                "regression line is GLER: how much the model follows the labels that it is shown.",
                lambda: noise_lines(runs),
                noise_rows(runs),
                words=(1,),
            ),
            _all_scores(runs),
            placed(runs),
        ]
    )


def _consistency(parts: Mapping[str, Runs], figures: _Figures) -> Markup:
    titles = {"Template_sens": "Over nine templates", "Demo_sens": "Over eight lists of demonstrations"}
    found: list[str] = []
    for benchmark, runs in parts.items():
        found.append(
            figures.draw(
                titles[benchmark],
                "Left: the share of each query's most frequent answer, averaged over queries, with its confidence "
                "interval. Right: the accuracy of each template or list, which shows how far one choice can mislead.",
                lambda runs=runs: consistency_chart(runs),  # type: ignore[misc]
                consistency_rows(runs),
                words=(1,),
            )
        )
        found += [_all_scores(runs), placed(runs)]
    return join(found)


def _long_icl(runs: Runs, figures: _Figures) -> Markup:
    return join(
        [
            figures.draw(
                "Score by rounds of demonstrations",
                "Each round shows every label once more. Grey lines are the published models, the broken line is "
                "guessing; a score that is missing was not to be had, and the notes say why.",
                lambda: rounds_chart(runs),
                rounds_rows(runs),
                words=(1, 2),
            ),
            _all_scores(runs),
            placed(runs),
        ]
    )


def sections(benchmarks: Mapping[str, Runs]) -> Iterator[Section]:
    """Give the sections of a report's benchmarks.

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
