"""Options that have an effect only with another option, or that contradict another one.

A command refuses an option that would be ignored. The tables say which options belong together; the parser notes which
ones were given (:class:`StaICC.cli.parser.Parser`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from StaICC.errors import ArgumentError

_METHOD = "--method NAME"
_FORECAST = "--dry-run"
_RERUN = "--rerun N"

_SAVING = {"--overwrite": "--json FILE"}
_EXECUTION = {"--recheck": "--store FILE"}

_NEEDED_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "run": {
        **_SAVING,
        **_EXECUTION,
        "--method-option": _METHOD,
        "--method-variant": _METHOD,
        "--calibration-number": _METHOD,
        "--prices": _FORECAST,
        "--cached-price": _FORECAST,
        "--currency": _FORECAST,
        "--probe-seconds": _FORECAST,
        "--tokenizer": _FORECAST,
    },
    "race": {**_SAVING, **_EXECUTION},
    "score": _SAVING,
    "plan": {"--power": "--difference X"},
    "verify": {"--seed": _RERUN, "--answers": _RERUN, "--max-tokens": _RERUN, "--stop": _RERUN},
}
"""For each command, the options that have no effect without another one, each with that one as it is written."""


@dataclass(frozen=True, slots=True)
class _Contradiction:
    """Two options of which only one has an effect."""

    first: str
    second: str
    reason: str
    """What one of them means, for messages."""


_OUTPUTS = (_Contradiction("--output", "--no-save", "--no-save saves nothing in a folder"),)
_INTERVALS = (_Contradiction("--level", "--no-intervals", "--level is the coverage of the intervals"),)
_FORMATS = (_Contradiction("--format", "--json", "--json means --format json"),)

_CONTRADICTIONS: Mapping[str, Sequence[_Contradiction]] = {
    "run": (*_OUTPUTS, *_INTERVALS),
    "race": _OUTPUTS,
    "score": (*_OUTPUTS, *_INTERVALS),
    "compare": _FORMATS,
    "rank": _FORMATS,
}
"""For each command, the pairs of options of which one would be ignored."""


def refuse_ignored_options(args: argparse.Namespace) -> None:
    """Refuse an option that would have no effect in the command.

    Args:
        args: The arguments of a command, with the options that were given.

    Raises:
        ArgumentError: An option needs another one that was not given, or two options contradict each other.
    """
    refuse_options_without_another(args)
    for pair in _CONTRADICTIONS.get(args.command, ()):
        if pair.first in args.given_options and pair.second in args.given_options:
            raise ArgumentError(f"{pair.first} and {pair.second}: got both, expected one of them: {pair.reason}")


def refuse_options_without_another(args: argparse.Namespace) -> None:
    """Refuse an option that needs another one, as :func:`refuse_ignored_options` does.

    Run files call it alone: their values may contradict an option of the command line, which replaces them.
    """
    for option, needed in _NEEDED_OPTIONS.get(args.command, {}).items():
        needed_option = needed.split()[0]
        if option in args.given_options and needed_option not in args.given_options:
            written = args.given_options[option]
            raise ArgumentError(f"{written} belongs to {needed_option}. Add {needed}, or leave {written} out")
