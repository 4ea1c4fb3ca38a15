"""HELMET's many-shot tasks: labels are numbers, in contexts of 4K to 128K tokens, over five data sets.

The numbers are shuffled for each test item, and each test item has its own balanced demonstrations. So a
model must learn from the context what the numbers stand for.

Source:
    Yen et al. 2025, "HELMET: How to Evaluate Long-Context Language Models Effectively and Thoroughly". Prompts, parses
    and scores equal those of the authors' code (commit ``4526dfb``).
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from StaICC import benchmark_names
from StaICC.arguments import validate_integer
from StaICC.benchmarks.context import Predictions
from StaICC.benchmarks.evaluation import DatasetRun
from StaICC.benchmarks.rebuilding import refuse_unknown_arguments
from StaICC.benchmarks.task import Statistics
from StaICC.datasets.dataset import Dataset
from StaICC.errors import ArgumentError
from StaICC.inference.replies import Unparsed
from StaICC.inference.reply_parser import PARSER_VERSION
from StaICC.long_icl.base_benchmark import LongContextBenchmark, load_data, notes_of_skipped, recorded_name
from StaICC.long_icl.cards import cards, task_card
from StaICC.long_icl.contexts import Conditions, ItemContexts, ShownLabels
from StaICC.long_icl.effective_length import DEFAULT_SHARE
from StaICC.long_icl.experimentor import LongICLExperimentor
from StaICC.long_icl.experiments import checked_share
from StaICC.long_icl.install import default_folder
from StaICC.long_icl.loading import show_notice
from StaICC.long_icl.material import Material, input_text
from StaICC.long_icl.options import DEFAULT_LIMIT, LongICLOptions
from StaICC.long_icl.prompts import Item, write_demonstration
from StaICC.long_icl.reference_tokens import BUDGETS, budget_name, to_bytes
from StaICC.long_icl.selection import SEED, balanced
from StaICC.long_icl.task import LongICLTask
from StaICC.prompting.demonstrations import rows_by_label
from StaICC.prompting.prompt_text import PromptParts
from StaICC.results.result import Result
from StaICC.results.signature import Signature, escaped

LENGTHS = BUDGETS
"""The lengths for which HELMET has numbers of demonstrations: 4K, 8K, 16K, 32K, 64K, 128K tokens."""

DEFAULT_LENGTHS = LENGTHS[1:]
"""The lengths that HELMET reports."""


# -- the benchmark


class HELMETTask(LongICLTask):
    """Scores the predictions of a data set: the accuracy of each length, and that of guessing."""

    name: ClassVar[str] = benchmark_names.HELMET
    no_mean: ClassVar[str] = "HELMET's lengths have no common mean: the authors report each of them"


class HELMETExperimentor(LongICLExperimentor):
    """Writes the queries of a data set of HELMET, and scores the predictions."""

    __slots__ = ()
    task_class: ClassVar[type[LongICLTask]] = HELMETTask


class HELMET(LongContextBenchmark):
    """The many-shot tasks of HELMET, which measure whether a model learns a mapping to numbers from a long context.

    Args:
        data_dir: Folder with the files; None for the folder of ``python -m StaICC data install long-icl``.
        datasets: Names, such as ``["helmet_banking77", "helmet_nlu"]``; None for all five. Data sets without files are
            skipped; a warning and the result say how to get the files.
        lengths: Lengths of the context in tokens, of 4096, 8192, 16384, 32768, 65536 and 131072; by default, all but
            the first one.
        limit: Maximum number of test items, HELMET's ``max_test_samples``; None for all.
        parsing: How responses are parsed: ``published``, or ``library`` with the parser of all benchmarks.
        unparsed: How a response without a label, or one that the server withheld, counts: ``wrong`` as published,
            ``excluded`` with bounds on the score, or ``error``, which ends the run.
        share: The share of the score of the shortest length that counts as kept in the effective length
            (:mod:`StaICC.long_icl.effective_length`).
        verify: Refuse files whose digest is not the published one.
        statistics: Options of the confidence intervals and baselines.
        announce: Called with the licence notice of each data set before its files are opened; by default, the notice is
            logged as a warning.

    Attributes:
        experimentor: One experimentor for each available data set, in order.
        skipped: The other data sets, with reasons and instructions.

    Raises:
        DataMissingError: No data set is available.
        DataDamagedError: A file is damaged, or not the published one.
        ArgumentError: An argument is invalid.
        UnknownNameError: The data set or parsing is unknown.

    Example:
        >>> benchmark = HELMET("my_data", ["helmet_nlu"], lengths=(8192, 16384))  # doctest: +SKIP
        >>> result = benchmark(my_kernel)  # doctest: +SKIP
        >>> result["Divided results"]["helmet_nlu"]["8K"]  # doctest: +SKIP
        0.634
    """

    __slots__ = ()
    task_name: ClassVar[str] = benchmark_names.HELMET
    """The name that results carry."""
    benchmark_name = task_name

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        datasets: Iterable[str] | str | None = None,
        lengths: Iterable[int] = DEFAULT_LENGTHS,
        limit: int | None = DEFAULT_LIMIT,
        *,
        parsing: str = "published",
        unparsed: Unparsed = "wrong",
        share: float = DEFAULT_SHARE,
        verify: bool = True,
        statistics: Statistics | None = None,
        announce: Callable[[str], object] = show_notice,
    ) -> None:
        options = LongICLOptions(
            limit=limit,
            parsing=parsing,
            unparsed=unparsed,
            experiment=HelmetLengths(_checked_lengths(lengths), checked_share(share)),
            statistics=statistics or Statistics(),
        )
        folder = default_folder() if data_dir is None else os.fspath(data_dir)
        chosen = _checked_datasets(datasets)
        loaded, skipped = load_data(self.task_name, folder, chosen, verify=verify, announce=announce)
        super().__init__([HELMETExperimentor(data, **vars(options)) for data in loaded], skipped)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of this benchmark as JSON values: results save them, verification makes it from them."""
        options = self.experimentor[0].options
        design = options.experiment
        assert isinstance(design, HelmetLengths)
        return {
            "datasets": self.dataset_names,
            "lengths": list(design.levels),
            "limit": self._recorded_limit(),
            "parsing": options.parsing,
            "unparsed": options.unparsed,
            "share": design.share,
            "statistics": json.loads(json.dumps(asdict(options.statistics))),
        }

    @classmethod
    def remade(
        cls, result: Result, data_dir: str | os.PathLike[str] | None, own_datasets: Mapping[str, Dataset]
    ) -> HELMET:
        """Return the benchmark of a result, over the data sets for which the result has predictions.

        Args:
            result: A result of HELMET.
            data_dir: Folder with the data; by default, the installed data.
            own_datasets: The data sets of the user's own, of which HELMET has none.

        Raises:
            DataMissingError: No data set is available.
            UnknownBenchmarkError: Another version of StaICC wrote the result, with an argument that is gone; or a data
                set is not one of HELMET.
            SchemaError: A data set is recorded with a name that no run writes.
        """
        recorded = dict(result.arguments)
        del recorded["datasets"]
        recorded["statistics"] = Statistics(**recorded["statistics"])
        refuse_unknown_arguments(cls, recorded)
        notes = notes_of_skipped(result)
        datasets = [recorded_name(name) for name in result.details if name not in notes]
        benchmark = cls(data_dir, datasets, **recorded, verify=False)  # Verification compares the prompts.
        return benchmark.copy_with(_notes=benchmark._notes | notes)

    def signature(
        self, runs: Mapping[str, DatasetRun] | None = None, predictions: Predictions | None = None
    ) -> Signature:
        """Return every option of this benchmark that can change a score; arguments as for the base class."""
        options = self.experimentor[0].options
        design = options.experiment
        assert isinstance(design, HelmetLengths)
        datasets = None  # all five
        if self.dataset_names != list(cards("HELMET")):
            datasets = "+".join(escaped(name) for name in self.dataset_names)
        limit = None
        if self._recorded_limit() is not None:
            limit = str(self._recorded_limit())
        named_options = design.options()
        if options.parsing == "library":
            named_options |= {"parsing": "library", "parser": PARSER_VERSION}
        unparsed = None
        if options.unparsed != "wrong":
            unparsed = options.unparsed
        return Signature(
            {
                "benchmark": self.task_name,
                "datasets": datasets,
                "data": self._data_digest(),
                "limit": limit,
                "options": ",".join(f"{name}={value}" for name, value in named_options.items()),
                "unparsed": unparsed,
                "statistics": options.statistics.for_signature(),
                **self.common_fields(runs, predictions),
            }
        )


def _checked_datasets(datasets: Iterable[str] | str | None) -> list[str]:
    """Return the names of the data sets, all five for ``None``.

    Raises:
        UnknownNameError: There is no data set of a name.
        ArgumentError: A data set is none of HELMET's.
    """
    known_names = list(cards("HELMET"))
    if datasets is None:
        return known_names
    names = [datasets] if isinstance(datasets, str) else list(datasets)
    for name in names:
        if not isinstance(name, str) or task_card(name).name not in known_names:
            got = name.card.name if isinstance(name, Dataset) else name
            raise ArgumentError(
                f"datasets of HELMET: got {got!r:.60}, expected {', '.join(known_names)}. It takes no own data: "
                "use LongICL (run long-icl)"
            )
    return names


def _checked_lengths(lengths: Iterable[int]) -> tuple[int, ...]:
    """Return the lengths as a tuple.

    Raises:
        ArgumentError: They are not lengths of HELMET in rising order.
    """
    numbers: list[int] = []
    if isinstance(lengths, Iterable):
        numbers = [validate_integer("a length", length, 1) for length in lengths]
    is_rising = sorted(set(numbers)) == numbers
    if not numbers or not is_rising or not set(numbers) <= set(LENGTHS):
        expected = ", ".join(f"{length} ({budget_name(length)})" for length in LENGTHS)
        raise ArgumentError(f"lengths of HELMET: got {lengths!r:.60}, expected some of {expected}, in rising order")
    return tuple(numbers)


# -- the prompts


@dataclass(frozen=True, slots=True)
class HelmetLengths:
    """The conditions of HELMET: one for each length (:class:`~StaICC.long_icl.condition_design.ConditionDesign`)."""

    levels: tuple[int, ...]
    """The lengths."""
    share: float
    """The share of the score of the shortest length that counts as kept in the effective length."""
    name: ClassVar[str] = benchmark_names.HELMET
    seed: ClassVar[int] = SEED
    has_lengths: ClassVar[bool] = True

    def options(self) -> dict[str, str]:
        """Return the options that the signature contains."""
        options = {"lengths": "+".join(str(length) for length in self.levels)}
        if self.share != DEFAULT_SHARE:
            options["share"] = repr(self.share)
        return options

    def conditions(self, material: Material) -> Conditions:
        """Return the conditions by name. Each shows as many demonstrations as HELMET does for the length."""
        count_of_length = dict(zip(LENGTHS, material.data.card.shots, strict=True))
        pool = _Pool.of_material(material)
        conditions: Conditions = {}
        for length in self.levels:
            conditions[budget_name(length)] = _HelmetContexts(material, pool, count_of_length[length]).contexts()
        return conditions


@dataclass(frozen=True, slots=True)
class _Pool:
    """The training rows of a data set, which all lengths choose from."""

    items: list[Item]
    rows_of_labels: list[list[int]]
    """The rows of each label, labels in the order in which they first occur."""
    label_indexes: list[int]
    """The index of the label of each row, in the order of the card."""

    @classmethod
    def of_material(cls, material: Material) -> _Pool:
        """Return the pool of a data set."""
        items = [row.item() for row in material.data.train]
        labels = [item.gold[0] for item in items]
        index_of_label = {label: index for index, label in enumerate(material.data.card.labels)}
        return cls(items, rows_by_label(labels), [index_of_label[label] for label in labels])


@dataclass(frozen=True, slots=True)
class _HelmetContexts:
    """The contexts of a length, each written when it is read."""

    material: Material
    pool: _Pool
    count: int
    """Number of demonstrations."""

    def contexts(self) -> ItemContexts:
        """Return the contexts of the condition. All of them show every label that has rows."""
        return ItemContexts(
            context=self.context,
            demonstrations=self.count,
            shown=self.shown_labels,
            texts=self.texts,
            label_names=self.label_numbers,
            shows_equal_labels=True,
        )

    def context(self, item_index: int) -> PromptParts:
        """Return what is before the query of a test item."""
        card = self.material.data.card
        numbers = self.label_numbers(item_index)
        demonstrations = []
        for row in self._rows(item_index):
            number = numbers[self.pool.label_indexes[row]]
            demonstrations.append(write_demonstration(card, replace(self.pool.items[row], gold=(number,))))
        return PromptParts(card.template.plain, tuple(demonstrations), "")

    def label_numbers(self, item_index: int) -> tuple[str, ...]:
        """Return the number of each label in the prompt of a test item, in the order of the card."""
        numbers = list(range(len(self.material.data.card.labels)))
        random.Random(self._seed(item_index)).shuffle(numbers)
        return tuple(str(number) for number in numbers)

    def shown_labels(self, item_index: int) -> ShownLabels:
        """Return the true label of each demonstration of a test item."""
        return tuple(self.pool.items[row].gold for row in self._rows(item_index))

    def texts(self, item_index: int) -> tuple[str, ...]:
        """Return the input text of each demonstration of a test item."""
        return tuple(input_text(self.pool.items[row]) for row in self._rows(item_index))

    def _rows(self, item_index: int) -> list[int]:
        return balanced(self.pool.rows_of_labels, self.count, self._seed(item_index))

    def _seed(self, item_index: int) -> int:
        """Return HELMET's seed for a test item, which it computes from the digest of the text."""
        text = self.material.items[item_index].texts[0]
        digest = hashlib.sha256(to_bytes(text)).hexdigest()
        return (int(digest, 16) + SEED) % 2**31
