"""The ensemble over demonstration lists and templates.

Khalifa et al. 2023, "Exploring Demonstration Ensembling for In-context Learning".
"""

from __future__ import annotations

from dataclasses import dataclass

from StaICC.arguments import validate_integer
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivityTask
from StaICC.errors import ArgumentError
from StaICC.methods import specification as spec
from StaICC.methods.mean_over_views import mean_of_views
from StaICC.prompting.demonstrations import sample_demonstrations


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Options of the ensemble."""

    sets: int = 4
    """Demonstration lists for each test example."""
    templates: int = 1
    """Templates: the first of the nine of template sensitivity; 1: the benchmark's own."""


def ensemble(data: spec.MethodData) -> spec.Steps:
    """Average the predictions over demonstration lists and templates."""
    experimentor = data.experimentor
    sets = validate_integer("sets", data.options.sets, 1)
    templates = validate_integer("templates", data.options.templates, 1, len(L9))
    spec.refuse_several_lists(experimentor)
    if sets > 1 and not experimentor.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to vary. Use sets=1")
    if templates > 1 and isinstance(experimentor.task, TemplateSensitivityTask):
        raise ArgumentError(f"{experimentor.task.name} sets the template itself. Use templates=1")
    size = len(experimentor.test_set())
    lists = sample_demonstrations(len(experimentor.demonstration_set()), experimentor.get_k(), size * sets)
    views = [
        spec.with_demonstrations(experimentor, lists[start : start + size]) for start in range(0, size * sets, size)
    ]
    if templates > 1:
        views = [spec.with_template(view, levels) for levels in L9[:templates] for view in views]
    return (yield from mean_of_views(data, views))


ENSEMBLE = spec.MethodSpec("ensemble", "Ensemble", ensemble, options=EnsembleOptions)
