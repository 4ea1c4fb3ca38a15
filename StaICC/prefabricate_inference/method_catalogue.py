"""The methods, one function each: how it is made ready for one data set, and the record that names it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from StaICC.benchmarks import Condition, Experimentor
from StaICC.benchmarks.sensitivity import DemonstrationSensitivityTask
from StaICC.errors import ArgumentError, OutputError
from StaICC.inference import Answer, Failure
from StaICC.prefabricate_inference.calibration import CalibratedKernel, Calibration
from StaICC.prefabricate_inference.calibration_samples import check_whole
from StaICC.prefabricate_inference.features import kernel_name
from StaICC.prefabricate_inference.method_plan import Asked, Prepared, Workbench, fresh
from StaICC.prefabricate_inference.prompt_template_edit import (
    choose_instruction,
    first_demonstrations,
    instructions_for,
    lowest_entropy,
)
from StaICC.prefabricate_inference.retrieval import nearest_demonstrations, order_patterns
from StaICC.prefabricate_inference.standard_calibration import (
    ContextualCalibration,
    DomainCalibration,
    HiddenCalibration,
    KNNPrompting,
    KNNPromptingCentroid,
    batch_calibration,
)
from StaICC.prompting import TemplateWarning

__all__ = ["METHODS", "TABLE_2", "MethodSpec", "calibrated"]


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """A method: what it is called, what it needs, and how it is made ready."""

    name: str
    title: str
    """As in Table 2."""
    prepare: Callable[[Workbench, Experimentor], Prepared]
    """Makes it ready for a data set. The experimentor is a copy of the user's, to be changed at will."""
    needs: str = "label probabilities"
    """What it needs of the kernel, in words."""
    trains: bool = False
    """Whether ``calibration_number`` moves its figures."""
    reads: tuple[str, ...] | None = None
    """The options that move its figures, for the signature; ``None``: any of them may."""


# -- one function for each method


def _vanilla(bench: Workbench, one: Experimentor) -> Prepared:
    return Prepared([one], bench.kernel)


class _NoisyChannel:
    """A kernel asked for the text given the label, in one of the two variants."""

    def __init__(self, kernel: Any, variant: str) -> None:
        self.kernel, self.variant = kernel, variant

    @property
    def fingerprint(self) -> str:
        return f"{self.kernel.fingerprint}|noisy-channel:{self.variant}"

    def __call__(self, prompt: Sequence[str], label_space: Sequence[str]) -> Any:
        return self.batch([prompt], label_space)[0]

    def batch(self, prompts: Sequence[Sequence[str]], label_space: Sequence[str]) -> Any:
        return self.kernel.noisy_channel(prompts, label_space, self.variant)


def _noisy_channel(bench: Workbench, one: Experimentor) -> Prepared:
    noisy = fresh(one, noisy_channel=True)
    if callable(getattr(bench.kernel, "noisy_channel", None)):
        return Prepared([noisy], _NoisyChannel(bench.kernel, bench.variant))
    if bench.variant != "paper":
        raise ArgumentError(
            f"{kernel_name(bench.kernel)} has one noisy channel of its own and cannot compute the release's"
        )
    return Prepared([noisy], bench.kernel)


def calibrated(make: Callable[[Workbench, Sequence[str]], Calibration], **more: str) -> Any:
    """Make the ``prepare`` function of a method that is a calibration.

    Args:
        make: Makes the untrained calibration from workbench and label space.
        **more: Arguments of ``train`` beside the usual ones, as names of :class:`MethodOptions`.

    Returns:
        A function for :class:`MethodSpec`.
    """
    return partial(_calibrated, make, more)


def _calibrated(
    make: Callable[[Workbench, Sequence[str]], Calibration],
    more: Mapping[str, str],
    bench: Workbench,
    one: Experimentor,
) -> Prepared:
    def trained() -> tuple[Calibration, float]:
        began = time.monotonic()
        calibration = make(bench, one.get_label_space())
        calibration.train(
            one.prompt_former.write_prompt_from_dataline,
            bench.kernel,
            one.calibration_set(),
            calibration_number=bench.calibration_number,
            k=one.get_k(),
            **{argument: getattr(bench.options, option) for argument, option in more.items()},
        )
        return calibration, time.monotonic() - began

    calibration, seconds = bench.once(one, trained)
    joined = CalibratedKernel(bench.kernel, calibration)
    return Prepared([one], joined, None, calibration.training_prompts, seconds)


def _batch_calibration(bench: Workbench, one: Experimentor) -> Prepared:
    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        found: list[Answer | Failure] = []
        for condition in conditions:
            some = answers[0][len(found) : len(found) + len(condition.queries)]
            rows: list[Any] = [answer for answer in some if not isinstance(answer, Failure)]
            done = iter(batch_calibration(rows, bench.options.batch_size, variant=bench.variant))
            found += [answer if isinstance(answer, Failure) else next(done) for answer in some]
        return found

    return Prepared([one], bench.kernel, combine)


def _ppl_icl(bench: Workbench, one: Experimentor) -> Prepared:
    given = bench.options.instructions
    if isinstance(given, Mapping):
        given = given.get(one.name)
    candidates = instructions_for(one.name) if given is None else given
    number = bench.calibration_number

    def chosen() -> tuple[str, int, float]:
        began = time.monotonic()
        instruction, asked = choose_instruction(bench.kernel, candidates, one, bench.variant, number)
        return instruction, asked, time.monotonic() - began

    instruction, asked, seconds = bench.once(one, chosen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)  # the signature says that the template was changed
        one.prompt_former.change_instruction(instruction)
    for query in one.all_queries():
        if not (query.prompt if isinstance(query.prompt, str) else query.prompt[0]).startswith(instruction):
            raise ArgumentError(f"{one.task.name} sets the instruction itself, so the chosen one would not be asked")
    return Prepared([one], bench.kernel, None, asked, seconds)


@dataclass(frozen=True, slots=True)
class _Near:
    """The nearest demonstrations of every test row that is asked."""

    lists: list[list[int]]
    texts: int
    """Different texts that had to be encoded."""
    seconds: float


def _near(bench: Workbench, one: Experimentor, count: int) -> _Near:
    if not one.get_k():
        raise ArgumentError("k = 0 leaves no demonstrations to choose; use a benchmark with k of at least 1")
    if isinstance(one.task, DemonstrationSensitivityTask):
        raise ArgumentError(f"{one.task.name} asks with several demonstration lists, and this fixes one for each query")
    pool = first_demonstrations(one, bench.variant, bench.options.demonstration_set_cut)
    test = one.test_set()
    asked = len(test) if one.limit is None else min(one.limit, len(test))
    queries = [test.get_input_text(row) for row in range(asked)]
    encoder = bench.encoder
    found = nearest_demonstrations(encoder, pool, queries, count)
    texts = {" ".join(query) for query in queries} | {" ".join(pool[place][0]) for place in range(len(pool))}
    return _Near(found, len(texts - {""}), encoder.seconds(texts))


def _with_lists(one: Experimentor, lists: Sequence[Sequence[int]]) -> Experimentor:
    """Copy an experimentor with other demonstrations; rows past its limit are not asked and get any."""
    made = fresh(one)
    k = one.get_k()
    beyond = [list(range(k))] * (len(one.test_set()) - len(lists))
    made.set_demonstration_sampler([*map(list, lists), *beyond])
    return made


def _topk(bench: Workbench, one: Experimentor) -> Prepared:
    near = _near(bench, one, one.get_k())
    return Prepared([_with_lists(one, near.lists)], bench.kernel, None, near.texts, near.seconds)


def _sa_icl(bench: Workbench, one: Experimentor) -> Prepared:
    k, number = one.get_k(), check_whole("orders", bench.options.orders, 1)
    near = _near(bench, one, k + 1)  # 5 for 4, as released
    patterns = order_patterns(len(near.lists), k + 1, k, number, bench.variant)
    views = [
        _with_lists(
            one,
            [[row[place] for place in orders[order]] for row, orders in zip(near.lists, patterns, strict=True)],
        )
        for order in range(len(patterns[0]))
    ]

    def combine(conditions: Sequence[Condition], answers: Sequence[Asked]) -> Asked:
        return [_surest(candidates, bench.variant) for candidates in zip(*answers, strict=True)]

    return Prepared(views, bench.kernel, combine, near.texts, near.seconds)


def _surest(candidates: Sequence[Answer | Failure], variant: str) -> Answer | Failure:
    rows = [answer for answer in candidates if not isinstance(answer, Failure)]
    if not rows:
        return candidates[0]
    listed = [row for row in rows if isinstance(row, list)]
    if len(listed) != len(rows):
        raise OutputError("SA-ICL compares entropies, and the kernel answers with labels; it must give probabilities")
    return listed[lowest_entropy(listed, variant)]


METHODS: Mapping[str, MethodSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            MethodSpec("vanilla", "Vanilla", _vanilla, "any answer", reads=()),
            MethodSpec(
                "noisy_channel", "Noisy channel", _noisy_channel, "probabilities of texts given labels", reads=()
            ),
            MethodSpec(
                "contextual_calibration",
                "Contextual calibration",
                calibrated(lambda bench, labels: ContextualCalibration(labels, variant=bench.variant)),
                trains=True,
                reads=(),
            ),
            MethodSpec(
                "domain_calibration",
                "Domain calibration",
                calibrated(
                    lambda bench, labels: DomainCalibration(labels, variant=bench.variant),
                    sample_length="sample_length",
                ),
                trains=True,
                reads=("sample_length",),
            ),
            MethodSpec("batch_calibration", "Batch calibration", _batch_calibration, reads=("batch_size",)),
            MethodSpec("ppl_icl", "PPL-ICL", _ppl_icl, "losses of texts", trains=True, reads=("instructions",)),
            MethodSpec("topk", "TopK", _topk, "hidden states", reads=("demonstration_set_cut",)),
            MethodSpec(
                "sa_icl",
                "SA-ICL",
                _sa_icl,
                "hidden states, label probabilities",
                reads=("demonstration_set_cut", "orders"),
            ),
            MethodSpec(
                "knn_prompt",
                "k-NN",
                calibrated(lambda bench, labels: KNNPrompting(labels, bench.options.knn_k, variant=bench.variant)),
                "logits of the whole vocabulary",
                trains=True,
                reads=("knn_k",),
            ),
            MethodSpec(
                "knn_prompt_centroid",
                "k-NN (centroids)",
                calibrated(lambda bench, labels: KNNPromptingCentroid(labels, variant=bench.variant)),
                "logits of the whole vocabulary",
                trains=True,
                reads=(),
            ),
            MethodSpec(
                "hidden_calibration",
                "Hidden calibration",
                calibrated(lambda bench, labels: HiddenCalibration(labels, variant=bench.variant)),
                "hidden states",
                trains=True,
                reads=(),
            ),
        )
    }
)
"""All methods by name."""

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
"""The methods of Table 2, in its order. Its k-NN is ``knn_prompt_centroid`` of ``variant="0.1.1"``."""
