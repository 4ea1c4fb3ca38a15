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
from typing import Any

import numpy as np
from generalising import designs
from records import arguments, markdown, record
from skewed_nulls import contributions_to_mean, difference_of_contributions

from StaICC.comparing.planning import Components, SampleDesign, plan
from StaICC.metrics import paired_tests
from StaICC.metrics.crossed_effects import SOURCES, generalise, generalising_p_value, mean_effects
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


def outcomes(draw: np.random.Generator, sizes: Sequence[int], model: Sequence[float], shift: float = 0.0) -> Any:
    """Return two runs: sample x row x draw x template. They share the effect of the row only."""
    rows = model[0] * draw.standard_normal((BATCH, sizes[0], 1, 1))
    runs = []
    for sign in (0.5, -0.5):
        odds = model[-1] + sign * shift + rows
        for source, deviation in list(zip(SOURCES, model[:-1], strict=False))[1:]:
            shape = [size if factor in source else 1 for factor, size in enumerate(sizes)]
            odds = odds + deviation * draw.standard_normal((BATCH, *shape))
        runs.append((draw.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.float64))
    return runs


def truth(draw: np.random.Generator, model: Sequence[float], difference: float | None) -> tuple[Components, float]:
    """Return components of a run, or of a difference, and the shift of the log-odds that makes the difference."""
    sizes, shift = (60, 12, 9), 0.0
    normal = draw.standard_normal(400_000) * math.hypot(*model[:-1]) + model[-1]
    if difference is not None:
        low, high = 0.0, 6.0
        for _ in range(30):
            shift = (low + high) / 2
            first, second = (np.mean(1 / (1 + np.exp(-normal - sign * shift))) for sign in (0.5, -0.5))
            low, high = (shift, high) if first - second < difference else (low, shift)
    found, accuracies = [], []
    for _ in range(400 // BATCH):
        first, second = outcomes(draw, sizes, model, shift)
        values = first if difference is None else first - second
        accuracies.append(float(first.mean()))
        found += [list(design.components.values()) for design in designs(values)]
    means = np.maximum(0.0, np.mean(found, axis=0)).tolist()
    accuracy = float(np.mean(accuracies)) if difference is None else None
    return Components(dict(zip(SOURCES.values(), means, strict=True)), 0.0, difference is not None, "", accuracy), shift


def achieved(
    draw: np.random.Generator, design: SampleDesign, model: Sequence[float], shift: float | None, samples: int
) -> float:
    """Return the mean half width of a design, or its power."""
    sizes = (design.rows, design.draws, design.templates)
    of_query = np.repeat(np.arange(sizes[0]), math.prod(sizes[1:])).tolist()
    counts = [float(math.prod(sizes[1:]))] * sizes[0]
    figures: list[float] = []
    while len(figures) < samples:
        sets = [outcomes(draw, sizes, model, shift or 0.0) for _ in range(design.datasets)]
        squares = [list(designs(first if shift is None else first - second)) for first, second in sets]
        for sample in range(BATCH):
            effects = mean_effects([of_set[sample] for of_set in squares])
            if shift is None:
                parts = [ratio_part(first[sample].sum((1, 2)).tolist(), counts, 0.95) for first, _ in sets]
                values = [part.value for part in parts]
                fixed = mean_interval(values, [part.interval(0.95, "") for part in parts])
                interval = generalise(sum(values) / len(values), fixed, effects)
                figures.append((interval.high - interval.low) / 2)
                continue
            contributions = [
                [contributions_to_mean(run[sample].ravel().tolist(), of_query, sizes[0]) for run in runs]
                for runs in sets
            ]
            difference = paired_tests.mean_difference([difference_of_contributions(parts) for parts in contributions])
            p = generalising_p_value(difference.difference, paired_tests.p_value(difference), effects)
            figures.append(float(p <= 0.05 and difference.difference > 0))
    return float(np.mean(figures))


def main() -> None:
    """Print and record predicted and achieved precision and power."""
    options = arguments(__doc__, {"--samples": 300, "--only": ["half width", "power"]})
    draw = np.random.default_rng(28)
    table, figures = [], {}
    for name, model in MODELS.items():
        goals = [("half width", 0.08, 1), ("half width", 0.06, 3), ("half width", 0.05, 5), ("half width", 0.04, 10)]
        goals += [("power", 0.12, 1), ("power", 0.08, 3), ("power", 0.05, 10)]
        for kind, target, datasets in goals:
            if kind not in options.only:
                continue
            difference = target if kind == "power" else None
            components, shift = truth(draw, model, difference)
            try:
                wanted = {"difference": target} if difference else {"half_width": target}
                planned = plan(components, max_datasets=datasets, **wanted).designs
            except ValueError as error:
                print(name, kind, error)
                continue
            design = next((design for design in planned if design.datasets == datasets), planned[0])
            reached = achieved(draw, design, model, None if difference is None else shift, options.samples)
            predicted = design.half_width if design.power is None else design.power
            sizes = f"{design.datasets} x {design.rows} x {design.draws} x {design.templates}"
            table.append([name, kind, f"{target}", sizes, f"{predicted:.4f}", f"{reached:.4f}"])
            print(*table[-1], flush=True)
            figures[f"{name}, {kind} {target} / achieved"] = reached
            figures[f"{name}, {kind} {target} / predicted"] = predicted
    print(markdown(["effects", "", "target", "data sets x rows x draws x templates", "plan", "achieved"], table))
    record(__file__, figures, {"samples": options.samples})


if __name__ == "__main__":
    main()
