"""The argument parser of the command line: wrong names get the nearest right one, and shells can complete."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from StaICC.errors import unknown_name

__all__ = ["Parser", "complete"]


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest of several choices; subcommands get one of the same kind."""

    # argparse overloads this by the type of the namespace, of which there is one here.
    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, and name the nearest option where one is unknown.

        Args:
            args: The arguments; those of the process by default.
            namespace: Where the values shall stand.
        """
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._chosen(found)
            wrong = next((word.partition("=")[0] for word in unknown if word.startswith("--")), None)
            if wrong is None:
                command.error(f"unrecognized arguments: {' '.join(unknown)}")
            known = [option for option in command._option_string_actions if option.startswith("--")]
            command.error(str(unknown_name("option", wrong, known)))
        return found

    def _chosen(self, found: argparse.Namespace) -> Parser:
        """Give the parser of the command, or of its action, that the arguments name."""
        for action in self._actions:
            name = getattr(found, action.dest, None)
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                chosen: Parser = action.choices[name]._chosen(found)
                return chosen
        return self

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # The one place where argparse looks at choices; public hooks come too late to see them.
        if action.choices is not None and value not in action.choices:
            kind = (action.metavar if isinstance(action.metavar, str) else action.dest).lower()
            raise argparse.ArgumentError(action, str(unknown_name(kind, value, map(str, action.choices))))


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and end the process; nothing happens without ``argcomplete``.

    Args:
        parser: The parser, with the arguments of all commands.
    """
    try:
        import argcomplete
    except ImportError:
        return
    argcomplete.autocomplete(parser)
