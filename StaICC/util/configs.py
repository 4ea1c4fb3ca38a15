"""``StaICC.util.configs`` of 0.1.1: its settings, which are arguments now."""

from __future__ import annotations

from StaICC.removed import removed_names

__getattr__ = removed_names(
    __name__,
    {
        "PPL_ICL_INSTRUCTION_SETTINGS": "PPL_ICL(model, tokenizer, [instruction, ...], experimentor)",
        "STANDARD_SETTINGS": "StaICC.get_card('TREC').split for the sizes; Normal(k=..., limit=...) to change a run",
        "STRICT_MODE": "nothing: settings are always checked",
        "WARNING_SETTINGS": "warnings.simplefilter('ignore', StaICC.TemplateWarning)",
    },
)
