"""Frozen data: catalogue, cards, the data pack and its tables.

Start with :func:`load_dataset` for the benchmark's data sets and :meth:`Dataset.from_rows` for your own rows.
"""

from __future__ import annotations

from StaICC.datasets.catalogue import Card as Card
from StaICC.datasets.catalogue import Digests as Digests
from StaICC.datasets.catalogue import SplitSizes as SplitSizes
from StaICC.datasets.catalogue import Template as Template
from StaICC.datasets.catalogue import TemplateAlternatives as TemplateAlternatives
from StaICC.datasets.catalogue import cite as cite
from StaICC.datasets.catalogue import get_card as get_card
from StaICC.datasets.catalogue import names as names
from StaICC.datasets.dataset import Dataset as Dataset
from StaICC.datasets.dataset import load_dataset as load_dataset
from StaICC.datasets.storage import FrozenTable as FrozenTable
from StaICC.datasets.storage import MemoryTable as MemoryTable
from StaICC.datasets.storage import Row as Row
from StaICC.datasets.storage import Table as Table
from StaICC.datasets.storage import table_digest as table_digest
from StaICC.datasets.storage import write_table as write_table
