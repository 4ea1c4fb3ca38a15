"""Causal language models of ``transformers``, scored in batches with shared prefixes (extra ``hf``)."""
