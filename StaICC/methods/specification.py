"""What a method is: a record with a pure generator function, and its options.

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

import contextlib
import copy
import dataclasses
import inspect
import json
import types
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from StaICC.benchmarks import Experimentor
from StaICC.benchmarks.diagnosis import L9, TemplateSensitivityTask, template_of_levels
from StaICC.benchmarks.normal import NormalTask
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError, unknown_name, whole_number
from StaICC.inference import Answer, Failure
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import options_of
from StaICC.methods.calibration.base import PromptMaker, Variant
from StaICC.methods.features import Request, feature_keys
from StaICC.prompting import PromptWriter, SubsetView, TemplateWarning, TripletSplit

Steps = Generator[Sequence[Request], list[list[Any]], Sequence[Answer | Failure]]
"""What a method returns: it yields requests, gets a list of rows for each, and returns the predictions."""

_SHARED_SETTINGS = ("instruction", "input_text_prefixes", "label_prefix", "query_prefix", "label_space")


def fresh(one: Experimentor, noisy_channel: bool | None = None) -> Experimentor:
    """Return a copy of an experimentor with all settings; changes to the copy do not affect the original.

    Args:
        one: The experimentor.
        noisy_channel: The channel of the copy; ``None`` for the same. If the channel changes, the affixes are those of
            the benchmark; the other changes of the template are kept.
    """
    made = copy.copy(one)
    writer = one.prompt_former
    if noisy_channel is None or writer.settings.noisy_channel is noisy_channel:
        made.prompt_former = copy.copy(writer)
        return made
    made.prompt_former = PromptWriter(one.card, one.triplet_dataset, noisy_channel)
    if writer.changed:
        settings = writer.get_config_dict()
        made.prompt_former.set_config_dict({key: settings[key] for key in _SHARED_SETTINGS})
    return made


def _rows(view: SubsetView, shown: tuple[str, ...] | None = None, labelled: bool = True) -> SubsetView:
    """Return a set that holds its rows only, with other texts in all rows or without labels (0)."""
    rows = [view.row(place) for place in range(len(view))]
    kept = tuple(Row(row.texts if shown is None else shown, row.label if labelled else 0) for row in rows)
    return SubsetView(view.name, cast("Any", kept), range(len(kept)), view.get_label_space())


@lru_cache(maxsize=16)  # all methods of a run use the same data sets
def _unlabelled(split: TripletSplit) -> TripletSplit:
    return TripletSplit(_rows(split.calibration), _rows(split.demonstration), _rows(split.test, labelled=False))


def without_labels(one: Experimentor) -> Experimentor:
    """Return a copy of an experimentor without the labels of the test rows; its prompts are the same."""
    split = _unlabelled(one.triplet_dataset)
    made = fresh(one).copy_with(_triplet=split, dataset=SimpleNamespace(card=one.card))
    made.prompt_former = made.prompt_former.copy_with(_split=split)
    made.prompt_former.pseudo_prompt = one.task.pseudo_queries(one.card, split.demonstration)
    if one._mode in ("in-domain", "out-of-domain"):  # demonstrations that are drawn by the labels of the test rows
        made = made.copy_with(_mode="manual", _manual=one.demonstration_lists())
    return made


def with_labels(changed: Experimentor, one: Experimentor) -> Experimentor:
    """Return a changed copy of an experimentor, which has no labels, with those of the experimentor."""
    made = changed.copy_with(_triplet=one.triplet_dataset, dataset=one.dataset)
    made.prompt_former = changed.prompt_former.copy_with(_split=one.triplet_dataset)
    drawn = one._mode in ("in-domain", "out-of-domain") and changed._manual == one.demonstration_lists()
    return made.copy_with(_mode=one._mode, _manual=()) if drawn else made


def with_query(one: Experimentor, texts: Sequence[str]) -> Experimentor:
    """Return a copy of an experimentor in which these texts take the place of every query.

    Demonstrations, template and label noise of each prompt are those of the original.

    Args:
        one: The experimentor.
        texts: The input texts.
    """
    split = one.triplet_dataset
    changed = TripletSplit(split.calibration, split.demonstration, _rows(split.test, tuple(texts)))
    own_texts = one.task.pseudo_queries(one.card, split.demonstration) is not None  # the task replaces the texts itself
    task = NormalTask(repeats=one.task.repeats) if own_texts else one.task
    return fresh(one).copy_with(_triplet=changed, task=task)


def with_lists(one: Experimentor, lists: Sequence[Sequence[int]]) -> Experimentor:
    """Return a copy of an experimentor with other demonstrations; test rows beyond its limit get the first ones."""
    made = fresh(one)
    beyond = [list(range(one.get_k()))] * (len(one.test_set()) - len(lists))
    made.set_demonstration_sampler([*map(list, lists), *beyond])
    return made


def with_template(one: Experimentor, levels: str) -> Experimentor:
    """Return a copy of an experimentor with a template of template sensitivity (a row of ``L9``)."""
    made = fresh(one)
    template = template_of_levels(one.task_input(), levels).template
    settings = {field.name: getattr(template, field.name) for field in dataclasses.fields(template)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)
        made.prompt_former.set_config_dict({**made.prompt_former.get_config_dict(), **settings})
    return made


def prompt_makers(one: Experimentor, variant: Variant) -> list[PromptMaker]:
    """Return the functions that write training prompts: one, or one for each condition if their templates differ.

    In ``"0.1.1"`` there is always one: the release trains with the first template.
    """
    if not isinstance(one.task, TemplateSensitivityTask) or variant == "0.1.1":
        return [one.prompt_former.write_prompt_from_dataline]
    return [with_template(one, levels).prompt_former.write_prompt_from_dataline for levels in L9]


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
    notes: dict[str, float] = field(default_factory=dict)
    """Numbers for the result's ``timing``, such as the number of duplicates."""

    def queries(self, feature: Any = "probabilities", view: Experimentor | None = None, **more: Any) -> Request:
        """Return the request of a feature of all queries; ``view`` has other prompts for them."""
        return Request(feature, view or self.experimentor, **more)

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


def _choices(hint: Any) -> Iterator[Any]:
    """Return the alternatives of a union, or the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        for part in get_args(hint):
            yield from _choices(part)
    else:
        yield hint


def _accepts(hint: Any, value: Any) -> bool:
    if hint is type(None):
        return value is None
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return whole_number(value) is not None
    if hint in (bool, str):
        return isinstance(value, hint)
    return value is not None and not isinstance(value, str)  # the method checks what sequences and mappings hold


def _exact(hint: Any, value: Any) -> Any:
    """Return a whole number as ``int``, or as a float where only floats are expected: 3 and 3.0 have one signature."""
    whole = whole_number(value)
    if whole is None:
        return value
    return float(whole) if float in _choices(hint) and int not in _choices(hint) else whole


def _read(hints: Any, text: str) -> list[Any]:
    """Return the values of a type that a text can be."""
    words = {"none": None, "true": True, "false": False}
    values: list[Any] = [words[text.casefold()]] if text.casefold() in words else []
    with contextlib.suppress(ValueError, RecursionError):
        values.append(json.loads(text))
    values.append(text)
    return [_exact(hints, value) for hint in _choices(hints) for value in values if _accepts(hint, value)]


def _unknown(owner: str, name: str, known: Iterable[str]) -> ArgumentError:
    names = list(known)
    if not names:
        return ArgumentError(f"{owner} has no option {name!r}; it has no options at all")
    return ArgumentError(str(unknown_name(f"option of {owner}", name, names)))


def make_options(owner: str, record: type[Any], given: Mapping[str, Any]) -> Any:
    """Make a record of given values.

    Args:
        owner: What has the options, for messages.
        record: A frozen dataclass.
        given: Values by name; the others get their defaults.

    Raises:
        ArgumentError: An option is unknown (the nearest is suggested), or a value has another type.
    """
    hints = get_type_hints(record)
    facts = {fact.name: fact for fact in options_of(record)}
    for name, value in given.items():
        if name not in facts:
            raise _unknown(owner, name, facts)
        if not any(_accepts(hint, value) for hint in _choices(hints[name])):
            raise ArgumentError(f"{owner}, option {name!r}: got {value!r:.80}, expected {facts[name].type}")
    return record(**{name: _exact(hints[name], value) for name, value in given.items()})


def read_options(owner: str, records: Iterable[type[Any]], texts: Iterable[str]) -> dict[str, Any]:
    """Read options as the command line gives them.

    Args:
        owner: What has the options, for messages.
        records: The records of the methods that will run; an option must be in one of them.
        texts: Items ``NAME=VALUE``. Lists and mappings are JSON, ``none`` is None.

    Raises:
        ArgumentError: An item has no ``=``, an option is unknown or given twice, or a value cannot be read.

    Example:
        >>> from StaICC.methods.catalogue import METHODS
        >>> read_options("knn_prompt", [METHODS["knn_prompt"].options], ["knn_k=5"])
        {'knn_k': 5}
    """
    records = list(records)
    hints = {name: hint for record in records for name, hint in get_type_hints(record).items()}
    facts = {fact.name: fact for record in records for fact in options_of(record)}
    found: dict[str, Any] = {}
    for item in texts:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ArgumentError(f"method option: got {item!r}, expected NAME=VALUE")
        if name not in facts:
            raise _unknown(owner, name, facts)
        if name in found:
            raise ArgumentError(f"the option {name!r} is given twice")
        values = _read(hints[name], text)
        if not values:
            raise ArgumentError(f"{owner}, option {name!r}: got {text!r:.80}, expected {facts[name].type}")
        found[name] = values[0]
    return found


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
    settings: Callable[[Any], Mapping[str, str]] | None = None
    """Returns, for options, what the identity of the predictions says in addition to that of the kernel."""

    def __post_init__(self) -> None:
        if not (isinstance(self.options, type) and dataclasses.is_dataclass(self.options)):
            raise ArgumentError(f"method {self.name!r}: got the options {self.options!r}, expected a dataclass")
        if not (isinstance(self.requires, frozenset) and all(isinstance(one, Capability) for one in self.requires)):
            raise ArgumentError(
                f"method {self.name!r}: got requires={self.requires!r}, expected a frozenset of Capability"
            )

    def begin(self, data: MethodData) -> Steps:
        """Return the steps of the method for one data set.

        Raises:
            ArgumentError: The function is no generator function.
        """
        steps = self.steps(data)
        if not inspect.isgenerator(steps):
            raise ArgumentError(
                f"got {type(steps).__name__}, expected a function that yields requests and returns predictions"
            )
        return cast("Steps", steps)

    def required(self, options: Any) -> frozenset[Capability]:
        """Return the capabilities that the kernel must have for these options."""
        return self.requires - getattr(options, "not_required", frozenset())

    def counts(self, options: Any, variant: str) -> bool:
        """Return whether ``calibration_number`` affects the results with these options."""
        return self.trains if isinstance(self.trains, bool) else self.trains(options, variant)

    @property
    def needs(self) -> str:
        """The required capabilities in words."""
        return ", ".join(one.value for one in Capability if one in self.requires) or "nothing but predictions"
