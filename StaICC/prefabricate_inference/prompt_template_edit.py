"""Selection of instructions or demonstrations with the call shapes of 0.1.1.

::

    PPL_ICL(model, tokenizer, None, experimentor)  # sets the instruction; then run the experimentor

    method = SA_ICL(model, tokenizer, experimentor)
    method.set_TopK_to_demonstration(4)  # TopK: then run the experimentor, or
    experimentor.auto_run(method.inference_interface, batched_inference=True)  # SA-ICL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.errors import ArgumentError
from StaICC.inference.identity import Identity, identity_of
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.methods import ppl_icl
from StaICC.methods.capabilities import check_capabilities
from StaICC.methods.contract import MethodData, Variant, check_variant
from StaICC.methods.kernel_functions import KernelFunction
from StaICC.methods.options import NoOptions
from StaICC.methods.prompt_views import clean_copy
from StaICC.methods.run import Method

CacheEmpty = Callable[[], Any] | None
"""Called without arguments when the model was run."""


def _kernel_of(model: Any, tokenizer: Any) -> Any:
    """Return the kernel of a model and its tokenizer; a kernel is returned unchanged."""
    if tokenizer is None or Capability.HIDDEN_STATES in capabilities_of(model):
        return model
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(model, tokenizer, label_mass=False)


def _with_k(experimentor: Experimentor, k: int) -> Experimentor:
    """Set the number of demonstrations, unless it is this one: that would redraw them."""
    if experimentor.get_k() != k:
        experimentor.set_k(k)
    return experimentor


def PPL_ICL(
    model: Any,
    tokenizer: Any,
    instruction_set: Sequence[str] | None = None,
    experimentor: Experimentor | None = None,
    cache_empty: CacheEmpty = None,
    *,
    variant: str = "paper",
    calibration_number: int = 128,
) -> str:
    """Set the instruction with the lowest perplexity as the experimentor's.

    ``variant="paper"``: the perplexity of the full prompt (instruction and input, without demonstrations and label),
    averaged over ``calibration_number`` rows of the calibration set, one prompt each per instruction.
    ``variant="0.1.1"``: the perplexity of the instruction alone; budget: one text for each.

    Args:
        model: A causal language model of ``transformers``, or a kernel with ``losses``.
        tokenizer: Its tokenizer (``None`` for a kernel).
        instruction_set: The candidates; those of the release for the experimentor's data set by default.
        experimentor: Gets the instruction. Without one (``"0.1.1"``) it is only returned.
        cache_empty: Called without arguments when the model was run.
        variant: ``"paper"`` or ``"0.1.1"``.
        calibration_number: How many rows of the calibration set.

    Returns:
        The instruction.

    Raises:
        ArgumentError: There are no candidates, or the model gives no losses.
        OutputError: A loss is not finite.
    """
    if instruction_set is None:
        if experimentor is None:
            raise ArgumentError("PPL-ICL: got neither instruction_set nor experimentor, expected one of them")
        instruction_set = ppl_icl.instructions_for(experimentor.name)
    kernel, candidates = _kernel_of(model, tokenizer), ppl_icl.check_instructions(instruction_set)
    check_capabilities("PPL-ICL", kernel, frozenset({Capability.LOSSES}))
    texts = _texts_of_instructions(candidates, experimentor, check_variant(variant), calibration_number)
    losses = kernel.losses(texts)
    chosen = candidates[ppl_icl.least_perplexity(losses, len(candidates))]
    if cache_empty is not None:
        cache_empty()
    if experimentor is not None:
        experimentor.prompt_former.change_instruction(chosen)
    return chosen


def _texts_of_instructions(
    candidates: Sequence[str], experimentor: Experimentor | None, variant: Variant, calibration_number: int
) -> list[str]:
    """Return the texts whose perplexity decides, candidate by candidate, equally many for each."""
    if variant == "0.1.1":
        return list(candidates)
    if experimentor is None:
        raise ArgumentError("PPL-ICL: experimentor is missing; its prompts are needed to compare instructions")
    data = MethodData(experimentor.without_labels(), variant, calibration_number, NoOptions())
    texts: list[str] = []
    for instruction in candidates:
        texts += ppl_icl.prompts_with_instruction(data, instruction)
    return texts


@dataclass(eq=False)
class _CalibratedInDetail(KernelFunction):
    """A kernel whose predictions are what a function makes of label probabilities, logits and hidden state."""

    kernel: Any
    calibrate: Callable[..., list[float]]

    def added_identity(self) -> tuple[str, Identity]:
        """Return the identity of the function."""
        return "calibration", identity_of(self.calibrate)

    def hidden_states(self, prompts: Sequence[str]) -> Any:
        """Return those of the kernel."""
        return self.kernel.hidden_states(prompts)

    def batch(self, prompts: Sequence[Any], label_space: Sequence[str]) -> Any:
        """Return the calibrated prediction for each prompt."""
        return [
            self.calibrate(*detail) for detail in zip(*self.kernel.score_in_detail(prompts, label_space), strict=True)
        ]


class SA_ICL:
    """TopK (Liu et al. 2022) and SA-ICL (Wu et al. 2023, "Self-Adaptive In-Context Learning").

    TopK gives each query the demonstrations whose encodings are nearest, nearest first. SA-ICL tries several orders of
    them and keeps the prediction of the lowest entropy (its minimum description length). It predicts all queries of the
    experimentor in its first call; make a new object after a change of the model or of the experimentor.

    ``variant="paper"``: all demonstrations; orders at random. ``variant="0.1.1"``: the first 512 demonstrations; the
    first ten orders in lexicographic order, its own entropy (:func:`~StaICC.metrics.released.entropy`).

    Args:
        model: A causal language model of ``transformers``, or a kernel with ``hidden_states`` and ``batch``.
        tokenizer: Its tokenizer (``None`` for a kernel).
        experimentor: Whose queries get demonstrations.
        cache_empty: Called without arguments when the model was run.
        calibrate_function: Called with (label probabilities, logits, hidden state) of each prediction.
        demonstration_set_cut: Choose from this many first demonstrations only.
        variant: ``"paper"`` or ``"0.1.1"``.

    Raises:
        ArgumentError: There is no experimentor, or the kernel has no hidden states.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        experimentor: Experimentor | None = None,
        cache_empty: CacheEmpty = None,
        calibrate_function: Callable[..., list[float]] | None = None,
        demonstration_set_cut: int | None = None,
        *,
        variant: str = "paper",
    ) -> None:
        if experimentor is None:
            raise ArgumentError("experimentor is missing: its queries get the demonstrations")
        self.experimentor, self.cache_empty = experimentor, cache_empty or (lambda: None)
        self.kernel = _kernel_of(model, tokenizer)
        self._settings: dict[str, Any] = {"variant": variant, "demonstration_set_cut": demonstration_set_cut}
        self._method("topk")  # refuses a kernel without hidden states
        if calibrate_function is not None:
            self.kernel = _CalibratedInDetail(self.kernel, calibrate_function)
        self._predicted: dict[tuple[int, ...], list[Any]] = {}
        self._rows: dict[Any, int] = {}

    def _method(self, name: str, **options: Any) -> Method:
        return Method(name, self.kernel, **self._settings, **options)

    def neighbours(self, rows: Sequence[int], count: int) -> list[list[int]]:
        """Return the demonstrations nearest to test rows.

        Args:
            rows: Positions of the test set, within the experimentor's limit.
            count: How many.

        Returns:
            For each row, positions of the demonstration set, nearest first.
        """
        lists = self._method("topk").prepare(_with_k(clean_copy(self.experimentor), count)).demonstration_lists()
        self.cache_empty()
        return [list(lists[row]) for row in rows]

    def set_TopK_to_demonstration(self, k: int) -> None:
        """Give each query of the experimentor its ``k`` nearest demonstrations; each is used once then.

        Args:
            k: How many; the experimentor's ``k`` becomes this.

        Raises:
            ArgumentError: ``k`` is no whole number of at least 1, or there are fewer demonstrations.
        """
        k = validate_integer("k, the number of nearest demonstrations,", k, 1)
        lists = self.neighbours(range(len(self.experimentor.test_set())), k)
        _with_k(self.experimentor, k).set_demonstration_sampler(lists)

    def inference_interface(
        self,
        prompt: Sequence[str] | str,
        label_space: Sequence[str],
        nearest_k: int = 5,
        inference_demos_number: int = 4,
        return_length: int = 10,
    ) -> Any:
        """SA-ICL as an inference function for the experimentor's own prompts, batched or one by one.

        A prompt only says which query it is; its demonstrations are replaced.

        Args:
            prompt: Prompts of the experimentor (``batched_inference=True``), or one.
            label_space: The labels of the experimentor.
            nearest_k: How many near demonstrations are considered.
            inference_demos_number: How many of them a prompt has.
            return_length: How many orders are tried.

        Returns:
            A list of probabilities for each prompt, or for the one.

        Raises:
            ArgumentError: A number is unfit, or a prompt is not one of the experimentor's.
        """
        k = validate_integer("inference_demos_number", inference_demos_number, 1)
        settings = k, validate_integer("nearest_k", nearest_k, k), validate_integer("return_length", return_length, 1)
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        rows = self._rows
        if not rows.keys() >= {*prompts}:  # writing all prompts for each single one would take long
            rows |= {query.prompt: query.row for query in self.experimentor.all_queries()}
        for number, text in enumerate(prompts):
            if text not in rows:
                raise ArgumentError(
                    f"prompt {number} is none of the experimentor's: got {text!r:.80}, expected one of its prompt_set()"
                )
        if settings not in self._predicted:
            method = self._method("sa_icl", candidates=settings[1], orders=settings[2])
            own = _with_k(clean_copy(self.experimentor), k)
            self._predicted[settings] = list(method.predict(own).rows)
            self.cache_empty()
        predictions = [self._predicted[settings][rows[text]] for text in prompts]
        return predictions[0] if isinstance(prompt, str) else predictions
