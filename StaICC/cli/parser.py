"""The argument parser of the command line, which suggests the nearest name for an unknown one."""

from __future__ import annotations

import argparse
import copy
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from StaICC.argument_syntax import flag
from StaICC.cli.foreign_options import ADVICE, EQUIVALENTS
from StaICC.errors import unknown_name
from StaICC.registry import fold


def model_option_flags() -> Collection[str]:
    """Return the options of models as options of the command line, such as ``--dtype``."""
    return _model_option_types()


def _model_option_types() -> dict[str, str]:
    """Return the annotated type of each option of models, by its option on the command line."""
    from StaICC.kernels.registry import options_by_kind  # costly, and rarely needed

    types = {}
    for options in options_by_kind().values():
        for option in options:
            types[flag(option.name)] = option.type
    return types


def long_option(action: argparse.Action) -> str:
    """Return the first long form of an option, such as ``--output`` for ``-o``."""
    for option in action.option_strings:
        if option.startswith("--"):
            return option
    return action.option_strings[0]


_ONE_LINE = 10_000
"""A width in which every usage is one line."""

_EXPECTED_NUMBERS: Mapping[Any, str] = {int: "an integer", float: "a number"}
"""What a message about a number of the wrong form expects, by its type."""


class Parser(argparse.ArgumentParser):
    """An argument parser that knows options of models and of other tools, and suggests the nearest name.

    Options are written in full: an abbreviation could be that of an option with another meaning. The parsed arguments
    have ``given_options``: each option that was given, in its long form, with how it was written.
    """

    def __init__(self, **settings: Any) -> None:
        """Make a parser without abbreviations of options; settings as for :class:`argparse.ArgumentParser`."""
        super().__init__(allow_abbrev=False, **settings)

    make_complete: Callable[[], Parser] | None = None
    """Of the parser of a command: makes the parser with the arguments of all commands, to find the command of an
    option."""

    def arguments(self) -> list[argparse.Action]:
        """Return what :meth:`add_argument` declared, also in groups, in order."""
        return list(self._actions)

    def command(self, name: str) -> Parser:
        """Return the parser of a command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                parser: Parser = action.choices[name]
                return parser
        raise ValueError(f"the parser {self.prog} has no commands")

    def converted_value(self, action: argparse.Action, text: str) -> Any:
        """Return a value of an argument as the parser would read it.

        Args:
            action: The argument.
            text: The value.

        Raises:
            argparse.ArgumentError: The text has another type, or is not one of the choices.
        """
        value = self._get_value(action, text)
        self._check_value(action, value)
        return value

    def parse_given(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments that are among the words, by destination, without defaults; none of them is required.

        This changes the defaults, so the parser cannot be used again.

        Args:
            words: The words of the command after its name.
        """
        for action in self._actions:
            action.required = False
            is_positional = not action.option_strings
            appends = action.default == []
            if is_positional:
                action.nargs = "?"
                action.default = None
            elif not appends:  # an action that appends needs the list
                action.default = argparse.SUPPRESS
        destinations = {action.dest for action in self._actions}
        given = {}
        for name, value in vars(self.parse_args(words)).items():
            is_default = value is None or value == []
            if name in destinations and not is_default:
                given[name] = value
        return given

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse the arguments, which may have the names of other tools: ``--num-fewshot 4`` is ``--k 4``.

        Unknown words are an error here, with advice, and not left to the caller as argparse does it.
        """
        words = sys.argv[1:] if args is None else args
        translated = self._translated(words)
        self._refuse_repeated_options(translated)
        parsed, unknown = super().parse_known_args(translated, namespace)
        # The parser of a subcommand refuses its own unknown words: it knows which options are near.
        has_subcommands = self._subparsers is not None
        if unknown and not has_subcommands:
            self._refuse_words(unknown, translated)
        if not has_subcommands:
            parsed.given_options = self._given_options(translated)
        return parsed, unknown

    def _given_options(self, words: Sequence[str]) -> dict[str, str]:
        """Return the long form of each option among the words, with the form in which it was written.

        For ``-o FILE``, this is ``{"--output": "-o"}``.
        """
        given = {}
        for option, action in self._options_among(words):
            given[long_option(action)] = option
        return given

    def _options_among(self, words: Sequence[str]) -> Iterator[tuple[str, argparse.Action]]:
        """Yield each option among the words as it was written, with its declaration, in order."""
        for word in words:
            if word == "--":  # what follows is no option
                return
            option = word.partition("=")[0]
            action = self._option_string_actions.get(option)
            if action is not None:
                yield option, action

    def _refuse_repeated_options(self, words: Sequence[str]) -> None:
        """Exit with an error if an option that counts once is given several times: argparse ignores all but the last.

        Args:
            words: The words of the command.
        """
        given = set()
        for option, action in self._options_among(words):
            counts_once = isinstance(action, argparse._StoreAction)  # not a switch, and not one that appends
            if counts_once and action in given:
                remedy = ""
                if action.nargs == "+":
                    remedy = f". Name all values behind it, as in {_written(action)}"
                self.error(f"argument {option}: given several times, expected once{remedy}")
            given.add(action)

    # Words that no option takes.

    def _refuse_words(self, words: Sequence[str], all_words: Sequence[str]) -> NoReturn:
        """Exit with an error about words that the command does not know.

        If there are options among them, the error is about the first one: the words behind it may be its values.

        Args:
            words: The unknown words.
            all_words: All words of the command.
        """
        unknown_options = [word for word in words if word.startswith("--")]
        if unknown_options:
            self._refuse_option(unknown_options[0])
        option_before = self._option_before(words[0], all_words)
        if option_before is None:
            advice = self._advice_about_name()
        else:
            advice = self._advice_about_further_value(option_before)
        self.error(f"unrecognized arguments: {' '.join(words)}{advice}")

    def _advice_about_name(self) -> str:
        """Return the end of the error about a word that follows no option with a value, such as ``run normal TREC``.

        It is empty if there is no advice.
        """
        if "--datasets" in self._option_string_actions:
            return "; name data sets with --datasets, a file of data with --data"
        if not self._takes_names():
            return "; this command takes options only, no name"
        return ""

    def _advice_about_further_value(self, option: str) -> str:
        """Return the end of the error about a word that follows the only value of an option, such as ``--k 4 8``."""
        if option == "--k":
            return "; write several numbers of demonstrations with commas, such as --k 4,16,64"
        advice = f"; {option} takes one value"
        if option.endswith("-option"):  # such as --model-option
            advice += f": repeat it, as in {option} NAME=VALUE {option} NAME=VALUE"
        return advice

    def _takes_names(self) -> bool:
        """Return whether the command takes words that are no options."""
        return any(not action.option_strings for action in self._actions)

    def _option_before(self, word: str, all_words: Sequence[str]) -> str | None:
        """Return the option whose only value is directly before a word, such as ``--k`` for the 8 of ``--k 4 8``.

        Args:
            word: The word. It may be among the words several times; the first place behind such a value counts.
            all_words: The words of the command.

        Returns:
            The option; ``None`` if there is none.
        """
        for option, value, following_word in zip(all_words, all_words[1:], all_words[2:], strict=False):
            action = self._option_string_actions.get(option)
            takes_one_value = action is not None and action.nargs is None  # argparse: without nargs, one value
            if takes_one_value and following_word == word and not value.startswith("-"):
                return option
        return None

    def _refuse_option(self, word: str) -> NoReturn:
        """Exit with an error about an option that the command does not have.

        The message says what to use instead of an option of another tool, or which commands have the option, or the
        nearest option of this command.

        Args:
            word: The option as it was written, perhaps with a value behind an equals sign.
        """
        option = _option_name(word)
        if option in ADVICE:
            self.error(f"there is no option {option!r}: {ADVICE[option]}")
        commands = self._commands_with(option)
        if commands:
            self.error(f"there is no option {option!r} here: it belongs to {' and '.join(commands)}")
        known = [name for name in self._option_string_actions if name.startswith("--")]
        if self._takes_model_options():
            known += _model_option_types()
        self.error(str(unknown_name("option", option, known)))

    def _commands_with(self, option: str) -> list[str]:
        """Return the other commands that have an option."""
        if self.make_complete is None:
            return []
        complete_parser = self.make_complete()
        commands = []
        for action in complete_parser.arguments():
            if not isinstance(action, argparse._SubParsersAction):
                continue
            for name, command in action.choices.items():
                if option in command._option_string_actions:
                    commands.append(name)
        return commands

    # Options of models and of other tools.

    def _takes_model_options(self) -> bool:
        """Return whether the command runs a model, so that options of models may be given."""
        return "--model-option" in self._option_string_actions

    def _translated(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command with options of models and of other tools written as options of this command.

        ``--num-fewshot 4`` becomes ``--k 4``, and ``--dtype X`` becomes ``--model-option dtype=X``. Other words are
        returned as they are.
        """
        remaining = list(words)
        translated: list[str] = []
        names_of_options: dict[str, str] = {}
        while remaining:
            word = remaining.pop(0)
            name, equals_sign, value = word.partition("=")
            own_option = self._own_option(name)
            if own_option is not None:
                self._refuse_second_name(own_option, name.replace("_", "-"), names_of_options)
                translated.append(f"{own_option}{equals_sign}{value}")
            elif word.startswith("--") and self._takes_model_options():
                translated += self._as_model_option(word, remaining)
            else:
                translated.append(word)
        return translated

    def _refuse_second_name(self, option: str, name: str, names_of_options: dict[str, str]) -> None:
        """Exit with an error if an option is given under two names, such as --datasets and --tasks.

        Args:
            option: The option of this command.
            name: The name under which it is given now.
            names_of_options: The name under which each option was given first; this one is added.
        """
        first_name = names_of_options.setdefault(option, name)
        both = {option, first_name, name}
        if first_name != name and not both <= set(self._option_string_actions):
            self.error(f"{first_name} and {name} mean the same here: got both. Give only {option}")

    def _own_option(self, name: str) -> str | None:
        """Return the option of this command that a word names; ``None`` if there is none.

        The word may have underscores for hyphens, or be the name of the option in another tool.

        Args:
            name: The word, such as ``--num_fewshot`` for ``--k``.
        """
        option = name.replace("_", "-")
        if option in self._option_string_actions:
            return option
        equivalent = EQUIVALENTS.get(option)
        if equivalent in self._option_string_actions:
            return equivalent
        return None

    def _as_model_option(self, word: str, following: list[str]) -> list[str]:
        """Return ``--model-option NAME=VALUE`` for an option of models; the word itself if it is none.

        Args:
            word: The option, perhaps with a value behind an equals sign.
            following: The words after it; its value is removed from them.
        """
        name, equals_sign, value_behind_sign = word.partition("=")
        name = name.replace("_", "-")
        if name in ADVICE:
            self._refuse_option(word)  # here, because argparse would read --template as --templates
        option = EQUIVALENTS.get(name, name)
        has_fixed_value = "=" in option  # such as prompt_format=chat for --apply-chat-template
        if has_fixed_value:
            if equals_sign and value_behind_sign.casefold() != "true":
                self.error(
                    f"{name}: got the value {value_behind_sign!r}, expected none: it means {option}. Leave it out"
                )
            return ["--model-option", option]

        option_type = _model_option_types().get(option)
        is_model_option = option_type is not None or name in EQUIVALENTS
        if not is_model_option:
            return [word]
        value: str | None = value_behind_sign
        if not equals_sign:
            value = _take_value(option_type, following)
        if not value:
            self.error(f"{name}: got no value, expected one. Before a value that begins with -- write an equals sign")
        argument_name = option.removeprefix("--").replace("-", "_")
        return ["--model-option", f"{argument_name}={value}"]

    def error(self, message: str) -> NoReturn:
        """Print one line of usage and an error message, and exit with the status 2.

        If the error is that a name such as that of a command is missing, the message lists the names that there are.

        Args:
            message: What is wrong.
        """
        for action in self._actions:
            is_positional = not action.option_strings
            # argparse has no other sign of this error than its text: "the following arguments are required: NAME".
            is_missing = message.endswith(f"are required: {action.metavar}")
            if is_positional and is_missing and action.choices:
                message += f". There are: {', '.join(map(str, action.choices))}."
        self.exit(2, f"{self._short_usage()}\n{self.prog}: error: {message}\n")

    def _short_usage(self) -> str:
        """Return the usage in one line: the arguments that must be given, and the option that lists all others."""
        needed = [action for action in self._actions if action.required or not action.option_strings]
        formatter = argparse.HelpFormatter(f"{self.prog} [options]", width=_ONE_LINE)
        formatter.add_usage(None, needed, [])
        return f"{formatter.format_help().strip()} (all options: {self.prog} --help)"

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """Return how many of the next words an argument takes; an error about missing values says how it is written.

        argparse has no public hook for this message.
        """
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            if not action.option_strings:
                raise
            raise argparse.ArgumentError(action, f"{error.message}: {_usage_of(action)}") from None

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the converted value of an argument; a choice that is written in another way becomes the choice.

        argparse has no public hook for choices in any case, or for the message about a number.
        """
        if action.type in _EXPECTED_NUMBERS:
            action = _with_checked_type(action)
        value = super()._get_value(action, arg_string)
        is_command = isinstance(action, argparse._SubParsersAction)
        if action.choices is None or is_command or not isinstance(value, str):
            return value
        if value in action.choices:  # before a loop over the choices, which reads the plug-ins
            return value
        for choice in action.choices:
            if fold(str(choice)) == fold(value):
                return choice
        return value

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an error that suggests the nearest choice if a value is none of the choices.

        argparse has no public hook to change this message.
        """
        if action.choices is None or value in action.choices:
            return
        kind = "value"
        is_positional = not action.option_strings
        if is_positional:
            kind = str(action.metavar or action.dest).lower()
        hint = ""
        if kind == "command":
            hint = "Run a benchmark with: python -m StaICC run NAME"
        choices = map(str, action.choices)
        raise argparse.ArgumentError(action, str(unknown_name(kind, value, choices, hint)))


def _usage_of(action: argparse.Action) -> str:
    """Return how an option is written with its values, and its help: ``--limit N, use only the first N ...``."""
    if action.help is None:
        return _written(action)
    help_text = argparse.HelpFormatter("", width=_ONE_LINE)._expand_help(action)
    return f"{_written(action)}, {help_text}"


def _written(action: argparse.Action) -> str:
    """Return how an option is written with its values: ``--limit N``."""
    formatter = argparse.HelpFormatter("", width=_ONE_LINE)
    values = formatter._format_args(action, action.dest.upper())
    return f"{action.option_strings[-1]} {values}"


def _with_checked_type(action: argparse.Action) -> argparse.Action:
    """Return a copy of an argument whose values are numbers. Its error about another value says what is expected."""
    checked_action = copy.copy(action)
    convert: Any = action.type
    checked_action.type = Converted(convert, _EXPECTED_NUMBERS[convert])
    return checked_action


def _option_name(word: str) -> str:
    """Return the option of a word such as ``--max_tokens=5``: ``--max-tokens``."""
    return word.partition("=")[0].replace("_", "-")


def _take_value(option_type: str | None, following: list[str]) -> str | None:
    """Take the value of a model option from the words after it.

    Args:
        option_type: The annotated type of the option; ``None`` if it is not known.
        following: The words after the option; the value is removed from them.

    Returns:
        The value; ``"true"`` for a flag without a value, ``None`` if there is none.
    """
    has_truth_value = bool(following) and following[0].casefold() in ("true", "false")
    if option_type == "bool" and not has_truth_value:
        return "true"
    if following and not following[0].startswith("--"):
        return following.pop(0)
    return None


_SETTINGS_OF_TYPE: Mapping[str, dict[str, Any]] = {
    "int": {"type": int, "metavar": "N"},
    "float": {"type": float, "metavar": "X"},
    "str": {},
}
"""Arguments of ``add_argument``, by the annotation of a parameter."""


def add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any], *names: str) -> None:
    """Add options for arguments of a Python function, with its types and defaults; their help is its docstring.

    Args:
        parser: The parser of a command that calls the function.
        function: The function.
        *names: The arguments.
    """
    parameters = inspect.signature(function).parameters
    docstring = inspect.getdoc(function) or ""
    for name in names:
        default = parameters[name].default
        annotation = str(parameters[name].annotation).removesuffix(" | None")
        text = _argument_help(docstring, name)
        if default is not None:
            text += f" (default: {default})"
        parser.add_argument(flag(name), default=default, help=text, **_SETTINGS_OF_TYPE[annotation])


def _argument_help(docstring: str, name: str) -> str:
    """Return what a Google-style docstring says about an argument, as the help of an option; empty if nothing.

    The help is one line in lower case, without a full stop and without references to other functions.
    """
    # The entry of the argument: its name, and further lines that are indented by eight blanks.
    match = re.search(rf"^    {name}: (.+(?:\n {{8}}.+)*)", docstring, re.MULTILINE)
    if match is None:
        return ""
    text = " ".join(match[1].split()).rstrip(".")
    text = text.replace("``", "").replace("%", "%%")
    lower_case_text = text[:1].lower() + text[1:]
    return re.sub(r" \(see :.*?\)", "", lower_case_text)


@dataclass(frozen=True, slots=True)
class Converted:
    """A type of an argument, for argparse: a function that reads a value, and a text about the values."""

    convert: Callable[[str], Any]
    """Reads a value, or raises a ValueError."""
    expected: str
    """What the value should be, for messages."""

    def __call__(self, text: str) -> Any:
        """Return the value that a text states.

        Raises:
            ArgumentTypeError: The text is no such value.
        """
        try:
            return self.convert(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"got {text!r}, expected {self.expected}") from None


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
