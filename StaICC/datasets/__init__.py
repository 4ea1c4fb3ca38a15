"""Frozen data: catalogue, cards, the data pack and its tables.

Start with :func:`load_dataset` for the benchmark's data sets and :meth:`Dataset.from_rows` for your own rows.
"""
