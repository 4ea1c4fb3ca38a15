"""What the papers published, as data, with what is doubtful in it; and what of it may stand beside a user's result.

>>> from StaICC.results.published import figures
>>> [one.value for one in figures(model="GPT2 1.61", method="k-NN", metric="accuracy")]
[0.5917]
"""

from __future__ import annotations

from StaICC.results.published.beside import Placement, beside, format_placements
from StaICC.results.published.facts import (
    METHODS,
    PublishedFigure,
    PublishedModel,
    figures,
    find_method,
    find_models,
    models,
)

__all__ = [
    "METHODS",
    "Placement",
    "PublishedFigure",
    "PublishedModel",
    "beside",
    "figures",
    "find_method",
    "find_models",
    "format_placements",
    "models",
]
