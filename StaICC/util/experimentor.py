"""``StaICC.util.experimentor`` of 0.1.1: an experimentor for a data set with a split of other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from StaICC.benchmarks.experimentor import Experimentor, MetricTable
from StaICC.benchmarks.tasks.normal import NormalTask
from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.metrics.metric_set import Metric, MetricFunction, MetricSet
from StaICC.prompting.views import TripletSplit
from StaICC.removed import removed_names
from StaICC.util.dataset_interface import OriginalDataset, dataset_of


class _AnyExperimentor(type(Experimentor)):  # type: ignore[misc]
    """In 0.1.1, every experimentor is an instance of ``single_experimentor``."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Experimentor)


class single_experimentor(Experimentor, metaclass=_AnyExperimentor):
    """An experimentor of StaICC-Normal, with the arguments of 0.1.1.

    Args:
        triplet_dataset: The three sets of another experimentor, ``benchmark[i].triplet_dataset``.
        original_dataset: A data set instead: ``benchmark._original_data[i]``, or a name.
        k: Demonstrations per prompt.
        metrics: The metric set, by name or as functions by name, or ``benchmark.metrics``.
        repeat_times: How often each test row is used.
        dividing: Rows of the calibration, demonstration and test sets, for ``original_dataset``.
        noisy_channel: Score the text given the label (noisy channel).

    Raises:
        ArgumentError: Neither or both of the data sets are given, or the data set has too few rows.

    Example:
        >>> len(single_experimentor(original_dataset="mini", dividing=[10, 20, 30]).prompt_set())
        60
    """

    __slots__ = ()

    def __init__(
        self,
        triplet_dataset: TripletSplit | None = None,
        original_dataset: OriginalDataset | None = None,
        k: int = 4,
        metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] | MetricTable = "standard",
        repeat_times: int = 2,
        dividing: Sequence[int] = (1024, 4096, 512),
        noisy_channel: bool = False,
    ) -> None:
        if triplet_dataset is not None and original_dataset is not None:
            raise ArgumentError("got triplet_dataset and original_dataset, expected one of them")
        if triplet_dataset is not None:
            dataset = _dataset_of_split(triplet_dataset)
        elif original_dataset is not None:
            dataset = dataset_of(original_dataset, _sizes_of(dividing))
        else:
            raise ArgumentError("got no data set, expected triplet_dataset or original_dataset")
        super().__init__(dataset, NormalTask(repeat_times), k=k, noisy_channel=noisy_channel, metrics=metrics)
        if triplet_dataset is not None:
            self._triplet = triplet_dataset
        self.demonstration_lists()  # raises where there are too few rows


def _dataset_of_split(split: object) -> Dataset:
    """Return the data set of three sets.

    Raises:
        ArgumentError: The value is no split, or does not know its data set.
    """
    if not isinstance(split, TripletSplit):
        raise ArgumentError(
            f"triplet_dataset: got {split!r:.60}, expected benchmark[i].triplet_dataset. Pass a data set as "
            "original_dataset=..."
        )
    return split.require_dataset()


def _sizes_of(dividing: Sequence[int]) -> SplitSizes:
    """Return the numbers of calibration, demonstration and test rows as the sizes of a split.

    Raises:
        ArgumentError: They are not three numbers, or not possible as sizes.
    """
    if len(dividing) != 3:
        raise ArgumentError(
            f"dividing: got {len(dividing)} numbers, expected 3: calibration, demonstration and test rows"
        )
    calibration, demonstration, test = dividing
    return SplitSizes(calibration, demonstration, test)


__getattr__ = removed_names(
    __name__,
    {
        "GLER_experimentor": "StaICC.GLER(datasets=['TREC'])[0]",
        "demonstration_sensitivity_experimentor": "StaICC.Demo_sens(datasets=['TREC'])[0]",
        "post_bias_experimentor": "StaICC.Post_bias(datasets=['TREC'])[0]",
        "prior_bias_experimentor": "StaICC.Contextual_bias(datasets=['TREC'])[0], or Domain_bias",
        "sensitivity_experimentor": "StaICC.GLER(datasets=['TREC'])[0]",
        "template_sensitivity_experimentor": "StaICC.Template_sens(datasets=['TREC'])[0]",
    },
)
