"""The built-in methods: for each its options, its function and its record."""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

from StaICC.benchmarks import Experimentor
from StaICC.benchmarks.diagnosis import L9, DemonstrationSensitivityTask, TemplateSensitivityTask
from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.inference import Answer, Failure
from StaICC.kernels.protocol import Capability
from StaICC.methods.calibration import (
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    KNNPrompting,
    KNNPromptingCentroid,
    batch_calibration,
)
from StaICC.methods.calibration.base import CONTENT_FREE, Calibration, PromptMaker, domain_texts
from StaICC.methods.calibration.label_probabilities import (
    Correct,
    DomainPMI,
    LinearCalibration,
    PrototypicalCalibration,
    TemperatureScaling,
    calibrated_in_context,
    label_rows,
    read_probabilities,
)
from StaICC.methods.features import NoisyChannel, apply_present
from StaICC.methods.generation import GenerationOptions, generate, generation_settings
from StaICC.methods.selection import (
    Distances,
    bm25_distances,
    check_instructions,
    encoder,
    first_demonstrations,
    instruction_prompts,
    instructions_for,
    least_perplexity,
    lowest_entropy,
    nearest_demonstrations,
    order_patterns,
    vector_distances,
)
from StaICC.methods.specification import (
    MethodData,
    MethodSpec,
    NoOptions,
    Steps,
    fresh,
    option,
    prompt_makers,
    with_lists,
    with_query,
    with_template,
)
from StaICC.prompting import TemplateWarning, sample_demonstrations
from StaICC.registry import Registry

CANDIDATES = 30
"""Nearest demonstrations from which the authors of SA-ICL draw orders."""
HIDDEN_SAMPLES = 16
"""Rows of each label with which the authors of hidden calibration train."""


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Options of contextual calibration."""

    shared_contexts: bool = option(
        False, "Variant paper: one prior from calibration_number prompts, not one for each query; fewer requests."
    )


@dataclass(frozen=True, slots=True)
class DomainOptions(ContextOptions):
    """Options of domain calibration."""

    sample_length: int | None = option(
        None, "Words in a text of random words; none: the average of the data set, or 64 with shared contexts."
    )
    texts: int = option(20, "Variant paper: random texts for each query.")


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of batch calibration."""

    batch_size: int = option(128, "Predictions in a batch.")


@dataclass(frozen=True, slots=True)
class InstructionOptions:
    """Options of PPL-ICL."""

    instructions: Sequence[str] | Mapping[str, Sequence[str]] | None = option(
        None, "Candidate instructions, or lists of them by data set; none: those of the release."
    )


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """Options of TopK."""

    demonstration_set_cut: int | None = option(
        None, "Choose from this many first demonstrations; none: from all (0.1.1: 512)."
    )
    encoder: str | Callable[[list[str]], Any] = option(  # noqa: RUF009
        "hidden", "What compares texts: hidden (states of the model), bm25, sentence-transformers:NAME, or a function."
    )
    rule: Literal["nearest", "diverse", "balanced", "vote-k"] = option(
        "nearest", "How demonstrations are chosen: nearest, diverse, balanced (by label) or vote-k."
    )
    exclude_duplicates: bool = option(False, "Never choose a demonstration with exactly the text of the query.")

    @property
    def not_required(self) -> frozenset[Capability]:
        """The capabilities that the method does not need with these options."""
        return frozenset() if self.encoder == "hidden" else frozenset({Capability.HIDDEN_STATES})


@dataclass(frozen=True, slots=True)
class OrderOptions(RetrievalOptions):
    """Options of SA-ICL."""

    orders: int = option(10, "Orders of the demonstrations that are tried.")
    candidates: int | None = option(None, "Nearest demonstrations for the orders; none: 30, in other variants k + 1.")


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options of calibrations from labelled prompts."""

    samples_per_label: int | None = option(
        None,
        "Calibration rows of each label; none: in variant paper 16 for hidden calibration and equal shares of "
        "calibration_number for k-NN, otherwise calibration_number rows of any label.",
    )


@dataclass(frozen=True, slots=True)
class AnchorOptions(SampleOptions):
    """Options of k-NN prompting by centroids."""

    shared_demonstrations: bool = option(
        False, "The same demonstrations for anchors and all test examples, as in the authors' code."
    )


@dataclass(frozen=True, slots=True)
class NeighbourOptions(AnchorOptions):
    """Options of k-NN prompting."""

    knn_k: int = option(3, "Nearest neighbours that vote.")


@dataclass(frozen=True, slots=True)
class LinearOptions:
    """Options of linear calibration."""

    learning_rate: float = option(3e-4, "Step size of the gradient descent.")
    epochs: int = option(15, "How often each calibration sample is used.")


@dataclass(frozen=True, slots=True)
class MixtureOptions:
    """Options of prototypical calibration."""

    restarts: int = option(100, "Fits of the mixture, from different starts.")


@dataclass(frozen=True, slots=True)
class PremiseOptions:
    """Options of DC-PMI."""

    premise: str | None = option(None, "The domain premise; none: the text between query and label.")


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Options of the ensemble."""

    sets: int = option(4, "Demonstration lists for each test example.")
    templates: int = option(1, "Templates: the first ones of template sensitivity, of nine; 1: the benchmark's own.")


# -- one function for each method


def _vanilla(data: MethodData) -> Steps:
    (rows,) = yield [data.queries()]
    return rows


def _noisy_channel(data: MethodData) -> Steps:
    feature: Any = "probabilities"
    if "noisy_channel" in data.provides:
        feature = NoisyChannel(None, "0.1.1" if data.variant == "0.1.1" else "paper")
    elif data.variant == "0.1.1":
        raise ArgumentError(
            "variant '0.1.1': the kernel has no method noisy_channel (or overrides what it calls). "
            "Use variant 'paper', or a local model, such as hf:NAME"
        )
    data.experimentor = fresh(data.experimentor, noisy_channel=True)
    (rows,) = yield [data.queries(feature)]
    return rows


Make = Callable[[MethodData, Sequence[str]], Calibration]
Arguments = Callable[[MethodData], dict[str, Any]]


def calibrated(make: Make, arguments: Arguments | None = None) -> Callable[[MethodData], Steps]:
    """Return the function of a method that is a calibration.

    Args:
        make: Returns the untrained calibration for the data and a label space.
        arguments: Returns further arguments of ``samples`` for the data.
    """
    return partial(_calibrated, make, arguments)


def _calibrated(make: Make, arguments: Arguments | None, data: MethodData) -> Steps:
    makers = _share_demonstrations(data)
    one, labels = data.experimentor, data.experimentor.get_label_space()
    more = {} if arguments is None else arguments(data)
    made = [make(data, labels) for _ in makers]  # one for each template
    samples = [
        calibration.samples(maker, one.calibration_set(), data.calibration_number, one.get_k(), **more)
        for calibration, maker in zip(made, makers, strict=True)
    ]
    feature = made[0].feature
    training = [data.training(feature, prompts) for prompts, _ in samples]
    *features, _ = yield [*training, data.queries(feature, ahead=True)]
    for calibration, drawn, rows in zip(made, samples, features, strict=True):
        calibration.train_on(rows, *drawn)
    (rows,) = yield [data.queries(made[0].reads, apply=[calibration.apply for calibration in made])]
    return rows


def _share_demonstrations(data: MethodData) -> list[PromptMaker]:
    """Return what writes training prompts; where the option says so, with the same demonstrations as all queries."""
    makers = prompt_makers(data.experimentor, data.variant)
    if not getattr(data.options, "shared_demonstrations", False):
        return makers
    one = data.experimentor
    _refuse_several_lists(one)
    shared = one.demonstration_lists()[0]
    data.experimentor = with_lists(one, [shared] * len(one.test_set()))
    rows = [one.demonstration_set()[place] for place in shared]
    return [partial(_after, maker, rows) for maker in makers]


def _after(maker: PromptMaker, rows: list[Any], demonstrations: list[Any], query: list[str]) -> Any:
    return maker(rows, query)


def _per_label(data: MethodData) -> dict[str, Any]:
    number: int | None = data.options.samples_per_label
    if number is not None and data.variant == "0.1.1":
        raise ArgumentError("samples_per_label: the release draws rows of any label. Use variant 'paper' or 'staicc'")
    if number is None and data.variant == "paper":
        width = len(data.experimentor.get_label_space())
        anchors = isinstance(data.options, AnchorOptions)
        number = max(1, data.calibration_number // width) if anchors else HIDDEN_SAMPLES
    return {"per_label": number}


def _in_context(shared: Callable[[MethodData], Steps], correct: Correct, data: MethodData) -> Steps:
    """Calibrate by texts after each query's own demonstrations, or by one prior for all."""
    if _one_prior(data.options, data.variant):
        return (yield from shared(data))
    one = data.experimentor
    if isinstance(data.options, DomainOptions):
        texts = domain_texts(one.calibration_set(), data.options.texts, data.options.sample_length)
    else:
        texts = [(text,) * len(one.card.template.input_text_prefixes) for text in CONTENT_FREE]
    logarithms = "log_probabilities" in data.provides and not one.prompt_former.settings.noisy_channel
    feature = "log_probabilities" if logarithms else "probabilities"
    rows, *free = yield [data.queries(), *(data.queries(feature, with_query(one, text)) for text in texts)]
    return calibrated_in_context(rows, free, correct, len(one.get_label_space()), logarithms)


def _batch_calibration(data: MethodData) -> Steps:
    calibrate = partial(batch_calibration, batch_size=data.options.batch_size, variant=data.variant)
    (rows,) = yield [data.queries(apply=[calibrate])]
    return rows


def _ppl_icl(data: MethodData) -> Steps:
    one, given = data.experimentor, data.options.instructions
    if isinstance(given, Mapping):
        given = given.get(one.name)
    candidates = check_instructions(instructions_for(one.name) if given is None else given)
    if not all(text.startswith(candidates[0]) for text in _first_texts(_instructed(one, candidates[0]))):
        raise ArgumentError(f"{one.task.name} sets the instruction itself, so PPL-ICL cannot choose it")
    tried = instruction_prompts(candidates, one, data.variant, data.calibration_number)
    (losses,) = yield [data.training("losses", [text for texts in tried for text in texts])]
    data.experimentor = _instructed(one, candidates[least_perplexity(losses, len(tried))])
    (rows,) = yield [data.queries()]
    return rows


def _instructed(one: Experimentor, instruction: str) -> Experimentor:
    made = fresh(one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)  # the signature says that the template was changed
        made.prompt_former.change_instruction(instruction)
    return made


def _first_texts(one: Experimentor) -> list[str]:
    """Return the first text of the first prompt of each condition."""
    prompts = [condition.queries[0].prompt for condition in one.conditions() if condition.queries]
    return [prompt if isinstance(prompt, str) else prompt[0] for prompt in prompts]


def _refuse_several_lists(one: Experimentor) -> None:
    if isinstance(one.task, DemonstrationSensitivityTask):
        raise ArgumentError(f"{one.task.name} needs several demonstration lists for each query; this method sets one")


def _near(data: MethodData, count: int, at_least: int) -> Generator[Any, Any, list[list[int]]]:
    """Find the ``count`` nearest demonstrations of each test example, or as many as there are."""
    one, options = data.experimentor, data.options
    if not one.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    _refuse_several_lists(one)
    pool = first_demonstrations(one, data.variant, options.demonstration_set_cut)
    texts = [" ".join(pool[place][0]) for place in range(len(pool))]
    usable = sum(map(bool, texts))
    if count > usable and getattr(options, "candidates", None) is not None:
        raise ArgumentError(f"got candidates = {count}, expected at most {usable}, the demonstrations that have text")
    count = max(at_least, min(count, usable))
    if count > usable:
        raise ArgumentError(f"got {usable} demonstrations with text, expected at least {count}")
    queries = [one.test_set().get_input_text(row) for row in range(one.row_count)]
    asked = [" ".join(query) for query in queries]
    distances: Distances = bm25_distances
    if options.encoder != "bm25":
        distinct = [text for text in dict.fromkeys([*texts, *asked]) if text]
        (states,) = yield [data.training(encoder(options.encoder), distinct, "encoding")]
        distances = vector_distances(distinct, states)
    found = nearest_demonstrations(
        distances, pool, queries, count, data.variant, options.rule, options.exclude_duplicates
    )
    shown = [{texts[place] for place in line} for line in found]
    pairs = zip(asked, shown, strict=True)
    data.notes["duplicates"] = float(sum(bool(text) and text in line for text, line in pairs))
    return found


def _topk(data: MethodData) -> Steps:
    k = data.experimentor.get_k()
    near = yield from _near(data, k, k)
    data.experimentor = with_lists(data.experimentor, near)
    (rows,) = yield [data.queries()]
    return rows


def _sa_icl(data: MethodData) -> Steps:
    one, k = data.experimentor, data.experimentor.get_k()
    number, given = validate_integer("orders", data.options.orders, 1), data.options.candidates
    default = CANDIDATES if data.variant == "paper" else k + 1  # 5 for 4, as released
    count = default if given is None else validate_integer("candidates", given, k)
    near = yield from _near(data, count, k + 1 if given is None and data.variant != "paper" else k)
    found = len(near[0]) if near else count
    patterns = order_patterns(len(near), found, k, number, data.variant)
    views = [
        with_lists(one, [[row[place] for place in order] for row, order in zip(near, orders, strict=True)])
        for orders in zip(*patterns, strict=True)
    ]
    data.experimentor = views[0]
    answers = yield [data.queries(view=view) for view in views]
    return [_surest(candidates, data.variant) for candidates in zip(*answers, strict=True)]


def _surest(candidates: Sequence[Answer | Failure], variant: str) -> Answer | Failure:
    rows = [answer for answer in candidates if not isinstance(answer, Failure)]
    if not rows:
        return candidates[0]
    listed = [row for row in rows if isinstance(row, list)]
    if len(listed) != len(rows):
        raise OutputError("SA-ICL: the kernel returned labels, expected label probabilities")
    return listed[lowest_entropy(listed, variant)]


def _ensemble(data: MethodData) -> Steps:
    """Average the predictions over demonstration lists and templates."""
    one = data.experimentor
    sets = validate_integer("sets", data.options.sets, 1)
    templates = validate_integer("templates", data.options.templates, 1, len(L9))
    _refuse_several_lists(one)
    if sets > 1 and not one.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to vary. Use sets=1")
    if templates > 1 and isinstance(one.task, TemplateSensitivityTask):
        raise ArgumentError(f"{one.task.name} sets the template itself. Use templates=1")
    size = len(one.test_set())
    lists = sample_demonstrations(len(one.demonstration_set()), one.get_k(), size * sets)
    views = [with_lists(one, lists[number * size : (number + 1) * size]) for number in range(sets)]
    if templates > 1:
        views = [with_template(view, levels) for levels in L9[:templates] for view in views]
    data.experimentor = views[0]
    answers = yield [data.queries(view=view) for view in views]
    width = len(one.get_label_space())
    flat = [row for rows in answers for row in rows]
    read = apply_present(flat, lambda rows: read_probabilities(label_rows(rows, width, "prediction"), "auto")[0])
    return [_mean_prediction(read[number :: len(answers[0])]) for number in range(len(answers[0]))]


def _mean_prediction(members: Sequence[Any]) -> Answer | Failure:
    """Return the mean of the predictions that there are."""
    rows = [row for row in members if not isinstance(row, Failure)]
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else members[0]


_HIDDEN = frozenset({Capability.HIDDEN_STATES})

_VOCABULARY = frozenset({Capability.FULL_VOCABULARY})


def _calibration(
    kind: type[Calibration],
    title: str,
    options: type[Any] = NoOptions,
    arguments: Arguments | None = None,
    **more: Any,
) -> MethodSpec:
    """Return the record of a calibration, whose class takes some of the options."""
    taken = {field.name for field in dataclasses.fields(options)} & {*inspect.signature(kind).parameters}

    def make(data: MethodData, labels: Sequence[str]) -> Calibration:
        return kind(labels, variant=data.variant, **{name: getattr(data.options, name) for name in taken})

    record = MethodSpec(kind.name, title, calibrated(make, arguments), options=options, trains=True)
    return dataclasses.replace(record, **more)


def _one_prior(options: ContextOptions, variant: str) -> bool:
    return variant != "paper" or options.shared_contexts


def _any_rows(options: SampleOptions, variant: str) -> bool:
    return options.samples_per_label is None and (variant != "paper" or isinstance(options, AnchorOptions))


def _context_calibration(
    kind: type[ContextualCalibration | DomainCalibration], title: str, options: type[Any], arguments: Arguments | None
) -> MethodSpec:
    """Return the record of a calibration by texts after the query's own demonstrations."""
    shared = _calibration(kind, title, options, arguments, trains=_one_prior)
    return dataclasses.replace(shared, steps=partial(_in_context, shared.steps, kind.correct))


_SPECS = (
    MethodSpec("vanilla", "Vanilla", _vanilla, frozenset()),
    MethodSpec("noisy_channel", "Noisy channel", _noisy_channel, frozenset({Capability.NOISY_CHANNEL})),
    _context_calibration(ContextualCalibration, "Contextual calibration", ContextOptions, None),
    _context_calibration(
        DomainCalibration,
        "Domain calibration",
        DomainOptions,
        lambda data: {"sample_length": data.options.sample_length or 64},
    ),
    MethodSpec("batch_calibration", "Batch calibration", _batch_calibration, options=BatchOptions),
    MethodSpec(
        "ppl_icl",
        "PPL-ICL",
        _ppl_icl,
        frozenset({Capability.LOSSES}),
        trains=lambda options, variant: variant != "0.1.1",
        options=InstructionOptions,
    ),
    MethodSpec("topk", "TopK", _topk, _HIDDEN, options=RetrievalOptions),
    MethodSpec("sa_icl", "SA-ICL", _sa_icl, _HIDDEN | {Capability.LABEL_SCORES}, options=OrderOptions),
    _calibration(KNNPrompting, "k-NN", NeighbourOptions, _per_label, requires=_VOCABULARY, trains=_any_rows),
    _calibration(
        KNNPromptingCentroid, "k-NN (centroids)", AnchorOptions, _per_label, requires=_VOCABULARY, trains=_any_rows
    ),
    _calibration(
        HiddenCalibration, "Hidden calibration", SampleOptions, _per_label, requires=_HIDDEN, trains=_any_rows
    ),
    _calibration(TemperatureScaling, "Temperature scaling"),
    _calibration(LinearCalibration, "Linear calibration", LinearOptions),
    _calibration(PrototypicalCalibration, "Prototypical calibration", MixtureOptions),
    _calibration(DomainPMI, "DC-PMI", PremiseOptions, lambda data: {"premise": data.options.premise}, trains=False),
    MethodSpec("ensemble", "Ensemble", _ensemble, options=EnsembleOptions),
    MethodSpec(
        "generate",
        "Generate then parse",
        generate,
        frozenset({Capability.TEXT}),
        options=GenerationOptions,
        settings=generation_settings,
    ),
)

BUILT_IN = SimpleNamespace(**{spec.name: spec for spec in _SPECS})
"""The built-in methods as attributes. To add one, add its record here."""


def _read_method(name: str, value: Any) -> MethodSpec:
    if not isinstance(value, MethodSpec):
        raise ArgumentError(f"got {value!r:.80}, expected a MethodSpec")
    return value


METHODS: Registry[MethodSpec] = Registry(
    "method",
    "staicc.methods",
    {name: f"{__name__}:BUILT_IN.{name}" for name in vars(BUILT_IN)},
    _read_method,
    "List them with: python -m StaICC show methods. 'all' runs the ten of Table 2.",
    named=lambda spec: spec.name,
)
"""The methods by name."""

TABLE_2 = (
    "vanilla",
    "noisy_channel",
    "contextual_calibration",
    "domain_calibration",
    "batch_calibration",
    "ppl_icl",
    "topk",
    "sa_icl",
    "knn_prompt",
    "hidden_calibration",
)
"""The methods of Table 2, in its order. Its k-NN is ``knn_prompt_centroid``."""
