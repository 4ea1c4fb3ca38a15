"""Ids that the data sets of results have on the Hugging Face hub."""

from __future__ import annotations

from typing import Any

from StaICC import benchmark_names
from StaICC.datasets.catalogue import HubDataset, catalogue
from StaICC.errors import UnknownNameError
from StaICC.registry import import_reference
from StaICC.results.result import Result

_LONG_ICL_CARD = "StaICC.long_icl.cards:task_card"
"""Returns the card of a data set of LongICL, loaded by name: results know no benchmarks."""


def hub_dataset(result: Result, dataset: str) -> HubDataset | None:
    """Return the data set on the hub whose rows a result is about; ``None`` if it is not on the hub.

    Args:
        result: The result.
        dataset: The name of the data set in the result.
    """
    is_file_of_user = dataset in result.files
    if is_file_of_user:
        return None
    if benchmark_names.has_long_contexts(result.benchmark):
        return _hub_dataset_of_long_icl(dataset)
    # A name is that of a data set of the catalogue only in results of this library: a log of another harness may have a
    # task of the same name. All benchmarks of this library sample demonstrations.
    if "sampler" not in result.signature.fields:
        return None
    return catalogue().hub.get(dataset)


def _hub_dataset_of_long_icl(dataset: str) -> HubDataset | None:
    """Return the data set of LongICL on the hub; ``None`` if it is not there, or is a data set of the user's own."""
    card_of: Any = import_reference(_LONG_ICL_CARD)
    try:
        card = card_of(dataset)
    except UnknownNameError:
        return None
    if card.hub is None:
        return None
    return HubDataset(card.hub.repository, card.hub.config)
