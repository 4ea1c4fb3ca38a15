"""StaICC-Normal: the published benchmark of in-context classification.

Defined by Cho and Inoue (2025, arXiv 2501.15708, section 3.2).

Each of 512 test rows of ten data sets is asked twice, with other demonstrations each time. Scores: accuracy, averaged
true-label likelihood, macro F1, and expected calibration error (ECE-1, 10 bins), per data set and as means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from StaICC.benchmarks.benchmark import Benchmark, DatasetChoice, MetricChoice, Settings
from StaICC.benchmarks.scoring import classification_scores
from StaICC.benchmarks.statistics import Statistics, classification_intervals
from StaICC.benchmarks.task import Condition, Outcome, Scores

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from StaICC.benchmarks.experimentor import Experimentor
    from StaICC.metrics.intervals import Interval

__all__ = ["Normal", "NormalTask"]


@dataclass(frozen=True, slots=True)
class NormalTask:
    """Ask the prompts as they stand; score classification."""

    name: ClassVar[str] = "Normal"
    test_rows: int | None = None
    repeats: int = 2
    scores_accuracy: ClassVar[bool] = True

    def options(self) -> Mapping[str, Any]:
        """Return no settings: there are none."""
        return {}

    def conditions(self, experimentor: Experimentor) -> Sequence[Condition]:
        """Return the one condition."""
        return [Condition("normal", experimentor.queries())]

    def score(self, experimentor: Experimentor, outcomes: Sequence[Outcome]) -> Scores:
        """Score the one outcome."""
        values, missing = classification_scores(experimentor, outcomes[0])
        return Scores(values, values, missing)

    def intervals(
        self, experimentor: Experimentor, outcomes: Sequence[Outcome], statistics: Statistics
    ) -> Mapping[str, Interval]:
        """Return the intervals of the four metrics."""
        return classification_intervals(outcomes[0], statistics)


class Normal(Benchmark):
    """StaICC-Normal over the ten data sets.

    Args:
        k: Demonstrations per prompt.
        noisy_channel: Ask for the text given the label; the prompt is then a list with one text for each label.
        metrics: ``"standard"``, ``"0.1.1"`` (the release bug for bug), or functions by name.
        datasets: Names of data sets (or data sets of your own); the ten by default.
        limit: Ask only the first so many test rows of each data set.
        outputs: Read f's numbers as ``"probabilities"`` or ``"logits"``; ``"auto"`` decides for each data set as a
            whole.
        statistics: Intervals and baselines beside the scores, a :class:`~StaICC.benchmarks.statistics.Statistics`.

    Example:
        >>> def always_first(prompt, label_space):
        ...     return 0
        >>> result = Normal(datasets=["mini"])(always_first)
        >>> round(result["Averaged results"]["accuracy"], 2)
        0.26
    """

    task_name = NormalTask.name

    def __init__(
        self,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: MetricChoice = "standard",
        datasets: DatasetChoice = None,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(NormalTask(), k, noisy_channel, metrics, datasets, **settings)
