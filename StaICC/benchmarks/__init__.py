"""Benchmarks: one task over several data sets, called with the user's inference function."""
