"""The argument parser of the command line, with suggestions for unknown names and shell completion."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from StaICC.errors import unknown_name
from StaICC.registry import fold

INSTEAD = {
    "--seed": "rows, demonstrations and prompts are fixed, so there is nothing to seed",
    "--shots": "use --k for the number of demonstrations",
    "--num-fewshot": "use --k for the number of demonstrations",
    "--output": "use --json FILE to save the result",
    "--dataset": "use --datasets for the benchmark's data sets, --data FILE for your own",
}
"""Options that users of other tools try, and what to do instead."""


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest choice for an unknown name."""

    # argparse overloads this by the type of the namespace, of which there is one here.
    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the arguments; for an unknown option, suggest the nearest one.

        Args:
            args: The arguments; those of the process by default.
            namespace: The object that receives the values.
        """
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._chosen(found)
            wrong = next((word.partition("=")[0] for word in unknown if word.startswith("--")), None)
            if wrong is None:
                hint = (
                    "; name data sets with --datasets, a file of data with --data, the file for the result with --json"
                )
                hint = hint if "--datasets" in command._option_string_actions else ""
                command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
            if wrong in INSTEAD:
                command.error(f"there is no option {wrong!r}: {INSTEAD[wrong]}")
            known = [option for option in command._option_string_actions if option.startswith("--")]
            command.error(str(unknown_name("option", wrong, known)))
        return found

    def _chosen(self, found: argparse.Namespace) -> Parser:
        """Return the parser of the chosen command, or of its action."""
        for action in self._actions:
            name = getattr(found, action.dest, None)
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                chosen: Parser = action.choices[name]._chosen(found)
                return chosen
        return self

    def _get_option_tuples(self, option_string: str) -> Any:
        # "--output" is an option of other tools, not short for "--outputs".
        return [] if option_string.partition("=")[0] == "--output" else super()._get_option_tuples(option_string)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # argparse has no public hook for choices in any case.
        value = super()._get_value(action, arg_string)
        if action.choices is None or isinstance(action, argparse._SubParsersAction) or not isinstance(value, str):
            return value
        if value in action.choices:  # before a loop over the choices, which reads the plug-ins
            return value
        return next((choice for choice in action.choices if fold(str(choice)) == fold(value)), value)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # argparse has no public hook to change this message.
        if action.choices is not None and value not in action.choices:
            kind = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            hint = "Run a benchmark with: python -m StaICC run NAME" if kind == "command" else ""
            raise argparse.ArgumentError(action, str(unknown_name(kind, value, map(str, action.choices), hint)))


def add_action(actions: Any, name: str, text: str, as_json: str = "print JSON instead of a table") -> Any:
    """Add an action of a command, with the option ``--json``, and return its parser.

    Args:
        actions: The actions of the command, from ``add_subparsers``.
        name: Its name.
        text: What it does.
        as_json: What ``--json`` does.
    """
    action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    action.add_argument("--json", action="store_true", help=as_json)
    return action


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions for the shell and exit; does nothing without ``argcomplete``.

    With it, ``eval "$(register-python-argcomplete staicc)"`` in the shell's start-up file completes commands, options
    and names.

    Args:
        parser: The parser, with the arguments of all commands.
    """
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)
