"""PPL-ICL (Gonen et al. 2023, "Demystifying Prompts in Language Models via Perplexity Estimation").

:func:`ppl_icl` has the call shape of 0.1.1, which names it ``PPL_ICL``::

    ppl_icl(model, tokenizer, None, experimentor)  # then run the experimentor
"""

from __future__ import annotations

import json
import math
import pkgutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from StaICC.benchmarks import Experimentor
from StaICC.errors import ArgumentError, OutputError, validate_integer
from StaICC.kernels.protocol import Capability
from StaICC.methods.features import CacheEmpty, check_answered, check_capabilities, model_kernel
from StaICC.methods.specification import MethodData, MethodSpec, Steps, check_variant, fresh, option
from StaICC.prompting import StableRandom, TemplateWarning

LOSSES = frozenset({Capability.LOSSES})


@dataclass(frozen=True, slots=True)
class InstructionOptions:
    """Options of PPL-ICL."""

    instructions: Sequence[str] | Mapping[str, Sequence[str]] | None = option(
        None, "Candidate instructions, or lists of them by data set; none: those of the release."
    )


def choose_instruction(data: MethodData) -> Steps:
    """Set the instruction whose prompts have the lowest mean perplexity."""
    experimentor, given = data.experimentor, data.options.instructions
    if isinstance(given, Mapping):
        given = given.get(experimentor.name)
    candidates = check_instructions(instructions_for(experimentor.name) if given is None else given)
    conditions = _with_instruction(experimentor, candidates[0]).conditions()
    for prompt in (condition.queries[0].prompt for condition in conditions if condition.queries):
        if not (prompt if isinstance(prompt, str) else prompt[0]).startswith(candidates[0]):
            raise ArgumentError(f"{experimentor.task.name} sets the instruction itself, so PPL-ICL cannot choose it")
    tried = instruction_prompts(candidates, experimentor, data.variant, data.calibration_number)
    (losses,) = yield [data.training("losses", [text for texts in tried for text in texts])]
    data.experimentor = _with_instruction(experimentor, candidates[least_perplexity(losses, len(tried))])
    (rows,) = yield [data.queries()]
    return rows


PPL_ICL = MethodSpec(
    "ppl_icl",
    "PPL-ICL",
    choose_instruction,
    requires=LOSSES,
    trains=lambda options, variant: variant != "0.1.1",
    options=InstructionOptions,
)


def _with_instruction(experimentor: Experimentor, instruction: str) -> Experimentor:
    changed = fresh(experimentor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemplateWarning)  # the signature says that the template was changed
        changed.prompt_former.change_instruction(instruction)
    return changed


@lru_cache(maxsize=1)
def _instructions() -> Mapping[str, list[str]]:
    data = pkgutil.get_data(__package__, "instructions.json")
    assert data is not None
    instructions: Mapping[str, list[str]] = json.loads(data)
    return instructions


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


def check_instructions(instructions: Any) -> list[str]:
    """Return the candidate instructions; refuse what is no list of texts."""
    if isinstance(instructions, str) or not instructions or not all(isinstance(text, str) for text in instructions):
        raise ArgumentError(f"instruction_set must be a list of texts, not {instructions!r}")
    return list(instructions)


def least_perplexity(losses: Sequence[Any], candidates: int) -> int:
    """Return the candidate, the first of equals, whose texts have the lowest mean perplexity.

    Args:
        losses: The mean loss of each text, candidate by candidate.
        candidates: How many candidates.

    Raises:
        OutputError: A loss is missing or not finite.
    """
    losses = check_answered(losses, "instruction prompt")
    if not all(math.isfinite(loss) for loss in losses):
        raise OutputError(f"the model's losses {losses[:5]} are not finite; use a wider number type")
    size = len(losses) // candidates
    scores = [_mean_perplexity(losses[start : start + size]) for start in range(0, len(losses), size)]
    return scores.index(min(scores))


def _mean_perplexity(losses: Sequence[float]) -> float:
    """Return the logarithm of the mean of the exponentials."""
    top = max(losses)
    return top + math.log(math.fsum(math.exp(loss - top) for loss in losses) / len(losses))


def instruction_prompts(
    instructions: Sequence[str], experimentor: Experimentor | None, variant: str, number: int
) -> list[list[str]]:
    """Return the texts whose perplexity decides about each instruction; see :func:`ppl_icl`.

    Args:
        instructions: The candidates.
        experimentor: Its prompt writer and calibration set; not needed for ``"0.1.1"``.
        variant: ``"paper"`` or ``"0.1.1"``.
        number: How many rows of the calibration set each instruction is tried on (``"paper"``).

    Raises:
        ArgumentError: No experimentor was given (``"paper"``), or its calibration set is empty.
    """
    if check_variant(variant) == "0.1.1":
        return [[instruction] for instruction in instructions]
    if experimentor is None:
        raise ArgumentError("PPL-ICL: experimentor is missing; its prompts are needed to compare instructions")
    rows = experimentor.calibration_set()
    count = min(validate_integer("calibration_number", number, 1), len(rows))
    if not count:
        raise ArgumentError("the calibration set is empty")
    indexes = StableRandom().sample_indexes(len(rows), count)
    tried = []
    for instruction in instructions:
        write = _with_instruction(experimentor, instruction).prompt_former.write_prompt_from_dataline
        prompts = [write([], rows[index][0]) for index in indexes]
        tried.append([text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)])
    return tried


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
        instruction_set = instructions_for(experimentor.name)
    kernel, candidates = model_kernel(model, tokenizer), check_instructions(instruction_set)
    check_capabilities("PPL-ICL", kernel, LOSSES)
    tried = instruction_prompts(candidates, experimentor, variant, calibration_number)
    losses = kernel.losses([text for texts in tried for text in texts])
    chosen = candidates[least_perplexity(losses, len(candidates))]
    if cache_empty is not None:
        cache_empty()
    if experimentor is not None:
        experimentor.prompt_former.change_instruction(chosen)
    return chosen
