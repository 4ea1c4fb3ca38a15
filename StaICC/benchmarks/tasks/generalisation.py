"""Generalisation: each test row with several draws of demonstrations, each draw with several templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC import benchmark_names
from StaICC.arguments import set_integers, validate_integer
from StaICC.benchmarks.benchmark import Benchmark, classification_scores
from StaICC.benchmarks.task import Condition, Outcome, Scores, Task
from StaICC.benchmarks.tasks.label_noise import L9, queries_by_repeat
from StaICC.benchmarks.tasks.sensitivity import template_of_levels
from StaICC.errors import ArgumentError
from StaICC.metrics.metric_set import metric_set
from StaICC.metrics.scores import STATISTICS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.benchmark import Datasets, ScoringSettings
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Scoring, TaskInput
    from StaICC.inference.contract import Answer
    from StaICC.inference.replies import Failure
    from StaICC.prompting.demonstrations import DemonstrationLists
    from StaICC.prompting.prompt_writer import Query


_GENERALISATION_ROWS = 128
"""Test rows of a data set, unless the limit is larger; with 4 x 3 prompts each they make 1,536 queries."""
_TEMPLATE_ORDER = (0, 3, 7, 1, 2, 4, 5, 6, 8)
"""Templates in the order in which they are used: the first three have all instructions, and no level three times."""


@dataclass(frozen=True, slots=True)
class GeneralisationTask(Task):
    """Predicts each test row with every pair of a list of demonstrations and a template, and scores the accuracy."""

    name: ClassVar[str] = benchmark_names.GENERALISATION
    test_rows: int | None = _GENERALISATION_ROWS
    scores_accuracy: ClassVar[bool] = True
    draws: int = 4
    templates: int = 3

    def __post_init__(self) -> None:
        set_integers(self, draws=2)
        object.__setattr__(self, "templates", validate_integer("templates", self.templates, 2, len(L9)))

    @property
    def repeats(self) -> int:
        """How many lists of demonstrations there are."""
        return self.draws

    def options(self) -> Mapping[str, Any]:
        """Return the options of the task: the numbers of draws and templates, and ``rows`` if it is not the default.

        ``rows`` is the maximum number of test rows.
        """
        options = {"draws": self.draws, "templates": self.templates}
        if self.test_rows is not None and self.test_rows != _GENERALISATION_ROWS:
            options["rows"] = self.test_rows
        return options

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return one condition for each pair of a draw and a template, draw by draw.

        A draw is a list of demonstrations that all test rows share. The conditions are named ``draw1-template1`` and so
        on.

        Raises:
            ArgumentError: There is one draw only, or test rows of a draw have different demonstrations.
        """
        row_count = len(task_input.split.test)
        if task_input.repeats < 2 or not _rows_share_lists(task_input.demonstration_lists, row_count):
            raise ArgumentError(
                f"{self.name}: got other demonstrations for each test row, or one draw, expected "
                f"{self.draws} lists that all test rows share (sampler='nested-shared', the default)"
            )
        prompt_settings = []
        for number in _TEMPLATE_ORDER[: self.templates]:
            prompt_settings.append(template_of_levels(task_input, L9[number]))
        conditions = []
        for number, queries in enumerate(queries_by_repeat(task_input, prompt_settings)):
            draw, template = divmod(number, self.templates)  # each draw with all templates
            conditions.append(Condition(f"draw{draw + 1}-template{template + 1}", queries))
        return conditions

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the accuracy over the queries of all conditions together."""
        values, missing = classification_scores(_pooled(outcomes), metric_set("accuracy"))
        return Scores(values, averaged=values, missing=missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the interval of the accuracy for other test rows.

        The draws and templates count as fixed, so the interval does not contain their variance.
        """
        from StaICC.benchmarks import score_intervals

        statistics = {"accuracy": STATISTICS["accuracy"]}
        return score_intervals.score_intervals(_pooled(outcomes), statistics, scoring.statistics.level)


def _rows_share_lists(lists: DemonstrationLists, row_count: int) -> bool:
    """Return whether, within each draw, all test rows have the same list of demonstrations.

    Args:
        lists: The list of demonstrations of each prompt, draw by draw.
        row_count: The number of test rows, which is the number of prompts of a draw.
    """
    for number, demonstrations in enumerate(lists):
        first_of_draw = number - number % row_count
        if demonstrations != lists[first_of_draw]:
            return False
    return True


def _pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome with the queries and predictions of all conditions."""
    queries: list[Query] = []
    answers: list[Answer | Failure] = []
    for outcome in outcomes:
        queries += outcome.condition.queries
        answers += outcome.given
    first = outcomes[0]
    pooled = Outcome(Condition("all", queries), answers, first.outputs)
    pooled.clusters = first.clusters
    return pooled


class Generalisation(Benchmark):
    """Accuracy over draws of demonstrations x templates, with their variance components, on the ten data sets.

    128 test rows each, or more with a larger ``limit``, and by default 4 x 3 prompts for a row: a draw is one list of
    demonstrations for all rows.
    :func:`~StaICC.comparing.generalisation.variance_components` reads the result.

    Args:
        k: Demonstrations per prompt.
        datasets: Data sets; the ten by default.
        draws: Number of lists of demonstrations.
        templates: Number of templates, at most nine, those of template sensitivity.
        **settings: See :class:`~StaICC.benchmarks.benchmark.ScoringSettings`; ``sampler`` is ``"nested-shared"``.
    """

    task_name = GeneralisationTask.name

    def __init__(
        self,
        k: int = 4,
        datasets: Datasets = None,
        draws: int = 4,
        templates: int = 3,
        **settings: Unpack[ScoringSettings],
    ) -> None:
        """Make the benchmark. A limit above the usual number of test rows raises that number."""
        settings.setdefault("sampler", "nested-shared")
        test_rows = _GENERALISATION_ROWS
        limit = settings.get("limit")
        if isinstance(limit, int) and limit > test_rows:
            test_rows = limit
        task = GeneralisationTask(test_rows=test_rows, draws=draws, templates=templates)
        super().__init__(task, k, datasets=datasets, **settings)
