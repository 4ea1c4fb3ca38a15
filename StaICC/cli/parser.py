"""The argument parser of the command line: wrong names get the nearest right one, and shells can complete."""

from __future__ import annotations

import argparse
from typing import Any

from StaICC.errors import unknown_name

__all__ = ["Parser", "complete"]


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest of several choices; subcommands get one of the same kind."""

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
