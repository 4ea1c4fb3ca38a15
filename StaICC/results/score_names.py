"""Names of scores in tables; the notes below a table use the same."""

from __future__ import annotations

from StaICC import benchmark_names
from StaICC.metrics.scores import SCORES

_INTERVAL_OF = "interval of "
"""The beginning of the key of a reason why a score has no interval."""

_SLOPE = "sensitivity"
"""The first part of the key of a slope of GLER, such as ``sensitivity.accuracy``."""


def column_head(metric: str) -> str:
    """Return the head of the column of a metric: its short name, or its key.

    Example:
        >>> column_head("averaged_truelabel_likelihood"), column_head("accuracy"), column_head("my_metric")
        ('likelihood', 'accuracy', 'my_metric')
    """
    if metric in SCORES and SCORES[metric].head:
        return SCORES[metric].head
    return metric


def slope_head(metric: str) -> str:
    """Return the head of the column with the slope of a metric over the share of correct labels.

    Example:
        >>> slope_head("macro_F1")
        'slope of macro F1'
    """
    return f"slope of {column_head(metric)}"


def name_of_mean(metric: str, benchmark: str) -> str:
    """Return what the mean of a score over data sets is: the metric, or in GLER its slope over the noise.

    Args:
        metric: The key of the mean.
        benchmark: The name of the benchmark in results.

    Example:
        >>> name_of_mean("averaged_truelabel_likelihood", "Normal"), name_of_mean("accuracy", "GLER")
        ('likelihood', 'slope of accuracy')
    """
    return slope_head(metric) if benchmark == benchmark_names.GLER else column_head(metric)


def name_in_notes(key: str, benchmark: str) -> str:
    """Return the name of a score in a note, with the words of its column.

    Args:
        key: The key of the score in the reasons of a result (``details.missing``).
        benchmark: The name of the benchmark in results.

    Example:
        >>> name_in_notes("interval of macro_F1", "Normal")
        'interval of macro F1'
        >>> name_in_notes("sensitivity.averaged_truelabel_likelihood", "GLER")
        'slope of likelihood'
        >>> name_in_notes("2.averaged_truelabel_likelihood", "GLER")
        'likelihood (condition 2)'
    """
    if key.startswith(_INTERVAL_OF):
        return _INTERVAL_OF + name_in_notes(key.removeprefix(_INTERVAL_OF), benchmark)
    if key in SCORES:
        return column_head(key)
    condition, _, metric = key.rpartition(".")
    if metric not in SCORES:
        return key
    if condition == _SLOPE and benchmark == benchmark_names.GLER:
        return slope_head(metric)
    return f"{column_head(metric)} (condition {condition})"
