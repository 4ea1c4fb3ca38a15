"""Results: dictionaries with the documented keys that know their signature, and go to and from JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.lazy import lazy_names
from StaICC.results.details import Baselines, ConditionRecord, DatasetDetails, FailedQuery, MeanDetails
from StaICC.results.provenance import Predictor, Provenance, describe_environment
from StaICC.results.result import AVERAGED, DIVIDED, Result, ResultGroup, load, save_records
from StaICC.results.signature import Signature, digest, escaped, short_digest

if TYPE_CHECKING:
    from StaICC.results.comparison import (
        Comparison,
        DatasetComparison,
        Difference,
        compare,
        compare_runs,
        list_differences,
    )

__all__ = [
    "AVERAGED",
    "DIVIDED",
    "Baselines",
    "Comparison",
    "ConditionRecord",
    "DatasetComparison",
    "DatasetDetails",
    "Difference",
    "FailedQuery",
    "MeanDetails",
    "Predictor",
    "Provenance",
    "Result",
    "ResultGroup",
    "Signature",
    "compare",
    "compare_runs",
    "describe_environment",
    "digest",
    "escaped",
    "list_differences",
    "load",
    "save_records",
    "short_digest",
]

__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.results.comparison": ("Comparison DatasetComparison Difference compare compare_runs list_differences"),
    },
)
