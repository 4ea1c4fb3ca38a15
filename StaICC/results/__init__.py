"""Results: dictionaries with the documented keys that know their signature, and go to and from JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from StaICC.optional import lazy_names
from StaICC.results.provenance import Baselines as Baselines
from StaICC.results.provenance import ConditionRecord as ConditionRecord
from StaICC.results.provenance import DatasetDetails as DatasetDetails
from StaICC.results.provenance import FailedQuery as FailedQuery
from StaICC.results.provenance import MeanDetails as MeanDetails
from StaICC.results.provenance import Predictor as Predictor
from StaICC.results.provenance import Provenance as Provenance
from StaICC.results.provenance import Signature as Signature
from StaICC.results.provenance import describe_environment as describe_environment
from StaICC.results.provenance import digest as digest
from StaICC.results.provenance import escaped as escaped
from StaICC.results.provenance import short_digest as short_digest
from StaICC.results.result import AVERAGED as AVERAGED
from StaICC.results.result import DIVIDED as DIVIDED
from StaICC.results.result import QueryRecord as QueryRecord
from StaICC.results.result import Result as Result
from StaICC.results.result import ResultGroup as ResultGroup
from StaICC.results.result import load as load
from StaICC.results.result import save_records as save_records

if TYPE_CHECKING:
    from StaICC.results.comparison import Comparison as Comparison
    from StaICC.results.comparison import DatasetComparison as DatasetComparison
    from StaICC.results.comparison import Difference as Difference
    from StaICC.results.comparison import Ranking as Ranking
    from StaICC.results.comparison import compare as compare
    from StaICC.results.comparison import compare_runs as compare_runs
    from StaICC.results.comparison import list_differences as list_differences
    from StaICC.results.comparison import rank as rank
    from StaICC.results.generalisation import Components as Components
    from StaICC.results.generalisation import compare_generalising as compare_generalising
    from StaICC.results.generalisation import components_of as components_of
    from StaICC.results.generalisation import plan as plan
    from StaICC.results.generalisation import variance_components as variance_components


__getattr__ = lazy_names(
    __name__,
    {
        "StaICC.results.comparison": (
            "Comparison DatasetComparison Difference Ranking compare compare_runs list_differences rank"
        ),
        "StaICC.results.generalisation": "Components compare_generalising components_of plan variance_components",
    },
)
