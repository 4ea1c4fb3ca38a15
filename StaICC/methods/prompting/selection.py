"""Methods that choose the instruction (PPL-ICL), the demonstrations (TopK) or their order (SA-ICL) of a prompt.

:func:`ppl_icl` sets the instruction of the experimentor, :meth:`SelfAdaptiveICL.set_TopK_to_demonstration` its
demonstrations. They change nothing else; the release also truncates the user's demonstration set.

The call shapes are those of 0.1.1, which names them ``PPL_ICL`` and ``SA_ICL``::

    ppl_icl(model, tokenizer, None, experimentor)                   # then run the experimentor

    method = SelfAdaptiveICL(model, tokenizer, experimentor)
    method.set_TopK_to_demonstration(4)                             # TopK: then run the experimentor, or
    experimentor.auto_run(method.inference_interface, batched_inference=True)  # SA-ICL
"""

from __future__ import annotations

import copy
import json
import math
import pkgutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from StaICC.benchmarks import Experimentor
from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.kernels.protocol import Capability, capabilities_of
from StaICC.methods.calibration.samples import Variant, check_variant
from StaICC.methods.features import AT_ONCE, ask_model, check_answered, check_capabilities
from StaICC.methods.prompting.retrieval import (
    RELEASED_CUT,
    TextEncoder,
    nearest_demonstrations,
    order_patterns,
)
from StaICC.metrics import released
from StaICC.prompting import StableRandom, TemplateWarning

CacheEmpty = Callable[[], Any] | None


def _kernel(model: Any, tokenizer: Any) -> Any:
    if tokenizer is None or Capability.HIDDEN_STATES in capabilities_of(model):
        return model
    from StaICC.kernels.huggingface.kernel import CausalLMKernel

    return CausalLMKernel(model, tokenizer, label_mass=False)


# -- PPL-ICL


@lru_cache(maxsize=1)
def _instructions() -> Mapping[str, list[str]]:
    data = pkgutil.get_data(__package__, "instructions.json")
    assert data is not None
    found: Mapping[str, list[str]] = json.loads(data)
    return found


def instructions_for(name: str) -> list[str]:
    """Return the candidate instructions of a data set: the five of the release, for ``mini`` five of ours.

    Args:
        name: The data set.

    Raises:
        ArgumentError: There are none for it.

    Example:
        >>> instructions_for("TREC")[0]
        'What is the topic of the question? '
    """
    if name not in _instructions():
        raise ArgumentError(
            f"no candidate instructions for {name!r}. Give a list of texts: the option instructions of the method "
            '(--method-option \'instructions=["...", "..."]\'), or the argument instruction_set of ppl_icl'
        )
    return list(_instructions()[name])


def _mean_perplexity(losses: Sequence[float]) -> float:
    """Logarithm of the mean of the exponentials."""
    if not all(math.isfinite(loss) for loss in losses):
        raise OutputError(f"the model's losses {list(losses)[:5]} are not finite; use a wider number type")
    top = max(losses)
    return top + math.log(math.fsum(math.exp(loss - top) for loss in losses) / len(losses))


def choose_instruction(
    kernel: Any,
    instructions: Sequence[str],
    experimentor: Experimentor | None,
    variant: str = "paper",
    calibration_number: int = 128,
) -> tuple[str, int]:
    """Choose the instruction with the lowest perplexity (see :func:`ppl_icl`), and change nothing.

    Args:
        kernel: A kernel with ``losses(texts)``.
        instructions: The candidates.
        experimentor: Its prompt writer and calibration set; not needed for ``"0.1.1"``.
        variant: ``"paper"`` or ``"0.1.1"``.
        calibration_number: How many rows of the calibration set each instruction is tried on (``"paper"``).

    Returns:
        The instruction, the first of equals, and how many texts were scored.

    Raises:
        ArgumentError: There are no candidates, the kernel has no losses, or no experimentor was given (``"paper"``).
        OutputError: A loss is not finite.
    """
    if isinstance(instructions, str) or not instructions or not all(isinstance(text, str) for text in instructions):
        raise ArgumentError(f"instruction_set must be a list of texts, not {instructions!r}")
    check_capabilities("PPL-ICL", kernel, frozenset({Capability.LOSSES}))
    if check_variant(variant) == "0.1.1":
        texts = [[instruction] for instruction in instructions]
    elif experimentor is None:
        raise ArgumentError("PPL-ICL: experimentor is missing; its prompts are needed to compare instructions")
    else:
        texts = [_tried(experimentor, instruction, calibration_number) for instruction in instructions]
    losses = check_answered(kernel.losses([text for some in texts for text in some]), "instruction prompt")
    size = len(texts[0])
    scores = [_mean_perplexity(losses[start : start + size]) for start in range(0, len(losses), size)]
    return instructions[scores.index(min(scores))], len(losses)


def _tried(experimentor: Experimentor, instruction: str, number: int) -> list[str]:
    """Prompts without demonstrations about rows of the calibration set, with an instruction."""
    rows = experimentor.calibration_set()
    writer = copy.copy(experimentor.prompt_former)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)
        writer.change_instruction(instruction)
    count = min(validate_integer("calibration_number", number, 1), len(rows))
    if not count:
        raise ArgumentError("the calibration set is empty")
    prompts = [
        writer.write_prompt_from_dataline([], rows[index][0])
        for index in StableRandom().sample_indexes(len(rows), count)
    ]
    return [text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)]


def ppl_icl(
    model: Any,
    tokenizer: Any,
    instruction_set: Sequence[str] | None = None,
    experimentor: Experimentor | None = None,
    cache_empty: CacheEmpty = None,
    *,
    variant: str = "paper",
    calibration_number: int = 128,
) -> str:
    """PPL-ICL (Gonen et al. 2023, "Demystifying Prompts in Language Models via Perplexity Estimation").

    Of several instructions the one with the lowest perplexity is set as the experimentor's.

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
        instruction_set = instructions_for(experimentor.name)
    chosen, _ = choose_instruction(
        _kernel(model, tokenizer), instruction_set, experimentor, variant, calibration_number
    )
    if cache_empty is not None:
        cache_empty()
    if experimentor is not None:
        experimentor.prompt_former.change_instruction(chosen)
    return chosen


# -- TopK and SA-ICL


class _First:
    """The first rows of a set."""

    def __init__(self, rows: Any, count: int) -> None:
        self._rows, self._count = rows, min(count, len(rows))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return self._rows[index]


def first_demonstrations(experimentor: Experimentor, variant: Variant, cut: int | None = None) -> Any:
    """Return the demonstrations to choose from: all, or the first ``cut`` (0.1.1: 512)."""
    rows = experimentor.demonstration_set()
    if cut is None and variant == "0.1.1":
        cut = RELEASED_CUT
    return rows if cut is None else _First(rows, validate_integer("demonstration_set_cut", cut, 1))


def lowest_entropy(rows: Sequence[Sequence[float]], variant: str = "paper") -> int:
    """Return the position of the distribution with the lowest entropy, the first of equals.

    Args:
        rows: Distributions over the labels.
        variant: ``"0.1.1"`` takes the release's entropy: that of the softmax where a row, added from left to right,
            misses 1.0 by an ulp. Which rows do is a matter of the last bit, so its choice does not survive another
            order of additions inside the model.

    Example:
        >>> lowest_entropy([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
        1
    """
    entropy = released.entropy if check_variant(variant) == "0.1.1" else _entropy
    entropies = [entropy(row) for row in rows]
    return entropies.index(min(entropies))


def _entropy(row: Sequence[float]) -> float:
    return -math.fsum(value * math.log(value) for value in row if value > 0)


class SelfAdaptiveICL:
    """TopK (Liu et al. 2022) and SA-ICL (Wu et al. 2023, "Self-Adaptive In-Context Learning").

    TopK gives each query the demonstrations whose encodings are nearest, nearest first. SA-ICL tries several orders of
    them and keeps the prediction of the lowest entropy (its minimum description length).

    Budget: one encoding for each demonstration and query; SA-ICL asks ``return_length`` prompts for each query. Needs
    hidden states and label probabilities.

    ``variant="paper"``: all demonstrations; orders at random. ``variant="0.1.1"``: the first 512 demonstrations; the
    first ten orders in lexicographic order, its own entropy (:func:`lowest_entropy`).

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
        self.variant = check_variant(variant)
        self.experimentor = experimentor
        self.kernel = _kernel(model, tokenizer)
        self.encoder = TextEncoder(self.kernel)
        self.cache_empty = cache_empty
        self.calibrate_function = calibrate_function
        self.demonstration_set = first_demonstrations(experimentor, self.variant, demonstration_set_cut)

    def neighbours(self, rows: Sequence[int], count: int) -> list[list[int]]:
        """Return the demonstrations nearest to test rows.

        Args:
            rows: Positions of the test set.
            count: How many.

        Returns:
            For each row, positions of the demonstration set, nearest first.
        """
        test = self.experimentor.test_set()
        texts = [test.get_input_text(row) for row in rows]
        found = nearest_demonstrations(self.encoder, self.demonstration_set, texts, count, self.variant)
        if self.cache_empty is not None:
            self.cache_empty()
        return found

    def set_TopK_to_demonstration(self, k: int) -> None:
        """Give each query of the experimentor its ``k`` nearest demonstrations; each is asked once then.

        Args:
            k: How many; the experimentor's ``k`` becomes this.

        Raises:
            ArgumentError: ``k`` is no whole number of at least 1, or there are fewer demonstrations.
        """
        validate_integer("k, the number of nearest demonstrations,", k, 1)
        found = self.neighbours(range(len(self.experimentor.test_set())), k)
        if self.experimentor.get_k() != k:
            self.experimentor.set_k(k)
        self.experimentor.set_demonstration_sampler(found)

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
            label_space: The labels.
            nearest_k: How many near demonstrations are considered.
            inference_demos_number: How many of them a prompt has.
            return_length: How many orders are tried.

        Returns:
            A list of probabilities for each prompt, or for the one.

        Raises:
            ArgumentError: A number is unfit, or a prompt is not one of the experimentor's.
        """
        k = validate_integer("inference_demos_number", inference_demos_number, 1)
        validate_integer("nearest_k", nearest_k, k)
        validate_integer("return_length", return_length, 1)
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        places = {query.prompt: query.row for query in self.experimentor.all_queries()}
        for number, text in enumerate(prompts):
            if text not in places:
                raise ArgumentError(
                    f"prompt {number} is none of the experimentor's ({text!r:.80}); SA-ICL answers the prompts of the "
                    "experimentor that it was made with"
                )
        rows = sorted({places[text] for text in prompts})
        patterns = order_patterns(len(self.experimentor.test_set()), nearest_k, k, return_length, self.variant)
        orders = {
            row: [[near[place] for place in order] for order in patterns[row]]
            for row, near in zip(rows, self.neighbours(rows, nearest_k), strict=True)
        }
        answers = self._answers(orders, label_space)
        found = [answers[places[text]] for text in prompts]
        return found[0] if isinstance(prompt, str) else found

    def _answers(
        self, orders: Mapping[int, Sequence[Sequence[int]]], label_space: Sequence[str]
    ) -> dict[int, list[float]]:
        """Return the prediction with the lowest entropy over all orders, for each row."""
        writer = self.experimentor.prompt_former
        prompts = [writer.write_prompt(order, row) for row, some in orders.items() for order in some]
        asked = iter(self._ask(prompts, label_space))
        found = {}
        for row, some in orders.items():
            candidates = [next(asked) for _ in some]
            found[row] = candidates[lowest_entropy(candidates, self.variant)]
        if self.cache_empty is not None:
            self.cache_empty()
        return found

    def _ask(self, prompts: Sequence[Any], label_space: Sequence[str]) -> list[list[float]]:
        if self.calibrate_function is None:
            return check_answered(ask_model(self.kernel, prompts, label_space), "prompt")
        rows: list[list[float]] = []
        for start in range(0, len(prompts), AT_ONCE):
            details = self.kernel.score_in_detail(prompts[start : start + AT_ONCE], label_space)
            rows += [self.calibrate_function(*detail) for detail in zip(*details, strict=True)]
        return rows
