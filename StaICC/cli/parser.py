"""The argument parser of the command line, which suggests the nearest name for an unknown one."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from StaICC.errors import unknown_name
from StaICC.kernels.registry import FOREIGN
from StaICC.registry import fold


def flag(name: str) -> str:
    """Return the option of an argument, such as ``--max-tokens`` of ``max_tokens``."""
    return f"--{name.replace('_', '-')}"


_FOREIGN_NAMES = {
    "rows, demonstrations and prompts are fixed, so there is nothing to seed": "seed",
    "use --k for the number of demonstrations": "shots",
    "--k": "num-fewshot",
    "--output": "output-path log-dir",
    "use --datasets for the benchmark's data sets, --data FILE for your own": "dataset",
    "--datasets": "tasks",
    "--store": "use-cache",
    "--max-tokens": "max-new-tokens max-gen-toks",
    "use --stop TEXT ... for texts before which a reply ends": "stop-seqs",
    "use --records FILE to save prompts and predictions": "log-samples",
    "write options behind the model, as in --model 'hf:gpt2;dtype=float32', or as --dtype float32": "model-args",
    "use --model hf:NAME_OR_PATH": "model-name-or-path",
    "write it into the card of your own data: [template] in FILE.card.toml, with --data FILE": "template instruction",
    "--workers": "data-parallel data-parallel-size",
    "tensor_parallel_size": "tensor-parallel-size",
    "gpu_memory_utilization": "gpu-memory-utilization",
}
INSTEAD = {flag(name): target for name, target in FOREIGN.items()}
INSTEAD |= {flag(name): target for target, listed in _FOREIGN_NAMES.items() for name in listed.split()}
"""Options of other tools: the option of the command that has the same meaning, or what :data:`FOREIGN` has for it."""


def _model_options() -> dict[str, str]:
    """Return the type of each option of models, by its flag."""
    from StaICC.kernels.registry import KERNELS, declared_options  # costly, and rarely needed

    facts = [fact for kind in KERNELS for fact in declared_options(KERNELS.find(kind).value)]
    return {flag(fact.name): fact.type for fact in facts}


class Parser(argparse.ArgumentParser):
    """An argument parser that knows options of models and of other tools, and suggests the nearest name."""

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the arguments after replacing options of other tools and of models by those of the command."""
        words = [*(sys.argv[1:] if args is None else args)]
        parsed, unknown = super().parse_known_args(self._translated(words), namespace)
        if unknown and self._subparsers is None:
            self._refuse(unknown)
        return parsed, unknown

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Exit with an error that suggests the nearest option."""
        wrong = next((flag(word[2:].partition("=")[0]) for word in unknown if word.startswith("--")), None)
        known = [option for option in self._option_string_actions if option.startswith("--")]
        if wrong is None:
            hint = "; name data sets with --datasets, a file of data with --data, the file for the result with --json"
            hint += "; write a model option that is true or false as --OPTION or --OPTION=false"
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint * ('--datasets' in known)}")
        if " " in INSTEAD.get(wrong, ""):
            self.error(f"there is no option {wrong!r}: {INSTEAD[wrong]}")
        known += _model_options() if "--model-option" in known else ()
        self.error(str(unknown_name("option", wrong, known)))

    def _translated(self, words: list[str]) -> list[str]:
        """Return the arguments with ``--k 4`` for ``--num-fewshot 4``, ``--model-option dtype=X`` for ``--dtype X``."""
        known = self._option_string_actions
        translated: list[str] = []
        while words:
            word = words.pop(0)
            name, equals, value = word.partition("=")
            name = name.replace("_", "-")
            target = name if name in known else INSTEAD.get(name, name)
            if target in known:
                translated.append(target + equals + value)
            elif word.startswith("--") and "--model-option" in known:
                if " " in target:  # argparse would take --template for --templates
                    self._refuse([word])
                setting = self._setting(name, target, value if equals else None, words)
                translated += ["--model-option", setting] if setting else [word]
            else:
                translated.append(word)
        return translated

    def _setting(self, name: str, target: str, value: str | None, words: list[str]) -> str:
        """Return ``option=value`` of an option of models; empty if it is none.

        Args:
            name: The option as it is given.
            target: The option, or what :data:`INSTEAD` has for it.
            value: The value behind its equals sign; ``None`` without one.
            words: The arguments after it, without its value on return.
        """
        if "=" in target:
            if value is not None and value.casefold() != "true":
                self.error(f"{name}: got the value {value!r}, expected none: it means {target}. Leave it out")
            return target
        kind = _model_options().get(target)
        if kind is None and target.startswith("--"):
            return ""
        if value is None and kind == "bool" and (not words or words[0].casefold() not in ("true", "false")):
            value = "true"
        elif value is None and words and not words[0].startswith("--"):
            value = words.pop(0)
        if not value:
            hint = "Before a value that begins with -- write an equals sign"
            self.error(f"{name}: got no value, expected one. {hint}")
        return f"{target.removeprefix('--').replace('-', '_')}={value}"

    def error(self, message: str) -> NoReturn:
        """Print an error and exit; that an argument is missing is followed by its values.

        Args:
            message: What is wrong.
        """
        for action in self._actions:
            if action.choices and not action.option_strings and message.endswith(f"are required: {action.metavar}"):
                message += f". There are: {', '.join(map(str, action.choices))}."
        super().error(message)

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


_KINDS: Mapping[str, dict[str, Any]] = {
    "int": {"type": int, "metavar": "N"},
    "float": {"type": float, "metavar": "X"},
    "str": {},
}


def add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any], *names: str) -> None:
    """Add options for arguments of a Python function, with its types and defaults; their help is its docstring.

    Args:
        parser: The parser of a command that calls the function.
        function: The function.
        *names: The arguments.
    """
    parameters, text = inspect.signature(function).parameters, inspect.getdoc(function) or ""
    for name in names:
        default = parameters[name].default
        kind = _KINDS[str(parameters[name].annotation).removesuffix(" | None")]
        written = re.search(rf"^    {name}: (.+(?:\n {{8}}.+)*)", text, re.M)
        about = " ".join(written[1].split()).rstrip(".").replace("``", "").replace("%", "%%") if written else ""
        about = about[:1].lower() + re.sub(r" \(see :.*?\)", "", about[1:])
        about += "" if default is None else f" (default: {default})"
        parser.add_argument(flag(name), default=default, help=about, **kind)


def converted(convert: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    """Return a type of an argument, for argparse.

    Args:
        convert: Reads a value, or raises a ValueError.
        expected: What the value should be, for the message.
    """

    def checked(text: str) -> Any:
        try:
            return convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}") from None

    return checked


def add_command(commands: Any, name: str, run: Callable[..., Any], text: str) -> argparse.ArgumentParser:
    """Add a command, or an action of a command, and return its parser, which has the option ``--json``.

    A command that writes JSON otherwise replaces the option by its own.

    Args:
        commands: The commands, or the actions of a command, from ``add_subparsers``.
        name: Its name.
        run: Its function; the docstring after the first line is the text of ``--help``.
        text: What it does.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=(inspect.getdoc(run) or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        conflict_handler="resolve",
    )
    about = "print JSON instead of text; JSON Lines stay as they are"
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=about)
    parser.set_defaults(run=run)
    return parser


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
