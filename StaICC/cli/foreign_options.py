"""Options of other tools, each with what has the same meaning here.

The tools are lm-evaluation-harness, inspect_ai, transformers, vLLM and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping

from StaICC.argument_syntax import flag
from StaICC.kernels.registry import FOREIGN


def _is_sentence(text: str) -> bool:
    """Return whether an entry of the kernels' table is advice, and not the name of an option."""
    return " " in text


_TEMPLATES = (
    "write it into the card of your own data: [template] in FILE.card.toml, with --data FILE; for a data set of the "
    "benchmark, change it in Python: docs/benchmarks.md, Change the prompts"
)

_ADVICE_FOR_COMMANDS = {
    "--seed": "rows, demonstrations and prompts are fixed, so there is nothing to seed",
    "--shots": "use --k for the number of demonstrations",
    "--dataset": "use --datasets for the benchmark's data sets, --data FILE for your own",
    "--stop-seqs": "use --stop TEXT ... for texts before which a reply ends",
    "--log-samples": "use --records FILE to save prompts and predictions",
    "--model-args": "write options behind the model, as in --model 'hf:gpt2;dtype=float32', or as --dtype float32",
    "--model-name-or-path": "use --model hf:NAME_OR_PATH",
    "--template": _TEMPLATES,
    "--instruction": _TEMPLATES,
    "--label-prefix": _TEMPLATES,
    "--input-prefix": _TEMPLATES,
}

_EQUIVALENTS_OF_COMMANDS = {
    "--num-fewshot": "--k",
    "--num-demos": "--k",
    "--num-demonstrations": "--k",
    "--output-path": "--output",
    "--log-dir": "--output",
    "--tasks": "--datasets",
    "--use-cache": "--store",
    "--max-new-tokens": "--max-tokens",
    "--max-gen-toks": "--max-tokens",
    "--data-parallel": "--workers",
    "--data-parallel-size": "--workers",
    # These two are passed on to the engine; no kernel of ours declares them.
    "--tensor-parallel-size": "--tensor-parallel-size",
    "--gpu-memory-utilization": "--gpu-memory-utilization",
}


def _equivalents_of_models() -> dict[str, str]:
    """Return the options of models for those of other tools, without those for which a command has advice."""
    equivalents = {}
    for name, option in FOREIGN.items():
        if _is_sentence(option) or flag(name) in _ADVICE_FOR_COMMANDS:
            continue
        has_value = "=" in option
        equivalents[flag(name)] = option if has_value else flag(option)
    return equivalents


EQUIVALENTS: Mapping[str, str] = _equivalents_of_models() | _EQUIVALENTS_OF_COMMANDS
"""For each option of another tool the option with the same meaning: of the command, or of its model. One that needs no
value elsewhere has the value here, such as ``prompt_format=chat`` for ``--apply-chat-template``."""

_ADVICE_FOR_MODELS = {flag(name): advice for name, advice in FOREIGN.items() if _is_sentence(advice)}

ADVICE: Mapping[str, str] = _ADVICE_FOR_MODELS | _ADVICE_FOR_COMMANDS
"""For each option of another tool that has no equivalent, what to do instead."""
