"""What a command reads from and writes to the terminal: the argument parser, and output streams that escape.

The parser suggests the nearest name for an unknown one. The streams escape control characters, so that data cannot
control the terminal.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO, cast

from StaICC.errors import unknown_name
from StaICC.registry import fold
from StaICC.safe_text import visible

_UP = "\x1b[A"  # used by progress bars of other packages


class TerminalStream:
    """A text stream that escapes control characters and characters that its encoding lacks.

    Args:
        stream: The underlying stream.
        bars: Allow progress bars: a carriage return at the start or end of a text is not escaped.
    """

    def __init__(self, stream: TextIO, bars: bool = False) -> None:
        self.stream = stream
        self._bars = bars

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text, escaped.

        Args:
            text: The text.

        Returns:
            The number of characters of the text.
        """
        before = after = ""
        if self._bars and text == _UP:
            shown = text
        elif self._bars and text.startswith("\r"):
            before, after = "\r", "\r" if len(text) > 1 and text.endswith("\r") else ""
            shown = before + visible(text[1 : len(text) - len(after)]) + after
        else:
            shown = visible(text)
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts, escaped.

        Args:
            lines: The texts.
        """
        for line in lines:
            self.write(line)


def raw(stream: Any) -> TextIO:
    """Return the stream under a :class:`TerminalStream`, for output that another program reads."""
    found: TextIO = stream.stream if isinstance(stream, TerminalStream) else stream
    return found


def escape_streams() -> None:
    """Replace stdout and stderr by escaping streams."""
    out: Any = sys.stdout
    err: Any = sys.stderr
    if out is not None and not isinstance(out, TerminalStream):
        sys.stdout = cast(TextIO, TerminalStream(out))
    if err is not None and not isinstance(err, TerminalStream):
        sys.stderr = cast(TextIO, TerminalStream(err, bars=True))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Replace stdout and stderr by escaping streams within a with block."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


INSTEAD = {
    "--seed": "rows, demonstrations and prompts are fixed, so there is nothing to seed",
    "--shots": "use --k for the number of demonstrations",
    "--num-fewshot": "use --k for the number of demonstrations",
    "--output": "use --json FILE to save the result",
    "--dataset": "use --datasets for the benchmark's data sets, --data FILE for your own",
}
"""Options that users of other tools try, and what to do instead."""


class _Store(argparse._StoreAction):
    """Stores a value. An option with a list of values that is repeated adds to the list."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        before: Any = getattr(namespace, self.dest, None)
        if self.nargs == "+" and before is not self.default:
            values = [*before, *values]
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests the nearest choice for an unknown name, and keeps all values of an option."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("action", None, _Store)

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

    def error(self, message: str) -> NoReturn:
        """Print an error and exit; that an argument is missing is followed by its values.

        Args:
            message: What is wrong.
        """
        for action in self._actions:
            if action.choices and not action.option_strings and message.endswith(f"are required: {action.metavar}"):
                message += f". There are: {', '.join(map(str, action.choices))}."
        super().error(message)

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
