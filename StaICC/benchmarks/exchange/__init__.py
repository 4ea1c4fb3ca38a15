"""Export prompts and import predictions, for engines that this library does not call and for lm-evaluation-harness.

Every query has a constant id (:func:`query_id`). Predictions are matched to queries by id, never by order.

>>> from StaICC import Normal
>>> from StaICC.benchmarks.exchange import identified_queries, prompt_records, score_predictions
>>> benchmark = Normal(datasets=["mini"], limit=2)
>>> next(prompt_records(benchmark))["id"]
'Normal/mini/normal/0/0/9055ecc97560'
>>> predictions = {query.id: {"label": "weather"} for query in identified_queries(benchmark)}
>>> score_predictions(benchmark, predictions)["Averaged results"]["accuracy"]
1.0
"""

from __future__ import annotations

from StaICC.benchmarks.exchange.files import read_predictions
from StaICC.benchmarks.exchange.harness import export_tasks, read_samples
from StaICC.benchmarks.exchange.queries import IdentifiedQuery, identified_queries, prompt_records, query_id
from StaICC.benchmarks.exchange.scoring import score_predictions

__all__ = [
    "IdentifiedQuery",
    "export_tasks",
    "identified_queries",
    "prompt_records",
    "query_id",
    "read_predictions",
    "read_samples",
    "score_predictions",
]
