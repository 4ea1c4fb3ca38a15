"""StaICC-Normal, the published benchmark of in-context classification.

Cho and Inoue 2025, arXiv 2501.15708, section 3.2. Each of 512 test rows of ten data sets is used twice, with other
demonstrations each time. Scores: accuracy, averaged true-label likelihood, macro F1, and expected calibration error
(ECE-1, 10 bins), per data set and as means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from StaICC import benchmark_names
from StaICC.benchmarks.benchmark import TaskBenchmark, classification_scores
from StaICC.benchmarks.task import Condition, Scores, Task

if TYPE_CHECKING:
    from StaICC.benchmarks.score_intervals import Intervals
    from StaICC.benchmarks.task import Outcome, Scoring, TaskInput


@dataclass(frozen=True, slots=True)
class NormalTask(Task):
    """Predicts the queries with the prompts as the benchmark writes them, and scores the classification."""

    name: ClassVar[str] = benchmark_names.NORMAL
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True
    scores_metric_set: ClassVar[bool] = True
    row_scores: ClassVar[Sequence[str]] = ("accuracy", "averaged_truelabel_likelihood")

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the one condition, ``normal``, with the queries of all test rows and repeats."""
        return [Condition("normal", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return the metrics of the one condition. All of them enter the means over data sets."""
        outcome = outcomes[0]  # that of the one condition, "normal"
        values, missing = classification_scores(outcome, scoring.metric_set)
        return Scores(values, averaged=values, missing=missing)

    def intervals(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Intervals:
        """Return the confidence intervals of the metrics, by key."""
        from StaICC.benchmarks import score_intervals

        outcome = outcomes[0]  # that of the one condition, "normal"
        statistics_by_key = scoring.metric_set.statistics
        return score_intervals.score_intervals(outcome, statistics_by_key, level=scoring.statistics.level)


class Normal(TaskBenchmark):
    """StaICC-Normal over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel); the prompt is a list with one text for each
            label.
        metrics: ``"standard"``, ``"0.1.1"`` (the release bug for bug), or functions by name.
        datasets: Names of data sets (or data sets of your own); the ten by default.
        limit: The maximum number of test rows per data set.
        outputs: Read rows of numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides once for each data set.
        statistics: Options of the confidence intervals and random baselines.

    Example:
        >>> def always_first(prompt, label_space):
        ...     return 0
        >>> result = Normal(datasets=["mini"])(always_first)
        >>> round(result["Averaged results"]["accuracy"], 2)
        0.26
    """

    task_name = NormalTask.name
    task_class = NormalTask
