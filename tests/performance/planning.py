"""Plans against what they reach: precision in 20 designs, and power, with predictions that no formula assumes.

Usage::

    python tests/performance/planning.py --samples 300

Predictions are Bernoulli variables whose log-odds are sums of effects of test row, draw, template and their
interactions. The components of the 0-1 outcomes come from 400 large designs. Each plan is then run many times with
:func:`~StaICC.metrics.crossed_effects.generalise` and the paired test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from generalising import designs
from records import arguments, markdown, record
from skewed_nulls import contributions_to_mean, difference_of_contributions

from StaICC.comparing.planning import Components, SampleDesign, plan
from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, CrossedEffects, generalise, generalising_p_value, mean_effects
from StaICC.metrics.intervals import mean_interval, ratio_part

MODELS = {  # standard deviations of the log-odds in the order of SOURCES but the last; mean
    "rows": (2.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.5),
    "draws": (1.5, 0.4, 0.0, 1.0, 0.3, 0.0, 0.0),
    "templates": (1.5, 0.0, 0.4, 0.3, 0.5, 0.0, 1.0),
    "draws x templates": (1.5, 0.0, 0.0, 0.8, 0.2, 0.4, 0.5),
    "all": (2.0, 0.3, 0.3, 0.8, 0.5, 0.2, 1.5),
    "near 1": (1.0, 0.3, 0.3, 0.5, 0.3, 0.2, 4.5),
}
BATCH = 50


class TwoRuns(NamedTuple):
    """Outcomes of two runs, 1 or 0: sample x row x draw x template."""

    first: Any
    second: Any


def draw_outcomes(
    draw: np.random.Generator, sizes: Sequence[int], model: Sequence[float], shift: float = 0.0
) -> TwoRuns:
    """Draw two runs, which share the effects of the rows only.

    Args:
        draw: The generator of random numbers.
        sizes: Numbers of rows, draws and templates.
        model: The standard deviations of the effects on the log-odds, and their mean.
        shift: The difference of the mean log-odds of the runs.
    """
    *deviations, mean = model
    deviation_of_rows, *other_deviations = deviations
    effects_of_rows = deviation_of_rows * draw.standard_normal((BATCH, sizes[0], 1, 1))
    _, *other_sources = list(SOURCES)[: len(deviations)]
    runs = []
    for half in (0.5, -0.5):
        odds = mean + half * shift + effects_of_rows
        for source, deviation in zip(other_sources, other_deviations, strict=True):
            shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
            odds = odds + deviation * draw.standard_normal((BATCH, *shape))
        runs.append((draw.random(odds.shape) < logistic(odds)).astype(np.float64))
    return TwoRuns(*runs)


def logistic(odds: Any) -> Any:
    return 1 / (1 + np.exp(-odds))


def shift_for(difference: float, odds: Any) -> float:
    """Return the shift of the log-odds of two runs, of which these are the mean, that makes a difference of accuracies.

    By bisection.
    """
    low, high = 0.0, 6.0
    for _ in range(30):
        shift = (low + high) / 2
        accuracy_of_first = np.mean(logistic(odds + 0.5 * shift))
        accuracy_of_second = np.mean(logistic(odds - 0.5 * shift))
        if accuracy_of_first - accuracy_of_second < difference:
            low = shift
        else:
            high = shift
    return shift


class Truth(NamedTuple):
    """The true components of a run, or of a difference, and the shift of the log-odds that makes the difference."""

    components: Components
    shift: float


def true_components(draw: np.random.Generator, model: Sequence[float], difference: float | None) -> Truth:
    """Return the components as the means over 400 large designs; of one run if ``difference`` is ``None``."""
    *deviations, mean = model
    odds = draw.standard_normal(400_000) * math.hypot(*deviations) + mean
    shift = 0.0 if difference is None else shift_for(difference, odds)
    components_of_samples: list[list[float]] = []
    accuracies = []
    for _ in range(400 // BATCH):
        runs = draw_outcomes(draw, (60, 12, 9), model, shift)
        values = runs.first if difference is None else runs.first - runs.second
        accuracies.append(float(runs.first.mean()))
        components_of_samples += [list(design.components.values()) for design in designs(values)]
    means = np.maximum(0.0, np.mean(components_of_samples, axis=0)).tolist()
    variances = dict(zip(SOURCES.values(), means, strict=True))
    accuracy = float(np.mean(accuracies)) if difference is None else None
    return Truth(Components(variances, 0.0, difference is not None, "", accuracy), shift)


def half_width(outcomes_of_datasets: Sequence[Any], effects: CrossedEffects) -> float:
    """Return the half width of the generalising interval of a run: row x draw x template for each data set."""
    parts = []
    for outcomes in outcomes_of_datasets:
        rows, draws, templates = outcomes.shape
        parts.append(ratio_part(outcomes.sum((1, 2)).tolist(), [float(draws * templates)] * rows, 0.95))
    accuracies = [part.value for part in parts]
    over_rows = mean_interval(accuracies, [part.interval(0.95, "") for part in parts])
    interval = generalise(sum(accuracies) / len(accuracies), over_rows, effects)
    return (interval.high - interval.low) / 2


def first_is_shown_better(runs_of_datasets: Sequence[TwoRuns], effects: CrossedEffects) -> bool:
    """Return whether the generalising test shows that the first of two runs is better."""
    differences = []
    for runs in runs_of_datasets:
        rows, draws, templates = runs.first.shape
        row_of_query = np.repeat(np.arange(rows), draws * templates).tolist()
        contributions = [contributions_to_mean(run.ravel().tolist(), row_of_query, rows) for run in runs]
        differences.append(difference_of_contributions(contributions))
    mean = paired_tests.mean_difference(differences)
    p_value = generalising_p_value(mean.difference, paired_tests.p_value(mean), effects)
    return p_value <= 0.05 and mean.difference > 0


def achieved(
    draw: np.random.Generator, design: SampleDesign, model: Sequence[float], shift: float | None, samples: int
) -> float:
    """Return the mean half width of a design, or, with a shift of the log-odds, its power."""
    sizes = (design.rows, design.draws, design.templates)
    figures: list[float] = []
    while len(figures) < samples:
        datasets = [draw_outcomes(draw, sizes, model, shift or 0.0) for _ in range(design.datasets)]
        effects_of_datasets = []
        for runs in datasets:
            values = runs.first if shift is None else runs.first - runs.second
            effects_of_datasets.append(list(designs(values)))
        for sample in range(BATCH):
            effects = mean_effects([of_dataset[sample] for of_dataset in effects_of_datasets])
            if shift is None:
                figures.append(half_width([runs.first[sample] for runs in datasets], effects))
            else:
                of_sample = [TwoRuns(runs.first[sample], runs.second[sample]) for runs in datasets]
                figures.append(float(first_is_shown_better(of_sample, effects)))
    return float(np.mean(figures))


class Goal(NamedTuple):
    """What a plan is asked for: a half width, or power 0.8 for a difference, with at most so many data sets."""

    kind: str
    target: float
    datasets: int


GOALS = (
    Goal("half width", 0.08, 1),
    Goal("half width", 0.06, 3),
    Goal("half width", 0.05, 5),
    Goal("half width", 0.04, 10),
    Goal("power", 0.12, 1),
    Goal("power", 0.08, 3),
    Goal("power", 0.05, 10),
)


def planned_design(components: Components, goal: Goal) -> SampleDesign:
    """Return the planned design with the number of data sets of the goal, or else the one with the fewest queries."""
    target = {"difference": goal.target} if goal.kind == "power" else {"half_width": goal.target}
    planned = plan(components, max_datasets=goal.datasets, **target).designs
    with_all_datasets = [design for design in planned if design.datasets == goal.datasets]
    return with_all_datasets[0] if with_all_datasets else planned[0]


def main() -> None:
    """Print and record predicted and achieved precision and power."""
    options = arguments(__doc__, {"--samples": 300, "--only": ["half width", "power"]})
    draw = np.random.default_rng(28)
    table: list[list[str]] = []
    figures = {}
    for (name, model), goal in product(MODELS.items(), GOALS):
        if goal.kind not in options.only:
            continue
        truth = true_components(draw, model, goal.target if goal.kind == "power" else None)
        try:
            design = planned_design(truth.components, goal)
        except ValueError as error:
            print(name, goal.kind, error)
            continue
        shift = truth.shift if goal.kind == "power" else None
        reached = achieved(draw, design, model, shift, options.samples)
        predicted = design.half_width if design.power is None else design.power
        sizes = f"{design.datasets} x {design.rows} x {design.draws} x {design.templates}"
        table.append([name, goal.kind, f"{goal.target}", sizes, f"{predicted:.4f}", f"{reached:.4f}"])
        print(*table[-1], flush=True)
        figures[f"{name}, {goal.kind} {goal.target} / achieved"] = reached
        figures[f"{name}, {goal.kind} {goal.target} / predicted"] = predicted
    print(markdown(["effects", "", "target", "data sets x rows x draws x templates", "plan", "achieved"], table))
    record(__file__, figures, {"samples": options.samples})


if __name__ == "__main__":
    main()
