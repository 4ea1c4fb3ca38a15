"""Comparison of results: paired tests, rankings, published figures, generalisation to other demonstrations."""
