"""The contract of methods: what a method gets, asks, returns.

A method is a generator function. It asks for features of prompts, gets their rows, and returns predictions::

    def vanilla(data):
        (rows,) = yield [data.ask()]
        return data.predictions(rows)

It may ask again, where prompts depend on what it has learned. It gets the training rows with their labels and the test
queries without (:class:`MethodData`), never the model. The harness computes each feature once for all methods, counts
prompts, tokens, seconds and labelled examples, and scores.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from StaICC.arguments import known_name
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import TemplateSensitivityTask
from StaICC.datasets.catalogue import Template
from StaICC.errors import ArgumentError
from StaICC.inference.contract import Answer, Inference
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods import prompt_views
from StaICC.methods.kernel_functions import of_kernel
from StaICC.methods.labelled_rows import LabelledRows
from StaICC.methods.options import NoOptions, make_options
from StaICC.methods.requests import Request, Role, prompt_keys
from StaICC.methods.unlabelled_queries import UnlabelledCondition, UnlabelledQueries, UnlabelledQuery

if TYPE_CHECKING:
    from StaICC.prompting.prompt_writer import PromptSettings

Variant = Literal["paper", "staicc", "0.1.1"]
"""``"paper"``: as the method's own paper defines it; ``"staicc"``: the protocol of StaICC's Table 2, the same number of
calibration samples for all methods; ``"0.1.1"``: as the release computes it."""


def check_variant(variant: str) -> Variant:
    """Return a variant, or refuse it."""
    return cast(Variant, known_name("variant", variant, get_args(Variant)))


@dataclass
class MethodRecord:
    """What is recorded while a method runs on a data set: what it says of itself, and what it read."""

    warnings: list[str] = field(default_factory=list)
    """Where the method did something else than its name says."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers for the result's ``timing``, such as the number of duplicates."""
    facts: dict[str, str] = field(default_factory=dict)
    """What the identity of the predictions says in addition to that of the model."""
    labels_read: dict[str, set[int]] = field(default_factory=dict)
    """For each set, the positions of the rows whose labels were read."""
    calibration_number_read: bool = False
    """Whether the number of calibration samples was read, so that results depend on it."""


@dataclass(frozen=True)
class MethodData:
    """What a method knows about a data set. Nothing here has the label of a test row, and nothing can be changed.

    :meth:`on` returns the same test rows with other prompts: other demonstrations, another template.
    """

    _experimentor: Experimentor = field(repr=False)
    variant: Variant
    """The variant: ``"paper"`` or ``"staicc"``."""
    _calibration_number: int
    options: Any
    """The record of the method's options (:attr:`MethodSpec.options`)."""
    provides: frozenset[str] = frozenset()
    """What the model computes beyond the capabilities that all methods may ask for: features of one prompt from one run
    of the model, such as ``"log_probabilities"``; ``"noisy_channel"`` in two variants; ``"patched"``; ``"steered"``."""
    record: MethodRecord = field(default_factory=MethodRecord, repr=False)
    """What the harness reads; a method writes it with :meth:`warn`, :meth:`note` and :meth:`fact`."""
    steps_of: Callable[[MethodSpec, Variant], Callable[[MethodData], Steps]] = field(
        default=lambda spec, variant: spec.steps, repr=False
    )
    """Returns the steps of a method in a variant: those of a method inside another one."""
    _template_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The parts of the template that :meth:`on` has set: they hold in the noisy channel, too."""

    # -- the data set

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self._experimentor.name

    @property
    def benchmark(self) -> str:
        """The name of the benchmark."""
        return self._experimentor.task.name

    @property
    def label_space(self) -> list[str]:
        """The label names that the model gets."""
        return self._experimentor.get_label_space()

    @property
    def k(self) -> int:
        """The number of demonstrations per prompt."""
        return self._experimentor.get_k()

    @property
    def text_count(self) -> int:
        """The number of input texts of a row."""
        return self._experimentor.text_count

    @property
    def is_noisy(self) -> bool:
        """Whether the prompts are those of the noisy channel: for each query one text for each label."""
        return self._experimentor.is_noisy

    @property
    def calibration_number(self) -> int:
        """The number of calibration samples. The signature of the results has it if the method reads it."""
        self.record.calibration_number_read = True
        return self._calibration_number

    @property
    def calibration_set(self) -> LabelledRows:
        """The rows that a method learns from, with their labels."""
        return LabelledRows(self._experimentor.calibration_set(), self._labels_read("calibration"))

    @property
    def demonstration_set(self) -> LabelledRows:
        """The rows that demonstrations are chosen from, with their labels."""
        return LabelledRows(self._experimentor.demonstration_set(), self._labels_read("demonstration"))

    def _labels_read(self, of_set: str) -> set[int]:
        """Return the set to which the positions of rows are added whose labels the method reads.

        Args:
            of_set: The name of the rows' set: ``"calibration"`` or ``"demonstration"``.
        """
        return self.record.labels_read.setdefault(of_set, set())

    # -- the test rows and their prompts

    @property
    def test_texts(self) -> list[list[str]]:
        """The input texts of each test row within the limit."""
        rows = self._experimentor.test_set()
        return [list(rows.texts(position)) for position in range(self._experimentor.row_count)]

    @property
    def test_size(self) -> int:
        """The number of test rows without the limit: what is drawn for them does not depend on the limit."""
        return len(self._experimentor.test_set())

    @property
    def conditions(self) -> list[UnlabelledCondition]:
        """The conditions: named lists of queries without labels."""
        conditions = self._experimentor.conditions()
        return [UnlabelledCondition(condition.name, UnlabelledQueries(condition.queries)) for condition in conditions]

    @property
    def queries(self) -> list[UnlabelledQuery]:
        """The queries of all conditions, in order, without labels: what predictions are returned for."""
        return list(UnlabelledQueries(self._experimentor.all_queries()))

    @property
    def demonstrations(self) -> list[list[int]]:
        """For each test row within the limit, the demonstrations of its first prompt: positions of their set."""
        lists = self._experimentor.demonstration_lists()[: self._experimentor.row_count]
        return [list(positions) for positions in lists]

    @property
    def settings(self) -> PromptSettings:
        """Template, label space, channel and label noise of the prompts."""
        return self._experimentor.prompt_former.settings

    def write(self, demonstrations: Sequence[Any], texts: Sequence[str]) -> Any:
        """Return a prompt with the template of this data.

        Args:
            demonstrations: Rows of a set, or other pairs of input texts and a label (its index or its name).
            texts: The input texts of the query.

        Returns:
            The prompt; in the noisy channel a list of texts, one for each label.
        """
        return self._experimentor.prompt_former.write_prompt_from_dataline(demonstrations, list(texts))

    # -- the same test rows with other prompts

    def on(
        self,
        *,
        demonstrations: Sequence[Sequence[int]] | None = None,
        template: Template | str | None = None,
        instruction: str | None = None,
        query_texts: Sequence[str] | str | None = None,
        noisy_channel: bool = False,
        options: Any = None,
    ) -> MethodData:
        """Return the data with other prompts for the same test rows; this one stays as it is.

        Args:
            demonstrations: For each test row within the limit, positions of the demonstration set, equally many in each
                list. Each test row is used once then.
            template: The template, or the levels of one of template sensitivity, such as ``"1012"``.
            instruction: The text before all demonstrations.
            query_texts: Input texts that take the place of those of every query, as many as a row has; the
                demonstrations stay.
            noisy_channel: Whether to change to the prompts of the noisy channel.
            options: The record of options of another method, which this data is for.

        Raises:
            ArgumentError: The data set does not allow it.
        """
        template_settings = dict(self._template_settings)  # those of earlier calls
        if template is not None:
            template_settings |= prompt_views.template_settings(self._experimentor, template)
        if instruction is not None:
            template_settings["instruction"] = instruction
        if options is None:
            options = self.options

        changed = self._experimentor
        if noisy_channel:  # first, since it sets affixes, which the template may set again
            changed = prompt_views.clean_copy(changed, noisy_channel=True)
        if template_settings:
            changed = prompt_views.with_settings(changed, **template_settings)
        if demonstrations is not None:
            prompt_views.refuse_several_lists(changed)
            changed = prompt_views.with_demonstrations(changed, demonstrations)
        if query_texts is not None:
            changed = changed.with_query(query_texts)
        return dataclasses.replace(self, _experimentor=changed, _template_settings=template_settings, options=options)

    def templates(self) -> list[MethodData]:
        """Return the data with each template that its conditions have, for training prompts (:meth:`write`).

        Returns:
            One for each condition if their templates differ, otherwise this data alone.
        """
        if not self.sets_template:
            return [self]
        # The conditions of template sensitivity: a row of the array L9 names an alternative of each part of a template.
        return [self.on(template=levels) for levels in L9]

    @property
    def sets_template(self) -> bool:
        """Whether the benchmark sets the template of each condition itself (template sensitivity)."""
        return isinstance(self._experimentor.task, TemplateSensitivityTask)

    def refuse_several_lists(self) -> None:
        """Refuse a benchmark that needs several demonstration lists for each query: a method that chooses sets one.

        Raises:
            ArgumentError: It is demonstration sensitivity.
        """
        prompt_views.refuse_several_lists(self._experimentor)

    # -- what a method asks and returns

    def ask(
        self,
        feature: Any = "probabilities",
        prompts: Sequence[Any] | None = None,
        role: Role = "test",
        *,
        ahead: bool = False,
        kernel: Inference | None = None,
    ) -> Request:
        """Return a request for a feature of prompts; the method gets a row for each of them when it yields the request.

        Args:
            feature: ``"probabilities"`` or another :data:`~StaICC.methods.requests.Feature`; an inference function
                without its kernel, such as a :class:`~StaICC.kernels.text_inference.TextInference`; or a function that
                returns a vector for each text of a list.
            prompts: Prompts that the method wrote, or queries; ``None`` for all queries of this data.
            role: ``"train"`` for prompts that the method learns from; ``"test"`` for those about test queries.
            ahead: The method will ask this when it has learned something. It gets no rows now; they are computed now
                only if other methods run too, together with what these ask.
            kernel: Another model than that of the method.

        Returns:
            The request.
        """
        if prompts is None:
            return Request(feature, self._experimentor, role, ahead, kernel)
        queries: Sequence[UnlabelledQuery] = ()
        if all(isinstance(prompt, UnlabelledQuery) for prompt in prompts):
            queries = tuple(prompts)
        # A loss, a generated text and the encoding of a text are the same for all labels, so these are left out.
        is_text = _writes_text(feature)
        depends_on_labels = of_kernel(feature) and feature != "losses" and not is_text
        label_space: Sequence[str] = ()
        if depends_on_labels:
            label_space = self.label_space
        if queries and is_text:
            prompts = [query.prompt for query in queries]  # a query would bring its labels
        keys = prompt_keys(prompts, label_space)
        return Request(feature, keys, role, ahead, kernel, queries)

    def predictions(self, rows: Sequence[Any]) -> Predictions:
        """Return predictions for the queries of this data, which the method returns.

        Args:
            rows: One prediction for each query of this data.

        Raises:
            ArgumentError: The method has no rows: it does not end with a ``return``.
        """
        if rows is None:
            raise ArgumentError("got None as predictions; a method ends with: return data.predictions(rows)")
        return Predictions(rows, self)

    def rows_by_condition(self, rows: Sequence[Any]) -> list[list[Any]]:
        """Return rows in lists, one for each condition of the benchmark.

        Args:
            rows: One row for each query of this data, in the order of :attr:`queries`: condition by condition.
        """
        remaining_rows = iter(rows)
        rows_of_conditions = []
        for condition in self.conditions:
            rows_of_condition = itertools.islice(remaining_rows, len(condition.queries))
            rows_of_conditions.append(list(rows_of_condition))
        return rows_of_conditions

    # -- what is recorded

    def warn(self, sentence: str) -> None:
        """Add a warning to the result, where the method does something else than its name says, such as a fallback."""
        self.record.warnings.append(sentence)

    def note(self, name: str, number: float) -> None:
        """Record a number in the result's ``timing``, such as the number of duplicates; it is summed over data sets."""
        self.record.notes[name] = float(number)

    def fact(self, name: str, value: object) -> None:
        """Add a fact to the identity of the predictions: what determines them besides the model."""
        self.record.facts[name] = str(value)


def experimentor_of(data: MethodData) -> Experimentor:
    """Return the data set behind the data of a method, with its present prompts.

    Only the harness needs it. A method changes prompts by :meth:`MethodData.on`.
    """
    return data._experimentor


def _writes_text(feature: Any) -> bool:
    """Return whether a feature is a text that the model generates."""
    from StaICC.kernels.text_inference import TextInference

    return isinstance(feature, TextInference)


@dataclass(frozen=True)
class Predictions:
    """What a method returns: a prediction for each query of some data."""

    rows: Sequence[Any]
    """Label probabilities, logits, label indexes, generated texts or failures, one for each query."""
    data: MethodData
    """The data whose queries they answer: with the prompts that are recorded and scored."""


Steps = Generator[Sequence[Request], list[list[Any]], "Predictions | Sequence[Answer | Failure]"]
"""What a method returns: it yields lists of requests, gets a list of rows for each request, and returns predictions. A
plain list of predictions is for the queries of the data that the method got."""


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """A method: its name, its generator function and its options.

    Methods compose: a record is called with data inside another method, with options by name::

        def nearest_then_calibrated(data):
            nearest = yield from nearest_demonstrations(data, count=data.k)
            return (yield from BATCH_CALIBRATION(data.on(demonstrations=nearest), batch_size=64))
    """

    name: str
    title: str
    """As in Table 2."""
    steps: Callable[[MethodData], Steps]
    """The method: a generator function without side effects. What it refuses before its first ``yield``, or asks there
    of a model that cannot compute it, is refused before the first query of a run."""
    requires: frozenset[Capability] = frozenset({Capability.LABEL_SCORES})
    """A hint for lists of methods, and for a refusal before there are data: the capabilities that the method needs with
    its default options. It need not be complete. What the first step asks is found without it; what a later step asks
    could only be found by a run of all steps with made-up features, whose learning takes as long as the run's own."""
    options: type[Any] = NoOptions
    """The record of its options: a frozen dataclass whose fields are made by :func:`~StaICC.methods.options.option`.
    ``data.options`` is an instance. Values other than the defaults are part of the signature."""

    def __post_init__(self) -> None:
        """Refuse options that are no dataclass, and capabilities that are no frozenset."""
        is_record = isinstance(self.options, type) and dataclasses.is_dataclass(self.options)
        if not is_record:
            raise ArgumentError(f"method {self.name!r}: got the options {self.options!r}, expected a dataclass")
        is_set = isinstance(self.requires, frozenset)
        if not is_set or not all(isinstance(item, Capability) for item in self.requires):
            raise ArgumentError(
                f"method {self.name!r}: got requires={self.requires!r}, expected a frozenset of Capability"
            )

    def __call__(self, data: MethodData, **options: Any) -> Generator[Sequence[Request], list[list[Any]], Predictions]:
        """Run the method inside another one.

        Args:
            data: The data, with the prompts that the method shall answer.
            **options: Options of this method; the others have their defaults.

        Returns:
            Its predictions.

        Raises:
            ArgumentError: The variant is ``"0.1.1"``, and the release does not have this method.
        """
        data_with_options = data.on(options=make_options(self.name, self.options, options))
        generator_function = data.steps_of(self, data.variant)
        returned = yield from generator_function(data_with_options)
        if isinstance(returned, Predictions):
            return returned
        return data_with_options.predictions(returned)  # it returned a plain list

    @property
    def needs(self) -> str:
        """The required capabilities in words."""
        return ", ".join(item.value for item in Capability if item in self.requires) or "nothing but predictions"
