"""How a method asks and answers on one data set.

A method may do three things: change what is asked (instruction, demonstrations, several orders of them), ask through
another inference function (a calibrated kernel), and make the answers of several queries into one or correct them
together. :class:`Prepared` holds these three for one data set; its :meth:`~Prepared.run` is the same for all methods.

Methods work on copies of experimentors, so that the user's stay as they are (:func:`fresh`), and on a kernel that
remembers what it answered (:class:`RememberingKernel`): vanilla inference and three calibrations ask the same prompts.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from StaICC.benchmarks import Condition, DatasetRun, Experimentor
from StaICC.errors import ArgumentError
from StaICC.inference import Answer, Failure, Inference, Part, RunOptions, ask, batch_form
from StaICC.inference.contract import check_batch
from StaICC.prefabricate_inference.calibration_samples import Variant
from StaICC.prefabricate_inference.retrieval import TextEncoder
from StaICC.prompting import PromptWriter, Query

__all__ = ["Asked", "Combine", "MethodOptions", "Prepared", "RememberingKernel", "Workbench", "fresh"]

Asked = Sequence[Answer | Failure]
"""Answers to the queries of one view, in order."""

Combine = Callable[[Sequence[Condition], Sequence[Asked]], Asked]
"""Makes the answers of all views, given the conditions of the first, into one answer for each query of the first."""

_SHARED_SETTINGS = ("instruction", "input_text_prefixes", "label_prefix", "query_prefix", "label_space")


def fresh(one: Experimentor, noisy_channel: bool | None = None) -> Experimentor:
    """Copy an experimentor with everything its user set, so that changes to the copy change nothing else.

    Args:
        one: The experimentor.
        noisy_channel: Which channel the copy asks in; ``None`` for the same. In another channel the affixes are those
            of the benchmark, the rest of a changed template stays.

    Returns:
        The copy.
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


class RememberingKernel:
    """A kernel that answers each prompt once; everything else is the kernel's.

    Args:
        kernel: Any inference function.
        name: A name for its answers in a store; the kernel's own fingerprint by default.

    Attributes:
        spared: Seconds that the remembered answers took when they were computed, added up over all that were used.
    """

    def __init__(self, kernel: Inference, name: str | None = None) -> None:
        self.kernel = kernel
        self.name = name
        self.spared = 0.0
        self._known: dict[tuple[Any, tuple[str, ...]], tuple[Any, float]] = {}

    def __getattr__(self, name: str) -> Any:
        kernel = self.__dict__.get("kernel")
        if kernel is None or name.startswith("__"):
            raise AttributeError(name)
        if name == "batch" and batch_form(kernel) is not None:
            return self._batch
        return getattr(kernel, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def fingerprint(self) -> str:
        """What identifies the kernel's numbers."""
        from StaICC.inference.bound_store import fingerprint_of

        return fingerprint_of(self.kernel, self.name)

    def __call__(self, prompt: Any, label_space: Sequence[str]) -> Any:
        """Answer one prompt."""
        return self._answer(
            [prompt], label_space, lambda new: [self.kernel(prompt=new[0], label_space=list(label_space))]
        )[0]

    def _batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[Any]:
        form = batch_form(self.kernel)
        assert form is not None
        return self._answer(prompts, label_space, lambda new: check_batch(form(new, list(label_space)), len(new)))

    def _answer(
        self, prompts: Sequence[Any], label_space: Sequence[str], compute: Callable[[list[Any]], Sequence[Any]]
    ) -> list[Any]:
        labels = tuple(label_space)
        keys = [(prompt if isinstance(prompt, str) else tuple(prompt), labels) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        self.spared += math.fsum(self._known[key][1] for key in set(keys) if key not in new)
        began = time.monotonic()
        found = dict(zip(new, compute(list(new.values())), strict=True)) if new else {}
        share = (time.monotonic() - began) / max(1, len(new))
        self._known.update({key: (row, share) for key, row in found.items() if not isinstance(row, BaseException)})
        return [found[key] if key in found else self._known[key][0] for key in keys]


@dataclass(frozen=True, slots=True)
class MethodOptions:
    """What methods can be told beside variant and calibration number."""

    instructions: Sequence[str] | dict[str, Sequence[str]] | None = None
    """Candidate instructions of PPL-ICL, or some for each data set by name; the release's by default."""
    batch_size: int = 128
    """Predictions in a batch of batch calibration."""
    sample_length: int = 64
    """Words in a query of domain calibration."""
    knn_k: int = 3
    """Neighbours that vote in k-nearest-neighbour prompting."""
    demonstration_set_cut: int | None = None
    """TopK and SA-ICL choose from the first so many demonstrations; ``None``: all (0.1.1: 512)."""
    orders: int = 10
    """Orders that SA-ICL tries."""


@dataclass
class Workbench:
    """What a method may use."""

    kernel: RememberingKernel
    variant: Variant
    calibration_number: int
    options: MethodOptions
    trained: dict[str, Any] = field(default_factory=dict)
    """What was trained already, by what it was trained for; the parts of a group share it."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What methods of one run share."""

    @cached_property
    def encoder(self) -> TextEncoder:
        """Encodes texts by the kernel, each once, for all methods of one run."""
        if "encoder" not in self.shared:
            self.shared["encoder"] = TextEncoder(self.kernel)
        found: TextEncoder = self.shared["encoder"]
        return found

    def once(self, one: Experimentor, make: Callable[[], Any]) -> Any:
        """Train for an experimentor, or return what was trained for the same prompts before."""
        key = json.dumps([one.name, one.get_k(), one.prompt_former.get_config_dict()])
        if key not in self.trained:
            self.trained[key] = make()
        return self.trained[key]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A method made ready for one data set."""

    views: Sequence[Experimentor]
    """What is asked: one experimentor, or several that differ in their demonstrations. Results are the first one's."""
    inference: Inference
    """Through what."""
    combine: Combine | None = None
    """What is made of the answers; ``None`` takes them as they are."""
    training_prompts: int = 0
    """Texts that the model was given beforehand."""
    training_seconds: float = 0.0

    def run(self, options: RunOptions, part: Part) -> tuple[DatasetRun, int]:
        """Ask and score.

        Args:
            options: How to ask.
            part: Name and number of this data set within a larger run.

        Returns:
            Scores and details of the first view, and how many different prompts were asked.

        Raises:
            OutputError: A query has no usable answer.
        """
        conditions = [view.conditions() for view in self.views]
        queries = [[query for condition in some for query in condition.queries] for some in conditions]
        flat = [query for some in queries for query in some]
        answers = ask(self.inference, flat, part, options)
        each: list[Asked] = []
        start = 0
        for some in queries:
            each.append(answers[start : start + len(some)])
            start += len(some)
        if self.combine is None and len(each) != 1:
            raise ArgumentError("a method with several views must combine their answers")
        final = each[0] if self.combine is None else self.combine(conditions[0], each)
        return self.views[0].assemble(conditions[0], final, part.name), len({_key(query) for query in flat})


def _key(query: Query) -> tuple[Any, tuple[str, ...]]:
    return query.prompt, tuple(query.label_space)
