"""The ensemble: the mean prediction over several lists of demonstrations, also over several templates.

Khalifa et al. 2023, "Exploring Demonstration Ensembling for In-context Learning".
"""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.arguments import validate_integer
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.errors import ArgumentError
from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.mean_over_views import mean_of_views
from StaICC.prompting.demonstrations import sample_demonstrations


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Options of the ensemble."""

    sets: int = 4
    """Demonstration lists for each test example."""
    templates: int = 1
    """Templates: the first of the nine of template sensitivity; 1: the benchmark's own."""


def ensemble(data: MethodData) -> Steps:
    """Average the predictions over demonstration lists and templates."""
    sets = validate_integer("sets", data.options.sets, 1)
    templates = validate_integer("templates", data.options.templates, 1, len(L9))
    data.refuse_several_lists()
    if sets > 1 and not data.k:
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to vary. Use sets=1")
    if templates > 1 and data.sets_template:
        raise ArgumentError(f"{data.benchmark} sets the template itself. Use templates=1")

    views = with_drawn_demonstrations(data, sets)
    if templates > 1:
        views = [view.on(template=levels) for levels in L9[:templates] for view in views]
    return (yield from mean_of_views(views))


def with_drawn_demonstrations(data: MethodData, sets: int) -> list[MethodData]:
    """Return the data with several lists of random demonstrations for each test row.

    Lists are drawn for all rows of the test set, also for those that the run leaves out, so that a row gets the same
    lists in each run.

    Args:
        data: The data of the method.
        sets: How many lists.
    """
    lists = sample_demonstrations(len(data.demonstration_set), data.k, prompts=data.test_size * sets)
    lists_of_sets = in_batches(lists, data.test_size)
    return [data.on(demonstrations=lists_of_rows) for lists_of_rows in lists_of_sets]


ENSEMBLE = MethodSpec("ensemble", "Ensemble", ensemble, options=EnsembleOptions)
