"""Whether the mean that a harness reports can be that of the samples in its log."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

MEAN_TOLERANCE = 1e-6
"""A reported mean and the mean of the samples are the same, up to rounding, if they differ by less than this."""

Range = tuple[float, float]
"""The lowest and the highest possible value of a metric for one sample."""


@dataclass(slots=True)
class SampleGroup:
    """The samples that a harness may average first, such as the epochs of a document, by one metric."""

    values: list[float] = field(default_factory=list)
    """The values of the scored samples."""
    unseen_count: int = 0
    """Number of samples whose values the log does not show, and which may be part of the reported mean."""


def can_be_mean(reported: float, groups: Collection[SampleGroup], value_range: Range | None) -> bool:
    """Return whether a reported value can be the mean of the scored samples.

    The mean may give each sample the same weight, or each group. Where the log lacks samples, the mean is between those
    with the lowest and with the highest possible value for each of them; these samples may also have had no score.

    Args:
        reported: The value that the harness reports.
        groups: The samples.
        value_range: The range of the metric; ``None`` if it is not known. The mean of a log that lacks samples can then
            be any value.
    """
    if not any(group.values for group in groups):
        return True
    lowest_unseen = 0.0
    highest_unseen = 0.0
    if any(group.unseen_count for group in groups):
        if value_range is None or not _are_in_range(groups, value_range):
            return True
        lowest_unseen, highest_unseen = value_range

    tolerance = MEAN_TOLERANCE * max(1.0, abs(reported))
    lowest_mean = _mean_of_samples(groups, lowest_unseen) - tolerance
    highest_mean = _mean_of_samples(groups, highest_unseen) + tolerance
    if lowest_mean <= reported <= highest_mean:
        return True
    lowest_mean = _mean_of_groups(groups, lowest_unseen) - tolerance
    highest_mean = _mean_of_groups(groups, highest_unseen) + tolerance
    return lowest_mean <= reported <= highest_mean


def mean_of_scored(groups: Collection[SampleGroup]) -> float:
    """Return the mean of the values in the log."""
    values = [value for group in groups for value in group.values]
    return math.fsum(values) / len(values)


def is_mean_of_groups_only(reported: float, groups: Collection[SampleGroup]) -> bool:
    """Return whether a reported value is the mean over the groups, and not that over the scored samples.

    Both means differ if some samples of a group have no score, such as an epoch that failed. Where the log lacks
    samples, the answer is not known, and this is false.
    """
    scored_groups = [group for group in groups if group.values]
    if not scored_groups or any(group.unseen_count for group in groups):
        return False
    tolerance = MEAN_TOLERANCE * max(1.0, abs(reported))
    is_mean_of_samples = abs(reported - mean_of_scored(groups)) <= tolerance
    is_mean_of_groups = abs(reported - _mean_of_groups(scored_groups, unseen_value=0.0)) <= tolerance
    return is_mean_of_groups and not is_mean_of_samples


def _are_in_range(groups: Collection[SampleGroup], value_range: Range) -> bool:
    """Return whether all values are in the range of their metric."""
    low, high = value_range
    return all(low <= value <= high for group in groups for value in group.values)


def _mean_of_samples(groups: Collection[SampleGroup], unseen_value: float) -> float:
    """Return the mean in which each sample has the same weight.

    Args:
        groups: The samples.
        unseen_value: The value of each sample that the log does not show.
    """
    unseen_count = sum(group.unseen_count for group in groups)
    values = [value for group in groups for value in group.values]
    return (math.fsum(values) + unseen_count * unseen_value) / (len(values) + unseen_count)


def _mean_of_groups(groups: Collection[SampleGroup], unseen_value: float) -> float:
    """Return the mean in which each group has the same weight. The arguments are those of :func:`_mean_of_samples`."""
    means = []
    for group in groups:
        if group.values or group.unseen_count:
            means.append(_mean_of_samples([group], unseen_value))
    return math.fsum(means) / len(means)
