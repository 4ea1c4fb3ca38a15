"""Causal language models of ``transformers``, scored in batches with shared prefixes (extra ``hf``)."""

from typing import Any

from StaICC.optional import Package

__all__ = ["FEATURE", "text_config", "torch"]

FEATURE = "the causal language model kernel"


torch = Package("torch", "hf", FEATURE)
"""The package, imported when it is first used."""


def text_config(config: Any) -> Any:
    """Return the configuration of the language model inside a model of several parts."""
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config
