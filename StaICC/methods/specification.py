"""What a method is: a record with a pure generator function.

A method writes *requests* (prompts for named features of the model), gets the rows, and returns one prediction for each
query::

    def vanilla(data):
        (rows,) = yield [data.queries()]
        return rows

Where prompts depend on features, it yields again. It gets the training rows with their labels and the test queries
without (:class:`MethodData`), never the kernel. The harness (:mod:`StaICC.methods.run`) writes the requests of all
methods before it computes anything, computes each feature once, counts prompts and seconds, and scores.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import types
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from StaICC.arguments import known_name, whole_number
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.benchmarks.tasks.label_noise import L9
from StaICC.benchmarks.tasks.sensitivity import (
    DemonstrationSensitivityTask,
    TemplateSensitivityTask,
    template_of_levels,
)
from StaICC.errors import ArgumentError, unknown_name
from StaICC.inference.contract import Answer
from StaICC.inference.replies import Failure
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import options_of, read_json_or_text
from StaICC.methods.features import Request, apply_present, feature_keys
from StaICC.prompting.prompt_writer import PromptWriter
from StaICC.registry import Registry

Variant = Literal["paper", "staicc", "0.1.1"]
"""``"paper"``: as the method's own paper defines it; ``"staicc"``: the protocol of StaICC's Table 2, the same number of
calibration samples for all methods; ``"0.1.1"``: as the release computes it."""

PromptMaker = Callable[[list[Any], list[str]], Any]
"""Writes a prompt from demonstrations (rows of a set) and the input texts of the query."""

Steps = Generator[Sequence[Request], list[list[Any]], Sequence[Answer | Failure]]
"""What a method returns: it yields requests, gets a list of rows for each, and returns the predictions."""

_SHARED_SETTINGS = ("instruction", "input_text_prefixes", "label_prefix", "query_prefix", "label_space")


def check_variant(variant: str) -> Variant:
    """Return a variant, or refuse it."""
    return cast(Variant, known_name("variant", variant, get_args(Variant)))


# -- copies of a data set


def clean_copy(experimentor: Experimentor, noisy_channel: bool = False) -> Experimentor:
    """Return a copy of an experimentor with all settings; changes to the copy do not affect the original.

    Args:
        experimentor: The experimentor.
        noisy_channel: Change to the noisy channel, with the affixes of the benchmark; the other changes of the template
            are kept.
    """
    writer = copy.copy(experimentor.prompt_former)
    if noisy_channel and not writer.settings.noisy_channel:
        settings, changed = writer.get_config_dict(), writer.changed
        writer = PromptWriter(experimentor.card, experimentor.triplet_dataset, noisy_channel)
        if changed:
            writer.set_config_dict({key: settings[key] for key in _SHARED_SETTINGS})
    return experimentor.copy_with(_writer=writer)


def with_demonstrations(experimentor: Experimentor, lists: Sequence[Sequence[int]]) -> Experimentor:
    """Return a copy of an experimentor with other demonstrations; each test row is used once then.

    Args:
        experimentor: The experimentor.
        lists: For each test row within the limit, positions of the demonstration set, equally many in each list.
    """
    copied = clean_copy(experimentor)
    if lists and len(lists[0]) != copied.get_k():
        copied.set_k(len(lists[0]))
    beyond = [list(range(copied.get_k()))] * (len(copied.test_set()) - len(lists))
    copied.set_demonstration_sampler([*map(list, lists), *beyond])
    return copied


def with_settings(experimentor: Experimentor, **settings: Any) -> Experimentor:
    """Return a copy of an experimentor with other settings of its prompts; no warning, since the signature says it."""
    writer = experimentor.prompt_former.copy_with(_warned=True)
    writer.set_config_dict(settings)
    return experimentor.copy_with(_writer=writer)


def with_template(experimentor: Experimentor, levels: str) -> Experimentor:
    """Return a copy of an experimentor with a template of template sensitivity (a row of ``L9``)."""
    template = template_of_levels(experimentor.task_input(), levels).template
    return with_settings(experimentor, **{part.name: getattr(template, part.name) for part in fields(template)})


def refuse_several_lists(experimentor: Experimentor) -> None:
    """Refuse a benchmark that needs several demonstration lists for each query."""
    if isinstance(experimentor.task, DemonstrationSensitivityTask):
        name = experimentor.task.name
        raise ArgumentError(f"{name} needs several demonstration lists for each query; this method sets one")


def prompt_makers(experimentor: Experimentor, variant: Variant) -> list[PromptMaker]:
    """Return the functions that write training prompts: one, or one for each condition if their templates differ.

    In ``"0.1.1"`` there is always one: the release trains with the first template.
    """
    if not isinstance(experimentor.task, TemplateSensitivityTask) or variant == "0.1.1":
        return [experimentor.prompt_former.write_prompt_from_dataline]
    return [with_template(experimentor, levels).prompt_former.write_prompt_from_dataline for levels in L9]


# -- what a method gets


@dataclass
class MethodData:
    """What a method knows about one data set: nothing here has the label of a test row."""

    experimentor: Experimentor
    """The data set: ``calibration_set()``, ``demonstration_set()``, ``test_set()`` (all labels 0), ``conditions()``,
    ``prompt_former``. The method may change its prompts or replace it: the predictions are scored as those for its
    queries."""
    variant: Variant
    calibration_number: int
    options: Any
    """The record of the method's options (:attr:`MethodSpec.options`)."""
    provides: frozenset[str] = frozenset()
    """What the kernel computes beyond the required capabilities; see
    :func:`~StaICC.methods.features.extra_features`."""
    facts: dict[str, str] = field(default_factory=dict)
    """What the identity of the predictions says in addition to that of the kernel."""
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers for the result's ``timing``, such as the number of duplicates."""
    warnings: list[str] = field(default_factory=list)
    """Warnings of the result: where the method did something else than its name says, such as a fallback."""

    @property
    def demonstrations(self) -> list[list[int]]:
        """The demonstrations of each test row, in its first prompt: positions of the demonstration set."""
        return [list(positions) for positions in self.experimentor.demonstration_lists()[: self.experimentor.row_count]]

    def queries(self, feature: Any = "probabilities", view: Experimentor | None = None, **more: Any) -> Request:
        """Return the request of a feature of all queries; ``view`` has other prompts for them."""
        return Request(feature, self.experimentor if view is None else view, **more)

    def by_condition(self, rows: Sequence[Any], functions: Sequence[Callable[[list[Any]], Sequence[Any]]]) -> list[Any]:
        """Return what functions, one for each condition or one for all, make of its rows; failures keep their places.

        Args:
            rows: A row for each query.
            functions: Each returns a row for each row.
        """
        given = iter(rows)
        parts = [[next(given) for _ in condition] for condition in self.queries().conditions]
        pairs = zip(parts, itertools.cycle(functions))
        return [row for part, function in pairs for row in apply_present(part, function)]

    def training(self, feature: Any, prompts: Sequence[Any], phase: str = "training") -> Request:
        """Return the request of a feature of training prompts (or of texts)."""
        labels = () if feature == "losses" or phase != "training" else self.experimentor.get_label_space()
        return Request(feature, feature_keys(prompts, labels), phase)


# -- options


def option(default: Any, help_text: str) -> Any:
    """Declare a field of an options record: its default, and what a listing says about it.

    Args:
        default: The value if none is given.
        help_text: One sentence, for the listing of methods.
    """
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The record of a method without options."""


class OptionText(str):
    """The value of an option as the command line gives it: read as the type of the option."""


def _accepts(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return (isinstance(value, str) or type(value) in map(type, get_args(hint))) and value in get_args(hint)
    if hint is float and not isinstance(value, bool):
        return isinstance(value, (int, float))
    if hint is int:
        return whole_number(value) is not None
    if hint in (bool, str, type(None)):
        return isinstance(value, hint)
    return hint is not float and value is not None and not isinstance(value, str)  # the method checks other values


def make_options(owner: str, record: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a record of given values: 3 and 3.0 become one value.

    Args:
        owner: What has the options, for messages.
        record: A frozen dataclass.
        given: Values by name; the others get their defaults.

    Raises:
        ArgumentError: An option is unknown (the nearest is suggested), or a value has another type.
    """
    facts = {fact.name: fact for fact in options_of(record)}
    hints = get_type_hints(record)
    checked = {}
    for name, value in given.items():
        if name not in facts:
            raise ArgumentError(str(unknown_name(f"option of {owner}", name, facts)))
        is_union = get_origin(hints[name]) in (Union, types.UnionType)
        choices = get_args(hints[name]) if is_union else (hints[name],)
        words = {"none": None, "true": True, "false": False}
        readings = [value]
        if isinstance(value, OptionText):
            readings = [words.get(value.casefold(), read_json_or_text(value)), str(value)]
        fitting = [reading for choice in choices for reading in readings if _accepts(choice, reading)]
        if not fitting:
            raise ArgumentError(f"{owner}, option {name!r}: got {value!r:.80}, expected {facts[name].type}")
        whole = whole_number(fitting[0])
        if whole is not None:
            fitting[0] = float(whole) if float in choices and int not in choices else whole
        checked[name] = fitting[0]
    return record(**checked)


def read_options(texts: Iterable[str]) -> dict[str, Any]:
    """Read options as the command line gives them.

    Args:
        texts: Items ``NAME=VALUE``. Lists and mappings are JSON, ``none`` is None.

    Raises:
        ArgumentError: An item has no ``=``, or an option is given twice.

    Example:
        >>> make_options("k-NN", METHODS["knn_prompt"].options, read_options(["knn-k=5"])).knn_k
        5
    """
    given: dict[str, Any] = {}
    for item in texts:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ArgumentError(f"method option: got {item!r}, expected NAME=VALUE")
        if name in given:
            raise ArgumentError(f"the option {name!r} is given twice")
        given[name] = OptionText(text)
    return given


# -- a method


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """A method: its name, its function, required capabilities and options."""

    name: str
    title: str
    """As in Table 2."""
    steps: Callable[[MethodData], Steps]
    """The method: a generator function without side effects. What it refuses before its first ``yield`` is refused
    before the first query of a run."""
    requires: frozenset[Capability] = frozenset({Capability.LABEL_SCORES})
    """The capabilities that the kernel must have; :class:`~StaICC.methods.run.Method` checks them."""
    trains: bool | Callable[[Any, str], bool] = False
    """Whether ``calibration_number`` affects its results, or a function of options and variant that says so."""
    options: type[Any] = NoOptions
    """The record of its options: a frozen dataclass whose fields are made by :func:`option`.
    ``data.options`` is an instance. Values other than the defaults are part of the signature."""

    def __post_init__(self) -> None:
        if not (isinstance(self.options, type) and dataclasses.is_dataclass(self.options)):
            raise ArgumentError(f"method {self.name!r}: got the options {self.options!r}, expected a dataclass")
        if not (isinstance(self.requires, frozenset) and all(isinstance(item, Capability) for item in self.requires)):
            raise ArgumentError(
                f"method {self.name!r}: got requires={self.requires!r}, expected a frozenset of Capability"
            )

    def counts(self, options: Any, variant: str) -> bool:
        """Return whether ``calibration_number`` affects the results with these options."""
        return self.trains if isinstance(self.trains, bool) else self.trains(options, variant)

    @property
    def needs(self) -> str:
        """The required capabilities in words."""
        return ", ".join(item.value for item in Capability if item in self.requires) or "nothing but predictions"


# -- the methods by name


def _check_record(name: str, value: Any) -> MethodSpec:
    if not isinstance(value, MethodSpec):
        raise ArgumentError(f"got {value!r:.80}, expected a MethodSpec")
    return value


TABLE_2 = (
    *("vanilla", "noisy_channel", "contextual_calibration", "domain_calibration", "batch_calibration"),
    *("ppl_icl", "topk", "sa_icl", "knn_prompt", "hidden_calibration"),
)
"""The methods of Table 2, in its order. Its k-NN is ``knn_prompt_centroid``."""
_MODULES: Mapping[str, Sequence[str]] = {
    **{
        name: (name,)
        for name in (
            *("vanilla", "noisy_channel", "ensemble", "permutation_ensemble", "ppl_icl", "topk", "sa_icl", "generate"),
            *("generation_calibration", "task_vectors"),
        )
    },
    "calibration.prior": (
        *("contextual_calibration", "domain_calibration", "batch_calibration", "dc_pmi"),
        *("temperature_scaling", "linear_calibration"),
    ),
    "calibration.neighbours": ("knn_prompt", "knn_prompt_centroid", "hidden_calibration", "prototypical_calibration"),
}
"""The built-in methods by module, which has the record of each under its name in capitals. To add a method, add it."""

METHODS: Registry[MethodSpec] = Registry(
    "method",
    "staicc.methods",
    {name: f"StaICC.methods.{module}:{name.upper()}" for module, names in _MODULES.items() for name in names},
    _check_record,
    "List them with: python -m StaICC show methods. 'all' runs the ten of Table 2.",
    named=lambda spec: spec.name,
)
"""The methods by name."""
