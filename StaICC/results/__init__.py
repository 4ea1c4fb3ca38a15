"""Results: dictionaries with the documented keys that know their signature, and go to and from JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.optional import lazy_names
from StaICC.results.provenance import (
    Baselines,
    ConditionRecord,
    DatasetDetails,
    FailedQuery,
    MeanDetails,
    Predictor,
    Provenance,
    Signature,
    describe_environment,
    digest,
    escaped,
    short_digest,
)
from StaICC.results.result import AVERAGED, DIVIDED, QueryRecord, Result, ResultGroup, load, save_records

if TYPE_CHECKING:
    from StaICC.results.comparison import (
        Comparison,
        DatasetComparison,
        Difference,
        compare,
        compare_runs,
        list_differences,
    )
    from StaICC.results.generalisation import compare_generalising, variance_components
    from StaICC.results.planning import Components, components_of, plan
    from StaICC.results.ranking import Ranking, rank

__all__ = [
    "AVERAGED",
    "DIVIDED",
    "Baselines",
    "Comparison",
    "Components",
    "ConditionRecord",
    "DatasetComparison",
    "DatasetDetails",
    "Difference",
    "FailedQuery",
    "MeanDetails",
    "Predictor",
    "Provenance",
    "QueryRecord",
    "Ranking",
    "Result",
    "ResultGroup",
    "Signature",
    "compare",
    "compare_generalising",
    "compare_runs",
    "components_of",
    "describe_environment",
    "digest",
    "escaped",
    "list_differences",
    "load",
    "plan",
    "rank",
    "save_records",
    "short_digest",
    "variance_components",
]

__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.results.comparison": ("Comparison DatasetComparison Difference compare compare_runs list_differences"),
        "StaICC.results.generalisation": "compare_generalising variance_components",
        "StaICC.results.planning": "Components components_of plan",
        "StaICC.results.ranking": "Ranking rank",
    },
)
