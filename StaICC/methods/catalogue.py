"""The built-in methods: for each a function that prepares it for one data set, and its record."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, NoReturn

from StaICC.benchmarks import Condition, Experimentor
from StaICC.benchmarks.diagnosis import L9, DemonstrationSensitivityTask, TemplateSensitivityTask
from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.inference import Answer, Failure
from StaICC.inference.forecast import Forecast, forecast_prompts
from StaICC.inference.identity import Identity, combined, identity_of
from StaICC.inference.recheck import tolerance_of
from StaICC.kernels.protocol import Capability, NoisyChannelVariants, represents
from StaICC.methods.calibration import (
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    KNNPrompting,
    KNNPromptingCentroid,
    batch_calibration,
)
from StaICC.methods.calibration.base import CONTENT_FREE, CalibratedKernel, Calibration, PromptMaker, domain_texts
from StaICC.methods.calibration.label_probabilities import (
    DomainPMI,
    LinearCalibration,
    PrototypicalCalibration,
    TemperatureScaling,
    calibrated_in_context,
    label_rows,
    read_probabilities,
)
from StaICC.methods.features import Feature, apply_present, feature_keys
from StaICC.methods.generation import GenerateThenParse, GenerationOptions
from StaICC.methods.selection import (
    choose_instruction,
    first_demonstrations,
    instructions_for,
    lowest_entropy,
    nearest_demonstrations,
    order_patterns,
)
from StaICC.methods.specification import (
    Asked,
    MethodSpec,
    Prepared,
    Workbench,
    fresh,
    option,
    prompt_makers,
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


def _vanilla(bench: Workbench, one: Experimentor) -> Prepared:
    return Prepared([one], bench.kernel)


class _NoisyChannel:
    """The noisy channel of a kernel, in one of the two variants."""

    def __init__(self, kernel: Any, variant: str) -> None:
        self.kernel, self.variant = kernel, variant

    def identity(self) -> Identity:
        return combined(identity_of(self.kernel), "noisy channel", Identity({}, {"variant": self.variant}))

    @property
    def recheck_tolerance(self) -> float | None:
        """That of the kernel."""
        return tolerance_of(self.kernel)

    def forecast_prompts(
        self, prompts: Sequence[Any], label_space: Sequence[str], kept: tuple[int, ...] = ()
    ) -> Forecast:
        return forecast_prompts(self.kernel, prompts, label_space, kept=kept)

    def __call__(self, prompt: Sequence[str], label_space: Sequence[str]) -> Any:
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str]) -> Any:
        return self.kernel.noisy_channel(prompts, label_space, self.variant)


def _noisy_channel(bench: Workbench, one: Experimentor) -> Prepared:
    noisy = fresh(one, noisy_channel=True)
    kernel = bench.kernel.kernel
    if isinstance(kernel, NoisyChannelVariants) and represents(kernel, "noisy_channel"):
        return Prepared([noisy], _NoisyChannel(kernel, "0.1.1" if bench.variant == "0.1.1" else "paper"))
    if bench.variant == "0.1.1":
        raise ArgumentError(
            f"variant '0.1.1' of the noisy channel: {type(kernel).__name__} has no method noisy_channel "
            "(or overrides what it calls), so it computes its own variant only. Use variant 'paper', or a local model, "
            "such as hf:NAME"
        )
    return Prepared([noisy], bench.kernel)


Make = Callable[[Workbench, Sequence[str]], Calibration]
Arguments = Callable[[Workbench, Experimentor], dict[str, Any]]


def calibrated(make: Make, arguments: Arguments | None = None) -> Callable[[Workbench, Experimentor], Prepared]:
    """Return the ``prepare`` function of a method that is a calibration.

    Args:
        make: Returns the untrained calibration for a workbench and a label space.
        arguments: Returns further arguments of ``train`` for a workbench and a data set.
    """
    return partial(_calibrated, make, arguments)


def _calibrated(make: Make, arguments: Arguments | None, bench: Workbench, one: Experimentor) -> Prepared:
    one = _sharing_demonstrations(bench, one)
    labels, more = one.get_label_space(), {} if arguments is None else arguments(bench, one)
    calibrations = [(make(bench, labels), maker) for maker in _makers(bench, one)]
    samples = [
        calibration.samples(maker, one.calibration_set(), bench.calibration_number, one.get_k(), **more)
        for calibration, maker in calibrations
    ]
    trained = [calibration for calibration, _ in calibrations]

    def learn(features: Iterable[Sequence[Any]]) -> Prepared:
        for calibration, drawn, rows in zip(trained, samples, features, strict=True):
            calibration.train_on(bench.kernel, rows, *drawn)
        return Prepared(
            [one],
            CalibratedKernel(bench.kernel.kernel, trained[0]) if len(trained) == 1 else _for_each_template,
            None,
            sum(calibration.training_prompts for calibration in trained),
            (trained[0].reads,),
            [calibration.apply for calibration in trained],
        )

    feature = trained[0].feature
    training = [(feature, feature_keys(prompts, labels)) for prompts, _ in samples]
    return Prepared([one], bench.kernel, features=(feature,), training=training, learn=learn)


def _for_each_template(prompt: Any, label_space: Sequence[str]) -> NoReturn:
    """Refuse to predict a prompt that does not say with which template it was written."""
    raise ArgumentError("each template has a calibration of its own: got a prompt alone. Run the method: Method.run")


def _shares_demonstrations(bench: Workbench) -> bool:
    return isinstance(bench.options, AnchorOptions) and bench.options.shared_demonstrations


def _sharing_demonstrations(bench: Workbench, one: Experimentor) -> Experimentor:
    if not _shares_demonstrations(bench):
        return one
    _refuse_several_lists(one)
    return _with_lists(one, [one.demonstration_lists()[0]] * len(one.test_set()))


def _makers(bench: Workbench, one: Experimentor) -> list[PromptMaker]:
    makers = prompt_makers(one, bench.variant)
    if not _shares_demonstrations(bench):
        return makers
    rows = [one.demonstration_set()[place] for place in one.demonstration_lists()[0]]
    return [partial(_after, maker, rows) for maker in makers]


def _after(maker: PromptMaker, rows: list[Any], demonstrations: list[Any], query: list[str]) -> Any:
    return maker(rows, query)


def _per_label(bench: Workbench, one: Experimentor) -> dict[str, Any]:
    number: int | None = bench.options.samples_per_label
    if number is not None and bench.variant == "0.1.1":
        raise ArgumentError("samples_per_label: the release draws rows of any label. Use variant 'paper' or 'staicc'")
    if number is None and bench.variant == "paper":
        hidden = not isinstance(bench.options, AnchorOptions)
        number = HIDDEN_SAMPLES if hidden else max(1, bench.calibration_number // len(one.get_label_space()))
    return {"per_label": number}


def _in_context(
    shared: Callable[[Workbench, Experimentor], Prepared],
    correct: Callable[[Sequence[float], Sequence[float]], list[float]],
    bench: Workbench,
    one: Experimentor,
) -> Prepared:
    """Prepare a calibration by texts after each query's own demonstrations, or by one prior for all."""
    if bench.variant != "paper" or bench.options.shared_contexts:
        return shared(bench, one)
    if isinstance(bench.options, DomainOptions):
        texts = domain_texts(one.calibration_set(), bench.options.texts, bench.options.sample_length)
    else:
        texts = [(text,) * len(one.card.template.input_text_prefixes) for text in CONTENT_FREE]
    logarithms = bench.kernel.label_log_probabilities and not one.prompt_former.settings.noisy_channel
    feature: Feature = "log_probabilities" if logarithms else "probabilities"
    width = len(one.get_label_space())

    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        return calibrated_in_context(answers[0], answers[1:], correct, width, logarithms)

    views = [one, *(with_query(one, text) for text in texts)]
    return Prepared(views, bench.kernel, combine, features=["probabilities", *[feature] * len(texts)])


def _batch_calibration(bench: Workbench, one: Experimentor) -> Prepared:
    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        calibrated = partial(batch_calibration, batch_size=bench.options.batch_size, variant=bench.variant)
        found: list[Answer | Failure] = []
        for condition in conditions:
            found += apply_present(answers[0][len(found) : len(found) + len(condition.queries)], calibrated)
        return found

    return Prepared([one], bench.kernel, combine)


def _ppl_icl(bench: Workbench, one: Experimentor) -> Prepared:
    given = bench.options.instructions
    if isinstance(given, Mapping):
        given = given.get(one.name)
    candidates = instructions_for(one.name) if given is None else given
    instruction, asked = choose_instruction(bench.kernel, candidates, one, bench.variant, bench.calibration_number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)  # the signature says that the template was changed
        one.prompt_former.change_instruction(instruction)
    for query in one.all_queries():
        if not (query.prompt if isinstance(query.prompt, str) else query.prompt[0]).startswith(instruction):
            raise ArgumentError(f"{one.task.name} sets the instruction itself, so PPL-ICL cannot choose it")
    return Prepared([one], bench.kernel, None, asked)


def _refuse_several_lists(one: Experimentor) -> None:
    if isinstance(one.task, DemonstrationSensitivityTask):
        raise ArgumentError(f"{one.task.name} needs several demonstration lists for each query; this method sets one")


@dataclass(frozen=True, slots=True)
class _Near:
    """The nearest demonstrations of every test example."""

    lists: list[list[int]]
    texts: int
    """Number of distinct encoded texts."""
    duplicates: int
    """Number of test examples with a demonstration of exactly their text."""


def _near(bench: Workbench, one: Experimentor, count: int, at_least: int) -> _Near:
    """Find the ``count`` nearest demonstrations of each test example, or as many as there are."""
    if not one.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to choose")
    _refuse_several_lists(one)
    pool = first_demonstrations(one, bench.variant, bench.options.demonstration_set_cut)
    texts = [" ".join(pool[place][0]) for place in range(len(pool))]
    count = max(at_least, min(count, sum(map(bool, texts))))
    test = one.test_set()
    asked = len(test) if one.limit is None else min(one.limit, len(test))
    queries = [test.get_input_text(row) for row in range(asked)]
    options = bench.options
    found = nearest_demonstrations(
        bench.encoder(options.encoder), pool, queries, count, bench.variant, options.rule, options.exclude_duplicates
    )
    asked_texts = [" ".join(query) for query in queries]
    duplicates = sum(
        bool(text) and text in {texts[place] for place in line} for text, line in zip(asked_texts, found, strict=True)
    )
    distinct = {*texts, *asked_texts} - {""}
    encoded = 0 if options.encoder == "bm25" else len(distinct)
    return _Near(found, encoded, duplicates)


def _with_lists(one: Experimentor, lists: Sequence[Sequence[int]]) -> Experimentor:
    """Return a copy of an experimentor with other demonstrations; test rows beyond its limit get the first ones."""
    made = fresh(one)
    k = one.get_k()
    beyond = [list(range(k))] * (len(one.test_set()) - len(lists))
    made.set_demonstration_sampler([*map(list, lists), *beyond])
    return made


def _topk(bench: Workbench, one: Experimentor) -> Prepared:
    near = _near(bench, one, one.get_k(), one.get_k())
    return Prepared([_with_lists(one, near.lists)], bench.kernel, None, near.texts, duplicates=near.duplicates)


def _sa_icl(bench: Workbench, one: Experimentor) -> Prepared:
    k, number = one.get_k(), validate_integer("orders", bench.options.orders, 1)
    default = CANDIDATES if bench.variant == "paper" else k + 1  # 5 for 4, as released
    given = bench.options.candidates
    count = default if given is None else validate_integer("candidates", given, k)
    near = _near(bench, one, count, k + 1 if given is None and bench.variant != "paper" else k)
    found = len(near.lists[0]) if near.lists else count
    if given is not None and found < given:
        raise ArgumentError(f"got candidates = {given}, expected at most {found}, the demonstrations that have text")
    patterns = order_patterns(len(near.lists), found, k, number, bench.variant)
    views = [
        _with_lists(
            one,
            [[row[place] for place in orders[order]] for row, orders in zip(near.lists, patterns, strict=True)],
        )
        for order in range(len(patterns[0]))
    ]

    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        return [_surest(candidates, bench.variant) for candidates in zip(*answers, strict=True)]

    return Prepared(views, bench.kernel, combine, near.texts, duplicates=near.duplicates)


def _surest(candidates: Sequence[Answer | Failure], variant: str) -> Answer | Failure:
    rows = [answer for answer in candidates if not isinstance(answer, Failure)]
    if not rows:
        return candidates[0]
    listed = [row for row in rows if isinstance(row, list)]
    if len(listed) != len(rows):
        raise OutputError("SA-ICL: the kernel returned labels, expected label probabilities")
    return listed[lowest_entropy(listed, variant)]


def _ensemble(bench: Workbench, one: Experimentor) -> Prepared:
    """Average the predictions over demonstration lists and templates."""
    sets = validate_integer("sets", bench.options.sets, 1)
    templates = validate_integer("templates", bench.options.templates, 1, len(L9))
    _refuse_several_lists(one)
    if sets > 1 and not one.get_k():
        raise ArgumentError("got k = 0, expected at least 1: there are no demonstrations to vary. Use sets=1")
    if templates > 1 and isinstance(one.task, TemplateSensitivityTask):
        raise ArgumentError(f"{one.task.name} sets the template itself. Use templates=1")
    size = len(one.test_set())
    lists = sample_demonstrations(len(one.demonstration_set()), one.get_k(), size * sets)
    views = [_with_lists(one, lists[number * size : (number + 1) * size]) for number in range(sets)]
    if templates > 1:
        views = [with_template(view, levels) for levels in L9[:templates] for view in views]

    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        width = len(one.get_label_space())
        flat = [row for view in answers for row in view]
        read = apply_present(flat, lambda rows: read_probabilities(label_rows(rows, width, "prediction"), "auto")[0])
        size = len(answers[0])
        return [_mean_prediction(read[number::size]) for number in range(size)]

    return Prepared(views, bench.kernel, combine)


def _mean_prediction(members: Sequence[Any]) -> Answer | Failure:
    """Return the mean of the predictions that there are."""
    rows = [row for row in members if not isinstance(row, Failure)]
    return [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] if rows else members[0]


def _generate(bench: Workbench, one: Experimentor) -> Prepared:
    if one.prompt_former.settings.noisy_channel:
        raise ArgumentError("the noisy channel has no text to generate: got noisy_channel=True, expected False")
    return Prepared([one], GenerateThenParse(bench.kernel, bench.options))


_HIDDEN = frozenset({Capability.HIDDEN_STATES})

_VOCABULARY = frozenset({Capability.FULL_VOCABULARY})


def _calibration(name: str, title: str, make: Make, arguments: Arguments | None = None, **more: Any) -> MethodSpec:
    """Return the record of a calibration."""
    return MethodSpec(name, title, calibrated(make, arguments), **{"trains": True, **more})


def _one_prior(options: ContextOptions, variant: str) -> bool:
    return variant != "paper" or options.shared_contexts


def _any_rows(options: SampleOptions, variant: str) -> bool:
    return options.samples_per_label is None and (variant != "paper" or isinstance(options, AnchorOptions))


def _context_calibration(
    kind: type[ContextualCalibration | DomainCalibration], title: str, options: type[Any], arguments: Arguments | None
) -> MethodSpec:
    """Return the record of a calibration by texts after the query's own demonstrations."""
    shared = _calibration(kind.name, title, lambda bench, labels: kind(labels, variant=bench.variant), arguments)
    prepare = partial(_in_context, shared.prepare, kind.correct)
    return dataclasses.replace(shared, prepare=prepare, options=options, trains=_one_prior)


_SPECS = (
    MethodSpec("vanilla", "Vanilla", _vanilla, frozenset()),
    MethodSpec("noisy_channel", "Noisy channel", _noisy_channel, frozenset({Capability.NOISY_CHANNEL})),
    _context_calibration(ContextualCalibration, "Contextual calibration", ContextOptions, None),
    _context_calibration(
        DomainCalibration,
        "Domain calibration",
        DomainOptions,
        lambda bench, one: {"sample_length": bench.options.sample_length or 64},
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
    _calibration(
        "knn_prompt",
        "k-NN",
        lambda bench, labels: KNNPrompting(labels, bench.options.knn_k, variant=bench.variant),
        _per_label,
        requires=_VOCABULARY,
        trains=_any_rows,
        options=NeighbourOptions,
    ),
    _calibration(
        "knn_prompt_centroid",
        "k-NN (centroids)",
        lambda bench, labels: KNNPromptingCentroid(labels, variant=bench.variant),
        _per_label,
        requires=_VOCABULARY,
        trains=_any_rows,
        options=AnchorOptions,
    ),
    _calibration(
        "hidden_calibration",
        "Hidden calibration",
        lambda bench, labels: HiddenCalibration(labels, variant=bench.variant),
        _per_label,
        requires=_HIDDEN,
        trains=_any_rows,
        options=SampleOptions,
    ),
    _calibration(
        "temperature_scaling",
        "Temperature scaling",
        lambda bench, labels: TemperatureScaling(labels, variant=bench.variant),
    ),
    _calibration(
        "linear_calibration",
        "Linear calibration",
        lambda bench, labels: LinearCalibration(
            labels, bench.options.learning_rate, bench.options.epochs, variant=bench.variant
        ),
        options=LinearOptions,
    ),
    _calibration(
        "prototypical_calibration",
        "Prototypical calibration",
        lambda bench, labels: PrototypicalCalibration(labels, bench.options.restarts, variant=bench.variant),
        options=MixtureOptions,
    ),
    _calibration(
        "dc_pmi",
        "DC-PMI",
        lambda bench, labels: DomainPMI(labels, variant=bench.variant),
        lambda bench, one: {"premise": bench.options.premise},
        trains=False,
        options=PremiseOptions,
    ),
    MethodSpec("ensemble", "Ensemble", _ensemble, options=EnsembleOptions),
    MethodSpec("generate", "Generate then parse", _generate, frozenset({Capability.TEXT}), options=GenerationOptions),
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
