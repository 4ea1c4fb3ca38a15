"""Frozen data: from the catalogue of data sets to the rows of their tables.

Start with :func:`load_dataset` for the benchmark's data sets and :meth:`Dataset.from_rows` for your own rows.
"""
