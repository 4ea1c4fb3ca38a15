"""Leaderboards: runs as rows, the headline scores as columns, one table for each group of comparable runs.

Two runs are comparable if they have the same data sets, test rows, metrics and benchmark options. Model, method, k,
templates and label scoring may differ: they are what a leaderboard compares. The best run of a column is compared with
every other one by the paired test of :mod:`StaICC.results.comparison`; runs that it does not show to be worse are tied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from StaICC.errors import StaICCError
from StaICC.results.comparison import compare_runs
from StaICC.results.comparison_formats import latex_cell, latex_table
from StaICC.results.paired_records import COLUMNS, HEADLINE, Column, higher_is_better, metrics_of
from StaICC.results.report.html import Markup, Missing, element, join, table
from StaICC.results.report.runs import Runs, Score, baselines_of, dataset_names, figure, score_of, scores_of
from StaICC.results.result import Result, ResultGroup
from StaICC.results.runs import by_benchmark

_SAME = ("datasets", "data", "split", "limit", "rows", "metrics", "options", "stopping", "unparsed")
"""Fields of the signature that comparable runs share."""
_HIDDEN = {*_SAME, "benchmark", "prompts", "method", "failed"}
_SLOPES = ("GLER", "Template_sens", "Demo_sens")
"""Benchmarks whose scores of a data set are under ``sensitivity``."""
_ALPHA = 0.05
_SHADES = 11


def figure_name(benchmark: str, key: str) -> str:
    """Return the name of a score in a leaderboard; the key itself for scores that have no column.

    Args:
        benchmark: Name of the benchmark.
        key: Its key in the averaged results.
    """
    wanted = benchmark, {"empirical_bias": "DL div."}.get(key, key)
    return next((one.title for one in COLUMNS if (one.benchmark, one.key) == wanted), key)


def _comparable_by(result: Result) -> tuple[object, ...]:
    fields = result.signature.fields
    return (*sorted(result.divided), *(fields.get(name) for name in _SAME))


def comparable_groups(benchmarks: Mapping[str, Runs]) -> list[dict[str, dict[str, Result]]]:
    """Split runs into groups of comparable runs.

    A run joins the first group that has one of its benchmarks and agrees in all that both have.

    Args:
        benchmarks: For each benchmark, the results by the name of their run.

    Returns:
        The groups; each has the results by benchmark and run.
    """
    groups: list[tuple[dict[str, tuple[object, ...]], dict[str, dict[str, Result]]]] = []
    for name in dict.fromkeys(name for runs in benchmarks.values() for name in runs):
        own = {benchmark: runs[name] for benchmark, runs in benchmarks.items() if name in runs}
        keys = {benchmark: _comparable_by(result) for benchmark, result in own.items()}
        for known, members in groups:  # noqa: B007 (both are used after the loop)
            shared = known.keys() & keys.keys()
            if shared and all(known[benchmark] == keys[benchmark] for benchmark in shared):
                break
        else:
            known, members = {}, {}
            groups.append((known, members))
        known.update(keys)
        for benchmark in own:
            members.setdefault(benchmark, {})[name] = own[benchmark]
    return [members for _, members in groups]


def group_title(group: Mapping[str, Runs]) -> str:
    """Return what the runs of a group share, in a few words.

    Args:
        group: The results by benchmark and run.
    """
    result = next(iter(next(iter(group.values())).values()))
    sets = list(result.divided)
    parts = [", ".join(sets) if len(sets) < 4 else f"{len(sets)} data sets"]
    parts += [f"{name} {value}" for name in ("limit", "metrics") if (value := result.signature.fields.get(name))]
    parts += ["stopped early"] if result.stopping is not None else []
    return ", ".join(part for part in parts if part != "metrics standard")


def _direction(column: Column, runs: Runs) -> bool | None:
    """Return whether larger values of a column are better; ``None`` if that is not known."""
    if column in COLUMNS:
        return higher_is_better(column.benchmark, column.key)
    stated = {run.higher_is_better.get(column.key) for run in runs.values()}
    (better,) = stated if len(stated) == 1 else (None,)
    return None if better is None else better != (column.benchmark == "GLER")


def _words(better: bool | None) -> str:
    return "" if better is None else f"{'higher' if better else 'lower'} is better"


def _standing(column: Column, runs: Runs) -> tuple[dict[str, str], str]:
    """Return which run is best and which are tied with it, and what the reader must know about that."""
    values = {name: one.averaged.get(column.key) for name, one in runs.items() if one.complete}
    known = {name: value for name, value in values.items() if value is not None}
    better = _direction(column, runs)
    if len(known) < 2 or better is None:
        return {}, ""
    best = (max if better else min)(known, key=lambda name: known[name])
    found = {name: "best" for name in known if known[name] == known[best]}
    try:
        compared = compare_runs({name: runs[name] for name in known}, column.key, reference=best)
    except StaICCError as error:
        return found, f"{column.title}: ties are not tested, {error}."
    pairs = {one.second: one.overall.holm for one in compared.comparisons}
    found |= {name: "tied" for name, p in pairs.items() if name not in found and (p is None or p > _ALPHA)}
    untested = [name for name in known if name not in pairs and name != best]
    return found, f"{column.title}: not tested against the best: {', '.join(untested)}." if untested else ""


def _above_chance(runs: Runs, name: str) -> list[bool]:
    """Return for each data set of a run whether the interval of its accuracy is above the random baseline."""
    own = runs[name]
    known = ((score_of(own, one, "accuracy").interval, baselines_of({name: own}, one)) for one in own.divided)
    return [interval.low > base.max_random for interval, base in known if interval is not None and base is not None]


def _settings(own: Sequence[Result], every: Sequence[Result]) -> str:
    """Return the settings of a run in which the runs of its group differ."""
    found = {}
    for name in dict.fromkeys(name for one in every for name in one.signature.fields if name not in _HIDDEN):
        by_benchmark: dict[str, set[str | None]] = {}
        for one in every:
            by_benchmark.setdefault(one.benchmark, set()).add(one.signature.fields.get(name))
        if any(len(values) > 1 for values in by_benchmark.values()):
            values = dict.fromkeys(one.signature.fields.get(name) or "default" for one in own)
            found[name] = "/".join(values)
    return ", ".join(f"{name} {value}" for name, value in found.items())


def _columns(group: Mapping[str, Runs]) -> list[Column]:
    columns = [one for one in COLUMNS if one.benchmark in group]
    for benchmark, runs in group.items():
        result = next(iter(runs.values()))
        keys = [key for key in metrics_of(result) if key in result.higher_is_better]
        if benchmark not in HEADLINE:  # benchmarks from other packages: their first score
            keys = list(dict.fromkeys([*metrics_of(result)[:1], *keys]))
        columns += [Column(benchmark, key, f"{benchmark}: {key}") for key in keys]
    scored = {(name, key) for name, runs in group.items() for one in runs.values() for key in one.averaged}
    return [one for one in columns if (one.benchmark, one.key) in scored]


def latex_scores(results: Mapping[str, Result | ResultGroup]) -> str:
    """Return the headline scores as LaTeX in the layout of the StaICC paper: scores as rows, runs as columns.

    The best run of a row is bold, runs that are tied with it are underlined (see :func:`leaderboard`). There is a table
    for each group of comparable runs, followed by the signatures as comments.

    Args:
        results: Results, or groups of results, by the name of their run.

    Raises:
        ArgumentError: A run has two results of one benchmark.
    """
    blocks = []
    for group in comparable_groups(by_benchmark(results)):
        names = list(dict.fromkeys(name for runs in group.values() for name in runs))
        rows = []
        for column in _columns(group):
            runs = group[column.benchmark]
            standing, _ = _standing(column, runs)
            arrow = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}[_direction(column, runs)]
            cells = [latex_cell(column.title) + arrow]
            for name in names:
                value = runs[name].averaged.get(column.key) if name in runs else None
                style = {"best": r"$\mathbf{%s}$", "tied": r"$\underline{%s}$"}.get(standing.get(name, ""), "$%s$")
                cells.append("--" if value is None else style % f"{value:.4f}")
            rows.append(cells)
        caption = [group_title(group), "bold: best", "underlined: not shown to be worse than the best (Holm, 0.05)"]
        caption += ["--: not run, or undefined"] if any("--" in row for row in rows) else []
        signatures = dict.fromkeys(f"% {result.signature}" for runs in group.values() for result in runs.values())
        blocks.append("\n".join([latex_table(caption, ["", *names], rows) + "\\end{table}", *signatures]))
    return "\n\n".join(blocks)


def leaderboard(group: Mapping[str, Runs]) -> Markup:
    """Return the leaderboard of comparable runs, the best in the first headline score first.

    Args:
        group: The results by benchmark and run.
    """
    columns = _columns(group)
    names = list(dict.fromkeys(name for runs in group.values() for name in runs))
    cells: dict[str, list[str]] = {name: [] for name in names}
    heads, notes, levels = [], [], set()
    for column in columns:
        runs = group[column.benchmark]
        standing, note = _standing(column, runs)
        notes += [note] if note else []
        heads.append(join([column.title, " ", element("small", _words(_direction(column, runs)))]))
        for name in names:
            if name not in runs:
                cells[name].append(Missing(f"{column.benchmark} was not run"))
                continue
            found = scores_of(runs[name], f"sensitivity.{column.key}" if column.benchmark in _SLOPES else column.key)
            value, interval, reason = found.get(None, Score())
            if value is None:
                cells[name].append(Missing(f"{column.title}: {reason}"))
                continue
            mark = standing.get(name, "")
            parts: list[str] = [element("b", f"{value:.4f}") if mark else f"{value:.4f}"]
            parts += [" ", element("span", mark, class_=mark)] if mark else []
            if interval is not None:
                levels.add(f"{100 * interval.level:g} %")
                parts.append(element("small", f"{interval.low:.3f} .. {interval.high:.3f}"))
            if column == COLUMNS[0] and (above := _above_chance(runs, name)):
                parts.append(element("small", f"{sum(above)} of {len(above)} above chance"))
            cells[name].append(join(parts))
    first = columns[0] if columns else None

    def order(name: str) -> tuple[bool, float]:
        value = figure(group[first.benchmark][name].averaged, first.key) if first and name in cells else None
        up = first is not None and _direction(first, group[first.benchmark]) is not False
        return value is None, 0.0 if value is None else -value if up else value

    ranked = sorted(names, key=lambda name: order(name) if first and name in group[first.benchmark] else (True, 0.0))
    every = [result for runs in group.values() for result in runs.values()]
    described = {}
    for name in names:
        own = [runs[name] for runs in group.values() if name in runs]
        failed = sum(details.failed for one in own for details in one.details.values())
        dates = sorted(one.started[:10] for result in own for one in result.provenance.predictors if one.started)
        facts = [own[0].model, own[0].method, _settings(own, every), dates[-1] if dates else "date not recorded"]
        partial = element("small", f"PARTIAL: {failed} queries failed", class_="partial") if failed else ""
        about = element("small", element("bdi", ", ".join(filter(None, facts))))
        described[name] = join([element("bdi", name), about, partial])
    head = ["run: model, method, settings, date", *heads]
    rows = [[described[name], *cells[name]] for name in ranked]
    shown = table(f"Leaderboard: {group_title(group)}", head, rows, classes="sortable board")
    lines = []
    if len(names) > 1:
        lines.append(
            "Best: the best value of a column. Tied: the paired test over test rows (that of the compare command, "
            f"Holm's correction for the pairs with the best run, level {_ALPHA:g}) does not show it to be worse. "
            "Partial runs are not ranked."
        )
    lines += [f"Below each score is its {' or '.join(sorted(levels))} interval."] if levels else []
    if "Normal" in group and levels:
        lines.append("Above chance: data sets whose accuracy has an interval above the random baseline.")
    return join([shown, element("p", " ".join([*lines, *notes]), class_="soft") if lines or notes else ""])


def heat_map(benchmark: str, runs: Runs, title: str, metric: str, baselines: bool = False) -> Markup:
    """Return a score of each run on each data set as a shaded table.

    Args:
        benchmark: Name of the benchmark.
        runs: Comparable results of it, by the name of their run.
        title: Its caption.
        metric: The key of the score in the scores of a data set, nested keys joined by dots.
        baselines: Whether to add the baselines of the accuracy.
    """
    datasets = dataset_names(runs)
    places: list[str | None] = [*datasets, *([None] if len(datasets) > 1 else [])]
    scores = {name: scores_of(result, metric) for name, result in runs.items()}
    known = [one.value for own in scores.values() for one in own.values() if one.value is not None]
    if not known:
        return Markup("")
    low, span = min(known), max(known) - min(known)

    def cell(name: str, place: str | None) -> str:
        score = scores[name].get(place, Score(reason="not evaluated"))
        if score.value is None:
            return score.cell
        shade = round((_SHADES - 1) * (score.value - low) / span) if span else 0
        return element("td", score.cell, class_=f"h{shade}")

    rows = [[name, *(cell(name, place) for place in places)] for name in runs]
    foot = []
    if baselines:
        for label, attribute in (("random baseline", "max_random"), ("majority baseline", "majority")):
            bases = [baselines_of(runs, dataset) for dataset in datasets]
            found = [None if base is None else float(getattr(base, attribute)) for base in bases]
            whole = [one for one in found if one is not None]
            mean = [sum(whole) / len(found) if len(whole) == len(found) else None] if len(datasets) > 1 else []
            foot.append([label, *(Score(one).cell for one in [*found, *mean])])
    direction = _words(higher_is_better(benchmark, metric.removeprefix("sensitivity.")))
    caption = f"{title} ({direction}; a darker cell is a higher value)"
    return table(caption, ["run", *(place or "mean" for place in places)], rows, foot, classes="sortable heat")
