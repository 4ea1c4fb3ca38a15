"""Many-shot: accuracy and cost against the number of demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.errors import ArgumentError
from StaICC.results.report.accuracy import legend_label
from StaICC.results.report.drawing import ROLES, draw_interval, new_grid, plain_axes, series, styled
from StaICC.results.report.runs import Given, Runs, dataset_names, figure, interval_of, named, number_cell
from StaICC.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["shots_chart", "shots_lines", "shots_rows"]

_COSTS = ("prompt_characters", "new_characters")


def shots_lines(given: Given) -> dict[str, dict[int, Result]]:
    """Return the runs that differ in ``k`` only, by model and method, each with its results by ``k``.

    Args:
        given: Results of Normal.
    """
    lines: dict[str, dict[int, Result]] = {}
    for result in named(given).values():
        fields = result.signature.fields
        if (k := str(fields.get("k"))).isdigit():
            parts = (result.method, fields.get("demonstrations") or "default", result.model)
            lines.setdefault(", ".join(parts), {})[int(k)] = result
    return {name: dict(sorted(line.items())) for name, line in lines.items() if len(line) > 1}


@styled
def shots_chart(given: Given) -> Figure:
    """Draw accuracy and cost against the number of demonstrations, one line for each model and method.

    Args:
        given: Results with different ``k``, by the name of their run, such as those of
            :func:`~StaICC.methods.many_shot.run_many_shot`.

    Returns:
        A matplotlib figure.

    Raises:
        ArgumentError: No two results differ in ``k`` only.
        MissingDependencyError: ``matplotlib`` is not installed.
    """
    lines = shots_lines(given)
    if not lines:
        raise ArgumentError("no two results differ in k only. Use results of run_many_shot")
    datasets = dataset_names({str(k): result for line in lines.values() for k, result in line.items()})
    drawing, (scores, costs) = new_grid(2, 2, 4.0, 2.9)
    for number, (name, line) in enumerate(lines.items()):
        own = series(number)
        known = [(k, value) for k, one in line.items() if (value := figure(one.averaged, "accuracy")) is not None]
        if len(datasets) == 1:
            for k, one in line.items():
                draw_interval(scores, interval_of(one, datasets[0], "accuracy"), k, own, upright=True)
        scores.plot(
            [k for k, _ in known], [y for _, y in known], own.mark + "-", color=own.colour, label=legend_label(name)
        )
        for key, style in zip(_COSTS, ("--", "-"), strict=True):
            cost = {k: one.timing[key] / 1000 for k, one in line.items() if one.timing.get(key)}
            label = "all" if key == _COSTS[0] else "without shared prefixes"
            costs.plot(list(cost), list(cost.values()), own.mark + style, color=own.colour, label=label)
    ks = sorted({k for line in lines.values() for k in line})
    for axes, text in ((scores, "accuracy"), (costs, "thousand characters of prompts")):
        axes.set_xscale("symlog", base=2, linthresh=1)
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        axes.set_ylabel(text)
        plain_axes(axes, "y")
    scores.set_ylim(-0.02, 1.02)
    costs.set_ylim(bottom=0)
    costs.legend(*(some[:2] for some in costs.get_legend_handles_labels()), frameon=False)
    drawing.legend(*scores.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False)
    drawing.supxlabel("demonstrations (k)", fontsize=9, color=ROLES["soft"])
    return drawing


def shots_rows(runs: Runs) -> tuple[list[str], list[list[str]]]:
    """Return the numbers of the chart as a table.

    Args:
        runs: Results of Normal.

    Returns:
        Head and rows.
    """
    rows = [
        [
            name,
            str(k),
            number_cell(figure(one.averaged, "accuracy")),
            *(f"{one.timing.get(key, 0):.0f}" for key in _COSTS),
        ]
        for name, line in shots_lines(runs).items()
        for k, one in line.items()
    ]
    return ["run", "k", "accuracy", "characters of prompts", "without shared prefixes"], rows
