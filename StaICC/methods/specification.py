"""What a method is: its record, its options, and what it prepares for one data set.

A method may change the prompts (instruction, demonstrations, several orders of them), use another inference function
(a calibrated kernel), and combine or correct predictions. :class:`Prepared` holds these three parts for one data set.

Methods work on copies of the user's experimentors (:func:`fresh`) and on a kernel that caches its features
(:class:`~StaICC.methods.features.CachingKernel`), because many methods evaluate the same prompts.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from StaICC.benchmarks import Condition, DatasetRun, Experimentor
from StaICC.benchmarks.diagnosis import L9, TemplateSensitivityTask, template_of_levels
from StaICC.benchmarks.normal import NormalTask
from StaICC.datasets.table import Row
from StaICC.errors import ArgumentError, OutputError, unknown_name, whole_number
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions, ask
from StaICC.kernels.protocol import Capability
from StaICC.kernels.registry import options_of
from StaICC.methods.calibration.base import PromptMaker, Variant
from StaICC.methods.features import AT_ONCE, CachingKernel, Feature, Key, Request, apply_present
from StaICC.methods.selection import BM25, TextEncoder, make_encoder
from StaICC.prompting import PromptWriter, SubsetView, TemplateWarning, TripletSplit

Asked = Sequence[Answer | Failure]
"""Predictions for the queries of one view, in order."""

Combine = Callable[[Sequence[Condition], Sequence[Asked]], Asked]
"""Combines the predictions of all views, given the conditions of the first, into one for each query of the first."""

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


class _SameQuery(SubsetView):
    """A set whose rows all have the same texts; the labels are those of the rows."""

    __slots__ = ("_shown",)

    def __init__(self, rows: SubsetView, shown: tuple[str, ...]) -> None:
        super().__init__(rows.name, rows._table, rows.indexes, rows.get_label_space())
        self._shown = shown

    def row(self, index: int) -> Row:
        """Return row ``index`` with the texts of all."""
        return Row(self._shown, self.label(index))


def with_query(one: Experimentor, texts: Sequence[str]) -> Experimentor:
    """Return a copy of an experimentor in which these texts take the place of every query.

    Demonstrations, template and label noise of each prompt are those of the original.

    Args:
        one: The experimentor.
        texts: The input texts.
    """
    split = one.triplet_dataset
    changed = TripletSplit(split.calibration, split.demonstration, _SameQuery(split.test, tuple(texts)))
    own_texts = one.task.pseudo_queries(one.card, split.demonstration) is not None  # the task replaces the texts itself
    task = NormalTask(repeats=one.task.repeats) if own_texts else one.task
    return fresh(one).copy_with(_triplet=changed, task=task)


def prompt_makers(one: Experimentor, variant: Variant) -> list[PromptMaker]:
    """Return the functions that write training prompts: one, or one for each condition if their templates differ.

    In ``"0.1.1"`` there is always one: the release trains with the first template.
    """
    if not isinstance(one.task, TemplateSensitivityTask) or variant == "0.1.1":
        return [one.prompt_former.write_prompt_from_dataline]
    return [with_template(one, levels).prompt_former.write_prompt_from_dataline for levels in L9]


def with_template(one: Experimentor, levels: str) -> Experimentor:
    """Return a copy of an experimentor with a template of template sensitivity (a row of ``L9``)."""
    made = fresh(one)
    template = template_of_levels(one.task_input(), levels).template
    settings = {field.name: getattr(template, field.name) for field in dataclasses.fields(template)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)
        made.prompt_former.set_config_dict({**made.prompt_former.get_config_dict(), **settings})
    return made


def keys_of(one: Experimentor) -> list[Key]:
    """Return the prompts of an experimentor with their label spaces."""
    return [(query.prompt, query.label_space) for query in one.all_queries()]


@dataclass
class Workbench:
    """Kernel, options and caches of one method in one run."""

    kernel: CachingKernel
    variant: Variant
    calibration_number: int
    options: Any
    """The record of the method's options (:attr:`~StaICC.methods.specification.MethodSpec.options`)."""
    encoders: dict[str | int, TextEncoder | BM25] = field(default_factory=dict)
    """Encoders that the methods of one run share, by their name or by the identity of a function (they keep it)."""
    share: Callable[[CachingKernel, Experimentor, Part], None] | None = None
    """Computes the features of a data set that several methods share."""

    def encoder(self, choice: Any = "hidden") -> TextEncoder | BM25:
        """Return what compares texts; see :func:`make_encoder`. Hidden states are cached by :attr:`kernel` only."""
        if choice == "hidden":
            return make_encoder(choice, self.kernel)
        key = choice if isinstance(choice, str) else id(choice)
        if key not in self.encoders:
            self.encoders[key] = make_encoder(choice, self.kernel)
        return self.encoders[key]


Apply = Callable[[list[Any]], Sequence[Any]]
"""Turns features into predictions, one for each prompt."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A method prepared for one data set."""

    views: Sequence[Experimentor]
    """The experimentors to evaluate: one, or several that differ in their prompts. The first one is scored."""
    inference: Inference
    """The inference function to evaluate; ``bench.kernel``, whose features are cached, or a function of its own. It is
    not called where ``apply`` is given."""
    combine: Combine | None = None
    """Combines the predictions; ``None`` keeps them unchanged."""
    training_prompts: int = 0
    """Number of prompts or texts that training needs."""
    features: Sequence[Feature] = ("probabilities",)
    """What is computed for each view (one for all, or one for each), where ``apply`` is given or ``inference`` is
    ``bench.kernel``."""
    apply: Sequence[Apply] = ()
    """Turns features of the first view into predictions: one function, with the results of ``inference``, or one for
    each condition. With several, ``inference`` raises an error, because a prompt does not name its condition."""
    duplicates: int | None = None
    """Number of test examples that are shown a demonstration of exactly their text, where the method chooses them."""
    training: Sequence[Request] = ()
    """The features that the method learns from."""
    learn: Callable[[Iterable[Sequence[Any]]], Prepared] | None = None
    """Takes the rows of each request of ``training``, and returns the trained method."""

    def requests(self) -> list[Request]:
        """Return the features that training and predictions need."""
        features = self.features if len(self.features) > 1 else [self.features[0]] * len(self.views)
        views = [(feature, keys_of(view)) for feature, view in zip(features, self.views, strict=True)]
        return [*self.training, *views] if self.cached() else [*self.training]

    def cached(self) -> bool:
        """Whether the predictions are computed from cached features."""
        return bool(self.apply) or isinstance(self.inference, CachingKernel)

    def run(self, kernel: CachingKernel, options: RunOptions, part: Part) -> tuple[DatasetRun, int]:
        """Return scores and details of the first view, and the number of distinct prompts.

        Args:
            kernel: The kernel of the workbench.
            options: Options of the run.
            part: Name and number of this data set in the run.

        Raises:
            OutputError: A query has no usable prediction.
        """
        conditions = [view.conditions() for view in self.views]
        queries = [[query for condition in some for query in condition.queries] for some in conditions]
        keys = [[(query.prompt, query.label_space) for query in some] for some in queries]
        distinct = len({key for some in keys for key in some})
        if not self.cached():
            options = replace(options, unparsed=self.views[0].unparsed)
            flat = ask(self.inference, [query for some in queries for query in some], part, options)
            each: list[Asked] = []
            for some in queries:
                each.append(flat[: len(some)])
                flat = flat[len(some) :]
        elif self.apply:
            each = [self._applied(kernel, conditions[0], keys[0], part)]
        else:
            each = list(kernel.several(self.requests(), part))
        if self.combine is None and len(each) != 1:
            raise ArgumentError(f"got {len(each)} views without combine, expected a function that combines them")
        final = each[0] if self.combine is None else self.combine(conditions[0], each)
        if options.on_error == "raise":
            for number, answer in enumerate(final):
                if isinstance(answer, Failure) and answer.reply is None:
                    raise OutputError(f"{part.name}, query {number}: {answer.reason}") from answer.cause
        return self.views[0].assemble(conditions[0], final, part.name), distinct

    def _applied(
        self, kernel: CachingKernel, conditions: Sequence[Condition], keys: Sequence[Key], part: Part
    ) -> list[Answer | Failure]:
        """Compute features and turn them into predictions; few are in memory at once."""
        feature = self.features[0]
        functions = self.apply if len(self.apply) > 1 else [self.apply[0]] * len(conditions)
        found: list[Answer | Failure] = []
        for condition, apply in zip(conditions, functions, strict=True):
            own = keys[len(found) : len(found) + len(condition.queries)]
            step = AT_ONCE if feature == "vocabulary" else max(1, len(own))
            for start in range(0, len(own), step):
                found += apply_present(kernel.rows(feature, own[start : start + step], part), apply)
        return found


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
    return value is not None  # sequences and mappings: the method checks what they hold


def _exact(hint: Any, value: Any) -> Any:
    """Return a whole number as ``int``, or as a float where only floats are expected: 3 and 3.0 have one signature."""
    whole = whole_number(value)
    if whole is None:
        return value
    return float(whole) if float in _choices(hint) and int not in _choices(hint) else whole


def _parse(hint: Any, text: str) -> Any:
    """Read one alternative of a type.

    Raises:
        ValueError: The text is none.
    """
    if get_origin(hint) is Literal:
        return {str(one): one for one in get_args(hint)}[text]
    if hint in (type(None), bool):
        return ({"none": None} if hint is not bool else {"true": True, "false": False})[text.casefold()]
    return hint(text) if hint in (int, float, str) else json.loads(text)


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
        for hint in _choices(hints[name]):
            try:
                found[name] = _parse(hint, text)
                break
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        else:
            raise ArgumentError(f"{owner}, option {name!r}: got {text!r:.80}, expected {facts[name].type}")
    return found


# -- a method


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """A method: its name, required capabilities, options, and the function that prepares it."""

    name: str
    title: str
    """As in Table 2."""
    prepare: Callable[[Workbench, Experimentor], Prepared]
    """Prepares it for a data set. The experimentor is a copy of the user's and may be changed."""
    requires: frozenset[Capability] = frozenset({Capability.LABEL_SCORES})
    """The capabilities that the kernel must have; :class:`~StaICC.methods.run.Method` checks them."""
    trains: bool | Callable[[Any, str], bool] = False
    """Whether ``calibration_number`` affects its results, or a function of options and variant that says so."""
    options: type[Any] = NoOptions
    """The record of its options: a frozen dataclass whose fields are made by :func:`option`.
    ``bench.options`` is an instance. Values other than the defaults are part of the signature."""

    def __post_init__(self) -> None:
        if not (isinstance(self.options, type) and dataclasses.is_dataclass(self.options)):
            raise ArgumentError(f"method {self.name!r}: got the options {self.options!r}, expected a dataclass")
        if not (isinstance(self.requires, frozenset) and all(isinstance(one, Capability) for one in self.requires)):
            raise ArgumentError(
                f"method {self.name!r}: got requires={self.requires!r}, expected a frozenset of Capability"
            )

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
