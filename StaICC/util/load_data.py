"""A module of versions before 0.1.1, so that its import works; data sets are loaded by :func:`StaICC.load_dataset`."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; write StaICC.load_dataset('TREC')")
