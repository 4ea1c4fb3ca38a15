"""The published figures of the papers, with warnings on doubtful ones, and their comparison with a result.

>>> from StaICC.results.published import figures
>>> [one.value for one in figures(model="GPT2 1.61", method="k-NN", metric="accuracy")]
[0.5917]
"""

from __future__ import annotations

from StaICC.results.published.facts import (
    METHODS,
    PublishedFigure,
    PublishedModel,
    figures,
    find_method,
    find_models,
    models,
)
from StaICC.results.published.published_comparison import (
    PublishedComparison,
    compare_with_published,
    format_published,
)

__all__ = [
    "METHODS",
    "PublishedComparison",
    "PublishedFigure",
    "PublishedModel",
    "compare_with_published",
    "figures",
    "find_method",
    "find_models",
    "format_published",
    "models",
]
