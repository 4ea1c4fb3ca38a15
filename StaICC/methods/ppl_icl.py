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

from StaICC.argument_syntax import in_each_syntax
from StaICC.arguments import validate_integer
from StaICC.errors import ArgumentError, OutputError
from StaICC.kernels.protocol import Capability
from StaICC.methods.batches import in_batches
from StaICC.methods.contract import MethodData, MethodSpec, Steps
from StaICC.methods.present_rows import check_answered
from StaICC.prompting.stable_random import StableRandom


@dataclass(frozen=True, slots=True)
class InstructionOptions:
    """Options of PPL-ICL."""

    instructions: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    """Candidate instructions, or lists of them by data set; none: those of the release."""


def ppl_icl(data: MethodData) -> Steps:
    """Set the instruction whose prompts have the lowest mean perplexity."""
    candidates = candidate_instructions(data)
    texts: list[str] = []  # candidate by candidate
    for instruction in candidates:
        texts += prompts_with_instruction(data, instruction)
    (losses,) = yield [data.ask("losses", texts, role="train")]
    best = least_perplexity(losses, len(candidates))
    view = data.on(instruction=candidates[best])
    (rows,) = yield [view.ask()]
    return view.predictions(rows)


def candidate_instructions(data: MethodData) -> list[str]:
    """Return the instructions to choose from.

    Raises:
        ArgumentError: There are none for this data set, or the benchmark sets the instruction itself.
    """
    instructions = data.options.instructions
    if isinstance(instructions, Mapping):
        instructions = instructions.get(data.name)
    if instructions is None:
        instructions = instructions_for(data.name)
    candidates = check_instructions(instructions)

    # A benchmark that sets the instruction itself writes the first prompt of each condition without a candidate.
    with_candidate = data.on(instruction=candidates[0])
    for condition in with_candidate.conditions:
        for query in condition.queries[:1]:
            text = query.prompt if isinstance(query.prompt, str) else query.prompt[0]
            if not text.startswith(candidates[0]):
                raise ArgumentError(f"{data.benchmark} sets the instruction itself, so PPL-ICL cannot choose it")
    return candidates


def prompts_with_instruction(data: MethodData, instruction: str) -> list[str]:
    """Return prompts of calibration rows without demonstrations, with an instruction; the same rows for each.

    Args:
        data: The data of the method.
        instruction: The instruction.

    Returns:
        One text for each row; in the noisy channel one for each row and label.

    Raises:
        ArgumentError: The calibration set is empty.
    """
    rows = data.calibration_set
    count = min(validate_integer("calibration_number", data.calibration_number, 1), len(rows))
    if not count:
        raise ArgumentError("the calibration set is empty")
    view = data.on(instruction=instruction)
    texts: list[str] = []
    for position in StableRandom().sample_indexes(len(rows), count):
        prompt = view.write([], rows.texts(position))
        texts += [prompt] if isinstance(prompt, str) else prompt
    return texts


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
        option = in_each_syntax("instructions=[...]", """--method-option 'instructions=["...", "..."]'""")
        remedy = f"Give a list of texts: {option}"
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
        losses: The mean loss of each text, candidate by candidate; equally many for each.
        candidates: How many candidates.

    Raises:
        OutputError: A loss is missing or not finite.
    """
    losses = check_answered(losses, "instruction prompt")
    if not all(math.isfinite(loss) for loss in losses):
        raise OutputError(f"the model's losses {losses[:5]} are not finite; use a wider number type")
    prompts_per_candidate = len(losses) // candidates
    losses_of_candidates = in_batches(losses, prompts_per_candidate)
    perplexities = [_log_mean_perplexity(candidate_losses) for candidate_losses in losses_of_candidates]
    return perplexities.index(min(perplexities))


def _log_mean_perplexity(losses: Sequence[float]) -> float:
    """Return ``log(mean(exp(loss)))``, computed without overflow."""
    largest = max(losses)
    total = math.fsum(math.exp(loss - largest) for loss in losses)
    return largest + math.log(total / len(losses))


PPL_ICL = MethodSpec("ppl_icl", "PPL-ICL", ppl_icl, frozenset({Capability.LOSSES}), options=InstructionOptions)
