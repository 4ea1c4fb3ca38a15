"""The functions of ``methods/released/prompt_selection.py`` under their module name of 0.1.1."""

from __future__ import annotations

from StaICC.methods.released.prompt_selection import PPL_ICL as PPL_ICL
from StaICC.methods.released.prompt_selection import SA_ICL as SA_ICL

__all__ = ["PPL_ICL", "SA_ICL"]
