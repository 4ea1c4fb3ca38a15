"""Causal language models of ``transformers``, scored in batches with shared prefixes (extra ``hf``)."""

from typing import Any

from StaICC.optional import require

__all__ = ["FEATURE", "text_config", "torch_module"]

FEATURE = "the causal language model kernel"


def torch_module() -> Any:
    """Return the package ``torch``, or raise the error that says what to install."""
    return require("torch", "hf", FEATURE)


def text_config(config: Any) -> Any:
    """Return the configuration of the language model inside a model of several parts."""
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config
