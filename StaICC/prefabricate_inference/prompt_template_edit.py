"""Instruction and demonstration selection under the module name of 0.1.1; nothing is defined here."""

from __future__ import annotations

from StaICC.methods.retrieval import SelfAdaptiveICL, ppl_icl

PPL_ICL = ppl_icl
SA_ICL = SelfAdaptiveICL
