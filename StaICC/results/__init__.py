"""Results: dictionaries with the documented keys that know their signature, and go to and from JSON."""

from __future__ import annotations

from StaICC.results.comparison import Comparison, DatasetComparison, compare
from StaICC.results.details import Baselines, ConditionRecord, DatasetDetails, FailedQuery
from StaICC.results.environment import describe_environment
from StaICC.results.result import AVERAGED, DIVIDED, Result, ResultGroup, load, save_records
from StaICC.results.signature import Signature, digest, escaped, short_digest

__all__ = [
    "AVERAGED",
    "DIVIDED",
    "Baselines",
    "Comparison",
    "ConditionRecord",
    "DatasetComparison",
    "DatasetDetails",
    "FailedQuery",
    "Result",
    "ResultGroup",
    "Signature",
    "compare",
    "describe_environment",
    "digest",
    "escaped",
    "load",
    "save_records",
    "short_digest",
]
