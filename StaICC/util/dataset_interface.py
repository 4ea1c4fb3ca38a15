"""``StaICC.util.dataset_interface`` of 0.1.1: splits of other sizes, demonstration samplers, prompt writers."""

from __future__ import annotations

from dataclasses import replace

from StaICC.datasets.catalogue import SplitSizes
from StaICC.datasets.dataset import Dataset, load_dataset
from StaICC.errors import ArgumentError
from StaICC.frozen import FrozenList
from StaICC.prompting.demonstrations import DemonstrationSampler, sample_demonstrations
from StaICC.prompting.prompt_writer import PromptWriter
from StaICC.prompting.stable_random import SEED
from StaICC.prompting.views import AllRows, TripletSplit, split_dataset

OriginalDataset = AllRows | Dataset | str
"""A data set: ``benchmark._original_data[i]``, ``load_dataset(name)``, or a name."""


def dataset_of(original_dataset: OriginalDataset, sizes: SplitSizes) -> Dataset:
    """Return a data set with a split of other sizes.

    Args:
        original_dataset: The data set, or its name.
        sizes: Rows of the three sets.

    Raises:
        ArgumentError: It is no data set.
    """
    if isinstance(original_dataset, AllRows):
        dataset = original_dataset.dataset
    elif isinstance(original_dataset, str):
        dataset = load_dataset(original_dataset)
    else:
        dataset = original_dataset
    if not isinstance(dataset, Dataset):
        raise ArgumentError(
            f"original_dataset: got {original_dataset!r:.60}, expected benchmark._original_data[i], the name of a data "
            "set, or a StaICC.Dataset"
        )
    return replace(dataset, card=replace(dataset.card, split=sizes))


def triplet_dataset(
    original_dataset_loader: OriginalDataset,
    calibration_number: int = 1024,
    demonstration_number: int = 4096,
    test_number: int = 512,
    random_seed: int = SEED,
) -> TripletSplit:
    """Split a data set, as :func:`StaICC.split_dataset` does.

    Args:
        original_dataset_loader: The data set, or its name.
        calibration_number: Rows of the calibration set.
        demonstration_number: Rows of the demonstration set.
        test_number: Rows of the test set.
        random_seed: The seed of the benchmark, 42; this version has no other.

    Raises:
        ArgumentError: The data set has too few rows, or the seed is another one.
    """
    if random_seed != SEED:
        raise ArgumentError(f"random_seed: got {random_seed}, expected {SEED}; splits with other seeds are gone")
    return split_dataset(
        dataset_of(original_dataset_loader, SplitSizes(calibration_number, demonstration_number, test_number))
    )


class _AnySampler(type):
    """The demonstrations of every experimentor are instances of ``demonstration_sampler``, as in 0.1.1."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, DemonstrationSampler)


class demonstration_sampler(DemonstrationSampler, metaclass=_AnySampler):
    """The demonstrations of each query: ``k`` positions of the demonstration set, as a list that cannot be changed.

    Args:
        k: Demonstrations of a query.
        demonstration_set_size: Size of the demonstration set.
        query_numbers: How many queries there are.
        seed: The state of the generator before the first draw.

    Example:
        >>> list(demonstration_sampler(2, 10, 3))
        [[2, 0], [5, 2], [3, 0]]
    """

    __slots__ = ()

    def __init__(self, k: int, demonstration_set_size: int, query_numbers: int, seed: int = SEED) -> None:
        lists = sample_demonstrations(demonstration_set_size, k, query_numbers, seed)
        super().__init__(FrozenList(positions) for positions in lists)


def prompt_writter(triplet_dataset: TripletSplit, use_noisy_channel: bool = False) -> PromptWriter:
    """Return the prompt writer of a data set with its published template.

    Args:
        triplet_dataset: The three sets of the data set.
        use_noisy_channel: Score the text given the label.
    """
    return PromptWriter(triplet_dataset.require_dataset().card, triplet_dataset, use_noisy_channel)
