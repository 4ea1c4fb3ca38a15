"""The experimentor: one data set of a benchmark, with the settings that a user can change.

``benchmark[i]`` is one (0.1.1: ``single_experimentor``). It holds the data set's split, the prompt writer and the
choice of demonstrations. The task writes the conditions, the runner predicts, and
:mod:`~StaICC.benchmarks.evaluation` scores. A run leaves no state, so a second run equals the first.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

from StaICC.arguments import keywords_of_release, known_name, validate_integer
from StaICC.benchmarks.base_experimentor import BaseExperimentor
from StaICC.benchmarks.hidden_labels import copied_rows, split_without_test_labels
from StaICC.benchmarks.task import Condition, Scores, Scoring, Statistics, Task, TaskInput
from StaICC.datasets.catalogue import PUBLISHED_SPLIT, get_card
from StaICC.datasets.clusters import digest_of_clusters
from StaICC.datasets.dataset import load_dataset
from StaICC.datasets.source import BuiltIn, ReleasedWheel
from StaICC.errors import ArgumentError
from StaICC.frozen import FrozenList
from StaICC.inference.replies import Failure, Unparsed
from StaICC.layout import Line, TextTable, html
from StaICC.metrics.classification import Kind
from StaICC.metrics.metric_set import MetricFunction, MetricSet, metric_set
from StaICC.prompting.demonstrations import (
    DemonstrationSampler,
    check_demonstration_lists,
    restrict_to_domain,
    sample_demonstrations,
    sample_nested,
)
from StaICC.prompting.prompt_writer import PromptWriter
from StaICC.prompting.views import TripletSplit, split_dataset
from StaICC.registry import origin_of
from StaICC.safe_text import one_line

if TYPE_CHECKING:
    from StaICC.benchmarks.evaluation import DatasetRun
    from StaICC.benchmarks.task import Answers, Outcome
    from StaICC.datasets.catalogue import Card
    from StaICC.datasets.dataset import Dataset
    from StaICC.inference.contract import Answer, Inference
    from StaICC.inference.runner import RunOptions
    from StaICC.metrics.metric_set import Metric
    from StaICC.prompting.demonstrations import DemonstrationLists
    from StaICC.prompting.views import SubsetView

METRIC_SETS = ("standard", "0.1.1")
"""The metric sets of this library."""


def metrics_field(metrics: MetricSet) -> str:
    """Return the field ``metrics`` of a signature: a text that states which metrics a run computed.

    Equal metrics have equal texts. The words of the text are joined by ``+``:

    * A metric set of this library: ``standard``.
    * This set, with a metric that the user added: ``standard+mine@1a2b3c4d5e6f``.
    * This set, without a metric that the user removed: ``standard+without macro_F1``.
    * Metrics that the user gave by their names: ``accuracy+macro_F1``.
    * Functions that the user gave: ``custom+mine@1a2b3c4d5e6f``.

    A metric of the user's own is written ``name@digest``. The digest is that of its code, so that two functions of the
    same name differ. The name of a plug-in is in front of the digest: ``name@plugin-digest``. If the source of the
    function is not available, the word is ``name@digest-unidentified``.

    Args:
        metrics: The metric set.

    Example:
        >>> metrics_field(metric_set("standard"))
        'standard'
    """
    from StaICC.results.signature import escaped

    library_set = _library_set_of(metrics)
    library_metrics = () if library_set is None else library_set.metrics
    set_name = metrics.parts[0]
    # metric_set("accuracy") names the set after its first metric. This metric is listed below, so that the name of the
    # set is left out: "accuracy", not "accuracy+accuracy".
    is_named_after_metric = bool(metrics.metrics) and set_name == metrics.metrics[0].label
    words: list[str] = []
    if library_metrics or not is_named_after_metric:
        words.append(escaped(set_name))
    for metric in metrics.metrics:
        if metric not in library_metrics:
            words.append(_metric_name(metric))
    for metric in library_metrics:
        if metric not in metrics.metrics:
            words.append(f"without {escaped(metric.name)}")
    if metrics.as_released and not library_metrics:
        # The user gave functions of StaICC 0.1.1. They get the rows of numbers as the inference function returned them.
        words.append("as released")
    return "+".join(words)


def _library_set_of(metrics: MetricSet) -> MetricSet | None:
    """Return the metric set of this library to which metrics were added, or from which they were removed.

    ``None`` means that the user gave the names of metrics, or functions.
    """
    for name in METRIC_SETS:
        library_set = metric_set(name)
        if library_set.name == metrics.parts[0] and library_set.as_released == metrics.as_released:
            return library_set
    return None


def metrics_record(metrics: MetricSet) -> dict[str, Any]:
    """Return the metrics as JSON values.

    Args:
        metrics: The metric set.

    Returns:
        Three entries. ``set`` is the argument from which :func:`~StaICC.metrics.metric_set` makes the metrics of this
        library again. ``names`` lists these metrics. ``own`` lists all others, such as functions of the user's, which a
        file cannot describe.
    """
    library_names = []
    own_names = []
    for metric in metrics.metrics:
        # Verification reads a name alone as the standard metric. So a metric of StaICC 0.1.1 is one of the library
        # only if the record names the metric set of 0.1.1 as well.
        is_read_as_standard = metric.of_release and "0.1.1" not in metrics.parts
        if metric.of_library and not is_read_as_standard:
            library_names.append(metric.name)
        else:
            own_names.append(metric.name)

    # The user named the metrics by a text such as "standard+macro_F1". Its parts are names of metric sets, of metrics
    # of the library, or of metrics of the user's own. One of the latter may have been removed from the set since.
    parts_of_library = []
    names_in_set = [metric.label for metric in metrics.metrics]
    for part in metrics.parts:
        if part in METRIC_SETS or part in library_names:
            parts_of_library.append(part)
        elif part not in names_in_set:
            own_names.append(part)
    return {"set": "+".join(parts_of_library), "names": library_names, "own": list(dict.fromkeys(own_names))}


def _metric_name(metric: Metric) -> str:
    """Return the name of a metric for the signature, as :func:`metrics_field` describes it."""
    from StaICC.inference.identity import code_mark
    from StaICC.results.signature import escaped, short_digest

    name = escaped(metric.name)
    if metric.of_release:
        return f"{name}@0.1.1"
    if metric.of_library:
        return name
    words = []
    plugin = origin_of(metric.function).replace(" ", "-")
    if plugin:
        words.append(plugin)
    # The mark of the code is its digest, with "-unidentified" behind it if the source is not available.
    code, _, unidentified = code_mark(metric.function).partition("-")
    words.append(short_digest([code, metric.requires_probabilities]))
    if unidentified:
        words.append(unidentified)
    return f"{name}@{'-'.join(words)}"


class MetricTable(MutableMapping[str, MetricFunction]):
    """The metric functions of a benchmark by name. All of its data sets share it, so that each metric has a mean.

    Args:
        metrics: The name of a metric set, a metric set, or functions by name.

    Attributes:
        metric_set: The metrics as an immutable set.
    """

    __slots__ = ("metric_set",)
    metric_set: MetricSet

    def __init__(self, metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] | MetricTable) -> None:
        """Read the metrics. A table is copied: both then change independently."""
        if isinstance(metrics, MetricTable):
            self.metric_set = metrics.metric_set
        else:
            self.metric_set = metric_set(metrics)

    def __getitem__(self, name: str) -> MetricFunction:
        """Return the function of a metric."""
        for metric in self.metric_set.metrics:
            if metric.name == name:
                return metric.function
        raise KeyError(name)

    def __setitem__(self, name: str, metric: MetricFunction | Metric) -> None:
        """Add a metric, or replace one.

        Raises:
            ArgumentError: The name is not a text, or the metric cannot be called.
        """
        (added,) = metric_set({name: metric}).metrics
        self.metric_set = self.metric_set.adding(added)

    def __delitem__(self, name: str) -> None:
        """Remove a metric."""
        if name not in self:
            raise KeyError(name)
        remaining = tuple(metric for metric in self.metric_set.metrics if metric.name != name)
        self.metric_set = replace(self.metric_set, metrics=remaining)

    def __iter__(self) -> Iterator[str]:
        return (metric.name for metric in self.metric_set.metrics)

    def __len__(self) -> int:
        return len(self.metric_set.metrics)

    def __repr__(self) -> str:
        return repr(dict(self))


SAMPLERS = ("default", "nested", "nested-shared")
"""How demonstrations are drawn. ``"default"``: as published. ``"nested"``: so that the demonstrations of a smaller
``k`` are the first ones of a larger ``k``. ``"nested-shared"``: nested, with one list for all test rows of a repeat."""


_LARGEST_K = 100_000
"""The largest number of demonstrations of a prompt. It may exceed the demonstration set, as in 0.1.1; a larger one fits
no model, and drawing so many would take all memory."""


def _checked_k(k: int) -> int:
    """Return the number of demonstrations of a prompt.

    Raises:
        ArgumentError: It is not an integer of at least 0, or larger than any prompt.
    """
    number = validate_integer("k", k, 0)
    if number > _LARGEST_K:
        raise ArgumentError(f"k: got more than {_LARGEST_K:,} demonstrations for each prompt, expected at most so many")
    return number


def _refuse_several_labels(card: Card) -> None:
    """Raise an ArgumentError if the rows of a data set have several labels each."""
    if card.labels_in_lists:
        example = card.label_space[0]
        raise ArgumentError(
            f"{card.name}: texts have several labels, such as {example}. Only LongICL (run long-icl) evaluates such "
            "data, with a model that generates text, such as hf:NAME. Keep one label in each row for other benchmarks"
        )


class _DrawnSizes(NamedTuple):
    """The sizes of demonstration set and test set with which demonstrations are drawn.

    The user may cut a set later. The demonstrations of the remaining test rows stay the same, as in StaICC 0.1.1,
    because they are still drawn with the sizes before the cut.
    """

    demonstrations: int
    """The number of rows from which they are drawn."""
    test_rows: int
    """The number of test rows for which they are drawn."""


class Experimentor(BaseExperimentor):
    """One data set of a benchmark.

    Args:
        dataset: A data set, or its name.
        task: Writes the conditions and scores their outcomes.
        k: Demonstrations per prompt.
        noisy_channel: Score the text given the label (noisy channel).
        metrics: The metric set, by name (``"standard"``, ``"0.1.1"``) or as functions by name; or the metrics of a
            benchmark, which are shared.
        limit: The maximum number of test rows; the signature contains it.
        outputs: How to read rows of numbers; ``"auto"`` decides once for each condition.
        statistics: Options of the confidence intervals and random baselines.
        sampler: How demonstrations are drawn, one of :data:`SAMPLERS`.
        unparsed: How generated replies without a label count: ``"error"``, ``"wrong"`` or ``"excluded"``.

    Attributes:
        dataset: The data set.
        task: The task.
        metrics: The metric functions by name. Assigning an item adds or replaces a metric, for all data sets of the
            benchmark.
        limit: The maximum number of test rows.
        starts_noisy: Whether the prompts are for the noisy channel unless the prompt writer is changed.
        statistics: Options of the confidence intervals and random baselines.
        unparsed: How generated replies without a label count.
    """

    task: Task
    __slots__ = (
        "_benchmark_sampler",
        "_domain_lists",
        "_drawn_sizes",
        "_k",
        "_manual_lists",
        "_mode",
        "_outputs",
        "_repeats",
        "_rows",
        "_triplet",
        "_writer",
        "dataset",
        "limit",
        "metrics",
        "starts_noisy",
        "statistics",
        "task",
        "unparsed",
    )

    def __init__(
        self,
        dataset: Dataset | str,
        task: Task,
        *,
        k: int = 4,
        noisy_channel: bool = False,
        metrics: str | MetricSet | Mapping[str, MetricFunction | Metric] | MetricTable = "standard",
        limit: int | None = None,
        outputs: Kind = "auto",
        statistics: Statistics | None = None,
        sampler: str = "default",
        unparsed: Unparsed = "error",
    ) -> None:
        """Check all settings. Data are split, and demonstrations drawn, when they are first needed."""
        self.dataset = load_dataset(dataset) if isinstance(dataset, str) else dataset
        _refuse_several_labels(self.dataset.card)
        self.task = task
        self.metrics = metrics if isinstance(metrics, MetricTable) else MetricTable(metrics)
        self.outputs = outputs
        if statistics is not None and not isinstance(statistics, Statistics):
            raise ArgumentError(f"statistics must be a Statistics, not {statistics!r}")
        if not isinstance(noisy_channel, bool):
            raise ArgumentError(f"noisy_channel must be True or False, not {noisy_channel!r}")
        self.statistics = statistics or Statistics()
        self.unparsed = known_name("value of unparsed", unparsed, get_args(Unparsed))
        self.limit = None if limit is None else validate_integer("limit", limit, 1)
        self.starts_noisy = noisy_channel
        self._k = _checked_k(k)
        self._benchmark_sampler = known_name("sampler", sampler, SAMPLERS)
        # How demonstrations are chosen now: by the sampler of the benchmark, or "manual", "in-domain", "out-of-domain".
        self._mode = sampler
        self._manual_lists: DemonstrationLists = ()
        self._domain_lists: DemonstrationLists = ()
        self._drawn_sizes: _DrawnSizes | None = None  # None: those of the uncut split
        self._repeats: int | None = None  # None: those of the task
        self._rows: frozenset[int] | None = None  # None: all test rows
        self._triplet: TripletSplit | None = None
        self._writer: PromptWriter | None = None

    # -- data and prompts

    @property
    def triplet_dataset(self) -> TripletSplit:
        """The calibration, demonstration and test set.

        They are drawn when they are first read, so that a benchmark with many data sets is made fast. A task may use
        fewer test rows than the split has: the first ones.
        """
        if self._triplet is None:
            split = split_dataset(self.dataset)
            positions = range(len(split.test))[: self.task.test_rows]  # test_rows is None: all
            (test,) = split.test.split([positions])
            self._triplet = replace(split, test=test)
        return self._triplet

    @property
    def prompt_former(self) -> PromptWriter:
        """The prompt writer. It is made when it is first read; you may assign another one."""
        if self._writer is None:
            self._writer = PromptWriter(self.card, self.triplet_dataset, self.starts_noisy)
            pseudo_queries = self.task.pseudo_queries(self.card, self.triplet_dataset.demonstration)
            self._writer.set_pseudo_queries(pseudo_queries)
        return self._writer

    @prompt_former.setter
    def prompt_former(self, writer: PromptWriter) -> None:
        if not isinstance(writer, PromptWriter):
            raise ArgumentError(f"prompt_former: got {writer!r:.60}, expected a PromptWriter")
        self._writer = writer

    @property
    def outputs(self) -> Kind:
        """How to read rows of numbers."""
        return self._outputs

    @outputs.setter
    def outputs(self, outputs: Kind) -> None:
        """Set how rows of numbers are read. The metrics of StaICC 0.1.1 allow ``"auto"`` only."""
        known_name("reading of outputs", outputs, get_args(Kind))
        if self.metric_set.as_released and outputs != "auto":
            raise ArgumentError(
                f"the metric set {self.metric_set.name!r} reads rows of numbers by the rule of StaICC 0.1.1; "
                f"leave outputs at 'auto', or use the metric set 'standard' with outputs={outputs!r}"
            )
        self._outputs: Kind = outputs

    @property
    def card(self) -> Card:
        """The data set's card."""
        return self.dataset.card

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.dataset.card.name

    def demonstration_set(self) -> SubsetView:
        """Return the rows that demonstrations are drawn from."""
        return self.triplet_dataset.demonstration

    def test_set(self) -> SubsetView:
        """Return the test rows."""
        return self.triplet_dataset.test

    def calibration_set(self) -> SubsetView:
        """Return the rows for training a calibration."""
        return self.triplet_dataset.calibration

    def get_label_space(self) -> list[str]:
        """Return the label names that the inference function receives."""
        return self.prompt_former.get_label_space()

    def get_prompt_writter_from_dataline(self) -> Callable[..., str | list[str]]:
        """Return the function that writes a prompt from given texts."""
        return self.prompt_former.write_prompt_from_dataline

    # -- demonstrations

    def get_k(self) -> int:
        """Return the number of demonstrations per prompt."""
        return self._k

    def set_k(self, k: int) -> None:
        """Set the number of demonstrations per prompt, and draw demonstrations as the benchmark does.

        They are drawn from the present demonstration set, for the present test rows. If the user cut one of these sets
        before, demonstrations from the rows that are gone are not used any more. Demonstrations that were set by hand,
        in-domain or out-of-domain, are discarded.

        Raises:
            ArgumentError: ``k`` is not an integer of at least 0, or larger than any prompt.
        """
        self._k = _checked_k(k)
        split = self.triplet_dataset
        # From now on, demonstrations are drawn with the present sizes, also if the user cuts a set later.
        self._drawn_sizes = _DrawnSizes(demonstrations=len(split.demonstration), test_rows=len(split.test))
        self.reset_demonstration_sampler()

    def get_repeat_times(self) -> int:
        """Return how often each test row is used: once with demonstrations set by hand."""
        if self._mode == "manual":
            return 1
        if self._repeats is not None:
            return self._repeats
        return self.task.repeats

    @property
    def _repeat_times(self) -> int:
        """How often each test row is used, under the name of StaICC 0.1.1. Assigning 1 leaves out the other repeats.

        As in StaICC 0.1.1, the value is that of the benchmark again after a call that chooses other demonstrations:
        :meth:`set_k`, :meth:`set_in_domain_mode`, :meth:`set_out_of_domain_mode` or
        :meth:`reset_demonstration_sampler`.
        """
        return self.get_repeat_times()

    @_repeat_times.setter
    def _repeat_times(self, times: int) -> None:
        largest = self.task.repeats
        if self._mode == "manual":
            largest = 1  # There is one list of demonstrations for each test row.
        repeats = validate_integer("_repeat_times", times, 1, largest)
        self._repeats = repeats if repeats < largest else None  # None: all of them

    def set_demonstration_sampler(self, sampler: Sequence[Sequence[int]]) -> None:
        """Set the demonstrations by hand; each test row is then used once.

        Args:
            sampler: For each test row, ``k`` positions of the demonstration set, in the order shown.

        Raises:
            ArgumentError: The number of rows is wrong, or a row is not a list of ``k`` existing positions.
        """
        split = self.triplet_dataset
        self._manual_lists = check_demonstration_lists(sampler, len(split.test), self._k, len(split.demonstration))
        self._mode = "manual"
        self._repeats = None

    def set_in_domain_mode(self) -> None:
        """Redraw demonstrations so that each query's label occurs among its demonstrations."""
        self._draw_by_label("in-domain")

    def set_out_of_domain_mode(self) -> None:
        """Redraw demonstrations so that no query's label occurs among its demonstrations."""
        self._draw_by_label("out-of-domain")

    def _draw_by_label(self, mode: str) -> None:
        """Choose demonstrations so that the label of each query is among their labels, or is not.

        The lists of demonstrations are those of the default sampler. Lists that do not fit the label of their query are
        replaced by others, which are drawn at random.

        Args:
            mode: ``"in-domain"``, with the label, or ``"out-of-domain"``, without it.
        """
        split = self.triplet_dataset
        # The prompts are ordered by repeat, then by test row. So the labels of the test rows follow one another once
        # for each repeat.
        labels_of_prompts = _labels_of(split.test) * self.task.repeats
        # The test set may have been cut. The first lists are drawn for all test rows of the time before the cut, as
        # the default sampler draws them, so that the remaining rows start from the same lists.
        prompt_count_of_draw = self.task.repeats * self._sizes_of_draw().test_rows
        self._domain_lists = restrict_to_domain(
            _labels_of(split.demonstration),
            self._k,
            query_labels=labels_of_prompts,
            inside=mode == "in-domain",
            where=self.name,
            prompts=prompt_count_of_draw,
        )
        self._mode = mode
        self._repeats = None  # New demonstrations have all repeats of the task again, as in StaICC 0.1.1.

    def _sizes_of_draw(self) -> _DrawnSizes:
        """Return the sizes of demonstration set and test set with which demonstrations are drawn.

        They are those at the last call of :meth:`set_k`. Without a call, they are the sizes of the split before any
        cut, which the card of the data set states. The sets may be smaller now: as in StaICC 0.1.1, a cut does not
        change the demonstrations of the remaining test rows.
        """
        if self._drawn_sizes is not None:
            return self._drawn_sizes
        return _DrawnSizes(demonstrations=self.card.split.demonstration, test_rows=self._uncut_test_rows())

    def _uncut_test_rows(self) -> int:
        """Return the number of test rows before any cut: all rows of the split, or the maximum of the task."""
        if self.task.test_rows is None:
            return self.card.split.test
        return min(self.card.split.test, self.task.test_rows)

    def reset_demonstration_sampler(self) -> None:
        """Choose demonstrations as the benchmark does again, instead of by hand, in-domain or out-of-domain."""
        self._mode = self._benchmark_sampler
        self._manual_lists = ()
        self._repeats = None

    def demonstration_lists(self) -> DemonstrationLists:
        """Return the demonstrations of each prompt, as positions in the demonstration set.

        Prompt ``i + r * rows`` is for test row ``i`` in repeat ``r``, where ``rows`` is the number of test rows.

        Raises:
            ArgumentError: The demonstration set was cut, and a demonstration was drawn from the rows that are gone.
        """
        n_prompts = self.get_repeat_times() * len(self.triplet_dataset.test)
        lists = self._drawn_lists()[:n_prompts]
        row_count = len(self.triplet_dataset.demonstration)
        drawn_row_count = self._sizes_of_draw().demonstrations
        demonstration_set_is_complete = row_count >= drawn_row_count
        if demonstration_set_is_complete:
            return lists  # All positions exist, so the many positions need no check.
        for positions in lists:
            if any(position >= row_count for position in positions):
                raise ArgumentError(
                    f"{self.name}: the demonstration set was cut to {row_count} rows, and demonstrations were drawn "
                    f"from {drawn_row_count}; set_k({self._k}) draws from those that are left"
                )
        return lists

    def _drawn_lists(self) -> DemonstrationLists:
        """Return the demonstrations of each prompt, for all repeats of the task, as positions in the demonstration set.

        They are chosen in the present mode: by hand, in-domain or out-of-domain, or by the sampler of the benchmark. A
        sampler draws the same lists at every call, because its random generator starts anew.
        """
        if self._mode == "manual":
            return self._manual_lists
        if self._mode in ("in-domain", "out-of-domain"):
            return self._domain_lists
        sizes = self._sizes_of_draw()
        n_prompts = self.task.repeats * sizes.test_rows
        if self._mode == "nested":
            return sample_nested(sizes.demonstrations, self._k, n_prompts)
        if self._mode == "nested-shared":
            # All test rows of a repeat have the same list.
            return sample_nested(sizes.demonstrations, self._k, n_prompts, shared=sizes.test_rows)
        return sample_demonstrations(sizes.demonstrations, self._k, n_prompts)

    @property
    def demonstration_sampler(self) -> DemonstrationSampler:
        """The demonstrations for all repeats, whatever :attr:`_repeat_times` is.

        Assigning one list for each test row is the same as :meth:`set_demonstration_sampler`.
        """
        return DemonstrationSampler(FrozenList(positions) for positions in self._drawn_lists())

    @demonstration_sampler.setter
    def demonstration_sampler(self, sampler: Sequence[Sequence[int]]) -> None:
        self.set_demonstration_sampler(sampler)

    # -- queries

    def task_input(self) -> TaskInput:
        """Return the data and settings from which the task writes its conditions.

        Raises:
            ArgumentError: The user assigned pseudo-queries, which only prompts written one by one use.
        """
        if self.prompt_former.has_own_pseudo_queries:
            raise ArgumentError(
                f"{self.name}: prompt_former.pseudo_prompt was assigned; the prompts of a run do not use it. Write "
                "them with prompt_former.write_prompt(positions), use Contextual_bias or Domain_bias, or set it to None"
            )
        return TaskInput(
            card=self.card,
            split=self.triplet_dataset,
            k=self._k,
            repeats=self.get_repeat_times(),
            settings=self.prompt_former.settings,
            demonstration_lists=self.demonstration_lists(),
            limit=self.limit,
        )

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions: named lists of queries."""
        conditions = self.task.conditions(self.task_input())
        if self.is_noisy:
            self._check_noisy_prompts(conditions)
        if self._rows is None:  # all test rows
            return conditions
        restricted = []
        for condition in conditions:
            queries = tuple(query for query in condition.queries if query.row in self._rows)
            restricted.append(Condition(condition.name, queries))
        return restricted

    def _check_noisy_prompts(self, conditions: Sequence[Condition]) -> None:
        """Raise an ArgumentError if a query has a single text as its prompt.

        Such a query comes from a task that writes its prompts itself. It would be scored as in the direct channel,
        although the signature says that the channel is noisy.
        """
        for condition in conditions:
            for number, query in enumerate(condition.queries):
                if isinstance(query.prompt, str):
                    raise ArgumentError(
                        f"{self.task.name}/{self.card.name}, condition {condition.name!r}, query {number}: the prompt "
                        "is a single text, but in the noisy channel a prompt has one text for each label. Write it "
                        "with task_input.queries(), or run the benchmark without the noisy channel"
                    )

    @property
    def row_scores(self) -> Sequence[str]:
        """The scores that are means over test rows, so that a run can stop early."""
        return self.task.row_scores

    @property
    def row_count(self) -> int:
        """The number of test rows within the limit."""
        rows = len(self.triplet_dataset.test)
        if self.limit is None:
            return rows
        return min(rows, self.limit)

    def restricted_to(self, rows: Collection[int]) -> Experimentor:
        """Return a copy of this data set with some of its test rows only, as after early stopping.

        Runs of the copy have no intervals and no baselines. Both assume that the number of test rows was fixed before
        the run, but early stopping chooses it by the predictions.

        Args:
            rows: The test rows.
        """
        without_intervals = Statistics(level=self.statistics.level, intervals=False)
        return self.copy_with(_rows=frozenset(rows), statistics=without_intervals)

    # -- copies for methods

    @property
    def is_noisy(self) -> bool:
        """Whether the prompts are those of the noisy channel, which scores the text given each label."""
        return self.prompt_former.settings.noisy_channel

    @property
    def text_count(self) -> int:
        """The number of input texts of a query."""
        return len(self.card.template.input_text_prefixes)

    def without_labels(self) -> Experimentor:
        """Return a copy without the labels of the test rows, for methods, which must not read them.

        Its prompts are the same. Its data set has only the card: the table of the data set has the labels.
        """
        split = split_without_test_labels(self.triplet_dataset)
        writer = self.prompt_former.copy_with(_split=split)
        writer.set_pseudo_queries(self.task.pseudo_queries(self.card, split.demonstration))
        return self.copy_with(_triplet=split, dataset=SimpleNamespace(card=self.card), _writer=writer)

    def with_labels_of(self, original: Experimentor) -> Experimentor:
        """Return a copy with the labels of the test rows, which :meth:`without_labels` removed.

        Args:
            original: The data set that this one is a changed copy of.

        Raises:
            ArgumentError: The demonstrations of this copy are drawn by labels that it does not have.
        """
        is_drawn_by_labels = self._mode in ("in-domain", "out-of-domain")
        if is_drawn_by_labels and self._domain_lists != original._domain_lists:
            raise ArgumentError(
                f"{original.name}: {self._mode} demonstrations are drawn by the labels of test rows, which a method "
                "does not know. Set the mode of the benchmark's data set instead"
            )
        copied = self.copy_with(_triplet=original.triplet_dataset, dataset=original.dataset)
        copied.prompt_former = self.prompt_former.copy_with(_split=original.triplet_dataset)
        return copied

    def with_query(self, texts: Sequence[str] | str) -> Experimentor:
        """Return a copy in which these texts take the place of every query.

        Demonstrations, template and label noise of each prompt are those of the original.

        Args:
            texts: The input texts; a single text is a row of one.

        Raises:
            ArgumentError: They are not as many texts as a row has.
        """
        query_texts = tuple(self.prompt_former.checked_texts(texts))
        split = self.triplet_dataset
        changed = TripletSplit(split.calibration, split.demonstration, copied_rows(split.test, query_texts))
        task: Task = self.task
        replaces_texts_itself = task.pseudo_queries(self.card, split.demonstration) is not None
        if replaces_texts_itself:  # It would replace the given texts, too.
            task = _QueriesOnly(self.task.repeats)
        return self.copy_with(_writer=copy.copy(self.prompt_former), _triplet=changed, task=task)

    # -- running

    @property
    def metric_set(self) -> MetricSet:
        """The metrics as an immutable set."""
        return self.metrics.metric_set

    @keywords_of_release(metric_name="name", metric_function="metric")
    def add_metric(self, name: str, metric: MetricFunction | Metric) -> None:
        """Add a metric to the benchmark, for all of its data sets. A metric of this name is replaced, with a warning.

        Args:
            name: Its name in the results.
            metric: A function of two arguments, or the record of one: the true label indexes, and one row of
                probabilities for each query (one-hot rows for predicted label indexes). A value that is not a finite
                number is reported as undefined.

        Raises:
            ArgumentError: It cannot be called, or the name is not a text.
        """
        replaced = name in self.metrics
        self.metrics[name] = metric
        if replaced:
            warnings.warn(f"the metric {name!r} is replaced", stacklevel=3)  # 2 is the decorator

    def assemble(self, conditions: Sequence[Condition], answers: Answers, where: str | None = None) -> DatasetRun:
        """Return the scores of the predictions of all conditions, with details such as intervals and baselines.

        Args:
            conditions: The conditions.
            answers: The predictions of all conditions, in order.
            where: Name of this data set's run, for messages; by default the name of the data set.
        """
        run = super().assemble(conditions, answers, where)
        if self._rows is not None:
            # The run stopped early. It has no baselines, and keeps its prompts, which its verification reads.
            return replace(run, details=replace(run.details, baselines={}))
        return _with_columns(run, answers)

    @property
    def data_digest(self) -> str:
        """The digest of the texts of the test rows, by which comparisons recognise that two runs have the same data.

        The digest does not depend on the labels, which may be renamed or in another order.
        """
        from StaICC.results.signature import digest

        if self.task.content_free:
            # The prompts do not show the texts of the test rows, so the digest of the complete table is taken.
            return self.dataset.table.digest
        test = self.triplet_dataset.test
        return digest([test.texts(row) for row in range(len(test))])

    @property
    def clusters(self) -> tuple[int, ...] | None:
        """The number of the cluster of each test row; ``None`` if rows are assumed to be independent.

        Rows of a cluster share something, such as a text from which they were taken. If the task does not show the
        texts of the test rows (``content_free``), rows are independent, whatever they share.
        """
        clusters = self.dataset.clusters
        if clusters is None or self.task.content_free:
            return None
        return tuple([clusters.numbers[row] for row in self.triplet_dataset.test.indexes])

    @property
    def subgroups(self) -> dict[str, tuple[str, ...]] | None:
        """For each column of subgroups the subgroup of each test row; ``None`` without such columns.

        There are none if the task does not show the texts of the test rows (``content_free``).
        """
        if not self.dataset.subgroups or self.task.content_free:
            return None
        subgroups = {}
        for column, group_of_row in self.dataset.subgroups.items():
            subgroups[column] = tuple([group_of_row[row] for row in self.triplet_dataset.test.indexes])
        return subgroups

    def _clusters_field(self) -> str | None:
        """Return the clusters as a field of the signature: what rows share, and a digest of the numbers."""
        from StaICC.results.signature import escaped

        numbers = self.clusters
        clusters = self.dataset.clusters
        if numbers is None or clusters is None:
            return None
        return f"{escaped(clusters.name)}-{digest_of_clusters(numbers)[:12]}"

    def scoring(self) -> Scoring:
        """Return the settings with which the task scores outcomes."""
        return Scoring(
            self.metric_set,
            k=self._k,
            statistics=self.statistics,
            outputs=self.outputs,
            unparsed=self.unparsed,
        )

    @keywords_of_release(input_prediction="preentered_prediction")
    def auto_run(
        self,
        forward_inference: Inference | None = None,
        preentered_prediction: Sequence[Any] | None = None,
        batched_inference: bool = False,
        return_outputs: bool = False,
        *,
        options: RunOptions | None = None,
    ) -> tuple[dict[str, Any], bool] | tuple[dict[str, Any], bool, dict[str, Any]]:
        """Return the scores of this data set as StaICC 0.1.1 returns them: a tuple instead of a run.

        Args:
            forward_inference: The inference function.
            preentered_prediction: Instead of the function, one prediction for each prompt of :meth:`prompt_set`.
            batched_inference: Whether the function takes the list of all prompts and returns the list of predictions.
            return_outputs: Whether the tuple has the outputs of each query, too.
            options: Options of the run (store, executor, ...).

        Returns:
            A tuple of two or three items: the scores under the documented keys; whether every query has a prediction;
            with ``return_outputs``, the outputs by name (:func:`~StaICC.benchmarks.records.outputs_of`).
        """
        from StaICC.benchmarks.records import outputs_of
        from StaICC.inference.runner import RunOptions

        if batched_inference:
            options = replace(options or RunOptions(), batched=True)
        run = self.run(forward_inference, preentered_prediction, options)
        scores = dict(run.values)
        is_complete = run.details.failed == 0
        if return_outputs:
            return scores, is_complete, outputs_of(run.outcomes)
        return scores, is_complete

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the experiment; arguments as for :meth:`auto_run`, also that of a class derived from this one."""
        return self.auto_run(*arguments, **keywords)

    def __repr__(self) -> str:
        return one_line(f"<{self.task.name} on {self.name}: k = {self._k}, {self._mode} demonstrations>")

    def _repr_html_(self) -> str:
        """Return the data set with its settings for a notebook."""
        labels = self.get_label_space()
        settings = {
            "task": self.task.name,
            "labels": f"{len(labels)}: {', '.join(labels)}",
            "demonstrations for each prompt (k)": str(self._k),
            "demonstrations": self._mode,
            "test rows": str(len(self.test_set())),
            "limit": "none" if self.limit is None else str(self.limit),
            "noisy channel": "yes" if self.prompt_former.settings.noisy_channel else "no",
            "metrics": ", ".join(self.metrics),
        }
        rows = [[name, value] for name, value in settings.items()]
        return html([Line(self.name, "title"), TextTable(["setting", "value"], rows, texts=(0, 1))])

    def arguments(self) -> dict[str, Any]:
        """Return the settings as JSON values: the arguments of the constructor, and the settings changed since then."""
        return {
            "k": self._k,
            "noisy_channel": self.prompt_former.settings.noisy_channel,
            "metrics": metrics_record(self.metric_set),
            "limit": self.limit,
            "outputs": self.outputs,
            "unparsed": self.unparsed,
            "sampler": self._benchmark_sampler,
            "demonstrations": self._mode,
            "statistics": asdict(self.statistics),
            "changed": self._changed_by_hand(),
        }

    def _changed_by_hand(self) -> list[str]:
        """Return the names of the settings that the user changed after the experimentor was made.

        No argument of the constructor has these settings, so a benchmark cannot be made again with them.
        """
        changed = []
        if self.prompt_former.changed:
            changed.append("template")
        if self._mode == "manual":
            changed.append("demonstrations")
        if self._repeats is not None:
            changed.append("repeats")
        # A file of the user's own data records its split, so it may have any.
        has_other_split = self._is_built_in() and not self._has_published_split()
        if self._has_cut_sets() or has_other_split:
            changed.append("split")
        return changed

    def _is_built_in(self) -> bool:
        """Return whether the data set is one of this library."""
        return isinstance(self.dataset.source, (BuiltIn, ReleasedWheel))

    def _has_cut_sets(self) -> bool:
        """Return whether the user cut the calibration, demonstration or test set.

        A cut set has fewer rows than the split (:meth:`~StaICC.prompting.views.SubsetView.cut_by_index`).
        """
        split = self.card.split
        uncut_sizes = (split.calibration, split.demonstration, self._uncut_test_rows())
        return self.triplet_dataset.sizes != uncut_sizes

    def _has_published_split(self) -> bool:
        """Return whether the split is the one that the benchmark publishes for the data set."""
        if self._is_built_in():
            return self.card.split == get_card(self.name).split
        return self.card.split == PUBLISHED_SPLIT

    def _split_field(self) -> str | None:
        """Return the field ``split`` of the signature, with the sizes of sets that were cut; ``None`` as published."""
        if self._has_cut_sets():
            sizes = "+".join(str(size) for size in self.triplet_dataset.sizes)
            return f"{self.card.split}-cut-to-{sizes}"
        if self._has_published_split():
            return None
        return str(self.card.split)

    def _demonstrations_field(self) -> str | None:
        """Return the field ``demonstrations`` of the signature; ``None`` if they are drawn as published.

        Demonstrations that were set by hand have a digest of their positions. Otherwise the field is the name of the
        mode, such as ``nested`` or ``in-domain``.
        """
        from StaICC.results.signature import digest

        if self._mode == "default":
            return None
        if self._mode == "manual":
            positions = [list(row_positions) for row_positions in self._manual_lists]
            return f"manual-{digest(positions)[:12]}"
        return self._mode

    def _template_field(self) -> str | None:
        """Return a digest of the template for the signature; ``None`` for the published one."""
        from StaICC.results.signature import digest

        writer = self.prompt_former
        if not writer.changed:
            return None
        return f"changed-{digest([writer.get_config_dict(), writer.cut_by_length])[:12]}"

    def _limit_field(self) -> str | None:
        """Return the limit for the signature; ``None`` if it leaves out no test row."""
        if self.limit is None or self.limit >= len(self.triplet_dataset.test):
            return None
        return str(self.limit)

    def settings_for_signature(self) -> dict[str, str | None]:
        """Return every setting that can change a number of this data set, as text by field of the signature.

        ``None``: the default.
        """
        from StaICC.benchmarks.evaluation import settings_tried

        has_baselines = settings_tried(self.task, self.scoring()) is not None  # None: accuracy is not scored.
        has_intervals = not self.metric_set.as_released  # The metrics of StaICC 0.1.1 have no intervals.
        is_noisy = self.prompt_former.settings.noisy_channel
        return {
            "split": self._split_field(),
            "clusters": self._clusters_field(),
            "k": str(self._k),
            "repeats": str(self.get_repeat_times()),
            "demonstrations": self._demonstrations_field(),
            "template": self._template_field(),
            "channel": "noisy" if is_noisy else "direct",
            "limit": self._limit_field(),
            "metrics": metrics_field(self.metric_set),
            "outputs": None if self.outputs == "auto" else self.outputs,
            "unparsed": None if self.unparsed == "error" else self.unparsed,
            "statistics": self.statistics.for_signature(intervals=has_intervals, baselines=has_baselines),
        }


def _labels_of(rows: SubsetView) -> tuple[int, ...]:
    """Return the label index of each row of a set."""
    return tuple([rows.label(position) for position in range(len(rows))])


@dataclass(frozen=True, slots=True)
class _QueriesOnly(Task):
    """Writes the queries of the test rows as they are; their predictions have no scores."""

    name: ClassVar[str] = "queries"
    repeats: int = 1

    def conditions(self, task_input: TaskInput) -> Sequence[Condition]:
        """Return the one condition with all queries."""
        return [Condition("queries", task_input.queries())]

    def score(self, outcomes: Sequence[Outcome], scoring: Scoring) -> Scores:
        """Return no scores."""
        return Scores(values={}, averaged={})


def _with_columns(run: DatasetRun, answers: Sequence[Answer | Failure]) -> DatasetRun:
    """Return a scored run with its predictions as columns of numbers, and change its outcomes in the same way.

    The outcomes of the given run are changed, not copied: their queries have no prompts afterwards
    (:meth:`~StaICC.benchmarks.task.Outcome.keep_columns`). A benchmark keeps the runs over all of its data sets until
    it ends, and prompts and lists of scores would need much more memory than columns.

    Args:
        run: The run.
        answers: The predictions of all conditions, in order. They stay a list if one of them has no label scores.
    """
    from StaICC.benchmarks.scored_columns import score_rows

    scores = score_rows(answers)  # None if a prediction has no label scores
    start = 0
    for outcome in run.outcomes:
        end = start + len(outcome.answers)
        scores_of_outcome = None if scores is None else scores[start:end]
        outcome.keep_columns(scores_of_outcome)
        start = end
    if scores is None:
        return replace(run, answers=answers)
    return replace(run, answers=scores)
