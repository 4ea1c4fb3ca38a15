"""PPL-ICL: the instruction of the lowest perplexity.

Gonen et al. 2023, "Demystifying Prompts in Language Models via Perplexity Estimation".
"""

from __future__ import annotations

import json
import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from StaICC.arguments import validate_integer
from StaICC.benchmarks.experimentor import Experimentor
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.protocol import Capability
from StaICC.methods import specification as spec
from StaICC.methods.features import check_answered
from StaICC.prompting.stable_random import StableRandom

LOSSES = frozenset({Capability.LOSSES})


@dataclass(frozen=True, slots=True)
class InstructionOptions:
    """Options of PPL-ICL."""

    instructions: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    """Candidate instructions, or lists of them by data set; none: those of the release."""


def choose_instruction(data: spec.MethodData) -> spec.Steps:
    """Set the instruction whose prompts have the lowest mean perplexity."""
    experimentor, given = data.experimentor, data.options.instructions
    if isinstance(given, Mapping):
        given = given.get(experimentor.name)
    candidates = check_instructions(instructions_for(experimentor.name) if given is None else given)
    conditions = spec.with_settings(experimentor, instruction=candidates[0]).conditions()
    for prompt in (condition.queries[0].prompt for condition in conditions if condition.queries):
        if not (prompt if isinstance(prompt, str) else prompt[0]).startswith(candidates[0]):
            raise ArgumentError(f"{experimentor.task.name} sets the instruction itself, so PPL-ICL cannot choose it")
    tried = instruction_prompts(candidates, experimentor, data.variant, data.calibration_number)
    (losses,) = yield [data.training("losses", [text for texts in tried for text in texts])]
    best = candidates[least_perplexity(losses, len(tried))]
    data.experimentor = spec.with_settings(experimentor, instruction=best)
    (rows,) = yield [data.queries()]
    return rows


PPL_ICL = spec.MethodSpec(
    "ppl_icl", "PPL-ICL", choose_instruction, LOSSES, lambda options, variant: variant != "0.1.1", InstructionOptions
)


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
    instructions: Mapping[str, list[str]] = json.loads(pkgutil.get_data(__package__, "instructions.json") or b"{}")
    if name not in instructions:
        options = """option instructions (--method-option 'instructions=["...", "..."]')"""
        remedy = f"Give a list of texts: the {options}, or instruction_set of PPL_ICL"
        raise ArgumentError(f"no candidate instructions for {name!r}. {remedy}")
    return instructions[name]


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
    parts = [losses[start : start + size] for start in range(0, len(losses), size)]
    scores = [max(own) + math.log(math.fsum(math.exp(loss - max(own)) for loss in own) / size) for own in parts]
    return scores.index(min(scores))  # they are logarithms of mean perplexities


def instruction_prompts(
    instructions: Sequence[str], experimentor: Experimentor | None, variant: str, number: int
) -> list[list[str]]:
    """Return the texts whose perplexity decides about each instruction: full prompts, or (0.1.1) instructions alone.

    Args:
        instructions: The candidates.
        experimentor: Its prompt writer and calibration set; not needed for ``"0.1.1"``.
        variant: ``"paper"`` or ``"0.1.1"``.
        number: How many rows of the calibration set each instruction is tried on (``"paper"``).

    Raises:
        ArgumentError: No experimentor was given (``"paper"``), or its calibration set is empty.
    """
    if spec.check_variant(variant) == "0.1.1":
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
        write = spec.with_settings(experimentor, instruction=instruction).prompt_former.write_prompt_from_dataline
        prompts = [write([], rows[index][0]) for index in indexes]
        tried.append([text for prompt in prompts for text in ([prompt] if isinstance(prompt, str) else prompt)])
    return tried
