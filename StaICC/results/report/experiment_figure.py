"""The figure of an experiment of LongICL: score by condition, with intervals and the published curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from StaICC.errors import ArgumentError
from StaICC.results.published import figures
from StaICC.results.published.published_comparison import other_long_icl
from StaICC.results.report.drawing import SERIES, Axis, Figure, Key, Line, Mark, Panel, row_axis
from StaICC.results.report.html import Missing
from StaICC.results.report.runs import Given, Runs, dataset_names, named
from StaICC.results.result import Result
from StaICC.results.table import experiment_rows

_CURVES = {"context": "tokens of the context", "shots": "demonstrations per label", "position": "part of the context"}
_SCORE = Axis((0, 1), [(0, "0"), (0.5, "0.5"), (1, "1")])


def _conditions(result: Result, dataset: str) -> Mapping[str, Mapping[str, Any]]:
    experiment = result.divided.get(dataset, {}).get("experiment")
    return experiment["conditions"] if experiment else {}


def _length(result: Result, dataset: str, name: str) -> float:
    """Return the logarithm of the length of a context, by the tokenizer of the model where it is known."""
    tokens = result.timing.get(f"{dataset}, {name}, tokens")
    return math.log2(max(1.0, tokens or _conditions(result, dataset)[name].get("reference_tokens") or 1.0))


def _published(kind: str, result: Result, dataset: str, names: Sequence[str]) -> Iterator[Line]:
    """Yield the curves of the published models, if the prompts are the published ones."""
    scores = result.divided[dataset]
    if kind not in ("context", "shots") or other_long_icl(scores.get("settings", {}), set(), None):
        return
    labels = max((len(one.get("labels", ())) for one in scores.get("rounds", {}).values()), default=0)
    last, row = list(_conditions(result, dataset).items())[-1]
    if not labels or not row.get("demonstrations"):
        return
    places: dict[str, float] = {
        f"{number}R": names.index(f"{number} shots") for number in range(1, 6) if f"{number} shots" in names
    }
    if kind == "context":
        each = 2 ** _length(result, dataset, last) / row["demonstrations"]
        places = {f"{number}R": math.log2(number * labels * each) for number in range(1, 6)}
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in figures("LongICL"):
        if one.dataset == dataset and one.value is not None and one.metric in places:
            curves.setdefault(one.model, []).append((places[one.metric], one.value))
    yield from map(Line, curves.values())


def _panel(kind: str, runs: Runs, dataset: str) -> Panel:
    names = list(dict.fromkeys(name for one in runs.values() for name in _conditions(one, dataset)))
    if kind == "shots":  # runs may have other levels
        shown = {
            name: row.get("demonstrations") or 0
            for one in runs.values()
            for name, row in _conditions(one, dataset).items()
        }
        names.sort(key=lambda name: shown[name])
    first = next(one for one in runs.values() if _conditions(one, dataset))
    curve = kind in _CURVES
    lines = list(_published(kind, first, dataset, names))
    marks: list[Mark] = []
    for number, (run, result) in enumerate(list(runs.items())[:SERIES]):
        points: list[tuple[float, float, Any, Any]] = []
        own = _conditions(result, dataset)
        for name, row in own.items():
            value, low, high = (row.get(key) for key in ("score", "score_low", "score_high"))
            if value is None:
                continue
            place = _length(result, dataset, name) if kind == "context" else float(names.index(name))
            if kind == "position":  # the middle of the part; runs may have other numbers of parts
                place = (place + 0.5) * len(names) / len(own) - 0.5
            points.append((place, value, low, high))
            span = None if curve or low is None or high is None else (low, high)
            x, y = (place, value) if curve else (value, place + 0.1 * number)
            marks.append(Mark(x, y, number, f"{run}, {name}", value, span))
        if curve and points:
            lines.append(Line([one[:2] for one in points], number))
            for end in (2, 3):
                band = [(one[0], float(one[end])) for one in points if one[end] is not None]
                lines += [Line(band, number, dashed=True)] if band else []
    if not curve:
        return Panel(dataset, _SCORE, row_axis(names), marks, lines)
    ticks = [(float(place), name.removeprefix("part ").removesuffix(" shots")) for place, name in enumerate(names)]
    if kind == "context":
        places = [x for line in lines for x, _ in line.points] or [12.0]
        powers = range(math.floor(min(places)), math.ceil(max(places)) + 1)
        ticks = [(float(power), f"{2**power // 1024}K" if power >= 10 else str(2**power)) for power in powers]
    ends = (ticks[0][0] - 0.3, ticks[-1][0] + 0.3)
    return Panel(dataset, Axis(ends, ticks, _CURVES[kind]), _SCORE, marks, lines)


def experiment_chart(given: Given) -> Figure:
    """Return the scores of an experiment of LongICL by condition, with their intervals.

    The axis of the experiment ``context`` is the number of tokens, by the model's tokenizer where it is known. There,
    and for ``shots``, the published models are in the background if the result has the published prompts.

    Args:
        given: A result of LongICL with an experiment, or several of the same experiment by the name of their run.

    Raises:
        ArgumentError: There is no experiment, or there are several.
    """
    runs = {
        name: one for name, one in named(given).items() if any(_conditions(one, dataset) for dataset in one.divided)
    }
    kinds = {
        str(one["experiment"]["name"])
        for result in runs.values()
        for one in result.divided.values()
        if one.get("experiment")
    }
    if len(kinds) != 1:
        raise ArgumentError(
            f"expected results of one experiment of LongICL, found {', '.join(sorted(kinds)) or 'none'}"
        )
    (kind,) = kinds
    panels = [
        _panel(kind, runs, dataset)
        for dataset in dataset_names(runs)
        if any(_conditions(one, dataset) for one in runs.values())
    ]
    tables = {name: experiment_rows(result) for name, result in runs.items()}
    longest = max((head for head, _ in tables.values()), key=len)
    rows = []
    for name, (head, found) in tables.items():
        for row in found:
            cells = dict(zip(head, row, strict=True))
            shown = [cells.get(column, "-") for column in longest[1:]]
            rows.append([row[0], name, *(Missing("undefined or not measured") if one == "-" else one for one in shown)])
    drawn = list(runs)[:SERIES]
    legend = [Key(name, number) for number, name in enumerate(drawn)] if len(drawn) > 1 else []
    if any(line.series is None for panel in panels for line in panel.lines):
        legend.append(Key("published models, 500 items, rounds 1 to 5", kind="line"))
    how = "Dashed lines are the ends of the intervals." if kind in _CURVES else "Lines are intervals."
    return Figure(
        f"Experiment: {kind}",
        f"Accuracy or micro F1 by condition. {how} A difference is that from the first condition (experiment position: "
        "from the mean of the other parts), on the same test items. Published models are placed by their number of "
        "demonstrations.",
        panels,
        [longest[0], "run", *longest[1:]],
        rows,
        (1,),
        legend,
    )
