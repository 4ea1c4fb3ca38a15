"""Frozen data: catalogue, cards, the data pack and its tables.

Start with :func:`load_dataset` for the benchmark's data sets and :meth:`Dataset.from_rows` for your own rows.
"""

from __future__ import annotations

from StaICC.datasets.catalogue import Card, Digests, SplitSizes, Template, TemplateAlternatives, cite, get_card, names
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.datasets.storage import FrozenTable, MemoryTable, Row, Table, table_digest, write_table

__all__ = [
    "Card",
    "Dataset",
    "Digests",
    "FrozenTable",
    "MemoryTable",
    "Row",
    "SplitSizes",
    "Table",
    "Template",
    "TemplateAlternatives",
    "cite",
    "get_card",
    "load_dataset",
    "names",
    "table_digest",
    "write_table",
]
