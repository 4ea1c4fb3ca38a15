"""What a command reads from and writes to the terminal: the argument parser, and output streams that escape.

The parser suggests the nearest name for an unknown one. The streams escape control characters, so that data cannot
control the terminal.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO

from StaICC.errors import ArgumentError, unknown_name
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
    underlying: TextIO = stream.stream if isinstance(stream, TerminalStream) else stream
    return underlying


def escape_streams() -> None:
    """Replace stdout and stderr by escaping streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, TerminalStream):
            setattr(sys, name, TerminalStream(stream, bars=name == "stderr"))


@contextlib.contextmanager
def safe_streams() -> Iterator[None]:
    """Replace stdout and stderr by escaping streams within a with block."""
    before = sys.stdout, sys.stderr
    escape_streams()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


_CARD = "write it into the card of your own data: [template] in FILE.card.toml, with --data FILE"
_BATCHES = "batches are made by tokens: use --token-budget (hf:), or --concurrency for requests (servers)"
INSTEAD = {
    "--seed": "rows, demonstrations and prompts are fixed, so there is nothing to seed",
    "--shots": "use --k for the number of demonstrations",
    "--num-fewshot": "--k",
    "--output-path": "--output",
    "--log-dir": "--output",
    "--dataset": "use --datasets for the benchmark's data sets, --data FILE for your own",
    "--tasks": "--datasets",
    "--use-cache": "--store",
    "--max-new-tokens": "--max-tokens",
    "--stop-seqs": "use --stop TEXT ... for texts before which a reply ends",
    "--log-samples": "use --records FILE to save prompts and predictions",
    "--model-args": "write options behind the model, as in --model 'hf:gpt2;dtype=float32', or as --dtype float32",
    "--model-name-or-path": "use --model hf:NAME_OR_PATH",
    "--base-url": "use --model openai:BASE_URL#MODEL",
    "--api-key": "set the environment variable OPENAI_API_KEY",
    "--template": _CARD,
    "--instruction": _CARD,
    "--batch-size": _BATCHES,
    "--max-batch-size": _BATCHES,
    "--per-device-eval-batch-size": _BATCHES,
    "--torch-dtype": "dtype",
    "--max-model-len": "max_length",
    "--system-instruction": "system",
    "--system-message": "system",
    "--chat": "prompt_format=chat",
    "--apply-chat-template": "prompt_format=chat",
    "--fewshot-as-multiturn": "prompt_format=chat-turns",
    "--load-in-4bit": "quantization=4bit",
    "--max-connections": "concurrency",
    "--data-parallel": "--workers",
    "--data-parallel-size": "--workers",
    "--max-retries": "retries",
    "--tensor-parallel-size": "tensor_parallel_size",
    "--gpu-memory-utilization": "gpu_memory_utilization",
}
"""Options of lm-evaluation-harness, inspect_ai, transformers and vLLM: the option of the command that has the same
meaning, the option of models (with its value, if the other is a flag), or a sentence that says what to do instead."""


def _dashed(name: str) -> str:
    """Return an option as it is written here: ``--batch-size`` of ``--batch_size``."""
    return name.replace("_", "-") if name.startswith("--") else name


def _model_options() -> dict[str, str]:
    """Return the type of each option of models, by its flag."""
    from StaICC.kernels.registry import KERNELS, declared_options  # costly, and rarely needed

    facts = [fact for kind in KERNELS for fact in declared_options(KERNELS.find(kind).value)]
    return {_dashed(f"--{fact.name}"): fact.type for fact in facts}


def _setting(target: str, value: str | None, words: list[str]) -> str:
    """Return ``name=value`` of an option of models; empty if it is none.

    Args:
        target: The option, or what :data:`INSTEAD` has for it.
        value: The value behind its equals sign; ``None`` without one.
        words: The arguments after it, without its value on return.

    Raises:
        ArgumentError: Its value is missing, or it is a flag with a value.
    """
    if "=" in target:
        if value is not None and value.casefold() != "true":
            raise ArgumentError(f"got the value {value!r}, expected none: it means {target}. Leave it out")
        return target
    kind = _model_options().get(target)
    if kind is None and target.startswith("--"):
        return ""
    if value is None and kind == "bool" and (not words or words[0].casefold() not in ("true", "false")):
        value = "true"
    elif value is None and words and not words[0].startswith("--"):
        value = words.pop(0)
    if not value:
        raise ArgumentError("got no value, expected one. Before a value that begins with -- write an equals sign")
    return f"{target.removeprefix('--').replace('-', '_')}={value}"


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
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self._chosen(parsed)
            wrong = next((_dashed(word.partition("=")[0]) for word in unknown if word.startswith("--")), None)
            if wrong is None:
                hint = (
                    "; name data sets with --datasets, a file of data with --data, the file for the result with --json"
                )
                hint *= "--datasets" in command._option_string_actions
                command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
            known = [option for option in command._option_string_actions if option.startswith("--")]
            if " " in INSTEAD.get(wrong, ""):
                command.error(f"there is no option {wrong!r}: {INSTEAD[wrong]}")
            if "--model-option" in known:
                known += _model_options()
            command.error(str(unknown_name("option", wrong, known)))
        return parsed

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the arguments after replacing options of other tools and of models by those of the command."""
        words = [*(sys.argv[1:] if args is None else args)]
        return super().parse_known_args(self._translated(words), namespace)

    def _translated(self, words: list[str]) -> list[str]:
        """Return the arguments with ``--k 4`` for ``--num-fewshot 4``, ``--model-option dtype=X`` for ``--dtype X``."""
        known = self._option_string_actions
        translated: list[str] = []
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            name = _dashed(name)
            target = name if name in known else INSTEAD.get(name, name)
            if target in known:
                translated.append(target + equals + value)
            elif word.startswith("--") and "--model-option" in known:
                if name in INSTEAD and " " in target:  # argparse would take --template for --templates
                    self.error(f"there is no option {name!r}: {target}")
                try:
                    setting = _setting(target, value if equals else None, words)
                except ArgumentError as error:
                    self.error(f"{name}: {error}")
                translated += ["--model-option", setting] if setting else [word]
            else:
                translated.append(word)
        return translated

    def error(self, message: str) -> NoReturn:
        """Print an error and exit; that an argument is missing is followed by its values.

        Args:
            message: What is wrong.
        """
        for action in self._actions:
            if action.choices and not action.option_strings and message.endswith(f"are required: {action.metavar}"):
                message += f". There are: {', '.join(map(str, action.choices))}."
        super().error(message)

    def _chosen(self, parsed: argparse.Namespace) -> Parser:
        """Return the parser of the chosen command, or of its action."""
        for action in self._actions:
            name = getattr(parsed, action.dest, None)
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                chosen: Parser = action.choices[name]._chosen(parsed)
                return chosen
        return self

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


def add_action(
    actions: Any, name: str, run: Any, text: str, as_json: str = "print JSON instead of a table"
) -> argparse.ArgumentParser:
    """Add an action of a command, with the option ``--json``, and return its parser.

    Args:
        actions: The actions of the command, from ``add_subparsers``.
        name: Its name.
        run: The function for ``action_function`` of the parsed arguments.
        text: What it does.
        as_json: What ``--json`` does.
    """
    action: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    action.add_argument("--json", action="store_true", help=as_json)
    action.set_defaults(action_function=run)
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
