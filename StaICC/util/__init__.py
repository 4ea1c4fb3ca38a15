"""The module paths of 0.1.1's helpers: the names that its users call, as aliases.

Each module is imported when it is first used, also as an attribute: ``StaICC.util.functional.softmax``. Every other
name of 0.1.1 can be imported, and raises an error with what to write instead when it is used (:mod:`StaICC.removed`).
"""

from __future__ import annotations

from StaICC.optional import lazy_names

__all__ = [
    "configs",
    "dataset_interface",
    "experimentor",
    "functional",
    "hgf_dataset_loader",
    "load_data",
    "stable_random",
]
__getattr__ = lazy_names(__name__, {}, submodules=" ".join(__all__))
